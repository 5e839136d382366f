/* SPDX-License-Identifier: BSD-3-Clause */
/* What a dead job had sealed on L1 reaches L2 without it, whole sets only. */
#include "support.h"

#define RANKS 2

struct scene {
	struct job job;
	char *dirs[3]; /* L1 of all, or of two nodes; */
	struct place l2;
};

static void scene_open(struct scene *s)
{
	struct kedge__catalog *cat;

	*s = (struct scene){.job = job_new(RANKS, 3000)};
	for (int i = 0; i < 3; i++)
		s->dirs[i] = make_dir();
	place_open(&s->l2);
	cat = open_store(s->dirs[0]);
	for (uint64_t v = 1; v <= 4; v++)
		save_next(cat, &s->job, v, KEDGE__REDUCER_LIST);
	kedge__catalog_close(cat);
}

static void scene_close(struct scene *s)
{
	job_done(&s->job);
	for (int i = 0; i < 3; i++)
		remove_dir(s->dirs[i]);
	place_close(&s->l2);
}

/* Node I, 1 or 2, has the segments of rank I - 1 alone. */
static void scene_split(struct scene *s)
{
	for (int node = 1; node <= 2; node++) {
		tree_copy(s->dirs[0], s->dirs[node]);
		for (uint64_t v = 1; v <= 4; v++) {
			char path[FILES_PATH];
			struct place there = {.store = s->dirs[node]};

			segment_at(&there, v, (uint32_t)(2 - node), path);
			assert_int_equal(unlink(path), 0);
		}
	}
}

static int drain(struct scene *s, int node, struct kedge__stage_client *client, struct kedge__drain_report *report,
		 struct kedge__error *err)
{
	struct kedge__catalog *from = open_store(s->dirs[node]), *to = open_store(s->l2.store);
	const struct kedge__drain_options o = {.client = client};
	int rc = kedge__drain(from, to, &o, report, err);

	kedge__catalog_close(from);
	kedge__catalog_close(to);
	return rc;
}

static void l2_has(struct scene *s, size_t versions)
{
	struct kedge__catalog *cat = open_store(s->l2.store);

	assert_int_equal(kedge__catalog_count(cat), versions);
	if (versions)
		assert_all_intact(cat, &s->job);
	kedge__catalog_close(cat);
}

static void all_of_one_directory(void **state)
{
	struct kedge__drain_report r;
	struct scene s;

	(void)state;
	scene_open(&s);
	assert_ok(drain(&s, 0, NULL, &r, err));
	assert_int_equal(r.versions, 4);
	assert_int_equal(r.segments, 8);
	l2_has(&s, 4);
	assert_ok(drain(&s, 0, NULL, &r, err));
	assert_int_equal(r.versions + r.segments + r.failed + r.incomplete, 0);
	scene_close(&s);
}

/* A set that lacks a rank does not exist; the node that has it last completes it. */
static void of_two_nodes(void **state)
{
	struct kedge__drain_report r;
	struct scene s;

	(void)state;
	scene_open(&s);
	scene_split(&s);
	assert_ok(drain(&s, 1, NULL, &r, err));
	assert_int_equal(r.versions, 0);
	assert_int_equal(r.incomplete, 4);
	l2_has(&s, 0);
	assert_ok(drain(&s, 1, NULL, &r, err)); /* what is there is not copied again */
	assert_int_equal(r.segments, 0);
	assert_ok(drain(&s, 2, NULL, &r, err));
	assert_int_equal(r.versions, 4);
	assert_int_equal(r.segments, 4);
	l2_has(&s, 4);
	scene_close(&s);
}

static void by_a_server(void **state)
{
	struct kedge__stage_client *c;
	struct kedge__drain_report r;
	struct scene s;

	(void)state;
	scene_open(&s);
	server_start(&s.l2);
	c = client_of(&s.l2, s.l2.address);
	assert_ok(drain(&s, 0, c, &r, err));
	assert_int_equal(kedge__stage_client_counters(c).segments, 8);
	kedge__stage_client_free(c);
	l2_has(&s, 4);
	scene_close(&s);
}

/* A job that is alive is left alone; one that was killed is not waited for. */
static void dead_or_alive(void **state)
{
	struct kedge__drain_report r;
	struct scene s;
	int ends[2];
	pid_t child;
	char c;

	(void)state;
	if (!proof_is_to_be_had())
		skip();
	scene_open(&s);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		struct kedge__catalog *cat = open_store(s.dirs[0]);

		if (kedge__catalog_own(cat, NAME, NULL) || write(ends[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(1);
	}
	assert_int_equal(read(ends[0], &c, 1), 1);
	assert_fails(KEDGE_E_LOCKED, "in use by job", drain(&s, 0, NULL, &r, err));
	l2_has(&s, 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_ok(drain(&s, 0, NULL, &r, err));
	l2_has(&s, 4);
	close(ends[0]);
	close(ends[1]);
	scene_close(&s);
}

/* A version that is damaged on L1 does not get to L2, nor does one that needs it; older ones do. */
static void damaged(void **state)
{
	struct kedge__drain_report r;
	struct place there;
	struct scene s;
	char path[FILES_PATH];

	(void)state;
	scene_open(&s);
	there = (struct place){.store = s.dirs[0]};
	segment_at(&there, 3, 1, path);
	file_flip(path, 150, 0x10);
	assert_fails(KEDGE_E_DAMAGED, "version 3", drain(&s, 0, NULL, &r, err));
	assert_int_equal(r.versions, 2);
	assert_int_equal(r.failed, 2);
	{
		struct kedge__catalog *cat = open_store(s.l2.store);

		assert_int_equal(kedge__catalog_count(cat), 2);
		assert_ok(compare_index(&cat, 1, &s.job, 0, err));
		assert_ok(compare_index(&cat, 1, &s.job, 1, err));
		kedge__catalog_close(cat);
	}
	scene_close(&s);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_of_one_directory), cmocka_unit_test(of_two_nodes), cmocka_unit_test(by_a_server),
	    cmocka_unit_test(dead_or_alive),        cmocka_unit_test(damaged),
	};

	return cases_run_where(argc, argv, tests, NULL, NULL, stage_here);
}
