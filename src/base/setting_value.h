/* SPDX-License-Identifier: BSD-3-Clause */
/* One setting: its value from text and back. For settings.c alone. */
#ifndef KEDGE_BASE_SETTING_VALUE_H
#define KEDGE_BASE_SETTING_VALUE_H

#include "base/base.h"

/* On failure the old value stays, and ERR says what is allowed, but not where the value came from. */
int kedge__setting_parse(const struct kedge__setting *setting, void *settings, const char *text,
			 struct kedge__error *err);

#endif
