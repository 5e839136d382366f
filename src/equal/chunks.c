/* SPDX-License-Identifier: BSD-3-Clause */
/* What both directions need: bytes that are copied, and checksums of HDF5. */
#include "equal/equal.h"

#define PIECE ((size_t)1 << 20)

int kedge__contents_copy(const struct kedge__contents *from, uint64_t offset, uint64_t bytes, int fd, uint64_t to,
			 const char *name, struct kedge__error *err)
{
	uint8_t *buffer = bytes ? kedge__malloc((size_t)KEDGE__MIN((uint64_t)PIECE, bytes)) : NULL;
	int rc = bytes && !buffer ? kedge__error_nomem(err) : 0;

	while (!rc && bytes) {
		size_t n = (size_t)KEDGE__MIN((uint64_t)PIECE, bytes);

		rc = from->read(from->ctx, offset, buffer, n, err);
		if (!rc)
			rc = kedge__fs_pwrite(fd, buffer, n, to, name, err);
		offset += n;
		to += n;
		bytes -= n;
	}
	kedge__free(buffer);
	return rc;
}

/* ------------------------------------------------------------------ lookup3, by Bob Jenkins, of little-endian words */

static uint32_t rotate(uint32_t v, int by)
{
	return v << by | v >> (32 - by);
}

static void mix(uint32_t s[3])
{
	static const int by[6] = {4, 6, 8, 16, 19, 4};

	for (int i = 0; i < 6; i++) {
		uint32_t *a = &s[i % 3], *b = &s[(i + 1) % 3], *c = &s[(i + 2) % 3];

		*a -= *c;
		*a ^= rotate(*c, by[i]);
		*c += *b;
	}
}

static void finish(uint32_t s[3])
{
	static const int by[7] = {14, 11, 25, 16, 4, 14, 24};

	for (int i = 0; i < 7; i++) {
		uint32_t *to = &s[(i + 2) % 3], *from = &s[(i + 1) % 3];

		*to ^= *from;
		*to -= rotate(*from, by[i]);
	}
}

uint32_t kedge__lookup3(const uint8_t *at, size_t bytes)
{
	uint32_t s[3];
	uint8_t last[12] = {0};

	s[0] = s[1] = s[2] = 0xdeadbeef + (uint32_t)bytes;
	if (!bytes)
		return s[2];
	for (; bytes > 12; at += 12, bytes -= 12) {
		for (int i = 0; i < 3; i++)
			s[i] += kedge__get32(at + 4 * i);
		mix(s);
	}
	memcpy(last, at, bytes);
	for (int i = 0; i < 3; i++)
		s[i] += kedge__get32(last + 4 * i);
	finish(s);
	return s[2];
}
