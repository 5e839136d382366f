/* SPDX-License-Identifier: BSD-3-Clause */
/* What configuration may say, and what "auto" and "max" make of data. */
#include "support.h"

#include <math.h>

static void test_choice_parse(void **state)
{
	struct kedge__codec_choice c = {0};

	(void)state;
	assert_int_equal(kedge__codec_choice_parse("zstd:9", &c, NULL), 0);
	assert_string_equal(c.codec->name, "zstd");
	assert_int_equal(c.level, 9);
	assert_false(c.automatic);
	assert_int_equal(kedge__codec_choice_parse("zstd", &c, NULL), 0);
	assert_int_equal(c.level, 3);
	assert_int_equal(kedge__codec_choice_parse("lz4:-4", &c, NULL), 0);
	assert_int_equal(c.level, -4);
	assert_int_equal(kedge__codec_choice_parse("auto", &c, NULL), 0);
	assert_true(c.automatic && !c.smallest);
	assert_int_equal(kedge__codec_choice_parse("max", &c, NULL), 0);
	assert_true(c.automatic && c.smallest);
	assert_int_equal(kedge__codec_choice_parse("none", &c, NULL), 0);
	assert_int_equal(c.codec->id, KEDGE__CODEC_NONE);
}

static void reads_as(const char *text, const char *full)
{
	struct kedge__codec_choice c;
	char got[KEDGE__CODEC_NAME_ROOM];

	assert_int_equal(kedge__codec_choice_parse(text, &c, NULL), 0);
	assert_string_equal(kedge__codec_choice_describe(&c, got), full);
	assert_int_equal(kedge__codec_choice_parse(full, &c, NULL), 0);
	assert_string_equal(kedge__codec_choice_describe(&c, got), full);
}

static void test_chains_parse(void **state)
{
	(void)state;
	reads_as("auto", "auto");
	reads_as("max", "max");
	reads_as("none", "none");
	reads_as("shuffle", "shuffle+zstd:3");
	reads_as("shuffle+lz4", "shuffle+lz4:0");
	reads_as("shuffle:8", "shuffle:8+zstd:3");
	reads_as("xor+bitshuffle:4+lz4", "xor+bitshuffle:4+lz4:0");
	reads_as("delta", "delta+zstd:3");
	reads_as("delta+bitshuffle+zstd:-2", "delta+bitshuffle+zstd:-2");
	reads_as("xor+shuffle", "xor+shuffle+zstd:3");
	reads_as("minus+delta+lz4:-1", "minus+delta+lz4:-1");
	reads_as("fpc64", "fpc64:12");
	reads_as("fpc32:9+zstd", "fpc32:9+zstd:3");
	reads_as("field", "field");
	reads_as("records", "records+zstd:3");
	reads_as("planes", "planes");
	reads_as("delta+planes:4", "delta+planes:4");
	reads_as("minus+planes", "minus+planes");
	reads_as("records:88", "records:88+zstd:3");
	reads_as("records:4096+lz4", "records:4096+lz4:0");
	reads_as("xor+records:56+zstd:1", "xor+records:56+zstd:1");
}

static void refused(const char *text, const char *says)
{
	const struct kedge__codec_choice before = {.level = 4711};
	struct kedge__codec_choice c = before;
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(kedge__codec_choice_parse(text, &c, &err), KEDGE_E_CONFIG);
	assert_memory_equal(&c, &before, sizeof(c));
	if (!strstr(kedge__error_text(&err), says))
		fail_msg("'%s': \"%s\" does not say \"%s\"", text, kedge__error_text(&err), says);
	kedge__error_done(&err);
}

static void test_choice_refused(void **state)
{
	(void)state;
	refused("zst", "did you mean 'zstd'?");
	refused("lz5", "none, lz4, zstd");
	refused("", "auto, max");
	refused(":3", "auto, max");
	refused("a-name-that-is-much-longer-than-any-codec-has-or-will-ever-have:7", "not one of");
	refused("zstd:", "-7 to 19");
	refused("zstd:20", "-7 to 19");
	refused("zstd:3x", "-7 to 19");
	refused("zstd:99999999999999999999", "-7 to 19");
	refused("none:1", "no levels");
	refused("auto:1", "no level");
	refused("max+zstd", "cannot be chained");
	refused("shuffle+auto", "cannot be chained");
	refused("shuffle:3+zstd", "not 1, 2, 4 or 8");
	refused("bitshuffle:16", "not 1, 2, 4 or 8");
	refused("shuffle:0", "not 1, 2, 4 or 8");
	refused("shuffle+zstd:99", "-7 to 19");
	refused("zstd+lz4", "lz4 cannot follow zstd");
	refused("lz4+shuffle", "shuffle cannot follow lz4");
	refused("shuffle+zstd+lz4", "lz4 cannot follow zstd");
	refused("shuffle+bitshuffle", "bitshuffle cannot follow shuffle");
	refused("shuffle+delta", "delta cannot follow shuffle");
	refused("xor+minus+zstd", "xor and minus");
	refused("planes+zstd", "zstd cannot follow planes");
	refused("planes:3", "not 1, 2, 4 or 8");
	refused("records:1", "2 to 4096");
	refused("records:4097", "2 to 4096");
	refused("records+shuffle", "shuffle cannot follow records");
	refused("shuffle+records", "records cannot follow shuffle");
	refused("minus+records", "only xor can precede records");
	refused("delta+records+zstd", "only xor can precede records");
	refused("shuffle+", "not one of");
	refused("+zstd", "not one of");
}

static void test_shape(void **state)
{
	struct kedge__codec_choice c = {0};

	(void)state;
	kedge__codec_choice_shape(&c, 3, (const uint64_t[]){10, 20, 30});
	assert_int_equal(c.row, 30);
	assert_int_equal(c.plane, 600);
	kedge__codec_choice_shape(&c, 5, (const uint64_t[]){5, 16, 1, 64, 64});
	assert_int_equal(c.row, 64);
	assert_int_equal(c.plane, 4096);
	kedge__codec_choice_shape(&c, 2, (const uint64_t[]){50, 40});
	assert_int_equal(c.row, 40);
	assert_int_equal(c.plane, 0);
	kedge__codec_choice_shape(&c, 2, (const uint64_t[]){1, 40});
	assert_int_equal(c.row, 0);
	kedge__codec_choice_shape(&c, 0, NULL);
	assert_int_equal(c.row, 0);
	kedge__codec_choice_shape(&c, 3, (const uint64_t[]){7, UINT64_C(1) << 40, 40});
	assert_int_equal(c.row, 40);
	assert_int_equal(c.plane, 0);
}

static void test_blocks_are_described(void **state)
{
	char text[KEDGE__CODEC_NAME_ROOM];

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(every_choice) - 1; i++) {
		struct kedge__codec_choice c;
		uint8_t raw[4096], out[4096];
		const struct kedge__codec_input in = {raw, sizeof(raw), KEDGE_F64, raw};
		char level[KEDGE__CODEC_NAME_ROOM];
		uint16_t codec, param;
		size_t used;

		if (!choice_of(every_choice[i], &c))
			continue;
		memset(raw, 1, sizeof(raw));
		assert_int_equal(kedge__block_pack(&c, &in, out, &used, &codec, &param, NULL), 0);
		kedge__codec_describe(codec, param, text);
		/* The same but for levels. */
		kedge__codec_choice_describe(&c, level);
		for (char *colon; (colon = strchr(level, ':'));)
			memmove(colon, colon + 1 + strspn(colon + 1, "-0123456789"),
				strlen(colon + 1 + strspn(colon + 1, "-0123456789")) + 1);
		assert_string_equal(text, level);
	}
	assert_string_equal(kedge__codec_describe(777, 0, text), "codec 777");
}

/* Of data that stand for a region of which there is much more, so that everything is tried. */
static struct kedge__codec_choice sample(const char *text, enum kedge_type type, const void *data, size_t bytes)
{
	const struct kedge__codec_input pieces[] = {
	    {.raw = data, .bytes = 1000, .type = type},
	    {.raw = (const uint8_t *)data + 1000, .type = type},
	    {.raw = (const uint8_t *)data + 1000, .bytes = bytes - 1000, .type = type},
	};
	struct kedge__codec_choice wanted, c;

	assert_int_equal(kedge__codec_choice_parse(text, &wanted, NULL), 0);
	wanted.pace = kedge__codec_pace_built_in;
	wanted.bytes = UINT64_C(1) << 30;
	c = kedge__codec_sample(&wanted, pieces, 3, NULL);
	assert_false(c.automatic);
	assert_non_null(c.codec);
	return c;
}

#define BYTES 300000

static void test_auto(void **state)
{
	uint8_t *data = malloc(BYTES);
	uint64_t seed = 1;

	(void)state;
	assert_non_null(data);
	fill_pattern(RANDOM, data, BYTES);
	assert_int_equal(sample("auto", KEDGE_F64, data, BYTES).codec->id, KEDGE__CODEC_NONE);
	assert_int_equal(sample("auto", KEDGE_BYTES, data, BYTES).codec->id, KEDGE__CODEC_NONE);
	memset(data, 1, BYTES);
	assert_int_not_equal(sample("auto", KEDGE_F64, data, BYTES).codec->id, KEDGE__CODEC_NONE);
	/* Sixteen values a byte without order: entropy coding halves them, matching finds next to nothing. */
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(draw(&seed) & 15);
	assert_int_equal(sample("auto", KEDGE_BYTES, data, BYTES).codec->id, KEDGE__CODEC_ZSTD);
	fill_pattern(WAVES64, data, BYTES);
	assert_int_equal(sample("auto", KEDGE_F64, data, BYTES).codec->id, KEDGE__CODEC_FIELD);
	fill_pattern(WAVES32, data, BYTES);
	assert_int_equal(sample("auto", KEDGE_F32, data, BYTES).codec->id, KEDGE__CODEC_FIELD);
	free(data);
}

/* Numbers of a byte, like those of a picture: neighbours differ by little. As bytes of which nothing is known they are
 * not. */
static void test_small_numbers(void **state)
{
	uint8_t *data = malloc(BYTES), *out = malloc(BYTES);
	struct kedge__codec_choice number, byte, most;
	uint16_t codec, param;
	size_t a, b, c;
	uint64_t seed = 3;

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(128 + 90 * sin((double)i / 300) + (double)(draw(&seed) % 7));
	number = sample("auto", KEDGE_U8, data, BYTES);
	byte = sample("auto", KEDGE_BYTES, data, BYTES);
	most = sample("max", KEDGE_U8, data, BYTES);
	assert_true(number.steps & KEDGE__STEP_DELTA);
	assert_int_equal(kedge__block_encode(&number, KEDGE_U8, data, BYTES, out, &a, &codec, &param, NULL), 0);
	assert_int_equal(kedge__block_encode(&byte, KEDGE_BYTES, data, BYTES, out, &b, &codec, &param, NULL), 0);
	assert_int_equal(kedge__block_encode(&most, KEDGE_U8, data, BYTES, out, &c, &codec, &param, NULL), 0);
	assert_true(a < b * 3 / 4 && c <= a);
	free(data);
	free(out);
}

/* The slower storage is, the smaller what is chosen; where it is as fast as memory, nothing is packed. */
static void test_storage_and_target(void **state)
{
	static const double speeds[] = {1e5, 20e6, 100e6, 1e9, 100e9};
	uint8_t *data = malloc(BYTES), *out = malloc(BYTES);
	struct kedge__codec_choice wanted, c;
	const struct kedge__codec_input piece = {.raw = data, .bytes = BYTES, .type = KEDGE_F64};
	size_t last = 0;

	(void)state;
	assert_non_null(data);
	assert_non_null(out);
	fill_pattern(WAVES64, data, BYTES);
	kedge__codec_choice_parse("auto", &wanted, NULL);
	wanted.pace = kedge__codec_pace_built_in;
	wanted.bytes = UINT64_C(1) << 30;
	for (size_t i = 0; i < KEDGE__COUNT(speeds); i++) {
		uint16_t codec, param;
		size_t used;

		wanted.storage = speeds[i];
		c = kedge__codec_sample(&wanted, &piece, 1, NULL);
		assert_int_equal(kedge__block_encode(&c, KEDGE_F64, data, BYTES, out, &used, &codec, &param, NULL), 0);
		assert_true(used >= last);
		last = used;
	}
	assert_int_equal(c.codec->id, KEDGE__CODEC_NONE);
	wanted.storage = 0;
	wanted.target = 1e9;
	c = kedge__codec_sample(&wanted, &piece, 1, NULL);
	assert_int_not_equal(c.codec->id, KEDGE__CODEC_FIELD);
	wanted.target = 1e6;
	c = kedge__codec_sample(&wanted, &piece, 1, NULL);
	assert_int_not_equal(c.codec->id, KEDGE__CODEC_NONE);
	free(data);
	free(out);
}

/* Of data on a GPU, what the GPU packs at once is chosen, unless storage is so slow that something smaller is through
 * first; and nothing that the bus would have to wait for. */
static void test_there(void **state)
{
	uint8_t *data = malloc(BYTES);
	struct kedge__codec_choice wanted, c;
	struct kedge__codec_input piece = {.raw = data, .bytes = BYTES, .type = KEDGE_F64};
	struct kedge__gpu_how how;
	uint16_t param;

	(void)state;
	assert_non_null(data);
	fill_pattern(WAVES64, data, BYTES);
	kedge__codec_choice_parse("auto", &wanted, NULL);
	wanted.pace = kedge__codec_pace_built_in;
	wanted.bytes = UINT64_C(1) << 30;
	for (double speed = 1e5; speed < 1e12; speed *= 10) {
		wanted.storage = speed;
		wanted.bus = 0;
		assert_false(kedge__codec_sample(&wanted, &piece, 1, NULL).there);
		wanted.bus = KEDGE__CODEC_BUS;
		c = kedge__codec_sample(&wanted, &piece, 1, NULL);
		assert_int_equal(c.there, speed >= 1e9);
		if (c.there)
			assert_true(kedge__codec_there(&c, KEDGE_F64, &how, &param) && how.codec == KEDGE__GPU_PLANES &&
				    how.width == 8 && !c.near);
	}
	wanted.smallest = true;
	assert_false(kedge__codec_sample(&wanted, &piece, 1, NULL).there);
	wanted.smallest = false;
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t) "the state of all regions is saved "[i * (1 + i / 4096) % 34];
	piece.type = KEDGE_BYTES;
	wanted.storage = 10e9;
	assert_false(kedge__codec_sample(&wanted, &piece, 1, NULL).there);
	wanted.bus = 25e9; /* of an older GPU */
	c = kedge__codec_sample(&wanted, &piece, 1, NULL);
	assert_true(c.there && kedge__codec_there(&c, KEDGE_BYTES, &how, &param));
	free(data);
}

/* "max" is never larger than "auto" on what was looked at. */
static void test_max(void **state)
{
	enum { N = 4096 };
	uint8_t data[N], out[N];

	(void)state;
	for (int which = 0; which < PATTERNS; which++) {
		struct kedge__codec_choice quick, small;
		uint16_t codec, param;
		size_t a, b;

		fill_pattern((enum pattern)which, data, N);
		quick = sample("auto", KEDGE_F64, data, N);
		small = sample("max", KEDGE_F64, data, N);
		assert_int_equal(kedge__block_encode(&quick, KEDGE_F64, data, N, out, &a, &codec, &param, NULL), 0);
		assert_int_equal(kedge__block_encode(&small, KEDGE_F64, data, N, out, &b, &codec, &param, NULL), 0);
		assert_true(b <= a);
	}
}

/* What is tried, and on how much, grows with what is going to be packed, and says what it did. */
static void test_looks_in_proportion(void **state)
{
	static const uint64_t regions[] = {0, 1 << 20, 8 << 20, 1 << 30};
	uint8_t *data = malloc(BYTES);
	const struct kedge__codec_input piece = {.raw = data, .bytes = BYTES, .type = KEDGE_F32};
	struct kedge__codec_choice wanted, first = {0};
	uint64_t last = 0;

	(void)state;
	assert_non_null(data);
	fill_pattern(WAVES32, data, BYTES);
	kedge__codec_choice_parse("auto", &wanted, NULL);
	wanted.pace = kedge__codec_pace_built_in;
	for (size_t i = 0; i < KEDGE__COUNT(regions); i++) {
		struct kedge__codec_why why;
		struct kedge__codec_choice c;

		wanted.bytes = regions[i];
		c = kedge__codec_sample(&wanted, &piece, 1, &why);
		assert_true(why.tried * why.sampled_bytes >= last);
		assert_true(why.tried * why.sampled_bytes <= KEDGE__MAX(regions[i], (uint64_t)BYTES) / 10);
		assert_true(why.size < 1 && why.storage == KEDGE__CODEC_STORAGE && why.encode > 0 && why.decode > 0);
		assert_int_equal(why.reason, why.tried ? KEDGE__CODEC_FASTEST : KEDGE__CODEC_UNTRIED);
		assert_non_null(kedge__codec_reason_text(why.reason));
		last = why.tried * why.sampled_bytes;
		first = i ? first : c;
		assert_ptr_equal(c.codec, first.codec);
	}
	assert_true(last > 0);
	free(data);
}

/* A base that is nearly the same is used, one that has nothing to do with it is not. */
static void test_base_is_used(void **state)
{
	uint8_t *data = malloc(2 * BYTES), *base = data + BYTES;
	const struct kedge__codec_input piece = {.raw = data, .bytes = BYTES, .type = KEDGE_F64, .base = base};
	struct kedge__codec_choice wanted;

	(void)state;
	assert_non_null(data);
	fill_pattern(RANDOM, data, BYTES);
	memcpy(base, data, BYTES);
	for (size_t i = 0; i < BYTES; i += 64)
		base[i] ^= 3;
	kedge__codec_choice_parse("auto", &wanted, NULL);
	wanted.pace = kedge__codec_pace_built_in;
	wanted.bytes = UINT64_C(1) << 30;
	assert_true(kedge__codec_sample(&wanted, &piece, 1, NULL).steps & (KEDGE__STEP_XOR | KEDGE__STEP_MINUS));
	fill_pattern(RANDOM, data, BYTES);
	memset(base, 0, BYTES);
	assert_int_equal(kedge__codec_sample(&wanted, &piece, 1, NULL).steps, 0);
	free(data);
}

/* Memory without a type, one half doubles and the other text: a block of each gets what is best for it. */
static void test_blocks_choose(void **state)
{
	enum { HALF = 1 << 19 };
	static const char *const words[] = {"the ", "region ", "of ",  "a ",   "version ",
					    "is ",  "packed ", "and ", "kept "};
	uint8_t *data = malloc(2 * HALF), *out = malloc(HALF), *back = malloc(HALF);
	const struct kedge__codec_input whole = {.raw = data, .bytes = 2 * HALF, .type = KEDGE_BYTES};
	struct kedge__codec_choice wanted, c;
	uint16_t codec[2], param;
	uint64_t seed = 5;
	size_t at = HALF;

	(void)state;
	assert_true(data && out && back);
	for (size_t i = 0; i < HALF; i += 8)
		kedge__put64(data + i, UINT64_C(0x3ff0000000000000) + (i << 21) + draw(&seed) % (1 << 24));
	while (at < 2 * HALF) {
		const char *word = words[draw(&seed) % KEDGE__COUNT(words)];
		size_t n = KEDGE__MIN(strlen(word), 2 * HALF - at);

		memcpy(data + at, word, n);
		at += n;
	}
	kedge__codec_choice_parse("auto", &wanted, NULL);
	wanted.pace = kedge__codec_pace_built_in;
	wanted.bytes = UINT64_C(1) << 30;
	c = kedge__codec_sample(&wanted, &whole, 1, NULL);
	for (size_t i = 0; i < 2; i++) {
		size_t used;

		assert_int_equal(
		    kedge__block_encode(&c, KEDGE_BYTES, data + i * HALF, HALF, out, &used, &codec[i], &param, NULL),
		    0);
		assert_int_equal(kedge__block_decode(codec[i], param, out, used, back, HALF, NULL), 0);
		assert_memory_equal(back, data + i * HALF, HALF);
	}
	assert_int_equal(codec[0], KEDGE__CODEC_SHUFFLE);
	assert_int_not_equal(codec[1], KEDGE__CODEC_SHUFFLE);
	free(data);
	free(out);
	free(back);
}

static double all_alike(const char *codec, double size)
{
	(void)codec, (void)size;
	return 1e-9;
}

/* Calm nearly everywhere, and predicted best from the plane before, which is longer than a sample. */
static void test_sparse_planes(void **state)
{
	enum { NZ = 48, NY = 80, NX = 96, BLOBS = 8, PIECES = 8, PIECE = 128 << 10 };
	const uint64_t dims[] = {NZ, NY, NX};
	float *data = calloc((size_t)NZ * NY * NX, sizeof(*data));
	struct kedge__codec_input pieces[PIECES];
	struct kedge__codec_choice wanted, c;
	uint64_t seed = 21;

	(void)state;
	assert_non_null(data);
	for (int b = 0; b < BLOBS; b++) {
		int at[] = {(int)(draw(&seed) % NZ), (int)(draw(&seed) % NY), (int)(draw(&seed) % NX)};
		double width = 3 + (double)(draw(&seed) % 300) * 0.01;

		for (int i = 0; i < NZ * NY * NX; i++) {
			int z = i / (NY * NX) - at[0], y = i / NX % NY - at[1], x = i % NX - at[2];
			double v = 8 * exp(-(double)(z * z + y * y + x * x) / (2 * width * width));

			data[i] += v > 0.2 ? (float)(v * (1 + (double)(draw(&seed) % 1000) * 2e-5)) : 0;
		}
	}
	for (size_t i = 0; i < PIECES; i++)
		pieces[i] = (struct kedge__codec_input){
		    .raw = (uint8_t *)data + i * (sizeof(float) * NZ * NY * NX - PIECE) / (PIECES - 1) / 128 * 128,
		    .bytes = PIECE,
		    .type = KEDGE_F32};
	kedge__codec_choice_parse("auto", &wanted, NULL);
	kedge__codec_choice_shape(&wanted, 3, dims);
	wanted.pace = all_alike;
	wanted.bytes = 8 * sizeof(float) * NZ * NY * NX;
	c = kedge__codec_sample(&wanted, pieces, PIECES, NULL);
	assert_int_equal(c.codec->id, KEDGE__CODEC_FIELD);
	free(data);
}

static void test_a_fixed_choice_is_kept(void **state)
{
	struct kedge__codec_choice wanted, got;
	const struct kedge__codec_input piece = {.raw = "abc", .bytes = 3};
	struct kedge__codec_why why;

	(void)state;
	kedge__codec_choice_parse("zstd:7", &wanted, NULL);
	got = kedge__codec_sample(&wanted, &piece, 1, &why);
	assert_int_equal(why.reason, KEDGE__CODEC_GIVEN);
	assert_ptr_equal(got.codec, wanted.codec);
	assert_int_equal(got.level, 7);
}

static void test_without_memory_auto_stores(void **state)
{
	struct kedge__codec_choice choice;
	uint8_t raw[4096] = {0}, out[4096];
	uint16_t codec, param;
	size_t used;

	(void)state;
	kedge__codec_choice_parse("auto", &choice, NULL);
	choice.bytes = UINT64_C(1) << 30;
	assert_int_equal(kedge__fault_set("alloc@1", NULL), 0);
	assert_int_equal(kedge__block_encode(&choice, KEDGE_BYTES, raw, sizeof(raw), out, &used, &codec, &param, NULL),
			 0);
	kedge__fault_set(NULL, NULL);
	assert_int_equal(codec, KEDGE__CODEC_NONE);
	assert_int_equal(used, sizeof(raw));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_choice_parse),
	    cmocka_unit_test(test_chains_parse),
	    cmocka_unit_test(test_choice_refused),
	    cmocka_unit_test(test_shape),
	    cmocka_unit_test(test_blocks_are_described),
	    cmocka_unit_test(test_auto),
	    cmocka_unit_test(test_small_numbers),
	    cmocka_unit_test(test_storage_and_target),
	    cmocka_unit_test(test_there),
	    cmocka_unit_test(test_max),
	    cmocka_unit_test(test_looks_in_proportion),
	    cmocka_unit_test(test_base_is_used),
	    cmocka_unit_test(test_blocks_choose),
	    cmocka_unit_test(test_sparse_planes),
	    cmocka_unit_test(test_a_fixed_choice_is_kept),
	    cmocka_unit_test(test_without_memory_auto_stores),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
