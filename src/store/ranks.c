/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks have files in a store. If storage is local to a node, a manifest also names segments of other nodes: a
 * rank without any file here is elsewhere; one that lacks a single file has lost it.
 */
#include "store/internal.h"

static int note_rank(struct kedge__rank_list *list, uint32_t rank, struct kedge__error *err)
{
	size_t before = list->room;

	if (!kedge__array_grow((void **)&list->here, &list->room, (size_t)rank + 1, sizeof(*list->here)))
		return kedge__error_nomem(err);
	memset(list->here + before, 0, (list->room - before) * sizeof(*list->here));
	list->found += rank < list->ranks && !list->here[rank];
	list->here[rank] = 1;
	return 0;
}

/* Without a set, nobody knows which ranks have a part in a bundle. */
static int note_bundle(struct kedge__rank_list *list, const struct kedge__catalog_entry *entry, uint32_t first,
		       struct kedge__error *err)
{
	uint32_t end = 0;
	int rc = 0;

	if (!entry->problem.code && first < entry->set.ranks)
		end = first + KEDGE__MIN(entry->set.bundle, entry->set.ranks - first);
	for (uint32_t rank = first; rank < end && !rc; rank++)
		rc = note_rank(list, rank, err);
	return rc;
}

static int note_directory(struct kedge__rank_list *list, const struct kedge__catalog_entry *entry, const char *dir,
			  struct kedge__error *err)
{
	uint32_t rank, generation;
	char **names;
	size_t count;
	int rc = 0;

	if (kedge__fs_list(dir, &names, &count, NULL) != 0)
		return 0;
	for (size_t i = 0; i < count && !rc; i++) {
		if (kedge__segment_file_parse(names[i], &rank, &generation))
			rc = note_rank(list, rank, err);
		else if (kedge__bundle_file_parse(names[i], &rank, &generation))
			rc = note_bundle(list, entry, rank, err);
	}
	kedge__fs_list_free(names, count);
	return rc;
}

int kedge__rank_list_init(struct kedge__rank_list *list, const struct kedge__catalog *cat, struct kedge__error *err)
{
	int rc = 0;

	*list = (struct kedge__rank_list){0};
	for (size_t i = 0; i < cat->entries.count; i++)
		if (!cat->entries.at[i]->problem.code)
			list->ranks = KEDGE__MAX(list->ranks, cat->entries.at[i]->set.ranks);
	if (cat->pack)
		return note_rank(list, 0, err);
	/* Usually the newest version has them all. */
	for (size_t i = cat->entries.count; i-- > 0 && !rc && list->found < list->ranks;) {
		char *dir = kedge__catalog_version_path(cat, cat->entries.at[i]->version);

		rc = dir ? note_directory(list, cat->entries.at[i], dir, err) : kedge__error_nomem(err);
		kedge__free(dir);
	}
	if (rc)
		kedge__rank_list_done(list);
	return rc;
}

void kedge__rank_list_done(struct kedge__rank_list *list)
{
	kedge__free(list->here);
	*list = (struct kedge__rank_list){0};
}

bool kedge__rank_list_has(const struct kedge__rank_list *list, uint32_t rank)
{
	return rank < list->room && list->here[rank];
}
