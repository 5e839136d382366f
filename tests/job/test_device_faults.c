/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUs that fail: every call of the driver in turn, once or from then on, through all that a handle does; memory that
 * cannot be pinned; a device that is lost. And what a checkpoint waits for. The driver is that of tests/gpu.
 */
#include "device_cases.h"
#include "job/handle.h"

#include <dlfcn.h>
#include <sys/wait.h>

/* A life takes long: of four kinds of failure, each call meets two in the plain build, and one under a sanitizer. */
#if defined(__SANITIZE_THREAD__)
#define STEP 21
#elif defined(__SANITIZE_ADDRESS__)
#define STEP 4
#else
#define STEP 2
#endif
#define FEWER (STEP * 5) /* of a kind in which many have the same effect */
#define LARGE ((size_t)20000)
#define SMALL ((size_t)1000)

static struct {
	void (*fail_in)(const char *function, int countdown, int error);
	void (*fail_call)(long n, int error, int lost);
	long (*calls)(void);
	void (*hold)(int hold);
	void (*later)(void *stream, void *address, int value, size_t bytes);
	void (*pin_most)(size_t bytes);
	size_t (*taken)(void);
	void (*swap)(int swap);
	void (*devices)(int count);
	int (*stream_create)(void **stream, unsigned flags);
	int (*alloc_managed)(uint8_t **memory, size_t bytes, unsigned flags);
	int (*push)(void *context);
	int (*pop)(void **context);
} fake;

static bool find(void *library, const char *name, void *function)
{
	void *f = dlsym(library, name);

	memcpy(function, &f, sizeof(f));
	return f;
}

/* Only with the driver of the tests. */
static bool here(void)
{
	struct kedge__gpu_about about;
	void *library;

	(void)kedge__gpu_about(&about, NULL);
	library = about.devices ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
	return library && find(library, "fake_cuda_fail", &fake.fail_in) &&
	       find(library, "fake_cuda_fail_call", &fake.fail_call) && find(library, "fake_cuda_calls", &fake.calls) &&
	       find(library, "fake_cuda_hold", &fake.hold) && find(library, "fake_cuda_later", &fake.later) &&
	       find(library, "fake_cuda_pin_most", &fake.pin_most) && find(library, "fake_cuda_taken", &fake.taken) &&
	       find(library, "fake_cuda_swap", &fake.swap) && find(library, "fake_cuda_devices", &fake.devices) &&
	       find(library, "cuMemAllocManaged", &fake.alloc_managed) &&
	       find(library, "cuStreamCreate", &fake.stream_create) &&
	       find(library, "cuCtxPushCurrent_v2", &fake.push) && find(library, "cuCtxPopCurrent_v2", &fake.pop);
}

/* ------------------------------------------------------------------ what the application has */

struct state {
	kedge__gpu_address large, small;
	uint8_t host[SMALL];
};

static struct state *state_new(void)
{
	struct state *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	assert_int_equal(kedge__gpu_alloc(gpu, LARGE, &s->large, NULL), 0);
	assert_int_equal(kedge__gpu_alloc(gpu, SMALL, &s->small, NULL), 0);
	return s;
}

static void state_free(struct state *s)
{
	kedge__gpu_release(gpu, s->large, LARGE);
	kedge__gpu_release(gpu, s->small, SMALL);
	free(s);
}

static void *pointer(kedge__gpu_address a)
{
	return (void *)(uintptr_t)a;
}

/* What version V is: some of it is as in all. */
static void wanted(uint64_t v, uint8_t *large, uint8_t *small, uint8_t *host)
{
	fill_random(large, LARGE, 1);
	fill_random(large, LARGE / 10, v);
	fill_random(small, SMALL, v + 100);
	fill_random(host, SMALL, v + 200);
}

static void state_set(struct state *s, uint64_t v)
{
	uint8_t large[LARGE], small[SMALL];

	fake.hold(1);
	wanted(v, large, small, s->host);
	assert_int_equal(kedge__gpu_copy_in(gpu, KEDGE__GPU_WORK, s->large, large, LARGE, NULL), 0);
	assert_int_equal(kedge__gpu_copy_in(gpu, KEDGE__GPU_WORK, s->small, small, SMALL, NULL), 0);
	assert_int_equal(kedge__gpu_drain(gpu, NULL), 0);
	fake.hold(0);
}

static void device_of_is(struct kedge__gpu *g, kedge__gpu_address at, const void *want, size_t bytes)
{
	uint8_t *got = malloc(bytes);

	fake.hold(1);
	assert_int_equal(kedge__gpu_copy_out(g, KEDGE__GPU_WORK, got, at, bytes, NULL), 0);
	assert_int_equal(kedge__gpu_drain(g, NULL), 0);
	assert_memory_equal(got, want, bytes);
	free(got);
	fake.hold(0);
}

static void held_is(kedge__gpu_address at, const void *want, size_t bytes)
{
	device_of_is(gpu, at, want, bytes);
}

static void state_is(struct state *s, uint64_t v)
{
	uint8_t large[LARGE], small[SMALL], host[SMALL];

	wanted(v, large, small, host);
	held_is(s->large, large, LARGE);
	held_is(s->small, small, SMALL);
	assert_memory_equal(s->host, host, SMALL);
}

static int protect(kedge_t *k, struct state *s)
{
	int rc = kedge_protect(k, "large", pointer(s->large), LARGE / 4, KEDGE_F32);

	if (!rc)
		rc = kedge_protect(k, "small", pointer(s->small), SMALL, KEDGE_BYTES);
	return rc ? rc : kedge_protect(k, "host", s->host, SMALL, KEDGE_BYTES);
}

/* The newest version is V, bit for bit. */
static void newest_is(const struct place *p, struct state *s, uint64_t v)
{
	kedge_t *k = job_open(p, false, NULL);
	uint64_t got = 0;
	int rc;

	assert_ok(k, protect(k, s));
	state_set(s, 99);
	rc = kedge_restart(k, KEDGE_NEWEST, &got);
	if (v) {
		assert_ok(k, rc);
		assert_int_equal(got, v);
		state_is(s, v);
	} else {
		assert_int_equal(rc, KEDGE_E_NOTFOUND);
	}
	assert_ok(k, kedge_close(k));
}

/* ------------------------------------------------------------------ every call in turn */

#define NO_MEMORY 2
#define SHORT     "because memory is short"

/* As fake_cuda_fail_call() has them. */
enum { ONCE, LOST, SCARCE };

struct failure {
	int error, kind;
	long call; /* from this one on */
};

/* It worked, or it was the GPU; and then there is a message about it. */
static bool worked(kedge_t *k, int rc, int error)
{
	if (rc && (rc != (error == NO_MEMORY ? KEDGE_E_NOMEM : KEDGE_E_DEVICE) || !strstr(kedge_last_error(k), "GPU")))
		fail_msg("%d: %s", rc, kedge_last_error(k));
	return rc == 0;
}

/* The same of a checkpoint, which does without memory. */
static bool sealed(kedge_t *k, int rc, const struct failure *f)
{
	if (rc && f->error == NO_MEMORY)
		fail_msg("call %ld: %s", f->call, kedge_last_error(k));
	return worked(k, rc, f->error);
}

/* What a GPU did for checkpoints, it still does. */
static bool is_there(const kedge_t *k)
{
	const struct kedge__reducer *r = k->baseline.reducer;

	return !kedge__reducer_on_device(r) || (!k->device.given_up && kedge__reducer_packed(r));
}

static bool goes_on; /* of the last life, after its checkpoints */

/* Returns the newest version that should be there. The GPU may fail at any time; what can be seen of it must be right.
 */
static uint64_t life(kedge_t *k, struct state *s, const struct failure *f, long *checkpoints)
{
	struct kedge_target target = {"large", pointer(s->large), LARGE};
	uint64_t newest = 0, got = 0;
	uint8_t large[LARGE], other[SMALL];

	assert_ok(k, protect(k, s));
	for (uint64_t v = 1; v <= 2; v++) {
		state_set(s, v);
		if (sealed(k, kedge_checkpoint(k, v), f))
			newest = v;
	}
	/* What is done in the background may fail there. */
	if (!sealed(k, kedge_wait(k), f))
		while (newest && kedge_test(k, newest) != 1)
			newest--;
	*checkpoints = fake.calls();
	goes_on = is_there(k);
	state_set(s, 99);
	if (!newest)
		return 0;
	if (worked(k, kedge_restart(k, KEDGE_NEWEST, &got), f->error)) {
		assert_int_equal(got, newest);
		state_is(s, newest);
	}
	state_set(s, 99);
	if (worked(k, kedge_read(k, newest, &target, 1), f->error)) {
		wanted(newest, large, other, other);
		held_is(s->large, large, LARGE);
	}
	return newest;
}

/* Returns how many calls there were, *CHECKPOINTS of them by checkpoints. */
static long life_with(struct place *p, struct state *s, const struct failure *f, const char *const *more,
		      long *checkpoints)
{
	size_t before = fake.taken();
	uint64_t newest;
	long calls;
	kedge_t *k;

	text_make(p->l1, sizeof(p->l1), "%s/%d-%d-%ld", p->dir, f->error, f->kind, f->call);
	place_forget(p);
	k = job_open(p, false, more);
	fake.fail_call(f->call, f->error, f->kind);
	newest = life(k, s, f, checkpoints);
	calls = fake.calls();
	(void)kedge_close(k);
	fake.fail_call(-1, 0, 0);
	assert_int_equal(fake.taken(), before);
	newest_is(p, s, newest);
	scratch_remove(p->l1);
	return calls;
}

static void every_call(struct place *p, struct failure f, const char *const *more)
{
	struct failure none = {f.error, f.kind, -1};
	struct state *s = state_new();
	long checkpoints, all;

	kedge_set_log(place_log, p);
	all = life_with(p, s, &none, more, &checkpoints);
	assert_true(all > 50);
	assert_null(strstr(place_said(p), SHORT));
	for (; f.call < all; f.call += f.kind == SCARCE ? FEWER : STEP) {
		(void)life_with(p, s, &f, more, &checkpoints); /* their number may differ a little */
		assert_true(f.error != NO_MEMORY || f.call >= checkpoints || goes_on || strstr(place_said(p), SHORT));
	}
	state_free(s);
}

static void test_every_call(void **state)
{
	every_call(*state, (struct failure){719, ONCE, 0}, MORE("codec=planes"));
}

static void test_every_call_lost(void **state)
{
	every_call(*state, (struct failure){700, LOST, 1}, NULL);
}

static void test_every_call_no_memory(void **state)
{
	every_call(*state, (struct failure){NO_MEMORY, ONCE, 2}, MORE("capture=copy", "codec=lz4"));
}

static void test_every_call_no_memory_full(void **state)
{
	every_call(*state, (struct failure){NO_MEMORY, ONCE, 3}, MORE("capture=copy", "reducer=full"));
}

static void test_every_call_scarce(void **state)
{
	every_call(*state, (struct failure){NO_MEMORY, SCARCE, 0}, MORE("capture=copy", "codec=lz4"));
}

/* ------------------------------------------------------------------ a device that is lost */

static void test_lost(void **state)
{
	struct place *p = *state;
	struct state *s = state_new();
	kedge_t *k = job_open(p, false, NULL);
	uint8_t host[SMALL];
	uint64_t got;

	assert_ok(k, protect(k, s));
	state_set(s, 1);
	assert_ok(k, kedge_checkpoint(k, 1));
	state_set(s, 2);
	fake.fail_call(0, 719, 1);
	assert_int_equal(kedge_checkpoint(k, 2), KEDGE_E_DEVICE);
	assert_int_equal(kedge_checkpoint(k, 2), KEDGE_E_DEVICE);
	assert_int_equal(kedge_restart(k, 1, NULL), KEDGE_E_DEVICE);
	/* Without those that were there, everything goes on. */
	assert_ok(k, kedge_unprotect(k, "large"));
	assert_ok(k, kedge_unprotect(k, "small"));
	assert_ok(k, kedge_restart(k, 1, &got));
	memcpy(host, s->host, SMALL);
	assert_ok(k, kedge_checkpoint(k, 2));
	memset(s->host, 0, SMALL);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &got));
	assert_int_equal(got, 2);
	assert_memory_equal(s->host, host, SMALL);
	assert_ok(k, kedge_close(k));
	fake.fail_call(-1, 0, 0);
	state_free(s);
}

/* A driver that does not answer any more: memory of the device is not taken for memory of the host, and touched. Under
 * a sanitizer nothing keeps the kernel from reading it. */
#if !SANITIZED
static void test_lost_before_protect(void **state)
{
	struct state *s = state_new();
	kedge_t *k = job_open(*state, false, NULL);
	int rc;

	fake.fail_in("cuPointerGetAttributes", 0, 719);
	rc = protect(k, s);
	fake.fail_in("", 0, 0);
	assert_ok(k, rc);
	assert_int_equal(kedge_checkpoint(k, 1), KEDGE_E_DEVICE);
	assert_ok(k, kedge_unprotect(k, "large"));
	assert_ok(k, kedge_unprotect(k, "small"));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_ok(k, kedge_close(k));
	state_free(s);
}
#endif

/* ------------------------------------------------------------------ memory that cannot be pinned */

static size_t times(const char *text, const char *word)
{
	size_t n = 0;

	for (; (text = strstr(text, word)) != NULL; text++)
		n++;
	return n;
}

static void unpinned(struct place *p, size_t most, uint64_t bytes)
{
	kedge__gpu_address at = 0;
	uint8_t *want = malloc(bytes), *zero = calloc(1, bytes);
	kedge_t *k;

	text_make(p->l1, sizeof(p->l1), "%s/%zu-%llu", p->dir, most, (unsigned long long)bytes);
	place_forget(p);
	kedge_set_log(place_log, p);
	fake.pin_most(most);
	assert_int_equal(kedge__gpu_alloc(gpu, bytes, &at, NULL), 0);
	k = job_open(p, false, NULL);
	assert_ok(k, kedge_protect(k, "large", pointer(at), bytes, KEDGE_BYTES));
	for (uint64_t v = 1; v <= 3; v++) {
		fill_random(want, bytes, v);
		assert_int_equal(kedge__gpu_copy_in(gpu, KEDGE__GPU_WORK, at, want, bytes, NULL), 0);
		assert_ok(k, kedge_checkpoint(k, v));
		assert_int_equal(kedge__gpu_copy_in(gpu, KEDGE__GPU_WORK, at, zero, bytes, NULL), 0);
		fake.pin_most((size_t)-1);
		assert_ok(k, kedge_restart(k, v, NULL));
		fake.pin_most(most);
		held_is(at, want, bytes);
	}
	assert_ok(k, kedge_close(k));
	assert_int_equal(times(place_said(p), "pinned memory, which is slower"), 1);
	fake.pin_most((size_t)-1);
	kedge__gpu_release(gpu, at, bytes);
	free(want);
	free(zero);
}

static void test_unpinned(void **state)
{
	unpinned(*state, 0, 400000);
	unpinned(*state, 200000, 400000); /* two pieces of 64 KiB, each several times */
	unpinned(*state, 200000, 7 * 65536);
}

/* ------------------------------------------------------------------ what is waited for */

/* Work on two streams that the device has not come to yet: on the first, a write to the region. */
static void streams_make(void **first, void **second)
{
	void *before;

	assert_int_equal(fake.push(&before), 0);
	assert_int_equal(fake.stream_create(first, 1), 0);
	assert_int_equal(fake.stream_create(second, 1), 0);
	assert_int_equal(fake.pop(&before), 0);
}

static void test_stream(void **state)
{
	struct state *s = state_new();
	kedge_t *k = job_open(*state, false, NULL);
	uint8_t old[SMALL], new[SMALL];
	void *first, *second;

	memset(old, 1, SMALL);
	memset(new, 2, SMALL);
	streams_make(&first, &second);
	assert_ok(k, kedge_protect(k, "large", pointer(s->large), SMALL, KEDGE_BYTES));
	for (uint64_t v = 1; v <= 3; v++) {
		bool named = v != 2; /* before the GPU is open, and after */

		assert_int_equal(kedge__gpu_copy_in(gpu, KEDGE__GPU_WORK, s->large, old, SMALL, NULL), 0);
		assert_int_equal(kedge__gpu_copy_in(gpu, KEDGE__GPU_WORK, s->small, old, SMALL, NULL), 0);
		fake.later(first, pointer(s->large), 2, SMALL);
		fake.later(second, pointer(s->small), 2, SMALL);
		assert_ok(k, kedge_gpu_stream(k, 0, named ? first : NULL));
		assert_ok(k, kedge_checkpoint(k, v));
		held_is(s->small, named ? old : new, SMALL); /* nothing else was waited for, or everything */
		assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
		assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, s->large, SMALL, NULL), 0);
		/* A write that was given to the device before a restart does not come after it. */
		fake.later(first, pointer(s->large), 3, SMALL);
		assert_ok(k, kedge_restart(k, v, NULL));
		assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
		held_is(s->large, new, SMALL);
	}
	assert_int_equal(kedge_gpu_stream(k, -1, first), KEDGE_E_ARG);
	assert_int_equal(kedge_gpu_stream(k, 64, first), KEDGE_E_ARG);
	assert_ok(k, kedge_close(k));
	state_free(s);
}

/* Managed memory is the processor's to read, but not before GPUs have written to it. */
static void test_managed(void **state)
{
	kedge_t *k = job_open(*state, false, NULL);
	uint8_t *memory, want[SMALL];
	void *before, *first, *second;

	streams_make(&first, &second);
	assert_int_equal(fake.push(&before), 0);
	assert_int_equal(fake.alloc_managed(&memory, SMALL, 1), 0);
	assert_int_equal(fake.pop(&before), 0);
	assert_ok(k, kedge_protect(k, "managed", memory, SMALL, KEDGE_BYTES));
	for (uint64_t v = 1; v <= 2; v++) {
		assert_ok(k, kedge_gpu_stream(k, 0, v == 2 ? first : NULL));
		fake.later(first, memory, (int)v, SMALL);
		assert_ok(k, kedge_checkpoint(k, v));
		memset(memory, 0, SMALL);
		fake.later(first, memory, 99, SMALL);
		assert_ok(k, kedge_restart(k, v, NULL));
		assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
		memset(want, (int)v, SMALL);
		assert_memory_equal(memory, want, SMALL);
		fake.later(first, memory, 99, SMALL);
		assert_ok(k, kedge_read(k, v, &(struct kedge_target){"managed", memory, SMALL}, 1));
		assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
		assert_memory_equal(memory, want, SMALL);
	}
	assert_ok(k, kedge_close(k));
	kedge__gpu_release(gpu, (uintptr_t)memory, 0);
}

/* ------------------------------------------------------------------ turns */

static uint64_t tickets(const char *queue)
{
	size_t n = 0;
	uint8_t *file = file_read(queue, &n);
	uint64_t drawn = file && n == 8 ? kedge__get64(file) : 0;

	free(file);
	return drawn;
}

/* A checkpoint waits for the turn of the GPU, and gives it back. */
static void test_turns(void **state)
{
	struct place *p = *state;
	struct state *s = state_new();
	char queues[300], queue[400], setting[320];
	struct kedge__gpu_turn turn;
	size_t fds;
	kedge_t *k;

	text_make(queues, sizeof(queues), "%s/queues", p->dir);
	text_make(queue, sizeof(queue), "%s/gpu-6b656467650000000000000000000000", queues);
	text_make(setting, sizeof(setting), "gpu_turns=%s", queues);
	k = job_open(p, false, MORE(setting));
	assert_ok(k, protect(k, s));
	state_set(s, 1);
	fds = fds_open();
	assert_ok(k, kedge_checkpoint(k, 1));
	fake.fail_in("cuEventSynchronize", 0, 719);
	assert_int_equal(kedge_checkpoint(k, 2), KEDGE_E_DEVICE);
	fake.fail_in("", 0, 0);
	assert_ok(k, kedge_restart(k, 1, NULL));
	assert_int_equal(fds_open(), fds);
	assert_int_equal(tickets(queue), 2); /* turns; a restart takes none */
	gpu->queues = queues;
	kedge__gpu_turn_take(gpu, &turn); /* nobody has it */
	assert_true(turn.fd >= 0);
	kedge__gpu_turn_give(&turn);
	gpu->queues = NULL;
	assert_ok(k, kedge_close(k));
	state_free(s);
}

struct both {
	struct kedge__gpu *other; /* GPU 1 */
	kedge__gpu_address at[2]; /* on each */
};

static void both_save(struct both *b, const struct place *p, const char *setting)
{
	kedge_t *k = job_open(p, false, MORE(setting));
	uint8_t data[2][SMALL];

	for (int i = 0; i < 2; i++) {
		fill_random(data[i], SMALL, (uint64_t)i);
		assert_int_equal(
		    kedge__gpu_copy_in(i ? b->other : gpu, KEDGE__GPU_WORK, b->at[i], data[i], SMALL, NULL), 0);
		assert_ok(k, kedge_protect(k, i ? "one" : "zero", pointer(b->at[i]), SMALL, KEDGE_BYTES));
	}
	assert_ok(k, kedge_checkpoint(k, 1));
	for (int i = 0; i < 2; i++)
		assert_int_equal(kedge__gpu_clear(i ? b->other : gpu, KEDGE__GPU_WORK, b->at[i], SMALL, NULL), 0);
	assert_ok(k, kedge_restart(k, 1, NULL));
	held_is(b->at[0], data[0], SMALL);
	device_of_is(b->other, b->at[1], data[1], SMALL);
	assert_ok(k, kedge_close(k));
}

/* A process that has the numbers of two GPUs the other way round waits for the same one first: two that each have one
 * turn would wait for each other. */
static void test_two_gpus(void **state)
{
	struct place *p = *state;
	char queues[300], first[400], second[400], setting[320];
	struct kedge__gpu_turn turn;
	struct both b = {NULL, {0, 0}};
	int status;
	pid_t pid;

	text_make(queues, sizeof(queues), "%s/queues", p->dir);
	text_make(first, sizeof(first), "%s/gpu-6b656467650000000000000000000000", queues);
	text_make(second, sizeof(second), "%s/gpu-6b656467660000000000000000000000", queues);
	text_make(setting, sizeof(setting), "gpu_turns=%s", queues);
	fake.devices(2);
	assert_int_equal(kedge__gpu_open(1, &b.other, NULL), 0);
	assert_int_equal(kedge__gpu_alloc(gpu, SMALL, &b.at[0], NULL), 0);
	assert_int_equal(kedge__gpu_alloc(b.other, SMALL, &b.at[1], NULL), 0);
	for (int swap = 0; swap < 2; swap++) {
		uint64_t before = tickets(first), behind = tickets(second);

		gpu->queues = queues;
		kedge__gpu_turn_take(gpu, &turn);
		pid = fork();
		if (pid == 0) {
			fake.swap(swap);
			text_make(p->l1, sizeof(p->l1), "%s/swap%d", p->dir, swap);
			both_save(&b, p, setting);
			_exit(0);
		}
		while (tickets(first) < before + 2) /* it waits */
			sched_yield();
		assert_int_equal(tickets(second), behind);
		kedge__gpu_turn_give(&turn);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(tickets(second), behind + 1);
	}
	gpu->queues = NULL;
	kedge__gpu_release(gpu, b.at[0], SMALL);
	kedge__gpu_release(b.other, b.at[1], SMALL);
	kedge__gpu_close(b.other);
	fake.devices(1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		JOB(test_every_call),
		JOB(test_every_call_lost),
		JOB(test_every_call_no_memory),
		JOB(test_every_call_no_memory_full),
		JOB(test_every_call_scarce),
		JOB(test_lost),
		JOB(test_unpinned),
		JOB(test_stream),
		JOB(test_managed),
		JOB(test_turns),
		JOB(test_two_gpus),
#if !SANITIZED
		JOB(test_lost_before_protect),
#endif
	};

	return cases_run_where(argc, argv, tests, setup, teardown, here);
}
