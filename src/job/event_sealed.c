/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event of a sealed version: its bytes, and which parts of its largest regions changed, as the extent map has it.
 * What is at the same place in the parent did not change; without a parent nobody knows, and there is no map.
 */
#include "job/handle.h"

struct sums {
	uint64_t bytes, changed, stored;
};

/* One region: its sums, and of each part the bytes that changed. */
static void region_walk(const struct kedge__version *v, size_t region, struct sums *sums,
			uint64_t parts[KEDGE__JOURNAL_PARTS])
{
	const struct kedge__image_region *r = &v->regions[region];
	uint64_t part = (r->bytes + KEDGE__JOURNAL_PARTS - 1) / KEDGE__JOURNAL_PARTS, end = r->base + r->bytes;
	struct kedge__extent_reader map = kedge__extents_from(&v->reduction.map, r->base);
	struct kedge__extent e;

	*sums = (struct sums){.bytes = r->bytes};
	memset(parts, 0, KEDGE__JOURNAL_PARTS * sizeof(*parts));
	if (!r->bytes)
		return;
	while (kedge__extent_next(&map, &e) && e.addr < end) {
		uint64_t at = KEDGE__MAX(e.addr, r->base) - r->base, stop = KEDGE__MIN(e.addr + e.len, end) - r->base;

		sums->stored += e.kind == KEDGE__EXTENT_LITERAL ? stop - at : 0;
		if (e.kind == KEDGE__EXTENT_PARENT)
			continue;
		sums->changed += stop - at;
		while (at < stop) {
			uint64_t next = KEDGE__MIN((at / part + 1) * part, stop);

			parts[at / part] += next - at;
			at = next;
		}
	}
}

/* Sixteenths, from 0 (none) to f (all), rounded so that only what is nothing is 0 and only what is all is f. */
static char digit(uint64_t changed, uint64_t bytes)
{
	if (!changed)
		return '0';
	if (changed >= bytes)
		return 'f';
	return "123456789abcde"[(size_t)((double)changed / (double)bytes * 14)];
}

/* Regions of less than PARTS bytes have as many parts as bytes. */
static void map_text(const uint64_t parts[KEDGE__JOURNAL_PARTS], uint64_t bytes, char text[KEDGE__JOURNAL_PARTS + 1])
{
	uint64_t part = (bytes + KEDGE__JOURNAL_PARTS - 1) / KEDGE__JOURNAL_PARTS;
	size_t n = 0;

	for (uint64_t at = 0; at < bytes; at += part, n++)
		text[n] = digit(parts[n], KEDGE__MIN(part, bytes - at));
	text[n] = '\0';
}

/* The largest regions, in their own order: CHOSEN ascends. Returns how many. */
static size_t choose(const struct kedge__version *v, size_t chosen[KEDGE__JOURNAL_REGIONS])
{
	size_t n = 0;

	for (size_t i = 0; i < v->region_count; i++) {
		size_t least = 0;

		if (n < KEDGE__JOURNAL_REGIONS) {
			chosen[n++] = i;
			continue;
		}
		for (size_t c = 1; c < n; c++)
			least = v->regions[chosen[c]].bytes < v->regions[chosen[least]].bytes ? c : least;
		if (v->regions[i].bytes <= v->regions[chosen[least]].bytes)
			continue;
		memmove(chosen + least, chosen + least + 1, (n - least - 1) * sizeof(*chosen));
		chosen[n - 1] = i;
	}
	return n;
}

static void sums_put(struct kedge__line *l, const struct sums *s, bool parent)
{
	kedge__line_uint(l, "bytes", s->bytes);
	if (parent)
		kedge__line_uint(l, "changed_bytes", s->changed);
	kedge__line_uint(l, "new_bytes", s->stored);
}

static struct sums sums_all(const struct kedge__version *v)
{
	struct kedge__extent_reader map = kedge__extents_of_tape(&v->reduction.map);
	struct sums all = {.bytes = 0};
	struct kedge__extent e;

	for (size_t i = 0; i < v->region_count; i++)
		all.bytes += v->regions[i].bytes;
	while (kedge__extent_next(&map, &e)) {
		all.changed += e.kind == KEDGE__EXTENT_PARENT ? 0 : e.len;
		all.stored += e.kind == KEDGE__EXTENT_LITERAL ? e.len : 0;
	}
	return all;
}

static void regions_put(const struct kedge__version *v, struct kedge__line *l)
{
	bool parent = v->reduction.parent != KEDGE__NO_VERSION;
	uint64_t parts[KEDGE__JOURNAL_PARTS];
	char text[KEDGE__JOURNAL_PARTS + 1];
	struct sums rest = sums_all(v), own;
	size_t chosen[KEDGE__JOURNAL_REGIONS], n = choose(v, chosen);

	sums_put(l, &rest, parent);
	kedge__line_list(l, "regions");
	for (size_t i = 0; i < n; i++) {
		region_walk(v, chosen[i], &own, parts);
		kedge__line_item(l);
		kedge__line_text(l, "name", v->records[chosen[i]].name);
		sums_put(l, &own, parent);
		map_text(parts, own.bytes, text);
		if (parent)
			kedge__line_text(l, "map", text);
		kedge__line_close(l);
		rest = (struct sums){rest.bytes - own.bytes, rest.changed - own.changed, rest.stored - own.stored};
	}
	kedge__line_close(l);
	if (n == v->region_count)
		return;
	kedge__line_object(l, "others");
	kedge__line_uint(l, "count", v->region_count - n);
	sums_put(l, &rest, parent);
	kedge__line_close(l);
}

void kedge__journal_sealed_put(const struct kedge__version *v, const struct kedge__set *set, uint64_t raw,
			       uint64_t stored, struct kedge__line *l)
{
	const char *reducer = kedge__reducer_name(v->reduction.reducer);

	kedge__line_uint(l, "version", v->version);
	kedge__line_seconds(l, "blocked_seconds", set->seconds);
	kedge__line_seconds(l, "seconds", kedge__clock_seconds() - v->started);
	kedge__line_uint(l, "raw_bytes", raw);
	kedge__line_uint(l, "stored_bytes", stored);
	if (v->reduction.parent != KEDGE__NO_VERSION)
		kedge__line_uint(l, "parent", v->reduction.parent);
	kedge__line_text(l, "reducer", reducer ? reducer : "unknown");
	if (v->note[0])
		kedge__line_text(l, "note", v->note);
	kedge__line_object(l, "rank0");
	regions_put(v, l);
	kedge__line_close(l);
}
