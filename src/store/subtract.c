/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of an image that an older one already has. Literals are equal if they are the same place of the same file,
 * so nothing is read or compared. Bytes that the older image has, at the same address or elsewhere, become references
 * to it; the rest is new.
 */
#include "store/internal.h"

struct subtract {
	const struct kedge__lineage *image, *parent;
	uint64_t parent_version;
	struct kedge__span_list have;   /* the parent's spans */
	struct kedge__span_list owners; /* and its literals by source */
	struct kedge__span_list fresh, outer;
	uint64_t known; /* version of the last answer below */
	bool shared;
};

/* The two were opened separately: one may have found another copy of a segment, with its literals elsewhere. */
static bool is_shared(struct subtract *s, uint64_t version)
{
	const struct kedge__segment *a, *b;

	if (version == s->known)
		return s->shared;
	a = kedge__lineage_segment(s->image, version);
	b = kedge__lineage_segment(s->parent, version);
	s->known = version;
	s->shared = a && b && strcmp(a->path, b->path) == 0;
	return s->shared;
}

static int push(struct kedge__span_list *list, struct kedge__span s, struct kedge__error *err)
{
	struct kedge__span *last = list->count ? &list->at[list->count - 1] : NULL;

	if (last && last->fill == s.fill && last->version == s.version && last->addr + last->len == s.addr &&
	    (s.fill ? last->src == s.src : last->src + last->len == s.src)) {
		last->len += s.len;
		return 0;
	}
	return kedge__array_push(list, s) ? 0 : kedge__error_nomem(err);
}

static int push_outer(struct subtract *s, uint64_t addr, uint64_t len, uint64_t src, struct kedge__error *err)
{
	return push(&s->outer, (struct kedge__span){.addr = addr, .len = len, .src = src, .version = s->parent_version},
		    err);
}

static struct kedge__span part_of(const struct kedge__span *span, uint64_t skip, uint64_t len)
{
	return (struct kedge__span){.addr = span->addr + skip,
				    .len = len,
				    .src = span->fill ? span->src : span->src + skip,
				    .version = span->version,
				    .fill = span->fill};
}

static bool is_same(struct subtract *s, const struct kedge__span *a, const struct kedge__span *b, uint64_t addr)
{
	if (a->fill || b->fill)
		return a->fill && b->fill && a->src == b->src;
	return a->version == b->version && a->src + (addr - a->addr) == b->src + (addr - b->addr) &&
	       is_shared(s, a->version);
}

/* A literal that the parent does not have at this address, but perhaps at another. */
static int put_moved(struct subtract *s, const struct kedge__span *p, struct kedge__error *err)
{
	uint64_t done = 0;
	size_t i = kedge__span_owner_index(&s->owners, p->version, p->src);
	int rc = 0;

	while (done < p->len && !rc) {
		const struct kedge__span *o = i < s->owners.count ? &s->owners.at[i] : NULL;
		uint64_t src = p->src + done, len = p->len - done;

		if (o && (o->version < p->version || (o->version == p->version && o->src + o->len <= src))) {
			i++;
		} else if (!o || o->version > p->version || o->src >= src + len) {
			rc = push(&s->fresh, part_of(p, done, len), err);
			done += len;
		} else if (o->src > src) {
			rc = push(&s->fresh, part_of(p, done, o->src - src), err);
			done += o->src - src;
		} else {
			len = KEDGE__MIN(len, o->src + o->len - src);
			rc = push_outer(s, p->addr + done, len, o->addr + (src - o->src), err);
			done += len;
		}
	}
	return rc;
}

static int put(struct subtract *s, const struct kedge__span *span, uint64_t skip, uint64_t len, bool same,
	       struct kedge__error *err)
{
	struct kedge__span part = part_of(span, skip, len);

	if (same)
		return push_outer(s, part.addr, len, part.addr, err);
	if (!part.fill && is_shared(s, part.version))
		return put_moved(s, &part, err);
	return push(&s->fresh, part, err);
}

static int walk(struct subtract *s, const struct kedge__span_list *spans, struct kedge__error *err)
{
	size_t k = 0;
	int rc = 0;

	for (size_t i = 0; i < spans->count && !rc; i++) {
		const struct kedge__span *a = &spans->at[i];
		uint64_t done = 0;

		while (done < a->len && !rc) {
			uint64_t addr = a->addr + done, len = a->len - done;
			const struct kedge__span *b;
			bool same = false;

			while (k < s->have.count && s->have.at[k].addr + s->have.at[k].len <= addr)
				k++;
			b = k < s->have.count ? &s->have.at[k] : NULL;
			if (b && b->addr > addr) {
				len = KEDGE__MIN(len, b->addr - addr);
			} else if (b) {
				len = KEDGE__MIN(len, b->addr + b->len - addr);
				same = is_same(s, a, b, addr);
			}
			rc = put(s, a, done, len, same, err);
			done += len;
		}
	}
	return rc;
}

int kedge__spans_subtract(const struct kedge__lineage *image, struct kedge__lineage *parent,
			  struct kedge__span_list *spans, struct kedge__span_list *outer, struct kedge__error *err)
{
	struct subtract s = {.image = image,
			     .parent = parent,
			     .parent_version = kedge__lineage_top(parent)->header.version,
			     .known = KEDGE__NO_VERSION};
	struct kedge__span_list all = *spans;
	int rc = kedge__lineage_resolve(parent, NULL, 0, &s.have, err);

	if (!rc)
		rc = kedge__span_owners(&s.have, &s.owners, err);
	if (!rc)
		rc = walk(&s, &all, err);
	if (!rc) {
		*spans = s.fresh;
		*outer = s.outer;
		kedge__span_list_done(&all);
	} else {
		kedge__span_list_done(&s.fresh);
		kedge__span_list_done(&s.outer);
	}
	kedge__span_list_done(&s.have);
	kedge__array_done(&s.owners);
	return rc;
}
