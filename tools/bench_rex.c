/*
 * kedge bench rex: page images of running programs, kept as rex and tree keep them and as others do, all in one run:
 * what it takes, how fast it goes in and out, and how long the restore of a base and eight increments takes.
 *
 * Rates are bytes of pages by processor time, of all threads and commands: what a thread does, whatever else runs on
 * the machine. Restores are timed by the clock, with files out of the page cache and with files in it.
 */
#include "bench_rex.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct bench {
	struct kedge__usage usage;
	const char *images, *dir, *codec, *block;
	struct kedge__text_list only;
	uint64_t repeat, threads, rate;
	bool json;
	struct kedge__pool *pool;
	struct kedge__bar bar;
	size_t series_count, done; /* in units of one way on one series */
	KEDGE__ARRAY(struct kedge__rex_image) list;
	uint8_t *memory; /* that restores fill */
};

const double kedge__rex_rates[KEDGE__REX_RATES] = {141e6, 47e6};

#define FILES(ways)                                                                                                    \
	.begin = begin_nothing, .prepare = kedge__rex_nothing, .keep = kedge__rex_##ways##_keep,                       \
	.restore = kedge__rex_##ways##_restore, .end = end_nothing
#define STORE(how, with)                                                                                               \
	{                                                                                                              \
		.name = how, .reducer = how, .packed = with, .there = kedge__rex_there,                                \
		.begin = kedge__rex_store_begin, .prepare = kedge__rex_store_prepare, .keep = kedge__rex_store_keep,   \
		.restore = kedge__rex_store_restore, .end = kedge__rex_store_end                                       \
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

/* ---- clocks and files */

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

/* Of all threads, and of the commands that were run. */
static double processor_seconds(void)
{
	struct rusage children;
	struct timespec own;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	return (double)own.tv_sec + (double)own.tv_nsec * 1e-9 + seconds_of(children.ru_utime) +
	       seconds_of(children.ru_stime);
}

/* nftw() passes nothing on to its function. */
static uint64_t counted;

static int count_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = path + ftw->base;

	/* What a peer needs as input is not what it stores; a lock file is there only while the job runs. */
	if (type == FTW_F && strncmp(name, "raw.", 4) != 0 && strncmp(name, "source.", 7) != 0)
		counted += (uint64_t)st->st_size;
	return 0;
}

static uint64_t stored_bytes(const char *dir)
{
	counted = 0;
	nftw(dir, count_file, 16, FTW_PHYS);
	return counted;
}

/* ---- one way on one series */

/* Processor time of the kernel to take BYTES bytes into a file: no part of any compression. */
static int write_bare(struct kedge__rex_keeper *k, const struct kedge__rex_increment *inc, uint64_t bytes,
		      double *seconds, struct kedge__error *err)
{
	char *path = kedge__rex_path(k, "raw", 1);
	double start = processor_seconds();
	int rc = kedge__rex_write(path, inc->file, KEDGE__MIN(bytes, inc->bytes), err);

	*seconds += processor_seconds() - start;
	kedge__fs_unlink(path, NULL);
	kedge__free(path);
	return rc;
}

static int keep_step(struct kedge__rex_keeper *k, size_t step, struct kedge__rex_result *r, struct kedge__error *err)
{
	uint64_t before = stored_bytes(k->dir), stored;
	struct kedge__rex_increment inc;
	double start;
	int rc;

	kedge__rex_increment_make(k->series, step, &inc);
	r->chain_raw += inc.pages * KEDGE__PAGE_BYTES;
	rc = k->method->prepare(k, step, &inc, err);
	start = processor_seconds();
	if (rc == 0)
		rc = k->method->keep(k, step, &inc, err);
	start = processor_seconds() - start;
	stored = stored_bytes(k->dir) - before;
	if (step < k->series->count) {
		r->pack_seconds += start;
		*(step ? &r->raw : &r->raw_base) += inc.pages * KEDGE__PAGE_BYTES;
		*(step ? &r->stored : &r->stored_base) += stored;
		if (rc == 0)
			rc = write_bare(k, &inc, stored, &r->write_seconds, err);
	}
	kedge__rex_increment_done(&inc);
	return rc;
}

static int check(const struct kedge__rex_keeper *k, const uint8_t *image, struct kedge__error *err)
{
	const struct kedge__rex_moment *last = kedge__rex_series_at(k->series, k->series->steps - 1);

	for (size_t i = 0; i < last->places.count; i++)
		if (last->places.words[KEDGE__PAGES_HEAD + i] != KEDGE__PAGES_FREE &&
		    memcmp(image + i * KEDGE__PAGE_BYTES, last->data + i * KEDGE__PAGE_BYTES, KEDGE__PAGE_BYTES) != 0)
			return kedge__error_set(
			    err, KEDGE_E_INTERNAL, 0, "%s gives page 0x%llx of %s back wrong", k->method->name,
			    (unsigned long long)last->places.words[KEDGE__PAGES_HEAD + i], k->series->name);
	return 0;
}

static int restore_once(struct bench *b, struct kedge__rex_keeper *k, bool cold, double *seconds, double *processor,
			uint64_t *read, struct kedge__error *err)
{
	double start, start_processor;
	int rc;

	memset(b->memory, 0xA5, k->series->room * KEDGE__PAGE_BYTES);
	if (cold)
		kedge__bench_forget(k->dir);
	*read = 0;
	start = kedge__clock_seconds();
	start_processor = processor_seconds();
	rc = k->method->restore(k, b->memory, read, err);
	*processor = processor_seconds() - start_processor;
	*seconds = kedge__clock_seconds() - start;
	return rc ? rc : check(k, b->memory, err);
}

/* Ways that take seconds are not repeated as often; what they read counts for little then. */
static int restore_turns(struct bench *b, struct kedge__rex_keeper *k, struct kedge__rex_result *r,
			 struct kedge__error *err)
{
	double seconds, processor, spent = 0;
	int rc = 0;

	for (r->turns = 0; rc == 0 && r->turns < b->repeat && (r->turns == 0 || spent < 5); r->turns++) {
		rc = restore_once(b, k, true, &r->cold[r->turns], &processor, &r->read, err);
		spent += seconds = r->cold[r->turns];
		if (rc == 0 && spent < 5)
			rc = restore_once(b, k, false, &seconds, &processor, &r->read, err);
		if (r->turns == 0 || seconds < r->warm)
			r->warm = seconds;
		if (r->turns == 0 || processor < r->warm_processor)
			r->warm_processor = processor;
	}
	if (rc == 0)
		kedge__bench_median(r->cold, r->turns);
	return rc;
}

static int measure(struct bench *b, struct kedge__rex_keeper *k, struct kedge__rex_result *r, struct kedge__error *err)
{
	const struct kedge__rex_moment *last = kedge__rex_series_at(k->series, k->series->steps - 1);
	int rc = kedge__fs_mkdirs(k->dir, err);

	if (rc == 0)
		rc = k->method->begin(k, err);
	for (size_t step = 0; rc == 0 && step < k->series->steps; step++) {
		rc = keep_step(k, step, r, err);
		kedge__bar_update(&b->bar, b->done * 1000 + step * 700 / k->series->steps,
				  b->series_count * kedge__rex_method_count * 1000);
	}
	for (size_t i = 0; i < last->places.count; i++)
		r->live_raw += last->places.words[KEDGE__PAGES_HEAD + i] == KEDGE__PAGES_FREE ? 0 : KEDGE__PAGE_BYTES;
	if (rc == 0)
		rc = restore_turns(b, k, r, err);
	k->method->end(k);
	kedge__bench_dir_remove(k->dir);
	r->there = true;
	return rc;
}

/* ---- one series, all ways */

/* The others are compared with the first way, which is always there. */
static bool is_wanted(const struct bench *b, size_t m)
{
	bool wanted = b->only.count == 0 || m == 0;

	for (size_t i = 0; i < b->only.count; i++)
		if (strcmp(b->only.at[i], kedge__rex_methods[m].name) == 0)
			wanted = true;
	return wanted;
}

static int measure_series(struct bench *b, const struct kedge__rex_series *series, const char *dir,
			  struct kedge__error *err)
{
	struct kedge__rex_image *image = &b->list.at[b->list.count - 1];
	size_t bytes = series->room * KEDGE__PAGE_BYTES;
	char *own = kedge__asprintf("%s/way", dir);
	int rc = 0;

	b->memory = kedge__map_alloc(bytes);
	if (!b->memory || !own)
		kedge__tool_no_memory();
	for (size_t m = 0; rc == 0 && m < kedge__rex_method_count; m++, b->done++) {
		struct kedge__rex_keeper k = {.method = &kedge__rex_methods[m],
					      .series = series,
					      .dir = own,
					      .codec = b->codec,
					      .block = b->block,
					      .rate = (double)b->rate,
					      .pool = b->pool};

		kedge__bar_label(&b->bar, kedge__rex_methods[m].name);
		if (is_wanted(b, m) && kedge__rex_methods[m].there())
			rc = measure(b, &k, &image->results[m], err);
	}
	image->changed =
	    (double)image->results[0].raw / (double)KEDGE__PAGE_BYTES / (double)((series->count - 1) * series->room);
	kedge__map_free(b->memory, bytes);
	kedge__free(own);
	return rc;
}

/* DIR NULL: the series that is made up. */
static int run_series(struct bench *b, const char *from, const char *dir, struct kedge__error *err)
{
	struct kedge__rex_series series = {0};
	struct kedge__rex_image image = {0};
	int rc = 0;

	if (from)
		rc = kedge__rex_series_load(from, &series, err);
	else
		kedge__rex_series_generate(&series);
	image = (struct kedge__rex_image){
	    .name = kedge__strdup(series.name), .moments = series.count, .steps = series.steps, .pages = series.room};
	image.results = kedge__calloc(kedge__rex_method_count, sizeof(*image.results));
	if (!image.name || !image.results || !kedge__array_push(&b->list, image))
		kedge__tool_no_memory();
	if (rc == 0)
		rc = measure_series(b, &series, dir, err);
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

	b->series_count = b->images ? list.count : 1;
	if (rc == 0 && !b->images)
		rc = run_series(b, NULL, dir, err);
	for (size_t i = 0; rc == 0 && i < list.count; i++)
		rc = run_series(b, list.at[i], dir, err);
	for (size_t i = 0; i < list.count; i++)
		kedge__free((char *)list.at[i]);
	kedge__array_done(&list);
	return rc;
}

static int run(struct bench *b)
{
	struct kedge__job_settings settings = {.threads = (int64_t)b->threads};
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *dir = NULL;
	int rc = kedge__tool_pool(&settings, &b->pool, &err);

	if (!rc)
		rc = kedge__bench_dir_make(b->dir, &dir, &err);
	if (!rc) {
		kedge__bar_init(&b->bar, "rex", !b->json);
		rc = run_all(b, dir, &err);
		kedge__bar_done(&b->bar);
		kedge__bench_dir_remove(dir);
	}
	if (!rc)
		(b->json ? kedge__rex_report_json : kedge__rex_report_text)(b->list.at, b->list.count,
									    kedge__pool_threads(b->pool));
	for (size_t i = 0; i < b->list.count; i++) {
		kedge__free(b->list.at[i].name);
		kedge__free(b->list.at[i].results);
	}
	kedge__array_done(&b->list);
	kedge__pool_free(b->pool);
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
	struct bench b = {.repeat = 3,
			  .threads = 1,
			  .codec = "auto",
			  .block = "1MiB",
			  .rate = 100000000,
			  .dir = tmp && *tmp ? tmp : "/tmp"};
	const struct kedge__option options[] = {
	    {"images", 0, KEDGE__OPTION_TEXT, &b.images, "DIR",
	     "a series of page images, NAME.idx and NAME.pages, or a directory of such directories\n"
	     "(default: a series that is made up)"},
	    {"only", 0, KEDGE__OPTION_LIST, &b.only, "WAY",
	     "plain, libhash, bzip2, xdelta3, 'zstd -3', tree or rex, beside plain; may be given again (default: all)"},
	    {"codec", 0, KEDGE__OPTION_TEXT, &b.codec, "CODEC", "of rows with codec (default: auto)"},
	    {"rate", 0, KEDGE__OPTION_SIZE, &b.rate, "BYTES",
	     "bytes a second that auto has to keep up with there (default: 100 MB)"},
	    {"block", 0, KEDGE__OPTION_TEXT, &b.block, "BYTES", "size of blocks there (default: 1MiB)"},
	    {"threads", 0, KEDGE__OPTION_UINT, &b.threads, "N",
	     "threads that restore from a store; the others have one (default: 1)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N",
	     "restores, of which the median is shown; fewer of what takes seconds (default: 3)"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.dir, "DIR", "where to write (default: $TMPDIR or /tmp)"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge bench rex",
	    .about =
		"Keeps the increments between moments of a process's memory as rex and tree do, without and with\n"
		"codec, beside plain increments, blocks of 256 bytes with hashes, bzip2, xdelta3 and zstd -3: ratio,\n"
		"rates, and the time to restore a base and eight increments. A series that is shorter is gone through\n"
		"back and forth for the restore, not for the ratio.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge bench rex\nkedge bench rex --images dumps --repeat 5 --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		goto done;
	status = KEDGE__EXIT_USAGE;
	if (unknown_way(&b))
		kedge__usage_error(&b.usage, "there is no way '%s'", unknown_way(&b));
	else if (!b.repeat || b.repeat > KEDGE__REX_TURNS || !b.threads)
		kedge__usage_error(&b.usage, "1 to %d turns, at least one thread", KEDGE__REX_TURNS);
	else
		status = run(&b);
done:
	kedge__array_done(&b.only);
	return status;
}
