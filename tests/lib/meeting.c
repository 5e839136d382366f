/* SPDX-License-Identifier: BSD-3-Clause */
#include "meeting.h"

#include "require.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int meeting_init(struct meeting *m, int size)
{
	pthread_mutexattr_t lock;
	pthread_condattr_t change;
	int rc;

	if (size > MEETING_RANKS)
		return EINVAL;
	pthread_mutexattr_init(&lock);
	pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&change);
	pthread_condattr_setpshared(&change, PTHREAD_PROCESS_SHARED);
	m->size = size;
	m->arrived = m->left = 0;
	m->broken = false;
	rc = pthread_mutex_init(&m->lock, &lock);
	if (!rc)
		rc = pthread_cond_init(&m->change, &change);
	pthread_mutexattr_destroy(&lock);
	pthread_condattr_destroy(&change);
	return rc;
}

struct meeting *meeting_new(int size)
{
	struct meeting *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	REQUIRE(m != MAP_FAILED && meeting_init(m, size) == 0);
	return m;
}

void meeting_free(struct meeting *m)
{
	munmap(m, sizeof(*m));
}

void meeting_leave(struct meeting *m)
{
	pthread_mutex_lock(&m->lock);
	m->left++;
	pthread_cond_broadcast(&m->change);
	pthread_mutex_unlock(&m->lock);
}

/* Until all have arrived, with as many BYTES. The lock is held. */
static bool meeting_wait(struct meeting *m, size_t bytes)
{
	uint64_t turn = m->turn;

	if (m->arrived++ == 0)
		m->bytes = bytes;
	else if (m->bytes != bytes)
		m->broken = true;
	if (m->arrived == m->size) {
		m->arrived = 0;
		m->turn++;
	}
	if (m->broken || m->turn != turn)
		pthread_cond_broadcast(&m->change);
	while (m->turn == turn && !m->broken) {
		if (m->left) {
			m->broken = true;
			pthread_cond_broadcast(&m->change);
			break;
		}
		pthread_cond_wait(&m->change, &m->lock);
	}
	return !m->broken;
}

/* What does not fit into a slot goes in several turns. */
int meet(void *ctx, const void *send, size_t bytes, void *recv)
{
	const struct seat *s = ctx;
	struct meeting *m = s->meeting;
	bool met = true;

	pthread_mutex_lock(&m->lock);
	for (size_t done = 0; done < bytes && met; done += MEETING_SLOT) {
		size_t n = bytes - done < MEETING_SLOT ? bytes - done : MEETING_SLOT;

		memcpy(m->slots[s->rank], (const char *)send + done, n);
		met = meeting_wait(m, bytes);
		for (int i = 0; i < s->size && met; i++)
			memcpy((char *)recv + (size_t)i * bytes + done, m->slots[i], n);
		met = met && meeting_wait(m, bytes);
	}
	pthread_mutex_unlock(&m->lock);
	return met ? 0 : -1;
}

/* Along a tree of processes every node would fold; here every rank folds all messages, each in another order. */
int meet_reduce(void *ctx, void *inout, size_t bytes, void (*fold)(void *acc, const void *other))
{
	const struct seat *s = ctx;
	struct meeting *m = s->meeting;
	bool met;

	if (bytes > MEETING_SLOT)
		return -1;
	pthread_mutex_lock(&m->lock);
	memcpy(m->slots[s->rank], inout, bytes);
	met = meeting_wait(m, bytes);
	for (int i = 1; i < s->size && met; i++)
		fold(inout, m->slots[(s->rank + i) % s->size]);
	met = met && meeting_wait(m, bytes);
	pthread_mutex_unlock(&m->lock);
	return met ? 0 : -1;
}

int meet_gather(void *ctx, const void *send, size_t bytes, void *recv, int root)
{
	const struct seat *s = ctx;
	struct meeting *m = s->meeting;
	bool met;

	if (bytes > MEETING_SLOT || (recv != NULL) != (s->rank == root))
		return -1;
	pthread_mutex_lock(&m->lock);
	memcpy(m->slots[s->rank], send, bytes);
	met = meeting_wait(m, bytes);
	for (int i = 0; i < s->size && met && recv; i++)
		memcpy((char *)recv + (size_t)i * bytes, m->slots[i], bytes);
	met = met && meeting_wait(m, bytes);
	pthread_mutex_unlock(&m->lock);
	return met ? 0 : -1;
}
