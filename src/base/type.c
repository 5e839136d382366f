/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *kedge_version_string(void)
{
	return TEXT(KEDGE_VERSION_MAJOR) "." TEXT(KEDGE_VERSION_MINOR) "." TEXT(KEDGE_VERSION_PATCH);
}

size_t kedge_type_size(enum kedge_type type)
{
	static const unsigned char sizes[KEDGE_TYPE_COUNT] = {
	    [KEDGE_BYTES] = 1, [KEDGE_I8] = 1,  [KEDGE_U8] = 1,  [KEDGE_I16] = 2, [KEDGE_U16] = 2,
	    [KEDGE_I32] = 4,   [KEDGE_U32] = 4, [KEDGE_I64] = 8, [KEDGE_U64] = 8, [KEDGE_F16] = 2,
	    [KEDGE_BF16] = 2,  [KEDGE_F32] = 4, [KEDGE_F64] = 8, [KEDGE_C64] = 8, [KEDGE_C128] = 16,
	};

	return (unsigned)type < KEDGE_TYPE_COUNT ? sizes[type] : 0;
}
