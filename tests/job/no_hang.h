/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * no_hang: one call after the other fails on one rank of a group, and every rank returns.
 *
 * A scenario brings a group of two or three ranks to some point of its life, lets the N-th allocation, the N-th call
 * that changes the file system, or the N-th that reads it, fail on one rank while all make the scenario's calls, and
 * goes on with N + 1 until a run in which there was no N-th. Each time
 *  - every rank returns from every call. One that waits for a rank that left, or that will never come, is found by the
 *    transport (meeting.h) and by whoever looks whether anybody can still go on (watch.h), not by a clock;
 *  - all ranks are told the same, the one that failed with the cause, the others that a rank failed;
 *  - the job goes on: the next version is taken, without the fault;
 *  - or else, every fourth time, because a next version could hide that the one before was lost, or came into being
 *    without anybody's knowledge: ranks that open the store afresh get back, byte by byte, the newest version that all
 *    were told is sealed.
 *
 * In the plain build every second fault is tried: of allocations and of reads, those that are even on one rank are odd on
 * the other; a change that fails with EIO on a rank fails with ENOSPC on the other. So each call fails on one of the two
 * ranks in every scenario, and scenarios have most calls in common. What goes wrong in a single scenario on a single rank
 * is found in one of two cases; with -DSHARES=1 -DSHARE=0 in all. Under sanitizers every 37th fault is tried, of each kind on each
 * rank beginning with another one.
 */
#ifndef KEDGE_TESTS_JOB_NO_HANG_H
#define KEDGE_TESTS_JOB_NO_HANG_H

#include "ranks.h"

#include <sys/mman.h>

/* Programs that differ in a setting share the calls among them: each begins with another one. */
#ifndef SHARES
#define SHARES 2
#define SHARE  0
#endif
#ifdef __SANITIZE_THREAD__
#define STEP 97
#else
#define STEP (SANITIZED ? 37 : SHARES)
#endif
#define CONTENT 8192 /* bytes that are protected */
#define STORED 3  /* versions that are there when a life begins */
#define AFRESH 4  /* of as many faults one is followed by a fresh start of the group, the others by the next version */
#define LIFE   50 /* faults that come to one life, where several can */

enum call { OPEN, TAKE, WAIT, RESTART, DISCARD, CLOSE, CALLS };
static const char *const call_names[CALLS] = {"open", "checkpoint", "wait", "restart", "discard", "close"};

static const struct {
	const char *name;
	int code; /* of the rank that it comes to; 0: what cannot be read may be damaged, missing or unnecessary, too */
} kinds[] = {{"alloc", KEDGE_E_NOMEM}, {"eio", KEDGE_E_IO}, {"enospc", KEDGE_E_NOSPACE}, {"read", 0}};

enum { ALLOC, CHANGE_EIO, CHANGE_ENOSPC, READ, KINDS };
#define SMALL "threads=1", "reducer=tree", "chunk=512", "copy_memory=1M"

enum dirs { SHARED_L1, OWN_L1, MIXED_L1 }; /* the last: ranks 0 and 1 share, 2 has its own */

struct life;
struct scenario {
	enum threading threading;
	bool native; /* the transport reduces and gathers by itself */
	enum dirs dirs;
	bool l2;
	const char *const *more;
	void (*lose)(const struct place *p); /* of what was stored; NULL: nothing */
	uint64_t left;			     /* the newest version that all have then */
	void (*before)(struct life *l);	     /* without faults */
	void (*act)(struct life *l);	     /* with them */
};

struct board { /* what the ranks and the test share */
	char now[200];
	uint64_t injected[KINDS];
};

struct life {
	const struct scenario *s;
	const struct place *p;
	struct board *board;
	struct seat front, back, judge;
	struct kedge_group group;
	int rank, victim, kind;
	kedge_t *k;
	uint64_t version; /* the last that was tried */
	uint64_t told;	  /* the newest that all were told is sealed */
	uint64_t floor;	  /* the oldest that may come back: below it only if a discard failed half-way */
	uint64_t ceiling; /* the newest: above it only if a call failed that was not the one that seals a version */
	int rc[CALLS];	  /* 1: not made */
};

static inline void __attribute__((noreturn)) life_end(struct life *l, int status)
{
	meeting_leave(l->judge.meeting);
	rank_end(&l->front, &l->back, status);
}

#define MUST(c)                                                                                                        \
	do {                                                                                                           \
		if (!(c)) {                                                                                            \
			fprintf(stderr, "%s:%d: %s: rank %d: %s is not so (%s)\n", __FILE__, __LINE__, l->board->now,  \
				l->rank, #c, kedge_last_error(l->k));                                                  \
			life_end(l, 1);                                                                                \
		}                                                                                                      \
	} while (0)

/* Each version changes an eighth of the bytes. */
static inline void content_make(uint8_t *to, int rank, uint64_t version)
{
	for (uint64_t i = 0; i < CONTENT / 8; i++) {
		uint64_t part = i / (CONTENT / 64), last = version - (version + 8 - part) % 8;
		uint64_t word = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + last * UINT64_C(0xd1342543de82ef95) +
				(uint64_t)rank;

		word = (word ^ word >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
		memcpy(to + i * 8, &word, sizeof(word));
	}
}

/* All ranks are here. */
static inline void gather(struct life *l, const void *own, size_t bytes, void *all)
{
	MUST(meet(&l->judge, own, bytes, all) == 0);
}

static inline void barrier(struct life *l)
{
	char own = 0, all[RANKS];

	gather(l, &own, 1, all);
}

static inline void know(struct life *l, uint64_t newest)
{
	l->told = l->floor = l->ceiling = newest;
}

/* ------------------------------------------------------------------ directories */

static inline void l1_of(const struct scenario *s, const struct place *p, int rank, char *out, size_t room)
{
	if (s->dirs == OWN_L1 || (s->dirs == MIXED_L1 && rank == 2))
		text_make(out, room, "%s-%d", p->l1, rank);
	else
		text_make(out, room, "%s", p->l1);
}

/* The stores of a place, one after the other: "l1", "l1-0", ..., "l2". */
static inline void stores_move(const struct place *p, const char *from, const char *to)
{
	static const char *const names[] = {"l1", "l1-0", "l1-1", "l1-2", "l2"};
	char a[400], b[400];

	for (size_t i = 0; i < KEDGE__COUNT(names); i++) {
		text_make(a, sizeof(a), "%s%s/%s", p->dir, from, names[i]);
		text_make(b, sizeof(b), "%s%s/%s", p->dir, to, names[i]);
		(void)tree_remove(b);
		if (access(a, F_OK) == 0)
			tree_copy(a, b);
	}
}

/* ------------------------------------------------------------------ calls */

static inline void call_open(struct life *l)
{
	struct place mine = *l->p;
	struct options o;

	l1_of(l->s, l->p, l->rank, mine.l1, sizeof(mine.l1));
	l->k = NULL;
	l->rc[OPEN] = kedge_open_group("job", NULL, options_make(&o, &mine, l->s->l2, l->s->more), &l->group, &l->k);
	MUST((l->k != NULL) == (l->rc[OPEN] == 0));
}

static inline void call_take(struct life *l)
{
	content_make(m, l->rank, ++l->version);
	l->rc[TAKE] = kedge_checkpoint(l->k, l->version);
}

static inline void call_close(struct life *l)
{
	l->rc[CLOSE] = kedge_close(l->k);
	l->k = NULL;
}

/* ------------------------------------------------------------------ before */

static inline void before_nothing(struct life *l)
{
	(void)l;
}

static inline void before_open(struct life *l)
{
	call_open(l);
	MUST(l->rc[OPEN] == 0 && kedge_protect(l->k, "m", m, CONTENT, KEDGE_U8) == 0);
}

/* Whatever comes back is some version, the same on all ranks; the caller judges which. 0: none is there. */
static inline uint64_t back(struct life *l)
{
	uint64_t got = 0, all[RANKS];
	int rc;

	memset(m, 0, CONTENT);
	rc = kedge_restart(l->k, KEDGE_NEWEST, &got);
	MUST(rc == 0 || rc == KEDGE_E_NOTFOUND || rc == KEDGE_E_MISSING);
	content_make(want, l->rank, got);
	MUST(rc || memcmp(m, want, CONTENT) == 0);
	gather(l, &got, sizeof(got), all);
	for (int i = 0; i < l->group.size; i++)
		MUST(all[i] == got);
	return got;
}

static inline void before_restarted(struct life *l)
{
	before_open(l);
	MUST(back(l) == l->told);
}

static inline void take_well(struct life *l)
{
	call_take(l);
	MUST(l->rc[TAKE] == 0);
	MUST(kedge_wait(l->k) == 0);
	know(l, l->version);
}

static inline void before_running(struct life *l)
{
	before_restarted(l);
	take_well(l);
}

/* ------------------------------------------------------------------ acts */

static inline void act_open(struct life *l)
{
	call_open(l);
}

static inline void act_take(struct life *l)
{
	call_take(l);
	l->rc[WAIT] = kedge_wait(l->k);
}

/* The second is taken while the first may be on its way to L2. */
static inline void act_two(struct life *l)
{
	call_take(l);
	if (l->rc[TAKE]) {
		l->rc[WAIT] = kedge_wait(l->k);
		return;
	}
	l->ceiling = l->version;
	act_take(l);
}

static inline void act_restart(struct life *l)
{
	uint64_t got = 0;

	memset(m, 0, CONTENT);
	l->rc[RESTART] = kedge_restart(l->k, KEDGE_NEWEST, &got);
	if (l->rc[RESTART])
		return;
	content_make(want, l->rank, got);
	MUST(memcmp(m, want, CONTENT) == 0);
	MUST(got == l->told || (l->kind == READ && got < l->told)); /* what cannot be read is passed over */
}

static inline void act_restart_given(struct life *l)
{
	uint64_t got = 0;

	memset(m, 0, CONTENT);
	l->rc[RESTART] = kedge_restart(l->k, 2, &got);
	content_make(want, l->rank, 2);
	MUST(l->rc[RESTART] || (got == 2 && memcmp(m, want, CONTENT) == 0));
}

static inline void act_discard(struct life *l)
{
	l->rc[DISCARD] = kedge_discard(l->k, 3, KEDGE_LEVEL_1 | KEDGE_LEVEL_2);
}

static inline void act_close(struct life *l)
{
	call_close(l);
}

/* ------------------------------------------------------------------ judging */

static inline bool is_cause(const struct life *l, int rc)
{
	return !kinds[l->kind].code || rc == (l->rank == l->victim ? kinds[l->kind].code : KEDGE_E_GROUP);
}

/* How many faults there could have been. */
static inline uint64_t faults_met(const struct life *l)
{
	if (l->kind == READ)
		return kedge__fault_read_count();
	return l->kind == ALLOC ? kedge__fault_alloc_count() : kedge__fault_count();
}

/* True if the fault came. */
static inline bool judge(struct life *l, uint64_t n)
{
	struct {
		int rc[CALLS];
		uint64_t met;
	} own = {.met = faults_met(l)}, all[RANKS];

	MUST(kedge__fault_set(NULL, NULL) == 0);
	memcpy(own.rc, l->rc, sizeof(own.rc));
	gather(l, &own, sizeof(own), all);
	for (int c = 0; c < CALLS; c++) {
		for (int i = 0; i < l->group.size; i++)
			if (!all[i].rc[c] != !l->rc[c]) {
				fprintf(stderr, "%s: %s gives %d on rank %d, but %d on rank %d\n", l->board->now,
					call_names[c], l->rc[c], l->rank, all[i].rc[c], i);
				life_end(l, 1);
			}
		if (l->rc[c] < 0 && !is_cause(l, l->rc[c])) {
			fprintf(stderr, "%s: %s gives %d on rank %d (%s)\n", l->board->now, call_names[c], l->rc[c],
				l->rank, kedge_last_error(l->k));
			life_end(l, 1);
		}
	}
	return all[l->victim].met >= n;
}

/* What all know now of what is stored. */
static inline void conclude(struct life *l)
{
	bool sync = l->k && l->k->set.capture == KEDGE__CAPTURE_SYNC;

	if (l->rc[TAKE] == 0 && (l->rc[WAIT] == 0 || sync))
		know(l, l->version);
	else if (l->rc[TAKE] == 0 && (l->s->l2 || l->ceiling != l->told))
		l->ceiling = l->version;
	if (l->rc[DISCARD] == 0)
		know(l, 2);
	else if (l->rc[DISCARD] < 0)
		l->floor = 2;
	if (l->rc[RESTART] == 0)
		know(l, l->told);
	if (l->rc[CLOSE] == 0)
		know(l, l->version);
}

static inline void go_on(struct life *l)
{
	if (!l->k)
		before_open(l);
	else
		MUST(l->rc[OPEN] == 1 || kedge_protect(l->k, "m", m, CONTENT, KEDGE_U8) == 0);
	if (l->rc[DISCARD] < 0) {
		MUST(kedge_discard(l->k, 3, KEDGE_LEVEL_1 | KEDGE_LEVEL_2) == 0);
		know(l, 2);
	}
	if (l->rc[RESTART] < 0)
		MUST(back(l) == l->told);
	take_well(l);
}

static inline void afresh(struct life *l)
{
	uint64_t got;

	if (l->k) {
		call_close(l);
		MUST(l->rc[CLOSE] == 0);
	}
	before_open(l);
	got = back(l);
	if (got < l->floor || got > l->ceiling) {
		fprintf(stderr, "%s: version %llu comes back, expected %llu to %llu\n", l->board->now,
			(unsigned long long)got, (unsigned long long)l->floor, (unsigned long long)l->ceiling);
		life_end(l, 1);
	}
}

/* ------------------------------------------------------------------ all faults of a scenario */

static inline void life_begin(struct life *l)
{
	if (l->rank == 0)
		stores_move(l->p, "/stored", "");
	barrier(l);
	l->version = STORED;
	know(l, l->s->left);
	l->s->before(l);
}

/* Where it begins with a version that is taken, and goes on with one, the next fault comes to the same life. */
static inline void life_ends(struct life *l, uint64_t n, bool fresh)
{
	bool takes = l->s->act == act_take || l->s->act == act_two;

	if (l->s->before == before_running && takes && n % LIFE) {
		if (fresh)
			take_well(l);
		return;
	}
	call_close(l);
	MUST(l->rc[CLOSE] == 0);
	barrier(l);
}

/* False if there were fewer than N calls that could fail. */
static inline bool fault(struct life *l, uint64_t n)
{
	const bool fresh = (n / STEP + (uint64_t)l->victim) % AFRESH == 0;
	char what[40];
	bool came;

	alarm(RANK_SECONDS);
	text_make(what, sizeof(what), "%s@%llu", kinds[l->kind].name, (unsigned long long)n);
	if (l->rank == 0)
		text_make(l->board->now, sizeof(l->board->now), "%s on rank %d", what, l->victim);
	if (!l->k)
		life_begin(l);
	for (int i = 0; i < CALLS; i++)
		l->rc[i] = 1;
	barrier(l);
	MUST(l->rank != l->victim || kedge__fault_set(what, NULL) == 0);
	l->s->act(l);
	came = judge(l, n);
	conclude(l);
	if (fresh)
		afresh(l);
	else
		go_on(l);
	life_ends(l, n / STEP, fresh);
	return came;
}

static inline void quiet(void *user, enum kedge_log_level level, const char *text)
{
	(void)user, (void)level, (void)text;
}

static inline void play(struct seat *front, struct seat *back_seat, void *ctx)
{
	struct life own = *(struct life *)ctx, *l = &own;
	uint64_t first = 0;

	l->front = *front;
	l->back = *back_seat;
	l->rank = l->judge.rank = front->rank;
	l->judge.size = front->size;
	l->group = (struct kedge_group){.rank = front->rank,
					.size = front->size,
					.any_thread = l->s->threading != NO_THREAD,
					.allgather = meet,
					.reduce = l->s->native ? meet_reduce : NULL,
					.gather = l->s->native ? meet_gather : NULL,
					.ctx = &l->front};
	if (l->s->threading == ANY_THREAD_TWO_CHANNELS)
		l->group.background = &l->back;
	kedge_set_log(quiet, NULL);
	for (l->victim = 0; l->victim < l->group.size; l->victim += l->group.size - 1) {
		first += l->victim != 0; /* the number of kinds is even */
		for (l->kind = 0; l->kind < KINDS; l->kind++) {
			for (uint64_t n = 1 + (SHARE + first++) % STEP; fault(l, n); n += STEP)
				l->board->injected[l->kind] += l->rank == 0;
		}
	}
	life_end(l, 0);
}

/* ------------------------------------------------------------------ what is stored when a life begins */

static inline void store(struct seat *front, struct seat *back_seat, void *ctx)
{
	struct life own = *(struct life *)ctx, *l = &own;

	l->front = *front;
	l->back = *back_seat;
	l->rank = l->judge.rank = front->rank;
	l->judge.size = front->size;
	l->group = (struct kedge_group){.rank = front->rank, .size = front->size, .allgather = meet, .ctx = &l->front};
	for (int i = 0; i < CALLS; i++)
		l->rc[i] = 1;
	before_open(l);
	while (l->version < STORED)
		take_well(l);
	call_close(l);
	MUST(l->rc[CLOSE] == 0);
	life_end(l, 0);
}

static inline void no_hang(const struct place *p, const char *name, const struct scenario *s)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct life l = {.s = s, .p = p, .board = board};
	int size = s->dirs == MIXED_L1 ? RANKS : RANKS - 1;
	char stored[400];

	assert_true(board != MAP_FAILED);
	text_make(stored, sizeof(stored), "%s/stored", p->dir);
	assert_true(mkdir(stored, 0777) == 0);
	l.judge.meeting = meeting_new(size);
	assert_int_equal(ranks_fork(size, store, &l), 0);
	meeting_free(l.judge.meeting);
	if (s->lose)
		s->lose(p);
	stores_move(p, "", "/stored");
	l.judge.meeting = meeting_new(size);
	if (ranks_fork(size, play, &l) != 0)
		fail_msg("%s: %s", name, board->now);
	meeting_free(l.judge.meeting);
	print_message("%s: failed %llu allocations, %llu changes with EIO, %llu with ENOSPC, %llu reads\n", name,
		      (unsigned long long)board->injected[ALLOC], (unsigned long long)board->injected[CHANGE_EIO],
		      (unsigned long long)board->injected[CHANGE_ENOSPC], (unsigned long long)board->injected[READ]);
	munmap(board, sizeof(*board));
}

#endif
