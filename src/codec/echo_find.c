/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Some numbers are anchors: which ones is decided by a key, their upper bits without the sign, so that a number and its
 * echo both are, whichever way around they stand. An anchor that was seen before, with neighbours that fit, begins an
 * echo, which reaches as far as numbers stay close. The upper bits of a double tell millions of numbers apart, and
 * leave room for echoes that are not exact; of a float no number of bits does both, so that it has two keys.
 */
#include "codec/echo.h"

#include "codec/field.h"

#define ANCHOR_EVERY 16 /* numbers, about */
#define TABLE_MOST   (UINT32_C(1) << 17)
#define TABLE_LEAST  (UINT32_C(1) << 8)
#define AROUND       6  /* numbers after an anchor, of which */
#define AROUND_LEAST 5  /* have to fit */
#define LEAST        16 /* numbers of an echo */
#define MISS         4  /* what one that does not fit counts, against one that does: */
#define MISSES       12 /* an echo ends where these are more */
#define STEP         16 /* numbers that are passed at once, if */
#define STEP_MISSES  3  /* do not fit, at most */
#define LOOK_EVERY   61 /* numbers, of which one is compared with the one before it */
#define PAYS         32 /* anchors, of which one has to be an echo */
#define NONE         UINT32_MAX
#define KEYS         2 /* at most */

struct finder {
	const uint8_t *raw;
	size_t n;
	unsigned width;
	unsigned close;         /* bits by which two numbers may differ */
	uint32_t *tables, mask; /* one for each key */
};

KEDGE__INLINE unsigned key_count(unsigned width)
{
	return width == 8 ? 1 : 2;
}

KEDGE__INLINE uint64_t bits_at(const struct finder *f, unsigned width, size_t i)
{
	return width == 8 ? kedge__get64(f->raw + 8 * i) : (uint64_t)kedge__get32(f->raw + 4 * i) << 32;
}

/* Signed integers with the order of the numbers. */
KEDGE__INLINE int64_t ordered(uint64_t v)
{
	return (int64_t)(v ^ (uint64_t)((int64_t)v >> 63) >> 1);
}

/* By the first key all but the last bit of a float is compared, by the second two thirds are. */
KEDGE__INLINE uint32_t anchor_hash(uint64_t v, unsigned width, unsigned which)
{
	uint64_t key = v << 1 >> (width == 8 ? 25 : which == 0 ? 34 : 42);

	return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

KEDGE__INLINE bool is_close(const struct finder *f, unsigned width, uint64_t a, uint64_t b, bool negated)
{
	uint64_t d = (uint64_t)ordered(a) - (uint64_t)(negated ? ~ordered(b) : ordered(b));
	unsigned shift = f->close + (width == 8 ? 0 : 32);

	d = (d ^ (uint64_t)((int64_t)d >> 63)) >> shift;
	return d == 0;
}

/* What is close to the number before it needs no echo. */
KEDGE__INLINE bool is_anchor(const struct finder *f, unsigned width, uint64_t v, uint64_t before, uint32_t hash)
{
	return hash % ANCHOR_EVERY == 0 && !is_close(f, width, v, before, false);
}

/* How many of the numbers behind anchor I fit those behind, or before, anchor Q. */
KEDGE__INLINE unsigned fits(const struct finder *f, unsigned width, size_t i, size_t q, bool backwards, bool negated)
{
	unsigned n = 0;

	if (i + AROUND >= f->n || (backwards && q < AROUND))
		return 0;
	for (size_t k = 1; k <= AROUND; k++)
		n +=
		    is_close(f, width, bits_at(f, width, i + k), bits_at(f, width, backwards ? q - k : q + k), negated);
	return n;
}

/* How many of STEP numbers from I on do not fit. */
KEDGE__INLINE unsigned step_misses(const struct finder *f, unsigned width, size_t i, size_t q, bool backwards,
				   bool negated)
{
	unsigned n = 0;

	for (size_t k = 0; k < STEP; k++)
		n += !is_close(f, width, bits_at(f, width, i + k), bits_at(f, width, backwards ? q - k : q + k),
			       negated);
	return n;
}

/* How many numbers from TO on can be passed in steps: those of which most fit. */
KEDGE__INLINE size_t pass(const struct finder *f, unsigned width, size_t to, size_t from, bool backwards, bool negated)
{
	size_t n = 0;

	while (to + n + STEP <= f->n && (!backwards || from + 1 >= n + STEP) &&
	       step_misses(f, width, to + n, backwards ? from - n : from + n, backwards, negated) <= STEP_MISSES)
		n += STEP;
	return n;
}

/* The echo of which number I is one, as far as it goes, from number FIRST on at the earliest. */
KEDGE__INLINE struct kedge__echo extend(const struct finder *f, unsigned width, size_t i, size_t q, bool backwards,
					bool negated, size_t first)
{
	size_t to = i, from = q, n, good;
	unsigned misses = 0;

	while (to > first && (backwards ? from + 1 < to - 1 : from > 0) &&
	       is_close(f, width, bits_at(f, width, to - 1), bits_at(f, width, backwards ? from + 1 : from - 1),
			negated)) {
		to--;
		from += backwards ? 1 : (size_t)-1;
	}
	n = i - to + 1;
	if (!backwards || from >= n) {
		size_t next = backwards ? from - n : from + n;

		n += backwards ? (negated ? pass(f, width, to + n, next, true, true)
					  : pass(f, width, to + n, next, true, false))
			       : (negated ? pass(f, width, to + n, next, false, true)
					  : pass(f, width, to + n, next, false, false));
	}
	good = n;
	while (to + n < f->n && (!backwards || from >= n) && misses <= MISSES) {
		bool fit = is_close(f, width, bits_at(f, width, to + n),
				    bits_at(f, width, backwards ? from - n : from + n), negated);

		n++;
		misses = fit ? misses - (misses > 0) : misses + MISS;
		good = fit ? n : good;
	}
	return (struct kedge__echo){(uint32_t)to, (uint32_t)good, (uint32_t)from, backwards, negated};
}

/* Look number I up by a key, and note it; true if it is an echo. */
KEDGE__INLINE bool look_up(const struct finder *f, unsigned width, unsigned which, size_t i, uint64_t v, uint32_t hash,
			   size_t *q, bool *backwards, bool *negated)
{
	uint32_t *slot = &f->tables[which * ((size_t)f->mask + 1) + (hash >> 4 & f->mask)], there = *slot;
	unsigned on, back;
	uint64_t other;

	*slot = (uint32_t)i;
	if (there == NONE)
		return false;
	other = bits_at(f, width, there);
	if (anchor_hash(other, width, which) != hash)
		return false;
	*q = there;
	*negated = (v ^ other) >> 63;
	on = fits(f, width, i, there, false, *negated);
	back = fits(f, width, i, there, true, *negated);
	*backwards = back > on;
	return KEDGE__MAX(on, back) >= AROUND_LEAST;
}

KEDGE__INLINE bool find(const struct finder *f, unsigned width, struct kedge__echo_list *out)
{
	uint64_t before = 0;
	size_t end = 0, q = 0;

	for (size_t i = 0; i < f->n; i++) {
		bool backwards = false, negated = false, found = false;
		uint64_t v = bits_at(f, width, i);
		struct kedge__echo e;

		for (unsigned k = 0; k < key_count(width) && !found; k++) {
			uint32_t hash = anchor_hash(v, width, k);

			found = is_anchor(f, width, v, before, hash) &&
				look_up(f, width, k, i, v, hash, &q, &backwards, &negated);
		}
		before = v;
		if (!found)
			continue;
		e = extend(f, width, i, q, backwards, negated, end);
		if (e.n < LEAST)
			continue;
		if (!kedge__array_push(out, e))
			return false;
		end = e.to + e.n;
		i = KEDGE__MAX(i, end - 1);
	}
	return true;
}

/* Whether many anchors, by one of the keys, are echoes. */
KEDGE__INLINE bool count(const struct finder *f, unsigned width)
{
	size_t anchors[KEYS] = {0}, echoes[KEYS] = {0}, q;
	bool backwards, negated, many = false;
	uint64_t before = 0;

	for (size_t i = 0; i < f->n; i++) {
		uint64_t v = bits_at(f, width, i);

		for (unsigned k = 0; k < key_count(width); k++) {
			uint32_t hash = anchor_hash(v, width, k);

			if (!is_anchor(f, width, v, before, hash))
				continue;
			anchors[k]++;
			echoes[k] += look_up(f, width, k, i, v, hash, &q, &backwards, &negated);
		}
		before = v;
	}
	for (unsigned k = 0; k < key_count(width); k++)
		many = many || echoes[k] * PAYS > anchors[k];
	return many;
}

/* By how much neighbours differ, as a rule, what is close is a part of. */
static unsigned close_bits(const struct finder *f)
{
	uint64_t bits = 0, looks = 0;

	for (size_t i = 1; i < f->n; i += LOOK_EVERY, looks++) {
		uint64_t d =
		    (uint64_t)ordered(bits_at(f, f->width, i)) - (uint64_t)ordered(bits_at(f, f->width, i - 1));

		d = (d ^ (uint64_t)((int64_t)d >> 63)) >> (f->width == 8 ? 0 : 32);
		bits += d ? 64 - (unsigned)__builtin_clzll(d) : 0;
	}
	return looks ? (unsigned)(bits / looks * 5 / 8) : 0;
}

static bool finder_init(struct finder *f, const uint8_t *raw, size_t n, unsigned width)
{
	uint32_t size = TABLE_LEAST;

	*f = (struct finder){.raw = raw, .n = n, .width = width};
	while (size < TABLE_MOST && size < n / ANCHOR_EVERY)
		size *= 2;
	f->mask = size - 1;
	f->close = close_bits(f);
	f->tables = kedge__malloc(key_count(width) * size * sizeof(*f->tables));
	if (f->tables)
		memset(f->tables, 0xff, key_count(width) * size * sizeof(*f->tables));
	return f->tables;
}

bool kedge__echo_find(const uint8_t *raw, size_t n, unsigned width, struct kedge__echo_list *out)
{
	struct finder f;
	bool ok = finder_init(&f, raw, n, width);

	if (ok)
		ok = width == 8 ? find(&f, 8, out) : find(&f, 4, out);
	kedge__free(f.tables);
	return ok;
}

bool kedge__echo_pays(const uint8_t *raw, size_t n, unsigned width)
{
	struct finder f;
	bool pays = finder_init(&f, raw, n, width) && (width == 8 ? count(&f, 8) : count(&f, 4));

	kedge__free(f.tables);
	return pays;
}
