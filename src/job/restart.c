/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A restart:
 *
 *  1. Finish what is pending; from here on nothing is written.
 *  2. RESTART: which run is the current one, and whether all ranks hold the same versions (candidates.c).
 *  3. Open the newest version that all ranks have, or the requested one, on every rank. RESTART_CHECK: all can, and it
 *     fits the protected regions.
 *  4. Read it. RESTART_FILL: all ranks have their bytes. If one does not, try the next older version from step 3 on.
 *  5. Settle the consequences: the run, what L1 can still give back, the reducer's baseline.
 *
 * No memory is written before all ranks have passed step 3.
 */
#include "job/candidates.h"
#include "job/handle.h"

enum {
	FLAG_UNUSABLE = 1, /* a rank cannot use the set: try an older one */
	FLAG_L2 = 2,       /* a rank does not have it on L1 */
	FLAG_READ = 4,     /* a rank has to read its data before it says that they are intact */
};

/* ------------------------------------------------------------------ one set */

/* The application gives room for regions that it does not have, or has in another size. ADDED[i]: stored region i was
 * not protected. */
static int room_ask(kedge_t *k, const struct kedge__segment *top, bool *added, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; k->regions.room && i < top->region_count && !rc; i++) {
		const struct kedge__region_record *stored = &top->regions[i];
		const struct kedge__region *r = kedge__region_table_find(k->regions.table, stored->name);
		struct kedge_region_info info;
		void *data;

		if (stored->file || (r && r->bytes == stored->bytes))
			continue;
		kedge__region_info_set(stored, &info);
		data = k->regions.room(k->regions.room_user, stored->name, &info);
		if (data)
			rc = kedge__region_table_put(k->regions.table, stored->name, data,
						     (size_t)(stored->bytes / kedge_type_size(info.type)), info.type,
						     info.ndims, (const size_t *)info.dims, err);
		added[i] = data && !rc && !r;
	}
	return rc;
}

/* The version is passed over: an older one need not have what only this one asked room for. */
static void room_return(kedge_t *k, const struct kedge__segment *top, const bool *added)
{
	for (size_t i = 0; i < top->region_count; i++) {
		if (added[i])
			(void)kedge__region_table_remove(k->regions.table, top->regions[i].name, NULL);
	}
}

static bool is_far(const struct kedge__region *r)
{
	return r->memory.kind == KEDGE__MEMORY_DEVICE && !r->file && r->bytes;
}

static uint64_t far_bytes(const kedge_t *k)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < kedge__region_table_count(k->regions.table); i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		bytes += is_far(r) ? r->bytes : 0;
	}
	return bytes;
}

/* FAR: bytes of all regions that are on GPUs. */
static int target_set(kedge_t *k, const struct kedge__region *r, size_t stored, uint64_t far,
		      struct kedge__restore_target *out, struct kedge__error *err)
{
	int rc = 0;

	*out = (struct kedge__restore_target){.region = stored, .data = r->data};
	if (is_far(r))
		rc = kedge__gpu_ways_need(k, r->memory.device, far, &out->device, err);
	else if (r->memory.kind == KEDGE__MEMORY_MANAGED && r->memory.device >= 0 && !r->file)
		rc = kedge__gpus_wait(k, r->memory.device, err);
	return rc ? kedge__error_prefix(err, "region \"%s\"", r->name) : 0;
}

static int targets_make(kedge_t *k, const struct kedge__segment *top, struct kedge__restore_target **targets,
			struct kedge__error *err)
{
	size_t n = kedge__region_table_count(k->regions.table);
	struct kedge__restore_target *list = kedge__calloc(n + 1, sizeof(*list));
	uint64_t far = far_bytes(k);
	int rc = list ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);
		const struct kedge__region_record *stored = kedge__segment_find_region(top, r->name);

		if (!stored)
			rc = kedge__error_set(err, KEDGE_E_MISMATCH, 0, "region \"%s\" is not in version %llu", r->name,
					      (unsigned long long)top->header.version);
		else if (stored->bytes != r->bytes)
			rc = kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					      "region \"%s\": %llu bytes are protected, version %llu has %llu", r->name,
					      (unsigned long long)r->bytes, (unsigned long long)top->header.version,
					      (unsigned long long)stored->bytes);
		else
			rc = target_set(k, r, (size_t)(stored - top->regions), far, &list[i], err);
	}
	if (rc)
		kedge__free(list);
	else
		*targets = list;
	return rc;
}

static void unprotected_report(kedge_t *k, const struct kedge__segment *top)
{
	for (size_t i = 0; i < top->region_count; i++) {
		if (!kedge__region_table_find(k->regions.table, top->regions[i].name))
			kedge__log(KEDGE_LOG_INFO,
				   "region \"%s\" of version %llu is not protected and stays in the store",
				   top->regions[i].name, (unsigned long long)top->header.version);
	}
}

/* Errors for which an older version may be better; the others are the caller's or the system's. */
static bool unusable(int rc)
{
	return rc == KEDGE_E_DAMAGED || rc == KEDGE_E_MISSING || rc == KEDGE_E_IO || rc == KEDGE_E_FORMAT ||
	       rc == KEDGE_E_NOTFOUND || rc == KEDGE_E_CODEC || rc == KEDGE_E_ACCESS;
}

/* *PASS: some rank cannot use this set, an older one may do. FLAGS beside that become the union of all ranks'. */
static int judge(kedge_t *k, enum kedge__step step, uint64_t version, int rc, uint64_t *flags, bool *pass,
		 struct kedge__error *err)
{
	*flags |= unusable(rc) ? FLAG_UNUSABLE : 0;
	rc = kedge__agree(&k->channels.front, step, version, rc, flags, err);
	*pass = rc && (*flags & FLAG_UNUSABLE);
	return rc;
}

/* Whether this rank has the very set on L1. */
static bool is_on_l1(const kedge_t *k, struct kedge__set_key key)
{
	const struct kedge__catalog_entry *e = kedge__catalog_find(k->levels.at[KEDGE__L1].api, key.version);

	return e && !e->problem.code && e->image == key.id;
}

static int try_fill(kedge_t *k, struct kedge__lineage *l, const struct kedge__restore_target *targets, uint64_t version,
		    struct kedge__error *err)
{
	struct kedge__job_progress p = {k, "read", version, 0};
	int rc = kedge__restore_fill(l, k->pool, kedge__job_settings_io(&k->set), targets,
				     kedge__region_table_count(k->regions.table), kedge__state_progress_total, &p, NULL,
				     err);

	if (unusable(rc))
		kedge__lineage_distrust(l);
	return rc;
}

/* The run that the set belongs to, as a copy. */
static int run_find(const kedge_t *k, struct kedge__set_key key, struct kedge__run *run, struct kedge__error *err)
{
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog_entry *e =
		    k->levels.at[l].api ? kedge__catalog_find(k->levels.at[l].api, key.version) : NULL;

		if (e && !e->problem.code && e->image == key.id)
			return kedge__run_copy(&e->set.run, run, err);
	}
	return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "version %llu of %s is gone", (unsigned long long)key.version,
				k->name);
}

static int try_set(kedge_t *k, struct kedge__set_key key, int *level, bool *pass, struct kedge__error *err)
{
	uint64_t flags = is_on_l1(k, key) ? 0 : FLAG_L2;
	struct kedge__restore_target *targets = NULL;
	struct kedge__run run = {0};
	struct kedge__lineage *l = NULL;
	bool *added = NULL;
	int rc = kedge__versions_open(k, key, &l, err);

	if (!rc)
		rc = run_find(k, key, &run, err);
	if (!rc) {
		added = kedge__calloc(kedge__lineage_top(l)->region_count + 1, sizeof(*added));
		rc = added ? room_ask(k, kedge__lineage_top(l), added, err) : kedge__error_nomem(err);
	}
	if (!rc)
		rc = kedge__files_create(k, kedge__lineage_top(l), err);
	if (!rc)
		rc = targets_make(k, kedge__lineage_top(l), &targets, err);
	rc = judge(k, KEDGE__STEP_RESTART_CHECK, key.version, rc, &flags, pass, err);
	*level = flags & FLAG_L2 ? 2 : 1;
	if (!rc) {
		unprotected_report(k, kedge__lineage_top(l));
		rc = try_fill(k, l, targets, key.version, err);
		if (!rc)
			rc = kedge__regions_remember(k, kedge__lineage_top(l), err);
		if (!rc)
			rc = kedge__files_keep(k, err);
		rc = judge(k, KEDGE__STEP_RESTART_FILL, key.version, rc, &flags, pass, err);
	}
	if (!rc) {
		kedge__levels_trust_from(k, kedge__lineage_needs_others(l) ? key.version + 1 : 0);
		kedge__run_restarted(k, &run, key.version);
	} else {
		if (added)
			room_return(k, kedge__lineage_top(l), added);
		kedge__files_drop(k);
	}
	kedge__run_done(&run);
	kedge__free(targets);
	kedge__free(added);
	/* Who protects nothing reads the version next. */
	kedge__versions_close(k, l, !rc && !kedge__region_table_count(k->regions.table));
	return rc;
}

/* Every byte, but none into memory. */
static int try_check(kedge_t *k, struct kedge__lineage *l, uint64_t version, struct kedge__error *err)
{
	struct kedge__job_progress p = {k, "verify", version, 0};
	int rc =
	    kedge__restore_check(l, k->pool, kedge__job_settings_io(&k->set), kedge__state_progress_total, &p, err);

	if (unusable(rc))
		kedge__lineage_distrust(l);
	return rc;
}

/* READ: its data, too, wherever they are; otherwise only if a file was changed on some rank. */
static int check(kedge_t *k, struct kedge__set_key key, bool read, bool *pass, struct kedge__error *err)
{
	struct kedge__lineage *l = NULL;
	uint64_t flags;
	int rc;

	if (read)
		kedge__versions_drop(k);
	rc = kedge__versions_open(k, key, &l, err);
	flags = !rc && (read || !kedge__lineage_untouched(l)) ? FLAG_READ : 0;

	rc = judge(k, KEDGE__STEP_RESTART_CHECK, key.version, rc, &flags, pass, err);
	if (!rc && flags & FLAG_READ) {
		rc = try_check(k, l, key.version, err);
		rc = judge(k, KEDGE__STEP_RESTART_FILL, key.version, rc, &flags, pass, err);
	}
	kedge__versions_close(k, l, !rc);
	return rc;
}

static int check_intact(kedge_t *k, struct kedge__set_key key, int *level, bool *pass, struct kedge__error *err)
{
	*level = 0;
	return check(k, key, true, pass, err);
}

static int check_usable(kedge_t *k, struct kedge__set_key key, int *level, bool *pass, struct kedge__error *err)
{
	*level = 0;
	return check(k, key, false, pass, err);
}

/* ------------------------------------------------------------------ newest first */

typedef int set_try(kedge_t *k, struct kedge__set_key key, int *level, bool *pass, struct kedge__error *err);

/* *LEVEL: that GOT came from. */
static int try_all(kedge_t *k, set_try *try, struct kedge__candidates *c, struct kedge__set_key *got, int *level,
		   struct kedge__error *err)
{
	struct kedge__error first = KEDGE__ERROR_INIT;
	struct kedge__set_key key;
	bool pass = true;
	int rc = KEDGE_E_INTERNAL, first_rc = 0;

	while (pass && kedge__candidates_next(c, &key)) {
		rc = try(k, key, level, &pass, err);
		if (!rc) {
			*got = key;
			kedge__error_done(&first);
			return 0;
		}
		if (!pass)
			break;
		for (int l = 0; l < KEDGE__LEVELS; l++)
			kedge__trust_clear(k->levels.trust[l]);
		kedge__log(KEDGE_LOG_WARNING, "%s: version %llu cannot be used: %s", k->name,
			   (unsigned long long)key.version, kedge__error_text(err));
		kedge__journal_fallback(k, "version", key.version, NULL, kedge__error_text(err));
		if (!first_rc) {
			first_rc = rc;
			kedge__error_move(&first, err);
		}
	}
	if (pass && first_rc) { /* the newest one's cause says most */
		rc = first_rc;
		kedge__error_move(err, &first);
	}
	kedge__error_done(&first);
	return rc;
}

/* What is left of versions helps nobody, and nobody is there to be asked. */
static int begin_afresh(kedge_t *k, struct kedge__error *err)
{
	int rc;

	if (k->group.rank == 0)
		kedge__log(KEDGE_LOG_WARNING,
			   "%s: more is lost than can be rebuilt: what is left of its versions is removed, and the job "
			   "begins from the start (begin_if_lost = yes)",
			   k->name);
	kedge__error_done(err);
	rc = kedge__versions_discard(k, 0, KEDGE_LEVEL_1 | KEDGE_LEVEL_2, err);
	return rc ? rc : kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "every version of %s is lost", k->name);
}

static int restart(kedge_t *k, uint64_t version, uint64_t *restored, struct kedge__error *err)
{
	struct kedge__candidates candidates;
	struct kedge__set_key got = {0, 0};
	bool pinned[KEDGE__LEVELS];
	double started = k->advice.clock();
	int level = 1, rc;

	kedge__seal_finish(k);
	kedge__followups_settle(k);
	kedge__l2_look_again(k);
	kedge__track_reset(k);
	kedge__versions_pin(k, pinned);
	rc = kedge__candidates_find(k, version, KEDGE__NO_VERSION, &candidates, err);
	if (!rc)
		rc = try_all(k, try_set, &candidates, &got, &level, err);
	if (!rc)
		kedge__baseline_restarted(k);
	kedge__files_drop(k);
	kedge__versions_unpin(k, pinned);
	kedge__candidates_done(&candidates);
	if (rc && candidates.lost && k->set.begin_if_lost)
		rc = begin_afresh(k, err);
	if (rc && rc != KEDGE_E_NOTFOUND && rc != KEDGE_E_VERSION)
		kedge__run_refuse(k, rc);
	if (rc)
		return rc;
	kedge__adapt_restarted(k, got, level, k->advice.clock() - started);
	if (restored)
		*restored = got.version;
	return 0;
}

int kedge_restart(kedge_t *k, uint64_t version, uint64_t *restored)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = restart(k, version, restored, &err);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}

static int find(kedge_t *k, set_try *try, uint64_t at_most, uint64_t *version, struct kedge__error *err)
{
	struct kedge__candidates candidates;
	struct kedge__set_key got = {0, 0};
	bool pinned[KEDGE__LEVELS];
	int level, rc;

	kedge__seal_finish(k);
	kedge__followups_settle(k);
	kedge__l2_look_again(k);
	kedge__versions_pin(k, pinned);
	rc = kedge__candidates_find(k, KEDGE_NEWEST, at_most, &candidates, err);
	if (!rc)
		rc = try_all(k, try, &candidates, &got, &level, err);
	kedge__versions_unpin(k, pinned);
	kedge__candidates_done(&candidates);
	if (!rc)
		*version = got.version;
	return rc;
}

static int find_locked(kedge_t *k, set_try *try, uint64_t at_most, uint64_t *version)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (!rc && !version)
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "version must not be NULL");
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = find(k, try, at_most, version, &err);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}

int kedge_find(kedge_t *k, uint64_t at_most, uint64_t *version)
{
	return find_locked(k, check_intact, at_most, version);
}

int kedge_find_usable(kedge_t *k, uint64_t at_most, uint64_t *version)
{
	return find_locked(k, check_usable, at_most, version);
}
