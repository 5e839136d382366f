/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate: what belongs together in many files. A layout says where a file keeps the raw data of its variables;
 * variables are classed by name and type, and the literals of a class, of all files, become neighbours in the segment,
 * packed by their type. Only the order of literals and the choice of codecs depend on it: a file that is misunderstood
 * costs space, never bytes. This is the data-aware aggregation of mcrEngine (section III of its paper), without a
 * container of its own.
 */
#ifndef KEDGE_AGGREGATE_AGGREGATE_H
#define KEDGE_AGGREGATE_AGGREGATE_H

#include "base/base.h"
#include "format/format.h"
#include "reduce/reduce.h"

/* ------------------------------------------------------------------ look.c: a file's bytes */

struct kedge__contents {
	uint64_t bytes;
	int (*read)(void *ctx, uint64_t offset, void *to, size_t bytes, struct kedge__error *err); /* within the file */
	void *ctx;
};

/* ------------------------------------------------------------------ layout.c, hdf5*.c, netcdf.c, raw*.c */

enum kedge__file_format {
	KEDGE__FILE_UNKNOWN, /* all of it is opaque */
	KEDGE__FILE_HDF5,
	KEDGE__FILE_NETCDF,
	KEDGE__FILE_RAW, /* unknown, but parts of it look like arrays of numbers */
};

/* A variable that has raw data in the file. */
struct kedge__variable {
	char *name;          /* with its groups, as in Grid00000012/Density */
	enum kedge_type type; /* integers of their width, without a sign, for numbers that are not little-endian; bytes for what is no number */
	bool filtered;       /* the file has it compressed: its bytes are no elements */
	int ndims;           /* of what is in one piece: the variable, or a chunk of it */
	uint64_t dims[KEDGE_MAX_DIMS];
	bool scalar;
	uint64_t bytes;      /* of its runs */
};

struct kedge__layout_run { /* raw data of a variable */
	uint64_t offset, bytes;
	uint32_t variable;
	uint64_t at; /* bytes of the variable that are in runs before it */
};

struct kedge__layout {
	enum kedge__file_format format;
	KEDGE__ARRAY(struct kedge__variable) variables;
	KEDGE__ARRAY(struct kedge__layout_run) runs; /* ascending, disjoint; what is outside them is opaque */
};

/*
 * What FILE is, as far as its bytes show. Work and memory are bounded by its size. What is damaged or not known is opaque: that
 * is no error. Only a lack of memory is.
 */
int kedge__layout_read(const struct kedge__contents *file, struct kedge__layout *out, struct kedge__error *err);
void kedge__layout_done(struct kedge__layout *l);

/* ------------------------------------------------------------------ parts.c: chunks that an HDF5 file keeps packed */

struct kedge__part_entry { /* what the index says of a chunk, and where in the file it says it */
	uint64_t address_at, size_at;
	uint64_t sum_from; /* from here on SUM_BYTES bytes have a checksum, which follows them; 0 bytes: there is none */
	uint32_t sum_bytes;
	uint8_t size_width; /* 0: the entry is not known */
};

struct kedge__part {
	uint64_t offset, bytes; /* in the file */
	uint64_t plain;         /* bytes of it when no filter is applied; 0: more than this build handles */
	uint32_t pipe;          /* filters that can be undone, of those that were applied to it */
	struct kedge__part_entry entry;
};

struct kedge__parts {
	bool hdf5;
	uint64_t base; /* addresses in the file count from here */
	uint8_t width; /* bytes of an address */
	uint64_t end_at; /* where the file says where it ends */
	uint64_t super_from; /* as sum_from and sum_bytes of an entry */
	uint32_t super_bytes;
	size_t foreign; /* chunks with filters of which none can be undone */
	KEDGE__ARRAY(struct kedge__plain_pipe) pipes;
	KEDGE__ARRAY(struct kedge__part) list; /* ascending, disjoint */
};

#define KEDGE__PART_MOST (UINT64_C(128) << 20) /* bytes of a chunk that is unpacked */

/* Those chunks of FILE to which deflate or szip was applied, and after it nothing that is not known. As kedge__layout_read(): what is
 * damaged or not known is not there, and only a lack of memory is an error. */
int kedge__parts_read(const struct kedge__contents *file, struct kedge__parts *out, struct kedge__error *err);
void kedge__parts_done(struct kedge__parts *p);

/* ------------------------------------------------------------------ plain_view.c: a file, seen through its plain form */

/* The file, without what is in its chunks, which are zeros: what describes them is all there. */
struct kedge__plain_view {
	const struct kedge__contents *region;
	struct kedge__plain plain;
	struct kedge__contents file;
};

/* REGION must stay valid. *FOUND: it is a plain form. Memory is kedge__plain_view_done()d. */
int kedge__plain_view_init(struct kedge__plain_view *v, const struct kedge__contents *region, bool *found, struct kedge__error *err);
void kedge__plain_view_done(struct kedge__plain_view *v);
/* Where byte OFFSET of the file is in the region, if it is in no chunk; else where the chunk is. */
uint64_t kedge__plain_view_place(const struct kedge__plain_view *v, uint64_t offset);

/* ------------------------------------------------------------------ classes.c */

struct kedge__class_rules; /* regular expressions of the user */

/* From a file: on each line an extended regular expression that variables are searched for, and the name of their class, with \1 to \9
 * for what groups matched. Empty lines and those that begin with # are skipped. */
int kedge__class_rules_read(const char *path, struct kedge__class_rules **out, struct kedge__error *err);
void kedge__class_rules_free(struct kedge__class_rules *r);
/* The name of the class of V, kedge__free()d; NULL: no memory. RULES may be NULL: numbers in names of groups do not count then. */
char *kedge__class_name(const struct kedge__class_rules *r, const struct kedge__variable *v);

/* ------------------------------------------------------------------ scheme.c, arrangement.c */

enum kedge__aggregate_scheme { /* stable on disk */
	KEDGE__AGGREGATE_OFF = 0, /* every file by itself */
	KEDGE__AGGREGATE_AGNOSTIC = 1,       /* one after the other */
	KEDGE__AGGREGATE_AGNOSTIC_BLOCK = 2, /* a block of each in turn */
	KEDGE__AGGREGATE_AWARE = 3,          /* variables of a class one after the other */
	KEDGE__AGGREGATE_AWARE_BLOCK = 4,    /* a block of each of them in turn */
	KEDGE__AGGREGATE_AUTO = 5,           /* never on disk */
};

#define KEDGE__AGGREGATE_SCHEMES 4 /* from AGNOSTIC to AWARE_BLOCK */

enum kedge__aggregate_reason_id { /* stable on disk */
	KEDGE__AGGREGATE_SET = 0,        /* explicitly */
	KEDGE__AGGREGATE_SMALLEST = 1,   /* of a sample */
	KEDGE__AGGREGATE_REMEMBERED = 2, /* from a version before */
	KEDGE__AGGREGATE_LITTLE = 3,     /* too little data for a sample: the usual choice */
	KEDGE__AGGREGATE_USUAL = 4,      /* another was smaller, but not by enough */
	KEDGE__AGGREGATE_ECHOES = 5,     /* numbers of a class repeat themselves, far apart */
};

const char *kedge__aggregate_scheme_name(uint32_t scheme); /* NULL if unknown */
const char *kedge__aggregate_reason(uint32_t reason);

struct kedge__aggregate_options {
	enum kedge__aggregate_scheme scheme;
	uint64_t block; /* bytes that are taken in turn */
	uint64_t least; /* bytes of a variable, below which it goes with the rest of its file */
	const struct kedge__class_rules *rules;
	uint64_t seam_bytes; /* memory for chunks that are stored in parts; 0: the usual */
	uint64_t sample_least; /* bytes of files that are understood, for schemes to be tried; 0: the usual */
	uint32_t unit;         /* bytes of a chunk */
};

/* A region of the image that is a file. */
struct kedge__aggregate_file {
	uint32_t region;
	const void *data; /* where literals of it say that it begins */
	uint64_t bytes;
	struct kedge__layout layout;
};

/* What an earlier version settled on. */
struct kedge__aggregate_memory {
	enum kedge__aggregate_scheme scheme; /* OFF: nothing */
	uint32_t age;
	double sizes[KEDGE__AGGREGATE_SCHEMES];
};

/*
 * Arrange the literals of RED that belong to FILES (ascending regions): their order and classes. SAMPLE gives the bytes of a literal, to
 * try schemes on; PACK the size that BYTES bytes of TYPE pack to; ECHOES whether numbers of these windows of a class, one after the other,
 * repeat themselves, as no sample of one place shows (NULL: nobody asks). Nothing is arranged if there is nothing to gain.
 */
struct kedge__aggregate_sample {
	int (*read)(void *ctx, uint32_t region, uint64_t offset, void *to, size_t bytes, struct kedge__error *err);
	size_t (*pack)(void *ctx, enum kedge_type type, int ndims, const uint64_t *dims, const void *data, size_t bytes);
	void *ctx;
	bool (*echoes)(void *ctx, enum kedge_type type, const void *windows, size_t bytes);
};

int kedge__aggregate(struct kedge__reduction *red, const struct kedge__aggregate_file *files, size_t count,
		     const struct kedge__aggregate_options *options, const struct kedge__aggregate_memory *memory,
		     const struct kedge__aggregate_sample *sample, struct kedge__error *err);

#endif
