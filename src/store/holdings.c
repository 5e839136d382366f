/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/internal.h"

void kedge__holdings_done(struct kedge__holdings *h)
{
	kedge__array_done(&h->list);
	kedge__array_done(&h->needs);
	*h = (struct kedge__holdings){.removals = h->removals};
}

void kedge__holdings_clear(struct kedge__holdings *h)
{
	for (size_t i = 0; i < h->list.count; i++)
		h->removals += h->list.at[i].usable;
	h->list.count = h->needs.count = 0;
	h->digest = 0;
}

/* The first holding that is not below VERSION. */
static size_t place_of(const struct kedge__holdings *h, uint64_t version)
{
	size_t n = h->list.count, i;

	if (n && h->list.at[n - 1].version < version) /* a new version comes after all others */
		return n;
	KEDGE__PARTITION_POINT(i, n, h->list.at[i].version < version);
	return i;
}

static bool is_at(const struct kedge__holdings *h, size_t i, uint64_t version)
{
	return i < h->list.count && h->list.at[i].version == version;
}

const struct kedge__holding *kedge__holdings_find(const struct kedge__holdings *h, uint64_t version)
{
	size_t i = place_of(h, version);

	return is_at(h, i, version) ? &h->list.at[i] : NULL;
}

const struct kedge__holding *kedge__holdings_newest(const struct kedge__holdings *h)
{
	for (size_t i = h->list.count; i; i--) {
		if (h->list.at[i - 1].usable)
			return &h->list.at[i - 1];
	}
	return NULL;
}

static uint64_t digest_of(const struct kedge__holding *v)
{
	uint64_t mix[2] = {v->version, v->image};

	return kedge__checksum(mix, sizeof(mix));
}

static bool needs_are_usable(const struct kedge__holdings *h, const struct kedge__holding *v)
{
	for (size_t i = 0; i < v->need_count; i++) {
		uint64_t need = h->needs.at[v->needs + i];
		const struct kedge__holding *other = need < v->version ? kedge__holdings_find(h, need) : NULL;

		if (!other || !other->usable)
			return false;
	}
	return true;
}

/* A version comes after all that it refers to: one pass upwards is enough. */
static void usable_settle(struct kedge__holdings *h, size_t from)
{
	for (size_t i = from; i < h->list.count; i++) {
		struct kedge__holding *v = &h->list.at[i];
		bool usable = needs_are_usable(h, v);

		if (usable == v->usable)
			continue;
		h->digest += usable ? digest_of(v) : -digest_of(v);
		h->removals += !usable;
		v->usable = usable;
	}
}

/* What is held changes as long as a job runs: nothing may stay of a version that left. */
static void needs_take_out(struct kedge__holdings *h, size_t first, size_t count)
{
	size_t end = first + count;

	if (end < h->needs.count) {
		memmove(h->needs.at + first, h->needs.at + end, (h->needs.count - end) * sizeof(*h->needs.at));
		for (size_t i = 0; i < h->list.count; i++)
			h->list.at[i].needs -= h->list.at[i].needs >= end ? count : 0;
	}
	h->needs.count -= count;
}

static void take_out(struct kedge__holdings *h, size_t i)
{
	const struct kedge__holding gone = h->list.at[i];

	if (gone.usable) {
		h->digest -= digest_of(&gone);
		h->removals++;
	}
	h->list.count--;
	memmove(h->list.at + i, h->list.at + i + 1, (h->list.count - i) * sizeof(*h->list.at));
	if (gone.need_count)
		needs_take_out(h, gone.needs, gone.need_count);
}

void kedge__holdings_remove(struct kedge__holdings *h, uint64_t version)
{
	size_t i = place_of(h, version);

	if (!is_at(h, i, version))
		return;
	take_out(h, i);
	usable_settle(h, i);
}

bool kedge__holdings_add(struct kedge__holdings *h, struct kedge__holding fresh, const uint64_t *needs,
			 size_t need_count)
{
	size_t i = place_of(h, fresh.version);

	if (is_at(h, i, fresh.version))
		take_out(h, i);
	if (!kedge__array_reserve(&h->list, h->list.count + 1) ||
	    !kedge__array_reserve(&h->needs, h->needs.count + need_count)) {
		usable_settle(h, i);
		return false;
	}
	fresh.needs = h->needs.count;
	fresh.need_count = need_count;
	fresh.usable = false;
	if (need_count)
		memcpy(h->needs.at + h->needs.count, needs, need_count * sizeof(*needs));
	h->needs.count += need_count;
	memmove(h->list.at + i + 1, h->list.at + i, (h->list.count - i) * sizeof(fresh));
	h->list.at[i] = fresh;
	h->list.count++;
	usable_settle(h, i);
	return true;
}

bool kedge__holdings_mark(const struct kedge__holdings *h, uint64_t version, uint8_t *marks)
{
	size_t top = place_of(h, version);
	bool found = is_at(h, top, version);

	if (!found)
		return false;
	marks[top] = 1;
	/* References go to older versions only, so one pass downwards finds them all. */
	for (size_t i = top + 1; i-- > 0;) {
		const struct kedge__holding *v = &h->list.at[i];

		for (size_t n = 0; marks[i] && n < v->need_count; n++) {
			uint64_t need = h->needs.at[v->needs + n];
			size_t at = place_of(h, need);

			if (need < v->version && is_at(h, at, need))
				marks[at] = 1;
			else
				found = false;
		}
	}
	return found;
}

/* ------------------------------------------------------------------ from a catalogue */

uint64_t kedge__set_image(const struct kedge__set *set)
{
	uint64_t id = set->ranks;

	for (uint32_t r = 0; r < set->ranks; r++) {
		uint64_t mix[3] = {id, set->parts[r].image_id.lo, set->parts[r].image_id.hi};

		id = kedge__checksum(mix, sizeof(mix));
	}
	return id;
}

uint64_t kedge__set_files(const struct kedge__set *set)
{
	uint64_t id = set->ranks;

	for (uint32_t r = 0; r < set->ranks; r++) {
		uint64_t mix[3] = {id, set->parts[r].seal.lo, set->parts[r].seal.hi};

		id = kedge__checksum(mix, sizeof(mix));
	}
	return id;
}

static void holding_fill(const struct kedge__set *set, uint64_t image, uint64_t files, struct kedge__holding *out)
{
	*out = (struct kedge__holding){
	    .version = set->version,
	    .image = image,
	    .files = files,
	    .run = set->run.id,
	    .created_ns = set->created_ns,
	    .merged = set->reducer == KEDGE__REDUCER_MERGED,
	};
	for (uint32_t r = 0; r < set->ranks; r++)
		out->bytes = KEDGE__MAX(out->bytes, set->parts[r].file_bytes);
}

void kedge__holding_of(const struct kedge__set *set, struct kedge__holding *out)
{
	holding_fill(set, kedge__set_image(set), kedge__set_files(set), out);
}

void kedge__holding_of_entry(const struct kedge__catalog_entry *entry, struct kedge__holding *out)
{
	holding_fill(&entry->set, entry->image, entry->files, out);
}

int kedge__holdings_read(struct kedge__holdings *h, const struct kedge__catalog *cat, uint32_t ranks,
			 const struct kedge__run *run, uint64_t from, struct kedge__error *err)
{
	kedge__holdings_clear(h);
	for (size_t i = 0; i < kedge__catalog_count(cat); i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);
		struct kedge__holding v;

		if (e->problem.code || e->set.ranks != ranks || e->version < from ||
		    (run && !kedge__history_has(run, &e->set)))
			continue;
		kedge__holding_of_entry(e, &v);
		if (!kedge__holdings_add(h, v, e->set.sources, e->set.source_count)) {
			kedge__holdings_clear(h);
			return kedge__error_nomem(err);
		}
	}
	return 0;
}
