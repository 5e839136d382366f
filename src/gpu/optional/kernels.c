/* SPDX-License-Identifier: BSD-3-Clause */
/* The compiled kernels of src/gpu/kernels.cu: machine code for some architectures, and PTX, which the driver compiles for
 * others. KEDGE_GPU_KERNELS is the path of the file, KEDGE_GPU_KERNELS_FOR what is in it. */
#include "gpu/gpu.h"

__asm__(".section .rodata\n"
	".balign 64\n"
	".local kedge__gpu_kernels_image\n"
	"kedge__gpu_kernels_image:\n"
	".incbin \"" KEDGE_GPU_KERNELS "\"\n"
	".previous\n");

extern const unsigned char kedge__gpu_kernels_image[];

const unsigned char *const kedge__gpu_kernels = kedge__gpu_kernels_image;
const char kedge__gpu_kernels_for[] = KEDGE_GPU_KERNELS_FOR;
