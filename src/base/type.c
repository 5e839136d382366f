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

static const char *const type_names[KEDGE_TYPE_COUNT] = {
    [KEDGE_BYTES] = "bytes", [KEDGE_I8] = "i8",   [KEDGE_U8] = "u8",   [KEDGE_I16] = "i16", [KEDGE_U16] = "u16",
    [KEDGE_I32] = "i32",     [KEDGE_U32] = "u32", [KEDGE_I64] = "i64", [KEDGE_U64] = "u64", [KEDGE_F16] = "f16",
    [KEDGE_BF16] = "bf16",   [KEDGE_F32] = "f32", [KEDGE_F64] = "f64", [KEDGE_C64] = "c64", [KEDGE_C128] = "c128",
};

const char *kedge__type_name(uint32_t type)
{
	return type < KEDGE_TYPE_COUNT ? type_names[type] : "?";
}

bool kedge__type_parse(const char *name, enum kedge_type *type)
{
	for (int i = 0; i < KEDGE_TYPE_COUNT; i++) {
		if (strcmp(name, type_names[i]) != 0)
			continue;
		*type = (enum kedge_type)i;
		return true;
	}
	return false;
}
