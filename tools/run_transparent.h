/* SPDX-License-Identifier: BSD-3-Clause */
/* run_transparent: `kedge run --transparent`, of a program that knows nothing of checkpoints. run_image.c has its versions. */
#ifndef KEDGE_TOOLS_RUN_TRANSPARENT_H
#define KEDGE_TOOLS_RUN_TRANSPARENT_H

#include "process/process.h"
#include "run.h"

struct kedge__run_transparent {
	/* options */
	bool on, check, keep, new_ids, verbose;
	const char *store, *name, *interval, *policy;
	struct kedge__text_list sets;
	enum kedge__process_files files;

	char *own_name, *marker; /* the file that says which process runs */
	kedge_t *k;
	struct kedge__process_mirror mirror;
	struct kedge__process_tracker *tracker; /* NULL: not yet, or no memory for it */
	bool why_said; /* why pages are not tracked */
	struct kedge__process_image image;
	struct kedge__process_contents contents;
	uint8_t *record; /* the region `process` */
	size_t record_bytes;
	double stopped; /* seconds that the program stood still for it */

	pid_t pid, init; /* the program; 0, or the first process of its namespaces */
	int init_link;
	bool ended; /* seen by a capture */
	int status;
	char how[KEDGE_NOTE_MAX + 1]; /* the last capture was taken */
	double again; /* when to try again after a refusal */
	unsigned refusals;
	char *refused; /* the last reason that was said */
};

/* ------------------------------------------------------------------ run_image.c */

int kedge__run_image_open(struct kedge__run_transparent *t, const char *command, bool init, struct kedge__error *err);
/* FINISHED: the program has ended well, and needs its versions no more. */
int kedge__run_image_close(struct kedge__run_transparent *t, bool finished, struct kedge__error *err);
/* Capture the running program and save it. KEDGE_E_STATE: it cannot be captured now, or has ended. */
int kedge__run_image_take(struct kedge__run_transparent *t, char *const *command, struct kedge__error *err);
/* The program as it was in the newest version that is intact. *VERSION: KEDGE__NO_VERSION if there is none. */
int kedge__run_image_restart(struct kedge__run_transparent *t, char *const *command, uint64_t *version, struct kedge__error *err);
/* How the capture C was taken, in words. */
void kedge__run_image_how(const struct kedge__process_capture *c, char *out, size_t room);
void kedge__run_mark(struct kedge__run_transparent *t); /* which process runs */

/* ------------------------------------------------------------------ run_mpi.c */

/* True after a message, with the exit code, if it is an MPI program, or one that starts them. */
bool kedge__run_refuse_mpi(char *const *command, const struct kedge__usage *usage, int *status);

/* ------------------------------------------------------------------ run_transparent.c */

/* Are they right? False after a message, with the exit code. */
bool kedge__run_transparent_options(struct kedge__run_transparent *t, const struct kedge__usage *usage, int *status);
int kedge__run_transparent_launch(struct kedge__run_loop *r, struct kedge__run_launch *launch, struct kedge__error *err);
void kedge__run_transparent_close(struct kedge__run_loop *r, bool finished); /* nothing if the run is another one */
/* Pipes and sockets that this process happens to have, as those of make, are no business of the program, which could not be
 * captured with them: they are closed where it is executed. */
void kedge__run_drop_strangers(void);
void kedge__run_spaces_end(struct kedge__run_transparent *t); /* the namespaces of a program that has ended, if it has some */
int kedge__run_transparent_check(struct kedge__run_loop *r); /* --check; an exit code */

#endif
