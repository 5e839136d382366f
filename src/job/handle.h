/*
 * handle: what is behind a kedge_t, and what the files of job share. Private to job.
 *
 * Three kinds of threads meet here: those of the application, one at a time under `lock`; the writer, which finishes a
 * checkpoint with capture = copy or cow; the flusher, which copies to L2 and removes old versions. Each has its own catalogue
 * handles, so none waits for another's:
 *   api    kedge_versions(), kedge_region_stat(), kedge_restart()
 *   write  checkpoint and writer; the application's threads use it only when no write is pending. Owns the names.
 *   flush  flusher; in a group that agrees only in collective calls also those, when the flusher is idle
 *
 * Against dead-locks: nobody waits for the flusher, and the flusher runs no gc that other ranks' flushers could hold up,
 * while holding a pin; versions are flushed and removed in turns that all ranks agree on.
 */
#ifndef KEDGE_JOB_HANDLE_H
#define KEDGE_JOB_HANDLE_H

#include "capture/capture.h"
#include "job/baseline.h"
#include "job/group.h"
#include "job/job.h"
#include "job/levels.h"
#include "job/version.h"
#include "restore/restore.h"

#include <pthread.h>

struct kedge__job_level {
	bool on; /* if not, but `api` is there, it can only be read */
	bool leads; /* the lowest of the ranks that share the directory: publishes, cleans, removes */
	bool whole; /* all ranks share it, */
	int leader; /* and this one leads */
	struct kedge__catalog *api, *write, *flush;
};

/* How far a version of this process is; kept for kedge_test(). */
struct kedge__job_status {
	uint64_t version;
	bool done;
	struct kedge__error err;
};

struct kedge__job_tracked { /* a region that the tracker watches */
	uint64_t tenancy; /* of its slot: in another name's it is another region */
	void *data;
	uint64_t bytes;
	size_t id;
	bool seen;
	uint32_t dense; /* collects in a row that found most of it written */
	uint32_t rest;  /* checkpoints that it is not watched for: it would be written anyway */
	uint32_t rests; /* in a row */
};

struct kedge__job_track {
	struct kedge__tracker *tracker; /* NULL: pages are not tracked */
	KEDGE__ARRAY(struct kedge__job_tracked) ranges;
	struct kedge__hash places; /* ranges by address and size */
	uint64_t at; /* the version that the last collect belongs to, once it is committed; else KEDGE__NO_VERSION */
	uint64_t turn; /* of the audit */
};

struct kedge__followups { /* sealed versions that something comes after; under state_lock */
	struct kedge__version *first, **end;
	bool untrimmed; /* old versions stay because another rank had a level pinned */
};

struct kedge__sealing { /* the version that is not sealed yet; at most one */
	struct kedge__version *pending;
	uint64_t version;
	int rc; /* how it went, once the writer is done */
	struct kedge__error err;
};

/* A file that the application writes where it was told to. It is a region while it is saved, at an address that nobody may
 * look at, or restored, mapped there; at other times it is not in the table. */
struct kedge__job_file {
	char *region, *path;
	void *data;      /* NULL: it has no address, or is empty */
	uint64_t bytes;
	struct kedge__region_file from; /* where it is read while it is saved; -1 at other times */
	bool listed;     /* in the table of regions now */
	bool lent;       /* by kedge__file_lend(): saved from a descriptor of the caller's, and never restored */
	struct kedge__region_file lender;
	uint64_t lent_bytes;
	enum kedge_type type;
	char *temporary; /* being restored; becomes `path` */
};

/* What the versions of this process follow; run.c. Looked at while no write is pending, or by the writer. */
struct kedge__job_run {
	struct kedge__run is;   /* of the versions taken so far */
	struct kedge__run next; /* of the version in progress, if a run begins with it */
	uint64_t last;          /* the newest version taken; KEDGE__NO_VERSION: none since open, restart or discard */
	bool placed;            /* by a restart or a discard: the next run follows version `from_version` of `from` */
	struct kedge__run from;
	uint64_t from_version;  /* what is not above it still counts; KEDGE__NO_VERSION: nothing does */
	struct kedge__run present; /* as this rank sees it, while a run begins */
	uint64_t floor;         /* the lowest number that the next version may have */
	int refused;            /* how the last restart failed; checkpoints are refused until the program decides */
};

/* How fast storage takes what is written to it, by the versions so far. */
struct kedge__pace {
	double l1;      /* bytes a second; 0: not measured */
	uint64_t bytes; /* of the last version */
	double began;   /* when it was begun, */
	double apart;   /* and how long after the one before it; 0: not known */
};

struct kedge {
	char *name;
	pid_t pid; /* the process that opened it; a child that was forked may not use it */
	struct kedge__job_settings set;
	struct kedge__codec_choice codec;
	struct kedge__codec_memory *memory; /* this and the pace are looked at by whoever writes segments, one at a time */
	struct kedge__pace pace;
	struct kedge_group group;
	struct kedge__channel front, back;
	bool front_alone, back_alone; /* the writer / the flusher may agree with the other ranks by itself */

	pthread_mutex_t lock; /* serialises the calls of the application */
	struct kedge__job_level level[KEDGE__LEVELS];
	struct kedge__trust *trust[KEDGE__LEVELS]; /* of the rank that leads there; NULL: without memory for it */
	struct kedge__pool *pool;
	struct kedge__worker *writer, *flusher;
	struct kedge__bucket bucket; /* for what goes to L2 */
	struct kedge__bucket reads;  /* for what is read by way of the catalogues `api` */

	struct kedge__region_table *regions;
	void *(*room)(void *user, const char *name, const struct kedge_region_info *info); /* NULL: regions fit, or do not */
	void *room_user;
	KEDGE__ARRAY(struct kedge__job_file) files;
	uint32_t next_slot;
	struct kedge__job_track track;
	struct kedge__reserve reserve; /* what a pending write holds aside is in it */
	bool cow;                      /* memory may be write-protected for that */
	struct kedge__job_levels levels;
	struct kedge__baseline baseline;
	struct kedge__job_run run;
	struct kedge__error l2_refused;  /* why L2 is wanted but not used */
	enum kedge__sight l2_sight;      /* what was seen there then, */
	struct kedge__store_id l2_seen;
	bool l2_hidden;                  /* and whether looking would show that it has changed */
	bool level_unread;               /* the last scan for what is stored could not read a level */
	bool l1_shared;                  /* some rank's L1 is led by another rank */
	bool l1_doubted;        /* this rank did not see a version that another one published for it */
	bool l1_renewed;        /* some L1 was made again: whoever shares it has to see each version there */
	struct kedge__policy policy; /* of the threads of the application; rank 0's counts */
	double (*clock)(void);  /* what the policy takes for the time */
	uint64_t skip;          /* questions to the policy that are answered "later" without asking, the same on all ranks */
	struct kedge__sealing sealing;
	struct kedge__followups followups;

	pthread_mutex_t state_lock; /* guards what follows; held for moments only */
	KEDGE__ARRAY(struct kedge__job_status) status; /* ascending versions */
	struct kedge__error first; /* of a background step, not yet reported */
	bool holding;              /* the pending write needs the application's memory as it is */
	pthread_cond_t let_go;     /* it does not any more */
	struct kedge_stats stats;
	struct kedge__l2_flush flushed; /* that the policy does not know of yet; negative seconds: none */
	uint64_t increment[3];  /* the same of a version on L1: bytes of the image, new ones, stored; zeros: none */
	KEDGE__ARRAY(struct kedge__set_key) common; /* sets that all ranks are known to have or have had */

	pthread_mutex_t progress_lock; /* callbacks run one at a time */
	void (*progress)(void *user, const struct kedge_progress *p);
	void *progress_user;
};

/* ------------------------------------------------------------------ state.c: what the calls of other threads may see */

/* KEDGE_E_ARG: there is no handle; KEDGE_E_STATE: it is another process's. What every call begins with. */
int kedge__handle_check(const kedge_t *k, struct kedge__error *err);
int kedge__state_fail(const kedge_t *k, int rc, struct kedge__error *err); /* for kedge_last_error(); empties ERR; returns RC */
void kedge__state_begin(kedge_t *k, uint64_t version);                     /* the version is on its way; forgets those above */
void kedge__state_end(kedge_t *k, uint64_t version, int rc, const struct kedge__error *err);
void kedge__state_drop_above(kedge_t *k, uint64_t version);
void kedge__state_drop_all(kedge_t *k);
void kedge__state_note(kedge_t *k, int rc, const struct kedge__error *err); /* an error for kedge_wait() to report */
int kedge__state_take(kedge_t *k, struct kedge__error *err);                /* the noted error, once */
void kedge__state_stats(kedge_t *k, const struct kedge_stats *stats, bool increment);
void kedge__state_flushed(kedge_t *k, const struct kedge__l2_flush *flush); /* for the policy */
/* A progress report; DONE may come from any thread. */
struct kedge__job_progress {
	kedge_t *k;
	const char *phase;
	uint64_t version, total;
};
void kedge__state_progress(const struct kedge__job_progress *p, uint64_t done);
void kedge__state_progress_bytes(void *ctx, uint64_t done);                  /* of callbacks that know only bytes */
void kedge__state_progress_total(void *ctx, uint64_t done, uint64_t total);

/* ------------------------------------------------------------------ handle.c, meet.c */

int kedge__level_open(kedge_t *k, const char *dir, struct kedge__job_level *level, struct kedge__error *err);
int kedge__level_own(kedge_t *k, struct kedge__job_level *level, struct kedge__error *err); /* if this rank leads there */
/* All ranks say whether they can begin at all: READY false must have its reason elsewhere. */
int kedge__meet_ready(const struct kedge_group *group, bool ready, struct kedge__error *err);
/* L1 is open, or not (RC): common settings, and who shares a directory. */
int kedge__meet(kedge_t *k, int rc, struct kedge__error *err);
int kedge__nonce_draw(uint64_t *nonce, struct kedge__error *err);

/* ------------------------------------------------------------------ l2.c: the right L2, or none */

bool kedge__l2_wanted(const kedge_t *k); /* the settings name one; level[KEDGE__L2].on: it is in use */
/* Collective. Not 0: it is not used, for what k->l2_refused says; logged. */
int kedge__l2_meet(kedge_t *k);
void kedge__l2_look_again(kedge_t *k); /* if it was refused; collective, in a call of the application, no write pending */
void kedge__l2_tie(kedge_t *k);        /* L1 remembers which L2 it belongs to from now on; any thread */
int kedge__l2_check(const kedge_t *k, struct kedge__error *err); /* it is still the one that it was; the flusher's */

/* ------------------------------------------------------------------ versions.c */

/* The readable sets of this rank count with versions below LIMIT that belong to RUN (NULL: all), ascending. One kedge__free(). */
int kedge__versions_keys(const struct kedge__catalog *cat, uint32_t ranks, uint64_t limit, const struct kedge__run *run, struct kedge__set_key **list, size_t *count, struct kedge__error *err);
/* The present run by what this rank can see (api handles, scanned before); NULL: there are no versions. */
const struct kedge__run *kedge__versions_run(const kedge_t *k);
/* The error of who found nothing while a level could not be looked at, on this rank or another: KEDGE_E_MISSING. */
int kedge__versions_unread(const kedge_t *k, struct kedge__error *err);
/* All of both levels (api handles, scanned before) that belong to RUN (NULL: all); a version with different sets on two levels is there
 * twice, L1 first. */
int kedge__versions_all(kedge_t *k, const struct kedge__run *run, struct kedge__set_key **list, size_t *count, struct kedge__error *err);
int kedge__versions_scan(kedge_t *k, struct kedge__error *err);
/* The lineage of exactly this set. */
int kedge__versions_open(kedge_t *k, struct kedge__set_key key, struct kedge__lineage **out, struct kedge__error *err);
void kedge__region_info_set(const struct kedge__region_record *r, struct kedge_region_info *info);
/* Names, slots and the next slot of a stored version. */
int kedge__versions_remember(kedge_t *k, const struct kedge__segment *top, struct kedge__error *err);
/* The newest set, or the one of VERSION, that all ranks are known to have and that opens here; scanned before. */
int kedge__versions_open_known(kedge_t *k, uint64_t version, struct kedge__lineage **out, struct kedge__error *err);
void kedge__versions_pin(kedge_t *k, bool pinned[KEDGE__LEVELS]); /* the api handles, as far as they can be */
void kedge__versions_unpin(kedge_t *k, const bool pinned[KEDGE__LEVELS]);
int kedge__versions_common(kedge_t *k, struct kedge__error *err); /* k->common anew, at open; collective */
void kedge__versions_published(kedge_t *k, struct kedge__set_key key);

/* ------------------------------------------------------------------ run.c */

void kedge__job_run_done(struct kedge__job_run *run);
/* The present run of all that the ranks can see on LEVELS, by an exchange of MSG, a restart_msg in which the rest is the caller's. RC is how this
 * rank fared so far. Collective. */
int kedge__run_present(kedge_t *k, enum kedge__step step, uint64_t version, struct kedge__catalog *const *levels, size_t n, int rc, union kedge__msg *msg,
		       struct kedge__run *present, struct kedge__error *err);
int kedge__run_check(const kedge_t *k, uint64_t version, struct kedge__error *err); /* KEDGE_E_STATE: it may not be taken */
bool kedge__run_due(const kedge_t *k, uint64_t version);                           /* a run begins with it */
/* If a run begins with VERSION: as this rank would have it, with what the others have to know; and, after BEGIN, as all have it. *CHANGED:
 * it follows another run than this rank thought. KEDGE_E_STATE: the version may not be taken. */
int kedge__run_prepare(kedge_t *k, uint64_t version, struct kedge__begin_msg *msg, struct kedge__error *err);
int kedge__run_agreed(kedge_t *k, uint64_t version, const struct kedge__begin_msg *msg, bool *changed, struct kedge__error *err);
const struct kedge__run *kedge__run_of(const kedge_t *k, uint64_t version);        /* the run of a version in progress */
void kedge__run_published(kedge_t *k, uint64_t version, bool goes_to_l2);                         /* what it abandons is removed where that is possible */
/* Remove from CAT, of level L, what RUN abandoned (kedge__history_sweep()). What fails is logged: it will not be used. */
void kedge__run_sweep(const kedge_t *k, int l, struct kedge__catalog *cat, const struct kedge__run *run, uint64_t first);
void kedge__run_restarted(kedge_t *k, struct kedge__run *from, uint64_t version);  /* takes FROM */
void kedge__run_renew(kedge_t *k); /* no write is pending */

struct kedge__run_cut { /* what a discard leaves */
	struct kedge__run run; /* owned */
	uint64_t floor;        /* above all versions that stay, as far as they can be seen */
};
int kedge__run_discarding(kedge_t *k, uint64_t from, struct kedge__run_cut *cut, struct kedge__error *err); /* before; collective */
void kedge__run_discarded(kedge_t *k, uint64_t from, struct kedge__run_cut *cut);                           /* after */

/* ------------------------------------------------------------------ checkpoint.c, seal.c */

int kedge__checkpoint_take(kedge_t *k, uint64_t version, struct kedge__error *err);
void kedge__seal_write(struct kedge__version *v);   /* the local part; result in v->rc, which may be an earlier error */
void kedge__seal_publish(struct kedge__version *v); /* collective */
int kedge__seal_now(struct kedge__version *v, struct kedge__error *err); /* both, and the follow-ups; takes V */
void kedge__seal_submit(struct kedge__version *v);  /* the same by the writer; takes V */
void kedge__seal_finish(kedge_t *k);                /* wait for the pending one; collective */

/* ------------------------------------------------------------------ pace.c */

void kedge__pace_wrote(struct kedge__pace *p, uint64_t bytes, double seconds, double began);
/* Bytes a second that the narrowest place takes; 0: nothing was measured. L2_RATE 0: L2 has no throttle, or there is none. */
double kedge__pace_storage(const struct kedge__pace *p, double l2_rate, uint64_t l2_every);

/* ------------------------------------------------------------------ image.c: where a version's bytes come from */

void kedge__image_init(kedge_t *k);
/* v->hold, so that the rest is the writer's, or v->live, with capture = sync or where a hold cannot be had. */
int kedge__image_hold(struct kedge__version *v, struct kedge__error *err);
int kedge__image_reduce(struct kedge__version *v, struct kedge__error *err); /* what was taken; then v->source */
int kedge__image_release(struct kedge__version *v, struct kedge__error *err);
void kedge__image_forget(struct kedge__version *v); /* what came of it so far; it may be held again */
void kedge__image_wait(kedge_t *k); /* until no version needs the application's memory any more */

/* ------------------------------------------------------------------ file.c: routed files are regions between take/create and drop */

int kedge__files_take(kedge_t *k, struct kedge__error *err); /* as they are, to be saved */
int kedge__files_create(kedge_t *k, const struct kedge__segment *top, struct kedge__error *err); /* anew, to be filled from TOP */
int kedge__files_keep(kedge_t *k, struct kedge__error *err); /* the filled ones are the application's */
void kedge__files_drop(kedge_t *k);
int kedge__files_renew(kedge_t *k, struct kedge__error *err); /* the directory of the files, if there are any, made again */
void kedge__files_free(kedge_t *k);
bool kedge__file_forget(kedge_t *k, const char *region); /* false: there is no such file */

/* ------------------------------------------------------------------ followup.c, flush.c, trim.c */

void kedge__followups_init(struct kedge__followups *f);
void kedge__followups_free(kedge_t *k);                  /* those that could not be ended */
bool kedge__followups_wanted(const kedge_t *k);          /* the settings ask for a flusher */
void kedge__followups_add(struct kedge__version *v);     /* V is sealed; takes it */
void kedge__followups_progress(kedge_t *k);              /* collective, does not wait for the flusher */
void kedge__followups_settle(kedge_t *k);                /* collective, until none is left */
void kedge__flush_local(struct kedge__version *v);
void kedge__flush_publish(struct kedge__version *v);     /* collective */
bool kedge__trim(kedge_t *k); /* false: somebody has a level pinned, and old versions stay for now */

/* ------------------------------------------------------------------ track.c: pages that were written */

int kedge__track_init(kedge_t *k, struct kedge__error *err);
void kedge__track_free(kedge_t *k);
bool kedge__track_wanted(const kedge_t *k);
void kedge__track_forget(kedge_t *k, const void *data, uint64_t bytes); /* this is not protected any more */
void kedge__track_reset(kedge_t *k); /* what is protected may be anything: it will be filled, by system calls, too */
void kedge__track_touch(kedge_t *k, const void *data, uint64_t bytes); /* the same, of a part of it */
/* What was written since the last collect, and begin anew; what cannot be had is logged and not usable. */
void kedge__track_collect(kedge_t *k, struct kedge__job_dirty *d);
void kedge__track_committed(kedge_t *k, uint64_t version); /* that the last collect belongs to; KEDGE__NO_VERSION: to none */
void kedge__track_arm(kedge_t *k); /* once memory is held still: what collect left alone because it may be protected */
/* Looks at some of what D calls clean. If it is not, nothing is tracked from now on, and D is not usable. */
void kedge__track_audit(kedge_t *k, uint64_t version, const struct kedge__image *image, struct kedge__job_dirty *d);
void kedge__dirty_free(struct kedge__job_dirty *d);
double kedge__track_count(kedge_t *k); /* bytes in pages written so far; negative: not known */

/* ------------------------------------------------------------------ adapt.c: the policy of this job */

int kedge__adapt_init(kedge_t *k, struct kedge__error *err); /* the settings are there */
void kedge__adapt_load(kedge_t *k);                          /* what the last process measured */
void kedge__adapt_save(kedge_t *k, bool closed);             /* only logs */
void kedge__adapt_taken(kedge_t *k, double blocked, double dirty);
/* Rank 0: questions after the checkpoint in progress that need no answer, so that its write is not waited for. */
uint64_t kedge__adapt_skip_ahead(const kedge_t *k);
void kedge__adapt_restarted(kedge_t *k, struct kedge__set_key key, int level, double seconds); /* LEVEL: 1 or 2 */

#endif
