/*
 * digest_check.cu: run the digest kernels on a device, compare every digest and the region sum with the CPU's, and
 * time them beside a plain device copy of the same buffer. Usage: digest_check [GIB]
 */
#include "gpu/digest.cu"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/base.h"
}

#define CHECK(call)                                                                                     \
	do {                                                                                            \
		cudaError_t e_ = (call);                                                                \
		if (e_ != cudaSuccess) {                                                                \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_));                     \
			exit(1);                                                                        \
		}                                                                                       \
	} while (0)

typedef void (*kernel_fn)(const ulonglong2 *, unsigned long long, ulonglong2 *, unsigned long long *, unsigned long long *);

static const struct {
	size_t chunk;
	kernel_fn fn;
} kernels[] = {
#define ENTRY(bytes, lanes, loads) {bytes, kedge_digest_##bytes},
    KEDGE_DIGEST_KERNELS(ENTRY)};

static __global__ void fill(unsigned long long *p, size_t n, unsigned long long seed)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
		p[i] = final_mix(i + seed) & (i % 3 ? ~0ull : 0xffull);
}

static const int blocks = 132 * 16, threads = 256;

static double timed(kernel_fn fn, const void *data, size_t count, void *digests, unsigned long long *out)
{
	cudaEvent_t a, b;
	float best = 1e30f, ms;

	CHECK(cudaEventCreate(&a));
	CHECK(cudaEventCreate(&b));
	for (int i = 0; i < 20; i++) {
		CHECK(cudaEventRecord(a));
		fn<<<blocks, threads>>>((const ulonglong2 *)data, count, (ulonglong2 *)digests, out, out + 2);
		CHECK(cudaEventRecord(b));
		CHECK(cudaEventSynchronize(b));
		CHECK(cudaEventElapsedTime(&ms, a, b));
		best = ms < best ? ms : best;
	}
	return best * 1e-3;
}

static int compare(kernel_fn fn, size_t chunk, const void *device, const uint8_t *host, size_t bytes, void *digests,
		   unsigned long long *out)
{
	size_t count = bytes / chunk, wrong = 0;
	kedge__digest *got = (kedge__digest *)malloc(count * 16), *want = (kedge__digest *)malloc(count * 16);
	unsigned long long sums[3];
	kedge__sum s = kedge__sum_of(host, count * chunk, 0);

	CHECK(cudaMemset(digests, 0, count * 16));
	CHECK(cudaMemset(out, 0, 24));
	fn<<<blocks, threads>>>((const ulonglong2 *)device, count, (ulonglong2 *)digests, out, out + 2);
	CHECK(cudaMemcpy(got, digests, count * 16, cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(sums, out, 24, cudaMemcpyDeviceToHost));
	kedge__digest_chunks(host, count * chunk, chunk, want);
	for (size_t i = 0; i < count; i++)
		wrong += memcmp(&got[i], &want[i], 16) != 0;
	wrong += sums[0] != s.s1 || sums[1] != s.s2;
	wrong += sums[2] != count;
	printf("chunk %5zu: %zu digests and the region sum compared with the %s kernel: %zu differ\n", chunk, count,
	       kedge__digest_kernel(), wrong);
	free(got);
	free(want);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 8) << 30, small = (64u << 20) + 12288;
	uint8_t *host = (uint8_t *)malloc(small);
	void *data, *digests, *copy;
	unsigned long long *out;
	int bad = 0;

	CHECK(cudaMalloc(&data, bytes));
	CHECK(cudaMalloc(&copy, bytes));
	CHECK(cudaMalloc(&digests, bytes / 64 * 16));
	CHECK(cudaMalloc((void **)&out, 24));
	fill<<<blocks, threads>>>((unsigned long long *)data, bytes / 8, 1);
	CHECK(cudaMemcpy(host, data, small, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		bad |= compare(kernels[i].fn, kernels[i].chunk, data, host, small, digests, out);

	cudaEvent_t a, b;
	float best = 1e30f, ms;
	CHECK(cudaEventCreate(&a));
	CHECK(cudaEventCreate(&b));
	for (int i = 0; i < 10; i++) {
		CHECK(cudaEventRecord(a));
		CHECK(cudaMemcpyAsync(copy, data, bytes, cudaMemcpyDeviceToDevice));
		CHECK(cudaEventRecord(b));
		CHECK(cudaEventSynchronize(b));
		CHECK(cudaEventElapsedTime(&ms, a, b));
		best = ms < best ? ms : best;
	}
	double copy_rate = 2.0 * bytes / (best * 1e-3) / 1e9;
	printf("device copy, read and write counted: %.0f GB/s\n", copy_rate);
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		double t = timed(kernels[i].fn, data, bytes / kernels[i].chunk, digests, out);

		printf("chunk %5zu: digest, region sum and compare %.0f GB/s, %.2f of the copy\n", kernels[i].chunk,
		       bytes / t / 1e9, bytes / t / 1e9 / copy_rate);
	}
	return bad;
}
