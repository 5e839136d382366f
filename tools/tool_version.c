/* SPDX-License-Identifier: BSD-3-Clause */
/* version: what people write where a version is wanted: 7, newest, newest~2, a label. */
#include "tool.h"
#include <errno.h>
#include <stdlib.h>

/* BASE~BACK, as it is written. */
struct wanted {
	char base[KEDGE__LABEL_MAX + 1];
	uint64_t back;
};

static bool number_parse(const char *text, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *number < KEDGE_VERSION_LIMIT;
}

static bool wanted_parse(const char *text, struct wanted *w)
{
	const char *tilde = strchr(text, '~');
	size_t n = tilde ? (size_t)(tilde - text) : strlen(text);
	uint64_t number;

	if (n == 0 || n >= sizeof(w->base))
		return false;
	memcpy(w->base, text, n);
	w->base[n] = '\0';
	w->back = 0;
	if (tilde && tilde[1] == '\0')
		w->back = 1;
	else if (tilde && !number_parse(tilde + 1, &w->back))
		return false;
	return strcmp(w->base, "newest") == 0 || number_parse(w->base, &number) || kedge__label_valid(w->base, n);
}

bool kedge__version_valid(const char *text)
{
	struct wanted w;

	return wanted_parse(text, &w);
}

/* The newest version on any level that has the label. */
static uint64_t find_label(const struct kedge__place *p, const uint64_t *versions, size_t n, const char *label)
{
	while (n-- > 0) {
		for (size_t l = 0; l < p->level_count; l++) {
			const struct kedge__catalog_entry *e = kedge__catalog_find(p->levels[l], versions[n]);

			if (e && !e->problem.code && kedge__set_has_label(&e->set, label))
				return versions[n];
		}
	}
	return KEDGE__NO_VERSION;
}

/* "version 3", "versions 1 to 4", or with gaps "3 versions from 1 to 9". */
static void describe(const uint64_t *versions, size_t n, char text[2 * KEDGE__TEXT_ROOM])
{
	unsigned long long first = versions[0], last = versions[n - 1];

	if (n == 1)
		snprintf(text, 2 * KEDGE__TEXT_ROOM, "version %llu", first);
	else if (last - first == n - 1)
		snprintf(text, 2 * KEDGE__TEXT_ROOM, "versions %llu to %llu", first, last);
	else
		snprintf(text, 2 * KEDGE__TEXT_ROOM, "%zu versions from %llu to %llu", n, first, last);
}

static int not_found(const struct kedge__place *p, const struct kedge__usage *u, const struct wanted *w,
		     const uint64_t *versions, size_t n)
{
	char text[2 * KEDGE__TEXT_ROOM];
	uint64_t number;

	if (n)
		describe(versions, n, text);
	if (n == 0)
		kedge__tool_say(u->command, "%s has no versions", p->name);
	else if (number_parse(w->base, &number))
		kedge__tool_say(u->command, "%s has no version %s; it has %s", p->name, w->base, text);
	else
		kedge__tool_say(u->command, "%s has no version with the label '%s'; 'kedge log' shows what there is",
				p->name, w->base);
	return KEDGE__EXIT_NOTFOUND;
}

static int find(const struct kedge__place *p, const struct kedge__usage *u, const struct wanted *w, uint64_t *version)
{
	uint64_t *versions, found = KEDGE__NO_VERSION;
	size_t n, at;
	int status = 0;

	versions = kedge__place_versions(p, 0, &n);
	if (strcmp(w->base, "newest") == 0)
		found = n ? versions[n - 1] : KEDGE__NO_VERSION;
	else if (!number_parse(w->base, &found))
		found = find_label(p, versions, n, w->base);
	for (at = 0; at < n && versions[at] != found; at++)
		;
	/* A number may be that of a version which was abandoned, or is only there for others, too. */
	if (found == KEDGE__NO_VERSION || (at == n && !kedge__place_find(p, found))) {
		status = not_found(p, u, w, versions, n);
	} else if (w->back && (at == n || w->back > at)) {
		kedge__tool_say(u->command, "%s has no version %s~%llu: there are %zu before version %llu", p->name,
				w->base, (unsigned long long)w->back, at == n ? 0 : at, (unsigned long long)found);
		status = KEDGE__EXIT_NOTFOUND;
	} else {
		*version = w->back ? versions[at - w->back] : found;
	}
	kedge__free(versions);
	return status;
}

int kedge__place_version(const struct kedge__place *p, const struct kedge__usage *u, const char *text,
			 uint64_t *version)
{
	struct wanted w;

	if (!wanted_parse(text ? text : "newest", &w))
		return kedge__usage_error(
		    u, "'%s' is not a version: write its number, newest, newest~2 (two before it), or a label", text);
	return find(p, u, &w, version);
}

int kedge__place_choose(const struct kedge__place *p, const struct kedge__usage *u, const char *text, uint64_t *version,
			const struct kedge__catalog_entry **entry)
{
	const struct kedge__catalog_entry *e;
	uint64_t wanted;
	int status = kedge__place_version(p, u, text, &wanted);

	if (status)
		return status;
	e = kedge__place_find(p, wanted);
	if (e->problem.code) {
		kedge__tool_say(u->command, "cannot read version %llu of %s: %s", (unsigned long long)wanted, p->name,
				kedge__error_text(&e->problem));
		return kedge__exit_from_error(e->problem.code);
	}
	*version = wanted;
	*entry = e;
	return 0;
}
