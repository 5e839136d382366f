/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench rex: page images of running programs, kept as rex and tree keep them and as others do, all in one run:
 * what it takes, how fast it goes in and out, and how long the restore of a base and eight increments takes.
 */
#include "rex.h"

#include <stdlib.h>

#define SIZE_LEAST (UINT64_C(1) << 20)
#define SIZE_MOST  (UINT64_C(16) << 30)

struct bench {
	struct kedge__usage usage;
	const char *images, *dir;
	struct kedge__text_list only, changes;
	uint64_t threads, rate, size; /* size: of a series that is made up */
	bool json;
	struct kedge__rex_run run;
	KEDGE__ARRAY(struct kedge__rex_image) list;
};

const double kedge__rex_rates[KEDGE__REX_PLACES] = {[KEDGE__REX_SSD] = 141e6, [KEDGE__REX_HDD] = 47e6};

#define FILES(ways)                                                                                                    \
	.begin = begin_nothing, .prepare = kedge__rex_nothing, .keep = kedge__rex_##ways##_keep,                       \
	.restore = kedge__rex_##ways##_restore, .end = end_nothing
#define STORED(how)                                                                                                    \
	.reducer = how, .there = kedge__rex_there, .begin = kedge__rex_store_begin,                                    \
	.prepare = kedge__rex_store_prepare, .restore = kedge__rex_store_restore, .end = kedge__rex_store_end
#define STORE(how, with)                                                                                               \
	{                                                                                                              \
		.name = how, .packed = with, .keep = kedge__rex_store_keep, STORED(how)                                \
	}

static int begin_nothing(struct kedge__rex_keeper *k, struct kedge__error *err)
{
	(void)k, (void)err;
	return 0;
}

static void end_nothing(struct kedge__rex_keeper *k)
{
	(void)k;
}

const struct kedge__rex_method kedge__rex_methods[] = {
    {.name = "plain", .there = kedge__rex_there, FILES(plain)},
    {.name = "checked", .there = kedge__rex_there, FILES(checked)},
    {.name = "libhash",
     .there = kedge__rex_there,
     .begin = kedge__rex_hash_begin,
     .prepare = kedge__rex_nothing,
     .keep = kedge__rex_hash_keep,
     .restore = kedge__rex_hash_restore,
     .end = kedge__rex_hash_end},
    {.name = "bzip2", .there = kedge__bzip2_there, FILES(bzip2), .missing = "this build has no libbz2"},
    {.name = "xdelta3",
     .there = kedge__rex_xdelta_there,
     .begin = begin_nothing,
     .prepare = kedge__rex_xdelta_prepare,
     .keep = kedge__rex_xdelta_keep,
     .restore = kedge__rex_xdelta_restore,
     .end = end_nothing,
     .missing = "there is no command xdelta3"},
    {.name = "zstd -3", .there = kedge__rex_there, FILES(zstd)},
    STORE("tree", false),
    STORE("tree", true),
    STORE("rex", false),
    STORE("rex", true),
    {.name = "coalesced", .keep = kedge__rex_store_coalesce, STORED("rex")},
    STORE("auto", false),
    STORE("auto", true),
};
const size_t kedge__rex_method_count = KEDGE__COUNT(kedge__rex_methods);

size_t kedge__rex_method_find(const char *name, bool packed)
{
	size_t i = 0;

	while (i < kedge__rex_method_count &&
	       (strcmp(kedge__rex_methods[i].name, name) != 0 || kedge__rex_methods[i].packed != packed))
		i++;
	return i;
}

/* ---- one series */

/* FROM NULL: one that is made up, of KIND. */
static int run_series(struct bench *b, const char *from, const char *kind, const char *dir, struct kedge__error *err)
{
	struct kedge__rex_series series = {0};
	struct kedge__rex_image image = {0};
	int rc = 0;

	if (from)
		rc = kedge__rex_series_load(from, &series, err);
	else
		rc = kedge__rex_series_generate(kind, b->size, &series, err);
	if (rc && !series.name)
		return rc;
	image = (struct kedge__rex_image){
	    .name = kedge__strdup(series.name), .moments = series.count, .steps = series.steps, .pages = series.room};
	image.results = kedge__calloc(kedge__rex_method_count, sizeof(*image.results));
	if (!image.name || !image.results || !kedge__array_push(&b->list, image))
		kedge__tool_no_memory();
	if (rc == 0)
		rc = kedge__rex_measure(&b->run, &series, dir, &b->list.at[b->list.count - 1], err);
	kedge__rex_series_done(&series);
	return rc;
}

/* ---- the run */

static bool has_images(const char *dir)
{
	char **names;
	size_t n;
	bool has = false;

	if (kedge__fs_list(dir, &names, &n, NULL) != 0)
		return false;
	for (size_t i = 0; !has && i < n; i++) {
		char *data = kedge__page_data_path(names[i]);

		has = data != NULL;
		kedge__free(data);
	}
	kedge__fs_list_free(names, n);
	return has;
}

/* A directory of images, or of such directories. *LIST: the names are owned. */
static int find_series(const char *dir, struct kedge__text_list *list, struct kedge__error *err)
{
	char **names;
	size_t n;
	int rc = kedge__fs_exists(dir) ? kedge__fs_list(dir, &names, &n, err)
				       : kedge__error_set(err, KEDGE_E_ARG, 0, "there is no directory %s", dir);

	if (rc)
		return rc;
	for (size_t i = 0; i <= n; i++) {
		char *path = i < n ? kedge__asprintf("%s/%s", dir, names[i]) : kedge__strdup(dir);

		if (!path)
			kedge__tool_no_memory();
		if (!has_images(path))
			kedge__free(path);
		else if (!kedge__array_push(list, path))
			kedge__tool_no_memory();
	}
	kedge__fs_list_free(names, n);
	if (list->count == 0)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "%s has no page images (NAME.idx and NAME.pages)", dir);
	return rc;
}

static int run_all(struct bench *b, const char *dir, struct kedge__error *err)
{
	struct kedge__text_list list = {0};
	int rc = b->images ? find_series(b->images, &list, err) : 0;

	b->run.total = b->images ? list.count : KEDGE__MAX(b->changes.count, 1);
	for (size_t i = 0; rc == 0 && !b->images && i < b->run.total; i++)
		rc = run_series(b, NULL, b->changes.count ? b->changes.at[i] : "mixed", dir, err);
	for (size_t i = 0; rc == 0 && i < list.count; i++)
		rc = run_series(b, list.at[i], NULL, dir, err);
	for (size_t i = 0; i < list.count; i++)
		kedge__free((char *)list.at[i]);
	kedge__array_done(&list);
	return rc;
}

static void report(const struct bench *b)
{
	const struct kedge__rex_report r = {.images = b->list.at,
					    .count = b->list.count,
					    .threads = kedge__pool_threads(b->run.pool),
					    .stays = b->run.stays};

	(b->json ? kedge__rex_report_json : kedge__rex_report_text)(&r);
}

/* The others are compared with the first way, which is always there. */
static bool is_wanted(const struct bench *b, size_t m)
{
	bool wanted = b->only.count == 0 || m == 0;

	for (size_t i = 0; i < b->only.count; i++)
		if (strcmp(b->only.at[i], kedge__rex_methods[m].name) == 0)
			wanted = true;
	return wanted && kedge__rex_methods[m].there();
}

static int run(struct bench *b)
{
	struct kedge__job_settings settings = {.threads = (int64_t)b->threads};
	struct kedge__error err = KEDGE__ERROR_INIT;
	bool wanted[KEDGE__COUNT(kedge__rex_methods)];
	char *dir = NULL;
	int rc = kedge__tool_pool(&settings, &b->run.pool, &err);

	for (size_t m = 0; m < kedge__rex_method_count; m++)
		wanted[m] = is_wanted(b, m);
	b->run.wanted = wanted;
	if (!rc)
		rc = kedge__bench_dir_make(b->dir, &dir, &err);
	if (!rc) {
		kedge__bar_init(&b->run.bar, "rex", !b->json);
		rc = run_all(b, dir, &err);
		kedge__bar_done(&b->run.bar);
		kedge__bench_dir_remove(dir);
	}
	if (!rc)
		report(b);
	for (size_t i = 0; i < b->list.count; i++) {
		kedge__free(b->list.at[i].name);
		kedge__free(b->list.at[i].results);
	}
	kedge__array_done(&b->list);
	kedge__pool_free(b->run.pool);
	kedge__free(dir);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

static const char *unknown_way(const struct bench *b)
{
	for (size_t i = 0; i < b->only.count; i++)
		if (kedge__rex_method_find(b->only.at[i], false) == kedge__rex_method_count)
			return b->only.at[i];
	return NULL;
}

int kedge__bench_rex(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct bench b = {.threads = 1,
			  .size = 8 << 20,
			  .rate = 100000000,
			  .run = {.repeat = 3, .codec = "auto", .block = "1MiB", .chunk = "256"},
			  .dir = tmp && *tmp ? tmp : "/tmp"};
	const struct kedge__option options[] = {
	    {"images", 0, KEDGE__OPTION_TEXT, &b.images, "DIR",
	     "a series of page images, NAME.idx and NAME.pages, or a directory of such directories\n"
	     "(default: a series that is made up)"},
	    {"change", 0, KEDGE__OPTION_LIST, &b.changes, "KIND",
	     "how pages change in the series that is made up: mixed, words, inserts, pages or new; may be given again\n"
	     "(default: mixed)"},
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "its size at first (default: 8MiB)"},
	    {"chunk", 0, KEDGE__OPTION_TEXT, &b.run.chunk, "BYTES", "size of tree's chunks (default: 256)"},
	    {"only", 0, KEDGE__OPTION_LIST, &b.only, "WAY",
	     "plain, checked, libhash, bzip2, xdelta3, 'zstd -3', tree, rex, coalesced or auto, beside plain; may be "
	     "given "
	     "again "
	     "(default: all)"},
	    {"codec", 0, KEDGE__OPTION_TEXT, &b.run.codec, "CODEC", "of rows with codec (default: auto)"},
	    {"rate", 0, KEDGE__OPTION_SIZE, &b.rate, "BYTES",
	     "bytes a second that auto has to keep up with there (default: 100 MB)"},
	    {"block", 0, KEDGE__OPTION_TEXT, &b.run.block, "BYTES", "size of blocks there (default: 1MiB)"},
	    {"threads", 0, KEDGE__OPTION_UINT, &b.threads, "N",
	     "threads that restore from a store; the others have one (default: 1)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.run.repeat, "N",
	     "restores, of which the median is shown; fewer of what takes seconds (default: 3)"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.dir, "DIR", "where to write (default: $TMPDIR or /tmp)"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench rex",
	    .about =
		"Keeps the increments between moments of a process's memory as rex, tree and auto do, without and "
		"with\n"
		"codec, beside plain increments, blocks of 256 bytes with hashes, bzip2, xdelta3 and zstd -3: ratio,\n"
		"rates, and the time to restore a base and eight increments. A series that is shorter is gone through\n"
		"back and forth for the restore, not for the ratio.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench rex\nkedge-bench rex --images dumps --repeat 5 --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		goto done;
	status = KEDGE__EXIT_USAGE;
	b.run.rate = (double)b.rate;
	if (unknown_way(&b))
		kedge__usage_error(&b.usage, "there is no way '%s'", unknown_way(&b));
	else if (!b.run.repeat || b.run.repeat > KEDGE__REX_TURNS || !b.threads)
		kedge__usage_error(&b.usage, "1 to %d turns, at least one thread", KEDGE__REX_TURNS);
	else if (b.size < SIZE_LEAST || b.size > SIZE_MOST)
		kedge__usage_error(&b.usage, "--size is from 1MiB to 16GiB");
	else
		status = run(&b);
done:
	kedge__array_done(&b.only);
	kedge__array_done(&b.changes);
	return status;
}
