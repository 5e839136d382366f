/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>

static char *lock_path(const char *dir)
{
	return kedge__asprintf("%s/" NAME "/lock", dir);
}

static void test_second_handle_is_refused(void **state)
{
	char *dir = make_dir(), *path = lock_path(dir), *pid = kedge__asprintf("pid %ld on ", (long)getpid());
	struct kedge__catalog *a = open_store(dir), *b = open_store(dir);

	(void)state;
	assert_ok(kedge__catalog_own(a, "the first job", err));
	assert_true(kedge__fs_exists(path));
	assert_fails(KEDGE_E_LOCKED, "the first job", kedge__catalog_own(b, "the second job", err));
	assert_fails(KEDGE_E_LOCKED, pid, kedge__catalog_own(b, "the second job", err));
	assert_fails(KEDGE_E_LOCKED, "since 2", kedge__catalog_own(b, "the second job", err));
	assert_fails(KEDGE_E_STATE, "already", kedge__catalog_own(a, "the first job", err));
	kedge__catalog_disown(a);
	assert_false(kedge__fs_exists(path));
	assert_ok(kedge__catalog_own(b, "the second job", err));
	assert_fails(KEDGE_E_LOCKED, "the second job", kedge__catalog_own(a, "the first job", err));
	kedge__catalog_close(b);
	assert_false(kedge__fs_exists(path));
	kedge__catalog_close(a);
	kedge__free(path);
	kedge__free(pid);
	remove_dir(dir);
}

static void own_and_die(void *ctx)
{
	struct kedge__catalog *cat;

	if (kedge__catalog_open(ctx, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) != 0 ||
	    kedge__catalog_own(cat, "a job that died", NULL) != 0)
		_exit(1);
	kill(getpid(), SIGKILL);
}

static void test_dead_owner(void **state)
{
	char *dir = make_dir(), *path = lock_path(dir);
	struct kedge__catalog *cat = open_store(dir);
	size_t removed;
	int status;

	(void)state;
	status = run_child(own_and_die, dir);
	assert_true(WIFSIGNALED(status));
	assert_true(kedge__fs_exists(path));
	assert_ok(kedge__catalog_own(cat, "the next job", err));
	kedge__catalog_disown(cat);
	/* Who does not want to own it can still tidy up. */
	status = run_child(own_and_die, dir);
	assert_true(WIFSIGNALED(status));
	assert_ok(kedge__catalog_clean(cat, &removed, err));
	assert_int_equal(removed, 1);
	assert_false(kedge__fs_exists(path));
	kedge__catalog_close(cat);
	kedge__free(path);
	remove_dir(dir);
}

struct orphan {
	char *dir;
	int out[2];  /* the pid of the grandchild */
	int stop[2]; /* it ends when this is closed */
};

/* The owner dies, and its child, which has the descriptor of the lock, lives on. */
static void own_fork_and_die(void *ctx)
{
	struct orphan *orphan = ctx;
	struct kedge__catalog *cat;
	pid_t pid;
	char byte;

	if (kedge__catalog_open(orphan->dir, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) != 0 ||
	    kedge__catalog_own(cat, "a job with a child", NULL) != 0)
		_exit(1);
	pid = fork();
	if (pid == 0) {
		close(orphan->stop[1]);
		pid = getpid();
		if (write(orphan->out[1], &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		_exit(read(orphan->stop[0], &byte, 1) == 0 ? 0 : 1);
	}
	kill(getpid(), SIGKILL);
}

static void test_orphan_holds_the_lock(void **state)
{
	struct orphan orphan = {.dir = make_dir()};
	struct kedge__catalog *cat = open_store(orphan.dir), *other = open_store(orphan.dir);
	pid_t pid;
	char byte;

	(void)state;
	if (!proof_is_to_be_had()) {
		kedge__catalog_close(cat);
		kedge__catalog_close(other);
		remove_dir(orphan.dir);
		skip();
	}
	assert_int_equal(pipe(orphan.out), 0);
	assert_int_equal(pipe(orphan.stop), 0);
	assert_true(WIFSIGNALED(run_child(own_fork_and_die, &orphan)));
	assert_int_equal(read(orphan.out[0], &pid, sizeof(pid)), sizeof(pid));
	assert_int_equal(kill(pid, 0), 0);
	assert_ok(kedge__catalog_own(cat, "the next job", err));
	assert_fails(KEDGE_E_LOCKED, "the next job", kedge__catalog_own(other, "one more", err));
	assert_int_equal(kill(pid, 0), 0);
	close(orphan.stop[1]);
	close(orphan.out[1]);
	/* End of file: the orphan is gone. */
	assert_int_equal(read(orphan.out[0], &byte, 1), 0);
	close(orphan.stop[0]);
	close(orphan.out[0]);
	kedge__catalog_close(cat);
	kedge__catalog_close(other);
	remove_dir(orphan.dir);
}

/* A child that was forked from the owner and closes its copy takes nothing away from it. */
static void close_in_child(void *ctx)
{
	kedge__catalog_close(ctx);
}

static void test_child_of_owner(void **state)
{
	char *dir = make_dir(), *path = lock_path(dir);
	struct kedge__catalog *a = open_store(dir), *b = open_store(dir);

	(void)state;
	assert_ok(kedge__catalog_own(a, "parent", err));
	assert_int_equal(run_child(close_in_child, a), 0);
	assert_true(kedge__fs_exists(path));
	assert_fails(KEDGE_E_LOCKED, "parent", kedge__catalog_own(b, "other", err));
	kedge__catalog_close(a);
	kedge__catalog_close(b);
	kedge__free(path);
	remove_dir(dir);
}

static void compete(void *ctx)
{
	struct orphan *race = ctx;
	struct kedge__catalog *cat;
	char byte = 'x';
	int rc;

	close(race->stop[1]);
	if (kedge__catalog_open(race->dir, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) != 0)
		_exit(2);
	rc = kedge__catalog_own(cat, "racer", NULL);
	if (write(race->out[1], &byte, 1) != 1)
		_exit(3);
	/* Nobody lets go before all have tried. */
	if (read(race->stop[0], &byte, 1) != 0)
		_exit(4);
	kedge__catalog_close(cat);
	_exit(rc == 0 ? 10 : rc == KEDGE_E_LOCKED ? 11 : 5);
}

/* Many take over a dead owner's lock, whose orphan lives, at once: one gets it. */
static void test_one_winner(void **state)
{
	struct orphan orphan = {.dir = make_dir()}, race = {.dir = orphan.dir};
	pid_t children[6], pid;
	int winners = 0, losers = 0, status;
	char byte;

	(void)state;
	if (!proof_is_to_be_had()) {
		remove_dir(orphan.dir);
		skip();
	}
	assert_int_equal(pipe(orphan.out) | pipe(orphan.stop), 0);
	assert_true(WIFSIGNALED(run_child(own_fork_and_die, &orphan)));
	/* Only now: the orphan must not have these ends. */
	assert_int_equal(pipe(race.out) | pipe(race.stop), 0);
	assert_int_equal(read(orphan.out[0], &pid, sizeof(pid)), sizeof(pid));
	for (size_t i = 0; i < KEDGE__COUNT(children); i++) {
		children[i] = fork();
		if (children[i] == 0) {
			close(orphan.stop[1]);
			compete(&race);
		}
	}
	for (size_t i = 0; i < KEDGE__COUNT(children); i++)
		assert_int_equal(read(race.out[0], &byte, 1), 1);
	close(race.stop[1]);
	for (size_t i = 0; i < KEDGE__COUNT(children); i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		winners += WIFEXITED(status) && WEXITSTATUS(status) == 10;
		losers += WIFEXITED(status) && WEXITSTATUS(status) == 11;
	}
	assert_int_equal(winners, 1);
	assert_int_equal(losers, KEDGE__COUNT(children) - 1);
	close(orphan.stop[1]);
	close(orphan.out[1]);
	assert_int_equal(read(orphan.out[0], &byte, 1), 0);
	close(orphan.stop[0]);
	close(orphan.out[0]);
	close(race.stop[0]);
	close(race.out[0]);
	close(race.out[1]);
	remove_dir(orphan.dir);
}

/* ------------------------------------------------------------------ the guard */

static void test_guard(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *a = open_store(dir), *b = open_store(dir);

	(void)state;
	assert_ok(kedge__catalog_pin(a, err));
	assert_ok(kedge__catalog_pin(a, err));
	assert_ok(kedge__catalog_pin(b, err));
	assert_fails(KEDGE_E_LOCKED, NAME, kedge__catalog_seize(a, false, err));
	kedge__catalog_unpin(b);
	assert_fails(KEDGE_E_LOCKED, NAME, kedge__catalog_seize(b, false, err));
	kedge__catalog_unpin(a);
	assert_fails(KEDGE_E_LOCKED, NAME, kedge__catalog_seize(b, false, err));
	kedge__catalog_unpin(a);
	assert_ok(kedge__catalog_seize(b, false, err));
	assert_fails(KEDGE_E_STATE, "exclusively", kedge__catalog_pin(b, err));
	assert_fails(KEDGE_E_LOCKED, NAME, kedge__catalog_seize(a, false, err));
	kedge__catalog_release(b);
	assert_ok(kedge__catalog_pin(a, err));
	kedge__catalog_close(a);
	assert_ok(kedge__catalog_seize(b, true, err));
	kedge__catalog_close(b);
	remove_dir(dir);
}

/* Busy means that a clean is put off, not that it fails. */
static void test_clean_beside_a_writer(void **state)
{
	char *dir = make_dir(), *leftover = kedge__asprintf("%s/" NAME "/set-00000000000000000001.tmp", dir);
	struct kedge__catalog *a = open_store(dir), *b = open_store(dir);
	size_t removed = 7;

	(void)state;
	file_write(leftover, "x", 1);
	assert_ok(kedge__catalog_pin(a, err));
	assert_ok(kedge__catalog_clean(b, &removed, err));
	assert_int_equal(removed, 0);
	assert_true(kedge__fs_exists(leftover));
	kedge__catalog_unpin(a);
	assert_ok(kedge__catalog_clean(b, &removed, err));
	assert_int_equal(removed, 1);
	assert_false(kedge__fs_exists(leftover));
	kedge__catalog_close(a);
	kedge__catalog_close(b);
	kedge__free(leftover);
	remove_dir(dir);
}

struct shared {
	struct kedge__catalog *cat, *other;
	int inside, alone; /* under the guard only: what ThreadSanitizer and the checks below would catch */
	pthread_mutex_t mutex;
};

static void *pin_often(void *ctx)
{
	struct shared *s = ctx;

	for (int i = 0; i < 200; i++) {
		if (kedge__catalog_pin(s->cat, NULL) != 0)
			return s;
		pthread_mutex_lock(&s->mutex);
		if (s->alone)
			return s;
		s->inside++;
		pthread_mutex_unlock(&s->mutex);
		pthread_mutex_lock(&s->mutex);
		s->inside--;
		pthread_mutex_unlock(&s->mutex);
		kedge__catalog_unpin(s->cat);
	}
	return NULL;
}

static void *seize_often(void *ctx)
{
	struct shared *s = ctx;

	for (int i = 0; i < 50; i++) {
		if (kedge__catalog_seize(s->other, true, NULL) != 0)
			return s;
		pthread_mutex_lock(&s->mutex);
		if (s->inside)
			return s;
		s->alone = 1;
		pthread_mutex_unlock(&s->mutex);
		pthread_mutex_lock(&s->mutex);
		s->alone = 0;
		pthread_mutex_unlock(&s->mutex);
		kedge__catalog_release(s->other);
	}
	return NULL;
}

static void test_guard_threads(void **state)
{
	char *dir = make_dir();
	struct shared s = {.cat = open_store(dir), .other = open_store(dir), .mutex = PTHREAD_MUTEX_INITIALIZER};
	pthread_t threads[3];
	void *bad;

	(void)state;
	assert_int_equal(pthread_create(&threads[0], NULL, pin_often, &s), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, pin_often, &s), 0);
	assert_int_equal(pthread_create(&threads[2], NULL, seize_often, &s), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
	kedge__catalog_close(s.cat);
	kedge__catalog_close(s.other);
	remove_dir(dir);
}

struct read_only {
	char *dir;
	struct job *job;
};

/* As somebody who may read and no more: pins and reads work, what would change the store is refused. */
static void read_as_nobody(void *ctx)
{
	struct read_only *r = ctx;
	struct kedge__catalog *cat;

	if (setgid(65534) != 0 || setuid(65534) != 0)
		_exit(77);
	if (kedge__catalog_open(r->dir, NAME, KEDGE__CATALOG_READ, &cat, NULL) != 0 ||
	    kedge__catalog_pin(cat, NULL) != 0)
		_exit(1);
	if (compare_index(&cat, 1, r->job, 0, NULL) != 0)
		_exit(2);
	kedge__catalog_unpin(cat);
	if (kedge__catalog_seize(cat, false, NULL) != KEDGE_E_ACCESS ||
	    kedge__catalog_own(cat, "x", NULL) != KEDGE_E_ACCESS)
		_exit(3);
	if (save_index(cat, r->job, 0, KEDGE__REDUCER_FULL, true, NULL) != KEDGE_E_ACCESS)
		_exit(4);
	kedge__catalog_close(cat);
}

static int open_up(const char *path, const struct stat *st, void *ctx)
{
	(void)ctx;
	return chmod(path, S_ISDIR(st->st_mode) ? 0755 : 0644);
}

static void test_read_only(void **state)
{
	struct job job = job_new(1, 256);
	struct read_only r = {make_dir(), &job};
	char *store = r.dir, *guard = kedge__asprintf("%s/" NAME "/guard", store);
	struct kedge__catalog *cat = open_store(store);
	int status;

	(void)state;
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	kedge__catalog_close(cat);
	assert_int_equal(tree_each(store, open_up, NULL), 0);
	status = run_child(read_as_nobody, &r);
	if (WEXITSTATUS(status) == 77) {
		print_message("not run as root: nobody else to read as\n");
	} else {
		assert_int_equal(status, 0);
		unlink(guard);
		assert_int_equal(run_child(read_as_nobody, &r), 0);
	}
	kedge__free(guard);
	job_done(&job);
	remove_dir(store);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_second_handle_is_refused),
	    cmocka_unit_test(test_dead_owner),
	    cmocka_unit_test(test_orphan_holds_the_lock),
	    cmocka_unit_test(test_child_of_owner),
	    cmocka_unit_test(test_one_winner),
	    cmocka_unit_test(test_guard),
	    cmocka_unit_test(test_clean_beside_a_writer),
	    cmocka_unit_test(test_guard_threads),
	    cmocka_unit_test(test_read_only),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
