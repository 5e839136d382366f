/* SPDX-License-Identifier: BSD-3-Clause */
/* save_pages: a page image becomes two regions, its pages where they stood in the version before. */
#include "save_pages.h"

int kedge__save_pages_open(struct kedge__save_pages *p, const char *index, const char *data, struct kedge__error *err)
{
	return kedge__page_image_open(&p->image, index, data, err);
}

void kedge__save_pages_close(struct kedge__save_pages *p)
{
	kedge__map_free(p->data, p->places.count * KEDGE__PAGE_BYTES);
	p->data = NULL;
	kedge__page_places_done(&p->places);
	kedge__page_image_close(&p->image);
}

/* The newest version below VERSION, or KEDGE__NO_VERSION. */
static uint64_t version_before(kedge_t *k, uint64_t version)
{
	uint64_t found = KEDGE__NO_VERSION;
	struct kedge_version_info *list;
	size_t n;

	if (kedge_versions(k, &list, &n) != 0)
		return found;
	for (size_t i = 0; i < n && list[i].version < version; i++)
		found = list[i].version;
	kedge_free(list);
	return found;
}

/* The places of the pages in the version before. This only keeps the version small: if it
 * cannot be read, or is not a page image, it is ignored, and the new version is larger. */
static void read_places(kedge_t *k, uint64_t version, struct kedge__page_places *out)
{
	uint64_t before = version_before(k, version), *words;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge_region_info info;
	struct kedge_target target = {.name = KEDGE__PAGES_INDEX};

	if (before == KEDGE__NO_VERSION || kedge_region_stat(k, before, KEDGE__PAGES_INDEX, &info) != 0)
		return;
	words = kedge__malloc(info.bytes + 1);
	if (!words)
		kedge__tool_no_memory();
	target.ptr = words;
	target.room = info.bytes;
	if (kedge_read(k, before, &target, 1) != 0 || kedge__page_places_take(words, info.bytes, out, &err) != 0)
		kedge__free(words);
	kedge__error_done(&err);
}

int kedge__save_pages_protect(struct kedge__save_pages *p, kedge_t *k, uint64_t version, enum kedge_type type,
			      struct kedge__error *err)
{
	struct kedge__page_places before = {0};
	int rc;

	read_places(k, version, &before);
	kedge__page_places_next(&before, &p->image, &p->places);
	kedge__page_places_done(&before);
	rc = kedge__page_places_fill(&p->places, &p->image, &p->data, err);
	if (rc)
		return rc;
	rc = kedge_protect(k, KEDGE__PAGES_REGION, p->data, p->places.count * KEDGE__PAGE_BYTES / kedge_type_size(type),
			   type);
	if (rc == 0)
		rc = kedge_protect(k, KEDGE__PAGES_INDEX, p->places.words, KEDGE__PAGES_HEAD + p->places.count,
				   KEDGE_U64);
	return rc;
}

int kedge__save_pages_check(const struct kedge__save_pages *p, struct kedge__error *err)
{
	return kedge__save_files_check(&p->image.files, err);
}

bool kedge__save_pages_clash(const struct kedge__walk *walk, const char **path)
{
	for (size_t i = 0; i < walk->found.count; i++) {
		const char *region = walk->found.at[i].entry.name;

		*path = walk->found.at[i].path;
		if (strcmp(region, KEDGE__PAGES_REGION) == 0 || strcmp(region, KEDGE__PAGES_INDEX) == 0)
			return true;
	}
	return false;
}
