/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/cases.h"
#include "pipeline/pipeline.h"

#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

struct note {
	int *order; /* written by the worker alone, read after drain */
	int *count;
	int number;
};

static void write_note(void *ctx)
{
	struct note *n = ctx;

	n->order[(*n->count)++] = n->number;
}

static void tasks_run_in_order(void **state)
{
	struct kedge__worker *w;
	struct note notes[500];
	int order[500], count = 0;

	(void)state;
	assert_int_equal(kedge__worker_new(3, &w, NULL), 0);
	kedge__worker_drain(w);
	for (int i = 0; i < 500; i++) {
		notes[i] = (struct note){order, &count, i};
		assert_int_equal(kedge__worker_submit(w, write_note, &notes[i], NULL), 0);
	}
	kedge__worker_drain(w);
	assert_int_equal(count, 500);
	for (int i = 0; i < 500; i++)
		assert_int_equal(order[i], i);
	kedge__worker_free(w);
}

static void free_runs_what_was_submitted(void **state)
{
	struct kedge__worker *w;
	struct note notes[10];
	int order[10], count = 0;

	(void)state;
	assert_int_equal(kedge__worker_new(10, &w, NULL), 0);
	for (int i = 0; i < 10; i++) {
		notes[i] = (struct note){order, &count, i};
		assert_int_equal(kedge__worker_submit(w, write_note, &notes[i], NULL), 0);
	}
	kedge__worker_free(w);
	assert_int_equal(count, 10);
	kedge__worker_free(NULL);
}

struct gate {
	sem_t started, go;
};

static void wait_at_gate(void *ctx)
{
	struct gate *g = ctx;

	sem_post(&g->started);
	while (sem_wait(&g->go) != 0)
		;
}

struct submitter {
	struct kedge__worker *worker;
	struct gate *gate;
	atomic_int returned;
};

static void *submit_four(void *ctx)
{
	struct submitter *s = ctx;

	for (int i = 0; i < 4; i++) {
		kedge__worker_submit(s->worker, wait_at_gate, s->gate, NULL);
		atomic_fetch_add(&s->returned, 1);
	}
	return NULL;
}

/* Task k has started and not ended: with a limit of 2, no more than k + 1 submissions can have returned. */
static void submit_waits_at_the_limit(void **state)
{
	struct gate gate;
	struct submitter s = {.gate = &gate};
	pthread_t thread;

	(void)state;
	sem_init(&gate.started, 0, 0);
	sem_init(&gate.go, 0, 0);
	assert_int_equal(kedge__worker_new(2, &s.worker, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, submit_four, &s), 0);
	for (int k = 1; k <= 4; k++) {
		while (sem_wait(&gate.started) != 0)
			;
		assert_true(atomic_load(&s.returned) <= k + 1);
		sem_post(&gate.go);
	}
	pthread_join(thread, NULL);
	kedge__worker_drain(s.worker);
	assert_int_equal(atomic_load(&s.returned), 4);
	kedge__worker_free(s.worker);
	sem_destroy(&gate.started);
	sem_destroy(&gate.go);
}

struct opener {
	struct gate *gate;
	atomic_bool opened;
};

static void *open_gate(void *ctx)
{
	struct opener *o = ctx;

	while (sem_wait(&o->gate->started) != 0)
		;
	atomic_store(&o->opened, true);
	sem_post(&o->gate->go);
	return NULL;
}

/* The task ends only after the gate was opened: so does drain. */
static void drain_waits_for_the_task_that_runs(void **state)
{
	struct kedge__worker *w;
	pthread_t thread;

	(void)state;
	assert_int_equal(kedge__worker_new(1, &w, NULL), 0);
	for (int round = 0; round < 20; round++) {
		struct gate gate;
		struct opener o = {.gate = &gate};

		sem_init(&gate.started, 0, 0);
		sem_init(&gate.go, 0, 0);
		assert_int_equal(pthread_create(&thread, NULL, open_gate, &o), 0);
		assert_int_equal(kedge__worker_submit(w, wait_at_gate, &gate, NULL), 0);
		kedge__worker_drain(w);
		assert_true(atomic_load(&o.opened));
		pthread_join(thread, NULL);
		sem_destroy(&gate.started);
		sem_destroy(&gate.go);
	}
	kedge__worker_free(w);
}

static void add_one(void *ctx)
{
	++*(int *)ctx; /* one thread runs them all */
}

struct crowd {
	struct kedge__worker *worker;
	int *sum;
};

static void *submit_many(void *ctx)
{
	struct crowd *c = ctx;

	for (int i = 0; i < 300; i++) {
		kedge__worker_submit(c->worker, add_one, c->sum, NULL);
		if (i % 50 == 0)
			kedge__worker_drain(c->worker);
	}
	return NULL;
}

static void several_threads_submit(void **state)
{
	struct crowd c;
	pthread_t threads[4];
	int sum = 0;

	(void)state;
	c.sum = &sum;
	assert_int_equal(kedge__worker_new(5, &c.worker, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &c), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	kedge__worker_drain(c.worker);
	assert_int_equal(sum, 1200);
	kedge__worker_free(c.worker);
}

static void bad_arguments(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__worker *w = NULL;

	(void)state;
	assert_int_equal(kedge__worker_new(0, &w, &err), KEDGE_E_ARG);
	assert_int_equal(kedge__worker_new(SIZE_MAX / 2, &w, &err), KEDGE_E_NOMEM);
	for (int i = 1; i <= 2; i++) {
		kedge__fault_set(i == 1 ? "alloc@1" : "alloc@2", NULL);
		assert_int_equal(kedge__worker_new(2, &w, &err), KEDGE_E_NOMEM);
	}
	kedge__fault_set(NULL, NULL);
	assert_null(w);
	assert_int_equal(kedge__worker_new(1, &w, &err), 0);
	assert_int_equal(kedge__worker_submit(w, NULL, NULL, &err), KEDGE_E_ARG);
	kedge__worker_free(w);
	kedge__error_done(&err);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tasks_run_in_order),        cmocka_unit_test(free_runs_what_was_submitted),
	    cmocka_unit_test(submit_waits_at_the_limit), cmocka_unit_test(drain_waits_for_the_task_that_runs),
	    cmocka_unit_test(several_threads_submit),    cmocka_unit_test(bad_arguments),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
