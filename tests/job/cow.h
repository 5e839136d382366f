/* SPDX-License-Identifier: BSD-3-Clause */
/* What capture = cow does where the tests run: the library says, and tests check that it does what it says. */
#ifndef KEDGE_TESTS_JOB_COW_H
#define KEDGE_TESTS_JOB_COW_H

#include "job/handle.h"
#include "support.h"

/* Whether CAPTURE protects memory here, or copies it instead: without userfaultfd and /proc, and with cow where system
 * calls could not write to what is protected (vm.unprivileged_userfaultfd). */
static inline bool cow_protects(enum kedge__capture_mode capture)
{
	bool kernel_writes;

	if (capture != KEDGE__CAPTURE_COW && capture != KEDGE__CAPTURE_COW_USER)
		return false;
	return kedge__cow_probe(&kernel_writes, NULL) == 0 && (kernel_writes || capture == KEDGE__CAPTURE_COW_USER);
}

/* As job_open(); never another capture than this place has. */
static inline kedge_t *cow_open(const struct place *p, const char *const *more)
{
	kedge_t *k = job_open(p, false, more);

	assert_int_equal(k->image.cow, cow_protects(k->set.capture));
	if (!k->image.cow)
		print_message("memory is copied here\n");
	return k;
}

/* A tracker that is not here is refused by name; true if it is here. */
static inline bool tracker_here(const struct place *p, const char *kind)
{
	struct options o;
	char track[40];
	kedge_t *k = NULL;

	if (kedge__tracker_probe(kind, NULL) == 0)
		return true;
	text_make(track, sizeof(track), "track=%s", kind);
	assert_true(kedge_open("job", NULL, options_make(&o, p, false, MORE(track)), &k) < 0);
	assert_non_null(strstr(kedge_last_error(NULL), kind));
	print_message("tracker %s is not here\n", kind);
	return false;
}

#endif
