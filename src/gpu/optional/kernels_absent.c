/* SPDX-License-Identifier: BSD-3-Clause */
/* Where there is no nvcc, or it is not wanted. */
#include "gpu/gpu.h"

const unsigned char *const kedge__gpu_kernels = NULL;
const char kedge__gpu_kernels_for[] = "";
