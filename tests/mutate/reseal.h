/*
 * reseal: segments, manifests and hash records taken apart and put together again with every checksum and seal right, so
 * that what was changed in between is looked at by readers and not refused at the door.
 */
#ifndef TESTS_MUTATE_RESEAL_H
#define TESTS_MUTATE_RESEAL_H

#include "../lib/files.h"
#include "format/format.h"

struct piece { /* bytes of its own */
	uint8_t *at;
	size_t bytes;
};

void piece_set(struct piece *p, const void *data, size_t bytes);
/* BYTES of P from AT on go away, and those of DATA come in their place. */
void piece_splice(struct piece *p, size_t at, size_t bytes, const void *data, size_t count);

struct section {
	uint32_t type, flags;
	struct piece data;
};

struct image { /* a segment file */
	char path[FILES_PATH];
	uint64_t version;
	struct kedge__segment_header header;
	struct piece payload;
	struct section sections[KEDGE__SECTION_LIMIT];
	size_t count;
};

#define STORE_VERSIONS 8

struct store { /* all of one rank, in one level */
	char dir[FILES_PATH]; /* STORE/NAME */
	struct image images[STORE_VERSIONS];
	size_t count;
};

void store_load(struct store *s, const char *dir);
void store_free(struct store *s);
struct section *image_section(struct image *im, uint32_t type); /* NULL: there is none */

/* What is said twice is made to agree again: block checksums, sums, the image id, and that of versions referred to. */
enum { MEND_BLOCKS = 1, MEND_SUMMARY = 2, MEND_LINEAGE = 4 };

/* Write all images, with their manifests, sealed. */
void store_seal(struct store *s, unsigned mend);

/* A manifest whose bytes were changed: with its size and its checksum right again. */
void manifest_seal(struct piece *p);

/* The same of a hash record; false if it is not one. */
bool record_seal(struct piece *p);

#endif
