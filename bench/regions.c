/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench regions: checkpoint and restart of many small regions, whose names stay or are others in each version,
 * beside the write and the read of one file with the same bytes, synced, taking turns; and what a version adds to the
 * store.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#define TURNS 64 /* at most */

struct bench {
	struct kedge__usage usage;
	uint64_t count, bytes, repeat, changed;
	const char *dir, *reducer;
	bool fresh, json;
	uint8_t *data;
	uint64_t seed;
	char *store, *copy; /* paths */
	double write[TURNS], checkpoint[TURNS], read[TURNS], restart[TURNS];
	double protect;            /* seconds of all turns */
	uint64_t stored, metadata; /* bytes of the last version */
};

static void name_make(const struct bench *b, uint64_t turn, uint64_t i, char name[KEDGE__TEXT_ROOM])
{
	snprintf(name, KEDGE__TEXT_ROOM, "region-%llu.%llu", (unsigned long long)(b->fresh ? turn : 0),
		 (unsigned long long)i);
}

/* The regions of TURN, in place of those of the turn before it. */
static int protect(struct bench *b, kedge_t *k, uint64_t turn, bool first, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	char name[KEDGE__TEXT_ROOM];
	int rc = 0;

	for (uint64_t i = 0; !rc && !first && b->fresh && i < b->count; i++) {
		name_make(b, turn - 1, i, name);
		rc = kedge_unprotect(k, name);
	}
	for (uint64_t i = 0; !rc && i < b->count; i++) {
		name_make(b, turn, i, name);
		rc = kedge_protect(k, name, b->data + i * b->bytes, b->bytes, KEDGE_BYTES);
	}
	b->protect += kedge__clock_seconds() - start;
	return kedge__bench_said(k, rc, err);
}

static int write_copy(struct bench *b, uint64_t turn, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int fd = -1, rc = kedge__fs_unlink(b->copy, err);

	if (!rc)
		rc = kedge__fs_create(b->copy, &fd, err);
	if (!rc)
		rc = kedge__fs_write(fd, b->data, b->count * b->bytes, b->copy, err);
	if (!rc)
		rc = kedge__fs_sync(fd, b->copy, err);
	kedge__fs_close(fd);
	b->write[turn] = kedge__clock_seconds() - start;
	return rc;
}

static int read_copy(struct bench *b, uint64_t turn, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int fd = -1, rc = kedge__fs_open_read(b->copy, &fd, err);

	if (!rc)
		rc = kedge__fs_pread(fd, b->data, b->count * b->bytes, 0, b->copy, err);
	kedge__fs_close(fd);
	b->read[turn] = kedge__clock_seconds() - start;
	return rc;
}

static int job_open(const struct bench *b, kedge_t **k, struct kedge__error *err)
{
	char *settings[] = {kedge__asprintf("l1=%s", b->store), kedge__asprintf("reducer=%s", b->reducer), NULL};
	int rc = settings[0] && settings[1] ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__bench_said(NULL, kedge_open("bench", NULL, (const char *const *)settings, k), err);
	kedge__free(settings[0]);
	kedge__free(settings[1]);
	return rc;
}

/* As many regions as are to change, anywhere, get new bytes; in the first version all. */
static void change(struct bench *b, uint64_t turn)
{
	uint64_t n = turn ? b->changed : b->count;

	for (uint64_t i = 0; i < n; i++) {
		uint8_t *at = b->data + (n == b->count ? i : kedge__bench_random(&b->seed) % b->count) * b->bytes;

		for (uint64_t k = 0; k < b->bytes; k++)
			at[k] = (uint8_t)kedge__bench_random(&b->seed);
	}
}

static int note_bytes(struct bench *b, kedge_t *k, struct kedge__error *err)
{
	struct kedge_stats stats;
	int rc = kedge_wait(k);

	if (!rc)
		rc = kedge_stats_get(k, &stats);
	if (rc)
		return kedge__bench_said(k, rc, err);
	b->stored = stats.stored_bytes;
	b->metadata = stats.metadata_bytes;
	return 0;
}

static int take_versions(struct bench *b, kedge_t *k, struct kedge__error *err)
{
	int rc = 0;

	for (uint64_t turn = 0; !rc && turn < b->repeat; turn++) {
		double start;

		change(b, turn);
		rc = protect(b, k, turn, turn == 0, err);
		if (!rc)
			rc = write_copy(b, turn, err);
		start = kedge__clock_seconds();
		if (!rc)
			rc = kedge__bench_said(k, kedge_checkpoint(k, turn), err);
		b->checkpoint[turn] = kedge__clock_seconds() - start;
	}
	return rc ? rc : note_bytes(b, k, err);
}

/* Of the last version, by a job that was just opened. */
static int restart(struct bench *b, uint64_t turn, struct kedge__error *err)
{
	uint64_t last = b->repeat - 1;
	kedge_t *k = NULL;
	int rc = read_copy(b, turn, err);
	double start;

	if (!rc)
		rc = job_open(b, &k, err);
	if (!rc)
		rc = protect(b, k, last, true, err);
	start = kedge__clock_seconds();
	if (!rc)
		rc = kedge__bench_said(k, kedge_restart(k, last, NULL), err);
	b->restart[turn] = kedge__clock_seconds() - start;
	if (k && kedge_close(k) && !rc)
		rc = kedge__bench_said(NULL, KEDGE_E_IO, err);
	return rc;
}

static int measure(void *bench, const char *dir, struct kedge__error *err)
{
	struct bench *b = bench;
	kedge_t *k = NULL;
	int rc;

	b->store = kedge__asprintf("%s/store", dir);
	b->copy = kedge__asprintf("%s/copy", dir);
	b->data = kedge__map_alloc(b->count * b->bytes);
	rc = b->store && b->copy && b->data ? job_open(b, &k, err) : kedge__error_nomem(err);
	if (!rc)
		rc = take_versions(b, k, err);
	if (k && kedge_close(k) && !rc)
		rc = kedge__bench_said(NULL, KEDGE_E_IO, err);
	for (uint64_t turn = 0; !rc && turn < b->repeat; turn++)
		rc = restart(b, turn, err);
	return rc;
}

static void print_json(struct bench *b)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "regions", b->count);
	kedge__json_uint(o, "region_bytes", b->bytes);
	kedge__json_text(o, "reducer", b->reducer);
	kedge__json_bool(o, "fresh_names", b->fresh);
	kedge__json_uint(o, "changed", b->changed);
	kedge__json_uint(o, "stored_bytes", b->stored);
	kedge__json_uint(o, "metadata_bytes", b->metadata);
	kedge__json_real(o, "protect_seconds", b->protect / (double)(2 * b->repeat));
	kedge__json_real(o, "checkpoint_first_seconds", b->checkpoint[0]);
	kedge__json_real(o, "checkpoint_last_seconds", b->checkpoint[b->repeat - 1]);
	kedge__json_real(o, "checkpoint_seconds", kedge__bench_median(b->checkpoint, b->repeat));
	kedge__json_real(o, "write_seconds", kedge__bench_median(b->write, b->repeat));
	kedge__json_real(o, "restart_seconds", kedge__bench_median(b->restart, b->repeat));
	kedge__json_real(o, "read_seconds", kedge__bench_median(b->read, b->repeat));
	kedge__json_print(o);
}

static void print_text(struct bench *b)
{
	char each[KEDGE__TEXT_ROOM], metadata[KEDGE__TEXT_ROOM], ends[80];

	printf("%llu regions of %s, of which %llu change in each version, with %s names, reducer %s; median of %llu\n",
	       (unsigned long long)b->count, kedge__text_bytes(b->bytes, each), (unsigned long long)b->changed,
	       b->fresh ? "other" : "the same", b->reducer, (unsigned long long)b->repeat);
	printf("protect          %.3f s\n", b->protect / (double)(2 * b->repeat));
	/* In the order of versions, before the median sorts them. */
	snprintf(ends, sizeof(ends), "the first %.3f, the last %.3f", b->checkpoint[0], b->checkpoint[b->repeat - 1]);
	printf("checkpoint       %.3f s (%s)\n", kedge__bench_median(b->checkpoint, b->repeat), ends);
	printf("write and sync   %.3f s, the same bytes in one file\n", kedge__bench_median(b->write, b->repeat));
	printf("restart          %.3f s\n", kedge__bench_median(b->restart, b->repeat));
	printf("read             %.3f s\n", kedge__bench_median(b->read, b->repeat));
	printf("stored           %s in the last version, of which %s metadata\n", kedge__text_bytes(b->stored, each),
	       kedge__text_bytes(b->metadata, metadata));
}

static int run(struct bench *b)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__bench_dir_use(b->dir, measure, b, &err);

	if (!rc)
		(b->json ? print_json : print_text)(b);
	kedge__map_free(b->data, b->count * b->bytes);
	kedge__free(b->store);
	kedge__free(b->copy);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

int kedge__bench_regions(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct bench b = {.count = 100000,
			  .bytes = 64,
			  .repeat = 5,
			  .changed = UINT64_MAX,
			  .reducer = "auto",
			  .dir = tmp && *tmp ? tmp : "/tmp"};
	const struct kedge__option options[] = {
	    {"count", 0, KEDGE__OPTION_UINT, &b.count, "N", "regions (default: 100000)"},
	    {"bytes", 0, KEDGE__OPTION_SIZE, &b.bytes, "BYTES", "size of a region (default: 64)"},
	    {"changed", 0, KEDGE__OPTION_UINT, &b.changed, "N", "regions that change in each version (default: all)"},
	    {"fresh", 0, KEDGE__OPTION_FLAG, &b.fresh, NULL, "other names in each version"},
	    {"reducer", 0, KEDGE__OPTION_TEXT, &b.reducer, "NAME", "reducer of the store (default: auto)"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.dir, "DIR", "where to write (default: $TMPDIR or /tmp)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "versions, and restarts (default: 5)"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench regions",
	    .about =
		"Time to checkpoint and to restart many small regions, beside the write, synced, and the read of one "
		"file with\n"
		"the same bytes; and what the last version takes in the store.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench regions\nkedge-bench regions --changed 0\nkedge-bench regions --count 10000 "
		       "--fresh --repeat 12 --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (!b.repeat || b.repeat > TURNS || !b.count || b.count > KEDGE__SLOT_LIMIT || !b.bytes || b.bytes > 1 << 20)
		return kedge__usage_error(&b.usage, "1 to %d versions, 1 to 2^20 regions of 1 byte to 1 MiB", TURNS);
	b.changed = KEDGE__MIN(b.changed, b.count);
	return run(&b);
}
