/* SPDX-License-Identifier: BSD-3-Clause */
#include "client.h"

#include <stdint.h>
#include <stdlib.h>

static struct veloc__group *group_find(struct veloc__group *groups, const char *name)
{
	while (groups && strcmp(groups->name, name) != 0)
		groups = groups->next;
	return groups;
}

static struct veloc__group *group_get(struct veloc__group **groups, const char *name)
{
	struct veloc__group *g = group_find(*groups, name);

	if (g)
		return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->name = strdup(name);
	if (!g->name) {
		free(g);
		return NULL;
	}
	g->next = *groups;
	*groups = g;
	return g;
}

void veloc__groups_free(struct veloc__group *groups)
{
	while (groups) {
		struct veloc__group *next = groups->next;

		free(groups->at);
		free(groups->name);
		free(groups);
		groups = next;
	}
}

/* Index of ID, or of the first one above it. */
static size_t place_of(const struct veloc__group *g, int id)
{
	size_t low = 0, high = g->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (g->at[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct veloc__region *veloc__region_find(const struct veloc__group *g, int id)
{
	size_t i = g ? place_of(g, id) : 0;

	return g && i < g->count && g->at[i].id == id ? &g->at[i] : NULL;
}

static int insert(struct veloc__group *g, struct veloc__region r)
{
	size_t i = place_of(g, r.id);

	if (g->count == g->room) {
		size_t room = g->room ? 2 * g->room : 16;
		struct veloc__region *at = realloc(g->at, room * sizeof(*at));

		if (!at)
			return VELOC_FAILURE;
		g->at = at;
		g->room = room;
	}
	memmove(g->at + i + 1, g->at + i, (g->count - i) * sizeof(*g->at));
	g->at[i] = r;
	g->count++;
	return VELOC_SUCCESS;
}

int veloc__region_put(struct veloc__group **groups, const char *name, int id, void *ptr, size_t count, size_t unit)
{
	struct veloc__region fresh = {.id = id, .ptr = ptr, .count = count, .unit = unit}, *known;
	struct veloc__group *g;
	size_t bytes;

	if (__builtin_mul_overflow(count, unit, &bytes) || (bytes && !ptr)) {
		veloc__log(KEDGE_LOG_ERROR,
			   "cannot protect region %d: %zu elements of %zu bytes at %p are not valid memory", id, count,
			   unit, ptr);
		return VELOC_FAILURE;
	}
	g = group_get(groups, name);
	if (!g)
		return VELOC_FAILURE;
	known = veloc__region_find(g, id);
	if (!known)
		return insert(g, fresh);
	*known = fresh;
	return VELOC_FAILURE; /* as in VELOC: protected, but not for the first time */
}

int veloc__region_remove(struct veloc__group *groups, const char *name, int id)
{
	struct veloc__group *g = group_find(groups, name);
	struct veloc__region *r = veloc__region_find(g, id);

	if (!r)
		return VELOC_FAILURE;
	memmove(r, r + 1, (size_t)(g->at + g->count - (r + 1)) * sizeof(*r));
	g->count--;
	return VELOC_SUCCESS;
}

void veloc__region_clear(struct veloc__group *groups, const char *name)
{
	struct veloc__group *g = group_find(groups, name);

	if (g)
		g->count = 0;
}

struct veloc__group *veloc__group_for(struct veloc__group *groups, const char *name)
{
	struct veloc__group *g = group_find(groups, name);

	if (!g || !g->count)
		g = group_find(groups, "default");
	return g && g->count ? g : NULL;
}

bool veloc__selects(int mode, const int *ids, int count, int id)
{
	bool listed = false;

	for (int i = 0; ids && i < count; i++)
		listed = listed || ids[i] == id;
	return mode == VELOC_CKPT_ALL || (mode == VELOC_CKPT_SOME && listed) || (mode == VELOC_CKPT_REST && !listed);
}

/* ------------------------------------------------------------------ the calls */

/* After unprotecting a region the application may free its memory. */
static void let_go(struct veloc__client *c, const struct veloc__region *r)
{
	for (struct veloc__job *job = c->jobs; job; job = job->next)
		veloc__job_let_go(job, r);
}

int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name)
{
	struct veloc__client *c = veloc__client_enter();
	const struct veloc__region *r;

	if (!c || !name)
		return VELOC_FAILURE;
	r = veloc__region_find(group_find(c->groups, name), id);
	if (r && (r->ptr != ptr || r->count != count || r->unit != base_size))
		let_go(c, r);
	return veloc__region_put(&c->groups, name, id, ptr, count, base_size);
}

int VELOC_Region_unprotect(int id, const char *name)
{
	struct veloc__client *c = veloc__client_enter();
	const struct veloc__region *r = c && name ? veloc__region_find(group_find(c->groups, name), id) : NULL;

	if (!r)
		return VELOC_FAILURE;
	let_go(c, r);
	return veloc__region_remove(c->groups, name, id);
}

int VELOC_Region_clear(const char *name)
{
	struct veloc__client *c = veloc__client_enter();
	const struct veloc__group *g = c && name ? group_find(c->groups, name) : NULL;

	if (!c || !name)
		return VELOC_FAILURE;
	for (size_t i = 0; g && i < g->count; i++)
		let_go(c, &g->at[i]);
	veloc__region_clear(c->groups, name);
	return VELOC_SUCCESS;
}

int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size)
{
	return VELOC_Region_protect(id, ptr, count, base_size, "default");
}

int VELOC_Mem_unprotect(int id)
{
	return VELOC_Region_unprotect(id, "default");
}

int VELOC_Mem_clear(void)
{
	return VELOC_Region_clear("default");
}
