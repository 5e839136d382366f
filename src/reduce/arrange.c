/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrange.c: literals may stand in any order, because the map says where each of them is. Those that belong together
 * become neighbours, so that they are packed as one; nothing else changes.
 */
#include "reduce/reduce.h"

#include <stdlib.h>

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

int kedge__arrange_order(const void *a, const void *b)
{
	const struct kedge__arrange_piece *x = *(struct kedge__arrange_piece *const *)a,
					  *y = *(struct kedge__arrange_piece *const *)b;
	int order = compare(x->class, y->class);

	if (!order && x->class)
		order = compare(x->major, y->major);
	if (!order && x->class)
		order = compare(x->minor, y->minor);
	return order ? order : compare(x->position, y->position);
}

/* Where each piece will be, and the literals in that order. */
static int place(struct kedge__arrange_piece **order, size_t n, struct kedge__literal_list *out,
		 struct kedge__error *err)
{
	uint64_t position = 0;

	for (size_t i = 0; i < n; i++) {
		struct kedge__arrange_piece *p = order[i];
		struct kedge__literal *last = out->count ? &out->at[out->count - 1] : NULL;
		struct kedge__literal l = {p->data, p->bytes, p->region, p->class};

		p->to = position;
		position += p->bytes;
		if (last && last->region == l.region && last->class == l.class &&
		    (p->data ? (const uint8_t *)last->data + last->bytes == l.data : !last->data))
			last->bytes += l.bytes;
		else if (!kedge__array_push(out, l))
			return kedge__error_nomem(err);
	}
	return 0;
}

/* A literal extent, in as many parts as it is in now. */
static int move(const struct kedge__extent *e, const struct kedge__arrange_piece *at, size_t n,
		struct kedge__extent_tape *out, struct kedge__error *err)
{
	uint64_t done = 0;
	int rc = 0;
	size_t i;

	KEDGE__LAST_BEFORE(i, n, at[i].position <= e->src);
	for (; !rc && done < e->len && i < n; i++) {
		uint64_t skip = e->src + done - at[i].position, len = KEDGE__MIN(at[i].bytes - skip, e->len - done);

		rc = kedge__extent_tape_append(
		    out,
		    (struct kedge__extent){
			.addr = e->addr + done, .len = len, .src = at[i].to + skip, .kind = KEDGE__EXTENT_LITERAL},
		    true, err);
		done += len;
	}
	if (!rc && done < e->len)
		rc = kedge__error_set(err, KEDGE_E_INTERNAL, 0, "a literal belongs to no piece");
	return rc;
}

static int move_all(const struct kedge__extent_tape *map, const struct kedge__arrange_piece *at, size_t n,
		    struct kedge__extent_tape *out, struct kedge__error *err)
{
	struct kedge__extent_reader r = kedge__extents_of_tape(map);
	struct kedge__extent e;
	int rc = 0;

	while (!rc && kedge__extent_next(&r, &e))
		rc = e.kind == KEDGE__EXTENT_LITERAL ? move(&e, at, n, out, err)
						     : kedge__extent_tape_append(out, e, false, err);
	return rc;
}

int kedge__reduction_arrange(struct kedge__reduction *red, struct kedge__arrange_piece *at, size_t n,
			     struct kedge__error *err)
{
	struct kedge__arrange_piece **order = kedge__calloc(n + 1, sizeof(*order));
	struct kedge__literal_list literals = {0};
	struct kedge__extent_tape map = {.shift = red->map.shift};
	int rc = order ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < n && !rc; i++)
		order[i] = &at[i];
	if (!rc && n)
		qsort(order, n, sizeof(*order), kedge__arrange_order);
	if (!rc)
		rc = place(order, n, &literals, err);
	if (!rc)
		rc = move_all(&red->map, at, n, &map, err);
	kedge__free(order);
	if (rc) {
		kedge__array_done(&literals);
		kedge__extent_tape_done(&map);
		return rc;
	}
	kedge__array_done(&red->literals);
	kedge__extent_tape_done(&red->map);
	red->literals = literals;
	red->map = map;
	return 0;
}
