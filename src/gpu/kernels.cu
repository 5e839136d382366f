/* SPDX-License-Identifier: BSD-3-Clause */
/* All kernels, as one module. tests/gpu compiles the same for the processor, where emulate.h has the words of CUDA. */
#ifdef __CUDACC__
/* Of which two blocks shall fit into a multiprocessor, with 128 registers a thread: the compiler would take more, and be slower. */
#define KEDGE_LARGE_KERNEL(name, type) \
	extern "C" __global__ void __launch_bounds__(256, 2) name(const __grid_constant__ type a)
/* So many THREADS a block, of which as many BLOCKS shall fit as their shared memory lets. */
#define KEDGE_KERNEL_BY(threads, blocks, name, type) \
	extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ type a)
#define KEDGE_KERNEL(name, type) KEDGE_KERNEL_BY(256, 1, name, type)
#endif

#include "gpu/kernels.h"

#include "gpu/pass.cu"
#include "gpu/gather.cu"
#include "gpu/finder.cu"
#include "gpu/deal.cu"
#include "gpu/novelty.cu"
#include "gpu/matches.cu"
#include "gpu/lz4.cu"
#include "gpu/deflate.cu"
#include "gpu/planes.cu"
#include "gpu/scatter.cu"
#include "gpu/pack.cu"
#include "gpu/touch.cu"
