/* SPDX-License-Identifier: BSD-3-Clause */
/* deflate, by the library that HDF5 uses, called as HDF5 calls it: so the same bytes come out, if it is the same
 * library. */
#include "equal/equal.h"

#include <zlib.h>

static bool deflate_undo(const struct kedge__plain_filter *f, const uint8_t *in, size_t n, uint8_t *out, size_t room,
			 size_t *used)
{
	z_stream z = {.next_in = (Bytef *)in, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)room};
	int rc;

	(void)f;
	if (n > UINT32_MAX || room > UINT32_MAX || inflateInit(&z) != Z_OK)
		return false;
	rc = inflate(&z, Z_FINISH);
	*used = room - z.avail_out;
	inflateEnd(&z);
	return rc == Z_STREAM_END;
}

static bool deflate_apply(const struct kedge__plain_filter *f, enum kedge__effort effort, const uint8_t *in, size_t n,
			  uint8_t *out, size_t room, size_t *used)
{
	z_stream z = {.next_in = (Bytef *)in, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)room};
	int level = f->count ? (int)f->values[0] : 6, rc;

	if (effort != KEDGE__EFFORT_AS_WAS)
		level = effort == KEDGE__EFFORT_MOST ? 9 : 0;
	if (level > 9 || n > UINT32_MAX || room > UINT32_MAX ||
	    deflateInit2(&z, level, Z_DEFLATED, 15, effort == KEDGE__EFFORT_MOST ? 9 : 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	rc = deflate(&z, Z_FINISH);
	*used = room - z.avail_out;
	deflateEnd(&z);
	return rc == Z_STREAM_END;
}

const struct kedge__filter kedge__filter_deflate = {1, "deflate", "zlib", true, true, 0, deflate_undo, deflate_apply};
