/* SPDX-License-Identifier: BSD-3-Clause */
/* The plain form of files, and back: of those that libraries wrote, of damaged ones, and of recipes that lie. */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "../lib/files.h"
#include "equal/equal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const files[] = {"old.h5",      "new.h5",  "user.h5",   "many_old.h5",
				    "many_new.h5", "four.nc", "old_odd.h5"};

struct text {
	uint8_t *at;
	size_t bytes;
};

static int text_get(void *ctx, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	const struct text *t = ctx;

	(void)err;
	assert_true(offset <= t->bytes && bytes <= t->bytes - offset);
	memcpy(to, t->at + offset, bytes);
	return 0;
}

static struct text text_of(const char *name)
{
	char path[FILES_PATH];
	struct text t;

	path_make(path, "%s/%s", FILES_DIR, name);
	t.at = file_read(path, &t.bytes);
	assert_non_null(t.at);
	return t;
}

static struct kedge__contents contents_of(struct text *t)
{
	return (struct kedge__contents){t->bytes, text_get, t};
}

static int memory_file(void)
{
	int fd = memfd_create("equal", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static struct text text_from(int fd)
{
	struct text t = {.bytes = (size_t)lseek(fd, 0, SEEK_END)};

	t.at = malloc(t.bytes + 1);
	assert_true(pread(fd, t.at, t.bytes, 0) == (ssize_t)t.bytes);
	close(fd);
	return t;
}

static struct kedge__pool *pool; /* NULL: one thread */

/* The plain form of FILE; of no bytes if it stays as it is. */
static struct text plain_of(struct text *file, struct kedge__plain_made *made)
{
	const struct kedge__contents c = contents_of(file);
	int fd = memory_file();
	struct text plain;

	assert_int_equal(kedge__plain_make(&c, fd, "a file", pool, made, NULL), 0);
	plain = text_from(fd);
	if (made->answer != KEDGE__PLAIN_MADE)
		plain.bytes = 0;
	else
		assert_int_equal(plain.bytes, made->bytes);
	return plain;
}

static int rebuild(struct text *plain, enum kedge__effort effort, struct kedge__rebuilt *rebuilt, struct text *file)
{
	const struct kedge__contents c = contents_of(plain);
	int fd = memory_file(), rc = kedge__plain_rebuild(&c, fd, "a file", pool, effort, rebuilt, NULL);

	*file = text_from(fd);
	return rc;
}

static bool same(const struct text *a, const struct text *b)
{
	return a->bytes == b->bytes && memcmp(a->at, b->at, a->bytes) == 0;
}

/* ------------------------------------------------------------------ filters */

static void there_and_back(const struct kedge__plain_filter *filter, const uint8_t *data, size_t n)
{
	struct kedge__plain_pipe pipe = {.count = 1, .filters = {*filter}};
	struct kedge__chunk_bytes packed, again;

	assert_int_equal(kedge__pipe_apply(&pipe, KEDGE__EFFORT_AS_WAS, data, n, 0, &packed), 0);
	assert_int_equal(kedge__pipe_undo(&pipe, packed.at, packed.bytes, n, &again), 0);
	assert_true(again.bytes == n && memcmp(again.at, data, n) == 0);
	kedge__free(packed.at);
	kedge__free(again.at);
}

static void test_filters(void **state)
{
	uint8_t data[4096];

	(void)state;
	fill_random(data, sizeof(data), 1);
	for (size_t n = 1; n < 200; n += 7)
		for (uint32_t width = 0; width < 20; width++) {
			there_and_back(&(struct kedge__plain_filter){.id = 2, .count = 1, .values = {width}}, data, n);
			there_and_back(&(struct kedge__plain_filter){.id = 3}, data, n);
		}
	memset(data + 100, 7, 3000);
	if (kedge__filter_deflate.built)
		there_and_back(&(struct kedge__plain_filter){.id = 1, .count = 1, .values = {6}}, data, 4096);
	if (kedge__filter_szip.built)
		there_and_back(&(struct kedge__plain_filter){.id = 4, .count = 4, .values = {141, 32, 32, 256}}, data,
			       4096);
}

/* Whatever a file says of what was applied, and whatever it has there. */
static void test_hostile_chunks(void **state)
{
	uint64_t seed = 3;
	uint8_t in[1200];

	(void)state;
	for (int turn = 0; turn < 4000; turn++) {
		struct kedge__plain_pipe pipe = {.count = 1 + (uint32_t)draw_below(&seed, 3)};
		struct kedge__chunk_bytes out = {0}, packed = {0};

		for (uint32_t i = 0; i < pipe.count; i++) {
			const uint32_t values[4] = {(uint32_t)draw_below(&seed, 256), (uint32_t)draw_below(&seed, 40),
						    (uint32_t)draw_below(&seed, 70), (uint32_t)draw_below(&seed, 600)};

			pipe.filters[i] =
			    (struct kedge__plain_filter){.id = (uint16_t)draw_below(&seed, 6), .count = 4};
			if (turn % 2)
				pipe.filters[i].id = 4;
			memcpy(pipe.filters[i].values, values, sizeof(values));
		}
		draw_bytes(&seed, in, sizeof(in));
		kedge__put32(in, (uint32_t)draw_below(&seed, 1000));
		if (kedge__pipe_undo(&pipe, in, 5 + draw_below(&seed, sizeof(in) - 5), 1000, &out) == 0)
			kedge__pipe_apply(&pipe, KEDGE__EFFORT_AS_WAS, out.at, out.bytes, 100, &packed);
		kedge__free(out.at);
		kedge__free(packed.at);
	}
}

/* With a place that is larger than what comes of it, by whatever filters there are behind the one that packs. */
static void test_zeros_behind(void **state)
{
	const struct kedge__plain_pipe pipe = {
	    .count = 4,
	    .filters = {
		{.id = 3}, {.id = 1, .count = 1, .values = {6}}, {.id = 3}, {.id = 2, .count = 1, .values = {4}}}};
	struct kedge__chunk_bytes packed, again;
	uint8_t data[1000] = {1, 2, 3};

	(void)state;
	for (size_t place = 0; place < 200; place++) {
		assert_int_equal(kedge__pipe_apply(&pipe, KEDGE__EFFORT_AS_WAS, data, sizeof(data), place, &packed), 0);
		assert_true(packed.bytes == place || (packed.bytes > place && packed.bytes < 60));
		assert_int_equal(kedge__pipe_undo(&pipe, packed.at, packed.bytes, sizeof(data), &again), 0);
		assert_true(again.bytes == sizeof(data) && memcmp(again.at, data, sizeof(data)) == 0);
		kedge__free(packed.at);
		kedge__free(again.at);
	}
}

/* As the author of the hash published them, and of the superblock of a file. */
static void test_checksum(void **state)
{
	struct text t = text_of("new.h5");

	(void)state;
	assert_int_equal(kedge__lookup3((const uint8_t *)"", 0), 0xdeadbeef);
	assert_int_equal(kedge__lookup3((const uint8_t *)"Four score and seven years ago", 30), 0x17770551);
	assert_int_equal(kedge__lookup3(t.at, 44), kedge__get32(t.at + 44));
	free(t.at);
}

/* ------------------------------------------------------------------ files */

/* A chunk of a dataset is what it is in the file, with its type. */
static void check_layout(struct text *plain)
{
	const struct kedge__contents c = contents_of(plain);
	struct kedge__layout l;
	size_t unpacked = 0;

	assert_int_equal(kedge__layout_read(&c, &l, NULL), 0);
	for (size_t i = 0; i < l.variables.count; i++) {
		const struct kedge__variable *v = &l.variables.at[i];

		if (strcmp(v->name, "fixed_packed") != 0 || !v->bytes)
			continue;
		assert_true(v->type == KEDGE_F64 && !v->filtered && v->bytes == 4800 && v->ndims == 1 &&
			    v->dims[0] == 100);
		unpacked++;
	}
	for (size_t i = 0; unpacked && i < l.runs.count; i++) {
		const struct kedge__layout_run *run = &l.runs.at[i];
		double v;

		if (strcmp(l.variables.at[run->variable].name, "fixed_packed") != 0)
			continue;
		for (size_t k = 0; k < run->bytes / 8; k++) {
			memcpy(&v, plain->at + run->offset + 8 * k, 8);
			assert_true(v == (double)(run->at / 8 + k));
		}
	}
	assert_int_equal(unpacked, 1);
	kedge__layout_done(&l);
}

static void test_same_bytes(void **state)
{
	size_t made_of = 0;

	(void)state;
	assert_int_equal(kedge__pool_new(3, &pool, NULL), 0);
	for (size_t i = 0; i < KEDGE__COUNT(files); i++) {
		struct text file = text_of(files[i]), plain, again;
		struct kedge__plain_made made;
		struct kedge__rebuilt rebuilt;

		plain = plain_of(&file, &made);
		if (made.answer == KEDGE__PLAIN_MADE) {
			assert_int_equal(rebuild(&plain, KEDGE__EFFORT_AS_WAS, &rebuilt, &again), 0);
			assert_true(same(&file, &again) && !rebuilt.moved && !made.different);
			if (i < 2)
				check_layout(&plain);
			made_of++;
			free(again.at);
		}
		free(plain.at);
		free(file.at);
	}
	assert_int_equal(made_of, 2);
	kedge__pool_free(pool);
	pool = NULL;
}

/* What the chunk whose entry is at the same place has in it. */
static void check_chunk(const struct text *was, const struct text *is, const struct kedge__parts *parts,
			const struct kedge__part *a, const struct kedge__part *b)
{
	const struct kedge__plain_pipe *pipe = &parts->pipes.at[a->pipe];
	struct kedge__chunk_bytes x, y;

	assert_int_equal(kedge__pipe_undo(pipe, was->at + a->offset, a->bytes, a->plain, &x), 0);
	assert_int_equal(kedge__pipe_undo(pipe, is->at + b->offset, b->bytes, b->plain, &y), 0);
	assert_true(x.bytes == y.bytes && memcmp(x.at, y.at, x.bytes) == 0);
	if (b->entry.sum_bytes)
		assert_int_equal(kedge__lookup3(is->at + b->entry.sum_from, b->entry.sum_bytes),
				 kedge__get32(is->at + b->entry.sum_from + b->entry.sum_bytes));
	kedge__free(x.at);
	kedge__free(y.at);
}

static void check_moved(struct text *was, struct text *is)
{
	const struct kedge__contents a = contents_of(was), b = contents_of(is);
	struct kedge__parts x, y;

	assert_int_equal(kedge__parts_read(&a, &x, NULL), 0);
	assert_int_equal(kedge__parts_read(&b, &y, NULL), 0);
	assert_int_equal(x.list.count, y.list.count);
	for (size_t i = 0; i < x.list.count; i++) {
		size_t k = 0;

		while (k < y.list.count && y.list.at[k].entry.size_at != x.list.at[i].entry.size_at)
			k++;
		assert_true(k < y.list.count);
		check_chunk(was, is, &x, &x.list.at[i], &y.list.at[k]);
	}
	assert_int_equal(kedge__get64(is->at + y.end_at), is->bytes);
	if (y.super_bytes)
		assert_int_equal(kedge__lookup3(is->at + y.super_from, y.super_bytes),
				 kedge__get32(is->at + y.super_from + y.super_bytes));
	kedge__parts_done(&x);
	kedge__parts_done(&y);
}

/* Libraries that pack less well than those that made the file: chunks go to the end of it, and are found there. */
static void test_larger_chunks_are_moved(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(files); i++) {
		struct text file = text_of(files[i]), plain, again;
		struct kedge__plain_made made;
		struct kedge__rebuilt rebuilt;

		plain = plain_of(&file, &made);
		if (made.answer == KEDGE__PLAIN_MADE) {
			assert_int_equal(rebuild(&plain, KEDGE__EFFORT_NONE, &rebuilt, &again), 0);
			assert_int_equal(rebuilt.moved, made.chunks);
			assert_int_equal(rebuilt.bytes, again.bytes);
			check_moved(&file, &again);
			free(again.at);
		}
		free(plain.at);
		free(file.at);
	}
}

/* $KEDGE_TEST_EQUAL, as it comes back where libraries pack less well, for others to read. */
static void test_given_file(void **state)
{
	const char *path = getenv("KEDGE_TEST_EQUAL"), *to = getenv("KEDGE_TEST_EQUAL_TO");
	struct kedge__plain_made made;
	struct kedge__rebuilt rebuilt;
	struct text file, plain, again;

	(void)state;
	if (!path || !to)
		skip();
	file.at = file_read(path, &file.bytes);
	assert_non_null(file.at);
	plain = plain_of(&file, &made);
	assert_int_equal(made.answer, KEDGE__PLAIN_MADE);
	assert_int_equal(rebuild(&plain, KEDGE__EFFORT_NONE, &rebuilt, &again), 0);
	assert_true(rebuilt.moved > 0);
	file_write(to, again.at, again.bytes);
	free(file.at);
	free(plain.at);
	free(again.at);
}

/* ------------------------------------------------------------------ bad input */

/* Whatever a file is: its plain form, if there is one, is it. */
static void test_damaged_files(void **state)
{
	uint64_t seed = 11;
	size_t made_of = 0;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct text file = text_of(files[i]);

		for (int turn = 0; turn < 150; turn++) {
			struct text part = {malloc(file.bytes), file.bytes}, plain, again = {0};
			struct kedge__plain_made made;
			struct kedge__rebuilt rebuilt;

			memcpy(part.at, file.at, file.bytes);
			if (turn % 5 == 0)
				part.bytes = (size_t)draw_below(&seed, file.bytes);
			for (int k = 0; k < 8 && part.bytes; k++)
				part.at[draw_below(&seed, part.bytes)] ^= (uint8_t)(1 + draw_below(&seed, 255));
			plain = plain_of(&part, &made);
			if (made.answer == KEDGE__PLAIN_MADE) {
				assert_int_equal(rebuild(&plain, KEDGE__EFFORT_AS_WAS, &rebuilt, &again), 0);
				assert_true(made.different || same(&part, &again));
				made_of++;
			}
			free(part.at);
			free(plain.at);
			free(again.at);
		}
		free(file.at);
	}
	assert_true(made_of > 50);
}

static void reseal(struct text *plain)
{
	uint64_t bytes = kedge__get64(plain->at + 32), at = 64 + kedge__get64(plain->at + 24);

	if (at <= plain->bytes && bytes <= plain->bytes - at)
		kedge__put64(plain->at + 40, kedge__checksum(plain->at + at, bytes));
	kedge__put64(plain->at + 56, kedge__checksum(plain->at, 56));
}

static void try_lie(struct text *plain)
{
	const struct kedge__contents c = contents_of(plain);
	struct kedge__rebuilt rebuilt;
	struct kedge__layout l;
	struct text file = {0};
	uint64_t end = 0;

	rebuild(plain, KEDGE__EFFORT_AS_WAS, &rebuilt, &file);
	assert_int_equal(kedge__layout_read(&c, &l, NULL), 0);
	for (size_t i = 0; i < l.runs.count; i++) {
		const struct kedge__layout_run *run = &l.runs.at[i];

		assert_true(run->bytes && run->offset >= end && run->offset <= plain->bytes &&
			    run->bytes <= plain->bytes - run->offset);
		end = run->offset + run->bytes;
	}
	kedge__layout_done(&l);
	free(file.at);
}

/* Sizes, places and filters that lie, with all checksums right: an error, or another file. */
static void test_hostile_recipes(void **state)
{
	uint64_t seed = 5;
	struct text file = text_of("new.h5"), plain;
	struct kedge__plain_made made;

	(void)state;
	plain = plain_of(&file, &made);
	assert_int_equal(made.answer, KEDGE__PLAIN_MADE);
	for (int turn = 0; turn < 400; turn++) {
		struct text lie = {malloc(plain.bytes), plain.bytes};
		uint64_t at = 64 + kedge__get64(plain.at + 24), bytes = kedge__get64(plain.at + 32);

		memcpy(lie.at, plain.at, plain.bytes);
		if (turn < 8) /* a chunk that is very large in the file, or here */
			kedge__put32(lie.at + at + bytes - 24 + (turn % 2 ? 8 : 12), UINT32_MAX >> turn);
		for (int k = 0; turn >= 8 && k < 1 + turn % 3; k++) {
			uint64_t place = at + draw_below(&seed, bytes);

			/* No file that is too large to be made here. */
			lie.at[turn % 16 ? place : 16 + draw_below(&seed, 3)] ^= (uint8_t)(1u << draw_below(&seed, 8));
		}
		reseal(&lie);
		try_lie(&lie);
		free(lie.at);
	}
	free(plain.at);
	free(file.at);
}

static void test_no_plain_form(void **state)
{
	struct text file = text_of("old.h5"), again;
	struct kedge__rebuilt rebuilt;

	(void)state;
	assert_int_equal(rebuild(&file, KEDGE__EFFORT_AS_WAS, &rebuilt, &again), KEDGE_E_DAMAGED);
	free(file.at);
	free(again.at);
}

/* ------------------------------------------------------------------ lack of memory and room */

/* Each fault of KIND in turn: an error, or all of it. */
static void each_fault(const char *kind, int code)
{
	struct text file = text_of("old.h5");
	const struct kedge__contents c = contents_of(&file);
	int rc = code;

	for (int n = 1; rc; n++) {
		struct kedge__plain_made made = {0};
		struct kedge__rebuilt rebuilt;
		struct text plain, again = {0};
		int fd = memory_file(), to = memory_file();
		char fault[32];

		snprintf(fault, sizeof(fault), "%s@%d", kind, n);
		kedge__fault_set(fault, NULL);
		rc = kedge__plain_make(&c, fd, "a file", NULL, &made, NULL);
		plain = text_from(fd);
		if (!rc) {
			const struct kedge__contents region = contents_of(&plain);

			assert_int_equal(made.answer, KEDGE__PLAIN_MADE);
			rc = kedge__plain_rebuild(&region, to, "a file", NULL, KEDGE__EFFORT_NONE, &rebuilt, NULL);
		}
		kedge__fault_set(NULL, NULL);
		assert_true(rc == 0 || rc == code);
		again = text_from(to);
		free(plain.at);
		free(again.at);
	}
	free(file.at);
}

static void test_no_memory(void **state)
{
	(void)state;
	each_fault("alloc", KEDGE_E_NOMEM);
}

static void test_full_disk(void **state)
{
	(void)state;
	each_fault("enospc", KEDGE_E_NOSPACE);
}

static bool here(void)
{
	return kedge__filter_deflate.built;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_filters),         cmocka_unit_test(test_zeros_behind),
	    cmocka_unit_test(test_hostile_chunks),  cmocka_unit_test(test_checksum),
	    cmocka_unit_test(test_same_bytes),      cmocka_unit_test(test_larger_chunks_are_moved),
	    cmocka_unit_test(test_given_file),      cmocka_unit_test(test_damaged_files),
	    cmocka_unit_test(test_hostile_recipes), cmocka_unit_test(test_no_plain_form),
	    cmocka_unit_test(test_no_memory),       cmocka_unit_test(test_full_disk),
	};

	return cases_run_where(argc, argv, tests, NULL, NULL, here);
}
