/* SPDX-License-Identifier: BSD-3-Clause */
/* rex_job: a job under L1 checkpoints of varying distance and a thread that coalesces them into L2 ones. */
#include "base/exact.h"
#include "simulate/sample.h"
#include "simulate/simulate.h"
#include <math.h>

#define LEAST_INTERVAL 0.05 /* of the mean: where the normal distribution of intervals is cut off */

struct tally {
	double seconds, transient, permanent, l1, l2, full;
};

struct job {
	const struct kedge__rex *rex;
	const struct kedge__rex_costs *costs;
	uint64_t chi, seed;
	struct kedge__failure_source *source;
	struct kedge__random random;
	struct kedge__failure failure;
	struct tally *tally;
	double now, done; /* seconds of the clock, of computation */
	double l1, l2;    /* computation that the newest checkpoint of each level holds */
	uint64_t deltas;  /* since the last full L2 checkpoint */
	uint64_t batch;   /* L1 checkpoints since the last L2 one began */
	double next;      /* length of the interval under way */
	struct {
		bool running, full;
		double end, of; /* clock; computation it holds */
	} copy;
};

static void draw_interval(struct job *j)
{
	double x = 1 + j->rex->variation * kedge__random_normal(&j->random);

	j->next = j->costs->interval * KEDGE__MAX(x, LEAST_INTERVAL);
}

static void copy_notice(struct job *j)
{
	if (!j->copy.running || j->copy.end > j->now)
		return;
	j->copy.running = false;
	j->l2 = j->copy.of;
	j->deltas = j->copy.full ? 0 : j->deltas + 1;
	j->tally->l2++;
	j->tally->full += j->copy.full;
}

/* The L2 thread takes the share of one core, so that a copy of C seconds costs C / cores seconds of computation. */
static double compute_seconds(const struct job *j, double work)
{
	double speed = 1 - 1 / j->rex->cores, left, meanwhile;

	if (!j->copy.running)
		return work;
	left = j->copy.end - j->now;
	meanwhile = left * speed;
	return meanwhile >= work ? work / speed : left + (work - meanwhile);
}

static void copy_begin(struct job *j)
{
	if (j->batch < j->chi || j->copy.running)
		return;
	j->copy.running = true;
	j->copy.full = j->deltas >= j->costs->deltas;
	j->copy.end = j->now + (j->copy.full ? j->costs->full : j->costs->delta);
	j->copy.of = j->done;
	j->batch = 0;
}

static void fail(struct job *j)
{
	bool permanent = j->failure.level > 1;

	j->now = j->failure.time;
	*(permanent ? &j->tally->permanent : &j->tally->transient) += 1;
	copy_notice(j);
	if (permanent) {
		j->copy.running = false;
		j->l1 = j->l2;
		j->batch = 0;
	}
	j->failure = kedge__failure_source_next(j->source);
}

static void recover(struct job *j)
{
	bool remote = j->failure.level > 1;

	fail(j);
	for (;;) {
		double seconds =
		    remote ? j->rex->restore_full + j->costs->delta_restore * (double)j->deltas : j->rex->restore_l1;

		if (j->now + seconds <= j->failure.time) {
			j->now += seconds;
			j->done = j->l1;
			copy_notice(j);
			return;
		}
		remote = remote || j->failure.level > 1;
		fail(j);
	}
}

static void step(struct job *j)
{
	double work = KEDGE__MIN(j->next, j->rex->work - j->done);
	bool last = work == j->rex->work - j->done;
	double seconds = compute_seconds(j, work) + (last ? 0 : j->costs->snapshot);

	if (j->now + seconds > j->failure.time) {
		recover(j);
		draw_interval(j);
		return;
	}
	j->now += seconds;
	j->done = last ? j->rex->work : j->done + work;
	copy_notice(j);
	j->l1 = j->done;
	j->batch++;
	j->tally->l1 += !last;
	copy_begin(j);
	draw_interval(j);
}

static void job_run(struct job *j, uint64_t run, struct tally *tally)
{
	memset(tally, 0, sizeof(*tally));
	j->tally = tally;
	kedge__failure_source_start(j->source, j->seed, 2 * run);
	kedge__random_init(&j->random, j->seed, 2 * run + 1);
	j->failure = kedge__failure_source_next(j->source);
	j->now = j->done = j->l1 = j->l2 = 0;
	j->deltas = j->batch = 0;
	j->copy.running = false;
	draw_interval(j);
	while (j->done < j->rex->work)
		step(j);
	tally->seconds = j->now;
}

struct batch {
	struct job *jobs;
	struct tally *tallies;
};

static int run_one(void *ctx, size_t i, int worker)
{
	struct batch *b = ctx;

	job_run(&b->jobs[worker], i, &b->tallies[i]);
	return 0;
}

static void add_up(const struct kedge__rex *rex, const struct tally *t, uint64_t runs,
		   struct kedge__rex_sim_result *out)
{
	struct kedge__sample ratio = {0};
	double n = (double)runs;

	memset(out, 0, sizeof(*out));
	out->runs = runs;
	for (uint64_t i = 0; i < runs; i++) {
		kedge__sample_add(&ratio, t[i].seconds / rex->work);
		out->transient += t[i].transient / n;
		out->permanent += t[i].permanent / n;
		out->l1 += t[i].l1 / n;
		out->l2 += t[i].l2 / n;
		out->full += t[i].full / n;
	}
	out->ratio = ratio.mean;
	kedge__sample_interval(&ratio, &out->error, &out->low, &out->high);
}

static int check(const struct kedge__rex *rex, uint64_t chi, uint64_t runs, struct kedge__error *err)
{
	int rc = kedge__rex_check(rex, err);

	if (rc != 0)
		return rc;
	if (!(rex->work / rex->interval < 1e9))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the work is %g s: a simulation needs an end", rex->work);
	if (chi < 1)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"an L2 checkpoint after every 0 L1 checkpoints: at least 1");
	if (runs < 1 || runs > UINT64_C(1) << 32)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%llu runs: it must be 1 to 4294967296",
					(unsigned long long)runs);
	return 0;
}

int kedge__rex_simulate(const struct kedge__rex *rex, uint64_t chi, const struct kedge__failure_model *failures,
			uint64_t runs, uint64_t seed, struct kedge__pool *pool, struct kedge__rex_sim_result *out,
			struct kedge__error *err)
{
	struct kedge__failure_model stated = {.levels = 2,
					      .rate = {(1 - rex->permanent) / rex->mtbf, rex->permanent / rex->mtbf}};
	int threads = pool != NULL ? kedge__pool_threads(pool) : 1, ready = 0;
	struct kedge__rex_costs costs;
	struct batch b = {0};
	int rc = check(rex, chi, runs, err);

	if (rc != 0)
		return rc;
	kedge__rex_derive(rex, chi, &costs);
	b.jobs = kedge__calloc((size_t)threads, sizeof(*b.jobs));
	b.tallies = kedge__calloc(runs, sizeof(*b.tallies));
	if (b.jobs == NULL || b.tallies == NULL)
		rc = kedge__error_nomem(err);
	for (; rc == 0 && ready < threads; ready += rc == 0) {
		b.jobs[ready] = (struct job){.rex = rex, .costs = &costs, .chi = chi, .seed = seed};
		rc = kedge__failure_source_new(failures != NULL ? failures : &stated, &b.jobs[ready].source, err);
	}
	if (rc == 0)
		rc = kedge__pool_for(pool, runs, run_one, &b);
	if (rc == 0)
		add_up(rex, b.tallies, runs, out);
	for (int i = 0; i < ready; i++)
		kedge__failure_source_free(b.jobs[i].source);
	kedge__free(b.tallies);
	kedge__free(b.jobs);
	return rc;
}
