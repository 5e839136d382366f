#include "reduce/reducer.h"

#define MOVES_MAX 8

int kedge__rex_table_begin(struct kedge__rex_table *t, uint64_t count, uint64_t limit, struct kedge__error *err)
{
	uint64_t bucket_bytes = KEDGE__REX_PARTS * sizeof(struct kedge__rex_bucket);
	/* Two choices of two places fill to nine tenths; parts do not all get the same. */
	uint64_t buckets =
	    KEDGE__MIN(count / KEDGE__REX_PARTS * 5 / 8 + 16, KEDGE__MIN(limit / bucket_bytes, UINT32_MAX / 2));
	uint64_t bytes;

	buckets = KEDGE__MAX(buckets, 1);
	bytes = buckets * bucket_bytes;
	if (bytes > t->bytes) {
		kedge__rex_table_done(t);
		t->at = kedge__map_alloc(bytes);
		if (!t->at)
			return kedge__error_nomem(err);
		t->bytes = bytes;
	} else {
		memset(t->at, 0, bytes);
	}
	t->buckets = (uint32_t)buckets;
	return 0;
}

void kedge__rex_table_rest(struct kedge__rex_table *t)
{
	if (t->bytes > KEDGE__KEPT_BYTES)
		kedge__rex_table_done(t);
}

void kedge__rex_table_done(struct kedge__rex_table *t)
{
	if (t->at)
		kedge__map_free(t->at, t->bytes);
	*t = (struct kedge__rex_table){0};
}

static bool put_free(struct kedge__rex_bucket *b, struct kedge__rex_entry e)
{
	for (int i = 0; i < 2; i++) {
		if (!b->way[i].number) {
			b->way[i] = e;
			return true;
		}
	}
	return false;
}

void kedge__rex_table_enter(const struct kedge__rex_table *t, struct kedge__rex_bucket *part, uint32_t bucket,
			    uint32_t tag, uint32_t number)
{
	struct kedge__rex_entry e = {tag, number + 1};

	if (put_free(&part[bucket], e))
		return;
	for (unsigned move = 0; move < MOVES_MAX; move++) {
		struct kedge__rex_entry *place = &part[bucket].way[move & 1], out = *place;

		*place = e;
		e = out;
		bucket = kedge__rex_other(t, bucket, e.tag);
		if (put_free(&part[bucket], e))
			return;
	}
}
