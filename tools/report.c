/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge report: what happened to a job, as one page that needs no network. */
#include "tool_story.h"

#include <stdlib.h>

static const unsigned char page[] = {
#include "report_html.inc"
    0};

#define MARK "@STORY@"

struct report {
	struct kedge__usage usage;
	const char *store, *name, *journal, *out;
	struct kedge__text_list sets;
	bool json, quiet;
	struct kedge__job_settings settings;
	char *only, *path;
	struct kedge__story story;
};

/* ------------------------------------------------------------------ which journal */

static int name_note(void *ctx, const char *name, struct kedge__error *err)
{
	struct report *r = ctx;
	char *path = kedge__story_path(&r->settings, name);
	int rc = 0;

	if (kedge__fs_is_file(path) && r->only)
		rc =
		    kedge__error_set(err, KEDGE_E_ARG, 0,
				     "several jobs have a journal, such as %s and %s: name one with -n", r->only, name);
	else if (kedge__fs_is_file(path) && !(r->only = kedge__strdup(name)))
		kedge__tool_no_memory();
	kedge__free(path);
	return rc;
}

/* The only name with a journal, unless one is given. */
static int name_choose(struct report *r, struct kedge__error *err)
{
	int rc;

	if (r->name)
		return 0;
	rc = kedge__fs_each(r->settings.l1, name_note, r, err);
	if (!rc && !r->only)
		rc = kedge__error_set(
		    err, KEDGE_E_NOTFOUND, 0,
		    "no job of %s has a journal: it was taken without one (setting journal), or by an older "
		    "version",
		    r->settings.l1);
	r->name = r->only;
	return rc;
}

static int path_choose(struct report *r, struct kedge__error *err)
{
	int rc = 0;

	if (r->journal)
		r->path = kedge__strdup(r->journal);
	else if (!(rc = name_choose(r, err)))
		r->path = kedge__story_path(&r->settings, r->name);
	if (!rc && !r->path)
		kedge__tool_no_memory();
	if (!rc && !kedge__fs_exists(r->path))
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "there is no journal at %s", r->path);
	return rc;
}

static int story_read(struct report *r, struct kedge__error *err)
{
	int rc = path_choose(r, err);

	if (rc)
		return rc;
	kedge__story_init(&r->story, r->name);
	rc = kedge__story_read(&r->story, r->path, err);
	if (rc || json_array_size(r->story.processes))
		return rc;
	if (r->story.reader.old)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0,
					"%s is the journal of an older version, which has no events", r->path);
	return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s has no events of %s", r->path,
				r->name ? r->name : "any job");
}

static int story_open(struct report *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = KEDGE__EXIT_OK;

	if (kedge__tool_settings(r->store, false, &r->sets, &r->settings, &err))
		return kedge__tool_fail(r->usage.command, &err, "cannot use the settings");
	if (!r->journal && r->settings.journal[0] != '/')
		status = kedge__store_check(&r->usage, r->settings.l1);
	if (!status && story_read(r, &err))
		status = kedge__tool_fail(r->usage.command, &err, "cannot make a report");
	return status;
}

/* ------------------------------------------------------------------ the page */

static json_t *document_make(const struct report *r)
{
	json_t *o = kedge__story_json(&r->story);

	kedge__json_text(o, "kedge", kedge_version_string());
	kedge__json_text(o, "journal", r->path);
	kedge__json_real(o, "made", (double)kedge__clock_wall_ns() / 1e9);
	return o;
}

/* In a script nothing ends it but "</", and "<!--" begins something else: no name may do either. */
static int put(const char *bytes, size_t n, void *ctx)
{
	FILE *out = ctx;

	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == '<')
			fputs("\\u003c", out);
		else
			fputc(bytes[i], out);
	}
	return ferror(out) ? -1 : 0;
}

static int page_write(json_t *o, FILE *out)
{
	const char *text = (const char *)page, *mark = strstr(text, MARK);

	if (fwrite(text, (size_t)(mark - text), 1, out) != 1 ||
	    json_dump_callback(o, put, out, JSON_COMPACT | JSON_REAL_PRECISION(16)) != 0 ||
	    fputs(mark + strlen(MARK), out) == EOF)
		return -1;
	return 0;
}

/* In memory first, and then aside and renamed: a page is whole, or there is none. */
static int page_make(json_t *o, char **text, size_t *bytes)
{
	FILE *out = open_memstream(text, bytes);
	int rc;

	if (!out)
		return -1;
	rc = page_write(o, out);
	return fclose(out) ? -1 : rc;
}

static int deliver(const struct report *r, json_t *o)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *text = NULL, versions[KEDGE__TEXT_ROOM];
	size_t bytes = 0;
	int status = KEDGE__EXIT_OK;

	if (page_make(o, &text, &bytes))
		kedge__tool_no_memory();
	if (strcmp(r->out, "-") == 0)
		(void)fwrite(text, bytes, 1, stdout);
	else if (kedge__fs_replace(r->out, text, bytes, true, &err)) {
		err.code = KEDGE_E_IO; /* nothing of the store is missing */
		status = kedge__tool_fail(r->usage.command, &err, "cannot write the report");
	} else if (!r->quiet)
		kedge__print(stdout, "%s: %s of %s; open it in a browser\n", r->out,
			     kedge__text_count(kedge__event_uint(json_object_get(o, "totals"), "versions"), "version",
					       "versions", versions),
			     r->story.name);
	free(text);
	return status;
}

static int report(struct report *r)
{
	json_t *o;
	int status = story_open(r);

	if (status)
		return status;
	o = document_make(r);
	if (r->json) {
		kedge__json_print(o);
		return KEDGE__EXIT_OK;
	}
	status = deliver(r, o);
	json_decref(o);
	return status;
}

int kedge__tool_report(int argc, char **argv)
{
	struct report r = {.out = "report.html"};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&r.store),
	    KEDGE__OPTION_NAME(&r.name),
	    {"output", 'o', KEDGE__OPTION_TEXT, &r.out, "FILE", "the page (default: report.html); -: standard output"},
	    {"journal", 'j', KEDGE__OPTION_TEXT, &r.journal, "FILE",
	     "the journal, instead of that of NAME in STORE: a copy, or that of 'kedge run --journal'"},
	    KEDGE__OPTION_SET(&r.sets),
	    KEDGE__OPTION_JSON(&r.json),
	    KEDGE__OPTION_QUIET(&r.quiet),
	};
	int first, status;

	r.usage = (struct kedge__usage){
	    .command = "kedge report",
	    .about = "Makes a page of the journal of NAME (kedge-journal(5)): when versions were taken, how long they\n"
		     "blocked the application, how large they are, where regions change, the interval and its\n"
		     "reasons, failures and what they cost. The page is one file and needs no network.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge report -s store -n heat -o heat.html",
	};
	if (kedge__options_parse(&r.usage, argc, argv, &first, &status))
		status = report(&r);
	kedge__story_done(&r.story);
	kedge__job_settings_done(&r.settings);
	kedge__array_done(&r.sets);
	kedge__free(r.only);
	kedge__free(r.path);
	return status;
}
