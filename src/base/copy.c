/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies to memory that nobody reads soon: past the cache, so that lines are not fetched only to be written over. */
#include "base/base.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define LINE 64

static void copy_lines(uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += LINE) {
		__m128i a = _mm_loadu_si128((const __m128i *)(from + i));
		__m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
		__m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));

		_mm_stream_si128((__m128i *)(to + i), a);
		_mm_stream_si128((__m128i *)(to + i + 16), b);
		_mm_stream_si128((__m128i *)(to + i + 32), c);
		_mm_stream_si128((__m128i *)(to + i + 48), d);
	}
	/* Such stores are ordered with later ones, those that hand the memory over, by this alone. */
	_mm_sfence();
}

void kedge__copy_past_cache(void *to, const void *from, size_t bytes)
{
	uint8_t *out = to;
	const uint8_t *in = from;
	size_t head = (size_t)(-(uintptr_t)out % LINE), lines;

	if (bytes < head + LINE) {
		memcpy(out, in, bytes);
		return;
	}
	lines = (bytes - head) / LINE * LINE;
	memcpy(out, in, head);
	copy_lines(out + head, in + head, lines);
	memcpy(out + head + lines, in + head + lines, bytes - head - lines);
}

void kedge__copy_fence(void)
{
	_mm_sfence();
}
#else
void kedge__copy_past_cache(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

void kedge__copy_fence(void)
{
}
#endif
