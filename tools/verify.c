/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge verify: every stored byte, and every version put together. */
#include "tool.h"

struct verify {
	struct kedge__usage usage;
	struct kedge__place place;
	const char *wanted; /* NULL: all versions */
	bool quick;
	double seconds;
	struct kedge__pool *pool;
	struct kedge__bar bar;
	json_t *findings, *strays, *lost;
	struct kedge__verify_report total;
};

/* Whole-file findings have no rank, and those that belong to no set no version. */
static bool has_rank(const struct kedge__finding *f)
{
	return !f->section ||
	       (strcmp(f->section, "manifest") && strcmp(f->section, "marker") && strcmp(f->section, "stray"));
}

static bool has_version(const struct kedge__finding *f)
{
	return has_rank(f) || strcmp(f->section, "manifest") == 0;
}

static json_t *finding_json(const struct verify *v, const struct kedge__finding *f)
{
	json_t *o = kedge__json_object();

	kedge__json_text(o, "name", v->place.name);
	kedge__json_version(o, "version", has_version(f) ? f->version : KEDGE__NO_VERSION);
	kedge__json_set(o, "rank", has_rank(f) ? json_integer(f->rank) : json_null());
	kedge__json_text(o, "file", f->file);
	kedge__json_set(o, "block", f->block < 0 ? json_null() : json_integer(f->block));
	kedge__json_text(o, "section", f->section);
	kedge__json_text(o, "region", f->region);
	kedge__json_text(o, "text", f->text);
	return o;
}

static void print_finding(const struct verify *v, const struct kedge__finding *f)
{
	char *region = f->region ? kedge__text_name(f->region) : NULL;

	printf("damaged: ");
	if (has_version(f))
		printf("version %llu, ", (unsigned long long)f->version);
	if (has_rank(f))
		printf("%s %u, ", kedge__levels_unit(v->place.levels, v->place.level_count, f->version), f->rank);
	kedge__print(stdout, "%s", f->file);
	if (f->block >= 0)
		printf(", block %lld", (long long)f->block);
	if (f->section)
		printf(", %s", f->section);
	if (region)
		printf(", region '%s'", region);
	kedge__print(stdout, ": %s\n", f->text);
	kedge__free(region);
}

/* Stray files are reported, but not as damage. */
static void found(void *ctx, const struct kedge__finding *f)
{
	struct verify *v = ctx;
	bool stray = f->section && strcmp(f->section, "stray") == 0;

	kedge__bar_wipe(&v->bar);
	if (v->place.json)
		kedge__json_add(stray ? v->strays : v->findings, finding_json(v, f));
	else if (!stray)
		print_finding(v, f);
	else if (!v->place.quiet)
		kedge__print(stdout, "stray: %s: %s\n", f->file, f->text);
}

static void progress(void *ctx, uint64_t done, uint64_t total)
{
	struct verify *v = ctx;

	kedge__bar_update(&v->bar, done, total);
}

static void add_lost(struct verify *v, const struct kedge__verify_report *r)
{
	bool pack = kedge__pack_is_at(v->place.settings.l1);

	for (size_t i = 0; i < r->versions_lost; i++) {
		json_t *o = kedge__json_object();

		kedge__json_text(o, "name", v->place.name);
		kedge__json_uint(o, "version", r->lost[i]);
		kedge__json_add(v->lost, o);
		if (!v->place.json && !pack)
			printf("lost: version %llu of %s cannot be restored from this store\n",
			       (unsigned long long)r->lost[i], v->place.name);
	}
	if (!r->versions_lost || v->place.json || v->quick)
		return;
	if (pack)
		kedge__print(stdout, "lost: not all files of %s can be had; 'kedge unpack' brings the others\n",
			     v->place.settings.l1);
	else if (r->newest_intact == KEDGE__NO_VERSION)
		printf("none of the checked versions of %s can be restored from this store; another level may have "
		       "them\n",
		       v->place.name);
	else
		printf("the newest version of %s that can be restored is %llu: kedge restore -v %llu\n", v->place.name,
		       (unsigned long long)r->newest_intact, (unsigned long long)r->newest_intact);
}

static void add_report(struct verify *v, const struct kedge__verify_report *r)
{
	v->total.bytes_checked += r->bytes_checked;
	v->total.sets += r->sets;
	v->total.segments += r->segments;
	v->total.blocks += r->blocks;
	v->total.blocks_unpacked += r->blocks_unpacked;
	v->total.findings += r->findings;
	v->total.versions_intact += r->versions_intact;
	v->total.versions_lost += r->versions_lost;
}

static int verify_open(struct verify *v)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__verify_report report = {0};
	struct kedge__verify_options options = {
	    .version = KEDGE__NO_VERSION, .quick = v->quick, .found = found, .progress = progress, .ctx = v};
	double start = kedge__clock_seconds();
	int status = v->wanted ? kedge__place_version(&v->place, &v->usage, v->wanted, &options.version) : 0;

	if (status)
		return status;
	kedge__tool_interruptible(v->usage.command, "not everything was checked");
	kedge__bar_init(&v->bar, "verify", !v->place.json && !v->place.quiet);
	if (kedge__verify_with(v->place.levels[0], v->pool, &options, &report, &err) != 0) {
		kedge__bar_done(&v->bar);
		return kedge__tool_fail(v->usage.command, &err, "cannot verify %s", v->place.name);
	}
	kedge__bar_done(&v->bar);
	v->seconds += kedge__clock_seconds() - start;
	add_lost(v, &report);
	add_report(v, &report);
	kedge__verify_report_done(&report);
	return KEDGE__EXIT_OK;
}

/* One name, with a separate place, so that a store is verified name by name. */
static int verify_name(struct verify *v, const char *name)
{
	struct kedge__place all = v->place;
	int status;

	v->place = (struct kedge__place){
	    .store = all.store, .name = name, .sets = all.sets, .json = all.json, .quiet = all.quiet};
	status = kedge__place_open(&v->place, &v->usage, KEDGE__PLACE_FIRST);
	if (status == 0)
		status = verify_open(v);
	v->place.sets = (struct kedge__text_list){0};
	kedge__place_done(&v->place);
	v->place = all;
	return status;
}

static int verify_all(struct verify *v)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = KEDGE__EXIT_OK;
	char **names;
	size_t n;

	status = kedge__store_check(&v->usage, v->place.settings.l1);
	if (status)
		return status;
	if (kedge__store_names(v->place.settings.l1, &names, &n, &err) != 0)
		return kedge__tool_fail(v->usage.command, &err, "cannot read %s %s",
					kedge__pack_is_at(v->place.settings.l1) ? "pack" : "store",
					v->place.settings.l1);
	if (n == 0) {
		kedge__tool_say(v->usage.command, "store %s has no versions yet", v->place.settings.l1);
		status = KEDGE__EXIT_NOTFOUND;
	}
	for (size_t i = 0; i < n; i++) {
		int one = verify_name(v, names[i]);

		status = status ? status : one;
	}
	kedge__fs_list_free(names, n);
	return status;
}

static void print_summary(const struct verify *v)
{
	const struct kedge__verify_report *t = &v->total;
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM], c[KEDGE__TEXT_ROOM], d[KEDGE__TEXT_ROOM], e[KEDGE__TEXT_ROOM];

	printf("%s in %s and %s checked in %s, %.0f MB/s: %s found; versions that %s: %zu, lost: %zu\n",
	       kedge__text_bytes(t->bytes_checked, a), kedge__text_count(t->segments, "segment", "segments", b),
	       kedge__text_count(t->blocks, "block", "blocks", c), kedge__text_seconds(v->seconds, d),
	       v->seconds > 0 ? (double)t->bytes_checked / v->seconds / 1e6 : 0,
	       t->findings ? kedge__text_count(t->findings, "damaged place", "damaged places", e) : "no damage",
	       v->quick ? "have all their stored bytes" : "can be restored", t->versions_intact, t->versions_lost);
	if (v->quick)
		printf(
		    "--quick: only stored bytes were checked; run kedge verify without --quick to check that they give "
		    "what was saved\n");
}

static void print_result(struct verify *v)
{
	const struct kedge__verify_report *t = &v->total;
	json_t *o;

	if (!v->place.json) {
		if (!v->place.quiet)
			print_summary(v);
		return;
	}
	o = kedge__json_object();
	kedge__json_bool(o, "intact", t->findings == 0 && t->versions_lost == 0);
	kedge__json_bool(o, "quick", v->quick);
	kedge__json_uint(o, "bytes_checked", t->bytes_checked);
	kedge__json_real(o, "seconds", v->seconds);
	kedge__json_uint(o, "sets", t->sets);
	kedge__json_uint(o, "segments", t->segments);
	kedge__json_uint(o, "blocks", t->blocks);
	kedge__json_uint(o, "blocks_unpacked", t->blocks_unpacked);
	kedge__json_uint(o, "versions_intact", t->versions_intact);
	kedge__json_uint(o, "versions_lost", t->versions_lost);
	kedge__json_set(o, "lost", json_incref(v->lost));
	kedge__json_set(o, "findings", json_incref(v->findings));
	kedge__json_set(o, "strays", json_incref(v->strays));
	kedge__json_print(o);
}

static int verify(struct verify *v)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status;

	if (kedge__tool_settings(v->place.store, false, &v->place.sets, &v->place.settings, &err) != 0)
		return kedge__tool_fail(v->usage.command, &err, "cannot read the settings");
	if (kedge__tool_pool(&v->place.settings, &v->pool, &err) != 0)
		return kedge__tool_fail(v->usage.command, &err, "cannot start threads");
	status = v->place.name ? verify_name(v, v->place.name) : verify_all(v);
	if (status)
		return status;
	print_result(v);
	return v->total.findings || v->total.versions_lost ? KEDGE__EXIT_NO : KEDGE__EXIT_OK;
}

int kedge__tool_verify(int argc, char **argv)
{
	struct verify v = {0};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&v.place.store),
	    {"name", 'n', KEDGE__OPTION_TEXT, &v.place.name, "NAME",
	     "the name to check (default: all names of the store)"},
	    KEDGE__OPTION_CHOOSE(&v.wanted, "only this version and those that it needs; default: all"),
	    {"quick", 0, KEDGE__OPTION_FLAG, &v.quick, NULL,
	     "check stored bytes only, not whether they give what was saved"},
	    KEDGE__OPTION_SET(&v.place.sets),
	    KEDGE__OPTION_JSON(&v.place.json),
	    {"quiet", 'q', KEDGE__OPTION_FLAG, &v.place.quiet, NULL, "print damage only"},
	};
	int first, status;

	v.usage = (struct kedge__usage){
	    .command = "kedge verify",
	    .operands = "[PACK]",
	    .about =
		"Reads every byte of every file once (marker, manifests, segments, blocks) and checks for every "
		"version\n"
		"whether a restore would give what was saved. Prints each damaged place with its segment, block and\n"
		"region, then the versions lost because of it. Exits with 1 if there is any damage.\n"
		"PACK is a file that 'kedge pack' made.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge verify -s store -n job",
	};
	v.findings = kedge__json_array();
	v.strays = kedge__json_array();
	v.lost = kedge__json_array();
	if (kedge__options_parse(&v.usage, argc, argv, &first, &status)) {
		status = kedge__place_pack(&v.place, &v.usage, argc, argv, first);
		status = status ? status : verify(&v);
	}
	kedge__pool_free(v.pool);
	kedge__place_done(&v.place);
	json_decref(v.findings);
	json_decref(v.strays);
	json_decref(v.lost);
	return status;
}
