/* SPDX-License-Identifier: BSD-3-Clause */
#include "damage.h"

#include "files.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void file_flip(const char *path, uint64_t offset, uint8_t mask)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	REQUIRE(fd >= 0 && pread(fd, &byte, 1, (off_t)offset) == 1);
	byte ^= mask;
	REQUIRE(pwrite(fd, &byte, 1, (off_t)offset) == 1 && close(fd) == 0);
}

void file_cut(const char *path, uint64_t bytes)
{
	REQUIRE(truncate(path, (off_t)bytes) == 0);
}

static int remove_version(const char *path, const struct stat *st, void *ctx)
{
	(void)st, (void)ctx;
	return strncmp(strrchr(path, '/') + 1, "set-", 4) == 0 || strstr(path, "/job/v0") ? remove(path) : 0;
}

void versions_remove(const char *store)
{
	(void)tree_each_inside_first(store, remove_version, NULL);
}

/* File systems take their times from this clock, or from a finer one. */
void clock_tick(void)
{
	struct timespec then, now;

	clock_gettime(CLOCK_REALTIME_COARSE, &then);
	do
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	while (now.tv_sec < then.tv_sec || (now.tv_sec == then.tv_sec && now.tv_nsec <= then.tv_nsec));
}
