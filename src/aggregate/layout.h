/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the readers of files: looks into a file that may be hostile, and cursors over what was read. */
#ifndef KEDGE_AGGREGATE_LAYOUT_H
#define KEDGE_AGGREGATE_LAYOUT_H

#include "aggregate/aggregate.h"

/* ---- look.c */

#define KEDGE__LOOK_PAGE  ((size_t)8 << 10)
#define KEDGE__LOOK_PAGES 8

struct kedge__look {
	const struct kedge__contents *file;
	uint8_t *pages;
	uint64_t number[KEDGE__LOOK_PAGES]; /* of the page that is there, + 1 */
	uint64_t budget;                    /* what looks may still cost, in bytes */
};

int kedge__look_init(struct kedge__look *l, const struct kedge__contents *file, struct kedge__error *err);
void kedge__look_done(struct kedge__look *l);
/* BYTES bytes at OFFSET; false: they are not all in the file, cannot be read, or too much was read already. */
bool kedge__look_at(struct kedge__look *l, uint64_t offset, void *to, size_t bytes);

/* Fields one after the other; one beyond the end is 0, and all is bad from then on. */
struct kedge__fields {
	const uint8_t *at;
	size_t left;
	bool bad;
};

static inline struct kedge__fields kedge__fields_of(const void *data, size_t bytes)
{
	return (struct kedge__fields){data, bytes, false};
}

const uint8_t *kedge__fields_skip(struct kedge__fields *f, size_t bytes); /* where they are, or NULL */
uint64_t kedge__fields_get(struct kedge__fields *f, unsigned width); /* little-endian, of up to 8 bytes */
uint64_t kedge__fields_get_big(struct kedge__fields *f, unsigned width);

/* ---- layout.c */

#define KEDGE__LAYOUT_RUNS  ((size_t)1 << 20)
#define KEDGE__LAYOUT_NAMES ((size_t)1 << 18)
#define KEDGE__LAYOUT_NAME  1024

/* The next variable; its number, or -1: no memory, -2: there are too many. */
int64_t kedge__layout_variable(struct kedge__layout *l, const struct kedge__variable *v);
/* A run of it; false: no memory. Runs that are not in the file, or beyond the limit, are not taken. */
bool kedge__layout_add(struct kedge__layout *l, uint64_t file_bytes, uint32_t variable, uint64_t offset, uint64_t bytes);
/* The type of numbers of WIDTH bytes. */
enum kedge_type kedge__number_type(unsigned width, bool is_float, bool is_signed, bool big_endian);

/* At the beginning, or at 512, 1024, 2048, ... */
bool kedge__hdf5_find(struct kedge__look *look, uint64_t *super);

/* Readers: 0, or KEDGE_E_NOMEM; what they find before they give up counts. PLAIN: chunks that it has are unpacked; NULL: none is. PARTS
 * gets packed chunks; NULL: nobody asks. */
int kedge__hdf5_read(struct kedge__look *look, uint64_t super, const struct kedge__plain *plain, struct kedge__layout *out,
		     struct kedge__parts *parts);
int kedge__netcdf_read(struct kedge__look *look, struct kedge__layout *out);
int kedge__raw_read(struct kedge__look *look, struct kedge__layout *out);

#endif
