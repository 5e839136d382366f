/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rounds: most of what has to be copied is copied while the target runs. What it writes meanwhile is found in the next
 * round, and at last while it stands still. A round that leaves as much as it found was in vain: the target writes
 * faster than we read. Then the next captures do without.
 */
#include "process/target.h"

#define ROUNDS_MOST 5
#define ENOUGH      256 /* pages that are left for the stop */
#define REST        8   /* captures without, at most */

/* One round; *PAGES were copied. */
static int take_round(struct kedge__target *t, struct kedge__process_tracker *k, struct kedge__process_mirror *m,
		      size_t *pages, struct kedge__error *err)
{
	struct kedge__survey s = {0};
	int rc = kedge__target_survey(t, &k->known, k, true, &s, err);

	/* From the first page that is protected to the last one that is copied, what is protected says nothing. */
	k->all = true;
	if (!rc)
		rc = kedge__survey_arrange(&s, m, err);
	if (!rc)
		rc = kedge__target_copy(t, m, &s.dirty, &k->missed, err);
	if (!rc) {
		k->all = false;
		*pages = kedge__range_pages(&s.dirty);
	}
	kedge__survey_done(&s);
	return rc;
}

static void judge(struct kedge__process_tracker *k, bool in_vain)
{
	k->in_vain = in_vain ? KEDGE__MIN(2 * k->in_vain + 1, (unsigned)REST) : 0;
	k->rest = k->in_vain;
}

int kedge__target_rounds(struct kedge__target *t, struct kedge__process_tracker *k, struct kedge__process_mirror *m,
			 size_t *pages, struct kedge__error *err)
{
	size_t last = SIZE_MAX, now = 0;
	int rc = 0;

	*pages = 0;
	if (k->userfault < 0)
		return 0;
	if (k->rest && !k->all) {
		k->rest--;
		return 0;
	}
	for (unsigned i = 0; i < ROUNDS_MOST; i++, last = now) {
		rc = take_round(t, k, m, &now, err);
		if (rc)
			return rc;
		*pages += now;
		if (now <= ENOUGH || now > last / 2)
			break;
		if (i)
			continue;
		/* New mappings may have come while the first, long one was under way. */
		rc = kedge__mappings_refresh(t->pid, &k->known, true, err);
		if (rc)
			return rc;
	}
	judge(k, now > ENOUGH && now > last / 2);
	return 0;
}
