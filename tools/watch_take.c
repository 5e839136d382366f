/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch_take: a set becomes a version; and its files go, if they are to, once every level has it.
 *
 * A set is saved by a process of its own, which holds a lease on each file: whoever opens one for writing waits until
 * that process has ended, which it does at once. So what is published was not changed while it was read. Where a file
 * system has no leases, what the files are afterwards is compared with what they were before.
 */
#include "restore/restore.h"
#include "save_files.h"
#include "tool_tree.h"
#include "watch.h"
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)

/* ------------------------------------------------------------------ saving */

/* The newest version on L1, if it is that of SET. */
static bool find_version(const struct kedge__watch *w, const struct kedge__watch_set *set, uint64_t *version,
			 struct kedge__set_sizes *sizes)
{
	struct kedge__watch_levels l;
	bool found = false;

	if (kedge__watch_levels_open(w, &l, NULL) != 0)
		return false;
	for (size_t i = 0; i < l.count && !found; i++)
		for (size_t k = kedge__catalog_count(l.at[i]); k-- > 0 && !found;) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(l.at[i], k);
			uint64_t fingerprint;

			found = !e->problem.code && kedge__watch_note_parse(e->set.note, &fingerprint) &&
				fingerprint == set->fingerprint;
			if (found) {
				*version = e->version;
				*sizes = kedge__set_sizes(&e->set);
			}
		}
	kedge__watch_levels_close(&l);
	return found;
}

struct child {
	const struct kedge__watch *watch;
	const struct kedge__watch_set *set;
};

/* In the new process: names are those in the directory. */
static int prepare(void *ctx)
{
	const struct child *c = ctx;

	kedge__fs_close(c->watch->journal.lock);
	kedge__tool_raise_limits();
	signal(SIGIO, SIG_DFL);
	if (chdir(c->watch->spec.dir) != 0) {
		kedge__tool_say(c->watch->usage.command, "cannot go to %s: %s", c->watch->spec.dir, strerror(errno));
		return KEDGE__EXIT_IO;
	}
	return kedge__watch_set_quiet(c->set, ".", true) == KEDGE__WATCH_BUSY ? KEDGE__EXIT_LOCKED : 0;
}

typedef KEDGE__ARRAY(char *) arguments;

static void argument(arguments *list, const char *option, const char *value)
{
	char *text = value ? kedge__asprintf("%s%s", option, value) : NULL;

	if (value && (!text || !kedge__array_push(list, text)))
		kedge__tool_no_memory();
}

static void make_arguments(const struct kedge__watch *w, const struct kedge__watch_set *set, arguments *list)
{
	char note[KEDGE__WATCH_NOTE_ROOM], *l2 = w->l2 ? kedge__tool_literal(w->l2) : NULL;

	kedge__watch_note_format(set, note);
	argument(list, "", "save");
	argument(list, "--quiet", "");
	argument(list, "--store=", w->l1);
	argument(list, "--name=", w->name);
	argument(list, "--message=", note);
	argument(list, "--codec=", w->codec);
	argument(list, "--type=", w->type);
	argument(list, "--equal", w->equal ? "" : NULL);
	argument(list, "--ranks=", w->ranks);
	if (w->group_size != KEDGE__GROUP_PRESET) {
		char size[KEDGE__TEXT_ROOM];

		snprintf(size, sizeof(size), "%llu", (unsigned long long)w->group_size);
		argument(list, "--group-size=", size);
	}
	for (size_t i = 0; i < w->sets.count; i++)
		argument(list, "--set=", w->sets.at[i]);
	argument(list, "--set=l2=", l2);
	argument(list, "--", "");
	for (size_t i = 0; i < set->operands.count; i++)
		argument(list, "./", set->operands.at[i]);
	if (!kedge__array_push(list, NULL))
		kedge__tool_no_memory();
	kedge__free(l2);
}

static int save(struct kedge__watch *w, const struct kedge__watch_set *set)
{
	struct child child = {w, set};
	const struct kedge__save_as as = {
	    .command = w->usage.command, .prepare = prepare, .ctx = &child, .strict = true, .tolerated = SIGIO};
	arguments list = {0};
	int status;

	make_arguments(w, set, &list);
	status = kedge__save_child(&as, list.at, &w->stopped);
	for (size_t i = 0; i < list.count; i++)
		kedge__free(list.at[i]);
	kedge__array_done(&list);
	return status;
}

static bool is_as_it_was(const struct kedge__watch *w, const struct kedge__watch_set *set)
{
	struct kedge__watch_spec spec = w->spec;
	struct kedge__watch_sets now;
	const struct kedge__watch_set *same;
	bool is;

	spec.inotify = -1;
	if (kedge__watch_sets_scan(&now, &spec, NULL) != 0)
		return false;
	same = kedge__watch_sets_find(&now, set->key);
	is = same && same->fingerprint == set->fingerprint;
	kedge__watch_sets_done(&now);
	return is;
}

static void print_taken(const struct kedge__watch *w, const struct kedge__watch_set *set, uint64_t version,
			const struct kedge__set_sizes *sizes)
{
	char raw[KEDGE__TEXT_ROOM], stored[KEDGE__TEXT_ROOM], files[KEDGE__TEXT_ROOM];

	if (w->quiet)
		return;
	kedge__print(stdout, "set%s%s: version %llu of %s, %s, %s in %s\n", *set->key ? " " : "", set->key,
		     (unsigned long long)version, w->name, kedge__text_count(set->files.count, "file", "files", files),
		     kedge__text_bytes(sizes->raw, raw), kedge__text_bytes(sizes->stored, stored));
	fflush(stdout);
}

/* It was read while it changed, on a file system that could not prevent it. */
static void take_back(const struct kedge__watch *w, uint64_t version)
{
	kedge__save_take_back(w->usage.command, w->l1, w->name, version);
	if (w->l2)
		kedge__save_take_back(w->usage.command, w->l2, w->name, version);
}

enum kedge__watch_result kedge__watch_take(struct kedge__watch *w, const struct kedge__watch_set *set)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__set_sizes sizes;
	uint64_t version;
	int status = save(w, set);
	bool there = !w->stopped && find_version(w, set, &version, &sizes);

	if (w->stopped)
		return KEDGE__WATCH_LATER;
	if (!is_as_it_was(w, set)) {
		if (there)
			take_back(w, version);
		return KEDGE__WATCH_LATER;
	}
	if (!there && status == KEDGE__EXIT_LOCKED)
		return KEDGE__WATCH_LATER;
	if (!there)
		return status == KEDGE__EXIT_IO ? KEDGE__WATCH_TROUBLE : KEDGE__WATCH_FAILED;
	if (kedge__watch_journal_note(&w->journal, set, version, KEDGE__WATCH_TAKEN, &err) != 0) {
		kedge__tool_fail(w->usage.command, &err, "version %llu of %s is there, but could not be noted",
				 (unsigned long long)version, w->name);
		kedge__watch_journal_learn(&w->journal, set->fingerprint, version);
		return KEDGE__WATCH_TROUBLE;
	}
	print_taken(w, set, version, &sizes);
	return KEDGE__WATCH_DONE;
}

/* ------------------------------------------------------------------ removing */

/* Every level has VERSION; then every byte of it is right, or that is an error. */
static int verify(const struct kedge__watch_levels *l, struct kedge__pool *pool, uint64_t version, bool *intact,
		  struct kedge__error *err)
{
	int rc = 0;

	*intact = true;
	for (size_t i = 0; i < l->count; i++)
		*intact = *intact && kedge__catalog_find(l->at[i], version);
	for (size_t i = 0; !rc && *intact && i < l->count; i++) {
		struct kedge__verify_report report = {0};

		rc = kedge__verify(l->at[i], pool, version, NULL, NULL, NULL, &report, err);
		if (!rc && (report.versions_lost || report.findings))
			rc =
			    kedge__error_set(err, KEDGE_E_DAMAGED, 0, "it is damaged; 'kedge verify -s %s' shows where",
					     kedge__catalog_store(l->at[i]));
		kedge__verify_report_done(&report);
	}
	return rc;
}

static bool is_ours(const struct kedge__watch *w, const char *name)
{
	for (size_t i = 0; i < w->spec.patterns.count; i++)
		if (kedge__watch_fits(w->spec.patterns.at[i], name))
			return true;
	return w->spec.marker && kedge__watch_fits(w->spec.marker, name);
}

static bool is_marker(const struct kedge__watch *w, const char *name)
{
	return w->spec.marker && kedge__watch_fits(w->spec.marker, name);
}

/* It is what the version has, and not written again meanwhile. */
static bool is_unchanged(const char *path, const struct kedge__tree_entry *e)
{
	struct stat st;
	bool file = e->kind == KEDGE__TREE_FILE;

	if (lstat(path, &st) != 0 || S_ISDIR(st.st_mode))
		return false;
	if (file && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != e->size || st.st_ino != e->inode))
		return false;
	return st.st_mtim.tv_sec * SECOND_NS + st.st_mtim.tv_nsec == e->mtime_ns;
}

static int remove_entry(const struct kedge__watch *w, const struct kedge__tree_entry *e, bool directory,
			struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/%s", w->spec.dir, e->name);
	int rc = 0;

	if (!path)
		kedge__tool_no_memory();
	if (directory)
		rc = kedge__fs_rmdir(path, err);
	else if (is_unchanged(path, e))
		rc = kedge__fs_unlink(path, err);
	else if (kedge__fs_exists(path))
		kedge__tool_say(w->usage.command, "note: %s was changed since it was saved, and stays", path);
	kedge__free(path);
	return rc;
}

/* The marker first: what is left is no complete set. Directories last, those in others before these. */
static int remove_tree(const struct kedge__watch *w, const struct kedge__tree *tree, struct kedge__error *err)
{
	int rc = 0;

	for (int marker = 1; !rc && marker >= 0; marker--)
		for (size_t i = 0; !rc && i < tree->list.count; i++) {
			const struct kedge__tree_entry *e = &tree->list.at[i];

			if (e->kind != KEDGE__TREE_DIRECTORY && is_ours(w, e->name) &&
			    is_marker(w, e->name) == (marker == 1))
				rc = remove_entry(w, e, false, err);
		}
	for (size_t i = tree->list.count; !rc && i-- > 0;)
		if (tree->list.at[i].kind == KEDGE__TREE_DIRECTORY && is_ours(w, tree->list.at[i].name))
			rc = remove_entry(w, &tree->list.at[i], true, err);
	return rc;
}

/* That of one segment joins what others have. */
static int read_tree(const struct kedge__watch_levels *l, struct kedge__pool *pool, uint64_t version, uint32_t segment,
		     struct kedge__tree *all, struct kedge__error *err)
{
	struct kedge__lineage *lineage;
	struct kedge__tree tree = {0};
	bool present = false;
	int rc = kedge__lineage_open(l->at, l->count, version, segment, &lineage, err);

	if (rc)
		return rc;
	rc = kedge__tool_tree_read(lineage, pool, (struct kedge__io){0}, &tree, &present, NULL, err);
	kedge__lineage_close(lineage);
	if (!rc && !present)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "version %llu has no tree", (unsigned long long)version);
	if (!rc)
		kedge__tool_tree_join(all, &tree);
	kedge__tree_done(&tree);
	return rc;
}

static uint32_t segments_of(const struct kedge__watch_levels *l, uint64_t version)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_find(l->at[i], version);

		if (e && !e->problem.code)
			return e->set.ranks;
	}
	return 1;
}

int kedge__watch_verify(const struct kedge__watch *w, uint64_t version, bool *intact, struct kedge__error *err)
{
	struct kedge__pool *pool = NULL;
	struct kedge__watch_levels l;
	int rc = kedge__watch_levels_open(w, &l, err);

	*intact = false;
	if (rc)
		return rc;
	rc = kedge__pool_new(1, &pool, err);
	if (!rc && l.count == (w->l2 ? 2 : 1))
		rc = verify(&l, pool, version, intact, err);
	kedge__pool_free(pool);
	kedge__watch_levels_close(&l);
	return rc;
}

int kedge__watch_remove(const struct kedge__watch *w, uint64_t version, struct kedge__error *err)
{
	struct kedge__tree tree = {0};
	struct kedge__pool *pool = NULL;
	struct kedge__watch_levels l;
	int rc = kedge__watch_levels_open(w, &l, err);

	if (rc)
		return rc;
	rc = kedge__pool_new(1, &pool, err);
	for (uint32_t i = 0; !rc && i < segments_of(&l, version); i++)
		rc = read_tree(&l, pool, version, i, &tree, err);
	if (!rc)
		rc = remove_tree(w, &tree, err);
	kedge__tree_done(&tree);
	kedge__pool_free(pool);
	kedge__watch_levels_close(&l);
	return rc;
}
