/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_pccr: what `kedge plan pccr` and `kedge-bench pipeline` print alike. */
#ifndef KEDGE_TOOLS_TOOL_PCCR_H
#define KEDGE_TOOLS_TOOL_PCCR_H

#include "simulate/simulate.h"
#include "tool.h"

json_t *kedge__pccr_json(const struct kedge__pccr_times *t); /* an object with all of them */

#endif
