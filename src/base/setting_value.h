/* SPDX-License-Identifier: BSD-3-Clause */
/* One setting: its value from text and back. For settings*.c alone, but for the last one. */
#ifndef KEDGE_BASE_SETTING_VALUE_H
#define KEDGE_BASE_SETTING_VALUE_H

#include "base/base.h"

/* On failure the old value stays, and ERR says what is allowed, but not where the value came from. */
int kedge__setting_parse(const struct kedge__setting *setting, void *settings, const char *text,
			 struct kedge__error *err);

/* What TEXT stands for; in a place, signs of per cent are left for kedge__settings_places(). The caller frees *VALUE. */
int kedge__setting_value(const struct kedge__setting *s, enum kedge__setting_form form, const char *text, char **value,
			 struct kedge__error *err);

/* P with what %h, %r (RANK) and %j stand for; it need not be a place. *OUT: kedge__free(). */
int kedge__place_expand(const char *p, int rank, char **out, struct kedge__error *err);

#endif
