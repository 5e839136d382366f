/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request: what somebody outside wants of a running job, as a file of one line that the job looks for. It is written
 * aside and renamed, so that a reader sees all of it or nothing; it is not synced, because it means nothing to a job
 * that starts after a crash of the machine.
 */
#include "store/internal.h"

#include <stdio.h>

#define REQUEST_MAX 512
#define START       "kedge-request 1 "

static const char *const kinds[] = {"none", "checkpoint", "exit"};

const char *kedge__request_kind(enum kedge__request_kind kind)
{
	return kinds[kind];
}

char *kedge__request_path(const char *store, const char *name)
{
	return kedge__asprintf("%s/%s/" KEDGE__RECORD_START "-request", store, name);
}

static void line_clean(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = '?';
	}
}

int kedge__request_write(const char *path, const struct kedge__request *r, struct kedge__error *err)
{
	char why[KEDGE__REQUEST_WHY], text[REQUEST_MAX];
	bool renamed;
	int n;

	snprintf(why, sizeof(why), "%s", r->why);
	line_clean(why);
	n = snprintf(text, sizeof(text), START "%s %" PRIu64 " %s\n", kinds[r->kind], r->ns, why);
	return kedge__file_replace(NULL, path, text, (size_t)n, false, &renamed, err);
}

static bool parse(char *text, struct kedge__request *r)
{
	struct kedge__request got = {.kind = KEDGE__REQUEST_NONE};
	char kind[16], *end = strchr(text, '\n');
	int used = 0;

	if (!end || strncmp(text, START, strlen(START)) != 0)
		return false;
	*end = '\0';
	line_clean(text);
	text += strlen(START);
	if (sscanf(text, "%15s %" SCNu64 "%n", kind, &got.ns, &used) != 2 || !used)
		return false;
	for (int i = KEDGE__REQUEST_CHECKPOINT; i <= KEDGE__REQUEST_EXIT; i++) {
		if (strcmp(kind, kinds[i]) == 0)
			got.kind = (enum kedge__request_kind)i;
	}
	snprintf(got.why, sizeof(got.why), "%s", text[used] == ' ' ? text + used + 1 : "");
	if (got.kind == KEDGE__REQUEST_NONE)
		return false;
	*r = got;
	return true;
}

bool kedge__request_read(const char *path, struct kedge__request *r)
{
	char text[REQUEST_MAX + 1];
	uint64_t bytes;
	bool good;
	int fd;

	if (kedge__fs_open_read(path, &fd, NULL))
		return false;
	good = kedge__fs_size(fd, &bytes, path, NULL) == 0 && bytes <= REQUEST_MAX &&
	       kedge__fs_pread(fd, text, (size_t)bytes, 0, path, NULL) == 0;
	kedge__fs_close(fd);
	if (!good)
		return false;
	text[bytes] = '\0';
	return parse(text, r);
}

void kedge__request_remove(const char *path, uint64_t ns)
{
	struct kedge__request there;

	if (kedge__request_read(path, &there) && there.ns == ns)
		(void)kedge__fs_unlink(path, NULL);
}
