/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lab.h: a small world for tests of reducers: regions that are edited, versions that are taken of them, with a copy of
 * what they must come back as, and a restore that knows nothing but maps and literals.
 */
#ifndef KEDGE_TESTS_REDUCE_LAB_H
#define KEDGE_TESTS_REDUCE_LAB_H

#include "../lib/cases.h"
#include "../lib/draw.h"
#include "../lib/tape.h"
#include "reduce/reduce.h"

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAB_SANITIZED 1
#define LAB_SCALE(n)  ((n) / 10 + 1)
#else
#define LAB_SANITIZED 0
#define LAB_SCALE(n)  (n)
#endif

#define LAB_UNUSED    __attribute__((unused))
#define LAB_REGIONS   8
#define LAB_VERSIONS  64
#define LAB_SLOT(n)   ((uint64_t)(n) << KEDGE__SLOT_SHIFT)
#define LAB_UNLIMITED (UINT64_C(64) << 20)

struct lab_version {
	uint64_t version;
	struct kedge__reduction red;
	struct kedge__extent_map map; /* what red has */
	uint8_t *literals;
	uint8_t *copy[LAB_REGIONS];
	uint64_t bytes[LAB_REGIONS]; /* by slot */
	bool present[LAB_REGIONS];
	struct kedge__digest digest[LAB_REGIONS];
};

struct lab {
	uint8_t *data[LAB_REGIONS]; /* by slot; NULL and 0 bytes is fine */
	uint64_t bytes[LAB_REGIONS];
	bool present[LAB_REGIONS];
	struct lab_version versions[LAB_VERSIONS];
	size_t count;
	uint64_t seed;
};

static LAB_UNUSED uint64_t lab_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The region's memory, of another size and at another place. */
static LAB_UNUSED void lab_resize(struct lab *lab, int slot, uint64_t bytes)
{
	uint8_t *p = malloc(bytes ? bytes : 1);

	assert_non_null(p);
	if (lab->data[slot])
		memcpy(p, lab->data[slot], lab_min(bytes, lab->bytes[slot]));
	if (bytes > lab->bytes[slot])
		draw_bytes(&lab->seed, p + lab->bytes[slot], bytes - lab->bytes[slot]);
	free(lab->data[slot]);
	lab->data[slot] = p;
	lab->bytes[slot] = bytes;
	lab->present[slot] = true;
}

static LAB_UNUSED size_t lab_image(const struct lab *lab, struct kedge__image_region *out)
{
	size_t n = 0;

	for (int i = 0; i < LAB_REGIONS; i++)
		if (lab->present[i])
			out[n++] = (struct kedge__image_region){LAB_SLOT(i), lab->data[i], lab->bytes[i]};
	return n;
}

static LAB_UNUSED void lab_version_done(struct lab_version *v)
{
	kedge__reduction_done(&v->red);
	kedge__extent_map_done(&v->map);
	free(v->literals);
	for (int i = 0; i < LAB_REGIONS; i++)
		free(v->copy[i]);
	memset(v, 0, sizeof(*v));
}

static LAB_UNUSED void lab_done(struct lab *lab)
{
	for (int i = 0; i < LAB_REGIONS; i++)
		free(lab->data[i]);
	for (size_t i = 0; i < lab->count; i++)
		lab_version_done(&lab->versions[i]);
	memset(lab, 0, sizeof(*lab));
}

/* Map, literals and totals of V say the same, and cover the image. */
static LAB_UNUSED void lab_check(const struct lab_version *v)
{
	const struct kedge__reduction *red = &v->red;
	uint64_t literal = 0, filled = 0, copied = 0, parent = 0, raw = 0;
	struct kedge__extent_map flat = map_flat(&v->map);
	size_t i = 0;

	assert_int_equal(kedge__extent_map_check(&v->map, v->version, red->parent, red->literal_bytes, NULL), 0);
	for (int slot = 0; slot < LAB_REGIONS; slot++) {
		uint64_t at = LAB_SLOT(slot);

		raw += v->present[slot] ? v->bytes[slot] : 0;
		for (; i < flat.count && flat.at[i].addr >> KEDGE__SLOT_SHIFT == (uint64_t)slot; i++) {
			const struct kedge__extent *e = &flat.at[i];

			assert_int_equal(e->addr, at);
			at += e->len;
			if (e->kind == KEDGE__EXTENT_LITERAL) { /* from an earlier position it is a repetition */
				uint64_t again = e->src < literal ? lab_min(e->len, literal - e->src) : 0;

				assert_true(e->src + again == literal || e->len == again);
				copied += again;
				literal += e->len - again;
			}
			filled += e->kind == KEDGE__EXTENT_FILL ? e->len : 0;
			copied += e->kind == KEDGE__EXTENT_COPY ? e->len : 0;
			parent += e->kind == KEDGE__EXTENT_PARENT ? e->len : 0;
			if (e->kind == KEDGE__EXTENT_COPY && e->version != v->version) {
				size_t k = 0;

				while (k < red->source_count && red->sources[k] != e->version)
					k++;
				assert_true(k < red->source_count);
			}
		}
		assert_int_equal(at - LAB_SLOT(slot), v->present[slot] ? v->bytes[slot] : 0);
	}
	assert_int_equal(i, flat.count);
	kedge__extent_map_done(&flat);
	assert_int_equal(raw, red->raw_bytes);
	assert_int_equal(literal, red->literal_bytes);
	assert_int_equal(filled, red->fill_bytes);
	assert_int_equal(copied, red->duplicate_bytes);
	assert_int_equal(parent, raw - red->changed_bytes);
	assert_true((parent > 0) == (red->parent != KEDGE__NO_VERSION));
	for (size_t k = 0; k < red->source_count; k++)
		assert_true(red->sources[k] < v->version && (!k || red->sources[k - 1] < red->sources[k]));
}

/* Reduce the present state, of which HOW says more, as VERSION and keep what restore will need. Commits unless ROLLBACK. */
static LAB_UNUSED struct lab_version *lab_take_so(struct lab *lab, struct kedge__reducer *r, struct kedge__pool *pool,
						  uint64_t version, const struct kedge__reduce_how *how, bool rollback)
{
	struct kedge__image_region regions[LAB_REGIONS];
	struct kedge__image image = {regions, lab_image(lab, regions)};
	struct lab_version *v = &lab->versions[lab->count];
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint64_t at = 0;

	assert_true(lab->count < LAB_VERSIONS);
	memset(v, 0, sizeof(*v));
	if (kedge__reducer_reduce(r, pool, version, &image, how, &v->red, &err))
		fail_msg("reduce: %s", kedge__error_text(&err));
	if (rollback) {
		kedge__reducer_rollback(r);
		lab_version_done(v);
		return NULL;
	}
	v->version = version;
	v->map = tape_map(&v->red.map);
	v->literals = malloc(v->red.literal_bytes + 1);
	assert_non_null(v->literals);
	for (size_t i = 0; i < v->red.literals.count; i++) {
		const struct kedge__literal *l = &v->red.literals.at[i];

		assert_true(at + l->bytes <= v->red.literal_bytes && l->region < image.count);
		memcpy(v->literals + at, l->data, l->bytes);
		at += l->bytes;
	}
	assert_int_equal(at, v->red.literal_bytes);
	for (size_t i = 0; i < image.count; i++) {
		int slot = (int)(regions[i].base >> KEDGE__SLOT_SHIFT);

		v->present[slot] = true;
		v->bytes[slot] = regions[i].bytes;
		v->copy[slot] = malloc(regions[i].bytes + 1);
		assert_non_null(v->copy[slot]);
		if (regions[i].bytes)
			memcpy(v->copy[slot], regions[i].data, regions[i].bytes);
		v->digest[slot] = v->red.region_digests[i];
	}
	lab->count++;
	kedge__reducer_commit(r);
	lab_check(v);
	return v;
}

static LAB_UNUSED struct lab_version *lab_take(struct lab *lab, struct kedge__reducer *r, struct kedge__pool *pool,
					       uint64_t version, bool rollback)
{
	return lab_take_so(lab, r, pool, version, NULL, rollback);
}

static LAB_UNUSED int lab_load(void *ctx, uint64_t version, const struct kedge__extent_map **map, uint64_t *parent,
			       struct kedge__error *err)
{
	struct lab *lab = ctx;

	for (size_t i = lab->count; i-- > 0;) {
		if (lab->versions[i].version == version) {
			*map = &lab->versions[i].map;
			*parent = lab->versions[i].red.parent;
			return 0;
		}
	}
	return kedge__error_set(err, KEDGE_E_MISSING, 0, "no version %llu", (unsigned long long)version);
}

static LAB_UNUSED const struct lab_version *lab_find(const struct lab *lab, uint64_t version)
{
	for (size_t i = lab->count; i-- > 0;)
		if (lab->versions[i].version == version)
			return &lab->versions[i];
	return NULL;
}

static LAB_UNUSED void lab_fill(const struct lab *lab, const struct kedge__span *s, uint8_t *out)
{
	const struct lab_version *from = lab_find(lab, s->version);

	assert_non_null(from);
	if (s->fill) {
		for (uint64_t i = 0; i < s->len; i++)
			out[i] = (uint8_t)(s->src >> 8 * ((s->addr + i) & 7));
		return;
	}
	assert_true(s->src + s->len <= from->red.literal_bytes);
	memcpy(out, from->literals + s->src, s->len);
}

/* Restore V through the maps. 0: right, 1: wrong bytes that the region digest shows, 2: wrong bytes and nobody knows.
 */
static LAB_UNUSED int lab_restore(struct lab *lab, const struct lab_version *v)
{
	const struct kedge__map_source source = {lab_load, lab};
	int worst = 0;

	for (int slot = 0; slot < LAB_REGIONS; slot++) {
		struct kedge__range range = {LAB_SLOT(slot), v->bytes[slot]};
		struct kedge__span_list spans = {0};
		struct kedge__error err = KEDGE__ERROR_INIT;
		uint64_t at = 0;
		uint8_t *out;
		bool right, seen;

		if (!v->present[slot] || !v->bytes[slot])
			continue;
		if (kedge__resolve(&source, v->version, &range, 1, 0, &spans, NULL, &err)) {
			kedge__error_done(&err); /* refused is as good as found */
			worst = KEDGE__MAX(worst, 1);
			continue;
		}
		out = malloc(range.len);
		assert_non_null(out);
		for (size_t i = 0; i < spans.count; i++) {
			assert_int_equal(spans.at[i].addr, LAB_SLOT(slot) + at);
			lab_fill(lab, &spans.at[i], out + at);
			at += spans.at[i].len;
		}
		assert_int_equal(at, range.len);
		right = !memcmp(out, v->copy[slot], range.len);
		seen = !kedge__digest_equal(kedge__sum_digest(kedge__sum_of(out, range.len, 0), range.len),
					    v->digest[slot]);
		worst = KEDGE__MAX(worst, right ? 0 : seen ? 1 : 2);
		assert_false(right && seen);
		kedge__span_list_done(&spans);
		free(out);
	}
	return worst;
}

static LAB_UNUSED void lab_restore_all(struct lab *lab)
{
	for (size_t i = 0; i < lab->count; i++)
		assert_int_equal(lab_restore(lab, &lab->versions[i]), 0);
}

static LAB_UNUSED struct kedge__reducer *lab_reducer(enum kedge__reducer_id id, uint32_t chunk)
{
	struct kedge__reducer_options o = {.id = id, .chunk = chunk, .record_bytes = LAB_UNLIMITED};
	struct kedge__reducer *r = NULL;

	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	return r;
}

static LAB_UNUSED size_t lab_count(const struct lab_version *v, enum kedge__extent_kind kind)
{
	struct kedge__extent_reader map = kedge__extents_of_map(&v->map);
	struct kedge__extent e;
	size_t n = 0;

	while (kedge__extent_next(&map, &e))
		n += e.kind == kind;
	return n;
}

/* ---- edits */

static LAB_UNUSED int lab_some_region(struct lab *lab)
{
	for (int tries = 0; tries < 50; tries++) {
		int slot = (int)draw_below(&lab->seed, LAB_REGIONS);

		if (lab->present[slot] && lab->bytes[slot] > 16)
			return slot;
	}
	return -1;
}

/* A move of N bytes within or between regions, by whole units. */
static LAB_UNUSED void lab_move(struct lab *lab, int to, uint64_t unit)
{
	int from = lab_some_region(lab);
	uint64_t a, b, n;

	if (from < 0)
		return;
	a = draw_below(&lab->seed, lab->bytes[from]) / unit * unit;
	b = draw_below(&lab->seed, lab->bytes[to]) / unit * unit;
	n = lab_min(lab->bytes[from] - a, lab->bytes[to] - b);
	n = lab_min(n, unit * (1 + draw_below(&lab->seed, 40)));
	memmove(lab->data[to] + b, lab->data[from] + a, n);
}

static LAB_UNUSED void lab_back(struct lab *lab, int slot)
{
	const struct lab_version *v = lab->count ? &lab->versions[draw_below(&lab->seed, lab->count)] : NULL;

	if (!v || !v->present[slot] || !v->bytes[slot])
		return;
	lab_resize(lab, slot, v->bytes[slot]);
	memcpy(lab->data[slot], v->copy[slot], v->bytes[slot]);
}

static LAB_UNUSED void lab_edit(struct lab *lab, uint64_t chunk, uint64_t largest)
{
	int slot = lab_some_region(lab);
	uint64_t n, at, len;

	if (slot < 0) {
		lab_resize(lab, (int)draw_below(&lab->seed, LAB_REGIONS), 17 + draw_below(&lab->seed, largest));
		return;
	}
	n = lab->bytes[slot];
	at = draw_below(&lab->seed, n);
	len = 1 + draw_below(&lab->seed, lab_min(n - at, chunk * 20));
	switch (draw_below(&lab->seed, 14)) {
	case 0: /* overwrite */
	case 1:
		draw_bytes(&lab->seed, lab->data[slot] + at, lab_min(len, draw_below(&lab->seed, 200) + 1));
		break;
	case 2:
		draw_bytes(&lab->seed, lab->data[slot] + at, len);
		break;
	case 3: /* insert: all behind it moves, by any distance or by whole chunks */
		len = lab_min(len, n - at);
		if (draw_below(&lab->seed, 2))
			len = lab_min((len + chunk - 1) / chunk * chunk, n - at);
		memmove(lab->data[slot] + at + len, lab->data[slot] + at, n - at - len);
		draw_bytes(&lab->seed, lab->data[slot] + at, len);
		break;
	case 4:
		lab_move(lab, slot, chunk);
		break;
	case 5:
		lab_move(lab, slot, 1 + draw_below(&lab->seed, 9));
		break;
	case 6:
		memset(lab->data[slot] + at, (int)draw_below(&lab->seed, 3), len);
		break;
	case 7: /* doubles of one value */
		for (uint64_t i = at / 8 * 8; i + 8 <= at + len; i += 8)
			memcpy(lab->data[slot] + i, &(double){1.5}, 8);
		break;
	case 8:
		lab_resize(lab, slot, lab_min(n + 1 + draw_below(&lab->seed, chunk * 12), largest + 17));
		break;
	case 9:
		lab_resize(lab, slot, draw_below(&lab->seed, n + 1));
		break;
	case 10:
		lab_resize(lab, (int)draw_below(&lab->seed, LAB_REGIONS), 17 + draw_below(&lab->seed, largest));
		break;
	case 11:
		lab->present[slot] = draw_below(&lab->seed, 3) > 0;
		break;
	case 12:
		lab_back(lab, slot);
		break;
	case 13: /* the sign of every second double */
		for (uint64_t i = 15; i < n; i += 16)
			lab->data[slot][i] ^= 0x80;
		break;
	}
}

#endif
