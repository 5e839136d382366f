/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restore: resolve the extent maps of a lineage once, read only the blocks that hold live bytes,
 * each once, in file order and in parallel, and verify everything that was filled in.
 */
#ifndef KEDGE_RESTORE_RESTORE_H
#define KEDGE_RESTORE_RESTORE_H

#include "base/base.h"
#include "gpu/gpu.h"
#include "pipeline/pipeline.h"
#include "store/store.h"

/* The way to a GPU: buffers of pinned memory, and as many of the device, through which literals go to their places. One fill
 * at a time uses it. */
struct kedge__restore_device;

/* Buffers of BYTES, a multiple of 64, 4 KiB or more. If there is no room for them they are smaller, and KEDGE_E_NOMEM
 * means that there is hardly any. G is the caller's, and must outlive it. */
int kedge__restore_device_new(struct kedge__gpu *g, uint64_t bytes, struct kedge__restore_device **out, struct kedge__error *err);
void kedge__restore_device_free(struct kedge__restore_device *d); /* accepts NULL */

/* Memory to fill with stored region INDEX (of the lineage's top segment); its size is the stored one. */
struct kedge__restore_target {
	size_t region;
	void *data;
	struct kedge__restore_device *device; /* NULL: it is memory that processors may touch */
	bool zeroed; /* all of it is zero, and what the region has of zeros is not written: it may be a file with holes */
};

struct kedge__restore_stats {
	uint64_t bytes_filled, bytes_read; /* read: stored bytes, those between live ones included */
	uint64_t blocks_read;
	uint64_t bytes_laid; /* of newer versions, over others that were still in the cache */
	uint64_t bytes_mapped; /* of those read, taken from the page cache where they are */
	double resolve_seconds, fill_seconds, verify_seconds;
	/* The share of each kind of work in fill_seconds, divided by the number of threads. */
	double read_share, decode_share, place_share;
	struct kedge__pipeline_stats pipeline; /* announce, read and fill, account */
};

/* The step that takes most of the time: "resolve", "read", "decode", "place" or "verify". */
const char *kedge__restore_bottleneck(const struct kedge__restore_stats *stats);

/*
 * Fill the targets from the lineage. Every block is checked as it is read, and every region against its digest at the end.
 * A damaged block is read from another level, if one has it. KEDGE_E_DAMAGED names segment, block and region; the targets are then undefined,
 * and also after KEDGE_E_DEVICE: a GPU failed.
 */
int kedge__restore_fill(struct kedge__lineage *l, struct kedge__pool *pool, struct kedge__io io, const struct kedge__restore_target *targets, size_t n,
			void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
			struct kedge__restore_stats *stats, struct kedge__error *err);

/* Check what a fill of all regions would restore, without keeping a byte: every block that the lineage's top version needs is
 * read and checked, and every region is compared with its digest, using memory only for the read plan and a few blocks per
 * thread. It tolerates damage as a fill does; a version that passes can be restored. */
int kedge__restore_check(struct kedge__lineage *l, struct kedge__pool *pool, struct kedge__io io, void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
			 struct kedge__error *err);

/* ------------------------------------------------------------------ diff.c: which byte ranges differ between two versions */

struct kedge__diff_region {
	char *name; /* owned */
	enum { KEDGE__DIFF_SAME, KEDGE__DIFF_CHANGED, KEDGE__DIFF_ADDED, KEDGE__DIFF_REMOVED } status;
	uint64_t bytes_a, bytes_b, changed_bytes;
	struct kedge__range *ranges; /* offsets in the region */
	size_t range_count;
};

/* Ranges that resolve to the same literals are equal and not read; others are read and compared. Exact to the byte. */
int kedge__diff(struct kedge__lineage *a, struct kedge__lineage *b, struct kedge__pool *pool, void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
		struct kedge__diff_region **regions, size_t *count, struct kedge__error *err);
void kedge__diff_free(struct kedge__diff_region *regions, size_t count);

#endif
