/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reducer.c: the life of a reducer: a version is reduced, then committed or rolled back. Nothing but the hash record
 * and the digests in place changes before commit, and both can be taken back: old digests are kept, and record entries
 * of a version that was rolled back are dead.
 */
#include "reduce/emit.h"
#include "reduce/gpu.h"
#include "reduce/rex_wave.h"

static const struct kedge__reducer_ops *const table[] = {
    [KEDGE__REDUCER_FULL] = &kedge__full_ops, [KEDGE__REDUCER_BASIC] = &kedge__basic_ops,
    [KEDGE__REDUCER_LIST] = &kedge__list_ops, [KEDGE__REDUCER_TREE] = &kedge__tree_ops,
    [KEDGE__REDUCER_REX] = &kedge__rex_ops,
};

static const char *const names[] = {
    [KEDGE__REDUCER_FULL] = "full", [KEDGE__REDUCER_BASIC] = "basic", [KEDGE__REDUCER_LIST] = "list",
    [KEDGE__REDUCER_TREE] = "tree", [KEDGE__REDUCER_AUTO] = "auto",   [KEDGE__REDUCER_MERGED] = "merged",
    [KEDGE__REDUCER_REX] = "rex",
};

const char *kedge__reducer_name(enum kedge__reducer_id id)
{
	return (size_t)id < KEDGE__COUNT(names) ? names[id] : NULL;
}

int kedge__reducer_parse(const char *name, enum kedge__reducer_id *id)
{
	for (size_t i = 0; i < KEDGE__COUNT(names); i++) {
		if (i != KEDGE__REDUCER_MERGED && !strcmp(names[i], name)) {
			*id = (enum kedge__reducer_id)i;
			return 0;
		}
	}
	return KEDGE_E_ARG;
}

bool kedge__reducer_remembers(enum kedge__reducer_id id)
{
	return id == KEDGE__REDUCER_LIST || id == KEDGE__REDUCER_TREE || id == KEDGE__REDUCER_AUTO;
}

const struct kedge__reducer_ops *kedge__reducer_ops_of(const struct kedge__reducer *r)
{
	return table[r->txn.used];
}

/* A digest a chunk, and sums of grains and slabs. */
uint64_t kedge__last_bytes(const struct kedge__reducer_options *o, uint32_t chunk, uint64_t bytes)
{
	uint64_t kept = kedge__chunks_of(bytes, chunk) * sizeof(struct kedge__digest);

	if (o->track && !o->paranoid)
		kept += (kedge__chunks_of(bytes, kedge__grain(chunk)) + kedge__chunks_of(bytes, KEDGE__SLAB_BYTES)) *
			sizeof(struct kedge__sum);
	return kept;
}

uint32_t kedge__reducer_fit(const struct kedge__reducer_options *options, uint64_t bytes)
{
	uint32_t largest = options->id == KEDGE__REDUCER_REX ? KEDGE__REX_CHUNK_MAX : KEDGE__CHUNK_MAX;

	if (options->id == KEDGE__REDUCER_FULL)
		return options->chunk;
	for (uint32_t chunk = options->chunk; chunk <= largest; chunk *= 2)
		if (kedge__last_bytes(options, chunk, bytes) <= options->record_bytes / 4)
			return chunk;
	return 0;
}

static void forget_choice(struct kedge__reducer *r)
{
	r->choice = (struct kedge__auto){.mode = KEDGE__REDUCER_TREE};
}

int kedge__reducer_new(const struct kedge__reducer_options *options, struct kedge__reducer **out,
		       struct kedge__error *err)
{
	uint32_t chunk = options->chunk;
	struct kedge__reducer *r;
	int rc;

	if ((unsigned)options->id > KEDGE__REDUCER_REX || options->id == KEDGE__REDUCER_MERGED)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "unknown reducer");
	if (!chunk && options->id == KEDGE__REDUCER_FULL)
		chunk = KEDGE__CHUNK_MAX;
	if (chunk < KEDGE__CHUNK_MIN || chunk > KEDGE__CHUNK_MAX || chunk & (chunk - 1))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "chunk size %u is not a power of two from %u to %u", chunk,
					KEDGE__CHUNK_MIN, KEDGE__CHUNK_MAX);
	if (options->id == KEDGE__REDUCER_REX && chunk > KEDGE__REX_CHUNK_MAX)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "pattern size %u is not within rex's range from %u to %u",
					chunk, KEDGE__CHUNK_MIN, KEDGE__REX_CHUNK_MAX);
	r = kedge__calloc(1, sizeof(*r));
	if (!r)
		return kedge__error_nomem(err);
	rc = kedge__digest_key_new(options->seed, &r->key, err);
	if (rc) {
		kedge__free(r);
		return rc;
	}
	pthread_mutex_init(&r->seams.lock, NULL);
	r->options = *options;
	r->options.seed = NULL;
	r->options.chunk = chunk;
	r->parent = KEDGE__NO_VERSION;
	r->record.finder.ops = &kedge__finder_here;
	kedge__record_limits(r, 0);
	forget_choice(r);
	*out = r;
	return 0;
}

/* Their memory, for the next version. */
static void slabs_keep(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;

	if (t->slabs.room * sizeof(*t->slabs.at) > KEDGE__KEPT_BYTES || r->slabs)
		kedge__array_done(&t->slabs);
	if (!t->slabs.at)
		return;
	r->slabs = t->slabs.at;
	r->slab_room = t->slabs.room;
}

static void txn_done(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;

	kedge__workers_rest(r);
	kedge__rex_table_rest(&r->rex);
	kedge__free(t->regions);
	kedge__free((void *)t->own.regions);
	slabs_keep(r);
	kedge__large_free(t->origins, t->changes * sizeof(*t->origins));
	kedge__array_done(&t->glances);
	kedge__seams_clear(&r->seams);
	kedge__array_done(&t->pages);
	if (t->aside)
		kedge__map_free(t->aside, t->aside_bytes);
	memset(t, 0, sizeof(*t));
}

void kedge__reducer_free(struct kedge__reducer *r)
{
	if (!r)
		return;
	kedge__reducer_free(r->other);
	kedge__gpu_replicas_drop(r);
	kedge__sample_done(&r->sample);
	txn_done(r);
	pthread_mutex_destroy(&r->seams.lock);
	kedge__free(r->slabs);
	kedge__workers_done(r);
	kedge__record_done(r);
	kedge__rex_table_done(&r->rex);
	kedge__rex_wave_free(r->wave);
	kedge__last_done(&r->last);
	kedge__digest_key_free(r->key);
	kedge__free(r);
}

const struct kedge__reducer_options *kedge__reducer_options_of(const struct kedge__reducer *r)
{
	return &kedge__reducer_in_use(r)->options;
}

uint64_t kedge__reducer_parent(const struct kedge__reducer *r)
{
	return kedge__reducer_in_use(r)->parent;
}

void kedge__reduction_done(struct kedge__reduction *red)
{
	kedge__extent_tape_done(&red->map);
	kedge__array_done(&red->literals);
	kedge__array_done(&red->ready);
	for (size_t i = 0; i < red->classes.count; i++)
		kedge__free(red->classes.at[i].name);
	kedge__array_done(&red->classes);
	kedge__free(red->region_digests);
	kedge__free(red->sources);
	memset(red, 0, sizeof(*red));
}

static int check_image(const struct kedge__image *image, uint64_t version, struct kedge__error *err)
{
	if (version >= KEDGE_VERSION_LIMIT)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "version %llu is too large", (unsigned long long)version);
	for (size_t i = 0; i < image->count; i++) {
		const struct kedge__image_region *g = &image->regions[i];

		if (g->base & (KEDGE__SLOT_BYTES - 1) || (i && g->base <= g[-1].base))
			return kedge__error_set(err, KEDGE_E_ARG, 0, "region %zu is not in slot order", i);
		if (g->bytes > KEDGE__SLOT_BYTES || (g->bytes && !g->data))
			return kedge__error_set(err, KEDGE_E_ARG, 0, "region %zu has no memory or is too large", i);
	}
	return 0;
}

/* What the image adds up to, for auto and for the caller. */
static void take_totals(struct kedge__reducer *r, const struct kedge__reduction *red)
{
	struct kedge__txn *t = &r->txn;

	t->changed_bytes = red->changed_bytes;
	t->duplicate_bytes = red->duplicate_bytes;
	t->fill_bytes = red->fill_bytes;
	t->literal_bytes = red->literal_bytes;
}

static int own_image(struct kedge__txn *t, const struct kedge__image *image, struct kedge__error *err)
{
	struct kedge__image_region *copy = kedge__calloc(image->count + 1, sizeof(*copy));

	if (!copy)
		return kedge__error_nomem(err);
	if (image->count)
		memcpy(copy, image->regions, image->count * sizeof(*copy));
	t->own = (struct kedge__image){copy, image->count};
	t->image = &t->own;
	return 0;
}

/* What the reducer does between the hash pass and the extents, and the extents. */
static int run_emit(struct kedge__reducer *r, struct kedge__reduction *red, struct kedge__error *err)
{
	const struct kedge__reducer_ops *ops = kedge__reducer_ops_of(r);
	struct kedge__txn *t = &r->txn;
	struct kedge__emitter e;
	int rc = kedge__emitter_begin(&e, r, red, err);

	t->emitter = &e;
	if (!rc && !t->there)
		rc = ops->run(r, err);
	if (!rc && !ops->waves)
		rc = kedge__emit_slabs(&e);
	if (!rc)
		rc = kedge__emitter_end(&e);
	t->emitter = NULL;
	kedge__emitter_done(&e);
	return rc;
}

/* What is not looked at cannot be sampled either. */
static bool any_same(const struct kedge__image *image, const struct kedge__region_dirty *dirty)
{
	size_t i = 0;

	while (dirty && i < image->count && !dirty[i].same)
		i++;
	return dirty && i < image->count;
}

/* Whether none of the last version is in this one, as far as a sample says. Then both need not be known at once, which
 * counts where they are large. Auto has looked, if there is a view. */
static bool is_unknown(struct kedge__reducer *r)
{
	const struct kedge__reducer_ops *ops = kedge__reducer_ops_of(r);
	const struct kedge__txn *t = &r->txn;
	const struct kedge__image_view device = kedge__gpu_view(r);

	return t->compare && !t->stream && !any_same(t->image, t->dirty) &&
	       t->raw_bytes / r->options.chunk >= KEDGE__LARGE && ops->hashes && !ops->full && !ops->waves &&
	       !r->options.paranoid && kedge__may_return(t->view) &&
	       !(t->view && r->options.id == KEDGE__REDUCER_AUTO) &&
	       kedge__image_is_unknown(r, t->pool, t->image, t->device ? &device : t->view);
}

/* All that needs the image, if it is on a device. */
static int steps_begin(struct kedge__reducer *r, struct kedge__error *err)
{
	const struct kedge__reducer_ops *ops = kedge__reducer_ops_of(r);
	struct kedge__txn *t = &r->txn;
	struct kedge__last_needs needs = {kedge__reducer_remembers(r->options.id), r->options.paranoid};
	int rc = kedge__epochs_begin(&r->record.epochs, t->version, false, err);

	t->started = kedge__clock_seconds();
	t->apart = ops->apart;
	if (!rc && ops->hashes)
		rc = kedge__last_prepare(&r->last, t->image, r->options.chunk, needs, &t->regions, err);
	t->sums = r->options.track && !r->options.paranoid && ops->hashes && !t->device;
	if (!rc && t->sums)
		rc = kedge__last_prepare_sums(t->regions, t->image->count, kedge__grain(r->options.chunk), err);
	for (size_t i = 0; i < t->image->count; i++)
		t->raw_bytes += t->image->regions[i].bytes;
	if (!rc && kedge__reducer_remembers(r->options.id))
		kedge__record_limits(r, t->raw_bytes);
	if (!rc && is_unknown(r))
		kedge__record_renew(r);
	if (!rc && t->device)
		rc = kedge__gpu_pass_start(r, err);
	if (!rc)
		rc = kedge__slabs_plan(r, !ops->hashes, err);
	if (!rc && t->stream)
		rc = kedge__stream_plan(r, err);
	if (!rc)
		rc = kedge__hash_pass(r, err);
	t->hash_seconds = kedge__clock_seconds() - t->started;
	if (rc || !t->device)
		return rc;
	rc = ops->run(r, err);
	return rc ? rc : kedge__gpu_literals_fetch(r, err);
}

static int steps_finish(struct kedge__reducer *r, struct kedge__reduction *red, struct kedge__error *err)
{
	const struct kedge__reducer_ops *ops = kedge__reducer_ops_of(r);
	struct kedge__txn *t = &r->txn;
	int rc = t->there ? kedge__gpu_lists_fetch(r, err) : 0;

	if (!rc)
		rc = run_emit(r, red, err);
	if (!rc && r->options.paranoid && ops->hashes)
		rc = kedge__paranoid_keep(r, err);
	if (!rc)
		take_totals(r, red);
	red->hash_seconds = t->hash_seconds;
	red->reduce_seconds = kedge__clock_seconds() - t->started;
	return rc;
}

static int txn_begin(struct kedge__reducer *r, struct kedge__way way, struct kedge__pool *pool, uint64_t version,
		     const struct kedge__image *image, const struct kedge__reduce_how *how, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	int rc = check_image(image, version, err);

	if (rc)
		return rc;
	if (r->busy)
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"the previous reduction is neither committed nor rolled back");
	rc = own_image(t, image, err);
	if (rc)
		return rc;
	t->slabs.at = r->slabs;
	t->slabs.room = r->slab_room;
	r->slabs = NULL;
	r->slab_room = 0;
	t->pool = pool;
	t->view = how->view;
	t->plain = how->full;
	t->version = version;
	t->used = way.used;
	t->stream = way.stream;
	t->compare = r->parent != KEDGE__NO_VERSION && r->parent < version;
	t->dirty = how->full ? NULL : how->dirty;
	t->primes = how->primes;
	t->device = how->device;
	t->there = how->device != NULL;
	t->progress = how->progress;
	t->progress_ctx = how->progress_ctx;
	r->busy = true;
	rc = steps_begin(r, err);
	t->device = NULL;
	if (rc)
		kedge__reducer_rollback(r);
	return rc;
}

static int txn_finish(struct kedge__reducer *r, struct kedge__reduction *out, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	struct kedge__reduction red = {.version = t->version, .parent = KEDGE__NO_VERSION, .reducer = t->used};
	int rc = steps_finish(r, &red, err);

	if (rc) {
		kedge__reduction_done(&red);
		kedge__reducer_rollback(r);
		return rc;
	}
	red.chunk = table[t->used] == &kedge__full_ops ? 0 : r->options.chunk;
	red.raw_bytes = t->raw_bytes;
	if (t->there)
		kedge__gpu_literals_point(r, &red);
	t->dirty = NULL;
	t->view = NULL;
	t->region_digests = red.region_digests;
	*out = red;
	return 0;
}

int kedge__txn_run(struct kedge__reducer *r, struct kedge__way way, struct kedge__pool *pool, uint64_t version,
		   const struct kedge__image *image, const struct kedge__reduce_how *how, struct kedge__reduction *out,
		   struct kedge__error *err)
{
	int rc = txn_begin(r, way, pool, version, image, how, err);

	return rc ? rc : txn_finish(r, out, err);
}

static struct kedge__way way_of(const struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version,
				const struct kedge__image *image, const struct kedge__reduce_how *how)
{
	bool again = how->view && kedge__may_return(how->view);

	if (how->full || r->options.id == KEDGE__REDUCER_FULL)
		return (struct kedge__way){KEDGE__REDUCER_FULL, again ? KEDGE__STREAM_SOME : KEDGE__STREAM_NONE};
	if (r->options.id != KEDGE__REDUCER_AUTO)
		return (struct kedge__way){r->options.id, KEDGE__STREAM_NONE};
	return kedge__auto_way(r, pool, r->parent != KEDGE__NO_VERSION && r->parent < version, image,
			       again ? how->view : NULL, how->dirty);
}

int kedge__reducer_reduce(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version,
			  const struct kedge__image *image, const struct kedge__reduce_how *how,
			  struct kedge__reduction *out, struct kedge__error *err)
{
	static const struct kedge__reduce_how nothing_known;
	struct kedge__reduce_how seen = how ? *how : nothing_known;
	bool samples = kedge__rex_may_turn(r) && !seen.full && !seen.device && !any_same(image, seen.dirty);
	struct kedge__sample_glass glass;
	struct kedge__reducer *used;
	int rc;

	how = how ? how : &nothing_known;
	if (samples && kedge__may_return(how->view)) {
		kedge__sample_look(r, image, how);
	} else if (samples) {
		kedge__sample_glass_init(&glass, r, image, how->view);
		seen.view = &glass.view;
	}
	if (samples)
		kedge__rex_turn(r, version, image);
	used = r->other ? r->other : r;
	rc = kedge__txn_run(used, way_of(used, pool, version, image, &seen), pool, version, image, &seen, out, err);
	if (rc)
		r->sample.count = 0;
	else if (samples)
		kedge__sample_end(r, used, image, how);
	return rc;
}

int kedge__reducer_begin(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version,
			 const struct kedge__image *image, const struct kedge__reduce_device *device,
			 struct kedge__error *err)
{
	const struct kedge__reduce_how how = {.device = device};

	return txn_begin(r, way_of(r, pool, version, image, &how), pool, version, image, &how, err);
}

uint64_t kedge__reducer_fetched(const struct kedge__reducer *r)
{
	return r->replicas ? r->replicas->literal_bytes : 0;
}

bool kedge__reducer_packed(const struct kedge__reducer *r)
{
	return r->replicas && r->replicas->packing.on;
}

int kedge__reducer_finish(struct kedge__reducer *r, struct kedge__reduction *out, struct kedge__error *err)
{
	return txn_finish(r, out, err);
}

bool kedge__reducer_on_device(const struct kedge__reducer *r)
{
	return !r->other && !r->options.paranoid && r->options.id != KEDGE__REDUCER_FULL &&
	       r->options.id != KEDGE__REDUCER_REX && kedge__gpu_passes(r->options.chunk);
}

void kedge__reducer_leave_device(struct kedge__reducer *r)
{
	kedge__gpu_replicas_drop(r);
}

uint64_t kedge__reducer_grain(const struct kedge__reducer *r)
{
	return kedge__grain(kedge__reducer_in_use(r)->options.chunk);
}

bool kedge__reducer_narrows(const struct kedge__reducer *r, uint64_t version, uint64_t base, uint64_t bytes)
{
	enum kedge__reducer_id next;
	const struct kedge__last_region *g;

	r = kedge__reducer_in_use(r);
	next = r->options.id == KEDGE__REDUCER_AUTO ? kedge__auto_choose(r) : r->options.id;
	g = kedge__last_find(&r->last, base);
	if (!r->options.track || r->options.paranoid || table[next]->full || r->parent == KEDGE__NO_VERSION ||
	    r->parent >= version || !g || !g->known || !g->summed || g->bytes != bytes)
		return false;
	for (uint64_t slab = 0; slab < kedge__chunks_of(bytes, KEDGE__SLAB_BYTES); slab++)
		if (g->stale[slab] == KEDGE__SLAB_STALE)
			return false;
	return true;
}

void kedge__reducer_commit(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;

	if (r->other)
		kedge__reducer_commit(r->other);
	if (!r->busy)
		return;
	if (t->aside)
		kedge__paranoid_commit(r);
	kedge__record_commit(r);
	for (size_t i = 0; t->regions && i < t->slabs.count; i++) {
		const struct kedge__slab *s = &t->slabs.at[i];

		struct kedge__last_region *g = t->regions[s->region];
		uint64_t number = s->first * r->options.chunk / KEDGE__SLAB_BYTES;

		if (s->flat)
			g->flat[number] = s->pattern;
		if (s->stream)
			g->stale[number] = KEDGE__SLAB_KNOWN;
		else if (s->flat || g->stale[number] != KEDGE__SLAB_FLAT || s->count)
			g->stale[number] = s->flat ? KEDGE__SLAB_FLAT : KEDGE__SLAB_KNOWN;
		if (t->sums)
			g->slab_sums[number] = s->sum;
		g->summed = t->sums;
	}
	if (!t->regions)
		kedge__record_detach(r);
	kedge__last_commit(&r->last);
	kedge__auto_learn(r);
	r->parent = t->version;
	txn_done(r);
	r->busy = false;
}

void kedge__reducer_rollback(struct kedge__reducer *r)
{
	if (r->other)
		kedge__reducer_rollback(r->other);
	r->sample.count = 0; /* what it has may be of this version */
	if (!r->busy)
		return;
	kedge__hash_undo(r);
	kedge__stream_undo(r);
	kedge__record_rollback(r);
	kedge__last_rollback(&r->last);
	txn_done(r);
	r->busy = false;
}

void kedge__parent_forget(struct kedge__reducer *r)
{
	kedge__record_detach(r);
	kedge__last_done(&r->last);
	r->parent = KEDGE__NO_VERSION;
}

void kedge__reducer_identify(struct kedge__reducer *r, struct kedge__image_key image)
{
	kedge__epochs_identify(&r->record.epochs, image.version, image.id);
	if (r->other)
		kedge__reducer_identify(r->other, image);
}

void kedge__reducer_retain(struct kedge__reducer *r, const struct kedge__image_key *alive, size_t n)
{
	if (r->other)
		kedge__reducer_retain(r->other, alive, n);
	if (r->busy)
		return;
	kedge__epochs_retain(&r->record.epochs, alive, n);
	if (!kedge__epochs_find(&r->record.epochs, r->parent)) { /* every version has one, whichever reducer was used */
		kedge__record_retire(r);
		kedge__parent_forget(r);
	}
}

uint64_t kedge__reducer_memory(const struct kedge__reducer *r)
{
	uint64_t bytes = kedge__record_memory(&r->record) + (r->other ? kedge__reducer_memory(r->other) : 0) +
			 (r->sample.bytes ? KEDGE__SAMPLED * 2 * KEDGE__REX_PAGE : 0);

	for (size_t i = 0; i < r->last.regions.count; i++) {
		const struct kedge__last_region *g = r->last.regions.at[i];

		bytes += g->room * sizeof(*g->digests) + g->ages_room + g->stale_room +
			 g->flat_room * sizeof(*g->flat) + g->shadow_room + g->sums_room * sizeof(*g->sums) +
			 g->slab_sums_room * sizeof(*g->slab_sums);
	}
	return bytes;
}

void kedge__reducer_reset(struct kedge__reducer *r)
{
	kedge__reducer_rollback(r);
	kedge__reducer_free(r->other);
	r->other = NULL;
	kedge__sample_done(&r->sample);
	kedge__parent_forget(r);
	kedge__record_done(r);
	forget_choice(r);
}
