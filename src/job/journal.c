/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/journal.h"

#include <stdlib.h>

bool kedge__relaunched(void)
{
	const char *launch = getenv("KEDGE_RUN_LAUNCH");

	return launch && strtol(launch, NULL, 10) > 1;
}

void kedge__journal_init(struct kedge__journal *j)
{
	memset(j, 0, sizeof(*j));
	pthread_mutex_init(&j->lock, NULL);
}

void kedge__journal_done(struct kedge__journal *j)
{
	for (size_t i = 0; i < KEDGE__COUNT(j->files); i++)
		kedge__free(j->files[i].path);
	kedge__array_done(&j->early);
	kedge__gauges_done(&j->gauges);
	pthread_mutex_destroy(&j->lock);
}

/* ------------------------------------------------------------------ one file */

/* Whether the last line has no end: its writer was killed, or the disk was full. */
static bool is_torn(int fd, uint64_t bytes, const char *path)
{
	char last = '\n';

	return bytes && kedge__fs_pread(fd, &last, 1, bytes - 1, path, NULL) == 0 && last != '\n';
}

static int rotate(const char *path, struct kedge__error *err)
{
	char *old = kedge__asprintf("%s.1", path);
	int rc = old ? kedge__fs_rename(path, old, err) : kedge__error_nomem(err);

	kedge__free(old);
	return rc;
}

/* The file, of *BYTES bytes, with room for TEXT. */
static int file_open(const struct kedge__journal_file *f, size_t length, int *fd, uint64_t *bytes,
		     struct kedge__error *err)
{
	int rc = kedge__fs_open_log(f->path, true, fd, err);

	if (rc)
		return rc;
	rc = kedge__fs_size(*fd, bytes, f->path, err);
	if (rc || !f->limit || !*bytes || *bytes + length <= f->limit) {
		if (rc)
			kedge__fs_close(*fd);
		return rc;
	}
	kedge__fs_close(*fd);
	rc = rotate(f->path, err);
	*bytes = 0;
	return rc ? rc : kedge__fs_open_log(f->path, true, fd, err);
}

/* All of TEXT or nothing: what a full disk took of it is taken back. */
static int append(const struct kedge__journal_file *f, const char *text, struct kedge__error *err)
{
	uint64_t bytes;
	int fd, rc = file_open(f, strlen(text), &fd, &bytes, err);

	if (rc)
		return rc;
	if (is_torn(fd, bytes, f->path))
		rc = kedge__fs_write(fd, "\n", 1, f->path, err);
	if (!rc)
		rc = kedge__fs_write(fd, text, strlen(text), f->path, err);
	if (rc)
		(void)kedge__fs_truncate(fd, bytes, f->path, NULL);
	kedge__fs_close(fd);
	return rc;
}

static int append_lost(const struct kedge__journal_file *f, const char *name, struct kedge__error *err)
{
	struct kedge__line l;
	char *text;
	int rc;

	kedge__line_begin(&l);
	kedge__line_seconds(&l, "time", (double)kedge__clock_wall_ns() / 1e9);
	kedge__line_text(&l, "event", "lost");
	kedge__line_text(&l, "name", name);
	kedge__line_uint(&l, "events", f->lost);
	rc = kedge__line_end(&l, &text, err);
	if (rc)
		return rc;
	rc = append(f, text, err);
	kedge__free(text);
	return rc;
}

static void write_to(struct kedge__journal_file *f, const char *name, const char *text)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = 0;

	if (!f->path)
		return;
	if (f->lost)
		rc = append_lost(f, name, &err);
	if (!rc)
		rc = append(f, text, &err);
	f->lost = rc ? f->lost + 1 : 0;
	f->lost_ever += rc != 0;
	if (rc && !f->said) {
		f->said = true;
		kedge__log(KEDGE_LOG_WARNING, "%s: events are missing from the journal, versions are not affected: %s",
			   name, kedge__error_text(&err));
	}
	kedge__error_done(&err);
}

/* ------------------------------------------------------------------ lines */

void kedge__journal_write(struct kedge__journal *j, const char *name, struct kedge__line *l)
{
	char *text = NULL;
	size_t length;

	if (kedge__line_end(l, &text, NULL)) {
		for (size_t i = 0; i < KEDGE__COUNT(j->files); i++)
			j->files[i].lost++, j->files[i].lost_ever++;
		return;
	}
	length = strlen(text);
	if (j->opened) {
		for (size_t i = 0; i < KEDGE__COUNT(j->files); i++)
			write_to(&j->files[i], name, text);
	} else if (kedge__array_reserve(&j->early, j->early.count + length + 1)) {
		memcpy(j->early.at + j->early.count, text, length + 1);
		j->early.count += length;
	}
	kedge__free(text);
}

void kedge__journal_opened(struct kedge__journal *j, const char *name, struct kedge__line *l)
{
	j->opened = true;
	kedge__journal_write(j, name, l);
	for (size_t i = 0; i < KEDGE__COUNT(j->files) && j->early.count; i++)
		write_to(&j->files[i], name, j->early.at);
	kedge__array_done(&j->early);
}
