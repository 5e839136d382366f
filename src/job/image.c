/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With capture = copy and cow the application is blocked only until its memory is held: copied, or write-protected. The
 * rest, including the reduction, is left to the writer. With capture = sync, and if nothing can be held, the memory
 * should not change until everything is written; this is checked.
 */
#include "job/handle.h"

void kedge__image_init(kedge_t *k)
{
	pthread_cond_init(&k->image.let_go, NULL);
}

void kedge__image_done(kedge_t *k)
{
	kedge__reserve_done(&k->image.reserve);
	pthread_cond_destroy(&k->image.let_go);
}

/* A kernel that cannot help: then what is asked for is done by copying, and said once. */
void kedge__image_choose(kedge_t *k)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	bool kernel_writes;

	if (k->set.capture != KEDGE__CAPTURE_COW && k->set.capture != KEDGE__CAPTURE_COW_USER)
		return;
	if (kedge__cow_probe(&kernel_writes, &why) == 0 && !kernel_writes && k->set.capture == KEDGE__CAPTURE_COW)
		kedge__error_set(&why, KEDGE_E_STATE, 0,
				 "system calls that write to held memory would fail (vm.unprivileged_userfaultfd; "
				 "cow-user is for programs without them)");
	k->image.cow = !why.code;
	if (!k->image.cow)
		kedge__log(KEDGE_LOG_NOTICE, "%s: capture = copy is used instead of cow: %s", k->name,
			   kedge__error_text(&why));
	if (!k->image.cow)
		kedge__journal_fallback(k, "capture", KEDGE__NO_VERSION, "copy", kedge__error_text(&why));
	kedge__error_done(&why);
}

static void holding_set(kedge_t *k, bool holding)
{
	pthread_mutex_lock(&k->state.lock);
	k->image.holding = holding;
	if (!holding)
		pthread_cond_broadcast(&k->image.let_go);
	pthread_mutex_unlock(&k->state.lock);
}

void kedge__image_wait(kedge_t *k)
{
	pthread_mutex_lock(&k->state.lock);
	while (k->image.holding)
		pthread_cond_wait(&k->image.let_go, &k->state.lock);
	pthread_mutex_unlock(&k->state.lock);
}

static bool ways_make(struct kedge__version *v)
{
	v->ways = kedge__calloc(v->region_count + 1, sizeof(*v->ways));
	for (size_t i = 0; v->ways && i < v->region_count; i++) {
		bool narrow =
		    v->pages.usable && v->pages.lists[i].known &&
		    kedge__reducer_narrows(v->k->baseline.reducer, v->version, v->regions[i].base, v->regions[i].bytes);
		const struct kedge__region *r = kedge__region_table_at(v->k->regions.table, i);

		v->ways[i].name = v->records[i].name;
		v->ways[i].file = r->file;
		v->ways[i].copied = kedge__region_is_shared(r) || r->file;
		v->ways[i].only = narrow ? &v->pages.lists[i] : NULL;
	}
	return v->ways;
}

/* A session on memory that nobody watches need not hand it back. */
static bool is_watched(const struct kedge__version *v)
{
	bool watched = !v->pages.collected || !v->pages.lists;

	for (size_t i = 0; !watched && i < v->pages.count; i++)
		watched = v->pages.lists[i].known;
	return watched;
}

static int begin(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__hold_options options = {
	    .reserve = &k->image.reserve,
	    .pool = k->pool,
	    .tracker = is_watched(v) ? k->track.tracker : NULL,
	    .limit = k->set.copy_memory,
	    .grain = kedge__reducer_grain(k->baseline.reducer),
	    .protect = k->image.cow,
	    .again = k->set.paranoid,
	};

	return kedge__hold_begin(&v->image, v->ways, &options, &v->hold, err);
}

static void hold_take(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = begin(v, &err);

	if (rc && k->image.cow && rc != KEDGE_E_LIMIT && rc != KEDGE_E_NOMEM) {
		k->image.cow = false;
		k->image.cow = begin(v, NULL) != 0; /* then protection was not the reason: a file cannot be read */
		if (!k->image.cow) {
			kedge__log(KEDGE_LOG_NOTICE, "%s: memory is copied from now on, it cannot be protected: %s",
				   k->name, kedge__error_text(&err));
			kedge__journal_fallback(k, "capture", v->version, "copy", kedge__error_text(&err));
		}
	}
	kedge__error_done(&err);
	if (kedge__hold_protects(v->hold))
		holding_set(k, true);
}

int kedge__image_hold(struct kedge__version *v, struct kedge__error *err)
{
	if (!ways_make(v))
		return kedge__error_nomem(err);
	kedge__version_look(v);
	if (v->k->set.capture != KEDGE__CAPTURE_SYNC)
		hold_take(v);
	return v->hold ? 0 : kedge__live_begin(&v->image, v->ways, kedge__pool_threads(v->k->pool), &v->live, err);
}

int kedge__image_reduce(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__error cause = KEDGE__ERROR_INIT;
	int rc = kedge__baseline_reduce(v, err);

	if (v->device)
		return rc;
	if (!rc)
		kedge__version_arrange(v);
	if (!rc && v->hold)
		rc = kedge__hold_literals(v->hold, k->baseline.reducer, &v->reduction.literals, &v->source, err);
	else if (!rc)
		rc = kedge__live_literals(v->live, k->baseline.reducer, &v->reduction.literals, &v->source, err);
	/* What the session says is why the reduction had to stop. */
	if (rc && kedge__image_release(v, &cause) != 0) {
		rc = cause.code;
		kedge__error_move(err, &cause);
	}
	kedge__error_done(&cause);
	if (!kedge__hold_protects(v->hold))
		holding_set(k, false);
	return rc;
}

int kedge__image_release(struct kedge__version *v, struct kedge__error *err)
{
	int rc = kedge__live_end(v->live, err);

	v->live = NULL;
	v->source = NULL;
	if (!v->hold)
		return rc;
	rc = kedge__hold_end(v->hold, err);
	v->hold = NULL;
	holding_set(v->k, false);
	return rc;
}

void kedge__image_forget(struct kedge__version *v)
{
	kedge__baseline_rollback(v, 0);
	kedge__version_arranged_done(v);
	kedge__free(v->ways);
	v->ways = NULL;
}
