/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy-on-write: the critical section, and what the application loses while its memory is saved behind its back. */
#include "capture.h"

#define BUFFER ((size_t)4 << 20)

struct saver {
	struct kedge__capture_bench *bench;
	struct kedge__cow *cow;
	double seconds;
	int rc;
};

static void save_all(void *ctx)
{
	struct saver *s = ctx;
	double start = kedge__clock_seconds();
	size_t bytes = 1, range;
	uint64_t offset;

	for (uint64_t at = 0; s->rc == 0 && bytes; at += bytes)
		s->rc = kedge__cow_next(s->cow, s->bench->copy + at,
					KEDGE__MIN(BUFFER, s->bench->size - at + s->bench->page), &range, &offset,
					&bytes, NULL);
	s->seconds = kedge__clock_seconds() - start;
}

/* The peer of the saver: the same copy of memory that nobody protects. */
static void copy_all(void *ctx)
{
	struct saver *s = ctx;

	memcpy(s->bench->copy, s->bench->data, s->bench->size);
}

/* An eighth of the pages, every cache line of them; in random order, or one after the other from a random page on. */
static double writing_loop(struct kedge__capture_bench *b, uint64_t seed, bool sweep)
{
	uint64_t pages = b->size / b->page;
	double start = kedge__clock_seconds();

	b->seed = seed;
	for (uint64_t i = 0, at = kedge__capture_random(b); i < pages / 8; i++) {
		volatile unsigned char *page = b->data + at % pages * b->page;

		for (size_t line = 0; line < b->page; line += 64)
			page[line]++;
		at = sweep ? at + 1 : kedge__capture_random(b);
	}
	return kedge__clock_seconds() - start;
}

double kedge__capture_sweep(struct kedge__capture_bench *b)
{
	return writing_loop(b, 1, true);
}

struct session {
	struct kedge__tracker *tracker; /* or NULL */
	const char *who;
};

static int begin(struct kedge__capture_bench *b, const struct session *with, struct kedge__pool *pool,
		 struct kedge__cow **cow, struct kedge__error *err)
{
	struct kedge__cow_range range = {b->data, b->size};
	struct kedge__cow_options options = {.tracker = with->tracker, .pool = pool, .aside_bytes = b->aside};
	struct kedge__capture_row row = {.pages = b->pages,
					 .who = with->who,
					 .what = pool ? "begin, all threads" : "begin",
					 .pattern = "",
					 .percent = -1,
					 .count = b->size / b->page};
	double start, seconds;
	int rc;

	kedge__capture_memcpy(b);
	start = kedge__clock_seconds();
	rc = kedge__cow_begin(&range, 1, &options, cow, err);
	seconds = kedge__clock_seconds() - start;
	if (rc == 0)
		kedge__capture_note(b, row, seconds, seconds / b->memcpy_seconds);
	return rc;
}

/* Time of the loop alone, beside a plain copy, and beside the save. */
static int measure_loop(struct kedge__capture_bench *b, struct kedge__worker *worker, const struct session *with,
			bool sweep, struct kedge__error *err)
{
	struct kedge__capture_row row = {.pages = b->pages, .who = with->who, .pattern = "", .percent = -1};
	struct saver saver = {.bench = b};
	struct kedge__cow_stats stats;
	uint64_t seed = b->seed;
	double alone, beside;
	int rc;

	writing_loop(b, seed, sweep);
	alone = writing_loop(b, seed, sweep);
	kedge__worker_submit(worker, copy_all, &saver, NULL);
	beside = writing_loop(b, seed, sweep);
	kedge__worker_drain(worker);
	row.what = sweep ? "sweep beside a copy" : "random writes beside a copy";
	row.count = b->size / b->page / 8;
	kedge__capture_note(b, row, beside, beside / alone);
	rc = begin(b, with, sweep ? b->pool : NULL, &saver.cow, err);
	if (rc)
		return rc;
	kedge__worker_submit(worker, save_all, &saver, NULL);
	beside = writing_loop(b, seed, sweep);
	kedge__worker_drain(worker);
	rc = kedge__cow_end(saver.cow, &stats, err);
	row.what = sweep ? "sweep beside the save" : "random writes beside the save";
	kedge__capture_note(b, row, beside, beside / alone);
	row.what = sweep ? "save beside the sweep" : "save beside random writes";
	row.count = stats.aside_pages;
	kedge__capture_note(b, row, saver.seconds, saver.seconds / b->memcpy_seconds);
	return rc ? rc : saver.rc;
}

static int measure_session(struct kedge__capture_bench *b, struct kedge__worker *worker, const struct session *with,
			   struct kedge__error *err)
{
	int rc = measure_loop(b, worker, with, false, err);

	/* What the loop before wrote belongs to the past of the next one. */
	if (rc == 0 && with->tracker)
		rc = kedge__tracker_collect(with->tracker, err);
	return rc ? rc : measure_loop(b, worker, with, true, err);
}

static int measure_with_tracker(struct kedge__capture_bench *b, struct kedge__worker *worker, struct kedge__error *err)
{
	struct session with = {.who = "cow + uffd"};
	size_t id;
	int rc;

	if (kedge__tracker_probe("uffd", NULL) != 0)
		return 0;
	rc = kedge__tracker_open("uffd", &with.tracker, err);
	if (rc)
		return rc;
	rc = kedge__tracker_add(with.tracker, b->data, b->size, 0, &id, err);
	if (rc == 0)
		rc = kedge__tracker_collect(with.tracker, err);
	if (rc == 0)
		rc = measure_session(b, worker, &with, err);
	kedge__tracker_close(with.tracker);
	return rc;
}

int kedge__capture_cow(struct kedge__capture_bench *b, struct kedge__error *err)
{
	struct session plain = {.who = "cow"};
	struct kedge__worker *worker;
	bool kernel_writes;
	int rc;

	if (kedge__cow_probe(&kernel_writes, NULL) != 0)
		return 0;
	rc = kedge__worker_new(1, &worker, err);
	if (rc)
		return rc;
	rc = measure_session(b, worker, &plain, err);
	if (rc == 0)
		rc = measure_with_tracker(b, worker, err);
	kedge__worker_free(worker);
	return rc;
}
