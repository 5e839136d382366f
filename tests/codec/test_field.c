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
				     .zeros = zeros};
}

static void compare(const struct kedge__field *f, const uint8_t *data)
{
	const struct kedge__field_loops *loops[] = {&kedge__field_loops_portable, kedge__field_loops_bmi2()};
	uint8_t p[2][N], lengths[2][N], zeros[2][N], bits[2][2 * N + 64], back[N];
	uint64_t count[2];

	loops[1] = loops[1] ? loops[1] : loops[0];
	memset(zeros, 0, sizeof(zeros));
	memset(bits, 0, sizeof(bits));
	for (int i = 0; i < 2; i++) {
		memcpy(p[i], data, N);
		count[i] = loops[i]->replace(f, p[i], lengths[i], zeros[i]);
		loops[i]->write(f, p[i], lengths[i], bits[i]);
	}
	assert_int_equal(count[0], count[1]);
	assert_memory_equal(p[0], p[1], f->n * f->width);
	assert_memory_equal(lengths[0], lengths[1], f->n);
	assert_memory_equal(zeros[0], zeros[1], f->zeros ? f->n : 0);
	assert_memory_equal(bits[0], bits[1], (count[0] + 7) / 8);
	for (int i = 0; i < 2; i++) {
		memset(back, 0xee, sizeof(back));
		loops[i]->rebuild(f, (struct kedge__field_bits){bits[0], lengths[0], zeros[0], 0}, back);
		assert_memory_equal(back, data, f->n * f->width);
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

static void fill_symbols(uint8_t *s, size_t n, unsigned below, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		s[i] = (uint8_t)(KEDGE__MIN(next_random(&seed) % below, next_random(&seed) % below));
}

static void symbols_round_trip(size_t n, unsigned below, size_t row)
{
	struct fence s = fence_new(n), out = fence_new(kedge__symbols_bound(n)), back = fence_new(n);
	size_t used;

	fill_symbols(s.at, n, below, n + below);
	assert_int_equal(kedge__symbols_encode(s.at, n, row, out.at, kedge__symbols_bound(n), &used, NULL), 0);
	assert_int_equal(kedge__symbols_decode(out.at, used, row, back.at, n, NULL), 0);
	assert_memory_equal(s.at, back.at, n);
	fence_free(&s);
	fence_free(&out);
	fence_free(&back);
}

static void test_symbols(void **state)
{
	static const size_t counts[] = {1, 2, 3, 4, 5, 7, 63, 256, 257, 1023, 5000, 70001};
	static const unsigned below[] = {1, 2, 5, 33, KEDGE__SYMBOL_MAX + 1};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(counts); i++)
		for (size_t k = 0; k < KEDGE__COUNT(below); k++) {
			symbols_round_trip(counts[i], below[k], 0);
			symbols_round_trip(counts[i], below[k], 1);
			symbols_round_trip(counts[i], below[k], 50);
			symbols_round_trip(counts[i], below[k], 100000);
		}
}

/* Any change is found: the state of a lane ends where it began, or it does not. */
static void test_damaged_symbols(void **state)
{
	enum { COUNT = 700 };
	uint8_t s[COUNT], out[4000];
	struct fence back = fence_new(COUNT);
	size_t used, found = 0, tried = 0;

	(void)state;
	fill_symbols(s, COUNT, 20, 1);
	assert_int_equal(kedge__symbols_encode(s, COUNT, 30, out, sizeof(out), &used, NULL), 0);
	for (size_t i = 0; i < used; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			int rc;

			out[i] ^= (uint8_t)(1 << bit);
			rc = kedge__symbols_decode(out, used, 30, back.at, COUNT, NULL);
			assert_true(rc == 0 || rc == KEDGE_E_DAMAGED);
			for (size_t k = 0; k < COUNT && rc == 0; k++)
				assert_true(back.at[k] <= KEDGE__SYMBOL_MAX);
			found += rc != 0;
			tried++;
			out[i] ^= (uint8_t)(1 << bit);
		}
	assert_true(found * 100 >= tried * 95);
	for (size_t n = 0; n < used; n++)
		assert_int_equal(kedge__symbols_decode(out, n, 30, back.at, COUNT, NULL), KEDGE_E_DAMAGED);
	fence_free(&back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_variants_agree),
	    cmocka_unit_test(test_symbols),
	    cmocka_unit_test(test_damaged_symbols),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
