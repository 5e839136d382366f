/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that makes a directory a store (FORMAT.md, "The store marker"). */
#include "store/internal.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#define MARKER_BYTES_LIMIT 4096

int kedge__marker_read(const char *path, struct kedge__store_id *id, size_t *bytes, struct kedge__error *err)
{
	uint8_t *data;
	int rc;

	rc = kedge__file_read(path, -1, MARKER_BYTES_LIMIT, &data, bytes, err);
	if (rc)
		return rc;
	rc = kedge__store_marker_decode(data, *bytes, id, err);
	if (rc)
		(void)kedge__error_prefix(err, "%s", path);
	kedge__free(data);
	return rc;
}

int kedge__marker_check(const struct kedge__catalog *cat, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/%s", cat->store, KEDGE__STORE_MARKER_NAME);
	struct kedge__store_id id;
	size_t bytes;
	int rc = path ? kedge__marker_read(path, &id, &bytes, err) : kedge__error_nomem(err);

	kedge__free(path);
	return rc;
}

bool kedge__marker_is_there(const struct kedge__catalog *cat)
{
	char *path = kedge__asprintf("%s/%s", cat->store, KEDGE__STORE_MARKER_NAME);
	bool there = !path || kedge__fs_exists(path);

	kedge__free(path);
	return there;
}

/* ------------------------------------------------------------------ what may become a store */

/* NAME can be ignored: file systems create such entries, or Kedge did before a crash. */
static bool name_is_nothing(const char *name)
{
	static const char *const names[] = {"lost+found", ".snapshot", KEDGE__STORE_MARKER_NAME,
					    KEDGE__STORE_MARKER_NAME KEDGE__TMP_SUFFIX};

	for (size_t i = 0; i < KEDGE__COUNT(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return strncmp(name, ".nfs", 4) == 0;
}

/* STORE/NAME belongs to a job: it contains files of a job, and nothing else. */
static bool is_job(const char *store, const char *name)
{
	char *dir = kedge__asprintf("%s/%s", store, name), **names;
	size_t count = 0, ours = 0;

	if (dir && kedge__job_name_check(name, NULL) == 0 && kedge__fs_list(dir, &names, &count, NULL) == 0) {
		for (size_t i = 0; i < count; i++)
			ours += kedge__name_is_ours(names[i]);
		kedge__fs_list_free(names, count);
	}
	kedge__free(dir);
	return count && ours == count;
}

/* A directory that contains other files becomes a store only if the user says so. If only the marker is missing, for
 * example because the file system removes old files, it still is a store. */
static int check_others(const struct kedge__catalog *cat, struct kedge__error *err)
{
	char **names;
	size_t count, jobs = 0;
	int rc = kedge__fs_list(cat->store, &names, &count, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		if (strcmp(names[i], KEDGE__STORE_MARKER_NAME) == 0) {
			jobs = 0; /* another process has just created it */
			break;
		}
		if (name_is_nothing(names[i]))
			continue;
		if (is_job(cat->store, names[i]))
			jobs++;
		else
			rc = kedge__error_set(
			    err, KEDGE_E_CONFIG, 0,
			    "%s is not a store and contains other files (%s); use another directory, or set "
			    "init = yes to make it a store",
			    cat->given, names[i]);
	}
	/* Another process may have created the marker after the directory was read. */
	if (rc && kedge__marker_is_there(cat)) {
		kedge__error_done(err);
		rc = 0;
	}
	if (!rc && jobs && !kedge__marker_is_there(cat))
		kedge__log(KEDGE_LOG_WARNING,
			   "%s contains jobs, but its marker " KEDGE__STORE_MARKER_NAME
			   " is missing; creating a new one",
			   cat->store);
	kedge__fs_list_free(names, count);
	return rc;
}

/* ------------------------------------------------------------------ create */

/* FD, locked, is the temporary file: it becomes the marker, or is removed if another one exists. */
static int marker_fill(int fd, const char *store, const struct kedge__store_id *known, const char *tmp,
		       const char *path, struct kedge__error *err)
{
	struct kedge__bytes text = {0};
	struct kedge__store_id id;
	int rc;

	if (kedge__fs_exists(path))
		return kedge__fs_unlink(tmp, err);
	if (known)
		id = *known;
	else if (getrandom(id.at, sizeof(id.at), 0) != (ssize_t)sizeof(id.at))
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot get random bytes for the id of store %s",
					store);
	rc = kedge__store_marker_encode(&id, &text, err);
	if (!rc)
		rc = kedge__fs_truncate(fd, 0, tmp, err);
	if (!rc)
		rc = kedge__fs_pwrite(fd, text.at, text.count, 0, tmp, err);
	if (!rc)
		rc = kedge__fs_sync(fd, tmp, err);
	if (!rc)
		rc = kedge__fs_rename(tmp, path, err);
	if (rc)
		(void)kedge__fs_unlink(tmp, NULL);
	else
		rc = kedge__fs_sync_dir(store, err);
	kedge__bytes_done(&text);
	return rc;
}

/*
 * All ranks of a job may be here at once. The temporary file is the lock among them: the process that holds the lock
 * and finds that the name still belongs to this file writes it. KNOWN, if not NULL, is the id to write.
 */
static int marker_create(const char *store, const struct kedge__store_id *known, const char *path,
			 struct kedge__error *err)
{
	char *tmp = kedge__asprintf("%s" KEDGE__TMP_SUFFIX, path);
	bool mine = false;
	int fd, rc = 0;

	if (!tmp)
		return kedge__error_nomem(err);
	while (!rc && !mine && !kedge__fs_exists(path)) {
		rc = kedge__fs_open_lock(tmp, &fd, err);
		if (rc)
			break;
		if (flock(fd, LOCK_EX) != 0 && errno != EINTR)
			rc = kedge__error_set(err, kedge__error_from_errno(errno), errno, "cannot lock %s", tmp);
		else if ((mine = kedge__file_is_at(fd, tmp)))
			rc = marker_fill(fd, store, known, tmp, path, err);
		kedge__fs_close(fd);
	}
	kedge__free(tmp);
	return rc;
}

/* The id only has to distinguish directories; the directory's inode does that, too. */
static void id_from_directory(const char *store, struct kedge__store_id *id)
{
	struct stat st;

	memset(id, 0, sizeof(*id));
	if (stat(store, &st) != 0)
		return;
	kedge__put64(id->at, (uint64_t)st.st_dev);
	kedge__put64(id->at + 8, (uint64_t)st.st_ino);
}

static int no_marker(const struct kedge__catalog *cat, int why, struct kedge__error *err)
{
	if (why != ENOENT && why != ENOTDIR)
		return kedge__error_set(err, kedge__error_from_errno(why), why, "cannot read store %s", cat->given);
	return kedge__error_set(err, KEDGE_E_NOTFOUND, 0,
				"%s is not a store: it does not contain the file " KEDGE__STORE_MARKER_NAME, cat->given);
}

/* A damaged marker does not prevent access to intact sets: it is noted for verify. */
int kedge__marker_open(struct kedge__catalog *cat, enum kedge__catalog_mode mode, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/%s", cat->store, KEDGE__STORE_MARKER_NAME);
	size_t bytes = 0;
	int rc = 0;

	if (!path)
		return kedge__error_nomem(err);
	if (mode == KEDGE__CATALOG_CREATE && !kedge__fs_exists(path))
		rc = check_others(cat, err);
	if (mode != KEDGE__CATALOG_READ && !rc)
		rc = marker_create(cat->store, NULL, path, err);
	else if (!rc && !kedge__fs_exists(path))
		rc = no_marker(cat, errno, err);
	if (rc)
		goto free;
	rc = kedge__marker_read(path, &cat->id, &bytes, &cat->marker_problem);
	kedge__catalog_count_read(cat, bytes);
	if (rc == KEDGE_E_DAMAGED) {
		kedge__log(KEDGE_LOG_WARNING, "%s", kedge__error_text(&cat->marker_problem));
		id_from_directory(cat->store, &cat->id);
		rc = 0;
	} else if (rc) {
		kedge__error_move(err, &cat->marker_problem);
	}
free:
	kedge__free(path);
	return rc;
}

int kedge__marker_renew(struct kedge__catalog *cat, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/%s", cat->store, KEDGE__STORE_MARKER_NAME);
	struct kedge__store_id id;
	size_t bytes;
	int rc = path ? 0 : kedge__error_nomem(err);

	/* It may be an unrelated directory, unless it is the one that was opened. */
	if (!rc && !kedge__fs_exists(path) && !kedge__file_is_at(cat->store_fd, cat->store))
		rc = check_others(cat, err);
	if (!rc)
		rc = marker_create(cat->store, &cat->id, path, err);
	if (!rc)
		rc = kedge__marker_read(path, &id, &bytes, err);
	if (!rc && memcmp(&id, &cat->id, sizeof(id)) != 0)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "%s now leads to another store than when it was opened",
				      cat->given);
	kedge__free(path);
	return rc;
}
