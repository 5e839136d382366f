/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's segments of versions that refer to each other. Nothing is restored: the digests of every version's regions
 * are computed from its changes, block by block, and compared with the recorded ones.
 */
#include "store/verify.h"

#include <stdlib.h>

#define OPEN_FILES 256

size_t kedge__family_find(const struct kedge__family *f, uint64_t version)
{
	const struct kedge__catalog *cat = f->verifier->cat;
	size_t i;

	KEDGE__PARTITION_POINT(i, f->count, kedge__catalog_at(cat, f->members[i].entry)->version < version);
	return i < f->count && kedge__catalog_at(cat, f->members[i].entry)->version == version ? i : KEDGE__NO_MEMBER;
}

void kedge__member_fail(struct kedge__family *f, size_t member, struct kedge__error *problem)
{
	pthread_mutex_lock(&f->mutex);
	if (!f->members[member].failed)
		kedge__error_move(&f->members[member].problem, problem);
	f->members[member].failed = true;
	pthread_mutex_unlock(&f->mutex);
}

/* ------------------------------------------------------------------ segments */

static int member_load(void *ctx, size_t i, int worker)
{
	struct kedge__family *f = ctx;
	struct kedge__member *m = &f->members[i];
	const struct kedge__set *set = &kedge__catalog_at(f->verifier->cat, m->entry)->set;
	const struct kedge__set_part *part = &set->parts[f->rank];
	struct kedge__segment_place place = {
	    .part = part, .set = set, .fd = -1, .levels = &f->verifier->cat, .level_count = 1};
	int rc;

	(void)worker;
	m->path = kedge__part_path(f->verifier->cat, set->version, f->rank, part);
	if (!m->path)
		return KEDGE_E_NOMEM;
	place.path = m->path;
	rc = kedge__segment_load(&place, KEDGE__SEGMENT_ALL, &m->section, &m->seg, &m->problem);
	if (!rc && atomic_fetch_add(&f->open_files, 1) >= OPEN_FILES)
		kedge__segment_park(m->seg);
	m->failed = rc != 0;
	return rc == KEDGE_E_NOMEM ? rc : 0;
}

static void report_load(struct kedge__family *f, const struct kedge__member *m)
{
	struct kedge__verifier *v = f->verifier;
	struct kedge__finding finding = {.version = kedge__catalog_at(v->cat, m->entry)->version,
					 .rank = f->rank,
					 .block = -1,
					 .file = m->path,
					 .section = m->section,
					 .text = kedge__error_text(&m->problem)};

	v->vanished[m->entry] |= kedge__verifier_was_replaced(v, m->entry, f->rank);
	/* Nothing is wrong with it, but with a version whose table of regions it continues: judge_members() says so. */
	if (v->vanished[m->entry] || strcmp(m->section, "lineage") == 0)
		return;
	v->damaged[m->entry] = 1;
	kedge__verifier_report(v, &finding);
}

static int load_members(struct kedge__family *f, struct kedge__error *err)
{
	struct kedge__verifier *v = f->verifier;

	if (kedge__pool_for(v->pool, f->count, member_load, f))
		return kedge__error_nomem(err);
	for (size_t i = 0; i < f->count; i++) {
		struct kedge__member *m = &f->members[i];

		m->first_block = f->block_count;
		m->first_sum = f->sum_count;
		if (!m->seg) {
			report_load(f, m);
			continue;
		}
		f->block_count += m->seg->block_count;
		f->sum_count += m->seg->region_count;
		v->report->segments++;
		kedge__verifier_advance(v, m->seg->footer.file_bytes - m->seg->footer.payload_bytes);
	}
	return 0;
}

/* All segments there are as one lineage, though no single version needs them all. */
static int join_members(struct kedge__family *f, struct kedge__error *err)
{
	struct kedge__segment **segs = kedge__calloc(f->count + 1, sizeof(*segs));
	size_t n = 0;
	int rc;

	for (size_t i = 0; segs && i < f->count; i++)
		if (f->members[i].seg)
			segs[n++] = f->members[i].seg;
	rc = segs ? kedge__lineage_join(f->verifier->cat, f->rank, segs, n, &f->lineage, err) : kedge__error_nomem(err);
	kedge__free(segs);
	return rc;
}

/* ------------------------------------------------------------------ what they refer to */

static int check_source(const struct kedge__family *f, const struct kedge__source_record *source,
			struct kedge__error *err)
{
	size_t i = kedge__family_find(f, source->version);
	const struct kedge__member *m = i == KEDGE__NO_MEMBER ? NULL : &f->members[i];

	if (!m)
		return kedge__error_set(err, KEDGE_E_MISSING, 0, "version %" PRIu64 " of %s %" PRIu32 " is not in %s",
					source->version, kedge__levels_unit(&f->verifier->cat, 1, source->version),
					f->rank, f->verifier->cat->dir);
	if (m->failed)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"version %" PRIu64 ", which it needs, cannot be read either: %s",
					source->version, kedge__error_text(&m->problem));
	if (!kedge__digest_equal(m->seg->summary.image_id, source->image_id))
		return kedge__error_set(err, KEDGE_E_MISSING, 0,
					"version %" PRIu64 " of %s %" PRIu32 " in %s was replaced afterwards",
					source->version, kedge__levels_unit(&f->verifier->cat, 1, source->version),
					f->rank, f->verifier->cat->dir);
	return 0;
}

/* As when a lineage is opened: a version cannot be read unless all its sources, and theirs, are present, whatever it
 * uses of them. */
static void check_sources(struct kedge__family *f)
{
	for (size_t i = 0; i < f->count; i++) {
		struct kedge__member *m = &f->members[i];
		struct kedge__error problem = KEDGE__ERROR_INIT;
		int rc = 0;

		for (size_t k = 0; m->seg && k < m->seg->source_count && !rc; k++)
			rc = check_source(f, &m->seg->sources[k], &problem);
		if (rc) {
			(void)kedge__error_prefix(&problem, "version %" PRIu64 " cannot be read",
						  m->seg->header.version);
			kedge__member_fail(f, i, &problem);
		}
		kedge__error_done(&problem);
		m->parent = m->seg && m->seg->summary.parent != KEDGE__NO_VERSION
				? kedge__family_find(f, m->seg->summary.parent)
				: KEDGE__NO_MEMBER;
	}
}

/* ------------------------------------------------------------------ their digests */

static void carry_sums(struct kedge__family *f, const struct kedge__member *m)
{
	const struct kedge__member *parent = &f->members[m->parent];

	for (size_t i = 0; i < m->seg->region_count; i++) {
		size_t old = kedge__segment_slot_region(parent->seg, m->seg->regions[i].slot);

		if (old != SIZE_MAX)
			kedge__region_sum_carry(&f->sums[m->first_sum + i], &f->sums[parent->first_sum + old]);
	}
}

static void report_region(struct kedge__family *f, const struct kedge__member *m, size_t region)
{
	struct kedge__verifier *v = f->verifier;
	struct kedge__finding finding = {
	    .version = m->seg->header.version,
	    .rank = f->rank,
	    .block = -1,
	    .file = m->path,
	    .section = "digest",
	    .region = m->seg->regions[region].name,
	    .text = "every block can be read, but the result does not match the region's digest; restore another "
		    "version, or the copy on another level"};

	v->damaged[m->entry] = 1;
	kedge__verifier_report(v, &finding);
}

/* For a member that resolves. */
static bool check_regions(struct kedge__family *f, const struct kedge__member *m)
{
	bool intact = true;

	for (size_t i = 0; i < m->seg->region_count; i++) {
		const struct kedge__region_sum *sum = &f->sums[m->first_sum + i];

		if (atomic_load(&sum->unread)) {
			intact = false;
		} else if (!f->verifier->options->quick && !kedge__region_sum_matches(sum, &m->seg->regions[i])) {
			intact = false;
			report_region(f, m, i);
		}
	}
	return intact;
}

static void report_lineage(struct kedge__family *f, const struct kedge__member *m)
{
	struct kedge__verifier *v = f->verifier;
	struct kedge__finding finding = {.version = kedge__catalog_at(v->cat, m->entry)->version,
					 .rank = f->rank,
					 .file = m->path,
					 .block = -1,
					 .section = "lineage",
					 .text = kedge__error_text(&m->problem)};

	if (!kedge__verifier_depends_on(v, m->entry, v->damaged) &&
	    !kedge__verifier_depends_on(v, m->entry, v->vanished))
		kedge__verifier_report(v, &finding);
}

/* Parents come before the members that carry their sums. */
static void judge_members(struct kedge__family *f)
{
	for (size_t i = 0; i < f->count; i++) {
		struct kedge__member *m = &f->members[i];
		bool intact = false;

		if (m->failed) {
			report_lineage(f, m);
		} else {
			if (!m->apart && m->parent != KEDGE__NO_MEMBER)
				carry_sums(f, m);
			intact = check_regions(f, m);
		}
		if (!intact)
			f->verifier->lost[m->entry] = 1;
	}
}

/* ------------------------------------------------------------------ all of it */

static bool has_bases(const struct kedge__family *f)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->members[i].seg && f->members[i].seg->base != KEDGE__NO_VERSION)
			return true;
	return false;
}

static int check_deep(struct kedge__family *f, struct kedge__error *err)
{
	struct kedge__uses *uses = NULL;
	int rc = has_bases(f) ? kedge__bases_new(f, &f->bases, err) : 0;

	if (!rc)
		rc = kedge__uses_new(f, &uses, err);
	if (rc)
		return rc;
	for (size_t first = 0, end; first < f->block_count && !rc; first = end) {
		rc = kedge__uses_window(uses, first, &end, err);
		if (!rc)
			rc = kedge__blocks_check(f, first, end, uses, err);
	}
	if (!rc)
		kedge__uses_finish(uses);
	kedge__uses_free(uses);
	return rc;
}

/* Check stored bytes only; versions are examined only if some of these are wrong. */
static int check_stored(struct kedge__family *f, struct kedge__error *err)
{
	int rc = kedge__blocks_check(f, 0, f->block_count, NULL, err);

	if (rc || !memchr(f->bad, 1, f->block_count + 1))
		return rc;
	rc = kedge__blocks_spread(f, err);
	return rc ? rc : kedge__uses_of_bad(f, err);
}

void kedge__family_sums_clear(struct kedge__family *f)
{
	memset(f->sums, 0, (f->sum_count + 1) * sizeof(*f->sums));
	for (size_t i = 0; i < f->count; i++) {
		const struct kedge__member *m = &f->members[i];

		for (size_t r = 0; m->seg && r < m->seg->region_count; r++)
			f->sums[m->first_sum + r].rule = m->seg->regions[r].rule;
	}
}

static int check_members(struct kedge__family *f, struct kedge__error *err)
{
	struct kedge__verify_report *report = f->verifier->report;
	int rc = load_members(f, err);

	if (!rc)
		rc = join_members(f, err);
	if (rc)
		return rc;
	check_sources(f);
	f->sums = kedge__calloc(f->sum_count + 1, sizeof(*f->sums));
	f->bad = kedge__calloc(f->block_count + 1, 1);
	f->bad_pages = kedge__calloc(f->block_count + 1, sizeof(*f->bad_pages));
	if (!f->sums || !f->bad || !f->bad_pages)
		return kedge__error_nomem(err);
	kedge__family_sums_clear(f);
	rc = f->verifier->options->quick ? check_stored(f, err) : check_deep(f, err);
	if (!rc)
		judge_members(f);
	report->blocks_unpacked += kedge__lineage_unpacked(f->lineage);
	return rc;
}

static void family_done(struct kedge__family *f)
{
	for (size_t i = 0; f->members && i < f->count; i++) {
		if (!f->lineage)
			kedge__segment_close(f->members[i].seg);
		kedge__free(f->members[i].path);
		kedge__error_done(&f->members[i].problem);
	}
	kedge__bases_free(f->bases);
	kedge__lineage_close(f->lineage);
	kedge__free(f->members);
	kedge__free(f->sums);
	kedge__free(f->bad);
	for (size_t i = 0; f->bad_pages && i < f->block_count; i++)
		kedge__free(f->bad_pages[i]);
	kedge__free(f->bad_pages);
	pthread_mutex_destroy(&f->mutex);
}

int kedge__family_check(struct kedge__verifier *v, uint32_t rank, const size_t *entries, size_t count,
			struct kedge__error *err)
{
	struct kedge__family f = {.verifier = v, .rank = rank};
	int rc = 0;

	pthread_mutex_init(&f.mutex, NULL);
	f.members = kedge__calloc(count + 1, sizeof(*f.members));
	if (!f.members)
		rc = kedge__error_nomem(err);
	for (size_t i = 0; i < count && !rc; i++)
		if (rank < kedge__catalog_at(v->cat, entries[i])->set.ranks)
			f.members[f.count++].entry = entries[i];
	if (!rc && f.count)
		rc = check_members(&f, err);
	family_done(&f);
	return rc;
}
