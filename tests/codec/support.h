/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of codecs share: buffers between pages that cannot be touched, and data of every kind. */
#ifndef KEDGE_TESTS_CODEC_SUPPORT_H
#define KEDGE_TESTS_CODEC_SUPPORT_H

#include "../lib/cases.h"
#include "../lib/draw.h"
#include "codec/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A buffer that ends where the page behind it cannot be touched. */
struct fence {
	uint8_t *map, *at;
	size_t map_bytes;
};

static inline struct fence fence_new(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t body = (bytes + page - 1) / page * page;
	struct fence f = {.map_bytes = body + page};

	f.map = mmap(NULL, f.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(f.map != MAP_FAILED);
	assert_int_equal(mprotect(f.map + body, page, PROT_NONE), 0);
	memset(f.map, 0xa5, body);
	f.at = f.map + body - bytes;
	return f;
}

static inline void fence_free(struct fence *f)
{
	for (const uint8_t *p = f->map; p < f->at; p++)
		assert_int_equal(*p, 0xa5);
	munmap(f->map, f->map_bytes);
}

static inline void fill_words(uint8_t *p, size_t n, uint64_t base, uint64_t mask, uint64_t *state)
{
	for (size_t i = 0; i + 8 <= n; i += 8)
		kedge__put64(p + i, base | (draw(state) & mask));
	memset(p + n / 8 * 8, 0x3c, n % 8);
}

/* A wave with a little noise, of numbers of WIDTH bytes. */
static inline void fill_waves(uint8_t *p, size_t n, size_t width, uint64_t *state)
{
	for (size_t i = 0; i < n / width; i++) {
		double x = (double)(i % 50), y = (double)(i / 50);
		double v = 3 + x * x * 1e-3 - y * x * 1e-4 + (double)(draw(state) % 64) * 1e-9;
		float f = (float)v;

		memcpy(p + i * width, width == 8 ? (void *)&v : (void *)&f, width);
	}
	memset(p + n / width * width, 0x3c, n % width);
}

enum pattern {
	RANDOM,
	CONSTANT,
	DENORMALS,
	DENORMALS32,
	NANS,
	NANS32,
	NEGATIVE_ZEROS,
	SIGNS,
	EXTREMES,
	SMOOTH,
	WAVES64,
	WAVES32,
	GRID,
	PATTERNS
};

static inline void fill_pattern(enum pattern which, uint8_t *p, size_t n)
{
	static const uint64_t extremes[] = {0,
					    UINT64_MAX,
					    INT64_MAX,
					    UINT64_C(1) << 63,
					    UINT64_C(0x7ff0000000000000),
					    UINT64_C(0xfff0000000000000),
					    1,
					    UINT64_C(0x8000000080000000)};
	uint64_t state = 7;

	switch (which) {
	case RANDOM:
		draw_bytes(&state, p, n);
		break;
	case CONSTANT:
		memset(p, 0x41, n);
		break;
	case DENORMALS:
		fill_words(p, n, 0, 0xfffff, &state);
		break;
	case DENORMALS32:
		fill_words(p, n, 0, UINT64_C(0x8007ffff8007ffff), &state);
		break;
	case NANS:
		fill_words(p, n, UINT64_C(0x7ff8000000000000), UINT64_C(0x8000000000ffffff), &state);
		break;
	case NANS32:
		fill_words(p, n, UINT64_C(0x7f8000017f800001), UINT64_C(0x803fffff803fffff), &state);
		break;
	case NEGATIVE_ZEROS:
		fill_words(p, n, UINT64_C(0x8000000000000000), 0, &state);
		break;
	case SIGNS:
		fill_words(p, n, UINT64_C(0x3ff000003f800000), UINT64_C(0x8000000080000000), &state);
		break;
	case EXTREMES:
		for (size_t i = 0; i + 8 <= n; i += 8)
			kedge__put64(p + i, extremes[draw(&state) % KEDGE__COUNT(extremes)]);
		memset(p + n / 8 * 8, 0x80, n % 8);
		break;
	case WAVES64:
		fill_waves(p, n, 8, &state);
		break;
	case WAVES32:
		fill_waves(p, n, 4, &state);
		break;
	case GRID: /* numbers that end in many zeros, not always as many */
		for (size_t i = 0; i + 8 <= n; i += 8)
			kedge__put64(p + i, UINT64_C(0x3fd0000000000000) + (i << 40) +
						(draw(&state) % 99999 << (14 + draw(&state) % 8)));
		memset(p + n / 8 * 8, 0, n % 8);
		break;
	default:
		for (size_t i = 0; i < n; i++)
			p[i] = (uint8_t)(i / 37 + (i % 8 == 7 ? 0x40 : 0));
	}
}

/* Every codec and every kind of chain. What is not in this build is left out by the tests. */
static const char *const every_choice[] = {"none",
					   "lz4",
					   "lz4:-8",
					   "zstd",
					   "zstd:1",
					   "zstd:-3",
					   "deflate",
					   "deflate:1",
					   "fpzip",
					   "fpc64",
					   "fpc64:4",
					   "fpc32",
					   "fpc32:7",
					   "delta+planes",
					   "delta+planes:2",
					   "fpc64+zstd:1",
					   "fpc32+lz4",
					   "fpc64+deflate",
					   "shuffle",
					   "shuffle+lz4",
					   "shuffle+zstd:3",
					   "shuffle:8+zstd:1",
					   "shuffle+deflate",
					   "bitshuffle",
					   "bitshuffle+lz4",
					   "bitshuffle+zstd:1",
					   "bitshuffle:2+lz4",
					   "delta",
					   "delta+lz4",
					   "delta+shuffle+zstd",
					   "delta+bitshuffle+lz4",
					   "xor",
					   "xor+shuffle+zstd:1",
					   "minus+shuffle+lz4",
					   "minus+delta+bitshuffle+zstd",
					   "field",
					   "echo",
					   "records",
					   "records:24+lz4",
					   "records:100+zstd:1",
					   "xor+records:88+zstd:1",
					   "auto"};

/* False: a codec of it is not in this build. */
static inline bool choice_of(const char *text, struct kedge__codec_choice *choice)
{
	if ((strstr(text, "deflate") && !kedge__codec_by_id(KEDGE__CODEC_DEFLATE)) ||
	    (strstr(text, "fpzip") && !kedge__codec_by_id(KEDGE__CODEC_FPZIP)))
		return false;
	assert_int_equal(kedge__codec_choice_parse(text, choice, NULL), 0);
	return true;
}

#endif
