/* SPDX-License-Identifier: BSD-3-Clause */
/* L1 and L2, damage and loss on either, and what is kept. */
#include "support.h"

#define BYTES 20000

static uint8_t m[BYTES], want[BYTES];

/* Each version changes a tenth of the bytes. */
static void state_make(uint8_t *to, uint64_t version)
{
	fill_random(to, BYTES, 1);
	for (uint64_t v = 1; v <= version; v++)
		fill_random(to + v % 10 * (BYTES / 10), BYTES / 10, v + 50);
}

static kedge_t *open_series(const struct place *p, const char *const *more)
{
	kedge_t *k = job_open(p, true, more);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static void take(kedge_t *k, uint64_t first, uint64_t last)
{
	for (uint64_t v = first; v <= last; v++) {
		state_make(m, v);
		assert_ok(k, kedge_checkpoint(k, v));
	}
	assert_ok(k, kedge_wait(k));
}

static void comes_back(kedge_t *k, uint64_t wanted, uint64_t expected)
{
	uint64_t version = 0;

	memset(m, 0, BYTES);
	assert_ok(k, kedge_restart(k, wanted, &version));
	assert_int_equal(version, expected);
	state_make(want, expected);
	assert_memory_equal(m, want, BYTES);
}

/* A job that always dies before the tenth of its own versions still gets every tenth of all to L2. */
static void test_turn_for_l2_survives_the_process(void **state)
{
	kedge_t *k = NULL;

	for (uint64_t first = 1; first <= 9; first += 4) {
		k = open_series(*state, MORE("l2_every=10", "reducer=full"));
		take(k, first, first + 3);
		if (first < 9)
			assert_ok(k, kedge_close(k));
	}
	for (uint64_t v = 1; v <= 12; v++)
		assert_int_equal(levels_of(k, v), v == 10 ? 3 : 1);
	assert_ok(k, kedge_close(k));
}

static void test_all_versions_reach_l2(void **state)
{
	kedge_t *k = open_series(*state, MORE("capture=copy", "chunk=64"));

	take(k, 1, 5);
	for (uint64_t v = 1; v <= 5; v++) {
		assert_int_equal(kedge_test(k, v), 1);
		assert_int_equal(levels_of(k, v), 3);
	}
	assert_ok(k, kedge_close(k));
}

static void test_every_other_version_with_its_lineage(void **state)
{
	kedge_t *k = open_series(*state, MORE("l2_every=2", "reducer=full"));

	take(k, 1, 5);
	assert_int_equal(levels_of(k, 1), 1);
	assert_int_equal(levels_of(k, 2), 3);
	assert_int_equal(levels_of(k, 5), 1);
	assert_int_equal(kedge_test(k, 5), 1); /* is not meant for L2 */
	assert_ok(k, kedge_close(k));
	tree_remove(((struct place *)*state)->l1);
	k = open_series(*state, MORE("reducer=full"));
	comes_back(k, KEDGE_NEWEST, 4);
	assert_ok(k, kedge_close(k));
}

static void test_l1_lost(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("reducer=tree", "chunk=64"));

	take(k, 1, 4);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	k = open_series(p, MORE("reducer=tree", "chunk=64"));
	comes_back(k, KEDGE_NEWEST, 4);
	comes_back(k, 2, 2);
	comes_back(k, 4, 4);
	take(k, 5, 6); /* stands alone on L1 */
	comes_back(k, 6, 6);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l2);
	k = open_series(p, MORE("reducer=tree", "chunk=64"));
	comes_back(k, KEDGE_NEWEST, 6);
	assert_ok(k, kedge_close(k));
}

/* A damaged block on one level is read from the other, whichever the version; the lineage mixes levels. */
static void test_levels_mix(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("reducer=tree", "chunk=64"));

	kedge_set_log(place_log, p);
	take(k, 1, 4);
	segment_damage(p->l1, 1, 0);
	segment_damage(p->l1, 3, 0);
	segment_damage(p->l2, 2, 0);
	comes_back(k, KEDGE_NEWEST, 4);
	assert_non_null(strstr(place_said(p), "another level"));
	comes_back(k, 2, 2);
	assert_ok(k, kedge_close(k));
}

/* What L1 alone cannot give back is nothing to build on: new versions must not need L2 for ever. */
static void test_nothing_is_built_on_a_damaged_copy(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("reducer=tree", "chunk=64"));

	take(k, 1, 4);
	assert_ok(k, kedge_close(k));
	segment_damage(p->l1, 3, 0);
	k = open_series(p, MORE("reducer=tree", "chunk=64"));
	comes_back(k, KEDGE_NEWEST, 4);
	take(k, 5, 6);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l2);
	k = open_series(p, MORE("reducer=tree", "chunk=64"));
	comes_back(k, KEDGE_NEWEST, 6);
	comes_back(k, 5, 5);
	assert_ok(k, kedge_close(k));
}

/* Nor is it anything to pack against. */
static void test_nothing_is_packed_against_a_damaged_copy(void **state)
{
	const char *const *more = MORE("reducer=full", "codec=xor+zstd", "block=4096");
	struct place *p = *state;
	kedge_t *k = open_series(p, more);
	char path[600];

	take(k, 1, 3);
	assert_ok(k, kedge_close(k));
	segment_damage(p->l1, 2, 0);
	k = open_series(p, more);
	comes_back(k, KEDGE_NEWEST, 3);
	take(k, 4, 5);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l2);
	manifest_path(p->l1, 3, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	k = open_series(p, more);
	comes_back(k, KEDGE_NEWEST, 5);
	assert_ok(k, kedge_close(k));
}

/* Data of an old version is found again, but that version needs one that is gone: it must be stored anew. */
static void test_nothing_refers_to_damaged_versions(void **state)
{
	struct place *p = *state;
	kedge_t *k = job_open(p, false, MORE("reducer=list", "chunk=64"));
	uint64_t version = 0;
	char path[600];

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	fill_random(m, BYTES, 1);
	assert_ok(k, kedge_checkpoint(k, 1));
	fill_random(m, BYTES / 2, 2);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_close(k));
	k = job_open(p, false, MORE("reducer=full"));
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	fill_random(m, BYTES, 3);
	assert_ok(k, kedge_checkpoint(k, 3));
	assert_ok(k, kedge_close(k));
	manifest_path(p->l1, 1, path, sizeof(path));
	file_flip(path, 20, 0x40);
	k = job_open(p, false, MORE("reducer=list", "chunk=64"));
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 3);
	fill_random(m, BYTES / 2, 2);
	memcpy(want, m, BYTES);
	assert_ok(k, kedge_checkpoint(k, 4));
	memset(m, 0, BYTES);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 4);
	assert_memory_equal(m, want, BYTES);
	assert_ok(k, kedge_close(k));
}

/* L1 is coalesced all the time, so that every version there stands on few others, and is copied to an L2 that is not:
 * blocks that are packed against each other must not pile up there. */
static void packed_versions_come_back(struct place *p, const char *coalesce)
{
	const char *const *more =
	    MORE("reducer=basic", "chunk=4096", "codec=minus+lz4", "block=4096", "keep=1", coalesce);
	kedge_t *k = open_series(p, more);

	for (uint64_t v = 1; v <= 14; v++) {
		state_make(m, 0);
		for (size_t i = 0; i < BYTES / 2; i += 200)
			m[i] = (uint8_t)v;
		assert_ok(k, kedge_checkpoint(k, v));
		assert_ok(k, kedge_wait(k));
		memcpy(want, m, BYTES);
	}
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	k = open_series(p, more);
	memset(m, 0, BYTES);
	assert_ok(k, kedge_restart(k, 14, NULL));
	assert_memory_equal(m, want, BYTES);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l2);
}

static void test_packed_versions_come_back_from_l2(void **state)
{
	packed_versions_come_back(*state, "coalesce=auto");
	tree_remove(((struct place *)*state)->l1);
	packed_versions_come_back(*state, "coalesce=batch");
	tree_remove(((struct place *)*state)->l1);
	packed_versions_come_back(*state, "coalesce=never");
}

static void test_damage_on_both_falls_back_a_version(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("reducer=full"));
	char path[600];

	take(k, 1, 4);
	kedge_set_log(place_log, p);
	segment_damage(p->l1, 4, 0);
	segment_damage(p->l2, 4, 0);
	segment_path(p->l1, 3, 0, path, sizeof(path));
	file_cut(path, 5000);
	segment_path(p->l2, 3, 0, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(kedge_restart(k, 4, NULL), KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge_last_error(k), "block 0"));
	assert_non_null(strstr(kedge_last_error(k), "region"));
	comes_back(k, KEDGE_NEWEST, 2);
	assert_non_null(strstr(place_said(p), "version 4"));
	assert_non_null(strstr(place_said(p), "version 3"));
	/* 3 and 4 are an abandoned future now. */
	take(k, 3, 3);
	comes_back(k, KEDGE_NEWEST, 3);
	assert_int_equal(versions_count(k), 3);
	assert_ok(k, kedge_close(k));
}

static void test_all_damaged_is_not_a_fresh_start(void **state)
{
	struct place *p = *state;
	kedge_t *k = job_open(p, false, MORE("reducer=full"));
	char path[600];

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	state_make(m, 1);
	assert_ok(k, kedge_checkpoint(k, 1));
	segment_damage(p->l1, 1, 0);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), KEDGE_E_DAMAGED);
	manifest_path(p->l1, 1, path, sizeof(path));
	file_flip(path, 20, 0x40);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), KEDGE_E_DAMAGED);
	file_cut(path, 3);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), KEDGE_E_DAMAGED);
	/* Nothing is taken for lost until the program says so. */
	state_make(m, 1);
	assert_int_equal(kedge_checkpoint(k, 1), KEDGE_E_STATE);
	assert_int_equal(kedge_checkpoint(k, 2), KEDGE_E_STATE);
	assert_ok(k, kedge_discard(k, 0, KEDGE_LEVEL_1));
	assert_ok(k, kedge_checkpoint(k, 1));
	comes_back(k, KEDGE_NEWEST, 1);
	assert_ok(k, kedge_close(k));
}

static void test_damaged_newest_starts_a_lineage(void **state)
{
	struct place *p = *state;
	struct kedge_version_info *list;
	kedge_t *k = job_open(p, false, MORE("reducer=tree", "chunk=64"));
	size_t n;

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	take(k, 1, 2);
	assert_ok(k, kedge_close(k));
	segment_damage(p->l1, 1, 0);
	kedge_set_log(place_log, p);
	k = job_open(p, false, MORE("reducer=tree", "chunk=64"));
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	take(k, 3, 3); /* without a restart, as `kedge save` does */
	assert_non_null(strstr(place_said(p), "self-contained"));
	assert_ok(k, kedge_versions(k, &list, &n));
	assert_true(list[n - 1].parent == KEDGE_NEWEST);
	kedge_free(list);
	comes_back(k, KEDGE_NEWEST, 3);
	assert_ok(k, kedge_close(k));
}

/* The same number for two different sets: what replaced it on L1 must not be confused with the old one on L2. */
static void test_replaced_version_leaves_l2(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("l2_every=1"));

	take(k, 1, 3);
	assert_ok(k, kedge_close(k));
	k = open_series(p, MORE("l2_every=100"));
	comes_back(k, 1, 1);
	take(k, 2, 2);
	assert_int_equal(levels_of(k, 2), 1);
	assert_int_equal(levels_of(k, 3), 0);
	comes_back(k, 1, 1);
	fill_random(m, BYTES, 77);
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_int_equal(levels_of(k, 1), 1);
	assert_int_equal(levels_of(k, 2), 0);
	assert_ok(k, kedge_close(k));
}

static void test_keep(void **state)
{
	kedge_t *k = open_series(*state, MORE("keep=3", "l2_keep=2", "reducer=tree", "chunk=64"));
	size_t most = 0;

	for (uint64_t v = 1; v <= 40; v++) {
		size_t n;

		state_make(m, v);
		assert_ok(k, kedge_checkpoint(k, v));
		assert_ok(k, kedge_wait(k));
		n = versions_count(k);
		most = n > most ? n : most;
	}
	assert_true(most <= 20);
	for (uint64_t v = 38; v <= 40; v++)
		comes_back(k, v, v);
	assert_ok(k, kedge_close(k));
	k = open_series(*state, MORE("keep=3", "reducer=tree", "chunk=64"));
	comes_back(k, KEDGE_NEWEST, 40);
	assert_ok(k, kedge_close(k));
}

static void test_l2_goes_away(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, NULL);

	take(k, 1, 1);
	tree_remove(p->l2); /* the level goes away under a running job */
	state_make(m, 2);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_int_not_equal(kedge_wait(k), 0);
	assert_true(kedge_test(k, 2) < 0);
	comes_back(k, 2, 2);
	assert_ok(k, kedge_close(k));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_all_versions_reach_l2, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_turn_for_l2_survives_the_process, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_every_other_version_with_its_lineage, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_l1_lost, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_levels_mix, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_is_built_on_a_damaged_copy, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_is_packed_against_a_damaged_copy, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_refers_to_damaged_versions, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_packed_versions_come_back_from_l2, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_damage_on_both_falls_back_a_version, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_all_damaged_is_not_a_fresh_start, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_damaged_newest_starts_a_lineage, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_replaced_version_leaves_l2, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_keep, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_l2_goes_away, place_setup, place_teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
