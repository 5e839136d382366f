/* SPDX-License-Identifier: BSD-3-Clause */
/* libfpzip was not there when this was built. */
#include "codec/codec_table.h"

const struct kedge__codec kedge__codec_fpzip = {.id = KEDGE__CODEC_FPZIP, .name = "fpzip"};
