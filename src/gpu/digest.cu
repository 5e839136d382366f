/*
 * digest.cu: the chunk digest and the region sum of docs/digests.md on a GPU, bit-identical to src/base/digest.c.
 *
 * The digest is an order-free sum over words, so LANES threads share a chunk: each takes 16-byte loads at a stride of
 * LANES * 16 bytes, and log2(LANES) shuffles add the partial sums. Neither shared memory nor a barrier is needed, and
 * the region sum rides on the same loads: it is additive, so the atomics at the end commute and the result is the same
 * on every run.
 */
#include "gpu/digest.cuh"

#define STEP      0x9E3779B97F4A7C15ull
#define KEY_CHUNK 0x6B656467652D6331ull
#define KEY_SUM   0x27D4EB2F165667C5ull

static __device__ __forceinline__ unsigned long long rotl(unsigned long long v, int n)
{
	return v << n | v >> (64 - n);
}

static __device__ __forceinline__ unsigned long long mix(unsigned long long word, unsigned long long key)
{
	unsigned long long x = (word ^ key) * 0xFF51AFD7ED558CCDull;

	x ^= x >> 32;
	x *= 0xD6E8FEB86659FD93ull;
	return x ^ x >> 29;
}

static __device__ __forceinline__ unsigned long long final_mix(unsigned long long v)
{
	v ^= v >> 30;
	v *= 0xBF58476D1CE4E5B9ull;
	v ^= v >> 27;
	v *= 0x94D049BB133111EBull;
	return v ^ v >> 31;
}

struct sums {
	unsigned long long a, b, s1, s2;
};

static __device__ __forceinline__ void take(struct sums *s, ulonglong2 w, unsigned long long word, unsigned long long at)
{
	unsigned long long key = KEY_CHUNK + word * STEP;
	unsigned long long x = mix(w.x, key), y = mix(w.y, key + STEP);
	unsigned long long sum_key = KEY_SUM + at * STEP;
	unsigned long long t0 = w.x ^ sum_key, t1 = w.y ^ (sum_key + STEP);

	s->a += x + rotl(y, 32);
	s->b += y + 3 * rotl(x, 27);
	s->s1 += (t0 & 0xffffffffull) * (t0 >> 32) + (t1 & 0xffffffffull) * (t1 >> 32);
	s->s2 += t0 + t1;
}

/* Sums of the region from every warp, added once a block. */
static __device__ void add_region_sum(struct sums *s, unsigned long long *region_sum)
{
	for (int d = 16; d; d >>= 1) {
		s->s1 += __shfl_xor_sync(0xffffffffu, s->s1, d);
		s->s2 += __shfl_xor_sync(0xffffffffu, s->s2, d);
	}
	if (threadIdx.x % 32 == 0) {
		atomicAdd(&region_sum[0], s->s1);
		atomicAdd(&region_sum[1], s->s2);
	}
}

/*
 * COUNT whole chunks of LANES * LOADS * 16 bytes. `digests` holds those of the version before and is updated; the number of
 * chunks that changed is added to *changed. The grid strides over the chunks in whole warps, so no lane leaves early.
 */
template <int LANES, int LOADS>
static __device__ __forceinline__ void digest_chunks(const ulonglong2 *data, unsigned long long count, ulonglong2 *digests,
						     unsigned long long *region_sum, unsigned long long *changed)
{
	const unsigned lane = threadIdx.x % LANES;
	const unsigned long long groups = (unsigned long long)gridDim.x * blockDim.x / LANES;
	const unsigned long long first = ((unsigned long long)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
	const unsigned long long rounds = (count + groups - 1) / groups;
	unsigned long long differ = 0;
	struct sums region = {0, 0, 0, 0};

	for (unsigned long long r = 0, c = first; r < rounds; r++, c += groups) {
		struct sums s = {0, 0, region.s1, region.s2};
		ulonglong2 w[LOADS], old = {0, 0};

		if (c < count) {
			const ulonglong2 *p = data + c * (LANES * LOADS);

#pragma unroll
			for (int j = 0; j < LOADS; j++)
				w[j] = __ldcs(p + j * LANES + lane);
			if (lane == 0)
				old = digests[c];
#pragma unroll
			for (int j = 0; j < LOADS; j++) {
				unsigned long long pair = j * LANES + lane;

				take(&s, w[j], 2 * pair, 2 * (c * (LANES * LOADS) + pair));
			}
		}
#pragma unroll
		for (int d = LANES / 2; d; d >>= 1) {
			s.a += __shfl_xor_sync(0xffffffffu, s.a, d);
			s.b += __shfl_xor_sync(0xffffffffu, s.b, d);
		}
		if (c < count && lane == 0) {
			unsigned long long a = s.a ^ (LANES * LOADS * 16ull) * STEP;
			unsigned long long b = final_mix(s.b + a);
			ulonglong2 now;

			now.x = final_mix(a + b);
			now.y = b + now.x;
			if (now.x != old.x || now.y != old.y) {
				digests[c] = now;
				differ++;
			}
		}
		region.s1 = s.s1;
		region.s2 = s.s2;
	}
	add_region_sum(&region, region_sum);
	if (differ)
		atomicAdd(changed, differ);
}

#define KERNEL(bytes, lanes, loads)                                                                                    \
	extern "C" __global__ void kedge_digest_##bytes(const ulonglong2 *data, unsigned long long count,             \
							ulonglong2 *digests, unsigned long long *region_sum,         \
							unsigned long long *changed)                                 \
	{                                                                                                              \
		digest_chunks<lanes, loads>(data, count, digests, region_sum, changed);                               \
	}
KEDGE_DIGEST_KERNELS(KERNEL)
