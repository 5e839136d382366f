/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench versions: does a checkpoint, an open, a listing, a restart or a gc cost more with every version that is
 * stored? A bare write, fsync, rename and fsync of the directory, of the same bytes on the same file system, stands
 * beside, in turns. Ranks are processes. All versions are kept.
 */
#include "versions.h"
#include "plan/plan.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* What was written without syncing would be written while others are measured. */
static void settle(const struct kedge__versions_bench *b)
{
	for (int l = 0; l < 2; l++) {
		int fd = open(b->places[l], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0)
			(void)syncfs(fd);
		kedge__fs_close(fd);
	}
}

static int phase(struct kedge__versions_bench *b, int ranks, int (*run)(void *bench, int rank))
{
	kedge__bench_meeting_init(&b->shared->front, ranks);
	kedge__bench_meeting_init(&b->shared->back, ranks);
	kedge__bench_meeting_init(&b->shared->bench, ranks);
	return kedge__bench_ranks_run(ranks, run, b);
}

static int count_measure(struct kedge__versions_bench *b, uint64_t count, struct kedge__versions_row *row)
{
	double start = kedge__clock_seconds();
	int rc = 0;

	b->target = count;
	if (b->stored < count)
		rc = phase(b, b->ranks, kedge__versions_fill);
	if (rc)
		return rc;
	b->stored = KEDGE__MAX(b->stored, count);
	settle(b);
	row->count = b->stored;
	row->fill = kedge__clock_seconds() - start;
	rc = phase(b, b->ranks, kedge__versions_reopen);
	if (!rc)
		rc = phase(b, 1, kedge__versions_command);
	if (!rc)
		rc = phase(b, b->ranks, kedge__versions_extend);
	if (rc)
		return rc;
	b->stored += 1 + b->checkpoints;
	kedge__versions_collect(b, row);
	return 0;
}

static int cell_measure(struct kedge__versions_bench *b)
{
	struct kedge__versions_row rows[KEDGE__VERSIONS_COUNTS];
	int rc = 0;

	b->stored = 0;
	for (size_t i = 0; i < b->count_count && !rc; i++)
		rc = count_measure(b, b->counts[i], &rows[i]);
	if (!rc)
		kedge__versions_report(b, rows, b->count_count);
	for (int l = 0; l < 2; l++)
		kedge__bench_dir_clear(b->places[l]);
	return rc;
}

static int prepare(struct kedge__versions_bench *b, struct kedge__error *err)
{
	const char *parents[2] = {b->dir, b->l2_dir ? b->l2_dir : b->dir};

	b->shared = kedge__bench_shared_alloc(sizeof(*b->shared));
	if (!b->shared)
		return kedge__error_nomem(err);
	for (int l = 0; l < 2; l++) {
		int rc = kedge__bench_dir_make(parents[l], &b->places[l], err);

		if (rc)
			return rc;
		b->stores[l] = kedge__asprintf("%s/l%d", b->places[l], l + 1);
		if (!b->stores[l])
			return kedge__error_nomem(err);
	}
	if (b->json)
		b->results = kedge__json_array();
	return 0;
}

static void clean_up(struct kedge__versions_bench *b)
{
	for (int l = 0; l < 2; l++) {
		if (b->places[l])
			kedge__bench_dir_remove(b->places[l]);
		kedge__free(b->places[l]);
		kedge__free(b->stores[l]);
	}
}

static void print_json(struct kedge__versions_bench *b)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "size_per_rank", b->size);
	kedge__json_uint(o, "changed_percent", b->changed_percent);
	kedge__json_uint(o, "checkpoints", b->checkpoints);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_bool(o, "sync", !b->no_sync);
	kedge__json_set(o, "results", b->results);
	kedge__json_print(o);
}

static int cells_measure(struct kedge__versions_bench *b)
{
	static const char *const ranks[] = {"1", "4"}, *const levels[] = {"1", "2"};
	const char *const *ranks_texts = b->ranks_texts.count ? b->ranks_texts.at : ranks;
	const char *const *level_texts = b->level_texts.count ? b->level_texts.at : levels;
	size_t ranks_count = b->ranks_texts.count ? b->ranks_texts.count : KEDGE__COUNT(ranks);
	size_t level_count = b->level_texts.count ? b->level_texts.count : KEDGE__COUNT(levels);
	int rc = 0;

	for (size_t i = 0; i < ranks_count; i++)
		for (size_t k = 0; k < level_count && !rc; k++) {
			b->ranks = atoi(ranks_texts[i]);
			b->l2 = atoi(level_texts[k]) == 2;
			rc = cell_measure(b);
		}
	return rc;
}

static int run(struct kedge__versions_bench *b)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char size[KEDGE__TEXT_ROOM];
	int rc = prepare(b, &err);

	if (!rc && !b->json)
		printf(
		    "%s per rank, %llu %% of it new in each version; milliseconds, median of %llu checkpoints and %llu "
		    "of the others;\nratio: to the first count, of time by the clock and of processor time (cpu)\n\n",
		    kedge__text_bytes(b->size, size), (unsigned long long)b->changed_percent,
		    (unsigned long long)b->checkpoints, (unsigned long long)b->repeat);
	kedge__bar_init(&b->bar, "fill", true);
	if (!rc) {
		rc = cells_measure(b);
		if (rc)
			kedge__error_set(&err, rc, 0, "a rank failed");
	}
	kedge__bar_done(&b->bar);
	clean_up(b);
	if (!rc && b->json)
		print_json(b);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

/* ---- the command line */

static bool texts_valid(const struct kedge__text_list *texts, int most)
{
	for (size_t i = 0; i < texts->count; i++)
		if (atoi(texts->at[i]) < 1 || atoi(texts->at[i]) > most)
			return false;
	return true;
}

/* Ascending whole numbers. */
static bool counts_read(struct kedge__versions_bench *b)
{
	double counts[KEDGE__VERSIONS_COUNTS];

	if (kedge__quantity_parse_list(KEDGE__QUANTITY_NUMBER, b->counts_text, counts, KEDGE__COUNT(counts),
				       &b->count_count, NULL) != 0)
		return false;
	for (size_t i = 0; i < b->count_count; i++) {
		if (!(counts[i] >= 1 && counts[i] <= 1e9))
			return false;
		b->counts[i] = (uint64_t)counts[i];
		if ((double)b->counts[i] != counts[i] || (i && counts[i] <= counts[i - 1]))
			return false;
	}
	return b->count_count > 0;
}

static int check(struct kedge__versions_bench *b)
{
	if (!counts_read(b))
		return kedge__usage_error(&b->usage,
					  "--versions takes 1 to %d whole numbers, ascending, as in 10,100,1000",
					  KEDGE__VERSIONS_COUNTS);
	if (b->size < 8 || b->size % 8 || b->size > UINT64_C(1) << 30)
		return kedge__usage_error(&b->usage, "--size takes 8 bytes to 1 GiB, a multiple of 8");
	if (!b->changed_percent || b->changed_percent > 100)
		return kedge__usage_error(&b->usage, "--changed takes 1 to 100");
	if (!b->checkpoints || b->checkpoints > KEDGE__VERSIONS_TURNS || !b->repeat ||
	    b->repeat > KEDGE__VERSIONS_TURNS)
		return kedge__usage_error(&b->usage, "--checkpoints and --repeat take 1 to %d", KEDGE__VERSIONS_TURNS);
	if (!texts_valid(&b->ranks_texts, KEDGE__BENCH_RANKS))
		return kedge__usage_error(&b->usage, "--ranks takes 1 to %d", KEDGE__BENCH_RANKS);
	if (!texts_valid(&b->level_texts, 2))
		return kedge__usage_error(&b->usage, "--levels takes 1 or 2");
	return KEDGE__EXIT_OK;
}

int kedge__bench_versions(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct kedge__versions_bench b = {.size = 4096,
					  .changed_percent = 100,
					  .checkpoints = 15,
					  .repeat = 5,
					  .counts_text = "10,100,1000,10000",
					  .dir = tmp && *tmp ? tmp : "/tmp"};
	const struct kedge__option options[] = {
	    {"versions", 0, KEDGE__OPTION_TEXT, &b.counts_text, "LIST",
	     "how many stored versions to measure at (default: 10,100,1000,10000)"},
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of the state of a rank (default: 4k)"},
	    {"changed", 0, KEDGE__OPTION_UINT, &b.changed_percent, "PERCENT",
	     "how much of it is new in each version (default: 100)"},
	    {"ranks", 0, KEDGE__OPTION_LIST, &b.ranks_texts, "N", "processes; may be given again (default: 1 and 4)"},
	    {"levels", 0, KEDGE__OPTION_LIST, &b.level_texts, "N",
	     "1: L1 alone, 2: L1 and L2; may be given again (default: both)"},
	    {"checkpoints", 0, KEDGE__OPTION_UINT, &b.checkpoints, "N",
	     "checkpoints measured at each count (default: 15)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "times that all else is measured there (default: 5)"},
	    {"no-sync", 0, KEDGE__OPTION_FLAG, &b.no_sync, NULL, "sync=no, and no fsync of the bare write"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.dir, "DIR", "where L1 is made (default: $TMPDIR or /tmp)"},
	    {"l2-dir", 0, KEDGE__OPTION_TEXT, &b.l2_dir, "DIR", "where L2 is made (default: as --dir)"},
	    KEDGE__OPTION_SET(&b.sets),
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench versions",
	    .about =
		"How a checkpoint, an open, a listing, restarts of the newest and the oldest version and a gc that "
		"removes\n"
		"nothing depend on the number of stored versions, beside a bare write, fsync, rename and fsync of "
		"the same\n"
		"bytes. The store is filled without syncing.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench versions --json\n"
		       "kedge-bench versions --versions 10,100,1000 --ranks 1 --levels 1 --dir /scratch",
	};
	if (kedge__options_parse(&b.usage, argc, argv, &first, &status)) {
		status = check(&b);
		if (!status)
			status = run(&b);
	}
	kedge__array_done(&b.ranks_texts);
	kedge__array_done(&b.level_texts);
	kedge__array_done(&b.sets);
	return status;
}
