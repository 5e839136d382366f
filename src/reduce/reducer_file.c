/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reducer_file.c: a reducer as a byte string, so that the next process need not read the store again. It is a cache:
 * its layout has no place in the format of the store, and one that does not fit exactly is refused.
 *
 * Head, epochs, regions with flags and digests, entries of the record, then a checksum. The checksum is chained over
 * pieces, so that saving needs little memory: that of a piece is over the one before and the bytes of the piece.
 */
#include "reduce/reducer.h"

#define MAGIC       UINT64_C(0x3343455245474445) /* changes with the layout and with the digests */
#define PIECE_BYTES (size_t)(1 << 20)
#define EPOCH_BYTES 32 /* version, image id, alive */

struct head {
	uint64_t magic;
	uint32_t id, chunk;
	uint64_t mask, parent;
	uint64_t epochs, regions, now, before;
	uint32_t mode, dry, dense, since, probes, unused;
	uint8_t seed[KEDGE__DIGEST_SEED_BYTES]; /* of the digests that follow */
};

struct region_head {
	uint64_t base, bytes;
};

/* ---- save */

struct writer {
	int (*write)(void *ctx, const void *data, size_t bytes, struct kedge__error *err);
	void *ctx;
	struct kedge__error *err;
	uint8_t *piece; /* the last checksum, then the bytes */
	size_t used;
	uint64_t checksum;
	int rc;
};

static void flush(struct writer *w)
{
	if (w->rc || !w->used)
		return;
	kedge__put64(w->piece, w->checksum);
	w->checksum = kedge__checksum(w->piece, 8 + w->used);
	w->rc = w->write(w->ctx, w->piece + 8, w->used, w->err);
	w->used = 0;
}

static void put(struct writer *w, const void *data, uint64_t bytes)
{
	const uint8_t *p = data;

	while (!w->rc && bytes) {
		size_t n = (size_t)KEDGE__MIN(bytes, (uint64_t)(PIECE_BYTES - w->used));

		memcpy(w->piece + 8 + w->used, p, n);
		w->used += n;
		p += n;
		bytes -= n;
		if (w->used == PIECE_BYTES)
			flush(w);
	}
}

/* Entries that are alive; with W they are written. */
static uint64_t save_table(const struct kedge__record *rec, bool before, struct writer *w)
{
	uint64_t n = 0;

	for (size_t s = 0; s < KEDGE__RECORD_SHARDS; s++) {
		const struct kedge__record_table *t = before ? &rec->shards[s].before : &rec->shards[s].now;

		for (size_t i = 0; i < t->size; i++) {
			if (!t->at[i].epoch || !rec->epochs.at[t->at[i].epoch].alive)
				continue;
			if (w)
				put(w, &t->at[i], sizeof(t->at[i]));
			n++;
		}
	}
	return n;
}

static void save_epochs(const struct kedge__record *rec, struct writer *w)
{
	for (size_t i = 0; i < rec->epochs.count; i++) {
		const struct kedge__epoch *e = &rec->epochs.at[i];
		uint64_t fields[EPOCH_BYTES / 8] = {e->version, e->id.lo, e->id.hi, e->alive};

		put(w, fields, sizeof(fields));
	}
}

/* Of a slab follow its digests, its constant or nothing. */
static uint64_t slab_bytes(const struct kedge__reducer *r, uint64_t bytes, uint64_t slab, uint8_t state)
{
	uint64_t left = KEDGE__MIN(KEDGE__SLAB_BYTES, bytes - slab * KEDGE__SLAB_BYTES);

	if (state != KEDGE__SLAB_KNOWN)
		return state == KEDGE__SLAB_FLAT ? sizeof(uint64_t) : 0;
	return kedge__chunks_of(left, r->options.chunk) * sizeof(struct kedge__digest);
}

static void *slab_place(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t slab,
			uint8_t state)
{
	return state == KEDGE__SLAB_FLAT ? (void *)&g->flat[slab]
					 : (void *)&g->digests[slab * (KEDGE__SLAB_BYTES / r->options.chunk)];
}

static void save_regions(const struct kedge__reducer *r, struct writer *w)
{
	for (size_t i = 0; i < r->last.regions.count; i++) {
		const struct kedge__last_region *g = r->last.regions.at[i];
		uint64_t slabs = kedge__chunks_of(g->bytes, KEDGE__SLAB_BYTES);
		struct region_head h = {g->base, g->bytes};

		put(w, &h, sizeof(h));
		put(w, g->stale, slabs);
		for (uint64_t s = 0; s < slabs; s++)
			put(w, slab_place(r, g, s, g->stale[s]), slab_bytes(r, g->bytes, s, g->stale[s]));
	}
}

static uint64_t region_bytes(const struct kedge__reducer *r, const struct kedge__last_region *g)
{
	uint64_t slabs = kedge__chunks_of(g->bytes, KEDGE__SLAB_BYTES), bytes = sizeof(struct region_head) + slabs;

	for (uint64_t s = 0; s < slabs; s++)
		bytes += slab_bytes(r, g->bytes, s, g->stale[s]);
	return bytes;
}

uint64_t kedge__reducer_save_bytes(const struct kedge__reducer *r)
{
	const struct kedge__record *rec = &r->record;
	uint64_t bytes = sizeof(struct head) + rec->epochs.count * EPOCH_BYTES + 8;

	for (size_t i = 0; i < r->last.regions.count; i++)
		bytes += region_bytes(r, r->last.regions.at[i]);
	return bytes + (save_table(rec, true, NULL) + save_table(rec, false, NULL)) * sizeof(struct kedge__record_slot);
}

int kedge__reducer_save(const struct kedge__reducer *r,
			int (*write)(void *ctx, const void *data, size_t bytes, struct kedge__error *err), void *ctx,
			struct kedge__error *err)
{
	struct writer w = {.write = write, .ctx = ctx, .err = err};
	struct head h;

	if (r->busy)
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"the previous reduction is neither committed nor rolled back");
	w.piece = kedge__malloc(8 + PIECE_BYTES);
	if (!w.piece)
		return kedge__error_nomem(err);
	memset(&h, 0, sizeof(h));
	h = (struct head){.magic = MAGIC,
			  .id = r->options.id,
			  .chunk = r->options.chunk,
			  .mask = r->options.digest_mask,
			  .parent = r->parent,
			  .epochs = r->record.epochs.count,
			  .regions = r->last.regions.count,
			  .now = save_table(&r->record, false, NULL),
			  .before = save_table(&r->record, true, NULL),
			  .mode = r->choice.mode,
			  .dry = r->choice.dry,
			  .dense = r->choice.dense,
			  .since = r->choice.since,
			  .probes = r->choice.probes};
	memcpy(h.seed, kedge__digest_key_seed(r->key), sizeof(h.seed));
	put(&w, &h, sizeof(h));
	save_epochs(&r->record, &w);
	save_regions(r, &w);
	save_table(&r->record, true, &w);
	save_table(&r->record, false, &w);
	flush(&w);
	if (!w.rc)
		w.rc = write(ctx, &w.checksum, sizeof(w.checksum), err);
	kedge__free(w.piece);
	return w.rc;
}

/* ---- load */

struct reader {
	const uint8_t *at;
	uint64_t left;
};

/* The next COUNT things of SIZE bytes, or NULL. */
static const uint8_t *take(struct reader *in, uint64_t count, uint64_t size)
{
	const uint8_t *p = in->at;

	if (count > in->left / size)
		return NULL;
	in->at += count * size;
	in->left -= count * size;
	return p;
}

static bool checksum_fits(const uint8_t *data, size_t bytes, uint8_t *piece)
{
	uint64_t checksum = 0;

	for (size_t at = 0; at < bytes - 8; at += PIECE_BYTES) {
		size_t n = KEDGE__MIN(PIECE_BYTES, bytes - 8 - at);

		kedge__put64(piece, checksum);
		memcpy(piece + 8, data + at, n);
		checksum = kedge__checksum(piece, 8 + n);
	}
	return checksum == kedge__get64(data + bytes - 8);
}

static int damaged(struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the saved hash record is damaged");
}

static int load_epochs(struct kedge__reducer *r, struct reader *in, uint64_t count, struct kedge__error *err)
{
	const uint8_t *p = take(in, count, EPOCH_BYTES);

	if (!p || count > UINT32_MAX)
		return damaged(err);
	for (uint64_t i = 0; i < count; i++, p += EPOCH_BYTES) {
		struct kedge__epoch e = {.version = kedge__get64(p),
					 .id = {kedge__get64(p + 8), kedge__get64(p + 16)},
					 .alive = i && kedge__get64(p + 24) == 1};

		if (!kedge__array_push(&r->record.epochs, e))
			return kedge__error_nomem(err);
	}
	return 0;
}

static int load_slabs(struct kedge__reducer *r, struct reader *in, struct kedge__last_region *g, uint64_t bytes,
		      const uint8_t *states, struct kedge__error *err)
{
	for (uint64_t s = 0; s < kedge__chunks_of(bytes, KEDGE__SLAB_BYTES); s++) {
		uint64_t n = states[s] <= KEDGE__SLAB_FLAT ? slab_bytes(r, bytes, s, states[s]) : UINT64_MAX;
		const uint8_t *p = take(in, n, 1);

		if (!p)
			return damaged(err);
		g->stale[s] = states[s];
		if (n)
			memcpy(slab_place(r, g, s, states[s]), p, n);
	}
	return 0;
}

/* Regions are put in as those of an image without memory, and that image is committed. */
static int load_region(struct kedge__reducer *r, struct reader *in, struct kedge__error *err)
{
	const uint8_t *p = take(in, 1, sizeof(struct region_head)), *states;
	struct kedge__image_region g = {0};
	struct kedge__image image = {&g, 1};
	struct kedge__last_region **list;
	int rc;

	if (!p)
		return damaged(err);
	g.base = kedge__get64(p);
	g.bytes = kedge__get64(p + 8);
	if (g.base & (KEDGE__SLOT_BYTES - 1) || g.bytes > KEDGE__SLOT_BYTES || kedge__last_find(&r->last, g.base))
		return damaged(err);
	states = take(in, kedge__chunks_of(g.bytes, KEDGE__SLAB_BYTES), 1);
	if (!states)
		return damaged(err);
	rc = kedge__last_prepare(&r->last, &image, r->options.chunk, false, &list, err);
	if (rc)
		return rc;
	rc = load_slabs(r, in, list[0], g.bytes, states, err);
	kedge__free(list);
	return rc;
}

static int load_table(struct kedge__reducer *r, struct reader *in, uint64_t count, bool before,
		      struct kedge__error *err)
{
	const uint8_t *p = take(in, count, sizeof(struct kedge__record_slot));

	if (!p)
		return damaged(err);
	for (uint64_t i = 0; i < count; i++, p += sizeof(struct kedge__record_slot)) {
		struct kedge__record_slot s;

		memcpy(&s, p, sizeof(s));
		if (!s.epoch || s.epoch >= r->record.epochs.count)
			return damaged(err);
		kedge__record_restore(&r->record, &s, before);
	}
	return 0;
}

static int load_all(struct kedge__reducer *r, struct reader *in, const struct head *h, struct kedge__error *err)
{
	int rc = load_epochs(r, in, h->epochs, err);

	for (uint64_t i = 0; !rc && i < h->regions; i++)
		rc = load_region(r, in, err);
	kedge__last_commit(&r->last);
	if (!rc)
		rc = load_table(r, in, h->before, true, err);
	if (!rc)
		rc = load_table(r, in, h->now, false, err);
	if (!rc && in->left)
		rc = damaged(err);
	return rc;
}

/* Emptied, with other keys: digests made with the old ones mean nothing any more. */
static int take_seed(struct kedge__reducer *r, const uint8_t *seed, struct kedge__error *err)
{
	struct kedge__digest_key *key;
	int rc = kedge__digest_key_new(seed, &key, err);

	if (rc)
		return rc;
	kedge__reducer_reset(r);
	kedge__digest_key_free(r->key);
	r->key = key;
	return 0;
}

int kedge__reducer_load(struct kedge__reducer *r, const void *data, size_t bytes, struct kedge__error *err)
{
	struct reader in = {data, bytes};
	struct head h;
	uint8_t *piece;
	int rc;

	if (r->busy)
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"the previous reduction is neither committed nor rolled back");
	if (bytes < sizeof(h) + 8)
		return damaged(err);
	memcpy(&h, data, sizeof(h));
	if (h.magic != MAGIC || h.id != r->options.id || h.chunk != r->options.chunk ||
	    h.mask != r->options.digest_mask || r->options.paranoid)
		return kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					"the saved hash record was made with different settings");
	piece = kedge__malloc(8 + PIECE_BYTES);
	if (!piece)
		return kedge__error_nomem(err);
	rc = checksum_fits(data, bytes, piece) ? 0 : damaged(err);
	kedge__free(piece);
	if (!rc && (h.mode > KEDGE__REDUCER_TREE || h.probes > 8))
		rc = damaged(err);
	if (rc)
		return rc;
	rc = take_seed(r, h.seed, err);
	if (rc)
		return rc;
	in.at += sizeof(h);
	in.left -= sizeof(h) + 8;
	rc = load_all(r, &in, &h, err);
	if (rc) {
		kedge__reducer_reset(r);
		return rc;
	}
	r->parent = h.parent;
	r->choice = (struct kedge__auto){(enum kedge__reducer_id)h.mode, h.dry, h.dense, h.since, h.probes};
	return 0;
}
