/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a few thousand bytes would shrink to, taken for numbers of this or that width, byte order and first byte. Two
 * estimates are enough to tell: the entropy of the bytes by their place in a number, which is what shuffling them
 * leaves, and how many bits neighbours differ by, which is what is left of a prediction.
 */
#include "aggregate/raw.h"

#include <math.h>

#define PLANES    8
#define PAIRS     128   /* of neighbours that are compared, for each kind */
#define MARGIN    0.9f  /* of the cost of bytes: numbers have to be better than that */
#define UNLIKE    0.05f /* share by which the entropies of planes have to differ where there are numbers */
#define QUIET     0.03f /* cost below which nothing can be said, and nothing needs to be */
#define BITS_MORE 1.5f  /* of a difference, beyond those below its highest */
#define FLOATS    0.9f  /* share of numbers with usual exponents, from which on all are floating point */

#define FAST static inline __attribute__((always_inline))

static const unsigned widths[KEDGE__RAW_WIDTHS] = {8, 4, 2};

unsigned kedge__raw_smooth_first(unsigned width)
{
	return width == 8 ? 1 : width == 4 ? 17 : 25;
}

struct kedge__raw_kind kedge__raw_kind_at(unsigned i)
{
	struct kedge__raw_kind k = {.width = 0};

	if (i > KEDGE__RAW_SMOOTH)
		k.width = widths[i - KEDGE__RAW_SMOOTH - 1];
	else if (i != KEDGE__RAW_OPAQUE) {
		k.smooth = true;
		k.width = i >= 25 ? 2 : i >= 17 ? 4 : 8;
		k.phase = (i - kedge__raw_smooth_first(k.width)) % k.width;
		k.big_endian = i - kedge__raw_smooth_first(k.width) >= k.width;
	}
	return k;
}

/* ------------------------------------------------------------------ planes */

struct planes {
	uint16_t count[PLANES][256]; /* by place in the file */
};

void kedge__raw_logs_init(struct kedge__raw_logs *l)
{
	l->of[0] = 0;
	for (size_t n = 1; n < KEDGE__RAW_LOGS; n++)
		l->of[n] = (float)n * log2f((float)n);
}

static float times_log(const struct kedge__raw_logs *l, size_t n)
{
	return n < KEDGE__RAW_LOGS ? l->of[n] : (float)n * log2f((float)n);
}

/* The entropy of COUNTS as a share, without what few samples make it seem less. */
static float entropy(const struct kedge__raw_logs *logs, const uint16_t counts[256], size_t n)
{
	float sum = 0, seen = 0;

	for (unsigned v = 0; v < 256; v++) {
		sum += times_log(logs, counts[v]);
		seen += counts[v] ? 1 : 0;
	}
	return KEDGE__MIN((times_log(logs, n) - sum + (seen - 1) * 0.7213f) / (8 * (float)n), 1.0f);
}

/* The mean entropy of the first N planes, and by how much they differ. */
static float mean_entropy(const struct kedge__raw_logs *logs, const struct planes *p, unsigned n, float *differ)
{
	float sum = 0, least = 1, most = 0;

	for (unsigned k = 0; k < n; k++) {
		float e = entropy(logs, p->count[k], KEDGE__RAW_WINDOW / n);

		sum += e;
		least = KEDGE__MIN(least, e);
		most = KEDGE__MAX(most, e);
	}
	*differ = most - least;
	return sum / (float)n;
}

/* N planes become half as many, of numbers half as wide. */
static void planes_fold(struct planes *p, unsigned n)
{
	for (unsigned k = 0; k < n / 2; k++)
		for (unsigned v = 0; v < 256; v++)
			p->count[k][v] = (uint16_t)(p->count[k][v] + p->count[k + n / 2][v]);
}

/* Nearly all is letters, digits and the like: numbers that are written out, however they are aligned, are text. */
static bool is_text(const uint16_t counts[256])
{
	size_t n = (size_t)counts['\t'] + counts['\n'] + counts['\r'];

	for (unsigned v = ' '; v <= '~'; v++)
		n += counts[v];
	return n >= KEDGE__RAW_WINDOW - KEDGE__RAW_WINDOW / 64;
}

/* ------------------------------------------------------------------ neighbours */

/* At the top of 64 bits. */
FAST uint64_t number_at(const uint8_t *at, unsigned width, bool big_endian)
{
	uint64_t v = 0;

	if (width == 8)
		memcpy(&v, at, 8);
	else if (width == 4)
		memcpy(&v, at, 4);
	else
		memcpy(&v, at, 2);
	return big_endian ? __builtin_bswap64(v) : v << (64 - 8 * width);
}

/* Floating point and integers in the order of their values, at the top of 64 bits. */
FAST uint64_t ordered(uint64_t v)
{
	return v ^ (uint64_t)((int64_t)v >> 63) >> 1;
}

/* Zero, or neither very small nor very large. */
FAST bool is_usual_float(uint64_t v, unsigned width)
{
	unsigned exponent = width == 8   ? (unsigned)(v >> 52 & 0x7ff)
			    : width == 4 ? (unsigned)(v >> 55 & 0xff)
					 : (unsigned)(v >> 58 & 0x1f);
	unsigned one = width == 8 ? 1023 : width == 4 ? 127 : 15, range = width == 8 ? 128 : width == 4 ? 40 : 8;

	return !(v << 1) || (exponent + range >= one && exponent <= one + range);
}

FAST unsigned length_of(uint64_t from, uint64_t to, unsigned width)
{
	uint64_t d = (uint64_t)((int64_t)(to - from) >> (64 - 8 * width)), z = d << 1 ^ (uint64_t)((int64_t)d >> 63);

	return z ? 64 - (unsigned)__builtin_clzll(z) : 0;
}

struct pairs {
	unsigned bits; /* that they differ by */
	unsigned n, usual;
};

FAST struct pairs compare(const uint8_t *at, size_t skip, unsigned width, bool big_endian)
{
	size_t step = (KEDGE__RAW_WINDOW - 3 * width) / PAIRS / width * width;
	struct pairs p = {0};

	for (size_t i = skip; i + 2 * width <= KEDGE__RAW_WINDOW; i += step) {
		uint64_t first = number_at(at + i, width, big_endian),
			 second = number_at(at + i + width, width, big_endian);

		p.usual += is_usual_float(second, width);
		p.bits += length_of(ordered(first), ordered(second), width);
		p.n++;
	}
	return p;
}

/* The cost of numbers of a kind, and whether they look like floating point. */
static float smooth_cost(const uint8_t *at, uint64_t offset, const struct kedge__raw_kind *k, bool *floats)
{
	size_t skip = (k->phase + k->width - (size_t)(offset % k->width)) % k->width;
	struct pairs p;
	float mean;

	if (k->width == 8)
		p = k->big_endian ? compare(at, skip, 8, true) : compare(at, skip, 8, false);
	else if (k->width == 4)
		p = k->big_endian ? compare(at, skip, 4, true) : compare(at, skip, 4, false);
	else
		p = k->big_endian ? compare(at, skip, 2, true) : compare(at, skip, 2, false);
	*floats = p.usual >= FLOATS * p.n;
	mean = (float)p.bits / (float)p.n;
	return KEDGE__MIN((mean + KEDGE__MIN(mean, BITS_MORE)) / (float)(8 * k->width), 1.0f);
}

/* ------------------------------------------------------------------ a window */

static void smooth_judge(const uint8_t *at, uint64_t offset, struct kedge__raw_window *out)
{
	for (unsigned i = 1; i <= KEDGE__RAW_SMOOTH; i++) {
		const struct kedge__raw_kind k = kedge__raw_kind_at(i);
		bool floats;

		out->cost[i] = smooth_cost(at, offset, &k, &floats);
		out->floats |= floats ? UINT32_C(1) << (i - 1) : 0;
	}
}

void kedge__raw_window_judge(const struct kedge__raw_logs *logs, const uint8_t *at, uint64_t offset,
			     struct kedge__raw_window *out)
{
	struct planes p = {0};
	float differ, same, costs[KEDGE__RAW_WIDTHS], all;

	for (size_t i = 0; i < KEDGE__RAW_WINDOW; i++)
		p.count[(offset + i) % PLANES][at[i]]++;
	costs[0] = mean_entropy(logs, &p, 8, &differ);
	for (unsigned w = 1; w < KEDGE__RAW_WIDTHS; w++) {
		planes_fold(&p, 2 * widths[w]);
		costs[w] = mean_entropy(logs, &p, widths[w], &same);
	}
	planes_fold(&p, 2);
	all = entropy(logs, p.count[0], KEDGE__RAW_WINDOW);
	out->floats = 0;
	/* Where there is next to nothing, any kind will do; where planes do not differ, there are no numbers. */
	for (unsigned i = 0; i < KEDGE__RAW_KINDS; i++)
		out->cost[i] = all < QUIET ? all : 1;
	if (all < QUIET)
		return;
	out->cost[KEDGE__RAW_OPAQUE] = all * MARGIN;
	if (differ < UNLIKE || is_text(p.count[0]))
		return;
	memcpy(out->cost + 1 + KEDGE__RAW_SMOOTH, costs, sizeof(costs));
	smooth_judge(at, offset, out);
}
