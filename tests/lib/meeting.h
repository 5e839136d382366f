/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meeting: how ranks that are processes of one machine, or threads of one process, exchange messages. They meet in memory
 * that they share. If a rank has left, or sends another number of bytes, the exchange fails at once for all ranks, and
 * every later one does.
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

/* The allgather, reduce and gather of a struct kedge_group whose context is a struct seat. */
int meet(void *ctx, const void *send, size_t bytes, void *recv);
int meet_reduce(void *ctx, void *inout, size_t bytes, void (*fold)(void *acc, const void *other));
int meet_gather(void *ctx, const void *send, size_t bytes, void *recv, int root);

#endif
