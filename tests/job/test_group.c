/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups without MPI: every rank is a process of its own. */
#include "ranks.h"

#include <poll.h>
#include <stdatomic.h>

/* ------------------------------------------------------------------ everything goes well */

static void series(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 4);
	CHECK(kedge_wait(k) == 0);
	for (uint64_t v = 1; v <= 4; v++)
		CHECK(kedge_test(k, v) == 1);
	CHECK(kedge_close(k) == 0);
	k = rank_open(r);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	comes_back(r, k, KEDGE_NEWEST, 4);
	comes_back(r, k, 2, 2);
	take(r, k, 3, 3);
	comes_back(r, k, KEDGE_NEWEST, 3);
	CHECK(kedge_close(k) == 0);
}

static void test_series(void **state)
{
	const char *const *modes[] = {MORE("capture=sync", "reducer=tree", "chunk=64"),
				      MORE("capture=copy", "reducer=tree", "chunk=64")};

	for (int t = NO_THREAD; t <= ANY_THREAD_TWO_CHANNELS; t++) {
		for (size_t mode = 0; mode < KEDGE__COUNT(modes); mode++) {
			struct plan plan = {RANKS, (enum threading)t, mode == 1, t != ANY_THREAD || mode == 1,
					    modes[mode]};

			ranks_run(*state, plan, series);
			dirs_remove(*state);
		}
	}
}

static void keep_series(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	for (uint64_t v = 1; v <= 20; v++) {
		take(r, k, v, v);
		if (v % 2 == 0)
			CHECK(kedge_wait(k) == 0);
	}
	CHECK(versions_count(k) < 15);
	comes_back(r, k, KEDGE_NEWEST, 20);
	comes_back(r, k, 19, 19);
	CHECK(kedge_close(k) == 0);
}

static void test_keep(void **state)
{
	for (int t = NO_THREAD; t <= ANY_THREAD_TWO_CHANNELS; t++) {
		ranks_run(*state,
			  (struct plan){2, (enum threading)t, false, true,
					MORE("keep=2", "l2_keep=2", "capture=copy", "reducer=tree", "chunk=64")},
			  keep_series);
		dirs_remove(*state);
	}
}

/* Versions of one batch go to L2 as one, whatever the threads may do; then L1 is lost on all nodes. */
static void batches(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 10);
	CHECK(kedge_wait(k) == 0);
	for (uint64_t v = 1; v <= 10; v++)
		CHECK(levels_of(k, v) == (v % 3 == 0 ? 3u : 1u));
	comes_back(r, k, KEDGE_NEWEST, 10);
	take(r, k, 11, 12);
	CHECK(kedge_close(k) == 0);
}

static void batches_alone(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	CHECK(versions_count(k) == 4);
	for (uint64_t v = 12; v >= 3; v -= 3)
		comes_back(r, k, v, v);
	CHECK(kedge_close(k) == 0);
}

static void test_batches(void **state)
{
	const struct place *p = *state;

	for (int t = NO_THREAD; t <= ANY_THREAD_TWO_CHANNELS; t++) {
		for (int own = 0; own < 2; own++) {
			struct plan plan = {RANKS, (enum threading)t, own, true,
					    MORE("l2_every=3", "reducer=tree", "chunk=64", "capture=copy")};
			char dir[400];

			ranks_run(p, plan, batches);
			tree_remove(p->l1);
			for (int i = 0; i < RANKS; i++) {
				text_make(dir, sizeof(dir), "%s-%d", p->l1, i);
				tree_remove(dir);
			}
			ranks_run(p, plan, batches_alone);
			dirs_remove(p);
		}
	}
}

/* One node is lost with its L1, and the others still have theirs: what they have alone must not make them plan
 * otherwise. */
static void before_a_node_is_lost(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 2);
	CHECK(kedge_close(k) == 0);
}

static void after_a_node_was_lost(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	comes_back(r, k, KEDGE_NEWEST, 2);
	for (uint64_t v = 3; v <= 5; v++) {
		take(r, k, v, v);
		CHECK(kedge_wait(k) == 0);
		CHECK(levels_of(k, v) == 3);
	}
	comes_back(r, k, KEDGE_NEWEST, 5);
	CHECK(kedge_close(k) == 0);
}

static void test_node_lost(void **state)
{
	static const char *const modes[] = {"coalesce=auto", "coalesce=batch", "coalesce=never"};
	const struct place *p = *state;
	char dir[400];

	for (size_t i = 0; i < KEDGE__COUNT(modes); i++) {
		struct plan plan = {2, ANY_THREAD, true, true, MORE("reducer=tree", "chunk=64", modes[i])};

		ranks_run(p, plan, before_a_node_is_lost);
		text_make(dir, sizeof(dir), "%s-0", p->l1);
		tree_remove(dir);
		ranks_run(p, plan, after_a_node_was_lost);
		dirs_remove(p);
	}
}

/* Nothing is removed without being told to. */
static void refuses_to_begin(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	CHECK(kedge_restart(k, KEDGE_NEWEST, NULL) == KEDGE_E_MISSING);
	CHECK(strstr(kedge_last_error(k), "begin_if_lost = yes"));
	CHECK(kedge_checkpoint(k, 1) < 0);
	CHECK(kedge_close(k) == 0);
}

static void begins_from_the_start(struct rank *r)
{
	kedge_t *k;

	r->more = MORE("begin_if_lost=yes");
	k = rank_open(r);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	CHECK(kedge_restart(k, KEDGE_NEWEST, NULL) == KEDGE_E_NOTFOUND);
	CHECK(versions_count(k) == 0);
	take(r, k, 1, 3);
	comes_back(r, k, KEDGE_NEWEST, 3);
	CHECK(kedge_close(k) == 0);
}

static void test_everything_lost(void **state)
{
	const struct place *p = *state;
	char dir[400];

	for (int l2 = 0; l2 < 2; l2++) {
		struct plan plan = {2, ANY_THREAD, true, l2, MORE("l2_every=1000")};

		ranks_run(p, plan, before_a_node_is_lost);
		text_make(dir, sizeof(dir), "%s-0", p->l1);
		tree_remove(dir);
		ranks_run(p, plan, refuses_to_begin);
		ranks_run(p, plan, begins_from_the_start);
		dirs_remove(p);
	}
}

/* One rank cannot read an increment of its batch: none goes to L2, all are told, and the next batch is whole again. */
static void batch_damaged(struct rank *r)
{
	kedge_t *k = rank_open(r);
	char dir[400];

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 5);
	CHECK(kedge_wait(k) == 0);
	rank_dir(r, dir, sizeof(dir));
	if (r->rank == 1)
		segment_damage(dir, 5, 1);
	take(r, k, 6, 6);
	CHECK(kedge_wait(k) == (r->rank == 1 ? KEDGE_E_DAMAGED : KEDGE_E_GROUP));
	CHECK(levels_of(k, 6) == 1);
	take(r, k, 7, 9);
	CHECK(kedge_wait(k) == 0);
	CHECK(levels_of(k, 9) == 3);
	comes_back(r, k, KEDGE_NEWEST, 9);
	comes_back(r, k, 3, 3);
	CHECK(kedge_close(k) == 0);
}

static void test_batch_damaged(void **state)
{
	for (int t = NO_THREAD; t <= ANY_THREAD_TWO_CHANNELS; t += 2) {
		ranks_run(*state,
			  (struct plan){2, (enum threading)t, t > 0, true,
					MORE("l2_every=3", "reducer=basic", "chunk=64", "codec=none")},
			  batch_damaged);
		dirs_remove(*state);
	}
}

/* With a directory for each rank nobody can coalesce L1 for all; versions go all the same. */
static void keep_apart(struct rank *r)
{
	kedge_t *k = rank_open(r);
	size_t most = 0;

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	for (uint64_t v = 1; v <= 40; v++) {
		take(r, k, v, v);
		CHECK(kedge_wait(k) == 0);
		most = KEDGE__MAX(most, versions_count(k));
	}
	CHECK(most <= 14);
	comes_back(r, k, KEDGE_NEWEST, 40);
	comes_back(r, k, 39, 39);
	CHECK(kedge_close(k) == 0);
}

static void test_keep_apart(void **state)
{
	ranks_run(*state,
		  (struct plan){2, ANY_THREAD_TWO_CHANNELS, true, false, MORE("keep=2", "reducer=tree", "chunk=64")},
		  keep_apart);
	dirs_remove(*state);
}

/* Without a thread that may speak, a background version is complete when the ranks meet again, not before. */
static void waits_for_the_next_call(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 1);
	CHECK(kedge_test(k, 1) == 0);
	take(r, k, 2, 2);
	CHECK(kedge_test(k, 2) == 0);
	CHECK(versions_count(k) == 1);
	CHECK(kedge_wait(k) == 0);
	CHECK(kedge_test(k, 1) == 1 && kedge_test(k, 2) == 1);
	CHECK(versions_count(k) == 2);
	CHECK(kedge_close(k) == 0);
}

static void test_no_thread_waits(void **state)
{
	ranks_run(*state, (struct plan){RANKS, NO_THREAD, false, true, MORE("capture=copy")}, waits_for_the_next_call);
}

/* ------------------------------------------------------------------ one rank has bad luck */

static void three_versions(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 3);
	CHECK(kedge_close(k) == 0);
}

static void expects_two(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	comes_back(r, k, KEDGE_NEWEST, 2);
	take(r, k, 3, 3);
	comes_back(r, k, KEDGE_NEWEST, 3);
	CHECK(kedge_close(k) == 0);
}

static void damage_rank_1(const struct place *p, bool own_dirs, int how)
{
	char dir[400], path[800];

	text_make(dir, sizeof(dir), "%s%s", p->l1, own_dirs ? "-1" : "");
	if (how == 0)
		segment_damage(dir, 3, 1);
	if (how == 1) {
		segment_path(dir, 3, 1, path, sizeof(path));
		assert_int_equal(unlink(path), 0);
	}
	if (how == 2) {
		manifest_path(dir, 3, path, sizeof(path));
		assert_int_equal(unlink(path), 0);
	}
	if (how == 3) {
		manifest_path(dir, 3, path, sizeof(path));
		file_flip(path, 40, 0x40);
	}
}

static void test_older_common_version_is_chosen(void **state)
{
	for (int own_dirs = 0; own_dirs < 2; own_dirs++) {
		for (int how = 0; how < 4; how++) {
			struct plan plan = {RANKS, how % 2 ? NO_THREAD : ANY_THREAD, own_dirs, false,
					    MORE("reducer=tree", "chunk=64")};

			ranks_run(*state, plan, three_versions);
			damage_rank_1(*state, own_dirs, how);
			ranks_run(*state, plan, expects_two);
			dirs_remove(*state);
		}
	}
}

static void disk_full_on_rank_1(struct rank *r)
{
	kedge_t *k = rank_open(r);
	int rc;

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 2);
	CHECK(kedge_wait(k) == 0);
	if (r->rank == 1)
		CHECK(kedge__fault_set("enospc@1+", NULL) == 0);
	state_make(m, r->rank, 3);
	rc = kedge_checkpoint(k, 3);
	if (!rc)
		rc = kedge_wait(k); /* capture = copy */
	CHECK(rc == (r->rank == 1 ? KEDGE_E_NOSPACE : KEDGE_E_GROUP));
	if (r->rank != 1)
		CHECK(strstr(kedge_last_error(k), "rank 1: "));
	CHECK(kedge_test(k, 3) == rc);
	CHECK(kedge__fault_set(NULL, NULL) == 0);
	CHECK(versions_count(k) == 2);
	comes_back(r, k, KEDGE_NEWEST, 2);
	take(r, k, 3, 4); /* the job goes on */
	comes_back(r, k, KEDGE_NEWEST, 4);
	CHECK(versions_count(k) == 4);
	CHECK(kedge_close(k) == 0);
}

static void test_disk_full_on_one_rank(void **state)
{
	for (int t = NO_THREAD; t <= ANY_THREAD; t++) {
		for (int own_dirs = 0; own_dirs < 2; own_dirs++) {
			ranks_run(
			    *state,
			    (struct plan){RANKS, (enum threading)t, own_dirs, false, t ? MORE("capture=copy") : NULL},
			    disk_full_on_rank_1);
			dirs_remove(*state);
		}
	}
}

static void ranks_disagree(struct rank *r)
{
	kedge_t *k = rank_open(r);
	uint8_t small[10] = {0};

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	CHECK(kedge_checkpoint(k, r->rank == 1 ? 8 : 7) == KEDGE_E_GROUP);
	take(r, k, 1, 1);
	if (r->rank == 1)
		CHECK(kedge_protect(k, "m", small, 10, KEDGE_U8) == 0);
	CHECK(kedge_restart(k, KEDGE_NEWEST, NULL) == (r->rank == 1 ? KEDGE_E_MISMATCH : KEDGE_E_GROUP));
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	comes_back(r, k, KEDGE_NEWEST, 1);
	CHECK(kedge_close(k) == 0);
}

static void test_ranks_disagree(void **state)
{
	ranks_run(*state, (struct plan){RANKS, ANY_THREAD, false, false, NULL}, ranks_disagree);
}

static void one_cannot_open(struct rank *r)
{
	const char *const *bad = MORE("chunk=77"), *const *other = MORE("capture=copy");
	kedge_t *k = NULL;
	int rc;

	r->more = r->rank == 2 ? bad : NULL;
	rc = open_rc(r, &k);
	CHECK(rc == (r->rank == 2 ? KEDGE_E_CONFIG : KEDGE_E_GROUP));
	CHECK(k == NULL);
	CHECK(strstr(kedge_last_error(NULL), r->rank == 2 ? "chunk" : "rank 2"));
	r->more = r->rank == 2 ? other : NULL;
	CHECK(open_rc(r, &k) == KEDGE_E_GROUP); /* settings that decide on common steps must be common */
	CHECK(strstr(kedge_last_error(NULL), "ranks 0 and 2 have different settings of capture"));
	r->more = NULL;
	k = rank_open(r);
	CHECK(kedge_close(k) == 0);
}

static void test_one_cannot_open(void **state)
{
	ranks_run(*state, (struct plan){RANKS, ANY_THREAD, false, false, NULL}, one_cannot_open);
}

/* Bytes are limited only where one rank can rewrite the versions of all. */
static void bytes_of_own_dirs(struct rank *r)
{
	kedge_t *k = NULL;

	CHECK(open_rc(r, &k) == KEDGE_E_CONFIG);
	CHECK(k == NULL && strstr(kedge_last_error(NULL), "an L1 that all ranks share"));
	r->more = MORE("keep=2 hourly:3", "l2_keep=bytes:1G");
	k = rank_open(r);
	CHECK(kedge_close(k) == 0);
}

static void test_bytes_of_own_dirs(void **state)
{
	ranks_run(*state, (struct plan){RANKS, ANY_THREAD, true, false, MORE("keep=bytes:1G")}, bytes_of_own_dirs);
}

static void other_rank_count(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	CHECK(kedge_restart(k, KEDGE_NEWEST, NULL) == KEDGE_E_GROUP);
	CHECK(strstr(kedge_last_error(k), "3 ranks") && strstr(kedge_last_error(k), "has 2"));
	CHECK(kedge_restart(k, 3, NULL) == KEDGE_E_GROUP);
	CHECK(kedge_checkpoint(k, 4) == KEDGE_E_STATE);
	CHECK(kedge_begin(k) == 0);
	CHECK(kedge_checkpoint(k, 3) == KEDGE_E_STATE);
	take(r, k, 4, 5); /* a new start with other ranks refers to nothing of the old one */
	comes_back(r, k, KEDGE_NEWEST, 5);
	CHECK(kedge_close(k) == 0);
}

static void test_other_rank_count(void **state)
{
	ranks_run(*state, (struct plan){RANKS, ANY_THREAD, false, false, NULL}, three_versions);
	ranks_run(*state, (struct plan){2, ANY_THREAD, false, false, NULL}, other_rank_count);
}

/* A rank's newest state may be of another size than that of the version all have: stat must speak of the latter. */
static void sizes_step(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, 100, KEDGE_U8) == 0);
	CHECK(kedge_checkpoint(k, 1) == 0);
	CHECK(kedge_protect(k, "m", m, 200, KEDGE_U8) == 0);
	CHECK(kedge_checkpoint(k, 2) == 0);
	CHECK(kedge_close(k) == 0);
}

static void stat_tells_the_common_size(struct rank *r)
{
	kedge_t *k = rank_open(r);
	struct kedge_region_info info;

	CHECK(kedge_region_stat(k, KEDGE_NEWEST, "m", &info) == 0);
	CHECK(info.bytes == 100);
	CHECK(kedge_protect(k, "m", m, info.bytes, KEDGE_U8) == 0);
	CHECK(kedge_restart(k, KEDGE_NEWEST, NULL) == 0);
	CHECK(kedge_close(k) == 0);
}

static void test_stat_tells_the_common_size(void **state)
{
	const struct place *p = *state;
	struct plan plan = {RANKS, NO_THREAD, true, false, NULL};
	char dir[400], path[500];

	ranks_run(p, plan, sizes_step);
	text_make(dir, sizeof(dir), "%s-2", p->l1);
	manifest_path(dir, 2, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	ranks_run(p, plan, stat_tells_the_common_size);
}

/* ------------------------------------------------------------------ now or later */

static _Atomic double now_is;

static double scripted(void)
{
	return atomic_load(&now_is);
}

/* Rank 0's clock decides, whatever the others' say, and nobody is asked more often than is of use. */
static void all_get_the_same_answer(struct rank *r)
{
	kedge_t *k = rank_open(r);
	uint64_t version = 0, steps = 0;
	int now;

	k->advice.clock = scripted;
	CHECK(kedge__adapt_init(k, NULL) == 0);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	for (; version < 3 && steps < 1000; steps++) {
		atomic_store(&now_is, atomic_load(&now_is) + (r->rank == 0 ? 1 : 90));
		CHECK(kedge_should_checkpoint(k, &now) == 0);
		if (now)
			take(r, k, version + 1, version + 1);
		version += (uint64_t)now;
	}
	CHECK(version == 3);
	CHECK(steps >= 150 && steps < 200);
	CHECK(kedge_wait(k) == 0);
	comes_back(r, k, KEDGE_NEWEST, 3);
	CHECK(kedge_close(k) == 0);
}

static void test_should_checkpoint(void **state)
{
	for (int t = NO_THREAD; t <= ANY_THREAD_TWO_CHANNELS; t++) {
		struct plan plan = {RANKS, (enum threading)t, true, true,
				    MORE("interval=50", "capture=copy", "l2_every=0")};

		ranks_run(*state, plan, all_get_the_same_answer);
		dirs_remove(*state);
	}
}

/* ------------------------------------------------------------------ one rank's L1 is removed */

static void purged_series(struct rank *r)
{
	kedge_t *k = rank_open(r);
	struct kedge_stats stats;
	char dir[400];

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 3);
	rank_dir(r, dir, sizeof(dir));
	if (r->rank == 1 || !r->own_dirs)
		tree_remove(dir);
	/* Nobody makes it again while somebody still removes it. */
	CHECK(kedge_wait(k) == 0);
	CHECK(meet(&r->front, &r->rank, sizeof(r->rank), (int[RANKS]){0}) == 0);
	take(r, k, 4, 4);
	/* All ranks begin again, for a version is one of all of them. */
	CHECK(kedge_stats_get(k, &stats) == 0);
	CHECK(stats.literal_bytes == BYTES);
	take(r, k, 5, 5);
	CHECK(kedge_stats_get(k, &stats) == 0);
	CHECK(stats.literal_bytes < BYTES / 2);
	CHECK(kedge_close(k) == 0);
	k = rank_open(r);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	comes_back(r, k, KEDGE_NEWEST, 5);
	comes_back(r, k, 4, 4);
	CHECK(kedge_close(k) == 0);
}

static void test_purged(void **state)
{
	for (int own = 0; own < 2; own++) {
		ranks_run(*state,
			  (struct plan){2, ANY_THREAD_TWO_CHANNELS, own, false, MORE("reducer=basic", "chunk=64")},
			  purged_series);
		dirs_remove(*state);
	}
}

/* ------------------------------------------------------------------ those who watch the ranks */

static int nobody_writes[2];

static void wait_for_clock(struct seat *front, struct seat *back, void *ctx)
{
	struct pollfd nothing = {.fd = nobody_writes[0], .events = POLLIN};
	char c = 0, all[2];

	(void)ctx;
	if (front->rank == 0 && poll(&nothing, 1, 700) != 0)
		rank_end(front, back, 1);
	if (meet(front, &c, 1, all))
		rank_end(front, back, 1);
}

/* A rank that waits for a clock will come: the one that waits for it is not ended (test_no_hang_open has those that
 * are). */
static void test_slow_rank(void **state)
{
	(void)state;
	assert_int_equal(pipe(nobody_writes), 0);
	assert_int_equal(ranks_fork(2, wait_for_clock, NULL), 0);
	close(nobody_writes[0]);
	close(nobody_writes[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_slow_rank),
	    cmocka_unit_test_setup_teardown(test_series, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_keep, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_purged, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_batches, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_node_lost, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_everything_lost, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_batch_damaged, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_keep_apart, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_no_thread_waits, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_older_common_version_is_chosen, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_disk_full_on_one_rank, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_ranks_disagree, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_one_cannot_open, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_bytes_of_own_dirs, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_other_rank_count, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_should_checkpoint, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_stat_tells_the_common_size, place_setup, place_teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
