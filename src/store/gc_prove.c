/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which versions gc may count as good. Those whose lineage is trusted are good; of the others, from the newest on, as
 * many are read as it takes until those that are asked for (keep.c) are good. The selection uses only manifests: other
 * problems are found while reading, or by gc.c.
 */
#include "store/internal.h"

struct walk {
	const struct kedge__gc_proof *proof;
	const struct kedge__catalog *cat;
	struct kedge__keep_item *items; /* one per entry, as all below */
	uint8_t *marks, *all;
};

static bool is_listed(const struct kedge__version_list *list, uint64_t version)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->at[i] == version)
			return true;
	return false;
}

static bool all_trusted(const struct kedge__gc_proof *proof, const struct kedge__catalog *cat, size_t top,
			const uint8_t *marks, size_t lowest)
{
	for (size_t i = lowest; i <= top; i++) {
		const struct kedge__catalog_entry *e = cat->entries.at[i];

		if (marks[i] && (e->problem.code || !kedge__trust_has(proof->trust, &e->set)))
			return false;
	}
	return true;
}

bool kedge__gc_proved(const struct kedge__gc_proof *proof, const struct kedge__catalog *cat, size_t entry,
		      const uint8_t *marks, size_t lowest)
{
	const struct kedge__catalog_entry *e = cat->entries.at[entry];

	return proof->quick || proof->idle || kedge__trust_has(proof->proved, &e->set) ||
	       all_trusted(proof, cat, entry, marks, lowest);
}

/* As far as is known. */
static int look(void *ctx, size_t i, bool *fit, struct kedge__error *err)
{
	struct walk *w = ctx;
	size_t lowest;

	(void)err;
	*fit = !is_listed(&w->proof->lost, w->items[i].version) &&
	       kedge__catalog_mark_from(w->cat, w->items[i].version, false, w->marks, &lowest, NULL) == 0;
	memset(w->marks, 0, i + 1);
	return 0;
}

/* The newest version to prove; KEDGE__NO_VERSION: none, or nothing would be removed anyway (*IDLE). */
static uint64_t next_unproved(struct walk *w, bool *idle)
{
	uint64_t next = KEDGE__NO_VERSION;
	size_t count = w->cat->entries.count, stay = 0, lowest;

	for (size_t i = count; i-- > 0;) {
		const struct kedge__keep_item *v = &w->items[i];
		bool counts = !v->unfit && (v->why & ~(unsigned)KEDGE__STAYS_LABEL);

		if (!v->why)
			continue;
		w->all[i] = 1;
		if (kedge__catalog_mark_from(w->cat, v->version, true, w->marks, &lowest, NULL) != 0) {
			memset(w->marks, 0, i + 1);
			continue;
		}
		if (counts && next == KEDGE__NO_VERSION && !kedge__gc_proved(w->proof, w->cat, i, w->marks, lowest))
			next = v->version;
		for (size_t k = lowest; k <= i; k++) {
			w->all[k] |= w->marks[k];
			w->marks[k] = 0;
		}
	}
	for (size_t i = 0; i < count; i++)
		stay += w->all[i];
	*idle = stay == count;
	return *idle ? KEDGE__NO_VERSION : next;
}

static int find_next(struct kedge__gc_proof *proof, struct kedge__catalog *cat, const struct kedge__keep *keep,
		     uint64_t *next, struct kedge__error *err)
{
	struct walk w = {.proof = proof, .cat = cat};
	bool idle = true;
	int rc = 0;

	w.marks = kedge__calloc(cat->entries.count + 1, 1);
	w.all = kedge__calloc(cat->entries.count + 1, 1);
	w.items = kedge__keep_items(cat, keep->bytes, err);
	if (!w.marks || !w.all || !w.items)
		rc = kedge__error_nomem(err);
	if (!rc)
		rc = kedge__keep_choose_fit(keep, w.items, cat->entries.count, look, &w, err);
	if (!rc)
		*next = kedge__history_head(&cat, 1) ? next_unproved(&w, &idle) : KEDGE__NO_VERSION;
	proof->idle = idle && !proof->count;
	kedge__free(w.marks);
	kedge__free(w.all);
	kedge__free(w.items);
	return rc;
}

static bool is_lost(const struct kedge__verify_report *report, uint64_t version)
{
	for (size_t i = 0; i < report->versions_lost; i++)
		if (report->lost[i] == version)
			return true;
	return false;
}

/* VERSION and all that it needs were checked one by one; a version can be good even if some of those are not. */
static int note_proof(struct kedge__gc_proof *proof, const struct kedge__catalog *cat, uint64_t version,
		      const struct kedge__verify_report *report, struct kedge__error *err)
{
	const struct kedge__catalog_entry *top = kedge__catalog_find(cat, version);
	uint8_t *marks = kedge__calloc(cat->entries.count + 1, 1);
	bool good = top && !top->problem.code && report->newest_intact == version;

	if (!marks)
		return kedge__error_nomem(err);
	if (good && kedge__catalog_mark(cat, version, false, marks, NULL) == 0) {
		for (size_t i = 0; i < cat->entries.count; i++)
			if (marks[i] && !is_lost(report, cat->entries.at[i]->version))
				kedge__trust_add(proof->trust, &cat->entries.at[i]->set);
		kedge__trust_add(proof->proved, &top->set);
	}
	kedge__free(marks);
	if (good && kedge__trust_has(proof->proved, &top->set))
		return 0;
	return kedge__array_push(&proof->lost, version) ? 0 : kedge__error_nomem(err);
}

static int prove_one(struct kedge__gc_proof *proof, struct kedge__catalog *cat, uint64_t version,
		     const struct kedge__gc_options *gc, struct kedge__error *err)
{
	const struct kedge__verify_options options = {
	    .version = version, .local = true, .progress = gc->progress, .ctx = gc->progress_ctx};
	struct kedge__verify_report report = {0};
	int rc = kedge__verify_with(cat, gc->pool, &options, &report, err);

	if (!rc)
		rc = note_proof(proof, cat, version, &report, err);
	proof->count++;
	kedge__verify_report_done(&report);
	return rc;
}

int kedge__gc_prove(struct kedge__gc_proof *proof, struct kedge__catalog *cat, const struct kedge__gc_options *options,
		    struct kedge__error *err)
{
	uint64_t next;
	int rc;

	proof->quick = options->quick;
	proof->owns_trust = !options->trust;
	proof->trust = options->trust;
	if (proof->quick)
		return 0;
	if (proof->owns_trust)
		proof->trust = kedge__trust_new();
	proof->proved = kedge__trust_new();
	rc = proof->trust && proof->proved ? kedge__catalog_rescan(cat, err) : kedge__error_nomem(err);
	while (!rc) {
		rc = find_next(proof, cat, &options->keep, &next, err);
		if (rc || next == KEDGE__NO_VERSION)
			break;
		rc = prove_one(proof, cat, next, options, err);
	}
	return rc;
}

void kedge__gc_proof_done(struct kedge__gc_proof *proof)
{
	kedge__trust_free(proof->proved);
	if (proof->owns_trust)
		kedge__trust_free(proof->trust);
	kedge__array_done(&proof->lost);
}
