/*
 * What becomes of a version on L2. Versions come there in batches: of those since the newest one there, only the one
 * that is due goes, as a delta to that one. Where it has nothing to refer to, or where the chain of deltas has grown
 * too long, it goes with everything. All ranks come to the same answer by themselves: they have the same manifests of
 * what the version needs, know what all have besides, and have rank 0's costs.
 */
#include "job/handle.h"

#include <stdio.h>

bool kedge__flush_on_l2(const kedge_t *k, uint64_t version)
{
	const struct kedge__catalog_entry *a = kedge__catalog_find(k->level[KEDGE__L1].flush, version);
	const struct kedge__catalog_entry *b = kedge__catalog_find(k->level[KEDGE__L2].flush, version);

	/* The same bytes of an abandoned run will be removed. */
	return a && b && !a->problem.code && !b->problem.code && a->set.ranks == b->set.ranks &&
	       a->set.run.id == b->set.run.id && kedge__set_key_id(&a->set) == kedge__set_key_id(&b->set);
}

static double largest_part(const struct kedge__catalog *cat, uint64_t version)
{
	const struct kedge__catalog_entry *e = kedge__catalog_find(cat, version);
	uint64_t bytes = 0;

	for (uint32_t r = 0; e && !e->problem.code && r < e->set.ranks; r++)
		bytes = KEDGE__MAX(bytes, e->set.parts[r].file_bytes);
	return (double)bytes;
}

/* The versions on L2 that NEWEST needs; false if one of them is not there. */
static bool chain_measure(const struct kedge__catalog *l2, uint64_t newest, struct kedge__l2_chain *chain)
{
	uint64_t *list;
	size_t count;
	double deltas = 0;

	if (kedge__catalog_closure(l2, newest, &list, &count, NULL))
		return false;
	for (size_t i = 0; i < count; i++) {
		double bytes = largest_part(l2, list[i]);

		if (kedge__catalog_find(l2, list[i])->set.source_count) {
			chain->deltas++;
			deltas += bytes;
		} else {
			chain->full_bytes = bytes;
		}
	}
	if (chain->deltas)
		chain->delta_bytes = deltas / (double)chain->deltas;
	kedge__free(list);
	return true;
}

/*
 * The newest version on L2, with all that it needs there, that every rank had on L1 when this one was taken. By now it
 * may have left some ranks' L1, and others' not yet. What L2 still has of abandoned runs may have the same bytes.
 */
static void parent_find(struct kedge__chore *c, const struct kedge__run *run)
{
	const struct kedge__catalog *l2 = c->k->level[KEDGE__L2].flush;

	for (size_t i = kedge__catalog_count(l2); i; i--) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(l2, i - 1);
		const struct kedge__set_key *key = kedge__versions_find(c->alive, c->alive_count, e->version);

		if (!key || e->problem.code || kedge__set_key_id(&e->set) != key->id ||
		    !kedge__history_has(run, &e->set))
			continue;
		if (chain_measure(l2, e->version, &c->plan.chain))
			c->plan.parent = e->version;
		return;
	}
}

/* What L1 has for the version since the parent, or all if there is none. */
static int batch_measure(struct kedge__chore *c, struct kedge__error *err)
{
	const struct kedge__catalog *l1 = c->k->level[KEDGE__L1].flush;
	uint64_t *list;
	size_t count;
	int rc = kedge__catalog_closure(l1, c->version, &list, &count, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < count; i++) {
		if (c->plan.parent != KEDGE__NO_VERSION && list[i] <= c->plan.parent)
			continue;
		c->plan.batch++;
		c->plan.chain.batch_bytes += largest_part(l1, list[i]);
	}
	kedge__free(list);
	return 0;
}

/* L2 can do without the sources that only L1 has. */
static bool sources_stand(const struct kedge__chore *c, const struct kedge__set *set)
{
	struct kedge__l2_chain unused = {0};

	for (size_t i = 0; i < set->source_count; i++) {
		if (!kedge__flush_on_l2(c->k, set->sources[i]) ||
		    !chain_measure(c->k->level[KEDGE__L2].flush, set->sources[i], &unused))
			return false;
	}
	return true;
}

static bool same_files(const struct kedge__set *a, const struct kedge__set *b)
{
	for (uint32_t r = 0; r < a->ranks; r++)
		if (!kedge__digest_equal(a->parts[r].seal, b->parts[r].seal))
			return false;
	return true;
}

/*
 * What L2 has of all that the version needs is what L1 has, to the byte. If not, one of them was coalesced on one
 * level: a copy of the version could have blocks that were packed against others, which stand on still others there,
 * and so on from copy to copy.
 */
static bool needs_the_same(const struct kedge__chore *c)
{
	const struct kedge__catalog *l1 = c->k->level[KEDGE__L1].flush, *l2 = c->k->level[KEDGE__L2].flush;
	uint64_t *list;
	size_t count;
	bool same = true;

	if (kedge__catalog_closure(l1, c->version, &list, &count, NULL))
		return false;
	for (size_t i = 0; i < count && same; i++) {
		if (!kedge__flush_on_l2(c->k, list[i]))
			continue;
		same = same_files(&kedge__catalog_find(l1, list[i])->set, &kedge__catalog_find(l2, list[i])->set);
	}
	kedge__free(list);
	return same;
}

/* More versions than l2_keep asks for wait for one that stands alone, so that they can go. */
static bool chain_outgrows_keep(const struct kedge__chore *c)
{
	size_t keep = (size_t)KEDGE__MAX(c->k->set.l2_keep, 0);

	return keep && c->plan.chain.deltas >= keep + kedge__keep_slack(keep);
}

static bool is_complete(struct kedge__chore *c, char why[KEDGE__POLICY_TEXT])
{
	const kedge_t *k = c->k;

	if (c->plan.parent == KEDGE__NO_VERSION)
		snprintf(why, KEDGE__POLICY_TEXT, "complete: L2 has nothing that it could refer to");
	else if (k->l2_anew)
		snprintf(why, KEDGE__POLICY_TEXT, "complete: the version before it did not reach L2");
	else if (chain_outgrows_keep(c))
		snprintf(why, KEDGE__POLICY_TEXT, "complete: n = %llu deltas, with l2_keep = %lld",
			 (unsigned long long)c->plan.chain.deltas, (long long)k->set.l2_keep);
	else if (k->set.coalesce == KEDGE__COALESCE_AUTO)
		return kedge__coalescing_complete(&c->costs, &c->plan.chain, why);
	else {
		snprintf(why, KEDGE__POLICY_TEXT, "a delta: %s",
			 k->set.coalesce == KEDGE__COALESCE_BATCH ? "coalesce = batch"
								  : "what it needs has another form on L2");
		return false;
	}
	return true;
}

static const char *frequency(const struct kedge__l2_costs *costs)
{
	static const char *const by[] = {
	    [KEDGE__L2_SET] = "as configured",
	    [KEDGE__L2_PRESET] = "preset",
	    [KEDGE__L2_TABLE] = "by Table 1 of REX",
	    [KEDGE__L2_MODEL] = "by measured costs",
	};

	return costs->by < KEDGE__COUNT(by) ? by[costs->by] : "";
}

static void why_write(struct kedge__chore *c, const char *reason)
{
	struct kedge__flush_plan *p = &c->plan;
	char what[120] = "all of it";

	if (p->form == KEDGE__FLUSH_DELTA)
		snprintf(what, sizeof(what), "%zu versions as a delta to %llu", p->batch,
			 (unsigned long long)p->parent);
	else if (p->form == KEDGE__FLUSH_COPY)
		snprintf(what, sizeof(what), "as on L1");
	snprintf(p->why, sizeof(p->why), "every %llu (%s), %s; %s", (unsigned long long)c->costs.every,
		 frequency(&c->costs), what, reason);
}

int kedge__flush_plan(struct kedge__chore *c, struct kedge__error *err)
{
	const struct kedge__set *set = &kedge__catalog_find(c->k->level[KEDGE__L1].flush, c->version)->set;
	struct kedge__flush_plan *p = &c->plan;
	char reason[KEDGE__POLICY_TEXT];
	bool there = kedge__flush_on_l2(c->k, c->version), same = there || needs_the_same(c);
	int rc;

	memset(p, 0, sizeof(*p));
	p->parent = KEDGE__NO_VERSION;
	if (there || (same && c->k->set.coalesce == KEDGE__COALESCE_NEVER)) {
		p->complete = !set->source_count;
		return 0;
	}
	parent_find(c, &set->run);
	rc = batch_measure(c, err);
	if (rc)
		return rc;
	p->complete = is_complete(c, reason);
	if (p->complete)
		p->form = set->source_count ? KEDGE__FLUSH_WHOLE : KEDGE__FLUSH_COPY;
	else
		p->form = p->batch > 1 || !same || !sources_stand(c, set) ? KEDGE__FLUSH_DELTA : KEDGE__FLUSH_COPY;
	why_write(c, reason);
	return 0;
}
