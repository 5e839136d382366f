/* SPDX-License-Identifier: BSD-3-Clause */
/* grow: a heap and mappings that grow a little in each round, beside what was there, and shrink again when they are
 * large. */
#include "steps.h"

#include <string.h>
#include <sys/mman.h>

#define STEP      ((size_t)96 << 10)
#define HEAP_MOST (12u << 20)
#define PIECES    48

static void must(int failed)
{
	if (failed)
		_exit(6);
}

int main(int argc, char **argv)
{
	unsigned long rounds = steps_open(argc, argv);
	unsigned char *piece[PIECES] = {0}, *heap = sbrk(0);
	uint64_t sum = 0;
	size_t bytes = 0;

	for (unsigned long i = 0; i < rounds; i++) {
		unsigned char **at = &piece[i % PIECES];

		if (bytes >= HEAP_MOST) {
			must(sbrk(-(intptr_t)(bytes - STEP)) == (void *)-1);
			bytes = STEP;
		}
		must(sbrk((intptr_t)STEP) == (void *)-1);
		memset(heap + bytes, (int)i, STEP);
		bytes += STEP;
		if (*at)
			must(munmap(*at, STEP));
		*at = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		must(*at == MAP_FAILED);
		memset(*at, (int)i + 1, STEP / 2);
		sum = steps_mix(sum + heap[steps_mix(i) % bytes]);
		at = &piece[steps_mix(sum) % PIECES];
		sum = steps_mix(sum + (*at ? (*at)[sum % STEP] : 0));
		steps_done();
	}
	steps_answer(sum);
	return 0;
}
