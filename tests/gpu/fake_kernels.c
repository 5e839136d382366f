/* SPDX-License-Identifier: BSD-3-Clause */
/* For builds without compiled kernels: the driver of the tests has its own, and does not look at these. */
#include "gpu/gpu.h"

static const unsigned char image[1];

const unsigned char *const kedge__gpu_kernels = image;
const char kedge__gpu_kernels_for[] = "emulated";
