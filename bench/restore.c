/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench restore: how long a restore of the last of many versions takes, beside the read of one full copy of the
 * same bytes by the same threads into the same memory, taking turns.
 */
#include "restore/restore.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PIECE ((size_t)1 << 20)
#define RUN   64 /* chunks that change together */
#define TURNS 64 /* at most */

struct bench {
	struct kedge__usage usage;
	uint64_t size, chunk, versions, percent, threads, repeat;
	const char *dir, *codec;
	bool scattered, cold, json;
	bool stays; /* files could not be dropped from the page cache */
	struct kedge__pool *pool;
	uint8_t *data;
	char *store, *copy, *first; /* paths; the last: of the file of the first version */
	int copy_fd, first_fd;
	uint64_t seed;
	double read[TURNS], read_first[TURNS], restore[TURNS], ratio[TURNS], first_ratio[TURNS];
	double read_cpu[TURNS], restore_cpu[TURNS], cpu_ratio[TURNS]; /* processor seconds of all threads */
	struct kedge__restore_stats stats;                            /* of the last turn */
	double open_seconds;
	uint64_t stored_bytes;
};

static void change(struct bench *b)
{
	uint64_t chunks = b->size / b->chunk, count = b->scattered ? 1 : RUN;
	uint64_t groups = chunks * b->percent / 100 / count;

	for (uint64_t g = 0; g < groups; g++) {
		uint64_t first = kedge__bench_random(&b->seed) % (chunks - count + 1);

		for (uint64_t i = 0; i < count; i++)
			kedge__put64(b->data + (first + i) * b->chunk, kedge__bench_random(&b->seed));
	}
}

/* ---- what is measured is made once: the versions, and a full copy of the last */

static int take_versions(struct bench *b, kedge_t *k, struct kedge__error *err)
{
	int rc = kedge__bench_said(k, kedge_protect(k, "state", b->data, b->size, KEDGE_BYTES), err);

	for (uint64_t v = 1; !rc && v <= b->versions; v++) {
		struct kedge_stats stats;

		if (v > 1)
			change(b);
		rc = kedge__bench_said(k, kedge_checkpoint(k, v), err);
		if (!rc)
			rc = kedge__bench_said(k, kedge_stats_get(k, &stats), err);
		if (!rc)
			b->stored_bytes += stats.stored_bytes;
	}
	return rc;
}

static int make_store(struct bench *b, struct kedge__error *err)
{
	char *settings[] = {kedge__asprintf("l1=%s", b->store),
			    kedge__asprintf("chunk=%llu", (unsigned long long)b->chunk),
			    kedge__asprintf("codec=%s", b->codec),
			    kedge__asprintf("reducer=tree"),
			    kedge__asprintf("sync=no"),
			    NULL};
	kedge_t *k = NULL;
	int rc = 0;

	for (size_t i = 0; i + 1 < KEDGE__COUNT(settings); i++)
		if (!settings[i])
			rc = kedge__error_nomem(err);
	if (!rc)
		rc = kedge__bench_said(NULL, kedge_open("bench", NULL, (const char *const *)settings, &k), err);
	if (!rc)
		rc = take_versions(b, k, err);
	if (k && kedge_close(k) && !rc)
		rc = kedge__bench_said(NULL, KEDGE_E_IO, err);
	for (size_t i = 0; i + 1 < KEDGE__COUNT(settings); i++)
		kedge__free(settings[i]);
	return rc;
}

static int make_copy(struct bench *b, struct kedge__error *err)
{
	int rc = kedge__fs_create(b->copy, &b->copy_fd, err);

	return rc ? rc : kedge__fs_write(b->copy_fd, b->data, b->size, b->copy, err);
}

/* If it is as long as the copy: with a codec it may not be. */
static int open_first(struct bench *b, struct kedge__error *err)
{
	struct kedge__catalog *cat = NULL;
	uint64_t bytes = 0;
	int rc = kedge__catalog_open(b->store, "bench", KEDGE__CATALOG_READ, &cat, err);

	if (rc)
		return rc;
	b->first = kedge__segment_path(cat, 1, 0, 0);
	kedge__catalog_close(cat);
	rc = b->first ? kedge__fs_open_read(b->first, &b->first_fd, err) : kedge__error_nomem(err);
	if (!rc)
		rc = kedge__fs_size(b->first_fd, &bytes, b->first, err);
	if (!rc && bytes < b->size) {
		kedge__fs_close(b->first_fd);
		b->first_fd = -1;
	}
	return rc;
}

/* ---- a turn */

static void forget(struct bench *b)
{
	if (b->cold && (!kedge__bench_forget(b->store) || !kedge__bench_forget(b->copy)))
		b->stays = true;
}

/* A plain read of as many bytes as the state has. */
struct reading {
	struct bench *bench;
	const char *path;
	int fd;
};

static int read_piece(void *ctx, size_t i, int worker)
{
	const struct reading *r = ctx;
	const struct bench *b = r->bench;

	(void)worker;
	return kedge__fs_pread(r->fd, b->data + i * PIECE, KEDGE__MIN(PIECE, (size_t)b->size - i * PIECE), i * PIECE,
			       r->path, NULL);
}

static int read_once(struct bench *b, const char *path, int fd, double *seconds, struct kedge__error *err)
{
	struct reading r = {b, path, fd};
	double start = kedge__clock_seconds();
	int rc = kedge__pool_for(b->pool, (b->size + PIECE - 1) / PIECE, read_piece, &r);

	*seconds = kedge__clock_seconds() - start;
	return rc ? kedge__error_set(err, rc, 0, "cannot read %s", path) : 0;
}

static int restore_once(struct bench *b, struct kedge__error *err)
{
	struct kedge__restore_target target = {0, b->data, NULL, false};
	struct kedge__catalog *cat = NULL;
	struct kedge__lineage *lineage = NULL;
	double start = kedge__clock_seconds();
	int rc = kedge__catalog_open(b->store, "bench", KEDGE__CATALOG_READ, &cat, err);

	if (!rc)
		rc = kedge__lineage_open_by(b->pool, &cat, 1, b->versions, 0, &lineage, err);
	b->open_seconds = kedge__clock_seconds() - start;
	if (!rc)
		rc = kedge__restore_fill(lineage, b->pool, (struct kedge__io){0}, &target, 1, NULL, NULL, &b->stats,
					 err);
	kedge__lineage_close(lineage);
	kedge__catalog_close(cat);
	return rc;
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int take_turn(struct bench *b, uint64_t turn, struct kedge__error *err)
{
	double start, cpu;
	int rc;

	forget(b);
	if (b->first_fd >= 0) {
		rc = read_once(b, b->first, b->first_fd, &b->read_first[turn], err);
		if (rc)
			return rc;
		forget(b);
	}
	cpu = cpu_seconds();
	rc = read_once(b, b->copy, b->copy_fd, &b->read[turn], err);
	b->read_cpu[turn] = cpu_seconds() - cpu;
	if (rc)
		return rc;
	forget(b);
	cpu = cpu_seconds();
	start = kedge__clock_seconds();
	rc = restore_once(b, err);
	b->restore[turn] = kedge__clock_seconds() - start;
	b->restore_cpu[turn] = cpu_seconds() - cpu;
	b->ratio[turn] = b->restore[turn] / b->read[turn];
	b->first_ratio[turn] = b->first_fd >= 0 ? b->restore[turn] / b->read_first[turn] : 0;
	b->cpu_ratio[turn] = b->restore_cpu[turn] / b->read_cpu[turn];
	return rc;
}

/* ---- results */

static void print_json(struct bench *b)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "size", b->size);
	kedge__json_uint(o, "chunk", b->chunk);
	kedge__json_uint(o, "versions", b->versions);
	kedge__json_uint(o, "changed_percent", b->percent);
	kedge__json_text(o, "pattern", b->scattered ? "scattered" : "runs");
	kedge__json_text(o, "cache", b->cold && !b->stays ? "cold" : "warm");
	kedge__json_uint(o, "threads", (uint64_t)kedge__pool_threads(b->pool));
	kedge__json_real(o, "read_seconds", kedge__bench_median(b->read, b->repeat));
	kedge__json_real(o, "restore_seconds", kedge__bench_median(b->restore, b->repeat));
	kedge__json_real(o, "open_seconds", b->open_seconds);
	kedge__json_real(o, "resolve_seconds", b->stats.resolve_seconds);
	kedge__json_real(o, "fill_seconds", b->stats.fill_seconds);
	kedge__json_real(o, "verify_seconds", b->stats.verify_seconds);
	kedge__json_real(o, "read_share", b->stats.read_share);
	kedge__json_real(o, "decode_share", b->stats.decode_share);
	kedge__json_real(o, "place_share", b->stats.place_share);
	kedge__json_text(o, "bottleneck", kedge__restore_bottleneck(&b->stats));
	kedge__json_uint(o, "bytes_read", b->stats.bytes_read);
	kedge__json_uint(o, "bytes_mapped", b->stats.bytes_mapped);
	kedge__json_uint(o, "record_bytes", b->stored_bytes);
	kedge__json_real(o, "ratio", kedge__bench_median(b->ratio, b->repeat));
	kedge__json_real(o, "ratio_lowest", b->ratio[0]);
	kedge__json_real(o, "ratio_highest", b->ratio[b->repeat - 1]);
	if (b->first_fd >= 0) {
		kedge__json_real(o, "read_first_seconds", kedge__bench_median(b->read_first, b->repeat));
		kedge__json_real(o, "first_ratio", kedge__bench_median(b->first_ratio, b->repeat));
		kedge__json_real(o, "first_ratio_lowest", b->first_ratio[0]);
		kedge__json_real(o, "first_ratio_highest", b->first_ratio[b->repeat - 1]);
	}
	kedge__json_real(o, "ratio_of_lowest", b->restore[0] / b->read[0]);
	kedge__json_real(o, "read_cpu_seconds", kedge__bench_median(b->read_cpu, b->repeat));
	kedge__json_real(o, "restore_cpu_seconds", kedge__bench_median(b->restore_cpu, b->repeat));
	kedge__json_real(o, "cpu_ratio", kedge__bench_median(b->cpu_ratio, b->repeat));
	kedge__json_real(o, "cpu_ratio_lowest", b->cpu_ratio[0]);
	kedge__json_real(o, "cpu_ratio_highest", b->cpu_ratio[b->repeat - 1]);
	kedge__json_real(o, "cpu_ratio_of_lowest", b->restore_cpu[0] / b->read_cpu[0]);
	kedge__json_print(o);
}

static void print_text(struct bench *b)
{
	char size[KEDGE__TEXT_ROOM], record[KEDGE__TEXT_ROOM], read[KEDGE__TEXT_ROOM], mapped[KEDGE__TEXT_ROOM];

	printf("version %llu of %s, chunks of %llu bytes, %llu %% changed %s each time; %d threads, median of %llu%s\n",
	       (unsigned long long)b->versions, kedge__text_bytes(b->size, size), (unsigned long long)b->chunk,
	       (unsigned long long)b->percent, b->scattered ? "scattered" : "in runs", kedge__pool_threads(b->pool),
	       (unsigned long long)b->repeat, b->cold ? ", from storage" : "");
	if (b->stays)
		printf("note: files stay in the page cache here, as in a file system in memory\n");
	printf("record           %s, of which %s are read, and of these %s from mapped files\n",
	       kedge__text_bytes(b->stored_bytes, record), kedge__text_bytes(b->stats.bytes_read, read),
	       kedge__text_bytes(b->stats.bytes_mapped, mapped));
	printf("read a full copy %.3f s\n", kedge__bench_median(b->read, b->repeat));
	printf("restore          %.3f s (the last: open %.3f, resolve %.3f, read and fill %.3f, verify %.3f)\n",
	       kedge__bench_median(b->restore, b->repeat), b->open_seconds, b->stats.resolve_seconds,
	       b->stats.fill_seconds, b->stats.verify_seconds);
	printf("while it filled  read %.3f, check and decode %.3f, sum and place %.3f s a thread; most of it: %s\n",
	       b->stats.read_share, b->stats.decode_share, b->stats.place_share, kedge__restore_bottleneck(&b->stats));
	printf("restore / read   %.2f", kedge__bench_median(b->ratio, b->repeat));
	printf(" (%.2f..%.2f)\n", b->ratio[0], b->ratio[b->repeat - 1]);
	if (b->first_fd >= 0) {
		printf("of version 1     %.3f s to read as many bytes of its file; restore / that ",
		       kedge__bench_median(b->read_first, b->repeat));
		printf("%.2f", kedge__bench_median(b->first_ratio, b->repeat));
		printf(" (%.2f..%.2f)\n", b->first_ratio[0], b->first_ratio[b->repeat - 1]);
	}
	printf("processor time   %.3f s to read, %.3f s to restore; ", kedge__bench_median(b->read_cpu, b->repeat),
	       kedge__bench_median(b->restore_cpu, b->repeat));
	printf("%.2f", kedge__bench_median(b->cpu_ratio, b->repeat));
	printf(" (%.2f..%.2f)\n", b->cpu_ratio[0], b->cpu_ratio[b->repeat - 1]);
	printf("lowest of each   %.3f s to read, %.3f s to restore; %.2f; processor time %.3f, %.3f; %.2f\n",
	       b->read[0], b->restore[0], b->restore[0] / b->read[0], b->read_cpu[0], b->restore_cpu[0],
	       b->restore_cpu[0] / b->read_cpu[0]);
}

/* ---- the run */

static int prepare(struct bench *b, const char *dir, struct kedge__error *err)
{
	struct kedge__job_settings settings = {.threads = (int64_t)b->threads};

	b->store = kedge__asprintf("%s/store", dir);
	b->copy = kedge__asprintf("%s/copy", dir);
	b->data = kedge__map_alloc(b->size);
	if (!b->store || !b->copy || !b->data)
		return kedge__error_nomem(err);
	for (uint64_t i = 0; i + 8 <= b->size; i += 8)
		kedge__put64(b->data + i, kedge__bench_random(&b->seed));
	return kedge__tool_pool(&settings, &b->pool, err);
}

static int measure(void *bench, const char *dir, struct kedge__error *err)
{
	struct bench *b = bench;
	int rc = prepare(b, dir, err);

	if (!rc)
		rc = make_store(b, err);
	if (!rc)
		rc = make_copy(b, err);
	if (!rc)
		rc = open_first(b, err);
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
	kedge__fs_close(b->copy_fd);
	kedge__fs_close(b->first_fd);
	kedge__pool_free(b->pool);
	kedge__map_free(b->data, b->size);
	kedge__free(b->store);
	kedge__free(b->copy);
	kedge__free(b->first);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

int kedge__bench_restore(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct bench b = {.size = UINT64_C(1) << 30,
			  .chunk = 256,
			  .versions = 20,
			  .percent = 1,
			  .repeat = 5,
			  .codec = "none",
			  .dir = tmp && *tmp ? tmp : "/tmp",
			  .copy_fd = -1,
			  .first_fd = -1};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of the state (default: 1GiB)"},
	    {"chunk", 0, KEDGE__OPTION_SIZE, &b.chunk, "BYTES", "size of chunks (default: 256)"},
	    {"versions", 0, KEDGE__OPTION_UINT, &b.versions, "N",
	     "versions, of which the last is restored (default: 20)"},
	    {"percent", 0, KEDGE__OPTION_UINT, &b.percent, "N",
	     "part of the state that changes each time (default: 1)"},
	    {"scattered", 0, KEDGE__OPTION_FLAG, &b.scattered, NULL, "chunks change alone, not in runs of 64"},
	    {"cold", 0, KEDGE__OPTION_FLAG, &b.cold, NULL, "drop the files from the page cache before each turn"},
	    {"codec", 0, KEDGE__OPTION_TEXT, &b.codec, "CODEC", "codec of the store (default: none)"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.dir, "DIR", "where to write (default: $TMPDIR or /tmp)"},
	    {"threads", 0, KEDGE__OPTION_UINT, &b.threads, "N", "threads (default: as many as there are cores)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, of which the median is shown (default: 5)"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench restore",
	    .about =
		"Time to restore the last of many versions, verified, beside the read of one full copy of the same\n"
		"bytes from the same file system, by the same threads and into the same memory, taking turns. Both\n"
		"are in the page cache, unless --cold drops them.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench restore\nkedge-bench restore --size 256MiB --chunk 64 --scattered --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (!b.repeat || b.repeat > TURNS || !b.versions || b.percent > 100 || b.chunk < 32 ||
	    b.size < 2 * RUN * b.chunk)
		return kedge__usage_error(&b.usage,
					  "1 to %d turns, at least 1 version, 0 to 100 %%, 128 chunks or more", TURNS);
	return run(&b);
}
