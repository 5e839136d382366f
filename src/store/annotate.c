/* SPDX-License-Identifier: BSD-3-Clause */
/* What people say about a version is part of its manifest, which is published again when they say something else. */
#include "store/internal.h"

/* A segment whose times are later than the manifest's was changed, and stays so in the eyes of those who look. */
static bool is_later(const char *path, int64_t than)
{
	struct kedge__file_state now;

	return kedge__file_state_at(path, &now) && (now.mtime_ns > than || now.ctime_ns > than);
}

static int annotate_seized(struct kedge__catalog *cat, uint64_t version, char *note, char *labels,
			   struct kedge__error *err)
{
	const struct kedge__catalog_entry *e = kedge__catalog_find(cat, version);
	struct kedge__set set;
	uint8_t *later;
	char *path;
	int rc;

	if (!e)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s has no version %" PRIu64, cat->dir, version);
	if (e->problem.code)
		return kedge__error_set(err, e->problem.code, 0, "%s", kedge__error_text(&e->problem));
	later = kedge__calloc(e->set.ranks, 1);
	rc = later ? 0 : kedge__error_nomem(err);
	for (uint32_t r = 0; r < e->set.ranks && !rc; r++) {
		path = kedge__part_path(cat, version, r, &e->set.parts[r]);
		rc = path ? 0 : kedge__error_nomem(err);
		later[r] = path && is_later(path, e->file.mtime_ns);
		kedge__free(path);
	}
	set = e->set;
	set.note = note;
	set.labels = labels;
	if (!rc)
		rc = kedge__set_publish(cat, &set, err);
	e = rc ? NULL : kedge__catalog_find(cat, version);
	for (uint32_t r = 0; e && r < e->set.ranks; r++) {
		path = later[r] ? kedge__part_path(cat, version, r, &e->set.parts[r]) : NULL;
		if (path)
			(void)kedge__fs_touch(path, NULL);
		kedge__free(path);
	}
	kedge__free(later);
	return rc;
}

int kedge__set_annotate(struct kedge__catalog *cat, uint64_t version, const char *note, const char *labels,
			struct kedge__error *err)
{
	char *n = note ? kedge__strdup(note) : NULL, *l = labels ? kedge__strdup(labels) : NULL;
	int rc = (note && !n) || (labels && !l) ? kedge__error_nomem(err) : kedge__catalog_seize(cat, true, err);

	if (!rc) {
		rc = kedge__catalog_rescan(cat, err);
		if (!rc)
			rc = annotate_seized(cat, version, n, l, err);
		kedge__catalog_release(cat);
	}
	kedge__free(n);
	kedge__free(l);
	return rc;
}
