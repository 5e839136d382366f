/* SPDX-License-Identifier: BSD-3-Clause */
/* An image that is write-protected: how much of it is copied, and that all of it stays what it was. */
#include "capture/hold.h"

#include "tracker_support.h"

#include <sys/mman.h>

#define BYTES ((size_t)32 << 20)
#define CHUNK 256

struct lab {
	unsigned char *memory, *before;
	struct kedge__reserve reserve;
	struct kedge__reducer *reducer;
	struct kedge__reduction reduction;
	struct kedge__image_region region;
	struct kedge__image image;
	struct kedge__hold_region way;
	struct kedge__hold *hold;
	const struct kedge__literal_source *source;
	uint64_t version;
};

static void lab_new(struct lab *l)
{
	struct kedge__reducer_options options = {
	    .id = KEDGE__REDUCER_BASIC, .chunk = CHUNK, .record_bytes = (uint64_t)64 << 20};
	uint64_t seed = 1;

	*l = (struct lab){.memory = memory_new(BYTES / page_size()), .before = malloc(BYTES)};
	assert_non_null(l->before);
	for (size_t i = 0; i < BYTES; i += 8)
		memcpy(l->memory + i, &(uint64_t){draw(&seed)}, 8);
	l->region = (struct kedge__image_region){.data = l->memory, .bytes = BYTES};
	l->image = (struct kedge__image){&l->region, 1};
	l->way = (struct kedge__hold_region){.name = "m"};
	assert_int_equal(kedge__reducer_new(&options, &l->reducer, NULL), 0);
}

static void lab_free(struct lab *l)
{
	kedge__reducer_free(l->reducer);
	kedge__reserve_done(&l->reserve);
	memory_free(l->memory, BYTES / page_size());
	free(l->before);
}

static void begin(struct lab *l)
{
	struct kedge__hold_options options = {
	    .reserve = &l->reserve, .limit = (uint64_t)4 << 30, .grain = CHUNK, .protect = true};

	memcpy(l->before, l->memory, BYTES);
	assert_int_equal(kedge__hold_begin(&l->image, &l->way, &options, &l->hold, NULL), 0);
	assert_true(kedge__hold_protects(l->hold));
}

static void reduce(struct lab *l)
{
	const struct kedge__reduce_how how = {.view = kedge__hold_view(l->hold)};

	assert_int_equal(kedge__reducer_reduce(l->reducer, NULL, ++l->version, &l->image, &how, &l->reduction, NULL),
			 0);
	assert_int_equal(kedge__hold_literals(l->hold, l->reducer, &l->reduction.literals, &l->source, NULL), 0);
}

/* BYTES from POSITION on of the literal space are those that were at OFFSET. */
static void store(struct lab *l, uint64_t position, uint64_t offset, size_t bytes)
{
	static unsigned char buffer[1 << 20];

	for (size_t done = 0, n; done < bytes; done += n) {
		n = KEDGE__MIN(bytes - done, sizeof(buffer));
		assert_int_equal(l->source->fill(l->source->ctx, 0, position + done, buffer, n, NULL), 0);
		assert_memory_equal(buffer, l->before + offset + done, n);
		if (l->source->check)
			assert_int_equal(l->source->check(l->source->ctx, position + done, buffer, n, NULL), 0);
	}
}

static void end(struct lab *l)
{
	assert_int_equal(kedge__hold_end(l->hold, NULL), 0);
	kedge__reducer_commit(l->reducer);
	kedge__reduction_done(&l->reduction);
	l->hold = NULL;
}

/* Bytes of the reserve that are in memory. */
static size_t kept(const struct lab *l)
{
	size_t page = page_size(), pages = (l->reserve.bytes + page - 1) / page, n = 0;
	unsigned char *present = malloc(pages);

	assert_int_equal(mincore(l->reserve.memory, l->reserve.bytes, present), 0);
	for (size_t i = 0; i < pages; i++)
		n += (present[i] & 1) * page;
	free(present);
	return n;
}

/* Nobody writes: nothing is copied, though all of it is stored. */
static void test_nothing_is_copied(void **state)
{
	struct lab l;

	(void)state;
	lab_new(&l);
	begin(&l);
	reduce(&l);
	assert_int_equal(l.reduction.literal_bytes, BYTES);
	assert_non_null(l.source);
	assert_true(kedge__hold_protects(l.hold));
	store(&l, 0, 0, BYTES);
	assert_int_equal(kept(&l), 0);
	assert_int_equal(kedge__cow_written(l.hold->cow), 0);
	end(&l);
	lab_free(&l);
}

/* Pages that are not stored, or are stored already, may be written to, and nothing is copied for it. */
static void test_let_go(void **state)
{
	size_t page = page_size(), changed = BYTES / 2;
	struct lab l;

	(void)state;
	lab_new(&l);
	begin(&l);
	reduce(&l);
	store(&l, 0, 0, BYTES);
	memset(l.memory, 1, BYTES / 4);
	assert_int_equal(kedge__cow_written(l.hold->cow), 0);
	memcpy(l.memory, l.before, BYTES / 4);
	end(&l);

	for (size_t at = changed; at < BYTES; at += 64 * page) /* and a little of each */
		l.memory[at + 100]++;
	begin(&l);
	reduce(&l);
	assert_int_equal(l.reduction.literal_bytes, BYTES / 2 / (64 * page) * CHUNK);
	memset(l.memory, 2, changed);
	for (size_t at = changed; at < BYTES; at += 64 * page)
		memset(l.memory + at + page, 3, 63 * page);
	assert_int_equal(kedge__cow_written(l.hold->cow), 0);
	memset(l.memory + changed, 4, page);
	assert_int_equal(kedge__cow_written(l.hold->cow), page);
	for (size_t at = changed, position = 0; at < BYTES; at += 64 * page, position += CHUNK)
		store(&l, position, at, CHUNK);
	end(&l);
	lab_free(&l);
}

/* The application writes before anything was read: then a part is copied ahead of it, in proportion to what it wrote.
 */
static void test_copied_ahead(void **state)
{
	size_t first = (size_t)1 << 20;
	struct lab l;

	(void)state;
	lab_new(&l);
	begin(&l);
	memset(l.memory, 5, first);
	assert_in_range(kedge__cow_written(l.hold->cow), first, 2 * first);
	reduce(&l);
	assert_in_range(kept(&l), 1, 16 * first);
	assert_non_null(l.source);
	memset(l.memory + first, 6, BYTES - first);
	store(&l, 0, 0, BYTES);
	end(&l);
	assert_int_equal(kept(&l), 0);
	lab_free(&l);
}

static bool here(void)
{
	bool kernel_writes;

	return kedge__cow_probe(&kernel_writes, NULL) == 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_copied), cmocka_unit_test(test_let_go),
					   cmocka_unit_test(test_copied_ahead)};

	return cases_run_where(argc, argv, tests, NULL, NULL, here);
}
