/* SPDX-License-Identifier: BSD-3-Clause */
/* Heat spreading along a bar, cut into as many pieces as there are ranks. */
#ifndef HEAT_H
#define HEAT_H

#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 20000 /* of a rank */
#define STEPS 120
#define EVERY 10

static int rank, size;

static inline void heat_init(double *u)
{
	for (int i = 0; i < CELLS + 2; i++)
		u[i] = sin(0.001 * (rank * CELLS + i)) * 100.0;
}

/* One step from U to V; the ends of the bar are kept cold. */
static inline void heat_step(double *u, double *v)
{
	int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;

	MPI_Sendrecv(&u[1], 1, MPI_DOUBLE, left, 0, &u[CELLS + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Sendrecv(&u[CELLS], 1, MPI_DOUBLE, right, 1, &u[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	for (int i = 1; i <= CELLS; i++)
		v[i] = u[i] + 0.2 * (u[i - 1] - 2.0 * u[i] + u[i + 1]);
}

/* Every bit of the result counts. */
static inline void heat_print(const double *u)
{
	unsigned long long sum = 0, all = 0;

	for (int i = 1; i <= CELLS; i++) {
		unsigned long long bits;

		memcpy(&bits, &u[i], sizeof(bits));
		sum = sum * 1099511628211ULL + bits;
	}
	sum *= 2 * (unsigned long long)rank + 1;
	MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("result %016llx\n", all);
}

/* Rank $DIE_RANK fails in step $DIE_STEP. */
static inline void heat_die(int step)
{
	const char *when = getenv("DIE_STEP"), *who = getenv("DIE_RANK");

	if (when && who && atoi(when) == step && atoi(who) == rank) {
		fflush(stdout); /* a pipe, where mpirun has no terminals to give away */
		raise(SIGKILL);
	}
}

#endif
