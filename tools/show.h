/* SPDX-License-Identifier: BSD-3-Clause */
/* show: one segment and what was counted in it. */
#ifndef KEDGE_TOOLS_SHOW_H
#define KEDGE_TOOLS_SHOW_H

#include "tool.h"

#define KEDGE__SHOW_WHY_ROOM 320

struct kedge__show_packed { /* the blocks of a region */
	uint64_t blocks, raw, stored;
	uint64_t as_is, based; /* blocks: stored as they are, packed against another version */
	const struct kedge__packing_record *told;
	const struct kedge__block_record *example; /* one that is packed, if there is */
};

struct kedge__show {
	struct kedge__usage usage;
	struct kedge__place place;
	const char *wanted; /* the version, as written; NULL: the newest */
	uint64_t version, rank; /* rank: UINT64_MAX: not given */
	uint32_t segment_at;    /* that is shown */
	bool list_extents, list_blocks, list_files, process, why;
	const struct kedge__set *set;
	struct kedge__segment *segment;
	struct kedge__shield_file shield; /* of this rank, beside the segment; no path: there is none */
	uint64_t *lineage; /* owned; NULL: a parent is missing */
	size_t lineage_count;
	struct {
		uint64_t count, bytes;
	} extents[4]; /* by enum kedge__extent_kind */
	struct {
		char name[KEDGE__CODEC_NAME_ROOM];
		uint64_t count, raw, stored;
	} codecs[32];
	size_t codec_count;
	struct kedge__show_packed *packed; /* one a region, then one a class; owned */
};

const char *kedge__show_kind(enum kedge__extent_kind kind); /* "literal" */
/* The region that holds image address ADDR; *OFFSET in it. NULL if none does. */
const struct kedge__region_record *kedge__show_region_at(const struct kedge__show *s, uint64_t addr, uint64_t *offset);

void kedge__show_packing_count(struct kedge__show *s); /* show_packing.c */
const char *kedge__show_chain(const struct kedge__show_packed *p, char text[KEDGE__CODEC_NAME_ROOM]); /* of a region with blocks */
const char *kedge__show_reason(const struct kedge__packing_record *p); /* a word, or NULL; P may be */
const char *kedge__show_why(const struct kedge__packing_record *p, char text[KEDGE__SHOW_WHY_ROOM]); /* for people */

const char *kedge__show_scheme(const struct kedge__classes_record *c, char text[KEDGE__SHOW_WHY_ROOM]);

void kedge__show_text(const struct kedge__show *s); /* show_text.c */
void kedge__show_json(const struct kedge__show *s); /* show_json.c */
int kedge__show_files(const struct kedge__show *s); /* show_files.c: instead of all that; an exit code */
int kedge__show_process(const struct kedge__show *s); /* show_process.c: the same */

#endif
