/* SPDX-License-Identifier: BSD-3-Clause */
/* Examine stored versions, read them without a restart, and remove them. */
#include "job/handle.h"

/* ------------------------------------------------------------------ kedge_region_stat, kedge_regions */

typedef int examine_fn(const struct kedge__segment *top, void *arg, struct kedge__error *err);

static int examine(kedge_t *k, uint64_t version, examine_fn *fn, void *arg, struct kedge__error *err)
{
	struct kedge__lineage *l;
	int rc;

	pthread_mutex_lock(&k->lock);
	rc = kedge__versions_scan(k, err);
	if (!rc)
		rc = kedge__versions_open_known(k, version, &l, err);
	if (!rc) {
		rc = fn(kedge__lineage_top(l), arg, err);
		kedge__versions_close(k, l, true);
	}
	pthread_mutex_unlock(&k->lock);
	return rc;
}

struct wanted {
	const char *name;
	struct kedge_region_info *info;
};

static int region_find(const struct kedge__segment *top, void *arg, struct kedge__error *err)
{
	const struct wanted *w = arg;
	const struct kedge__region_record *r = kedge__segment_find_region(top, w->name);

	if (!r)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "version %llu has no region \"%s\"",
					(unsigned long long)top->header.version, w->name);
	kedge__region_info_set(r, w->info);
	return 0;
}

int kedge_region_stat(kedge_t *k, uint64_t version, const char *name, struct kedge_region_info *info)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct wanted w = {name, info};
	int rc = kedge__handle_check(k, &err);

	if (!rc && (!name || !info))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "name and info must not be NULL");
	if (!rc)
		rc = examine(k, version, region_find, &w, &err);
	return kedge__state_fail(k, rc, &err);
}

struct entries {
	struct kedge_region_entry **list;
	size_t *count;
};

static int entries_make(const struct kedge__segment *top, void *list, struct kedge__error *err)
{
	struct entries *out = list;
	size_t n = top->region_count, bytes = (n + 1) * sizeof(struct kedge_region_entry);
	struct kedge_region_entry *all;
	char *names;

	for (size_t i = 0; i < n; i++)
		bytes += strlen(top->regions[i].name) + 1;
	all = kedge__calloc(1, bytes);
	if (!all)
		return kedge__error_nomem(err);
	names = (char *)(all + n + 1);
	for (size_t i = 0; i < n; i++) {
		const struct kedge__region_record *r = &top->regions[i];

		all[i].name = strcpy(names, r->name);
		names += strlen(names) + 1;
		kedge__region_info_set(r, &all[i].info);
	}
	*out->list = all;
	*out->count = n;
	return 0;
}

int kedge_regions(kedge_t *k, uint64_t version, struct kedge_region_entry **list, size_t *count)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct entries out = {list, count};
	int rc = kedge__handle_check(k, &err);

	if (!rc && (!list || !count))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "list and count must not be NULL");
	if (!rc)
		rc = examine(k, version, entries_make, &out, &err);
	return kedge__state_fail(k, rc, &err);
}

/* ------------------------------------------------------------------ kedge_read */

static int targets_make(const struct kedge__segment *top, const struct kedge_target *wanted, size_t n,
			struct kedge__restore_target **out, struct kedge__error *err)
{
	struct kedge__restore_target *targets = kedge__calloc(n + 1, sizeof(*targets));
	bool *asked = kedge__calloc(top->region_count + 1, sizeof(*asked));
	int rc = targets && asked ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < n && !rc; i++) {
		const char *name = wanted[i].name ? wanted[i].name : "";
		const struct kedge__region_record *r = kedge__segment_find_region(top, name);

		if (!r)
			rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "version %llu has no region \"%s\"",
					      (unsigned long long)top->header.version, name);
		else if (r->bytes > wanted[i].room || (r->bytes && !wanted[i].ptr))
			rc = kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					      "region \"%s\": there is room for %zu bytes, version %llu has %llu", name,
					      wanted[i].ptr ? wanted[i].room : 0,
					      (unsigned long long)top->header.version, (unsigned long long)r->bytes);
		else if (asked[r - top->regions])
			rc = kedge__error_set(err, KEDGE_E_ARG, 0, "region \"%s\" is asked for twice", name);
		else
			targets[i] =
			    (struct kedge__restore_target){.region = (size_t)(r - top->regions), .data = wanted[i].ptr};
		if (r)
			asked[r - top->regions] = true;
	}
	kedge__free(asked);
	if (rc)
		kedge__free(targets);
	else
		*out = targets;
	return rc;
}

/* The ways to what is wanted on GPUs; managed memory is left to processors. */
static int devices_find(kedge_t *k, const struct kedge__segment *top, struct kedge__restore_target *targets, size_t n,
			struct kedge__error *err)
{
	uint64_t bytes = 0;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		bytes += top->regions[targets[i].region].bytes;
	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__region_record *r = &top->regions[targets[i].region];
		struct kedge__memory_info memory;

		kedge__memory_find(targets[i].data, &memory);
		if (memory.kind == KEDGE__MEMORY_MANAGED && memory.device >= 0)
			rc = kedge__gpus_wait(k, memory.device, err);
		if (rc || memory.kind != KEDGE__MEMORY_DEVICE || !r->bytes)
			continue;
		rc = kedge__gpu_ways_need(k, memory.device, bytes, &targets[i].device, err);
		if (!rc && memory.bytes && memory.bytes < r->bytes)
			rc =
			    kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					     "region \"%s\": version %llu has %llu bytes, but only %llu were allocated "
					     "on the GPU from its place on",
					     r->name, (unsigned long long)top->header.version,
					     (unsigned long long)r->bytes, (unsigned long long)memory.bytes);
	}
	return rc;
}

static int read_regions(kedge_t *k, uint64_t version, const struct kedge_target *wanted, size_t n,
			struct kedge__error *err)
{
	struct kedge__restore_target *targets = NULL;
	struct kedge__job_progress p = {k, "read", version, 0};
	struct kedge__lineage *l;
	int rc = kedge__versions_scan(k, err);

	if (!rc)
		rc = kedge__versions_open_known(k, version, &l, err);
	if (rc)
		return rc;
	p.version = kedge__lineage_top(l)->header.version;
	rc = targets_make(kedge__lineage_top(l), wanted, n, &targets, err);
	if (!rc)
		rc = devices_find(k, kedge__lineage_top(l), targets, n, err);
	for (size_t i = 0; i < n && !rc; i++)
		if (!targets[i].device)
			kedge__track_touch(k, targets[i].data, wanted[i].room);
	if (!rc) {
		rc = kedge__restore_fill(l, k->pool, kedge__job_settings_io(&k->set), targets, n,
					 kedge__state_progress_total, &p, NULL, err);
		if (rc == KEDGE_E_DAMAGED || rc == KEDGE_E_IO)
			kedge__lineage_distrust(l);
	}
	kedge__free(targets);
	kedge__versions_close(k, l, !rc);
	return rc;
}

int kedge_read(kedge_t *k, uint64_t version, const struct kedge_target *targets, size_t count)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	bool pinned[KEDGE__LEVELS];
	int rc = kedge__handle_check(k, &err);

	if (!rc && (count && !targets))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "targets must not be NULL");
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	kedge__image_wait(k); /* a thread that fills held memory could wait for the writer, and that for the thread */
	kedge__versions_pin(k, pinned);
	rc = read_regions(k, version, targets, count, &err);
	kedge__versions_unpin(k, pinned);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}

/* ------------------------------------------------------------------ kedge_discard */

/* Newest first: no version refers to a newer one. */
static int discard_level(struct kedge__catalog *cat, uint64_t from, struct kedge__error *err)
{
	int rc = kedge__catalog_scan(cat, err);

	if (!rc)
		rc = kedge__set_discard_above(cat, from, err);
	if (!rc && kedge__catalog_find(cat, from))
		rc = kedge__set_remove(cat, from, err);
	return rc;
}

int kedge__versions_discard(kedge_t *k, uint64_t from, unsigned levels, struct kedge__error *err)
{
	struct kedge__run_cut cut = {{0}, 0};
	int rc;

	kedge__seal_finish(k);
	kedge__followups_settle(k);
	if (levels & KEDGE_LEVEL_2 && kedge__l2_wanted(k) && !k->levels.at[KEDGE__L2].on)
		rc = kedge__error_set(err, k->l2.refused.code, 0,
				      "nothing is discarded, on either level: L2 is not used: %s",
				      kedge__error_text(&k->l2.refused));
	else
		rc = kedge__run_discarding(k, from, &cut, err);
	for (int l = 0; l < KEDGE__LEVELS && !rc; l++) {
		if (k->levels.at[l].on && k->levels.at[l].leads && levels >> l & 1)
			rc = discard_level(k->levels.at[l].write, from, err);
	}
	rc = kedge__agree(&k->channels.front, KEDGE__STEP_DISCARD, from, rc, NULL, err);
	if (rc || (~levels & KEDGE_LEVEL_1) || (k->levels.at[KEDGE__L2].on && (~levels & KEDGE_LEVEL_2)))
		goto done;
	kedge__run_discarded(k, from, &cut);
	if (from)
		kedge__state_drop_above(k, from - 1);
	else
		kedge__state_drop_all(k);
done:
	kedge__run_done(&cut.run);
	return rc;
}

int kedge_discard(kedge_t *k, uint64_t from, unsigned levels)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (!rc && levels & ~(KEDGE_LEVEL_1 | KEDGE_LEVEL_2))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "there are levels 1 and 2 alone: %#x names another one",
				      levels);
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = kedge__versions_discard(k, from, levels, &err);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}
