/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks say to each other, for ten thousand of them in one process: whatever the tree along which messages are
 * folded, the result is the same bit for bit, and is what a slow look at all messages finds.
 */
#include "job/messages.h"
#include "store/store.h"
#include "support.h"

#define MANY (SANITIZED ? 1000 : 10000)

enum mood { CALM, FAILURES, OUT_OF_STEP, MOODS };

static union kedge__msg *said, *folded; /* MANY each */
static int *order;

static int room_make(void **state)
{
	(void)state;
	said = calloc(MANY, sizeof(*said));
	folded = calloc(MANY, sizeof(*folded));
	order = calloc(MANY, sizeof(*order));
	return said && folded && order ? 0 : -1;
}

static int room_free(void **state)
{
	(void)state;
	free(said);
	free(folded);
	free(order);
	return 0;
}

/* ------------------------------------------------------------------ messages */

static bool seldom(uint64_t *state)
{
	return draw_below(state, MANY / 5) == 0;
}

static struct kedge__msg_same same_draw(uint64_t *state, int rank, uint64_t common)
{
	struct kedge__msg_same same;

	kedge__msg_same_set(&same, rank, common + (seldom(state) ? draw_below(state, 3) : 0));
	return same;
}

static void words_draw(uint64_t *state, char *out, size_t room)
{
	text_make(out, room, "%016llx is full: remove something", (unsigned long long)draw(state));
}

static struct kedge__run_head run_draw(uint64_t *state, int rank)
{
	uint64_t id = 77 + (seldom(state) ? draw_below(state, 3) : 0);

	return (struct kedge__run_head){.epoch = 5 + draw_below(state, 2),
					.created_ns = 1000 + draw_below(state, 3),
					.id = id,
					.links = draw_below(state, 4),
					.rank = rank};
}

static void level_draw(uint64_t *state, int rank, enum mood mood, struct kedge__level_msg *msg)
{
	struct kedge__level_witness own = {.rank = rank, .sight = KEDGE__SIGHT_STORE};

	own.id.at[0] = (uint8_t)(mood == CALM ? 1 : 1 + (seldom(state) ? draw_below(state, 3) : 0));
	text_make(own.host, sizeof(own.host), "node%d", rank / 4);
	msg->bad = msg->with.rank = msg->without.rank = msg->known.rank = msg->other.rank = -1;
	msg->nonce = draw(state);
	msg->refuse = !seldom(state);
	if (mood != CALM && seldom(state))
		own.sight = (uint32_t)draw_below(state, 6);
	if (own.sight == KEDGE__SIGHT_ERROR) {
		msg->bad = rank;
		msg->code = KEDGE_E_STATE;
		words_draw(state, msg->text, sizeof(msg->text));
	}
	*(own.sight == KEDGE__SIGHT_STORE || own.sight == KEDGE__SIGHT_DAMAGED ? &msg->with : &msg->without) = own;
	if (own.sight == KEDGE__SIGHT_STORE)
		msg->known = own;
}

static void seal_draw(uint64_t *state, struct kedge__seal_msg *msg)
{
	msg->created_ns = draw(state);
	msg->parent = draw_below(state, 100);
	msg->seconds = (double)draw_below(state, 1000) / 16;
	msg->reducer = (uint32_t)draw_below(state, 6);
	for (uint64_t n = draw_below(state, 4); n; n--) {
		uint64_t bit = draw_below(state, KEDGE__MSG_SOURCES);

		msg->sources[bit / 64] |= UINT64_C(1) << bit % 64;
	}
}

static void meet_draw(uint64_t *state, int rank, struct kedge__meet_msg *msg)
{
	for (size_t i = 0; i < KEDGE__COUNT(msg->settings); i++)
		msg->settings[i] = same_draw(state, rank, i);
	msg->leader = same_draw(state, rank, 0);
	msg->followers = rank != 0;
	msg->nonce = draw(state);
	draw_bytes(state, &msg->id, sizeof(msg->id));
}

static void begin_draw(uint64_t *state, int rank, struct kedge__begin_msg *msg)
{
	msg->held = same_draw(state, rank, 99);
	msg->run = run_draw(state, rank);
	msg->drawn = (struct kedge__run_draw){draw(state), draw(state)};
	msg->after = draw_below(state, 50);
	msg->skip = draw_below(state, 50);
	words_draw(state, msg->why, sizeof(msg->why));
}

static void common_draw(uint64_t *state, int rank, struct kedge__common_msg *msg)
{
	msg->list = same_draw(state, rank, 3);
	msg->count = draw_below(state, 500);
	msg->mask = seldom(state) ? draw(state) : ~UINT64_C(0);
	for (size_t i = 0; i < KEDGE__MSG_KEYS; i++)
		msg->keys[i] = (struct kedge__set_key){draw(state), draw(state)};
}

static void body_draw(uint64_t *state, int rank, enum mood mood, union kedge__msg *msg)
{
	switch ((enum kedge__step)msg->head.step) {
	case KEDGE__STEP_MEET:
		meet_draw(state, rank, &msg->meet);
		break;
	case KEDGE__STEP_LEVEL:
		level_draw(state, rank, mood, &msg->level);
		break;
	case KEDGE__STEP_BEGIN:
		begin_draw(state, rank, &msg->begin);
		break;
	case KEDGE__STEP_COMMON:
		common_draw(state, rank, &msg->common);
		break;
	case KEDGE__STEP_SHARE:
		msg->share.from = rank == MANY / 3 ? rank : -1;
		msg->share.bytes = 640;
		if (msg->share.from >= 0)
			draw_bytes(state, msg->share.data, sizeof(msg->share.data));
		break;
	case KEDGE__STEP_SEAL:
		seal_draw(state, &msg->seal);
		break;
	case KEDGE__STEP_PUBLISH:
		msg->publish.l2 = (struct kedge__l2_msg){1, (uint32_t)draw_below(state, 3), draw(state)};
		break;
	case KEDGE__STEP_FLUSH:
		msg->flush.written = same_draw(state, rank, 12);
		msg->flush.refers = seldom(state);
		break;
	case KEDGE__STEP_RESTART:
	case KEDGE__STEP_DISCARD:
		msg->restart.run = run_draw(state, rank);
		msg->restart.after = draw_below(state, 50);
		msg->restart.held = same_draw(state, rank, 12);
		break;
	default:
		break;
	}
}

static void say_all(uint64_t *state, enum kedge__step step, enum mood mood)
{
	memset(said, 0, MANY * sizeof(*said));
	for (int r = 0; r < MANY; r++) {
		union kedge__msg *msg = &said[r];

		msg->head = (struct kedge__msg_head){.step = step, .rank = r, .version = 7, .failed = -1, .odd = -1};
		msg->head.flags = seldom(state) ? draw(state) : 0;
		if (mood == OUT_OF_STEP && seldom(state))
			msg->head.version += 1 + draw_below(state, 2);
		if (mood == OUT_OF_STEP && seldom(state))
			msg->head.step = (uint32_t)(1 + draw_below(state, KEDGE__STEP_COUNT - 1));
		if (mood != CALM && seldom(state)) {
			msg->head.failed = r;
			msg->head.code = KEDGE_E_NOSPACE;
			words_draw(state, msg->head.text, sizeof(msg->head.text));
		}
		body_draw(state, r, mood, msg);
	}
}

/* ------------------------------------------------------------------ the slow look at all messages */

#define EACH(r) for (int r = 0; r < MANY; r++)

static void same_oracle(size_t at, struct kedge__msg_same *out)
{
	const struct kedge__msg_same *first = (const void *)((const char *)&said[0] + at);

	*out = *first;
	EACH(r)
	{
		const struct kedge__msg_same *own = (const void *)((const char *)&said[r] + at);

		if (out->other < 0 && own->value != first->value)
			out->other = r;
	}
}

#define SAME(out, member) same_oracle(offsetof(union kedge__msg, member), &(out)->member)

static bool run_is_later(const struct kedge__run_head *a, const struct kedge__run_head *b)
{
	if (a->epoch != b->epoch)
		return a->epoch > b->epoch;
	return a->created_ns != b->created_ns ? a->created_ns > b->created_ns : a->id > b->id;
}

static void run_oracle(size_t at, struct kedge__run_head *out)
{
	bool differ = false;

	*out = *(const struct kedge__run_head *)(const void *)((const char *)&said[0] + at);
	EACH(r)
	{
		const struct kedge__run_head *own = (const void *)((const char *)&said[r] + at);

		differ =
		    differ || own->id != ((const struct kedge__run_head *)(const void *)((const char *)said + at))->id;
		if (run_is_later(own, out))
			*out = *own;
	}
	out->differ = differ;
}

static void level_oracle(struct kedge__level_msg *out)
{
	out->refuse = 0;
	out->bad = out->with.rank = out->without.rank = out->known.rank = out->other.rank = -1;
	out->code = 0;
	memset(out->text, 0, sizeof(out->text));
	memset(&out->with, 0, 4 * sizeof(out->with));
	out->with.rank = out->without.rank = out->known.rank = out->other.rank = -1;
	EACH(r)
	{
		const struct kedge__level_msg *own = &said[r].level;

		out->refuse |= own->refuse;
		if (out->bad < 0 && own->bad >= 0) {
			out->bad = r;
			out->code = own->code;
			memcpy(out->text, own->text, sizeof(out->text));
		}
		if (out->with.rank < 0 && own->with.rank >= 0)
			out->with = own->with;
		if (out->without.rank < 0 && own->without.rank >= 0)
			out->without = own->without;
		if (out->known.rank < 0 && own->known.rank >= 0)
			out->known = own->known;
		else if (out->other.rank < 0 && own->known.rank >= 0 &&
			 !kedge__store_id_equal(&own->known.id, &out->known.id))
			out->other = own->known;
	}
}

static void meet_oracle(union kedge__msg *out)
{
	for (size_t i = 0; i < KEDGE__MEET_SETTINGS; i++)
		same_oracle(offsetof(union kedge__msg, meet.settings) + i * sizeof(struct kedge__msg_same),
			    &out->meet.settings[i]);
	SAME(out, meet.leader);
	EACH(r) out->meet.followers |= said[r].meet.followers;
}

static void body_oracle(union kedge__msg *out)
{
	switch ((enum kedge__step)out->head.step) {
	case KEDGE__STEP_MEET:
		meet_oracle(out);
		break;
	case KEDGE__STEP_LEVEL:
		level_oracle(&out->level);
		break;
	case KEDGE__STEP_BEGIN:
		SAME(out, begin.held);
		run_oracle(offsetof(union kedge__msg, begin.run), &out->begin.run);
		EACH(r) out->begin.after = KEDGE__MAX(out->begin.after, said[r].begin.after);
		break;
	case KEDGE__STEP_COMMON:
		SAME(out, common.list);
		EACH(r) out->common.mask &= said[r].common.mask;
		break;
	case KEDGE__STEP_SHARE:
		out->share = said[MANY / 3].share;
		out->share.head = out->head;
		break;
	case KEDGE__STEP_SEAL:
		EACH(r)
		{
			out->seal.parent = KEDGE__MAX(out->seal.parent, said[r].seal.parent);
			out->seal.seconds = KEDGE__MAX(out->seal.seconds, said[r].seal.seconds);
			for (size_t i = 0; i < KEDGE__COUNT(out->seal.sources); i++)
				out->seal.sources[i] |= said[r].seal.sources[i];
		}
		break;
	case KEDGE__STEP_FLUSH:
		SAME(out, flush.written);
		EACH(r) out->flush.refers |= said[r].flush.refers;
		break;
	case KEDGE__STEP_RESTART:
	case KEDGE__STEP_DISCARD:
		SAME(out, restart.held);
		run_oracle(offsetof(union kedge__msg, restart.run), &out->restart.run);
		EACH(r) out->restart.after = KEDGE__MAX(out->restart.after, said[r].restart.after);
		break;
	default: /* rank 0's alone, if there is anything */
		break;
	}
}

static void oracle(union kedge__msg *out)
{
	union kedge__msg head = {.head = said[0].head};

	EACH(r)
	{
		const struct kedge__msg_head *own = &said[r].head;

		head.head.flags |= own->flags;
		if (head.head.failed < 0 && own->failed >= 0) {
			head.head.failed = r;
			head.head.code = own->code;
			memcpy(head.head.text, own->text, sizeof(own->text));
		}
		if (head.head.odd < 0 && (own->step != said[0].head.step || own->version != said[0].head.version)) {
			head.head.odd = r;
			head.head.odd_step = own->step;
			head.head.odd_version = own->version;
		}
	}
	*out = head;
	if (head.head.odd >= 0)
		return;
	*out = said[0];
	body_oracle(out);
	out->head = head.head;
}

/* ------------------------------------------------------------------ trees */

enum { FAN_CHAIN = 0, FAN_ANY = 1 }; /* else the number of children */

static void order_make(uint64_t *state, bool mixed)
{
	EACH(r) order[r] = r;
	for (int r = MANY - 1; mixed && r > 0; r--) {
		int other = (int)draw_below(state, (uint64_t)r + 1), mine = order[r];

		order[r] = order[other];
		order[other] = mine;
	}
}

/* Level by level: of some neighbours each becomes one. */
static const union kedge__msg *tree_fold(uint64_t *state, size_t fan)
{
	size_t count = MANY;

	EACH(r) folded[r] = said[order[r]];
	while (count > 1) {
		size_t next = 0;

		for (size_t at = 0; at < count;) {
			size_t n = fan == FAN_CHAIN ? count : fan == FAN_ANY ? 1 + (size_t)draw_below(state, 9) : fan;
			size_t end = KEDGE__MIN(count, at + n);

			for (size_t i = at + 1; i < end; i++)
				kedge__msg_fold(&folded[at], &folded[i]);
			folded[next++] = folded[at];
			at = end;
		}
		count = next;
	}
	return &folded[0];
}

static void compare(uint64_t *state, enum kedge__step step, size_t fan, bool mixed, const union kedge__msg *expected)
{
	const union kedge__msg *got;

	order_make(state, mixed);
	got = tree_fold(state, fan);
	if (memcmp(got, expected, sizeof(*got)) != 0)
		fail_msg("step %s, fan %zu, %s: the fold is not what all said", kedge__step_name(step), fan,
			 mixed ? "mixed" : "in order");
}

static void test_any_tree_gives_the_same(void **state)
{
	uint64_t draws = 12;

	(void)state;
	for (int step = 1; step < KEDGE__STEP_COUNT; step++) {
		for (int mood = CALM; mood < MOODS; mood++) {
			union kedge__msg expected;

			say_all(&draws, (enum kedge__step)step, (enum mood)mood);
			oracle(&expected);
			compare(&draws, (enum kedge__step)step, 2, false, &expected);
			compare(&draws, (enum kedge__step)step, 16, true, &expected);
			compare(&draws, (enum kedge__step)step, FAN_CHAIN, mood == FAILURES, &expected);
			compare(&draws, (enum kedge__step)step, FAN_ANY, true, &expected);
		}
	}
}

/* ------------------------------------------------------------------ what a tree costs */

struct traffic {
	uint64_t total;
	int most;  /* messages that one rank sends and receives */
	int depth; /* of messages that wait for each other */
};

/* Up to rank 0 and down again; rank r's parent is (r - 1) / FAN. */
static struct traffic tree_traffic(int ranks, int fan)
{
	struct traffic t = {0, 0, 0};

	for (int r = 0; r < ranks; r++) {
		int children = 0, depth = 0;

		for (int c = r * fan + 1; c <= r * fan + fan && c < ranks; c++)
			children++;
		for (int at = r; at > 0; at = (at - 1) / fan)
			depth++;
		t.total += 2 * (uint64_t)children;
		t.most = KEDGE__MAX(t.most, 2 * (children + (r > 0)));
		t.depth = KEDGE__MAX(t.depth, 2 * depth);
	}
	return t;
}

static int log2_up(int n)
{
	int bits = 0;

	while (1 << bits < n)
		bits++;
	return bits;
}

static void test_cost_of_an_exchange(void **state)
{
	(void)state;
	print_message("one exchange along a tree of fan-out 2 (an allgather: every rank receives one per rank)\n");
	print_message("%8s %10s %14s %12s %12s\n", "ranks", "messages", "most per rank", "bytes there", "in a row");
	for (int ranks = 10; ranks <= 100000; ranks *= 10) {
		struct traffic t = tree_traffic(ranks, 2);

		print_message("%8d %10llu %14d %12d %12d\n", ranks, (unsigned long long)t.total, t.most,
			      t.most * KEDGE__MSG_BYTES, t.depth);
		assert_int_equal(t.total, 2 * (uint64_t)(ranks - 1));
		assert_in_range(t.most, 1, 6);
		assert_in_range(t.depth, 1, 2 * log2_up(ranks));
	}
}

static void test_at_any_address(void **state)
{
	char room[2][sizeof(union kedge__msg) + 1];
	uint64_t draws = 3;

	(void)state;
	say_all(&draws, KEDGE__STEP_SEAL, CALM);
	memcpy(room[0] + 1, &said[1], sizeof(said[1]));
	memcpy(room[1] + 1, &said[0], sizeof(said[0]));
	kedge__msg_fold(room[0] + 1, room[1] + 1);
	kedge__msg_fold(&said[0], &said[1]);
	assert_memory_equal(room[0] + 1, &said[0], sizeof(said[0]));
}

static void test_every_step_has_a_name(void **state)
{
	(void)state;
	for (int step = 1; step < KEDGE__STEP_COUNT; step++) {
		assert_true(strncmp(kedge__step_call((enum kedge__step)step), "kedge_", 6) == 0);
		for (int other = 1; other < step; other++)
			assert_string_not_equal(kedge__step_name((enum kedge__step)step),
						kedge__step_name((enum kedge__step)other));
	}
	assert_string_equal(kedge__step_name((enum kedge__step)4711), "none");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_any_tree_gives_the_same), cmocka_unit_test(test_cost_of_an_exchange),
	    cmocka_unit_test(test_at_any_address), cmocka_unit_test(test_every_step_has_a_name)};

	return cases_run(argc, argv, tests, room_make, room_free);
}
