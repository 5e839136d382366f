/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index: a log beside the manifests (FORMAT.md, "The index") that saves reading them. The manifests are the truth;
 * at any time the log may be removed, damaged, truncated or replaced by an old copy. The guarantees, and their reasons:
 *
 *  1. The index never invents or changes a version: a manifest is taken from the log only if its file is in exactly the
 *     state (inode, size, times) that it was in when the record was written (scan.c).
 *  2. The index never loses a version when a catalogue is opened: the directory says which versions there are.
 *  3. A catalogue that follows the log learns of every change made through any other catalogue: whoever changes a
 * manifest appends to the log at the path before and after the change, or removes that log. Between the two records
 * followers check the manifest each time, even if the second one never comes. So a follower that finds the log in
 * place, with nothing new, has missed nothing.
 *  4. For the sake of 3, a log is replaced or filled only by a process that has locked (flock) the one at the path
 * before it reads the directory, and records are appended under the same lock. A change comes before its record: either
 * the process that replaces the log sees the change in the directory, or the record waits for the lock and goes to the
 * new log.
 *  5. A log that cannot be appended to is removed, its temporary file first: then a process that is about to replace it
 *     fails.
 *
 * No failure here is reported as an error. The log is never synced: after a power loss its contents are arbitrary, see
 * 1 and 2.
 */
#include "store/internal.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define CHAIN_BYTES   8
#define LOCK_TRIES    2000
#define LOCK_PAUSE_NS 1000000
#define DEAD_LEAST    (UINT64_C(16) << 10) /* a log that would shrink by less than this is not rewritten */
#define LIMIT_LEAST   (UINT64_C(64) << 10) /* this much is appended before dead records are counted */
#define SIZE_MOST     (UINT64_C(16) << 30) /* larger is not an index */
#define APPEND_TRIES  8

/* ------------------------------------------------------------------ the open log */

void kedge__index_close(struct kedge__index *x)
{
	kedge__fs_close(x->fd);
	kedge__array_done(&x->pending);
	*x = (struct kedge__index){.fd = -1};
}

/* Held for a few calls, or while the directory is read; after two seconds we stop waiting for it. */
static bool log_lock(int fd, int how)
{
	const struct timespec pause = {0, LOCK_PAUSE_NS};

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, how | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return false;
		nanosleep(&pause, NULL);
	}
	return false;
}

static void log_unlock(int fd)
{
	(void)flock(fd, LOCK_UN);
}

static uint64_t log_size(int fd)
{
	uint64_t bytes = 0;

	return kedge__fs_size(fd, &bytes, "", NULL) == 0 ? bytes : 0;
}

static bool log_open(const struct kedge__catalog *cat, int *fd, bool *writable)
{
	*writable = kedge__fs_open_log(cat->index_path, false, fd, NULL) == 0;
	return *writable || kedge__fs_open_read(cat->index_path, fd, NULL) == 0;
}

/* FD is the log from now on, followed up to OFFSET, which CHAIN precedes. Takes over PENDING. */
static void log_hold(struct kedge__catalog *cat, int fd, bool writable, uint64_t offset, const uint8_t *chain,
		     struct kedge__version_list *pending)
{
	struct kedge__index *x = &cat->index;
	struct stat st;

	if (fstat(fd, &st) != 0) {
		kedge__fs_close(fd);
		fd = -1;
	}
	if (x->fd != fd)
		kedge__index_close(x);
	if (fd < 0)
		return;
	*x = (struct kedge__index){.fd = fd,
				   .writable = writable,
				   .dev = (uint64_t)st.st_dev,
				   .ino = (uint64_t)st.st_ino,
				   .offset = offset,
				   .pending = *pending};
	*pending = (struct kedge__version_list){0};
	memcpy(x->chain, chain, CHAIN_BYTES);
}

void kedge__index_share(const struct kedge__catalog *from, struct kedge__catalog *to)
{
	const struct kedge__index *x = &from->index;
	struct kedge__version_list pending = {0};
	bool writable;
	int fd;

	/* A descriptor that was duplicated would have its locks in common with the first. */
	if (x->fd < 0 || !log_open(to, &fd, &writable))
		return;
	for (size_t i = 0; i < x->pending.count; i++) {
		if (!kedge__array_push(&pending, x->pending.at[i])) {
			kedge__array_done(&pending);
			kedge__fs_close(fd);
			return;
		}
	}
	log_hold(to, fd, writable, x->offset, x->chain, &pending);
	to->index.limit = x->limit;
	if (to->index.fd >= 0 && (to->index.dev != x->dev || to->index.ino != x->ino))
		kedge__index_close(&to->index);
	kedge__array_done(&pending);
}

/* The file at the path is the log that is open: *BYTES is its size. */
static bool log_is_held(const struct kedge__catalog *cat, uint64_t *bytes)
{
	const struct kedge__index *x = &cat->index;
	struct stat st;

	if (x->fd < 0 || stat(cat->index_path, &st) != 0 || (uint64_t)st.st_dev != x->dev ||
	    (uint64_t)st.st_ino != x->ino)
		return false;
	*bytes = (uint64_t)st.st_size;
	return true;
}

/* ------------------------------------------------------------------ pending changes */

/* False: out of memory. */
static bool pending_apply(struct kedge__version_list *list, const struct kedge__index_record *r)
{
	size_t i = 0;

	if (r->kind == KEDGE__INDEX_REOPENED)
		return true;
	if (r->kind == KEDGE__INDEX_SWEPT)
		list->count = 0;
	while (i < list->count && list->at[i] != r->version)
		i++;
	if (r->kind == KEDGE__INDEX_CHANGING)
		return i < list->count || kedge__array_push(list, r->version);
	if (i < list->count)
		list->at[i] = list->at[--list->count];
	return true;
}

/* ------------------------------------------------------------------ follow */

/* *GOOD: everything up to SIZE was applied. */
static int tail_apply(struct kedge__catalog *cat, uint64_t size, bool *good, struct kedge__error *err)
{
	struct kedge__index *x = &cat->index;
	size_t bytes = (size_t)(size - x->offset) + CHAIN_BYTES, at = CHAIN_BYTES;
	uint8_t *data = size <= SIZE_MOST ? kedge__malloc(bytes) : NULL;
	struct kedge__index_record r;
	int rc = 0;

	*good = false;
	if (!data) /* its size may be arbitrary */
		return 0;
	if (kedge__fs_pread(x->fd, data, bytes, x->offset - CHAIN_BYTES, cat->index_path, NULL) != 0 ||
	    memcmp(data, x->chain, CHAIN_BYTES) != 0)
		goto free;
	kedge__catalog_count_read(cat, bytes);
	while (!rc && at < bytes && kedge__index_record_decode(data, bytes, &at, &r, NULL) == 0) {
		rc = pending_apply(&x->pending, &r) ? kedge__catalog_apply(cat, &r, err) : kedge__error_nomem(err);
		if (!rc) {
			x->offset = size - (bytes - at);
			memcpy(x->chain, data + at - CHAIN_BYTES, CHAIN_BYTES);
		}
	}
	*good = !rc && at == bytes;
free:
	kedge__free(data);
	return rc;
}

static int follow(struct kedge__catalog *cat, bool *lost, struct kedge__error *err)
{
	struct kedge__index *x = &cat->index;
	uint64_t size;
	bool good;
	int rc;

	*lost = true;
	if (!log_is_held(cat, &size) || size < x->offset || (x->writable && !cat->read_only && size > x->limit))
		return 0;
	*lost = false;
	if (size == x->offset)
		return 0;
	rc = tail_apply(cat, size, &good, err);
	if (rc || good)
		return rc;
	/* Part of a record: one that is being appended now, or one that a crash truncated. */
	*lost = true;
	if (!log_lock(x->fd, LOCK_SH))
		return 0;
	size = log_size(x->fd);
	rc = size > x->offset ? tail_apply(cat, size, &good, err) : 0;
	*lost = !good;
	log_unlock(x->fd);
	return rc;
}

int kedge__index_follow(struct kedge__catalog *cat, bool *lost, struct kedge__error *err)
{
	int rc = follow(cat, lost, err);

	for (size_t i = 0; i < cat->index.pending.count && !rc && !*lost; i++)
		rc = kedge__catalog_refresh(cat, cat->index.pending.at[i], err);
	return rc;
}

/* ------------------------------------------------------------------ read all of it */

static size_t hint_index(const struct kedge__index_view *view, uint64_t version)
{
	size_t i = view->count;

	/* They usually come in order. */
	if (i && view->at[i - 1].record.version >= version)
		KEDGE__PARTITION_POINT(i, view->count, view->at[i].record.version < version);
	return i;
}

const struct kedge__index_hint *kedge__index_find(const struct kedge__index_view *view, uint64_t version)
{
	size_t i = hint_index(view, version);

	return i < view->count && view->at[i].record.version == version && !view->at[i].gone ? &view->at[i] : NULL;
}

static bool hint_put(struct kedge__index_view *view, const struct kedge__index_hint *hint)
{
	size_t i = hint_index(view, hint->record.version);

	if (i < view->count && view->at[i].record.version == hint->record.version) {
		view->dead += view->at[i].bytes;
		view->at[i] = *hint;
		return true;
	}
	if (!kedge__array_reserve(view, view->count + 1))
		return false;
	memmove(view->at + i + 1, view->at + i, (view->count - i) * sizeof(*view->at));
	view->at[i] = *hint;
	view->count++;
	return true;
}

static bool view_apply(struct kedge__index_view *view, const struct kedge__index_record *r, size_t bytes)
{
	const struct kedge__index_hint hint = {*r, r->kind == KEDGE__INDEX_REMOVED, bytes};
	size_t i = hint_index(view, r->version);

	if (!pending_apply(&view->pending, r))
		return false;
	switch (r->kind) {
	case KEDGE__INDEX_PUBLISHED:
		return hint_put(view, &hint);
	case KEDGE__INDEX_REMOVED:
		view->dead += bytes;
		return hint_put(view, &hint);
	case KEDGE__INDEX_CHANGING:
		break;
	case KEDGE__INDEX_REOPENED:
		if (i < view->count && view->at[i].record.version == r->version)
			view->at[i].record.unswept = true;
		break;
	case KEDGE__INDEX_SWEPT:
		for (i = 0; i < view->count; i++)
			view->at[i].record.unswept = false;
		break;
	}
	view->dead += bytes;
	return true;
}

/* How much of VIEW->data is valid. */
static void view_parse(struct kedge__index_view *view, const struct kedge__store_id *id)
{
	size_t at = KEDGE__INDEX_HEADER_BYTES, start = at;
	struct kedge__index_record r;
	struct kedge__store_id of;
	bool room = true;

	if (kedge__index_header_decode(view->data, view->bytes, &of, NULL) != 0 || !kedge__store_id_equal(&of, id))
		return;
	while (room && at < view->bytes && kedge__index_record_decode(view->data, view->bytes, &at, &r, NULL) == 0) {
		room = view_apply(view, &r, at - start);
		start = at;
	}
	view->sound = room && at == view->bytes;
}

/* FD is the log at the path. */
static void view_load(struct kedge__catalog *cat, int fd, struct kedge__index_view *view)
{
	bool locked = log_lock(fd, LOCK_SH);
	uint64_t bytes = log_size(fd);

	view->data = bytes && bytes <= SIZE_MOST ? kedge__malloc((size_t)bytes) : NULL;
	if (view->data && kedge__fs_pread(fd, view->data, (size_t)bytes, 0, cat->index_path, NULL) == 0)
		view->bytes = (size_t)bytes;
	if (locked)
		log_unlock(fd);
	kedge__catalog_count_read(cat, view->bytes);
	if (view->bytes)
		view_parse(view, &cat->id);
}

/* ------------------------------------------------------------------ rewrite */

static bool is_at_path(const struct kedge__catalog *cat, int fd)
{
	return kedge__file_is_at(fd, cat->index_path);
}

/* There is no log: create one and lock it, so that nobody appends before it is filled. */
static bool fill_begin(const struct kedge__catalog *cat, struct kedge__index_view *view)
{
	int fd;

	if (kedge__fs_open_log(cat->index_path, true, &fd, NULL) != 0)
		return false;
	if (!log_lock(fd, LOCK_EX) || !is_at_path(cat, fd) || log_size(fd)) {
		kedge__fs_close(fd);
		return false;
	}
	view->locked = fd;
	return true;
}

static bool replace_begin(const struct kedge__catalog *cat, struct kedge__index_view *view)
{
	bool writable;
	int fd, tmp;

	if (!log_open(cat, &fd, &writable))
		return false;
	if (!log_lock(fd, LOCK_EX) || !is_at_path(cat, fd) || kedge__file_create_tmp(cat->index_tmp, &tmp, NULL) != 0) {
		kedge__fs_close(fd);
		return false;
	}
	kedge__fs_close(tmp);
	if (kedge__fs_open_log(cat->index_tmp, false, &tmp, NULL) != 0) {
		(void)kedge__fs_unlink(cat->index_tmp, NULL);
		kedge__fs_close(fd);
		return false;
	}
	view->locked = fd;
	view->fresh = tmp;
	return true;
}

void kedge__index_begin(struct kedge__catalog *cat, bool all, struct kedge__index_view *view, bool *rebuild)
{
	bool there, writable = false;
	uint64_t size;
	int fd = -1;

	*view = (struct kedge__index_view){.locked = -1, .fresh = -1};
	*rebuild = false;
	if (log_is_held(cat, &size) && !all && size >= cat->index.offset && size <= cat->index.limit)
		return;
	there = log_open(cat, &fd, &writable);
	if (there) {
		view_load(cat, fd, view);
		if (view->bytes >= CHAIN_BYTES)
			log_hold(cat, fd, writable, view->bytes, view->data + view->bytes - CHAIN_BYTES,
				 &view->pending);
		else
			kedge__fs_close(fd);
	}
	if (!there || view->bytes < CHAIN_BYTES)
		kedge__index_close(&cat->index);
	cat->index.limit = KEDGE__MAX(2 * (view->bytes - view->dead), view->bytes) + LIMIT_LEAST;
	if (cat->read_only)
		return;
	if (!there)
		*rebuild = fill_begin(cat, view);
	else if (!view->sound || (view->dead >= DEAD_LEAST && view->dead > view->bytes / 2))
		*rebuild = replace_begin(cat, view);
}

void kedge__index_drop(const struct kedge__catalog *cat, struct kedge__index_view *view)
{
	/* Changes that were begun and not finished. */
	if (view->fresh >= 0)
		(void)kedge__fs_unlink(cat->index_tmp, NULL);
	else if (view->locked >= 0)
		(void)kedge__fs_unlink(cat->index_path, NULL);
	kedge__fs_close(view->locked);
	kedge__fs_close(view->fresh);
	kedge__array_done(view);
	kedge__array_done(&view->pending);
	kedge__free(view->data);
	*view = (struct kedge__index_view){.locked = -1, .fresh = -1};
}

static bool put_records(struct kedge__bytes *out, const struct kedge__index_record_list *records)
{
	for (size_t i = 0; i < records->count; i++)
		if (kedge__index_record_encode(&records->at[i], out, NULL) != 0)
			return false;
	return true;
}

static bool put_pending(struct kedge__bytes *out, const struct kedge__version_list *pending)
{
	for (size_t i = 0; i < pending->count; i++) {
		const struct kedge__index_record r = {.kind = KEDGE__INDEX_CHANGING, .version = pending->at[i]};

		if (kedge__index_record_encode(&r, out, NULL) != 0)
			return false;
	}
	return true;
}

static bool rebuild_write(const struct kedge__catalog *cat, int fd, const char *path,
			  const struct kedge__index_record_list *records, struct kedge__bytes *out)
{
	uint64_t nonce;

	return getrandom(&nonce, sizeof(nonce), 0) == (ssize_t)sizeof(nonce) &&
	       kedge__index_header_encode(&cat->id, nonce, out, NULL) == 0 && put_records(out, records) &&
	       put_pending(out, &cat->index.pending) && kedge__fs_write(fd, out->at, out->count, path, NULL) == 0;
}

/* On failure everything is as kedge__index_drop() expects it. */
static bool rebuild_end(struct kedge__catalog *cat, struct kedge__index_view *view,
			const struct kedge__index_record_list *records)
{
	bool replaces = view->fresh >= 0;
	int fd = replaces ? view->fresh : view->locked;
	const char *path = replaces ? cat->index_tmp : cat->index_path;
	struct kedge__version_list pending;
	struct kedge__bytes out = {0};
	bool done = rebuild_write(cat, fd, path, records, &out) &&
		    (!replaces || kedge__fs_rename(path, cat->index_path, NULL) == 0);

	if (done) {
		log_unlock(view->locked);
		if (replaces)
			kedge__fs_close(view->locked);
		view->locked = view->fresh = -1;
		pending = cat->index.pending;
		cat->index.pending = (struct kedge__version_list){0};
		log_hold(cat, fd, true, out.count, out.at + out.count - CHAIN_BYTES, &pending);
		cat->index.limit = 2 * out.count + LIMIT_LEAST;
	}
	kedge__bytes_done(&out);
	return done;
}

/* ------------------------------------------------------------------ append */

/* FD is locked, and at the path. */
static bool append_locked(struct kedge__catalog *cat, int fd, const struct kedge__index_record_list *records)
{
	struct kedge__index *x = &cat->index;
	uint64_t size = log_size(fd);
	struct kedge__bytes out = {0};
	bool done = size >= KEDGE__INDEX_HEADER_BYTES && kedge__array_reserve(&out, CHAIN_BYTES);

	if (done) {
		out.count = CHAIN_BYTES;
		done = kedge__fs_pread(fd, out.at, CHAIN_BYTES, size - CHAIN_BYTES, cat->index_path, NULL) == 0 &&
		       put_records(&out, records) &&
		       kedge__fs_write(fd, out.at + CHAIN_BYTES, out.count - CHAIN_BYTES, cat->index_path, NULL) == 0;
	}
	/* This catalogue already knows its own changes. */
	if (done && fd == x->fd && x->offset == size && memcmp(x->chain, out.at, CHAIN_BYTES) == 0) {
		x->offset += out.count - CHAIN_BYTES;
		memcpy(x->chain, out.at + out.count - CHAIN_BYTES, CHAIN_BYTES);
	}
	kedge__bytes_done(&out);
	return done;
}

/* 1: done; 0: the log was removed or replaced before it was locked; -1: it cannot be done. */
static int append_once(struct kedge__catalog *cat, const struct kedge__index_record_list *records)
{
	uint64_t size;
	bool held = log_is_held(cat, &size) && cat->index.writable;
	int fd = cat->index.fd, done;

	if (!held && kedge__fs_open_log(cat->index_path, false, &fd, NULL) != 0)
		return kedge__fs_exists(cat->index_path) ? -1 : 0;
	if (!log_lock(fd, LOCK_EX))
		done = -1;
	else if (!is_at_path(cat, fd))
		done = 0;
	else
		done = append_locked(cat, fd, records) ? 1 : -1;
	log_unlock(fd);
	if (!held)
		kedge__fs_close(fd);
	return done;
}

static void append(struct kedge__catalog *cat, const struct kedge__index_record_list *records)
{
	int done = 0;

	for (int i = 0; i < APPEND_TRIES && !done; i++) {
		if (!kedge__fs_exists(cat->index_path))
			return;
		done = append_once(cat, records);
	}
	if (done == 1)
		return;
	kedge__log(KEDGE_LOG_DEBUG, "cannot append to %s; continuing without the index", cat->index_path);
	(void)kedge__fs_unlink(cat->index_tmp, NULL);
	(void)kedge__fs_unlink(cat->index_path, NULL);
}

void kedge__index_note(struct kedge__catalog *cat, const struct kedge__index_record *r)
{
	struct kedge__index_record copy = *r;
	const struct kedge__index_record_list one = {.at = &copy, .count = 1};

	append(cat, &one);
}

void kedge__index_finish(struct kedge__catalog *cat, struct kedge__index_view *view,
			 const struct kedge__index_record_list *records, bool rebuild)
{
	if (rebuild && !rebuild_end(cat, view, records)) {
		kedge__log(KEDGE_LOG_DEBUG, "cannot write %s; continuing without the index", cat->index_path);
		kedge__index_close(&cat->index);
	} else if (!rebuild && records->count && !cat->read_only) {
		append(cat, records);
	}
	kedge__index_drop(cat, view);
}
