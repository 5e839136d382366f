/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which variables are similar: those with the same name, type and number of dimensions, as in mcrEngine (section
 * III.A): `Group/Name_Type_Class`. The name is the variable's with its groups, without the numbers in names of groups;
 * or what the user's regular expressions make of it.
 */
#include "aggregate/aggregate.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>

#define GROUPS         10
#define RULES          1024
#define NAME_MAX_BYTES 1024

struct rule {
	regex_t search;
	char *name;
};

struct kedge__class_rules {
	KEDGE__ARRAY(struct rule) rules;
};

/* ------------------------------------------------------------------ rules */

void kedge__class_rules_free(struct kedge__class_rules *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->rules.count; i++) {
		regfree(&r->rules.at[i].search);
		kedge__free(r->rules.at[i].name);
	}
	kedge__array_done(&r->rules);
	kedge__free(r);
}

static char *word(char **rest)
{
	char *begin = *rest + strspn(*rest, " \t\r\n"), *end = begin + strcspn(begin, " \t\r\n");

	*rest = *end ? end + 1 : end;
	*end = 0;
	return begin;
}

static int rule_add(struct kedge__class_rules *r, char *line, const char *path, unsigned number,
		    struct kedge__error *err)
{
	char *rest = line, *search = word(&rest), *name = word(&rest), why[200];
	struct rule fresh = {.name = NULL};
	int bad;

	if (!*search || *search == '#')
		return 0;
	if (!*name || *word(&rest))
		return kedge__error_set(
		    err, KEDGE_E_CONFIG, 0,
		    "%s:%u: a line is a regular expression and the name of a class, with a blank between", path,
		    number);
	if (r->rules.count >= RULES)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "%s:%u: more than %d rules", path, number, RULES);
	bad = regcomp(&fresh.search, search, REG_EXTENDED);
	if (bad) {
		regerror(bad, &fresh.search, why, sizeof(why));
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "%s:%u: %s: %s", path, number, search, why);
	}
	fresh.name = kedge__strdup(name);
	if (!fresh.name || !kedge__array_push(&r->rules, fresh)) {
		regfree(&fresh.search);
		kedge__free(fresh.name);
		return kedge__error_nomem(err);
	}
	return 0;
}

int kedge__class_rules_read(const char *path, struct kedge__class_rules **out, struct kedge__error *err)
{
	struct kedge__class_rules *r = kedge__calloc(1, sizeof(*r));
	FILE *file = fopen(path, "re");
	char line[4096];
	int rc = 0;

	if (!r)
		rc = kedge__error_nomem(err);
	else if (!file)
		rc = kedge__error_set(err, KEDGE_E_CONFIG, errno, "cannot read the classes in %s", path);
	for (unsigned number = 1; !rc && fgets(line, sizeof(line), file); number++)
		rc = rule_add(r, line, path, number, err);
	if (!rc && ferror(file))
		rc = kedge__error_set(err, KEDGE_E_CONFIG, errno, "cannot read the classes in %s", path);
	if (file)
		fclose(file);
	if (rc)
		kedge__class_rules_free(r);
	else
		*out = r;
	return rc;
}

/* ------------------------------------------------------------------ names */

struct text {
	char at[NAME_MAX_BYTES];
	size_t used;
};

static void put(struct text *t, const char *from, size_t n)
{
	n = KEDGE__MIN(n, sizeof(t->at) - 1 - t->used);
	memcpy(t->at + t->used, from, n);
	t->used += n;
	t->at[t->used] = 0;
}

/* The name of the rule, with what groups matched. */
static void expand(const char *name, const char *subject, const regmatch_t *groups, struct text *out)
{
	for (const char *p = name; *p; p++) {
		const regmatch_t *g = NULL;

		if (*p == '\\' && p[1] >= '1' && p[1] <= '9')
			g = &groups[*++p - '0'];
		if (g && g->rm_so >= 0)
			put(out, subject + g->rm_so, (size_t)(g->rm_eo - g->rm_so));
		else if (!g)
			put(out, p, 1);
	}
}

/* False: no rule is about it. */
static bool by_rules(const struct kedge__class_rules *r, const char *name, struct text *out)
{
	for (size_t i = 0; r && i < r->rules.count; i++) {
		regmatch_t groups[GROUPS];

		if (regexec(&r->rules.at[i].search, name, GROUPS, groups, 0) != 0)
			continue;
		expand(r->rules.at[i].name, name, groups, out);
		return true;
	}
	return false;
}

static void without_numbers(const char *name, struct text *out)
{
	const char *last = strrchr(name, '/');

	for (const char *p = name; *p; p++)
		if (!last || p > last || !isdigit((unsigned char)*p))
			put(out, p, 1);
}

char *kedge__class_name(const struct kedge__class_rules *r, const struct kedge__variable *v)
{
	struct text t = {.used = 0};

	t.at[0] = 0;
	if (!by_rules(r, v->name, &t))
		without_numbers(v->name, &t);
	if (v->filtered)
		return kedge__asprintf("%s_filtered", t.at);
	if (v->scalar)
		return kedge__asprintf("%s_%s_Atomic", t.at, kedge__type_name(v->type));
	return kedge__asprintf("%s_%s_Array%dD", t.at, kedge__type_name(v->type), v->ndims);
}
