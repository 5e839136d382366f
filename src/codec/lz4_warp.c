/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/lz4_warp.h"

#include "codec/matches.h"

#define KEEP 5 /* bytes at the end of a block that are never in a match, by the definition of the format */

struct output {
	uint8_t *at, *end;
};

/* What does not fit into the token's four bits, and how many bytes that is. */
static size_t rest_bytes(size_t length)
{
	return length < 15 ? 0 : 1 + (length - 15) / 255;
}

static void rest_put(struct output *o, size_t length)
{
	if (length < 15)
		return;
	for (length -= 15; length >= 255; length -= 255)
		*o->at++ = 255;
	*o->at++ = (uint8_t)length;
}

/* A token, with its literals and, unless it is the last, a match. False: there is no room for it. */
static bool sequence_put(struct output *o, const uint8_t *literals, size_t count, const struct kedge__match *match)
{
	size_t more = match ? match->length - KEDGE__MATCH_LEAST : 0;
	size_t need = 1 + rest_bytes(count) + count + (match ? 2 + rest_bytes(more) : 0);

	if (need > (size_t)(o->end - o->at))
		return false;
	*o->at++ = (uint8_t)(KEDGE__MIN(count, (size_t)15) << 4 | KEDGE__MIN(more, (size_t)15));
	rest_put(o, count);
	memcpy(o->at, literals, count);
	o->at += count;
	if (match) {
		kedge__put16(o->at, (uint16_t)match->distance);
		o->at += 2;
		rest_put(o, more);
	}
	return true;
}

size_t kedge__lz4_warp_encode(const uint8_t *raw, size_t bytes, uint8_t *out)
{
	struct output o = {out, out + bytes};
	struct kedge__matcher m;
	struct kedge__match found[KEDGE__MATCH_GROUP / KEDGE__MATCH_LEAST];
	size_t literals = 0, count; /* literals: where those begin that are not put yet */

	for (size_t at = 0; at < bytes; at += KEDGE__MATCH_PART) {
		kedge__matcher_init(&m, raw, bytes, at, KEEP);
		while (kedge__matcher_next(&m, found, &count)) {
			for (size_t i = 0; i < count; i++) {
				if (!sequence_put(&o, raw + literals, found[i].at - literals, &found[i]))
					return bytes;
				literals = found[i].at + found[i].length;
			}
		}
	}
	return sequence_put(&o, raw + literals, bytes - literals, NULL) ? (size_t)(o.at - out) : bytes;
}
