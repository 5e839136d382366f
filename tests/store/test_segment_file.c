/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Appends of any size make one file, whose writes through the page cache begin where that has large pieces of memory
 * for them.
 */
#include "fixture.h"
#include "store/internal.h"

#include "../lib/draw.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

struct bed {
	char *dir;
	struct kedge__catalog *cat;
	struct kedge__segment_file file;
	uint8_t *all; /* that was appended, */
	size_t bytes; /* and how much, */
	size_t room;  /* of so much */
};

static void bed_open(struct bed *b, size_t room, const struct kedge__io *io)
{
	const struct kedge__berth berth = {0};
	uint64_t seed = room;

	*b = (struct bed){.dir = make_dir(), .all = malloc(room), .room = room};
	assert_non_null(b->all);
	draw_bytes(&seed, b->all, room);
	b->cat = open_store(b->dir);
	assert_ok(kedge__segment_file_open(&b->file, b->cat, 1, 0, &berth, io, false, NULL, err));
}

static void append(struct bed *b, size_t bytes)
{
	assert_true(bytes <= b->room - b->bytes);
	assert_ok(kedge__segment_file_append(&b->file, b->all + b->bytes, bytes, err));
	b->bytes += bytes;
	assert_int_equal(b->file.offset, b->bytes);
}

static void bed_close(struct bed *b)
{
	size_t bytes;
	uint8_t *data;

	assert_ok(kedge__segment_file_commit(&b->file, err));
	data = file_read(b->file.path, &bytes);
	assert_int_equal(bytes, b->bytes);
	assert_memory_equal(data, b->all, bytes);
	free(data);
	kedge__segment_file_done(&b->file);
	kedge__catalog_close(b->cat);
	remove_dir(b->dir);
	free(b->all);
}

/* A header goes with the first write, and of each group as much as it had is left to the next one. */
static void test_groups(void **state)
{
	static const size_t groups[] = {2 * MIB, MIB, 512 * KIB, 256 * KIB};
	const struct kedge__io io = {.writer = KEDGE__WRITER_PWRITE};

	(void)state;
	for (size_t g = 0; g < KEDGE__COUNT(groups); g++) {
		struct bed b;

		bed_open(&b, 12 * MIB, &io);
		append(&b, 64);
		assert_int_equal(b.file.written, 0);
		for (size_t i = 1; i <= 5; i++) {
			append(&b, groups[g]);
			assert_int_equal(b.file.written, i * groups[g]);
		}
		append(&b, 1000); /* a table behind them */
		bed_close(&b);
	}
}

static void append_pieces(struct bed *b, const size_t *bytes, size_t count)
{
	struct iovec pieces[KEDGE__SEGMENT_PIECES];

	for (size_t i = 0; i < count; i++) {
		assert_true(bytes[i] <= b->room - b->bytes);
		pieces[i] = (struct iovec){b->all + b->bytes, bytes[i]};
		b->bytes += bytes[i];
	}
	assert_ok(kedge__segment_file_append_pieces(&b->file, pieces, count, err));
	assert_int_equal(b->file.offset, b->bytes);
}

/* Several pieces are as good as one, also if the rest is longer than the last of them, and with more than one call. */
static void test_pieces(void **state)
{
	static const size_t two[] = {MIB, MIB}, odd[] = {MIB + 200, MIB, 100}, large[] = {5 * MIB, 9 * MIB, 3 * MIB},
			    small[] = {100, 0, 200 * KIB};
	const struct kedge__io io = {.writer = KEDGE__WRITER_PWRITE};
	struct bed b;

	(void)state;
	bed_open(&b, 32 * MIB, &io);
	append(&b, 64);
	append_pieces(&b, two, 2);
	assert_int_equal(b.file.written, 2 * MIB);
	append_pieces(&b, odd, 3);
	assert_int_equal(b.file.written, 4 * MIB);
	append_pieces(&b, small, 3);
	assert_int_equal(b.file.written, 4 * MIB);
	append_pieces(&b, large, 3);
	assert_int_equal(b.file.written, 21 * MIB); /* 200 KiB are left, 1.2 MiB would be too many */
	bed_close(&b);
}

/* A region that ends anywhere: what cannot begin at a multiple of the largest piece begins at one of a smaller, and
 * little is copied for that. */
static void test_odd_ends(void **state)
{
	const struct kedge__io io = {.writer = KEDGE__WRITER_PWRITE};
	struct bed b;

	(void)state;
	bed_open(&b, 16 * MIB, &io);
	append(&b, 64);
	append(&b, 700 * KIB);
	assert_int_equal(b.file.written, 700 * KIB + 64); /* 60 KiB more than a multiple, that would be too many */
	append(&b, 2 * MIB);
	assert_int_equal(b.file.written, 2 * MIB + 640 * KIB); /* 60 KiB and 64 bytes are not */
	append(&b, 2 * MIB);
	assert_int_equal(b.file.written, 4 * MIB + 640 * KIB);
	append(&b, 9 * MIB); /* in two calls */
	assert_int_equal(b.file.written % (512 * KIB), 0);
	bed_close(&b);
}

/* Where everything is copied to slots, it is these that are written. */
static void test_any(void **state)
{
	static const struct kedge__io ios[] = {{.writer = KEDGE__WRITER_PWRITE},
					       {.writer = KEDGE__WRITER_PWRITE, .buffer = 4096},
					       {.writer = KEDGE__WRITER_PWRITE, .direct = true},
					       {.writer = KEDGE__WRITER_URING}};
	uint64_t seed = 1;

	(void)state;
	for (size_t round = 0; round < 24; round++) {
		struct bed b;

		bed_open(&b, 8 * MIB, &ios[round % KEDGE__COUNT(ios)]);
		while (b.bytes < b.room) {
			size_t bytes[KEDGE__SEGMENT_PIECES], left = b.room - b.bytes;
			size_t count = 1 + (size_t)draw_below(&seed, KEDGE__SEGMENT_PIECES);

			for (size_t i = 0; i < count; i++) {
				bytes[i] = 1 + (size_t)draw_below(&seed, UINT64_C(1) << draw_below(&seed, 23));
				bytes[i] = KEDGE__MIN(left, bytes[i]);
				left -= bytes[i];
			}
			append_pieces(&b, bytes, count);
		}
		bed_close(&b);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_groups),
	    cmocka_unit_test(test_pieces),
	    cmocka_unit_test(test_odd_ends),
	    cmocka_unit_test(test_any),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
