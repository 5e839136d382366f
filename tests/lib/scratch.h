/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scratch: directories of a test, under $TMPDIR. What was not removed before goes away, with all in it, when the
 * process that made it exits; its children leave it alone.
 */
#ifndef KEDGE_TESTS_LIB_SCRATCH_H
#define KEDGE_TESTS_LIB_SCRATCH_H

#include <stddef.h>

/* A fresh, empty directory with WHAT in its name. Without $TMPDIR it is in memory where there is some: many small
 * files, each synced, cost nothing there. */
void scratch_make(char *out, size_t room, const char *what);

/* Without $TMPDIR it is in /tmp, where a test needs more than memory offers. */
void scratch_make_on_disk(char *out, size_t room, const char *what);

/* 0, or -1: something is left. */
int scratch_remove(const char *dir);

/* To be looked at afterwards: DIR stays. */
void scratch_keep(const char *dir);

#endif
