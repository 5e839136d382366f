/* SPDX-License-Identifier: BSD-3-Clause */
/* life: a program that is started in a directory of its own, captured, ended and restarted. */
#ifndef TESTS_PROCESS_LIFE_H
#define TESTS_PROCESS_LIFE_H

#include "../lib/cases.h"
#include "../lib/draw.h"
#include "../lib/files.h"
#include "../lib/scratch.h"

#include "base/search.h"
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 1200

static unsigned long all_rounds = ROUNDS;
static const char *const outputs[] = {"answer", "log", "more", "table", "out", NULL};

struct life {
	char dir[FILES_PATH], program[FILES_PATH];
	pid_t pid, init;
	int link, status;
	bool over;
	uint8_t *record;
	size_t record_bytes;
	struct kedge__process_mirror mirror;
	struct kedge__process_contents contents;
	struct kedge__process_tracker *tracker; /* NULL: all captures are full */
	enum kedge__process_way way, got;       /* wanted; of the last capture */
};

static inline void path_in(char out[FILES_PATH], const struct life *l, const char *name)
{
	path_make(out, "%s/%s", l->dir, name);
}

static inline size_t progress(const struct life *l)
{
	char path[FILES_PATH];
	struct stat st;

	path_in(path, l, "progress");
	return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static inline void set_limit(const struct life *l, unsigned long limit)
{
	char path[FILES_PATH], fresh[FILES_PATH], text[32];

	path_in(path, l, "limit");
	path_in(fresh, l, "limit.new");
	snprintf(text, sizeof(text), "%lu", limit);
	file_write(fresh, text, strlen(text));
	assert_int_equal(rename(fresh, path), 0);
}

static inline bool has_ended(struct life *l)
{
	if (!l->over && waitpid(l->pid, &l->status, WNOHANG) == l->pid)
		l->over = true;
	return l->over;
}

static inline void await_progress(struct life *l, size_t rounds)
{
	while (progress(l) < rounds && !has_ended(l))
		usleep(200);
	if (l->over)
		fail_msg("the program ended too early: 0x%x", (unsigned)l->status);
}

/* Some rounds more, below STEP, but no more than MOST in all. */
static inline void await_some(struct life *l, size_t step, size_t most, uint64_t *seed)
{
	size_t wanted = progress(l) + draw_below(seed, step);

	await_progress(l, KEDGE__MIN(wanted, most));
}

static const char *programs_at = PROGRAMS; /* where they are */

static inline void begin(struct life *l, const char *program, const char *dir)
{
	char source[FILES_PATH], number[32], out[FILES_PATH];
	uint8_t *code;
	size_t bytes;

	memset(l, 0, sizeof(*l));
	l->link = -1;
	path_make(l->dir, "%s", dir);
	assert_true(mkdir(dir, 0700) == 0 || errno == EEXIST);
	/* Its own copy: another user may read it, too. */
	path_make(source, "%s/%s", programs_at, program);
	path_make(l->program, "%s/program", dir);
	code = file_read(source, &bytes);
	assert_non_null(code);
	file_write(l->program, code, bytes);
	free(code);
	assert_int_equal(chmod(l->program, 0700), 0);
	snprintf(number, sizeof(number), "%lu", all_rounds);
	path_in(out, l, "out");
	l->pid = fork();
	if (l->pid == 0) {
		int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), null = open("/dev/null", O_RDONLY);

		if (chdir(dir) != 0 || fd < 0)
			_exit(99);
		dup2(null, 0);
		dup2(fd, 1);
		close_range(3, ~0u, 0);
		setpgid(0, 0);
		execl("./program", "./program", number, NULL);
		_exit(98);
	}
	assert_true(l->pid > 0);
}

static inline void await_end(struct life *l)
{
	set_limit(l, 1000000000);
	if (!l->over)
		assert_int_equal(waitpid(l->pid, &l->status, 0), l->pid);
	l->over = true;
	assert_true(WIFEXITED(l->status));
	assert_int_equal(WEXITSTATUS(l->status), 0);
	if (l->init) {
		close(l->link);
		kill(l->init, SIGKILL);
		assert_int_equal(waitpid(l->init, NULL, __WALL), l->init);
		l->init = 0;
	}
}

static inline void forget(struct life *l)
{
	kedge__process_mirror_done(&l->mirror);
	kedge__process_contents_done(&l->contents);
	kedge__process_tracker_free(l->tracker);
	l->tracker = NULL;
	kedge__free(l->record);
	l->record = NULL;
}

static inline int try_capture(struct life *l, struct kedge__error *err)
{
	struct kedge__process_capture c = {.pid = l->pid,
					   .init = l->init,
					   .files = KEDGE__FILES_WRITTEN,
					   .mirror = &l->mirror,
					   .tracker = l->tracker,
					   .way = l->way};
	int rc = kedge__process_capture(&c, err);

	assert_false(c.ended);
	if (rc)
		return rc;
	l->got = c.way;
	kedge__process_contents_done(&l->contents);
	l->contents = c.contents;
	kedge__free(l->record);
	assert_int_equal(kedge__process_image_encode(&c.image, &l->record, &l->record_bytes, err), 0);
	kedge__process_image_done(&c.image);
	return 0;
}

static inline void capture(struct life *l)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	int rc = try_capture(l, &err);

	/* This is for once. */
	if (rc == KEDGE_E_STATE && strstr(kedge__error_text(&err), "has just changed"))
		rc = try_capture(l, &err);
	if (rc)
		fail_msg("%s; status 0x%x", kedge__error_text(&err), has_ended(l) ? (unsigned)l->status : 0);
}

static inline void end_by_force(struct life *l)
{
	kill(l->pid, SIGKILL);
	assert_int_equal(waitpid(l->pid, &l->status, 0), l->pid);
	if (l->init) {
		close(l->link);
		kill(l->init, SIGKILL);
		assert_int_equal(waitpid(l->init, NULL, __WALL), l->init);
		l->init = 0;
	}
}

static inline void restart(struct life *l)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__process_image image;
	struct kedge__process_restart r = {
	    .image = &image, .mirror = &l->mirror, .contents = &l->contents, .init_link = -1};
	int rc = kedge__process_image_decode(l->record, l->record_bytes, &image, &err);

	if (!rc)
		rc = kedge__process_mirror_adopt(&l->mirror, &err);
	if (!rc)
		rc = kedge__process_check(&image, &err);
	if (!rc)
		rc = kedge__process_restart(&r, &err);
	if (rc)
		fail_msg("%s", kedge__error_text(&err));
	kedge__process_image_done(&image);
	l->pid = r.pid;
	l->init = r.init;
	l->link = r.init_link;
	l->over = false;
}

static inline void compare(const struct life *a, const struct life *b)
{
	for (size_t i = 0; outputs[i]; i++) {
		char path[FILES_PATH];
		size_t n = 0, m = 0;
		uint8_t *x, *y;

		path_in(path, a, outputs[i]);
		x = file_read(path, &n);
		path_in(path, b, outputs[i]);
		y = file_read(path, &m);
		if (!x != !y || n != m || (x && memcmp(x, y, n) != 0))
			fail_msg("%s differs", outputs[i]);
		free(x);
		free(y);
	}
}

/* ------------------------------------------------------------------ what the kernel says of it */

static inline size_t count_lines(pid_t pid, const char *name)
{
	char path[64], *line = NULL;
	size_t room = 0, n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	f = fopen(path, "r");
	assert_non_null(f);
	while (getline(&line, &room, f) >= 0)
		n++;
	free(line);
	fclose(f);
	return n;
}

static inline bool traced(pid_t pid)
{
	char path[64], *line = NULL;
	size_t room = 0;
	int tracer = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (getline(&line, &room, f) >= 0)
		sscanf(line, "TracerPid: %d", &tracer);
	free(line);
	fclose(f);
	return tracer != 0;
}

#endif
