/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auto.c: which reducer the next version gets, by what the last ones showed. It depends on the data alone.
 *
 *  - an image that is seen through a view, large, and new by a sample, in which next to nothing is as it was, nor
 * elsewhere in the last version, nor twice: basic, with all slabs that are not constant stored, and hashed as they are
 * (stream.c).
 *  - else tree at first, and as long as shifted duplicates make up at least 1/64 of the changed bytes, or nothing
 * changes.
 *  - after DRY_VERSIONS versions in a row in which they did not: basic. Now and then, after PROBE_EVERY versions at
 * first, then more seldom, one is a tree again, and trees they stay if duplicates have come back.
 *
 * Without trees the hash record is of no use and dropped. The next tree has the last version to begin with, whose
 * digests are there.
 */
#include "reduce/reducer.h"

#define DRY_VERSIONS  4
#define PROBE_DOUBLES 3 /* how often that number is doubled */
#define PROBE_EVERY   8u

enum kedge__reducer_id kedge__auto_choose(const struct kedge__reducer *r)
{
	const struct kedge__auto *a = &r->choice;

	if (a->mode == KEDGE__REDUCER_BASIC && a->since + 1 >= PROBE_EVERY << a->probes)
		return KEDGE__REDUCER_TREE;
	return a->mode;
}

/* As far as the caller knows. */
static bool all_may_be_new(const struct kedge__image *image, const struct kedge__region_dirty *dirty)
{
	uint64_t bytes = 0, new = 0;

	for (size_t i = 0; i < image->count; i++) {
		bytes += image->regions[i].bytes;
		new += dirty[i].known ? 0 : image->regions[i].bytes;
		for (size_t k = 0; dirty[i].known && k < dirty[i].count; k++)
			new += dirty[i].at[k].len;
	}
	return new >= bytes - bytes / 16;
}

struct kedge__way kedge__auto_way(const struct kedge__reducer *r, struct kedge__pool *pool, bool follows,
				  const struct kedge__image *image, const struct kedge__image_view *view,
				  const struct kedge__region_dirty *dirty)
{
	enum kedge__reducer_id used = kedge__auto_choose(r);
	enum kedge__stream stream = KEDGE__STREAM_NONE;

	if (!view || r->options.paranoid) /* that needs the bytes of the last version anyway */
		return (struct kedge__way){used, KEDGE__STREAM_NONE};
	if (!follows || !dirty || all_may_be_new(image, dirty))
		stream = kedge__image_is_new(r, pool, image, view, follows);
	if (stream)
		return (struct kedge__way){KEDGE__REDUCER_BASIC, stream};
	return (struct kedge__way){used, KEDGE__STREAM_NONE};
}

static void learn_from_duplicates(struct kedge__auto *a, const struct kedge__txn *t)
{
	uint64_t candidates = t->changed_bytes - t->fill_bytes;

	if (!candidates)
		return;
	a->since = 0;
	if (t->duplicate_bytes >= candidates / 64 + !(candidates / 64)) {
		a->dry = a->probes = 0;
		a->mode = KEDGE__REDUCER_TREE;
	} else if (a->mode == KEDGE__REDUCER_BASIC) {
		a->probes += a->probes < PROBE_DOUBLES;
	} else if (++a->dry >= DRY_VERSIONS) {
		a->mode = KEDGE__REDUCER_BASIC;
	}
}

void kedge__auto_learn(struct kedge__reducer *r)
{
	const struct kedge__txn *t = &r->txn;

	if (r->options.id != KEDGE__REDUCER_AUTO || !t->compare || !t->raw_bytes || t->stream || t->plain)
		return;
	if (t->used == KEDGE__REDUCER_TREE)
		learn_from_duplicates(&r->choice, t);
	else
		r->choice.since++;
	if (r->choice.mode != KEDGE__REDUCER_TREE)
		kedge__record_empty(r);
}
