/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_patterns: patterns, and the files that have them. */
#include "tool_walk.h"
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>

/* PATTERN has no slash at its ends. A prefix of components of NAME counts, too. */
static bool fits_from(const char *pattern, const char *name)
{
	int flags = strstr(pattern, "**") ? 0 : FNM_PATHNAME;

	return fnmatch(pattern, name, flags) == 0 || fnmatch(pattern, name, flags | FNM_LEADING_DIR) == 0;
}

static bool fits_anywhere(const char *pattern, const char *name)
{
	for (const char *p = name; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
		if (fits_from(pattern, p))
			return true;
	return false;
}

/* The name of the directory that NAME is in, to be freed; NULL: there is none. */
static char *directory_of(const char *name)
{
	char *own = kedge__strdup(name), *slash;

	if (!own)
		kedge__tool_no_memory();
	slash = strrchr(own, '/');
	if (slash) {
		*slash = '\0';
		return own;
	}
	kedge__free(own);
	return NULL;
}

bool kedge__pattern_fits(const char *pattern, const char *name, bool directory)
{
	size_t n = strlen(pattern);
	char *own = kedge__strdup(pattern), *in = NULL;
	bool only = n > 1 && pattern[n - 1] == '/', fits = false;

	if (!own)
		kedge__tool_no_memory();
	if (only)
		own[n - 1] = '\0';
	if (only && !directory) {
		in = directory_of(name);
		name = in;
	}
	if (n && name)
		fits = own[0] == '/' ? fits_from(own + 1, name) : fits_anywhere(own, name);
	kedge__free(own);
	kedge__free(in);
	return fits;
}

void kedge__excludes_add(struct kedge__excludes *x, const char *pattern)
{
	char *own = kedge__strdup(pattern);

	if (!own || !kedge__array_push(&x->list, own))
		kedge__tool_no_memory();
}

bool kedge__excludes_fit(const struct kedge__excludes *x, const char *name, bool directory)
{
	for (size_t i = 0; i < x->list.count; i++)
		if (kedge__pattern_fits(x->list.at[i], name, directory))
			return true;
	return false;
}

void kedge__excludes_done(struct kedge__excludes *x)
{
	for (size_t i = 0; i < x->list.count; i++)
		kedge__free(x->list.at[i]);
	kedge__array_done(&x->list);
}

int kedge__lines_read(const char *file, bool nul, int (*each)(void *ctx, char *line, struct kedge__error *err),
		      void *ctx, struct kedge__error *err)
{
	FILE *in = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int rc = 0;

	if (!in)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot open %s", file);
	while (rc == 0 && (n = getdelim(&line, &room, nul ? '\0' : '\n', in)) > 0) {
		if (!nul && line[n - 1] == '\n')
			line[n - 1] = '\0';
		if (!nul && strlen(line) < (size_t)n - 1)
			rc = kedge__error_set(err, KEDGE_E_ARG, 0, "%s has names that end in NUL: use --null", file);
		else if (*line)
			rc = each(ctx, line, err);
	}
	if (rc == 0 && ferror(in))
		rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot read %s", file);
	free(line);
	if (in != stdin)
		fclose(in);
	return rc;
}

static int pattern_line(void *ctx, char *line, struct kedge__error *err)
{
	size_t n = strlen(line);

	(void)err;
	if (n && line[n - 1] == '\r')
		line[n - 1] = '\0';
	if (*line && *line != '#')
		kedge__excludes_add(ctx, line);
	return 0;
}

int kedge__excludes_read(struct kedge__excludes *x, const char *file, struct kedge__error *err)
{
	return kedge__lines_read(file, false, pattern_line, x, err);
}
