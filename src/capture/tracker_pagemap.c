/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture/tracker.h"
#include "capture/tracker_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int kedge__pagemap_open(int *out, struct kedge__error *err)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot open /proc/self/pagemap");
	*out = fd;
	return 0;
}

int kedge__pagemap_read(int fd, uintptr_t begin, size_t count, uint64_t *entries, struct kedge__error *err)
{
	return kedge__fs_pread(fd, entries, count * sizeof(*entries), begin / kedge__page_size() * sizeof(*entries),
			       "/proc/self/pagemap", err);
}

/*
 * A private page that is there for this process alone has not been discarded: what would be read in its place (zeros,
 * or the file) is a page that others share. One that is shared since a fork cannot be told from it, and counts as lost.
 * So does a page of a file that looks swapped: it may be the mark that a userfaultfd, of whomever, leaves at the place
 * of a page that was discarded.
 */
bool kedge__pagemap_kept(uint64_t entry, enum kedge__backing backing)
{
	if (backing == KEDGE__BACKING_SHARED)
		return true;
	if (entry & KEDGE__PAGEMAP_SWAPPED)
		return backing == KEDGE__BACKING_ANONYMOUS;
	return (entry & KEDGE__PAGEMAP_PRESENT) && (entry & KEDGE__PAGEMAP_EXCLUSIVE) && !(entry & KEDGE__PAGEMAP_FILE);
}
