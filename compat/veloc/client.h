/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: what is behind VELOC's global state. Built on <kedge/...> alone.
 *
 * A checkpoint name is a Kedge job, opened when it is first used: scratch is its L1, persistent its L2. Regions are
 * called by their id in decimal, the file of a rank is region "files/NAME.dat".
 */
#ifndef VELOC_CLIENT_H
#define VELOC_CLIENT_H

#include <kedge/kedge_mpi.h>
#include <stdbool.h>

#include "veloc.h"

/* ------------------------------------------------------------------ log.c: to stderr, as VELOC does */

void veloc__log_open(const char *level, long rank); /* NULL: warnings and errors; also receives Kedge's messages */
void veloc__log_close(void);
void veloc__log(enum kedge_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ------------------------------------------------------------------ config.c */

struct veloc__pair {
	char *key, *value;
	struct veloc__pair *next;
};

struct veloc__config {
	char *scratch, *persistent; /* absolute; persistent may be NULL */
	bool async;
	bool originals;  /* also copy routed files to the application's paths */
	char *log_level; /* or NULL */
	long max_versions, scratch_versions, persistent_interval;
	struct veloc__pair *kedge;   /* settings of Kedge */
	struct veloc__pair *idle;    /* key, and why it has no meaning here */
	struct veloc__pair *unknown; /* key */
};

/* File, then environment. The cause of a failure is logged. */
int veloc__config_load(const char *path, struct veloc__config *c);
char *veloc__path_absolute(const char *path); /* malloc'd; NULL: no memory, or no working directory */
void veloc__config_done(struct veloc__config *c);
void veloc__config_report(const struct veloc__config *c); /* keys without a meaning here, each logged once */
/* The settings for kedge_open(), NULL-terminated, freed with veloc__settings_free(); NULL: out of memory. */
char **veloc__settings_make(const struct veloc__config *c);
void veloc__settings_free(char **settings);

/* ------------------------------------------------------------------ region.c */

struct veloc__region {
	int id;
	void *ptr;
	size_t count, unit;
	bool chosen; /* for the checkpoint in progress */
};

struct veloc__group {
	char *name;
	struct veloc__region *at; /* ascending ids */
	size_t count, room;
	struct veloc__group *next;
};

int veloc__region_put(struct veloc__group **groups, const char *name, int id, void *ptr, size_t count, size_t unit);
int veloc__region_remove(struct veloc__group *groups, const char *name, int id);
void veloc__region_clear(struct veloc__group *groups, const char *name);
void veloc__groups_free(struct veloc__group *groups);
/* The group that checkpoints called NAME use; NULL: nothing is protected. */
struct veloc__group *veloc__group_for(struct veloc__group *groups, const char *name);
struct veloc__region *veloc__region_find(const struct veloc__group *g, int id);
/* Whether MODE (VELOC_CKPT_ALL, ...) takes ID. */
bool veloc__selects(int mode, const int *ids, int count, int id);

/* ------------------------------------------------------------------ engine.c: MPI from the application's thread only
 *
 * With less than MPI_THREAD_MULTIPLE only the thread of the application may speak MPI, but background work of Kedge has
 * to agree with the other ranks. So Kedge's calls run on a thread of the engine, what its threads want to say is
 * posted, and the application's thread sends it whenever it is in a call of ours. */

struct veloc__engine;
struct veloc__channel; /* a private communicator */

struct veloc__engine *veloc__engine_new(void);
void veloc__engine_free(struct veloc__engine *e);
struct veloc__channel *veloc__channel_new(struct veloc__engine *e, MPI_Comm comm); /* then it owns COMM */
void veloc__channel_free(struct veloc__channel *ch);
int veloc__channel_allgather(void *channel, const void *send, size_t bytes, void *recv);
void veloc__engine_progress(struct veloc__engine *e); /* takes NULL */
void veloc__engine_run(struct veloc__engine *e, void (*fn)(void *), void *arg);

/* ------------------------------------------------------------------ export.c: routed files, to where they were meant
 * to be */

struct veloc__exporter;

struct veloc__exporter *veloc__exporter_new(void);
void veloc__exporter_free(struct veloc__exporter *x); /* waits */
/* Copy the current contents of FROM, even if it is removed right afterwards; failures are only logged. */
void veloc__exporter_submit(struct veloc__exporter *x, const char *from, const char *to);
void veloc__exporter_drain(struct veloc__exporter *x); /* takes NULL */
bool veloc__exporter_idle(struct veloc__exporter *x);  /* takes NULL */

/* ------------------------------------------------------------------ client.c */

struct veloc__job {
	char *name;
	kedge_t *k; /* NULL: not open yet */
	struct veloc__channel *front, *back;
	char *file; /* the name of the routed file: NAME.dat */
	char *path; /* where it was routed, or NULL */
	bool filed; /* the file is protected */
	struct veloc__region *held; /* what is protected in k, as it was then; ascending ids */
	size_t held_count;
	bool took; /* `last` is a version that this process has taken */
	uint64_t last;
	bool cleanup; /* to be done when the ranks meet */
	struct veloc__job *next;
};

enum veloc__phase { VELOC__IDLE, VELOC__CHECKPOINT, VELOC__RESTART };

struct veloc__client {
	MPI_Comm comm; /* MPI_COMM_NULL: a single process */
	int rank, size;
	bool single;
	unsigned id;
	struct veloc__config config;
	char **settings;
	struct veloc__engine *engine; /* NULL: not needed */
	struct veloc__exporter *exporter;
	struct veloc__group *groups;
	struct veloc__job *jobs; /* in the order in which they were opened */
	double exported;         /* when a file was last exported, seconds */

	enum veloc__phase phase;
	struct veloc__job *job; /* of the phase, or the last one */
	uint64_t version;
	bool taken, failed;                /* the version of the phase */
	char *original;                    /* of the routed file, absolute */
	struct kedge_region_entry *stored; /* of a restart */
	size_t stored_count;
};

/* NULL before VELOC_Init(). Lets the engine make progress. */
struct veloc__client *veloc__client_enter(void);
/* The job of a checkpoint name, open; collective when it is new. */
struct veloc__job *veloc__job_open(struct veloc__client *c, const char *name);
/* Do what VELOC_Cleanup() asked for, if some rank did. Collective. */
int veloc__job_settle(struct veloc__client *c, struct veloc__job *job);
bool veloc__name_valid(const char *name);

/* Each of VALUES becomes the largest of all ranks'. Collective. */
int veloc__client_max(struct veloc__client *c, int *values, int count);

/* A call into Kedge that may wait for other ranks. The cause of a failure is logged at LEVEL. */
enum veloc__op {
	VELOC__OP_CHECKPOINT,
	VELOC__OP_WAIT,
	VELOC__OP_RESTART,
	VELOC__OP_FIND,
	VELOC__OP_DISCARD,
	VELOC__OP_GO_BACK,
	VELOC__OP_CLOSE
};
int veloc__call(struct veloc__client *c, enum veloc__op op, kedge_t *k, uint64_t version, uint64_t *out);

/* ------------------------------------------------------------------ checkpoint.c, restart.c */

int veloc__client_wait(struct veloc__client *c); /* everything of this process */
void veloc__job_bare(struct veloc__job *job);    /* nothing is protected in its handle */
/* The same for R, if its memory is what the handle has under that id; then no version in progress needs it. */
void veloc__job_let_go(struct veloc__job *job, const struct veloc__region *r);
void veloc__phase_end(struct veloc__client *c);

#endif
