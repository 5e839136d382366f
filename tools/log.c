/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge log: the versions of a job, newest first, with what people said about them. */
#include "tool.h"

struct history {
	struct kedge__usage usage;
	struct kedge__place place;
	uint64_t count;
};

static void print_version(const struct kedge__catalog_entry *e, bool newest)
{
	struct kedge__set_sizes sizes;
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM], c[KEDGE__TEXT_ROOM];

	if (e->problem.code) {
		kedge__print(stdout, "version %llu\n    cannot be read: %s\n", (unsigned long long)e->version,
			     kedge__error_text(&e->problem));
		return;
	}
	sizes = kedge__set_sizes(&e->set);
	printf("version %llu", (unsigned long long)e->version);
	if (newest || e->set.labels)
		printf(" (%s%s%s)", newest ? "newest" : "", newest && e->set.labels ? " " : "",
		       e->set.labels ? e->set.labels : "");
	printf("   %s   %s in %s of files\n", kedge__text_time(e->set.created_ns, a), kedge__text_bytes(sizes.raw, b),
	       kedge__text_bytes(e->file.bytes + sizes.stored, c));
	if (e->set.note)
		kedge__print(stdout, "    %s\n", e->set.note);
}

static json_t *version_json(const struct kedge__catalog_entry *e)
{
	json_t *o = kedge__json_object();
	char time[KEDGE__TEXT_ROOM];

	kedge__json_uint(o, "version", e->version);
	kedge__json_text(o, "problem", e->problem.code ? kedge__error_text(&e->problem) : NULL);
	kedge__json_text(o, "created", e->problem.code ? NULL : kedge__text_time_iso(e->set.created_ns, time));
	kedge__json_text(o, "note", e->problem.code ? NULL : e->set.note);
	kedge__json_text(o, "labels", e->problem.code ? NULL : e->set.labels);
	return o;
}

static void print_log(const struct history *h, const uint64_t *versions, size_t n)
{
	json_t *list = h->place.json ? kedge__json_array() : NULL, *o;

	for (size_t i = n; i-- > 0 && n - i <= h->count;) {
		const struct kedge__catalog_entry *e = kedge__place_find(&h->place, versions[i]);

		if (list)
			kedge__json_add(list, version_json(e));
		else if (!h->place.quiet)
			print_version(e, i + 1 == n);
	}
	if (!list)
		return;
	o = kedge__json_object();
	kedge__json_text(o, "name", h->place.name);
	kedge__json_set(o, "versions", list);
	kedge__json_print(o);
}

static int show_log(struct history *h)
{
	int status = kedge__place_open(&h->place, &h->usage, KEDGE__PLACE_READ);
	uint64_t *versions;
	size_t n;

	if (status)
		return status;
	versions = kedge__place_versions(&h->place, 0, &n);
	print_log(h, versions, n);
	kedge__free(versions);
	return KEDGE__EXIT_OK;
}

int kedge__tool_log(int argc, char **argv)
{
	struct history h = {.count = UINT64_MAX};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&h.place.store),
	    KEDGE__OPTION_NAME(&h.place.name),
	    {"count", 'c', KEDGE__OPTION_UINT, &h.count, "N", "only the newest N versions"},
	    KEDGE__OPTION_L2(&h.place.l2),
	    KEDGE__OPTION_SET(&h.place.sets),
	    KEDGE__OPTION_JSON(&h.place.json),
	    KEDGE__OPTION_QUIET(&h.place.quiet),
	};
	int first, status;

	h.usage = (struct kedge__usage){
	    .command = "kedge log",
	    .about =
		"Lists the versions of NAME, newest first: labels, time, sizes, and the notes that were made with\n"
		"'kedge save -m', 'kedge tag -m' or kedge_version_note(3).",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge log -s store -n job",
	};
	if (kedge__options_parse(&h.usage, argc, argv, &first, &status))
		status = show_log(&h);
	kedge__place_done(&h.place);
	return status;
}
