/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The application may unmap, move or discard memory while we read it, and map other memory at its place. So it is read
 * by the kernel, which answers where we would crash, and counts only if it is still protected afterwards: only we set
 * that mark, once, and whatever changes a page's contents takes it away.
 */
#include "capture/cow_copy.h"
#include "capture/tracker_abi.h"

#include <errno.h>
#include <unistd.h>

bool kedge__cow_scatter(const struct iovec *to, size_t count, uintptr_t from, size_t bytes)
{
	struct iovec there = {(void *)from, bytes};

	return process_vm_readv(getpid(), to, count, &there, 1, 0) == (ssize_t)bytes;
}

bool kedge__cow_copy(void *to, uintptr_t from, size_t bytes)
{
	struct iovec here = {to, bytes};

	return kedge__cow_scatter(&here, 1, from, bytes);
}

uintptr_t kedge__cow_proof(int pagemap, uintptr_t begin, uintptr_t end)
{
	/* Not written, and in memory, in swap, or a mark where a page will be. */
	struct kedge__page_region found;
	struct kedge__pagemap_scan arg = {
	    .size = sizeof(arg),
	    .start = begin,
	    .end = end,
	    .vec = (uintptr_t)&found,
	    .vec_len = 1,
	    .category_inverted = KEDGE__PAGE_WRITTEN,
	    .category_mask = KEDGE__PAGE_WRITTEN,
	    .category_anyof_mask = KEDGE__PAGE_PRESENT | KEDGE__PAGE_SWAPPED,
	    .return_mask = KEDGE__PAGE_WRITTEN,
	};
	int n;

	do
		n = ioctl(pagemap, KEDGE__PAGEMAP_SCAN, &arg);
	while (n < 0 && errno == EINTR);
	return n == 1 && found.start == begin ? found.end : begin;
}
