/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench gpu: versions of a state on the GPU, of which more and more changes, from the call until the application
 * may go on: what is stored is in memory of the host then.
 */
#include "bench_gpu.h"

#include "reduce/reduce.h"

#include <unistd.h>

#define CHUNK 128

struct reduce {
	struct kedge__bench_gpu_rows *rows;
	struct kedge__gpu *gpu;
	struct kedge__reducer *reducer;
	struct kedge__image_region region;
	struct kedge__image image;
	uint64_t version;
	uint64_t share; /* one chunk in so many changes; 0: none */
	void *pinned;
	uint64_t pinned_bytes;
	double literals; /* bytes of the last one */
	double memory;   /* of the device */
	struct kedge__pool *pool;
};

static int room(void *ctx, uint64_t bytes, void **out, uint64_t *have, struct kedge__error *err)
{
	struct reduce *r = ctx;
	int rc = 0;

	if (bytes > r->pinned_bytes) {
		kedge__gpu_unpin(r->gpu, r->pinned);
		r->pinned = NULL;
		r->pinned_bytes = 0;
		rc = kedge__gpu_pin(r->gpu, bytes, &r->pinned, err);
		r->pinned_bytes = rc ? 0 : bytes;
	}
	*out = r->pinned;
	*have = r->pinned_bytes;
	return rc;
}

/* The application's part. */
static int touch(const struct reduce *r, struct kedge__error *err)
{
	struct kedge_touch_args a = {.data = (uintptr_t)r->region.data,
				     .chunks = r->region.bytes / CHUNK,
				     .chunk = CHUNK,
				     .share = r->share,
				     .seed = r->version};
	int rc = 0;

	if (r->share)
		rc = kedge__gpu_launch(r->gpu, KEDGE__GPU_WORK, "kedge_touch", r->gpu->processors * 16, KEDGE_THREADS,
				       &a, err);
	return rc ? rc : kedge__gpu_finish(r->gpu, err);
}

/* One version; *SECONDS: until the application may go on. */
static int version(struct reduce *r, double *seconds, struct kedge__error *err)
{
	const struct kedge__reduce_device device = {r->gpu, room, r};
	struct kedge__reduction red;
	double start;
	int rc = touch(r, err);

	start = kedge__clock_seconds();
	if (!rc)
		rc = kedge__reducer_begin(r->reducer, r->pool, ++r->version, &r->image, &device, err);
	*seconds = kedge__clock_seconds() - start;
	if (!rc)
		rc = kedge__reducer_finish(r->reducer, &red, err);
	if (rc)
		return rc;
	r->literals = (double)red.literal_bytes;
	r->memory = (double)r->gpu->taken;
	kedge__reduction_done(&red);
	kedge__reducer_commit(r->reducer);
	return kedge__gpu_finish(r->gpu, err);
}

static int row(struct reduce *r, const char *name, const char *what, uint64_t share, struct kedge__error *err)
{
	struct kedge__bench_gpu_row *row = &r->rows->at[r->rows->count++];
	double seconds;
	int rc;

	r->share = share;
	rc = version(r, &seconds, err); /* for once, not counted */
	for (uint64_t i = 0; i < r->rows->repeat && !rc; i++)
		rc = version(r, &row->seconds[i], err);
	snprintf(row->what, sizeof(row->what), "checkpoint, %s, %s", name, what);
	row->bytes = (double)r->region.bytes;
	row->ratio = r->literals > 0 ? row->bytes / r->literals : 0;
	return rc;
}

static int kind(struct reduce *r, enum kedge__reducer_id id, const char *name, struct kedge__error *err)
{
	struct kedge__reducer_options options = {.id = id, .chunk = CHUNK, .record_bytes = UINT64_C(1) << 40};
	uint64_t before = r->gpu->taken;
	int rc = kedge__reducer_new(&options, &r->reducer, err);
	double seconds;

	if (rc)
		return rc;
	r->version = 0;
	r->share = 0;
	rc = version(r, &seconds, err); /* all of it is new */
	if (!rc)
		rc = row(r, name, "nothing changed", 0, err);
	if (!rc)
		rc = row(r, name, "1 % scattered", 100, err);
	if (!rc)
		fprintf(stderr, "%s: %.1f %% of the state, on the device\n", name,
			(r->memory - (double)before) / (double)r->region.bytes * 100);
	if (!rc)
		rc = row(r, name, "10 % scattered", 10, err);
	if (!rc)
		rc = row(r, name, "100 %", 1, err);
	kedge__reducer_free(r->reducer);
	r->reducer = NULL;
	return rc;
}

int kedge__bench_gpu_reduce(struct kedge__bench_gpu_rows *rows, kedge__gpu_address data, uint64_t size,
			    struct kedge__error *err)
{
	struct reduce r = {.rows = rows, .gpu = rows->gpu, .region = {0, (void *)(uintptr_t)data, size}};
	int rc;

	r.image = (struct kedge__image){&r.region, 1};
	rc = kedge__pool_new((int)sysconf(_SC_NPROCESSORS_ONLN), &r.pool, err);
	if (!rc)
		rc = kind(&r, KEDGE__REDUCER_BASIC, "basic", err);
	if (!rc)
		rc = kind(&r, KEDGE__REDUCER_TREE, "tree", err);
	kedge__gpu_unpin(r.gpu, r.pinned);
	kedge__pool_free(r.pool);
	return rc;
}
