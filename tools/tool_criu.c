/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_criu: the images of CRIU as a page image: pages that were not written again are those of the images before. */
#include "tool_pages.h"

#include <stdlib.h>

struct level {
	struct kedge__criu_pagemap map;
	size_t data; /* which file of the image has the pages */
};

struct chain {
	struct kedge__page_image *image;
	KEDGE__ARRAY(struct level) levels; /* from the newest to the oldest */
	KEDGE__ARRAY(struct kedge__page_source) sources;
	KEDGE__ARRAY(uint64_t) addresses;
};

static char *beside(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	char *text = kedge__asprintf("%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);

	if (!text)
		kedge__tool_no_memory();
	return text;
}

/* PATH is owned by the image. */
static int add_file(struct kedge__page_image *image, char *path, struct kedge__error *err)
{
	if (!path || !kedge__array_push(&image->paths, path))
		kedge__tool_no_memory();
	return kedge__save_files_add(&image->files, path, err);
}

/* The last file of the image is a page map. */
static int read_map(struct kedge__page_image *image, struct kedge__criu_pagemap *map, struct kedge__error *err)
{
	const struct kedge__save_file *f = &image->files.at[image->files.count - 1];
	size_t bytes = (size_t)f->stat.st_size;
	uint8_t *data = kedge__malloc(bytes + 1);
	int rc;

	if (!data)
		kedge__tool_no_memory();
	rc = kedge__save_file_read(f, 0, data, bytes, err);
	if (!rc)
		rc = kedge__criu_pagemap_decode(data, bytes, map, err);
	kedge__free(data);
	return rc ? kedge__error_prefix(err, "%s", f->path) : 0;
}

static int add_data(struct kedge__page_image *image, const char *map_path, const char *data, struct level *l,
		    struct kedge__error *err)
{
	char name[32];
	uint64_t wanted = l->map.present * KEDGE__PAGE_BYTES;
	const struct kedge__save_file *f;
	int rc;

	if (l->map.present == 0)
		return 0;
	snprintf(name, sizeof(name), "pages-%u.img", l->map.pages_id);
	rc = add_file(image, data ? kedge__strdup(data) : beside(map_path, name), err);
	if (rc)
		return rc;
	l->data = image->files.count - 1;
	f = &image->files.at[l->data];
	if (l->map.present > UINT64_MAX / KEDGE__PAGE_BYTES || (uint64_t)f->stat.st_size != wanted)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%s has %llu bytes, but the %llu pages of %s take %llu",
					f->path, (unsigned long long)f->stat.st_size,
					(unsigned long long)l->map.present, map_path, (unsigned long long)wanted);
	return 0;
}

static bool is_twice(const struct kedge__save_files *files)
{
	const struct stat *last = &files->at[files->count - 1].stat;

	for (size_t i = 0; i + 1 < files->count; i++)
		if (files->at[i].stat.st_dev == last->st_dev && files->at[i].stat.st_ino == last->st_ino)
			return true;
	return false;
}

/* The page map of the images before those of PATH. */
static int add_parent(struct kedge__page_image *image, const char *path, struct kedge__error *err)
{
	const char *slash = strrchr(path, '/');
	char *dir = beside(path, "parent"), *real = realpath(dir, NULL);
	int rc;

	if (!real)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0,
				      "%s lacks pages that are in the images before, and there is no %s", path, dir);
	else
		rc = add_file(image, kedge__asprintf("%s/%s", real, slash ? slash + 1 : path), err);
	if (!rc && is_twice(&image->files))
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "%s leads back to images that come after it", dir);
	free(real);
	kedge__free(dir);
	return rc;
}

/* The page map that is open, its pages, and those before it as far as they are needed. */
static int add_levels(struct chain *c, const char *data, struct kedge__error *err)
{
	struct kedge__page_image *image = c->image;

	for (;; data = NULL) {
		const char *path = image->files.at[image->files.count - 1].path;
		struct level *l;
		int rc;

		if (!kedge__array_push(&c->levels, (struct level){0}))
			kedge__tool_no_memory();
		l = &c->levels.at[c->levels.count - 1];
		rc = read_map(image, &l->map, err);
		if (!rc)
			rc = add_data(image, path, data, l, err);
		if (!rc && l->map.needs_parent)
			rc = add_parent(image, path, err);
		if (rc || !l->map.needs_parent)
			return rc;
	}
}

static int add_page(struct chain *c, uint64_t address, struct kedge__error *err)
{
	for (size_t i = 0; i < c->levels.count; i++) {
		const struct level *l = &c->levels.at[i];
		const struct kedge__criu_run *run = kedge__criu_pagemap_find(&l->map, address);
		struct kedge__page_source source = {.file = l->data};

		if (!run)
			return kedge__error_set(err, KEDGE_E_ARG, 0,
						"%s: page 0x%llx should be in one of the images before, and is not",
						c->image->index_path, (unsigned long long)address);
		if (run->in_parent)
			continue;
		source.offset = run->first * KEDGE__PAGE_BYTES + (address - run->address);
		if (!kedge__array_push(&c->sources, source) || !kedge__array_push(&c->addresses, address))
			kedge__tool_no_memory();
		return 0;
	}
	return kedge__error_set(err, KEDGE_E_ARG, 0, "%s: page 0x%llx is in none of the images", c->image->index_path,
				(unsigned long long)address);
}

static int resolve(struct chain *c, struct kedge__error *err)
{
	const struct kedge__criu_pagemap *map = &c->levels.at[0].map;
	int rc = 0;

	for (size_t i = 0; i < map->runs.count; i++)
		for (uint64_t page = 0; !rc && page < map->runs.at[i].pages; page++)
			rc = add_page(c, map->runs.at[i].address + page * KEDGE__PAGE_BYTES, err);
	if (!rc && !c->addresses.count)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "%s lists no pages", c->image->index_path);
	return rc;
}

int kedge__page_image_open_criu(struct kedge__page_image *image, const char *data, struct kedge__error *err)
{
	struct chain c = {.image = image};
	int rc = add_levels(&c, data, err);

	if (!rc)
		rc = resolve(&c, err);
	for (size_t i = 0; i < c.levels.count; i++)
		kedge__criu_pagemap_done(&c.levels.at[i].map);
	kedge__array_done(&c.levels);
	image->addresses = c.addresses.at;
	image->count = c.addresses.count;
	image->sources = c.sources.at;
	return rc;
}
