/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

#define LEAST_BYTES (UINT64_C(4) << 20) /* less is all latency */
#define WEIGHT      0.5                 /* of the newest */

void kedge__pace_wrote(struct kedge__pace *p, uint64_t bytes, double seconds, double began)
{
	if (p->began > 0 && began > p->began)
		p->apart = began - p->began;
	p->began = began;
	p->bytes = bytes;
	if (bytes < LEAST_BYTES || !(seconds > 0))
		return;
	p->l1 = p->l1 > 0 ? WEIGHT * (double)bytes / seconds + (1 - WEIGHT) * p->l1 : (double)bytes / seconds;
}

/* The throttle of L2 counts if it takes longer over a version than there is time until the next one comes for it. */
double kedge__pace_storage(const struct kedge__pace *p, double l2_rate, uint64_t l2_every)
{
	double l2 = l2_rate * (double)KEDGE__MAX(l2_every, UINT64_C(1));
	bool narrow = l2 > 0 && p->apart > 0 && (double)p->bytes > l2 * p->apart;

	if (!narrow)
		return p->l1;
	return p->l1 > 0 ? KEDGE__MIN(p->l1, l2) : l2;
}
