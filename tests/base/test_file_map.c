/* SPDX-License-Identifier: BSD-3-Clause */
/* A page of a file is touched only if it is known to be in memory. */
#include "../lib/cases.h"
#include "../lib/files.h"
#include "../lib/scratch.h"
#include "base/base.h"
#include "base/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAGES = 700 }; /* more than are asked for at once */

static char dir[FILES_PATH];

static int setup(void **state)
{
	(void)state;
	scratch_make_on_disk(dir, sizeof(dir), "file-map");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return scratch_remove(dir);
}

static int file_make(size_t page)
{
	char path[FILES_PATH + 16];
	uint8_t *data = malloc(PAGES * page);
	int fd;

	assert_non_null(data);
	for (size_t i = 0; i < PAGES * page; i++)
		data[i] = (uint8_t)(i / page * 31 + i);
	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, PAGES * page), PAGES * page);
	assert_int_equal(fdatasync(fd), 0);
	free(data);
	return fd;
}

/* What was written is there; what lies behind the end of the file, or was cut off, is not. */
static void test_there(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = file_make(page);
	const uint8_t *at = kedge__file_map(fd, 0, 2 * PAGES * page);

	(void)state;
	assert_non_null(at);
	if (!kedge__file_map_suits(fd))
		skip();
	assert_true(kedge__file_map_is_there(fd, 0, at, PAGES * page));
	assert_true(kedge__file_map_is_there(fd, 5, at + 5, PAGES * page - 5));
	assert_int_equal(at[3 * page + 2], (uint8_t)(3 * 31 + 3 * page + 2));
	assert_false(kedge__file_map_is_there(fd, 0, at, PAGES * page + 1));
	assert_false(kedge__file_map_is_there(fd, PAGES * page, at + PAGES * page, 1));
	assert_int_equal(ftruncate(fd, (off_t)((PAGES - 1) * page)), 0);
	assert_false(kedge__file_map_is_there(fd, 0, at, PAGES * page));
	assert_true(kedge__file_map_is_there(fd, 0, at, (PAGES - 1) * page));
	kedge__file_unmap(at, 2 * PAGES * page);
	kedge__file_unmap(NULL, 0);
	close(fd);
}

/* What is not on its way to storage yet can be in pieces so large that they stay whole when the file is cut. */
static void test_cut(void **state)
{
	static const size_t cut[] = {3 << 20, (2 << 20) + 5000, 70000, 1};
	const size_t bytes = 4 << 20;
	char path[FILES_PATH + 16];
	uint8_t *data = calloc(1, bytes);

	(void)state;
	assert_non_null(data);
	snprintf(path, sizeof(path), "%s/cut", dir);
	for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		const uint8_t *at;

		assert_true(fd >= 0);
		assert_int_equal(write(fd, data, bytes), bytes);
		at = kedge__file_map(fd, 0, bytes);
		assert_non_null(at);
		assert_int_equal(ftruncate(fd, (off_t)(bytes - cut[i])), 0);
		assert_false(kedge__file_map_is_there(fd, 0, at, bytes));
		assert_false(kedge__file_map_is_there(fd, bytes - 1, at + bytes - 1, 1));
		if (kedge__file_map_suits(fd) && kedge__file_map_is_there(fd, 0, at, bytes - cut[i]))
			for (size_t k = 0; k < bytes - cut[i]; k++)
				assert_int_equal(at[k], 0);
		kedge__file_unmap(at, bytes);
		close(fd);
	}
	free(data);
}

/* What the cache has dropped is not there. */
static void test_dropped(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = file_make(page);
	const uint8_t *at = kedge__file_map(fd, 0, PAGES * page);

	(void)state;
	assert_non_null(at);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (kedge__file_map_suits(fd) && !kedge__fs_cached(fd, 0, PAGES * page))
		assert_false(kedge__file_map_is_there(fd, 0, at, PAGES * page));
	kedge__file_unmap(at, PAGES * page);
	close(fd);
}

/* File systems that are not on a disk of this machine. */
static void test_others(void **state)
{
	int fd = open("/proc/self/maps", O_RDONLY);

	(void)state;
	assert_true(fd >= 0);
	assert_false(kedge__file_map_suits(fd));
	close(fd);
	assert_false(kedge__file_map_suits(-1));
	assert_null(kedge__file_map(-1, 0, 4096));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_there),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_dropped),
	    cmocka_unit_test(test_others),
	};

	return cases_run(argc, argv, tests, setup, teardown);
}
