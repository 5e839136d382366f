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

/* KEY: "NAME STORE". */
static void drain_job(const struct kedge__run_loop *r, const char *key)
{
	char *name = kedge__strdup(key), *store = name ? strchr(name, ' ') : NULL;

	if (store) {
		*store++ = '\0';
		if (has_l2(store, name)) {
			char *argv[] = {(char *)"drain",   (char *)"-s", store, (char *)"-n", name,
					(char *)"--quiet", NULL};
			int argc = (int)KEDGE__COUNT(argv) - 1 - !(r->quiet || r->json);

			argv[argc] = NULL;
			(void)kedge__tool_drain(argc, argv);
		}
	}
	kedge__free(name);
}

void kedge__run_drain(const struct kedge__run_loop *r)
{
	sigset_t held;

	if (r->outcome == KEDGE__RUN_DONE || r->outcome == KEDGE__RUN_NOT_STARTED)
		return;
	(void)sigprocmask(SIG_SETMASK, &r->inherited, &held); /* a second signal ends this, too */
	for (size_t i = 0; i < r->journal.jobs.count; i++)
		drain_job(r, r->journal.jobs.at[i].key);
	(void)sigprocmask(SIG_SETMASK, &held, NULL);
}
