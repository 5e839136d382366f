/*
 * Between the files of verify. A *family* is one rank's segments of versions that refer to each other: none of them needs
 * another one, and each is held against what it must be while every block of the family is read once.
 *
 * verify.c (manifests, what is lost, strays), verify_family.c (one family), verify_changes.c (what is to be summed of a
 * version), verify_uses.c (which blocks have it), verify_blocks.c (read them), verify_bases.c (in which order, where they
 * are packed against each other), verify_sums.c (region digests in parts).
 */
#ifndef KEDGE_STORE_VERIFY_H
#define KEDGE_STORE_VERIFY_H

#include "store/internal.h"

#include <stdatomic.h>

struct kedge__verifier {
	struct kedge__catalog *cat;
	struct kedge__pool *pool;
	const struct kedge__verify_options *options;
	struct kedge__verify_report *report;
	uint64_t total;    /* bytes to check */
	uint8_t *selected; /* one an entry, as are the others */
	uint8_t *damaged;  /* something of it was reported */
	uint8_t *vanished; /* replaced or removed by its owner while we looked */
	uint8_t *lost;     /* not all of it could be put together */
	struct kedge__rank_list ranks;
};

void kedge__verifier_report(struct kedge__verifier *v, const struct kedge__finding *f);
void kedge__verifier_advance(struct kedge__verifier *v, uint64_t bytes);
/* Something among what ENTRY depends on is marked in WHAT: damaged, or vanished. */
bool kedge__verifier_depends_on(const struct kedge__verifier *v, size_t entry, const uint8_t *what);
/* Did the owner put another set in the place of the one we know? */
bool kedge__verifier_was_replaced(const struct kedge__verifier *v, size_t entry, uint32_t rank);

/* ------------------------------------------------------------------ verify_sums.c
 * The digest of a region in parts that come in any order, on any thread; those of a version that changed little are what it
 * adds to its parent's and takes away. */

struct kedge__region_sum {
	_Atomic uint64_t s1, s2;
	_Atomic uint64_t unread; /* bytes that cannot be had */
};

/* BYTES bytes that stand at POS of the region, a multiple of 8; only the last ones of a region may be no whole words. */
void kedge__region_sum_part(struct kedge__region_sum *sum, bool minus, const void *data, size_t bytes, uint64_t pos);
void kedge__region_sum_fill(struct kedge__region_sum *sum, bool minus, uint64_t pattern, uint64_t bytes, uint64_t pos);
void kedge__region_sum_unread(struct kedge__region_sum *sum, bool minus, uint64_t bytes);
void kedge__region_sum_carry(struct kedge__region_sum *sum, const struct kedge__region_sum *from);
bool kedge__region_sum_matches(const struct kedge__region_sum *sum, const struct kedge__region_record *region);

/* ------------------------------------------------------------------ verify_family.c */

#define KEDGE__NO_MEMBER SIZE_MAX

struct kedge__member { /* a version */
	size_t entry;
	char *path;
	struct kedge__segment *seg; /* NULL: it cannot be had */
	const char *section;        /* that could not, */
	struct kedge__error problem; /* and why; or why not all of the version resolves */
	bool failed;
	bool apart;    /* summed as a whole, not as a change of its parent */
	size_t parent; /* of the family, or KEDGE__NO_MEMBER */
	size_t first_block, first_sum;
};

struct kedge__family {
	struct kedge__verifier *verifier;
	uint32_t rank;
	struct kedge__member *members; /* ascending versions */
	size_t count;
	atomic_int open_files;
	struct kedge__lineage *lineage; /* of all segments there are; they are its own */
	struct kedge__region_sum *sums; /* of the regions of all members, one after the other */
	size_t sum_count;
	uint8_t *bad; /* one a block, of all segments: it cannot be had */
	size_t block_count;
	struct kedge__bases *bases; /* NULL: no block is packed against another */
	pthread_mutex_t mutex; /* over problems and failures while threads look for them */
};

/* Check RANK's segments of ENTRIES, ascending, and note which versions are lost. */
int kedge__family_check(struct kedge__verifier *v, uint32_t rank, const size_t *entries, size_t count,
			struct kedge__error *err);
size_t kedge__family_find(const struct kedge__family *f, uint64_t version); /* KEDGE__NO_MEMBER */
/* The first problem of a member stays. */
void kedge__member_fail(struct kedge__family *f, size_t member, struct kedge__error *problem);

/* ------------------------------------------------------------------ verify_changes.c */

/*
 * What of member M is to be summed: FRESH is what it has where it differs from its parent, STALE what its parent has there,
 * in regions that M has: addresses, ascending, whole words of the region but for its end. M is set apart, FRESH is all of it and STALE empty if that is less work, or the only way.
 */
int kedge__changes_list(struct kedge__family *f, size_t m, struct kedge__range_list *fresh,
			struct kedge__range_list *stale, struct kedge__error *err);

/* ------------------------------------------------------------------ verify_uses.c */

struct kedge__use { /* of some bytes of a block */
	uint64_t at; /* of the region; or the address in memory of a word that several blocks have a part in */
	uint32_t offset, len;
	uint32_t sum;
	bool minus, shared;
};

struct kedge__uses;

/* Resolve all members. Those of which not all resolves have failed. */
int kedge__uses_new(struct kedge__family *f, struct kedge__uses **out, struct kedge__error *err);
void kedge__uses_free(struct kedge__uses *u);
/* Make ready the uses of block *FIRST and as many blocks behind it as memory allows, up to *END. */
int kedge__uses_window(struct kedge__uses *u, size_t first, size_t *end, struct kedge__error *err);
const struct kedge__use *kedge__uses_of(const struct kedge__uses *u, size_t block, size_t *count);
/* All blocks were read. */
void kedge__uses_finish(struct kedge__uses *u);
/* Instead of all that: note what members use of bad blocks. */
int kedge__uses_of_bad(struct kedge__family *f, struct kedge__error *err);

/* ------------------------------------------------------------------ verify_bases.c */

struct kedge__bases;

/* For a family in which blocks are packed against others. */
int kedge__bases_new(struct kedge__family *f, struct kedge__bases **out, struct kedge__error *err);
void kedge__bases_free(struct kedge__bases *b); /* takes NULL */
/* Others are packed against RAW soon, or not at all; DEPTH bases are below it. Once for each block. */
void kedge__bases_keep(struct kedge__bases *b, size_t block, const uint8_t *raw, unsigned depth);
/* Blocks of one place are to be read in a row, by one thread. */
uint64_t kedge__bases_place(const struct kedge__bases *b, size_t block);

/* ------------------------------------------------------------------ verify_blocks.c */

/* Read and check blocks FIRST to END of the family. With USES, they are unpacked, and summed wherever they are used; else
 * only their stored bytes are looked at. */
int kedge__blocks_check(struct kedge__family *f, size_t first, size_t end, const struct kedge__uses *uses,
			struct kedge__error *err);
/* A block that was packed against bytes of a bad block is as bad. */
int kedge__blocks_spread(struct kedge__family *f, struct kedge__error *err);
/* The member that has block BLOCK of the family. */
struct kedge__member *kedge__family_block(const struct kedge__family *f, size_t block);

#endif
