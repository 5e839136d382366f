/* SPDX-License-Identifier: BSD-3-Clause */
/* Heat diffusion as a user of VELOC writes it, in file mode: heat_file CONFIG. */
#include "heat.h"
#include "veloc.h"

static int save(const double *u, int step)
{
	char original[VELOC_MAX_NAME], routed[VELOC_MAX_NAME];
	FILE *f;
	int ok;

	if (VELOC_Checkpoint_wait() != VELOC_SUCCESS || VELOC_Checkpoint_begin("heat", step) != VELOC_SUCCESS)
		return 0;
	snprintf(original, sizeof(original), "heat_%d_%d.out", rank, step);
	VELOC_Route_file(original, routed);
	f = fopen(routed, "wb");
	ok = f && fwrite(&step, sizeof(step), 1, f) == 1 && fwrite(u, sizeof(double), CELLS + 2, f) == CELLS + 2;
	if (f && fclose(f) != 0)
		ok = 0;
	return VELOC_Checkpoint_end(ok) == VELOC_SUCCESS && ok;
}

static int load(double *u, int *step, int version)
{
	char routed[VELOC_MAX_NAME];
	FILE *f;
	int ok;

	if (VELOC_Restart_begin("heat", version) != VELOC_SUCCESS)
		return 0;
	VELOC_Route_file("heat.out", routed);
	f = fopen(routed, "rb");
	ok = f && fread(step, sizeof(*step), 1, f) == 1 && fread(u, sizeof(double), CELLS + 2, f) == CELLS + 2;
	if (f)
		fclose(f);
	VELOC_Restart_end(ok);
	return ok;
}

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
	version = VELOC_Restart_test("heat", 0);
	if (version > 0) {
		if (rank == 0)
			printf("restart %d\n", version);
		if (!load(u, &step, version))
			MPI_Abort(MPI_COMM_WORLD, 3);
	}
	while (step < STEPS) {
		double *swap = u;

		heat_step(u, v);
		u = v;
		v = swap;
		step++;
		if (step % EVERY == 0 && !save(u, step))
			MPI_Abort(MPI_COMM_WORLD, 4);
		heat_die(step);
	}
	heat_print(u);
	VELOC_Finalize(1);
	MPI_Finalize();
	return 0;
}
