/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of scatter.cu. Copies are on one stream and kernels on another, so that the copy of a buffer goes on
 * while the bytes of the one before go to their places. A build without kernels does with a copy for each piece.
 */
#include "gpu/gpu.h"

#include "gpu/kernels.h"

#define EVENT(buffer) (KEDGE__GPU_EVENTS - 1 - KEDGE__GPU_SCATTER_BUFFERS + (buffer))
#define NEAR_BYTES                                                                                                     \
	(UINT64_C(64) << 10) /* between the bytes and the pieces: sent with both, because a copy takes as long */
#define BLOCKS         16u   /* for each multiprocessor */
#define BUFFER_ALIGNED 256u
#define READ_BYTES     (UINT64_C(1) << 20) /* of a target, at once, where there are no kernels */

_Static_assert(sizeof(struct kedge__gpu_piece) == sizeof(struct kedge_scatter_piece),
	       "the host's pieces are the kernel's");
_Static_assert(KEDGE__GPU_PIECE_BYTES == KEDGE_SCATTER_TILE && KEDGE__GPU_FILL_BYTES == KEDGE_SCATTER_FILL,
	       "the host's pieces are the kernel's");
_Static_assert(KEDGE__GPU_TARGETS == KEDGE_SCATTER_NONE, "the host's targets are the kernel's");

struct kedge__gpu_scatter {
	struct kedge__gpu *gpu;
	uint64_t bytes;             /* of a buffer */
	kedge__gpu_address buffers; /* one after the other */
	kedge__gpu_address table;   /* of targets: where each begins, then two sums for each */
	size_t room;                /* targets that it has room for */
	uint8_t *memory;            /* of the host, where there are no kernels: of a pattern, or a part of a target */
};

static uint64_t stride(const struct kedge__gpu_scatter *s)
{
	return (s->bytes + KEDGE_SCATTER_SLACK + BUFFER_ALIGNED - 1) / BUFFER_ALIGNED * BUFFER_ALIGNED;
}

static uint64_t table_bytes(size_t targets)
{
	return targets * (sizeof(uint64_t) + sizeof(struct kedge__sum));
}

int kedge__gpu_scatter_new(struct kedge__gpu *g, uint64_t bytes, struct kedge__gpu_scatter **out,
			   struct kedge__error *err)
{
	struct kedge__gpu_scatter *s = kedge__calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return kedge__error_nomem(err);
	s->gpu = g;
	s->bytes = bytes;
	if (g->kernels)
		rc = kedge__gpu_alloc(g, KEDGE__GPU_SCATTER_BUFFERS * stride(s), &s->buffers, err);
	else if (!(s->memory = kedge__malloc(READ_BYTES)))
		rc = kedge__error_nomem(err);
	if (rc)
		kedge__gpu_scatter_free(s);
	else
		*out = s;
	return rc;
}

void kedge__gpu_scatter_free(struct kedge__gpu_scatter *s)
{
	if (!s)
		return;
	kedge__gpu_release(s->gpu, s->buffers, KEDGE__GPU_SCATTER_BUFFERS * stride(s));
	kedge__gpu_release(s->gpu, s->table, table_bytes(s->room));
	kedge__free(s->memory);
	kedge__free(s);
}

/* ------------------------------------------------------------------ targets */

static kedge__gpu_address sums_at(const struct kedge__gpu_scatter *s, size_t target)
{
	return s->table + s->room * sizeof(uint64_t) + target * sizeof(struct kedge__sum);
}

static int table_need(struct kedge__gpu_scatter *s, size_t n, struct kedge__error *err)
{
	int rc;

	if (n <= s->room)
		return 0;
	kedge__gpu_release(s->gpu, s->table, table_bytes(s->room));
	s->table = 0;
	s->room = 0;
	rc = kedge__gpu_alloc(s->gpu, table_bytes(n), &s->table, err);
	if (!rc)
		s->room = n;
	return rc;
}

static int table_send(struct kedge__gpu_scatter *s, const struct kedge__gpu_target *targets, size_t n,
		      struct kedge__error *err)
{
	uint64_t *at = kedge__calloc(n + 1, sizeof(*at));
	int rc = at ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < n && !rc; i++)
		at[i] = targets[i].at;
	if (!rc)
		rc = kedge__gpu_copy_in(s->gpu, KEDGE__GPU_WORK, s->table, at, n * sizeof(*at), err);
	if (!rc)
		rc = kedge__gpu_clear(s->gpu, KEDGE__GPU_WORK, sums_at(s, 0), n * sizeof(struct kedge__sum), err);
	if (!rc)
		rc = kedge__gpu_finish(s->gpu, err);
	kedge__free(at);
	return rc;
}

int kedge__gpu_scatter_begin(struct kedge__gpu_scatter *s, const struct kedge__gpu_target *targets, size_t n,
			     struct kedge__error *err)
{
	int rc = kedge__gpu_finish(s->gpu, err);

	if (!rc && s->gpu->kernels)
		rc = table_need(s, n, err);
	if (!rc && s->gpu->kernels)
		rc = table_send(s, targets, n, err);
	return rc;
}

/* ------------------------------------------------------------------ without kernels */

static const uint8_t *pattern_make(struct kedge__gpu_scatter *s, const struct kedge__gpu_piece *p,
				   const uint8_t *pattern)
{
	for (uint32_t i = 0; i < KEDGE__GPU_FILL_BYTES; i += 8)
		memcpy(s->memory + i, pattern, 8);
	memcpy(s->memory + KEDGE__GPU_FILL_BYTES, pattern, 8);
	return s->memory + p->to % 8;
}

/* Copies from memory that is not pinned have left it when they return. */
static int plain_send(struct kedge__gpu_scatter *s, const uint8_t *memory, const struct kedge__gpu_piece *pieces,
		      uint64_t count, struct kedge__error *err)
{
	int rc = 0;

	for (uint64_t i = 0; i < count && !rc; i++) {
		const struct kedge__gpu_piece *p = &pieces[i];
		const uint8_t *from = memory + p->from;

		if (p->what & KEDGE_SCATTER_REPEAT)
			from = pattern_make(s, p, from);
		rc = kedge__gpu_copy_in(s->gpu, KEDGE__GPU_IN, p->to, from, p->what & KEDGE_SCATTER_BYTES, err);
	}
	return rc;
}

static int plain_sum(struct kedge__gpu_scatter *s, struct kedge__gpu_target *t, struct kedge__error *err)
{
	int rc = 0;

	t->sum = (struct kedge__sum){0, 0};
	for (uint64_t pos = 0, n; pos < t->bytes && !rc; pos += n) {
		n = KEDGE__MIN(READ_BYTES, t->bytes - pos);
		rc = kedge__gpu_copy_out(s->gpu, KEDGE__GPU_OUT, s->memory, t->at + pos, n, err);
		if (!rc)
			rc = kedge__gpu_finish(s->gpu, err);
		if (!rc)
			t->sum = kedge__sum_add(t->sum, kedge__sum_of(s->memory, n, pos));
	}
	return rc;
}

/* ------------------------------------------------------------------ send */

/* What is between the two is not worth a copy of its own; or it is not sent. */
static int copy_both(struct kedge__gpu_scatter *s, kedge__gpu_address to, const uint8_t *memory, uint64_t bytes,
		     uint64_t pieces_at, struct kedge__error *err)
{
	int rc;

	if (pieces_at - bytes < NEAR_BYTES)
		return kedge__gpu_copy_in(s->gpu, KEDGE__GPU_IN, to, memory, s->bytes, err);
	rc = kedge__gpu_copy_in(s->gpu, KEDGE__GPU_IN, to, memory, bytes, err);
	if (!rc)
		rc = kedge__gpu_copy_in(s->gpu, KEDGE__GPU_IN, to + pieces_at, memory + pieces_at, s->bytes - pieces_at,
					err);
	return rc;
}

/* They go to their places when the copy has arrived. */
static int scatter(struct kedge__gpu_scatter *s, kedge__gpu_address at, uint64_t pieces_at, unsigned event,
		   struct kedge__error *err)
{
	struct kedge_scatter_args a = {
	    .pieces = at + pieces_at,
	    .count = (s->bytes - pieces_at) / sizeof(struct kedge_scatter_piece),
	    .buffer = at,
	    .targets = s->table,
	    .sums = sums_at(s, 0),
	};
	uint64_t blocks = (a.count * 8 + KEDGE_THREADS - 1) / KEDGE_THREADS; /* a short piece has eight lanes */
	int rc = kedge__gpu_record(s->gpu, KEDGE__GPU_IN, event, err);

	if (!rc)
		rc = kedge__gpu_follow(s->gpu, KEDGE__GPU_WORK, event, err);
	if (!rc)
		rc = kedge__gpu_launch(s->gpu, KEDGE__GPU_WORK, "kedge_scatter",
				       (unsigned)KEDGE__MIN(blocks, s->gpu->processors * BLOCKS), KEDGE_THREADS, &a,
				       err);
	return rc;
}

int kedge__gpu_scatter_send(struct kedge__gpu_scatter *s, unsigned buffer, const void *memory, uint64_t bytes,
			    uint64_t count, struct kedge__error *err)
{
	uint64_t pieces_at = s->bytes - count * sizeof(struct kedge__gpu_piece);
	kedge__gpu_address at = s->buffers + buffer * stride(s);
	const void *pieces = (const uint8_t *)memory + pieces_at;
	int rc;

	if (!s->gpu->kernels) {
		rc = plain_send(s, memory, pieces, count, err);
		return rc ? rc : kedge__gpu_record(s->gpu, KEDGE__GPU_IN, EVENT(buffer), err);
	}
	rc = copy_both(s, at, memory, bytes, pieces_at, err);
	if (!rc)
		rc = scatter(s, at, pieces_at, EVENT(buffer), err);
	return rc ? rc : kedge__gpu_record(s->gpu, KEDGE__GPU_WORK, EVENT(buffer), err);
}

int kedge__gpu_scatter_wait(struct kedge__gpu_scatter *s, unsigned buffer, struct kedge__error *err)
{
	return kedge__gpu_wait(s->gpu, EVENT(buffer), err);
}

/* ------------------------------------------------------------------ end */

static int sum_later(struct kedge__gpu_scatter *s, size_t target, const struct kedge__gpu_target *t,
		     struct kedge__error *err)
{
	struct kedge_sum_args a = {.data = t->at, .bytes = t->bytes, .sums = sums_at(s, target)};
	uint64_t blocks = (t->bytes / 16 + KEDGE_THREADS) / KEDGE_THREADS;
	int rc = kedge__gpu_clear(s->gpu, KEDGE__GPU_WORK, a.sums, sizeof(struct kedge__sum), err);

	return rc ? rc
		  : kedge__gpu_launch(s->gpu, KEDGE__GPU_WORK, "kedge_sum",
				      (unsigned)KEDGE__MIN(blocks, s->gpu->processors * BLOCKS), KEDGE_THREADS, &a,
				      err);
}

static int sums_get(struct kedge__gpu_scatter *s, struct kedge__gpu_target *targets, size_t n, struct kedge__error *err)
{
	struct kedge__sum *sums = kedge__calloc(n + 1, sizeof(*sums));
	int rc = sums ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__gpu_copy_out(s->gpu, KEDGE__GPU_WORK, sums, sums_at(s, 0), n * sizeof(*sums), err);
	if (!rc)
		rc = kedge__gpu_finish(s->gpu, err);
	for (size_t i = 0; i < n && !rc; i++)
		targets[i].sum = sums[i];
	kedge__free(sums);
	return rc;
}

int kedge__gpu_scatter_end(struct kedge__gpu_scatter *s, struct kedge__gpu_target *targets, size_t n,
			   struct kedge__error *err)
{
	int rc = s->gpu->kernels ? 0 : kedge__gpu_finish(s->gpu, err);

	for (size_t i = 0; i < n && !rc; i++) {
		if (!s->gpu->kernels)
			rc = plain_sum(s, &targets[i], err);
		else if (targets[i].later)
			rc = sum_later(s, i, &targets[i], err);
	}
	return rc || !s->gpu->kernels ? rc : sums_get(s, targets, n, err);
}
