/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge diff: which byte ranges of which region changed. */
#include "diff.h"

enum { RANGES_SHOWN = 20 };

const char *kedge__diff_status(const struct kedge__diff_region *r)
{
	switch (r->status) {
	case KEDGE__DIFF_SAME:
		return "same";
	case KEDGE__DIFF_CHANGED:
		return "changed";
	case KEDGE__DIFF_ADDED:
		return "added";
	case KEDGE__DIFF_REMOVED:
		return "removed";
	}
	return "?";
}

/* ------------------------------------------------------------------ compare */

static void take(struct kedge__diff_tool *d, const struct kedge__diff_rank *one)
{
	if (!kedge__array_push(&d->ranks, *one))
		kedge__tool_no_memory();
	d->changed_entries += one->entries.count;
	for (size_t i = 0; i < one->count; i++) {
		d->changed_bytes += one->regions[i].changed_bytes;
		d->changed_ranges += one->regions[i].range_count;
		d->changed_regions += one->regions[i].status != KEDGE__DIFF_SAME;
	}
}

static int diff_lineages(struct kedge__diff_tool *d, uint32_t rank, struct kedge__lineage *a, struct kedge__lineage *b,
			 struct kedge__error *err)
{
	struct kedge__diff_rank one = {.rank = rank};
	struct kedge__bar bar;
	int rc;

	kedge__tool_interruptible(d->usage.command, "the comparison is not complete");
	kedge__bar_init(&bar, "diff", !d->place.json && !d->place.quiet);
	rc = kedge__diff(a, b, d->pool, kedge__bar_update, &bar, &one.regions, &one.count, err);
	kedge__bar_done(&bar);
	if (!rc)
		rc = kedge__diff_tree(&one, a, b, d->pool, kedge__job_settings_io(&d->place.settings), err);
	if (!rc)
		take(d, &one);
	return rc;
}

static int diff_rank(struct kedge__diff_tool *d, uint32_t rank, struct kedge__error *err)
{
	struct kedge__lineage *a = NULL, *b = NULL;
	int rc = kedge__lineage_open(d->place.levels, d->place.level_count, d->a, rank, &a, err);

	if (rc == 0)
		rc = kedge__lineage_open(d->place.levels, d->place.level_count, d->b, rank, &b, err);
	if (rc == 0)
		rc = diff_lineages(d, rank, a, b, err);
	kedge__lineage_close(a);
	kedge__lineage_close(b);
	return rc;
}

static int compare(struct kedge__diff_tool *d, uint32_t ranks)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint32_t first = d->rank == UINT64_MAX ? 0 : (uint32_t)d->rank, end = d->rank == UINT64_MAX ? ranks : first + 1;

	for (uint32_t rank = first; rank < end; rank++)
		if (diff_rank(d, rank, &err) != 0)
			return kedge__tool_fail(d->usage.command, &err, "cannot compare versions %llu and %llu of %s",
						(unsigned long long)d->a, (unsigned long long)d->b, d->place.name);
	return 0;
}

static int compare_groups(struct kedge__diff_tool *d, const struct kedge__set *a, const struct kedge__set *b)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__diff_rank all = {.rank = 0};

	kedge__tool_interruptible(d->usage.command, "the comparison is not complete");
	if (kedge__diff_groups(d, a, b, &all, &err) != 0) {
		kedge__diff_free(all.regions, all.count);
		kedge__diff_entries_free(&all);
		return kedge__tool_fail(d->usage.command, &err, "cannot compare versions %llu and %llu of %s",
					(unsigned long long)d->a, (unsigned long long)d->b, d->place.name);
	}
	take(d, &all);
	return 0;
}

/* ------------------------------------------------------------------ print */

static json_t *region_json(uint32_t rank, const struct kedge__diff_region *r)
{
	json_t *o = kedge__json_object(), *ranges = kedge__json_array();

	for (size_t i = 0; i < r->range_count; i++) {
		json_t *range = kedge__json_object();

		kedge__json_uint(range, "offset", r->ranges[i].start);
		kedge__json_uint(range, "bytes", r->ranges[i].len);
		kedge__json_add(ranges, range);
	}
	kedge__json_text(o, "region", r->name);
	kedge__json_uint(o, "rank", rank);
	kedge__json_text(o, "status", kedge__diff_status(r));
	kedge__json_uint(o, "bytes_a", r->bytes_a);
	kedge__json_uint(o, "bytes_b", r->bytes_b);
	kedge__json_uint(o, "changed_bytes", r->changed_bytes);
	kedge__json_set(o, "ranges", ranges);
	return o;
}

static json_t *entries_json(const struct kedge__diff_tool *d)
{
	json_t *list = kedge__json_array();

	for (size_t i = 0; i < d->ranks.count; i++)
		for (size_t j = 0; j < d->ranks.at[i].entries.count; j++) {
			json_t *o = kedge__json_object();

			kedge__json_text(o, "name", d->ranks.at[i].entries.at[j].name);
			kedge__json_text(o, "what", d->ranks.at[i].entries.at[j].what);
			kedge__json_add(list, o);
		}
	return list;
}

static void print_json(const struct kedge__diff_tool *d)
{
	json_t *o = kedge__json_object(), *regions = kedge__json_array();

	for (size_t i = 0; i < d->ranks.count; i++)
		for (size_t j = 0; j < d->ranks.at[i].count; j++)
			kedge__json_add(regions, region_json(d->ranks.at[i].rank, &d->ranks.at[i].regions[j]));
	kedge__json_text(o, "name", d->place.name);
	kedge__json_uint(o, "a", d->a);
	kedge__json_uint(o, "b", d->b);
	kedge__json_bool(o, "same", d->changed_regions + d->changed_entries == 0);
	kedge__json_uint(o, "changed_regions", d->changed_regions);
	kedge__json_set(o, "files", entries_json(d));
	kedge__json_uint(o, "changed_ranges", d->changed_ranges);
	kedge__json_uint(o, "changed_bytes", d->changed_bytes);
	kedge__json_set(o, "regions", regions);
	kedge__json_print(o);
}

static void print_ranges(const struct kedge__diff_tool *d, const struct kedge__diff_region *r)
{
	char a[KEDGE__TEXT_ROOM];
	size_t shown = d->all_ranges ? r->range_count : KEDGE__MIN(r->range_count, RANGES_SHOWN);

	for (size_t i = 0; i < shown; i++)
		printf("  %llu..%llu (%s)\n", (unsigned long long)r->ranges[i].start,
		       (unsigned long long)(r->ranges[i].start + r->ranges[i].len - 1),
		       kedge__text_count(r->ranges[i].len, "byte", "bytes", a));
	if (shown < r->range_count)
		printf("  and %zu more; --all lists them\n", r->range_count - shown);
}

static void print_region(const struct kedge__diff_tool *d, uint32_t rank, const struct kedge__diff_region *r)
{
	char *name = kedge__text_name(r->name), a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM];
	uint64_t bytes = KEDGE__MAX(r->bytes_a, r->bytes_b);

	if (d->ranks.count > 1)
		printf("rank %u, ", rank);
	printf("region '%s': %s", name, kedge__diff_status(r));
	if (r->status != KEDGE__DIFF_SAME)
		printf(", %llu of %s (%.2f %%)", (unsigned long long)r->changed_bytes,
		       kedge__text_count(bytes, "byte", "bytes", b),
		       bytes ? 100.0 * (double)r->changed_bytes / (double)bytes : 0.0);
	if (r->status == KEDGE__DIFF_CHANGED)
		printf(" in %s", kedge__text_count(r->range_count, "range", "ranges", a));
	if (r->status == KEDGE__DIFF_CHANGED && r->bytes_a != r->bytes_b)
		printf(", size %llu to %llu", (unsigned long long)r->bytes_a, (unsigned long long)r->bytes_b);
	putchar('\n');
	if (r->status == KEDGE__DIFF_CHANGED)
		print_ranges(d, r);
	kedge__free(name);
}

static void print_entries(const struct kedge__diff_rank *r)
{
	for (size_t i = 0; i < r->entries.count; i++) {
		char *name = kedge__text_name(r->entries.at[i].name), *what = kedge__text_cell(r->entries.at[i].what);

		printf("'%s': %s\n", name, what);
		kedge__free(name);
		kedge__free(what);
	}
}

static void print_text(const struct kedge__diff_tool *d)
{
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM];

	for (size_t i = 0; i < d->ranks.count; i++) {
		for (size_t j = 0; j < d->ranks.at[i].count; j++)
			if (d->all_ranges || d->ranks.at[i].regions[j].status != KEDGE__DIFF_SAME)
				print_region(d, d->ranks.at[i].rank, &d->ranks.at[i].regions[j]);
		print_entries(&d->ranks.at[i]);
	}
	printf("versions %llu and %llu of %s: %s changed, %s\n", (unsigned long long)d->a, (unsigned long long)d->b,
	       d->place.name, kedge__text_count(d->changed_regions, "region", "regions", a),
	       kedge__text_count(d->changed_bytes, "byte", "bytes", b));
}

/* ------------------------------------------------------------------ the command */

static int diff_open(struct kedge__diff_tool *d)
{
	const struct kedge__catalog_entry *a, *b;
	char text[KEDGE__TEXT_ROOM];
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = kedge__place_choose(&d->place, &d->usage, d->wanted[0], &d->a, &a);

	if (status == 0)
		status = kedge__place_choose(&d->place, &d->usage, d->wanted[1], &d->b, &b);
	if (status)
		return status;
	if (kedge__tool_pool(&d->place.settings, &d->pool, &err) != 0)
		return kedge__tool_fail(d->usage.command, &err, "cannot start threads");
	if (kedge__diff_is_grouped(&a->set, &b->set))
		return compare_groups(d, &a->set, &b->set);
	if (d->rank == UINT64_MAX && a->set.ranks != b->set.ranks) {
		kedge__tool_say(d->usage.command,
				"cannot compare: version %llu has %s, version %llu has %u; use --rank R to compare one",
				(unsigned long long)d->a, kedge__text_count(a->set.ranks, "rank", "ranks", text),
				(unsigned long long)d->b, b->set.ranks);
		return KEDGE__EXIT_FAILURE;
	}
	if (d->rank != UINT64_MAX && d->rank >= KEDGE__MIN(a->set.ranks, b->set.ranks)) {
		kedge__tool_say(d->usage.command, "rank %llu is not in both versions", (unsigned long long)d->rank);
		return KEDGE__EXIT_NOTFOUND;
	}
	return compare(d, a->set.ranks);
}

static int diff(struct kedge__diff_tool *d)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = kedge__place_open(&d->place, &d->usage, KEDGE__PLACE_READ);

	if (status == 0)
		status = diff_open(d);
	if (status)
		return status;
	if (d->svg && kedge__diff_svg(d, d->svg, &err) != 0)
		return kedge__tool_fail(d->usage.command, &err, "cannot draw %s", d->svg);
	if (d->place.json)
		print_json(d);
	else if (!d->place.quiet)
		print_text(d);
	return d->exit_code && d->changed_regions + d->changed_entries ? KEDGE__EXIT_NO : KEDGE__EXIT_OK;
}

int kedge__tool_diff(int argc, char **argv)
{
	struct kedge__diff_tool d = {.rank = UINT64_MAX};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&d.place.store),
	    KEDGE__OPTION_NAME(&d.place.name),
	    {"rank", 0, KEDGE__OPTION_UINT, &d.rank, "R", "only this rank (default: all)"},
	    {"all", 'a', KEDGE__OPTION_FLAG, &d.all_ranges, NULL,
	     "list all ranges (default: 20 per region; JSON always has all), and the regions that did not change"},
	    {"svg", 0, KEDGE__OPTION_TEXT, &d.svg, "FILE", "draw a heat map of the changes in each region"},
	    {"exit-code", 0, KEDGE__OPTION_FLAG, &d.exit_code, NULL, "exit with 1 if anything differs"},
	    KEDGE__OPTION_L2(&d.place.l2),
	    KEDGE__OPTION_SET(&d.place.sets),
	    KEDGE__OPTION_JSON(&d.place.json),
	    {"quiet", 'q', KEDGE__OPTION_FLAG, &d.place.quiet, NULL, "print nothing; use with --exit-code or --svg"},
	};
	int first, status;

	d.usage = (struct kedge__usage){
	    .command = "kedge diff",
	    .operands = "[A [B]]",
	    .about =
		"Compares versions A and B of NAME and lists the byte ranges that differ in each region, exact to "
		"the byte.\n"
		"A and B are numbers, newest, newest~2 or labels; without B the newest, without both the last "
		"two.\n"
		"Reads only what the two do not share. Regions that did not change are not listed, unless with --all.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge diff -s store -n job 1 2 --svg change.svg",
	};
	if (kedge__options_parse(&d.usage, argc, argv, &first, &status)) {
		d.wanted[0] = argc - first > 0 ? argv[first] : "newest~1";
		d.wanted[1] = argc - first > 1 ? argv[first + 1] : "newest";
		if (argc - first > 2)
			status = kedge__usage_error(&d.usage, "at most two versions are compared");
		else if (!kedge__version_valid(d.wanted[0]) || !kedge__version_valid(d.wanted[1]))
			status = kedge__usage_error(
			    &d.usage, "'%s %s': a version is a number, newest, newest~2 (two before it), or a label",
			    d.wanted[0], d.wanted[1]);
		else
			status = diff(&d);
	}
	for (size_t i = 0; i < d.ranks.count; i++) {
		kedge__diff_free(d.ranks.at[i].regions, d.ranks.at[i].count);
		kedge__diff_entries_free(&d.ranks.at[i]);
	}
	kedge__array_done(&d.ranks);
	kedge__pool_free(d.pool);
	kedge__place_done(&d.place);
	return status;
}
