/* SPDX-License-Identifier: BSD-3-Clause */
/* A segment that is copied to another level while it is written: the copy is what was written, or there is none. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define SCALE  300000
#define BUFFER 4096

struct ground {
	struct job job;
	char *dirs[2];
	struct kedge__catalog *from, *to;
	struct kedge__companion *companion;
	pthread_t thread;
	struct kedge__bucket *bucket;
	bool started, joined;
	int rc; /* of the copy */
	struct kedge__error err;
	bool damages; /* what was written, before it is copied */
};

static void ground_open(struct ground *g)
{
	*g = (struct ground){.err = KEDGE__ERROR_INIT};
	g->job = job_new(1, SCALE);
	g->job.block_bytes = 1500;
	g->job.io.buffer = BUFFER;
	assert_ok(kedge__codec_choice_parse("lz4", &g->job.codec, err)); /* so that each buffer is a write */
	g->dirs[0] = make_dir();
	g->dirs[1] = make_dir();
	g->from = open_store(g->dirs[0]);
	g->to = open_store(g->dirs[1]);
	job_step(&g->job, 1);
	assert_ok(kedge__companion_new(&g->companion, err));
	g->job.companion = g->companion;
}

static void ground_close(struct ground *g)
{
	kedge__companion_free(g->companion);
	kedge__catalog_close(g->from);
	kedge__catalog_close(g->to);
	job_done(&g->job);
	remove_dir(g->dirs[0]);
	remove_dir(g->dirs[1]);
	kedge__error_done(&g->err);
}

static void *copy_main(void *ctx)
{
	struct ground *g = ctx;
	const struct kedge__companion_place place = {
	    .cat = g->to, .version = 1, .sync = true, .io = g->job.io, .bucket = g->bucket};

	g->rc = kedge__companion_run(g->companion, &place, &g->err);
	return NULL;
}

static void copy_begin(struct ground *g)
{
	assert_int_equal(pthread_create(&g->thread, NULL, copy_main, g), 0);
	g->started = true;
}

static void copy_join(struct ground *g)
{
	if (g->started && !g->joined)
		pthread_join(g->thread, NULL);
	g->joined = true;
}

static int save(struct ground *g, struct kedge__error *err)
{
	int rc = save_index(g->from, &g->job, 0, KEDGE__REDUCER_FULL, true, err);

	if (!g->bucket)
		copy_join(g);
	return rc;
}

static int complete(struct ground *g, struct kedge__set_part *part, struct kedge__error *err)
{
	return kedge__level_copy(g->from, g->to, 1, 0, true, g->job.io, NULL, g->companion, NULL, NULL, part, err);
}

static void nothing_is_left(const struct ground *g)
{
	char *text = tree_text(g->dirs[1], "", NULL);

	assert_string_equal(text, "/job -1\n/job/guard 0\n/kedge-store 48\n");
	kedge__free(text);
}

static char *segment(struct kedge__catalog *cat)
{
	return kedge__segment_path(cat, 1, 0, 0);
}

/* Somewhere on the way; called by the thread that writes. */
static void on_the_way(void *ctx, uint64_t bytes)
{
	struct ground *g = ctx;
	char *path = segment(g->from), *tmp = kedge__asprintf("%s.tmp", path);

	if (!g->started && bytes > SCALE / 3 && g->damages) {
		file_flip(tmp, KEDGE__SEGMENT_HEADER_BYTES + 100, 4);
		copy_begin(g);
		copy_join(g);
		file_flip(tmp, KEDGE__SEGMENT_HEADER_BYTES + 100, 4);
	} else if (!g->started && bytes > SCALE / 3) {
		copy_begin(g);
	}
	kedge__free(path);
	kedge__free(tmp);
}

static void assert_same_file(struct ground *g)
{
	char *a = segment(g->from), *b = segment(g->to);
	size_t a_bytes, b_bytes;
	uint8_t *a_data = file_read(a, &a_bytes), *b_data = file_read(b, &b_bytes);

	assert_int_equal(a_bytes, b_bytes);
	assert_memory_equal(a_data, b_data, a_bytes);
	free(a_data);
	free(b_data);
	kedge__free(a);
	kedge__free(b);
}

/* From the beginning, or somewhere on the way; compressed, or in blocks with pages. */
static void test_copied_while_written(void **state)
{
	(void)state;
	for (int way = 0; way < 4; way++) {
		struct kedge__set_part part;
		bool late = way & 1;
		struct ground g;

		ground_open(&g);
		if (way & 2) {
			g.job.block_bytes = 20000;
			assert_ok(kedge__codec_choice_parse("none", &g.job.codec, err));
		}
		if (late) {
			g.job.progress = on_the_way;
			g.job.progress_ctx = &g;
		} else {
			copy_begin(&g);
		}
		assert_ok(save(&g, err));
		assert_int_equal(g.rc, 0);
		assert_ok(complete(&g, &part, err));
		assert_same_file(&g);
		assert_int_equal(part.generation, 0);
		ground_close(&g);
	}
}

/* It is not copied again: a block that has gone bad since does no harm. */
static void test_is_used(void **state)
{
	struct kedge__set_part part;
	struct ground g;
	char *path;

	(void)state;
	ground_open(&g);
	copy_begin(&g);
	assert_ok(save(&g, err));
	path = segment(g.from);
	file_flip(path, KEDGE__SEGMENT_HEADER_BYTES + 100, 4);
	assert_ok(complete(&g, &part, err));
	file_flip(path, KEDGE__SEGMENT_HEADER_BYTES + 100, 4);
	assert_same_file(&g);
	kedge__free(path);
	ground_close(&g);
}

/* What does not read back as it was written is not copied. */
static void test_damage(void **state)
{
	struct kedge__set_part part;
	struct ground g;

	(void)state;
	ground_open(&g);
	g.job.progress = on_the_way;
	g.job.progress_ctx = &g;
	g.damages = true;
	assert_ok(save(&g, err));
	assert_int_equal(g.err.code, KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge__error_text(&g.err), "does not read back"));
	nothing_is_left(&g);
	assert_ok(complete(&g, &part, err));
	assert_same_file(&g);
	ground_close(&g);
}

/* The segment of another set than the one that is copied. */
static void test_other_segment(void **state)
{
	struct kedge__set_part part;
	struct ground g;

	(void)state;
	ground_open(&g);
	copy_begin(&g);
	assert_ok(save(&g, err));
	assert_ok(kedge__set_remove(g.from, 1, err));
	g.job.companion = NULL;
	g.job.images[0][0].data[0][7]++;
	assert_ok(save(&g, err));
	assert_ok(complete(&g, &part, err));
	assert_int_equal(part.generation, 1); /* the other one is still there */
	kedge__companion_free(g.companion);
	g.companion = NULL;
	ground_close(&g);
}

static void test_copied_afterwards(void **state)
{
	struct kedge__set_part part;
	struct ground g;

	(void)state;
	ground_open(&g);
	assert_ok(save(&g, err));
	copy_main(&g);
	assert_int_equal(g.rc, 0);
	assert_ok(complete(&g, &part, err));
	assert_same_file(&g);
	ground_close(&g);
}

static void test_given_up(void **state)
{
	struct ground g;

	(void)state;
	for (int when = 0; when < 2; when++) {
		ground_open(&g);
		if (!when)
			kedge__companion_give_up(g.companion);
		copy_begin(&g);
		assert_ok(save(&g, err));
		kedge__companion_give_up(g.companion);
		kedge__companion_free(g.companion);
		g.companion = NULL;
		nothing_is_left(&g);
		ground_close(&g);
	}
}

/* Call N of the file system fails, none if N is 0: of the writer's or the copy's, which are made at once, or of the copy's, LATE.
 * How many there are; FAILED counts writers and copies that did. */
static uint64_t fail_call(uint64_t n, bool late, unsigned failed[2])
{
	char *fault = kedge__asprintf("eio@%llu", (unsigned long long)n);
	struct kedge__set_part part;
	struct ground g;
	uint64_t calls;
	int rc = 0;

	ground_open(&g);
	if (late)
		assert_ok(save(&g, err));
	assert_int_equal(kedge__fault_set(n ? fault : NULL, NULL), 0);
	if (late) {
		copy_main(&g);
	} else {
		copy_begin(&g);
		rc = save(&g, NULL);
	}
	calls = kedge__fault_count();
	kedge__fault_set(NULL, NULL);
	failed[0] += rc != 0;
	failed[1] += !rc && g.rc != 0;
	if (g.rc || rc) {
		kedge__companion_free(g.companion);
		g.companion = NULL;
		nothing_is_left(&g);
	}
	if (!rc) {
		assert_ok(complete(&g, &part, err));
		assert_same_file(&g);
	}
	ground_close(&g);
	kedge__free(fault);
	return calls;
}

/* Neither fails with the other, and nothing is left of a copy that was not completed. */
static void test_every_call_fails(void **state)
{
	unsigned failed[2] = {0, 0}, failed_late[2] = {0, 0};
	uint64_t calls = 1;

	(void)state;
	for (uint64_t n = 0; n <= calls; n++)
		calls = KEDGE__MAX(calls, fail_call(n, false, failed));
	assert_true(failed[0] > 3); /* how few calls the copy makes beside them depends on how far it is behind */
	calls = fail_call(0, true, failed_late);
	for (uint64_t n = 1; n <= calls; n++)
		(void)fail_call(n, true, failed_late);
	assert_true(calls > 3);
	assert_int_equal(failed_late[1], calls);
}

/* It keeps to its rate; the writer does not wait for it. */
static atomic_bool written;

static void wait_for_writer(void *ctx, double seconds)
{
	(void)ctx, (void)seconds;
	while (!atomic_load(&written))
		continue;
}

static void test_paced(void **state)
{
	struct kedge__set_part part;
	struct kedge__bucket bucket;
	struct ground g;

	(void)state;
	ground_open(&g);
	kedge__bucket_init(&bucket, 1e-9, 1);
	bucket.sleep = wait_for_writer;
	g.bucket = &bucket;
	copy_begin(&g);
	assert_ok(save(&g, err));
	atomic_store(&written, true);
	copy_join(&g);
	assert_int_equal(g.rc, 0);
	assert_ok(complete(&g, &part, err));
	assert_same_file(&g);
	assert_true(bucket.taken >= (double)part.file_bytes);
	ground_close(&g);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_copied_while_written),
	    cmocka_unit_test(test_is_used),
	    cmocka_unit_test(test_damage),
	    cmocka_unit_test(test_other_segment),
	    cmocka_unit_test(test_copied_afterwards),
	    cmocka_unit_test(test_given_up),
	    cmocka_unit_test(test_every_call_fails),
	    cmocka_unit_test(test_paced),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
