/* SPDX-License-Identifier: BSD-3-Clause */
/* pccr_processes: processes that collect, compress and write at their own pace through a file system that they share.
 */
#include "base/exact.h"
#include "simulate/sample.h"
#include "simulate/simulate.h"
#include <math.h>
#include <stdlib.h>

#define LEAST 0.05 /* of the mean: where the normal distribution of stage times is cut off */

struct batch {
	const struct kedge__pccr *in;
	double variation;
	uint64_t seed;
	size_t processes;
	double *room; /* `processes` a worker */
	double (*results)[3];
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double vary(const struct batch *b, struct kedge__random *r, double mean)
{
	if (b->variation == 0)
		return mean;
	return mean * KEDGE__MAX(LEAST, 1 + b->variation * kedge__random_normal(r));
}

/*
 * Processes that become ready at ARRIVALS (ascending) each write BYTES; those that write are served alike, with at most
 * CAP each. As all have the same length, they finish in the order in which they came.
 */
static double write_all(double *arrivals, size_t n, double bytes, double cap, double shared)
{
	double now = 0, served = 0; /* what a process that writes since the beginning would have got */
	double *start = arrivals;   /* arrivals are replaced by the value of `served` at arrival */
	size_t came = 0, left = 0;

	while (left < n) {
		double active = (double)(came - left), rate, finish, next;

		if (active == 0) {
			now = KEDGE__MAX(now, arrivals[came]);
			start[came++] = served;
			continue;
		}
		rate = KEDGE__MIN(cap, shared / active);
		finish = now + (start[left] + bytes - served) / rate;
		next = came < n ? KEDGE__MAX(now, arrivals[came]) : INFINITY;
		served += (KEDGE__MIN(finish, next) - now) * rate;
		now = KEDGE__MIN(finish, next);
		if (finish <= next)
			served = start[left++] + bytes;
		else
			start[came++] = served;
	}
	return now;
}

/* Each process puts BYTES out evenly until its stage ends (STAGES, ascending); what the file system cannot take waits.
 */
static double drain(const double *stages, size_t n, double bytes, double shared)
{
	double now = 0, backlog = 0, inflow = 0;

	for (size_t i = 0; i < n; i++)
		inflow += stages[i] > 0 ? bytes / stages[i] : 0;
	for (size_t i = 0; i < n; i++) {
		if (!(stages[i] > 0)) {
			backlog += bytes;
			continue;
		}
		backlog = KEDGE__MAX(0, backlog + (inflow - shared) * (stages[i] - now));
		now = stages[i];
		inflow -= bytes / stages[i];
	}
	return now + backlog / shared;
}

static int run_one(void *ctx, size_t i, int worker)
{
	struct batch *b = ctx;
	const struct kedge__pccr *in = b->in;
	double *at = b->room + (size_t)worker * b->processes;
	struct kedge__random r;

	kedge__random_init(&r, b->seed, i);
	for (size_t p = 0; p < b->processes; p++)
		at[p] = vary(b, &r, in->collect);
	qsort(at, b->processes, sizeof(*at), ascending);
	b->results[i][0] = write_all(at, b->processes, in->size, in->process_bandwidth, in->fs_bandwidth);
	for (size_t p = 0; p < b->processes; p++)
		at[p] = vary(b, &r, in->collect) + vary(b, &r, in->compress);
	qsort(at, b->processes, sizeof(*at), ascending);
	b->results[i][1] =
	    write_all(at, b->processes, in->ratio * in->size, in->ratio * in->process_bandwidth, in->fs_bandwidth);
	for (size_t p = 0; p < b->processes; p++) {
		double collect = vary(b, &r, in->collect), compress = vary(b, &r, in->compress_pipelined);

		at[p] = KEDGE__MAX(collect, compress);
	}
	qsort(at, b->processes, sizeof(*at), ascending);
	b->results[i][2] = drain(at, b->processes, in->ratio * in->size, in->fs_bandwidth);
	return 0;
}

static void add_up(const struct batch *b, uint64_t runs, struct kedge__pccr_sim_result *out)
{
	double *const to[] = {out->uncompressed, out->serial, out->pipelined};

	for (int k = 0; k < 3; k++) {
		struct kedge__sample s = {0};
		double error;

		for (uint64_t i = 0; i < runs; i++)
			kedge__sample_add(&s, b->results[i][k]);
		to[k][0] = s.mean;
		kedge__sample_interval(&s, &error, &to[k][1], &to[k][2]);
		if (b->variation == 0)
			to[k][1] = to[k][2] = s.mean;
	}
}

static int check(const struct kedge__pccr *in, double variation, uint64_t runs, struct kedge__error *err)
{
	struct kedge__pccr_times unused;
	int rc = kedge__pccr_evaluate(in, &unused, err);

	if (rc != 0)
		return rc;
	if (in->processes != floor(in->processes) || in->processes > 1e7)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"%g processes: a simulation needs a whole number up to 1e7", in->processes);
	if (!(variation >= 0 && variation <= 0.5))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the variation is %g: it must be 0 to 0.5", variation);
	if (runs < 1 || runs > UINT64_C(1) << 32)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%llu runs: it must be 1 to 4294967296",
					(unsigned long long)runs);
	return 0;
}

int kedge__pccr_simulate(const struct kedge__pccr *in, double variation, uint64_t runs, uint64_t seed,
			 struct kedge__pool *pool, struct kedge__pccr_sim_result *out, struct kedge__error *err)
{
	struct batch b = {.in = in, .variation = variation, .seed = seed, .processes = (size_t)in->processes};
	size_t threads = pool != NULL ? (size_t)kedge__pool_threads(pool) : 1;
	int rc = check(in, variation, runs, err);

	if (rc != 0)
		return rc;
	b.room = kedge__reallocarray(NULL, threads * b.processes, sizeof(*b.room));
	b.results = kedge__reallocarray(NULL, runs, sizeof(*b.results));
	if (b.room == NULL || b.results == NULL)
		rc = kedge__error_nomem(err);
	if (rc == 0)
		rc = kedge__pool_for(pool, runs, run_one, &b);
	if (rc == 0)
		add_up(&b, runs, out);
	kedge__free(b.results);
	kedge__free(b.room);
	return rc;
}
