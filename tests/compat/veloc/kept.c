/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions stay protected from one checkpoint to the next, so that what is known of their pages counts; and whatever the
 * program does to its memory in between, each version has what was there when it was taken (arguments: program.h).
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "program.h"

#define PAGE  4096
#define BYTES ((size_t)1 << 20) /* large enough to be tracked */
#define WORDS (BYTES / sizeof(uint64_t))

static uint64_t *map_at(void *where, size_t bytes)
{
	void *p = mmap(where, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	CHECK(p != MAP_FAILED && (!where || p == where));
	return p;
}

static uint64_t word(int version, size_t i)
{
	return ((uint64_t)version << 40 | (uint64_t)rank << 32 | i) * UINT64_C(0x9e3779b97f4a7c15);
}

static void fill(uint64_t *p, int version)
{
	for (size_t i = 0; i < WORDS; i++)
		p[i] = word(version, i);
}

/* One word in each eighth page. */
static void change_few(uint64_t *p, int version)
{
	for (size_t i = 7; i < WORDS; i += 8 * PAGE / sizeof(*p))
		p[i] = word(version, i) | 1;
}

static void take(const char *name, int version)
{
	CHECK(VELOC_Checkpoint(name, version) == VELOC_SUCCESS);
}

static void take_some(const char *name, int version, int how, int id)
{
	CHECK(VELOC_Checkpoint_begin(name, version) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_selective(how, &id, 1) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_end(1) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
}

/* Region ID of VERSION, whatever is protected under that id now. */
static void stored_is(const char *name, int version, int id, const void *want, size_t bytes)
{
	unsigned char *room = malloc(bytes);

	CHECK(room);
	(void)VELOC_Mem_unprotect(id);
	CHECK(VELOC_Mem_protect(id, room, bytes, 1) == VELOC_SUCCESS);
	CHECK(VELOC_Restart_begin(name, version) == VELOC_SUCCESS);
	CHECK(VELOC_Recover_size(id) == (int)bytes);
	CHECK(VELOC_Recover_selective(VELOC_RECOVER_SOME, &id, 1) == VELOC_SUCCESS);
	CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
	CHECK(memcmp(room, want, bytes) == 0);
	CHECK(VELOC_Mem_unprotect(id) == VELOC_SUCCESS);
	free(room);
}

static uint64_t *copy_of(const void *p, size_t bytes)
{
	uint64_t *copy = malloc(bytes);

	CHECK(copy);
	memcpy(copy, p, bytes);
	return copy;
}

/* ------------------------------------------------------------------ what is remembered */

/* Whether the mapping at P is registered with a userfaultfd for write protection. */
static bool is_watched(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[1024];
	unsigned long begin, end;
	bool here = false, watched = false;

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			here = begin <= (uintptr_t)p && (uintptr_t)p < end;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			watched = strstr(line, " uw");
	}
	fclose(f);
	return watched;
}

/* Memory of which everything changes is not watched after a while: that costs, and nothing is gained. */
static void test_dense(void)
{
	uint64_t *p = map_at(NULL, BYTES);

	init("dense", "");
	CHECK(VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_SUCCESS);
	fill(p, 1);
	take("d", 1);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	for (int v = 2; v <= 5 && is_watched(p); v++) {
		fill(p, v);
		take("d", v);
		CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	}
	CHECK(!is_watched(p)); /* it has no tracker at all, or it was given up */
	finalize();
	munmap(p, BYTES);
}

/* ------------------------------------------------------------------ who has the memory */

/* Each name has versions of its own; what one has saved is not clean for the other. */
static void test_two_names(void)
{
	uint64_t *p = map_at(NULL, BYTES), *seen[6];

	init("names", "");
	CHECK(VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_SUCCESS);
	fill(p, 0);
	for (int v = 0; v < 6; v++) {
		change_few(p, v);
		take(v % 3 == 2 ? "second" : "first", v);
		seen[v] = copy_of(p, BYTES);
	}
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	for (int v = 0; v < 6; v++) {
		stored_is(v % 3 == 2 ? "second" : "first", v, 1, seen[v], BYTES);
		free(seen[v]);
	}
	finalize();
	munmap(p, BYTES);
}

/* One id in two groups is two regions, and only one of them goes. */
static void test_two_groups(void)
{
	uint64_t *p = map_at(NULL, BYTES), *q = map_at(NULL, BYTES);

	init("groups", "");
	CHECK(VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_SUCCESS);
	CHECK(VELOC_Region_protect(1, q, WORDS, sizeof(*q), "inner") == VELOC_SUCCESS);
	fill(p, 1);
	fill(q, 2);
	take("outer", 1);
	take("inner", 1);
	CHECK(VELOC_Region_unprotect(1, "inner") == VELOC_SUCCESS);
	munmap(q, BYTES);
	change_few(p, 3);
	take("inner", 2); /* its group is empty: the default one */
	take("outer", 2);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	stored_is("inner", 2, 1, p, BYTES);
	stored_is("outer", 2, 1, p, BYTES);
	finalize();
	munmap(p, BYTES);
}

/* What is not selected is not in the version, and what it became meanwhile is in the next one that has it. */
static void test_selections(void)
{
	uint64_t *p = map_at(NULL, BYTES), *q = map_at(NULL, BYTES);

	init("selections", "");
	CHECK(VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_SUCCESS);
	CHECK(VELOC_Mem_protect(2, q, WORDS, sizeof(*q)) == VELOC_SUCCESS);
	fill(p, 1);
	fill(q, 2);
	take("s", 1);
	change_few(q, 3);
	take_some("s", 2, VELOC_CKPT_SOME, 1);
	change_few(p, 4);
	take_some("s", 3, VELOC_CKPT_REST, 1);
	take_some("s", 4, VELOC_CKPT_ALL, 1);
	CHECK(VELOC_Restart_begin("s", 2) == VELOC_SUCCESS);
	CHECK(VELOC_Recover_size(1) == (int)BYTES && VELOC_Recover_size(2) == 0);
	CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
	CHECK(VELOC_Restart_begin("s", 3) == VELOC_SUCCESS);
	CHECK(VELOC_Recover_size(1) == 0 && VELOC_Recover_size(2) == (int)BYTES);
	CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
	stored_is("s", 3, 2, q, BYTES);
	stored_is("s", 4, 1, p, BYTES);
	stored_is("s", 4, 2, q, BYTES);
	finalize();
	munmap(p, BYTES);
	munmap(q, BYTES);
}

/* ------------------------------------------------------------------ what becomes of it */

/* Freed, and other memory at the same address: nothing of it is known. SAY: the program protects it again. */
static void test_replaced(bool say)
{
	uint64_t *p = map_at(NULL, BYTES);

	init(say ? "said" : "unsaid", "");
	CHECK(VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_SUCCESS);
	fill(p, 1);
	take("r", 1);
	change_few(p, 2);
	take("r", 2);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	munmap(p, BYTES);
	map_at(p, BYTES);
	p[3] = 3;
	CHECK(!say || VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_FAILURE); /* as VELOC: not new */
	take("r", 3);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	stored_is("r", 3, 1, p, BYTES);
	finalize();
	munmap(p, BYTES);
}

/* Its pages are given back, and read as zeros. */
static void test_discarded(void)
{
	uint64_t *p = map_at(NULL, BYTES);

	init("discarded", "");
	CHECK(VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_SUCCESS);
	fill(p, 1);
	take("d", 1);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	CHECK(madvise((char *)p + BYTES / 2, BYTES / 4, MADV_DONTNEED) == 0);
	take("d", 2);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	CHECK(p[WORDS / 2] == 0);
	stored_is("d", 2, 1, p, BYTES);
	finalize();
	munmap(p, BYTES);
}

/* The array moves, and something else comes where it was. */
static void test_moved(void)
{
	uint64_t *p = map_at(NULL, BYTES), *to;

	init("moved", "");
	CHECK(VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_SUCCESS);
	fill(p, 1);
	take("m", 1);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	to = mremap(p, BYTES, 2 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)map_at(NULL, 4 * BYTES) + BYTES);
	CHECK(to != MAP_FAILED);
	map_at(p, BYTES);
	fill(p, 9);
	CHECK(VELOC_Mem_protect(1, to, 2 * WORDS, sizeof(*to)) == VELOC_FAILURE);
	take("m", 2);
	change_few(to, 3);
	take("m", 3);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	stored_is("m", 3, 1, to, 2 * BYTES);
	finalize();
	munmap(to, 2 * BYTES);
	munmap(p, BYTES);
}

static void test_resized(void)
{
	uint64_t *p = map_at(NULL, 2 * BYTES), *small;

	init("resized", "");
	fill(p, 1);
	fill(p + WORDS, 2);
	CHECK(VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_SUCCESS);
	take("z", 1);
	change_few(p + WORDS, 3); /* not saved, not watched */
	CHECK(VELOC_Mem_protect(1, p, 2 * WORDS, sizeof(*p)) == VELOC_FAILURE);
	take("z", 2);
	change_few(p, 4);
	small = copy_of(p, BYTES / 2);
	CHECK(VELOC_Mem_protect(1, p, WORDS / 2, sizeof(*p)) == VELOC_FAILURE);
	take("z", 3);
	CHECK(VELOC_Mem_protect(1, p, BYTES * 2, 1) == VELOC_FAILURE); /* other elements */
	take("z", 4);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	stored_is("z", 3, 1, small, BYTES / 2);
	stored_is("z", 4, 1, p, 2 * BYTES);
	finalize();
	free(small);
	munmap(p, 2 * BYTES);
}

/* Taken back, it is free at once, in every name that had it; and the versions that saved it are whole. */
static void test_unprotected(void)
{
	uint64_t *p = map_at(NULL, BYTES), *q = map_at(NULL, BYTES), *first;

	init("unprotected", "");
	CHECK(VELOC_Mem_protect(1, p, WORDS, sizeof(*p)) == VELOC_SUCCESS);
	CHECK(VELOC_Mem_protect(2, q, WORDS, sizeof(*q)) == VELOC_SUCCESS);
	fill(p, 1);
	fill(q, 2);
	first = copy_of(p, BYTES);
	take("a", 1);
	take("b", 1);
	CHECK(VELOC_Mem_unprotect(1) == VELOC_SUCCESS);
	munmap(p, BYTES);
	change_few(q, 3);
	take("a", 2);
	take("b", 2);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	CHECK(VELOC_Restart_begin("b", 2) == VELOC_SUCCESS);
	CHECK(VELOC_Recover_size(1) == 0 && VELOC_Recover_size(2) == (int)BYTES);
	CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
	stored_is("a", 2, 2, q, BYTES);
	stored_is("a", 1, 1, first, BYTES);
	stored_is("b", 1, 1, first, BYTES);
	finalize();
	free(first);
	munmap(q, BYTES);
}

int main(int argc, char **argv)
{
	program_begin(argc, argv);
	test_dense();
	test_two_names();
	test_two_groups();
	test_selections();
	test_replaced(true);
	test_replaced(false);
	test_discarded();
	test_moved();
	test_resized();
	test_unprotected();
	program_end();
	return 0;
}
