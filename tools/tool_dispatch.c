/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatch: from a name to its tool, and the last look at standard output. */
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

void kedge__tool_hold_streams(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			exit(KEDGE__EXIT_IO);
}

static const char *nearest_tool(const struct kedge__tool *tools, size_t n, const char *name)
{
	const char *words[32];
	size_t count = KEDGE__MIN(n, KEDGE__COUNT(words));

	for (size_t i = 0; i < count; i++)
		words[i] = tools[i].name;
	return kedge__nearest_word(name, words, count);
}

static int refuse(const char *prefix, const struct kedge__tool *tools, size_t n, const char *name)
{
	const char *nearest = name ? nearest_tool(tools, n, name) : NULL;

	if (!name)
		kedge__tool_say(prefix, "a subcommand is missing");
	else if (nearest)
		kedge__tool_say(prefix, "unknown subcommand '%s'; did you mean '%s'?", name, nearest);
	else
		kedge__tool_say(prefix, "unknown subcommand '%s'", name);
	fprintf(stderr, "Try '%s --help' for a list of subcommands.\n", prefix);
	return KEDGE__EXIT_USAGE;
}

int kedge__tool_finish(const char *prefix, int status)
{
	int failed = fflush(stdout) != 0, cause = errno;

	if (!failed && !ferror(stdout))
		return status;
	if (failed)
		kedge__tool_say(prefix, "cannot write to standard output: %s", strerror(cause));
	else
		kedge__tool_say(prefix, "cannot write to standard output");
	return KEDGE__EXIT_IO;
}

int kedge__tool_dispatch(const char *prefix, const struct kedge__tool *tools, size_t n, int argc, char **argv)
{
	for (size_t i = 0; argc > 0 && i < n; i++)
		if (strcmp(argv[0], tools[i].name) == 0)
			return kedge__tool_finish(prefix, tools[i].run(argc, argv));
	return refuse(prefix, tools, n, argc > 0 ? argv[0] : NULL);
}
