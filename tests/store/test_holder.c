/* SPDX-License-Identifier: BSD-3-Clause */
/* A lock that is held is overruled only with proof that its owner is dead. */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

struct owner { /* a process that owns the name, or whose child has the lock */
	char *dir;
	int ready[2]; /* a byte comes when it does */
	int stop[2];  /* it ends when this is closed */
	pid_t pid;
};

static struct owner owner_new(void)
{
	struct owner o = {.dir = make_dir()};

	assert_int_equal(pipe(o.ready) | pipe(o.stop), 0);
	return o;
}

static void owner_done(struct owner *o)
{
	char byte;

	close(o->stop[1]);
	close(o->ready[1]);
	/* End of file: everybody who had the lock is gone. */
	assert_int_equal(read(o->ready[0], &byte, 1), 0);
	if (o->pid)
		assert_int_equal(waitpid(o->pid, NULL, 0), o->pid);
	close(o->stop[0]);
	close(o->ready[0]);
	remove_dir(o->dir);
}

static void hold_until_told(const struct owner *o)
{
	char byte = 'x';

	close(o->stop[1]);
	if (write(o->ready[1], &byte, 1) != 1)
		_exit(1);
	_exit(read(o->stop[0], &byte, 1) == 0 ? 0 : 1);
}

static void own(const struct owner *o)
{
	struct kedge__catalog *cat;

	if (kedge__catalog_open(o->dir, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) != 0 ||
	    kedge__catalog_own(cat, "the owner", NULL) != 0)
		_exit(2);
}

static void wait_until_ready(const struct owner *o)
{
	char byte;

	assert_int_equal(read(o->ready[0], &byte, 1), 1);
}

/* The owner dies, and its child, which has the descriptor of the lock, lives on. */
static void own_fork_and_die(void *ctx)
{
	own(ctx);
	if (fork() == 0)
		hold_until_told(ctx);
	kill(getpid(), SIGKILL);
}

static char *lock_text(const struct owner *o)
{
	char *path = kedge__asprintf("%s/" NAME "/lock", o->dir), *text;
	size_t bytes;

	text = (char *)file_read(path, &bytes);
	text[bytes] = '\0';
	kedge__free(path);
	return text;
}

/* TEXT into the file that is locked, not into another in its place. */
static void forge(const struct owner *o, const char *text)
{
	char *path = kedge__asprintf("%s/" NAME "/lock", o->dir);

	file_write(path, text, strlen(text));
	kedge__free(path);
}

/* In the first PID namespace the kernel says who took a lock, even if that process is gone. */
static bool takers_are_listed(void)
{
	char text[64];
	ssize_t n = readlink("/proc/self/ns/pid", text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return strcmp(text, "pid:[4026531836]") == 0;
}

static void assert_refused(struct kedge__catalog *cat, const char *says)
{
	assert_fails(KEDGE_E_LOCKED, says, kedge__catalog_own(cat, "the next", err));
	assert_fails(KEDGE_E_LOCKED, "take_over = yes", kedge__catalog_own(cat, "the next", err));
}

static void refuse_forged(const struct owner *o, struct kedge__catalog *cat, const char *text, const char *from,
			  const char *to)
{
	char *at = strstr(text, from), *forged;

	assert_non_null(at);
	forged = kedge__asprintf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	forge(o, forged);
	assert_refused(cat, "the owner (pid ");
	kedge__free(forged);
}

static void test_proof(void **state)
{
	struct owner o = owner_new();
	struct kedge__catalog *cat = open_store(o.dir);
	char host[256] = "", boot[8], space[8], *line, *numbers, *process, *text;
	size_t removed;

	(void)state;
	assert_true(WIFSIGNALED(run_child(own_fork_and_die, &o)));
	wait_until_ready(&o);
	text = lock_text(&o);
	line = strstr(text, "\nboot ");
	assert_non_null(line);
	snprintf(boot, sizeof(boot), "%.7s", line + 6);
	snprintf(space, sizeof(space), "%.7s", strstr(line, " pidns ") + 7);
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	refuse_forged(&o, cat, text, host, "elsewhere");
	refuse_forged(&o, cat, text, boot, "0000000");
	refuse_forged(&o, cat, text, space, "1234567");
	/* As 0.1 wrote it. */
	refuse_forged(&o, cat, text, line + 1, "");
	/* A process that is dead, but is not the one that took the lock: a clone of this machine would have written
	 * that. */
	numbers = strchr(strchr(text, '\n') + 1, '\n') + 1;
	process = kedge__asprintf("%.*s", (int)(line - numbers), numbers);
	if (takers_are_listed())
		refuse_forged(&o, cat, text, process, "999999999 1 1");
	forge(&o, "");
	assert_refused(cat, "another job");
	/* Nor does a clean take it away. */
	assert_ok(kedge__catalog_clean(cat, &removed, err));
	assert_int_equal(removed, 0);
	forge(&o, text);
	if (proof_is_to_be_had())
		assert_ok(kedge__catalog_own(cat, "the next", err));
	else
		assert_refused(cat, "the owner (pid ");
	free(text);
	kedge__free(process);
	kedge__catalog_close(cat);
	owner_done(&o);
}

static void test_take_over(void **state)
{
	struct owner o = owner_new();
	struct kedge__catalog *cat = open_store(o.dir), *other = open_store(o.dir);

	(void)state;
	assert_true(WIFSIGNALED(run_child(own_fork_and_die, &o)));
	wait_until_ready(&o);
	forge(&o, "the owner\nelsewhere\n7 8 9\n");
	assert_refused(cat, "the owner (pid 7 on elsewhere, since 1970");
	kedge__catalog_set_take_over(cat, true);
	assert_ok(kedge__catalog_own(cat, "the next", err));
	/* One who is seen to live is never overruled. */
	kedge__catalog_set_take_over(other, true);
	if (proof_is_to_be_had())
		assert_fails(KEDGE_E_LOCKED, "the next (pid ", kedge__catalog_own(other, "one more", err));
	kedge__catalog_close(cat);
	kedge__catalog_close(other);
	owner_done(&o);
}

/* ------------------------------------------------------------------ namespaces */

static bool enter_namespace(void)
{
	return unshare(CLONE_NEWPID) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
}

/* The first process of the new namespace: number 1 there, as ours has one too. */
static void start_in_namespace(struct owner *o)
{
	o->pid = fork();
	assert_true(o->pid >= 0);
	if (o->pid > 0)
		return;
	if (!enter_namespace())
		_exit(77);
	if (fork() == 0) {
		own(o);
		hold_until_told(o);
	}
	close(o->stop[1]);
	close(o->ready[1]);
	wait(NULL);
	_exit(0);
}

static bool namespaces_are_permitted(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(enter_namespace() ? 0 : 77);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	print_message("no PID namespace may be made here\n");
	return false;
}

static void test_owner_in_another_namespace(void **state)
{
	struct owner o = owner_new();
	struct kedge__catalog *cat = open_store(o.dir);

	(void)state;
	if (namespaces_are_permitted()) {
		start_in_namespace(&o);
		wait_until_ready(&o);
		assert_refused(cat, "the owner (pid 1 on ");
	}
	kedge__catalog_close(cat);
	owner_done(&o);
}

static void try_to_own(void *ctx)
{
	const struct owner *o = ctx;
	struct kedge__catalog *cat;
	int status, rc;

	if (!enter_namespace())
		_exit(77);
	if (fork() == 0) {
		if (kedge__catalog_open(o->dir, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) != 0)
			_exit(1);
		rc = kedge__catalog_own(cat, "the next", NULL);
		_exit(rc == KEDGE_E_LOCKED ? 0 : 2);
	}
	wait(&status);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

/* The number of the owner, which lives, stands for nobody there. */
static void test_seen_from_another_namespace(void **state)
{
	struct owner o = owner_new();
	struct kedge__catalog *cat = open_store(o.dir);

	(void)state;
	assert_ok(kedge__catalog_own(cat, "the owner", err));
	if (namespaces_are_permitted())
		assert_int_equal(run_child(try_to_own, &o), 0);
	kedge__catalog_close(cat);
	owner_done(&o);
}

/* ------------------------------------------------------------------ a process without its first thread */

static void *hold_in_thread(void *ctx)
{
	hold_until_told(ctx);
	return NULL;
}

static bool is_zombie(pid_t pid)
{
	char path[64], text[512] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	f = fopen(path, "r");
	if (f) {
		text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
		fclose(f);
	}
	return strstr(text, ") Z ") != NULL;
}

static void test_first_thread_has_ended(void **state)
{
	struct kedge__catalog *cat;
	struct owner o;
	pthread_t thread;

	(void)state;
	if (!proof_is_to_be_had())
		skip();
	o = owner_new();
	cat = open_store(o.dir);
	o.pid = fork();
	if (o.pid == 0) {
		own(&o);
		if (pthread_create(&thread, NULL, hold_in_thread, &o) != 0)
			_exit(1);
		pthread_exit(NULL);
	}
	wait_until_ready(&o);
	while (!is_zombie(o.pid))
		sched_yield();
	kedge__catalog_set_take_over(cat, true);
	assert_fails(KEDGE_E_LOCKED, "the owner (pid ", kedge__catalog_own(cat, "the next", err));
	kedge__catalog_close(cat);
	owner_done(&o);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_proof),
	    cmocka_unit_test(test_take_over),
	    cmocka_unit_test(test_owner_in_another_namespace),
	    cmocka_unit_test(test_seen_from_another_namespace),
	    cmocka_unit_test(test_first_thread_has_ended),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
