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

/* Room for BYTES more in the worker's block, or in a new one; what is left of the old one is lost. */
static bool make_room(struct kedge__hold *h, struct kedge__hold_worker *w, size_t bytes)
{
	size_t block;

	if ((size_t)(w->end - w->at) >= bytes)
		return true;
	if (bytes > KEDGE__HOLD_BLOCK || atomic_load(&h->next_block) >= h->block_count)
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

/* Pages are let go before the bytes are looked at: if they will be stored, there is room for a copy. */
static const void *get_protected(struct kedge__hold *h, const struct kedge__hold_stretch *s, int worker,
				 uint64_t offset, void *buffer, size_t bytes, bool all)
{
	struct kedge__hold_worker *w = &h->workers[worker];
	void *to = buffer;

	w->keeps = make_room(h, w, bytes);
	if (all && w->keeps)
		to = w->at;
	if (!read_quietly(h, s, offset, to, bytes))
		return NULL;
	if (to != buffer && !run_note(h, w, s->region, offset, bytes))
		return NULL;
	if (w->keeps && !h->again && kedge__cow_release(h->cow, s->range, offset, bytes, NULL) != 0)
		return NULL;
	return to;
}

static const void *view_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes, bool all)
{
	struct kedge__hold *h = ctx;
	const struct kedge__hold_stretch *s = kedge__hold_find(h, region, offset);

	if (!s || offset + bytes > s->offset + s->bytes)
		return NULL;
	if (!s->is_protected)
		return s->copy + (offset - s->offset);
	return get_protected(h, s, worker, offset, buffer, bytes, all);
}

static bool view_keep(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes)
{
	struct kedge__hold *h = ctx;
	struct kedge__hold_worker *w = &h->workers[worker];
	const struct kedge__hold_stretch *s = kedge__hold_find(h, region, offset);

	if (!s || !s->is_protected || !w->keeps)
		return true;
	memcpy(w->at, data, bytes);
	return run_note(h, w, region, offset, bytes);
}

static bool all_is_copied(const struct kedge__hold *h)
{
	for (size_t i = 0; i < h->image.count; i++) {
		const struct kedge__hold_stretch *s = kedge__hold_find(h, i, 0);

		if (h->image.regions[i].bytes && (!s || s->is_protected || s->bytes != h->image.regions[i].bytes))
			return false;
	}
	return true;
}

void kedge__hold_view_init(struct kedge__hold *h)
{
	h->view = (struct kedge__image_view){view_get, view_keep, h, all_is_copied(h)};
}

const struct kedge__image_view *kedge__hold_view(struct kedge__hold *h)
{
	return &h->view;
}
