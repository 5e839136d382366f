/* SPDX-License-Identifier: BSD-3-Clause */
/* files: paths, whole files in memory, trees that are copied and removed. */
#ifndef KEDGE_TESTS_LIB_FILES_H
#define KEDGE_TESTS_LIB_FILES_H

#include "require.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define FILES_PATH 512

/* What does not fit ends the program. */
void __attribute__((format(printf, 3, 4))) text_make(char *out, size_t room, const char *fmt, ...);
void __attribute__((format(printf, 2, 3))) path_make(char out[FILES_PATH], const char *fmt, ...);

/* NULL if there is no such file; else to be freed, with a NUL behind its *BYTES bytes. */
uint8_t *file_read(const char *path, size_t *bytes);
void file_write(const char *path, const void *data, size_t bytes);

/* The only (or, with several, the first by name) file under DIR whose name begins with PREFIX and ends with SUFFIX. */
bool file_find(const char *dir, const char *prefix, const char *suffix, char *out, size_t room);

/* DIR and all in it, a directory before or after what is in it; links are not followed. VISIT ends the walk with a
 * result that is not 0. 0, or -1: it did, or there is no DIR. VISIT itself walks no other tree. */
typedef int tree_visit(const char *path, const struct stat *st, void *ctx);
int tree_each(const char *dir, tree_visit *visit, void *ctx);
int tree_each_inside_first(const char *dir, tree_visit *visit, void *ctx);

/* DIR with all in it. 0, or -1: something is left, or there was no DIR. */
int tree_remove(const char *dir);

/* The files and directories of FROM into TO, which may be there. */
void tree_copy(const char *from, const char *to);

#endif
