/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/pipeline.h"

#include <errno.h>
#include <time.h>

static double real_now(void *ctx)
{
	(void)ctx;
	return kedge__clock_seconds();
}

static void real_sleep(void *ctx, double seconds)
{
	const double longest = 1e6; /* keeps the conversion in range; whoever waits that long can wait again */
	struct timespec t;

	(void)ctx;
	seconds = KEDGE__MIN(seconds, longest);
	t.tv_sec = (time_t)seconds;
	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

void kedge__bucket_init(struct kedge__bucket *b, double rate, double burst)
{
	*b = (struct kedge__bucket){
	    .lock = PTHREAD_MUTEX_INITIALIZER,
	    .rate = rate,
	    .burst = burst,
	    .level = burst,
	    .last = -1,
	    .now = real_now,
	    .sleep = real_sleep,
	};
}

static void refill(struct kedge__bucket *b)
{
	double now = b->now(b->ctx);
	double passed = b->last < 0 ? 0 : KEDGE__MAX(now - b->last, 0.0);

	b->level = KEDGE__MIN(b->level + passed * b->rate, b->burst);
	b->last = now;
}

bool kedge__bucket_limits(const struct kedge__bucket *b)
{
	return b && b->rate > 0;
}

/* Bytes are taken on credit and paid for by waiting: a piece larger than the burst needs no special care. */
double kedge__bucket_charge(struct kedge__bucket *b, double bytes)
{
	double owed;

	if (!kedge__bucket_limits(b))
		return 0;
	pthread_mutex_lock(&b->lock);
	b->taken += bytes;
	refill(b);
	b->level -= bytes;
	owed = -b->level / b->rate;
	pthread_mutex_unlock(&b->lock);
	return KEDGE__MAX(owed, 0.0);
}

void kedge__bucket_take(struct kedge__bucket *b, double bytes)
{
	double owed = kedge__bucket_charge(b, bytes);

	if (owed > 0)
		b->sleep(b->ctx, owed);
}
