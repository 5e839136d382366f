/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec deflate by the kernels: the same bytes as by the processor, and a stream that its library decodes. */
#include "block_cases.h"

#include "codec/deflate_warp.h"

static const struct block_codec codec = {KEDGE__CODEC_DEFLATE, kedge__gpu_deflate_scratch, kedge__gpu_deflate_encode,
					 kedge__deflate_warp_encode};

/* Blocks of these lengths; returns the bytes of all as they are packed. */
static uint64_t encode(enum block_kind kind, const uint32_t *lengths, uint32_t count)
{
	struct blocks t;
	uint64_t packed = 0;

	blocks_init(&t, &codec, lengths, count);
	for (uint32_t i = 0; i < count; i++)
		block_fill(kind, t.raw + t.places[i], lengths[i], 7 * i + (unsigned)kind);
	blocks_encode(&t);
	for (uint32_t i = 0; i < count; i++)
		packed += t.sizes[i];
	blocks_done(&t);
	return packed;
}

static void test_kinds(void **state)
{
	static const uint32_t lengths[] = {40000, 16384, 5000};

	(void)state;
	for (int kind = 0; kind < BLOCK_KINDS; kind++) {
		uint64_t packed = encode((enum block_kind)kind, lengths, KEDGE__COUNT(lengths));

		assert_true(kind == NOISE ? packed == 61384 : packed < 61384);
	}
}

/* Every length up to some, and those around the ends of parts and pieces. */
static void test_sizes(void **state)
{
	static const uint32_t around[] = {0, 1, 16383, 16385, 16395, 16396, 32773, 65535, 65536, 65537, 65549, 81921};
	uint32_t lengths[140];

	(void)state;
	for (uint32_t i = 0; i < KEDGE__COUNT(lengths); i++)
		lengths[i] = i;
	encode(ZEROS, lengths, KEDGE__COUNT(lengths));
	encode(TEXT, lengths, KEDGE__COUNT(lengths));
	encode(PERIODS, lengths, KEDGE__COUNT(lengths));
	encode(ZEROS, around, KEDGE__COUNT(around));
	encode(PERIODS, around, KEDGE__COUNT(around));
}

/* Several pieces, some of which do not shrink. */
static void test_pieces(void **state)
{
	const uint32_t bytes = much ? 64u << 20 : 3 * 65536 + 77;
	struct blocks t;
	uint64_t seed = 4;

	(void)state;
	blocks_init(&t, &codec, &bytes, 1);
	draw_bytes(&seed, t.raw, bytes);
	memset(t.raw + 70000, 0, bytes / 4);
	memset(t.raw + 150000, 7, 4000);
	blocks_encode(&t);
	assert_true(t.sizes[0] < bytes);
	blocks_done(&t);
}

/* As in tests/codec/test_deflate_warp.c: codes that would be longer than they may be. */
static void test_long_codes(void **state)
{
	const uint32_t bytes = 65536;
	struct blocks t;
	uint64_t seed = 6;
	size_t a = 1, b = 2, left = 1, byte = 0; /* the end of the block occurs once, too */

	(void)state;
	blocks_init(&t, &codec, &bytes, 1);
	for (size_t i = 0; i < bytes; i++) {
		t.raw[i] = (uint8_t)(i % 3 ? 24 + draw_below(&seed, 232) : byte);
		if (i % 3 == 0 && --left == 0) {
			left = a = (b += a) - a;
			byte++;
		}
	}
	blocks_encode(&t);
	assert_true(t.sizes[0] < bytes);
	blocks_done(&t);
}

static void test_many(void **state)
{
	uint32_t lengths[512], count = much ? 512 : 8;

	(void)state;
	for (uint32_t i = 0; i < count; i++)
		lengths[i] = much ? 131072 - i : 2000 + 17 * i;
	for (int kind = 0; kind < BLOCK_KINDS; kind++)
		encode((enum block_kind)kind, lengths, count);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kinds),      cmocka_unit_test(test_sizes), cmocka_unit_test(test_pieces),
	    cmocka_unit_test(test_long_codes), cmocka_unit_test(test_many),
	};

	return cases_run_where(argc, argv, tests, gpu_setup, gpu_teardown, gpu_here);
}
