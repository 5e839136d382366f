/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest_check.cu: run the digest kernels on a device, compare every digest, the region sum and the number of changes with
 * the CPU's, for many numbers of chunks and places of their beginning; then time them beside a plain device copy of the same
 * buffer. Usage: digest_check [GIB [ROUNDS]]
 */
#include "gpu/digest.cu"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/digest_internal.h"
}

#define CHECK(call)                                                                                     \
	do {                                                                                            \
		cudaError_t e_ = (call);                                                                \
		if (e_ != cudaSuccess) {                                                                \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_));                     \
			exit(1);                                                                        \
		}                                                                                       \
	} while (0)

typedef void (*kernel_fn)(struct kedge_digest_args);

static const struct {
	size_t chunk;
	kernel_fn fn;
} kernels[] = {
#define SHORT(bytes, loads) {bytes, kedge_digest_##bytes},
#define LONG(bytes, loads, blocks) {bytes, kedge_digest_##bytes},
    KEDGE_DIGEST_KERNELS(SHORT, LONG)};

static const int blocks = 132 * 16, threads = 256;
static struct kedge__digest_key *key;
static ulonglong2 *device_nh;
static unsigned long long *totals; /* region sum, changes */

static __global__ void fill(unsigned long long *p, size_t n, unsigned long long seed)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
		unsigned long long v = (i + seed) * 0xD6E8FEB86659FD93ull;

		v = (v ^ v >> 32) * 0xFF51AFD7ED558CCDull;
		p[i] = (v ^ v >> 29) & (i % 3 ? ~0ull : 0xffull);
	}
}

static void fold_set(struct kedge_digest_fold *to, const struct digest_fold *from, size_t length)
{
	for (int j = 0; j < 4; j++) {
		for (int i = 0; i < 4; i++) {
			to->low[j][i] = (unsigned)from->m[j][i];
			to->high[j][i] = (unsigned)(from->m[j][i] >> 32);
		}
		to->start[j] = digest_length(from, j, length);
	}
}

static struct kedge_digest_args args_for(const void *data, size_t count, size_t chunk, void *digests)
{
	struct kedge_digest_args a;

	a.data = (const ulonglong2 *)data;
	a.count = count;
	a.digests = (ulonglong2 *)digests;
	a.region_sum = totals;
	a.changed = totals + 2;
	a.nh = device_nh;
	a.top_nh = device_nh + DIGEST_WORDS / 2;
	fold_set(&a.fold, &key->chunk.fold, chunk < DIGEST_BLOCK ? chunk : DIGEST_BLOCK);
	fold_set(&a.top_fold, &key->top.fold, chunk);
	return a;
}

/* One run over what is known as `known`; returns the number of things that are not as they should be. */
static size_t run_once(kernel_fn fn, const struct kedge_digest_args &a, const struct kedge__digest *want, struct kedge__digest *got,
		       struct kedge__sum sum, size_t changes)
{
	unsigned long long t[3];
	size_t wrong = 0;

	CHECK(cudaMemset(totals, 0, sizeof(t)));
	fn<<<blocks, threads>>>(a);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(t, totals, sizeof(t), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(got, a.digests, a.count * sizeof(*got), cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < a.count; i++)
		wrong += memcmp(&got[i], &want[i], sizeof(*got)) != 0;
	return wrong + (t[0] != sum.s1 || t[1] != sum.s2) + (t[2] != changes);
}

/* COUNT chunks at OFFSET: all new, then all known, then with some bytes changed. */
static size_t compare_at(size_t k, uint8_t *device, uint8_t *host, size_t offset, size_t count, void *digests,
			 struct kedge__digest *want, struct kedge__digest *got)
{
	size_t chunk = kernels[k].chunk, bytes = count * chunk, changes = 0, wrong;
	struct kedge_digest_args a = args_for(device + offset, count, chunk, digests);
	struct kedge__sum sum = kedge__sum_of(host + offset, bytes, 0);

	CHECK(cudaMemset(digests, 0, count * sizeof(*got)));
	kedge__digest_chunks(key, host + offset, bytes, chunk, want);
	wrong = run_once(kernels[k].fn, a, want, got, sum, count);
	wrong += run_once(kernels[k].fn, a, want, got, sum, 0);
	for (size_t i = 0; i < count; i += 1 + i % 7, changes++)
		host[offset + i * chunk + (i * 37) % chunk] ^= (uint8_t)(1 << i % 8);
	CHECK(cudaMemcpy(device + offset, host + offset, bytes, cudaMemcpyHostToDevice));
	kedge__digest_chunks(key, host + offset, bytes, chunk, want);
	return wrong + run_once(kernels[k].fn, a, want, got, kedge__sum_of(host + offset, bytes, 0), changes);
}

static int compare(size_t k, uint8_t *device, uint8_t *host, size_t bytes, void *digests)
{
	static const size_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 127, 1000, 4095, 4097};
	size_t chunk = kernels[k].chunk, most = bytes / chunk, wrong = 0, runs = 0;
	struct kedge__digest *want = (struct kedge__digest *)malloc(most * sizeof(*want));
	struct kedge__digest *got = (struct kedge__digest *)malloc(most * sizeof(*got));

	for (size_t offset = 0; offset < 256; offset += 16, runs++)
		wrong += compare_at(k, device, host, offset, counts[runs % (sizeof(counts) / sizeof(counts[0]))], digests, want,
				    got);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++, runs++)
		wrong += compare_at(k, device, host, 16 * i, counts[i], digests, want, got);
	wrong += compare_at(k, device, host, 0, most, digests, want, got);
	printf("chunk %5zu: %zu runs at 16 places, the last over %zu chunks, compared with the %s kernel: %zu differ\n", chunk, 3 * (runs + 1),
	       most, kedge__digest_kernel(), wrong);
	free(got);
	free(want);
	return wrong != 0;
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

enum { TURNS = 21 };

/* Seconds, the median of TURNS turns; FN or a copy. */
static double timed(kernel_fn fn, const struct kedge_digest_args &a, void *copy, size_t bytes)
{
	static cudaEvent_t begin, end;
	float ms[TURNS];

	if (!begin) {
		CHECK(cudaEventCreate(&begin));
		CHECK(cudaEventCreate(&end));
	}
	for (int i = 0; i < TURNS; i++) {
		CHECK(cudaEventRecord(begin));
		if (fn)
			fn<<<blocks, threads>>>(a);
		else
			CHECK(cudaMemcpyAsync(copy, a.data, bytes, cudaMemcpyDeviceToDevice));
		CHECK(cudaEventRecord(end));
		CHECK(cudaEventSynchronize(end));
		CHECK(cudaEventElapsedTime(&ms[i], begin, end));
	}
	qsort(ms, TURNS, sizeof(ms[0]), by_value);
	return ms[TURNS / 2] * 1e-3;
}

static void time_all(const void *data, void *copy, size_t bytes, void *digests)
{
	double rate = 2.0 * bytes / timed(NULL, args_for(data, 0, 64, digests), copy, bytes) / 1e9;

	printf("device copy, read and write counted: %.0f GB/s\n", rate);
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		size_t chunk = kernels[i].chunk;
		double t = timed(kernels[i].fn, args_for(data, bytes / chunk, chunk, digests), NULL, 0);

		printf("chunk %5zu: digest, region sum and compare %.0f GB/s, %.2f of the copy\n", chunk, bytes / t / 1e9,
		       bytes / t / 1e9 / rate);
	}
}

int main(int argc, char **argv)
{
	size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 8) << 30, small = (64u << 20) + 12288;
	int rounds = argc > 2 ? atoi(argv[2]) : 3, bad = 0;
	uint8_t *host = (uint8_t *)malloc(small), *data;
	void *digests, *copy;

	if (kedge__digest_key_new(NULL, &key, NULL))
		return 1;
	CHECK(cudaMalloc((void **)&data, bytes));
	CHECK(cudaMalloc(&copy, bytes));
	CHECK(cudaMalloc(&digests, bytes / 64 * 16));
	CHECK(cudaMalloc((void **)&totals, 24));
	CHECK(cudaMalloc((void **)&device_nh, 2 * sizeof(key->chunk.nh)));
	CHECK(cudaMemcpy(device_nh, key->chunk.nh, sizeof(key->chunk.nh), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(device_nh + DIGEST_WORDS / 2, key->top.nh, sizeof(key->top.nh), cudaMemcpyHostToDevice));
	fill<<<blocks, threads>>>((unsigned long long *)data, bytes / 8, 1);
	CHECK(cudaMemcpy(host, data, small, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		bad |= compare(i, data, host, small, digests);
	for (int i = 0; i < rounds; i++)
		time_all(data, copy, bytes, digests);
	kedge__digest_key_free(key);
	return bad;
}
