/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernel interfaces that the installed headers may not declare yet: asynchronous write protection and PAGEMAP_SCAN
 * (Linux 6.7), PROCMAP_QUERY (Linux 6.11). Layouts and numbers are those of the kernel's stable user interface.
 */
#ifndef KEDGE_CAPTURE_TRACKER_ABI_H
#define KEDGE_CAPTURE_TRACKER_ABI_H

#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define KEDGE__UFFD_WP_HUGETLBFS_SHMEM (UINT64_C(1) << 12)
#define KEDGE__UFFD_WP_UNPOPULATED     (UINT64_C(1) << 13)
#define KEDGE__UFFD_WP_ASYNC           (UINT64_C(1) << 15)
#define KEDGE__UFFD_USER_MODE_ONLY     1

/* Categories of a page. */
#define KEDGE__PAGE_WPALLOWED (UINT64_C(1) << 0)
#define KEDGE__PAGE_WRITTEN   (UINT64_C(1) << 1)
#define KEDGE__PAGE_FILE      (UINT64_C(1) << 2)
#define KEDGE__PAGE_PRESENT   (UINT64_C(1) << 3)
#define KEDGE__PAGE_SWAPPED   (UINT64_C(1) << 4)

struct kedge__page_region {
	uint64_t start, end; /* addresses */
	uint64_t categories;
};

struct kedge__pagemap_scan {
	uint64_t size, flags;
	uint64_t start, end, walk_end;
	uint64_t vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define KEDGE__PAGEMAP_SCAN       _IOWR('f', 16, struct kedge__pagemap_scan)
#define KEDGE__SCAN_WP_MATCHING   (UINT64_C(1) << 0)
#define KEDGE__SCAN_CHECK_WPASYNC (UINT64_C(1) << 1)

/* An entry of /proc/self/pagemap. */
#define KEDGE__PAGEMAP_SOFT_DIRTY (UINT64_C(1) << 55)
#define KEDGE__PAGEMAP_EXCLUSIVE  (UINT64_C(1) << 56)
#define KEDGE__PAGEMAP_FILE       (UINT64_C(1) << 61)
#define KEDGE__PAGEMAP_SWAPPED    (UINT64_C(1) << 62)
#define KEDGE__PAGEMAP_PRESENT    (UINT64_C(1) << 63)

struct kedge__procmap_query {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};

#define KEDGE__PROCMAP_QUERY _IOWR('f', 17, struct kedge__procmap_query)

#endif
