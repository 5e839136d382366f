/* SPDX-License-Identifier: BSD-3-Clause */
/* capture: a running process becomes an image. */
#include "process/target.h"

#include <stdio.h>
#include <stdlib.h>

const char *kedge__process_unsupported(void)
{
	return NULL;
}

/* Memory that is shared between processes can be made again only as a whole. */
static int refuse_parts(const struct kedge__process_image *image, struct kedge__error *err)
{
	const struct kedge__process_mapping *at = image->mappings.at;

	for (size_t i = 0; i < image->mappings.count; i++)
		for (size_t j = 0; at[i].kind == KEDGE__MAPPING_SHARED_ANONYMOUS && j < i; j++)
			if (at[j].kind == at[i].kind && at[j].file == at[i].file)
				return kedge__error_set(err, KEDGE_E_STATE, 0,
							"it has mapped shared memory in several parts: 0x%llx",
							(unsigned long long)at[i].start);
	return 0;
}

/* ------------------------------------------------------------------ which way */

#define STILL_LEAST ((size_t)4096) /* pages: to copy less takes no longer than to make a still, */
#define STILL_SHARE 16             /* which goes by what the process has in memory: about this times faster */
#define STAGED_MOST ((size_t)65536)

struct capture {
	struct kedge__process_capture *c;
	struct kedge__target t;
	struct kedge__survey survey;
	size_t staged; /* pages: first those that a still does not have */
};

/* The pages are what they were when the tracker was asked; what is protected counts when they have been copied. */
static int look(struct capture *x, struct kedge__error *err)
{
	struct kedge__process_capture *c = x->c;
	int rc = c->tracker ? kedge__tracker_watch(c->tracker, &c->image, err) : 0;
	size_t dirty, all;

	if (!rc)
		rc = kedge__target_survey(&x->t, &c->image, c->tracker, false, &x->survey, err);
	dirty = kedge__range_pages(&x->survey.dirty);
	all = KEDGE__MAX(c->mirror->count, dirty);
	if (c->tracker)
		c->tracker->all = true;
	c->pages_stopped = dirty + kedge__range_pages(&x->survey.apart);
	x->t.wants_still =
	    c->tracker && (c->way == KEDGE__WAY_STILL ||
			   (c->way == KEDGE__WAY_AUTO && dirty >= STILL_LEAST && dirty >= all / STILL_SHARE));
	return rc;
}

/* Pages go to where the mirror has them, in the stop. */
static int copy_directly(struct capture *x, struct kedge__error *err)
{
	struct kedge__process_mirror *m = x->c->mirror;
	int rc = kedge__survey_arrange(&x->survey, m, err);

	if (!rc)
		rc = kedge__target_copy(&x->t, m, &x->survey.apart, NULL, err);
	return rc ? rc : kedge__target_copy(&x->t, m, &x->survey.dirty, NULL, err);
}

/* Few pages are put aside, so that the target need not wait until there is a place for each of them. */
static int copy_in_stop(struct capture *x, struct kedge__error *err)
{
	struct kedge__process_tracker *k = x->c->tracker;
	size_t apart = kedge__range_pages(&x->survey.apart);
	size_t pages = apart + (x->t.still ? 0 : kedge__range_pages(&x->survey.dirty));
	int rc;

	if (!k || (!x->t.still && pages > STAGED_MOST))
		return copy_directly(x, err);
	rc = kedge__tracker_room(k, pages * KEDGE__PAGE_BYTES, err);
	if (!rc)
		rc = kedge__target_stage(&x->t, &x->survey.apart, k->staged, err);
	if (!rc && !x->t.still)
		rc = kedge__target_stage(&x->t, &x->survey.dirty, k->staged + apart * KEDGE__PAGE_BYTES, err);
	if (!rc)
		x->staged = pages;
	return rc;
}

/* After the stop: the mirror is what the target was. */
static int copy_after_stop(struct capture *x, struct kedge__error *err)
{
	struct kedge__process_capture *c = x->c;
	size_t apart = kedge__range_pages(&x->survey.apart);
	int rc = 0;

	if (x->t.still || x->staged)
		rc = kedge__survey_arrange(&x->survey, c->mirror, err);
	if (!rc && x->t.still)
		rc = kedge__still_copy(&x->t, &c->image, c->mirror, &x->survey.dirty, err);
	if (!rc && x->staged)
		kedge__mirror_unstage(c->mirror, &x->survey.apart, c->tracker->staged);
	if (!rc && x->staged && !x->t.still)
		kedge__mirror_unstage(c->mirror, &x->survey.dirty, c->tracker->staged + apart * KEDGE__PAGE_BYTES);
	if (!rc && c->tracker)
		c->tracker->all = c->tracker->userfault < 0;
	if (c->tracker)
		c->tracker->doubt = rc != 0;
	return rc;
}

/* ------------------------------------------------------------------ the steps */

/* While it runs: all that can be done before it has to stand still. */
static int prepare(struct capture *x, struct kedge__error *err)
{
	struct kedge__process_tracker *k = x->c->tracker;
	int rc;

	if (!k)
		return 0;
	kedge__tracker_follow(k, x->t.pid);
	rc = kedge__mappings_refresh(x->t.pid, &k->known, k->userfault >= 0, err);
	if (!rc)
		rc = kedge__tracker_begin(k, &x->t, err);
	if (!rc)
		rc = kedge__target_open(&x->t, err);
	if (!rc && x->c->way != KEDGE__WAY_FULL)
		rc = kedge__target_rounds(&x->t, k, x->c->mirror, &x->c->pages_before, err);
	return rc ? rc : kedge__tracker_room(k, 0, err);
}

static int take(struct capture *x, struct kedge__error *err)
{
	struct kedge__process_capture *c = x->c;
	struct kedge__process_tracker *k = c->tracker;
	struct kedge__target *t = &x->t;
	int rc = kedge__target_stop(t, err);

	/* While it ran, it may have got what it did not have before. */
	if (!rc)
		rc = kedge__target_refuse(t->pid, c->init, err);
	if (!rc)
		rc = kedge__target_find_vdso(t, err);
	if (!rc)
		rc = kedge__target_descriptors(t, &c->image, err);
	if (!rc)
		rc = kedge__target_mappings(t, k && !k->doubt ? &k->known : NULL, k && k->userfault >= 0, &c->image,
					    err);
	if (!rc)
		rc = refuse_parts(&c->image, err);
	if (!rc)
		rc = look(x, err);
	if (!rc)
		rc = kedge__target_state(t, &c->image, err);
	/* From here on no thread has other registers than its own. */
	if (!rc)
		rc = copy_in_stop(x, err);
	return rc ? rc : kedge__target_contents(&c->image, c->files, &c->contents, err);
}

int kedge__process_capture(struct kedge__process_capture *c, struct kedge__error *err)
{
	struct capture x = {.c = c, .t = {.pid = c->pid, .memory = -1}};
	int rc;

	c->image = (struct kedge__process_image){0};
	c->contents = (struct kedge__process_contents){0};
	c->pages_before = c->pages_stopped = 0;
	rc = kedge__target_refuse(c->pid, c->init, err);
	if (!rc)
		rc = prepare(&x, err);
	if (!rc)
		rc = take(&x, err);
	kedge__target_release(&x.t);
	c->stop_seconds = x.t.stood;
	if (!rc)
		rc = copy_after_stop(&x, err);
	c->way = x.t.still                                 ? KEDGE__WAY_STILL
		 : c->tracker && c->tracker->watched.count ? KEDGE__WAY_INCREMENT
							   : KEDGE__WAY_FULL;
	kedge__still_end(&x.t);
	c->ended = x.t.ended;
	c->status = x.t.status;
	kedge__survey_done(&x.survey);
	kedge__target_done(&x.t);
	if (rc) {
		kedge__process_image_done(&c->image);
		kedge__process_contents_done(&c->contents);
	}
	return rc;
}
