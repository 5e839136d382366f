/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks: groups without MPI. Every rank is a process of its own, and they meet in shared memory. A rank that finds
 * something wrong says so and exits; the others find out when they wait for it.
 */
#ifndef KEDGE_TESTS_JOB_RANKS_H
#define KEDGE_TESTS_JOB_RANKS_H

#include "../lib/ranks.h"
#include "job/handle.h"
#include "support.h"

#include <sys/wait.h>

#define BYTES 30000
#define RANKS 3

struct rank {
	const struct place *p;
	int rank, size;
	struct seat front, back;
	struct kedge_group group;
	bool own_dirs, l2;
	const char *const *more;
};

#define CHECK(c)                                                                                                       \
	do {                                                                                                           \
		if (!(c)) {                                                                                            \
			fprintf(stderr, "%s:%d: rank %d: %s is not so (%s)\n", __FILE__, __LINE__, r->rank, #c,        \
				kedge_last_error(k));                                                                  \
			rank_end(&r->front, &r->back, 1);                                                              \
		}                                                                                                      \
	} while (0)

enum threading { NO_THREAD, ANY_THREAD, ANY_THREAD_TWO_CHANNELS };

struct plan {
	int size;
	enum threading threading;
	bool own_dirs, l2;
	const char *const *more;
};

struct ranks {
	const struct place *p;
	struct plan plan;
	void (*fn)(struct rank *r);
};

static inline void rank_play(struct seat *front, struct seat *back, void *ctx)
{
	const struct ranks *all = ctx;
	struct rank r = {.p = all->p,
			 .rank = front->rank,
			 .size = front->size,
			 .front = *front,
			 .back = *back,
			 .own_dirs = all->plan.own_dirs,
			 .l2 = all->plan.l2,
			 .more = all->plan.more};

	r.group = (struct kedge_group){.rank = r.rank,
				       .size = r.size,
				       .any_thread = all->plan.threading != NO_THREAD,
				       .allgather = meet,
				       .ctx = &r.front};
	if (all->plan.threading == ANY_THREAD_TWO_CHANNELS)
		r.group.background = &r.back;
	if ((r.size + (int)all->plan.threading) % 2) { /* some groups of each kind */
		r.group.reduce = meet_reduce;
		r.group.gather = meet_gather;
	}
	all->fn(&r);
}

static inline void ranks_run(const struct place *p, struct plan plan, void (*fn)(struct rank *r))
{
	struct ranks all = {p, plan, fn};

	assert_int_equal(ranks_fork(plan.size, rank_play, &all), 0);
}

static inline void rank_dir(const struct rank *r, char *out, size_t room)
{
	if (r->own_dirs)
		text_make(out, room, "%s-%d", r->p->l1, r->rank);
	else
		text_make(out, room, "%s", r->p->l1);
}

static inline int open_rc(struct rank *r, kedge_t **k)
{
	struct place mine = *r->p;
	struct options o;

	rank_dir(r, mine.l1, sizeof(mine.l1));
	return kedge_open_group("job", NULL, options_make(&o, &mine, r->l2, r->more), &r->group, k);
}

static inline kedge_t *rank_open(struct rank *r)
{
	kedge_t *k = NULL;

	CHECK(open_rc(r, &k) == 0);
	return k;
}

static uint8_t m[BYTES], want[BYTES];

static inline void state_make(uint8_t *to, int rank, uint64_t version)
{
	fill_random(to, BYTES, (uint64_t)rank + 1);
	for (uint64_t v = version > 10 ? version - 9 : 1; v <= version; v++) /* older ones are overwritten */
		fill_random(to + v % 10 * (BYTES / 10), BYTES / 10, v * 10 + (uint64_t)rank);
}

static inline void take(struct rank *r, kedge_t *k, uint64_t first, uint64_t last)
{
	for (uint64_t v = first; v <= last; v++) {
		state_make(m, r->rank, v);
		CHECK(kedge_checkpoint(k, v) == 0);
		memset(m, 0, BYTES);
	}
}

static inline void comes_back(struct rank *r, kedge_t *k, uint64_t wanted, uint64_t expected)
{
	uint64_t version = 0;

	memset(m, 0, BYTES);
	CHECK(kedge_restart(k, wanted, &version) == 0);
	CHECK(version == expected);
	state_make(want, r->rank, expected);
	CHECK(memcmp(m, want, BYTES) == 0);
}

static inline void dirs_remove_l1(const struct place *p)
{
	char dir[400];

	tree_remove(p->l1);
	for (int i = 0; i < RANKS; i++) {
		text_make(dir, sizeof(dir), "%s-%d", p->l1, i);
		tree_remove(dir);
	}
}

static inline void dirs_remove(const struct place *p)
{
	dirs_remove_l1(p);
	tree_remove(p->l2);
}

#endif
