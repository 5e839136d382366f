/*
 * ranks: groups without MPI. Every rank is a process of its own, and they meet in shared memory. A rank that finds
 * something wrong says so and exits; the others find out when they wait for it.
 */
#ifndef KEDGE_TESTS_JOB_RANKS_H
#define KEDGE_TESTS_JOB_RANKS_H

#include "../meeting.h"
#include "job/handle.h"
#include "support.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BYTES 30000
#define RANKS MEETING_RANKS

struct rank {
	const struct place *p;
	int rank, size;
	struct seat front, back;
	struct kedge_group group;
	bool own_dirs, l2;
	const char *const *more;
};

static inline void rank_end(struct rank *r, int status)
{
	meeting_leave(r->front.meeting);
	meeting_leave(r->back.meeting);
	_exit(status);
}

#define CHECK(c)                                                                                                       \
	do {                                                                                                           \
		if (!(c)) {                                                                                            \
			fprintf(stderr, "%s:%d: rank %d: %s is not so (%s)\n", __FILE__, __LINE__, r->rank, #c,        \
				kedge_last_error(k));                                                                  \
			rank_end(r, 1);                                                                                \
		}                                                                                                      \
	} while (0)

static inline struct meeting *meeting_new(int size)
{
	struct meeting *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(m, MAP_FAILED);
	assert_int_equal(meeting_init(m, size), 0);
	return m;
}

enum threading { NO_THREAD, ANY_THREAD, ANY_THREAD_TWO_CHANNELS };

struct plan {
	int size;
	enum threading threading;
	bool own_dirs, l2;
	const char *const *more;
};

static inline void ranks_run(const struct place *p, struct plan plan, void (*fn)(struct rank *r))
{
	struct meeting *front = meeting_new(plan.size), *back = meeting_new(plan.size);
	pid_t pids[RANKS];

	fflush(NULL);
	for (int i = 0; i < plan.size; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			struct rank r = {.p = p,
					 .rank = i,
					 .size = plan.size,
					 .own_dirs = plan.own_dirs,
					 .l2 = plan.l2,
					 .more = plan.more};

			alarm(60);
			r.front = (struct seat){front, i, plan.size};
			r.back = (struct seat){back, i, plan.size};
			r.group = (struct kedge_group){.rank = i,
						       .size = plan.size,
						       .any_thread = plan.threading != NO_THREAD,
						       .allgather = meet,
						       .ctx = &r.front};
			if (plan.threading == ANY_THREAD_TWO_CHANNELS)
				r.group.background = &r.back;
			fn(&r);
			rank_end(&r, 0);
		}
	}
	for (int i = 0; i < plan.size; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		if (status)
			fprintf(stderr, "rank %d ended with status %#x\n", i, (unsigned)status);
		assert_int_equal(status, 0);
	}
	munmap(front, sizeof(*front));
	munmap(back, sizeof(*back));
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
