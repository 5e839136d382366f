/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat_serial: heat in a rod, the smallest program that survives being killed. Run it, kill it, run it again: it
 * continues from its last checkpoint.  heat_serial [STEPS [CELLS]]
 */
#include <kedge/kedge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, kedge_t *k)
{
	fprintf(stderr, "heat_serial: %s: %s\n", what, kedge_last_error(k));
	kedge_close(k);
	return 1;
}

int main(int argc, char **argv)
{
	int64_t step = 0, steps = argc > 1 ? atoll(argv[1]) : 1000;
	size_t n = argc > 2 ? (size_t)atoll(argv[2]) : 100000;
	double *u = calloc(n, sizeof(*u)), *next = calloc(n, sizeof(*next)), sum = 0;
	kedge_t *k = NULL;
	int rc;

	if (!u || !next || n < 3)
		return fail("no memory, or too few cells", NULL);
	u[n / 2] = next[n / 2] = 100.0;

	if (kedge_open("heat_serial", NULL, NULL, &k))
		return fail("open", NULL);
	if (kedge_protect(k, "u", u, n, KEDGE_F64) || kedge_protect(k, "step", &step, 1, KEDGE_I64))
		return fail("protect", k);
	rc = kedge_restart(k, KEDGE_NEWEST, NULL);
	if (rc && rc != KEDGE_E_NOTFOUND)
		return fail("restart", k);
	printf(rc ? "starting\n" : "restarted at step %lld\n", (long long)step);

	while (step < steps) {
		for (size_t i = 1; i + 1 < n; i++)
			next[i] = u[i] + 0.25 * (u[i - 1] - 2 * u[i] + u[i + 1]);
		memcpy(u, next, n * sizeof(*u));
		step++;
		if (step % 100 == 0 && kedge_checkpoint(k, (uint64_t)step))
			return fail("checkpoint", k);
	}

	for (size_t i = 0; i < n; i++)
		sum += u[i];
	printf("step %lld: heat %.17g, middle %.17g\n", (long long)step, sum, u[n / 2]);
	rc = kedge_close(k); /* before freeing memory: the last version may still be read from it */
	free(u);
	free(next);
	return rc ? 1 : 0;
}
