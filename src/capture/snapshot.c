/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture/tracker.h"

#include <pthread.h>
#include <sys/mman.h>

/* Large enough to amortise a task, small enough to spread one huge literal over all threads. A multiple of every unit.
 */
#define SHARE_BYTES (UINT64_C(4) << 20)

/* Of what so many versions in a row did not need, nothing is kept. */
#define RESERVE_TURNS 8

struct copy {
	const struct kedge__literal_source *source;
	KEDGE__ARRAY(uint64_t) cuts; /* in the literal space: where a thread's share begins, and the end */
	uint8_t *to;
	pthread_mutex_t lock;        /* guards: */
	struct kedge__error failure; /* the first one */
};

static int copy_share(void *ctx, size_t i, int worker)
{
	struct copy *c = ctx;
	uint64_t at = c->cuts.at[i];
	size_t bytes = (size_t)(c->cuts.at[i + 1] - at);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = c->source->fill(c->source->ctx, worker, at, c->to + at, bytes, &err);

	if (!rc && c->source->check)
		rc = c->source->check(c->source->ctx, at, c->to + at, bytes, &err);
	if (!rc)
		return 0;
	pthread_mutex_lock(&c->lock);
	if (!c->failure.code)
		kedge__error_move(&c->failure, &err);
	pthread_mutex_unlock(&c->lock);
	kedge__error_done(&err);
	return rc;
}

/* Cuts are at literals, or at a multiple of SHARE_BYTES of one: where a source can check them. */
static bool cuts_make(struct copy *c, const struct kedge__literal_list *literals, uint64_t *total)
{
	bool ok = kedge__array_push(&c->cuts, 0);

	*total = 0;
	for (size_t i = 0; ok && i < literals->count; i++) {
		if (*total - c->cuts.at[c->cuts.count - 1] >= SHARE_BYTES)
			ok = kedge__array_push(&c->cuts, *total);
		for (uint64_t skip = SHARE_BYTES; ok && skip < literals->at[i].bytes; skip += SHARE_BYTES)
			ok = kedge__array_push(&c->cuts, *total + skip);
		*total += literals->at[i].bytes;
	}
	return ok && kedge__array_push(&c->cuts, *total);
}

static int copy_all(struct copy *c, struct kedge__pool *pool, struct kedge__error *err)
{
	int rc;

	pthread_mutex_init(&c->lock, NULL);
	rc = kedge__pool_for(pool, c->cuts.count - 1, copy_share, c);
	if (rc)
		kedge__error_move(err, &c->failure);
	else if (c->source->end)
		rc = c->source->end(c->source->ctx, err);
	kedge__error_done(&c->failure);
	pthread_mutex_destroy(&c->lock);
	return rc;
}

/* The mapping stays: if the memory is needed again, it is there, at the price of fresh pages. */
void kedge__reserve_return(struct kedge__reserve *r, size_t from)
{
	size_t page = kedge__page_size(), kept = (from + page - 1) / page * page;

	if (kept < r->bytes)
		(void)madvise((uint8_t *)r->memory + kept, r->bytes - kept, MADV_DONTNEED);
}

static void reserve_trim(struct kedge__reserve *r)
{
	if (++r->turns < RESERVE_TURNS)
		return;
	if (r->most < r->bytes / 2)
		kedge__reserve_return(r, r->most);
	r->turns = 0;
	r->most = 0;
}

void *kedge__reserve_get(struct kedge__reserve *r, size_t bytes, size_t kept)
{
	if (r->memory && bytes <= r->bytes) {
		r->most = KEDGE__MAX(r->most, kept);
		reserve_trim(r);
		return r->memory;
	}
	kedge__reserve_done(r);
	r->memory = kedge__map_alloc(bytes);
	r->bytes = r->memory ? bytes : 0;
	return r->memory;
}

void kedge__reserve_done(struct kedge__reserve *r)
{
	if (r->memory)
		kedge__map_free(r->memory, r->bytes);
	*r = (struct kedge__reserve){0};
}

int kedge__snapshot_take(struct kedge__reserve *r, struct kedge__pool *pool, struct kedge__literal_list *literals,
			 const struct kedge__literal_source *source, uint64_t limit, struct kedge__error *err)
{
	struct copy c = {.source = source};
	uint64_t total;
	int rc = cuts_make(&c, literals, &total) ? 0 : kedge__error_nomem(err);

	if (!rc && total > limit)
		rc = kedge__error_set(err, KEDGE_E_LIMIT, 0, "a copy of %llu bytes exceeds the limit of %llu",
				      (unsigned long long)total, (unsigned long long)limit);
	if (!rc && total) {
		c.to = kedge__reserve_get(r, total, total);
		rc = c.to ? copy_all(&c, pool, err) : kedge__error_nomem(err);
	}
	kedge__array_done(&c.cuts);
	for (size_t i = 0; !rc && total && i < literals->count; i++) {
		literals->at[i].data = c.to;
		c.to += literals->at[i].bytes;
	}
	return rc;
}
