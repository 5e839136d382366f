/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Redundancy on L1: nodes are directories, and a node's death is the removal of its directory. After it the ranks are
 * placed differently, with spares for what was lost, and get back bit for bit what was saved, or what L2 has.
 */
#include "ranks.h"

#include "../lib/damage.h"

#include <sys/mman.h>

#define NODES 16 /* and as many spares */

struct world {
	const char *protect;
	int ranks, nodes, per_node;
	enum threading threading;
	const char *const *more;
	/* of a life */
	int shift;     /* how far ranks have moved */
	unsigned lost; /* nodes that are replaced by spares, */
	int spare;     /* the first of which this is */
	bool l2;
	uint64_t wanted;         /* 0: the newest */
	uint64_t expected, last; /* what comes back, and how far it goes on; 0: nothing */
	const char *says;        /* what rank 0's log has; NULL: anything */
	uint64_t more_than;      /* with EXPECTED: that, or up to this */
	const char *fault;       /* of rank FAULTY, from when it opens the job on, */
	bool later;              /* or from when it goes on */
	int faulty;
	int code;      /* not 0: the job need not be opened */
	uint64_t *met; /* fault points that it has met, if there is no fault; shared */
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

static void fault_begin(const struct rank *r, bool later)
{
	if (r->rank == w.faulty && later == w.later)
		REQUIRE(kedge__fault_set(w.fault, NULL) == 0);
}

static void fault_end(const struct rank *r, bool later)
{
	if (r->rank != w.faulty || later != w.later)
		return;
	if (w.met)
		*w.met = kedge__fault_count();
	REQUIRE(kedge__fault_set(NULL, NULL) == 0);
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
	fault_begin(r, false);
	rc = kedge_open_group("job", NULL, options_make(&o, &mine, w.l2, more), &r->group, &k);
	fault_end(r, false);
	CHECK(!rc || w.code);
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
	CHECK(kedge_restart(k, w.wanted ? w.wanted : KEDGE_NEWEST, &version) == (w.expected ? 0 : KEDGE_E_NOTFOUND));
	if (w.expected)
		comes_back(r, k, w.wanted ? w.wanted : KEDGE_NEWEST,
			   version > w.expected && version <= w.more_than ? version : w.expected);
	fault_begin(r, true);
	if (w.last)
		take(r, k, version + 1, w.last);
	fault_end(r, true);
	CHECK(kedge_close(k) == 0);
	if (r->rank == 0 && w.says && !strstr(place_said(&log), w.says)) {
		fprintf(stderr, "not said: %s\n%s", w.says, place_said(&log));
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
	every_loss(*state, 1, enough_one,
		   "version 3, and 2 older ones, cannot be rebuilt on L1: the segments of ranks ");
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

/* ------------------------------------------------------------------ several ranks a node; one loss after the other */

struct census {
	int segments, shields, others;
};

static int count_file(const char *path, const struct stat *st, void *ctx)
{
	struct census *c = ctx;
	const char *dot = strrchr(path, '.');

	if (!S_ISREG(st->st_mode) || !strstr(path, "/v0"))
		return 0;
	c->segments += strcmp(dot, ".seg") == 0;
	c->shields += strcmp(dot, ".shd") == 0;
	c->others += strcmp(dot, ".seg") != 0 && strcmp(dot, ".shd") != 0;
	return 0;
}

/* Each node has what its ranks have, and a shield beside each segment. */
static void all_in_order(const struct place *p)
{
	struct census first = {0};
	char dir[400];

	for (int r = 0; r < w.ranks; r += w.per_node) {
		struct census c = {0};

		node_dir(p, node_of(r), dir, sizeof(dir));
		assert_int_equal(tree_each(dir, count_file, &c), 0);
		if (!r)
			first = c;
		assert_true(c.segments > 0 && c.segments % w.per_node == 0 && !c.others);
		assert_memory_equal(&c, &first, sizeof(c));
		assert_int_equal(c.shields, c.segments);
	}
}

static void test_nodes_of_two(void **state)
{
	const struct place *p = *state;

	world_begin(p, "xor:4", 8, 2, 3, false, MORE("keep=2"));
	world_lose(p, 1u << 2, 1);
	w.expected = 3;
	w.last = 4;
	w.says = "rebuilt on L1";
	live(p);
	all_in_order(p);
	/* What was rebuilt is protected again. */
	node_die(p, NODES + 2);
	w.spare = 2 * NODES;
	w.expected = 4;
	w.last = 6;
	live(p);
	all_in_order(p); /* shields of versions that were removed are gone */
	w.says = NULL;   /* nothing to do */
	w.expected = w.last = 6;
	live(p);
	all_in_order(p);
}

/* A version that was taken before is protected when the job is opened with another setting. */
static void test_protected_later(void **state)
{
	const struct place *p = *state;

	world_begin(p, "single", 3, 1, 2, false, NULL);
	w.protect = "xor:3";
	w.expected = w.last = 2;
	live(p);
	node_die(p, 1);
	w.lost = 2;
	w.protect = "partner"; /* other teams, or of another kind: what is there is used */
	live(p);
	node_die(p, 2);
	w.lost = 6;
	live(p);
}

/* A node comes back with what it had before the job went back to an older version: that does not count any more. */
static void test_old_disk(void **state)
{
	const struct place *p = *state;
	char from[400], to[400];

	world_begin(p, "xor:3", 3, 1, 3, false, NULL);
	w.wanted = w.expected = 2;
	w.last = 3;
	live(p);
	node_die(p, 1);
	node_dir(p, 1, to, sizeof(to));
	text_make(from, sizeof(from), "%s/then/node1", p->dir);
	REQUIRE(mkdir(to, 0700) == 0);
	tree_copy(from, to);
	w.wanted = 0;
	w.expected = w.last = 3;
	w.says = "1 segments were rebuilt";
	live(p);
	all_in_order(p);
}

/* A label keeps a version that `keep` does not; a node that lacks the label, or the version, gets it. */
static void test_labelled(void **state)
{
	const struct place *p = *state;
	struct kedge__catalog *cat;
	char dir[400];

	world_begin(p, "xor:3", 3, 1, 2, false, MORE("keep=1", "reducer=full"));
	node_dir(p, 0, dir, sizeof(dir));
	assert_int_equal(kedge__catalog_open(dir, "job", KEDGE__CATALOG_CREATE, &cat, NULL), 0);
	assert_int_equal(kedge__set_annotate(cat, 2, NULL, "good", NULL), 0);
	kedge__catalog_close(cat);
	node_die(p, 1);
	w.lost = 2;
	w.expected = 2;
	w.last = 4;
	w.says = "1 segments were rebuilt";
	live(p);
	node_dir(p, NODES + 1, dir, sizeof(dir));
	assert_int_equal(kedge__catalog_open(dir, "job", KEDGE__CATALOG_READ, &cat, NULL), 0);
	assert_true(kedge__catalog_find(cat, 2) && kedge__set_has_label(&kedge__catalog_find(cat, 2)->set, "good"));
	kedge__catalog_close(cat);
}

/* Groups in which only the application speaks. */
static void test_without_threads(void **state)
{
	const struct place *p = *state;

	world_begin(p, "rs:2+1", 3, 1, 3, false, MORE("protect_in_background=yes", "capture=copy"));
	world_lose(p, 1, 2);
	w.threading = NO_THREAD;
	w.expected = 3;
	w.last = 5;
	live(p);
}

/* ------------------------------------------------------------------ what is refused, and what has no effect */

static void rank_refused(struct rank *r)
{
	struct place mine = *r->p;
	const char *more[] = {"protect=rs:2+2", "node=n%r", NULL};
	struct options o;
	kedge_t *k = NULL;

	text_make(mine.l1, sizeof(mine.l1), "%s/own%d", r->p->dir, r->rank);
	CHECK(kedge_open_group("job", NULL, options_make(&o, &mine, false, more), &r->group, &k) == KEDGE_E_CONFIG);
	CHECK(strstr(kedge_last_error(NULL), "are on 2 nodes") && strstr(kedge_last_error(NULL), "protect = single"));
}

static void rank_shared(struct rank *r)
{
	static struct place log;
	struct place mine = *r->p;
	const char *more[] = {"protect=xor:2", "node=n%r", NULL};
	struct options o;
	kedge_t *k = NULL;

	kedge_set_log(place_log, &log);
	CHECK(kedge_open_group("job", NULL, options_make(&o, &mine, false, more), &r->group, &k) == 0);
	CHECK((r->rank == 0) == (strstr(place_said(&log), "all ranks share one L1") != NULL));
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 2);
	CHECK(kedge_close(k) == 0);
}

static void test_refused(void **state)
{
	ranks_run(*state, (struct plan){.size = 2, .threading = NO_THREAD}, rank_refused);
	ranks_run(*state, (struct plan){.size = 2, .threading = NO_THREAD}, rank_shared);
}

/* ------------------------------------------------------------------ damage */

static void file_of(const struct place *p, int node, uint64_t version, int rank, const char *suffix, char *out,
		    size_t room)
{
	text_make(out, room, "%s/now/node%d/job/v%020llu/r%07d-g0.%s", p->dir, node, (unsigned long long)version, rank,
		  suffix);
}

static void found(void *ctx, const struct kedge__finding *f)
{
	struct census *c = ctx;

	c->shields += f->section && strcmp(f->section, "shield") == 0;
	c->others += !f->section || strcmp(f->section, "shield") != 0;
}

/* `kedge verify` on one node. */
static struct census node_verify(const struct place *p, int node)
{
	struct census c = {0};
	const struct kedge__verify_options options = {
	    .version = KEDGE_NEWEST, .local = true, .found = found, .ctx = &c};
	struct kedge__verify_report report = {0};
	struct kedge__catalog *cat;
	char dir[400];

	node_dir(p, node, dir, sizeof(dir));
	assert_int_equal(kedge__catalog_open(dir, "job", KEDGE__CATALOG_READ, &cat, NULL), 0);
	assert_int_equal(kedge__verify_with(cat, NULL, &options, &report, NULL), 0);
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
	return c;
}

/* A node is lost, and a bit of a survivor's file has changed: that counts as lost, too. */
static void test_damage(void **state)
{
	const struct place *p = *state;
	static const char *const suffixes[] = {"seg", "shd"};
	char path[400];

	world_begin(p, "rs:2+2", 4, 1, 3, true, MORE(L2_SECOND));
	for (int i = 0; i < 2; i++) {
		world_lose(p, 1, 1);
		assert_int_equal(node_verify(p, 2).shields + node_verify(p, 2).others, 0);
		file_of(p, 2, 3, 2, suffixes[i], path, sizeof(path));
		file_flip(path, 700, 8);
		assert_int_equal(node_verify(p, 2).shields, i);
		assert_true((node_verify(p, 2).others > 0) == !i);
		w.expected = 3;
		w.last = 0;
		w.says = "rebuilt on L1";
		live(p);
		world_lose(p, 1 | 2, 1);
		file_of(p, 3, 3, 3, "shd", path, sizeof(path));
		file_flip(path, 700, 8);
		file_of(p, 2, 3, 2, suffixes[i], path, sizeof(path));
		file_flip(path, 700, 8);
		w.expected = 2;
		w.says = "version 3 cannot be rebuilt on L1: the segments of ranks 0, 1";
		live(p);
	}
}

/* ------------------------------------------------------------------ faults */

/* Whatever fails: nobody hangs, and nothing comes back that was not saved. */
static void rank_tries(struct rank *r)
{
	uint64_t version = 0;
	kedge_t *k;

	kedge_set_log(NULL, NULL);
	w.code = -1;
	k = world_open(r);
	if (!k)
		return;
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	if (kedge_restart(k, KEDGE_NEWEST, &version) == 0) {
		state_make(want, r->rank, version);
		CHECK(memcmp(m, want, BYTES) == 0);
	}
	state_make(m, r->rank, 4);
	fault_begin(r, true);
	if (w.last && version == 3)
		(void)kedge_checkpoint(k, 4);
	fault_end(r, true);
	(void)kedge_close(k);
}

/* SPEC@N, for N = 1, 1 + STEP, ... of what rank FAULTY meets, after nodes were lost; then a life without faults. */
static void each_fault(const struct place *p, const char *spec, int faulty, unsigned lost, bool later, unsigned step)
{
	uint64_t *met = mmap(NULL, sizeof(*met), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ranks all = {p, {.size = w.ranks, .threading = w.threading}, rank_tries};
	bool kill = strcmp(spec, "kill") == 0;
	char fault[40];

	REQUIRE(met != MAP_FAILED);
	*met = 1;
	for (uint64_t n = 0; n <= *met; n = n ? n + step : 1) {
		world_lose(p, lost, 1);
		text_make(fault, sizeof(fault), "%s@%llu%s", spec, (unsigned long long)n,
			  strcmp(spec, "enospc") ? "" : "+");
		w.fault = n ? fault : NULL;
		w.met = n ? NULL : met;
		w.faulty = faulty;
		w.later = later;
		w.last = later ? 4 : 0;
		assert_true((ranks_fork(w.ranks, rank_play, &all) > 0) == (kill && n > 0));
		w.fault = NULL;
		w.met = NULL;
		w.code = 0;
		w.says = NULL;
		w.expected = 3;
		w.more_than = 4; /* it may be there, though nobody was told */
		w.last = 5;
		live(p);
		if (later && n % 2) { /* and that is protected */
			node_die(p, (int)(n % 3));
			w.lost |= 1u << n % 3;
			w.expected = 5;
			w.last = 0;
			live(p);
		}
	}
	assert_true(*met > 10);
	munmap(met, sizeof(*met));
}

#define STEP (SANITIZED ? 41 : 7) /* 1: every call, which takes half a minute */

/* With each call that changes a file, after one of three nodes was lost. */
static void test_killed_in_recovery(void **state)
{
	world_begin(*state, "xor:3", 3, 1, 3, false, NULL);
	each_fault(*state, "kill", 0, 4, false, STEP); /* it moves */
	each_fault(*state, "kill", 1, 4, false, STEP); /* it is rebuilt */
}

static void test_killed_while_protecting(void **state)
{
	world_begin(*state, "xor:3", 3, 1, 3, false, NULL);
	each_fault(*state, "kill", 2, 0, true, SANITIZED ? STEP : 1);
}

static void test_full_disk(void **state)
{
	world_begin(*state, "xor:3", 3, 1, 3, false, NULL);
	each_fault(*state, "enospc", 1, 4, false, STEP);
	each_fault(*state, "enospc", 2, 0, true, STEP);
}

static void test_eio(void **state)
{
	world_begin(*state, "partner", 4, 2, 3, false, NULL);
	each_fault(*state, "eio", 3, 2, false, 2 * STEP);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_partner),
					   JOB(test_xor4),
					   JOB(test_xor8),
					   JOB(test_rs),
					   JOB(test_nodes_of_two),
					   JOB(test_protected_later),
					   JOB(test_old_disk),
					   JOB(test_labelled),
					   JOB(test_without_threads),
					   JOB(test_refused),
					   JOB(test_damage),
					   JOB(test_killed_in_recovery),
					   JOB(test_killed_while_protecting),
					   JOB(test_full_disk),
					   JOB(test_eio)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
