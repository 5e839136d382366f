/* SPDX-License-Identifier: BSD-3-Clause */
/* there.h: the regions of a lab on a GPU. */
#ifndef KEDGE_TESTS_REDUCE_THERE_H
#define KEDGE_TESTS_REDUCE_THERE_H

#include "lab.h"

#include "../gpu/gpu_cases.h"

/* The device's copy of the regions of a lab. */
struct there {
	kedge__gpu_address at[LAB_REGIONS];
	uint64_t room[LAB_REGIONS];
	uint8_t *pinned;
	uint64_t pinned_room;
};

static int pinned_room(void *ctx, uint64_t bytes, void **out, uint64_t *have, struct kedge__error *err)
{
	struct there *d = ctx;

	if (bytes > d->pinned_room) {
		kedge__gpu_unpin(gpu, d->pinned);
		d->pinned = NULL;
		d->pinned_room = bytes;
		assert_int_equal(kedge__gpu_pin(gpu, bytes, (void **)&d->pinned, err), 0);
	}
	if (bytes)
		memset(d->pinned, 0xee, bytes);
	*out = d->pinned;
	*have = d->pinned_room;
	return 0;
}

/* Addresses are not aligned, now and then. */
static uint64_t shift_of(int slot)
{
	return slot % 3 == 2 ? 8 : slot % 3 == 1 ? 3 : 0;
}

static size_t there_image(struct there *d, const struct lab *lab, struct kedge__image_region *out)
{
	size_t n = lab_image(lab, out);

	for (size_t i = 0; i < n; i++) {
		int slot = (int)(out[i].base >> KEDGE__SLOT_SHIFT);

		if (d->room[slot] < out[i].bytes + shift_of(slot)) {
			kedge__gpu_release(gpu, d->at[slot], d->room[slot]);
			d->room[slot] = out[i].bytes + shift_of(slot);
			d->at[slot] = gpu_take(d->room[slot]);
		}
		if (out[i].bytes)
			gpu_put(d->at[slot] + shift_of(slot), out[i].data, out[i].bytes);
		out[i].data = (void *)(uintptr_t)(d->at[slot] + shift_of(slot));
	}
	return n;
}

static LAB_UNUSED uint64_t there_bytes(const struct there *d)
{
	uint64_t bytes = 0;

	for (int i = 0; i < LAB_REGIONS; i++)
		bytes += d->room[i];
	return bytes;
}

static void there_done(struct there *d)
{
	for (int i = 0; i < LAB_REGIONS; i++)
		kedge__gpu_release(gpu, d->at[i], d->room[i]);
	kedge__gpu_unpin(gpu, d->pinned);
}

static LAB_UNUSED void literals_equal(const struct kedge__reduction *a, const struct kedge__reduction *b)
{
	assert_int_equal(a->literals.count, b->literals.count);
	for (size_t i = 0; i < a->literals.count; i++) {
		assert_int_equal(a->literals.at[i].bytes, b->literals.at[i].bytes);
		assert_int_equal(a->literals.at[i].region, b->literals.at[i].region);
		assert_memory_equal(a->literals.at[i].data, b->literals.at[i].data, a->literals.at[i].bytes);
	}
}

/* All but the literals. */
static void maps_equal(const struct kedge__reduction *a, const struct kedge__reduction *b, size_t regions)
{
	assert_int_equal(a->reducer, b->reducer);
	assert_int_equal(a->parent, b->parent);
	assert_true(tape_same(&a->map, &b->map));
	assert_memory_equal(a->region_digests, b->region_digests, regions * sizeof(*a->region_digests));
	assert_int_equal(a->source_count, b->source_count);
	for (size_t i = 0; i < a->source_count; i++)
		assert_int_equal(a->sources[i], b->sources[i]);
	assert_int_equal(a->literal_bytes, b->literal_bytes);
	assert_int_equal(a->changed_bytes, b->changed_bytes);
	assert_int_equal(a->duplicate_bytes, b->duplicate_bytes);
	assert_int_equal(a->fill_bytes, b->fill_bytes);
}

static LAB_UNUSED void reductions_equal(const struct kedge__reduction *a, const struct kedge__reduction *b,
					size_t regions)
{
	maps_equal(a, b, regions);
	literals_equal(a, b);
}

#endif
