/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench pipeline: a checkpoint without compression, compressed step by step, and compressed in a pipeline with 1
 * to n workers; beside each the time that the model of the stages predicts from what every stage takes alone.
 */
#include "pipeline.h"
#include "tool_pccr.h"

#include <stdlib.h>
#include <unistd.h>

struct mode {
	const char *name;
	unsigned parts;
	int workers; /* 0: one thread, stage after stage */
	double seconds[KEDGE__FLOW_TURNS];
	double collect[KEDGE__FLOW_TURNS], compress[KEDGE__FLOW_TURNS], store[KEDGE__FLOW_TURNS]; /* alone */
	struct kedge__pipeline_stats stats;
	uint64_t stored;
};

struct bench {
	struct kedge__usage usage;
	uint64_t size, repeat, workers, queue;
	const char *codec, *dir;
	struct kedge__text_list buffers, rates, collect_rates;
	bool json, writers;
	uint8_t *data;
	struct kedge__flow flow;
	char *path;
	struct kedge__pool **pools; /* of 1 to WORKERS threads */
	struct mode *modes;
	size_t mode_count;
	json_t *rows;
	struct kedge__table table;
};

/* ---- measure */

static int alone(struct bench *b, unsigned part, struct kedge__pool *pool, double ratio, double *seconds,
		 struct kedge__error *err)
{
	struct kedge__flow_result r = {0};
	int rc = kedge__flow_run(&b->flow, part, pool, false, ratio, &r, err);

	*seconds = r.seconds;
	return rc;
}

/* A mode as a whole, then each of its stages alone: what disturbs one disturbs the others. */
static int measure_mode(struct bench *b, struct mode *m, uint64_t turn, struct kedge__error *err)
{
	struct kedge__pool *pool = m->workers ? b->pools[m->workers - 1] : NULL;
	struct kedge__flow_result r = {0};
	double ratio;
	int rc = kedge__flow_run(&b->flow, m->parts, pool, m->workers > 0, 1, &r, err);

	if (rc)
		return rc;
	m->seconds[turn] = r.seconds;
	m->stats = r.stats;
	m->stored = r.stored;
	ratio = (double)r.stored / (double)b->size;
	rc = alone(b, KEDGE__FLOW_COLLECT, NULL, 1, &m->collect[turn], err);
	m->compress[turn] = 0;
	if (!rc && m->parts & KEDGE__FLOW_COMPRESS)
		rc = alone(b, KEDGE__FLOW_COMPRESS, pool, 1, &m->compress[turn], err);
	if (!rc)
		rc = alone(b, KEDGE__FLOW_STORE | KEDGE__FLOW_SIZE, NULL, ratio, &m->store[turn], err);
	return rc;
}

static double median(const double *v, uint64_t n)
{
	double sorted[KEDGE__FLOW_TURNS];

	memcpy(sorted, v, n * sizeof(*v));
	return kedge__bench_median(sorted, n);
}

/* ---- results */

struct outcome {
	double seconds, collect, compress, store; /* the last three alone */
	double predicted, error;                  /* relative */
	const char *slowest;
	double slowest_seconds, over; /* relative */
	double ratio;
	struct kedge__pccr_times model;
};

/* One process has the storage to itself: its own link (b) never counts beside that of the file system (Bf). */
static int predict(const struct bench *b, const struct mode *m, struct outcome *o, struct kedge__error *err)
{
	struct kedge__pccr in = {.size = (double)b->size,
				 .collect = o->collect,
				 .compress = o->compress,
				 .compress_pipelined = o->compress,
				 .ratio = KEDGE__MIN(o->ratio, 1),
				 .processes = 1};
	int rc;

	in.fs_bandwidth = in.size * o->ratio / o->store;
	in.process_bandwidth = in.fs_bandwidth / in.ratio;
	rc = kedge__pccr_evaluate(&in, &o->model, err);
	if (rc)
		return rc;
	o->predicted = m->workers                        ? o->model.pipelined
		       : m->parts & KEDGE__FLOW_COMPRESS ? o->model.serial
							 : o->model.uncompressed;
	o->error = o->predicted / o->seconds - 1;
	return 0;
}

static void find_slowest(struct outcome *o)
{
	o->slowest = "collect";
	o->slowest_seconds = o->collect;
	if (o->compress > o->slowest_seconds) {
		o->slowest = "compress";
		o->slowest_seconds = o->compress;
	}
	if (o->store > o->slowest_seconds) {
		o->slowest = "store";
		o->slowest_seconds = o->store;
	}
	o->over = o->seconds / o->slowest_seconds - 1;
}

static int judge(const struct bench *b, const struct mode *m, struct outcome *o, struct kedge__error *err)
{
	*o = (struct outcome){.seconds = median(m->seconds, b->repeat),
			      .collect = median(m->collect, b->repeat),
			      .compress = median(m->compress, b->repeat),
			      .store = median(m->store, b->repeat),
			      .ratio = (double)m->stored / (double)b->size};
	find_slowest(o);
	return predict(b, m, o, err);
}

static const char *stage_name(int stage)
{
	static const char *const names[] = {"collect", "compress", "store"};

	return names[stage];
}

static json_t *stages_json(const struct mode *m)
{
	json_t *list = kedge__json_object();

	for (int i = 0; i < KEDGE__STAGES; i++) {
		const struct kedge__stage_stats *s = &m->stats.stage[i];
		json_t *o = kedge__json_object();

		kedge__json_uint(o, "threads", (uint64_t)s->width);
		kedge__json_real(o, "busy", s->busy);
		kedge__json_real(o, "starved", s->starved);
		kedge__json_real(o, "blocked", s->blocked);
		kedge__json_set(list, stage_name(i), o);
	}
	return list;
}

static void add_json(struct bench *b, const struct mode *m, const struct outcome *r)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "buffer", b->flow.buffer);
	kedge__json_real(o, "collect_rate", b->flow.collect_rate);
	kedge__json_real(o, "store_rate", b->flow.store_rate);
	kedge__json_text(o, "mode", m->name);
	kedge__json_uint(o, "workers", (uint64_t)m->workers);
	kedge__json_real(o, "ratio", r->ratio);
	kedge__json_real(o, "seconds", r->seconds);
	kedge__json_real(o, "predicted", r->predicted);
	kedge__json_real(o, "error", r->error);
	kedge__json_real(o, "collect_alone", r->collect);
	kedge__json_real(o, "compress_alone", r->compress);
	kedge__json_real(o, "store_alone", r->store);
	kedge__json_text(o, "slowest", r->slowest);
	kedge__json_real(o, "over_slowest", r->over);
	kedge__json_text(o, "bottleneck", stage_name(kedge__pipeline_bottleneck(&m->stats)));
	kedge__json_set(o, "stages", stages_json(m));
	kedge__json_set(o, "model", kedge__pccr_json(&r->model));
	kedge__json_add(b->rows, o);
}

static void add_rate(struct kedge__table *t, double rate)
{
	if (rate > 0)
		kedge__table_add(t, "%.0f", rate * 1e-6);
	else
		kedge__table_add(t, "%s", "-");
}

static void add_text(struct bench *b, const struct mode *m, const struct outcome *r)
{
	struct kedge__table *t = &b->table;
	char text[KEDGE__TEXT_ROOM];

	kedge__table_add(t, "%s", kedge__text_bytes(b->flow.buffer, text));
	add_rate(t, b->flow.collect_rate);
	add_rate(t, b->flow.store_rate);
	kedge__table_add(t, "%s", m->name);
	kedge__table_add(t, "%.*d", m->workers > 0, m->workers);
	kedge__table_add(t, "%.3f", r->seconds);
	kedge__table_add(t, "%.3f", r->predicted);
	kedge__table_add(t, "%+.0f %%", 100 * r->error);
	kedge__table_add(t, "%s", r->slowest);
	kedge__table_add(t, "%.3f", r->slowest_seconds);
	kedge__table_add(t, "%+.0f %%", 100 * r->over);
}

/* ---- the run */

static int measure(struct bench *b, size_t buffer, double collect_rate, double store_rate, struct kedge__error *err)
{
	int rc = 0;

	b->flow.buffer = buffer;
	b->flow.collect_rate = collect_rate;
	b->flow.store_rate = store_rate;
	for (uint64_t turn = 0; turn < b->repeat; turn++)
		for (size_t i = 0; i < b->mode_count && !rc; i++)
			rc = measure_mode(b, &b->modes[i], turn, err);
	for (size_t i = 0; i < b->mode_count && !rc; i++) {
		struct outcome o;

		rc = judge(b, &b->modes[i], &o, err);
		if (rc)
			break;
		if (b->json)
			add_json(b, &b->modes[i], &o);
		else
			add_text(b, &b->modes[i], &o);
	}
	return rc;
}

/* Collection and storage as fast as they go; then each of them slowed down. */
static int measure_buffer(struct bench *b, size_t buffer, const double *rates, const double *collect_rates,
			  struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < b->rates.count && !rc; i++)
		rc = measure(b, buffer, 0, rates[i], err);
	for (size_t i = 0; i < b->collect_rates.count && !rc; i++)
		if (collect_rates[i] > 0)
			rc = measure(b, buffer, collect_rates[i], 0, err);
	return rc;
}

static void print_results(struct bench *b)
{
	char size[KEDGE__TEXT_ROOM];

	if (b->json) {
		json_t *o = kedge__json_object();

		kedge__json_uint(o, "size", b->size);
		kedge__json_uint(o, "repeat", b->repeat);
		kedge__json_text(o, "codec", b->codec);
		kedge__json_text(o, "dir", b->dir);
		kedge__json_uint(o, "queue", b->queue);
		kedge__json_set(o, "results", b->rows);
		b->rows = NULL;
		kedge__json_print(o);
		return;
	}
	printf("%s, codec %s, stored in %s; rates in MB/s, times in s, median of %llu\n\n",
	       kedge__text_bytes(b->size, size), b->codec, b->dir ? b->dir : "memory", (unsigned long long)b->repeat);
	kedge__table_print(&b->table, stdout);
}

/* Half of the bytes follow from those before, half do not: a general codec halves it. */
static void fill_data(uint8_t *data, size_t size)
{
	uint64_t seed = 1;

	for (size_t i = 0; i + 8 <= size; i += 8) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		kedge__put64(data + i, (seed >> 32 & UINT64_C(0xffffffff)) | (uint64_t)(i >> 12) << 32);
	}
}

static int open_file(struct bench *b, struct kedge__error *err)
{
	int rc;

	if (!b->dir)
		return 0;
	b->path = kedge__asprintf("%s/kedge-bench-%ld.tmp", b->dir, (long)getpid());
	if (!b->path)
		return kedge__error_nomem(err);
	rc = kedge__fs_create(b->path, &b->flow.fd, err);
	if (!rc)
		b->flow.path = b->path;
	return rc;
}

static int prepare(struct bench *b, struct kedge__error *err)
{
	static const char *const heads[] = {"buffer",    "collect", "storage", "what",  "workers", "measured",
					    "predicted", "error",   "slowest", "alone", "over"};
	int rc = 0;

	b->data = kedge__map_alloc(b->size);
	b->pools = kedge__calloc(b->workers, sizeof(struct kedge__pool *));
	b->modes = kedge__calloc(b->workers + 2, sizeof(*b->modes));
	if (!b->data || !b->pools || !b->modes)
		return kedge__error_nomem(err);
	fill_data(b->data, b->size);
	b->flow.data = b->data;
	b->flow.size = b->size;
	b->flow.queue = b->queue;
	b->modes[0] = (struct mode){.name = "uncompressed", .parts = KEDGE__FLOW_COLLECT | KEDGE__FLOW_STORE};
	b->modes[1] =
	    (struct mode){.name = "serial", .parts = KEDGE__FLOW_COLLECT | KEDGE__FLOW_COMPRESS | KEDGE__FLOW_STORE};
	b->mode_count = 2;
	for (uint64_t i = 0; i < b->workers && !rc; i++) {
		b->modes[b->mode_count] = b->modes[1];
		b->modes[b->mode_count].name = "pipelined";
		b->modes[b->mode_count++].workers = (int)i + 1;
		rc = kedge__pool_new((int)i + 1, &b->pools[i], err);
	}
	if (b->json)
		b->rows = kedge__json_array();
	kedge__table_init(&b->table, "rrrlrrrrlrr");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_add(&b->table, "%s", heads[i]);
	return rc ? rc : open_file(b, err);
}

static void release(struct bench *b)
{
	for (uint64_t i = 0; b->pools && i < b->workers; i++)
		kedge__pool_free(b->pools[i]);
	kedge__table_drop(&b->table);
	json_decref(b->rows);
	kedge__fs_close(b->flow.fd);
	if (b->flow.path)
		(void)kedge__fs_unlink(b->path, NULL);
	if (b->data)
		kedge__map_free(b->data, b->size);
	kedge__free(b->path);
	kedge__free(b->pools);
	kedge__free(b->modes);
}

static double *parse_rates(const struct kedge__text_list *list)
{
	double *rates = kedge__calloc(list->count, sizeof(*rates));

	for (size_t i = 0; rates && i < list->count; i++) {
		uint64_t bytes;

		if (kedge__size_parse(list->at[i], &bytes)) {
			kedge__free(rates);
			return NULL;
		}
		rates[i] = (double)bytes;
	}
	return rates;
}

static void preset(struct kedge__text_list *list, const char *const *texts, size_t n)
{
	for (size_t i = 0; list->count < n && i < n; i++)
		if (!kedge__array_push(list, texts[i]))
			kedge__tool_no_memory();
}

static int parse_buffer(const struct bench *b, const char *text, size_t least, size_t *out, struct kedge__error *err)
{
	uint64_t bytes = 0;

	if (kedge__size_parse(text, &bytes) || bytes < least || bytes > b->size)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"buffers of %s: must be %zu bytes or more, and no more than the state", text,
					least);
	*out = (size_t)bytes;
	return 0;
}

static int measure_all(struct bench *b, const double *rates, const double *collect_rates, struct kedge__error *err)
{
	int rc = prepare(b, err);

	for (size_t i = 0; i < b->buffers.count && !rc; i++) {
		size_t bytes;

		rc = parse_buffer(b, b->buffers.at[i], 64, &bytes, err);
		if (!rc)
			rc = measure_buffer(b, bytes, rates, collect_rates, err);
	}
	return rc;
}

static int measure_writers(struct bench *b, struct kedge__error *err)
{
	struct kedge__writers_spec spec = {.size = b->size,
					   .buffer_count = b->buffers.count,
					   .queue = b->queue,
					   .dir = b->dir,
					   .codec = b->flow.codec,
					   .threads = (int)b->workers,
					   .repeat = b->repeat,
					   .json = b->json};
	size_t *buffers = kedge__calloc(b->buffers.count, sizeof(*buffers));
	int rc = 0;

	b->data = kedge__map_alloc(b->size);
	if (!buffers || !b->data)
		rc = kedge__error_nomem(err);
	for (size_t i = 0; i < b->buffers.count && !rc; i++)
		rc = parse_buffer(b, b->buffers.at[i], 4096, &buffers[i], err);
	if (!rc) {
		fill_data(b->data, b->size);
		spec.data = b->data;
		spec.buffers = buffers;
		rc = kedge__bench_writers(&spec, err);
	}
	kedge__free(buffers);
	release(b);
	return rc;
}

static int run_writers(struct bench *b)
{
	static const char *const buffers[] = {"256k", "1M", "4M"};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	if (!b->dir)
		return kedge__usage_error(&b->usage, "--writers needs --dir: a directory of the storage to measure");
	if (!b->buffers.count)
		preset(&b->buffers, buffers, KEDGE__COUNT(buffers));
	rc = measure_writers(b, &err);
	kedge__array_done(&b->buffers);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

static int run(struct bench *b)
{
	static const char *const buffers[] = {"1k", "4k", "16k", "64k", "256k", "1M", "4M"};
	static const char *const rates[] = {"0", "100M"};
	static const char *const collect_rates[] = {"100M"};
	struct kedge__error err = KEDGE__ERROR_INIT;
	double *store, *collect;
	int rc;

	if (!b->buffers.count)
		preset(&b->buffers, buffers, KEDGE__COUNT(buffers));
	if (!b->rates.count)
		preset(&b->rates, rates, KEDGE__COUNT(rates));
	if (!b->collect_rates.count)
		preset(&b->collect_rates, collect_rates, KEDGE__COUNT(collect_rates));
	store = parse_rates(&b->rates);
	collect = parse_rates(&b->collect_rates);
	if (store && collect) {
		rc = measure_all(b, store, collect, &err);
		if (!rc)
			print_results(b);
		release(b);
		rc = rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
	} else {
		rc = kedge__usage_error(&b->usage, "a rate is a number of bytes a second: 100M, or 0 for no limit");
	}
	kedge__free(store);
	kedge__free(collect);
	kedge__array_done(&b->buffers);
	kedge__array_done(&b->rates);
	kedge__array_done(&b->collect_rates);
	return rc;
}

int kedge__bench_pipeline(int argc, char **argv)
{
	struct bench b = {.size = UINT64_C(64) << 20, .repeat = 3, .flow = {.fd = -1}};
	struct kedge__job_settings settings = {0};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of the state (default: 64MiB)"},
	    {"buffer", 0, KEDGE__OPTION_LIST, &b.buffers, "BYTES",
	     "size of the buffers of the rings; may be given again (default: 1k, 4k, 16k, 64k, 256k, 1M and 4M)"},
	    {"queue", 0, KEDGE__OPTION_UINT, &b.queue, "N", "buffers of each ring (default: as checkpoints have it)"},
	    {"workers", 0, KEDGE__OPTION_UINT, &b.workers, "N",
	     "1 to N threads compress (default: as many as there are cores)"},
	    {"codec", 0, KEDGE__OPTION_TEXT, &b.codec, "CODEC",
	     "codec and level (default: zstd:1; with --writers: none)"},
	    {"rate", 0, KEDGE__OPTION_LIST, &b.rates, "BYTES",
	     "bytes a second that the storage takes; 0: no limit; may be given again (default: 0 and 100M)"},
	    {"collect-rate", 0, KEDGE__OPTION_LIST, &b.collect_rates, "BYTES",
	     "bytes a second that can be collected, with storage without limit; may be given again (default: 100M)"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.dir, "DIR", "write to a file in DIR (default: to memory)"},
	    {"writers", 0, KEDGE__OPTION_FLAG, &b.writers, NULL,
	     "instead, time segments in --dir by each writer, through the page cache and past it"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, of which the median is shown (default: 3)"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench pipeline",
	    .about =
		"Time of a checkpoint that is collected, compressed and stored: without compression, one step after\n"
		"the other, and in a pipeline with 1 to N compressing threads; for buffers of several sizes, and with\n"
		"storage and collection held to given rates. Beside each stands what the model of the stages says,\n"
		"given what every stage takes alone, and how much longer than the slowest stage alone it took.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench pipeline\nkedge-bench pipeline --buffer 1M --rate 0 --rate 50M --workers 4 --json\n"
		       "kedge-bench pipeline --writers --dir /scratch",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (!b.workers)
		b.workers = (uint64_t)kedge__tool_threads(&settings);
	if (!b.repeat || b.repeat > KEDGE__FLOW_TURNS || b.workers > 256 || b.size < 4096 || b.queue > 4096)
		return kedge__usage_error(
		    &b.usage, "1 to %d turns, at least 4 KiB, at most 256 workers and 4096 buffers", KEDGE__FLOW_TURNS);
	if (!b.codec)
		b.codec = b.writers ? "none" : "zstd:1";
	if (kedge__codec_choice_parse(b.codec, &b.flow.codec, &err))
		return kedge__tool_fail(b.usage.command, &err, "cannot measure");
	return b.writers ? run_writers(&b) : run(&b);
}
