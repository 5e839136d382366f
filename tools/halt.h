/* SPDX-License-Identifier: BSD-3-Clause */
/* halt: what `kedge halt` and `kedge checkpoint-now` share: a request to a running job, by hand. */
#ifndef KEDGE_TOOLS_HALT_H
#define KEDGE_TOOLS_HALT_H

#include "tool.h"

struct kedge__halt {
	struct kedge__usage usage;
	struct kedge__place place;
	enum kedge__request_kind kind;
	const char *reason; /* NULL: who asks */
	double wait;        /* seconds; 0: not at all */
};

/* Parse, ask, wait. */
int kedge__halt(struct kedge__halt *h, int argc, char **argv);

#endif
