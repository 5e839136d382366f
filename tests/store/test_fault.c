/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each file-system call of what changes a store, failing in turn, and being the last thing that the process does: what
 * was complete stays so, and the rest is cleaned up.
 */
#include "fixture.h"

#include <signal.h>

#define BASE_VERSIONS 4

struct op {
	const char *name;
	int (*run)(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err);
	/* A failure leaves the store as it was; else it may have got half way. */
	bool all_or_nothing;
};

static int run_save(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	return save_index(cat, job, BASE_VERSIONS, KEDGE__REDUCER_TREE, true, err);
}

static int run_replace(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	/* The newest version again, with the same contents under another form. */
	return save_index(cat, job, BASE_VERSIONS - 1, KEDGE__REDUCER_FULL, true, err);
}

static int run_coalesce(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	const struct kedge__coalesce_options options = {
	    .version = 3, .sync = true, .codec = job->codec, .block_bytes = 256};

	return kedge__coalesce(cat, NULL, &options, NULL, err);
}

static int run_coalesce_only(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	const struct kedge__coalesce_options options = {
	    .version = 4, .from = 2, .keep_old = true, .sync = true, .codec = job->codec, .block_bytes = 256};

	return kedge__coalesce(cat, NULL, &options, NULL, err);
}

static int run_coalesce_onto(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	const struct kedge__coalesce_options options = {.version = 4,
							.onto = true,
							.parent = 3,
							.keep_old = true,
							.sync = true,
							.codec = job->codec,
							.block_bytes = 256};

	return kedge__coalesce(cat, NULL, &options, NULL, err);
}

static int run_gc(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	(void)job;
	return kedge__gc(cat, 2, false, NULL, err);
}

static int run_discard(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	(void)job;
	return kedge__set_discard_above(cat, 1, err);
}

static int run_own(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	size_t removed;
	int rc = kedge__catalog_own(cat, "fault", err);

	(void)job;
	if (!rc)
		rc = kedge__catalog_clean(cat, &removed, err);
	kedge__catalog_disown(cat);
	return rc;
}

#define WRITERS 2 /* the first ones: what differs between kinds of faults differs in their writes */

static const struct op ops[] = {
    {"save", run_save, true},
    {"replace", run_replace, true},
    {"coalesce, keep", run_coalesce_only, true},
    {"coalesce", run_coalesce, false},
    {"gc", run_gc, false},
    {"discard", run_discard, false},
    {"own", run_own, false},
    {"coalesce, onto", run_coalesce_onto, true},
};

/* ------------------------------------------------------------------ the ground */

struct ground {
	struct job job;
	char *top, *base, *work;
};

static void ground_open(struct ground *g)
{
	struct kedge__catalog *cat;

	g->job = job_new(2, 256);
	g->top = make_dir();
	g->base = kedge__asprintf("%s/base", g->top);
	g->work = kedge__asprintf("%s/work", g->top);
	cat = open_store(g->base);
	/* Version 3 stands alone, so that gc and coalescing have something to remove. */
	for (uint64_t version = 1; version <= BASE_VERSIONS; version++)
		save_next(cat, &g->job, version, version == 3 ? KEDGE__REDUCER_FULL : KEDGE__REDUCER_BASIC);
	job_step(&g->job, BASE_VERSIONS + 1);
	kedge__catalog_close(cat);
}

static void ground_close(struct ground *g)
{
	job_done(&g->job);
	kedge__free(g->base);
	kedge__free(g->work);
	remove_dir(g->top);
}

static struct kedge__catalog *ground_reset(struct ground *g)
{
	tree_remove(g->work);
	tree_copy(g->base, g->work);
	return open_store(g->work);
}

/* Run OP to its end: how many calls it makes, and what the store looks like then. */
static uint64_t measure(struct ground *g, const struct op *op, char **before, char **after)
{
	struct kedge__catalog *cat = ground_reset(g);
	uint64_t calls;

	*before = tree_text(g->work, "", NULL);
	kedge__fault_set(NULL, NULL);
	assert_ok(op->run(cat, &g->job, err));
	calls = kedge__fault_count();
	kedge__catalog_close(cat);
	*after = tree_text(g->work, "", NULL);
	assert_true(calls > 3);
	return calls;
}

/* After a clean: no strays, every set gives back what was saved, and the same work can be done again. */
static void assert_recovers(struct ground *g, const struct op *op, const char *before, const char *after)
{
	struct kedge__catalog *cat = open_store(g->work);
	size_t removed;
	char *now;

	assert_ok(kedge__catalog_clean(cat, &removed, err));
	assert_true(kedge__catalog_count(cat) > 0);
	assert_all_intact(cat, &g->job);
	now = tree_text(g->work, "", NULL);
	if (op->all_or_nothing && strcmp(now, before) != 0 && strcmp(now, after) != 0)
		fail_msg("%s: neither what was nor what should be:\n%s", op->name, now);
	kedge__free(now);
	if (op->run != run_replace)
		assert_ok(op->run(cat, &g->job, err));
	assert_all_intact(cat, &g->job);
	kedge__catalog_close(cat);
}

/* ------------------------------------------------------------------ errors */

static void fail_each(const char *action, int code, size_t count)
{
	struct ground g;

	ground_open(&g);
	for (size_t i = 0; i < count; i++) {
		const struct op *op = &ops[i];
		char *before, *after, *now;
		uint64_t calls = measure(&g, op, &before, &after), failed = 0;

		for (uint64_t n = 1; n <= calls; n++) {
			struct kedge__catalog *cat = ground_reset(&g);
			struct kedge__error err = KEDGE__ERROR_INIT;
			char *spec = kedge__asprintf("%s@%llu", action, (unsigned long long)n);
			int rc;

			assert_int_equal(kedge__fault_set(spec, NULL), 0);
			rc = op->run(cat, &g.job, &err);
			kedge__fault_set(NULL, NULL);
			if (rc) {
				failed++;
				if (rc != code || !err.text)
					fail_msg("%s: %s: %d %s", op->name, spec, rc, kedge__error_text(&err));
			}
			kedge__catalog_close(cat);
			now = tree_text(g.work, "", NULL);
			if (rc && op->all_or_nothing && strcmp(now, before) != 0)
				fail_msg("%s: %s: something is left:\n%s", op->name, spec, now);
			kedge__free(now);
			assert_recovers(&g, op, before, after);
			kedge__error_done(&err);
			kedge__free(spec);
		}
		assert_true(code == 0 ? failed == 0 : failed > calls / 2);
		kedge__free(before);
		kedge__free(after);
	}
	ground_close(&g);
}

static void test_eio(void **state)
{
	(void)state;
	fail_each("eio", KEDGE_E_IO, KEDGE__COUNT(ops));
}

static void test_enospc(void **state)
{
	(void)state;
	fail_each("enospc", KEDGE_E_NOSPACE, WRITERS);
}

static void test_short_writes(void **state)
{
	(void)state;
	fail_each("short", 0, WRITERS);
}

/* The disk stays full: not even the undoing works. What was there is there, and room brings the rest in order. */
static void test_disk_stays_full(void **state)
{
	struct ground g;

	(void)state;
	ground_open(&g);
	for (size_t i = 0; i < WRITERS; i++) {
		const struct op *op = &ops[i];
		char *before, *after;
		uint64_t calls = measure(&g, op, &before, &after);

		for (uint64_t n = 1; n <= calls; n++) {
			struct kedge__catalog *cat = ground_reset(&g);
			char *spec = kedge__asprintf("enospc@%llu+", (unsigned long long)n);

			assert_int_equal(kedge__fault_set(spec, NULL), 0);
			(void)op->run(cat, &g.job, NULL);
			kedge__fault_set(NULL, NULL);
			kedge__catalog_close(cat);
			assert_recovers(&g, op, before, after);
			kedge__free(spec);
		}
		kedge__free(before);
		kedge__free(after);
	}
	ground_close(&g);
}

/* ------------------------------------------------------------------ the order of calls
 * Kills of a process do not show whether syncs are where they must be for the machine to be killed. What each call says
 * when it fails does. */

#define IN_INDEX NULL /* a record that is not appended is no error: the index goes */

static int run_remove(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	(void)job;
	return kedge__set_remove(cat, BASE_VERSIONS, err);
}

static void assert_order(int (*run)(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err),
			 const char *const *calls, size_t count)
{
	struct ground g;
	struct kedge__catalog *cat;

	ground_open(&g);
	for (size_t n = 0; n < count; n++) {
		char *spec = kedge__asprintf("eio@%zu", n + 1);

		cat = ground_reset(&g);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		if (calls[n])
			assert_fails(KEDGE_E_IO, calls[n], run(cat, &g.job, err));
		else
			assert_ok(run(cat, &g.job, err));
		kedge__fault_set(NULL, NULL);
		kedge__catalog_close(cat);
		kedge__free(spec);
	}
	cat = ground_reset(&g);
	kedge__fault_set(NULL, NULL);
	assert_ok(run(cat, &g.job, err));
	assert_int_equal(kedge__fault_count(), count);
	kedge__catalog_close(cat);
	ground_close(&g);
}

static void test_order_of_a_save(void **state)
{
	static const char *const calls[] = {
	    "cannot create directory ",
	    "cannot sync directory ", /* of the name, for the new entry */
	    "r0000000-g0.seg.tmp",    /* create */
	    "cannot write ",
	    "cannot sync ",
	    "cannot rename ",
	    "v00000000000000000005: ", /* sync directory */
	    "r0000001-g0.seg.tmp",
	    "cannot write ",
	    "cannot sync ",
	    "cannot rename ",
	    "v00000000000000000005: ",
	    IN_INDEX,
	    "cannot create ",
	    "cannot write ",
	    "cannot sync ",
	    "cannot rename ",
	    "cannot sync directory ",
	    IN_INDEX,
	};

	(void)state;
	assert_order(run_save, calls, KEDGE__COUNT(calls));
}

/* A manifest is no more durable than what it names. */
static int run_save_unsynced(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	kedge__catalog_set_sync(cat, false);
	return save_index(cat, job, BASE_VERSIONS, KEDGE__REDUCER_TREE, false, err);
}

static void test_order_of_a_save_unsynced(void **state)
{
	static const char *const calls[] = {
	    "cannot create directory ",
	    "cannot sync directory ", /* of the name, for the new entry */
	    "r0000000-g0.seg.tmp",
	    "cannot write ",
	    "cannot rename ",
	    "r0000001-g0.seg.tmp",
	    "cannot write ",
	    "cannot rename ",
	    IN_INDEX,
	    "cannot create ",
	    "cannot write ",
	    "cannot rename ",
	    IN_INDEX,
	};

	(void)state;
	assert_order(run_save_unsynced, calls, KEDGE__COUNT(calls));
}

static void test_order_of_a_removal(void **state)
{
	static const char *const calls[] = {
	    IN_INDEX,
	    "set-00000000000000000004: ",
	    IN_INDEX,
	    "cannot sync directory ",
	    "r0000000-g0.seg: ",
	    "r0000001-g0.seg: ",
	    "cannot remove directory ",
	};

	(void)state;
	assert_order(run_remove, calls, KEDGE__COUNT(calls));
}

/* ------------------------------------------------------------------ kills */

struct victim {
	const struct op *op;
	const struct job *job;
	struct kedge__catalog *cat;
	const char *spec;
};

static void run_victim(void *ctx)
{
	struct victim *v = ctx;

	if (kedge__fault_set(v->spec, NULL) != 0)
		_exit(2);
	_exit(v->op->run(v->cat, v->job, NULL) == 0 ? 0 : 1);
}

static void kill_each(const char *action, size_t count)
{
	struct ground g;

	ground_open(&g);
	for (size_t i = 0; i < count; i++) {
		char *before, *after;
		uint64_t calls = measure(&g, &ops[i], &before, &after);

		for (uint64_t n = 1; n <= calls; n++) {
			struct kedge__catalog *cat = ground_reset(&g);
			char *spec = kedge__asprintf("%s@%llu", action, (unsigned long long)n);
			struct victim victim = {&ops[i], &g.job, cat, spec};
			int status = run_child(run_victim, &victim);

			if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
				fail_msg("%s: %s: not killed: %#x", ops[i].name, spec, status);
			kedge__catalog_close(cat);
			assert_recovers(&g, &ops[i], before, after);
			kedge__free(spec);
		}
		kedge__free(before);
		kedge__free(after);
	}
	ground_close(&g);
}

static void test_kill(void **state)
{
	(void)state;
	kill_each("kill", KEDGE__COUNT(ops));
}

static void test_cut(void **state)
{
	(void)state;
	kill_each("cut", WRITERS);
}

/* ------------------------------------------------------------------ the store itself comes to be */

static void open_victim(void *ctx)
{
	struct victim *v = ctx;
	struct kedge__catalog *cat;

	if (kedge__fault_set(v->spec, NULL) != 0)
		_exit(2);
	_exit(kedge__catalog_open((const char *)v->job, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) == 0 ? 0 : 1);
}

static void test_kill_while_creating(void **state)
{
	char *top = make_dir(), *dir = kedge__asprintf("%s/a/b", top), *text;
	size_t removed;

	(void)state;
	for (uint64_t n = 1;; n++) {
		char *spec = kedge__asprintf("cut@%llu", (unsigned long long)n);
		struct victim victim = {.job = (const struct job *)dir, .spec = spec};
		int status;
		struct kedge__catalog *cat;

		tree_remove(dir);
		status = run_child(open_victim, &victim);
		kedge__free(spec);
		cat = open_store(dir);
		assert_ok(kedge__catalog_clean(cat, &removed, err));
		kedge__catalog_close(cat);
		text = tree_text(dir, "", NULL);
		assert_string_equal(text, "/job -1\n/job/guard 0\n/kedge-store 48\n");
		kedge__free(text);
		if (!WIFSIGNALED(status)) {
			assert_int_equal(status, 0);
			assert_true(n > 5);
			break;
		}
	}
	kedge__free(dir);
	remove_dir(top);
}

/* ------------------------------------------------------------------ memory */

static int verify_and_compare(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	int rc = kedge__catalog_scan(cat, err);

	if (!rc)
		rc = kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, NULL, err);
	if (!rc)
		rc = compare_index(&cat, 1, job, BASE_VERSIONS - 1, err);
	return rc;
}

static int copy_level(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	struct kedge__catalog *to = NULL;
	struct kedge__set_part part;
	char *dir = kedge__asprintf("%s/other", kedge__catalog_store(cat));
	int rc = dir ? kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &to, err) : kedge__error_nomem(err);

	(void)job;
	if (!rc)
		rc = kedge__level_copy(cat, to, 2, 1, false, (struct kedge__io){0}, NULL, NULL, NULL, NULL, &part, err);
	kedge__catalog_close(to);
	kedge__free(dir);
	return rc;
}

/* Rank 1 of versions 3 and 4, the second one as a delta to the first. */
static int copy_batch(struct kedge__catalog *cat, const struct job *job, struct kedge__error *err)
{
	struct kedge__catalog *to = NULL;
	struct kedge__set_part part;
	struct kedge__batch batch = {.rank = 1, .codec = job->codec, .block_bytes = 256};
	char *dir = kedge__asprintf("%s/other", kedge__catalog_store(cat));
	bool refers = false;
	int rc = dir ? kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &to, err) : kedge__error_nomem(err);

	for (uint64_t v = 3; v <= 4 && !rc; v++) {
		batch.parent = v == 3 ? (struct kedge__source_record){.version = KEDGE__NO_VERSION} : batch.image;
		batch.image = (struct kedge__source_record){v, kedge__catalog_find(cat, v)->set.parts[1].image_id};
		rc = kedge__batch_write(&cat, 1, to, &batch, &part, &refers, err);
		assert_true(rc || refers == (v == 4));
	}
	kedge__catalog_close(to);
	kedge__free(dir);
	return rc;
}

static const struct op thrifty[] = {
    {"coalesce", run_coalesce, false},
    {"gc", run_gc, false},
    {"own", run_own, false},
    {"verify", verify_and_compare, false},
    {"level", copy_level, false},
    {"batch", copy_batch, false},
    {"coalesce, onto", run_coalesce_onto, false},
};

static void test_out_of_memory(void **state)
{
	struct ground g;

	(void)state;
	ground_open(&g);
	for (size_t i = 0; i < KEDGE__COUNT(thrifty); i++) {
		struct kedge__catalog *cat = ground_reset(&g);
		uint64_t count, failed = 0;

		kedge__fault_set(NULL, NULL);
		assert_ok(thrifty[i].run(cat, &g.job, err));
		count = kedge__fault_alloc_count();
		kedge__catalog_close(cat);
		/* Large counts come of loops over the same code: a coprime stride meets all of it. */
		for (uint64_t n = 1; n <= count; n += count > 600 ? 7 : 1) {
			char *spec = kedge__asprintf("alloc@%llu", (unsigned long long)n);
			int rc;

			cat = ground_reset(&g);
			assert_int_equal(kedge__fault_set(spec, NULL), 0);
			rc = thrifty[i].run(cat, &g.job, NULL);
			kedge__fault_set(NULL, NULL);
			failed += rc != 0;
			if (rc != 0 && rc != KEDGE_E_NOMEM)
				fail_msg("%s: %s: %d", thrifty[i].name, spec, rc);
			kedge__catalog_close(cat);
			cat = open_store(g.work);
			tree_remove(g.work);
			kedge__catalog_close(cat);
			kedge__free(spec);
		}
		assert_true(failed > 0);
	}
	ground_close(&g);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_eio),
	    cmocka_unit_test(test_enospc),
	    cmocka_unit_test(test_short_writes),
	    cmocka_unit_test(test_disk_stays_full),
	    cmocka_unit_test(test_order_of_a_save),
	    cmocka_unit_test(test_order_of_a_save_unsynced),
	    cmocka_unit_test(test_order_of_a_removal),
	    cmocka_unit_test(test_kill),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_kill_while_creating),
	    cmocka_unit_test(test_out_of_memory),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
