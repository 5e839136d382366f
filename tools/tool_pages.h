/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tool_pages: images of memory pages, as other tools write them: an index of virtual addresses, and the pages' data
 * beside it (docs/FORMAT.md, "Page images").
 *
 * In a store an image is two regions. `pages` holds the pages, each at a place that it keeps from version to version,
 * whatever comes and goes around it: so that its bytes are compared with its own earlier bytes, and gaps in the address
 * space cost nothing. `pages.index` has the address of the page at each place.
 */
#ifndef KEDGE_TOOLS_TOOL_PAGES_H
#define KEDGE_TOOLS_TOOL_PAGES_H

#include "process/process.h"
#include "tool_files.h"

/* ---- an image in files */

struct kedge__page_source {
	size_t file; /* of the image */
	uint64_t offset;
};

struct kedge__page_image {
	char *index_path, *data_path;
	uint64_t *addresses; /* ascending; owned */
	struct kedge__page_source *sources; /* of each page; NULL: one after the other in the second file */
	size_t count;
	struct kedge__save_files files; /* the index first */
	KEDGE__ARRAY(char *) paths;     /* of further ones; owned */
};

/* INDEX: of addresses, or CRIU's pagemap-PID.img. DATA NULL: the file beside INDEX that ends in .pages instead of .idx, or
 * the one that CRIU's page map names. Whatever is wrong with the index is named with its entry; KEDGE_E_ARG then. */
int kedge__page_image_open(struct kedge__page_image *image, const char *index, const char *data,
			   struct kedge__error *err);
void kedge__page_image_close(struct kedge__page_image *image); /* takes half-open ones */
/* tool_criu.c: the index, which is open, is CRIU's. */
int kedge__page_image_open_criu(struct kedge__page_image *image, const char *data, struct kedge__error *err);
/* "a/b.pages" for "a/b.idx"; NULL if INDEX has another suffix. kedge__free(). */
char *kedge__page_data_path(const char *index);

/* ---- places */

struct kedge__page_places {
	uint64_t *words; /* the region: KEDGE__PAGES_HEAD words, and the address at each place */
	size_t count;    /* places */
};

/* The place of each page of IMAGE, given BEFORE (which may have none): its place there, a free one, or a new one at the end. */
void kedge__page_places_next(const struct kedge__page_places *before, const struct kedge__page_image *image,
			     struct kedge__page_places *out);
/* WORDS, BYTES long, are the region as it was stored; OUT takes them if they are one. KEDGE_E_DAMAGED otherwise. */
int kedge__page_places_take(uint64_t *words, uint64_t bytes, struct kedge__page_places *out, struct kedge__error *err);
void kedge__page_places_done(struct kedge__page_places *places);
size_t kedge__page_places_bytes(const struct kedge__page_places *places); /* of the region */

struct kedge__page_place {
	uint64_t address;
	size_t place;
};

/* The pages that are there, ascending by address. *LIST: kedge__free(). */
size_t kedge__page_places_sorted(const struct kedge__page_places *places, struct kedge__page_place **list);
/* The region `pages`: IMAGE's data, each page at its place, zeros elsewhere. kedge__map_free(). */
int kedge__page_places_fill(const struct kedge__page_places *places, const struct kedge__page_image *image, uint8_t **out,
			    struct kedge__error *err);

#endif
