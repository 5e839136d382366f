/* SPDX-License-Identifier: BSD-3-Clause */
/* What is tried for a region, on how much of it, and when not at all; by blocks that count how often they are read. */
#include "sets.h"
#include "support.h"

#define BLOCK  (64 << 10)
#define BLOCKS 16

struct lab {
	uint8_t *data, *base;
	bool bare;   /* no base can be read */
	size_t gap;  /* the base has nothing for this block */
	size_t last; /* that it was asked for */
	unsigned raw_asked, base_asked, opened;
	struct kedge__codec_planner planner;
	struct kedge__codec_blocks blocks;
	struct kedge__codec_plan plan;
};

static int lab_raw(void *ctx, size_t i, size_t skip, uint8_t *to, const void **raw, size_t *bytes,
		   struct kedge__error *err)
{
	struct lab *l = ctx;

	(void)err;
	assert_true(i < l->blocks.count);
	l->raw_asked++;
	skip = KEDGE__MIN(skip, (size_t)BLOCK);
	*bytes = KEDGE__MIN(*bytes, (size_t)BLOCK - skip);
	memcpy(to, l->data + i * BLOCK + skip, *bytes);
	*raw = to;
	return 0;
}

static bool lab_base_open(void *ctx)
{
	((struct lab *)ctx)->opened++;
	return !((struct lab *)ctx)->bare;
}

static bool lab_base(void *ctx, size_t i, uint8_t *to, size_t bytes)
{
	struct lab *l = ctx;

	assert_true(l->opened > 0 && i < l->blocks.count);
	l->base_asked++;
	l->last = i;
	if (i == l->gap)
		return false;
	memcpy(to, l->base + i * BLOCK, bytes);
	return true;
}

/* Noise that differs from the base in few bits: it packs with the base, and not without. */
static void lab_open(struct lab *l, const char *codec, struct kedge__codec_memory *memory)
{
	struct kedge__codec_choice wanted;
	uint64_t seed = 1;

	*l = (struct lab){
	    .data = malloc((size_t)BLOCK * BLOCKS), .base = malloc((size_t)BLOCK * BLOCKS), .gap = SIZE_MAX};
	l->blocks = (struct kedge__codec_blocks){.ctx = l,
						 .count = BLOCKS,
						 .bytes = (uint64_t)BLOCK * BLOCKS,
						 .depends = true,
						 .raw = lab_raw,
						 .base_open = lab_base_open,
						 .base = lab_base};
	assert_true(l->data && l->base);
	draw_bytes(&seed, l->base, (size_t)BLOCK * BLOCKS);
	for (size_t i = 0; i < (size_t)BLOCK * BLOCKS; i++)
		l->data[i] = l->base[i] ^ (i % 64 == 0);
	assert_true(choice_of(codec, &wanted));
	wanted.target = wanted.automatic ? 1e6 : 0; /* so that size decides */
	wanted.pace = kedge__codec_pace_built_in;
	assert_int_equal(kedge__codec_planner_init(&l->planner, &wanted, memory, NULL), 0);
}

static void lab_close(struct lab *l)
{
	kedge__codec_planner_done(&l->planner);
	free(l->data);
	free(l->base);
}

/* "auto", with a memory of earlier versions. */
static void remembering_open(struct lab *l, struct kedge__codec_memory **memory)
{
	assert_int_equal(kedge__codec_memory_new(memory, NULL), 0);
	lab_open(l, "auto", *memory);
}

static void remembering_close(struct lab *l, struct kedge__codec_memory *memory)
{
	lab_close(l);
	kedge__codec_memory_free(memory);
}

static void make(struct lab *l)
{
	const struct kedge__codec_region region = {.id = 5, .type = KEDGE_BYTES, .bytes = (uint64_t)BLOCK * BLOCKS};

	l->raw_asked = l->base_asked = l->opened = 0;
	assert_int_equal(kedge__codec_plan_make(&l->planner, &region, &l->blocks, &l->plan, NULL), 0);
	assert_true(l->plan.made);
}

/* A codec that was named is not sampled. If the base cannot be read, blocks are packed without it. */
static void test_given(void **state)
{
	struct lab l;

	(void)state;
	lab_open(&l, "xor+zstd", NULL);
	make(&l);
	assert_int_equal(l.raw_asked + l.base_asked, 0);
	assert_true(kedge__codec_plan_packs(&l.plan) && kedge__codec_plan_wants_base(&l.plan));
	assert_int_equal(l.plan.why.reason, KEDGE__CODEC_GIVEN);
	l.bare = true;
	make(&l);
	assert_true(kedge__codec_plan_packs(&l.plan) && !kedge__codec_plan_wants_base(&l.plan));
	l.blocks.base_open = NULL;
	make(&l);
	assert_false(kedge__codec_plan_wants_base(&l.plan));
	lab_close(&l);
	lab_open(&l, "none", NULL);
	make(&l);
	assert_false(kedge__codec_plan_packs(&l.plan) || kedge__codec_choice_packs(&l.planner.wanted));
	lab_close(&l);
}

static bool there(const char *codec, enum kedge_type type, const struct kedge__codec_memory *memory,
		  struct kedge__codec_plan *plan)
{
	const struct kedge__codec_region region = {.id = 5, .type = type, .bytes = (uint64_t)BLOCK * BLOCKS};
	struct kedge__codec_choice wanted;

	assert_int_equal(kedge__codec_choice_parse(codec, &wanted, NULL), 0);
	wanted.target = wanted.automatic ? 100e9 : 0;
	wanted.bus = KEDGE__CODEC_BUS;
	return kedge__codec_plan_there(&wanted, memory, &region, plan);
}

/* A region on a GPU is packed there by what was named, if there is a kernel for it, and by what was settled on before,
 * for which no bytes are looked at. */
static void test_there(void **state)
{
	static const char *const not_there[] = {"none",  "zstd",     "shuffle+lz4", "xor+planes", "minus+planes",
						"field", "planes:1", "max",         "auto"};
	struct kedge__codec_memory *memory;
	struct kedge__codec_plan plan;
	struct lab l;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(not_there); i++)
		assert_false(there(not_there[i], KEDGE_F32, NULL, &plan));
	assert_false(there("planes", KEDGE_BYTES, NULL, &plan));
	assert_true(there("planes", KEDGE_F32, NULL, &plan) && plan.made && plan.why.reason == KEDGE__CODEC_GIVEN);
	assert_true(there("delta+planes:8", KEDGE_BYTES, NULL, &plan) && there("lz4", KEDGE_BYTES, NULL, &plan));
	assert_int_equal(kedge__codec_memory_new(&memory, NULL), 0);
	assert_false(there("auto", KEDGE_BYTES, memory, &plan));
	for (int base = 0; base < 2; base++) {
		const struct kedge__codec_region region = {
		    .id = 5, .type = KEDGE_F32, .bytes = (uint64_t)BLOCK * BLOCKS};

		lab_open(&l, "auto", memory);
		l.planner.wanted.target = 100e9;
		l.planner.wanted.bus = KEDGE__CODEC_BUS;
		l.blocks.depends = base;
		for (size_t i = 0; i < (size_t)BLOCK * BLOCKS / 4; i++) {
			float f = 1 + (float)(i % 1000) / 8192;

			memcpy(l.data + 4 * i, &f, 4);
		}
		if (!base)
			assert_false(there("auto", KEDGE_F32, memory, &plan));
		assert_int_equal(kedge__codec_plan_make(&l.planner, &region, &l.blocks, &l.plan, NULL), 0);
		assert_true(l.plan.choice.there);
		l.raw_asked = 0;
		for (uint32_t age = 1; age < 16; age++) {
			assert_true(there("auto", KEDGE_F32, memory, &plan) && !plan.doubted);
			assert_int_equal(plan.why.age, age);
			assert_int_equal(kedge__codec_plan_follow(&l.planner, &region, &l.blocks, &plan, NULL), 0);
		}
		assert_int_equal(l.raw_asked, 0);
		/* The look was too long ago: the next one is for later versions. */
		assert_true(there("auto", KEDGE_F32, memory, &plan) && plan.doubted);
		assert_int_equal(kedge__codec_plan_follow(&l.planner, &region, &l.blocks, &plan, NULL), 0);
		assert_true(l.raw_asked > 0);
		assert_true(there("auto", KEDGE_F32, memory, &plan) && !plan.doubted && plan.why.age == 1);
		lab_close(&l);
	}
	kedge__codec_memory_free(memory);
}

/* A base is taken where it helps; not by a version that needs no other, nor for little, nor where a part lacks it. */
static void test_base(void **state)
{
	struct lab l;

	(void)state;
	lab_open(&l, "max", NULL);
	assert_true(kedge__codec_choice_packs(&l.planner.wanted));
	make(&l);
	assert_int_equal(l.raw_asked, 8);
	assert_int_equal(l.base_asked, 8);
	assert_true(kedge__codec_plan_wants_base(&l.plan));
	l.gap = l.last;
	make(&l);
	assert_true(!kedge__codec_plan_wants_base(&l.plan) && !kedge__codec_plan_packs(&l.plan));
	l.gap = SIZE_MAX;
	l.blocks.depends = false;
	make(&l);
	assert_true(!l.opened && !l.base_asked && !kedge__codec_plan_wants_base(&l.plan));
	l.blocks.depends = true;
	l.blocks.count = 3;
	l.blocks.bytes = 3 * BLOCK;
	make(&l);
	assert_true(!l.opened && l.raw_asked <= 3 && !kedge__codec_plan_wants_base(&l.plan));
	l.blocks.count = 4;
	l.blocks.bytes = 4 * BLOCK;
	make(&l);
	assert_true(l.opened && l.base_asked == 4);
	lab_close(&l);
}

/* Later versions take two samples instead of eight, until the data is not what it was. */
static void test_remembered(void **state)
{
	struct kedge__codec_memory *memory;
	uint64_t seed = 7;
	struct lab l;

	(void)state;
	remembering_open(&l, &memory);
	make(&l);
	assert_int_equal(l.raw_asked, 8);
	make(&l);
	assert_true(l.raw_asked == 2 && l.base_asked == 2 && l.plan.why.age == 1);
	assert_true(kedge__codec_plan_wants_base(&l.plan));
	/* What samples cannot check is left as it is. */
	l.bare = true;
	make(&l);
	assert_true(l.raw_asked == 2 && !l.base_asked && l.plan.why.age == 2 && !kedge__codec_plan_wants_base(&l.plan));
	l.bare = false;
	draw_bytes(&seed, l.data, (size_t)BLOCK * BLOCKS);
	make(&l);
	assert_true(l.raw_asked == 2 + 8 && l.plan.why.age == 0 && !kedge__codec_plan_packs(&l.plan));
	/* That nothing is worth it is checked, too. */
	make(&l);
	assert_true(l.raw_asked == 2 && l.plan.why.age == 1);
	memset(l.data, 'x', (size_t)BLOCK * BLOCKS);
	make(&l);
	assert_true(l.raw_asked == 2 + 8 && kedge__codec_plan_packs(&l.plan));
	remembering_close(&l, memory);
}

/* Blocks that repeat themselves further away than samples are long are checked as a whole; so is whether data has
 * become like that. */
static void test_far_repeats_are_remembered(void **state)
{
	struct kedge__codec_memory *memory;
	uint64_t seed = 8;
	struct lab l;

	(void)state;
	remembering_open(&l, &memory);
	l.blocks.depends = false;
	draw_bytes(&seed, l.data, (size_t)BLOCK * BLOCKS);
	make(&l);
	assert_true(!kedge__codec_plan_packs(&l.plan) && !l.plan.why.far);
	fill_tiles(l.data, (size_t)BLOCK * BLOCKS, 9);
	make(&l);
	assert_true(l.raw_asked == 2 + 8 && kedge__codec_plan_packs(&l.plan) && l.plan.why.far);
	for (uint32_t age = 1; age <= 3; age++) {
		make(&l);
		assert_true(l.raw_asked == 2 && l.plan.why.age == age && kedge__codec_plan_packs(&l.plan));
	}
	draw_bytes(&seed, l.data, (size_t)BLOCK * BLOCKS);
	make(&l);
	assert_true(l.raw_asked == 2 + 8 && !kedge__codec_plan_packs(&l.plan) && !l.plan.why.far);
	remembering_close(&l, memory);
}

/* What blocks become makes the next look a close one, if it changes; those that found no base do not count. */
static void test_learns(void **state)
{
	struct kedge__codec_memory *memory;
	struct kedge__codec_choice with_base;
	uint16_t with, param, none = KEDGE__CODEC_NONE;
	struct lab l;
	uint8_t *out = malloc(BLOCK);
	size_t used;

	(void)state;
	assert_true(out && choice_of("xor+zstd", &with_base));
	remembering_open(&l, &memory);
	assert_int_equal(kedge__block_pack(&with_base, &(struct kedge__codec_input){l.data, BLOCK, KEDGE_BYTES, l.base},
					   out, &used, &with, &param, NULL),
			 0);
	for (int version = 0; version < 3; version++) {
		make(&l);
		assert_int_equal(l.plan.why.age, version);
		kedge__codec_plan_count(&l.plan, with, param, 1 << 20, 1 << 17);
		kedge__codec_plan_count(&l.plan, none, 0, (uint64_t)1 << 20 << version, (uint64_t)1 << 20 << version);
		assert_true(l.plan.raw == 1 << 20 && l.plan.stored == 1 << 17);
		kedge__codec_plan_learn(&l.planner, &l.plan);
	}
	make(&l);
	kedge__codec_plan_count(&l.plan, with, param, 1 << 20, 1 << 19);
	kedge__codec_plan_learn(&l.planner, &l.plan);
	make(&l);
	assert_int_equal(l.plan.why.age, 0);
	remembering_close(&l, memory);
	free(out);
}

/* A plan for region ID, called NAME, of one block; how often bytes were asked for. */
static unsigned make_small(struct lab *l, uint32_t id, const char *name)
{
	const struct kedge__codec_region region = {.id = id, .name = name, .type = KEDGE_F32, .bytes = BLOCK};

	l->raw_asked = 0;
	assert_int_equal(kedge__codec_plan_make(&l->planner, &region, &l->blocks, &l->plan, NULL), 0);
	return l->raw_asked;
}

static void begin(struct lab *l)
{
	struct kedge__codec_memory *memory = l->planner.memory;
	const struct kedge__codec_choice wanted = l->planner.wanted;

	kedge__codec_planner_done(&l->planner);
	assert_int_equal(kedge__codec_planner_init(&l->planner, &wanted, memory, NULL), 0);
}

static void kinds_open(struct lab *l, struct kedge__codec_memory **memory)
{
	remembering_open(l, memory);
	l->blocks.count = 1;
	l->blocks.bytes = BLOCK;
	l->blocks.depends = false;
	fill_pattern(WAVES32, l->data, BLOCK);
}

/* Regions whose names differ only in numbers are of one kind, and only one of them is sampled. Those with another name,
 * type or size are of another kind. */
static void test_kinds(void **state)
{
	struct kedge__codec_memory *memory;
	struct lab l;
	char name[32];

	(void)state;
	kinds_open(&l, &memory);
	assert_int_equal(make_small(&l, 0, "grid0/density"), 1);
	assert_int_equal(l.plan.choice.codec->id, KEDGE__CODEC_FIELD);
	for (uint32_t id = 1; id < 50; id++) {
		snprintf(name, sizeof(name), "grid%u/density", id * 7);
		assert_int_equal(make_small(&l, id, name), 0);
		assert_int_equal(l.plan.why.reason, KEDGE__CODEC_BORROWED);
		assert_int_equal(l.plan.choice.codec->id, KEDGE__CODEC_FIELD);
	}
	assert_int_equal(make_small(&l, 50, "grid0/energy"), 1);
	assert_int_equal(make_small(&l, 51, "grid12/energy"), 0);
	/* In later versions, too, of regions that are new, until the look is too long ago. */
	for (uint32_t version = 1; version < 16; version++) {
		begin(&l);
		assert_int_equal(make_small(&l, 100 + version, "grid99/density"), 0);
	}
	begin(&l);
	assert_int_equal(make_small(&l, 200, "grid99/density"), 1);
	remembering_close(&l, memory);
}

/* A region that packs to another size than its kind is sampled by itself in the next version. */
static void test_strangers(void **state)
{
	struct kedge__codec_memory *memory;
	struct lab l;

	(void)state;
	kinds_open(&l, &memory);
	assert_int_equal(make_small(&l, 1, "v1"), 1);
	assert_int_equal(make_small(&l, 2, "v2"), 0);
	kedge__codec_plan_count(&l.plan, KEDGE__CODEC_FIELD, 0, BLOCK, (uint64_t)(BLOCK * l.plan.why.size));
	kedge__codec_plan_learn(&l.planner, &l.plan);
	assert_int_equal(make_small(&l, 3, "v3"), 0);
	kedge__codec_plan_count(&l.plan, KEDGE__CODEC_NONE, 0, BLOCK, BLOCK);
	kedge__codec_plan_learn(&l.planner, &l.plan);
	begin(&l);
	assert_int_equal(make_small(&l, 2, "v2"), 0);
	fill_pattern(RANDOM, l.data, BLOCK);
	assert_int_equal(make_small(&l, 3, "v3"), 1);
	assert_false(kedge__codec_plan_packs(&l.plan));
	begin(&l);
	assert_int_equal(make_small(&l, 3, "v3"), 0);
	assert_false(kedge__codec_plan_packs(&l.plan));
	assert_int_equal(make_small(&l, 4, "v4"), 0);
	assert_true(kedge__codec_plan_packs(&l.plan));
	remembering_close(&l, memory);
}

/* The more bytes a kind has to pack, the more closely its first region is sampled. */
static void test_many_are_worth_a_look(void **state)
{
	const struct kedge__codec_region region = {.name = "cell0", .type = KEDGE_F32, .bytes = BLOCK};
	struct kedge__codec_memory *memory;
	uint64_t one;
	struct lab l;

	(void)state;
	kinds_open(&l, &memory);
	l.planner.spare = 0;
	assert_int_equal(make_small(&l, 1, "other"), 1);
	one = l.plan.why.tried * l.plan.why.sampled_bytes;
	for (int i = 0; i < 100; i++)
		kedge__codec_planner_expect(&l.planner, &region, &l.blocks);
	assert_int_equal(make_small(&l, 2, "cell17"), 1);
	assert_true(l.plan.why.tried * l.plan.why.sampled_bytes > 2 * one);
	remembering_close(&l, memory);
}

/* A small array gets its samples all the same if there are few such arrays, but not if there are many. */
static void test_lone_array(void **state)
{
	enum { BYTES = 9200, MANY = 200 };
	struct kedge__codec_memory *memory;
	uint64_t seed = 3;
	uint32_t tried = 0;
	struct lab l;

	(void)state;
	remembering_open(&l, &memory);
	for (size_t i = 0; i < BYTES; i += 8) /* addresses of things of 16 bytes */
		kedge__put64(l.data + i, UINT64_C(0x7f0000000000) + 16 * (draw(&seed) % (1 << 22)));
	l.blocks = (struct kedge__codec_blocks){.ctx = &l, .count = 1, .bytes = BYTES, .raw = lab_raw};
	for (uint32_t i = 0; i < MANY; i++) {
		char name[2] = {(char)(' ' + i % 90), 0};
		const struct kedge__codec_region region = {
		    .id = i, .name = name, .type = (enum kedge_type)(i % 2 ? KEDGE_U64 : KEDGE_F64), .bytes = BYTES};

		assert_int_equal(kedge__codec_plan_make(&l.planner, &region, &l.blocks, &l.plan, NULL), 0);
		if (i == 1) {
			assert_true(l.plan.why.tried > 6);
			assert_int_not_equal(l.plan.why.reason, KEDGE__CODEC_UNTRIED);
		}
		tried += l.plan.why.reason != KEDGE__CODEC_BORROWED && l.plan.why.tried > 6;
	}
	assert_true(tried < 40);
	remembering_close(&l, memory);
}

/* Blocks are joined where numbers have echoes, as many to each, nearly, and only where that is allowed. */
static void test_joint(void **state)
{
	enum { NUMBERS = BLOCK * BLOCKS / 8 };
	const struct kedge__codec_region region = {
	    .id = 5, .type = KEDGE_F64, .bytes = (uint64_t)BLOCK * BLOCKS, .ndims = 1, .dims = (uint64_t[]){NUMBERS}};
	static const struct {
		const char *codec;
		bool joins, mirrored, joint;
	} cases[] = {{"auto", true, true, true},
		     {"auto", true, false, false},
		     {"auto", false, true, false},
		     {"field", true, true, false},
		     {"echo", true, false, true}};

	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(cases); c++) {
		uint64_t seed = 9;
		struct lab l;

		lab_open(&l, cases[c].codec, NULL);
		l.blocks.joins = cases[c].joins;
		l.blocks.base_open = NULL;
		for (size_t i = 0; i < NUMBERS; i++) {
			uint64_t v = UINT64_C(0x3ff0000000000000) + (i << 34) + (draw(&seed) >> 26);

			if (cases[c].mirrored && i >= NUMBERS / 2)
				v = kedge__get64(l.data + 8 * (NUMBERS - 1 - i)) + i % 3;
			kedge__put64(l.data + 8 * i, v);
		}
		assert_int_equal(kedge__codec_plan_make(&l.planner, &region, &l.blocks, &l.plan, NULL), 0);
		assert_int_equal(l.plan.joint, cases[c].joint ? BLOCKS : 0);
		assert_int_equal(l.plan.choice.codec->id, cases[c].joint ? KEDGE__CODEC_ECHO : KEDGE__CODEC_FIELD);
		lab_close(&l);
	}
}

/* What packs a part of a block may give nothing on all of it: the choice is made by what blocks become. */
struct whole {
	uint8_t *data;
	size_t block, bytes;
};

static int whole_raw(void *ctx, size_t i, size_t skip, uint8_t *to, const void **raw, size_t *bytes,
		     struct kedge__error *err)
{
	const struct whole *w = ctx;

	(void)err;
	*bytes = KEDGE__MIN(*bytes, w->block - skip);
	*raw = memcpy(to, w->data + i * w->block + skip, *bytes);
	return 0;
}

static double whole_share(const struct whole *w, const struct kedge__codec_choice *choice)
{
	uint8_t *out = malloc(w->block);
	size_t sum = 0;

	assert_non_null(out);
	for (size_t at = 0; at < w->bytes; at += w->block) {
		const struct kedge__codec_input in = {.raw = w->data + at, .bytes = w->block, .type = KEDGE_BF16};
		uint16_t codec, param;
		size_t used = w->block;

		(void)kedge__block_pack(choice, &in, out, &used, &codec, &param, NULL);
		sum += used;
	}
	free(out);
	return (double)sum / (double)w->bytes;
}

/* A plan for all of it, by the built-in speeds. */
static struct kedge__codec_plan whole_plan(struct whole *w, enum kedge_type type)
{
	const struct kedge__codec_region region = {.id = 1, .name = "w", .type = type, .bytes = w->bytes};
	const struct kedge__codec_blocks blocks = {
	    .ctx = w, .count = w->bytes / w->block, .bytes = w->bytes, .raw = whole_raw};
	struct kedge__codec_planner planner;
	struct kedge__codec_choice wanted;
	struct kedge__codec_plan plan = {0};

	assert_true(choice_of("auto", &wanted));
	wanted.pace = kedge__codec_pace_built_in;
	assert_int_equal(kedge__codec_planner_init(&planner, &wanted, NULL, NULL), 0);
	assert_int_equal(kedge__codec_plan_make(&planner, &region, &blocks, &plan, NULL), 0);
	kedge__codec_planner_done(&planner);
	return plan;
}

static void test_whole_blocks(void **state)
{
	struct whole w = {.block = 128 << 10, .bytes = 2 << 20};

	(void)state;
	w.data = malloc(w.bytes);
	assert_non_null(w.data);
	for (uint64_t seed = 11; seed < 31; seed++) {
		struct kedge__codec_plan plan;

		fill_weights16(w.data, w.bytes, seed);
		plan = whole_plan(&w, KEDGE_BF16);
		assert_true(whole_share(&w, &plan.choice) < 0.8);
	}
	free(w.data);
}

/* Every PERIOD-th block is zeros, and the others are noise: what is periodic must not be taken for one of its phases.
 */
static void test_periods(void **state)
{
	struct whole w = {.block = 32 << 10, .bytes = 2 << 20};

	(void)state;
	w.data = malloc(w.bytes);
	assert_non_null(w.data);
	for (size_t period = 2; period <= 8; period *= 2) {
		fill_noise(w.data, w.bytes, period);
		for (size_t i = 0; i < w.bytes / w.block; i += period)
			memset(w.data + i * w.block, 0, w.block);
		assert_true(whole_plan(&w, KEDGE_F64).why.size > 0.2);
	}
	free(w.data);
}

/* Noise, which no other codec packs, has its echo in the other half. */
static void test_echoes_of_noise(void **state)
{
	enum { NUMBERS = BLOCK * BLOCKS / 8 };
	const struct kedge__codec_region region = {
	    .id = 5, .type = KEDGE_F64, .bytes = (uint64_t)BLOCK * BLOCKS, .ndims = 1, .dims = (uint64_t[]){NUMBERS}};

	(void)state;
	for (int copied = 0; copied < 2; copied++) {
		uint64_t seed = 4;
		struct lab l;

		lab_open(&l, "auto", NULL);
		l.blocks.joins = true;
		l.blocks.base_open = NULL;
		draw_bytes(&seed, l.data, (size_t)BLOCK * BLOCKS);
		if (copied)
			memcpy(l.data + BLOCK * BLOCKS / 2, l.data, BLOCK * BLOCKS / 2);
		assert_int_equal(kedge__codec_plan_make(&l.planner, &region, &l.blocks, &l.plan, NULL), 0);
		assert_int_equal(l.plan.joint, copied ? BLOCKS : 0);
		assert_int_equal(l.plan.choice.codec->id, copied ? KEDGE__CODEC_ECHO : KEDGE__CODEC_NONE);
		lab_close(&l);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_given),
	    cmocka_unit_test(test_there),
	    cmocka_unit_test(test_base),
	    cmocka_unit_test(test_remembered),
	    cmocka_unit_test(test_far_repeats_are_remembered),
	    cmocka_unit_test(test_learns),
	    cmocka_unit_test(test_kinds),
	    cmocka_unit_test(test_strangers),
	    cmocka_unit_test(test_many_are_worth_a_look),
	    cmocka_unit_test(test_lone_array),
	    cmocka_unit_test(test_joint),
	    cmocka_unit_test(test_whole_blocks),
	    cmocka_unit_test(test_echoes_of_noise),
	    cmocka_unit_test(test_periods),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
