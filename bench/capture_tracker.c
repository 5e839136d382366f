/* SPDX-License-Identifier: BSD-3-Clause */
/* Trackers: time to arm, cost of first writes, time to collect, and what is dirty copied. */
#include "capture.h"

#define RUN 64 /* pages that are written together */

struct scene {
	double percent;
	bool runs;
};

static const struct scene scenes[] = {{0.01, false}, {0.01, true}, {0.1, false}, {0.1, true}, {1, false},
				      {1, true},     {10, false},  {10, true},   {100, true}};

/* One group of pages in each stretch of the memory, at a random place in it. */
static uint64_t write_pages(struct kedge__capture_bench *b, struct scene s, uint64_t seed)
{
	uint64_t pages = b->size / b->page, group = s.runs ? RUN : 1, written = 0;
	double stretch = (double)group * 100 / s.percent;

	b->seed = seed;
	for (double at = 0; at + stretch <= (double)pages; at += stretch) {
		uint64_t room = (uint64_t)stretch - group + 1;
		uint64_t first = (uint64_t)at + kedge__capture_random(b) % room;

		for (uint64_t i = 0; i < group; i++, written++)
			b->data[(first + i) * b->page]++;
	}
	return written;
}

static int copy_dirty(struct kedge__capture_bench *b, struct kedge__tracker *t, size_t id, uint64_t *bytes,
		      struct kedge__error *err)
{
	struct kedge__range_list list = {0};
	int rc = kedge__tracker_dirty(t, id, &list, err);

	*bytes = 0;
	for (size_t i = 0; i < list.count; i++) {
		memcpy(b->copy + list.at[i].start, b->data + list.at[i].start, list.at[i].len);
		*bytes += list.at[i].len;
	}
	kedge__array_done(&list);
	return rc;
}

static int measure_scene(struct kedge__capture_bench *b, struct kedge__tracker *t, size_t id, struct scene s,
			 struct kedge__error *err)
{
	struct kedge__capture_row row = {.pages = b->pages,
					 .who = kedge__tracker_name(t),
					 .pattern = s.percent < 100 ? s.runs ? "runs" : "random" : "all",
					 .percent = s.percent};
	uint64_t seed = b->seed, bytes;
	double start = kedge__clock_seconds(), first, again, collected, copied;
	int rc;

	row.count = write_pages(b, s, seed);
	first = kedge__clock_seconds();
	/* The same writes to pages that are open now: what the memory itself takes. */
	write_pages(b, s, seed);
	again = kedge__clock_seconds();
	rc = kedge__tracker_collect(t, err);
	collected = kedge__clock_seconds();
	if (rc == 0)
		rc = copy_dirty(b, t, id, &bytes, err);
	copied = kedge__clock_seconds();
	if (rc || !row.count)
		return rc;
	row.what = "first write";
	kedge__capture_note(b, row, ((first - start) - (again - first)) / (double)row.count, -1);
	row.count = bytes / b->page;
	row.what = "collect";
	kedge__capture_note(b, row, collected - again, (collected - again) / b->memcpy_seconds);
	row.what = "collect + copy";
	kedge__capture_note(b, row, copied - again, (copied - again) / b->memcpy_seconds);
	return 0;
}

static int measure_arming(struct kedge__capture_bench *b, struct kedge__tracker *t, struct kedge__error *err)
{
	struct kedge__capture_row row = {.pages = b->pages,
					 .who = kedge__tracker_name(t),
					 .what = "arm",
					 .pattern = "",
					 .percent = -1,
					 .count = b->size / b->page};
	double start = kedge__clock_seconds();
	uint64_t bytes;
	int rc = kedge__tracker_collect(t, err);

	kedge__capture_note(b, row, kedge__clock_seconds() - start,
			    (kedge__clock_seconds() - start) / b->memcpy_seconds);
	start = kedge__clock_seconds();
	if (rc == 0)
		rc = kedge__tracker_count(t, &bytes, err);
	row.what = "count";
	kedge__capture_note(b, row, kedge__clock_seconds() - start,
			    (kedge__clock_seconds() - start) / b->memcpy_seconds);
	return rc;
}

static int measure_kind(struct kedge__capture_bench *b, const char *kind, struct kedge__error *err)
{
	struct kedge__tracker *t;
	size_t id;
	int rc = kedge__tracker_open(kind, &t, err);

	if (rc)
		return rc;
	kedge__capture_memcpy(b);
	rc = kedge__tracker_add(t, b->data, b->size, 0, &id, err);
	if (rc == 0)
		rc = measure_arming(b, t, err);
	for (size_t i = 0; rc == 0 && i < KEDGE__COUNT(scenes); i++)
		rc = measure_scene(b, t, id, scenes[i], err);
	kedge__tracker_close(t);
	return rc;
}

int kedge__capture_trackers(struct kedge__capture_bench *b, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && kedge__tracker_kind(i); i++) {
		const char *kind = kedge__tracker_kind(i);

		if (strcmp(kind, "none") != 0 && kedge__tracker_probe(kind, NULL) == 0)
			rc = measure_kind(b, kind, err);
	}
	return rc;
}
