/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge ls: the names of a store, or the versions of a name. */
#include "ls.h"
#include "show.h"
#include <errno.h>
#include <sys/stat.h>

struct row {
	uint64_t version, parent, created_ns, raw, stored, literal, metadata;
	uint32_t ranks;
	unsigned levels;
	const char *form[2]; /* on each level, if it is coalesced there */
	const char *reducer;
	double seconds;
	size_t lineage;     /* versions that it needs, itself included */
	const char *status; /* "sealed", "abandoned", "damaged", or "incomplete": a file or a parent is missing */
	char *problem;      /* owned, or NULL */
	const char *why;    /* of the set; NULL: unknown */
	const char *note, *labels;            /* of the set; NULL: none */
	char protect[KEDGE__PROTECTION_TEXT]; /* how it is protected on L1; empty: it is not, or that was not looked for
					       */
};

struct entry {
	char *problem;  /* with its own files; owned, NULL: none */
	bool sealed;    /* nothing is wrong with it and all that it needs; else find_problem() says what is */
	size_t lineage; /* versions that it needs, itself included; if it is sealed */
};

struct ls {
	struct kedge__usage usage;
	struct kedge__place place;
	bool details, all;
	struct entry *entries[2]; /* of each level's catalogue */
};

/* ------------------------------------------------------------------ versions */

static size_t entry_index(const struct kedge__catalog *cat, uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, kedge__catalog_count(cat), kedge__catalog_at(cat, i)->version < version);
	return i;
}

/* With --long: does every segment exist, with its size? `kedge verify` reads them. NULL, or the problem. */
static char *missing_part(const struct kedge__catalog *cat, const struct kedge__set *set)
{
	char *problem = NULL;

	for (uint32_t r = 0; r < set->ranks && !problem; r++) {
		const struct kedge__set_part *part = &set->parts[r];
		uint64_t bytes = 0;
		int failed = kedge__segment_look(cat, set->version, r, part, &bytes);
		char *path;

		if (!failed && bytes == part->file_bytes)
			continue;
		path = kedge__part_path(cat, set->version, r, part);
		if (!path)
			kedge__tool_no_memory();
		if (failed)
			problem = kedge__asprintf("%s: %s", path, strerror(failed));
		else
			problem = kedge__asprintf("%s has %llu bytes instead of %llu", path, (unsigned long long)bytes,
						  (unsigned long long)part->file_bytes);
		kedge__free(path);
	}
	return problem;
}

static char *files_problem(const struct ls *l, const struct kedge__catalog *cat, const struct kedge__catalog_entry *e)
{
	char *path, *problem;

	if (kedge__catalog_has_directory(cat, e->version))
		return l->details ? missing_part(cat, &e->set) : NULL;
	path = kedge__part_path(cat, e->version, 0, &e->set.parts[0]);
	problem = path ? kedge__asprintf("%.*s: %s", (int)(strrchr(path, '/') - path), path, strerror(ENOENT)) : NULL;
	if (!problem)
		kedge__tool_no_memory();
	kedge__free(path);
	return problem;
}

/* What the version is missing on this level, of its own or of those that it needs; NULL: nothing. *N: how many these
 * are. */
static char *find_problem(const struct ls *l, size_t level, uint64_t version, size_t *n)
{
	const struct kedge__catalog *cat = l->place.levels[level];
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint64_t *list = NULL;
	char *found = NULL;

	*n = 0;
	if (kedge__catalog_closure(cat, version, &list, n, &err) != 0)
		found = kedge__strdup(kedge__error_text(&err));
	for (size_t i = 0; i < *n && !found; i++) {
		const char *problem = l->entries[level][entry_index(cat, list[i])].problem;

		found = problem ? kedge__strdup(problem) : NULL;
	}
	kedge__free(list);
	kedge__error_done(&err);
	return found;
}

/* Those that it needs have been through this: most need none, or one. */
static void check_lineage(const struct ls *l, size_t level, size_t i)
{
	const struct kedge__catalog *cat = l->place.levels[level];
	const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);
	struct entry *entries = l->entries[level];
	size_t source = e->set.source_count == 1 ? entry_index(cat, e->set.sources[0]) : i;
	char *problem;

	if (!e->set.source_count) {
		entries[i].lineage = 1;
		entries[i].sealed = !entries[i].problem;
	} else if (source < i && entries[source].sealed &&
		   kedge__catalog_at(cat, source)->version == e->set.sources[0]) {
		entries[i].lineage = 1 + entries[source].lineage;
		entries[i].sealed = !entries[i].problem;
	} else {
		problem = find_problem(l, level, e->version, &entries[i].lineage);
		entries[i].sealed = !problem;
		kedge__free(problem);
	}
}

static void check_level(struct ls *l, size_t level)
{
	const struct kedge__catalog *cat = l->place.levels[level];
	struct entry *entries;
	size_t n = kedge__catalog_count(cat);

	entries = l->entries[level] = kedge__calloc(n + 1, sizeof(*entries));
	if (!entries)
		kedge__tool_no_memory();
	for (size_t i = 0; i < n; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);

		if (e->problem.code)
			continue;
		entries[i].problem = files_problem(l, cat, e);
		check_lineage(l, level, i);
	}
}

static void free_level(struct ls *l, size_t level)
{
	for (size_t i = 0; l->entries[level] && i < kedge__catalog_count(l->place.levels[level]); i++)
		kedge__free(l->entries[level][i].problem);
	kedge__free(l->entries[level]);
}

static void row_status(const struct ls *l, struct row *row, const struct kedge__catalog_entry *e)
{
	if (e->problem.code) {
		row->status = "damaged";
		row->problem = kedge__strdup(kedge__error_text(&e->problem));
		return;
	}
	if (!kedge__history_has(kedge__place_run(&l->place), &e->set)) {
		row->status = "abandoned";
		row->problem = kedge__strdup("the job restarted from an older version");
		return;
	}
	row->status = "incomplete";
	for (size_t i = 0; i < l->place.level_count; i++) {
		const struct kedge__catalog *cat = l->place.levels[i];
		size_t at = entry_index(cat, row->version);

		if (at == kedge__catalog_count(cat) || kedge__catalog_at(cat, at)->version != row->version)
			continue;
		kedge__free(row->problem);
		row->problem = NULL;
		if (l->entries[i][at].sealed) {
			row->status = "sealed";
			row->lineage = l->entries[i][at].lineage;
			return;
		}
		row->problem = find_problem(l, i, row->version, &row->lineage);
	}
}

/* The form that coalescing gave it on each level; the last level's reason includes those before it. */
static void row_forms(const struct ls *l, struct row *row, const struct kedge__set *first)
{
	for (size_t i = 0; i < l->place.level_count && i < 2; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_find(l->place.levels[i], row->version);

		if (!e || e->problem.code || !kedge__digest_equal(e->set.parts[0].image_id, first->parts[0].image_id))
			continue;
		if (e->set.why)
			row->why = e->set.why;
		if (e->set.reducer == KEDGE__REDUCER_MERGED)
			row->form[i] = e->set.source_count ? "delta" : "self-contained";
	}
}

/* By the first shield that is here: other ranks' may be on other nodes. */
static void row_protect(const struct ls *l, struct row *row)
{
	const struct kedge__catalog *cat = l->place.level_count ? l->place.levels[0] : NULL;
	const struct kedge__catalog_entry *e = cat ? kedge__catalog_find(cat, row->version) : NULL;
	struct kedge__shield_file f = {.fd = -1};

	for (uint32_t r = 0; e && !e->problem.code && r < e->set.ranks && !row->protect[0]; r++) {
		char *path = kedge__shield_path(cat, row->version, r, e->set.parts[r].generation);

		if (!path)
			kedge__tool_no_memory();
		if (kedge__shield_open(path, &f, NULL) == 0 && kedge__shield_fits(&f.shield, &e->set, r))
			kedge__protection_text(f.shield.scheme, f.shield.members, f.shield.parity, row->protect);
		kedge__shield_close(&f);
		kedge__free(path);
	}
}

static void row_init(const struct ls *l, struct row *row, uint64_t version)
{
	const struct kedge__catalog_entry *e = kedge__place_find(&l->place, version);
	const struct kedge__set *set = &e->set;
	struct kedge__set_sizes sizes;

	memset(row, 0, sizeof(*row));
	row->version = version;
	row->parent = KEDGE__NO_VERSION;
	row->levels = kedge__place_levels(&l->place, version);
	row_status(l, row, e);
	if (e->problem.code)
		return;
	row->parent = kedge__set_refers(set);
	row->note = set->note;
	row->labels = set->labels;
	row->created_ns = set->created_ns;
	row->ranks = set->ranks;
	row->seconds = set->seconds;
	row_forms(l, row, set);
	if (l->details || l->place.json)
		row_protect(l, row);
	row->reducer = kedge__reducer_name((enum kedge__reducer_id)set->reducer);
	sizes = kedge__set_sizes(set);
	row->raw = sizes.raw;
	row->stored = e->file.bytes + sizes.stored;
	row->literal = sizes.literal;
	row->metadata = sizes.metadata;
}

static json_t *row_json(const struct row *row)
{
	json_t *o = kedge__json_object(), *levels = kedge__json_array(), *coalesced = kedge__json_array();
	char time[KEDGE__TEXT_ROOM];

	for (int i = 0; i < 2; i++)
		if (row->levels & (1u << i))
			kedge__json_add(levels, json_integer(i + 1));
	kedge__json_uint(o, "version", row->version);
	kedge__json_text(o, "status", row->status);
	kedge__json_text(o, "problem", row->problem);
	for (int i = 0; i < 2; i++)
		if (row->form[i])
			kedge__json_add(coalesced, json_integer(i + 1));
	kedge__json_set(o, "levels", levels);
	kedge__json_set(o, "coalesced", coalesced);
	kedge__json_text(o, "created", row->created_ns ? kedge__text_time_iso(row->created_ns, time) : NULL);
	kedge__json_uint(o, "created_ns", row->created_ns);
	kedge__json_uint(o, "ranks", row->ranks);
	kedge__json_text(o, "reducer", row->reducer);
	kedge__json_version(o, "parent", row->parent);
	kedge__json_uint(o, "lineage", row->lineage);
	kedge__json_uint(o, "raw_bytes", row->raw);
	kedge__json_uint(o, "stored_bytes", row->stored);
	kedge__json_uint(o, "literal_bytes", row->literal);
	kedge__json_uint(o, "metadata_bytes", row->metadata);
	kedge__json_real(o, "seconds", row->seconds);
	kedge__json_text(o, "why", row->why);
	kedge__json_text(o, "note", row->note);
	kedge__json_text(o, "labels", row->labels);
	kedge__json_text(o, "protect", row->protect[0] ? row->protect : NULL);
	return o;
}

/* "L1+xor:4 L2:delta": on both, protected on the first one, coalesced on the second one. With one store there is no
 * need to say where, and which level it is nobody knows: only the form is said. */
static void levels_text(const struct ls *l, const struct row *row, char out[KEDGE__TEXT_ROOM])
{
	size_t used = 0;

	if (l->place.level_count == 1) {
		snprintf(out, KEDGE__TEXT_ROOM, "%s%s%s",
			 !row->reducer                      ? "?"
			 : row->form[0]                     ? row->form[0]
			 : row->parent == KEDGE__NO_VERSION ? "self-contained"
							    : "changes",
			 row->protect[0] ? "+" : "", row->protect);
		return;
	}
	snprintf(out, KEDGE__TEXT_ROOM, "-");
	for (int i = 0; i < 2; i++) {
		if (!(row->levels & (1u << i)))
			continue;
		used += (size_t)snprintf(out + used, KEDGE__TEXT_ROOM - used, "%sL%d%s%s%s%s", used ? " " : "", i + 1,
					 row->form[i] ? ":" : "", row->form[i] ? row->form[i] : "",
					 !i && row->protect[0] ? "+" : "", i ? "" : row->protect);
	}
}

static void bytes_text(const struct row *row, uint64_t bytes, struct kedge__table *t)
{
	char a[KEDGE__TEXT_ROOM];

	kedge__table_text(t, row->reducer ? kedge__text_bytes(bytes, a) : "?");
}

static void number_text(const struct row *row, uint64_t number, struct kedge__table *t)
{
	if (row->reducer)
		kedge__table_number(t, number);
	else
		kedge__table_text(t, "?");
}

/* Of a version whose manifest cannot be read, nothing is known but its number. */
static void row_text(const struct ls *l, const struct row *row, bool details, struct kedge__table *t)
{
	char a[KEDGE__TEXT_ROOM];

	kedge__table_number(t, row->version);
	kedge__table_text(t, row->created_ns ? kedge__text_time(row->created_ns, a) : "?");
	number_text(row, row->ranks, t);
	kedge__table_text(t, row->reducer ? row->reducer : "?");
	bytes_text(row, row->raw, t);
	bytes_text(row, row->stored, t);
	kedge__table_text(t, row->reducer ? kedge__text_ratio(row->raw, row->stored, a) : "?");
	if (row->reducer && row->parent == KEDGE__NO_VERSION)
		kedge__table_text(t, "-");
	else
		number_text(row, row->parent, t);
	number_text(row, row->lineage, t);
	levels_text(l, row, a);
	kedge__table_text(t, a);
	if (details) {
		bytes_text(row, row->literal, t);
		bytes_text(row, row->metadata, t);
		kedge__table_text(t, row->reducer ? kedge__text_seconds(row->seconds, a) : "?");
	}
	if (details && row->problem)
		kedge__table_add(t, "%s: %s", row->status, row->problem);
	else
		kedge__table_text(t, row->status);
	if (details)
		kedge__table_text(t, row->why ? row->why : "-");
}

static void print_table(const struct ls *l, const struct row *rows, size_t n)
{
	const char *const heads[] = {
	    "VERSION", "TIME",  "RANKS",  "REDUCER", "RAW",
	    "STORED",  "RATIO", "PARENT", "LINEAGE", l->place.level_count == 1 ? "FORM" : "LEVELS"};
	bool details = l->details;
	struct kedge__table t;

	kedge__table_init(&t, details ? "rlrlrrrrrlrrrll" : "rlrlrrrrrll");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_add(&t, "%s", heads[i]);
	if (details) {
		kedge__table_add(&t, "LITERAL");
		kedge__table_add(&t, "METADATA");
		kedge__table_add(&t, "BLOCKED");
	}
	kedge__table_add(&t, "STATUS");
	if (details)
		kedge__table_add(&t, "WHY");
	for (size_t i = 0; i < n; i++)
		row_text(l, &rows[i], details, &t);
	kedge__table_print(&t, stdout);
}

static void print_versions(const struct ls *l, const struct row *rows, size_t n, size_t spare)
{
	uint64_t stored = 0;
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM];
	json_t *o, *list;

	if (l->place.quiet && !l->place.json) {
		for (size_t i = 0; i < n; i++)
			printf("%llu\n", (unsigned long long)rows[i].version);
		return;
	}
	for (size_t i = 0; i < l->place.level_count; i++)
		stored += kedge__ls_job_bytes(l->place.levels[i]);
	if (!l->place.json) {
		print_table(l, rows, n);
		kedge__print(stdout, "%s of %s, %s in all its files",
			     kedge__text_count(n - (l->all ? spare : 0), "version", "versions", b), l->place.name,
			     kedge__text_bytes(stored, a));
		if (spare)
			kedge__print(stdout, "; %s for what these need of them%s",
				     kedge__text_count(spare, "older one stays", "older ones stay", b),
				     l->all ? "" : " (--all lists them)");
		kedge__print(stdout, "\n");
		return;
	}
	o = kedge__json_object();
	list = kedge__json_array();
	for (size_t i = 0; i < n; i++)
		kedge__json_add(list, row_json(&rows[i]));
	kedge__json_uint(o, "total_bytes", stored);
	kedge__json_uint(o, "needed", spare);
	kedge__json_text(o, "store", l->place.settings.l1);
	kedge__json_text(o, "name", l->place.name);
	kedge__json_set(o, "versions", list);
	kedge__json_print(o);
}

/* Those that are there only because the others refer to them. */
static size_t spare_count(const struct ls *l, size_t kept)
{
	size_t n;

	kedge__free(kedge__place_versions(&l->place, KEDGE__WITH_ABANDONED | KEDGE__WITH_SPARE, &n));
	return n - kept;
}

static int list_versions(struct ls *l)
{
	int status = kedge__place_open(&l->place, &l->usage, KEDGE__PLACE_READ);
	uint64_t *versions, *kept;
	size_t n, kept_count, at = 0;
	struct row *rows;

	if (status)
		return status;
	for (size_t i = 0; i < l->place.level_count; i++)
		check_level(l, i);
	kept = kedge__place_versions(&l->place, KEDGE__WITH_ABANDONED, &kept_count);
	versions = kedge__place_versions(&l->place, KEDGE__WITH_ABANDONED | (l->all ? KEDGE__WITH_SPARE : 0u), &n);
	rows = kedge__calloc(n + 1, sizeof(*rows));
	if (!rows)
		kedge__tool_no_memory();
	for (size_t i = 0; i < n; i++) {
		row_init(l, &rows[i], versions[i]);
		if (at < kept_count && kept[at] == versions[i])
			at++;
		else if (strcmp(rows[i].status, "sealed") == 0)
			rows[i].status = "needed";
	}
	print_versions(l, rows, n, spare_count(l, kept_count));
	for (size_t i = 0; i < n; i++)
		kedge__free(rows[i].problem);
	kedge__free(rows);
	kedge__free(versions);
	kedge__free(kept);
	return KEDGE__EXIT_OK;
}

static int list(struct ls *l)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status;

	if (l->place.name)
		return list_versions(l);
	if (kedge__tool_settings(l->place.store, false, &l->place.sets, &l->place.settings, &err) != 0)
		return kedge__tool_fail(l->usage.command, &err, "cannot read the settings");
	status = kedge__ls_names(&l->place, &l->usage);
	if (status || !l->place.only_name)
		return status;
	kedge__job_settings_done(&l->place.settings);
	l->place.name = l->place.only_name;
	return list_versions(l);
}

/* A pack has one version: of interest are its files. */
static int list_pack(struct ls *l)
{
	struct kedge__show s = {.usage = l->usage};
	int status = kedge__place_open(&l->place, &l->usage, KEDGE__PLACE_READ);

	if (status == 0)
		status = kedge__place_version(&l->place, &l->usage, NULL, &s.version);
	s.place = l->place;
	return status ? status : kedge__show_files(&s);
}

int kedge__tool_ls(int argc, char **argv)
{
	struct ls l = {0};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&l.place.store),
	    {"name", 'n', KEDGE__OPTION_TEXT, &l.place.name, "NAME",
	     "list the versions of this job (default: of the only one, or list the jobs)"},
	    {"long", 'l', KEDGE__OPTION_FLAG, &l.details, NULL,
	     "look for every file; also new bytes, metadata, blocked time, problems, and why each version was taken"},
	    {"all", 'a', KEDGE__OPTION_FLAG, &l.all, NULL,
	     "list versions as well that are there only because those to keep refer to them"},
	    KEDGE__OPTION_L2(&l.place.l2),
	    KEDGE__OPTION_SET(&l.place.sets),
	    KEDGE__OPTION_JSON(&l.place.json),
	    {"quiet", 'q', KEDGE__OPTION_FLAG, &l.place.quiet, NULL,
	     "print only numbers of versions, or without -n names of jobs, one per line"},
	};
	int first, status;

	l.usage = (struct kedge__usage){
	    .command = "kedge ls",
	    .operands = "[PACK]",
	    .about =
		"Lists the jobs in a store: how many versions they have, the time of the newest one, and what they "
		"take.\n"
		"With -n, or if there is only one job, lists its versions: time, ranks, reducer, bytes of the regions "
		"(RAW) and\n"
		"of the files (STORED), their ratio, the version that it is stored as changes to (PARENT), how many "
		"versions a\n"
		"restore reads (LINEAGE), and its form, or with two levels where it is. 'kedge log' shows notes and "
		"labels.\n"
		"A version is incomplete if one that it needs is missing or has no files; with -l also if any file "
		"that "
		"it\n"
		"needs is missing or has the wrong size. 'kedge verify' reads every byte.\n"
		"With a PACK, as 'kedge pack' makes them, lists the files in it.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge ls -s store -n job\n"
		       "kedge ls run12.kpk",
	};
	if (kedge__options_parse(&l.usage, argc, argv, &first, &status)) {
		status = kedge__place_pack(&l.place, &l.usage, argc, argv, first);
		if (status == 0)
			status = l.place.pack ? list_pack(&l) : list(&l);
	}
	for (size_t i = 0; i < l.place.level_count; i++)
		free_level(&l, i);
	kedge__place_done(&l.place);
	return status;
}
