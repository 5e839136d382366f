/* SPDX-License-Identifier: BSD-3-Clause */
/* Literals of a held image: where their bytes are now. */
#include "capture/hold.h"

#include <stdlib.h>

static int run_order(const void *a, const void *b)
{
	const struct kedge__hold_run *x = a, *y = b;

	if (x->region != y->region)
		return x->region < y->region ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The runs of all workers, in the order of the image. */
static int runs_gather(const struct kedge__hold *h, struct kedge__hold_runs *out, struct kedge__error *err)
{
	size_t n = 0;

	for (int i = 0; i < h->worker_count; i++)
		n += h->workers[i].runs.count;
	if (!kedge__array_reserve(out, n + 1))
		return kedge__error_nomem(err);
	for (int i = 0; i < h->worker_count; i++) {
		const struct kedge__hold_runs *runs = &h->workers[i].runs;

		if (runs->count)
			memcpy(out->at + out->count, runs->at, runs->count * sizeof(*runs->at));
		out->count += runs->count;
	}
	if (out->count)
		qsort(out->at, out->count, sizeof(*out->at), run_order);
	return 0;
}

/* The first run that ends after OFFSET of REGION; its number is *AT or the next, except where literals were arranged.
 */
static void runs_seek(const struct kedge__hold_runs *runs, size_t region, uint64_t offset, size_t *at)
{
#define BEFORE(r) ((r).region < region || ((r).region == region && (r).offset + (r).bytes <= offset))
	if (*at && !BEFORE(runs->at[*at - 1]))
		KEDGE__PARTITION_POINT(*at, runs->count, BEFORE(runs->at[*at]));
	while (*at < runs->count && BEFORE(runs->at[*at]))
		++*at;
#undef BEFORE
}

/* The next piece at OFFSET of REGION, of at most BYTES, is in one place. *AT: a run that was used last. */
static struct kedge__hold_piece piece_at(const struct kedge__hold *h, const struct kedge__hold_runs *runs, size_t *at,
					 size_t region, uint64_t offset, uint64_t bytes)
{
	const struct kedge__hold_stretch *s = kedge__hold_find(h, region, offset);
	struct kedge__hold_piece piece = {.region = region, .offset = offset, .bytes = bytes};
	const struct kedge__hold_run *run;

	if (s && !s->is_protected) {
		piece.data = s->copy + (offset - s->offset);
		piece.bytes = KEDGE__MIN(bytes, s->offset + s->bytes - offset);
		return piece;
	}
	runs_seek(runs, region, offset, at);
	run = *at < runs->count && runs->at[*at].region == region ? &runs->at[*at] : NULL;
	if (run && run->offset <= offset) {
		piece.data = run->data + (offset - run->offset);
		piece.bytes = KEDGE__MIN(bytes, run->offset + run->bytes - offset);
	} else if (run) {
		piece.bytes = KEDGE__MIN(bytes, run->offset - offset);
	}
	return piece;
}

static int pieces_make(struct kedge__hold *h, const struct kedge__literal_list *literals, struct kedge__error *err)
{
	struct kedge__hold_runs runs = {0};
	uint64_t position = 0;
	size_t at = 0;
	int rc = runs_gather(h, &runs, err);

	for (size_t i = 0; !rc && i < literals->count; i++) {
		const struct kedge__literal *l = &literals->at[i];
		uint64_t offset =
		    (uint64_t)((const uint8_t *)l->data - (const uint8_t *)h->image.regions[l->region].data);

		for (uint64_t done = 0; !rc && done < l->bytes;) {
			struct kedge__hold_piece piece =
			    piece_at(h, &runs, &at, l->region, offset + done, l->bytes - done);

			piece.class = l->class;
			piece.position = position;
			position += piece.bytes;
			done += piece.bytes;
			if (!kedge__array_push(&h->pieces, piece))
				rc = kedge__error_nomem(err);
		}
	}
	kedge__array_done(&runs);
	return rc;
}

/* ---- bytes that only the session has */

static size_t piece_find(const struct kedge__hold *h, uint64_t position)
{
	size_t i;

	KEDGE__LAST_BEFORE(i, h->pieces.count, h->pieces.at[i].position <= position);
	return i;
}

static int fill(void *ctx, int worker, uint64_t position, void *buffer, size_t bytes, struct kedge__error *err)
{
	struct kedge__hold *h = ctx;
	uint8_t *to = buffer;
	int rc = 0;

	(void)worker;
	for (size_t i = piece_find(h, position); !rc && bytes && i < h->pieces.count; i++) {
		const struct kedge__hold_piece *p = &h->pieces.at[i];
		uint64_t skip = position - p->position;
		size_t n = (size_t)KEDGE__MIN(p->bytes - skip, bytes);

		if (p->data)
			memcpy(to, p->data + skip, n);
		else
			rc = kedge__hold_read(h, kedge__hold_find(h, p->region, p->offset), p->offset + skip, to, n,
					      err);
		to += n;
		position += n;
		bytes -= n;
	}
	return rc;
}

/* ---- literals */

static int literals_point(const struct kedge__hold *h, struct kedge__literal_list *literals, struct kedge__error *err)
{
	if (!kedge__array_reserve(literals, h->pieces.count + 1))
		return kedge__error_nomem(err);
	literals->count = h->pieces.count;
	for (size_t i = 0; i < h->pieces.count; i++) {
		const struct kedge__hold_piece *p = &h->pieces.at[i];

		literals->at[i] = (struct kedge__literal){p->data, p->bytes, (uint32_t)p->region, p->class};
	}
	return 0;
}

/* ---- what passes by as it is stored */

/* The piece is where nobody can change it: its pages may go, and a reducer that has not seen it yet sees it now. */
static int take(struct kedge__hold *h, const struct kedge__hold_piece *p, uint64_t offset, const uint8_t *data,
		size_t bytes, struct kedge__error *err)
{
	int rc = 0;

	if (!p->data)
		rc = kedge__cow_release(h->cow, kedge__hold_find(h, p->region, offset)->range, offset, bytes, err);
	if (rc || !h->reducer)
		return rc;
	rc = kedge__reducer_check(h->reducer, p->region, offset, data, bytes);
	if (rc == KEDGE_E_NOMEM)
		return kedge__error_nomem(err);
	return rc ? kedge__error_set(err, KEDGE_E_INTERNAL, 0, "the copy of region \"%s\" has changed",
				     h->ways[p->region].name)
		  : 0;
}

static int check(void *ctx, uint64_t position, const void *buffer, size_t bytes, struct kedge__error *err)
{
	struct kedge__hold *h = ctx;
	const uint8_t *at = buffer;
	int rc = 0;

	for (size_t i = piece_find(h, position); !rc && bytes && i < h->pieces.count; i++) {
		const struct kedge__hold_piece *p = &h->pieces.at[i];
		uint64_t skip = position - p->position;
		size_t n = (size_t)KEDGE__MIN(p->bytes - skip, bytes);

		rc = take(h, p, p->offset + skip, at, n, err);
		at += n;
		position += n;
		bytes -= n;
	}
	return rc;
}

/* Nothing is needed of the memory any more. */
static int end(void *ctx, struct kedge__error *err)
{
	struct kedge__hold *h = ctx;

	if (h->reducer && !kedge__reducer_checked(h->reducer))
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "a literal was not stored");
	return kedge__hold_release(h, err);
}

static int let_go_all(struct kedge__hold *h, struct kedge__error *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < h->worker_count; i++)
		rc = kedge__hold_let_go(h, &h->workers[i], err);
	return rc;
}

int kedge__hold_literals(struct kedge__hold *h, struct kedge__reducer *r, struct kedge__literal_list *literals,
			 const struct kedge__literal_source **source, struct kedge__error *err)
{
	bool all = true;
	int rc = let_go_all(h, err);

	if (!rc)
		rc = pieces_make(h, literals, err);
	if (!rc)
		rc = literals_point(h, literals, err);
	if (rc)
		return rc;
	for (size_t i = 0; all && i < h->pieces.count; i++)
		all = h->pieces.at[i].data;
	if (all)
		rc = kedge__hold_release(h, err);
	h->reducer = kedge__reducer_streams(r) ? r : NULL;
	h->source = (struct kedge__literal_source){.fill = all ? NULL : fill,
						   .check = check,
						   .end = end,
						   .unit = h->reducer ? kedge__reducer_unit(r) : 0,
						   .ctx = h};
	*source = all && !h->reducer ? NULL : &h->source;
	return rc;
}
