/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restart: a new process becomes the one of an image. The stub executes the program of the target and is stopped before
 * its first instruction; then its memory is replaced, and its threads are started. If anything fails, it is killed.
 */
#include "process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STUB_SECONDS 60.0
#define OPTIONS      (PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD)

/* ------------------------------------------------------------------ contents of files */

static int put_back(const struct kedge__process_content *c, struct kedge__error *err)
{
	char *fresh = kedge__asprintf("%s.kedge-%d", c->path, (int)getpid());
	struct stat old;
	int fd, rc;

	if (!fresh)
		return kedge__error_nomem(err);
	rc = kedge__fs_unlink(fresh, err);
	if (!rc)
		rc = kedge__fs_create(fresh, &fd, err);
	if (rc) {
		kedge__free(fresh);
		return rc;
	}
	rc = kedge__fs_write(fd, c->data, c->bytes, fresh, err);
	if (!rc && stat(c->path, &old) == 0)
		rc = kedge__fs_set_mode(fd, old.st_mode & 07777, fresh, err);
	if (!rc)
		rc = kedge__fs_sync(fd, fresh, err);
	kedge__fs_close(fd);
	if (!rc)
		rc = kedge__fs_rename(fresh, c->path, err);
	if (rc)
		kedge__fs_unlink(fresh, NULL);
	kedge__free(fresh);
	return rc;
}

static bool has_contents(const struct kedge__process_contents *list, const char *path)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->at[i].path, path) == 0)
			return true;
	return false;
}

static int put_all_back(const struct kedge__process_restart *r, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < r->image->descriptors.count; i++)
		if (r->image->descriptors.at[i].contents &&
		    !has_contents(r->contents, r->image->descriptors.at[i].path))
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the version lacks the contents of %s",
						r->image->descriptors.at[i].path);
	for (size_t i = 0; !rc && i < r->contents->count; i++)
		rc = put_back(&r->contents->at[i], err);
	return rc;
}

/* ------------------------------------------------------------------ the stub */

static char **words_of(const struct kedge__process_blob *command)
{
	KEDGE__ARRAY(char *) list = {0};

	for (uint64_t at = 0; at < command->bytes; at += strnlen((char *)command->data + at, command->bytes - at) + 1)
		if (!kedge__array_push(&list, (char *)command->data + at)) {
			kedge__array_done(&list);
			return NULL;
		}
	if (!kedge__array_push(&list, NULL))
		kedge__array_done(&list);
	return list.at;
}

/* What the stub says of its failure; it names the file. */
static int stub_failed(const struct kedge__process_restart *r, int report, struct kedge__error *err)
{
	const struct kedge__process_image *image = r->image;
	const char *name = "";
	int text[3];

	if (read(report, text, sizeof(text)) != (ssize_t)sizeof(text))
		return kedge__error_set(err, KEDGE_E_STATE, 0, "the new process ended too early");
	if (text[0] == 1)
		name = image->cwd;
	else if (text[0] == 2 && (size_t)text[2] < image->files.count)
		name = image->files.at[text[2]].path;
	else if (text[0] == 8)
		name = image->files.at[0].path;
	else if (text[0] && (size_t)text[2] < image->descriptors.count)
		name = image->descriptors.at[text[2]].path;
	return kedge__error_set(err, KEDGE_E_STATE, text[1], "%s%s%s", kedge__stub_step(text[0]), *name ? ": " : "",
				name);
}

static int await_exec(struct kedge__process_restart *r, struct kedge__target *t, int report, struct kedge__error *err)
{
	struct kedge__tracee *x = &t->threads.at[0];
	int status, rc;

	for (;;) {
		rc = kedge__tracee_wait(t, x, STUB_SECONDS, &status, err);
		if (rc)
			return t->ended ? stub_failed(r, report, err) : rc;
		if (status >> 16 == PTRACE_EVENT_EXEC)
			return kedge__tracee_settle(t, x, err);
		ptrace(PTRACE_CONT, x->tid, 0, status >> 16 ? 0 : WSTOPSIG(status));
	}
}

static int open_memory(struct kedge__target *t, struct kedge__error *err)
{
	char path[KEDGE__PATH_ROOM];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)t->pid);
	t->memory = open(path, O_RDWR | O_CLOEXEC);
	return t->memory < 0 ? kedge__error_set(err, KEDGE_E_STATE, errno, "cannot open %s", path) : 0;
}

/* The child, in its namespaces if its id cannot be had otherwise. */
static int start_child(struct kedge__process_restart *r, struct kedge__spaces *spaces, pid_t *pid,
		       struct kedge__error *err)
{
	pid_t id = (pid_t)r->image->threads.at[0].id;
	int rc = kedge__spaces_fork(spaces, id, pid, NULL);

	if (!rc)
		return 0;
	rc = kedge__spaces_open(spaces, err);
	if (!rc)
		return kedge__spaces_fork(spaces, id, pid, err);
	return r->new_ids ? kedge__spaces_fork(spaces, 0, pid, err) : rc;
}

static int attach(struct kedge__process_restart *r, struct kedge__target *t, int go, int report,
		  struct kedge__error *err)
{
	struct kedge__tracee x = {.tid = t->pid};
	int rc;

	if (ptrace(PTRACE_SEIZE, t->pid, 0, OPTIONS) != 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "the kernel does not let the new process be traced");
	if (!kedge__array_push(&t->threads, x))
		return kedge__error_nomem(err);
	if (write(go, "", 1) != 1)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "the new process ended too early");
	rc = await_exec(r, t, report, err);
	return rc ? rc : open_memory(t, err);
}

static int start_stub(struct kedge__process_restart *r, struct kedge__spaces *spaces, struct kedge__stub *s,
		      struct kedge__target *t, struct kedge__error *err)
{
	int go[2], report[2], rc;

	if (pipe2(go, O_CLOEXEC) != 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot create a pipe");
	if (pipe2(report, O_CLOEXEC) != 0) {
		rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot create a pipe");
		goto close_go;
	}
	s->go = go[0];
	s->report = report[1];
	fflush(NULL);
	rc = start_child(r, spaces, &t->pid, err);
	if (!rc && t->pid == 0)
		kedge__stub_become(s);
	close(report[1]);
	if (!rc)
		rc = attach(r, t, go[1], report[0], err);
	close(report[0]);
	close(go[0]);
close_go:
	close(go[1]);
	return rc;
}

/* ------------------------------------------------------------------ all of it */

static int stub_prepare(const struct kedge__process_restart *r, struct kedge__stub *s, struct kedge__error *err)
{
	const struct kedge__process_image *image = r->image;
	size_t n = image->descriptors.count;

	s->restart = r;
	s->first = n ? (int)image->descriptors.at[n - 1].number + 1 : 0;
	s->first = KEDGE__MAX(s->first, 3);
	s->temporary = kedge__calloc(n + 1, sizeof(*s->temporary));
	s->words = words_of(&image->command);
	return s->temporary && s->words ? 0 : kedge__error_nomem(err);
}

static void kill_target(struct kedge__target *t)
{
	if (t->pid <= 0)
		return;
	kill(t->pid, SIGKILL);
	for (size_t i = 1; i < t->threads.count; i++)
		waitpid(t->threads.at[i].tid, NULL, __WALL);
	if (!t->ended)
		waitpid(t->pid, NULL, __WALL);
}

int kedge__process_restart(struct kedge__process_restart *r, struct kedge__error *err)
{
	struct kedge__target t = {.memory = -1};
	struct kedge__spaces spaces = {0, -1};
	struct kedge__stub s = {0};
	int rc = stub_prepare(r, &s, err);

	if (!rc)
		rc = put_all_back(r, err);
	if (!rc)
		rc = start_stub(r, &spaces, &s, &t, err);
	if (!rc)
		rc = kedge__stub_fill(r, &t, &spaces, s.first, err);
	if (rc) {
		kill_target(&t);
		kedge__spaces_close(&spaces);
	} else {
		r->pid = t.pid;
		r->init = spaces.init;
		r->init_link = spaces.link;
	}
	kedge__target_done(&t);
	kedge__free(s.temporary);
	kedge__free(s.words);
	return rc;
}
