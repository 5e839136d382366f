/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All segments of one rank that a version needs. Each is taken from the first level that has it intact. If a version
 * that a segment depends on cannot be found anywhere, that copy of the segment is not used again: another level may
 * have it in a form that depends on other versions (coalesced there). The same applies to those that refer to it, up to
 * the wanted version.
 */
#include "store/internal.h"

#include <stdatomic.h>

#define OPEN_FILES  256
#define LEVEL_LIMIT 32

struct item {
	uint64_t version;
	struct kedge__digest image_id; /* expected by the version that refers to it */
	struct kedge__segment *seg;
	struct kedge__file_state file; /* before it was opened */
	size_t level;
	uint32_t tried; /* one bit per level: it did not open, or did not fit */
	bool alive;     /* reached from the top */
	bool base;      /* its bytes are needed to unpack blocks, so everything that it depends on is needed, too */
};

struct refused { /* a copy that opened, but has damaged blocks or depends on a version that is missing */
	uint64_t version;
	size_t level;
};

struct announced { /* a file of the first level that was announced to the kernel, kept open until it is used */
	uint64_t version;
	const struct kedge__set_part *part;
	char *path;
	struct kedge__file_state file; /* before it was opened */
	int fd;
	struct kedge__segment
	    *seg; /* it has been opened, by one of several threads; NULL: it has not, or could not be */
};

struct kedge__lineage {
	struct kedge__catalog **levels;
	size_t level_count;
	uint64_t version, stop_below;
	uint32_t rank;
	struct kedge__pool *pool;        /* opens segments; NULL: one after the other */
	const struct kedge__digest *top; /* the required image; NULL: the first that opens */
	struct item *items;              /* ascending versions */
	size_t count, room;
	KEDGE__ARRAY(struct refused) bad; /* permanent, even if the items are no longer needed */
	size_t open_files;
	KEDGE__ARRAY(struct announced) announced; /* ascending versions; while they are loaded */
	struct kedge__block_cache *cache;
	struct kedge__base_readers base_readers;
	_Atomic uint64_t unpacked; /* blocks */
	kedge__kept_fn kept;
	void *kept_ctx;
};

/* ------------------------------------------------------------------ one segment */

/* Drop what was decoded from SEG, which is about to be closed. */
static void forget_blocks(struct kedge__lineage *l, const struct kedge__segment *seg)
{
	if (l->cache)
		kedge__block_cache_drop(l->cache, seg);
	kedge__base_readers_drop(&l->base_readers, seg);
}

static void item_close(struct kedge__lineage *l, struct item *item)
{
	if (!item->seg)
		return;
	forget_blocks(l, item->seg);
	if (item->seg->fd >= 0)
		l->open_files--;
	kedge__segment_close(item->seg);
	item->seg = NULL;
}

static bool is_refused(const struct kedge__lineage *l, uint64_t version, size_t level)
{
	for (size_t i = 0; i < l->bad.count; i++)
		if (l->bad.at[i].version == version && l->bad.at[i].level == level)
			return true;
	return false;
}

/* Do not use ITEM's current copy again. */
static int item_refuse(struct kedge__lineage *l, const struct item *item, struct kedge__error *err)
{
	return kedge__array_push(&l->bad, ((struct refused){item->version, item->level})) ? 0 : kedge__error_nomem(err);
}

static const struct kedge__set_part *part_of(const struct kedge__lineage *l, size_t level, uint64_t version,
					     struct kedge__error *err)
{
	const struct kedge__catalog *cat = l->levels[level];
	const struct kedge__catalog_entry *entry = kedge__catalog_find(cat, version);

	if (!entry)
		(void)kedge__error_set(err, KEDGE_E_MISSING, 0, "version %" PRIu64 " is not in %s", version, cat->dir);
	else if (entry->problem.code)
		(void)kedge__error_set(err, entry->problem.code, 0, "version %" PRIu64 ": %s", version,
				       kedge__error_text(&entry->problem));
	else if (l->rank >= entry->set.ranks)
		(void)kedge__error_set(err, KEDGE_E_NOTFOUND, 0,
				       "version %" PRIu64 " in %s has no rank %" PRIu32 ": it was taken by %" PRIu32
				       " ranks",
				       version, cat->dir, l->rank, entry->set.ranks);
	else
		return &entry->set.parts[l->rank];
	return NULL;
}

/* What the number of a segment is the number of. */
static const char *unit(const struct kedge__lineage *l, uint64_t version)
{
	return kedge__levels_unit(l->levels, l->level_count, version);
}

/* ------------------------------------------------------------------ announcements */

static void announce(struct kedge__lineage *l, uint64_t version)
{
	struct announced fresh = {.version = version, .part = part_of(l, 0, version, NULL)};

	fresh.fd = kedge__pack_reopen(l->levels[0]);
	fresh.path = fresh.part ? kedge__part_path(l->levels[0], version, l->rank, fresh.part) : NULL;
	if (fresh.path && kedge__file_state_at(fresh.path, &fresh.file) &&
	    (fresh.fd >= 0 || kedge__fs_open_read(fresh.path, &fresh.fd, NULL) == 0)) {
		kedge__segment_announce(fresh.fd, fresh.part);
		if (kedge__array_push(&l->announced, fresh))
			return;
	}
	kedge__fs_close(fresh.fd);
	kedge__free(fresh.path);
}

/* Announce all that the version needs according to the manifests, so that storage fetches it at once instead of piece
 * by piece. */
static void announce_all(struct kedge__lineage *l)
{
	const struct kedge__catalog *cat = l->levels[0];
	size_t n = kedge__catalog_count(cat);
	uint8_t *marks = kedge__calloc(n + 1, 1);

	if (marks && kedge__catalog_mark(cat, l->version, true, marks, NULL) == 0)
		for (size_t i = 0; i < n && l->announced.count < OPEN_FILES; i++)
			if (marks[i] && kedge__catalog_at(cat, i)->version >= l->stop_below)
				announce(l, kedge__catalog_at(cat, i)->version);
	kedge__free(marks);
}

static int place_load(const struct kedge__lineage *l, size_t level, uint64_t version, const char *path,
		      const struct kedge__set_part *part, int fd, struct kedge__segment **out, struct kedge__error *err)
{
	const struct kedge__segment_place place = {.path = path,
						   .part = part,
						   .set = &kedge__catalog_find(l->levels[level], version)->set,
						   .bucket = l->levels[level]->bucket,
						   .fd = fd,
						   .levels = l->levels,
						   .level_count = l->level_count};

	return kedge__segment_load(&place, KEDGE__SEGMENT_ALL, NULL, out, err);
}

/* A failure is found again, and reported, by whoever needs the segment. */
static int announced_open(void *ctx, size_t i, int worker)
{
	struct kedge__lineage *l = ctx;
	struct announced *a = &l->announced.at[i];

	(void)worker;
	(void)place_load(l, 0, a->version, a->path, a->part, a->fd, &a->seg, NULL);
	a->fd = -1;
	return 0;
}

/* What was announced for VERSION, if it is on LEVEL and was not taken yet; otherwise NULL. */
static struct announced *announced_find(struct kedge__lineage *l, size_t level, uint64_t version)
{
	for (size_t i = 0; level == 0 && i < l->announced.count; i++)
		if (l->announced.at[i].version == version)
			return &l->announced.at[i];
	return NULL;
}

static void announced_done(struct kedge__lineage *l)
{
	for (size_t i = 0; i < l->announced.count; i++) {
		kedge__fs_close(l->announced.at[i].fd);
		kedge__segment_close(l->announced.at[i].seg);
		kedge__free(l->announced.at[i].path);
	}
	kedge__array_done(&l->announced);
}

/* ------------------------------------------------------------------ copies on several levels */

static int segment_load(struct kedge__lineage *l, struct item *item, size_t level, const char *path,
			const struct kedge__set_part *part, struct kedge__error *err)
{
	struct announced *a = announced_find(l, level, item->version);
	int fd = a ? a->fd : -1;

	if (a)
		item->file = a->file;
	else if (!kedge__file_state_at(path, &item->file))
		memset(&item->file, 0, sizeof(item->file));
	if (a && a->seg) {
		item->seg = a->seg;
		a->seg = NULL;
		return 0;
	}
	if (a)
		a->fd = -1;
	return place_load(l, level, item->version, path, part, fd, &item->seg, err);
}

/* Open the copy of ITEM on LEVEL. EXPECTED_BY: the version that refers to it; its own number if it is the top. */
static int item_try(struct kedge__lineage *l, struct item *item, size_t level, uint64_t expected_by,
		    struct kedge__error *err)
{
	const struct kedge__set_part *part = part_of(l, level, item->version, err);
	char *path;
	int rc;

	if (!part)
		return err->code;
	if (item->version == l->version && l->top && !kedge__digest_equal(part->image_id, *l->top))
		return kedge__error_set(err, KEDGE_E_MISSING, 0,
					"%s has version %" PRIu64 " of %s %" PRIu32 " only from an abandoned run",
					l->levels[level]->dir, item->version, unit(l, item->version), l->rank);
	if (expected_by != item->version && !kedge__digest_equal(part->image_id, item->image_id))
		return kedge__error_set(
		    err, KEDGE_E_MISSING, 0,
		    "version %" PRIu64 " of %s %" PRIu32 " in %s was replaced since version %" PRIu64 " was taken",
		    item->version, unit(l, item->version), l->rank, l->levels[level]->dir, expected_by);
	path = kedge__part_path(l->levels[level], item->version, l->rank, part);
	rc = path ? segment_load(l, item, level, path, part, err) : kedge__error_nomem(err);
	kedge__free(path);
	if (rc)
		return rc;
	item->image_id = part->image_id;
	item->level = level;
	if (l->open_files < OPEN_FILES)
		l->open_files++;
	else
		kedge__segment_park(item->seg);
	return 0;
}

/* Open ITEM on the next level that was not tried. The error is the first one: that of the fastest level. */
static int item_load(struct kedge__lineage *l, struct item *item, uint64_t expected_by, struct kedge__error *err)
{
	struct kedge__error first = KEDGE__ERROR_INIT, problem = KEDGE__ERROR_INIT;
	int rc = KEDGE_E_MISSING;

	item_close(l, item);
	for (size_t level = 0; level < l->level_count; level++) {
		if (item->tried & (UINT32_C(1) << level) || is_refused(l, item->version, level))
			continue;
		item->tried |= UINT32_C(1) << level;
		rc = item_try(l, item, level, expected_by, &problem);
		if (!rc || rc == KEDGE_E_NOMEM)
			break;
		/* An error about damage is more useful than one about absence. */
		if (!first.code || (first.code == KEDGE_E_MISSING && rc != KEDGE_E_MISSING))
			kedge__error_move(&first, &problem);
	}
	if (!rc && first.code)
		kedge__log(KEDGE_LOG_NOTICE, "version %" PRIu64 ", %s %" PRIu32 " is read from %s instead: %s",
			   item->version, unit(l, item->version), l->rank, l->levels[item->level]->store,
			   kedge__error_text(&first));
	if (rc && !first.code)
		(void)kedge__error_set(&first, KEDGE_E_MISSING, 0,
				       "version %" PRIu64 " of %s %" PRIu32 " has no other copy", item->version,
				       unit(l, item->version), l->rank);
	if (rc == KEDGE_E_NOMEM) {
		(void)kedge__error_nomem(err);
	} else if (rc) {
		rc = first.code;
		kedge__error_move(err, &first);
	}
	kedge__error_done(&first);
	kedge__error_done(&problem);
	return rc;
}

/* ------------------------------------------------------------------ all of them */

static size_t item_index(const struct kedge__lineage *l, uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, l->count, l->items[i].version < version);
	return i;
}

static struct item *item_find(const struct kedge__lineage *l, uint64_t version)
{
	size_t i = item_index(l, version);

	return i < l->count && l->items[i].version == version ? &l->items[i] : NULL;
}

static struct item *item_add(struct kedge__lineage *l, uint64_t version, struct kedge__error *err)
{
	size_t i = item_index(l, version);

	if (!kedge__array_grow((void **)&l->items, &l->room, l->count + 1, sizeof(*l->items))) {
		(void)kedge__error_nomem(err);
		return NULL;
	}
	memmove(l->items + i + 1, l->items + i, (l->count - i) * sizeof(*l->items));
	l->items[i] = (struct item){.version = version};
	l->count++;
	return &l->items[i];
}

/* Make sure that the version named by SOURCE of version FROM is loaded. */
static int source_load(struct kedge__lineage *l, uint64_t from, const struct kedge__source_record *source,
		       struct kedge__error *err)
{
	struct item *item = item_find(l, source->version);

	if (item && item->seg) {
		if (kedge__digest_equal(item->image_id, source->image_id))
			return 0;
		return kedge__error_set(err, KEDGE_E_MISSING, 0,
					"version %" PRIu64 " of %s %" PRIu32 " was replaced since version %" PRIu64
					" was taken",
					source->version, unit(l, source->version), l->rank, from);
	}
	if (!item) {
		item = item_add(l, source->version, err);
		if (!item)
			return KEDGE_E_NOMEM;
	}
	/* Earlier expectations no longer apply: try all levels again. */
	item->image_id = source->image_id;
	item->tried = 0;
	return item_load(l, item, from, err);
}

/* A version needed to unpack blocks is needed with everything that it depends on, even below the version to stop at.
 * Newer versions come first, so it is already known whether this one is needed in that way. */
static int sources_load(struct kedge__lineage *l, uint64_t version, struct kedge__error *err)
{
	const struct item *item = item_find(l, version);
	const struct kedge__segment *seg = item->seg;
	bool base = item->base;
	int rc = 0;

	for (size_t i = 0; i < seg->source_count && !rc; i++) {
		uint64_t source = seg->sources[i].version;

		if (source < l->stop_below && !base && source != seg->base)
			continue;
		rc = source_load(l, version, &seg->sources[i], err);
		if (!rc && (base || source == seg->base))
			item_find(l, source)->base = true;
	}
	if (rc)
		(void)kedge__error_prefix(err, "version %" PRIu64 " cannot be read", version);
	return rc;
}

static void mark_alive(struct kedge__lineage *l)
{
	for (size_t i = 0; i < l->count; i++)
		l->items[i].alive = l->items[i].version == l->version;
	for (size_t i = l->count; i-- > 0;) {
		const struct kedge__segment *seg = l->items[i].seg;

		for (size_t k = 0; l->items[i].alive && seg && k < seg->source_count; k++) {
			struct item *item = item_find(l, seg->sources[k].version);

			if (item)
				item->alive = true;
		}
	}
}

static void drop_dead(struct kedge__lineage *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->count; i++) {
		if (l->items[i].alive)
			l->items[kept++] = l->items[i];
		else
			item_close(l, &l->items[i]);
	}
	l->count = kept;
}

/* Newest first: references go to older versions only, so items that were passed need no second visit. *VERSION is where
 * it ended. */
static int walk_closure(struct kedge__lineage *l, uint64_t *version, struct kedge__error *err)
{
	*version = l->version;
	for (;;) {
		size_t i;
		int rc = sources_load(l, *version, err);

		if (rc)
			return rc;
		mark_alive(l);
		for (i = item_index(l, *version); i > 0 && !l->items[i - 1].alive;)
			i--;
		if (i == 0)
			return 0;
		*version = l->items[i - 1].version;
	}
}

static int load_closure(struct kedge__lineage *l, struct kedge__error *err)
{
	struct kedge__error first = KEDGE__ERROR_INIT, problem = KEDGE__ERROR_INIT;
	uint64_t version;
	int rc;

	while ((rc = walk_closure(l, &version, &problem)) != 0 && rc != KEDGE_E_NOMEM) {
		struct item *item = item_find(l, version);

		if (item_refuse(l, item, &problem)) {
			rc = KEDGE_E_NOMEM;
			break;
		}
		item_close(l, item);
		if (!first.code)
			kedge__error_move(&first, &problem);
		if (version == l->version && item_load(l, item, KEDGE__NO_VERSION, NULL) != 0)
			break;
	}
	if (!rc && first.code)
		kedge__log(KEDGE_LOG_NOTICE,
			   "version %" PRIu64 ", %s %" PRIu32 " is reconstructed from other copies: %s", l->version,
			   unit(l, l->version), l->rank, kedge__error_text(&first));
	if (rc && rc != KEDGE_E_NOMEM) {
		rc = first.code;
		kedge__error_move(err, &first);
	} else if (rc) {
		kedge__error_move(err, &problem);
	} else {
		drop_dead(l);
	}
	kedge__error_done(&first);
	kedge__error_done(&problem);
	return rc;
}

/* L has levels, version and rank: load all that the version needs. */
static int load_all(struct kedge__lineage *l, struct kedge__error *err)
{
	struct item *top = item_add(l, l->version, err);
	int rc = top ? 0 : KEDGE_E_NOMEM;

	/* The newest version comes first and needs the tables of all others. */
	kedge__region_tables_hold(l->levels[0]->tables);
	if (!rc) {
		announce_all(l);
		if (kedge__pool_threads(l->pool) > 1)
			(void)kedge__pool_for(l->pool, l->announced.count, announced_open, l);
		rc = item_load(l, top, l->version, err);
	}
	if (!rc)
		rc = load_closure(l, err);
	kedge__region_tables_release(l->levels[0]->tables);
	announced_done(l);
	return rc;
}

static struct kedge__lineage *lineage_new(struct kedge__catalog *const *levels, size_t n, uint64_t version,
					  uint32_t rank, uint64_t stop_below, struct kedge__error *err)
{
	struct kedge__lineage *l = kedge__calloc(1, sizeof(*l));

	if (l) {
		kedge__base_readers_init(&l->base_readers);
		l->levels = kedge__calloc(n, sizeof(*l->levels));
	}
	if (!l || !l->levels) {
		kedge__lineage_close(l);
		(void)kedge__error_nomem(err);
		return NULL;
	}
	memcpy(l->levels, levels, n * sizeof(*levels));
	l->level_count = n;
	l->version = version;
	l->rank = rank;
	l->stop_below = stop_below;
	return l;
}

static int lineage_load(struct kedge__lineage *l, struct kedge__lineage **out, struct kedge__error *err)
{
	int rc = l ? load_all(l, err) : KEDGE_E_NOMEM;

	if (rc) {
		kedge__lineage_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

static int check_levels(size_t n, struct kedge__error *err)
{
	return n && n <= LEVEL_LIMIT
		   ? 0
		   : kedge__error_set(err, KEDGE_E_ARG, 0, "%zu levels: must be 1 to %d", n, LEVEL_LIMIT);
}

int kedge__lineage_open_from(struct kedge__catalog *const *levels, size_t n, uint64_t version, uint32_t rank,
			     uint64_t stop_below, struct kedge__lineage **out, struct kedge__error *err)
{
	int rc = check_levels(n, err);

	return rc ? rc : lineage_load(lineage_new(levels, n, version, rank, stop_below, err), out, err);
}

int kedge__lineage_open_by(struct kedge__pool *pool, struct kedge__catalog *const *levels, size_t n, uint64_t version,
			   uint32_t rank, struct kedge__lineage **out, struct kedge__error *err)
{
	struct kedge__lineage *l;
	int rc = check_levels(n, err);

	if (rc)
		return rc;
	l = lineage_new(levels, n, version, rank, 0, err);
	if (l)
		l->pool = pool;
	return lineage_load(l, out, err);
}

int kedge__lineage_open(struct kedge__catalog *const *levels, size_t n, uint64_t version, uint32_t rank,
			struct kedge__lineage **out, struct kedge__error *err)
{
	return kedge__lineage_open_by(NULL, levels, n, version, rank, out, err);
}

int kedge__lineage_join(struct kedge__catalog *cat, uint32_t rank, struct kedge__segment *const *segs, size_t n,
			struct kedge__lineage **out, struct kedge__error *err)
{
	struct kedge__lineage *l = lineage_new(&cat, 1, KEDGE__NO_VERSION, rank, 0, err);

	if (!l)
		return KEDGE_E_NOMEM;
	if (!kedge__array_grow((void **)&l->items, &l->room, n + 1, sizeof(*l->items))) {
		kedge__lineage_close(l);
		return kedge__error_nomem(err);
	}
	for (size_t i = 0; i < n; i++) {
		l->items[l->count++] = (struct item){
		    .version = segs[i]->header.version, .image_id = segs[i]->summary.image_id, .seg = segs[i]};
		l->open_files += segs[i]->fd >= 0;
	}
	*out = l;
	return 0;
}

void kedge__lineage_close(struct kedge__lineage *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->count; i++)
		item_close(l, &l->items[i]);
	kedge__block_cache_free(l->cache);
	kedge__base_readers_done(&l->base_readers);
	kedge__array_done(&l->bad);
	kedge__free(l->items);
	kedge__free(l->levels);
	kedge__free(l);
}

const struct kedge__segment *kedge__lineage_top(const struct kedge__lineage *l)
{
	return l->items[l->count - 1].seg;
}

const struct kedge__segment *kedge__lineage_segment(const struct kedge__lineage *l, uint64_t version)
{
	const struct item *item = item_find(l, version);

	return item ? item->seg : NULL;
}

size_t kedge__lineage_count(const struct kedge__lineage *l)
{
	return l->count;
}

const struct kedge__segment *kedge__lineage_at(const struct kedge__lineage *l, size_t i)
{
	return l->items[i].seg;
}

bool kedge__lineage_needs_others(const struct kedge__lineage *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].level)
			return true;
	return false;
}

/* Load everything again without the bad copies: versions that refer to one of them may need other copies, too. */
static int load_again(struct kedge__lineage *l, struct kedge__error *err)
{
	struct kedge__lineage *fresh = lineage_new(l->levels, l->level_count, l->version, l->rank, l->stop_below, err);
	struct kedge__lineage old = *l;
	const struct item *top = item_find(l, l->version);
	int rc;

	if (!fresh)
		return KEDGE_E_NOMEM;
	fresh->pool = l->pool;
	fresh->bad = l->bad;
	fresh->top = top ? &top->image_id : NULL;
	rc = load_all(fresh, err);
	old.bad = fresh->bad;
	memset(&fresh->bad, 0, sizeof(fresh->bad));
	if (!rc) {
		kedge__base_readers_done(&l->base_readers); /* their contents came from the old segments */
		kedge__base_readers_init(&l->base_readers);
		l->items = fresh->items;
		l->count = fresh->count;
		l->room = fresh->room;
		l->open_files = fresh->open_files;
		l->cache = NULL;
		fresh->items = old.items;
		fresh->count = old.count;
		fresh->room = old.room;
		fresh->open_files = old.open_files;
		fresh->cache = old.cache;
	}
	l->bad = old.bad;
	kedge__lineage_close(fresh);
	return rc;
}

int kedge__lineage_replace(struct kedge__lineage *l, uint64_t version, struct kedge__error *err)
{
	struct item *item = item_find(l, version);
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc;

	if (!item)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"version %" PRIu64 " is not in the lineage of version %" PRIu64, version,
					l->version);
	rc = item_refuse(l, item, &problem);
	if (!rc)
		rc = load_again(l, &problem);
	if (rc)
		rc = kedge__error_set(err, rc == KEDGE_E_NOMEM ? rc : KEDGE_E_DAMAGED, 0,
				      "version %" PRIu64 " of %s %" PRIu32
				      " is damaged and has no intact copy elsewhere: %s",
				      version, unit(l, version), l->rank, kedge__error_text(&problem));
	kedge__error_done(&problem);
	return rc;
}

/* ------------------------------------------------------------------ files that were changed
 *
 * A segment is never written to once its set is published. One whose times are later than the manifest's was changed,
 * or comes from a copy of the store. */

static bool is_untouched(const struct kedge__lineage *l, const struct item *item)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(l->levels[item->level], item->version);
	struct kedge__file_state now;

	return entry && kedge__file_state_at(item->seg->path, &now) && now.mtime_ns <= entry->file.mtime_ns &&
	       now.ctime_ns <= entry->file.mtime_ns;
}

bool kedge__lineage_untouched(const struct kedge__lineage *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (!is_untouched(l, &l->items[i]))
			return false;
	return true;
}

bool kedge__lineage_current(const struct kedge__lineage *l)
{
	struct kedge__file_state now;

	for (size_t i = 0; i < l->count; i++)
		if (!kedge__file_state_at(l->items[i].seg->path, &now) ||
		    !kedge__file_state_equal(&now, &l->items[i].file))
			return false;
	return true;
}

static void touch(const struct kedge__lineage *l, uint64_t version, size_t level)
{
	const struct kedge__set_part *part = part_of(l, level, version, NULL);
	char *path = part ? kedge__part_path(l->levels[level], version, l->rank, part) : NULL;

	if (path)
		(void)kedge__fs_touch(path, NULL); /* a store that is only read stays as it is */
	kedge__free(path);
}

void kedge__lineage_distrust(const struct kedge__lineage *l)
{
	for (size_t i = 0; i < l->bad.count; i++)
		touch(l, l->bad.at[i].version, l->bad.at[i].level);
	for (size_t i = 0; !l->bad.count && i < l->count; i++)
		touch(l, l->items[i].version, l->items[i].level);
}

/* ------------------------------------------------------------------ what others need of it */

uint64_t kedge__lineage_version(const struct kedge__lineage *l)
{
	return l->version;
}

struct kedge__block_cache **kedge__lineage_cache(struct kedge__lineage *l)
{
	return &l->cache;
}

struct kedge__base_readers *kedge__lineage_base_readers(struct kedge__lineage *l)
{
	return &l->base_readers;
}

void kedge__lineage_count_block(struct kedge__lineage *l)
{
	if (l)
		atomic_fetch_add_explicit(&l->unpacked, 1, memory_order_relaxed);
}

void kedge__lineage_set_kept(struct kedge__lineage *l, kedge__kept_fn kept, void *ctx)
{
	l->kept = kept;
	l->kept_ctx = ctx;
}

bool kedge__lineage_kept(const struct kedge__lineage *l, const struct kedge__segment *seg, size_t block, void *raw,
			 unsigned *depth)
{
	return l->kept && l->kept(l->kept_ctx, seg, block, raw, depth);
}

uint64_t kedge__lineage_unpacked(const struct kedge__lineage *l)
{
	return atomic_load(&l->unpacked);
}
