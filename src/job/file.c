/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routed files: files that the application writes itself, in STORE/NAME/files/rRRRRRRR on L1. While a version is saved
 * or restored, each is in the table of regions, with `file` set; between calls it belongs to the application. A file
 * that is restored is mapped. A file that is saved is not: if it were truncated meanwhile, reading the mapping would
 * kill the process. It has addresses without memory, which identify its literals, and is read from `from`.
 */
#include "job/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define KEPT_MOST 256 /* lent files that are open at a time, */
#define KEPT_PART 4   /* and of the descriptors that the process may have */

/* ------------------------------------------------------------------ mappings */

static int list(kedge_t *k, struct kedge__job_file *f, struct kedge__error *err)
{
	enum kedge_type type = f->lent ? f->type : KEDGE_BYTES;
	int rc = kedge__region_table_put(k->regions.table, f->region, f->data, f->bytes / kedge_type_size(type), type,
					 0, NULL, err);

	f->listed = !rc;
	if (f->listed) {
		struct kedge__region *r = kedge__region_table_find(k->regions.table, f->region);

		r->file = f->lent_data ? NULL : &f->from;
		r->contents = f->region[0] != '/';
		r->same = f->same;
		r->same_as = f->same_as;
	}
	return rc;
}

/* FD -1: nothing but addresses. */
static int map(struct kedge__job_file *f, int fd, uint64_t bytes, const char *path, struct kedge__error *err)
{
	void *data = NULL;

	if (bytes && fd < 0)
		data = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	else if (bytes)
		data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot map %s", path);
	f->data = data;
	f->bytes = bytes;
	return 0;
}

static void unmap(struct kedge__job_file *f)
{
	if (f->data && !f->lent_data)
		munmap(f->data, f->bytes);
	f->data = NULL;
	f->bytes = 0;
}

static int take(kedge_t *k, struct kedge__job_file *f, struct kedge__error *err)
{
	struct stat st;
	int rc = 0;
	/* Without O_NONBLOCK a FIFO would wait for its writer before it can be refused. */
	int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return kedge__error_set(err, errno == ENOENT ? KEDGE_E_NOTFOUND : KEDGE_E_IO, errno,
					"the file of region \"%s\" cannot be opened: %s", f->region, f->path);
	if (fstat(fd, &st) != 0)
		rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot stat %s", f->path);
	else if (!S_ISREG(st.st_mode))
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "%s is not a regular file", f->path);
	if (!rc)
		rc = map(f, -1, (uint64_t)st.st_size, f->path, err);
	if (rc) {
		kedge__fs_close(fd);
		return rc;
	}
	f->from = (struct kedge__region_file){.fd = fd, .path = f->path};
	return list(k, f, err);
}

static int take_lent(kedge_t *k, struct kedge__job_file *f, struct kedge__error *err)
{
	int rc = f->lent_data ? 0 : map(f, -1, f->lent_bytes, f->path, err);

	if (f->lent_data) {
		f->data = f->lent_data;
		f->bytes = f->lent_bytes;
	}
	f->from = f->lender;
	return rc ? rc : list(k, f, err);
}

/* As many as leave others enough of the process's descriptors. */
static size_t kept_most(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (size_t)KEDGE__MIN(limit.rlim_cur / KEPT_PART, KEPT_MOST) : 0;
}

int kedge__files_take(kedge_t *k, struct kedge__error *err)
{
	size_t most = k->files.count ? kept_most() : 0;
	int rc = 0;

	for (size_t i = 0; i < k->files.count && !rc; i++) {
		struct kedge__job_file *f = &k->files.at[i];

		rc = f->lent ? take_lent(k, f, err) : take(k, f, err);
		if (!rc && most && f->lent && !f->lent_data && f->lent_bytes && !f->same) {
			kedge__region_file_keep(&f->from); /* its parts may be read in any order, and many times */
			most--;
		}
	}
	return rc;
}

/* ------------------------------------------------------------------ restart */

/* Above the directory of the rank, in which every name may be the application's. */
static char *temporary_path(const kedge_t *k, size_t i)
{
	return kedge__asprintf("%s/%s/files/r%07d-%zu.tmp", k->set.l1, k->name, k->group.rank, i);
}

/* Space is reserved first: a full disk is an error here, not a signal while the pages are filled. */
static int create(kedge_t *k, struct kedge__job_file *f, uint64_t bytes, struct kedge__error *err)
{
	char *temporary = temporary_path(k, (size_t)(f - k->files.at));
	int fd = -1;
	int rc = temporary ? kedge__fs_unlink(temporary, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__fs_create(temporary, &fd, err);
	if (rc) {
		kedge__free(temporary);
		return rc;
	}
	f->temporary = temporary;
	rc = kedge__fs_allocate(fd, bytes, temporary, err);
	if (!rc)
		rc = map(f, fd, bytes, temporary, err);
	kedge__fs_close(fd);
	return rc ? rc : list(k, f, err);
}

int kedge__files_create(kedge_t *k, const struct kedge__segment *top, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < k->files.count && !rc; i++) {
		struct kedge__job_file *f = &k->files.at[i];
		const struct kedge__region_record *stored = kedge__segment_find_region(top, f->region);

		if (f->lent)
			continue;
		if (!stored)
			rc = kedge__error_set(err, KEDGE_E_MISMATCH, 0, "region \"%s\" is not in version %llu",
					      f->region, (unsigned long long)top->header.version);
		else
			rc = create(k, f, stored->bytes, err);
	}
	return rc;
}

int kedge__files_keep(kedge_t *k, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < k->files.count && !rc; i++) {
		struct kedge__job_file *f = &k->files.at[i];

		if (!f->temporary)
			continue;
		rc = kedge__fs_rename(f->temporary, f->path, err);
		if (rc)
			break;
		kedge__free(f->temporary);
		f->temporary = NULL;
	}
	return rc;
}

void kedge__files_drop(kedge_t *k)
{
	for (size_t i = 0; i < k->files.count; i++) {
		struct kedge__job_file *f = &k->files.at[i];

		if (f->listed)
			(void)kedge__region_table_remove(k->regions.table, f->region, NULL);
		f->listed = false;
		unmap(f);
		if (f->lent)
			kedge__region_file_leave(&f->from);
		else
			kedge__fs_close(f->from.fd);
		f->from.fd = -1;
		if (f->temporary)
			(void)kedge__fs_unlink(f->temporary, NULL);
		kedge__free(f->temporary);
		f->temporary = NULL;
	}
}

/* ------------------------------------------------------------------ which files there are */

static void file_done(struct kedge__job_file *f)
{
	kedge__free(f->region);
	kedge__free(f->path);
}

void kedge__files_free(kedge_t *k)
{
	if (k->regions.table)
		kedge__files_drop(k);
	for (size_t i = 0; i < k->files.count; i++)
		file_done(&k->files.at[i]);
	kedge__array_done(&k->files);
}

static struct kedge__job_file *file_find(const kedge_t *k, const char *region)
{
	for (size_t i = 0; region && i < k->files.count; i++) {
		if (strcmp(k->files.at[i].region, region) == 0)
			return &k->files.at[i];
	}
	return NULL;
}

void kedge__files_unlend(kedge_t *k)
{
	pthread_mutex_lock(&k->lock);
	for (size_t i = k->files.count; i-- > 0;) {
		struct kedge__job_file *f = &k->files.at[i];

		if (!f->lent)
			continue;
		file_done(f);
		*f = k->files.at[--k->files.count];
	}
	pthread_mutex_unlock(&k->lock);
}

void kedge__files_group(kedge_t *k, const struct kedge__grouping *grouping)
{
	pthread_mutex_lock(&k->lock);
	k->grouping = grouping;
	pthread_mutex_unlock(&k->lock);
}

bool kedge__file_forget(kedge_t *k, const char *region)
{
	struct kedge__job_file *f = file_find(k, region);

	if (!f)
		return false;
	file_done(f);
	*f = k->files.at[--k->files.count];
	return true;
}

static int name_check(const char *name, struct kedge__error *err)
{
	size_t length = name ? strlen(name) : 0;

	if (length && length <= 251 && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
		return 0;
	return kedge__error_set(err, KEDGE_E_ARG, 0, "a file needs a plain name of 1 to 251 bytes");
}

static char *files_path(const kedge_t *k)
{
	return kedge__asprintf("%s/%s/files/r%07d", k->set.l1, k->name, k->group.rank);
}

int kedge__files_renew(kedge_t *k, struct kedge__error *err)
{
	size_t own = 0;
	char *dir;
	int rc;

	for (size_t i = 0; i < k->files.count; i++)
		own += !k->files.at[i].lent;
	if (!own)
		return 0;
	dir = files_path(k);
	rc = dir ? kedge__fs_mkdirs(dir, err) : kedge__error_nomem(err);
	kedge__free(dir);
	return rc;
}

static int file_add(kedge_t *k, const char *name, struct kedge__job_file **out, struct kedge__error *err)
{
	struct kedge__job_file fresh = {.region = kedge__asprintf(KEDGE_FILE_PREFIX "%s", name), .from = {.fd = -1}};
	char *dir = files_path(k);
	int rc = dir && fresh.region ? 0 : kedge__error_nomem(err);

	*out = rc ? NULL : file_find(k, fresh.region);
	if (rc || *out)
		goto out;
	rc = kedge__fs_mkdirs(dir, err);
	if (rc)
		goto out;
	fresh.path = kedge__asprintf("%s/%s", dir, name);
	if (!fresh.path || !kedge__array_push(&k->files, fresh)) {
		rc = kedge__error_nomem(err);
		goto out;
	}
	*out = &k->files.at[k->files.count - 1];
	kedge__free(dir);
	return 0;
out:
	file_done(&fresh);
	kedge__free(dir);
	return rc;
}

int kedge_file_route(kedge_t *k, const char *name, char *path, size_t size)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__job_file *f = NULL;
	int rc = kedge__handle_check(k, &err);

	if (!rc && !path)
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "path must not be NULL");
	if (rc)
		return kedge__state_stick(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = name_check(name, &err);
	if (!rc && strlen(k->set.l1) + strlen(k->name) + strlen(name) + strlen("//files/r0000000/") >= size)
		rc = kedge__error_set(&err, KEDGE_E_LIMIT, 0, "the path of file \"%s\" does not fit into %zu bytes",
				      name, size);
	if (!rc)
		rc = file_add(k, name, &f, &err);
	if (!rc)
		strcpy(path, f->path);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_stick(k, rc, &err);
}

int kedge__file_lend(kedge_t *k, const struct kedge__file_loan *loan, struct kedge__error *err)
{
	struct kedge__job_file fresh = {.region = kedge__strdup(loan->region),
					.path = kedge__strdup(loan->path),
					.from = {.fd = -1},
					.lent = true,
					.lent_data = (void *)loan->data,
					.lent_bytes = loan->bytes,
					.type = loan->type,
					.same = loan->same,
					.same_as = loan->same_as};
	bool added;

	pthread_mutex_lock(&k->lock);
	added = fresh.region && fresh.path && kedge__array_push(&k->files, fresh);
	if (added) {
		struct kedge__job_file *f = &k->files.at[k->files.count - 1];

		f->lender = (struct kedge__region_file){.fd = loan->fd,
							.path = f->path,
							.opened = loan->fd < 0,
							.device = loan->device,
							.inode = loan->inode};
	}
	pthread_mutex_unlock(&k->lock);
	if (added)
		return 0;
	file_done(&fresh);
	return kedge__error_nomem(err);
}
