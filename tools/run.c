/* SPDX-License-Identifier: BSD-3-Clause */
/* run: run a job to completion despite failures. */
#include "run_transparent.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define BACKOFF_MOST 60.0
#define NOT_FINISHED 75 /* EX_TEMPFAIL: the same command may succeed later */

static const struct kedge__run_launch *last_launch(const struct kedge__run_loop *r)
{
	return &r->launches.at[r->launches.count - 1];
}

static uint64_t launches_without_progress(const struct kedge__run_loop *r)
{
	uint64_t n = 0;

	for (size_t i = r->launches.count; i > 0 && !r->launches.at[i - 1].progress; i--)
		n++;
	return n;
}

/* Did the run end with the last launch, and how? */
static bool ended(const struct kedge__run_loop *r, enum kedge__run_outcome *outcome)
{
	const struct kedge__run_launch *last = last_launch(r);

	if (r->stop_signal)
		*outcome = KEDGE__RUN_STOPPED;
	else if (last->exec_errno)
		*outcome = KEDGE__RUN_NOT_STARTED;
	else if (last->exit_code == 0 && !last->exiting && !last->bereft && r->ask.stage < KEDGE__RUN_TERMED)
		*outcome = KEDGE__RUN_DONE;
	else if (r->ask.asked || last->exiting)
		*outcome = KEDGE__RUN_REQUESTED;
	else if (r->launches.count > r->retries)
		*outcome = KEDGE__RUN_RETRIES_USED;
	else if (r->patience && launches_without_progress(r) >= r->patience)
		*outcome = KEDGE__RUN_NO_PROGRESS;
	else
		return false;
	return true;
}

static double next_backoff(const struct kedge__run_loop *r)
{
	uint64_t stuck = launches_without_progress(r);
	double seconds = r->backoff;

	/* A command that failed at once will probably do so again: leave more and more time for the cause to go away.
	 */
	for (uint64_t i = 1; i < stuck && seconds < BACKOFF_MOST; i++)
		seconds *= 2;
	return stuck > 1 ? fmin(seconds, fmax(BACKOFF_MOST, r->backoff)) : seconds;
}

static void announce_relaunch(struct kedge__run_loop *r, double wait)
{
	const struct kedge__run_launch *last = last_launch(r);
	char end[KEDGE__TEXT_ROOM], seconds[KEDGE__TEXT_ROOM], version[KEDGE__TEXT_ROOM] = "no new version";
	bool at_once = wait <= 0;

	if (r->quiet)
		return;
	if (last->last_version != KEDGE__NO_VERSION)
		snprintf(version, sizeof(version), "version %llu", (unsigned long long)last->last_version);
	kedge__tool_say(KEDGE__RUN_COMMAND, "launch %d ended: %s, after %s; relaunching %s%s", last->number,
			kedge__run_end_text(last, end), version, at_once ? "at once" : "in ",
			at_once ? "" : kedge__text_seconds(wait, seconds));
}

static int launch_once(struct kedge__run_loop *r, struct kedge__error *err)
{
	struct kedge__run_launch launch = {
	    .number = (int)r->launches.count + 1, .last_version = KEDGE__NO_VERSION, .answer = KEDGE__NO_VERSION};
	char number[32];
	int rc;

	snprintf(number, sizeof(number), "%d", launch.number);
	if (setenv("KEDGE_RUN_ID", r->id, 1) || setenv("KEDGE_RUN_LAUNCH", number, 1) ||
	    setenv("KEDGE_RUN_JOURNAL", r->journal.path, 1) || (r->init && setenv("KEDGE_INIT", "yes", 1)))
		return kedge__error_nomem(err);
	rc = r->transparent ? kedge__run_transparent_launch(r, &launch, err) : kedge__run_launch(r, &launch, err);
	if (rc == 0)
		rc = kedge__run_journal_read(&r->journal, &launch, err);
	/* srun may end with 0 when a node is lost: a job that has not said that it is done is not. */
	launch.bereft =
	    rc == 0 && launch.exit_code == 0 && !launch.exec_errno && !r->journal.closed && kedge__run_nodes_lost(r);
	if (rc == 0 && !kedge__array_push(&r->launches, launch))
		rc = kedge__error_nomem(err);
	return rc;
}

static int supervise(struct kedge__run_loop *r, struct kedge__error *err)
{
	for (;;) {
		bool enough;
		int rc = kedge__run_nodes_choose(r, &enough, err);
		double wait;

		if (!rc && !enough) {
			r->outcome = KEDGE__RUN_TOO_FEW_NODES;
			return 0;
		}
		if (!rc)
			rc = launch_once(r, err);
		if (rc)
			return rc;
		if (ended(r, &r->outcome))
			return 0;
		wait = next_backoff(r);
		announce_relaunch(r, wait);
		kedge__run_pause(r, wait);
		kedge__run_deadline_watch(r, last_launch(r), kedge__clock_seconds());
		if (r->stop_signal || r->ask.asked) {
			r->outcome = r->stop_signal ? KEDGE__RUN_STOPPED : KEDGE__RUN_REQUESTED;
			return 0;
		}
	}
}

int kedge__run_exit_code(const struct kedge__run_loop *r)
{
	if (r->outcome == KEDGE__RUN_TOO_FEW_NODES || r->outcome == KEDGE__RUN_REQUESTED)
		return NOT_FINISHED;
	if (r->outcome == KEDGE__RUN_STOPPED)
		return 128 + r->stop_signal;
	/* A launch that hung, or lost a node, may have ended with 0. */
	return r->outcome != KEDGE__RUN_DONE && last_launch(r)->exit_code == 0 ? KEDGE__EXIT_NO
									       : last_launch(r)->exit_code;
}

static void name_run(struct kedge__run_loop *r)
{
	char host[64];

	if (gethostname(host, sizeof(host)))
		strcpy(host, "localhost");
	host[sizeof(host) - 1] = '\0';
	r->began_ns = kedge__clock_wall_ns();
	snprintf(r->id, sizeof(r->id), "%s-%ld-%llu", host, (long)getpid(),
		 (unsigned long long)(r->began_ns / 1000000));
}

/* All that a run needs before its first launch. 0, or an exit code after a message. */
static int prepare(struct kedge__run_loop *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__run_ask_open(r, &err))
		return kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot create the file for requests");
	kedge__run_signals_init(r);
	if (kedge__run_deadline_open(r, &err))
		return kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot find out when to end");
	if (kedge__run_nodes_open(r, &err))
		return kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot choose nodes");
	return 0;
}

static int run_all(struct kedge__run_loop *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (supervise(r, &err)) {
		kedge__run_transparent_close(r, false);
		return kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot continue");
	}
	kedge__run_transparent_close(r, r->outcome == KEDGE__RUN_DONE);
	r->ended_ns = kedge__clock_wall_ns();
	kedge__run_summary(r);
	if (r->json)
		kedge__run_json(r);
	kedge__run_drain(r);
	kedge__run_again(r);
	return kedge__run_exit_code(r);
}

static int run(struct kedge__run_loop *r, const char *given)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *journal = given ? kedge__strdup(given) : NULL;
	bool more;
	int status;

	name_run(r);
	if (kedge__run_again_open(r, &journal, &more, &err))
		status = kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot continue in another allocation");
	else if (kedge__run_journal_open(&r->journal, journal, more, r->id, &err))
		status = kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot create the journal");
	else
		status = prepare(r);
	if (!status)
		status = run_all(r);
	kedge__run_nodes_close(&r->nodes);
	kedge__run_ask_close(&r->ask);
	kedge__run_journal_close(&r->journal);
	kedge__array_done(&r->launches);
	kedge__free(journal);
	return status;
}

static const char about[] =
    "Runs COMMAND to completion despite failures: if it dies, its remaining processes are killed and it "
    "is\n"
    "launched again, to restart from its newest checkpoint. Before the time of the allocation is over, and "
    "on\n"
    "USR1 or TERM, the job is asked to save its state and to end. Nodes that are down are left out: srun "
    "is\n"
    "told which to use, and {nodes}, {count} and {hostfile} in COMMAND are replaced. Prints a summary; the "
    "exit\n"
    "code is that of the last launch, or 75 if the job was asked to end and is not finished, or if too "
    "few\n"
    "nodes are left.";

static const char examples[] = "kedge run -- mpirun -n 4 ./heat2d --steps 2000\n"
			       "kedge run --retries 100 --json -- ./solver input.nml\n"
			       "kedge run --transparent --interval 600 -- python3 train.py\n"
			       "kedge run --spares 1 --requeue -- srun ./heat2d --steps 2000";

static int check_usage(const struct kedge__run_loop *r, const struct kedge__usage *usage, bool command)
{
	if (!command)
		return kedge__usage_error(usage, "COMMAND is missing");
	if (!(r->backoff >= 0 && r->backoff <= 86400))
		return kedge__usage_error(usage, "--backoff must be a number of seconds from 0 to 86400");
	if (!(r->ask.grace >= 0) || !(r->ask.watchdog >= 0))
		return kedge__usage_error(usage, "--grace and --watchdog must be numbers of seconds, not below 0");
	if (r->again.requeue && r->again.follow_up)
		return kedge__usage_error(usage, "--requeue or --follow-up, not both");
	return 0;
}

static int begin(struct kedge__run_loop *r, struct kedge__run_transparent *t, const struct kedge__usage *usage,
		 const char *journal)
{
	int status;

	if (!kedge__run_transparent_options(t, usage, &status))
		return status;
	if (t->on && kedge__run_refuse_mpi(r->command, usage, &status))
		return status;
	r->transparent = t->on ? t : NULL;
	if (t->check)
		return kedge__run_transparent_check(r);
	return r->again.print ? kedge__run_print_sbatch(r) : run(r, journal);
}

int kedge__tool_run(int argc, char **argv)
{
	struct kedge__run_loop r = {.retries = 10, .patience = 3, .backoff = 1.0, .ask = {.grace = 60.0}};
	struct kedge__run_transparent t = {.init_link = -1};
	const char *journal = NULL;
	const struct kedge__option options[] = {
	    {"retries", 'r', KEDGE__OPTION_UINT, &r.retries, "N", "relaunch at most N times (default 10)"},
	    {"patience", 'p', KEDGE__OPTION_UINT, &r.patience, "N",
	     "give up after N launches in a row without a new version (default 3; 0: never)"},
	    {"backoff", 'b', KEDGE__OPTION_REAL, &r.backoff, "S",
	     "seconds before a relaunch (default 1), doubled for each launch without a new version"},
	    {"journal", 'j', KEDGE__OPTION_TEXT, &journal, "FILE",
	     "keep the journal of events in FILE; if ranks run on several nodes, FILE must be on a shared file system"},
	    {"deadline", 0, KEDGE__OPTION_TEXT, &r.deadline.given, "WHEN",
	     "the allocation ends then: 50min, 2026-01-31T12:30, none (default: what the resource manager says)"},
	    {"lead", 0, KEDGE__OPTION_TEXT, &r.deadline.given_lead, "S",
	     "ask the job S seconds before that to save its state and to end (default auto: by measured costs)"},
	    {"grace", 0, KEDGE__OPTION_REAL, &r.ask.grace, "S",
	     "a job that was asked and is still there S seconds later gets TERM, then KILL (default 60)"},
	    {"watchdog", 0, KEDGE__OPTION_REAL, &r.ask.watchdog, "S",
	     "end and relaunch a job that gives no sign of life for S seconds (default 0: never)"},
	    {"requeue", 0, KEDGE__OPTION_FLAG, &r.again.requeue, NULL,
	     "put the job back into the queue of Slurm if it was asked to end and is not finished"},
	    {"follow-up", 0, KEDGE__OPTION_TEXT, &r.again.follow_up, "SCRIPT",
	     "the same with another job: submit SCRIPT, to run when this job has ended"},
	    {"print-sbatch", 0, KEDGE__OPTION_FLAG, &r.again.print, NULL,
	     "print a job script for COMMAND, and run nothing"},
	    {"spares", 0, KEDGE__OPTION_UINT, &r.nodes.spares, "N",
	     "keep N nodes of the allocation free, to take the place of nodes that go down"},
	    {"min-nodes", 0, KEDGE__OPTION_UINT, &r.nodes.least, "N",
	     "go on with as few as N nodes when no spare is left (default: no fewer than at first)"},
	    {"hosts", 0, KEDGE__OPTION_TEXT, &r.nodes.hosts, "FILE",
	     "the names of the nodes, one a line (default: what Slurm, PBS or LSF say)"},
	    {"check-node", 0, KEDGE__OPTION_TEXT, &r.nodes.check, "COMMAND",
	     "leave out nodes for which this shell command fails, with the name in $KEDGE_NODE"},
	    {"transparent", 't', KEDGE__OPTION_FLAG, &t.on, NULL,
	     "COMMAND knows nothing of checkpoints: capture and restart its process as a whole"},
	    {"interval", 'i', KEDGE__OPTION_TEXT, &t.interval, "S",
	     "with --transparent: seconds between captures, or auto (default: the setting interval)"},
	    {"files", 0, KEDGE__OPTION_TEXT, &t.policy, "WHICH",
	     "with --transparent: keep the contents of open files: none, written (in place; default) or all that are "
	     "open for writing"},
	    {"check", 0, KEDGE__OPTION_FLAG, &t.check, NULL,
	     "with --transparent: start COMMAND, say after a second whether it can be captured, and end it"},
	    {"keep-versions", 0, KEDGE__OPTION_FLAG, &t.keep, NULL,
	     "with --transparent: keep the versions of a program that has ended well"},
	    {"new-ids", 0, KEDGE__OPTION_FLAG, &t.new_ids, NULL,
	     "with --transparent: restart with other ids of process and threads, where these cannot be had"},
	    {"verbose", 'v', KEDGE__OPTION_FLAG, &t.verbose, NULL,
	     "with --transparent: say of each capture how long it took and how it was taken"},
	    KEDGE__OPTION_STORE(&t.store),
	    KEDGE__OPTION_NAME(&t.name),
	    KEDGE__OPTION_SET(&t.sets),
	    {"init", 0, KEDGE__OPTION_FLAG, &r.init, NULL,
	     "let COMMAND create stores in directories that contain other files (the setting init)"},
	    KEDGE__OPTION_QUIET(&r.quiet),
	    KEDGE__OPTION_JSON(&r.json),
	};
	const struct kedge__usage usage = {
	    .command = KEDGE__RUN_COMMAND,
	    .operands = "COMMAND [ARG...]",
	    .about = about,
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = examples,
	    .stop_early = true,
	};
	int first, status;

	if (kedge__options_parse(&usage, argc, argv, &first, &status)) {
		r.command = argv + first;
		status = check_usage(&r, &usage, first < argc);
		if (!status)
			status = begin(&r, &t, &usage, journal);
	}
	kedge__array_done(&t.sets);
	return status;
}
