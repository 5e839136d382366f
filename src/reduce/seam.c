/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seam.c: literals that were arranged begin and end anywhere, while digests are those of whole chunks. Parts of a chunk
 * that pass at different times are kept here until all of it has passed.
 */
#include "reduce/reducer.h"

struct key {
	size_t region;
	uint64_t start;
};

static bool is_seam(const void *ctx, size_t item, const void *key)
{
	const struct kedge__seams *s = ctx;
	const struct key *k = key;

	return s->at[item].region == k->region && s->at[item].start == k->start;
}

static uint64_t hash_of(size_t region, uint64_t start)
{
	return kedge__spread(start ^ kedge__spread(region));
}

static struct kedge__seam *seam_find(struct kedge__seams *s, size_t region, uint64_t start)
{
	struct key key = {region, start};
	size_t i = kedge__hash_find(&s->places, hash_of(region, start), is_seam, s, &key);

	return i == KEDGE__HASH_NONE ? NULL : &s->at[i];
}

static struct kedge__seam *seam_new(struct kedge__seams *s, size_t region, uint64_t start, uint64_t bytes)
{
	struct kedge__seam fresh = {.region = region, .start = start, .bytes = kedge__malloc(bytes)};

	if (!fresh.bytes)
		return NULL;
	if (!kedge__array_reserve(s, s->count + 1) || !kedge__hash_put(&s->places, hash_of(region, start), s->count)) {
		kedge__free(fresh.bytes);
		return NULL;
	}
	s->at[s->count] = fresh;
	return &s->at[s->count++];
}

/* The last one takes its number. */
static void seam_remove(struct kedge__seams *s, struct kedge__seam *gone)
{
	size_t i = (size_t)(gone - s->at), last = s->count - 1;

	kedge__hash_remove(&s->places, hash_of(gone->region, gone->start), i);
	if (i != last)
		kedge__hash_move(&s->places, hash_of(s->at[last].region, s->at[last].start), last, i);
	s->at[i] = s->at[last];
	s->count--;
}

int kedge__seam_add(struct kedge__seams *s, const struct kedge__seam_part *part, uint8_t **whole)
{
	struct kedge__seam *seam;
	int rc = 0;

	*whole = NULL;
	pthread_mutex_lock(&s->lock);
	seam = seam_find(s, part->region, part->start);
	if (!seam)
		seam = seam_new(s, part->region, part->start, part->unit);
	if (seam) {
		memcpy(seam->bytes + part->skip, part->data, part->bytes);
		seam->got += part->bytes;
	} else {
		rc = KEDGE_E_NOMEM;
	}
	if (seam && seam->got == part->unit) {
		*whole = seam->bytes;
		seam_remove(s, seam);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void kedge__seams_clear(struct kedge__seams *s)
{
	for (size_t i = 0; i < s->count; i++)
		kedge__free(s->at[i].bytes);
	kedge__array_done(s);
	kedge__hash_done(&s->places);
}
