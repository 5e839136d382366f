/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * save_files: a file that has the size, times and inode that it had in the version before is the same, as other tools
 * have it, and not read. Small ones are read once, before the checkpoint, so that any number of them costs three system
 * calls each, and one that changes does no harm. Large ones are read by the checkpoint itself.
 */
#include "save_files.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SMALL       (UINT64_C(256) << 10) /* bytes of a file */
#define HELD_MAX    (UINT64_C(256) << 20)
#define BLOCK_BYTES ((size_t)4 << 20)
#define RACY_NS     INT64_C(50000000)   /* clocks of file systems are so coarse */
#define COARSE_NS   INT64_C(2000000000) /* those that only have seconds */
#define SECOND_NS   INT64_C(1000000000)
#define COPY_BYTES  ((size_t)1 << 20)

void kedge__save_set_begin(struct kedge__save_set *s, const char *command, bool quiet)
{
	s->walk.command = command;
	s->walk.quiet = quiet;
	s->began_ns = (int64_t)kedge__clock_wall_ns();
}

void kedge__save_set_done(struct kedge__save_set *s)
{
	kedge__walk_done(&s->walk);
	for (uint32_t i = 0; i < s->part_count; i++) {
		kedge__bytes_done(&s->parts[i].before);
		kedge__bytes_done(&s->parts[i].tree);
	}
	kedge__free(s->parts);
	kedge__grouping_free(s->grouping);
	for (size_t i = 0; i < s->blocks.count; i++)
		kedge__map_free(s->blocks.at[i], BLOCK_BYTES);
	kedge__array_done(&s->blocks);
}

/* The tree and the two regions of a page image need slots, too. */
int kedge__save_room(size_t files, struct kedge__error *err)
{
	const size_t most = KEDGE__SLOT_LIMIT - 3;

	if (files <= most)
		return 0;
	return kedge__error_set(err, KEDGE_E_LIMIT, 0,
				"there are %zu files, and a version has room for %zu: save directories under names of "
				"their own, leave some out with --exclude, or save them as one "
				"('tar c DIR | kedge save -n NAME -')",
				files, most);
}

int kedge__save_set_room(const struct kedge__save_set *s, struct kedge__error *err)
{
	size_t *files = kedge__calloc(s->part_count, sizeof(*files)), most = 0;

	if (!files)
		kedge__tool_no_memory();
	for (size_t i = 0; i < s->walk.found.count; i++)
		files[s->walk.found.at[i].part] += s->walk.found.at[i].entry.kind == KEDGE__TREE_FILE;
	for (uint32_t i = 0; i < s->part_count; i++)
		most = KEDGE__MAX(most, files[i]);
	kedge__free(files);
	return kedge__save_room(most, err);
}

/* ------------------------------------------------------------------ the version before */

/* The newest version with as many segments; another one has other files in them. */
static void find_before(const struct kedge__save_set *s, struct kedge__save_part *p,
			const struct kedge_version_info *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].ranks == s->part_count)
			p->before_version = list[i].version;
}

static int read_tree(const struct kedge__save_set *s, struct kedge__save_part *p, kedge_t *k, struct kedge__error *err)
{
	struct kedge_target target = {.name = KEDGE__TREE_REGION};
	struct kedge_version_info *list;
	struct kedge_region_info info;
	size_t n;

	if (kedge_versions(k, &list, &n) != 0)
		return 0;
	find_before(s, p, list, n);
	kedge_free(list);
	if (p->before_version == KEDGE__NO_VERSION ||
	    kedge_region_stat(k, p->before_version, KEDGE__TREE_REGION, &info) != 0)
		return 0;
	if (!kedge__array_reserve(&p->before, info.bytes))
		return kedge__error_nomem(err);
	target.ptr = p->before.at;
	target.room = info.bytes;
	if (kedge_read(k, p->before_version, &target, 1) == 0)
		p->before.count = info.bytes;
	return 0;
}

static bool is_same(const struct kedge__save_set *s, const struct kedge__tree_entry *was,
		    const struct kedge__tree_entry *is)
{
	if (was && was->flags & KEDGE__TREE_PLAIN && !s->equal)
		return false;
	return was && was->kind == KEDGE__TREE_FILE && is->kind == KEDGE__TREE_FILE && was->size == is->size &&
	       was->mtime_ns == is->mtime_ns && was->ctime_ns && was->ctime_ns == is->ctime_ns &&
	       was->inode == is->inode;
}

/* What changes attributes changes the time of the last change, too. */
static void take_attributes(struct kedge__tree_entry *to, const struct kedge__tree_entry *from)
{
	if (!from->xattr_bytes)
		return;
	to->xattrs = kedge__malloc(from->xattr_bytes);
	if (!to->xattrs)
		kedge__tool_no_memory();
	memcpy(to->xattrs, from->xattrs, from->xattr_bytes);
	to->xattr_bytes = from->xattr_bytes;
}

/* A region of the version before stays what it was: the file itself, or its plain form. */
static bool take_form(const struct kedge__save_part *p, kedge_t *k, struct kedge__found *f,
		      const struct kedge__tree_entry *was)
{
	struct kedge_region_info info;

	if (!(was->flags & KEDGE__TREE_PLAIN))
		return true;
	if (kedge_region_stat(k, p->before_version, f->entry.name, &info) != 0)
		return false;
	f->entry.flags |= KEDGE__TREE_PLAIN;
	f->plain_bytes = info.bytes;
	return true;
}

int kedge__save_set_compare(struct kedge__save_set *s, uint32_t part, kedge_t *k, bool force, struct kedge__error *err)
{
	struct kedge__save_part *p = &s->parts[part];
	struct kedge__tree before = {0};
	int rc = read_tree(s, p, k, err);

	/* A tree that cannot be read only costs time: everything is read then. */
	if (rc || !p->before.count || kedge__tree_decode(p->before.at, p->before.count, &before, NULL) != 0)
		return rc;
	p->before_caller = before.caller;
	for (size_t i = 0; !force && i < s->walk.found.count; i++) {
		struct kedge__found *f = &s->walk.found.at[i];
		const struct kedge__tree_entry *was = f->part == part ? kedge__tree_find(&before, f->entry.name) : NULL;

		if (f->part != part)
			continue;
		f->same = is_same(s, was, &f->entry) && take_form(p, k, f, was);
		if (f->same)
			take_attributes(&f->entry, was);
	}
	kedge__tree_done(&before);
	return 0;
}

/* ------------------------------------------------------------------ attributes */

/* One more of them, NAME. Those that cannot be read, or that nobody can set, are not kept. */
static void attribute_add(struct kedge__tree_entry *e, const char *path, const char *name)
{
	ssize_t n = lgetxattr(path, name, NULL, 0);
	size_t length = strlen(name), room;
	uint8_t *grown, *at;

	if (n < 0 || strncmp(name, "system.nfs4", 11) == 0)
		return;
	room = e->xattr_bytes + 6 + length + (size_t)n;
	grown = kedge__realloc(e->xattrs, room);
	if (!grown)
		kedge__tool_no_memory();
	e->xattrs = grown;
	at = grown + e->xattr_bytes;
	if (n && lgetxattr(path, name, at + 6 + length, (size_t)n) != n)
		return;
	kedge__put16(at, (uint16_t)length);
	kedge__put32(at + 2, (uint32_t)n);
	memcpy(at + 6, name, length);
	e->xattr_bytes = room;
}

static void read_attributes(struct kedge__found *f)
{
	char names[65536];
	ssize_t n = llistxattr(f->path, names, sizeof(names));

	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
		attribute_add(&f->entry, f->path, names + at);
}

/* ------------------------------------------------------------------ contents */

static uint8_t *hold(struct kedge__save_set *s, size_t bytes)
{
	uint8_t *block, *at;

	if (!s->blocks.count || BLOCK_BYTES - s->block_used < bytes) {
		block = kedge__map_alloc(BLOCK_BYTES); /* with large pages, where there are */
		if (!block || !kedge__array_push(&s->blocks, block))
			kedge__tool_no_memory();
		s->block_used = 0;
	}
	at = s->blocks.at[s->blocks.count - 1] + s->block_used;
	s->block_used += (bytes + 7) / 8 * 8; /* words of a region are where it expects them */
	s->held += bytes;
	return at;
}

uint8_t *kedge__save_set_hold(struct kedge__save_set *s, uint64_t bytes)
{
	return bytes > SMALL || s->held > HELD_MAX ? NULL : hold(s, (size_t)bytes);
}

static bool same_time(struct timespec t, int64_t ns)
{
	return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec == ns;
}

static void say_changed(struct kedge__save_set *s, const struct kedge__found *f)
{
	s->changed++;
	kedge__tool_say(s->walk.command, "%s changed while it was read: the version has it as it was read", f->path);
}

/* As many bytes as there are, up to those that it had. */
static ssize_t read_all(int fd, uint8_t *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = read(fd, to + done, bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* What reading a file came to. */
struct reading {
	struct kedge__found *f;
	uint8_t *to; /* for its bytes; NULL: only that it can be read is of interest */
	int failed;  /* errno; 0: it was read */
	bool opened, changed;
};

/* Its bytes are kept, and what they are counts, whatever becomes of the file. */
static int read_small(struct reading *r, int fd)
{
	struct kedge__found *f = r->f;
	ssize_t n = read_all(fd, r->to, f->entry.size);
	struct stat now;

	if (n < 0 || fstat(fd, &now) != 0)
		return -1;
	r->changed = (uint64_t)n != f->entry.size || !same_time(now.st_mtim, f->entry.mtime_ns);
	f->entry.size = (uint64_t)n;
	f->data = r->to;
	return 0;
}

/* False: it is not what was found, or cannot be read; errno says why. */
static bool read_file(struct reading *r)
{
	int fd = open(r->f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY), rc = 0, saved;
	struct stat st;

	r->opened = true;
	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || st.st_ino != r->f->entry.inode || st.st_dev != r->f->device) {
		kedge__fs_close(fd);
		errno = ENOENT;
		return false;
	}
	if (r->to)
		rc = read_small(r, fd);
	saved = errno;
	kedge__fs_close(fd);
	errno = saved;
	return rc == 0;
}

static int read_one(void *ctx, size_t i, int worker)
{
	struct reading *r = (struct reading *)ctx + i;

	(void)worker;
	read_attributes(r->f);
	if (r->f->entry.kind == KEDGE__TREE_FILE && !read_file(r))
		r->failed = errno;
	return 0;
}

/* Other names of a file that is left out: the first of them becomes the file. */
static void promote_links(struct kedge__save_set *s, const struct kedge__found *gone)
{
	struct kedge__found *first = NULL;

	for (size_t i = 0; i < s->walk.found.count; i++) {
		struct kedge__found *f = &s->walk.found.at[i];

		if (f->entry.kind != KEDGE__TREE_HARDLINK || strcmp(f->entry.target, gone->entry.name) != 0)
			continue;
		kedge__free(f->entry.target);
		f->entry.target = first ? kedge__strdup(first->entry.name) : NULL;
		if (first && !f->entry.target)
			kedge__tool_no_memory();
		if (!first) {
			first = f;
			f->entry.kind = KEDGE__TREE_FILE;
			f->entry.size = gone->entry.size;
			f->large = true;
		}
	}
}

/* Until sweep() it stays where it is. */
static void leave(struct kedge__save_set *s, struct kedge__found *f, const char *why)
{
	kedge__walk_leave(&s->walk, f->path, why);
	if (s->walk.hardlinks)
		promote_links(s, f);
	f->gone = true;
}

static void sweep(struct kedge__save_set *s)
{
	struct kedge__found *at = s->walk.found.at;
	size_t kept = 0;

	for (size_t i = 0; i < s->walk.found.count; i++) {
		if (at[i].gone)
			kedge__found_done(&at[i]);
		else
			at[kept++] = at[i];
	}
	s->walk.found.count = kept;
}

/* Where its bytes go, if they are kept. */
static void make_room(struct kedge__save_set *s, struct reading *r)
{
	struct kedge__found *f = r->f;

	f->large = f->entry.size > SMALL || s->held > HELD_MAX;
	if (!f->large && f->entry.size)
		r->to = hold(s, f->entry.size);
}

static size_t list_readings(struct kedge__save_set *s, struct reading *list)
{
	size_t n = 0;

	for (size_t i = 0; i < s->walk.found.count; i++) {
		struct kedge__found *f = &s->walk.found.at[i];

		if (f->same || f->fd >= 0)
			continue;
		list[n] = (struct reading){.f = f};
		if (f->entry.kind == KEDGE__TREE_FILE)
			make_room(s, &list[n]);
		n++;
	}
	return n;
}

static int take_reading(struct kedge__save_set *s, struct reading *r, struct kedge__error *err)
{
	/* The other name of a file that was left out has become the file. */
	if (r->f->entry.kind == KEDGE__TREE_FILE && !r->opened) {
		make_room(s, r);
		r->failed = read_file(r) ? 0 : errno;
	}
	if (r->failed && r->f->named)
		return kedge__error_set(err, KEDGE_E_IO, r->failed, "cannot open %s", r->f->path);
	if (r->failed)
		leave(s, r->f, strerror(r->failed));
	else if (r->changed)
		say_changed(s, r->f);
	return 0;
}

int kedge__save_set_read(struct kedge__save_set *s, struct kedge__pool *pool, struct kedge__error *err)
{
	struct reading *list = kedge__calloc(s->walk.found.count + 1, sizeof(*list));
	size_t n;
	int rc = 0;

	if (!list)
		kedge__tool_no_memory();
	n = list_readings(s, list);
	(void)kedge__pool_for(pool, n, read_one, list);
	for (size_t i = 0; i < n && !rc; i++)
		rc = take_reading(s, &list[i], err);
	kedge__free(list);
	if (!rc)
		sweep(s);
	return rc;
}

/* ------------------------------------------------------------------ copies on disk */

/* From FD, up to LIMIT bytes. */
static int copy_out(int from, const char *name, uint64_t limit, int *fd, uint64_t *bytes, struct kedge__error *err)
{
	uint8_t *buffer = kedge__malloc(COPY_BYTES);
	int rc = kedge__temporary_file(fd, err);

	if (!buffer)
		kedge__tool_no_memory();
	*bytes = 0;
	while (!rc && *bytes < limit) {
		ssize_t n = read_all(from, buffer, (size_t)KEDGE__MIN((uint64_t)COPY_BYTES, limit - *bytes));

		if (n < 0)
			rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot read %s", name);
		else if (n > 0)
			rc = kedge__fs_write(*fd, buffer, (size_t)n, "a temporary copy", err);
		if (n <= 0)
			break;
		*bytes += (uint64_t)n;
	}
	kedge__free(buffer);
	return rc;
}

int kedge__save_set_stdin(struct kedge__save_set *s, const char *name, struct kedge__error *err)
{
	struct kedge__found f = {.fd = -1, .large = true};
	int rc = copy_out(STDIN_FILENO, "standard input", UINT64_MAX, &f.fd, &f.entry.size, err);

	if (rc) {
		kedge__fs_close(f.fd);
		return rc;
	}
	f.entry.kind = KEDGE__TREE_FILE;
	f.entry.mode = 0600;
	f.entry.uid = geteuid();
	f.entry.gid = getegid();
	f.entry.mtime_ns = s->began_ns;
	f.entry.name = kedge__save_region_name(name);
	f.path = kedge__strdup("standard input");
	if (!f.path || !f.entry.name || !kedge__array_push(&s->walk.found, f))
		kedge__tool_no_memory();
	return 0;
}

/* ------------------------------------------------------------------ regions */

static bool is_recent(const struct kedge__save_set *s, int64_t ns)
{
	return ns > s->began_ns - (ns % SECOND_NS ? RACY_NS : COARSE_NS);
}

/* What the entry in the tree says is what the next version is compared with. */
static struct kedge__tree_entry entry_of(const struct kedge__save_set *s, const struct kedge__found *f)
{
	struct kedge__tree_entry e = f->entry;

	if (e.kind != KEDGE__TREE_FILE || (!f->same && is_recent(s, KEDGE__MAX(e.ctime_ns, e.mtime_ns))))
		e.ctime_ns = 0;
	if (e.kind != KEDGE__TREE_FILE)
		e.inode = 0;
	return e;
}

static int tree_make(struct kedge__save_set *s, uint32_t part, struct kedge__error *err)
{
	struct kedge__tree tree = {.caller = kedge__caller()};
	struct kedge__save_part *p = &s->parts[part];
	bool *in = kedge__save_set_members(s, part);
	int rc;

	for (size_t i = 0; i < s->walk.found.count; i++)
		if (in[i] && !kedge__array_push(&tree.list, entry_of(s, &s->walk.found.at[i])))
			kedge__tool_no_memory();
	kedge__free(in);
	p->tree.count = 0;
	rc = kedge__tree_encode(&tree, p->before.count ? p->before.at : NULL, p->before.count, &p->tree, err);
	kedge__array_done(&tree.list); /* entries are those of the files */
	return rc;
}

static int lend_one(struct kedge__save_part *p, kedge_t *k, struct kedge__found *f, enum kedge_type type,
		    struct kedge__error *err)
{
	bool plain = f->entry.flags & KEDGE__TREE_PLAIN;
	uint64_t bytes = plain ? f->plain_bytes : f->entry.size;
	struct kedge__file_loan loan = {.region = f->entry.name,
					.path = f->path,
					.data = f->data,
					.fd = f->fd,
					.device = f->device,
					.inode = f->entry.inode,
					.bytes = bytes,
					.type = plain || bytes % kedge_type_size(type) ? KEDGE_BYTES : type,
					.same = f->same,
					.same_as = p->before_version};

	p->files++;
	p->same += f->same;
	p->equals += plain;
	p->bytes += f->entry.size;
	p->lent += bytes;
	return kedge__file_lend(k, &loan, err);
}

int kedge__save_set_lend(struct kedge__save_set *s, uint32_t part, kedge_t *k, enum kedge_type type,
			 struct kedge__error *err)
{
	struct kedge__file_loan tree = {.region = KEDGE__TREE_REGION, .path = "the tree", .fd = -1};
	struct kedge__save_part *p = &s->parts[part];
	int rc = tree_make(s, part, err);

	p->files = p->same = p->equals = 0;
	p->bytes = p->lent = 0;
	for (size_t i = 0; !rc && i < s->walk.found.count; i++)
		if (s->walk.found.at[i].entry.kind == KEDGE__TREE_FILE && s->walk.found.at[i].part == part)
			rc = lend_one(p, k, &s->walk.found.at[i], type, err);
	if (rc)
		return rc;
	tree.data = p->tree.at;
	tree.bytes = p->tree.count;
	kedge__files_group(k, s->grouping);
	return kedge__file_lend(k, &tree, err);
}

/* ------------------------------------------------------------------ files that change */

enum fate { STAYS, CHANGES, VANISHES };

static enum fate fate_of(const struct kedge__found *f)
{
	struct stat now;

	if (f->entry.kind != KEDGE__TREE_FILE || f->data || f->fd >= 0 || !f->entry.size)
		return STAYS;
	if (lstat(f->path, &now) != 0 || !S_ISREG(now.st_mode) || now.st_ino != f->entry.inode ||
	    now.st_dev != f->device)
		return VANISHES;
	return (uint64_t)now.st_size == f->entry.size && same_time(now.st_mtim, f->entry.mtime_ns) ? STAYS : CHANGES;
}

static int copy_one(struct kedge__save_set *s, struct kedge__found *f, struct kedge__error *err)
{
	int from = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
	int rc = from < 0 ? kedge__error_set(err, KEDGE_E_IO, errno, "cannot open %s", f->path) : 0;

	if (!rc)
		rc = copy_out(from, f->path, f->entry.size, &f->fd, &f->entry.size, err);
	kedge__fs_close(from);
	f->same = false;
	if (!rc)
		say_changed(s, f);
	return rc;
}

int kedge__save_set_settle(struct kedge__save_set *s, bool *again, struct kedge__error *err)
{
	int rc = 0;

	*again = false;
	for (size_t i = 0; !rc && i < s->walk.found.count; i++) {
		struct kedge__found *f = &s->walk.found.at[i];
		enum fate fate = fate_of(f);

		*again |= fate != STAYS;
		if (fate == CHANGES)
			rc = copy_one(s, f, err);
		if (fate == VANISHES)
			leave(s, f, "it was removed or replaced while it was read");
	}
	sweep(s);
	return rc;
}

void kedge__save_set_check(struct kedge__save_set *s)
{
	for (size_t i = 0; i < s->walk.found.count; i++) {
		struct kedge__found *f = &s->walk.found.at[i];

		if (f->large && !f->same && fate_of(f) == CHANGES)
			say_changed(s, f);
	}
}
