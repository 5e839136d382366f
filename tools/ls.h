/* SPDX-License-Identifier: BSD-3-Clause */
/* ls: the jobs of a store. */
#ifndef KEDGE_TOOLS_LS_H
#define KEDGE_TOOLS_LS_H

#include "tool.h"

/* Print those of L1 and L2; the settings of P have been read. If there is only one, its versions say more: then P->only_name is its name,
 * and nothing is printed. */
int kedge__ls_names(struct kedge__place *p, const struct kedge__usage *u);
uint64_t kedge__ls_job_bytes(const struct kedge__catalog *cat); /* of every file of the job there */

#endif
