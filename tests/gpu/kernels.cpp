/* SPDX-License-Identifier: BSD-3-Clause */
#include "emulate.h"

#include "gpu/kernels.cu"

/* So that the linker takes this file. */
extern "C" void emulated_kernels()
{
}
