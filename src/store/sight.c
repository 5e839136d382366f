/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is there, before anything is created or trusted: a directory that may be a store, proof that two paths lead to
 * one directory, and which L2 an L1 belongs to.
 */
#include "store/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define TIE_BYTES_LIMIT 8192
#define PROBE_BYTES     20
#define PROBE_HEAD      16 /* before the rank */
#define PROBE_START     "probe-"

static const char probe_magic[8] = {'K', 'E', 'D', 'G', 'E', 'P', 'R', 'B'};

/* ------------------------------------------------------------------ looking */

bool kedge__store_id_equal(const struct kedge__store_id *a, const struct kedge__store_id *b)
{
	return memcmp(a->at, b->at, sizeof(a->at)) == 0;
}

const char *kedge__sight_text(enum kedge__sight sight)
{
	switch (sight) {
	case KEDGE__SIGHT_NOTHING:
		return "no directory";
	case KEDGE__SIGHT_EMPTY:
		return "an empty directory";
	case KEDGE__SIGHT_OTHER:
		return "a directory that is not a store";
	case KEDGE__SIGHT_STORE:
		return "a store";
	case KEDGE__SIGHT_DAMAGED:
		return "a store with a damaged marker";
	case KEDGE__SIGHT_ERROR:
		break;
	}
	return "a directory that cannot be read";
}

static enum kedge__sight sight_failed(const char *store, struct kedge__error *err)
{
	(void)kedge__error_set(err, kedge__error_from_errno(errno), errno, "cannot examine %s", store);
	return KEDGE__SIGHT_ERROR;
}

/* STORE exists, but has no marker. */
static enum kedge__sight look_inside(const char *store, struct kedge__error *err)
{
	enum kedge__sight sight = KEDGE__SIGHT_EMPTY;
	const struct dirent *entry;
	DIR *dir = opendir(store);

	if (!dir)
		return sight_failed(store, err);
	while (sight == KEDGE__SIGHT_EMPTY && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			sight = KEDGE__SIGHT_OTHER;
	closedir(dir);
	return sight;
}

static enum kedge__sight look_at_marker(const char *path, struct kedge__store_id *id, struct kedge__error *err)
{
	size_t bytes;
	int rc = kedge__marker_read(path, id, &bytes, err);

	if (rc)
		return rc == KEDGE_E_DAMAGED ? KEDGE__SIGHT_DAMAGED : KEDGE__SIGHT_ERROR;
	return KEDGE__SIGHT_STORE;
}

enum kedge__sight kedge__store_look(const char *store, struct kedge__store_id *id, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	char *path = kedge__asprintf("%s/" KEDGE__STORE_MARKER_NAME, store);
	enum kedge__sight sight = KEDGE__SIGHT_ERROR;
	struct stat st;

	memset(id, 0, sizeof(*id));
	if (!path)
		(void)kedge__error_nomem(&problem);
	else if (stat(store, &st) != 0)
		sight = errno == ENOENT ? KEDGE__SIGHT_NOTHING : sight_failed(store, &problem);
	else if (!S_ISDIR(st.st_mode))
		(void)kedge__error_set(&problem, KEDGE_E_ACCESS, ENOTDIR, "cannot examine %s", store);
	else if (stat(path, &st) == 0)
		sight = look_at_marker(path, id, &problem);
	else
		sight = errno == ENOENT ? look_inside(store, &problem) : sight_failed(path, &problem);
	if (sight == KEDGE__SIGHT_ERROR)
		kedge__error_move(err, &problem);
	kedge__error_done(&problem);
	kedge__free(path);
	return sight;
}

/* ------------------------------------------------------------------ one directory or two */

static char *probe_path(const struct kedge__catalog *cat, uint64_t nonce)
{
	return kedge__asprintf("%s/" PROBE_START "%016" PRIx64, cat->dir, nonce);
}

static void probe_bytes(uint64_t nonce, uint32_t rank, uint8_t out[PROBE_BYTES])
{
	memcpy(out, probe_magic, sizeof(probe_magic));
	kedge__put64(out + 8, nonce);
	kedge__put32(out + PROBE_HEAD, rank);
}

static int probe_fill(const char *path, int fd, uint64_t nonce, uint32_t rank, struct kedge__error *err)
{
	uint8_t raw[PROBE_BYTES];
	int rc;

	probe_bytes(nonce, rank, raw);
	rc = kedge__fs_write(fd, raw, sizeof(raw), path, err);
	kedge__fs_close(fd);
	if (rc)
		(void)kedge__fs_unlink(path, NULL);
	return rc;
}

int kedge__probe_claim(const struct kedge__catalog *cat, uint64_t nonce, uint32_t rank, bool *made,
		       struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	char *path = probe_path(cat, nonce);
	int fd, rc;

	*made = false;
	if (!path)
		return kedge__error_nomem(err);
	rc = kedge__fs_create(path, &fd, &problem);
	if (rc && problem.sys_errno == EEXIST)
		rc = 0;
	else if (rc)
		kedge__error_move(err, &problem);
	else
		*made = !(rc = probe_fill(path, fd, nonce, rank, err));
	kedge__error_done(&problem);
	kedge__free(path);
	return rc;
}

/* *GOT bytes of the file are those of a probe; -1: there is no file, or it is another one. */
static int probe_load(const char *path, uint64_t nonce, int *got, uint8_t out[PROBE_BYTES], struct kedge__error *err)
{
	uint8_t *data;
	struct stat st;
	size_t bytes;
	int rc;

	*got = -1;
	if (lstat(path, &st) != 0)
		return errno == ENOENT
			   ? 0
			   : kedge__error_set(err, kedge__error_from_errno(errno), errno, "cannot examine %s", path);
	if (!S_ISREG(st.st_mode) || st.st_size > PROBE_BYTES)
		return 0;
	rc = kedge__file_read(path, -1, PROBE_BYTES, &data, &bytes, err);
	if (rc)
		return rc;
	probe_bytes(nonce, 0, out);
	if (memcmp(data, out, KEDGE__MIN(bytes, (size_t)PROBE_HEAD)) == 0)
		*got = (int)bytes;
	memcpy(out, data, bytes);
	kedge__free(data);
	return 0;
}

int kedge__probe_read(const struct kedge__catalog *cat, uint64_t nonce, bool *seen, uint32_t *rank,
		      struct kedge__error *err)
{
	char *path = probe_path(cat, nonce);
	uint8_t raw[PROBE_BYTES];
	int got, rc = path ? probe_load(path, nonce, &got, raw, err) : kedge__error_nomem(err);

	if (!rc) {
		*seen = got == PROBE_BYTES;
		*rank = *seen ? kedge__get32(raw + PROBE_HEAD) : 0;
	}
	kedge__free(path);
	return rc;
}

void kedge__probe_remove(const struct kedge__catalog *cat, uint64_t nonce)
{
	char *path = probe_path(cat, nonce);

	if (path)
		(void)kedge__fs_unlink(path, NULL); /* else it is swept like what a crash leaves */
	kedge__free(path);
}

/* The name and the bytes, as far as they were written before a crash, must be those of a probe: other files are not
 * ours. */
bool kedge__probe_is_ours(const struct kedge__catalog *cat, const char *name)
{
	size_t start = strlen(PROBE_START);
	uint64_t nonce;
	uint8_t raw[PROBE_BYTES];
	int got = -1;
	char *path;

	if (strncmp(name, PROBE_START, start) != 0 || strlen(name) != start + 16 ||
	    strspn(name + start, "0123456789abcdef") != 16 || sscanf(name + start, "%16" SCNx64, &nonce) != 1)
		return false;
	path = kedge__catalog_path(cat, name);
	if (path)
		(void)probe_load(path, nonce, &got, raw, NULL);
	kedge__free(path);
	return got >= 0;
}

/* ------------------------------------------------------------------ the tie */

int kedge__tie_read(const struct kedge__catalog *cat, struct kedge__tie *tie, struct kedge__error *err)
{
	char *path = kedge__catalog_path(cat, KEDGE__TIE_NAME);
	uint8_t *data;
	size_t bytes;
	int rc;

	if (!path)
		return kedge__error_nomem(err);
	if (!kedge__fs_exists(path)) {
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s has no L2", cat->dir);
		goto free;
	}
	rc = kedge__file_read(path, -1, TIE_BYTES_LIMIT, &data, &bytes, err);
	if (rc)
		goto free;
	rc = kedge__tie_decode(data, bytes, tie, err);
	if (rc)
		(void)kedge__error_prefix(err, "%s", path);
	kedge__free(data);
free:
	kedge__free(path);
	return rc;
}

int kedge__tie_write(const struct kedge__catalog *cat, const struct kedge__tie *tie, struct kedge__error *err)
{
	char *path = kedge__catalog_path(cat, KEDGE__TIE_NAME);
	struct kedge__bytes text = {0};
	bool renamed;
	int rc = path ? kedge__tie_encode(tie, &text, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__file_replace(cat->dir, path, text.at, text.count, !cat->unsynced, &renamed, err);
	kedge__bytes_done(&text);
	kedge__free(path);
	return rc;
}
