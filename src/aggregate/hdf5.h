/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the reader of HDF5 files, after the "HDF5 File Format Specification Version 3.0". Section numbers are those of it. */
#ifndef KEDGE_AGGREGATE_HDF5_H
#define KEDGE_AGGREGATE_HDF5_H

#include "aggregate/layout.h"

#define KEDGE__H5_MESSAGE 65536 /* bytes of a message, at most */
#define KEDGE__H5_DIMS    32

struct kedge__h5_object { /* to be visited */
	uint64_t address;
	char *name; /* with its groups; "" is the root */
};

struct kedge__h5_dataset;

struct kedge__h5 {
	struct kedge__look *look;
	struct kedge__layout *out;
	const struct kedge__plain *plain; /* NULL: all that is filtered is packed */
	struct kedge__parts *parts;       /* NULL: nobody asks */
	const struct kedge__h5_dataset *data; /* whose chunks are read */
	unsigned offset, length; /* bytes of addresses and of lengths */
	uint64_t base;           /* addresses count from here */
	KEDGE__ARRAY(struct kedge__h5_object) objects;
	struct kedge__hash seen; /* addresses of objects, numbered in: */
	KEDGE__ARRAY(uint64_t) addresses;
	bool nomem;
};

/* hdf5.c */

/* Bytes at an address. */
bool kedge__h5_at(struct kedge__h5 *h, uint64_t address, void *to, size_t bytes);
uint64_t kedge__h5_address(struct kedge__h5 *h, struct kedge__fields *f);
uint64_t kedge__h5_length(struct kedge__h5 *h, struct kedge__fields *f);
bool kedge__h5_defined(const struct kedge__h5 *h, uint64_t address); /* it is not "undefined" */
/* The object at ADDRESS is called NAME, LENGTH bytes, in GROUP. */
void kedge__h5_link(struct kedge__h5 *h, const char *group, const uint8_t *name, size_t length, uint64_t address);
/* How many bytes numbers up to LIMIT take, as the library counts them. */
unsigned kedge__h5_bytes_for(uint64_t limit);

/* hdf5_message.c: what messages of a dataset say (IV.A.2) */

struct kedge__h5_space {
	int ndims;
	uint64_t dims[KEDGE__H5_DIMS];
};

enum kedge__h5_storage { KEDGE__H5_ELSEWHERE, KEDGE__H5_CONTIGUOUS, KEDGE__H5_CHUNKED };

struct kedge__h5_storage_message {
	enum kedge__h5_storage class;
	uint64_t address, bytes;
	int version;
	int ndims; /* of chunks */
	uint64_t chunk[KEDGE__H5_DIMS];
	uint64_t element; /* bytes */
	uint8_t index; /* of version 4 */
	bool filtered_single;
	uint32_t single_mask;
	size_t single_size_at, single_address_at; /* in the message */
	unsigned page_bits;
};

#define KEDGE__H5_FILTERS 32

struct kedge__h5_filters {
	unsigned count;
	bool unknown; /* there are more, or they cannot be read */
	struct kedge__plain_filter at[KEDGE__H5_FILTERS]; /* of one with too many values: UINT16_MAX of them */
};

struct kedge__h5_dataset {
	bool has_type, has_space, has_storage, filtered, external;
	struct kedge__h5_filters filters;
	struct kedge__part_entry single; /* where the entry of a single chunk is */
	enum kedge_type type;
	uint64_t element;
	struct kedge__h5_space space;
	struct kedge__h5_storage_message storage;
};

bool kedge__h5_type_message(struct kedge__fields f, enum kedge_type *type, uint64_t *bytes);
bool kedge__h5_space_message(struct kedge__h5 *h, struct kedge__fields f, struct kedge__h5_space *out);
bool kedge__h5_storage_message(struct kedge__h5 *h, struct kedge__fields f, struct kedge__h5_storage_message *out);
/* FILTERED: by something that changes bytes. */
bool kedge__h5_filter_message(struct kedge__fields f, bool *filtered, struct kedge__h5_filters *out);

/* hdf5_group.c: members of a group become objects to be visited */

void kedge__h5_symbol_table(struct kedge__h5 *h, const char *group, uint64_t tree, uint64_t heap);
void kedge__h5_link_message(struct kedge__h5 *h, const char *group, struct kedge__fields f);
void kedge__h5_dense_links(struct kedge__h5 *h, const char *group, uint64_t heap, uint64_t tree);

/* hdf5_tree.c: B-trees of version 2 (III.A.2) */

/* All records of the tree at ADDRESS whose TYPE is one of up to two, until FN is false. */
struct kedge__h5_place { /* of a record, in the file */
	uint64_t at, sum_from;
	uint32_t sum_bytes;
};
typedef bool kedge__h5_record(void *ctx, uint8_t type, struct kedge__fields record, const struct kedge__h5_place *place);
void kedge__h5_tree2(struct kedge__h5 *h, uint64_t address, kedge__h5_record *fn, void *ctx);

/* hdf5_chunks.c: where chunks are */

void kedge__h5_chunks(struct kedge__h5 *h, const struct kedge__h5_dataset *d, uint32_t variable);
struct kedge__h5_stored { /* a chunk, or what is contiguous */
	uint64_t address, bytes;
	uint32_t mask; /* of filters that were not applied */
	struct kedge__part_entry entry;
};
/* One of them. */
void kedge__h5_chunk(struct kedge__h5 *h, uint32_t variable, const struct kedge__h5_stored *stored);

/* parts.c */

/* A filtered chunk of h->data at OFFSET of the file. */
void kedge__h5_part(struct kedge__h5 *h, uint64_t offset, const struct kedge__h5_stored *stored);

/* hdf5_arrays.c: fixed and extensible arrays of chunks (VII.C, VII.D) */

struct kedge__h5_elements { /* of an array: addresses, or addresses, sizes and masks */
	uint32_t variable;
	uint64_t chunk; /* bytes of one, if they are not filtered */
};

void kedge__h5_fixed_array(struct kedge__h5 *h, uint64_t address, const struct kedge__h5_elements *e);
void kedge__h5_extensible_array(struct kedge__h5 *h, uint64_t address, const struct kedge__h5_elements *e);

#endif
