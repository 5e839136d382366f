/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second handle of a name that reads nothing, and shares what the first one knows: whatever becomes of one of them,
 * the other has what it had, until it looks for itself.
 */
#include "fixture.h"

#include <pthread.h>

#define VERSIONS 40

static int publish(struct kedge__catalog *cat, uint64_t version, uint64_t image, struct kedge__error *err)
{
	struct kedge__set_part part = {.generation = (uint32_t)image, .file_bytes = 100, .image_id = {image, version}};
	struct kedge__set set = {.name = NAME,
				 .version = version,
				 .parent = KEDGE__NO_VERSION,
				 .created_ns = version,
				 .ranks = 1,
				 .parts = &part,
				 .run = {.id = 5, .epoch = 1}};

	return kedge__set_publish(cat, &set, err);
}

static struct kedge__catalog *filled(const char *dir)
{
	struct kedge__catalog *cat = open_store(dir);

	for (uint64_t version = 1; version <= VERSIONS; version++)
		assert_ok(publish(cat, version, 1, err));
	return cat;
}

static struct kedge__catalog *dup_of(const struct kedge__catalog *cat)
{
	struct kedge__catalog *copy = NULL;

	assert_ok(kedge__catalog_dup(cat, &copy, err));
	return copy;
}

static void assert_same(const struct kedge__catalog *a, const struct kedge__catalog *b)
{
	struct kedge__catalog *const levels[2] = {(struct kedge__catalog *)a, (struct kedge__catalog *)b};

	assert_int_equal(kedge__catalog_count(a), kedge__catalog_count(b));
	for (size_t i = 0; i < kedge__catalog_count(a); i++) {
		assert_int_equal(kedge__catalog_at(a, i)->version, kedge__catalog_at(b, i)->version);
		assert_int_equal(kedge__catalog_at(a, i)->image, kedge__catalog_at(b, i)->image);
	}
	assert_int_equal(kedge__catalog_digest(a), kedge__catalog_digest(b));
	assert_int_equal(kedge__catalog_problems(a), kedge__catalog_problems(b));
	assert_int_equal(kedge__history_head(levels, 1)->version, kedge__history_head(levels + 1, 1)->version);
}

/* ------------------------------------------------------------------ one knows what the other knows, and no more */

static void test_shares(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *first = filled(dir), *copy;
	const struct kedge__catalog_entry *old;
	struct kedge__store_id ids[2];

	(void)state;
	kedge__catalog_close(first);
	drop_index(dir);
	assert_ok(kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &first, err));
	assert_int_equal(kedge__catalog_manifests_read(first), VERSIONS);
	copy = dup_of(first);
	assert_int_equal(kedge__catalog_manifests_read(copy), VERSIONS);
	assert_same(first, copy);
	assert_ptr_equal(kedge__catalog_at(first, 0), kedge__catalog_at(copy, 0));
	assert_string_equal(kedge__catalog_store(first), kedge__catalog_store(copy));
	ids[0] = kedge__catalog_store_id(first);
	ids[1] = kedge__catalog_store_id(copy);
	assert_true(kedge__store_id_equal(&ids[0], &ids[1]));

	/* One of them replaces a version and removes another; the other has both until it scans. */
	old = kedge__catalog_find(copy, 7);
	assert_ok(publish(first, 7, 2, err));
	assert_ok(kedge__set_remove(first, VERSIONS, err));
	assert_ptr_equal(kedge__catalog_find(copy, 7), old);
	assert_ptr_not_equal(kedge__catalog_find(first, 7), old);
	assert_int_equal(old->set.parts[0].image_id.lo, 1);
	assert_non_null(kedge__catalog_find(copy, VERSIONS));
	assert_ok(kedge__catalog_scan(copy, err));
	assert_same(first, copy);
	assert_int_equal(kedge__catalog_find(copy, 7)->set.parts[0].image_id.lo, 2);
	/* It followed the index from where the first one was: nothing but what is new was taken from there. */
	assert_int_equal(kedge__catalog_manifests_read(copy), VERSIONS);
	kedge__catalog_close(first);
	kedge__catalog_close(copy);
	remove_dir(dir);
}

static void test_outlives(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *first = filled(dir), *copy = dup_of(first), *third = dup_of(copy), *fresh;

	(void)state;
	kedge__catalog_close(first);
	for (uint64_t version = 1; version <= VERSIONS; version++)
		assert_int_equal(kedge__catalog_find(copy, version)->set.parts[0].image_id.hi, version);
	assert_ok(publish(copy, VERSIONS + 1, 1, err));
	kedge__catalog_close(copy);
	assert_ok(kedge__catalog_rescan(third, err));
	assert_ok(kedge__catalog_open(dir, NAME, KEDGE__CATALOG_READ, &fresh, err));
	assert_int_equal(kedge__catalog_count(third), VERSIONS + 1);
	assert_same(third, fresh);
	kedge__catalog_close(fresh);
	kedge__catalog_close(third);
	remove_dir(dir);
}

/* A manifest that cannot be read, and an index that goes away or is replaced. */
static void test_troubles(void **state)
{
	char *dir = make_dir(), *path = kedge__asprintf("%s/" NAME "/set-%020d", dir, 3);
	struct kedge__catalog *first = filled(dir), *copy;

	(void)state;
	file_write(path, "no manifest", 11);
	assert_ok(kedge__catalog_rescan(first, err));
	assert_int_equal(kedge__catalog_problems(first), 1);
	copy = dup_of(first);
	assert_same(first, copy);
	assert_string_equal(kedge__error_text(&kedge__catalog_find(first, 3)->problem),
			    kedge__error_text(&kedge__catalog_find(copy, 3)->problem));
	kedge__catalog_close(first);
	assert_int_equal(kedge__catalog_find(copy, 3)->problem.code, KEDGE_E_DAMAGED);

	drop_index(dir);
	first = dup_of(copy);
	assert_ok(publish(copy, VERSIONS + 1, 1, err));
	assert_ok(kedge__catalog_scan(first, err));
	assert_int_equal(kedge__catalog_count(first), VERSIONS + 1);
	assert_same(first, copy);
	kedge__catalog_close(copy);
	kedge__catalog_close(first);
	kedge__free(path);
	remove_dir(dir);
}

/* They exclude each other as two that were opened do. */
static void test_locks(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *first = filled(dir), *copy;

	(void)state;
	assert_ok(kedge__catalog_own(first, "one", err));
	assert_ok(kedge__catalog_pin(first, err));
	copy = dup_of(first);
	assert_fails(KEDGE_E_LOCKED, "", kedge__catalog_seize(copy, false, err));
	kedge__catalog_unpin(first);
	assert_ok(kedge__catalog_seize(copy, false, err));
	assert_fails(KEDGE_E_LOCKED, "", kedge__catalog_seize(first, false, err));
	kedge__catalog_release(copy);
	assert_fails(KEDGE_E_LOCKED, "in use", kedge__catalog_own(copy, "two", err));
	kedge__catalog_close(copy);
	assert_ok(kedge__catalog_seize(first, false, err));
	kedge__catalog_release(first);
	kedge__catalog_close(first);
	remove_dir(dir);
}

/* ------------------------------------------------------------------ threads */

struct runner {
	struct kedge__catalog *cat;
	uint64_t first; /* of its own versions */
	int failed;
};

/* Publishes and removes versions of its own, and looks at all. */
static void *run(void *ctx)
{
	struct runner *r = ctx;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < 60 && !r->failed; i++) {
		uint64_t version = r->first + i % 3;

		if (publish(r->cat, version, i, NULL) || kedge__catalog_scan(r->cat, NULL) ||
		    (i % 4 == 0 && kedge__set_remove(r->cat, version, NULL)))
			r->failed = 1;
		for (size_t e = 0; e < kedge__catalog_count(r->cat); e++)
			sum += kedge__catalog_at(r->cat, e)->set.parts[0].image_id.lo;
	}
	r->failed |= !sum;
	kedge__catalog_close(r->cat);
	return NULL;
}

static void test_threads(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *first = filled(dir), *fresh;
	struct runner runners[2] = {{.cat = first, .first = 10}, {.cat = dup_of(first), .first = 20}};
	pthread_t threads[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, &runners[i]), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(runners[i].failed, 0);
	}
	assert_ok(kedge__catalog_open(dir, NAME, KEDGE__CATALOG_READ, &fresh, err));
	assert_int_equal(kedge__catalog_find(fresh, 1)->set.parts[0].image_id.hi, 1);
	kedge__catalog_close(fresh);
	remove_dir(dir);
}

/* ------------------------------------------------------------------ what is made without looking */

static void test_make(void **state)
{
	char *dir = make_dir(), *store = kedge__asprintf("%s/store", dir), *marker, *index;
	struct kedge__catalog *cat;

	(void)state;
	assert_fails(KEDGE_E_ARG, "name", kedge__catalog_make(store, "no/name", KEDGE__CATALOG_CREATE, err));
	assert_false(kedge__fs_exists(store));
	assert_ok(kedge__catalog_make(store, NAME, KEDGE__CATALOG_CREATE, err));
	index = kedge__asprintf("%s/" NAME "/index", store);
	assert_false(kedge__fs_exists(index)); /* whoever reads the directory makes it */
	assert_ok(kedge__catalog_open(store, NAME, KEDGE__CATALOG_READ, &cat, err));
	kedge__catalog_close(cat);
	assert_ok(kedge__catalog_make(store, NAME, KEDGE__CATALOG_CREATE, err));

	/* A directory that is no store and holds other things. */
	marker = kedge__asprintf("%s/other", dir);
	file_write(marker, "x", 1);
	assert_fails(KEDGE_E_CONFIG, dir, kedge__catalog_make(dir, NAME, KEDGE__CATALOG_CREATE, err));
	assert_ok(kedge__catalog_make(dir, NAME, KEDGE__CATALOG_INIT, err));
	kedge__free(marker);
	kedge__free(index);
	kedge__free(store);
	remove_dir(dir);
}

/* ------------------------------------------------------------------ a clean does not trust what it has not looked at
 */

static void test_clean(void **state)
{
	char *dir = make_dir(), *path = kedge__asprintf("%s/" NAME "/set-%020d", dir, 2);
	char *aside = kedge__asprintf("%s/aside", dir), *versions = kedge__asprintf("%s/" NAME, dir), *before, *after;
	struct job job = job_new(1, 200);
	struct kedge__catalog *cat = open_store(dir);
	size_t removed = 0;

	(void)state;
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	save_next(cat, &job, 2, KEDGE__REDUCER_FULL);
	kedge__catalog_close(cat);
	/* The manifest comes back when the catalogue is open: no index says so, and its segment is needed. */
	assert_int_equal(rename(path, aside), 0);
	assert_ok(kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &cat, err));
	assert_null(kedge__catalog_find(cat, 2));
	assert_int_equal(rename(aside, path), 0);
	before = tree_text(versions, "", NULL);
	assert_ok(kedge__catalog_clean(cat, &removed, err));
	after = tree_text(versions, "", NULL);
	assert_int_equal(removed, 0);
	assert_string_equal(before, after);
	assert_non_null(kedge__catalog_find(cat, 2));
	kedge__free(before);
	kedge__free(after);
	kedge__free(versions);
	kedge__free(aside);
	kedge__free(path);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_shares), cmocka_unit_test(test_outlives), cmocka_unit_test(test_troubles),
	    cmocka_unit_test(test_locks),  cmocka_unit_test(test_threads),  cmocka_unit_test(test_make),
	    cmocka_unit_test(test_clean),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
