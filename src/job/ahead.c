/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

/* A flush that is done in two writes has nothing to gain. */
static bool is_large(const struct kedge__version *v)
{
	const struct kedge__io io = kedge__job_settings_io(&v->k->set);

	return v->reduction.literal_bytes >= 2 * kedge__io_buffer(&io);
}

static int run(struct kedge__ahead *a, struct kedge__error *err)
{
	kedge_t *k = a->k;
	struct kedge__job_level *l2 = &k->levels.at[KEDGE__L2];
	const struct kedge__companion_place place = {.cat = l2->flush,
						     .version = a->version,
						     .rank = (uint32_t)k->group.rank,
						     .sync = k->set.sync,
						     .io = kedge__job_settings_io(&k->set),
						     .bucket = &k->bucket};
	int rc = kedge__l2_check(k, err);

	if (!rc)
		rc = kedge__catalog_pin(l2->write, err); /* by another handle than that by which the flusher removes */
	a->pinned = !rc;
	if (!rc)
		rc = kedge__catalog_scan(l2->flush, err);
	return rc ? rc : kedge__companion_run(a->companion, &place, err);
}

static void ahead_run(void *ctx)
{
	struct kedge__ahead *a = ctx;
	struct kedge__error err = KEDGE__ERROR_INIT;

	a->began = a->k->advice.clock();
	if (run(a, &err))
		kedge__log(KEDGE_LOG_INFO, "version %llu is not copied to L2 while it is written to L1: %s",
			   (unsigned long long)a->version, kedge__error_text(&err));
	a->seconds = a->k->advice.clock() - a->began;
	kedge__error_done(&err);
}

static void ahead_free(void *ctx)
{
	struct kedge__ahead *a = ctx;

	kedge__companion_free(a->companion);
	if (a->pinned)
		kedge__catalog_unpin(a->k->levels.at[KEDGE__L2].write);
	kedge__free(a);
}

void kedge__ahead_begin(struct kedge__version *v)
{
	bool wanted = v->k->flusher && !kedge__bundles_size(v->k) && is_large(v) && kedge__levels_expect_l2(v);
	struct kedge__ahead *a = wanted ? kedge__calloc(1, sizeof(*a)) : NULL;

	if (!a)
		return;
	a->k = v->k;
	a->version = v->version;
	if (kedge__companion_new(&a->companion, NULL) || kedge__worker_submit(v->k->flusher, ahead_run, a, NULL)) {
		ahead_free(a);
		return;
	}
	v->ahead = a;
}

void kedge__ahead_decide(struct kedge__version *v)
{
	if (v->ahead && (!v->l2.due || v->l2.form != KEDGE__L2_COPY))
		kedge__companion_give_up(v->ahead->companion);
}

void kedge__ahead_drop(struct kedge__version *v)
{
	struct kedge__ahead *a = v->ahead;

	v->ahead = NULL;
	if (!a)
		return;
	kedge__companion_give_up(a->companion);
	(void)kedge__worker_submit(a->k->flusher, ahead_free, a, NULL);
}

void kedge__ahead_end(struct kedge__version *v)
{
	if (v->ahead)
		ahead_free(v->ahead);
	v->ahead = NULL;
}

struct kedge__companion *kedge__ahead_companion(const struct kedge__version *v)
{
	return v->ahead ? v->ahead->companion : NULL;
}
