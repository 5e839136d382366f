/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge gc: remove old versions, and never what a kept one needs. */
#include "tool.h"

struct gc {
	struct kedge__usage usage;
	struct kedge__place place;
	const char *wanted; /* as written; NULL: as the settings, or the job, say */
	struct kedge__keep keep;
	bool dry_run, quick, no_rewrite;
	size_t rewritten;
	int status; /* the exit code, if all else works: not 0 if older versions stay for a failure */
	struct kedge__bar bar;
};

/* It goes now, or once those that need it are rewritten. */
static bool goes(const struct gc *g, const struct kedge__gc_report *r, size_t i)
{
	return !r->items[i].why &&
	       (r->needed_by[i] == KEDGE__NO_VERSION || (g->dry_run && !g->no_rewrite && !r->unusable));
}

static const char *why(const struct gc *g, const struct kedge__gc_report *r, size_t i, struct kedge__bytes *text)
{
	char more[80];

	kedge__keep_why(&r->items[i], text);
	if (!text->count)
		kedge__tool_no_memory();
	if (r->needed_by[i] == KEDGE__NO_VERSION)
		return (const char *)text->at;
	snprintf(more, sizeof(more),
		 goes(g, r, i) ? "; version %llu, which needs it, is rewritten" : "; version %llu needs it",
		 (unsigned long long)r->needed_by[i]);
	if (!kedge__array_reserve(text, text->count + sizeof(more)))
		kedge__tool_no_memory();
	memcpy(text->at + text->count, more, strlen(more) + 1);
	return (const char *)text->at;
}

static json_t *items_json(const struct gc *g, const struct kedge__gc_report *r)
{
	json_t *list = kedge__json_array();
	struct kedge__bytes text = {0};

	for (size_t i = 0; i < r->item_count; i++) {
		json_t *o = kedge__json_object();
		char time[KEDGE__TEXT_ROOM];

		kedge__json_uint(o, "version", r->items[i].version);
		kedge__json_text(o, "time", kedge__text_time_iso(r->items[i].time_ns, time));
		kedge__json_bool(o, "stays", !goes(g, r, i));
		kedge__json_text(o, "why", why(g, r, i, &text));
		kedge__json_add(list, o);
	}
	kedge__bytes_done(&text);
	return list;
}

/* Each version, and why it stays or goes. */
static void print_items(const struct gc *g, const struct kedge__gc_report *r)
{
	struct kedge__bytes text = {0};
	struct kedge__table t;

	kedge__table_init(&t, "rlll");
	kedge__table_text(&t, "VERSION");
	kedge__table_text(&t, "TIME");
	kedge__table_text(&t, "");
	kedge__table_text(&t, "WHY");
	for (size_t i = 0; i < r->item_count; i++) {
		char time[KEDGE__TEXT_ROOM];

		kedge__table_number(&t, r->items[i].version);
		kedge__table_text(&t, kedge__text_time(r->items[i].time_ns, time));
		kedge__table_text(&t, goes(g, r, i) ? "goes" : "stays");
		kedge__table_text(&t, why(g, r, i, &text));
	}
	kedge__table_print(&t, stdout);
	kedge__bytes_done(&text);
}

static void print_json(const struct gc *g, const struct kedge__gc_report *r)
{
	json_t *o = kedge__json_object(), *list = kedge__json_array();
	char keep[KEDGE__KEEP_ROOM];

	for (size_t i = 0; i < r->removed; i++)
		kedge__json_add(list, json_integer((json_int_t)r->removed_versions[i]));
	kedge__json_text(o, "name", g->place.name);
	kedge__json_bool(o, "dry_run", g->dry_run);
	kedge__json_text(o, "keep", kedge__keep_text(&g->keep, keep));
	kedge__json_set(o, "versions", items_json(g, r));
	kedge__json_uint(o, "kept", r->kept);
	kedge__json_uint(o, "kept_for_lineage", r->kept_for_lineage);
	kedge__json_uint(o, "unusable", r->unusable);
	kedge__json_bool(o, "quick", g->quick);
	kedge__json_uint(o, "proved", r->proved);
	kedge__json_uint(o, "removed", r->removed);
	kedge__json_set(o, "removed_versions", list);
	kedge__json_uint(o, "rewritten", g->rewritten);
	kedge__json_uint(o, "leftovers", r->leftovers);
	kedge__json_uint(o, "bytes_freed", r->bytes_freed);
	kedge__json_print(o);
}

static void print_text(const struct gc *g, const struct kedge__gc_report *r)
{
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM], c[KEDGE__TEXT_ROOM];

	if (g->dry_run)
		print_items(g, r);
	printf("%s%s removed", g->dry_run ? "dry run: " : "", kedge__text_count(r->removed, "version", "versions", a));
	for (size_t i = 0; i < r->removed; i++)
		printf("%s %llu", i ? "," : ":", (unsigned long long)r->removed_versions[i]);
	printf("; %zu kept", r->kept);
	if (g->rewritten)
		printf(", %zu of them rewritten to need no others", g->rewritten);
	if (r->kept_for_lineage)
		printf(", and %zu more that these need%s", r->kept_for_lineage,
		       g->dry_run && !g->no_rewrite ? ", until these are rewritten" : "");
	printf("; ");
	if (r->leftovers)
		printf("%s of crashes removed; ", kedge__text_count(r->leftovers, "leftover", "leftovers", c));
	printf("%s freed\n", kedge__text_bytes(r->bytes_freed, b));
	if (r->unusable)
		printf("%s damaged or incomplete: left in place, and not counted\n",
		       kedge__text_count(r->unusable, "version is", "versions are", a));
	if (g->quick && r->removed)
		printf("--quick: the versions that were kept have not been read; 'kedge verify' checks them\n");
}

/* What the second pass did comes to what the first did. */
static void report_add(struct kedge__gc_report *sum, struct kedge__gc_report *more)
{
	uint64_t *list = kedge__reallocarray(sum->removed_versions, sum->removed + more->removed + 1, sizeof(*list));

	if (!list)
		kedge__tool_no_memory();
	memcpy(list + sum->removed, more->removed_versions, more->removed * sizeof(*list));
	sum->removed_versions = list;
	sum->removed += more->removed;
	sum->bytes_freed += more->bytes_freed;
	sum->leftovers += more->leftovers;
	sum->proved += more->proved;
	sum->kept = more->kept;
	sum->kept_for_lineage = more->kept_for_lineage;
	sum->unusable = more->unusable;
	kedge__gc_report_done(more); /* why each of them stays or goes was known before */
}

/* Versions that stay only because kept ones refer to them go once those do not. */
static int rewrite(struct gc *g, const struct kedge__gc_options *options, struct kedge__gc_report *report,
		   struct kedge__error *err)
{
	const struct kedge__job_settings *s = &g->place.settings;
	struct kedge__coalesce_options how = {.sync = s->sync,
					      .io = kedge__job_settings_io(s),
					      .block_bytes = (uint32_t)s->block,
					      .progress = kedge__bar_update,
					      .progress_ctx = &g->bar};
	struct kedge__gc_report more = {0};
	int rc = kedge__codec_choice_parse(s->codec, &how.codec, err);

	kedge__bar_label(&g->bar, "rewrite");
	if (!rc)
		rc = kedge__gc_rewrite(g->place.levels[0], options->pool, &how, &g->keep, 0, 0, options->trust,
				       &g->rewritten, err);
	kedge__bar_wipe(&g->bar);
	if (rc) { /* ranks with directories of their own, a full disk */
		kedge__tool_say(g->usage.command,
				"note: older versions stay, because those that need them cannot be rewritten: %s",
				kedge__error_text(err));
		/* From here only what storage refuses is a failure. */
		if (kedge__exit_from_error(rc) == KEDGE__EXIT_IO)
			g->status = KEDGE__EXIT_IO;
		kedge__error_done(err);
	}
	if (rc && !g->rewritten)
		return 0;
	rc = kedge__gc_with(g->place.levels[0], options, &more, err);
	if (!rc)
		report_add(report, &more);
	return rc;
}

static int collect(struct gc *g, struct kedge__gc_report *report, struct kedge__error *err)
{
	struct kedge__gc_options options = {.keep = g->keep,
					    .dry_run = g->dry_run,
					    .quick = g->quick,
					    .trust = kedge__trust_new(),
					    .progress = kedge__bar_update,
					    .progress_ctx = &g->bar};
	int rc = kedge__tool_pool(&g->place.settings, &options.pool, err);

	if (!rc)
		rc = kedge__gc_with(g->place.levels[0], &options, report, err);
	/* What is damaged stays as it is, with all that it refers to. */
	if (!rc && report->kept_for_lineage && !report->unusable && !g->dry_run && !g->no_rewrite)
		rc = rewrite(g, &options, report, err);
	kedge__pool_free(options.pool);
	kedge__trust_free(options.trust);
	return rc;
}

/* What --keep says, or else the settings, or else what the job itself was to keep. */
static int find_keep(struct gc *g)
{
	const struct kedge__set *head = kedge__history_head(g->place.levels, 1);

	if (g->wanted)
		return 0;
	g->keep = kedge__job_settings_keep(&g->place.settings, 0);
	if (kedge__keep_everything(&g->keep) && head && head->keep)
		(void)kedge__keep_parse(head->keep, &g->keep, NULL);
	if (!kedge__keep_everything(&g->keep))
		return 0;
	return kedge__usage_error(&g->usage, "how many versions? Give --keep K, or set keep in kedge.conf(5)");
}

static int gc(struct gc *g)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__gc_report report = {0};
	int rc, status = kedge__place_open(&g->place, &g->usage, KEDGE__PLACE_FIRST);

	if (!status)
		status = find_keep(g);
	if (status)
		return status;
	kedge__tool_interruptible(g->usage.command, "some versions may be gone already; those to keep are whole");
	kedge__bar_init(&g->bar, "check", !g->place.json && !g->place.quiet);
	rc = collect(g, &report, &err);
	kedge__bar_done(&g->bar);
	if (rc) {
		kedge__gc_report_done(&report);
		return kedge__tool_fail(g->usage.command, &err, "cannot remove versions of %s", g->place.name);
	}
	if (g->place.json)
		print_json(g, &report);
	else if (!g->place.quiet)
		print_text(g, &report);
	kedge__gc_report_done(&report);
	return g->status;
}

static int check_keep(struct gc *g)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = 0;

	if (!g->wanted)
		return 0;
	if (kedge__keep_parse(g->wanted, &g->keep, &err) != 0)
		status = kedge__usage_error(&g->usage, "--keep: %s", kedge__error_text(&err));
	else if (kedge__keep_everything(&g->keep))
		status = kedge__usage_error(&g->usage, "--keep 0 would leave nothing to restart from");
	kedge__error_done(&err);
	return status;
}

int kedge__tool_gc(int argc, char **argv)
{
	struct gc g = {.wanted = NULL};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&g.place.store),
	    KEDGE__OPTION_NAME(&g.place.name),
	    {"keep", 'k', KEDGE__OPTION_TEXT, &g.wanted, "K",
	     "how many of the newest intact versions to keep, or which: '2 hourly:24 daily:7', 'bytes:100G'\n"
	     "(default: the setting keep, or that of the job)"},
	    {"dry-run", 0, KEDGE__OPTION_FLAG, &g.dry_run, NULL, "only print which versions would stay or go, and why"},
	    {"quick", 0, KEDGE__OPTION_FLAG, &g.quick, NULL, "do not read the kept versions before removing others"},
	    {"no-rewrite", 0, KEDGE__OPTION_FLAG, &g.no_rewrite, NULL,
	     "leave older versions that kept ones need, instead of rewriting those"},
	    KEDGE__OPTION_SET(&g.place.sets),
	    KEDGE__OPTION_JSON(&g.place.json),
	    KEDGE__OPTION_QUIET(&g.place.quiet),
	};
	int first, status;

	g.usage = (struct kedge__usage){
	    .command = "kedge gc",
	    .about =
		"Removes all versions of NAME except the intact ones that K asks for and those with labels, and what "
		"crashes "
		"left\n"
		"behind. Kept versions that are stored as changes to older ones are rewritten, so that no others are "
		"left. "
		"Reads\n"
		"and checks the versions to keep before it removes others. Waits for readers and for a checkpoint in\n"
		"progress; safe while a job is running.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge gc -s store -n job --keep 3",
	};
	if (kedge__options_parse(&g.usage, argc, argv, &first, &status)) {
		status = check_keep(&g);
		if (!status)
			status = gc(&g);
	}
	kedge__place_done(&g.place);
	return status;
}
