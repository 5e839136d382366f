/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench limits: checkpoints and a restart through kedge.h, with the settings that a user has who sets none,
 * beside what nobody can do without: a plain write of the bytes that are new, and the read of a plain copy. In each
 * turn a job takes a first version, then versions in which all, a tenth, a hundredth and none of the pages are new (a
 * tenth twice, because after dense versions nobody watches the memory), and another process (another handle) restarts
 * from the last one.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TURNS 32 /* at most */
#define PAGE  4096u
#define PIECE ((size_t)1 << 20)

enum row { FIRST, ALL, AGAIN, TENTH, NEXT_TENTH, HUNDREDTH, NONE, RESTART, ROWS };

static const char *const labels[ROWS] = {"first version",  "all pages new", "all pages again", "10 % of pages",
					 "10 %, the next", "1 % of pages",  "nothing new",     "restart"};
static const unsigned percents[ROWS] = {100, 100, 100, 10, 10, 1, 0, 0};

struct row_times {
	double blocked[TURNS], whole[TURNS], limit[TURNS], ratio[TURNS];
	double hashed[TURNS]; /* the ratio to the plain write and a hash pass over the same bytes */
};

struct bench {
	struct kedge__usage usage;
	uint64_t size, repeat, threads;
	const char *dir;
	struct kedge__text_list sets;
	bool sync, json;
	bool packs; /* a general codec leaves about two thirds of the state */
	uint8_t *data;
	char *store, *copy; /* paths */
	uint64_t seed;
	struct row_times rows[ROWS];
	double hash[TURNS];
	uint64_t highest[TURNS];            /* resident bytes, at most, while the job is open */
	double resting[TURNS], peak[TURNS]; /* memory beyond the state, as a share of it */
};

/* ------------------------------------------------------------------ memory */

/* A line of /proc/self/status, in bytes; 0: not known. */
static uint64_t memory_of(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			(void)sscanf(line + strlen(key), "%llu", &kib);
	if (f)
		fclose(f);
	return (uint64_t)kib << 10;
}

/* The highest so far is forgotten. */
static void memory_mark(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, "5", 1);
	kedge__fs_close(fd);
}

/* For what comes next. It is not the job's, so that what was highest must be forgotten. */
static void memory_fetch(struct bench *b, uint64_t turn)
{
	if (access("/proc/self/clear_refs", W_OK) != 0)
		return;
	b->highest[turn] = KEDGE__MAX(b->highest[turn], memory_of("VmHWM:"));
	kedge__bench_memory_fetch(b->size + b->size / 4, 1);
	memory_mark();
}

/* ------------------------------------------------------------------ the limits */

static int plain_write(struct bench *b, uint64_t bytes, double *seconds, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int fd = -1, rc = kedge__fs_create(b->copy, &fd, err);

	for (uint64_t at = 0; !rc && at < bytes; at += PIECE)
		rc = kedge__fs_write(fd, b->data + at, KEDGE__MIN(PIECE, bytes - at), b->copy, err);
	if (!rc && b->sync)
		rc = kedge__fs_sync(fd, b->copy, err);
	kedge__fs_close(fd);
	*seconds = kedge__clock_seconds() - start;
	return rc;
}

static int plain_read(struct bench *b, double *seconds, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int fd = -1, rc = kedge__fs_open_read(b->copy, &fd, err);

	for (uint64_t at = 0; !rc && at < b->size; at += PIECE)
		rc = kedge__fs_pread(fd, b->data + at, KEDGE__MIN(PIECE, b->size - at), at, b->copy, err);
	kedge__fs_close(fd);
	*seconds = kedge__clock_seconds() - start;
	return rc;
}

/* ------------------------------------------------------------------ Kedge */

static int open_job(struct bench *b, kedge_t **k, struct kedge__error *err)
{
	const char *settings[64];
	char *l1 = kedge__asprintf("l1=%s", b->store);
	char *threads = kedge__asprintf("threads=%llu", (unsigned long long)b->threads);
	size_t n = 0;
	int rc = l1 && threads ? 0 : kedge__error_nomem(err);

	settings[n++] = l1;
	settings[n++] = b->sync ? "sync=yes" : "sync=no";
	if (b->threads)
		settings[n++] = threads;
	for (size_t i = 0; i < b->sets.count && n + 1 < KEDGE__COUNT(settings); i++)
		settings[n++] = b->sets.at[i];
	settings[n] = NULL;
	if (!rc)
		rc = kedge__bench_said(NULL, kedge_open("limits", NULL, settings, k), err);
	if (!rc)
		rc = kedge__bench_said(*k, kedge_protect(*k, "state", b->data, b->size, KEDGE_BYTES), err);
	kedge__free(l1);
	kedge__free(threads);
	return rc;
}

/* Every page with probability PERCENT. */
static void change(struct bench *b, unsigned percent)
{
	uint64_t kept = b->packs ? UINT64_MAX >> 24 : UINT64_MAX;

	for (uint64_t at = 0; at + PAGE <= b->size; at += PAGE) {
		if (percent < 100 && kedge__bench_random(&b->seed) % 100 >= percent)
			continue;
		for (uint64_t i = 0; i < PAGE; i += 8)
			kedge__put64(b->data + at + i, kedge__bench_random(&b->seed) & kept);
	}
}

static int take(struct bench *b, kedge_t *k, enum row row, uint64_t turn, struct kedge__error *err)
{
	struct row_times *t = &b->rows[row];
	double start;
	int rc;

	change(b, percents[row]);
	memory_fetch(b, turn);
	rc = plain_write(b, b->size / 100 * percents[row] / PAGE * PAGE, &t->limit[turn], err);
	if (rc)
		return rc;
	(void)unlink(b->copy);
	memory_fetch(b, turn);
	start = kedge__clock_seconds();
	rc = kedge__bench_said(k, kedge_checkpoint(k, (uint64_t)row + 1), err);
	t->blocked[turn] = kedge__clock_seconds() - start;
	if (!rc)
		rc = kedge__bench_said(k, kedge_wait(k), err);
	t->whole[turn] = kedge__clock_seconds() - start;
	t->ratio[turn] = t->whole[turn] / t->limit[turn];
	t->hashed[turn] = t->whole[turn] / (t->limit[turn] + b->hash[turn] * percents[row] / 100);
	return rc;
}

static int take_all(struct bench *b, uint64_t turn, struct kedge__error *err)
{
	uint64_t before = memory_of("VmRSS:");
	kedge_t *k = NULL;
	int rc = open_job(b, &k, err);

	memory_mark();
	for (int row = FIRST; !rc && row < RESTART; row++)
		rc = take(b, k, (enum row)row, turn, err);
	if (!rc && before) {
		b->resting[turn] = ((double)memory_of("VmRSS:") - (double)before) / (double)b->size;
		b->highest[turn] = KEDGE__MAX(b->highest[turn], memory_of("VmHWM:"));
		b->peak[turn] = ((double)b->highest[turn] - (double)before) / (double)b->size;
	}
	if (k && kedge_close(k) && !rc)
		rc = kedge__bench_said(NULL, KEDGE_E_IO, err);
	return rc;
}

static int restart(struct bench *b, uint64_t turn, struct kedge__error *err)
{
	struct row_times *t = &b->rows[RESTART];
	kedge_t *k = NULL;
	double start;
	int rc;

	kedge__bench_memory_fetch(b->size + b->size / 4, 1);
	rc = plain_write(b, b->size, &t->limit[turn], err);
	if (!rc)
		rc = plain_read(b, &t->limit[turn], err);
	(void)unlink(b->copy);
	if (!rc)
		rc = open_job(b, &k, err);
	start = kedge__clock_seconds();
	if (!rc)
		rc = kedge__bench_said(k, kedge_restart(k, KEDGE_NEWEST, NULL), err);
	t->whole[turn] = t->blocked[turn] = kedge__clock_seconds() - start;
	t->ratio[turn] = t->whole[turn] / t->limit[turn];
	if (k && kedge_close(k) && !rc)
		rc = kedge__bench_said(NULL, KEDGE_E_IO, err);
	return rc;
}

static int take_turn(struct bench *b, uint64_t turn, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	volatile uint64_t sum = kedge__bench_hash(b->data, b->size, PIECE);
	int rc;

	(void)sum;
	b->hash[turn] = kedge__clock_seconds() - start;
	rc = take_all(b, turn, err);
	if (!rc)
		rc = restart(b, turn, err);
	kedge__bench_dir_clear(b->store);
	return rc;
}

/* ------------------------------------------------------------------ results */

static void json_ratio(json_t *row, const char *name, double *v, size_t n)
{
	char key[64];

	kedge__json_real(row, name, kedge__bench_median(v, n));
	(void)snprintf(key, sizeof(key), "%s_lowest", name);
	kedge__json_real(row, key, v[0]);
	(void)snprintf(key, sizeof(key), "%s_highest", name);
	kedge__json_real(row, key, v[n - 1]);
}

static void print_json(struct bench *b)
{
	json_t *o = kedge__json_object(), *rows = kedge__json_array();

	for (int i = 0; i < ROWS; i++) {
		struct row_times *t = &b->rows[i];
		json_t *row = kedge__json_object();

		kedge__json_text(row, "what", labels[i]);
		kedge__json_real(row, "blocked_seconds", kedge__bench_median(t->blocked, b->repeat));
		kedge__json_real(row, "seconds", kedge__bench_median(t->whole, b->repeat));
		kedge__json_real(row, "limit_seconds", kedge__bench_median(t->limit, b->repeat));
		if (percents[i] || i == RESTART)
			json_ratio(row, "ratio", t->ratio, b->repeat);
		if (percents[i])
			json_ratio(row, "hashed_ratio", t->hashed, b->repeat);
		kedge__json_add(rows, row);
	}
	kedge__json_uint(o, "size", b->size);
	kedge__json_bool(o, "sync", b->sync);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_real(o, "hash_seconds", kedge__bench_median(b->hash, b->repeat));
	kedge__json_real(o, "memory_resting", kedge__bench_median(b->resting, b->repeat));
	kedge__json_real(o, "memory_peak", kedge__bench_median(b->peak, b->repeat));
	kedge__json_set(o, "results", rows);
	kedge__json_print(o);
}

static void print_row(struct bench *b, int i, struct kedge__table *table)
{
	struct row_times *t = &b->rows[i];

	kedge__table_text(table, labels[i]);
	kedge__table_add(table, "%.1f", 1e3 * kedge__bench_median(t->blocked, b->repeat));
	kedge__table_add(table, "%.1f", 1e3 * kedge__bench_median(t->whole, b->repeat));
	if (!percents[i] && i != RESTART) {
		kedge__table_text(table, "-");
		kedge__table_text(table, "-");
		kedge__table_text(table, "");
		return;
	}
	kedge__table_add(table, "%.1f", 1e3 * kedge__bench_median(t->limit, b->repeat));
	kedge__table_add(table, "%.2f", kedge__bench_median(t->ratio, b->repeat));
	kedge__table_add(table, "(%.2f..%.2f)", t->ratio[0], t->ratio[b->repeat - 1]);
}

static void print_text(struct bench *b)
{
	char size[KEDGE__TEXT_ROOM];
	struct kedge__table table;

	printf("%s in one region%s, median of %llu; an %s pass takes %.1f ms\n", kedge__text_bytes(b->size, size),
	       b->sync ? ", synced" : "", (unsigned long long)b->repeat, kedge__bench_hash_name(),
	       1e3 * kedge__bench_median(b->hash, b->repeat));
	kedge__table_init(&table, "lrrrrl");
	kedge__table_text(&table, "WHAT");
	kedge__table_text(&table, "BLOCKED ms");
	kedge__table_text(&table, "WHOLE ms");
	kedge__table_text(&table, "LIMIT ms");
	kedge__table_text(&table, "RATIO");
	kedge__table_text(&table, "");
	for (int i = 0; i < ROWS; i++)
		print_row(b, i, &table);
	kedge__table_print(&table, stdout);
	printf("memory beyond the state: %.1f %% of it, at most %.1f %%\n",
	       100 * kedge__bench_median(b->resting, b->repeat), 100 * kedge__bench_median(b->peak, b->repeat));
}

/* ------------------------------------------------------------------ the run */

static int measure(void *bench, const char *dir, struct kedge__error *err)
{
	struct bench *b = bench;
	int rc = 0;

	b->store = kedge__asprintf("%s/store", dir);
	b->copy = kedge__asprintf("%s/copy", dir);
	b->data = kedge__map_alloc(b->size);
	if (!b->store || !b->copy || !b->data)
		return kedge__error_nomem(err);
	change(b, 100);
	for (uint64_t turn = 0; !rc && turn < b->repeat; turn++)
		rc = take_turn(b, turn, err);
	return rc;
}

static int run(struct bench *b)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__bench_dir_use(b->dir, measure, b, &err);

	if (!rc)
		(b->json ? print_json : print_text)(b);
	kedge__map_free(b->data, b->size);
	kedge__free(b->store);
	kedge__free(b->copy);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

int kedge__bench_limits(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct bench b = {.size = UINT64_C(1) << 30, .repeat = 5, .dir = tmp && *tmp ? tmp : "/tmp"};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of the state (default: 1GiB)"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.dir, "DIR", "where to write (default: $TMPDIR or /tmp)"},
	    {"sync", 0, KEDGE__OPTION_FLAG, &b.sync, NULL, "versions and plain files are synced"},
	    {"threads", 0, KEDGE__OPTION_UINT, &b.threads, "N", "threads of the job (default: as for any job)"},
	    {"packs", 0, KEDGE__OPTION_FLAG, &b.packs, NULL,
	     "a state of which a general codec leaves about two thirds"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, of which the median is shown (default: 5)"},
	    KEDGE__OPTION_SET(&b.sets),
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench limits",
	    .about =
		"Checkpoints and a restart of a job that sets nothing, beside the plain write of the bytes that are\n"
		"new and the plain read of a copy, in turns; and the memory that they take beyond the state.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench limits --dir /dev/shm\nkedge-bench limits --size 512MiB --sync --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (!b.repeat || b.repeat > TURNS || b.size < 256 * PAGE)
		return kedge__usage_error(&b.usage, "1 to %d turns, a state of 1 MiB or more", TURNS);
	status = run(&b);
	kedge__array_done(&b.sets);
	return status;
}
