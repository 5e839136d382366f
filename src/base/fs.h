/* SPDX-License-Identifier: BSD-3-Clause */
/* Between fs.c and the other file that issues writes, optional/uring.c. */
#ifndef KEDGE_BASE_FS_H
#define KEDGE_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>

bool kedge__fs_is_direct(int fd);
/* A direct write got EINVAL: log it once and continue through the page cache. */
void kedge__fs_direct_refused(int fd, const char *path);
/* How much of a write of BYTES a fault lets through if it asks for PART: a direct write is rounded to entire blocks. */
size_t kedge__fs_fault_part(bool direct, size_t bytes, size_t part);

#endif
