/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_view.c: images that are seen through a view, beside the same images in memory: no difference is allowed. Where
 * the regions are said to be, no byte can be read, so that whoever looks past the view is caught; and every literal
 * must have been kept.
 */
#include "lab.h"
#include "pipeline/pipeline.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define PAGE     4096
#define LARGEST  ((uint64_t)400 << 10)
#define ROOM     ((uint64_t)2 << 20) /* of a region, in the forbidden memory */
#define VERSIONS (LAB_SCALE(40) / 8 + 3)

struct seen {
	const struct lab *lab;
	int slots[LAB_REGIONS]; /* by number in the image */
	uint8_t *forbidden;
	uint8_t *asked[LAB_REGIONS], *kept[LAB_REGIONS]; /* by slot, a flag a byte */
	uint8_t *copy[LAB_REGIONS];
	bool lends; /* bytes stay where they are */
	bool again; /* they may be asked for more than once */
	atomic_bool twice;
};

static const void *seen_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes, bool all)
{
	struct seen *s = ctx;
	int slot = s->slots[region];

	(void)worker;
	if (offset + bytes > s->lab->bytes[slot])
		return NULL;
	if (!s->again && memchr(s->asked[slot] + offset, 1, bytes))
		atomic_store(&s->twice, true);
	memset(s->asked[slot] + offset, 1, bytes);
	if (all || s->lends) {
		memcpy(s->copy[slot] + offset, s->lab->data[slot] + offset, bytes);
		memset(s->kept[slot] + offset, 1, bytes);
		return s->copy[slot] + offset;
	}
	memcpy(buffer, s->lab->data[slot] + offset, bytes);
	return buffer;
}

static bool seen_keep(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes)
{
	struct seen *s = ctx;
	int slot = s->slots[region];

	(void)worker;
	memcpy(s->copy[slot] + offset, data, bytes);
	memset(s->kept[slot] + offset, 1, bytes);
	return true;
}

static void seen_init(struct seen *s, const struct lab *lab, uint8_t *forbidden, bool lends, bool again)
{
	*s = (struct seen){.lab = lab, .forbidden = forbidden, .lends = lends, .again = again};
	for (int i = 0; i < LAB_REGIONS; i++) {
		s->asked[i] = calloc(1, lab->bytes[i] + 1);
		s->kept[i] = calloc(1, lab->bytes[i] + 1);
		s->copy[i] = calloc(1, lab->bytes[i] + 1);
		assert_true(s->asked[i] && s->kept[i] && s->copy[i]);
	}
}

static void seen_done(struct seen *s)
{
	for (int i = 0; i < LAB_REGIONS; i++) {
		free(s->asked[i]);
		free(s->kept[i]);
		free(s->copy[i]);
	}
}

static struct kedge__image seen_image(struct seen *s, struct kedge__image_region *regions)
{
	struct kedge__image image = {regions, lab_image(s->lab, regions)};

	for (size_t i = 0; i < image.count; i++) {
		s->slots[i] = (int)(regions[i].base >> KEDGE__SLOT_SHIFT);
		regions[i].data = s->forbidden + ROOM * i;
	}
	return image;
}

static void check_literals(const struct seen *s, const struct kedge__literal_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct kedge__literal *l = &list->at[i];
		uint64_t offset = (uint64_t)((const uint8_t *)l->data - (s->forbidden + ROOM * l->region));
		int slot = s->slots[l->region];

		assert_true(offset + l->bytes <= s->lab->bytes[slot]);
		assert_null(memchr(s->kept[slot] + offset, 0, l->bytes));
		assert_memory_equal(s->copy[slot] + offset, s->lab->data[slot] + offset, l->bytes);
	}
}

/* The present state as the version that LIKE is of it. */
static void take(struct seen *s, struct kedge__reducer *r, struct kedge__pool *pool, const struct lab_version *like)
{
	const struct kedge__image_view view = {.get = seen_get, .keep = seen_keep, .ctx = s};
	const struct kedge__reduce_how how = {.view = &view};
	struct kedge__image_region regions[LAB_REGIONS];
	struct kedge__image image = seen_image(s, regions);
	struct kedge__reduction red = {0};

	assert_int_equal(kedge__reducer_reduce(r, pool, like->version, &image, &how, &red, NULL), 0);
	assert_true(tape_same(&red.map, &like->red.map));
	assert_int_equal(red.literal_bytes, like->red.literal_bytes);
	assert_memory_equal(red.region_digests, like->red.region_digests, image.count * sizeof(*red.region_digests));
	assert_false(s->twice);
	check_literals(s, &red.literals);
	kedge__reduction_done(&red);
	kedge__reducer_commit(r);
}

static struct kedge__reducer *reducer_new(enum kedge__reducer_id id, uint32_t chunk, bool paranoid)
{
	struct kedge__reducer_options o = {
	    .id = id, .chunk = chunk, .record_bytes = LAB_UNLIMITED, .paranoid = paranoid};
	struct kedge__reducer *r = NULL;

	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	return r;
}

static void series(enum kedge__reducer_id id, uint32_t chunk, bool paranoid, struct kedge__pool *pool,
		   uint8_t *forbidden)
{
	struct lab lab = {.seed = chunk * 100 + (uint64_t)id};
	struct kedge__reducer *plain = reducer_new(id, chunk, paranoid), *through = reducer_new(id, chunk, paranoid);
	struct seen s;

	lab_resize(&lab, 2, LARGEST);
	memset(lab.data[2] + 100000, 0, 200000); /* constant pages, and those at their ends */
	for (uint64_t v = 1; v <= VERSIONS; v++) {
		for (int i = 0; v > 1 && i < 12; i++)
			lab_edit(&lab, chunk, LARGEST);
		seen_init(&s, &lab, forbidden, v % 4 == 0, paranoid);
		take(&s, through, pool, lab_take(&lab, plain, NULL, v, false));
		seen_done(&s);
	}
	lab_done(&lab);
	kedge__reducer_free(plain);
	kedge__reducer_free(through);
}

static uint8_t *forbidden_new(void)
{
	uint8_t *p = mmap(NULL, ROOM * LAB_REGIONS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void all_reducers(bool paranoid)
{
	static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_FULL, KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST,
						     KEDGE__REDUCER_TREE, KEDGE__REDUCER_AUTO,  KEDGE__REDUCER_REX};
	static const uint32_t chunks[] = {32, 16, 256};
	uint8_t *forbidden = forbidden_new();
	struct kedge__pool *pool = NULL;

	assert_int_equal(kedge__pool_new(2, &pool, NULL), 0);
	for (size_t i = 0; i < KEDGE__COUNT(ids); i++)
		for (size_t k = 0; k < LAB_SCALE(KEDGE__COUNT(chunks)); k++)
			series(ids[i], chunks[k], paranoid, k ? NULL : pool, forbidden);
	kedge__pool_free(pool);
	munmap(forbidden, ROOM * LAB_REGIONS);
}

/* Page I has I + 1 patterns that changed, as far apart as they can be: noise, constants, what was elsewhere in the
 * page, what is elsewhere in the version. */
static void change_pages(struct lab *lab, uint32_t chunk, int way)
{
	uint8_t *data = lab->data[2];
	size_t patterns = PAGE / chunk;

	for (size_t i = 0; i < patterns; i++) {
		uint8_t *page = data + i * PAGE, old[PAGE];

		memcpy(old, page, PAGE);
		for (size_t k = 0; k <= i; k++) {
			size_t at = 2 * k < patterns ? 2 * k : 2 * (patterns - 1 - k) + 1;
			int kind = way < 4 ? way : (int)((i + k) % 4);

			if (kind == 0)
				draw_bytes(&lab->seed, page + at * chunk, chunk);
			else if (kind == 1)
				memset(page + at * chunk, (int)(k % 250) + 1, chunk);
			else if (kind == 2)
				memcpy(page + at * chunk, old + draw_below(&lab->seed, patterns) * chunk, chunk);
			else
				memcpy(page + at * chunk, data + draw_below(&lab->seed, patterns) * PAGE, chunk);
		}
	}
}

static void test_pages_with_any_number_of_changes(void **state)
{
	static const uint32_t chunks[] = {16, 32, 64, 128, 256};
	uint8_t *forbidden = forbidden_new();

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(chunks); i++) {
		struct lab lab = {.seed = i + 1};
		struct kedge__reducer *plain = reducer_new(KEDGE__REDUCER_REX, chunks[i], false);
		struct kedge__reducer *through = reducer_new(KEDGE__REDUCER_REX, chunks[i], false);
		struct seen s;

		lab_resize(&lab, 2, (uint64_t)PAGE * (PAGE / chunks[i]));
		for (int way = -1; way < 6; way++) {
			if (way >= 0)
				change_pages(&lab, chunks[i], way);
			seen_init(&s, &lab, forbidden, false, false);
			take(&s, through, NULL, lab_take(&lab, plain, NULL, (uint64_t)way + 2, false));
			seen_done(&s);
		}
		lab_done(&lab);
		kedge__reducer_free(plain);
		kedge__reducer_free(through);
	}
	munmap(forbidden, ROOM * LAB_REGIONS);
}

/* A view is for one reduction: the next one has its bytes where they are, even if that one was refused. */
static void test_refused(void **state)
{
	const struct kedge__image_view view = {.get = seen_get, .keep = seen_keep};
	const struct kedge__reduce_how how = {.view = &view};
	struct kedge__reducer *r = reducer_new(KEDGE__REDUCER_REX, 32, false);
	struct lab lab = {.seed = 1};
	struct kedge__image_region regions[LAB_REGIONS];
	struct kedge__reduction red = {0};
	struct kedge__image image;

	(void)state;
	lab_resize(&lab, 2, 100000);
	image = (struct kedge__image){regions, lab_image(&lab, regions)};
	assert_int_equal(kedge__reducer_reduce(r, NULL, KEDGE_VERSION_LIMIT, &image, &how, &red, NULL), KEDGE_E_ARG);
	lab_take(&lab, r, NULL, 1, false);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

static void test_once(void **state)
{
	(void)state;
	all_reducers(false);
}

static void test_paranoid(void **state)
{
	(void)state;
	all_reducers(true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_once), cmocka_unit_test(test_paranoid),
					   cmocka_unit_test(test_refused),
					   cmocka_unit_test(test_pages_with_any_number_of_changes)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
