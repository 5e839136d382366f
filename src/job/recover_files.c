/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of a recovery: they are checked before they are used, come from other ranks or are rebuilt under a
 * temporary name, and get their own once they are found to be what the manifest says. A rank that fails goes on in step
 * with the others, and reports it when all is done.
 */
#include "job/recovery.h"

#include <stdio.h>

#define PIECE ((size_t)256 << 10)

void kedge__recovery_tell(struct kedge__recovery *r, uint64_t version, enum kedge__recovery_kind kind, uint32_t rank,
			  uint32_t place, const char *text)
{
	struct kedge__recovery_note note = {.version = version, .kind = kind, .rank = rank, .place = place};

	if (r->report.count + sizeof(note) > r->report.room)
		return; /* it was counted: never */
	snprintf(note.text, sizeof(note.text), "%s", text ? text : "");
	memcpy(r->report.at + r->report.count, &note, sizeof(note));
	r->report.count += sizeof(note);
}

/* Without memory nothing can be said about a file: then the job is not opened, and nothing is taken for lost. */
static bool out_of_memory(struct kedge__recovery *r, int rc)
{
	if (rc == KEDGE_E_NOMEM && !r->rc)
		r->rc = kedge__error_nomem(&r->err);
	return rc == KEDGE_E_NOMEM;
}

static struct kedge__catalog *l1_of(const struct kedge__recovery *r)
{
	return r->k->levels.at[KEDGE__L1].write;
}

static uint32_t self_of(const struct kedge__recovery *r)
{
	return (uint32_t)r->k->group.rank;
}

static char *item_path(const struct kedge__recovery *r, const struct kedge__set *set, const struct kedge__item *item)
{
	uint32_t generation = set->parts[item->rank].generation;

	return item->shield ? kedge__shield_path(l1_of(r), set->version, item->rank, generation)
			    : kedge__segment_path(l1_of(r), set->version, item->rank, generation);
}

/* ------------------------------------------------------------------ before they are used */

static int shield_check(const char *path, struct kedge__error *err)
{
	struct kedge__shield_file f = {.fd = -1};
	int rc = kedge__shield_open(path, &f, err);

	if (!rc)
		rc = kedge__shield_check(&f, err);
	kedge__shield_close(&f);
	return rc;
}

static void item_check(struct kedge__recovery *r, const struct kedge__recovered *v, size_t i)
{
	const struct kedge__item *item = &v->items.at[i];
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *path;
	int rc;

	if (i == SIZE_MAX || item->checked || item->bad || kedge__item_host(item, r->home) != self_of(r))
		return;
	path = item_path(r, &v->set, item);
	if (!path)
		rc = kedge__error_nomem(&err);
	else
		rc = item->shield ? shield_check(path, &err)
				  : kedge__segment_sound(path, &v->set.parts[item->rank], &err);
	if (out_of_memory(r, rc))
		goto done;
	if (rc)
		kedge__log(KEDGE_LOG_WARNING, "%s: %s: it counts as lost", r->k->name, kedge__error_text(&err));
	if (item->shield)
		kedge__recovery_tell(r, v->set.version, rc ? KEDGE__NOTE_SHIELD_DAMAGED : KEDGE__NOTE_SHIELD_CHECKED,
				     item->rank, item->place, NULL);
	else
		kedge__recovery_tell(r, v->set.version, rc ? KEDGE__NOTE_DAMAGED : KEDGE__NOTE_CHECKED, item->rank,
				     item->place, NULL);
done:
	kedge__error_done(&err);
	kedge__free(path);
}

/* The first rank that wants something from a team speaks for it. */
static bool speaks(const struct kedge__recovered *v, uint32_t rank)
{
	const struct kedge__shield *shape = v->paths[rank].shape;

	if (v->paths[rank].way != KEDGE__WAY_REBUILD)
		return false;
	for (uint32_t q = 0; q < rank; q++)
		if (v->paths[q].way == KEDGE__WAY_REBUILD && kedge__shape_equal(v->paths[q].shape, shape))
			return false;
	return true;
}

void kedge__recovery_check(struct kedge__recovery *r)
{
	for (size_t i = 0; i < r->list.count; i++) {
		const struct kedge__recovered *v = &r->list.at[i];

		for (uint32_t q = 0; q < r->ranks && v->wanted; q++) {
			uint32_t hosts[2 * KEDGE__TEAM_MOST];
			size_t items[2 * KEDGE__TEAM_MOST];

			if (v->paths[q].way == KEDGE__WAY_MOVE)
				item_check(r, v, v->paths[q].item);
			if (!speaks(v, q))
				continue;
			kedge__team_hosts(&v->items, v->paths[q].shape, r->home, hosts, hosts + KEDGE__TEAM_MOST,
					  items);
			for (uint32_t m = 0; m < 2 * v->paths[q].shape->members; m++)
				item_check(r, v, items[m]);
		}
	}
}

/* ------------------------------------------------------------------ one segment that arrives */

struct arrival {
	struct kedge__recovery *r;
	const struct kedge__recovered *v;
	struct kedge__rank_file file;
	uint64_t bytes;
	struct kedge__error err;
	int rc;
};

static void arrival_begin(struct arrival *a, struct kedge__recovery *r, const struct kedge__recovered *v)
{
	const struct kedge__set_part *part = &v->set.parts[self_of(r)];

	*a = (struct arrival){.r = r, .v = v, .bytes = part->file_bytes, .file = {.fd = -1}};
	a->rc = kedge__incoming_open(&a->file, l1_of(r), v->set.version, self_of(r), part->generation, r->k->set.sync,
				     &a->err);
}

static void arrival_put(struct arrival *a, const void *data, size_t bytes, uint64_t at)
{
	if (!a->rc && at < a->bytes)
		a->rc = kedge__incoming_put(&a->file, data, (size_t)KEDGE__MIN(bytes, a->bytes - at), at, &a->err);
}

static void arrival_end(struct arrival *a, int met)
{
	const struct kedge__set *set = &a->v->set;
	uint32_t self = self_of(a->r);
	bool opened = a->file.tmp;

	if (!a->rc && !met)
		a->rc = kedge__incoming_commit(&a->file, &set->parts[self], &a->err);
	if ((a->rc || met) && opened)
		kedge__incoming_abort(&a->file);
	if (opened)
		kedge__incoming_done(&a->file);
	if (!out_of_memory(a->r, a->rc))
		kedge__recovery_tell(a->r, set->version, a->rc || met ? KEDGE__NOTE_BARRED : KEDGE__NOTE_ARRIVED, self,
				     a->r->home[self], a->rc ? kedge__error_text(&a->err) : NULL);
	kedge__error_done(&a->err);
}

/* ------------------------------------------------------------------ from another place */

static int move_steps(struct kedge__recovery *r, struct arrival *a, const struct kedge_transfer *one, bool sends,
		      int fd, const char *path)
{
	uint64_t bytes = a->bytes;

	for (uint64_t at = 0; at < bytes; at += PIECE) {
		struct kedge_transfer t = *one;

		t.bytes = (size_t)KEDGE__MIN(bytes - at, PIECE);
		if (sends && t.data && fd >= 0)
			(void)kedge__fs_pread(fd, t.data, t.bytes, at, path, NULL); /* the other end finds out */
		if (kedge__courier_move(&r->courier, &t, t.data && sends, &t, t.data && !sends))
			return KEDGE_E_GROUP;
		if (t.data && !sends)
			arrival_put(a, t.data, t.bytes, at);
	}
	return 0;
}

static int move(struct kedge__recovery *r, const struct kedge__recovered *v, uint32_t rank)
{
	const struct kedge__item *item = &v->items.at[v->paths[rank].item];
	uint32_t host = kedge__item_host(item, r->home), self = self_of(r);
	struct kedge_transfer one = {.rank = -1};
	struct arrival a = {.r = r, .v = v, .bytes = v->set.parts[rank].file_bytes};
	char *path = NULL;
	int fd = -1, met;

	if (self == host || self == rank)
		one = (struct kedge_transfer){(int)(self == host ? rank : host), r->room.data, 0};
	if (self == rank)
		arrival_begin(&a, r, v);
	if (self == host) {
		memset(r->room.data, 0, PIECE);
		path = item_path(r, &v->set, item);
		if (!path)
			(void)out_of_memory(r, KEDGE_E_NOMEM);
		else
			(void)kedge__fs_open_read(path, &fd, NULL);
	}
	met = move_steps(r, &a, &one, self == host, fd, path);
	if (self == rank)
		arrival_end(&a, met);
	kedge__fs_close(fd);
	kedge__free(path);
	return met;
}

/* ------------------------------------------------------------------ from what is left of a team */

struct open_file {
	int fd;
	char *path;
	uint64_t from; /* where its rows begin */
};

struct hosted { /* what this rank reads, of one team */
	struct open_file files[2 * KEDGE__TEAM_MOST];
	struct kedge__unit_source sources[2 * KEDGE__TEAM_MOST];
	uint32_t count;
};

static const uint8_t *file_get(void *ctx, uint64_t at, size_t bytes, uint8_t *to)
{
	const struct open_file *f = ctx;

	return f->fd < 0 || kedge__fs_pread(f->fd, to, bytes, f->from + at, f->path, NULL) ? NULL : to;
}

/* Files that cannot be opened are found out when they are read. */
static void hosted_open(struct hosted *h, struct kedge__recovery *r, const struct kedge__recovered *v,
			const struct kedge__shield *shape, const size_t *items)
{
	h->count = 2 * shape->members;
	for (uint32_t i = 0; i < h->count; i++) {
		const struct kedge__item *item = items[i] == SIZE_MAX ? NULL : &v->items.at[items[i]];
		struct open_file *f = &h->files[i];
		struct kedge__shield_file opened = {.fd = -1};

		*f = (struct open_file){.fd = -1};
		h->sources[i] = (struct kedge__unit_source){file_get, f, 0};
		if (!item || kedge__item_host(item, r->home) != self_of(r))
			continue;
		h->sources[i].bytes =
		    item->shield ? shape->rows * shape->parity * shape->unit : v->set.parts[item->rank].file_bytes;
		f->path = item_path(r, &v->set, item);
		if (!f->path || (item->shield && kedge__shield_open(f->path, &opened, NULL) == KEDGE_E_NOMEM)) {
			(void)out_of_memory(r, KEDGE_E_NOMEM);
			continue;
		}
		f->from = opened.header;
		kedge__shield_close(&opened);
		(void)kedge__fs_open_read(f->path, &f->fd, NULL);
	}
}

static void hosted_close(struct hosted *h)
{
	for (uint32_t i = 0; i < h->count; i++) {
		kedge__fs_close(h->files[i].fd);
		kedge__free(h->files[i].path);
	}
}

struct row_target {
	struct arrival *a;
	uint64_t row_bytes;
};

static int row_put(void *ctx, uint64_t row, const uint8_t *units, struct kedge__error *err)
{
	const struct row_target *t = ctx;

	(void)err;
	arrival_put(t->a, units, (size_t)t->row_bytes, row * t->row_bytes);
	return 0;
}

static int rebuild(struct kedge__recovery *r, const struct kedge__recovered *v, uint32_t rank)
{
	const struct kedge__shield *shape = v->paths[rank].shape;
	uint32_t segments[KEDGE__TEAM_MOST], shields[KEDGE__TEAM_MOST], self = self_of(r);
	size_t items[2 * KEDGE__TEAM_MOST];
	struct hosted h;
	struct arrival a;
	struct row_target target = {&a, (uint64_t)(shape->members - shape->parity) * shape->unit};
	struct kedge__rebuilding b = {.shape = shape,
				      .segment_host = segments,
				      .shield_host = shields,
				      .rank = self,
				      .segment = h.sources,
				      .shield = h.sources + shape->members,
				      .put = row_put,
				      .put_ctx = &target,
				      .mover = {kedge__courier_move, &r->courier},
				      .room = &r->room};
	bool gets = false;
	int rc;

	kedge__team_hosts(&v->items, shape, r->home, segments, shields, items);
	for (uint32_t i = 0; i < shape->members; i++)
		gets = gets || (shape->at[i].rank == self && segments[i] == KEDGE__NO_RANK);
	if (gets)
		arrival_begin(&a, r, v);
	hosted_open(&h, r, v, shape, items);
	rc = kedge__rebuild_run(&b, NULL);
	hosted_close(&h);
	if (gets)
		arrival_end(&a, rc == KEDGE_E_GROUP);
	return rc == KEDGE_E_GROUP ? rc : 0;
}

int kedge__recovery_fetch(struct kedge__recovery *r, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < r->list.count && !rc; i++) {
		const struct kedge__recovered *v = &r->list.at[i];

		for (uint32_t q = 0; q < r->ranks && !rc && v->wanted; q++) {
			if (v->paths[q].way == KEDGE__WAY_MOVE)
				rc = move(r, v, q);
			else if (speaks(v, q))
				rc = rebuild(r, v, q);
		}
	}
	return rc ? kedge__error_set(err, KEDGE_E_GROUP, 0, "the group's transport failed while L1 was recovered") : 0;
}

void kedge__recovery_measure(const struct kedge__recovery *r, uint32_t *members, uint32_t *files, uint32_t *unit)
{
	*members = 2;
	*files = 1;
	*unit = (uint32_t)(PIECE / 4); /* room for a piece that is moved */
	for (size_t i = 0; i < r->list.count; i++) {
		const struct kedge__recovered *v = &r->list.at[i];

		for (uint32_t q = 0; q < r->ranks && v->wanted; q++) {
			uint32_t segments[KEDGE__TEAM_MOST], shields[KEDGE__TEAM_MOST];
			struct kedge__rebuilding b = {.shape = v->paths[q].shape,
						      .segment_host = segments,
						      .shield_host = shields,
						      .rank = self_of(r)};

			if (!speaks(v, q))
				continue;
			kedge__team_hosts(&v->items, b.shape, r->home, segments, shields, NULL);
			*members = KEDGE__MAX(*members, b.shape->members);
			*files = KEDGE__MAX(*files, kedge__rebuild_files(&b));
			*unit = KEDGE__MAX(*unit, b.shape->unit);
		}
	}
}
