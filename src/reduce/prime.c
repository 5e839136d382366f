/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prime.c: a new reducer learns what the store holds.
 */
#include "reduce/reducer.h"

#define BATCH     256 /* chunks that are hashed at once */
#define LOG_SHARE 4   /* of the memory limit, before the image is known */

/* COUNT chunks at ADDR to the log, except constant ones. */
static void prime_chunks(struct kedge__reducer *r, uint64_t addr, const uint8_t *data, uint64_t count)
{
	struct kedge__record *rec = &r->record;
	uint32_t chunk = r->options.chunk, epoch = rec->epochs.current;
	uint64_t limit = r->options.record_bytes / LOG_SHARE / sizeof(*rec->log.at);
	struct kedge__digest digests[BATCH];

	for (uint64_t at = 0; at < count; at += BATCH) {
		uint64_t n = KEDGE__MIN(count - at, (uint64_t)BATCH);

		kedge__digest_chunks(r->key, data + at * chunk, n * chunk, chunk, digests);
		kedge__digests_weaken(r, digests, n);
		for (uint64_t i = 0, slot; i < n; i++) {
			if (kedge__is_constant(data + (at + i) * chunk, chunk))
				continue;
			kedge__log_extend(&rec->log, 1, limit, true, &slot);
			if (rec->log.room)
				rec->log.at[slot] =
				    (struct kedge__past){digests[i], addr + (at + i) * chunk, epoch, epoch};
		}
	}
}

int kedge__reducer_prime_literals(struct kedge__reducer *r, uint64_t version, uint64_t addr, const void *data,
				  uint64_t bytes, struct kedge__error *err)
{
	uint64_t skip = -addr & (r->options.chunk - 1);
	int rc;

	if (r->busy)
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"the previous reduction is neither committed nor rolled back");
	if (bytes > KEDGE__SLOT_BYTES - (addr & (KEDGE__SLOT_BYTES - 1)))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "literals extend beyond their region");
	if (!kedge__reducer_remembers(r->options.id) || bytes < skip || bytes - skip < r->options.chunk)
		return 0;
	rc = kedge__epochs_begin(&r->record.epochs, version, true, err);
	if (rc)
		return rc;
	kedge__finder_drop(&r->record.finder);
	prime_chunks(r, addr + skip, (const uint8_t *)data + skip, (bytes - skip) / r->options.chunk);
	r->record.epochs.current = 0;
	r->record.log_wanted = r->record.log.room; /* until it proves to be of no use */
	return 0;
}

/* ---- the newest version, from its bytes */

int kedge__reducer_prime_view(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version,
			      const struct kedge__image *image, const struct kedge__image_view *view,
			      const struct kedge__digest *digests, const struct kedge__region_dirty *same,
			      struct kedge__error *err)
{
	/* Nothing is looked up. */
	enum kedge__reducer_id used = r->options.id == KEDGE__REDUCER_FULL ? KEDGE__REDUCER_FULL : KEDGE__REDUCER_BASIC;
	struct kedge__reduce_how how = {.view = view, .dirty = same, .primes = same != NULL};
	struct kedge__sample_glass glass;
	struct kedge__reduction red = {0};
	int rc;

	if (r->busy || (r->other && r->other->busy))
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"the previous reduction is neither committed nor rolled back");
	kedge__reducer_free(r->other);
	r->other = NULL;
	kedge__parent_forget(r);
	if (view && !same && kedge__rex_may_turn(r)) {
		kedge__sample_spread(r, image);
		kedge__sample_glass_init(&glass, r, image, view);
		how.view = &glass.view;
	}
	rc = kedge__txn_run(r, (struct kedge__way){used, KEDGE__STREAM_NONE}, pool, version, image, &how, &red, err);
	if (rc)
		return rc;
	for (size_t i = 0; digests && !rc && i < image->count; i++)
		if (!kedge__digest_equal(digests[i], red.region_digests[i]))
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					      "region %zu of version %llu does not match its digest", i,
					      (unsigned long long)version);
	kedge__reduction_done(&red);
	if (rc)
		kedge__reducer_rollback(r);
	else
		kedge__reducer_commit(r);
	return rc;
}
