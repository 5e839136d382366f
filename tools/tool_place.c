/* SPDX-License-Identifier: BSD-3-Clause */
/* place: the catalogues of a name on one or two levels, opened for reading. */
#include "tool.h"
#include <stdlib.h>

int kedge__store_check(const struct kedge__usage *u, const char *store)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__store_id id;
	enum kedge__sight sight = kedge__store_look(store, &id, &err);

	kedge__error_done(&err); /* whoever reads it next says so better */
	if (kedge__pack_is_at(store) && !kedge__pack_begins_at(store)) {
		kedge__tool_say(u->command, "%s is neither a store nor a pack: it does not begin as a pack does",
				store);
		return KEDGE__EXIT_DAMAGED;
	}
	if (kedge__pack_is_at(store))
		return 0;
	if (sight == KEDGE__SIGHT_NOTHING)
		kedge__tool_say(u->command,
				"there is no store at %s: name one with -s STORE, or make one with 'kedge save'",
				store);
	else if (sight == KEDGE__SIGHT_EMPTY)
		kedge__tool_say(u->command, "%s is not a store, but %s", store, kedge__sight_text(sight));
	else if (sight == KEDGE__SIGHT_OTHER)
		kedge__tool_say(u->command, "%s is a directory, but not a store; -s names a store", store);
	else
		return 0;
	return KEDGE__EXIT_NOTFOUND;
}

int kedge__place_pack(struct kedge__place *p, const struct kedge__usage *u, int argc, char **argv, int first)
{
	if (first >= argc)
		return 0;
	if (argc - first > 1)
		return kedge__usage_error(u, "one pack at a time, please");
	if (p->store)
		return kedge__usage_error(u, "a store (-s) and a pack (%s) cannot be read at once", argv[first]);
	if (!kedge__fs_exists(argv[first])) {
		kedge__tool_say(u->command, "there is no pack %s", argv[first]);
		return KEDGE__EXIT_NOTFOUND;
	}
	if (!kedge__pack_is_at(argv[first]))
		return kedge__usage_error(u, "%s is not a pack, which is a file; a store is named with -s",
					  argv[first]);
	if (!kedge__pack_begins_at(argv[first])) {
		kedge__tool_say(u->command, "%s is not a pack: it does not begin as one", argv[first]);
		return KEDGE__EXIT_DAMAGED;
	}
	p->store = argv[first];
	p->pack = true;
	return 0;
}

/* The levels to use: those of -s and --l2; the configured L2 only together with the configured L1. */
static size_t level_paths(const struct kedge__place *p, enum kedge__place_mode mode,
			  const char *paths[KEDGE__PLACE_LEVELS], unsigned bits[KEDGE__PLACE_LEVELS])
{
	size_t n = 0;

	paths[n] = p->settings.l1;
	bits[n++] = 1;
	if (mode == KEDGE__PLACE_FIRST || p->pack)
		return n;
	paths[n] = p->l2 ? p->l2 : p->settings.l2;
	bits[n] = 2;
	return paths[n] && *paths[n] ? n + 1 : n;
}

/* A directory that is no store has no names, whatever is in it. */
static int level_names(const char *store, char ***names, size_t *count, struct kedge__error *err)
{
	struct kedge__store_id id;
	enum kedge__sight sight = kedge__store_look(store, &id, NULL);

	if (!kedge__pack_is_at(store) && (sight == KEDGE__SIGHT_EMPTY || sight == KEDGE__SIGHT_OTHER))
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s is %s", store, kedge__sight_text(sight));
	return kedge__store_names(store, names, count, err);
}

void kedge__place_ignore(const struct kedge__place *p, const struct kedge__usage *u, unsigned level,
			 const struct kedge__error *err)
{
	if (!p->quiet)
		kedge__tool_say(u->command, "note: ignoring level L%u: %s", level, kedge__error_text(err));
}

/* No level has a name: why, of each that cannot be read. */
static int no_names(const struct kedge__place *p, const struct kedge__usage *u,
		    struct kedge__place_names names[KEDGE__PLACE_LEVELS])
{
	const char *store = names[0].store;
	int status;

	if (names[1].problem.code)
		kedge__place_ignore(p, u, 2, &names[1].problem);
	if (!names[0].problem.code)
		return 0;
	status = kedge__store_check(u, store);
	return status ? status
		      : kedge__tool_fail(u->command, &names[0].problem, "cannot read %s %s",
					 kedge__pack_is_at(store) ? "pack" : "store", store);
}

int kedge__place_names(const struct kedge__place *p, const struct kedge__usage *u, enum kedge__place_mode mode,
		       struct kedge__place_names names[KEDGE__PLACE_LEVELS])
{
	const char *paths[KEDGE__PLACE_LEVELS];
	unsigned bits[KEDGE__PLACE_LEVELS];
	size_t n = level_paths(p, mode, paths, bits);

	for (size_t i = 0; i < n; i++) {
		names[i].store = paths[i];
		(void)level_names(paths[i], &names[i].at, &names[i].count, &names[i].problem);
	}
	return names[0].count || names[1].count ? 0 : no_names(p, u, names);
}

void kedge__place_names_done(struct kedge__place_names names[KEDGE__PLACE_LEVELS])
{
	for (size_t i = 0; i < KEDGE__PLACE_LEVELS; i++) {
		kedge__fs_list_free(names[i].at, names[i].count);
		kedge__error_done(&names[i].problem);
	}
}

/* L2 may be shared by many jobs: it is asked only if L1 has none, as when that is lost. */
static int only_name(struct kedge__place *p, const struct kedge__usage *u, enum kedge__place_mode mode)
{
	struct kedge__place_names names[KEDGE__PLACE_LEVELS] = KEDGE__PLACE_NAMES_INIT;
	const struct kedge__place_names *from = &names[0];
	int status = kedge__place_names(p, u, mode, names);

	if (!from->count && names[1].count)
		from = &names[1];
	if (status == 0 && from->count == 0) {
		kedge__tool_say(u->command, "store %s has no versions yet", from->store);
		status = KEDGE__EXIT_NOTFOUND;
	} else if (from->count > 1) {
		status = kedge__usage_error(u, "store %s has %zu jobs; choose one with -n NAME ('kedge ls' lists them)",
					    from->store, from->count);
	} else if (status == 0) {
		p->name = p->only_name = kedge__strdup(from->at[0]);
		if (!p->name)
			kedge__tool_no_memory();
	}
	kedge__place_names_done(names);
	return status;
}

/* Versions listed before the pin may be gone by the time it holds: list again. */
static int open_level(const char *path, const char *name, enum kedge__place_mode mode, struct kedge__catalog **out,
		      struct kedge__error *err)
{
	struct kedge__catalog *cat;
	int rc = kedge__catalog_open(path, name, KEDGE__CATALOG_READ, &cat, err);

	if (rc)
		return rc;
	if (mode == KEDGE__PLACE_READ)
		rc = kedge__catalog_pin(cat, err);
	if (rc == 0 && mode == KEDGE__PLACE_READ)
		rc = kedge__catalog_scan(cat, err);
	if (rc)
		kedge__catalog_close(cat);
	else
		*out = cat;
	return rc;
}

/* A missing level matters only if no other level has the name; then the first level's cause is reported.
 */
static int open_levels(struct kedge__place *p, const struct kedge__usage *u, enum kedge__place_mode mode)
{
	struct kedge__error first = KEDGE__ERROR_INIT;
	const char *paths[KEDGE__PLACE_LEVELS];
	unsigned bits[KEDGE__PLACE_LEVELS];
	size_t n = level_paths(p, mode, paths, bits);
	int status = 0;

	for (size_t i = 0; i < n; i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		size_t at = p->level_count;

		if (open_level(paths[i], p->name, mode, &p->levels[at], &err) == 0) {
			p->level_bits[at] = bits[i];
			p->level_count++;
			continue;
		}
		if (n > 1)
			kedge__place_ignore(p, u, bits[i], &err);
		if (i == 0)
			kedge__error_move(&first, &err);
		kedge__error_done(&err);
	}
	if (p->level_count == 0)
		status = kedge__tool_fail(u->command, &first, "cannot open %s in store %s", p->name, paths[0]);
	kedge__error_done(&first);
	return status;
}

int kedge__place_open(struct kedge__place *p, const struct kedge__usage *u, enum kedge__place_mode mode)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = 0;

	kedge__tool_listen(u->command, p->quiet);
	kedge__tool_raise_limits();
	if (kedge__tool_settings(p->store, false, &p->sets, &p->settings, &err) != 0)
		return kedge__tool_fail(u->command, &err, "cannot read the settings");
	if (!p->name)
		status = only_name(p, u, mode);
	return status ? status : open_levels(p, u, mode);
}

void kedge__place_done(struct kedge__place *p)
{
	for (size_t i = 0; i < p->level_count; i++)
		kedge__catalog_close(p->levels[i]);
	p->level_count = 0;
	kedge__array_done(&p->sets);
	kedge__job_settings_done(&p->settings);
	kedge__free(p->only_name);
	p->only_name = NULL;
}

const struct kedge__run *kedge__place_run(const struct kedge__place *p)
{
	const struct kedge__set *head = kedge__history_head(p->levels, p->level_count);

	return head ? &head->run : NULL;
}

/* Of several sets with one number, the one that belongs to the current run. */
const struct kedge__catalog_entry *kedge__place_find(const struct kedge__place *p, uint64_t version)
{
	const struct kedge__run *run = kedge__place_run(p);
	const struct kedge__catalog_entry *found = NULL;

	for (size_t i = 0; i < p->level_count; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_find(p->levels[i], version);

		if (e && e->problem.code == 0 && kedge__history_has(run, &e->set))
			return e;
		if (e && (!found || found->problem.code))
			found = e;
	}
	return found;
}

unsigned kedge__place_levels(const struct kedge__place *p, uint64_t version)
{
	unsigned bits = 0;

	for (size_t i = 0; i < p->level_count; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_find(p->levels[i], version);

		if (e && e->problem.code == 0)
			bits |= p->level_bits[i];
	}
	return bits;
}

static int compare_versions(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Of each level, which entries are there only for others. */
static uint8_t *spare_of(const struct kedge__catalog *cat)
{
	uint8_t *spare = kedge__calloc(kedge__catalog_count(cat) + 1, 1);

	if (!spare || kedge__catalog_spare(cat, spare, NULL) != 0)
		kedge__tool_no_memory();
	return spare;
}

static bool is_wanted(const struct kedge__catalog_entry *e, const struct kedge__run *run, bool spare, unsigned which)
{
	if (e->problem.code)
		return true;
	if (spare && !(which & KEDGE__WITH_SPARE))
		return false;
	return (which & KEDGE__WITH_ABANDONED) || kedge__history_has(run, &e->set);
}

uint64_t *kedge__place_versions(const struct kedge__place *p, unsigned which, size_t *count)
{
	const struct kedge__run *run = kedge__place_run(p);
	KEDGE__ARRAY(uint64_t) list = {0};
	size_t n = 0;

	if (!kedge__array_reserve(&list, 1))
		kedge__tool_no_memory();
	for (size_t l = 0; l < p->level_count; l++) {
		uint8_t *spare = spare_of(p->levels[l]);

		for (size_t i = 0; i < kedge__catalog_count(p->levels[l]); i++) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(p->levels[l], i);

			if (is_wanted(e, run, spare[i], which) && !kedge__array_push(&list, e->version))
				kedge__tool_no_memory();
		}
		kedge__free(spare);
	}
	qsort(list.at, list.count, sizeof(*list.at), compare_versions);
	for (size_t i = 0; i < list.count; i++)
		if (n == 0 || list.at[n - 1] != list.at[i])
			list.at[n++] = list.at[i];
	*count = n;
	return list.at;
}
