/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run: what the files of `kedge run` share. run.c has the options and the loop, run_child.c one launch with its signals
 * and its processes, run_ask.c what is wanted of it while it runs, run_deadline.c the end of the allocation, run_nodes.c the nodes that it
 * runs on, run_question.c how the resource manager is asked, run_requeue.c what comes after this allocation, run_drain.c what is left on L1,
 * run_journal.c what the job says of itself, run_report.c the summary.
 */
#ifndef KEDGE_TOOLS_RUN_H
#define KEDGE_TOOLS_RUN_H

#include "tool.h"
#include "tool_journal.h"
#include <signal.h>
#include <sys/types.h>

#define KEDGE__RUN_COMMAND "kedge run"

struct kedge__run_checkpoint {
	uint64_t version, raw_bytes, stored_bytes;
	double blocked_seconds;
	uint64_t published_ns; /* since 1970, as is all that ends in _ns */
	int launch;
};

struct kedge__run_launch {
	int number; /* from 1 */
	uint64_t began_ns, ended_ns;
	int exit_code;  /* as a shell gives it: 128 + signal if it was killed */
	int signal;     /* 0: it exited */
	int exec_errno; /* not 0: the command could not be started */
	bool restarted;
	uint64_t restarted_from, restarted_ns;
	uint64_t saved_ns;     /* when its last version was published; 0: none */
	uint64_t last_version; /* KEDGE__NO_VERSION: none */
	size_t versions;       /* taken in it */
	bool progress;         /* a version above all before */
	uint64_t answer;       /* the version that it took because it was asked to end; KEDGE__NO_VERSION: none */
	char answer_why[KEDGE__REQUEST_WHY];
	bool asks;    /* it calls kedge_should_checkpoint() */
	bool polite;  /* it calls kedge_should_exit() */
	bool exiting; /* that has said yes */
	bool hung;    /* --watchdog: it was ended */
	bool bereft;  /* it lost a node, whatever its exit code says */
};

enum kedge__run_outcome {
	KEDGE__RUN_DONE,
	KEDGE__RUN_STOPPED,     /* by a signal that was passed on */
	KEDGE__RUN_REQUESTED,   /* it was asked to end, and is not finished */
	KEDGE__RUN_NOT_STARTED, /* no such command */
	KEDGE__RUN_NO_PROGRESS,
	KEDGE__RUN_RETRIES_USED,
	KEDGE__RUN_TOO_FEW_NODES,
};

enum kedge__node_state {
	KEDGE__NODE_READY,
	KEDGE__NODE_LEAVING, /* it works, but somebody wants to have it back: taken last */
	KEDGE__NODE_DOWN,    /* for the rest of the run */
};

struct kedge__run_node {
	char *name;
	char why[32]; /* in the resource manager's words */
	enum kedge__node_state state;
	bool used; /* by the coming launch */
	bool said; /* that it is down */
};

struct kedge__run_nodes {
	uint64_t spares, least; /* --spares; --min-nodes, 0: as many as a launch wants */
	const char *hosts, *check; /* --hosts, --check-node */
	char *slurm; /* its list of the nodes, as in n[0-3]; NULL: another resource manager, or none */
	KEDGE__ARRAY(struct kedge__run_node) all; /* empty: nodes are not our business */
	size_t want, left; /* nodes of a launch; of the next one */
	char *list; /* of the coming launch, with commas */
	char *path; /* of the same as a file */
	KEDGE__ARRAY(char *) command, made; /* what is executed; those of its words that are freed here */
};

/* The newest version seen of one job: a command may open several, one after the other. */
struct kedge__run_job {
	char *name, *store; /* STORE is NULL until it is known */
	uint64_t newest;
};

struct kedge__run_journal {
	char *path;
	bool keep;       /* --journal: the user's file */
	struct kedge__journal_reader reader;
	size_t open;     /* jobs that the launch has opened and not closed */
	bool closed;     /* it has closed the last of them */
	KEDGE__ARRAY(struct kedge__run_job) jobs;
	KEDGE__ARRAY(struct kedge__run_checkpoint) checkpoints;
};

/* How far the running launch is on its way to its end. */
enum kedge__run_stage {
	KEDGE__RUN_UNASKED,
	KEDGE__RUN_ASKED,
	KEDGE__RUN_ANSWERED, /* its version is taken */
	KEDGE__RUN_TERMED,
	KEDGE__RUN_KILLED,
};

struct kedge__run_ask {
	double grace, watchdog; /* --grace, --watchdog; 0: there is no such watch */
	char *path;             /* of the request */
	bool asked, by_us;      /* in this run; otherwise by `kedge halt` or a signal to a rank */
	char why[KEDGE__REQUEST_WHY];
	enum kedge__run_stage stage;
	double since, alive; /* when the stage was entered; of the last sign of life, */
	int64_t sign;        /* which is any change of this */
};

struct kedge__run_deadline {
	const char *given, *given_lead; /* --deadline, --lead */
	char *slurm;                    /* the job to ask about; NULL: nobody is asked */
	double end;                     /* of the allocation, on the monotonic clock; negative: unknown */
	double lead, most;              /* negative: automatic; and then no more than this */
	double checkpoint, l2, spacing; /* seconds: what a version costs, its way to L2, and from one to the next */
	bool said, again;               /* that the time is too short, if it is; Slurm was asked again */
};

struct kedge__run_again { /* after an end by request */
	bool requeue, print;   /* --requeue, --print-sbatch */
	const char *follow_up; /* --follow-up */
};

struct kedge__run_question {
	pid_t pid;
	int fd; /* its standard output */
	double deadline;
};

struct kedge__run_transparent; /* run_transparent.h */

struct kedge__run_loop {
	char **command; /* NULL-terminated, argv's */
	char id[128];
	uint64_t retries, patience;
	double backoff;
	bool init, quiet, json;

	struct kedge__run_ask ask;
	struct kedge__run_deadline deadline;
	struct kedge__run_again again;
	struct kedge__run_launch *launch; /* the running one; NULL: none */

	sigset_t watched, inherited; /* signals we wait for; the mask to give back to the command */
	int stop_signal;             /* 0, or the signal with which the user ended it */
	pid_t group;                 /* of the running launch; 0: none */

	struct kedge__run_transparent *transparent; /* NULL: the command takes its own checkpoints */
	struct kedge__run_nodes nodes;
	struct kedge__run_journal journal;
	KEDGE__ARRAY(struct kedge__run_launch) launches;
	enum kedge__run_outcome outcome;
	uint64_t began_ns, ended_ns;
};

/* ------------------------------------------------------------------ run_child.c */

/* Block the signals that kedge__run_launch() waits for, adopt orphans. */
void kedge__run_signals_init(struct kedge__run_loop *r);
/* Start the command, wait for its end while passing signals on, and end what it left behind. Fills all of LAUNCH but
 * what the journal knows. */
int kedge__run_launch(struct kedge__run_loop *r, struct kedge__run_launch *launch, struct kedge__error *err);
/* Wait for a signal until DEADLINE (monotonic) and do what it asks for. False: time is up. */
bool kedge__run_await(struct kedge__run_loop *r, double deadline);
/* The command of LAUNCH has ended with STATUS: end what it left behind. */
void kedge__run_launch_ended(struct kedge__run_loop *r, struct kedge__run_launch *launch, int status);
/* Sleep, but for a signal that stops the run. */
void kedge__run_pause(struct kedge__run_loop *r, double seconds);

/* ------------------------------------------------------------------ run_ask.c */

int kedge__run_ask_open(struct kedge__run_loop *r, struct kedge__error *err);
void kedge__run_ask_close(struct kedge__run_ask *a);
void kedge__run_ask_begin(struct kedge__run_loop *r);            /* a launch */
void kedge__run_ask(struct kedge__run_loop *r, const char *why); /* the job to save its state and to end; once */
void kedge__run_insist(struct kedge__run_loop *r);               /* TERM, if it has not got it */
bool kedge__run_by_hand(const struct kedge__run_loop *r);        /* by `kedge halt`; the run has ended by request */
bool kedge__run_listens(struct kedge__run_loop *r);              /* somebody will see the request */
/* Look after the launch; when to do so again. */
double kedge__run_watch(struct kedge__run_loop *r, struct kedge__run_launch *launch);

/* ------------------------------------------------------------------ run_deadline.c */

int kedge__run_deadline_open(struct kedge__run_loop *r, struct kedge__error *err);
void kedge__run_deadline_watch(struct kedge__run_loop *r, const struct kedge__run_launch *launch, double now);
double kedge__run_lead(const struct kedge__run_loop *r, const struct kedge__run_launch *launch);

/* ------------------------------------------------------------------ run_question.c */

int kedge__run_question_ask(const struct kedge__run_loop *r, char *const argv[], struct kedge__run_question *q, struct kedge__error *err);
/* All that Q prints, and how it ended: its exit code, or -1. *TEXT is NULL where memory ran out. */
int kedge__run_question_answer(struct kedge__run_question *q, char **text);
/* Both, for a command that must succeed. */
int kedge__run_inquire(const struct kedge__run_loop *r, char *const argv[], char **text, struct kedge__error *err);

/* ------------------------------------------------------------------ run_requeue.c */

/* The options fit to where we are; the journal goes on in the next life. */
int kedge__run_again_open(struct kedge__run_loop *r, char **journal, bool *more, struct kedge__error *err);
void kedge__run_again(struct kedge__run_loop *r); /* the last that is done */
int kedge__run_print_sbatch(const struct kedge__run_loop *r);

/* ------------------------------------------------------------------ run_nodes.c */

/* Who is there, if anybody asked, or if the command is srun. */
int kedge__run_nodes_open(struct kedge__run_loop *r, struct kedge__error *err);
void kedge__run_nodes_close(struct kedge__run_nodes *n);
/* Leave out the nodes that are down, take spares, and make the command of the next launch. *ENOUGH: there are
 * --min-nodes. */
int kedge__run_nodes_choose(struct kedge__run_loop *r, bool *enough, struct kedge__error *err);

bool kedge__run_nodes_lost(struct kedge__run_loop *r); /* a node of the last launch is down */

/* ------------------------------------------------------------------ run_drain.c */

void kedge__run_drain(struct kedge__run_loop *r); /* the run has ended, and the job has not */

/* ------------------------------------------------------------------ run_journal.c */

/* The path of a file of this run in $TMPDIR, absolute; kedge__free(), NULL: no memory. */
char *kedge__run_temporary(const char *id, const char *kind);

/* MORE: what is there is of an earlier life of the job, and stays. */
int kedge__run_journal_open(struct kedge__run_journal *j, const char *path, bool more, const char *id, struct kedge__error *err);
bool kedge__run_journal_knows(const struct kedge__run_journal *j); /* a job was opened */
typedef void kedge__run_visit(void *ctx, const char *store, const char *name);
void kedge__run_journal_visit(const struct kedge__run_journal *j, kedge__run_visit *visit, void *ctx); /* all jobs that were opened */
void kedge__run_journal_close(struct kedge__run_journal *j); /* removes the file unless it is kept */
/* What was appended since the last call, into LAUNCH. Lines that make no sense are passed over. */
int kedge__run_journal_read(struct kedge__run_journal *j, struct kedge__run_launch *launch, struct kedge__error *err);

/* ------------------------------------------------------------------ run_report.c */

/* "killed by signal 9 (Killed)", "exit code 3" */
const char *kedge__run_end_text(const struct kedge__run_launch *launch, char buf[KEDGE__TEXT_ROOM]);
int kedge__run_exit_code(const struct kedge__run_loop *r); /* run.c */
/* What the failures cost: from the last version that was kept to the moment the state was back. */
double kedge__run_lost_seconds(const struct kedge__run_loop *r);
void kedge__run_summary(const struct kedge__run_loop *r); /* on standard error */
void kedge__run_json(const struct kedge__run_loop *r);    /* on standard output */

#endif
