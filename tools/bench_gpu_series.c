/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench gpu --series: files that are versions of one state, on the GPU, by each reducer and with chunks of
 * several sizes: how much smaller what is stored is than all versions, with their maps, and how fast, until the
 * application may go on. These are figures 4 and 5 of the paper on Merkle trees.
 */
#include "bench_gpu.h"

#include "format/format.h"
#include "reduce/reduce.h"
#include "tool.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 64 /* files */

struct series {
	struct kedge__gpu *gpu;
	char *paths[MOST];
	size_t count;
	uint64_t bytes;    /* of each */
	uint8_t *versions; /* one behind the other, pinned */
	kedge__gpu_address data;
	void *literals; /* pinned */
	struct kedge__pool *pool;
	json_t *rows; /* NULL: a table */
	struct kedge__table table;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int files_find(struct series *s, const char *dir, struct kedge__error *err)
{
	DIR *d = opendir(dir);
	const struct dirent *e;

	if (!d)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot open %s", dir);
	while ((e = readdir(d)) != NULL && s->count < MOST) {
		if (e->d_name[0] == '.')
			continue;
		s->paths[s->count] = kedge__asprintf("%s/%s", dir, e->d_name);
		s->count += s->paths[s->count] != NULL;
	}
	closedir(d);
	qsort(s->paths, s->count, sizeof(s->paths[0]), by_name);
	return s->count ? 0 : kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s has no files", dir);
}

static int file_read(const char *path, uint8_t *to, uint64_t bytes, struct kedge__error *err)
{
	FILE *f = fopen(path, "rb");
	bool whole = f && fread(to, 1, bytes, f) == bytes;

	if (f)
		fclose(f);
	return whole
		   ? 0
		   : kedge__error_set(err, KEDGE_E_IO, errno, "cannot read %s, or it is shorter than the first", path);
}

static int series_load(struct series *s, const char *dir, struct kedge__error *err)
{
	struct stat st;
	int rc = files_find(s, dir, err);

	if (!rc && stat(s->paths[0], &st))
		rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot look at %s", s->paths[0]);
	if (rc)
		return rc;
	s->bytes = (uint64_t)st.st_size;
	rc = kedge__gpu_pin(s->gpu, s->count * s->bytes, (void **)&s->versions, err);
	for (size_t i = 0; i < s->count && !rc; i++)
		rc = file_read(s->paths[i], s->versions + i * s->bytes, s->bytes, err);
	if (!rc)
		rc = kedge__gpu_alloc(s->gpu, s->bytes, &s->data, err);
	if (!rc)
		rc = kedge__gpu_pin(s->gpu, s->bytes + 4096, &s->literals, err);
	return rc ? rc : kedge__pool_new((int)sysconf(_SC_NPROCESSORS_ONLN), &s->pool, err);
}

static void series_done(struct series *s)
{
	for (size_t i = 0; i < s->count; i++)
		kedge__free(s->paths[i]);
	kedge__gpu_unpin(s->gpu, s->versions);
	kedge__gpu_unpin(s->gpu, s->literals);
	kedge__gpu_release(s->gpu, s->data, s->bytes);
	kedge__pool_free(s->pool);
}

static int room(void *ctx, uint64_t bytes, void **out, uint64_t *have, struct kedge__error *err)
{
	struct series *s = ctx;

	(void)err;
	*out = s->literals;
	*have = s->bytes + 4096;
	return bytes <= *have ? 0 : kedge__error_set(err, KEDGE_E_INTERNAL, 0, "more literals than bytes");
}

/* File I, in the application's memory. */
static int version_put(struct series *s, size_t i, struct kedge__error *err)
{
	int rc = kedge__gpu_copy_in(s->gpu, KEDGE__GPU_WORK, s->data, s->versions + i * s->bytes, s->bytes, err);

	return rc ? rc : kedge__gpu_finish(s->gpu, err);
}

static uint64_t map_bytes(const struct kedge__reduction *red, uint64_t bytes)
{
	char name[] = "state";
	struct kedge__region_record record = {.name = name, .bytes = bytes};
	struct kedge__bytes out = {0};
	/* As segments have them. */
	enum kedge__map_encoding how = red->reducer == KEDGE__REDUCER_BASIC  ? KEDGE__MAP_BITMAP
				       : red->reducer == KEDGE__REDUCER_LIST ? KEDGE__MAP_LIST
									     : KEDGE__MAP_SMALLER;
	uint64_t size = 0;

	if (!kedge__map_encode(how, kedge__extents_of_tape(&red->map), red->chunk, red->version, &record, 1, &out,
			       NULL))
		size = out.count;
	kedge__bytes_done(&out);
	return size;
}

/* N of the versions, evenly; full: a copy of all of it to pinned memory. */
static int series_run(struct series *s, enum kedge__reducer_id id, uint32_t chunk, size_t n, double *stored,
		      double *seconds, struct kedge__error *err)
{
	struct kedge__reducer_options options = {.id = id, .chunk = chunk, .record_bytes = UINT64_C(1) << 40};
	const struct kedge__reduce_device device = {.gpu = s->gpu, .room = room, .ctx = s};
	const struct kedge__image_region region = {0, (void *)(uintptr_t)s->data, s->bytes};
	const struct kedge__image image = {&region, 1};
	struct kedge__reducer *r = NULL;
	int rc = kedge__reducer_new(&options, &r, err);

	*stored = *seconds = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		struct kedge__reduction red = {0};
		double start;

		rc = version_put(s, i * s->count / n, err);
		start = kedge__clock_seconds();
		if (!rc && id == KEDGE__REDUCER_FULL)
			rc = kedge__gpu_copy_out(s->gpu, KEDGE__GPU_OUT, s->literals, s->data, s->bytes, err);
		else if (!rc)
			rc = kedge__reducer_begin(r, s->pool, i + 1, &image, &device, err);
		if (!rc && id == KEDGE__REDUCER_FULL)
			rc = kedge__gpu_finish(s->gpu, err);
		*seconds += kedge__clock_seconds() - start;
		if (id == KEDGE__REDUCER_FULL) {
			*stored += (double)s->bytes;
			continue;
		}
		if (!rc)
			rc = kedge__reducer_finish(r, &red, err);
		if (!rc) {
			*stored += (double)(red.literal_bytes + map_bytes(&red, s->bytes));
			kedge__reducer_commit(r);
		}
		kedge__reduction_done(&red);
	}
	kedge__reducer_free(r);
	return rc;
}

static int row(struct series *s, enum kedge__reducer_id id, uint32_t chunk, size_t n, struct kedge__error *err)
{
	double stored, seconds, all = (double)n * (double)s->bytes;
	int rc = series_run(s, id, chunk, n, &stored, &seconds, err);

	if (rc)
		return rc;
	if (s->rows) {
		json_t *o = kedge__json_object();

		kedge__json_text(o, "reducer", kedge__reducer_name(id));
		kedge__json_uint(o, "chunk", chunk);
		kedge__json_uint(o, "versions", n);
		kedge__json_real(o, "ratio", all / stored);
		kedge__json_real(o, "gigabytes_per_second", all / seconds / 1e9);
		kedge__json_add(s->rows, o);
		return 0;
	}
	kedge__table_add(&s->table, "%zu", n);
	kedge__table_add(&s->table, "%u", chunk);
	kedge__table_text(&s->table, kedge__reducer_name(id));
	kedge__table_add(&s->table, "%.2f", all / stored);
	kedge__table_add(&s->table, "%.0f", all / seconds / 1e9);
	return 0;
}

static int all_rows(struct series *s, struct kedge__error *err)
{
	static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST, KEDGE__REDUCER_TREE};
	static const size_t counts[] = {5, 10, 20};
	double stored, seconds;
	int rc = series_run(s, KEDGE__REDUCER_TREE, 128, s->count, &stored, &seconds, err); /* for once, not counted */

	for (size_t k = 0; k < KEDGE__COUNT(counts) && !rc; k++) {
		if (counts[k] > s->count)
			continue;
		rc = row(s, KEDGE__REDUCER_FULL, 128, counts[k], err);
		for (uint32_t chunk = 32; chunk <= 512 && !rc; chunk *= 2)
			for (size_t i = 0; i < KEDGE__COUNT(ids) && !rc; i++)
				rc = row(s, ids[i], chunk, counts[k], err);
	}
	return rc;
}

int kedge__bench_gpu_series(struct kedge__gpu *gpu, const char *dir, bool json, struct kedge__error *err)
{
	struct series s = {.gpu = gpu};
	int rc = series_load(&s, dir, err);

	kedge__table_init(&s.table, "rrlrr");
	kedge__table_text(&s.table, "VERSIONS");
	kedge__table_text(&s.table, "CHUNK");
	kedge__table_text(&s.table, "REDUCER");
	kedge__table_text(&s.table, "RATIO");
	kedge__table_text(&s.table, "GB/s");
	s.rows = json ? kedge__json_array() : NULL;
	if (!rc)
		rc = all_rows(&s, err);
	if (json) {
		json_t *o = kedge__json_object();

		kedge__json_text(o, "device", gpu->name);
		kedge__json_uint(o, "bytes", s.bytes);
		kedge__json_set(o, "results", s.rows);
		kedge__json_print(o);
	} else if (!rc) {
		printf("%s, versions of %llu bytes\n", gpu->name, (unsigned long long)s.bytes);
		kedge__table_print(&s.table, stdout);
	}
	series_done(&s);
	return rc;
}
