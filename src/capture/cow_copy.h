/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the application's memory, which may disappear at any moment. */
#ifndef KEDGE_CAPTURE_COW_COPY_H
#define KEDGE_CAPTURE_COW_COPY_H

#include "base/base.h"
#include <sys/uio.h>

/* False: not all of it could be read. */
bool kedge__cow_copy(void *to, uintptr_t from, size_t bytes);
bool kedge__cow_scatter(const struct iovec *to, size_t count, uintptr_t from, size_t bytes);
/* The end of the pages from BEGIN on, up to END, that are still protected; nothing is known about later ones. Bytes that were
 * copied before this call are those that were there when the protection was set. PAGEMAP: kedge__pagemap_open(). */
uintptr_t kedge__cow_proof(int pagemap, uintptr_t begin, uintptr_t end);

#endif
