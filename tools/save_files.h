/* SPDX-License-Identifier: BSD-3-Clause */
/* save_files: files on their way into a version: which of them are as they were, what is read, and the tree. */
#ifndef KEDGE_TOOLS_SAVE_FILES_H
#define KEDGE_TOOLS_SAVE_FILES_H

#include "pipeline/pipeline.h"
#include "tool_walk.h"

struct kedge__save_part { /* what is in one segment: the files of a group of ranks, or all */
	struct kedge__bytes before; /* the tree of the version before, as it is stored; empty: there is none */
	uint64_t before_version;
	uint64_t before_caller;
	struct kedge__bytes tree; /* that of the new version, in memory while it is lent */
	size_t files, same, equals; /* regular files; of which so many are as they were, and of so many what they keep packed was unpacked */
	uint64_t bytes, lent;     /* of all files, and of what was saved of them */
};

struct kedge__save_set {
	struct kedge__walk walk;
	struct kedge__save_part *parts; /* by `part` of what was found; owned */
	uint32_t part_count;
	struct kedge__grouping *grouping; /* owned; NULL: there is one part, whatever files are called */
	KEDGE__ARRAY(uint8_t *) blocks; /* what small files had */
	size_t block_used;
	uint64_t held;            /* bytes in them */
	int64_t began_ns;         /* times after it are too recent to go by */
	size_t changed;           /* files that changed while they were read */
	bool equal;               /* what files keep packed is unpacked, where it can be packed again */
	bool explain;             /* say of which files that is not so, and why */
};

/* ------------------------------------------------------------------ save_groups.c */

#define KEDGE__SAVE_GROUPS_MOST 4096

/* What was found goes into parts by its rank, SIZE ranks to one; PATTERN NULL: all into one. KEDGE_E_ARG: nothing has a rank, or one that is
 * out of range. */
int kedge__save_set_group(struct kedge__save_set *s, const char *pattern, uint64_t size, struct kedge__error *err);
/* Of each that was found, whether it is in the tree of part PART; kedge__free(). */
bool *kedge__save_set_members(const struct kedge__save_set *s, uint32_t part);
struct kedge__save_part kedge__save_set_sum(const struct kedge__save_set *s); /* of the numbers of all parts */

/* ------------------------------------------------------------------ save_files.c; what has a part and a handle may be called for all parts at once */

/* KEDGE_E_LIMIT: a version has no room for so many files; to be said before any of them is read. */
int kedge__save_room(size_t files, struct kedge__error *err);
int kedge__save_set_room(const struct kedge__save_set *s, struct kedge__error *err);
void kedge__save_set_begin(struct kedge__save_set *s, const char *command, bool quiet);
/* What standard input has, as a file called NAME. */
int kedge__save_set_stdin(struct kedge__save_set *s, const char *name, struct kedge__error *err);
/* The files of PART in the newest version of K that has as many, and which of those that were found are the same. FORCE: none. */
int kedge__save_set_compare(struct kedge__save_set *s, uint32_t part, kedge_t *k, bool force, struct kedge__error *err);
/* Read small files, and see that the others can be read. What cannot be is left out, but for operands. */
int kedge__save_set_read(struct kedge__save_set *s, struct kedge__pool *pool, struct kedge__error *err);
/* With `equal`: those files that can be become their plain form, as copies. The others stay what they are. */
int kedge__save_set_unpack(struct kedge__save_set *s, struct kedge__pool *pool, struct kedge__error *err);
/* Memory for BYTES bytes of a small file, as long as the set is there; NULL: it is too large, or there are too many. */
uint8_t *kedge__save_set_hold(struct kedge__save_set *s, uint64_t bytes);
/* All that PART has becomes regions of the next version, those with whole elements of TYPE as such. */
int kedge__save_set_lend(struct kedge__save_set *s, uint32_t part, kedge_t *k, enum kedge_type type, struct kedge__error *err);
/* A checkpoint failed because a file changed, or vanished: copy the first, leave out the other. *AGAIN: there were some. */
int kedge__save_set_settle(struct kedge__save_set *s, bool *again, struct kedge__error *err);
/* Say which files changed meanwhile. */
void kedge__save_set_check(struct kedge__save_set *s);
void kedge__save_set_done(struct kedge__save_set *s);

/* ------------------------------------------------------------------ save.c, for `kedge pack` and `kedge watch`, too */

struct kedge__save_as {
	const char *command; /* that speaks */
	int (*prepare)(void *ctx); /* called by the process that save_child() makes, before anything else: 0, or its exit code; NULL: nothing */
	void *ctx;
	int tolerated;       /* the signal that prepare() arranged for; 0: none */
	bool explain;        /* with --equal and --quiet: say which files stay as they are all the same */
	bool strict;         /* a file that changes or vanishes meanwhile is a failure, and nothing is saved */
};

/* `kedge save`, with its options and operands in ARGV from 1 on: an exit code. */
int kedge__save_as(const struct kedge__save_as *as, int argc, char **argv);
/* The same in a process of its own; ARGV ends in NULL. Signals that ask this one to stop go there, too, and *STOPPED is the last of them.
 * This process must have no other threads. */
int kedge__save_child(const struct kedge__save_as *as, char **argv, int *stopped);

/* Files of many ranks in few segments. */
#define KEDGE__OPTION_RANKS(to) \
	{"ranks", 0, KEDGE__OPTION_ONCE, (to), "PATTERN", \
	 "names of files of ranks, with {} for the number: 'data*.cpu{}', 'rank_{}';\nfiles of --group-size ranks become one segment"}
#define KEDGE__OPTION_GROUP_SIZE(to) \
	{"group-size", 0, KEDGE__OPTION_RANKS_IN, (to), "G", "with --ranks: ranks in a segment (default: the setting group_size, which is 1)"}
#define KEDGE__GROUP_PRESET UINT64_MAX /* before the options are read */
/* 0, or KEDGE__EXIT_USAGE after a message. */
int kedge__ranks_check(const struct kedge__usage *u, const char *ranks, uint64_t group_size, bool pages);

/* Remove VERSION, the newest, from STORE: it has a state that the files never had. */
void kedge__save_take_back(const char *command, const char *store, const char *name, uint64_t version);

/* Which process called this one, if it is one that splits a list of files, as xargs does; 0: it is not. */
uint64_t kedge__caller(void);

#endif
