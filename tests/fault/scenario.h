/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario: a small job whose memory at every version is known, so that whatever a fault leaves behind can be compared
 * with what it should be.
 */
#ifndef TESTS_FAULT_SCENARIO_H
#define TESTS_FAULT_SCENARIO_H

#include <kedge/kedge.h>
#include <stdbool.h>

#define SCENARIO_VERSIONS 6

struct scenario {
	const char *name;            /* for messages */
	const char *settings[12];    /* key=value, NULL-terminated, without the directories */
	bool second_level;
	bool bulk;                   /* there is a region of many pages, too */
};

/* A fresh directory for stores, in memory where there is some (fsync costs nothing there). */
char *scenario_directory(void);
void scenario_remove(char *dir); /* with all below it; frees DIR */

/* Run versions FIRST .. SCENARIO_VERSIONS; for each that the library calls complete, its number goes to ACKED_FD (if
 * >= 0) as 8 bytes. Returns the number of failed checkpoints, or negative if the job could not be opened or closed. */
int scenario_run(const struct scenario *s, const char *dir, uint64_t first, int acked_fd);

/* Open, restart from the newest version, compare with what the memory was at it. *VERSION is 0 if there was none. */
void scenario_recover(const struct scenario *s, const char *dir, uint64_t *version);

/* Try to restart from the newest version: its number, with the memory compared, or a negative error code. */
int64_t scenario_try_restart(const struct scenario *s, const char *dir);

/* No finding in any store, and no file that does not belong. */
void scenario_check_clean(const struct scenario *s, const char *dir);

#endif
