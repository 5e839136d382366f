/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/cases.h"
#include "base/base.h"

#define ROOM 1024

/* Every offset in a line on both sides, lengths with and without whole lines; nothing beside it is touched. */
static void test_any_place(void **state)
{
	static const size_t lengths[] = {0, 1, 15, 63, 64, 65, 127, 128, 200, 511, 640};
	uint8_t from[ROOM], to[ROOM], want[ROOM];

	(void)state;
	for (size_t i = 0; i < ROOM; i++)
		from[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t n = 0; n < KEDGE__COUNT(lengths); n++)
		for (size_t shift = 0; shift < 64 * 5; shift++) {
			size_t out = 64 + shift % 64, in = 64 + shift / 64 * 13;

			memset(to, 0xEE, ROOM);
			memset(want, 0xEE, ROOM);
			memcpy(want + out, from + in, lengths[n]);
			kedge__copy_past_cache(to + out, from + in, lengths[n]);
			assert_memory_equal(to, want, ROOM);
		}
}

enum { PAGE = 4096, MOST = PAGE + 256 };
static _Alignas(64) uint8_t from[MOST + 64], to[MOST + 128], want[MOST + 128];

/* LENGTH bytes that begin SHIFT bytes behind a line, and are at byte POS of a region. */
static void check_copies(size_t length, size_t shift, uint64_t pos)
{
	const uint8_t *in = from + shift * 5 % 64;
	struct kedge__sum got = {3, 5}, part = kedge__sum_of(in, length, pos);
	uint64_t sum;

	memset(to, 0xEE, sizeof(to));
	memset(want, 0xEE, sizeof(want));
	memcpy(want + shift, in, length);
	sum = kedge__copy_checked(to + shift, in, shift % 3 ? from : NULL, length, pos, &got);
	kedge__copy_fence();
	assert_int_equal(sum, kedge__checksum_plain(in, length));
	assert_int_equal(got.s1, part.s1 + 3);
	assert_int_equal(got.s2, part.s2 + 5);
	assert_memory_equal(to, want, sizeof(to));
	memset(to, 0xEE, sizeof(to));
	assert_int_equal(kedge__copy_hashed(to + shift, in, length), sum);
	assert_memory_equal(to, want, sizeof(to));
	memset(to, 0xEE, sizeof(to));
	kedge__copy_summed(to + shift, in, shift % 2 ? from : NULL, length, pos, &got);
	kedge__copy_fence();
	assert_int_equal(got.s1, 2 * part.s1 + 3);
	assert_int_equal(got.s2, 2 * part.s2 + 5);
	assert_memory_equal(to, want, sizeof(to));
}

/* Pages, and what is no page, to every offset in a line, from every word of a page of the region on, and every line of
 * it. */
static void test_checked(void **state)
{
	static const size_t lengths[] = {PAGE, 8, 72, 1000, PAGE - 64, PAGE + 64};

	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 131 ^ i >> 6 ^ i >> 3);
	for (size_t n = 0; n < KEDGE__COUNT(lengths); n++)
		for (size_t shift = 0; shift < 64; shift++) {
			check_copies(lengths[n], shift, 8 * (shift * 7919 + n));
			for (uint64_t line = shift % 7; line < 70; line += n ? 64 : 7)
				check_copies(lengths[n], shift, 64 * line);
		}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_any_place),
	    cmocka_unit_test(test_checked),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
