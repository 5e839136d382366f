/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_measured: what checkpoints cost in earlier runs, by the manifests of a store. */
#include "plan.h"
#include <math.h>
#include <sys/stat.h>

#define NEWEST 64     /* sets: older ones may be of another size, or from another machine */
#define TICK   10e-3  /* seconds: times of files may be behind the clock by as much */
#define LEAST  100e-6 /* of a copy that was finished within a tick */

/* The only name in STORE, if NAME is NULL. *OUT: kedge__free(). */
static int choose_name(const char *store, const char *name, char **out, struct kedge__error *err)
{
	char **names;
	size_t n;
	int rc;

	if (name != NULL) {
		*out = kedge__strdup(name);
		return *out != NULL ? 0 : kedge__error_nomem(err);
	}
	rc = kedge__store_names(store, &names, &n, err);
	if (rc != 0)
		return rc;
	if (n == 1)
		*out = kedge__strdup(names[0]);
	if (n == 1)
		rc = *out != NULL ? 0 : kedge__error_nomem(err);
	else if (n == 0)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s contains no job", store);
	else
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "%s contains %zu jobs; choose one with --name", store, n);
	kedge__fs_list_free(names, n);
	return rc;
}

static void measure_set(const struct kedge__set *set, struct kedge__measured *m)
{
	uint64_t largest = 0;

	if (!(set->seconds > 0))
		return;
	for (uint32_t r = 0; r < set->ranks; r++)
		largest = KEDGE__MAX(largest, set->parts[r].file_bytes);
	m->sets++;
	m->nodes = set->ranks;
	m->cost += (set->seconds - m->cost) / (double)m->sets;
	m->size += ((double)largest - m->size) / (double)m->sets;
}

/* A manifest on L2 carries the time of the checkpoint; its file has the time when the copy was finished. */
static void measure_copy(const char *l2, const char *name, const struct kedge__set *set, struct kedge__measured *m)
{
	char *leaf = kedge__set_file_name(set->version);
	char *path = leaf != NULL ? kedge__asprintf("%s/%s/%s", l2, name, leaf) : NULL;
	struct stat st;
	double seconds;

	if (path != NULL && stat(path, &st) == 0) {
		seconds =
		    (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec - 1e-9 * (double)set->created_ns;
		if (seconds > -TICK) {
			m->latency = m->copies == 0 ? 0 : m->latency;
			m->copies++;
			m->latency += (KEDGE__MAX(seconds, LEAST) - m->latency) / (double)m->copies;
		}
	}
	kedge__free(path);
	kedge__free(leaf);
}

static int measure_level(const char *store, const char *name, bool copies, struct kedge__measured *m,
			 struct kedge__error *err)
{
	struct kedge__catalog *cat;
	size_t n;
	int rc = kedge__catalog_open(store, name, KEDGE__CATALOG_READ, &cat, err);

	if (rc != 0)
		return rc;
	n = kedge__catalog_count(cat);
	for (size_t i = n > NEWEST ? n - NEWEST : 0; i < n; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);

		if (e->problem.code != 0)
			continue;
		if (copies)
			measure_copy(store, name, &e->set, m);
		else
			measure_set(&e->set, m);
	}
	kedge__catalog_close(cat);
	return 0;
}

int kedge__plan_measure(const char *store, const char *l2, const char *name, struct kedge__measured *out,
			struct kedge__error *err)
{
	struct kedge__measured m = {.latency = NAN};
	char *job = NULL;
	int rc = choose_name(store, name, &job, err);

	if (rc != 0)
		return rc;
	rc = measure_level(store, job, false, &m, err);
	if (rc == 0 && m.sets == 0)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s: no version of '%s' has a recorded time", store,
				      job);
	if (rc == 0 && l2 != NULL)
		rc = measure_level(l2, job, true, &m, err);
	if (rc == 0 && l2 != NULL && m.copies == 0)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s: no version of '%s' has a recorded copy time", l2,
				      job);
	kedge__free(job);
	if (rc == 0)
		*out = m;
	return rc;
}
