/* SPDX-License-Identifier: BSD-3-Clause */
/* The inner loops by ISA-L. */
#include "protect/protect.h"

#include <isa-l.h>

static bool all_ones(const uint8_t *rows, uint32_t k)
{
	for (uint32_t d = 0; d < k; d++)
		if (rows[d] != 1)
			return false;
	return true;
}

static void apply_xor(uint32_t k, size_t bytes, uint8_t *const *data, uint8_t *out)
{
	void *vectors[KEDGE__TEAM_MOST + 1];

	if (k == 1) {
		memcpy(out, data[0], bytes);
		return;
	}
	for (uint32_t d = 0; d < k; d++)
		vectors[d] = data[d];
	vectors[k] = out;
	(void)xor_gen((int)k + 1, (int)bytes, vectors);
}

void kedge__code_apply(uint32_t k, uint32_t count, const uint8_t *rows, uint8_t *tables, size_t bytes,
		       uint8_t *const *data, uint8_t *const *out)
{
	uint8_t *from[KEDGE__TEAM_MOST], *to[KEDGE__TEAM_MOST];

	if (count == 1 && all_ones(rows, k)) {
		apply_xor(k, bytes, data, out[0]);
		return;
	}
	memcpy(from, data, k * sizeof(*from));
	memcpy(to, out, count * sizeof(*to));
	ec_init_tables((int)k, (int)count, (unsigned char *)rows, tables);
	ec_encode_data((int)bytes, (int)k, (int)count, tables, from, to);
}

const char *kedge__code_engine(void)
{
	return "ISA-L";
}
