/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job whose checkpoints are left to the models, over many processes: each opens the store, computes, is asked when to
 * checkpoint, and dies or closes. Time is scripted; what is measured, decided and logged is what a user would see.
 */
#include "../job/support.h"
#include "job/handle.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>

#define BYTES 4096
#define STEP  20.0 /* seconds of computation between two questions */

static struct {
	pthread_t application;
	_Atomic double now;
	double cost; /* of the call that runs: its first look at the clock is its begin */
	bool timed, begun;
	double copy; /* of a copy to L2 */
} script;

/* Copies run on a thread of their own, which looks at the clock at begin and end, and do not hold the job up. */
static double scripted(void)
{
	static _Thread_local double begin = -1;
	double now = script.now;

	if (!pthread_equal(pthread_self(), script.application)) {
		double then = begin;

		begin = then < 0 ? now : -1;
		return then < 0 ? now : then + script.copy;
	}
	if (script.timed && script.begun) {
		script.now = now + script.cost;
		script.timed = false;
	}
	script.begun = true;
	return script.now;
}

static void timed(double cost)
{
	script.timed = true;
	script.begun = false;
	script.cost = cost;
}

static uint8_t memory[BYTES];

static kedge_t *job_begin(const struct place *p, bool l2, const char *const *more)
{
	kedge_t *k = job_open(p, l2, more);

	script.application = pthread_self();
	script.now = 1e6;
	k->advice.clock = scripted;
	k->advice.policy.resumed = k->advice.policy.told = script.now;
	assert_ok(k, kedge_protect(k, "memory", memory, BYTES, KEDGE_U8));
	return k;
}

/* Compute until a checkpoint is due, and take it. Returns the seconds of computation. */
static double one_round(kedge_t *k, uint64_t version, double cost)
{
	double began = script.now, spent;
	int now = 0;

	do {
		script.now = script.now + STEP;
		assert_ok(k, kedge_should_checkpoint(k, &now));
	} while (!now);
	spent = script.now - began;
	memory[version % BYTES]++;
	timed(cost);
	assert_ok(k, kedge_checkpoint(k, version));
	assert_ok(k, kedge_wait(k));
	return spent;
}

static double rounds(kedge_t *k, uint64_t *version, int n, double cost)
{
	double spent = 0;

	for (int i = 0; i < n; i++)
		spent = one_round(k, ++*version, cost);
	return spent;
}

/* The model's answer for the rates that the controller must have estimated from MTBF and no failure. */
static struct kedge__async_plan expected(const kedge_t *k, double mtbf, double l2_mtbf, double cost, double copy)
{
	double elapsed = k->advice.policy.controller.elapsed, l1_mtbf = 1 / (1 / mtbf - 1 / l2_mtbf);
	struct kedge__async as = {.levels = {.count = 2,
					     .rate = {1 / (l1_mtbf + elapsed), 1 / (l2_mtbf + elapsed)},
					     .cost = {cost, copy},
					     .restart = {cost, copy}},
				  .latency = copy};
	struct kedge__async_plan plan;

	assert_int_equal(kedge__async_best(&as, &plan, NULL), 0);
	return plan;
}

static int occurrences(const char *text, const char *what)
{
	int n = 0;

	for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
		n++;
	return n;
}

/* Measured costs move the interval and the L2 frequency, towards what the models say offline; the log says each move.
 */
static void test_costs_move_both(void **state)
{
	struct place *p = *state;
	uint64_t version = 0;
	struct kedge__async_plan plan;
	double before, spent;
	int moves;
	kedge_t *k;

	kedge_set_log(place_log, p);
	script.copy = 900;
	k = job_begin(p, true, MORE("interval=0", "l2_every=0", "mtbf=13h", "l2_mtbf=80h"));
	assert_true(rounds(k, &version, 3, 30) == KEDGE__POLICY_INTERVAL);
	assert_non_null(strstr(place_said(p), "configured values stay: 1 of 3 checkpoints measured"));
	assert_non_null(strstr(place_said(p), "L2 every 4 -> 9: Table 1 of REX")); /* a byte of the image changes */
	assert_int_equal(occurrences(place_said(p), "->"), 3); /* this, then interval and L2 in one line */
	assert_non_null(strstr(place_said(p), "interval 600 s -> "));
	assert_non_null(strstr(place_said(p), "a checkpoint takes 30 s"));
	assert_non_null(strstr(place_said(p), "L2 takes 900 s (1 measured)"));
	plan = expected(k, 13 * 3600, 80 * 3600, 30, 1.1 * 900); /* a tenth of room */
	before = kedge__policy_interval(&k->advice.policy);
	assert_true(fabs(before / plan.interval - 1) < 0.05);
	assert_int_equal(kedge__policy_l2_every(&k->advice.policy), plan.segments);
	spent = rounds(k, &version, 1, 30);
	assert_true(spent >= before && spent < before + STEP);

	/* The file system becomes ten times as slow, then L1 does: both follow, and are explained. */
	script.copy = 9000;
	rounds(k, &version, 24, 30);
	moves = occurrences(place_said(p), "->");
	assert_in_range(moves, 5, 25);
	assert_true(kedge__policy_l2_every(&k->advice.policy) > plan.segments);
	before = kedge__policy_interval(&k->advice.policy);
	rounds(k, &version, 16, 300);
	assert_true(occurrences(place_said(p), "->") > moves);
	assert_true(kedge__policy_interval(&k->advice.policy) > 1.5 * before);
	assert_int_equal(occurrences(place_said(p), "->") % 2, 1);
	assert_ok(k, kedge_close(k));
}

/* One process: restores what is there, takes N checkpoints and dies without closing. The log comes back by a pipe. */
static void live_and_die(struct place *p, bool l2, const char *const *more, int n, double cost)
{
	int fds[2], status;
	size_t used = 0;
	ssize_t got;
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		uint64_t version = 0;
		kedge_t *k;

		kedge_set_log(place_log, p);
		place_forget(p);
		k = job_begin(p, l2, more);
		timed(15);
		if (kedge_restart(k, KEDGE_NEWEST, &version) != 0)
			version = 0;
		script.timed = false;
		rounds(k, &version, n, cost);
		_exit(write(fds[1], place_said(p), strlen(place_said(p))) < 0);
	}
	close(fds[1]);
	while ((got = read(fds[0], p->log + used, sizeof(p->log) - 1 - used)) > 0)
		used += (size_t)got;
	p->log[used] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Without a configured mean, three failures are needed; processes that die are what tells of them. */
static void test_failures_are_learned(void **state)
{
	struct place *p = *state;
	const char *const *more = MORE("interval=0", "keep=2");
	kedge_t *k;

	live_and_die(p, false, more, 4, 10);
	assert_non_null(strstr(place_said(p), "0 of 3 failures seen, and no mean time between failures configured"));
	for (int i = 1; i <= 2; i++) {
		char want[80];

		live_and_die(p, false, more, 2, 10);
		text_make(want, sizeof(want), "configured values stay: %d of 3 failures seen", i);
		assert_non_null(strstr(place_said(p), want));
		assert_null(strstr(place_said(p), "->"));
	}
	live_and_die(p, false, more, 2, 10);
	assert_non_null(strstr(place_said(p), "interval 600 s -> "));
	assert_non_null(strstr(place_said(p), "(3 seen in "));

	/* A process that begins anew goes on with it, and one that closed was no failure. */
	place_forget(p);
	kedge_set_log(place_log, p);
	k = job_begin(p, false, more);
	assert_int_equal(k->advice.policy.controller.failures[0], 3);
	assert_true(kedge__policy_interval(&k->advice.policy) < KEDGE__POLICY_INTERVAL);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	assert_int_equal(k->advice.policy.controller.failures[0], 4);
	assert_ok(k, kedge_close(k));
	k = job_begin(p, false, more);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	assert_int_equal(k->advice.policy.controller.failures[0], 4);
	assert_ok(k, kedge_close(k));
}

/* A failure that takes L1 takes what was measured there; what L2 has of it goes on. */
static void test_losing_l1_is_learned(void **state)
{
	struct place *p = *state;
	const char *const *more = MORE("interval=0", "l2_every=0", "mtbf=13h", "l2_mtbf=80h");
	uint64_t every;
	kedge_t *k;

	script.copy = 900;
	live_and_die(p, true, more, 8, 30);
	for (int i = 1; i <= 3; i++) {
		tree_remove(p->l1);
		live_and_die(p, true, more, 8, 30);
		assert_non_null(strstr(place_said(p), "a failure was seen, its state came back from L2"));
	}
	k = job_begin(p, true, more);
	assert_int_equal(k->advice.policy.controller.failures[1], 3);
	assert_true(k->advice.policy.controller.elapsed > 4 * 8 * 600);
	every = kedge__policy_l2_every(&k->advice.policy);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL)); /* L1 is there this time */
	assert_int_equal(k->advice.policy.controller.failures[0], 1);
	assert_int_equal(k->advice.policy.controller.failures[1], 3);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	k = job_begin(p, true, more);
	assert_false(k->advice.policy.unclean); /* it closed, and L2 knows */
	assert_int_equal(k->advice.policy.controller.failures[1], 3);
	assert_int_equal(kedge__policy_l2_every(&k->advice.policy), every);
	assert_ok(k, kedge_close(k));
}

/* A configured interval is kept, whatever is measured, unless it is told to be only the begin. */
static void test_configured_interval(void **state)
{
	struct place *p = *state;
	uint64_t version = 0;
	kedge_t *k = job_begin(p, false, MORE("interval=5min", "mtbf=1h"));

	kedge_set_log(place_log, p);
	assert_true(rounds(k, &version, 6, 60) == 300);
	assert_null(strstr(place_said(p), "->"));
	assert_ok(k, kedge_close(k));
	k = job_begin(p, false, MORE("interval=5min", "mtbf=1h", "adaptive=yes"));
	assert_true(rounds(k, &version, 6, 60) > 300);
	assert_non_null(strstr(place_said(p), "interval 300 s -> "));
	assert_ok(k, kedge_close(k));
}

#define JOB(fn) cmocka_unit_test_setup_teardown(fn, place_setup, place_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_costs_move_both),
	    JOB(test_failures_are_learned),
	    JOB(test_losing_l1_is_learned),
	    JOB(test_configured_interval),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
