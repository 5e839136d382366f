/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What "auto" and "max" choose for data of every kind, beside every codec that they could have chosen: by sizes, and by
 * the built-in speeds, so that the results do not depend on the machine.
 */
#include "codec/candidates.h"
#include "sets.h"
#include "support.h"

#define BLOCK (128 << 10)
#define ROOM  (1 << 20)

struct lab {
	uint8_t *data, *base, *out;
	size_t bytes;
	const struct set *set;
	bool based;
};

static void lab_open(struct lab *l, const struct set *set, size_t bytes, bool based)
{
	size_t array = set->ndims ? set->dims[0] * set->dims[1] * kedge_type_size(set->type) : 64;
	uint64_t seed = (uint64_t)(set - sets) + 7;

	*l = (struct lab){.data = malloc(ROOM), .base = malloc(ROOM), .out = malloc(BLOCK), .set = set, .based = based};
	assert_true(l->data && l->base && l->out && bytes <= ROOM);
	l->bytes = KEDGE__MAX(bytes / array, (size_t)1) * array;
	set->fill(l->base, l->bytes, seed);
	memcpy(l->data, l->base, l->bytes);
	if (based)
		set->change(l->data, l->bytes, seed + 1);
}

static void lab_close(struct lab *l)
{
	free(l->data);
	free(l->base);
	free(l->out);
}

static size_t packed(const struct lab *l, const struct kedge__codec_choice *choice)
{
	size_t sum = 0;

	for (size_t at = 0; at < l->bytes; at += BLOCK) {
		const struct kedge__codec_input in = {.raw = l->data + at,
						      .bytes = KEDGE__MIN(l->bytes - at, (size_t)BLOCK),
						      .type = l->set->type,
						      .base = l->based ? l->base + at : NULL};
		uint16_t codec, param;
		size_t used;

		assert_int_equal(kedge__block_pack(choice, &in, l->out, &used, &codec, &param, NULL), 0);
		sum += used;
	}
	return sum;
}

static struct kedge__codec_choice wanted_by(const struct lab *l, const char *text)
{
	struct kedge__codec_choice wanted;

	assert_int_equal(kedge__codec_choice_parse(text, &wanted, NULL), 0);
	kedge__codec_choice_shape(&wanted, l->set->ndims, l->set->dims);
	wanted.pace = kedge__codec_pace_built_in;
	wanted.bytes = l->bytes * KEDGE__CODEC_USES;
	return wanted;
}

static struct kedge__codec_choice chosen(const struct lab *l, const struct kedge__codec_choice *wanted)
{
	const struct kedge__codec_input in = {
	    .raw = l->data, .bytes = l->bytes, .type = l->set->type, .base = l->based ? l->base : NULL};

	return kedge__codec_sample(wanted, &in, 1, NULL);
}

/* Seconds a byte of candidate I, with what it takes to read a base. */
static double pace(size_t i, double size)
{
	return kedge__codec_pace_built_in(kedge__candidates[i].name, size) +
	       (kedge__candidates[i].data & KEDGE__WITH_BASE ? 1e-9 : 0);
}

/* The pace of a choice that is one of the candidates. */
static double pace_of(const struct lab *l, const struct kedge__codec_choice *choice, double size)
{
	char name[KEDGE__CODEC_NAME_ROOM], other[KEDGE__CODEC_NAME_ROOM];
	struct kedge__codec_choice c;

	kedge__codec_choice_describe(choice, name);
	for (size_t i = 0; i < kedge__candidate_count; i++)
		if (kedge__candidate_make(i, choice, l->set->type, l->based, &c) &&
		    strcmp(kedge__codec_choice_describe(&c, other), name) == 0)
			return pace(i, size);
	return 0; /* none */
}

/* Whether data is through candidate I and storage much sooner than it would be stored as it is. */
static bool pays(size_t i, double size)
{
	return KEDGE__MAX(pace(i, size), size / KEDGE__CODEC_STORAGE) < 0.9 / KEDGE__CODEC_STORAGE;
}

/* No codec that is as fast as what was chosen, or faster, is more than three per cent smaller; and where nothing is
 * packed, none would have paid. */
static void near_the_best(const struct lab *l, const struct kedge__codec_choice *wanted)
{
	const struct kedge__codec_choice got = chosen(l, wanted);
	double all = (double)l->bytes, size = (double)packed(l, &got), took = pace_of(l, &got, size / all);
	char name[KEDGE__CODEC_NAME_ROOM];

	for (size_t i = 0; i < kedge__candidate_count; i++) {
		struct kedge__codec_choice c;
		double other;

		if (kedge__candidates[i].data & KEDGE__DEEP ||
		    !kedge__candidate_make(i, &got, l->set->type, l->based, &c))
			continue;
		other = (double)packed(l, &c);
		if (got.codec == &kedge__codec_none ? pays(i, other / all)
						    : pace(i, other / all) <= took && size > 1.03 * other)
			fail_msg("%s%s: %s leaves %.0f bytes, %s is better and leaves %.0f", l->set->name,
				 l->based ? ", with a base" : "", kedge__codec_choice_describe(&got, name), size,
				 kedge__candidates[i].name, other);
	}
}

static void test_auto_is_near_the_best(void **state)
{
	struct kedge__codec_choice wanted;
	struct lab l;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sets); i++) {
		lab_open(&l, &sets[i], ROOM, false);
		wanted = wanted_by(&l, "auto");
		near_the_best(&l, &wanted);
		lab_close(&l);
	}
}
static void test_auto_is_near_the_best_with_a_base(void **state)
{
	struct kedge__codec_choice wanted;
	struct lab l;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sets); i++) {
		if (!sets[i].change)
			continue;
		lab_open(&l, &sets[i], ROOM, true);
		wanted = wanted_by(&l, "auto");
		near_the_best(&l, &wanted);
		lab_close(&l);
	}
}

/* Small regions get a choice that is as good, if there are a few milliseconds to spare. */
static void test_auto_has_time_for_small_regions(void **state)
{
	struct kedge__codec_choice wanted;
	struct lab l;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sets); i++) {
		lab_open(&l, &sets[i], 200 << 10, false);
		wanted = wanted_by(&l, "auto");
		wanted.bytes = 0;
		wanted.spare = 2.5e-3;
		near_the_best(&l, &wanted);
		lab_close(&l);
	}
}

static void max_is_the_smallest(const struct set *set, bool based)
{
	static const char *const others[] = {"zstd:9",
					     "shuffle+zstd:9",
					     "deflate:6",
					     "fpc64+zstd:1",
					     "bitshuffle+lz4",
					     "field",
					     "shuffle+zstd:19",
					     "records+zstd:19",
					     "delta+zstd:9",
					     "bitshuffle+zstd:9",
					     "delta+bitshuffle+zstd:9",
					     "xor+zstd:9",
					     "xor+shuffle+zstd:9",
					     "minus+shuffle+zstd:9",
					     "minus+bitshuffle+zstd:9"};
	struct kedge__codec_choice wanted, c;
	size_t least;
	struct lab l;

	lab_open(&l, set, 64 << 10, based);
	wanted = wanted_by(&l, "max");
	c = chosen(&l, &wanted);
	least = packed(&l, &c);
	for (size_t k = 0; k < KEDGE__COUNT(others); k++) {
		if (!choice_of(others[k], &c) || (c.steps & KEDGE__STEP_BASE && !based))
			continue;
		kedge__codec_choice_shape(&c, set->ndims, set->dims);
		if (packed(&l, &c) < least)
			fail_msg("%s%s: max leaves %zu bytes, %s %zu", set->name, based ? ", with a base" : "", least,
				 others[k], packed(&l, &c));
	}
	wanted = wanted_by(&l, "auto");
	c = chosen(&l, &wanted);
	assert_true(packed(&l, &c) >= least);
	lab_close(&l);
}

/* "max" is the smallest of all. */
static void test_max_is_the_smallest(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sets); i++)
		max_is_the_smallest(&sets[i], false);
}

/* However little a base gains: who asks for "max" wants it. */
static void test_max_is_the_smallest_with_a_base(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sets); i++)
		if (sets[i].change)
			max_is_the_smallest(&sets[i], true);
}

/* Numbers that change a little everywhere are packed against the version before. */
static void test_small_changes_use_the_base(void **state)
{
	static const char *const names[] = {"weights32", "weights16", "particles", "moments", "gas"};
	struct lab l;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sets); i++)
		for (size_t k = 0; k < KEDGE__COUNT(names); k++) {
			struct kedge__codec_choice wanted, c;

			if (strcmp(sets[i].name, names[k]) != 0)
				continue;
			lab_open(&l, &sets[i], ROOM, true);
			wanted = wanted_by(&l, "auto");
			c = chosen(&l, &wanted);
			if (!(c.steps & KEDGE__STEP_BASE))
				fail_msg("%s: the version before is not used", names[k]);
			lab_close(&l);
		}
}

/* ---- records */

static unsigned stride_of(const uint8_t *p, size_t n)
{
	struct kedge__strides s;

	kedge__strides_init(&s);
	kedge__strides_count(&s, p, n);
	return kedge__strides_best(&s);
}

static void test_strides_are_found(void **state)
{
	static const struct {
		unsigned stride;
		void (*fill)(uint8_t *p, size_t n, uint64_t seed);
	} cases[] = {{24, fill_records_24},   {56, fill_records_56}, {88, fill_records_88},
		     {100, fill_records_100}, {8, fill_particles},   {4, fill_weights32}};
	uint8_t *data = malloc(16 << 10);

	(void)state;
	assert_non_null(data);
	for (size_t i = 0; i < KEDGE__COUNT(cases); i++)
		for (size_t shift = 0; shift < 40; shift += 13) {
			cases[i].fill(data, 16 << 10, i + 1);
			/* Wherever a record begins, and however few there are. */
			assert_int_equal(stride_of(data + shift, (16 << 10) - shift), cases[i].stride);
			assert_int_equal(stride_of(data + shift, 8 << 10), cases[i].stride);
		}
	fill_noise(data, 16 << 10, 1);
	assert_int_equal(stride_of(data, 16 << 10), 0);
	memset(data, 0, 16 << 10);
	assert_int_equal(stride_of(data, 16 << 10), 0);
	for (size_t n = 0; n < 200; n++)
		(void)stride_of(data, n);
	free(data);
}

/* Records of any size are packed by their fields; those of a size that is given, even if it is wrong, come back. */
static void test_records_pack(void **state)
{
	enum { N = 100000 };
	uint8_t *data = malloc(N), *out = malloc(N), *back = malloc(N);

	(void)state;
	assert_true(data && out && back);
	fill_records_88(data, N, 3);
	for (int stride = 2; stride <= 4096; stride += stride < 110 ? 1 : 997) {
		struct kedge__codec_choice c;
		uint16_t codec, param;
		size_t used;

		assert_true(choice_of("records+zstd:1", &c));
		c.level = stride;
		assert_int_equal(kedge__block_encode(&c, KEDGE_BYTES, data, N, out, &used, &codec, &param, NULL), 0);
		assert_int_equal(codec, KEDGE__CODEC_RECORDS);
		assert_int_equal(kedge__block_decode(codec, param, out, used, back, N, NULL), 0);
		assert_memory_equal(back, data, N);
	}
	free(data);
	free(out);
	free(back);
}

static int decode(uint16_t param, const uint8_t *in, size_t n, const void *base)
{
	uint8_t raw[64];

	return kedge__block_unpack(KEDGE__CODEC_RECORDS, param, in, n, base, raw, sizeof(raw), NULL);
}

/* A size of 0 or 1, steps that records do not have, a second pass that is none, a missing base. */
static void test_records_are_checked(void **state)
{
	uint8_t in[66] = {8};

	(void)state;
	assert_int_equal(decode(0, in, sizeof(in), NULL), 0);
	in[0] = 1;
	assert_int_equal(decode(0, in, sizeof(in), NULL), KEDGE_E_DAMAGED);
	in[0] = 0;
	assert_int_equal(decode(0, in, sizeof(in), NULL), KEDGE_E_DAMAGED);
	in[0] = 65; /* more than there is: nothing is rearranged */
	assert_int_equal(decode(0, in, sizeof(in), NULL), 0);
	assert_int_equal(decode(0, in, 1, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(decode(0, in, 0, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(decode(0, in, 65, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(decode(KEDGE__CODEC_FIELD, in, sizeof(in), NULL), KEDGE_E_DAMAGED);
	for (unsigned bit = 8; bit < 16; bit++)
		assert_int_equal(decode((uint16_t)(1u << bit), in, sizeof(in), bit == 12 ? NULL : in), KEDGE_E_DAMAGED);
	assert_int_equal(decode(1 << 12, in, sizeof(in), in), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_auto_is_near_the_best),
	    cmocka_unit_test(test_auto_is_near_the_best_with_a_base),
	    cmocka_unit_test(test_auto_has_time_for_small_regions),
	    cmocka_unit_test(test_max_is_the_smallest),
	    cmocka_unit_test(test_max_is_the_smallest_with_a_base),
	    cmocka_unit_test(test_small_changes_use_the_base),
	    cmocka_unit_test(test_strides_are_found),
	    cmocka_unit_test(test_records_pack),
	    cmocka_unit_test(test_records_are_checked),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
