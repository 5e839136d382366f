/* SPDX-License-Identifier: BSD-3-Clause */
/* A background checkpoint completes by itself. */
#define THREAD_LEVEL MPI_THREAD_MULTIPLE
#include "set.h"
