/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of base share: cmocka, a directory that goes away, children that may be killed. */
#ifndef KEDGE_TESTS_BASE_SUPPORT_H
#define KEDGE_TESTS_BASE_SUPPORT_H

#include "../lib/cases.h"
#include "../lib/files.h"
#include "../lib/scratch.h"
#include "base/base.h"

#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct scratch {
	char dir[FILES_PATH];
	char file[FILES_PATH]; /* in DIR, not there yet */
	struct kedge__error err;
};

static inline int scratch_setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));

	if (!s)
		return -1;
	scratch_make_on_disk(s->dir, sizeof(s->dir), "test");
	path_make(s->file, "%s/file", s->dir);
	*state = s;
	return 0;
}

static inline int scratch_teardown(void **state)
{
	struct scratch *s = *state;

	kedge__fault_set(NULL, NULL);
	kedge__error_done(&s->err);
	scratch_remove(s->dir);
	free(s);
	return 0;
}

#define scratch_test(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

/* Run FN in a child; its result is the exit status. Returns the status as wait() gives it. */
static inline int in_child(int (*fn)(void *ctx), void *ctx)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn(ctx));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static inline void assert_file(const char *path, const char *expected)
{
	size_t bytes;
	char *text = (char *)file_read(path, &bytes);

	assert_non_null(text);
	assert_int_equal(bytes, strlen(expected));
	assert_string_equal(text, expected);
	free(text);
}

#endif
