/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge checkpoint-now: a running job takes a version now, and goes on. */
#include "halt.h"

int kedge__tool_checkpoint_now(int argc, char **argv)
{
	struct kedge__halt h = {
	    .kind = KEDGE__REQUEST_CHECKPOINT,
	    .usage =
		{
		    .command = "kedge checkpoint-now",
		    .about =
			"Asks a running job for a version, from any node that sees a level of it. The job takes it "
			"the next\n"
			"time that it asks Kedge whether it is time, or when it takes one anyway, and goes on.",
		    .example = "kedge checkpoint-now -s /shared/store -n heat2d --wait 600",
		},
	};

	return kedge__halt(&h, argc, argv);
}
