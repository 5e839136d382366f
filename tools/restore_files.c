/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restore_files: safe names, temporary files, and the renames at the end. Names are given in an order in which nothing
 * is reached through what was restored: files, then their other names, then links and nodes, then what directories are.
 */
#include "restore.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELD_MAX    ((size_t)1 << 20) /* bytes of a file that is held in memory */
#define SYNCED_EACH ((size_t)16)      /* files at most that are synced one by one */

static int check_name(const char *name, struct kedge__error *err)
{
	if (kedge__tree_name_ok(name))
		return 0;
	return kedge__error_set(err, KEDGE_E_MISMATCH, 0,
				"the name of region '%s' could lead out of the directory; restore the "
				"other regions by naming them",
				name);
}

static char *output_path(const struct kedge__outputs *o, int64_t rank, const char *name)
{
	char *path = rank < 0 ? kedge__asprintf("%s/%s", o->dir, name)
			      : kedge__asprintf("%s/rank-%lld/%s", o->dir, (long long)rank, name);

	if (!path)
		kedge__tool_no_memory();
	return path;
}

/* What PATH, which is below DIR, is called in a version. */
static const char *name_of(const struct kedge__outputs *o, const char *path)
{
	return path + strlen(o->dir) + 1;
}

/* RC says why NAME cannot be written. With salvage that is said, and the others follow: 0; else RC. */
static int leave_out(struct kedge__outputs *o, const char *name, int rc, struct kedge__error *err)
{
	int status;

	if (!rc || !o->salvage || rc == KEDGE_E_NOMEM)
		return rc;
	status = kedge__tool_fail(o->notes.command, err, "%s was left out", name);
	o->left_out++;
	o->left_status = KEDGE__MAX(o->left_status, status == KEDGE__EXIT_FAILURE ? KEDGE__EXIT_NO : status);
	return 0;
}

/* ------------------------------------------------------------------ folders */

/* PART is DIR and more: a directory, made if need be, and not a link to one. */
static int make_part(struct kedge__outputs *o, const char *part, struct kedge__error *err)
{
	struct stat st;

	if (lstat(part, &st) != 0) {
		int rc = kedge__fs_make_dir(part, err);
		char *made = rc ? NULL : kedge__strdup(part);

		if (!rc && (!made || !kedge__array_push(&o->made, made)))
			kedge__tool_no_memory();
		return rc;
	}
	if (S_ISLNK(st.st_mode))
		return kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					"%s is a symbolic link and could lead out of the directory", part);
	o->elsewhere = o->elsewhere || st.st_dev != o->device;
	return S_ISDIR(st.st_mode) ? 0 : kedge__error_set(err, KEDGE_E_IO, ENOTDIR, "cannot create files in %s", part);
}

/* All of FOLDER below DIR. */
static int make_folders(struct kedge__outputs *o, char *folder, struct kedge__error *err)
{
	struct stat st;
	int rc = 0;

	if (!o->device && stat(o->dir, &st) == 0)
		o->device = st.st_dev;
	for (char *p = folder + strlen(o->dir) + 1; rc == 0 && p[-1]; p++) {
		char kept;

		p += strcspn(p, "/");
		kept = *p;
		*p = '\0';
		rc = make_part(o, folder, err);
		*p = kept;
		if (!kept)
			break;
	}
	return rc;
}

/* The folder of PATH; most files are in the one that was seen to last. */
static int make_folder(struct kedge__outputs *o, const char *path, struct kedge__error *err)
{
	size_t n = (size_t)(strrchr(path, '/') - path);
	int rc;

	if (o->folder && strlen(o->folder) == n && memcmp(o->folder, path, n) == 0)
		return 0;
	kedge__free(o->folder);
	o->folder = kedge__strdup(path);
	if (!o->folder)
		kedge__tool_no_memory();
	o->folder[n] = '\0';
	rc = n > strlen(o->dir) ? make_folders(o, o->folder, err) : 0;
	if (rc) {
		kedge__free(o->folder);
		o->folder = NULL;
	}
	return rc;
}

static char *temporary_name(struct kedge__outputs *o, const char *path)
{
	char *to = kedge__asprintf("%.*s/.kedge-restore-%ld-%llu.tmp", (int)(strrchr(path, '/') - path), path,
				   (long)getpid(), (unsigned long long)o->next++);

	if (!to)
		kedge__tool_no_memory();
	return to;
}

/* Several segments may have it, and say the same of it. */
static bool has_directory(const struct kedge__outputs *o, const char *path)
{
	for (size_t i = o->dirs.count; i-- > 0;)
		if (strcmp(o->dirs.at[i].path, path) == 0)
			return true;
	return false;
}

int kedge__outputs_directory(struct kedge__outputs *o, const struct kedge__output_spec *spec, struct kedge__error *err)
{
	struct kedge__output_dir dir = {.entry = spec->entry};
	int rc = check_name(spec->name, err);

	if (rc)
		return leave_out(o, spec->name, rc, err);
	dir.path = output_path(o, spec->rank, spec->name);
	if (has_directory(o, dir.path)) {
		kedge__free(dir.path);
		return 0;
	}
	rc = make_folder(o, dir.path, err);
	if (!rc)
		rc = make_part(o, dir.path, err);
	if (rc) {
		rc = leave_out(o, spec->name, rc, err);
		kedge__free(dir.path);
	} else if (!kedge__array_push(&o->dirs, dir)) {
		kedge__tool_no_memory();
	}
	return rc;
}

/* ------------------------------------------------------------------ files */

/* Nobody else may read the restored file, unless the file that it replaces allowed it, or the one that was saved. */
static int create_file(struct kedge__outputs *o, struct kedge__output *out, struct kedge__error *err)
{
	struct stat old;
	int rc;

	out->temporary = temporary_name(o, out->path);
	rc = kedge__fs_create(out->temporary, &out->fd, err);
	if (!rc && !out->entry && lstat(out->path, &old) == 0 && S_ISREG(old.st_mode))
		rc = kedge__fs_set_mode(out->fd, old.st_mode & 0777, out->temporary, err);
	return rc;
}

/* Space is reserved first: a full disk is an error here, not a signal while the pages are filled. */
static int map_file(struct kedge__outputs *o, struct kedge__output *out, bool holes, struct kedge__error *err)
{
	int rc = create_file(o, out, err);

	if (rc)
		return rc;
	rc = holes ? kedge__fs_truncate(out->fd, out->bytes, out->temporary, err)
		   : kedge__fs_allocate(out->fd, out->bytes, out->temporary, err);
	if (rc)
		return rc;
	out->data = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
	if (out->data != MAP_FAILED)
		return 0;
	out->data = NULL;
	return kedge__error_set(err, KEDGE_E_IO, errno, "cannot map %s", out->temporary);
}

/* What the file is made of is in another one, beside it and without a name, as long as it is mapped. */
static int map_plain(struct kedge__outputs *o, struct kedge__output *out, struct kedge__error *err)
{
	int rc = map_file(o, out, false, err);

	if (!rc)
		rc = kedge__fs_unlink(out->temporary, err);
	if (rc)
		return rc;
	kedge__free(out->temporary);
	out->temporary = NULL;
	kedge__fs_close(out->fd);
	out->fd = -1;
	return 0;
}

/* With its path and a folder to be in. */
static int output_new(struct kedge__outputs *o, const struct kedge__output_spec *spec, enum kedge__output_kind kind,
		      struct kedge__output **out, struct kedge__error *err)
{
	struct kedge__output fresh = {.kind = kind,
				      .entry = spec->entry,
				      .form = spec->form,
				      .holes = spec->holes,
				      .bytes = spec->bytes,
				      .fd = -1,
				      .file_bytes = spec->file_bytes};
	int rc = check_name(spec->name, err);

	if (rc)
		return rc;
	fresh.path = output_path(o, spec->rank, spec->name);
	rc = make_folder(o, fresh.path, err);
	if (!rc && o->keep && kedge__fs_exists(fresh.path))
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "it is there already; --force replaces it");
	if (rc) {
		kedge__free(fresh.path);
		return rc;
	}
	if (!kedge__array_push(&o->list, fresh))
		kedge__tool_no_memory();
	*out = &o->list.at[o->list.count - 1];
	return 0;
}

int kedge__outputs_add(struct kedge__outputs *o, const struct kedge__output_spec *spec, void **data,
		       struct kedge__error *err)
{
	bool held = spec->bytes <= HELD_MAX;
	struct kedge__output *out;
	int rc = output_new(o, spec, held ? KEDGE__OUTPUT_HELD : KEDGE__OUTPUT_MAPPED, &out, err);

	if (rc)
		return rc;
	if (held && spec->bytes) {
		out->data = kedge__calloc(1, spec->bytes);
		rc = out->data ? 0 : kedge__error_nomem(err);
	} else if (!held) {
		rc = spec->form != KEDGE__FILLED_FILE ? map_plain(o, out, err) : map_file(o, out, spec->holes, err);
	}
	if (!rc)
		*data = out->data;
	return rc;
}

int kedge__outputs_reserve(struct kedge__outputs *o, uint64_t at, uint64_t bytes, struct kedge__error *err)
{
	const struct kedge__output *out = &o->list.at[o->list.count - 1];

	return out->fd < 0 ? 0 : kedge__fs_allocate_at(out->fd, at, bytes, out->temporary, err);
}

static void output_close(struct kedge__output *out)
{
	if (out->data && out->kind == KEDGE__OUTPUT_MAPPED)
		munmap(out->data, out->bytes);
	else
		kedge__free(out->data);
	out->data = NULL;
	kedge__fs_close(out->fd);
	out->fd = -1;
}

void kedge__outputs_drop(struct kedge__outputs *o, size_t i)
{
	struct kedge__output *out = &o->list.at[i];

	output_close(out);
	if (out->temporary)
		kedge__fs_unlink(out->temporary, NULL);
	kedge__free(out->temporary);
	out->temporary = NULL;
	out->kind = KEDGE__OUTPUT_GONE;
}

/* As leave_out() for output I, which is dropped. */
static int give_up(struct kedge__outputs *o, size_t i, int rc, struct kedge__error *err)
{
	rc = leave_out(o, name_of(o, o->list.at[i].path), rc, err);
	if (!rc)
		kedge__outputs_drop(o, i);
	return rc;
}

static int node_add(struct kedge__outputs *o, const struct kedge__output_spec *spec, struct kedge__error *err)
{
	const struct kedge__tree_entry *e = spec->entry;
	unsigned kind = e->kind == KEDGE__TREE_FIFO ? S_IFIFO : e->kind == KEDGE__TREE_BLOCK ? S_IFBLK : S_IFCHR;
	struct kedge__output *out;
	int rc = output_new(o, spec, KEDGE__OUTPUT_NODE, &out, err);

	if (rc)
		return rc;
	out->temporary = temporary_name(o, out->path);
	if (e->kind == KEDGE__TREE_SYMLINK)
		rc = kedge__fs_symlink(e->target, out->temporary, err);
	else
		rc = kedge__fs_make_node(out->temporary, kind | 0600, e->size, err);
	return rc ? rc : kedge__metadata_set(-1, out->temporary, e, &o->notes, err);
}

int kedge__outputs_node(struct kedge__outputs *o, const struct kedge__output_spec *spec, struct kedge__error *err)
{
	size_t before = o->list.count;
	int rc = node_add(o, spec, err);

	if (!rc || !o->salvage)
		return rc;
	if (o->list.count > before)
		return give_up(o, before, rc, err);
	return leave_out(o, spec->name, rc, err);
}

int kedge__outputs_link(struct kedge__outputs *o, const struct kedge__output_spec *spec, const char *target,
			struct kedge__error *err)
{
	struct kedge__output *out;
	int rc = output_new(o, spec, KEDGE__OUTPUT_LINK, &out, err);

	if (rc)
		return leave_out(o, spec->name, rc, err);
	out->target = output_path(o, spec->rank, target);
	return 0;
}

/* ------------------------------------------------------------------ filled */

static int output_settle(struct kedge__outputs *o, struct kedge__output *out, struct kedge__error *err)
{
	int rc = 0;

	if (out->form != KEDGE__FILLED_FILE) {
		rc = create_file(o, out, err);
		if (!rc)
			rc = kedge__output_rebuild(out, o->pool, err);
	} else if (out->kind == KEDGE__OUTPUT_HELD) {
		rc = create_file(o, out, err);
		if (!rc && out->bytes)
			rc = kedge__fs_write(out->fd, out->data, out->bytes, out->temporary, err);
	} else if (out->data) {
		if (out->holes)
			kedge__output_dig(out);
		munmap(out->data, out->bytes); /* before its time is set */
		out->data = NULL;
	}
	if (!rc && out->entry)
		rc = kedge__metadata_set(out->fd, out->temporary, out->entry, &o->notes, err);
	if (!rc)
		output_close(out);
	return rc;
}

int kedge__outputs_settle(struct kedge__outputs *o, struct kedge__error *err)
{
	for (; o->settled < o->list.count; o->settled++) {
		struct kedge__output *out = &o->list.at[o->settled];
		bool file = out->kind == KEDGE__OUTPUT_HELD || out->kind == KEDGE__OUTPUT_MAPPED;
		int rc = file ? output_settle(o, out, err) : 0;

		if (rc)
			rc = give_up(o, o->settled, rc, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* ------------------------------------------------------------------ names */

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

static int sync_file(const struct kedge__output *out, struct kedge__error *err)
{
	int fd, rc;

	if (!out->temporary || out->kind == KEDGE__OUTPUT_NODE)
		return 0;
	rc = kedge__fs_open_read(out->temporary, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_sync(fd, out->temporary, err);
	kedge__fs_close(fd);
	return rc;
}

/* To sync a file system takes no longer than to sync many files of it. */
static bool sync_at_once(const struct kedge__outputs *o)
{
	return o->list.count + o->dirs.count > SYNCED_EACH && !o->elsewhere;
}

static int sync_files(const struct kedge__outputs *o, struct kedge__error *err)
{
	int rc = 0;

	if (sync_at_once(o))
		return kedge__fs_sync_all(o->dir, err);
	for (size_t i = 0; !rc && i < o->list.count; i++)
		rc = sync_file(&o->list.at[i], err);
	return rc;
}

static int sync_names(const struct kedge__outputs *o, struct kedge__error *err)
{
	int rc = 0;

	if (sync_at_once(o))
		return kedge__fs_sync_all(o->dir, err);
	for (size_t i = 0; !rc && i < o->list.count; i++)
		if (i + 1 == o->list.count || !same_folder(&o->list.at[i], &o->list.at[i + 1]))
			rc = sync_folder(&o->list.at[i], err);
	for (size_t i = 0; !rc && i < o->dirs.count; i++)
		rc = kedge__fs_sync_dir(o->dirs.at[i].path, err);
	return rc;
}

static int name_one(struct kedge__outputs *o, struct kedge__output *out, struct kedge__error *err)
{
	int rc = 0;

	if (out->kind == KEDGE__OUTPUT_LINK && o->salvage && !kedge__fs_exists(out->target))
		return kedge__error_set(err, KEDGE_E_STATE, 0, "it is another name of %s, which was left out",
					name_of(o, out->target));
	if (out->kind == KEDGE__OUTPUT_LINK) {
		out->temporary = temporary_name(o, out->path);
		rc = kedge__fs_link(out->target, out->temporary, err);
	}
	if (!rc)
		rc = kedge__fs_rename(out->temporary, out->path, err);
	if (rc)
		return rc;
	kedge__free(out->temporary);
	out->temporary = NULL;
	return 0;
}

static int name_kind(struct kedge__outputs *o, enum kedge__output_kind from, enum kedge__output_kind to,
		     struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < o->list.count; i++) {
		if (o->list.at[i].kind != from && o->list.at[i].kind != to)
			continue;
		rc = name_one(o, &o->list.at[i], err);
		if (rc)
			rc = give_up(o, i, rc, err);
	}
	return rc;
}

int kedge__outputs_commit(struct kedge__outputs *o, struct kedge__error *err)
{
	int rc = o->sync ? sync_files(o, err) : 0;

	if (!rc)
		rc = name_kind(o, KEDGE__OUTPUT_HELD, KEDGE__OUTPUT_MAPPED, err);
	if (!rc)
		rc = name_kind(o, KEDGE__OUTPUT_LINK, KEDGE__OUTPUT_LINK, err);
	if (!rc)
		rc = name_kind(o, KEDGE__OUTPUT_NODE, KEDGE__OUTPUT_NODE, err);
	/* Those that are in others first: their names change when those were changed. */
	for (size_t i = o->dirs.count; !rc && i-- > 0;)
		if (o->dirs.at[i].entry)
			rc = kedge__metadata_set(-1, o->dirs.at[i].path, o->dirs.at[i].entry, &o->notes, err);
	o->committed = !rc;
	return rc || !o->sync ? rc : sync_names(o, err);
}

/* Directories that were made for what does not come, unless something is in them. */
static void folders_remove(struct kedge__outputs *o)
{
	for (size_t i = o->made.count; i-- > 0;) {
		if (!o->committed)
			(void)kedge__fs_rmdir(o->made.at[i], NULL);
		kedge__free(o->made.at[i]);
	}
	kedge__array_done(&o->made);
}

void kedge__outputs_done(struct kedge__outputs *o)
{
	for (size_t i = 0; i < o->list.count; i++) {
		struct kedge__output *out = &o->list.at[i];

		output_close(out);
		if (out->temporary)
			kedge__fs_unlink(out->temporary, NULL);
		kedge__free(out->temporary);
		kedge__free(out->path);
		kedge__free(out->target);
	}
	for (size_t i = 0; i < o->dirs.count; i++)
		kedge__free(o->dirs.at[i].path);
	kedge__array_done(&o->list);
	kedge__array_done(&o->dirs);
	folders_remove(o);
	kedge__free(o->folder);
	o->folder = NULL;
	o->settled = 0;
}
