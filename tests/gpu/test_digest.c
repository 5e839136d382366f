/* SPDX-License-Identifier: BSD-3-Clause */
/* Digests, region sums and the count of changes by the kernels are those of base, bit for bit. */
#include "gpu_cases.h"

#include "../lib/draw.h"

static const uint32_t chunks[] = {64, 128, 256, 512, 1024, 2048, 4096};
static const size_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 14, 31, 32, 33, 127, 129};

static struct kedge__digest_key *key;

static int setup(void **state)
{
	static const uint8_t seed[KEDGE__DIGEST_SEED_BYTES] = {7, 5, 3};

	return gpu_setup(state) || kedge__digest_key_new(seed, &key, NULL);
}

static int teardown(void **state)
{
	kedge__digest_key_free(key);
	return gpu_teardown(state);
}

struct trial {
	struct kedge__gpu_digest *digest;
	uint32_t chunk;
	size_t offset, count;
	uint8_t *host; /* as the device has it at OFFSET */
	kedge__gpu_address data, digests, totals;
};

/* One pass, of which CHANGED digests are new. */
static void pass(const struct trial *t, uint64_t changed)
{
	struct kedge__digest *want = kedge__calloc(t->count, sizeof(*want)),
			     *got = kedge__calloc(t->count, sizeof(*got));
	struct kedge__sum sum = kedge__sum_of(t->host, t->count * t->chunk, 0);
	struct kedge__gpu_totals totals;

	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, t->totals, sizeof(totals), NULL), 0);
	assert_int_equal(kedge__gpu_digest_run(t->digest, KEDGE__GPU_WORK, t->data + t->offset, t->count, t->digests,
					       t->totals, NULL),
			 0);
	gpu_get(got, t->digests, t->count * sizeof(*got));
	gpu_get(&totals, t->totals, sizeof(totals));
	kedge__digest_chunks(key, t->host, t->count * t->chunk, t->chunk, want);
	assert_memory_equal(got, want, t->count * sizeof(*got));
	assert_true(totals.sum.s1 == sum.s1 && totals.sum.s2 == sum.s2);
	assert_int_equal(totals.changed, changed);
	kedge__free(got);
	kedge__free(want);
}

/* All new, then nothing new, then some bits changed. */
static void three_passes(const struct trial *t)
{
	size_t bytes = t->count * t->chunk, changes = 0;

	assert_int_equal(
	    kedge__gpu_clear(gpu, KEDGE__GPU_WORK, t->digests, t->count * sizeof(struct kedge__digest), NULL), 0);
	gpu_put(t->data + t->offset, t->host, bytes);
	pass(t, t->count);
	pass(t, 0);
	for (size_t i = 0; i < t->count; i += 1 + i % 7, changes++)
		t->host[i * t->chunk + (i * 37) % t->chunk] ^= (uint8_t)(1 << i % 8);
	gpu_put(t->data + t->offset, t->host, bytes);
	pass(t, changes);
}

static void chunk_try(uint32_t chunk, const size_t *list, size_t n)
{
	struct trial t = {.chunk = chunk};

	assert_int_equal(kedge__gpu_digest_new(gpu, key, chunk, &t.digest, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		uint64_t seed = chunk + i, bytes = list[i] * chunk;

		t.count = list[i];
		t.offset = 16 * (i % 16);
		t.host = kedge__malloc(bytes);
		draw_bytes(&seed, t.host, bytes);
		t.data = gpu_take(t.offset + bytes);
		t.digests = gpu_take(t.count * sizeof(struct kedge__digest));
		t.totals = gpu_take(sizeof(struct kedge__gpu_totals));
		three_passes(&t);
		kedge__gpu_release(gpu, t.totals, sizeof(struct kedge__gpu_totals));
		kedge__gpu_release(gpu, t.digests, t.count * sizeof(struct kedge__digest));
		kedge__gpu_release(gpu, t.data, t.offset + bytes);
		kedge__free(t.host);
	}
	kedge__gpu_digest_free(t.digest);
}

static void test_counts_and_places(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(chunks); i++)
		chunk_try(chunks[i], counts, KEDGE__COUNT(counts));
}

static void test_many(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(chunks); i++) {
		size_t many = (much ? (64u << 20) + 12288 : 40960) / chunks[i];

		chunk_try(chunks[i], &many, 1);
	}
}

static void test_other_sizes_are_refused(void **state)
{
	struct kedge__gpu_digest *d = NULL;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_false(kedge__gpu_digests(32));
	assert_int_equal(kedge__gpu_digest_new(gpu, key, 32, &d, &err), KEDGE_E_LIMIT);
	assert_non_null(strstr(kedge__error_text(&err), "32 bytes"));
	assert_null(d);
	kedge__error_done(&err);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_counts_and_places),
	    cmocka_unit_test(test_many),
	    cmocka_unit_test(test_other_sizes_are_refused),
	};

	return cases_run_where(argc, argv, tests, setup, teardown, gpu_here);
}
