/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_large.c: a region of more than 4 GiB. Nearly all of it is untouched zero pages, so that it takes no memory; what
 * is there lies below and above 4 GiB, at places that are the same in 32 bits.
 */
#include "lab.h"

#include <sys/mman.h>

#define GIB4  (UINT64_C(4) << 30)
#define CHUNK UINT64_C(65536)
#define BYTES (GIB4 + 100 * CHUNK + 77)

static struct kedge__extent_map maps[8];
static uint64_t parents[8];

static int load(void *ctx, uint64_t version, const struct kedge__extent_map **map, uint64_t *parent,
		struct kedge__error *err)
{
	(void)ctx, (void)err;
	*map = &maps[version];
	*parent = parents[version];
	return 0;
}

static void reduce(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version, uint8_t *data,
		   struct kedge__reduction *out)
{
	struct kedge__image_region region = {LAB_SLOT(2), data, BYTES};
	struct kedge__image image = {&region, 1};

	assert_int_equal(kedge__reducer_reduce(r, pool, version, &image, NULL, out, NULL), 0);
	kedge__reducer_commit(r);
	maps[version] = tape_map(&out->map);
	parents[version] = out->parent;
}

static void test_beyond_4_gib(void **state)
{
	const struct kedge__map_source source = {load, NULL};
	struct kedge__range all = {LAB_SLOT(2), BYTES};
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, CHUNK);
	struct kedge__reduction red[3];
	struct kedge__span_list spans = {0};
	struct kedge__pool *pool;
	struct lab lab = {.seed = 1};
	uint8_t *data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	assert_true(data != MAP_FAILED);
	assert_int_equal(kedge__pool_new(2, &pool, NULL), 0);
	draw_bytes(&lab.seed, data + 3 * CHUNK, CHUNK);
	draw_bytes(&lab.seed, data + GIB4 + 3 * CHUNK, CHUNK);
	draw_bytes(&lab.seed, data + BYTES - 77, 77);
	reduce(r, pool, 1, data, &red[0]);
	assert_int_equal(red[0].literal_bytes, 2 * CHUNK + 77);
	assert_int_equal(red[0].fill_bytes, BYTES - red[0].literal_bytes);
	assert_int_equal(red[0].map.count, 5 + 1);

	/* what stood above 4 GiB goes below it, and the other way round */
	memcpy(data + 9 * CHUNK, data + GIB4 + 3 * CHUNK, CHUNK);
	memcpy(data + GIB4 + 20 * CHUNK, data + 3 * CHUNK, CHUNK);
	data[GIB4 + 3 * CHUNK] ^= 1;
	reduce(r, pool, 2, data, &red[1]);
	assert_int_equal(red[1].literal_bytes, CHUNK);
	assert_int_equal(red[1].duplicate_bytes, 2 * CHUNK);
	assert_int_equal(kedge__resolve(&source, 2, &all, 1, 0, &spans, NULL, NULL), 0);
	for (size_t i = 0; i < spans.count; i++) {
		const struct kedge__span *s = &spans.at[i];

		if (s->addr == LAB_SLOT(2) + 9 * CHUNK)
			assert_true(!s->fill && s->version == 1 && s->src == CHUNK);
		if (s->addr == LAB_SLOT(2) + GIB4 + 20 * CHUNK)
			assert_true(!s->fill && s->version == 1 && s->src == 0);
		if (s->addr == LAB_SLOT(2) + GIB4 + 3 * CHUNK)
			assert_true(!s->fill && s->version == 2 && s->src == 0);
	}
	assert_int_equal(spans.at[spans.count - 1].addr + spans.at[spans.count - 1].len, LAB_SLOT(2) + BYTES);
	kedge__span_list_done(&spans);
	kedge__reduction_done(&red[0]);
	kedge__reduction_done(&red[1]);
	kedge__extent_map_done(&maps[1]);
	kedge__extent_map_done(&maps[2]);
	kedge__reducer_free(r);
	kedge__pool_free(pool);
	munmap(data, BYTES);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_beyond_4_gib)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
