/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge help: the list of subcommands, or the help of one. */
#include "tool.h"

static void print_all(void)
{
	puts("usage: kedge SUBCOMMAND [OPTION]... [ARGUMENT]...\n\n"
	     "Kedge keeps versions of a program's state, stores only what changed, and restores them bit for bit.\n\n"
	     "subcommands:");
	for (size_t i = 0; i < kedge__tools_count; i++)
		printf("  %-14s %s\n", kedge__tools[i].name, kedge__tools[i].summary);
	puts("\nto try it:\n"
	     "  kedge save -n work FILE...        a first version, in the store ./kedge-store\n"
	     "  kedge save -n work FILE...        another one, later: only what changed is stored\n"
	     "  kedge log                         what there is\n"
	     "  kedge diff                        what changed last\n"
	     "  kedge restore -v newest~1 -o old  the version before, into the directory old");
	puts("\nSee 'kedge SUBCOMMAND --help' and kedge-SUBCOMMAND(1) for each, and kedge.conf(5) for the settings.\n\n"
	     "exit codes:");
#define KEDGE__X(name, code, text) printf("  %d  %s\n", code, text);
	KEDGE__EXITS(KEDGE__X)
#undef KEDGE__X
}

int kedge__tool_help(int argc, char **argv)
{
	char *ask[] = {NULL, "--help", NULL};
	const struct kedge__usage usage = {
	    "kedge help",      "[SUBCOMMAND]", "Lists the subcommands, or prints the help of one.", NULL, 0,
	    "kedge help save", false};
	int first, status;

	if (!kedge__options_parse(&usage, argc, argv, &first, &status))
		return status;
	if (first == argc) {
		print_all();
		return KEDGE__EXIT_OK;
	}
	if (argc - first > 1)
		return kedge__usage_error(&usage, "only one subcommand may be given");
	ask[0] = argv[first];
	return kedge__tool_dispatch("kedge", kedge__tools, kedge__tools_count, 2, ask);
}
