/* Copying pages that the application may be about to write to. */
#ifndef KEDGE_CAPTURE_COW_COPY_H
#define KEDGE_CAPTURE_COW_COPY_H

#include "base/base.h"

/* BYTES and addresses are multiples of 8. */
void kedge__cow_copy(void *to, const void *from, size_t bytes);
bool kedge__cow_equal(const void *a, const void *b, size_t bytes);

#endif
