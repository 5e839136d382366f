/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_signs.c: two doubles of a chunk change their sign, and nothing else does. The digest of Kedge 0.1 took this one
 * for unchanged: the version was acknowledged, and could not be restored.
 */
#include "lab.h"

#include "reduce/reducer.h"

static const struct {
	enum kedge__reducer_id id;
	uint32_t chunk;
} reducers[] = {{KEDGE__REDUCER_BASIC, 32}, {KEDGE__REDUCER_BASIC, 128}, {KEDGE__REDUCER_LIST, 64},
		{KEDGE__REDUCER_TREE, 256}, {KEDGE__REDUCER_TREE, 4096}, {KEDGE__REDUCER_REX, 32},
		{KEDGE__REDUCER_AUTO, 512}};

static void put_words(uint8_t *p, uint64_t sign)
{
	uint64_t first = UINT64_C(0xf234192ce415162b) ^ sign, third = UINT64_C(0x0dfe6fb50b27b930) ^ sign;

	memcpy(p, &first, 8);
	memcpy(p + 16, &third, 8);
}

static void test_flipped_signs_are_stored(void **state)
{
	static struct lab lab;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		struct kedge__reducer *r = lab_reducer(reducers[i].id, reducers[i].chunk);

		memset(&lab, 0, sizeof(lab));
		lab_resize(&lab, 0, 1 << 16);
		draw_bytes(&lab.seed, lab.data[0], lab.bytes[0]);
		put_words(lab.data[0] + 8192, 0);
		lab_take(&lab, r, NULL, 1, false);
		put_words(lab.data[0] + 8192, UINT64_C(1) << 63);
		lab_take(&lab, r, NULL, 2, false);
		assert_true(lab.versions[1].red.literal_bytes > 0);
		lab_restore_all(&lab);
		lab_done(&lab);
		kedge__reducer_free(r);
	}
}

/* The digest of some node, with the keys of a new reducer. */
static struct kedge__digest digest_with(const uint8_t *seed)
{
	struct kedge__reducer_options o = {.id = KEDGE__REDUCER_BASIC, .chunk = 64, .seed = seed};
	struct kedge__digest left = {1, 2}, right = {3, 4}, d;
	struct kedge__reducer *r;

	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	d = kedge__digest_node(r->key, 1, left, right);
	kedge__reducer_free(r);
	return d;
}

/* A reducer draws its keys, so that no two have one weakness in common, unless it is given a seed. */
static void test_keys_are_drawn(void **state)
{
	static const uint8_t seed[KEDGE__DIGEST_SEED_BYTES] = {7};

	(void)state;
	assert_false(kedge__digest_equal(digest_with(NULL), digest_with(NULL)));
	assert_true(kedge__digest_equal(digest_with(seed), digest_with(seed)));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_flipped_signs_are_stored),
	    cmocka_unit_test(test_keys_are_drawn),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
