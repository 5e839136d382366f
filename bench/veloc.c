/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench veloc-like: checkpoints as users of VELOC take them, from several processes at once: scratch in memory,
 * persistent storage on disk, all of the state changed between two versions or a part of it. Plain writes of the same
 * bytes to the same places by the same processes stand beside, in turns. Of the processes' times the longest counts, of
 * the versions' the median. The state changes while a version is completed in the background: how much longer that
 * takes than alone is what the background costs the application. Settings are those of compat/veloc in mode async, and
 * beside them those that stand still for the shortest time.
 */
#include "bench.h"
#include "capture/capture.h"
#include "group.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define RANKS_MAX    KEDGE__BENCH_RANKS
#define VERSIONS_MAX 32
#define PAGE         4096

enum figure { SCRATCH, BLOCKED, BESIDE, PERSISTENT, COMPLETE, CPU, PLAIN_CPU, FIGURES };

static const unsigned percents[] = {100, 10, 1};

struct shared {
	struct kedge__bench_meeting front, back, bench;
	double figures[FIGURES][VERSIONS_MAX][RANKS_MAX];
	double restart[RANKS_MAX], plain_read[RANKS_MAX], alone[RANKS_MAX];
	uint64_t stored[VERSIONS_MAX][RANKS_MAX];
};

struct bench {
	struct kedge__usage usage;
	uint64_t size, versions;
	struct kedge__text_list rank_texts, sets;
	const char *scratch, *persistent;
	const char *capture_text; /* NULL: copy, then cow */
	bool json;
	char *dirs[2]; /* of our own, in scratch and persistent */
	struct shared *shared;
	json_t *rows;
	struct kedge__table table;

	int ranks; /* of what is being measured */
	unsigned percent;
	bool sync;
	const char *capture;
};

struct rank { /* in a process of its own */
	struct bench *b;
	int rank;
	uint64_t *data, seed;
	kedge_t *k;
	char *plain[2];
	struct kedge__bench_channel front, back;
};

static void together(struct rank *r)
{
	kedge__bench_meet(&r->b->shared->bench);
}

/* ---- the state */

static uint64_t next_random(struct rank *r)
{
	uint64_t x = r->seed;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return r->seed = x;
}

/* All words; or all words of one page in each hundred-percent'th of them. */
static void change(struct rank *r)
{
	uint64_t words = r->b->size / 8, step = PAGE / 8 * (100 / r->b->percent);

	for (uint64_t at = 0; at < words; at += step) {
		uint64_t first = at + (r->b->percent < 100 ? next_random(r) % (100 / r->b->percent) * (PAGE / 8) : 0);

		for (uint64_t i = first; i < words && i < first + PAGE / 8; i++)
			r->data[i] += next_random(r) | 1;
	}
}

/* ---- plain writes and reads */

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static int plain_write(struct rank *r, int level, bool sync, double *seconds)
{
	double start;
	uint64_t done = 0;
	int fd;

	unlink(r->plain[level]);
	together(r);
	start = kedge__clock_seconds();
	fd = open(r->plain[level], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	while (fd >= 0 && done < r->b->size) {
		ssize_t n = write(fd, (const char *)r->data + done, KEDGE__MIN(r->b->size - done, UINT64_C(1) << 26));

		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	if (fd < 0 || done < r->b->size || (sync && fsync(fd) != 0) || close(fd) != 0)
		return KEDGE_E_IO;
	*seconds = kedge__clock_seconds() - start;
	return 0;
}

static int plain_read(struct rank *r, double *seconds)
{
	double start;
	uint64_t done = 0;
	int fd;

	together(r);
	start = kedge__clock_seconds();
	fd = open(r->plain[0], O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && done < r->b->size) {
		ssize_t n = read(fd, (char *)r->data + done, r->b->size - done);

		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	if (fd < 0 || done < r->b->size || close(fd) != 0)
		return KEDGE_E_IO;
	*seconds = kedge__clock_seconds() - start;
	return 0;
}

/* ---- one rank */

static int job_open(struct rank *r)
{
	const struct bench *b = r->b;
	struct kedge_group group = {
	    .rank = r->rank,
	    .size = b->ranks,
	    .any_thread = 1,
	    .allgather = kedge__bench_allgather,
	    .ctx = &r->front,
	    .background = &r->back,
	};
	char l1[4200], l2[4200], capture[64];
	const char *settings[64] = {l1, l2, capture, b->sync ? "sync=yes" : "sync=no", "reducer=basic"};
	size_t n = 5;
	int rc;

	snprintf(l1, sizeof(l1), "l1=%s", b->dirs[0]);
	snprintf(l2, sizeof(l2), "l2=%s", b->dirs[1]);
	snprintf(capture, sizeof(capture), "capture=%s", b->capture);
	for (size_t i = 0; i < b->sets.count && n + 1 < KEDGE__COUNT(settings); i++)
		settings[n++] = b->sets.at[i];
	settings[n] = NULL;
	rc = kedge_open_group("bench", NULL, settings, &group, &r->k);
	return rc ? rc : kedge_protect(r->k, "state", r->data, b->size / 8, KEDGE_U64);
}

static double change_timed(struct rank *r)
{
	double start = kedge__clock_seconds();

	change(r);
	return kedge__clock_seconds() - start;
}

/* The application goes on to its next state at once. */
static int checkpoint(struct rank *r, uint64_t version, double *blocked, double *beside, double *complete)
{
	double start;
	int rc;

	together(r);
	start = kedge__clock_seconds();
	rc = kedge_checkpoint(r->k, version);
	*blocked = kedge__clock_seconds() - start;
	*beside = change_timed(r);
	if (!rc)
		rc = kedge_wait(r->k);
	*complete = kedge__clock_seconds() - start;
	return rc;
}

static int version_measure(struct rank *r, uint64_t v)
{
	struct shared *s = r->b->shared;
	double one[FIGURES] = {0}, cpu = cpu_seconds();
	struct kedge_stats stats = {0};
	int rc;

	rc = plain_write(r, 0, false, &one[SCRATCH]);
	if (!rc)
		rc = plain_write(r, 1, r->b->sync, &one[PERSISTENT]);
	one[PLAIN_CPU] = cpu_seconds() - cpu;
	cpu = cpu_seconds();
	if (!rc)
		rc = checkpoint(r, v + 1, &one[BLOCKED], &one[BESIDE], &one[COMPLETE]);
	one[CPU] = cpu_seconds() - cpu;
	if (!rc)
		rc = kedge_stats_get(r->k, &stats);
	for (int f = 0; f < FIGURES; f++)
		s->figures[f][v][r->rank] = one[f];
	s->stored[v][r->rank] = stats.stored_bytes;
	return rc;
}

static int restart_measure(struct rank *r)
{
	struct shared *s = r->b->shared;
	double start;
	int rc = kedge_close(r->k);

	r->k = NULL;
	if (!rc)
		rc = job_open(r);
	together(r);
	start = kedge__clock_seconds();
	if (!rc)
		rc = kedge_restart(r->k, KEDGE_NEWEST, NULL);
	s->restart[r->rank] = kedge__clock_seconds() - start;
	return rc ? rc : plain_read(r, &s->plain_read[r->rank]);
}

static int rank_measure(struct rank *r)
{
	double unused;
	int rc;

	change(r);
	together(r);
	r->b->shared->alone[r->rank] = change_timed(r);
	rc = job_open(r);
	if (!rc)
		rc = checkpoint(r, 0, &unused, &unused, &unused);
	for (uint64_t v = 0; v < r->b->versions && !rc; v++)
		rc = version_measure(r, v);
	return rc ? rc : restart_measure(r);
}

static int rank_main(void *ctx, int rank)
{
	struct bench *b = ctx;
	struct rank r = {.b = b, .rank = rank, .seed = UINT64_C(0x9E3779B97F4A7C15) * (unsigned)(rank + 1)};
	int rc = KEDGE_E_NOMEM;

	r.front = (struct kedge__bench_channel){&b->shared->front, rank, b->ranks};
	r.back = (struct kedge__bench_channel){&b->shared->back, rank, b->ranks};
	for (int l = 0; l < 2; l++) {
		r.plain[l] = kedge__asprintf("%s/plain-%d", b->dirs[l], rank);
		if (!r.plain[l])
			kedge__tool_no_memory();
	}
	r.data = kedge__map_alloc(b->size);
	for (uint64_t i = 0; r.data && i < b->size / 8; i++)
		r.data[i] = next_random(&r);
	if (r.data)
		rc = rank_measure(&r);
	if (rc)
		(void)kedge__tool_fail_job(b->usage.command, r.k, rc, "rank %d cannot go on", rank);
	else
		rc = kedge_close(r.k);
	return rc;
}

/* ---- results */

static double largest(const double *v, int n)
{
	double max = v[0];

	for (int i = 1; i < n; i++)
		max = KEDGE__MAX(max, v[i]);
	return max;
}

static double sum(const double *v, int n)
{
	double all = 0;

	for (int i = 0; i < n; i++)
		all += v[i];
	return all;
}

/* Over versions, of the longest of the ranks' (times) or of all of them (CPU). */
static double median(const struct bench *b, enum figure f)
{
	double v[VERSIONS_MAX];
	uint64_t n = b->versions;

	for (uint64_t i = 0; i < n; i++)
		v[i] = f == CPU || f == PLAIN_CPU ? sum(b->shared->figures[f][i], b->ranks)
						  : largest(b->shared->figures[f][i], b->ranks);
	return kedge__bench_median(v, n);
}

static double per_gigabyte(const struct bench *b, enum figure f)
{
	return median(b, f) / ((double)b->size * b->ranks * 1e-9);
}

static uint64_t stored_bytes(const struct bench *b)
{
	uint64_t all = 0;

	for (int r = 0; r < b->ranks; r++)
		all += b->shared->stored[b->versions - 1][r];
	return all;
}

static double slowdown(const struct bench *b)
{
	return median(b, BESIDE) / largest(b->shared->alone, b->ranks);
}

static void add_json(struct bench *b)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "ranks", (uint64_t)b->ranks);
	kedge__json_uint(o, "changed_percent", b->percent);
	kedge__json_bool(o, "fsync", b->sync);
	kedge__json_text(o, "capture", b->capture);
	kedge__json_real(o, "plain_scratch_seconds", median(b, SCRATCH));
	kedge__json_real(o, "blocked_seconds", median(b, BLOCKED));
	kedge__json_real(o, "blocked_ratio", median(b, BLOCKED) / median(b, SCRATCH));
	kedge__json_real(o, "slowdown", slowdown(b));
	kedge__json_real(o, "plain_persistent_seconds", median(b, PERSISTENT));
	kedge__json_real(o, "persistent_seconds", median(b, COMPLETE));
	kedge__json_real(o, "plain_read_seconds", largest(b->shared->plain_read, b->ranks));
	kedge__json_real(o, "restart_seconds", largest(b->shared->restart, b->ranks));
	kedge__json_real(o, "plain_cpu_seconds_per_gigabyte", per_gigabyte(b, PLAIN_CPU));
	kedge__json_real(o, "cpu_seconds_per_gigabyte", per_gigabyte(b, CPU));
	kedge__json_uint(o, "stored_bytes", stored_bytes(b));
	kedge__json_add(b->rows, o);
}

static void add_text(struct bench *b)
{
	struct kedge__table *t = &b->table;
	char stored[KEDGE__TEXT_ROOM];

	kedge__table_add(t, "%d", b->ranks);
	kedge__table_add(t, "%u %%", b->percent);
	kedge__table_add(t, "%s", b->sync ? "yes" : "no");
	kedge__table_add(t, "%s", b->capture);
	kedge__table_add(t, "%.3f", median(b, SCRATCH));
	kedge__table_add(t, "%.3f", median(b, BLOCKED));
	kedge__table_add(t, "%.3f", median(b, BLOCKED) / median(b, SCRATCH));
	kedge__table_add(t, "%.2f", slowdown(b));
	kedge__table_add(t, "%.3f", median(b, PERSISTENT));
	kedge__table_add(t, "%.3f", median(b, COMPLETE));
	kedge__table_add(t, "%.3f", largest(b->shared->plain_read, b->ranks));
	kedge__table_add(t, "%.3f", largest(b->shared->restart, b->ranks));
	kedge__table_add(t, "%.2f", per_gigabyte(b, PLAIN_CPU));
	kedge__table_add(t, "%.2f", per_gigabyte(b, CPU));
	kedge__table_add(t, "%s", kedge__text_bytes(stored_bytes(b), stored));
}

/* What `auto` is here. */
static const char *tracker_name(void)
{
	char device[300];

	return kedge__device_find("", device, sizeof(device)) || kedge__tracker_probe("uffd", NULL) ? "none" : "uffd";
}

static void print_results(struct bench *b)
{
	char size[KEDGE__TEXT_ROOM];

	if (b->json) {
		json_t *o = kedge__json_object();

		kedge__json_uint(o, "size_per_rank", b->size);
		kedge__json_uint(o, "versions", b->versions);
		kedge__json_text(o, "tracker", tracker_name());
		kedge__json_set(o, "results", b->rows);
		kedge__json_print(o);
		return;
	}
	printf("%s a rank, reducer = basic, track = auto (%s), median of %llu versions; seconds, beside a plain write "
	       "(read) "
	       "of the same bytes\n\n",
	       kedge__text_bytes(b->size, size), tracker_name(), (unsigned long long)b->versions);
	kedge__table_print(&b->table, stdout);
}

/* ---- the run */

static int cell_measure(struct bench *b)
{
	kedge__bench_meeting_init(&b->shared->front, b->ranks);
	kedge__bench_meeting_init(&b->shared->back, b->ranks);
	kedge__bench_meeting_init(&b->shared->bench, b->ranks);
	return kedge__bench_ranks_run(b->ranks, rank_main, b);
}

static int row_measure(struct bench *b, const char *capture)
{
	int rc;

	b->capture = capture;
	rc = cell_measure(b);
	if (!rc && b->json)
		add_json(b);
	else if (!rc)
		add_text(b);
	for (int l = 0; l < 2; l++)
		kedge__bench_dir_clear(b->dirs[l]);
	return rc;
}

static int ranks_measure(struct bench *b)
{
	int rc = 0;

	for (size_t i = 0; i < KEDGE__COUNT(percents) && !rc; i++) {
		for (int sync = 1; sync >= 0 && !rc; sync--) {
			b->percent = percents[i];
			b->sync = sync;
			rc = row_measure(b, b->capture_text ? b->capture_text : "copy");
			if (!rc && !b->capture_text)
				rc = row_measure(b, "cow");
		}
	}
	return rc;
}

static int prepare(struct bench *b, struct kedge__error *err)
{
	static const char *const heads[] = {"ranks",      "changed", "fsync",        "capture",    "plain scratch",
					    "blocked",    "ratio",   "slowdown",     "plain disk", "on disk",
					    "plain read", "restart", "plain CPU/GB", "CPU/GB",     "stored"};
	const char *places[2] = {b->scratch, b->persistent};

	b->shared = kedge__bench_shared_alloc(sizeof(*b->shared));
	if (!b->shared)
		return kedge__error_nomem(err);
	for (int l = 0; l < 2; l++) {
		int rc = kedge__bench_dir_make(places[l], &b->dirs[l], err);

		if (rc)
			return rc;
	}
	if (b->json)
		b->rows = kedge__json_array();
	kedge__table_init(&b->table, "rlllrrrrrrrrrrr");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_add(&b->table, "%s", heads[i]);
	return 0;
}

static int run(struct bench *b)
{
	static const char *const presets[] = {"2", "4"};
	const char *const *texts = b->rank_texts.count ? b->rank_texts.at : presets;
	size_t n = b->rank_texts.count ? b->rank_texts.count : KEDGE__COUNT(presets);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = prepare(b, &err);

	for (size_t i = 0; !rc && i < n; i++) {
		b->ranks = atoi(texts[i]);
		rc = ranks_measure(b);
		if (rc)
			kedge__error_set(&err, rc, 0, "a rank failed");
	}
	for (int l = 0; l < 2 && b->dirs[l]; l++) {
		kedge__bench_dir_remove(b->dirs[l]);
		kedge__free(b->dirs[l]);
	}
	if (!rc)
		print_results(b);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

static bool ranks_valid(const struct kedge__text_list *texts)
{
	for (size_t i = 0; i < texts->count; i++) {
		int ranks = atoi(texts->at[i]);

		if (ranks < 1 || ranks > RANKS_MAX)
			return false;
	}
	return true;
}

int kedge__bench_veloc(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct bench b = {.size = UINT64_C(256) << 20,
			  .versions = 3,
			  .scratch = "/dev/shm",
			  .persistent = tmp && tmp[0] ? tmp : "/tmp"};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of the state of a rank (default: 256MiB)"},
	    {"ranks", 0, KEDGE__OPTION_LIST, &b.rank_texts, "N", "processes; may be given again (default: 2 and 4)"},
	    {"versions", 0, KEDGE__OPTION_UINT, &b.versions, "N",
	     "versions, of which the median is shown (default: 3)"},
	    {"scratch", 0, KEDGE__OPTION_TEXT, &b.scratch, "DIR", "where L1 is made (default: /dev/shm)"},
	    {"persistent", 0, KEDGE__OPTION_TEXT, &b.persistent, "DIR", "where L2 is made (default: $TMPDIR, or /tmp)"},
	    {"capture", 0, KEDGE__OPTION_TEXT, &b.capture_text, "HOW", "the setting capture (default: copy, then cow)"},
	    KEDGE__OPTION_SET(&b.sets),
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench veloc-like",
	    .about =
		"Checkpoints of several processes at once, with scratch in memory and persistent storage on disk, and\n"
		"100, 10 and 1 % of the pages changed between two: how long a process stands still, how long until "
		"the\n"
		"version is on disk, with and without fsync, how much slower the state changes meanwhile, how long a\n"
		"restart takes, and processor time; beside plain\n"
		"writes and reads of the same bytes in the same places.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example =
		"kedge-bench veloc-like\nkedge-bench veloc-like --ranks 2 --size 64MiB --persistent /scratch --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (!b.versions || b.versions > VERSIONS_MAX || b.size < PAGE || b.size % 8 || !ranks_valid(&b.rank_texts))
		return kedge__usage_error(&b.usage, "1 to %d versions and ranks from 1 to %d, of at least 4 KiB",
					  VERSIONS_MAX, RANKS_MAX);
	return run(&b);
}
