/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record.h: the hash record: where chunks were seen, in the last version and in older ones. It consists of
 *
 *  - epochs: a number for each version that was reduced, and whether it may still be referred to;
 *  - the digests of the last version, which last.c has anyway, in columns; a chunk that has digests has a number;
 *  - the log: digests that later versions replaced, with their places. It is a ring: the oldest make room for new ones;
 *  - the finder: finds the chunk or log entry with a digest. An entry has five bytes: the number, and as many bits of the
 *    digest as are left; it counts only if the digest in the column or the log is the one that is looked for.
 *
 * The finder is made when something is first looked up, from the columns and the log. From then on it is kept up to date,
 * which costs as much as there are changes; where most of a version changed it is dropped, and made again when it is
 * needed. It has one entry for each digest. It is divided into blocks by the digest, and a block is worked on by one thread
 * at a time in the order of addresses, so that its contents depend only on the data. All that a full bucket or a
 * full log loses is a chance to save space.
 */
#ifndef KEDGE_REDUCE_RECORD_H
#define KEDGE_REDUCE_RECORD_H

#include "base/base.h"
#include "pipeline/pipeline.h"
#include "reduce/reduce.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

struct kedge__last_region;
struct kedge__reducer;
struct kedge__departure;
struct kedge__gpu_finder;

/* ------------------------------------------------------------------ epochs.c */

struct kedge__epoch {
	uint64_t version;
	struct kedge__digest id; /* of the image; all zero until it is known */
	bool alive;
};

struct kedge__epochs {
	struct kedge__epoch *at; /* epoch 0 is none */
	size_t count, room;
	uint32_t current; /* the version in progress; only it and older versions are referred to */
};

/* Begin VERSION. RESUME: continue with the newest epoch if it is VERSION's. */
int kedge__epochs_begin(struct kedge__epochs *list, uint64_t version, bool resume, struct kedge__error *err);
void kedge__epochs_rollback(struct kedge__epochs *list);
void kedge__epochs_done(struct kedge__epochs *list); /* also empties it for another use */
/* The newest epoch of VERSION that is alive, or 0. */
uint32_t kedge__epochs_find(const struct kedge__epochs *list, uint64_t version);
/* The newest from FROM up to TO that the version in progress may refer to, or 0. */
uint32_t kedge__epochs_newest(const struct kedge__epochs *list, uint32_t from, uint32_t to);
/* It is that of image ID. */
void kedge__epochs_identify(struct kedge__epochs *list, uint64_t version, struct kedge__digest id);
/* Epochs whose images are not in ALIVE (ascending) are dead. */
void kedge__epochs_retain(struct kedge__epochs *list, const struct kedge__image_key *alive, size_t n);

/* ------------------------------------------------------------------ log.c */

struct kedge__past { /* a chunk that was at this place in all versions from one epoch to another */
	struct kedge__digest digest;
	uint64_t addr;
	uint32_t from, to; /* 0: there is nothing */
};

struct kedge__log {
	struct kedge__past *at;
	uint64_t room;  /* entries */
	uint64_t count; /* of them in use: all below, or all */
	uint64_t next;  /* the one to be written next */
};

/* Make room for N more, up to LIMIT entries in all; beyond that the oldest go. LOOSE: nobody knows entries by their numbers, and
 * they may change. *FIRST: where the first of the last min(N, room) of them belongs; they follow each other, around the end. */
void kedge__log_extend(struct kedge__log *log, uint64_t n, uint64_t limit, bool loose, uint64_t *first);
/* No more than LIMIT entries, the newest ones. True: entries have other numbers now. */
bool kedge__log_limit(struct kedge__log *log, uint64_t limit);
void kedge__log_done(struct kedge__log *log);

/* ------------------------------------------------------------------ finder.c */

#define KEDGE__BUCKET        12u /* entries */
#define KEDGE__BLOCK_BUCKETS 1024u
#define KEDGE__NUMBER_LIMIT  ((UINT64_C(1) << 30) - 1) /* numbers of chunks, of changes and of log entries are below */
#define KEDGE__SAMPLE        32u /* a sparse finder has one digest in so many */
#define KEDGE__SAMPLE_SHIFT  59

enum kedge__finder_state {
	KEDGE__FINDER_NONE,
	KEDGE__FINDER_SPARSE, /* only digests that kedge__is_sample() picks */
	KEDGE__FINDER_DENSE,
};

struct kedge__finder_bucket { /* a line of the cache */
	uint8_t tags[KEDGE__BUCKET]; /* of the digests; 0: there is no entry */
	uint8_t unused[16 - KEDGE__BUCKET];
	uint32_t entries[KEDGE__BUCKET];
};

struct kedge__finder {
	const struct kedge__finder_ops *ops;
	struct kedge__gpu_finder *device; /* gpu.h: where the buckets are then */
	enum kedge__finder_state state;
	struct kedge__finder_bucket *at; /* NULL: they are not in memory of the host */
	uint64_t blocks;
	uint32_t buckets; /* of a block, a power of two */
	unsigned bits;    /* of a number; above it are two for the kind, then more of the digest */
	uint64_t room;    /* entries that it has place for */
	_Atomic uint64_t used;
};

struct kedge__spot { /* where a digest would be */
	struct kedge__finder_bucket *bucket[2];
	uint32_t mark; /* of its entry: what is above the kind */
	uint8_t tag;
};

/* Mixed, because tests weaken digests. */
static inline uint64_t kedge__digest_mix(struct kedge__digest d)
{
	return (d.lo ^ (d.hi << 32 | d.hi >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline bool kedge__is_sample(const struct kedge__digest *d)
{
	return !(d->lo >> KEDGE__SAMPLE_SHIFT);
}

/* Room for the samples among N digests: four times as many as are to be expected, and a few in any case. Of digests that are equal to
 * each other there may be more. */
static inline size_t kedge__sample_room(size_t n)
{
	return KEDGE__MIN(n, n * 4 / KEDGE__SAMPLE + 8);
}

static inline uint64_t kedge__finder_bytes(const struct kedge__finder *x)
{
	return x->blocks * x->buckets * sizeof(struct kedge__finder_bucket);
}

static inline uint64_t kedge__finder_block(const struct kedge__finder *x, uint64_t mix)
{
	return (mix >> 32) * x->blocks >> 32;
}

static inline struct kedge__spot kedge__finder_spot(const struct kedge__finder *x, uint64_t mix)
{
	uint64_t other = (mix ^ mix >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
	struct kedge__finder_bucket *block = x->at + kedge__finder_block(x, mix) * x->buckets;
	uint8_t tag = (uint8_t)(other >> 56);
	struct kedge__spot s = {{block + ((uint32_t)mix >> 21 & (x->buckets - 1)), block + (other & (x->buckets - 1))},
				(uint32_t)((uint64_t)(uint32_t)(other >> 24) >> (x->bits + 2) << (x->bits + 2)),
				(uint8_t)(tag + !tag)};

	return s;
}

/* What an entry says besides: a chunk or a log entry, and its number. A chunk that changes has two entries for a
 * while, of which one is odd; which one it is that its digest has now, last.c knows. */
enum kedge__entry_kind { KEDGE__ENTRY_EVEN, KEDGE__ENTRY_ODD, KEDGE__ENTRY_LOG };

static inline uint32_t kedge__entry_make(const struct kedge__finder *x, uint32_t mark, enum kedge__entry_kind kind,
					 uint32_t number)
{
	return mark | (uint32_t)kind << x->bits | number;
}

static inline uint32_t kedge__entry_number(const struct kedge__finder *x, uint32_t entry)
{
	return entry & ((UINT32_C(1) << x->bits) - 1);
}

static inline enum kedge__entry_kind kedge__entry_kind(const struct kedge__finder *x, uint32_t entry)
{
	return (enum kedge__entry_kind)(entry >> x->bits & 3);
}

/* A bit for each entry of the bucket with that tag. */
static inline unsigned kedge__finder_match(const struct kedge__finder_bucket *b, uint8_t tag)
{
#ifdef __SSE2__
	__m128i tags = _mm_load_si128((const __m128i *)(const void *)b->tags);

	return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag))) & ((1u << KEDGE__BUCKET) - 1);
#else
	unsigned mask = 0;

	for (unsigned i = 0; i < KEDGE__BUCKET; i++)
		mask |= (unsigned)(b->tags[i] == tag) << i;
	return mask;
#endif
}

/* Entries that may be its digest's, as bits for kedge__spot_next(). */
static inline unsigned kedge__spot_match(const struct kedge__spot *s)
{
	unsigned both = kedge__finder_match(s->bucket[0], s->tag);

	if (s->bucket[0] != s->bucket[1])
		both |= kedge__finder_match(s->bucket[1], s->tag) << KEDGE__BUCKET;
	return both;
}

/* The next of them, which is taken out of MATCH; NULL: there are no more. */
static inline uint32_t *kedge__spot_next(const struct kedge__finder *x, const struct kedge__spot *s, unsigned *match)
{
	while (*match) {
		unsigned i = (unsigned)__builtin_ctz(*match);
		uint32_t *at = &s->bucket[i / KEDGE__BUCKET]->entries[i % KEDGE__BUCKET];

		*match &= *match - 1;
		if ((uint64_t)(*at ^ s->mark) >> (x->bits + 2) == 0)
			return at;
	}
	return NULL;
}

/* Where ENTRY itself is, or NULL. */
static inline uint32_t *kedge__spot_find(const struct kedge__spot *s, uint32_t entry)
{
	for (unsigned match = kedge__spot_match(s); match; match &= match - 1) {
		unsigned i = (unsigned)__builtin_ctz(match);

		if (s->bucket[i / KEDGE__BUCKET]->entries[i % KEDGE__BUCKET] == entry)
			return &s->bucket[i / KEDGE__BUCKET]->entries[i % KEDGE__BUCKET];
	}
	return NULL;
}

/* Take out what is at AT. */
static inline void kedge__spot_clear(const struct kedge__spot *s, const uint32_t *at)
{
	struct kedge__finder_bucket *b =
	    s->bucket[!(at >= s->bucket[0]->entries && at < s->bucket[0]->entries + KEDGE__BUCKET)];

	b->tags[at - b->entries] = 0;
}

static inline void kedge__spot_fetch(const struct kedge__spot *s)
{
	__builtin_prefetch(s->bucket[0], 1);
	__builtin_prefetch(s->bucket[1], 1);
}

/*
 * What works on a finder, where it is. Which entries it has, in which places, depends on the data alone; all decisions about it
 * are the callers'.
 */
struct kedge__finder_ops {
	/* Memory for all buckets, empty. */
	int (*alloc)(struct kedge__finder *x, struct kedge__error *err);
	void (*release)(struct kedge__finder *x);
	/* Enter all that the last version and the log have. */
	int (*build)(struct kedge__reducer *r, struct kedge__error *err);
	/* Look up CANDIDATES changes, which are all that are not constant, or a SAMPLE of them; what is not found is entered. *HITS: how
	 * many were found. */
	int (*find)(struct kedge__reducer *r, bool sample, uint64_t candidates, uint64_t *hits, struct kedge__error *err);
	/* At commit. Be ready for N probes; false: the finder is given up. */
	bool (*prepare)(struct kedge__reducer *r, uint64_t n);
	/* N entries of the log, from FIRST on, will be overwritten: nothing may point to them. */
	void (*forget)(struct kedge__reducer *r, uint64_t first, uint64_t n);
	/* What leaves goes to the log, new digests take their places, and entries follow. */
	void (*leave)(struct kedge__departure *d);
	/* Digests that only the log had, and that chunks have now. */
	void (*adopt)(struct kedge__reducer *r);
	/* At rollback: what changes entered goes. */
	void (*take_out)(struct kedge__reducer *r);
};

extern const struct kedge__finder_ops kedge__finder_here;

/* An empty index for ENTRIES with numbers below NUMBERS, in at most LIMIT bytes. */
int kedge__finder_make(struct kedge__finder *x, enum kedge__finder_state state, uint64_t entries, uint64_t numbers,
		      uint64_t limit, struct kedge__error *err);
void kedge__finder_drop(struct kedge__finder *x);
/* Put ENTRY where there is room; without room it is left out. */
bool kedge__spot_put(const struct kedge__spot *s, uint32_t entry);

/* ------------------------------------------------------------------ batch.c
 * Digests that are looked for go in waves, so that little memory is needed at once. A wave is dealt out by blocks of the
 * index, and the digests of a block are taken in the order in which they came. */

struct kedge__probe {
	struct kedge__digest digest;
	uint32_t number : 30; /* the caller's */
	uint32_t kind : 2;    /* enum kedge__entry_kind */
	uint32_t value;       /* the caller's */
};

#define KEDGE__NO_NUMBER ((UINT32_C(1) << 30) - 1)

#define KEDGE__WAVE ((size_t)1 << 17)

struct kedge__tally {
	int64_t entered; /* entries more than before */
	uint64_t hits;
};

typedef void (*kedge__probe_fn)(void *ctx, struct kedge__probe *p, const struct kedge__spot *s, struct kedge__tally *tally);

struct kedge__batch {
	struct kedge__probe *probes; /* room for KEDGE__WAVE */
	size_t count;
	uint32_t *order;
	uint32_t *counts;
	size_t room, blocks;
	_Atomic uint64_t hits; /* of all waves */
};

/* An empty batch, with room for EXPECTED probes or a wave; what it has is used again. */
int kedge__batch_begin(struct kedge__batch *b, uint64_t expected, struct kedge__error *err);
void kedge__batch_done(struct kedge__batch *b);
/* N probes that were put at AT, which is where the batch ends or behind it, become its last ones. */
void kedge__batch_gather(struct kedge__batch *b, size_t at, size_t n);
/* fn() for each; equal digests in their order, one after the other. */
void kedge__batch_run(struct kedge__batch *b, struct kedge__pool *pool, struct kedge__finder *x, kedge__probe_fn fn,
		      void *ctx);

/* ------------------------------------------------------------------ record.c */

struct kedge__column { /* chunks that have numbers */
	uint64_t first; /* number */
	uint64_t count;
	struct kedge__last_region *region; /* NULL: it is gone */
};

struct kedge__record {
	struct kedge__epochs epochs;
	struct kedge__log log;
	struct kedge__finder finder;
	KEDGE__ARRAY(struct kedge__column) columns; /* ascending */
	uint64_t numbers;                           /* all are below */
	uint64_t bytes;                             /* the limit of all this */
	uint64_t log_limit;                         /* entries that the log may have at all, */
	uint64_t log_wanted;                        /* and that it shall have: more, if they are of use, */
	uint32_t log_idle;                          /* as in none of so many versions */
	struct kedge__batch batch;
	uint64_t finder_limit;                       /* bytes */
	uint32_t dry; /* versions in a row with many changes, all of which were looked up, and none found */
	uint32_t parent;                            /* the epoch of the last version */
	uint32_t since;                             /* the epoch from which ages of chunks count (reducer.h) */
};

#endif
