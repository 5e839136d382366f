#include <kedge/kedge_mpi.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

/* One duplicate of the communicator a channel: what the flusher says never meets what the application's calls say. */
struct channel {
	MPI_Comm comm;
};

struct channels {
	struct channel front, back; /* front first: the group's ctx is a pointer to it */
};

/*
 * Ranks may arrive far apart, and MPI libraries wait by polling: after a moment this thread polls less and less often,
 * so that a waiting checkpoint does not take a core from the computation.
 */
static int wait_gently(MPI_Request *request)
{
	struct timespec pause = {0, 20000};
	int done = 0;

	for (int i = 0; !done; i++) {
		int rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);

		if (rc != MPI_SUCCESS)
			return rc;
		if (done || i < 2000)
			continue;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 1000000)
			pause.tv_nsec *= 2;
	}
	return MPI_SUCCESS;
}

static int allgather(void *ctx, const void *send, size_t bytes, void *recv)
{
	struct channel *ch = ctx;
	MPI_Request request;

	if (bytes > INT_MAX)
		return 1;
	if (MPI_Iallgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, ch->comm, &request) != MPI_SUCCESS)
		return 1;
	return wait_gently(&request) != MPI_SUCCESS;
}

static void comm_free(MPI_Comm *comm)
{
	if (*comm != MPI_COMM_NULL)
		MPI_Comm_free(comm);
}

static void channels_free(void *ctx)
{
	struct channels *c = ctx;
	int finalized = 0;

	if (!c)
		return;
	MPI_Finalized(&finalized);
	if (!finalized) {
		comm_free(&c->back.comm);
		comm_free(&c->front.comm);
	}
	free(c);
}

static int comm_dup(MPI_Comm from, MPI_Comm *to)
{
	if (MPI_Comm_dup(from, to) != MPI_SUCCESS) {
		*to = MPI_COMM_NULL;
		return KEDGE_E_GROUP;
	}
	/* A failure comes back as an error code: the library never ends the job. */
	return MPI_Comm_set_errhandler(*to, MPI_ERRORS_RETURN) == MPI_SUCCESS ? 0 : KEDGE_E_GROUP;
}

/* A rank without memory takes part in all the same, so that the others are not left waiting for it. */
static int channels_new(MPI_Comm comm, int any_thread, struct channels **out)
{
	struct channels *c = malloc(sizeof(*c)), unused, *use = c ? c : &unused;
	int rc, ready;

	use->front.comm = use->back.comm = MPI_COMM_NULL;
	rc = comm_dup(comm, &use->front.comm);
	if (!rc && any_thread)
		rc = comm_dup(comm, &use->back.comm);
	ready = c != NULL;
	if (!rc && MPI_Allreduce(MPI_IN_PLACE, &ready, 1, MPI_INT, MPI_MIN, use->front.comm) != MPI_SUCCESS)
		rc = KEDGE_E_GROUP;
	if (!rc && ready) {
		*out = c;
		return 0;
	}
	comm_free(&use->back.comm);
	comm_free(&use->front.comm);
	free(c);
	if (rc)
		return rc;
	return c ? KEDGE_E_GROUP : KEDGE_E_NOMEM;
}

static int mpi_ready(void)
{
	int initialized = 0, finalized = 0;

	MPI_Initialized(&initialized);
	if (initialized)
		MPI_Finalized(&finalized);
	return initialized && !finalized;
}

int kedge_mpi_open(MPI_Comm comm, const char *name, const char *config, const char *const *settings, kedge_t **out)
{
	struct kedge_group group = {.allgather = allgather, .free_ctx = channels_free};
	struct channels *c;
	int provided = MPI_THREAD_SINGLE;
	int rc;

	if (out)
		*out = NULL;
	if (!mpi_ready())
		return KEDGE_E_STATE;
	MPI_Query_thread(&provided);
	group.any_thread = provided == MPI_THREAD_MULTIPLE;
	rc = channels_new(comm, group.any_thread, &c);
	if (rc)
		return rc;
	MPI_Comm_rank(c->front.comm, &group.rank);
	MPI_Comm_size(c->front.comm, &group.size);
	group.ctx = c;
	group.background = group.any_thread ? &c->back : NULL;
	rc = kedge_open_group(name, config, settings, &group, out);
	if (rc)
		channels_free(c);
	return rc;
}
