/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much the ranks of a job say to each other. Every rank is a thread with a handle, and their messages go along a
 * tree from mailbox to mailbox, counted there: by step, by the thread that waits for them, in messages and in bytes.
 */
#include "../lib/require.h"
#include "job/handle.h"
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

#define FEW         8
#define MANY        (SANITIZED ? 16 : 64)
#define FAN         2
#define STATE_BYTES 8192
#define VERSIONS    3

/* 1 as soon as checkpoints, flushes and restarts exchange nothing but folds. Until then the figures are only printed.
 */
#define LIMITS_HOLD 1

enum { BLOCKED = 2, PER_VERSION = 5, PER_EXCHANGE = 2 * (FAN + 1) };

/* ------------------------------------------------------------------ counting */

struct tally {
	atomic_uint steps[2][KEDGE__STEP_COUNT]; /* exchanges: of the application's thread, of others */
	atomic_uint gathers, allgathers;
	atomic_ulong messages, bytes; /* sent and received in exchanges */
	atomic_ulong gathered;        /* bytes, of gathers and allgathers */
};

struct count { /* of one rank, between two moments */
	unsigned steps[2][KEDGE__STEP_COUNT], exchanges[2], gathers, allgathers;
	unsigned long messages, bytes, gathered;
};

static struct count count_now(struct tally *t)
{
	struct count c = {
	    .gathers = t->gathers, .allgathers = t->allgathers, .messages = t->messages, .bytes = t->bytes};

	c.gathered = t->gathered;
	for (int who = 0; who < 2; who++) {
		for (int step = 0; step < KEDGE__STEP_COUNT; step++) {
			c.steps[who][step] = t->steps[who][step];
			c.exchanges[who] += t->steps[who][step];
		}
	}
	return c;
}

static struct count count_since(struct tally *t, const struct count *before)
{
	struct count c = count_now(t);

	for (int who = 0; who < 2; who++) {
		for (int step = 0; step < KEDGE__STEP_COUNT; step++)
			c.steps[who][step] -= before->steps[who][step];
		c.exchanges[who] -= before->exchanges[who];
	}
	c.gathers -= before->gathers;
	c.allgathers -= before->allgathers;
	c.messages -= before->messages;
	c.bytes -= before->bytes;
	c.gathered -= before->gathered;
	return c;
}

/* ------------------------------------------------------------------ mailboxes */

struct letter {
	const void *data; /* NULL: there is none */
	size_t bytes;
};

struct mailbox { /* of one rank on one channel */
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct letter from[MANY];
};

struct wire { /* a channel's context */
	struct mailbox *boxes;
	int rank, size;
	pthread_t app;
	struct tally *tally;
};

/* Until it is taken: DATA may go then. */
static void send_to(struct wire *w, int to, const void *data, size_t bytes)
{
	struct mailbox *box = &w->boxes[to];
	struct letter *l = &box->from[w->rank];

	pthread_mutex_lock(&box->lock);
	REQUIRE(!l->data);
	*l = (struct letter){data, bytes};
	pthread_cond_broadcast(&box->change);
	while (l->data)
		pthread_cond_wait(&box->change, &box->lock);
	pthread_mutex_unlock(&box->lock);
}

static void receive_from(struct wire *w, int from, void *data, size_t bytes)
{
	struct mailbox *box = &w->boxes[w->rank];
	struct letter *l = &box->from[from];

	pthread_mutex_lock(&box->lock);
	while (!l->data)
		pthread_cond_wait(&box->change, &box->lock);
	REQUIRE(l->bytes == bytes);
	memcpy(data, l->data, bytes);
	l->data = NULL;
	pthread_cond_broadcast(&box->change);
	pthread_mutex_unlock(&box->lock);
}

static int parent_of(const struct wire *w)
{
	return (w->rank - 1) / FAN;
}

static int child_of(const struct wire *w, int i)
{
	return w->rank * FAN + 1 + i < w->size ? w->rank * FAN + 1 + i : -1;
}

/* What all need comes from rank 0. */
static unsigned spread(struct wire *w, void *data, size_t bytes)
{
	unsigned messages = 0;

	if (w->rank) {
		receive_from(w, parent_of(w), data, bytes);
		messages++;
	}
	for (int i = 0; i < FAN && child_of(w, i) >= 0; i++, messages++)
		send_to(w, child_of(w, i), data, bytes);
	return messages;
}

static int tree_reduce(void *ctx, void *inout, size_t bytes, void (*fold)(void *acc, const void *other))
{
	struct wire *w = ctx;
	union kedge__msg other;
	unsigned messages = 0;

	REQUIRE(bytes <= sizeof(other));
	if (bytes == sizeof(other)) {
		const union kedge__msg *msg = inout;

		atomic_fetch_add(&w->tally->steps[!pthread_equal(pthread_self(), w->app)][msg->head.step], 1);
	}
	for (int i = 0; i < FAN && child_of(w, i) >= 0; i++, messages++) {
		receive_from(w, child_of(w, i), &other, bytes);
		fold(inout, &other);
	}
	if (w->rank) {
		send_to(w, parent_of(w), inout, bytes);
		messages++;
	}
	messages += spread(w, inout, bytes);
	atomic_fetch_add(&w->tally->messages, messages);
	atomic_fetch_add(&w->tally->bytes, messages * bytes);
	return 0;
}

static void collect(struct wire *w, const void *send, size_t bytes, void *recv, int root)
{
	if (w->rank != root) {
		send_to(w, root, send, bytes);
		return;
	}
	memcpy((char *)recv + (size_t)root * bytes, send, bytes);
	for (int r = 0; r < w->size; r++) {
		if (r != root)
			receive_from(w, r, (char *)recv + (size_t)r * bytes, bytes);
	}
}

static int tree_gather(void *ctx, const void *send, size_t bytes, void *recv, int root)
{
	struct wire *w = ctx;

	collect(w, send, bytes, recv, root);
	atomic_fetch_add(&w->tally->gathers, 1);
	atomic_fetch_add(&w->tally->gathered, w->rank == root ? bytes * (size_t)(w->size - 1) : bytes);
	return 0;
}

static int tree_allgather(void *ctx, const void *send, size_t bytes, void *recv)
{
	struct wire *w = ctx;

	collect(w, send, bytes, recv, 0);
	(void)spread(w, recv, bytes * (size_t)w->size);
	atomic_fetch_add(&w->tally->allgathers, 1);
	atomic_fetch_add(&w->tally->gathered, bytes * (size_t)w->size);
	return 0;
}

static void boxes_init(struct mailbox *boxes, int size)
{
	for (int r = 0; r < size; r++) {
		REQUIRE(pthread_mutex_init(&boxes[r].lock, NULL) == 0);
		REQUIRE(pthread_cond_init(&boxes[r].change, NULL) == 0);
	}
}

static void boxes_done(struct mailbox *boxes, int size)
{
	for (int r = 0; r < size; r++) {
		pthread_cond_destroy(&boxes[r].change);
		pthread_mutex_destroy(&boxes[r].lock);
	}
}

/* ------------------------------------------------------------------ a job */

struct found { /* of one rank */
	struct count open, blocked, version, restart;
};

struct member {
	const struct place *p;
	struct wire front, back;
	struct tally tally;
	struct found found;
	pthread_t thread;
	uint8_t state[STATE_BYTES], want[STATE_BYTES];
};

#define OK(call) REQUIRE((call) == 0)

/* The last version, which finds everything as it will be for all later ones. */
static void versions_take(struct member *me, kedge_t *k)
{
	struct count before;

	for (uint64_t v = 1; v <= VERSIONS; v++) {
		fill_random(me->state + v * 512, 512, v * 1000 + (uint64_t)me->front.rank);
		before = count_now(&me->tally);
		OK(kedge_checkpoint(k, v));
		me->found.blocked = count_since(&me->tally, &before);
		OK(kedge_wait(k));
		me->found.version = count_since(&me->tally, &before);
	}
	/* others' threads may have been at it during the call, and count for the version alone */
	me->found.blocked.exchanges[1] = 0;
}

static void restart_try(struct member *me, kedge_t *k)
{
	struct count before = count_now(&me->tally);
	uint64_t version = 0;

	memcpy(me->want, me->state, STATE_BYTES);
	memset(me->state, 0, STATE_BYTES);
	OK(kedge_restart(k, KEDGE_NEWEST, &version));
	me->found.restart = count_since(&me->tally, &before);
	REQUIRE(version == VERSIONS && memcmp(me->state, me->want, STATE_BYTES) == 0);
}

static void *member_live(void *arg)
{
	struct member *me = arg;
	struct kedge_group group = {.rank = me->front.rank,
				    .size = me->front.size,
				    .any_thread = 1,
				    .allgather = tree_allgather,
				    .reduce = tree_reduce,
				    .gather = tree_gather,
				    .ctx = &me->front,
				    .background = &me->back};
	struct count before = count_now(&me->tally);
	struct options o;
	kedge_t *k = NULL;

	me->front.app = me->back.app = pthread_self();
	fill_random(me->state, STATE_BYTES, (uint64_t)group.rank + 1);
	OK(kedge_open_group(
	    "job", NULL, options_make(&o, me->p, true, MORE("capture=copy", "threads=1", "reducer=tree", "chunk=64")),
	    &group, &k));
	me->found.open = count_since(&me->tally, &before);
	OK(kedge_protect(k, "state", me->state, STATE_BYTES, KEDGE_U8));
	versions_take(me, k);
	restart_try(me, k);
	OK(kedge_close(k));
	return NULL;
}

/* *ALL: SIZE of them; freed by the caller. */
static struct member *job_live(const struct place *p, int size)
{
	struct member *all = calloc((size_t)size, sizeof(*all));
	struct mailbox *front = calloc((size_t)size, sizeof(*front)), *back = calloc((size_t)size, sizeof(*back));

	REQUIRE(all && front && back);
	boxes_init(front, size);
	boxes_init(back, size);
	for (int r = 0; r < size; r++) {
		all[r].p = p;
		all[r].front = (struct wire){.boxes = front, .rank = r, .size = size, .tally = &all[r].tally};
		all[r].back = (struct wire){.boxes = back, .rank = r, .size = size, .tally = &all[r].tally};
		REQUIRE(pthread_create(&all[r].thread, NULL, member_live, &all[r]) == 0);
	}
	for (int r = 0; r < size; r++)
		REQUIRE(pthread_join(all[r].thread, NULL) == 0);
	boxes_done(front, size);
	boxes_done(back, size);
	free(front);
	free(back);
	return all;
}

/* ------------------------------------------------------------------ what does not fit into one message */

#define LIST_MOST   200
#define SHARED_FROM 3

struct speaker {
	struct wire wire;
	struct tally tally;
	struct kedge__set_key list[LIST_MOST];
	size_t count;
	char shared[3000];
	uint64_t gathered[FEW];
	pthread_t thread;
};

static void *speak(void *arg)
{
	struct speaker *me = arg;
	uint64_t own = 1000 + (uint64_t)me->wire.rank;
	struct kedge_group group = {.rank = me->wire.rank,
				    .size = me->wire.size,
				    .allgather = tree_allgather,
				    .reduce = tree_reduce,
				    .gather = tree_gather};
	struct kedge__channel ch;

	me->wire.app = pthread_self();
	OK(kedge__channel_init(&ch, &group, &me->wire, NULL));
	OK(kedge__common(&ch, me->list, &me->count, NULL));
	OK(kedge__share(&ch, SHARED_FROM, me->shared, sizeof(me->shared), NULL));
	OK(kedge__gather(&ch, SHARED_FROM, &own, sizeof(own), me->gathered, NULL));
	kedge__channel_done(&ch);
	return NULL;
}

/* Most ranks have most versions, each in another order; ODDS 0: all have the same, in the same order. */
static void list_draw(uint64_t *state, struct speaker *s, size_t most, uint64_t odds)
{
	s->count = 0;
	for (uint64_t v = 0; v < most; v++) {
		size_t at = odds ? (size_t)draw_below(state, s->count + 1) : s->count;

		if (odds && draw_below(state, odds) == 0)
			continue;
		memmove(s->list + at + 1, s->list + at, (s->count - at) * sizeof(*s->list));
		s->list[at] = (struct kedge__set_key){v, odds && draw_below(state, odds) == 0 ? 2 : 1};
		s->count++;
	}
}

static bool list_has(const struct speaker *s, struct kedge__set_key key)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->list[i].version == key.version && s->list[i].id == key.id)
			return true;
	}
	return false;
}

/* What all have, in the order of rank 0's list. */
static size_t in_common(const struct speaker *all, struct kedge__set_key *out)
{
	size_t n = 0;

	for (size_t i = 0; i < all[0].count; i++) {
		bool everywhere = true;

		for (int r = 1; r < FEW; r++)
			everywhere = everywhere && list_has(&all[r], all[0].list[i]);
		if (everywhere)
			out[n++] = all[0].list[i];
	}
	return n;
}

static void speakers_run(struct speaker *all, struct mailbox *boxes)
{
	for (int r = 0; r < FEW; r++) {
		all[r].wire = (struct wire){.boxes = boxes, .rank = r, .size = FEW, .tally = &all[r].tally};
		memset(all[r].shared, r, sizeof(all[r].shared));
		REQUIRE(pthread_create(&all[r].thread, NULL, speak, &all[r]) == 0);
	}
	for (int r = 0; r < FEW; r++)
		REQUIRE(pthread_join(all[r].thread, NULL) == 0);
}

static void test_lists_and_long_messages(void **state)
{
	static struct mailbox boxes[FEW];
	uint64_t draws = 5;

	(void)state;
	boxes_init(boxes, FEW);
	for (int turn = 0; turn < 40; turn++) {
		struct speaker *all = calloc(FEW, sizeof(*all));
		struct kedge__set_key expected[LIST_MOST];
		size_t n, most = (size_t)draw_below(&draws, LIST_MOST);

		assert_non_null(all);
		for (int r = 0; r < FEW; r++)
			list_draw(&draws, &all[r], most, (uint64_t)(turn % 4) * 20);
		n = in_common(all, expected);
		speakers_run(all, boxes);
		for (int r = 0; r < FEW; r++) {
			assert_int_equal(all[r].count, n);
			assert_memory_equal(all[r].list, expected, n * sizeof(*expected));
			assert_memory_equal(all[r].shared, all[SHARED_FROM].shared, sizeof(all[r].shared));
			assert_int_equal(all[r].shared[2999], SHARED_FROM);
			assert_int_equal(all[SHARED_FROM].gathered[r], 1000 + r);
			if (turn % 4 == 0) /* one exchange finds out that all have the same */
				assert_int_equal(all[r].tally.steps[0][KEDGE__STEP_COMMON], 1);
		}
		free(all);
	}
	boxes_done(boxes, FEW);
}

/* ------------------------------------------------------------------ what is found */

static void count_print(const char *what, const struct count *c)
{
	print_message(
	    "%s: %u exchanges by the application's thread, %u in the background; %lu messages of %lu bytes in "
	    "all; %u gathers, %u allgathers, %lu bytes\n",
	    what, c->exchanges[0], c->exchanges[1], c->messages, c->bytes, c->gathers, c->allgathers, c->gathered);
	for (int step = 1; step < KEDGE__STEP_COUNT; step++) {
		if (c->steps[0][step] || c->steps[1][step])
			print_message("    %-14s %2u %2u\n", kedge__step_name((enum kedge__step)step),
				      c->steps[0][step], c->steps[1][step]);
	}
}

static void found_print(const struct member *all, int size)
{
	print_message("%d ranks, one L1, an L2, capture = copy; rank 1:\n", size);
	count_print("open", &all[1].found.open);
	count_print("a checkpoint and its flush", &all[1].found.version);
	count_print("of which kedge_checkpoint() waits for", &all[1].found.blocked);
	count_print("a restart", &all[1].found.restart);
}

static unsigned exchanges_of(const struct count *c)
{
	return c->exchanges[0] + c->exchanges[1];
}

/* No rank has more to do in an exchange than its place in the tree asks for. */
static void degree_check(const struct count *c)
{
	assert_in_range(c->messages, 0, exchanges_of(c) * (unsigned long)PER_EXCHANGE);
	assert_in_range(c->bytes, 0, c->messages * (unsigned long)KEDGE__MSG_BYTES);
}

static void limits_check(const struct found *f)
{
	assert_in_range(f->blocked.exchanges[0], 1, BLOCKED);
	assert_in_range(exchanges_of(&f->version), 1, PER_VERSION);
	assert_int_equal(f->open.allgathers, 0);
	assert_int_equal(f->version.allgathers, 0);
	assert_int_equal(f->restart.allgathers, 0);
}

static void test_a_rank_says_as_much_among_many(void **state)
{
	struct place *p = *state, other = *p;
	struct member *few, *many;

	few = job_live(p, FEW);
	text_make(other.l1, sizeof(other.l1), "%s/many-l1", p->dir);
	text_make(other.l2, sizeof(other.l2), "%s/many-l2", p->dir);
	many = job_live(&other, MANY);
	found_print(many, MANY);
	for (int r = 0; r < MANY; r++) {
		const struct found *f = &many[r].found;

		degree_check(&f->version);
		degree_check(&f->restart);
		assert_int_equal(exchanges_of(&f->version), exchanges_of(&many[0].found.version));
		limits_check(f);
	}
	/* rank 1 has two children in both trees */
	assert_int_equal(exchanges_of(&many[1].found.open), exchanges_of(&few[1].found.open));
	assert_int_equal(many[1].found.version.bytes, few[1].found.version.bytes);
	assert_int_equal(many[1].found.restart.bytes, few[1].found.restart.bytes);
	assert_int_equal(many[1].found.version.gathered, few[1].found.version.gathered);
	free(few);
	free(many);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_a_rank_says_as_much_among_many),
					   cmocka_unit_test(test_lists_and_long_messages)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
