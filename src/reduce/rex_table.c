/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce/reducer.h"

#define MOVES_MAX 8
#define MARK_BITS 8 /* for each pattern: one in so many of those that are there once is taken for one that is not */
#define WORD_BITS 64

/* BYTES of zeroes, in *AT or instead of it. */
static int clear(void **at, uint64_t *room, uint64_t bytes, struct kedge__error *err)
{
	if (bytes <= *room) {
		memset(*at, 0, bytes);
		return 0;
	}
	if (*at)
		kedge__map_free(*at, *room);
	*at = kedge__map_alloc(bytes);
	*room = *at ? bytes : 0;
	return *at ? 0 : kedge__error_nomem(err);
}

int kedge__rex_marks_begin(struct kedge__rex_table *t, uint64_t count, uint64_t limit, struct kedge__error *err)
{
	uint64_t words = KEDGE__MIN(count * MARK_BITS / WORD_BITS, limit / 2 / sizeof(*t->marks)) + 1;

	t->words = (uint32_t)KEDGE__MIN(words, UINT32_MAX);
	return clear((void **)&t->marks, &t->mark_bytes, t->words * sizeof(*t->marks), err);
}

int kedge__rex_table_begin(struct kedge__rex_table *t, uint64_t count, uint64_t limit, struct kedge__error *err)
{
	uint64_t bucket_bytes = KEDGE__REX_PARTS * sizeof(struct kedge__rex_bucket);
	uint64_t left = limit - KEDGE__MIN(limit, t->words * sizeof(*t->marks));
	/* Two choices of two places fill to nine tenths, but parts do not all get the same: so they are less than half
	 * full. */
	uint64_t buckets =
	    KEDGE__MIN(count / KEDGE__REX_PARTS * 5 / 4 + 16, KEDGE__MIN(left / bucket_bytes, UINT32_MAX / 2));

	t->buckets = (uint32_t)KEDGE__MAX(buckets, 1);
	return clear((void **)&t->at, &t->bytes, t->buckets * bucket_bytes, err);
}

void kedge__rex_table_rest(struct kedge__rex_table *t)
{
	if (t->bytes + t->mark_bytes > KEDGE__KEPT_BYTES)
		kedge__rex_table_done(t);
}

void kedge__rex_table_done(struct kedge__rex_table *t)
{
	if (t->at)
		kedge__map_free(t->at, t->bytes);
	if (t->marks)
		kedge__map_free(t->marks, t->mark_bytes);
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
