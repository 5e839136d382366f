/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions that go because somebody says so. Whoever refers to one of them is rewritten before, by coalescing: its
 * image stays what it is, so that those that refer to it in turn need not be touched.
 */
#include "store/internal.h"

static bool refers(const struct kedge__set *set, uint64_t version)
{
	for (size_t i = 0; i < set->source_count; i++) {
		if (set->sources[i] == version)
			return true;
	}
	return false;
}

/* The oldest version that refers to VERSION; KEDGE__NO_VERSION: none does. What cannot be read might. */
static int find_referrer(const struct kedge__catalog *cat, uint64_t version, uint64_t *found, struct kedge__error *err)
{
	*found = KEDGE__NO_VERSION;
	for (size_t i = kedge__catalog_below(cat, version); i < cat->entries.count; i++) {
		const struct kedge__catalog_entry *e = cat->entries.at[i];

		if (e->version == version)
			continue;
		if (e->problem.code)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"nobody knows whether version %" PRIu64
						" needs it, because that cannot "
						"be read; remove that one first: %s",
						e->version, kedge__error_text(&e->problem));
		if (refers(&e->set, version)) {
			*found = e->version;
			return 0;
		}
	}
	return 0;
}

static int remove_seized(struct kedge__catalog *cat, uint64_t version, bool *again, struct kedge__error *err)
{
	uint64_t referrer;
	int rc = kedge__catalog_rescan(cat, err);

	if (!rc && !kedge__catalog_find(cat, version))
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s has no version %" PRIu64, cat->dir, version);
	if (!rc)
		rc = find_referrer(cat, version, &referrer, err);
	*again = !rc && referrer != KEDGE__NO_VERSION;
	return rc || *again ? rc : kedge__set_remove(cat, version, err);
}

static int rewrite_referrers(struct kedge__catalog *cat, struct kedge__pool *pool,
			     const struct kedge__coalesce_options *how, uint64_t version, size_t *rewritten,
			     struct kedge__error *err)
{
	struct kedge__coalesce_options options = *how;
	uint64_t referrer;
	int rc = find_referrer(cat, version, &referrer, err);

	options.from = version;
	options.onto = false;
	options.keep_old = true;
	while (!rc && referrer != KEDGE__NO_VERSION) {
		options.version = referrer;
		rc = kedge__coalesce(cat, pool, &options, NULL, err);
		if (rc) {
			kedge__error_prefix(err, "cannot rewrite version %" PRIu64 ", which needs it", referrer);
			return rc;
		}
		++*rewritten;
		rc = find_referrer(cat, version, &referrer, err);
	}
	return rc;
}

int kedge__version_remove(struct kedge__catalog *cat, struct kedge__pool *pool,
			  const struct kedge__coalesce_options *how, uint64_t version, size_t *rewritten,
			  struct kedge__error *err)
{
	bool again = true;
	int rc = kedge__catalog_rescan(cat, err);

	/* Once is enough, unless somebody else makes versions of this name meanwhile. */
	while (!rc && again) {
		rc = rewrite_referrers(cat, pool, how, version, rewritten, err);
		if (!rc)
			rc = kedge__catalog_seize(cat, true, err);
		if (rc)
			break;
		rc = remove_seized(cat, version, &again, err);
		kedge__catalog_release(cat);
	}
	return rc;
}

/* ------------------------------------------------------------------ all of them */

/* What the format says of files beside the versions. */
static bool is_ours(const char *name)
{
	static const char *const names[] = {"index", "lock", "l2", "guard"};
	static const char *const begins[] = {"record", "probe-"};
	size_t n = strlen(name);

	for (size_t i = 0; i < KEDGE__COUNT(names); i++) {
		size_t m = strlen(names[i]);

		if (strncmp(name, names[i], m) == 0 && (n == m || strcmp(name + m, KEDGE__TMP_SUFFIX) == 0))
			return true;
	}
	for (size_t i = 0; i < KEDGE__COUNT(begins); i++) {
		if (strncmp(name, begins[i], strlen(begins[i])) == 0)
			return true;
	}
	return false;
}

static int remove_files(const char *dir, struct kedge__error *err)
{
	char **names;
	size_t count;
	int rc = kedge__fs_list(dir, &names, &count, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		char *path = is_ours(names[i]) ? kedge__asprintf("%s/%s", dir, names[i]) : NULL;

		if (path)
			rc = kedge__fs_unlink(path, err);
		else if (is_ours(names[i]))
			rc = kedge__error_nomem(err);
		kedge__free(path);
	}
	kedge__fs_list_free(names, count);
	return rc;
}

static int destroy_seized(struct kedge__catalog *cat, struct kedge__error *err)
{
	size_t removed = 0;
	int rc = kedge__catalog_rescan(cat, err);

	while (!rc && cat->entries.count)
		rc = kedge__set_remove(cat, cat->entries.at[cat->entries.count - 1]->version, err);
	if (!rc)
		rc = kedge__catalog_sweep(cat, true, false, &removed, err);
	return rc;
}

int kedge__catalog_destroy(struct kedge__catalog *cat, struct kedge__error *err)
{
	char *files = NULL;
	int rc = kedge__catalog_seize(cat, true, err);

	if (rc)
		return rc;
	rc = destroy_seized(cat, err);
	kedge__catalog_release(cat);
	if (!rc) {
		kedge__catalog_disown(cat);
		rc = remove_files(cat->dir, err);
	}
	files = rc ? NULL : kedge__asprintf("%s/files", cat->dir);
	if (files)
		rc = kedge__fs_rmdir(files, err);
	kedge__free(files);
	if (!rc)
		rc = kedge__fs_rmdir(cat->dir, err);
	return rc;
}

/* ------------------------------------------------------------------ those that stay need no others */

struct stay {
	struct kedge__catalog *cat;
	KEDGE__ARRAY(uint64_t) versions; /* ascending */
};

static bool stays(const struct stay *s, uint64_t version)
{
	for (size_t i = 0; i < s->versions.count; i++) {
		if (s->versions.at[i] == version)
			return true;
	}
	return false;
}

/* What KEEP asks for, as far as it belongs to the history. */
static int stay_choose(struct stay *s, const struct kedge__keep *keep, struct kedge__error *err)
{
	const struct kedge__set *head = kedge__history_head(&s->cat, 1);
	struct kedge__keep_item *items = kedge__keep_items(s->cat, keep->bytes, err);
	int rc = items ? 0 : KEDGE_E_NOMEM;

	for (size_t i = 0; !rc && i < s->cat->entries.count; i++) {
		const struct kedge__catalog_entry *e = s->cat->entries.at[i];

		items[i].outside = !e->problem.code && !kedge__history_has(&head->run, &e->set);
	}
	if (!rc)
		kedge__keep_choose(keep, items, s->cat->entries.count);
	for (size_t i = 0; !rc && i < s->cat->entries.count; i++) {
		if (items[i].why && !items[i].unfit && !kedge__array_push(&s->versions, items[i].version))
			rc = kedge__error_nomem(err);
	}
	kedge__free(items);
	return rc;
}

static int needs_others(const struct stay *s, uint64_t version, bool *others, struct kedge__error *err)
{
	uint64_t *list;
	size_t n;
	int rc = kedge__catalog_closure(s->cat, version, &list, &n, err);

	*others = false;
	for (size_t i = 0; !rc && i < n; i++)
		*others = *others || !stays(s, list[i]);
	if (!rc)
		kedge__free(list);
	return rc;
}

int kedge__gc_rewrite(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__coalesce_options *how,
		      const struct kedge__keep *keep, size_t recent, size_t most, struct kedge__trust *trust,
		      size_t *rewritten, struct kedge__error *err)
{
	struct kedge__coalesce_options options = *how;
	struct stay s = {.cat = cat};
	int rc = kedge__catalog_scan(cat, err);

	options.from = 0;
	options.keep_old = true;
	if (!rc)
		rc = stay_choose(&s, keep, err);
	for (size_t i = 0; i + recent < s.versions.count && !rc && (!most || *rewritten < most); i++) {
		bool others;

		rc = needs_others(&s, s.versions.at[i], &others, err);
		if (rc || !others)
			continue;
		options.version = s.versions.at[i];
		options.onto = i > 0;
		options.parent = i ? s.versions.at[i - 1] : KEDGE__NO_VERSION;
		rc = kedge__coalesce(cat, pool, &options, NULL, err);
		if (!rc && kedge__catalog_find(cat, options.version))
			kedge__trust_add(trust, &kedge__catalog_find(cat, options.version)->set);
		*rewritten += !rc;
	}
	kedge__array_done(&s.versions);
	return rc;
}
