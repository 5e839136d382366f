#include "capture/capture.h"

/* Large enough to amortise a task, small enough to spread one huge literal over all threads. */
#define SLAB_BYTES (UINT64_C(4) << 20)

struct copy {
	const struct kedge__literal_list *from;
	const uint64_t *starts; /* of each literal in the snapshot */
	uint8_t *to;
	uint64_t bytes;
};

static size_t literal_at(const struct copy *c, uint64_t pos)
{
	size_t low = 0, high = c->from->count;

	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (c->starts[mid] <= pos)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static int copy_slab(void *ctx, size_t i, int worker)
{
	const struct copy *c = ctx;
	uint64_t pos = i * SLAB_BYTES, end = KEDGE__MIN(pos + SLAB_BYTES, c->bytes);
	size_t l = literal_at(c, pos);

	(void)worker;
	while (pos < end) {
		const struct kedge__literal *literal = &c->from->at[l];
		uint64_t skip = pos - c->starts[l];
		uint64_t n = KEDGE__MIN(literal->bytes - skip, end - pos);

		memcpy(c->to + pos, (const uint8_t *)literal->data + skip, n);
		pos += n;
		l++;
	}
	return 0;
}

static uint64_t starts_fill(uint64_t *starts, const struct kedge__literal_list *literals)
{
	uint64_t total = 0;

	for (size_t i = 0; i < literals->count; i++) {
		starts[i] = total;
		total += literals->at[i].bytes;
	}
	return total;
}

void *kedge__reserve_get(struct kedge__reserve *r, size_t bytes)
{
	if (r->memory && bytes <= r->bytes)
		return r->memory;
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
			 uint64_t limit, struct kedge__error *err)
{
	struct copy c = {.from = literals};
	uint64_t *starts;

	if (!literals->count)
		return 0;
	starts = kedge__reallocarray(NULL, literals->count, sizeof(uint64_t));
	if (!starts)
		return kedge__error_nomem(err);
	c.starts = starts;
	c.bytes = starts_fill(starts, literals);
	if (c.bytes > limit) {
		kedge__free(starts);
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "a copy of %llu bytes exceeds the limit of %llu",
					(unsigned long long)c.bytes, (unsigned long long)limit);
	}
	c.to = kedge__reserve_get(r, c.bytes);
	if (!c.to) {
		kedge__free(starts);
		return kedge__error_nomem(err);
	}
	kedge__pool_for(pool, (c.bytes + SLAB_BYTES - 1) / SLAB_BYTES, copy_slab, &c);
	for (size_t i = 0; i < literals->count; i++)
		literals->at[i].data = c.to + starts[i];
	kedge__free(starts);
	return 0;
}
