/* What the tests of base share: cmocka, a directory that goes away, children that may be killed. */
#ifndef KEDGE_TESTS_BASE_SUPPORT_H
#define KEDGE_TESTS_BASE_SUPPORT_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct scratch {
	char *dir;
	char *file; /* in DIR, not there yet */
	struct kedge__error err;
};

static inline int scratch_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	struct scratch *s = calloc(1, sizeof(*s));

	if (asprintf(&s->dir, "%s/kedge-test-XXXXXX", tmp && *tmp ? tmp : "/tmp") < 0 || !mkdtemp(s->dir))
		return -1;
	if (asprintf(&s->file, "%s/file", s->dir) < 0)
		return -1;
	*state = s;
	return 0;
}

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)kind, (void)where;
	return remove(path);
}

static inline int scratch_teardown(void **state)
{
	struct scratch *s = *state;

	kedge__fault_set(NULL, NULL);
	kedge__error_done(&s->err);
	nftw(s->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(s->file);
	free(s->dir);
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

static inline void write_text(const char *path, const char *text, size_t bytes)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, bytes, f), bytes);
	assert_int_equal(fclose(f), 0);
}

/* The contents of PATH, NUL-terminated; -1 in *BYTES if there is no such file. */
static inline char *read_text(const char *path, long *bytes)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, 1 << 16);

	*bytes = f ? (long)fread(text, 1, (1 << 16) - 1, f) : -1;
	if (f)
		fclose(f);
	return text;
}

static inline void assert_file(const char *path, const char *expected)
{
	long bytes;
	char *text = read_text(path, &bytes);

	assert_int_equal(bytes, (long)strlen(expected));
	assert_string_equal(text, expected);
	free(text);
}

#endif
