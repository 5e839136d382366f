/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge coalesce: merges into a version those that it depends on. */
#include "tool.h"

struct coalesce {
	struct kedge__usage usage;
	struct kedge__place place;
	const char *range;
	char *wanted[2];   /* FROM and TO as written; NULL: not given */
	uint64_t from, to; /* KEDGE__NO_VERSION: not given */
	bool self_contained, keep_old;
};

static int parse_range(struct coalesce *c)
{
	const char *dots = strstr(c->range, "..");

	c->wanted[1] = kedge__strdup(dots ? dots + 2 : c->range);
	c->wanted[0] = dots ? kedge__asprintf("%.*s", (int)(dots - c->range), c->range) : NULL;
	if (!c->wanted[1] || (dots && !c->wanted[0]))
		kedge__tool_no_memory();
	if (!kedge__version_valid(c->wanted[1]) || (dots && !kedge__version_valid(c->wanted[0])))
		return kedge__usage_error(&c->usage, "-v must be TO, or FROM..TO with FROM below TO, not '%s'",
					  c->range);
	if (dots && c->self_contained)
		return kedge__usage_error(&c->usage,
					  "--self-contained merges all versions and cannot be combined with FROM");
	return 0;
}

static int choose_range(struct coalesce *c)
{
	const struct kedge__catalog_entry *e;
	int status = kedge__place_choose(&c->place, &c->usage, c->wanted[1], &c->to, &e);

	if (!status && c->wanted[0])
		status = kedge__place_version(&c->place, &c->usage, c->wanted[0], &c->from);
	if (!status && c->wanted[0] && c->from >= c->to)
		status =
		    kedge__usage_error(&c->usage, "-v must be TO, or FROM..TO with FROM below TO, not '%s'", c->range);
	return status;
}

/* Without FROM and --self-contained: all but the oldest version that TO needs. */
static int choose_from(struct coalesce *c, uint64_t *from)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint64_t *list;
	size_t n;

	if (c->self_contained || c->from != KEDGE__NO_VERSION) {
		*from = c->self_contained ? 0 : c->from;
		return 0;
	}
	if (kedge__catalog_closure(c->place.levels[0], c->to, &list, &n, &err) != 0)
		return kedge__tool_fail(c->usage.command, &err, "cannot coalesce version %llu of %s",
					(unsigned long long)c->to, c->place.name);
	*from = n > 1 ? list[1] : c->to;
	kedge__free(list);
	return 0;
}

static void print_text(const struct coalesce *c, const struct kedge__coalesce_report *r)
{
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM];

	printf("version %llu of %s: %s removed", (unsigned long long)c->to, c->place.name,
	       kedge__text_count(r->versions_removed, "version", "versions", a));
	if (r->versions_kept_for_lineage)
		printf(", %zu kept because others need %s", r->versions_kept_for_lineage,
		       r->versions_kept_for_lineage == 1 ? "it" : "them");
	printf("; store size changed from %s to %s\n", kedge__text_bytes(r->bytes_before, a),
	       kedge__text_bytes(r->bytes_after, b));
}

static void print_result(const struct coalesce *c, uint64_t from, const struct kedge__coalesce_report *r)
{
	json_t *o;

	if (!c->place.json) {
		if (!c->place.quiet)
			print_text(c, r);
		return;
	}
	o = kedge__json_object();
	kedge__json_text(o, "name", c->place.name);
	kedge__json_uint(o, "version", c->to);
	kedge__json_uint(o, "from", from);
	kedge__json_bool(o, "self_contained", c->self_contained);
	kedge__json_uint(o, "bytes_before", r->bytes_before);
	kedge__json_uint(o, "bytes_after", r->bytes_after);
	kedge__json_uint(o, "versions_removed", r->versions_removed);
	kedge__json_uint(o, "versions_kept_for_lineage", r->versions_kept_for_lineage);
	kedge__json_print(o);
}

static int merge(struct coalesce *c, uint64_t from)
{
	const struct kedge__job_settings *s = &c->place.settings;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__coalesce_report report = {0};
	struct kedge__pool *pool = NULL;
	struct kedge__bar bar;
	struct kedge__coalesce_options o = {.version = c->to,
					    .from = from,
					    .keep_old = c->keep_old,
					    .sync = s->sync,
					    .io = kedge__job_settings_io(s),
					    .block_bytes = (uint32_t)s->block,
					    .progress = kedge__bar_update,
					    .progress_ctx = &bar};
	int rc = kedge__codec_choice_parse(s->codec, &o.codec, &err);

	if (rc == 0)
		rc = kedge__tool_pool(s, &pool, &err);
	o.codec.target = (double)s->codec_rate / kedge__pool_threads(pool);
	o.codec.pace = s->codec_timed ? NULL : kedge__codec_pace_built_in;
	kedge__tool_interruptible(c->usage.command, "every version is still whole");
	kedge__bar_init(&bar, "coalesce", !c->place.json && !c->place.quiet);
	if (rc == 0)
		rc = kedge__coalesce(c->place.levels[0], pool, &o, &report, &err);
	kedge__bar_done(&bar);
	kedge__pool_free(pool);
	if (rc)
		return kedge__tool_fail(c->usage.command, &err, "cannot coalesce version %llu of %s",
					(unsigned long long)c->to, c->place.name);
	print_result(c, from, &report);
	return KEDGE__EXIT_OK;
}

static int coalesce(struct coalesce *c)
{
	uint64_t from = 0;
	int status = c->range ? parse_range(c) : 0;

	if (status == 0)
		status = kedge__place_open(&c->place, &c->usage, KEDGE__PLACE_FIRST);
	if (status == 0)
		status = choose_range(c);
	if (status == 0)
		status = choose_from(c, &from);
	return status ? status : merge(c, from);
}

int kedge__tool_coalesce(int argc, char **argv)
{
	struct coalesce c = {.from = KEDGE__NO_VERSION, .to = KEDGE__NO_VERSION};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&c.place.store),
	    KEDGE__OPTION_NAME(&c.place.name),
	    {"version", 'v', KEDGE__OPTION_TEXT, &c.range, "[FROM..]TO",
	     "merge the versions from FROM on into TO (default for TO: the newest;\nfor FROM: the second oldest that "
	     "TO "
	     "needs, so that TO still needs the oldest)"},
	    {"self-contained", 0, KEDGE__OPTION_FLAG, &c.self_contained, NULL,
	     "merge all versions that TO needs, so that it needs none"},
	    {"keep-old", 0, KEDGE__OPTION_FLAG, &c.keep_old, NULL, "do not remove the versions that were merged"},
	    KEDGE__OPTION_SET(&c.place.sets),
	    KEDGE__OPTION_JSON(&c.place.json),
	    KEDGE__OPTION_QUIET(&c.place.quiet),
	};
	int first, status;

	c.usage = (struct kedge__usage){
	    .command = "kedge coalesce",
	    .about =
		"Rewrites version TO of NAME so that it no longer needs the versions from FROM up to it, and "
		"removes those\n"
		"that no other version needs. The old form stays valid until the new one is durable. Safe while a job\n"
		"is running.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge coalesce -s store -n job --self-contained",
	};
	if (kedge__options_parse(&c.usage, argc, argv, &first, &status))
		status = coalesce(&c);
	kedge__free(c.wanted[0]);
	kedge__free(c.wanted[1]);
	kedge__place_done(&c.place);
	return status;
}
