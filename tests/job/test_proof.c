/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions whose files are all sound, and whose bytes are others than were saved: nobody certifies one, rewrites it, or
 * removes good ones in its favour.
 */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "../lib/reseal.h"
#include "../lib/scratch.h"
#include "job/handle.h"

#include <stdio.h>
#include <unistd.h>

#define BYTES    ((size_t)64 << 10)
#define VERSIONS 4

static uint8_t field[BYTES], small[1000];
static char dir[FILES_PATH];
static const char *reducer;

static int setup(void **state)
{
	(void)state;
	scratch_make(dir, sizeof(dir), "proof");
	reducer = "reducer=tree";
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return scratch_remove(dir);
}

static void memory_at(uint64_t version)
{
	for (size_t i = 0; i < BYTES; i++)
		field[i] = (uint8_t)(i * i / 77);
	fill_random(field + version * 512, 300, version);
	for (size_t i = 0; i < sizeof(small); i++)
		small[i] = (uint8_t)(i + version);
}

static kedge_t *job_open(const char *more, const char *also)
{
	char l1[FILES_PATH + 8];
	const char *settings[] = {l1, "sync=no", "threads=2", "codec=none", reducer, more, also, NULL};
	kedge_t *k;

	snprintf(l1, sizeof(l1), "l1=%s/l1", dir);
	assert_int_equal(kedge_open("job", NULL, settings, &k), 0);
	assert_int_equal(kedge_protect(k, "field", field, BYTES, KEDGE_U8), 0);
	assert_int_equal(kedge_protect(k, "small", small, sizeof(small), KEDGE_U8), 0);
	return k;
}

static void take(kedge_t *k, uint64_t version)
{
	memory_at(version);
	assert_int_equal(kedge_checkpoint(k, version), 0);
	assert_int_equal(kedge_wait(k), 0);
}

/* Versions 1 to VERSIONS, each a few new bytes on those before. */
static void make(void)
{
	kedge_t *k = job_open(NULL, NULL);

	for (uint64_t version = 1; version <= VERSIONS; version++)
		take(k, version);
	assert_int_equal(kedge_close(k), 0);
}

static void make_one(uint64_t version)
{
	kedge_t *k = job_open(NULL, NULL);

	assert_int_equal(kedge_begin(k), 0);
	take(k, version);
	assert_int_equal(kedge_close(k), 0);
}

/* One byte of what is new in VERSION, with every checksum right. */
static void spoil(uint64_t version)
{
	static struct store s;
	char path[FILES_PATH];

	path_make(path, "%s/l1/job", dir);
	store_load(&s, path);
	for (size_t i = 0; i < s.count; i++)
		if (s.images[i].version == version)
			s.images[i].payload.at[s.images[i].payload.bytes / 2] ^= 1;
	store_seal(&s, MEND_BLOCKS);
	store_free(&s);
}

static bool is_right(kedge_t *k, uint64_t version)
{
	static uint8_t got[BYTES];
	struct kedge_target target = {"field", got, BYTES};
	int rc = kedge_read(k, version, &target, 1);

	memory_at(version);
	assert_true(rc || memcmp(got, field, BYTES) == 0);
	return rc == 0;
}

static struct kedge__catalog *store_open(const char *level, enum kedge__catalog_mode mode)
{
	char path[FILES_PATH];
	struct kedge__catalog *cat;

	path_make(path, "%s/%s", dir, level);
	assert_int_equal(kedge__catalog_open(path, "job", mode, &cat, NULL), 0);
	return cat;
}

/* ---- who certifies */

static void test_find(void **state)
{
	uint64_t version;
	kedge_t *k;

	(void)state;
	make();
	k = job_open(NULL, NULL);
	assert_int_equal(kedge_find(k, KEDGE_NEWEST, &version), 0);
	assert_int_equal(version, VERSIONS);
	assert_int_equal(kedge_close(k), 0);
	spoil(VERSIONS);
	k = job_open(NULL, NULL);
	assert_int_equal(kedge_find(k, KEDGE_NEWEST, &version), 0);
	assert_int_equal(version, VERSIONS - 1);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, &version), 0);
	assert_int_equal(version, VERSIONS - 1);
	assert_int_equal(kedge_close(k), 0);
}

/* ---- who rewrites */

static void assert_damaged(int rc, const struct kedge__error *err)
{
	assert_int_equal(rc, KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge__error_text(err), "region \"field\" of version 4"));
}

/* FROM 0 makes the version self-contained; otherwise it takes in the versions from FROM on. */
static void try_coalesce(uint64_t from, bool onto)
{
	struct kedge__coalesce_options options = {
	    .version = VERSIONS, .from = from, .onto = onto, .parent = 1, .block_bytes = 4096};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__catalog *cat;
	kedge_t *k;

	make();
	spoil(VERSIONS);
	cat = store_open("l1", KEDGE__CATALOG_READ);
	assert_damaged(kedge__coalesce(cat, NULL, &options, NULL, &err), &err);
	assert_int_equal(kedge__catalog_count(cat), VERSIONS);
	kedge__error_done(&err);
	kedge__catalog_close(cat);
	k = job_open(NULL, NULL);
	for (uint64_t version = 1; version <= VERSIONS; version++)
		assert_int_equal(is_right(k, version), version < VERSIONS);
	assert_int_equal(kedge_close(k), 0);
}

static void test_coalesce(void **state)
{
	(void)state;
	try_coalesce(0, false);
}

static void test_coalesce_batch(void **state)
{
	(void)state;
	try_coalesce(2, false);
}

static void test_coalesce_onto(void **state)
{
	(void)state;
	try_coalesce(0, true);
}

static struct kedge__source_record image_of(const struct kedge__catalog *cat, uint64_t version)
{
	return (struct kedge__source_record){version, kedge__catalog_find(cat, version)->set.parts[0].image_id};
}

static void try_batch(uint64_t parent)
{
	struct kedge__batch batch = {.parent.version = KEDGE__NO_VERSION, .block_bytes = 4096};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__catalog *from, *to;
	struct kedge__set_part part;
	char *path;
	bool refers;

	make();
	to = store_open("l2", KEDGE__CATALOG_CREATE);
	from = store_open("l1", KEDGE__CATALOG_READ);
	batch.image = image_of(from, VERSIONS);
	if (parent != KEDGE__NO_VERSION)
		batch.parent = image_of(from, parent);
	assert_int_equal(kedge__batch_write(&from, 1, to, &batch, &part, &refers, NULL), 0);
	assert_int_equal(refers, parent != KEDGE__NO_VERSION);
	assert_int_equal(kedge__segment_discard(to, VERSIONS, 0, part.generation, NULL), 0);
	kedge__catalog_close(from);
	spoil(VERSIONS);
	from = store_open("l1", KEDGE__CATALOG_READ);
	assert_damaged(kedge__batch_write(&from, 1, to, &batch, &part, &refers, &err), &err);
	path = kedge__segment_path(to, VERSIONS, 0, 0);
	assert_int_not_equal(access(path, F_OK), 0);
	kedge__free(path);
	kedge__error_done(&err);
	kedge__catalog_close(from);
	kedge__catalog_close(to);
}

static void test_batch_complete(void **state)
{
	(void)state;
	try_batch(KEDGE__NO_VERSION);
}

static void test_batch_delta(void **state)
{
	(void)state;
	try_batch(2);
}

/* ---- who removes */

static void gc_with(const struct kedge__gc_options *options, size_t proved, size_t removed)
{
	struct kedge__catalog *cat = store_open("l1", KEDGE__CATALOG_READ);
	struct kedge__gc_report report;

	assert_int_equal(kedge__gc_with(cat, options, &report, NULL), 0);
	assert_int_equal(report.proved, proved);
	assert_int_equal(report.removed, removed);
	kedge__gc_report_done(&report);
	kedge__catalog_close(cat);
}

static void assert_rights(uint64_t from, uint64_t to)
{
	kedge_t *k = job_open(NULL, NULL);

	for (uint64_t version = from; version <= to; version++)
		assert_true(is_right(k, version));
	assert_int_equal(kedge_close(k), 0);
}

/* The newest is not what was saved: one that is stays. */
static void test_gc(void **state)
{
	(void)state;
	reducer = "reducer=full";
	make();
	spoil(VERSIONS);
	gc_with(&(struct kedge__gc_options){.keep = {.last = 1}, .dry_run = true}, 2, VERSIONS - 2);
	gc_with(&(struct kedge__gc_options){.keep = {.last = 1}}, 2, VERSIONS - 2);
	assert_rights(VERSIONS - 1, VERSIONS - 1);
	gc_with(&(struct kedge__gc_options){.keep = {.last = 1}, .quick = true}, 0, 1);
}

/* What was proved with its lineage need not be read again; and where nothing goes, nothing is. */
static void test_gc_once(void **state)
{
	struct kedge__trust *trust = kedge__trust_new();
	struct kedge__gc_options options = {.keep = {.last = 2}, .trust = trust};

	(void)state;
	make();
	gc_with(&options, 0, 0); /* the newest needs all others */
	tree_remove(dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	reducer = "reducer=full";
	make();
	gc_with(&options, 2, VERSIONS - 2);
	make_one(VERSIONS + 1);
	gc_with(&options, 1, 1);
	kedge__trust_clear(trust);
	make_one(VERSIONS + 2);
	gc_with(&options, 2, 1);
	kedge__trust_free(trust);
}

/* A job trusts what it took, and proves once what it found. */
static void test_keep(void **state)
{
	kedge_t *k;

	(void)state;
	reducer = "reducer=full";
	make();
	spoil(VERSIONS);
	k = job_open("keep=2", NULL);
	assert_int_equal(kedge_begin(k), 0);
	take(k, VERSIONS + 1);
	assert_int_equal(kedge_close(k), 0);
	assert_rights(VERSIONS - 1, VERSIONS - 1);
	assert_rights(VERSIONS + 1, VERSIONS + 1);
	k = job_open("keep=2", NULL);
	assert_int_equal(kedge_begin(k), 0);
	for (uint64_t version = VERSIONS + 2; version < VERSIONS + 6; version++)
		take(k, version);
	assert_int_equal(kedge_close(k), 0);
	k = job_open(NULL, NULL);
	assert_false(is_right(k, VERSIONS - 1));
	assert_int_equal(kedge_close(k), 0);
	assert_rights(VERSIONS + 4, VERSIONS + 5);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {CASE(test_find),
					   CASE(test_coalesce),
					   CASE(test_coalesce_batch),
					   CASE(test_coalesce_onto),
					   CASE(test_batch_complete),
					   CASE(test_batch_delta),
					   CASE(test_gc),
					   CASE(test_gc_once),
					   CASE(test_keep)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
