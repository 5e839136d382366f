/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec echo: what is found again, whichever way around it stands, is packed to little; all comes back; damage is
 * contained. */
#include "support.h"

#include "codec/echo.h"

#define MOST (700 << 10) /* bytes */

/* Numbers of which neighbours have little in common. */
static uint64_t number(size_t i, unsigned width)
{
	uint64_t state = i + 1, v = draw(&state);

	return width == 8 ? UINT64_C(0x3ff0000000000000) + (v >> 12) : UINT64_C(0x3f800000) + (v >> 41);
}

static void put(uint8_t *p, size_t i, unsigned width, uint64_t v)
{
	if (width == 8)
		kedge__put64(p + 8 * i, v);
	else
		kedge__put32(p + 4 * i, (uint32_t)v);
}

struct image { /* COUNT numbers from TO on are those from FROM on, nearly */
	size_t to, count, from;
	bool backwards, negated;
};

static void make(uint8_t *p, size_t n, unsigned width, const struct image *images, size_t count)
{
	for (size_t i = 0; i < n; i++)
		put(p, i, width, number(i, width));
	for (size_t k = 0; k < count; k++)
		for (size_t i = 0; i < images[k].count; i++) {
			size_t from = images[k].backwards ? images[k].from - i : images[k].from + i;
			uint64_t v = number(from, width) + i % 3;

			put(p, images[k].to + i, width, images[k].negated ? v | UINT64_C(1) << (8 * width - 1) : v);
		}
}

static size_t round_trip(const char *codec, enum kedge_type type, const uint8_t *raw, size_t bytes)
{
	struct fence in = fence_new(bytes), packed = fence_new(bytes), back = fence_new(bytes);
	struct kedge__codec_choice choice;
	uint16_t id, param;
	size_t used;

	memcpy(in.at, raw, bytes);
	assert_true(choice_of(codec, &choice));
	assert_int_equal(kedge__block_encode(&choice, type, in.at, bytes, packed.at, &used, &id, &param, NULL), 0);
	assert_int_equal(kedge__block_decode(id, param, packed.at, used, back.at, bytes, NULL), 0);
	assert_memory_equal(back.at, raw, bytes);
	fence_free(&in);
	fence_free(&packed);
	fence_free(&back);
	return used;
}

/* Within a part, from one to another, over several, over the middle; nearly half of each is an echo. */
static void test_images_are_found(void **state)
{
	static const struct {
		size_t n;
		struct image image;
	} cases[] = {{4000, {2000, 2000, 0, false, false}},     {4000, {2000, 2000, 1999, true, false}},
		     {4000, {2000, 2000, 1999, true, true}},    {40000, {20000, 20000, 19999, true, true}},
		     {40000, {20100, 19000, 700, false, true}}, {80000, {41000, 39000, 40900, true, false}},
		     {30000, {15000, 15000, 3, false, false}},  {33000, {17000, 16000, 16500, true, true}}};
	uint8_t *raw = malloc(MOST);

	(void)state;
	assert_non_null(raw);
	for (unsigned width = 4; width <= 8; width += 4)
		for (size_t c = 0; c < KEDGE__COUNT(cases); c++) {
			enum kedge_type type = width == 8 ? KEDGE_F64 : KEDGE_F32;
			size_t bytes = cases[c].n * width, field, echo;
			size_t saved = cases[c].image.count * (width == 8 ? 5 : 2);

			make(raw, cases[c].n, width, &cases[c].image, 1);
			field = round_trip("field", type, raw, bytes + 3);
			echo = round_trip("echo", type, raw, bytes + 3);
			if (echo + saved > field)
				fail_msg("case %zu, %u bytes: %zu, without echoes %zu", c, width, echo, field);
			assert_true(kedge__echo_pays(raw, cases[c].n, width));
		}
	free(raw);
}

/* Half a million floats of the same size: their upper bits alone do not tell them apart. A quarter of them is looked
 * at, as a plan does. */
static void test_many_floats(void **state)
{
	enum { HALF = 1 << 18, WINDOW = 2048, EVERY = 8192 };
	const struct image image = {HALF, HALF, HALF - 1, true, false};
	uint8_t *raw = malloc((size_t)8 * HALF), *windows = malloc((size_t)2 * HALF + 4 * WINDOW);
	uint64_t seed = 9;
	size_t n = 0;

	(void)state;
	make(raw, (size_t)2 * HALF, 4, NULL, 0);
	for (size_t i = 0; i < image.count; i++)
		put(raw, image.to + i, 4, number(image.from - i, 4));
	for (size_t at = 0; at < (size_t)2 * HALF; at += EVERY, n += WINDOW)
		memcpy(windows + 4 * n, raw + 4 * (at + draw(&seed) % (EVERY - WINDOW)), (size_t)4 * WINDOW);
	assert_true(kedge__echo_pays(windows, n, 4));
	assert_true(round_trip("echo", KEDGE_F32, raw, (size_t)8 * HALF) < (size_t)8 * HALF * 6 / 10);
	free(raw);
	free(windows);
}

static void test_what_has_none(void **state)
{
	uint8_t *raw = malloc(MOST);

	(void)state;
	assert_non_null(raw);
	for (unsigned width = 4; width <= 8; width += 4) {
		enum kedge_type type = width == 8 ? KEDGE_F64 : KEDGE_F32;

		make(raw, 70000, width, NULL, 0);
		assert_false(kedge__echo_pays(raw, 70000, width));
		assert_true(round_trip("echo", type, raw, 70000 * (size_t)width) <=
			    round_trip("field", type, raw, 70000 * (size_t)width) + 2048);
		memset(raw, 0, MOST);
		assert_false(kedge__echo_pays(raw, MOST / width, width));
		assert_true(round_trip("echo", type, raw, MOST) < 2048);
	}
	/* What is no floating-point number is stored as it is. */
	make(raw, 4000, 8, NULL, 0);
	assert_int_equal(round_trip("echo", KEDGE_U64, raw, 32000), 32000);
	assert_int_equal(round_trip("echo", KEDGE_F16, raw, 32000), 32000);
	free(raw);
}

/* Whatever is found refers to numbers before it, and echoes do not overlap. */
static void test_found_is_valid(void **state)
{
	uint8_t *raw = malloc(MOST);

	(void)state;
	assert_non_null(raw);
	for (int which = 0; which < PATTERNS; which++)
		for (unsigned width = 4; width <= 8; width += 4)
			for (size_t n = 0; n <= 20000; n = 3 * n + 1) {
				struct kedge__echo_list list = {0};
				size_t end = 0;

				fill_pattern((enum pattern)which, raw, n * width);
				assert_true(kedge__echo_find(raw, n, width, &list));
				for (size_t i = 0; i < list.count; i++) {
					const struct kedge__echo *e = &list.at[i];

					assert_true(e->to >= end && e->n && e->from < e->to && e->to + e->n <= n);
					assert_true(!e->backwards || e->from + 1 >= e->n);
					end = e->to + e->n;
				}
				kedge__array_done(&list);
			}
	free(raw);
}

/* Echoes that cannot be: of what comes later, of what is before the block, longer than the part, on both sides of its
 * beginning. */
static void test_damage_is_contained(void **state)
{
	const struct image images[] = {{3000, 300, 100, false, false}, {17000, 400, 16500, true, true}};
	size_t bytes = 20000 * 8, used, refused = 0;
	uint8_t *raw = malloc(MOST);
	struct fence packed = fence_new(bytes), back = fence_new(bytes);
	struct kedge__codec_choice choice;
	uint16_t id, param;

	(void)state;
	assert_non_null(raw);
	memset(raw, 0, bytes);
	make(raw, 20000, 8, images, 2);
	assert_true(choice_of("echo", &choice));
	assert_int_equal(kedge__block_encode(&choice, KEDGE_F64, raw, bytes, packed.at, &used, &id, &param, NULL), 0);
	assert_int_equal(id, KEDGE__CODEC_ECHO);
	assert_true(kedge__get32(packed.at) > 0);
	for (size_t part = 0, at = 0; part < 2;
	     part++, at += 8 + kedge__get32(packed.at + at) + kedge__get32(packed.at + at + 4))
		for (size_t i = at; i < at + 8 + kedge__get32(packed.at + at); i++)
			for (unsigned bit = 0; bit < 8; bit++) {
				packed.at[i] ^= (uint8_t)(1 << bit);
				refused += kedge__block_decode(id, param, packed.at, used, back.at, bytes, NULL) != 0;
				packed.at[i] ^= (uint8_t)(1 << bit);
			}
	assert_true(refused > 100);
	for (size_t n = 0; n < used; n += 997)
		assert_int_equal(kedge__block_decode(id, param, packed.at, n, back.at, bytes, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__block_decode(id, param, packed.at, used, back.at, bytes - 8, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__block_decode(id, 1, packed.at, used, back.at, bytes, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__block_decode(id, param, packed.at, used, back.at, bytes, NULL), 0);
	assert_memory_equal(back.at, raw, bytes);
	fence_free(&packed);
	fence_free(&back);
	free(raw);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_images_are_found),    cmocka_unit_test(test_many_floats),
	    cmocka_unit_test(test_what_has_none),       cmocka_unit_test(test_found_is_valid),
	    cmocka_unit_test(test_damage_is_contained),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
