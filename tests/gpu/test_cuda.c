/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver, as far as it can be tried where there may be none; and the limit on memory. */
#include "gpu_cases.h"

#include <dlfcn.h>

static void test_memory_of_the_host(void **state)
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
}

/* Asking what memory a pointer is of loads no driver into a program that has none. */
static void test_asking_loads_nothing(void **state)
{
	struct kedge__memory_info m;

	(void)state;
	if (real_gpu)
		skip();
	kedge__memory_find(&m, &m);
	assert_null(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD));
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
	assert_true(strlen(kedge__error_text(&err)) > 10);
	kedge__error_done(&err);
}

static void test_limit(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	kedge__gpu_address a, b = 0;

	(void)state;
	gpu->limit = 1000;
	a = gpu_take(600);
	assert_int_equal(kedge__gpu_alloc(gpu, 401, &b, &err), KEDGE_E_NOMEM);
	assert_non_null(strstr(kedge__error_text(&err), "401 bytes"));
	kedge__error_done(&err);
	b = gpu_take(400);
	kedge__gpu_release(gpu, a, 600);
	kedge__gpu_release(gpu, b, 400);
	gpu->limit = 0;
}

static void test_copies_and_events(void **state)
{
	enum { BYTES = 100003 };
	kedge__gpu_address at = gpu_take(BYTES);
	unsigned char *pinned = NULL;

	(void)state;
	assert_int_equal(kedge__gpu_pin(gpu, 2 * BYTES, (void **)&pinned, NULL), 0);
	for (size_t i = 0; i < BYTES; i++)
		pinned[i] = (unsigned char)(i * 7);
	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_IN, at, BYTES, NULL), 0);
	assert_int_equal(kedge__gpu_copy_in(gpu, KEDGE__GPU_IN, at + 3, pinned, BYTES - 3, NULL), 0);
	assert_int_equal(kedge__gpu_record(gpu, KEDGE__GPU_IN, 3, NULL), 0);
	assert_int_equal(kedge__gpu_follow(gpu, KEDGE__GPU_OUT, 3, NULL), 0);
	assert_int_equal(kedge__gpu_copy_out(gpu, KEDGE__GPU_OUT, pinned + BYTES, at, BYTES, NULL), 0);
	assert_int_equal(kedge__gpu_record(gpu, KEDGE__GPU_OUT, 4, NULL), 0);
	assert_int_equal(kedge__gpu_wait(gpu, 4, NULL), 0);
	assert_memory_equal(pinned + BYTES, "\0\0\0", 3);
	assert_memory_equal(pinned + BYTES + 3, pinned, BYTES - 3);
	kedge__gpu_unpin(gpu, pinned);
	kedge__gpu_release(gpu, at, BYTES);
}

static void test_device_memory_is_found(void **state)
{
	struct kedge__memory_info m;
	kedge__gpu_address at;

	(void)state;
	if (!real_gpu)
		skip();
	at = gpu_take(4096);
	kedge__memory_find((void *)(uintptr_t)(at + 100), &m);
	assert_int_equal(m.kind, KEDGE__MEMORY_DEVICE);
	assert_int_equal(m.device, 0);
	assert_true(m.bytes >= 3996);
	kedge__gpu_release(gpu, at, 4096);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_asking_loads_nothing), /* first */
	    cmocka_unit_test(test_memory_of_the_host),
	    cmocka_unit_test(test_without_a_gpu),
	    cmocka_unit_test(test_limit),
	    cmocka_unit_test(test_copies_and_events),
	    cmocka_unit_test(test_device_memory_is_found),
	};

	return cases_run_where(argc, argv, tests, gpu_setup, gpu_teardown, gpu_here);
}
