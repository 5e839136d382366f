/*
 * digest.c: the chunk digest, the node digest and the region sum (docs/digests.md), and the choice of the variant that
 * suits the machine. Checksums of stored bytes are XXH3's.
 */
#include "base/base.h"
#include "base/digest_internal.h"

#include <stdatomic.h>
#include <xxhash.h>

static struct digest_sums scalar_block(const uint8_t *data, size_t blocks, uint64_t word, uint64_t key)
{
	struct digest_sums s = {0, 0};
	size_t pairs = blocks * 4;

	key += word * DIGEST_STEP;
	for (size_t i = 0; i < pairs; i++, data += 16, key += 2 * DIGEST_STEP) {
		uint64_t x = digest_mix(kedge__get64(data), key);
		uint64_t y = digest_mix(kedge__get64(data + 8), key + DIGEST_STEP);

		s.a += x + digest_rotl(y, 32);
		s.b += y + 3 * digest_rotl(x, 27);
	}
	return s;
}

/* What is left after whole blocks: fewer than 64 bytes, zero-padded to a pair of words. */
static struct digest_sums tail_sums(const uint8_t *data, size_t bytes, uint64_t word, uint64_t key)
{
	struct digest_sums s = {0, 0};
	uint8_t pad[64] = {0};

	memcpy(pad, data, bytes);
	key += word * DIGEST_STEP;
	for (size_t at = 0; at < bytes; at += 16, key += 2 * DIGEST_STEP) {
		uint64_t x = digest_mix(kedge__get64(pad + at), key);
		uint64_t y = digest_mix(kedge__get64(pad + at + 8), key + DIGEST_STEP);

		s.a += x + digest_rotl(y, 32);
		s.b += y + 3 * digest_rotl(x, 27);
	}
	return s;
}

static struct kedge__digest digest_with(const struct digest_kernel *k, const uint8_t *data, size_t bytes, uint64_t key)
{
	size_t blocks = bytes / 64;
	struct digest_sums s = {0, 0};

	if (blocks)
		s = k->block(data, blocks, 0, key);
	if (bytes % 64) {
		struct digest_sums t = tail_sums(data + blocks * 64, bytes % 64, blocks * 8, key);

		s.a += t.a;
		s.b += t.b;
	}
	return digest_finish(s, bytes);
}

static void scalar_chunks(const uint8_t *data, size_t count, size_t chunk, struct kedge__digest *out)
{
	for (size_t i = 0; i < count; i++)
		out[i] = digest_with(&kedge__digest_scalar, data + i * chunk, chunk, DIGEST_KEY_CHUNK);
}

static struct kedge__sum scalar_sum(const uint8_t *data, size_t blocks, uint64_t word)
{
	struct kedge__sum s = {0, 0};
	uint64_t key = DIGEST_KEY_SUM + word * DIGEST_STEP;

	for (size_t i = 0; i < blocks * 8; i++, data += 8, key += DIGEST_STEP) {
		uint64_t t = kedge__get64(data) ^ key;

		s.s1 += (t & UINT32_MAX) * (t >> 32);
		s.s2 += t;
	}
	return s;
}

const struct digest_kernel kedge__digest_scalar = {"scalar", scalar_block, scalar_chunks, scalar_sum};

/* Found once; a race finds the same thing twice. */
static const struct digest_kernel *kernel(void)
{
	static _Atomic(const struct digest_kernel *) chosen;
	const struct digest_kernel *k = atomic_load_explicit(&chosen, memory_order_acquire);

	if (k)
		return k;
	k = kedge__digest_avx512();
	if (!k)
		k = kedge__digest_avx2();
	if (!k)
		k = &kedge__digest_scalar;
	atomic_store_explicit(&chosen, k, memory_order_release);
	return k;
}

struct kedge__digest kedge__digest_chunk_by(const struct digest_kernel *k, const void *data, size_t bytes)
{
	return digest_with(k, data, bytes, DIGEST_KEY_CHUNK);
}

void kedge__digest_chunks_by(const struct digest_kernel *k, const void *data, size_t bytes, size_t chunk,
			     struct kedge__digest *out)
{
	const uint8_t *p = data;
	size_t whole = bytes / chunk;

	k->chunks(p, whole, chunk, out);
	if (bytes % chunk)
		out[whole] = kedge__digest_chunk_by(k, p + whole * chunk, bytes % chunk);
}

static void sum_word(struct kedge__sum *s, uint64_t word, uint64_t key)
{
	uint64_t t = word ^ key;

	s->s1 += (t & UINT32_MAX) * (t >> 32);
	s->s2 += t;
}

struct kedge__sum kedge__sum_by(const struct digest_kernel *k, const void *data, size_t bytes, uint64_t pos)
{
	const uint8_t *p = data;
	size_t blocks = bytes / 64, at = blocks * 64;
	struct kedge__sum s = {0, 0};
	uint64_t key = DIGEST_KEY_SUM + (pos / 8 + blocks * 8) * DIGEST_STEP;

	if (blocks)
		s = k->sum(p, blocks, pos / 8);
	for (; bytes - at >= 8; at += 8, key += DIGEST_STEP)
		sum_word(&s, kedge__get64(p + at), key);
	if (bytes > at) {
		uint8_t last[8] = {0};

		memcpy(last, p + at, bytes - at);
		sum_word(&s, kedge__get64(last), key);
	}
	return s;
}

struct kedge__digest kedge__digest_chunk(const void *data, size_t bytes)
{
	return kedge__digest_chunk_by(kernel(), data, bytes);
}

void kedge__digest_chunks(const void *data, size_t bytes, size_t chunk, struct kedge__digest *out)
{
	kedge__digest_chunks_by(kernel(), data, bytes, chunk, out);
}

struct kedge__digest kedge__digest_pair(struct kedge__digest left, struct kedge__digest right)
{
	uint64_t x0 = digest_mix(left.lo, DIGEST_KEY_NODE);
	uint64_t y0 = digest_mix(left.hi, DIGEST_KEY_NODE + DIGEST_STEP);
	uint64_t x1 = digest_mix(right.lo, DIGEST_KEY_NODE + 2 * DIGEST_STEP);
	uint64_t y1 = digest_mix(right.hi, DIGEST_KEY_NODE + 3 * DIGEST_STEP);
	struct digest_sums s;

	s.a = x0 + digest_rotl(y0, 32) + x1 + digest_rotl(y1, 32);
	s.b = y0 + 3 * digest_rotl(x0, 27) + y1 + 3 * digest_rotl(x1, 27);
	return digest_finish(s, 32);
}

const char *kedge__digest_kernel(void)
{
	return kernel()->name;
}

struct kedge__sum kedge__sum_of(const void *data, size_t bytes, uint64_t pos)
{
	return kedge__sum_by(kernel(), data, bytes, pos);
}

struct kedge__digest kedge__sum_digest(struct kedge__sum total, uint64_t bytes)
{
	return digest_finish((struct digest_sums){total.s1, total.s2}, bytes);
}

uint64_t kedge__checksum_plain(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

struct kedge__digest kedge__seal(const void *data, size_t bytes)
{
	XXH128_hash_t h = XXH3_128bits(data, bytes);

	return (struct kedge__digest){h.low64, h.high64};
}
