/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench gpu: what the kernels do on this machine's GPU, beside copies of the same bytes on the device and to and
 * from pinned memory of the host, which nothing can beat.
 */
#include "bench_gpu.h"

#include "codec/codec.h"
#include "tool_bench.h"

#include <math.h>

#define SAMPLE (UINT64_C(64) << 20)

struct bench {
	struct kedge__usage usage;
	uint64_t size;
	bool json;
	const char *file, *series, *dir, *only;
	struct kedge__gpu *gpu;
	kedge__gpu_address data, other, sizes;
	void *pinned;
	struct kedge__bench_gpu_rows rows;
	struct kedge__digest_key *key;
	struct kedge__gpu_pass *pass;
	struct kedge__gpu_slabs slabs;
	uint32_t chunk; /* of it */
	struct kedge__gpu_planes planes;
	kedge__gpu_address places, damaged;
};

typedef int work(struct bench *b, struct kedge__error *err);

int kedge__bench_gpu_take(struct kedge__bench_gpu_rows *rows, const char *what, double bytes,
			  int (*f)(void *ctx, struct kedge__error *err), void *ctx, struct kedge__error *err)
{
	struct kedge__bench_gpu_row *r = &rows->at[rows->count++];
	int rc = f(ctx, err); /* for once, not counted */

	snprintf(r->what, sizeof(r->what), "%s", what);
	r->bytes = bytes;
	if (!rc)
		rc = kedge__gpu_finish(rows->gpu, err);
	for (uint64_t i = 0; i < rows->repeat && !rc; i++) {
		double start = kedge__clock_seconds();

		rc = f(ctx, err);
		if (!rc)
			rc = kedge__gpu_finish(rows->gpu, err);
		r->seconds[i] = kedge__clock_seconds() - start;
	}
	return rc;
}

struct task {
	struct bench *b;
	work *f;
};

static int task_run(void *ctx, struct kedge__error *err)
{
	const struct task *t = ctx;

	return t->f(t->b, err);
}

static int row_take(struct bench *b, const char *what, double bytes, work *f, struct kedge__error *err)
{
	struct task t = {b, f};

	return kedge__bench_gpu_take(&b->rows, what, bytes, task_run, &t, err);
}

/* ------------------------------------------------------------------ copies */

static int copy_within(struct bench *b, struct kedge__error *err)
{
	return kedge__gpu_copy_within(b->gpu, KEDGE__GPU_WORK, b->other, b->data, b->size, err);
}

static int copy_out(struct bench *b, struct kedge__error *err)
{
	return kedge__gpu_copy_out(b->gpu, KEDGE__GPU_OUT, b->pinned, b->data, KEDGE__MIN(b->size, UINT64_C(1) << 30),
				   err);
}

static int copy_in(struct bench *b, struct kedge__error *err)
{
	return kedge__gpu_copy_in(b->gpu, KEDGE__GPU_IN, b->data, b->pinned, KEDGE__MIN(b->size, UINT64_C(1) << 30),
				  err);
}

static int copies(struct bench *b, struct kedge__error *err)
{
	double part = (double)KEDGE__MIN(b->size, UINT64_C(1) << 30);
	int rc = row_take(b, "copy on the device, read and write counted", 2 * (double)b->size, copy_within, err);

	if (!rc)
		rc = row_take(b, "copy to pinned memory", part, copy_out, err);
	if (!rc)
		rc = row_take(b, "copy from pinned memory", part, copy_in, err);
	return rc;
}

/* ------------------------------------------------------------------ the hash pass */

static int hash(struct bench *b, struct kedge__error *err)
{
	return kedge__gpu_pass_run(b->pass, KEDGE__GPU_WORK, &b->slabs, 0, b->slabs.count, err);
}

/* Slabs of all the data, whose digests are known. */
static int slabs_make(struct bench *b, struct kedge__error *err)
{
	struct kedge_slab *list = kedge__calloc(b->slabs.count, sizeof(*list));
	int rc = list ? 0 : kedge__error_nomem(err);

	for (uint64_t i = 0; i < b->slabs.count && !rc; i++)
		list[i] = (struct kedge_slab){.data = b->data + i * KEDGE_SLAB_BYTES,
					      .offset = i * KEDGE_SLAB_BYTES,
					      .place = i * (KEDGE_SLAB_BYTES / b->chunk),
					      .bytes = KEDGE_SLAB_BYTES,
					      .known = KEDGE_SLAB_BYTES / b->chunk};
	if (!rc)
		rc = kedge__gpu_copy_in(b->gpu, KEDGE__GPU_WORK, b->slabs.slabs, list, b->slabs.count * sizeof(*list),
					err);
	if (!rc)
		rc = kedge__gpu_finish(b->gpu, err);
	kedge__free(list);
	return rc;
}

/* The first turn finds all of it changed, and nobody notes its digests: so does every other. What the pass costs does
 * not depend on that. */
static int hashes(struct bench *b, struct kedge__error *err)
{
	kedge__gpu_address at = b->other + b->size / 2;
	int rc = 0;

	b->slabs = (struct kedge__gpu_slabs){.count = b->size / KEDGE_SLAB_BYTES, .digests = b->other, .compare = true};
	b->slabs.slabs = at;
	b->slabs.found = at + b->slabs.count * sizeof(struct kedge_slab);
	b->slabs.bits = b->slabs.found + b->slabs.count * sizeof(struct kedge_slab_found);
	for (b->chunk = 64; b->chunk <= 4096 && !rc; b->chunk *= 2) {
		char what[64];

		snprintf(what, sizeof(what), "hash pass, chunks of %u bytes", b->chunk);
		rc = kedge__gpu_pass_new(b->gpu, b->key, b->chunk, 0, &b->pass, err);
		if (!rc)
			rc = slabs_make(b, err);
		if (!rc)
			rc = row_take(b, what, (double)b->size, hash, err);
		kedge__gpu_pass_free(b->pass);
		b->pass = NULL;
	}
	return rc;
}

/* ------------------------------------------------------------------ codec planes */

static void put_number(uint8_t *to, unsigned width, double v)
{
	float f = (float)v;

	memcpy(to, width == 4 ? (const void *)&f : (const void *)&v, width);
}

/* A field of waves with noise in it, as a solver leaves one, all over the device's memory. */
static int field_make(struct bench *b, unsigned width, struct kedge__error *err)
{
	uint8_t *host = b->pinned;
	uint64_t seed = 1, bytes = KEDGE__MIN(SAMPLE, b->size);
	int rc;

	for (uint64_t i = 0; i < bytes / width; i++) {
		double x = (double)(i % 4096) / 4096, y = (double)(i / 4096) / 4096;
		double noise = (double)(kedge__bench_random(&seed) % 1024) / 1024 - 0.5;

		put_number(host + i * width, width, 2 + sin(11 * x) * cos(7 * y) + (width == 4 ? 3e-6 : 1e-10) * noise);
	}
	rc = kedge__gpu_copy_in(b->gpu, KEDGE__GPU_WORK, b->data, host, bytes, err);
	for (uint64_t have = bytes; have < b->size && !rc; have *= 2)
		rc = kedge__gpu_copy_within(b->gpu, KEDGE__GPU_WORK, b->data + have, b->data,
					    KEDGE__MIN(have, b->size - have), err);
	return rc;
}

static int encode(struct bench *b, struct kedge__error *err)
{
	return kedge__gpu_planes_encode(b->gpu, &b->planes, b->data, b->other, err);
}

static int decode(struct bench *b, struct kedge__error *err)
{
	return kedge__gpu_planes_decode(b->gpu, &b->planes, b->other, b->places, b->data, b->damaged, err);
}

/* How small it became, and that it came back. */
static int planes_check(struct bench *b, double *ratio, struct kedge__error *err)
{
	uint64_t strips = b->size / KEDGE__GPU_STRIP, packed = 0;
	uint32_t *sizes = kedge__calloc(strips, sizeof(*sizes)), damaged = 0;
	int rc = sizes ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__gpu_copy_out(b->gpu, KEDGE__GPU_WORK, sizes, b->sizes, strips * sizeof(*sizes), err);
	if (!rc)
		rc = kedge__gpu_copy_out(b->gpu, KEDGE__GPU_WORK, &damaged, b->damaged, sizeof(damaged), err);
	if (!rc)
		rc = kedge__gpu_finish(b->gpu, err);
	for (uint64_t i = 0; i < strips && !rc; i++)
		packed += sizes[i];
	if (!rc && damaged)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%u strips did not come back", damaged);
	if (!rc)
		*ratio = (double)b->size / (double)packed;
	kedge__free(sizes);
	return rc;
}

static int places_make(struct bench *b, struct kedge__error *err)
{
	uint64_t strips = b->size / KEDGE__GPU_STRIP, *places = kedge__calloc(strips, sizeof(*places));
	int rc = places ? 0 : kedge__error_nomem(err);

	for (uint64_t i = 0; i < strips && !rc; i++)
		places[i] = i * KEDGE__GPU_STRIP;
	if (!rc)
		rc = kedge__gpu_copy_in(b->gpu, KEDGE__GPU_WORK, b->places, places, strips * sizeof(*places), err);
	if (!rc)
		rc = kedge__gpu_clear(b->gpu, KEDGE__GPU_WORK, b->damaged, 4, err);
	if (!rc)
		rc = kedge__gpu_finish(b->gpu, err);
	kedge__free(places);
	return rc;
}

static int planes(struct bench *b, struct kedge__error *err)
{
	int rc = places_make(b, err);

	for (unsigned width = 4; width <= 8 && !rc; width *= 2) {
		char what[64];

		b->planes = (struct kedge__gpu_planes){KEDGE__GPU_WORK, width, KEDGE__STEP_DELTA, b->size, 0, b->sizes};
		rc = field_make(b, width, err);
		snprintf(what, sizeof(what), "codec delta+planes, f%u, packed", 8 * width);
		if (!rc)
			rc = row_take(b, what, (double)b->size, encode, err);
		snprintf(what, sizeof(what), "codec delta+planes, f%u, unpacked", 8 * width);
		if (!rc)
			rc = row_take(b, what, (double)b->size, decode, err);
		if (!rc)
			rc = planes_check(b, &b->rows.at[b->rows.count - 1].ratio, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ restore */

static int restores(struct bench *b, struct kedge__error *err)
{
	struct kedge__bench_restore *all = kedge__calloc(KEDGE__BENCH_RESTORES, sizeof(*all));
	int rc = all ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__bench_gpu_restore(b->gpu, b->data, b->size, b->pinned,
					      KEDGE__MIN(b->size, UINT64_C(1) << 30), b->rows.repeat, all, err);
	for (size_t i = 0; i < KEDGE__BENCH_RESTORES && !rc; i++) {
		struct kedge__bench_gpu_row *r = &b->rows.at[b->rows.count++];

		snprintf(r->what, sizeof(r->what), "%s", all[i].what);
		r->bytes = all[i].bytes;
		memcpy(r->seconds, all[i].seconds, sizeof(r->seconds));
		r->ratio = kedge__bench_median(all[i].seconds, b->rows.repeat) /
			   kedge__bench_median(all[i].limits, b->rows.repeat);
	}
	kedge__free(all);
	return rc;
}

/* ------------------------------------------------------------------ results */

static void print_json(struct bench *b)
{
	json_t *o = kedge__json_object(), *rows = kedge__json_array();

	for (size_t i = 0; i < b->rows.count; i++) {
		struct kedge__bench_gpu_row *r = &b->rows.at[i];
		json_t *row = kedge__json_object();
		double median = kedge__bench_median(r->seconds, b->rows.repeat);

		kedge__json_text(row, "what", r->what);
		kedge__json_real(row, "seconds", median);
		kedge__json_real(row, "gigabytes_per_second", r->bytes / median / 1e9);
		kedge__json_real(row, "lowest", r->bytes / r->seconds[b->rows.repeat - 1] / 1e9);
		kedge__json_real(row, "highest", r->bytes / r->seconds[0] / 1e9);
		if (r->ratio > 0)
			kedge__json_real(row, "ratio", r->ratio);
		kedge__json_add(rows, row);
	}
	kedge__json_text(o, "device", b->gpu->name);
	kedge__json_uint(o, "size", b->size);
	kedge__json_uint(o, "repeat", b->rows.repeat);
	kedge__json_set(o, "results", rows);
	kedge__json_print(o);
}

static void rate_add(struct kedge__table *table, const struct kedge__bench_gpu_row *r, double seconds)
{
	double rate = r->bytes / seconds / 1e9;

	kedge__table_add(table, rate < 100 ? "%.1f" : "%.0f", rate);
}

static void print_text(struct bench *b)
{
	char size[KEDGE__TEXT_ROOM];
	struct kedge__table table;

	printf("%s, %s, median of %llu\n", b->gpu->name, kedge__text_bytes(b->size, size),
	       (unsigned long long)b->rows.repeat);
	kedge__table_init(&table, "lrlr");
	kedge__table_text(&table, "WHAT");
	kedge__table_text(&table, "GB/s");
	kedge__table_text(&table, "");
	kedge__table_text(&table, "RATIO");
	for (size_t i = 0; i < b->rows.count; i++) {
		struct kedge__bench_gpu_row *r = &b->rows.at[i];

		kedge__table_text(&table, r->what);
		rate_add(&table, r, kedge__bench_median(r->seconds, b->rows.repeat));
		kedge__table_add(&table, "(%.3g..%.3g)", r->bytes / r->seconds[b->rows.repeat - 1] / 1e9,
				 r->bytes / r->seconds[0] / 1e9);
		if (r->ratio > 0)
			kedge__table_add(&table, "%.2f", r->ratio);
		else
			kedge__table_text(&table, "");
	}
	kedge__table_print(&table, stdout);
}

/* ------------------------------------------------------------------ the run */

static int take(struct bench *b, struct kedge__error *err)
{
	uint64_t strips = b->size / KEDGE__GPU_STRIP;
	int rc = kedge__gpu_alloc(b->gpu, b->size, &b->data, err);

	if (!rc)
		rc = kedge__gpu_alloc(b->gpu, b->size, &b->other, err);
	if (!rc)
		rc = kedge__gpu_alloc(b->gpu, strips * 4, &b->sizes, err);
	if (!rc)
		rc = kedge__gpu_alloc(b->gpu, strips * 8, &b->places, err);
	if (!rc)
		rc = kedge__gpu_alloc(b->gpu, 4, &b->damaged, err);
	if (!rc)
		rc = kedge__gpu_pin(b->gpu, KEDGE__MIN(b->size, UINT64_C(1) << 30), &b->pinned, err);
	if (!rc)
		rc = kedge__digest_key_new(NULL, &b->key, err);
	return rc;
}

static void give_back(struct bench *b)
{
	uint64_t strips = b->size / KEDGE__GPU_STRIP;

	kedge__digest_key_free(b->key);
	kedge__gpu_unpin(b->gpu, b->pinned);
	kedge__gpu_release(b->gpu, b->data, b->size);
	kedge__gpu_release(b->gpu, b->other, b->size);
	kedge__gpu_release(b->gpu, b->sizes, strips * 4);
	kedge__gpu_release(b->gpu, b->places, strips * 8);
	kedge__gpu_release(b->gpu, b->damaged, 4);
}

static int finder(struct bench *b, struct kedge__error *err)
{
	return kedge__bench_gpu_finder(&b->rows, b->size, err);
}

static int checkpoints(struct bench *b, struct kedge__error *err)
{
	int rc = kedge__bench_gpu_reduce(&b->rows, b->data, b->size, err);

	if (!rc)
		rc = field_make(b, 4, err);
	return rc ? rc : kedge__bench_gpu_packed(&b->rows, b->data, b->size, err);
}

static int job(struct bench *b, struct kedge__error *err)
{
	int rc = field_make(b, 4, err);

	return rc ? rc : kedge__bench_gpu_job(&b->rows, b->data, b->size, b->dir, err);
}

static int blocks(struct bench *b, struct kedge__error *err)
{
	return kedge__bench_gpu_blocks(&b->rows, b->data, b->other, b->size, b->file, err);
}

static const struct part {
	const char *name;
	work *f;
} parts[] = {{"copy", copies},      {"hash", hashes},  {"finder", finder},
	     {"planes", planes},    {"job", job},      {"checkpoint", checkpoints},
	     {"restore", restores}, {"blocks", blocks}};

static bool is_part(const char *name)
{
	bool found = false;

	for (size_t i = 0; i < KEDGE__COUNT(parts); i++)
		found = found || strcmp(parts[i].name, name) == 0;
	return found;
}

static int measure(struct bench *b, struct kedge__error *err)
{
	int rc = take(b, err);

	if (!rc)
		rc = field_make(b, 8, err);
	for (size_t i = 0; i < KEDGE__COUNT(parts) && !rc; i++)
		if (!b->only || strcmp(b->only, parts[i].name) == 0)
			rc = parts[i].f(b, err);
	return rc;
}

static int run(struct bench *b)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__gpu_open(0, &b->gpu, &err);

	if (rc)
		return kedge__tool_fail(b->usage.command, &err, "cannot measure");
	b->rows.gpu = b->gpu;
	if (b->series) {
		rc = kedge__bench_gpu_series(b->gpu, b->series, b->json, &err);
		kedge__gpu_close(b->gpu);
		return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
	}
	rc = measure(b, &err);
	if (!rc)
		(b->json ? print_json : print_text)(b);
	give_back(b);
	kedge__gpu_close(b->gpu);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

int kedge__bench_gpu(int argc, char **argv)
{
	struct bench b = {.size = UINT64_C(8) << 30, .rows.repeat = 9};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of the state on the GPU (default: 8GiB)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.rows.repeat, "N", "turns, of which the median is shown (default: 9)"},
	    {"series", 0, KEDGE__OPTION_TEXT, &b.series, "DIR",
	     "nothing but the files of DIR, which are versions of one state, by all reducers"},
	    {"only", 0, KEDGE__OPTION_TEXT, &b.only, "PART",
	     "copy, hash, finder, planes, job, checkpoint, restore, or blocks: nothing else"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.dir, "DIR", "where versions of a whole job go (default: /dev/shm)"},
	    {"file", 0, KEDGE__OPTION_TEXT, &b.file, "FILE", "data, of which codecs for blocks are measured, too"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge bench gpu",
	    .about =
		"Measures the kernels on the first GPU: the hash pass, codecs, and beside them copies of the same\n"
		"bytes, and the processors with the same codecs. Twice the size and up to 4 GiB more are taken of\n"
		"its memory.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge bench gpu --size 1GiB --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (b.rows.repeat < 1 || b.rows.repeat > KEDGE__BENCH_GPU_TURNS)
		return kedge__usage_error(&b.usage, "--repeat is 1 to %d", KEDGE__BENCH_GPU_TURNS);
	if (b.only && !is_part(b.only))
		return kedge__usage_error(&b.usage,
					  "--only is copy, hash, finder, planes, job, checkpoint, restore "
					  "or blocks, not \"%s\"",
					  b.only);
	if (b.size < SAMPLE || b.size % (UINT64_C(1) << 20))
		return kedge__usage_error(&b.usage, "--size is 64MiB or more, in whole MiB");
	return run(&b);
}
