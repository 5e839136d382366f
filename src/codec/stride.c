/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size of the records of an array: bytes are compared with those a distance before them. A distance at which
 * clearly more are equal than at others, as a rule, is a multiple of the size; the smallest of about the best is the
 * size.
 */
#include "codec/codec_table.h"

#define WINDOW    4096 /* bytes that are compared, at each distance */
#define FEW       4    /* a part of it shows which distances are worth comparing it all */
#define VECTOR    16
#define LEAST     0.03 /* the share of bytes that must be equal beyond what is at all distances */
#define ABOUT     0.85 /* of what the best distance has beyond that, */
#define ABOUT_FEW 0.6  /* and in the part */

typedef uint8_t vector __attribute__((vector_size(VECTOR)));

void kedge__strides_init(struct kedge__strides *s)
{
	memset(s, 0, sizeof(*s));
}

/* How many of N bytes are equal, N a multiple of VECTOR and below 256 * VECTOR. */
static uint32_t count_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
	vector sums = {0};
	uint32_t sum = 0;

	for (size_t i = 0; i < n; i += VECTOR) {
		vector x, y;

		memcpy(&x, a + i, VECTOR);
		memcpy(&y, b + i, VECTOR);
		sums -= (vector)(x == y);
	}
	for (size_t i = 0; i < VECTOR; i++)
		sum += sums[i];
	return sum;
}

/* Bytes that are compared, of N, with those up to MOST before them: fewer than BYTES. */
static size_t window_of(size_t n, size_t most, size_t bytes)
{
	return KEDGE__MIN(n - most, bytes - VECTOR) / VECTOR * VECTOR;
}

/* At most BYTES of one more place. */
static void count_at(struct kedge__strides *s, const uint8_t *p, size_t n, size_t bytes)
{
	size_t most = KEDGE__MIN(n / 4, (size_t)KEDGE__STRIDE_FOUND_MOST);
	size_t window = window_of(n, most, bytes);

	if (most < KEDGE__STRIDE_FOUND_LEAST || (s->most && most < s->most))
		return; /* too short to compare with what was counted before */
	s->most = s->most ? s->most : most;
	s->compared += window;
	for (size_t d = KEDGE__STRIDE_FOUND_LEAST; d <= s->most; d++)
		s->equal[d] += count_equal(p + s->most, p + s->most - d, window);
}

void kedge__strides_count(struct kedge__strides *s, const uint8_t *p, size_t n)
{
	count_at(s, p, n, WINDOW);
}

/* What is equal at all distances, as a rule: the mean of the lower half. */
static double usual(const struct kedge__strides *s)
{
	uint64_t sum = 0, low = 0, n = 0;

	for (size_t d = KEDGE__STRIDE_FOUND_LEAST; d <= s->most; d++)
		sum += s->equal[d];
	for (size_t d = KEDGE__STRIDE_FOUND_LEAST; d <= s->most; d++)
		if ((uint64_t)s->equal[d] * (s->most - KEDGE__STRIDE_FOUND_LEAST + 1) <= sum) {
			low += s->equal[d];
			n++;
		}
	return n ? (double)low / (double)n : 0;
}

/* What the best distance has beyond LEVEL. */
static double most_equal(const struct kedge__strides *s, double level)
{
	double best = 0;

	for (size_t d = KEDGE__STRIDE_FOUND_LEAST; d <= s->most; d++)
		best = KEDGE__MAX(best, (double)s->equal[d] - level);
	return best;
}

static unsigned best_beyond(const struct kedge__strides *s, double level)
{
	double best = most_equal(s, level);

	if (!s->compared || best < LEAST * (double)s->compared)
		return 0;
	for (size_t d = KEDGE__STRIDE_FOUND_LEAST; d <= s->most; d++)
		if ((double)s->equal[d] - level >= ABOUT * best)
			return (unsigned)d;
	return 0;
}

unsigned kedge__strides_best(const struct kedge__strides *s)
{
	return best_beyond(s, usual(s));
}

unsigned kedge__strides_find(const uint8_t *p, size_t n)
{
	struct kedge__strides few, s;
	double level, best;

	kedge__strides_init(&few);
	kedge__strides_init(&s);
	count_at(&few, p, n, WINDOW / FEW);
	level = usual(&few);
	best = most_equal(&few, level);
	if (!few.compared || best < LEAST / 2 * (double)few.compared)
		return 0;
	s.most = few.most;
	s.compared = window_of(n, s.most, WINDOW);
	for (size_t d = KEDGE__STRIDE_FOUND_LEAST; d <= s.most; d++)
		if ((double)few.equal[d] - level >= ABOUT_FEW * best)
			s.equal[d] = count_equal(p + s.most, p + s.most - d, (size_t)s.compared);
	return best_beyond(&s, level * (double)s.compared / (double)few.compared);
}
