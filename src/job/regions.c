/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

int kedge__regions_new(kedge_t *k, struct kedge__error *err)
{
	return kedge__region_table_new(&k->regions.table, err);
}

void kedge__regions_done(kedge_t *k)
{
	kedge__region_table_free(k->regions.table);
}

int kedge__regions_assign(kedge_t *k, struct kedge__error *err)
{
	return kedge__region_table_assign(k->regions.table, &k->regions.next_slot, err);
}

int kedge__regions_remember(kedge_t *k, const struct kedge__segment *top, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < top->region_count && !rc; i++)
		rc = kedge__region_table_remember(k->regions.table, top->regions[i].name, top->regions[i].slot, err);
	k->regions.next_slot = KEDGE__MAX(k->regions.next_slot, top->summary.next_slot);
	return rc;
}

/* ------------------------------------------------------------------ the calls */

void kedge_set_room(kedge_t *k, void *(*room)(void *user, const char *name, const struct kedge_region_info *info),
		    void *user)
{
	if (kedge__handle_check(k, NULL))
		return;
	pthread_mutex_lock(&k->lock);
	k->regions.room = room;
	k->regions.room_user = user;
	pthread_mutex_unlock(&k->lock);
}

/* Where region NAME is; nowhere if there is none. */
static void region_current(const kedge_t *k, const char *name, struct kedge__job_tracked *out)
{
	const struct kedge__region *r = name ? kedge__region_table_find(k->regions.table, name) : NULL;

	*out = (struct kedge__job_tracked){.data = r ? r->data : NULL, .bytes = r ? r->bytes : 0};
}

/* Memory that is not protected any more is the application's to free: nobody may need it, or watch it. */
static void region_moved(kedge_t *k, const char *name, struct kedge__job_tracked before)
{
	struct kedge__job_tracked now;

	region_current(k, name, &now);
	if (!before.bytes || (now.data == before.data && now.bytes == before.bytes))
		return;
	kedge__image_wait(k);
	kedge__track_forget(k, before.data, before.bytes);
}

static int protect(kedge_t *k, const char *name, void *ptr, size_t count, enum kedge_type type, int ndims,
		   const size_t *dims)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__job_tracked before;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_stick(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	region_current(k, name, &before);
	if (name && !kedge__utf8_valid(name))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "region name is not UTF-8");
	else
		rc = kedge__region_table_put(k->regions.table, name, ptr, count, type, ndims, dims, &err);
	region_moved(k, name, before);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_stick(k, rc, &err);
}

int kedge_protect(kedge_t *k, const char *name, void *ptr, size_t count, enum kedge_type type)
{
	return protect(k, name, ptr, count, type, 0, NULL);
}

int kedge_protect_array(kedge_t *k, const char *name, void *ptr, enum kedge_type type, int ndims, const size_t *dims)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t count = 1;
	int rc = 0;

	if (ndims < 1 || ndims > KEDGE_MAX_DIMS || !dims)
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "region \"%s\": a shape has 1 to %d dimensions",
				      name ? name : "", KEDGE_MAX_DIMS);
	for (int i = 0; !rc && i < ndims; i++) {
		if (__builtin_mul_overflow(count, dims[i], &count))
			rc = kedge__error_set(&err, KEDGE_E_LIMIT, 0, "region \"%s\": its shape overflows",
					      name ? name : "");
	}
	return rc ? kedge__state_stick(k, rc, &err) : protect(k, name, ptr, count, type, ndims, dims);
}

int kedge_region_flags(kedge_t *k, const char *name, unsigned flags)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__region *r;
	int rc = kedge__handle_check(k, &err);

	if (!rc && (!name || flags & ~KEDGE_REGION_DEVICE))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "there is no name, or flags that do not exist (0x%x)",
				      flags);
	if (rc)
		return kedge__state_stick(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	r = kedge__region_table_find(k->regions.table, name);
	if (r)
		r->flags = flags;
	else
		rc = kedge__error_set(&err, KEDGE_E_NOTFOUND, 0, "no region \"%s\" is protected", name);
	if (r && flags & KEDGE_REGION_DEVICE)
		kedge__track_forget(k, r->data, r->bytes);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_stick(k, rc, &err);
}

int kedge_unprotect(kedge_t *k, const char *name)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__job_tracked before;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_stick(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	region_current(k, name, &before);
	/* Files are regions only while a version is saved or restored, and this call waits for that. */
	if ((name && kedge__region_table_find(k->regions.table, name)) || !kedge__file_forget(k, name))
		rc = kedge__region_table_remove(k->regions.table, name, &err);
	region_moved(k, name, before);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_stick(k, rc, &err);
}
