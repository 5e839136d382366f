/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/field.h"

#define ZEROS_EVERY 61 /* numbers, of which one is looked at */
#define ZEROS_COST  4  /* bits, of a count that is not that of the number before */

static uint64_t number_at(const struct kedge__field *f, const void *numbers, size_t i)
{
	return f->width == 8   ? ((const uint64_t *)numbers)[i]
	       : f->width == 4 ? ((const uint32_t *)numbers)[i]
			       : ((const uint16_t *)numbers)[i];
}

/* A count that is that of the number before it takes next to nothing. */
bool kedge__field_zeros_pay(const struct kedge__field *f, const void *numbers)
{
	int64_t saved = 0;

	for (size_t i = 1; i < f->n; i += ZEROS_EVERY) {
		uint64_t v = number_at(f, numbers, i), before = number_at(f, numbers, i - 1);
		int z = v ? __builtin_ctzll(v) : (int)f->width * 8;
		int z_before = before ? __builtin_ctzll(before) : (int)f->width * 8;

		if (z > 1 && v != before)
			saved += z + 1;
		if (z != z_before)
			saved -= ZEROS_COST;
	}
	return saved > (int64_t)(f->n / ZEROS_EVERY);
}

bool kedge__field_reach_valid(enum kedge__field_kind kind, struct kedge__field_reach r)
{
	if (!r.step || kind >= KEDGE__FIELD_KINDS)
		return false;
	if (kind >= KEDGE__FIELD_PLANE && r.row <= r.step)
		return false;
	return kind < KEDGE__FIELD_SPACE || r.plane > r.row;
}
