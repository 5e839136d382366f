/* SPDX-License-Identifier: BSD-3-Clause */
/* bzip2: libbz2 as a peer of `kedge-bench rex`. */
#include "../rex.h"

#include <bzlib.h>
#include <limits.h>

bool kedge__bzip2_there(void)
{
	return true;
}

int kedge__bzip2_pack(const void *raw, size_t bytes, void *out, size_t *used)
{
	unsigned n = (unsigned)*used;
	int rc;

	if (bytes > UINT_MAX || *used > UINT_MAX)
		return -1;
	rc = BZ2_bzBuffToBuffCompress(out, &n, (char *)raw, (unsigned)bytes, 9, 0, 0);
	*used = n;
	return rc;
}

int kedge__bzip2_unpack(const void *in, size_t bytes, void *raw, size_t *used)
{
	unsigned n = (unsigned)*used;
	int rc;

	if (bytes > UINT_MAX || *used > UINT_MAX)
		return -1;
	rc = BZ2_bzBuffToBuffDecompress(raw, &n, (char *)in, (unsigned)bytes, 0, 0);
	*used = n;
	return rc;
}
