/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record.h: the hash record: where a chunk, or a subtree of the Merkle tree, was first seen in all versions so far.
 *
 * It is split into shards by the digest. A shard is worked on by one thread at a time, in the order of addresses, so
 * that its contents depend only on the data. Each shard has two tables, the current one and the previous one; each
 * may take half of the shard's part of the memory limit. When an entry finds no room in the current table it is left
 * out, and when that version is committed, the previous table is dropped, the current one becomes the previous one, and
 * a new one is begun. Entries of the previous table that are hit are entered again at commit; those never hit are
 * forgotten after one more round. Losing an entry loses a chance to save space, never data.
 *
 * Entries name their version by an epoch. Those of a dead epoch (rolled back, or no longer in the store) do not count
 * and are swept when a table is rebuilt.
 */
#ifndef KEDGE_REDUCE_RECORD_H
#define KEDGE_REDUCE_RECORD_H

#include "base/base.h"
#include "pipeline/pipeline.h"
#include "reduce/reduce.h"

#define KEDGE__RECORD_SHARDS 64 /* few enough that tables are large, and get large pages */

struct kedge__record_slot {
	struct kedge__digest key;
	uint64_t addr;  /* in the image of the epoch's version */
	uint32_t epoch; /* 0: empty */
	uint32_t level; /* 0: a chunk, k: a node over 2^k chunks */
};

struct kedge__record_table {
	struct kedge__record_slot *at;
	size_t size, used; /* size: 0 or a power of two */
};

struct kedge__record_shard {
	struct kedge__record_table now, before;
	KEDGE__ARRAY(struct kedge__record_slot) again; /* hits in `before`, entered at commit */
	bool full;                                     /* an entry was left out since the last commit */
};

struct kedge__epoch {
	uint64_t version;
	struct kedge__digest id; /* of the image; all zero until it is known */
	bool alive;
};

struct kedge__record {
	struct kedge__record_shard shards[KEDGE__RECORD_SHARDS];
	KEDGE__ARRAY(struct kedge__epoch) epochs; /* epoch 0 is none */
	size_t room;                              /* entries a table may hold */
	size_t size_limit;                        /* slots a table may have */
	size_t expected;                          /* entries a table may soon get, so that it grows at once */
	uint32_t current;                         /* the epoch being entered; only it and older versions are found */
};

enum kedge__probe_outcome { KEDGE__PROBE_ENTERED, KEDGE__PROBE_FOUND, KEDGE__PROBE_LOST };

/* One entry of a batch; `src` and `epoch` are where the same was seen before if FOUND. */
struct kedge__probe {
	struct kedge__digest key;
	uint64_t addr, src;
	uint32_t epoch, level;
	uint32_t item; /* the caller's */
	enum kedge__probe_outcome outcome;
};

void kedge__record_init(struct kedge__record *rec, uint64_t bytes);
/* Change the limit; tables that are too large for it are dropped. */
void kedge__record_limit(struct kedge__record *rec, uint64_t bytes);
void kedge__record_done(struct kedge__record *rec); /* also empties it for another use */
void kedge__record_empty(struct kedge__record *rec); /* entries go, epochs stay */
uint64_t kedge__record_memory(const struct kedge__record *rec); /* bytes of its tables */
bool kedge__record_is_empty(const struct kedge__record *rec);

/* Begin to enter VERSION. RESUME: continue with the newest epoch if it is VERSION's. */
int kedge__record_begin(struct kedge__record *rec, uint64_t version, bool resume, struct kedge__error *err);
void kedge__record_commit(struct kedge__record *rec);
void kedge__record_rollback(struct kedge__record *rec);
/* The newest epoch of VERSION that is alive, or 0. */
uint32_t kedge__record_epoch_of(const struct kedge__record *rec, uint64_t version);
/* It is that of image ID. */
void kedge__record_identify(struct kedge__record *rec, uint64_t version, struct kedge__digest id);
/* Epochs whose images are not in ALIVE (ascending) are dead. */
void kedge__record_retain(struct kedge__record *rec, const struct kedge__image_key *alive, size_t n);

/* Look up, or enter, all probes: the first of equal ones wins. POOL may be NULL. */
int kedge__record_enter(struct kedge__record *rec, struct kedge__pool *pool, struct kedge__probe *probes, size_t n,
			struct kedge__error *err);
/* Look up only; any number of threads. *OLD: it was in a previous table. */
const struct kedge__record_slot *kedge__record_find(const struct kedge__record *rec, struct kedge__digest key,
						    uint32_t level, bool *old);
/* A hit of kedge__record_find() that was used. */
void kedge__record_touch(struct kedge__record *rec, const struct kedge__record_slot *slot);
static inline uint64_t kedge__record_version(const struct kedge__record *rec, uint32_t epoch)
{
	return rec->epochs.at[epoch].version;
}

#endif
