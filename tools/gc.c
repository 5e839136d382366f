/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge gc: remove old versions, and never what a kept one needs. */
#include "tool.h"

struct gc {
	struct kedge__usage usage;
	struct kedge__place place;
	uint64_t keep;
	bool dry_run, quick;
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
	printf("; %zu kept, and %zu more that these need; %s of crashes removed; %s freed\n", r->kept,
	       r->kept_for_lineage, kedge__text_count(r->leftovers, "leftover", "leftovers", c),
	       kedge__text_bytes(r->bytes_freed, b));
	if (r->unusable)
		printf("%s damaged or incomplete: left in place, and not counted\n",
		       kedge__text_count(r->unusable, "version is", "versions are", a));
	if (g->quick && r->removed)
		printf("--quick: the versions that were kept have not been read; 'kedge verify' checks them\n");
}

static int gc(struct gc *g)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__gc_options options = {.keep = g->keep, .dry_run = g->dry_run, .quick = g->quick};
	struct kedge__gc_report report = {0};
	int rc, status = kedge__place_open(&g->place, &g->usage, KEDGE__PLACE_UNPINNED);

	if (status)
		return status;
	rc = kedge__tool_pool(&g->place.settings, &options.pool, &err);
	if (!rc)
		rc = kedge__gc_with(g->place.levels[0], &options, &report, &err);
	kedge__pool_free(options.pool);
	if (rc)
		return kedge__tool_fail(g->usage.command, &err, "cannot remove versions of %s", g->place.name);
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
	     "how many of the newest intact versions to keep, at least 1"},
	    {"dry-run", 0, KEDGE__OPTION_FLAG, &g.dry_run, NULL, "only print what would be removed"},
	    {"quick", 0, KEDGE__OPTION_FLAG, &g.quick, NULL, "do not read the kept versions before removing others"},
	    KEDGE__OPTION_SET(&g.place.sets),
	    KEDGE__OPTION_JSON(&g.place.json),
	    KEDGE__OPTION_QUIET(&g.place.quiet),
	};
	int first, status;

	g.usage = (struct kedge__usage){
	    .command = "kedge gc",
	    .about = "Removes all versions of NAME except the newest K intact ones and the versions that these need, "
		     "and any\n"
		     "leftovers of crashes. Reads and checks the versions to keep before it removes others. Waits for "
		     "readers\n"
		     "and for a checkpoint in progress; safe while a job is running.\n"
		     "Use 'kedge coalesce' to free a version from those that it depends on.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge gc -s store -n job --keep 3",
	};
	if (kedge__options_parse(&g.usage, argc, argv, &first, &status)) {
		if (g.keep == UINT64_MAX)
			status = kedge__usage_error(&g.usage, "--keep K is missing");
		else if (g.keep == 0)
			status = kedge__usage_error(&g.usage, "--keep 0 would leave nothing to restart from");
		else
			status = gc(&g);
	}
	kedge__place_done(&g.place);
	return status;
}
