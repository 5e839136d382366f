/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/gauges.h"

#include "base/metrics.h"

const char *const kedge__gauge_steps[KEDGE__GAUGE_STEPS] = {"capture", "seal", "l2"};

enum { NAME, STORE, EXTRA, LABELS };

struct sheet { /* the text in progress, with the labels that all samples have */
	struct kedge__metrics m;
	struct kedge__metric_label labels[LABELS + 1];
};

void kedge__gauges_done(struct kedge__gauges *g)
{
	kedge__free(g->path);
	kedge__free(g->store);
	g->path = g->store = NULL;
}

static void put_uint(struct sheet *s, const char *name, enum kedge__metric_type type, const char *help, uint64_t value)
{
	kedge__metrics_family(&s->m, name, type, help);
	kedge__metrics_uint(&s->m, s->labels, value);
}

static void put_real(struct sheet *s, const char *name, enum kedge__metric_type type, const char *help, double value)
{
	kedge__metrics_family(&s->m, name, type, help);
	kedge__metrics_real(&s->m, s->labels, value);
}

static void put_level(struct sheet *s, const struct kedge__gauges *g)
{
	static const struct {
		const char *version, *sealed, *versions, *bytes;
	} names[] = {
	    {"kedge_job_version", "kedge_job_sealed_timestamp_seconds", "kedge_job_versions_total",
	     "kedge_job_stored_bytes_total"},
	    {"kedge_job_l2_version", "kedge_job_l2_sealed_timestamp_seconds", "kedge_job_l2_versions_total",
	     "kedge_job_l2_bytes_total"},
	};

	for (int i = 0; i < 1 + g->has_l2; i++) {
		const struct kedge__gauge_level *l = &g->level[i];

		put_uint(s, names[i].versions, KEDGE__METRIC_COUNTER,
			 i ? "Versions that reached L2." : "Versions that were sealed on L1.", l->versions);
		put_uint(s, names[i].bytes, KEDGE__METRIC_COUNTER,
			 i ? "Bytes that rank 0 wrote to L2." : "Bytes of the sealed versions, of all ranks.",
			 l->bytes);
		if (!(l->sealed > 0))
			continue;
		put_uint(s, names[i].version, KEDGE__METRIC_GAUGE,
			 i ? "The newest version on L2." : "The newest sealed version.", l->version);
		put_real(s, names[i].sealed, KEDGE__METRIC_GAUGE,
			 i ? "When the newest version on L2 was sealed." : "When the newest version was sealed.",
			 l->sealed);
	}
	if (g->has_l2)
		put_uint(s, "kedge_job_l2_lag_versions", KEDGE__METRIC_GAUGE,
			 "Sealed versions that are newer than the newest on L2.", g->waiting);
}

static void put_events(struct sheet *s, const struct kedge__gauges *g)
{
	kedge__metrics_family(&s->m, "kedge_job_failures_total", KEDGE__METRIC_COUNTER,
			      "Versions that failed, by the step that did.");
	for (int i = 0; i < KEDGE__GAUGE_STEPS; i++) {
		s->labels[EXTRA] = (struct kedge__metric_label){"step", kedge__gauge_steps[i]};
		kedge__metrics_uint(&s->m, s->labels, g->failures[i]);
	}
	s->labels[EXTRA] = (struct kedge__metric_label){NULL, NULL};
	put_uint(s, "kedge_job_restarts_total", KEDGE__METRIC_COUNTER, "Restarts from a version.", g->restarts);
	put_uint(s, "kedge_job_fallbacks_total", KEDGE__METRIC_COUNTER,
		 "Times that something else was used than was wanted.", g->fallbacks);
	put_uint(s, "kedge_job_journal_lost_events_total", KEDGE__METRIC_COUNTER,
		 "Events that the journal does not have.", g->lost);
}

static void put_interval(struct sheet *s, const struct kedge__gauges *g)
{
	if (g->interval < 0)
		return;
	kedge__metrics_family(&s->m, "kedge_job_interval_seconds", KEDGE__METRIC_GAUGE,
			      "Computation between two checkpoints, and why it is that much.");
	s->labels[EXTRA] = (struct kedge__metric_label){"why", g->by};
	kedge__metrics_real(&s->m, s->labels, g->interval);
	s->labels[EXTRA] = (struct kedge__metric_label){NULL, NULL};
}

static int text_make(const struct kedge__gauges *g, const char *name, char **text, size_t *bytes,
		     struct kedge__error *err)
{
	struct sheet s = {.labels = {{"name", name}, {"store", g->store}}};

	put_uint(&s, "kedge_job_up", KEDGE__METRIC_GAUGE, "1 while the job is open, 0 once it was closed.", g->running);
	put_real(&s, "kedge_job_opened_timestamp_seconds", KEDGE__METRIC_GAUGE, "When the job was opened.", g->opened);
	put_level(&s, g);
	put_real(&s, "kedge_job_blocked_seconds_total", KEDGE__METRIC_COUNTER,
		 "Time that the application waited for its checkpoints.", g->blocked);
	put_real(&s, "kedge_job_last_blocked_seconds", KEDGE__METRIC_GAUGE, "The same of the last one.",
		 g->last_blocked);
	put_uint(&s, "kedge_job_state_bytes", KEDGE__METRIC_GAUGE,
		 "The state that the last version holds, of all ranks.", g->raw);
	put_events(&s, g);
	put_interval(&s, g);
	return kedge__metrics_end(&s.m, text, bytes, err);
}

void kedge__gauges_write(struct kedge__gauges *g, const char *name)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *text = NULL;
	size_t bytes;
	int rc;

	if (!g->path)
		return;
	rc = text_make(g, name, &text, &bytes, &err);
	if (!rc)
		rc = kedge__fs_replace(g->path, text, bytes, true, &err);
	if (rc && !g->said)
		kedge__log(KEDGE_LOG_WARNING, "%s: the file of metrics is not up to date: %s", name,
			   kedge__error_text(&err));
	g->said = rc != 0;
	kedge__free(text);
	kedge__error_done(&err);
}
