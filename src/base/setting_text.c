/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands behind `key =`: comments, quotes, and names that stand for something else. */
#include "base/setting_value.h"

#include <ctype.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Text that grows; FAILED: memory ran out on the way. */
struct text {
	KEDGE__ARRAY(char) bytes;
	bool failed;
};

static void put(struct text *t, const char *from, size_t n)
{
	if (t->failed || !kedge__array_reserve(&t->bytes, t->bytes.count + n + 1)) {
		t->failed = true;
		return;
	}
	memcpy(t->bytes.at + t->bytes.count, from, n);
	t->bytes.count += n;
	t->bytes.at[t->bytes.count] = '\0';
}

/* In a place, a per cent sign that is meant as such is doubled until kedge__settings_places(). */
static void put_literal(struct text *t, bool place, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (place && from[i] == '%')
			put(t, "%", 1);
		put(t, from + i, 1);
	}
}

/* The text, or NULL with an error; frees the rest. RC: what went wrong before. */
static int text_take(struct text *t, int rc, char **out, struct kedge__error *err)
{
	put(t, "", 0);
	if (!rc && t->failed)
		rc = kedge__error_nomem(err);
	if (rc)
		kedge__array_done(&t->bytes);
	else
		*out = t->bytes.at;
	return rc;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t name_length(const char *p, const char *end)
{
	size_t n = 0;

	while (p + n < end && (p[n] == '_' || isalpha((unsigned char)p[n]) || (n && isdigit((unsigned char)p[n]))))
		n++;
	return n;
}

static int put_variable(struct text *t, bool place, const char *name, size_t n, const char *otherwise, size_t m,
			struct kedge__error *err)
{
	char *copy = kedge__asprintf("%.*s", (int)n, name);
	const char *value = copy ? getenv(copy) : NULL;

	if (!copy)
		return kedge__error_nomem(err);
	kedge__free(copy);
	if (otherwise && (!value || !*value))
		put_literal(t, place, otherwise, m);
	else if (value)
		put_literal(t, place, value, strlen(value));
	else
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"the variable %.*s is not set; ${%.*s:-TEXT} stands for TEXT then", (int)n,
					name, (int)n, name);
	return 0;
}

static int fail_dollar(struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_CONFIG, 0,
				"a $ begins the name of a variable, as in $HOME, ${HOME} or ${HOME:-TEXT}; write $$ "
				"where the sign itself is meant");
}

/* At a `$`. *P is moved behind the name. */
static int put_dollar(struct text *t, bool place, const char **p, const char *end, struct kedge__error *err)
{
	const char *name = *p + 1, *close, *otherwise = NULL;
	size_t n;

	if (name < end && *name == '$') {
		put(t, "$", 1);
		*p = name + 1;
		return 0;
	}
	if (name == end || *name != '{') {
		n = name_length(name, end);
		*p = name + n;
		return n ? put_variable(t, place, name, n, NULL, 0, err) : fail_dollar(err);
	}
	n = name_length(++name, end);
	close = memchr(name, '}', (size_t)(end - name));
	if (!n || !close)
		return fail_dollar(err);
	if (close - name - n >= 2 && memcmp(name + n, ":-", 2) == 0)
		otherwise = name + n + 2;
	else if (close != name + n)
		return fail_dollar(err);
	*p = close + 1;
	return put_variable(t, place, name, n, otherwise, otherwise ? (size_t)(close - otherwise) : 0, err);
}

/* At a `~` that begins a place. */
static int put_home(struct text *t, const char **p, const char *end, struct kedge__error *err)
{
	const char *home = getenv("HOME");
	struct passwd entry, *found = NULL;
	char room[4096];

	if (*p + 1 < end && (*p)[1] != '/')
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"only ~ and ~/ stand for a home directory; write the whole path, or quotes, as "
					"in '~name', where the sign itself is meant");
	if ((!home || !*home) && getpwuid_r(getuid(), &entry, room, sizeof(room), &found) == 0 && found)
		home = found->pw_dir;
	if (!home || !*home)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "~ stands for the home directory, but HOME is not set");
	put_literal(t, true, home, strlen(home));
	(*p)++;
	return 0;
}

static int expand(bool place, const char *p, const char *end, char **out, struct kedge__error *err)
{
	struct text t = {0};
	int rc = 0;

	if (place && p < end && *p == '~')
		rc = put_home(&t, &p, end, err);
	while (!rc && p < end) {
		if (*p == '$')
			rc = put_dollar(&t, place, &p, end, err);
		else
			put(&t, p++, 1);
	}
	return text_take(&t, rc, out, err);
}

static int copy_literal(bool place, const char *p, const char *end, char **out, struct kedge__error *err)
{
	struct text t = {0};

	put_literal(&t, place, p, (size_t)(end - p));
	return text_take(&t, 0, out, err);
}

/* Behind a value there may be blanks and a comment. */
static bool is_rest(const char *p)
{
	const char *from = p;

	while (is_blank(*p))
		p++;
	return !*p || ((*p == '#' || *p == ';') && p > from);
}

static const char *value_end(const char *p)
{
	const char *end = p;

	for (const char *q = p; *q && !((*q == '#' || *q == ';') && (q == p || is_blank(q[-1]))); q++)
		if (!is_blank(*q))
			end = q + 1;
	return end;
}

static int value_of_file(bool place, const char *text, char **value, struct kedge__error *err)
{
	const char *close;

	while (is_blank(*text))
		text++;
	if (*text != '"' && *text != '\'')
		return expand(place, text, value_end(text), value, err);
	close = strchr(text + 1, *text);
	if (!close || !is_rest(close + 1))
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					close ? "there is text behind the closing %c" : "there is no closing %c",
					*text);
	return *text == '"' ? expand(place, text + 1, close, value, err)
			    : copy_literal(place, text + 1, close, value, err);
}

int kedge__setting_value(const struct kedge__setting *s, enum kedge__setting_form form, const char *text, char **value,
			 struct kedge__error *err)
{
	bool place = s->type == KEDGE__SETTING_PLACE;

	if (form == KEDGE__FORM_FILE)
		return value_of_file(place, text, value, err);
	return expand(place, text, text + strlen(text), value, err);
}

/* ------------------------------------------------------------------ places per host, job and rank */

static int put_host(struct text *t, struct kedge__error *err)
{
	char name[HOST_NAME_MAX + 1];

	if (gethostname(name, sizeof(name)) != 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "%%h: this host has no name");
	name[HOST_NAME_MAX] = '\0';
	put(t, name, strcspn(name, "."));
	return 0;
}

static int put_job(struct text *t, struct kedge__error *err)
{
	static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID",
					    "FLUX_JOB_ID",  "JOB_ID",    "COBALT_JOBID"};

	for (size_t i = 0; i < KEDGE__COUNT(names); i++) {
		const char *id = getenv(names[i]);

		if (!id || !*id)
			continue;
		if (strchr(id, '/'))
			return kedge__error_set(err, KEDGE_E_CONFIG, 0,
						"%%j: %s has a slash, and cannot be part of a name: %s", names[i], id);
		put(t, id, strlen(id));
		return 0;
	}
	return kedge__error_set(
	    err, KEDGE_E_CONFIG, 0,
	    "%%j stands for the scheduler's job id, but none of SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, "
	    "FLUX_JOB_ID, JOB_ID and COBALT_JOBID is set");
}

static int put_rank(struct text *t, int rank, struct kedge__error *err)
{
	char digits[16];

	if (rank < 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"%%r stands for the rank of a process, which this command has not: name one "
					"directory");
	put(t, digits, (size_t)snprintf(digits, sizeof(digits), "%d", rank));
	return 0;
}

int kedge__place_expand(const char *p, int rank, char **out, struct kedge__error *err)
{
	struct text t = {0};
	int rc = 0;

	for (; *p && !rc; p++) {
		if (*p != '%')
			put(&t, p, 1);
		else if (*++p == '%')
			put(&t, p, 1);
		else if (*p == 'h')
			rc = put_host(&t, err);
		else if (*p == 'j')
			rc = put_job(&t, err);
		else if (*p == 'r')
			rc = put_rank(&t, rank, err);
		else
			rc =
			    kedge__error_set(err, KEDGE_E_CONFIG, 0,
					     "%%%.1s means nothing; %%h is the host, %%r the rank, %%j the scheduler's "
					     "job id, and %%%% the sign itself",
					     p);
		if (!*p)
			break;
	}
	return text_take(&t, rc, out, err);
}

static bool has_rank(const char *p)
{
	for (; *p; p++) {
		if (*p == '%' && p[1] == 'r')
			return true;
		if (*p == '%' && p[1])
			p++;
	}
	return false;
}

int kedge__settings_places(const struct kedge__settings *in, int rank, struct kedge__error *err)
{
	for (size_t i = 0; i < in->n; i++) {
		char **field = (char **)((char *)in->values + in->table[i].offset), *place;
		int rc;

		if (in->table[i].type != KEDGE__SETTING_PLACE || (rank == KEDGE__RANK_ANY && has_rank(*field)))
			continue;
		rc = kedge__place_expand(*field, rank, &place, err);
		if (rc) {
			kedge__error_prefix(err, "%s = %s", in->table[i].key, *field);
			if (in->origins && in->origins[i])
				kedge__error_prefix(err, "%s", in->origins[i]);
			return rc;
		}
		kedge__free(*field);
		*field = place;
	}
	return 0;
}

/* ------------------------------------------------------------------ and back */

char *kedge__settings_written(const struct kedge__setting *setting, const void *values)
{
	char *value = kedge__settings_format(setting, values), *written;
	size_t n = value ? strlen(value) : 0;
	bool place = setting->type == KEDGE__SETTING_PLACE;

	if (!value || !n)
		return value;
	if (!strpbrk(value, "#;$\"'") && !(place && (value[0] == '~' || strchr(value, '%'))) && !is_blank(value[0]) &&
	    !is_blank(value[n - 1]))
		return value;
	if (place && has_rank(value))
		return value;
	written = kedge__asprintf(strchr(value, '\'') ? "\"%s\"" : "'%s'", value);
	kedge__free(value);
	return written;
}
