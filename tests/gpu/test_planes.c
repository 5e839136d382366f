/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec planes by the kernels: the same bytes as by the processor, and back. */
#include "gpu_cases.h"

#include "../lib/draw.h"
#include "codec/codec.h"
#include "codec/planes.h"

static const unsigned widths[] = {2, 4, 8};
static const unsigned steps[] = {0,
				 KEDGE__STEP_DELTA,
				 KEDGE__STEP_XOR,
				 KEDGE__STEP_MINUS,
				 KEDGE__STEP_DELTA | KEDGE__STEP_XOR,
				 KEDGE__STEP_DELTA | KEDGE__STEP_MINUS};

enum kind { ZEROS, NOISE, SMALL, WAVES, SPARSE, KINDS };

static void fill(enum kind kind, uint8_t *to, size_t bytes, unsigned width, uint64_t seed)
{
	uint64_t v = 0;

	memset(to, 0, bytes);
	if (kind == NOISE)
		draw_bytes(&seed, to, bytes);
	for (size_t i = 0; i + width <= bytes && kind != NOISE && kind != ZEROS; i += width) {
		if (kind == SMALL)
			v += draw_below(&seed, 9) - 4;
		else if (kind == WAVES)
			v = (UINT64_C(0x3ff0) << 48) + (i * i << 20) + draw_below(&seed, 1 << 12);
		else
			v = draw_below(&seed, 50) ? 0 : draw(&seed);
		memcpy(to + i, (const uint8_t *)&v + (kind == WAVES ? 8 - width : 0), width);
	}
}

struct trial {
	struct kedge__gpu_planes p;
	size_t strips;
	uint8_t *raw, *base, *slots, *packed; /* of the host */
	uint32_t *sizes;
	uint64_t *places;
	kedge__gpu_address d_raw, d_base, d_slots, d_packed, d_sizes, d_places, d_damaged;
};

static void trial_init(struct trial *t, size_t bytes)
{
	t->p.stream = KEDGE__GPU_WORK;
	t->p.bytes = bytes;
	t->strips = (bytes + KEDGE__GPU_STRIP - 1) / KEDGE__GPU_STRIP;
	t->raw = kedge__malloc(bytes);
	t->base = kedge__malloc(bytes);
	t->slots = kedge__malloc(t->strips * KEDGE__GPU_STRIP);
	t->packed = kedge__malloc(t->strips * KEDGE__GPU_STRIP);
	t->sizes = kedge__calloc(t->strips, sizeof(*t->sizes));
	t->places = kedge__calloc(t->strips, sizeof(*t->places));
	t->d_raw = gpu_take(bytes);
	t->d_base = gpu_take(bytes);
	t->d_slots = gpu_take(t->strips * KEDGE__GPU_STRIP);
	t->d_packed = gpu_take(t->strips * KEDGE__GPU_STRIP + 1);
	t->d_sizes = gpu_take(t->strips * sizeof(*t->sizes));
	t->d_places = gpu_take(t->strips * sizeof(*t->places));
	t->d_damaged = gpu_take(4);
}

static void trial_done(struct trial *t)
{
	kedge__gpu_release(gpu, t->d_raw, t->p.bytes);
	kedge__gpu_release(gpu, t->d_base, t->p.bytes);
	kedge__gpu_release(gpu, t->d_slots, t->strips * KEDGE__GPU_STRIP);
	kedge__gpu_release(gpu, t->d_packed, t->strips * KEDGE__GPU_STRIP + 1);
	kedge__gpu_release(gpu, t->d_sizes, t->strips * sizeof(*t->sizes));
	kedge__gpu_release(gpu, t->d_places, t->strips * sizeof(*t->places));
	kedge__gpu_release(gpu, t->d_damaged, 4);
	kedge__free(t->raw);
	kedge__free(t->base);
	kedge__free(t->slots);
	kedge__free(t->packed);
	kedge__free(t->sizes);
	kedge__free(t->places);
}

/* Encoded on the device; every strip is what the processor makes of it. The packed strips, one after the other, to
 * packed, from AT on; returns how many bytes they are. */
static size_t encode(struct trial *t, size_t at)
{
	uint8_t want[KEDGE__GPU_STRIP];
	size_t used = at;

	t->p.sizes = t->d_sizes;
	t->p.base = t->p.steps & KEDGE__STEP_BASE ? t->d_base : 0;
	gpu_put(t->d_raw, t->raw, t->p.bytes);
	gpu_put(t->d_base, t->base, t->p.bytes);
	assert_int_equal(kedge__gpu_planes_encode(gpu, &t->p, t->d_raw, t->d_slots, NULL), 0);
	gpu_get(t->sizes, t->d_sizes, t->strips * sizeof(*t->sizes));
	gpu_get(t->slots, t->d_slots, t->strips * KEDGE__GPU_STRIP);
	for (size_t i = 0; i < t->strips; i++) {
		const uint8_t *raw = t->raw + i * KEDGE__GPU_STRIP, *slot = t->slots + i * KEDGE__GPU_STRIP;
		size_t n = KEDGE__MIN(t->p.bytes - i * KEDGE__GPU_STRIP, KEDGE__GPU_STRIP);
		size_t size =
		    kedge__planes_strip_encode(t->p.steps, t->p.width, raw, t->base + i * KEDGE__GPU_STRIP, n, want);

		if (size != t->sizes[i])
			fail_msg("width %u, steps %u, strip %zu of %zu bytes: %u instead of %zu", t->p.width,
				 t->p.steps, i, n, t->sizes[i], size);
		if (size < n)
			assert_memory_equal(slot, want, size);
		t->places[i] = used;
		memcpy(t->packed + used - at, size < n ? slot : raw, size);
		used += size;
	}
	return used - at;
}

/* Decoded on the device, into memory that had something else; returns the number of damaged strips. */
static uint32_t decode(struct trial *t, size_t at, size_t packed)
{
	uint8_t *got = kedge__malloc(t->p.bytes);
	uint32_t damaged = 0;

	gpu_put(t->d_packed + at, t->packed, packed);
	gpu_put(t->d_places, t->places, t->strips * sizeof(*t->places));
	gpu_put(t->d_sizes, t->sizes, t->strips * sizeof(*t->sizes));
	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, t->d_raw, t->p.bytes, NULL), 0);
	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, t->d_damaged, 4, NULL), 0);
	assert_int_equal(kedge__gpu_planes_decode(gpu, &t->p, t->d_packed, t->d_places, t->d_raw, t->d_damaged, NULL),
			 0);
	gpu_get(got, t->d_raw, t->p.bytes);
	gpu_get(&damaged, t->d_damaged, 4);
	if (!damaged)
		assert_memory_equal(got, t->raw, t->p.bytes);
	kedge__free(got);
	return damaged;
}

static void round_trip(unsigned width, unsigned how, enum kind kind, size_t bytes, size_t at)
{
	struct trial t = {.p = {.width = width, .steps = how}};
	size_t packed;

	trial_init(&t, bytes);
	fill(kind, t.raw, bytes, width, width + how);
	fill(kind, t.base, bytes, width, width + how + 1);
	packed = encode(&t, at);
	assert_int_equal(decode(&t, at, packed), 0);
	trial_done(&t);
}

static void test_kinds(void **state)
{
	(void)state;
	for (size_t w = 0; w < KEDGE__COUNT(widths); w++)
		for (size_t s = 0; s < KEDGE__COUNT(steps); s++)
			for (int kind = 0; kind < KINDS; kind++)
				round_trip(widths[w], steps[s], (enum kind)kind, 16384, 0);
}

/* Strips that are not full, of every number of groups up to some, and packed bytes that begin anywhere. */
static void test_sizes(void **state)
{
	(void)state;
	for (size_t w = 0; w < KEDGE__COUNT(widths); w++) {
		size_t group = 8 * widths[w];

		for (size_t n = group; n <= 40 * group; n += group * (n < 12 * group ? 1 : 7)) {
			round_trip(widths[w], KEDGE__STEP_DELTA, SMALL, n, 0);
			round_trip(widths[w], KEDGE__STEP_MINUS, SPARSE, n, 1);
		}
		round_trip(widths[w], KEDGE__STEP_DELTA, WAVES, 3 * 16384 + 5 * group, 1);
		round_trip(widths[w], KEDGE__STEP_DELTA, SMALL, 16384 - group, 0);
	}
}

static void test_many(void **state)
{
	(void)state;
	for (size_t w = 0; w < KEDGE__COUNT(widths); w++)
		round_trip(widths[w], KEDGE__STEP_DELTA, WAVES, much ? 64u << 20 : 20 * 16384, 0);
}

/* A strip that was damaged is found, or decodes to something: nothing outside of it is touched. */
static void test_damage(void **state)
{
	struct trial t = {.p = {.width = 4, .steps = KEDGE__STEP_DELTA}};
	uint64_t seed = 5;
	size_t packed;
	unsigned found = 0;

	(void)state;
	trial_init(&t, 16384);
	fill(WAVES, t.raw, 16384, 4, 3);
	packed = encode(&t, 0);
	assert_true(packed < 16384);
	gpu_put(t.d_places, t.places, sizeof(*t.places));
	for (int i = 0; i < (much ? 2000 : 60); i++) {
		size_t at = draw_below(&seed, i % 2 ? packed : 40);
		uint8_t was = t.packed[at];
		uint32_t size = t.sizes[0];

		t.packed[at] ^= (uint8_t)(1 + draw_below(&seed, 255));
		if (i % 3 == 0)
			t.sizes[0] = (uint32_t)draw_below(&seed, 20000);
		gpu_put(t.d_packed, t.packed, packed);
		gpu_put(t.d_sizes, t.sizes, 4);
		assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, t.d_damaged, 4, NULL), 0);
		assert_int_equal(
		    kedge__gpu_planes_decode(gpu, &t.p, t.d_packed, t.d_places, t.d_raw, t.d_damaged, NULL), 0);
		gpu_get(&t.sizes[0], t.d_damaged, 4);
		found += t.sizes[0];
		t.sizes[0] = size;
		t.packed[at] = was;
	}
	assert_true(found > 10);
	assert_int_equal(decode(&t, 0, packed), 0);
	trial_done(&t);
}

static void test_refused(void **state)
{
	struct kedge__gpu_planes p = {.width = 1, .bytes = 64};

	(void)state;
	assert_int_equal(kedge__gpu_planes_encode(gpu, &p, 0, 0, NULL), KEDGE_E_ARG);
	p.width = 4;
	p.bytes = 100;
	assert_int_equal(kedge__gpu_planes_encode(gpu, &p, 0, 0, NULL), KEDGE_E_ARG);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kinds),  cmocka_unit_test(test_sizes),   cmocka_unit_test(test_many),
	    cmocka_unit_test(test_damage), cmocka_unit_test(test_refused),
	};

	return cases_run_where(argc, argv, tests, gpu_setup, gpu_teardown, gpu_here);
}
