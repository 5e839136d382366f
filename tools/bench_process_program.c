/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_process_program: a program with a given amount of memory, which changes and copies pages as it is told to, and
 * knows nothing of captures. */
#include "bench_process.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define WORDS_CHANGED 4 /* of a page, as in `kedge-bench rex --change words` */
#define LINE_MOST     128

struct program {
	uint8_t *data;
	size_t pages;
	uint64_t seed;
	size_t stride, first; /* of the pages that were changed last */
};

static void fill(struct program *p)
{
	for (size_t i = 0; i < p->pages * KEDGE__PAGE_BYTES; i += 8)
		kedge__put64(p->data + i, kedge__bench_random(&p->seed));
}

/* The I-th of those pages. */
static void change_page(struct program *p, size_t i)
{
	for (int k = 0; k < WORDS_CHANGED; k++)
		kedge__put64(p->data + (i * p->stride + p->first) * KEDGE__PAGE_BYTES +
				 kedge__bench_random(&p->seed) % (KEDGE__PAGE_BYTES / 8) * 8,
			     kedge__bench_random(&p->seed));
}

/* N pages all over the memory. */
static void change(struct program *p, size_t n)
{
	n = KEDGE__MAX(KEDGE__MIN(n, p->pages), 1);
	p->stride = p->pages / n;
	p->first = kedge__bench_random(&p->seed) % p->stride;
	for (size_t i = 0; i < n; i++)
		change_page(p, i);
}

/* Seconds for a copy of N pages that were just changed, to memory that is there; negative: no memory. */
static double copy(struct program *p, size_t n)
{
	uint8_t *to;
	double start;

	n = KEDGE__MAX(KEDGE__MIN(n, p->pages), 1);
	to = kedge__map_alloc(n * KEDGE__PAGE_BYTES);
	if (!to)
		return -1;
	memset(to, 1, n * KEDGE__PAGE_BYTES);
	change(p, n);
	start = kedge__clock_seconds();
	for (size_t i = 0; i < n; i++)
		memcpy(to + i * KEDGE__PAGE_BYTES, p->data + (i * p->stride + p->first) * KEDGE__PAGE_BYTES,
		       KEDGE__PAGE_BYTES);
	start = kedge__clock_seconds() - start;
	kedge__map_free(to, n * KEDGE__PAGE_BYTES);
	return start;
}

/* Says that it watches; then, until there is input: the longest time between two looks at the clock. With each look it
 * changes one of the first N pages that it changed last, in turn; 0: none. */
static double watch(struct program *p, size_t n)
{
	double longest = 0, before = kedge__clock_seconds();
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	size_t turn = 0;

	n = KEDGE__MIN(n, p->stride ? p->pages / p->stride : 0);
	dprintf(STDOUT_FILENO, "0\n");
	while (poll(&in, 1, 0) == 0) {
		double now = kedge__clock_seconds();

		longest = now - before > longest ? now - before : longest;
		before = now;
		if (n)
			change_page(p, turn++ % n);
	}
	return longest;
}

/* False at the end of the input. */
static bool read_line(char line[LINE_MOST])
{
	size_t n = 0;

	while (n + 1 < LINE_MOST && read(STDIN_FILENO, line + n, 1) == 1)
		if (line[n++] == '\n') {
			line[n] = '\0';
			return true;
		}
	return false;
}

int kedge__bench_process_program(uint64_t bytes)
{
	struct program p = {.pages = KEDGE__MAX((size_t)(bytes / KEDGE__PAGE_BYTES), 1), .seed = 1};
	char line[LINE_MOST];
	double seconds = 0;

	p.data = kedge__map_alloc(p.pages * KEDGE__PAGE_BYTES);
	if (!p.data)
		kedge__tool_no_memory();
	fill(&p);
	for (;;) {
		dprintf(STDOUT_FILENO, "%.9f\n", seconds);
		seconds = 0;
		if (!read_line(line))
			break;
		if (strncmp(line, "change ", 7) == 0)
			change(&p, strtoull(line + 7, NULL, 10));
		else if (strncmp(line, "copy ", 5) == 0)
			seconds = copy(&p, strtoull(line + 5, NULL, 10));
		else if (strncmp(line, "watch ", 6) == 0)
			seconds = watch(&p, strtoull(line + 6, NULL, 10));
	}
	kedge__map_free(p.data, p.pages * KEDGE__PAGE_BYTES);
	return 0;
}
