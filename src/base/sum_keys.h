/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sum_keys.h: the keys of the region sum (docs/digests.md), for processors and GPUs: constants, so that nobody has to make
 * them first.
 */
#ifndef KEDGE_BASE_SUM_KEYS_H
#define KEDGE_BASE_SUM_KEYS_H

#define KEDGE_SUM_STEP   0x9E3779B97F4A7C15ull
#define KEDGE_SUM_F1     0xBF58476D1CE4E5B9ull
#define KEDGE_SUM_F2     0x94D049BB133111EBull
#define KEDGE_SUM_KEY    0x27D4EB2F165667C5ull
#define KEDGE_SUM_WEIGHT 0x6B656467652E7375ull /* of pages */

#define KEDGE_SUM_PAGE  4096u /* bytes */
#define KEDGE_SUM_WORDS 512u  /* of a page */
#define KEDGE_SUM_SHIFT 16u   /* words: so much further on are the keys of the second sum */
#define KEDGE_SUM_COUNT (KEDGE_SUM_WORDS + KEDGE_SUM_SHIFT)

/* fmix(), for constants */
#define KEDGE_SUM_X1(v)  (((v) ^ (v) >> 30) * KEDGE_SUM_F1)
#define KEDGE_SUM_X2(v)  (((v) ^ (v) >> 27) * KEDGE_SUM_F2)
#define KEDGE_SUM_X3(v)  ((v) ^ (v) >> 31)
#define KEDGE_SUM_MIX(v) KEDGE_SUM_X3(KEDGE_SUM_X2(KEDGE_SUM_X1(v)))

#define KEDGE_SUM_1(j)  KEDGE_SUM_MIX(KEDGE_SUM_KEY + (j) * KEDGE_SUM_STEP)
#define KEDGE_SUM_8(j)                                                                                      \
	KEDGE_SUM_1(j), KEDGE_SUM_1(j + 1), KEDGE_SUM_1(j + 2), KEDGE_SUM_1(j + 3), KEDGE_SUM_1(j + 4), \
	    KEDGE_SUM_1(j + 5), KEDGE_SUM_1(j + 6), KEDGE_SUM_1(j + 7)
#define KEDGE_SUM_64(j)                                                                                           \
	KEDGE_SUM_8(j), KEDGE_SUM_8(j + 8), KEDGE_SUM_8(j + 16), KEDGE_SUM_8(j + 24), KEDGE_SUM_8(j + 32), \
	    KEDGE_SUM_8(j + 40), KEDGE_SUM_8(j + 48), KEDGE_SUM_8(j + 56)
/* KEDGE_SUM_COUNT of them, from the first word of a page on. */
#define KEDGE_SUM_KEYS                                                                                      \
	KEDGE_SUM_64(0ull), KEDGE_SUM_64(64ull), KEDGE_SUM_64(128ull), KEDGE_SUM_64(192ull),                \
	    KEDGE_SUM_64(256ull), KEDGE_SUM_64(320ull), KEDGE_SUM_64(384ull), KEDGE_SUM_64(448ull), KEDGE_SUM_8(512ull), \
	    KEDGE_SUM_8(520ull)

#endif
