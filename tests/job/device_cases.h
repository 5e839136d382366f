/* SPDX-License-Identifier: BSD-3-Clause */
/* device_cases.h: a GPU as an application has it, that of tests/gpu or, with KEDGE_TEST_GPU in the environment, a real one. */
#ifndef KEDGE_TESTS_JOB_DEVICE_CASES_H
#define KEDGE_TESTS_JOB_DEVICE_CASES_H

#include "support.h"

#include "../gpu/fake_driver.h"
#include "gpu/gpu.h"

static struct kedge__gpu *gpu;

static inline int setup(void **state)
{
	(void)state;
	return kedge__gpu_open(0, &gpu, NULL);
}

/* The application has given back what it took. */
static inline int teardown(void **state)
{
	(void)state;
	assert_int_equal(gpu->taken, 0);
	kedge__gpu_close(gpu);
	return 0;
}

static inline bool device_here(void)
{
	struct kedge__gpu_about about;

	(void)kedge__gpu_about(&about, NULL); /* kernels are not needed */
	return about.devices > 0;
}

static inline void device_put(kedge__gpu_address to, const void *from, size_t bytes)
{
	assert_int_equal(kedge__gpu_copy_in(gpu, KEDGE__GPU_WORK, to, from, bytes, NULL), 0);
	assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
}

static inline void device_is(kedge__gpu_address at, const void *want, size_t bytes)
{
	uint8_t *got = malloc(bytes);

	assert_int_equal(kedge__gpu_copy_out(gpu, KEDGE__GPU_WORK, got, at, bytes, NULL), 0);
	assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
	assert_memory_equal(got, want, bytes);
	free(got);
}

#endif
