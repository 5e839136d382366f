/* SPDX-License-Identifier: BSD-3-Clause */
/* damage: files that are not any more what they were. What cannot be damaged ends the program. */
#ifndef KEDGE_TESTS_LIB_DAMAGE_H
#define KEDGE_TESTS_LIB_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

/* The bits of MASK in the byte at OFFSET. */
void file_flip(const char *path, uint64_t offset, uint8_t mask);

/* The first BYTES stay. */
void file_cut(const char *path, uint64_t bytes);

/* Returns when files that are changed from now on have later times than all that were changed before. */
void clock_tick(void);

/* The segments and manifests of job "job" in STORE, as where old files are removed. */
void versions_remove(const char *store);

#endif
