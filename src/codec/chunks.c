/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/chunks.h"

#define PLACES     32  /* that are looked at to find chunks */
#define CALM       4   /* what is calm counts as much as restless places do on an average, by this */
#define LOOK_EVERY 256 /* bytes: a word is compared with the one before it */

struct region {
	const struct kedge__codec_input *pieces;
	size_t count, bytes; /* of a chunk */
	bool base;
};

/* How many of some words of a chunk are not that before them. */
static unsigned unrest(const struct kedge__chunk *c, size_t from, size_t to)
{
	unsigned n = 0;

	for (size_t i = from + 8; i + 8 <= to; i += LOOK_EVERY)
		n += kedge__get64(c->raw + i) != kedge__get64(c->raw + i - 8);
	return n;
}

size_t kedge__chunk_part_bytes(const struct kedge__chunk *c)
{
	size_t part = c->bytes / KEDGE__CHUNK_PART / 64 * 64;

	return KEDGE__MIN(c->bytes, KEDGE__MAX(part, (size_t)KEDGE__CHUNK_LEAST));
}

static size_t find_part(const struct kedge__chunk *c)
{
	size_t n = kedge__chunk_part_bytes(c), best = 0;
	unsigned most = 0;

	for (size_t at = 0; at + n <= c->bytes; at += n) {
		unsigned r = unrest(c, at, at + n);

		if (r > most) {
			most = r;
			best = at;
		}
	}
	return best;
}

static size_t chunks_of(const struct region *r, const struct kedge__codec_input *piece)
{
	return piece->bytes ? KEDGE__MAX(piece->bytes / r->bytes, (size_t)1) : 0;
}

/* Chunk I of all that the pieces could be cut into. */
static struct kedge__chunk chunk_at(const struct region *r, size_t i)
{
	const struct kedge__codec_input *piece = r->pieces;
	struct kedge__chunk c = {0};

	for (; i >= chunks_of(r, piece); piece++)
		i -= chunks_of(r, piece);
	c.raw = (const uint8_t *)piece->raw + i * r->bytes;
	c.base = r->base ? (const uint8_t *)piece->base + i * r->bytes : NULL;
	c.bytes = KEDGE__MIN(piece->bytes - i * r->bytes, r->bytes);
	return c;
}

/* Places from all over, from the calmest to the most restless, each with how many of its words are not calm; how many
 * places. */
static size_t find_places(const struct region *r, struct kedge__chunk places[PLACES], unsigned rest[PLACES])
{
	size_t all = 0, n;

	for (size_t i = 0; i < r->count; i++)
		all += chunks_of(r, &r->pieces[i]);
	n = KEDGE__MIN(all, (size_t)PLACES);
	for (size_t i = 0; i < n; i++) {
		const struct kedge__chunk c = chunk_at(r, i * all / n);
		unsigned words = unrest(&c, 0, c.bytes);
		size_t k = i;

		for (; k > 0 && rest[k - 1] > words; k--) {
			rest[k] = rest[k - 1];
			places[k] = places[k - 1];
		}
		rest[k] = words;
		places[k] = c;
	}
	return n;
}

size_t kedge__chunks_take(const struct kedge__codec_input *pieces, size_t count, bool base, size_t bytes, size_t wanted,
			  struct kedge__chunk chunks[KEDGE__CHUNKS])
{
	const struct region r = {pieces, count, bytes, base};
	struct kedge__chunk places[PLACES];
	unsigned rest[PLACES], least;
	size_t n = find_places(&r, places, rest), from = 0, taken = 0;
	uint64_t all = 0, mass = 0;

	wanted = KEDGE__MIN(wanted, n);
	for (size_t k = 0; k < n; k++)
		all += rest[k];
	least = (unsigned)(all / n / CALM) + 1;
	all += n * (uint64_t)least;
	for (size_t k = 0; k < n; k++) {
		uint64_t group = mass * wanted / all;

		mass += rest[k] + least;
		if (k + 1 < n && mass * wanted / all == group)
			continue;
		chunks[taken] = places[(from + k + 1) / 2];
		chunks[taken].weight = (double)(k + 1 - from);
		chunks[taken].part = find_part(&chunks[taken]);
		taken++;
		from = k + 1;
	}
	return taken;
}
