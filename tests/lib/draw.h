/* SPDX-License-Identifier: BSD-3-Clause */
/* draw: numbers and bytes that depend on a seed alone. The only generator of the tests. */
#ifndef KEDGE_TESTS_LIB_DRAW_H
#define KEDGE_TESTS_LIB_DRAW_H

#include <stddef.h>
#include <stdint.h>

uint64_t draw(uint64_t *state);

/* 0 .. N - 1; 0 if N is 0. */
uint64_t draw_below(uint64_t *state, uint64_t n);

/* BYTES bytes at DATA, the next of STATE. */
void draw_bytes(uint64_t *state, void *data, size_t bytes);

/* Bytes that no reducer or codec can shrink, the same for the same SEED; fewer of them are the first of more. */
void fill_random(void *data, size_t bytes, uint64_t seed);

#endif
