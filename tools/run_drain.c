/* SPDX-License-Identifier: BSD-3-Clause */
/* When a run ends before the job has, nobody will bring its newest versions to L2: that is done here. */
#include "run.h"

/* It is a store that this host sees, and it has an L2. */
static bool has_l2(const char *store, const char *name)
{
	struct kedge__catalog *cat;
	struct kedge__tie tie;
	bool has;

	if (kedge__catalog_open(store, name, KEDGE__CATALOG_READ, &cat, NULL))
		return false;
	has = kedge__tie_read(cat, &tie, NULL) == 0;
	if (has)
		kedge__tie_done(&tie);
	kedge__catalog_close(cat);
	return has;
}

static void drain_job(void *ctx, const char *store, const char *name)
{
	const struct kedge__run_loop *r = ctx;
	char *argv[] = {(char *)"drain", (char *)"-s",      (char *)store, (char *)"-n",
			(char *)name,    (char *)"--quiet", NULL};
	int argc = (int)KEDGE__COUNT(argv) - 1 - !(r->quiet || r->json);

	if (!has_l2(store, name))
		return;
	argv[argc] = NULL;
	(void)kedge__tool_drain(argc, argv);
}

void kedge__run_drain(struct kedge__run_loop *r)
{
	sigset_t held;

	if (r->outcome == KEDGE__RUN_DONE || r->outcome == KEDGE__RUN_NOT_STARTED)
		return;
	(void)sigprocmask(SIG_SETMASK, &r->inherited, &held); /* a second signal ends this, too */
	kedge__run_journal_visit(&r->journal, drain_job, r);
	(void)sigprocmask(SIG_SETMASK, &held, NULL);
}
