/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restore_groups: a version of files of many ranks says how their names are made, and so which segment has a file.
 * Others are not opened, and may be lost.
 */
#include "restore.h"
#include "tool_keyed.h"

enum place {
	IN_SEGMENT, /* one, by its rank */
	SHARED,     /* it belongs to no rank: the first, unless it is a directory, which may have files of any */
	ANYWHERE,
};

static enum place place_of(const struct kedge__wanted *w, size_t i, uint32_t *segment)
{
	uint64_t rank;

	if (!w->names[i] || strpbrk(w->words[i], "*?["))
		return ANYWHERE;
	if (kedge__rank_of(w->grouping->pattern, w->names[i], &rank) != KEDGE__RANK_PRESENT)
		return SHARED;
	return kedge__grouping_segment(w->grouping, rank, segment) ? IN_SEGMENT : ANYWHERE;
}

bool *kedge__restore_segments(const struct kedge__wanted *w)
{
	uint32_t count = w->grouping->count, segment = 0;
	bool all = !w->count, by_rank = w->rank != UINT64_MAX;
	bool *in = kedge__calloc(count, sizeof(*in));

	if (!in)
		kedge__tool_no_memory();
	if (by_rank && !kedge__grouping_segment(w->grouping, w->rank, &segment)) {
		kedge__free(in);
		return NULL;
	}
	in[segment] = by_rank;
	for (size_t i = 0; i < w->count && !by_rank; i++) {
		enum place place = place_of(w, i, &segment);

		all = all || place == ANYWHERE;
		in[place == IN_SEGMENT ? segment : 0] |= place != ANYWHERE;
	}
	for (uint32_t i = 0; i < count && all && !by_rank; i++)
		in[i] = true;
	return in;
}

bool kedge__restore_settled(const struct kedge__wanted *w, const struct kedge__tree *tree)
{
	if (w->rank != UINT64_MAX)
		return true;
	for (size_t i = 0; i < w->count; i++) {
		uint32_t segment;
		const struct kedge__tree_entry *e;
		enum place place = place_of(w, i, &segment);

		if (place == ANYWHERE || !w->found[i])
			return false;
		e = place == SHARED && tree ? kedge__tree_find(tree, w->names[i]) : NULL;
		if (place == SHARED && (!e || e->kind == KEDGE__TREE_DIRECTORY))
			return false;
	}
	return w->count > 0;
}
