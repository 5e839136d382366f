/* SPDX-License-Identifier: BSD-3-Clause */
#include "client.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* One client per process, as in VELOC. */
static struct veloc__client *client;

struct veloc__client *veloc__client_enter(void)
{
	if (client)
		veloc__engine_progress(client->engine);
	return client;
}

/* ------------------------------------------------------------------ with the other ranks */

/* All waiting for MPI is done here, so that the engine makes progress: another rank may be waiting for its message. */
static int request_wait(struct veloc__client *c, MPI_Request *request)
{
	struct timespec pause = {0, 50000};
	int done = 0;

	for (unsigned turn = 0; !done; turn++) {
		if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
			return VELOC_FAILURE;
		veloc__engine_progress(c->engine);
		if (!done && turn > 1000)
			nanosleep(&pause, NULL);
	}
	return VELOC_SUCCESS;
}

int veloc__client_max(struct veloc__client *c, int *values, int count)
{
	MPI_Request request;

	if (c->size == 1)
		return VELOC_SUCCESS;
	if (MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_INT, MPI_MAX, c->comm, &request) != MPI_SUCCESS)
		return VELOC_FAILURE;
	return request_wait(c, &request);
}

struct call {
	enum veloc__op op;
	kedge_t *k;
	uint64_t version, *out;
	int rc;
	char cause[1024]; /* only the calling thread knows the error */
};

static int call_make(const struct call *call)
{
	switch (call->op) {
	case VELOC__OP_CHECKPOINT:
		return kedge_checkpoint(call->k, call->version);
	case VELOC__OP_WAIT:
		return kedge_wait(call->k);
	case VELOC__OP_RESTART:
		return kedge_restart(call->k, call->version, call->out);
	case VELOC__OP_FIND:
		return kedge_find_usable(call->k, call->version, call->out);
	case VELOC__OP_DISCARD:
		return kedge_discard(call->k, call->version, KEDGE_LEVEL_1);
	case VELOC__OP_GO_BACK:
		return kedge_discard(call->k, call->version, KEDGE_LEVEL_1 | KEDGE_LEVEL_2);
	case VELOC__OP_CLOSE:
		return kedge_close(call->k);
	}
	return KEDGE_E_ARG;
}

static void call_run(void *arg)
{
	struct call *call = arg;

	call->rc = call_make(call);
	if (call->rc)
		snprintf(call->cause, sizeof(call->cause), "%s",
			 kedge_last_error(call->op == VELOC__OP_CLOSE ? NULL : call->k));
}

int veloc__call(struct veloc__client *c, enum veloc__op op, kedge_t *k, uint64_t version, uint64_t *out)
{
	struct call call = {.op = op, .k = k, .version = version, .out = out};
	bool usual;

	veloc__engine_run(c->engine, call_run, &call);
	usual = op == VELOC__OP_FIND && call.rc == KEDGE_E_NOTFOUND;
	if (call.rc)
		veloc__log(usual ? KEDGE_LOG_INFO : KEDGE_LOG_ERROR, "%s", call.cause);
	return call.rc;
}

/* ------------------------------------------------------------------ jobs */

bool veloc__name_valid(const char *name)
{
	size_t n = name ? strlen(name) : 0;

	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '.')
			return false;
	}
	return n > 0 && n < 128;
}

/* VELOC's names contain no '-', so a suffix that begins with one cannot clash with another name. */
static void job_name(const struct veloc__client *c, const char *name, char *out, size_t room)
{
	bool dotted = name[0] == '.';

	if (c->single)
		snprintf(out, room, "%s%s-%u", dotted ? "dot-" : "", name + dotted, c->id);
	else
		snprintf(out, room, "%s%s", dotted ? "dot-" : "", name + dotted);
}

static struct veloc__job *job_get(struct veloc__client *c, const char *name)
{
	struct veloc__job **link = &c->jobs;
	struct veloc__job *job;

	while (*link && strcmp((*link)->name, name) != 0)
		link = &(*link)->next;
	if (*link)
		return *link;
	job = calloc(1, sizeof(*job));
	if (!job)
		return NULL;
	job->name = strdup(name);
	job->file = malloc(strlen(name) + sizeof(".dat"));
	if (!job->name || !job->file) {
		free(job->name);
		free(job->file);
		free(job);
		return NULL;
	}
	sprintf(job->file, "%s.dat", name);
	*link = job;
	return job;
}

struct opening {
	struct veloc__client *c;
	struct veloc__job *job;
	char name[160];
	int rc;
	char cause[1024];
};

static int open_engine(struct opening *o)
{
	struct kedge_group group = {
	    .rank = o->c->rank,
	    .size = o->c->size,
	    .any_thread = 1,
	    .allgather = veloc__channel_allgather,
	    .ctx = o->job->front,
	    .background = o->job->back,
	};

	return kedge_open_group(o->name, NULL, (const char *const *)o->c->settings, &group, &o->job->k);
}

static void open_run(void *arg)
{
	struct opening *o = arg;
	const char *const *settings = (const char *const *)o->c->settings;

	if (o->c->engine)
		o->rc = open_engine(o);
	else if (o->c->size > 1)
		o->rc = kedge_mpi_open(o->c->comm, o->name, NULL, settings, &o->job->k);
	else
		o->rc = kedge_open(o->name, NULL, settings, &o->job->k);
	if (o->rc)
		snprintf(o->cause, sizeof(o->cause), "%s", kedge_last_error(NULL));
}

static struct veloc__channel *channel_new(struct veloc__client *c)
{
	struct veloc__channel *ch;
	MPI_Request request;
	MPI_Comm comm;

	if (MPI_Comm_idup(c->comm, &comm, &request) != MPI_SUCCESS || request_wait(c, &request))
		return NULL;
	ch = veloc__channel_new(c->engine, comm);
	if (!ch)
		MPI_Comm_free(&comm);
	return ch;
}

static void job_close(struct veloc__job *job)
{
	veloc__channel_free(job->front);
	veloc__channel_free(job->back);
	job->front = job->back = NULL;
	free(job->held);
	free(job->path);
	free(job->file);
	free(job->name);
	free(job);
}

struct veloc__job *veloc__job_open(struct veloc__client *c, const char *name)
{
	struct opening o = {.c = c, .job = job_get(c, name)};
	int bad[1] = {!o.job};

	if (o.job && o.job->k)
		return o.job;
	if (c->engine && o.job && !o.job->front) {
		o.job->front = channel_new(c);
		o.job->back = o.job->front ? channel_new(c) : NULL;
		bad[0] = !o.job->back;
	}
	if (veloc__client_max(c, bad, 1) || bad[0])
		return NULL;
	job_name(c, name, o.name, sizeof(o.name));
	veloc__engine_run(c->engine, open_run, &o);
	if (o.rc)
		veloc__log(KEDGE_LOG_ERROR, "cannot open checkpoint name %s: %s", name, o.cause);
	return o.rc ? NULL : o.job;
}

int veloc__job_settle(struct veloc__client *c, struct veloc__job *job)
{
	int wanted[1] = {job->cleanup};

	if (veloc__client_max(c, wanted, 1))
		return VELOC_FAILURE;
	if (!wanted[0])
		return VELOC_SUCCESS;
	job->cleanup = false;
	return veloc__call(c, VELOC__OP_DISCARD, job->k, 0, NULL) ? VELOC_FAILURE : VELOC_SUCCESS;
}

int VELOC_Cleanup(const char *name)
{
	struct veloc__client *c = veloc__client_enter();
	struct veloc__job *job;

	if (!c || !veloc__name_valid(name))
		return VELOC_FAILURE;
	job = c->size == 1 ? veloc__job_open(c, name) : job_get(c, name);
	if (!job)
		return VELOC_FAILURE;
	job->cleanup = true; /* ranks need not ask for it at the same time: it waits until they meet */
	return c->size == 1 ? veloc__job_settle(c, job) : VELOC_SUCCESS;
}

/* ------------------------------------------------------------------ init */

static void client_free(struct veloc__client *c)
{
	while (c->jobs) {
		struct veloc__job *next = c->jobs->next;

		job_close(c->jobs);
		c->jobs = next;
	}
	veloc__exporter_free(c->exporter);
	veloc__engine_free(c->engine);
	veloc__groups_free(c->groups);
	veloc__settings_free(c->settings);
	veloc__config_done(&c->config);
	kedge_free(c->stored);
	free(c->original);
	if (c->comm != MPI_COMM_NULL)
		MPI_Comm_free(&c->comm);
	free(c);
}

static int client_configure(struct veloc__client *c, const char *cfg_file)
{
	int rc = veloc__config_load(cfg_file, &c->config);

	if (rc)
		return rc;
	veloc__log_open(c->config.log_level, c->single ? (long)c->id : c->rank);
	if (c->rank == 0)
		veloc__config_report(&c->config);
	c->settings = veloc__settings_make(&c->config);
	return c->settings ? VELOC_SUCCESS : VELOC_FAILURE;
}

static int client_join(struct veloc__client *c, MPI_Comm comm)
{
	int ready = 0, over = 0, provided = MPI_THREAD_SINGLE;

	MPI_Initialized(&ready);
	if (ready)
		MPI_Finalized(&over);
	if (!ready || over) {
		veloc__log(KEDGE_LOG_ERROR, "VELOC_Init() needs MPI: call MPI_Init() first");
		return VELOC_FAILURE;
	}
	if (MPI_Comm_dup(comm, &c->comm) != MPI_SUCCESS) {
		c->comm = MPI_COMM_NULL;
		return VELOC_FAILURE;
	}
	MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(c->comm, &c->rank);
	MPI_Comm_size(c->comm, &c->size);
	MPI_Query_thread(&provided);
	if (c->size > 1 && provided != MPI_THREAD_MULTIPLE)
		c->engine = veloc__engine_new();
	return c->size > 1 && provided != MPI_THREAD_MULTIPLE && !c->engine ? VELOC_FAILURE : VELOC_SUCCESS;
}

static struct veloc__client *client_new(void)
{
	struct veloc__client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->comm = MPI_COMM_NULL;
	c->size = 1;
	return c;
}

static int finish(void);

/* Called by MPI_Finalize() of a program that forgot VELOC_Finalize(): the last moment at which ranks can agree. */
static int on_mpi_finalize(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm, (void)keyval, (void)value, (void)extra;
	if (client && !client->single)
		finish();
	return MPI_SUCCESS;
}

static void mpi_watch(void)
{
	static int keyval = MPI_KEYVAL_INVALID;

	if (keyval != MPI_KEYVAL_INVALID)
		return;
	if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_mpi_finalize, &keyval, NULL) == MPI_SUCCESS)
		MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
}

static void on_exit_single(void)
{
	if (client && client->single)
		finish();
}

int VELOC_Init(MPI_Comm comm, const char *cfg_file)
{
	struct veloc__client *c;
	int bad[1];

	if (client)
		return VELOC_SUCCESS;
	c = client_new();
	if (!c)
		return VELOC_FAILURE;
	bad[0] = client_join(c, comm) != 0;
	if (c->comm == MPI_COMM_NULL) {
		client_free(c);
		return VELOC_FAILURE;
	}
	if (!bad[0])
		bad[0] = client_configure(c, cfg_file) != 0;
	if (veloc__client_max(c, bad, 1) || bad[0]) {
		client_free(c);
		return VELOC_FAILURE;
	}
	client = c;
	mpi_watch();
	return VELOC_SUCCESS;
}

int VELOC_Init_single(unsigned int id, const char *cfg_file)
{
	static bool watched;
	struct veloc__client *c;

	if (client)
		return VELOC_SUCCESS;
	c = client_new();
	if (!c)
		return VELOC_FAILURE;
	c->single = true;
	c->id = id;
	if (client_configure(c, cfg_file)) {
		client_free(c);
		return VELOC_FAILURE;
	}
	client = c;
	if (!watched)
		watched = atexit(on_exit_single) == 0;
	return VELOC_SUCCESS;
}

/* ------------------------------------------------------------------ finalize */

/* The names that this rank wants cleaned, one after the other. */
static char *cleanups_own(const struct veloc__client *c, int *bytes)
{
	size_t room = 1, used = 0;
	char *own;

	for (const struct veloc__job *job = c->jobs; job; job = job->next)
		room += strlen(job->name) + 1;
	own = calloc(1, room);
	for (const struct veloc__job *job = c->jobs; own && job; job = job->next) {
		if (!job->cleanup)
			continue;
		strcpy(own + used, job->name);
		used += strlen(job->name) + 1;
	}
	*bytes = (int)used;
	return own;
}

/* Those of all ranks, in the order of ranks. Nothing is in progress any more, so MPI may block. */
static char *cleanups_all(struct veloc__client *c, const char *own, int bytes, int *total)
{
	int *counts = calloc((size_t)c->size, sizeof(*counts)), *places = calloc((size_t)c->size, sizeof(*places));
	char *all = NULL;
	int lacking = !counts || !places;

	if (!lacking) {
		MPI_Allgather(&bytes, 1, MPI_INT, counts, 1, MPI_INT, c->comm);
		for (int r = 0; r < c->size; r++) {
			places[r] = *total;
			*total += counts[r];
		}
		all = malloc((size_t)*total + 1);
		lacking = !all;
	}
	if (veloc__client_max(c, &lacking, 1) == 0 && !lacking)
		MPI_Allgatherv(own, bytes, MPI_CHAR, all, counts, places, MPI_CHAR, c->comm);
	else
		*total = 0;
	free(counts);
	free(places);
	return all;
}

static int cleanups_do(struct veloc__client *c)
{
	int bytes = 0, total = 0, rc = VELOC_SUCCESS;
	char *own = cleanups_own(c, &bytes), *all = NULL;
	int state[2] = {bytes > 0, !own};

	if (c->size > 1 && veloc__client_max(c, state, 2) == 0 && state[0] && !state[1])
		all = cleanups_all(c, own, bytes, &total);
	for (int at = 0; at < total; at += (int)strlen(all + at) + 1) {
		struct veloc__job *job = veloc__job_open(c, all + at);

		if (job)
			job->cleanup = true; /* a name that was requested twice is empty by then */
		if (!job || veloc__job_settle(c, job))
			rc = VELOC_FAILURE;
	}
	free(own);
	free(all);
	return rc;
}

static int finish(void)
{
	struct veloc__client *c = client;
	int rc;

	if (c->phase != VELOC__IDLE)
		veloc__phase_end(c);
	rc = veloc__client_wait(c);
	(void)cleanups_do(c);
	for (struct veloc__job *job = c->jobs; job; job = job->next) {
		veloc__job_bare(job);
		if (job->k && veloc__call(c, VELOC__OP_CLOSE, job->k, 0, NULL))
			rc = VELOC_FAILURE;
		job->k = NULL;
	}
	client = NULL;
	client_free(c);
	veloc__log_close();
	return rc;
}

int VELOC_Finalize(int cleanup)
{
	int rc;

	if (!veloc__client_enter())
		return VELOC_FAILURE;
	rc = finish();
	return cleanup ? rc : VELOC_SUCCESS;
}
