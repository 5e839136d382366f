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
	pid_t created;                              /* the thread that the last call has started */
	bool ended;
	int status;
};

#define KEDGE__ARGUMENTS_BYTES ((size_t)4096)

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
int kedge__tracee_kill_with_us(struct kedge__tracee *x, bool on, struct kedge__error *err);
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

/* ------------------------------------------------------------------ state.c */

/* What the threads and the process are, by asking the kernel and by injections. All threads are themselves again. */
int kedge__target_state(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err);

/* ------------------------------------------------------------------ mappings.c */

int kedge__target_mappings(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err);
/* The pages whose contents are kept, ascending. */
int kedge__target_pages(struct kedge__target *t, const struct kedge__process_image *image, struct kedge__range_list *runs,
			struct kedge__error *err);
int kedge__target_copy(struct kedge__target *t, struct kedge__process_mirror *m, struct kedge__error *err);

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
