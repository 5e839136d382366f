/* SPDX-License-Identifier: BSD-3-Clause */
/* restore_metadata: owner, mode, attributes and time of a file. */
#include "restore.h"
#include <errno.h>
#include <unistd.h>

/* What is refused is said and counted; anything else, as a full disk, is a failure. */
static int refused(int rc, const char *what, struct kedge__notes *notes, struct kedge__error *err)
{
	bool only_said = err->sys_errno == EPERM || err->sys_errno == EACCES || err->sys_errno == EOPNOTSUPP ||
			 err->sys_errno == EINVAL;

	if (!rc || !only_said)
		return rc;
	if (notes->count++ < 8)
		kedge__tool_say(notes->command, "note: %s was not restored: %s", what, kedge__error_text(err));
	kedge__error_done(err);
	*err = (struct kedge__error)KEDGE__ERROR_INIT;
	return 0;
}

static int set_attributes(const char *path, const struct kedge__tree_entry *e, struct kedge__notes *notes,
			  struct kedge__error *err)
{
	const uint8_t *at = e->xattrs, *end = at + e->xattr_bytes;
	int rc = 0;

	while (!rc && at < end) {
		size_t n = kedge__get16(at), m = kedge__get32(at + 2);
		char name[UINT16_MAX + 1];

		memcpy(name, at + 6, n);
		name[n] = '\0';
		rc = refused(kedge__fs_set_xattr(path, name, at + 6 + n, m, err), name, notes, err);
		at += 6 + n + m;
	}
	return rc;
}

/* Without its owner, nobody else may become that user or group by running it. */
static unsigned mode_of(const struct kedge__tree_entry *e)
{
	bool owned = geteuid() == 0 || (e->uid == geteuid() && e->gid == getegid());

	return owned ? e->mode : e->mode & 01777;
}

int kedge__metadata_set(int fd, const char *path, const struct kedge__tree_entry *e, struct kedge__notes *notes,
			struct kedge__error *err)
{
	int rc = 0;

	if (geteuid() == 0)
		rc = refused(kedge__fs_set_owner(fd, path, e->uid, e->gid, err), "an owner", notes, err);
	if (!rc)
		rc = set_attributes(path, e, notes, err);
	if (!rc && e->kind != KEDGE__TREE_SYMLINK)
		rc = fd < 0 ? kedge__fs_set_path_mode(path, mode_of(e), err)
			    : kedge__fs_set_mode(fd, mode_of(e), path, err);
	if (!rc)
		rc = refused(kedge__fs_set_mtime(fd, path, e->mtime_ns, err), "a time", notes, err);
	return rc;
}
