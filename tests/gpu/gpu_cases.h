/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU that tests use: that of the driver which is found, the one of the tests (fake_driver.cpp) or, with KEDGE_TEST_GPU
 * in the environment, a real one; unless its value is "small", with more data. */
#ifndef KEDGE_TESTS_GPU_GPU_CASES_H
#define KEDGE_TESTS_GPU_GPU_CASES_H

#include "../lib/cases.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

static struct kedge__gpu *gpu;
static bool real_gpu, much; /* much: it is fast enough for more */

static inline int gpu_setup(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	real_gpu = getenv("KEDGE_TEST_GPU") != NULL;
	much = real_gpu && strcmp(getenv("KEDGE_TEST_GPU"), "small") != 0;
	if (kedge__gpu_open(0, &gpu, &err) != 0)
		print_message("%s\n", kedge__error_text(&err));
	kedge__error_done(&err);
	return gpu ? 0 : -1;
}

static inline int gpu_teardown(void **state)
{
	(void)state;
	assert_int_equal(gpu->taken, 0);
	kedge__gpu_close(gpu);
	return 0;
}

/* Whether there is any; one that should be there is not skipped. */
static inline bool gpu_here(void)
{
	struct kedge__gpu_about about;

	return getenv("KEDGE_TEST_GPU") || kedge__gpu_about(&about, NULL) == 0;
}

static inline kedge__gpu_address gpu_take(uint64_t bytes)
{
	kedge__gpu_address a = 0;

	assert_int_equal(kedge__gpu_alloc(gpu, bytes, &a, NULL), 0);
	return a;
}

static inline void gpu_put(kedge__gpu_address to, const void *from, size_t bytes)
{
	assert_int_equal(kedge__gpu_copy_in(gpu, KEDGE__GPU_WORK, to, from, bytes, NULL), 0);
	assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
}

static inline void gpu_get(void *to, kedge__gpu_address from, size_t bytes)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__gpu_finish(gpu, &err);

	if (rc)
		print_message("%s\n", kedge__error_text(&err));
	assert_int_equal(rc, 0);
	assert_int_equal(kedge__gpu_copy_out(gpu, KEDGE__GPU_WORK, to, from, bytes, NULL), 0);
	assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
}

#endif
