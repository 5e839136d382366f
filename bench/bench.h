/* bench: what the files of `kedge-bench` share. */
#ifndef KEDGE_BENCH_H
#define KEDGE_BENCH_H

#include "bench_names.h"
#include "tool.h"

#define KEDGE__X(name, run, summary) int run(int argc, char **argv);
KEDGE__BENCHES(KEDGE__X)
#undef KEDGE__X

/* stats.c. The median sorts: the lowest and the highest are then at the ends. */
double kedge__bench_median(double *v, size_t n);
uint64_t kedge__bench_random(uint64_t *seed);

/* dir.c. MAKE makes a new one in PARENT; CLEAR removes all that is in it, REMOVE that and itself. */
int kedge__bench_dir_make(const char *parent, char **dir, struct kedge__error *err); /* *DIR: kedge__free() */
void kedge__bench_dir_clear(const char *dir);
void kedge__bench_dir_remove(const char *dir);
/* A file, or all below a directory, out of the page cache, as after a failure of the node; what is still to be written
 * is written first. False: most of it stays there, as in a file system in memory. */
bool kedge__bench_forget(const char *path);
void kedge__bench_fetch(const char *path); /* into it */

/* peer.c: the bare hash pass that reducers are measured against: XXH3-128 of every chunk, compiled in place and
 * for AVX2 where the machine has it. Something that depends on all digests is returned, so that none can be left out. */
uint64_t kedge__bench_hash(const void *data, size_t bytes, size_t chunk);
const char *kedge__bench_hash_name(void);

#endif
