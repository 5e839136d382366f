/* SPDX-License-Identifier: BSD-3-Clause */
/* szip, by libaec: four bytes with the size of what was packed, then that, as HDF5 has it. */
#include "equal/equal.h"

#include <szlib.h>

#define HEAD 4

/* The values that HDF5 notes: options, pixels per block, bits per pixel, pixels per scanline. */
static bool parameters(const struct kedge__plain_filter *f, SZ_com_t *out)
{
	if (f->count < 4 || f->values[1] < 2 || f->values[1] > 32 || f->values[1] % 2 || !f->values[2] ||
	    f->values[2] > 64 || !f->values[3] || f->values[3] > 4096)
		return false;
	*out = (SZ_com_t){.options_mask = (int)f->values[0],
			  .bits_per_pixel = (int)f->values[2],
			  .pixels_per_block = (int)f->values[1],
			  .pixels_per_scanline = (int)f->values[3]};
	return true;
}

static bool szip_undo(const struct kedge__plain_filter *f, const uint8_t *in, size_t n, uint8_t *out, size_t room,
		      size_t *used)
{
	size_t bytes = n < HEAD ? 0 : kedge__get32(in), got = bytes;
	SZ_com_t p;

	if (!bytes || bytes > room || !parameters(f, &p))
		return false;
	if (SZ_BufftoBuffDecompress(out, &got, in + HEAD, n - HEAD, &p) != SZ_OK || got != bytes)
		return false;
	*used = bytes;
	return true;
}

static bool szip_apply(const struct kedge__plain_filter *f, enum kedge__effort effort, const uint8_t *in, size_t n,
		       uint8_t *out, size_t room, size_t *used)
{
	size_t got = room < HEAD ? 0 : room - HEAD;
	SZ_com_t p;

	(void)effort;
	if (n > UINT32_MAX || !got || !parameters(f, &p) || SZ_BufftoBuffCompress(out + HEAD, &got, in, n, &p) != SZ_OK)
		return false;
	kedge__put32(out, (uint32_t)n);
	*used = HEAD + got;
	return true;
}

const struct kedge__filter kedge__filter_szip = {4, "szip", "libaec", true, true, 0, szip_undo, szip_apply};
