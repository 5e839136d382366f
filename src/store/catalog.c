#include "store/internal.h"

#include <errno.h>
#include <sys/stat.h>

#define MANIFESTS 64 /* that are open at once */

/* ------------------------------------------------------------------ entries */

static void entry_free(struct kedge__catalog_entry *entry)
{
	if (!entry)
		return;
	if (!entry->problem.code)
		kedge__set_done(&entry->set);
	kedge__error_done(&entry->problem);
	kedge__free(entry);
}

static int check_set(const struct kedge__catalog *cat, uint64_t version, const struct kedge__set *set,
		     struct kedge__error *err)
{
	if (set->version != version)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the manifest is one of version %" PRIu64,
					set->version);
	if (strcmp(set->name, cat->name) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the manifest is one of job %s", set->name);
	return 0;
}

void kedge__catalog_count_read(struct kedge__catalog *cat, uint64_t bytes)
{
	if (cat->bucket)
		kedge__bucket_take(cat->bucket, (double)bytes);
	else
		cat->unpaced += bytes;
}

void kedge__catalog_pace(struct kedge__catalog *cat, struct kedge__bucket *bucket)
{
	cat->bucket = bucket;
	kedge__bucket_take(bucket, (double)cat->unpaced);
	cat->unpaced = 0;
}

void kedge__catalog_set_sync(struct kedge__catalog *cat, bool sync)
{
	cat->unsynced = !sync;
}

void kedge__catalog_set_take_over(struct kedge__catalog *cat, bool take_over)
{
	cat->take_over = take_over;
}

/* FD is the manifest if it is open already, and closed; else -1. */
static int read_set(struct kedge__catalog *cat, uint64_t version, int fd, struct kedge__set *set,
		    struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	char *path = kedge__catalog_set_path(cat, version);
	uint8_t *data = NULL;
	size_t bytes;
	int rc;

	if (!path) {
		kedge__fs_close(fd);
		return kedge__error_nomem(err);
	}
	rc = kedge__file_read(path, fd, KEDGE__NO_MANIFEST_SIZE, &data, &bytes, &problem);
	if (rc) {
		rc = problem.sys_errno == ENOENT ? 0 : rc;
		goto done;
	}
	kedge__catalog_count_read(cat, bytes);
	rc = kedge__set_decode(data, bytes, set, &problem);
	if (!rc) {
		rc = check_set(cat, version, set, &problem);
		if (rc)
			kedge__set_done(set);
	}
	if (rc)
		(void)kedge__error_prefix(&problem, "%s", path);
	else
		rc = 1;
done:
	if (rc < 0)
		kedge__error_move(err, &problem);
	kedge__error_done(&problem);
	kedge__free(data);
	kedge__free(path);
	return rc;
}

int kedge__catalog_read_set(struct kedge__catalog *cat, uint64_t version, struct kedge__set *set,
			    struct kedge__error *err)
{
	return read_set(cat, version, -1, set, err);
}

/* *OUT is NULL when the manifest is gone. What is wrong with a manifest is kept in the entry. FD as above. */
static int entry_load(struct kedge__catalog *cat, uint64_t version, int fd, struct kedge__catalog_entry **out,
		      struct kedge__error *err)
{
	struct kedge__catalog_entry *entry = kedge__calloc(1, sizeof(*entry));
	int rc;

	if (!entry) {
		kedge__fs_close(fd);
		return kedge__error_nomem(err);
	}
	entry->version = version;
	rc = read_set(cat, version, fd, &entry->set, &entry->problem);
	if (rc == KEDGE_E_NOMEM) {
		entry_free(entry);
		return kedge__error_nomem(err);
	}
	if (rc == 0) {
		kedge__free(entry);
		entry = NULL;
	}
	*out = entry;
	return 0;
}

static void entries_free(struct kedge__entry_list *entries)
{
	for (size_t i = 0; i < entries->count; i++)
		entry_free(entries->at[i]);
	kedge__array_done(entries);
}

static int push_version(struct kedge__catalog *cat, uint64_t version, int fd, struct kedge__entry_list *entries,
			struct kedge__error *err)
{
	struct kedge__catalog_entry *entry;
	int rc = entry_load(cat, version, fd, &entry, err);

	if (rc || !entry)
		return rc;
	if (!kedge__array_push(entries, entry)) {
		entry_free(entry);
		return kedge__error_nomem(err);
	}
	return 0;
}

/* Manifests that are opened together, so that storage fetches them all at once. */
struct manifests {
	uint64_t versions[MANIFESTS];
	int fds[MANIFESTS]; /* -1: could not be opened; why, is found out in its turn */
	size_t count;
};

static void manifest_open(const struct kedge__catalog *cat, uint64_t version, struct manifests *m)
{
	char *path = kedge__catalog_set_path(cat, version);
	int fd = -1;

	if (path && kedge__fs_open_read(path, &fd, NULL) == 0)
		kedge__fs_expect(fd, 0, 1);
	else
		fd = -1;
	m->versions[m->count] = version;
	m->fds[m->count++] = fd;
	kedge__free(path);
}

static int manifests_take(struct kedge__catalog *cat, struct manifests *m, struct kedge__entry_list *entries,
			  struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < m->count; i++) {
		if (!rc)
			rc = push_version(cat, m->versions[i], m->fds[i], entries, err);
		else
			kedge__fs_close(m->fds[i]);
	}
	m->count = 0;
	return rc;
}

int kedge__catalog_scan(struct kedge__catalog *cat, struct kedge__error *err)
{
	struct kedge__entry_list fresh = {0};
	struct manifests m = {.count = 0};
	char **names;
	size_t count;
	uint64_t version;
	int rc;

	rc = kedge__fs_list(cat->dir, &names, &count, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		if (kedge__set_file_parse(names[i], &version))
			manifest_open(cat, version, &m);
		if (m.count == MANIFESTS)
			rc = manifests_take(cat, &m, &fresh, err);
	}
	kedge__fs_list_free(names, count);
	if (!rc)
		rc = manifests_take(cat, &m, &fresh, err);
	if (rc) {
		entries_free(&fresh);
		return rc;
	}
	entries_free(&cat->entries);
	cat->entries = fresh;
	return 0;
}

/* Index of the first entry that is not below VERSION. */
static size_t entry_index(const struct kedge__catalog *cat, uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, cat->entries.count, cat->entries.at[i]->version < version);
	return i;
}

void kedge__catalog_forget(struct kedge__catalog *cat, uint64_t version)
{
	size_t i = entry_index(cat, version);
	struct kedge__catalog_entry **at = cat->entries.at;

	if (i == cat->entries.count || at[i]->version != version)
		return;
	entry_free(at[i]);
	memmove(at + i, at + i + 1, (cat->entries.count - i - 1) * sizeof(*at));
	cat->entries.count--;
}

int kedge__catalog_refresh(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err)
{
	struct kedge__catalog_entry *entry;
	size_t i;
	int rc;

	rc = entry_load(cat, version, -1, &entry, err);
	if (rc)
		return rc;
	if (entry && !kedge__array_reserve(&cat->entries, cat->entries.count + 1)) {
		entry_free(entry);
		return kedge__error_nomem(err);
	}
	kedge__catalog_forget(cat, version);
	if (!entry)
		return 0;
	i = entry_index(cat, version);
	memmove(cat->entries.at + i + 1, cat->entries.at + i, (cat->entries.count - i) * sizeof(*cat->entries.at));
	cat->entries.at[i] = entry;
	cat->entries.count++;
	return 0;
}

size_t kedge__catalog_count(const struct kedge__catalog *cat)
{
	return cat->entries.count;
}

const struct kedge__catalog_entry *kedge__catalog_at(const struct kedge__catalog *cat, size_t i)
{
	return cat->entries.at[i];
}

const struct kedge__catalog_entry *kedge__catalog_find(const struct kedge__catalog *cat, uint64_t version)
{
	size_t i = entry_index(cat, version);

	return i < cat->entries.count && cat->entries.at[i]->version == version ? cat->entries.at[i] : NULL;
}

/* ------------------------------------------------------------------ paths */

char *kedge__catalog_path(const struct kedge__catalog *cat, const char *leaf)
{
	return leaf ? kedge__asprintf("%s/%s", cat->dir, leaf) : NULL;
}

char *kedge__catalog_set_path(const struct kedge__catalog *cat, uint64_t version)
{
	char *leaf = kedge__set_file_name(version);
	char *path = kedge__catalog_path(cat, leaf);

	kedge__free(leaf);
	return path;
}

char *kedge__catalog_version_path(const struct kedge__catalog *cat, uint64_t version)
{
	char *leaf = kedge__version_dir_name(version);
	char *path = kedge__catalog_path(cat, leaf);

	kedge__free(leaf);
	return path;
}

char *kedge__segment_path(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation)
{
	char *dir = kedge__catalog_version_path(cat, version);
	char *leaf = kedge__segment_file_name(rank, generation);
	char *path = dir && leaf ? kedge__asprintf("%s/%s", dir, leaf) : NULL;

	kedge__free(dir);
	kedge__free(leaf);
	return path;
}

const char *kedge__catalog_store(const struct kedge__catalog *cat)
{
	return cat->store;
}

const char *kedge__catalog_name(const struct kedge__catalog *cat)
{
	return cat->name;
}

struct kedge__store_id kedge__catalog_store_id(const struct kedge__catalog *cat)
{
	return cat->id;
}

/* ------------------------------------------------------------------ names of a store */

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool has_set(const char *store, const char *name)
{
	char *dir = kedge__asprintf("%s/%s", store, name);
	char **files;
	size_t count;
	uint64_t version;
	bool found = false;

	if (dir && kedge__fs_list(dir, &files, &count, NULL) == 0) {
		for (size_t i = 0; i < count && !found; i++)
			found = kedge__set_file_parse(files[i], &version);
		kedge__fs_list_free(files, count);
	}
	kedge__free(dir);
	return found;
}

int kedge__store_names(const char *store, char ***names, size_t *count, struct kedge__error *err)
{
	char **all;
	size_t n, kept = 0;
	int rc;

	if (!is_directory(store))
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "there is no store at %s", store);
	rc = kedge__fs_list(store, &all, &n, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		if (kedge__job_name_check(all[i], NULL) == 0 && has_set(store, all[i]))
			all[kept++] = all[i];
		else
			kedge__free(all[i]);
	}
	*names = all;
	*count = kept;
	return 0;
}

static int no_such_name(const struct kedge__catalog *cat, struct kedge__error *err)
{
	char **names = NULL;
	size_t count = 0;
	const char *near = NULL;
	int rc;

	if (kedge__store_names(cat->store, &names, &count, NULL) == 0)
		near = kedge__nearest_word(cat->name, (const char *const *)names, count);
	if (near)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "store %s has no job %s; did you mean %s?", cat->given,
				      cat->name, near);
	else
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "store %s has no job %s", cat->given, cat->name);
	kedge__fs_list_free(names, count);
	return rc;
}

/* ------------------------------------------------------------------ open and close */

/* Who only reads finds the paths in messages as they were given; a job may go to another directory while it runs. */
static int catalog_alloc(const char *store, const char *name, enum kedge__catalog_mode mode,
			 struct kedge__catalog **out, struct kedge__error *err)
{
	struct kedge__catalog *cat = kedge__calloc(1, sizeof(*cat));
	int rc;

	if (!cat)
		return kedge__error_nomem(err);
	pthread_mutex_init(&cat->mutex, NULL);
	pthread_cond_init(&cat->calm, NULL);
	cat->guard_fd = cat->lock_fd = cat->store_fd = cat->dir_fd = -1;
	cat->given = kedge__strdup(store);
	cat->name = kedge__strdup(name);
	if (mode == KEDGE__CATALOG_READ)
		rc = (cat->store = kedge__strdup(store)) ? 0 : kedge__error_nomem(err);
	else
		rc = kedge__fs_absolute(store, &cat->store, err);
	cat->dir = cat->store ? kedge__asprintf("%s/%s", cat->store, name) : NULL;
	if (!rc && !(cat->given && cat->name && cat->dir))
		rc = kedge__error_nomem(err);
	if (rc)
		kedge__catalog_close(cat);
	else
		*out = cat;
	return rc;
}

/* Nothing that comes to their paths later has their numbers while they are held, even if they are removed. */
static int hold_directories(struct kedge__catalog *cat, struct kedge__error *err)
{
	int rc;

	kedge__fs_close(cat->store_fd);
	kedge__fs_close(cat->dir_fd);
	cat->store_fd = cat->dir_fd = -1;
	rc = kedge__fs_open_dir(cat->store, &cat->store_fd, err);
	return rc ? rc : kedge__fs_open_dir(cat->dir, &cat->dir_fd, err);
}

static int open_read(struct kedge__catalog *cat, struct kedge__error *err)
{
	int rc;

	if (!is_directory(cat->store))
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "there is no store at %s", cat->given);
	rc = kedge__marker_open(cat, KEDGE__CATALOG_READ, err);
	if (rc)
		return rc;
	return is_directory(cat->dir) ? 0 : no_such_name(cat, err);
}

/* The directory of the name, and the guard in it. */
static int name_create(const struct kedge__catalog *cat, struct kedge__error *err)
{
	char *guard;
	int fd = -1, rc = kedge__fs_mkdir(cat->dir, err);

	if (rc)
		return rc;
	guard = kedge__catalog_path(cat, KEDGE__GUARD_NAME);
	rc = guard ? kedge__fs_open_lock(guard, &fd, err) : kedge__error_nomem(err);
	kedge__fs_close(fd);
	kedge__free(guard);
	return rc;
}

static int open_create(struct kedge__catalog *cat, enum kedge__catalog_mode mode, struct kedge__error *err)
{
	int rc = kedge__fs_mkdirs(cat->store, err);

	if (!rc)
		rc = kedge__marker_open(cat, mode, err);
	return rc ? rc : name_create(cat, err);
}

int kedge__catalog_open(const char *store, const char *name, enum kedge__catalog_mode mode, struct kedge__catalog **out,
			struct kedge__error *err)
{
	struct kedge__catalog *cat;
	int rc;

	rc = kedge__job_name_check(name, err);
	if (rc)
		return rc;
	rc = catalog_alloc(store, name, mode, &cat, err);
	if (rc)
		return rc;
	rc = mode == KEDGE__CATALOG_READ ? open_read(cat, err) : open_create(cat, mode, err);
	if (!rc)
		rc = hold_directories(cat, err);
	if (!rc)
		rc = kedge__catalog_scan(cat, err);
	if (rc) {
		kedge__catalog_close(cat);
		return rc;
	}
	*out = cat;
	return 0;
}

void kedge__catalog_close(struct kedge__catalog *cat)
{
	if (!cat)
		return;
	kedge__catalog_disown(cat);
	kedge__fs_close(cat->guard_fd);
	kedge__fs_close(cat->store_fd);
	kedge__fs_close(cat->dir_fd);
	entries_free(&cat->entries);
	kedge__error_done(&cat->marker_problem);
	pthread_cond_destroy(&cat->calm);
	pthread_mutex_destroy(&cat->mutex);
	kedge__free(cat->given);
	kedge__free(cat->store);
	kedge__free(cat->name);
	kedge__free(cat->dir);
	kedge__free(cat);
}

/* ------------------------------------------------------------------ what was removed while it was open */

int kedge__catalog_present(const struct kedge__catalog *cat, bool *gone, struct kedge__error *err)
{
	bool there, owned = true;
	int rc = 0;

	there = kedge__file_is_at(cat->store_fd, cat->store) && kedge__file_is_at(cat->dir_fd, cat->dir);
	/* A lock file in another directory belongs to the owner of that directory. */
	if (there)
		rc = kedge__lock_check(cat, &owned, err);
	if (!rc)
		*gone = !there || !owned || !kedge__marker_is_there(cat);
	return rc;
}

int kedge__catalog_renew(struct kedge__catalog *cat, struct kedge__error *err)
{
	char *owner = NULL;
	int rc;

	if (cat->owner) {
		owner = kedge__strdup(cat->owner);
		if (!owner)
			return kedge__error_nomem(err);
	}
	rc = kedge__fs_mkdirs(cat->store, err);
	if (!rc)
		rc = kedge__marker_renew(cat, err);
	if (!rc)
		rc = name_create(cat, err);
	if (!rc)
		rc = hold_directories(cat, err);
	if (!rc && owner) {
		kedge__lock_drop(cat);
		rc = kedge__catalog_own(cat, owner, err);
	}
	if (!rc)
		rc = kedge__catalog_scan(cat, err);
	kedge__free(owner);
	return rc;
}

/* ------------------------------------------------------------------ lineage by the manifests */

static int mark_source(const struct kedge__catalog *cat, uint64_t from, uint64_t to, uint8_t *marks, bool tolerant,
		       struct kedge__error *err)
{
	size_t i = entry_index(cat, to);

	if (to < from && i < cat->entries.count && cat->entries.at[i]->version == to)
		marks[i] = 1;
	else if (!tolerant)
		return kedge__error_set(err, KEDGE_E_MISSING, 0,
					"version %" PRIu64 " depends on version %" PRIu64 ", which is not in %s", from,
					to, cat->dir);
	return 0;
}

int kedge__catalog_mark(const struct kedge__catalog *cat, uint64_t version, bool tolerant, uint8_t *marks,
			struct kedge__error *err)
{
	size_t top = entry_index(cat, version);
	int rc;

	if (top == cat->entries.count || cat->entries.at[top]->version != version)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s has no version %" PRIu64, cat->dir, version);
	marks[top] = 1;
	/* References go to older versions only, so one walk down meets them all. */
	for (size_t i = top + 1; i-- > 0;) {
		const struct kedge__catalog_entry *entry = cat->entries.at[i];

		if (!marks[i] || (entry->problem.code && tolerant))
			continue;
		if (entry->problem.code)
			return kedge__error_set(err, entry->problem.code, 0,
						"version %" PRIu64 " needs version %" PRIu64 ": %s", version,
						entry->version, kedge__error_text(&entry->problem));
		for (size_t k = 0; k < entry->set.source_count; k++) {
			rc = mark_source(cat, entry->version, entry->set.sources[k], marks, tolerant, err);
			if (rc)
				return rc;
		}
	}
	return 0;
}

int kedge__catalog_closure(const struct kedge__catalog *cat, uint64_t version, uint64_t **list, size_t *count,
			   struct kedge__error *err)
{
	uint8_t *marks = kedge__calloc(cat->entries.count + 1, 1);
	KEDGE__ARRAY(uint64_t) found = {0};
	int rc = marks ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__catalog_mark(cat, version, false, marks, err);
	for (size_t i = 0; i < cat->entries.count && !rc; i++)
		if (marks[i] && !kedge__array_push(&found, cat->entries.at[i]->version))
			rc = kedge__error_nomem(err);
	kedge__free(marks);
	if (rc) {
		kedge__array_done(&found);
		return rc;
	}
	*list = found.at;
	*count = found.count;
	return 0;
}
