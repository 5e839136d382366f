/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The tree". */
#include "format/wire.h"

#include <stdlib.h>

#define HEAD_BYTES   32
#define FIXED_BYTES  64
#define GAP_SHARE    2                   /* one byte in so many may be a gap, beyond that all records move together */
#define LENGTH_LIMIT (UINT32_C(1) << 26) /* of a record */
#define XATTR_HEAD   6
#define VERSION      1
#define VERSION_MOST 2 /* has files in their plain form: who does not know of them must not take them as they are */

static const char magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'T', 'R', 'E'};

bool kedge__tree_name_ok(const char *name)
{
	for (const char *p = name;; p += strcspn(p, "/") + 1) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && memcmp(p, "..", 2) == 0))
			return false;
		if (p[n] == '\0')
			return true;
	}
}

void kedge__tree_entry_done(struct kedge__tree_entry *e)
{
	kedge__free(e->name);
	kedge__free(e->target);
	kedge__free(e->xattrs);
	*e = (struct kedge__tree_entry){0};
}

void kedge__tree_done(struct kedge__tree *tree)
{
	for (size_t i = 0; i < tree->list.count; i++)
		kedge__tree_entry_done(&tree->list.at[i]);
	kedge__array_done(&tree->list);
}

static int by_name(const void *a, const void *b)
{
	const struct kedge__tree_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

void kedge__tree_sort(struct kedge__tree *tree)
{
	if (tree->list.count)
		qsort(tree->list.at, tree->list.count, sizeof(*tree->list.at), by_name);
}

const struct kedge__tree_entry *kedge__tree_find(const struct kedge__tree *tree, const char *name)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, tree->list.count, strcmp(tree->list.at[i].name, name) < 0);
	return i < tree->list.count && strcmp(tree->list.at[i].name, name) == 0 ? &tree->list.at[i] : NULL;
}

/* ------------------------------------------------------------------ encode */

static size_t record_bytes(const struct kedge__tree_entry *e)
{
	size_t bytes = FIXED_BYTES + strlen(e->name) + (e->target ? strlen(e->target) : 0) + e->xattr_bytes;

	return (bytes + 7) / 8 * 8;
}

/* TO is zero. */
static void record_put(const struct kedge__tree_entry *e, uint8_t *to)
{
	size_t name = strlen(e->name), target = e->target ? strlen(e->target) : 0;

	kedge__put32(to, (uint32_t)record_bytes(e));
	to[4] = e->kind;
	to[5] = e->flags;
	kedge__put16(to + 6, (uint16_t)name);
	kedge__put32(to + 8, e->mode);
	kedge__put32(to + 12, e->uid);
	kedge__put32(to + 16, e->gid);
	kedge__put32(to + 20, (uint32_t)target);
	kedge__put64(to + 24, e->size);
	kedge__put64(to + 32, (uint64_t)e->mtime_ns);
	kedge__put64(to + 40, (uint64_t)e->ctime_ns);
	kedge__put64(to + 48, e->inode);
	kedge__put32(to + 56, (uint32_t)e->xattr_bytes);
	memcpy(to + FIXED_BYTES, e->name, name);
	if (target)
		memcpy(to + FIXED_BYTES + name, e->target, target);
	if (e->xattr_bytes)
		memcpy(to + FIXED_BYTES + name + target, e->xattrs, e->xattr_bytes);
}

static void head_put(const struct kedge__tree *tree, uint8_t *to)
{
	uint16_t version = VERSION;

	for (size_t i = 0; i < tree->list.count; i++)
		if (tree->list.at[i].flags & KEDGE__TREE_PLAIN)
			version = VERSION_MOST;
	memcpy(to, magic, sizeof(magic));
	kedge__put16(to + 8, version);
	kedge__put64(to + 16, tree->caller);
}

/* Where each record goes. */
struct layout {
	uint64_t *places;                       /* of each entry; 0: it has none yet */
	uint64_t end;                           /* of the last one so far */
	KEDGE__ARRAY(struct kedge__range) free; /* of the tree before, ascending */
};

static bool take_places(const struct kedge__tree *tree, const uint8_t *before, size_t bytes, struct layout *l)
{
	uint64_t last = HEAD_BYTES;

	for (uint64_t at = HEAD_BYTES, length; at < bytes; at += length) {
		const struct kedge__tree_entry *e = NULL;
		char name[UINT16_MAX + 1];

		length = kedge__get32(before + at);
		if (before[at + 4]) {
			size_t n = kedge__get16(before + at + 6);

			memcpy(name, before + at + FIXED_BYTES, n);
			name[n] = '\0';
			e = kedge__tree_find(tree, name);
		}
		if (e && record_bytes(e) == length) {
			l->places[e - tree->list.at] = at;
			last = at + length;
		} else if (!kedge__array_push(&l->free, ((struct kedge__range){at, length}))) {
			return false;
		}
	}
	while (l->free.count && l->free.at[l->free.count - 1].start >= last)
		l->free.count--;
	l->end = last;
	return true;
}

/* A place that somebody left and that fits exactly; others would leave crumbs. New names come in the order of theirs.
 */
static uint64_t reuse(struct layout *l, uint64_t bytes)
{
	for (size_t i = 0; i < KEDGE__MIN(l->free.count, (size_t)64); i++) {
		uint64_t at = l->free.at[i].start;

		if (l->free.at[i].len != bytes)
			continue;
		memmove(&l->free.at[i], &l->free.at[i + 1], (l->free.count - i - 1) * sizeof(l->free.at[0]));
		l->free.count--;
		return at;
	}
	return 0;
}

static void place_new(const struct kedge__tree *tree, struct layout *l)
{
	for (size_t i = 0; i < tree->list.count; i++) {
		uint64_t bytes = record_bytes(&tree->list.at[i]);

		if (!l->places[i])
			l->places[i] = reuse(l, bytes);
		if (l->places[i])
			continue;
		l->places[i] = l->end;
		l->end += bytes;
	}
}

static uint64_t free_bytes(const struct layout *l)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < l->free.count; i++)
		bytes += l->free.at[i].len;
	return bytes;
}

static int write_out(const struct kedge__tree *tree, const struct layout *l, struct kedge__bytes *out,
		     struct kedge__error *err)
{
	if (!kedge__array_reserve(out, l->end))
		return kedge__error_nomem(err);
	memset(out->at, 0, l->end);
	out->count = l->end;
	head_put(tree, out->at);
	for (size_t i = 0; i < tree->list.count; i++)
		record_put(&tree->list.at[i], out->at + l->places[i]);
	for (size_t i = 0; i < l->free.count; i++)
		kedge__put32(out->at + l->free.at[i].start, (uint32_t)l->free.at[i].len);
	return 0;
}

static int check_entry(const struct kedge__tree_entry *e, struct kedge__error *err)
{
	if (strlen(e->name) > KEDGE_REGION_NAME_MAX)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "'%s' has a name of more than %d bytes", e->name,
					KEDGE_REGION_NAME_MAX);
	if (record_bytes(e) >= LENGTH_LIMIT)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "'%s' has too many extended attributes", e->name);
	return 0;
}

/* What is left of BEFORE must be what decode() accepts. */
static bool is_tree(const void *data, size_t bytes)
{
	struct kedge__tree tree = {0};
	bool ok = data && kedge__tree_decode(data, bytes, &tree, NULL) == 0;

	kedge__tree_done(&tree);
	return ok;
}

int kedge__tree_encode(const struct kedge__tree *tree, const void *before, size_t before_bytes,
		       struct kedge__bytes *out, struct kedge__error *err)
{
	struct layout l = {.end = HEAD_BYTES};
	int rc = 0;

	for (size_t i = 0; i < tree->list.count && !rc; i++)
		rc = check_entry(&tree->list.at[i], err);
	if (rc)
		return rc;
	l.places = kedge__calloc(tree->list.count + 1, sizeof(*l.places));
	if (!l.places || (is_tree(before, before_bytes) && !take_places(tree, before, before_bytes, &l)))
		rc = kedge__error_nomem(err);
	if (!rc && free_bytes(&l) > l.end / GAP_SHARE) {
		memset(l.places, 0, tree->list.count * sizeof(*l.places));
		l.free.count = 0;
		l.end = HEAD_BYTES;
	}
	if (!rc) {
		place_new(tree, &l);
		rc = write_out(tree, &l, out, err);
	}
	kedge__array_done(&l.free);
	kedge__free(l.places);
	return rc;
}

/* ------------------------------------------------------------------ decode */

static int damaged(uint64_t at, const char *what, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "tree of files: %s at byte %llu", what,
				(unsigned long long)at);
}

static char *text_copy(const uint8_t *from, size_t n)
{
	char *to = kedge__malloc(n + 1);

	if (to) {
		memcpy(to, from, n);
		to[n] = '\0';
	}
	return to;
}

static bool xattrs_ok(const uint8_t *at, size_t bytes)
{
	while (bytes >= XATTR_HEAD) {
		uint64_t n = kedge__get16(at), m = kedge__get32(at + 2);

		if (n == 0 || n + m > bytes - XATTR_HEAD || memchr(at + XATTR_HEAD, '\0', n))
			return false;
		at += XATTR_HEAD + n + m;
		bytes -= XATTR_HEAD + n + m;
	}
	return bytes == 0;
}

static bool sizes_ok(const uint8_t *at, uint64_t length)
{
	uint64_t name = kedge__get16(at + 6), target = kedge__get32(at + 20), xattrs = kedge__get32(at + 56);
	uint64_t used = FIXED_BYTES + name + target + xattrs;

	return name && name <= KEDGE_REGION_NAME_MAX && used <= length && length - used < 8 &&
	       kedge__get32(at + 60) == 0 && kedge__memory_is_zero(at + used, length - used) &&
	       !memchr(at + FIXED_BYTES, '\0', name + target) && xattrs_ok(at + FIXED_BYTES + name + target, xattrs);
}

static int entry_get(const uint8_t *at, struct kedge__tree_entry *e, struct kedge__error *err)
{
	size_t name = kedge__get16(at + 6), target = kedge__get32(at + 20);

	*e = (struct kedge__tree_entry){.kind = at[4],
					.flags = at[5],
					.mode = kedge__get32(at + 8),
					.uid = kedge__get32(at + 12),
					.gid = kedge__get32(at + 16),
					.size = kedge__get64(at + 24),
					.mtime_ns = (int64_t)kedge__get64(at + 32),
					.ctime_ns = (int64_t)kedge__get64(at + 40),
					.inode = kedge__get64(at + 48),
					.xattr_bytes = kedge__get32(at + 56)};
	e->name = text_copy(at + FIXED_BYTES, name);
	if (target)
		e->target = text_copy(at + FIXED_BYTES + name, target);
	if (e->xattr_bytes)
		e->xattrs = (uint8_t *)text_copy(at + FIXED_BYTES + name + target, e->xattr_bytes);
	if (e->name && !target == !e->target && !e->xattr_bytes == !e->xattrs)
		return 0;
	kedge__tree_entry_done(e);
	return kedge__error_nomem(err);
}

static int record_get(const uint8_t *data, uint64_t at, uint64_t length, struct kedge__tree *tree,
		      struct kedge__error *err)
{
	const uint8_t *record = data + at;
	struct kedge__tree_entry e;
	bool link = record[4] == KEDGE__TREE_SYMLINK || record[4] == KEDGE__TREE_HARDLINK;
	unsigned known = KEDGE__TREE_SPARSE;
	int rc;

	if (kedge__get16(data + 8) == VERSION_MOST && record[4] == KEDGE__TREE_FILE)
		known |= KEDGE__TREE_PLAIN;
	if (length < FIXED_BYTES || record[4] >= KEDGE__TREE_KINDS || record[5] & ~known ||
	    kedge__get32(record + 8) > 07777 || !sizes_ok(record, length) || link != (kedge__get32(record + 20) > 0))
		return damaged(at, "a record that makes no sense", err);
	rc = entry_get(record, &e, err);
	if (rc)
		return rc;
	if (!kedge__tree_name_ok(e.name) || (e.kind == KEDGE__TREE_HARDLINK && !kedge__tree_name_ok(e.target)))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0,
				      "tree of files: the name '%s' could lead out of the directory", e.name);
	else if (!kedge__array_push(&tree->list, e))
		rc = kedge__error_nomem(err);
	if (rc)
		kedge__tree_entry_done(&e);
	return rc;
}

static int records_get(const uint8_t *data, size_t bytes, struct kedge__tree *tree, struct kedge__error *err)
{
	int rc = 0;

	for (uint64_t at = HEAD_BYTES, length; !rc && at < bytes; at += length) {
		length = bytes - at < 8 ? 0 : kedge__get32(data + at);
		if (length < 8 || length % 8 || length >= LENGTH_LIMIT || length > bytes - at)
			return damaged(at, "a record of a wrong size", err);
		if (data[at + 4])
			rc = record_get(data, at, length, tree, err);
		else if (!kedge__memory_is_zero(data + at + 4, length - 4))
			rc = damaged(at, "a gap that is not empty", err);
	}
	return rc;
}

static int check_names(const struct kedge__tree *tree, struct kedge__error *err)
{
	for (size_t i = 1; i < tree->list.count; i++)
		if (strcmp(tree->list.at[i - 1].name, tree->list.at[i].name) == 0)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "tree of files: '%s' is there twice",
						tree->list.at[i].name);
	return 0;
}

int kedge__tree_decode(const void *data, size_t bytes, struct kedge__tree *out, struct kedge__error *err)
{
	const uint8_t *raw = data;
	struct kedge__tree tree = {0};
	int rc;

	if (bytes < HEAD_BYTES || memcmp(raw, magic, sizeof(magic)) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "not a tree of files");
	if (kedge__get16(raw + 8) < VERSION || kedge__get16(raw + 8) > VERSION_MOST)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0,
					"the tree of files has format %u, but this build reads %d and %d",
					kedge__get16(raw + 8), VERSION, VERSION_MOST);
	if (!kedge__memory_is_zero(raw + 10, 6) || !kedge__memory_is_zero(raw + 24, 8))
		return damaged(0, "reserved bytes in use", err);
	tree.caller = kedge__get64(raw + 16);
	rc = records_get(raw, bytes, &tree, err);
	if (!rc) {
		kedge__tree_sort(&tree);
		rc = check_names(&tree, err);
	}
	if (rc) {
		kedge__tree_done(&tree);
		return rc;
	}
	*out = tree;
	return 0;
}
