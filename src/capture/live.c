/* SPDX-License-Identifier: BSD-3-Clause */
/* An image that is read where it is: as a view, and as literals that are checked. */
#include "capture/capture.h"

#include <pthread.h>

struct kedge__live {
	const struct kedge__image *image;
	const struct kedge__hold_region *ways;
	struct kedge__image_view view;
	struct kedge__file_window *windows; /* one per worker */
	int workers;
	pthread_mutex_t lock;        /* guards: */
	struct kedge__error failure; /* the first one of the view */

	struct kedge__reducer *reducer;
	const struct kedge__literal_list *literals;
	uint64_t *starts; /* of each, in the literal space */
	struct kedge__literal_source source;
};

/* ---- bytes as they are now */

static int changed(const struct kedge__hold_region *way, struct kedge__error *err)
{
	if (way->file)
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"file %s changed while it was saved: it must not be written to before "
					"kedge_checkpoint() returns",
					way->file->path);
	return kedge__error_set(err, KEDGE_E_STATE, 0,
				"region \"%s\" changed while it was saved: no thread may write to it before "
				"kedge_checkpoint() returns; capture = copy or cow shortens that time",
				way->name);
}

int kedge__region_read(const struct kedge__image_region *g, const struct kedge__hold_region *way, uint64_t offset,
		       void *buffer, size_t bytes, struct kedge__error *err)
{
	if (way->file)
		return kedge__region_file_read(way->file, offset, buffer, bytes, err);
	memcpy(buffer, (const uint8_t *)g->data + offset, bytes);
	return 0;
}

/* ---- for a reduction */

static const void *view_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes, bool all)
{
	struct kedge__live *l = ctx;
	const struct kedge__image_region *g = &l->image->regions[region];
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)all;
	if (l->ways[region].file) {
		const void *at = kedge__file_window_get(&l->windows[worker], l->ways[region].file, g->bytes, offset,
							buffer, bytes, &err);

		if (at)
			return at;
	} else {
		memcpy(buffer, (const uint8_t *)g->data + offset, bytes);
		return buffer;
	}
	pthread_mutex_lock(&l->lock);
	if (!l->failure.code)
		kedge__error_move(&l->failure, &err);
	pthread_mutex_unlock(&l->lock);
	kedge__error_done(&err);
	return NULL;
}

static const void *view_where(void *ctx, size_t region, uint64_t offset, size_t bytes)
{
	const struct kedge__live *l = ctx;

	(void)bytes;
	return l->ways[region].file ? NULL : (const uint8_t *)l->image->regions[region].data + offset;
}

const struct kedge__image_view *kedge__live_view(struct kedge__live *l)
{
	return &l->view;
}

/* It comes to the caches meanwhile. Of a file, the kernel reads ahead. */
static void view_expect(void *ctx, size_t region, uint64_t offset, size_t bytes)
{
	const struct kedge__live *l = ctx;
	const uint8_t *data = l->image->regions[region].data;

	for (size_t at = 0; at < bytes && !l->ways[region].file; at += 64)
		__builtin_prefetch(data + offset + at);
}

/* ---- for what is stored */

static size_t literal_at(const struct kedge__live *l, uint64_t position)
{
	size_t i;

	KEDGE__LAST_BEFORE(i, l->literals->count, l->starts[i] <= position);
	return i;
}

/* A stretch of the literal space, literal by literal. */
struct stretch {
	const struct kedge__live *l;
	size_t next;
	uint64_t position, left;
	/* The part of it that is in one literal: */
	size_t region, bytes;
	uint64_t offset; /* in the region */
};

static struct stretch stretch_of(const struct kedge__live *l, uint64_t position, size_t bytes)
{
	return (struct stretch){.l = l, .next = literal_at(l, position), .position = position, .left = bytes};
}

static bool stretch_next(struct stretch *s)
{
	const struct kedge__literal *literal;
	uint64_t skip;

	if (!s->left || s->next == s->l->literals->count)
		return false;
	literal = &s->l->literals->at[s->next];
	skip = s->position - s->l->starts[s->next];
	s->region = literal->region;
	s->offset = (uint64_t)((const uint8_t *)literal->data - (const uint8_t *)s->l->image->regions[s->region].data);
	s->offset += skip;
	s->bytes = (size_t)KEDGE__MIN(literal->bytes - skip, s->left);
	s->position += s->bytes;
	s->left -= s->bytes;
	s->next++;
	return true;
}

static int fill(void *ctx, int worker, uint64_t position, void *buffer, size_t bytes, struct kedge__error *err)
{
	const struct kedge__live *l = ctx;
	struct stretch s = stretch_of(l, position, bytes);
	uint8_t *to = buffer;
	int rc = 0;

	(void)worker;
	while (!rc && stretch_next(&s)) {
		rc = kedge__region_read(&l->image->regions[s.region], &l->ways[s.region], s.offset, to, s.bytes, err);
		to += s.bytes;
	}
	return rc;
}

static int check(void *ctx, uint64_t position, const void *buffer, size_t bytes, struct kedge__error *err)
{
	const struct kedge__live *l = ctx;
	struct stretch s = stretch_of(l, position, bytes);
	const uint8_t *at = buffer;

	while (stretch_next(&s)) {
		int rc = kedge__reducer_check(l->reducer, s.region, s.offset, at, s.bytes);

		if (rc)
			return rc == KEDGE_E_NOMEM ? kedge__error_nomem(err) : changed(&l->ways[s.region], err);
		at += s.bytes;
	}
	return 0;
}

static int end(void *ctx, struct kedge__error *err)
{
	const struct kedge__live *l = ctx;

	return kedge__reducer_checked(l->reducer)
		   ? 0
		   : kedge__error_set(err, KEDGE_E_INTERNAL, 0, "a literal was not stored");
}

int kedge__live_literals(struct kedge__live *l, struct kedge__reducer *r, const struct kedge__literal_list *literals,
			 const struct kedge__literal_source **source, struct kedge__error *err)
{
	uint64_t position = 0;

	l->starts = kedge__calloc(literals->count + 1, sizeof(*l->starts));
	if (!l->starts)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < literals->count; i++) {
		l->starts[i] = position;
		position += literals->at[i].bytes;
	}
	l->reducer = r;
	l->literals = literals;
	l->source = (struct kedge__literal_source){
	    .fill = fill, .check = check, .end = end, .unit = kedge__reducer_unit(r), .ctx = l};
	*source = &l->source;
	return 0;
}

/* ---- begin and end */

int kedge__live_begin(const struct kedge__image *image, const struct kedge__hold_region *ways, int workers,
		      struct kedge__live **out, struct kedge__error *err)
{
	struct kedge__live *l = kedge__calloc(1, sizeof(*l));

	if (l)
		l->windows = kedge__calloc((size_t)workers, sizeof(*l->windows));
	if (!l || !l->windows) {
		kedge__free(l);
		return kedge__error_nomem(err);
	}
	l->workers = workers;
	l->image = image;
	l->ways = ways;
	l->view = (struct kedge__image_view){.get = view_get, .ctx = l, .where = view_where, .expect = view_expect};
	pthread_mutex_init(&l->lock, NULL);
	*out = l;
	return 0;
}

int kedge__live_end(struct kedge__live *l, struct kedge__error *err)
{
	int rc;

	if (!l)
		return 0;
	rc = l->failure.code;
	if (rc)
		kedge__error_move(err, &l->failure);
	kedge__error_done(&l->failure);
	pthread_mutex_destroy(&l->lock);
	for (int i = 0; i < l->workers; i++)
		kedge__file_window_done(&l->windows[i]);
	kedge__free(l->windows);
	kedge__free(l->starts);
	kedge__free(l);
	return rc;
}
