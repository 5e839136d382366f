/* SPDX-License-Identifier: BSD-3-Clause */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void region_name(int id, char out[16])
{
	snprintf(out, 16, "%d", id);
}

static void file_bare(struct veloc__job *job)
{
	char region[160];

	if (job->filed) {
		snprintf(region, sizeof(region), KEDGE_FILE_PREFIX "%s", job->file);
		(void)kedge_unprotect(job->k, region);
	}
	job->filed = false;
	if (job->path)
		unlink(job->path);
	free(job->path);
	job->path = NULL;
}

static void region_bare(struct veloc__job *job, int id)
{
	char name[16];

	region_name(id, name);
	(void)kedge_unprotect(job->k, name);
}

static void held_bare(struct veloc__job *job)
{
	for (size_t i = 0; i < job->held_count; i++)
		region_bare(job, job->held[i].id);
	job->held_count = 0;
}

static bool same_memory(const struct veloc__region *a, const struct veloc__region *b)
{
	return a->id == b->id && a->ptr == b->ptr && a->count == b->count && a->unit == b->unit;
}

void veloc__job_let_go(struct veloc__job *job, const struct veloc__region *r)
{
	size_t i = 0;

	while (i < job->held_count && !same_memory(&job->held[i], r))
		i++;
	if (i == job->held_count)
		return;
	region_bare(job, r->id);
	memmove(job->held + i, job->held + i + 1, (--job->held_count - i) * sizeof(*job->held));
}

void veloc__job_bare(struct veloc__job *job)
{
	if (!job->k)
		return;
	held_bare(job);
	file_bare(job);
}

void veloc__phase_end(struct veloc__client *c)
{
	for (struct veloc__group *g = c->groups; g; g = g->next) {
		for (size_t i = 0; i < g->count; i++)
			g->at[i].chosen = false;
	}
	kedge_free(c->stored);
	c->stored = NULL;
	c->stored_count = 0;
	c->phase = VELOC__IDLE;
}

/* ------------------------------------------------------------------ memory */

static enum kedge_type type_of(size_t unit)
{
	return unit == 8 ? KEDGE_U64 : unit == 4 ? KEDGE_U32 : unit == 2 ? KEDGE_U16 : KEDGE_BYTES;
}

static int region_protect(struct veloc__job *job, const struct veloc__region *r)
{
	enum kedge_type type = type_of(r->unit);
	size_t count = type == KEDGE_BYTES ? r->count * r->unit : r->count;
	char name[16];

	region_name(r->id, name);
	return kedge_protect(job->k, name, r->ptr, count, type);
}

/* KNOWN: what the handle has under the id of R, or NULL. If it is the same memory, it stays as it is: what the page
 * tracker knows of it is worth more than the call. */
static int region_hold(struct veloc__job *job, const struct veloc__region *known, const struct veloc__region *r)
{
	int rc = known && same_memory(known, r) ? 0 : region_protect(job, r);

	if (rc)
		veloc__log(KEDGE_LOG_ERROR, "%s", kedge_last_error(job->k));
	return rc;
}

/* Protect the selected regions, and nothing else. */
static int group_protect(struct veloc__job *job, const struct veloc__group *g)
{
	struct veloc__region *held = malloc((g->count + 1) * sizeof(*held));
	size_t n = 0, old = 0;
	int rc = 0;

	if (!held) {
		veloc__log(KEDGE_LOG_ERROR, "%s", kedge_strerror(KEDGE_E_NOMEM));
		return KEDGE_E_NOMEM;
	}
	for (size_t i = 0; i < g->count; i++) {
		const struct veloc__region *r = &g->at[i], *known = NULL;

		for (; old < job->held_count && job->held[old].id < r->id; old++)
			region_bare(job, job->held[old].id);
		if (old < job->held_count && job->held[old].id == r->id)
			known = &job->held[old++];
		if (r->chosen && !rc)
			rc = region_hold(job, known, r);
		if (r->chosen && !rc)
			held[n++] = *r;
		else if (known)
			region_bare(job, known->id);
	}
	for (; old < job->held_count; old++)
		region_bare(job, job->held[old].id);
	free(job->held);
	job->held = held;
	job->held_count = n;
	return rc;
}

/* Calls of one checkpoint add up. */
static size_t choose(struct veloc__group *g, int mode, const int *ids, int count)
{
	size_t chosen = 0;

	for (size_t i = 0; g && i < g->count; i++) {
		g->at[i].chosen = g->at[i].chosen || veloc__selects(mode, ids, count, g->at[i].id);
		chosen += g->at[i].chosen;
	}
	return chosen;
}

/* The version is taken unless a rank objects. */
static int take(struct veloc__client *c, int bad)
{
	struct veloc__job *job = c->job;
	int values[2] = {bad, job->cleanup};
	int rc;

	if (veloc__client_max(c, values, 2))
		return VELOC_FAILURE;
	if (values[1]) {
		job->cleanup = false;
		(void)veloc__call(c, VELOC__OP_DISCARD, job->k, 0, NULL);
	}
	rc = values[0] ? KEDGE_E_GROUP : 0;
	/* Programs may count up and down; but versions of an earlier process are removed only by a restart or
	 * VELOC_Cleanup(). */
	if (!rc && job->took && c->version < job->last)
		rc = veloc__call(c, VELOC__OP_GO_BACK, job->k, c->version, NULL);
	if (!rc)
		rc = veloc__call(c, VELOC__OP_CHECKPOINT, job->k, c->version, NULL);
	c->taken = !rc;
	c->failed = !!rc;
	if (!rc) {
		job->took = true;
		job->last = c->version;
	}
	return rc ? VELOC_FAILURE : VELOC_SUCCESS;
}

int VELOC_Checkpoint_selective(int mode, int *ids, int id_count)
{
	struct veloc__client *c = veloc__client_enter();
	struct veloc__group *g;
	int bad;

	if (!c || c->phase != VELOC__CHECKPOINT)
		return VELOC_FAILURE;
	g = veloc__group_for(c->groups, c->job->name);
	bad = !choose(g, mode, ids, id_count);
	if (bad)
		veloc__log(KEDGE_LOG_ERROR,
			   "%s: nothing to save: no region is selected; call VELOC_Mem_protect() first", c->job->name);
	else
		bad = group_protect(c->job, g) != 0;
	return take(c, bad);
}

int VELOC_Checkpoint_mem(void)
{
	return VELOC_Checkpoint_selective(VELOC_CKPT_ALL, NULL, 0);
}

/* ------------------------------------------------------------------ files */

static int file_route(struct veloc__client *c, const char *original)
{
	struct veloc__job *job = c->job;
	char path[VELOC_MAX_NAME];

	if (kedge_file_route(job->k, job->file, path, sizeof(path))) {
		veloc__log(KEDGE_LOG_ERROR, "%s", kedge_last_error(job->k));
		return VELOC_FAILURE;
	}
	job->filed = true;
	free(job->path);
	job->path = strdup(path);
	free(c->original);
	c->original = original && original[0] ? veloc__path_absolute(original) : NULL;
	return job->path ? VELOC_SUCCESS : VELOC_FAILURE;
}

int VELOC_Route_file(const char *original, char *routed)
{
	struct veloc__client *c = veloc__client_enter();

	if (!c || !routed || !c->job)
		return VELOC_FAILURE;
	if (c->phase == VELOC__CHECKPOINT && file_route(c, original))
		return VELOC_FAILURE;
	if (!c->job->path) {
		veloc__log(KEDGE_LOG_ERROR, "%s: version %llu has no file to route", c->job->name,
			   (unsigned long long)c->version);
		return VELOC_FAILURE;
	}
	strcpy(routed, c->job->path);
	return VELOC_SUCCESS;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* As often as versions go to persistent storage. */
static void file_export(struct veloc__client *c)
{
	const struct veloc__config *config = &c->config;
	double interval = (double)config->persistent_interval, time = now();

	if (!config->originals || !config->persistent || interval < 0 || !c->original || !c->job->path)
		return;
	if (c->exported > 0 && time - c->exported < interval)
		return;
	if (!c->exporter)
		c->exporter = veloc__exporter_new();
	if (!c->exporter)
		return;
	c->exported = time;
	veloc__exporter_submit(c->exporter, c->job->path, c->original);
}

/* A rank without a file takes part with nothing, as long as some rank has one. */
static int take_file(struct veloc__client *c)
{
	int some[1] = {c->job->filed};
	int rc;

	held_bare(c->job);
	if (veloc__client_max(c, some, 1))
		return VELOC_FAILURE;
	if (!some[0])
		veloc__log(KEDGE_LOG_ERROR, "%s: version %llu has neither regions nor a file", c->job->name,
			   (unsigned long long)c->version);
	rc = take(c, !some[0]);
	if (!rc)
		file_export(c);
	return rc;
}

/* ------------------------------------------------------------------ begin, end, wait */

int VELOC_Checkpoint_begin(const char *name, int version)
{
	struct veloc__client *c = veloc__client_enter();
	struct veloc__job *job;

	if (!c || c->phase != VELOC__IDLE || !veloc__name_valid(name) || version < 0)
		return VELOC_FAILURE;
	job = veloc__job_open(c, name);
	if (!job)
		return VELOC_FAILURE;
	file_bare(job);
	free(c->original);
	c->original = NULL;
	c->job = job;
	c->version = (uint64_t)version;
	c->taken = c->failed = false;
	c->phase = VELOC__CHECKPOINT;
	return VELOC_SUCCESS;
}

/* SUCCESS is ignored, as in VELOC: programs pass VELOC_SUCCESS, which is 0. */
int VELOC_Checkpoint_end(int success)
{
	struct veloc__client *c = veloc__client_enter();
	int rc;

	(void)success;
	if (!c || c->phase != VELOC__CHECKPOINT)
		return VELOC_FAILURE;
	rc = c->taken || c->failed ? 0 : take_file(c);
	if (!rc && c->failed)
		rc = VELOC_FAILURE;
	veloc__phase_end(c);
	if (!rc && !c->config.async)
		rc = veloc__client_wait(c);
	return rc;
}

int veloc__client_wait(struct veloc__client *c)
{
	int rc = VELOC_SUCCESS;

	for (struct veloc__job *job = c->jobs; job; job = job->next) {
		if (job->k && veloc__call(c, VELOC__OP_WAIT, job->k, 0, NULL))
			rc = VELOC_FAILURE;
	}
	veloc__exporter_drain(c->exporter);
	return rc;
}

int VELOC_Checkpoint_wait(void)
{
	struct veloc__client *c = veloc__client_enter();

	return c && c->phase == VELOC__IDLE ? veloc__client_wait(c) : VELOC_FAILURE;
}

int VELOC_Checkpoint_finished(void)
{
	struct veloc__client *c = veloc__client_enter();

	if (!c)
		return VELOC_FAILURE;
	for (const struct veloc__job *job = c->jobs; job; job = job->next) {
		if (job->k && job->took && kedge_test(job->k, job->last) == 0)
			return VELOC_FAILURE;
	}
	return veloc__exporter_idle(c->exporter) ? VELOC_SUCCESS : VELOC_FAILURE;
}

/* A failure of an earlier version is logged, but does not prevent this one. */
int VELOC_Checkpoint(const char *name, int version)
{
	int waited = VELOC_Checkpoint_wait();
	int rc = VELOC_Checkpoint_begin(name, version);

	if (rc)
		return rc;
	(void)VELOC_Checkpoint_mem();
	rc = VELOC_Checkpoint_end(1);
	return rc ? rc : waited;
}
