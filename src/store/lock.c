/*
 * The lock file tells who owns a name; the flock on it tells whether that is still true. A process that died has lost
 * its flock, unless a child that it forked still holds the descriptor: then the file says that the owner is dead, and
 * the file is replaced by a new one. Whoever looks at the lock file in order to change it holds the mutex, lock.tmp,
 * so that two do not take over at once.
 */
#include "store/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define LOCK_BYTES_LIMIT 4096
#define MUTEX_TRIES      400
#define MUTEX_PAUSE_NS   5000000

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

/* ------------------------------------------------------------------ who owns it */

struct owner {
	char name[128], host[256];
	long pid;
	unsigned long long start; /* of the process, in clock ticks since boot */
	long long since;          /* seconds since 1970 */
};

/* State and start time of a process: fields 3 and 22 of /proc/PID/stat, behind a command name that may hold anything.
 */
static bool process_stat(long pid, char *state, unsigned long long *start)
{
	char path[64], text[1024];
	const char *at;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %c", state) != 1)
		return false;
	for (int field = 2; field < 22 && at; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, " %llu", start) == 1;
}

static void owner_self(const char *name, struct owner *owner)
{
	char state;

	memset(owner, 0, sizeof(*owner));
	snprintf(owner->name, sizeof(owner->name), "%s", name);
	for (char *c = owner->name; *c; c++)
		if (*c == '\n')
			*c = ' ';
	if (gethostname(owner->host, sizeof(owner->host) - 1) != 0)
		snprintf(owner->host, sizeof(owner->host), "unknown");
	owner->pid = (long)getpid();
	if (!process_stat(owner->pid, &state, &owner->start))
		owner->start = 0;
	owner->since = (long long)(kedge__clock_wall_ns() / 1000000000u);
}

static int owner_write(int fd, const struct owner *owner, const char *path, struct kedge__error *err)
{
	char *text = kedge__asprintf("%s\n%s\n%ld %llu %lld\n", owner->name, owner->host, owner->pid, owner->start,
				     owner->since);
	int rc;

	if (!text)
		return kedge__error_nomem(err);
	rc = kedge__fs_truncate(fd, 0, path, err);
	if (!rc)
		rc = kedge__fs_pwrite(fd, text, strlen(text), 0, path, err);
	kedge__free(text);
	return rc;
}

/* False: the text is not (yet) there, or not one of ours. */
static bool owner_read(int fd, struct owner *owner)
{
	char text[LOCK_BYTES_LIMIT];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	memset(owner, 0, sizeof(*owner));
	if (n <= 0)
		return false;
	text[n] = '\0';
	return sscanf(text, "%127[^\n]\n%255[^\n]\n%ld %llu %lld\n", owner->name, owner->host, &owner->pid,
		      &owner->start, &owner->since) == 5;
}

/* Only a process of this host can be looked at; one that cannot is taken to be alive. */
static bool owner_is_dead(const struct owner *owner)
{
	char host[256] = "", state = '?';
	unsigned long long start = 0;

	if (gethostname(host, sizeof(host) - 1) != 0 || strcmp(host, owner->host) != 0 || owner->pid <= 0)
		return false;
	if (kill((pid_t)owner->pid, 0) != 0 && errno == ESRCH)
		return true;
	if (!process_stat(owner->pid, &state, &start))
		return false;
	return state == 'Z' || state == 'X' || (owner->start && owner->start != start);
}

static int refuse(const struct kedge__catalog *cat, const struct owner *owner, bool known, struct kedge__error *err)
{
	time_t since = (time_t)owner->since;
	struct tm utc;
	char text[64] = "";

	if (!known)
		return kedge__error_set(err, KEDGE_E_LOCKED, 0, "%s is in use by another job", cat->dir);
	if (gmtime_r(&since, &utc))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc);
	return kedge__error_set(err, KEDGE_E_LOCKED, 0, "%s is in use by %s (pid %ld on %s, since %s)", cat->dir,
				owner->name, owner->pid, owner->host, text);
}

/* ------------------------------------------------------------------ the mutex over the lock file */

static void mutex_leave(const char *path, int fd)
{
	(void)kedge__fs_unlink(path, NULL);
	(void)flock_retry(fd, LOCK_UN);
	kedge__fs_close(fd);
}

/* Held for a few calls only; who does not let go within two seconds is taken for an owner. */
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
	return kedge__error_set(err, KEDGE_E_LOCKED, 0, "%s is being opened by another job", cat->dir);
}

/* ------------------------------------------------------------------ own and disown */

/* A new file in place of one whose flock a dead owner's child holds. The mutex is held. */
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

/* Open the lock file and have its flock, or be refused. The mutex is held. */
static int take_lock(const struct kedge__catalog *cat, const char *path, int *fd, struct kedge__error *err)
{
	struct owner owner;
	bool known;
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
	known = owner_read(*fd, &owner);
	kedge__fs_close(*fd);
	if (!known || !owner_is_dead(&owner))
		return refuse(cat, &owner, known, err);
	kedge__log(KEDGE_LOG_NOTICE, "%s: taking over from %s (pid %ld), which is dead", cat->dir, owner.name,
		   owner.pid);
	return replace_lock(path, fd, err);
}

static int own_locked(struct kedge__catalog *cat, const char *path, const char *name, struct kedge__error *err)
{
	struct owner owner;
	int fd, rc;

	rc = take_lock(cat, path, &fd, err);
	if (rc)
		return rc;
	owner_self(name, &owner);
	rc = owner_write(fd, &owner, path, err);
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
	char *path, *mutex;
	int fd, rc;

	if (cat->lock_fd >= 0)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "%s is owned already", cat->dir);
	path = kedge__catalog_path(cat, KEDGE__LOCK_NAME);
	mutex = kedge__catalog_path(cat, KEDGE__LOCK_NAME KEDGE__TMP_SUFFIX);
	rc = path && mutex ? mutex_enter(cat, mutex, &fd, err) : kedge__error_nomem(err);
	if (!rc) {
		rc = own_locked(cat, path, owner, err);
		mutex_leave(mutex, fd);
	}
	kedge__free(path);
	kedge__free(mutex);
	return rc;
}

void kedge__catalog_disown(struct kedge__catalog *cat)
{
	char *path;

	if (cat->lock_fd < 0)
		return;
	path = kedge__catalog_path(cat, KEDGE__LOCK_NAME);
	if (path && cat->lock_pid == getpid() && kedge__file_is_at(cat->lock_fd, path))
		(void)kedge__fs_unlink(path, NULL);
	/* Children that were forked share the flock; it ends here for them too. */
	if (cat->lock_pid == getpid())
		(void)flock_retry(cat->lock_fd, LOCK_UN);
	kedge__fs_close(cat->lock_fd);
	cat->lock_fd = -1;
	kedge__free(path);
}

static int clean_locked(const char *path, bool dry_run, size_t *removed, struct kedge__error *err)
{
	struct owner owner;
	bool dead;
	int fd, rc = 0;

	if (!kedge__fs_exists(path))
		return 0;
	rc = kedge__fs_open_lock(path, &fd, err);
	if (rc)
		return rc;
	dead = flock_retry(fd, LOCK_EX | LOCK_NB) == 0 || (owner_read(fd, &owner) && owner_is_dead(&owner));
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

/* *FD is -1 where there is no guard and none can be made: nobody can change such a store either. */
static int guard_open(const struct kedge__catalog *cat, bool alone, int *fd, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	char *path = kedge__catalog_path(cat, KEDGE__GUARD_NAME);
	int rc;

	if (!path)
		return kedge__error_nomem(err);
	rc = kedge__fs_open_lock(path, fd, &problem);
	if (rc == KEDGE_E_ACCESS && !alone) {
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
					      "%s is being read or written by another job or command", cat->dir);
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
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "%s is held alone by this thread, it cannot be pinned",
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
		rc = kedge__error_set(err, KEDGE_E_LOCKED, 0, "%s is being read or written by this process", cat->dir);
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
