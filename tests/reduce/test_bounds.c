/* What a reducer takes of memory: between versions, and while it works. */
#include "lab.h"

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
	for (uint64_t v = 1; v <= 3; v++) {
		struct kedge__reduction red = {0};

		for (size_t i = 0; i < BYTES; i += 8)
			kedge__put64(data + i, (i + v) * UINT64_C(0x9e3779b97f4a7c15));
		assert_int_equal(kedge__reducer_reduce(r, NULL, v, &image, NULL, NULL, &red, NULL), 0);
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
	assert_int_equal(most <= (int64_t)(2 * LIMIT + KEDGE__WORK_BYTES), fit);
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
	bounded(data, KEDGE__REDUCER_LIST, 64, true);
	bounded(data, KEDGE__REDUCER_BASIC, 64, true);
	bounded(data, KEDGE__REDUCER_TREE, 64, false); /* the test can fail */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fit),
	    cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
