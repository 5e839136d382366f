/* SPDX-License-Identifier: BSD-3-Clause */
#include "support.h"

#include <sys/mman.h>

static void sizes_of_zero_give_memory(void **state)
{
	void *a = kedge__malloc(0), *b = kedge__calloc(0, 8), *c = kedge__realloc(NULL, 0);
	void *d = kedge__map_alloc(0);

	(void)state;
	assert_non_null(a);
	assert_non_null(b);
	assert_non_null(c);
	assert_non_null(d);
	a = kedge__realloc(a, 0);
	assert_non_null(a);
	kedge__free(a);
	kedge__free(b);
	kedge_free(c);
	kedge__map_free(d, 0);
	kedge__map_free(NULL, 10);
}

static void overflow_is_refused(void **state)
{
	char *p = kedge__malloc(3);
	void *at = p;
	size_t room = 3;

	(void)state;
	/* Products that wrap around to a few bytes. */
	assert_null(kedge__reallocarray(p, SIZE_MAX / 8 + 2, 8));
	assert_null(kedge__reallocarray(p, 8, SIZE_MAX / 8 + 2));
	assert_false(kedge__array_grow(&at, &room, SIZE_MAX / 16 + 2, 16));
	assert_ptr_equal(at, p);
	assert_int_equal(room, 3);
	kedge__free(p);
}

static void array_grows(void **state)
{
	KEDGE__ARRAY(uint32_t) list = {0};

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		assert_true(kedge__array_push(&list, i * 3));
	assert_int_equal(list.count, 1000);
	assert_true(list.room >= 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(list.at[i], i * 3);
	kedge__array_done(&list);
	assert_null(list.at);
	assert_int_equal(list.count, 0);
}

static void array_unchanged_when_memory_runs_out(void **state)
{
	KEDGE__ARRAY(int) list = {0};

	(void)state;
	while (list.count < 8)
		assert_true(kedge__array_push(&list, 7));
	assert_int_equal(list.room, 8);
	kedge__fault_set("alloc@1", NULL);
	assert_false(kedge__array_push(&list, 8));
	assert_int_equal(list.count, 8);
	assert_int_equal(list.at[7], 7);
	assert_true(kedge__array_push(&list, 8));
	assert_int_equal(list.at[8], 8);
	kedge__fault_set(NULL, NULL);
	kedge__array_done(&list);
}

static void every_kind_of_allocation_can_fail(void **state)
{
	void *p = kedge__malloc(1);

	(void)state;
	kedge__fault_set("alloc@1+", NULL);
	assert_null(kedge__malloc(1));
	assert_null(kedge__calloc(1, 1));
	assert_null(kedge__realloc(p, 2));
	assert_null(kedge__reallocarray(p, 2, 2));
	assert_null(kedge__strdup("x"));
	assert_null(kedge__asprintf("%d", 1));
	assert_null(kedge__map_alloc(1));
	assert_null(kedge__map_grow(p, 1, 2));
	assert_int_equal(kedge__fault_alloc_count(), 8);
	kedge__fault_set(NULL, NULL);
	kedge__free(p);
}

static void asprintf_of_any_length(void **state)
{
	char *text = kedge__asprintf("%*d", 5000, 7);

	(void)state;
	assert_int_equal(strlen(text), 5000);
	assert_int_equal(text[4999], '7');
	kedge__free(text);
}

static void map_is_aligned_and_zero(void **state)
{
	const size_t n = ((size_t)3 << 20) + 5;
	unsigned char *p = kedge__map_alloc(n);

	(void)state;
	assert_non_null(p);
	assert_int_equal((uintptr_t)p % 4096, 0);
	assert_int_equal(p[0] | p[n / 2] | p[n - 1], 0);
	memset(p, 1, n);
	kedge__map_free(p, n);
	assert_null(kedge__map_alloc(SIZE_MAX / 2));
}

static void map_grows_and_keeps_its_contents(void **state)
{
	const size_t n = ((size_t)1 << 20) + 5, more = (size_t)9 << 20;
	unsigned char *p = kedge__map_alloc(n), *grown;

	(void)state;
	memset(p, 7, n);
	assert_null(kedge__map_grow(p, n, SIZE_MAX / 2));
	assert_int_equal(p[n - 1], 7);
	grown = kedge__map_grow(p, n, more);
	assert_non_null(grown);
	assert_int_equal(grown[0], 7);
	assert_int_equal(grown[n - 1], 7);
	for (size_t i = n; i < more; i++)
		assert_int_equal(grown[i], 0);
	memset(grown, 1, more);
	kedge__map_free(grown, more);
}

/* With pages that can go and without, and nothing else changes. */
static void cleared_memory_is_zero(void **state)
{
	static const size_t sizes[] = {0, 1, 4095, 4096, 5000, 40000};
	static const int kinds[] = {MAP_PRIVATE, MAP_SHARED};
	size_t bytes = 65536;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sizes) * KEDGE__COUNT(kinds); i++) {
		size_t n = sizes[i / 2], from = 4096 - i;
		uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kinds[i % 2] | MAP_ANONYMOUS, -1, 0);

		assert_ptr_not_equal(p, MAP_FAILED);
		memset(p, 1, bytes);
		kedge__memory_clear(p + from, n);
		for (size_t at = 0; at < bytes; at++)
			assert_int_equal(p[at], at < from || at >= from + n);
		munmap(p, bytes);
	}
}

static void type_sizes(void **state)
{
	(void)state;
	assert_int_equal(kedge_type_size(KEDGE_BYTES), 1);
	assert_int_equal(kedge_type_size(KEDGE_BF16), 2);
	assert_int_equal(kedge_type_size(KEDGE_F64), 8);
	assert_int_equal(kedge_type_size(KEDGE_C128), 16);
	assert_int_equal(kedge_type_size(KEDGE_TYPE_COUNT), 0);
	assert_int_equal(kedge_type_size((enum kedge_type) - 1), 0);
	for (int t = 0; t < KEDGE_TYPE_COUNT; t++)
		assert_true(kedge_type_size((enum kedge_type)t) > 0);
}

static void version_text(void **state)
{
	char text[64];

	(void)state;
	snprintf(text, sizeof(text), "%d.%d.%d", KEDGE_VERSION_MAJOR, KEDGE_VERSION_MINOR, KEDGE_VERSION_PATCH);
	assert_string_equal(kedge_version_string(), text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sizes_of_zero_give_memory),
	    cmocka_unit_test(overflow_is_refused),
	    cmocka_unit_test(array_grows),
	    cmocka_unit_test(array_unchanged_when_memory_runs_out),
	    cmocka_unit_test(every_kind_of_allocation_can_fail),
	    cmocka_unit_test(asprintf_of_any_length),
	    cmocka_unit_test(map_is_aligned_and_zero),
	    cmocka_unit_test(map_grows_and_keeps_its_contents),
	    cmocka_unit_test(cleared_memory_is_zero),
	    cmocka_unit_test(type_sizes),
	    cmocka_unit_test(version_text),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
