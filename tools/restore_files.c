/* SPDX-License-Identifier: BSD-3-Clause */
/* restore_files: safe names, temporary files, and the renames at the end. */
#include "restore.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_name(const char *region, struct kedge__error *err)
{
	for (const char *p = region;; p += strcspn(p, "/") + 1) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && memcmp(p, "..", 2) == 0))
			return kedge__error_set(err, KEDGE_E_MISMATCH, 0,
						"the name of region '%s' could lead out of the directory; restore the "
						"other regions by naming them",
						region);
		if (p[n] == '\0')
			return 0;
	}
}

/* PATH is DIR and more; nothing after DIR may be a symbolic link. */
static int check_links(const char *path, size_t dir_length, struct kedge__error *err)
{
	char *part = kedge__strdup(path);
	int rc = 0;

	if (!part)
		kedge__tool_no_memory();
	for (char *p = part + dir_length; rc == 0 && *p; p++) {
		struct stat st;

		if (*p != '/' || p == part + dir_length)
			continue;
		*p = '\0';
		if (lstat(part, &st) == 0 && S_ISLNK(st.st_mode))
			rc = kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					      "%s is a symbolic link and could lead out of the directory", part);
		*p = '/';
	}
	kedge__free(part);
	return rc;
}

static char *output_path(const struct kedge__outputs *o, int64_t rank, const char *region)
{
	char *path = rank < 0 ? kedge__asprintf("%s/%s", o->dir, region)
			      : kedge__asprintf("%s/rank-%lld/%s", o->dir, (long long)rank, region);

	if (!path)
		kedge__tool_no_memory();
	return path;
}

/* The folder of PATH, made if need be. It stays in *FOLDER, owned by the caller, on failure too. */
static int make_folder(const struct kedge__outputs *o, const char *path, char **folder, struct kedge__error *err)
{
	int rc = check_links(path, strlen(o->dir), err);

	*folder = kedge__strdup(path);
	if (!*folder)
		kedge__tool_no_memory();
	*strrchr(*folder, '/') = '\0';
	return rc ? rc : kedge__fs_mkdirs(*folder, err);
}

static char *temporary_name(struct kedge__outputs *o, const char *folder)
{
	char *path =
	    kedge__asprintf("%s/.kedge-restore-%ld-%llu.tmp", folder, (long)getpid(), (unsigned long long)o->next++);

	if (!path)
		kedge__tool_no_memory();
	return path;
}

/* Nobody else may read the restored file, unless the file that it replaces allowed it. */
static int create_file(struct kedge__output *out, struct kedge__error *err)
{
	struct stat old;
	int rc = kedge__fs_create(out->temporary, &out->fd, err);

	if (!rc && lstat(out->path, &old) == 0 && S_ISREG(old.st_mode))
		rc = kedge__fs_set_mode(out->fd, old.st_mode & 0777, out->temporary, err);
	return rc;
}

/* Space is reserved first: a full disk is an error here, not a signal while the pages are filled. */
static int map_file(struct kedge__output *out, struct kedge__error *err)
{
	int rc = create_file(out, err);

	if (rc || out->bytes == 0)
		return rc;
	rc = kedge__fs_allocate(out->fd, out->bytes, out->temporary, err);
	if (rc)
		return rc;
	out->data = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
	if (out->data != MAP_FAILED)
		return 0;
	out->data = NULL;
	return kedge__error_set(err, KEDGE_E_IO, errno, "cannot map %s", out->temporary);
}

static void unmap_file(struct kedge__output *out)
{
	if (out->data)
		munmap(out->data, out->bytes);
	out->data = NULL;
	kedge__fs_close(out->fd);
	out->fd = -1;
}

int kedge__outputs_add(struct kedge__outputs *o, int64_t rank, const char *region, uint64_t bytes, void **data,
		       struct kedge__error *err)
{
	struct kedge__output out = {.bytes = bytes, .fd = -1};
	char *folder = NULL;
	int rc = check_name(region, err);

	if (rc)
		return rc;
	out.path = output_path(o, rank, region);
	rc = make_folder(o, out.path, &folder, err);
	if (rc) {
		kedge__free(folder);
		kedge__free(out.path);
		return rc;
	}
	out.temporary = temporary_name(o, folder);
	kedge__free(folder);
	if (!kedge__array_push(&o->list, out))
		kedge__tool_no_memory();
	rc = map_file(&o->list.at[o->list.count - 1], err);
	if (rc == 0)
		*data = o->list.at[o->list.count - 1].data;
	return rc;
}

int kedge__outputs_settle(struct kedge__outputs *o, struct kedge__error *err)
{
	for (; o->settled < o->list.count; o->settled++) {
		struct kedge__output *out = &o->list.at[o->settled];
		int rc = o->sync ? kedge__fs_sync(out->fd, out->temporary, err) : 0;

		if (rc)
			return rc;
		unmap_file(out);
	}
	return 0;
}

static int sync_folder(const struct kedge__output *out, struct kedge__error *err)
{
	char *folder = kedge__strdup(out->path);
	int rc;

	if (!folder)
		kedge__tool_no_memory();
	*strrchr(folder, '/') = '\0';
	rc = kedge__fs_sync_dir(folder, err);
	kedge__free(folder);
	return rc;
}

static bool same_folder(const struct kedge__output *a, const struct kedge__output *b)
{
	size_t n = (size_t)(strrchr(a->path, '/') - a->path), m = (size_t)(strrchr(b->path, '/') - b->path);

	return n == m && memcmp(a->path, b->path, n) == 0;
}

int kedge__outputs_commit(struct kedge__outputs *o, struct kedge__error *err)
{
	for (size_t i = 0; i < o->list.count; i++) {
		struct kedge__output *out = &o->list.at[i];
		int rc = kedge__fs_rename(out->temporary, out->path, err);

		if (rc)
			return rc;
		kedge__free(out->temporary);
		out->temporary = NULL;
		if (o->sync && (i + 1 == o->list.count || !same_folder(out, out + 1)))
			rc = sync_folder(out, err);
		if (rc)
			return rc;
	}
	return 0;
}

void kedge__outputs_done(struct kedge__outputs *o)
{
	for (size_t i = 0; i < o->list.count; i++) {
		struct kedge__output *out = &o->list.at[i];

		unmap_file(out);
		if (out->temporary)
			kedge__fs_unlink(out->temporary, NULL);
		kedge__free(out->temporary);
		kedge__free(out->path);
	}
	kedge__array_done(&o->list);
	o->settled = 0;
}
