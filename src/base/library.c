/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

const char *kedge__library_find(void *library, const struct kedge__library_call *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		void *f = dlsym(library, calls[i].name);

		if (!f)
			return calls[i].name;
		memcpy(calls[i].to, &f, sizeof(f)); /* it has the representation of the function's address */
	}
	return NULL;
}
