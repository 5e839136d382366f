/*
 * What orders these reads before the application's writes is the protection of the pages, which a thread sanitizer
 * cannot see: under one, they are done word by word in functions that it leaves alone.
 */
#include "capture/cow_copy.h"

#if defined(__SANITIZE_THREAD__)

__attribute__((no_sanitize_thread)) void kedge__cow_copy(void *to, const void *from, size_t bytes)
{
	volatile uint64_t *t = to;
	const volatile uint64_t *f = from;

	for (size_t i = 0; i < bytes / 8; i++)
		t[i] = f[i];
}

__attribute__((no_sanitize_thread)) bool kedge__cow_equal(const void *a, const void *b, size_t bytes)
{
	const volatile uint64_t *x = a, *y = b;
	size_t i = 0;

	while (i < bytes / 8 && x[i] == y[i])
		i++;
	return i == bytes / 8;
}

#else

void kedge__cow_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

bool kedge__cow_equal(const void *a, const void *b, size_t bytes)
{
	return memcmp(a, b, bytes) == 0;
}

#endif
