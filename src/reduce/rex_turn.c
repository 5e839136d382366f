/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rex_turn.c: auto has two forms: by chunks, as tree and the others reduce, and by patterns, as rex does. Each knows
 * the last version by its own digests. To go from one to the other, the last version is read from the store and hashed
 * once: then the next one may refer to it, and nothing is stored again. While rex is in use, the other form keeps the
 * log of its record and nothing else.
 *
 * What is read there is what a reference to it will give, whatever memory had: so the two cannot disagree.
 */
#include "reduce/reducer.h"

/* Paranoid reducers have the bytes of the last version at hand, and would have them twice. Grains are the same in both
 * forms, so that what is held for one may be reduced by the other. */
bool kedge__rex_may_turn(const struct kedge__reducer *r)
{
	return r->options.id == KEDGE__REDUCER_AUTO && r->options.pattern && r->options.pattern < r->options.chunk &&
	       r->options.chunk <= KEDGE__GRAIN_BYTES && r->options.fetch && !r->options.paranoid;
}

struct stored { /* the last version */
	const struct kedge__reducer *r;
	const struct kedge__image_region *regions;
};

static const void *stored_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes,
			      bool all)
{
	const struct stored *s = ctx;
	const struct kedge__reducer_options *o = &s->r->options;

	(void)worker, (void)all;
	return o->fetch(o->fetch_ctx, s->r->parent, s->regions[region].base + offset, buffer, bytes, NULL) ? NULL
													   : buffer;
}

static bool stored_keep(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes)
{
	(void)ctx, (void)worker, (void)region, (void)offset, (void)data, (void)bytes;
	return true;
}

/* As far as both know: what FROM took the last version for is what the store has. */
static bool agree(const struct kedge__reducer *from, const struct kedge__reducer *to)
{
	for (size_t i = 0; i < from->last.regions.count; i++) {
		const struct kedge__last_region *g = from->last.regions.at[i],
						*h = kedge__last_find(&to->last, g->base);
		uint64_t slabs = kedge__chunks_of(g->bytes, KEDGE__SLAB_BYTES);

		if (!h || h->bytes != g->bytes)
			return false;
		for (uint64_t slab = 0; g->summed && h->summed && slab < slabs; slab++)
			if (g->stale[slab] != KEDGE__SLAB_STALE &&
			    memcmp(&g->slab_sums[slab], &h->slab_sums[slab], sizeof(*g->slab_sums)) != 0)
				return false;
	}
	return true;
}

/* TO, which knows nothing of it yet, gets the last version of FROM. */
static bool hand_over(const struct kedge__reducer *from, struct kedge__reducer *to)
{
	size_t count = from->last.regions.count;
	struct kedge__image_region *regions = kedge__calloc(count + 1, sizeof(*regions));
	struct stored stored = {from, regions};
	const struct kedge__image_view view = {.get = stored_get, .keep = stored_keep, .ctx = &stored};
	uint32_t epoch = kedge__epochs_find(&from->record.epochs, from->parent);
	bool ok = regions && epoch;

	/* Regions are nowhere in memory; an address is only there to count from. */
	for (size_t i = 0; ok && i < count; i++)
		regions[i] = (struct kedge__image_region){from->last.regions.at[i]->base, (const void *)(uintptr_t)4096,
							  from->last.regions.at[i]->bytes};
	ok = ok &&
	     !kedge__reducer_prime_view(to, NULL, from->parent, &(struct kedge__image){regions, count}, &view, NULL,
					NULL, NULL) &&
	     agree(from, to);
	if (ok)
		kedge__reducer_identify(to, (struct kedge__image_key){from->parent, from->record.epochs.at[epoch].id});
	kedge__free(regions);
	return ok;
}

/* Where one form would read only what may have changed, because no more is held, so does the other. */
static bool narrow_alike(const struct kedge__reducer *a, const struct kedge__reducer *b, uint64_t version,
			 const struct kedge__image *image)
{
	for (size_t i = 0; i < image->count; i++) {
		const struct kedge__image_region *g = &image->regions[i];

		if (kedge__reducer_narrows(a, version, g->base, g->bytes) &&
		    !kedge__reducer_narrows(b, version, g->base, g->bytes))
			return false;
	}
	return true;
}

struct kedge__reducer_options kedge__rex_options(const struct kedge__reducer *r, const struct kedge__image *image)
{
	struct kedge__reducer_options o = r->options;
	uint64_t bytes = 0;

	for (size_t i = 0; i < image->count; i++)
		bytes += image->regions[i].bytes;
	o.id = KEDGE__REDUCER_REX;
	o.chunk = o.pattern;
	o.chunk = kedge__reducer_fit(&o, bytes);
	return o;
}

static struct kedge__reducer *make_rex(const struct kedge__reducer *r, const struct kedge__image *image)
{
	struct kedge__reducer_options o = kedge__rex_options(r, image);
	struct kedge__reducer *made = NULL;

	return o.chunk && o.chunk < r->options.chunk && !kedge__reducer_new(&o, &made, NULL) ? made : NULL;
}

static void to_patterns(struct kedge__reducer *r, uint64_t version, const struct kedge__image *image)
{
	struct kedge__reducer *rex = make_rex(r, image);

	if (!rex || !hand_over(r, rex) || !narrow_alike(r, rex, version, image)) {
		kedge__reducer_free(rex);
		return;
	}
	kedge__record_retire(r);
	kedge__parent_forget(r);
	kedge__workers_done(r);
	r->other = rex;
}

static void to_chunks(struct kedge__reducer *r, uint64_t version, const struct kedge__image *image)
{
	struct kedge__reducer *rex = r->other;

	r->other = NULL; /* what is asked of R is asked of the other form */
	r->choice = (struct kedge__auto){.mode = KEDGE__REDUCER_TREE};
	if (hand_over(rex, r) && narrow_alike(rex, r, version, image)) {
		kedge__reducer_free(rex);
		return;
	}
	kedge__parent_forget(r);
	r->other = rex;
}

void kedge__rex_turn(struct kedge__reducer *r, uint64_t version, const struct kedge__image *image)
{
	const struct kedge__reducer *used = kedge__reducer_in_use(r);

	if (r->sample.rex_pays == (r->other != NULL) || used->busy || used->parent == KEDGE__NO_VERSION ||
	    used->parent >= version)
		return;
	if (r->other)
		to_chunks(r, version, image);
	else
		to_patterns(r, version, image);
	r->sample.count = r->sample.wait = r->sample.every = 0; /* look again soon */
	r->sample.rex_pays = r->other != NULL;
}
