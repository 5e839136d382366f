/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restore_holes: a version may have zeros of a hole as data: reducer full stores all bytes, and others store what is
 * new without a look at every one of them. What a file with holes has of such pages gives its room back.
 */
#include "restore.h"
#include <unistd.h>

#define PAGE_BYTES UINT64_C(4096) /* no hole is smaller, on common file systems */

static void stretch_dig(const struct kedge__output *out, uint64_t from, uint64_t to)
{
	uint64_t hole = from, n;

	for (uint64_t at = from; at < to; at += n) {
		n = KEDGE__MIN(PAGE_BYTES - at % PAGE_BYTES, to - at);
		if (kedge__memory_is_zero((const uint8_t *)out->data + at, n))
			continue;
		kedge__fs_punch(out->fd, hole, at - hole);
		hole = at + n;
	}
	kedge__fs_punch(out->fd, hole, to - hole);
}

/* Only where there is data: on a tmpfs, to look at a hole fills it. */
void kedge__output_dig(const struct kedge__output *out)
{
	off_t from, to = 0;

	while ((from = lseek(out->fd, to, SEEK_DATA)) >= 0 && (to = lseek(out->fd, from, SEEK_HOLE)) > from)
		stretch_dig(out, (uint64_t)from, KEDGE__MIN((uint64_t)to, out->bytes));
}
