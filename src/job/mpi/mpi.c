/* SPDX-License-Identifier: BSD-3-Clause */
#include <kedge/kedge_mpi.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

typedef void fold_fn(void *acc, const void *other);

/*
 * One duplicate of the communicator per channel, so that the flusher's messages never meet those of the application's
 * calls. A message is one element of a datatype, which carries a pointer to its channel: there MPI's reductions find
 * how to fold.
 */
struct channel {
	MPI_Comm comm;
	MPI_Op op;
	MPI_Datatype type; /* of BYTES bytes that FOLD folds; MPI_DATATYPE_NULL: none yet */
	size_t bytes;
	fold_fn *fold;
};

struct channels {
	struct channel front, back; /* front first: the group's ctx is a pointer to it */
	MPI_Op op;                  /* of both */
};

/* ------------------------------------------------------------------ folding */

/* The key of the pointer from a datatype to its channel: one for all channels, as long as there are any. */
static struct {
	pthread_mutex_t lock;
	int users;
	atomic_int value;
} key = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int key_hold(void)
{
	int made, rc = MPI_SUCCESS;

	pthread_mutex_lock(&key.lock);
	if (!key.users) {
		rc = MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &made, NULL);
		if (rc == MPI_SUCCESS)
			atomic_store(&key.value, made);
	}
	key.users += rc == MPI_SUCCESS;
	pthread_mutex_unlock(&key.lock);
	return rc;
}

static void key_drop(void)
{
	int value;

	pthread_mutex_lock(&key.lock);
	value = atomic_load(&key.value);
	if (--key.users == 0)
		MPI_Type_free_keyval(&value);
	pthread_mutex_unlock(&key.lock);
}

static void fold_messages(void *in, void *inout, int *count, MPI_Datatype *type)
{
	struct channel *ch;
	int found = 0;

	if (MPI_Type_get_attr(*type, atomic_load(&key.value), &ch, &found) != MPI_SUCCESS || !found)
		return; /* of no datatype that we reduce */
	for (int i = 0; i < *count; i++)
		ch->fold((char *)inout + (size_t)i * ch->bytes, (const char *)in + (size_t)i * ch->bytes);
}

static void type_free(struct channel *ch)
{
	if (ch->type != MPI_DATATYPE_NULL)
		MPI_Type_free(&ch->type);
	ch->type = MPI_DATATYPE_NULL;
}

/* Messages are of one kind but for the first, so that the datatype is seldom made. */
static int type_make(struct channel *ch, size_t bytes, fold_fn *fold)
{
	if (ch->type != MPI_DATATYPE_NULL && ch->bytes == bytes && ch->fold == fold)
		return MPI_SUCCESS;
	type_free(ch);
	ch->bytes = bytes;
	ch->fold = fold;
	if (MPI_Type_contiguous((int)bytes, MPI_BYTE, &ch->type) != MPI_SUCCESS) {
		ch->type = MPI_DATATYPE_NULL;
		return MPI_ERR_TYPE;
	}
	if (MPI_Type_commit(&ch->type) == MPI_SUCCESS &&
	    MPI_Type_set_attr(ch->type, atomic_load(&key.value), ch) == MPI_SUCCESS)
		return MPI_SUCCESS;
	type_free(ch);
	return MPI_ERR_TYPE;
}

/* ------------------------------------------------------------------ a group's calls */

/*
 * Ranks may arrive far apart, and MPI libraries wait by polling: after a moment this thread polls less and less often,
 * so that a waiting checkpoint does not take a core from the computation.
 */
static int wait_gently(int count, MPI_Request *requests)
{
	struct timespec pause = {0, 20000};
	int done = 0;

	for (int i = 0; !done; i++) {
		int rc = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);

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
	return wait_gently(1, &request) != MPI_SUCCESS;
}

static int reduce(void *ctx, void *inout, size_t bytes, fold_fn *fold)
{
	struct channel *ch = ctx;
	MPI_Request request;

	if (bytes > INT_MAX || type_make(ch, bytes, fold) != MPI_SUCCESS)
		return 1;
	if (MPI_Iallreduce(MPI_IN_PLACE, inout, 1, ch->type, ch->op, ch->comm, &request) != MPI_SUCCESS)
		return 1;
	return wait_gently(1, &request) != MPI_SUCCESS;
}

static int gather(void *ctx, const void *send, size_t bytes, void *recv, int root)
{
	struct channel *ch = ctx;
	MPI_Request request;

	if (bytes > INT_MAX)
		return 1;
	if (MPI_Igather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, root, ch->comm, &request) !=
	    MPI_SUCCESS)
		return 1;
	return wait_gently(1, &request) != MPI_SUCCESS;
}

#define REQUESTS_HERE 256 /* that fit on the stack: enough for a rank's part in a team */
#define TRANSFER_TAG  1

/* Messages of one pair of ranks do not overtake each other. */
static int transfer_by(struct channel *ch, const struct kedge_transfer *send, size_t sends,
		       const struct kedge_transfer *recv, size_t recvs, MPI_Request *requests)
{
	int n = 0, rc = MPI_SUCCESS;

	for (size_t i = 0; i < recvs && rc == MPI_SUCCESS; i++)
		rc = recv[i].bytes > INT_MAX ? MPI_ERR_COUNT
					     : MPI_Irecv(recv[i].data, (int)recv[i].bytes, MPI_BYTE, recv[i].rank,
							 TRANSFER_TAG, ch->comm, &requests[n++]);
	for (size_t i = 0; i < sends && rc == MPI_SUCCESS; i++)
		rc = send[i].bytes > INT_MAX ? MPI_ERR_COUNT
					     : MPI_Isend(send[i].data, (int)send[i].bytes, MPI_BYTE, send[i].rank,
							 TRANSFER_TAG, ch->comm, &requests[n++]);
	return rc == MPI_SUCCESS ? wait_gently(n, requests) : rc;
}

static int transfer(void *ctx, const struct kedge_transfer *send, size_t sends, const struct kedge_transfer *recv,
		    size_t recvs)
{
	MPI_Request here[REQUESTS_HERE], *requests = here;
	int rc;

	if (sends + recvs == 0)
		return 0;
	if (sends + recvs > REQUESTS_HERE)
		requests = malloc((sends + recvs) * sizeof(*requests));
	rc = requests ? transfer_by(ctx, send, sends, recv, recvs, requests) : MPI_ERR_NO_MEM;
	if (requests != here)
		free(requests);
	return rc != MPI_SUCCESS;
}

/* ------------------------------------------------------------------ channels */

static void channel_free(struct channel *ch)
{
	type_free(ch);
	if (ch->comm != MPI_COMM_NULL)
		MPI_Comm_free(&ch->comm);
}

static void channels_done(struct channels *c)
{
	channel_free(&c->back);
	channel_free(&c->front);
	if (c->op == MPI_OP_NULL)
		return;
	MPI_Op_free(&c->op);
	key_drop();
}

static void channels_free(void *ctx)
{
	struct channels *c = ctx;
	int finalized = 0;

	if (!c)
		return;
	MPI_Finalized(&finalized);
	if (!finalized)
		channels_done(c);
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

static int op_make(struct channels *c)
{
	if (key_hold() != MPI_SUCCESS)
		return KEDGE_E_GROUP;
	if (MPI_Op_create(fold_messages, 1, &c->op) != MPI_SUCCESS) {
		c->op = MPI_OP_NULL;
		key_drop();
		return KEDGE_E_GROUP;
	}
	c->front.op = c->back.op = c->op;
	return 0;
}

/* A rank without memory, or without an operation, takes part all the same, so that no other waits for it in vain. */
static int channels_new(MPI_Comm comm, int any_thread, struct channels **out)
{
	struct channels *c = malloc(sizeof(*c)), unused, *use = c ? c : &unused;
	const struct channel none = {.comm = MPI_COMM_NULL, .op = MPI_OP_NULL, .type = MPI_DATATYPE_NULL};
	int rc, local, ready;

	*use = (struct channels){none, none, MPI_OP_NULL};
	local = c ? op_make(c) : KEDGE_E_NOMEM;
	rc = comm_dup(comm, &use->front.comm);
	if (!rc && any_thread)
		rc = comm_dup(comm, &use->back.comm);
	ready = !local;
	if (!rc && MPI_Allreduce(MPI_IN_PLACE, &ready, 1, MPI_INT, MPI_MIN, use->front.comm) != MPI_SUCCESS)
		rc = KEDGE_E_GROUP;
	if (!rc && ready) {
		*out = c;
		return 0;
	}
	channels_done(use);
	free(c);
	if (rc)
		return rc;
	return local ? local : KEDGE_E_GROUP;
}

/* How many of COMM's ranks are on this machine; 0: MPI does not say. */
static int neighbours_count(MPI_Comm comm)
{
	MPI_Comm node = MPI_COMM_NULL;
	int count = 0;

	if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) != MPI_SUCCESS ||
	    node == MPI_COMM_NULL)
		return 0;
	MPI_Comm_size(node, &count);
	MPI_Comm_free(&node);
	return count;
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
	struct kedge_group group = {.allgather = allgather,
				    .reduce = reduce,
				    .gather = gather,
				    .transfer = transfer,
				    .free_ctx = channels_free};
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
	group.neighbours = neighbours_count(c->front.comm);
	group.ctx = c;
	group.background = group.any_thread ? &c->back : NULL;
	rc = kedge_open_group(name, config, settings, &group, out);
	if (rc)
		channels_free(c);
	return rc;
}
