/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest_key.c: the keys of the chunk digest, expanded from a seed by ChaCha20 (RFC 8439: 32-byte key, block counter
 * from 0 on, nonce "kedge digest").
 */
#include "base/digest_internal.h"

#include <errno.h>
#include <sys/random.h>

#define LINE_BYTES ((uintptr_t)64)

struct stream {
	uint32_t state[16];
	uint64_t words[8]; /* of the block */
	unsigned used;
};

static uint32_t rotate(uint32_t v, int n)
{
	return v << n | v >> (32 - n);
}

static void quarter(uint32_t *x, int a, int b, int c, int d)
{
	x[a] += x[b], x[d] = rotate(x[d] ^ x[a], 16);
	x[c] += x[d], x[b] = rotate(x[b] ^ x[c], 12);
	x[a] += x[b], x[d] = rotate(x[d] ^ x[a], 8);
	x[c] += x[d], x[b] = rotate(x[b] ^ x[c], 7);
}

static void stream_init(struct stream *s, const uint8_t seed[KEDGE__DIGEST_SEED_BYTES])
{
	static const char words[] = "expand 32-byte k", nonce[] = "kedge digest";

	memcpy(s->state, words, 16);
	memcpy(s->state + 4, seed, 32);
	s->state[12] = 0;
	memcpy(s->state + 13, nonce, 12);
	s->used = 8;
}

static void stream_block(struct stream *s)
{
	uint32_t x[16];

	memcpy(x, s->state, sizeof(x));
	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < 4; k++)
			quarter(x, k, 4 + k, 8 + k, 12 + k);
		for (int k = 0; k < 4; k++)
			quarter(x, k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4);
	}
	for (int i = 0; i < 16; i++)
		x[i] += s->state[i];
	memcpy(s->words, x, sizeof(x));
	s->state[12]++;
	s->used = 0;
}

static void stream_take(struct stream *s, uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s->used == 8)
			stream_block(s);
		words[i] = s->words[s->used++];
	}
}

static void fold_expand(struct stream *s, struct digest_fold *f)
{
	stream_take(s, f->m[0], 16);
	stream_take(s, f->u, 4);
	stream_take(s, f->v, 4);
	for (int j = 0; j < 4; j++)
		for (int i = 0; i < 4; i++)
			f->h[j][i] = f->m[j][i] >> 32;
}

static void key_expand(struct kedge__digest_key *key)
{
	struct stream s;

	stream_init(&s, key->seed);
	stream_take(&s, key->chunk.nh, DIGEST_WORDS);
	stream_take(&s, key->top.nh, DIGEST_WORDS);
	fold_expand(&s, &key->chunk.fold);
	fold_expand(&s, &key->top.fold);
	for (int i = 0; i < DIGEST_LEVELS; i++)
		fold_expand(&s, &key->node[i]);
}

int kedge__digest_key_new(const uint8_t *seed, struct kedge__digest_key **out, struct kedge__error *err)
{
	void *memory = kedge__calloc(1, sizeof(struct kedge__digest_key) + LINE_BYTES - 1);
	struct kedge__digest_key *key;

	if (!memory)
		return kedge__error_nomem(err);
	key = (void *)(((uintptr_t)memory + LINE_BYTES - 1) & ~(LINE_BYTES - 1));
	key->memory = memory;
	if (seed) {
		memcpy(key->seed, seed, sizeof(key->seed));
	} else if (getrandom(key->seed, sizeof(key->seed), 0) != (ssize_t)sizeof(key->seed)) {
		int rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot get random bytes for the digest keys");

		kedge__free(memory);
		return rc;
	}
	key_expand(key);
	*out = key;
	return 0;
}

void kedge__digest_key_free(struct kedge__digest_key *key)
{
	if (key)
		kedge__free(key->memory);
}

const uint8_t *kedge__digest_key_seed(const struct kedge__digest_key *key)
{
	return key->seed;
}
