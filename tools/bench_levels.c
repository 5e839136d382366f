/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench levels: how fast the file systems meant for L1 and L2 take checkpoints and give them back, with the
 * user's own settings, beside plain writes and reads of the same bytes there, in turns.
 */
#include "bench_levels.h"
#include "tool_bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define TURNS_MAX 64
#define PAGE      ((size_t)4096)
#define NAME      "bench"

/* Figure, name in JSON, text, and the figure that it is compared with. */
#define FIGURES(X)                                                                                                     \
	X(PLAIN_L1, "plain_l1", "plain write to L1, synced", PLAIN_L1)                                                 \
	X(BLOCKED, "checkpoint", "checkpoint: the program waits", PLAIN_L1)                                            \
	X(PLAIN_L2, "plain_l2", "plain write to L2, synced", PLAIN_L2)                                                 \
	X(COMPLETE, "checkpoint_l2", "checkpoint: until it is on L2", PLAIN_L2)                                        \
	X(PLAIN_READ, "plain_read", "plain read from L1", PLAIN_READ)                                                  \
	X(RESTART, "restart", "restart from L1, verified", PLAIN_READ)

enum figure {
#define KEDGE__X(id, name, text, peer) id,
	FIGURES(KEDGE__X)
#undef KEDGE__X
	    FIGURE_COUNT
};

static const struct {
	const char *name, *text;
	enum figure peer;
} figures[] = {
#define KEDGE__X(id, name, text, peer) {name, text, peer},
    FIGURES(KEDGE__X)
#undef KEDGE__X
};

struct levels {
	struct kedge__usage usage;
	uint64_t size, changed, repeat, seed;
	struct kedge__text_list sets;
	bool json;
	int count;                 /* of levels */
	char *dirs[2], *stores[2]; /* made for this run, and the stores in them */
	uint8_t *data;
	kedge_t *k;
	double first;    /* seconds of the first checkpoint, which has everything */
	uint64_t stored; /* bytes of the last version */
	double seconds[FIGURE_COUNT][TURNS_MAX];
};

static bool measured(const struct levels *b, size_t figure)
{
	return b->count == 2 || (figure != PLAIN_L2 && figure != COMPLETE);
}

/* ---- the state: numbers that run smoothly, with noise in their low bits; a general codec leaves about half */

static void fill_page(struct levels *b, uint64_t page)
{
	uint64_t *words = (uint64_t *)(void *)(b->data + page * PAGE);

	for (size_t i = 0; i < PAGE / 8; i++)
		words[i] = UINT64_C(0x3ff0000000000000) + ((page * (PAGE / 8) + i) << 32) +
			   (kedge__bench_random(&b->seed) & 0xffffffff);
}

/* As many pages as the part that changes, one in each stretch of equal length. */
static void change(struct levels *b)
{
	uint64_t pages = b->size / PAGE, n = KEDGE__MAX(1, pages * b->changed / 100);

	for (uint64_t i = 0; i < n; i++) {
		uint64_t from = i * pages / n, to = (i + 1) * pages / n;

		fill_page(b, from + kedge__bench_random(&b->seed) % (to - from));
	}
}

/* ---- plain files */

static int plain_fail(const char *path, int fd, struct kedge__error *err)
{
	int cause = errno;

	kedge__fs_close(fd);
	return kedge__error_set(err, KEDGE_E_IO, cause, "%s", path);
}

static int plain_write(struct levels *b, int level, double *seconds, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/plain", b->dirs[level]);
	double start = kedge__clock_seconds();
	int fd, rc = 0;

	if (!path)
		kedge__tool_no_memory();
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	for (uint64_t done = 0; fd >= 0 && done < b->size && !rc;) {
		ssize_t n = write(fd, b->data + done, b->size - done);

		if (n <= 0)
			rc = plain_fail(path, fd, err);
		else
			done += (uint64_t)n;
	}
	if (!rc && (fd < 0 || fsync(fd) != 0))
		rc = plain_fail(path, fd, err);
	else if (!rc)
		close(fd);
	*seconds = kedge__clock_seconds() - start;
	kedge__free(path);
	return rc;
}

static int plain_read(struct levels *b, double *seconds, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/plain", b->dirs[0]);
	double start = kedge__clock_seconds();
	uint64_t done = 0;
	int fd, rc = 0;

	if (!path)
		kedge__tool_no_memory();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && done < b->size) {
		ssize_t n = read(fd, b->data + done, b->size - done);

		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	if (done < b->size)
		rc = plain_fail(path, fd, err);
	else
		close(fd);
	*seconds = kedge__clock_seconds() - start;
	kedge__free(path);
	return rc;
}

/* ---- the job */

static int job_error(struct levels *b, int rc, struct kedge__error *err)
{
	return rc ? kedge__error_set(err, rc, 0, "%s", kedge_last_error(b->k)) : 0;
}

static int job_open(struct levels *b, struct kedge__error *err)
{
	char l1[4200], l2[4200];
	const char *settings[64];
	size_t n = 0;
	int rc;

	snprintf(l1, sizeof(l1), "l1=%s", b->stores[0]);
	snprintf(l2, sizeof(l2), "l2=%s", b->count == 2 ? b->stores[1] : "");
	for (size_t i = 0; i < b->sets.count && n + 5 < KEDGE__COUNT(settings); i++)
		settings[n++] = b->sets.at[i];
	settings[n++] = l1;
	settings[n++] = l2;
	settings[n++] = "l2_every=1";
	settings[n++] = "l2_interval=0";
	settings[n] = NULL;
	rc = kedge_open(NAME, NULL, settings, &b->k);
	if (!rc)
		rc = kedge_protect(b->k, "state", b->data, b->size / 8, KEDGE_F64);
	return job_error(b, rc, err);
}

static int job_close(struct levels *b, struct kedge__error *err)
{
	int rc = kedge_close(b->k);

	b->k = NULL;
	return job_error(b, rc, err);
}

static int checkpoint(struct levels *b, uint64_t version, double *blocked, double *complete, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int rc = kedge_checkpoint(b->k, version);

	*blocked = kedge__clock_seconds() - start;
	if (!rc)
		rc = kedge_wait(b->k);
	*complete = kedge__clock_seconds() - start;
	return job_error(b, rc, err);
}

static int write_turn(struct levels *b, uint64_t turn, struct kedge__error *err)
{
	int rc;

	change(b);
	rc = plain_write(b, 0, &b->seconds[PLAIN_L1][turn], err);
	if (!rc && b->count == 2)
		rc = plain_write(b, 1, &b->seconds[PLAIN_L2][turn], err);
	if (!rc)
		rc = checkpoint(b, turn + 2, &b->seconds[BLOCKED][turn], &b->seconds[COMPLETE][turn], err);
	return rc;
}

/* Each restart by a handle that has seen nothing yet. */
static int read_turn(struct levels *b, uint64_t turn, struct kedge__error *err)
{
	int rc = plain_read(b, &b->seconds[PLAIN_READ][turn], err);
	double start;

	if (!rc)
		rc = job_open(b, err);
	if (rc)
		return rc;
	start = kedge__clock_seconds();
	rc = job_error(b, kedge_restart(b->k, KEDGE_NEWEST, NULL), err);
	b->seconds[RESTART][turn] = kedge__clock_seconds() - start;
	return rc ? rc : job_close(b, err);
}

static int measure(struct levels *b, struct kedge__error *err)
{
	struct kedge_stats stats = {0};
	double unused;
	int rc = job_open(b, err);

	if (!rc)
		rc = checkpoint(b, 1, &b->first, &unused, err);
	for (uint64_t turn = 0; turn < b->repeat && !rc; turn++)
		rc = write_turn(b, turn, err);
	if (!rc)
		rc = job_error(b, kedge_stats_get(b->k, &stats), err);
	b->stored = stats.stored_bytes;
	if (!rc)
		rc = job_close(b, err);
	for (uint64_t turn = 0; turn < b->repeat && !rc; turn++)
		rc = read_turn(b, turn, err);
	return rc;
}

/* ---- results */

/* Of FIGURE, over its peer in the same turn: the median, and both ends. */
static void ratios(const struct levels *b, size_t figure, double out[3])
{
	double v[TURNS_MAX];

	for (uint64_t i = 0; i < b->repeat; i++)
		v[i] = b->seconds[figure][i] / b->seconds[figures[figure].peer][i];
	out[0] = kedge__bench_median(v, b->repeat);
	out[1] = v[0];
	out[2] = v[b->repeat - 1];
}

static double median(const struct levels *b, size_t figure)
{
	double v[TURNS_MAX];

	memcpy(v, b->seconds[figure], sizeof(v));
	return kedge__bench_median(v, b->repeat);
}

static void print_json(const struct levels *b)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "size", b->size);
	kedge__json_uint(o, "changed_percent", b->changed);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_uint(o, "stored_bytes", b->stored);
	kedge__json_real(o, "first_checkpoint_seconds", b->first);
	for (size_t f = 0; f < FIGURE_COUNT; f++) {
		json_t *figure = kedge__json_object();
		double r[3];

		if (!measured(b, f))
			continue;
		ratios(b, f, r);
		kedge__json_real(figure, "seconds", median(b, f));
		kedge__json_real(figure, "ratio_to_plain", r[0]);
		kedge__json_real(figure, "ratio_lowest", r[1]);
		kedge__json_real(figure, "ratio_highest", r[2]);
		kedge__json_set(o, figures[f].name, figure);
	}
	kedge__json_print(o);
}

static void print_text(const struct levels *b)
{
	char size[KEDGE__TEXT_ROOM], stored[KEDGE__TEXT_ROOM];
	struct kedge__table t;

	kedge__table_init(&t, "lrrrr");
	kedge__table_add(&t, "what");
	kedge__table_add(&t, "seconds");
	kedge__table_add(&t, "MB/s of state");
	kedge__table_add(&t, "over plain");
	kedge__table_add(&t, "lowest..highest");
	for (size_t f = 0; f < FIGURE_COUNT; f++) {
		double r[3], seconds;

		if (!measured(b, f))
			continue;
		ratios(b, f, r);
		seconds = median(b, f);
		kedge__table_add(&t, "%s", figures[f].text);
		kedge__table_add(&t, "%.3f", seconds);
		kedge__table_add(&t, "%.0f", (double)b->size * 1e-6 / seconds);
		kedge__table_add(&t, "%.2f", r[0]);
		kedge__table_add(&t, "%.2f..%.2f", r[1], r[2]);
	}
	printf("state of %s, %llu %% of its pages new in each version; median of %llu\n\n",
	       kedge__text_bytes(b->size, size), (unsigned long long)b->changed, (unsigned long long)b->repeat);
	kedge__table_print(&t, stdout);
	printf("\nthe first checkpoint, which stores everything, took %.3f s; a later version takes %s\n", b->first,
	       kedge__text_bytes(b->stored, stored));
}

/* ---- the run */

static int prepare(struct levels *b, char *const *parents, struct kedge__error *err)
{
	for (int l = 0; l < b->count; l++) {
		int rc = kedge__bench_dir_make(parents[l], &b->dirs[l], err);

		if (rc)
			return rc;
		b->stores[l] = kedge__asprintf("%s/store", b->dirs[l]);
		if (!b->stores[l])
			return kedge__error_nomem(err);
	}
	b->data = kedge__map_alloc(b->size);
	if (!b->data)
		return kedge__error_nomem(err);
	for (uint64_t page = 0; page < b->size / PAGE; page++)
		fill_page(b, page);
	return 0;
}

static int run(struct levels *b, char *const *parents)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = prepare(b, parents, &err);

	if (!rc)
		rc = measure(b, &err);
	(void)kedge_close(b->k);
	for (int l = 0; l < b->count; l++) {
		if (b->dirs[l])
			kedge__bench_dir_remove(b->dirs[l]);
		kedge__free(b->dirs[l]);
		kedge__free(b->stores[l]);
	}
	if (b->data)
		kedge__map_free(b->data, b->size);
	if (!rc)
		(b->json ? print_json : print_text)(b);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

static int check(const struct levels *b)
{
	if (b->count < 1 || b->count > 2)
		return kedge__usage_error(&b->usage, "name one or two directories: for L1, and for L2");
	if (!b->repeat || b->repeat > TURNS_MAX || !b->changed || b->changed > 100)
		return kedge__usage_error(&b->usage, "--repeat takes 1 to %d, --changed 1 to 100", TURNS_MAX);
	if (b->size < PAGE || b->size % PAGE)
		return kedge__usage_error(&b->usage, "--size takes a multiple of 4 KiB");
	return KEDGE__EXIT_OK;
}

int kedge__bench_levels(int argc, char **argv)
{
	struct levels b = {.size = UINT64_C(256) << 20, .changed = 10, .repeat = 5};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of the state (default: 256MiB)"},
	    {"changed", 0, KEDGE__OPTION_UINT, &b.changed, "PERCENT",
	     "how many of its pages are new in each version (default: 10)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, 1 to 64 (default: 5)"},
	    KEDGE__OPTION_SET(&b.sets),
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge bench levels",
	    .operands = "L1 [L2]",
	    .about = "Takes checkpoints in the directory L1 and, if given, L2, restarts from them, and writes and "
		     "reads plain\n"
		     "files of the same bytes there, in turns. Settings are yours ($KEDGE_CONFIG, KEDGE_*, --set): run "
		     "it with\n"
		     "several of a chunk, a codec or a capture to compare them. What it writes is removed.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge bench levels /local/scratch /shared/project\n"
		       "kedge bench levels /local/scratch --set codec=none --set capture=copy",
	};
	if (kedge__options_parse(&b.usage, argc, argv, &first, &status)) {
		b.count = argc - first;
		status = check(&b);
		if (!status)
			status = run(&b, argv + first);
	}
	kedge__array_done(&b.sets);
	return status;
}
