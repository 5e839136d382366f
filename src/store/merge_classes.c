/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Literals that were arranged by classes stay so when versions are merged: those of one class of all versions become
 * neighbours, each version's in the order that they have there.
 */
#include "store/internal.h"

#include <stdlib.h>

struct source { /* a segment with classes */
	const struct kedge__segment *seg;
	uint32_t *of;      /* each block: its class there + 1; 0: none */
	uint32_t *numbers; /* each class: its number here + 1; 0: not used yet */
};

struct sorter {
	struct kedge__lineage *lineage;
	struct kedge__reduction *red;
	KEDGE__ARRAY(struct source) sources;
	KEDGE__ARRAY(struct kedge__arrange_piece) pieces;
};

static int source_add(struct sorter *s, const struct kedge__segment *seg, struct kedge__error *err)
{
	struct source fresh = {.seg = seg};
	size_t at = seg->block_count;

	fresh.of = kedge__calloc(seg->block_count + 1, sizeof(*fresh.of));
	fresh.numbers = kedge__calloc(seg->classes.count + 1, sizeof(*fresh.numbers));
	if (!fresh.of || !fresh.numbers || !kedge__array_push(&s->sources, fresh)) {
		kedge__free(fresh.of);
		kedge__free(fresh.numbers);
		return kedge__error_nomem(err);
	}
	for (size_t i = 0; i < seg->classes.count; i++)
		at -= (size_t)seg->classes.at[i].blocks; /* they are the last ones, checked when it was read */
	for (size_t i = 0; i < seg->classes.count; i++)
		for (uint64_t k = 0; k < seg->classes.at[i].blocks; k++)
			fresh.of[at++] = (uint32_t)i + 1;
	return 0;
}

static struct source *source_find(const struct sorter *s, const struct kedge__segment *seg)
{
	for (size_t i = 0; i < s->sources.count; i++)
		if (s->sources.at[i].seg == seg)
			return &s->sources.at[i];
	return NULL;
}

/* The class called as C here, + 1; 0: no memory. */
static uint32_t class_get(struct sorter *s, const struct kedge__class_record *c)
{
	struct kedge__literal_classes *list = &s->red->classes;
	struct kedge__literal_class fresh = {.type = (enum kedge_type)c->type, .ndims = (int)c->ndims};

	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->at[i].name, c->name) == 0 && (uint32_t)list->at[i].type == c->type)
			return (uint32_t)i + 1;
	memcpy(fresh.dims, c->dims, sizeof(fresh.dims));
	fresh.name = kedge__strdup(c->name);
	if (!fresh.name || !kedge__array_push(list, fresh)) {
		kedge__free(fresh.name);
		return 0;
	}
	return (uint32_t)list->count;
}

/* What is of one class, from SRC on, of up to LEFT bytes. -1: no memory. */
static int64_t class_at(struct sorter *s, struct source *from, uint64_t src, uint64_t left, uint64_t *len)
{
	size_t b = kedge__segment_find_block(from->seg, src), end = b + 1;
	uint32_t class = from->of[b];

	while (end < from->seg->block_count && from->of[end] == class && from->seg->blocks[end].position < src + left)
		end++;
	*len = KEDGE__MIN(left, from->seg->blocks[end - 1].position + from->seg->blocks[end - 1].raw_bytes - src);
	if (!class)
		return 0;
	if (!from->numbers[class - 1])
		from->numbers[class - 1] = class_get(s, &from->seg->classes.at[class - 1]);
	return from->numbers[class - 1] ? (int64_t)from->numbers[class - 1] : -1;
}

static int piece_add(struct sorter *s, const struct kedge__merge_piece *p, uint32_t region, struct kedge__error *err)
{
	struct source *from =
	    p->version == KEDGE__NO_VERSION ? NULL : source_find(s, kedge__lineage_segment(s->lineage, p->version));

	for (uint64_t done = 0, len = p->len; done < p->len; done += len) {
		struct kedge__arrange_piece part = {
		    .position = p->position + done, .region = region, .major = p->version, .minor = p->src + done};
		int64_t class = from ? class_at(s, from, p->src + done, p->len - done, &len) : 0;

		part.bytes = len;
		part.class = (uint32_t) class;
		if (class < 0 || !kedge__array_push(&s->pieces, part))
			return kedge__error_nomem(err);
		if (class)
			s->red->classes.at[class - 1].pieces++;
	}
	return 0;
}

/* Pieces end where literals of another region begin. */
static int pieces_add(struct sorter *s, const struct kedge__merge_piece *at, size_t n, struct kedge__error *err)
{
	const struct kedge__literal_list *literals = &s->red->literals;
	uint64_t end = 0;
	size_t l = 0;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		while (l < literals->count && at[i].position >= end)
			end += literals->at[l++].bytes;
		rc = piece_add(s, &at[i], literals->at[l - 1].region, err);
	}
	return rc;
}

static int position_order(const void *a, const void *b)
{
	uint64_t x = ((const struct kedge__merge_piece *)a)->position,
		 y = ((const struct kedge__merge_piece *)b)->position;

	return (x > y) - (x < y);
}

/* Where the bytes of the new literals come from. */
static int pieces_renew(const struct sorter *s, struct kedge__merge_pieces *out, struct kedge__error *err)
{
	struct kedge__merge_pieces fresh = {0};

	if (!kedge__array_reserve(&fresh, s->pieces.count + 1))
		return kedge__error_nomem(err);
	for (size_t i = 0; i < s->pieces.count; i++) {
		const struct kedge__arrange_piece *p = &s->pieces.at[i];

		fresh.at[fresh.count++] = (struct kedge__merge_piece){p->to, p->major, p->minor, p->bytes};
	}
	qsort(fresh.at, fresh.count, sizeof(*fresh.at), position_order);
	kedge__array_done(out);
	*out = fresh;
	return 0;
}

static int arrange(struct sorter *s, struct kedge__merge_pieces *pieces, struct kedge__error *err)
{
	int rc = pieces_add(s, pieces->at, pieces->count, err);

	if (rc || !s->red->classes.count)
		return rc;
	/* A pattern has its bytes from its beginning on; such pieces are never cut. */
	rc = kedge__reduction_arrange(s->red, s->pieces.at, s->pieces.count, err);
	return rc ? rc : pieces_renew(s, pieces, err);
}

static void scheme_take(struct kedge__literal_classes *to, const struct kedge__classes_record *from)
{
	to->scheme = from->scheme;
	to->block = from->block;
	to->reason = from->reason;
	to->age = from->age;
	memcpy(to->sizes, from->sizes, sizeof(to->sizes));
}

int kedge__merge_classes(struct kedge__lineage *l, struct kedge__merge_pieces *pieces, struct kedge__reduction *red,
			 struct kedge__error *err)
{
	struct sorter s = {.lineage = l, .red = red};
	int rc = 0;

	for (size_t i = 0; i < kedge__lineage_count(l) && !rc; i++) {
		const struct kedge__segment *seg = kedge__lineage_at(l, i);

		if (!seg->classes.count)
			continue;
		if (!s.sources.count || seg == kedge__lineage_top(l))
			scheme_take(&red->classes, &seg->classes);
		rc = source_add(&s, seg, err);
	}
	if (!rc && s.sources.count && pieces->count)
		rc = arrange(&s, pieces, err);
	for (size_t i = 0; i < s.sources.count; i++) {
		kedge__free(s.sources.at[i].of);
		kedge__free(s.sources.at[i].numbers);
	}
	kedge__array_done(&s.sources);
	kedge__array_done(&s.pieces);
	return rc;
}
