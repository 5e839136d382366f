/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of many kinds and lengths, packed on the device by a codec, and compared with what the processor makes of them. */
#ifndef KEDGE_TESTS_GPU_BLOCK_CASES_H
#define KEDGE_TESTS_GPU_BLOCK_CASES_H

#include "gpu_cases.h"

#include "../lib/draw.h"
#include "codec/codec.h"

enum block_kind { ZEROS, NOISE, TEXT, FLOATS, SPARSE, PERIODS, ECHOES, BLOCK_KINDS };

static void text_fill(uint8_t *to, size_t bytes, uint64_t *seed)
{
	static const char words[][9] = {"the ",  "state",    " of ",  "all ",  "regions ", "is ", "saved",
					", and", " restored", " from ", "a ",    "version", ".\n", "42"};

	for (size_t i = 0; i < bytes;) {
		const char *w = words[draw_below(seed, KEDGE__COUNT(words))];

		for (size_t k = 0; k < 9 && w[k] && i < bytes; k++)
			to[i++] = (uint8_t)w[k];
	}
}

static void floats_fill(uint8_t *to, size_t bytes, uint64_t *seed)
{
	for (size_t i = 0; i + 4 <= bytes; i += 4) {
		float f = 1 + (float)(i % 4096) / 4096 + (float)draw_below(seed, 16) / 65536;

		memcpy(to + i, &f, 4);
	}
}

/* Runs that repeat every few bytes, with other bytes between them. */
static void periods_fill(uint8_t *to, size_t bytes, uint64_t *seed)
{
	for (size_t i = 0; i < bytes;) {
		size_t period = 1 + draw_below(seed, 40), n = draw_below(seed, 3) ? draw_below(seed, 90) : 400, from = i;

		for (; i < bytes && i < from + period + n; i++)
			to[i] = i < from + period ? (uint8_t)draw(seed) : to[i - period];
	}
}

/* Noise, and what was there before, from any distance. */
static void echoes_fill(uint8_t *to, size_t bytes, uint64_t *seed)
{
	for (size_t i = 0; i < bytes;) {
		size_t n = 1 + draw_below(seed, draw_below(seed, 4) ? 30 : 2000);
		bool again = i && draw_below(seed, 2);
		size_t distance = again ? 1 + draw_below(seed, KEDGE__MIN(i, (size_t)70000)) : 0;

		for (; n && i < bytes; n--, i++)
			to[i] = again ? to[i - distance] : (uint8_t)draw(seed);
	}
}

static void block_fill(enum block_kind kind, uint8_t *to, size_t bytes, uint64_t seed)
{
	memset(to, 0, bytes);
	if (kind == NOISE)
		draw_bytes(&seed, to, bytes);
	else if (kind == TEXT)
		text_fill(to, bytes, &seed);
	else if (kind == FLOATS)
		floats_fill(to, bytes, &seed);
	else if (kind == PERIODS)
		periods_fill(to, bytes, &seed);
	else if (kind == ECHOES)
		echoes_fill(to, bytes, &seed);
	for (size_t i = 0; kind == SPARSE && i < bytes; i += 1 + draw_below(&seed, 200))
		to[i] = (uint8_t)draw(&seed);
}

struct block_codec {
	uint16_t id;
	uint64_t (*scratch)(const struct kedge__gpu_blocks *b);
	int (*encode)(struct kedge__gpu *g, const struct kedge__gpu_blocks *b, kedge__gpu_address raw,
		      kedge__gpu_address scratch, kedge__gpu_address slots, struct kedge__error *err);
	size_t (*twin)(const uint8_t *raw, size_t bytes, uint8_t *out);
};

struct blocks {
	const struct block_codec *codec;
	struct kedge__gpu_blocks b;
	uint32_t *lengths, *sizes;
	uint64_t *places, bytes; /* bytes: of all, with what is between them */
	uint8_t *raw, *slots;
	kedge__gpu_address d_raw, d_slots, d_scratch;
};

/* COUNT blocks of these lengths; the memory ends where the last does. */
static void blocks_init(struct blocks *t, const struct block_codec *codec, const uint32_t *lengths, uint32_t count)
{
	t->codec = codec;
	t->b = (struct kedge__gpu_blocks){.stream = KEDGE__GPU_WORK, .count = count};
	t->lengths = kedge__calloc(count, sizeof(*t->lengths));
	t->sizes = kedge__calloc(count, sizeof(*t->sizes));
	t->places = kedge__calloc(count, sizeof(*t->places));
	t->bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		t->lengths[i] = lengths[i];
		t->places[i] = (t->bytes + 15) / 16 * 16;
		t->bytes = t->places[i] + lengths[i];
		t->b.largest = KEDGE__MAX(t->b.largest, lengths[i]);
	}
	t->raw = kedge__calloc(t->bytes + 1, 1);
	t->slots = kedge__calloc(t->bytes + 1, 1);
	t->b.places = gpu_take(count * sizeof(*t->places));
	t->b.lengths = gpu_take(count * sizeof(*t->lengths));
	t->b.sizes = gpu_take(count * sizeof(*t->sizes));
	t->d_raw = gpu_take(t->bytes + !t->bytes);
	t->d_slots = gpu_take(t->bytes + !t->bytes);
	t->d_scratch = gpu_take(codec->scratch(&t->b) + 1);
	gpu_put(t->b.places, t->places, count * sizeof(*t->places));
	gpu_put(t->b.lengths, t->lengths, count * sizeof(*t->lengths));
}

static void blocks_done(struct blocks *t)
{
	kedge__gpu_release(gpu, t->b.places, t->b.count * sizeof(*t->places));
	kedge__gpu_release(gpu, t->b.lengths, t->b.count * sizeof(*t->lengths));
	kedge__gpu_release(gpu, t->b.sizes, t->b.count * sizeof(*t->sizes));
	kedge__gpu_release(gpu, t->d_raw, t->bytes + !t->bytes);
	kedge__gpu_release(gpu, t->d_slots, t->bytes + !t->bytes);
	kedge__gpu_release(gpu, t->d_scratch, t->codec->scratch(&t->b) + 1);
	kedge__free(t->lengths);
	kedge__free(t->sizes);
	kedge__free(t->places);
	kedge__free(t->raw);
	kedge__free(t->slots);
}

/* Block I is what the processor makes of it, and the codec's library decodes it. */
static void block_check(const struct blocks *t, uint32_t i)
{
	const uint8_t *raw = t->raw + t->places[i], *slot = t->slots + t->places[i];
	size_t n = t->lengths[i], size;
	uint8_t *want = kedge__malloc(n + 1), *got = kedge__malloc(n + 1);

	size = t->codec->twin(raw, n, want);
	if (size != t->sizes[i])
		fail_msg("block %u of %zu bytes: %u instead of %zu", i, n, t->sizes[i], size);
	if (size < n) {
		assert_memory_equal(slot, want, size);
		if (kedge__codec_by_id(t->codec->id)) { /* its library was there */
			assert_int_equal(kedge__block_decode(t->codec->id, 0, slot, size, got, n, NULL), 0);
			assert_memory_equal(got, raw, n);
		}
	}
	kedge__free(want);
	kedge__free(got);
}

static void blocks_encode(struct blocks *t)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	gpu_put(t->d_raw, t->raw, t->bytes);
	rc = t->codec->encode(gpu, &t->b, t->d_raw, t->d_scratch, t->d_slots, &err);
	if (rc)
		print_message("%s\n", kedge__error_text(&err));
	assert_int_equal(rc, 0);
	gpu_get(t->sizes, t->b.sizes, t->b.count * sizeof(*t->sizes));
	gpu_get(t->slots, t->d_slots, t->bytes);
	for (uint32_t i = 0; i < t->b.count; i++)
		block_check(t, i);
}

#endif
