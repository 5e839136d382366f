/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns at a GPU, by locks that the kernel takes back.
 *
 * The queue of a GPU is a file, named after its uuid, in a directory that is the user's alone. Locks are on bytes of it
 * that need not exist: byte 0 is the gate, and each ticket has a byte of its own behind it. Who wants a turn passes the
 * gate, draws the next ticket, locks its byte and leaves the gate; then it waits for a lock, a shared one, on all
 * tickets before its own. So it has its turn when they are all given back, and nobody behind it has:
 *
 *   1. the byte of a ticket is locked, inside the gate, before the next ticket can be drawn;
 *   2. it stays locked until the turn is given back, or its process is gone;
 *   3. nobody has a turn while a ticket before its own is locked.
 *
 * A process that is killed, at any instruction, has no locks any more: nothing is left that somebody else would have to
 * clean up, or could wait for. That is why it is not a mutex in shared memory: a robust one names its owner by a number
 * which means another process, or none, in another container, depends on the C library that both sides have, and leaves
 * what it guards as it was. Nor is it one lock that all wait for: the kernel does not say who gets it next.
 *
 * Locks belong to the open file (OFD), not to the process: so each turn has a file of its own, and threads wait for
 * each other as processes do. A child that is forked has the same open file, and would keep the turn of a parent that
 * is killed; therefore it closes what it has inherited (pthread_atfork). A process that is stopped while it has its
 * turn keeps it.
 *
 * If the file is removed, those who come later have another queue. The number of the next ticket is in the first eight
 * bytes.
 */
#include "gpu/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE       "/dev/shm/kedge-%u" /* the same for all processes of a user, whatever is in their environment */
#define GATE        0
#define FIRST       64 /* the byte of ticket 0 */
#define TICKET_MASK ((UINT64_C(1) << 62) - 1)

/* All turns of the process, for its children. */
static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	struct kedge__gpu_turn *first;
} turns = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void fork_before(void)
{
	pthread_mutex_lock(&turns.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&turns.lock);
}

static void fork_child(void)
{
	for (struct kedge__gpu_turn *t = turns.first; t; t = t->next) {
		kedge__fs_close(t->fd);
		t->fd = -1;
	}
	turns.first = NULL;
	pthread_mutex_unlock(&turns.lock);
}

static void fork_watch(void)
{
	(void)pthread_atfork(fork_before, fork_parent, fork_child);
}

/* ------------------------------------------------------------------ the file */

/* Nobody else may have put something there. */
static int place_check(const char *dir, struct kedge__error *err)
{
	struct stat st;

	if (lstat(dir, &st) != 0)
		return kedge__error_set(err, kedge__error_from_errno(errno), errno, "cannot look at %s", dir);
	if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IRWXG | S_IRWXO)))
		return 0;
	return kedge__error_set(err, KEDGE_E_ACCESS, 0,
				"%s is not a directory of this user alone, with access for nobody else", dir);
}

static int place_need(const struct kedge__gpu *g, char **dir, struct kedge__error *err)
{
	char *place = g->queues[0] ? kedge__strdup(g->queues) : kedge__asprintf(PLACE, (unsigned)geteuid());
	int rc = place ? kedge__fs_mkdir(place, err) : kedge__error_nomem(err);

	if (!rc)
		rc = place_check(place, err);
	if (rc)
		kedge__free(place);
	else
		*dir = place;
	return rc;
}

static char *path_make(const struct kedge__gpu *g, const char *dir)
{
	char name[2 * sizeof(g->uuid) + 1];

	for (size_t i = 0; i < sizeof(g->uuid); i++)
		snprintf(name + 2 * i, 3, "%02x", g->uuid[i]);
	return kedge__asprintf("%s/gpu-%s", dir, name);
}

/* No child is forked between the two: it would have the file and not know of it. */
static int enlist(struct kedge__gpu_turn *turn, const char *path, struct kedge__error *err)
{
	int rc;

	pthread_once(&turns.once, fork_watch);
	pthread_mutex_lock(&turns.lock);
	rc = kedge__fs_open_lock(path, &turn->fd, err);
	if (!rc) {
		turn->next = turns.first;
		turns.first = turn;
	}
	pthread_mutex_unlock(&turns.lock);
	return rc;
}

static void delist(struct kedge__gpu_turn *turn)
{
	struct kedge__gpu_turn **t = &turns.first;

	pthread_mutex_lock(&turns.lock);
	while (*t && *t != turn)
		t = &(*t)->next;
	if (*t)
		*t = turn->next;
	kedge__fs_close(turn->fd);
	turn->fd = -1;
	pthread_mutex_unlock(&turns.lock);
}

/* ------------------------------------------------------------------ the queue */

static int lock(int fd, short type, uint64_t from, uint64_t bytes, const char *path, struct kedge__error *err)
{
	struct flock f = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)bytes};
	int rc;

	do
		rc = fcntl(fd, F_OFD_SETLKW, &f);
	while (rc != 0 && errno == EINTR);
	if (rc == 0)
		return 0;
	return kedge__error_set(err, kedge__error_from_errno(errno), errno, "cannot lock %s", path);
}

/* Called inside the gate. */
static int ticket_take(int fd, uint64_t *ticket, const char *path, struct kedge__error *err)
{
	uint64_t bytes = 0, now = 0, next;
	int rc = kedge__fs_size(fd, &bytes, path, err);

	if (!rc && bytes >= sizeof(now))
		rc = kedge__fs_pread(fd, &now, sizeof(now), 0, path, err);
	now &= TICKET_MASK;
	if (!rc)
		rc = lock(fd, F_WRLCK, FIRST + now, 1, path, err);
	next = now + 1;
	if (!rc)
		rc = kedge__fs_pwrite(fd, &next, sizeof(next), 0, path, err);
	if (!rc)
		*ticket = now;
	return rc;
}

static int ticket_draw(int fd, uint64_t *ticket, const char *path, struct kedge__error *err)
{
	int rc = lock(fd, F_WRLCK, GATE, 1, path, err);

	if (!rc)
		rc = ticket_take(fd, ticket, path, err);
	return rc ? rc : lock(fd, F_UNLCK, GATE, 1, path, err);
}

static int queue_pass(struct kedge__gpu_turn *turn, const char *path, struct kedge__error *err)
{
	uint64_t ticket = 0;
	int rc = enlist(turn, path, err);

	if (!rc)
		rc = ticket_draw(turn->fd, &ticket, path, err);
	if (!rc && ticket)
		rc = lock(turn->fd, F_RDLCK, FIRST, ticket, path, err);
	return rc;
}

void kedge__gpu_turn_take(struct kedge__gpu *g, struct kedge__gpu_turn *turn)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *dir = NULL, *path = NULL;
	int rc;

	*turn = (struct kedge__gpu_turn)KEDGE__GPU_TURN_NONE;
	if (!g->queues)
		return;
	rc = place_need(g, &dir, &err);
	path = rc ? NULL : path_make(g, dir);
	if (!rc)
		rc = path ? queue_pass(turn, path, &err) : kedge__error_nomem(&err);
	if (rc) {
		kedge__gpu_turn_give(turn);
		if (!g->queueless)
			kedge__log(KEDGE_LOG_NOTICE, "processes that share the GPU do not take turns: %s",
				   kedge__error_text(&err));
		g->queueless = true;
	}
	kedge__error_done(&err);
	kedge__free(path);
	kedge__free(dir);
}

void kedge__gpu_turn_give(struct kedge__gpu_turn *turn)
{
	if (turn->fd < 0)
		return;
	/* Also for a child that could not be kept from inheriting it. */
	(void)lock(turn->fd, F_UNLCK, 0, 0, "", NULL);
	delist(turn);
}
