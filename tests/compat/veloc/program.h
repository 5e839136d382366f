/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of this folder share: a rank of a program that uses VELOC, with directories of its own. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <glob.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/files.h"
#include "../../lib/scratch.h"
#include "veloc.h"

static int rank, size;
static const char *mode, *capture = "";
static char dir[256];

#define CHECK(c)                                                                                                       \
	do {                                                                                                           \
		if (!(c)) {                                                                                            \
			fprintf(stderr, "%s:%d: rank %d: %s is not so\n", __FILE__, __LINE__, rank, #c);               \
			MPI_Abort(MPI_COMM_WORLD, 1);                                                                  \
		}                                                                                                      \
	} while (0)

static inline void barrier(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

/* A configuration in a directory of the test's own: WHERE/{scratch,persistent}. */
static inline const char *config(const char *where, const char *more)
{
	static char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.cfg", dir, where);
	barrier();
	if (rank == 0) {
		f = fopen(path, "w");
		CHECK(f);
		fprintf(f, "# test\nscratch = %s/%s/scratch\npersistent = %s/%s/persistent\nmode = %s\n", dir, where,
			dir, where, mode);
		fprintf(f, "log_level = none\nthreads = 1\n%s%s", capture, more);
		fclose(f);
	}
	barrier();
	return path;
}

static inline void init(const char *where, const char *more)
{
	CHECK(VELOC_Init(MPI_COMM_WORLD, config(where, more)) == VELOC_SUCCESS);
}

static inline void finalize(void)
{
	CHECK(VELOC_Finalize(1) == VELOC_SUCCESS);
}

static inline void remove_together(const char *path)
{
	barrier();
	if (rank == 0)
		tree_remove(path);
	barrier();
}

/* MPI, and what the arguments say: the mode (sync, async, or copy, cow: async with that setting of capture) and the thread
 * support that MPI is asked for (single, multiple). */
static inline void program_begin(int argc, char **argv)
{
	int wanted = argc > 2 && strcmp(argv[2], "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
	int provided;

	MPI_Init_thread(&argc, &argv, wanted, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	mode = argc > 1 ? argv[1] : "sync";
	if (strcmp(mode, "copy") == 0)
		capture = "capture = copy\n";
	if (strcmp(mode, "cow") == 0)
		capture = "capture = cow-user\n";
	if (capture[0])
		mode = "async";
	if (rank == 0)
		scratch_make_on_disk(dir, sizeof(dir), "veloc");
	MPI_Bcast(dir, sizeof(dir), MPI_CHAR, 0, MPI_COMM_WORLD);
}

static inline void program_end(void)
{
	remove_together(dir);
	MPI_Finalize();
}

#endif
