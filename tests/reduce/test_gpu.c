/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images on a GPU are reduced there, and the result is the same, to the last bit, as that of the same images in memory
 * of the host: two reducers with the same seed live the same life, one of them on the device.
 */
#include "there.h"

#include "reduce/gpu.h"

static const uint8_t seed_bytes[KEDGE__DIGEST_SEED_BYTES] = {3, 1, 4, 1, 5};

static int setup(void **state)
{
	kedge__gpu_wave_slabs = 1;
	return gpu_setup(state);
}

static int teardown(void **state)
{
	return gpu_teardown(state);
}

struct pair {
	struct lab lab;
	struct there there;
	struct kedge__reducer *host, *device;
	uint64_t version, first;
};

/* Versions with duplicates: those whose literals were gathered when all had been found, and before. */
static uint64_t gathered_after, gathered_ahead;

static void pair_begin(struct pair *p, enum kedge__reducer_id id, uint32_t chunk, uint64_t record, uint64_t mask)
{
	struct kedge__reducer_options o = {
	    .id = id, .chunk = chunk, .record_bytes = record, .seed = seed_bytes, .digest_mask = mask};

	assert_int_equal(kedge__reducer_new(&o, &p->host, NULL), 0);
	assert_int_equal(kedge__reducer_new(&o, &p->device, NULL), 0);
	assert_true(kedge__reducer_on_device(p->device));
}

static void pair_done(struct pair *p)
{
	kedge__reducer_free(p->host);
	kedge__reducer_free(p->device);
	there_done(&p->there);
	lab_done(&p->lab);
}

/* Both reduce what the lab has, as VERSION. */
static void pair_take_as(struct pair *p, uint64_t version, bool rollback)
{
	struct kedge__image_region here[LAB_REGIONS], there[LAB_REGIONS];
	struct kedge__image a = {here, lab_image(&p->lab, here)}, b = {there, there_image(&p->there, &p->lab, there)};
	struct kedge__reduce_device device = {.gpu = gpu, .room = pinned_room, .ctx = &p->there};
	struct kedge__reduce_how how = {.device = &device};
	struct kedge__reduction x, y;
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(kedge__reducer_reduce(p->host, NULL, version, &a, NULL, &x, NULL), 0);
	if (kedge__reducer_reduce(p->device, NULL, version, &b, &how, &y, &err))
		fail_msg("%s", kedge__error_text(&err));
	reductions_equal(&x, &y, a.count);
	if (p->device->txn.hits)
		++*(p->device->replicas->streams ? &gathered_ahead : &gathered_after);
	(rollback ? kedge__reducer_rollback : kedge__reducer_commit)(p->host);
	(rollback ? kedge__reducer_rollback : kedge__reducer_commit)(p->device);
	for (int i = 0; !rollback && i < 2; i++) {
		struct kedge__image_key key = {version, {version, 1}};

		kedge__reducer_identify(i ? p->device : p->host, key);
	}
	kedge__reduction_done(&x);
	kedge__reduction_done(&y);
}

static void pair_take(struct pair *p, bool rollback)
{
	pair_take_as(p, ++p->version, rollback);
}

/* Versions from *FIRST on are alive. */
static void pair_retain(struct pair *p)
{
	struct kedge__image_key alive[LAB_VERSIONS];
	size_t n = 0;

	for (uint64_t v = p->first; v <= p->version && n < LAB_VERSIONS; v++)
		alive[n++] = (struct kedge__image_key){v, {v, 1}};
	kedge__reducer_retain(p->host, alive, n);
	kedge__reducer_retain(p->device, alive, n);
}

/* ------------------------------------------------------------------ lives */

static void edit_region(struct lab *lab, int slot, uint32_t chunk)
{
	uint64_t bytes = lab->bytes[slot], n = 1 + draw_below(&lab->seed, 20), len;
	uint8_t *p = lab->data[slot];

	for (uint64_t i = 0; i < n && bytes; i++) {
		uint64_t at = draw_below(&lab->seed, bytes), from = draw_below(&lab->seed, bytes);

		len = draw_below(&lab->seed, 1 + 6 * chunk);
		switch (draw_below(&lab->seed, 8)) {
		case 0: /* elsewhere, by whole chunks */
		case 1:
			at = at / chunk * chunk;
			from = from / chunk * chunk;
			len = len / chunk * chunk + chunk;
			memmove(p + at, p + from, lab_min(len, lab_min(bytes - at, bytes - from)));
			break;
		case 2:
			memset(p + at, (int)draw_below(&lab->seed, 3), lab_min(len, bytes - at));
			break;
		case 3:
			draw_bytes(&lab->seed, p + at, lab_min(len, bytes - at));
			break;
		default:
			p[at] ^= (uint8_t)(1 << draw_below(&lab->seed, 8));
		}
	}
}

/* Anything that a program may do between two versions. */
static void edit(struct pair *p, uint32_t chunk, uint64_t most)
{
	struct lab *lab = &p->lab;
	int slot = (int)draw_below(&lab->seed, LAB_REGIONS);

	switch (draw_below(&lab->seed, 12)) {
	case 0:
		lab_resize(lab, slot, draw_below(&lab->seed, most));
		break;
	case 1:
		lab->present[slot] = false;
		break;
	case 2:
		if (lab->present[slot])
			memset(lab->data[slot], (int)draw_below(&lab->seed, 2), lab->bytes[slot]);
		break;
	case 3:
		if (lab->present[slot])
			draw_bytes(&lab->seed, lab->data[slot], lab->bytes[slot]);
		break;
	case 4: /* as another region */
		for (int i = 0; i < LAB_REGIONS; i++)
			if (i != slot && lab->present[i] && lab->present[slot])
				memcpy(lab->data[slot], lab->data[i], lab_min(lab->bytes[i], lab->bytes[slot]));
		break;
	default:
		for (int i = 0; i < LAB_REGIONS; i++)
			if (lab->present[i] && draw_below(&lab->seed, 3))
				edit_region(lab, i, chunk);
	}
}

static void life(enum kedge__reducer_id id, uint32_t chunk, uint64_t seed, uint64_t record, uint64_t mask, int versions,
		 uint64_t most)
{
	struct pair p = {.lab = {.seed = seed}, .first = 1};

	pair_begin(&p, id, chunk, record, mask);
	lab_resize(&p.lab, 0, most);
	lab_resize(&p.lab, 2, most / 3 + 5);
	for (int i = 0; i < versions; i++) {
		if (p.version && draw_below(&p.lab.seed, 7) == 0) /* once more under the same number */
			pair_take_as(&p, p.version, draw_below(&p.lab.seed, 2) == 0);
		pair_take(&p, draw_below(&p.lab.seed, 7) == 0);
		if (draw_below(&p.lab.seed, 6) == 0) {
			p.first += draw_below(&p.lab.seed, p.version - p.first + 2);
			pair_retain(&p);
		}
		edit(&p, chunk, most);
	}
	pair_done(&p);
}

static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST, KEDGE__REDUCER_TREE,
					     KEDGE__REDUCER_AUTO};

static void test_lives(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(ids); i++)
		for (uint32_t chunk = 16; chunk <= 4096; chunk *= 2)
			life(ids[i], chunk, 100 * i + chunk, LAB_UNLIMITED, 0, LAB_SCALE(10),
			     chunk < 256 ? 16000 : 150000);
	/* Lives that are cut short may have one of them only. */
	assert_true(LAB_SCALE(10) < 10 || (gathered_after && gathered_ahead));
}

/* Records that are full, logs that wrap, digests that collide. */
static void test_small_records(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < (uint64_t)LAB_SCALE(6); i++) {
		life(KEDGE__REDUCER_TREE, 64, 7000 + i, 20000 + 5000 * i, 0, 14, 30000);
		life(KEDGE__REDUCER_LIST, 32, 8000 + i, LAB_UNLIMITED, 0xff, 14, 20000);
	}
}

static void one_region(struct pair *p, const uint8_t *data, uint64_t bytes)
{
	lab_resize(&p->lab, 0, bytes);
	memcpy(p->lab.data[0], data, bytes);
	pair_take(p, false);
}

/* Versions A, B, A; few chunks; every second number negated; zeros. */
static void test_cases_that_others_missed(void **state)
{
	static const uint64_t counts[] = {1, 2, 3, 12, 14, 1000};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(counts); i++) {
		for (size_t k = 0; k < KEDGE__COUNT(ids); k++) {
			uint64_t seed = 5, bytes = counts[i] * 128;
			uint8_t *a = malloc(bytes), *b = malloc(bytes);
			struct pair p = {.lab = {.seed = 1}, .first = 1};

			assert_true(a && b);
			draw_bytes(&seed, a, bytes);
			memcpy(b, a, bytes);
			for (uint64_t w = 1; w < bytes / 8; w += 2)
				b[8 * w + 7] ^= 0x80;
			pair_begin(&p, ids[k], 128, LAB_UNLIMITED, 0);
			one_region(&p, a, bytes);
			one_region(&p, b, bytes);
			one_region(&p, a, bytes);
			memset(a, 0, bytes);
			one_region(&p, a, bytes);
			one_region(&p, b, bytes);
			for (uint64_t c = 1; c < counts[i]; c++) /* full of duplicates */
				memcpy(b + 128 * c, b, 128);
			one_region(&p, b, bytes);
			pair_done(&p);
			free(a);
			free(b);
		}
	}
}

/* On a real device: many slabs, and a version in which all is new. */
static void test_large(void **state)
{
	uint64_t bytes = much ? UINT64_C(200) << 20 : 600000;

	(void)state;
	for (size_t k = 0; k < KEDGE__COUNT(ids); k++)
		life(ids[k], 128, 30 + k, UINT64_C(1) << 30, 0, much ? 8 : 3, bytes);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lives),
	    cmocka_unit_test(test_small_records),
	    cmocka_unit_test(test_cases_that_others_missed),
	    cmocka_unit_test(test_large),
	};

	return cases_run_where(argc, argv, tests, setup, teardown, gpu_here);
}
