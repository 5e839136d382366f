/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_pccr: the times of the PCCR model as JSON. */
#include "tool_pccr.h"

json_t *kedge__pccr_json(const struct kedge__pccr_times *t)
{
	json_t *o = kedge__json_object();

	kedge__json_real(o, "uncompressed", t->uncompressed);
	kedge__json_real(o, "serial", t->serial);
	kedge__json_real(o, "pipelined", t->pipelined);
	kedge__json_real(o, "saturation", t->saturation);
	kedge__json_real(o, "saturation_compressed", t->saturation_compressed);
	kedge__json_real(o, "saturation_pipelined", t->saturation_pipelined);
	kedge__json_real(o, "beneficial_serial", t->beneficial_serial);
	kedge__json_real(o, "beneficial_pipelined", t->beneficial_pipelined);
	return o;
}
