/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory: mappings that come, go, grow, shrink, move and are discarded, and pages that are written by the program and
 * by the kernel, a little of them in each round. What is read back makes the answer.
 */
#include "steps.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE    4096u
#define TABLE   (3u << 20)
#define RESERVE ((size_t)1 << 30)
#define PARTS   4
#define PART    (2u << 20)
#define HIDDEN  (3u << 20) /* of which PART has no rights most of the time */

static unsigned char table[TABLE]; /* beside the file's pages */
static uint64_t sum;

static void *map(size_t bytes, int rights, int flags)
{
	void *p = mmap(NULL, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (p == MAP_FAILED)
		_exit(5);
	return p;
}

static void must_at(int failed, int line)
{
	if (!failed)
		return;
	fprintf(stderr, "memory: line %d: %m\n", line);
	_exit(6);
}

#define must(failed) must_at(failed, __LINE__)

/* Some pages of AT are written, others are read. */
static void touch(unsigned char *at, size_t bytes, uint64_t seed)
{
	for (unsigned i = 0; i < 6; i++) {
		size_t page = (size_t)(steps_mix(seed + i) % (bytes / PAGE)) * PAGE;

		memcpy(at + page + 8 * i, &sum, sizeof(sum));
		page = (size_t)(steps_mix(seed + i + 100) % (bytes / PAGE)) * PAGE;
		for (unsigned k = 0; k < PAGE; k += 512)
			sum = steps_mix(sum ^ at[page + k] ^ at[page + k / 64]);
	}
}

static void discard(unsigned char *at, size_t bytes, uint64_t seed)
{
	size_t page = (size_t)(steps_mix(seed) % (bytes / PAGE - 16)) * PAGE;

	must(madvise(at + page, 16 * PAGE, MADV_DONTNEED));
}

/* By the kernel, from a pipe. */
static void receive(unsigned char *at, uint64_t seed)
{
	static int ends[2];

	must((!ends[1] && pipe(ends)) || write(ends[1], &sum, sizeof(sum)) != sizeof(sum));
	must(read(ends[0], at + steps_mix(seed) % (PART / PAGE) * PAGE, sizeof(sum)) != sizeof(sum));
}

/* One of the parts is made again, moved, made larger, or without rights for a while. */
static void rearrange(unsigned char **part, size_t *bytes, unsigned long i)
{
	unsigned which = (unsigned)(i / 8 % PARTS);

	switch (steps_mix(i) % 5) {
	case 0:
		must(munmap(part[which], bytes[which]));
		bytes[which] = PART;
		part[which] = map(PART, PROT_READ | PROT_WRITE, 0);
		break;
	case 1: {
		void *other = map(bytes[which], PROT_NONE, 0);

		part[which] = mremap(part[which], bytes[which], bytes[which], MREMAP_MAYMOVE | MREMAP_FIXED, other);
		break;
	}
	case 2:
		if (bytes[which] < 4 * PART)
			part[which] = mremap(part[which], bytes[which], bytes[which] + PART / 2, MREMAP_MAYMOVE);
		bytes[which] += bytes[which] < 4 * PART ? PART / 2 : 0;
		break;
	case 3:
		must(mprotect(part[which], PART, PROT_NONE) || mprotect(part[which], PART, PROT_READ | PROT_WRITE));
		break;
	default:
		must(madvise(part[which], bytes[which], i % 2 ? MADV_DONTFORK : MADV_DOFORK));
	}
	must(part[which] == MAP_FAILED);
}

static uint64_t deep(unsigned levels, uint64_t x)
{
	volatile uint64_t frame[256];

	frame[levels % 256] = steps_mix(x + levels);
	return levels ? deep(levels - 1, frame[levels % 256]) ^ frame[levels % 256] : x;
}

int main(int argc, char **argv)
{
	unsigned long rounds = steps_open(argc, argv);
	unsigned char *part[PARTS], *reserve = map(RESERVE, PROT_READ | PROT_WRITE, MAP_NORESERVE);
	unsigned char *hidden = map(HIDDEN, PROT_READ | PROT_WRITE, 0);
	size_t bytes[PARTS], heap = 0;

	for (unsigned i = 0; i < PARTS; i++)
		part[i] = map(bytes[i] = PART, PROT_READ | PROT_WRITE, 0);
	memset(part[0], 7, PART);
	memset(hidden, 3, HIDDEN);
	must(mprotect(hidden, PART, PROT_NONE));
	for (unsigned long i = 0; i < rounds; i++) {
		unsigned which = (unsigned)(i % PARTS);

		touch(table, TABLE, i);
		touch(part[which], bytes[which], i + 1000000);
		touch(reserve + steps_mix(i / 64) % 64 * (RESERVE / 64), PART, i + 2000000);
		receive(part[(i + 1) % PARTS], i);
		if (i % 4 == 0)
			discard(part[which], bytes[which], i);
		if (i % 8 == 3)
			rearrange(part, bytes, i);
		if (i % 16 == 5) {
			must(mprotect(hidden, PART, PROT_READ | PROT_WRITE));
			/* It is one mapping again, or could not be made larger. */
			hidden = mremap(hidden, HIDDEN, HIDDEN + PART, MREMAP_MAYMOVE);
			must(hidden == MAP_FAILED || munmap(hidden + HIDDEN, PART));
			touch(hidden, HIDDEN, i);
			must(mprotect(hidden, PART, PROT_NONE));
		}
		if (i % 32 == 9 && heap < (6u << 20)) {
			must(sbrk(1 << 18) == (void *)-1);
			heap += 1 << 18;
		} else if (i % 32 == 25 && heap) {
			must(sbrk(-(1 << 17)) == (void *)-1);
			heap -= 1 << 17;
		}
		if (heap)
			touch((unsigned char *)sbrk(0) - heap, heap & ~(size_t)(PAGE - 1), i + 3000000);
		sum = steps_mix(sum ^ deep((unsigned)(i % 300), i));
		steps_done();
	}
	for (unsigned k = 0; k < TABLE; k++)
		sum = steps_mix(sum ^ table[k]) + k;
	for (unsigned i = 0; i < PARTS; i++)
		for (size_t k = 0; k < bytes[i]; k += 8)
			sum = sum * 31 + part[i][k];
	steps_answer(sum);
	return 0;
}
