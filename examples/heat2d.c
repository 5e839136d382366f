/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat2d: heat spreads from a hot spot in a large cold plate; an MPI program that survives the loss of its ranks.
 *
 * The plate is a grid divided into one block per rank, with a halo of one cell that neighbours exchange at every step.
 * Each rank protects its block and its step counter. When the job is started again, kedge_restart() returns all ranks
 * to the newest step that every one of them saved. The result is the same to the last bit, killed or not, because a
 * cell is always computed from the same five values in the same order.
 */
#include <getopt.h>
#include <inttypes.h>
#include <kedge/kedge_mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLD    20.0
#define HOT     900.0
#define CONDUCT 0.2 /* below 0.25, or the scheme is unstable */

struct options {
	int64_t cells, steps,
	    every; /* cells along a side of the plate; steps between two checkpoints, 0: when Kedge says so */
	int64_t die_at, die_rank;
	const char *output, *name;
	bool quiet;
};

struct plate {
	MPI_Comm comm;
	int rank, up, down, left, right;
	int64_t row, col;    /* of the block's first cell in the plate */
	size_t rows, cols;   /* of the block, without its halo */
	double *now, *next;  /* (rows + 2) * (cols + 2) */
	MPI_Datatype column; /* one column of the block */
	int64_t step;
};

static double *cell(const struct plate *p, double *field, size_t row, size_t col)
{
	return field + row * (p->cols + 2) + col;
}

/* The part of N cells that the I-th of PARTS gets. */
static int64_t part_begin(int64_t n, int parts, int i)
{
	return n * i / parts;
}

static void heat_up(struct plate *p, int64_t cells)
{
	double radius = (double)cells / 24, y0 = 0.4 * (double)cells, x0 = 0.45 * (double)cells;

	for (size_t r = 0; r < p->rows + 2; r++) {
		for (size_t c = 0; c < p->cols + 2; c++) {
			double y = (double)(p->row + (int64_t)r - 1) - y0, x = (double)(p->col + (int64_t)c - 1) - x0;

			*cell(p, p->now, r, c) = *cell(p, p->next, r, c) = y * y + x * x < radius * radius ? HOT : COLD;
		}
	}
}

static int plate_init(struct plate *p, int64_t cells)
{
	int size, dims[2] = {0, 0}, periods[2] = {0, 0}, at[2];

	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Dims_create(size, 2, dims);
	MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &p->comm);
	MPI_Comm_rank(p->comm, &p->rank);
	MPI_Cart_coords(p->comm, p->rank, 2, at);
	MPI_Cart_shift(p->comm, 0, 1, &p->up, &p->down);
	MPI_Cart_shift(p->comm, 1, 1, &p->left, &p->right);
	p->row = part_begin(cells, dims[0], at[0]);
	p->col = part_begin(cells, dims[1], at[1]);
	p->rows = (size_t)(part_begin(cells, dims[0], at[0] + 1) - p->row);
	p->cols = (size_t)(part_begin(cells, dims[1], at[1] + 1) - p->col);
	MPI_Type_vector((int)p->rows, 1, (int)p->cols + 2, MPI_DOUBLE, &p->column);
	MPI_Type_commit(&p->column);
	p->now = malloc((p->rows + 2) * (p->cols + 2) * sizeof(double));
	p->next = malloc((p->rows + 2) * (p->cols + 2) * sizeof(double));
	if (!p->now || !p->next)
		return -1;
	heat_up(p, cells);
	return 0;
}

static void plate_done(struct plate *p)
{
	free(p->now);
	free(p->next);
	MPI_Type_free(&p->column);
	MPI_Comm_free(&p->comm);
}

static void exchange_halo(struct plate *p)
{
	int n = (int)p->cols;
	size_t rows = p->rows, cols = p->cols;

	MPI_Sendrecv(cell(p, p->now, 1, 1), n, MPI_DOUBLE, p->up, 0, cell(p, p->now, rows + 1, 1), n, MPI_DOUBLE,
		     p->down, 0, p->comm, MPI_STATUS_IGNORE);
	MPI_Sendrecv(cell(p, p->now, rows, 1), n, MPI_DOUBLE, p->down, 1, cell(p, p->now, 0, 1), n, MPI_DOUBLE, p->up,
		     1, p->comm, MPI_STATUS_IGNORE);
	MPI_Sendrecv(cell(p, p->now, 1, 1), 1, p->column, p->left, 2, cell(p, p->now, 1, cols + 1), 1, p->column,
		     p->right, 2, p->comm, MPI_STATUS_IGNORE);
	MPI_Sendrecv(cell(p, p->now, 1, cols), 1, p->column, p->right, 3, cell(p, p->now, 1, 0), 1, p->column, p->left,
		     3, p->comm, MPI_STATUS_IGNORE);
}

static void advance(struct plate *p)
{
	double *swap = p->now;

	exchange_halo(p);
	for (size_t r = 1; r <= p->rows; r++) {
		const double *above = cell(p, p->now, r - 1, 0), *here = cell(p, p->now, r, 0),
			     *below = cell(p, p->now, r + 1, 0);
		double *next = cell(p, p->next, r, 0);

		for (size_t c = 1; c <= p->cols; c++)
			next[c] = here[c] + CONDUCT * (above[c] + below[c] + here[c - 1] + here[c + 1] - 4 * here[c]);
	}
	p->now = p->next;
	p->next = swap;
	p->step++;
}

/* The field alternates between two buffers, so it is protected again each time; only its address changes. */
static int protect(kedge_t *k, struct plate *p)
{
	const size_t dims[2] = {p->rows + 2, p->cols + 2};
	int rc = kedge_protect_array(k, "plate", p->now, KEDGE_F64, 2, dims);

	return rc ? rc : kedge_protect(k, "step", &p->step, 1, KEDGE_I64);
}

static int begin(kedge_t *k, struct plate *p, bool quiet)
{
	int rc = protect(k, p);

	if (rc == 0)
		rc = kedge_restart(k, KEDGE_NEWEST, NULL);
	if (rc == KEDGE_E_NOTFOUND)
		rc = 0;
	if (rc == 0 && p->rank == 0 && !quiet)
		printf(p->step ? "heat2d: restarted at step %" PRId64 "\n" : "heat2d: starting at step %" PRId64 "\n",
		       p->step);
	fflush(stdout);
	return rc;
}

/* Simulates a node failure: no handler runs, nothing is flushed. Only the first launch under `kedge run` does it.
 */
static void maybe_die(const struct plate *p, const struct options *o)
{
	const char *launch = getenv("KEDGE_RUN_LAUNCH");

	if (p->step == o->die_at && p->rank == o->die_rank && (!launch || strcmp(launch, "1") == 0)) {
		fprintf(stderr, "heat2d: rank %d is killed at step %" PRId64 "\n", p->rank, p->step);
		raise(SIGKILL);
	}
}

static int save_if_due(kedge_t *k, struct plate *p, const struct options *o)
{
	int due = o->every && p->step % o->every == 0, rc = 0;

	if (!o->every)
		rc = kedge_should_checkpoint(k, &due);
	if (rc == 0 && due)
		rc = protect(k, p);
	return rc == 0 && due ? kedge_checkpoint(k, (uint64_t)p->step) : rc;
}

/* Until the last step, or until somebody wants it to end, and its state is saved. */
static int simulate(kedge_t *k, struct plate *p, const struct options *o)
{
	int rc = begin(k, p, o->quiet), ends = 0;

	while (rc == 0 && p->step < o->steps && !ends) {
		advance(p);
		maybe_die(p, o);
		rc = save_if_due(k, p, o);
		if (rc == 0)
			rc = kedge_should_exit(k, &ends);
	}
	return rc;
}

/* The entire plate, row by row, without halos: the same file for any number of ranks. */
static int write_answer(struct plate *p, const struct options *o)
{
	int whole[2] = {(int)o->cells, (int)o->cells}, with_halo[2] = {(int)p->rows + 2, (int)p->cols + 2};
	int block[2] = {(int)p->rows, (int)p->cols}, at[2] = {(int)p->row, (int)p->col}, inside[2] = {1, 1};
	MPI_Datatype in_file, in_memory;
	MPI_File file;
	int rc;

	rc = MPI_File_open(p->comm, o->output, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
	if (rc != MPI_SUCCESS)
		return -1;
	MPI_Type_create_subarray(2, whole, block, at, MPI_ORDER_C, MPI_DOUBLE, &in_file);
	MPI_Type_create_subarray(2, with_halo, block, inside, MPI_ORDER_C, MPI_DOUBLE, &in_memory);
	MPI_Type_commit(&in_file);
	MPI_Type_commit(&in_memory);
	rc = MPI_File_set_view(file, 0, MPI_DOUBLE, in_file, "native", MPI_INFO_NULL);
	if (rc == MPI_SUCCESS)
		rc = MPI_File_write_all(file, p->now, 1, in_memory, MPI_STATUS_IGNORE);
	MPI_Type_free(&in_file);
	MPI_Type_free(&in_memory);
	return MPI_File_close(&file) == MPI_SUCCESS && rc == MPI_SUCCESS ? 0 : -1;
}

static int usage(int rank)
{
	if (rank == 0)
		fprintf(stderr,
			"usage: heat2d [--cells N] [--steps N] [--every N] [--output FILE] [--name JOB] [--quiet]\n"
			"              [--die-at STEP [--die-rank R]]\n");
	return 2;
}

static bool parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {
	    {"cells", required_argument, NULL, 'c'},
	    {"steps", required_argument, NULL, 's'},
	    {"every", required_argument, NULL, 'e'},
	    {"output", required_argument, NULL, 'o'},
	    {"name", required_argument, NULL, 'n'},
	    {"die-at", required_argument, NULL, 'd'},
	    {"die-rank", required_argument, NULL, 'r'},
	    {"quiet", no_argument, NULL, 'q'},
	    {NULL, 0, NULL, 0},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (opt) {
		case 'c':
			o->cells = atoll(optarg);
			break;
		case 's':
			o->steps = atoll(optarg);
			break;
		case 'e':
			o->every = atoll(optarg);
			break;
		case 'o':
			o->output = optarg;
			break;
		case 'n':
			o->name = optarg;
			break;
		case 'd':
			o->die_at = atoll(optarg);
			break;
		case 'r':
			o->die_rank = atoll(optarg);
			break;
		case 'q':
			o->quiet = true;
			break;
		default:
			return false;
		}
	}
	return optind == argc && o->cells >= 64 && o->cells <= 30000 && o->steps > 0 && o->every >= 0;
}

static int run(struct plate *p, const struct options *o)
{
	kedge_t *k = NULL;
	int rc;

	rc = kedge_mpi_open(p->comm, o->name, NULL, NULL, &k);
	if (rc == 0)
		rc = simulate(k, p, o);
	if (rc) {
		fprintf(stderr, "heat2d: rank %d: %s\n", p->rank, kedge_last_error(k));
		return rc;
	}
	rc = kedge_close(k);
	if (rc)
		fprintf(stderr, "heat2d: rank %d: closing: %s\n", p->rank, kedge_strerror(rc));
	return rc;
}

int main(int argc, char **argv)
{
	struct options o = {.cells = 1024, .steps = 1000, .every = 100, .die_at = -1, .name = "heat2d"};
	struct plate p = {.step = 0};
	int status = 0, world_rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
	if (!parse(argc, argv, &o)) {
		status = usage(world_rank);
		MPI_Finalize();
		return status;
	}
	if (plate_init(&p, o.cells) || run(&p, &o) || (o.output && p.step >= o.steps && write_answer(&p, &o)))
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (p.rank == 0 && !o.quiet)
		printf("heat2d: %s step %" PRId64 "\n", p.step < o.steps ? "asked to end at" : "finished", p.step);
	plate_done(&p);
	MPI_Finalize();
	return status;
}
