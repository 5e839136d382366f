/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run_ask: what happens to a launch while it runs. It is asked to save its state and to end, by a file that the library
 * looks for (src/store/request.c): because of a signal, or because the time of the allocation is nearly over; `kedge
 * halt` asks it directly. If it does not end, it gets TERM, and then KILL. If it shows no sign of life for long enough,
 * it is ended in the same way, and launched again.
 */
#include "run.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define TICK           0.5  /* seconds between two looks at a launch of which nothing is wanted */
#define TICK_ASKED     0.1  /* the same, while it is to end */
#define SILENT_SECONDS 2.0  /* a program that never calls kedge_should_exit() is ended so long after its version */
#define KILL_SECONDS   10.0 /* from TERM to KILL, or the grace, if that is shorter */

/* ------------------------------------------------------------------ the request */

int kedge__run_ask_open(struct kedge__run_loop *r, struct kedge__error *err)
{
	struct kedge__run_ask *a = &r->ask;
	int fd, rc;

	/* Who sees the journal sees this: beside it, if the user said where that is. */
	a->path =
	    r->journal.keep ? kedge__asprintf("%s.request", r->journal.path) : kedge__run_temporary(r->id, "request");
	if (!a->path)
		return kedge__error_nomem(err);
	rc = kedge__fs_unlink(a->path, err);
	if (!rc)
		rc = kedge__fs_create(a->path, &fd, err);
	if (rc)
		return rc;
	kedge__fs_close(fd);
	return setenv("KEDGE_RUN_REQUEST", a->path, 1) || (a->watchdog > 0 && setenv("KEDGE_RUN_WATCHDOG", "yes", 1))
		   ? kedge__error_nomem(err)
		   : 0;
}

void kedge__run_ask_close(struct kedge__run_ask *a)
{
	if (a->path)
		kedge__fs_unlink(a->path, NULL);
	kedge__free(a->path);
}

static void stage_set(struct kedge__run_ask *a, enum kedge__run_stage stage)
{
	a->stage = stage;
	a->since = kedge__clock_seconds();
}

void kedge__run_ask(struct kedge__run_loop *r, const char *why)
{
	struct kedge__request request = {.kind = KEDGE__REQUEST_EXIT, .ns = kedge__clock_wall_ns()};
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (r->ask.asked)
		return;
	snprintf(request.why, sizeof(request.why), "%s", why);
	snprintf(r->ask.why, sizeof(r->ask.why), "%s", why);
	r->ask.asked = r->ask.by_us = true;
	if (r->ask.stage == KEDGE__RUN_UNASKED)
		stage_set(&r->ask, KEDGE__RUN_ASKED);
	if (!r->quiet)
		kedge__tool_say(KEDGE__RUN_COMMAND, "asking the job to save its state and to end: %s", why);
	if (kedge__request_write(r->ask.path, &request, &err))
		kedge__tool_fail(KEDGE__RUN_COMMAND, &err, "cannot ask the job");
}

bool kedge__run_listens(struct kedge__run_loop *r)
{
	if (!r->group)
		return kedge__run_journal_knows(&r->journal);
	if (r->launch)
		(void)kedge__run_journal_read(&r->journal, r->launch, NULL);
	return r->journal.open > 0;
}

/* ------------------------------------------------------------------ its end */

static void end_launch(struct kedge__run_loop *r, int sig)
{
	if (r->group > 0)
		kill(-r->group, sig);
	stage_set(&r->ask, sig == SIGKILL ? KEDGE__RUN_KILLED : KEDGE__RUN_TERMED);
}

void kedge__run_insist(struct kedge__run_loop *r)
{
	if (r->ask.stage < KEDGE__RUN_TERMED)
		end_launch(r, SIGTERM);
}

/* Somebody else has asked, or the answer is there. */
static void note_answer(struct kedge__run_loop *r, const struct kedge__run_launch *launch)
{
	struct kedge__run_ask *a = &r->ask;

	if (launch->answer == KEDGE__NO_VERSION || a->stage > KEDGE__RUN_ASKED)
		return;
	if (!a->asked) {
		a->asked = true;
		snprintf(a->why, sizeof(a->why), "%s", launch->answer_why);
	}
	stage_set(a, KEDGE__RUN_ANSWERED);
}

static void late(struct kedge__run_loop *r, const char *what)
{
	if (!r->quiet)
		kedge__tool_say(KEDGE__RUN_COMMAND, "%s: sending %s", what,
				r->ask.stage < KEDGE__RUN_TERMED ? "TERM" : "KILL");
	end_launch(r, r->ask.stage < KEDGE__RUN_TERMED ? SIGTERM : SIGKILL);
}

static void proceed(struct kedge__run_loop *r, const struct kedge__run_launch *launch, double now)
{
	double waited = now - r->ask.since;

	note_answer(r, launch);
	switch (r->ask.stage) {
	case KEDGE__RUN_ASKED:
		if (waited >= r->ask.grace)
			late(r, "the job has taken no version in time");
		break;
	case KEDGE__RUN_ANSWERED:
		if (!launch->polite && !launch->exiting && waited >= SILENT_SECONDS)
			kedge__run_insist(r); /* it is saved, and does not know that it should end */
		else if (waited >= r->ask.grace)
			late(r, "the job is saved, but does not end");
		break;
	case KEDGE__RUN_TERMED:
		if (waited >= KEDGE__MIN(r->ask.grace, KILL_SECONDS))
			late(r, "the job does not end");
		break;
	default:
		break;
	}
}

/* A signal to a rank is the resource manager's, and not somebody's wish to have no more of the job. */
bool kedge__run_by_hand(const struct kedge__run_loop *r)
{
	const struct kedge__run_launch *last = r->launches.count ? &r->launches.at[r->launches.count - 1] : NULL;

	return !r->ask.by_us && last && strncmp(last->answer_why, "signal ", strlen("signal ")) != 0;
}

/* ------------------------------------------------------------------ signs of life */

static void watch_life(struct kedge__run_loop *r, struct kedge__run_launch *launch, double now)
{
	struct kedge__run_ask *a = &r->ask;
	struct stat st;
	int64_t sign = (int64_t)r->journal.reader.offset;
	char seconds[KEDGE__TEXT_ROOM], text[128];

	if (!(a->watchdog > 0) || a->stage != KEDGE__RUN_UNASKED)
		return;
	if (stat(a->path, &st) == 0)
		sign += (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	if (sign != a->sign) {
		a->sign = sign;
		a->alive = now;
	}
	if (now - a->alive < a->watchdog)
		return;
	launch->hung = true;
	snprintf(text, sizeof(text), "no sign of life for %s", kedge__text_seconds(now - a->alive, seconds));
	late(r, text);
}

void kedge__run_ask_begin(struct kedge__run_loop *r)
{
	stage_set(&r->ask, KEDGE__RUN_UNASKED);
	r->ask.alive = r->ask.since;
	r->journal.open = 0;
	r->journal.closed = false;
}

double kedge__run_watch(struct kedge__run_loop *r, struct kedge__run_launch *launch)
{
	double now = kedge__clock_seconds();

	/* What cannot be read now is read, or complained about, when the launch has ended. */
	(void)kedge__run_journal_read(&r->journal, launch, NULL);
	kedge__run_deadline_watch(r, launch, now);
	proceed(r, launch, now);
	watch_life(r, launch, now);
	return now + (r->ask.stage == KEDGE__RUN_UNASKED ? TICK : TICK_ASKED);
}
