/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_picture: a picture gets its name when it is complete: a reader never sees half of one. */
#include "tool.h"
#include <stdlib.h>
#include <unistd.h>

static int write_replacing(const char *path, const char *text, size_t bytes, struct kedge__error *err)
{
	char *temporary = kedge__asprintf("%s.kedge-%ld.tmp", path, (long)getpid());
	int fd, rc = temporary ? kedge__fs_create_public(temporary, &fd, err) : kedge__error_nomem(err);

	if (rc == 0) {
		rc = kedge__fs_write(fd, text, bytes, temporary, err);
		kedge__fs_close(fd);
		if (rc == 0)
			rc = kedge__fs_rename(temporary, path, err);
		if (rc)
			kedge__fs_unlink(temporary, NULL);
	}
	kedge__free(temporary);
	return rc;
}

int kedge__tool_picture(const char *path, void (*draw)(FILE *out, const void *what), const void *what,
			struct kedge__error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int rc;

	if (!out)
		return kedge__error_nomem(err);
	draw(out, what);
	rc = fclose(out) != 0 ? kedge__error_nomem(err) : write_replacing(path, text, bytes, err);
	free(text);
	/* A missing folder is a matter of output here, not of a store. */
	if (rc == KEDGE_E_MISSING)
		rc = err->code = KEDGE_E_IO;
	return rc;
}
