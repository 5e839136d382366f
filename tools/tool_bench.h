/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_bench: what `kedge bench` and `kedge-bench` share. */
#ifndef KEDGE_TOOLS_TOOL_BENCH_H
#define KEDGE_TOOLS_TOOL_BENCH_H

#include "tool.h"

/* tool_stats.c. The median sorts: the lowest and the highest are then at the ends. */
double kedge__bench_median(double *v, size_t n);
uint64_t kedge__bench_random(uint64_t *seed);

/* A virtual machine may have given free memory back to its host, and waits when it touches it again: so much of it is
 * touched now, lest it be part of what is measured next. Call it before both sides of a comparison. So many PROCESSES do so
 * at once; together they take half of what is free at most. */
void kedge__bench_memory_fetch(uint64_t bytes, uint64_t processes);

/* A new directory PREFIX-XXXXXX in PARENT. */
int kedge__dir_make(const char *parent, const char *prefix, char **dir, struct kedge__error *err);
/* tool_dir.c. MAKE makes a new one in PARENT; CLEAR removes all that is in it, REMOVE that and itself. */
int kedge__bench_dir_make(const char *parent, char **dir, struct kedge__error *err); /* *DIR: kedge__free() */
void kedge__bench_dir_clear(const char *dir);
void kedge__bench_dir_remove(const char *dir);
/* MEASURE in a new directory in PARENT, which is removed afterwards. */
int kedge__bench_dir_use(const char *parent, int (*measure)(void *bench, const char *dir, struct kedge__error *err), void *bench,
			 struct kedge__error *err);
/* RC of a call to kedge.h, with what the library says. */
int kedge__bench_said(kedge_t *k, int rc, struct kedge__error *err);
/* A file, or all below a directory, out of the page cache, as after a failure of the node; what is still to be written
 * is written first. False: most of it stays there, as in a file system in memory. */
bool kedge__bench_forget(const char *path);
void kedge__bench_fetch(const char *path); /* into it */

#endif
