/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cli_steps: a job without handlers of signals, which counts steps, for tests of `kedge run`.
 *
 *   cli_steps HOW [STEPS]
 *
 * HOW: polite (asks when to save and whether to end), silent (saves every tenth step and asks nothing), deaf (does
 * nothing more once it runs), stubborn (the same, and ignores TERM), hangs (deaf in the first launch, then polite),
 * lasting (silent, without an end in the first launch, and for 25 steps then).
 */
#include <kedge/kedge.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t step;

static int fail(const char *what, kedge_t *k)
{
	fprintf(stderr, "cli_steps: %s: %s\n", what, kedge_last_error(k));
	return 1;
}

static int step_polite(kedge_t *k, int *ends)
{
	int rc = kedge_checkpoint_if_due(k, KEDGE_NEXT, NULL);

	return rc ? rc : kedge_should_exit(k, ends);
}

static int step_silent(kedge_t *k, int *ends)
{
	(void)ends;
	return step % 10 == 0 ? kedge_checkpoint(k, KEDGE_NEXT) : 0;
}

static int work(kedge_t *k, int64_t steps, int (*one)(kedge_t *k, int *ends))
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int ends = 0;

	while (step < steps && !ends) {
		step++;
		if (one(k, &ends))
			return fail("step", k);
		nanosleep(&pause, NULL);
	}
	printf("%s at %lld\n", step < steps ? "ended" : "done", (long long)step);
	return kedge_close(k) ? fail("close", NULL) : 0;
}

static _Noreturn void hang(void)
{
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "", *launch = getenv("KEDGE_RUN_LAUNCH");
	int64_t steps = argc > 2 ? atoll(argv[2]) : INT64_MAX;
	kedge_t *k;
	int rc;

	if (kedge_open("steps", NULL, NULL, &k))
		return fail("open", NULL);
	if (kedge_protect(k, "step", &step, 1, KEDGE_I64))
		return fail("protect", k);
	rc = kedge_restart(k, KEDGE_NEWEST, NULL);
	if (rc && rc != KEDGE_E_NOTFOUND)
		return fail("restart", k);
	if (strcmp(how, "stubborn") == 0)
		signal(SIGTERM, SIG_IGN);
	printf("began at %lld, process %ld\n", (long long)step, (long)getpid());
	fflush(stdout);
	if (strcmp(how, "polite") == 0 || (strcmp(how, "hangs") == 0 && launch && strcmp(launch, "1") != 0))
		return work(k, steps, step_polite);
	if (strcmp(how, "lasting") == 0 && launch && strcmp(launch, "1") != 0)
		steps = step + 25;
	if (strcmp(how, "silent") == 0 || strcmp(how, "lasting") == 0)
		return work(k, steps, step_silent);
	hang();
}
