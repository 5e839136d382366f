/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes by io_uring: a slot a write in flight. Whoever waits for a slot takes in what has completed, of all slots, and
 * continues what came back short.
 *
 * A request belongs to the thread that submitted it: when that thread ends, the kernel may cancel it. The next to wait
 * submits it again, which is harmless, because the same bytes go to the same place.
 */
#include "base/base.h"
#include "base/fault.h"
#include "base/fs.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <unistd.h>

struct write {
	const uint8_t *data;
	size_t bytes; /* that are left */
	uint64_t at;
	bool in_flight; /* the kernel has it */
	bool open;      /* submitted, and not all is written */
	bool direct;    /* as the file was when it was submitted */
};

struct kedge__fs_queue {
	struct io_uring ring;
	int fd;
	const char *path;
	unsigned depth;
	int failed; /* errno of the first write that failed */
	struct write writes[];
};

static pthread_once_t probed = PTHREAD_ONCE_INIT;
static int probe_errno;

static void probe(void)
{
	struct io_uring ring;
	int rc = io_uring_queue_init(1, &ring, 0);

	probe_errno = rc < 0 ? -rc : 0;
	if (rc == 0)
		io_uring_queue_exit(&ring);
}

bool kedge__fs_queue_built(void)
{
	return true;
}

int kedge__fs_queue_probe(void)
{
	(void)pthread_once(&probed, probe);
	return probe_errno;
}

static int ring_init(struct io_uring *ring, unsigned depth, struct kedge__error *err)
{
	int rc = io_uring_queue_init(depth, ring, 0);

	return rc < 0 ? kedge__error_set(err, kedge__error_from_errno(-rc), -rc, "cannot set up io_uring") : 0;
}

int kedge__fs_queue_new(int fd, const char *path, unsigned depth, struct kedge__fs_queue **out,
			struct kedge__error *err)
{
	struct kedge__fs_queue *q = kedge__calloc(1, sizeof(*q) + depth * sizeof(q->writes[0]));
	int rc;

	if (!q)
		return kedge__error_nomem(err);
	rc = ring_init(&q->ring, depth, err);
	if (rc) {
		kedge__free(q);
		return rc;
	}
	q->fd = fd;
	q->path = path;
	q->depth = depth;
	*out = q;
	return 0;
}

static void note_failure(struct kedge__fs_queue *q, struct write *w, int sys_errno)
{
	w->open = false;
	if (!q->failed)
		q->failed = sys_errno;
}

static void hand_over(struct kedge__fs_queue *q, struct write *w, size_t bytes)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);
	int rc;

	if (!sqe) {
		note_failure(q, w, EAGAIN);
		return;
	}
	io_uring_prep_write(sqe, q->fd, w->data, (unsigned)bytes, w->at);
	io_uring_sqe_set_data(sqe, w);
	w->in_flight = true;
	do
		rc = io_uring_submit(&q->ring);
	while (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
	if (rc < 0) {
		w->in_flight = false;
		note_failure(q, w, -rc);
	}
}

/* One request and its fault point. */
static void submit(struct kedge__fs_queue *q, struct write *w)
{
	size_t bytes = KEDGE__MIN(w->bytes, (size_t)1 << 30);

	w->direct = kedge__fs_is_direct(q->fd);
	switch (kedge__fault_point()) {
	case KEDGE__FAULT_EIO:
		note_failure(q, w, EIO);
		return;
	case KEDGE__FAULT_ENOSPC:
		note_failure(q, w, ENOSPC);
		return;
	case KEDGE__FAULT_CUT:
		(void)!pwrite(q->fd, w->data, kedge__fs_fault_part(w->direct, bytes, bytes / 2), (off_t)w->at);
		kedge__fault_die();
		break;
	case KEDGE__FAULT_SHORT:
		bytes = kedge__fs_fault_part(w->direct, bytes, 1);
		break;
	case KEDGE__FAULT_NONE:
		break;
	}
	hand_over(q, w, bytes);
}

/* The result of one request; what is left of it goes out again. */
static void complete(struct kedge__fs_queue *q, struct write *w, int result)
{
	bool refused = result == -EINVAL && w->direct;
	bool again = result == -EINTR || result == -EAGAIN || result == -ECANCELED || refused;

	w->in_flight = false;
	if (refused)
		kedge__fs_direct_refused(q->fd, q->path);
	if (result > 0) {
		w->data += result;
		w->at += (uint64_t)result;
		w->bytes -= KEDGE__MIN((size_t)result, w->bytes);
		w->open = w->bytes > 0;
	} else if (!again) {
		/* A write that takes nothing and names no reason: going on could go on for ever. */
		note_failure(q, w, result ? -result : EIO);
	}
	if (w->open && !q->failed)
		submit(q, w);
}

static void take_in(struct kedge__fs_queue *q, struct write *w)
{
	struct io_uring_cqe *cqe;
	int rc, result;

	rc = io_uring_wait_cqe(&q->ring, &cqe);
	if (rc == -EINTR || rc == -EAGAIN)
		return;
	if (rc < 0) {
		note_failure(q, w, -rc);
		w->in_flight = false;
		return;
	}
	w = io_uring_cqe_get_data(cqe);
	result = cqe->res;
	io_uring_cqe_seen(&q->ring, cqe);
	complete(q, w, result);
}

static int answer(const struct kedge__fs_queue *q, struct kedge__error *err)
{
	if (!q->failed)
		return 0;
	return kedge__error_set(err, kedge__error_from_errno(q->failed), q->failed, "cannot write %s", q->path);
}

int kedge__fs_queue_submit(struct kedge__fs_queue *q, unsigned slot, const void *data, size_t bytes, uint64_t at,
			   struct kedge__error *err)
{
	struct write *w = &q->writes[slot];

	if (at > INT64_MAX || bytes > INT64_MAX - at)
		q->failed = q->failed ? q->failed : EFBIG;
	if (q->failed || !bytes)
		return answer(q, err);
	*w = (struct write){.data = data, .bytes = bytes, .at = at, .open = true};
	submit(q, w);
	return answer(q, err);
}

int kedge__fs_queue_wait(struct kedge__fs_queue *q, unsigned slot, struct kedge__error *err)
{
	while (q->writes[slot].in_flight)
		take_in(q, &q->writes[slot]);
	return answer(q, err);
}

int kedge__fs_queue_drain(struct kedge__fs_queue *q, struct kedge__error *err)
{
	for (unsigned i = 0; i < q->depth; i++)
		(void)kedge__fs_queue_wait(q, i, NULL);
	return answer(q, err);
}

void kedge__fs_queue_free(struct kedge__fs_queue *q)
{
	if (!q)
		return;
	(void)kedge__fs_queue_drain(q, NULL);
	io_uring_queue_exit(&q->ring);
	kedge__free(q);
}

/* ------------------------------------------------------------------ reads
 * Whoever waits for a slot, and finds nobody else waiting for the ring, waits for it and tells the others. */

struct read {
	size_t got;
	bool in_flight; /* or about to be */
	uint64_t order; /* in which they were begun, and are submitted */
};

struct kedge__fs_reads {
	struct io_uring ring;
	pthread_mutex_t lock; /* over what follows, and what is submitted */
	pthread_cond_t came;
	bool watched; /* a thread waits for the ring, and has what completes to itself */
	bool broken;  /* the ring takes no more */
	uint64_t begun, submitted;
	unsigned depth;
	struct read reads[];
};

int kedge__fs_reads_new(unsigned depth, struct kedge__fs_reads **out, struct kedge__error *err)
{
	struct kedge__fs_reads *r = kedge__calloc(1, sizeof(*r) + depth * sizeof(r->reads[0]));
	int rc;

	if (!r)
		return kedge__error_nomem(err);
	rc = ring_init(&r->ring, depth, err);
	if (rc) {
		kedge__free(r);
		return rc;
	}
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->came, NULL);
	r->depth = depth;
	*out = r;
	return 0;
}

void kedge__fs_reads_begin(struct kedge__fs_reads *r, unsigned slot, int fd, void *data, size_t bytes, uint64_t at)
{
	struct read *read = &r->reads[slot];
	struct io_uring_sqe *sqe;

	pthread_mutex_lock(&r->lock);
	*read = (struct read){0};
	sqe = !r->broken && bytes <= UINT32_MAX && at <= INT64_MAX ? io_uring_get_sqe(&r->ring) : NULL;
	if (sqe) {
		io_uring_prep_read(sqe, fd, data, (unsigned)bytes, at);
		io_uring_sqe_set_data(sqe, read);
		read->in_flight = true;
		read->order = r->begun++;
	}
	pthread_mutex_unlock(&r->lock);
}

void kedge__fs_reads_submit(struct kedge__fs_reads *r)
{
	pthread_mutex_lock(&r->lock);
	while (!r->broken && r->submitted < r->begun) {
		int rc = io_uring_submit(&r->ring);

		if (rc > 0)
			r->submitted += (unsigned)rc;
		else
			r->broken = rc != -EINTR && rc != -EAGAIN && rc != -EBUSY;
	}
	for (unsigned i = 0; r->broken && i < r->depth; i++)
		if (r->reads[i].order >= r->submitted)
			r->reads[i].in_flight = false;
	pthread_mutex_unlock(&r->lock);
}

/* With the lock, which is let go while the kernel is waited for. */
static void reads_watch(struct kedge__fs_reads *r)
{
	struct io_uring_cqe *cqe = NULL;
	int rc;

	r->watched = true;
	pthread_mutex_unlock(&r->lock);
	do
		rc = io_uring_wait_cqe(&r->ring, &cqe);
	while (rc == -EINTR || rc == -EAGAIN);
	pthread_mutex_lock(&r->lock);
	r->watched = false;
	if (rc == 0) {
		struct read *read = io_uring_cqe_get_data(cqe);

		read->got = cqe->res > 0 ? (size_t)cqe->res : 0;
		read->in_flight = false;
		io_uring_cqe_seen(&r->ring, cqe);
	}
	for (unsigned i = 0; rc < 0 && i < r->depth; i++)
		r->reads[i].in_flight = false;
	pthread_cond_broadcast(&r->came);
}

size_t kedge__fs_reads_wait(struct kedge__fs_reads *r, unsigned slot)
{
	size_t got;

	pthread_mutex_lock(&r->lock);
	while (r->reads[slot].in_flight) {
		if (r->watched)
			pthread_cond_wait(&r->came, &r->lock);
		else
			reads_watch(r);
	}
	got = r->reads[slot].got;
	r->reads[slot].got = 0;
	pthread_mutex_unlock(&r->lock);
	return got;
}

void kedge__fs_reads_free(struct kedge__fs_reads *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->depth; i++)
		(void)kedge__fs_reads_wait(r, i);
	io_uring_queue_exit(&r->ring);
	pthread_cond_destroy(&r->came);
	pthread_mutex_destroy(&r->lock);
	kedge__free(r);
}
