/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: a job from its first to its last second. It knows what is stored where, and when the next failure comes;
 * none of the equations of the models is used.
 */
#include "base/exact.h"
#include "simulate/sample.h"
#include "simulate/simulate.h"
#include <math.h>

#define GIVE_UP 1e4 /* times the work */
#define NONE    (-1)
#define DRAWN   1024 /* copies whose time is drawn beforehand; a run picks among them */

struct tally {
	double seconds;
	double failures[KEDGE__PLAN_LEVELS];
	double checkpoints, flushes, skipped;
	double checkpoint_seconds, restart_seconds;
	bool unfinished;
};

struct copy { /* to the top level */
	bool running;
	int64_t of;        /* interval whose checkpoint is copied */
	uint64_t segments; /* completed since it began */
	double end;        /* if it goes by the clock */
};

struct job {
	const struct kedge__sim *sim;
	int levels, segment_level;           /* a checkpoint of segment_level (or above) ends a segment */
	uint64_t stride[KEDGE__PLAN_LEVELS]; /* intervals between checkpoints of level i + 1 or higher */
	struct kedge__failure_source *source;
	struct kedge__random random; /* for everything but failures */
	const double *latencies;     /* of copies through the queues; shared by all */
	size_t latency_count;
	struct kedge__failure failure; /* the next one */
	double now, limit;
	int64_t at;                         /* intervals completed */
	int64_t stored[KEDGE__PLAN_LEVELS]; /* interval of the newest checkpoint on each level, or NONE */
	struct copy copy;
	struct tally *tally;
};

static int level_of(const struct job *j, int64_t interval)
{
	int level = 1;

	while (level < j->levels && (uint64_t)interval % j->stride[level] == 0)
		level++;
	return level;
}

static double copy_seconds(struct job *j)
{
	if (j->latency_count == 0)
		return j->sim->machine.latency;
	if (j->latency_count == 1)
		return j->latencies[0];
	return j->latencies[(size_t)(kedge__random_uniform(&j->random) * DRAWN) % DRAWN];
}

static void copy_complete(struct job *j)
{
	j->stored[j->levels - 1] = j->copy.of;
	j->copy.running = false;
	j->tally->flushes++;
}

/* The job has come to the end of a period, whose checkpoint is stored locally: send it up. */
static void copy_begin(struct job *j)
{
	if (j->copy.running) {
		j->tally->skipped++;
		return;
	}
	j->copy = (struct copy){.running = true, .of = j->at};
	if (j->sim->flush != KEDGE__FLUSH_SEGMENTS)
		j->copy.end = j->now + copy_seconds(j);
	else if (j->sim->incomplete == 0)
		copy_complete(j);
}

static void copy_notice(struct job *j)
{
	if (j->copy.running && j->sim->flush != KEDGE__FLUSH_SEGMENTS && j->copy.end <= j->now)
		copy_complete(j);
}

/* Seconds of the next interval without its checkpoint; computation is slower while a copy runs. */
static double compute_seconds(const struct job *j)
{
	double t = j->sim->interval, slow = 1 + j->sim->machine.alpha, left;

	if (!j->copy.running)
		return t;
	if (j->sim->flush == KEDGE__FLUSH_SEGMENTS)
		return slow * t;
	left = KEDGE__MAX(0, j->copy.end - j->now);
	return left >= slow * t ? slow * t : left + (t - left / slow);
}

static double checkpoint_seconds(const struct job *j, int level)
{
	const struct kedge__async *m = &j->sim->machine;

	if (j->sim->background && level == j->levels)
		return m->levels.cost[level - 2] + m->init_cost;
	return m->levels.cost[level - 1];
}

static void store(struct job *j, int level)
{
	if (!j->sim->background) {
		j->stored[level - 1] = j->at;
		return;
	}
	j->stored[KEDGE__MIN(level, j->segment_level) - 1] = j->at;
	if (level < j->segment_level)
		return;
	if (j->copy.running && j->sim->flush == KEDGE__FLUSH_SEGMENTS && ++j->copy.segments == j->sim->incomplete)
		copy_complete(j);
	if (level == j->levels)
		copy_begin(j);
}

static void fail(struct job *j)
{
	j->now = j->failure.time;
	j->tally->failures[j->failure.level - 1]++;
	j->failure = kedge__failure_source_next(j->source);
}

/* What levels below LOST held is gone. */
static void lose_below(struct job *j, int lost)
{
	for (int i = 0; i < lost - 1; i++)
		j->stored[i] = NONE;
}

static int newest_level(const struct job *j, int least)
{
	int best = 0;

	for (int k = least; k <= j->levels; k++)
		if (j->stored[k - 1] != NONE && (best == 0 || j->stored[k - 1] > j->stored[best - 1]))
			best = k;
	return best;
}

/* Restart from the newest checkpoint of LEAST or above, through failures on the way. */
static void recover(struct job *j, int least)
{
	const double *restart = j->sim->machine.levels.restart;

	for (;;) {
		int k, hit;

		copy_notice(j);
		lose_below(j, least);
		k = newest_level(j, least);
		if (k == j->levels)
			j->copy.running = false;
		else if (j->copy.running && j->sim->flush == KEDGE__FLUSH_RESTART)
			j->copy.end = INFINITY;
		if (j->now + restart[k - 1] <= j->failure.time) {
			j->now += restart[k - 1];
			j->tally->restart_seconds += restart[k - 1];
			j->at = j->stored[k - 1];
			if (j->copy.running && isinf(j->copy.end))
				j->copy.end = j->now + copy_seconds(j);
			return;
		}
		j->tally->restart_seconds += j->failure.time - j->now;
		hit = j->failure.level;
		fail(j);
		if (k < j->levels && hit >= k)
			least = KEDGE__MAX(hit, k + 1);
		if (j->now > j->limit)
			return;
	}
}

/* The next interval and its checkpoint, or the failure that comes before. */
static void step(struct job *j, int64_t last)
{
	bool skip = j->sim->cold && j->at + 1 == last;
	int level = level_of(j, j->at + 1);
	double compute = compute_seconds(j), write = skip ? 0 : checkpoint_seconds(j, level);

	if (j->now + compute + write > j->failure.time) {
		int hit = j->failure.level;

		fail(j);
		recover(j, hit);
		return;
	}
	j->now += compute + write;
	j->at++;
	copy_notice(j);
	if (skip)
		return;
	j->tally->checkpoints++;
	j->tally->checkpoint_seconds += write;
	store(j, level);
}

static void job_begin(struct job *j, uint64_t run)
{
	uint64_t period = j->stride[j->levels - 1];

	kedge__failure_source_start(j->source, j->sim->seed, 2 * run);
	kedge__random_init(&j->random, j->sim->seed, 2 * run + 1);
	for (int i = 0; i < j->levels; i++)
		j->stored[i] = NONE;
	j->stored[j->levels - 1] = 0;
	j->copy = (struct copy){0};
	j->now = 0;
	j->at = 0;
	j->failure = kedge__failure_source_next(j->source);
	if (j->sim->background && !j->sim->cold) {
		/* Steady state: a period was completed before this one, and its copy begins now. */
		j->at = (int64_t)period;
		j->stored[j->segment_level - 1] = j->at;
		copy_begin(j);
	}
}

static uint64_t intervals_of(const struct job *j)
{
	double n = ceil(j->sim->work / j->sim->interval - 1e-9);
	uint64_t period = j->stride[j->levels - 1], count = n > 1 ? (uint64_t)n : 1;

	return j->sim->cold ? count : (count + period - 1) / period * period;
}

static void job_run(struct job *j, uint64_t run, struct tally *tally)
{
	int64_t last;

	memset(tally, 0, sizeof(*tally));
	j->tally = tally;
	job_begin(j, run);
	last = j->at + (int64_t)intervals_of(j);
	while (j->at < last && j->now <= j->limit)
		step(j, last);
	tally->unfinished = j->at < last;
	tally->seconds = j->now;
}

static int job_init(struct job *j, const struct kedge__sim *sim, struct kedge__error *err)
{
	int levels = sim->machine.levels.count;

	memset(j, 0, sizeof(*j));
	j->sim = sim;
	j->levels = levels;
	j->segment_level = sim->background ? levels - 1 : levels;
	j->stride[0] = 1;
	for (int k = 1; k < levels; k++)
		j->stride[k] =
		    j->stride[k - 1] * (sim->background && k == levels - 1 ? sim->segments : sim->counts[k - 1] + 1);
	j->limit = sim->limit > 0 ? sim->limit
				  : GIVE_UP * KEDGE__MAX(sim->work, (double)j->stride[levels - 1] * sim->interval);
	return kedge__failure_source_new(sim->failures, &j->source, err);
}

struct batch {
	struct job *jobs; /* one a worker */
	struct tally *tallies;
	double *latencies;
	size_t latency_count;
};

/* A copy of 100,000 nodes is a sort of thousands of shares: too much for each copy of each run. */
static int draw_latencies(const struct kedge__sim *sim, struct batch *b, struct kedge__error *err)
{
	struct kedge__flush_times times;
	struct kedge__random random;
	double *room;

	if (sim->queue == NULL)
		return 0;
	b->latency_count = sim->queue->variation > 0 ? DRAWN : 1;
	b->latencies = kedge__reallocarray(NULL, b->latency_count, sizeof(double));
	room = kedge__reallocarray(NULL, kedge__flush_room(sim->queue), sizeof(double));
	if (b->latencies == NULL || room == NULL) {
		kedge__free(room);
		return kedge__error_nomem(err);
	}
	kedge__random_init(&random, sim->seed, UINT64_MAX);
	for (size_t i = 0; i < b->latency_count; i++) {
		kedge__flush_simulate(sim->queue, &random, room, &times);
		b->latencies[i] = times.last;
	}
	kedge__free(room);
	return 0;
}

static int run_one(void *ctx, size_t i, int worker)
{
	struct batch *b = ctx;

	job_run(&b->jobs[worker], i, &b->tallies[i]);
	return 0;
}

static void add_up(const struct kedge__sim *sim, const struct job *j, const struct tally *t,
		   struct kedge__sim_result *out)
{
	struct kedge__sample times = {0};
	double n = (double)sim->runs, lost = 0;

	memset(out, 0, sizeof(*out));
	out->runs = sim->runs;
	out->work = (double)intervals_of(j) * sim->interval;
	for (uint64_t i = 0; i < sim->runs; i++) {
		kedge__sample_add(&times, t[i].seconds);
		out->unfinished += t[i].unfinished;
		out->checkpoints += t[i].checkpoints / n;
		out->flushes += t[i].flushes / n;
		out->flushes_skipped += t[i].skipped / n;
		out->checkpoint_seconds += t[i].checkpoint_seconds / n;
		out->restart_seconds += t[i].restart_seconds / n;
		lost += (t[i].seconds - out->work - t[i].checkpoint_seconds - t[i].restart_seconds) / n;
		for (int k = 0; k < j->levels; k++)
			out->failures[k] += t[i].failures[k] / n;
	}
	out->lost_seconds = lost;
	out->seconds = times.mean;
	kedge__sample_interval(&times, &out->error, &out->low, &out->high);
	out->efficiency = out->work / out->seconds;
	out->efficiency_low = out->work / out->high;
	out->efficiency_high = out->low > 0 ? out->work / out->low : 1;
}

static int check_pattern(const struct kedge__sim *sim, struct kedge__error *err)
{
	const struct kedge__levels *lv = &sim->machine.levels;
	double period = sim->background ? (double)sim->segments : 1;

	if (!(sim->interval > 0) || isinf(sim->interval))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the interval is %g s: it must be longer than 0",
					sim->interval);
	for (int k = 0; k < lv->count - (sim->background ? 2 : 1); k++)
		period *= (double)sim->counts[k] + 1;
	if (!(sim->work > 0) || sim->work / sim->interval + period > 1e12)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"the work of %g s has %g intervals: it must have 1 to 1e12", sim->work,
					sim->work / sim->interval);
	if (sim->runs < 1 || sim->runs > UINT64_C(1) << 32)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%llu runs: it must be 1 to 4294967296",
					(unsigned long long)sim->runs);
	return 0;
}

static int check(const struct kedge__sim *sim, struct kedge__error *err)
{
	int rc = kedge__levels_check(&sim->machine.levels, err);

	if (rc == 0)
		rc = check_pattern(sim, err);
	if (rc == 0 && sim->queue != NULL)
		rc = kedge__flush_check(sim->queue, err);
	if (rc != 0 || !sim->background)
		return rc;
	if (sim->machine.levels.count < 2)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "1 level: writing in the background needs a level to copy from and one to copy to");
	if (sim->segments < 1 || (sim->flush == KEDGE__FLUSH_SEGMENTS && sim->incomplete > sim->segments))
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "%llu incomplete segments in a period of %llu: a copy must finish before the next one begins",
		    (unsigned long long)sim->incomplete, (unsigned long long)sim->segments);
	return 0;
}

int kedge__sim_run(const struct kedge__sim *sim, struct kedge__pool *pool, struct kedge__sim_result *out,
		   struct kedge__error *err)
{
	int threads = pool != NULL ? kedge__pool_threads(pool) : 1, ready = 0;
	struct batch b = {0};
	int rc = check(sim, err);

	if (rc != 0)
		return rc;
	b.jobs = kedge__calloc((size_t)threads, sizeof(*b.jobs));
	b.tallies = kedge__calloc(sim->runs, sizeof(*b.tallies));
	if (b.jobs == NULL || b.tallies == NULL)
		rc = kedge__error_nomem(err);
	if (rc == 0)
		rc = draw_latencies(sim, &b, err);
	while (rc == 0 && ready < threads) {
		rc = job_init(&b.jobs[ready], sim, err);
		b.jobs[ready].latencies = b.latencies;
		b.jobs[ready].latency_count = b.latency_count;
		ready += rc == 0;
	}
	if (rc == 0)
		rc = kedge__pool_for(pool, sim->runs, run_one, &b);
	if (rc == 0)
		add_up(sim, &b.jobs[0], b.tallies, out);
	for (int i = 0; i < ready; i++)
		kedge__failure_source_free(b.jobs[i].source);
	kedge__free(b.latencies);
	kedge__free(b.tallies);
	kedge__free(b.jobs);
	return rc;
}
