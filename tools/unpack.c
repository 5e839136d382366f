/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge unpack: the files of a pack, as kedge restore brings them back from a store; what is damaged is left out. */
#include "restore.h"

static int unpack(struct kedge__restore *r, bool force, int argc, char **argv, int first)
{
	int status;

	if (first == argc)
		return kedge__usage_error(&r->usage, "which pack?");
	if (!r->dir || !*r->dir)
		return kedge__usage_error(&r->usage, "-o DIR is missing");
	if (strcmp(r->dir, "-") == 0)
		return kedge__usage_error(&r->usage, "'kedge cat' writes files to standard output");
	status = kedge__place_pack(&r->place, &r->usage, first + 1, argv, first);
	if (status)
		return status;
	r->salvage = true;
	r->outputs.keep = !force;
	kedge__wanted_init(&r->wanted, argv + first + 1, (size_t)(argc - first - 1));
	return kedge__restore_run(r);
}

int kedge__tool_unpack(int argc, char **argv)
{
	struct kedge__restore r = KEDGE__RESTORE_INIT;
	bool force = false;
	const struct kedge__option options[] = {
	    {"output", 'o', KEDGE__OPTION_TEXT, &r.dir, "DIR",
	     "the directory for the files; created if it does not exist"},
	    {"force", 'f', KEDGE__OPTION_FLAG, &force, NULL, "replace files that are there already"},
	    {"rate", 0, KEDGE__OPTION_SIZE, &r.rate, "BYTES",
	     "read at most this many bytes per second (default: no limit)"},
	    KEDGE__OPTION_SET(&r.place.sets),
	    KEDGE__OPTION_JSON(&r.place.json),
	    KEDGE__OPTION_QUIET(&r.place.quiet),
	};
	int first, status;

	r.usage = (struct kedge__usage){
	    .command = "kedge unpack",
	    .operands = "PACK [FILE|DIR|PATTERN]...",
	    .about = "Takes files out of a pack, with modes, owners (as root), times, links and holes: all of them, or "
		     "those\n"
		     "named, in directories that are named, or that fit a pattern as '*.h5'. Nothing is written "
		     "outside DIR.\n"
		     "Each file is verified before it gets its name. One that is damaged, that cannot be written, or "
		     "whose name\n"
		     "is there already, is named and left out; the others come, and the exit status says that some are "
		     "missing.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge unpack run12.kpk -o back\n"
		       "kedge unpack run12.kpk -o back '*.h5'",
	};
	if (kedge__options_parse(&r.usage, argc, argv, &first, &status))
		status = unpack(&r, force, argc, argv, first);
	kedge__restore_done(&r);
	return status;
}
