/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

static void flip(const char *path, size_t at)
{
	file_flip(path, at, 0x10);
}

static int notices;

static void count_notices(void *user, enum kedge_log_level level, const char *text)
{
	(void)user;
	(void)text;
	notices += level == KEDGE_LOG_NOTICE;
}

static void copy_version(struct kedge__catalog *from, struct kedge__catalog *to, uint64_t version)
{
	const struct kedge__set *set = &kedge__catalog_find(from, version)->set;
	struct kedge__set_part parts[RANKS_MAX];
	struct kedge__set copy = *set;

	copy.parts = parts;
	assert_ok(kedge__catalog_pin(to, err));
	for (uint32_t rank = 0; rank < set->ranks; rank++)
		assert_ok(kedge__level_copy(from, to, version, rank, true, (struct kedge__io){0}, NULL, NULL, NULL, NULL,
					    &parts[rank], err));
	assert_ok(kedge__set_publish(to, &copy, err));
	kedge__catalog_unpin(to);
}

struct two {
	struct job job;
	char *dirs[2];
	struct kedge__catalog *levels[2];
};

static void two_open(struct two *t, uint32_t ranks)
{
	t->job = job_new(ranks, 2048);
	for (int i = 0; i < 2; i++) {
		t->dirs[i] = make_dir();
		t->levels[i] = open_store(t->dirs[i]);
	}
	for (uint64_t version = 1; version <= 5; version++) {
		save_next(t->levels[0], &t->job, version, KEDGE__REDUCER_TREE);
		copy_version(t->levels[0], t->levels[1], version);
	}
}

static void two_close(struct two *t)
{
	for (int i = 0; i < 2; i++) {
		kedge__catalog_close(t->levels[i]);
		remove_dir(t->dirs[i]);
	}
	job_done(&t->job);
}

static void test_level_copy(void **state)
{
	struct two t;
	struct kedge__set_part part;
	char *path;

	(void)state;
	two_open(&t, 2);
	assert_all_intact(t.levels[1], &t.job);
	/* What is there is not copied again. */
	path = kedge__segment_path(t.levels[0], 3, 1, 0);
	flip(path, 80);
	assert_ok(kedge__level_copy(t.levels[0], t.levels[1], 3, 1, true, (struct kedge__io){0}, NULL, NULL, NULL, NULL,
				    &part, err));
	assert_int_equal(part.generation, 0);
	/* A damaged block is not carried on. */
	assert_ok(kedge__set_remove(t.levels[1], 3, err));
	assert_fails(KEDGE_E_DAMAGED, "version 3, rank 1",
		     kedge__level_copy(t.levels[0], t.levels[1], 3, 1, true, (struct kedge__io){0}, NULL, NULL, NULL, NULL,
				       &part, err));
	kedge__free(path);
	path = kedge__segment_path(t.levels[1], 3, 1, 0);
	assert_false(kedge__fs_exists(path));
	kedge__free(path);
	assert_fails(KEDGE_E_NOTFOUND, "version 8",
		     kedge__level_copy(t.levels[0], t.levels[1], 8, 0, true, (struct kedge__io){0}, NULL, NULL, NULL, NULL,
				       &part, err));
	two_close(&t);
}

static void test_fall_back(void **state)
{
	struct two t;
	struct kedge__catalog *only;

	(void)state;
	two_open(&t, 1);
	kedge_set_log(count_notices, NULL);
	for (uint64_t version = 1; version <= 5; version += 2) {
		char *path = kedge__segment_path(t.levels[0], version, 0, 0);
		struct stat st;

		assert_int_equal(stat(path, &st), 0);
		flip(path, (size_t)st.st_size - 70);
		kedge__free(path);
	}
	notices = 0;
	for (size_t i = 0; i < t.job.count; i++)
		assert_ok(compare_index(t.levels, 2, &t.job, i, err));
	assert_true(notices >= 5);
	only = t.levels[0];
	assert_fails(KEDGE_E_DAMAGED, "version 5, rank 0", compare_index(&only, 1, &t.job, 4, err));
	kedge_set_log(NULL, NULL);
	two_close(&t);
}

/* A damaged block shows only when it is read; then the other level's copy takes its place. */
static void test_replace(void **state)
{
	struct two t;
	struct kedge__lineage *l = NULL;
	uint8_t *bytes;
	char *path;

	(void)state;
	two_open(&t, 1);
	path = kedge__segment_path(t.levels[0], 1, 0, 0);
	flip(path, KEDGE__SEGMENT_HEADER_BYTES + 5);
	assert_ok(kedge__lineage_open(t.levels, 2, 1, 0, &l, err));
	bytes = malloc(t.job.scale);
	assert_fails(KEDGE_E_DAMAGED, "block 0 (region alpha)", kedge__lineage_read(l, 0, bytes, t.job.scale, err));
	assert_fails(KEDGE_E_DAMAGED, path, kedge__lineage_read(l, 0, bytes, t.job.scale, err));
	assert_fails(KEDGE_E_ARG, "version 4", kedge__lineage_replace(l, 4, err));
	assert_ok(kedge__lineage_replace(l, 1, err));
	assert_ok(kedge__lineage_read(l, 0, bytes, t.job.scale, err));
	assert_memory_equal(bytes, t.job.images[0][0].data[0], t.job.scale);
	assert_fails(KEDGE_E_DAMAGED, "no intact copy", kedge__lineage_replace(l, 1, err));
	assert_ok(kedge__lineage_read(l, 0, bytes, t.job.scale, err));
	kedge__lineage_close(l);
	free(bytes);
	kedge__free(path);
	two_close(&t);
}

static void test_missing_parent(void **state)
{
	struct two t;
	struct kedge__catalog *only;

	(void)state;
	two_open(&t, 1);
	assert_ok(kedge__set_remove(t.levels[0], 4, err));
	assert_ok(compare_index(t.levels, 2, &t.job, 4, err));
	only = t.levels[0];
	assert_fails(KEDGE_E_MISSING, "version 4", compare_index(&only, 1, &t.job, 4, err));
	assert_fails(KEDGE_E_MISSING, "version 4", compare_index(&only, 1, &t.job, 3, err));
	two_close(&t);
}

static void test_replaced_parent(void **state)
{
	struct two t;
	struct kedge__catalog *only;
	uint64_t *list = NULL;
	size_t count;

	(void)state;
	two_open(&t, 1);
	save_next(t.levels[0], &t.job, 4, KEDGE__REDUCER_FULL);
	only = t.levels[0];
	assert_fails(KEDGE_E_MISSING, "version 4 of rank 0", compare_index(&only, 1, &t.job, 4, err));
	assert_fails(KEDGE_E_MISSING, "replaced since version 5 was taken", compare_index(&only, 1, &t.job, 4, err));
	/* The level that still has the old version 4 can give version 5 back. */
	assert_ok(compare_index(t.levels, 2, &t.job, 4, err));
	assert_ok(kedge__catalog_closure(t.levels[1], 5, &list, &count, err));
	assert_int_equal(list[count - 1], 5);
	assert_int_equal(list[count - 2], 4);
	kedge__free(list);
	assert_fails(KEDGE_E_NOTFOUND, "version 77", kedge__catalog_closure(only, 77, &list, &count, err));
	assert_ok(kedge__set_remove(only, 1, err));
	assert_fails(KEDGE_E_MISSING, "version 1", kedge__catalog_closure(only, 5, &list, &count, err));
	two_close(&t);
}

/* Level 2 has a version in a form that does not need what level 1 has lost. */
static void test_other_form(void **state)
{
	struct two t;
	struct kedge__coalesce_options options = {.version = 5, .block_bytes = 512};
	struct kedge__coalesce_report report;

	(void)state;
	two_open(&t, 2);
	options.codec = t.job.codec;
	assert_ok(kedge__coalesce(t.levels[1], NULL, &options, &report, err));
	assert_int_equal(kedge__catalog_count(t.levels[1]), 1);
	assert_ok(kedge__set_remove(t.levels[0], 3, err));
	assert_ok(compare_index(t.levels, 2, &t.job, 4, err));
	assert_fails(KEDGE_E_MISSING, "version 3", compare_index(t.levels, 2, &t.job, 3, err));
	two_close(&t);
}

/* More versions than files that are kept open is a matter of another constant; here the order and ends are checked. */
static void test_walk(void **state)
{
	struct two t;
	struct kedge__lineage *l = NULL;

	(void)state;
	two_open(&t, 1);
	assert_ok(kedge__lineage_open(t.levels, 2, 5, 0, &l, err));
	for (size_t i = 1; i < kedge__lineage_count(l); i++)
		assert_true(kedge__lineage_at(l, i - 1)->header.version < kedge__lineage_at(l, i)->header.version);
	assert_ptr_equal(kedge__lineage_top(l), kedge__lineage_segment(l, 5));
	assert_null(kedge__lineage_segment(l, 6));
	kedge__lineage_close(l);
	assert_fails(KEDGE_E_NOTFOUND, "rank 1", kedge__lineage_open(t.levels, 2, 5, 1, &l, err));
	assert_fails(KEDGE_E_MISSING, "version 6", kedge__lineage_open(t.levels, 2, 6, 0, &l, err));
	two_close(&t);
}

/* A pack that is replaced while it is open is read to its end; who opens it afterwards reads the new one. */
static void test_pack_replaced(void **state)
{
	struct job jobs[2] = {job_new(1, 2048), job_new(1, 4096)};
	char *dirs[2], *packs[2];
	struct kedge__catalog *cats[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		dirs[i] = make_dir();
		cats[i] = open_store(dirs[i]);
		save_next(cats[i], &jobs[i], 1, KEDGE__REDUCER_TREE);
		packs[i] = kedge__segment_path(cats[i], 1, 0, 0);
		kedge__catalog_close(cats[i]);
	}
	assert_ok(kedge__catalog_open(packs[0], NAME, KEDGE__CATALOG_READ, &cats[0], err));
	assert_int_equal(rename(packs[1], packs[0]), 0);
	assert_ok(kedge__catalog_scan(cats[0], err));
	assert_ok(compare_index(&cats[0], 1, &jobs[0], 0, err));
	assert_ok(kedge__catalog_open(packs[0], NAME, KEDGE__CATALOG_READ, &cats[1], err));
	assert_ok(compare_index(&cats[1], 1, &jobs[1], 0, err));
	for (int i = 0; i < 2; i++) {
		kedge__catalog_close(cats[i]);
		kedge__free(packs[i]);
		remove_dir(dirs[i]);
		job_done(&jobs[i]);
	}
}

static int pool_open(void **state)
{
	(void)state;
	return kedge__pool_new(3, &open_pool, NULL);
}

static int pool_close(void **state)
{
	(void)state;
	kedge__pool_free(open_pool);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_level_copy),
	    cmocka_unit_test(test_fall_back),
	    cmocka_unit_test(test_replace),
	    cmocka_unit_test(test_missing_parent),
	    cmocka_unit_test(test_replaced_parent),
	    cmocka_unit_test(test_other_form),
	    cmocka_unit_test(test_walk),
	    cmocka_unit_test(test_pack_replaced),
	};

	return cases_run(argc, argv, tests, pool_open, pool_close);
}
