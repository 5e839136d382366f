/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU that is none: its memory is the process's, and kernels are compiled for the processor (emulate.h). */
#ifndef KEDGE_TESTS_GPU_EMULATED_H
#define KEDGE_TESTS_GPU_EMULATED_H

#ifdef __cplusplus
extern "C" {
#endif

struct kedge__gpu;
struct kedge__gpu *emulated_gpu_new(void);
/* 0, or -1 if there is no such kernel. */
int emulated_launch(const char *name, unsigned blocks, unsigned threads, const void *args);

#ifdef __cplusplus
}
#endif

#endif
