/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge restore: the files of a version, byte for byte. */
#include "restore_pages.h"
#include "tool_pages.h"
#include <signal.h>

/* Regions are filled in groups, so that the read of many small ones is one pass, and few files are open at a time. */
enum { GROUP_FILES = 256 };

struct restore {
	struct kedge__usage usage;
	struct kedge__place place;
	const char *which;       /* the version, as written; NULL: not given */
	const char *dir, *pages; /* pages: the name of the index, if the version has a page image */
	uint64_t version, rank;  /* KEDGE__NO_VERSION, UINT64_MAX: not given */
	char *const *wanted;     /* regions; none: all */
	bool *found;             /* which of them some rank has */
	size_t wanted_count;
	uint64_t rate; /* UINT64_MAX: not given */
	struct kedge__bucket bucket;
	struct kedge__pool *pool;
	struct kedge__bar bar;
	struct kedge__outputs outputs;
	bool output_failed; /* the version was fine; trying another one would not help */
	json_t *passed, *regions;
	uint64_t bytes, bytes_read;
	size_t files, page_count;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int sig)
{
	interrupted = sig;
}

/* Between groups a signal ends the work in order, without temporary files left behind; a second one ends it at once. */
static void catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND}, old;

	for (size_t i = 0; i < KEDGE__COUNT(signals); i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
}

/* ------------------------------------------------------------------ one group of regions */

struct group {
	struct kedge__restore_target targets[GROUP_FILES];
	size_t count, files;
};

static void note_region(struct restore *r, uint32_t rank, const struct kedge__region_record *region)
{
	json_t *o = kedge__json_object();

	kedge__json_text(o, "region", region->name);
	kedge__json_uint(o, "rank", rank);
	kedge__json_uint(o, "bytes", region->bytes);
	kedge__json_add(r->regions, o);
	r->bytes += region->bytes;
	r->files++;
}

static int group_add(struct restore *r, struct group *g, const struct kedge__segment *top, size_t region,
		     int64_t folder, struct kedge__error *err)
{
	const struct kedge__region_record *record = &top->regions[region];
	struct kedge__restore_target *target = &g->targets[g->count];
	int rc = kedge__outputs_add(&r->outputs, folder, record->name, record->bytes, &target->data, err);

	if (rc) {
		r->output_failed = true;
		return rc;
	}
	target->region = region;
	g->count += record->bytes > 0;
	g->files++;
	note_region(r, top->header.rank, record);
	return 0;
}

static int settle(struct restore *r, struct kedge__error *err)
{
	int rc = kedge__outputs_settle(&r->outputs, err);

	if (rc == 0 && interrupted)
		rc = kedge__error_set(err, KEDGE_E_CANCELED, 0, "interrupted");
	if (rc)
		r->output_failed = true;
	return rc;
}

/* Fill and close the files of the group. */
static int group_restore(struct restore *r, struct kedge__lineage *l, struct group *g, struct kedge__error *err)
{
	struct kedge__restore_stats stats = {0};
	int rc = 0;

	if (g->count)
		rc = kedge__restore_fill(l, r->pool, kedge__job_settings_io(&r->place.settings), g->targets, g->count,
					 kedge__bar_update, &r->bar, &stats, err);
	if (rc)
		return rc;
	r->bytes_read += stats.bytes_read;
	g->count = g->files = 0;
	return settle(r, err);
}

/* ------------------------------------------------------------------ one rank of a version */

static bool is_wanted(const struct restore *r, const char *name)
{
	bool wanted = r->wanted_count == 0;

	for (size_t i = 0; i < r->wanted_count; i++)
		if (strcmp(r->wanted[i], name) == 0)
			wanted = r->found[i] = true;
	return wanted;
}

static int check_wanted(struct restore *r, struct kedge__error *err)
{
	for (size_t i = 0; i < r->wanted_count; i++) {
		if (r->found[i])
			continue;
		r->output_failed = true;
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "it has no region '%s'", r->wanted[i]);
	}
	return 0;
}

/* A page image becomes its two files again, unless regions are asked for by their names. */
static int restore_image(struct restore *r, struct kedge__lineage *l, int64_t folder, bool *image,
			 struct kedge__error *err)
{
	const struct kedge__restore_pages pages = {.lineage = l,
						   .pool = r->pool,
						   .io = kedge__job_settings_io(&r->place.settings),
						   .outputs = &r->outputs,
						   .folder = folder,
						   .name = r->pages ? r->pages : "pages.idx",
						   .bar = &r->bar,
						   .output_failed = &r->output_failed};
	struct kedge__restore_stats stats = {0};
	size_t count = 0;
	int rc = r->wanted_count ? 0 : kedge__restore_pages(&pages, &stats, &count, err);

	*image = count > 0;
	r->bytes_read += stats.bytes_read;
	r->page_count += count;
	if (rc == 0 && *image)
		rc = settle(r, err);
	return rc;
}

/* The regions that are files by themselves. */
static bool is_file(const char *name, bool image)
{
	return !image || (strcmp(name, KEDGE__PAGES_REGION) != 0 && strcmp(name, KEDGE__PAGES_INDEX) != 0);
}

static int restore_regions(struct restore *r, struct kedge__lineage *l, int64_t folder, struct kedge__error *err)
{
	struct group g = {0};
	bool image;
	int rc = restore_image(r, l, folder, &image, err);

	for (size_t i = 0; rc == 0 && i < kedge__lineage_top(l)->region_count; i++) {
		/* A group that was restored may have turned to another copy of the segment. */
		const struct kedge__segment *top = kedge__lineage_top(l);

		if (!is_wanted(r, top->regions[i].name))
			continue;
		if (!is_file(top->regions[i].name, image)) {
			note_region(r, top->header.rank, &top->regions[i]);
			continue;
		}
		rc = group_add(r, &g, top, i, folder, err);
		if (rc == 0 && g.files == GROUP_FILES)
			rc = group_restore(r, l, &g, err);
	}
	if (rc == 0 && g.files)
		rc = group_restore(r, l, &g, err);
	return rc;
}

static int restore_rank(struct restore *r, uint64_t version, uint32_t rank, int64_t folder, struct kedge__error *err)
{
	struct kedge__lineage *l;
	int rc = kedge__lineage_open_by(r->pool, r->place.levels, r->place.level_count, version, rank, &l, err);

	if (rc)
		return rc;
	rc = restore_regions(r, l, folder, err);
	kedge__lineage_close(l);
	return rc;
}

/* ------------------------------------------------------------------ versions */

static int restore_ranks(struct restore *r, uint64_t version, uint32_t ranks, struct kedge__error *err)
{
	int rc = 0;

	if (r->rank != UINT64_MAX && r->rank >= ranks) {
		r->output_failed = true;
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "it only has ranks 0 to %u", ranks - 1);
	}
	memset(r->found, 0, r->wanted_count * sizeof(*r->found));
	if (r->rank != UINT64_MAX)
		rc = restore_rank(r, version, (uint32_t)r->rank, -1, err);
	for (uint32_t rank = 0; rc == 0 && r->rank == UINT64_MAX && rank < ranks; rank++)
		rc = restore_rank(r, version, rank, ranks > 1 ? (int64_t)rank : -1, err);
	return rc ? rc : check_wanted(r, err);
}

/* All files of VERSION under temporary names. */
static int restore_version(struct restore *r, uint64_t version, struct kedge__error *err)
{
	const struct kedge__catalog_entry *e = kedge__place_find(&r->place, version);

	r->bytes = r->bytes_read = 0;
	r->files = r->page_count = 0;
	json_array_clear(r->regions);
	if (!e) {
		r->output_failed = true;
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "no such version");
	}
	if (e->problem.code)
		return kedge__error_set(err, e->problem.code, 0, "%s", kedge__error_text(&e->problem));
	return restore_ranks(r, version, e->set.ranks, err);
}

static void pass_over(struct restore *r, uint64_t version, struct kedge__error *err)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "version", version);
	kedge__json_text(o, "cause", kedge__error_text(err));
	kedge__json_add(r->passed, o);
	if (!r->place.quiet)
		kedge__tool_say(r->usage.command, "note: skipping version %llu: %s", (unsigned long long)version,
				kedge__error_text(err));
	kedge__error_done(err);
	*err = (struct kedge__error)KEDGE__ERROR_INIT;
	kedge__outputs_done(&r->outputs);
}

/* The newest version that is intact, unless one was asked for. */
static int restore_newest(struct restore *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t n;
	uint64_t *versions = kedge__place_versions(&r->place, false, &n);
	int status = KEDGE__EXIT_NOTFOUND;

	if (n == 0)
		kedge__tool_say(r->usage.command, "%s has no versions", r->place.name);
	while (n > 0) {
		r->version = versions[--n];
		if (restore_version(r, r->version, &err) == 0) {
			status = 0;
			break;
		}
		if (r->output_failed || err.code == KEDGE_E_NOMEM) {
			status = kedge__tool_fail(r->usage.command, &err, "cannot restore version %llu of %s",
						  (unsigned long long)r->version, r->place.name);
			break;
		}
		pass_over(r, r->version, &err);
		status = KEDGE__EXIT_DAMAGED;
		if (n == 0)
			kedge__tool_say(r->usage.command,
					"cannot restore %s: no version is intact; 'kedge verify' shows what is damaged",
					r->place.name);
	}
	kedge__free(versions);
	return status;
}

static int restore_asked(struct restore *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (restore_version(r, r->version, &err) == 0)
		return 0;
	return kedge__tool_fail(r->usage.command, &err, "cannot restore version %llu of %s",
				(unsigned long long)r->version, r->place.name);
}

static void print_result(struct restore *r, double seconds)
{
	char bytes[KEDGE__TEXT_ROOM], time[KEDGE__TEXT_ROOM], files[KEDGE__TEXT_ROOM];
	json_t *o;

	if (!r->place.json) {
		if (!r->place.quiet)
			kedge__print(stdout, "version %llu of %s: %s, %s restored to %s, %s\n",
				     (unsigned long long)r->version, r->place.name,
				     kedge__text_count(r->files, "file", "files", files),
				     kedge__text_bytes(r->bytes, bytes), r->dir, kedge__text_seconds(seconds, time));
		return;
	}
	o = kedge__json_object();
	kedge__json_text(o, "name", r->place.name);
	kedge__json_uint(o, "version", r->version);
	kedge__json_text(o, "directory", r->dir);
	kedge__json_uint(o, "bytes", r->bytes);
	if (r->page_count)
		kedge__json_uint(o, "pages", r->page_count);
	kedge__json_uint(o, "bytes_read", r->bytes_read);
	kedge__json_real(o, "seconds", seconds);
	kedge__json_set(o, "passed_over", json_incref(r->passed));
	kedge__json_set(o, "regions", json_incref(r->regions));
	kedge__json_print(o);
}

static void pace(struct restore *r)
{
	kedge__job_bucket_init(&r->bucket, r->rate == UINT64_MAX ? r->place.settings.restore_rate : r->rate);
	for (size_t i = 0; i < r->place.level_count; i++)
		kedge__catalog_pace(r->place.levels[i], &r->bucket);
}

static int restore(struct restore *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	double began = kedge__clock_seconds();
	int status = kedge__place_open(&r->place, &r->usage, KEDGE__PLACE_READ);

	if (status == 0 && r->which)
		status = kedge__place_version(&r->place, &r->usage, r->which, &r->version);
	if (status)
		return status;
	pace(r);
	if (kedge__tool_pool(&r->place.settings, &r->pool, &err) != 0 || kedge__fs_mkdirs(r->dir, &err) != 0)
		return kedge__tool_fail(r->usage.command, &err, "cannot restore to %s", r->dir);
	r->outputs.dir = r->dir;
	r->outputs.sync = r->place.settings.sync;
	catch_signals();
	kedge__bar_init(&r->bar, "restore", !r->place.json && !r->place.quiet);
	status = r->version == KEDGE__NO_VERSION ? restore_newest(r) : restore_asked(r);
	kedge__bar_done(&r->bar);
	if (status == 0 && kedge__outputs_commit(&r->outputs, &err) != 0)
		status = kedge__tool_fail(r->usage.command, &err, "cannot restore version %llu of %s",
					  (unsigned long long)r->version, r->place.name);
	if (status == 0)
		print_result(r, kedge__clock_seconds() - began);
	return status;
}

static int check_usage(const struct restore *r)
{
	char *data = r->pages ? kedge__page_data_path(r->pages) : NULL;
	int status = 0;

	if (!r->dir || !*r->dir)
		status = kedge__usage_error(&r->usage, "-o DIR is missing");
	else if (r->pages && !data)
		status = kedge__usage_error(&r->usage, "--pages '%s' does not end in .idx", r->pages);
	else if (r->pages && r->wanted_count)
		status = kedge__usage_error(&r->usage, "--pages cannot be combined with names of regions");
	kedge__free(data);
	return status;
}

int kedge__tool_restore(int argc, char **argv)
{
	struct restore r = {.version = KEDGE__NO_VERSION, .rank = UINT64_MAX, .rate = UINT64_MAX};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&r.place.store),
	    KEDGE__OPTION_NAME(&r.place.name),
	    KEDGE__OPTION_CHOOSE(&r.which, "the version to restore; default: the newest that is intact"),
	    {"output", 'o', KEDGE__OPTION_TEXT, &r.dir, "DIR",
	     "the directory for the files; created if it does not exist"},
	    {"rank", 0, KEDGE__OPTION_UINT, &r.rank, "R",
	     "only this rank's files (default: all; DIR/rank-R/ if there are several)"},
	    {"pages", 0, KEDGE__OPTION_TEXT, &r.pages, "INDEX",
	     "name of a page image's index below DIR, NAME.idx; the data goes to NAME.pages (default: pages.idx)"},
	    {"rate", 0, KEDGE__OPTION_SIZE, &r.rate, "BYTES",
	     "read at most this many bytes per second (default: no limit)"},
	    KEDGE__OPTION_L2(&r.place.l2),
	    KEDGE__OPTION_SET(&r.place.sets),
	    KEDGE__OPTION_JSON(&r.place.json),
	    KEDGE__OPTION_QUIET(&r.place.quiet),
	};
	int first, status;

	r.usage = (struct kedge__usage){
	    .command = "kedge restore",
	    .operands = "[REGION]...",
	    .about =
		"Restores the files of a version below DIR, byte for byte: all of them, or the regions named.\n"
		"Everything is verified before the first file gets its name; existing files are replaced in one step.\n"
		"Without -v, damaged versions are skipped, with a note, until an intact one is found.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge restore -s store -n job -o back\n"
		       "kedge restore -s store -n process -o back --pages snap_01.idx",
	};
	r.passed = kedge__json_array();
	r.regions = kedge__json_array();
	if (kedge__options_parse(&r.usage, argc, argv, &first, &status)) {
		r.wanted = argv + first;
		r.wanted_count = (size_t)(argc - first);
		r.found = kedge__calloc(r.wanted_count + 1, sizeof(*r.found));
		if (!r.found)
			kedge__tool_no_memory();
		status = check_usage(&r) ? KEDGE__EXIT_USAGE : restore(&r);
	}
	kedge__outputs_done(&r.outputs);
	kedge__free(r.found);
	kedge__pool_free(r.pool);
	kedge__place_done(&r.place);
	json_decref(r.passed);
	json_decref(r.regions);
	return status;
}
