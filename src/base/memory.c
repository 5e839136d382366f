/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"
#include "base/fault.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* From here up the kernel can back a buffer with huge pages. */
#define HUGE_PAGE ((size_t)2 << 20)

/* P was just allocated, in place of BEFORE bytes. */
static void *counted(void *p, size_t before)
{
	if (p && kedge__fault_counts_bytes())
		kedge__fault_count_bytes((int64_t)malloc_usable_size(p) - (int64_t)before);
	return p;
}

void *kedge__malloc(size_t n)
{
	if (kedge__fault_alloc(n))
		return NULL;
	return counted(malloc(n ? n : 1), 0);
}

void *kedge__calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || kedge__fault_alloc(bytes))
		return NULL;
	return counted(calloc(n ? n : 1, size ? size : 1), 0);
}

/* A size of zero never frees: what comes back is always the caller's to free. */
void *kedge__realloc(void *p, size_t n)
{
	size_t before = p && kedge__fault_counts_bytes() ? malloc_usable_size(p) : 0;

	if (kedge__fault_alloc(n > before ? n - before : 0))
		return NULL;
	return counted(realloc(p, n ? n : 1), before);
}

void *kedge__reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	return kedge__realloc(p, bytes);
}

void kedge__free(void *p)
{
	if (p && kedge__fault_counts_bytes())
		kedge__fault_count_bytes(-(int64_t)malloc_usable_size(p));
	free(p);
}

void kedge_free(void *p)
{
	kedge__free(p);
}

char *kedge__strdup(const char *s)
{
	size_t bytes = strlen(s) + 1;
	char *copy = kedge__malloc(bytes);

	return copy ? memcpy(copy, s, bytes) : NULL;
}

char *kedge__vasprintf(const char *fmt, va_list args)
{
	va_list again;
	char *text;
	int length;

	va_copy(again, args);
	length = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (length < 0)
		return NULL;
	text = kedge__malloc((size_t)length + 1);
	if (text)
		vsnprintf(text, (size_t)length + 1, fmt, args);
	return text;
}

char *kedge__asprintf(const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = kedge__vasprintf(fmt, args);
	va_end(args);
	return text;
}

bool kedge__memory_is_there(const void *p)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char there = 0;

	return mincore((void *)((uintptr_t)p & ~(page - 1)), 1, &there) == 0 && (there & 1);
}

bool kedge__memory_is_zero(const void *p, size_t n)
{
	const uint8_t *at = p;

	return n == 0 || (at[0] == 0 && memcmp(at, at + 1, n - 1) == 0);
}

void kedge__memory_clear(void *p, size_t n)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p;
	uintptr_t from = (at + page - 1) & ~(page - 1), to = (at + n) & ~(page - 1);

	if (from >= to || madvise((void *)from, to - from, MADV_REMOVE) != 0) {
		memset(p, 0, n);
		return;
	}
	memset(p, 0, from - at);
	memset((void *)to, 0, at + n - to);
}

void *kedge__map_alloc(size_t n)
{
	void *p;

	if (kedge__fault_alloc(n))
		return NULL;
	p = mmap(NULL, n ? n : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (kedge__fault_counts_bytes())
		kedge__fault_count_bytes((int64_t)n);
	/* A hint: a kernel without huge pages says no, and nothing is lost. */
	if (n >= HUGE_PAGE)
		(void)madvise(p, n, MADV_HUGEPAGE);
	return p;
}

#ifdef __SANITIZE_THREAD__
/* The sanitizer does not see mremap(2), and takes whoever gets the old addresses next for a competitor. */
static void *remap(void *p, size_t n, size_t wanted)
{
	void *grown = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (grown == MAP_FAILED)
		return grown;
	memcpy(grown, p, KEDGE__MIN(n, wanted));
	munmap(p, n);
	return grown;
}
#else
static void *remap(void *p, size_t n, size_t wanted)
{
	return mremap(p, n, wanted, MREMAP_MAYMOVE);
}
#endif

void *kedge__map_grow(void *p, size_t n, size_t wanted)
{
	void *grown;

	if (kedge__fault_alloc(wanted > n ? wanted - n : 0))
		return NULL;
	grown = remap(p, n ? n : 1, wanted);
	if (grown == MAP_FAILED)
		return NULL;
	if (kedge__fault_counts_bytes())
		kedge__fault_count_bytes((int64_t)wanted - (int64_t)n);
	if (wanted >= HUGE_PAGE)
		(void)madvise(grown, wanted, MADV_HUGEPAGE);
	return grown;
}

void kedge__map_free(void *p, size_t n)
{
	if (!p)
		return;
	if (kedge__fault_counts_bytes())
		kedge__fault_count_bytes(-(int64_t)n);
	munmap(p, n ? n : 1);
}

/* Large pages, as far as there are whole ones. */
static void advise_large(void *p, size_t bytes)
{
	uintptr_t start = ((uintptr_t)p + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, end = (uintptr_t)p + bytes;

	if (bytes >= 2 * HUGE_PAGE)
		(void)madvise((void *)start, end - start, MADV_HUGEPAGE);
}

bool kedge__array_grow(void **at, size_t *room, size_t need, size_t size)
{
	size_t wanted = *room > SIZE_MAX / 2 ? SIZE_MAX : *room * 2;
	void *grown;

	if (need <= *room)
		return true;
	wanted = KEDGE__MAX(KEDGE__MAX(wanted, need), 8);
	grown = kedge__reallocarray(*at, wanted, size);
	if (!grown)
		return false;
	advise_large(grown, wanted * size);
	*at = grown;
	*room = wanted;
	return true;
}
