/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of verify. A *family* is one rank's segments of versions that refer to each other, and to no others.
 * Every block of a family is read once, and each version is checked on the way.
 *
 * verify.c (manifests, lost versions, strays), verify_family.c (one family), verify_changes.c (which bytes of a version
 * are summed), verify_uses.c (which blocks hold them), verify_blocks.c (read the blocks), verify_pages.c (which pages of them are
 * bad), verify_bases.c (in which order, if they are packed against each other), verify_sums.c (region digests in parts).
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
	uint8_t *selected; /* one per entry, as are the following */
	uint8_t *damaged;  /* damage in it was reported */
	uint8_t *vanished; /* replaced or removed by its owner during the check */
	uint8_t *lost;     /* not all of it could be reconstructed */
	struct kedge__rank_list ranks;
};

void kedge__verifier_report(struct kedge__verifier *v, const struct kedge__finding *f);
void kedge__verifier_advance(struct kedge__verifier *v, uint64_t bytes);
/* ENTRY or an entry that it depends on is marked in WHAT, which is `damaged` or `vanished`. */
bool kedge__verifier_depends_on(const struct kedge__verifier *v, size_t entry, const uint8_t *what);
/* Has the owner replaced the set that we know? */
bool kedge__verifier_was_replaced(const struct kedge__verifier *v, size_t entry, uint32_t rank);

/* ------------------------------------------------------------------ verify_sums.c
 * The digest of a region, computed from parts in any order, on any thread; a version that changed little adds its parts to its
 * parent's digest and subtracts those it replaced. */

struct kedge__region_sum {
	_Atomic uint64_t s1, s2;
	_Atomic uint64_t unread; /* bytes that cannot be read */
	enum kedge__sum_rule rule; /* of the digest that it is compared with */
};

/* BYTES bytes at offset POS of the region, a multiple of 8; only at the end of a region may BYTES not be a multiple of 8. */
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
	struct kedge__segment *seg; /* NULL: it cannot be read */
	const char *section;        /* the one that cannot, */
	struct kedge__error problem; /* and why; or why not all of the version resolves */
	bool failed;
	bool apart;    /* all of it is summed, not only its changes against its parent */
	size_t parent; /* of the family, or KEDGE__NO_MEMBER */
	size_t first_block, first_sum;
};

struct kedge__family {
	struct kedge__verifier *verifier;
	uint32_t rank;
	struct kedge__member *members; /* ascending versions */
	size_t count;
	atomic_int open_files;
	struct kedge__lineage *lineage; /* of all segments there are; it owns them */
	struct kedge__region_sum *sums; /* of the regions of all members, one after the other */
	size_t sum_count;
	uint8_t *bad; /* one per block, of all segments: it cannot be read, */
	uint8_t **bad_pages; /* and of a block with pages a byte for each, 1 for those; NULL: all of it */
	size_t block_count;
	struct kedge__bases *bases; /* NULL: no block is packed against another */
	pthread_mutex_t mutex; /* protects problems and failures while threads look for them */
};

/* Check RANK's segments of ENTRIES, ascending, and mark lost versions. */
int kedge__family_check(struct kedge__verifier *v, uint32_t rank, const size_t *entries, size_t count,
			struct kedge__error *err);
size_t kedge__family_find(const struct kedge__family *f, uint64_t version); /* KEDGE__NO_MEMBER */
/* Sums of nothing yet, each by the rule of its region's digest. */
void kedge__family_sums_clear(struct kedge__family *f);
/* The first problem of a member stays. */
void kedge__member_fail(struct kedge__family *f, size_t member, struct kedge__error *problem);

/* ------------------------------------------------------------------ verify_changes.c */

/*
 * The parts of member M to be summed, in regions that M has: FRESH, where it differs from its parent, and STALE, what the
 * parent has there. Both are ascending addresses, in multiples of 8 bytes except at the end of a region. If that is less work,
 * or the only way, M is set apart: FRESH is all of it and STALE is empty.
 */
int kedge__changes_list(struct kedge__family *f, size_t m, struct kedge__range_list *fresh,
			struct kedge__range_list *stale, struct kedge__error *err);

/* ------------------------------------------------------------------ verify_uses.c */

struct kedge__use { /* of some bytes of a block */
	uint64_t at; /* in the region; or the address in memory of a word that several blocks share */
	uint32_t offset, len;
	uint32_t sum;
	bool minus, shared;
};

struct kedge__uses;

/* Resolve all members. Members that do not resolve entirely have failed. */
int kedge__uses_new(struct kedge__family *f, struct kedge__uses **out, struct kedge__error *err);
void kedge__uses_free(struct kedge__uses *u);
/* Prepare the uses of block FIRST and of as many following blocks as memory allows, up to *END. */
int kedge__uses_window(struct kedge__uses *u, size_t first, size_t *end, struct kedge__error *err);
const struct kedge__use *kedge__uses_of(const struct kedge__uses *u, size_t block, size_t *count);
/* Call it when all blocks have been read. */
void kedge__uses_finish(struct kedge__uses *u);
/* Instead of all that: mark the members that use bad blocks. */
int kedge__uses_of_bad(struct kedge__family *f, struct kedge__error *err);

/* ------------------------------------------------------------------ verify_bases.c */

struct kedge__bases;

/* For a family in which blocks are packed against others. */
int kedge__bases_new(struct kedge__family *f, struct kedge__bases **out, struct kedge__error *err);
void kedge__bases_free(struct kedge__bases *b); /* takes NULL */
/* RAW, with DEPTH bases below it, may be the base of blocks that are read soon. Call it once per block. */
void kedge__bases_keep(struct kedge__bases *b, size_t block, const uint8_t *raw, unsigned depth);
/* Blocks of one place should be read consecutively, by one thread. */
uint64_t kedge__bases_place(const struct kedge__bases *b, size_t block);

/* ------------------------------------------------------------------ verify_pages.c */

/* Read and check block BLOCK of SEG, which has pages and is NUMBER of the family. On failure some of them cannot be read. */
int kedge__pages_read(struct kedge__family *f, const struct kedge__segment *seg, size_t block, size_t number,
		      uint8_t *raw, struct kedge__error *err);
/* How many of these bytes of block BLOCK of the family cannot be read. */
uint64_t kedge__family_bad_bytes(const struct kedge__family *f, size_t block, uint32_t offset, uint32_t len);
/* Sum what is good of a bad block for U, which is not shared. */
void kedge__use_damaged(struct kedge__family *f, size_t block, const struct kedge__use *u, const uint8_t *raw);

/* ------------------------------------------------------------------ verify_blocks.c */

/* Read and check blocks FIRST to END of the family. With USES, they are unpacked, and summed wherever they are used; otherwise
 * only their stored bytes are checked. */
int kedge__blocks_check(struct kedge__family *f, size_t first, size_t end, const struct kedge__uses *uses,
			struct kedge__error *err);
/* Mark blocks as bad that were packed against bytes of a bad block. */
int kedge__blocks_spread(struct kedge__family *f, struct kedge__error *err);
/* The member that has block BLOCK of the family. */
struct kedge__member *kedge__family_block(const struct kedge__family *f, size_t block);

#endif
