/* SPDX-License-Identifier: BSD-3-Clause */
/* Private: an arrangement in the making. */
#ifndef KEDGE_AGGREGATE_ARRANGEMENT_H
#define KEDGE_AGGREGATE_ARRANGEMENT_H

#include "aggregate/aggregate.h"

struct kedge__similar { /* variables that belong together */
	char *name;
	enum kedge_type type;
	int ndims;
	uint64_t dims[KEDGE_MAX_DIMS];
	bool scalar;
	uint64_t bytes;
	size_t whole; /* the same with any shape; itself */
};

struct kedge__arrangement {
	const struct kedge__reduction *red;
	const struct kedge__aggregate_file *files;
	size_t file_count;
	const struct kedge__aggregate_options *options;
	KEDGE__ARRAY(struct kedge__similar) similar;
	struct kedge__hash names;
	KEDGE__ARRAY(size_t) of; /* each variable of each file: its similar ones */
	size_t *first;           /* of each file, in `of` */
	uint64_t least;          /* bytes of a variable, for now */
};

struct kedge__arranged { /* by one scheme */
	KEDGE__ARRAY(struct kedge__arrange_piece) pieces;
	struct kedge__literal_classes classes;
};

/* arrangement.c */
int kedge__arrangement_init(struct kedge__arrangement *a, struct kedge__error *err);
void kedge__arrangement_done(struct kedge__arrangement *a);
int kedge__arrangement_make(struct kedge__arrangement *a, enum kedge__aggregate_scheme scheme, struct kedge__arranged *out,
			    struct kedge__error *err);
size_t kedge__arrangement_file(const struct kedge__arrangement *a, uint32_t region); /* that is REGION; file_count: none is */
void kedge__arranged_done(struct kedge__arranged *out);

#endif
