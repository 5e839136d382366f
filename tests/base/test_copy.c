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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_any_place),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
