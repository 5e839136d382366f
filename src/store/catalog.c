/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------ how it is used */

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

/* ------------------------------------------------------------------ entries */

size_t kedge__catalog_index(const struct kedge__catalog *cat, uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, cat->entries.count, cat->entries.at[i]->version < version);
	return i;
}

uint64_t kedge__catalog_changes(const struct kedge__catalog *cat)
{
	return cat->changes;
}

size_t kedge__catalog_problems(const struct kedge__catalog *cat)
{
	return cat->problems;
}

uint64_t kedge__catalog_digest(const struct kedge__catalog *cat)
{
	return cat->digest;
}

size_t kedge__catalog_count(const struct kedge__catalog *cat)
{
	return cat->entries.count;
}

const struct kedge__catalog_entry *kedge__catalog_at(const struct kedge__catalog *cat, size_t i)
{
	return cat->entries.at[i];
}

size_t kedge__catalog_below(const struct kedge__catalog *cat, uint64_t version)
{
	return kedge__catalog_index(cat, version);
}

const struct kedge__catalog_entry *kedge__catalog_find(const struct kedge__catalog *cat, uint64_t version)
{
	size_t i = kedge__catalog_index(cat, version);

	return i < cat->entries.count && cat->entries.at[i]->version == version ? cat->entries.at[i] : NULL;
}

const char *kedge__levels_unit(struct kedge__catalog *const *levels, size_t count, uint64_t version)
{
	for (size_t i = 0; i < count; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_find(levels[i], version);

		if (e && !e->problem.code && e->set.grouping)
			return "segment";
	}
	return "rank";
}

/* ------------------------------------------------------------------ paths */

char *kedge__catalog_path(const struct kedge__catalog *cat, const char *leaf)
{
	return leaf ? kedge__asprintf("%s/%s", cat->dir, leaf) : NULL;
}

char *kedge__catalog_set_path(const struct kedge__catalog *cat, uint64_t version)
{
	char *leaf = kedge__set_file_name(version);
	char *path = cat->pack ? kedge__strdup(cat->store) : kedge__catalog_path(cat, leaf);

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
	return kedge__part_path(cat, version, rank, &(struct kedge__set_part){.generation = generation});
}

static void part_file_format(uint32_t rank, const struct kedge__set_part *part, char name[KEDGE__SEGMENT_FILE_ROOM])
{
	if (part->bundle)
		kedge__bundle_file_format(kedge__bundle_first(rank, part->bundle), part->generation, name);
	else
		kedge__segment_file_format(rank, part->generation, name);
}

char *kedge__part_path(const struct kedge__catalog *cat, uint64_t version, uint32_t rank,
		       const struct kedge__set_part *part)
{
	char file[KEDGE__SEGMENT_FILE_ROOM];
	char *dir, *path;

	if (cat->pack)
		return kedge__strdup(cat->store);
	part_file_format(rank, part, file);
	dir = kedge__catalog_version_path(cat, version);
	path = dir ? kedge__asprintf("%s/%s", dir, file) : NULL;
	kedge__free(dir);
	return path;
}

int kedge__segment_look(const struct kedge__catalog *cat, uint64_t version, uint32_t rank,
			const struct kedge__set_part *part, uint64_t *bytes)
{
	char dir[KEDGE__VERSION_DIR_ROOM], file[KEDGE__SEGMENT_FILE_ROOM];
	char path[KEDGE__VERSION_DIR_ROOM + KEDGE__SEGMENT_FILE_ROOM];
	uint64_t there;
	struct stat st;

	kedge__version_dir_format(version, dir);
	part_file_format(rank, part, file);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, file);
	if (cat->pack ? fstat(cat->store_fd, &st) != 0 : fstatat(cat->dir_fd, path, &st, 0) != 0)
		return errno;
	there = (uint64_t)st.st_size;
	if (part->bundle)
		there = KEDGE__MIN(there > part->start ? there - part->start : 0, part->file_bytes);
	*bytes = there;
	return 0;
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

static int is_set(void *ctx, const char *name, struct kedge__error *err)
{
	uint64_t version;

	(void)ctx;
	(void)err;
	return kedge__set_file_parse(name, &version);
}

static bool has_set(const char *store, const char *name)
{
	char *dir = kedge__asprintf("%s/%s", store, name);
	bool found = dir && kedge__fs_each(dir, is_set, NULL, NULL) == 1;

	kedge__free(dir);
	return found;
}

static int pack_names(const char *store, char ***names, size_t *count, struct kedge__error *err)
{
	char **list = kedge__calloc(2, sizeof(*list));
	int rc = list ? kedge__pack_name(store, list, err) : kedge__error_nomem(err);

	if (rc) {
		kedge__free(list);
		return rc;
	}
	*names = list;
	*count = 1;
	return 0;
}

int kedge__store_names(const char *store, char ***names, size_t *count, struct kedge__error *err)
{
	char **all;
	size_t n, kept = 0;
	int rc;

	if (kedge__pack_is_at(store))
		return pack_names(store, names, count, err);
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

/* For readers, messages have the path as it was given; a job may change its directory while it runs. */
static int catalog_alloc(const char *store, const char *name, enum kedge__catalog_mode mode,
			 struct kedge__catalog **out, struct kedge__error *err)
{
	struct kedge__catalog *cat = kedge__calloc(1, sizeof(*cat));
	int rc;

	if (!cat)
		return kedge__error_nomem(err);
	pthread_mutex_init(&cat->mutex, NULL);
	pthread_cond_init(&cat->calm, NULL);
	cat->guard_fd = cat->lock_fd = cat->store_fd = cat->dir_fd = cat->index.fd = -1;
	cat->read_only = mode == KEDGE__CATALOG_READ;
	cat->given = kedge__strdup(store);
	cat->name = kedge__strdup(name);
	if (mode == KEDGE__CATALOG_READ)
		rc = (cat->store = kedge__strdup(store)) ? 0 : kedge__error_nomem(err);
	else
		rc = kedge__fs_absolute(store, &cat->store, err);
	cat->dir = cat->store ? kedge__asprintf("%s/%s", cat->store, name) : NULL;
	cat->index_path = cat->dir ? kedge__asprintf("%s/" KEDGE__INDEX_NAME, cat->dir) : NULL;
	cat->index_tmp = cat->dir ? kedge__asprintf("%s/" KEDGE__INDEX_NAME KEDGE__TMP_SUFFIX, cat->dir) : NULL;
	cat->tables = kedge__region_tables_new();
	if (!rc && !(cat->given && cat->name && cat->dir && cat->index_path && cat->index_tmp && cat->tables))
		rc = kedge__error_nomem(err);
	if (rc)
		kedge__catalog_close(cat);
	else
		*out = cat;
	return rc;
}

/* While they are open, no other directory can get their inode numbers, even if they are removed. */
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

	if (kedge__pack_is_at(cat->store))
		return kedge__pack_begin(cat, err);
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
	int rc;

	if (kedge__pack_is_at(cat->store))
		return kedge__pack_begins_at(cat->store)
			   ? kedge__pack_refuse(cat, err)
			   : kedge__error_set(err, KEDGE_E_IO, 0, "%s is a file, not a directory", cat->given);
	rc = kedge__fs_mkdirs(cat->store, err);
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
	if (!rc && !cat->pack)
		rc = hold_directories(cat, err);
	if (!rc)
		rc = kedge__catalog_rescan(cat, err);
	if (rc) {
		kedge__catalog_close(cat);
		return rc;
	}
	*out = cat;
	return 0;
}

int kedge__catalog_make(const char *store, const char *name, enum kedge__catalog_mode mode, struct kedge__error *err)
{
	struct kedge__catalog *cat;
	int rc = kedge__job_name_check(name, err);

	if (!rc)
		rc = catalog_alloc(store, name, mode, &cat, err);
	if (rc)
		return rc;
	rc = open_create(cat, mode, err);
	kedge__catalog_close(cat);
	return rc;
}

static int descriptor_copy(int from, int *to, struct kedge__error *err)
{
	*to = fcntl(from, F_DUPFD_CLOEXEC, 0);
	return *to >= 0 ? 0 : kedge__error_set(err, KEDGE_E_IO, errno, "cannot open another handle of a store");
}

static int knowledge_copy(const struct kedge__catalog *from, struct kedge__catalog *to, struct kedge__error *err)
{
	if (!kedge__entries_share(&from->entries, &to->entries) ||
	    !kedge__array_reserve(&to->unswept, from->unswept.count + 1))
		return kedge__error_nomem(err);
	if (from->unswept.count)
		memcpy(to->unswept.at, from->unswept.at, from->unswept.count * sizeof(*to->unswept.at));
	to->unswept.count = from->unswept.count;
	to->id = from->id;
	if (from->marker_problem.code)
		(void)kedge__error_set(&to->marker_problem, from->marker_problem.code, 0, "%s",
				       kedge__error_text(&from->marker_problem));
	to->changes = from->changes;
	to->problems = from->problems;
	to->digest = from->digest;
	to->head = from->head;
	to->head_known = from->head_known;
	to->manifests_read = from->manifests_read; /* entries say when they were read */
	kedge__index_share(from, to);
	return 0;
}

int kedge__catalog_dup(const struct kedge__catalog *cat, struct kedge__catalog **out, struct kedge__error *err)
{
	struct kedge__catalog *copy;
	int rc = catalog_alloc(cat->store, cat->name, cat->read_only ? KEDGE__CATALOG_READ : KEDGE__CATALOG_CREATE,
			       &copy, err);

	if (rc)
		return rc;
	kedge__free(copy->given);
	copy->given = kedge__strdup(cat->given);
	rc = copy->given ? descriptor_copy(cat->store_fd, &copy->store_fd, err) : kedge__error_nomem(err);
	if (!rc)
		rc = descriptor_copy(cat->dir_fd, &copy->dir_fd, err);
	if (!rc)
		rc = knowledge_copy(cat, copy, err);
	if (rc)
		kedge__catalog_close(copy);
	else
		*out = copy;
	return rc;
}

void kedge__catalog_carry(struct kedge__catalog *cat, const struct kedge__carrier *c)
{
	cat->carrier = c;
}

void kedge__catalog_close(struct kedge__catalog *cat)
{
	if (!cat)
		return;
	kedge__catalog_disown(cat);
	kedge__fs_close(cat->guard_fd);
	kedge__fs_close(cat->store_fd);
	kedge__fs_close(cat->dir_fd);
	kedge__entries_free(&cat->entries);
	kedge__array_done(&cat->unswept);
	kedge__array_done(&cat->directories);
	kedge__index_close(&cat->index);
	kedge__region_tables_free(cat->tables);
	kedge__error_done(&cat->marker_problem);
	pthread_cond_destroy(&cat->calm);
	pthread_mutex_destroy(&cat->mutex);
	kedge__free(cat->given);
	kedge__free(cat->store);
	kedge__free(cat->name);
	kedge__free(cat->dir);
	kedge__free(cat->index_path);
	kedge__free(cat->index_tmp);
	kedge__free(cat);
}

/* ------------------------------------------------------------------ renew what was removed meanwhile */

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
		rc = kedge__catalog_rescan(cat, err);
	kedge__free(owner);
	return rc;
}

/* ------------------------------------------------------------------ lineage according to the manifests */

enum { FOLLOWED = 1, OPEN = 2 }; /* marks; any other value: followed by an earlier call */

/* *OPEN_COUNT: entries whose sources are still to be marked. */
static int mark_source(const struct kedge__catalog *cat, uint64_t from, uint64_t to, uint8_t *marks, size_t *open_count,
		       bool tolerant, struct kedge__error *err)
{
	size_t i = kedge__catalog_index(cat, to);

	if (to < from && i < cat->entries.count && cat->entries.at[i]->version == to) {
		*open_count += !marks[i];
		marks[i] = marks[i] ? marks[i] : OPEN;
	} else if (!tolerant) {
		return kedge__error_set(err, KEDGE_E_MISSING, 0,
					"version %" PRIu64 " depends on version %" PRIu64 ", which is not in %s", from,
					to, cat->dir);
	}
	return 0;
}

static int mark_sources(const struct kedge__catalog *cat, uint64_t version, const struct kedge__catalog_entry *entry,
			uint8_t *marks, size_t *open_count, bool tolerant, struct kedge__error *err)
{
	int rc = 0;

	if (entry->problem.code && tolerant)
		return 0;
	if (entry->problem.code)
		return kedge__error_set(err, entry->problem.code, 0,
					"version %" PRIu64 " needs version %" PRIu64 ": %s", version, entry->version,
					kedge__error_text(&entry->problem));
	for (size_t k = 0; k < entry->set.source_count && !rc; k++)
		rc = mark_source(cat, entry->version, entry->set.sources[k], marks, open_count, tolerant, err);
	return rc;
}

int kedge__catalog_mark_from(const struct kedge__catalog *cat, uint64_t version, bool tolerant, uint8_t *marks,
			     size_t *lowest, struct kedge__error *err)
{
	size_t top = kedge__catalog_index(cat, version), open_count = 0, i;
	int rc = 0;

	*lowest = 0;
	if (top == cat->entries.count || cat->entries.at[top]->version != version)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s has no version %" PRIu64, cat->dir, version);
	if (!marks[top]) {
		marks[top] = OPEN;
		open_count = 1;
	}
	/* References go to older versions only, so one pass downwards finds them all. */
	for (i = top + 1; open_count && !rc; i--) {
		if (marks[i - 1] != OPEN)
			continue;
		marks[i - 1] = FOLLOWED;
		open_count--;
		rc = mark_sources(cat, version, cat->entries.at[i - 1], marks, &open_count, tolerant, err);
	}
	if (!rc)
		*lowest = i;
	return rc;
}

int kedge__catalog_mark(const struct kedge__catalog *cat, uint64_t version, bool tolerant, uint8_t *marks,
			struct kedge__error *err)
{
	size_t lowest;

	return kedge__catalog_mark_from(cat, version, tolerant, marks, &lowest, err);
}

int kedge__catalog_refresh_lineage(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err)
{
	size_t top = kedge__catalog_index(cat, version), open_count = 1, i;
	uint8_t *marks = kedge__calloc(cat->entries.count + 1, 1);
	int rc = marks ? 0 : kedge__error_nomem(err);

	if (top == cat->entries.count || cat->entries.at[top]->version != version)
		open_count = 0;
	else if (!rc)
		marks[top] = OPEN;
	for (i = top + 1; open_count && !rc; i--) {
		uint64_t at = cat->entries.at[i - 1]->version;
		const struct kedge__catalog_entry *entry;

		if (marks[i - 1] != OPEN)
			continue;
		open_count--;
		/* If it is gone now, the entries above it move; their marks are no longer needed. */
		rc = kedge__catalog_refresh(cat, at, err);
		entry = kedge__catalog_find(cat, at);
		if (!rc && entry)
			rc = mark_sources(cat, version, entry, marks, &open_count, true, err);
	}
	kedge__free(marks);
	return rc;
}

int kedge__catalog_closure(const struct kedge__catalog *cat, uint64_t version, uint64_t **list, size_t *count,
			   struct kedge__error *err)
{
	uint8_t *marks = kedge__calloc(cat->entries.count + 1, 1);
	struct kedge__version_list found = {0};
	size_t lowest = 0;
	int rc = marks ? kedge__catalog_mark_from(cat, version, false, marks, &lowest, err) : kedge__error_nomem(err);

	for (size_t i = lowest; i < cat->entries.count && cat->entries.at[i]->version <= version && !rc; i++)
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
