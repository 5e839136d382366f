/* SPDX-License-Identifier: BSD-3-Clause */
/* The inner loops without ISA-L: the same results, more slowly. */
#include "protect/protect.h"

/* The products of a coefficient with all low, and with all high halves of a byte. */
static void table_make(uint8_t by, uint8_t *low, uint8_t *high)
{
	uint8_t power[8];
	unsigned x = by;

	for (int bit = 0; bit < 8; bit++) {
		power[bit] = (uint8_t)x;
		x = x << 1 ^ (x & 0x80 ? 0x11d : 0);
	}
	for (unsigned v = 0; v < 16; v++) {
		low[v] = high[v] = 0;
		for (int bit = 0; bit < 4; bit++) {
			low[v] ^= v >> bit & 1 ? power[bit] : 0;
			high[v] ^= v >> bit & 1 ? power[bit + 4] : 0;
		}
	}
}

static void add_plain(uint8_t *restrict to, const uint8_t *restrict from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] ^= from[i];
}

static void add_times(uint8_t *restrict to, const uint8_t *restrict from, size_t bytes, const uint8_t *low,
		      const uint8_t *high)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] ^= low[from[i] & 15] ^ high[from[i] >> 4];
}

void kedge__code_apply(uint32_t k, uint32_t count, const uint8_t *rows, uint8_t *tables, size_t bytes,
		       uint8_t *const *data, uint8_t *const *out)
{
	for (uint32_t i = 0; i < count; i++) {
		memset(out[i], 0, bytes);
		for (uint32_t d = 0; d < k; d++) {
			uint8_t by = rows[i * k + d];

			table_make(by, tables, tables + 16);
			if (by == 1)
				add_plain(out[i], data[d], bytes);
			else
				add_times(out[i], data[d], bytes, tables, tables + 16);
		}
	}
}

const char *kedge__code_engine(void)
{
	return "plain C";
}
