/* SPDX-License-Identifier: BSD-3-Clause */
/* watch_pattern: paths below the directory that is watched, by patterns with {} for the set. */
#include "watch.h"

bool kedge__watch_fits(const char *pattern, const char *path)
{
	char part[KEDGE__KEYED_ROOM], name[KEDGE__KEYED_ROOM], *key = NULL;
	bool fit = true;

	while (fit && *pattern) {
		fit = kedge__keyed_component(&pattern, part) && kedge__keyed_component(&path, name) &&
		      kedge__keyed_fits(part, KEDGE__KEYED_TEXT, name, key, &key);
	}
	kedge__free(key);
	return fit;
}

const char *kedge__watch_pattern_check(const char *pattern)
{
	return *pattern == '/' ? "it is absolute; patterns are relative to DIR" : kedge__keyed_check(pattern);
}
