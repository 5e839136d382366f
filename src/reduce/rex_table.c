#include "reduce/rex_table.h"

#define MOVES_MAX 8

int kedge__rex_table_init(struct kedge__rex_table *t, uint64_t count, uint64_t limit, struct kedge__error *err)
{
	uint64_t part = count / KEDGE__REX_PARTS, buckets = 1;

	/* Two choices of two places fill to nine tenths; parts do not all get the same. */
	while (2 * buckets < part + part / 4 + 16 &&
	       4 * buckets * KEDGE__REX_PARTS * sizeof(struct kedge__rex_bucket) <= 2 * limit &&
	       buckets < UINT32_MAX / 4)
		buckets *= 2;
	*t = (struct kedge__rex_table){.mask = (uint32_t)(buckets - 1)};
	t->bytes = buckets * KEDGE__REX_PARTS * sizeof(struct kedge__rex_bucket);
	t->buckets = kedge__map_alloc(t->bytes);
	return t->buckets ? 0 : kedge__error_nomem(err);
}

void kedge__rex_table_done(struct kedge__rex_table *t)
{
	if (t->buckets)
		kedge__map_free(t->buckets, t->bytes);
	*t = (struct kedge__rex_table){0};
}

static bool put_free(struct kedge__rex_bucket *b, struct kedge__rex_entry e)
{
	for (int i = 0; i < 2; i++) {
		if (!b->way[i].item) {
			b->way[i] = e;
			return true;
		}
	}
	return false;
}

void kedge__rex_table_enter(const struct kedge__rex_table *t, const struct kedge__rex_key *key, uint32_t item)
{
	struct kedge__rex_entry e = {key->tag, item + 1};
	uint32_t bucket = key->second;

	if (put_free(&key->part[key->first], e) || put_free(&key->part[bucket], e))
		return;
	for (unsigned move = 0; move < MOVES_MAX; move++) {
		struct kedge__rex_entry *place = &key->part[bucket].way[move & 1], out = *place;

		*place = e;
		e = out;
		bucket = kedge__rex_other(t, bucket, e.tag);
		if (put_free(&key->part[bucket], e))
			return;
	}
}
