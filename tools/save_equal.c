/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * save_equal: files that keep data packed, on their way into a version, with it unpacked. Whatever is against it, a
 * file that stays as it is is always right; nothing here fails a version but a lack of memory.
 */
#include "equal/equal.h"
#include "save_files.h"
#include "tool_files.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define EXPLAINED   8   /* notes at most */
#define FILES_SPARE 256 /* descriptors that are left to others */
#define SECOND_NS   INT64_C(1000000000)

struct source { /* a file's bytes: in memory, or open */
	const uint8_t *data;
	int fd;
	const char *path;
};

struct unpack {
	struct kedge__save_set *set;
	struct kedge__pool *pool;
	int fd;      /* an empty temporary file; -1: none yet */
	size_t open; /* files that copies have open */
	size_t most;
	size_t explained;
};

static int source_read(void *ctx, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	const struct source *s = ctx;

	if (!s->data)
		return kedge__fs_pread(s->fd, to, bytes, offset, s->path, err);
	memcpy(to, s->data + offset, bytes);
	return 0;
}

static bool is_unchanged(int fd, const struct kedge__found *f)
{
	struct stat now;

	return fstat(fd, &now) == 0 && S_ISREG(now.st_mode) && now.st_ino == f->entry.inode &&
	       now.st_dev == f->device && (uint64_t)now.st_size == f->entry.size &&
	       (int64_t)now.st_mtim.tv_sec * SECOND_NS + now.st_mtim.tv_nsec == f->entry.mtime_ns;
}

static void explain(struct unpack *u, const struct kedge__found *f, const char *why)
{
	if (u->set->explain && u->explained++ < EXPLAINED)
		kedge__tool_say(u->set->walk.command, "note: %s stays as it is: %s", f->path, why);
}

/* The plain form, which is in u->fd, takes the place of what the file has. */
static int take(struct unpack *u, struct kedge__found *f, uint64_t bytes, struct kedge__error *err)
{
	uint8_t *held = kedge__save_set_hold(u->set, bytes);
	int rc = 0;

	if (held) {
		rc = kedge__fs_pread(u->fd, held, (size_t)bytes, 0, "a temporary copy", err);
		if (!rc)
			rc = kedge__fs_truncate(u->fd, 0, "a temporary copy", err);
	}
	if (rc)
		return rc;
	kedge__fs_close(f->fd);
	f->data = held;
	f->fd = held ? -1 : u->fd;
	u->fd = held ? u->fd : -1;
	u->open += !held;
	f->plain_bytes = bytes;
	f->large = !held;
	f->entry.flags |= KEDGE__TREE_PLAIN;
	return 0;
}

static int unpack_from(struct unpack *u, struct kedge__found *f, struct source *from, struct kedge__error *err)
{
	const struct kedge__contents contents = {f->entry.size, source_read, from};
	struct kedge__plain_made made = {0};
	int rc = u->fd < 0 ? kedge__temporary_file(&u->fd, err) : 0;

	if (!rc)
		rc = kedge__plain_make(&contents, u->fd, "a temporary copy", u->pool, &made, err);
	if (!rc && made.answer == KEDGE__PLAIN_MADE && (from->data || f->fd >= 0 || is_unchanged(from->fd, f)))
		return take(u, f, made.bytes, err);
	if (!rc && made.answer > KEDGE__PLAIN_NOTHING)
		explain(u, f, kedge__plain_answer_text(made.answer));
	if (u->fd >= 0) {
		kedge__fs_close(u->fd);
		u->fd = -1;
	}
	return rc;
}

/* The signature of HDF5 is at the beginning, or at a power of two from 512 on. */
static bool may_be_hdf5(const struct kedge__found *f, struct source *from)
{
	static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
	uint8_t text[8];

	for (uint64_t at = 0; at <= 4096 && at + 8 <= f->entry.size; at = at ? at * 2 : 512)
		if (source_read(from, at, text, sizeof(text), NULL) == 0 && memcmp(text, signature, 8) == 0)
			return true;
	return false;
}

static int unpack_one(struct unpack *u, struct kedge__found *f, struct kedge__error *err)
{
	struct source from = {.data = f->data, .fd = f->fd, .path = f->path};
	int opened = -1, rc = 0;

	if (!from.data && from.fd < 0)
		from.fd = opened = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
	if (!from.data && (from.fd < 0 || (opened >= 0 && !is_unchanged(from.fd, f))))
		goto out;
	if (!may_be_hdf5(f, &from))
		goto out;
	if (u->open >= u->most)
		explain(u, f, "there are too many files for the limit on open files");
	else
		rc = unpack_from(u, f, &from, err);
out:
	kedge__fs_close(opened);
	return rc;
}

static size_t most_open(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 2 * FILES_SPARE)
		return 0;
	return (size_t)KEDGE__MIN(limit.rlim_cur - FILES_SPARE, (rlim_t)1 << 20);
}

int kedge__save_set_unpack(struct kedge__save_set *s, struct kedge__pool *pool, struct kedge__error *err)
{
	struct unpack u = {.set = s, .pool = pool, .fd = -1, .most = most_open()};
	int rc = 0;

	for (size_t i = 0; s->equal && !rc && i < s->walk.found.count; i++) {
		struct kedge__found *f = &s->walk.found.at[i];

		if (f->entry.kind != KEDGE__TREE_FILE || f->same || !f->entry.size)
			continue;
		rc = unpack_one(&u, f, err);
		if (rc && rc != KEDGE_E_NOMEM) {
			explain(&u, f, kedge__error_text(err));
			kedge__error_done(err);
			*err = (struct kedge__error)KEDGE__ERROR_INIT;
			rc = 0;
		}
	}
	kedge__fs_close(u.fd);
	if (u.explained > EXPLAINED)
		kedge__tool_say(s->walk.command, "note: %zu other files stay as they are, too",
				u.explained - EXPLAINED);
	return rc;
}
