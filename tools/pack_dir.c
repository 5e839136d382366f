/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pack_dir: the directory that a pack grows in. Its name has the boot of the kernel, and whoever uses it holds a lock
 * on it, which ends with the process however that ends. So of directories of this boot, and of no others, it is known
 * that nobody uses them any more; the next pack in the same place removes them.
 */
#include "pack_dir.h"
#include "tool_bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS  16
#define TAG_BYTES 8

/* The beginning of the id of this boot; false: it cannot be known. */
static bool boot_tag(char tag[TAG_BYTES + 1])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	bool known = f && fscanf(f, "%8[0-9a-f]", tag) == 1 && strlen(tag) == TAG_BYTES;

	if (f)
		fclose(f);
	return known;
}

/* A lock on the directory at PATH; -1: others hold it, it is not there, or not ours, or the file system has no locks.
 */
static int lock_dir(const char *path, int how)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat held, there;

	if (fd < 0)
		return -1;
	if (flock(fd, how) == 0 && fstat(fd, &held) == 0 && held.st_uid == geteuid() && lstat(path, &there) == 0 &&
	    held.st_ino == there.st_ino && held.st_dev == there.st_dev)
		return fd;
	kedge__fs_close(fd);
	return -1;
}

/* What packs that were killed have left in PARENT. */
static void remove_old(const char *parent, const char *prefix)
{
	char **names;
	size_t count;

	if (kedge__fs_list(parent, &names, &count, NULL) != 0)
		return;
	for (size_t i = 0; i < count; i++) {
		char *path =
		    strncmp(names[i], prefix, strlen(prefix)) == 0 ? kedge__asprintf("%s/%s", parent, names[i]) : NULL;
		int fd = path ? lock_dir(path, LOCK_EX | LOCK_NB) : -1;

		if (fd >= 0)
			kedge__bench_dir_remove(path);
		kedge__fs_close(fd);
		kedge__free(path);
	}
	kedge__fs_list_free(names, count);
}

/* Between the two somebody may have taken it for an old one, and removed it: then another is made. */
static int make_locked(const char *parent, const char *name, struct kedge__pack_dir *out, struct kedge__error *err)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		int rc = kedge__dir_make(parent, name, &out->path, err);

		if (rc)
			return rc;
		out->lock = lock_dir(out->path, LOCK_EX);
		if (out->lock >= 0 || kedge__fs_exists(out->path))
			return 0; /* without a lock, nobody removes it for us */
		kedge__free(out->path);
		out->path = NULL;
	}
	return kedge__error_set(err, KEDGE_E_IO, 0, "directories in %s disappear as soon as they are made", parent);
}

int kedge__pack_dir_open(const char *parent, const char *prefix, struct kedge__pack_dir *out, struct kedge__error *err)
{
	char tag[TAG_BYTES + 1], *name;
	int rc;

	out->path = NULL;
	out->lock = -1;
	if (!boot_tag(tag))
		return kedge__dir_make(parent, prefix, &out->path, err);
	name = kedge__asprintf("%s-%s", prefix, tag);
	if (!name)
		return kedge__error_nomem(err);
	remove_old(parent, name);
	rc = make_locked(parent, name, out, err);
	kedge__free(name);
	return rc;
}

void kedge__pack_dir_close(struct kedge__pack_dir *d)
{
	if (d->path)
		kedge__bench_dir_remove(d->path);
	kedge__fs_close(d->lock);
	kedge__free(d->path);
	d->path = NULL;
	d->lock = -1;
}
