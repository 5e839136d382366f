/* A background checkpoint completes by itself. */
#define THREAD_LEVEL MPI_THREAD_MULTIPLE
#include "set.h"
