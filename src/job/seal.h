/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal: from an image to a version that exists. Private to job.
 *
 * `sealing` belongs to the application's threads, except for the result that the writer leaves in it.
 */
#ifndef KEDGE_JOB_SEAL_H
#define KEDGE_JOB_SEAL_H

#include "job/version.h"

struct kedge__sealing { /* the version that is not sealed yet; at most one */
	struct kedge__version *pending;
	uint64_t version;
	int rc; /* how it went, once the writer is done */
	struct kedge__error err;
};

int kedge__checkpoint_take(kedge_t *k, uint64_t version, struct kedge__error *err);
void kedge__seal_write(struct kedge__version *v);   /* the local part; result in v->rc, which may be an earlier error */
void kedge__seal_publish(struct kedge__version *v); /* collective */
int kedge__seal_now(struct kedge__version *v, struct kedge__error *err); /* both, and the follow-ups; takes V */
void kedge__seal_submit(struct kedge__version *v);  /* the same by the writer; takes V */
void kedge__seal_finish(kedge_t *k);                /* wait for the pending one; collective */
/* What is asked for, with what storage was measured to take for each thread, and where the data is. */
struct kedge__codec_choice kedge__seal_codec(const struct kedge__version *v);

#endif
