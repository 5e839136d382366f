/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Check every byte of every file, and that every version can be restored: its parts are present and readable, and the
 * result matches what was saved. Damage in blocks that a version does not use does not make it lost.
 */
#include "store/verify.h"

#include <stdlib.h>

void kedge__verifier_report(struct kedge__verifier *v, const struct kedge__finding *f)
{
	v->report->findings++;
	if (v->options->found)
		v->options->found(v->options->ctx, f);
}

void kedge__verifier_advance(struct kedge__verifier *v, uint64_t bytes)
{
	v->report->bytes_checked += bytes;
	if (v->options->progress)
		v->options->progress(v->options->ctx, KEDGE__MIN(v->report->bytes_checked, v->total), v->total);
}

bool kedge__verifier_depends_on(const struct kedge__verifier *v, size_t entry, const uint8_t *what)
{
	uint8_t *marks = kedge__calloc(v->cat->entries.count + 1, 1);
	bool found = false;

	if (!marks)
		return false;
	(void)kedge__catalog_mark(v->cat, v->cat->entries.at[entry]->version, true, marks, NULL);
	for (size_t k = 0; k <= entry && !found; k++)
		found = marks[k] && what[k];
	kedge__free(marks);
	return found;
}

bool kedge__verifier_was_replaced(const struct kedge__verifier *v, size_t entry, uint32_t rank)
{
	const struct kedge__set *set = &v->cat->entries.at[entry]->set;
	struct kedge__set now;
	bool same;

	if (kedge__catalog_read_set(v->cat, set->version, &now, NULL) != 1)
		return true;
	same = rank < now.ranks && now.parts[rank].generation == set->parts[rank].generation &&
	       now.bundle == set->bundle && kedge__digest_equal(now.parts[rank].seal, set->parts[rank].seal);
	kedge__set_done(&now);
	return !same;
}

/* ------------------------------------------------------------------ manifests */

/* Reported once, however many versions there are: such a store is one of several that are local to nodes, or partly
 * lost. */
static void report_absent_rank(struct kedge__verifier *v, size_t entry, uint32_t rank)
{
	struct kedge__finding finding = {
	    .version = v->cat->entries.at[entry]->version,
	    .rank = rank,
	    .file = v->cat->dir,
	    .block = -1,
	    .section = "rank",
	    .text = "this store has no segment of this rank; if the store is local to a node, run verify on the "
		    "node of that rank"};

	v->damaged[entry] = 1;
	for (size_t i = 0; i < entry; i++) {
		const struct kedge__catalog_entry *older = v->cat->entries.at[i];

		if (v->selected[i] && !older->problem.code && rank < older->set.ranks)
			return;
	}
	kedge__verifier_report(v, &finding);
}

static int check_entry(struct kedge__verifier *v, size_t i, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = v->cat->entries.at[i];
	struct kedge__finding finding = {.version = entry->version, .block = -1, .section = "manifest"};
	char *path = kedge__catalog_set_path(v->cat, entry->version);

	if (!path)
		return kedge__error_nomem(err);
	v->report->sets++;
	if (entry->problem.code) {
		finding.file = path;
		finding.text = kedge__error_text(&entry->problem);
		v->damaged[i] = v->lost[i] = 1;
		kedge__verifier_report(v, &finding);
	}
	kedge__free(path);
	for (uint32_t rank = 0; !entry->problem.code && rank < entry->set.ranks; rank++) {
		if (kedge__rank_list_has(&v->ranks, rank) || v->options->local)
			continue;
		v->lost[i] = 1;
		report_absent_rank(v, i, rank);
	}
	return 0;
}

/* ------------------------------------------------------------------ families */

struct kinship {       /* which entries refer to each other, by their manifests */
	size_t *of;    /* one per entry: a relative, whose relative is ... up to the representative of the family */
	size_t *order; /* entries, those of one family next to each other, ascending */
	size_t count;
};

static size_t kin_find(const struct kinship *k, size_t i)
{
	while (k->of[i] != i)
		i = k->of[i] = k->of[k->of[i]];
	return i;
}

static size_t entry_index(const struct kedge__catalog *cat, uint64_t version)
{
	size_t i = kedge__catalog_index(cat, version);

	return i < cat->entries.count && cat->entries.at[i]->version == version ? i : SIZE_MAX;
}

static bool is_checked(const struct kedge__verifier *v, size_t i)
{
	return v->selected[i] && !v->cat->entries.at[i]->problem.code;
}

static void kin_join(struct kinship *k, const struct kedge__verifier *v, size_t i)
{
	const struct kedge__set *set = &v->cat->entries.at[i]->set;

	for (size_t s = 0; s < set->source_count; s++) {
		size_t other = entry_index(v->cat, set->sources[s]);

		if (other != SIZE_MAX && is_checked(v, other))
			k->of[kin_find(k, i)] = kin_find(k, other);
	}
}

/* Families in the order of their representatives; within one, the order of entries stays. */
static void kin_sort(struct kinship *k, const struct kedge__verifier *v, size_t *places)
{
	size_t n = v->cat->entries.count, place = 0;

	for (size_t i = 0; i < n; i++)
		if (is_checked(v, i))
			places[kin_find(k, i)]++;
	for (size_t i = 0; i < n; i++) {
		size_t count = places[i];

		places[i] = place;
		place += count;
	}
	for (size_t i = 0; i < n; i++)
		if (is_checked(v, i))
			k->order[places[kin_find(k, i)]++] = i;
	k->count = place;
}

static int kinship_init(struct kinship *k, const struct kedge__verifier *v, struct kedge__error *err)
{
	size_t n = v->cat->entries.count;
	size_t *places = kedge__calloc(n + 1, sizeof(*places));

	k->of = kedge__calloc(n + 1, sizeof(*k->of));
	k->order = kedge__calloc(n + 1, sizeof(*k->order));
	if (places && k->of && k->order) {
		for (size_t i = 0; i < n; i++)
			k->of[i] = i;
		for (size_t i = 0; i < n; i++)
			if (is_checked(v, i))
				kin_join(k, v, i);
		kin_sort(k, v, places);
	}
	kedge__free(places);
	return places && k->of && k->order ? 0 : kedge__error_nomem(err);
}

static void kinship_done(struct kinship *k)
{
	kedge__free(k->of);
	kedge__free(k->order);
}

static int check_ranks(struct kedge__verifier *v, const size_t *entries, size_t count, struct kedge__error *err)
{
	uint32_t ranks = 0;
	int rc = 0;

	for (size_t i = 0; i < count; i++)
		ranks = KEDGE__MAX(ranks, v->cat->entries.at[entries[i]]->set.ranks);
	for (uint32_t rank = 0; rank < ranks && !rc; rank++)
		if (kedge__rank_list_has(&v->ranks, rank))
			rc = kedge__family_check(v, rank, entries, count, err);
	return rc;
}

static int check_families(struct kedge__verifier *v, struct kedge__error *err)
{
	struct kinship kin = {0};
	int rc = kinship_init(&kin, v, err);

	for (size_t i = 0, end; i < kin.count && !rc; i = end) {
		for (end = i + 1; end < kin.count && kin_find(&kin, kin.order[end]) == kin_find(&kin, kin.order[i]);)
			end++;
		rc = check_ranks(v, kin.order + i, end - i, err);
	}
	kinship_done(&kin);
	return rc;
}

/* A version that its owner removed during the check is neither intact nor lost, and neither are those that need it. */
static int count_lost(struct kedge__verifier *v, struct kedge__error *err)
{
	struct kedge__verify_report *report = v->report;

	report->lost = kedge__calloc(v->cat->entries.count + 1, sizeof(*report->lost));
	if (!report->lost)
		return kedge__error_nomem(err);
	report->newest_intact = KEDGE__NO_VERSION;
	for (size_t i = 0; i < v->cat->entries.count; i++) {
		uint64_t version = v->cat->entries.at[i]->version;

		if (!v->selected[i] || v->vanished[i] || (v->lost[i] && kedge__verifier_depends_on(v, i, v->vanished)))
			continue;
		if (v->lost[i]) {
			report->lost[report->versions_lost++] = version;
			continue;
		}
		report->versions_intact++;
		report->newest_intact = version;
	}
	return 0;
}

/* ------------------------------------------------------------------ strays */

static void report_stray(struct kedge__verifier *v, uint64_t version, const char *path)
{
	struct kedge__finding finding = {
	    .version = version,
	    .file = path,
	    .block = -1,
	    .section = "stray",
	    .text = "belongs to no version: left by a crash, or being written by a running job"};

	v->report->strays++;
	if (v->options->found)
		v->options->found(v->options->ctx, &finding);
}

/* A shield of a version: it is checked if the version is. False: it is none, and belongs to nobody. */
static bool check_shield(struct kedge__verifier *v, const struct kedge__catalog_entry *entry, const char *name,
			 const char *path)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	struct kedge__finding finding = {.version = entry->version, .file = path, .block = -1, .section = "shield"};
	struct kedge__shield_file f = {.fd = -1};
	uint32_t generation;
	bool selected = v->selected[kedge__catalog_index(v->cat, entry->version)];
	int rc;

	if (!kedge__shield_file_parse(name, &finding.rank, &generation) ||
	    !kedge__set_names(&entry->set, finding.rank, generation))
		return false;
	rc = selected ? kedge__shield_open(path, &f, &problem) : 0;
	if (selected && !rc && !kedge__shield_fits(&f.shield, &entry->set, finding.rank))
		rc = kedge__error_set(&problem, KEDGE_E_DAMAGED, 0,
				      "it protects other segments than the manifest names");
	if (selected && !rc)
		rc = kedge__shield_check(&f, &problem);
	if (selected && !rc)
		v->report->bytes_checked += kedge__shield_file_bytes(&f.shield, f.header);
	kedge__shield_close(&f);
	finding.text = kedge__error_text(&problem);
	if (rc && kedge__fs_exists(path))
		kedge__verifier_report(v, &finding);
	kedge__error_done(&problem);
	return true;
}

/* The same for a bundle: what its segments do not cover. */
static bool check_bundle(struct kedge__verifier *v, const struct kedge__catalog_entry *entry, const char *name,
			 const char *path)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	struct kedge__finding finding = {.version = entry->version, .file = path, .block = -1, .section = "bundle"};
	uint32_t first, generation;
	int rc = 0;

	if (!kedge__bundle_file_parse(name, &first, &generation) || !kedge__set_bundles(&entry->set, first, generation))
		return false;
	if (v->selected[kedge__catalog_index(v->cat, entry->version)])
		rc = kedge__bundle_check(path, &entry->set, first, &finding.rank, &problem);
	finding.text = kedge__error_text(&problem);
	if (rc && kedge__fs_exists(path))
		kedge__verifier_report(v, &finding);
	kedge__error_done(&problem);
	return true;
}

static bool is_segment_of(const struct kedge__catalog_entry *entry, const char *name)
{
	uint32_t rank, generation;

	return kedge__segment_file_parse(name, &rank, &generation) && kedge__set_names(&entry->set, rank, generation);
}

static int check_version_dir(struct kedge__verifier *v, uint64_t version, const char *dir, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(v->cat, version);
	char **names;
	size_t count;
	int rc = 0;

	if ((entry && entry->problem.code) || kedge__fs_list(dir, &names, &count, NULL) != 0)
		return 0;
	for (size_t i = 0; i < count && !rc; i++) {
		char *path = kedge__asprintf("%s/%s", dir, names[i]);

		if (!path)
			rc = kedge__error_nomem(err);
		else if (!entry || (!is_segment_of(entry, names[i]) && !check_shield(v, entry, names[i], path) &&
				    !check_bundle(v, entry, names[i], path)))
			report_stray(v, version, path);
		kedge__free(path);
	}
	kedge__fs_list_free(names, count);
	return rc;
}

static bool is_known_name(const char *name)
{
	uint64_t version;

	return kedge__set_file_parse(name, &version) || strcmp(name, KEDGE__LOCK_NAME) == 0 ||
	       strcmp(name, KEDGE__GUARD_NAME) == 0 || strcmp(name, KEDGE__FILES_NAME) == 0 ||
	       strcmp(name, KEDGE__TIE_NAME) == 0 || strcmp(name, KEDGE__WATCH_NAME) == 0 ||
	       strcmp(name, KEDGE__INDEX_NAME) == 0 ||
	       (strncmp(name, KEDGE__RECORD_START, strlen(KEDGE__RECORD_START)) == 0 && !kedge__name_is_tmp(name));
}

static int check_strays(struct kedge__verifier *v, struct kedge__error *err)
{
	char **names;
	size_t count;
	int rc;

	rc = kedge__fs_list(v->cat->dir, &names, &count, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		char *path = kedge__catalog_path(v->cat, names[i]);
		uint64_t version;

		if (!path)
			rc = kedge__error_nomem(err);
		else if (kedge__version_dir_parse(names[i], &version))
			rc = check_version_dir(v, version, path, err);
		else if (!is_known_name(names[i]))
			report_stray(v, 0, path);
		kedge__free(path);
	}
	kedge__fs_list_free(names, count);
	return rc;
}

/* ------------------------------------------------------------------ all of it */

static void check_marker(struct kedge__verifier *v)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	struct kedge__finding finding = {.block = -1, .section = "marker", .file = v->cat->store};

	if (kedge__marker_check(v->cat, &problem) != 0) {
		finding.text = kedge__error_text(&problem);
		kedge__verifier_report(v, &finding);
	}
	kedge__error_done(&problem);
}

static int select_entries(struct kedge__verifier *v, struct kedge__error *err)
{
	uint64_t version = v->options->version;
	size_t count = v->cat->entries.count;
	int rc = 0;

	v->selected = kedge__calloc(count + 1, 1);
	v->damaged = kedge__calloc(count + 1, 1);
	v->vanished = kedge__calloc(count + 1, 1);
	v->lost = kedge__calloc(count + 1, 1);
	if (!v->selected || !v->damaged || !v->vanished || !v->lost)
		return kedge__error_nomem(err);
	if (version == KEDGE_NEWEST)
		memset(v->selected, 1, count);
	else
		rc = kedge__catalog_mark(v->cat, version, true, v->selected, err);
	for (size_t i = 0; i < count && !rc; i++)
		if (v->selected[i])
			v->total += kedge__set_disk_bytes(v->cat, v->cat->entries.at[i]->version);
	return rc;
}

/* Read the manifests of the entries in MARKS again, unless they were read after START. *NEWS: some were read. */
static int read_marked(struct kedge__catalog *cat, const uint8_t *marks, uint64_t start, bool *news,
		       struct kedge__error *err)
{
	int rc = 0;

	*news = false;
	for (size_t i = cat->entries.count; i-- > 0 && !rc;) {
		if (!marks[i] || cat->entries.at[i]->read_at > start)
			continue;
		*news = true;
		rc = kedge__catalog_reread_one(cat, cat->entries.at[i]->version, err);
	}
	return rc;
}

/* verify reads everything from disk and does not trust the index. */
static int read_manifests(struct kedge__verifier *v, struct kedge__error *err)
{
	uint64_t start = v->cat->manifests_read;
	bool news = true;
	int rc;

	if (v->options->version == KEDGE_NEWEST)
		return kedge__catalog_reread(v->cat, err);
	rc = kedge__catalog_rescan(v->cat, err);
	/* A manifest read again may name others. */
	while (!rc && news) {
		uint8_t *marks = kedge__calloc(v->cat->entries.count + 1, 1);

		rc = marks ? kedge__catalog_mark(v->cat, v->options->version, true, marks, err)
			   : kedge__error_nomem(err);
		if (!rc)
			rc = read_marked(v->cat, marks, start, &news, err);
		kedge__free(marks);
	}
	return rc;
}

static int verify_pinned(struct kedge__verifier *v, struct kedge__error *err)
{
	int rc;

	rc = read_manifests(v, err);
	if (!rc)
		rc = select_entries(v, err);
	if (!rc)
		rc = kedge__rank_list_init(&v->ranks, v->cat, err);
	if (rc)
		return rc;
	if (!v->cat->pack)
		check_marker(v);
	for (size_t i = 0; i < v->cat->entries.count && !rc; i++)
		if (v->selected[i])
			rc = check_entry(v, i, err);
	if (!rc)
		rc = check_families(v, err);
	if (!rc)
		rc = count_lost(v, err);
	if (!rc && v->options->version == KEDGE_NEWEST && !v->cat->pack)
		rc = check_strays(v, err);
	if (!rc && v->options->progress)
		v->options->progress(v->options->ctx, v->total, v->total);
	return rc;
}

int kedge__verify_with(struct kedge__catalog *cat, struct kedge__pool *pool,
		       const struct kedge__verify_options *options, struct kedge__verify_report *report,
		       struct kedge__error *err)
{
	struct kedge__verify_report done = {0};
	struct kedge__verifier v = {.cat = cat, .pool = pool, .options = options, .report = &done};
	int rc;

	rc = kedge__catalog_pin(cat, err);
	if (rc)
		return rc;
	rc = verify_pinned(&v, err);
	kedge__catalog_unpin(cat);
	kedge__free(v.selected);
	kedge__free(v.damaged);
	kedge__free(v.vanished);
	kedge__free(v.lost);
	kedge__rank_list_done(&v.ranks);
	if (!rc && report)
		*report = done;
	else
		kedge__verify_report_done(&done);
	return rc;
}

int kedge__verify(struct kedge__catalog *cat, struct kedge__pool *pool, uint64_t version,
		  void (*found)(void *ctx, const struct kedge__finding *f), void *ctx,
		  void (*progress)(void *ctx, uint64_t done, uint64_t total), struct kedge__verify_report *report,
		  struct kedge__error *err)
{
	const struct kedge__verify_options options = {
	    .version = version, .found = found, .progress = progress, .ctx = ctx};

	return kedge__verify_with(cat, pool, &options, report, err);
}

void kedge__verify_report_done(struct kedge__verify_report *report)
{
	kedge__free(report->lost);
	*report = (struct kedge__verify_report){0};
}
