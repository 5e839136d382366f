/*
 * job: the handle an application holds. It ties the stages into checkpoint and restart, alone or
 * as one rank of a group. The public functions of kedge.h are defined here.
 */
#ifndef KEDGE_JOB_JOB_H
#define KEDGE_JOB_JOB_H

#include "base/base.h"
#include "codec/codec.h"
#include "job/policy.h"
#include "reduce/reduce.h"
#include "store/store.h"

/* ------------------------------------------------------------------ settings.c: every key, its default and its meaning */

enum kedge__capture_mode {
	KEDGE__CAPTURE_SYNC,
	KEDGE__CAPTURE_COPY,
	KEDGE__CAPTURE_COW,
	KEDGE__CAPTURE_COW_USER, /* cow, even where system calls that write to held memory fail meanwhile */
};
enum kedge__coalesce_mode { KEDGE__COALESCE_AUTO, KEDGE__COALESCE_BATCH, KEDGE__COALESCE_NEVER };
enum kedge__track_mode {
	KEDGE__TRACK_NONE,
	KEDGE__TRACK_AUTO,
	KEDGE__TRACK_UFFD,
	KEDGE__TRACK_MPROTECT,
	KEDGE__TRACK_SOFTDIRTY,
};

struct kedge__job_settings {
	char *l1;              /* "kedge-store": store directory of L1 */
	bool init;             /* no: a directory that holds other things is made a store */
	bool take_over;        /* no: an owner of whom nothing is known has ended */
	char *l2;              /* "": store directory of L2; empty: no L2 */
	int64_t l2_every;      /* 1: every n-th version goes to L2; 0: the policy decides */
	int64_t l2_interval;   /* 0: seconds from one version that goes to L2 to the next; -1: none goes */
	bool l2_accept;        /* no: only the L2 that L1 belongs to is used */
	uint64_t l2_rate;      /* 0: bytes a second, 0 is as fast as it goes */
	uint64_t restore_rate; /* 0: the same for what is read of both levels to restart */
	int coalesce;          /* auto: enum kedge__coalesce_mode */
	int reducer;           /* auto: kedge__job_settings_reducer() */
	uint64_t chunk;        /* 256 */
	uint64_t pattern;      /* 32: the chunk of rex */
	char *codec;           /* "auto" */
	uint64_t codec_rate;   /* 0: raw bytes a second that packing has to keep up with */
	uint64_t block;        /* 128k */
	int capture;           /* sync */
	uint64_t copy_memory;  /* 4G: bytes that a version in the background may hold aside; above it the checkpoint is synchronous */
	int track;             /* none: enum kedge__track_mode */
	int writer;            /* auto: enum kedge__writer */
	bool direct;           /* no: through the page cache */
	uint64_t buffer;       /* 1M: of the rings, and of a write */
	int64_t queue;         /* 0: two buffers for each thread, at least eight */
	int64_t threads;       /* 0: as many as the process may run on */
	uint64_t record_memory; /* 512M */
	uint64_t rebuild;      /* 1G: literal bytes of older versions read to rebuild the record when its file is absent */
	bool paranoid;         /* no */
	bool sync;             /* yes: fsync */
	int64_t keep;          /* 0: all; else versions kept on L1 by gc after each checkpoint, coalescing as needed */
	int64_t l2_keep;       /* 0 */
	char *interval;        /* "0": seconds, or with a unit, between checkpoints; 0: the policy decides */
	bool adaptive;         /* no: the interval is only where the policy begins */
	char *mtbf;            /* "0": mean time between failures; 0: not known */
	char *l2_mtbf;         /* "0": between those that lose L1; 0: ten times mtbf */
	bool record_file;      /* yes: keep the hash record beside the store at close, so that the next open is fast */
};

extern const struct kedge__setting kedge__job_settings_table[];
extern const size_t kedge__job_settings_count;
extern const char *const kedge__job_env_ignored[]; /* KEDGE_CONFIG, KEDGE_FAULT, KEDGE_RUN_..., not settings */
/* Presets, file, environment, then overrides. */
int kedge__job_settings_load(const char *config, const char *const *overrides, struct kedge__job_settings *s, struct kedge__error *err);
int kedge__job_settings_root(struct kedge__job_settings *s, struct kedge__error *err); /* directories from the root on: the program may go elsewhere */
void kedge__job_settings_done(struct kedge__job_settings *s);
/* What they say of reading and writing. */
struct kedge__io kedge__job_settings_io(const struct kedge__job_settings *s);
/* For a setting that is a rate; a quarter of a second's bytes may come at once. */
void kedge__job_bucket_init(struct kedge__bucket *b, uint64_t rate);
enum kedge__reducer_id kedge__job_settings_reducer(const struct kedge__job_settings *s);
/* What they say of intervals and failures, in numbers. */
int kedge__job_settings_policy(const struct kedge__job_settings *s, struct kedge__policy_config *out,
			       struct kedge__error *err);

/* ------------------------------------------------------------------ journal.c
 * Under `kedge run`, $KEDGE_RUN_JOURNAL names a file to which rank 0 appends one line for each event:
 *   open NAME STORE | restart VERSION UNIX_NS | checkpoint VERSION RAW STORED BLOCKED_SECONDS UNIX_NS | close
 * The library never fails because of it. */

void kedge__journal_write(const char *fmt, ...) KEDGE__PRINTF(1, 2);

/* ------------------------------------------------------------------ file.c */

/* A file that is a region of all versions taken from now on. It is read, not mapped: one that is cut short meanwhile makes the
 * checkpoint fail with KEDGE_E_STATE. */
struct kedge__file_loan {
	const char *region, *path; /* PATH is for messages; both are copied */
	int fd;                    /* the caller's, open as long as the handle is */
	uint64_t bytes;            /* a whole number of elements of TYPE */
	enum kedge_type type;
};

int kedge__file_lend(kedge_t *k, const struct kedge__file_loan *loan, struct kedge__error *err);

#endif
