/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reseal: segments and manifests taken apart and put together again with every checksum and seal right,
 * so that a change made in between gets past the checksums and reaches the code behind them.
 */
#ifndef KEDGE_TESTS_LIB_RESEAL_H
#define KEDGE_TESTS_LIB_RESEAL_H

#include "files.h"
#include "format/format.h"

struct piece { /* bytes of its own */
	uint8_t *at;
	size_t bytes;
};

struct section {
	uint32_t type, flags;
	struct piece data;
};

struct sealed { /* a segment file */
	char path[FILES_PATH];
	uint64_t version;
	struct kedge__segment_header header;
	struct piece payload;
	struct section sections[KEDGE__SECTION_LIMIT];
	size_t count;
};

#define STORE_VERSIONS 8

struct store {                /* all of one rank, in one level */
	char dir[FILES_PATH]; /* STORE/NAME */
	struct sealed images[STORE_VERSIONS];
	size_t count;
};

void piece_set(struct piece *p, const void *data, size_t bytes);

/* BYTES of P from AT on go away, and those of DATA come in their place. */
void piece_splice(struct piece *p, size_t at, size_t bytes, const void *data, size_t count);

/* The segment file at IM->path, taken apart. */
void sealed_load(struct sealed *im);
void sealed_free(struct sealed *im);

/* NULL: there is none. */
struct section *sealed_section(struct sealed *im, uint32_t type);

/* UINT64_MAX: the blocks cannot be decoded. */
uint64_t sealed_literal_bytes(struct sealed *im);

void sealed_mend_blocks(struct sealed *im);

/* The sums and the image id; the place of each is that of FORMAT.md, so that a summary that cannot be decoded stays. */
void sealed_mend_summary(struct sealed *im);

/* Put together again at its path; what its manifest says of it goes to *PART. */
void sealed_write(struct sealed *im, struct kedge__set_part *part);

void store_load(struct store *s, const char *dir);
void store_free(struct store *s);

/* What is said twice is made to agree again: block checksums, sums, the image id, and that of versions referred to. */
enum { MEND_BLOCKS = 1, MEND_SUMMARY = 2, MEND_LINEAGE = 4 };

/* Write all segments, with their manifests, sealed. */
void store_seal(struct store *s, unsigned mend);

/* A manifest whose bytes were changed: with its size and its checksum right again. */
void manifest_seal(struct piece *p);

#endif
