/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Redundancy on L1: nodes are directories, and a node's death is the removal of its directory. After it the ranks are
 * placed differently, with spares for what was lost, and get back bit for bit what was saved, or what L2 has.
 */
#include "ranks.h"

#include "../lib/damage.h"

#define NODES 16 /* and as many spares */

struct world {
	const char *protect;
	int ranks, nodes, per_node;
	enum threading threading;
	const char *const *more;
	/* of a life */
	int shift;      /* how far ranks have moved */
	unsigned lost;  /* nodes that are replaced by spares, */
	int spare;      /* the first of which this is */
	bool l2;
	uint64_t expected, last; /* what comes back, and how far it goes on; 0: nothing */
	const char *says;        /* what rank 0's log has; NULL: anything */
	const char *fault;       /* of rank FAULTY while it opens the job */
	int faulty;
	int code; /* that opening fails with on that rank; 0: it does not */
};

static struct world w;

static int node_of(int rank)
{
	int node = (rank / w.per_node + w.shift) % w.nodes;

	return w.lost >> node & 1 ? w.spare + node : node;
}

static void node_dir(const struct place *p, int node, char *out, size_t room)
{
	text_make(out, room, "%s/now/node%d", p->dir, node);
}

static kedge_t *world_open(struct rank *r)
{
	struct place mine = *r->p;
	const char *more[12] = {NULL};
	char protect[40], node[40];
	struct options o;
	kedge_t *k = NULL;
	size_t n = 0;
	int rc;

	node_dir(r->p, node_of(r->rank), mine.l1, sizeof(mine.l1));
	text_make(mine.l2, sizeof(mine.l2), "%s/now/l2", r->p->dir);
	text_make(protect, sizeof(protect), "protect=%s", w.protect);
	text_make(node, sizeof(node), "node=n%d", node_of(r->rank));
	more[n++] = protect;
	more[n++] = node;
	more[n++] = "threads=1";
	for (size_t i = 0; w.more && w.more[i]; i++)
		more[n++] = w.more[i];
	if (w.fault && r->rank == w.faulty)
		CHECK(kedge__fault_set(w.fault, NULL) == 0);
	rc = kedge_open_group("job", NULL, options_make(&o, &mine, w.l2, more), &r->group, &k);
	CHECK(kedge__fault_set(NULL, NULL) == 0);
	CHECK(!w.code == !rc);
	return k;
}

static void rank_live(struct rank *r)
{
	static struct place log;
	uint64_t version = 0;
	kedge_t *k;

	kedge_set_log(place_log, &log);
	k = world_open(r);
	if (!k)
		return;
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	if (w.expected)
		comes_back(r, k, KEDGE_NEWEST, w.expected);
	else
		CHECK(kedge_restart(k, KEDGE_NEWEST, &version) == KEDGE_E_NOTFOUND);
	if (w.last)
		take(r, k, w.expected + 1, w.last);
	CHECK(kedge_close(k) == 0);
	if (r->rank == 0 && w.says && !strstr(log.log, w.says)) {
		fprintf(stderr, "not said: %s\n%s", w.says, log.log);
		CHECK(false);
	}
}

static void live(const struct place *p)
{
	struct plan plan = {.size = w.ranks, .threading = w.threading};

	ranks_run(p, plan, rank_live);
}

/* The directories as they were: FROM and TO are "now", "then". */
static void world_copy(const struct place *p, const char *from, const char *to)
{
	char a[400], b[400];

	text_make(a, sizeof(a), "%s/%s", p->dir, from);
	text_make(b, sizeof(b), "%s/%s", p->dir, to);
	(void)tree_remove(b);
	REQUIRE(mkdir(b, 0700) == 0);
	tree_copy(a, b);
}

static void node_die(const struct place *p, int node)
{
	char dir[400];

	node_dir(p, node, dir, sizeof(dir));
	REQUIRE(tree_remove(dir) == 0);
}

/* A job that has taken LAST versions and ended. */
static void world_begin(const struct place *p, const char *protect, int ranks, int per_node, uint64_t last, bool l2,
			const char *const *more)
{
	char now[400];

	w = (struct world){.protect = protect,
			   .ranks = ranks,
			   .nodes = ranks / per_node,
			   .per_node = per_node,
			   .threading = ANY_THREAD_TWO_CHANNELS,
			   .more = more,
			   .l2 = l2,
			   .last = last};
	text_make(now, sizeof(now), "%s/now", p->dir);
	REQUIRE(mkdir(now, 0700) == 0);
	live(p);
	world_copy(p, "now", "then");
	w.spare = NODES;
}

/* The world as it was, without LOST; ranks have moved. */
static void world_lose(const struct place *p, unsigned lost, int shift)
{
	world_copy(p, "then", "now");
	w.lost = 0;
	w.shift = 0;
	for (int node = 0; node < w.nodes; node++)
		if (lost >> node & 1)
			node_die(p, node);
	w.lost = lost;
	w.shift = shift;
}

/* Every loss of nodes that leaves enough of every team, and losses that do not. */
static void every_loss(const struct place *p, unsigned survives, bool (*enough)(unsigned lost), const char *limit)
{
	unsigned tried = 0, all = 1u << w.nodes;

	for (unsigned lost = 1; lost < all; lost++) {
		bool lives = enough(lost);

		if ((unsigned)__builtin_popcount(lost) > survives + !lives)
			continue;
		tried++;
		if ((!lives && tried % 5) || (SANITIZED && tried % 7))
			continue;
		world_lose(p, lost, (int)(lost % (unsigned)w.nodes));
		w.expected = lives ? 3 : 2;
		w.last = lives && tried % 4 == 0 ? 4 : 0;
		w.says = lives ? "rebuilt on L1" : limit;
		live(p);
	}
}

#define L2_SECOND "l2_every=2" /* version 2 goes there */

static bool enough_one(unsigned lost)
{
	return __builtin_popcount(lost) <= 1;
}

static bool enough_two(unsigned lost)
{
	return __builtin_popcount(lost) <= 2;
}

/* Four ranks make two pairs: 0 and 2, 1 and 3. */
static bool enough_pairs(unsigned lost)
{
	return (lost & 5) != 5 && (lost & 10) != 10;
}

static void test_partner(void **state)
{
	world_begin(*state, "partner", 4, 1, 3, true, MORE(L2_SECOND));
	every_loss(*state, 2, enough_pairs, "no shield of their teams is left; a restart takes what L2 has");
}

static void test_xor4(void **state)
{
	world_begin(*state, "xor:4", 4, 1, 3, true, MORE(L2_SECOND));
	every_loss(*state, 1, enough_one, "version 3, and 2 older ones, cannot be rebuilt on L1: the segments of ranks ");
}

static void test_xor8(void **state)
{
	world_begin(*state, "xor:8", 8, 1, 3, true, MORE(L2_SECOND, "capture=copy", "protect_in_background=yes"));
	every_loss(*state, 1, enough_one, "xor:8 makes up for 1");
}

static void test_rs(void **state)
{
	world_begin(*state, "rs:4+2", 6, 1, 3, true, MORE(L2_SECOND));
	every_loss(*state, 2, enough_two, "rs:4+2 makes up for 2");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_partner), JOB(test_xor4), JOB(test_xor8), JOB(test_rs)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
