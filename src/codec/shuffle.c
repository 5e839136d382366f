/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/shuffle.h"

/* Elements whose bits are taken apart at a time: planes of blocks with a power of two of bytes compete for the same
 * lines of the cache, so that several should be filled before the next plane. */
#define STRIP 1024

static void split(const uint8_t *in, size_t n, unsigned width, uint8_t *out, size_t pitch)
{
	for (unsigned j = 0; j < width; j++)
		for (size_t i = 0; i < n; i++)
			out[j * pitch + i] = in[i * width + j];
}

static void join(const uint8_t *in, size_t pitch, size_t n, unsigned width, uint8_t *out)
{
	for (unsigned j = 0; j < width; j++)
		for (size_t i = 0; i < n; i++)
			out[i * width + j] = in[j * pitch + i];
}

/* Bit b of byte i becomes bit i of byte b, by exchanging ever larger squares across the diagonal. */
static uint64_t transposed(uint64_t v)
{
	uint64_t t = (v ^ v >> 7) & UINT64_C(0x00aa00aa00aa00aa);

	v ^= t ^ t << 7;
	t = (v ^ v >> 14) & UINT64_C(0x0000cccc0000cccc);
	v ^= t ^ t << 14;
	t = (v ^ v >> 28) & UINT64_C(0x00000000f0f0f0f0);
	return v ^ t ^ t << 28;
}

static void bits_split(const uint8_t *in, size_t n, uint8_t *out, size_t pitch)
{
	for (size_t i = 0; i < n / 8; i++) {
		uint64_t v = transposed(kedge__get64(in + i * 8));

		for (unsigned b = 0; b < 8; b++)
			out[b * pitch + i] = (uint8_t)(v >> b * 8);
	}
}

static void bits_join(const uint8_t *in, size_t pitch, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n / 8; i++) {
		uint64_t v = 0;

		for (unsigned b = 0; b < 8; b++)
			v |= (uint64_t)in[b * pitch + i] << b * 8;
		kedge__put64(out + i * 8, transposed(v));
	}
}

const struct kedge__shuffle_kernel kedge__shuffle_portable = {"portable", split, join, bits_split, bits_join};

const struct kedge__shuffle_kernel *kedge__shuffle_best(void)
{
	const struct kedge__shuffle_kernel *k = kedge__shuffle_avx2();

	return k ? k : &kedge__shuffle_portable;
}

void kedge__shuffle_bytes(const struct kedge__shuffle_kernel *k, const uint8_t *in, size_t bytes, unsigned width,
			  uint8_t *out)
{
	size_t n = bytes / width;

	k->split(in, n, width, out, n);
	memcpy(out + n * width, in + n * width, bytes - n * width);
}

void kedge__unshuffle_bytes(const struct kedge__shuffle_kernel *k, const uint8_t *in, size_t bytes, unsigned width,
			    uint8_t *out)
{
	size_t n = bytes / width;

	k->join(in, n, n, width, out);
	memcpy(out + n * width, in + n * width, bytes - n * width);
}

/* Strips of records that stay in the cache closest to the core while each of their bytes is looked for. */
#define RECORDS_STRIP 64

void kedge__shuffle_records(const uint8_t *in, size_t bytes, size_t stride, uint8_t *out)
{
	size_t n = bytes / stride;

	for (size_t at = 0; at < n; at += RECORDS_STRIP) {
		size_t m = KEDGE__MIN(n - at, (size_t)RECORDS_STRIP);
		const uint8_t *from = in + at * stride;

		for (size_t j = 0; j < stride; j++)
			for (size_t i = 0; i < m; i++)
				out[j * n + at + i] = from[i * stride + j];
	}
	memcpy(out + n * stride, in + n * stride, bytes - n * stride);
}

void kedge__unshuffle_records(const uint8_t *in, size_t bytes, size_t stride, uint8_t *out)
{
	size_t n = bytes / stride;

	for (size_t at = 0; at < n; at += RECORDS_STRIP) {
		size_t m = KEDGE__MIN(n - at, (size_t)RECORDS_STRIP);
		uint8_t *to = out + at * stride;

		for (size_t j = 0; j < stride; j++)
			for (size_t i = 0; i < m; i++)
				to[i * stride + j] = in[j * n + at + i];
	}
	memcpy(out + n * stride, in + n * stride, bytes - n * stride);
}

void kedge__shuffle_bits(const struct kedge__shuffle_kernel *k, const uint8_t *in, size_t bytes, unsigned width,
			 uint8_t *out)
{
	size_t n = bytes / width / 8 * 8, pitch = n / 8;
	uint8_t planes[8 * STRIP];

	for (size_t at = 0; at < n; at += STRIP) {
		size_t m = KEDGE__MIN(n - at, (size_t)STRIP);

		k->split(in + at * width, m, width, planes, STRIP);
		for (unsigned j = 0; j < width; j++)
			k->bits_split(planes + j * STRIP, m, out + j * 8 * pitch + at / 8, pitch);
	}
	memcpy(out + n * width, in + n * width, bytes - n * width);
}

void kedge__unshuffle_bits(const struct kedge__shuffle_kernel *k, const uint8_t *in, size_t bytes, unsigned width,
			   uint8_t *out)
{
	size_t n = bytes / width / 8 * 8, pitch = n / 8;
	uint8_t planes[8 * STRIP];

	for (size_t at = 0; at < n; at += STRIP) {
		size_t m = KEDGE__MIN(n - at, (size_t)STRIP);

		for (unsigned j = 0; j < width; j++)
			k->bits_join(in + j * 8 * pitch + at / 8, pitch, m, planes + j * STRIP);
		k->join(planes, STRIP, m, width, out + at * width);
	}
	memcpy(out + n * width, in + n * width, bytes - n * width);
}
