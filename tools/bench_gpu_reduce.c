/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench gpu: versions of a state on the GPU, of which more and more changes, from the call until the application
 * may go on: what is stored is in memory of the host then.
 */
#include "bench_gpu.h"

#include "reduce/reduce.h"

#include <unistd.h>

#define CHUNK 128
#define BLOCK (UINT32_C(128) << 10)

struct reduce {
	struct kedge__bench_gpu_rows *rows;
	struct kedge__gpu *gpu;
	struct kedge__reducer *reducer;
	struct kedge__image_region region;
	struct kedge__image image;
	uint64_t version;
	uint64_t share;            /* one chunk in so many changes; 0: none */
	const char *touch;         /* the kernel that changes them */
	struct kedge__gpu_how how; /* what is stored is packed */
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
		rc = kedge__gpu_launch(r->gpu, KEDGE__GPU_WORK, r->touch, r->gpu->processors * 16, KEDGE_THREADS, &a,
				       err);
	return rc ? rc : kedge__gpu_finish(r->gpu, err);
}

/* One version; *SECONDS: until the application may go on. */
static int version(struct reduce *r, double *seconds, struct kedge__error *err)
{
	const struct kedge__reduce_device device = {
	    .gpu = r->gpu, .room = room, .ctx = r, .hows = &r->how, .block = BLOCK};
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
	for (size_t i = 0; i < red.ready.count; i++)
		r->literals -= red.ready.at[i].raw - red.ready.at[i].stored;
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

static int reducer_begin(struct reduce *r, enum kedge__reducer_id id, struct kedge__error *err)
{
	struct kedge__reducer_options options = {.id = id, .chunk = CHUNK, .record_bytes = UINT64_C(1) << 40};
	double seconds;
	int rc = kedge__reducer_new(&options, &r->reducer, err);

	r->version = r->share = 0;
	return rc ? rc : version(r, &seconds, err); /* all of it is new */
}

static void reducer_end(struct reduce *r)
{
	kedge__reducer_free(r->reducer);
	r->reducer = NULL;
}

static int kind(struct reduce *r, enum kedge__reducer_id id, const char *name, struct kedge__error *err)
{
	uint64_t before = r->gpu->taken;
	int rc = reducer_begin(r, id, err);

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
	reducer_end(r);
	return rc;
}

/* All of it changes, and is packed on the device before it is copied to the host. */
static int packed(struct reduce *r, const char *what, struct kedge__gpu_how how, struct kedge__error *err)
{
	int rc;

	r->how = how;
	rc = reducer_begin(r, KEDGE__REDUCER_BASIC, err);
	if (!rc)
		rc = row(r, "basic", what, 1, err);
	reducer_end(r);
	r->how.codec = KEDGE__GPU_NONE;
	return rc;
}

static int begin(struct reduce *r, struct kedge__error *err)
{
	r->image = (struct kedge__image){&r->region, 1};
	r->touch = "kedge_touch";
	return kedge__pool_new((int)sysconf(_SC_NPROCESSORS_ONLN), &r->pool, err);
}

static void end(struct reduce *r)
{
	kedge__gpu_unpin(r->gpu, r->pinned);
	kedge__pool_free(r->pool);
}

int kedge__bench_gpu_reduce(struct kedge__bench_gpu_rows *rows, kedge__gpu_address data, uint64_t size,
			    struct kedge__error *err)
{
	struct reduce r = {.rows = rows, .gpu = rows->gpu, .region = {0, (void *)(uintptr_t)data, size}};
	int rc = begin(&r, err);

	if (!rc)
		rc = kind(&r, KEDGE__REDUCER_BASIC, "basic", err);
	if (!rc)
		rc = kind(&r, KEDGE__REDUCER_TREE, "tree", err);
	end(&r);
	return rc;
}

int kedge__bench_gpu_packed(struct kedge__bench_gpu_rows *rows, kedge__gpu_address data, uint64_t size,
			    struct kedge__error *err)
{
	struct reduce r = {.rows = rows, .gpu = rows->gpu, .region = {0, (void *)(uintptr_t)data, size}};
	const struct kedge__gpu_how planes = {.codec = KEDGE__GPU_PLANES, .width = 4},
				    delta = {.codec = KEDGE__GPU_PLANES, .width = 4, .steps = KEDGE_PLANES_DELTA};
	int rc = begin(&r, err);

	r.touch = "kedge_touch_floats";
	if (!rc)
		rc = packed(&r, "100 % f32", (struct kedge__gpu_how){.codec = KEDGE__GPU_NONE}, err);
	if (!rc)
		rc = packed(&r, "100 % f32, planes", planes, err);
	if (!rc)
		rc = packed(&r, "100 % f32, delta+planes", delta, err);
	r.touch = "kedge_touch";
	if (!rc)
		rc = kedge__gpu_clear(r.gpu, KEDGE__GPU_WORK, data, size, err);
	if (!rc)
		rc = packed(&r, "100 % sparse, lz4", (struct kedge__gpu_how){.codec = KEDGE__GPU_LZ4}, err);
	if (!rc)
		rc = packed(&r, "100 % sparse, deflate", (struct kedge__gpu_how){.codec = KEDGE__GPU_DEFLATE}, err);
	end(&r);
	return rc;
}
