/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces that the kernel puts to their places, patterns and region sums: as the processor does it, and no byte beside
 * them. */
#include "gpu_cases.h"

#include "../lib/draw.h"
#include "codec/codec.h"
#include "codec/planes.h"

#define ROOM   ((uint64_t)1 << 18) /* of a buffer */
#define AROUND 64                  /* bytes around what is written, which stay as they are */

struct trial {
	struct kedge__gpu_scatter *scatter;
	uint64_t room;
	uint8_t *buffers[KEDGE__GPU_SCATTER_BUFFERS]; /* pinned */
	unsigned buffer;
	bool sent[KEDGE__GPU_SCATTER_BUFFERS];
	struct kedge__gpu_layout layout;
	uint64_t used, count, strips, unpacked;
	uint64_t seed;
	uint8_t *want; /* what the device is to have */
	uint64_t bytes;
	kedge__gpu_address at;
	struct kedge__gpu_target targets[8];
	size_t target_count;
};

static void trial_init(struct trial *t, uint64_t room, uint64_t bytes, uint64_t seed)
{
	*t = (struct trial){.room = room, .bytes = bytes, .seed = seed, .layout = kedge__gpu_scatter_layout(room)};
	assert_int_equal(kedge__gpu_scatter_new(gpu, room, &t->scatter, NULL), 0);
	for (unsigned i = 0; i < KEDGE__GPU_SCATTER_BUFFERS; i++) {
		void *memory = NULL;

		assert_int_equal(kedge__gpu_pin(gpu, room, &memory, NULL), 0);
		t->buffers[i] = memory;
		memset(memory, 0x77, room);
	}
	t->want = kedge__malloc(bytes + 1);
	draw_bytes(&t->seed, t->want, bytes);
	t->at = gpu_take(bytes);
	gpu_put(t->at, t->want, bytes);
}

static void trial_done(struct trial *t)
{
	kedge__gpu_release(gpu, t->at, t->bytes);
	for (unsigned i = 0; i < KEDGE__GPU_SCATTER_BUFFERS; i++)
		kedge__gpu_unpin(gpu, t->buffers[i]);
	kedge__gpu_scatter_free(t->scatter);
	kedge__free(t->want);
}

static void target_add(struct trial *t, uint64_t at, uint64_t bytes, bool later)
{
	t->targets[t->target_count++] = (struct kedge__gpu_target){.at = t->at + at, .bytes = bytes, .later = later};
}

static void begin(struct trial *t)
{
	assert_int_equal(kedge__gpu_scatter_begin(t->scatter, t->targets, t->target_count, NULL), 0);
}

static struct kedge__gpu_piece *pieces(const struct trial *t)
{
	return (struct kedge__gpu_piece *)(void *)(t->buffers[t->buffer] + t->layout.pieces_end) - t->count;
}

/* In no order. */
static void pieces_mix(struct trial *t)
{
	struct kedge__gpu_piece *p = pieces(t);

	for (uint64_t i = t->count; i > 1; i--) {
		uint64_t k = draw_below(&t->seed, i);
		struct kedge__gpu_piece other = p[k];

		p[k] = p[i - 1];
		p[i - 1] = other;
	}
}

static void send(struct trial *t)
{
	struct kedge__gpu_load load = {t->buffers[t->buffer], t->used, t->count, t->strips};

	pieces_mix(t);
	assert_int_equal(kedge__gpu_scatter_send(t->scatter, t->buffer, &load, NULL), 0);
	t->sent[t->buffer] = true;
	t->buffer = (t->buffer + 1) % KEDGE__GPU_SCATTER_BUFFERS;
	if (t->sent[t->buffer])
		assert_int_equal(kedge__gpu_scatter_wait(t->scatter, t->buffer, NULL), 0);
	memset(t->buffers[t->buffer], (int)draw_below(&t->seed, 256), t->room);
	t->used = t->count = t->strips = t->unpacked = 0;
}

/* Room for a piece of BYTES, PHASE bytes after a multiple of 64. */
static uint32_t place(struct trial *t, uint64_t bytes, unsigned phase)
{
	uint64_t at = (t->used + 63) / 64 * 64 + phase;

	if (at + bytes + (t->count + 1) * sizeof(struct kedge__gpu_piece) > t->layout.pieces_end) {
		send(t);
		at = phase;
	}
	t->used = at + bytes;
	return (uint32_t)at;
}

static void piece_add(struct trial *t, uint64_t to, uint32_t from, uint32_t what)
{
	t->count++;
	*pieces(t) = (struct kedge__gpu_piece){t->at + to, from, what};
}

static void literal_add(struct trial *t, uint64_t to, uint32_t bytes, unsigned phase, uint32_t target)
{
	uint32_t from = place(t, bytes, phase);

	draw_bytes(&t->seed, t->want + to, bytes);
	memcpy(t->buffers[t->buffer] + from, t->want + to, bytes);
	piece_add(t, to, from, kedge__gpu_piece_what(bytes, false, target));
}

static void fill_add(struct trial *t, uint64_t to, uint32_t bytes, uint32_t target)
{
	uint32_t from = place(t, 8, 8 * (unsigned)draw_below(&t->seed, 8));
	uint8_t pattern[8];

	draw_bytes(&t->seed, pattern, 8);
	memcpy(t->buffers[t->buffer] + from, pattern, 8);
	for (uint32_t i = 0; i < bytes; i++)
		t->want[to + i] = pattern[(t->at + to + i) % 8];
	piece_add(t, to, from, kedge__gpu_piece_what(bytes, true, target));
}

/* All is there, with the right sums, and nothing else. */
static void check(struct trial *t)
{
	uint8_t *got = kedge__malloc(t->bytes + 1);
	uint64_t damaged = 1;

	send(t);
	assert_int_equal(kedge__gpu_scatter_end(t->scatter, t->targets, t->target_count, &damaged, NULL), 0);
	assert_int_equal(damaged, 0);
	gpu_get(got, t->at, t->bytes);
	for (uint64_t i = 0; i < t->bytes; i++)
		if (got[i] != t->want[i])
			fail_msg("byte %llu is %02x, not %02x", (unsigned long long)i, got[i], t->want[i]);
	for (size_t i = 0; i < t->target_count; i++) {
		const struct kedge__gpu_target *g = &t->targets[i];
		struct kedge__sum sum = kedge__sum_ruled(g->rule, t->want + (g->at - t->at), g->bytes, 0);

		assert_true(g->sum.s1 == sum.s1 && g->sum.s2 == sum.s2);
	}
	kedge__free(got);
}

static const uint32_t lengths[] = {1,  2,  3,  4,  5,  7,  8,  9,   11,  15,  16,  17,  23,  24,  25,  31,  32,  33, 40,
				   47, 48, 49, 63, 64, 65, 95, 127, 128, 129, 144, 255, 256, 257, 511, 512, 513, 600};

/* Every place, in memory and in the buffer, for every length. */
static void alignments(bool fills)
{
	uint64_t bytes = 0, to = AROUND;
	struct trial t;

	for (size_t i = 0; i < KEDGE__COUNT(lengths); i++)
		bytes += 16 * (fills ? 1 : 16) * (lengths[i] + (uint64_t)AROUND + 32);
	trial_init(&t, ROOM, bytes + 2 * AROUND, 3);
	begin(&t);
	for (size_t i = 0; i < KEDGE__COUNT(lengths); i++) {
		for (unsigned k = 0; k < (fills ? 16u : 256u); k++) {
			uint64_t at = (to + 15) / 16 * 16 + k % 16;

			if (fills)
				fill_add(&t, at, lengths[i], KEDGE__GPU_TARGETS);
			else
				literal_add(&t, at, lengths[i], k / 16, KEDGE__GPU_TARGETS);
			to = at + lengths[i] + AROUND / 2 + k % 3;
		}
	}
	assert_true(to <= t.bytes);
	check(&t);
	trial_done(&t);
}

static void test_literals_at_all_places(void **state)
{
	(void)state;
	alignments(false);
}

static void test_patterns_in_all_phases(void **state)
{
	(void)state;
	alignments(true);
}

/* The bytes of [TO, END), which belong to TARGET, in pieces; GRAIN: they begin and end at multiples of it. */
static void region_cut(struct trial *t, uint64_t to, uint64_t end, uint32_t most, uint32_t grain, uint32_t target)
{
	while (to < end) {
		uint64_t n = (1 + draw_below(&t->seed, most / grain)) * grain;
		bool fill = draw_below(&t->seed, 4) == 0;

		if (!fill)
			n = KEDGE__MIN(n, KEDGE__GPU_PIECE_BYTES);
		n = KEDGE__MIN(n, KEDGE__MIN(KEDGE__GPU_FILL_BYTES, end - to));
		if (fill)
			fill_add(t, to, (uint32_t)n, target);
		else
			literal_add(t, to, (uint32_t)n,
				    draw_below(&t->seed, 3) ? (unsigned)((t->at + to) % 16)
							    : (unsigned)draw_below(&t->seed, 16),
				    target);
		to += n;
	}
}

/* Several targets, in pieces of up to MOST bytes, and more than fits into the buffers at once. */
static void regions_try(uint64_t room, uint64_t bytes, uint32_t most, uint64_t seed)
{
	uint64_t part = bytes / 4 / 16 * 16;
	struct trial t;

	trial_init(&t, room, bytes + 4 * AROUND, seed);
	target_add(&t, 16, part - 32, false);
	target_add(&t, part + 8, part - 21, false); /* it ends within a word */
	target_add(&t, 2 * part + 3, part - 32, true);
	target_add(&t, 3 * part, part - 5, true);
	t.targets[seed % 4].rule = KEDGE__SUM_ROWS; /* no kernel has it */
	begin(&t);
	for (uint32_t i = 0; i < 4; i++) {
		const struct kedge__gpu_target *g = &t.targets[i];

		region_cut(&t, g->at - t.at, g->at - t.at + g->bytes, most, g->later ? 1 : 8,
			   g->later ? KEDGE__GPU_TARGETS : i);
	}
	check(&t);
	trial_done(&t);
}

static void test_small_pieces(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++)
		regions_try(1 << 16, 150000 + 1000 * seed, seed == 1 ? 16 : 300, seed);
}

static void test_large_pieces(void **state)
{
	(void)state;
	regions_try(1 << 17, much ? 256 << 20 : 1200000, 1 << 17, 9);
}

static void test_small_and_large(void **state)
{
	(void)state;
	regions_try(ROOM, much ? 64 << 20 : 600000, 2000, 10);
}

/* The same literals in many places, wherever those are. */
static void test_duplicates(void **state)
{
	uint32_t from, bytes = 2 * KEDGE__GPU_PIECE_BYTES;
	struct trial t;

	(void)state;
	trial_init(&t, ROOM, 200000, 5);
	begin(&t);
	from = place(&t, bytes, 0);
	draw_bytes(&t.seed, t.buffers[t.buffer], bytes);
	for (uint64_t to = 0, n; to < 200000; to += n + draw_below(&t.seed, 20)) {
		uint32_t first = (uint32_t)draw_below(&t.seed, KEDGE__GPU_PIECE_BYTES);

		n = 1 + draw_below(&t.seed, 700);
		n = KEDGE__MIN(n, 200000 - to);
		memcpy(t.want + to, t.buffers[t.buffer] + from + first, n);
		piece_add(&t, to, from + first, kedge__gpu_piece_what((uint32_t)n, false, KEDGE__GPU_TARGETS));
	}
	check(&t);
	trial_done(&t);
}

/* A strip of codec planes that goes to TO, in pieces. DAMAGE: it loses a byte; returns whether it did, then nothing
 * goes there. */
static uint64_t strip_add(struct trial *t, uint64_t to, size_t bytes, unsigned width, unsigned steps, bool damage)
{
	uint8_t raw[KEDGE__PLANES_STRIP], packed[KEDGE__PLANES_STRIP];
	size_t whole = bytes / (8 * width) * (8 * width), size = bytes;
	bool shrinks = draw_below(&t->seed, 4) > 0;
	uint32_t from;

	draw_bytes(&t->seed, raw, bytes);
	for (size_t i = 0; i < bytes && shrinks; i++)
		raw[i] = i % width ? 0 : (uint8_t)(raw[i] & 7);
	if (whole == bytes && bytes)
		size = kedge__planes_strip_encode(steps, width, raw, NULL, bytes, packed);
	if (size == bytes)
		memcpy(packed, raw, bytes);
	from = place(t, bytes, (unsigned)draw_below(&t->seed, 16));
	memcpy(t->buffers[t->buffer] + from, packed, size);
	damage = damage && size < bytes;
	((struct kedge__gpu_strip *)(void *)(t->buffers[t->buffer] + t->layout.pieces_end))[t->strips++] =
	    (struct kedge__gpu_strip){from, (uint32_t)t->unpacked, (uint16_t)(size - damage), (uint16_t)bytes,
				      width | steps << 8};
	if (!damage) {
		memcpy(t->want + to, raw, bytes);
		for (size_t at = 0, n; at < bytes; at += n) {
			n = 1 + draw_below(&t->seed, 3000);
			n = KEDGE__MIN(bytes - at, n);
			piece_add(t, to + at, KEDGE__GPU_UNPACKED + (uint32_t)(t->unpacked + at),
				  kedge__gpu_piece_what((uint32_t)n, false, KEDGE__GPU_TARGETS));
		}
	}
	t->unpacked += (bytes + 63) / 64 * 64;
	return damage;
}

static void strips_try(bool damage)
{
	static const unsigned widths[] = {2, 4, 8};
	uint64_t to = 0, damaged = 0, found = 0;
	struct trial t;

	trial_init(&t, ROOM, 700000, 6);
	begin(&t);
	for (unsigned i = 0; to + KEDGE__PLANES_STRIP < 700000; i++) {
		size_t bytes = i % 3 ? KEDGE__PLANES_STRIP : draw_below(&t.seed, 256) * 64 + (i % 2 ? 5 : 0);

		if (t.strips == t.layout.strips || t.unpacked + bytes > t.layout.unpacked || t.used > ROOM / 2)
			send(&t);
		damaged += strip_add(&t, to, bytes, widths[i % 3], i % 2 * KEDGE__STEP_DELTA, damage && i % 4 == 1);
		to += bytes + i % 11;
	}
	if (!damage) {
		check(&t);
	} else {
		send(&t);
		assert_int_equal(kedge__gpu_scatter_end(t.scatter, t.targets, 0, &found, NULL), 0);
		assert_true(damaged > 0);
		assert_int_equal(found, damaged);
	}
	trial_done(&t);
}

static void test_strips(void **state)
{
	(void)state;
	strips_try(false);
	strips_try(true);
}

/* The sum of regions of every length, at every place; the last byte is the last that was allocated. */
static void test_sums(void **state)
{
	static const uint64_t more[] = {255, 256, 257, 4096, 20003};

	(void)state;
	for (uint64_t i = 0; i < 70 + KEDGE__COUNT(more); i++) {
		uint64_t bytes = i < 70 ? i : more[i - 70];

		for (unsigned at = 0; at<16; at += bytes> 300 ? 5 : 1) {
			struct trial t;

			trial_init(&t, 1024, at + bytes, i);
			target_add(&t, at, bytes, true);
			begin(&t);
			check(&t);
			trial_done(&t);
		}
	}
}

static void test_without_kernels(void **state)
{
	bool kernels = gpu->kernels;

	gpu->kernels = false;
	test_small_pieces(state);
	test_small_and_large(state);
	alignments(true);
	gpu->kernels = kernels;
}

static void test_no_room(void **state)
{
	struct kedge__gpu_scatter *s = NULL;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	gpu->limit = 1 << 20;
	assert_int_equal(kedge__gpu_scatter_new(gpu, 1 << 20, &s, &err), KEDGE_E_NOMEM);
	assert_null(s);
	kedge__error_done(&err);
	assert_int_equal(kedge__gpu_scatter_new(gpu, 1 << 17, &s, NULL), 0);
	kedge__gpu_scatter_free(s);
	gpu->limit = 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_literals_at_all_places),
	    cmocka_unit_test(test_patterns_in_all_phases),
	    cmocka_unit_test(test_small_pieces),
	    cmocka_unit_test(test_large_pieces),
	    cmocka_unit_test(test_small_and_large),
	    cmocka_unit_test(test_duplicates),
	    cmocka_unit_test(test_strips),
	    cmocka_unit_test(test_sums),
	    cmocka_unit_test(test_without_kernels),
	    cmocka_unit_test(test_no_room),
	};

	return cases_run_where(argc, argv, tests, gpu_setup, gpu_teardown, gpu_here);
}
