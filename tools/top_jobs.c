/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs of a store, as their journals have them. */
#include "top.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* ------------------------------------------------------------------ reading */

static struct kedge__top_job *job_find(struct kedge__top_store *st, const char *name)
{
	struct kedge__top_job job = {.path = NULL};

	for (size_t i = 0; i < st->jobs.count; i++)
		if (strcmp(st->jobs.at[i].story.name, name) == 0)
			return &st->jobs.at[i];
	kedge__story_init(&job.story, name);
	job.path = kedge__story_path(&st->settings, name);
	if (!kedge__array_push(&st->jobs, job))
		kedge__tool_no_memory();
	return &st->jobs.at[st->jobs.count - 1];
}

static int job_read(void *ctx, const char *name, struct kedge__error *err)
{
	struct kedge__top_store *st = ctx;
	char *path = kedge__story_path(&st->settings, name);
	struct kedge__top_job *job;

	(void)err;
	if (kedge__fs_is_file(path)) {
		job = job_find(st, name);
		kedge__error_done(&job->problem);
		(void)kedge__story_read(&job->story, job->path, &job->problem);
	}
	kedge__free(path);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct kedge__top_job *x = a, *y = b;

	return strcmp(x->story.name, y->story.name);
}

void kedge__top_store_look(struct kedge__top_store *st)
{
	kedge__error_done(&st->problem);
	if (kedge__fs_each(st->settings.l1, job_read, st, &st->problem) == 0 && st->jobs.count)
		qsort(st->jobs.at, st->jobs.count, sizeof(*st->jobs.at), by_name);
}

int kedge__top_store_open(struct kedge__top_store *st, const char *path, struct kedge__error *err)
{
	*st = (struct kedge__top_store){.problem = KEDGE__ERROR_INIT};
	return kedge__tool_settings(path, false, NULL, &st->settings, err);
}

void kedge__top_store_done(struct kedge__top_store *st)
{
	for (size_t i = 0; i < st->jobs.count; i++) {
		kedge__story_done(&st->jobs.at[i].story);
		kedge__free(st->jobs.at[i].path);
		kedge__error_done(&st->jobs.at[i].problem);
	}
	kedge__array_done(&st->jobs);
	kedge__error_done(&st->problem);
	kedge__job_settings_done(&st->settings);
}

/* ------------------------------------------------------------------ what is shown */

struct facts {
	const char *state;
	const json_t *sealed, *l2, *begun; /* the last version that was, that is on L2, of all */
	uint64_t lag;
	double age; /* of SEALED */
};

/* Whoever wrote on this host can be looked for. */
static bool is_gone(const json_t *process)
{
	const char *host = kedge__event_text(process, "host");
	uint64_t pid = kedge__event_uint(process, "pid");
	char here[256] = "";

	(void)gethostname(here, sizeof(here) - 1);
	return host && strcmp(host, here) == 0 && pid > 1 && pid < INT32_MAX && kill((pid_t)pid, 0) != 0 &&
	       errno == ESRCH;
}

static struct facts facts_of(const struct kedge__story *s)
{
	size_t processes = json_array_size(s->processes), n = json_array_size(s->versions);
	const json_t *p = processes ? json_array_get(s->processes, processes - 1) : NULL;
	struct facts f = {.state = "-", .age = -1};

	if (p)
		f.state = kedge__event_text(p, "ended");
	if (p && strcmp(f.state, "open") == 0)
		f.state = is_gone(p) ? "gone" : "running";
	f.begun = n ? json_array_get(s->versions, n - 1) : NULL;
	for (size_t i = n; i-- > 0 && !(f.sealed && f.l2);) {
		const json_t *v = json_array_get(s->versions, i);

		if (json_object_get(v, "sealed") && !f.sealed)
			f.sealed = v;
		if (json_object_get(v, "on_l2"))
			f.l2 = v;
		else if (json_object_get(v, "sealed"))
			f.lag++;
	}
	if (f.sealed)
		f.age = KEDGE__MAX((double)kedge__clock_wall_ns() / 1e9 - kedge__event_real(f.sealed, "sealed"), 0);
	return f;
}

static void version_cell(struct kedge__table *t, const json_t *v)
{
	if (v)
		kedge__table_number(t, kedge__event_uint(v, "version"));
	else
		kedge__table_text(t, "-");
}

static void seconds_cell(struct kedge__table *t, const json_t *o, const char *key)
{
	char text[KEDGE__TEXT_ROOM];

	if (json_object_get(o, key))
		kedge__table_text(t, kedge__text_seconds(kedge__event_real(o, key), text));
	else
		kedge__table_text(t, "-");
}

static void job_row(struct kedge__table *t, const struct kedge__story *s)
{
	struct facts f = facts_of(s);
	json_t *totals = kedge__story_totals(s);
	char text[KEDGE__TEXT_ROOM];

	kedge__table_add(t, "  %s", s->name);
	kedge__table_text(t, f.state);
	version_cell(t, f.sealed);
	kedge__table_text(t, f.age < 0 ? "-" : kedge__text_seconds(f.age, text));
	version_cell(t, f.l2);
	if (f.l2)
		kedge__table_number(t, f.lag);
	else
		kedge__table_text(t, "-");
	seconds_cell(t, f.sealed, "blocked_seconds");
	kedge__table_text(t, f.sealed ? kedge__text_bytes(kedge__event_uint(f.sealed, "stored_bytes"), text) : "-");
	seconds_cell(t, f.begun, "interval_seconds");
	kedge__table_number(t, kedge__event_uint(totals, "failed"));
	kedge__table_number(t, kedge__event_uint(totals, "killed"));
	kedge__table_text(t, kedge__text_seconds(kedge__event_real(totals, "lost_seconds"), text));
	json_decref(totals);
}

void kedge__top_store_text(const struct kedge__top_store *st, FILE *out)
{
	struct kedge__table t;

	kedge__print(out, "store %s", st->settings.l1);
	if (st->problem.code)
		kedge__print(out, "   cannot be read: %s", kedge__error_text(&st->problem));
	else if (!st->jobs.count)
		kedge__print(out, "   no job has a journal here");
	fputc('\n', out);
	if (st->problem.code || !st->jobs.count)
		return;
	kedge__table_init(&t, "llrrrrrrrrrr");
	for (const char *const *h = (const char *const[]){"  JOB", "STATE", "VERSION", "AGE", "ON L2", "LAG", "BLOCKED",
							  "STORED", "INTERVAL", "FAILED", "KILLED", "LOST", NULL};
	     *h; h++)
		kedge__table_text(&t, *h);
	for (size_t i = 0; i < st->jobs.count; i++)
		job_row(&t, &st->jobs.at[i].story);
	kedge__table_print(&t, out);
	for (size_t i = 0; i < st->jobs.count; i++)
		if (st->jobs.at[i].problem.code)
			kedge__print(out, "  %s: %s\n", st->jobs.at[i].story.name,
				     kedge__error_text(&st->jobs.at[i].problem));
}

static json_t *job_json(const struct kedge__top_store *st, const struct kedge__top_job *job)
{
	struct facts f = facts_of(&job->story);
	json_t *o = kedge__json_object();

	kedge__json_text(o, "kind", "job");
	kedge__json_text(o, "store", st->settings.l1);
	kedge__json_text(o, "name", job->story.name);
	kedge__json_text(o, "error", job->problem.code ? kedge__error_text(&job->problem) : NULL);
	kedge__json_text(o, "state", f.state);
	kedge__json_version(o, "version", f.sealed ? kedge__event_version(f.sealed, "version") : KEDGE__NO_VERSION);
	kedge__json_set(o, "age_seconds", f.age < 0 ? json_null() : json_real(f.age));
	kedge__json_version(o, "l2_version", f.l2 ? kedge__event_version(f.l2, "version") : KEDGE__NO_VERSION);
	kedge__json_set(o, "l2_lag_versions", f.l2 ? json_integer((json_int_t)f.lag) : json_null());
	for (const char *const *key =
		 (const char *const[]){"blocked_seconds", "raw_bytes", "stored_bytes", "interval_seconds", NULL};
	     *key; key++) {
		json_t *value = json_object_get(strcmp(*key, "interval_seconds") ? f.sealed : f.begun, *key);

		kedge__json_set(o, *key, value ? json_incref(value) : json_null());
	}
	kedge__json_set(o, "totals", kedge__story_totals(&job->story));
	return o;
}

void kedge__top_store_json(const struct kedge__top_store *st, json_t *all)
{
	json_t *o;

	for (size_t i = 0; i < st->jobs.count; i++)
		kedge__json_add(all, job_json(st, &st->jobs.at[i]));
	if (!st->problem.code)
		return;
	o = kedge__json_object();
	kedge__json_text(o, "kind", "store");
	kedge__json_text(o, "store", st->settings.l1);
	kedge__json_text(o, "error", kedge__error_text(&st->problem));
	kedge__json_add(all, o);
}
