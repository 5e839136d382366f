/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of scatter.cu. Copies are on one stream and kernels on another, so that the copy of a buffer goes on
 * while the bytes of the one before go to their places. A build without kernels does with a copy for each piece.
 */
#include "gpu/gpu.h"

#include "gpu/kernels.h"

#define EVENT(buffer)  (KEDGE__GPU_EVENTS - 1 - KEDGE__GPU_SCATTER_BUFFERS + (buffer))
#define NEAR_BYTES     (UINT64_C(64) << 10) /* between bytes and pieces: sent with both, because a copy takes as long */
#define STRIPS_BLOCKS  32u                  /* for each multiprocessor; each works on a strip */
#define BLOCKS         16u                  /* for each multiprocessor */
#define BUFFER_ALIGNED 256u
#define STRIPS_PART    256 /* of a buffer, for strips */
#define UNPACKED_TIMES 2   /* as many bytes as a buffer has are unpacked at once */
#define TABLE_HEAD     sizeof(struct kedge__sum)
#define READ_BYTES     (UINT64_C(1) << 20) /* of a target, at once, where there are no kernels */

_Static_assert(sizeof(struct kedge__gpu_piece) == sizeof(struct kedge_scatter_piece),
	       "the host's pieces are the kernel's");
_Static_assert(KEDGE__GPU_PIECE_BYTES == KEDGE_SCATTER_TILE && KEDGE__GPU_FILL_BYTES == KEDGE_SCATTER_FILL,
	       "the host's pieces are the kernel's");
_Static_assert(sizeof(struct kedge__gpu_strip) == sizeof(struct kedge_unpack_strip) &&
		   KEDGE__GPU_UNPACKED == KEDGE_SCATTER_UNPACKED,
	       "the host's strips are the kernel's");
_Static_assert(KEDGE__GPU_TARGETS == KEDGE_SCATTER_NONE, "the host's targets are the kernel's");

struct kedge__gpu_scatter {
	struct kedge__gpu *gpu;
	uint64_t bytes; /* of a buffer */
	struct kedge__gpu_layout layout;
	kedge__gpu_address buffers; /* one after the other, and then what strips become */
	kedge__gpu_address table;   /* the number of damaged strips; where each target begins; two sums for each */
	size_t room;                /* targets that it has room for */
	uint8_t *memory; /* of the host: of a pattern, where there are no kernels, or a part of a target; NULL: not
			    needed yet */
};

static uint64_t stride(const struct kedge__gpu_scatter *s)
{
	return (s->bytes + KEDGE_SCATTER_SLACK + BUFFER_ALIGNED - 1) / BUFFER_ALIGNED * BUFFER_ALIGNED;
}

static kedge__gpu_address unpacked_at(const struct kedge__gpu_scatter *s)
{
	return s->buffers + KEDGE__GPU_SCATTER_BUFFERS * stride(s);
}

static uint64_t device_bytes(const struct kedge__gpu_scatter *s)
{
	return KEDGE__GPU_SCATTER_BUFFERS * stride(s) + s->layout.unpacked + KEDGE_SCATTER_SLACK;
}

static uint64_t table_bytes(size_t targets)
{
	return targets ? TABLE_HEAD + targets * (sizeof(uint64_t) + sizeof(struct kedge__sum)) : 0;
}

struct kedge__gpu_layout kedge__gpu_scatter_layout(uint64_t bytes)
{
	uint64_t strips = bytes / STRIPS_PART / sizeof(struct kedge__gpu_strip);

	return (struct kedge__gpu_layout){.pieces_end = bytes - strips * sizeof(struct kedge__gpu_strip),
					  .strips = strips,
					  .unpacked = UNPACKED_TIMES * bytes};
}

static int memory_need(struct kedge__gpu_scatter *s, struct kedge__error *err)
{
	if (!s->memory)
		s->memory = kedge__malloc(READ_BYTES);
	return s->memory ? 0 : kedge__error_nomem(err);
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
	s->layout = kedge__gpu_scatter_layout(bytes);
	if (g->kernels)
		rc = kedge__gpu_alloc(g, device_bytes(s), &s->buffers, err);
	else
		rc = memory_need(s, err);
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
	kedge__gpu_release(s->gpu, s->buffers, device_bytes(s));
	kedge__gpu_release(s->gpu, s->table, table_bytes(s->room));
	kedge__free(s->memory);
	kedge__free(s);
}

/* ------------------------------------------------------------------ targets */

static kedge__gpu_address targets_at(const struct kedge__gpu_scatter *s)
{
	return s->table + TABLE_HEAD;
}

static kedge__gpu_address sums_at(const struct kedge__gpu_scatter *s, size_t target)
{
	return targets_at(s) + s->room * sizeof(uint64_t) + target * sizeof(struct kedge__sum);
}

static int table_need(struct kedge__gpu_scatter *s, size_t n, struct kedge__error *err)
{
	int rc;

	n = KEDGE__MAX(n, 1);
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
		rc = kedge__gpu_copy_in(s->gpu, KEDGE__GPU_WORK, targets_at(s), at, n * sizeof(*at), err);
	if (!rc)
		rc = kedge__gpu_clear(s->gpu, KEDGE__GPU_WORK, s->table, TABLE_HEAD, err);
	if (!rc)
		rc = kedge__gpu_clear(s->gpu, KEDGE__GPU_WORK, sums_at(s, 0), n * sizeof(struct kedge__sum), err);
	if (!rc)
		rc = kedge__gpu_sync(s->gpu, KEDGE__GPU_WORK, err);
	kedge__free(at);
	return rc;
}

int kedge__gpu_scatter_begin(struct kedge__gpu_scatter *s, const struct kedge__gpu_target *targets, size_t n,
			     struct kedge__error *err)
{
	int rc = kedge__gpu_after(s->gpu, err);

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

/* All that was sent is in its place. */
static int plain_sum(struct kedge__gpu_scatter *s, struct kedge__gpu_target *t, struct kedge__error *err)
{
	int rc = memory_need(s, err);

	t->sum = (struct kedge__sum){0, 0};
	for (uint64_t pos = 0, n; pos < t->bytes && !rc; pos += n) {
		n = KEDGE__MIN(READ_BYTES, t->bytes - pos);
		rc = kedge__gpu_copy_out(s->gpu, KEDGE__GPU_OUT, s->memory, t->at + pos, n, err);
		if (!rc)
			rc = kedge__gpu_sync(s->gpu, KEDGE__GPU_OUT, err);
		if (!rc)
			t->sum = kedge__sum_add(t->sum, kedge__sum_ruled(t->rule, s->memory, n, pos));
	}
	return rc;
}

/* ------------------------------------------------------------------ send */

static uint64_t pieces_at(const struct kedge__gpu_scatter *s, const struct kedge__gpu_load *l)
{
	return s->layout.pieces_end - l->pieces * sizeof(struct kedge__gpu_piece);
}

/* The bytes, and the lists behind them. What is between the two is not worth a copy of its own, or it is not sent. */
static int copy_both(struct kedge__gpu_scatter *s, kedge__gpu_address to, const struct kedge__gpu_load *l,
		     struct kedge__error *err)
{
	uint64_t lists = pieces_at(s, l), end = s->layout.pieces_end + l->strips * sizeof(struct kedge__gpu_strip);
	const uint8_t *memory = l->memory;
	int rc;

	if (lists - l->bytes < NEAR_BYTES)
		return kedge__gpu_copy_in(s->gpu, KEDGE__GPU_IN, to, memory, end, err);
	rc = kedge__gpu_copy_in(s->gpu, KEDGE__GPU_IN, to, memory, l->bytes, err);
	if (!rc)
		rc = kedge__gpu_copy_in(s->gpu, KEDGE__GPU_IN, to + lists, memory + lists, end - lists, err);
	return rc;
}

static int unpack(struct kedge__gpu_scatter *s, kedge__gpu_address at, const struct kedge__gpu_load *l,
		  struct kedge__error *err)
{
	struct kedge_unpack_args a = {
	    .strips = at + s->layout.pieces_end,
	    .count = l->strips,
	    .packed = at,
	    .out = unpacked_at(s),
	    .damaged = s->table,
	};

	return kedge__gpu_launch(s->gpu, KEDGE__GPU_WORK, "kedge_planes_unpack",
				 (unsigned)KEDGE__MIN(l->strips, s->gpu->processors * STRIPS_BLOCKS), KEDGE_THREADS, &a,
				 err);
}

static int scatter(struct kedge__gpu_scatter *s, kedge__gpu_address at, const struct kedge__gpu_load *l,
		   struct kedge__error *err)
{
	struct kedge_scatter_args a = {
	    .pieces = at + pieces_at(s, l),
	    .count = l->pieces,
	    .buffer = at,
	    .unpacked = unpacked_at(s),
	    .targets = targets_at(s),
	    .sums = sums_at(s, 0),
	};
	uint64_t blocks = (a.count * 8 + KEDGE_THREADS - 1) / KEDGE_THREADS; /* a short piece has eight lanes */

	return kedge__gpu_launch(s->gpu, KEDGE__GPU_WORK, "kedge_scatter",
				 (unsigned)KEDGE__MIN(blocks, s->gpu->processors * BLOCKS), KEDGE_THREADS, &a, err);
}

/* What strips become is in the same memory for all buffers: kernels follow each other. */
int kedge__gpu_scatter_send(struct kedge__gpu_scatter *s, unsigned buffer, const struct kedge__gpu_load *load,
			    struct kedge__error *err)
{
	kedge__gpu_address at = s->buffers + buffer * stride(s);
	int rc;

	if (!s->gpu->kernels) {
		const uint8_t *memory = load->memory;

		rc = plain_send(s, memory, (const void *)(memory + pieces_at(s, load)), load->pieces, err);
		return rc ? rc : kedge__gpu_record(s->gpu, KEDGE__GPU_IN, EVENT(buffer), err);
	}
	rc = copy_both(s, at, load, err);
	if (!rc)
		rc = kedge__gpu_record(s->gpu, KEDGE__GPU_IN, EVENT(buffer), err);
	if (!rc)
		rc = kedge__gpu_follow(s->gpu, KEDGE__GPU_WORK, EVENT(buffer), err);
	if (!rc)
		rc = unpack(s, at, load, err);
	if (!rc)
		rc = scatter(s, at, load, err);
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

/* It is summed by the host. */
static bool is_plain(const struct kedge__gpu_scatter *s, const struct kedge__gpu_target *t)
{
	return !s->gpu->kernels || t->rule != KEDGE__SUM_PAGES;
}

static int sums_get(struct kedge__gpu_scatter *s, struct kedge__gpu_target *targets, size_t n, uint64_t *damaged,
		    struct kedge__error *err)
{
	struct kedge__sum *sums = kedge__calloc(n + 1, sizeof(*sums));
	uint64_t strips = 0;
	int rc = sums ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__gpu_copy_out(s->gpu, KEDGE__GPU_WORK, &strips, s->table, sizeof(strips), err);
	if (!rc)
		rc = kedge__gpu_copy_out(s->gpu, KEDGE__GPU_WORK, sums, sums_at(s, 0), n * sizeof(*sums), err);
	if (!rc)
		rc = kedge__gpu_sync(s->gpu, KEDGE__GPU_WORK, err);
	for (size_t i = 0; i < n && !rc; i++)
		targets[i].sum = sums[i];
	if (!rc)
		*damaged = strips;
	kedge__free(sums);
	return rc;
}

int kedge__gpu_scatter_end(struct kedge__gpu_scatter *s, struct kedge__gpu_target *targets, size_t n, uint64_t *damaged,
			   struct kedge__error *err)
{
	int rc = s->gpu->kernels ? 0 : kedge__gpu_sync(s->gpu, KEDGE__GPU_IN, err);

	*damaged = 0;
	for (size_t i = 0; i < n && !rc && s->gpu->kernels; i++)
		if (targets[i].later && !is_plain(s, &targets[i]))
			rc = sum_later(s, i, &targets[i], err);
	if (!rc && s->gpu->kernels)
		rc = sums_get(s, targets, n, damaged, err);
	for (size_t i = 0; i < n && !rc; i++)
		if (is_plain(s, &targets[i]))
			rc = plain_sum(s, &targets[i], err);
	return rc;
}
