/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that write to memory they have pinned, which no page table tells. That one is there does not mean that the
 * program uses it; that none is there means that it cannot.
 */
#include "capture/capture.h"

#include <dirent.h>
#include <stdio.h>

static const struct {
	const char *dir, *prefix;
} places[] = {
    {"/sys/class/infiniband", ""}, /* InfiniBand, RoCE, Omni-Path, EFA */
    {"/sys/class/cxi", ""},        /* Slingshot */
    {"/dev", "nvidia"},
    {"/dev", "kfd"},
    {"/dev", "xpmem"}, /* other processes write to memory of this one, through mappings of their own */
    {"/dev/accel", "accel"},
    {"/dev/dri", "renderD"},
    {"/dev/dsa", ""},
    {"/dev/vfio", ""},
};

static bool entry_find(const char *dir, const char *prefix, char *path, size_t room)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	bool found = false;

	if (!d)
		return false;
	while (!found && (e = readdir(d)) != NULL) {
		/* A container for groups of devices; without one it does nothing. */
		if (e->d_name[0] == '.' || strcmp(e->d_name, "vfio") == 0)
			continue;
		found = strncmp(e->d_name, prefix, strlen(prefix)) == 0;
		if (found)
			snprintf(path, room, "%s/%s", dir, e->d_name);
	}
	closedir(d);
	return found;
}

bool kedge__device_find(const char *root, char *path, size_t room)
{
	char dir[4200];

	for (size_t i = 0; i < KEDGE__COUNT(places); i++) {
		snprintf(dir, sizeof(dir), "%s%s", root, places[i].dir);
		if (entry_find(dir, places[i].prefix, path, room))
			return true;
	}
	return false;
}
