/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver: memory, copies, events, and its failures. */
#include "gpu_cases.h"

#include "fake_driver.h"

#include <dlfcn.h>

/* A function of the tests' driver; NULL: it is the real one. */
static void *fake(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *f = library ? dlsym(library, name) : NULL;

	if (library)
		dlclose(library);
	return f;
}

static void fail_at(const char *function, int error)
{
	void (*f)(const char *, int, int);
	void *p = fake("fake_cuda_fail");

	memcpy(&f, &p, sizeof(f));
	f(function, 0, error);
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

static void test_memory_is_found(void **state)
{
	struct kedge__memory_info m;
	kedge__gpu_address at = gpu_take(4096);
	void *pinned = NULL;

	(void)state;
	kedge__memory_find((void *)(uintptr_t)(at + 100), &m);
	assert_int_equal(m.kind, KEDGE__MEMORY_DEVICE);
	assert_int_equal(m.device, 0);
	assert_true(m.bytes >= 3996);
	kedge__memory_find(&m, &m);
	assert_int_equal(m.kind, KEDGE__MEMORY_HOST);
	assert_int_equal(kedge__gpu_pin(gpu, 4096, &pinned, NULL), 0);
	kedge__memory_find(pinned, &m);
	assert_int_equal(m.kind, KEDGE__MEMORY_PINNED);
	kedge__gpu_unpin(gpu, pinned);
	kedge__gpu_release(gpu, at, 4096);
}

static void test_failures(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__gpu *other = NULL;
	kedge__gpu_address at = 0;
	char byte;

	(void)state;
	if (!fake("fake_cuda_fail"))
		skip();
	fail_at("cuMemAlloc_v2", 2);
	assert_int_equal(kedge__gpu_alloc(gpu, 100, &at, &err), KEDGE_E_NOMEM);
	assert_non_null(strstr(kedge__error_text(&err), "out of memory"));
	assert_int_equal(gpu->taken, 0);
	fail_at("cuCtxSynchronize", 719);
	assert_int_equal(kedge__gpu_finish(gpu, &err), KEDGE_E_DEVICE);
	fail_at("", 0);
	at = gpu_take(8);
	fail_at("cuMemcpyDtoHAsync_v2", 700);
	assert_int_equal(kedge__gpu_copy_out(gpu, KEDGE__GPU_OUT, &byte, at, 1, &err), KEDGE_E_DEVICE);
	assert_non_null(strstr(kedge__error_text(&err), "copying from the device"));
	fail_at("", 0);
	kedge__gpu_release(gpu, at, 8);
	for (int i = 0; i < 2; i++) {
		fail_at(i ? "cuStreamCreateWithPriority" : "cuDevicePrimaryCtxRetain", 46);
		assert_int_equal(kedge__gpu_open(0, &other, &err), KEDGE_E_DEVICE);
		assert_null(other);
	}
	fail_at("", 0);
	assert_int_equal(kedge__gpu_open(2, &other, &err), KEDGE_E_DEVICE);
	assert_int_equal(kedge__gpu_launch(gpu, KEDGE__GPU_WORK, "no_such_kernel", 1, 32, &at, &err), KEDGE_E_INTERNAL);
	kedge__error_done(&err);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_limit),
	    cmocka_unit_test(test_copies_and_events),
	    cmocka_unit_test(test_memory_is_found),
	    cmocka_unit_test(test_failures),
	};

	return cases_run_where(argc, argv, tests, gpu_setup, gpu_teardown, gpu_here);
}
