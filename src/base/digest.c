/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest.c: the chunk digest and the node digest (docs/digests.md), and the choice of the variant that suits the
 * machine.
 */
#include "base/digest_internal.h"

#include <stdatomic.h>

static void scalar_nh(const struct digest_domain *d, const uint8_t *data, size_t lines, uint64_t sums[4])
{
	uint64_t s[4] = {0, 0, 0, 0};

	for (size_t i = 0; i < lines * 8; i++, data += 8)
		for (size_t p = 0; p < DIGEST_PASSES; p++)
			s[p] += digest_product(kedge__get64(data), d->nh[i + p * DIGEST_LINE]);
	memcpy(sums, s, sizeof(s));
}

static void scalar_chunks(const struct digest_domain *d, uint64_t length, const uint8_t *data, size_t count,
			  size_t chunk, struct kedge__digest *out)
{
	kedge__digest_rest(&kedge__digest_scalar, d, length, data, count, chunk, out);
}

static struct kedge__sum scalar_sum(const uint8_t *data, size_t blocks, const uint64_t *keys)
{
	struct kedge__sum s = {0, 0};

	for (size_t i = 0; i < blocks * 8; i++, data += 8) {
		uint64_t word = kedge__get64(data);

		s.s1 += digest_product(word, keys[i]);
		s.s2 += digest_product(word, keys[i + KEDGE_SUM_SHIFT]);
	}
	return s;
}

const struct digest_kernel kedge__digest_scalar = {"scalar", scalar_nh, scalar_chunks, scalar_sum};

/* Found once; a race finds the same thing twice. */
const struct digest_kernel *kedge__digest_variant(void)
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

/* At most DIGEST_BLOCK bytes, zero-padded to a whole word. */
static struct kedge__digest block_digest(const struct digest_kernel *k, const struct digest_domain *d, uint64_t length,
					 const uint8_t *data, size_t bytes)
{
	uint64_t s[4] = {0, 0, 0, 0};
	size_t at = bytes / 64 * 64;

	if (at)
		k->nh(d, data, at / 64, s);
	for (; at < bytes; at += 8) {
		uint64_t word = 0;

		memcpy(&word, data + at, KEDGE__MIN(bytes - at, (size_t)8));
		for (size_t p = 0; p < DIGEST_PASSES; p++)
			s[p] += digest_product(word, d->nh[at / 8 + p * DIGEST_LINE]);
	}
	return digest_fold(&d->fold, s, length);
}

void kedge__digest_rest(const struct digest_kernel *k, const struct digest_domain *d, uint64_t length,
			const uint8_t *data, size_t count, size_t chunk, struct kedge__digest *out)
{
	for (size_t i = 0; i < count; i++)
		out[i] = block_digest(k, d, length, data + i * chunk, chunk);
}

/* COUNT chunks that are longer than a block: some are reduced to digests of blocks, and these to one for each chunk. */
static void long_chunks(const struct digest_kernel *k, const struct kedge__digest_key *key, const uint8_t *data,
			size_t count, size_t chunk, struct kedge__digest *out)
{
	struct kedge__digest blocks[DIGEST_BLOCKS];
	size_t each = chunk / DIGEST_BLOCK;

	while (count) {
		size_t n = KEDGE__MIN(count, DIGEST_BLOCKS / each);

		k->chunks(&key->chunk, DIGEST_BLOCK, data, n * each, DIGEST_BLOCK, blocks);
		k->chunks(&key->top, chunk, (const uint8_t *)blocks, n, each * sizeof(blocks[0]), out);
		data += n * chunk;
		out += n;
		count -= n;
	}
}

struct kedge__digest kedge__digest_chunk_by(const struct digest_kernel *k, const struct kedge__digest_key *key,
					    const void *data, size_t bytes)
{
	struct kedge__digest blocks[DIGEST_BLOCKS];
	size_t whole = bytes / DIGEST_BLOCK, rest = bytes % DIGEST_BLOCK;

	if (bytes <= DIGEST_BLOCK)
		return block_digest(k, &key->chunk, bytes, data, bytes);
	k->chunks(&key->chunk, DIGEST_BLOCK, data, whole, DIGEST_BLOCK, blocks);
	if (rest)
		blocks[whole] = block_digest(k, &key->chunk, rest, (const uint8_t *)data + whole * DIGEST_BLOCK, rest);
	return block_digest(k, &key->top, bytes, (const uint8_t *)blocks, (whole + (rest != 0)) * sizeof(blocks[0]));
}

void kedge__digest_chunks_by(const struct digest_kernel *k, const struct kedge__digest_key *key, const void *data,
			     size_t bytes, size_t chunk, struct kedge__digest *out)
{
	const uint8_t *p = data;
	size_t whole = bytes / chunk;

	if (chunk <= DIGEST_BLOCK)
		k->chunks(&key->chunk, chunk, p, whole, chunk, out);
	else
		long_chunks(k, key, p, whole, chunk, out);
	if (bytes % chunk)
		out[whole] = kedge__digest_chunk_by(k, key, p + whole * chunk, bytes % chunk);
}

struct kedge__digest kedge__digest_chunk(const struct kedge__digest_key *key, const void *data, size_t bytes)
{
	return kedge__digest_chunk_by(kedge__digest_variant(), key, data, bytes);
}

void kedge__digest_chunks(const struct kedge__digest_key *key, const void *data, size_t bytes, size_t chunk,
			  struct kedge__digest *out)
{
	kedge__digest_chunks_by(kedge__digest_variant(), key, data, bytes, chunk, out);
}

struct kedge__digest kedge__digest_node(const struct kedge__digest_key *key, unsigned level, struct kedge__digest left,
					struct kedge__digest right)
{
	const uint64_t s[4] = {left.lo, left.hi, right.lo, right.hi};

	return digest_fold(&key->node[(level - 1) % DIGEST_LEVELS], s, 0);
}

const char *kedge__digest_kernel(void)
{
	return kedge__digest_variant()->name;
}
