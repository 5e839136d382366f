/* SPDX-License-Identifier: BSD-3-Clause */
/* What a GPU makes of a block for codec deflate, by the processor: the library decodes it, and its fastest level would
 * not make it much smaller. */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "codec/codec.h"
#include "codec/deflate_warp.h"

#include <string.h>

static uint8_t raw[300000], packed[300000], got[300000];

/* Bytes of which few are frequent, in words that come again. */
static void text_fill(size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes;) {
		size_t n = 2 + draw_below(&seed, 9), back = 1 + draw_below(&seed, 1 + draw_below(&seed, 20000));

		for (bool again = i > back && draw_below(&seed, 3); n && i < bytes; n--, i++)
			raw[i] = again ? raw[i - back]
				       : (uint8_t)("etaoinshrdlu"[draw_below(&seed, 1 + draw_below(&seed, 12))]);
	}
}

static size_t round_trip(size_t bytes)
{
	size_t size = kedge__deflate_warp_encode(raw, bytes, packed);

	assert_true(size <= bytes);
	if (size == bytes)
		return size;
	memset(got, 1, bytes);
	assert_int_equal(kedge__block_decode(KEDGE__CODEC_DEFLATE, 0, packed, size, got, bytes, NULL), 0);
	assert_memory_equal(got, raw, bytes);
	return size;
}

static void test_lengths(void **state)
{
	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		memset(raw, 0, sizeof(raw));
		if (kind)
			text_fill(sizeof(raw), 1);
		for (size_t i = 0; kind == 2 && i < sizeof(raw); i++)
			raw[i] &= 1; /* hardly a code */
		for (size_t n = 0; n < 300; n++)
			round_trip(n);
		for (size_t n = 16370; n < 16410; n += 3)
			round_trip(n);
		for (size_t n = 65530; n < 65560; n++)
			round_trip(n);
	}
}

/* Runs of every length, so that all that one match can have occur, and all ways to cut what it cannot. */
static void test_runs(void **state)
{
	size_t at = 0;

	(void)state;
	fill_random(raw, sizeof(raw), 3);
	for (size_t n = 3; n < 720; n++, at += n + 7)
		memset(raw + at, (int)n, n);
	assert_true(at < sizeof(raw));
	round_trip(at);
}

/* Some bytes are each as often as the two rarer ones together, so that codes would be longer than they may be; two of
 * three are noise, so that there are no matches. */
static void skewed_fill(uint8_t *to, size_t bytes)
{
	uint64_t seed = 6;
	size_t a = 1, b = 2, left = 1, byte = 0; /* the end of the block occurs once, too */

	for (size_t i = 0; i < bytes; i++) {
		to[i] = (uint8_t)(24 + draw_below(&seed, 232));
		if (i % 3)
			continue;
		to[i] = (uint8_t)byte;
		if (--left == 0) {
			left = a = (b += a) - a;
			byte++;
		}
	}
}

static void test_long_codes(void **state)
{
	(void)state;
	skewed_fill(raw, 65536);
	assert_true(round_trip(65536) < 65536);
}

/* At least nine tenths of the ratio that the fastest level of the library has; of zeros, of which hardly more than
 * heads of pieces are left, eight. */
static void test_ratio(void **state)
{
	struct kedge__codec_choice how;
	size_t size, other;
	uint16_t id, param;

	(void)state;
	assert_int_equal(kedge__codec_choice_parse("deflate:1", &how, NULL), 0);
	for (int kind = 0; kind < 3; kind++) {
		text_fill(sizeof(raw), 2);
		if (kind == 1)
			memset(raw, 0, sizeof(raw));
		for (size_t i = 0; kind == 2 && i < sizeof(raw); i += 3000)
			fill_random(raw + i, 700, i);
		size = round_trip(sizeof(raw));
		assert_int_equal(
		    kedge__block_encode(&how, KEDGE_BYTES, raw, sizeof(raw), packed, &other, &id, &param, NULL), 0);
		if ((double)size * (kind == 1 ? 0.8 : 0.9) > (double)other)
			fail_msg("kind %d: %zu bytes, where the library needs %zu", kind, size, other);
	}
}

static void test_noise(void **state)
{
	(void)state;
	fill_random(raw, sizeof(raw), 1);
	assert_int_equal(round_trip(sizeof(raw)), sizeof(raw));
}

static bool here(void)
{
	return kedge__codec_by_id(KEDGE__CODEC_DEFLATE) != NULL;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lengths), cmocka_unit_test(test_runs),  cmocka_unit_test(test_long_codes),
	    cmocka_unit_test(test_ratio),   cmocka_unit_test(test_noise),
	};

	return cases_run_where(argc, argv, tests, NULL, NULL, here);
}
