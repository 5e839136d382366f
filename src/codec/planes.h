/* SPDX-License-Identifier: BSD-3-Clause */
/* planes: what codec planes makes of a strip; for planes.c, and for the kernel's tests, which compare with it. */
#ifndef KEDGE_CODEC_PLANES_H
#define KEDGE_CODEC_PLANES_H

#include "base/base.h"

#define KEDGE__PLANES_STRIP  ((size_t)16384)
#define KEDGE__PLANES_LEVELS 3 /* bitmaps that are packed themselves */

/* BYTES, a multiple of eight numbers of WIDTH and at most a strip, to OUT, which has room for as many. Returns how many they
 * became; BYTES: they do not shrink, and OUT has nothing. BASE: NULL, if STEPS need none. */
size_t kedge__planes_strip_encode(unsigned steps, unsigned width, const uint8_t *raw, const uint8_t *base, size_t bytes,
				  uint8_t *out);

#endif
