/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks in and out of every codec and chain, and what becomes of damaged ones. */
#include "support.h"

static const enum kedge_type every_type[] = {KEDGE_BYTES, KEDGE_I8,  KEDGE_U16, KEDGE_I32, KEDGE_I64,
					     KEDGE_BF16,  KEDGE_F32, KEDGE_F64, KEDGE_C64, KEDGE_C128};

struct block {
	struct kedge__codec_choice choice;
	struct fence raw, packed, back, base;
	size_t n, used;
	uint16_t codec, param;
};

static void block_pack(struct block *b, enum kedge_type type, bool with_base)
{
	const struct kedge__codec_input in = {
	    .raw = b->raw.at, .bytes = b->n, .type = type, .base = with_base ? b->base.at : NULL};

	b->codec = b->param = 99;
	b->used = SIZE_MAX;
	assert_int_equal(kedge__block_pack(&b->choice, &in, b->packed.at, &b->used, &b->codec, &b->param, NULL), 0);
	assert_true(b->used < b->n || (b->used == b->n && b->codec == KEDGE__CODEC_NONE));
}

static void block_unpack(struct block *b)
{
	memset(b->back.at, 0xee, b->n);
	assert_int_equal(
	    kedge__block_unpack(b->codec, b->param, b->packed.at, b->used, b->base.at, b->back.at, b->n, NULL), 0);
	assert_memory_equal(b->raw.at, b->back.at, b->n);
}

static struct block block_new(const char *text, size_t n)
{
	struct block b = {.n = n};

	b.choice.codec = NULL;
	if (choice_of(text, &b.choice)) {
		b.raw = fence_new(n);
		b.packed = fence_new(n);
		b.back = fence_new(n);
		b.base = fence_new(n);
	}
	return b;
}

static void block_free(struct block *b)
{
	fence_free(&b->raw);
	fence_free(&b->packed);
	fence_free(&b->back);
	fence_free(&b->base);
}

/* With no shape, one of rows, and one of rows and planes that the block is not a multiple of. */
static void round_trips(const char *text, size_t n, const enum kedge_type *types, size_t type_count)
{
	static const uint64_t dims[][3] = {{0, 0, 0}, {1000, 50, 1}, {9, 7, 11}};
	struct block b = block_new(text, n);

	if (!b.choice.codec)
		return;
	for (int which = 0; which < PATTERNS; which++) {
		fill_pattern((enum pattern)which, b.raw.at, n);
		memcpy(b.base.at, b.raw.at, n);
		for (size_t i = 0; i < n; i += 1 + n / 9)
			b.base.at[i] ^= 0x5a;
		/* Every type meets every third pattern: all of them together meet all. */
		for (size_t t = type_count > 3 ? (size_t)which % 3 : 0; t<type_count; t += type_count> 3 ? 3 : 1) {
			kedge__codec_choice_shape(&b.choice, 3, dims[(size_t)which % 3]);
			block_pack(&b, types[t], false);
			block_unpack(&b);
			block_pack(&b, types[t], true);
			block_unpack(&b);
		}
	}
	block_free(&b);
}

static void test_round_trips(void **state)
{
	static const size_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 13, 31, 64, 255, 1000, 4099};

	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(every_choice); c++)
		for (size_t i = 0; i < KEDGE__COUNT(sizes); i++)
			round_trips(every_choice[c], sizes[i], every_type, KEDGE__COUNT(every_type));
}

/* Without differences it is for numbers that are small. */
static void test_planes(void **state)
{
	static const char *const choices[] = {"planes", "xor+planes:8", "minus+planes", "minus+delta+planes"};
	static const size_t sizes[] = {15, 64, 1000, 16384, 16448, 40000};

	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(choices); c++)
		for (size_t i = 0; i < KEDGE__COUNT(sizes); i++)
			round_trips(choices[c], sizes[i], every_type, KEDGE__COUNT(every_type));
}

static void test_large_blocks(void **state)
{
	static const enum kedge_type types[] = {KEDGE_F32, KEDGE_F64};

	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(every_choice); c++)
		round_trips(every_choice[c], 65543, types, KEDGE__COUNT(types));
}

static void test_smallest(void **state)
{
	(void)state;
	round_trips("max", 3001, every_type, KEDGE__COUNT(every_type));
	round_trips("zstd:19", 3001, every_type, 1);
}

static void test_what_shrinks_is_packed(void **state)
{
	(void)state;
	for (size_t i = 1; i < KEDGE__COUNT(every_choice); i++) {
		struct block b = block_new(every_choice[i], 4096);

		if (!b.choice.codec)
			continue;
		fill_pattern(CONSTANT, b.raw.at, b.n);
		block_pack(&b, KEDGE_F64, false);
		if (b.used >= 600 || b.codec == KEDGE__CODEC_NONE)
			fail_msg("%s: %zu bytes, codec %u", every_choice[i], b.used, b.codec);
		block_free(&b);
	}
}

/* The data-aware ones on what they are for: at least a third less than the general one alone. */
static void test_fields_shrink(void **state)
{
	static const uint64_t dims[] = {300, 50};
	struct block b = block_new("zstd:3", 60000);
	size_t plain;

	(void)state;
	fill_pattern(WAVES32, b.raw.at, b.n);
	block_pack(&b, KEDGE_F32, false);
	plain = b.used;
	assert_int_equal(kedge__codec_choice_parse("field", &b.choice, NULL), 0);
	kedge__codec_choice_shape(&b.choice, 2, dims);
	block_pack(&b, KEDGE_F32, false);
	assert_true(b.used * 3 < plain * 2);
	block_unpack(&b);
	fill_pattern(GRID, b.raw.at, b.n);
	kedge__codec_choice_shape(&b.choice, 0, NULL);
	block_pack(&b, KEDGE_F64, false);
	assert_true(b.used * 2 < b.n);
	block_unpack(&b);
	block_free(&b);
}

/* Against a base that is nearly the same, next to nothing is left. */
/* Of numbers of WIDTH bytes, at FROM; what they take, packed as TYPE with records of LEVEL bytes, and back they come.
 */
static size_t field_size(const uint8_t *from, size_t n, enum kedge_type type, int level)
{
	struct kedge__codec_choice choice;
	const struct kedge__codec_input in = {.raw = from, .bytes = n, .type = type};
	struct fence out = fence_new(n), back = fence_new(n);
	uint16_t codec, param;
	size_t used;

	assert_int_equal(kedge__codec_choice_parse("field", &choice, NULL), 0);
	choice.level = level;
	assert_int_equal(kedge__block_pack(&choice, &in, out.at, &used, &codec, &param, NULL), 0);
	assert_int_equal(kedge__block_unpack(codec, param, out.at, used, NULL, back.at, n, NULL), 0);
	assert_memory_equal(back.at, from, n);
	fence_free(&out);
	fence_free(&back);
	return used;
}

/* Big-endian numbers have the type of unsigned ones, and are as small as others. */
static void test_fields_of_either_byte_order(void **state)
{
	uint8_t little[40007], big[40007];
	uint64_t seed = 7;

	(void)state;
	for (size_t width = 4; width <= 8; width += 4) {
		size_t own, unsure, turned;

		fill_waves(little, sizeof(little), width, &seed);
		memcpy(big, little, sizeof(big));
		for (size_t i = 0; i < sizeof(big) / width; i++)
			for (size_t k = 0; k < width; k++)
				big[i * width + k] = little[i * width + width - 1 - k];
		own = field_size(little, sizeof(little), width == 8 ? KEDGE_F64 : KEDGE_F32, 0);
		turned = field_size(big, sizeof(big), width == 8 ? KEDGE_U64 : KEDGE_U32, 0);
		unsure = field_size(little, sizeof(little), width == 8 ? KEDGE_U64 : KEDGE_U32, 0);
		assert_true(own < sizeof(little) * 3 / 4);
		assert_int_equal(turned, own);
		assert_true(unsure <= own + own / 16);
	}
}

/* Numbers of records are near those of the record before. */
static void test_fields_of_records(void **state)
{
	uint8_t data[40008];
	uint64_t seed = 9;

	(void)state;
	for (size_t i = 0; i < sizeof(data) / 8; i++) {
		double v = (double)(i % 3 * 1000) + (double)i * 0.25 + (double)(draw(&seed) % 64) * 1e-6;

		memcpy(data + 8 * i, &v, 8);
	}
	assert_true(field_size(data, sizeof(data), KEDGE_F64, 24) <
		    field_size(data, sizeof(data), KEDGE_F64, 0) * 9 / 10);
	(void)field_size(data, sizeof(data), KEDGE_F64, 20); /* not a multiple of a number: as without */
}

static void test_base(void **state)
{
	static const char *const with_base[] = {"xor", "minus+shuffle+zstd", "xor+bitshuffle+lz4", "xor+planes"};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(with_base); i++) {
		struct block b = block_new(with_base[i], 8192);

		fill_pattern(RANDOM, b.raw.at, b.n);
		memcpy(b.base.at, b.raw.at, b.n);
		b.base.at[77] ^= 1;
		block_pack(&b, KEDGE_F64, false);
		assert_int_equal(b.codec, KEDGE__CODEC_NONE);
		block_pack(&b, KEDGE_F64, true);
		assert_true(b.used < 200);
		assert_int_equal(kedge__block_unpack(b.codec, b.param, b.packed.at, b.used, NULL, b.back.at, b.n, NULL),
				 KEDGE_E_DAMAGED);
		block_unpack(&b);
		block_free(&b);
	}
}

/* Whatever the bytes are, decode fails or fills exactly RAW_BYTES: the fences are the check. */
static int decode_fenced(uint16_t codec, uint16_t param, const uint8_t *in, size_t in_bytes, size_t raw_bytes)
{
	struct fence f = fence_new(in_bytes), out = fence_new(raw_bytes);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	memcpy(f.at, in, in_bytes);
	rc = kedge__block_decode(codec, param, f.at, in_bytes, out.at, raw_bytes, &err);
	assert_int_equal(rc, err.code);
	assert_true(rc == 0 || rc == KEDGE_E_DAMAGED || rc == KEDGE_E_CODEC);
	kedge__error_done(&err);
	fence_free(&f);
	fence_free(&out);
	return rc;
}

static void cut_and_stretched(const struct block *b)
{
	for (size_t n = 0; n < b->used; n += n < 40 ? 1 : 17)
		assert_int_equal(decode_fenced(b->codec, b->param, b->packed.at, n, b->n), KEDGE_E_DAMAGED);
	assert_int_equal(decode_fenced(b->codec, b->param, b->packed.at, b->used, b->n - 1), KEDGE_E_DAMAGED);
	assert_int_equal(decode_fenced(b->codec, b->param, b->packed.at, b->used, b->n + 1), KEDGE_E_DAMAGED);
	assert_int_equal(decode_fenced(b->codec, b->param, b->packed.at, b->used, b->n + 8), KEDGE_E_DAMAGED);
}

static void altered(struct block *b)
{
	static const uint8_t masks[] = {0x81, 0xff, 0x04};

	for (size_t m = 0; m < KEDGE__COUNT(masks); m++)
		for (size_t i = 0; i < b->used; i += i < 80 ? 1 : 29) {
			b->packed.at[i] ^= masks[m];
			decode_fenced(b->codec, b->param, b->packed.at, b->used, b->n);
			b->packed.at[i] ^= masks[m];
		}
	for (unsigned bit = 0; bit < 16; bit++)
		decode_fenced(b->codec, b->param ^ (uint16_t)(1 << bit), b->packed.at, b->used, b->n);
}

static void test_damage_is_contained(void **state)
{
	static const enum pattern patterns[] = {WAVES64, GRID, SMOOTH};

	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(every_choice); c++)
		for (size_t k = 0; k < KEDGE__COUNT(patterns); k++) {
			struct block b = block_new(every_choice[c], 3004);

			if (!b.choice.codec)
				continue;
			fill_pattern(patterns[k], b.raw.at, b.n);
			block_pack(&b, KEDGE_F64, false);
			if (b.codec != KEDGE__CODEC_NONE) {
				cut_and_stretched(&b);
				altered(&b);
			}
			assert_int_equal(decode_fenced(b.codec, b.param, b.packed.at, b.used, b.n), 0);
			block_free(&b);
		}
	assert_int_equal(decode_fenced(KEDGE__CODEC_NONE, 0, (const uint8_t *)"0123456789", 10, 11), KEDGE_E_DAMAGED);
}

static void test_parameters_are_checked(void **state)
{
	static const uint16_t impossible[] = {0xffff, 0x7fff, 0xff00, 0x1c02};
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint8_t out[8];

	(void)state;
	for (size_t i = 0; i < kedge__codec_count(); i++)
		for (size_t k = 0; k < KEDGE__COUNT(impossible); k++)
			assert_int_not_equal(
			    kedge__block_decode(kedge__codec_at(i)->id, impossible[k], "12345678", 8, out, 8, NULL), 0);
	assert_int_equal(kedge__block_decode(77, 0, "12345678", 8, out, 8, &err), KEDGE_E_CODEC);
	assert_non_null(strstr(kedge__error_text(&err), "77"));
	kedge__error_done(&err);
}

/* A codec that is not in this build, alone or as the second pass, is named. */
static void test_missing_codecs_are_named(void **state)
{
	static const struct {
		uint16_t id, param;
		const char *name;
	} cases[] = {{KEDGE__CODEC_DEFLATE, 0, "deflate"},
		     {KEDGE__CODEC_SHUFFLE, KEDGE__CODEC_DEFLATE | 3 << 8, "deflate"},
		     {KEDGE__CODEC_FPZIP, 0, "fpzip"}};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(cases); i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		uint8_t out[16];
		int rc = kedge__block_decode(cases[i].id, cases[i].param, "12345678", 8, out, 16, &err);

		if (kedge__codec_by_name(cases[i].name)) {
			assert_int_not_equal(rc, 0);
		} else {
			assert_int_equal(rc, KEDGE_E_CODEC);
			assert_non_null(strstr(kedge__error_text(&err), cases[i].name));
		}
		kedge__error_done(&err);
	}
}

/* Random bytes, which nothing shrinks: they do not fit into less, and always into what bound() says. */
static void test_encode_respects_room(void **state)
{
	static const size_t sizes[] = {512, 515, 70000};

	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(every_choice); c++)
		for (size_t i = 0; i < KEDGE__COUNT(sizes); i++) {
			struct block b = block_new(every_choice[c], sizes[i]);
			struct kedge__codec_input in = {.raw = b.raw.at, .bytes = sizes[i], .type = KEDGE_F64};
			size_t used = 4711;
			struct fence out;
			uint16_t param;

			if (!b.choice.codec)
				continue;
			fill_pattern(RANDOM, b.raw.at, b.n);
			out = fence_new(100);
			assert_int_equal(b.choice.codec->encode(&b.choice, &in, out.at, 100, &used, &param, NULL),
					 KEDGE_E_LIMIT);
			assert_int_equal(used, 4711);
			fence_free(&out);
			out = fence_new(b.choice.codec->bound(b.n));
			if (b.choice.codec->encode(&b.choice, &in, out.at, b.choice.codec->bound(b.n), &used, &param,
						   NULL) != 0)
				fail_msg("%s: %zu bytes do not fit its bound", every_choice[c], b.n);
			assert_true(used <= b.choice.codec->bound(b.n));
			fence_free(&out);
			block_free(&b);
		}
}

/* Every allocation failing in turn: an error, and nothing leaks. */
static void test_without_memory(void **state)
{
	(void)state;
	for (size_t c = 1; c < KEDGE__COUNT(every_choice) - 1; c++) {
		struct block b = block_new(every_choice[c], 4000);
		const struct kedge__codec_input in = {.raw = b.raw.at, .bytes = 4000, .type = KEDGE_F64};
		uint64_t allocations;

		if (!b.choice.codec)
			continue;
		fill_pattern(WAVES64, b.raw.at, b.n);
		kedge__fault_set(NULL, NULL);
		block_pack(&b, KEDGE_F64, false);
		block_unpack(&b);
		allocations = kedge__fault_alloc_count();
		for (uint64_t n = 1; n <= allocations; n++) {
			char spec[32];
			int rc;

			snprintf(spec, sizeof(spec), "alloc@%llu", (unsigned long long)n);
			assert_int_equal(kedge__fault_set(spec, NULL), 0);
			rc = kedge__block_pack(&b.choice, &in, b.packed.at, &b.used, &b.codec, &b.param, NULL);
			if (rc == 0)
				rc = kedge__block_decode(b.codec, b.param, b.packed.at, b.used, b.back.at, b.n, NULL);
			assert_int_equal(rc, KEDGE_E_NOMEM);
		}
		kedge__fault_set(NULL, NULL);
		block_pack(&b, KEDGE_F64, false);
		block_unpack(&b);
		block_free(&b);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trips),
	    cmocka_unit_test(test_planes),
	    cmocka_unit_test(test_large_blocks),
	    cmocka_unit_test(test_smallest),
	    cmocka_unit_test(test_what_shrinks_is_packed),
	    cmocka_unit_test(test_fields_shrink),
	    cmocka_unit_test(test_fields_of_either_byte_order),
	    cmocka_unit_test(test_fields_of_records),
	    cmocka_unit_test(test_base),
	    cmocka_unit_test(test_damage_is_contained),
	    cmocka_unit_test(test_parameters_are_checked),
	    cmocka_unit_test(test_missing_codecs_are_named),
	    cmocka_unit_test(test_encode_respects_room),
	    cmocka_unit_test(test_without_memory),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
