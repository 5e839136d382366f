/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages that `kedge-bench pipeline` measures: copy out of the state, compress, gather into large writes. */
#include "pipeline.h"

#define STAGE_BYTES  ((size_t)256 << 10) /* smaller pieces are put together, larger ones written as they are */
#define BURST        0.005               /* seconds: what a sleep that was too long may be made up for */
#define LEAST_BUFFER 64

/* A device: it works off bytes at its rate, but only while it is asked to. */
struct device {
	struct kedge__bucket bucket;
	double worked, entered; /* seconds; the clock at which the work in hand began */
};

struct run {
	const struct kedge__flow *flow;
	unsigned parts;
	double ratio;
	struct device collect, store;
	size_t next;
	uint8_t *stage, *memory; /* where small pieces gather; what stands for a file */
	size_t staged;
	uint64_t stored;
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static double device_now(void *ctx)
{
	const struct device *d = ctx;

	return d->worked + kedge__clock_seconds() - d->entered;
}

static void device_init(struct device *d, double rate)
{
	kedge__bucket_init(&d->bucket, rate, rate * BURST);
	d->bucket.level = 0;
	d->bucket.now = device_now;
	d->bucket.ctx = d;
}

static void device_enter(struct device *d)
{
	d->entered = kedge__clock_seconds();
	if (d->bucket.last < 0)
		d->bucket.last = 0;
}

static void device_leave(struct device *d, size_t bytes)
{
	kedge__bucket_take(&d->bucket, (double)bytes);
	d->worked += kedge__clock_seconds() - d->entered;
}

static int collect(void *ctx, struct kedge__buffer *out, struct kedge__error *err)
{
	struct run *r = ctx;
	size_t n = least(r->flow->buffer, r->flow->size - r->next);

	(void)err;
	if (!n)
		return KEDGE__PIPELINE_END;
	out->bytes = n;
	if (r->parts & KEDGE__FLOW_COLLECT) {
		device_enter(&r->collect);
		memcpy(out->data, r->flow->data + r->next, n);
		device_leave(&r->collect, n);
	} else {
		out->at = r->flow->data + r->next;
	}
	r->next += n;
	return 0;
}

static int compress(void *ctx, int worker, struct kedge__buffer *in, struct kedge__buffer *out,
		    struct kedge__error *err)
{
	const struct run *r = ctx;
	uint16_t codec, param;

	(void)worker;
	if (r->parts & KEDGE__FLOW_COMPRESS)
		return kedge__block_encode(&r->flow->codec, KEDGE_BYTES, in->at, in->bytes, out->data, &out->bytes,
					   &codec, &param, err);
	kedge__buffer_pass(in, out);
	if (r->parts & KEDGE__FLOW_SIZE)
		out->bytes = (size_t)((double)in->bytes * r->ratio);
	return 0;
}

static int write_out(struct run *r, const uint8_t *data, size_t n, struct kedge__error *err)
{
	int rc = 0;

	device_enter(&r->store);
	if (r->flow->path)
		rc = kedge__fs_pwrite(r->flow->fd, data, n, r->stored, r->flow->path, err);
	else
		memcpy(r->memory, data, n);
	r->stored += n;
	device_leave(&r->store, n);
	return rc;
}

static int stage_out(struct run *r, struct kedge__error *err)
{
	size_t n = r->staged;

	r->staged = 0;
	return n ? write_out(r, r->stage, n, err) : 0;
}

static int store(void *ctx, const struct kedge__buffer *in, struct kedge__error *err)
{
	struct run *r = ctx;
	int rc = 0;

	if (!(r->parts & KEDGE__FLOW_STORE)) {
		r->stored += in->bytes;
		return 0;
	}
	if (in->bytes > STAGE_BYTES - r->staged)
		rc = stage_out(r, err);
	if (rc)
		return rc;
	if (in->bytes >= STAGE_BYTES / 2)
		return write_out(r, in->at, in->bytes, err);
	memcpy(r->stage + r->staged, in->at, in->bytes);
	r->staged += in->bytes;
	return 0;
}

static int run_stages(struct run *r, struct kedge__pool *pool, bool overlap, struct kedge__flow_result *out,
		      struct kedge__error *err)
{
	struct kedge__pipeline_spec spec = {.collect = collect,
					    .transform = compress,
					    .store = store,
					    .ctx = r,
					    .buffer_bytes = KEDGE__MAX(r->flow->buffer, LEAST_BUFFER),
					    .queue = r->flow->queue,
					    .collect_apart = overlap && r->parts & KEDGE__FLOW_COLLECT,
					    .store_apart = overlap && r->parts & KEDGE__FLOW_STORE};
	double start = kedge__clock_seconds();
	int rc = kedge__pipeline_run(pool, &spec, &out->stats, err);

	if (!rc)
		rc = stage_out(r, err);
	out->seconds = kedge__clock_seconds() - start;
	out->stored = r->stored;
	return rc;
}

int kedge__flow_run(const struct kedge__flow *flow, unsigned parts, struct kedge__pool *pool, bool overlap,
		    double ratio, struct kedge__flow_result *out, struct kedge__error *err)
{
	struct run r = {.flow = flow, .parts = parts, .ratio = ratio};
	size_t room = KEDGE__MAX(flow->buffer, STAGE_BYTES);
	int rc = 0;

	r.stage = kedge__map_alloc(STAGE_BYTES + room);
	if (!r.stage)
		return kedge__error_nomem(err);
	r.memory = r.stage + STAGE_BYTES;
	memset(r.stage, 0, STAGE_BYTES + room);
	device_init(&r.collect, flow->collect_rate);
	device_init(&r.store, flow->store_rate);
	if (flow->path)
		rc = kedge__fs_truncate(flow->fd, 0, flow->path, err);
	if (!rc)
		rc = run_stages(&r, pool, overlap, out, err);
	kedge__map_free(r.stage, STAGE_BYTES + room);
	return rc;
}
