/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "Pages": the page table and the pointer file. All that is read is hostile. */
#include "format/pages_wire.h"

struct pages {
	struct kedge__map_decoder *d;
	uint64_t unit; /* bytes of a pattern */
	bool moves;
	uint64_t version;   /* that moves are from */
	uint64_t next, end; /* literals so far, of all */
	const uint8_t *pf;
	size_t pf_bytes, pf_at; /* at: where the pointers of the next page are */
	uint64_t pages, listed; /* in all regions; up to and with the last in the table */
	uint64_t elsewhere, elsewhere_max;
};

static int emit_next(struct pages *p, uint64_t len)
{
	uint64_t src = p->next;

	if (len > p->end - p->next)
		return kedge__map_damaged(p->d, "a literal lies outside the pattern sequence");
	p->next += len;
	return kedge__map_emit(p->d, KEDGE__EXTENT_LITERAL, len, src, 0);
}

static int emit_back(struct pages *p, uint64_t distance, uint64_t unit, uint64_t len)
{
	if (!distance || distance > p->next / unit || len > distance * unit)
		return kedge__map_damaged(p->d, "a back pointer does not point to a literal");
	return kedge__map_emit(p->d, KEDGE__EXTENT_LITERAL, len, p->next - distance * unit, 0);
}

static int emit_move(struct pages *p, const uint8_t *from, uint64_t page, uint64_t len)
{
	if (!p->moves)
		return kedge__map_damaged(p->d, "a move refers to no version");
	if (!from || *from * p->unit > KEDGE__PAGE_BYTES - len)
		return kedge__map_damaged(p->d, "a move starts outside the page");
	return kedge__map_emit(p->d, KEDGE__EXTENT_COPY, len, page + *from * p->unit, p->version);
}

static int emit_fill(struct pages *p, struct kedge__wire_in *in, uint64_t len)
{
	uint64_t pattern;

	if (!kedge__map_get_fill(in, &pattern))
		return kedge__map_damaged(p->d, "the pattern of a fill is not 1 or 8 bytes long");
	return kedge__map_emit(p->d, KEDGE__EXTENT_FILL, len, pattern, 0);
}

/* The bytes of a pointer's patterns, of LEFT that the page has; 0: none, or too many. */
static uint64_t pointer_bytes(struct pages *p, struct kedge__wire_in *in, uint64_t n, uint64_t left)
{
	uint64_t patterns = left / p->unit + (left % p->unit != 0);

	if (n == KEDGE__POINTER_ALL)
		return left;
	if (n == KEDGE__POINTER_MANY)
		n += kedge__wire_get_varint_max(in, KEDGE__PAGE_BYTES);
	return in->failed || n > patterns ? 0 : KEDGE__MIN(n * p->unit, left);
}

static int decode_pointer(struct pages *p, struct kedge__wire_in *in, uint64_t page, uint64_t left, uint64_t *len)
{
	const uint8_t *head = kedge__wire_get(in, 1);
	unsigned kind;

	if (!head)
		return kedge__map_damaged(p->d, "pointers lie outside the pointer file");
	kind = *head & ((1u << KEDGE__POINTER_KIND_BITS) - 1);
	*len = pointer_bytes(p, in, *head >> KEDGE__POINTER_KIND_BITS, left);
	if (!*len)
		return kedge__map_damaged(p->d, "a pointer extends beyond its page");
	switch (kind) {
	case KEDGE__POINTER_SAME:
		return kedge__map_emit(p->d, KEDGE__EXTENT_PARENT, *len, 0, 0);
	case KEDGE__POINTER_NEXT:
		return emit_next(p, *len);
	case KEDGE__POINTER_ZERO:
		return kedge__map_emit(p->d, KEDGE__EXTENT_FILL, *len, 0, 0);
	case KEDGE__POINTER_FILL:
		return emit_fill(p, in, *len);
	case KEDGE__POINTER_MOVE:
		return emit_move(p, kedge__wire_get(in, 1), page, *len);
	case KEDGE__POINTER_BACK:
		return emit_back(p, kedge__wire_get_varint(in), p->unit, *len);
	case KEDGE__POINTER_BACK_BYTES:
		return emit_back(p, kedge__wire_get_varint(in), 1, *len);
	default:
		return kedge__map_damaged(p->d, "a pointer is of unknown kind");
	}
}

/* How many patterns the pointer at AT has, if it is one or two bytes long, of LEFT; 0: it is not. *SIZE: how many
 * bytes. */
static inline uint64_t plain_patterns(const uint8_t *at, size_t left, size_t *size)
{
	uint64_t n = *at >> KEDGE__POINTER_KIND_BITS;

	*size = 1;
	if (n != KEDGE__POINTER_MANY)
		return n;
	*size = 2;
	return left > 1 && at[1] < 0x80 ? n + at[1] : 0;
}

/*
 * Pointers to what is as it was, and to literals that are next and come after something else: what most pages are made
 * of, so all this does for one is to store an extent. It stops at any other, and at what is wrong. How many bytes of
 * the page they are, of LEFT.
 */
static uint64_t decode_plain(struct pages *p, struct kedge__wire_in *in, uint64_t left, uint64_t *count)
{
	struct kedge__extent_map *map = &p->d->map;
	uint64_t base = kedge__map_address(p->d), done = 0;
	bool apart = false;
	size_t i = 0, size;

	for (; i < in->left && map->count < map->room; i += size, ++*count) {
		unsigned kind = in->at[i] & ((1u << KEDGE__POINTER_KIND_BITS) - 1);
		uint64_t len = plain_patterns(in->at + i, in->left - i, &size) * p->unit;

		if (!len || len > left - done)
			break;
		if (kind == KEDGE__POINTER_NEXT && apart && len <= p->end - p->next) {
			map->at[map->count++] = (struct kedge__extent){
			    .addr = base + done, .len = len, .src = p->next, .kind = KEDGE__EXTENT_LITERAL};
			p->next += len;
		} else if (kind != KEDGE__POINTER_SAME) {
			break;
		}
		apart = kind == KEDGE__POINTER_SAME;
		done += len;
	}
	(void)kedge__wire_get(in, i);
	p->d->offset += done;
	return done;
}

/* One page by its pointers, from AT of the pointer file on; *END: where they end. */
static int decode_pointers(struct pages *p, size_t at, size_t *end, uint64_t *count)
{
	struct kedge__wire_in in = kedge__wire_in_init(p->pf + at, p->pf_bytes - at);
	uint64_t left = KEDGE__MIN(kedge__map_settle(p->d), KEDGE__PAGE_BYTES), page = kedge__map_address(p->d), len;
	int rc = 0;

	for (*count = 0; left > 0 && rc == 0; left -= len) {
		len = decode_plain(p, &in, left, count);
		if (len)
			continue;
		rc = decode_pointer(p, &in, page, left, &len);
		++*count;
	}
	*end = p->pf_bytes - in.left;
	return rc;
}

static int decode_here(struct pages *p, uint64_t count)
{
	uint64_t unused;
	int rc = 0;

	for (; count > 0 && rc == 0; count--)
		rc = decode_pointers(p, p->pf_at, &p->pf_at, &unused);
	return rc;
}

static int decode_elsewhere(struct pages *p, uint64_t count)
{
	uint64_t back = kedge__wire_get_varint(&p->d->in), pointers;
	size_t end;
	int rc;

	if (count != 1)
		return kedge__map_damaged(p->d, "a run of pages refers to pointers of another page");
	if (!back || back > p->pf_at)
		return kedge__map_damaged(p->d, "pointers lie outside the pointer file");
	rc = decode_pointers(p, p->pf_at - (size_t)back, &end, &pointers);
	p->elsewhere += pointers;
	if (rc == 0 && p->elsewhere > p->elsewhere_max)
		return kedge__map_damaged(p->d, "references to pointers of other pages expand into too many");
	return rc;
}

/* COUNT pages of one kind of extent, over region ends. */
static int decode_whole(struct pages *p, uint64_t count, bool fill, uint64_t pattern)
{
	int rc = 0;

	while (count > 0 && rc == 0) {
		uint64_t left = kedge__map_settle(p->d);
		uint64_t pages = left / KEDGE__PAGE_BYTES + (left % KEDGE__PAGE_BYTES != 0);
		uint64_t len = count >= pages ? left : count * KEDGE__PAGE_BYTES;

		rc = fill ? kedge__map_emit(p->d, KEDGE__EXTENT_FILL, len, pattern, 0) : emit_next(p, len);
		count -= KEDGE__MIN(count, pages);
	}
	return rc;
}

static int decode_pages(struct pages *p, enum kedge__page_kind kind, uint64_t count)
{
	uint64_t pattern;

	switch (kind) {
	case KEDGE__PAGE_LITERAL:
		return decode_whole(p, count, false, 0);
	case KEDGE__PAGE_CONSTANT:
		if (!kedge__map_get_fill(&p->d->in, &pattern))
			return kedge__map_damaged(p->d, "the pattern of a page is not 1 or 8 bytes long");
		return decode_whole(p, count, true, pattern);
	case KEDGE__PAGE_POINTERS:
		return decode_here(p, count);
	case KEDGE__PAGE_ELSEWHERE:
		break;
	}
	return decode_elsewhere(p, count);
}

static int decode_entry(struct pages *p)
{
	uint64_t head = kedge__wire_get_varint(&p->d->in), delta = head >> KEDGE__PAGE_DELTA_SHIFT, count = 1;
	int rc;

	if (head & KEDGE__PAGE_RUN)
		count = kedge__wire_get_varint_max(&p->d->in, p->pages) + 2;
	if (p->d->in.failed)
		return kedge__map_damaged(p->d, "an entry of the page table is malformed");
	if (delta == 0)
		return kedge__map_damaged(p->d, "a page is listed twice");
	if (delta > p->pages - p->listed || count > p->pages - p->listed - (delta - 1))
		return kedge__map_damaged(p->d, "a page lies outside all regions");
	rc = kedge__map_emit_gap(p->d, delta - 1, KEDGE__PAGE_BYTES);
	if (rc != 0)
		return rc;
	p->listed += delta - 1 + count;
	return decode_pages(p, (enum kedge__page_kind)(head & 3), count);
}

static int decode_head(struct pages *p, uint64_t self)
{
	struct kedge__wire_in *in = &p->d->in;
	uint64_t back = kedge__wire_get_varint(in);
	uint64_t bytes;

	p->end = kedge__wire_get_varint_max(in, KEDGE__IMAGE_BYTES_MAX);
	bytes = kedge__wire_get_varint(in);
	if (in->failed || back > self)
		return kedge__map_damaged(p->d, "the header of the pages is malformed");
	if (bytes > in->left)
		return kedge__map_damaged(p->d, "the pointer file is cut short");
	p->moves = back != 0;
	p->version = self - back;
	p->pf = kedge__wire_get(in, (size_t)bytes);
	p->pf_bytes = (size_t)bytes;
	p->elsewhere_max = kedge__pages_elsewhere_max(bytes + in->left);
	return 0;
}

int kedge__pages_decode(struct kedge__map_decoder *d, uint64_t self, uint64_t unit)
{
	struct pages p = {.d = d, .unit = unit};
	uint64_t left;
	int rc;

	for (size_t i = 0; i < d->region_count; i++)
		p.pages += d->regions[i].bytes / KEDGE__PAGE_BYTES + (d->regions[i].bytes % KEDGE__PAGE_BYTES != 0);
	rc = decode_head(&p, self);
	/* Most pointers have a byte, and become an extent at most. */
	if (rc == 0 && !kedge__array_reserve(&d->map, p.pf_bytes))
		rc = kedge__error_nomem(d->err);
	while (rc == 0 && d->in.left > 0)
		rc = decode_entry(&p);
	if (rc == 0 && p.next != p.end)
		rc = kedge__map_damaged(d, "the pattern sequence is longer than its pointers say");
	if (rc == 0 && p.pf_at != p.pf_bytes)
		rc = kedge__map_damaged(d, "some pointers belong to no page");
	while (rc == 0 && (left = kedge__map_settle(d)) > 0)
		rc = kedge__map_emit(d, KEDGE__EXTENT_PARENT, left, 0, 0);
	return rc;
}
