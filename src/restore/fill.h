/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files that fill targets: fill.c (attempts), fill_stages.c (the pipeline), fill_sums.c (region digests). */
#ifndef KEDGE_RESTORE_FILL_H
#define KEDGE_RESTORE_FILL_H

#include "restore/device.h"
#include "restore/read_plan.h"

#include <pthread.h>
#include <stdatomic.h>

/* A target as the fill sees it. */
struct kedge__fill_goal {
	const struct kedge__region_record *record;
	uint8_t *data;
	struct kedge__restore_device *device; /* NULL: it is memory that processors may touch */
	bool zeroed;                          /* zeros need not be written, and places without others not be touched */
	uint32_t number;                      /* among the targets on that device */
	atomic_bool odd; /* summed at the end: its pieces are small, or not all at multiples of 8 */
};

/* A device, and the goals on it. */
struct kedge__fill_device {
	struct kedge__restore_device *device;
	struct kedge__gpu_target *targets;
	uint32_t *goals; /* of each */
	size_t count;
};

struct kedge__fill_parcel;

enum { KEDGE__FILL_RUN = 128 };   /* units of one read */
enum { KEDGE__FILL_THERE = 256 }; /* places that are remembered: batches of many files go to the same ones */

/* Some bytes of a word of a target; the others come with another piece. */
struct kedge__fill_edge {
	uint64_t pos; /* of the word, in the target */
	uint64_t word; /* zero but for those bytes */
	uint32_t target;
};

struct kedge__fill_edges {
	struct kedge__fill_edge *at;
	size_t count, room;
};

/* Bytes of a target where there is ground: pieces that follow each other often go to the same ones. */
struct kedge__fill_cover {
	uint64_t from, to;
	uint32_t target;
};

/* Pages of a layer that were read and checked, in memory of the thread. */
struct kedge__fill_stream {
	const struct kedge__read_plan_member *member;
	uint64_t from, to; /* positions */
};

/* A window of a file, in memory. */
struct kedge__fill_mapped {
	const struct kedge__segment *segment;
	bool suits; /* that segment */
	const uint8_t *at; /* NULL: nothing is mapped */
	uint64_t from, bytes;
	unsigned tried;     /* batches, */
	double seconds[2];  /* and what those took that were read, and mapped, */
	uint64_t amount[2]; /* and how many bytes they had */
};

struct kedge__fill_worker { /* private to a thread */
	uint8_t *raw, *stored;
	uint8_t *at[KEDGE__FILL_RUN]; /* where the stored bytes of the units of a read are */
	uint8_t *gap;                 /* what is read only because it lies between them */
	struct kedge__sum *sums; /* one per target */
	struct kedge__fill_cover cover;
	uintptr_t there[KEDGE__FILL_THERE]; /* around which addresses there is memory that was touched, */
	uintptr_t absent;                   /* and where there was none when it was last asked for */
	struct kedge__fill_edges edges; /* of a check and of targets with holes: memory that cannot be summed later */
	struct kedge__fill_parcel *parcel; /* for what goes to a device; NULL: there is none */
	struct kedge__fill_stream *streams; /* of layers; NULL until one is needed */
	uint8_t *stream_bytes;
	const struct kedge__read_plan_unit *last; /* of the batch: what lies behind it is perhaps another thread's */
	struct kedge__fill_mapped mapped;
	bool from_map; /* what AT points to belongs to the file, and is not to be changed */
	uint64_t bytes_read, blocks_read, bytes_mapped;
	double reading, decoding, placing; /* seconds */
};

/* ---- fill_past.c: batches on their way past the page cache, each in the slot of its number */

enum { KEDGE__FILL_READS = 8 }; /* of a batch, at most */

struct kedge__fill_read {
	uint64_t from, needed; /* in the file: where it begins, and how much is needed */
	size_t at;             /* in the slot's memory */
};

struct kedge__fill_slot {
	uint8_t *data; /* NULL until it is needed */
	struct kedge__fill_read reads[KEDGE__FILL_READS];
	size_t count;
	bool used;
};

struct kedge__fill_past {
	struct kedge__fs_reads *reads;
	struct kedge__fill_slot *slots;
	size_t count, room; /* slots (0: nothing is read this way), and bytes per slot */
	size_t flight;      /* batches that are begun before their turn */
	uint8_t *memory;
	size_t begun; /* the number to begin next */
	const struct kedge__segment *segment; /* that FD is open for */
	int fd;
};

struct kedge__filling {
	struct kedge__lineage *lineage;
	struct kedge__pool *pool;
	struct kedge__io io;
	struct kedge__read_plan plan;
	struct kedge__fill_goal *goals;
	size_t goal_count;
	struct kedge__fill_device *devices;
	size_t device_count;
	bool unpack_here; /* a device found strips that are not what they say: nothing more is unpacked there */
	struct kedge__fill_worker *workers;
	size_t worker_count, stored_room; /* bytes of each worker's memory for stored ones */
	struct kedge__fill_past past;
	bool sum_later;
	bool past_cache; /* there is more to fill than fits into a cache */
	bool again;      /* the first attempt failed, and may have left anything in the targets */
	bool check;      /* sum what the targets would get, without touching them */

	size_t next, end;  /* items: batches, then patterns; the next to collect, and where this round ends */
	size_t announced;  /* batches announced to the kernel, */
	size_t layers_announced; /* and those whose layers were */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	uint64_t done, total;

	pthread_mutex_t lock; /* guards what follows */
	struct kedge__error first;
	KEDGE__ARRAY(uint64_t) damaged; /* versions whose segment failed */
	bool lost;                      /* a failure that another copy cannot repair */
};

/* fill_stages.c. Execute the plan; blocks that another copy may replace are recorded, any other failure stops it. */
int kedge__fill_run(struct kedge__filling *f, struct kedge__pipeline_stats *stats, struct kedge__error *err);
int kedge__fill_workers_init(struct kedge__filling *f, struct kedge__error *err);
void kedge__fill_workers_done(struct kedge__filling *f);

/* fill_past.c. Batches are numbered and may be filled in any order, but none is begun before the one QUEUE numbers earlier is
 * finished. */
size_t kedge__fill_past_queue(const struct kedge__filling *f);
void kedge__fill_past_init(struct kedge__filling *f);
void kedge__fill_past_done(struct kedge__filling *f);
bool kedge__fill_past_suits(const struct kedge__filling *f, const struct kedge__read_plan_batch *batch); /* long, in few pieces */
/* Begin the batch, and perhaps some more. False: read it through the page cache. One thread at a time. */
bool kedge__fill_past_begin(struct kedge__filling *f, size_t number);
bool kedge__fill_past_wait(struct kedge__filling *f, uint64_t number); /* all of it was read; false also if it was not begun */
/* Where the stored bytes at OFFSET of the file are, in a batch that was read. */
uint8_t *kedge__fill_past_at(const struct kedge__filling *f, uint64_t number, uint64_t offset);

/* fill_mapped.c: batches that are in the page cache, and in one piece of the file */

/* Whether the COUNT units from U on, of one segment, may be taken from where they are. */
bool kedge__fill_mapped_suits(const struct kedge__filling *f, struct kedge__fill_mapped *m, const struct kedge__read_plan_unit *u,
			      size_t count);
bool kedge__fill_mapped_wanted(const struct kedge__fill_mapped *m); /* as far as is known, it is faster */
/* The first of them; the others follow as in the file. NULL: not all of them are in memory. */
const uint8_t *kedge__fill_mapped_at(struct kedge__fill_mapped *m, const struct kedge__read_plan_unit *u, size_t count);
/* AT is where U is mapped: that, if it can be carried from there, or a copy in memory of the thread. */
uint8_t *kedge__fill_mapped_take(const struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
				 uint8_t *at);
/* A batch that may be mapped took so long. */
void kedge__fill_mapped_note(struct kedge__fill_mapped *m, bool mapped, uint64_t bytes, double seconds);
void kedge__fill_mapped_done(struct kedge__fill_mapped *m);

/* fill_overlay.c: what goes over ground in the cache */

/* Whether anything goes over U, which is ground. */
bool kedge__fill_overlay_has(const struct kedge__filling *f, const struct kedge__read_plan_unit *u);
/* Put it over AT, the bytes of U. *BAD: the version that is to blame for an error. */
int kedge__fill_overlay_put(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
			    uint8_t *at, uint64_t *bad, struct kedge__error *err);
/* Announce to the kernel what batch NUMBER, of ground, needs of layers. */
void kedge__fill_overlay_announce(struct kedge__filling *f, size_t number);
void kedge__fill_overlay_done(struct kedge__fill_worker *h);

/* fill_device.c: what goes to GPUs */

int kedge__fill_devices_init(struct kedge__filling *f, struct kedge__error *err); /* of the goals */
void kedge__fill_devices_done(struct kedge__filling *f);
int kedge__fill_devices_begin(struct kedge__filling *f, struct kedge__error *err);
/* What is put from here on goes over what was put before. */
int kedge__fill_devices_send(struct kedge__filling *f, struct kedge__error *err);
/* All is in its place, and summed. */
int kedge__fill_devices_end(struct kedge__filling *f, struct kedge__error *err);
void kedge__fill_devices_abandon(struct kedge__filling *f); /* instead, after a failure */
int kedge__fill_parcel_new(const struct kedge__filling *f, struct kedge__fill_parcel **out, struct kedge__error *err);
/* COUNT pieces, which are put into order, as far as they go to devices; RAW is byte FROM of their block, decoded. */
int kedge__fill_device_put(struct kedge__filling *f, struct kedge__fill_worker *h, struct kedge__piece *pieces, size_t count,
			   const uint8_t *raw, uint32_t from, struct kedge__error *err);
/* Whether the block of U, which is packed, is unpacked on the device that its pieces go to. */
bool kedge__fill_device_unpacks(const struct kedge__filling *f, const struct kedge__read_plan_unit *u);
/* Its stored bytes, which were checked, go there. */
int kedge__fill_device_unpack(struct kedge__filling *f, const struct kedge__read_plan_unit *u, const uint8_t *stored,
			      struct kedge__error *err);
int kedge__fill_device_pattern(struct kedge__filling *f, const struct kedge__read_plan_fill *fill, struct kedge__error *err);

/* fill_sums.c */

/* The sum of a target is that of what is in its memory: ground is summed with its dead bytes, and before others go over
 * them, what is there is taken out of the sum again. Bytes that cannot be summed on their own defer the sum of their target,
 * unless it is zeroed: to read a hole of it would fill that, or be a fault where there is no room. */

/* Sum LEN bytes at AT, while they are in the cache, that go to offset POS of TARGET. */
int kedge__fill_sum_put(struct kedge__filling *f, struct kedge__fill_worker *h, uint32_t target, const uint8_t *at,
			uint64_t pos, uint64_t len, struct kedge__error *err);
/* Bytes with this kedge__sum_of(), which kedge__fill_sum_suits(), went there. */
void kedge__fill_sum_add(struct kedge__filling *f, struct kedge__fill_worker *h, uint32_t target, struct kedge__sum sum);
/* LEN bytes at offset POS of TARGET can be summed on their own, here. */
bool kedge__fill_sum_suits(const struct kedge__filling *f, uint32_t target, uint64_t pos, uint64_t len);
/* Other bytes are about to come to offset POS of TARGET, where there may be ground. */
void kedge__fill_sum_clear(struct kedge__filling *f, struct kedge__fill_worker *h, uint32_t target, uint64_t pos,
			   uint64_t len);
/* The same where nothing can be deferred. */
int kedge__fill_check_piece(struct kedge__filling *f, struct kedge__fill_worker *h, uint32_t target, const uint8_t *at,
			    uint64_t pos, uint64_t len, struct kedge__error *err);
/* A pattern that is not written. */
int kedge__fill_check_pattern(struct kedge__filling *f, struct kedge__fill_worker *h,
			      const struct kedge__read_plan_fill *fill, struct kedge__error *err);
/* The piece is not summed on its own. */
bool kedge__fill_sum_defers(struct kedge__fill_goal *g, uint64_t pos, uint64_t len);
/* Compare every target with the digest of its region. */
int kedge__fill_sums_check(struct kedge__filling *f, struct kedge__error *err);

#endif
