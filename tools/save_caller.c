/* SPDX-License-Identifier: BSD-3-Clause */
/* save_caller: a list of files that somebody splits makes several versions, each with a part of it. */
#include "save_files.h"
#include <stdlib.h>
#include <unistd.h>

static bool read_text(const char *path, char *text, size_t room)
{
	FILE *in = fopen(path, "re");
	size_t n = in ? fread(text, 1, room - 1, in) : 0;

	text[n] = '\0';
	if (in)
		fclose(in);
	return n > 0;
}

/* The 22nd number of `stat` is when the process began; its name, in parentheses, may have anything in it. */
static const char *start_of(char *stat)
{
	char *at = strrchr(stat, ')');

	for (int i = 2; at && i < 22; i++)
		at = strchr(at + 1, ' ');
	if (at)
		at[1 + strcspn(at + 1, " ")] = '\0';
	return at ? at + 1 : "";
}

uint64_t kedge__caller(void)
{
	static const char *const splits[] = {"xargs\n", "find\n", "parallel\n"};
	char path[64], name[64], stat[1024], boot[64], key[1200];
	bool known = false;

	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)getppid());
	if (!read_text(path, name, sizeof(name)))
		return 0;
	for (size_t i = 0; i < KEDGE__COUNT(splits); i++)
		known = known || strcmp(name, splits[i]) == 0;
	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)getppid());
	if (!known || !read_text(path, stat, sizeof(stat)))
		return 0;
	read_text("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	snprintf(key, sizeof(key), "%s %ld %s", boot, (long)getppid(), start_of(stat));
	return kedge__checksum(key, strlen(key));
}
