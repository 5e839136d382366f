/* SPDX-License-Identifier: BSD-3-Clause */
/* save_job: the job that takes a version of files: of one rank, or of a rank for each segment, all of them in this process. */
#ifndef KEDGE_TOOLS_SAVE_JOB_H
#define KEDGE_TOOLS_SAVE_JOB_H

#include "tool_crew.h"

struct kedge__save_job {
	const char *name;
	struct kedge__crew crew;
	kedge_t **k; /* of each rank; NULL: it is not open */
};

/* SETTINGS are KEY=VALUE, the last of a key counts. */
int kedge__save_job_open(struct kedge__save_job *j, const char *name, const struct kedge__text_list *settings, int ranks,
			 struct kedge__error *err);
int kedge__save_job_discard(struct kedge__save_job *j, uint64_t from, struct kedge__error *err);
/* What is lent becomes VERSION, on all levels. PROGRESS gets the sums over ranks. *SEALED: it is on L1, as far as that is known. */
int kedge__save_job_take(struct kedge__save_job *j, uint64_t version, const char *note,
			 void (*progress)(void *user, const struct kedge_progress *p), void *user, bool *sealed, struct kedge__error *err);
int kedge__save_job_stats(struct kedge__save_job *j, struct kedge_stats *sum, struct kedge__error *err);
int kedge__save_job_close(struct kedge__save_job *j, struct kedge__error *err); /* takes one that is not open */

#endif
