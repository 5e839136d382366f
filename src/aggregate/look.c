/* SPDX-License-Identifier: BSD-3-Clause */
/* A few pages of a file are kept, and what is read is counted, so that no file costs more than its size justifies. */
#include "aggregate/layout.h"

#define BUDGET_PART  16 /* times the size of the file */
#define BUDGET_LEAST (UINT64_C(1) << 20)
#define BUDGET_MOST  (UINT64_C(1) << 30)
#define GET_COST     16
#define PAGE_COST    1024

int kedge__look_init(struct kedge__look *l, const struct kedge__contents *file, struct kedge__error *err)
{
	*l = (struct kedge__look){.file = file};
	l->budget = BUDGET_LEAST + KEDGE__MIN(file->bytes, BUDGET_MOST / BUDGET_PART) * BUDGET_PART;
	l->pages = kedge__malloc(KEDGE__LOOK_PAGE * KEDGE__LOOK_PAGES);
	return l->pages ? 0 : kedge__error_nomem(err);
}

void kedge__look_done(struct kedge__look *l)
{
	kedge__free(l->pages);
	l->pages = NULL;
}

static bool spend(struct kedge__look *l, uint64_t cost)
{
	bool enough = l->budget >= cost;

	l->budget -= enough ? cost : l->budget;
	return enough;
}

static const uint8_t *page_at(struct kedge__look *l, uint64_t number)
{
	size_t slot = (size_t)(number % KEDGE__LOOK_PAGES);
	uint8_t *page = l->pages + slot * KEDGE__LOOK_PAGE;
	uint64_t offset = number * KEDGE__LOOK_PAGE;
	size_t bytes = (size_t)KEDGE__MIN((uint64_t)KEDGE__LOOK_PAGE, l->file->bytes - offset);

	if (l->number[slot] == number + 1)
		return page;
	l->number[slot] = 0;
	if (!spend(l, PAGE_COST) || l->file->read(l->file->ctx, offset, page, bytes, NULL) != 0)
		return NULL;
	l->number[slot] = number + 1;
	return page;
}

bool kedge__look_at(struct kedge__look *l, uint64_t offset, void *to, size_t bytes)
{
	uint8_t *out = to;

	if (offset > l->file->bytes || bytes > l->file->bytes - offset || !spend(l, bytes + GET_COST))
		return false;
	while (bytes) {
		const uint8_t *page = page_at(l, offset / KEDGE__LOOK_PAGE);
		size_t skip = (size_t)(offset % KEDGE__LOOK_PAGE), n = KEDGE__MIN(KEDGE__LOOK_PAGE - skip, bytes);

		if (!page)
			return false;
		memcpy(out, page + skip, n);
		out += n;
		offset += n;
		bytes -= n;
	}
	return true;
}

const uint8_t *kedge__fields_skip(struct kedge__fields *f, size_t bytes)
{
	const uint8_t *at = f->at;

	if (f->bad || bytes > f->left) {
		f->bad = true;
		return NULL;
	}
	f->at += bytes;
	f->left -= bytes;
	return at;
}

uint64_t kedge__fields_get(struct kedge__fields *f, unsigned width)
{
	const uint8_t *at = kedge__fields_skip(f, width);
	uint64_t v = 0;

	for (unsigned i = 0; at && i < width; i++)
		v |= (uint64_t)at[i] << 8 * i;
	return v;
}

uint64_t kedge__fields_get_big(struct kedge__fields *f, unsigned width)
{
	const uint8_t *at = kedge__fields_skip(f, width);
	uint64_t v = 0;

	for (unsigned i = 0; at && i < width; i++)
		v = v << 8 | at[i];
	return v;
}
