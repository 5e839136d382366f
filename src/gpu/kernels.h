/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.h: the kernels, and what each is passed: one structure, by value. Included by the kernels and by the host code that
 * launches them; for the latter a pointer to device memory is an address.
 */
#ifndef KEDGE_GPU_KERNELS_H
#define KEDGE_GPU_KERNELS_H

#ifdef __cplusplus
#define KEDGE_AT(type) type *
#else
#include <stdint.h>

typedef uint64_t kedge__gpu_address;
#define KEDGE_AT(type) kedge__gpu_address
#endif

#define KEDGE_THREADS 256 /* of a block, of every kernel */

/* ------------------------------------------------------------------ pass.cu
 * The hash pass over an image on the device, by slabs of it, as those of src/reduce: kedge_pass_<chunk> and, at any address, kedge_pass_odd_<chunk> compare digests
 * with those of the last version, kedge_list_<chunk> lists what changed. A slab is the
 * work of some warps, a word of bits, for 32 chunks, that of one.
 *
 * SHORT(bytes, lanes, loads): so many lanes work on as many chunks together, a lane with `loads` 16-byte loads of each.
 * LONG(bytes, loads, blocks): eight lanes share a block and `blocks` neighbouring groups a chunk. */

#define KEDGE_PASS_KERNELS(SHORT, LONG) \
	SHORT(16, 1, 1)                 \
	SHORT(32, 2, 1)                 \
	SHORT(64, 4, 1)                 \
	SHORT(128, 4, 2)                \
	SHORT(256, 4, 4)                \
	LONG(512, 4, 1)                 \
	LONG(1024, 8, 1)                \
	LONG(2048, 8, 2)                \
	LONG(4096, 8, 4)

#define KEDGE_SLAB_BYTES 262144u
#define KEDGE_SLAB_WARPS 8u /* at most */

struct kedge_slab {
	unsigned long long data;   /* the address of its first byte */
	unsigned long long offset; /* that byte's, in the region */
	unsigned long long place;  /* of its first chunk, in the columns of digests and ages */
	unsigned bytes;
	unsigned known; /* chunks of it, from the first on, that have a digest of the last version */
};

/* Of the chunk that is cut short, if there is one; it is found: a duplicate (kedge_count). */
enum kedge_tail { KEDGE_TAIL_SAME, KEDGE_TAIL_STORED, KEDGE_TAIL_FILL, KEDGE_TAIL_FOUND };

struct kedge_slab_found { /* by the pass; zero before */
	unsigned changes, fills; /* chunks; fills: of them those that are constant */
	unsigned alike;          /* chunks that are as constant as the beginning of the slab, */
	unsigned tail;           /* enum kedge_tail; */
	unsigned tail_alike;     /* and so is what is cut short, which may be too short for a constant */
	unsigned literals;       /* by kedge_count: those that are stored */
	unsigned long long first;  /* the first eight bytes, if there are as many */
	unsigned long long sum[2]; /* region sum */
};

struct kedge_slab_at { /* where what the slab has begins: by the host */
	unsigned long long literals; /* bytes; a multiple of 16 */
	unsigned changes, fills;
	unsigned none; /* nothing of it is stored by this */
	unsigned flat; /* all of it is one constant, and new */
};

/* Keys of a fold, the length of the chunk already in `start`: of each word the lower and the upper half. */
struct kedge_digest_fold {
	unsigned low[4][4], high[4][4];
	unsigned long long start[4], length[4], none[4]; /* start = none + length * bytes */
};

/* Keys of the fold are in here, so that they are operands from the constant bank. */
struct kedge_pass_args {
	KEDGE_AT(const struct kedge_slab) slabs;
	unsigned count;   /* slabs */
	unsigned compare; /* what has the same digest has not changed */
	unsigned flat;    /* list: those that are flat, or those that are not */
	KEDGE_AT(struct kedge_slab_found) found;
	KEDGE_AT(const struct kedge_slab_at) at;
	KEDGE_AT(ulonglong2) digests; /* of the last version, by places */
	KEDGE_AT(unsigned) bits;      /* of each slab as many words as there may be: a bit for each chunk that changed, */
	KEDGE_AT(unsigned) fill_bits; /* and is constant */
	/* list */
	KEDGE_AT(unsigned short) changes; /* number in the slab << 1 | is constant */
	KEDGE_AT(ulonglong2) fresh;       /* digests of those that had one; new ones of others go to their places */
	KEDGE_AT(unsigned long long) fills;
	unsigned long long mask[2]; /* of digests; tests weaken them */
	KEDGE_AT(const ulonglong2) nh;
	KEDGE_AT(const ulonglong2) top_nh;
	struct kedge_digest_fold fold, top_fold;
};

/* ------------------------------------------------------------------ gather.cu */

/* kedge_gather, kedge_count */
struct kedge_gather_args {
	KEDGE_AT(const struct kedge_slab) slabs;
	unsigned count; /* slabs */
	unsigned chunk;
	KEDGE_AT(struct kedge_slab_found) found;
	KEDGE_AT(const struct kedge_slab_at) at;
	KEDGE_AT(const unsigned short) changes;
	KEDGE_AT(const unsigned) origins; /* of each change, or 0: those that have one are not stored */
	KEDGE_AT(unsigned char) to;       /* aligned to 16 bytes */
	unsigned long long first;         /* the literal that goes there: none before it is gathered */
};

/* kedge_settle: digests of changes take their places, and so do their ages, if there are any. */
struct kedge_settle_args {
	KEDGE_AT(const struct kedge_slab) slabs;
	unsigned count;
	KEDGE_AT(const struct kedge_slab_found) found;
	KEDGE_AT(const struct kedge_slab_at) at;
	KEDGE_AT(const unsigned short) changes;
	KEDGE_AT(const ulonglong2) fresh;
	KEDGE_AT(ulonglong2) digests;
	KEDGE_AT(unsigned char) ages;
	unsigned chunk, age; /* as kedge__txn has it */
};

/* ------------------------------------------------------------------ finder.cu
 * The finder of src/reduce/record.h on the device, with the same entries in the same places. Digests that are looked up
 * become probes; probes are dealt out by blocks of the finder, in their order; a block is the work of one warp. */

#define KEDGE_NO_NUMBER     0x3fffffffu /* as KEDGE__NO_NUMBER */
#define KEDGE_BLOCK_BUCKETS 1024u
#define KEDGE_BUCKET_BYTES  64u
#define KEDGE_DEAL_TILE     2048u /* probes that a block of threads deals out */
#define KEDGE_DEAL_BITS     8u    /* of the number of a finder's block, at a time, at most */

struct kedge_probe {
	unsigned long long lo, hi; /* the digest */
	unsigned item;             /* the number of the change */
	unsigned number;           /* of the chunk or the entry of the log; KEDGE_NO_NUMBER: it is not entered */
	unsigned kind;             /* enum kedge__entry_kind */
	unsigned follows;          /* so many changes after one with the same digest; only of those that are not dealt out */
};

struct kedge_past { /* as struct kedge__past; addresses of what the device put there are 0 */
	unsigned long long lo, hi;
	unsigned long long addr;
	unsigned from, to;
};

struct kedge_column { /* chunks with numbers that follow each other */
	unsigned first, count; /* numbers; count 0: the region is gone */
	unsigned chunks, next; /* in the last version, and in the one in progress */
	unsigned long long place;
	unsigned state_at, slab_at; /* of the first slab: its state, and its number in the version in progress */
};

struct kedge_finder_slab {
	unsigned long long place; /* of its first chunk */
	unsigned item_at, count;  /* its changes; without them, item_at is KEDGE_ALL_CHUNKS, and count that of chunks */
	unsigned apart;           /* changes, from the first on, that have their new digest in `fresh`; others have it in place */
	unsigned number;          /* of its first chunk, or KEDGE_NO_NUMBER: they have none */
	unsigned at;              /* of the first among all probes, or among all that leave */
	unsigned spare;
};

#define KEDGE_ALL_CHUNKS 0xffffffffu

struct kedge_finder_args {
	KEDGE_AT(uint4) buckets; /* four of a bucket: twelve tags, and as many entries */
	unsigned blocks, block_buckets, bits, sparse;
	/* The last version, the log, and which versions may be referred to. */
	KEDGE_AT(const struct kedge_column) columns;
	KEDGE_AT(const unsigned char) states; /* of slabs: enum kedge__slab_state */
	KEDGE_AT(const ulonglong2) digests;
	KEDGE_AT(const unsigned char) ages;
	KEDGE_AT(struct kedge_past) log;
	KEDGE_AT(const unsigned) newest; /* of each epoch: the newest up to it that may be, or 0 */
	unsigned column_count, slab_shift; /* a slab has 1 << slab_shift chunks */
	unsigned since, parent, log_room;
	/* The version in progress. With `singly`, changes may have the digest that they had, and so with equal digests one may find what
	 * the other does not: each is looked up. */
	unsigned singly;
	KEDGE_AT(const struct kedge_finder_slab) slabs;
	KEDGE_AT(const unsigned short) changes;
	KEDGE_AT(const ulonglong2) fresh;
	KEDGE_AT(unsigned) origins; /* 0: what is found is only counted */
	unsigned slab_begin, slab_end; /* those of the wave */
	/* Entries of the log: the first, and how many; of those that leave, the first that goes there. */
	unsigned log_first, log_count, skip;
	/* A wave of probes. */
	unsigned base, count; /* the number of the first among all, and how many there are */
	KEDGE_AT(struct kedge_probe) probes;
	KEDGE_AT(unsigned) begin; /* of each block of the finder: its first, in the order; one more for the end */
	KEDGE_AT(unsigned) keys;  /* of each probe: the block, or `blocks` for none */
	KEDGE_AT(unsigned) order; /* numbers of probes; 0: as they came */
	KEDGE_AT(unsigned) keys_to;
	KEDGE_AT(unsigned) order_to;
	KEDGE_AT(unsigned) tallies; /* of each bin and tile */
	KEDGE_AT(unsigned) bins;    /* of each bin */
	unsigned shift, bin_bits;
	KEDGE_AT(unsigned) counts;              /* of each slab: how many probes it will have */
	KEDGE_AT(unsigned long long) totals;    /* added to: how many were found, and entries more than before */
};

/* kedge_ages: they are counted from later on. */
struct kedge_ages_args {
	KEDGE_AT(unsigned char) ages;
	unsigned long long count;
	unsigned by;
};

/* ------------------------------------------------------------------ novelty.cu */

/* kedge_pick: chunks from anywhere, one behind the other. */
struct kedge_pick_args {
	KEDGE_AT(const unsigned long long) from; /* their addresses */
	KEDGE_AT(unsigned char) to;
	unsigned count, chunk;
};

struct kedge_run { /* chunks that follow each other */
	unsigned long long place, count;
};

#define KEDGE_SEARCH_BITS 65536u

/* kedge_search: how many digests of all runs are in the sample. */
struct kedge_search_args {
	KEDGE_AT(const ulonglong2) digests;
	KEDGE_AT(const ulonglong2) sample; /* ascending by the upper half, then by the lower */
	KEDGE_AT(const unsigned) filter;   /* a bit for each lower half in it, modulo KEDGE_SEARCH_BITS */
	KEDGE_AT(const struct kedge_run) runs;
	KEDGE_AT(unsigned) found; /* added to */
	unsigned count, run_count;
};

/* ------------------------------------------------------------------ planes.cu
 * kedge_planes_encode_<width>, kedge_planes_decode_<width>: strips of codec planes. */

#define KEDGE_PLANES_KERNELS(X) X(2) X(4) X(8)

#define KEDGE_PLANES_STRIP 16384u
#define KEDGE_PLANES_DELTA 1u /* as enum kedge__codec_step */
#define KEDGE_PLANES_XOR   2u
#define KEDGE_PLANES_MINUS 4u

struct kedge_planes_args {
	unsigned long long bytes; /* whole groups of eight numbers */
	KEDGE_AT(const unsigned char) base; /* or 0; as many bytes */
	unsigned steps;
	KEDGE_AT(unsigned) sizes; /* of each strip as it is packed; its size as it is: it does not shrink */
	/* encode */
	KEDGE_AT(const unsigned char) raw; /* aligned to a number, as base */
	KEDGE_AT(unsigned char) slots;     /* room for as many strips; those that do not shrink stay empty */
	/* decode */
	KEDGE_AT(const unsigned char) packed;
	KEDGE_AT(const unsigned long long) places; /* of each strip: where it begins there */
	KEDGE_AT(unsigned char) out;               /* aligned to a number */
	KEDGE_AT(unsigned) damaged;                /* strips that are not what they say are added to it, and left out */
};

/* kedge_planes_unpack: strips of several blocks, of any widths. */
struct kedge_unpack_strip {
	unsigned from, to;          /* in the packed bytes, and in those that they become */
	unsigned short size, bytes; /* as it is packed, and as it is; if they are the same, it is not packed */
	unsigned how;               /* width | steps << 8 */
};

struct kedge_unpack_args {
	KEDGE_AT(const struct kedge_unpack_strip) strips;
	unsigned long long count;
	KEDGE_AT(const unsigned char) packed;
	KEDGE_AT(unsigned char) out; /* strips begin at multiples of a number */
	KEDGE_AT(unsigned) damaged;  /* as in struct kedge_planes_args */
};

/* ------------------------------------------------------------------ lz4.cu
 * kedge_lz4_encode, kedge_lz4_join, kedge_lz4_decode: blocks of codec lz4. */

#define KEDGE_MATCH_PART    16384u /* as KEDGE__MATCH_PART */
#define KEDGE_MATCH_THREADS 128    /* of a block: its warps' tables are all the shared memory that there is */
#define KEDGE_LZ4_SCRATCH   (KEDGE_MATCH_PART + 128) /* that the sequences of a part need at most */

struct kedge_lz4_args {
	unsigned count, parts; /* blocks; parts of the largest */
	KEDGE_AT(const unsigned long long) places; /* of each block, in raw, slots and out */
	KEDGE_AT(const unsigned) lengths;          /* its bytes */
	KEDGE_AT(unsigned) sizes;                  /* as it is packed; its bytes: it does not shrink */
	/* encode, join */
	KEDGE_AT(const unsigned char) raw;
	KEDGE_AT(unsigned char) scratch; /* KEDGE_LZ4_SCRATCH bytes for each part of each block, */
	KEDGE_AT(unsigned char) heads;   /* and 16 */
	KEDGE_AT(unsigned char) slots;   /* those that do not shrink have no meaning */
	/* decode */
	KEDGE_AT(const unsigned char) packed;
	KEDGE_AT(const unsigned long long) packed_places; /* of each block: where it begins there */
	KEDGE_AT(unsigned char) out;
	KEDGE_AT(unsigned) damaged; /* blocks that are not what they say are added to it */
};

/* ------------------------------------------------------------------ deflate.cu
 * kedge_deflate_encode, kedge_deflate_join: blocks of codec deflate. */

#define KEDGE_DEFLATE_PIECE   (4 * KEDGE_MATCH_PART) /* a warp of a block of threads has a part */
#define KEDGE_DEFLATE_OUT     81920u                 /* that a piece becomes at most: no literal takes more than 9 bits on average */
#define KEDGE_DEFLATE_SCRATCH (KEDGE_DEFLATE_OUT + 2 * KEDGE_DEFLATE_PIECE)

struct kedge_deflate_args {
	unsigned count, pieces; /* blocks; pieces of the largest */
	KEDGE_AT(const unsigned long long) places; /* of each block, in raw and slots */
	KEDGE_AT(const unsigned) lengths;          /* its bytes */
	KEDGE_AT(unsigned) sizes;                  /* as it is packed; its bytes: it does not shrink */
	KEDGE_AT(const unsigned char) raw;
	KEDGE_AT(unsigned char) scratch; /* KEDGE_DEFLATE_SCRATCH bytes for each piece of each block, */
	KEDGE_AT(unsigned char) heads;   /* and 48 */
	KEDGE_AT(unsigned char) slots;   /* those that do not shrink have no meaning */
};

/* ------------------------------------------------------------------ pack.cu
 * Blocks, some of which are packed, behind each other. Each has parts of KEDGE_PLANES_STRIP bytes. kedge_planes_pack packs
 * strips of codec planes, kedge_pack_place finds out how large blocks have become and where they go, and kedge_pack_join puts
 * them there. */

enum kedge_packing { KEDGE_PACK_NOT, KEDGE_PACK_PLANES, KEDGE_PACK_WHOLE }; /* whole: by lz4.cu or deflate.cu */

struct kedge_pack_block {
	unsigned at, bytes;        /* in raw and in slots; at: a multiple of 16 */
	unsigned part;             /* the first of its parts */
	unsigned item;             /* of one that is packed as a whole: its number among them */
	unsigned short how, width; /* how: enum kedge_packing; width and steps: of codec planes */
	unsigned steps;
};

struct kedge_pack_args {
	KEDGE_AT(const struct kedge_pack_block) blocks;
	KEDGE_AT(const unsigned) owners; /* of each part: its block */
	unsigned count, parts;
	KEDGE_AT(const unsigned char) raw;
	KEDGE_AT(unsigned char) slots;
	KEDGE_AT(unsigned) sizes;      /* of each part that is a strip: what it is packed, or its bytes */
	KEDGE_AT(unsigned) within;     /* and where it is in its block then */
	KEDGE_AT(const unsigned) items; /* of those that are packed as a whole: what they are packed, or their bytes */
	KEDGE_AT(unsigned) stored;     /* of each block: what it is packed, or its bytes: it is as it was */
	KEDGE_AT(unsigned) places;     /* and where it goes */
	KEDGE_AT(unsigned char) out;
};

/* ------------------------------------------------------------------ scatter.cu
 * kedge_scatter: pieces of a buffer, and patterns, to their places, no two of which overlap. kedge_sum: the region sum. */

#define KEDGE_SCATTER_TILE   16384u   /* bytes of a piece, at most; a warp copies it */
#define KEDGE_SCATTER_FILL   65536u   /* of one that is filled with a pattern */
#define KEDGE_SCATTER_BYTES  0x1ffffu /* in `what`: how many */
#define KEDGE_SCATTER_REPEAT 0x20000u /* it is filled */
#define KEDGE_SCATTER_SHIFT  18       /* above that: the number of the target */
#define KEDGE_SCATTER_NONE   0x3fffu  /* it is not summed */
#define KEDGE_SCATTER_UNPACKED 0x80000000u /* in `from` */
#define KEDGE_SCATTER_SLACK  64       /* bytes behind a buffer that may be read, and do not count */

struct kedge_scatter_piece {
	unsigned long long to; /* an address */
	unsigned from;         /* in the buffer, or with KEDGE_SCATTER_UNPACKED, in what was unpacked; if it is filled, there are
				* eight bytes, at a multiple of 8, of which byte A % 8 goes to address A */
	unsigned what;
};

/* A piece that is summed begins at a multiple of 8, of memory and of its target, and so does what follows it there. */
struct kedge_scatter_args {
	KEDGE_AT(const struct kedge_scatter_piece) pieces;
	unsigned long long count;
	KEDGE_AT(const unsigned char) buffer;
	KEDGE_AT(const unsigned char) unpacked;
	KEDGE_AT(const unsigned long long) targets; /* where each begins */
	KEDGE_AT(unsigned long long) sums;          /* two for each, added to */
};

struct kedge_sum_args {
	KEDGE_AT(const unsigned char) data; /* from the beginning of a region on */
	unsigned long long bytes;
	KEDGE_AT(unsigned long long) sums; /* two, added to */
};

/* ------------------------------------------------------------------ touch.cu */

struct kedge_touch_args {
	KEDGE_AT(unsigned char) data; /* aligned to 8 bytes, as all chunks are */
	unsigned long long chunks, chunk, share, seed;
};

#endif
