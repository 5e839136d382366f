/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job that is dead had sealed on L1 goes to L2 without it: its segments of all ranks that are in this directory,
 * then, once those of all ranks are there, the manifest. Both names are owned meanwhile, so that no job writes there.
 * Nodes with an L1 of their own do this one after the other, and the last one finds the set complete.
 */
#include "stage/stage.h"

#define GENERATIONS 16 /* that are looked at */

struct draining {
	struct kedge__catalog *from, *to;
	const struct kedge__drain_options *o;
	struct kedge__drain_report *report;
	KEDGE__ARRAY(uint64_t) lacking; /* versions that are not whole */
};

static bool is_on(const struct kedge__catalog *cat, const struct kedge__catalog_entry *e)
{
	const struct kedge__catalog_entry *there = kedge__catalog_find(cat, e->version);

	return there && !there->problem.code && there->image == e->image && there->set.run.id == e->set.run.id &&
	       there->set.ranks == e->set.ranks;
}

/* ------------------------------------------------------------------ one rank's segment */

static int is_here(const struct kedge__catalog *cat, uint64_t version, uint32_t rank,
		   const struct kedge__set_part *part, bool *here, struct kedge__error *err)
{
	char *path = kedge__part_path(cat, version, rank, part);

	if (!path)
		return kedge__error_nomem(err);
	*here = kedge__fs_exists(path);
	kedge__free(path);
	return 0;
}

/* Another node's, or one of an earlier attempt: any generation whose seal is the one that is wanted. */
static bool find_there(struct draining *d, uint64_t version, uint32_t rank, const struct kedge__set_part *want,
		       struct kedge__set_part *part)
{
	struct kedge__set_part own = *want;

	own.bundle = 0;
	own.start = 0;
	for (own.generation = 0; own.generation < GENERATIONS; own.generation++) {
		struct kedge__segment *seg;
		char *path = kedge__part_path(d->to, version, rank, &own);
		bool fits = path && kedge__fs_exists(path) && !kedge__segment_open(d->to, path, &own, &seg, NULL);

		kedge__free(path);
		if (!fits)
			continue;
		kedge__segment_close(seg);
		*part = own;
		return true;
	}
	return false;
}

/* *DONE false: its segment is neither here nor there. */
static int rank_copy(struct draining *d, const struct kedge__catalog_entry *e, uint32_t rank,
		     struct kedge__set_part *part, bool *done, struct kedge__error *err)
{
	const struct kedge__set_part *want = &e->set.parts[rank];
	int rc;

	*done = find_there(d, e->version, rank, want, part);
	if (*done)
		return 0;
	rc = is_here(d->from, e->version, rank, want, done, err);
	if (rc || !*done)
		return rc;
	do
		rc = kedge__level_copy(d->from, d->to, e->version, rank, true, d->o->io, d->o->bucket, NULL, NULL, NULL,
				       part, err);
	while (rc && kedge__stage_again(d->o->client));
	if (!rc) {
		d->report->segments++;
		d->report->bytes += part->file_bytes;
	}
	return rc;
}

/* ------------------------------------------------------------------ one version */

static int set_publish(struct draining *d, const struct kedge__catalog_entry *e, struct kedge__set_part *parts,
		       struct kedge__error *err)
{
	const struct kedge__set *head = kedge__history_head(&d->to, 1);
	struct kedge__set set = e->set;
	int rc;

	set.parts = parts;
	set.bundle = 0;                      /* nodes bring their segments one after the other */
	set.keep = head ? head->keep : NULL; /* not that of L1 */
	rc = kedge__set_publish(d->to, &set, err);
	if (!rc)
		d->report->versions++;
	return rc;
}

/* WHOLE: all that it needs is there. */
static int version_drain(struct draining *d, uint64_t version, bool whole, struct kedge__error *err)
{
	const struct kedge__catalog_entry *e = kedge__catalog_find(d->from, version);
	struct kedge__set_part *parts = kedge__calloc(e->set.ranks, sizeof(*parts));
	uint32_t missing = 0;
	int rc = parts ? 0 : kedge__error_nomem(err);

	for (uint32_t r = 0; r < e->set.ranks && !rc; r++) {
		bool done;

		rc = rank_copy(d, e, r, &parts[r], &done, err);
		missing += !rc && !done;
	}
	if (!rc && (missing || !whole)) {
		d->report->incomplete++;
		rc = kedge__array_push(&d->lacking, version) ? 0 : kedge__error_nomem(err);
		kedge__log(
		    KEDGE_LOG_NOTICE,
		    "version %llu: %u of %u ranks are on other nodes, and not on L2 yet: it is published when they are",
		    (unsigned long long)version, missing, e->set.ranks);
	} else if (!rc) {
		rc = set_publish(d, e, parts, err);
	}
	kedge__free(parts);
	return rc ? kedge__error_prefix(err, "version %llu", (unsigned long long)version) : 0;
}

static bool is_lacking(const struct draining *d, uint64_t version)
{
	bool lacks = false;

	for (size_t i = 0; i < d->lacking.count; i++)
		lacks = lacks || d->lacking.at[i] == version;
	return lacks;
}

/* Oldest first: a version comes to L2 after all that it needs, or its segments do, if some of that is not whole. */
static int lineage_drain(struct draining *d, uint64_t version, struct kedge__error *err)
{
	bool whole = true;
	uint64_t *list;
	size_t count;
	int rc = kedge__catalog_closure(d->from, version, &list, &count, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_find(d->from, list[i]);

		if (!is_lacking(d, list[i]) && (!e || !is_on(d->to, e)))
			rc = version_drain(d, list[i], whole, err);
		whole = whole && !is_lacking(d, list[i]);
	}
	kedge__free(list);
	return rc;
}

/* ------------------------------------------------------------------ all of them */

static uint64_t newest_on(const struct kedge__catalog *cat, const struct kedge__run *run)
{
	for (size_t i = kedge__catalog_count(cat); i > 0; i--) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i - 1);

		if (!e->problem.code && kedge__history_has(run, &e->set))
			return e->version + 1;
	}
	return 0;
}

/* A version that is damaged on L1 costs that version, and those that need it. */
static int versions_drain(struct draining *d, struct kedge__error *err)
{
	struct kedge__catalog *levels[] = {d->from, d->to};
	const struct kedge__set *head = kedge__history_head(levels, 2);
	uint64_t first = head ? newest_on(d->to, &head->run) : 0;
	int failed = 0;

	for (size_t i = 0; head && i < kedge__catalog_count(d->from); i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(d->from, i);
		struct kedge__error problem = KEDGE__ERROR_INIT;
		bool last = i + 1 == kedge__catalog_count(d->from);
		int rc;

		if (e->problem.code || e->version < first || !kedge__history_has(&head->run, &e->set) ||
		    is_on(d->to, e) || (d->o->newest && !last))
			continue;
		rc = lineage_drain(d, e->version, &problem);
		if (rc) {
			kedge__log(KEDGE_LOG_ERROR, "not on L2: %s", kedge__error_text(&problem));
			d->report->failed++;
			failed = rc;
			kedge__error_move(err, &problem);
		}
		kedge__error_done(&problem);
	}
	return failed;
}

static int pinned_drain(struct draining *d, struct kedge__error *err)
{
	int rc = kedge__catalog_pin(d->from, err);

	if (rc)
		return rc;
	rc = kedge__catalog_pin(d->to, err);
	if (!rc) {
		rc = kedge__catalog_rescan(d->from, err);
		if (!rc)
			rc = kedge__catalog_rescan(d->to, err);
		if (!rc)
			rc = versions_drain(d, err);
		kedge__catalog_unpin(d->to);
	}
	kedge__catalog_unpin(d->from);
	return rc;
}

int kedge__drain(struct kedge__catalog *from, struct kedge__catalog *to, const struct kedge__drain_options *o,
		 struct kedge__drain_report *report, struct kedge__error *err)
{
	struct draining d = {.from = from, .to = to, .o = o, .report = report};
	int rc = kedge__catalog_own(from, KEDGE__DRAIN_OWNER, err);

	*report = (struct kedge__drain_report){0};
	if (rc)
		return rc;
	rc = kedge__catalog_own(to, KEDGE__DRAIN_OWNER, err);
	if (!rc) {
		if (o->client)
			kedge__catalog_carry(to, kedge__stage_carrier(o->client));
		rc = pinned_drain(&d, err);
		kedge__catalog_carry(to, NULL);
		kedge__catalog_disown(to);
	}
	kedge__catalog_disown(from);
	kedge__array_done(&d.lacking);
	return rc;
}
