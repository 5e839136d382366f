/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

#include <stdio.h>
#include <stdlib.h>

static bool usable(const struct kedge__catalog_entry *e, uint32_t ranks)
{
	return !e->problem.code && e->set.ranks == ranks;
}

/* The readable sets of this rank count that belong to RUN (NULL: all), ascending. One kedge__free(). */
static int keys_make(const struct kedge__catalog *cat, uint32_t ranks, const struct kedge__run *run,
		     struct kedge__set_key **list, size_t *count, struct kedge__error *err)
{
	size_t n = kedge__catalog_count(cat), used = 0;
	struct kedge__set_key *keys = kedge__calloc(n + 1, sizeof(*keys));

	if (!keys)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);

		if (usable(e, ranks) && (!run || kedge__history_has(run, &e->set)))
			keys[used++] = (struct kedge__set_key){e->version, e->image};
	}
	*list = keys;
	*count = used;
	return 0;
}

/* Two ascending lists as one, X before Y at equal versions, without repeating equal keys. */
static size_t keys_merge(const struct kedge__set_key *x, size_t nx, const struct kedge__set_key *y, size_t ny,
			 struct kedge__set_key *out)
{
	size_t n = 0, i = 0, j = 0;

	while (i < nx || j < ny) {
		bool first = j == ny || (i < nx && x[i].version <= y[j].version);
		struct kedge__set_key key = first ? x[i++] : y[j++];

		if (!n || out[n - 1].version != key.version || out[n - 1].id != key.id)
			out[n++] = key;
	}
	return n;
}

const struct kedge__run *kedge__versions_run(const kedge_t *k)
{
	struct kedge__catalog *levels[KEDGE__LEVELS];
	size_t n = kedge__levels_list(k, false, levels);
	const struct kedge__set *head = kedge__history_head(levels, n);

	return head ? &head->run : NULL;
}

int kedge__versions_all(kedge_t *k, const struct kedge__run *run, struct kedge__set_key **list, size_t *count,
			struct kedge__error *err)
{
	struct kedge__set_key *keys[KEDGE__LEVELS] = {NULL, NULL}, *merged = NULL;
	size_t n[KEDGE__LEVELS] = {0, 0};
	int rc = 0;

	for (int l = 0; l < KEDGE__LEVELS && !rc; l++) {
		if (k->levels.at[l].api)
			rc = keys_make(k->levels.at[l].api, (uint32_t)k->group.size, run, &keys[l], &n[l], err);
	}
	if (!rc) {
		merged = kedge__calloc(n[0] + n[1] + 1, sizeof(*merged));
		rc = merged ? 0 : kedge__error_nomem(err);
	}
	if (!rc) {
		*count = keys_merge(keys[0], n[0], keys[1], n[1], merged);
		*list = merged;
	}
	kedge__free(keys[0]);
	kedge__free(keys[1]);
	return rc;
}

/* A level that cannot be read does not hide what the other one has. */
int kedge__versions_scan(kedge_t *k, struct kedge__error *err)
{
	struct kedge__error first = KEDGE__ERROR_INIT, other = KEDGE__ERROR_INIT;
	int rc = kedge__catalog_scan(k->levels.at[KEDGE__L1].api, &first);
	int rc2 = k->levels.at[KEDGE__L2].api ? kedge__catalog_scan(k->levels.at[KEDGE__L2].api, &other) : rc;

	k->versions.unread = rc || rc2 || (kedge__l2_wanted(k) && !k->levels.at[KEDGE__L2].api);
	if (rc && rc2) {
		kedge__error_move(err, &first);
	} else if (rc || rc2) {
		kedge__log(KEDGE_LOG_WARNING, "a level cannot be read: %s", kedge__error_text(rc ? &first : &other));
		rc = 0;
	}
	kedge__error_done(&first);
	kedge__error_done(&other);
	return rc;
}

int kedge__versions_unread(const kedge_t *k, struct kedge__error *err)
{
	if (kedge__l2_wanted(k) && !k->levels.at[KEDGE__L2].api)
		return kedge__error_set(err, KEDGE_E_MISSING, 0,
					"L1 has no such version of %s, but L2, which is not used, may have it: %s",
					k->name, kedge__error_text(&k->l2.refused));
	return kedge__error_set(err, KEDGE_E_MISSING, 0,
				"no such version of %s was found, but a level could not be read on some rank; its log "
				"says why",
				k->name);
}

static const struct kedge__set *set_of(const struct kedge__catalog *cat, struct kedge__set_key key)
{
	const struct kedge__catalog_entry *e = kedge__catalog_find(cat, key.version);

	return e && !e->problem.code && e->image == key.id ? &e->set : NULL;
}

/* Levels that have the very set come first, the fastest of them first; the others may still have older versions. */
static size_t levels_order(kedge_t *k, struct kedge__set_key key, struct kedge__catalog **out,
			   const struct kedge__set **set)
{
	size_t n = 0;

	*set = NULL;
	for (int pass = 0; pass < 2; pass++) {
		for (int l = 0; l < KEDGE__LEVELS; l++) {
			const struct kedge__set *s = k->levels.at[l].api ? set_of(k->levels.at[l].api, key) : NULL;

			if (!k->levels.at[l].api || (s != NULL) != (pass == 0))
				continue;
			out[n++] = k->levels.at[l].api;
			if (s && !*set)
				*set = s;
		}
	}
	return n;
}

/* ------------------------------------------------------------------ the lineage that was used last */

static struct kedge__versions_place place_of(const kedge_t *k, struct kedge__set_key key)
{
	struct kedge__versions_place p = {.key = key};

	for (int l = 0; l < KEDGE__LEVELS; l++) {
		p.from[l] = k->levels.at[l].api;
		p.changes[l] = p.from[l] ? kedge__catalog_changes(p.from[l]) : 0;
	}
	return p;
}

static bool place_equal(const struct kedge__versions_place *a, const struct kedge__versions_place *b)
{
	for (int l = 0; l < KEDGE__LEVELS; l++)
		if (a->from[l] != b->from[l] || a->changes[l] != b->changes[l])
			return false;
	return a->key.version == b->key.version && a->key.id == b->key.id;
}

void kedge__versions_drop(kedge_t *k)
{
	kedge__lineage_close(k->versions.kept);
	k->versions.kept = NULL;
}

void kedge__versions_close(kedge_t *k, struct kedge__lineage *l, bool keep)
{
	if (keep)
		k->versions.kept = l;
	else
		kedge__lineage_close(l);
}

/* The one that is kept, if it is that of PLACE, and nothing has changed since. */
static struct kedge__lineage *kept_take(kedge_t *k, const struct kedge__versions_place *place)
{
	struct kedge__lineage *l = k->versions.kept;

	if (!l || !place_equal(&k->versions.place, place) || !kedge__lineage_current(l)) {
		kedge__versions_drop(k);
		return NULL;
	}
	k->versions.kept = NULL;
	return l;
}

int kedge__versions_open(kedge_t *k, struct kedge__set_key key, struct kedge__lineage **out, struct kedge__error *err)
{
	struct kedge__versions_place place = place_of(k, key);
	struct kedge__catalog *levels[KEDGE__LEVELS];
	const struct kedge__set *set;
	struct kedge__lineage *l;
	size_t n = levels_order(k, key, levels, &set);
	uint32_t rank = (uint32_t)k->group.rank;
	int rc;

	if (!set)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "version %llu of %s is not there",
					(unsigned long long)key.version, k->name);
	l = kept_take(k, &place);
	if (l) {
		*out = l;
		return 0;
	}
	rc = kedge__lineage_open_by(k->pool, levels, n, key.version, rank, &l, err);
	if (rc)
		return rc;
	if (!kedge__digest_equal(kedge__lineage_top(l)->summary.image_id, set->parts[rank].image_id)) {
		kedge__lineage_close(l);
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"version %llu of %s: only the segment of another set of that number is left",
					(unsigned long long)key.version, k->name);
	}
	k->versions.place = place;
	*out = l;
	return 0;
}

/* A set that is left out is only passed over by kedge_region_stat(). */
static void common_add(kedge_t *k, const struct kedge__set_key *keys, size_t n)
{
	if (k->group.size == 1 || !n)
		return;
	pthread_mutex_lock(&k->state.lock);
	if (kedge__array_reserve(&k->versions.common, k->versions.common.count + n)) {
		memcpy(k->versions.common.at + k->versions.common.count, keys, n * sizeof(*keys));
		k->versions.common.count += n;
	}
	pthread_mutex_unlock(&k->state.lock);
}

int kedge__versions_common(kedge_t *k, struct kedge__set_key *keys, size_t n, struct kedge__error *err)
{
	int rc = kedge__common(&k->channels.front, keys, &n, err);

	if (!rc)
		common_add(k, keys, n);
	return rc;
}

void kedge__versions_published(kedge_t *k, struct kedge__set_key key)
{
	common_add(k, &key, 1);
}

static bool known_everywhere(kedge_t *k, struct kedge__set_key key)
{
	bool known = k->group.size == 1;

	pthread_mutex_lock(&k->state.lock);
	for (size_t i = k->versions.common.count; i && !known; i--)
		known =
		    k->versions.common.at[i - 1].version == key.version && k->versions.common.at[i - 1].id == key.id;
	pthread_mutex_unlock(&k->state.lock);
	return known;
}

void kedge__versions_pin(kedge_t *k, bool pinned[KEDGE__LEVELS])
{
	for (int l = 0; l < KEDGE__LEVELS; l++)
		pinned[l] = k->levels.at[l].api && kedge__catalog_pin(k->levels.at[l].api, NULL) == 0;
}

void kedge__versions_unpin(kedge_t *k, const bool pinned[KEDGE__LEVELS])
{
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		if (pinned[l])
			kedge__catalog_unpin(k->levels.at[l].api);
	}
}

/* ------------------------------------------------------------------ kedge_versions */

static void info_fill(struct kedge_version_info *info, const struct kedge__set *s)
{
	const char *reducer = kedge__reducer_name((enum kedge__reducer_id)s->reducer);
	const struct kedge__set_sizes sizes = kedge__set_sizes(s);

	info->version = s->version;
	info->parent = kedge__set_refers(s);
	info->ranks = s->ranks;
	info->created_ns = s->created_ns;
	info->raw_bytes = sizes.raw;
	info->stored_bytes = sizes.stored;
	info->literal_bytes = sizes.literal;
	info->metadata_bytes = sizes.metadata;
	snprintf(info->reducer, sizeof(info->reducer), "%s", reducer ? reducer : "unknown");
}

static int by_version(const void *a, const void *b)
{
	const struct kedge_version_info *x = a, *y = b;

	return (x->version > y->version) - (x->version < y->version);
}

static int infos_collect(kedge_t *k, struct kedge_version_info **list, size_t *count, struct kedge__error *err)
{
	const struct kedge__run *run = kedge__versions_run(k);
	struct kedge_version_info *infos;
	size_t room = 1, n = 0, on_l1;

	for (int l = 0; l < KEDGE__LEVELS; l++)
		room += k->levels.at[l].api ? kedge__catalog_count(k->levels.at[l].api) : 0;
	infos = kedge__calloc(room, sizeof(*infos));
	if (!infos)
		return kedge__error_nomem(err);
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		on_l1 = n;
		for (size_t i = 0; k->levels.at[l].api && i < kedge__catalog_count(k->levels.at[l].api); i++) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(k->levels.at[l].api, i);
			struct kedge_version_info key = {.version = e->version}, *known;

			if (e->problem.code || !kedge__history_has(run, &e->set))
				continue;
			known = l ? bsearch(&key, infos, on_l1, sizeof(*infos), by_version) : NULL;
			if (!known) {
				known = &infos[n++];
				info_fill(known, &e->set);
			}
			known->levels |= 1u << l;
		}
	}
	qsort(infos, n, sizeof(*infos), by_version);
	*list = infos;
	*count = n;
	return 0;
}

int kedge_versions(kedge_t *k, struct kedge_version_info **list, size_t *count)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (!rc && (!list || !count))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "list and count must not be NULL");
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = kedge__versions_scan(k, &err);
	if (!rc)
		rc = infos_collect(k, list, count, &err);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}

int kedge__job_taken(kedge_t *k, uint64_t *after, struct kedge__error *err)
{
	struct kedge__catalog *levels[KEDGE__LEVELS];
	size_t n = 0;
	int rc;

	pthread_mutex_lock(&k->lock);
	rc = kedge__versions_scan(k, err);
	for (int l = 0; !rc && l < KEDGE__LEVELS; l++)
		if (k->levels.at[l].api)
			levels[n++] = k->levels.at[l].api;
	*after = kedge__run_after(kedge__versions_run(k), levels, n, KEDGE__NO_VERSION);
	pthread_mutex_unlock(&k->lock);
	return rc;
}

/* ------------------------------------------------------------------ one version */

void kedge__region_info_set(const struct kedge__region_record *r, struct kedge_region_info *info)
{
	*info = (struct kedge_region_info){.bytes = r->bytes, .type = (enum kedge_type)r->type, .ndims = (int)r->ndims};
	memcpy(info->dims, r->dims, sizeof(info->dims));
}

int kedge__versions_open_known(kedge_t *k, uint64_t version, struct kedge__lineage **out, struct kedge__error *err)
{
	struct kedge__set_key *keys;
	size_t n;
	int rc = kedge__versions_all(k, kedge__versions_run(k), &keys, &n, err);

	if (rc)
		return rc;
	rc =
	    kedge__error_set(err, version == KEDGE_NEWEST ? KEDGE_E_NOTFOUND : KEDGE_E_VERSION, 0,
			     version == KEDGE_NEWEST ? "there is no version of %s" : "%s has no such version", k->name);
	while (rc && n--) {
		if (version == KEDGE_NEWEST ? !known_everywhere(k, keys[n]) : keys[n].version != version)
			continue;
		rc = kedge__versions_open(k, keys[n], out, err);
		if (rc == KEDGE_E_NOMEM)
			break;
	}
	if ((rc == KEDGE_E_NOTFOUND || rc == KEDGE_E_VERSION) && k->versions.unread)
		rc = kedge__versions_unread(k, err);
	kedge__free(keys);
	return rc;
}

void kedge__versions_done(struct kedge__versions *v)
{
	kedge__lineage_close(v->kept);
	kedge__array_done(&v->common);
}
