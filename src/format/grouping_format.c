/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The manifest", tag 12: which files are in which segment of a version that has those of many ranks. */
#include "format/wire.h"

bool kedge__grouping_segment(const struct kedge__grouping *g, uint64_t rank, uint32_t *segment)
{
	uint64_t number = rank / g->size;
	size_t i;

	KEDGE__PARTITION_POINT(i, g->count, g->numbers[i] < number);
	if (i == g->count || g->numbers[i] != number)
		return false;
	*segment = (uint32_t)i;
	return true;
}

bool kedge__grouping_same(const struct kedge__grouping *a, const struct kedge__grouping *b)
{
	if (!a || !b)
		return a == b;
	return a->size == b->size && a->count == b->count && strcmp(a->pattern, b->pattern) == 0 &&
	       memcmp(a->numbers, b->numbers, a->count * sizeof(*a->numbers)) == 0;
}

void kedge__grouping_free(struct kedge__grouping *g)
{
	if (!g)
		return;
	kedge__free(g->numbers);
	kedge__free(g->pattern);
	kedge__free(g);
}

struct kedge__grouping *kedge__grouping_copy(const struct kedge__grouping *g)
{
	struct kedge__grouping *copy = kedge__calloc(1, sizeof(*copy));

	if (!copy)
		return NULL;
	copy->size = g->size;
	copy->count = g->count;
	copy->pattern = kedge__strdup(g->pattern);
	copy->numbers = kedge__reallocarray(NULL, g->count, sizeof(*copy->numbers));
	if (copy->pattern && copy->numbers) {
		memcpy(copy->numbers, g->numbers, g->count * sizeof(*copy->numbers));
		return copy;
	}
	kedge__grouping_free(copy);
	return NULL;
}

const char *kedge__grouping_problem(const struct kedge__grouping *g, uint32_t ranks)
{
	size_t n = strlen(g->pattern);

	if (!g->size || g->size > KEDGE__RANK_LIMIT)
		return "the number of ranks per group is out of range";
	if (g->count != ranks)
		return "there are not as many groups as segments";
	if (!n || n > KEDGE__RANK_PATTERN_MAX)
		return "the pattern of ranks is empty, or too long";
	for (uint32_t i = 1; i < g->count; i++)
		if (g->numbers[i] <= g->numbers[i - 1])
			return "the groups do not ascend";
	return NULL;
}

void kedge__grouping_encode(const struct kedge__grouping *g, struct kedge__wire_out *w)
{
	uint32_t after = 0;

	kedge__wire_put_varint(w, g->size);
	for (uint32_t i = 0; i < g->count; i++) {
		kedge__wire_put_varint(w, g->numbers[i] - after);
		after = g->numbers[i] + 1;
	}
	kedge__wire_put(w, g->pattern, strlen(g->pattern));
}

/* IN has all of it; there are RANKS segments. */
static int decode(struct kedge__wire_in *in, uint32_t ranks, struct kedge__grouping *g, struct kedge__error *err)
{
	uint64_t after = 0;

	g->size = (uint32_t)kedge__wire_get_varint_max(in, KEDGE__RANK_LIMIT);
	if (in->failed || !g->size || ranks > in->left)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: the groups of ranks are malformed");
	g->count = ranks;
	g->numbers = kedge__reallocarray(NULL, ranks, sizeof(*g->numbers));
	if (!g->numbers)
		return kedge__error_nomem(err);
	for (uint32_t i = 0; i < ranks; i++) {
		uint64_t number = after + kedge__wire_get_varint_max(in, UINT32_MAX);

		if (in->failed || number > UINT32_MAX)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: group %u is malformed", i);
		g->numbers[i] = (uint32_t)number;
		after = number + 1;
	}
	if (!in->left || in->left > KEDGE__RANK_PATTERN_MAX)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "manifest: the pattern of ranks is malformed");
	return kedge__wire_get_string(in, in->left, "manifest: pattern of ranks", &g->pattern, err);
}

int kedge__grouping_decode(const void *data, size_t bytes, uint32_t ranks, struct kedge__grouping **out,
			   struct kedge__error *err)
{
	struct kedge__wire_in in = kedge__wire_in_init(data, bytes);
	struct kedge__grouping *g = kedge__calloc(1, sizeof(*g));
	int rc = g ? decode(&in, ranks, g, err) : kedge__error_nomem(err);

	if (rc)
		kedge__grouping_free(g);
	else
		*out = g;
	return rc;
}
