/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash pass by the kernels, beside the same made of base's digests and sums, bit for bit. */
#include "gpu_cases.h"

#include "../lib/draw.h"

static const uint32_t chunks[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

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

/* A region at an address of any alignment, in two versions. */
struct trial {
	uint32_t chunk;
	size_t shift, bytes;
	uint64_t mask;
	uint8_t *host; /* as the device has it */
	struct kedge__digest *old;
	size_t old_chunks;
	size_t slab_count, chunk_count;
	kedge__gpu_address data;
	struct kedge__gpu_pass *pass;
	struct kedge__gpu_slabs on;
	struct kedge_slab *slabs;
	struct kedge_slab_found *found;
	struct kedge_slab_at *at;
	uint8_t *origins; /* NULL: none; else a byte for each chunk: it is a duplicate */
};

static uint64_t bits_bytes(const struct trial *t)
{
	return 2 * t->slab_count * kedge__gpu_pass_words(t->chunk) * sizeof(uint32_t);
}

static void take(struct trial *t)
{
	t->slab_count = (t->bytes + KEDGE_SLAB_BYTES - 1) / KEDGE_SLAB_BYTES;
	t->chunk_count = (t->bytes + t->chunk - 1) / t->chunk;
	t->data = gpu_take(t->shift + t->bytes);
	t->on.count = t->slab_count;
	t->on.slabs = gpu_take(t->slab_count * sizeof(*t->slabs));
	t->on.found = gpu_take(t->slab_count * sizeof(*t->found));
	t->on.at = gpu_take(t->slab_count * sizeof(*t->at));
	t->on.bits = gpu_take(bits_bytes(t));
	t->on.digests = gpu_take(t->chunk_count * 16);
	t->on.changes = gpu_take(t->chunk_count * 2);
	t->on.fresh = gpu_take(t->chunk_count * 16);
	t->on.fills = gpu_take(t->chunk_count * 8);
	t->slabs = kedge__calloc(t->slab_count, sizeof(*t->slabs));
	t->found = kedge__calloc(t->slab_count, sizeof(*t->found));
	t->at = kedge__calloc(t->slab_count, sizeof(*t->at));
	t->old = kedge__calloc(t->chunk_count, sizeof(*t->old));
	assert_int_equal(kedge__gpu_pass_new(gpu, key, t->chunk, t->mask, &t->pass, NULL), 0);
}

static void give_back(struct trial *t)
{
	kedge__gpu_pass_free(t->pass);
	kedge__gpu_release(gpu, t->data, t->shift + t->bytes);
	kedge__gpu_release(gpu, t->on.slabs, t->slab_count * sizeof(*t->slabs));
	kedge__gpu_release(gpu, t->on.found, t->slab_count * sizeof(*t->found));
	kedge__gpu_release(gpu, t->on.at, t->slab_count * sizeof(*t->at));
	kedge__gpu_release(gpu, t->on.bits, bits_bytes(t));
	kedge__gpu_release(gpu, t->on.digests, t->chunk_count * 16);
	kedge__gpu_release(gpu, t->on.changes, t->chunk_count * 2);
	kedge__gpu_release(gpu, t->on.fresh, t->chunk_count * 16);
	kedge__gpu_release(gpu, t->on.fills, t->chunk_count * 8);
	kedge__free(t->slabs);
	kedge__free(t->found);
	kedge__free(t->at);
	kedge__free(t->old);
}

static bool is_constant(const uint8_t *p, size_t len)
{
	return len >= 16 && !memcmp(p, p + 8, len - 8);
}

/* What the pass has to find in a slab. */
struct want {
	uint16_t changes[KEDGE_SLAB_BYTES / 16];
	uint64_t fills[KEDGE_SLAB_BYTES / 16];
	struct kedge__digest fresh[KEDGE_SLAB_BYTES / 16];
	struct kedge_slab_found found;
	bool flat; /* all of it is one constant */
};

static void want_slab(const struct trial *t, size_t slab, const struct kedge__digest *now, struct want *w)
{
	size_t begin = slab * KEDGE_SLAB_BYTES, bytes = KEDGE__MIN(t->bytes - begin, (size_t)KEDGE_SLAB_BYTES);
	struct kedge__sum sum = kedge__sum_of(t->host + begin, bytes, begin);

	w->found = (struct kedge_slab_found){.sum = {sum.s1, sum.s2}};
	for (size_t c = 0; c * t->chunk < bytes; c++) {
		const uint8_t *p = t->host + begin + c * t->chunk;
		size_t len = KEDGE__MIN(bytes - c * t->chunk, (size_t)t->chunk), i = begin / t->chunk + c;
		bool fill = is_constant(p, len);

		if (i < t->old_chunks && kedge__digest_equal(t->old[i], now[i]))
			continue;
		w->fresh[w->found.changes] = now[i];
		w->changes[w->found.changes++] = (uint16_t)(c << 1 | fill);
		if (fill)
			w->fills[w->found.fills++] = kedge__get64(p);
	}
	w->flat = bytes >= 16 && is_constant(t->host + begin, bytes);
}

/* As the host finds it in what the kernel noted. */
static bool is_flat(const struct trial *t, size_t slab)
{
	const struct kedge_slab_found *f = &t->found[slab];
	uint32_t bytes = t->slabs[slab].bytes;

	return bytes >= 16 && f->alike == bytes / t->chunk && (bytes % t->chunk == 0 || f->tail_alike);
}

static void run_pass(struct trial *t)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	for (size_t i = 0; i < t->slab_count; i++) {
		size_t begin = i * KEDGE_SLAB_BYTES, first = begin / t->chunk;

		t->slabs[i] = (struct kedge_slab){
		    .data = t->data + t->shift + begin,
		    .offset = begin,
		    .place = first,
		    .bytes = (unsigned)KEDGE__MIN(t->bytes - begin, (size_t)KEDGE_SLAB_BYTES),
		    .known = (unsigned)(t->old_chunks > first ? t->old_chunks - first : 0),
		};
	}
	t->on.odd = t->shift % 16;
	t->on.compare = true;
	gpu_put(t->on.slabs, t->slabs, t->slab_count * sizeof(*t->slabs));
	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, t->on.found, t->slab_count * sizeof(*t->found), NULL),
			 0);
	assert_int_equal(kedge__gpu_pass_run(t->pass, KEDGE__GPU_WORK, &t->on, 0, t->slab_count, &err), 0);
	gpu_get(t->found, t->on.found, t->slab_count * sizeof(*t->found));
}

/* Literals of a region follow each other. */
static uint64_t places_make(struct trial *t)
{
	struct kedge_slab_at next = {0};

	for (size_t i = 0; i < t->slab_count; i++) {
		t->at[i] = next;
		next.changes += t->found[i].changes;
		next.fills += t->found[i].fills;
		next.literals +=
		    (uint64_t)(t->origins ? t->found[i].literals : t->found[i].changes - t->found[i].fills) * t->chunk;
	}
	gpu_put(t->on.at, t->at, t->slab_count * sizeof(*t->at));
	return next.literals;
}

static void check_lists(const struct trial *t, size_t slab, const struct want *w)
{
	uint16_t *changes = kedge__calloc(w->found.changes + 1, 2);
	uint64_t *fills = kedge__calloc(w->found.fills + 1, 8);
	struct kedge__digest *fresh = kedge__calloc(w->found.changes + 1, 16);
	size_t known = 0;

	gpu_get(changes, t->on.changes + t->at[slab].changes * 2, w->found.changes * 2);
	gpu_get(fills, t->on.fills + t->at[slab].fills * 8, w->found.fills * 8);
	gpu_get(fresh, t->on.fresh + t->at[slab].changes * 16, w->found.changes * 16);
	assert_memory_equal(changes, w->changes, w->found.changes * 2);
	assert_memory_equal(fills, w->fills, w->found.fills * 8);
	while (known < w->found.changes && (changes[known] >> 1) < t->slabs[slab].known)
		known++;
	assert_memory_equal(fresh, w->fresh, known * 16);
	kedge__free(changes);
	kedge__free(fills);
	kedge__free(fresh);
}

static void check_gather(const struct trial *t, uint64_t bytes)
{
	uint8_t *got = NULL;
	uint64_t at = 0;

	assert_int_equal(kedge__gpu_pin(gpu, bytes + 1, (void **)&got, NULL), 0);
	memset(got, 0x55, bytes + 1);
	assert_int_equal(
	    kedge__gpu_pass_gather(t->pass, KEDGE__GPU_WORK, &t->on, 0, t->slab_count, (uintptr_t)got, NULL), 0);
	assert_int_equal(kedge__gpu_finish(gpu, NULL), 0);
	for (size_t slab = 0; slab < t->slab_count; slab++) {
		uint16_t *changes = kedge__calloc(t->found[slab].changes + 1, 2);

		gpu_get(changes, t->on.changes + t->at[slab].changes * 2, t->found[slab].changes * 2);
		for (size_t k = 0; k < t->found[slab].changes; k++) {
			size_t begin = slab * KEDGE_SLAB_BYTES + (size_t)(changes[k] >> 1) * t->chunk;
			size_t len = KEDGE__MIN(t->bytes - begin, (size_t)t->chunk);

			if (changes[k] & 1 || (t->origins && t->origins[begin / t->chunk]))
				continue;
			assert_memory_equal(got + at, t->host + begin, len);
			at += t->chunk;
		}
		kedge__free(changes);
	}
	assert_int_equal(at, bytes);
	assert_int_equal(got[bytes], 0x55);
	kedge__gpu_unpin(gpu, got);
}

/* Every third change that is no constant was found elsewhere. */
static void origins_check(struct trial *t, size_t changes)
{
	uint32_t *origins = kedge__calloc(changes + 1, sizeof(*origins));
	uint16_t *list = kedge__calloc(changes + 1, 2);
	uint64_t bytes;

	t->origins = kedge__calloc(t->chunk_count + 1, 1);
	gpu_get(list, t->on.changes, changes * 2);
	for (size_t slab = 0; slab < t->slab_count; slab++) {
		for (size_t k = 0; k < t->found[slab].changes; k++) {
			size_t n = t->at[slab].changes + k;

			if (list[n] & 1 || (k + slab) % 3)
				continue;
			origins[n] = 7;
			t->origins[slab * (KEDGE_SLAB_BYTES / t->chunk) + (list[n] >> 1)] = 1;
		}
	}
	t->on.origins = gpu_take((changes + 1) * sizeof(*origins));
	gpu_put(t->on.origins, origins, (changes + 1) * sizeof(*origins));
	assert_int_equal(kedge__gpu_pass_count(t->pass, KEDGE__GPU_WORK, &t->on, 0, t->slab_count, NULL), 0);
	gpu_get(t->found, t->on.found, t->slab_count * sizeof(*t->found));
	bytes = places_make(t);
	check_gather(t, bytes);
	kedge__gpu_release(gpu, t->on.origins, (changes + 1) * sizeof(*origins));
	t->on.origins = 0;
	kedge__free(t->origins);
	t->origins = NULL;
	kedge__free(origins);
	kedge__free(list);
}

/* A version that the device has, against the one before. */
static void version_try(struct trial *t)
{
	struct kedge__digest *now = kedge__calloc(t->chunk_count, sizeof(*now)),
			     *got = kedge__calloc(t->chunk_count, 16);
	struct want *w = kedge__calloc(1, sizeof(*w));
	uint64_t literals;
	size_t changes = 0;

	kedge__digest_chunks(key, t->host, t->bytes, t->chunk, now);
	for (size_t i = 0; t->mask && i < t->chunk_count; i++)
		now[i] = (struct kedge__digest){now[i].lo & t->mask, 0};
	gpu_put(t->data + t->shift, t->host, t->bytes);
	run_pass(t);
	literals = places_make(t);
	assert_int_equal(kedge__gpu_pass_list(t->pass, KEDGE__GPU_WORK, &t->on, 0, t->slab_count, false, NULL), 0);
	for (size_t i = 0; i < t->slab_count; i++) {
		want_slab(t, i, now, w);
		assert_int_equal(t->found[i].changes, w->found.changes);
		assert_int_equal(t->found[i].fills, w->found.fills);
		assert_memory_equal(t->found[i].sum, w->found.sum, 16);
		if (!t->slabs[i].known)
			assert_int_equal(is_flat(t, i), w->flat);
		check_lists(t, i, w);
		changes += t->found[i].changes;
	}
	check_gather(t, literals);
	origins_check(t, changes);
	places_make(t);
	assert_int_equal(kedge__gpu_pass_settle(t->pass, KEDGE__GPU_WORK, &t->on, 0, t->slab_count, 0, NULL), 0);
	gpu_get(got, t->on.digests, t->chunk_count * 16);
	assert_memory_equal(got, now, t->chunk_count * 16);
	memcpy(t->old, now, t->chunk_count * sizeof(*now));
	t->old_chunks = t->chunk_count;
	kedge__free(now);
	kedge__free(got);
	kedge__free(w);
}

/* New, the same, some bits changed, constants in some places, all of one constant, and of another one. */
static void versions_try(struct trial *t, uint64_t seed)
{
	take(t);
	t->host = kedge__malloc(t->bytes);
	draw_bytes(&seed, t->host, t->bytes);
	version_try(t);
	version_try(t);
	for (size_t at = seed % 97; at < t->bytes; at += 1 + (at * 7919) % (5 * t->chunk))
		t->host[at] ^= (uint8_t)(1 << at % 8);
	version_try(t);
	for (size_t at = 0; at + 3 * t->chunk < t->bytes; at += 7 * t->chunk)
		memset(t->host + at, (int)(at / t->chunk % 3), 3 * t->chunk - at % 5);
	version_try(t);
	memset(t->host, 0, t->bytes);
	version_try(t);
	t->old_chunks = 0; /* as if nothing were known */
	version_try(t);
	t->old_chunks = t->chunk_count / 2;
	memset(t->host, 3, t->bytes);
	t->host[t->bytes - 1] ^= 1;
	version_try(t);
	kedge__free(t->host);
	give_back(t);
}

static void test_sizes_and_places(void **state)
{
	static const size_t extra[] = {0, 1, 8, 15, 16, 17};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(chunks); i++) {
		for (size_t k = 0; k < 12; k++) {
			static const size_t counts[] = {0, 1, 2, 3, 5, 12, 14, 31, 32, 33, 65, 1000};
			struct trial t = {.chunk = chunks[i], .shift = k % 3 ? k : 16 * k};

			t.bytes = KEDGE__MIN(counts[k] * chunks[i], 70000) + extra[(i + k) % 6];
			if (t.bytes)
				versions_try(&t, 1000 * i + k);
		}
	}
}

static void test_slabs(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(chunks); i++) {
		struct trial t = {.chunk = chunks[i],
				  .shift = i % 2 ? 0 : 8,
				  .bytes = (much ? 63 : 1) * KEDGE_SLAB_BYTES + 12345 * i + 7};

		versions_try(&t, i);
	}
}

/* Digests that collide. */
static void test_weak_digests(void **state)
{
	struct trial t = {.chunk = 64, .bytes = 100000, .mask = 0x1f};

	(void)state;
	versions_try(&t, 9);
}

/* Every bit counts, of any chunk, and so does the sign of every second number. */
static void test_bits(void **state)
{
	struct trial t = {.chunk = 128, .bytes = 128 * 64};

	(void)state;
	take(&t);
	t.host = kedge__calloc(1, t.bytes);
	version_try(&t);
	for (size_t i = 0; i < 64; i++)
		t.host[i * 128 + 8 * (2 * (i % 8) + 1) + 7] ^= 0x80; /* bit 63 of an odd word */
	version_try(&t);
	for (size_t i = 0; i < 64; i++)
		assert_true(t.found[0].changes == 64);
	for (size_t i = 0; i < t.bytes / 16; i++)
		t.host[i * 16 + 7] ^= 0x80;
	version_try(&t);
	assert_int_equal(t.found[0].changes, 64);
	kedge__free(t.host);
	give_back(&t);
}

static void test_other_sizes_are_refused(void **state)
{
	struct kedge__gpu_pass *p = NULL;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_false(kedge__gpu_passes(8192));
	assert_int_equal(kedge__gpu_pass_new(gpu, key, 8192, 0, &p, &err), KEDGE_E_LIMIT);
	assert_non_null(strstr(kedge__error_text(&err), "8192 bytes"));
	assert_null(p);
	kedge__error_done(&err);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sizes_and_places),
	    cmocka_unit_test(test_slabs),
	    cmocka_unit_test(test_weak_digests),
	    cmocka_unit_test(test_bits),
	    cmocka_unit_test(test_other_sizes_are_refused),
	};

	return cases_run_where(argc, argv, tests, setup, teardown, gpu_here);
}
