/* show: one segment and what was counted in it. */
#ifndef KEDGE_TOOLS_SHOW_H
#define KEDGE_TOOLS_SHOW_H

#include "tool.h"

struct kedge__show {
	struct kedge__usage usage;
	struct kedge__place place;
	uint64_t version, rank;
	bool list_extents, list_blocks;
	const struct kedge__set *set;
	struct kedge__segment *segment;
	uint64_t *lineage; /* owned; NULL: a parent is missing */
	size_t lineage_count;
	struct {
		uint64_t count, bytes;
	} extents[4]; /* by enum kedge__extent_kind */
	struct {
		uint16_t id;
		uint64_t count, raw, stored;
	} codecs[16];
	size_t codec_count;
};

const char *kedge__show_kind(enum kedge__extent_kind kind); /* "literal" */
const char *kedge__show_codec(uint16_t id, char buf[KEDGE__TEXT_ROOM]);
/* The region that holds image address ADDR; *OFFSET in it. NULL if none does. */
const struct kedge__region_record *kedge__show_region_at(const struct kedge__show *s, uint64_t addr, uint64_t *offset);

void kedge__show_text(const struct kedge__show *s); /* show_text.c */
void kedge__show_json(const struct kedge__show *s); /* show_json.c */

#endif
