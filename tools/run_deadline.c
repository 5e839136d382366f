/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run_deadline: when the time of the allocation is over, and how long before that a job has to be asked to end. Slurm
 * is asked, and asked again when the time has come, because it may have been changed; others say it in the environment,
 * or the user does.
 */
#include "plan/plan.h"
#include "run.h"
#include <stdlib.h>
#include <time.h>

#define LEAD_LEAST   10.0 /* on top of what is measured: ranks speak to each other every 5 seconds at least */
#define LEAD_UNKNOWN 60.0 /* while nothing is measured */
#define SAFETY       2.0  /* times what was measured */
#define AGAIN_SECONDS                                                                                                  \
	40.0 /* before the job is asked, the resource manager is asked whether the end is still the same */

/* ------------------------------------------------------------------ when */

/* 2026-11-16T12:30:00, local time, as Slurm writes it; seconds since 1970, or -1. */
static double parse_time(const char *text)
{
	struct tm tm = {.tm_isdst = -1};
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (!end)
		end = strptime(text, "%Y-%m-%dT%H:%M", &tm);
	return end && (!*end || *end == ' ') ? (double)mktime(&tm) : -1;
}

static double wall(void)
{
	return (double)kedge__clock_wall_ns() / 1e9;
}

/* A time of the wall as one of the monotonic clock. */
static double monotonic(double at)
{
	return kedge__clock_seconds() + (at - wall());
}

/* The end that Slurm has for job ID; negative: none, or it does not say. */
static int ask_slurm(const struct kedge__run_loop *r, char *id, double *end, struct kedge__error *err)
{
	char *argv[] = {"scontrol", "show", "job", "-o", id, NULL}, *text, *at;
	int rc = kedge__run_inquire(r, argv, &text, err);

	if (rc)
		return rc;
	at = strstr(text, " EndTime=");
	*end = at ? parse_time(at + strlen(" EndTime=")) : -1;
	if (*end >= 0)
		*end = monotonic(*end);
	kedge__free(text);
	return 0;
}

static bool whole_number(const char *text, double *out)
{
	char *end;

	*out = text && *text ? strtod(text, &end) : -1;
	return *out > 0 && !*end;
}

/* Slurm from 23.02 on says when, Torque how many seconds a job has. */
static bool environment_says(double *end)
{
	double value;

	if (whole_number(getenv("SLURM_JOB_END_TIME"), &value))
		*end = monotonic(value);
	else if (whole_number(getenv("PBS_WALLTIME"), &value))
		*end = kedge__clock_seconds() + value;
	else
		return false;
	return true;
}

static int find_end(struct kedge__run_loop *r, struct kedge__error *err)
{
	struct kedge__run_deadline *d = &r->deadline;
	double value;

	d->end = -1;
	if (d->given && strcmp(d->given, "none") == 0)
		return 0;
	if (d->given && strchr(d->given, 'T')) {
		value = parse_time(d->given);
		if (value < 0)
			return kedge__error_set(err, KEDGE_E_ARG, 0,
						"--deadline %s: must be a duration, as in 50min, a local time, as in "
						"2026-01-31T12:30, or none",
						d->given);
		d->end = monotonic(value);
		return 0;
	}
	if (d->given) {
		if (kedge__quantity_parse(KEDGE__QUANTITY_SECONDS, d->given, &value, err))
			return kedge__error_prefix(err, "--deadline");
		d->end = kedge__clock_seconds() + value;
		return 0;
	}
	if (environment_says(&d->end))
		return 0;
	d->slurm = getenv("SLURM_JOB_ID");
	if (!d->slurm || !ask_slurm(r, d->slurm, &d->end, err))
		return 0;
	kedge__tool_say(KEDGE__RUN_COMMAND, "the end of the allocation is not known, give it with --deadline: %s",
			kedge__error_text(err));
	kedge__error_done(err);
	return 0;
}

int kedge__run_deadline_open(struct kedge__run_loop *r, struct kedge__error *err)
{
	struct kedge__run_deadline *d = &r->deadline;
	int rc = 0;

	d->lead = -1;
	if (d->given_lead && strcmp(d->given_lead, "auto") != 0) {
		rc = kedge__quantity_parse(KEDGE__QUANTITY_SECONDS, d->given_lead, &d->lead, err);
		if (rc)
			kedge__error_prefix(err, "--lead");
	}
	if (!rc)
		rc = find_end(r, err);
	if (!rc && d->end >= 0)
		d->most = KEDGE__MAX(d->end - kedge__clock_seconds(), 0) / 2;
	return rc;
}

/* ------------------------------------------------------------------ how long before */

/* What the last versions of the job have cost, as far as its store says; this host may not see it. */
static void learn_costs(void *ctx, const char *store, const char *name)
{
	struct kedge__run_deadline *d = ctx;
	struct kedge__l2_costs costs;
	struct kedge__catalog *cat;

	if (kedge__catalog_open(store, name, KEDGE__CATALOG_READ, &cat, NULL))
		return;
	if (kedge__catalog_scan(cat, NULL) == 0) {
		size_t count = kedge__catalog_count(cat);

		for (size_t i = count > 3 ? count - 3 : 0; i < count; i++) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);

			if (!e->problem.code)
				d->checkpoint = KEDGE__MAX(d->checkpoint, e->set.seconds);
		}
	}
	kedge__catalog_close(cat);
	if (kedge__adapt_costs(store, name, &costs))
		d->l2 = KEDGE__MAX(d->l2, KEDGE__MAX(costs.full, costs.delta));
}

/* Of this run: what is measured now counts more than what the store remembers. */
static void measure(struct kedge__run_loop *r, const struct kedge__run_launch *launch)
{
	struct kedge__run_deadline *d = &r->deadline;
	size_t count = r->journal.checkpoints.count;

	if (count)
		d->checkpoint = KEDGE__MAX(d->checkpoint, r->journal.checkpoints.at[count - 1].blocked_seconds);
	if (launch->versions > 1) {
		const struct kedge__run_checkpoint *last = &r->journal.checkpoints.at[count - 1];

		d->spacing = last->published_ns > last[-1].published_ns
				 ? (double)(last->published_ns - last[-1].published_ns) / 1e9
				 : 0;
	}
}

double kedge__run_lead(const struct kedge__run_loop *r, const struct kedge__run_launch *launch)
{
	const struct kedge__run_deadline *d = &r->deadline;
	double lead;

	if (d->lead >= 0)
		return d->lead;
	lead = d->checkpoint > 0 ? LEAD_LEAST + SAFETY * (d->checkpoint + d->l2) : LEAD_UNKNOWN;
	/* A program that decides by itself when to save must come to its next checkpoint. */
	if (!launch->asks)
		lead += d->spacing;
	return KEDGE__MIN(lead, d->most);
}

/* A job whose state is not saved by the end gains nothing: better said before hours are spent. */
static void warn(struct kedge__run_loop *r, double left)
{
	struct kedge__run_deadline *d = &r->deadline;
	char time[KEDGE__TEXT_ROOM], cost[KEDGE__TEXT_ROOM];

	d->said = true;
	if (left < d->checkpoint + d->l2)
		kedge__tool_say(KEDGE__RUN_COMMAND,
				"the allocation ends in %s, and a version with its way to L2 took %s before: this time "
				"is too short for the job to be saved",
				kedge__text_seconds(left, time), kedge__text_seconds(d->checkpoint + d->l2, cost));
}

/* ------------------------------------------------------------------ while a launch runs */

/* The time may have been changed, and Slurm may take its time to say so. */
static void ask_again(struct kedge__run_loop *r)
{
	struct kedge__run_deadline *d = &r->deadline;
	double end = d->end;

	d->again = true;
	if (ask_slurm(r, d->slurm, &end, NULL))
		return;
	d->again = end <= d->end + 1;
	d->end = end;
}

void kedge__run_deadline_watch(struct kedge__run_loop *r, const struct kedge__run_launch *launch, double now)
{
	struct kedge__run_deadline *d = &r->deadline;
	char text[KEDGE__TEXT_ROOM], why[128];

	if (d->end < 0)
		return;
	if (!d->said && kedge__run_journal_knows(&r->journal)) {
		kedge__run_journal_visit(&r->journal, learn_costs, d);
		warn(r, d->end - now);
	}
	if (r->ask.asked)
		return;
	measure(r, launch);
	if (d->slurm && !d->again && now >= d->end - kedge__run_lead(r, launch) - AGAIN_SECONDS)
		ask_again(r);
	if (d->end < 0 || now < d->end - kedge__run_lead(r, launch))
		return;
	snprintf(why, sizeof(why), "the allocation ends in %s", kedge__text_seconds(KEDGE__MAX(d->end - now, 0), text));
	kedge__run_ask(r, why);
}
