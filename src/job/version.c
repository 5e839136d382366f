/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

/* Whoever publishes a set somewhere gets a part of every rank; where several ranks do on L1, all get them. */
static bool gathers(const kedge_t *k)
{
	return k->levels.at[KEDGE__L1].leads || k->levels.at[KEDGE__L2].leads || !k->levels.at[KEDGE__L1].one_for_all;
}

struct kedge__version *kedge__version_new(kedge_t *k, uint64_t version)
{
	struct kedge__version *v = kedge__calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->k = k;
	v->version = version;
	v->started = kedge__clock_seconds();
	v->dirty = -1;
	v->reach = (struct kedge__reach){KEDGE__NO_VERSION, KEDGE__NO_VERSION, false};
	kedge__policy_l2_costs(&k->advice.policy, &v->costs);
	v->set = (struct kedge__set){.version = version, .parent = KEDGE__NO_VERSION, .ranks = (uint32_t)k->group.size};
	v->set.name = kedge__strdup(k->name);
	if (gathers(k)) {
		v->set.parts = kedge__calloc(v->set.ranks, sizeof(*v->set.parts));
		v->gathered = kedge__calloc(v->set.ranks, sizeof(*v->gathered));
	}
	if (v->set.name && (!gathers(k) || (v->set.parts && v->gathered)))
		return v;
	kedge__version_free(v);
	return NULL;
}

static void segment_discard(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (v->sealed && kedge__segment_discard(k->levels.at[KEDGE__L1].write, v->version, (uint32_t)k->group.rank,
						v->generation, &err))
		kedge__log(KEDGE_LOG_WARNING, "a segment of version %llu is left over: %s",
			   (unsigned long long)v->version, kedge__error_text(&err));
	kedge__error_done(&err);
	v->sealed = false;
}

void kedge__version_release(struct kedge__version *v)
{
	kedge__baseline_rollback(v, v->rc);
	segment_discard(v);
	(void)kedge__image_release(v, NULL);
	if (v->pinned)
		kedge__catalog_unpin(v->k->levels.at[KEDGE__L1].write);
	v->pinned = false;
	kedge__dirty_free(&v->pages);
	kedge__regions_free(v->records, v->records ? v->region_count : 0);
	kedge__same_done(&v->same);
	kedge__free(v->vouched);
	v->vouched = NULL;
	kedge__free(v->ways);
	kedge__free(v->regions);
	kedge__free(v->referable);
	kedge__free(v->plans);
	kedge__free(v->hows);
	v->plans = NULL;
	v->hows = NULL;
	v->records = NULL;
	v->ways = NULL;
	v->regions = NULL;
	v->referable = NULL;
	v->region_count = v->referable_count = 0;
}

void kedge__version_free(struct kedge__version *v)
{
	if (!v)
		return;
	kedge__ahead_drop(v);
	kedge__version_release(v);
	kedge__version_arranged_done(v);
	kedge__array_done(&v->parts);
	kedge__free(v->gathered);
	kedge__free(v->shares);
	kedge__set_done(&v->set);
	kedge__error_done(&v->err);
	kedge__error_done(&v->flush_err);
	kedge__free(v);
}
