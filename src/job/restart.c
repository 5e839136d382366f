#include "job/handle.h"

enum { FLAG_UNUSABLE = 1 }; /* a rank cannot use the set: try an older one */

/* ------------------------------------------------------------------ which sets there are */

/* The newest set of another rank count, if it is newer than all that fit, is what the user means: say why it will not
 * do. */
static int ranks_check(kedge_t *k, uint64_t version, const struct kedge__run *run, const struct kedge__set_key *keys,
		       size_t n, struct kedge__error *err)
{
	uint64_t newest_fit = n ? keys[n - 1].version : 0;

	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog *cat = k->level[l].api;

		for (size_t i = k->level[l].api ? kedge__catalog_count(cat) : 0; i; i--) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i - 1);
			bool meant =
			    version == KEDGE_NEWEST ? !n || e->version > newest_fit : !n && e->version == version;

			if (!e->problem.code && e->set.ranks != (uint32_t)k->group.size && meant &&
			    (!run || kedge__history_has(run, &e->set)))
				return kedge__error_set(
				    err, KEDGE_E_GROUP, 0, "version %llu of %s was saved by %u ranks; this job has %d",
				    (unsigned long long)e->version, k->name, (unsigned)e->set.ranks, k->group.size);
		}
	}
	return 0;
}

/* A manifest that cannot be read may stand for the newest version: it is passed over, but never silently. */
static int problems_report(kedge_t *k, uint64_t version, bool any, struct kedge__error *err)
{
	int rc = 0;

	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog *cat = k->level[l].api;

		for (size_t i = k->level[l].api ? kedge__catalog_count(cat) : 0; i; i--) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i - 1);

			if (!e->problem.code || (version != KEDGE_NEWEST && e->version != version))
				continue;
			kedge__log(KEDGE_LOG_WARNING, "version %llu on L%d is passed over: %s",
				   (unsigned long long)e->version, l + 1, kedge__error_text(&e->problem));
			if (!any && !rc)
				rc = kedge__error_set(err, e->problem.code, 0, "%s", kedge__error_text(&e->problem));
		}
	}
	return rc;
}

static void keys_only(struct kedge__set_key *keys, size_t *n, uint64_t version)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++) {
		if (version == KEDGE_NEWEST || keys[i].version == version)
			keys[kept++] = keys[i];
	}
	*n = kept;
}

/* What this rank has that belongs to RUN (NULL: of any run). */
static int local_keys(kedge_t *k, uint64_t version, const struct kedge__run *run, struct kedge__set_key **keys,
		      size_t *n, struct kedge__error *err)
{
	int rc = kedge__versions_all(k, run, keys, n, err);

	if (rc)
		return rc;
	rc = ranks_check(k, version, run, *keys, *n, err);
	if (!rc)
		keys_only(*keys, n, version);
	if (!rc)
		rc = problems_report(k, version, *n > 0, err);
	if (rc) {
		kedge__free(*keys);
		*keys = NULL;
	}
	return rc;
}

/* UNREAD: on some rank a level could not be looked at. What is not found may be there. */
static int nothing_found(kedge_t *k, uint64_t version, size_t had, bool unread, struct kedge__error *err)
{
	if (had)
		kedge__log(KEDGE_LOG_WARNING, "%s: rank %d has versions, but none that every rank has", k->name,
			   k->group.rank);
	if (unread)
		return kedge__versions_unread(k, err);
	if (version != KEDGE_NEWEST)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "version %llu of %s is not complete on every rank",
					(unsigned long long)version, k->name);
	return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "there is no version of %s to restart from", k->name);
}

/* What all ranks have; *N may be 0. *UNREAD: a level could not be looked at on some rank. */
static int keys_of_run(kedge_t *k, uint64_t version, const struct kedge__run *run, struct kedge__set_key **keys,
		       size_t *n, size_t *had, uint64_t *unread, struct kedge__error *err)
{
	int rc = local_keys(k, version, run, keys, n, err);

	*unread = k->level_unread;
	rc = kedge__agree(&k->front, KEDGE__STEP_RESTART, version, rc, unread, err);
	*had = *n;
	if (!rc)
		rc = kedge__common(&k->front, *keys, n, err);
	if (rc) {
		kedge__free(*keys);
		*keys = NULL;
	}
	return rc;
}

static int present_find(kedge_t *k, uint64_t version, struct kedge__run *present, struct kedge__error *err)
{
	struct kedge__catalog *levels[KEDGE__LEVELS];
	size_t n = 0;
	int rc = kedge__versions_scan(k, err);

	for (int l = 0; l < KEDGE__LEVELS; l++)
		if (k->level[l].api)
			levels[n++] = k->level[l].api;
	return kedge__run_present(k, KEDGE__STEP_RESTART, version, levels, n, rc, present, err);
}

/* An abandoned version is found only by who asks for it by its number, and there is no other one of that number. */
static int common_keys(kedge_t *k, uint64_t version, struct kedge__set_key **keys, size_t *n, struct kedge__error *err)
{
	struct kedge__run present = {0};
	uint64_t unread = 0;
	size_t had = 0;
	int rc = present_find(k, version, &present, err);

	if (rc)
		return rc;
	rc = keys_of_run(k, version, &present, keys, n, &had, &unread, err);
	if (!rc && !*n && version != KEDGE_NEWEST) {
		kedge__free(*keys);
		rc = keys_of_run(k, version, NULL, keys, n, &had, &unread, err);
		if (!rc && *n)
			kedge__log(KEDGE_LOG_WARNING, "%s: version %llu belongs to a run that was abandoned", k->name,
				   (unsigned long long)version);
	}
	kedge__run_done(&present);
	if (!rc && !*n) {
		rc = nothing_found(k, version, had, unread, err);
		kedge__free(*keys);
		*keys = NULL;
	}
	if (!rc && kedge__l2_wanted(k) && !k->level[KEDGE__L2].api && k->group.rank == 0)
		kedge__log(KEDGE_LOG_WARNING, "%s: there may be newer versions on L2, which is not used: %s", k->name,
			   kedge__error_text(&k->l2_refused));
	return rc;
}

/* ------------------------------------------------------------------ one set */

/* The application gives room for regions that it does not have, or has in another size. ADDED[i]: stored region i was
 * not protected. */
static int room_ask(kedge_t *k, const struct kedge__segment *top, bool *added, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; k->room && i < top->region_count && !rc; i++) {
		const struct kedge__region_record *stored = &top->regions[i];
		const struct kedge__region *r = kedge__region_table_find(k->regions, stored->name);
		struct kedge_region_info info;
		void *data;

		if (stored->file || (r && r->bytes == stored->bytes))
			continue;
		kedge__region_info_set(stored, &info);
		data = k->room(k->room_user, stored->name, &info);
		if (data)
			rc = kedge__region_table_put(k->regions, stored->name, data,
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
			(void)kedge__region_table_remove(k->regions, top->regions[i].name, NULL);
	}
}

static int targets_make(kedge_t *k, const struct kedge__segment *top, struct kedge__restore_target **targets,
			struct kedge__error *err)
{
	size_t n = kedge__region_table_count(k->regions);
	struct kedge__restore_target *list = kedge__calloc(n + 1, sizeof(*list));
	int rc = list ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions, i);
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
			list[i] = (struct kedge__restore_target){(size_t)(stored - top->regions), r->data};
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
		if (!kedge__region_table_find(k->regions, top->regions[i].name))
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

/* *PASS: some rank cannot use this set, an older one may do. */
static int judge(kedge_t *k, enum kedge__step step, uint64_t version, int rc, bool *pass, struct kedge__error *err)
{
	uint64_t flags = unusable(rc) ? FLAG_UNUSABLE : 0;

	rc = kedge__agree(&k->front, step, version, rc, &flags, err);
	*pass = rc && (flags & FLAG_UNUSABLE);
	return rc;
}

static int try_fill(kedge_t *k, struct kedge__lineage *l, const struct kedge__restore_target *targets, uint64_t version,
		    struct kedge__error *err)
{
	struct kedge__job_progress p = {k, "read", version, 0};

	return kedge__restore_fill(l, k->pool, kedge__job_settings_io(&k->set), targets,
				   kedge__region_table_count(k->regions), kedge__state_progress_total, &p, NULL, err);
}

/* The run that the set belongs to, as a copy. */
static int run_find(const kedge_t *k, struct kedge__set_key key, struct kedge__run *run, struct kedge__error *err)
{
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog_entry *e =
		    k->level[l].api ? kedge__catalog_find(k->level[l].api, key.version) : NULL;

		if (e && !e->problem.code && kedge__set_image(&e->set) == key.id)
			return kedge__run_copy(&e->set.run, run, err);
	}
	return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "version %llu of %s is gone", (unsigned long long)key.version,
				k->name);
}

static int try_set(kedge_t *k, struct kedge__set_key key, bool *pass, struct kedge__error *err)
{
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
	rc = judge(k, KEDGE__STEP_RESTART_CHECK, key.version, rc, pass, err);
	if (!rc) {
		unprotected_report(k, kedge__lineage_top(l));
		rc = try_fill(k, l, targets, key.version, err);
		if (!rc)
			rc = kedge__versions_remember(k, kedge__lineage_top(l), err);
		if (!rc)
			rc = kedge__files_keep(k, err);
		rc = judge(k, KEDGE__STEP_RESTART_FILL, key.version, rc, pass, err);
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
	kedge__lineage_close(l);
	return rc;
}

/* Every byte, but none into memory. */
static int check_set(kedge_t *k, struct kedge__set_key key, bool *pass, struct kedge__error *err)
{
	struct kedge__job_progress p = {k, "verify", key.version, 0};
	struct kedge__lineage *l = NULL;
	int rc = kedge__versions_open(k, key, &l, err);

	rc = judge(k, KEDGE__STEP_RESTART_CHECK, key.version, rc, pass, err);
	if (!rc) {
		rc = kedge__restore_check(l, k->pool, kedge__job_settings_io(&k->set), kedge__state_progress_total, &p,
					  err);
		rc = judge(k, KEDGE__STEP_RESTART_FILL, key.version, rc, pass, err);
	}
	kedge__lineage_close(l);
	return rc;
}

/* ------------------------------------------------------------------ newest first */

typedef int set_try(kedge_t *k, struct kedge__set_key key, bool *pass, struct kedge__error *err);

static int try_all(kedge_t *k, set_try *try, const struct kedge__set_key *keys, size_t n, struct kedge__set_key *got,
		   struct kedge__error *err)
{
	struct kedge__error first = KEDGE__ERROR_INIT;
	bool pass = true;
	int rc = KEDGE_E_INTERNAL, first_rc = 0;

	/* Of equal versions the one that L1 has stands first; versions descend. */
	while (n && pass) {
		size_t start = n - 1, end = n;

		while (start && keys[start - 1].version == keys[end - 1].version)
			start--;
		n = start;
		for (; start < end && pass; start++) {
			rc = try(k, keys[start], &pass, err);
			if (!rc) {
				*got = keys[start];
				kedge__error_done(&first);
				return 0;
			}
			if (!pass)
				break;
			for (int l = 0; l < KEDGE__LEVELS; l++)
				kedge__trust_clear(k->trust[l]);
			kedge__log(KEDGE_LOG_WARNING, "%s: version %llu cannot be used: %s", k->name,
				   (unsigned long long)keys[start].version, kedge__error_text(err));
			if (!first_rc) {
				first_rc = rc;
				kedge__error_move(&first, err);
			}
		}
	}
	if (pass && first_rc) { /* the newest one's cause tells most */
		rc = first_rc;
		kedge__error_move(err, &first);
	}
	kedge__error_done(&first);
	return rc;
}

static int restart(kedge_t *k, uint64_t version, uint64_t *restored, struct kedge__error *err)
{
	struct kedge__set_key *keys = NULL, got = {0, 0};
	bool pinned[KEDGE__LEVELS];
	double started = k->clock();
	size_t n = 0;
	int rc;

	kedge__seal_finish(k);
	kedge__followups_settle(k);
	kedge__l2_look_again(k);
	kedge__track_reset(k);
	kedge__versions_pin(k, pinned);
	rc = common_keys(k, version, &keys, &n, err);
	if (!rc)
		rc = try_all(k, try_set, keys, n, &got, err);
	if (!rc)
		kedge__baseline_restarted(k, got, &k->run.from);
	kedge__files_drop(k);
	kedge__versions_unpin(k, pinned);
	kedge__free(keys);
	if (rc && rc != KEDGE_E_NOTFOUND)
		k->run.refused = rc;
	if (rc)
		return rc;
	kedge__adapt_restarted(k, got, k->clock() - started);
	if (k->group.rank == 0)
		kedge__journal_write("restart %llu %llu", (unsigned long long)got.version,
				     (unsigned long long)kedge__clock_wall_ns());
	if (restored)
		*restored = got.version;
	return 0;
}

void kedge_set_room(kedge_t *k, void *(*room)(void *user, const char *name, const struct kedge_region_info *info),
		    void *user)
{
	if (kedge__handle_check(k, NULL))
		return;
	pthread_mutex_lock(&k->lock);
	k->room = room;
	k->room_user = user;
	pthread_mutex_unlock(&k->lock);
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

static int find(kedge_t *k, uint64_t at_most, uint64_t *version, struct kedge__error *err)
{
	struct kedge__set_key *keys = NULL, got = {0, 0};
	bool pinned[KEDGE__LEVELS];
	size_t n = 0;
	int rc;

	kedge__seal_finish(k);
	kedge__followups_settle(k);
	kedge__l2_look_again(k);
	kedge__versions_pin(k, pinned);
	rc = common_keys(k, KEDGE_NEWEST, &keys, &n, err);
	while (!rc && n && keys[n - 1].version > at_most)
		n--;
	if (!rc && !n)
		rc = nothing_found(k, KEDGE_NEWEST, 0, k->level_unread, err);
	if (!rc)
		rc = try_all(k, check_set, keys, n, &got, err);
	kedge__versions_unpin(k, pinned);
	kedge__free(keys);
	if (!rc)
		*version = got.version;
	return rc;
}

int kedge_find(kedge_t *k, uint64_t at_most, uint64_t *version)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (!rc && !version)
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "version must not be NULL");
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = find(k, at_most, version, &err);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}
