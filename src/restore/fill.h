/* Between the files that fill targets: fill.c (attempts), fill_stages.c (the pipeline), fill_sums.c (region digests). */
#ifndef KEDGE_RESTORE_FILL_H
#define KEDGE_RESTORE_FILL_H

#include "restore/read_plan.h"

#include <pthread.h>
#include <stdatomic.h>

/* A target as the fill sees it. */
struct kedge__fill_goal {
	const struct kedge__region_record *record;
	uint8_t *data;
	atomic_bool odd; /* its sum is taken when all is there: pieces are small, or not all at multiples of 8 */
};

enum { KEDGE__FILL_RUN = 128 }; /* blocks of one read */

struct kedge__fill_hand { /* a worker's own */
	uint8_t *raw, *stored;
	uint8_t *at[KEDGE__FILL_RUN]; /* where the blocks of a read are, stored */
	struct kedge__sum *sums; /* one a target */
	uint64_t bytes_read, blocks_read;
	double reading, decoding, placing; /* seconds */
};

struct kedge__filling {
	struct kedge__lineage *lineage;
	struct kedge__pool *pool;
	struct kedge__io io;
	struct kedge__read_plan plan;
	struct kedge__fill_goal *goals;
	size_t goal_count;
	struct kedge__fill_hand *hands;
	size_t hand_count;
	bool sum_later;
	bool past_cache; /* there is more to fill than a cache holds */
	bool check;      /* read and check blocks, and touch no target */

	size_t next, announced; /* items that are collected, and batches that the kernel was told of */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	uint64_t done, total;

	pthread_mutex_t lock; /* guards what follows */
	struct kedge__error first;
	KEDGE__ARRAY(uint64_t) damaged; /* versions whose segment failed */
	bool lost;                      /* a failure that another copy cannot mend */
};

/* fill_stages.c. All that is in the plan; blocks that another copy may mend are noted, anything else stops it. */
int kedge__fill_run(struct kedge__filling *f, struct kedge__pipeline_stats *stats, struct kedge__error *err);
int kedge__fill_hands_init(struct kedge__filling *f, struct kedge__error *err);
void kedge__fill_hands_done(struct kedge__filling *f);

/* fill_sums.c */

/* Sum LEN bytes at AT, while they are in the cache, that go to offset POS of TARGET. A piece that cannot be summed alone
 * leaves its target for later. */
void kedge__fill_sum_piece(struct kedge__filling *f, struct kedge__fill_hand *h, uint32_t target, const uint8_t *at,
			   uint64_t pos, uint64_t len);
/* Every target against the digest of its region. */
int kedge__fill_sums_check(struct kedge__filling *f, struct kedge__error *err);

#endif
