/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench reduce: how fast each reducer is, and what it leaves, against a bare hash pass over the same chunks and
 * against memcpy, on the same threads. Reducers and peers take turns on the same memory, so that what disturbs one
 * disturbs the others; the ratio is taken within a turn. Then, one reducer at a time, how much memory it takes beyond
 * the state: at most, while a version is reduced, and between versions.
 */
#include "bench.h"

#include <stdatomic.h>
#include <stdlib.h>

#define SLAB  ((size_t)256 << 10)
#define RUN   64 /* chunks that change together */
#define TURNS 64 /* at most */

static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_FULL, KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST,
					     KEDGE__REDUCER_TREE, KEDGE__REDUCER_REX,   KEDGE__REDUCER_AUTO};
#define REDUCERS KEDGE__COUNT(ids)

struct change {
	unsigned percent;
	bool runs, first; /* first: all is new */
};

static const struct change changes[] = {{0, false, false},  {1, false, false}, {1, true, false},
					{10, false, false}, {10, true, false}, {100, false, false}};
static const struct change first_version = {0, false, true};

struct series {
	double seconds[TURNS], ratio[TURNS];
	uint64_t literal_bytes, metadata_bytes, extents;
};

struct bench {
	struct kedge__usage usage;
	uint64_t size, threads, repeat, record;
	struct kedge__text_list chunk_texts, reducer_texts;
	bool json;
	struct kedge__pool *pool;
	uint8_t *data, *copy;
	size_t chunk;
	uint64_t seed;
	struct kedge__reducer *reducers[REDUCERS]; /* as ids; NULL: not with such chunks */
	uint64_t version;
	struct series hash, memory, reduced[REDUCERS];
	_Atomic uint64_t sink;
	json_t *rows, *memory_rows;
	struct kedge__table table, memory_table;
};

/* ---- the state that changes */

static void touch_chunk(struct bench *b, uint64_t i)
{
	uint64_t *word = (uint64_t *)(void *)(b->data + i * b->chunk);

	*word += kedge__bench_random(&b->seed) | 1;
}

/* One group of COUNT chunks in each hundred-percent'th of the state, at a random place in it. */
static void apply(struct bench *b, struct change c)
{
	uint64_t chunks = b->size / b->chunk, count = c.runs ? RUN : 1;
	uint64_t span = c.percent ? count * 100 / c.percent : 0;

	for (uint64_t at = 0; span && at + span <= chunks; at += span) {
		uint64_t first = at + (span > count ? kedge__bench_random(&b->seed) % (span - count + 1) : 0);

		for (uint64_t i = 0; i < count; i++)
			touch_chunk(b, first + i);
	}
}

/* ---- peers */

static int hash_slab(void *ctx, size_t i, int worker)
{
	struct bench *b = ctx;
	size_t bytes = KEDGE__MIN(SLAB, (size_t)b->size - i * SLAB);

	(void)worker;
	atomic_fetch_add_explicit(&b->sink, kedge__bench_hash(b->data + i * SLAB, bytes, b->chunk),
				  memory_order_relaxed);
	return 0;
}

static int copy_slab(void *ctx, size_t i, int worker)
{
	struct bench *b = ctx;

	(void)worker;
	memcpy(b->copy + i * SLAB, b->data + i * SLAB, KEDGE__MIN(SLAB, (size_t)b->size - i * SLAB));
	return 0;
}

static double time_pass(struct bench *b, kedge__pool_fn fn)
{
	double start = kedge__clock_seconds();

	kedge__pool_for(b->pool, (b->size + SLAB - 1) / SLAB, fn, b);
	return kedge__clock_seconds() - start;
}

/* ---- reducers */

static enum kedge__map_encoding encoding_of(enum kedge__reducer_id id)
{
	return id == KEDGE__REDUCER_BASIC  ? KEDGE__MAP_BITMAP
	       : id == KEDGE__REDUCER_LIST ? KEDGE__MAP_LIST
	       : id == KEDGE__REDUCER_REX  ? KEDGE__MAP_PAGES
					   : KEDGE__MAP_RUNS;
}

static int metadata_of(const struct bench *b, const struct kedge__reduction *red, uint64_t *bytes,
		       struct kedge__error *err)
{
	char name[] = "state";
	struct kedge__region_record region = {.name = name, .bytes = b->size};
	struct kedge__bytes out = {0};
	int rc = kedge__map_encode(encoding_of(red->reducer), kedge__extents_of_tape(&red->map), red->chunk,
				   red->version, &region, 1, &out, err);

	*bytes = out.count;
	kedge__bytes_done(&out);
	return rc;
}

static int reduce_once(struct bench *b, size_t i, struct series *s, uint64_t turn, struct kedge__error *err)
{
	struct kedge__image_region region = {0, b->data, b->size};
	struct kedge__image image = {&region, 1};
	struct kedge__reduction red;
	double start = kedge__clock_seconds();
	int rc = kedge__reducer_reduce(b->reducers[i], b->pool, b->version, &image, NULL, &red, err);

	if (rc)
		return rc;
	kedge__reducer_commit(b->reducers[i]);
	s->seconds[turn] = kedge__clock_seconds() - start;
	s->literal_bytes = red.literal_bytes;
	s->extents = red.map.count;
	rc = metadata_of(b, &red, &s->metadata_bytes, err);
	kedge__reduction_done(&red);
	return rc;
}

static int take_turn(struct bench *b, struct change c, uint64_t turn, struct kedge__error *err)
{
	int rc = 0;

	apply(b, c);
	b->version++;
	b->memory.seconds[turn] = time_pass(b, copy_slab);
	for (size_t i = 0; !rc && i < REDUCERS; i++) {
		struct series *s = &b->reduced[i];

		if (!b->reducers[i])
			continue;
		kedge__bench_memory_fetch(b->size / 2, 1); /* more than it takes */
		b->hash.seconds[turn] = time_pass(b, hash_slab);
		rc = reduce_once(b, i, s, turn, err);
		s->ratio[turn] = b->hash.seconds[turn] / s->seconds[turn];
	}
	return rc;
}

/* ---- results */

static const char *change_name(struct change c)
{
	static const char *const names[][2] = {{"1 % scattered", "1 % runs"}, {"10 % scattered", "10 % runs"}};

	if (c.first || !c.percent)
		return c.first ? "first" : "0 %";
	return c.percent == 100 ? "100 %" : names[c.percent == 10][c.runs];
}

static double gigabytes(const struct bench *b, struct series *s)
{
	return (double)b->size / kedge__bench_median(s->seconds, b->repeat) * 1e-9;
}

static void add_json(struct bench *b, struct change c, const char *what, struct series *s, bool reducer)
{
	json_t *o = kedge__json_object();

	kedge__json_text(o, "what", what);
	kedge__json_uint(o, "chunk", b->chunk);
	kedge__json_uint(o, "changed_percent", c.percent);
	kedge__json_text(o, "pattern",
			 c.first                        ? "first"
			 : c.percent && c.percent < 100 ? c.runs ? "runs" : "scattered"
							: "all");
	kedge__json_real(o, "gigabytes_per_second", gigabytes(b, s));
	if (reducer) {
		kedge__json_uint(o, "literal_bytes", s->literal_bytes);
		kedge__json_uint(o, "metadata_bytes", s->metadata_bytes);
		kedge__json_uint(o, "extents", s->extents);
		kedge__json_real(o, "ratio_to_hash", kedge__bench_median(s->ratio, b->repeat));
		kedge__json_real(o, "ratio_lowest", s->ratio[0]);
		kedge__json_real(o, "ratio_highest", s->ratio[b->repeat - 1]);
	}
	kedge__json_add(b->rows, o);
}

static void add_text(struct bench *b, struct change c, const char *what, struct series *s, bool reducer)
{
	char lit[KEDGE__TEXT_ROOM], meta[KEDGE__TEXT_ROOM];
	struct kedge__table *t = &b->table;

	kedge__table_add(t, "%zu", b->chunk);
	kedge__table_add(t, "%s", change_name(c));
	kedge__table_add(t, "%s", what);
	kedge__table_add(t, "%.2f", gigabytes(b, s));
	if (!reducer) {
		for (int i = 0; i < 4; i++)
			kedge__table_add(t, "%s", "");
		return;
	}
	kedge__table_add(t, "%.2f", kedge__bench_median(s->ratio, b->repeat));
	kedge__table_add(t, "%.2f..%.2f", s->ratio[0], s->ratio[b->repeat - 1]);
	kedge__table_add(t, "%s", kedge__text_bytes(s->literal_bytes, lit));
	kedge__table_add(t, "%s", kedge__text_bytes(s->metadata_bytes, meta));
}

static void add_row(struct bench *b, struct change c, const char *what, struct series *s, bool reducer)
{
	if (b->json)
		add_json(b, c, what, s, reducer);
	else
		add_text(b, c, what, s, reducer);
}

static void add_rows(struct bench *b, struct change c)
{
	add_row(b, c, "memcpy", &b->memory, false);
	add_row(b, c, "hash", &b->hash, false);
	for (size_t i = 0; i < REDUCERS; i++)
		if (b->reducers[i])
			add_row(b, c, kedge__reducer_name(ids[i]), &b->reduced[i], true);
}

/* ---- the run */

static void drop_reducers(struct bench *b)
{
	for (size_t i = 0; i < REDUCERS; i++) {
		kedge__reducer_free(b->reducers[i]);
		b->reducers[i] = NULL;
	}
}

static bool is_wanted(const struct bench *b, size_t i)
{
	bool wanted = !b->reducer_texts.count;

	for (size_t k = 0; k < b->reducer_texts.count; k++)
		wanted = wanted || !strcmp(b->reducer_texts.at[k], kedge__reducer_name(ids[i]));
	return wanted;
}

static int make_reducer(struct bench *b, size_t i, struct kedge__error *err)
{
	struct kedge__reducer_options o = {.id = ids[i], .chunk = (uint32_t)b->chunk, .record_bytes = b->record};

	if ((ids[i] == KEDGE__REDUCER_REX && b->chunk > KEDGE__PATTERN_MAX) || !is_wanted(b, i))
		return 0;
	return kedge__reducer_new(&o, &b->reducers[i], err);
}

/* New reducers, and the first version, which nothing is known of. */
static int measure_first(struct bench *b, struct kedge__error *err)
{
	int rc = 0;

	b->version = 1;
	for (uint64_t turn = 0; !rc && turn < b->repeat; turn++) {
		drop_reducers(b);
		for (size_t i = 0; !rc && i < REDUCERS; i++)
			rc = make_reducer(b, i, err);
		if (!rc)
			rc = take_turn(b, first_version, turn, err);
	}
	if (!rc)
		add_rows(b, first_version);
	return rc;
}

/* ---- memory */

/* A line of /proc/self/status in bytes; 0: not known. */
static uint64_t status_bytes(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long long kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && sscanf(line + strlen(name), ": %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

/* From now on the peak is counted. */
static void peak_begin(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "w");

	if (f) {
		fputs("5", f);
		fclose(f);
	}
}

static void add_memory(struct bench *b, size_t i, struct change c, uint64_t peak, uint64_t rest)
{
	double size = (double)b->size;
	json_t *o;

	if (b->json) {
		o = kedge__json_object();
		kedge__json_text(o, "what", kedge__reducer_name(ids[i]));
		kedge__json_uint(o, "chunk", b->chunk);
		kedge__json_text(o, "changed", change_name(c));
		kedge__json_uint(o, "peak_bytes", peak);
		kedge__json_real(o, "peak_share", (double)peak / size);
		kedge__json_uint(o, "resting_bytes", rest);
		kedge__json_add(b->memory_rows, o);
		return;
	}
	kedge__table_add(&b->memory_table, "%zu", b->chunk);
	kedge__table_add(&b->memory_table, "%s", kedge__reducer_name(ids[i]));
	kedge__table_add(&b->memory_table, "%s", change_name(c));
	kedge__table_add(&b->memory_table, "%.1f %%", 100.0 * (double)peak / size);
	kedge__table_add(&b->memory_table, "%.1f %%", 100.0 * (double)rest / size);
}

static int measure_memory(struct bench *b, size_t i, struct kedge__error *err)
{
	uint64_t before;
	int rc;

	drop_reducers(b);
	before = status_bytes("VmRSS");
	b->version = 0;
	rc = make_reducer(b, i, err);
	for (size_t k = 0; !rc && b->reducers[i] && k <= KEDGE__COUNT(changes); k++) {
		struct change c = k ? changes[k - 1] : first_version;
		uint64_t peak = 0, now;

		for (uint64_t turn = 0; !rc && turn < (k ? b->repeat : 1); turn++) {
			struct series unused;

			apply(b, c);
			b->version++;
			peak_begin();
			rc = reduce_once(b, i, &unused, 0, err);
			peak = KEDGE__MAX(peak, status_bytes("VmHWM"));
		}
		now = status_bytes("VmRSS");
		if (!rc)
			add_memory(b, i, c, peak - KEDGE__MIN(before, peak), now - KEDGE__MIN(before, now));
	}
	return rc;
}

static int measure_chunk(struct bench *b, struct kedge__error *err)
{
	int rc = measure_first(b, err);

	for (size_t i = 0; !rc && i < KEDGE__COUNT(changes); i++) {
		for (uint64_t turn = 0; !rc && turn < b->repeat; turn++)
			rc = take_turn(b, changes[i], turn, err);
		if (!rc)
			add_rows(b, changes[i]);
	}
	for (size_t i = 0; !rc && i < REDUCERS; i++)
		rc = measure_memory(b, i, err);
	drop_reducers(b);
	return rc;
}

static void print_results(struct bench *b)
{
	char size[KEDGE__TEXT_ROOM];

	if (b->json) {
		json_t *o = kedge__json_object();

		kedge__json_uint(o, "size", b->size);
		kedge__json_uint(o, "threads", (uint64_t)kedge__pool_threads(b->pool));
		kedge__json_uint(o, "repeat", b->repeat);
		kedge__json_text(o, "digest_kernel", kedge__digest_kernel());
		kedge__json_text(o, "hash_peer", kedge__bench_hash_name());
		kedge__json_set(o, "results", b->rows);
		kedge__json_set(o, "memory", b->memory_rows);
		kedge__json_print(o);
		return;
	}
	printf("%s, %d threads, median of %llu; digest kernel %s; hash: %s\n\n", kedge__text_bytes(b->size, size),
	       kedge__pool_threads(b->pool), (unsigned long long)b->repeat, kedge__digest_kernel(),
	       kedge__bench_hash_name());
	kedge__table_print(&b->table, stdout);
	printf("\nmemory beyond the state, at most and between versions\n\n");
	kedge__table_print(&b->memory_table, stdout);
}

static int prepare(struct bench *b, struct kedge__error *err)
{
	static const char *const heads[] = {"chunk",   "changed",         "what",     "GB/s",
					    "of hash", "lowest..highest", "literals", "metadata"};
	static const char *const memory_heads[] = {"chunk", "what", "changed", "peak", "resting"};
	struct kedge__job_settings settings = {.threads = (int64_t)b->threads};

	b->data = kedge__map_alloc(b->size);
	b->copy = kedge__map_alloc(b->size);
	if (!b->data || !b->copy)
		return kedge__error_nomem(err);
	for (uint64_t i = 0; i + 8 <= b->size; i += 8)
		kedge__put64(b->data + i, kedge__bench_random(&b->seed));
	if (b->json) {
		b->rows = kedge__json_array();
		b->memory_rows = kedge__json_array();
	}
	kedge__table_init(&b->memory_table, "rllrr");
	for (size_t i = 0; i < KEDGE__COUNT(memory_heads); i++)
		kedge__table_add(&b->memory_table, "%s", memory_heads[i]);
	kedge__table_init(&b->table, "rllrrrrr");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_add(&b->table, "%s", heads[i]);
	return kedge__tool_pool(&settings, &b->pool, err);
}

static int run(struct bench *b)
{
	static const char *const presets[] = {"64", "256", "4096"};
	const char *const *texts = b->chunk_texts.count ? b->chunk_texts.at : presets;
	size_t n = b->chunk_texts.count ? b->chunk_texts.count : KEDGE__COUNT(presets);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = prepare(b, &err);

	for (size_t i = 0; !rc && i < n; i++) {
		uint64_t chunk;

		if (kedge__size_parse(texts[i], &chunk) || chunk > b->size || chunk % 8)
			return kedge__usage_error(&b->usage, "'%s' is not a size of chunks", texts[i]);
		b->chunk = (size_t)chunk;
		rc = measure_chunk(b, &err);
	}
	if (!rc)
		print_results(b);
	kedge__pool_free(b->pool);
	kedge__map_free(b->data, b->size);
	kedge__map_free(b->copy, b->size);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

int kedge__bench_reduce(int argc, char **argv)
{
	struct bench b = {.size = UINT64_C(1) << 30, .repeat = 5, .record = UINT64_C(1) << 30};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of the state (default: 1GiB)"},
	    {"chunk", 0, KEDGE__OPTION_LIST, &b.chunk_texts, "BYTES",
	     "size of chunks; may be given again (default: 64, 256 and 4096)"},
	    {"reducer", 0, KEDGE__OPTION_LIST, &b.reducer_texts, "NAME",
	     "only this one; may be given again (default: all)"},
	    {"threads", 0, KEDGE__OPTION_UINT, &b.threads, "N", "threads (default: as many as there are cores)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, of which the median is shown (default: 5)"},
	    {"record", 0, KEDGE__OPTION_SIZE, &b.record, "BYTES", "memory of the hash record (default: 1GiB)"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench reduce",
	    .about =
		"Throughput of each reducer on a first version and with 0, 1, 10 and 100 % of the chunks changed,\n"
		"scattered and in runs, of a\n"
		"bare XXH3-128 pass over the same chunks and of memcpy, on the same threads and the same memory,\n"
		"taking turns; the bytes of literals and of the encoded extent map; and the memory that each takes.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench reduce\nkedge-bench reduce --size 256MiB --chunk 64 --threads 1 --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (!b.repeat || b.repeat > TURNS || b.size < SLAB || b.threads > 4096)
		return kedge__usage_error(&b.usage, "1 to %d turns, at least 256 KiB, at most 4096 threads", TURNS);
	return run(&b);
}
