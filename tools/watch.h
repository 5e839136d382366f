/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch: checkpoint sets that other programs write as files, found when they are complete, and saved as versions.
 *
 * A set is the files of one checkpoint. What makes two of them different is the key, the part of the names that `{}` stands for. Its
 * fingerprint (names, sizes, times of modification) says whether it was taken already: it is in the note of the version, and so
 * published with it in one step, and in the journal, which outlives versions.
 */
#ifndef KEDGE_TOOLS_WATCH_H
#define KEDGE_TOOLS_WATCH_H

#include "tool_keyed.h"

/* ------------------------------------------------------------------ watch_pattern.c */

/* Whether PATTERN fits PATH, or a directory that it is in. */
bool kedge__watch_fits(const char *pattern, const char *path);
/* What is wrong with PATTERN; NULL: nothing. */
const char *kedge__watch_pattern_check(const char *pattern);

/* ------------------------------------------------------------------ watch_sets.c */

struct kedge__watch_file {
	char *path; /* in the directory that is watched */
	uint64_t size, inode;
	int64_t mtime_ns;
	bool regular;
};

struct kedge__watch_set {
	char *key;
	KEDGE__ARRAY(struct kedge__watch_file) files; /* all of them, in order */
	KEDGE__ARRAY(char *) operands;                /* what kedge save is given: files, and directories with all that is in them */
	size_t counted;                               /* regular files, without the marker */
	char *marker;                                 /* its path; NULL: it is not there */
	int64_t newest;                               /* time of modification */
	uint64_t fingerprint;
};

struct kedge__watch_spec { /* which sets, and when they are complete */
	const char *dir;
	struct kedge__text_list patterns;
	const char *marker;   /* pattern; NULL: none is needed */
	uint64_t count;       /* 0: any number */
	uint64_t store_device, store_inode; /* this directory is not looked into */
	int inotify;          /* -1: none. Directories that were looked at are watched */
};

struct kedge__watch_sets {
	KEDGE__ARRAY(struct kedge__watch_set) list; /* by time of modification, then by key */
};

/* All that are there, complete or not. */
int kedge__watch_sets_scan(struct kedge__watch_sets *sets, const struct kedge__watch_spec *spec, struct kedge__error *err);
void kedge__watch_sets_done(struct kedge__watch_sets *sets);
const struct kedge__watch_set *kedge__watch_sets_find(const struct kedge__watch_sets *sets, const char *key); /* NULL */
bool kedge__watch_set_complete(const struct kedge__watch_set *set, const struct kedge__watch_spec *spec);

enum kedge__watch_quiet {
	KEDGE__WATCH_QUIET,
	KEDGE__WATCH_BUSY,    /* a file is open for writing */
	KEDGE__WATCH_UNKNOWN, /* the file system does not say */
};

/* Whether nobody has a file of it open for writing. With HOLD that stays so: who opens one waits until this process has ended, which it does
 * at once (by SIGIO). */
enum kedge__watch_quiet kedge__watch_set_quiet(const struct kedge__watch_set *set, const char *dir, bool hold);

/* ------------------------------------------------------------------ watch_journal.c: which sets were taken */

enum kedge__watch_state { KEDGE__WATCH_NEW, KEDGE__WATCH_TAKEN, KEDGE__WATCH_REMOVING, KEDGE__WATCH_REMOVED };

struct kedge__watch_known {
	uint64_t fingerprint, version;
	enum kedge__watch_state state;
};

struct kedge__watch_journal {
	char *path;
	int lock; /* -1: not held */
	KEDGE__ARRAY(struct kedge__watch_known) list;
	size_t lines; /* in the file, */
	size_t most;  /* and how many there may be until it is pruned */
};

/* Lock and read it, in the directory of NAME in STORE. KEDGE_E_LOCKED: somebody else watches for NAME. */
int kedge__watch_journal_open(struct kedge__watch_journal *j, const char *store, const char *name, struct kedge__error *err);
void kedge__watch_journal_close(struct kedge__watch_journal *j);
const struct kedge__watch_known *kedge__watch_journal_find(const struct kedge__watch_journal *j, uint64_t fingerprint); /* NULL */
/* A version that a catalogue has; the journal need not know it yet. */
void kedge__watch_journal_learn(struct kedge__watch_journal *j, uint64_t fingerprint, uint64_t version);
int kedge__watch_journal_note(struct kedge__watch_journal *j, const struct kedge__watch_set *set, uint64_t version, enum kedge__watch_state state,
			      struct kedge__error *err);
/* The same, for a set that is not there any more. */
int kedge__watch_journal_end(struct kedge__watch_journal *j, const struct kedge__watch_known *known, struct kedge__error *err);

/* It is time for prune(): after it was read, and then whenever it has grown to twice its size. */
bool kedge__watch_journal_full(const struct kedge__watch_journal *j);
/* Forget what is not NEEDED, and write the rest, a line each, in one step. */
int kedge__watch_journal_prune(struct kedge__watch_journal *j, bool (*needed)(void *ctx, const struct kedge__watch_known *k), void *ctx,
			       struct kedge__error *err);

#define KEDGE__WATCH_NOTE_ROOM 240
void kedge__watch_note_format(const struct kedge__watch_set *set, char note[KEDGE__WATCH_NOTE_ROOM]);
bool kedge__watch_note_parse(const char *note, uint64_t *fingerprint); /* NOTE may be NULL */

struct kedge__watch {
	struct kedge__usage usage;
	struct kedge__watch_spec spec;
	const char *store, *name, *codec, *type, *ranks;
	uint64_t group_size;
	bool equal;
	struct kedge__text_list sets; /* --set */
	bool remove, quiet, init;
	char *l1, *l2; /* absolute; L2 NULL: there is none */
	bool all_to_l2; /* the settings want every version there */
	bool behind;    /* L2 lacks the newest one */
	bool bring_failed; /* though it was there: it is not tried again until something changes */
	struct kedge__watch_journal journal;
	int stopped;   /* the signal that asks for it */
	KEDGE__ARRAY(uint64_t) failed; /* fingerprints of sets that could not be taken, and will not be tried again as they are */
};

/* ------------------------------------------------------------------ watch_levels.c */

struct kedge__watch_levels { /* those that are there, and have versions of the name */
	struct kedge__catalog *at[2];
	size_t count;
};

int kedge__watch_levels_open(const struct kedge__watch *w, struct kedge__watch_levels *l, struct kedge__error *err);
void kedge__watch_levels_close(struct kedge__watch_levels *l);
/* Learn what they have. */
int kedge__watch_learn(struct kedge__watch *w, struct kedge__error *err);
/* Whether L2 lacks what it should have. */
void kedge__watch_l2_look(struct kedge__watch *w);
/* If it does, and is there, bring it what it lacks. True: it has all of it now. */
bool kedge__watch_l2_bring(struct kedge__watch *w);
/* Forget sets that are neither in SETS, all that are there, nor on any level, if it is time. */
void kedge__watch_prune(struct kedge__watch *w, const struct kedge__watch_sets *sets);

/* ------------------------------------------------------------------ watch_take.c */

enum kedge__watch_result {
	KEDGE__WATCH_DONE,
	KEDGE__WATCH_LATER,  /* it changed meanwhile, or the store is in use */
	KEDGE__WATCH_TROUBLE, /* after a message: a disk is full, or fails; it may be better next time */
	KEDGE__WATCH_FAILED,  /* after a message */
};

/* SET becomes a version. */
enum kedge__watch_result kedge__watch_take(struct kedge__watch *w, const struct kedge__watch_set *set);
/* *INTACT: all levels have VERSION, and every byte of it is right. */
int kedge__watch_verify(const struct kedge__watch *w, uint64_t version, bool *intact, struct kedge__error *err);
/* Remove the files of VERSION that are as it has them. */
int kedge__watch_remove(const struct kedge__watch *w, uint64_t version, struct kedge__error *err);

#endif
