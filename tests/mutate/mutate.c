/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mutate: stores of all reducers and codecs are changed by somebody who knows the format and seals what he changed.
 * What is made of them then may fail, but not crash, not hang, and not give bytes that never were.
 *
 *     mutate [--seed N] [--rounds N] [--keep] [--verbose]      0 rounds: until something goes wrong
 */
#include "change.h"
#include "pipeline/pipeline.h"
#include "store/store.h"
#include "world.h"

#include <getopt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define HANGS 120 /* seconds after which a round is taken as hung */

struct round {
	uint64_t seed, state;
	const struct subject *subject;
	char dir[FILES_PATH];
	char *trouble; /* shared */
	bool verbose;
};

#define TROUBLE_ROOM 1024

static void __attribute__((format(printf, 2, 3), noreturn)) wrong(struct round *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->trouble, TROUBLE_ROOM, fmt, ap);
	va_end(ap);
	_exit(1);
}

/* ---- what is given back */

/* Region NAME of VERSION, into memory of the size that is stored. Whether it could be had. */
static bool read_region(struct round *r, kedge_t *k, uint64_t version, const char *name, const char *when)
{
	struct kedge_region_info info;
	struct kedge_target target;
	uint8_t *got;
	int rc;

	if (kedge_region_stat(k, version, name, &info) != 0 || info.bytes > (UINT64_C(1) << 26))
		return false;
	got = malloc(info.bytes + 1);
	REQUIRE(got);
	memset(got, 0xa5, info.bytes + 1);
	target = (struct kedge_target){name, got, info.bytes};
	rc = kedge_read(k, version, &target, 1);
	if (got[info.bytes] != 0xa5)
		wrong(r, "%s: reading \"%s\" of version %llu wrote past its end", when, name,
		      (unsigned long long)version);
	if (rc == 0 && !memory_known(got, info.bytes))
		wrong(r, "%s: \"%s\" of version %llu has %llu bytes that never were", when, name,
		      (unsigned long long)version, (unsigned long long)info.bytes);
	free(got);
	return rc == 0;
}

/* Whether all regions that VERSION has could be had: a name may have been changed, too. */
static bool read_version(struct round *r, kedge_t *k, uint64_t version, const char *when)
{
	struct kedge_region_entry *list;
	bool all = true;
	size_t n;

	if (kedge_regions(k, version, &list, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		all &= read_region(r, k, version, list[i].name, when);
	kedge_free(list);
	return all;
}

/* Of all versions that are LISTED: one bit each whose regions could all be had. */
static uint64_t read_all(struct round *r, const char *when, uint64_t *listed)
{
	struct kedge_version_info *list;
	uint64_t intact = 0;
	size_t n;
	kedge_t *k;

	*listed = 0;
	if (world_open(r->subject, r->dir, &k) != 0)
		return 0;
	if (kedge_versions(k, &list, &n) == 0) {
		for (size_t i = 0; i < n; i++) {
			bool all = read_version(r, k, list[i].version, when);

			if (list[i].version >= 64)
				continue;
			*listed |= UINT64_C(1) << list[i].version;
			intact |= (uint64_t)all << list[i].version;
		}
		kedge_free(list);
	}
	(void)kedge_close(k);
	return intact;
}

/* ---- what is done to it */

static void verify(struct round *r, const char *store)
{
	struct kedge__verify_report report = {0};
	struct kedge__pool *pool = NULL;
	struct kedge__catalog *cat;

	REQUIRE(kedge__pool_new(2, &pool, NULL) == 0);
	if (kedge__catalog_open(store, "job", KEDGE__CATALOG_READ, &cat, NULL) == 0) {
		(void)kedge__verify(cat, pool, KEDGE_NEWEST, NULL, NULL, NULL, &report, NULL);
		kedge__verify_report_done(&report);
		kedge__catalog_close(cat);
	}
	kedge__pool_free(pool);
	(void)r;
}

static void coalesce(struct round *r, const char *store)
{
	struct kedge__catalog *cat;
	size_t count;

	if (kedge__catalog_open(store, "job", KEDGE__CATALOG_READ, &cat, NULL) != 0)
		return;
	count = kedge__catalog_count(cat);
	for (size_t i = 0; i < count && i < kedge__catalog_count(cat); i++) {
		struct kedge__coalesce_options options = {.block_bytes = 4096,
							  .keep_old = draw_below(&r->state, 4) != 0};
		struct kedge__coalesce_report report;

		options.version = kedge__catalog_at(cat, i)->version;
		if (draw_below(&r->state, 2))
			(void)kedge__coalesce(cat, NULL, &options, &report, NULL);
	}
	kedge__catalog_close(cat);
}

static void gc(struct round *r, const char *store, size_t keep)
{
	struct kedge__gc_report report = {0};
	struct kedge__catalog *cat;

	if (kedge__catalog_open(store, "job", KEDGE__CATALOG_READ, &cat, NULL) != 0)
		return;
	(void)r;
	(void)kedge__gc(cat, keep, false, &report, NULL);
	kedge__gc_report_done(&report);
	kedge__catalog_close(cat);
}

/* A job goes on from what it can restart from, and takes a version, which is right when it can be had. */
static void go_on(struct round *r)
{
	static struct memory m;
	uint64_t version = 0, newest = 0;
	kedge_t *k;

	if (world_open(r->subject, r->dir, &k) != 0)
		return;
	for (uint64_t v = WORLD_VERSIONS; v > 0 && !version; v--) {
		memory_at(&m, v);
		memset(m.at, 0, sizeof(m.at));
		if (world_protect(k, &m) == 0 && kedge_restart(k, v, &version) != 0)
			version = 0;
	}
	for (size_t i = 0; i < WORLD_REGIONS && version; i++)
		if (!memory_known(m.at[i], m.bytes[i]))
			wrong(r, "restart: region %zu of version %llu never was", i, (unsigned long long)version);
	memory_at(&m, WORLD_VERSIONS + 1);
	if (world_protect(k, &m) == 0 && kedge_find(k, KEDGE_NEWEST, &newest) <= 0 &&
	    kedge_checkpoint(k, WORLD_VERSIONS + 1) == 0)
		(void)kedge_wait(k);
	(void)kedge_close(k);
}

/* What could be had and is still listed can be had. */
static void compare(struct round *r, uint64_t intact, const char *when)
{
	uint64_t listed = 0, then = read_all(r, when, &listed), lost = intact & listed & ~then;

	if (lost && !r->subject->second_level) /* what tends one level does not look at the other */
		wrong(r, "%s: version %d cannot be had any more", when, __builtin_ctzll(lost));
}

/* Of what could be had, the newest KEEP can be had: nothing went in favour of what cannot. */
static void compare_newest(struct round *r, uint64_t intact, size_t keep, const char *when)
{
	uint64_t listed = 0, then = read_all(r, when, &listed);

	for (size_t i = 0; i < keep && intact && !r->subject->second_level; i++) {
		int version = 63 - __builtin_clzll(intact);

		if (!(then >> version & 1))
			wrong(r, "%s: version %d, number %zu of those that could be had, is gone", when, version, i);
		intact &= ~(UINT64_C(1) << version);
	}
}

static void look(struct round *r)
{
	size_t keep = 1 + draw_below(&r->state, 3);
	char store[2][FILES_PATH];
	size_t levels = r->subject->second_level ? 2 : 1;
	uint64_t listed, intact;

	path_make(store[0], "%s/l1", r->dir);
	path_make(store[1], "%s/l2", r->dir);
	intact = read_all(r, "at first", &listed);
	for (size_t i = 0; i < levels; i++)
		verify(r, store[i]);
	compare(r, intact, "after verify");
	if (draw_below(&r->state, 2)) {
		go_on(r);
		compare(r, intact, "after going on");
		intact = read_all(r, "after going on", &listed);
	}
	for (size_t i = 0; i < levels; i++)
		coalesce(r, store[i]);
	compare(r, intact, "after coalescing");
	compare_newest(r, intact, 1, "after coalescing");
	intact = read_all(r, "after coalescing", &listed);
	for (size_t i = 0; i < levels; i++)
		gc(r, store[i], keep);
	compare(r, intact, "after gc");
	compare_newest(r, intact, keep, "after gc");
}

/* ---- rounds */

static void live(struct round *r, const char *from)
{
	char text[512], dir[FILES_PATH];

	alarm(HANGS);
	tree_copy(from, r->dir);
	path_make(dir, "%s/%s/job", r->dir, r->subject->second_level && draw_below(&r->state, 2) ? "l2" : "l1");
	snprintf(r->trouble, TROUBLE_ROOM, "crashed while changing it");
	change_store(dir, &r->state, text, sizeof(text));
	if (r->verbose)
		printf("seed %llu, %s: %s\n", (unsigned long long)r->seed, r->subject->name, text);
	snprintf(r->trouble, TROUBLE_ROOM, "crashed; changed: %s", text);
	look(r);
	_exit(0);
}

static bool run_round(struct round *r, const char *from)
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0)
		live(r, from);
	REQUIRE(waitpid(child, &status, 0) == child);
	if (status == 0)
		return true;
	printf("seed %llu, %s: %s%s (status %#x)\n", (unsigned long long)r->seed, r->subject->name,
	       WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hung; " : "", r->trouble, (unsigned)status);
	return false;
}

/* Taken apart and put together again without a change, a store is what it was. */
static void check_ourselves(struct round *r, const char *from)
{
	static struct store s;
	char dir[FILES_PATH];
	uint64_t listed;

	tree_copy(from, r->dir);
	path_make(dir, "%s/l1/job", r->dir);
	store_load(&s, dir);
	REQUIRE(s.count > 0);
	store_seal(&s, MEND_BLOCKS | MEND_SUMMARY | MEND_LINEAGE);
	store_free(&s);
	REQUIRE(read_all(r, "unchanged", &listed) == (UINT64_C(2) << WORLD_VERSIONS) - 2);
	tree_remove(r->dir);
}

static int usage(void)
{
	fprintf(stderr, "usage: mutate [--seed N] [--rounds N] [--keep] [--verbose]\n"
			"  --rounds 0  until something goes wrong\n"
			"  --keep      keep the directories of what went wrong\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seed", required_argument, NULL, 's'},
						{"rounds", required_argument, NULL, 'r'},
						{"keep", no_argument, NULL, 'k'},
						{"verbose", no_argument, NULL, 'v'},
						{0}};
	unsigned long long seed = 1, rounds = 100, done = 0, bad = 0;
	char scratch[FILES_PATH], from[FILES_PATH];
	struct round r = {0};
	bool keep = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			rounds = strtoull(optarg, NULL, 10);
		else if (c == 'k')
			keep = true;
		else if (c == 'v')
			r.verbose = true;
		else
			return usage();
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	r.trouble = mmap(NULL, TROUBLE_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(r.trouble != MAP_FAILED);
	scratch_make(scratch, sizeof(scratch), "mutate");
	for (; rounds ? done < rounds : !bad; done++) {
		size_t i = (seed + done) % subject_count;
		bool fine;

		r.seed = r.state = seed + done;
		r.subject = &subjects[i];
		path_make(from, "%s/subject-%zu", scratch, i);
		path_make(r.dir, "%s/round-%llu", scratch, done);
		if (access(from, F_OK) != 0) {
			world_make(r.subject, from);
			check_ourselves(&r, from);
		}
		fine = run_round(&r, from);
		bad += !fine;
		if (fine || !keep)
			tree_remove(r.dir);
		else
			printf("  kept: %s\n", r.dir);
	}
	if (keep && bad)
		scratch_keep(scratch);
	printf("%llu rounds, %llu went wrong\n", done, bad);
	return bad != 0;
}
