/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reduction sees of a held image. */
#include "capture/hold.h"

const struct kedge__hold_stretch *kedge__hold_find(const struct kedge__hold *h, size_t region, uint64_t offset)
{
	const struct kedge__hold_stretch *s = h->stretches.at;
	size_t i;

	KEDGE__PARTITION_POINT(i, h->stretches.count,
			       s[i].region < region || (s[i].region == region && s[i].offset + s[i].bytes <= offset));
	return i < h->stretches.count && s[i].region == region && s[i].offset <= offset ? &s[i] : NULL;
}

/* For each byte that the application writes to first, so many are copied before it comes to them: a copy costs less
 * than a fault. */
#define AHEAD 4

/* Whether another block may be taken. Where the application does not write, none is. */
static bool may_grow(const struct kedge__hold *h)
{
	size_t taken = atomic_load(&h->next_block);

	return taken < h->block_count && taken * KEDGE__HOLD_BLOCK < AHEAD * kedge__cow_written(h->cow);
}

/* Room for BYTES more in the worker's block, or in a new one; what is left of the old one is lost. */
static bool make_room(struct kedge__hold *h, struct kedge__hold_worker *w, size_t bytes)
{
	size_t block;

	if ((size_t)(w->end - w->at) >= bytes)
		return true;
	if (bytes > KEDGE__HOLD_BLOCK || !may_grow(h))
		return false;
	block = atomic_fetch_add(&h->next_block, 1);
	if (block >= h->block_count)
		return false;
	w->at = h->blocks + block * KEDGE__HOLD_BLOCK;
	w->end = w->at + KEDGE__HOLD_BLOCK;
	return true;
}

/* It is at w->at. */
static bool run_add(struct kedge__hold_worker *w, size_t region, uint64_t offset, size_t bytes)
{
	struct kedge__hold_run run = {region, offset, bytes, w->at};

	if (!kedge__array_push(&w->runs, run))
		return false;
	w->at += bytes;
	return true;
}

int kedge__hold_read(struct kedge__hold *h, const struct kedge__hold_stretch *s, uint64_t offset, void *buffer,
		     size_t bytes, struct kedge__error *err)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	int rc = kedge__cow_read(h->cow, s->range, offset, buffer, bytes, &why);

	if (rc)
		kedge__error_set(err, rc, 0,
				 "region \"%s\": %s; with capture = cow, kedge_wait() or kedge_unprotect() must be "
				 "called before memory is freed",
				 h->ways[s->region].name, kedge__error_text(&why));
	kedge__error_done(&why);
	return rc;
}

void kedge__hold_fail(struct kedge__hold *h, struct kedge__error *err)
{
	pthread_mutex_lock(&h->lock);
	if (!h->failure.code)
		kedge__error_move(&h->failure, err);
	pthread_mutex_unlock(&h->lock);
	kedge__error_done(err);
}

/* For the view, which has no place for an error. */
static bool read_quietly(struct kedge__hold *h, const struct kedge__hold_stretch *s, uint64_t offset, void *buffer,
			 size_t bytes)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__hold_read(h, s, offset, buffer, bytes, &err);

	if (!rc)
		return true;
	kedge__hold_fail(h, &err);
	return false;
}

static bool run_note(struct kedge__hold *h, struct kedge__hold_worker *w, size_t region, uint64_t offset, size_t bytes)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (run_add(w, region, offset, bytes))
		return true;
	(void)kedge__error_nomem(&err);
	kedge__hold_fail(h, &err);
	return false;
}

int kedge__hold_let_go(struct kedge__hold *h, struct kedge__hold_worker *w, struct kedge__error *err)
{
	uint64_t from = w->from;

	w->from = w->to;
	return from < w->to ? kedge__cow_release(h->cow, w->range, from, w->to - from, err) : 0;
}

/* If what will be stored is copied, pages are let go before the bytes are looked at. If not, those that view_keep()
 * does not name are let go when the next ones are read. What the application has written to was copied before. */
static const void *get_protected(struct kedge__hold *h, const struct kedge__hold_stretch *s, int worker,
				 uint64_t offset, void *buffer, size_t bytes, bool all)
{
	struct kedge__hold_worker *w = &h->workers[worker];
	void *to = buffer;

	if (kedge__hold_let_go(h, w, NULL) != 0)
		return NULL;
	w->keeps = make_room(h, w, bytes) && kedge__cow_waits(h->cow, s->range, offset, bytes);
	if (all && w->keeps)
		to = w->at;
	if (!read_quietly(h, s, offset, to, bytes))
		return NULL;
	if (to != buffer && !run_note(h, w, s->region, offset, bytes))
		return NULL;
	if (h->again || (all && !w->keeps))
		return to;
	if (w->keeps)
		return kedge__cow_release(h->cow, s->range, offset, bytes, NULL) == 0 ? to : NULL;
	w->range = s->range;
	w->from = offset;
	w->to = offset + bytes;
	return to;
}

/* Where the copy of these bytes is; NULL: they are not held. If they are protected instead, *S is their stretch, else
 * NULL. */
static const void *copy_find(const struct kedge__hold *h, size_t region, uint64_t offset, size_t bytes,
			     const struct kedge__hold_stretch **s)
{
	const struct kedge__hold_stretch *found = kedge__hold_find(h, region, offset);

	*s = NULL;
	if (!found || offset + bytes > found->offset + found->bytes)
		return NULL;
	if (!found->is_protected)
		return found->copy + (offset - found->offset);
	*s = found;
	return NULL;
}

static const void *view_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes, bool all)
{
	struct kedge__hold *h = ctx;
	const struct kedge__hold_stretch *s;
	const void *copy = copy_find(h, region, offset, bytes, &s);

	return s ? get_protected(h, s, worker, offset, buffer, bytes, all) : copy;
}

/* BYTES at OFFSET, which come in order, stay protected until they are written. */
static bool let_go_before(struct kedge__hold *h, struct kedge__hold_worker *w, uint64_t offset, uint64_t bytes)
{
	struct kedge__hold_worker before = {.range = w->range, .from = w->from, .to = KEDGE__MIN(offset, w->to)};

	if (w->from == w->to)
		return true;
	w->from = KEDGE__MIN(offset + bytes, w->to);
	return kedge__hold_let_go(h, &before, NULL) == 0;
}

/* Nothing is let go, and what cannot be read is missed by whoever needs it. */
static const void *view_peek(void *ctx, size_t region, uint64_t offset, void *buffer, size_t bytes)
{
	struct kedge__hold *h = ctx;
	const struct kedge__hold_stretch *s;
	const void *copy = copy_find(h, region, offset, bytes, &s);

	if (!s)
		return copy;
	return kedge__hold_read(h, s, offset, buffer, bytes, NULL) ? NULL : buffer;
}

static bool view_keep(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes)
{
	struct kedge__hold *h = ctx;
	struct kedge__hold_worker *w = &h->workers[worker];
	const struct kedge__hold_stretch *s = kedge__hold_find(h, region, offset);

	if (!s || !s->is_protected)
		return true;
	if (w->keeps) {
		memcpy(w->at, data, bytes);
		return run_note(h, w, region, offset, bytes);
	}
	return let_go_before(h, w, offset, bytes);
}

/* Not only what may have changed. */
static bool all_is_held(const struct kedge__hold *h)
{
	for (size_t i = 0; i < h->image.count; i++) {
		const struct kedge__hold_stretch *s = kedge__hold_find(h, i, 0);

		if (h->image.regions[i].bytes && (!s || s->bytes != h->image.regions[i].bytes))
			return false;
	}
	return true;
}

void kedge__hold_view_init(struct kedge__hold *h)
{
	h->view = (struct kedge__image_view){
	    .get = view_get, .keep = view_keep, .peek = view_peek, .ctx = h, .stays = all_is_held(h)};
}

const struct kedge__image_view *kedge__hold_view(struct kedge__hold *h)
{
	return &h->view;
}
