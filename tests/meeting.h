/*
 * meeting: an allgather for ranks that are processes of one machine. They meet in shared memory. A rank that waits for
 * one that has left, or that sends another number of bytes, is told at once: the allgather fails, for all, from then on.
 */
#ifndef KEDGE_TESTS_MEETING_H
#define KEDGE_TESTS_MEETING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MEETING_RANKS 3
#define MEETING_SLOT  ((size_t)64 << 10)

struct meeting {
	pthread_mutex_t lock; /* over all */
	pthread_cond_t change;
	int size, arrived, left;
	uint64_t turn;
	size_t bytes; /* of the first that arrived */
	bool broken;
	uint8_t slots[MEETING_RANKS][MEETING_SLOT];
};

struct seat { /* a channel's context */
	struct meeting *meeting;
	int rank, size;
};

/* M is in memory that the ranks share; SIZE is their number. 0, or an errno. */
static inline int meeting_init(struct meeting *m, int size)
{
	pthread_mutexattr_t lock;
	pthread_condattr_t change;
	int rc;

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

/* A rank that will not come again. */
static inline void meeting_leave(struct meeting *m)
{
	pthread_mutex_lock(&m->lock);
	m->left++;
	pthread_cond_broadcast(&m->change);
	pthread_mutex_unlock(&m->lock);
}

/* Until all have arrived, with as many BYTES. The lock is held. */
static inline bool meeting_wait(struct meeting *m, size_t bytes)
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
static inline int meet(void *ctx, const void *send, size_t bytes, void *recv)
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

#endif
