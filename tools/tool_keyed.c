/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_keyed: names with one part that says what a file belongs to. */
#include "tool_keyed.h"
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>

#define KEY "{}"

struct match {
	const char *key; /* what {} is, if it is known; else what was found */
	size_t length;
	enum kedge__keyed_kind kind;
};

static bool fits(const char *pattern, const char *name, struct match *m);

/* {} takes LENGTH bytes of NAME. */
static bool takes(const char *pattern, const char *name, size_t length, struct match *m)
{
	struct match with = {name, length, m->kind};

	if (!fits(pattern + strlen(KEY), name + length, &with))
		return false;
	*m = with;
	return true;
}

static bool fits_key(const char *pattern, const char *name, struct match *m)
{
	size_t digits = 0, rest = strlen(name);

	if (m->key)
		return strncmp(name, m->key, m->length) == 0 && fits(pattern + strlen(KEY), name + m->length, m);
	while (isdigit((unsigned char)name[digits]))
		digits++;
	if (digits && takes(pattern, name, digits, m))
		return true;
	if (m->kind == KEDGE__KEYED_NUMBER)
		return false;
	for (size_t n = 1; n <= rest; n++)
		if (takes(pattern, name, n, m))
			return true;
	return false;
}

/* [...], one of a class, as the shell has it. */
static bool fits_class(const char *pattern, const char *name, struct match *m)
{
	size_t first = pattern[1] == '!' ? 2 : 1; /* of the class, which may be a bracket */
	const char *end = pattern[first] ? strchr(pattern + first + 1, ']') : NULL;
	char class[64], one[2] = {*name, '\0'};
	size_t n = end ? (size_t)(end + 1 - pattern) : 0;

	if (!end || n >= sizeof(class) || !*name)
		return false;
	memcpy(class, pattern, n);
	class[n] = '\0';
	return fnmatch(class, one, 0) == 0 && fits(end + 1, name + 1, m);
}

static bool fits(const char *pattern, const char *name, struct match *m)
{
	struct match before = *m;

	if (strncmp(pattern, KEY, strlen(KEY)) == 0)
		return fits_key(pattern, name, m);
	switch (*pattern) {
	case '\0':
		return !*name;
	case '*':
		for (const char *at = name;; at++) {
			if (fits(pattern + 1, at, m))
				return true;
			*m = before;
			if (!*at)
				return false;
		}
	case '?':
		return *name && fits(pattern + 1, name + 1, m);
	case '[':
		return fits_class(pattern, name, m);
	default:
		return *pattern == *name && fits(pattern + 1, name + 1, m);
	}
}

bool kedge__keyed_fits(const char *pattern, enum kedge__keyed_kind kind, const char *name, const char *key,
		       char **found)
{
	struct match m = {key, key ? strlen(key) : 0, kind};

	/* As in the shell, what is hidden is meant only by a pattern that says so. */
	if (*name == '.' && *pattern != '.')
		return false;
	if (!fits(pattern, name, &m))
		return false;
	if (!key && m.key) {
		*found = kedge__asprintf("%.*s", (int)m.length, m.key);
		if (!*found)
			kedge__tool_no_memory();
	}
	return true;
}

bool kedge__keyed_component(const char **at, char text[KEDGE__KEYED_ROOM])
{
	size_t n = strcspn(*at, "/");

	if (!n || n >= KEDGE__KEYED_ROOM)
		return false;
	memcpy(text, *at, n);
	text[n] = '\0';
	*at += n + ((*at)[n] == '/');
	return true;
}

const char *kedge__keyed_check(const char *pattern)
{
	char part[KEDGE__KEYED_ROOM];

	if (!*pattern)
		return "it is empty";
	while (*pattern) {
		if (!kedge__keyed_component(&pattern, part))
			return "it has an empty component, or one that is too long";
		if (strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
			return "it has a component '.' or '..'";
	}
	return NULL;
}

/* ------------------------------------------------------------------ ranks */

const char *kedge__rank_check(const char *pattern)
{
	if (strlen(pattern) > KEDGE__RANK_PATTERN_MAX)
		return "it is too long";
	if (!strstr(pattern, KEY))
		return "it has no {}, which stands for the number of the rank";
	return kedge__keyed_check(pattern + (*pattern == '/'));
}

/* From the beginning of NAME on; what is left of it is in a directory that fits. */
static bool fits_here(const char *pattern, const char *name, char **key)
{
	char part[KEDGE__KEYED_ROOM], component[KEDGE__KEYED_ROOM];
	bool fit = true;

	while (fit && *pattern)
		fit = kedge__keyed_component(&pattern, part) && kedge__keyed_component(&name, component) &&
		      kedge__keyed_fits(part, KEDGE__KEYED_NUMBER, component, *key, key);
	if (!fit) {
		kedge__free(*key);
		*key = NULL;
	}
	return fit;
}

enum kedge__rank_found kedge__rank_of(const char *pattern, const char *name, uint64_t *rank)
{
	bool first = *pattern == '/', fit = false;
	char *key = NULL;
	unsigned long long number;

	for (const char *at = name; at && !fit; at = !first && strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
		fit = fits_here(pattern + first, at, &key);
	if (!fit || !key) {
		kedge__free(key);
		return KEDGE__RANK_ABSENT;
	}
	errno = 0;
	number = strtoull(key, NULL, 10);
	kedge__free(key);
	if (errno || number > UINT32_MAX)
		return KEDGE__RANK_TOO_LARGE;
	*rank = number;
	return KEDGE__RANK_PRESENT;
}
