/* SPDX-License-Identifier: BSD-3-Clause */
/* target: what the files of this folder share. */
#ifndef KEDGE_PROCESS_TARGET_H
#define KEDGE_PROCESS_TARGET_H

#include "process/process.h"
#include <sys/uio.h>
#include <sys/user.h>

#define KEDGE__PATH_ROOM 64 /* of names below /proc/PID */

/* ------------------------------------------------------------------ proc.c: what /proc says */

/* All of /proc/PID/NAME, with a NUL behind it. kedge__free(). */
int kedge__proc_read(pid_t pid, const char *name, char **text, size_t *bytes, struct kedge__error *err);
/* The value of "KEY:\tVALUE" in the text of a status file; NULL: there is none. */
const char *kedge__proc_field(const char *status, const char *key);
/* The target of the link /proc/PID/NAME. kedge__free(). */
int kedge__proc_link(pid_t pid, const char *name, char **target, struct kedge__error *err);
typedef int kedge__proc_each(void *ctx, unsigned long number, struct kedge__error *err);
/* Each number in the directory /proc/PID/NAME, ascending. */
int kedge__proc_numbers(pid_t pid, const char *name, kedge__proc_each *each, void *ctx, struct kedge__error *err);
uint64_t kedge__stat_mtime_ns(const char *path, uint64_t *bytes); /* 0: there is no such file */
/* The build id of an ELF file; none: 0 bytes. */
int kedge__build_id(const char *path, struct kedge__process_blob *out, struct kedge__error *err);
void kedge__cpu_features(uint64_t out[KEDGE__PROCESS_FEATURES]);
bool kedge__blob_set(struct kedge__process_blob *b, const void *data, size_t bytes);

/* ------------------------------------------------------------------ trace.c: stopped threads */

struct kedge__tracee {
	pid_t tid; /* as this process sees it */
	bool stopped, gone;
	bool moved; /* its registers are ours, and all its signals are blocked */
	struct user_regs_struct registers; /* its own */
	struct user_regs_struct resumed;   /* the same for where the kernel does not know what it was interrupted in */
	uint64_t mask;
	uint64_t frame; /* in the scratch: what makes it itself again; 0: none yet */
};

struct kedge__target {
	pid_t pid;
	KEDGE__ARRAY(struct kedge__tracee) threads; /* the first one is the leader */
	int memory;                                 /* /proc/PID/mem */
	uint64_t vdso_call, call;                   /* `syscall` instructions: of the vdso, and the one in use */
	uint64_t scratch, scratch_bytes, arguments; /* ARGUMENTS: a page of the scratch */
	pid_t created;                              /* the thread or process that the last call has started */
	bool wants_still;                           /* to be made while the scratch is there */
	pid_t still;                                /* 0: there is none */
	double stood;                               /* seconds, in all stops */
	double stopped_at;
	bool ended;
	int status;
};

#define KEDGE__ARGUMENTS_BYTES ((size_t)4096)

int kedge__target_open(struct kedge__target *t, struct kedge__error *err); /* its memory, while it runs */
/* Stop all threads. On failure they run on. */
int kedge__target_stop(struct kedge__target *t, struct kedge__error *err);
/* Let all go: those whose registers are ours are killed with the others. */
void kedge__target_release(struct kedge__target *t);
void kedge__target_done(struct kedge__target *t);
/* The next stop of X, within SECONDS. */
int kedge__tracee_wait(struct kedge__target *t, struct kedge__tracee *x, double seconds, int *status,
		       struct kedge__error *err);
int kedge__tracee_registers(struct kedge__tracee *x, struct user_regs_struct *out, struct kedge__error *err);
int kedge__tracee_set_registers(struct kedge__tracee *x, const struct user_regs_struct *in, struct kedge__error *err);
int kedge__tracee_set_mask(struct kedge__tracee *x, uint64_t mask, struct kedge__error *err);
/* X stands where signals are looked at: what it was interrupted in is begun again by the kernel. */
int kedge__tracee_settle(struct kedge__target *t, struct kedge__tracee *x, struct kedge__error *err);
/* Options of ptrace beside those that are always set: PTRACE_O_EXITKILL, PTRACE_O_TRACECLONE. */
int kedge__tracee_options(struct kedge__tracee *x, long more, struct kedge__error *err);
int kedge__target_find_call(struct kedge__target *t, uint64_t vdso, size_t bytes, struct kedge__error *err);

/* ------------------------------------------------------------------ inject.c */

/* One system call of X, at t->call. *RESULT is what the kernel returns: a negative errno is no failure here. */
int kedge__tracee_call(struct kedge__target *t, struct kedge__tracee *x, long number, const uint64_t arguments[6],
		       int64_t *result, struct kedge__error *err);
#define KEDGE__CALL(t, x, result, err, number, ...)                                                                    \
	kedge__tracee_call(t, x, number, (const uint64_t[6]){__VA_ARGS__}, result, err)
/* The same of the leader, where a negative errno is a failure. WHAT is for the message. */
int kedge__target_call(struct kedge__target *t, const char *what, long number, const uint64_t arguments[6], int64_t *result,
		       struct kedge__error *err);
#define KEDGE__LEADER_CALL(t, what, result, err, number, ...)                                                          \
	kedge__target_call(t, what, number, (const uint64_t[6]){__VA_ARGS__}, result, err)
#define KEDGE__PIECES 512
struct kedge__pieces { /* of memory, here and in the target */
	struct iovec local[KEDGE__PIECES], remote[KEDGE__PIECES];
	size_t count;
};
/* All pieces, of which there are none afterwards. What process_vm_readv() and its twin refuse, as memory without rights, goes through the file of memory. */
int kedge__target_move(struct kedge__target *t, struct kedge__pieces *p, bool to_target, struct kedge__error *err);
int kedge__target_read(struct kedge__target *t, uint64_t at, void *data, size_t bytes, struct kedge__error *err);
int kedge__target_write(struct kedge__target *t, uint64_t at, const void *data, size_t bytes, struct kedge__error *err);
/* x->resumed: registers with which the thread begins the call again that it was interrupted in. */
void kedge__tracee_resume_from(struct kedge__target *t, struct kedge__tracee *x);
/* Some calls return EINTR at once when a tracer comes, and would not be begun again: see to that. */
void kedge__registers_mend(struct user_regs_struct *r);
/* Map the scratch, with the frames of all threads, whose XSTATES are given in their order. */
int kedge__scratch_map(struct kedge__target *t, const struct kedge__process_thread *states, struct kedge__error *err);
/* Unmap it: all threads are themselves again. */
int kedge__scratch_unmap(struct kedge__target *t, struct kedge__error *err);
/* At this place of the scratch a call of ours leaves a child that ends at once if nobody holds it. */
uint64_t kedge__scratch_fork_call(const struct kedge__target *t);

/* ------------------------------------------------------------------ state.c */

/* What the threads are, by asking the kernel. */
int kedge__target_threads(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err);
/* What the threads and the process are, by asking the kernel and by injections. All threads are themselves again. */
int kedge__target_state(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err);

/* ------------------------------------------------------------------ mappings.c */

/* kedge__target_find_call() in the vdso that the target has. */
int kedge__target_find_vdso(struct kedge__target *t, struct kedge__error *err);
/*
 * KNOWN: NULL, or an image of which the mappings and files are what they were a while ago, possibly none. What is still the
 * same is taken from there, as the kernel is slow to say it again of a large process. OURS: that
 * memory is watched by a userfaultfd is nothing to refuse.
 */
int kedge__target_mappings(struct kedge__target *t, const struct kedge__process_image *known, bool ours,
			   struct kedge__process_image *image, struct kedge__error *err);
/* The same before the target is stopped, so that KNOWN is up to date. */
int kedge__mappings_refresh(pid_t pid, struct kedge__process_image *known, bool ours, struct kedge__error *err);

/* A child shares it with its parent, or does not get it. */
bool kedge__mapping_is_apart(const struct kedge__process_mapping *m);

/* ------------------------------------------------------------------ pages.c: which pages, and copies of them */

struct kedge__survey {
	struct kedge__range_list set;   /* pages whose contents are kept, */
	struct kedge__range_list known; /* and all that the mirror has here, */
	struct kedge__range_list holes; /* but not there */
	struct kedge__range_list dirty; /* pages that may have been written since they were copied, */
	struct kedge__range_list apart; /* and more of them, which a still would not have */
};

size_t kedge__range_pages(const struct kedge__range_list *list);
/* Each range of A is in one of B, which are ascending, and do not touch each other. */
bool kedge__ranges_within(const struct kedge__range_list *a, const struct kedge__range_list *b);
void kedge__survey_done(struct kedge__survey *s);
/* From now on the mirror has the pages that it should have. */
int kedge__survey_arrange(const struct kedge__survey *s, struct kedge__process_mirror *m, struct kedge__error *err);
/* RUNNING: the target runs; only memory that is tracked counts as dirty. From now on what is dirty counts as copied. */
int kedge__target_survey(struct kedge__target *t, const struct kedge__process_image *image, struct kedge__process_tracker *k,
			 bool running, struct kedge__survey *s, struct kedge__error *err);
/* Pages of WHAT that the mirror has are copied there. MISSED: NULL, or takes those that cannot be read. */
int kedge__target_copy(struct kedge__target *t, struct kedge__process_mirror *m, const struct kedge__range_list *what,
		       struct kedge__range_list *missed, struct kedge__error *err);
/* Copied one after the other to TO, and from there to where the mirror has them. */
int kedge__target_stage(struct kedge__target *t, const struct kedge__range_list *what, uint8_t *to, struct kedge__error *err);
void kedge__mirror_unstage(struct kedge__process_mirror *m, const struct kedge__range_list *what, const uint8_t *from);

/* ------------------------------------------------------------------ tracker.c */

struct kedge__process_tracker {
	pid_t pid; /* whose pages, and since when it exists */
	uint64_t started;
	int userfault; /* protects them; -1: none */
	char *why_not;
	bool all; /* whatever is protected, everything counts as dirty */
	uint64_t least; /* bytes of a mapping that is tracked */
	struct kedge__range_list watched; /* mappings that were, when it stood still the last time */
	struct kedge__process_image known; /* mappings and files, as far as they are */
	bool doubt;                        /* it was not enough: the next time all is asked while the target stands still */
	struct kedge__range_list missed; /* pages that were protected and could not be copied */
	uint8_t *staged;
	size_t staged_room;
	unsigned in_vain; /* captures for which to copy while it ran was of no use; */
	unsigned rest;    /* so many more do without */
};

/* Whether the target is the one that K knows; if not, K starts over. */
void kedge__tracker_follow(struct kedge__process_tracker *k, pid_t pid);
/*
 * If there is much to track that is not, the target, which runs, is stopped for a moment to do so. That this cannot be done is
 * no failure: k->why_not.
 */
int kedge__tracker_begin(struct kedge__process_tracker *k, struct kedge__target *t, struct kedge__error *err);
#define KEDGE__USER_MODE_ONLY 1 /* of userfaultfd(2), since Linux 5.11 */
bool kedge__tracker_set_up(struct kedge__process_tracker *k, int fd); /* FD, a userfaultfd, is its own from now on. False: see errno */
const char *kedge__tracker_probe_kernel(void); /* why pages cannot be tracked, or NULL */
void kedge__tracker_end(struct kedge__process_tracker *k); /* nothing is protected any more */
/*
 * Pages that are written from now on can be told from others, in all mappings where that is of use. The target stands still: a
 * mapping of which only a part were tracked would be two.
 */
int kedge__tracker_watch(struct kedge__process_tracker *k, const struct kedge__process_image *image, struct kedge__error *err);
bool kedge__tracker_watches(const struct kedge__process_tracker *k, const struct kedge__process_mapping *m);
/* Room for BYTES at k->staged, which are there really: nothing is to be waited for while the target stands still. */
int kedge__tracker_room(struct kedge__process_tracker *k, uint64_t bytes, struct kedge__error *err);

/* ------------------------------------------------------------------ rounds.c */

/* Copy while the target runs, round after round, what was written meanwhile. *PAGES: so many. */
int kedge__target_rounds(struct kedge__target *t, struct kedge__process_tracker *k, struct kedge__process_mirror *m, size_t *pages,
			 struct kedge__error *err);

/* ------------------------------------------------------------------ still.c */

/* t->still, a child of this process; 0: the kernel does not want to, and it has to do without. */
int kedge__still_make(struct kedge__target *t, struct kedge__error *err);
void kedge__still_end(struct kedge__target *t);
/* Pages of WHAT, from the still to the mirror. */
int kedge__still_copy(struct kedge__target *t, const struct kedge__process_image *image, struct kedge__process_mirror *m,
		      const struct kedge__range_list *what, struct kedge__error *err);

/* ------------------------------------------------------------------ descriptors.c */

int kedge__target_descriptors(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err);
/* The contents of files that the program may change in place. */
int kedge__target_contents(struct kedge__process_image *image, enum kedge__process_files which,
			   struct kedge__process_contents *out, struct kedge__error *err);

/* ------------------------------------------------------------------ refuse.c */

/* What cannot be captured, of a process that runs. INIT as in struct kedge__process_capture. */
int kedge__target_refuse(pid_t pid, pid_t init, struct kedge__error *err);

/* ------------------------------------------------------------------ stub.c */

struct kedge__stub {
	const struct kedge__process_restart *restart;
	int first;    /* descriptors from here on are those of mapped files, one each; the last is that of the report */
	int go, report; /* pipes: wait for the tracer; what went wrong */
	int *temporary; /* room, one for each descriptor */
	char **words; /* of the command */
};

/* In the new process: everything that does not need the memory of the target. Does not return. */
_Noreturn void kedge__stub_become(const struct kedge__stub *s);
const char *kedge__stub_step(int step); /* what failed */

/* ------------------------------------------------------------------ namespace.c */

struct kedge__spaces {
	pid_t init; /* 0: none are needed */
	int link;
};

int kedge__spaces_open(struct kedge__spaces *s, struct kedge__error *err);
void kedge__spaces_close(struct kedge__spaces *s); /* ends INIT */
/* A child of this process, in the namespaces if there are some, with this id there; 0: any. In the child it returns 0 in *PID. */
int kedge__spaces_fork(const struct kedge__spaces *s, pid_t id, pid_t *pid, struct kedge__error *err);
/* The next thread that is started there gets this id. */
int kedge__spaces_next_id(const struct kedge__spaces *s, pid_t id, struct kedge__error *err);

/* ------------------------------------------------------------------ fill.c */

/* The stub, stopped where it executed its program, becomes the target, and runs. FIRST: as in struct kedge__stub. */
int kedge__stub_fill(const struct kedge__process_restart *r, struct kedge__target *t, const struct kedge__spaces *spaces, int first,
		     struct kedge__error *err);

#endif
