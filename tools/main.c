/* SPDX-License-Identifier: BSD-3-Clause */
/* main: the kedge command, a table of subcommands. */
#include "tool.h"

const struct kedge__tool kedge__tools[] = {
#define KEDGE__TOOL(id, name, summary) {name, summary, kedge__tool_##id},
#include "tool_table.inc"
#undef KEDGE__TOOL
};
const size_t kedge__tools_count = KEDGE__COUNT(kedge__tools);

int main(int argc, char **argv)
{
	kedge__tool_hold_streams();
	if (argc >= 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
		printf("kedge %s\n", kedge_version_string());
		return kedge__tool_finish("kedge", KEDGE__EXIT_OK);
	}
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return kedge__tool_finish("kedge", kedge__tool_help(1, argv));
	return kedge__tool_dispatch("kedge", kedge__tools, kedge__tools_count, argc - 1, argv + 1);
}
