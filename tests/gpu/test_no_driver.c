/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that has no driver: all memory is the host's, nothing is loaded to find that out, and who wants a GPU is
 * told. */
#include "../lib/cases.h"
#include "gpu/gpu.h"

#include <dlfcn.h>

static bool is_loaded(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (library)
		dlclose(library);
	return library;
}

static void test_asking_loads_nothing(void **state)
{
	static char here;
	struct kedge__memory_info m;
	int local = 0;

	(void)state;
	kedge__memory_find(&local, &m);
	assert_int_equal(m.kind, KEDGE__MEMORY_HOST);
	kedge__memory_find(&here, &m);
	assert_int_equal(m.kind, KEDGE__MEMORY_HOST);
	assert_int_equal(m.device, -1);
	assert_false(is_loaded());
}

static void test_without_a_gpu(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__gpu_about about;
	struct kedge__gpu *g = NULL;

	(void)state;
	if (kedge__gpu_about(&about, NULL) == 0)
		skip();
	assert_int_equal(kedge__gpu_open(0, &g, &err), KEDGE_E_DEVICE);
	assert_null(g);
	assert_non_null(strstr(kedge__error_text(&err), "NVIDIA driver"));
	kedge__error_done(&err);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_asking_loads_nothing),
	    cmocka_unit_test(test_without_a_gpu),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
