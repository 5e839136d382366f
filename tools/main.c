/* main: the kedge command, a table of subcommands. */
#include "tool.h"
#include <fcntl.h>
#include <stdlib.h>

const struct kedge__tool kedge__tools[] = {
#define KEDGE__TOOL(name, summary) {#name, summary, kedge__tool_##name},
#include "tool_table.inc"
#undef KEDGE__TOOL
};
const size_t kedge__tools_count = KEDGE__COUNT(kedge__tools);

/*
 * A standard stream that was closed before we began would be the number of the next file we open: what we print would
 * go into a segment. Opened the wrong way round, the stream stays unusable, and a write to it fails as it should.
 */
static void hold_streams(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			exit(KEDGE__EXIT_IO);
}

int main(int argc, char **argv)
{
	hold_streams();
	if (argc >= 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
		printf("kedge %s\n", kedge_version_string());
		return kedge__tool_finish("kedge", KEDGE__EXIT_OK);
	}
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return kedge__tool_finish("kedge", kedge__tool_help(1, argv));
	return kedge__tool_dispatch("kedge", kedge__tools, kedge__tools_count, argc - 1, argv + 1);
}
