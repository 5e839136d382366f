/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench ranks: all ranks of a job change all of their state and take a version in the background, beside a plain
 * write of the same bytes by the same processes, in turns. With two levels, the plain write goes to the first, and from
 * there, with fsync, to the second. Ranks are processes. What memory allows is measured as well: a copy of the state,
 * and a pass over it, by all of them at once.
 */
#include "bench.h"
#include "group.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TURNS 32 /* at most */
#define PIECE ((size_t)1 << 20)

/* Seconds; of all ranks the longest, or the sum. */
enum figure { PLAIN, PLAIN_CPU, COPY, PASS, BLOCKED, STORED, CPU, FIGURES };

static const char *const captures[] = {"copy", "cow"};

struct shared {
	struct kedge__bench_meeting front, back, bench;
	double figures[FIGURES][TURNS][KEDGE__BENCH_RANKS];
};

struct bench {
	struct kedge__usage usage;
	uint64_t size, ranks, repeat, threads;
	const char *dir, *l2_dir, *capture_text;
	struct kedge__text_list sets;
	bool sync, json;
	char *places[2]; /* of our own, in dir and l2_dir */
	struct shared *shared;
	const char *capture;
	struct kedge__table table;
	json_t *results;
};

struct rank {
	struct bench *b;
	int rank;
	uint64_t *data, seed;
	kedge_t *k;
	struct kedge__bench_channel front, back;
	char plain[2][4300];
	uint8_t *piece, *copy; /* of the state: what memory allows */
};

/* ---- the clocks */

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double together(struct rank *r)
{
	kedge__bench_meet(&r->b->shared->bench);
	return kedge__clock_seconds();
}

static void note(const struct rank *r, enum figure f, uint64_t turn, double value)
{
	r->b->shared->figures[f][turn][r->rank] = value;
}

/* For files and a version. */
static void memory_fetch(const struct rank *r)
{
	kedge__bench_memory_fetch(r->b->size * (r->b->l2_dir ? 5 : 3) / 2, r->b->ranks);
}

/* ---- what memory allows */

/* To memory that is there, past the cache, as that of an image that is held. */
static void memory_measure(struct rank *r, uint64_t turn)
{
	double start = together(r);

	for (uint64_t at = 0; at < r->b->size; at += PIECE)
		kedge__copy_past_cache(r->copy + at, (const uint8_t *)r->data + at,
				       (size_t)KEDGE__MIN(PIECE, r->b->size - at));
	note(r, COPY, turn, kedge__clock_seconds() - start);
	start = together(r);
	(void)kedge__sum_of(r->copy, r->b->size, 0);
	note(r, PASS, turn, kedge__clock_seconds() - start);
}

/* ---- the plain write */

static int write_pieces(int fd, const void *data, uint64_t bytes, const char *path, struct kedge__error *err)
{
	int rc = 0;

	for (uint64_t at = 0; !rc && at < bytes; at += PIECE)
		rc = kedge__fs_write(fd, (const uint8_t *)data + at, (size_t)KEDGE__MIN(PIECE, bytes - at), path, err);
	return rc;
}

static int plain_write(struct rank *r, struct kedge__error *err)
{
	int fd = -1, rc = kedge__fs_create(r->plain[0], &fd, err);

	if (!rc)
		rc = write_pieces(fd, r->data, r->b->size, r->plain[0], err);
	if (!rc && r->b->sync)
		rc = kedge__fs_sync(fd, r->plain[0], err);
	kedge__fs_close(fd);
	return rc;
}

static int plain_copy(struct rank *r, struct kedge__error *err)
{
	int from = -1, to = -1, rc = kedge__fs_open_read(r->plain[0], &from, err);

	if (!rc)
		rc = kedge__fs_create(r->plain[1], &to, err);
	for (uint64_t at = 0; !rc && at < r->b->size; at += PIECE) {
		size_t n = (size_t)KEDGE__MIN(PIECE, r->b->size - at);

		rc = kedge__fs_pread(from, r->piece, n, at, r->plain[0], err);
		if (!rc)
			rc = kedge__fs_write(to, r->piece, n, r->plain[1], err);
	}
	if (!rc)
		rc = kedge__fs_sync(to, r->plain[1], err);
	kedge__fs_close(from);
	kedge__fs_close(to);
	return rc;
}

static int plain_measure(struct rank *r, uint64_t turn, struct kedge__error *err)
{
	double start, cpu;
	int rc;

	memory_fetch(r);
	start = together(r);
	cpu = cpu_seconds();
	rc = plain_write(r, err);
	if (!rc && r->b->l2_dir)
		rc = plain_copy(r, err);
	note(r, PLAIN, turn, kedge__clock_seconds() - start);
	note(r, PLAIN_CPU, turn, cpu_seconds() - cpu);
	(void)unlink(r->plain[0]);
	(void)unlink(r->plain[1]);
	return rc;
}

/* ---- the job */

static int job_open(struct rank *r, struct kedge__error *err)
{
	const struct bench *b = r->b;
	struct kedge_group group = {.rank = r->rank,
				    .size = (int)b->ranks,
				    .any_thread = 1,
				    .allgather = kedge__bench_allgather,
				    .ctx = &r->front,
				    .background = &r->back,
				    .neighbours = (int)b->ranks};
	char l1[4300], l2[4300], capture[64], threads[64];
	const char *settings[64] = {l1, l2, capture, threads, "keep=1", "l2_keep=1", "l2_every=1"};
	size_t n = 7;
	int rc;

	snprintf(l1, sizeof(l1), "l1=%s/store", b->places[0]);
	snprintf(l2, sizeof(l2), "l2=%s%s", b->l2_dir ? b->places[1] : "", b->l2_dir ? "/store" : "");
	snprintf(capture, sizeof(capture), "capture=%s", b->capture);
	snprintf(threads, sizeof(threads), "threads=%llu", (unsigned long long)b->threads);
	settings[n++] = b->sync || b->l2_dir ? "sync=yes" : "sync=no";
	for (size_t i = 0; i < b->sets.count && n + 1 < KEDGE__COUNT(settings); i++)
		settings[n++] = b->sets.at[i];
	settings[n] = NULL;
	rc = b->ranks == 1 ? kedge_open("ranks", NULL, settings, &r->k)
			   : kedge_open_group("ranks", NULL, settings, &group, &r->k);
	rc = kedge__bench_said(NULL, rc, err);
	if (!rc)
		rc = kedge__bench_said(r->k, kedge_protect(r->k, "state", r->data, b->size / 8, KEDGE_U64), err);
	return rc;
}

static void change(struct rank *r)
{
	for (uint64_t i = 0; i < r->b->size / 8; i++)
		r->data[i] = kedge__bench_random(&r->seed);
}

/* Until it is there; what is removed in its favour comes after. */
static int stored_wait(struct rank *r, uint64_t version)
{
	struct timespec pause = {0, 200000};
	int done;

	while ((done = kedge_test(r->k, version)) == 0)
		nanosleep(&pause, NULL);
	return done < 0 ? done : 0;
}

static int version_measure(struct rank *r, uint64_t version, uint64_t turn, struct kedge__error *err)
{
	double start, cpu;
	int rc;

	memory_fetch(r);
	start = together(r);
	cpu = cpu_seconds();
	rc = kedge__bench_said(r->k, kedge_checkpoint(r->k, version), err);
	note(r, BLOCKED, turn, kedge__clock_seconds() - start);
	if (!rc)
		rc = kedge__bench_said(r->k, stored_wait(r, version), err);
	note(r, STORED, turn, kedge__clock_seconds() - start);
	note(r, CPU, turn, cpu_seconds() - cpu);
	return rc ? rc : kedge__bench_said(r->k, kedge_wait(r->k), err);
}

static int turns_take(struct rank *r, struct kedge__error *err)
{
	uint64_t version = 0;
	int rc = 0;

	memset(r->copy, 1, r->b->size);
	/* The first versions, which get their memory, are not counted. */
	for (int i = 0; i < 2 && !rc; i++) {
		change(r);
		rc = version_measure(r, ++version, 0, err);
	}
	for (uint64_t turn = 0; turn < r->b->repeat && !rc; turn++) {
		change(r);
		memory_measure(r, turn);
		rc = plain_measure(r, turn, err);
		if (!rc)
			rc = version_measure(r, ++version, turn, err);
	}
	return rc;
}

static int rank_run(void *bench, int rank)
{
	struct bench *b = bench;
	struct rank r = {.b = b, .rank = rank, .seed = (uint64_t)rank + 1};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = 0;

	r.front = (struct kedge__bench_channel){&b->shared->front, rank, (int)b->ranks};
	r.back = (struct kedge__bench_channel){&b->shared->back, rank, (int)b->ranks};
	for (int l = 0; l < 2 && b->places[l]; l++)
		snprintf(r.plain[l], sizeof(r.plain[l]), "%s/plain-%d", b->places[l], rank);
	r.data = kedge__map_alloc(b->size);
	r.copy = kedge__map_alloc(b->size);
	r.piece = kedge__malloc(PIECE);
	rc = r.data && r.copy && r.piece ? job_open(&r, &err) : kedge__error_nomem(&err);
	if (!rc)
		rc = turns_take(&r, &err);
	if (!rc)
		rc = kedge__bench_said(NULL, kedge_close(r.k), &err);
	if (rc)
		kedge__tool_say(b->usage.command, "rank %d: %s", rank, kedge__error_text(&err));
	kedge__error_done(&err);
	return rc;
}

/* ---- results */

struct series {
	double at[TURNS];
};

static double of_all(const struct bench *b, enum figure f, uint64_t turn)
{
	const double *at = b->shared->figures[f][turn];
	double sum = 0, most = 0;

	for (uint64_t r = 0; r < b->ranks; r++) {
		sum += at[r];
		most = KEDGE__MAX(most, at[r]);
	}
	return f == CPU || f == PLAIN_CPU ? sum / ((double)b->size * (double)b->ranks * 1e-9) : most;
}

static void series_make(const struct bench *b, enum figure f, enum figure over, struct series *value,
			struct series *ratio)
{
	for (uint64_t turn = 0; turn < b->repeat; turn++) {
		value->at[turn] = of_all(b, f, turn);
		ratio->at[turn] = value->at[turn] / of_all(b, over, turn);
	}
}

static void add_json(struct bench *b, json_t *row, const char *name, struct series *value, struct series *ratio)
{
	json_t *o = kedge__json_object();

	kedge__json_real(o, "median", kedge__bench_median(value->at, b->repeat));
	kedge__json_real(o, "ratio", kedge__bench_median(ratio->at, b->repeat));
	kedge__json_real(o, "ratio_lowest", ratio->at[0]);
	kedge__json_real(o, "ratio_highest", ratio->at[b->repeat - 1]);
	kedge__json_set(row, name, o);
}

static void add_text(struct bench *b, struct series *value, struct series *ratio)
{
	double median = kedge__bench_median(value->at, b->repeat), of = kedge__bench_median(ratio->at, b->repeat);

	kedge__table_add(&b->table, "%.3f", median);
	kedge__table_add(&b->table, "%.3f (%.3f..%.3f)", of, ratio->at[0], ratio->at[b->repeat - 1]);
}

static void report(struct bench *b)
{
	static const struct {
		enum figure f, over;
		const char *name;
	} columns[] = {{BLOCKED, PLAIN, "blocked"}, {STORED, PLAIN, "stored"}, {CPU, PLAIN_CPU, "cpu"}};
	struct series plain, cpu, copy, pass, unused, value, ratio;
	json_t *row = b->json ? kedge__json_object() : NULL;

	series_make(b, PLAIN, PLAIN, &plain, &unused);
	series_make(b, PLAIN_CPU, PLAIN_CPU, &cpu, &unused);
	series_make(b, COPY, PLAIN, &copy, &unused);
	series_make(b, PASS, PLAIN, &pass, &unused);
	if (b->json) {
		kedge__json_text(row, "capture", b->capture);
		kedge__json_real(row, "plain", kedge__bench_median(plain.at, b->repeat));
		kedge__json_real(row, "plain_cpu", kedge__bench_median(cpu.at, b->repeat));
		kedge__json_real(row, "copy", kedge__bench_median(copy.at, b->repeat));
		kedge__json_real(row, "pass", kedge__bench_median(pass.at, b->repeat));
	} else {
		kedge__table_text(&b->table, b->capture);
		kedge__table_add(&b->table, "%.3f", kedge__bench_median(plain.at, b->repeat));
		kedge__table_add(&b->table, "%.2f", kedge__bench_median(cpu.at, b->repeat));
		kedge__table_add(&b->table, "%.3f", kedge__bench_median(copy.at, b->repeat));
		kedge__table_add(&b->table, "%.3f", kedge__bench_median(pass.at, b->repeat));
	}
	for (size_t i = 0; i < KEDGE__COUNT(columns); i++) {
		series_make(b, columns[i].f, columns[i].over, &value, &ratio);
		if (b->json)
			add_json(b, row, columns[i].name, &value, &ratio);
		else
			add_text(b, &value, &ratio);
	}
	if (b->json)
		kedge__json_add(b->results, row);
}

static void print_results(struct bench *b)
{
	char size[KEDGE__TEXT_ROOM];
	json_t *o;

	if (!b->json) {
		printf("%llu ranks x %s, all changed, %s%s, median (lowest..highest) of %llu turns; seconds, and "
		       "processor "
		       "seconds a GB;\nratios to the plain write%s; copy, pass: of all state in memory, by all ranks "
		       "at once\n\n",
		       (unsigned long long)b->ranks, kedge__text_bytes(b->size, size),
		       b->l2_dir ? "two levels" : "one level", b->sync || b->l2_dir ? ", synced" : "",
		       (unsigned long long)b->repeat,
		       b->l2_dir ? " to the first level, and from there to the second" : "");
		kedge__table_print(&b->table, stdout);
		return;
	}
	o = kedge__json_object();
	kedge__json_uint(o, "ranks", b->ranks);
	kedge__json_uint(o, "size_per_rank", b->size);
	kedge__json_uint(o, "levels", b->l2_dir ? 2 : 1);
	kedge__json_bool(o, "sync", b->sync || b->l2_dir);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_set(o, "results", b->results);
	kedge__json_print(o);
}

/* ---- the run */

static int capture_measure(struct bench *b)
{
	int rc;

	kedge__bench_meeting_init(&b->shared->front, (int)b->ranks);
	kedge__bench_meeting_init(&b->shared->back, (int)b->ranks);
	kedge__bench_meeting_init(&b->shared->bench, (int)b->ranks);
	rc = kedge__bench_ranks_run((int)b->ranks, rank_run, b);
	if (!rc)
		report(b);
	for (int l = 0; l < 2 && b->places[l]; l++)
		kedge__bench_dir_clear(b->places[l]);
	return rc;
}

static int prepare(struct bench *b, struct kedge__error *err)
{
	static const char *const heads[] = {"capture", "plain",  "CPU/GB", "copy",   "pass", "blocked",
					    "ratio",   "stored", "ratio",  "CPU/GB", "ratio"};
	int rc = kedge__bench_dir_make(b->dir, &b->places[0], err);

	if (!rc && b->l2_dir)
		rc = kedge__bench_dir_make(b->l2_dir, &b->places[1], err);
	if (rc)
		return rc;
	b->shared = kedge__bench_shared_alloc(sizeof(*b->shared));
	if (!b->shared)
		return kedge__error_nomem(err);
	if (b->json)
		b->results = kedge__json_array();
	kedge__table_init(&b->table, "lrrrrrrrrrr");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_text(&b->table, heads[i]);
	return 0;
}

static int run(struct bench *b)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = prepare(b, &err);

	for (size_t i = 0; i < KEDGE__COUNT(captures) && !rc; i++) {
		b->capture = captures[i];
		if (b->capture_text && strcmp(b->capture_text, b->capture) != 0)
			continue;
		rc = capture_measure(b);
		if (rc)
			kedge__error_set(&err, rc, 0, "a rank failed");
	}
	for (int l = 0; l < 2 && b->places[l]; l++) {
		kedge__bench_dir_remove(b->places[l]);
		kedge__free(b->places[l]);
	}
	if (!rc)
		print_results(b);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

static bool arguments_valid(const struct bench *b)
{
	bool known = !b->capture_text;

	for (size_t i = 0; i < KEDGE__COUNT(captures); i++)
		known = known || strcmp(b->capture_text, captures[i]) == 0;
	return known && b->repeat && b->repeat <= TURNS && b->ranks && b->ranks <= KEDGE__BENCH_RANKS && b->size >= 8 &&
	       b->size % 8 == 0;
}

int kedge__bench_ranks(int argc, char **argv)
{
	struct bench b = {.size = UINT64_C(256) << 20, .ranks = 16, .repeat = 5, .dir = "/dev/shm"};
	const struct kedge__option options[] = {
	    {"ranks", 0, KEDGE__OPTION_UINT, &b.ranks, "N", "processes (default: 16)"},
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "state of a process (default: 256MiB)"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.dir, "DIR", "where L1 is made (default: /dev/shm)"},
	    {"l2-dir", 0, KEDGE__OPTION_TEXT, &b.l2_dir, "DIR",
	     "where L2 is made, and synced (default: there is none)"},
	    {"sync", 0, KEDGE__OPTION_FLAG, &b.sync, NULL, "with fsync, on both sides; always with two levels"},
	    {"capture", 0, KEDGE__OPTION_TEXT, &b.capture_text, "HOW", "copy or cow alone (default: both)"},
	    {"threads", 0, KEDGE__OPTION_UINT, &b.threads, "N", "threads of a rank (default: as for any job)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, of which the median is shown (default: 5)"},
	    KEDGE__OPTION_SET(&b.sets),
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench ranks",
	    .about =
		"Versions of a job of many ranks in which all is new, written in the background: how long the\n"
		"application is blocked, how long until they are stored, and processor time, beside a plain write\n"
		"of the same bytes by the same processes, in turns.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench ranks\nkedge-bench ranks --ranks 2 --size 64MiB --l2-dir /tmp --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (!arguments_valid(&b))
		return kedge__usage_error(&b.usage, "1 to %d turns, 1 to %d ranks, --capture copy or cow", TURNS,
					  KEDGE__BENCH_RANKS);
	status = run(&b);
	kedge__array_done(&b.sets);
	return status;
}
