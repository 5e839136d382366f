/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of files where the page cache has them. Whoever touches a page that cannot be read dies of SIGBUS, so a page is
 * touched only if the kernel has just said that it is in memory, and only of files on file systems of this machine:
 * others may take pages back at any time.
 */
#include "base/base.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HUGE  ((uintptr_t)2 << 20) /* what one entry of a page table maps, where the page cache has it in one piece */
#define ASKED 512                  /* pages at once, at most */

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* The kernel tells only the owner of a file which of its pages are in memory; to others it says that all are. That of
 * tmpfs has single pages only, which take as long to map as to copy. */
bool kedge__file_map_suits(int fd)
{
	struct statfs fs;
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() && fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC);
}

const uint8_t *kedge__file_map(int fd, uint64_t from, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)from);

	return at == MAP_FAILED ? NULL : at;
}

void kedge__file_unmap(const uint8_t *at, size_t bytes)
{
	if (at)
		(void)munmap((void *)(uintptr_t)at, bytes);
}

/* All of the pages from AT on. */
static bool are_there(const uint8_t *at, size_t bytes, size_t page)
{
	unsigned char there[ASKED], all = 1;

	for (size_t n; bytes; at += n, bytes -= n) {
		n = KEDGE__MIN(bytes, ASKED * page);
		if (mincore((void *)(uintptr_t)at, n, there) != 0)
			return false;
		for (size_t i = 0; i < (n + page - 1) / page; i++)
			all &= there[i];
		if (!(all & 1))
			return false;
	}
	return true;
}

/* A piece of the cache may go on behind the end of a file that was cut, where nobody may touch it. */
static bool is_long(int fd, uint64_t end)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_size >= 0 && (uint64_t)st.st_size >= end;
}

/* The kernel looks for each page in the cache, unless it is mapped already. Touching the first one maps all that is in
 * one piece with it. */
bool kedge__file_map_is_there(int fd, uint64_t from, const uint8_t *at, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = (uintptr_t)at % page;

	if (!is_long(fd, from + bytes))
		return false;
	bytes += skip;
	at -= skip;
	for (size_t n; bytes; at += n, bytes -= n) {
		n = KEDGE__MIN(bytes, HUGE - (uintptr_t)at % HUGE);
		if (!are_there(at, 1, page))
			return false;
		(void)*(const volatile uint8_t *)at;
		if (!are_there(at, n, page))
			return false;
	}
	return true;
}
