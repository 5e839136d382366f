/* SPDX-License-Identifier: BSD-3-Clause */
/* Without libaec: chunks that are szipped stay so. */
#include "equal/equal.h"

const struct kedge__filter kedge__filter_szip = {4, "szip", "libaec", false, true, 0, NULL, NULL};
