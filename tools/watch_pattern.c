/* SPDX-License-Identifier: BSD-3-Clause */
/* watch_pattern: names with one part that says which set a file belongs to. */
#include "watch.h"
#include <ctype.h>
#include <fnmatch.h>

#define KEY "{}"

struct match {
	const char *key; /* what {} is, if it is known; else what was found */
	size_t length;
};

static bool fits(const char *pattern, const char *name, struct match *m);

/* {} takes LENGTH bytes of NAME. */
static bool takes(const char *pattern, const char *name, size_t length, struct match *m)
{
	struct match with = {name, length};

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

bool kedge__watch_component_fits(const char *pattern, const char *name, const char *key, char **found)
{
	struct match m = {key, key ? strlen(key) : 0};

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

/* The next component of *AT, in TEXT. False: there is none, or it is too long for any name. */
static bool next_component(const char **at, char text[KEDGE__WATCH_NAME_ROOM])
{
	size_t n = strcspn(*at, "/");

	if (!n || n >= KEDGE__WATCH_NAME_ROOM)
		return false;
	memcpy(text, *at, n);
	text[n] = '\0';
	*at += n + ((*at)[n] == '/');
	return true;
}

bool kedge__watch_fits(const char *pattern, const char *path)
{
	char part[KEDGE__WATCH_NAME_ROOM], name[KEDGE__WATCH_NAME_ROOM], *key = NULL;
	bool fit = true;

	while (fit && *pattern) {
		fit = next_component(&pattern, part) && next_component(&path, name) &&
		      kedge__watch_component_fits(part, name, key, &key);
	}
	kedge__free(key);
	return fit;
}

const char *kedge__watch_pattern_check(const char *pattern)
{
	char part[KEDGE__WATCH_NAME_ROOM];

	if (!*pattern)
		return "it is empty";
	if (*pattern == '/')
		return "it is absolute; patterns are relative to DIR";
	while (*pattern) {
		if (!next_component(&pattern, part))
			return "it has an empty component, or one that is too long";
		if (strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
			return "it has a component '.' or '..'";
	}
	return NULL;
}
