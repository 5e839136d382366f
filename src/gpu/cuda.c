/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVIDIA's driver, found at run time. A context is current only within a call: the application's own stays what it is.
 */
#include "base/library.h"
#include "gpu/cuda_abi.h"
#include "gpu/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define LIBRARY "libcuda.so.1"

/* ------------------------------------------------------------------ the driver */

static struct {
	pthread_mutex_t lock;
	void *library;            /* NULL: not loaded yet */
	unsigned long long loads; /* of libraries by this process, when it was last looked for in vain */
	const char *missing;      /* a function that it does not have; then it is of no use */
	struct cuda api;
	int init; /* what cuInit() said; -1: it was not asked */
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER, .init = -1};

static const struct kedge__library_call functions[] = {
#define PLACE(name, symbol, args) {symbol, &driver.api.name},
    CUDA_FUNCTIONS(PLACE)
#undef PLACE
};

static int loads_count(struct dl_phdr_info *info, size_t size, void *loads)
{
	(void)size;
	*(unsigned long long *)loads = info->dlpi_adds;
	return 1;
}

/* Whether a library was loaded since this was last asked: many regions may be protected, one by one. */
static bool something_new(void)
{
	unsigned long long loads = 0, before = driver.loads;

	dl_iterate_phdr(loads_count, &loads);
	driver.loads = loads;
	return !loads || loads != before;
}

/* NULL: there is none, or with ONLY_LOADED, the program has not loaded it. */
static const struct cuda *driver_get(bool only_loaded)
{
	const struct cuda *api = NULL;

	pthread_mutex_lock(&driver.lock);
	if (!driver.library && (!only_loaded || something_new())) {
		driver.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | (only_loaded ? RTLD_NOLOAD : 0));
		if (driver.library)
			driver.missing = kedge__library_find(driver.library, functions, KEDGE__COUNT(functions));
	}
	if (driver.library && !driver.missing)
		api = &driver.api;
	pthread_mutex_unlock(&driver.lock);
	return api;
}

static int fail(const struct cuda *api, int result, const char *what, struct kedge__error *err)
{
	const char *name = NULL, *text = NULL;

	if (api->error_name(result, &name) != CUDA_SUCCESS)
		name = "an error without a name";
	if (api->error_text(result, &text) != CUDA_SUCCESS)
		text = "no description";
	return kedge__error_set(err, result == CUDA_OUT_OF_MEMORY ? KEDGE_E_NOMEM : KEDGE_E_DEVICE, 0,
				"%s failed on the GPU: %s (%s)", what, text, name);
}

static int driver_start(const struct cuda **out, struct kedge__error *err)
{
	const struct cuda *api = driver_get(false);

	if (!api && driver.missing)
		return kedge__error_set(err, KEDGE_E_DEVICE, 0, "the NVIDIA driver is too old: " LIBRARY " has no %s",
					driver.missing);
	if (!api)
		return kedge__error_set(err, KEDGE_E_DEVICE, 0, "there is no NVIDIA driver (" LIBRARY ")");
	pthread_mutex_lock(&driver.lock);
	if (driver.init != CUDA_SUCCESS)
		driver.init = api->init(0);
	pthread_mutex_unlock(&driver.lock);
	if (driver.init == CUDA_NO_DEVICE)
		return kedge__error_set(err, KEDGE_E_DEVICE, 0, "the NVIDIA driver finds no GPU");
	if (driver.init != CUDA_SUCCESS)
		return fail(api, driver.init, "starting the driver", err);
	*out = api;
	return 0;
}

/* ------------------------------------------------------------------ pointers */

/* A driver does not answer before it was started, nor after its GPU has failed: then what a processor cannot read is
 * memory of that GPU, and nobody may try. */
static bool out_of_reach(const void *address)
{
	char byte;
	struct iovec here = {&byte, 1}, there;

	memcpy(&there.iov_base, &address, sizeof(address));
	there.iov_len = 1;
	return address && process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0 && errno == EFAULT;
}

void kedge__memory_find(const void *address, struct kedge__memory_info *out)
{
	static const int wanted[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED, CUDA_POINTER_DEVICE_ORDINAL,
				     CUDA_POINTER_RANGE_START, CUDA_POINTER_RANGE_SIZE};
	const struct cuda *api = driver_get(true);
	int type = 0, managed = 0, ordinal = -1;
	uint64_t start = 0;
	size_t size = 0;
	void *values[] = {&type, &managed, &ordinal, &start, &size};

	*out = (struct kedge__memory_info){KEDGE__MEMORY_HOST, -1, 0};
	if (!api)
		return;
	if (api->pointer(KEDGE__COUNT(wanted), wanted, values, (uint64_t)(uintptr_t)address) != CUDA_SUCCESS) {
		if (out_of_reach(address))
			out->kind = KEDGE__MEMORY_DEVICE;
		return;
	}
	if (type == CUDA_MEMORY_HOST)
		out->kind = KEDGE__MEMORY_PINNED;
	if (type != CUDA_MEMORY_DEVICE && !managed)
		return;
	out->kind = managed ? KEDGE__MEMORY_MANAGED : KEDGE__MEMORY_DEVICE;
	out->device = ordinal;
	if (size)
		out->bytes = start + size - (uint64_t)(uintptr_t)address;
}

/* ------------------------------------------------------------------ a GPU */

#define FUNCTION_LIMIT 128

struct cuda_gpu {
	struct kedge__gpu gpu; /* first */
	const struct cuda *api;
	int handle;
	cuda_context context;
	cuda_module module;
	cuda_stream streams[KEDGE__GPU_STREAMS];
	cuda_event events[KEDGE__GPU_EVENTS];
	struct {
		const char *name;
		cuda_function f;
	} functions[FUNCTION_LIMIT]; /* those that were launched */
	size_t function_count;
	bool entered; /* the context was retained */
	bool alone;   /* there was no memory for streams and events: all is on the one stream that every context has */
};

static struct cuda_gpu *of(struct kedge__gpu *g)
{
	return (struct cuda_gpu *)(void *)g;
}

/* Within the context: R = CALL, and the application's context is current again. */
#define WITHIN(c, r, call)                                                                                             \
	do {                                                                                                           \
		cuda_context before_;                                                                                  \
                                                                                                                       \
		r = (c)->api->context_push((c)->context);                                                              \
		if (r == CUDA_SUCCESS) {                                                                               \
			r = (c)->api->call;                                                                            \
			(void)(c)->api->context_pop(&before_);                                                         \
		}                                                                                                      \
	} while (0)

static int result(struct cuda_gpu *c, int r, const char *what, struct kedge__error *err)
{
	return r == CUDA_SUCCESS ? 0 : fail(c->api, r, what, err);
}

static int cuda_alloc(struct kedge__gpu *g, uint64_t bytes, kedge__gpu_address *out, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	uint64_t address = 0;
	int r;

	WITHIN(c, r, memory_alloc(&address, bytes));
	if (r == CUDA_SUCCESS)
		*out = address;
	return result(c, r, "taking memory", err);
}

static void cuda_release(struct kedge__gpu *g, kedge__gpu_address address)
{
	struct cuda_gpu *c = of(g);
	int r;

	WITHIN(c, r, memory_free(address));
	(void)r;
}

static int cuda_pin(struct kedge__gpu *g, size_t bytes, void **out, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	void *memory = NULL;
	int r;

	WITHIN(c, r, host_alloc(&memory, bytes, CUDA_HOST_PORTABLE));
	if (r == CUDA_SUCCESS)
		*out = memory;
	/* Whatever the system says of it, there is no more. */
	if (r == CUDA_INVALID_VALUE || r == CUDA_OPERATING_SYSTEM || r == CUDA_NOT_PERMITTED || r == CUDA_NOT_SUPPORTED)
		r = CUDA_OUT_OF_MEMORY;
	return result(c, r, "pinning memory of the host", err);
}

static void cuda_unpin(struct kedge__gpu *g, void *memory)
{
	struct cuda_gpu *c = of(g);
	int r;

	WITHIN(c, r, host_free(memory));
	(void)r;
}

static int cuda_copy_in(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to, const void *from,
			size_t bytes, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	int r;

	WITHIN(c, r, copy_in(to, from, bytes, c->streams[s]));
	return result(c, r, "copying to the device", err);
}

static int cuda_copy_out(struct kedge__gpu *g, enum kedge__gpu_stream s, void *to, kedge__gpu_address from,
			 size_t bytes, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	int r;

	WITHIN(c, r, copy_out(to, from, bytes, c->streams[s]));
	return result(c, r, "copying from the device", err);
}

static int cuda_copy_within(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to,
			    kedge__gpu_address from, uint64_t bytes, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	int r;

	WITHIN(c, r, copy_within(to, from, bytes, c->streams[s]));
	return result(c, r, "copying on the device", err);
}

static int cuda_clear(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address at, uint64_t bytes,
		      struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	int r;

	WITHIN(c, r, clear(at, 0, bytes, c->streams[s]));
	return result(c, r, "clearing memory", err);
}

/* They are loaded when it is opened, or if that failed, when the first is launched. */
static int module_need(struct cuda_gpu *c, struct kedge__error *err)
{
	int r = CUDA_SUCCESS;

	if (!kedge__gpu_kernels)
		return kedge__error_set(err, KEDGE_E_DEVICE, 0, "this build of Kedge has no kernels for GPUs");
	if (!c->module)
		WITHIN(c, r, module_load(&c->module, kedge__gpu_kernels));
	if (r == CUDA_NO_BINARY)
		return kedge__error_set(err, KEDGE_E_DEVICE, 0,
					"this build has no kernels for the %s: they were compiled for %s", c->gpu.name,
					kedge__gpu_kernels_for);
	return result(c, r, "loading the kernels", err);
}

static int function_find(struct cuda_gpu *c, const char *name, cuda_function *f, struct kedge__error *err)
{
	size_t i = 0;
	int r = CUDA_NOT_FOUND;

	while (i < c->function_count && strcmp(c->functions[i].name, name) != 0)
		i++;
	if (i < c->function_count) {
		*f = c->functions[i].f;
		return 0;
	}
	if (i < FUNCTION_LIMIT)
		WITHIN(c, r, module_function(f, c->module, name));
	if (r == CUDA_NOT_FOUND)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "there is no kernel %s", name);
	if (r != CUDA_SUCCESS)
		return fail(c->api, r, name, err);
	c->functions[i].name = name;
	c->functions[i].f = *f;
	c->function_count++;
	return 0;
}

static int cuda_launch(struct kedge__gpu *g, enum kedge__gpu_stream s, const char *kernel, unsigned blocks,
		       unsigned threads, const void *args, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	int r, rc = module_need(c, err);
	cuda_function f;
	void *pointer;

	if (!rc)
		rc = function_find(c, kernel, &f, err);
	if (rc)
		return rc;
	memcpy(&pointer, &args, sizeof(pointer)); /* the driver copies what it points to, and changes nothing */
	WITHIN(c, r, launch(f, blocks, 1, 1, threads, 1, 1, 0, c->streams[s], &pointer, NULL));
	return r == CUDA_SUCCESS ? 0 : fail(c->api, r, kernel, err);
}

static int cuda_record(struct kedge__gpu *g, enum kedge__gpu_stream s, unsigned event, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	int r;

	if (c->alone)
		return 0;
	WITHIN(c, r, event_record(c->events[event], c->streams[s]));
	return result(c, r, "recording an event", err);
}

static int cuda_follow(struct kedge__gpu *g, enum kedge__gpu_stream s, unsigned event, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	int r;

	if (c->alone)
		return 0;
	WITHIN(c, r, stream_follow(c->streams[s], c->events[event], 0));
	return result(c, r, "following an event", err);
}

static int cuda_finish(struct kedge__gpu *g, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	int r;

	WITHIN(c, r, context_finish());
	return result(c, r, "work that was waited for", err);
}

static int cuda_wait(struct kedge__gpu *g, unsigned event, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	int r;

	if (c->alone)
		return cuda_finish(g, err);
	WITHIN(c, r, event_wait(c->events[event]));
	return result(c, r, "work that was waited for", err);
}

/* Called within the context. */
static int after_stream(struct cuda_gpu *c, cuda_stream stream)
{
	int r = c->api->event_record(c->events[KEDGE__GPU_EVENTS - 1], stream);

	for (unsigned i = 0; i < KEDGE__GPU_STREAMS && r == CUDA_SUCCESS; i++)
		r = c->api->stream_follow(c->streams[i], c->events[KEDGE__GPU_EVENTS - 1], 0);
	return r;
}

static int cuda_after(struct kedge__gpu *g, void *stream, struct kedge__error *err)
{
	struct cuda_gpu *c = of(g);
	cuda_context before;
	int r;

	if (c->alone)
		return cuda_finish(g, err);
	r = c->api->context_push(c->context);
	if (r == CUDA_SUCCESS) {
		r = after_stream(c, stream);
		(void)c->api->context_pop(&before);
	}
	return result(c, r, "following the application's stream", err);
}

static void streams_destroy(struct cuda_gpu *c)
{
	int r;

	for (unsigned i = 0; c->entered && i < KEDGE__GPU_EVENTS; i++) {
		if (c->events[i])
			WITHIN(c, r, event_destroy(c->events[i]));
		c->events[i] = NULL;
	}
	for (unsigned i = 0; c->entered && i < KEDGE__GPU_STREAMS; i++) {
		if (c->streams[i])
			WITHIN(c, r, stream_destroy(c->streams[i]));
		c->streams[i] = NULL;
	}
	(void)r;
}

static void cuda_close(struct kedge__gpu *g)
{
	struct cuda_gpu *c = of(g);
	int r;

	streams_destroy(c);
	if (c->module)
		WITHIN(c, r, module_unload(c->module));
	if (c->entered)
		(void)c->api->context_release(c->handle);
	(void)r;
	kedge__free(c);
}

static const struct kedge__gpu_ops cuda_ops = {
    .alloc = cuda_alloc,
    .release = cuda_release,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy_within = cuda_copy_within,
    .clear = cuda_clear,
    .launch = cuda_launch,
    .record = cuda_record,
    .follow = cuda_follow,
    .wait = cuda_wait,
    .finish = cuda_finish,
    .after = cuda_after,
    .close = cuda_close,
};

/* Whoever waits for the others spins: to be woken takes longer than most of what is waited for. */
static bool waits_long(unsigned event)
{
	return event >= KEDGE__GPU_EVENTS / 2 && event < KEDGE__GPU_EVENTS - 1;
}

static int streams_make(struct cuda_gpu *c)
{
	static const int priorities[KEDGE__GPU_STREAMS] = {
	    [KEDGE__GPU_WORK] = CUDA_PRIORITY_HIGHER, [KEDGE__GPU_OUT] = CUDA_PRIORITY_HIGHEST,
	    [KEDGE__GPU_IN] = CUDA_PRIORITY_USUAL,    [KEDGE__GPU_PACK] = CUDA_PRIORITY_HIGHEST,
	    [KEDGE__GPU_PASS] = CUDA_PRIORITY_USUAL,
	};
	int r = CUDA_SUCCESS;

	for (unsigned i = 0; i < KEDGE__GPU_STREAMS && r == CUDA_SUCCESS; i++)
		WITHIN(c, r, stream_create(&c->streams[i], CUDA_STREAM_NON_BLOCKING, priorities[i]));
	for (unsigned i = 0; i < KEDGE__GPU_EVENTS && r == CUDA_SUCCESS; i++)
		WITHIN(
		    c, r,
		    event_create(&c->events[i], (waits_long(i) ? CUDA_EVENT_BLOCKING_SYNC : 0) | CUDA_EVENT_NO_TIMING));
	return r;
}

static int describe(struct cuda_gpu *c)
{
	const struct cuda *api = c->api;
	struct cuda_uuid uuid = {{0}};
	int processors = 0, r = api->device_get(&c->handle, c->gpu.device);
	size_t memory = 0;

	if (r == CUDA_SUCCESS)
		r = api->device_name(c->gpu.name, sizeof(c->gpu.name), c->handle);
	if (r == CUDA_SUCCESS)
		r = api->device_uuid(&uuid, c->handle);
	if (r == CUDA_SUCCESS)
		r = api->device_memory(&memory, c->handle);
	if (r == CUDA_SUCCESS)
		r = api->device_attribute(&processors, CUDA_DEVICE_PROCESSORS, c->handle);
	memcpy(c->gpu.uuid, uuid.bytes, sizeof(c->gpu.uuid));
	c->gpu.memory = memory;
	c->gpu.processors = (unsigned)processors;
	return r;
}

static int retain(struct cuda_gpu *c)
{
	int r = describe(c);

	return r == CUDA_SUCCESS ? c->api->context_retain(&c->context, c->handle) : r;
}

/* An application may have left no memory at all. Copies need none. */
static void go_alone(struct cuda_gpu *c)
{
	streams_destroy(c);
	c->alone = true;
	kedge__log(KEDGE_LOG_NOTICE,
		   "GPU %d: its regions are copied to the host as a whole, because memory is short: there is none left "
		   "for a stream",
		   c->gpu.device);
}

static int enter(struct cuda_gpu *c, struct kedge__error *err)
{
	int r = retain(c);

	if (r == CUDA_OUT_OF_MEMORY) {
		kedge__log(KEDGE_LOG_NOTICE, "GPU %d: it is opened at the second attempt, because memory is short",
			   c->gpu.device);
		r = retain(c);
	}
	c->entered = r == CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		r = streams_make(c);
	if (c->entered && r == CUDA_OUT_OF_MEMORY) {
		go_alone(c);
		r = CUDA_SUCCESS;
	}
	return result(c, r, "opening it", err);
}

/* A build may have none for this device; any other failure is that of the first launch, which tries again. */
static void kernels_find(struct cuda_gpu *c)
{
	int r = CUDA_SUCCESS;

	c->gpu.kernels = kedge__gpu_kernels != NULL && !c->alone;
	if (c->gpu.kernels)
		WITHIN(c, r, module_load(&c->module, kedge__gpu_kernels));
	if (r != CUDA_NO_BINARY)
		return;
	c->gpu.kernels = false;
	kedge__log(KEDGE_LOG_NOTICE,
		   "GPU %d: this build has no kernels for the %s: they were compiled for %s; its regions are copied to "
		   "the host as a whole",
		   c->gpu.device, c->gpu.name, kedge__gpu_kernels_for);
}

int kedge__gpu_open(int device, struct kedge__gpu **out, struct kedge__error *err)
{
	const struct cuda *api;
	struct cuda_gpu *c;
	int rc = driver_start(&api, err);

	if (rc)
		return rc;
	c = kedge__calloc(1, sizeof(*c));
	if (!c)
		return kedge__error_nomem(err);
	c->gpu.ops = &cuda_ops;
	c->gpu.device = device;
	c->api = api;
	rc = enter(c, err);
	if (rc) {
		cuda_close(&c->gpu);
		return rc;
	}
	kernels_find(c);
	*out = &c->gpu;
	return 0;
}

/* ------------------------------------------------------------------ about */

int kedge__gpu_about(struct kedge__gpu_about *out, struct kedge__error *why)
{
	const struct cuda *api;
	int rc, r, version = 0, device = 0, processors = 0;
	size_t memory = 0;

	memset(out, 0, sizeof(*out));
	rc = driver_start(&api, why);
	if (rc)
		return rc;
	r = api->driver_version(&version);
	snprintf(out->driver, sizeof(out->driver), "%d.%d", version / 1000, version % 1000 / 10);
	if (r == CUDA_SUCCESS)
		r = api->device_count(&out->devices);
	if (r == CUDA_SUCCESS && out->devices == 0)
		return kedge__error_set(why, KEDGE_E_DEVICE, 0, "the NVIDIA driver finds no GPU");
	if (r == CUDA_SUCCESS)
		r = api->device_get(&device, 0);
	if (r == CUDA_SUCCESS)
		r = api->device_name(out->name, sizeof(out->name), device);
	if (r == CUDA_SUCCESS)
		r = api->device_memory(&memory, device);
	if (r == CUDA_SUCCESS)
		r = api->device_attribute(&out->major, CUDA_DEVICE_MAJOR, device);
	if (r == CUDA_SUCCESS)
		r = api->device_attribute(&out->minor, CUDA_DEVICE_MINOR, device);
	if (r == CUDA_SUCCESS)
		r = api->device_attribute(&processors, CUDA_DEVICE_PROCESSORS, device);
	out->memory = memory;
	out->processors = (unsigned)processors;
	if (r != CUDA_SUCCESS)
		return fail(api, r, "asking for its properties", why);
	if (!kedge__gpu_kernels)
		return kedge__error_set(why, KEDGE_E_DEVICE, 0, "this build of Kedge has no kernels for GPUs");
	return 0;
}
