/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bundles: with group_size, several ranks share a file on L2. Whatever the size, every version that L2 has comes back
 * on every rank, in as few files as promised; damage costs the ranks whose bytes it hits, and no others.
 */
#include "ranks.h"

#define MOST 5 /* ranks */

static struct kedge__catalog *catalog_of(const char *store)
{
	struct kedge__catalog *cat;

	assert_int_equal(kedge__catalog_open(store, "job", KEDGE__CATALOG_READ, &cat, NULL), 0);
	return cat;
}

/* How many files the directory of VERSION has, and that none has another ending. */
static size_t files_of(const char *store, uint64_t version, const char *ending)
{
	char dir[400];
	size_t n = 0;
	struct dirent *e;
	DIR *d;

	text_make(dir, sizeof(dir), "%s/job/v%020llu", store, (unsigned long long)version);
	d = opendir(dir);
	assert_non_null(d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		assert_string_equal(e->d_name + strlen(e->d_name) - 4, ending);
		n++;
	}
	closedir(d);
	return n;
}

/* Nothing wrong, nothing left over, and as many files per version as ranks share them. */
static void assert_bundled(const char *store, uint32_t bundle)
{
	struct kedge__catalog *cat = catalog_of(store);
	struct kedge__verify_report report = {0};

	assert_int_equal(kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, NULL), 0);
	assert_int_equal(report.findings + report.strays, 0);
	kedge__verify_report_done(&report);
	for (size_t i = 0; i < kedge__catalog_count(cat); i++) {
		const struct kedge__set *set = &kedge__catalog_at(cat, i)->set;

		assert_int_equal(set->bundle, bundle > 1 ? bundle : 0);
		assert_int_equal(files_of(store, set->version, bundle > 1 ? ".bdl" : ".seg"),
				 (set->ranks + bundle - 1) / bundle);
	}
	kedge__catalog_close(cat);
}

/* ------------------------------------------------------------------ ranks */

static void begin(struct rank *r, kedge_t **out)
{
	kedge_t *k = *out = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
}

static void take_four(struct rank *r)
{
	kedge_t *k;

	begin(r, &k);
	for (uint64_t v = 1; v <= 4; v++) {
		take(r, k, v, v);
		CHECK(kedge_wait(k) == 0);
	}
	CHECK(kedge_close(k) == 0);
}

/* All that is listed, byte by byte. */
static void all_come_back(struct rank *r)
{
	struct kedge_version_info *list;
	kedge_t *k;
	size_t n;

	begin(r, &k);
	CHECK(kedge_versions(k, &list, &n) == 0 && n > 0);
	for (size_t i = 0; i < n; i++)
		comes_back(r, k, list[i].version, list[i].version);
	kedge_free(list);
	CHECK(kedge_close(k) == 0);
}

static void go_on(struct rank *r)
{
	uint64_t newest = 0;
	kedge_t *k;

	begin(r, &k);
	CHECK(kedge_restart(k, KEDGE_NEWEST, &newest) == 0);
	state_make(want, r->rank, newest);
	CHECK(memcmp(m, want, BYTES) == 0);
	for (uint64_t v = newest + 1; v <= newest + 3; v++) {
		take(r, k, v, v);
		CHECK(kedge_wait(k) == 0);
	}
	CHECK(kedge_close(k) == 0);
}

static void test_sizes(void **state)
{
	static const struct {
		uint32_t size;
		const char *mode;
		enum threading threading;
	} cases[] = {{1, "coalesce=never", ANY_THREAD},
		     {2, "coalesce=never", ANY_THREAD_TWO_CHANNELS},
		     {2, "coalesce=auto", NO_THREAD},
		     {3, "l2_every=2", ANY_THREAD},
		     {MOST, "coalesce=auto", ANY_THREAD_TWO_CHANNELS},
		     {100, "coalesce=never", NO_THREAD}};
	struct place *p = *state;
	char size[32];

	for (size_t i = 0; i < KEDGE__COUNT(cases); i++) {
		struct plan plan = {.size = MOST, .threading = cases[i].threading, .l2 = true};

		text_make(size, sizeof(size), "group_size=%u", cases[i].size);
		plan.more = MORE(size, cases[i].mode, "reducer=tree", "chunk=512", "threads=1");
		ranks_run(p, plan, take_four);
		assert_bundled(p->l2, cases[i].size);
		assert_bundled(p->l1, 1);
		tree_remove(p->l1);
		ranks_run(p, plan, all_come_back);
		dirs_remove(p);
	}
}

/* Versions with and without bundles refer to each other, and retention removes some. */
static void test_size_changes(void **state)
{
	static const char *const sizes[] = {"group_size=2", "group_size=1", "group_size=3", "group_size=2"};
	static const char *const keeps[] = {"l2_keep=0", "l2_keep=2"};
	struct place *p = *state;

	for (size_t k = 0; k < KEDGE__COUNT(keeps); k++) {
		struct plan plan = {.size = 4, .threading = ANY_THREAD_TWO_CHANNELS, .l2 = true};

		for (size_t i = 0; i < KEDGE__COUNT(sizes); i++) {
			plan.more = MORE(sizes[i], keeps[k], "keep=2", "coalesce=batch", "reducer=tree", "chunk=512");
			ranks_run(p, plan, i ? go_on : take_four);
		}
		tree_remove(p->l1);
		plan.more = NULL;
		ranks_run(p, plan, all_come_back);
		dirs_remove(p);
	}
}

static void open_differs(struct rank *r)
{
	static const char *const own[] = {"group_size=2", "group_size=3"};
	kedge_t *k = NULL;

	r->more = MORE(own[r->rank]);
	CHECK(open_rc(r, &k) < 0);
	CHECK(strstr(kedge_last_error(NULL), "group_size"));
}

static void test_all_ranks_say_the_same(void **state)
{
	ranks_run(*state, (struct plan){.size = 2, .l2 = true}, open_differs);
}

/* ------------------------------------------------------------------ damage */

struct seen {
	uint32_t ranks[16];
	size_t count;
	char section[32];
};

static void see(void *ctx, const struct kedge__finding *f)
{
	struct seen *s = ctx;

	assert_true(s->count < KEDGE__COUNT(s->ranks));
	s->ranks[s->count++] = f->rank;
	text_make(s->section, sizeof(s->section), "%s", f->section ? f->section : "block");
}

static size_t look(const char *store, struct seen *seen)
{
	struct kedge__catalog *cat = catalog_of(store);
	struct kedge__verify_report report = {0};
	size_t lost;

	*seen = (struct seen){0};
	assert_int_equal(kedge__verify(cat, NULL, KEDGE_NEWEST, see, seen, NULL, &report, NULL), 0);
	lost = report.versions_lost;
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
	return lost;
}

static bool rank_is_readable(const char *store, uint64_t version, uint32_t rank)
{
	struct kedge__catalog *cat = catalog_of(store);
	struct kedge__lineage *l = NULL;
	uint64_t addr;
	bool well = !kedge__lineage_open(&cat, 1, version, rank, &l, NULL);

	if (well) {
		addr = (uint64_t)kedge__segment_find_region(kedge__lineage_top(l), "m")->slot << KEDGE__SLOT_SHIFT;
		well = !kedge__lineage_read(l, addr, m, BYTES, NULL);
		state_make(want, (int)rank, version);
		assert_true(!well || memcmp(m, want, BYTES) == 0);
	}
	kedge__lineage_close(l);
	kedge__catalog_close(cat);
	return well;
}

static void take_one(struct rank *r)
{
	kedge_t *k;

	begin(r, &k);
	take(r, k, 1, 1);
	CHECK(kedge_close(k) == 0);
}

/* One version of five ranks, in bundles of three; *PARTS: one kedge__free(). */
static void one_version(const struct place *p, char bundle[2][500], struct kedge__set_part parts[MOST])
{
	struct kedge__catalog *cat;

	ranks_run(p, (struct plan){.size = MOST, .l2 = true, .more = MORE("group_size=3", "reducer=full")}, take_one);
	cat = catalog_of(p->l2);
	memcpy(parts, kedge__catalog_find(cat, 1)->set.parts, MOST * sizeof(*parts));
	kedge__catalog_close(cat);
	for (int i = 0; i < 2; i++)
		text_make(bundle[i], 500, "%s/job/v%020d/r%07d-g0.bdl", p->l2, 1, i * 3);
}

static void test_damage_hits_one_rank(void **state)
{
	struct place *p = *state;
	struct kedge__set_part parts[MOST];
	char bundle[2][500];
	struct seen seen;

	one_version(p, bundle, parts);
	for (uint32_t rank = 0; rank < MOST; rank++) {
		const uint64_t places[] = {4, 100, parts[rank].file_bytes / 2, parts[rank].file_bytes - 1};

		assert_int_equal(parts[rank].start % 4096, 0);
		for (size_t i = 0; i < KEDGE__COUNT(places); i++) {
			file_flip(bundle[rank / 3], (long)(parts[rank].start + places[i]), 0x40);
			assert_int_equal(look(p->l2, &seen), 1);
			for (size_t f = 0; f < seen.count; f++)
				assert_int_equal(seen.ranks[f], rank);
			assert_true(seen.count > 0);
			for (uint32_t r = 0; r < MOST; r++)
				assert_int_equal(rank_is_readable(p->l2, 1, r), r != rank);
			file_flip(bundle[rank / 3], (long)(parts[rank].start + places[i]), 0x40);
		}
	}
	assert_int_equal(look(p->l2, &seen), 0);
	assert_int_equal(seen.count, 0);
}

/* What is not a segment must be nothing: it is found, and costs no version. */
static void test_between_segments(void **state)
{
	struct place *p = *state;
	struct kedge__set_part parts[MOST];
	char bundle[2][500];
	struct seen seen;

	one_version(p, bundle, parts);
	assert_true(parts[1].start + parts[1].file_bytes < parts[2].start);
	file_flip(bundle[0], (long)(parts[2].start - 1), 1);
	assert_int_equal(look(p->l2, &seen), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.ranks[0], 1);
	assert_string_equal(seen.section, "bundle");
	file_flip(bundle[0], (long)(parts[2].start - 1), 1);
	assert_int_equal(truncate(bundle[1], (off_t)(parts[4].start + parts[4].file_bytes + 7)), 0);
	assert_int_equal(look(p->l2, &seen), 0);
	assert_int_equal(seen.count, 1);
	assert_string_equal(seen.section, "bundle");
}

static void test_cut_short(void **state)
{
	struct place *p = *state;
	struct kedge__set_part parts[MOST];
	char bundle[2][500];
	struct seen seen;

	one_version(p, bundle, parts);
	assert_int_equal(truncate(bundle[0], (off_t)(parts[1].start + parts[1].file_bytes - 1)), 0);
	assert_int_equal(look(p->l2, &seen), 1);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.ranks[0] + seen.ranks[1], 3);
	for (uint32_t r = 0; r < MOST; r++)
		assert_int_equal(rank_is_readable(p->l2, 1, r), r != 1 && r != 2);
	/* What L1 has fills in for it. */
	ranks_run(p, (struct plan){.size = MOST, .l2 = true}, all_come_back);
	assert_int_equal(unlink(bundle[0]), 0);
	assert_int_equal(look(p->l2, &seen), 1);
	assert_int_equal(seen.count, 3);
	assert_true(rank_is_readable(p->l2, 1, 3));
}

/* ------------------------------------------------------------------ a store with bundles */

static void several_versions(const struct place *p)
{
	const struct plan plan = {.size = MOST,
				  .threading = ANY_THREAD_TWO_CHANNELS,
				  .l2 = true,
				  .more = MORE("group_size=2", "coalesce=never", "reducer=tree", "chunk=512")};

	ranks_run(p, plan, take_four);
}

static void all_readable(const char *store, uint64_t first)
{
	for (uint64_t v = first; v <= 4; v++)
		for (uint32_t r = 0; r < MOST; r++)
			assert_true(rank_is_readable(store, v, r));
}

static struct kedge__catalog *catalog_to_change(const char *store)
{
	struct kedge__catalog *cat;

	assert_int_equal(kedge__catalog_open(store, "job", KEDGE__CATALOG_CREATE, &cat, NULL), 0);
	return cat;
}

static void test_rewritten_in_place(void **state)
{
	const struct kedge__coalesce_options how = {.version = 3, .keep_old = true, .block_bytes = 4096};
	struct kedge__gc_report report = {0};
	struct place *p = *state;
	struct kedge__catalog *cat;
	size_t rewritten = 0;

	several_versions(p);
	cat = catalog_to_change(p->l2);
	assert_int_equal(kedge__coalesce(cat, NULL, &how, NULL, NULL), 0);
	assert_int_equal(kedge__catalog_find(cat, 3)->set.source_count, 0);
	assert_bundled(p->l2, 2);
	all_readable(p->l2, 1);
	assert_int_equal(kedge__set_annotate(cat, 3, "a note", "best", NULL), 0);
	assert_int_equal(kedge__version_remove(cat, NULL, &how, 1, &rewritten, NULL), 0);
	assert_int_equal(rewritten, 1);
	assert_bundled(p->l2, 2);
	all_readable(p->l2, 2);
	assert_int_equal(kedge__gc(cat, 1, false, &report, NULL), 0);
	kedge__gc_report_done(&report);
	assert_int_equal(kedge__catalog_count(cat), 2); /* the newest, and the one with a label, which it needs */
	assert_bundled(p->l2, 2);
	all_readable(p->l2, 3);
	kedge__catalog_close(cat);
}

/* A failure at any of its calls leaves the version as it was, or as it was to be. */
static void test_rewriting_fails(void **state)
{
	const struct kedge__coalesce_options how = {.version = 4, .keep_old = true, .block_bytes = 4096};
	struct place *p = *state;
	int rc = -1;

	several_versions(p);
	for (int n = 1; rc; n += SANITIZED ? 7 : 1) {
		struct kedge__catalog *cat = catalog_to_change(p->l2);
		char fault[32];

		text_make(fault, sizeof(fault), "eio@%d", n);
		assert_int_equal(kedge__fault_set(fault, NULL), 0);
		rc = kedge__coalesce(cat, NULL, &how, NULL, NULL);
		assert_int_equal(kedge__fault_set(NULL, NULL), 0);
		assert_int_equal(kedge__catalog_clean(cat, NULL, NULL), 0);
		kedge__catalog_close(cat);
		assert_bundled(p->l2, 2);
	}
	all_readable(p->l2, 1);
}

/* Another directory with the same bytes; and segments that become files of their own again. */
static void test_copied(void **state)
{
	struct place *p = *state;
	struct kedge__catalog *from, *to;
	char copy[400], apart[400];

	several_versions(p);
	text_make(copy, sizeof(copy), "%s/copy", p->dir);
	text_make(apart, sizeof(apart), "%s/apart", p->dir);
	tree_copy(p->l2, copy);
	dirs_remove(p);
	assert_bundled(copy, 2);
	all_readable(copy, 1);
	from = catalog_of(copy);
	to = catalog_to_change(apart);
	assert_int_equal(kedge__catalog_pin(to, NULL), 0);
	for (uint64_t v = 1; v <= 4; v++) {
		struct kedge__set set = kedge__catalog_find(from, v)->set;
		struct kedge__set_part parts[MOST];

		set.parts = parts;
		set.bundle = 0;
		for (uint32_t r = 0; r < MOST; r++)
			assert_int_equal(kedge__level_copy(from, to, v, r, false, (struct kedge__io){0}, NULL, NULL,
							   NULL, NULL, &parts[r], NULL),
					 0);
		assert_int_equal(kedge__set_publish(to, &set, NULL), 0);
	}
	kedge__catalog_unpin(to);
	kedge__catalog_close(to);
	kedge__catalog_close(from);
	assert_bundled(apart, 1);
	all_readable(apart, 1);
}

/* As L1 of a job it is read, and goes on with files of its own. */
static void test_as_first_level(void **state)
{
	struct place *p = *state;

	several_versions(p);
	tree_remove(p->l1);
	assert_int_equal(rename(p->l2, p->l1), 0);
	ranks_run(p, (struct plan){.size = MOST, .l2 = true, .more = MORE("group_size=3", "coalesce=never")}, go_on);
	tree_remove(p->l1);
	ranks_run(p, (struct plan){.size = MOST, .l2 = true}, all_come_back);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_sizes),
					   JOB(test_size_changes),
					   JOB(test_all_ranks_say_the_same),
					   JOB(test_damage_hits_one_rank),
					   JOB(test_between_segments),
					   JOB(test_cut_short),
					   JOB(test_rewritten_in_place),
					   JOB(test_rewriting_fails),
					   JOB(test_copied),
					   JOB(test_as_first_level)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
