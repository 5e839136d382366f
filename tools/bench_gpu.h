/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_gpu: kedge bench gpu. */
#ifndef KEDGE_TOOLS_BENCH_GPU_H
#define KEDGE_TOOLS_BENCH_GPU_H

int kedge__bench_gpu(int argc, char **argv);

#endif
