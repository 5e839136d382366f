/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs of blocks on a GPU, beside the libraries for the same codecs on all processors, on the same data: text;
 * counters of which few are not zero, as graph codes have them; and the floats that codec planes is measured on, which
 * is better there.
 */
#include "bench_gpu.h"
#include "codec/codec.h"
#include "pipeline/pipeline.h"
#include "tool_bench.h"

#include <math.h>

#define BLOCK  (UINT64_C(128) << 10) /* as stores cut literals, unless they are told otherwise */
#define SAMPLE (UINT64_C(64) << 20)
#define MOST   (UINT64_C(1) << 30)

struct packer {
	const char *name, *library; /* library: the codec, by name and level, that the processors are measured with */
	uint16_t id;
	uint64_t (*scratch)(const struct kedge__gpu_blocks *b);
	int (*encode)(struct kedge__gpu *g, const struct kedge__gpu_blocks *b, kedge__gpu_address raw,
		      kedge__gpu_address scratch, kedge__gpu_address slots, struct kedge__error *err);
	/* NULL: there is none. */
	int (*decode)(struct kedge__gpu *g, const struct kedge__gpu_blocks *b, kedge__gpu_address packed,
		      kedge__gpu_address packed_places, kedge__gpu_address raw, kedge__gpu_address damaged,
		      struct kedge__error *err);
};

static const struct packer packers[] = {
    {"lz4", "lz4", KEDGE__CODEC_LZ4, kedge__gpu_lz4_scratch, kedge__gpu_lz4_encode, kedge__gpu_lz4_decode},
    {"deflate", "deflate:1", KEDGE__CODEC_DEFLATE, kedge__gpu_deflate_scratch, kedge__gpu_deflate_encode, NULL},
};

struct blocks {
	struct kedge__bench_gpu_rows *rows;
	kedge__gpu_address data, other;
	uint64_t size; /* of what is packed on the GPU */
	const struct packer *packer;
	struct kedge__gpu_blocks b;
	kedge__gpu_address memory, scratch, damaged; /* memory: all but the scratch */
	uint64_t memory_bytes, scratch_bytes;
	uint8_t *sample, *packed; /* of the host */
	uint64_t sample_bytes;
	uint32_t *sizes;
	struct kedge__pool *pool;
	struct kedge__codec_choice how;
};

/* ------------------------------------------------------------------ data */

static void text_make(uint8_t *to, uint64_t bytes)
{
	uint64_t seed = 7, at = 0, words = 0;

	while (at < bytes) {
		/* Words of a language of two thousand, of which some are much more frequent; and a number now and then.
		 */
		uint64_t r = kedge__bench_random(&seed), word = (r >> 8) % (1 + (r >> 32) % 2000) * 77 + 5;
		uint64_t length = word % 3 + word / 7 % 8 + 1;

		for (uint64_t i = 0; i < length && at < bytes;
		     i++, word = word * 6364136223846793005 + 1442695040888963407)
			to[at++] = (uint8_t)(r % 19 ? 'a' + (word >> 40) % 26 : '0' + (r >> (40 + i)) % 10);
		if (at < bytes)
			to[at++] = ++words % 12 ? ' ' : '\n';
	}
}

static void counts_make(uint8_t *to, uint64_t bytes)
{
	uint64_t seed = 9;

	memset(to, 0, bytes);
	for (uint64_t i = 0; i + 4 <= bytes; i += 4 * (1 + kedge__bench_random(&seed) % 24)) {
		uint32_t v = (uint32_t)(kedge__bench_random(&seed) % (1 + kedge__bench_random(&seed) % 3000));

		memcpy(to + i, &v, 4);
	}
}

static void floats_make(uint8_t *to, uint64_t bytes)
{
	uint64_t seed = 1;

	for (uint64_t i = 0; i < bytes / 4; i++) {
		double x = (double)(i % 4096) / 4096, y = (double)(i / 4096) / 4096;
		double noise = (double)(kedge__bench_random(&seed) % 1024) / 1024 - 0.5;
		float f = (float)(2 + sin(11 * x) * cos(7 * y) + 3e-6 * noise);

		memcpy(to + 4 * i, &f, 4);
	}
}

/* As much of FILE as the sample has room for. */
static int file_load(struct blocks *k, const char *file, struct kedge__error *err)
{
	uint64_t bytes = 0;
	int fd = -1, rc = kedge__fs_open_read(file, &fd, err);

	if (!rc)
		rc = kedge__fs_size(fd, &bytes, file, err);
	bytes = KEDGE__MIN(bytes, SAMPLE) / BLOCK * BLOCK;
	if (!rc && !bytes)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "%s has less than 128 KiB", file);
	if (!rc)
		rc = kedge__fs_pread(fd, k->sample, bytes, 0, file, err);
	k->sample_bytes = bytes;
	kedge__fs_close(fd);
	return rc;
}

/* The sample, all over what is packed. */
static int spread(struct blocks *k, struct kedge__error *err)
{
	struct kedge__gpu *g = k->rows->gpu;
	uint64_t have = KEDGE__MIN(k->sample_bytes, k->size);
	int rc = kedge__gpu_copy_in(g, KEDGE__GPU_WORK, k->data, k->sample, have, err);

	for (; have < k->size && !rc; have *= 2)
		rc = kedge__gpu_copy_within(g, KEDGE__GPU_WORK, k->data + have, k->data,
					    KEDGE__MIN(have, k->size - have), err);
	return rc ? rc : kedge__gpu_finish(g, err);
}

/* ------------------------------------------------------------------ on the GPU */

static int encode(void *ctx, struct kedge__error *err)
{
	struct blocks *k = ctx;

	return k->packer->encode(k->rows->gpu, &k->b, k->data, k->scratch, k->other, err);
}

static int decode(void *ctx, struct kedge__error *err)
{
	struct blocks *k = ctx;

	return k->packer->decode(k->rows->gpu, &k->b, k->other, k->b.places, k->data, k->damaged, err);
}

/* What all blocks became, which the processors unpack as far as the sample goes. */
static int check(struct blocks *k, struct kedge__error *err)
{
	struct kedge__gpu *g = k->rows->gpu;
	uint64_t packed = 0, count = KEDGE__MIN(k->sample_bytes, k->size) / BLOCK;
	uint8_t *raw = kedge__malloc(BLOCK);
	int rc = raw ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__gpu_copy_out(g, KEDGE__GPU_WORK, k->sizes, k->b.sizes, k->b.count * sizeof(*k->sizes), err);
	if (!rc)
		rc = kedge__gpu_copy_out(g, KEDGE__GPU_WORK, k->packed, k->other, count * BLOCK, err);
	if (!rc)
		rc = kedge__gpu_finish(g, err);
	for (uint64_t i = 0; i < k->b.count && !rc; i++)
		packed += k->sizes[i];
	for (uint64_t i = 0; i < count && !rc; i++) {
		if (k->sizes[i] == BLOCK)
			continue;
		rc = kedge__block_decode(k->packer->id, 0, k->packed + i * BLOCK, k->sizes[i], raw, BLOCK, err);
		if (!rc && memcmp(raw, k->sample + i * BLOCK, BLOCK) != 0)
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "block %llu did not come back",
					      (unsigned long long)i);
	}
	if (!rc)
		k->rows->at[k->rows->count - 1].ratio = (double)k->size / (double)packed;
	kedge__free(raw);
	return rc;
}

static int check_decoded(struct blocks *k, struct kedge__error *err)
{
	uint32_t damaged = 0;
	int rc = kedge__gpu_copy_out(k->rows->gpu, KEDGE__GPU_WORK, &damaged, k->damaged, sizeof(damaged), err);

	if (!rc)
		rc = kedge__gpu_finish(k->rows->gpu, err);
	if (!rc && damaged)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%u blocks did not come back", damaged);
	return rc;
}

static int gpu_rows(struct blocks *k, const char *what, struct kedge__error *err)
{
	char text[64];
	int rc = spread(k, err);

	snprintf(text, sizeof(text), "codec %s, %s, packed", k->packer->name, what);
	if (!rc)
		rc = kedge__bench_gpu_take(k->rows, text, (double)k->size, encode, k, err);
	if (!rc)
		rc = check(k, err);
	if (rc || !k->packer->decode)
		return rc;
	snprintf(text, sizeof(text), "codec %s, %s, unpacked", k->packer->name, what);
	rc = kedge__bench_gpu_take(k->rows, text, (double)k->size, decode, k, err);
	return rc ? rc : check_decoded(k, err);
}

/* ------------------------------------------------------------------ on the processors */

static int block_encode(void *ctx, size_t i, int worker)
{
	struct blocks *k = ctx;
	size_t used;
	uint16_t id, param;
	int rc = kedge__block_encode(&k->how, KEDGE_BYTES, k->sample + i * BLOCK, BLOCK, k->packed + i * BLOCK, &used,
				     &id, &param, NULL);

	(void)worker;
	k->sizes[i] = (uint32_t)used;
	return rc;
}

/* The decoder does not get to see what is not smaller. */
static int block_decode(void *ctx, size_t i, int worker)
{
	struct blocks *k = ctx;

	(void)worker;
	return k->sizes[i] < BLOCK ? kedge__block_decode(k->packer->id, 0, k->packed + i * BLOCK, k->sizes[i],
							 k->sample + i * BLOCK, BLOCK, NULL)
				   : 0;
}

static int host_encode(void *ctx, struct kedge__error *err)
{
	struct blocks *k = ctx;
	int rc = kedge__pool_for(k->pool, k->sample_bytes / BLOCK, block_encode, k);

	return rc ? kedge__error_set(err, rc, 0, "cannot pack a block") : 0;
}

static int host_decode(void *ctx, struct kedge__error *err)
{
	struct blocks *k = ctx;
	int rc = kedge__pool_for(k->pool, k->sample_bytes / BLOCK, block_decode, k);

	return rc ? kedge__error_set(err, rc, 0, "cannot unpack a block") : 0;
}

static int host_rows(struct blocks *k, const char *what, struct kedge__error *err)
{
	uint64_t packed = 0;
	char text[64];
	int rc = kedge__codec_choice_parse(k->packer->library, &k->how, err);

	snprintf(text, sizeof(text), "%s, %s, packed by %d processors", k->packer->library, what,
		 kedge__pool_threads(k->pool));
	if (!rc)
		rc = kedge__bench_gpu_take(k->rows, text, (double)k->sample_bytes, host_encode, k, err);
	if (rc)
		return rc;
	for (uint64_t i = 0; i < k->sample_bytes / BLOCK; i++)
		packed += k->sizes[i];
	k->rows->at[k->rows->count - 1].ratio = (double)k->sample_bytes / (double)packed;
	snprintf(text, sizeof(text), "%s, %s, unpacked by %d processors", k->packer->library, what,
		 kedge__pool_threads(k->pool));
	return kedge__bench_gpu_take(k->rows, text, (double)k->sample_bytes, host_decode, k, err);
}

/* ------------------------------------------------------------------ all */

/* Blocks of BLOCK bytes, one behind the other. */
static int places_make(struct blocks *k, struct kedge__error *err)
{
	struct kedge__gpu *g = k->rows->gpu;
	uint64_t n = k->size / BLOCK, *places = kedge__calloc(n, sizeof(*places));
	int rc = places && k->sizes ? 0 : kedge__error_nomem(err);

	k->b = (struct kedge__gpu_blocks){KEDGE__GPU_WORK, (uint32_t)n,       (uint32_t)BLOCK,
					  k->memory,       k->memory + 8 * n, k->memory + 12 * n};
	k->damaged = k->memory + 16 * n;
	for (uint64_t i = 0; i < n && !rc; i++) {
		places[i] = i * BLOCK;
		k->sizes[i] = (uint32_t)BLOCK;
	}
	if (!rc)
		rc = kedge__gpu_copy_in(g, KEDGE__GPU_WORK, k->b.places, places, 8 * n, err);
	if (!rc)
		rc = kedge__gpu_copy_in(g, KEDGE__GPU_WORK, k->b.lengths, k->sizes, 4 * n, err);
	if (!rc)
		rc = kedge__gpu_clear(g, KEDGE__GPU_WORK, k->damaged, 4, err);
	if (!rc)
		rc = kedge__gpu_finish(g, err);
	kedge__free(places);
	return rc;
}

static int packer_rows(struct blocks *k, const struct packer *p, const char *what, struct kedge__error *err)
{
	int rc;

	if (!kedge__codec_by_id(p->id)) /* nothing to compare with */
		return 0;
	k->packer = p;
	k->scratch_bytes = p->scratch(&k->b);
	rc = kedge__gpu_alloc(k->rows->gpu, k->scratch_bytes, &k->scratch, err);
	if (!rc)
		rc = gpu_rows(k, what, err);
	kedge__gpu_release(k->rows->gpu, k->scratch, k->scratch_bytes);
	k->scratch = 0;
	return rc ? rc : host_rows(k, what, err);
}

static int sample_rows(struct blocks *k, const char *file, struct kedge__error *err)
{
	static const struct {
		const char *name;
		void (*make)(uint8_t *to, uint64_t bytes);
	} samples[] = {{"text", text_make}, {"counts", counts_make}, {"floats", floats_make}, {"file", NULL}};
	int rc = 0;

	for (size_t i = 0; i < KEDGE__COUNT(samples) && !rc; i++) {
		if (!samples[i].make && !file)
			break;
		k->sample_bytes = SAMPLE;
		if (samples[i].make)
			samples[i].make(k->sample, SAMPLE);
		else
			rc = file_load(k, file, err);
		for (size_t p = 0; p < KEDGE__COUNT(packers) && !rc; p++)
			rc = packer_rows(k, &packers[p], samples[i].name, err);
	}
	return rc;
}

int kedge__bench_gpu_blocks(struct kedge__bench_gpu_rows *rows, kedge__gpu_address data, kedge__gpu_address other,
			    uint64_t size, const char *file, struct kedge__error *err)
{
	struct blocks k = {.rows = rows, .data = data, .other = other, .size = KEDGE__MIN(size, MOST)};
	struct kedge__job_settings any = {0};
	int rc;

	k.memory_bytes = 16 * (k.size / BLOCK) + 4;
	k.sample = kedge__malloc(SAMPLE);
	k.packed = kedge__malloc(SAMPLE);
	k.sizes = kedge__calloc(KEDGE__MAX(k.size, SAMPLE) / BLOCK, sizeof(*k.sizes));
	rc = k.sample && k.packed && k.sizes ? kedge__tool_pool(&any, &k.pool, err) : kedge__error_nomem(err);
	if (!rc)
		rc = kedge__gpu_alloc(rows->gpu, k.memory_bytes, &k.memory, err);
	if (!rc)
		rc = places_make(&k, err);
	if (!rc)
		rc = sample_rows(&k, file, err);
	kedge__gpu_release(rows->gpu, k.memory, k.memory_bytes);
	kedge__pool_free(k.pool);
	kedge__free(k.sample);
	kedge__free(k.packed);
	kedge__free(k.sizes);
	return rc;
}
