/* SPDX-License-Identifier: BSD-3-Clause */
/* bzip2_absent: what stands in for bzip2.c where libbz2 was not found. */
#include "../rex.h"

bool kedge__bzip2_there(void)
{
	return false;
}

int kedge__bzip2_pack(const void *raw, size_t bytes, void *out, size_t *used)
{
	(void)raw, (void)bytes, (void)out, (void)used;
	return -1;
}

int kedge__bzip2_unpack(const void *in, size_t bytes, void *raw, size_t *used)
{
	(void)in, (void)bytes, (void)raw, (void)used;
	return -1;
}
