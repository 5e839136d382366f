/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions in the memory of a GPU, saved and restored bit for bit. The GPU is that of tests/gpu, whose memory nobody may
 * touch without the driver; or, with KEDGE_TEST_GPU in the environment, a real one.
 */
#include "device_cases.h"

#include "job/handle.h"

#include <dlfcn.h>

#define BYTES ((size_t)300000)
#define SMALL ((size_t)1000)

static bool driver_find(const char *name, void *function)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *f = library ? dlsym(library, name) : NULL;

	memcpy(function, &f, sizeof(f));
	return f;
}

/* The driver of the tests fails in FUNCTION from the call COUNTDOWN on. False: it is a real one. */
static bool fail_at(const char *function, int countdown)
{
	void (*f)(const char *, int, int);

	if (!driver_find("fake_cuda_fail", &f))
		return false;
	f(function, countdown, 700);
	return true;
}

struct state {
	kedge__gpu_address large, small; /* small: at an odd place of what was allocated */
	kedge__gpu_address allocated;
	uint8_t host[SMALL];
	uint8_t want_large[BYTES], want_small[SMALL], want_host[SMALL];
};

static struct state *state_new(void)
{
	struct state *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	assert_int_equal(kedge__gpu_alloc(gpu, BYTES, &s->large, NULL), 0);
	assert_int_equal(kedge__gpu_alloc(gpu, 2 * SMALL, &s->allocated, NULL), 0);
	s->small = s->allocated + 13;
	return s;
}

static void state_free(struct state *s)
{
	kedge__gpu_release(gpu, s->large, BYTES);
	kedge__gpu_release(gpu, s->allocated, 2 * SMALL);
	free(s);
}

/* Version V: some of it changes from one to the next. */
static void state_set(struct state *s, uint64_t v)
{
	fill_random(s->want_large, BYTES, 1);
	for (uint64_t i = 0; i < v * 10; i++)
		s->want_large[(i * 7919) % BYTES] ^= (uint8_t)(i + 1);
	fill_random(s->want_small, SMALL, v);
	fill_random(s->want_host, SMALL, v + 100);
	device_put(s->large, s->want_large, BYTES);
	device_put(s->small, s->want_small, SMALL);
	memcpy(s->host, s->want_host, SMALL);
}

static void state_spoil(struct state *s)
{
	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, s->large, BYTES, NULL), 0);
	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, s->small, SMALL, NULL), 0);
	assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
	memset(s->host, 0, SMALL);
}

static void state_is(struct state *s)
{
	device_is(s->large, s->want_large, BYTES);
	device_is(s->small, s->want_small, SMALL);
	assert_memory_equal(s->host, s->want_host, SMALL);
}

static void protect(kedge_t *k, struct state *s)
{
	assert_ok(k, kedge_protect(k, "large", (void *)(uintptr_t)s->large, BYTES / 4, KEDGE_F32));
	assert_ok(k, kedge_protect(k, "small", (void *)(uintptr_t)s->small, SMALL, KEDGE_BYTES));
	assert_ok(k, kedge_protect(k, "host", s->host, SMALL, KEDGE_BYTES));
}

static void restored(const struct place *p, struct state *s, const char *const *more, uint64_t version)
{
	kedge_t *k = job_open(p, false, more);
	uint64_t got;

	state_spoil(s);
	protect(k, s);
	assert_ok(k, kedge_restart(k, version, &got));
	assert_int_equal(got, version);
	state_is(s);
	assert_ok(k, kedge_close(k));
}

/* ON_DEVICE: it is reduced there, if kernels are in this build. */
static void round_trip(const struct place *p, const char *const *more, bool on_device)
{
	struct state *s = state_new();
	kedge_t *k = job_open(p, false, more);

	protect(k, s);
	for (uint64_t v = 1; v <= 4; v++) {
		state_set(s, v);
		assert_ok(k, kedge_checkpoint(k, v));
		assert_int_equal(k->device.gpu != NULL, on_device);
		if (v % 2)
			state_spoil(s); /* the application goes on; what was saved is what was there */
	}
	assert_ok(k, kedge_wait(k));
	assert_ok(k, kedge_close(k));
	for (uint64_t v = 4; v >= 1; v--) {
		state_set(s, v);
		restored(p, s, more, v);
	}
	state_free(s);
}

static void test_captures(void **state)
{
	static const char *const captures[] = {"capture=sync", "capture=copy", "capture=cow"};

	for (size_t i = 0; i < KEDGE__COUNT(captures); i++) {
		struct place p = *(struct place *)*state;

		text_make(p.l1, sizeof(p.l1), "%s/l%zu", p.dir, i);
		round_trip(&p, MORE(captures[i], "reducer=tree", "chunk=64"), true);
	}
}

static void test_codecs(void **state)
{
	round_trip(*state, MORE("codec=delta+planes", "reducer=full"), false);
}

static void test_reducers(void **state)
{
	static const struct {
		const char *reducer, *chunk;
		bool on_device;
	} kinds[] = {{"reducer=basic", "chunk=128", true},  {"reducer=list", "chunk=32", true},
		     {"reducer=auto", "chunk=256", true},   {"reducer=rex", "chunk=256", false},
		     {"reducer=tree", "chunk=8192", false}, {"paranoid=yes", "chunk=256", false}};

	for (size_t i = 0; i < KEDGE__COUNT(kinds); i++) {
		struct place p = *(struct place *)*state;

		text_make(p.l1, sizeof(p.l1), "%s/r%zu", p.dir, i);
		round_trip(&p, MORE(kinds[i].reducer, kinds[i].chunk), kinds[i].on_device);
	}
}

static void test_too_large(void **state)
{
	struct state *s = state_new();
	kedge_t *k = job_open(*state, false, NULL);
	int rc = kedge_protect(k, "large", (void *)(uintptr_t)(s->large + 8), BYTES + (64 << 20), KEDGE_BYTES);

	assert_int_equal(rc, KEDGE_E_ARG);
	assert_non_null(strstr(kedge_last_error(k), "allocated on the GPU"));
	assert_ok(k, kedge_close(k));
	state_free(s);
}

/* A device that fails: the checkpoint says so, earlier ones are intact, and later ones work if it does again. */
static void test_failures(void **state)
{
	struct state *s = state_new();
	kedge_t *k = job_open(*state, false, NULL);

	protect(k, s);
	state_set(s, 1);
	assert_ok(k, kedge_checkpoint(k, 1));
	for (int i = 0; i < 2; i++) {
		state_set(s, 2);
		if (!fail_at(i ? "cuEventSynchronize" : "cuMemcpyDtoHAsync_v2", i))
			break;
		assert_int_equal(kedge_checkpoint(k, 2), KEDGE_E_DEVICE);
		assert_non_null(strstr(kedge_last_error(k), "GPU"));
		fail_at("", 0);
		state_set(s, 1);
		state_spoil(s);
		assert_ok(k, kedge_restart(k, 1, NULL));
		state_is(s);
	}
	state_set(s, 3);
	assert_ok(k, kedge_checkpoint(k, 3));
	state_spoil(s);
	if (fail_at("cuMemcpyHtoDAsync_v2", 0)) {
		assert_int_equal(kedge_restart(k, 3, NULL), KEDGE_E_DEVICE);
		fail_at("", 0);
	}
	assert_ok(k, kedge_restart(k, 3, NULL));
	state_is(s);
	assert_ok(k, kedge_close(k));
	state_free(s);
}

static void test_read(void **state)
{
	struct state *s = state_new();
	kedge_t *k = job_open(*state, false, NULL);
	uint8_t *host = malloc(BYTES);
	struct kedge_target targets[] = {{"large", (void *)(uintptr_t)s->large, BYTES}, {"small", host, BYTES}};

	protect(k, s);
	state_set(s, 1);
	assert_ok(k, kedge_checkpoint(k, 1));
	state_spoil(s);
	assert_ok(k, kedge_read(k, 1, targets, 2));
	device_is(s->large, s->want_large, BYTES);
	assert_memory_equal(host, s->want_small, SMALL);
	assert_ok(k, kedge_close(k));
	free(host);
	state_free(s);
}

/* Work on a stream of the application is not waited for by the application itself. */
static void test_stream(void **state)
{
	int (*retain)(void **, int), (*push)(void *), (*pop)(void **), (*create)(void **, unsigned), (*destroy)(void *);
	int (*set)(uint64_t, unsigned char, size_t, void *);
	struct state *s = state_new();
	kedge_t *k = job_open(*state, false, NULL);
	void *context, *stream;

	assert_true(driver_find("cuDevicePrimaryCtxRetain", &retain) && driver_find("cuCtxPushCurrent_v2", &push));
	assert_true(driver_find("cuCtxPopCurrent_v2", &pop) && driver_find("cuMemsetD8Async", &set));
	assert_true(driver_find("cuStreamCreate", &create) && driver_find("cuStreamDestroy_v2", &destroy));
	assert_int_equal(retain(&context, 0), 0);
	assert_int_equal(push(context), 0);
	assert_int_equal(create(&stream, 1), 0);
	assert_int_equal(pop(&context), 0);
	protect(k, s);
	state_set(s, 1);
	assert_ok(k, kedge_gpu_stream(k, 0, stream));
	assert_int_equal(push(context), 0);
	for (int i = 0; i < 300; i++)
		assert_int_equal(set(s->large, (unsigned char)i, BYTES, stream), 0);
	assert_int_equal(pop(&context), 0);
	assert_ok(k, kedge_checkpoint(k, 1));
	state_spoil(s);
	assert_ok(k, kedge_restart(k, 1, NULL));
	memset(s->want_large, 299 & 255, BYTES);
	state_is(s);
	assert_ok(k, kedge_close(k));
	assert_int_equal(push(context), 0);
	assert_int_equal(destroy(stream), 0);
	assert_int_equal(pop(&context), 0);
	state_free(s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_captures), JOB(test_codecs), JOB(test_reducers), JOB(test_too_large),
	    JOB(test_failures), JOB(test_read),   JOB(test_stream),
	};

	return cases_run_where(argc, argv, tests, setup, teardown, device_here);
}
