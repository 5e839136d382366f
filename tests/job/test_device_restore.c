/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions in the memory of a GPU are filled bit for bit, through buffers that are smaller than they are: many small
 * changes, duplicates, patterns, odd sizes and places; and what a restart says if the device fails, or has no room.
 */
#include "device_cases.h"

#include "job/handle.h"

#include <dlfcn.h>

#define LARGE    ((size_t)400000)
#define OTHER    ((size_t)131077)
#define SMALL    ((size_t)1003)
#define VERSIONS 4

/* A function of the driver of the tests; NULL: it is a real one. */
static void *driver_find(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

	return library ? dlsym(library, name) : NULL;
}

#define DRIVER(name, type)                                                                                             \
	type name##_now;                                                                                               \
	void *name##_p = driver_find(#name);                                                                           \
	if (!name##_p)                                                                                                 \
		return;                                                                                                \
	memcpy(&name##_now, &name##_p, sizeof(name##_now))

typedef void fail_fn(const char *, int, int);
typedef size_t count_fn(void);
typedef void size_fn(size_t);
typedef void int_fn(int);
typedef void flip_fn(int, size_t);

/* ------------------------------------------------------------------ a program with memory on a GPU */

enum { A, B, C, HOST, AREAS };

static const char *const names[AREAS] = {"large", "other", "small", "host"};
static const size_t sizes[AREAS] = {LARGE, OTHER, SMALL, SMALL};
static const size_t places[AREAS] = {0, 8, 13, 0}; /* in what was allocated */

struct program {
	kedge__gpu_address allocated[AREAS];
	uint8_t host[SMALL];
	uint8_t *want[VERSIONS + 1][AREAS];
};

static void *address(struct program *p, int area)
{
	return area == HOST ? (void *)p->host : (void *)(uintptr_t)(p->allocated[area] + places[area]);
}

static uint8_t noise = 0xff; /* its bits */

static void draw_noise(uint64_t *seed, uint8_t *to, size_t bytes)
{
	draw_bytes(seed, to, bytes);
	for (size_t i = 0; i < bytes; i++)
		to[i] &= noise;
}

/* What changes from one version to the next: small pieces, runs, copies of other places and regions, patterns. */
static void version_change(uint8_t *const areas[AREAS], uint64_t v)
{
	uint64_t seed = v * 77;

	for (int i = 0; i < 150; i++)
		draw_noise(&seed, areas[A] + draw_below(&seed, LARGE / 128) * 128, 128);
	for (int i = 0; i < 100; i++)
		draw_noise(&seed, areas[A] + draw_below(&seed, LARGE - 64), draw_below(&seed, 64));
	draw_noise(&seed, areas[A] + 20000 * v, 9000);
	for (int i = 0; i < 40; i++)
		memcpy(areas[i % 2 ? A : B] + draw_below(&seed, 900) * 128, areas[A] + 250000 + 640 * (uint64_t)i, 512);
	for (uint64_t i = 0; i < 30000; i++)
		areas[A][300000 + 1000 * v + i] = (uint8_t)(v + i % 8);
	memset(areas[B] + 70000 + 31 * v, 0, 20000);
	memset(areas[B] + OTHER - 500, (int)v, 500);
	draw_noise(&seed, areas[C], SMALL);
	memcpy(areas[HOST], areas[A] + 128 * v, SMALL); /* a processor's memory needs the same literals */
}

static struct program *program_new(void)
{
	struct program *p = calloc(1, sizeof(*p));
	uint64_t seed = 1;

	for (int i = 0; i < HOST; i++)
		assert_int_equal(kedge__gpu_alloc(gpu, sizes[i] + places[i], &p->allocated[i], NULL), 0);
	for (uint64_t v = 0; v <= VERSIONS; v++) {
		for (int i = 0; i < AREAS; i++) {
			p->want[v][i] = malloc(sizes[i]);
			if (v)
				memcpy(p->want[v][i], p->want[v - 1][i], sizes[i]);
			else
				draw_noise(&seed, p->want[v][i], sizes[i]);
		}
		version_change(p->want[v], v);
	}
	return p;
}

static void program_free(struct program *p)
{
	for (int i = 0; i < AREAS; i++) {
		if (i != HOST)
			kedge__gpu_release(gpu, p->allocated[i], sizes[i] + places[i]);
		for (int v = 0; v <= VERSIONS; v++)
			free(p->want[v][i]);
	}
	free(p);
}

static void program_set(struct program *p, uint64_t v)
{
	for (int i = 0; i < HOST; i++)
		device_put((uintptr_t)address(p, i), p->want[v][i], sizes[i]);
	memcpy(p->host, p->want[v][HOST], SMALL);
}

static void program_spoil(struct program *p)
{
	for (int i = 0; i < HOST; i++)
		assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, (uintptr_t)address(p, i), sizes[i], NULL), 0);
	assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
	memset(p->host, 0, SMALL);
}

static void program_is(struct program *p, uint64_t v)
{
	for (int i = 0; i < HOST; i++)
		device_is((uintptr_t)address(p, i), p->want[v][i], sizes[i]);
	assert_memory_equal(p->host, p->want[v][HOST], SMALL);
}

static kedge_t *program_open(const struct place *place, struct program *p, bool l2, const char *const *more,
			     uint64_t buffer)
{
	kedge_t *k = job_open(place, l2, more);

	k->gpu_ways.most = buffer;
	for (int i = 0; i < AREAS; i++)
		assert_ok(k, kedge_protect(k, names[i], address(p, i), sizes[i], KEDGE_BYTES));
	return k;
}

static void program_run(const struct place *place, struct program *p, bool l2, const char *const *more)
{
	kedge_t *k = program_open(place, p, l2, more, 0);

	for (uint64_t v = 1; v <= VERSIONS; v++) {
		program_set(p, v);
		assert_ok(k, kedge_checkpoint(k, v));
	}
	assert_ok(k, kedge_wait(k));
	assert_ok(k, kedge_close(k));
}

static void restored(const struct place *place, struct program *p, const char *const *more, uint64_t buffer, uint64_t v)
{
	kedge_t *k = program_open(place, p, false, more, buffer);
	uint64_t got;

	program_spoil(p);
	assert_ok(k, kedge_restart(k, v, &got));
	assert_int_equal(got, v);
	program_is(p, v);
	assert_ok(k, kedge_close(k));
}

/* ------------------------------------------------------------------ bit for bit */

static void round_trip(const struct place *place, const char *const *more)
{
	static const uint64_t buffers[] = {4096, 40000 / 64 * 64, 0};
	struct program *p = program_new();

	program_run(place, p, false, more);
	for (size_t i = 0; i < KEDGE__COUNT(buffers); i++)
		for (uint64_t v = 1; v <= VERSIONS; v += i ? 1 : 3)
			restored(place, p, more, buffers[i], v);
	program_free(p);
}

static void test_reducers(void **state)
{
	static const char *const reducers[] = {"reducer=tree", "reducer=full", "reducer=basic", "reducer=list"};

	for (size_t i = 0; i < (SANITIZED ? 2 : KEDGE__COUNT(reducers)); i++) {
		struct place place = *(struct place *)*state;

		text_make(place.l1, sizeof(place.l1), "%s/l%zu", place.dir, i);
		round_trip(&place, MORE(reducers[i], "chunk=64", "codec=none"));
	}
}

/* Blocks that are larger than a buffer, and packed. */
static void test_codecs(void **state)
{
	static const char *const codecs[] = {"codec=delta+planes:8", "codec=zstd", "codec=planes:4",
					     "codec=minus+planes:2"};

	noise = 3; /* they shrink */
	for (size_t i = 0; i < (SANITIZED ? 2 : KEDGE__COUNT(codecs)); i++) {
		struct place place = *(struct place *)*state;

		text_make(place.l1, sizeof(place.l1), "%s/l%zu", place.dir, i);
		round_trip(&place, MORE("reducer=tree", "chunk=128", "block=1M", codecs[i]));
	}
	noise = 0xff;
}

/* Without kernels, by copies. */
static void test_without_kernels(void **state)
{
	struct program *p = program_new();
	kedge_t *k;

	program_run(*state, p, false, MORE("reducer=tree", "chunk=64"));
	k = program_open(*state, p, false, NULL, 8192);
	program_spoil(p);
	assert_ok(k, kedge_restart(k, 2, NULL)); /* the GPU is open from here on */
	kedge__gpu_ways_done(k);
	memset(&k->gpu_ways, 0, sizeof(k->gpu_ways));
	k->gpus.at[0].gpu->kernels = false;
	k->gpu_ways.most = 8192;
	program_spoil(p);
	assert_ok(k, kedge_restart(k, 3, NULL));
	program_is(p, 3);
	assert_ok(k, kedge_close(k));
	program_free(p);
}

/* One region of several, into memory that is not protected, and some into memory of the host. */
static void test_read(void **state)
{
	struct program *p = program_new();
	kedge_t *k;
	uint8_t *host = malloc(LARGE);
	kedge__gpu_address other = 0;
	struct kedge_target targets[2] = {{"large", host, LARGE}, {"other", NULL, 2 * OTHER}};

	program_run(*state, p, false, MORE("reducer=tree", "chunk=64"));
	assert_int_equal(kedge__gpu_alloc(gpu, OTHER + 5, &other, NULL), 0);
	k = job_open(*state, false, NULL);
	k->gpu_ways.most = 16384;
	targets[1].ptr = (void *)(uintptr_t)(other + 5);
	for (uint64_t v = VERSIONS; v > 0; v--) {
		assert_ok(k, kedge_read(k, v, targets, 2));
		assert_memory_equal(host, p->want[v][A], LARGE);
		device_is(other + 5, p->want[v][B], OTHER);
	}
	targets[1].ptr = (void *)(uintptr_t)(other + 6);
	if (driver_find("fake_cuda_fail")) { /* a real one may have allocated more */
		assert_int_equal(kedge_read(k, 1, targets, 2), KEDGE_E_MISMATCH);
		assert_non_null(strstr(kedge_last_error(k), "allocated on the GPU"));
	}
	device_is(other + 5, p->want[1][B], OTHER);
	assert_ok(k, kedge_close(k));
	kedge__gpu_release(gpu, other, OTHER + 5);
	free(host);
	program_free(p);
}

/* ------------------------------------------------------------------ what it costs */

/* The memory of the host is bounded, whatever the regions have, and all of it is given back. */
static void test_memory_is_bounded(void **state)
{
	struct program *p;
	size_t before;
	kedge_t *k;
	DRIVER(fake_cuda_pinned, count_fn *);
	DRIVER(fake_cuda_taken, count_fn *);

	p = program_new();
	program_run(*state, p, false, NULL);
	k = program_open(*state, p, false, NULL, 16384);
	program_spoil(p);
	before = fake_cuda_taken_now();
	fake_cuda_pinned_now();
	assert_ok(k, kedge_restart(k, 2, NULL));
	program_is(p, 2);
	assert_in_range(fake_cuda_pinned_now(), 1, 3 * 16384);
	assert_in_range(fake_cuda_taken_now() - before, 1, 6 * 16384);
	assert_ok(k, kedge_close(k));
	assert_int_equal(fake_cuda_taken_now(), before);
	fake_cuda_pinned_now();
	assert_int_equal(fake_cuda_pinned_now(), 0);
	program_free(p);
}

/* Patterns are not sent, and what occurs many times is sent once. */
static void test_little_is_sent(void **state)
{
	size_t bytes = 4 << 20, once = 65536;
	uint8_t *want;
	kedge__gpu_address at = 0;
	kedge_t *k;
	DRIVER(fake_cuda_sent, count_fn *);

	want = malloc(bytes);
	assert_int_equal(kedge__gpu_alloc(gpu, bytes, &at, NULL), 0);
	memset(want, 0x5a, bytes);
	for (size_t i = 0; i < 32; i++)
		fill_random(want + i * once, once, 1);
	device_put(at, want, bytes);
	k = job_open(*state, false, MORE("reducer=list", "chunk=4096", "codec=none"));
	assert_ok(k, kedge_protect(k, "state", (void *)(uintptr_t)at, bytes, KEDGE_BYTES));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, at, bytes, NULL), 0);
	fake_cuda_sent_now();
	assert_ok(k, kedge_restart(k, 1, NULL));
	assert_in_range(fake_cuda_sent_now(), once, 2 * once);
	device_is(at, want, bytes);
	assert_ok(k, kedge_close(k));
	kedge__gpu_release(gpu, at, bytes);
	free(want);
}

/* A field, as a solver leaves one, on the device and at WANT. */
static void field_put(kedge__gpu_address at, double *want, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		want[i] = 1 + (double)(i % 1000) * 1e-3 + (double)draw_below(&seed, 256) * 1e-12;
	device_put(at, want, n * sizeof(*want));
}

/* Blocks of codec planes are sent as they are, and unpacked on the device; if those are not what they say, here. */
static void test_packed(void **state)
{
	size_t n = 60001, bytes = n * sizeof(double);
	double *want;
	kedge__gpu_address at = 0;
	kedge_t *k;
	DRIVER(fake_cuda_sent, count_fn *);
	DRIVER(fake_cuda_flip, flip_fn *);

	want = malloc(bytes);
	assert_int_equal(kedge__gpu_alloc(gpu, bytes, &at, NULL), 0);
	field_put(at, want, n, 1);
	k = job_open(*state, false, MORE("reducer=full", "codec=delta+planes"));
	assert_ok(k, kedge_protect(k, "field", (void *)(uintptr_t)at, n, KEDGE_F64));
	assert_ok(k, kedge_checkpoint(k, 1));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, at, bytes, NULL), 0);
		fake_cuda_sent_now();
		if (i) /* where the bitmap of the first strip is, behind the sizes of eight */
			fake_cuda_flip_now(1, 16);
		assert_ok(k, kedge_restart(k, 1, NULL));
		fake_cuda_flip_now(-1, 0);
		device_is(at, (const uint8_t *)want, bytes);
		if (i)
			assert_in_range(fake_cuda_sent_now(), bytes, 2 * bytes);
		else
			assert_in_range(fake_cuda_sent_now(), bytes / 8, bytes * 2 / 3);
	}
	assert_ok(k, kedge_close(k));
	kedge__gpu_release(gpu, at, bytes);
	free(want);
}

/* ------------------------------------------------------------------ failures */

/* Whatever fails, and whenever, the restart says so; the store is as it was, and the next restart works. */
static void test_failures(void **state)
{
	static const char *const functions[] = {"cuMemcpyHtoDAsync_v2", "cuLaunchKernel",     "cuEventRecord",
						"cuStreamWaitEvent",    "cuEventSynchronize", "cuCtxSynchronize"};
	static const int countdowns[] = {0, 1, 2, 7};
	struct program *p;
	DRIVER(fake_cuda_fail, fail_fn *);

	p = program_new();
	program_run(*state, p, false, MORE("reducer=tree", "chunk=64"));
	for (size_t i = 0; i < KEDGE__COUNT(functions); i++) {
		kedge_t *k = program_open(*state, p, false, NULL, 16384);

		for (size_t c = 0; c < KEDGE__COUNT(countdowns); c++) {
			if (c && i == KEDGE__COUNT(functions) - 1)
				continue; /* it is not called so often */
			program_spoil(p);
			fake_cuda_fail_now(functions[i], countdowns[c], 700);
			assert_int_equal(kedge_restart(k, 3, NULL), KEDGE_E_DEVICE);
			fake_cuda_fail_now("", 0, 0);
			assert_non_null(strstr(kedge_last_error(k), "GPU"));
			program_spoil(p);
			assert_ok(k, kedge_restart(k, c % 2 ? 3 : 4, NULL));
			program_is(p, c % 2 ? 3 : 4);
		}
		assert_ok(k, kedge_close(k));
	}
	program_free(p);
}

/* A bit that changes on its way to the device. */
static void test_region_digest(void **state)
{
	struct program *p;
	kedge_t *k;
	DRIVER(fake_cuda_flip, flip_fn *);

	p = program_new();
	program_run(*state, p, false, MORE("reducer=tree", "chunk=64", "keep=1"));
	k = program_open(*state, p, false, NULL, 16384);
	for (int i = 1; i < 4; i++) { /* the first copy has the places of the regions */
		fake_cuda_flip_now(i, 0);
		assert_int_equal(kedge_restart(k, VERSIONS, NULL), KEDGE_E_DAMAGED);
		fake_cuda_flip_now(-1, 0);
		assert_non_null(strstr(kedge_last_error(k), "does not match its digest"));
	}
	assert_ok(k, kedge_restart(k, VERSIONS, NULL));
	program_is(p, VERSIONS);
	assert_ok(k, kedge_close(k));
	program_free(p);
}

/* A damaged segment is read from L2, and what came from it before is overwritten. */
static void test_damage(void **state)
{
	struct place *place = *state;
	struct program *p = program_new();
	kedge_t *k;

	program_run(place, p, true, MORE("reducer=tree", "chunk=64", "codec=none"));
	segment_damage(place->l1, 3, 0);
	kedge_set_log(place_log, place);
	k = program_open(place, p, true, NULL, 16384);
	program_spoil(p);
	assert_ok(k, kedge_restart(k, 3, NULL));
	program_is(p, 3);
	assert_non_null(strstr(place_said(place), "another level"));
	assert_ok(k, kedge_close(k));
	program_free(p);
}

/* Where there is no room for buffers they are smaller; where there is hardly any, the restart says so. */
static void test_no_room(void **state)
{
	struct place *place = *state;
	struct program *p;
	size_t before;
	kedge_t *k;
	DRIVER(fake_cuda_room, size_fn *);
	DRIVER(fake_cuda_taken, count_fn *);

	p = program_new();
	program_run(place, p, false, NULL);
	before = fake_cuda_taken_now();
	kedge_set_log(place_log, place);
	k = program_open(place, p, false, MORE("gpu_memory=0"), 0);
	fake_cuda_room_now(before + 100000);
	assert_int_equal(kedge_restart(k, 2, NULL), KEDGE_E_NOMEM);
	assert_non_null(strstr(kedge_last_error(k), "buffers"));
	assert_int_equal(fake_cuda_taken_now(), before);
	fake_cuda_room_now(before + (2 << 20));
	program_spoil(p);
	assert_ok(k, kedge_restart(k, 2, NULL));
	program_is(p, 2);
	assert_non_null(strstr(place_said(place), "which takes longer"));
	fake_cuda_room_now((size_t)4 << 30);
	assert_ok(k, kedge_close(k));
	program_free(p);
}

/* Each region on the GPU that it belongs to, whose memory no other one touches. */
static void test_two_gpus(void **state)
{
	size_t bytes = 100003;
	kedge__gpu_address at[2] = {0, 0};
	struct kedge__gpu *gpus[2] = {gpu, NULL};
	uint8_t *want, *got;
	kedge_t *k;
	DRIVER(fake_cuda_devices, int_fn *);

	want = malloc(2 * bytes);
	got = malloc(bytes);
	fake_cuda_devices_now(2);
	assert_int_equal(kedge__gpu_open(1, &gpus[1], NULL), 0);
	k = job_open(*state, false, MORE("reducer=list", "chunk=64"));
	fill_random(want, 2 * bytes, 1);
	memcpy(want + bytes + 4096, want + 640, 30000); /* both need the same literals */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kedge__gpu_alloc(gpus[i], bytes, &at[i], NULL), 0);
		assert_int_equal(kedge__gpu_copy_in(gpus[i], KEDGE__GPU_WORK, at[i], want + i * bytes, bytes, NULL), 0);
		assert_ok(k, kedge_protect(k, i ? "second" : "first", (void *)(uintptr_t)at[i], bytes, KEDGE_BYTES));
	}
	assert_ok(k, kedge_checkpoint(k, 1));
	for (int i = 0; i < 2; i++)
		assert_int_equal(kedge__gpu_clear(gpus[i], KEDGE__GPU_WORK, at[i], bytes, NULL), 0);
	assert_ok(k, kedge_restart(k, 1, NULL));
	assert_ok(k, kedge_close(k));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kedge__gpu_copy_out(gpus[i], KEDGE__GPU_WORK, got, at[i], bytes, NULL), 0);
		assert_memory_equal(got, want + i * bytes, bytes);
		kedge__gpu_release(gpus[i], at[i], bytes);
	}
	kedge__gpu_close(gpus[1]);
	fake_cuda_devices_now(1);
	free(want);
	free(got);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_reducers),          JOB(test_codecs),         JOB(test_without_kernels), JOB(test_read),
	    JOB(test_memory_is_bounded), JOB(test_little_is_sent), JOB(test_packed),          JOB(test_failures),
	    JOB(test_region_digest),     JOB(test_damage),         JOB(test_no_room),         JOB(test_two_gpus),
	};

	return cases_run_where(argc, argv, tests, setup, teardown, device_here);
}
