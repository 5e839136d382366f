/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture/tracker.h"
#include "capture/tracker_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "begin-end rwxp offset major:minor inode  path" */
static bool mapping_parse(const char *line, struct kedge__mapping *m)
{
	unsigned long begin, end, inode;
	char mode[5];
	int path = 0;

	if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu %n", &begin, &end, mode, &inode, &path) != 4)
		return false;
	*m = (struct kedge__mapping){begin,          end,
				     mode[0] == 'r', mode[1] == 'w',
				     mode[2] == 'x', mode[3] == 's',
				     inode != 0,     path && strncmp(line + path, "[stack", 6) == 0};
	return true;
}

int kedge__mappings_load(struct kedge__mapping_list *list, struct kedge__error *err)
{
	FILE *file = fopen("/proc/self/maps", "re");
	size_t room = 0;
	char *line = NULL;
	int rc = 0;

	if (!file)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot open /proc/self/maps");
	list->count = 0;
	while (rc == 0 && getline(&line, &room, file) > 0) {
		struct kedge__mapping m;

		if (!mapping_parse(line, &m))
			rc = kedge__error_set(err, KEDGE_E_STATE, 0, "cannot read /proc/self/maps: %s", line);
		else if (!kedge__array_push(list, m))
			rc = kedge__error_nomem(err);
	}
	if (rc == 0 && ferror(file))
		rc = kedge__error_set(err, KEDGE_E_STATE, errno, "cannot read /proc/self/maps");
	free(line);
	fclose(file);
	return rc;
}

const struct kedge__mapping *kedge__mappings_find(const struct kedge__mapping_list *list, uintptr_t address)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, list->count, list->at[i].end <= address);
	return i < list->count ? &list->at[i] : NULL;
}

static enum kedge__backing backing_of(const struct kedge__mapping *m)
{
	if (!m->read || !m->write)
		return KEDGE__BACKING_NONE;
	if (m->shared)
		return KEDGE__BACKING_SHARED;
	return m->file ? KEDGE__BACKING_PRIVATE_FILE : KEDGE__BACKING_ANONYMOUS;
}

/* Where kinds meet in one area, the one that asks for most evidence holds; shared and private ones do not mix. */
static enum kedge__backing backing_join(enum kedge__backing a, enum kedge__backing b)
{
	if (a == b)
		return a;
	if (a == KEDGE__BACKING_SHARED || b == KEDGE__BACKING_SHARED || a == KEDGE__BACKING_NONE ||
	    b == KEDGE__BACKING_NONE)
		return KEDGE__BACKING_NONE;
	return KEDGE__BACKING_PRIVATE_FILE;
}

enum kedge__backing kedge__mappings_backing(const struct kedge__mapping_list *list, uintptr_t begin, uintptr_t end)
{
	const struct kedge__mapping *m = kedge__mappings_find(list, begin), *last = list->at + list->count;
	enum kedge__backing backing;

	if (!m || m->begin > begin)
		return KEDGE__BACKING_NONE;
	backing = backing_of(m);
	while (m->end < end) {
		m++;
		if (m == last || m->begin != m[-1].end)
			return KEDGE__BACKING_NONE;
		backing = backing_join(backing, backing_of(m));
	}
	return backing;
}

size_t kedge__mapping_page_size(uintptr_t address)
{
	struct kedge__procmap_query query = {.size = sizeof(query), .query_addr = address};
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t bytes = kedge__page_size();

	if (fd < 0)
		return bytes;
	if (ioctl(fd, KEDGE__PROCMAP_QUERY, &query) == 0 && query.vma_page_size > bytes)
		bytes = query.vma_page_size;
	close(fd);
	return bytes;
}
