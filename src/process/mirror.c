/* SPDX-License-Identifier: BSD-3-Clause */
/* mirror: where the pages of a process are in the region `pages`. */
#include "process/process.h"

#include <stdlib.h>

#define ROOM_LEAST   256 /* places */
#define PLACES_STEP  16  /* the regions grow by so many places, */
#define PLACES_SHARE 32  /* or by up to this part of them */

size_t kedge__process_mirror_index_bytes(const struct kedge__process_mirror *m)
{
	return (KEDGE__PAGES_HEAD + m->places) * sizeof(*m->index);
}

/* Where a part of the memory is watched, the kernel takes it for two mappings, and cannot move them as one. */
static uint8_t *grow_pages(const struct kedge__process_mirror *m, size_t room)
{
	size_t had = m->room * KEDGE__PAGE_BYTES, bytes = room * KEDGE__PAGE_BYTES;
	uint8_t *pages = m->pages ? kedge__map_grow(m->pages, had, bytes) : NULL;

	if (pages)
		return pages;
	pages = kedge__map_alloc(bytes);
	if (pages && m->pages) {
		memcpy(pages, m->pages, m->places * KEDGE__PAGE_BYTES);
		kedge__map_free(m->pages, had);
	}
	return pages;
}

/* Room for PLACES in both regions; what is there stays. */
static int reserve(struct kedge__process_mirror *m, size_t places, struct kedge__error *err)
{
	size_t room = KEDGE__MAX(KEDGE__MAX(places, m->room + m->room / 2), (size_t)ROOM_LEAST);
	uint64_t *index;
	uint8_t *pages;

	if (places <= m->room)
		return 0;
	index = kedge__reallocarray(m->index, KEDGE__PAGES_HEAD + room, sizeof(*index));
	if (!index)
		return kedge__error_nomem(err);
	m->index = index;
	index[0] = KEDGE__PAGES_MAGIC;
	index[1] = KEDGE__PAGE_BYTES;
	pages = grow_pages(m, room);
	if (!pages)
		return kedge__error_nomem(err);
	m->pages = pages;
	m->room = room;
	return 0;
}

static size_t count_pages(const struct kedge__range *runs, size_t n)
{
	size_t pages = 0;

	for (size_t i = 0; i < n; i++)
		pages += (size_t)(runs[i].len / KEDGE__PAGE_BYTES);
	return pages;
}

/* The pages of RUNS in ascending order, with the places that they have; SIZE_MAX: none yet. Pages that went away leave
 * zeros. */
static size_t merge(struct kedge__process_mirror *m, const struct kedge__range *runs, size_t n,
		    struct kedge__process_place *out)
{
	uint64_t *at = m->index + KEDGE__PAGES_HEAD;
	size_t old = 0, count = 0;

	for (size_t i = 0; i < n; i++) {
		for (uint64_t address = runs[i].start; address < runs[i].start + runs[i].len;
		     address += KEDGE__PAGE_BYTES) {
			for (; old < m->count && m->sorted[old].address < address; old++) {
				at[m->sorted[old].place] = KEDGE__PAGES_FREE;
				memset(m->pages + m->sorted[old].place * KEDGE__PAGE_BYTES, 0, KEDGE__PAGE_BYTES);
			}
			out[count].address = address;
			out[count++].place =
			    old < m->count && m->sorted[old].address == address ? m->sorted[old++].place : SIZE_MAX;
		}
	}
	for (; old < m->count; old++) {
		at[m->sorted[old].place] = KEDGE__PAGES_FREE;
		memset(m->pages + m->sorted[old].place * KEDGE__PAGE_BYTES, 0, KEDGE__PAGE_BYTES);
	}
	return count;
}

/*
 * A region that has another size than in the last version is compared from its beginning to its end. So there is some
 * room behind the last page, which is kept as long as it is neither too little nor too much.
 */
static size_t round_places(const struct kedge__process_mirror *m, size_t used)
{
	size_t step = PLACES_STEP;
	size_t rounded;

	while (step < used / PLACES_SHARE)
		step *= 2;
	rounded = (used + step - 1) / step * step;
	return m->places >= rounded && m->places - rounded <= 2 * step ? m->places : rounded;
}

int kedge__process_mirror_arrange(struct kedge__process_mirror *m, const struct kedge__range *runs, size_t n,
				  struct kedge__error *err)
{
	size_t pages = count_pages(runs, n), next = 0, places = m->places, rounded;
	struct kedge__process_place *sorted = kedge__calloc(pages + 1, sizeof(*sorted));
	int rc = sorted ? reserve(m, (places + pages) * 17 / 16 + PLACES_STEP, err) : kedge__error_nomem(err);
	uint64_t *at;

	if (rc) {
		kedge__free(sorted);
		return rc;
	}
	m->count = merge(m, runs, n, sorted);
	kedge__free(m->sorted);
	m->sorted = sorted;
	at = m->index + KEDGE__PAGES_HEAD;
	for (size_t i = 0; i < m->count; i++) {
		if (sorted[i].place != SIZE_MAX)
			continue;
		while (next < places && at[next] != KEDGE__PAGES_FREE)
			next++;
		if (next == places)
			places++;
		sorted[i].place = next;
		at[next++] = sorted[i].address;
	}
	while (places > 0 && at[places - 1] == KEDGE__PAGES_FREE)
		places--;
	rounded = round_places(m, places);
	while (places < rounded)
		at[places++] = KEDGE__PAGES_FREE;
	m->places = rounded;
	return 0;
}

int kedge__process_mirror_prepare(struct kedge__process_mirror *m, uint64_t index_bytes, uint64_t page_bytes,
				  struct kedge__error *err)
{
	uint64_t places = index_bytes / sizeof(*m->index) - KEDGE__PAGES_HEAD;
	int rc;

	if (index_bytes % sizeof(*m->index) || index_bytes < KEDGE__PAGES_HEAD * sizeof(*m->index) ||
	    places * KEDGE__PAGE_BYTES != page_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "regions '%s' and '%s' do not fit each other",
					KEDGE__PAGES_REGION, KEDGE__PAGES_INDEX);
	rc = reserve(m, (size_t)places, err);
	if (rc)
		return rc;
	/* Behind the last page there are zeros. */
	if (m->places > places)
		memset(m->pages + places * KEDGE__PAGE_BYTES, 0, (size_t)(m->places - places) * KEDGE__PAGE_BYTES);
	m->places = (size_t)places;
	kedge__free(m->sorted);
	m->sorted = NULL;
	m->count = 0;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct kedge__process_place *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

int kedge__process_mirror_adopt(struct kedge__process_mirror *m, struct kedge__error *err)
{
	const uint64_t *at = m->index + KEDGE__PAGES_HEAD;
	struct kedge__process_place *sorted = kedge__calloc(m->places + 1, sizeof(*sorted));
	size_t n = 0;

	if (!sorted)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < m->places; i++)
		if (at[i] != KEDGE__PAGES_FREE)
			sorted[n++] = (struct kedge__process_place){at[i], i};
	qsort(sorted, n, sizeof(*sorted), by_address);
	kedge__free(m->sorted);
	m->sorted = sorted;
	m->count = n;
	if (m->index[0] != KEDGE__PAGES_MAGIC || m->index[1] != KEDGE__PAGE_BYTES)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "region '%s' is not a page index", KEDGE__PAGES_INDEX);
	for (size_t i = 0; i < n; i++)
		if (sorted[i].address % KEDGE__PAGE_BYTES || (i && sorted[i].address == sorted[i - 1].address))
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"region '%s': page 0x%llx is not aligned, or there twice",
						KEDGE__PAGES_INDEX, (unsigned long long)sorted[i].address);
	return 0;
}

void kedge__process_mirror_done(struct kedge__process_mirror *m)
{
	kedge__free(m->index);
	if (m->pages)
		kedge__map_free(m->pages, m->room * KEDGE__PAGE_BYTES);
	kedge__free(m->sorted);
	*m = (struct kedge__process_mirror){0};
}
