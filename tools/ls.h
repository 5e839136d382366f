/* SPDX-License-Identifier: BSD-3-Clause */
/* ls: the jobs of a store. */
#ifndef KEDGE_TOOLS_LS_H
#define KEDGE_TOOLS_LS_H

#include "tool.h"

struct kedge__ls_names {
	const struct kedge__usage *usage;
	const char *store;
	bool json, quiet;
	size_t count; /* of names, afterwards */
};

/* Print them. If there is only one, its versions say more: then *ONLY is its name, kedge__free(), and nothing is printed. */
int kedge__ls_names(struct kedge__ls_names *l, char **only);
uint64_t kedge__ls_job_bytes(const struct kedge__catalog *cat); /* of every file of the job there */

#endif
