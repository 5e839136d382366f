/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * still: a copy of the target that never runs, made by a call of fork's kind that the target makes for us. It is a
 * child of this process, not of the target: nobody there waits for it, or gets a signal when it ends. It shares the
 * table of descriptors, so that what the target closes is closed.
 */
#include "process/target.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CALL_SECONDS 60.0

int kedge__still_make(struct kedge__target *t, struct kedge__error *err)
{
	struct kedge__tracee *leader = &t->threads.at[0], child = {0};
	uint64_t call = t->call;
	int64_t result = 0;
	int status, rc = kedge__tracee_options(leader, PTRACE_O_TRACECLONE, err);

	if (rc)
		return rc;
	t->created = 0;
	t->call = kedge__scratch_fork_call(t);
	rc = KEDGE__CALL(t, leader, &result, err, SYS_clone, CLONE_PARENT | CLONE_FILES);
	t->call = call;
	t->still = t->created;
	if (!rc)
		rc = kedge__tracee_options(leader, 0, err);
	child.tid = t->still;
	/* It is traced like the leader, and stops before its first instruction. */
	if (!rc && t->still)
		rc = kedge__tracee_wait(t, &child, CALL_SECONDS, &status, err);
	return rc;
}

void kedge__still_end(struct kedge__target *t)
{
	if (!t->still)
		return;
	kill(t->still, SIGKILL);
	while (waitpid(t->still, NULL, __WALL) < 0 && errno == EINTR)
		;
	t->still = 0;
}

int kedge__still_copy(struct kedge__target *t, const struct kedge__process_image *image,
		      struct kedge__process_mirror *m, const struct kedge__range_list *what, struct kedge__error *err)
{
	struct kedge__target still = {.pid = t->still, .memory = -1};
	struct kedge__survey s = {0};
	int rc = kedge__target_open(&still, err);

	if (!rc)
		rc = kedge__target_survey(&still, image, NULL, false, &s, err);
	/* What was not known of the target's mappings: some are not for children. */
	if (!rc && !kedge__ranges_within(what, &s.set))
		rc =
		    kedge__error_set(err, KEDGE_E_STATE, 0, "it has just changed what a child would get of its memory");
	if (!rc)
		rc = kedge__target_copy(&still, m, what, NULL, err);
	kedge__survey_done(&s);
	kedge__target_done(&still);
	return rc;
}
