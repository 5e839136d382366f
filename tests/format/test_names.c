/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of files in a store, and of jobs. */
#include "format_samples.h"

static void test_set_names(void **state)
{
	static const uint64_t versions[] = {0, 7, 1234567890, KEDGE_VERSION_LIMIT - 1};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(versions); i++) {
		char *set = kedge__set_file_name(versions[i]);
		char *dir = kedge__version_dir_name(versions[i]);
		uint64_t v = 1;

		assert_true(kedge__set_file_parse(set, &v));
		assert_int_equal(v, versions[i]);
		v = 1;
		assert_true(kedge__version_dir_parse(dir, &v));
		assert_int_equal(v, versions[i]);
		assert_false(kedge__set_file_parse(dir, &v));
		assert_false(kedge__version_dir_parse(set, &v));
		kedge__free(set);
		kedge__free(dir);
	}
}

static void test_names_as_specified(void **state)
{
	char *name;

	(void)state;
	name = kedge__set_file_name(42);
	assert_string_equal(name, "set-00000000000000000042");
	kedge__free(name);
	name = kedge__version_dir_name(42);
	assert_string_equal(name, "v00000000000000000042");
	kedge__free(name);
	name = kedge__segment_file_name(3, 0);
	assert_string_equal(name, "r0000003-g0.seg");
	kedge__free(name);
}

static void test_segment_names(void **state)
{
	static const uint32_t ranks[] = {0, 3, KEDGE__RANK_LIMIT - 1}, generations[] = {0, 1, 10, UINT32_MAX};
	uint32_t r, g;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(ranks); i++)
		for (size_t k = 0; k < KEDGE__COUNT(generations); k++) {
			char *name = kedge__segment_file_name(ranks[i], generations[k]);

			assert_true(kedge__segment_file_parse(name, &r, &g));
			assert_int_equal(r, ranks[i]);
			assert_int_equal(g, generations[k]);
			kedge__free(name);
		}
}

static void test_other_names_are_not_ours(void **state)
{
	static const char *const sets[] = {"set-0000000000000000004",
					   "set-000000000000000000042",
					   "set-",
					   "",
					   "set-0000000000000000004x",
					   "set-00000000000000000042.tmp",
					   "Set-00000000000000000042",
					   "set-09223372036854775807",
					   "set-99999999999999999999",
					   "set-+0000000000000000042"};
	static const char *const segments[] = {"r0000003-g0.seg.tmp",
					       "r000003-g0.seg",
					       "r00000003-g0.seg",
					       "r0000003-g.seg",
					       "r0000003-g00.seg",
					       "r0000003-g01.seg",
					       "r0000003-g4294967296.seg",
					       "r0000003-g0",
					       "r0000003-g-1.seg",
					       "",
					       "r",
					       "x0000003-g0.seg"};
	uint64_t v = 99;
	uint32_t r = 98, g = 97;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sets); i++)
		assert_false(kedge__set_file_parse(sets[i], &v));
	for (size_t i = 0; i < KEDGE__COUNT(segments); i++)
		assert_false(kedge__segment_file_parse(segments[i], &r, &g));
	assert_int_equal(v, 99);
	assert_int_equal(r, 98);
	assert_int_equal(g, 97);
}

static void test_job_names(void **state)
{
	static const char *const good[] = {"a", "heat2d", "A.b_c-9", "-", "_x.tmp", "kedge"};
	static const char *const bad[] = {"",    ".",   "..",       ".hidden",     "a/b",
					  "a b", "a\n", "\xc3\xa4", "kedge-store", "kedge-store.tmp"};
	char longest[KEDGE_NAME_MAX + 2];

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(good); i++)
		assert_int_equal(kedge__job_name_check(good[i], NULL), 0);
	for (size_t i = 0; i < KEDGE__COUNT(bad); i++)
		assert_int_equal(kedge__job_name_check(bad[i], NULL), KEDGE_E_ARG);
	memset(longest, 'n', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(kedge__job_name_check(longest, NULL), KEDGE_E_ARG);
	longest[KEDGE_NAME_MAX] = 0;
	assert_int_equal(kedge__job_name_check(longest, NULL), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_set_names),     cmocka_unit_test(test_names_as_specified),
	    cmocka_unit_test(test_segment_names), cmocka_unit_test(test_other_names_are_not_ours),
	    cmocka_unit_test(test_job_names),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
