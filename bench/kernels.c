/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels: small programs like those of the NAS parallel benchmarks, which know nothing of checkpoints. processes.sh
 * captures them.
 *
 *     kernels cg|mg|is        Does a step for each line of standard input, and prints a number that depends on all of
 * them.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 314159265;

static double uniform(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(seed >> 11) * 0x1p-53;
}

static void *room(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p) {
		fprintf(stderr, "kernels: there is not enough memory\n");
		exit(1);
	}
	return p;
}

/* ------------------------------------------------------------------ cg: the smallest eigenvalue of a sparse matrix */

#define ROWS     100000
#define OTHERS   12 /* elements of a row beside the diagonal */
#define CG_TURNS 25

static double *values, *x, *z, *p, *q, *r;
static int *columns;

static void cg_begin(void)
{
	values = room((size_t)ROWS * (OTHERS + 1), sizeof(*values));
	columns = room((size_t)ROWS * (OTHERS + 1), sizeof(*columns));
	x = room(ROWS, sizeof(*x)), z = room(ROWS, sizeof(*z)), p = room(ROWS, sizeof(*p));
	q = room(ROWS, sizeof(*q)), r = room(ROWS, sizeof(*r));
	for (int i = 0; i < ROWS; i++) {
		x[i] = 1;
		for (int k = 0; k < OTHERS; k++) {
			columns[i * (OTHERS + 1) + k] = (int)(uniform() * ROWS);
			values[i * (OTHERS + 1) + k] = uniform() * 0.1;
		}
		columns[i * (OTHERS + 1) + OTHERS] = i;
		values[i * (OTHERS + 1) + OTHERS] = 2 + uniform();
	}
}

static double dot(const double *a, const double *b)
{
	double sum = 0;

	for (int i = 0; i < ROWS; i++)
		sum += a[i] * b[i];
	return sum;
}

static void multiply(double *to, const double *from)
{
	for (int i = 0; i < ROWS; i++) {
		double sum = 0;

		for (int k = 0; k <= OTHERS; k++)
			sum += values[i * (OTHERS + 1) + k] * from[columns[i * (OTHERS + 1) + k]];
		to[i] = sum;
	}
}

static double cg_step(void)
{
	double rho = dot(x, x), norm;

	memset(z, 0, ROWS * sizeof(*z));
	memcpy(r, x, ROWS * sizeof(*r));
	memcpy(p, x, ROWS * sizeof(*p));
	for (int turn = 0; turn < CG_TURNS && rho > 1e-30; turn++) {
		double alpha, before = rho;

		multiply(q, p);
		alpha = rho / dot(p, q);
		for (int i = 0; i < ROWS; i++) {
			z[i] += alpha * p[i];
			r[i] -= alpha * q[i];
		}
		rho = dot(r, r);
		for (int i = 0; i < ROWS; i++)
			p[i] = r[i] + rho / before * p[i];
	}
	norm = 1 / sqrt(dot(z, z));
	for (int i = 0; i < ROWS; i++)
		x[i] = norm * z[i];
	return norm;
}

/* ------------------------------------------------------------------ mg: the equation of Poisson, by multigrid */

#define LEVELS 6
#define FINEST 96 /* points along an edge of the finest grid; it halves from level to level */

static struct grid {
	int n;
	double *u, *f, *r;
} grids[LEVELS];

static size_t place(int n, int i, int j, int k)
{
	return ((size_t)((i + n) % n) * (size_t)n + (size_t)((j + n) % n)) * (size_t)n + (size_t)((k + n) % n);
}

static double around(const double *a, int n, int i, int j, int k)
{
	return a[place(n, i - 1, j, k)] + a[place(n, i + 1, j, k)] + a[place(n, i, j - 1, k)] +
	       a[place(n, i, j + 1, k)] + a[place(n, i, j, k - 1)] + a[place(n, i, j, k + 1)];
}

#define EACH_POINT(n)                                                                                                  \
	for (int i = 0; i < (n); i++)                                                                                  \
		for (int j = 0; j < (n); j++)                                                                          \
			for (int k = 0; k < (n); k++)

static void mg_begin(void)
{
	for (int l = 0, n = FINEST; l < LEVELS; l++, n /= 2) {
		size_t points = (size_t)n * (size_t)n * (size_t)n;

		grids[l] = (struct grid){n, room(points, sizeof(double)), room(points, sizeof(double)),
					 room(points, sizeof(double))};
	}
	/* Twenty points of either sign, as in the benchmark. */
	for (int i = 0; i < 40; i++)
		grids[0].f[(size_t)(uniform() * FINEST * FINEST * FINEST)] = i % 2 ? 1 : -1;
}

static void residual(struct grid *g)
{
	EACH_POINT(g->n)
	g->r[place(g->n, i, j, k)] =
	    g->f[place(g->n, i, j, k)] - 6 * g->u[place(g->n, i, j, k)] + around(g->u, g->n, i, j, k);
}

static void smooth(struct grid *g)
{
	residual(g);
	for (size_t i = 0; i < (size_t)g->n * (size_t)g->n * (size_t)g->n; i++)
		g->u[i] += g->r[i] / 8;
}

static void down(struct grid *fine, struct grid *coarse)
{
	memset(coarse->u, 0, (size_t)coarse->n * (size_t)coarse->n * (size_t)coarse->n * sizeof(double));
	EACH_POINT(coarse->n)
	coarse->f[place(coarse->n, i, j, k)] =
	    2 * fine->r[place(fine->n, 2 * i, 2 * j, 2 * k)] + around(fine->r, fine->n, 2 * i, 2 * j, 2 * k) / 3;
}

static void up(struct grid *coarse, struct grid *fine)
{
	EACH_POINT(fine->n)
	fine->u[place(fine->n, i, j, k)] += 0.5 * coarse->u[place(coarse->n, i / 2, j / 2, k / 2)];
}

static double mg_step(void)
{
	double sum = 0;

	for (int l = 0; l + 1 < LEVELS; l++) {
		smooth(&grids[l]);
		residual(&grids[l]);
		down(&grids[l], &grids[l + 1]);
	}
	smooth(&grids[LEVELS - 1]);
	for (int l = LEVELS - 1; l > 0; l--) {
		up(&grids[l], &grids[l - 1]);
		smooth(&grids[l - 1]);
	}
	for (size_t i = 0; i < (size_t)FINEST * FINEST * FINEST; i++)
		sum += grids[0].r[i] * grids[0].r[i];
	return sqrt(sum);
}

/* ------------------------------------------------------------------ is: integers are sorted */

#define KEYS    (1 << 22)
#define KEY_TOP (1 << 19)

static int *keys, *sorted, *counts;
static int is_turn;

static void is_begin(void)
{
	keys = room(KEYS, sizeof(*keys));
	sorted = room(KEYS, sizeof(*sorted));
	counts = room(KEY_TOP + 1, sizeof(*counts));
	for (int i = 0; i < KEYS; i++)
		keys[i] = (int)((uniform() + uniform() + uniform() + uniform()) / 4 * KEY_TOP);
}

/* As in the benchmark two keys change with each turn, all over the range. */
static double is_step(void)
{
	double sum = 0;

	is_turn++;
	keys[is_turn * 1013 % KEYS] = is_turn;
	keys[is_turn * 7919 % KEYS] = KEY_TOP - 1 - is_turn;
	memset(counts, 0, (KEY_TOP + 1) * sizeof(*counts));
	for (int i = 0; i < KEYS; i++)
		counts[keys[i] + 1]++;
	for (int i = 0; i < KEY_TOP; i++)
		counts[i + 1] += counts[i];
	for (int i = 0; i < KEYS; i++)
		sorted[counts[keys[i]]++] = keys[i];
	for (int i = 0; i < KEYS; i += 1000)
		sum += sorted[i];
	return sum;
}

/* ------------------------------------------------------------------ */

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*begin)(void);
		double (*step)(void);
	} kernels[] = {{"cg", cg_begin, cg_step}, {"mg", mg_begin, mg_step}, {"is", is_begin, is_step}};
	char line[256];

	for (size_t i = 0; argc == 2 && i < sizeof(kernels) / sizeof(*kernels); i++) {
		if (strcmp(argv[1], kernels[i].name) != 0)
			continue;
		kernels[i].begin();
		do {
			printf("%.17g\n", kernels[i].step());
			fflush(stdout);
		} while (fgets(line, sizeof(line), stdin));
		return 0;
	}
	fprintf(stderr, "usage: kernels cg|mg|is\n");
	return 2;
}
