/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gauges: numbers about this job in a file for Prometheus (setting `metrics`; kedge-journal(5) lists them). Private to job.
 *
 * Kept by rank 0, under the lock of the journal, from the same events.
 */
#ifndef KEDGE_JOB_GAUGES_H
#define KEDGE_JOB_GAUGES_H

#include "job/job.h"

enum kedge__gauge_step { KEDGE__GAUGE_CAPTURE, KEDGE__GAUGE_SEAL, KEDGE__GAUGE_L2, KEDGE__GAUGE_STEPS };
extern const char *const kedge__gauge_steps[KEDGE__GAUGE_STEPS]; /* as the journal calls them */

struct kedge__gauge_level {
	uint64_t versions, bytes; /* that reached it in this process */
	uint64_t version;         /* the newest */
	double sealed;            /* when that was sealed, since 1970; 0: there is none */
};

struct kedge__gauges {
	char *path; /* NULL: nobody wants them */
	char *store;
	bool said;  /* that the file cannot be written */
	bool running;
	bool has_l2;
	double opened;
	struct kedge__gauge_level level[2];
	uint64_t raw; /* of the last version, as is `last_blocked` */
	uint64_t waiting; /* sealed versions since the newest on L2 */
	double blocked, last_blocked;
	uint64_t failures[KEDGE__GAUGE_STEPS], restarts, fallbacks, lost;
	double interval;     /* negative: the application decides */
	const char *by;      /* why it is that */
};

void kedge__gauges_done(struct kedge__gauges *g);
void kedge__gauges_write(struct kedge__gauges *g, const char *name); /* what fails is logged once */

#endif
