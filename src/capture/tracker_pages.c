/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture/tracker.h"

#include <stdlib.h>
#include <unistd.h>

size_t kedge__page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

bool kedge__pages_list_add(struct kedge__pages_list *list, uintptr_t begin, uintptr_t end)
{
	if (list->count && list->at[list->count - 1].end == begin) {
		list->at[list->count - 1].end = end;
		return true;
	}
	return kedge__array_push(list, ((struct kedge__pages){begin, end}));
}

static int pages_compare(const void *a, const void *b)
{
	const struct kedge__pages *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

void kedge__pages_list_sort(struct kedge__pages_list *list)
{
	size_t kept = 0;

	if (!list->count)
		return;
	qsort(list->at, list->count, sizeof(*list->at), pages_compare);
	for (size_t i = 1; i < list->count; i++) {
		if (list->at[i].begin <= list->at[kept].end)
			list->at[kept].end = KEDGE__MAX(list->at[kept].end, list->at[i].end);
		else
			list->at[++kept] = list->at[i];
	}
	list->count = kept + 1;
}

size_t kedge__pages_list_find(const struct kedge__pages_list *list, uintptr_t address)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, list->count, list->at[i].end <= address);
	return i;
}
