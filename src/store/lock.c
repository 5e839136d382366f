/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock file names the owner of a name; the flock on it says whether that is still true. A process that died has
 * lost its flock, unless a forked child still holds the descriptor: if the file names the process and its death is
 * proved (holder.c), the file is replaced by a new one. Without proof, a held flock is respected unless the user
 * asserts that the owner is gone. Whoever reads the lock file in order to change it holds the mutex, lock.tmp, so that
 * two processes do not take over at once.
 */
#include "store/internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define MUTEX_TRIES    400
#define MUTEX_PAUSE_NS 5000000

static int flock_retry(int fd, int how)
{
	int rc;

	do
		rc = flock(fd, how);
	while (rc != 0 && errno == EINTR);
	return rc;
}

static int flock_failed(const char *path, struct kedge__error *err)
{
	return kedge__error_set(err, kedge__error_from_errno(errno), errno, "cannot lock %s", path);
}

static int refuse(const struct kedge__catalog *cat, const struct kedge__holder *h, enum kedge__holder_state state,
		  struct kedge__error *err)
{
	char text[KEDGE__HOLDER_TEXT] = "another job";

	if (h)
		kedge__holder_text(h, text);
	if (state == KEDGE__HOLDER_ALIVE)
		return kedge__error_set(err, KEDGE_E_LOCKED, 0, "%s is in use by %s", cat->dir, text);
	return kedge__error_set(
	    err, KEDGE_E_LOCKED, 0,
	    "%s is in use by %s; whether that process is alive cannot be checked from here: if it has ended, set "
	    "take_over = yes",
	    cat->dir, text);
}

/* ------------------------------------------------------------------ the mutex over the lock file */

static void mutex_leave(const char *path, int fd)
{
	(void)kedge__fs_unlink(path, NULL);
	(void)flock_retry(fd, LOCK_UN);
	kedge__fs_close(fd);
}

/* Held for a few calls only; whoever does not release it within two seconds is treated as an owner. */
static int mutex_enter(const struct kedge__catalog *cat, const char *path, int *fd, struct kedge__error *err)
{
	const struct timespec pause = {0, MUTEX_PAUSE_NS};
	int rc;

	for (int i = 0; i < MUTEX_TRIES; i++) {
		rc = kedge__fs_open_lock(path, fd, err);
		if (rc)
			return rc;
		if (flock_retry(*fd, LOCK_EX | LOCK_NB) == 0) {
			if (kedge__file_is_at(*fd, path))
				return 0;
		} else if (errno != EWOULDBLOCK) {
			rc = flock_failed(path, err);
			kedge__fs_close(*fd);
			return rc;
		} else {
			nanosleep(&pause, NULL);
		}
		kedge__fs_close(*fd);
	}
	return kedge__error_set(err, KEDGE_E_LOCKED, 0, "%s is being opened by another job; try again later", cat->dir);
}

/* ------------------------------------------------------------------ own and disown */

/* Replace a lock file whose flock is held by a process that does not count. The caller holds the mutex. */
static int replace_lock(const char *path, int *fd, struct kedge__error *err)
{
	int rc;

	rc = kedge__fs_unlink(path, err);
	if (rc)
		return rc;
	rc = kedge__fs_open_lock(path, fd, err);
	if (rc)
		return rc;
	if (flock_retry(*fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	rc = flock_failed(path, err);
	kedge__fs_close(*fd);
	return rc;
}

/* FD, the lock file, is held: may it be replaced nevertheless? An owner known to be alive is never overruled. */
static int overrule(const struct kedge__catalog *cat, int fd, struct kedge__error *err)
{
	enum kedge__holder_state state = KEDGE__HOLDER_UNKNOWN;
	char text[KEDGE__HOLDER_TEXT] = "another job";
	struct kedge__holder h;
	bool known = kedge__holder_read(fd, &h);

	if (known) {
		state = kedge__holder_look(&h, fd);
		kedge__holder_text(&h, text);
	}
	if (state == KEDGE__HOLDER_ALIVE || (state == KEDGE__HOLDER_UNKNOWN && !cat->take_over))
		return refuse(cat, known ? &h : NULL, state, err);
	if (state == KEDGE__HOLDER_DEAD)
		kedge__log(KEDGE_LOG_NOTICE, "%s: taking over from %s, which is dead", cat->dir, text);
	else
		kedge__log(KEDGE_LOG_WARNING, "%s: taking over from %s, because take_over = yes", cat->dir, text);
	return 0;
}

/* Open the lock file and take its flock, or fail. The caller holds the mutex. */
static int take_lock(const struct kedge__catalog *cat, const char *path, int *fd, struct kedge__error *err)
{
	int rc;

	for (;;) {
		rc = kedge__fs_open_lock(path, fd, err);
		if (rc)
			return rc;
		if (flock_retry(*fd, LOCK_EX | LOCK_NB) != 0)
			break;
		/* A job that is closing removes its file without the mutex. */
		if (kedge__file_is_at(*fd, path))
			return 0;
		kedge__fs_close(*fd);
	}
	if (errno != EWOULDBLOCK) {
		rc = flock_failed(path, err);
		kedge__fs_close(*fd);
		return rc;
	}
	rc = overrule(cat, *fd, err);
	kedge__fs_close(*fd);
	return rc ? rc : replace_lock(path, fd, err);
}

static int own_locked(struct kedge__catalog *cat, const char *path, const char *name, struct kedge__error *err)
{
	struct kedge__holder self;
	int fd, rc;

	rc = take_lock(cat, path, &fd, err);
	if (rc)
		return rc;
	kedge__holder_self(name, &self);
	rc = kedge__holder_write(fd, &self, path, err);
	if (rc) {
		(void)kedge__fs_unlink(path, NULL);
		kedge__fs_close(fd);
		return rc;
	}
	cat->lock_fd = fd;
	cat->lock_pid = getpid();
	return 0;
}

int kedge__catalog_own(struct kedge__catalog *cat, const char *owner, struct kedge__error *err)
{
	char *path, *mutex, *name;
	int fd, rc;

	if (cat->pack)
		return kedge__pack_refuse(cat, err);
	if (cat->lock_fd >= 0)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "this process already owns %s", cat->dir);
	path = kedge__catalog_path(cat, KEDGE__LOCK_NAME);
	mutex = kedge__catalog_path(cat, KEDGE__LOCK_NAME KEDGE__TMP_SUFFIX);
	name = kedge__strdup(owner);
	rc = path && mutex && name ? mutex_enter(cat, mutex, &fd, err) : kedge__error_nomem(err);
	if (!rc) {
		rc = own_locked(cat, path, owner, err);
		mutex_leave(mutex, fd);
	}
	if (!rc) {
		kedge__free(cat->owner);
		cat->owner = name;
		name = NULL;
	}
	kedge__free(name);
	kedge__free(path);
	kedge__free(mutex);
	return rc;
}

bool kedge__catalog_owned_by(const struct kedge__catalog *cat, const char *owner)
{
	char *path = kedge__catalog_path(cat, KEDGE__LOCK_NAME);
	struct kedge__holder h;
	bool is = false;
	int fd;

	if (path && kedge__fs_open_read(path, &fd, NULL) == 0) {
		is = kedge__holder_read(fd, &h) && strcmp(h.name, owner) == 0;
		kedge__fs_close(fd);
	}
	kedge__free(path);
	return is;
}

/* The caller holds the mutex: nobody tries to become the owner while this has the flock. */
static bool held(const char *path, char text[KEDGE__HOLDER_TEXT])
{
	struct kedge__holder h;
	bool is;
	int fd;

	if (kedge__fs_open_read(path, &fd, NULL))
		return false;
	is = flock_retry(fd, LOCK_SH | LOCK_NB) != 0;
	if (is && kedge__holder_read(fd, &h))
		kedge__holder_text(&h, text);
	kedge__fs_close(fd);
	return is;
}

int kedge__catalog_in_use(const struct kedge__catalog *cat, bool *used, char text[KEDGE__HOLDER_TEXT],
			  struct kedge__error *err)
{
	char *path = kedge__catalog_path(cat, KEDGE__LOCK_NAME);
	char *mutex = kedge__catalog_path(cat, KEDGE__LOCK_NAME KEDGE__TMP_SUFFIX);
	int fd, rc = path && mutex ? mutex_enter(cat, mutex, &fd, err) : kedge__error_nomem(err);

	if (!rc) {
		snprintf(text, KEDGE__HOLDER_TEXT, "another job");
		*used = held(path, text);
		mutex_leave(mutex, fd);
	}
	kedge__free(path);
	kedge__free(mutex);
	return rc;
}

/* FD's file was replaced by the one at PATH: name the new owner. */
static int lock_is_lost(const struct kedge__catalog *cat, const char *path, struct kedge__error *err)
{
	char text[KEDGE__HOLDER_TEXT] = "another job";
	struct kedge__holder h;
	int fd;

	if (kedge__fs_open_read(path, &fd, NULL) == 0) {
		if (kedge__holder_read(fd, &h))
			kedge__holder_text(&h, text);
		kedge__fs_close(fd);
	}
	return kedge__error_set(err, KEDGE_E_LOCKED, 0, "%s was taken over by %s; this job cannot write there any more",
				cat->dir, text);
}

int kedge__lock_check(const struct kedge__catalog *cat, bool *there, struct kedge__error *err)
{
	char *path;
	int rc = 0;

	*there = !cat->owner || cat->lock_fd >= 0;
	if (cat->lock_fd < 0)
		return 0;
	path = kedge__catalog_path(cat, KEDGE__LOCK_NAME);
	if (!path)
		return kedge__error_nomem(err);
	*there = kedge__file_is_at(cat->lock_fd, path);
	if (!*there && kedge__fs_exists(path))
		rc = lock_is_lost(cat, path, err);
	kedge__free(path);
	return rc;
}

void kedge__lock_drop(struct kedge__catalog *cat)
{
	kedge__fs_close(cat->lock_fd);
	cat->lock_fd = -1;
}

void kedge__catalog_disown(struct kedge__catalog *cat)
{
	char *path;

	kedge__free(cat->owner);
	cat->owner = NULL;
	if (cat->lock_fd < 0)
		return;
	path = kedge__catalog_path(cat, KEDGE__LOCK_NAME);
	if (path && cat->lock_pid == getpid() && kedge__file_is_at(cat->lock_fd, path))
		(void)kedge__fs_unlink(path, NULL);
	/* Forked children share the flock; it ends here for them, too. */
	if (cat->lock_pid == getpid())
		(void)flock_retry(cat->lock_fd, LOCK_UN);
	kedge__fs_close(cat->lock_fd);
	cat->lock_fd = -1;
	kedge__free(path);
}

static int clean_locked(const char *path, bool dry_run, size_t *removed, struct kedge__error *err)
{
	struct kedge__holder h;
	bool dead;
	int fd, rc = 0;

	if (!kedge__fs_exists(path))
		return 0;
	rc = kedge__fs_open_lock(path, &fd, err);
	if (rc)
		return rc;
	dead = flock_retry(fd, LOCK_EX | LOCK_NB) == 0 ||
	       (kedge__holder_read(fd, &h) && kedge__holder_look(&h, fd) == KEDGE__HOLDER_DEAD);
	if (dead && kedge__file_is_at(fd, path)) {
		++*removed;
		if (!dry_run)
			rc = kedge__fs_unlink(path, err);
	}
	kedge__fs_close(fd);
	return rc;
}

int kedge__lock_clean(struct kedge__catalog *cat, bool dry_run, size_t *removed, struct kedge__error *err)
{
	char *path = kedge__catalog_path(cat, KEDGE__LOCK_NAME);
	char *mutex = kedge__catalog_path(cat, KEDGE__LOCK_NAME KEDGE__TMP_SUFFIX);
	int fd, rc;

	rc = path && mutex ? 0 : kedge__error_nomem(err);
	if (rc || cat->lock_fd >= 0 || (!kedge__fs_exists(path) && !kedge__fs_exists(mutex)))
		goto free;
	if (kedge__fs_exists(mutex))
		++*removed;
	rc = mutex_enter(cat, mutex, &fd, err);
	if (rc == KEDGE_E_LOCKED)
		rc = 0;
	else if (!rc) {
		rc = clean_locked(path, dry_run, removed, err);
		mutex_leave(mutex, fd);
	}
free:
	kedge__free(path);
	kedge__free(mutex);
	return rc;
}

/* ------------------------------------------------------------------ the guard */

/* *FD is -1 if there is no guard and none can be created: nobody can change such a store either. */
static int guard_open(const struct kedge__catalog *cat, bool exclusive, int *fd, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	char *path;
	int rc;

	*fd = -1;
	if (cat->pack)
		return exclusive ? kedge__pack_refuse(cat, err) : 0;
	path = kedge__catalog_path(cat, KEDGE__GUARD_NAME);
	if (!path)
		return kedge__error_nomem(err);
	rc = kedge__fs_open_lock(path, fd, &problem);
	if (rc == KEDGE_E_ACCESS && !exclusive) {
		rc = kedge__fs_open_read(path, fd, &problem);
		if (rc == KEDGE_E_ACCESS || rc == KEDGE_E_MISSING) {
			*fd = -1;
			rc = 0;
		}
	}
	if (rc)
		kedge__error_move(err, &problem);
	kedge__error_done(&problem);
	kedge__free(path);
	return rc;
}

static int guard_take(struct kedge__catalog *cat, int how, struct kedge__error *err)
{
	int fd, rc;

	rc = guard_open(cat, (how & ~LOCK_NB) == LOCK_EX, &fd, err);
	if (rc)
		return rc;
	if (fd >= 0 && flock_retry(fd, how) != 0) {
		if (errno == EWOULDBLOCK)
			rc = kedge__error_set(err, KEDGE_E_LOCKED, 0,
					      "%s is being read or written by another job or command; try again later",
					      cat->dir);
		else
			rc = flock_failed(cat->dir, err);
		kedge__fs_close(fd);
		return rc;
	}
	cat->guard_fd = fd;
	return 0;
}

static void guard_drop(struct kedge__catalog *cat)
{
	if (cat->guard_fd >= 0)
		(void)flock_retry(cat->guard_fd, LOCK_UN);
	kedge__fs_close(cat->guard_fd);
	cat->guard_fd = -1;
	pthread_cond_broadcast(&cat->calm);
}

int kedge__catalog_pin(struct kedge__catalog *cat, struct kedge__error *err)
{
	int rc = 0;

	pthread_mutex_lock(&cat->mutex);
	if (cat->seized && pthread_equal(cat->seizer, pthread_self())) {
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "this thread holds %s exclusively and cannot pin it",
				      cat->dir);
		goto unlock;
	}
	while (cat->seized)
		pthread_cond_wait(&cat->calm, &cat->mutex);
	if (!cat->pins)
		rc = guard_take(cat, LOCK_SH, err);
	if (!rc)
		cat->pins++;
unlock:
	pthread_mutex_unlock(&cat->mutex);
	return rc;
}

void kedge__catalog_unpin(struct kedge__catalog *cat)
{
	pthread_mutex_lock(&cat->mutex);
	if (cat->pins && !--cat->pins)
		guard_drop(cat);
	pthread_mutex_unlock(&cat->mutex);
}

int kedge__catalog_seize(struct kedge__catalog *cat, bool wait, struct kedge__error *err)
{
	int rc;

	pthread_mutex_lock(&cat->mutex);
	while (wait && (cat->pins || cat->seized))
		pthread_cond_wait(&cat->calm, &cat->mutex);
	if (cat->pins || cat->seized)
		rc = kedge__error_set(err, KEDGE_E_LOCKED, 0,
				      "%s is being read or written by another thread of this process", cat->dir);
	else
		rc = guard_take(cat, wait ? LOCK_EX : LOCK_EX | LOCK_NB, err);
	if (!rc) {
		cat->seized = true;
		cat->seizer = pthread_self();
	}
	pthread_mutex_unlock(&cat->mutex);
	return rc;
}

void kedge__catalog_release(struct kedge__catalog *cat)
{
	pthread_mutex_lock(&cat->mutex);
	if (cat->seized) {
		cat->seized = false;
		guard_drop(cat);
	}
	pthread_mutex_unlock(&cat->mutex);
}
