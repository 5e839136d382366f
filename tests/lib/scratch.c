/* SPDX-License-Identifier: BSD-3-Clause */
#include "scratch.h"

#include "files.h"

#include <string.h>
#include <unistd.h>

#define SCRATCH_MOST 64

/* Made and removed by one thread. */
static struct {
	char path[FILES_PATH]; /* empty: free */
	pid_t owner;
} made[SCRATCH_MOST];

static void remove_all(void)
{
	for (size_t i = 0; i < SCRATCH_MOST; i++)
		if (made[i].path[0] && made[i].owner == getpid())
			(void)tree_remove(made[i].path);
}

static void scratch_note(const char *path)
{
	static bool registered; /* in children, too */
	size_t i = 0;

	REQUIRE(registered || atexit(remove_all) == 0);
	registered = true;
	while (i < SCRATCH_MOST && made[i].path[0])
		i++;
	REQUIRE(i < SCRATCH_MOST);
	path_make(made[i].path, "%s", path);
	made[i].owner = getpid();
}

static void make_under(const char *parent, char *out, size_t room, const char *what)
{
	const char *tmp = getenv("TMPDIR");

	text_make(out, room, "%s/kedge-%s-XXXXXX", tmp && tmp[0] ? tmp : parent, what);
	REQUIRE(mkdtemp(out));
	scratch_note(out);
}

void scratch_make(char *out, size_t room, const char *what)
{
	make_under(access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp", out, room, what);
}

void scratch_make_on_disk(char *out, size_t room, const char *what)
{
	make_under("/tmp", out, room, what);
}

void scratch_keep(const char *dir)
{
	for (size_t i = 0; i < SCRATCH_MOST; i++)
		if (strcmp(made[i].path, dir) == 0)
			made[i].path[0] = '\0';
}

int scratch_remove(const char *dir)
{
	scratch_keep(dir);
	return tree_remove(dir);
}
