/* SPDX-License-Identifier: BSD-3-Clause */
/* again: executes itself, after which its memory is another one, at other places or the same. */
#include "steps.h"

#include <string.h>
#include <sys/mman.h>

#define BYTES ((size_t)4 << 20)

int main(int argc, char **argv)
{
	int second = getenv("AGAIN") != NULL;
	unsigned char *memory = mmap((void *)0x600000000000, BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	steps_open(argc, argv);
	if (memory == MAP_FAILED)
		return 5;
	memset(memory, second ? 2 : 1, BYTES);
	steps_done();
	if (!second) {
		setenv("AGAIN", "1", 1);
		close(steps_fd);
		execv("/proc/self/exe", argv);
		return 7;
	}
	steps_done();
	steps_answer(memory[BYTES / 2]);
	return 0;
}
