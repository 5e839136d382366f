/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters of HDF5, and what several of them make of a chunk ("HDF5 File Format Specification Version 3.0", IV.A.2.l).
 */
#include "equal/equal.h"

/* ------------------------------------------------------------------ shuffle: bytes by their place in elements */

static size_t width_of(const struct kedge__plain_filter *f, size_t n)
{
	size_t width = f->count ? f->values[0] : 0;

	return width > 1 && n / width > 1 ? width : 1;
}

static bool shuffle_undo(const struct kedge__plain_filter *f, const uint8_t *in, size_t n, uint8_t *out, size_t room,
			 size_t *used)
{
	size_t width = width_of(f, n), count = n / width;

	if (n > room)
		return false;
	for (size_t k = 0; k < width; k++)
		for (size_t i = 0; i < count; i++)
			out[i * width + k] = in[k * count + i];
	memcpy(out + width * count, in + width * count, n - width * count);
	*used = n;
	return true;
}

static bool shuffle_apply(const struct kedge__plain_filter *f, enum kedge__effort effort, const uint8_t *in, size_t n,
			  uint8_t *out, size_t room, size_t *used)
{
	size_t width = width_of(f, n), count = n / width;

	(void)effort;
	if (n > room)
		return false;
	for (size_t k = 0; k < width; k++)
		for (size_t i = 0; i < count; i++)
			out[k * count + i] = in[i * width + k];
	memcpy(out + width * count, in + width * count, n - width * count);
	*used = n;
	return true;
}

/* ------------------------------------------------------------------ fletcher32: a checksum behind the bytes */

#define SUM_BYTES 4

static uint32_t fold(uint32_t sum)
{
	return (sum & 0xffff) + (sum >> 16);
}

static uint32_t fletcher32(const uint8_t *at, size_t n)
{
	uint32_t low = 0, high = 0;

	for (size_t words = n / 2; words;) {
		size_t now = KEDGE__MIN(words, (size_t)360);

		words -= now;
		for (; now; now--, at += 2) {
			low += (uint32_t)at[0] << 8 | at[1];
			high += low;
		}
		low = fold(low);
		high = fold(high);
	}
	if (n % 2) {
		low += (uint32_t)at[0] << 8;
		high += low;
		low = fold(low);
		high = fold(high);
	}
	return fold(high) << 16 | fold(low);
}

static bool fletcher_undo(const struct kedge__plain_filter *f, const uint8_t *in, size_t n, uint8_t *out, size_t room,
			  size_t *used)
{
	(void)f;
	if (n < 4 || n - 4 > room || kedge__get32(in + n - 4) != fletcher32(in, n - 4))
		return false;
	memcpy(out, in, n - 4);
	*used = n - 4;
	return true;
}

static bool fletcher_apply(const struct kedge__plain_filter *f, enum kedge__effort effort, const uint8_t *in, size_t n,
			   uint8_t *out, size_t room, size_t *used)
{
	(void)f;
	(void)effort;
	if (room < 4 || n > room - 4)
		return false;
	memcpy(out, in, n);
	kedge__put32(out + n, fletcher32(in, n));
	*used = n + 4;
	return true;
}

/* ------------------------------------------------------------------ all of them */

static const struct kedge__filter shuffle = {2, "shuffle", NULL, true, false, 0, shuffle_undo, shuffle_apply};
static const struct kedge__filter fletcher = {3,     "fletcher32", NULL,          true,
					      false, SUM_BYTES,    fletcher_undo, fletcher_apply};
static const struct kedge__filter *const filters[] = {&kedge__filter_deflate, &shuffle, &fletcher, &kedge__filter_szip};

const struct kedge__filter *kedge__filter_find(uint16_t id)
{
	for (size_t i = 0; i < KEDGE__COUNT(filters); i++)
		if (filters[i]->id == id)
			return filters[i];
	return NULL;
}

bool kedge__filters_built(void)
{
	return kedge__filter_deflate.built || kedge__filter_szip.built;
}

const struct kedge__filter *kedge__pipe_lacks(const struct kedge__plain_pipe *pipe)
{
	static const struct kedge__filter unknown = {.name = "a filter that this build does not know"};

	for (uint32_t i = 0; i < pipe->count; i++) {
		const struct kedge__filter *f = kedge__filter_find(pipe->filters[i].id);

		if (!f || !f->built)
			return f ? f : &unknown;
	}
	return NULL;
}

/* Two buffers, of which one has what the other will be made of. */
struct pair {
	uint8_t *at[2];
	size_t room;
	int last; /* the one that was filled last */
};

static bool pair_init(struct pair *p, size_t room)
{
	*p = (struct pair){.room = room};
	p->at[0] = kedge__malloc(room);
	p->at[1] = kedge__malloc(room);
	return p->at[0] && p->at[1];
}

/* With the last one as OUT, if RC is 0. */
static int pair_done(struct pair *p, int rc, size_t n, struct kedge__chunk_bytes *out)
{
	kedge__free(p->at[!p->last]);
	if (rc)
		kedge__free(p->at[p->last]);
	else
		*out = (struct kedge__chunk_bytes){p->at[p->last], n};
	return rc;
}

int kedge__pipe_undo(const struct kedge__plain_pipe *pipe, const uint8_t *in, size_t n, size_t most,
		     struct kedge__chunk_bytes *out)
{
	struct pair p;
	int rc = pair_init(&p, KEDGE__MAX(most, n) + 64) ? 0 : KEDGE_E_NOMEM;

	for (uint32_t i = pipe->count; !rc && i-- > 0;) {
		const struct kedge__filter *f = kedge__filter_find(pipe->filters[i].id);

		if (!f || !f->built || !f->undo(&pipe->filters[i], in, n, p.at[!p.last], p.room, &n))
			rc = KEDGE_E_DAMAGED;
		p.last = !p.last;
		in = p.at[p.last];
	}
	if (!rc && n > most)
		rc = KEDGE_E_DAMAGED;
	return pair_done(&p, rc, n, out);
}

/* How many bytes the last filter that packs may make, for PLACE bytes in the end; *LAST is that filter. */
static size_t room_for(const struct kedge__plain_pipe *pipe, size_t place, uint32_t *last)
{
	*last = pipe->count;
	for (uint32_t i = pipe->count; i-- > 0;) {
		const struct kedge__filter *f = kedge__filter_find(pipe->filters[i].id);

		if (!f || f->packs) {
			*last = i;
			break;
		}
		place -= KEDGE__MIN(place, f->adds);
	}
	return place;
}

int kedge__pipe_apply(const struct kedge__plain_pipe *pipe, enum kedge__effort effort, const uint8_t *in, size_t n,
		      size_t place, struct kedge__chunk_bytes *out)
{
	struct pair p;
	uint32_t last;
	size_t room = room_for(pipe, place, &last);
	int rc = pair_init(&p, KEDGE__MAX(kedge__plain_room(n), place)) ? 0 : KEDGE_E_NOMEM;

	for (uint32_t i = 0; !rc && i < pipe->count; i++) {
		const struct kedge__filter *f = kedge__filter_find(pipe->filters[i].id);

		if (!f || !f->built || !f->apply(&pipe->filters[i], effort, in, n, p.at[!p.last], p.room, &n))
			rc = KEDGE_E_DAMAGED;
		p.last = !p.last;
		in = p.at[p.last];
		if (!rc && i == last && n < room) {
			memset(p.at[p.last] + n, 0, room - n);
			n = room;
		}
	}
	return pair_done(&p, rc, n, out);
}
