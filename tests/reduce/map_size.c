/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * map_size.c: for the same input, tree's map on disk is never larger than list's, and both restore the same bytes.
 */
#include "format/format.h"
#include "lab.h"

static size_t encoded(const struct lab_version *v, enum kedge__map_encoding how, uint32_t chunk)
{
	struct kedge__region_record records[LAB_REGIONS];
	char name[] = "region";
	struct kedge__bytes out = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t n = 0, bytes;

	for (uint32_t slot = 0; slot < LAB_REGIONS; slot++)
		if (v->present[slot])
			records[n++] =
			    (struct kedge__region_record){.name = name, .slot = slot, .bytes = v->bytes[slot]};
	if (kedge__map_encode(how, kedge__extents_of_tape(&v->red.map), chunk, v->version, records, n, &out, &err))
		fail_msg("encode: %s", kedge__error_text(&err));
	bytes = out.count;
	kedge__bytes_done(&out);
	return bytes;
}

/* Both reducers see the same states. */
static void run_script(uint64_t seed, uint32_t chunk)
{
	static struct lab tree, list;
	struct kedge__reducer *by_tree = lab_reducer(KEDGE__REDUCER_TREE, chunk);
	struct kedge__reducer *by_list = lab_reducer(KEDGE__REDUCER_LIST, chunk);
	struct lab *labs[2] = {&tree, &list};

	for (int i = 0; i < 2; i++) {
		memset(labs[i], 0, sizeof(*labs[i]));
		labs[i]->seed = seed;
		lab_resize(labs[i], 0, chunk * 64);
		lab_resize(labs[i], 1, chunk * 20 + 5);
	}
	for (uint64_t version = 1; version <= 8; version++) {
		const struct lab_version *t = lab_take(&tree, by_tree, NULL, version, false);
		const struct lab_version *l = lab_take(&list, by_list, NULL, version, false);

		assert_int_equal(t->red.literal_bytes, l->red.literal_bytes);
		assert_true(t->red.map.count <= l->red.map.count);
		assert_true(encoded(t, KEDGE__MAP_RUNS, chunk) <= encoded(l, KEDGE__MAP_LIST, chunk));
		for (uint64_t edits = draw_below(&tree.seed, 6); edits > 0; edits--)
			lab_edit(&tree, chunk, chunk * 100);
		for (uint64_t edits = draw_below(&list.seed, 6); edits > 0; edits--)
			lab_edit(&list, chunk, chunk * 100);
	}
	lab_restore_all(&tree);
	lab_restore_all(&list);
	lab_done(&tree);
	lab_done(&list);
	kedge__reducer_free(by_tree);
	kedge__reducer_free(by_list);
}

static void test_tree_is_not_larger(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < LAB_SCALE(1500); seed++)
		run_script(seed, UINT32_C(32) << seed % 4);
}

/* A permutation of blocks that the record knows only in pieces: many copies, of every distance. */
static void test_shuffled_blocks(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < LAB_SCALE(300); seed++) {
		static struct lab lab[2];
		struct kedge__reducer *r[2] = {lab_reducer(KEDGE__REDUCER_TREE, 32),
					       lab_reducer(KEDGE__REDUCER_LIST, 32)};

		for (int i = 0; i < 2; i++) {
			memset(&lab[i], 0, sizeof(lab[i]));
			lab[i].seed = seed;
			lab_resize(&lab[i], 0, 32 * 256);
		}
		for (uint64_t version = 1; version < 10; version++) {
			const struct lab_version *v[2];

			for (int i = 0; i < 2; i++) {
				v[i] = lab_take(&lab[i], r[i], NULL, version, false);
				for (int k = 0; k < 20; k++)
					lab_move(&lab[i], 0, 32);
				draw_bytes(&lab[i].seed, lab[i].data[0] + 32 * draw_below(&lab[i].seed, 256), 32);
			}
			assert_true(encoded(v[0], KEDGE__MAP_RUNS, 32) <= encoded(v[1], KEDGE__MAP_LIST, 32));
		}
		for (int i = 0; i < 2; i++) {
			lab_restore_all(&lab[i]);
			lab_done(&lab[i]);
			kedge__reducer_free(r[i]);
		}
	}
}

/* Runs of changed chunks, one chunk in a hundred: a fifth of list's or less. */
static void test_runs_are_cheap(void **state)
{
	static struct lab lab[2];
	struct kedge__reducer *r[2] = {lab_reducer(KEDGE__REDUCER_TREE, 64), lab_reducer(KEDGE__REDUCER_LIST, 64)};
	const struct lab_version *v[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		memset(&lab[i], 0, sizeof(lab[i]));
		lab[i].seed = 5;
		lab_resize(&lab[i], 0, 4 << 20);
		lab_take(&lab[i], r[i], NULL, 1, false);
		for (uint64_t at = 0; at + 3200 * 64 <= 4 << 20; at += 3200 * 64)
			draw_bytes(&lab[i].seed, lab[i].data[0] + at + 64 * draw_below(&lab[i].seed, 3168), 32 * 64);
		v[i] = lab_take(&lab[i], r[i], NULL, 2, false);
	}
	assert_int_equal(v[0]->red.literal_bytes, v[1]->red.literal_bytes);
	assert_true(5 * encoded(v[0], KEDGE__MAP_RUNS, 64) <= encoded(v[1], KEDGE__MAP_LIST, 64));
	for (int i = 0; i < 2; i++) {
		lab_done(&lab[i]);
		kedge__reducer_free(r[i]);
	}
}

/* Bytes of the pages of V that are not the same, or not as long, as in the version before it. */
static uint64_t increment(const struct lab_version *v, const struct lab_version *before)
{
	uint64_t sum = 0;

	for (int slot = 0; slot < LAB_REGIONS; slot++) {
		uint64_t old = before && before->present[slot] ? before->bytes[slot] : 0;

		for (uint64_t at = 0; v->present[slot] && at < v->bytes[slot]; at += 4096) {
			uint64_t len = lab_min(4096, v->bytes[slot] - at);

			if (at + len > old || lab_min(4096, old - at) != len ||
			    memcmp(v->copy[slot] + at, before->copy[slot] + at, len))
				sum += len;
		}
	}
	return sum;
}

/* However unfit the data, rex does not take a hundredth more than the changed pages as they are. */
static void test_rex_does_not_grow(void **state)
{
	static struct lab lab;

	(void)state;
	for (uint64_t seed = 0; seed < LAB_SCALE(60); seed++) {
		uint32_t chunk = UINT32_C(16) << seed % 5;
		struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_REX, chunk);

		memset(&lab, 0, sizeof(lab));
		lab.seed = seed;
		lab_resize(&lab, 2, 40 * 4096 + seed);
		for (uint64_t version = 0; version < 8; version++) {
			const struct lab_version *v = lab_take(&lab, r, NULL, version, false);
			uint64_t raw = increment(v, version ? v - 1 : NULL);

			assert_true(v->red.literal_bytes + encoded(v, KEDGE__MAP_PAGES, chunk) <= raw + raw / 100 + 16);
			for (uint64_t i = 0, n = draw_below(&lab.seed, 300); i < n; i++) { /* patterns here and there */
				uint64_t at = draw_below(&lab.seed, lab.bytes[2]);

				draw_bytes(&lab.seed, lab.data[2] + at,
					   lab_min(1 + draw_below(&lab.seed, 60), lab.bytes[2] - at));
			}
			lab_edit(&lab, chunk, 60 * 4096);
		}
		lab_restore_all(&lab);
		lab_done(&lab);
		kedge__reducer_free(r);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rex_does_not_grow),
	    cmocka_unit_test(test_tree_is_not_larger),
	    cmocka_unit_test(test_shuffled_blocks),
	    cmocka_unit_test(test_runs_are_cheap),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
