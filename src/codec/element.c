/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/codec_table.h"

unsigned kedge__element_width(enum kedge_type type)
{
	switch (type) {
	case KEDGE_C64:
		return 4;
	case KEDGE_C128:
		return 8;
	default:
		return (unsigned)KEDGE__MAX(kedge_type_size(type), (size_t)1);
	}
}

unsigned kedge__element_step(enum kedge_type type)
{
	return type == KEDGE_C64 || type == KEDGE_C128 ? 2 : 1;
}

bool kedge__element_is_float(enum kedge_type type)
{
	return type >= KEDGE_F16 && type <= KEDGE_C128;
}

unsigned kedge__width_log2(unsigned width)
{
	return width == 8 ? 3 : width == 4 ? 2 : width == 2 ? 1 : 0;
}
