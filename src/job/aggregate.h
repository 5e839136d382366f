/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate: files whose contents are understood, and how their literals are arranged. Private to job.
 *
 * It belongs to the thread that reduces, like the baseline.
 */
#ifndef KEDGE_JOB_AGGREGATE_H
#define KEDGE_JOB_AGGREGATE_H

#include "aggregate/aggregate.h"
#include "job/version.h"

struct kedge__job_aggregate {
	struct kedge__class_rules *rules; /* NULL: there are none */
	struct kedge__aggregate_memory memory;
};

int kedge__job_aggregate_init(kedge_t *k, struct kedge__error *err);
void kedge__job_aggregate_done(kedge_t *k);
/* What the newest stored version settled on. */
void kedge__job_aggregate_remember(kedge_t *k, const struct kedge__segment *top);

/* While the application waits: what the files of V are. A lack of memory only costs the arrangement. */
void kedge__version_look(struct kedge__version *v);
/* After the reduction, before the literals are read. */
void kedge__version_arrange(struct kedge__version *v);
void kedge__version_arranged_done(struct kedge__version *v);

#endif
