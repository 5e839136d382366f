/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rex_sample.c: which stores less, tree by its chunks or rex by patterns within a page? Some pages are kept as they
 * were in the last version and compared with what has become of them. Both are reckoned as they would be stored:
 * literals, and what the map has of them. What tree finds elsewhere is reckoned by the share that it found in its last
 * version; what rex would find elsewhere in this version is not known, and counts as a literal.
 *
 * Pages are drawn where the version has changes, because there the next one is likely to have some, too. Once enough
 * of them have been seen, the next are drawn after 1, 2, 4 and at most EVERY_MOST versions, so that looking at them
 * stays a small part of the work. It depends on the data alone.
 */
#include "reduce/rex_wave.h"

#include <stdlib.h>

#define SEEN_LEAST  8  /* pages that have to be seen changed, for a verdict */
#define PAGES_EACH  64 /* one page in so many that changed is drawn, but */
#define PAGES_LEAST 16
#define EVERY_MOST  32
#define TRIES       4  /* versions, after which too little is enough */
#define GAIN        16 /* rex has to save one byte in so many, */
#define GAIN_LEAST  64 /* and in so many while it is in use */
#define TREE_RUN    3  /* bytes of the map for a run of chunks, as a rule */
#define SLOTS       512

void kedge__sample_done(struct kedge__sample *s)
{
	kedge__free(s->bytes);
	*s = (struct kedge__sample){0};
}

static uint8_t *old_of(const struct kedge__sample *s, size_t i)
{
	return s->bytes + 2 * i * KEDGE__REX_PAGE;
}

static uint8_t *now_of(const struct kedge__sample *s, size_t i)
{
	return old_of(s, i) + KEDGE__REX_PAGE;
}

/* Page I has these bytes: the first that are seen of it are the old ones. */
static void take(struct kedge__sample *s, size_t i, const uint8_t *data)
{
	struct kedge__sampled *p = &s->at[i];

	memcpy(p->old ? now_of(s, i) : old_of(s, i), data, KEDGE__REX_PAGE);
	*(p->old ? &p->now : &p->old) = true;
}

/* ------------------------------------------------------------------ what a page takes */

/* Chunks that changed, but for constant ones, and a run of them costs something. */
static uint64_t tree_cost(const uint8_t *old, const uint8_t *now, uint64_t chunk)
{
	uint64_t cost = 0;
	bool run = false;

	for (uint64_t at = 0; at < KEDGE__REX_PAGE; at += chunk) {
		bool same = !memcmp(old + at, now + at, chunk), fill = !same && kedge__is_constant(now + at, chunk);

		if (!same && !fill)
			cost += chunk;
		if (!same && (!run || fill))
			cost += TREE_RUN;
		run = !same && !fill;
	}
	return cost;
}

struct patterns { /* where each pattern of a page first is, by its hash */
	const uint8_t *page;
	uint64_t chunk;
	uint16_t slots[SLOTS]; /* number + 1 */
};

static size_t slot_of(const struct patterns *p, const uint8_t *data)
{
	uint64_t h = 0;

	for (uint64_t i = 0; i < p->chunk; i += 8)
		h = (h ^ kedge__get64(data + i)) * UINT64_C(0x9E3779B97F4A7C15);
	return (size_t)(h >> 55);
}

/* The number of the pattern, or -1; it is entered as NUMBER then, unless that is negative. */
static int patterns_find(struct patterns *p, const uint8_t *data, int number)
{
	size_t at = slot_of(p, data);

	for (; p->slots[at]; at = (at + 1) % SLOTS)
		if (!memcmp(p->page + (p->slots[at] - 1u) * p->chunk, data, p->chunk))
			return p->slots[at] - 1;
	if (number >= 0)
		p->slots[at] = (uint16_t)(number + 1);
	return -1;
}

_Static_assert(SLOTS >= 2 * KEDGE__REX_PAGE / KEDGE__CHUNK_MIN, "a table of patterns is never full");

/* As rex_page.c decides; BACK only within the page. */
static uint64_t rex_cost(const uint8_t *old, const uint8_t *now, uint64_t chunk)
{
	static const uint8_t extra[] = {[KEDGE__ITEM_SHIFT] = 1, [KEDGE__ITEM_FILL] = 2, [KEDGE__ITEM_BACK] = 3};
	struct patterns before = {.page = old, .chunk = chunk}, here = {.page = now, .chunk = chunk};
	uint64_t literals = 0, runs = 0, pointers = 2;
	int n = (int)(KEDGE__REX_PAGE / chunk), last_kind = -1, last_step = 0;

	for (int i = 0; i < n; i++)
		(void)patterns_find(&before, old + (uint64_t)i * chunk, i);
	for (int i = 0; i < n; i++) {
		const uint8_t *at = now + (uint64_t)i * chunk;
		int kind = KEDGE__ITEM_PLAIN, step = 0, next = i + last_step;

		if (!memcmp(old + (uint64_t)i * chunk, at, chunk)) {
			last_kind = -1;
			continue;
		}
		if (kedge__is_constant(at, chunk)) {
			kind = KEDGE__ITEM_FILL;
		} else if (last_kind == KEDGE__ITEM_SHIFT && next >= 0 && next < n &&
			   !memcmp(old + (uint64_t)next * chunk, at, chunk)) {
			kind = KEDGE__ITEM_SHIFT;
			step = last_step;
		} else if ((step = patterns_find(&before, at, -1)) >= 0) {
			kind = KEDGE__ITEM_SHIFT;
			step -= i;
		} else if ((step = patterns_find(&here, at, i)) >= 0) {
			kind = KEDGE__ITEM_BACK;
			step -= i;
		} else {
			literals += chunk;
			step = 0;
		}
		if (kind != last_kind || step != last_step) {
			runs += KEDGE__REX_RUN_COST + extra[kind];
			pointers += 2u + extra[kind];
		}
		last_kind = kind;
		last_step = step;
	}
	return literals + runs + 2 + KEDGE__REX_PAGE / 8 > KEDGE__REX_PAGE ? KEDGE__REX_PAGE + 1 : literals + pointers;
}

/* ------------------------------------------------------------------ a verdict */

static void weigh(struct kedge__reducer *r, const struct kedge__image *image)
{
	struct kedge__sample *s = &r->sample;
	uint32_t pattern = kedge__rex_options(r, image).chunk;

	for (size_t i = 0; pattern && i < s->count; i++) {
		uint64_t tree;

		if (!s->at[i].old || !s->at[i].now || !memcmp(old_of(s, i), now_of(s, i), KEDGE__REX_PAGE))
			continue;
		tree = tree_cost(old_of(s, i), now_of(s, i), r->options.chunk);
		s->tree +=
		    s->candidates ? (uint64_t)((double)tree * (double)s->literals / (double)s->candidates) : tree;
		s->rex += rex_cost(old_of(s, i), now_of(s, i), pattern);
		s->seen++;
	}
	s->count = 0;
	if (s->seen < SEEN_LEAST && ++s->tries < TRIES)
		return;
	if (s->seen >= SEEN_LEAST)
		s->rex_pays = s->rex + s->tree / (r->other ? GAIN_LEAST : GAIN) < s->tree;
	s->every = KEDGE__MIN(KEDGE__MAX(2 * s->every, 1u), EVERY_MOST);
	s->wait = s->every;
	s->tree = s->rex = s->seen = s->tries = 0;
}

/* ------------------------------------------------------------------ bytes of pages */

static size_t region_find(const struct kedge__image *image, const struct kedge__sampled *p)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, image->count, image->regions[i].base < p->base);
	return i < image->count && image->regions[i].base == p->base &&
		       p->offset + KEDGE__REX_PAGE <= image->regions[i].bytes
		   ? i
		   : image->count;
}

/* Nobody knows of a change: it need not be there to be read. */
static bool is_unchanged(const struct kedge__region_dirty *d, uint64_t offset)
{
	size_t i;

	if (!d || !d->known)
		return false;
	i = kedge__dirty_find(d, offset);
	return i == d->count || d->at[i].start >= offset + KEDGE__REX_PAGE;
}

static void look_at(struct kedge__sample *s, size_t i, const struct kedge__image *image,
		    const struct kedge__reduce_how *how)
{
	size_t region = region_find(image, &s->at[i]);
	uint64_t offset = s->at[i].offset;
	uint8_t buffer[KEDGE__REX_PAGE];
	const void *data;

	if (region == image->count || is_unchanged(how->dirty ? &how->dirty[region] : NULL, offset))
		return;
	if (how->view)
		data = kedge__view_peek(how->view, region, offset, buffer, sizeof(buffer));
	else
		data = (const uint8_t *)image->regions[region].data + offset;
	if (data)
		take(s, i, data);
}

void kedge__sample_look(struct kedge__reducer *r, const struct kedge__image *image, const struct kedge__reduce_how *how)
{
	struct kedge__sample *s = &r->sample;

	if (!s->count)
		return;
	for (size_t i = 0; i < s->count; i++)
		if (s->at[i].old)
			look_at(s, i, image, how);
	weigh(r, image);
}

static const void *glass_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes,
			     bool all)
{
	struct kedge__sample_glass *g = ctx;
	const uint8_t *data = g->under->get(g->under->ctx, worker, region, offset, buffer, bytes, all);
	uint64_t base = g->image->regions[region].base;
	struct kedge__sample *s = g->sample;
	size_t i;

	KEDGE__PARTITION_POINT(i, s->count,
			       s->at[i].base < base || (s->at[i].base == base && s->at[i].offset < offset));
	for (; data && i < s->count && s->at[i].base == base && s->at[i].offset + KEDGE__REX_PAGE <= offset + bytes;
	     i++)
		if (!s->at[i].now)
			take(s, i, data + (s->at[i].offset - offset));
	return data;
}

static bool glass_keep(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes)
{
	const struct kedge__sample_glass *g = ctx;

	return g->under->keep(g->under->ctx, worker, region, offset, data, bytes);
}

static const void *glass_peek(void *ctx, size_t region, uint64_t offset, void *buffer, size_t bytes)
{
	const struct kedge__sample_glass *g = ctx;

	return g->under->peek(g->under->ctx, region, offset, buffer, bytes);
}

/* What is found unchanged there does not count as seen. */
static const void *glass_where(void *ctx, size_t region, uint64_t offset, size_t bytes)
{
	const struct kedge__sample_glass *g = ctx;

	return g->under->where(g->under->ctx, region, offset, bytes);
}

void kedge__sample_glass_init(struct kedge__sample_glass *g, struct kedge__reducer *r, const struct kedge__image *image,
			      const struct kedge__image_view *view)
{
	*g = (struct kedge__sample_glass){.sample = &r->sample, .image = image, .under = view};
	g->view = (struct kedge__image_view){.get = glass_get,
					     .keep = view->keep ? glass_keep : NULL,
					     .peek = view->peek ? glass_peek : NULL,
					     .ctx = g,
					     .stays = view->stays,
					     .where = view->where ? glass_where : NULL};
}

/* ------------------------------------------------------------------ which pages */

static bool reserve(struct kedge__sample *s)
{
	if (!s->bytes)
		s->bytes = kedge__malloc(KEDGE__SAMPLED * 2 * KEDGE__REX_PAGE);
	s->count = 0;
	return s->bytes;
}

/* The page at OFFSET of REGION, if all of it is there and it was not drawn yet. */
static void draw(struct kedge__sample *s, const struct kedge__image_region *region, uint64_t offset)
{
	const struct kedge__sampled *last = s->count ? &s->at[s->count - 1] : NULL;

	offset -= offset % KEDGE__REX_PAGE;
	if (s->count == KEDGE__SAMPLED || offset + KEDGE__REX_PAGE > region->bytes ||
	    (last && last->base == region->base && last->offset >= offset))
		return;
	s->at[s->count++] = (struct kedge__sampled){.base = region->base, .offset = offset};
}

void kedge__sample_spread(struct kedge__reducer *r, const struct kedge__image *image)
{
	struct kedge__sample *s = &r->sample;
	uint64_t pages = 0, before = 0, n;
	size_t region = 0;

	if (!reserve(s))
		return;
	for (size_t i = 0; i < image->count; i++)
		pages += image->regions[i].bytes / KEDGE__REX_PAGE;
	n = KEDGE__MIN(KEDGE__MAX(pages / PAGES_EACH, PAGES_LEAST), KEDGE__MIN(pages, KEDGE__SAMPLED));
	for (uint64_t i = 0; i < n; i++) {
		uint64_t first = i * pages / n, page = first + kedge__spread(i) % ((i + 1) * pages / n - first);

		while (page - before >= image->regions[region].bytes / KEDGE__REX_PAGE)
			before += image->regions[region++].bytes / KEDGE__REX_PAGE;
		draw(s, &image->regions[region], (page - before) * KEDGE__REX_PAGE);
	}
}

/* A page of slab S that changed, from a place of the slab on that says nothing about how much did. */
static void draw_from(struct kedge__sample *s, const struct kedge__reducer *r, const struct kedge__slab *slab,
		      uint64_t turn)
{
	const struct kedge__txn *t = &r->txn;
	const uint16_t *changes = kedge__slab_changes(t, slab);
	uint64_t chunk = r->options.chunk, from = kedge__spread(turn) % (KEDGE__SLAB_BYTES / chunk);
	size_t k;

	KEDGE__PARTITION_POINT(k, slab->count, (uint64_t)(changes[k] >> 1) < from);
	k = k == slab->count ? 0 : k;
	draw(s, kedge__slab_region(t, slab), (slab->first + (changes[k] >> 1)) * chunk);
}

/* Pages of slabs that changed: one of each, or of some at no regular distance. */
static void draw_changed(struct kedge__sample *s, const struct kedge__reducer *r)
{
	const struct kedge__txn *t = &r->txn;
	uint64_t pages = kedge__chunks_of(t->changes, KEDGE__MAX(KEDGE__REX_PAGE / r->options.chunk, UINT64_C(1)));
	size_t slabs = 0, n, done = 0, rank = 0;

	for (size_t i = 0; i < t->slabs.count; i++)
		slabs += t->slabs.at[i].count > 0;
	n = (size_t)KEDGE__MIN(KEDGE__MAX(pages / PAGES_EACH, PAGES_LEAST), (uint64_t)KEDGE__SAMPLED);
	for (size_t i = 0; i < t->slabs.count && slabs; i++) {
		if (!t->slabs.at[i].count)
			continue;
		/* Several of each, where there are few. */
		for (rank++; done < n * rank / slabs; done++)
			draw_from(s, r, &t->slabs.at[i], s->tries * KEDGE__SAMPLED + done);
	}
}

static int sampled_order(const void *a, const void *b)
{
	const struct kedge__sampled *x = a, *y = b;

	if (x->base != y->base)
		return x->base < y->base ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* What tree finds elsewhere. */
static void note_tree(struct kedge__sample *s, const struct kedge__txn *t)
{
	if (t->used != KEDGE__REDUCER_TREE || !t->compare || t->changed_bytes == t->fill_bytes)
		return;
	s->literals = t->literal_bytes;
	s->candidates = t->changed_bytes - t->fill_bytes;
}

/* Pages that were kept by the glass are judged once one has been seen twice. */
static void judge_seen(struct kedge__reducer *r, const struct kedge__image *image)
{
	struct kedge__sample *s = &r->sample;
	bool twice = false;

	for (size_t i = 0; i < s->count; i++)
		twice = twice || s->at[i].now;
	if (twice || ++s->tries >= TRIES)
		weigh(r, image);
}

void kedge__sample_end(struct kedge__reducer *r, const struct kedge__reducer *in_use, const struct kedge__image *image,
		       const struct kedge__reduce_how *how)
{
	struct kedge__sample *s = &r->sample;
	const struct kedge__txn *t = &in_use->txn;

	note_tree(s, t);
	if (s->count)
		judge_seen(r, image);
	if (s->count || (s->wait && s->wait--))
		return;
	if (!t->compare || t->stream || t->used == KEDGE__REDUCER_FULL)
		kedge__sample_spread(r, image);
	else if (t->changes && reserve(s))
		draw_changed(s, in_use);
	qsort(s->at, s->count, sizeof(s->at[0]), sampled_order);
	for (size_t i = 0; kedge__may_return(how->view) && i < s->count; i++)
		look_at(s, i, image, &(struct kedge__reduce_how){.view = how->view});
}
