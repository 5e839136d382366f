/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keep the entries current. A manifest is read once: from then on its file is recognized by its state (inode, size,
 * times), which is kept in the entry and, for later processes, in the index. verify, which needs to know what the disk
 * returns now, reads it again.
 */
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MANIFESTS 64 /* open at once */

/* ------------------------------------------------------------------ one entry */

static struct kedge__catalog_entry *entry_new(uint64_t version)
{
	struct kedge__catalog_entry *entry = kedge__calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->version = version;
	atomic_init(&entry->users, 1);
	return entry;
}

/* One user fewer. */
static void entry_free(struct kedge__catalog_entry *entry)
{
	if (!entry || atomic_fetch_sub_explicit(&entry->users, 1, memory_order_acq_rel) > 1)
		return;
	if (!entry->problem.code)
		kedge__set_done(&entry->set);
	kedge__error_done(&entry->problem);
	kedge__free(entry);
}

void kedge__entries_free(struct kedge__entry_list *entries)
{
	for (size_t i = 0; i < entries->count; i++)
		entry_free(entries->at[i]);
	kedge__array_done(entries);
}

bool kedge__entries_share(const struct kedge__entry_list *entries, struct kedge__entry_list *out)
{
	if (!kedge__array_reserve(out, entries->count + 1))
		return false;
	for (size_t i = 0; i < entries->count; i++) {
		atomic_fetch_add_explicit(&entries->at[i]->users, 1, memory_order_relaxed);
		out->at[i] = entries->at[i];
	}
	out->count = entries->count;
	return true;
}

static bool entry_fits(const struct kedge__catalog_entry *entry, const struct kedge__file_state *state)
{
	return !entry->problem.code && kedge__file_state_equal(&entry->file, state);
}

static void entry_describe(struct kedge__catalog_entry *entry)
{
	entry->image = kedge__set_image(&entry->set);
	entry->files = kedge__set_files(&entry->set);
}

static uint64_t entry_digest(const struct kedge__catalog_entry *e)
{
	uint64_t mix[4] = {e->version, e->image, e->set.run.id, e->set.ranks};

	return kedge__checksum(mix, sizeof(mix));
}

/* ENTRY comes to those of CAT, or is about to leave them. */
static void entry_count(struct kedge__catalog *cat, const struct kedge__catalog_entry *entry, bool comes)
{
	if (entry->problem.code)
		cat->problems += comes ? 1 : -(size_t)1;
	else
		cat->digest += comes ? entry_digest(entry) : -entry_digest(entry);
}

static int set_parse(const struct kedge__catalog *cat, uint64_t version, const void *data, size_t bytes,
		     struct kedge__set *set, struct kedge__error *err)
{
	int rc = kedge__set_decode(data, bytes, set, err);

	if (rc)
		return rc;
	if (set->version != version)
		rc =
		    kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the manifest belongs to version %" PRIu64, set->version);
	else if (strcmp(set->name, cat->name) != 0)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the manifest belongs to job %s", set->name);
	if (rc)
		kedge__set_done(set);
	return rc;
}

/* A manifest and the state of its file. */
struct manifest {
	struct kedge__file_state state;
	uint8_t *data;
	size_t bytes;
};

/* 1 and *M filled, 0 if there is none, or an error. FD is the file if it is already open, and is closed; otherwise -1.
 */
static int manifest_read(struct kedge__catalog *cat, const char *path, int fd, struct manifest *m,
			 struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	struct stat st;
	int rc = fd < 0 ? kedge__fs_open_read(path, &fd, &problem) : 0;

	*m = (struct manifest){0};
	if (!rc && fstat(fd, &st) == 0)
		m->state = kedge__file_state_of(&st);
	if (!rc)
		rc = kedge__file_read(path, fd, KEDGE__NO_MANIFEST_SIZE, &m->data, &m->bytes, &problem);
	if (rc && problem.sys_errno == ENOENT)
		rc = 0;
	else if (rc)
		kedge__error_move(err, &problem);
	else
		rc = 1;
	cat->manifests_read++;
	if (rc == 1)
		kedge__catalog_count_read(cat, m->bytes);
	kedge__error_done(&problem);
	return rc;
}

/* The same, decoded. The caller frees M, which may be filled even on failure. */
static int read_set(struct kedge__catalog *cat, uint64_t version, int fd, struct kedge__set *set, struct manifest *m,
		    struct kedge__error *err)
{
	char *path = kedge__catalog_set_path(cat, version);
	int rc;

	*m = (struct manifest){0};
	if (!path) {
		kedge__fs_close(fd);
		return kedge__error_nomem(err);
	}
	if (cat->pack) {
		kedge__free(path);
		return kedge__pack_read_set(cat, version, set, &m->state, err);
	}
	rc = manifest_read(cat, path, fd, m, err);
	if (rc == 1 && (rc = set_parse(cat, version, m->data, m->bytes, set, err)) != 0)
		(void)kedge__error_prefix(err, "%s", path);
	else if (!rc && m->data)
		rc = 1;
	kedge__free(path);
	return rc;
}

int kedge__catalog_read_set(struct kedge__catalog *cat, uint64_t version, struct kedge__set *set,
			    struct kedge__error *err)
{
	struct manifest m;
	int rc = read_set(cat, version, -1, set, &m, err);

	kedge__free(m.data);
	return rc;
}

/*
 * *OUT is NULL if the manifest is gone. A problem with the manifest is kept in the entry. FD as above. The caller frees
 * *DATA, the contents, unless DATA is NULL.
 */
static int entry_load(struct kedge__catalog *cat, uint64_t version, int fd, struct kedge__catalog_entry **out,
		      uint8_t **data, struct kedge__error *err)
{
	struct kedge__catalog_entry *entry = entry_new(version);
	struct manifest m = {0};
	int rc;

	if (!entry) {
		kedge__fs_close(fd);
		return kedge__error_nomem(err);
	}
	rc = read_set(cat, version, fd, &entry->set, &m, &entry->problem);
	entry->file = m.state;
	if (data)
		*data = m.data;
	else
		kedge__free(m.data);
	if (rc == KEDGE_E_NOMEM) {
		entry_free(entry);
		return kedge__error_nomem(err);
	}
	entry->read_at = cat->manifests_read;
	if (rc == 1)
		entry_describe(entry);
	if (rc == 0) {
		kedge__free(entry);
		entry = NULL;
	}
	*out = entry;
	return 0;
}

/* An entry from contents that are known to match the file; NULL: they cannot be decoded, or out of memory. */
static struct kedge__catalog_entry *entry_of(const struct kedge__catalog *cat, const struct kedge__index_record *r)
{
	struct kedge__catalog_entry *entry = entry_new(r->version);

	if (!entry)
		return NULL;
	entry->file = r->file;
	if (set_parse(cat, r->version, r->manifest, (size_t)r->file.bytes, &entry->set, NULL) != 0) {
		kedge__free(entry);
		return NULL;
	}
	entry_describe(entry);
	return entry;
}

/* ------------------------------------------------------------------ what may have leftovers */

static size_t list_index(const struct kedge__version_list *list, uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, list->count, list->at[i] < version);
	return i;
}

static bool list_has(const struct kedge__version_list *list, uint64_t version)
{
	size_t i = list_index(list, version);

	return i < list->count && list->at[i] == version;
}

bool kedge__catalog_is_unswept(const struct kedge__catalog *cat, uint64_t version)
{
	return list_has(&cat->unswept, version);
}

bool kedge__catalog_has_directory(const struct kedge__catalog *cat, uint64_t version)
{
	char *path;
	bool has;

	if (cat->pack || list_has(&cat->directories, version))
		return true;
	path = kedge__catalog_version_path(cat, version); /* it may be newer than the list */
	has = path && kedge__fs_exists(path);
	kedge__free(path);
	return has;
}

/* Without memory for it, leftovers stay until somebody looks for them everywhere. */
static void unswept_set(struct kedge__catalog *cat, uint64_t version, bool unswept)
{
	struct kedge__version_list *list = &cat->unswept;
	size_t i = list_index(&cat->unswept, version);
	bool is = i < list->count && list->at[i] == version;

	if (is && !unswept) {
		list->count--;
		memmove(list->at + i, list->at + i + 1, (list->count - i) * sizeof(*list->at));
	} else if (!is && unswept && kedge__array_reserve(list, list->count + 1)) {
		memmove(list->at + i + 1, list->at + i, (list->count - i) * sizeof(*list->at));
		list->at[i] = version;
		list->count++;
	}
}

/* ------------------------------------------------------------------ one entry of the catalogue */

void kedge__catalog_forget(struct kedge__catalog *cat, uint64_t version)
{
	size_t i = kedge__catalog_index(cat, version);
	struct kedge__catalog_entry **at = cat->entries.at;

	if (i == cat->entries.count || at[i]->version != version)
		return;
	if (cat->head == &at[i]->set)
		cat->head_known = false;
	cat->changes++;
	unswept_set(cat, version, false);
	entry_count(cat, at[i], false);
	entry_free(at[i]);
	memmove(at + i, at + i + 1, (cat->entries.count - i - 1) * sizeof(*at));
	cat->entries.count--;
}

/* Replace the entry of VERSION by ENTRY; NULL: by nothing. */
static int entry_set(struct kedge__catalog *cat, uint64_t version, struct kedge__catalog_entry *entry, bool unswept,
		     struct kedge__error *err)
{
	size_t i;

	if (entry && !kedge__array_reserve(&cat->entries, cat->entries.count + 1)) {
		entry_free(entry);
		return kedge__error_nomem(err);
	}
	kedge__catalog_forget(cat, version);
	if (!entry)
		return 0;
	i = kedge__catalog_index(cat, version);
	memmove(cat->entries.at + i + 1, cat->entries.at + i, (cat->entries.count - i) * sizeof(*cat->entries.at));
	cat->entries.at[i] = entry;
	cat->entries.count++;
	cat->changes++;
	entry_count(cat, entry, true);
	unswept_set(cat, version, unswept);
	kedge__history_note(cat, entry);
	return 0;
}

/* The state of VERSION's manifest file; false: there is none, or stat() fails. */
static bool state_now(const struct kedge__catalog *cat, uint64_t version, struct kedge__file_state *state, bool *gone)
{
	char *path = kedge__catalog_set_path(cat, version);
	struct stat st;
	bool there = path && stat(path, &st) == 0;

	*gone = path && !there && errno == ENOENT;
	if (there)
		*state = kedge__file_state_of(&st);
	kedge__free(path);
	return there && S_ISREG(st.st_mode);
}

/* HINT, if not NULL, has the probable contents of the manifest. */
static int refresh(struct kedge__catalog *cat, uint64_t version, const struct kedge__index_record *hint,
		   struct kedge__error *err)
{
	const struct kedge__catalog_entry *old = kedge__catalog_find(cat, version);
	struct kedge__catalog_entry *entry;
	struct kedge__file_state now;
	bool gone, known = state_now(cat, version, &now, &gone), unswept = !hint || hint->unswept;
	int rc = 0;

	if (gone) {
		kedge__catalog_forget(cat, version);
		return 0;
	}
	if (known && old && entry_fits(old, &now)) {
		if (hint)
			unswept_set(cat, version, hint->unswept);
		return 0;
	}
	entry = known && hint && kedge__file_state_equal(&hint->file, &now) ? entry_of(cat, hint) : NULL;
	if (!entry) {
		unswept = true;
		rc = entry_load(cat, version, -1, &entry, NULL, err);
	}
	return rc ? rc : entry_set(cat, version, entry, unswept, err);
}

int kedge__catalog_refresh(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err)
{
	return refresh(cat, version, NULL, err);
}

int kedge__catalog_reread_one(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err)
{
	const struct kedge__catalog_entry *old = kedge__catalog_find(cat, version);
	struct kedge__catalog_entry *entry;
	bool unswept = true;
	int rc = entry_load(cat, version, -1, &entry, NULL, err);

	if (rc)
		return rc;
	if (entry && old && kedge__file_state_equal(&old->file, &entry->file))
		unswept = kedge__catalog_is_unswept(cat, version);
	return entry_set(cat, version, entry, unswept, err);
}

int kedge__catalog_put(struct kedge__catalog *cat, uint64_t version, const struct kedge__bytes *text, bool unswept,
		       struct kedge__index_record *note, struct kedge__error *err)
{
	struct kedge__index_record r = {
	    .kind = KEDGE__INDEX_PUBLISHED, .unswept = unswept, .version = version, .manifest = text->at};
	struct kedge__catalog_entry *entry = NULL;
	bool gone;
	int rc;

	if (state_now(cat, version, &r.file, &gone) && r.file.bytes == text->count)
		entry = entry_of(cat, &r);
	rc = entry ? entry_set(cat, version, entry, unswept, err) : refresh(cat, version, NULL, err);
	*note = entry ? r : (struct kedge__index_record){.kind = KEDGE__INDEX_REMOVED, .version = version};
	return rc;
}

int kedge__catalog_apply(struct kedge__catalog *cat, const struct kedge__index_record *r, struct kedge__error *err)
{
	switch (r->kind) {
	case KEDGE__INDEX_PUBLISHED:
		return refresh(cat, r->version, r, err);
	case KEDGE__INDEX_REMOVED:
		return refresh(cat, r->version, NULL, err);
	case KEDGE__INDEX_CHANGING: /* index.c uses it until it is done */
		break;
	case KEDGE__INDEX_REOPENED:
		if (kedge__catalog_find(cat, r->version))
			unswept_set(cat, r->version, true);
		break;
	case KEDGE__INDEX_SWEPT:
		cat->unswept.count = 0;
		break;
	}
	return 0;
}

/* ------------------------------------------------------------------ all of them */

struct rescan {
	struct kedge__catalog *cat;
	bool reread;  /* stat() is not enough */
	bool rebuild; /* the index, of all entries */
	struct kedge__index_view view;
	struct kedge__version_list versions;    /* in the directory, ascending */
	struct kedge__version_list directories; /* beside their manifests, ascending */
	struct kedge__entry_list fresh;         /* one per version; NULL: not known yet, or gone */
	struct kedge__version_list unswept;     /* of them, in any order */
	struct kedge__index_record_list notes;
	KEDGE__ARRAY(uint8_t *) contents; /* notes point into it */
};

static int add_version(void *ctx, const char *name, struct kedge__error *err)
{
	struct rescan *r = ctx;
	uint64_t version;

	if (kedge__set_file_parse(name, &version))
		return kedge__array_push(&r->versions, version) ? 0 : kedge__error_nomem(err);
	if (r->cat->read_only && kedge__version_dir_parse(name, &version))
		return kedge__array_push(&r->directories, version) ? 0 : kedge__error_nomem(err);
	return 0;
}

static int compare_versions(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void versions_sort(struct kedge__version_list *list)
{
	if (list->count)
		qsort(list->at, list->count, sizeof(*list->at), compare_versions);
}

/* The entry of VERSION without reading its manifest, if possible. OLD: the catalogue's entry, or NULL. */
static int match(struct rescan *r, uint64_t version, struct kedge__catalog_entry *old,
		 const struct kedge__file_state *now, struct kedge__catalog_entry **out, struct kedge__error *err)
{
	const struct kedge__index_hint *hint = kedge__index_find(&r->view, version);
	struct kedge__catalog_entry *entry = old && entry_fits(old, now) ? old : NULL;
	bool unswept;

	if (hint && !kedge__file_state_equal(&hint->record.file, now))
		hint = NULL;
	/* A record for the index needs the contents of the manifest. */
	if (r->rebuild && !hint)
		return 0;
	if (!entry && hint)
		entry = entry_of(r->cat, &hint->record);
	if (!entry)
		return 0;
	unswept = hint ? hint->record.unswept : kedge__catalog_is_unswept(r->cat, version);
	if ((unswept && !kedge__array_push(&r->unswept, version)) ||
	    (r->rebuild && !kedge__array_push(&r->notes, hint->record))) {
		if (entry != old)
			entry_free(entry);
		return kedge__error_nomem(err);
	}
	*out = entry;
	return 0;
}

static int match_all(struct rescan *r, struct kedge__error *err)
{
	const struct kedge__entry_list *old = &r->cat->entries;
	char name[KEDGE__SET_FILE_ROOM];
	int dir, rc = kedge__fs_open_dir(r->cat->dir, &dir, err);
	size_t at = 0;

	if (rc)
		return rc;
	for (size_t i = 0; i < r->versions.count && !rc; i++) {
		uint64_t version = r->versions.at[i];
		struct kedge__catalog_entry *known;
		struct kedge__file_state now;
		struct stat st;

		while (at < old->count && old->at[at]->version < version)
			at++;
		known = at < old->count && old->at[at]->version == version ? old->at[at] : NULL;
		kedge__set_file_format(version, name);
		if (fstatat(dir, name, &st, 0) != 0 || !S_ISREG(st.st_mode))
			continue;
		now = kedge__file_state_of(&st);
		rc = match(r, version, known, &now, &r->fresh.at[i], err);
	}
	kedge__fs_close(dir);
	return rc;
}

/* ------------------------------------------------------------------ manifests that must be read */

/* Manifests that are opened together, so that storage fetches them at once. */
struct manifests {
	size_t places[MANIFESTS]; /* in the list of versions */
	int fds[MANIFESTS];       /* -1: could not be opened; the reason is found later */
	size_t count;
};

static void manifest_open(const struct rescan *r, size_t place, struct manifests *m)
{
	char *path = kedge__catalog_set_path(r->cat, r->versions.at[place]);
	int fd = -1;

	if (path && kedge__fs_open_read(path, &fd, NULL) == 0)
		kedge__fs_expect(fd, 0, 1);
	else
		fd = -1;
	m->places[m->count] = place;
	m->fds[m->count++] = fd;
	kedge__free(path);
}

/* DATA, the contents of ENTRY's manifest, goes into the index. */
static int take_note(struct rescan *r, const struct kedge__catalog_entry *entry, bool unswept, uint8_t *data,
		     struct kedge__error *err)
{
	const struct kedge__index_record note = {.kind = KEDGE__INDEX_PUBLISHED,
						 .unswept = unswept,
						 .version = entry->version,
						 .file = entry->file,
						 .manifest = data};

	if (!kedge__array_push(&r->contents, data)) {
		kedge__free(data);
		return kedge__error_nomem(err);
	}
	return kedge__array_push(&r->notes, note) ? 0 : kedge__error_nomem(err);
}

/* From what was known about the same file. */
static bool was_unswept(const struct rescan *r, const struct kedge__catalog_entry *entry)
{
	const struct kedge__catalog_entry *old = kedge__catalog_find(r->cat, entry->version);
	const struct kedge__index_hint *hint = kedge__index_find(&r->view, entry->version);

	if (hint && kedge__file_state_equal(&hint->record.file, &entry->file))
		return hint->record.unswept;
	return !old || !kedge__file_state_equal(&old->file, &entry->file) || kedge__catalog_is_unswept(r->cat, entry->version);
}

static int take(struct rescan *r, size_t place, int fd, struct kedge__error *err)
{
	struct kedge__catalog_entry *entry;
	uint8_t *data = NULL;
	bool unswept;
	int rc = entry_load(r->cat, r->versions.at[place], fd, &entry, &data, err);

	unswept = !rc && entry && was_unswept(r, entry);
	if (unswept)
		(void)kedge__array_push(&r->unswept, entry->version); /* as in unswept_set() */
	if (rc || !entry || entry->problem.code || r->cat->read_only || (r->reread && !r->rebuild))
		kedge__free(data);
	else
		rc = take_note(r, entry, unswept, data, err);
	if (!rc)
		r->fresh.at[place] = entry;
	return rc;
}

static int take_all(struct rescan *r, struct manifests *m, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < m->count; i++) {
		if (!rc)
			rc = take(r, m->places[i], m->fds[i], err);
		else
			kedge__fs_close(m->fds[i]);
	}
	m->count = 0;
	return rc;
}

static int read_others(struct rescan *r, struct kedge__error *err)
{
	struct manifests m = {.count = 0};
	int rc = 0;

	for (size_t i = 0; i < r->versions.count && !rc; i++) {
		if (!r->fresh.at[i])
			manifest_open(r, i, &m);
		if (m.count == MANIFESTS)
			rc = take_all(r, &m, err);
	}
	return rc ? rc : take_all(r, &m, err);
}

/* ------------------------------------------------------------------ the result */

/* Free the entries of LIST that OTHERS does not have. Both ascend. */
static void free_others(struct kedge__entry_list *list, const struct kedge__entry_list *others)
{
	size_t at = 0;

	for (size_t i = 0; i < list->count; i++) {
		while (at < others->count && others->at[at]->version < list->at[i]->version)
			at++;
		if (at == others->count || others->at[at] != list->at[i])
			entry_free(list->at[i]);
	}
	kedge__array_done(list);
}

/* Without the versions that have been removed meanwhile. */
static void close_ranks(struct kedge__entry_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++)
		if (list->at[i])
			list->at[kept++] = list->at[i];
	list->count = kept;
}

static void entries_replace(struct kedge__catalog *cat, const struct kedge__entry_list *fresh,
			    struct kedge__version_list *unswept)
{
	free_others(&cat->entries, fresh);
	cat->entries = *fresh;
	versions_sort(unswept);
	kedge__array_done(&cat->unswept);
	cat->unswept = *unswept;
	*unswept = (struct kedge__version_list){0};
	cat->changes++;
	cat->head_known = false;
	cat->problems = 0;
	cat->digest = 0;
	for (size_t i = 0; i < fresh->count; i++)
		entry_count(cat, fresh->at[i], true);
}

static int compare_notes(const void *a, const void *b)
{
	const struct kedge__index_record *x = a, *y = b;

	return x->version < y->version ? -1 : x->version > y->version;
}

static int rescan_read(struct rescan *r, struct kedge__error *err)
{
	int rc = kedge__fs_each(r->cat->dir, add_version, r, err);

	if (rc)
		return rc;
	versions_sort(&r->versions);
	versions_sort(&r->directories);
	if (!kedge__array_reserve(&r->fresh, r->versions.count + 1))
		return kedge__error_nomem(err);
	memset(r->fresh.at, 0, (r->versions.count + 1) * sizeof(*r->fresh.at));
	r->fresh.count = r->versions.count;
	rc = r->reread ? 0 : match_all(r, err);
	if (!rc)
		rc = read_others(r, err);
	close_ranks(&r->fresh);
	return rc;
}

static void rescan_done(struct rescan *r)
{
	for (size_t i = 0; i < r->contents.count; i++)
		kedge__free(r->contents.at[i]);
	kedge__array_done(&r->contents);
	kedge__array_done(&r->notes);
	kedge__array_done(&r->versions);
	kedge__array_done(&r->directories);
	kedge__array_done(&r->unswept);
}

/* LOST: the index cannot be followed. */
static int rescan(struct rescan *r, bool lost, struct kedge__error *err)
{
	struct kedge__catalog *cat = r->cat;
	int rc;

	kedge__index_begin(cat, lost, &r->view, &r->rebuild);
	rc = rescan_read(r, err);
	if (rc) {
		free_others(&r->fresh, &cat->entries);
		kedge__index_drop(cat, &r->view);
		kedge__index_close(&cat->index); /* from now on it does not have all changes */
	} else {
		if (r->notes.count)
			qsort(r->notes.at, r->notes.count, sizeof(*r->notes.at), compare_notes);
		entries_replace(cat, &r->fresh, &r->unswept);
		kedge__array_done(&cat->directories);
		cat->directories = r->directories;
		r->directories = (struct kedge__version_list){0};
		kedge__index_finish(cat, &r->view, &r->notes, r->rebuild);
	}
	rescan_done(r);
	return rc;
}

/* A pack has one version, no index, and nobody who changes it. */
static int rescan_pack(struct kedge__catalog *cat, struct kedge__error *err)
{
	uint64_t version;
	int rc = kedge__pack_version(cat, &version, err);

	return rc ? rc : kedge__catalog_reread_one(cat, version, err);
}

static int rescan_all(struct kedge__catalog *cat, bool reread, struct kedge__error *err)
{
	struct rescan r = {.cat = cat, .reread = reread};
	bool lost;
	int rc;

	if (cat->pack)
		return rescan_pack(cat, err);
	rc = kedge__index_follow(cat, &lost, err);
	return rc ? rc : rescan(&r, lost, err);
}

int kedge__catalog_rescan(struct kedge__catalog *cat, struct kedge__error *err)
{
	return rescan_all(cat, false, err);
}

int kedge__catalog_reread(struct kedge__catalog *cat, struct kedge__error *err)
{
	return rescan_all(cat, true, err);
}

/* A manifest that could not be read may be readable now. One that still cannot be changes nothing. */
static int problems_retry(struct kedge__catalog *cat, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = cat->problems ? cat->entries.count : 0; i && !rc; i--) {
		uint64_t version = cat->entries.at[i - 1]->version;
		struct kedge__catalog_entry *entry;

		if (!cat->entries.at[i - 1]->problem.code)
			continue;
		rc = entry_load(cat, version, -1, &entry, NULL, err);
		if (!rc && entry && entry->problem.code)
			entry_free(entry);
		else if (!rc)
			rc = entry_set(cat, version, entry, true, err);
	}
	return rc;
}

int kedge__catalog_scan(struct kedge__catalog *cat, struct kedge__error *err)
{
	struct rescan r = {.cat = cat};
	bool lost = false;
	int rc = cat->pack ? 0 : kedge__index_follow(cat, &lost, err);

	if (rc)
		return rc;
	return lost ? rescan(&r, true, err) : problems_retry(cat, err);
}

uint64_t kedge__catalog_manifests_read(const struct kedge__catalog *cat)
{
	return cat->manifests_read;
}
