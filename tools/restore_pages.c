/* SPDX-License-Identifier: BSD-3-Clause */
/* restore_pages: the two files of a page image, as they were saved. */
#include "restore_pages.h"
#include "tool_pages.h"

struct work {
	const struct kedge__restore_pages *r;
	struct kedge__page_places places;
	struct kedge__page_place *pages; /* ascending by address */
	size_t count;
	const char *index;
	char *data; /* names of the outputs */
};

/* To be asked for again after each fill, which may turn to another copy of the segment. */
static const struct kedge__segment *top_of(const struct work *w)
{
	return kedge__lineage_top(w->r->lineage);
}

static bool region_find(const struct kedge__segment *top, const char *name, size_t *i)
{
	for (*i = 0; *i < top->region_count; ++*i)
		if (strcmp(top->regions[*i].name, name) == 0)
			return true;
	return false;
}

static int fill(const struct work *w, size_t region, void *data, struct kedge__restore_stats *stats,
		struct kedge__error *err)
{
	struct kedge__restore_target target = {region, data, NULL, false};
	struct kedge__restore_stats more = {0};
	int rc = kedge__restore_fill(w->r->lineage, w->r->pool, w->r->io, &target, 1, kedge__bar_update, w->r->bar,
				     &more, err);

	stats->bytes_read += more.bytes_read;
	return rc;
}

/* *IMAGE: the regions are those of a page image, and not of files that have these names. */
static int read_index(struct work *w, bool *image, struct kedge__restore_stats *stats, struct kedge__error *err)
{
	size_t index, pages;
	uint64_t bytes, *words;
	int rc;

	*image = false;
	if (!region_find(top_of(w), KEDGE__PAGES_INDEX, &index) || !region_find(top_of(w), KEDGE__PAGES_REGION, &pages))
		return 0;
	bytes = top_of(w)->regions[index].bytes;
	if (bytes < KEDGE__PAGES_HEAD * sizeof(*words))
		return 0;
	words = kedge__malloc(bytes);
	rc = words ? fill(w, index, words, stats, err) : kedge__error_nomem(err);
	if (rc == 0 && words[0] == KEDGE__PAGES_MAGIC) {
		rc = kedge__page_places_take(words, bytes, &w->places, err);
		*image = true;
		if (rc == 0 && w->places.count * KEDGE__PAGE_BYTES != top_of(w)->regions[pages].bytes)
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					      "%s: region '%s' has %llu bytes, which does not match its %zu pages",
					      top_of(w)->path, KEDGE__PAGES_REGION,
					      (unsigned long long)top_of(w)->regions[pages].bytes, w->places.count);
	}
	if (!w->places.words)
		kedge__free(words);
	return rc;
}

static int add_output(const struct work *w, const char *name, size_t bytes, void **data, struct kedge__error *err)
{
	const struct kedge__output_spec spec = {.rank = w->r->folder, .name = name, .bytes = bytes};
	int rc = 0;

	if (kedge__segment_find_region(top_of(w), name))
		rc = kedge__error_set(err, KEDGE_E_MISMATCH, 0,
				      "the version also has a file '%s': give the page image another name with --pages",
				      name);
	if (rc == 0)
		rc = kedge__outputs_add(w->r->outputs, &spec, data, err);
	if (rc)
		*w->r->output_failed = true;
	return rc;
}

static int write_index(const struct work *w, struct kedge__error *err)
{
	void *data;
	int rc = add_output(w, w->index, w->count * sizeof(uint64_t), &data, err);

	for (size_t i = 0; rc == 0 && i < w->count; i++)
		kedge__put64((uint8_t *)data + i * sizeof(uint64_t), w->pages[i].address);
	return rc;
}

static bool in_order(const struct work *w)
{
	if (w->count != w->places.count)
		return false;
	for (size_t i = 0; i < w->count; i++)
		if (w->pages[i].place != i)
			return false;
	return true;
}

static int write_pages(const struct work *w, struct kedge__restore_stats *stats, struct kedge__error *err)
{
	size_t bytes = w->places.count * KEDGE__PAGE_BYTES, region;
	uint8_t *placed;
	void *data;
	int rc = add_output(w, w->data, w->count * KEDGE__PAGE_BYTES, &data, err);

	region_find(top_of(w), KEDGE__PAGES_REGION, &region);
	if (rc || in_order(w))
		return rc ? rc : fill(w, region, data, stats, err);
	placed = kedge__map_alloc(bytes);
	rc = placed ? fill(w, region, placed, stats, err) : kedge__error_nomem(err);
	for (size_t i = 0; rc == 0 && i < w->count; i++)
		memcpy((uint8_t *)data + i * KEDGE__PAGE_BYTES, placed + w->pages[i].place * KEDGE__PAGE_BYTES,
		       KEDGE__PAGE_BYTES);
	kedge__map_free(placed, bytes);
	return rc;
}

int kedge__restore_pages(const struct kedge__restore_pages *r, struct kedge__restore_stats *stats, size_t *count,
			 struct kedge__error *err)
{
	struct work w = {.r = r, .index = r->name};
	bool image;
	int rc = read_index(&w, &image, stats, err);

	*count = 0;
	if (rc || !image) {
		kedge__page_places_done(&w.places);
		return rc;
	}
	w.data = kedge__page_data_path(w.index);
	w.count = kedge__page_places_sorted(&w.places, &w.pages);
	rc = write_index(&w, err);
	if (rc == 0)
		rc = write_pages(&w, stats, err);
	if (rc == 0)
		*count = w.count;
	kedge__free(w.pages);
	kedge__free(w.data);
	kedge__page_places_done(&w.places);
	return rc;
}
