/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench pipeline --writers: a sealed segment written by pwrite and by io_uring, through the page cache and past
 * it, taking turns; beside each the ratio to pwrite through the page cache in the same turn.
 */
#include "pipeline.h"
#include "store/store.h"

#include <stdlib.h>
#include <unistd.h>

#define SMALL_BYTES ((size_t)64 << 10)
#define SMALL_COUNT 16 /* segments, so that a turn takes long enough to be timed */

struct way {
	const char *writer;
	enum kedge__writer id;
	bool direct;
	double seconds[KEDGE__FLOW_TURNS], ratio[KEDGE__FLOW_TURNS];
};

struct writers {
	const struct kedge__writers_spec *spec;
	struct kedge__catalog *cat;
	struct kedge__pool *pool;
	uint64_t version;
	struct way ways[4];
	size_t way_count;
	json_t *rows;
	struct kedge__table table;
};

/* One version that is all new, of one region, as the full reducer leaves it. */
static int write_segment(struct writers *w, const struct way *way, size_t buffer, size_t bytes,
			 struct kedge__error *err)
{
	struct kedge__region_record region = {.name = "state", .type = KEDGE_BYTES, .bytes = bytes};
	struct kedge__extent extent = {.len = bytes, .kind = KEDGE__EXTENT_LITERAL};
	struct kedge__literal literal = {.data = w->spec->data, .bytes = bytes};
	struct kedge__reduction reduction = {.literals = {.at = &literal, .count = 1},
					     .parent = KEDGE__NO_VERSION,
					     .chunk = 0,
					     .reducer = KEDGE__REDUCER_FULL};
	struct kedge__segment_spec spec = {.name = "bench",
					   .version = ++w->version,
					   .ranks = 1,
					   .next_slot = 1,
					   .regions = &region,
					   .region_count = 1,
					   .reduction = &reduction,
					   .codec = w->spec->codec,
					   .block_bytes = 128 << 10,
					   .io = {way->id, way->direct, buffer, w->spec->queue},
					   .sync = true};
	struct kedge__set_part part;
	int rc = kedge__extent_tape_append(&reduction.map, extent, false, err);

	if (!rc)
		rc = kedge__segment_write(w->cat, w->pool, &spec, &part, NULL, err);
	kedge__extent_tape_done(&reduction.map);
	return rc;
}

/* Removing the files is not timed. */
static int take_turn(struct writers *w, struct way *way, uint64_t turn, size_t buffer, size_t bytes, size_t count,
		     struct kedge__error *err)
{
	uint64_t first = w->version + 1;
	double start = kedge__clock_seconds();
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++)
		rc = write_segment(w, way, buffer, bytes, err);
	way->seconds[turn] = (kedge__clock_seconds() - start) / (double)count;
	way->ratio[turn] = way->seconds[turn] / w->ways[0].seconds[turn];
	for (uint64_t v = first; v <= w->version && !rc; v++)
		rc = kedge__segment_discard(w->cat, v, 0, 0, err);
	return rc;
}

static void add_json(struct writers *w, struct way *way, size_t buffer, size_t bytes, double seconds, double ratio)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "segment", bytes);
	kedge__json_uint(o, "buffer", buffer);
	kedge__json_text(o, "writer", way->writer);
	kedge__json_bool(o, "direct", way->direct);
	kedge__json_real(o, "seconds", seconds);
	kedge__json_real(o, "ratio", ratio);
	kedge__json_real(o, "ratio_lowest", way->ratio[0]);
	kedge__json_real(o, "ratio_highest", way->ratio[w->spec->repeat - 1]);
	kedge__json_add(w->rows, o);
}

static void add_text(struct writers *w, struct way *way, size_t buffer, size_t bytes, double seconds, double ratio)
{
	struct kedge__table *t = &w->table;
	char text[KEDGE__TEXT_ROOM];

	kedge__table_add(t, "%s", kedge__text_bytes(bytes, text));
	kedge__table_add(t, "%s", kedge__text_bytes(buffer, text));
	kedge__table_add(t, "%s", way->writer);
	kedge__table_add(t, "%s", way->direct ? "yes" : "no");
	kedge__table_add(t, "%.4f", seconds);
	kedge__table_add(t, "%.0f", (double)bytes / seconds * 1e-6);
	kedge__table_add(t, "%.2f", ratio);
	kedge__table_add(t, "%.2f..%.2f", way->ratio[0], way->ratio[w->spec->repeat - 1]);
}

static int measure(struct writers *w, size_t buffer, size_t bytes, size_t count, struct kedge__error *err)
{
	int rc = 0;

	for (uint64_t turn = 0; turn < w->spec->repeat; turn++)
		for (size_t i = 0; i < w->way_count && !rc; i++)
			rc = take_turn(w, &w->ways[i], turn, buffer, bytes, count, err);
	for (size_t i = 0; i < w->way_count && !rc; i++) {
		double seconds = kedge__bench_median(w->ways[i].seconds, w->spec->repeat);
		double ratio = kedge__bench_median(w->ways[i].ratio, w->spec->repeat);

		if (w->rows)
			add_json(w, &w->ways[i], buffer, bytes, seconds, ratio);
		else
			add_text(w, &w->ways[i], buffer, bytes, seconds, ratio);
	}
	return rc;
}

static void prepare(struct writers *w)
{
	static const char *const heads[] = {"segment", "buffer", "writer", "direct",
					    "seconds", "MB/s",   "ratio",  "spread"};

	w->ways[0] = (struct way){.writer = "pwrite", .id = KEDGE__WRITER_PWRITE};
	w->ways[1] = (struct way){.writer = "pwrite", .id = KEDGE__WRITER_PWRITE, .direct = true};
	w->ways[2] = (struct way){.writer = "uring", .id = KEDGE__WRITER_URING};
	w->ways[3] = (struct way){.writer = "uring", .id = KEDGE__WRITER_URING, .direct = true};
	w->way_count = kedge__fs_queue_probe() == 0 ? 4 : 2;
	if (w->spec->json)
		w->rows = kedge__json_array();
	kedge__table_init(&w->table, "rrllrrrr");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_add(&w->table, "%s", heads[i]);
}

static void print_results(struct writers *w)
{
	json_t *o;

	if (!w->rows) {
		printf("segments written and synced in %s; ratio of the time to that of pwrite in the same turn, "
		       "median and "
		       "spread of %llu\n\n",
		       w->spec->dir, (unsigned long long)w->spec->repeat);
		kedge__table_print(&w->table, stdout);
		return;
	}
	o = kedge__json_object();
	kedge__json_text(o, "dir", w->spec->dir);
	kedge__json_uint(o, "repeat", w->spec->repeat);
	kedge__json_uint(o, "threads", (uint64_t)kedge__pool_threads(w->pool));
	kedge__json_set(o, "writers", w->rows);
	w->rows = NULL;
	kedge__json_print(o);
}

static int measure_in(struct writers *w, const char *dir, struct kedge__error *err)
{
	int rc = kedge__catalog_open(dir, "bench", KEDGE__CATALOG_CREATE, &w->cat, err);

	if (!rc)
		rc = kedge__pool_new(w->spec->threads, &w->pool, err);
	for (size_t i = 0; i < w->spec->buffer_count && !rc; i++)
		rc = measure(w, w->spec->buffers[i], w->spec->size, 1, err);
	for (size_t i = 0; i < w->spec->buffer_count && !rc; i++)
		rc = measure(w, w->spec->buffers[i], KEDGE__MIN(SMALL_BYTES, w->spec->size), SMALL_COUNT, err);
	if (!rc)
		print_results(w);
	kedge__pool_free(w->pool);
	kedge__catalog_close(w->cat);
	return rc;
}

int kedge__bench_writers(const struct kedge__writers_spec *spec, struct kedge__error *err)
{
	struct writers w = {.spec = spec};
	char *dir = NULL;
	int rc = kedge__bench_dir_make(spec->dir, &dir, err);

	prepare(&w);
	if (!rc) {
		rc = measure_in(&w, dir, err);
		kedge__bench_dir_remove(dir);
	}
	kedge__table_drop(&w.table);
	json_decref(w.rows);
	kedge__free(dir);
	return rc;
}
