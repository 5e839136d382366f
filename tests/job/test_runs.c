/* SPDX-License-Identifier: BSD-3-Clause */
/* Which versions count: what a process may replace, what it abandons, and that nothing abandoned comes back. */
#include "support.h"

#include <errno.h>
#include <sys/wait.h>

#define BYTES 8000

static uint8_t m[BYTES], want[BYTES];

static kedge_t *open_with(const struct place *p, bool l2, const char *const *more)
{
	kedge_t *k = job_open(p, l2, more);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static kedge_t *open_at(const struct place *p, bool l2)
{
	return open_with(p, l2, MORE("reducer=tree", "chunk=64"));
}

static void take(kedge_t *k, uint64_t version, uint64_t seed)
{
	fill_random(m, BYTES, seed);
	assert_ok(k, kedge_checkpoint(k, version));
}

static void comes_back(kedge_t *k, uint64_t asked, uint64_t version, uint64_t seed)
{
	uint64_t got = 0;

	memset(m, 0, BYTES);
	assert_ok(k, kedge_restart(k, asked, &got));
	assert_int_equal(got, version);
	fill_random(want, BYTES, seed);
	assert_memory_equal(m, want, BYTES);
}

static size_t count(kedge_t *k)
{
	struct kedge_version_info *list;
	size_t n;

	assert_ok(k, kedge_versions(k, &list, &n));
	kedge_free(list);
	return n;
}

/* ------------------------------------------------------------------ a program that starts over */

static void test_fresh_start_discards_nothing(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_at(p, true);

	for (uint64_t v = 100; v <= 1000; v += 100)
		take(k, v, v);
	assert_ok(k, kedge_close(k));
	k = open_at(p, true);
	for (uint64_t v = 7; v <= 1000; v += 331) {
		assert_int_equal(kedge_checkpoint(k, v), KEDGE_E_STATE);
		assert_non_null(strstr(kedge_last_error(k), "kedge_discard()"));
	}
	assert_int_equal(kedge_checkpoint(k, 1000), KEDGE_E_STATE);
	assert_int_equal(count(k), 10);
	take(k, 1001, 1001); /* above all of them is no harm */
	assert_int_equal(kedge_checkpoint(k, 1000), KEDGE_E_STATE);
	take(k, 1001, 5); /* its own last one it may take again */
	assert_ok(k, kedge_wait(k));
	for (uint64_t v = 100; v <= 1000; v += 100)
		comes_back(k, v, v, v);
	comes_back(k, KEDGE_NEWEST, 1001, 5);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	k = open_at(p, true);
	comes_back(k, KEDGE_NEWEST, 1001, 5);
	comes_back(k, 100, 100, 100);
	assert_ok(k, kedge_close(k));
}

static void test_ignored_restart(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_at(p, false);

	take(k, 1, 1);
	take(k, 2, 2);
	assert_ok(k, kedge_close(k));
	k = open_at(p, false);
	assert_ok(k, kedge_protect(k, "m", m, BYTES - 1, KEDGE_U8));
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), KEDGE_E_MISMATCH);
	assert_int_equal(kedge_checkpoint(k, 1), KEDGE_E_STATE);
	assert_int_equal(kedge_checkpoint(k, 3), KEDGE_E_STATE);
	assert_non_null(strstr(kedge_last_error(k), "kedge_begin()"));
	assert_int_equal(kedge_restart(k, 77, NULL), KEDGE_E_VERSION); /* which says nothing about the others */
	assert_int_equal(kedge_checkpoint(k, 3), KEDGE_E_STATE);
	assert_ok(k, kedge_begin(k));
	assert_int_equal(kedge_checkpoint(k, 2), KEDGE_E_STATE);
	assert_ok(k, kedge_checkpoint(k, 3));
	assert_int_equal(count(k), 3);
	assert_ok(k, kedge_close(k));
	k = open_at(p, false);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), KEDGE_E_MISMATCH);
	comes_back(k, 2, 2, 2); /* a restart that succeeds is an answer, too */
	take(k, 3, 33);
	comes_back(k, KEDGE_NEWEST, 3, 33);
	assert_ok(k, kedge_close(k));
}

static void test_discard(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_at(p, true);

	for (uint64_t v = 10; v <= 50; v += 10)
		take(k, v, v);
	assert_ok(k, kedge_close(k));
	k = open_at(p, true);
	assert_ok(k, kedge_discard(k, 25, KEDGE_LEVEL_1 | KEDGE_LEVEL_2));
	assert_int_equal(count(k), 2);
	assert_int_equal(kedge_checkpoint(k, 19), KEDGE_E_STATE);
	assert_int_equal(kedge_checkpoint(k, 20), KEDGE_E_STATE); /* it did not restart from that one */
	take(k, 21, 21);
	assert_ok(k, kedge_discard(k, 22, KEDGE_LEVEL_1 | KEDGE_LEVEL_2)); /* nothing is there */
	assert_int_equal(kedge_checkpoint(k, 20), KEDGE_E_STATE);
	take(k, 22, 22);
	assert_ok(k, kedge_discard(k, 0, KEDGE_LEVEL_1 | KEDGE_LEVEL_2));
	assert_int_equal(count(k), 0);
	take(k, 0, 1);
	take(k, 1, 2);
	comes_back(k, KEDGE_NEWEST, 1, 2);
	comes_back(k, 0, 0, 1);
	assert_ok(k, kedge_close(k));
}

/* A discard leaves what is below it, also what a level has that is away at that moment. */
static void test_discard_while_l1_is_away(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_at(p, false);
	char away[400];

	for (uint64_t v = 1; v <= 3; v++)
		take(k, v, v);
	assert_ok(k, kedge_close(k));
	k = open_at(p, true);
	comes_back(k, KEDGE_NEWEST, 3, 3);
	take(k, 4, 4);
	assert_ok(k, kedge_close(k));
	text_make(away, sizeof(away), "%s/old-l1", p->dir);
	assert_int_equal(rename(p->l1, away), 0);
	k = open_at(p, true);
	comes_back(k, KEDGE_NEWEST, 4, 4);
	assert_ok(k, kedge_discard(k, 3, KEDGE_LEVEL_1 | KEDGE_LEVEL_2));
	take(k, 3, 33);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	assert_int_equal(rename(away, p->l1), 0);
	k = open_at(p, true);
	comes_back(k, KEDGE_NEWEST, 3, 33);
	comes_back(k, 2, 2, 2);
	assert_int_equal(count(k), 3);
	assert_ok(k, kedge_close(k));
}

/* ------------------------------------------------------------------ an abandoned future */

/* L2 is away while the job goes back from 6 to 3 and on to 5: what L2 still has does not come back with it. */
static void test_l2_comes_back(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_at(p, true);

	for (uint64_t v = 1; v <= 6; v++)
		take(k, v, v);
	assert_ok(k, kedge_close(k));
	k = open_at(p, false);
	comes_back(k, 3, 3, 3);
	take(k, 4, 44);
	take(k, 5, 55);
	assert_ok(k, kedge_close(k));

	k = open_at(p, true);
	assert_int_equal(count(k), 5);
	comes_back(k, KEDGE_NEWEST, 5, 55);
	comes_back(k, 4, 4, 44);
	comes_back(k, 6, 6, 6); /* who asks for it by its number gets what is there */
	comes_back(k, KEDGE_NEWEST, 5, 55);
	kedge_set_log(place_log, p);
	take(k, 7, 77);
	assert_ok(k, kedge_wait(k));
	assert_non_null(strstr(place_said(p), "removed from L2"));
	assert_int_equal(kedge_restart(k, 6, NULL), KEDGE_E_VERSION);
	assert_ok(k, kedge_close(k));

	tree_remove(p->l1); /* now L2 alone knows */
	k = open_at(p, true);
	comes_back(k, KEDGE_NEWEST, 7, 77);
	comes_back(k, 3, 3, 3);
	assert_ok(k, kedge_close(k));
}

/*
 * A version that is taken again does not go to L2, where the one that it replaces is all that there is. If L1 is lost
 * then, that one is what a restart finds, and no version that the job went back behind.
 */
static void test_replaced_stays_on_l2(void **state)
{
	const struct place *p = *state;

	for (int again = 0; again < 2; again++) {
		kedge_t *k = open_with(p, true, MORE("l2_every=4", "l2_keep=1"));

		for (uint64_t v = 1; v <= 4; v++)
			take(k, v, v);
		assert_ok(k, kedge_wait(k));
		if (again) /* not by a restart, but by the process that took it */
			take(k, 4, 44);
		assert_ok(k, kedge_close(k));
		if (!again) {
			k = open_with(p, true, MORE("l2_every=4", "l2_keep=1"));
			comes_back(k, KEDGE_NEWEST, 4, 4);
			take(k, 4, 44);
			assert_ok(k, kedge_close(k));
		}

		k = open_at(p, true); /* L1 knows which of the two counts */
		comes_back(k, KEDGE_NEWEST, 4, 44);
		assert_ok(k, kedge_close(k));

		tree_remove(p->l1);
		k = open_at(p, true);
		comes_back(k, KEDGE_NEWEST, 4, 4);
		assert_int_equal(count(k), 1);
		assert_ok(k, kedge_close(k));
		tree_remove(p->l1);
		tree_remove(p->l2);
	}
}

/* Once a version of the new run is on L2, what was replaced there goes. */
static void test_replaced_leaves_l2(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_with(p, true, MORE("l2_every=4"));

	for (uint64_t v = 1; v <= 8; v++)
		take(k, v, v);
	assert_ok(k, kedge_wait(k)); /* 4 and 8 are on L2 */
	comes_back(k, 4, 4, 4);
	kedge_set_log(place_log, p);
	take(k, 4, 44);
	assert_non_null(strstr(place_said(p), "job: 1 abandoned version was removed from L2")); /* 8 */
	place_forget(p);
	for (uint64_t v = 5; v <= 8; v++)
		take(k, v, 10 * v);
	assert_ok(k, kedge_wait(k));
	assert_non_null(strstr(place_said(p), "job: 1 abandoned version was removed from L2")); /* 4 */
	assert_ok(k, kedge_close(k));

	tree_remove(p->l1);
	k = open_at(p, true);
	comes_back(k, KEDGE_NEWEST, 7, 70);
	assert_int_equal(kedge_restart(k, 4, NULL), KEDGE_E_VERSION);
	assert_ok(k, kedge_close(k));
}

/* L2 still has the abandoned version 3 when the one that counts turns out to be damaged: that is no copy of it. */
static void test_abandoned_is_no_copy(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_at(p, true);

	for (uint64_t v = 1; v <= 3; v++)
		take(k, v, v);
	assert_ok(k, kedge_close(k));
	k = open_at(p, false);
	comes_back(k, 2, 2, 2);
	take(k, 3, 33);
	assert_ok(k, kedge_close(k));
	segment_damage(p->l1, 3, 0);
	k = open_at(p, true);
	comes_back(k, KEDGE_NEWEST, 2, 2);
	take(k, 3, 333);
	comes_back(k, KEDGE_NEWEST, 3, 333);
	assert_ok(k, kedge_close(k));
}

/* L1 is away when the job goes back, and what took its place is lost as soon as one version of the new run is on L2. */
static void test_every_level_knows(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_at(p, true);
	char away[400];

	for (uint64_t v = 1; v <= 4; v++)
		take(k, v, v);
	assert_ok(k, kedge_close(k));
	text_make(away, sizeof(away), "%s/old-l1", p->dir);
	assert_int_equal(rename(p->l1, away), 0); /* a node that is lost, and will come back */
	k = open_at(p, true);
	comes_back(k, 2, 2, 2);
	take(k, 3, 33);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	assert_int_equal(rename(away, p->l1), 0);
	k = open_at(p, true);
	comes_back(k, KEDGE_NEWEST, 3, 33);
	comes_back(k, 2, 2, 2);
	take(k, 3, 333);
	take(k, 4, 444);
	assert_ok(k, kedge_wait(k));
	comes_back(k, KEDGE_NEWEST, 4, 444);
	comes_back(k, 1, 1, 1);
	assert_ok(k, kedge_close(k));
}

static kedge_t *open_list(const struct place *p, const char *every, const char *coalesce)
{
	return open_with(p, true, MORE("reducer=list", "chunk=64", every, coalesce));
}

/* A version of an older run reaches L2 after one of a later run: it knows of no later ones, and abandons none. */
static void test_older_run_reaches_l2_late(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_list(p, "l2_every=100", "coalesce=auto");

	take(k, 1, 1);
	assert_ok(k, kedge_close(k));
	k = open_list(p, "l2_every=1", "coalesce=auto");
	comes_back(k, KEDGE_NEWEST, 1, 1);
	take(k, 2, 2); /* alone on L2 */
	assert_ok(k, kedge_close(k));
	k = open_list(p, "l2_every=1", "coalesce=never");
	comes_back(k, KEDGE_NEWEST, 2, 2);
	take(k, 3, 1); /* refers to 1, which goes to L2 with it */
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	k = open_list(p, "l2_every=1", "coalesce=never");
	for (uint64_t v = 1; v <= 3; v++)
		comes_back(k, v, v, v == 2 ? 2 : 1);
	assert_ok(k, kedge_close(k));
}

/* Until the first version of the new run is there, nothing has changed. */
static void test_failed_first_version(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_at(p, false);
	int rc;

	for (uint64_t v = 1; v <= 4; v++)
		take(k, v, v);
	comes_back(k, 2, 2, 2);
	assert_int_equal(kedge__fault_set("enospc@1+", NULL), 0);
	rc = kedge_checkpoint(k, 3);
	kedge__fault_set(NULL, NULL);
	assert_int_not_equal(rc, 0);
	assert_int_equal(count(k), 4);
	comes_back(k, KEDGE_NEWEST, 4, 4);
	comes_back(k, 2, 2, 2);
	take(k, 2, 22); /* what was restarted from may be taken again */
	assert_int_equal(count(k), 2);
	comes_back(k, KEDGE_NEWEST, 2, 22);
	comes_back(k, 1, 1, 1);
	assert_ok(k, kedge_close(k));
}

/* ------------------------------------------------------------------ room */

struct shelf {
	uint8_t *at;
	size_t bytes, asked;
	uint8_t late[50];
};

static void *room(void *user, const char *name, const struct kedge_region_info *info)
{
	struct shelf *s = user;

	if (strcmp(name, "comes") == 0)
		return s->late;
	if (strcmp(name, "grows") != 0)
		return NULL;
	s->asked++;
	s->bytes = info->bytes;
	s->at = realloc(s->at, info->bytes);
	return s->at;
}

/* Regions grow, and the newest version is damaged: the restart asks for what each version needs. */
static void test_room(void **state)
{
	const struct place *p = *state;
	kedge_t *k = job_open(p, false, NULL);
	struct shelf s = {0};
	uint64_t got;

	for (uint64_t v = 1; v <= 3; v++) {
		fill_random(m, v * 1000, v);
		assert_ok(k, kedge_protect(k, "grows", m, v * 1000, KEDGE_U8));
		assert_ok(k, kedge_protect(k, "other", want, 10, KEDGE_U8));
		assert_ok(k, kedge_checkpoint(k, v));
	}
	assert_ok(k, kedge_close(k));
	segment_damage(p->l1, 3, 0);
	k = job_open(p, false, NULL);
	kedge_set_room(k, room, &s);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &got));
	assert_int_equal(got, 2);
	assert_int_equal(s.asked, 2);
	assert_int_equal(s.bytes, 2000);
	fill_random(m, 2000, 2);
	assert_memory_equal(s.at, m, 2000);
	/* It is protected from now on. */
	s.at[7] ^= 1;
	m[7] ^= 1;
	assert_ok(k, kedge_checkpoint(k, 3));
	memset(s.at, 0, 2000);
	assert_ok(k, kedge_restart(k, 3, NULL));
	assert_int_equal(s.asked, 2);
	assert_memory_equal(s.at, m, 2000);
	/* Room that is not given for a protected region is a mismatch. */
	kedge_set_room(k, NULL, NULL);
	assert_ok(k, kedge_protect(k, "grows", s.at, 1, KEDGE_U8));
	assert_int_equal(kedge_restart(k, 3, NULL), KEDGE_E_MISMATCH);
	assert_ok(k, kedge_close(k));
	free(s.at);
}

/* The damaged newest version has a region that the older one does not have: room that was given for it is given back.
 */
static void test_room_passed_over(void **state)
{
	const struct place *p = *state;
	kedge_t *k = job_open(p, false, NULL);
	struct shelf s = {0};
	struct kedge_region_entry *list;
	uint64_t got;
	size_t n;

	for (uint64_t v = 1; v <= 2; v++) {
		fill_random(m, 1000, v);
		assert_ok(k, kedge_protect(k, "grows", m, 1000, KEDGE_U8));
		if (v == 2)
			assert_ok(k, kedge_protect(k, "comes", want, 50, KEDGE_U8));
		assert_ok(k, kedge_checkpoint(k, v));
	}
	assert_ok(k, kedge_close(k));
	segment_damage(p->l1, 2, 0);
	k = job_open(p, false, NULL);
	kedge_set_room(k, room, &s);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &got));
	assert_int_equal(got, 1);
	fill_random(m, 1000, 1);
	assert_memory_equal(s.at, m, 1000);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_regions(k, 2, &list, &n));
	assert_int_equal(n, 1);
	kedge_free(list);
	assert_ok(k, kedge_close(k));
	free(s.at);
}

/* ------------------------------------------------------------------ fork */

static int child(kedge_t *k)
{
	struct kedge_version_info *list;
	struct kedge_stats stats;
	uint64_t v;
	size_t n;
	int bad = 0, now;

	bad += kedge_checkpoint(k, 9) != KEDGE_E_STATE;
	bad += kedge_wait(k) != KEDGE_E_STATE;
	bad += kedge_restart(k, KEDGE_NEWEST, NULL) != KEDGE_E_STATE;
	bad += kedge_find(k, KEDGE_NEWEST, &v) != KEDGE_E_STATE;
	bad += kedge_versions(k, &list, &n) != KEDGE_E_STATE;
	bad += kedge_discard(k, 0, KEDGE_LEVEL_1) != KEDGE_E_STATE;
	bad += kedge_protect(k, "x", m, 1, KEDGE_U8) != KEDGE_E_STATE;
	bad += kedge_unprotect(k, "m") != KEDGE_E_STATE;
	bad += kedge_should_checkpoint(k, &now) != KEDGE_E_STATE;
	bad += kedge_test(k, 1) != KEDGE_E_STATE;
	bad += kedge_stats_get(k, &stats) != KEDGE_E_STATE;
	bad += kedge_begin(k) != KEDGE_E_STATE;
	bad += kedge_close(k) != KEDGE_E_STATE;
	bad += !strstr(kedge_last_error(k), "fork");
	return bad;
}

static void test_fork(void **state)
{
	const char *const modes[] = {"capture=sync", "capture=copy", "capture=cow"};

	for (size_t i = 0; i < KEDGE__COUNT(modes); i++) {
		kedge_t *k = job_open(*state, true, MORE("reducer=tree", "chunk=64", modes[i]));
		uint64_t v = 10 * i;
		int status;
		pid_t pid;

		assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
		take(k, v + 1, v + 1);
#if defined(__SANITIZE_ADDRESS__) /* a lock of the sanitizer that a busy thread holds at the fork is never released */
		assert_ok(k, kedge_wait(k));
#endif
		pid = fork(); /* perhaps with a version in progress */
		assert_true(pid >= 0);
		if (pid == 0)
			_exit(child(k));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		take(k, v + 2, v + 2);
		assert_ok(k, kedge_wait(k));
		comes_back(k, KEDGE_NEWEST, v + 2, v + 2);
		comes_back(k, v + 1, v + 1, v + 1);
		comes_back(k, KEDGE_NEWEST, v + 2, v + 2);
		assert_ok(k, kedge_close(k));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_fresh_start_discards_nothing),
	    JOB(test_ignored_restart),
	    JOB(test_discard),
	    JOB(test_discard_while_l1_is_away),
	    JOB(test_l2_comes_back),
	    JOB(test_replaced_stays_on_l2),
	    JOB(test_replaced_leaves_l2),
	    JOB(test_abandoned_is_no_copy),
	    JOB(test_every_level_knows),
	    JOB(test_older_run_reaches_l2_late),
	    JOB(test_failed_first_version),
	    JOB(test_room),
	    JOB(test_room_passed_over),
	    JOB(test_fork),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
