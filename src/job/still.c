/*
 * With capture = copy and cow the application stands still only until its memory is held as it is: copied, or protected
 * against its own writes. What follows, reduction and all, is the writer's. With capture = sync, and where nothing can
 * be held, it should stand still until all is written; whether it did is checked.
 */
#include "job/handle.h"

/* A kernel that cannot help: then what is asked for is done by copying, and said once. */
void kedge__still_init(kedge_t *k)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	bool kernel_writes;

	if (k->set.capture != KEDGE__CAPTURE_COW && k->set.capture != KEDGE__CAPTURE_COW_USER)
		return;
	if (kedge__cow_probe(&kernel_writes, &why) == 0 && !kernel_writes && k->set.capture == KEDGE__CAPTURE_COW)
		kedge__error_set(&why, KEDGE_E_STATE, 0,
				 "system calls that write to held memory would fail (vm.unprivileged_userfaultfd; "
				 "cow-user is for programs without them)");
	k->cow = !why.code;
	if (!k->cow)
		kedge__log(KEDGE_LOG_NOTICE, "%s: capture = copy is used instead of cow: %s", k->name,
			   kedge__error_text(&why));
	kedge__error_done(&why);
}

static void holding_set(kedge_t *k, bool holding)
{
	pthread_mutex_lock(&k->state_lock);
	k->holding = holding;
	if (!holding)
		pthread_cond_broadcast(&k->let_go);
	pthread_mutex_unlock(&k->state_lock);
}

void kedge__still_wait(kedge_t *k)
{
	pthread_mutex_lock(&k->state_lock);
	while (k->holding)
		pthread_cond_wait(&k->let_go, &k->state_lock);
	pthread_mutex_unlock(&k->state_lock);
}

static bool ways_make(struct kedge__job_write *w)
{
	w->ways = kedge__calloc(w->region_count + 1, sizeof(*w->ways));
	for (size_t i = 0; w->ways && i < w->region_count; i++) {
		bool narrow =
		    w->pages.usable && w->pages.lists[i].known &&
		    kedge__reducer_narrows(w->k->reducer, w->version, w->regions[i].base, w->regions[i].bytes);

		bool device = kedge__region_table_at(w->k->regions, i)->flags & KEDGE_REGION_DEVICE;

		w->ways[i].name = w->records[i].name;
		w->ways[i].file = kedge__file_of(w->k, w->records[i].name);
		w->ways[i].copied = device || w->ways[i].file;
		w->ways[i].only = narrow ? &w->pages.lists[i] : NULL;
	}
	return w->ways;
}

/* A session on memory that nobody watches need not hand it back. */
static bool is_watched(const struct kedge__job_write *w)
{
	bool watched = !w->pages.collected || !w->pages.lists;

	for (size_t i = 0; !watched && i < w->pages.count; i++)
		watched = w->pages.lists[i].known;
	return watched;
}

static int begin(struct kedge__job_write *w, struct kedge__error *err)
{
	kedge_t *k = w->k;
	struct kedge__hold_options options = {
	    .reserve = &k->reserve,
	    .pool = k->pool,
	    .tracker = is_watched(w) ? k->track.tracker : NULL,
	    .limit = k->set.copy_memory,
	    .grain = kedge__reducer_grain(k->reducer),
	    .protect = k->cow,
	    .again = k->set.paranoid,
	};

	return kedge__hold_begin(&w->image, w->ways, &options, &w->hold, err);
}

static void hold_take(struct kedge__job_write *w)
{
	kedge_t *k = w->k;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = begin(w, &err);

	if (rc && k->cow && rc != KEDGE_E_LIMIT && rc != KEDGE_E_NOMEM) {
		k->cow = false;
		k->cow = begin(w, NULL) != 0; /* then protection was not the reason: a file cannot be read */
		if (!k->cow)
			kedge__log(KEDGE_LOG_NOTICE, "%s: memory is copied from now on, it cannot be protected: %s",
				   k->name, kedge__error_text(&err));
	}
	kedge__error_done(&err);
	if (kedge__hold_protects(w->hold))
		holding_set(k, true);
}

int kedge__still_take(struct kedge__job_write *w, struct kedge__error *err)
{
	if (!ways_make(w))
		return kedge__error_nomem(err);
	if (w->k->set.capture != KEDGE__CAPTURE_SYNC)
		hold_take(w);
	return w->hold ? 0 : kedge__live_begin(&w->image, w->ways, &w->live, err);
}

int kedge__still_reduce(struct kedge__job_write *w, struct kedge__error *err)
{
	kedge_t *k = w->k;
	struct kedge__error cause = KEDGE__ERROR_INIT;
	int rc = kedge__checkpoint_reduce(w, err);

	if (!rc && w->hold)
		rc = kedge__hold_literals(w->hold, &w->reduction.literals, &w->source, err);
	else if (!rc)
		rc = kedge__live_literals(w->live, k->reducer, &w->reduction.literals, &w->source, err);
	/* What the session says is why the reduction had to stop. */
	if (rc && kedge__still_end(w, &cause) != 0) {
		rc = cause.code;
		kedge__error_move(err, &cause);
	}
	kedge__error_done(&cause);
	if (!kedge__hold_protects(w->hold))
		holding_set(k, false);
	return rc;
}

int kedge__still_end(struct kedge__job_write *w, struct kedge__error *err)
{
	int rc = kedge__live_end(w->live, err);

	w->live = NULL;
	w->source = NULL;
	if (!w->hold)
		return rc;
	rc = kedge__hold_end(w->hold, err);
	w->hold = NULL;
	holding_set(w->k, false);
	return rc;
}
