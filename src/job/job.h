/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: the handle that an application holds. It joins the stages to checkpoint and restart, for one process or
 * for the ranks of a group. The public functions of kedge.h are defined here.
 */
#ifndef KEDGE_JOB_JOB_H
#define KEDGE_JOB_JOB_H

#include "base/base.h"
#include "codec/codec.h"
#include "gpu/gpu.h"
#include "job/policy.h"
#include "protect/protect.h"
#include "reduce/reduce.h"
#include "store/store.h"

/* ------------------------------------------------------------------ settings.c, settings.def */

enum kedge__capture_mode {
	KEDGE__CAPTURE_SYNC,
	KEDGE__CAPTURE_COPY,
	KEDGE__CAPTURE_COW,
	KEDGE__CAPTURE_COW_USER, /* cow, even if system calls that write to held memory fail meanwhile */
};
enum kedge__coalesce_mode { KEDGE__COALESCE_AUTO, KEDGE__COALESCE_BATCH, KEDGE__COALESCE_NEVER };
enum kedge__track_mode {
	KEDGE__TRACK_NONE,
	KEDGE__TRACK_AUTO,
	KEDGE__TRACK_UFFD,
	KEDGE__TRACK_MPROTECT,
	KEDGE__TRACK_SOFTDIRTY,
};

#define KEDGE__MEMBER_TEXT char *
#define KEDGE__MEMBER_PLACE char *
#define KEDGE__MEMBER_BOOL bool
#define KEDGE__MEMBER_NUMBER(least, most) int64_t
#define KEDGE__MEMBER_SIZE(least, most) uint64_t
#define KEDGE__MEMBER_CHOICE(words) int

/* One member per setting; settings.def has its default and its meaning. */
struct kedge__job_settings {
#define SETTING(key, kind, preset, group, doc) KEDGE__MEMBER_##kind key;
#include "job/settings.def"
};

extern const struct kedge__setting kedge__job_settings_table[];
extern const size_t kedge__job_settings_count;
extern const char *const kedge__job_env_ignored[]; /* variables that are not settings: KEDGE_CONFIG, KEDGE_RUN_... */
/* Where settings come from, over the defaults: a file, the environment, then what is here. */
struct kedge__job_sources {
	const char *config;           /* the file; NULL: that of $KEDGE_CONFIG (none, if that is empty), or the user's */
	const char *const *overrides; /* key=value, up to NULL; or NULL */
	const char *call;             /* who gave OVERRIDES, for messages */
	int rank;                     /* for %r: of this process, or KEDGE__RANK_NONE or _ANY */
	char **origins;               /* NULL, or room for where each setting is from: see struct kedge__settings */
};

int kedge__job_settings_load(const struct kedge__job_sources *from, struct kedge__job_settings *s, struct kedge__error *err);
/* Make the directories absolute: the program may change its working directory. */
int kedge__job_settings_root(struct kedge__job_settings *s, struct kedge__error *err);
void kedge__job_settings_done(struct kedge__job_settings *s);
/* The settings for reading and writing. */
struct kedge__io kedge__job_settings_io(const struct kedge__job_settings *s);
/* `keep` or `l2_keep`, of level 0 or 1. */
struct kedge__keep kedge__job_settings_keep(const struct kedge__job_settings *s, int level);
/* For a setting that is a rate; a quarter of a second's bytes may pass in one burst. */
void kedge__job_bucket_init(struct kedge__bucket *b, uint64_t rate);
enum kedge__reducer_id kedge__job_settings_reducer(const struct kedge__job_settings *s);
/* The settings for intervals and failures, in numbers. */
int kedge__job_settings_policy(const struct kedge__job_settings *s, struct kedge__policy_config *out,
			       struct kedge__error *err);
/* *AFTER is above all numbers that are taken, by versions that are damaged, too; 0: none is. */
int kedge__job_taken(kedge_t *k, uint64_t *after, struct kedge__error *err);
/* The file that PLACE, a setting, names for the job NAME: itself, or, if it is a directory or ends in /, NAME and SUFFIX in it. NULL: no
 * memory. */
char *kedge__job_file(const char *place, const char *name, const char *suffix);
/* The settings for a GPU that was opened; those of S must outlive it. */
int kedge__job_settings_gpu(const struct kedge__job_settings *s, struct kedge__gpu *g, struct kedge__error *err);

/* What the job NAME of the L1 at STORE has measured of L2, as far as its directory says. False: nothing. */
bool kedge__adapt_costs(const char *store, const char *name, struct kedge__l2_costs *out);
bool kedge__relaunched(void); /* under `kedge run`: a launch failed before this one, whatever else is known of it */

/* ------------------------------------------------------------------ file.c */

/* A file that is a region of all versions taken from now on. It is read, not mapped: one that is cut short meanwhile makes the
 * checkpoint fail with KEDGE_E_STATE. */
struct kedge__file_loan {
	const char *region, *path; /* copied */
	const void *data;          /* its bytes, the caller's as long as the handle is open; NULL: it is read from */
	int fd;                    /* this, open as long as the handle is, and PATH is for messages; -1: PATH is opened to read it, and must be */
	uint64_t device, inode;    /* this file then */
	uint64_t bytes;            /* a whole number of elements of TYPE */
	enum kedge_type type;
	bool same;                 /* the caller vouches that it is what the region of its name is */
	uint64_t same_as;          /* in this version. It is not read then, if the new version can refer to that one */
};

int kedge__file_lend(kedge_t *k, const struct kedge__file_loan *loan, struct kedge__error *err);
void kedge__files_unlend(kedge_t *k); /* all of them, between checkpoints */
/* What is lent are the files of one group of each rank of the job, which have no other meaning; GROUPING stays the caller's, and valid. */
void kedge__files_group(kedge_t *k, const struct kedge__grouping *grouping);

#endif
