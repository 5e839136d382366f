/* SPDX-License-Identifier: BSD-3-Clause */
/* libdeflate was not there when this was built. */
#include "codec/codec_table.h"

const struct kedge__codec kedge__codec_deflate = {.id = KEDGE__CODEC_DEFLATE, .name = "deflate", .general = true};
