/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge halt: a running job saves its state and ends. */
#include "halt.h"

int kedge__tool_halt(int argc, char **argv)
{
	struct kedge__halt h = {
	    .kind = KEDGE__REQUEST_EXIT,
	    .usage =
		{
		    .command = "kedge halt",
		    .about =
			"Asks a running job to save its state and to end, from any node that sees a level of it. The "
			"next\n"
			"version that it takes answers the request; kedge_should_exit() says yes then. Under 'kedge "
			"run', a\n"
			"program that does not ask is ended when it is saved.",
		    .example = "kedge halt -s /shared/store -n heat2d --wait 600",
		},
	};

	return kedge__halt(&h, argc, argv);
}
