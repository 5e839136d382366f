/* SPDX-License-Identifier: BSD-3-Clause */
/* show_files: the files of a version, as ls -l and tar -tv list them. */
#include "show.h"
#include "tool_tree.h"
#include <sys/sysmacros.h>

static json_t *entry_json(const struct kedge__tree_entry *e)
{
	char mode[KEDGE__MODE_ROOM], time[KEDGE__TEXT_ROOM];
	json_t *o = kedge__json_object();

	kedge__json_text(o, "name", e->name);
	kedge__json_text(o, "mode", kedge__text_mode(e, mode));
	kedge__json_uint(o, "uid", e->uid);
	kedge__json_uint(o, "gid", e->gid);
	kedge__json_uint(o, "bytes", e->kind == KEDGE__TREE_FILE ? e->size : 0);
	kedge__json_text(o, "time", kedge__text_time_iso((uint64_t)e->mtime_ns, time));
	kedge__json_text(o, "target", e->target);
	if (e->kind == KEDGE__TREE_FILE)
		kedge__json_bool(o, "equal", e->flags & KEDGE__TREE_PLAIN);
	return o;
}

static void entry_text(struct kedge__table *t, const struct kedge__tree_entry *e)
{
	char mode[KEDGE__MODE_ROOM], time[KEDGE__TEXT_ROOM];
	char *name = kedge__text_name(e->name), *target = e->target ? kedge__text_name(e->target) : NULL;
	bool device = e->kind == KEDGE__TREE_CHARACTER || e->kind == KEDGE__TREE_BLOCK;

	kedge__table_text(t, kedge__text_mode(e, mode));
	kedge__table_add(t, "%u:%u", e->uid, e->gid);
	if (device)
		kedge__table_add(t, "%u,%u", major(e->size), minor(e->size));
	else
		kedge__table_number(t, e->kind == KEDGE__TREE_FILE ? e->size : 0);
	kedge__table_text(t, kedge__text_time((uint64_t)e->mtime_ns, time));
	kedge__table_add(t, "%s%s%s", name,
			 e->kind == KEDGE__TREE_SYMLINK ? " -> "
			 : target                       ? " link to "
			 : e->flags & KEDGE__TREE_PLAIN ? " (equal)"
							: "",
			 target ? target : "");
	kedge__free(name);
	kedge__free(target);
}

/* As far as a line can hold it. */
static void entry_name(const struct kedge__tree_entry *e)
{
	char *name = kedge__text_name(e->name);

	printf("%s%s\n", name, e->kind == KEDGE__TREE_DIRECTORY ? "/" : "");
	kedge__free(name);
}

static void print_tree(const struct kedge__show *s, const struct kedge__tree *tree)
{
	struct kedge__table t;
	json_t *list;

	if (s->place.json) {
		list = kedge__json_array();
		for (size_t i = 0; i < tree->list.count; i++)
			kedge__json_add(list, entry_json(&tree->list.at[i]));
		kedge__json_print(list);
		return;
	}
	for (size_t i = 0; s->place.quiet && i < tree->list.count; i++)
		entry_name(&tree->list.at[i]);
	if (s->place.quiet)
		return;
	kedge__table_init(&t, "llrll");
	for (size_t i = 0; i < tree->list.count; i++)
		entry_text(&t, &tree->list.at[i]);
	kedge__table_print(&t, stdout);
}

/* The tree of a segment, joined to ALL; what several segments have is the same in them. */
static int add_tree(const struct kedge__show *s, uint32_t segment, struct kedge__pool *pool, struct kedge__tree *all,
		    struct kedge__error *err)
{
	struct kedge__lineage *l = NULL;
	struct kedge__tree tree = {0};
	bool present = true;
	int rc = kedge__lineage_open((struct kedge__catalog **)s->place.levels, s->place.level_count, s->version,
				     segment, &l, err);

	if (!rc)
		rc = kedge__tool_tree_read(l, pool, kedge__job_settings_io(&s->place.settings), &tree, &present, NULL,
					   err);
	if (!rc && !present)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0,
				      "it was not made by kedge save, or by an older one; its regions are listed "
				      "without --files");
	if (!rc)
		kedge__tool_tree_join(all, &tree);
	kedge__tree_done(&tree);
	kedge__lineage_close(l);
	return rc;
}

int kedge__show_files(const struct kedge__show *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__pool *pool = NULL;
	struct kedge__tree tree = {0};
	bool all = s->set && s->set->grouping && s->rank == UINT64_MAX;
	int rc = kedge__tool_pool(&s->place.settings, &pool, &err);

	for (uint32_t i = all ? 0 : s->segment_at; !rc && i < (all ? s->set->ranks : s->segment_at + 1); i++)
		rc = add_tree(s, i, pool, &tree, &err);
	if (!rc)
		print_tree(s, &tree);
	kedge__tree_done(&tree);
	kedge__pool_free(pool);
	return rc ? kedge__tool_fail(s->usage.command, &err, "cannot list the files of version %llu of %s",
				     (unsigned long long)s->version, s->place.name)
		  : 0;
}
