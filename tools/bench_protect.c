/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench protect: how fast teams of ranks protect their segments and rebuild lost ones, beside the inner loop of
 * the same arithmetic on the same memory without any communication, and plain copies, in turns. Ranks are threads.
 */
#include "bench_protect.h"

#include <stdlib.h>

#define TURNS_MAX 64

/* Figure, its name in JSON, its text. */
#define FIGURES(X)                                                                                                     \
	X(COPY, "memcpy", "memcpy")                                                                                    \
	X(LOOP, "encode_loop", "encoding, inner loop alone")                                                           \
	X(ENCODE, "encode", "encoding")                                                                                \
	X(ENCODE_COPY, "encode_copied", "encoding, units copied")                                                      \
	X(REPAIR_LOOP, "rebuild_loop", "rebuilding, inner loop alone")                                                 \
	X(REBUILD, "rebuild", "rebuilding")

enum figure {
#define KEDGE__X(id, name, text) id,
	FIGURES(KEDGE__X)
#undef KEDGE__X
	    FIGURE_COUNT
};

static const struct {
	const char *name, *text;
} figures[] = {
#define KEDGE__X(id, name, text) {name, text},
    FIGURES(KEDGE__X)
#undef KEDGE__X
};

struct rank { /* a thread's */
	uint8_t *segment, *shield, *back;
	struct kedge__team_room room;
	int rc;
};

struct bench {
	struct kedge__usage usage;
	uint64_t size, repeat, unit; /* unit: 0: as shields have it */
	const char *only;
	bool json;
	struct kedge__protection scheme;
	struct kedge__shield shape;
	uint32_t lost; /* the first so many members */
	struct rank ranks[KEDGE__TEAM_MOST];
	struct kedge__bench_ranks *group;
	struct kedge__pool *pool;
	double seconds[FIGURE_COUNT][TURNS_MAX];
	json_t *results;
	struct kedge__table table;
};

static uint64_t units_of(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit;
}

static size_t shield_bytes(const struct bench *b)
{
	return (size_t)(b->shape.rows * b->shape.parity * b->shape.unit);
}

/* Whole rows: what is rebuilt is put so. */
static size_t segment_room(const struct bench *b)
{
	return (size_t)(b->shape.rows * (b->shape.members - b->shape.parity) * b->shape.unit);
}

/* ------------------------------------------------------------------ what a rank does */

static const uint8_t *memory_get(void *ctx, uint64_t at, size_t bytes, uint8_t *to)
{
	(void)bytes;
	(void)to;
	return (const uint8_t *)ctx + at;
}

struct target {
	uint8_t *at;
	size_t row;
};

static int row_put(void *ctx, uint64_t row, const uint8_t *units, struct kedge__error *err)
{
	const struct target *t = ctx;

	(void)err;
	if (units != t->at + row * t->row)
		memcpy(t->at + row * t->row, units, t->row);
	return 0;
}

/* A row is made where it will be. */
static uint8_t *row_place(void *ctx, uint64_t row)
{
	const struct target *t = ctx;

	return t->at + row * t->row;
}

static void copy(struct bench *b, uint32_t r)
{
	memcpy(b->ranks[r].back, b->ranks[r].segment, (size_t)b->size);
}

/* The same arithmetic, on as many bytes, of one rank's own memory. */
static void loop(struct bench *b, uint32_t r, uint32_t count, const uint8_t *rows, uint8_t *to)
{
	uint32_t k = b->shape.members - b->shape.parity;
	struct rank *rank = &b->ranks[r];
	uint8_t *data[KEDGE__TEAM_MOST], *out[KEDGE__TEAM_MOST];

	for (uint64_t row = 0; row < b->shape.rows; row++) {
		for (uint32_t d = 0; d < k; d++)
			data[d] = rank->segment + (d * b->shape.rows + row) * b->shape.unit;
		for (uint32_t i = 0; i < count; i++)
			out[i] = to + (i * b->shape.rows + row) * b->shape.unit;
		kedge__code_apply(k, count, rows, rank->room.tables, b->shape.unit, data, out);
	}
}

static void encode_loop(struct bench *b, uint32_t r)
{
	uint8_t rows[KEDGE__TEAM_MOST * KEDGE__TEAM_MOST];

	kedge__code_rows(b->shape.members - b->shape.parity, b->shape.parity, rows);
	loop(b, r, b->shape.parity, rows, b->ranks[r].shield);
}

/* Data units of stripe S that are lost. */
static uint32_t lost_of(const struct bench *b, uint32_t s, bool *have)
{
	uint32_t n = b->shape.members, m = b->shape.parity, k = n - m, made = 0;

	for (uint32_t u = 0; u < n; u++) {
		uint32_t member = u < k ? (s + m + u) % n : (s + u - k) % n;

		have[u] = member >= b->lost;
		made += u < k && !have[u];
	}
	return made;
}

static void repair_loop(struct bench *b, uint32_t r)
{
	uint32_t k = b->shape.members - b->shape.parity, use[KEDGE__TEAM_MOST];
	uint8_t rows[KEDGE__TEAM_MOST * KEDGE__TEAM_MOST];
	bool have[KEDGE__TEAM_MOST];

	if (!lost_of(b, r, have))
		return;
	loop(b, r, kedge__code_repair(k, b->shape.parity, have, use, rows), rows, b->ranks[r].back);
}

static void encode_by(struct bench *b, uint32_t r, bool lends)
{
	struct kedge__shield mine = b->shape;
	struct target t = {b->ranks[r].shield, (size_t)mine.parity * mine.unit};
	struct kedge__encoding e = {.shape = &mine,
				    .source = {memory_get, b->ranks[r].segment, b->size},
				    .put = row_put,
				    .place = row_place,
				    .put_ctx = &t,
				    .mover = kedge__bench_ranks_mover(b->group, r, lends),
				    .room = &b->ranks[r].room};

	mine.self = r;
	b->ranks[r].rc = kedge__encode_run(&e, mine.rows + 3, NULL); /* the last call gives back what is lent */
}

static void encode(struct bench *b, uint32_t r)
{
	encode_by(b, r, true);
}

static void encode_copied(struct bench *b, uint32_t r)
{
	encode_by(b, r, false);
}

static void rebuild(struct bench *b, uint32_t r)
{
	uint32_t segments[KEDGE__TEAM_MOST], shields[KEDGE__TEAM_MOST], n = b->shape.members;
	struct kedge__unit_source segment[KEDGE__TEAM_MOST], shield[KEDGE__TEAM_MOST];
	struct target t = {b->ranks[r].back, (size_t)(n - b->shape.parity) * b->shape.unit};
	struct kedge__rebuilding w = {.shape = &b->shape,
				      .segment_host = segments,
				      .shield_host = shields,
				      .rank = r,
				      .segment = segment,
				      .shield = shield,
				      .put = row_put,
				      .put_ctx = &t,
				      .mover = kedge__bench_ranks_mover(b->group, r, false),
				      .room = &b->ranks[r].room};

	for (uint32_t i = 0; i < n; i++) {
		segments[i] = shields[i] = i < b->lost ? KEDGE__NO_RANK : i;
		segment[i] = (struct kedge__unit_source){memory_get, b->ranks[i].segment, b->size};
		shield[i] = (struct kedge__unit_source){memory_get, b->ranks[i].shield, shield_bytes(b)};
	}
	b->ranks[r].rc = kedge__rebuild_run(&w, NULL);
}

/* ------------------------------------------------------------------ turns */

typedef void rank_work(struct bench *b, uint32_t rank);

struct turn {
	struct bench *b;
	rank_work *work;
};

static int turn_rank(void *ctx, size_t i, int worker)
{
	const struct turn *t = ctx;

	(void)worker;
	t->work(t->b, (uint32_t)i);
	return 0;
}

static void turn(struct bench *b, enum figure f, uint64_t n, rank_work *work)
{
	struct turn t = {b, work};
	double start = kedge__clock_seconds();

	(void)kedge__pool_for(b->pool, b->shape.members, turn_rank, &t);
	b->seconds[f][n] = kedge__clock_seconds() - start;
}

static int check(const struct bench *b, struct kedge__error *err)
{
	for (uint32_t r = 0; r < b->lost; r++)
		if (b->ranks[r].rc || memcmp(b->ranks[r].back, b->ranks[r].segment, (size_t)b->size) != 0)
			return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "what was rebuilt is not what was lost");
	return 0;
}

static int turns(struct bench *b, struct kedge__error *err)
{
	int rc = 0;

	turn(b, COPY, 0, copy); /* for once, not counted: memory that was not touched before */
	turn(b, ENCODE, 0, encode);
	for (uint64_t n = 0; n < b->repeat && !rc; n++) {
		turn(b, COPY, n, copy);
		turn(b, LOOP, n, encode_loop);
		turn(b, ENCODE, n, encode);
		turn(b, ENCODE_COPY, n, encode_copied);
		turn(b, REPAIR_LOOP, n, repair_loop);
		turn(b, REBUILD, n, rebuild);
		rc = check(b, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ what is said */

/* Bytes that count: those that are protected, or those that come back. */
static double bytes_of(const struct bench *b, enum figure f)
{
	return (double)b->size * (f == REPAIR_LOOP || f == REBUILD ? b->lost : b->shape.members);
}

/* The median over turns of how fast F is in proportion to OTHER in the same turn. */
static double ratio_of(const struct bench *b, enum figure f, enum figure other)
{
	double ratios[TURNS_MAX];

	for (uint64_t n = 0; n < b->repeat; n++)
		ratios[n] = b->seconds[other][n] / b->seconds[f][n];
	return kedge__bench_median(ratios, b->repeat);
}

static void row_add(struct bench *b, const char *scheme, enum figure f, double ratio)
{
	double sorted[TURNS_MAX], bytes = bytes_of(b, f), median;

	memcpy(sorted, b->seconds[f], sizeof(sorted));
	median = kedge__bench_median(sorted, b->repeat);
	if (b->json) {
		json_t *row = kedge__json_object();

		kedge__json_text(row, "protect", scheme);
		kedge__json_uint(row, "members", b->shape.members);
		kedge__json_text(row, "what", figures[f].name);
		kedge__json_real(row, "seconds", median);
		kedge__json_real(row, "gigabytes_per_second", bytes / median / 1e9);
		kedge__json_real(row, "lowest", bytes / sorted[b->repeat - 1] / 1e9);
		kedge__json_real(row, "highest", bytes / sorted[0] / 1e9);
		if (ratio > 0)
			kedge__json_real(row, "ratio", ratio);
		kedge__json_add(b->results, row);
		return;
	}
	kedge__table_text(&b->table, scheme);
	kedge__table_text(&b->table, figures[f].text);
	kedge__table_add(&b->table, "%.3g", bytes / median / 1e9);
	kedge__table_add(&b->table, "(%.3g..%.3g)", bytes / sorted[b->repeat - 1] / 1e9, bytes / sorted[0] / 1e9);
	if (ratio > 0)
		kedge__table_add(&b->table, "%.2f", ratio);
	else
		kedge__table_text(&b->table, "");
}

static void report(struct bench *b)
{
	char scheme[KEDGE__PROTECTION_TEXT];

	kedge__protection_text(b->scheme.scheme, b->shape.members, b->shape.parity, scheme);
	row_add(b, scheme, COPY, 0);
	row_add(b, scheme, LOOP, 0);
	row_add(b, scheme, ENCODE, ratio_of(b, ENCODE, LOOP));
	row_add(b, scheme, ENCODE_COPY, ratio_of(b, ENCODE_COPY, LOOP));
	row_add(b, scheme, REPAIR_LOOP, 0);
	row_add(b, scheme, REBUILD, ratio_of(b, REBUILD, REPAIR_LOOP));
}

/* ------------------------------------------------------------------ a scheme */

static int rank_make(struct bench *b, struct rank *r, uint64_t *seed, struct kedge__error *err)
{
	*r = (struct rank){.rc = 0};
	r->segment = kedge__map_alloc(segment_room(b));
	r->shield = kedge__map_alloc(shield_bytes(b));
	r->back = kedge__map_alloc(segment_room(b));
	if (!r->segment || !r->shield || !r->back)
		return kedge__error_nomem(err);
	for (size_t i = 0; i + 8 <= b->size; i += 8) {
		uint64_t word = kedge__bench_random(seed);

		memcpy(r->segment + i, &word, sizeof(word));
	}
	return kedge__team_room_init(&r->room, b->shape.members, 1, b->shape.unit, err);
}

static void rank_free(const struct bench *b, struct rank *r)
{
	kedge__team_room_done(&r->room);
	if (r->segment)
		kedge__map_free(r->segment, segment_room(b));
	if (r->shield)
		kedge__map_free(r->shield, shield_bytes(b));
	if (r->back)
		kedge__map_free(r->back, segment_room(b));
	*r = (struct rank){.rc = 0};
}

static int team_make(struct bench *b, struct kedge__error *err)
{
	uint64_t seed = 1;
	int rc;

	b->shape = (struct kedge__shield){
	    .scheme = b->scheme.scheme, .members = b->scheme.members, .parity = b->scheme.parity};
	for (uint32_t i = 0; i < b->shape.members; i++)
		b->shape.at[i] = (struct kedge__shield_member){.rank = i, .file_bytes = b->size};
	kedge__shield_measure(&b->shape);
	if (b->unit) {
		b->shape.unit = (uint32_t)b->unit;
		b->shape.rows = units_of(b->size, b->unit * (b->shape.members - b->shape.parity));
	}
	b->lost = b->shape.parity;
	b->group = kedge__bench_ranks_new(b->shape.members);
	rc = b->group ? kedge__pool_new((int)b->shape.members, &b->pool, err) : kedge__error_nomem(err);
	if (!rc && kedge__pool_threads(b->pool) != (int)b->shape.members)
		rc = kedge__error_set(err, KEDGE_E_NOMEM, 0, "the system does not grant %u threads", b->shape.members);
	for (uint32_t i = 0; i < b->shape.members && !rc; i++)
		rc = rank_make(b, &b->ranks[i], &seed, err);
	return rc;
}

static int measure(struct bench *b, struct kedge__error *err)
{
	int rc = team_make(b, err);

	if (!rc)
		rc = turns(b, err);
	if (!rc)
		report(b);
	for (uint32_t i = 0; i < b->shape.members; i++)
		rank_free(b, &b->ranks[i]);
	kedge__pool_free(b->pool);
	kedge__bench_ranks_free(b->group);
	b->pool = NULL;
	b->group = NULL;
	return rc;
}

static void results_begin(struct bench *b)
{
	static const char *const heads[] = {"PROTECT", "WHAT", "GB/s", "", "RATIO"};

	if (b->json) {
		b->results = kedge__json_array();
		return;
	}
	kedge__table_init(&b->table, "llrlr");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_text(&b->table, heads[i]);
}

static void results_print(struct bench *b)
{
	char size[KEDGE__TEXT_ROOM];
	json_t *o;

	if (!b->json) {
		printf("%s, %s a rank, median of %llu\n", kedge__code_engine(), kedge__text_bytes(b->size, size),
		       (unsigned long long)b->repeat);
		kedge__table_print(&b->table, stdout);
		return;
	}
	o = kedge__json_object();
	kedge__json_text(o, "engine", kedge__code_engine());
	kedge__json_uint(o, "size", b->size);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_set(o, "results", b->results);
	kedge__json_print(o);
}

static int run(struct bench *b)
{
	static const char *const all[] = {"partner", "xor:4", "xor:8", "xor:16", "rs:4+2", "rs:8+2"};
	size_t count = b->only ? 1 : KEDGE__COUNT(all);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = 0;

	results_begin(b);
	for (size_t i = 0; i < count && !rc; i++) {
		rc = kedge__protection_parse(b->only ? b->only : all[i], &b->scheme, &err);
		if (!rc)
			rc = measure(b, &err);
	}
	if (rc)
		return kedge__tool_fail(b->usage.command, &err, "cannot measure");
	results_print(b);
	return KEDGE__EXIT_OK;
}

int kedge__bench_protect(int argc, char **argv)
{
	static struct bench b = {.size = UINT64_C(64) << 20, .repeat = 9};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of each rank's segment (default: 64MiB)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, of which the median is shown (default: 9)"},
	    {"protect", 0, KEDGE__OPTION_TEXT, &b.only, "SCHEME", "nothing but this one: partner, xor:N or rs:K+M"},
	    {"unit", 0, KEDGE__OPTION_SIZE, &b.unit, "BYTES",
	     "what goes from rank to rank at once (default: as in shields)"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	struct kedge__protection p;
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge bench protect",
	    .about =
		"Measures how fast teams of ranks protect their segments on L1 (protect in kedge.conf(5)) and rebuild\n"
		"lost ones, beside the inner loop of the same arithmetic without communication, and memcpy. Ranks are\n"
		"threads of this process, and everything is in memory: three times the size for each rank.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge bench protect --protect xor:8 --size 256MiB",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (b.repeat < 1 || b.repeat > TURNS_MAX)
		return kedge__usage_error(&b.usage, "--repeat is 1 to %d", TURNS_MAX);
	if (b.size < (UINT64_C(1) << 20))
		return kedge__usage_error(&b.usage, "--size is 1MiB or more");
	if (b.unit % 64 || b.unit > KEDGE__SHIELD_UNIT_MAX)
		return kedge__usage_error(&b.usage, "--unit is a multiple of 64 bytes, up to 1MiB");
	if (b.only && (kedge__protection_parse(b.only, &p, NULL) || p.scheme == KEDGE__SCHEME_SINGLE))
		return kedge__usage_error(&b.usage, "--protect is partner, xor:N or rs:K+M, not %s", b.only);
	return run(&b);
}
