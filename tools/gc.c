/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge gc: remove old versions, and never what a kept one needs. */
#include "tool.h"

struct gc {
	struct kedge__usage usage;
	struct kedge__place place;
	uint64_t keep;
	bool dry_run, quick, no_rewrite;
	size_t rewritten;
	struct kedge__bar bar;
};

static void print_json(const struct gc *g, const struct kedge__gc_report *r)
{
	json_t *o = kedge__json_object(), *list = kedge__json_array();

	for (size_t i = 0; i < r->removed; i++)
		kedge__json_add(list, json_integer((json_int_t)r->removed_versions[i]));
	kedge__json_text(o, "name", g->place.name);
	kedge__json_bool(o, "dry_run", g->dry_run);
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
	kedge__gc_report_done(more);
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
		rc = kedge__gc_rewrite(g->place.levels[0], options->pool, &how, g->keep, options->trust, &g->rewritten,
				       err);
	kedge__bar_wipe(&g->bar);
	if (rc) { /* ranks with directories of their own, a full disk */
		kedge__tool_say(g->usage.command,
				"note: older versions stay, because those that need them cannot be rewritten: %s",
				kedge__error_text(err));
		kedge__error_done(err);
	}
	if (g->rewritten || rc == 0)
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

static int gc(struct gc *g)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__gc_report report = {0};
	int rc, status = kedge__place_open(&g->place, &g->usage, KEDGE__PLACE_FIRST);

	if (status)
		return status;
	if (g->keep == UINT64_MAX)
		g->keep = (uint64_t)g->place.settings.keep;
	if (g->keep == 0)
		return kedge__usage_error(&g->usage, "how many versions? Give --keep K, or set keep in kedge.conf(5)");
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
	return KEDGE__EXIT_OK;
}

int kedge__tool_gc(int argc, char **argv)
{
	struct gc g = {.keep = UINT64_MAX};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&g.place.store),
	    KEDGE__OPTION_NAME(&g.place.name),
	    {"keep", 'k', KEDGE__OPTION_UINT, &g.keep, "K",
	     "how many of the newest intact versions to keep, at least 1 (default: the setting keep)"},
	    {"dry-run", 0, KEDGE__OPTION_FLAG, &g.dry_run, NULL, "only print what would be removed"},
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
		"Removes all versions of NAME except the newest K intact ones and those with labels, and what crashes "
		"left\n"
		"behind. Kept versions that are stored as changes to older ones are rewritten, so that K are left. "
		"Reads\n"
		"and checks the versions to keep before it removes others. Waits for readers and for a checkpoint in\n"
		"progress; safe while a job is running.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge gc -s store -n job --keep 3",
	};
	if (kedge__options_parse(&g.usage, argc, argv, &first, &status)) {
		if (g.keep == 0)
			status = kedge__usage_error(&g.usage, "--keep 0 would leave nothing to restart from");
		else
			status = gc(&g);
	}
	kedge__place_done(&g.place);
	return status;
}
