/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libcuda.so.1 for machines without a GPU: what src/gpu/cuda.c uses of the driver. Memory of the device is the process's,
 * but outside of these calls nobody may touch it: the address sanitizer reports that, and without it the pages are not
 * accessible. Kernels are those of src/gpu, compiled for the processor (emulate.h). Everything is done at once, except for
 * what a test wants to be done later.
 */
#include "emulate.h"
#include "fake_driver.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define ASAN 1
#else
#define ASAN 0
#endif

namespace
{

enum { INVALID = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500 };

struct piece {
	size_t bytes, mapped;
	void *start; /* of the mapping */
	bool managed;
	int device;
	long life; /* of the device */
};

std::recursive_mutex lock;
auto &pieces = *new std::map<uintptr_t, piece>;
auto &pinned = *new std::map<void *, size_t>; /* what a device that is lost has left there stays the driver's */
void *contexts[16];
int depth, retained;
char primary, contexts_of[2]; /* the latter of each device */
bool swapped;
int devices = 1;
size_t pinned_now, pinned_most, sent;
int flip = -1;
size_t flip_at;
size_t room = (size_t)4 << 30, taken, pin_most = (size_t)-1;
struct {
	char function[64];
	int countdown, error;
} plan;
struct {
	bool on, lost, scarce, held;
	long left, calls;
	int error;
	long life;
} nth;
struct write {
	void *stream;
	uintptr_t address;
	int value;
	size_t bytes;
};
std::vector<write> writes;      /* later */
std::map<void *, void *> events; /* the stream that each was recorded on */

void open_piece([[maybe_unused]] uintptr_t at, const piece &p)
{
#if ASAN
	__asan_unpoison_memory_region((void *)at, p.bytes);
#else
	if (!p.managed)
		mprotect(p.start, p.mapped, PROT_READ | PROT_WRITE);
#endif
}

void close_piece([[maybe_unused]] uintptr_t at, const piece &p)
{
	if (p.managed)
		return;
#if ASAN
	__asan_poison_memory_region((void *)at, p.bytes);
#else
	mprotect(p.start, p.mapped, PROT_NONE);
#endif
}

int device_now()
{
	return depth > 0 && contexts[(depth - 1) % 16] == &contexts_of[1];
}

/* While it exists, memory of the device may be touched, but not that of another one. */
struct opened {
	opened()
	{
		lock.lock();
		for (auto &p : pieces)
			if (p.second.device == device_now())
				open_piece(p.first, p.second);
	}
	~opened()
	{
		for (auto &p : pieces)
			close_piece(p.first, p.second);
		lock.unlock();
	}
};

std::map<uintptr_t, piece>::iterator find(uintptr_t at)
{
	auto i = pieces.upper_bound(at);

	if (i == pieces.begin())
		return pieces.end();
	--i;
	return at < i->first + i->second.bytes ? i : pieces.end();
}

bool within(uintptr_t at, size_t bytes)
{
	auto i = find(at);

	return i != pieces.end() && bytes <= i->first + i->second.bytes - at && i->second.device == device_now();
}

bool takes_memory(const char *function)
{
	static const char *const those[] = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamCreateWithPriority",
					    "cuEventCreate", "cuModuleLoadData"};

	for (const char *f : those)
		if (strcmp(f, function) == 0)
			return true;
	return false;
}

int failure(const char *function)
{
	std::lock_guard<std::recursive_mutex> held(lock);

	if (nth.held)
		return 0;
	nth.calls++;
	if (nth.on && nth.scarce)
		return nth.left-- <= 0 && takes_memory(function) ? nth.error : 0;
	if (nth.on && nth.left-- <= 0) {
		nth.on = nth.lost;
		return nth.error;
	}
	if (strcmp(plan.function, function) != 0 || plan.countdown-- > 0)
		return 0;
	return plan.error;
}

#define FAIL()                                            \
	do {                                              \
		int e_ = failure(__func__);               \
							  \
		if (e_)                                   \
			return e_;                        \
	} while (0)

/* Those that only fail if the device is lost. */
#define GONE()                                                             \
	do {                                                               \
		if (!nth.held && nth.on && nth.lost && nth.left < 0)       \
			return nth.error;                                  \
	} while (0)

/* Without a context nothing works. */
#define ENTER()                                           \
	do {                                              \
		FAIL();                                   \
		if (depth <= 0)                           \
			return 201;                       \
	} while (0)

int alloc(uintptr_t *out, size_t bytes, bool managed)
{
	std::lock_guard<std::recursive_mutex> held(lock);
	piece p = {bytes, 0, nullptr, managed, device_now(), nth.life};
	void *memory = nullptr;

	if (!bytes)
		return INVALID;
	if (bytes > room - taken)
		return OUT_OF_MEMORY;
#if ASAN
	if (posix_memalign(&memory, 512, bytes) != 0)
		return OUT_OF_MEMORY;
	p.start = memory;
#else
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	p.mapped = (bytes + page - 1) / page * page;
	memory = mmap(nullptr, p.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return OUT_OF_MEMORY;
	p.start = memory;
#endif
	memset(memory, 0xA5, bytes);
	taken += bytes;
	pieces[(uintptr_t)memory] = p;
	close_piece((uintptr_t)memory, p);
	*out = (uintptr_t)memory;
	return 0;
}

std::map<uintptr_t, piece>::iterator release(std::map<uintptr_t, piece>::iterator i)
{
	open_piece(i->first, i->second);
#if ASAN
	free(i->second.start);
#else
	munmap(i->second.start, i->second.mapped);
#endif
	taken -= i->second.bytes;
	return pieces.erase(i);
}

/* What was to be done later on STREAM, or on all, is done now. */
void work(void *stream, bool all)
{
	std::lock_guard<std::recursive_mutex> held(lock);

	if (writes.empty())
		return;
	opened open;
	std::vector<write> left;

	for (auto &w : writes) {
		if (all || w.stream == stream)
			memset((void *)w.address, w.value, w.bytes);
		else
			left.push_back(w);
	}
	writes = left;
}

} /* namespace */

extern "C" {

void fake_cuda_fail(const char *function, int countdown, int error)
{
	snprintf(plan.function, sizeof(plan.function), "%s", function);
	plan.countdown = countdown;
	plan.error = error;
}

/* From call N on: LOST 0: it fails; 1: all do; 2: all do that take memory. What a device that was lost had is gone with
 * it. */
void fake_cuda_fail_call(long n, int error, int lost)
{
	std::lock_guard<std::recursive_mutex> held(lock);

	for (auto i = pieces.begin(); nth.lost && i != pieces.end();)
		i = i->second.life == nth.life ? release(i) : std::next(i);
	nth = {n >= 0, lost == 1, lost == 2, false, n, 0, error, nth.life + 1};
}

long fake_cuda_calls(void)
{
	return nth.calls;
}

void fake_cuda_hold(int hold)
{
	nth.held = hold != 0;
}

void fake_cuda_later(void *stream, void *address, int value, size_t bytes)
{
	writes.push_back({stream, (uintptr_t)address, value, bytes});
}

void fake_cuda_swap(int swap)
{
	swapped = swap != 0;
}

void fake_cuda_pin_most(size_t bytes)
{
	pin_most = bytes;
}

void fake_cuda_room(size_t bytes)
{
	room = bytes;
}

size_t fake_cuda_taken(void)
{
	return taken;
}

void fake_cuda_devices(int count)
{
	devices = count;
}

size_t fake_cuda_pinned(void)
{
	size_t most = pinned_most;

	pinned_most = pinned_now;
	return most;
}

size_t fake_cuda_sent(void)
{
	size_t bytes = sent;

	sent = 0;
	return bytes;
}

void fake_cuda_flip(int countdown, size_t at)
{
	flip = countdown;
	flip_at = at;
}

int cuInit(unsigned)
{
	return failure("cuInit");
}

int cuDriverGetVersion(int *version)
{
	FAIL();
	*version = 13000;
	return 0;
}

int cuGetErrorName(int, const char **text)
{
	*text = "CUDA_ERROR_FAKE";
	return 0;
}

int cuGetErrorString(int error, const char **text)
{
	*text = error == OUT_OF_MEMORY ? "out of memory" : "an error that a test asked for";
	return 0;
}

int cuDeviceGetCount(int *count)
{
	FAIL();
	*count = devices;
	return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	FAIL();
	*device = ordinal;
	return ordinal >= 0 && ordinal < devices ? 0 : 101;
}

int cuDeviceGetName(char *name, int bytes, int)
{
	FAIL();
	snprintf(name, (size_t)bytes, "emulated");
	return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int)
{
	FAIL();
	*bytes = room;
	return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
	static const unsigned char own[2][16] = {{0x6b, 0x65, 0x64, 0x67, 0x65}, {0x6b, 0x65, 0x64, 0x67, 0x66}};

	FAIL();
	memcpy(uuid, own[swapped ? 1 - device : device], 16);
	return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int)
{
	FAIL();
	*value = attribute == 16 ? 2 : attribute == 75 ? 9 : 0;
	return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	FAIL();
	std::lock_guard<std::recursive_mutex> held(lock);

	retained++;
	*context = &contexts_of[device];
	return 0;
}

int cuDevicePrimaryCtxRelease_v2(int)
{
	FAIL();
	std::lock_guard<std::recursive_mutex> held(lock);

	return retained-- > 0 ? 0 : INVALID;
}

int cuCtxPushCurrent_v2(void *context)
{
	GONE();
	lock.lock(); /* it is that of one thread; here all of them take turns */
	contexts[depth++ % 16] = context;
	return 0;
}

int cuCtxPopCurrent_v2(void **context)
{
	*context = contexts[--depth % 16];
	lock.unlock();
	return 0;
}

int cuCtxSynchronize(void)
{
	ENTER();
	work(nullptr, true);
	return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
	ENTER();
	*module = (void *)&primary;
	return image ? 0 : INVALID;
}

int cuModuleUnload(void *)
{
	FAIL();
	return 0;
}

int cuModuleGetFunction(const void **function, void *, const char *name)
{
	ENTER();
	*function = emulated::kernel_find(name);
	return *function ? 0 : NOT_FOUND;
}

int cuLaunchKernel(const void *function, unsigned x, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
		   void *, void **args, void **)
{
	ENTER();
	opened all;

	emulated::kernel_run(function, x, threads, args[0]);
	return 0;
}

int cuStreamCreateWithPriority(void **stream, unsigned, int)
{
	static char streams[1 << 16];
	static unsigned next;

	ENTER();
	*stream = &streams[next++ % sizeof(streams)];
	return 0;
}

int cuStreamCreate(void **stream, unsigned flags) /* the application's */
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

int cuStreamDestroy_v2(void *)
{
	FAIL();
	return 0;
}

int cuStreamWaitEvent(void *, void *event, unsigned)
{
	ENTER();
	work(events[event], false);
	return 0;
}

int cuEventCreate(void **event, unsigned)
{
	static char made[1 << 16];
	static unsigned next;

	ENTER();
	*event = &made[next++ % sizeof(made)];
	return 0;
}

int cuEventRecord(void *event, void *stream)
{
	ENTER();
	events[event] = stream;
	return 0;
}

int cuEventSynchronize(void *event)
{
	ENTER();
	work(events[event], false);
	return 0;
}

int cuEventDestroy_v2(void *)
{
	FAIL();
	return 0;
}

int cuMemAlloc_v2(uintptr_t *address, size_t bytes)
{
	ENTER();
	return alloc(address, bytes, false);
}

int cuMemAllocManaged(uintptr_t *address, size_t bytes, unsigned)
{
	ENTER();
	return alloc(address, bytes, true);
}

int cuMemFree_v2(uintptr_t address)
{
	GONE();
	std::lock_guard<std::recursive_mutex> held(lock);
	auto i = pieces.find(address);

	if (i == pieces.end())
		return INVALID;
	release(i);
	return 0;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned)
{
	ENTER();
	if (bytes > pin_most)
		return OUT_OF_MEMORY;
	*memory = malloc(bytes);
	if (!*memory)
		return OUT_OF_MEMORY;
	pinned[*memory] = bytes;
	pinned_now += bytes;
	pinned_most = pinned_now > pinned_most ? pinned_now : pinned_most;
	return 0;
}

int cuMemFreeHost(void *memory)
{
	GONE();
	auto i = pinned.find(memory);

	if (i == pinned.end())
		return INVALID;
	pinned_now -= i->second;
	pinned.erase(i);
	free(memory);
	return 0;
}

int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t bytes, void *)
{
	ENTER();
	opened all;

	if (!within(to, bytes))
		return INVALID;
	memcpy((void *)to, from, bytes);
	sent += bytes;
	if (flip >= 0 && flip-- == 0 && flip_at < bytes)
		((char *)to)[flip_at] ^= 1;
	return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t bytes, void *)
{
	ENTER();
	opened all;

	if (!within(from, bytes))
		return INVALID;
	memcpy(to, (const void *)from, bytes);
	return 0;
}

int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, void *)
{
	ENTER();
	opened all;

	if (!within(from, bytes) || !within(to, bytes))
		return INVALID;
	memcpy((void *)to, (const void *)from, bytes);
	return 0;
}

int cuMemsetD8Async(uintptr_t at, unsigned char value, size_t bytes, void *)
{
	ENTER();
	opened all;

	if (!within(at, bytes))
		return INVALID;
	memset((void *)at, value, bytes);
	return 0;
}

int cuPointerGetAttributes(unsigned count, const int *wanted, void **values, uintptr_t address)
{
	/* It is not one of those that are counted: with the address sanitizer, memory of the device can be read. */
	if (strcmp(plan.function, __func__) == 0)
		return plan.error;
	std::lock_guard<std::recursive_mutex> held(lock);
	auto i = find(address);
	bool known = i != pieces.end();

	for (unsigned k = 0; k < count; k++) {
		if (wanted[k] == 2)
			*(int *)values[k] = known ? 2 : pinned.count((void *)address) ? 1 : 0;
		else if (wanted[k] == 8)
			*(int *)values[k] = known && i->second.managed;
		else if (wanted[k] == 9)
			*(int *)values[k] = known ? i->second.device : -2;
		else if (wanted[k] == 11)
			*(uintptr_t *)values[k] = known ? i->first : 0;
		else if (wanted[k] == 12)
			*(size_t *)values[k] = known ? i->second.bytes : 0;
		else
			return INVALID;
	}
	return 0;
}

} /* extern "C" */
