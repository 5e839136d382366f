/* SPDX-License-Identifier: BSD-3-Clause */
/* Somebody outside wants a version, or the end: by files and by signals, of one rank and of many. */
#include "ranks.h"

#include <signal.h>
#include <stdatomic.h>

static _Atomic double now_is; /* threads in the background ask for the time */

static double scripted(void)
{
	return now_is;
}

static int asks(kedge_t *k)
{
	int now = -1;

	now_is = now_is + 2; /* longer than between two looks */
	assert_ok(k, kedge_should_checkpoint(k, &now));
	return now;
}

static int exits(kedge_t *k)
{
	int now = -1;

	assert_ok(k, kedge_should_exit(k, &now));
	return now;
}

/* An interval that never passes: only requests are answered. */
#define NEVER "interval=1000000h"

static kedge_t *open_one(const struct place *p, bool l2, const char *const *more)
{
	kedge_t *k = job_open(p, l2, more);

	k->advice.clock = scripted;
	assert_int_equal(kedge__adapt_init(k, NULL), 0);
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static void request(const char *path, enum kedge__request_kind kind, uint64_t ns, const char *why)
{
	struct kedge__request r = {.kind = kind, .ns = ns};

	snprintf(r.why, sizeof(r.why), "%s", why);
	assert_int_equal(kedge__request_write(path, &r, NULL), 0);
}

static void request_store(const char *store, enum kedge__request_kind kind, uint64_t ns, char path[500])
{
	text_make(path, 500, "%s/job/record-request", store);
	request(path, kind, ns, "by hand");
}

static uint64_t later(void)
{
	return kedge__clock_wall_ns() + 1000000000ull;
}

/* ------------------------------------------------------------------ the file */

static void test_what_a_file_may_hold(void **state)
{
	static const char *const wrong[] = {"",
					    "\n",
					    "kedge-request 1 exit 5",
					    "kedge-request 1 exit x y\n",
					    "kedge-request 1 dance 5 y\n",
					    "kedge-request 2 exit 5 y\n"};
	const struct place *p = *state;
	struct kedge__request r = {.ns = 7};
	char path[400];

	text_make(path, sizeof(path), "%s/request", p->dir);
	assert_false(kedge__request_read(path, &r));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		file_write(path, wrong[i], strlen(wrong[i]));
		assert_false(kedge__request_read(path, &r));
		assert_int_equal(r.ns, 7);
	}
	request(path, KEDGE__REQUEST_EXIT, 5, "two\nlines\x1b");
	assert_true(kedge__request_read(path, &r));
	assert_int_equal(r.kind, KEDGE__REQUEST_EXIT);
	assert_int_equal(r.ns, 5);
	assert_string_equal(r.why, "two?lines?");
	kedge__request_remove(path, 6);
	assert_int_equal(access(path, F_OK), 0);
	kedge__request_remove(path, 5);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* The file that the next process reads says that this one did not fail. */
static bool was_closed(const struct place *p)
{
	char path[400], *text;
	size_t bytes;
	bool closed;

	text_make(path, sizeof(path), "%s/job/record-policy", p->l1);
	if (access(path, F_OK) != 0)
		return false;
	text = (char *)file_read(path, &bytes);
	closed = bytes > 7 && memcmp(text + bytes - 7, "closed\n", 7) == 0;
	free(text);
	return closed;
}

/* `kedge run` wants the end: a version first, and once. Its file is not ours to remove. */
static void test_of_kedge_run(void **state)
{
	const struct place *p = *state;
	char path[400], journal[400], *text;
	size_t bytes;
	kedge_t *k;
	int now;

	text_make(path, sizeof(path), "%s/request", p->dir);
	text_make(journal, sizeof(journal), "%s/journal", p->dir);
	file_write(path, "", 0);
	setenv("KEDGE_RUN_REQUEST", path, 1);
	setenv("KEDGE_RUN_JOURNAL", journal, 1);
	k = open_one(p, false, MORE(NEVER));
	assert_int_equal(asks(k), 0);
	assert_int_equal(exits(k), 0);
	request(path, KEDGE__REQUEST_EXIT, 1, "the end is near");
	assert_ok(k, kedge_should_checkpoint(k, &now));
	assert_int_equal(now, 0); /* files are not looked at all the time */
	assert_int_equal(asks(k), 1);
	assert_int_equal(exits(k), 0);
	assert_false(was_closed(p));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_true(was_closed(p)); /* an end that was asked for is no failure, however it comes */
	assert_int_equal(exits(k), 1);
	assert_int_equal(asks(k), 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(kedge_should_exit(NULL, &now), KEDGE_E_ARG);
	assert_int_equal(kedge_should_exit(k, NULL), KEDGE_E_ARG);
	assert_ok(k, kedge_close(k));
	unsetenv("KEDGE_RUN_REQUEST");
	unsetenv("KEDGE_RUN_JOURNAL");
	text = (char *)file_read(journal, &bytes);
	text[bytes - 1] = '\0'; /* in place of the last newline */
	assert_non_null(strstr(text,
			       "\"event\":\"request\",\"name\":\"job\",\"kind\":\"exit\",\"version\":1,\"asks\":true,"
			       "\"why\":\"the end is near\"}\n"));
	assert_non_null(strstr(text, "\"event\":\"exiting\",\"name\":\"job\"}\n"));
	free(text);
}

/* On either level, seen by kedge_checkpoint() too; it is removed when it is answered, and not before. */
static void test_beside_the_versions(void **state)
{
	const struct place *p = *state;
	char path[500];
	kedge_t *k = open_one(p, true, MORE(NEVER, "capture=copy"));

	assert_int_equal(asks(k), 0);
	request_store(p->l1, KEDGE__REQUEST_CHECKPOINT, later(), path);
	assert_int_equal(asks(k), 1);
	assert_int_equal(asks(k), 1);
	assert_int_equal(access(path, F_OK), 0);
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_int_equal(asks(k), 0);
	assert_ok(k, kedge_wait(k));
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(exits(k), 0);
	request_store(p->l2, KEDGE__REQUEST_EXIT, later(), path);
	assert_ok(k, kedge_checkpoint(k, 2)); /* without having asked */
	assert_int_equal(exits(k), 1);
	assert_ok(k, kedge_wait(k));
	assert_int_not_equal(access(path, F_OK), 0);
	assert_ok(k, kedge_close(k));
}

/* A version that fails answers nothing. */
static void test_a_version_that_fails(void **state)
{
	static const char *const captures[] = {"capture=sync", "capture=copy"};
	const struct place *p = *state;

	for (int i = 0; i < 2; i++) {
		kedge_t *k = open_one(p, false, MORE(NEVER, captures[i]));
		uint64_t version = (uint64_t)i * 10;
		char path[500];
		int rc;

		assert_ok(k, kedge_checkpoint(k, version + 1));
		assert_ok(k, kedge_wait(k));
		request_store(p->l1, KEDGE__REQUEST_EXIT, later(), path);
		fill_random(m, BYTES, version + 5);
		assert_int_equal(kedge__fault_set("enospc@1+", NULL), 0);
		rc = kedge_checkpoint(k, version + 2);
		if (!rc)
			rc = kedge_wait(k);
		kedge__fault_set(NULL, NULL);
		assert_int_equal(rc, KEDGE_E_NOSPACE);
		assert_int_equal(exits(k), 0);
		assert_int_equal(access(path, F_OK), 0);
		assert_int_equal(asks(k), 1);
		assert_ok(k, kedge_checkpoint(k, version + 3));
		assert_int_equal(exits(k), 1);
		assert_ok(k, kedge_close(k));
	}
}

/* A request to a process that is gone is not for the next one, unless it was relaunched and has to do what it could
 * not. */
static void test_old_requests(void **state)
{
	struct place *p = *state;
	char path[500];
	kedge_t *k = open_one(p, false, MORE(NEVER));

	kedge_set_log(place_log, p);
	assert_ok(k, kedge_close(k));
	request_store(p->l1, KEDGE__REQUEST_EXIT, kedge__clock_wall_ns() - 1, path);
	k = open_one(p, false, MORE(NEVER));
	assert_int_equal(asks(k), 0);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_non_null(strstr(place_said(p), "from before this process started is dropped: by hand"));
	assert_ok(k, kedge_close(k));
	request_store(p->l1, KEDGE__REQUEST_EXIT, kedge__clock_wall_ns() - 1, path);
	setenv("KEDGE_RUN_LAUNCH", "2", 1);
	k = open_one(p, false, MORE(NEVER));
	unsetenv("KEDGE_RUN_LAUNCH");
	assert_int_equal(asks(k), 1);
	assert_ok(k, kedge_close(k));
}

/* ------------------------------------------------------------------ signals */

static void own_handler(int number)
{
	(void)number;
}

static void test_signals(void **state)
{
	kedge_t *k = open_one(*state, false, MORE(NEVER, "on_signal=USR1, SIGUSR2:checkpoint"));
	struct sigaction now;

	raise(SIGUSR2);
	assert_int_equal(asks(k), 1);
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_int_equal(exits(k), 0);
	raise(SIGUSR1);
	raise(SIGUSR2);
	assert_int_equal(asks(k), 1);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_int_equal(exits(k), 1);
	assert_int_equal(asks(k), 0);
	assert_ok(k, kedge_close(k));
	assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
	assert_ptr_equal(now.sa_handler, SIG_DFL);
}

/* What the program handles, before or after, is its own. */
static void test_the_programs_own_handlers(void **state)
{
	struct sigaction now;
	kedge_t *k;

	signal(SIGUSR1, own_handler);
	signal(SIGHUP, SIG_IGN);
	k = open_one(*state, false, MORE(NEVER, "on_signal=USR1,USR2,HUP"));
	raise(SIGUSR1);
	raise(SIGHUP);
	assert_int_equal(asks(k), 0);
	signal(SIGUSR2, own_handler);
	assert_ok(k, kedge_close(k));
	assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
	assert_ptr_equal(now.sa_handler, own_handler);
	assert_int_equal(sigaction(SIGUSR2, NULL, &now), 0);
	assert_ptr_equal(now.sa_handler, own_handler);
	signal(SIGUSR1, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
}

/* TERM ends who does not ask; who does is asked. */
static int life_with_term(const struct place *p, bool polite)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct options o;
		kedge_t *k;
		int now = 0;

		signal(SIGTERM, SIG_DFL); /* the library of the tests has one */
		if (kedge_open("job", NULL, options_make(&o, p, false, MORE(NEVER, "on_signal=TERM")), &k) ||
		    kedge_protect(k, "m", m, BYTES, KEDGE_U8) || (polite && kedge_should_exit(k, &now)))
			_exit(1);
		raise(SIGTERM);
		if (kedge_checkpoint(k, KEDGE_NEXT) || kedge_should_exit(k, &now) || !now)
			_exit(2);
		_exit(kedge_close(k) ? 3 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void test_term(void **state)
{
	int status = life_with_term(*state, false);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
	assert_int_equal(life_with_term(*state, true), 0);
}

/* A child of the program's has no handle: the signal does to it what it does to any process. */
static void test_term_in_a_child(void **state)
{
	struct options o;
	kedge_t *k;
	int now, status;
	pid_t child;

#if defined(__SANITIZE_THREAD__)
	skip(); /* it keeps signals from children of a process with threads */
#endif
	signal(SIGTERM, SIG_DFL);
	assert_int_equal(kedge_open("job", NULL, options_make(&o, *state, false, MORE(NEVER, "on_signal=TERM")), &k),
			 0);
	assert_ok(k, kedge_should_exit(k, &now));
	child = fork();
	if (child == 0) {
		alarm(10);
		raise(SIGTERM);
		for (;;)
			pause();
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_ok(k, kedge_close(k));
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void test_wrong_signals(void **state)
{
	static const char *const wrong[] = {"on_signal=KILL", "on_signal=USR1,,x", "on_signal=USR1:never"};
	const struct place *p = *state;
	kedge_t *k;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct options o;

		assert_int_equal(kedge_open("job", NULL, options_make(&o, p, false, MORE(wrong[i])), &k),
				 KEDGE_E_CONFIG);
		assert_non_null(strstr(kedge_last_error(NULL), wrong[i] + strlen("on_signal=")));
	}
}

/* ------------------------------------------------------------------ ranks */

/* Which rank is asked, and how; all take the same version and all are told to end. */
static void asked(struct rank *r, uint64_t version, void (*ask)(const struct rank *r))
{
	kedge_t *k = rank_open(r);
	int now = 0, exit = -1;

	k->advice.clock = scripted;
	CHECK(kedge__adapt_init(k, NULL) == 0);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	state_make(m, r->rank, version);
	CHECK(kedge_should_checkpoint(k, &now) == 0 && !now);
	ask(r);
	for (uint64_t calls = 0; !now; calls++) {
		CHECK(calls < 100000);
		now_is = now_is + 2;
		CHECK(kedge_should_checkpoint(k, &now) == 0);
		CHECK(kedge_should_exit(k, &exit) == 0 && !exit);
	}
	CHECK(kedge_checkpoint(k, version) == 0);
	CHECK(kedge_should_exit(k, &exit) == 0 && exit);
	CHECK(kedge_wait(k) == 0);
	comes_back(r, k, KEDGE_NEWEST, version);
	CHECK(kedge_close(k) == 0);
}

static void ask_by_file(const struct rank *r)
{
	char dir[400], path[500];

	rank_dir(r, dir, sizeof(dir));
	if (r->rank == 2)
		request_store(dir, KEDGE__REQUEST_EXIT, later(), path);
}

static void ask_by_signal(const struct rank *r)
{
	if (r->rank == 3)
		raise(SIGUSR1);
}

static void ask_by_run(const struct rank *r)
{
	if (r->rank == 1)
		request(getenv("KEDGE_RUN_REQUEST"), KEDGE__REQUEST_EXIT, 1, "now");
}

static void rank_file(struct rank *r)
{
	asked(r, 1, ask_by_file);
}

static void rank_signal(struct rank *r)
{
	asked(r, 2, ask_by_signal);
}

/* Only rank 1 runs where `kedge run` does. */
static void rank_run(struct rank *r)
{
	char path[400];

	text_make(path, sizeof(path), "%s/request-%d", r->p->dir, r->rank);
	setenv("KEDGE_RUN_REQUEST", path, 1);
	if (r->rank == 1)
		file_write(path, "", 0);
	asked(r, 1, ask_by_run);
}

static void test_one_of_four(void **state)
{
	const struct place *p = *state;
	static const char *const more[] = {NEVER, "on_signal=USR1", NULL};
	struct plan plan = {4, NO_THREAD, .own_dirs = true, .more = more};

	ranks_run(p, plan, rank_file);
	plan.threading = ANY_THREAD_TWO_CHANNELS;
	ranks_run(p, plan, rank_signal);
	plan.own_dirs = false;
	ranks_run(p, plan, rank_run);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_what_a_file_may_hold),
	    JOB(test_of_kedge_run),
	    JOB(test_beside_the_versions),
	    JOB(test_a_version_that_fails),
	    JOB(test_old_requests),
	    JOB(test_signals),
	    JOB(test_the_programs_own_handlers),
	    JOB(test_term),
	    JOB(test_term_in_a_child),
	    JOB(test_wrong_signals),
	    JOB(test_one_of_four),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
