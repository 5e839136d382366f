/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Literals that are packed on a GPU: the blocks that a segment has of them, and in each of them what the processor
 * makes of the same bytes.
 */
#include "there.h"

#include "codec/codec.h"
#include "codec/deflate_warp.h"
#include "codec/lz4_warp.h"
#include "reduce/gpu.h"

#define BLOCK UINT32_C(8192)

static const uint8_t seed_bytes[KEDGE__DIGEST_SEED_BYTES] = {2, 7, 1, 8};

static int setup(void **state)
{
	kedge__gpu_wave_slabs = 1;
	return gpu_setup(state);
}

static int teardown(void **state)
{
	return gpu_teardown(state);
}

/* ------------------------------------------------------------------ what the processor makes of a block */

static size_t pack_here(const struct kedge__gpu_how *how, const uint8_t *raw, size_t bytes, uint8_t *out)
{
	struct kedge__codec_choice choice = {
	    .codec = kedge__codec_by_id(KEDGE__CODEC_PLANES), .level = (int)how->width, .steps = how->steps};
	uint16_t codec, param;
	size_t used = bytes;

	if (how->codec == KEDGE__GPU_LZ4)
		used = kedge__lz4_warp_encode(raw, bytes, out);
	else if (how->codec == KEDGE__GPU_DEFLATE)
		used = kedge__deflate_warp_encode(raw, bytes, out);
	else
		assert_int_equal(
		    kedge__block_encode(&choice, KEDGE_BYTES, raw, bytes, out, &used, &codec, &param, NULL), 0);
	if (used == bytes)
		memcpy(out, raw, bytes);
	return used;
}

/* ------------------------------------------------------------------ a pair of reducers */

struct pair {
	struct lab lab;
	struct there there;
	struct kedge__reducer *host, *device;
	struct kedge__gpu_how hows[LAB_REGIONS]; /* by slots */
	uint32_t block;
	uint64_t version, packed;
	bool short_of; /* memory: nothing can be packed */
};

static void pair_begin(struct pair *p, enum kedge__reducer_id id, uint32_t chunk)
{
	struct kedge__reducer_options o = {.id = id, .chunk = chunk, .record_bytes = LAB_UNLIMITED, .seed = seed_bytes};

	assert_int_equal(kedge__reducer_new(&o, &p->host, NULL), 0);
	assert_int_equal(kedge__reducer_new(&o, &p->device, NULL), 0);
	p->block = p->block ? p->block : BLOCK;
}

static void pair_done(struct pair *p)
{
	kedge__reducer_free(p->host);
	kedge__reducer_free(p->device);
	there_done(&p->there);
	lab_done(&p->lab);
}

/* The literals of a region, one behind the other. */
static uint8_t *literals_join(const struct kedge__reduction *red, size_t region, uint64_t *bytes)
{
	uint8_t *all = malloc(red->literal_bytes + 1);

	*bytes = 0;
	assert_non_null(all);
	for (size_t i = 0; i < red->literals.count; i++) {
		const struct kedge__literal *l = &red->literals.at[i];

		if (l->region != region)
			continue;
		memcpy(all + *bytes, l->data, l->bytes);
		*bytes += l->bytes;
	}
	return all;
}

/* The blocks of one region, from number *AT on. */
static void blocks_equal(struct pair *p, const struct kedge__reduction *here, const struct kedge__reduction *there,
			 size_t region, const struct kedge__gpu_how *how, size_t *at)
{
	uint64_t bytes;
	uint8_t *raw = literals_join(here, region, &bytes), *want = malloc(p->block + 64);

	for (uint64_t done = 0; done < bytes; ++*at) {
		const struct kedge__ready_block *b = &there->ready.at[*at];
		size_t n = (size_t)lab_min(bytes - done, p->block), size = pack_here(how, raw + done, n, want);

		assert_true(*at < there->ready.count);
		assert_int_equal(b->region, region);
		assert_int_equal(b->raw, n);
		assert_int_equal(b->stored, size);
		assert_memory_equal(b->at, want, size);
		p->packed += n - size;
		done += n;
	}
	free(raw);
	free(want);
}

static void packed_equal(struct pair *p, const struct kedge__reduction *here, const struct kedge__reduction *there,
			 const struct kedge__gpu_how *hows, size_t regions)
{
	size_t at = 0;

	maps_equal(here, there, regions);
	assert_int_equal(here->literals.count, there->literals.count);
	for (size_t i = 0; i < here->literals.count; i++) {
		const struct kedge__literal *x = &here->literals.at[i], *y = &there->literals.at[i];

		assert_true(x->bytes == y->bytes && x->region == y->region);
		if (hows[x->region].codec == KEDGE__GPU_NONE)
			assert_memory_equal(x->data, y->data, x->bytes);
		else
			assert_null(y->data);
	}
	for (size_t i = 0; i < regions; i++)
		if (hows[i].codec != KEDGE__GPU_NONE)
			blocks_equal(p, here, there, i, &hows[i], &at);
	assert_int_equal(at, there->ready.count);
}

/* The same image on the host and on the device. */
static void images_take(struct pair *p, const struct kedge__image *a, const struct kedge__image *b,
			const struct kedge__gpu_how *hows)
{
	struct kedge__reduce_device device = {
	    .gpu = gpu, .room = pinned_room, .ctx = &p->there, .hows = hows, .block = p->block};
	struct kedge__reduce_how how = {.device = &device};
	struct kedge__reduction x, y;
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(kedge__reducer_reduce(p->host, NULL, ++p->version, a, NULL, &x, NULL), 0);
	if (kedge__reducer_reduce(p->device, NULL, p->version, b, &how, &y, &err))
		fail_msg("%s", kedge__error_text(&err));
	if (p->short_of)
		reductions_equal(&x, &y, a->count);
	else
		packed_equal(p, &x, &y, hows, a->count);
	kedge__reducer_commit(p->host);
	kedge__reducer_commit(p->device);
	kedge__reduction_done(&x);
	kedge__reduction_done(&y);
}

static void pair_take(struct pair *p)
{
	struct kedge__image_region here[LAB_REGIONS], there[LAB_REGIONS];
	struct kedge__image a = {here, lab_image(&p->lab, here)}, b = {there, there_image(&p->there, &p->lab, there)};
	struct kedge__gpu_how hows[LAB_REGIONS];

	for (size_t i = 0; i < a.count; i++)
		hows[i] = p->hows[here[i].base >> KEDGE__SLOT_SHIFT];
	images_take(p, &a, &b, hows);
}

/* ------------------------------------------------------------------ lives */

/* Numbers that pack well, or not at all. */
static void numbers_set(struct lab *lab, int slot, uint64_t from, uint64_t to)
{
	bool noise = draw_below(&lab->seed, 5) == 0;

	for (uint64_t i = from / 8; i < to / 8; i++) {
		uint64_t v = i * 3 + lab->seed % 1000 + draw_below(&lab->seed, 4);

		memcpy(lab->data[slot] + i * 8, &v, 8);
	}
	if (noise && to > from)
		draw_bytes(&lab->seed, lab->data[slot] + from, to - from);
}

static void edit(struct lab *lab)
{
	for (int slot = 0; slot < LAB_REGIONS; slot++) {
		uint64_t bytes = lab->bytes[slot], n = draw_below(&lab->seed, 6);

		if (!lab->present[slot] || !bytes)
			continue;
		if (draw_below(&lab->seed, 5) == 0)
			numbers_set(lab, slot, 0, bytes);
		for (uint64_t i = 0; i < n; i++) {
			uint64_t from = draw_below(&lab->seed, bytes), len = draw_below(&lab->seed, bytes / 4 + 2);

			numbers_set(lab, slot, from, lab_min(from + len, bytes));
		}
	}
	if (draw_below(&lab->seed, 4) == 0) {
		int slot = (int)draw_below(&lab->seed, LAB_REGIONS);

		lab_resize(lab, slot, draw_below(&lab->seed, 30000));
		numbers_set(lab, slot, 0, lab->bytes[slot]);
	}
}

static const struct kedge__gpu_how kinds[] = {
    {.codec = KEDGE__GPU_PLANES, .width = 8, .steps = KEDGE__STEP_DELTA},
    {.codec = KEDGE__GPU_NONE},
    {.codec = KEDGE__GPU_LZ4},
    {.codec = KEDGE__GPU_PLANES, .width = 4},
    {.codec = KEDGE__GPU_DEFLATE},
    {.codec = KEDGE__GPU_PLANES, .width = 2},
};

static void life(enum kedge__reducer_id id, uint32_t chunk, uint64_t seed, uint64_t bytes, int versions)
{
	struct pair p = {.lab = {.seed = seed}};

	pair_begin(&p, id, chunk);
	for (int i = 0; i < LAB_REGIONS; i++) {
		p.hows[i] = kinds[((uint64_t)i + seed) % KEDGE__COUNT(kinds)];
		lab_resize(&p.lab, i, i % 3 == 2 ? 700 + (uint64_t)i : bytes + 100 * (uint64_t)i + 3);
		numbers_set(&p.lab, i, 0, p.lab.bytes[i]);
	}
	for (int i = 0; i < versions; i++) {
		pair_take(&p);
		edit(&p.lab);
	}
	assert_true(p.packed > bytes / 4);
	pair_done(&p);
}

static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST, KEDGE__REDUCER_TREE};

static void test_lives(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(ids); i++)
		for (uint64_t seed = 0; seed < (much ? 9 : 1); seed++)
			life(ids[i], 16u << (seed + 3 * i) % 9, seed + 2 * i, 9000, 3);
}

/* More than the stage has room for. */
static void test_batches(void **state)
{
	(void)state;
	for (size_t i = 0; i < (much ? KEDGE__COUNT(ids) : 1); i++)
		life(ids[i], 128, 43 + i, much ? UINT64_C(60) << 20 : 150000, 2);
}

/* More regions than a batch has blocks, of all lengths, and some of them empty. */
static void test_many_regions(void **state)
{
	enum { N = 400, MOST = 5000 };
	struct kedge__image_region *here = calloc(N, sizeof(*here)), *there = calloc(N, sizeof(*there));
	struct kedge__gpu_how *hows = calloc(N, sizeof(*hows));
	struct kedge__image a = {here, N}, b = {there, N};
	struct pair p = {.lab = {.seed = 9}};
	kedge__gpu_address at = gpu_take((uint64_t)N * MOST);
	uint8_t *data = malloc((size_t)N * MOST);

	(void)state;
	assert_true(here && there && hows && data);
	pair_begin(&p, KEDGE__REDUCER_BASIC, 64);
	for (uint64_t i = 0; i < N; i++) {
		here[i] = there[i] = (struct kedge__image_region){.base = i << KEDGE__SLOT_SHIFT,
								  .bytes = i % 40 == 7  ? MOST
									   : i % 9 == 4 ? 0
											: draw_below(&p.lab.seed, 700)};
		here[i].data = data + i * MOST;
		there[i].data = (void *)(uintptr_t)(at + i * MOST);
		hows[i] = kinds[i % 2 ? 0 : 1 + i / 2 % 3];
	}
	for (uint64_t version = 0; version < 2; version++) {
		for (uint64_t i = 0; i < (uint64_t)N * MOST; i++)
			data[i] = (uint8_t)(i % 8 ? version : i / 8);
		gpu_put(at, data, (uint64_t)N * MOST);
		images_take(&p, &a, &b, hows);
	}
	kedge__gpu_release(gpu, at, (uint64_t)N * MOST);
	pair_done(&p);
	free(here);
	free(there);
	free(hows);
	free(data);
}

/* Without memory for a stage, literals come as they are, and that is said; they are right. */
static void test_no_room(void **state)
{
	struct pair p = {.lab = {.seed = 3}};

	(void)state;
	pair_begin(&p, KEDGE__REDUCER_BASIC, 64);
	lab_resize(&p.lab, 0, 20000);
	numbers_set(&p.lab, 0, 0, 20000);
	pair_take(&p); /* what the reducer itself needs is there then */
	p.hows[0] = kinds[0];
	gpu->limit = gpu->taken + (1 << 20);
	p.short_of = true;
	for (int i = 0; i < 2; i++) {
		numbers_set(&p.lab, 0, 3000, 15000);
		pair_take(&p);
	}
	assert_int_equal(p.packed, 0);
	gpu->limit = 0;
	pair_done(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lives),
	    cmocka_unit_test(test_batches),
	    cmocka_unit_test(test_many_regions),
	    cmocka_unit_test(test_no_room),
	};

	return cases_run_where(argc, argv, tests, setup, teardown, gpu_here);
}
