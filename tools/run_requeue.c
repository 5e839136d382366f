/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run_requeue: what comes after an allocation in which the job was not finished: the same job again (scontrol requeue),
 * or one that follows it (sbatch); and the script of such a job.
 */
#include "run.h"
#include <stdlib.h>

/* ------------------------------------------------------------------ from one life to the next */

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* The number of the first job of a series that follow each other; NULL: this is not a job of Slurm. */
static const char *first_job(void)
{
	return variable("KEDGE_RUN_FIRST") ? variable("KEDGE_RUN_FIRST") : variable("SLURM_JOB_ID");
}

static bool is_later_life(void)
{
	const char *count = variable("SLURM_RESTART_COUNT"), *first = variable("KEDGE_RUN_FIRST");

	if (count && strcmp(count, "0") != 0)
		return true;
	return first && variable("SLURM_JOB_ID") && strcmp(first, variable("SLURM_JOB_ID")) != 0;
}

int kedge__run_again_open(struct kedge__run_loop *r, char **journal, bool *more, struct kedge__error *err)
{
	struct kedge__run_again *a = &r->again;

	*more = is_later_life();
	if (!a->requeue && !a->follow_up)
		return 0;
	if (!variable("SLURM_JOB_ID"))
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"%s needs a job of Slurm, and SLURM_JOB_ID is not set: start this with sbatch",
					a->requeue ? "--requeue" : "--follow-up");
	if (*journal)
		return 0;
	*journal = kedge__asprintf("kedge-run-%s.journal", first_job());
	return *journal ? 0 : kedge__error_nomem(err);
}

/* ------------------------------------------------------------------ once more */

static bool took_versions(const struct kedge__run_loop *r)
{
	for (size_t i = 0; i < r->launches.count; i++) {
		if (r->launches.at[i].progress)
			return true;
	}
	return false;
}

/* Who cancels a job does not want it back; Slurm says so of a job that still runs for a moment. */
static bool is_cancelled(const struct kedge__run_loop *r, char *id)
{
	char *argv[] = {"scontrol", "show", "job", "-o", id, NULL}, *text;
	bool is;

	if (kedge__run_inquire(r, argv, &text, NULL))
		return false;
	is = strstr(text, "JobState=CANCELLED") || strstr(text, "JobState=COMPLETING");
	kedge__free(text);
	return is;
}

static int follow(const struct kedge__run_loop *r, const char *id, char **text, struct kedge__error *err)
{
	char *after = kedge__asprintf("--dependency=afterany:%s", id);
	char *first = kedge__asprintf("--export=ALL,KEDGE_RUN_FIRST=%s", first_job());
	char *argv[] = {"sbatch", "--parsable", after, first, (char *)r->again.follow_up, NULL};
	int rc = after && first ? kedge__run_inquire(r, argv, text, err) : kedge__error_nomem(err);

	kedge__free(after);
	kedge__free(first);
	return rc;
}

static int again(const struct kedge__run_loop *r, char *id, char **text, struct kedge__error *err)
{
	char *argv[] = {"scontrol", "requeue", id, NULL};

	return r->again.requeue ? kedge__run_inquire(r, argv, text, err) : follow(r, id, text, err);
}

void kedge__run_again(struct kedge__run_loop *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *id = getenv("SLURM_JOB_ID"), *text = NULL;
	const char *reason = NULL;

	if (r->outcome != KEDGE__RUN_REQUESTED || (!r->again.requeue && !r->again.follow_up))
		return;
	if (kedge__run_by_hand(r))
		reason = "somebody asked for its end";
	else if (!took_versions(r))
		reason = "it took no new version this time, and would do no better the next";
	else if (is_cancelled(r, id))
		reason = "it was cancelled";
	if (reason) {
		kedge__tool_say(KEDGE__RUN_COMMAND, "job %s does not go back to the queue: %s", id, reason);
		return;
	}
	if (!r->quiet)
		kedge__tool_say(KEDGE__RUN_COMMAND,
				r->again.requeue ? "job %s goes back to the queue" : "job %s is followed by another",
				id);
	if (again(r, id, &text, &err))
		kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot continue job %s in another allocation", id);
	kedge__free(text);
}

/* ------------------------------------------------------------------ a script */

static void print_word(const char *word)
{
	if (*word &&
	    !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=,:@%+-{}")]) {
		printf(" %s", word);
		return;
	}
	printf(" '");
	for (; *word; word++) {
		if (*word == '\'')
			printf("'\\''");
		else
			putchar(*word);
	}
	printf("'");
}

int kedge__run_print_sbatch(const struct kedge__run_loop *r)
{
	printf("#!/bin/sh\n"
	       "# A job that goes on from allocation to allocation until it is finished. Submit it once, with sbatch.\n"
	       "#SBATCH --time=01:00:00         # of one allocation: kedge run asks the job in time to save its state "
	       "and to end\n"
	       "#SBATCH --requeue               # it may go back to the queue, which kedge run --requeue makes it do\n"
	       "#SBATCH --open-mode=append      # the output of all allocations in one file\n"
	       "#SBATCH --nodes=%llu\n",
	       (unsigned long long)(1 + r->nodes.spares));
	if (r->nodes.spares)
		printf("#SBATCH --no-kill               # goes on without nodes that go down; %llu of them spare\n",
		       (unsigned long long)r->nodes.spares);
	printf(
	    "\n"
	    "# L1 is fast and may be on each node; L2 must be seen by all nodes, and by those of the next allocation.\n"
	    "export KEDGE_L1=kedge-store\n"
	    "#export KEDGE_L1=/local/scratch/$USER/kedge-store KEDGE_L2=$PWD/kedge-store\n"
	    "\n"
	    "# Neither --signal nor a trap is needed. kedge run ends with 0 when the job is finished, and with 75 when "
	    "it is not.\n"
	    "exec kedge run --requeue");
	if (r->nodes.spares)
		printf(" --spares %llu", (unsigned long long)r->nodes.spares);
	printf(" --");
	for (char **word = r->command; *word; word++)
		print_word(*word);
	printf("\n");
	return 0;
}
