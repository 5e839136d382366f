/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_files: the files that `kedge save` commits, and those of a page image. */
#ifndef KEDGE_TOOLS_TOOL_FILES_H
#define KEDGE_TOOLS_TOOL_FILES_H

#include "tool.h"
#include <sys/stat.h>

struct kedge__save_file {
	const char *path; /* as given */
	char *region;     /* path, normalised; owned */
	struct stat stat; /* when it was opened */
	int fd;
};

struct kedge__save_files {
	struct kedge__save_file *at;
	size_t count, room;
};

/* Open one more; PATH must stay valid. KEDGE_E_ARG: it cannot be a region. */
int kedge__save_files_add(struct kedge__save_files *files, const char *path, struct kedge__error *err);
void kedge__save_files_close(struct kedge__save_files *files); /* takes half-open ones */
/* BYTES bytes of F at OFFSET. KEDGE_E_IO if it ends before them. */
int kedge__save_file_read(const struct kedge__save_file *f, uint64_t offset, void *buffer, size_t bytes, struct kedge__error *err);
/* KEDGE_E_IO if a file is no longer what was opened: size, or time of last change. */
int kedge__save_files_check(const struct kedge__save_files *files, struct kedge__error *err);

/* A new file without a name, in $TMPDIR or /var/tmp. */
int kedge__temporary_file(int *fd, struct kedge__error *err);
const char *kedge__temporary_directory(void);

/*
 * The region that a path becomes, and the file that a region becomes again: components joined by single slashes;
 * "." and empty ones vanish, ".." takes the one before it away, or vanishes if there is none. So "/etc/fstab" is
 * "etc/fstab" and "../run/a" is "run/a": always below the directory that it is restored to. NULL if nothing is left.
 */
char *kedge__save_region_name(const char *path);

#endif
