/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/policy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define LEAST_INTERVAL 1.0
#define PERMANENT_RATE 10.0 /* failures, to one that loses L1, where nothing is told */
#define ENOUGH_DIRTY   3
#define DIRTY_LEAST    0.5 /* of the interval: bounds of what dirty pages make of it */
#define DIRTY_MOST     2.0
#define SKIP_SHARE     4
#define SKIP_MOST      1000
#define SKIP_SECONDS   5.0 /* so that a rank that is told to end is heard */
#define FIRST_SHARE    20  /* of the time between failures, that may pass before the first checkpoint */
#define CLOSED_LINE    "closed\n"
#define L2_LINE        "kedge-l2 1"

/* ------------------------------------------------------------------ what is configured */

/* With both levels the rates of two kinds of failure; with one there is but one kind. */
static void rates_configure(const struct kedge__policy_config *c, bool both, struct kedge__controller_config *out)
{
	double permanent = c->l2_mtbf > 0 ? c->l2_mtbf : PERMANENT_RATE * c->mtbf;
	double rate;

	if (!(c->mtbf > 0))
		return;
	out->mtbf[0] = c->mtbf;
	if (!both)
		return;
	rate = 1 / c->mtbf - 1 / permanent;
	out->mtbf[1] = permanent;
	/* Every failure loses L1: those that do not are rare, but not impossible. */
	out->mtbf[0] = rate * permanent > 1 / PERMANENT_RATE ? 1 / rate : PERMANENT_RATE * permanent;
}

void kedge__policy_init(struct kedge__policy *p, const struct kedge__policy_config *config, double now)
{
	struct kedge__controller_config c = {.background = true, .min_interval = LEAST_INTERVAL};

	memset(p, 0, sizeof(*p));
	p->config = *config;
	p->moves_interval = config->adaptive || config->interval == 0;
	p->moves_l2 = config->l2 && config->l2_every == 0;
	if (p->moves_interval)
		c.interval = config->interval > 0 ? config->interval : KEDGE__POLICY_INTERVAL;
	/* Where L2 is not ours to move, the interval is chosen by what a checkpoint on L1 costs. */
	if (p->moves_l2) {
		c.l2_every = KEDGE__POLICY_L2_EVERY;
		p->l2_by = KEDGE__L2_PRESET;
	}
	rates_configure(config, p->moves_l2, &c);
	kedge__controller_init(&p->controller, &c);
	p->resumed = p->told = now;
	p->last_ask = -1;
}

/* Nothing is configured, and the models have not been asked, or see no reason to change anything. */
static bool is_preset(const struct kedge__policy *p)
{
	return p->moves_interval && p->config.interval == 0 && p->controller.interval == p->controller.config.interval;
}

/*
 * Until the models can be asked: the first checkpoint soon, because nobody knows yet what one costs, and long before a
 * failure is to be expected; then Young's interval for what is known, and for what is usual where nothing is.
 */
static double preset_interval(const struct kedge__policy *p)
{
	double mtbf = kedge__controller_mtbf(&p->controller), young;
	double first = mtbf > 0 ? KEDGE__MIN(KEDGE__POLICY_FIRST, mtbf / FIRST_SHARE) : KEDGE__POLICY_FIRST;

	first = KEDGE__MAX(first, LEAST_INTERVAL);
	if (!p->controller.cost[0].count)
		return first;
	young = sqrt(2 * p->controller.cost[0].value * (mtbf > 0 ? mtbf : KEDGE__POLICY_MTBF));
	return KEDGE__MIN(KEDGE__MAX(young, first), KEDGE__POLICY_INTERVAL);
}

double kedge__policy_interval(const struct kedge__policy *p)
{
	if (is_preset(p))
		return preset_interval(p);
	return p->moves_interval ? p->controller.interval : p->config.interval;
}

uint64_t kedge__policy_l2_every(const struct kedge__policy *p)
{
	return p->moves_l2 ? KEDGE__MAX(p->controller.l2_every, 1) : KEDGE__MAX(p->config.l2_every, 1);
}

bool kedge__policy_used(const struct kedge__policy *p)
{
	return p->asked || p->moves_l2;
}

bool kedge__policy_known(const struct kedge__policy *p)
{
	return kedge__policy_used(p) || p->loaded || p->full.count + p->delta.count > 0;
}

/* ------------------------------------------------------------------ now or later */

/*
 * The best interval goes with the root of what a checkpoint costs, and that goes with what is dirty: with little to
 * save it is due earlier, with much later. Where dirty pages grow as they usually do, it is due after the interval.
 */
static double dirty_factor(const struct kedge__policy *p, double dirty)
{
	if (!p->moves_interval || dirty < 0 || p->dirty.count < ENOUGH_DIRTY || !(p->dirty.value > 0))
		return 1;
	return KEDGE__MIN(KEDGE__MAX(sqrt(dirty / p->dirty.value), DIRTY_LEAST), DIRTY_MOST);
}

bool kedge__policy_wants_dirty(const struct kedge__policy *p, double now)
{
	return p->moves_interval && now - p->resumed >= DIRTY_LEAST * kedge__policy_interval(p);
}

static void pace_measure(struct kedge__policy *p, double now)
{
	double distance = now - p->last_ask;

	if (p->last_ask >= 0 && distance >= 0)
		p->call = p->call > 0 ? p->call + (distance - p->call) / 4 : distance;
	p->last_ask = now;
}

const char *kedge__policy_by(const struct kedge__policy *p)
{
	if (is_preset(p))
		return p->controller.cost[0].count ? "by what is measured so far" : "to see what a checkpoint costs";
	if (p->moves_interval && p->controller.interval != p->controller.config.interval)
		return "chosen";
	return "configured";
}

static void why_write(struct kedge__policy *p, double waited, double factor, double dirty)
{
	int n;

	n = snprintf(p->why, sizeof(p->why), "%.4g s of computation since the last one; interval %.4g s, %s", waited,
		     kedge__policy_interval(p), kedge__policy_by(p));
	if (factor != 1 && n > 0 && (size_t)n < sizeof(p->why))
		snprintf(p->why + n, sizeof(p->why) - (size_t)n,
			 ", taken %.2g times because %.3g MB are dirty instead of %.3g MB", factor, dirty / 1e6,
			 p->dirty.value / 1e6);
}

bool kedge__policy_ask(struct kedge__policy *p, double now, double dirty)
{
	double waited = now - p->resumed, factor = dirty_factor(p, dirty);

	p->asked = true;
	p->why[0] = '\0';
	pace_measure(p, now);
	if (waited < factor * kedge__policy_interval(p))
		return false;
	why_write(p, waited, factor, dirty);
	return true;
}

uint64_t kedge__policy_skip(const struct kedge__policy *p, double now)
{
	double least = kedge__policy_interval(p) * (p->moves_interval ? DIRTY_LEAST : 1);
	double left = least - (now - p->resumed);

	if (!(p->call > 0) || left <= 0)
		return 0;
	return (uint64_t)KEDGE__MIN(KEDGE__MIN(left / SKIP_SHARE, SKIP_SECONDS) / p->call, (double)SKIP_MOST);
}

/* ------------------------------------------------------------------ what is measured */

static void time_pass(struct kedge__policy *p, double now)
{
	kedge__controller_advance(&p->controller, now - p->told);
	p->told = now;
}

/* While the application does not ask when, it decides itself: then only L2 is a matter. */
static bool decide(struct kedge__policy *p)
{
	struct kedge__controller *c = &p->controller;
	double configured = c->config.interval, interval = c->interval;
	struct kedge__decision d;
	bool changed;

	if (!p->asked)
		c->config.interval = c->interval = 0;
	changed = kedge__controller_decide(c, &d);
	if (d.efficiency > 0 && p->moves_l2)
		p->l2_by = KEDGE__L2_MODEL;
	if (!p->asked) {
		c->config.interval = configured;
		c->interval = interval;
	}
	snprintf(p->text, sizeof(p->text), "%s", d.text);
	return changed;
}

static void mean_add(struct kedge__controller_mean *m, double value)
{
	if (!isfinite(value) || value < 0)
		return;
	m->count++;
	m->value += (value - m->value) * KEDGE__MAX(0.25, 1 / (double)m->count);
}

/* Until the models can answer, the frequency is that of the paper for increments of this size. True if it changed. */
static bool l2_by_table(struct kedge__policy *p)
{
	struct kedge__controller *c = &p->controller;
	uint64_t every;
	bool changed;

	if (!p->moves_l2 || !p->increment.count || p->l2_by == KEDGE__L2_MODEL)
		return false;
	every = (uint64_t)kedge__rex_table_lookup(p->increment.value, p->ratio.value);
	changed = every != c->l2_every;
	if (changed)
		snprintf(p->text, sizeof(p->text),
			 "L2 every %llu -> %llu: Table 1 of REX for increments of %.3g of the image, packed %.3g to 1, "
			 "until "
			 "enough is measured",
			 (unsigned long long)c->l2_every, (unsigned long long)every, p->increment.value,
			 p->ratio.value);
	c->l2_every = every;
	p->l2_by = KEDGE__L2_TABLE;
	return changed;
}

bool kedge__policy_taken(struct kedge__policy *p, double now, double blocked, double dirty)
{
	bool changed;

	time_pass(p, now);
	kedge__controller_checkpoint(&p->controller, blocked);
	mean_add(&p->dirty, dirty);
	p->resumed = now;
	p->last_ask = -1;
	p->why[0] = '\0';
	if (!p->moves_l2 && !(p->asked && p->moves_interval))
		return false;
	changed = decide(p);
	return changed || l2_by_table(p);
}

void kedge__policy_increment(struct kedge__policy *p, uint64_t raw, uint64_t literal, uint64_t stored)
{
	if (!raw || !literal || !stored)
		return;
	mean_add(&p->increment, (double)literal / (double)raw);
	mean_add(&p->ratio, (double)literal / (double)stored);
}

void kedge__policy_flushed(struct kedge__policy *p, const struct kedge__l2_flush *flush)
{
	kedge__controller_flush(&p->controller, flush->seconds);
	mean_add(flush->self_contained ? &p->full : &p->delta, flush->seconds);
	if (flush->bytes)
		mean_add(&p->write_rate, (double)flush->bytes / flush->seconds);
}

void kedge__policy_read(struct kedge__policy *p, double seconds, uint64_t bytes)
{
	if (bytes)
		mean_add(&p->read_rate, (double)bytes / seconds);
}

static double known(const struct kedge__controller_mean *m)
{
	return m->count ? m->value : -1;
}

void kedge__policy_l2_costs(const struct kedge__policy *p, struct kedge__l2_costs *out)
{
	const struct kedge__controller *c = &p->controller;
	double mtbf = kedge__controller_mtbf(c);

	memset(out, 0, sizeof(*out)); /* it is sent as it is */
	out->full = known(&p->full);
	out->delta = known(&p->delta);
	out->write_rate = known(&p->write_rate);
	out->read_rate = known(&p->read_rate);
	out->every = kedge__policy_l2_every(p);
	out->by = p->l2_by;
	out->interval = -1;
	if (c->spacing.count)
		out->interval =
		    KEDGE__MAX((double)out->every * (c->spacing.value + c->cost[0].value), p->config.l2_interval);
	out->mtbf_known = mtbf > 0;
	out->mtbf = out->mtbf_known ? mtbf : KEDGE__POLICY_MTBF;
}

/* The process that failed computed until somewhere between two checkpoints: half an interval is what to expect. */
void kedge__policy_restarted(struct kedge__policy *p, double now, int level, double seconds, double unseen)
{
	double interval = kedge__policy_interval(p);

	time_pass(p, now);
	if (p->unclean) {
		kedge__controller_advance(&p->controller, KEDGE__MIN(KEDGE__MAX(unseen, 0), interval / 2));
		kedge__controller_failure(&p->controller, level, seconds);
	}
	p->unclean = false;
	p->controller.since = 0;
	p->resumed = now;
	p->last_ask = -1;
	p->why[0] = '\0';
}

/* ------------------------------------------------------------------ from one process to the next */

#define L2_MEANS 6

static void l2_means(struct kedge__policy *p, struct kedge__controller_mean *means[L2_MEANS])
{
	means[0] = &p->full;
	means[1] = &p->delta;
	means[2] = &p->write_rate;
	means[3] = &p->read_rate;
	means[4] = &p->increment;
	means[5] = &p->ratio;
}

void kedge__policy_format(const struct kedge__policy *p, bool closed, char text[KEDGE__POLICY_FILE_MAX])
{
	struct kedge__policy copy = *p;
	struct kedge__controller_mean *means[L2_MEANS];
	char line[KEDGE__CONTROLLER_LINE];
	int at;

	l2_means(&copy, means);
	kedge__controller_format(&p->controller, line);
	at = snprintf(text, KEDGE__POLICY_FILE_MAX, "%s\n" L2_LINE, line);
	for (int i = 0; i < L2_MEANS; i++)
		at += snprintf(text + at, (size_t)(KEDGE__POLICY_FILE_MAX - at), " %.9g/%" PRIu64, means[i]->value,
			       means[i]->count);
	snprintf(text + at, (size_t)(KEDGE__POLICY_FILE_MAX - at), "\n%s", closed ? CLOSED_LINE : "");
}

/* The second line; *TEXT is behind it then. A file of an earlier version has none. */
static int l2_parse(struct kedge__policy *p, const char **text, struct kedge__error *err)
{
	struct kedge__policy read = *p;
	struct kedge__controller_mean *means[L2_MEANS];
	const char *at = *text;

	if (strncmp(at, L2_LINE, strlen(L2_LINE)) != 0)
		return 0;
	at += strlen(L2_LINE);
	l2_means(&read, means);
	for (int i = 0; i < L2_MEANS; i++) {
		int used = 0;

		if (sscanf(at, " %lf/%" SCNu64 "%n", &means[i]->value, &means[i]->count, &used) != 2 ||
		    !isfinite(means[i]->value) || means[i]->value < 0)
			return kedge__error_set(err, KEDGE_E_FORMAT, 0,
						"what was measured of L2 before is not a line of it");
		at += used;
	}
	if (*at != '\n')
		return kedge__error_set(err, KEDGE_E_FORMAT, 0, "what was measured of L2 before has no end");
	*p = read;
	*text = at + 1;
	return 0;
}

int kedge__policy_parse(struct kedge__policy *p, const char *text, struct kedge__error *err)
{
	char line[KEDGE__CONTROLLER_LINE];
	size_t n = strcspn(text, "\n");
	struct kedge__policy read = *p;
	int rc;

	if (n >= sizeof(line) || !text[n])
		return kedge__error_set(err, KEDGE_E_FORMAT, 0, "what was measured before is not a line of text");
	memcpy(line, text, n);
	line[n] = '\0';
	text += n + 1;
	rc = kedge__controller_parse(&read.controller, line, err);
	if (!rc)
		rc = l2_parse(&read, &text, err);
	if (rc)
		return rc;
	read.unclean = strcmp(text, CLOSED_LINE) != 0;
	read.loaded = true;
	*p = read;
	return 0;
}
