/* SPDX-License-Identifier: BSD-3-Clause */
/* What the lines of the journal say; kedge-journal(5) describes them. */
#include "job/handle.h"

#include <stdlib.h>
#include <unistd.h>

static double wall_seconds(void)
{
	return (double)kedge__clock_wall_ns() / 1e9;
}

static bool speaks(const kedge_t *k)
{
	return k->group.rank == 0;
}

/* Between both, the journal is locked. */
static void event_begin(kedge_t *k, struct kedge__line *l, const char *event)
{
	pthread_mutex_lock(&k->journal.lock);
	kedge__line_begin(l);
	kedge__line_seconds(l, "time", wall_seconds());
	kedge__line_text(l, "event", event);
	kedge__line_text(l, "name", k->name);
}

static void event_end(kedge_t *k, struct kedge__line *l)
{
	struct kedge__journal *j = &k->journal;

	kedge__journal_write(j, k->name, l);
	j->gauges.lost = j->files[0].lost_ever;
	if (j->opened)
		kedge__gauges_write(&j->gauges, k->name);
	pthread_mutex_unlock(&j->lock);
}

/* ------------------------------------------------------------------ from opening to closing */

static void files_choose(kedge_t *k)
{
	struct kedge__journal *j = &k->journal;
	const char *run = getenv("KEDGE_RUN_JOURNAL");

	if (strcmp(k->set.journal, "yes") == 0)
		j->files[0].path = kedge__asprintf("%s/%s/" KEDGE__JOURNAL_NAME,
						   kedge__catalog_store(k->levels.at[KEDGE__L1].api), k->name);
	else if (strcmp(k->set.journal, "no") != 0)
		j->files[0].path = kedge__job_file(k->set.journal, k->name, ".journal");
	j->files[0].limit = k->set.journal_limit;
	if (run && run[0])
		j->files[1].path = kedge__strdup(run);
	if (k->set.metrics[0])
		j->gauges.path = kedge__job_file(k->set.metrics, k->name, ".prom");
	j->gauges.store = kedge__strdup(kedge__catalog_store(k->levels.at[KEDGE__L1].api));
	if (!j->gauges.store) {
		kedge__free(j->gauges.path);
		j->gauges.path = NULL;
	}
}

/* Age and lag are known from the first moment on. */
static void levels_look(const kedge_t *k, struct kedge__gauges *g)
{
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog *cat = k->levels.at[l].api;
		const struct kedge__catalog_entry *e = NULL;

		for (size_t n = cat ? kedge__catalog_count(cat) : 0; n && (!e || e->problem.code); n--)
			e = kedge__catalog_at(cat, n - 1);
		if (!e || e->problem.code)
			continue;
		g->level[l].version = e->version;
		g->level[l].sealed = (double)e->set.created_ns / 1e9;
	}
}

static const char *capture_word(const kedge_t *k)
{
	if (k->set.capture == KEDGE__CAPTURE_SYNC)
		return "sync";
	return k->image.cow ? "cow" : "copy";
}

void kedge__journal_open(kedge_t *k)
{
	struct kedge__journal *j = &k->journal;
	const char *launch = getenv("KEDGE_RUN_LAUNCH");
	char host[256] = "";
	struct kedge__line l;

	if (!speaks(k))
		return;
	(void)gethostname(host, sizeof(host) - 1);
	event_begin(k, &l, "open");
	files_choose(k);
	kedge__journal_fetch(k);
	kedge__line_uint(&l, "schema", KEDGE__JOURNAL_SCHEMA);
	kedge__line_text(&l, "kedge", kedge_version_string());
	kedge__line_text(&l, "store", kedge__catalog_store(k->levels.at[KEDGE__L1].api));
	if (k->set.l2[0])
		kedge__line_text(&l, "l2", k->set.l2);
	kedge__line_uint(&l, "ranks", (uint64_t)k->group.size);
	kedge__line_text(&l, "host", host);
	kedge__line_uint(&l, "pid", (uint64_t)k->pid);
	kedge__line_text(&l, "capture", capture_word(k));
	if (launch)
		kedge__line_uint(&l, "launch", strtoull(launch, NULL, 10));
	if (getenv("SLURM_JOB_ID"))
		kedge__line_text(&l, "slurm_job", getenv("SLURM_JOB_ID"));
	j->since = kedge__clock_seconds();
	j->gauges.opened = wall_seconds();
	j->gauges.running = true;
	j->gauges.has_l2 = k->set.l2[0];
	j->gauges.interval = -1;
	levels_look(k, &j->gauges);
	kedge__journal_opened(j, k->name, &l);
	kedge__gauges_write(&j->gauges, k->name);
	pthread_mutex_unlock(&j->lock);
}

void kedge__journal_close(kedge_t *k)
{
	struct kedge__line l;

	if (!speaks(k))
		return;
	event_begin(k, &l, "close");
	kedge__line_seconds(&l, "seconds", kedge__clock_seconds() - k->journal.since);
	kedge__line_uint(&l, "versions", k->journal.gauges.level[0].versions);
	k->journal.gauges.running = false;
	event_end(k, &l);
	kedge__journal_carry(k);
}

/* ------------------------------------------------------------------ a version */

/* The application's threads: the policy is theirs. */
static void interval_put(kedge_t *k, struct kedge__line *l)
{
	const struct kedge__policy *p = &k->advice.policy;

	k->journal.gauges.interval = p->asked ? kedge__policy_interval(p) : -1;
	k->journal.gauges.by = p->asked ? kedge__policy_by(p) : NULL;
	if (!p->asked)
		return;
	kedge__line_seconds(l, "interval_seconds", kedge__policy_interval(p));
	kedge__line_text(l, "interval_by", kedge__policy_by(p));
}

void kedge__journal_begin(const struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__line l;

	if (!speaks(k))
		return;
	event_begin(k, &l, "begin");
	kedge__line_uint(&l, "version", v->version);
	if (k->advice.policy.why[0])
		kedge__line_text(&l, "why", k->advice.policy.why);
	interval_put(k, &l);
	event_end(k, &l);
}

void kedge__journal_captured(const struct kedge__version *v)
{
	struct kedge__line l;

	if (!speaks(v->k))
		return;
	event_begin(v->k, &l, "captured");
	kedge__line_uint(&l, "version", v->version);
	kedge__line_seconds(&l, "blocked_seconds", v->blocked);
	event_end(v->k, &l);
}

static int step_number(const char *step)
{
	int i = 0;

	while (i < KEDGE__GAUGE_STEPS - 1 && strcmp(step, kedge__gauge_steps[i]) != 0)
		i++;
	return i;
}

void kedge__journal_failed(kedge_t *k, uint64_t version, const char *step, int rc, const struct kedge__error *err)
{
	struct kedge__line l;

	if (!speaks(k))
		return;
	event_begin(k, &l, "failed");
	kedge__line_uint(&l, "version", version);
	kedge__line_text(&l, "step", step);
	kedge__line_text(&l, "error", kedge_strerror(rc));
	kedge__line_text(&l, "reason", kedge__error_text(err));
	k->journal.gauges.failures[step_number(step)]++;
	event_end(k, &l);
}

void kedge__journal_sealed(struct kedge__version *v, const struct kedge__set *set)
{
	kedge_t *k = v->k;
	struct kedge__gauges *g = &k->journal.gauges;
	struct kedge__set_sizes sizes;
	struct kedge__line l;

	if (!speaks(k))
		return;
	sizes = kedge__set_sizes(set);
	event_begin(k, &l, "sealed");
	kedge__journal_sealed_put(v, set, sizes.raw, sizes.stored, &l);
	v->sealed_at = wall_seconds();
	g->level[0].versions++;
	v->sealed_number = g->level[0].versions;
	g->level[0].bytes += sizes.stored;
	g->level[0].version = v->version;
	g->level[0].sealed = v->sealed_at;
	g->raw = sizes.raw;
	g->waiting++;
	g->last_blocked = set->seconds;
	g->blocked += set->seconds;
	event_end(k, &l);
}

void kedge__journal_l2(const struct kedge__version *v, const struct kedge__journal_flush *flush)
{
	static const char *const forms[] = {
	    [KEDGE__L2_COPY] = "copy", [KEDGE__L2_DELTA] = "delta", [KEDGE__L2_SELF_CONTAINED] = "full"};
	kedge_t *k = v->k;
	struct kedge__gauges *g = &k->journal.gauges;
	struct kedge__line l;

	if (!speaks(k))
		return;
	event_begin(k, &l, "l2");
	kedge__line_uint(&l, "version", v->version);
	kedge__line_seconds(&l, "seconds", flush->seconds);
	kedge__line_uint(&l, "bytes", flush->bytes);
	kedge__line_text(&l, "form", forms[v->l2.form]);
	kedge__line_bool(&l, "self_contained", !flush->refers);
	if (v->l2_why[0])
		kedge__line_text(&l, "why", v->l2_why);
	g->level[1].versions++;
	g->level[1].bytes += flush->bytes;
	g->level[1].version = v->version;
	g->level[1].sealed = v->sealed_at;
	g->waiting = g->level[0].versions - v->sealed_number;
	event_end(k, &l);
	kedge__journal_carry(k);
}

/* ------------------------------------------------------------------ going back, and other ways */

void kedge__journal_restart(kedge_t *k, const struct kedge__journal_restart *restart)
{
	struct kedge__line l;

	if (!speaks(k))
		return;
	event_begin(k, &l, "restart");
	kedge__line_uint(&l, "version", restart->version);
	kedge__line_uint(&l, "level", (uint64_t)restart->level);
	kedge__line_seconds(&l, "seconds", restart->seconds);
	kedge__line_seconds(&l, "age_seconds", restart->age);
	kedge__line_bool(&l, "after_failure", restart->failure);
	k->journal.gauges.restarts++;
	event_end(k, &l);
}

void kedge__journal_fallback(kedge_t *k, const char *what, uint64_t version, const char *to, const char *reason)
{
	struct kedge__line l;

	if (!speaks(k))
		return;
	event_begin(k, &l, "fallback");
	kedge__line_text(&l, "what", what);
	if (version != KEDGE__NO_VERSION)
		kedge__line_uint(&l, "version", version);
	if (to)
		kedge__line_text(&l, "to", to);
	kedge__line_text(&l, "reason", reason);
	k->journal.gauges.fallbacks++;
	event_end(k, &l);
}

void kedge__journal_request(kedge_t *k, const char *kind, uint64_t version, const char *why)
{
	struct kedge__line l;

	if (!speaks(k))
		return;
	event_begin(k, &l, "request");
	kedge__line_text(&l, "kind", kind);
	kedge__line_uint(&l, "version", version);
	kedge__line_bool(&l, "asks", k->requests.asked);
	kedge__line_text(&l, "why", why);
	event_end(k, &l);
}

void kedge__journal_word(kedge_t *k, const char *event)
{
	struct kedge__line l;

	if (!speaks(k))
		return;
	event_begin(k, &l, event);
	event_end(k, &l);
}

void kedge__journal_interval(kedge_t *k)
{
	struct kedge__line l;

	if (!speaks(k))
		return;
	event_begin(k, &l, "interval");
	interval_put(k, &l);
	kedge__line_uint(&l, "l2_every", kedge__policy_l2_every(&k->advice.policy));
	kedge__line_text(&l, "why", k->advice.policy.text);
	event_end(k, &l);
}
