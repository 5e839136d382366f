/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank posts what it sends, and those who wait for it copy it, or use it where it is. Ranks that have nothing to do
 * with each other do not wait for each other.
 */
#include "bench_protect.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define YIELDS 1000 /* as ranks of MPI would, but not for ever */

struct post {
	_Alignas(64) pthread_mutex_t lock; /* for those who sleep */
	pthread_cond_t change;
	const struct kedge_transfer *send[2]; /* of the last two steps, in turn */
	_Alignas(64) atomic_uint_fast64_t step;
	atomic_size_t left[2]; /* not taken yet */
	atomic_bool sleeper;
};

struct seat { /* a rank's */
	struct kedge__bench_ranks *ranks;
	uint32_t rank;
	uint64_t step;
	struct kedge_transfer lists[2][2 * KEDGE__TEAM_MOST]; /* of what is lent, in turn */
	uint32_t from[2 * KEDGE__TEAM_MOST];                  /* whom it has borrowed from */
	size_t borrowed;
};

struct kedge__bench_ranks {
	uint32_t count;
	struct post posts[KEDGE__TEAM_MOST];
	struct seat seats[KEDGE__TEAM_MOST];
};

struct kedge__bench_ranks *kedge__bench_ranks_new(uint32_t ranks)
{
	struct kedge__bench_ranks *g = aligned_alloc(64, sizeof(*g));

	if (!g)
		return NULL;
	memset(g, 0, sizeof(*g));
	g->count = ranks;
	for (uint32_t r = 0; r < ranks; r++) {
		pthread_mutex_init(&g->posts[r].lock, NULL);
		pthread_cond_init(&g->posts[r].change, NULL);
		g->seats[r] = (struct seat){.ranks = g, .rank = r};
	}
	return g;
}

void kedge__bench_ranks_free(struct kedge__bench_ranks *g)
{
	for (uint32_t r = 0; g && r < g->count; r++) {
		pthread_mutex_destroy(&g->posts[r].lock);
		pthread_cond_destroy(&g->posts[r].change);
	}
	free(g);
}

/* The value has changed: whoever sleeps looks again. */
static void wake(struct post *p)
{
	if (!atomic_load(&p->sleeper))
		return;
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->sleeper, false);
	pthread_cond_broadcast(&p->change);
	pthread_mutex_unlock(&p->lock);
}

static void post_up(struct post *p, const struct kedge_transfer *send, size_t sends, uint64_t step)
{
	p->send[step % 2] = send;
	atomic_store(&p->left[step % 2], sends);
	atomic_store(&p->step, step);
	wake(p);
}

static void post_taken(struct post *p, uint64_t step)
{
	if (atomic_fetch_sub(&p->left[step % 2], 1) == 1)
		wake(p);
}

static bool is_up(struct post *p, uint64_t step)
{
	return atomic_load(&p->step) >= step;
}

static bool is_drained(struct post *p, uint64_t step)
{
	return atomic_load(&p->left[step % 2]) == 0;
}

/* Others may need this processor in order to come: they get it, and after some time they need not ask for it. */
static void await(struct post *p, bool (*done)(struct post *p, uint64_t step), uint64_t step)
{
	for (int i = 0; i < YIELDS; i++) {
		if (done(p, step))
			return;
		sched_yield();
	}
	pthread_mutex_lock(&p->lock);
	for (;;) {
		atomic_store(&p->sleeper, true);
		if (done(p, step))
			break;
		pthread_cond_wait(&p->change, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
}

/* The next of P's for RANK in STEP, from *FROM on. */
static const struct kedge_transfer *next_for(const struct post *p, uint64_t step, uint32_t rank, size_t *from)
{
	const struct kedge_transfer *send = p->send[step % 2];

	while ((uint32_t)send[*from].rank != rank)
		++*from;
	return &send[(*from)++];
}

static int ranks_move(void *ctx, const struct kedge_transfer *send, size_t sends, const struct kedge_transfer *recv,
		      size_t recvs)
{
	struct seat *s = ctx;
	struct post *posts = s->ranks->posts;
	size_t from[KEDGE__TEAM_MOST] = {0};

	s->step++;
	if (sends)
		post_up(&posts[s->rank], send, sends, s->step);
	for (size_t i = 0; i < recvs; i++) {
		struct post *p = &posts[recv[i].rank];

		await(p, is_up, s->step);
		memcpy(recv[i].data, next_for(p, s->step, s->rank, &from[recv[i].rank])->data, recv[i].bytes);
		post_taken(p, s->step);
	}
	if (sends)
		await(&posts[s->rank], is_drained, s->step);
	return 0;
}

/* What was borrowed in the last call is given back, and what was lent in it has come back at the end: mostly when
 * others have posted what is borrowed now. */
static int ranks_lend(void *ctx, const struct kedge_transfer *send, size_t sends, const struct kedge_transfer *recv,
		      size_t recvs, const uint8_t **out)
{
	struct seat *s = ctx;
	struct post *posts = s->ranks->posts;
	struct kedge_transfer *list = s->lists[(s->step + 1) % 2];
	size_t from[KEDGE__TEAM_MOST] = {0};

	for (size_t i = 0; i < s->borrowed; i++)
		post_taken(&posts[s->from[i]], s->step);
	s->step++;
	s->borrowed = recvs;
	memcpy(list, send, sends * sizeof(*send));
	post_up(&posts[s->rank], list, sends, s->step);
	for (size_t i = 0; i < recvs; i++) {
		struct post *p = &posts[recv[i].rank];

		await(p, is_up, s->step);
		out[i] = next_for(p, s->step, s->rank, &from[recv[i].rank])->data;
		s->from[i] = (uint32_t)recv[i].rank;
	}
	await(&posts[s->rank], is_drained, s->step - 1);
	return 0;
}

struct kedge__mover kedge__bench_ranks_mover(struct kedge__bench_ranks *g, uint32_t rank, bool lends)
{
	return (struct kedge__mover){ranks_move, &g->seats[rank], lends ? ranks_lend : NULL};
}
