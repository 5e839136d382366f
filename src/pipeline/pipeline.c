/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffer NUMBER travels by slot NUMBER % length of both rings, so that order needs no sorting: a transforming thread
 * takes the next Ready buffer of the first ring together with the slot of the same number in the second, and the
 * storing one waits for exactly the next number.
 *
 * Threads have no fixed place. Each does what stands nearest to the end of the pipeline of all it can do now, so a
 * single thread runs the stages in turn and never waits, and many spread over the stages as the load wants it.
 */
#include "pipeline/pipeline.h"
#include "pipeline/ring.h"
#include "pipeline/thread.h"

#include <pthread.h>

#define APART_MAX 2
#define NOTHING   (-1)

struct crew { /* one thread */
	struct pipeline *pipeline;
	pthread_t thread;
	unsigned may; /* a bit a stage */
	bool waiting;
	pthread_cond_t work;
};

struct pipeline {
	const struct kedge__pipeline_spec *spec;
	struct crew *crew;
	size_t crew_count; /* threads of the pool, then those apart */
	size_t pool_count;

	pthread_mutex_t lock; /* over all that follows, and the states of buffers; not over what a Busy buffer holds */
	struct kedge__ring raw, made;
	uint64_t collected, taken, stored; /* numbers that come next */
	uint64_t released;                 /* what is stored from here on is held */
	bool ended;                        /* no more is collected */
	int active[KEDGE__STAGES];
	int width[KEDGE__STAGES];
	struct kedge__pipeline_stats stats;
	double accounted; /* the clock up to which the times are in the statistics */
	int rc;
	struct kedge__error error;
	uint64_t error_number;
};

const char *kedge__stage_name(enum kedge__stage stage)
{
	static const char *const names[] = {"collect", "transform", "store"};

	return names[stage];
}

/* ------------------------------------------------------------------ what can be done now */

static bool has_input(const struct pipeline *p, enum kedge__stage stage)
{
	switch (stage) {
	case KEDGE__STAGE_COLLECT:
		return !p->ended;
	case KEDGE__STAGE_TRANSFORM:
		return p->taken < p->collected && kedge__ring_at(&p->raw, p->taken)->state == KEDGE__BUFFER_READY;
	default:
		return p->stored < p->taken && kedge__ring_at(&p->made, p->stored)->state == KEDGE__BUFFER_READY;
	}
}

static bool has_room(const struct pipeline *p, enum kedge__stage stage)
{
	switch (stage) {
	case KEDGE__STAGE_COLLECT:
		return kedge__ring_at(&p->raw, p->collected)->state == KEDGE__BUFFER_EMPTY;
	case KEDGE__STAGE_TRANSFORM:
		return kedge__ring_at(&p->made, p->taken)->state == KEDGE__BUFFER_EMPTY;
	default:
		return true;
	}
}

static bool possible(const struct pipeline *p, enum kedge__stage stage)
{
	return p->active[stage] < p->width[stage] && has_input(p, stage) && has_room(p, stage);
}

static bool finished(const struct pipeline *p)
{
	return p->rc || (p->ended && p->stored == p->collected);
}

static bool stage_over(const struct pipeline *p, enum kedge__stage stage)
{
	return p->ended && (stage == KEDGE__STAGE_COLLECT || p->stored == p->collected ||
			    (stage == KEDGE__STAGE_TRANSFORM && p->taken == p->collected));
}

/* ------------------------------------------------------------------ statistics */

static void account_stage(struct pipeline *p, enum kedge__stage stage, double passed)
{
	struct kedge__stage_stats *s = &p->stats.stage[stage];
	double idle = (p->width[stage] - p->active[stage]) * passed;

	s->busy += p->active[stage] * passed;
	if (stage_over(p, stage))
		return;
	if (!has_input(p, stage))
		s->starved += idle;
	else if (!has_room(p, stage))
		s->blocked += idle;
}

/* Before anything changes: the time since the last change was spent in the state that is. */
static void account(struct pipeline *p)
{
	double now = kedge__clock_seconds(), passed = now - p->accounted;

	for (int stage = 0; stage < KEDGE__STAGES; stage++)
		account_stage(p, (enum kedge__stage)stage, passed);
	p->accounted = now;
}

void kedge__pipeline_stats_add(struct kedge__pipeline_stats *sum, const struct kedge__pipeline_stats *more)
{
	for (int i = 0; i < KEDGE__STAGES; i++) {
		struct kedge__stage_stats *to = &sum->stage[i];
		const struct kedge__stage_stats *from = &more->stage[i];

		to->busy += from->busy;
		to->starved += from->starved;
		to->blocked += from->blocked;
		to->buffers += from->buffers;
		to->bytes += from->bytes;
		to->width = KEDGE__MAX(to->width, from->width);
	}
	sum->seconds += more->seconds;
}

enum kedge__stage kedge__pipeline_bottleneck(const struct kedge__pipeline_stats *stats)
{
	enum kedge__stage best = KEDGE__STAGE_COLLECT;
	double most = -1;

	for (int i = 0; i < KEDGE__STAGES; i++) {
		double load = stats->stage[i].busy / KEDGE__MAX(stats->stage[i].width, 1);

		if (load > most) {
			most = load;
			best = (enum kedge__stage)i;
		}
	}
	return best;
}

/* ------------------------------------------------------------------ one step of a stage; the lock is held */

static void wake(struct crew *c)
{
	c->waiting = false;
	pthread_cond_signal(&c->work);
}

/*
 * A thread that is woken for every single buffer spends its time waking up. While the rings are well filled on the side
 * of the stage that the others wait for, that stage will be here again soon, and find that it is time by then.
 */
static bool worthwhile(const struct pipeline *p, enum kedge__stage stage)
{
	size_t half = p->raw.length / 2;
	uint64_t raw = p->collected - p->taken;
	uint64_t made = p->taken - p->stored - (uint64_t)p->active[KEDGE__STAGE_TRANSFORM];

	switch (stage) {
	case KEDGE__STAGE_COLLECT:
		return raw <= half;
	case KEDGE__STAGE_TRANSFORM:
		return made <= half;
	default:
		return made >= half || !p->active[KEDGE__STAGE_TRANSFORM];
	}
}

/* For each stage that can go on, one of those who wait and can do it. */
static void rouse(struct pipeline *p)
{
	bool all = finished(p);

	for (int stage = 0; stage < KEDGE__STAGES; stage++) {
		if (!all && !(possible(p, (enum kedge__stage)stage) && worthwhile(p, (enum kedge__stage)stage)))
			continue;
		for (size_t i = 0; i < p->crew_count; i++) {
			if (!p->crew[i].waiting || !(p->crew[i].may & 1U << stage))
				continue;
			wake(&p->crew[i]);
			if (!all)
				break;
		}
	}
}

static void begin(struct pipeline *p, enum kedge__stage stage)
{
	account(p);
	p->active[stage]++;
}

static void end(struct pipeline *p, enum kedge__stage stage, const struct kedge__buffer *made)
{
	account(p);
	p->active[stage]--;
	p->stats.stage[stage].buffers += made != NULL;
	p->stats.stage[stage].bytes += made ? made->bytes : 0;
}

static void take_error(struct pipeline *p, int rc, uint64_t number, struct kedge__error *err)
{
	if (!p->rc || number < p->error_number) {
		p->rc = rc;
		p->error_number = number;
		kedge__error_move(&p->error, err);
	}
	kedge__error_done(err);
}

static void collect_one(struct pipeline *p)
{
	struct kedge__buffer *out = kedge__ring_at(&p->raw, p->collected);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	kedge__ring_claim(&p->raw, out, p->collected);
	rouse(p);
	pthread_mutex_unlock(&p->lock);
	rc = p->spec->collect(p->spec->ctx, out, &err);
	pthread_mutex_lock(&p->lock);
	end(p, KEDGE__STAGE_COLLECT, rc ? NULL : out);
	if (rc == 0) {
		out->state = KEDGE__BUFFER_READY;
		p->collected++;
		return;
	}
	p->ended = true;
	kedge__ring_release(&p->raw, out);
	if (rc != KEDGE__PIPELINE_END)
		take_error(p, rc, p->collected, &err);
}

static void transform_one(struct pipeline *p, int worker)
{
	uint64_t number = p->taken++;
	struct kedge__buffer *in = kedge__ring_at(&p->raw, number), *out = kedge__ring_at(&p->made, number);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	in->state = KEDGE__BUFFER_BUSY;
	kedge__ring_claim(&p->made, out, number);
	out->tag = in->tag;
	rouse(p);
	pthread_mutex_unlock(&p->lock);
	rc = p->spec->transform(p->spec->ctx, worker, in, out, &err);
	pthread_mutex_lock(&p->lock);
	end(p, KEDGE__STAGE_TRANSFORM, rc ? NULL : out);
	kedge__ring_release(&p->raw, in);
	if (rc) {
		kedge__ring_release(&p->made, out);
		take_error(p, rc, number, &err);
		return;
	}
	out->state = KEDGE__BUFFER_READY;
}

static void store_one(struct pipeline *p)
{
	struct kedge__buffer *in = kedge__ring_at(&p->made, p->stored);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	in->state = KEDGE__BUFFER_BUSY;
	rouse(p);
	pthread_mutex_unlock(&p->lock);
	rc = p->spec->store(p->spec->ctx, in, &err);
	pthread_mutex_lock(&p->lock);
	end(p, KEDGE__STAGE_STORE, rc < 0 ? NULL : in);
	if (rc < 0) {
		kedge__ring_release(&p->made, in);
		take_error(p, rc, p->stored, &err);
		return;
	}
	p->stored++;
	for (; rc == 0 && p->released < p->stored; p->released++)
		kedge__ring_release(&p->made, kedge__ring_at(&p->made, p->released));
}

/* ------------------------------------------------------------------ threads; the lock is held */

static int choose(const struct pipeline *p, unsigned may)
{
	for (int stage = KEDGE__STAGES - 1; stage >= 0; stage--)
		if (may & 1U << stage && possible(p, (enum kedge__stage)stage))
			return stage;
	return NOTHING;
}

static void step(struct pipeline *p, enum kedge__stage stage, int worker)
{
	begin(p, stage);
	if (stage == KEDGE__STAGE_COLLECT)
		collect_one(p);
	else if (stage == KEDGE__STAGE_TRANSFORM)
		transform_one(p, worker);
	else
		store_one(p);
}

static void crew_work(struct crew *c, int worker)
{
	struct pipeline *p = c->pipeline;

	pthread_mutex_lock(&p->lock);
	while (!finished(p)) {
		int stage = choose(p, c->may);

		if (stage != NOTHING) {
			step(p, (enum kedge__stage)stage, worker);
			rouse(p);
			continue;
		}
		c->waiting = true;
		while (c->waiting && !finished(p))
			pthread_cond_wait(&c->work, &p->lock);
		c->waiting = false;
	}
	pthread_mutex_unlock(&p->lock);
}

static int pool_main(void *ctx, size_t i, int worker)
{
	struct pipeline *p = ctx;

	crew_work(&p->crew[i], worker);
	return 0;
}

static void *apart_main(void *ctx)
{
	crew_work(ctx, 0);
	return NULL;
}

/* A thread for STAGE alone, if the system grants one. Called before any other runs. */
static unsigned start_apart(struct pipeline *p, enum kedge__stage stage, bool wanted)
{
	struct crew *c = &p->crew[p->crew_count];

	if (!wanted)
		return 0;
	c->may = 1U << stage;
	p->crew_count++;
	if (kedge__thread_start(&c->thread, apart_main, c) == 0)
		return c->may;
	p->crew_count--;
	kedge__log(KEDGE_LOG_WARNING, "cannot start a thread for stage %s; the other threads run it",
		   kedge__stage_name(stage));
	return 0;
}

/* ------------------------------------------------------------------ all of it */

static int prepare(struct pipeline *p, struct kedge__error *err)
{
	size_t queue = p->spec->queue ? p->spec->queue : KEDGE__MAX(2 * p->pool_count, KEDGE__QUEUE_MIN);
	int rc;

	p->crew = kedge__calloc(p->pool_count + APART_MAX, sizeof(*p->crew));
	if (!p->crew)
		return kedge__error_nomem(err);
	rc = kedge__ring_init(&p->raw, queue, p->spec->buffer_bytes, err);
	if (!rc)
		rc = kedge__ring_init(&p->made, queue, p->spec->buffer_bytes, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < p->pool_count + APART_MAX; i++) {
		p->crew[i].pipeline = p;
		pthread_cond_init(&p->crew[i].work, NULL);
	}
	p->width[KEDGE__STAGE_COLLECT] = p->width[KEDGE__STAGE_STORE] = 1;
	p->width[KEDGE__STAGE_TRANSFORM] = (int)KEDGE__MIN(p->pool_count, queue);
	return 0;
}

static void run_threads(struct pipeline *p, struct kedge__pool *pool)
{
	const struct kedge__pipeline_spec *spec = p->spec;
	unsigned apart = 0;

	p->accounted = kedge__clock_seconds();
	p->stats.seconds = -p->accounted;
	pthread_mutex_lock(&p->lock);
	p->crew_count = p->pool_count;
	apart |= start_apart(p, KEDGE__STAGE_STORE, spec->store_apart);
	apart |= start_apart(p, KEDGE__STAGE_COLLECT, spec->collect_apart);
	for (size_t i = 0; i < p->pool_count; i++)
		p->crew[i].may = ((1U << KEDGE__STAGES) - 1) & ~apart;
	pthread_mutex_unlock(&p->lock);
	kedge__pool_for(pool, p->pool_count, pool_main, p);
	for (size_t i = p->pool_count; i < p->crew_count; i++)
		pthread_join(p->crew[i].thread, NULL);
	p->stats.seconds += kedge__clock_seconds();
}

static void release(struct pipeline *p)
{
	for (size_t i = 0; p->crew && i < p->pool_count + APART_MAX; i++)
		if (p->crew[i].pipeline)
			pthread_cond_destroy(&p->crew[i].work);
	kedge__ring_done(&p->raw);
	kedge__ring_done(&p->made);
	kedge__free(p->crew);
}

int kedge__pipeline_run(struct kedge__pool *pool, const struct kedge__pipeline_spec *spec,
			struct kedge__pipeline_stats *stats, struct kedge__error *err)
{
	struct pipeline p = {.spec = spec, .pool_count = (size_t)kedge__pool_threads(pool)};
	int rc;

	rc = prepare(&p, err);
	if (rc) {
		release(&p);
		return rc;
	}
	pthread_mutex_init(&p.lock, NULL);
	run_threads(&p, pool);
	pthread_mutex_destroy(&p.lock);
	rc = p.rc;
	if (rc && err)
		kedge__error_move(err, &p.error);
	kedge__error_done(&p.error);
	for (int i = 0; i < KEDGE__STAGES; i++)
		p.stats.stage[i].width = p.width[i];
	if (stats)
		*stats = p.stats;
	release(&p);
	return rc;
}
