/*
 * meeting: an allgather for ranks that are processes of one machine, or threads of one process. They meet in memory
 * that they share. A rank that waits for one that has left, or that sends another number of bytes, is told at once: the
 * allgather fails, for all, from then on.
 */
#ifndef KEDGE_TESTS_LIB_MEETING_H
#define KEDGE_TESTS_LIB_MEETING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEETING_RANKS 8
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
int meeting_init(struct meeting *m, int size);

/* In memory that children share. */
struct meeting *meeting_new(int size);
void meeting_free(struct meeting *m);

/* A rank that will not come again. */
void meeting_leave(struct meeting *m);

/* The allgather of a struct kedge_group whose context is a struct seat. */
int meet(void *ctx, const void *send, size_t bytes, void *recv);

#endif
