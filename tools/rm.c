/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge rm: remove versions, or a job. */
#include "tool.h"
#include <stdlib.h>

struct removal {
	struct kedge__usage usage;
	struct kedge__place place;
	char **wanted; /* as written */
	size_t count;
	bool all, force;
	uint64_t *versions;
	size_t rewritten;
	struct kedge__pool *pool;
	struct kedge__bar bar;
};

static int remove_one(struct removal *r, size_t level, uint64_t version, struct kedge__error *err)
{
	const struct kedge__job_settings *s = &r->place.settings;
	struct kedge__coalesce_options how = {.sync = s->sync,
					      .io = kedge__job_settings_io(s),
					      .block_bytes = (uint32_t)s->block,
					      .progress = kedge__bar_update,
					      .progress_ctx = &r->bar};
	size_t rewritten = 0;
	int rc = kedge__codec_choice_parse(s->codec, &how.codec, err);

	if (!rc)
		rc = kedge__version_remove(r->place.levels[level], r->pool, &how, version, &rewritten, err);
	r->rewritten += rewritten;
	return rc;
}

/* The newest first: what it alone needs is then rewritten for nobody. */
static int remove_versions(struct removal *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	for (size_t i = r->count; i-- > 0;) {
		for (size_t l = 0; l < r->place.level_count; l++) {
			if (!kedge__catalog_find(r->place.levels[l], r->versions[i]))
				continue;
			if (remove_one(r, l, r->versions[i], &err) != 0) {
				kedge__bar_wipe(&r->bar);
				return kedge__tool_fail(r->usage.command, &err,
							"cannot remove version %llu of %s from %s",
							(unsigned long long)r->versions[i], r->place.name,
							kedge__catalog_store(r->place.levels[l]));
			}
		}
	}
	return 0;
}

static int remove_job(struct removal *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	for (size_t l = 0; l < r->place.level_count; l++)
		if (kedge__catalog_destroy(r->place.levels[l], &err) != 0)
			return kedge__tool_fail(r->usage.command, &err, "cannot remove %s from %s", r->place.name,
						kedge__catalog_store(r->place.levels[l]));
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* All of them before any goes: newest~1 means what it meant when it was typed. */
static int choose(struct removal *r)
{
	size_t n = 0;
	int status = 0;

	r->versions = kedge__calloc(r->count + 1, sizeof(*r->versions));
	if (!r->versions)
		kedge__tool_no_memory();
	for (size_t i = 0; i < r->count && !status; i++)
		status = kedge__place_version(&r->place, &r->usage, r->wanted[i], &r->versions[i]);
	if (status)
		return status;
	qsort(r->versions, r->count, sizeof(*r->versions), compare);
	for (size_t i = 0; i < r->count; i++)
		if (n == 0 || r->versions[n - 1] != r->versions[i])
			r->versions[n++] = r->versions[i];
	r->count = n;
	return 0;
}

/* A label is put on what is to stay. */
static int refuse_labelled(const struct removal *r)
{
	for (size_t i = 0; i < r->count; i++) {
		for (size_t l = 0; l < r->place.level_count; l++) {
			const struct kedge__catalog_entry *e = kedge__catalog_find(r->place.levels[l], r->versions[i]);

			if (!e || e->problem.code || !e->set.labels)
				continue;
			kedge__tool_say(r->usage.command,
					"nothing was removed: version %llu of %s has the label%s %s, which keeps it; "
					"--force removes it all the same, 'kedge tag -d' only the label",
					(unsigned long long)r->versions[i], r->place.name,
					strchr(e->set.labels, ' ') ? "s" : "", e->set.labels);
			return KEDGE__EXIT_USAGE;
		}
	}
	return 0;
}

static void print_result(const struct removal *r)
{
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM];
	json_t *o, *list;

	if (!r->place.json) {
		if (r->all)
			printf("%s removed, with all its versions\n", r->place.name);
		else
			printf("%s of %s removed; %s needed %s and %s rewritten\n",
			       kedge__text_count(r->count, "version", "versions", a), r->place.name,
			       kedge__text_count(r->rewritten, "other", "others", b), r->count == 1 ? "it" : "them",
			       r->rewritten == 1 ? "was" : "were");
		return;
	}
	o = kedge__json_object();
	list = kedge__json_array();
	for (size_t i = 0; i < r->count && !r->all; i++)
		kedge__json_add(list, json_integer((json_int_t)r->versions[i]));
	kedge__json_text(o, "name", r->place.name);
	kedge__json_bool(o, "all", r->all);
	kedge__json_set(o, "removed_versions", list);
	kedge__json_uint(o, "rewritten", r->rewritten);
	kedge__json_print(o);
}

static int own(struct removal *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status;

	for (size_t l = 0; l < r->place.level_count; l++) {
		bool full;

		if (kedge__catalog_own(r->place.levels[l], "kedge rm", &err) == 0)
			continue;
		full = err.code == KEDGE_E_NOSPACE;
		status = kedge__tool_fail(r->usage.command, &err, "nothing was removed");
		if (full)
			kedge__tool_say(
			    r->usage.command,
			    "it needs a few KiB to begin; 'kedge gc' needs none where no version that stays "
			    "needs one that goes");
		return status;
	}
	return 0;
}

static int rm(struct removal *r)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = kedge__place_open(&r->place, &r->usage, KEDGE__PLACE_ALL);

	if (!status && !r->all)
		status = choose(r);
	if (!status && !r->force)
		status = refuse_labelled(r);
	if (!status)
		status = own(r);
	if (status)
		return status;
	if (kedge__tool_pool(&r->place.settings, &r->pool, &err) != 0)
		return kedge__tool_fail(r->usage.command, &err, "cannot start threads");
	kedge__tool_interruptible(r->usage.command, "some of the versions may be gone already; all others are whole");
	kedge__bar_init(&r->bar, "rewrite", !r->place.json && !r->place.quiet);
	status = r->all ? remove_job(r) : remove_versions(r);
	kedge__bar_done(&r->bar);
	if (!status && (r->place.json || !r->place.quiet))
		print_result(r);
	return status;
}

int kedge__tool_rm(int argc, char **argv)
{
	struct removal r = {0};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&r.place.store),
	    KEDGE__OPTION_NAME(&r.place.name),
	    {"all", 'a', KEDGE__OPTION_FLAG, &r.all, NULL, "remove the whole job; needs -n"},
	    {"force", 'f', KEDGE__OPTION_FLAG, &r.force, NULL, "remove versions with labels, too"},
	    KEDGE__OPTION_L2(&r.place.l2),
	    KEDGE__OPTION_SET(&r.place.sets),
	    KEDGE__OPTION_JSON(&r.place.json),
	    KEDGE__OPTION_QUIET(&r.place.quiet),
	};
	int first, status;

	r.usage = (struct kedge__usage){
	    .command = "kedge rm",
	    .operands = "VERSION...",
	    .about = "Removes versions of NAME from every level: numbers, newest, newest~2 or labels. All others stay "
		     "whole: those\n"
		     "that are stored as changes to one of them are rewritten first. Safe to interrupt; refused while "
		     "a job\n"
		     "has NAME open. 'kedge gc' removes old versions by their number.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge rm -s store -n job 3\nkedge rm -s store -n job --all",
	};
	if (kedge__options_parse(&r.usage, argc, argv, &first, &status)) {
		r.wanted = argv + first;
		r.count = (size_t)(argc - first);
		if (r.all && (r.count || !r.place.name))
			status = kedge__usage_error(
			    &r.usage, "--all removes a whole job: give its name with -n, and no versions");
		else if (!r.all && !r.count)
			status =
			    kedge__usage_error(&r.usage, "which versions? Name them, or give --all for the whole job");
		else
			status = rm(&r);
	}
	kedge__pool_free(r.pool);
	kedge__free(r.versions);
	kedge__place_done(&r.place);
	return status;
}
