/* SPDX-License-Identifier: BSD-3-Clause */
#include "client.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

int VELOC_Restart_test(const char *name, int version)
{
	struct veloc__client *c = veloc__client_enter();
	struct veloc__job *job;
	uint64_t found = 0;

	if (!c || !veloc__name_valid(name) || version < 0)
		return VELOC_FAILURE;
	job = veloc__job_open(c, name);
	if (!job || veloc__job_settle(c, job))
		return VELOC_FAILURE;
	if (veloc__call(c, VELOC__OP_FIND, job->k, version ? (uint64_t)version : INT_MAX, &found))
		return VELOC_IGNORED;
	return (int)found;
}

/* ------------------------------------------------------------------ begin and end */

static bool has_file(const struct veloc__client *c)
{
	char region[160];

	snprintf(region, sizeof(region), KEDGE_FILE_PREFIX "%s", c->job->file);
	for (size_t i = 0; i < c->stored_count; i++) {
		if (strcmp(c->stored[i].name, region) == 0)
			return true;
	}
	return false;
}

/* A version that is not here has no regions to list; the restart itself informs all ranks. */
static void stored_list(struct veloc__client *c)
{
	char path[VELOC_MAX_NAME];

	if (kedge_regions(c->job->k, c->version, &c->stored, &c->stored_count)) {
		c->stored = NULL;
		c->stored_count = 0;
	}
	if (!has_file(c) || kedge_file_route(c->job->k, c->job->file, path, sizeof(path)))
		return;
	c->job->filed = true;
	c->job->path = strdup(path);
}

int VELOC_Restart_begin(const char *name, int version)
{
	struct veloc__client *c = veloc__client_enter();
	struct veloc__job *job;

	if (!c || c->phase != VELOC__IDLE || !veloc__name_valid(name) || version < 0)
		return VELOC_FAILURE;
	job = veloc__job_open(c, name);
	if (!job || veloc__job_settle(c, job))
		return VELOC_FAILURE;
	/* A version of this process may still be in progress. */
	(void)veloc__call(c, VELOC__OP_WAIT, job->k, 0, NULL);
	veloc__job_bare(job);
	c->job = job;
	c->version = (uint64_t)version;
	stored_list(c);
	if (veloc__call(c, VELOC__OP_RESTART, job->k, c->version, NULL)) {
		veloc__job_bare(job);
		veloc__phase_end(c);
		return VELOC_FAILURE;
	}
	c->phase = VELOC__RESTART;
	return VELOC_SUCCESS;
}

int VELOC_Restart_end(int success)
{
	struct veloc__client *c = veloc__client_enter();

	(void)success;
	if (!c)
		return VELOC_FAILURE;
	if (c->phase == VELOC__RESTART)
		veloc__phase_end(c);
	return VELOC_SUCCESS;
}

/* ------------------------------------------------------------------ memory */

static bool id_of(const struct kedge_region_entry *e, int *id)
{
	char *end;
	long value = strtol(e->name, &end, 10);

	if (*end || end == e->name || value < INT_MIN || value > INT_MAX)
		return false;
	*id = (int)value;
	return true;
}

int VELOC_Recover_size(int id)
{
	struct veloc__client *c = veloc__client_enter();
	int stored;

	if (!c || c->phase != VELOC__RESTART)
		return VELOC_FAILURE;
	for (size_t i = 0; i < c->stored_count; i++) {
		uint64_t bytes = c->stored[i].info.bytes;

		if (id_of(&c->stored[i], &stored) && stored == id)
			return bytes < INT_MAX ? (int)bytes : INT_MAX;
	}
	return 0;
}

/* Every stored region that is selected must be protected, and fit. Returns how many, or VELOC_FAILURE. */
static long targets_make(const struct veloc__client *c, int mode, const int *ids, int count,
			 struct kedge_target *targets)
{
	const struct veloc__group *g = veloc__group_for(c->groups, c->job->name);
	long n = 0;
	int id;

	for (size_t i = 0; i < c->stored_count; i++) {
		const struct veloc__region *r;

		if (!id_of(&c->stored[i], &id) || !veloc__selects(mode, ids, count, id))
			continue;
		r = veloc__region_find(g, id);
		if (!r || r->count * r->unit < c->stored[i].info.bytes) {
			veloc__log(KEDGE_LOG_ERROR, "cannot restore region %d of %llu bytes: it is %s", id,
				   (unsigned long long)c->stored[i].info.bytes,
				   r ? "larger than the protected one" : "not protected");
			return VELOC_FAILURE;
		}
		targets[n++] = (struct kedge_target){c->stored[i].name, r->ptr, r->count * r->unit};
	}
	return n;
}

static bool has_regions(const struct veloc__client *c)
{
	int id;

	for (size_t i = 0; i < c->stored_count; i++) {
		if (id_of(&c->stored[i], &id))
			return true;
	}
	return false;
}

int VELOC_Recover_selective(int mode, int *ids, int id_count)
{
	struct veloc__client *c = veloc__client_enter();
	struct kedge_target *targets;
	long n;
	int rc;

	if (!c || c->phase != VELOC__RESTART || !has_regions(c))
		return VELOC_FAILURE;
	targets = calloc(c->stored_count, sizeof(*targets));
	n = targets ? targets_make(c, mode, ids, id_count, targets) : VELOC_FAILURE;
	rc = n < 0 ? KEDGE_E_MISMATCH : kedge_read(c->job->k, c->version, targets, (size_t)n);
	if (rc && n >= 0)
		veloc__log(KEDGE_LOG_ERROR, "%s", kedge_last_error(c->job->k));
	free(targets);
	return rc ? VELOC_FAILURE : VELOC_SUCCESS;
}

int VELOC_Recover_mem(void)
{
	return VELOC_Recover_selective(VELOC_RECOVER_ALL, NULL, 0);
}

static int restart_agree(int rc)
{
	struct veloc__client *c = veloc__client_enter();
	int failed[1] = {rc != VELOC_SUCCESS};

	return veloc__client_max(c, failed, 1) || failed[0] ? VELOC_FAILURE : VELOC_SUCCESS;
}

int VELOC_Restart(const char *name, int version)
{
	int rc = VELOC_Restart_begin(name, version);

	if (rc)
		return rc;
	rc = VELOC_Recover_mem();
	(void)VELOC_Restart_end(rc == VELOC_SUCCESS);
	/* All ranks go back to the version, or none does. */
	return restart_agree(rc);
}
