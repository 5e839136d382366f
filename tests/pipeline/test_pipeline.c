/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/cases.h"
#include "pipeline/pipeline.h"

#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ROOM     64
#define HELD_MAX 8

/* Buffer i holds length_of(i) bytes of value i; the transforming stage adds one to each, or hands the buffer on. */
struct flow {
	uint64_t count;
	size_t queue;
	bool refer;           /* collect refers to memory that is not the buffer's */
	int fail_stage;       /* -1: none */
	uint64_t fail_number; /* and all after it */
	size_t hold;          /* the storing stage needs so many buffers until it has the one behind them */
	uint8_t elsewhere[256];
	uint64_t stored;                     /* the storing stage alone */
	struct kedge__buffer held[HELD_MAX]; /* and these */
	size_t held_count;
	atomic_uint_fast64_t begun; /* collected */
	atomic_uint_fast64_t done;  /* stored, for the others */
	atomic_bool strange, other_collector, other_storer;
	pthread_t caller;
};

static size_t length_of(uint64_t number)
{
	return (size_t)(number * 7 % (ROOM + 1));
}

static bool passes(uint64_t number)
{
	return number % 3 == 0;
}

static int fail_if(const struct flow *f, enum kedge__stage stage, uint64_t number, struct kedge__error *err)
{
	if (f->fail_stage != (int)stage || number < f->fail_number)
		return 0;
	return kedge__error_set(err, KEDGE_E_IO, 0, "%s fails at %d", kedge__stage_name(stage), (int)number);
}

static int collect(void *ctx, struct kedge__buffer *out, struct kedge__error *err)
{
	struct flow *f = ctx;

	if (!pthread_equal(pthread_self(), f->caller))
		atomic_store(&f->other_collector, true);
	if (atomic_load(&f->begun) != out->number || out->number > atomic_load(&f->done) + 2 * f->queue)
		atomic_store(&f->strange, true);
	if (out->number == f->count)
		return KEDGE__PIPELINE_END;
	out->bytes = length_of(out->number);
	out->tag = out->number * 5;
	memset(out->data, (int)(out->number & 0xff), out->bytes);
	if (f->refer)
		out->at = f->elsewhere + (out->number & 0x7f);
	atomic_store(&f->begun, out->number + 1);
	return fail_if(f, KEDGE__STAGE_COLLECT, out->number, err);
}

static int transform(void *ctx, int worker, struct kedge__buffer *in, struct kedge__buffer *out,
		     struct kedge__error *err)
{
	struct flow *f = ctx;

	(void)worker;
	if (in->number != out->number || in->bytes != length_of(in->number) || in->room != ROOM)
		atomic_store(&f->strange, true);
	if (passes(in->number)) {
		kedge__buffer_pass(in, out);
	} else {
		for (size_t i = 0; i < in->bytes; i++)
			out->data[i] = (uint8_t)(in->at[i] + 1);
		out->bytes = in->bytes;
	}
	return fail_if(f, KEDGE__STAGE_TRANSFORM, in->number, err);
}

static void look_into(struct flow *f, const struct kedge__buffer *in)
{
	uint64_t n = in->number;

	for (size_t i = 0; i < in->bytes; i++) {
		uint8_t raw = f->refer ? f->elsewhere[(n & 0x7f) + i] : (uint8_t)n;

		if (in->at[i] != (uint8_t)(raw + (passes(n) ? 0 : 1)))
			atomic_store(&f->strange, true);
	}
}

/* What is held is as it was. */
static int hold_some(struct flow *f, const struct kedge__buffer *in)
{
	for (size_t i = 0; i < f->held_count; i++)
		look_into(f, &f->held[i]);
	if (f->held_count == f->hold || in->number + 1 == f->count) {
		f->held_count = 0;
		return 0;
	}
	f->held[f->held_count++] = *in;
	return KEDGE__PIPELINE_HOLD;
}

static int store(void *ctx, const struct kedge__buffer *in, struct kedge__error *err)
{
	struct flow *f = ctx;
	uint64_t n = in->number;
	int rc;

	if (!pthread_equal(pthread_self(), f->caller))
		atomic_store(&f->other_storer, true);
	if (n != f->stored || in->bytes != length_of(n) || in->tag != n * 5)
		atomic_store(&f->strange, true);
	look_into(f, in);
	f->stored++;
	atomic_store(&f->done, f->stored);
	rc = fail_if(f, KEDGE__STAGE_STORE, n, err);
	return rc ? rc : hold_some(f, in);
}

static struct kedge__pipeline_spec spec_of(struct flow *f)
{
	f->caller = pthread_self();
	for (size_t i = 0; i < sizeof(f->elsewhere); i++)
		f->elsewhere[i] = (uint8_t)(i * 11);
	return (struct kedge__pipeline_spec){.collect = collect,
					     .transform = transform,
					     .store = store,
					     .ctx = f,
					     .buffer_bytes = ROOM,
					     .queue = f->queue};
}

static struct kedge__pool *pool_of(int threads)
{
	struct kedge__pool *pool;

	assert_int_equal(kedge__pool_new(threads, &pool, NULL), 0);
	return pool;
}

static void run_whole(struct kedge__pool *pool, struct flow f, unsigned apart)
{
	struct kedge__pipeline_spec spec = spec_of(&f);
	struct kedge__pipeline_stats stats;
	uint64_t bytes = 0;

	spec.collect_apart = apart & 1;
	spec.store_apart = apart & 2;
	assert_int_equal(kedge__pipeline_run(pool, &spec, &stats, NULL), 0);
	assert_false(atomic_load(&f.strange));
	assert_int_equal(f.stored, f.count);
	for (uint64_t i = 0; i < f.count; i++)
		bytes += length_of(i);
	for (int i = 0; i < KEDGE__STAGES; i++) {
		assert_int_equal(stats.stage[i].buffers, f.count);
		assert_int_equal(stats.stage[i].bytes, bytes);
		assert_true(stats.stage[i].busy >= 0 && stats.stage[i].starved >= 0 && stats.stage[i].blocked >= 0);
		assert_true(stats.stage[i].busy + stats.stage[i].starved + stats.stage[i].blocked <=
			    stats.seconds * stats.stage[i].width + 1e-6);
	}
	if (apart & 1)
		assert_true(f.other_collector);
	if (apart & 2 && f.count)
		assert_true(f.other_storer);
}

static void every_buffer_once_and_in_order(void **state)
{
	static const uint64_t counts[] = {0, 1, 2, 7, 300};
	static const size_t queues[] = {1, 2, 3, 8};

	(void)state;
	for (int threads = 1; threads <= 5; threads += 2) {
		struct kedge__pool *pool = pool_of(threads);

		for (size_t c = 0; c < KEDGE__COUNT(counts); c++)
			for (size_t q = 0; q < KEDGE__COUNT(queues); q++)
				for (unsigned apart = 0; apart < 4; apart++)
					run_whole(pool,
						  (struct flow){.count = counts[c],
								.queue = queues[q],
								.refer = (c + q) % 2,
								.fail_stage = -1},
						  apart);
		kedge__pool_free(pool);
	}
}

/* As many as a ring has, but one. */
static void what_is_held_stays(void **state)
{
	(void)state;
	for (int threads = 1; threads <= 5; threads += 2) {
		struct kedge__pool *pool = pool_of(threads);

		for (size_t queue = 2; queue <= HELD_MAX; queue++)
			for (size_t hold = 1; hold < queue; hold++)
				for (unsigned apart = 0; apart < 4; apart++)
					run_whole(pool,
						  (struct flow){.count = 60 + hold,
								.queue = queue,
								.hold = hold,
								.refer = apart % 2,
								.fail_stage = -1},
						  apart);
		kedge__pool_free(pool);
	}
}

static void one_thread_does_it_all(void **state)
{
	struct flow f = {.count = 50, .queue = 2, .fail_stage = -1};
	struct kedge__pipeline_spec spec = spec_of(&f);
	struct kedge__pool *pool = pool_of(1);

	(void)state;
	assert_int_equal(kedge__pipeline_run(NULL, &spec, NULL, NULL), 0);
	f.stored = 0;
	atomic_store(&f.begun, 0);
	atomic_store(&f.done, 0);
	assert_int_equal(kedge__pipeline_run(pool, &spec, NULL, NULL), 0);
	assert_int_equal(f.stored, 50);
	assert_false(f.strange || f.other_collector || f.other_storer);
	kedge__pool_free(pool);
}

/* The one that fails first in the order of buffers is told, whatever the threads were doing. */
static void fail_at(struct kedge__pool *pool, enum kedge__stage stage, uint64_t number, unsigned apart)
{
	struct flow f = {.count = 60, .queue = 4, .hold = number % 4, .fail_stage = (int)stage, .fail_number = number};
	struct kedge__pipeline_spec spec = spec_of(&f);
	struct kedge__error err = KEDGE__ERROR_INIT;
	char wanted[64];

	spec.collect_apart = apart & 1;
	spec.store_apart = apart & 2;
	snprintf(wanted, sizeof(wanted), "%s fails at %d", kedge__stage_name(stage), (int)number);
	assert_int_equal(kedge__pipeline_run(pool, &spec, NULL, &err), KEDGE_E_IO);
	assert_string_equal(kedge__error_text(&err), wanted);
	assert_int_equal(err.code, KEDGE_E_IO);
	assert_false(f.strange);
	assert_true(f.stored <= number + (stage == KEDGE__STAGE_STORE));
	assert_true(f.begun <= number + 2 * f.queue + 1);
	kedge__error_done(&err);
	assert_int_equal(kedge__pipeline_run(NULL,
					     &(struct kedge__pipeline_spec){.collect = collect,
									    .transform = transform,
									    .store = store,
									    .ctx = &(struct flow){.queue = 4},
									    .queue = 4},
					     NULL, NULL),
			 0);
}

static void an_error_stops_all(void **state)
{
	(void)state;
	for (int threads = 1; threads <= 4; threads += 3) {
		struct kedge__pool *pool = pool_of(threads);

		for (int stage = 0; stage < KEDGE__STAGES; stage++)
			for (uint64_t number = 0; number < 60; number += 13)
				fail_at(pool, (enum kedge__stage)stage, number, (unsigned)number % 4);
		kedge__pool_free(pool);
	}
}

static void every_allocation_fails_once(void **state)
{
	struct flow f = {.count = 3, .queue = 2, .fail_stage = -1};
	struct kedge__pipeline_spec spec = spec_of(&f);
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint64_t allocations;

	(void)state;
	assert_int_equal(kedge__fault_set(NULL, NULL), 0);
	assert_int_equal(kedge__pipeline_run(NULL, &spec, NULL, NULL), 0);
	allocations = kedge__fault_alloc_count();
	assert_true(allocations > 0);
	for (uint64_t i = 1; i <= allocations; i++) {
		char text[32];

		snprintf(text, sizeof(text), "alloc@%d", (int)i);
		assert_int_equal(kedge__fault_set(text, NULL), 0);
		assert_int_equal(kedge__pipeline_run(NULL, &spec, NULL, &err), KEDGE_E_NOMEM);
	}
	assert_int_equal(kedge__fault_set(NULL, NULL), 0);
	kedge__error_done(&err);
}

static void the_bottleneck_is_named(void **state)
{
	struct kedge__pipeline_stats a = {
	    .stage = {{.busy = 1, .width = 1}, {.busy = 6, .width = 4}, {.busy = 1.4, .width = 1}}};
	struct kedge__pipeline_stats b = {.stage = {{.width = 1}, {.width = 2}, {.busy = 1, .starved = 2, .width = 1}},
					  .seconds = 3};

	(void)state;
	assert_int_equal(kedge__pipeline_bottleneck(&a), KEDGE__STAGE_TRANSFORM);
	kedge__pipeline_stats_add(&a, &b);
	assert_int_equal(kedge__pipeline_bottleneck(&a), KEDGE__STAGE_STORE);
	assert_int_equal(a.stage[KEDGE__STAGE_TRANSFORM].width, 4);
	assert_true(a.seconds == 3 && a.stage[KEDGE__STAGE_STORE].starved == 2);
	assert_string_equal(kedge__stage_name(KEDGE__STAGE_STORE), "store");
}

/* A stage that lags makes the one before it wait: without a Ready buffer it starves, without an Empty one it blocks. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	uint64_t collected;
	uint64_t count;
};

static int gate_collect(void *ctx, struct kedge__buffer *out, struct kedge__error *err)
{
	struct gate *g = ctx;

	(void)err;
	if (out->number == g->count)
		return KEDGE__PIPELINE_END;
	pthread_mutex_lock(&g->lock);
	g->collected++;
	pthread_cond_broadcast(&g->moved);
	pthread_mutex_unlock(&g->lock);
	return 0;
}

static int gate_transform(void *ctx, int worker, struct kedge__buffer *in, struct kedge__buffer *out,
			  struct kedge__error *err)
{
	(void)ctx;
	(void)worker;
	(void)err;
	kedge__buffer_pass(in, out);
	return 0;
}

/* The first buffer is not let go before both rings are full behind it. */
static int gate_store(void *ctx, const struct kedge__buffer *in, struct kedge__error *err)
{
	struct gate *g = ctx;

	(void)err;
	if (in->number)
		return 0;
	pthread_mutex_lock(&g->lock);
	while (g->collected < 4)
		pthread_cond_wait(&g->moved, &g->lock);
	assert_true(g->collected <= 4);
	pthread_mutex_unlock(&g->lock);
	return 0;
}

static void collection_runs_ahead_of_a_slow_store(void **state)
{
	struct gate g = {.count = 20};
	struct kedge__pipeline_spec spec = {.collect = gate_collect,
					    .transform = gate_transform,
					    .store = gate_store,
					    .ctx = &g,
					    .queue = 2,
					    .store_apart = true};

	(void)state;
	pthread_mutex_init(&g.lock, NULL);
	pthread_cond_init(&g.moved, NULL);
	assert_int_equal(kedge__pipeline_run(NULL, &spec, NULL, NULL), 0);
	assert_int_equal(g.collected, 20);
	pthread_cond_destroy(&g.moved);
	pthread_mutex_destroy(&g.lock);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_buffer_once_and_in_order),
	    cmocka_unit_test(what_is_held_stays),
	    cmocka_unit_test(one_thread_does_it_all),
	    cmocka_unit_test(an_error_stops_all),
	    cmocka_unit_test(every_allocation_fails_once),
	    cmocka_unit_test(the_bottleneck_is_named),
	    cmocka_unit_test(collection_runs_ahead_of_a_slow_store),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
