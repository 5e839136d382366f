/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge cat: files of a pack on standard output. */
#include "restore.h"

static int print(struct kedge__restore *r, int argc, char **argv, int first)
{
	int status;

	if (first == argc)
		return kedge__usage_error(&r->usage, "which pack?");
	if (first + 1 == argc)
		return kedge__usage_error(&r->usage, "which file? 'kedge ls %s' lists them", argv[first]);
	status = kedge__place_pack(&r->place, &r->usage, first + 1, argv, first);
	if (status)
		return status;
	r->dir = "-";
	r->to_stdout = true;
	kedge__wanted_init(&r->wanted, argv + first + 1, (size_t)(argc - first - 1));
	return kedge__restore_run(r);
}

int kedge__tool_cat(int argc, char **argv)
{
	struct kedge__restore r = KEDGE__RESTORE_INIT;
	const struct kedge__option options[] = {
	    KEDGE__OPTION_SET(&r.place.sets),
	    KEDGE__OPTION_QUIET(&r.place.quiet),
	};
	int first, status;

	r.usage = (struct kedge__usage){
	    .command = "kedge cat",
	    .operands = "PACK FILE|DIR|PATTERN...",
	    .about = "Writes files of a pack to standard output, one after the other, each when it was verified.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge cat run12.kpk work/notes.txt | less",
	};
	if (kedge__options_parse(&r.usage, argc, argv, &first, &status))
		status = print(&r, argc, argv, first);
	kedge__restore_done(&r);
	return status;
}
