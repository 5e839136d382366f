/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of several ranks over MPI: versions are sets. The including program says which thread support it asks for. */
#include "../lib/files.h"
#include "../lib/scratch.h"

#include <kedge/kedge_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 40000

static int rank, size;
static const char *every = "l2_every=1";
static char dir[256], l1[300], l2[300];
static unsigned char m[BYTES], want[BYTES];

#define CHECK(c)                                                                                                       \
	do {                                                                                                           \
		if (!(c)) {                                                                                            \
			fprintf(stderr, "%s:%d: rank %d: %s is not so (%s / %s)\n", __FILE__, __LINE__, rank, #c,      \
				kedge_last_error(k), kedge_last_error(NULL));                                          \
			MPI_Abort(MPI_COMM_WORLD, 1);                                                                  \
		}                                                                                                      \
	} while (0)

static void state_make(unsigned char *to, unsigned version)
{
	for (unsigned i = 0; i < BYTES; i++)
		to[i] = (unsigned char)((i * 2654435761u >> 13) + (unsigned)rank * 31 +
					(i % 10 == version % 10 ? version : 0));
}

static kedge_t *job_open(MPI_Comm comm, const char *capture)
{
	char a[320], b[320];
	const char *settings[] = {a, b, capture, every, "threads=1", "sync=no", "reducer=tree", "chunk=64", NULL};
	kedge_t *k = NULL;

	snprintf(a, sizeof(a), "l1=%s", l1);
	snprintf(b, sizeof(b), "l2=%s", l2);
	CHECK(kedge_mpi_open(comm, "job", NULL, settings, &k) == 0);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	return k;
}

static void comes_back(kedge_t *k, uint64_t wanted, unsigned expected)
{
	uint64_t version = 0;

	memset(m, 0, BYTES);
	CHECK(kedge_restart(k, wanted, &version) == 0);
	CHECK(version == expected);
	state_make(want, expected);
	CHECK(memcmp(m, want, BYTES) == 0);
}

static void series(const char *capture)
{
	kedge_t *k = job_open(MPI_COMM_WORLD, capture);

	CHECK(kedge_restart(k, KEDGE_NEWEST, NULL) == KEDGE_E_NOTFOUND);
	for (unsigned v = 1; v <= 4; v++) {
		state_make(m, v);
		CHECK(kedge_checkpoint(k, v) == 0);
		memset(m, 0, BYTES);
		MPI_Barrier(MPI_COMM_WORLD); /* the application's messages and ours do not meet */
	}
	CHECK(kedge_wait(k) == 0);
	for (unsigned v = 1; v <= 4; v++)
		CHECK(kedge_test(k, v) == 1);
	CHECK(kedge_close(k) == 0);
	k = job_open(MPI_COMM_WORLD, capture);
	comes_back(k, KEDGE_NEWEST, 4);
	comes_back(k, 2, 2);
	CHECK(kedge_close(k) == 0);
}

/* The last rank's newest segment is lost on both levels: all ranks take the version before. */
static void segment_lost(void)
{
	kedge_t *k = NULL;

	MPI_Barrier(MPI_COMM_WORLD);
	for (int level = 0; rank == size - 1 && level < 2; level++) {
		char path[500];

		snprintf(path, sizeof(path), "%s/job/v%020u/r%07d-g0.seg", level ? l2 : l1, 4u, rank);
		CHECK(unlink(path) == 0);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	k = job_open(MPI_COMM_WORLD, "capture=sync");
	comes_back(k, KEDGE_NEWEST, 3);
	CHECK(kedge_close(k) == 0);
}

/* Batches go to L2 as one delta each; rank 0's node takes all of L1 with it. */
static void batches(void)
{
	kedge_t *k;

	every = "l2_every=3";
	k = job_open(MPI_COMM_WORLD, "capture=copy");
	for (unsigned v = 1; v <= 7; v++) {
		state_make(m, v);
		CHECK(kedge_checkpoint(k, v) == 0);
		memset(m, 0, BYTES);
	}
	CHECK(kedge_wait(k) == 0);
	CHECK(kedge_close(k) == 0);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		tree_remove(l1);
	MPI_Barrier(MPI_COMM_WORLD);
	k = job_open(MPI_COMM_WORLD, "capture=sync");
	CHECK(kedge_restart(k, 5, NULL) == KEDGE_E_VERSION);
	comes_back(k, 3, 3);
	comes_back(k, KEDGE_NEWEST, 6);
	CHECK(kedge_close(k) == 0);
	every = "l2_every=1";
}

/* One rank protects what does not fit: it is told so, the others that it was. */
static void mismatch(void)
{
	kedge_t *k = job_open(MPI_COMM_WORLD, "capture=sync");
	int rc;

	if (rank == size - 1)
		CHECK(kedge_protect(k, "m", m, BYTES - 1, KEDGE_U8) == 0);
	rc = kedge_restart(k, KEDGE_NEWEST, NULL);
	CHECK(rc == (rank == size - 1 ? KEDGE_E_MISMATCH : KEDGE_E_GROUP));
	CHECK(kedge_close(k) == 0);
}

/* A communicator of fewer ranks than the sets have. */
static void fewer_ranks(void)
{
	kedge_t *k = NULL;
	MPI_Comm half;

	MPI_Comm_split(MPI_COMM_WORLD, rank < size - 1, rank, &half);
	if (size > 1 && rank < size - 1) {
		k = job_open(half, "capture=sync");
		CHECK(kedge_restart(k, KEDGE_NEWEST, NULL) == KEDGE_E_GROUP);
		CHECK(kedge_close(k) == 0);
	}
	MPI_Comm_free(&half);
	MPI_Barrier(MPI_COMM_WORLD);
}

#define LARGE 700001 /* bytes that no codec touches: several rows of a shield */

static unsigned char large[LARGE];

static void large_make(unsigned version)
{
	for (unsigned i = 0; i < LARGE; i++)
		large[i] = (unsigned char)((i * 2654435761u >> 9) ^ (i * 40503u >> 3) ^ (version + (unsigned)rank) * 77);
}

/* Each rank has a node of its own, the SHIFT-th after the one that it had at first. */
static kedge_t *nodes_open(int shift)
{
	char a[340], b[40];
	const char *settings[] = {a, b, "protect=xor:4", "protect_in_background=yes", "capture=copy", "codec=none",
				  "threads=1", "sync=no", NULL};
	kedge_t *k = NULL;

	snprintf(a, sizeof(a), "l1=%s-%d", l1, (rank + shift) % size);
	snprintf(b, sizeof(b), "node=n%d", (rank + shift) % size);
	CHECK(kedge_mpi_open(MPI_COMM_WORLD, "job", NULL, settings, &k) == 0);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	CHECK(kedge_protect(k, "large", large, LARGE, KEDGE_U8) == 0);
	return k;
}

/* A node is lost, and the ranks are placed differently. */
static void node_lost(void)
{
	static unsigned char wanted[LARGE];
	char path[340];
	kedge_t *k;

	if (size == 1)
		return;
	k = nodes_open(0);
	for (unsigned v = 1; v <= 3; v++) {
		state_make(m, v);
		large_make(v);
		CHECK(kedge_checkpoint(k, v) == 0);
	}
	CHECK(kedge_close(k) == 0);
	memcpy(wanted, large, LARGE);
	memset(large, 0, LARGE);
	MPI_Barrier(MPI_COMM_WORLD);
	snprintf(path, sizeof(path), "%s-%d", l1, 1);
	if (rank == 0)
		CHECK(tree_remove(path) == 0);
	MPI_Barrier(MPI_COMM_WORLD);
	k = nodes_open(1);
	comes_back(k, KEDGE_NEWEST, 3);
	CHECK(memcmp(large, wanted, LARGE) == 0);
	CHECK(kedge_close(k) == 0);
	MPI_Barrier(MPI_COMM_WORLD);
	snprintf(path, sizeof(path), "%s-%d", l1, rank);
	CHECK(tree_remove(path) == 0);
	MPI_Barrier(MPI_COMM_WORLD); /* before the directory above is removed */
}

static void stores_remove(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		tree_remove(l1);
		tree_remove(l2);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

static void place_make(void)
{
	if (rank == 0)
		scratch_make_on_disk(dir, sizeof(dir), "mpi");
	MPI_Bcast(dir, sizeof(dir), MPI_CHAR, 0, MPI_COMM_WORLD);
	snprintf(l1, sizeof(l1), "%s/l1", dir);
	snprintf(l2, sizeof(l2), "%s/l2", dir);
}

int main(int argc, char **argv)
{
	kedge_t *k = (kedge_t *)&argc;
	int provided;

	CHECK(kedge_mpi_open(MPI_COMM_WORLD, "job", NULL, NULL, &k) == KEDGE_E_STATE && !k);
	MPI_Init_thread(&argc, &argv, THREAD_LEVEL, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	place_make();
	series("capture=copy");
	stores_remove();
	batches();
	stores_remove();
	series("capture=sync");
	segment_lost();
	mismatch();
	fewer_ranks();
	stores_remove();
	node_lost();
	if (rank == 0)
		scratch_remove(dir);
	MPI_Finalize();
	return 0;
}
