/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge tag: labels of versions. */
#include "tool.h"

struct tag {
	struct kedge__usage usage;
	struct kedge__place place;
	const char *label, *wanted, *note; /* NULL: list; the newest; the note stays as it is */
	bool remove, move;
};

/* The labels of SET with LABEL added, or taken out if not ADD; NULL: none are left. kedge__free(). */
static char *labels_with(const struct kedge__set *set, const char *label, bool add)
{
	char *out = kedge__strdup("");

	for (const char *at = set->labels; out && at && *at; at += strspn(at, " ")) {
		int n = (int)strcspn(at, " ");
		char *longer = NULL;

		if ((size_t)n != strlen(label) || memcmp(at, label, (size_t)n) != 0) {
			longer = kedge__asprintf("%s%s%.*s", out, *out ? " " : "", n, at);
			kedge__free(out);
			out = longer;
		}
		at += n;
	}
	if (out && add) {
		char *longer = kedge__asprintf("%s%s%s", out, *out ? " " : "", label);

		kedge__free(out);
		out = longer;
	}
	if (!out)
		kedge__tool_no_memory();
	if (*out)
		return out;
	kedge__free(out);
	return NULL;
}

/* On every level that has the version. */
static int annotate(struct tag *t, uint64_t version, bool add, const char *note)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	for (size_t l = 0; l < t->place.level_count; l++) {
		const struct kedge__catalog_entry *e = kedge__catalog_find(t->place.levels[l], version);
		char *labels, *kept;
		int rc;

		if (!e || e->problem.code || (!add && !kedge__set_has_label(&e->set, t->label)))
			continue;
		labels = t->label        ? labels_with(&e->set, t->label, add)
			 : e->set.labels ? kedge__strdup(e->set.labels)
					 : NULL;
		kept = note ? kedge__strdup(note) : e->set.note ? kedge__strdup(e->set.note) : NULL;
		rc = kedge__set_annotate(t->place.levels[l], version, kept && *kept ? kept : NULL, labels, &err);
		kedge__free(labels);
		kedge__free(kept);
		if (rc)
			return kedge__tool_fail(t->usage.command, &err, "cannot change version %llu of %s",
						(unsigned long long)version, t->place.name);
	}
	return 0;
}

static bool has_label(const struct tag *t, uint64_t version, const char *label)
{
	for (size_t l = 0; l < t->place.level_count; l++) {
		const struct kedge__catalog_entry *e = kedge__catalog_find(t->place.levels[l], version);

		if (e && !e->problem.code && kedge__set_has_label(&e->set, label))
			return true;
	}
	return false;
}

/* Take the label from all versions but KEEP. *N: from how many. */
static int take_away(struct tag *t, uint64_t keep, size_t *n)
{
	uint64_t *versions;
	size_t count;
	int status = 0;

	*n = 0;
	versions = kedge__place_versions(&t->place, KEDGE__WITH_ABANDONED | KEDGE__WITH_SPARE, &count);
	for (size_t i = 0; i < count && !status; i++) {
		if (versions[i] == keep || !has_label(t, versions[i], t->label))
			continue;
		status = annotate(t, versions[i], false, NULL);
		++*n;
	}
	kedge__free(versions);
	return status;
}

/* A label is put on its new version before it is taken from the old one: a crash leaves it on both, and the newest
 * counts. */
static int put(struct tag *t)
{
	const struct kedge__catalog_entry *e;
	uint64_t version, *versions;
	size_t n, others = 0;
	int status = kedge__place_choose(&t->place, &t->usage, t->wanted, &version, &e);

	if (status)
		return status;
	versions = kedge__place_versions(&t->place, KEDGE__WITH_ABANDONED | KEDGE__WITH_SPARE, &n);
	for (size_t i = 0; t->label && i < n && !t->move && !status; i++)
		if (versions[i] != version && has_label(t, versions[i], t->label))
			status = kedge__usage_error(
			    &t->usage, "version %llu already has the label '%s'; --move gives it to version %llu",
			    (unsigned long long)versions[i], t->label, (unsigned long long)version);
	kedge__free(versions);
	if (!status)
		status = annotate(t, version, true, t->note);
	if (!status && t->label && t->move)
		status = take_away(t, version, &others);
	if (!status && !t->place.quiet)
		printf("version %llu of %s: %s%s%s\n", (unsigned long long)version, t->place.name,
		       t->label ? "label " : "", t->label ? t->label : "note changed",
		       t->label && t->note ? ", note changed" : "");
	return status;
}

static int drop(struct tag *t)
{
	size_t n;
	int status = take_away(t, KEDGE__NO_VERSION, &n);

	if (status)
		return status;
	if (n == 0) {
		kedge__tool_say(t->usage.command, "no version of %s has the label '%s'", t->place.name, t->label);
		return KEDGE__EXIT_NOTFOUND;
	}
	if (!t->place.quiet)
		printf("label %s removed; its version stays\n", t->label);
	return KEDGE__EXIT_OK;
}

static void list_label(const char *label, int n, uint64_t version, json_t *all)
{
	json_t *o;
	char *name;

	if (!all) {
		printf("%.*s %llu\n", n, label, (unsigned long long)version);
		return;
	}
	name = kedge__asprintf("%.*s", n, label);
	if (!name)
		kedge__tool_no_memory();
	o = kedge__json_object();
	kedge__json_text(o, "label", name);
	kedge__json_uint(o, "version", version);
	kedge__json_add(all, o);
	kedge__free(name);
}

static int list(const struct tag *t)
{
	json_t *all = t->place.json ? kedge__json_array() : NULL;
	uint64_t *versions;
	size_t n;

	versions = kedge__place_versions(&t->place, 0, &n);
	for (size_t i = 0; i < n; i++) {
		const struct kedge__catalog_entry *e = kedge__place_find(&t->place, versions[i]);
		const char *at = e->problem.code ? NULL : e->set.labels;

		for (; at && *at; at += strspn(at, " ")) {
			size_t length = strcspn(at, " ");

			list_label(at, (int)length, versions[i], all);
			at += length;
		}
	}
	if (all)
		kedge__json_print(all);
	kedge__free(versions);
	return KEDGE__EXIT_OK;
}

static int check(const struct tag *t)
{
	if (t->label && !kedge__label_valid(t->label, strlen(t->label)))
		return kedge__usage_error(
		    &t->usage,
		    "'%s' cannot be a label: use letters, digits and ._- (not only digits, not 'newest', at "
		    "most %d bytes)",
		    t->label, KEDGE__LABEL_MAX);
	if (t->note && *t->note && !kedge__note_valid(t->note))
		return kedge__usage_error(&t->usage, "a note is one line of at most %d bytes", KEDGE_NOTE_MAX);
	if (t->remove && (!t->label || t->wanted || t->note))
		return kedge__usage_error(&t->usage, "-d takes a label and nothing else");
	return 0;
}

static int tag(struct tag *t)
{
	bool change = t->label || t->note;
	int status = check(t);

	if (!status)
		status = kedge__place_open(&t->place, &t->usage, change ? KEDGE__PLACE_ALL : KEDGE__PLACE_READ);
	if (status)
		return status;
	if (t->remove)
		return drop(t);
	return change ? put(t) : list(t);
}

int kedge__tool_tag(int argc, char **argv)
{
	struct tag t = {0};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&t.place.store),
	    KEDGE__OPTION_NAME(&t.place.name),
	    KEDGE__OPTION_CHOOSE(&t.wanted, "the version to label; default: the newest"),
	    {"message", 'm', KEDGE__OPTION_TEXT, &t.note, "TEXT", "replace the note of the version; '' removes it"},
	    {"delete", 'd', KEDGE__OPTION_FLAG, &t.remove, NULL, "remove LABEL; its version stays"},
	    {"move", 0, KEDGE__OPTION_FLAG, &t.move, NULL, "take LABEL from another version"},
	    KEDGE__OPTION_L2(&t.place.l2),
	    KEDGE__OPTION_SET(&t.place.sets),
	    KEDGE__OPTION_JSON(&t.place.json),
	    KEDGE__OPTION_QUIET(&t.place.quiet),
	};
	int first, status;

	t.usage = (struct kedge__usage){
	    .command = "kedge tag",
	    .operands = "[LABEL]",
	    .about = "Gives a version of NAME a LABEL, by which it can be called wherever a version is wanted, or "
		     "lists the\n"
		     "labels that there are. A version with a label is not removed by 'kedge gc' or the setting keep.\n"
		     "Labels and notes are part of the version, on every level that has it.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge tag -s store -n job -v newest~1 before-upgrade\n"
		       "kedge restore -s store -n job -v before-upgrade -o back",
	};
	if (kedge__options_parse(&t.usage, argc, argv, &first, &status)) {
		t.label = argc > first ? argv[first] : NULL;
		status = argc - first > 1 ? kedge__usage_error(&t.usage, "one label at a time; use -v for the version")
					  : tag(&t);
	}
	kedge__place_done(&t.place);
	return status;
}
