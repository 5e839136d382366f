/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank posts what it sends, and is done when all of it is taken; those who wait for it copy it. So bytes are moved once, as
 * between processes of one machine, and ranks that have nothing to do with each other do not wait for each other.
 */
#include "bench_protect.h"

#include <pthread.h>
#include <stdlib.h>

struct post {
	pthread_mutex_t lock;
	pthread_cond_t change;
	const struct kedge_transfer *send;
	size_t sends, left; /* not taken yet */
	uint64_t step;
};

struct seat { /* a rank's */
	struct kedge__bench_ranks *ranks;
	uint32_t rank;
	uint64_t step;
};

struct kedge__bench_ranks {
	uint32_t count;
	struct post posts[KEDGE__TEAM_MOST];
	struct seat seats[KEDGE__TEAM_MOST];
};

struct kedge__bench_ranks *kedge__bench_ranks_new(uint32_t ranks)
{
	struct kedge__bench_ranks *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->count = ranks;
	for (uint32_t r = 0; r < ranks; r++) {
		pthread_mutex_init(&g->posts[r].lock, NULL);
		pthread_cond_init(&g->posts[r].change, NULL);
		g->seats[r] = (struct seat){g, r, 0};
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

static void post_up(struct post *p, const struct kedge_transfer *send, size_t sends, uint64_t step)
{
	pthread_mutex_lock(&p->lock);
	p->send = send;
	p->sends = p->left = sends;
	p->step = step;
	pthread_cond_broadcast(&p->change);
	pthread_mutex_unlock(&p->lock);
}

static void post_await(struct post *p, uint64_t step)
{
	pthread_mutex_lock(&p->lock);
	while (p->step < step)
		pthread_cond_wait(&p->change, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void post_taken(struct post *p)
{
	pthread_mutex_lock(&p->lock);
	if (--p->left == 0)
		pthread_cond_broadcast(&p->change);
	pthread_mutex_unlock(&p->lock);
}

static void post_drain(struct post *p)
{
	pthread_mutex_lock(&p->lock);
	while (p->left)
		pthread_cond_wait(&p->change, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

/* The next of P's for RANK, from *FROM on. */
static const struct kedge_transfer *next_for(const struct post *p, uint32_t rank, size_t *from)
{
	while ((uint32_t)p->send[*from].rank != rank)
		++*from;
	return &p->send[(*from)++];
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

		post_await(p, s->step);
		memcpy(recv[i].data, next_for(p, s->rank, &from[recv[i].rank])->data, recv[i].bytes);
		post_taken(p);
	}
	if (sends)
		post_drain(&posts[s->rank]);
	return 0;
}

struct kedge__mover kedge__bench_ranks_mover(struct kedge__bench_ranks *g, uint32_t rank)
{
	return (struct kedge__mover){ranks_move, &g->seats[rank]};
}
