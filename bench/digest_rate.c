/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest_rate: the chunk digest of one thread against XXH3-128 and memcpy, by size of chunks. All take turns on the
 * same memory; shown is the median of the turns, and of the ratio within a turn to the faster XXH3. Usage: digest_rate
 * [MIB [TURNS]]
 */
#include "base/digest_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TURNS_MAX 101
#define PIECE     ((size_t)16 << 10)

uint64_t peer_avx2(const uint8_t *data, size_t bytes, size_t chunk);
uint64_t peer_avx512(const uint8_t *data, size_t bytes, size_t chunk);

static struct kedge__digest_key *key;
static struct kedge__digest out[PIECE / 16];
static uint8_t *copy;
static volatile uint64_t sink;

/* In pieces, as the hash pass has it. */
static uint64_t by_kernel(const struct digest_kernel *k, const uint8_t *data, size_t bytes, size_t chunk)
{
	size_t piece = KEDGE__MAX(PIECE, chunk);

	for (size_t at = 0; k && at + piece <= bytes; at += piece)
		kedge__digest_chunks_by(k, key, data + at, piece, chunk, out);
	return k ? out[0].lo : 0;
}

static uint64_t by_scalar(const uint8_t *data, size_t bytes, size_t chunk)
{
	return by_kernel(&kedge__digest_scalar, data, bytes, chunk);
}

static uint64_t by_avx2(const uint8_t *data, size_t bytes, size_t chunk)
{
	return by_kernel(kedge__digest_avx2(), data, bytes, chunk);
}

static uint64_t by_avx512(const uint8_t *data, size_t bytes, size_t chunk)
{
	return by_kernel(kedge__digest_avx512(), data, bytes, chunk);
}

static uint64_t by_peer_avx2(const uint8_t *data, size_t bytes, size_t chunk)
{
	return kedge__digest_avx2() ? peer_avx2(data, bytes, chunk) : 0;
}

static uint64_t by_peer_avx512(const uint8_t *data, size_t bytes, size_t chunk)
{
	return kedge__digest_avx512() ? peer_avx512(data, bytes, chunk) : 0;
}

static uint64_t by_memcpy(const uint8_t *data, size_t bytes, size_t chunk)
{
	(void)chunk;
	memcpy(copy, data, bytes);
	return copy[bytes / 2];
}

static const struct {
	const char *name;
	uint64_t (*run)(const uint8_t *data, size_t bytes, size_t chunk);
} methods[] = {{"XXH3 avx2", by_peer_avx2}, {"XXH3 avx512", by_peer_avx512}, {"avx2", by_avx2},
	       {"avx512", by_avx512},       {"scalar", by_scalar},           {"memcpy", by_memcpy}};
enum { METHODS = sizeof(methods) / sizeof(methods[0]), PEERS = 2 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

static void measure(const uint8_t *data, size_t bytes, size_t chunk, int turns)
{
	static double rate[METHODS][TURNS_MAX], ratio[METHODS][TURNS_MAX];

	for (int t = 0; t < turns; t++) {
		double best = 0;

		for (int m = 0; m < METHODS; m++) {
			double start = now();
			uint64_t got = methods[m].run(data, bytes, chunk);

			sink += got;
			rate[m][t] = got || m == METHODS - 1 ? (double)bytes / (now() - start) * 1e-9 : 0;
			best = m < PEERS ? KEDGE__MAX(best, rate[m][t]) : best;
			ratio[m][t] = best > 0 ? rate[m][t] / best : 0;
		}
	}
	printf("%6zu", chunk);
	for (int m = 0; m < METHODS; m++) {
		printf("  %6.2f", median(rate[m], turns));
		if (m >= PEERS)
			printf(" (%4.2f)", median(ratio[m], turns));
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	static const uint8_t seed[KEDGE__DIGEST_SEED_BYTES] = {1};
	size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 256) << 20;
	int turns = argc > 2 ? atoi(argv[2]) : 9;
	uint8_t *data = malloc(bytes);
	uint64_t word = 1;

	copy = malloc(bytes);
	if (!data || !copy || turns < 1 || turns > TURNS_MAX || bytes < KEDGE__DIGEST_MAX ||
	    kedge__digest_key_new(seed, &key, NULL))
		return 1;
	for (size_t i = 0; i < bytes; i += 8, word = word * UINT64_C(6364136223846793005) + 1)
		memcpy(data + i, &word, 8);
	memset(copy, 1, bytes);
	printf("%zu MiB, median of %d turns, GB/s, and in brackets the ratio to the faster XXH3 of the turn\n chunk",
	       bytes >> 20, turns);
	for (int m = 0; m < METHODS; m++)
		printf("  %s", methods[m].name);
	printf("\n");
	for (size_t chunk = 16; chunk <= 65536; chunk *= chunk < 1024 ? 2 : 4)
		measure(data, bytes, chunk, turns);
	kedge__digest_key_free(key);
	free(data);
	free(copy);
	return 0;
}
