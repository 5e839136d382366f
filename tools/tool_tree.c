/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool_tree.h"

int kedge__tool_tree_read(struct kedge__lineage *l, struct kedge__pool *pool, struct kedge__io io,
			  struct kedge__tree *tree, bool *present, uint64_t *bytes_read, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	const struct kedge__region_record *record = kedge__segment_find_region(top, KEDGE__TREE_REGION);
	struct kedge__restore_target target = {.data = NULL};
	struct kedge__restore_stats stats = {0};
	uint64_t bytes;
	int rc;

	*present = record;
	if (!record)
		return 0;
	bytes = record->bytes;
	target.region = (size_t)(record - top->regions);
	target.data = kedge__malloc(bytes + 1);
	if (!target.data)
		return kedge__error_nomem(err);
	rc = bytes ? kedge__restore_fill(l, pool, io, &target, 1, NULL, NULL, &stats, err) : 0;
	if (!rc)
		rc = kedge__tree_decode(target.data, bytes, tree, err);
	if (bytes_read)
		*bytes_read += stats.bytes_read;
	kedge__free(target.data);
	return rc;
}

const char *kedge__text_mode(const struct kedge__tree_entry *e, char text[KEDGE__MODE_ROOM])
{
	static const char kinds[] = "?-dl-pcbs", letters[] = "xwr";
	static const struct {
		unsigned bit;
		int at;
		char with, without; /* the right to execute */
	} special[] = {{04000, 3, 's', 'S'}, {02000, 6, 's', 'S'}, {01000, 9, 't', 'T'}};

	text[0] = e->kind < KEDGE__TREE_KINDS ? kinds[e->kind] : '?';
	for (int i = 0; i < 9; i++)
		text[9 - i] = '-';
	for (int i = 0; i < 9; i++)
		if (e->mode >> i & 1)
			text[9 - i] = letters[i % 3];
	for (size_t i = 0; i < KEDGE__COUNT(special); i++)
		if (e->mode & special[i].bit)
			text[special[i].at] = text[special[i].at] == 'x' ? special[i].with : special[i].without;
	text[10] = '\0';
	return text;
}

void kedge__tool_tree_join(struct kedge__tree *all, struct kedge__tree *from)
{
	size_t before = all->list.count;

	for (size_t i = 0; i < from->list.count; i++) {
		const struct kedge__tree known = {.list = {.at = all->list.at, .count = before}};

		if (kedge__tree_find(&known, from->list.at[i].name))
			continue;
		if (!kedge__array_push(&all->list, from->list.at[i]))
			kedge__tool_no_memory();
		from->list.at[i] = (struct kedge__tree_entry){0};
	}
	kedge__tree_sort(all);
}
