/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of src/gpu for the processor. */
#include "emulate.h"

#include "gpu/kernels.cu"
