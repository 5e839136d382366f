/* SPDX-License-Identifier: BSD-3-Clause */
/* Heat diffusion as a user of VELOC writes it, in memory mode: heat_mem CONFIG. */
#include "heat.h"
#include "include/veloc.h"

int main(int argc, char **argv)
{
	static double a[CELLS + 2], b[CELLS + 2];
	double *u = a, *v = b;
	int step = 0, version;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc < 2 || VELOC_Init(MPI_COMM_WORLD, argv[1]) != VELOC_SUCCESS) {
		fprintf(stderr, "VELOC_Init failed\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	heat_init(u);
	VELOC_Mem_protect(0, &step, 1, sizeof(int));
	VELOC_Mem_protect(1, a, CELLS + 2, sizeof(double));
	VELOC_Mem_protect(2, b, CELLS + 2, sizeof(double));
	version = VELOC_Restart_test("heat", 0);
	if (version > 0) {
		if (rank == 0)
			printf("restart %d\n", version);
		if (VELOC_Restart("heat", version) != VELOC_SUCCESS)
			MPI_Abort(MPI_COMM_WORLD, 3);
		u = step % 2 ? b : a;
		v = step % 2 ? a : b;
	}
	while (step < STEPS) {
		double *swap = u;

		heat_step(u, v);
		u = v;
		v = swap;
		step++;
		if (step % EVERY == 0 && VELOC_Checkpoint("heat", step) != VELOC_SUCCESS)
			MPI_Abort(MPI_COMM_WORLD, 4);
		heat_die(step);
	}
	heat_print(u);
	VELOC_Finalize(1);
	MPI_Finalize();
	return 0;
}
