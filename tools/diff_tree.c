/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diff_tree: what files are beside their bytes. The region that holds it is no file of the user's: what differs in it
 * is said by the names of files. Times are left out, because touching a file is no change of it.
 */
#include "diff.h"
#include "tool_tree.h"
#include <stdlib.h>

static void add(struct kedge__diff_rank *r, const char *name, char *what)
{
	struct kedge__diff_entry e = {kedge__strdup(name), what};

	if (!e.name || !e.what || !kedge__array_push(&r->entries, e))
		kedge__tool_no_memory();
}

void kedge__diff_entries_free(struct kedge__diff_rank *r)
{
	for (size_t i = 0; i < r->entries.count; i++) {
		kedge__free(r->entries.at[i].name);
		kedge__free(r->entries.at[i].what);
	}
	kedge__array_done(&r->entries);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void compare(struct kedge__diff_rank *r, const struct kedge__tree_entry *a, const struct kedge__tree_entry *b)
{
	char from[KEDGE__MODE_ROOM], to[KEDGE__MODE_ROOM];

	if (a->kind != b->kind || a->mode != b->mode)
		add(r, a->name, kedge__asprintf("mode %s to %s", kedge__text_mode(a, from), kedge__text_mode(b, to)));
	if (a->uid != b->uid || a->gid != b->gid)
		add(r, a->name, kedge__asprintf("owner %u:%u to %u:%u", a->uid, a->gid, b->uid, b->gid));
	if (!same_text(a->target, b->target))
		add(r, a->name,
		    kedge__asprintf("link to %s, now to %s", a->target ? a->target : "nothing",
				    b->target ? b->target : "nothing"));
	if ((a->flags ^ b->flags) & KEDGE__TREE_PLAIN) {
		add(r, a->name,
		    kedge__strdup(b->flags & KEDGE__TREE_PLAIN ? "saved as it is, now with --equal: not compared"
							       : "saved with --equal, now as it is: not compared"));
		if (!kedge__array_push(&r->apart, a->name))
			kedge__tool_no_memory();
	}
	if (a->xattr_bytes != b->xattr_bytes || (a->xattr_bytes && memcmp(a->xattrs, b->xattrs, a->xattr_bytes) != 0))
		add(r, a->name, kedge__strdup("extended attributes differ"));
}

/* Files with bytes of their own are regions, and in the list of these. */
static void only_one(struct kedge__diff_rank *r, const struct kedge__tree_entry *e, const char *how)
{
	static const char *const kinds[KEDGE__TREE_KINDS] = {
	    [KEDGE__TREE_DIRECTORY] = "directory", [KEDGE__TREE_SYMLINK] = "symbolic link",
	    [KEDGE__TREE_HARDLINK] = "link",       [KEDGE__TREE_FIFO] = "FIFO",
	    [KEDGE__TREE_CHARACTER] = "device",    [KEDGE__TREE_BLOCK] = "device",
	    [KEDGE__TREE_SOCKET] = "socket",
	};

	if (e->kind != KEDGE__TREE_FILE)
		add(r, e->name, kedge__asprintf("%s %s", kinds[e->kind], how));
}

static void walk(struct kedge__diff_rank *r, const struct kedge__tree *a, const struct kedge__tree *b)
{
	for (size_t i = 0, j = 0; i < a->list.count || j < b->list.count;) {
		int order = i == a->list.count   ? 1
			    : j == b->list.count ? -1
						 : strcmp(a->list.at[i].name, b->list.at[j].name);

		if (order < 0)
			only_one(r, &a->list.at[i++], "removed");
		else if (order > 0)
			only_one(r, &b->list.at[j++], "added");
		else
			compare(r, &a->list.at[i++], &b->list.at[j++]);
	}
}

static int by_name(const void *x, const void *y)
{
	return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static bool is_apart(const struct kedge__diff_rank *r, const char *name)
{
	return r->apart.count && bsearch(&name, r->apart.at, r->apart.count, sizeof(*r->apart.at), by_name);
}

static void take_out(struct kedge__diff_rank *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->count; i++) {
		if (strcmp(r->regions[i].name, KEDGE__TREE_REGION) == 0 || is_apart(r, r->regions[i].name)) {
			kedge__free(r->regions[i].name);
			kedge__free(r->regions[i].ranges);
		} else {
			r->regions[kept++] = r->regions[i];
		}
	}
	r->count = kept;
	kedge__array_done(&r->apart);
}

void kedge__diff_trees(struct kedge__diff_rank *r, const struct kedge__tree *a, const struct kedge__tree *b)
{
	walk(r, a, b);
	take_out(r);
}

int kedge__diff_tree(struct kedge__diff_rank *r, struct kedge__lineage *a, struct kedge__lineage *b,
		     struct kedge__pool *pool, struct kedge__io io, struct kedge__error *err)
{
	struct kedge__tree one = {0}, two = {0};
	bool has_one, has_two = false;
	int rc = kedge__tool_tree_read(a, pool, io, &one, &has_one, NULL, err);

	if (!rc)
		rc = kedge__tool_tree_read(b, pool, io, &two, &has_two, NULL, err);
	if (!rc && has_one && has_two)
		kedge__diff_trees(r, &one, &two);
	else if (!rc)
		take_out(r);
	kedge__tree_done(&one);
	kedge__tree_done(&two);
	return rc;
}
