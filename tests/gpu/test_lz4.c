/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec lz4 by the kernels: the same bytes as by the processor; liblz4 decodes them, and the kernels what liblz4 makes.
 */
#include "block_cases.h"

#include "codec/lz4_warp.h"

static const struct block_codec codec = {KEDGE__CODEC_LZ4, kedge__gpu_lz4_scratch, kedge__gpu_lz4_encode,
					 kedge__lz4_warp_encode};

/* Decoded on the device, from PACKED, in which block I begins at places[I]; returns the number of damaged blocks. What
 * is decoded is in GOT. */
static uint32_t decode(struct blocks *t, const uint8_t *packed, size_t bytes, const uint64_t *places, uint8_t *got)
{
	kedge__gpu_address d_packed = gpu_take(bytes + 1), d_places = gpu_take(t->b.count * sizeof(*places)),
			   d_damaged = gpu_take(4);
	uint32_t damaged = 0;

	gpu_put(d_packed, packed, bytes);
	gpu_put(d_places, places, t->b.count * sizeof(*places));
	gpu_put(t->b.sizes, t->sizes, t->b.count * sizeof(*t->sizes));
	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, t->d_raw, t->bytes, NULL), 0);
	assert_int_equal(kedge__gpu_clear(gpu, KEDGE__GPU_WORK, d_damaged, 4, NULL), 0);
	assert_int_equal(kedge__gpu_lz4_decode(gpu, &t->b, d_packed, d_places, t->d_raw, d_damaged, NULL), 0);
	gpu_get(got, t->d_raw, t->bytes);
	gpu_get(&damaged, d_damaged, 4);
	kedge__gpu_release(gpu, d_packed, bytes + 1);
	kedge__gpu_release(gpu, d_places, t->b.count * sizeof(*places));
	kedge__gpu_release(gpu, d_damaged, 4);
	return damaged;
}

/* All blocks, one after the other from byte AT on, decoded. OTHER: as liblz4 packs them. */
static void decode_all(struct blocks *t, size_t at, bool other)
{
	uint8_t *packed = kedge__malloc(t->bytes + at + 1), *got = kedge__calloc(t->bytes + 1, 1);
	uint64_t *places = kedge__calloc(t->b.count, sizeof(*places));
	struct kedge__codec_choice how;

	assert_int_equal(kedge__codec_choice_parse("lz4", &how, NULL), 0);
	for (uint32_t i = 0; i < t->b.count; i++) {
		const uint8_t *raw = t->raw + t->places[i], *slot = t->slots + t->places[i];
		size_t n = t->lengths[i], size = t->sizes[i];
		uint16_t id, param;

		places[i] = at;
		if (other)
			assert_int_equal(
			    kedge__block_encode(&how, KEDGE_BYTES, raw, n, packed + at, &size, &id, &param, NULL), 0);
		else
			memcpy(packed + at, size < n ? slot : raw, size);
		t->sizes[i] = (uint32_t)size;
		at += size;
	}
	assert_int_equal(decode(t, packed, at, places, got), 0);
	for (uint32_t i = 0; i < t->b.count; i++)
		assert_memory_equal(got + t->places[i], t->raw + t->places[i], t->lengths[i]);
	kedge__free(packed);
	kedge__free(got);
	kedge__free(places);
}

static void round_trip(enum block_kind kind, const uint32_t *lengths, uint32_t count, size_t at)
{
	struct blocks t;

	blocks_init(&t, &codec, lengths, count);
	for (uint32_t i = 0; i < count; i++)
		block_fill(kind, t.raw + t.places[i], lengths[i], 7 * i + (unsigned)kind);
	blocks_encode(&t);
	decode_all(&t, at, false);
	decode_all(&t, at + 1, true);
	blocks_done(&t);
}

static void test_kinds(void **state)
{
	static const uint32_t lengths[] = {40000, 16384, 5000};

	(void)state;
	for (int kind = 0; kind < BLOCK_KINDS; kind++)
		round_trip((enum block_kind)kind, lengths, KEDGE__COUNT(lengths), (size_t)kind);
}

/* Every length up to some, and those around the ends of parts. */
static void test_sizes(void **state)
{
	static const uint32_t around[] = {0,     1,     16383, 16385, 16388, 16395, 16396,
					  16397, 16400, 32768, 32773, 32780, 49151, 16384};
	uint32_t lengths[140];

	(void)state;
	for (uint32_t i = 0; i < KEDGE__COUNT(lengths); i++)
		lengths[i] = i;
	round_trip(ZEROS, lengths, KEDGE__COUNT(lengths), 0);
	round_trip(TEXT, lengths, KEDGE__COUNT(lengths), 3);
	round_trip(PERIODS, lengths, KEDGE__COUNT(lengths), 2);
	round_trip(ZEROS, around, KEDGE__COUNT(around), 1);
	round_trip(ECHOES, around, KEDGE__COUNT(around), 0);
}

/* Parts without a match, from the first on, in the middle, and more of them than are joined at once. */
static void test_parts(void **state)
{
	const uint32_t bytes = much ? 64u << 20 : 40 * 16384 + 77;
	struct blocks t;
	uint64_t seed = 4;

	(void)state;
	blocks_init(&t, &codec, &bytes, 1);
	draw_bytes(&seed, t.raw, bytes);
	memset(t.raw + 35000, 0, 9000);
	memset(t.raw + 150000, 7, bytes / 8);
	memcpy(t.raw + bytes - 20000, t.raw + bytes - 30000, 500);
	blocks_encode(&t);
	assert_true(t.sizes[0] < bytes);
	decode_all(&t, 0, false);
	blocks_done(&t);
}

static void test_many(void **state)
{
	uint32_t lengths[512], count = much ? 512 : 12;

	(void)state;
	for (uint32_t i = 0; i < count; i++)
		lengths[i] = much ? 131072 - i : 3000 + 17 * i;
	for (int kind = 0; kind < BLOCK_KINDS; kind++)
		round_trip((enum block_kind)kind, lengths, count, 5);
}

/* A block that was damaged is found, or decodes to something: nothing outside of it is touched. */
static void test_damage(void **state)
{
	const uint32_t bytes = 6001;
	const uint64_t place = 0;
	struct blocks t;
	uint8_t packed[7000] = {0}, got[6001];
	uint64_t seed = 9;
	unsigned found = 0;
	uint32_t size;

	(void)state;
	blocks_init(&t, &codec, &bytes, 1);
	block_fill(ECHOES, t.raw, bytes, 2);
	blocks_encode(&t);
	size = t.sizes[0];
	assert_true(size < bytes);
	for (int i = 0; i < (much ? 3000 : 150); i++) {
		memcpy(packed, t.slots, size);
		t.sizes[0] = i % 3 ? size : (uint32_t)draw_below(&seed, i % 2 ? size : sizeof(packed));
		for (uint64_t k = draw_below(&seed, 4) + (i % 3 != 0); k; k--)
			packed[draw_below(&seed, i % 5 ? size : 60)] =
			    i % 7 ? (uint8_t)draw(&seed) : (uint8_t)(255 * draw_below(&seed, 2));
		found += decode(&t, packed, KEDGE__MAX(t.sizes[0], size), &place, got);
	}
	assert_true(found > 40);
	memset(packed, 255, sizeof(packed)); /* lengths without an end */
	t.sizes[0] = size;
	assert_int_equal(decode(&t, packed, size, &place, got), 1);
	t.sizes[0] = 0;
	assert_int_equal(decode(&t, packed, size, &place, got), 1);
	blocks_done(&t);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kinds), cmocka_unit_test(test_sizes),  cmocka_unit_test(test_parts),
	    cmocka_unit_test(test_many),  cmocka_unit_test(test_damage),
	};

	return cases_run_where(argc, argv, tests, gpu_setup, gpu_teardown, gpu_here);
}
