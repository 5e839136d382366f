/* kedge bench: measurements that anybody can repeat, each beside its peer in the same run. */
#include "bench.h"
#include "bench_capture.h"
#include "bench_codec.h"

int kedge__tool_bench(int argc, char **argv)
{
	static const struct kedge__tool benches[] = {
	    {"reduce", "the reducers, beside a bare hash pass and memcpy", kedge__bench_reduce},
	    {"restore", "restoring the last of many versions, beside the read of one full copy", kedge__bench_restore},
	    {"pipeline", "collecting, compressing and storing, in turn and at once, beside the model",
	     kedge__bench_pipeline},
	    {"capture", "page trackers and copy-on-write, beside memcpy", kedge__bench_capture},
	    {"veloc-like", "checkpoints of several processes on two levels, beside plain writes", kedge__bench_veloc},
	    {"rex", "page images: rex and tree, beside plain increments and compressors", kedge__bench_rex},
	    {"regions", "checkpoint and restart of many small regions, beside a plain write", kedge__bench_regions},
	    {"codec", "ratio and speed of every codec on your own files", kedge__bench_codec},
	};
	const struct kedge__usage usage = {
	    .command = "kedge bench",
	    .operands = "NAME [OPTION...]",
	    .about =
		"Measures this machine. NAME is reduce: the reducers, beside a bare hash pass and memcpy; capture:\n"
		"page trackers and copy-on-write; codec: every codec on your own files; pipeline: collecting, "
		"compressing\n"
		"and storing, in turn and at once; regions: many small regions; rex: page images. Options of each: "
		"kedge bench NAME --help.",
	    .example = "kedge bench reduce --size 1GiB --chunk 64 --repeat 5 --json",
	    .stop_early = true,
	};
	int first, status;

	if (argc > 1 && argv[1][0] != '-')
		return kedge__tool_dispatch("kedge bench", benches, KEDGE__COUNT(benches), argc - 1, argv + 1);
	if (!kedge__options_parse(&usage, argc, argv, &first, &status))
		return status;
	return kedge__usage_error(&usage, "what shall be measured?");
}
