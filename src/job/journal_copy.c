/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal is on the L1 of rank 0, which may be gone with its node, or another one after a requeue. So L2 gets a
 * copy whenever a version gets there, and at the end; a job that finds a later copy there than it has goes on with
 * that.
 */
#include "job/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PIECE 65536

static char *copy_path(const kedge_t *k)
{
	const struct kedge__job_level *l2 = &k->levels.at[KEDGE__L2];
	bool wanted = k->journal.files[0].path && strcmp(k->set.journal, "yes") == 0;

	if (!wanted || !l2->on || !l2->api)
		return NULL;
	return kedge__asprintf("%s/%s/" KEDGE__JOURNAL_NAME, kedge__catalog_store(l2->api), k->name);
}

/* ------------------------------------------------------------------ which is later */

/* When the last whole line was written; 0: there is none. */
static double last_time(int fd, uint64_t bytes, const char *path)
{
	static const char start[] = "{\"time\":";
	char tail[PIECE + 1];
	size_t n = (size_t)KEDGE__MIN(bytes, (uint64_t)PIECE);
	double time = 0;

	if (kedge__fs_pread(fd, tail, n, bytes - n, path, NULL))
		return 0;
	tail[n] = '\0';
	for (const char *line = tail; line && strchr(line, '\n'); line = strchr(line, '\n') + 1)
		if (strncmp(line, start, strlen(start)) == 0)
			time = strtod(line + strlen(start), NULL);
	return time;
}

static double time_of(const char *path)
{
	uint64_t bytes;
	double time;
	int fd;

	if (!kedge__fs_is_file(path) || kedge__fs_open_read(path, &fd, NULL))
		return 0;
	time = kedge__fs_size(fd, &bytes, path, NULL) ? 0 : last_time(fd, bytes, path);
	kedge__fs_close(fd);
	return time;
}

/* ------------------------------------------------------------------ bytes */

/* FROM's bytes from AT to END, to the end of TO. */
static int append(int from, const char *from_path, uint64_t at, uint64_t end, const char *to_path,
		  struct kedge__error *err)
{
	char piece[PIECE];
	int to, rc = kedge__fs_open_log(to_path, true, &to, err);

	if (rc)
		return rc;
	while (!rc && at < end) {
		size_t n = (size_t)KEDGE__MIN(end - at, (uint64_t)PIECE);

		rc = kedge__fs_pread(from, piece, n, at, from_path, err);
		if (!rc)
			rc = kedge__fs_write(to, piece, n, to_path, err);
		at += n;
	}
	kedge__fs_close(to);
	return rc;
}

/* All of FROM as TO: whoever reads it finds all of it, or what was there before. */
static int replace(int from, const char *from_path, uint64_t bytes, const char *to_path, struct kedge__error *err)
{
	char *tmp = kedge__asprintf("%s.tmp", to_path);
	int rc = tmp ? kedge__fs_unlink(tmp, err) : kedge__error_nomem(err);

	if (!rc)
		rc = append(from, from_path, 0, bytes, tmp, err);
	if (!rc)
		rc = kedge__fs_rename(tmp, to_path, err);
	if (rc && tmp)
		(void)kedge__fs_unlink(tmp, NULL);
	kedge__free(tmp);
	return rc;
}

/* ------------------------------------------------------------------ to L2, and from there */

static void told(const kedge_t *k, const char *what, int rc, struct kedge__error *err)
{
	if (rc)
		kedge__log(KEDGE_LOG_INFO, "%s: %s, versions are not affected: %s", k->name, what,
			   kedge__error_text(err));
	kedge__error_done(err);
}

/* What was not copied yet, or all of it if this is the first time, or another file than the last time. */
static int carry(struct kedge__journal *j, int fd, const char *to, struct kedge__error *err)
{
	const char *from = j->files[0].path;
	struct stat st;
	uint64_t bytes;
	int rc;

	pthread_mutex_lock(&j->lock); /* no line is half written */
	rc = kedge__fs_size(fd, &bytes, from, err);
	pthread_mutex_unlock(&j->lock);
	if (!rc && fstat(fd, &st))
		rc = kedge__error_set(err, KEDGE_E_IO, errno, "%s: cannot look at it", from);
	if (rc)
		return rc;
	if (j->copy.inode == (uint64_t)st.st_ino && j->copy.bytes && j->copy.bytes <= bytes && kedge__fs_is_file(to))
		rc = append(fd, from, j->copy.bytes, bytes, to, err);
	else
		rc = replace(fd, from, bytes, to, err);
	j->copy.inode = rc ? 0 : (uint64_t)st.st_ino;
	j->copy.bytes = bytes;
	return rc;
}

void kedge__journal_carry(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *to = k->group.rank == 0 ? copy_path(k) : NULL;
	int fd, rc;

	if (!to)
		return;
	rc = kedge__fs_open_read(k->journal.files[0].path, &fd, &err);
	if (!rc) {
		rc = carry(&k->journal, fd, to, &err);
		kedge__fs_close(fd);
	}
	told(k, "the copy of the journal on L2 is not up to date", rc, &err);
	kedge__free(to);
}

static int fetch(const char *from, const char *to, struct kedge__error *err)
{
	uint64_t bytes;
	int fd, rc = kedge__fs_open_read(from, &fd, err);

	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &bytes, from, err);
	if (!rc)
		rc = replace(fd, from, bytes, to, err);
	kedge__fs_close(fd);
	return rc;
}

void kedge__journal_fetch(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *from = copy_path(k);
	double there = from ? time_of(from) : 0;
	int rc = 0;

	if (there && there > time_of(k->journal.files[0].path))
		rc = fetch(from, k->journal.files[0].path, &err);
	told(k, "the journal on L2 is not used", rc, &err);
	kedge__free(from);
}
