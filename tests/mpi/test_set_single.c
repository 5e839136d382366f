/* SPDX-License-Identifier: BSD-3-Clause */
/* No thread of the library may call MPI: versions complete in the application's own collective calls. */
#define THREAD_LEVEL MPI_THREAD_SINGLE
#include "set.h"
