/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch: whether processes can still go on. They cannot if every thread of every one of them sleeps and waits for another
 * one, and not for a clock or a disk: whoever could wake one sleeps, too. That is so however slow the machine is.
 */
#ifndef KEDGE_TESTS_LIB_WATCH_H
#define KEDGE_TESTS_LIB_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct watch {
	uint64_t seen; /* a digest of how often each thread has run, if all slept when they were last seen; else 0 */
};

/* To be called again and again. True if no thread of PIDS (0: has ended) has run since the call before, and all sleep.
 * False where /proc does not say. */
bool watch_stuck(struct watch *w, const pid_t *pids, size_t n);

#endif
