/* SPDX-License-Identifier: BSD-3-Clause */
#include "support.h"

#include <errno.h>
#include <signal.h>

/* Three fault points: create, write, sync. */
static int write_ten(const char *path, struct kedge__error *err)
{
	int fd, rc;

	rc = kedge__fs_create(path, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_write(fd, "0123456789", 10, path, err);
	if (rc == 0)
		rc = kedge__fs_sync(fd, path, err);
	kedge__fs_close(fd);
	return rc;
}

struct child {
	const char *spec;
	const char *path;
	int (*write)(const char *path, struct kedge__error *err);
};

static int child_writes(void *ctx)
{
	struct child *c = ctx;

	if (kedge__fault_set(c->spec, NULL) != 0)
		return 100;
	return -c->write(c->path, NULL);
}

static void assert_killed(struct scratch *s, const char *spec)
{
	struct child c = {spec, s->file, write_ten};
	int status = in_child(child_writes, &c);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void kill_before_the_call(void **state)
{
	struct scratch *s = *state;

	assert_killed(s, "kill@1");
	assert_false(kedge__fs_exists(s->file));
	assert_killed(s, "kill@2");
	assert_file(s->file, "");
	unlink(s->file);
	assert_killed(s, "kill@3");
	assert_file(s->file, "0123456789");
}

static void cut_writes_half(void **state)
{
	struct scratch *s = *state;

	assert_killed(s, "cut@1");
	assert_false(kedge__fs_exists(s->file));
	assert_killed(s, "cut@2");
	assert_file(s->file, "01234");
}

static void point_never_met(void **state)
{
	struct scratch *s = *state;
	struct child c = {"kill@4", s->file, write_ten};
	int status = in_child(child_writes, &c);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_file(s->file, "0123456789");
}

static void failure_once(void **state)
{
	struct scratch *s = *state;
	char *expected = kedge__asprintf("cannot write %s: Input/output error", s->file);

	kedge__fault_set("eio@2", NULL);
	assert_int_equal(write_ten(s->file, &s->err), KEDGE_E_IO);
	assert_string_equal(s->err.text, expected);
	assert_int_equal(s->err.sys_errno, EIO);
	assert_file(s->file, "");
	kedge__free(expected);
	unlink(s->file);
	assert_int_equal(write_ten(s->file, &s->err), 0);
	assert_int_equal(kedge__fault_count(), 5);
}

static void failure_that_lasts(void **state)
{
	struct scratch *s = *state;

	kedge__fault_set("enospc@3+", NULL);
	assert_int_equal(write_ten(s->file, &s->err), KEDGE_E_NOSPACE);
	assert_int_equal(kedge__fs_unlink(s->file, &s->err), KEDGE_E_NOSPACE);
	assert_int_equal(kedge__fs_rename(s->file, s->file, &s->err), KEDGE_E_NOSPACE);
	assert_int_equal(s->err.sys_errno, ENOSPC);
	assert_file(s->file, "0123456789");
	kedge__fault_set(NULL, NULL);
	assert_int_equal(kedge__fs_unlink(s->file, &s->err), 0);
	assert_false(kedge__fs_exists(s->file));
}

static void failed_read(void **state)
{
	struct scratch *s = *state;
	char byte;
	int fd;

	assert_int_equal(write_ten(s->file, &s->err), 0);
	kedge__fault_set("read@3", NULL);
	assert_int_equal(kedge__fs_open_read(s->file, &fd, &s->err), 0);
	assert_int_equal(kedge__fs_pread(fd, &byte, 1, 4, s->file, &s->err), 0);
	assert_int_equal(kedge__fs_pread(fd, &byte, 1, 4, s->file, &s->err), KEDGE_E_IO);
	assert_int_equal(s->err.sys_errno, EIO);
	assert_int_equal(kedge__fs_pread(fd, &byte, 1, 4, s->file, &s->err), 0);
	assert_int_equal(byte, '4');
	kedge__fs_close(fd);
	assert_int_equal(kedge__fault_read_count(), 4);
	assert_int_equal(kedge__fault_count(), 0);
	kedge__fault_set(NULL, NULL);
}

static void short_write_is_continued(void **state)
{
	struct scratch *s = *state;

	kedge__fault_set("short@2", NULL);
	assert_int_equal(write_ten(s->file, &s->err), 0);
	assert_file(s->file, "0123456789");
	assert_int_equal(kedge__fault_count(), 4);
	unlink(s->file);
	kedge__fault_set("short@1", NULL);
	assert_int_equal(write_ten(s->file, &s->err), 0);
	assert_int_equal(kedge__fault_count(), 3);
}

static int write_two(const char *path, struct kedge__error *err)
{
	const struct iovec pieces[] = {{(void *)(uintptr_t) "012", 3}, {(void *)(uintptr_t) "3456789", 7}};
	int fd, rc;

	rc = kedge__fs_create(path, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_pwrite_pieces(fd, pieces, 2, 0, path, err);
	kedge__fs_close(fd);
	return rc;
}

/* Two pieces are one call: it fails, is short or is cut as one. */
static void two_pieces(void **state)
{
	struct scratch *s = *state;
	struct child c = {"cut@2", s->file, write_two};

	kedge__fault_set("eio@2", NULL);
	assert_int_equal(write_two(s->file, &s->err), KEDGE_E_IO);
	assert_file(s->file, "");
	unlink(s->file);
	kedge__fault_set("short@2", NULL);
	assert_int_equal(write_two(s->file, &s->err), 0);
	assert_file(s->file, "0123456789");
	assert_int_equal(kedge__fault_count(), 3);
	kedge__fault_set(NULL, NULL);
	unlink(s->file);
	assert_true(WIFSIGNALED(in_child(child_writes, &c)));
	assert_file(s->file, "01234");
}

static void allocation_fails(void **state)
{
	void *p;

	(void)state;
	kedge__fault_set("alloc@2", NULL);
	p = kedge__malloc(1);
	assert_non_null(p);
	assert_null(kedge__malloc(1));
	kedge__free(p);
	p = kedge__malloc(1);
	assert_non_null(p);
	kedge__free(p);
	assert_int_equal(kedge__fault_alloc_count(), 3);
	assert_int_equal(kedge__fault_count(), 0);
}

static void no_plan_still_counts(void **state)
{
	struct scratch *s = *state;

	kedge__fault_set(NULL, NULL);
	assert_int_equal(write_ten(s->file, &s->err), 0);
	assert_int_equal(kedge__fault_count(), 3);
	kedge__fault_set("count", NULL);
	assert_int_equal(kedge__fault_count(), 0);
}

static void nonsense_is_refused(void **state)
{
	static const char *const specs[] = {
	    "kill",     "kill@",   "kill@0", "kill@x", "kill@-1", "kill@1x",  "kill@1+",
	    "short@1+", "kills@1", "kil@1",  "@1",     "@",       "counts@x", "kill@99999999999999999999",
	    "kill@ 1"};
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(specs); i++)
		assert_int_equal(kedge__fault_set(specs[i], NULL), KEDGE_E_ARG);
	kedge__fault_set("kill@x", &err);
	assert_string_equal(err.text, "fault \"kill@x\" is neither ACTION@N, where ACTION is kill, cut, eio, enospc, "
				      "short, read, alloc or room, nor "
				      "count@PATH");
	kedge__error_done(&err);
	assert_int_equal(kedge__fault_set("", NULL), 0);
}

/*
 * The environment is read once, at the first fault point of a process: these run this program again, with the argument
 * that makes it do the work of write_ten() and nothing else.
 */
static const char *program;

static int again(void *ctx)
{
	struct child *c = ctx;

	setenv("KEDGE_FAULT", c->spec, 1);
	execl(program, "test_fault", "--write", c->path, (char *)NULL);
	return 101;
}

static void environment_is_read(void **state)
{
	struct scratch *s = *state;
	struct child c = {"cut@2", s->file, write_ten};
	int status = in_child(again, &c);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_file(s->file, "01234");
	unlink(s->file);
	c.spec = "enospc@3";
	status = in_child(again, &c);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), -KEDGE_E_NOSPACE);
	unlink(s->file);
	c.spec = "kil@1";
	status = in_child(again, &c);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void count_is_appended_at_exit(void **state)
{
	struct scratch *s = *state;
	char *path = kedge__asprintf("%s/count", s->dir);
	char *spec = kedge__asprintf("count@%s", path);
	struct child c = {spec, s->file, write_ten};

	assert_int_equal(in_child(again, &c), 0);
	assert_file(path, "3\n");
	assert_int_equal(WEXITSTATUS(in_child(again, &c)), -KEDGE_E_IO);
	assert_file(path, "3\n1\n");
	kedge__free(spec);
	kedge__free(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    scratch_test(kill_before_the_call),      scratch_test(cut_writes_half),
	    scratch_test(point_never_met),           scratch_test(failure_once),
	    scratch_test(failure_that_lasts),        scratch_test(failed_read),
	    scratch_test(short_write_is_continued),  scratch_test(two_pieces),
	    scratch_test(allocation_fails),          scratch_test(no_plan_still_counts),
	    scratch_test(nonsense_is_refused),       scratch_test(environment_is_read),
	    scratch_test(count_is_appended_at_exit),
	};

	program = argv[0];
	if (argc == 3 && strcmp(argv[1], "--write") == 0)
		return -write_ten(argv[2], NULL);
	return cases_run(argc, argv, tests, NULL, NULL);
}
