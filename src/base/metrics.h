/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics: numbers as text in Prometheus's format, version 0.0.4. The one place that writes it, whether it is served over
 * HTTP or put into a file. A family is begun, then come its samples.
 *
 *   kedge__metrics_family(&m, "kedge_stage_clients", KEDGE__METRIC_GAUGE, "Clients that are connected.");
 *   kedge__metrics_uint(&m, NULL, 4);
 */
#ifndef KEDGE_BASE_METRICS_H
#define KEDGE_BASE_METRICS_H

#include "base/base.h"

enum kedge__metric_type { KEDGE__METRIC_COUNTER, KEDGE__METRIC_GAUGE };

struct kedge__metric_label {
	const char *name, *value; /* the value may be anything: it is escaped, and what is not UTF-8 becomes U+FFFD */
};

struct kedge__metrics { /* zeroed: empty */
	KEDGE__ARRAY(char) text;
	bool failed; /* out of memory: kedge__metrics_end() says so */
	const char *name;
};

/* NAME must stay valid until the next one: ends in _total for counters, and in its unit (_bytes, _seconds) if it has one. */
void kedge__metrics_family(struct kedge__metrics *m, const char *name, enum kedge__metric_type type, const char *help);
/* A sample of the last family. LABELS ends with a name of NULL; NULL: there are none. */
void kedge__metrics_uint(struct kedge__metrics *m, const struct kedge__metric_label *labels, uint64_t value);
void kedge__metrics_real(struct kedge__metrics *m, const struct kedge__metric_label *labels, double value);
/* A family with one sample. */
void kedge__metrics_one(struct kedge__metrics *m, const char *name, enum kedge__metric_type type, const char *help, uint64_t value);
/* The text, ended by a zero byte that BYTES does not count: kedge__free(). M is empty in any case. */
int kedge__metrics_end(struct kedge__metrics *m, char **text, size_t *bytes, struct kedge__error *err);

#endif
