/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of codec field: the variants agree; symbols come back, and damaged streams of them do not get out of hand.
 */
#include "support.h"

#include "codec/field_loops.h"
#include "codec/symbols.h"

#define N 3000

static struct kedge__field field_of(unsigned width, int kind, bool zeros, uint32_t step)
{
	return (struct kedge__field){.width = width,
				     .n = N / width,
				     .reach = {step, 10 * step, 70 * step},
				     .kind = (enum kedge__field_kind)kind,
				     .order = kind % 2 == 0,
				     .zeros = zeros};
}

/* Everything a variant does on the way to symbols and back. */
static void compare(const struct kedge__field *f, const uint8_t *data)
{
	const struct kedge__field_loops *loops[] = {&kedge__field_loops_portable, kedge__field_loops_bmi2()};
	uint64_t numbers[2][N / 8], residuals[2][N / 8];
	uint8_t lengths[2][N], zeros[2][N], back[N];
	size_t bytes = f->n * f->width;
	uint64_t bits[2];

	loops[1] = loops[1] ? loops[1] : loops[0];
	for (int i = 0; i < 2; i++) {
		loops[i]->take(f, data, numbers[i]);
		loops[i]->replace(f, numbers[i], residuals[i], lengths[i], zeros[i], 0, f->n);
	}
	assert_memory_equal(numbers[0], numbers[1], bytes);
	assert_memory_equal(residuals[0], residuals[1], bytes);
	assert_memory_equal(lengths[0], lengths[1], f->n);
	if (f->zeros)
		assert_memory_equal(zeros[0], zeros[1], f->n);
	assert_int_equal(loops[0]->choose(f, numbers[0], &bits[0]), loops[1]->choose(f, numbers[0], &bits[1]));
	assert_int_equal(bits[0], bits[1]);
	for (int i = 0; i < 2; i++) {
		loops[i]->rebuild(f, residuals[i], zeros[i], 0, f->n);
		assert_memory_equal(residuals[i], numbers[i], bytes);
		memset(back, 0xee, sizeof(back));
		loops[i]->give(f, residuals[i], back);
		assert_memory_equal(back, data, bytes);
	}
}

static void test_variants_agree(void **state)
{
	uint8_t data[N];

	(void)state;
	for (int which = 0; which < PATTERNS; which++) {
		fill_pattern((enum pattern)which, data, N);
		for (unsigned width = 2; width <= 8; width *= 2)
			for (int kind = 0; kind < KEDGE__FIELD_KINDS; kind++)
				for (uint32_t step = 1; step <= 2; step++)
					for (int zeros = 0; zeros < 2; zeros++) {
						struct kedge__field f = field_of(width, kind, zeros, step);

						compare(&f, data);
					}
	}
}

/* Symbols below BELOW, with runs of zeros, and values of those lengths. */
static void fill_symbols(struct kedge__symbols *s, unsigned below, uint64_t seed)
{
	for (size_t i = 0; i < s->n; i++) {
		unsigned k = (unsigned)KEDGE__MIN(draw(&seed) % below, draw(&seed) % below);
		uint64_t v;

		k = i / 197 % 3 == 1 ? 0 : k;
		v = k ? (draw(&seed) | UINT64_C(1) << 63) >> (64 - k) : 0;

		s->at[i] = (uint8_t)k;
		if (s->width == 8)
			((uint64_t *)s->values)[i] = v;
		else if (s->width == 4)
			((uint32_t *)s->values)[i] = (uint32_t)v;
		else if (s->width == 2)
			((uint16_t *)s->values)[i] = (uint16_t)v;
	}
}

static void symbols_round_trip(size_t n, unsigned below, size_t row, unsigned width)
{
	size_t room = kedge__symbols_bound(n, width), used;
	struct fence symbols = fence_new(n), values = fence_new(n * width), out = fence_new(room + KEDGE__SYMBOL_PAD);
	struct fence space = fence_new(kedge__symbols_space(n, width));
	struct fence symbols_back = fence_new(n), values_back = fence_new(n * width);
	struct kedge__symbols s = {symbols.at, n, row, KEDGE__SYMBOL_MAX, width, values.at};
	struct kedge__symbols back = {symbols_back.at, n, row, KEDGE__SYMBOL_MAX, width, values_back.at};

	fill_symbols(&s, width ? KEDGE__MIN(below, width * 8 + 1) : below, n + below);
	assert_int_equal(kedge__symbols_encode(&s, space.at, out.at, room, &used, NULL), 0);
	assert_int_equal(kedge__symbols_decode(&back, out.at, used, NULL), 0);
	assert_memory_equal(s.at, back.at, n);
	assert_memory_equal(s.values, back.values, n * width);
	assert_int_equal(kedge__symbols_encode(&s, space.at, out.at, used - 1, &used, NULL), KEDGE_E_LIMIT);
	fence_free(&space);
	fence_free(&symbols);
	fence_free(&values);
	fence_free(&out);
	fence_free(&symbols_back);
	fence_free(&values_back);
}

static void test_symbols(void **state)
{
	static const size_t counts[] = {1, 2, 3, 4, 5, 7, 63, 256, 257, 1023, 1024, 1025, 1026, 1027, 5000, 70001};
	static const unsigned below[] = {1, 2, 5, 33, KEDGE__SYMBOL_MAX + 1};
	static const size_t rows[] = {0, 1, 2, 50, 100000};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(counts); i++)
		for (size_t k = 0; k < KEDGE__COUNT(below); k++)
			for (size_t r = 0; r < KEDGE__COUNT(rows); r++)
				symbols_round_trip(counts[i], below[k], rows[r],
						   (unsigned)((i + k + r) % 4 * 2 / 3 * 4));
}

/* Changes are found, or give other symbols: after some of those a lane may be back where it would have been, and the
 * checksum of a block is for that. What is read is within bounds in any case. */
static void damage_symbols(unsigned width, size_t count)
{
	size_t room = kedge__symbols_bound(count, width), used, found = 0, tried = 0;
	uint8_t *out = calloc(1, room + KEDGE__SYMBOL_PAD), *space = malloc(kedge__symbols_space(count, width));
	struct fence back = fence_new(count), values = fence_new(count * width);
	struct kedge__symbols s = {back.at, count, 30, 20, width, values.at};

	assert_non_null(out);
	assert_non_null(space);
	fill_symbols(&s, 20, 1);
	assert_int_equal(kedge__symbols_encode(&s, space, out, room, &used, NULL), 0);
	for (size_t i = 0; i < used; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			int rc;

			out[i] ^= (uint8_t)(1 << bit);
			rc = kedge__symbols_decode(&s, out, used, NULL);
			assert_true(rc == 0 || rc == KEDGE_E_DAMAGED);
			for (size_t k = 0; k < count && rc == 0; k++)
				assert_true(back.at[k] <= 20);
			found += rc != 0;
			tried++;
			out[i] ^= (uint8_t)(1 << bit);
		}
	assert_true(found * 5 >= tried);
	for (size_t n = 0; n < used; n++)
		assert_int_equal(kedge__symbols_decode(&s, out, n, NULL), KEDGE_E_DAMAGED);
	free(out);
	free(space);
	fence_free(&values);
	fence_free(&back);
}

static void test_damaged_symbols(void **state)
{
	(void)state;
	damage_symbols(0, 700);
	damage_symbols(4, 700);
	damage_symbols(8, 1100);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_variants_agree),
	    cmocka_unit_test(test_symbols),
	    cmocka_unit_test(test_damaged_symbols),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
