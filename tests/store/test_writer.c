/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways to write a segment: by pwrite and by io_uring, through the page cache and past it. Whichever it is, the file
 * is the same, and a fault at any of its writes leaves nothing behind. Where the kernel permits no io_uring, or the
 * file system no direct writes, the same tests show that asking for them does no harm.
 */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>

#define SCALE  30000
#define BUFFER 4096

static const struct kedge__io ways[] = {
    {.writer = KEDGE__WRITER_PWRITE, .buffer = BUFFER},
    {.writer = KEDGE__WRITER_PWRITE, .direct = true, .buffer = BUFFER},
    {.writer = KEDGE__WRITER_URING, .buffer = BUFFER},
    {.writer = KEDGE__WRITER_URING, .direct = true, .buffer = BUFFER},
};

struct ground {
	struct job job;
	char *dir;
	struct kedge__catalog *cat;
};

static void ground_open_in(struct ground *g, char *dir, const struct kedge__io *io, uint64_t scale)
{
	g->job = job_new(1, scale);
	g->job.block_bytes = 1500;
	g->job.io = *io;
	g->dir = dir;
	g->cat = open_store(g->dir);
	save_next(g->cat, &g->job, 1, KEDGE__REDUCER_FULL);
	job_step(&g->job, 2);
}

static void ground_open(struct ground *g, const struct kedge__io *io, uint64_t scale)
{
	ground_open_in(g, make_dir(), io, scale);
}

static void ground_close(struct ground *g)
{
	kedge__catalog_close(g->cat);
	kedge__pool_free(g->job.pool);
	job_done(&g->job);
	remove_dir(g->dir);
}

static int save_second(struct ground *g, struct kedge__error *err)
{
	return save_index(g->cat, &g->job, 1, KEDGE__REDUCER_FULL, true, err);
}

/* ------------------------------------------------------------------ what is written */

static uint8_t *written_by(const struct kedge__io *io, uint64_t scale, int threads, size_t *bytes)
{
	struct kedge__segment *seg;
	struct ground g;
	uint8_t *data;
	char *path;

	ground_open(&g, io, scale);
	if (threads)
		assert_ok(kedge__pool_new(threads, &g.job.pool, err));
	assert_ok(save_second(&g, err));
	assert_all_intact(g.cat, &g.job);
	path = kedge__segment_path(g.cat, 2, 0, 0);
	assert_ok(kedge__segment_open(NULL, path, NULL, &seg, err));
	data = file_read(path, bytes);
	*bytes = (size_t)(KEDGE__SEGMENT_HEADER_BYTES + seg->footer.payload_bytes);
	memset(data, 0, KEDGE__SEGMENT_HEADER_BYTES); /* has the time */
	kedge__segment_close(seg);
	kedge__free(path);
	ground_close(&g);
	return data;
}

static void test_same_file(void **state)
{
	static const uint64_t scales[] = {104, 3000, 16384, 70000, 1500000};

	(void)state;
	for (size_t s = 0; s < KEDGE__COUNT(scales); s++) {
		size_t bytes, first_bytes;
		uint8_t *first = written_by(&ways[0], scales[s], 0, &first_bytes);

		for (size_t i = 1; i < 2 * KEDGE__COUNT(ways); i++) {
			struct kedge__io io = ways[i / 2];
			uint8_t *data;

			io.queue = i % 3; /* of one buffer none can be held */
			data = written_by(&io, scales[s], i % 2 ? 3 : 0, &bytes);
			assert_int_equal(bytes, first_bytes);
			assert_memory_equal(data, first, bytes);
			free(data);
		}
		free(first);
	}
}

/* ------------------------------------------------------------------ what is checked */

struct watch {
	const struct image *image;
	uint32_t unit;
	uint8_t *times;  /* each byte of the literal space was shown */
	uint64_t refuse; /* the bytes at this position */
	pthread_mutex_t lock;
};

/* The region that POSITION of a full version is in, and where that begins. */
static int region_at(const struct image *image, uint64_t position, uint64_t *start)
{
	int r = 0;

	for (*start = 0; position - *start >= image->bytes[r]; r++)
		*start += image->bytes[r];
	return r;
}

static int watch_check(void *ctx, uint64_t position, const void *bytes, size_t len, struct kedge__error *err)
{
	struct watch *w = ctx;
	uint64_t start;
	int r = region_at(w->image, position, &start);

	pthread_mutex_lock(&w->lock);
	assert_int_equal((position - start) % w->unit, 0);
	assert_true(len % w->unit == 0 || position - start + len == w->image->bytes[r]);
	assert_memory_equal(bytes, (const uint8_t *)w->image->data[r] + (position - start), len);
	for (size_t i = 0; i < len; i++)
		w->times[position + i]++;
	pthread_mutex_unlock(&w->lock);
	if (position <= w->refuse && w->refuse < position + len)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "refused");
	return 0;
}

/* The whole version passes the check once, in units, whoever writes it; what is refused leaves no version. */
static void test_checked(void **state)
{
	static const uint32_t units[] = {8, 256, 4096, 3000, 8192, 16384};

	(void)state;
	for (size_t i = 0; i < 4 * KEDGE__COUNT(units); i++) {
		struct kedge__literal_source source = {.check = watch_check, .unit = units[i / 4]};
		struct watch w = {.unit = units[i / 4], .refuse = UINT64_MAX, .lock = PTHREAD_MUTEX_INITIALIZER};
		struct ground g;
		uint64_t bytes = 0;

		ground_open(&g, &ways[0], 300000);
		g.job.io.buffer = 0;
		g.job.block_bytes = 32768;
		source.ctx = &w;
		g.job.source = &source;
		w.image = &g.job.images[1][0];
		for (int r = 0; r < REGIONS; r++)
			bytes += w.image->bytes[r];
		w.times = calloc(1, bytes);
		w.refuse = i % 2 ? bytes / 2 : UINT64_MAX;
		if (i % 4 > 1)
			assert_ok(kedge__pool_new(3, &g.job.pool, err));
		if (i % 2) {
			assert_int_equal(save_second(&g, NULL), KEDGE_E_STATE);
			assert_null(kedge__catalog_find(g.cat, 2));
		} else {
			assert_ok(save_second(&g, err));
			for (uint64_t b = 0; b < bytes; b++)
				assert_int_equal(w.times[b], 1);
			assert_all_intact(g.cat, &g.job);
		}
		free(w.times);
		ground_close(&g);
	}
}

static int watch_fill(void *ctx, int worker, uint64_t position, void *to, size_t len, struct kedge__error *err)
{
	struct watch *w = ctx;
	uint64_t start;
	int r = region_at(w->image, position, &start);

	(void)worker;
	(void)err;
	memcpy(to, (const uint8_t *)w->image->data[r] + (position - start), len);
	return 0;
}

/* Where all is copied to buffers, and the file is on a disk, a group waits there for the next one; in a ring of one
 * buffer none can. */
static void test_filled(void **state)
{
	static const size_t buffers[] = {BUFFER, 0};

	(void)state;
	for (size_t i = 0; i < 2 * KEDGE__COUNT(buffers) * 4; i++) {
		struct watch w = {.unit = 1};
		struct kedge__literal_source source = {.ctx = &w, .fill = watch_fill, .unit = 1};
		struct ground g;
		char dir[FILES_PATH];

		scratch_make_on_disk(dir, sizeof(dir), "store");
		ground_open_in(&g, kedge__strdup(dir), &ways[0], 300000);
		w.image = &g.job.images[1][0];
		g.job.io.buffer = buffers[i / 4 % 2];
		g.job.io.queue = i % 4;
		g.job.block_bytes = i / 8 ? 32768 : 1500;
		g.job.source = &source;
		assert_ok(kedge__pool_new(3, &g.job.pool, err));
		assert_ok(save_second(&g, err));
		assert_all_intact(g.cat, &g.job);
		ground_close(&g);
	}
}

static void test_copy(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(ways); i++) {
		struct ground g;
		struct kedge__set_part part;
		struct kedge__catalog *to;
		char *dir = make_dir(), *from_path, *to_path;
		size_t from_bytes, to_bytes;
		uint8_t *from_data, *to_data;

		ground_open(&g, &ways[0], SCALE);
		to = open_store(dir);
		assert_ok(kedge__level_copy(g.cat, to, 1, 0, true, ways[i], NULL, NULL, NULL, NULL, &part, err));
		from_path = kedge__segment_path(g.cat, 1, 0, 0);
		to_path = kedge__segment_path(to, 1, 0, part.generation);
		from_data = file_read(from_path, &from_bytes);
		to_data = file_read(to_path, &to_bytes);
		assert_int_equal(from_bytes, to_bytes);
		assert_memory_equal(from_data, to_data, from_bytes);
		free(from_data);
		free(to_data);
		kedge__free(from_path);
		kedge__free(to_path);
		kedge__catalog_close(to);
		remove_dir(dir);
		ground_close(&g);
	}
}

/* The bucket sees every byte, whoever writes it. */
static void take_nothing(void *ctx, double seconds)
{
	(void)ctx;
	(void)seconds;
}

static void test_paced(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(ways); i++) {
		struct kedge__bucket bucket;
		struct kedge__set_part part;
		struct kedge__catalog *to;
		char *dir = make_dir();
		struct ground g;

		ground_open(&g, &ways[0], SCALE);
		to = open_store(dir);
		kedge__bucket_init(&bucket, 1e-9, 1e9);
		bucket.sleep = take_nothing;
		assert_ok(kedge__level_copy(g.cat, to, 1, 0, true, ways[i], &bucket, NULL, NULL, NULL, &part, err));
		assert_int_equal((uint64_t)(1e9 - bucket.level + 0.5), part.file_bytes);
		kedge__catalog_close(to);
		remove_dir(dir);
		ground_close(&g);
	}
}

/* ------------------------------------------------------------------ faults */

static uint64_t count_calls(const struct kedge__io *io)
{
	struct ground g;
	uint64_t calls;

	ground_open(&g, io, SCALE);
	kedge__fault_set(NULL, NULL);
	assert_ok(save_second(&g, err));
	calls = kedge__fault_count();
	ground_close(&g);
	/* A fault point for each buffer that was written. */
	assert_true(calls >= SCALE / BUFFER + 10);
	return calls;
}

/* With a fault at each call: the version is whole, or there is no trace of it and the error names a file. */
static void fail_each(const char *action, int code)
{
	for (size_t i = 0; i < KEDGE__COUNT(ways); i++) {
		uint64_t calls = count_calls(&ways[i]);

		for (uint64_t n = 1; n <= calls; n++) {
			struct ground g;
			char *spec = kedge__asprintf("%s@%llu", action, (unsigned long long)n), *before, *now;
			struct kedge__error problem = KEDGE__ERROR_INIT;
			int rc;

			ground_open(&g, &ways[i], SCALE);
			before = tree_text(g.dir, "", NULL);
			assert_int_equal(kedge__fault_set(spec, NULL), 0);
			rc = save_second(&g, &problem);
			kedge__fault_set(NULL, NULL);
			now = tree_text(g.dir, "", NULL);
			if (rc && (rc != code || !strstr(kedge__error_text(&problem), g.dir)))
				fail_msg("%s, way %zu: %d %s", spec, i, rc, kedge__error_text(&problem));
			if (rc && strcmp(before, now) != 0)
				fail_msg("%s, way %zu: something is left:\n%s", spec, i, now);
			if (!rc)
				assert_all_intact(g.cat, &g.job);
			kedge__free(before);
			kedge__free(now);
			kedge__free(spec);
			kedge__error_done(&problem);
			ground_close(&g);
		}
	}
}

static void test_eio(void **state)
{
	(void)state;
	fail_each("eio", KEDGE_E_IO);
}

static void test_enospc(void **state)
{
	(void)state;
	fail_each("enospc", KEDGE_E_NOSPACE);
}

static void test_short_writes(void **state)
{
	(void)state;
	fail_each("short", 0);
}

struct victim {
	struct ground *ground;
	const char *spec;
};

static void run_victim(void *ctx)
{
	struct victim *v = ctx;

	if (kedge__fault_set(v->spec, NULL) != 0)
		_exit(2);
	_exit(save_second(v->ground, NULL) == 0 ? 0 : 1);
}

static void kill_each(const char *action)
{
	for (size_t i = 0; i < KEDGE__COUNT(ways); i++) {
		uint64_t calls = count_calls(&ways[i]);

		for (uint64_t n = 1; n <= calls; n++) {
			char *spec = kedge__asprintf("%s@%llu", action, (unsigned long long)n);
			struct ground g;
			struct victim victim = {&g, spec};
			size_t removed;
			int status;

			ground_open(&g, &ways[i], SCALE);
			status = run_child(run_victim, &victim);
			if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
				fail_msg("%s, way %zu: not killed: %#x", spec, i, status);
			assert_ok(kedge__catalog_scan(g.cat, err));
			assert_ok(kedge__catalog_clean(g.cat, &removed, err));
			assert_all_intact(g.cat, &g.job);
			kedge__free(spec);
			ground_close(&g);
		}
	}
}

static void test_kill(void **state)
{
	(void)state;
	kill_each("kill");
}

static void test_cut(void **state)
{
	(void)state;
	kill_each("cut");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_same_file), cmocka_unit_test(test_checked),      cmocka_unit_test(test_copy),
	    cmocka_unit_test(test_filled),    cmocka_unit_test(test_paced),        cmocka_unit_test(test_eio),
	    cmocka_unit_test(test_enospc),    cmocka_unit_test(test_short_writes), cmocka_unit_test(test_kill),
	    cmocka_unit_test(test_cut),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
