/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge bench codec: ratio and speed of every codec on the user's own files, and what auto and max make of them. */
#include "bench_codec.h"

#define TURNS_MAX 64

struct bench {
	struct kedge__usage usage;
	const char *type_name, *svg, *bases;
	bool json, each;
	struct kedge__codec_bench with;
	struct kedge__codec_file *files;
	size_t count;
	struct kedge__codec_result *results;
	json_t *all; /* of each file */
	struct kedge__table summary;
};

static void mark_best(struct kedge__codec_result *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		r[i].best = true;
		for (size_t k = 0; k < n; k++)
			if (r[k].packed_bytes <= r[i].packed_bytes && r[k].encode >= r[i].encode &&
			    (r[k].packed_bytes < r[i].packed_bytes || r[k].encode > r[i].encode))
				r[i].best = false;
	}
}

static int load(struct bench *b, char **names, size_t n, enum kedge_type type, struct kedge__error *err)
{
	int rc = 0;

	b->files = kedge__calloc(n, sizeof(*b->files));
	b->results = kedge__calloc(kedge__codec_bench_room(&b->with), sizeof(*b->results));
	if (!b->files || !b->results)
		return kedge__error_nomem(err);
	for (; b->count < n && !rc; b->count++)
		rc = kedge__codec_file_load(&b->files[b->count], names[b->count], type, b->each, b->bases, err);
	return rc;
}

static void done(struct bench *b)
{
	for (size_t i = 0; i < b->count; i++)
		kedge__codec_file_done(&b->files[i]);
	kedge__free(b->files);
	kedge__free(b->results);
}

/* COUNT files from FIRST on, together. */
static int run_files(struct bench *b, size_t first, size_t count, size_t *n, struct kedge__error *err)
{
	int rc;

	b->with.files = b->files + first;
	b->with.count = count;
	rc = kedge__codec_bench_run(&b->with, b->results, n, err);
	if (rc)
		return rc;
	mark_best(b->results, *n);
	if (b->each && b->json) {
		kedge__json_add(b->all, kedge__codec_report_json(&b->with, b->results, *n));
	} else if (b->json) {
		kedge__json_print(kedge__codec_report_json(&b->with, b->results, *n));
	} else {
		if (b->each)
			printf("%s: ", b->files[first].path);
		kedge__codec_report_table(&b->with, b->results, *n);
	}
	return 0;
}

static int run_each(struct bench *b, struct kedge__error *err)
{
	size_t n;
	int rc = 0;

	b->all = kedge__json_array();
	kedge__codec_report_add(&b->summary, NULL, NULL, 0);
	for (size_t i = 0; i < b->count && !rc; i++) {
		rc = run_files(b, i, 1, &n, err);
		if (!rc && !b->json)
			putchar('\n');
		if (!rc)
			kedge__codec_report_add(&b->summary, &b->with, b->results, n);
	}
	if (rc || b->json)
		kedge__table_drop(&b->summary);
	else
		kedge__table_print(&b->summary, stdout);
	if (rc || !b->json)
		json_decref(b->all);
	else
		kedge__json_print(b->all);
	return rc;
}

static int run(struct bench *b, char **names, size_t count, enum kedge_type type)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__codec_plot plot = {.results = NULL};
	int rc = load(b, names, count, type, &err);

	if (!rc && b->each)
		rc = run_each(b, &err);
	else if (!rc)
		rc = run_files(b, 0, b->count, &plot.count, &err);
	if (!rc && b->svg) {
		plot.results = b->results;
		plot.title = b->count == 1 ? b->files[0].path : "all files";
		rc = kedge__tool_picture(b->svg, kedge__bench_codec_svg, &plot, &err);
	}
	done(b);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

int kedge__bench_codec(int argc, char **argv)
{
	struct bench b = {.type_name = "bytes", .with = {.block = 128 << 10, .repeat = 3}};
	const struct kedge__option options[] = {
	    {"type", 't', KEDGE__OPTION_TEXT, &b.type_name, "TYPE", "element type of all files (default: bytes)"},
	    {"each", 0, KEDGE__OPTION_FLAG, &b.each, NULL,
	     "a table for each file, and how far auto and max are from the best"},
	    {"base", 0, KEDGE__OPTION_TEXT, &b.bases, "DIR", "files of the same names there are the version before"},
	    {"block", 0, KEDGE__OPTION_SIZE, &b.with.block, "BYTES", "bytes packed as a unit (default: 128k)"},
	    {"codec", 0, KEDGE__OPTION_LIST, &b.with.codecs, "CODEC", "only this one; may be given again"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.with.repeat, "N", "turns, of which the fastest counts (default: 3)"},
	    {"target", 0, KEDGE__OPTION_REAL, &b.with.target, "BYTES", "bytes a second that auto has to keep up with"},
	    {"storage", 0, KEDGE__OPTION_REAL, &b.with.storage, "BYTES",
	     "bytes a second that storage takes from a thread (default: 1e8)"},
	    {"svg", 0, KEDGE__OPTION_TEXT, &b.svg, "FILE", "write a plot of ratio over speed"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	enum kedge_type type;
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge bench codec",
	    .operands = "FILE[:SHAPE]...",
	    .about =
		"Packs and unpacks the files, raw arrays of one element type, with every codec: ratio, speed of\n"
		"packing and of unpacking by one thread, and what auto and max choose. SHAPE, as in 64x64x128 with\n"
		"the slowest dimension first, is that of the arrays that a file holds one after the other. With\n"
		"--each, type and shape may be part of the name: density.64x64x128.f32.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge bench codec --type f64 density.raw:256x256 --svg codecs.svg\n"
		       "kedge bench codec --type f32 --codec auto --codec shuffle+zstd:3 --json *.f32\n"
		       "kedge bench codec --each --base dump1 dump2/*.f32 dump2/*.f64",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (first == argc)
		return kedge__usage_error(&b.usage, "which files?");
	if (!kedge__type_parse(b.type_name, &type))
		return kedge__usage_error(&b.usage, "'%s' is not an element type", b.type_name);
	if (!b.with.repeat || b.with.repeat > TURNS_MAX || b.with.block < 64 || b.with.block > 64 << 20)
		return kedge__usage_error(&b.usage, "1 to %d turns, blocks of 64 bytes to 64 MiB", TURNS_MAX);
	if (b.svg && b.each)
		return kedge__usage_error(&b.usage, "--svg plots all files together, without --each");
	return run(&b, argv + first, (size_t)(argc - first), type);
}
