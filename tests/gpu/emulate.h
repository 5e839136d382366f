/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiles kernels for the processor: the part of CUDA's language that src/gpu uses. A thread of a block is a fiber; at
 * a barrier or a shuffle it makes way for the others until all have come there. Blocks run one after the other, in
 * ascending order. Shared memory is static, so the sanitizers see every access for what it is; where threads of a block
 * disagree about a barrier, the program ends with a message instead of hanging. What cannot be seen here: races between
 * threads, and memory that is read before another multiprocessor's write has arrived.
 */
#ifndef KEDGE_TESTS_GPU_EMULATE_H
#define KEDGE_TESTS_GPU_EMULATE_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emulated
{

struct place {
	unsigned x, y, z;
};

struct thread {
	place index;
	unsigned lane, warp;
};

extern thread *self;
extern place block_index, block_size, grid_size;

/* Wait until all lanes of MASK in this warp are here. */
void meet(unsigned mask);
void meet_block();
/* Give SIZE bytes to the other lanes of MASK, and get those of lane FROM. */
void trade(unsigned mask, const void *mine, void *theirs, size_t size, unsigned from);
unsigned ballot(unsigned mask, bool vote);
/* The lanes of MASK that give the same SIZE bytes. */
unsigned match(unsigned mask, const void *mine, size_t size);

using call = void (*)(const void *args);

/* The kernel of that name, or null; it runs with a grid of BLOCKS blocks. */
const void *kernel_find(const char *name);
void kernel_run(const void *kernel, unsigned blocks, unsigned threads, const void *args);

struct entry {
	entry(const char *name, call f);
};

template <class T> T shuffle(unsigned mask, T mine, unsigned from)
{
	T theirs;

	trade(mask, &mine, &theirs, sizeof(T), from);
	return theirs;
}

} /* namespace emulated */

#define KEDGE_KERNEL(name, type)                                                                                       \
	static void name(const type &a);                                                                               \
	static emulated::entry name##_entry(#name, [](const void *p) { name(*(const type *)p); });                     \
	static void name(const type &a)

#define KEDGE_LARGE_KERNEL KEDGE_KERNEL
#define KEDGE_KERNEL_BY(threads, blocks, name, type) KEDGE_KERNEL(name, type)

#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __shared__   static
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (emulated::self->index)
#define blockIdx  (emulated::block_index)
#define blockDim  (emulated::block_size)
#define gridDim   (emulated::grid_size)

struct __align__(8) uint2
{
	unsigned x, y;
};
struct __align__(16) uint4
{
	unsigned x, y, z, w;
};
struct __align__(16) ulonglong2
{
	unsigned long long x, y;
};

static inline uint2 make_uint2(unsigned x, unsigned y)
{
	return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
	return {x, y, z, w};
}
static inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y)
{
	return {x, y};
}

template <class T> T __ldcs(const T *p)
{
	return *p;
}
template <class T> T __ldcg(const T *p)
{
	return *p;
}
template <class T> T __ldg(const T *p)
{
	return *p;
}
template <class T> void __stcs(T *p, T v)
{
	*p = v;
}

static inline void __syncthreads()
{
	emulated::meet_block();
}
static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
	emulated::meet(mask);
}
static inline void __threadfence()
{
}
template <class T> T __shfl_sync(unsigned mask, T v, int from, int width = 32)
{
	unsigned w = (unsigned)width;

	return emulated::shuffle(mask, v, emulated::self->lane / w * w + (unsigned)from % w);
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int d)
{
	return emulated::shuffle(mask, v, emulated::self->lane ^ (unsigned)d);
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned d)
{
	unsigned lane = emulated::self->lane;

	return emulated::shuffle(mask, v, lane >= d ? lane - d : lane);
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned d)
{
	unsigned lane = emulated::self->lane;

	return emulated::shuffle(mask, v, lane + d < 32 ? lane + d : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int vote)
{
	return emulated::ballot(mask, vote != 0);
}
static inline int __any_sync(unsigned mask, int vote)
{
	return emulated::ballot(mask, vote != 0) != 0;
}
static inline int __all_sync(unsigned mask, int vote)
{
	return emulated::ballot(mask, vote != 0) == mask;
}
template <class T> unsigned __match_any_sync(unsigned mask, T v)
{
	return emulated::match(mask, &v, sizeof(v));
}

template <class T, class U> T atomicAdd(T *p, U v)
{
	return __atomic_fetch_add(p, (T)v, __ATOMIC_RELAXED);
}
template <class T, class U> T atomicOr(T *p, U v)
{
	return __atomic_fetch_or(p, (T)v, __ATOMIC_RELAXED);
}
template <class T, class U> T atomicMin(T *p, U v)
{
	T old = *p;

	if ((T)v < old)
		*p = (T)v;
	return old;
}
template <class T, class U> T atomicMax(T *p, U v)
{
	T old = *p;

	if ((T)v > old)
		*p = (T)v;
	return old;
}
template <class T, class U, class V> T atomicCAS(T *p, U expected, V v)
{
	T old = *p;

	if (old == (T)expected)
		*p = (T)v;
	return old;
}

static inline int __popc(unsigned v)
{
	return __builtin_popcount(v);
}
static inline int __popcll(unsigned long long v)
{
	return __builtin_popcountll(v);
}
static inline int __clz(int v)
{
	return v ? __builtin_clz((unsigned)v) : 32;
}
static inline int __clzll(long long v)
{
	return v ? __builtin_clzll((unsigned long long)v) : 64;
}
static inline int __ffs(int v)
{
	return __builtin_ffs(v);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
	return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}

#endif
