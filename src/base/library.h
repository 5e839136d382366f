/* SPDX-License-Identifier: BSD-3-Clause */
/* library: functions of shared libraries that are opened when they are needed, and not before. */
#ifndef KEDGE_BASE_LIBRARY_H
#define KEDGE_BASE_LIBRARY_H

#include <stddef.h>

struct kedge__library_call {
	const char *name;
	void *to; /* the function pointer that gets its address */
};

/* Look up CALLS in a LIBRARY that dlopen() has opened. NULL: it has all of them; else the first that it lacks. */
const char *kedge__library_find(void *library, const struct kedge__library_call *calls, size_t n);

#endif
