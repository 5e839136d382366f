/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pace: how fast storage is, measured by the versions so far. Private to job.
 *
 * It belongs to the thread that writes segments.
 */
#ifndef KEDGE_JOB_PACE_H
#define KEDGE_JOB_PACE_H

#include "base/base.h"

struct kedge__pace {
	double l1;      /* bytes a second; 0: not measured */
	uint64_t bytes; /* of the last version */
	double began;   /* when it was begun, */
	double apart;   /* and how long after the one before it; 0: not known */
};

void kedge__pace_wrote(struct kedge__pace *p, uint64_t bytes, double seconds, double began);
/* Bytes a second that the narrowest place takes; 0: nothing was measured. L2_RATE 0: L2 has no throttle, or there is none. */
double kedge__pace_storage(const struct kedge__pace *p, double l2_rate, uint64_t l2_every);

#endif
