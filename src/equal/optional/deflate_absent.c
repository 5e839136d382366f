/* SPDX-License-Identifier: BSD-3-Clause */
/* Without zlib: chunks that are deflated stay so. */
#include "equal/equal.h"

const struct kedge__filter kedge__filter_deflate = {1, "deflate", "zlib", false, true, 0, NULL, NULL};
