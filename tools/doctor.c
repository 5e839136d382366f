/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge doctor: what works on this machine and what does not, why, and what to do about it. */
#include "doctor.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const levels[] = {"ok", "no", "note", "bad"};

void kedge__doctor_add(struct kedge__doctor *d, enum kedge__symptom_level level, const char *subject, const char *todo,
		       const char *fmt, ...)
{
	struct kedge__symptom f = {.level = level, .subject = subject, .todo = todo};
	va_list ap;

	va_start(ap, fmt);
	f.text = kedge__vasprintf(fmt, ap);
	va_end(ap);
	if (!f.text || !kedge__array_push(&d->symptoms, f))
		kedge__tool_no_memory();
}

bool kedge__doctor_command(const char *name)
{
	const char *at = getenv("PATH");
	bool found = false;

	while (at && *at && !found) {
		size_t n = strcspn(at, ":");
		char *path = kedge__asprintf("%.*s/%s", (int)n, at, name);

		found = n && path && access(path, X_OK) == 0;
		kedge__free(path);
		at += n + (at[n] == ':');
	}
	return found;
}

/* ------------------------------------------------------------------ what is printed */

static size_t count_of(const struct kedge__doctor *d, enum kedge__symptom_level level)
{
	size_t n = 0;

	for (size_t i = 0; i < d->symptoms.count; i++)
		n += d->symptoms.at[i].level == level;
	return n;
}

static void print_text(const struct kedge__doctor *d)
{
	char bad[KEDGE__TEXT_ROOM], notes[KEDGE__TEXT_ROOM];

	for (size_t i = 0; i < d->symptoms.count; i++) {
		const struct kedge__symptom *f = &d->symptoms.at[i];

		if (d->quiet && f->level != KEDGE__SYMPTOM_BAD)
			continue;
		kedge__print(stdout, "%-4s  %-18s %s\n", levels[f->level], f->subject, f->text);
		if (f->todo)
			kedge__print(stdout, "%-25s-> %s\n", "", f->todo);
	}
	if (!d->quiet)
		printf("\n%s, %s\n", kedge__text_count(count_of(d, KEDGE__SYMPTOM_BAD), "problem", "problems", bad),
		       kedge__text_count(count_of(d, KEDGE__SYMPTOM_NOTE), "note", "notes", notes));
}

static void print_json(const struct kedge__doctor *d)
{
	json_t *o = kedge__json_object(), *list = kedge__json_array();

	for (size_t i = 0; i < d->symptoms.count; i++) {
		const struct kedge__symptom *f = &d->symptoms.at[i];
		json_t *symptom = kedge__json_object();

		kedge__json_text(symptom, "level", levels[f->level]);
		kedge__json_text(symptom, "subject", f->subject);
		kedge__json_text(symptom, "text", f->text);
		kedge__json_text(symptom, "todo", f->todo);
		kedge__json_add(list, symptom);
	}
	kedge__json_uint(o, "problems", count_of(d, KEDGE__SYMPTOM_BAD));
	kedge__json_uint(o, "notes", count_of(d, KEDGE__SYMPTOM_NOTE));
	kedge__json_set(o, "symptoms", list);
	kedge__json_print(o);
}

/* ------------------------------------------------------------------ looking */

/* As rank 0 of a job has them. STORE is L1; L2 is the configured one even then, because both are looked at. */
static bool settings_load(struct kedge__doctor *d)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__job_sources from = {.call = "--set", .rank = 0};
	const char **overrides = kedge__calloc(d->sets.count + 2, sizeof(*overrides));
	char *path = d->store ? kedge__tool_literal(d->store) : NULL,
	     *l1 = path ? kedge__asprintf("l1=%s", path) : NULL;
	size_t n = 0;
	int rc;

	if (!overrides || (path && !l1))
		kedge__tool_no_memory();
	if (l1)
		overrides[n++] = l1;
	for (size_t i = 0; i < d->sets.count; i++)
		overrides[n++] = d->sets.at[i];
	from.overrides = overrides;
	rc = kedge__job_settings_load(&from, &d->settings, &err);
	if (rc)
		kedge__doctor_add(d, KEDGE__SYMPTOM_BAD, "settings",
				  "correct it; 'kedge info --config' shows every setting and where it is from", "%s",
				  kedge__error_text(&err));
	else
		kedge__doctor_add(d, KEDGE__SYMPTOM_OK, "settings", NULL, "kedge %s, l1 = %s%s%s",
				  kedge_version_string(), d->settings.l1, d->settings.l2[0] ? ", l2 = " : "",
				  d->settings.l2);
	kedge__error_done(&err);
	kedge__free(overrides);
	kedge__free(path);
	kedge__free(l1);
	return rc == 0;
}

static int examine(struct kedge__doctor *d)
{
	bool loaded = settings_load(d);

	kedge__doctor_system(d);
	if (loaded) {
		kedge__doctor_storage(d);
		kedge__doctor_around(d);
		kedge__job_settings_done(&d->settings);
	}
	if (d->json)
		print_json(d);
	else
		print_text(d);
	return count_of(d, KEDGE__SYMPTOM_BAD) ? KEDGE__EXIT_NO : KEDGE__EXIT_OK;
}

int kedge__tool_doctor(int argc, char **argv)
{
	struct kedge__doctor d = {.store = NULL};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&d.store),
	    KEDGE__OPTION_SET(&d.sets),
	    KEDGE__OPTION_JSON(&d.json),
	    {"quiet", 'q', KEDGE__OPTION_FLAG, &d.quiet, NULL, "print problems only"},
	};
	int first, status;

	d.usage = (struct kedge__usage){
	    .command = "kedge doctor",
	    .about = "Looks at what jobs with these settings need on this machine: the kernel and its limits, both\n"
		     "levels (16 MiB are written there for a moment), staging servers, MPI, GPUs and schedulers. What\n"
		     "does not work is shown with the reason, and with what to do. Exit code 1: something that is\n"
		     "needed does not work.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge doctor -s /local/scratch/kedge --set l2=/shared/project/kedge",
	};
	if (kedge__options_parse(&d.usage, argc, argv, &first, &status))
		status = examine(&d);
	for (size_t i = 0; i < d.symptoms.count; i++)
		kedge__free(d.symptoms.at[i].text);
	kedge__array_done(&d.symptoms);
	kedge__array_done(&d.sets);
	return status;
}
