/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only code that makes a set visible or removes it. The following holds at every moment, whichever call is
 * interrupted by a crash (of the machine or, if the catalogue does not sync, of the process):
 *
 *  1. A set exists if and only if its manifest is under its final name. A manifest gets there only by rename, after its
 *     contents were synced.
 *  2. Every segment that a manifest names was written under a temporary name, synced and renamed, and its directory
 * synced, before the manifest was renamed (segment_file.c does it; the caller publishes after all ranks have done it).
 *  3. A segment never changes once it has its final name. A version that is written again gets segments of another
 *     generation: the old set is valid until the new manifest is renamed, the new one afterwards.
 *  4. A segment is removed only when no manifest names it and the directory of the manifests has been synced since: a
 *     manifest that reappears after a power loss still has its segments.
 *  5. If several sets are removed, the newest goes first: no set is left without the versions it refers to.
 *  6. A file that is neither a manifest nor named by one belongs to nobody: kedge__catalog_clean() may remove it while
 * it holds the guard exclusively, which no writer between 2 and 1 allows.
 *
 * A failed call is undone as far as the file system permits; anything that could not be undone is as after a crash.
 */
#include "store/internal.h"

#include <errno.h>
#include <sys/stat.h>

bool kedge__set_names(const struct kedge__set *set, uint32_t rank, uint32_t generation)
{
	return set && !set->bundle && rank < set->ranks && set->parts[rank].generation == generation;
}

/* ------------------------------------------------------------------ what is in a version's directory */

/* The names in DIR; a missing directory counts as empty. */
static int list_or_empty(const char *dir, char ***names, size_t *count, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc = kedge__fs_list(dir, names, count, &problem);

	if (rc && problem.sys_errno == ENOENT) {
		*names = NULL;
		*count = 0;
		rc = 0;
	}
	if (rc)
		kedge__error_move(err, &problem);
	kedge__error_done(&problem);
	return rc;
}

/* By asking for single names: all ranks do this in one directory, which may be large. */
static int is_used(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation, bool *used,
		   struct kedge__error *err)
{
	char *path = kedge__segment_path(cat, version, rank, generation);
	char *tmp = path ? kedge__asprintf("%s" KEDGE__TMP_SUFFIX, path) : NULL;
	int rc = tmp ? 0 : kedge__error_nomem(err);

	*used = !rc && (kedge__fs_exists(path) || kedge__fs_exists(tmp));
	kedge__free(path);
	kedge__free(tmp);
	return rc;
}

int kedge__catalog_next_generation(const struct kedge__catalog *cat, uint64_t version, uint32_t rank,
				   uint32_t *generation, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(cat, version);
	uint32_t next = 0;
	bool used = true;
	int rc = 0;

	if (entry && !entry->problem.code && rank < entry->set.ranks)
		next = entry->set.parts[rank].generation + 1;
	while (!rc && used) {
		rc = is_used(cat, version, rank, next, &used, err);
		next += used;
	}
	if (!rc)
		*generation = next;
	return rc;
}

/* *REMOVED counts it, with DRY_RUN even though it stays. Anything but a regular file is not ours, whatever its name. */
static int unlink_in(const char *dir, const char *name, bool dry_run, size_t *removed, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/%s", dir, name);
	int rc = path ? 0 : kedge__error_nomem(err);

	if (!rc && kedge__fs_is_file(path)) {
		++*removed;
		if (!dry_run)
			rc = kedge__fs_unlink(path, err);
	}
	kedge__free(path);
	return rc;
}

/* A segment, a shield or a bundle that SET does not name. */
static bool is_superseded(const struct kedge__set *set, const char *name)
{
	uint32_t rank, generation;

	if (kedge__bundle_file_parse(name, &rank, &generation))
		return !kedge__set_bundles(set, rank, generation);
	if (kedge__segment_file_parse(name, &rank, &generation) || kedge__shield_file_parse(name, &rank, &generation))
		return !kedge__set_names(set, rank, generation);
	return false;
}

/*
 * Remove the segments of VERSION that SET (NULL: no set) does not name, with their shields, and temporary files; then
 * the directory if it is empty. Files that are not ours stay. The caller has done the sync that invariant 4 requires.
 */
static int sweep_version(const struct kedge__catalog *cat, uint64_t version, const struct kedge__set *set, bool dry_run,
			 size_t *removed, struct kedge__error *err)
{
	char *dir = kedge__catalog_version_path(cat, version);
	char **names;
	size_t count, left = 0;
	int rc;

	rc = dir ? list_or_empty(dir, &names, &count, err) : kedge__error_nomem(err);
	if (rc)
		goto free;
	for (size_t i = 0; i < count && !rc; i++) {
		if (!kedge__segment_is_leftover(names[i]) && !is_superseded(set, names[i]))
			left++;
		else
			rc = unlink_in(dir, names[i], dry_run, removed, err);
	}
	if (!rc && !left && !dry_run)
		rc = kedge__fs_rmdir(dir, err);
	kedge__fs_list_free(names, count);
free:
	kedge__free(dir);
	return rc;
}

static uint64_t size_of(const char *dir, const char *name)
{
	char *path = kedge__asprintf("%s/%s", dir, name);
	struct stat st;
	uint64_t bytes = path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;

	kedge__free(path);
	return bytes;
}

uint64_t kedge__set_disk_bytes(const struct kedge__catalog *cat, uint64_t version)
{
	char *leaf = kedge__set_file_name(version);
	char *dir = kedge__catalog_version_path(cat, version);
	uint64_t bytes = leaf ? size_of(cat->dir, leaf) : 0;
	char **names;
	size_t count;

	if (cat->pack)
		(void)kedge__segment_look(cat, version, 0, &(struct kedge__set_part){0}, &bytes);
	if (dir && kedge__fs_list(dir, &names, &count, NULL) == 0) {
		for (size_t i = 0; i < count; i++)
			bytes += size_of(dir, names[i]);
		kedge__fs_list_free(names, count);
	}
	kedge__free(leaf);
	kedge__free(dir);
	return bytes;
}

/* ------------------------------------------------------------------ publish */

/* The current manifest at PATH, to be restored if necessary; *BYTES is 0 if there is none. */
static int read_old(const char *path, uint8_t **data, size_t *bytes, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc = kedge__file_read(path, -1, KEDGE__NO_MANIFEST_SIZE, data, bytes, &problem);

	if (rc && problem.sys_errno == ENOENT) {
		*data = NULL;
		*bytes = 0;
		rc = 0;
	}
	if (rc)
		kedge__error_move(err, &problem);
	kedge__error_done(&problem);
	return rc;
}

/* The rename succeeded and its sync failed: it is unknown which manifest would survive a power loss. Both are valid. */
static void take_back(const struct kedge__catalog *cat, const char *path, const uint8_t *old, size_t bytes)
{
	bool renamed;

	if (old) {
		(void)kedge__file_replace(cat->dir, path, old, bytes, true, &renamed, NULL);
		return;
	}
	if (kedge__fs_unlink(path, NULL) == 0)
		(void)kedge__fs_sync_dir(cat->dir, NULL);
}

static int replace_manifest(const struct kedge__catalog *cat, const char *path, const struct kedge__bytes *text,
			    struct kedge__error *err)
{
	uint8_t *old = NULL;
	size_t old_bytes = 0;
	bool renamed;
	int rc;

	rc = read_old(path, &old, &old_bytes, err);
	if (rc)
		return rc;
	rc = kedge__file_replace(cat->dir, path, text->at, text->count, !cat->unsynced, &renamed, err);
	if (rc && renamed)
		take_back(cat, path, old, old_bytes);
	kedge__free(old);
	return rc;
}

int kedge__set_publish(struct kedge__catalog *cat, const struct kedge__set *set, struct kedge__error *err)
{
	struct kedge__error later = KEDGE__ERROR_INIT;
	struct kedge__index_record note = {.kind = KEDGE__INDEX_CHANGING, .version = set->version};
	struct kedge__bytes text = {0};
	char *path = kedge__catalog_set_path(cat, set->version);
	bool unswept = false;
	size_t removed = 0;
	int rc;

	rc = path ? kedge__set_encode(set, &text, err) : kedge__error_nomem(err);
	if (rc)
		goto free;
	kedge__index_note(cat, &note);
	rc = replace_manifest(cat, path, &text, err);
	if (rc) {
		(void)kedge__catalog_refresh(cat, set->version, NULL);
		note.kind = KEDGE__INDEX_REMOVED;
		kedge__index_note(cat, &note);
		goto free;
	}
	/* The set exists. A failure to sweep costs disk space until the next clean, not the set. */
	unswept = sweep_version(cat, set->version, set, false, &removed, &later) != 0;
	if (unswept)
		kedge__log(KEDGE_LOG_WARNING,
			   "version %" PRIu64 " is published, but its old segments could not be removed: %s",
			   set->version, kedge__error_text(&later));
	kedge__error_done(&later);
	rc = kedge__catalog_put(cat, set->version, &text, unswept, &note, err);
	if (rc) { /* no memory: what is reported as a failure must not exist */
		take_back(cat, path, NULL, 0);
		kedge__catalog_forget(cat, set->version);
	}
	kedge__index_note(cat, &note);
free:
	kedge__bytes_done(&text);
	kedge__free(path);
	return rc;
}

/* ------------------------------------------------------------------ remove */

int kedge__set_remove(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err)
{
	struct kedge__index_record note = {.kind = KEDGE__INDEX_CHANGING, .version = version};
	char *path = kedge__catalog_set_path(cat, version);
	size_t removed = 0;
	int rc;

	if (!path)
		return kedge__error_nomem(err);
	kedge__index_note(cat, &note);
	rc = kedge__fs_unlink(path, err);
	kedge__free(path);
	if (rc)
		return rc;
	kedge__catalog_forget(cat, version);
	note.kind = KEDGE__INDEX_REMOVED;
	kedge__index_note(cat, &note);
	rc = kedge__fs_sync_dir(cat->dir, err);
	if (!rc)
		rc = sweep_version(cat, version, NULL, false, &removed, err);
	return rc;
}

int kedge__set_discard_above(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err)
{
	int rc = 0;

	while (!rc && cat->entries.count && cat->entries.at[cat->entries.count - 1]->version > version)
		rc = kedge__set_remove(cat, cat->entries.at[cat->entries.count - 1]->version, err);
	return rc;
}

/* The manifest on disk decides, not the catalogue: a failed publish may have left one there. */
int kedge__set_spares(struct kedge__catalog *cat, uint64_t version, kedge__set_names_fn *names, uint32_t rank,
		      uint32_t generation, struct kedge__error *err)
{
	struct kedge__set set;
	bool named;
	int rc = kedge__catalog_read_set(cat, version, &set, err);

	if (rc < 0)
		return rc;
	named = rc == 1 && names(&set, rank, generation);
	if (rc == 1)
		kedge__set_done(&set);
	return named ? kedge__error_set(err, KEDGE_E_STATE, 0,
					"cannot discard a file of version %" PRIu64
					" of %s: it was published with it (rank %" PRIu32 ")",
					version, cat->dir, rank)
		     : 0;
}

int kedge__segment_discard(struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation,
			   struct kedge__error *err)
{
	char *path, *dir;
	int rc = kedge__set_spares(cat, version, kedge__set_names, rank, generation, err);

	if (rc)
		return rc;
	path = kedge__segment_path(cat, version, rank, generation);
	dir = kedge__catalog_version_path(cat, version);
	rc = path && dir ? kedge__fs_unlink(path, err) : kedge__error_nomem(err);
	if (!rc)
		rc = kedge__fs_rmdir(dir, err);
	kedge__free(path);
	kedge__free(dir);
	return rc;
}

/* ------------------------------------------------------------------ clean */

struct sweep {
	struct kedge__catalog *cat;
	bool thorough, dry_run;
	size_t removed;
	struct kedge__version_list versions; /* whose directories are to be searched */
	KEDGE__ARRAY(char *) leftovers;
};

/* If a manifest cannot be read, its segments stay: a copy of the manifest may be found elsewhere. */
static bool may_have_leftovers(const struct sweep *s, uint64_t version)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(s->cat, version);

	return !entry || (!entry->problem.code && (s->thorough || kedge__catalog_is_unswept(s->cat, version)));
}

static int sweep_note(void *ctx, const char *name, struct kedge__error *err)
{
	struct sweep *s = ctx;
	uint64_t version;
	char *copy;

	if (kedge__version_dir_parse(name, &version))
		return !may_have_leftovers(s, version) || kedge__array_push(&s->versions, version)
			   ? 0
			   : kedge__error_nomem(err);
	if (!kedge__name_is_leftover(name) && !kedge__probe_is_ours(s->cat, name))
		return 0;
	copy = kedge__strdup(name);
	if (copy && kedge__array_push(&s->leftovers, copy))
		return 0;
	kedge__free(copy);
	return kedge__error_nomem(err);
}

/* A scan may have missed what somebody did to the manifest, and the manifest decides what may go. */
static int sweep_one(struct sweep *s, uint64_t version, struct kedge__error *err)
{
	int rc = s->thorough ? 0 : kedge__catalog_refresh(s->cat, version, err);
	const struct kedge__catalog_entry *entry = kedge__catalog_find(s->cat, version);

	if (rc || !may_have_leftovers(s, version))
		return rc;
	return sweep_version(s->cat, version, entry ? &entry->set : NULL, s->dry_run, &s->removed, err);
}

static int sweep_all(struct sweep *s, struct kedge__error *err)
{
	const struct kedge__catalog *cat = s->cat;
	int rc = s->dry_run ? 0 : kedge__fs_sync_dir(cat->dir, err);

	for (size_t i = 0; i < s->versions.count && !rc; i++)
		rc = sweep_one(s, s->versions.at[i], err);
	for (size_t i = 0; i < s->leftovers.count && !rc; i++)
		rc = unlink_in(cat->dir, s->leftovers.at[i], s->dry_run, &s->removed, err);
	if (!rc)
		rc = unlink_in(cat->store, KEDGE__STORE_MARKER_NAME KEDGE__TMP_SUFFIX, s->dry_run, &s->removed, err);
	return rc;
}

/* Nobody else writes: everything that was not swept before is swept now. */
static void note_swept(struct kedge__catalog *cat)
{
	const struct kedge__index_record note = {.kind = KEDGE__INDEX_SWEPT};
	bool news = cat->index.pending.count || cat->unswept.count;

	cat->unswept.count = 0;
	if (news)
		kedge__index_note(cat, &note);
}

int kedge__catalog_sweep(struct kedge__catalog *cat, bool thorough, bool dry_run, size_t *removed,
			 struct kedge__error *err)
{
	struct sweep s = {.cat = cat, .thorough = thorough, .dry_run = dry_run};
	int rc = thorough ? kedge__catalog_rescan(cat, err) : kedge__catalog_scan(cat, err);

	if (!rc)
		rc = kedge__fs_each(cat->dir, sweep_note, &s, err);
	if (!rc)
		rc = sweep_all(&s, err);
	if (!rc && !dry_run)
		note_swept(cat);
	if (!rc)
		rc = kedge__lock_clean(cat, dry_run, &s.removed, err);
	if (!rc)
		*removed = s.removed;
	kedge__array_done(&s.versions);
	kedge__fs_list_free(s.leftovers.at, s.leftovers.count);
	return rc;
}

int kedge__catalog_clean(struct kedge__catalog *cat, size_t *removed, struct kedge__error *err)
{
	struct kedge__error busy = KEDGE__ERROR_INIT;
	size_t gone = 0;
	int rc;

	rc = kedge__catalog_seize(cat, false, &busy);
	if (rc == KEDGE_E_LOCKED) {
		kedge__log(KEDGE_LOG_INFO, "leftovers of crashes are not removed now: %s", kedge__error_text(&busy));
		rc = 0;
		goto done;
	}
	if (rc) {
		kedge__error_move(err, &busy);
		return rc;
	}
	rc = kedge__catalog_sweep(cat, false, false, &gone, err);
	kedge__catalog_release(cat);
done:
	kedge__error_done(&busy);
	if (!rc && removed)
		*removed = gone;
	return rc;
}
