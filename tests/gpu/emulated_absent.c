/* SPDX-License-Identifier: BSD-3-Clause */
/* Without a compiler for C++ there is nothing to emulate. */
#include "emulated.h"

#include <stddef.h>

struct kedge__gpu *emulated_gpu_new(void)
{
	return NULL;
}
