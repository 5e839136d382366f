/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge bench: what a user decides by. The developers' benchmarks are another program, bench/main.c. */
#include "bench_codec.h"
#include "bench_gpu.h"
#include "bench_levels.h"
#include "bench_names.h"
#include "bench_pack.h"
#include "bench_process.h"
#include "bench_protect.h"
#include "bench_stage.h"

static const struct kedge__tool benches[] = {
    {"levels", "how fast the directories of L1 and L2 take checkpoints and give them back", kedge__bench_levels},
    {"codec", "ratio and speed of every codec on your own files", kedge__bench_codec},
    {"pack", "checkpoint files by each scheme of aggregate, beside gzip, zstd and h5repack", kedge__bench_pack},
    {"process", "captures and restarts of whole processes, beside memcpy, gcore, CRIU and cold starts",
     kedge__bench_process},
    {"gpu", "the kernels on this machine's GPU, beside copies", kedge__bench_gpu},
    {"protect", "how fast teams of ranks protect segments on L1, and rebuild them", kedge__bench_protect},
    {"stage", "a staging server and its clients, beside the network and the storage", kedge__bench_stage},
};

/* NAME is a benchmark of kedge-bench: say where it is. */
static bool is_developers(const char *name)
{
	static const char *const names[] = {
#define KEDGE__X(word, run, summary) word,
	    KEDGE__BENCHES(KEDGE__X)
#undef KEDGE__X
	};

	for (size_t i = 0; i < KEDGE__COUNT(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static int refuse_developers(const char *name)
{
	kedge__tool_say("kedge bench",
			"%s is a developers' benchmark: build the source tree and run build/plain/bin/kedge-bench %s",
			name, name);
	return KEDGE__EXIT_USAGE;
}

int kedge__tool_bench(int argc, char **argv)
{
	const struct kedge__usage usage = {
	    .command = "kedge bench",
	    .operands = "NAME [OPTION...]",
	    .about = "Measures what you decide by. NAME is\n\n"
		     "  levels   how fast the directories of L1 and L2 take checkpoints and give them back\n"
		     "  codec    ratio and speed of every codec on your own files\n"
		     "  pack     checkpoint files by each scheme of aggregate, beside gzip, zstd and h5repack\n"
		     "  process  captures and restarts of whole processes, beside memcpy, gcore, CRIU and cold starts\n"
		     "  gpu      the kernels on this machine's GPU, beside copies\n"
		     "  protect  how fast teams of ranks protect segments on L1, and rebuild them\n"
		     "  stage    a staging server and its clients, beside the network and the storage\n\n"
		     "Options: kedge bench NAME --help. The developers' benchmarks are a program of the source tree "
		     "that is\n"
		     "not installed: build the tree and run build/plain/bin/kedge-bench --help.",
	    .example =
		"kedge bench levels /local/scratch /shared/project\nkedge bench codec --type f64 density.raw:256x256",
	    .stop_early = true,
	};
	int first, status;

	if (argc > 1 && is_developers(argv[1]))
		return refuse_developers(argv[1]);
	if (argc > 1 && argv[1][0] != '-')
		return kedge__tool_dispatch("kedge bench", benches, KEDGE__COUNT(benches), argc - 1, argv + 1);
	if (!kedge__options_parse(&usage, argc, argv, &first, &status))
		return status;
	return kedge__usage_error(&usage, "name a benchmark: levels, codec, pack, process, gpu, protect or stage");
}
