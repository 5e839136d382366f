/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reducer takes of memory: between versions, and while it works. */
#include "lab.h"

#include <stdio.h>
#include <sys/mman.h>

#define BYTES ((size_t)64 << 20)
#define LIMIT (UINT64_C(4) << 20)

static struct kedge__reducer *reducer_make(enum kedge__reducer_id id, uint32_t chunk, bool fit)
{
	struct kedge__reducer_options o = {.id = id, .chunk = chunk, .record_bytes = LIMIT};
	struct kedge__reducer *r;

	if (fit)
		o.chunk = kedge__reducer_fit(&o, BYTES);
	assert_true(o.chunk != 0);
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	return r;
}

/* Three versions of an image of noise, each another one; *KEPT: bytes between versions; returns the most at once. */
static int64_t most_of(struct kedge__reducer *r, uint8_t *data, int64_t *kept)
{
	struct kedge__image_region region = {0, data, BYTES};
	struct kedge__image image = {&region, 1};

	*kept = 0;
	for (uint64_t v = 1; v <= (LAB_SANITIZED ? 2 : 3); v++) {
		struct kedge__reduction red = {0};

		for (size_t i = 0; i < BYTES; i += 8)
			kedge__put64(data + i, (i + v) * UINT64_C(0x9e3779b97f4a7c15));
		assert_int_equal(kedge__reducer_reduce(r, NULL, v, &image, NULL, &red, NULL), 0);
		assert_int_equal(red.literal_bytes, BYTES);
		kedge__reduction_done(&red);
		kedge__reducer_commit(r);
		*kept = KEDGE__MAX(*kept, kedge__fault_bytes());
	}
	return kedge__fault_bytes_most();
}

/* Lists that stay from version to version are work space, too. */
static void bounded(uint8_t *data, enum kedge__reducer_id id, uint32_t chunk, bool fit)
{
	struct kedge__reducer *r;
	int64_t most, kept;

	assert_int_equal(kedge__fault_set(NULL, NULL), 0);
	r = reducer_make(id, chunk, fit);
	most = most_of(r, data, &kept);
	assert_int_equal(most <= (int64_t)(LIMIT + KEDGE__WORK_BYTES), fit);
	assert_int_equal(kedge__reducer_memory(r) <= LIMIT, fit);
	if (fit)
		assert_true(kept <= (int64_t)(2 * LIMIT));
	kedge__reducer_free(r);
	assert_int_equal(kedge__fault_bytes(), 0);
}

static void test_bounded(void **state)
{
	uint8_t *data = kedge__map_alloc(BYTES);

	(void)state;
	assert_non_null(data);
	bounded(data, KEDGE__REDUCER_TREE, 64, true);
	if (!LAB_SANITIZED) { /* sizes are the same there, and take minutes */
		bounded(data, KEDGE__REDUCER_LIST, 64, true);
		bounded(data, KEDGE__REDUCER_BASIC, 64, true);
	}
	bounded(data, KEDGE__REDUCER_TREE, 32, false); /* the test can fail */
	kedge__map_free(data, BYTES);
}

/* Where all of a large version is new, its digests take the places of the old ones at once: there are never both. */
static void test_all_new(void **state)
{
	static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_BASIC, KEDGE__REDUCER_TREE, KEDGE__REDUCER_AUTO};
	const uint32_t chunk = 64;
	const int64_t digests = (int64_t)(BYTES / chunk * sizeof(struct kedge__digest));
	uint8_t *data = kedge__map_alloc(BYTES);

	(void)state;
	assert_non_null(data);
	for (size_t i = 0; i < (LAB_SANITIZED ? 1 : KEDGE__COUNT(ids)); i++) {
		struct kedge__reducer_options o = {.id = ids[i], .chunk = chunk, .record_bytes = UINT64_C(1) << 30};
		struct kedge__reducer *r;
		int64_t most, kept;

		assert_int_equal(kedge__fault_set(NULL, NULL), 0);
		assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
		most = most_of(r, data, &kept);
		assert_true(kept >= digests);
		assert_true(most < kept + digests / 2);
		kedge__reducer_free(r);
	}
	kedge__map_free(data, BYTES);
}

static void test_fit(void **state)
{
	struct kedge__reducer_options o = {
	    .id = KEDGE__REDUCER_TREE, .chunk = 256, .record_bytes = UINT64_C(512) << 20};

	(void)state;
	assert_int_equal(kedge__reducer_fit(&o, 0), 256);
	assert_int_equal(kedge__reducer_fit(&o, UINT64_C(2) << 30), 256);
	assert_int_equal(kedge__reducer_fit(&o, (UINT64_C(2) << 30) + 1), 512);
	assert_int_equal(kedge__reducer_fit(&o, UINT64_C(512) << 30), 65536);
	assert_int_equal(kedge__reducer_fit(&o, UINT64_C(513) << 30), 0);
	o.id = KEDGE__REDUCER_REX;
	assert_int_equal(kedge__reducer_fit(&o, UINT64_C(2) << 30), 256);
	assert_int_equal(kedge__reducer_fit(&o, UINT64_C(3) << 30), 0);
	o.id = KEDGE__REDUCER_FULL;
	assert_int_equal(kedge__reducer_fit(&o, UINT64_C(513) << 30), 256);
}

/* Bytes of memory that really are there, by what the kernel says; 0 where it does not, or where a sanitizer's own
 * count. */
static int64_t resident(void)
{
	long long pages = 0;
	FILE *f = LAB_SANITIZED ? NULL : fopen("/proc/self/statm", "r");

	if (!f)
		return 0;
	assert_int_equal(fscanf(f, "%*d %lld", &pages), 1);
	fclose(f);
	return pages * 4096;
}

/* Zeros that nobody wrote take no page, and neither does what is remembered of them. */
static void test_sparse(void **state)
{
	struct kedge__reducer_options o = {
	    .id = KEDGE__REDUCER_TREE, .chunk = 256, .record_bytes = UINT64_C(512) << 20};
	size_t bytes = (size_t)LAB_SCALE(512) << 20;
	uint8_t *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct kedge__image_region region = {0, data, bytes};
	struct kedge__image image = {&region, 1};
	struct kedge__reducer *r;
	int64_t before;

	(void)state;
	assert_ptr_not_equal(data, MAP_FAILED);
	assert_int_equal(madvise(data, bytes, MADV_NOHUGEPAGE), 0);
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	before = resident();
	for (uint64_t v = 1; v <= 3; v++) {
		struct kedge__reduction red = {0};

		if (v > 1)
			data[bytes / 2 + v * 1000] = (uint8_t)v;
		assert_int_equal(kedge__reducer_reduce(r, NULL, v, &image, NULL, &red, NULL), 0);
		assert_true(resident() - before < 24 << 20);
		assert_int_equal(red.literal_bytes, v > 1 ? 256 : 0);
		assert_int_equal(red.fill_bytes, v > 1 ? 0 : bytes);
		kedge__reduction_done(&red);
		kedge__reducer_commit(r);
	}
	kedge__reducer_free(r);
	munmap(data, bytes);
	if (!before)
		skip(); /* all but the memory itself was looked at */
}

/* As another process finds it. */
static void pass_on(struct lab *lab, struct kedge__reducer **r, enum kedge__reducer_id id, uint32_t chunk,
		    uint64_t version)
{
	struct kedge__image_region regions[LAB_REGIONS];
	struct kedge__image image = {regions, lab_image(lab, regions)};

	kedge__reducer_free(*r);
	*r = lab_reducer(id, chunk);
	assert_int_equal(kedge__reducer_prime_view(*r, NULL, version, &image, NULL, NULL, NULL, NULL), 0);
}

#define SLABS 4
#define SLAB  ((uint64_t)256 << 10)

/* A slab, or more or less of it, becomes a constant; a few bytes do not stay one. */
static void flat_edit(struct lab *lab)
{
	uint64_t bytes = lab->bytes[0], slab = draw_below(&lab->seed, SLABS) * SLAB, at = draw_below(&lab->seed, bytes);
	uint64_t pattern = draw_below(&lab->seed, 2) ? 0 : UINT64_C(0x0102030405060708);

	if (draw_below(&lab->seed, 3) == 0) {
		draw_bytes(&lab->seed, lab->data[0] + at, lab_min(bytes - at, 100));
		return;
	}
	for (uint64_t i = slab; i + 8 <= bytes && i < slab + SLAB; i += 8)
		kedge__put64(lab->data[0] + i, pattern);
	if (bytes > slab && bytes < slab + SLAB)
		memcpy(lab->data[0] + bytes / 8 * 8, &pattern, bytes % 8);
}

static void flat_life(enum kedge__reducer_id id, uint32_t chunk, uint64_t seed)
{
	struct kedge__reducer *r = lab_reducer(id, chunk);
	static struct lab lab;

	memset(&lab, 0, sizeof(lab));
	lab.seed = seed;
	lab.present[0] = true;
	lab_resize(&lab, 0, SLABS * SLAB);
	memset(lab.data[0], 0, lab.bytes[0]);
	for (uint64_t v = 1; v <= 24; v++) {
		for (uint64_t n = draw_below(&lab.seed, 4); n; n--)
			flat_edit(&lab);
		if (draw_below(&lab.seed, 4) == 0)
			lab_resize(&lab, 0, 3 * SLAB + draw_below(&lab.seed, 3) * 4096 + draw_below(&lab.seed, 2) * 13);
		if (draw_below(&lab.seed, 5) == 0)
			lab_take(&lab, r, NULL, v, true);
		lab_take(&lab, r, NULL, v, false);
		if (draw_below(&lab.seed, 5) == 0)
			pass_on(&lab, &r, id, chunk, v);
	}
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

static void test_flat(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= LAB_SCALE(12); seed++) {
		flat_life(KEDGE__REDUCER_TREE, 256, seed);
		flat_life(KEDGE__REDUCER_LIST, 4096, seed);
		flat_life(KEDGE__REDUCER_BASIC, 65536, seed);
		flat_life(KEDGE__REDUCER_REX, 64, seed);
		flat_life(KEDGE__REDUCER_AUTO, 1024, seed);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fit),    cmocka_unit_test(test_bounded), cmocka_unit_test(test_all_new),
	    cmocka_unit_test(test_sparse), cmocka_unit_test(test_flat),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
