/* SPDX-License-Identifier: BSD-3-Clause */
/* change: what somebody who knows the format may do to a store, drawn from a seed. */
#ifndef TESTS_MUTATE_CHANGE_H
#define TESTS_MUTATE_CHANGE_H

#include "../lib/draw.h"
#include "../lib/reseal.h"

/* Change something of the store in DIR (STORE/NAME) and seal it again. In TEXT, in words, what. */
void change_store(const char *dir, uint64_t *state, char *text, size_t room);

#endif
