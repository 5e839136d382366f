/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of regions: section REGN of a segment as image ids are computed from it. A segment may hold only what its
 * table has that its parent's has not (FORMAT.md, "Differences of REGN"); then the parent's comes first, down to a
 * version that has all of its own. A table is known by its image id, so it does not matter which copy of a version it
 * came from, and what was reconstructed is checked. The last ones are remembered: most versions have the table of the
 * version before.
 */
#include "store/internal.h"

#include <stdatomic.h>

#define KEPT_COUNT  64                  /* tables at most, */
#define KEPT_BYTES  (UINT64_C(4) << 20) /* and this many bytes, but always */
#define KEPT_LEAST  2
#define DEPTH_MAX   256 /* differences that are written one on top of the other */
#define TABLE_LEAST 512 /* bytes: a smaller one is always written as it is */

struct kedge__region_tables {
	pthread_mutex_t mutex;
	KEDGE__ARRAY(struct kedge__region_table *) list; /* the one that was used last at the end */
	uint64_t bytes;
	size_t holds;
};

struct kedge__region_tables *kedge__region_tables_new(void)
{
	struct kedge__region_tables *t = kedge__calloc(1, sizeof(*t));

	if (t)
		pthread_mutex_init(&t->mutex, NULL);
	return t;
}

void kedge__region_table_drop(struct kedge__region_table *table)
{
	if (!table || atomic_fetch_sub(&table->users, 1) > 1)
		return;
	kedge__bytes_done(&table->text);
	kedge__free(table);
}

static void remove_at(struct kedge__region_tables *t, size_t i)
{
	t->bytes -= t->list.at[i]->text.count;
	memmove(&t->list.at[i], &t->list.at[i + 1], (t->list.count - i - 1) * sizeof(*t->list.at));
	t->list.count--;
}

static void trim(struct kedge__region_tables *t, size_t least)
{
	while (!t->holds && t->list.count > least && (t->bytes > KEPT_BYTES || t->list.count > KEPT_COUNT || !least)) {
		struct kedge__region_table *oldest = t->list.at[0];

		remove_at(t, 0);
		kedge__region_table_drop(oldest);
	}
}

void kedge__region_tables_free(struct kedge__region_tables *t)
{
	if (!t)
		return;
	t->holds = 0;
	trim(t, 0);
	kedge__array_done(&t->list);
	pthread_mutex_destroy(&t->mutex);
	kedge__free(t);
}

void kedge__region_tables_hold(struct kedge__region_tables *t)
{
	pthread_mutex_lock(&t->mutex);
	t->holds++;
	pthread_mutex_unlock(&t->mutex);
}

void kedge__region_tables_release(struct kedge__region_tables *t)
{
	pthread_mutex_lock(&t->mutex);
	t->holds--;
	trim(t, KEPT_LEAST);
	pthread_mutex_unlock(&t->mutex);
}

static size_t index_of(const struct kedge__region_tables *t, const struct kedge__digest *image_id)
{
	size_t i = t->list.count;

	while (i > 0 && !kedge__digest_equal(t->list.at[i - 1]->image_id, *image_id))
		i--;
	return i ? i - 1 : SIZE_MAX;
}

static struct kedge__region_table *find(struct kedge__region_tables *t, const struct kedge__digest *image_id)
{
	struct kedge__region_table *found = NULL;
	size_t i;

	pthread_mutex_lock(&t->mutex);
	i = index_of(t, image_id);
	if (i != SIZE_MAX) {
		found = t->list.at[i];
		memmove(&t->list.at[i], &t->list.at[i + 1], (t->list.count - i - 1) * sizeof(*t->list.at));
		t->list.at[t->list.count - 1] = found;
		atomic_fetch_add(&found->users, 1);
	}
	pthread_mutex_unlock(&t->mutex);
	return found;
}

/* VERSION has TABLE, with DEPTH differences of so many bytes below it. */
static void note_version(struct kedge__region_table *table, uint64_t version, unsigned depth, uint64_t chain_bytes)
{
	if (version < table->version)
		return;
	table->version = version;
	table->depth = depth;
	table->chain_bytes = chain_bytes;
}

/* Remember TABLE. If one with the same id is there already, that one stays. Failure only means that it is loaded again.
 */
static void remember(struct kedge__region_tables *t, struct kedge__region_table *table)
{
	size_t i;

	pthread_mutex_lock(&t->mutex);
	i = index_of(t, &table->image_id);
	if (i != SIZE_MAX && t->list.at[i] != table) {
		note_version(t->list.at[i], table->version, table->depth, table->chain_bytes);
	} else if (i == SIZE_MAX && kedge__array_push(&t->list, table)) {
		atomic_fetch_add(&table->users, 1);
		t->bytes += table->text.count;
		trim(t, KEPT_LEAST);
	}
	pthread_mutex_unlock(&t->mutex);
}

/* The table takes over TEXT, in any case. */
static struct kedge__region_table *table_new(uint64_t version, struct kedge__digest image_id, struct kedge__bytes *text)
{
	struct kedge__region_table *table = kedge__calloc(1, sizeof(*table));

	if (!table) {
		kedge__bytes_done(text);
		return NULL;
	}
	table->version = version;
	table->image_id = image_id;
	table->text = *text;
	*text = (struct kedge__bytes){0};
	atomic_init(&table->users, 1);
	return table;
}

/* ------------------------------------------------------------------ load */

/* Read the section of VERSION from the first level where that works. */
static int read_section(const struct kedge__region_table_place *p, const struct kedge__source_record *source,
			struct kedge__region_table_section *out, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc = KEDGE_E_MISSING;

	for (size_t i = 0; i < p->level_count && rc && rc != KEDGE_E_NOMEM; i++) {
		const struct kedge__catalog_entry *entry = kedge__catalog_find(p->levels[i], source->version);
		const struct kedge__set_part *part =
		    entry && !entry->problem.code && p->rank < entry->set.ranks ? &entry->set.parts[p->rank] : NULL;
		struct kedge__segment_place place = {.part = part, .fd = -1, .bucket = p->levels[i]->bucket};
		char *path;

		if (!part || !kedge__digest_equal(part->image_id, source->image_id))
			continue;
		path = kedge__part_path(p->levels[i], source->version, p->rank, part);
		place.path = path;
		rc = path ? kedge__segment_read_table(&place, out, &problem) : kedge__error_nomem(&problem);
		kedge__free(path);
		if (rc && !err->code)
			kedge__error_move(err, &problem);
	}
	if (rc && !err->code)
		rc = kedge__error_set(err, KEDGE_E_MISSING, 0, "version %" PRIu64 " of rank %" PRIu32 " is missing",
				      source->version, p->rank);
	else if (rc)
		rc = err->code;
	else
		kedge__error_done(err);
	kedge__error_done(&problem);
	return rc;
}

struct step { /* a version on the way down to one that has all of its table */
	struct kedge__source_record version;
	struct kedge__region_table_section section;
};

struct steps {
	struct step *at;
	size_t count, room;
};

static void steps_done(struct steps *s)
{
	for (size_t i = 0; i < s->count; i++)
		kedge__bytes_done(&s->at[i].section.text);
	kedge__array_done(s);
}

/* Go down from SOURCE until a table is known (*KNOWN), or the last step has all of it. */
static int go_down(const struct kedge__region_table_place *p, struct kedge__source_record source, struct steps *steps,
		   struct kedge__region_table **known, struct kedge__error *err)
{
	for (;;) {
		struct step step = {.version = source};
		int rc;

		*known = find(p->levels[0]->tables, &source.image_id);
		if (*known)
			return 0;
		rc = read_section(p, &source, &step.section, err);
		if (rc)
			return rc;
		if (!kedge__array_push(steps, step)) {
			kedge__bytes_done(&step.section.text);
			return kedge__error_nomem(err);
		}
		if (!step.section.changes)
			return 0;
		source = step.section.base; /* an older version, so this ends */
	}
}

/* The text of STEP's table, with its image id. */
static int step_text(struct step *step, const struct kedge__region_table *base, struct kedge__bytes *text,
		     struct kedge__error *err)
{
	int rc = 0;

	if (step->section.changes) {
		rc = kedge__regions_apply(base->text.at, base->text.count, step->section.text.at,
					  step->section.text.count, text, err);
	} else {
		*text = step->section.text;
		step->section.text = (struct kedge__bytes){0};
	}
	if (!rc && !kedge__digest_equal(kedge__seal(text->at, text->count), step->version.image_id))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0,
				      "the table of regions of version %" PRIu64 " does not have its image id",
				      step->version.version);
	return rc;
}

/* What STEP makes of BASE, which is NULL if it has all of its table. BASE is dropped, or it is the result. */
static int go_up(struct step *step, struct kedge__region_table *base, struct kedge__region_table **out,
		 struct kedge__error *err)
{
	unsigned depth = step->section.changes ? base->depth + 1 : 0;
	uint64_t chain_bytes = step->section.changes ? base->chain_bytes + step->section.text.count : 0;
	struct kedge__bytes text = {0};
	int rc;

	if (step->section.changes && step->section.text.count == 0 &&
	    kedge__digest_equal(base->image_id, step->version.image_id)) {
		note_version(base, step->version.version, depth, chain_bytes);
		*out = base;
		return 0;
	}
	rc = step_text(step, base, &text, err);
	kedge__region_table_drop(base);
	if (rc) {
		kedge__bytes_done(&text);
		return rc;
	}
	*out = table_new(step->version.version, step->version.image_id, &text);
	if (!*out)
		return kedge__error_nomem(err);
	(*out)->depth = depth;
	(*out)->chain_bytes = chain_bytes;
	return 0;
}

int kedge__region_table_load(const struct kedge__region_table_place *p, struct kedge__source_record source,
			     struct kedge__region_table **out, struct kedge__error *err)
{
	struct kedge__region_table *table = NULL, *next;
	struct steps steps = {0};
	int rc;

	rc = go_down(p, source, &steps, &table, err);
	for (size_t i = steps.count; i-- > 0 && !rc;) {
		next = NULL;
		rc = go_up(&steps.at[i], table, &next, err);
		table = next;
		if (!rc)
			remember(p->levels[0]->tables, table);
	}
	steps_done(&steps);
	if (rc)
		return rc;
	*out = table;
	return 0;
}

/* ------------------------------------------------------------------ write */

static const struct kedge__source_record *parent_of(const struct kedge__segment_spec *spec)
{
	for (size_t i = 0; i < spec->source_count; i++)
		if (spec->sources[i].version == spec->reduction->parent)
			return &spec->sources[i];
	return NULL;
}

/* The parent's table, if a difference to it may be written: a chain of them is bounded in length, and takes no more
 * bytes than a table. */
static struct kedge__region_table *base_of(struct kedge__catalog *cat, const struct kedge__segment_spec *spec,
					   size_t bytes)
{
	const struct kedge__source_record *parent = parent_of(spec);
	const struct kedge__region_table_place place = {.levels = &cat, .level_count = 1, .rank = spec->rank};
	struct kedge__error problem = KEDGE__ERROR_INIT;
	struct kedge__region_table *base = NULL;

	if (!parent)
		return NULL;
	(void)kedge__region_table_load(&place, *parent, &base, &problem);
	kedge__error_done(&problem);
	if (base && (base->depth >= DEPTH_MAX || base->chain_bytes >= bytes)) {
		kedge__region_table_drop(base);
		base = NULL;
	}
	return base;
}

/* The next version will need TEXT, which is copied. */
static void remember_text(struct kedge__region_tables *t, uint64_t version, struct kedge__digest image_id,
			  const struct kedge__bytes *text, unsigned depth, uint64_t chain_bytes)
{
	struct kedge__bytes copy = {.at = kedge__malloc(text->count), .count = text->count, .room = text->count};
	struct kedge__region_table *table;

	if (!copy.at)
		return;
	memcpy(copy.at, text->at, text->count);
	table = table_new(version, image_id, &copy);
	if (!table)
		return;
	table->depth = depth;
	table->chain_bytes = chain_bytes;
	remember(t, table);
	kedge__region_table_drop(table);
}

int kedge__region_table_write(struct kedge__catalog *cat, const struct kedge__segment_spec *spec,
			      struct kedge__digest image_id, struct kedge__bytes *text, bool *changes,
			      struct kedge__error *err)
{
	struct kedge__bytes difference = {0};
	struct kedge__region_table *base;
	bool same;
	unsigned depth;
	uint64_t chain_bytes;
	int rc = 0;

	*changes = false;
	if (text->count < TABLE_LEAST)
		return 0;
	base = base_of(cat, spec, text->count);
	same = base && kedge__digest_equal(base->image_id, image_id);
	if (base && !same)
		rc = kedge__regions_subtract(base->text.at, base->text.count, text->at, text->count, &difference, err);
	*changes = !rc && base && difference.count < text->count / 2;
	depth = *changes ? base->depth + 1 : 0;
	chain_bytes = *changes ? base->chain_bytes + difference.count : 0;
	if (same)
		note_version(base, spec->version, depth, chain_bytes);
	else
		remember_text(cat->tables, spec->version, image_id, text, depth, chain_bytes);
	if (*changes) {
		struct kedge__bytes full = *text;

		*text = difference;
		difference = full;
	}
	kedge__bytes_done(&difference);
	kedge__region_table_drop(base);
	return rc;
}
