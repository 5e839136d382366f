/* SPDX-License-Identifier: BSD-3-Clause */
/* What a GPU makes of a block for codec lz4, by the processor: liblz4 decodes it, and would not make it much smaller.
 */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "codec/codec.h"
#include "codec/lz4_warp.h"

#include <string.h>

static uint8_t raw[300000], packed[300000], got[300000];

static void text_fill(size_t bytes, uint64_t seed)
{
	size_t words[200]; /* where a word is, among those that came before */

	for (size_t i = 0; i < KEDGE__COUNT(words); i++)
		words[i] = i * 11;
	for (size_t i = 0; i < bytes;) {
		size_t from = words[draw_below(&seed, 1 + draw_below(&seed, KEDGE__COUNT(words)))];

		for (size_t n = 3 + draw_below(&seed, 9); n && i < bytes; n--, i++)
			raw[i] = i < 2200 ? (uint8_t)('a' + draw_below(&seed, 26)) : raw[from++];
	}
}

static size_t round_trip(size_t bytes)
{
	size_t size = kedge__lz4_warp_encode(raw, bytes, packed);

	assert_true(size <= bytes);
	if (size == bytes)
		return size;
	memset(got, 1, bytes);
	assert_int_equal(kedge__block_decode(KEDGE__CODEC_LZ4, 0, packed, size, got, bytes, NULL), 0);
	assert_memory_equal(got, raw, bytes);
	return size;
}

static void test_lengths(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		memset(raw, 0, sizeof(raw));
		if (kind)
			text_fill(sizeof(raw), 1);
		for (size_t n = 0; n < 300; n++)
			round_trip(n);
		for (size_t n = 16370; n < 16410; n++)
			round_trip(n);
		for (size_t n = 65530; n < 65560; n += 3)
			round_trip(n);
	}
}

/* Text, zeros, and text with noise in it: at most a twentieth more than liblz4 makes of it; of zeros, a tenth, because
 * every part of a block has a match of its own. */
static void test_ratio(void **state)
{
	struct kedge__codec_choice how;
	size_t sizes[3], other;
	uint16_t id, param;

	(void)state;
	assert_int_equal(kedge__codec_choice_parse("lz4", &how, NULL), 0);
	for (int kind = 0; kind < 3; kind++) {
		text_fill(sizeof(raw), 2);
		if (kind == 1)
			memset(raw, 0, sizeof(raw));
		for (size_t i = 0; kind == 2 && i < sizeof(raw); i += 3000)
			fill_random(raw + i, 700, i);
		sizes[kind] = round_trip(sizeof(raw));
		assert_int_equal(
		    kedge__block_encode(&how, KEDGE_BYTES, raw, sizeof(raw), packed, &other, &id, &param, NULL), 0);
		if (sizes[kind] > other + other / (kind == 1 ? 10 : 20))
			fail_msg("kind %d: %zu bytes, where liblz4 needs %zu", kind, sizes[kind], other);
	}
}

static void test_noise(void **state)
{
	(void)state;
	fill_random(raw, sizeof(raw), 1);
	assert_int_equal(round_trip(sizeof(raw)), sizeof(raw));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lengths),
	    cmocka_unit_test(test_ratio),
	    cmocka_unit_test(test_noise),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
