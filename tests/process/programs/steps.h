/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steps: what the programs that are captured have in common. They are called as PROGRAM ROUNDS, compute in rounds, and
 * write a byte to the file `progress` after each of them, by which a test knows where they are. They wait when they have done
 * as many rounds as the file `limit` says, if there is one. Their answer is in `answer`.
 */
#ifndef STEPS_H
#define STEPS_H

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int steps_fd = -1;

static inline unsigned long steps_open(int argc, char **argv)
{
	steps_fd = open("progress", O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (argc != 2 || steps_fd < 0)
		exit(2);
	return strtoul(argv[1], NULL, 10);
}

/* ULONG_MAX: there is none */
static inline unsigned long steps_read_limit(void)
{
	unsigned long limit = ULONG_MAX;
	char text[32] = "";
	int fd = open("limit", O_RDONLY);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		limit = strtoul(text, NULL, 10);
	if (fd >= 0)
		close(fd);
	return limit;
}

static inline void steps_done(void)
{
	static unsigned long done, limit;

	if (write(steps_fd, ".", 1) != 1)
		exit(3);
	for (done++; done >= limit && (limit = steps_read_limit()) <= done;)
		usleep(200);
}

static inline void steps_answer(uint64_t answer)
{
	FILE *f = fopen("answer", "w");

	if (!f || fprintf(f, "%016llx\n", (unsigned long long)answer) < 0 || fclose(f) != 0)
		exit(4);
}

static inline uint64_t steps_mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ (x >> 33);
}

#endif
