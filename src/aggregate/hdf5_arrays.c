/* SPDX-License-Identifier: BSD-3-Clause */
/* Indexes of chunks that are arrays: fixed ones, of datasets with fixed sizes, and those that grow in one dimension. */
#include "aggregate/hdf5.h"

#define ELEMENT_MAX 24
#define BLOCKS_MAX  128 /* super blocks of an extensible array: their sizes are powers of two */

struct array {
	struct kedge__h5 *h;
	const struct kedge__h5_elements *e;
	bool filtered;
	unsigned element;   /* bytes */
	uint64_t page;      /* elements of a page */
	uint64_t left;      /* elements that are still to come */
	uint64_t sum_from;  /* address of what has a checksum: */
	uint64_t sum_bytes; /* what elements are read from next */
};

/* Of a filtered chunk. */
static struct kedge__part_entry entry_at(const struct array *a, uint64_t address)
{
	return (struct kedge__part_entry){.address_at = a->h->base + address,
					  .size_at = a->h->base + address + a->h->offset,
					  .size_width = (uint8_t)(a->element - a->h->offset - 4),
					  .sum_from = a->h->base + a->sum_from,
					  .sum_bytes = (uint32_t)a->sum_bytes};
}

/* One after the other from ADDRESS on. */
static void elements(struct array *a, uint64_t address, uint64_t n)
{
	uint8_t text[ELEMENT_MAX];

	n = KEDGE__MIN(n, a->left);
	a->left -= n;
	for (uint64_t i = 0; i < n && !a->h->nomem; i++) {
		struct kedge__fields f = kedge__fields_of(text, a->element);
		struct kedge__h5_stored stored = {.bytes = a->e->chunk};

		if (!kedge__h5_at(a->h, address + i * a->element, text, a->element)) {
			a->left = 0;
			return;
		}
		stored.address = kedge__h5_address(a->h, &f);
		if (a->filtered) {
			stored.entry = entry_at(a, address + i * a->element);
			stored.bytes = kedge__fields_get(&f, stored.entry.size_width);
			stored.mask = (uint32_t)kedge__fields_get(&f, 4);
		}
		kedge__h5_chunk(a->h, a->e->variable, &stored);
	}
}

static bool element_set(struct array *a, uint64_t client, uint64_t bytes)
{
	unsigned o = a->h->offset;

	a->filtered = client == 1;
	a->element = (unsigned)bytes;
	if (client > 1 || bytes > ELEMENT_MAX)
		return false;
	return a->filtered ? bytes > o + 4 && bytes <= o + 12 : bytes == o && a->e->chunk;
}

/* Pages of N elements in all, each with a checksum at its end. Those that were never written have no meaning: their
 * addresses are not defined, or not in the file. */
static void pages(struct array *a, uint64_t address, uint64_t n, const uint8_t *written)
{
	for (uint64_t i = 0; n && a->left && !a->h->nomem; i++) {
		uint64_t count = KEDGE__MIN(n, a->page);

		a->sum_from = address;
		a->sum_bytes = count * a->element;
		if (!written || written[i / 8] & 0x80 >> i % 8)
			elements(a, address, count);
		else
			a->left -= KEDGE__MIN(count, a->left);
		address += count * a->element + 4;
		n -= count;
	}
}

/* ------------------------------------------------------------------ VII.C: fixed arrays */

void kedge__h5_fixed_array(struct kedge__h5 *h, uint64_t address, const struct kedge__h5_elements *e)
{
	struct array a = {.h = h, .e = e};
	uint8_t text[32], *written = NULL;
	size_t bytes = 8 + h->length + h->offset, prefix = 6 + h->offset, map;
	struct kedge__fields f = kedge__fields_of(text, bytes);
	uint64_t client, element, bits, block;

	if (!kedge__h5_at(h, address, text, bytes) || memcmp(text, "FAHD", 4) != 0)
		return;
	kedge__fields_skip(&f, 5);
	client = kedge__fields_get(&f, 1);
	element = kedge__fields_get(&f, 1);
	bits = kedge__fields_get(&f, 1);
	a.left = kedge__h5_length(h, &f);
	block = kedge__h5_address(h, &f);
	if (f.bad || bits > 32 || !kedge__h5_defined(h, block) || !element_set(&a, client, element) ||
	    a.left > h->look->file->bytes || !kedge__h5_at(h, block, text, 4) || memcmp(text, "FADB", 4) != 0)
		return;
	a.page = UINT64_C(1) << bits;
	if (a.left <= a.page) {
		a.sum_from = block;
		a.sum_bytes = prefix + a.left * a.element;
		elements(&a, block + prefix, a.left);
		return;
	}
	map = (size_t)((a.left + a.page - 1) / a.page + 7) / 8;
	written = kedge__malloc(map);
	if (!written)
		h->nomem = true;
	else if (kedge__h5_at(h, block + prefix, written, map))
		pages(&a, block + prefix + map + 4, a.left, written);
	kedge__free(written);
}

/* ------------------------------------------------------------------ VII.D: extensible arrays */

struct extensible {
	struct array a;
	unsigned offset_bytes;  /* of a place in the array */
	uint64_t first, direct; /* elements in the index block, and of the smallest data block */
	uint64_t pointers;      /* of data blocks that the smallest super block has */
	unsigned supers;
};

static bool has_signature(struct kedge__h5 *h, uint64_t address, const char *signature)
{
	uint8_t text[4];

	return kedge__h5_defined(h, address) && kedge__h5_at(h, address, text, 4) && memcmp(text, signature, 4) == 0;
}

static uint64_t pointer_at(struct kedge__h5 *h, uint64_t address)
{
	uint8_t text[8];
	struct kedge__fields f = kedge__fields_of(text, h->offset);

	return kedge__h5_at(h, address, text, h->offset) ? kedge__h5_address(h, &f) : UINT64_MAX;
}

/* A data block of N elements; those that are missing have none. WRITTEN: of its pages, by bits, the first at bit FIRST.
 */
static void data_block(struct extensible *x, uint64_t address, uint64_t n)
{
	uint64_t prefix = 6 + x->a.h->offset + x->offset_bytes;

	if (!has_signature(x->a.h, address, "EADB"))
		x->a.left -= KEDGE__MIN(n, x->a.left);
	else if (n > x->a.page)
		pages(&x->a, address + prefix + 4, n, NULL);
	else {
		x->a.sum_from = address;
		x->a.sum_bytes = prefix + n * x->a.element;
		elements(&x->a, address + prefix, n);
	}
}

/* Super block U: 2^(u/2) data blocks of 2^((u+1)/2) times the smallest. */
static uint64_t blocks_of(unsigned u)
{
	return UINT64_C(1) << u / 2;
}

static uint64_t elements_of(const struct extensible *x, unsigned u)
{
	return x->direct << (u + 1) / 2;
}

static void super_block(struct extensible *x, uint64_t address, unsigned u)
{
	struct kedge__h5 *h = x->a.h;
	uint64_t n = elements_of(x, u), at = address + 6 + h->offset + x->offset_bytes;

	if (!has_signature(h, address, "EASB")) {
		x->a.left -= KEDGE__MIN(n * blocks_of(u), x->a.left);
		return;
	}
	if (n > x->a.page)
		at += blocks_of(u) * ((n / x->a.page + 7) / 8);
	for (uint64_t i = 0; i < blocks_of(u) && x->a.left && !h->nomem; i++)
		data_block(x, pointer_at(h, at + i * h->offset), n);
}

static bool extensible_open(struct extensible *x, uint64_t address, uint64_t *index)
{
	struct kedge__h5 *h = x->a.h;
	uint8_t text[72];
	size_t bytes = 12 + 6 * h->length + h->offset;
	struct kedge__fields f = kedge__fields_of(text, bytes);
	uint64_t client, element, bits, page_bits;

	if (!kedge__h5_at(h, address, text, bytes) || memcmp(text, "EAHD", 4) != 0)
		return false;
	kedge__fields_skip(&f, 5);
	client = kedge__fields_get(&f, 1);
	element = kedge__fields_get(&f, 1);
	bits = kedge__fields_get(&f, 1);
	x->first = kedge__fields_get(&f, 1);
	x->direct = kedge__fields_get(&f, 1);
	x->pointers = kedge__fields_get(&f, 1);
	page_bits = kedge__fields_get(&f, 1);
	kedge__fields_skip(&f, 4 * (size_t)h->length);
	x->a.left = kedge__h5_length(h, &f); /* the highest that was ever set, + 1 */
	kedge__h5_length(h, &f);
	*index = kedge__h5_address(h, &f);
	if (f.bad || bits > 64 || page_bits > 32 || !x->direct || x->direct & (x->direct - 1) || !x->pointers ||
	    x->pointers & (x->pointers - 1) || !element_set(&x->a, client, element) || x->a.left > h->look->file->bytes)
		return false;
	x->a.page = UINT64_C(1) << page_bits;
	x->offset_bytes = (unsigned)(bits + 7) / 8;
	x->supers = 1 + (unsigned)bits - (unsigned)(63 - __builtin_clzll(x->direct));
	return bits >= (unsigned)(63 - __builtin_clzll(x->direct)) && x->supers <= BLOCKS_MAX;
}

/* How many addresses the index block has: of data blocks, and of super blocks. */
static uint64_t pointers_of(const struct extensible *x)
{
	uint64_t n = 0;

	for (unsigned u = 0; u < x->supers; u++)
		n += blocks_of(u) < x->pointers ? blocks_of(u) : 1;
	return n;
}

void kedge__h5_extensible_array(struct kedge__h5 *h, uint64_t address, const struct kedge__h5_elements *e)
{
	struct extensible x = {.a = {.h = h, .e = e}};
	uint64_t index, at;
	unsigned u;

	if (!extensible_open(&x, address, &index) || !has_signature(h, index, "EAIB"))
		return;
	at = index + 6 + h->offset;
	x.a.sum_from = index;
	x.a.sum_bytes = 6 + h->offset + x.first * x.a.element + pointers_of(&x) * h->offset;
	elements(&x.a, at, x.first);
	at += x.first * x.a.element;
	/* Super blocks with less data blocks than a smallest one has are not there: the index block has their
	 * addresses. */
	for (u = 0; u < x.supers && blocks_of(u) < x.pointers; u++)
		for (uint64_t i = 0; i < blocks_of(u) && !h->nomem; i++, at += h->offset)
			if (x.a.left)
				data_block(&x, pointer_at(h, at), elements_of(&x, u));
	for (; u < x.supers && u < 80 && x.a.left && !h->nomem; u++, at += h->offset)
		super_block(&x, pointer_at(h, at), u);
}
