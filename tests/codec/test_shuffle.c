/* SPDX-License-Identifier: BSD-3-Clause */
/* Shuffles: what goes where, and that the variants for AVX2 do the same. */
#include "support.h"

#include "codec/shuffle.h"

static void test_definition(void **state)
{
	uint8_t in[16 * 4], out[16 * 4];

	(void)state;
	for (unsigned i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i * 37);
	kedge__shuffle_bytes(&kedge__shuffle_portable, in, sizeof(in), 4, out);
	for (unsigned i = 0; i < 16; i++)
		for (unsigned j = 0; j < 4; j++)
			assert_int_equal(out[j * 16 + i], in[i * 4 + j]);
	kedge__shuffle_bits(&kedge__shuffle_portable, in, sizeof(in), 4, out);
	for (unsigned i = 0; i < 16; i++)
		for (unsigned b = 0; b < 32; b++)
			assert_int_equal(out[b * 2 + i / 8] >> i % 8 & 1, in[i * 4 + b / 8] >> b % 8 & 1);
}

static void compare(size_t bytes, unsigned width)
{
	const struct kedge__shuffle_kernel *plain = &kedge__shuffle_portable, *fast = kedge__shuffle_avx2();
	struct fence in = fence_new(bytes), a = fence_new(bytes), b = fence_new(bytes);

	fast = fast ? fast : plain;
	fill_pattern(RANDOM, in.at, bytes);
	kedge__shuffle_bytes(plain, in.at, bytes, width, a.at);
	kedge__shuffle_bytes(fast, in.at, bytes, width, b.at);
	assert_memory_equal(a.at, b.at, bytes);
	kedge__unshuffle_bytes(fast, a.at, bytes, width, b.at);
	assert_memory_equal(in.at, b.at, bytes);
	kedge__unshuffle_bytes(plain, a.at, bytes, width, b.at);
	assert_memory_equal(in.at, b.at, bytes);
	kedge__shuffle_bits(plain, in.at, bytes, width, a.at);
	kedge__shuffle_bits(fast, in.at, bytes, width, b.at);
	assert_memory_equal(a.at, b.at, bytes);
	kedge__unshuffle_bits(fast, a.at, bytes, width, b.at);
	assert_memory_equal(in.at, b.at, bytes);
	kedge__unshuffle_bits(plain, a.at, bytes, width, b.at);
	assert_memory_equal(in.at, b.at, bytes);
	fence_free(&in);
	fence_free(&a);
	fence_free(&b);
}

static void test_variants_agree(void **state)
{
	(void)state;
	for (unsigned width = 1; width <= 8; width *= 2) {
		for (size_t bytes = 0; bytes < 700; bytes++)
			compare(bytes, width);
		compare(65536, width);
		compare(99991, width);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_definition),
	    cmocka_unit_test(test_variants_agree),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
