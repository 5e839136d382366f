/* SPDX-License-Identifier: BSD-3-Clause */
/* If several places of an image show a piece of a literal, it belongs to the first one. */
#include "store/internal.h"

#include <stdlib.h>

static int compare_spans(const void *a, const void *b)
{
	const struct kedge__span *x = *(struct kedge__span *const *)a, *y = *(struct kedge__span *const *)b;

	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	if (x->src != y->src)
		return x->src < y->src ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Walk the spans by source: a span owns the part that no earlier span covers. */
int kedge__span_owners(const struct kedge__span_list *spans, struct kedge__span_list *out, struct kedge__error *err)
{
	const struct kedge__span **order = kedge__calloc(spans->count + 1, sizeof(*order));
	uint64_t version = 0, covered = 0;
	size_t n = 0;
	int rc = 0;

	if (!order)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < spans->count; i++)
		if (!spans->at[i].fill)
			order[n++] = &spans->at[i];
	qsort(order, n, sizeof(*order), compare_spans);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__span *s = order[i];
		uint64_t skip = 0;

		if (i && s->version == version && covered > s->src)
			skip = KEDGE__MIN(covered - s->src, s->len);
		if (skip == s->len)
			continue;
		version = s->version;
		covered = s->src + s->len;
		if (!kedge__array_push(out, ((struct kedge__span){.addr = s->addr + skip,
								  .len = s->len - skip,
								  .src = s->src + skip,
								  .version = s->version})))
			rc = kedge__error_nomem(err);
	}
	kedge__free(order);
	return rc;
}

size_t kedge__span_owner_index(const struct kedge__span_list *owners, uint64_t version, uint64_t src)
{
	size_t i;

	KEDGE__LAST_BEFORE(i, owners->count,
			   owners->at[i].version < version ||
			       (owners->at[i].version == version && owners->at[i].src <= src));
	return i;
}
