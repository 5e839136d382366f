/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "Pages": the page table and the pointer file. */
#include "format/pages_wire.h"

#define SHARED_SLOTS 4096

/* A piece of a page, in patterns, that one pointer is for. */
struct pointer {
	enum kedge__pointer_kind kind;
	uint64_t count; /* patterns */
	uint64_t value; /* fill, pattern of the other version, distance */
};

/* Consecutive pages that one entry of the table is for. */
struct page_run {
	enum kedge__page_kind kind;
	uint64_t first, count;
	uint64_t value; /* fill, distance back */
};

struct kedge__pages_encoder {
	struct kedge__bytes pointers, table;
	struct kedge__wire_out pf, pt;
	uint64_t unit; /* bytes of a pattern */
	bool unfit;    /* not a map by pages */
	bool moves;    /* there is a copy, from VERSION */
	uint64_t version;
	uint64_t next;                       /* end of the literals so far */
	uint64_t region_first, region_pages; /* pages of the region we are in */
	uint64_t listed;                     /* number of the last page in the table, + 1 */
	struct page_run run;
	size_t page_at; /* where the pointers of the page in progress begin */
	uint64_t page_pointers;
	uint64_t elsewhere;
	struct kedge__range shared[SHARED_SLOTS];
};

struct kedge__pages_encoder *kedge__pages_encoder_new(uint64_t unit)
{
	struct kedge__pages_encoder *p = kedge__calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->unit = unit;
	p->pf = kedge__wire_out_init(&p->pointers);
	p->pt = kedge__wire_out_init(&p->table);
	return p;
}

void kedge__pages_encoder_free(struct kedge__pages_encoder *p)
{
	if (!p)
		return;
	kedge__bytes_done(&p->pointers);
	kedge__bytes_done(&p->table);
	kedge__free(p);
}

/* ---- the page table */

static void run_flush(struct kedge__pages_encoder *p)
{
	const struct page_run *r = &p->run;

	if (!r->count)
		return;
	kedge__wire_put_varint(&p->pt, (r->first + 1 - p->listed) << KEDGE__PAGE_DELTA_SHIFT |
					   (r->count > 1 ? KEDGE__PAGE_RUN : 0) | (unsigned)r->kind);
	if (r->count > 1)
		kedge__wire_put_varint(&p->pt, r->count - 2);
	if (r->kind == KEDGE__PAGE_CONSTANT)
		kedge__map_put_fill(&p->pt, r->value);
	else if (r->kind == KEDGE__PAGE_ELSEWHERE)
		kedge__wire_put_varint(&p->pt, r->value);
	p->listed = r->first + r->count;
	p->run.count = 0;
}

static void pages_add(struct kedge__pages_encoder *p, struct page_run pages)
{
	struct page_run *r = &p->run;

	if (r->count && r->kind == pages.kind && r->first + r->count == pages.first && r->value == pages.value &&
	    r->kind != KEDGE__PAGE_ELSEWHERE) {
		r->count += pages.count;
		return;
	}
	run_flush(p);
	*r = pages;
}

/* ---- the pointer file */

static void pointer_put(struct kedge__pages_encoder *p, struct pointer x, bool last)
{
	uint64_t n = last ? KEDGE__POINTER_ALL : KEDGE__MIN(x.count, KEDGE__POINTER_MANY);
	uint8_t head = (uint8_t)((unsigned)x.kind | n << KEDGE__POINTER_KIND_BITS);

	kedge__wire_put(&p->pf, &head, 1);
	if (n == KEDGE__POINTER_MANY)
		kedge__wire_put_varint(&p->pf, x.count - KEDGE__POINTER_MANY);
	if (x.kind == KEDGE__POINTER_FILL)
		kedge__map_put_fill(&p->pf, x.value);
	else if (x.kind == KEDGE__POINTER_MOVE)
		kedge__wire_put(&p->pf, &(uint8_t){(uint8_t)x.value}, 1);
	else if (x.kind == KEDGE__POINTER_BACK || x.kind == KEDGE__POINTER_BACK_BYTES)
		kedge__wire_put_varint(&p->pf, x.value);
	p->page_pointers++;
}

/* Pointers that are the same as those of an earlier page are not stored again. */
static void page_close(struct kedge__pages_encoder *p, uint64_t page)
{
	size_t len = p->pointers.count - p->page_at;
	const uint8_t *text = p->pointers.at + p->page_at;
	struct page_run run = {KEDGE__PAGE_POINTERS, page, 1, 0};
	uint64_t most = kedge__pages_elsewhere_max(p->pointers.count + p->table.count);
	struct kedge__range *s;

	if (p->pf.failed)
		return;
	s = &p->shared[kedge__checksum(text, len) % SHARED_SLOTS];
	if (len > 2 && s->len == len && !memcmp(p->pointers.at + s->start, text, len) &&
	    p->elsewhere + p->page_pointers <= most) {
		run.kind = KEDGE__PAGE_ELSEWHERE;
		run.value = p->page_at - s->start;
		p->elsewhere += p->page_pointers;
		p->pointers.count = p->page_at;
	} else {
		*s = (struct kedge__range){p->page_at, len};
	}
	pages_add(p, run);
	p->page_pointers = 0;
}

/* ---- extents */

static struct pointer literal_pointer(struct kedge__pages_encoder *p, uint64_t src, uint64_t len)
{
	struct pointer x = {KEDGE__POINTER_NEXT, 0, 0};
	uint64_t back = p->next - src;

	if (!back) {
		p->next += len;
	} else if (src > p->next || len > back) {
		p->unfit = true;
	} else {
		x.kind = back % p->unit ? KEDGE__POINTER_BACK_BYTES : KEDGE__POINTER_BACK;
		x.value = back % p->unit ? back : back / p->unit;
	}
	return x;
}

static struct pointer copy_pointer(struct kedge__pages_encoder *p, const struct kedge__extent *e)
{
	uint64_t page = e->addr & ~(KEDGE__PAGE_BYTES - 1), from = e->src - page;

	if (from > KEDGE__PAGE_BYTES || e->len > KEDGE__PAGE_BYTES - from || from % p->unit ||
	    (p->moves && p->version != e->version))
		p->unfit = true;
	p->moves = true;
	p->version = e->version;
	return (struct pointer){KEDGE__POINTER_MOVE, 0, from / p->unit};
}

/* A piece of one page; LEFT is what the page has from its address on. */
static void piece_put(struct kedge__pages_encoder *p, const struct kedge__extent *e, uint64_t left, uint64_t page)
{
	bool begins = !(e->addr & (KEDGE__PAGE_BYTES - 1)), last = e->len == left;
	struct pointer x = {KEDGE__POINTER_SAME, 0, 0};

	if ((e->addr & (p->unit - 1)) || (!last && e->len % p->unit))
		p->unfit = true;
	if (begins)
		p->page_at = p->pointers.count;
	switch (e->kind) {
	case KEDGE__EXTENT_LITERAL:
		x = literal_pointer(p, e->src, e->len);
		break;
	case KEDGE__EXTENT_COPY:
		x = copy_pointer(p, e);
		break;
	case KEDGE__EXTENT_FILL:
		x.kind = e->src ? KEDGE__POINTER_FILL : KEDGE__POINTER_ZERO;
		x.value = e->src;
		break;
	case KEDGE__EXTENT_PARENT:
		break;
	}
	x.count = e->len / p->unit;
	pointer_put(p, x, last);
	if (last)
		page_close(p, page);
}

/* As many whole pages as E begins with become entries, or none; their bytes. END is that of the region. */
static uint64_t whole_pages(struct kedge__pages_encoder *p, const struct kedge__extent *e, uint64_t end, uint64_t page)
{
	uint64_t len = e->addr + e->len == end ? e->len : e->len / KEDGE__PAGE_BYTES * KEDGE__PAGE_BYTES;
	uint64_t count = len / KEDGE__PAGE_BYTES + (len % KEDGE__PAGE_BYTES != 0);
	struct page_run run = {KEDGE__PAGE_LITERAL, page, count, 0};

	if (e->addr & (KEDGE__PAGE_BYTES - 1) || e->kind == KEDGE__EXTENT_COPY ||
	    (e->kind == KEDGE__EXTENT_LITERAL && e->src != p->next))
		return 0;
	if (e->kind == KEDGE__EXTENT_LITERAL)
		p->next += len;
	if (e->kind == KEDGE__EXTENT_FILL) {
		run.kind = KEDGE__PAGE_CONSTANT;
		run.value = e->src;
	}
	if (count && e->kind != KEDGE__EXTENT_PARENT)
		pages_add(p, run);
	return len;
}

/* E is cut at pages, and where it goes on from literals that were there to new ones. */
static uint64_t piece_bytes(const struct kedge__pages_encoder *p, const struct kedge__extent *e, uint64_t page_end)
{
	uint64_t len = KEDGE__MIN(e->len, page_end - e->addr);

	if (e->kind == KEDGE__EXTENT_LITERAL && e->src < p->next)
		len = KEDGE__MIN(len, p->next - e->src);
	return len;
}

void kedge__pages_put(struct kedge__pages_encoder *p, struct kedge__extent e, uint64_t left)
{
	uint64_t offset = e.addr & (KEDGE__SLOT_BYTES - 1), end = e.addr + left;

	if (!offset) {
		p->region_first += p->region_pages;
		p->region_pages = left / KEDGE__PAGE_BYTES + (left % KEDGE__PAGE_BYTES != 0);
	}
	while (e.len && !p->unfit) {
		uint64_t page = p->region_first + (e.addr & (KEDGE__SLOT_BYTES - 1)) / KEDGE__PAGE_BYTES;
		uint64_t len = whole_pages(p, &e, end, page);

		if (!len) {
			uint64_t page_end = KEDGE__MIN((e.addr | (KEDGE__PAGE_BYTES - 1)) + 1, end);
			struct kedge__extent piece = e;

			piece.len = len = piece_bytes(p, &e, page_end);
			piece_put(p, &piece, page_end - e.addr, page);
		}
		e.addr += len;
		e.len -= len;
		if (e.kind != KEDGE__EXTENT_FILL)
			e.src += len;
	}
}

bool kedge__pages_finish(struct kedge__pages_encoder *p, uint64_t self, struct kedge__wire_out *out)
{
	run_flush(p);
	if (p->unfit || (p->moves && p->version >= self))
		return false;
	kedge__wire_put_varint(out, p->moves ? self - p->version : 0);
	kedge__wire_put_varint(out, p->next);
	kedge__wire_put_varint(out, p->pointers.count);
	kedge__wire_put(out, p->pointers.at, p->pointers.count);
	kedge__wire_put(out, p->table.at, p->table.count);
	out->failed = out->failed || p->pf.failed || p->pt.failed;
	return true;
}
