/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool_journal.h"

#include <math.h>
#include <sys/stat.h>

#define LINE_MAX_BYTES (UINT64_C(1) << 22) /* no event is longer */
#define PIECE          ((size_t)1 << 20)

/* ------------------------------------------------------------------ members */

uint64_t kedge__event_uint(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? (uint64_t)n : 0;
}

double kedge__event_real(const json_t *o, const char *key)
{
	double x = json_number_value(json_object_get(o, key));

	return isfinite(x) ? x : 0;
}

const char *kedge__event_text(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

uint64_t kedge__event_version(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t)json_integer_value(v) : KEDGE__NO_VERSION;
}

bool kedge__event_is(const json_t *o, const char *event)
{
	return strcmp(kedge__event_text(o, "event"), event) == 0;
}

/* ------------------------------------------------------------------ lines */

/* "checkpoint 7 ...", "open NAME STORE" */
static bool is_old(const char *line, size_t length)
{
	static const char *const words[] = {"open ", "restart ", "checkpoint "};

	for (size_t i = 0; i < KEDGE__COUNT(words); i++)
		if (length > strlen(words[i]) && strncmp(line, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

static int line_take(struct kedge__journal_reader *r, const char *line, size_t length, kedge__journal_each *each,
		     void *ctx, struct kedge__error *err)
{
	json_t *o = json_loadb(line, length, 0, NULL);
	int rc = 0;

	if (o && kedge__event_text(o, "event") && kedge__event_text(o, "name"))
		rc = each(ctx, o, err);
	else if (length)
		r->passed++;
	r->old = r->old || (!o && is_old(line, length));
	json_decref(o);
	return rc;
}

/* The whole lines of TEXT; *USED: their bytes. */
static int lines_take(struct kedge__journal_reader *r, const char *text, size_t bytes, size_t *used,
		      kedge__journal_each *each, void *ctx, struct kedge__error *err)
{
	const char *end;
	int rc = 0;

	*used = 0;
	while (!rc && (end = memchr(text + *used, '\n', bytes - *used))) {
		rc = line_take(r, text + *used, (size_t)(end - text) - *used, each, ctx, err);
		*used = (size_t)(end - text) + 1;
	}
	return rc;
}

static int file_read(struct kedge__journal_reader *r, int fd, uint64_t bytes, const char *path,
		     kedge__journal_each *each, void *ctx, struct kedge__error *err)
{
	size_t room = PIECE, used;
	char *text = kedge__malloc(room);
	int rc = text ? 0 : kedge__error_nomem(err);

	while (!rc && r->offset < bytes) {
		size_t n = (size_t)KEDGE__MIN(bytes - r->offset, (uint64_t)room);

		rc = kedge__fs_pread(fd, text, n, r->offset, path, err);
		if (!rc)
			rc = lines_take(r, text, n, &used, each, ctx, err);
		if (rc)
			break;
		r->offset += used;
		if (used)
			continue;
		if (r->offset + n == bytes)
			break; /* a line without an end */
		if (room >= LINE_MAX_BYTES) {
			rc = kedge__error_set(err, KEDGE_E_FORMAT, 0, "%s is not a journal: it has no lines", path);
			break;
		}
		kedge__free(text);
		text = kedge__malloc(room *= 2);
		rc = text ? 0 : kedge__error_nomem(err);
	}
	kedge__free(text);
	return rc;
}

int kedge__journal_read(struct kedge__journal_reader *r, const char *path, kedge__journal_each *each, void *ctx,
			struct kedge__error *err)
{
	struct stat st;
	uint64_t bytes;
	int fd, rc = kedge__fs_open_read(path, &fd, err);

	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &bytes, path, err);
	if (!rc && fstat(fd, &st) == 0 && ((uint64_t)st.st_ino != r->inode || bytes < r->offset)) {
		r->inode = (uint64_t)st.st_ino;
		r->offset = 0;
	}
	if (!rc)
		rc = file_read(r, fd, bytes, path, each, ctx, err);
	kedge__fs_close(fd);
	return rc;
}

int kedge__journal_end(struct kedge__journal_reader *r, int fd, const char *path, struct kedge__error *err)
{
	struct stat st;
	uint64_t bytes;
	int rc = kedge__fs_size(fd, &bytes, path, err);

	if (rc || fstat(fd, &st) != 0)
		return rc;
	r->offset = bytes;
	r->inode = (uint64_t)st.st_ino;
	return 0;
}

int kedge__journal_read_all(const char *path, struct kedge__journal_reader *r, kedge__journal_each *each, void *ctx,
			    struct kedge__error *err)
{
	char *old = kedge__asprintf("%s.1", path);
	int rc = 0;

	if (!old)
		kedge__tool_no_memory();
	if (kedge__fs_exists(old))
		rc = kedge__journal_read(r, old, each, ctx, err);
	kedge__free(old);
	return rc ? rc : kedge__journal_read(r, path, each, ctx, err);
}
