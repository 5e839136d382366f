/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_names: the developers' benchmarks. `kedge-bench` runs them; `kedge bench` only knows that they exist. */
#ifndef KEDGE_TOOLS_BENCH_NAMES_H
#define KEDGE_TOOLS_BENCH_NAMES_H

/* Name, function, what it measures. */
#define KEDGE__BENCHES(X)                                                                                   \
	X("aims", kedge__bench_aims, "what Kedge aims at, beside what the benchmarks below measure") \
	X("limits", kedge__bench_limits, "checkpoints and a restart with default settings, beside a plain write and read") \
	X("reduce", kedge__bench_reduce, "the reducers, beside a bare hash pass and memcpy")                \
	X("restore", kedge__bench_restore, "restoring the last of many versions, beside the read of one full copy") \
	X("pipeline", kedge__bench_pipeline, "collecting, compressing and storing, in turn and at once, beside the model") \
	X("capture", kedge__bench_capture, "page trackers and copy-on-write, beside memcpy")                \
	X("ranks", kedge__bench_ranks, "checkpoints of many ranks in the background, beside a plain write") \
	X("veloc-like", kedge__bench_veloc, "a program that uses the interface of VELOC, beside plain writes") \
	X("rex", kedge__bench_rex, "page images: rex and tree, beside plain increments and compressors")    \
	X("regions", kedge__bench_regions, "checkpoint and restart of many small regions, beside a plain write") \
	X("graphlets", kedge__bench_graphlets, "nothing, but makes what `kedge bench gpu --series` measures: counts of graphlets") \
	X("versions", kedge__bench_versions, "what each stored version adds to a checkpoint, open, ls, restart and gc")

#endif
