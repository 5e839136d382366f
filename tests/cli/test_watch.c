/* SPDX-License-Identifier: BSD-3-Clause */
/* watch: what `{}` stands for, and who writes to the files of a set. */
#include <stddef.h>
#include <stdint.h>

#include "../lib/cases.h"
#include "../lib/scratch.h"
#include "watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The table of subcommands is main.c's. */
const struct kedge__tool kedge__tools[] = {{"help", "", NULL}};
const size_t kedge__tools_count = 1;

/* The key of NAME by PATTERN; "-": it does not fit. */
static void key_is(const char *pattern, const char *name, const char *key, const char *expected)
{
	char *found = NULL;
	bool fits = kedge__keyed_fits(pattern, KEDGE__KEYED_TEXT, name, key, &found);

	assert_string_equal(fits ? found ? found : "" : "-", expected);
	kedge__free(found);
}

/* The rank of NAME by PATTERN; -1: none; -2: no rank is so large. */
static void rank_is(const char *pattern, const char *name, long expected)
{
	uint64_t rank = 0;
	enum kedge__rank_found found = kedge__rank_of(pattern, name, &rank);

	assert_int_equal(found == KEDGE__RANK_PRESENT ? (long)rank : found == KEDGE__RANK_ABSENT ? -1 : -2, expected);
}

static void ranks(void **state)
{
	(void)state;
	rank_is("data*.cpu{}", "DD0001/data0001.cpu0012", 12);
	rank_is("*.cpu{}", "DD0001/data0001.cpu0012", 12);
	rank_is("*{}", "data0001.cpu0012", 12);
	rank_is("ckpt.{}.h5", "ckpt.00012.h5", 12);
	rank_is("ckpt.{}.h5", "ckpt.x12.h5", -1);
	rank_is("ckpt.{}.h5", "ckpt.12", -1);
	rank_is("rank_{}", "run/rank_12/state.nc", 12);
	rank_is("/rank_{}", "run/rank_12/state.nc", -1);
	rank_is("/run/rank_{}", "run/rank_12/state.nc", 12);
	rank_is("rank_{}/*.nc", "run/rank_12/state.nc", 12);
	rank_is("rank_{}/*.nc", "run/rank_12/state.txt", -1);
	rank_is("r{}/f{}", "r7/f7", 7);
	rank_is("r{}/f{}", "r7/f8", -1);
	rank_is("f{}", "f4294967295", 4294967295);
	rank_is("f{}", "f4294967296", -2);
	rank_is("f{}", "f99999999999999999999999", -2);
	rank_is("f{}", "f", -1);
	assert_null(kedge__rank_check("a{}"));
	assert_null(kedge__rank_check("/a/b{}"));
	assert_non_null(kedge__rank_check("a"));
	assert_non_null(kedge__rank_check(""));
	assert_non_null(kedge__rank_check("a//{}"));
	assert_non_null(kedge__rank_check("../{}"));
}

static void keys(void **state)
{
	(void)state;
	key_is("ck-{}-r*.dat", "ck-10-r3.dat", NULL, "10");
	key_is("ck-{}*.dat", "ck-10-r3.dat", NULL, "10");
	key_is("ck_{}", "ck_final", NULL, "final");
	key_is("ck-{}-r*", "ck-a-b-r3", NULL, "a-b");
	key_is("ck-{}-r*", "ck-a-r-r3", NULL, "a");
	key_is("{}[0-9].bin", "x7.bin", NULL, "x");
	key_is("{}[!0-9].bin", "x7.bin", NULL, "-");
	key_is("a?{}", "ab", NULL, "-");
	key_is("a?{}", "abc", NULL, "c");
	key_is("step{}", "step12", "12", "");
	key_is("step{}", "step12", "1", "-");
	key_is("step{}", "step1", "12", "-");
	key_is("{}-{}", "5-5", NULL, "5");
	key_is("{}-{}", "5-6", NULL, "-");
	key_is("*", ".hidden", NULL, "-");
	key_is(".h*", ".hidden", NULL, "");
	key_is("a[", "a[", NULL, "-");
}

static void paths(void **state)
{
	(void)state;
	assert_true(kedge__watch_fits("step{}/r*", "step3/r1"));
	assert_true(kedge__watch_fits("step{}", "step3/sub/r1"));
	assert_true(kedge__watch_fits("step{}/r{}", "step3/r3"));
	assert_false(kedge__watch_fits("step{}/r{}", "step3/r4"));
	assert_false(kedge__watch_fits("step{}/r*", "step3"));
	assert_false(kedge__watch_fits("step{}/r*", "other/r1"));
	assert_null(kedge__watch_pattern_check("a/b{}"));
	assert_non_null(kedge__watch_pattern_check(""));
	assert_non_null(kedge__watch_pattern_check("/a"));
	assert_non_null(kedge__watch_pattern_check("a/../b"));
	assert_non_null(kedge__watch_pattern_check("a//b"));
}

/* A process that holds a set ends when somebody opens a file of it for writing; he waits for that, and then writes. */
static void writers(void **state)
{
	char dir[512], path[600];
	struct kedge__watch_file file = {.path = "a", .regular = true};
	struct kedge__watch_set set = {.files = {.at = &file, .count = 1}};
	int fd, ready[2], status;
	pid_t holder;
	char byte;

	(void)state;
	scratch_make(dir, sizeof(dir), "watch");
	snprintf(path, sizeof(path), "%s/a", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	if (kedge__watch_set_quiet(&set, dir, false) == KEDGE__WATCH_UNKNOWN)
		goto end; /* a file system without leases */
	assert_int_equal(kedge__watch_set_quiet(&set, dir, false), KEDGE__WATCH_BUSY);
	close(fd);
	assert_int_equal(kedge__watch_set_quiet(&set, dir, false), KEDGE__WATCH_QUIET);
	assert_int_equal(pipe(ready), 0);
	holder = fork();
	if (holder == 0) {
		signal(SIGIO, SIG_DFL);
		byte = kedge__watch_set_quiet(&set, dir, true) == KEDGE__WATCH_QUIET;
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(byte, 1);
	fd = open(path, O_WRONLY); /* waits for the holder's end */
	assert_true(fd >= 0);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGIO);
	close(ready[0]);
	close(ready[1]);
end:
	close(fd);
	assert_int_equal(scratch_remove(dir), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ranks),
	    cmocka_unit_test(keys),
	    cmocka_unit_test(paths),
	    cmocka_unit_test(writers),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
