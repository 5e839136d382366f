/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_pages: page images in files, and the places of their pages in a store. */
#include "tool_pages.h"
#include <stdlib.h>

/* ------------------------------------------------------------------ the files */

char *kedge__page_data_path(const char *index)
{
	size_t n = strlen(index);
	char *path;

	if (n < 5 || strcmp(index + n - 4, ".idx") != 0 || index[n - 5] == '/')
		return NULL;
	path = kedge__asprintf("%.*s.pages", (int)(n - 4), index);
	if (!path)
		kedge__tool_no_memory();
	return path;
}

static int check_entry(const struct kedge__page_image *image, size_t i, struct kedge__error *err)
{
	unsigned long long at = image->addresses[i], before = i ? image->addresses[i - 1] : 0;

	if (at % KEDGE__PAGE_BYTES)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%s: entry %zu: address 0x%llx is not a multiple of %zu",
					image->index_path, i, at, KEDGE__PAGE_BYTES);
	if (i && at == before)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%s: entry %zu: page 0x%llx is listed twice",
					image->index_path, i, at);
	if (i && at < before)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "%s: entry %zu: page 0x%llx comes after 0x%llx; sort the addresses in ascending order",
		    image->index_path, i, at, before);
	return 0;
}

static int check_index(struct kedge__page_image *image, uint64_t bytes, struct kedge__error *err)
{
	int rc = 0;

	if (bytes == 0)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%s is empty: it lists no pages", image->index_path);
	if (bytes % sizeof(uint64_t))
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0, "%s: entry %llu is truncated: the size, %llu bytes, is not a multiple of 8",
		    image->index_path, (unsigned long long)(bytes / sizeof(uint64_t)), (unsigned long long)bytes);
	image->count = bytes / sizeof(uint64_t);
	for (size_t i = 0; rc == 0 && i < image->count; i++)
		rc = check_entry(image, i, err);
	return rc;
}

static int check_data(const struct kedge__page_image *image, uint64_t bytes, struct kedge__error *err)
{
	uint64_t wanted = (uint64_t)image->count * KEDGE__PAGE_BYTES;

	if (bytes < wanted)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "%s ends within page %llu: it has %llu bytes, but the %zu pages of %s take %llu", image->data_path,
		    (unsigned long long)(bytes / KEDGE__PAGE_BYTES), (unsigned long long)bytes, image->count,
		    image->index_path, (unsigned long long)wanted);
	if (bytes > wanted)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "%s continues after the last page: it has %llu bytes, but the %zu pages of %s take %llu",
		    image->data_path, (unsigned long long)bytes, image->count, image->index_path,
		    (unsigned long long)wanted);
	return 0;
}

static int check_image(struct kedge__page_image *image, struct kedge__error *err)
{
	const struct kedge__save_file *index = &image->files.at[0], *data = &image->files.at[1];
	int rc;

	image->addresses = kedge__malloc((size_t)index->stat.st_size + 1);
	if (!image->addresses)
		kedge__tool_no_memory();
	rc = kedge__save_file_read(index, 0, image->addresses, (size_t)index->stat.st_size, err);
	if (!rc)
		rc = check_index(image, (uint64_t)index->stat.st_size, err);
	return rc ? rc : check_data(image, (uint64_t)data->stat.st_size, err);
}

static int open_data(struct kedge__page_image *image, const char *data, struct kedge__error *err)
{
	int rc;

	image->data_path = data ? kedge__strdup(data) : kedge__page_data_path(image->index_path);
	if (data && !image->data_path)
		kedge__tool_no_memory();
	if (!image->data_path)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"%s does not end in .idx: name the file of page data with --page-data",
					image->index_path);
	rc = kedge__save_files_add(&image->files, image->data_path, err);
	return rc ? rc : check_image(image, err);
}

int kedge__page_image_open(struct kedge__page_image *image, const char *index, const char *data,
			   struct kedge__error *err)
{
	uint8_t head[KEDGE__CRIU_HEAD];
	int rc;

	image->index_path = kedge__strdup(index);
	if (!image->index_path)
		kedge__tool_no_memory();
	rc = kedge__save_files_add(&image->files, image->index_path, err);
	if (!rc && image->files.at[0].stat.st_size >= KEDGE__CRIU_HEAD)
		rc = kedge__save_file_read(&image->files.at[0], 0, head, sizeof(head), err);
	if (rc)
		return rc;
	/* No address begins like that. */
	if (image->files.at[0].stat.st_size >= KEDGE__CRIU_HEAD && kedge__criu_pagemap_is(head, sizeof(head)))
		return kedge__page_image_open_criu(image, data, err);
	return open_data(image, data, err);
}

void kedge__page_image_close(struct kedge__page_image *image)
{
	kedge__save_files_close(&image->files);
	for (size_t i = 0; i < image->paths.count; i++)
		kedge__free(image->paths.at[i]);
	kedge__array_done(&image->paths);
	kedge__free(image->addresses);
	kedge__free(image->sources);
	kedge__free(image->index_path);
	kedge__free(image->data_path);
	*image = (struct kedge__page_image){0};
}

/* ------------------------------------------------------------------ places */

static int by_address(const void *a, const void *b)
{
	const struct kedge__page_place *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

size_t kedge__page_places_sorted(const struct kedge__page_places *places, struct kedge__page_place **list)
{
	struct kedge__page_place *sorted = kedge__calloc(places->count + 1, sizeof(*sorted));
	const uint64_t *at = places->words ? places->words + KEDGE__PAGES_HEAD : NULL;
	size_t n = 0;

	if (!sorted)
		kedge__tool_no_memory();
	for (size_t i = 0; i < places->count; i++)
		if (at[i] != KEDGE__PAGES_FREE)
			sorted[n++] = (struct kedge__page_place){at[i], i};
	qsort(sorted, n, sizeof(*sorted), by_address);
	*list = sorted;
	return n;
}

static void places_init(struct kedge__page_places *places, size_t room)
{
	places->words = kedge__malloc((KEDGE__PAGES_HEAD + room) * sizeof(uint64_t));
	if (!places->words)
		kedge__tool_no_memory();
	places->words[0] = KEDGE__PAGES_MAGIC;
	places->words[1] = KEDGE__PAGE_BYTES;
	for (size_t i = 0; i < room; i++)
		places->words[KEDGE__PAGES_HEAD + i] = KEDGE__PAGES_FREE;
	places->count = room;
}

/* Pages that have a place keep it. The others come to the front of PENDING; their number. */
static size_t keep_places(const struct kedge__page_places *before, const struct kedge__page_image *image, uint64_t *at,
			  uint64_t *pending)
{
	struct kedge__page_place *old;
	size_t n = kedge__page_places_sorted(before, &old), j = 0, fresh = 0;

	for (size_t i = 0; i < image->count; i++) {
		uint64_t address = image->addresses[i];

		while (j < n && old[j].address < address)
			j++;
		if (j < n && old[j].address == address)
			at[old[j].place] = address;
		else
			pending[fresh++] = address;
	}
	kedge__free(old);
	return fresh;
}

void kedge__page_places_next(const struct kedge__page_places *before, const struct kedge__page_image *image,
			     struct kedge__page_places *out)
{
	uint64_t *pending = kedge__malloc(image->count * sizeof(*pending)), *at;
	size_t fresh, next = 0;

	if (!pending)
		kedge__tool_no_memory();
	places_init(out, before->count + image->count);
	at = out->words + KEDGE__PAGES_HEAD;
	fresh = keep_places(before, image, at, pending);
	for (size_t place = 0; next < fresh; place++)
		if (at[place] == KEDGE__PAGES_FREE)
			at[place] = pending[next++];
	while (at[out->count - 1] == KEDGE__PAGES_FREE)
		out->count--;
	kedge__free(pending);
}

int kedge__page_places_take(uint64_t *words, uint64_t bytes, struct kedge__page_places *out, struct kedge__error *err)
{
	struct kedge__page_places places = {words, bytes / sizeof(*words) - KEDGE__PAGES_HEAD};
	struct kedge__page_place *sorted;
	int rc = 0;
	size_t n;

	if (bytes % sizeof(*words) || bytes < KEDGE__PAGES_HEAD * sizeof(*words) || words[0] != KEDGE__PAGES_MAGIC)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "region '%s' is not a page index", KEDGE__PAGES_INDEX);
	if (words[1] != KEDGE__PAGE_BYTES)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0,
					"region '%s' has pages of %llu bytes, which this build does not support",
					KEDGE__PAGES_INDEX, (unsigned long long)words[1]);
	n = kedge__page_places_sorted(&places, &sorted);
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (sorted[i].address % KEDGE__PAGE_BYTES || (i && sorted[i].address == sorted[i - 1].address))
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "region '%s': page 0x%llx %s",
					      KEDGE__PAGES_INDEX, (unsigned long long)sorted[i].address,
					      sorted[i].address % KEDGE__PAGE_BYTES ? "is not aligned"
										    : "is listed twice");
	kedge__free(sorted);
	if (rc == 0)
		*out = places;
	return rc;
}

void kedge__page_places_done(struct kedge__page_places *places)
{
	kedge__free(places->words);
	*places = (struct kedge__page_places){0};
}

size_t kedge__page_places_bytes(const struct kedge__page_places *places)
{
	return (KEDGE__PAGES_HEAD + places->count) * sizeof(*places->words);
}

int kedge__page_places_fill(const struct kedge__page_places *places, const struct kedge__page_image *image,
			    uint8_t **out, struct kedge__error *err)
{
	uint8_t *data = kedge__map_alloc(places->count * KEDGE__PAGE_BYTES);
	struct kedge__page_place *sorted;
	size_t n = kedge__page_places_sorted(places, &sorted);
	int rc = 0;

	if (!data)
		kedge__tool_no_memory();
	/* Both are ascending, and hold the same pages. */
	for (size_t i = 0; i < n && !rc; i++) {
		struct kedge__page_source source = {1, i * KEDGE__PAGE_BYTES};

		if (image->sources)
			source = image->sources[i];
		rc = kedge__save_file_read(&image->files.at[source.file], source.offset,
					   data + sorted[i].place * KEDGE__PAGE_BYTES, KEDGE__PAGE_BYTES, err);
	}
	kedge__free(sorted);
	if (rc)
		kedge__map_free(data, places->count * KEDGE__PAGE_BYTES);
	else
		*out = data;
	return rc;
}
