/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench capture: what tracking pages and capturing them without a stop cost, against memcpy of all the memory.
 * Each turn measures memcpy anew before every tracker and every session, and ratios are taken within it.
 */
#include "capture.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t kedge__capture_random(struct kedge__capture_bench *b)
{
	uint64_t v = b->seed += UINT64_C(0x9E3779B97F4A7C15);

	v = (v ^ v >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	v = (v ^ v >> 27) * UINT64_C(0x94D049BB133111EB);
	return v ^ v >> 31;
}

static bool row_is(const struct kedge__capture_row *a, const struct kedge__capture_row *b)
{
	return strcmp(a->pages, b->pages) == 0 && strcmp(a->who, b->who) == 0 && strcmp(a->what, b->what) == 0 &&
	       strcmp(a->pattern, b->pattern) == 0 && a->percent == b->percent;
}

void kedge__capture_note(struct kedge__capture_bench *b, struct kedge__capture_row key, double seconds, double ratio)
{
	struct kedge__capture_row *row = NULL;

	for (size_t i = 0; i < b->rows.count; i++) {
		if (row_is(&b->rows.at[i], &key))
			row = &b->rows.at[i];
	}
	if (!row) {
		if (!kedge__array_push(&b->rows, key))
			kedge__tool_no_memory();
		row = &b->rows.at[b->rows.count - 1];
	}
	if (row->turns == KEDGE__CAPTURE_TURNS)
		return;
	row->seconds[row->turns] = seconds;
	row->ratio[row->turns++] = ratio;
	row->count = key.count;
}

void kedge__capture_memcpy(struct kedge__capture_bench *b)
{
	struct kedge__capture_row row = {
	    .pages = b->pages, .who = "memcpy", .what = "", .pattern = "", .percent = -1, .count = b->size / b->page};
	double start = kedge__clock_seconds();

	memcpy(b->copy, b->data, b->size);
	b->memcpy_seconds = kedge__clock_seconds() - start;
	kedge__capture_note(b, row, b->memcpy_seconds, 1);
}

/* ---- results */

static void add_json(json_t *rows, struct kedge__capture_row *row)
{
	json_t *o = kedge__json_object();

	kedge__json_text(o, "pages", row->pages);
	kedge__json_text(o, "who", row->who);
	kedge__json_text(o, "what", row->what);
	if (row->percent >= 0) {
		kedge__json_real(o, "dirty_percent", row->percent);
		kedge__json_text(o, "pattern", row->pattern);
	}
	kedge__json_uint(o, "page_count", row->count);
	kedge__json_real(o, "seconds", kedge__bench_median(row->seconds, row->turns));
	kedge__json_real(o, "seconds_lowest", row->seconds[0]);
	kedge__json_real(o, "seconds_highest", row->seconds[row->turns - 1]);
	if (row->ratio[0] >= 0) {
		kedge__json_real(o, "ratio", kedge__bench_median(row->ratio, row->turns));
		kedge__json_real(o, "ratio_lowest", row->ratio[0]);
		kedge__json_real(o, "ratio_highest", row->ratio[row->turns - 1]);
	}
	kedge__json_add(rows, o);
}

static void print_json(struct kedge__capture_bench *b)
{
	json_t *o = kedge__json_object(), *rows = kedge__json_array();

	kedge__json_uint(o, "size", b->size);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_uint(o, "threads", (uint64_t)kedge__pool_threads(b->pool));
	kedge__json_text(o, "reducer", b->reducer);
	for (size_t i = 0; i < b->rows.count; i++)
		add_json(rows, &b->rows.at[i]);
	kedge__json_set(o, "results", rows);
	kedge__json_print(o);
}

static void add_text(struct kedge__table *t, struct kedge__capture_row *row)
{
	char seconds[KEDGE__TEXT_ROOM];

	kedge__table_add(t, "%s", row->pages);
	kedge__table_add(t, "%s", row->who);
	kedge__table_add(t, "%s", row->what);
	if (row->percent >= 0)
		kedge__table_add(t, "%g %% %s", row->percent, row->pattern);
	else
		kedge__table_add(t, "%s", "");
	kedge__table_add(t, "%llu", (unsigned long long)row->count);
	kedge__table_add(t, "%s", kedge__text_seconds(kedge__bench_median(row->seconds, row->turns), seconds));
	if (row->ratio[0] < 0) {
		kedge__table_add(t, "%s", "");
		kedge__table_add(t, "%s", "");
		return;
	}
	kedge__table_add(t, "%.4f", kedge__bench_median(row->ratio, row->turns));
	kedge__table_add(t, "%.4f..%.4f", row->ratio[0], row->ratio[row->turns - 1]);
}

static void print_text(struct kedge__capture_bench *b)
{
	static const char *const heading[] = {"PAGES", "WHO", "WHAT", "DIRTY", "COUNT", "TIME", "RATIO", "SPREAD"};
	struct kedge__table t;

	kedge__table_init(&t, "llllrrrr");
	for (size_t i = 0; i < KEDGE__COUNT(heading); i++)
		kedge__table_add(&t, "%s", heading[i]);
	for (size_t i = 0; i < b->rows.count; i++)
		add_text(&t, &b->rows.at[i]);
	kedge__table_print(&t, stdout);
}

/* ---- the run */

static unsigned char *memory_new(const struct kedge__capture_bench *b)
{
	unsigned char *p = mmap(NULL, b->size + b->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* Where the kernel knows no huge pages, all pages are small. */
	(void)madvise(p, b->size + b->page, strcmp(b->pages, "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	for (size_t at = 0; at < b->size; at += 8)
		memcpy(p + at, &at, 8);
	return p;
}

static int run_turns(struct kedge__capture_bench *b, struct kedge__error *err)
{
	int rc = 0;

	b->data = memory_new(b);
	b->copy = memory_new(b);
	if (!b->data || !b->copy)
		rc = kedge__error_nomem(err);
	for (uint64_t turn = 0; rc == 0 && turn < b->repeat; turn++) {
		if (!b->jobs)
			rc = kedge__capture_cow(b, err);
		if (rc == 0 && !b->jobs)
			rc = kedge__capture_trackers(b, err);
		if (rc == 0)
			rc = kedge__capture_job(b, err);
	}
	kedge__map_free(b->data, b->size + b->page);
	kedge__map_free(b->copy, b->size + b->page);
	return rc;
}

static int run(struct kedge__capture_bench *b, struct kedge__error *err)
{
	static const char *const both[] = {"base", "huge"};
	int rc = kedge__pool_new((int)b->threads, &b->pool, err);

	for (size_t i = 0; rc == 0 && i < KEDGE__COUNT(both); i++) {
		b->pages = both[i];
		if (strcmp(b->pages_text, "both") == 0 || strcmp(b->pages_text, b->pages) == 0)
			rc = run_turns(b, err);
	}
	if (rc == 0 && b->json)
		print_json(b);
	else if (rc == 0)
		print_text(b);
	kedge__pool_free(b->pool);
	kedge__array_done(&b->rows);
	return rc;
}

static int check(const struct kedge__capture_bench *b)
{
	enum kedge__reducer_id id;

	if (!b->repeat || b->repeat > KEDGE__CAPTURE_TURNS / 2)
		return kedge__usage_error(&b->usage, "--repeat is 1 to %d", KEDGE__CAPTURE_TURNS / 2);
	if (b->size < ((uint64_t)1 << 20) || b->size % b->page)
		return kedge__usage_error(&b->usage, "--size is at least 1 MiB, in whole pages");
	if (!b->threads || b->threads > 1024)
		return kedge__usage_error(&b->usage, "--threads is 1 to 1024");
	if (strcmp(b->pages_text, "base") != 0 && strcmp(b->pages_text, "huge") != 0 &&
	    strcmp(b->pages_text, "both") != 0)
		return kedge__usage_error(&b->usage, "--pages is base, huge or both");
	if (kedge__reducer_parse(b->reducer, &id))
		return kedge__usage_error(&b->usage, "--reducer is full, basic, list, tree, rex or auto");
	return 0;
}

int kedge__bench_capture(int argc, char **argv)
{
	struct kedge__capture_bench b = {.size = UINT64_C(4) << 30,
					 .repeat = 3,
					 .threads = (uint64_t)kedge__tool_threads(&(struct kedge__job_settings){0}),
					 .pages_text = "both",
					 .reducer = "basic",
					 .page = (size_t)sysconf(_SC_PAGESIZE),
					 .seed = 1};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES",
	     "memory to track (default: 4 GiB); a second region of that size is copied to"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N",
	     "turns; medians are printed, with the lowest and the highest (default: 3)"},
	    {"pages", 0, KEDGE__OPTION_TEXT, &b.pages_text, "KIND",
	     "base, huge (transparent huge pages) or both (default)"},
	    {"threads", 0, KEDGE__OPTION_UINT, &b.threads, "N",
	     "threads of \"begin, all threads\" (default: all that there are)"},
	    {"aside", 0, KEDGE__OPTION_SIZE, &b.aside, "BYTES", "memory for pages copied aside (default: 64 MiB)"},
	    {"jobs", 0, KEDGE__OPTION_FLAG, &b.jobs, NULL, "checkpoints of jobs alone, no trackers and sessions"},
	    {"reducer", 0, KEDGE__OPTION_TEXT, &b.reducer, "NAME", "reducer of the jobs (default: basic)"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench capture",
	    .about = "Measures page trackers and copy-on-write sessions against memcpy of the whole region. RATIO is "
		     "the time\n"
		     "over that of the memcpy before it; for loops, over that of the loop alone; TIME of first writes "
		     "is per page.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench capture --size 1GiB --repeat 3 --pages base",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	status = check(&b);
	if (status)
		return status;
	return run(&b, &err) ? kedge__tool_fail(b.usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}
