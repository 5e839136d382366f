/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPU's part of a restore: literals that are in pinned memory go to their places. Beside it a copy of as many
 * bytes, and then a clear of the region, which is what a restore cannot do without. The lists of places are made while
 * it runs, as a restore makes them.
 */
#include "bench_gpu.h"

#include "codec/codec.h"

#include <math.h>

#define BUFFER_BYTES (UINT64_C(32) << 20)
#define PIECE        128u /* bytes of a small one */
#define GROUP        (10 * PIECE)
#define BLOCK        (UINT64_C(1) << 20) /* of a packed one */

enum kind { RUNS, SCATTERED, PATTERNS, PACKED, KINDS };

static const char *const names[KINDS] = {
    "restore, literals in runs, to copy and clear",
    "restore, a tenth in pieces of 128 bytes, to the same",
    "restore, patterns, to a clear",
    "restore, f32 packed with delta+planes, to copy and clear",
};

struct restore {
	struct kedge__gpu *gpu;
	struct kedge__gpu_scatter *scatter;
	struct kedge__gpu_target target; /* all of the region */
	uint8_t *memory;                 /* pinned, of the buffers */
	uint64_t room;                   /* of a buffer */
	uint64_t literals;               /* bytes that were sent, */
	uint64_t filled;                 /* and those of patterns */
	enum kind kind;
	/* What comes next: */
	uint64_t pos, group;
	bool small;
	bool fresh; /* the buffers do not have its literals yet */
	/* A packed block: */
	uint8_t *packed;
	size_t packed_bytes;
	uint16_t param;
};

/* ------------------------------------------------------------------ what goes where */

/* Where the small piece of the group is. */
static uint64_t small_at(uint64_t group)
{
	return group * GROUP + (group * UINT64_C(0x9E3779B97F4A7C15) >> 32) % 10 * PIECE;
}

/* Those of an older version: what is between the small ones. */
static bool next_between(struct restore *r, uint64_t *to, uint64_t *bytes)
{
	uint64_t groups = r->target.bytes / GROUP;

	do {
		uint64_t end = r->group < groups ? small_at(r->group) : r->target.bytes;

		if (r->group > groups)
			return false;
		*to = r->pos;
		*bytes = KEDGE__MIN(end - r->pos, KEDGE__GPU_PIECE_BYTES);
		r->pos += *bytes;
		if (r->pos == end) {
			r->pos = end + PIECE;
			r->group++;
		}
	} while (!*bytes);
	return true;
}

static bool next_small(struct restore *r, uint64_t *to, uint64_t *bytes)
{
	if (r->group == r->target.bytes / GROUP)
		return false;
	*to = small_at(r->group++);
	*bytes = PIECE;
	return true;
}

static bool next_run(struct restore *r, uint64_t most, uint64_t *to, uint64_t *bytes)
{
	*to = r->pos;
	*bytes = KEDGE__MIN(most, r->target.bytes - r->pos);
	r->pos += *bytes;
	return *bytes > 0;
}

/* False: that was all. */
static bool next(struct restore *r, uint64_t *to, uint64_t *bytes)
{
	if (r->kind != SCATTERED)
		return next_run(r, r->kind == RUNS ? KEDGE__GPU_PIECE_BYTES : KEDGE__GPU_FILL_BYTES, to, bytes);
	if (!r->small && next_between(r, to, bytes))
		return true;
	if (!r->small)
		r->group = 0;
	r->small = true;
	return next_small(r, to, bytes);
}

/* ------------------------------------------------------------------ packed blocks */

/* A field of waves with noise in it. */
static int block_make(struct restore *r, struct kedge__error *err)
{
	struct kedge__codec_choice choice;
	float *field = kedge__malloc(BLOCK);
	uint64_t seed = 1;
	uint16_t codec;
	int rc = kedge__codec_choice_parse("delta+planes", &choice, err);

	r->packed = kedge__malloc(2 * BLOCK);
	if (!rc && (!field || !r->packed))
		rc = kedge__error_nomem(err);
	for (uint64_t i = 0; i < BLOCK / sizeof(*field) && !rc; i++) {
		double x = (double)(i % 4096) / 4096, y = (double)(i / 4096) / 4096;

		field[i] = (float)(2 + sin(11 * x) * cos(7 * y) +
				   3e-6 * ((double)(kedge__bench_random(&seed) % 1024) / 1024 - 0.5));
	}
	if (!rc)
		rc = kedge__block_encode(&choice, KEDGE_F32, field, BLOCK, r->packed, &r->packed_bytes, &codec,
					 &r->param, err);
	kedge__free(field);
	return rc;
}

/* One more, as long as there is room. */
static bool block_add(struct restore *r, uint8_t *memory, struct kedge__gpu_load *l, uint64_t *unpacked)
{
	struct kedge__gpu_layout layout = kedge__gpu_scatter_layout(r->room);
	struct kedge__gpu_piece *pieces = (struct kedge__gpu_piece *)(void *)(memory + layout.pieces_end);
	struct kedge__gpu_strip *strips = (struct kedge__gpu_strip *)(void *)(memory + layout.pieces_end);
	struct kedge__planes_walk w;
	uint64_t count = BLOCK / KEDGE__GPU_PIECE_BYTES;
	bool more = true;

	if (kedge__planes_walk_init(&w, r->packed, r->packed_bytes, r->param, BLOCK, NULL) ||
	    l->bytes + r->packed_bytes + (l->pieces + count) * sizeof(*pieces) > layout.pieces_end ||
	    l->strips + w.count > layout.strips || *unpacked + BLOCK > layout.unpacked)
		return false;
	if (r->fresh)
		memcpy(memory + l->bytes, r->packed, r->packed_bytes);
	while (kedge__planes_walk_next(&w, &more, NULL) == 0 && more)
		strips[l->strips++] =
		    (struct kedge__gpu_strip){(uint32_t)(l->bytes + w.from), (uint32_t)(*unpacked + w.at),
					      (uint16_t)w.size, (uint16_t)w.bytes, w.width | w.steps << 8};
	for (uint64_t i = 0; i < count; i++, r->pos += KEDGE__GPU_PIECE_BYTES)
		pieces[-1 - (int64_t)l->pieces++] = (struct kedge__gpu_piece){
		    r->target.at + r->pos, KEDGE__GPU_UNPACKED + (uint32_t)(*unpacked + i * KEDGE__GPU_PIECE_BYTES),
		    kedge__gpu_piece_what(KEDGE__GPU_PIECE_BYTES, false, 0)};
	l->bytes += (r->packed_bytes + 63) / 64 * 64;
	*unpacked += BLOCK;
	return true;
}

static bool blocks_fill(struct restore *r, uint8_t *memory, struct kedge__gpu_load *l)
{
	uint64_t unpacked = 0;

	while (r->pos < r->target.bytes && block_add(r, memory, l, &unpacked))
		;
	r->literals += l->bytes;
	return r->pos < r->target.bytes;
}

/* ------------------------------------------------------------------ a turn */

/* The buffer at MEMORY is full, or that was all. */
static bool buffer_fill(struct restore *r, uint8_t *memory, uint64_t *used, uint64_t *count)
{
	uint64_t end = kedge__gpu_scatter_layout(r->room).pieces_end;
	struct kedge__gpu_piece *pieces = (struct kedge__gpu_piece *)(void *)(memory + end);
	bool fill = r->kind == PATTERNS, more = true;
	uint64_t to, bytes;

	*used = fill ? 8 : 0;
	*count = 0;
	while (*used + KEDGE__GPU_PIECE_BYTES + (*count + 1) * sizeof(*pieces) <= end &&
	       !(fill && *count * KEDGE__GPU_FILL_BYTES >= kedge__gpu_fills_enough(r->filled))) {
		more = next(r, &to, &bytes);
		if (!more)
			break;
		pieces[-1 - (int64_t)(*count)++] = (struct kedge__gpu_piece){
		    r->target.at + to, fill ? 0 : (uint32_t)*used, kedge__gpu_piece_what((uint32_t)bytes, fill, 0)};
		*used += fill ? 0 : bytes;
	}
	r->literals += fill ? 0 : *used;
	r->filled += fill ? *count * KEDGE__GPU_FILL_BYTES : 0;
	return more;
}

static int restore_turn(struct restore *r, struct kedge__error *err)
{
	uint64_t damaged;
	bool more = true;
	int rc = kedge__gpu_scatter_begin(r->scatter, &r->target, 1, err);

	r->pos = r->group = r->literals = r->filled = 0;
	r->small = false;
	for (uint64_t i = 0; more && !rc; i++) {
		unsigned buffer = (unsigned)(i % KEDGE__GPU_SCATTER_BUFFERS);
		uint8_t *memory = r->memory + buffer * r->room;
		struct kedge__gpu_load load = {.memory = memory};

		if (i >= KEDGE__GPU_SCATTER_BUFFERS)
			rc = kedge__gpu_scatter_wait(r->scatter, buffer, err);
		if (rc)
			break;
		more = r->kind == PACKED ? blocks_fill(r, memory, &load)
					 : buffer_fill(r, memory, &load.bytes, &load.pieces);
		rc = kedge__gpu_scatter_send(r->scatter, buffer, &load, err);
	}
	return rc ? rc : kedge__gpu_scatter_end(r->scatter, &r->target, 1, &damaged, err);
}

/* As many bytes, and all of the region once. */
static int limit_turn(struct restore *r, struct kedge__error *err)
{
	uint64_t n;
	int rc = 0;

	for (uint64_t at = 0; at < r->literals && !rc; at += n) {
		n = KEDGE__MIN(r->room, r->literals - at);
		rc = kedge__gpu_copy_in(r->gpu, KEDGE__GPU_IN, r->target.at + at, r->memory, n, err);
	}
	if (!rc)
		rc = kedge__gpu_finish(r->gpu, err);
	if (!rc)
		rc = kedge__gpu_clear(r->gpu, KEDGE__GPU_WORK, r->target.at, r->target.bytes, err);
	return rc ? rc : kedge__gpu_finish(r->gpu, err);
}

/* The region has what was summed while it was written. */
static int check(struct restore *r, struct kedge__error *err)
{
	struct kedge__sum written;
	uint64_t damaged;
	int rc = restore_turn(r, err);

	written = r->target.sum;
	r->target.later = true;
	if (!rc)
		rc = kedge__gpu_scatter_end(r->scatter, &r->target, 1, &damaged, err);
	r->target.later = false;
	if (!rc && damaged)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "strips did not come back");
	if (!rc && (written.s1 != r->target.sum.s1 || written.s2 != r->target.sum.s2))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the region does not have what went there");
	return rc;
}

static int kind_take(struct restore *r, uint64_t repeat, struct kedge__bench_restore *out, struct kedge__error *err)
{
	int rc;

	r->fresh = true;
	rc = check(r, err); /* for once, not counted */
	r->fresh = false;

	snprintf(out->what, sizeof(out->what), "%s", names[r->kind]);
	out->bytes = (double)r->target.bytes;
	for (uint64_t i = 0; i < repeat && !rc; i++) {
		double start = kedge__clock_seconds(), between;

		rc = restore_turn(r, err);
		between = kedge__clock_seconds();
		if (!rc)
			rc = limit_turn(r, err);
		out->seconds[i] = between - start;
		out->limits[i] = kedge__clock_seconds() - between;
	}
	return rc;
}

int kedge__bench_gpu_restore(struct kedge__gpu *g, kedge__gpu_address data, uint64_t bytes, void *pinned,
			     uint64_t pinned_bytes, uint64_t repeat, struct kedge__bench_restore *out,
			     struct kedge__error *err)
{
	struct restore r = {.gpu = g, .memory = pinned, .target = {.at = data, .bytes = bytes}};
	int rc;

	r.room = KEDGE__MIN(BUFFER_BYTES, pinned_bytes / 4);
	rc = kedge__gpu_scatter_new(g, r.room, &r.scatter, err);
	if (!rc)
		rc = block_make(&r, err);
	for (r.kind = 0; r.kind < KINDS && !rc; r.kind++)
		rc = kind_take(&r, repeat, &out[r.kind], err);
	kedge__gpu_scatter_free(r.scatter);
	kedge__free(r.packed);
	return rc;
}
