/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge-bench: the developers' benchmarks. They measure a part of Kedge beside its peer in the same run. Not installed.
 */
#include "bench.h"

static const struct kedge__tool benches[] = {
#define KEDGE__X(name, run, summary) {name, summary, run},
    KEDGE__BENCHES(KEDGE__X)
#undef KEDGE__X
};

static void print_help(void)
{
	puts("usage: kedge-bench NAME [OPTION...]\n\n"
	     "Measures a part of Kedge beside its peer or its limit, in the same run. docs/BENCHMARKS.md describes "
	     "each.\n\n"
	     "benchmarks:");
	for (size_t i = 0; i < KEDGE__COUNT(benches); i++)
		printf("  %-10s %s\n", benches[i].name, benches[i].summary);
	puts("\n'kedge-bench NAME --help' lists the options. 'kedge bench codec' measures codecs on your own files.");
}

int main(int argc, char **argv)
{
	kedge__tool_hold_streams();
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		print_help();
		return kedge__tool_finish("kedge-bench", KEDGE__EXIT_OK);
	}
	return kedge__tool_dispatch("kedge-bench", benches, KEDGE__COUNT(benches), argc - 1, argv + 1);
}
