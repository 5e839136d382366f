/* SPDX-License-Identifier: BSD-3-Clause */
/* checksum_internal.h: what machines with AVX-512 do at once. Only checksum*.c, and tests, include this. */
#ifndef KEDGE_BASE_CHECKSUM_INTERNAL_H
#define KEDGE_BASE_CHECKSUM_INTERNAL_H

#include "base/base.h"

#define CHECKSUM_PAGE  4096
#define CHECKSUM_LINE  64
#define CHECKSUM_WORDS 8 /* where a page may begin in a region for all to be done at once */

struct checksum_kernel {
	uint64_t (*checksum)(const void *data, size_t bytes);
	/* kedge__copy_checked() of CHECKSUM_PAGE bytes; WORD: its POS, in words, a multiple of CHECKSUM_WORDS. AHEAD is not NULL. */
	uint64_t (*copy_page)(uint8_t *to, const uint8_t *from, const uint8_t *ahead, uint64_t word,
			      struct kedge__sum *sum);
	/* kedge__copy_hashed() of as many. */
	uint64_t (*hash_page)(uint8_t *to, const uint8_t *from);
	/* kedge__copy_summed() of as many. */
	void (*sum_page)(uint8_t *to, const uint8_t *from, const uint8_t *ahead, uint64_t word, struct kedge__sum *sum);
};

const struct checksum_kernel *kedge__checksum_avx512(void); /* NULL: not for this build or machine */

#endif
