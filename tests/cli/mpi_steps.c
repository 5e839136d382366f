/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_steps: an MPI program that knows nothing of Kedge. Every rank has a part of a ring of numbers, and writes a
 * checkpoint of it every few steps, to a file of its own: HDF5, or plain bytes where there is no libhdf5. It begins
 * with the newest step of which all ranks have a file. Usage: mpi_steps DIR STEPS EVERY RESULT
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef STEPS_HDF5
#include <hdf5.h>
#endif

enum { CELLS = 4096 };

struct ring {
	const char *dir;
	int rank, ranks;
	double cells[CELLS + 2]; /* and one of each neighbour */
};

static void name_of(const struct ring *r, int step, char path[4096])
{
	snprintf(path, 4096, "%s/ck-%d-r%d.h5", r->dir, step, r->rank);
}

#ifdef STEPS_HDF5
static int write_file(const struct ring *r, const char *path)
{
	hsize_t dims[1] = {CELLS};
	hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, dims, NULL);
	hid_t set = H5Dcreate2(file, "cells", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
	int failed = H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, r->cells + 1) < 0;

	H5Dclose(set);
	H5Sclose(space);
	return H5Fclose(file) < 0 || failed;
}

static int read_file(struct ring *r, const char *path)
{
	hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "cells", H5P_DEFAULT);
	int failed = H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, r->cells + 1) < 0;

	H5Dclose(set);
	H5Fclose(file);
	return failed;
}
#else
static int write_file(const struct ring *r, const char *path)
{
	FILE *f = fopen(path, "wb");
	int failed = !f || fwrite(r->cells + 1, sizeof(double), CELLS, f) != CELLS;

	return (f && fclose(f) != 0) || failed;
}

static int read_file(struct ring *r, const char *path)
{
	FILE *f = fopen(path, "rb");
	int failed = !f || fread(r->cells + 1, sizeof(double), CELLS, f) != CELLS;

	if (f)
		fclose(f);
	return failed;
}
#endif

static int save(const struct ring *r, int step)
{
	char path[4096];

	name_of(r, step, path);
	return write_file(r, path);
}

/* The newest step of which all ranks have a file, up to LAST; 0: none. */
static int newest(const struct ring *r, int last, int every)
{
	for (int step = last - last % every; step > 0; step -= every) {
		char path[4096];
		int here, all;
		FILE *f;

		name_of(r, step, path);
		f = fopen(path, "rb");
		here = f != NULL;
		if (f)
			fclose(f);
		MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		if (all)
			return step;
	}
	return 0;
}

static void advance(struct ring *r)
{
	int left = (r->rank + r->ranks - 1) % r->ranks, right = (r->rank + 1) % r->ranks;
	double old, next;

	MPI_Sendrecv(&r->cells[CELLS], 1, MPI_DOUBLE, right, 0, &r->cells[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Sendrecv(&r->cells[1], 1, MPI_DOUBLE, left, 1, &r->cells[CELLS + 1], 1, MPI_DOUBLE, right, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	old = r->cells[0];
	for (int i = 1; i <= CELLS; i++) {
		next = 0.25 * old + 0.5 * r->cells[i] + 0.25 * r->cells[i + 1];
		old = r->cells[i];
		r->cells[i] = next;
	}
}

/* RESULT has the bits of all cells, so that two runs can be compared with cmp. */
static int print(const struct ring *r, const char *result)
{
	int failed = 0;

	for (int rank = 0; rank < r->ranks; rank++) {
		if (rank == r->rank) {
			FILE *f = fopen(result, rank ? "ab" : "wb");

			failed = !f || fwrite(r->cells + 1, sizeof(double), CELLS, f) != CELLS;
			failed = (f && fclose(f) != 0) || failed;
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	return failed;
}

int main(int argc, char **argv)
{
	static struct ring r;
	int steps, every, step, failed = 0;
	char path[4096];

	if (argc != 5)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
	r.dir = argv[1];
	steps = atoi(argv[2]);
	every = atoi(argv[3]);
	for (int i = 1; i <= CELLS; i++)
		r.cells[i] = sin(0.01 * i * (r.rank + 1));
	step = newest(&r, steps, every);
	name_of(&r, step, path);
	if (step)
		failed = read_file(&r, path);
	if (r.rank == 0)
		printf("begins at step %d\n", step);
	while (step < steps) {
		advance(&r);
		if (++step % every == 0)
			failed = save(&r, step) || failed;
	}
	failed = print(&r, argv[4]) || failed;
	MPI_Finalize();
	return failed;
}
