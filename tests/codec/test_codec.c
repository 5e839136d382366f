/* Blocks in and out of every codec; the sampler; what configuration may say. */
#include "codec/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* A buffer that ends where the page behind it cannot be touched. */
struct fence {
	uint8_t *map, *at;
	size_t map_bytes;
};

static struct fence fence_new(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t body = (bytes + page - 1) / page * page;
	struct fence f = {.map_bytes = body + page};

	f.map = mmap(NULL, f.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(f.map != MAP_FAILED);
	assert_int_equal(mprotect(f.map + body, page, PROT_NONE), 0);
	memset(f.map, 0xa5, body);
	f.at = f.map + body - bytes;
	return f;
}

static void fence_free(struct fence *f)
{
	for (const uint8_t *p = f->map; p < f->at; p++)
		assert_int_equal(*p, 0xa5);
	munmap(f->map, f->map_bytes);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 29 ^ *state >> 11;
}

static void fill_random(uint8_t *p, size_t n, uint64_t *state)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)next_random(state);
}

static void fill_words(uint8_t *p, size_t n, uint64_t base, uint64_t mask, uint64_t *state)
{
	for (size_t i = 0; i + 8 <= n; i += 8)
		kedge__put64(p + i, base | (next_random(state) & mask));
	memset(p + n / 8 * 8, 0x3c, n % 8);
}

enum pattern { RANDOM, CONSTANT, DENORMALS, NANS, NEGATIVE_ZEROS, SMOOTH, PATTERNS };

static void fill_pattern(enum pattern which, uint8_t *p, size_t n)
{
	uint64_t state = 7;

	switch (which) {
	case RANDOM:
		fill_random(p, n, &state);
		break;
	case CONSTANT:
		memset(p, 0x41, n);
		break;
	case DENORMALS:
		fill_words(p, n, 0, 0xfffff, &state);
		break;
	case NANS:
		fill_words(p, n, UINT64_C(0x7ff8000000000000), UINT64_C(0x8000000000ffffff), &state);
		break;
	case NEGATIVE_ZEROS:
		fill_words(p, n, UINT64_C(0x8000000000000000), 0, &state);
		break;
	default:
		for (size_t i = 0; i < n; i++)
			p[i] = (uint8_t)(i / 37 + (i % 8 == 7 ? 0x40 : 0));
	}
}

static const char *const choices[] = {"none", "lz4", "lz4:-8", "zstd", "zstd:1", "zstd:-3", "zstd:19", "auto"};
static const size_t sizes[] = {0, 1, 2, 7, 8, 13, 64, 255, 4096, 4097, 65537};

static void round_trip(const char *text, enum pattern which, size_t n)
{
	struct kedge__codec_choice choice;
	struct fence raw = fence_new(n), packed = fence_new(n), back = fence_new(n);
	uint16_t codec = 99, param = 99;
	size_t used = SIZE_MAX;

	assert_int_equal(kedge__codec_choice_parse(text, &choice, NULL), 0);
	fill_pattern(which, raw.at, n);
	assert_int_equal(kedge__block_encode(&choice, KEDGE_F64, raw.at, n, packed.at, &used, &codec, &param, NULL), 0);
	assert_true(used < n || (used == n && codec == KEDGE__CODEC_NONE));
	assert_int_equal(kedge__block_decode(codec, param, packed.at, used, back.at, n, NULL), 0);
	assert_memory_equal(raw.at, back.at, n);
	fence_free(&raw);
	fence_free(&packed);
	fence_free(&back);
}

static void test_round_trips(void **state)
{
	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(choices); c++)
		for (int which = 0; which < PATTERNS; which++)
			for (size_t i = 0; i < KEDGE__COUNT(sizes); i++)
				round_trip(choices[c], (enum pattern)which, sizes[i]);
}

static void test_what_shrinks_is_packed(void **state)
{
	static const char *const packing[] = {"lz4", "zstd", "auto"};
	uint8_t raw[4096], out[4096];

	(void)state;
	fill_pattern(CONSTANT, raw, sizeof(raw));
	for (size_t i = 0; i < KEDGE__COUNT(packing); i++) {
		struct kedge__codec_choice choice;
		uint16_t codec, param;
		size_t used;

		assert_int_equal(kedge__codec_choice_parse(packing[i], &choice, NULL), 0);
		assert_int_equal(
		    kedge__block_encode(&choice, KEDGE_BYTES, raw, sizeof(raw), out, &used, &codec, &param, NULL), 0);
		assert_true(used < 200);
		assert_int_not_equal(codec, KEDGE__CODEC_NONE);
	}
}

/* Whatever the bytes are, decode fails or fills exactly RAW_BYTES: the fences are the check. */
static int decode_fenced(uint16_t codec, const uint8_t *in, size_t in_bytes, size_t raw_bytes)
{
	struct fence f = fence_new(in_bytes), out = fence_new(raw_bytes);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	memcpy(f.at, in, in_bytes);
	rc = kedge__block_decode(codec, 0, f.at, in_bytes, out.at, raw_bytes, &err);
	assert_int_equal(rc, err.code);
	kedge__error_done(&err);
	fence_free(&f);
	fence_free(&out);
	return rc;
}

static void test_damage_is_contained(void **state)
{
	enum { RAW = 3000 };
	static const char *const packing[] = {"lz4", "zstd:3"};
	uint8_t raw[RAW], packed[RAW];

	(void)state;
	fill_pattern(SMOOTH, raw, RAW);
	for (size_t c = 0; c < KEDGE__COUNT(packing); c++) {
		struct kedge__codec_choice choice;
		uint16_t codec, param;
		size_t used;

		kedge__codec_choice_parse(packing[c], &choice, NULL);
		assert_int_equal(
		    kedge__block_encode(&choice, KEDGE_BYTES, raw, RAW, packed, &used, &codec, &param, NULL), 0);
		assert_int_equal(codec, choice.codec->id);
		for (size_t n = 0; n < used; n += n < 40 ? 1 : 17)
			assert_int_equal(decode_fenced(codec, packed, n, RAW), KEDGE_E_DAMAGED);
		assert_int_equal(decode_fenced(codec, packed, used, RAW - 1), KEDGE_E_DAMAGED);
		assert_int_equal(decode_fenced(codec, packed, used, RAW + 1), KEDGE_E_DAMAGED);
		for (size_t i = 0; i < used; i += i < 60 ? 1 : 13) {
			packed[i] ^= 0x81;
			decode_fenced(codec, packed, used, RAW);
			packed[i] ^= 0x81;
		}
		assert_int_equal(decode_fenced(codec, packed, used, RAW), 0);
	}
	assert_int_equal(decode_fenced(KEDGE__CODEC_NONE, raw, 10, 11), KEDGE_E_DAMAGED);
}

static void test_parameters_are_checked(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint8_t out[8];

	(void)state;
	for (size_t i = 0; i < kedge__codec_count(); i++)
		assert_int_equal(kedge__block_decode(kedge__codec_at(i)->id, 1, "12345678", 8, out, 8, NULL),
				 KEDGE_E_DAMAGED);
	assert_int_equal(kedge__block_decode(77, 0, "12345678", 8, out, 8, &err), KEDGE_E_CODEC);
	assert_non_null(strstr(kedge__error_text(&err), "77"));
	kedge__error_done(&err);
}

static void test_encode_respects_room(void **state)
{
	uint8_t raw[512];

	(void)state;
	fill_pattern(RANDOM, raw, sizeof(raw));
	for (size_t i = 0; i < kedge__codec_count(); i++) {
		const struct kedge__codec *c = kedge__codec_at(i);
		struct fence out = fence_new(100);
		size_t used = 4711;
		uint16_t param;

		assert_int_equal(
		    c->encode(raw, sizeof(raw), KEDGE_BYTES, c->preset_level, out.at, 100, &used, &param, NULL),
		    KEDGE_E_LIMIT);
		assert_int_equal(used, 4711);
		fence_free(&out);
		out = fence_new(c->bound(sizeof(raw)));
		assert_int_equal(c->encode(raw, sizeof(raw), KEDGE_BYTES, c->preset_level, out.at,
					   c->bound(sizeof(raw)), &used, &param, NULL),
				 0);
		fence_free(&out);
	}
}

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
	assert_true(c.automatic);
	assert_int_equal(kedge__codec_choice_parse("none", &c, NULL), 0);
	assert_int_equal(c.codec->id, KEDGE__CODEC_NONE);
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
	refused("lz5", "none, lz4, zstd, auto");
	refused("", "none, lz4, zstd, auto");
	refused(":3", "none, lz4, zstd, auto");
	refused("a-name-that-is-much-longer-than-any-codec-has-or-will-ever-have:7", "not one of");
	refused("zstd:", "-7 to 19");
	refused("zstd:20", "-7 to 19");
	refused("zstd:3x", "-7 to 19");
	refused("zstd:99999999999999999999", "-7 to 19");
	refused("none:1", "no levels");
	refused("auto:1", "no levels");
}

static struct kedge__codec_choice sample(const void *const *pieces, const size_t *bytes, size_t n)
{
	const struct kedge__codec_choice wanted = {.automatic = true};
	struct kedge__codec_choice c = kedge__codec_sample(&wanted, KEDGE_F64, pieces, bytes, n);

	assert_false(c.automatic);
	assert_non_null(c.codec);
	return c;
}

static void test_sampler(void **state)
{
	enum { N = 300000 };
	uint8_t *data = malloc(N);
	const void *pieces[] = {data, data + 1000, data + 1000, data + 100001};
	const size_t bytes[] = {1000, 0, 99001, N - 100001};
	uint64_t seed = 1;

	(void)state;
	assert_non_null(data);
	fill_pattern(RANDOM, data, N);
	assert_int_equal(sample(pieces, bytes, 4).codec->id, KEDGE__CODEC_NONE);
	memset(data, 1, N);
	assert_int_equal(sample(pieces, bytes, 4).codec->id, KEDGE__CODEC_ZSTD);
	/* Sixteen values a byte without order: entropy coding halves them, matching finds next to nothing. */
	for (size_t i = 0; i < N; i++)
		data[i] = (uint8_t)(next_random(&seed) & 15);
	assert_int_equal(sample(pieces, bytes, 4).codec->id, KEDGE__CODEC_ZSTD);
	/* Random bytes, each 64 of them twice: both find the same matches. */
	for (size_t i = 0; i + 128 <= N; i += 128) {
		fill_random(data + i, 64, &seed);
		memcpy(data + i + 64, data + i, 64);
	}
	assert_int_equal(sample(pieces, bytes, 4).codec->id, KEDGE__CODEC_LZ4);
	assert_int_equal(sample(pieces, bytes, 0).codec->id, KEDGE__CODEC_NONE);
	free(data);
}

static void test_sampler_keeps_a_fixed_choice(void **state)
{
	struct kedge__codec_choice wanted, got;
	const void *piece = "abc";
	size_t bytes = 3;

	(void)state;
	kedge__codec_choice_parse("zstd:7", &wanted, NULL);
	got = kedge__codec_sample(&wanted, KEDGE_BYTES, &piece, &bytes, 1);
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
	assert_int_equal(kedge__fault_set("alloc@1", NULL), 0);
	assert_int_equal(kedge__block_encode(&choice, KEDGE_BYTES, raw, sizeof(raw), out, &used, &codec, &param, NULL),
			 0);
	kedge__fault_set(NULL, NULL);
	assert_int_equal(codec, KEDGE__CODEC_NONE);
	assert_int_equal(used, sizeof(raw));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trips),
	    cmocka_unit_test(test_what_shrinks_is_packed),
	    cmocka_unit_test(test_damage_is_contained),
	    cmocka_unit_test(test_parameters_are_checked),
	    cmocka_unit_test(test_encode_respects_room),
	    cmocka_unit_test(test_choice_parse),
	    cmocka_unit_test(test_choice_refused),
	    cmocka_unit_test(test_sampler),
	    cmocka_unit_test(test_sampler_keeps_a_fixed_choice),
	    cmocka_unit_test(test_without_memory_auto_stores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
