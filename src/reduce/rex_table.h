/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rex_table.h: the DeD-Table of rex: where a pattern first occurred in the version in progress. A cuckoo table with two
 * choices of a bucket of two entries each, empty at the start of each version. An entry names a pattern and has
 * 32 bits of its digest: the caller compares the rest.
 *
 * The table is split by the digest, and patterns of one part are entered in the order of addresses, by one thread at a
 * time: what is found depends only on the data. An entry that finds no place within a few moves displaces another:
 * that loses a chance to save space, never data.
 *
 * Most patterns occur only once in a version. So all of them are first marked, each in one bit of many: only those
 * whose bit is marked a second time may occur again, and only they go through the table.
 */
#ifndef KEDGE_REDUCE_REX_TABLE_H
#define KEDGE_REDUCE_REX_TABLE_H

#include "base/base.h"

#include <stdatomic.h>

#define KEDGE__REX_PARTS 64

struct kedge__rex_entry {
	uint32_t tag;
	uint32_t number; /* of the pattern, + 1; 0: empty */
};

struct kedge__rex_bucket {
	struct kedge__rex_entry way[2];
};

struct kedge__rex_table {
	struct kedge__rex_bucket *at; /* all parts, one after the other */
	uint64_t bytes;               /* allocated */
	uint32_t buckets;             /* of a part */
	struct kedge__rex_marks {
		_Atomic uint64_t once, again;
	} * marks;
	uint64_t mark_bytes; /* allocated */
	uint32_t words;      /* of marks */
};

/* What is asked for: made once, so that its buckets can be fetched ahead. */
struct kedge__rex_key {
	struct kedge__rex_bucket *part;
	uint32_t tag, first; /* bucket */
};

/* Nothing is marked; for COUNT patterns, in at most LIMIT bytes. */
int kedge__rex_marks_begin(struct kedge__rex_table *t, uint64_t count, uint64_t limit, struct kedge__error *err);
/* Empty it, for COUNT patterns, in at most LIMIT bytes with the marks. */
int kedge__rex_table_begin(struct kedge__rex_table *t, uint64_t count, uint64_t limit, struct kedge__error *err);
/* Between versions: only little memory stays. */
void kedge__rex_table_rest(struct kedge__rex_table *t);
void kedge__rex_table_done(struct kedge__rex_table *t);
/* Put pattern NUMBER, which is not there, into BUCKET of PART, or what is there to its other one. */
void kedge__rex_table_enter(const struct kedge__rex_table *t, struct kedge__rex_bucket *part, uint32_t bucket,
			    uint32_t tag, uint32_t number);

static inline uint64_t kedge__rex_hash(struct kedge__digest d)
{
	return (d.lo ^ d.hi >> 17) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline uint32_t kedge__rex_part(uint64_t hash)
{
	return (uint32_t)(hash >> 58);
}

static inline struct kedge__rex_marks *kedge__rex_marks_of(const struct kedge__rex_table *t, uint64_t hash)
{
	return &t->marks[(hash >> 32) * t->words >> 32];
}

/* Whether its bit was marked before. SHARED: other threads mark at the same time; in the end it is the same. */
static inline bool kedge__rex_mark(const struct kedge__rex_table *t, uint64_t hash, bool shared)
{
	struct kedge__rex_marks *m = kedge__rex_marks_of(t, hash);
	uint64_t bit = UINT64_C(1) << hash % 64, once, again;

	if (shared) {
		once = atomic_fetch_or_explicit(&m->once, bit, memory_order_relaxed) & bit;
		if (once)
			atomic_fetch_or_explicit(&m->again, bit, memory_order_relaxed);
		return once;
	}
	once = atomic_load_explicit(&m->once, memory_order_relaxed);
	again = atomic_load_explicit(&m->again, memory_order_relaxed);
	atomic_store_explicit(&m->once, once | bit, memory_order_relaxed);
	atomic_store_explicit(&m->again, again | (once & bit), memory_order_relaxed);
	return once & bit;
}

/* Whether it may be there again. */
static inline bool kedge__rex_is_marked(const struct kedge__rex_table *t, uint64_t hash)
{
	return atomic_load_explicit(&kedge__rex_marks_of(t, hash)->again, memory_order_relaxed) >> hash % 64 & 1;
}

/* HASH, of 32 bits, as one of the buckets. */
static inline uint32_t kedge__rex_bucket_of(const struct kedge__rex_table *t, uint32_t hash)
{
	return (uint32_t)((uint64_t)hash * t->buckets >> 32);
}

/* The other bucket of an entry is known from its tag, so that it can be moved without asking whose it is: both add up
 * to a number that the tag gives. */
static inline uint32_t kedge__rex_other(const struct kedge__rex_table *t, uint32_t bucket, uint32_t tag)
{
	uint32_t sum = kedge__rex_bucket_of(t, tag * UINT32_C(0x9E3779B1));

	return sum >= bucket ? sum - bucket : sum + t->buckets - bucket;
}

static inline struct kedge__rex_key kedge__rex_key_of(const struct kedge__rex_table *t, uint64_t hash)
{
	struct kedge__rex_key k = {.tag = (uint32_t)hash};

	k.part = t->at + (uint64_t)kedge__rex_part(hash) * t->buckets;
	k.first = kedge__rex_bucket_of(t, (uint32_t)(hash >> 26));
	return k;
}

#endif
