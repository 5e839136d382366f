/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * last.c: what is remembered of the last version: for each region the digests of its chunks, in place, and in paranoid
 * mode its bytes. A version in progress overwrites digests (hash_pass.c keeps the old ones until commit), but sizes and
 * membership change only at commit.
 */
#include "reduce/reducer.h"

#define MAPPED_BYTES (UINT64_C(256) << 10) /* from here on memory is mapped, below it is allocated */

void *kedge__large_alloc(uint64_t bytes)
{
	return bytes >= MAPPED_BYTES ? kedge__map_alloc(bytes) : kedge__calloc(1, bytes + !bytes);
}

void kedge__large_free(void *p, uint64_t bytes)
{
	if (bytes >= MAPPED_BYTES)
		kedge__map_free(p, bytes);
	else
		kedge__free(p);
}

bool kedge__large_grow(void **p, uint64_t bytes, uint64_t wanted)
{
	bool mapped = *p && bytes >= MAPPED_BYTES;
	void *grown = mapped ? kedge__map_grow(*p, bytes, wanted) : kedge__large_alloc(wanted);

	if (!grown)
		return false;
	if (!mapped && *p) {
		memcpy(grown, *p, bytes);
		kedge__large_free(*p, bytes);
	}
	*p = grown;
	return true;
}

static void region_free(struct kedge__last_region *g)
{
	if (!g)
		return;
	kedge__large_free(g->digests, g->room * sizeof(*g->digests));
	kedge__large_free(g->ages, g->ages_room);
	kedge__free(g->stale);
	kedge__large_free(g->flat, g->flat_room * sizeof(*g->flat));
	kedge__large_free(g->shadow, g->shadow_room);
	kedge__large_free(g->sums, g->sums_room * sizeof(*g->sums));
	kedge__large_free(g->slab_sums, g->slab_sums_room * sizeof(*g->slab_sums));
	kedge__free(g);
}

void kedge__last_done(struct kedge__last *last)
{
	for (size_t i = 0; i < last->regions.count; i++)
		region_free(last->regions.at[i]);
	kedge__array_done(&last->regions);
}

static size_t lower_bound(const struct kedge__last *last, uint64_t base)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, last->regions.count, last->regions.at[i]->base < base);
	return i;
}

struct kedge__last_region *kedge__last_find(const struct kedge__last *last, uint64_t base)
{
	size_t i = lower_bound(last, base);

	return i < last->regions.count && last->regions.at[i]->base == base ? last->regions.at[i] : NULL;
}

static bool digests_reserve(struct kedge__last_region *g, uint64_t chunks)
{
	uint64_t room = g->room ? chunks + chunks / 8 : chunks; /* what grew once grows again */

	if (chunks <= g->room)
		return true;
	if (!kedge__large_grow((void **)&g->digests, g->room * sizeof(*g->digests), room * sizeof(*g->digests)))
		return false;
	g->room = room;
	return true;
}

static bool stale_reserve(struct kedge__last_region *g, uint64_t slabs)
{
	uint8_t *grown;

	if (slabs <= g->stale_room)
		return true;
	grown = kedge__realloc(g->stale, slabs);
	if (!grown)
		return false;
	memset(grown + g->stale_room, 0, slabs - g->stale_room);
	g->stale = grown;
	g->stale_room = slabs;
	return true;
}

/* Patterns take memory where there are flat slabs. */
static bool flat_reserve(struct kedge__last_region *g, uint64_t slabs)
{
	if (slabs <= g->flat_room)
		return true;
	if (!kedge__large_grow((void **)&g->flat, g->flat_room * sizeof(*g->flat), slabs * sizeof(*g->flat)))
		return false;
	g->flat_room = slabs;
	return true;
}

static uint64_t slab_bytes(const struct kedge__last_region *g, uint64_t slab)
{
	return KEDGE__MIN(KEDGE__SLAB_BYTES, g->bytes - slab * KEDGE__SLAB_BYTES);
}

static bool constant_digests(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t slab,
			     struct kedge__digest *to)
{
	uint64_t chunk = r->options.chunk, bytes = slab_bytes(g, slab), n = kedge__chunks_of(bytes, chunk);
	uint8_t *constant = kedge__malloc(chunk);

	if (!constant)
		return false;
	for (uint64_t i = 0; i < chunk; i += 8)
		kedge__put64(constant + i, g->flat[slab]);
	kedge__digest_chunks(r->key, constant, KEDGE__MIN(chunk, bytes), chunk, to);
	for (uint64_t i = 1; i < n; i++)
		to[i] = to[0];
	if (bytes % chunk)
		kedge__digest_chunks(r->key, constant, bytes % chunk, chunk, &to[n - 1]);
	kedge__digests_weaken(r, to, n);
	kedge__free(constant);
	return true;
}

struct kedge__digest *kedge__last_constant(const struct kedge__reducer *r, const struct kedge__last_region *g,
					   uint64_t slab, uint64_t *count)
{
	struct kedge__digest *digests;

	*count = kedge__chunks_of(slab_bytes(g, slab), r->options.chunk);
	digests = kedge__malloc(*count * sizeof(*digests));
	if (digests && !constant_digests(r, g, slab, digests)) {
		kedge__free(digests);
		digests = NULL;
	}
	return digests;
}

bool kedge__last_raise(const struct kedge__reducer *r, struct kedge__last_region *g, uint64_t slab)
{
	if (!constant_digests(r, g, slab, g->digests + slab * (KEDGE__SLAB_BYTES / r->options.chunk)))
		return false;
	g->stale[slab] = KEDGE__SLAB_KNOWN;
	return true;
}

static bool shadow_reserve(struct kedge__last_region *g, uint64_t bytes)
{
	if (bytes <= g->shadow_room)
		return true;
	if (!kedge__large_grow((void **)&g->shadow, g->shadow_room, bytes))
		return false;
	g->shadow_room = bytes;
	return true;
}

static bool ages_reserve(struct kedge__last_region *g, uint64_t chunks)
{
	if (chunks <= g->ages_room)
		return true;
	if (!kedge__large_grow((void **)&g->ages, g->ages_room, chunks))
		return false;
	g->ages_room = chunks;
	return true;
}

static bool sums_reserve(struct kedge__sum **sums, uint64_t *room, uint64_t count)
{
	if (count <= *room)
		return true;
	if (!kedge__large_grow((void **)sums, *room * sizeof(**sums), count * sizeof(**sums)))
		return false;
	*room = count;
	return true;
}

int kedge__last_prepare_sums(struct kedge__last_region *const *regions, size_t count, uint64_t grain,
			     struct kedge__error *err)
{
	for (size_t i = 0; i < count; i++) {
		struct kedge__last_region *g = regions[i];

		if (!sums_reserve(&g->sums, &g->sums_room, kedge__chunks_of(g->next_bytes, grain)) ||
		    !sums_reserve(&g->slab_sums, &g->slab_sums_room,
				  kedge__chunks_of(g->next_bytes, KEDGE__SLAB_BYTES)))
			return kedge__error_nomem(err);
	}
	return 0;
}

/* How many of IMAGE are not there; all of LAST before index FROM lie before it. */
static size_t count_missing(const struct kedge__last *last, const struct kedge__image *image, size_t from)
{
	size_t missing = 0;

	for (size_t i = 0; i < image->count; i++) {
		while (from < last->regions.count && last->regions.at[from]->base < image->regions[i].base)
			from++;
		missing += from == last->regions.count || last->regions.at[from]->base != image->regions[i].base;
	}
	return missing;
}

/* Those that are missing come between the others, from the back on: each of these is moved once. There is room. */
static bool merge(struct kedge__last *last, const struct kedge__image *image, size_t missing)
{
	struct kedge__last_region **at = last->regions.at;
	size_t left = last->regions.count, to = left + missing;

	/* Before anything is moved. */
	for (size_t i = last->regions.count; i < to; i++) {
		at[i] = kedge__calloc(1, sizeof(**at));
		if (!at[i]) {
			while (i-- > last->regions.count)
				kedge__free(at[i]);
			return false;
		}
	}
	last->regions.count = to;
	for (size_t i = image->count; to > left; i--) {
		uint64_t base = image->regions[i - 1].base;
		struct kedge__last_region *fresh;

		for (; left && at[left - 1]->base > base; to--) {
			fresh = at[to - 1];
			at[to - 1] = at[left - 1];
			at[--left] = fresh;
		}
		if (!left || at[left - 1]->base != base)
			at[--to]->base = base;
	}
	return true;
}

static int regions_add(struct kedge__last *last, const struct kedge__image *image, struct kedge__error *err)
{
	size_t from = image->count ? lower_bound(last, image->regions[0].base) : 0;
	size_t missing = count_missing(last, image, from);

	if (!missing)
		return 0;
	return kedge__array_reserve(&last->regions, last->regions.count + missing) && merge(last, image, missing)
		   ? 0
		   : kedge__error_nomem(err);
}

int kedge__last_prepare(struct kedge__last *last, const struct kedge__image *image, uint32_t chunk,
			struct kedge__last_needs needs, struct kedge__last_region ***out, struct kedge__error *err)
{
	struct kedge__last_region **list = kedge__calloc(image->count + 1, sizeof(*list));
	int rc = list ? regions_add(last, image, err) : kedge__error_nomem(err);
	size_t at = !rc && image->count ? lower_bound(last, image->regions[0].base) : 0;

	for (size_t i = 0; !rc && i < image->count; i++, at++) {
		uint64_t bytes = image->regions[i].bytes;
		struct kedge__last_region *g;

		while (last->regions.at[at]->base != image->regions[i].base)
			at++;
		g = last->regions.at[at];
		g->present = true;
		g->same = false;
		g->next_bytes = bytes;
		list[i] = g;
		if (!digests_reserve(g, kedge__chunks_of(bytes, chunk)) ||
		    !stale_reserve(g, kedge__chunks_of(bytes, KEDGE__SLAB_BYTES)) ||
		    !flat_reserve(g, kedge__chunks_of(bytes, KEDGE__SLAB_BYTES)) ||
		    (needs.ages && !ages_reserve(g, g->room)) || (needs.shadow && !shadow_reserve(g, bytes)))
			rc = kedge__error_nomem(err);
	}
	if (rc) {
		kedge__free(list);
		return rc;
	}
	*out = list;
	return 0;
}

/* Keep those that KEEP says. */
static void filter(struct kedge__last *last, bool (*keep)(const struct kedge__last_region *g))
{
	size_t kept = 0;

	for (size_t i = 0; i < last->regions.count; i++) {
		struct kedge__last_region *g = last->regions.at[i];

		if (keep(g))
			last->regions.at[kept++] = g;
		else
			region_free(g);
	}
	last->regions.count = kept;
}

static bool is_present(const struct kedge__last_region *g)
{
	return g->present;
}

static bool is_known(const struct kedge__last_region *g)
{
	return g->known;
}

void kedge__last_commit(struct kedge__last *last)
{
	filter(last, is_present);
	for (size_t i = 0; i < last->regions.count; i++) {
		struct kedge__last_region *g = last->regions.at[i];

		g->bytes = g->next_bytes;
		g->known = true;
		g->present = false;
	}
}

void kedge__last_rollback(struct kedge__last *last)
{
	filter(last, is_known);
	for (size_t i = 0; i < last->regions.count; i++) {
		struct kedge__last_region *g = last->regions.at[i];

		/* Digests are taken back; sums are not, and are simply made anew. */
		g->summed = g->summed && !g->present;
		g->present = false;
	}
}
