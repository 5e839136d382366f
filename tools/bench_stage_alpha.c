/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The overhead factor alpha: how much longer a stencil code takes while checkpoints drain from its process at rate x.
 * The stencil is Himeno-like: Jacobi iterations for a Poisson equation, 19 points, with coefficients read from memory,
 * single precision. The model of multi-level checkpointing (kedge plan) has alpha proportional to the rate.
 */
#include "bench_stage.h"

#include <pthread.h>
#include <stdatomic.h>

#define NX    128
#define NY    64
#define NZ    64
#define CELLS ((size_t)NX * NY * NZ)
#define FLOPS 34 /* per cell and iteration */

struct stencil {
	float *p, *next, *a, *bound;
};

static inline size_t at(size_t i, size_t j, size_t k)
{
	return (i * NY + j) * NZ + k;
}

static bool stencil_make(struct stencil *s)
{
	s->p = kedge__map_alloc(CELLS * sizeof(float));
	s->next = kedge__map_alloc(CELLS * sizeof(float));
	s->a = kedge__map_alloc(10 * CELLS * sizeof(float));
	s->bound = kedge__map_alloc(CELLS * sizeof(float));
	if (!s->p || !s->next || !s->a || !s->bound)
		return false;
	for (size_t i = 0; i < CELLS; i++) {
		s->p[i] = (float)(i % NX) / NX;
		s->bound[i] = 1;
		for (int c = 0; c < 10; c++)
			s->a[(size_t)c * CELLS + i] = c < 3 ? 1.0f : c == 3 ? 1.0f / 6 : c < 7 ? 0.0f : 1.0f;
	}
	return true;
}

static void stencil_free(struct stencil *s)
{
	float *const arrays[] = {s->p, s->next, s->a, s->bound};

	for (size_t i = 0; i < KEDGE__COUNT(arrays); i++)
		if (arrays[i])
			kedge__map_free(arrays[i], (i == 2 ? 10 : 1) * CELLS * sizeof(float));
}

static float stencil_cell(const struct stencil *s, size_t i, size_t j, size_t k)
{
	const float *p = s->p, *a = s->a;
	size_t n = at(i, j, k);
	float sum =
	    a[n] * p[at(i + 1, j, k)] + a[CELLS + n] * p[at(i, j + 1, k)] + a[2 * CELLS + n] * p[at(i, j, k + 1)];

	sum += a[4 * CELLS + n] *
	       (p[at(i + 1, j + 1, k)] - p[at(i + 1, j - 1, k)] - p[at(i - 1, j + 1, k)] + p[at(i - 1, j - 1, k)]);
	sum += a[5 * CELLS + n] *
	       (p[at(i, j + 1, k + 1)] - p[at(i, j - 1, k + 1)] - p[at(i, j + 1, k - 1)] + p[at(i, j - 1, k - 1)]);
	sum += a[6 * CELLS + n] *
	       (p[at(i + 1, j, k + 1)] - p[at(i - 1, j, k + 1)] - p[at(i + 1, j, k - 1)] + p[at(i - 1, j, k - 1)]);
	sum += a[7 * CELLS + n] * p[at(i - 1, j, k)] + a[8 * CELLS + n] * p[at(i, j - 1, k)] +
	       a[9 * CELLS + n] * p[at(i, j, k - 1)];
	return (sum * a[3 * CELLS + n] - p[n]) * s->bound[n];
}

static void stencil_step(struct stencil *s)
{
	float *old = s->p;

	for (size_t i = 1; i < NX - 1; i++)
		for (size_t j = 1; j < NY - 1; j++)
			for (size_t k = 1; k < NZ - 1; k++)
				s->next[at(i, j, k)] = old[at(i, j, k)] + 0.8f * stencil_cell(s, i, j, k);
	s->p = s->next;
	s->next = old;
}

/* ------------------------------------------------------------------ what drains meanwhile */

struct drain {
	struct kedge__bench_stage *b;
	struct kedge__stage_client *client;
	struct kedge__bucket bucket;
	uint64_t version;
	double bytes;
	atomic_bool stop;
};

/* Segments of 64 MiB, one after the other. */
static void drain_main(void *ctx)
{
	struct drain *d = ctx;
	const struct kedge__carrier *c = kedge__stage_carrier(d->client);
	int rc = 0;

	while (!rc && !atomic_load(&d->stop)) {
		void *file;

		rc = c->begin(c->ctx, d->version, 0, 0, true, &file, NULL);
		if (rc)
			return;
		for (int i = 0; i < 64 && !rc && !atomic_load(&d->stop); i++) {
			kedge__bucket_take(&d->bucket, (double)d->b->piece);
			rc = c->append(file, d->b->data, d->b->piece, NULL);
			d->bytes += (double)d->b->piece;
		}
		if (!rc)
			rc = c->commit(file, NULL);
		if (rc)
			c->drop(file);
		d->version++;
	}
}

/* *STEPS per second in SECONDS; with RATE, bytes are drained meanwhile, *REACHED per second. */
static int stencil_time(struct kedge__bench_stage *b, struct stencil *s, struct drain *d, double rate, double *steps,
			double *reached, struct kedge__error *err)
{
	struct kedge__worker *w = NULL;
	double start, now;
	uint64_t n = 0;
	int rc = 0;

	atomic_store(&d->stop, false);
	d->bytes = 0;
	kedge__bucket_init(&d->bucket, rate, (double)d->b->piece);
	if (rate > 0)
		rc = kedge__worker_new(1, &w, err);
	if (w)
		rc = kedge__worker_submit(w, drain_main, d, err);
	start = now = kedge__clock_seconds();
	while (!rc && now - start < (double)b->seconds) {
		stencil_step(s);
		n++;
		now = kedge__clock_seconds();
	}
	*steps = (double)n / (now - start);
	*reached = d->bytes / (now - start);
	atomic_store(&d->stop, true);
	kedge__worker_free(w);
	return rc;
}

/* ------------------------------------------------------------------ the line */

static void fit(struct kedge__bench_alpha *a)
{
	double xy = 0, xx = 0;

	for (size_t i = 0; i < a->count; i++) {
		xy += a->rate[i] * a->alpha[i];
		xx += a->rate[i] * a->rate[i];
	}
	a->slope = xx > 0 ? xy / xx : 0;
}

/* The stencil alone is timed before and after each rate: a machine that others use changes its speed. */
static int rates_measure(struct kedge__bench_stage *b, struct stencil *s, struct drain *d, struct kedge__bench_alpha *a,
			 struct kedge__error *err)
{
	double before, after, with, none;
	int rc = stencil_time(b, s, d, 0, &before, &none, err);

	for (size_t i = 0; i < KEDGE__BENCH_RATES && !rc; i++) {
		a->wanted[i] = 50e6 * (double)(1u << i);
		rc = stencil_time(b, s, d, a->wanted[i], &with, &a->rate[i], err);
		if (!rc)
			rc = stencil_time(b, s, d, 0, &after, &none, err);
		if (rc)
			break;
		a->alpha[i] = (before + after) / 2 / with - 1;
		a->count = i + 1;
		before = after;
		if (a->rate[i] < 0.7 * a->wanted[i])
			break; /* that is as fast as it gets */
	}
	a->mflops = before * FLOPS * (NX - 2) * (NY - 2) * (NZ - 2) * 1e-6;
	fit(a);
	return rc;
}

int kedge__bench_alpha(struct kedge__bench_stage *b, struct kedge__bench_alpha *a, struct kedge__error *err)
{
	struct kedge__bench_server server = {.pid = 0};
	struct stencil s = {0};
	struct drain d = {.b = b, .version = 10};
	int rc = stencil_make(&s) ? kedge__bench_server_start(b, 4, &server, err) : kedge__error_nomem(err);

	*a = (struct kedge__bench_alpha){.count = 0};
	if (!rc)
		rc = kedge__bench_client(b, &server, &d.client, err);
	if (!rc)
		rc = rates_measure(b, &s, &d, a, err);
	kedge__stage_client_free(d.client);
	kedge__bench_server_end(&server);
	stencil_free(&s);
	return rc;
}
