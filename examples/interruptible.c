/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interruptible: a computation that saves its state as often as it pays, once more when it is told to end, and at its end.
 *
 *   interruptible [STEPS]
 *
 * Ctrl-C, or the SIGTERM of a scheduler, and start it again: it continues with the very step at which it ended.
 */
#include <kedge/kedge.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static double sum[1000];
static int64_t step;
static kedge_t *k;
static volatile sig_atomic_t told_to_end;

static void on_signal(int sig)
{
	told_to_end = sig;
	kedge_checkpoint_soon(k); /* the one function that a signal handler may call */
}

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, kedge_last_error(k));
	return 1;
}

int main(int argc, char **argv)
{
	int64_t steps = argc > 1 ? atoll(argv[1]) : 100000000;
	int rc, saved = 0;

	if (kedge_open("interruptible", NULL, NULL, &k))
		return fail("open");
	kedge_protect(k, "sum", sum, 1000, KEDGE_F64);
	kedge_protect(k, "step", &step, 1, KEDGE_I64);
	if (kedge_check(k)) /* the first error of all of these */
		return fail("protect");
	rc = kedge_restart(k, KEDGE_NEWEST, NULL);
	if (rc && rc != KEDGE_E_NOTFOUND) /* NOTFOUND: a fresh start */
		return fail("restart");
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	printf("step %lld\n", (long long)step);
	fflush(stdout);

	while (step < steps && !(told_to_end && saved)) {
		sum[step % 1000] += 1.0 / (1.0 + (double)step * (double)step);
		step++;
		if (kedge_checkpoint_if_due(k, KEDGE_NEXT, &saved)) {
			fail("not saved"); /* older versions are still there */
			if (told_to_end)
				return 1;
		}
	}
	if (!saved && kedge_checkpoint(k, KEDGE_NEXT)) /* the end, too, is worth keeping */
		return fail("checkpoint");
	printf("%s at step %lld\n", step < steps ? "ended" : "done", (long long)step);
	return kedge_close(k) ? fail("close") : 0;
}
