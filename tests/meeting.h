/* meeting: an allgather for ranks that are processes of one machine. They meet in shared memory. */
#ifndef KEDGE_TESTS_MEETING_H
#define KEDGE_TESTS_MEETING_H

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define MEETING_RANKS 3
#define MEETING_SLOT  ((size_t)64 << 10)

struct meeting {
	pthread_barrier_t barrier;
	uint8_t slots[MEETING_RANKS][MEETING_SLOT];
};

struct seat { /* a channel's context */
	struct meeting *meeting;
	int rank, size;
};

/* M is in memory that the ranks share; SIZE is their number. 0, or an errno. */
static inline int meeting_init(struct meeting *m, int size)
{
	pthread_barrierattr_t shared;
	int rc;

	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	rc = pthread_barrier_init(&m->barrier, &shared, (unsigned)size);
	pthread_barrierattr_destroy(&shared);
	return rc;
}

/* What does not fit into a slot goes in several turns. */
static inline int meet(void *ctx, const void *send, size_t bytes, void *recv)
{
	const struct seat *s = ctx;

	for (size_t done = 0; done < bytes; done += MEETING_SLOT) {
		size_t n = bytes - done < MEETING_SLOT ? bytes - done : MEETING_SLOT;

		memcpy(s->meeting->slots[s->rank], (const char *)send + done, n);
		pthread_barrier_wait(&s->meeting->barrier);
		for (int i = 0; i < s->size; i++)
			memcpy((char *)recv + (size_t)i * bytes + done, s->meeting->slots[i], n);
		pthread_barrier_wait(&s->meeting->barrier);
	}
	return 0;
}

#endif
