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
	bool smooth;  /* numbers that pack well, and change a little, all of them */
	size_t bytes; /* that are protected of what is large */
};

static struct state *state_new(void)
{
	struct state *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	assert_int_equal(kedge__gpu_alloc(gpu, BYTES, &s->large, NULL), 0);
	assert_int_equal(kedge__gpu_alloc(gpu, 2 * SMALL, &s->allocated, NULL), 0);
	s->small = s->allocated + 13;
	s->bytes = BYTES;
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
	for (uint64_t i = 0; i < BYTES / 4 && s->smooth; i++) {
		float f = 1 + (float)(i % 1000) / 8192 + (float)(i * v % 7) / 65536;

		memcpy(s->want_large + 4 * i, &f, 4);
	}
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
	device_is(s->large, s->want_large, s->bytes);
	device_is(s->small, s->want_small, SMALL);
	assert_memory_equal(s->host, s->want_host, SMALL);
}

static void protect(kedge_t *k, struct state *s)
{
	assert_ok(k, kedge_protect(k, "large", (void *)(uintptr_t)s->large, s->bytes / 4, KEDGE_F32));
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

/* ------------------------------------------------------------------ packed there */

static struct kedge__segment *segment_of(const struct place *p, uint64_t version)
{
	struct kedge__segment *seg;
	char path[600];

	segment_path(p->l1, version, 0, path, sizeof(path));
	assert_int_equal(kedge__segment_open(NULL, path, NULL, &seg, NULL), 0);
	return seg;
}

/* Of every version, some blocks of the large region are packed by CODEC, and small ones are where they were. */
static void blocks_are(const struct place *p, uint64_t version, uint16_t codec)
{
	struct kedge__segment *seg = segment_of(p, version);
	size_t packed = 0;

	assert_int_equal(seg->packing_count > 0, true);
	for (size_t i = 0; i < seg->block_count; i++)
		packed += seg->blocks[i].codec == codec;
	assert_true(packed > 0);
	kedge__segment_close(seg);
}

/* The same bytes, and all else that is said of them. */
static void blocks_equal(const struct place *p, const struct place *q, uint64_t version)
{
	struct kedge__segment *a = segment_of(p, version), *b = segment_of(q, version);

	assert_int_equal(a->block_count, b->block_count);
	for (size_t i = 0; i < a->block_count; i++) {
		const struct kedge__block_record *x = &a->blocks[i], *y = &b->blocks[i];

		assert_true(x->raw_bytes == y->raw_bytes && x->stored_bytes == y->stored_bytes &&
			    x->codec == y->codec && x->param == y->param && x->region == y->region &&
			    x->checksum == y->checksum && x->position == y->position);
	}
	assert_int_equal(a->packing_count, b->packing_count);
	for (size_t i = 0; i < a->packing_count; i++)
		assert_string_equal(a->packing[i].name, b->packing[i].name);
	kedge__segment_close(a);
	kedge__segment_close(b);
}

/* ON_HOST: as if there were no memory on the device. FROM: the first version that is packed there. */
static void packed_take(const struct place *p, const char *const *more, size_t bytes, bool on_host, uint64_t from)
{
	struct state *s = state_new();
	kedge_t *k = job_open(p, false, more);

	s->smooth = true;
	s->bytes = bytes;
	k->device.given_up = on_host;
	protect(k, s);
	for (uint64_t v = 1; v <= 3; v++) {
		state_set(s, v);
		assert_ok(k, kedge_checkpoint(k, v));
		state_spoil(s);
		assert_ok(k, kedge_wait(k));
		if (!on_host)
			assert_int_equal(kedge__reducer_packed(k->baseline.reducer), v >= from);
	}
	assert_ok(k, kedge_close(k));
	for (uint64_t v = 3; v >= 1; v--) {
		state_set(s, v);
		restored(p, s, more, v);
	}
	state_free(s);
}

static void test_packed(void **state)
{
	static const struct {
		const char *codec, *reducer, *block, *rate;
		uint16_t id;
		bool exact; /* the processor makes the same */
		uint64_t from;
	} kinds[] = {{"codec=planes", "reducer=basic", "block=128k", "codec_rate=0", KEDGE__CODEC_PLANES, true, 1},
		     {"codec=delta+planes", "reducer=tree", "block=64k", "codec_rate=0", KEDGE__CODEC_PLANES, true, 1},
		     {"codec=lz4", "reducer=list", "block=32k", "codec_rate=0", KEDGE__CODEC_LZ4, false, 1},
		     {"codec=deflate", "reducer=basic", "block=4k", "codec_rate=0", KEDGE__CODEC_DEFLATE, false, 1},
		     {"codec=auto", "reducer=auto", "block=128k", "codec_rate=100G", KEDGE__CODEC_PLANES, true, 2}};

	for (size_t i = 0; i < KEDGE__COUNT(kinds); i++) {
		struct place p = *(struct place *)*state, q = p;
		const char *const *more = MORE(kinds[i].codec, kinds[i].reducer, kinds[i].block, kinds[i].rate);

		if (!kedge__codec_by_id(kinds[i].id))
			continue;
		text_make(p.l1, sizeof(p.l1), "%s/p%zu", p.dir, i);
		text_make(q.l1, sizeof(q.l1), "%s/q%zu", q.dir, i);
		packed_take(&p, more, kinds[i].exact ? BYTES : BYTES / 8, false, kinds[i].from);
		if (kinds[i].exact && kinds[i].from == 1)
			packed_take(&q, more, BYTES, true, 1);
		for (uint64_t v = 1; v <= 3; v++) {
			blocks_are(&p, v, kinds[i].id);
			if (kinds[i].exact && kinds[i].from == 1)
				blocks_equal(&p, &q, v);
		}
	}
}

/* What no kernel packs, and what needs a base, comes to the host as it is. */
static void test_not_packed(void **state)
{
	static const char *const codecs[] = {"codec=zstd", "codec=xor+planes", "codec=planes:1", "codec=deflate:9",
					     "codec=max"};

	for (size_t i = 0; i < KEDGE__COUNT(codecs); i++) {
		struct place p = *(struct place *)*state;

		text_make(p.l1, sizeof(p.l1), "%s/n%zu", p.dir, i);
		if (i != 3 || kedge__codec_by_id(KEDGE__CODEC_DEFLATE))
			packed_take(&p, MORE(codecs[i], "reducer=basic"), BYTES / 8, false, 99);
	}
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
	    JOB(test_captures),  JOB(test_codecs),   JOB(test_packed), JOB(test_not_packed), JOB(test_reducers),
	    JOB(test_too_large), JOB(test_failures), JOB(test_read),   JOB(test_stream),
	};

	return cases_run_where(argc, argv, tests, setup, teardown, device_here);
}
