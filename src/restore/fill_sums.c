/* Every region has a digest over all of its bytes: it tells whether they all came to their places. */
#include "restore/fill.h"

/* A target that is summed when all is there is summed in slabs of this many bytes: a multiple of 8. */
#define SLAB_BYTES (UINT64_C(4) << 20)

void kedge__fill_sum_piece(struct kedge__filling *f, struct kedge__fill_hand *h, uint32_t target, const uint8_t *at,
			   uint64_t pos, uint64_t len)
{
	struct kedge__fill_goal *g = &f->goals[target];

	if (f->sum_later || pos % 8 || (len % 8 && pos + len != g->record->bytes)) {
		if (!atomic_load_explicit(&g->odd, memory_order_relaxed))
			atomic_store_explicit(&g->odd, true, memory_order_relaxed);
		return;
	}
	h->sums[target] = kedge__sum_add(h->sums[target], kedge__sum_of(at, len, pos));
}

struct slab {
	uint32_t target;
	uint64_t pos, len;
};

struct slab_work {
	struct kedge__filling *f;
	KEDGE__ARRAY(struct slab) slabs;
};

static int slab_sum(void *ctx, size_t i, int worker)
{
	struct slab_work *w = ctx;
	const struct slab *s = &w->slabs.at[i];
	struct kedge__sum *sum = &w->f->hands[worker].sums[s->target];

	*sum = kedge__sum_add(*sum, kedge__sum_of(w->f->goals[s->target].data + s->pos, s->len, s->pos));
	return 0;
}

/* Targets with odd pieces are summed again as a whole. */
static int odd_sum(struct kedge__filling *f, struct kedge__error *err)
{
	struct slab_work w = {.f = f};

	for (size_t t = 0; t < f->goal_count; t++) {
		uint64_t bytes = f->goals[t].record->bytes;

		if (!atomic_load(&f->goals[t].odd))
			continue;
		for (size_t h = 0; h < f->hand_count; h++)
			f->hands[h].sums[t] = (struct kedge__sum){0, 0};
		for (uint64_t pos = 0; pos < bytes; pos += SLAB_BYTES) {
			struct slab s = {(uint32_t)t, pos, KEDGE__MIN(SLAB_BYTES, bytes - pos)};

			if (!kedge__array_push(&w.slabs, s)) {
				kedge__array_done(&w.slabs);
				return kedge__error_nomem(err);
			}
		}
	}
	kedge__pool_for(f->pool, w.slabs.count, slab_sum, &w);
	kedge__array_done(&w.slabs);
	return 0;
}

static int digests_check(const struct kedge__filling *f, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(f->lineage);

	for (size_t t = 0; t < f->goal_count; t++) {
		const struct kedge__region_record *r = f->goals[t].record;
		struct kedge__sum sum = {0, 0};

		for (size_t h = 0; h < f->hand_count; h++)
			sum = kedge__sum_add(sum, f->hands[h].sums[t]);
		if (!kedge__digest_equal(kedge__sum_digest(sum, r->bytes), r->digest))
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"%s: region \"%s\" of version %llu does not match its digest",
						top->path, r->name, (unsigned long long)top->header.version);
	}
	return 0;
}

int kedge__fill_sums_check(struct kedge__filling *f, struct kedge__error *err)
{
	int rc = odd_sum(f, err);

	return rc ? rc : digests_check(f, err);
}
