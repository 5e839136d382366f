/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/setting_value.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <strings.h>
#include <unistd.h>

#define ENV_PREFIX     "KEDGE_"
#define FILE_BYTES_MAX ((size_t)1 << 20) /* a larger file is not a configuration */

static bool is_text(const struct kedge__setting *s)
{
	return s->type == KEDGE__SETTING_STRING || s->type == KEDGE__SETTING_PLACE;
}

int kedge__settings_init(const struct kedge__setting *table, size_t n, void *settings, struct kedge__error *err)
{
	int rc;

	/* First all strings empty, so that a failure on the way can be undone. */
	for (size_t i = 0; i < n; i++) {
		if (is_text(&table[i]))
			*(char **)((char *)settings + table[i].offset) = NULL;
	}
	for (size_t i = 0; i < n; i++) {
		rc = kedge__setting_parse(&table[i], settings, table[i].preset, err);
		if (rc) {
			kedge__settings_done(table, n, settings);
			return rc;
		}
	}
	return 0;
}

void kedge__settings_done(const struct kedge__setting *table, size_t n, void *settings)
{
	for (size_t i = 0; i < n; i++) {
		char **field = (char **)((char *)settings + table[i].offset);

		if (!is_text(&table[i]))
			continue;
		kedge__free(*field);
		*field = NULL;
	}
}

static const struct kedge__setting *find(const struct kedge__settings *t, const char *key)
{
	for (size_t i = 0; i < t->n; i++) {
		if (strcasecmp(t->table[i].key, key) == 0)
			return &t->table[i];
	}
	return NULL;
}

/* *NEAREST becomes the key that was probably meant, or NULL if none is similar. */
static int find_nearest(const struct kedge__settings *t, const char *key, const char **nearest)
{
	const char **keys = kedge__reallocarray(NULL, t->n, sizeof(*keys));

	if (!keys)
		return KEDGE_E_NOMEM;
	for (size_t i = 0; i < t->n; i++)
		keys[i] = t->table[i].key;
	*nearest = kedge__nearest_word(key, keys, t->n);
	kedge__free(keys);
	return 0;
}

static int fail_unknown(const struct kedge__settings *t, const char *key, struct kedge__error *err)
{
	const char *nearest;

	if (find_nearest(t, key, &nearest) != 0)
		return kedge__error_nomem(err);
	if (nearest)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "unknown key \"%s\"; did you mean \"%s\"?", key,
					nearest);
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "unknown key \"%s\"", key);
}

/* ORIGIN is taken over; NULL: no memory was left for it. */
static int origin_note(const struct kedge__settings *t, const struct kedge__setting *setting, char *origin,
		       struct kedge__error *err)
{
	if (!origin)
		return kedge__error_nomem(err);
	if (!t->origins) {
		kedge__free(origin);
		return 0;
	}
	kedge__free(t->origins[setting - t->table]);
	t->origins[setting - t->table] = origin;
	return 0;
}

/* The error does not name the place: the caller does. */
static int set_value(const struct kedge__settings *t, const char *key, const char *text, enum kedge__setting_form form,
		     const struct kedge__setting **found, struct kedge__error *err)
{
	const struct kedge__setting *setting = find(t, key);
	char *value;
	int rc;

	if (!setting)
		return fail_unknown(t, key, err);
	rc = kedge__setting_value(setting, form, text, &value, err);
	if (rc) {
		kedge__error_prefix(err, "%s", setting->key);
		return rc;
	}
	rc = kedge__setting_parse(setting, t->values, value, err);
	kedge__free(value);
	*found = setting;
	return rc;
}

int kedge__settings_set(const struct kedge__settings *in, const char *key, const char *value,
			enum kedge__setting_form form, const char *origin, struct kedge__error *err)
{
	const struct kedge__setting *setting;
	int rc = set_value(in, key, value, form, &setting, err);

	if (rc)
		kedge__error_prefix(err, "%s", origin);
	return rc ? rc : origin_note(in, setting, kedge__strdup(origin), err);
}

/* A file in memory, which inih reads line by line. */
struct source {
	const struct kedge__settings *target;
	const char *path;
	const char *at, *end;
	char *value; /* of the current line, as it is written */
	int line;
	int code; /* of the first error; ERR, if not NULL, has its text */
	struct kedge__error *err;
};

static void fail_line(struct source *s, const char *text)
{
	s->code = kedge__error_set(s->err, KEDGE_E_CONFIG, 0, "%s:%d: %s", s->path, s->line, text);
}

/* Where the value of a line begins: behind its first = or :. NULL: it has none. */
static const char *value_begin(const char *line, size_t length)
{
	if (memchr("#;[", *line, 3))
		return NULL;
	for (size_t i = 0; i < length; i++) {
		if (line[i] == '=' || line[i] == ':')
			return line + i + 1;
	}
	return NULL;
}

static int value_note(struct source *s, const char *from, const char *end)
{
	kedge__free(s->value);
	s->value = kedge__asprintf("%.*s", (int)(end - from), from);
	if (!s->value)
		s->code = kedge__error_nomem(s->err);
	return s->code;
}

/*
 * inih has a buffer of ROOM bytes per line, takes the rest of a longer line for the next one, and knows no quotes: it
 * is given keys alone. It would take an indented line for another value of the key above, so indentation is removed
 * here.
 */
static char *read_line(char *line, int room, void *source)
{
	struct source *s = source;
	const char *value;
	size_t length, given;

	if (s->code || s->at == s->end)
		return NULL;
	s->line++;
	length = (size_t)((char *)memchr(s->at, '\n', (size_t)(s->end - s->at)) + 1 - s->at);
	while (length > 1 && (*s->at == ' ' || *s->at == '\t')) {
		s->at++;
		length--;
	}
	value = value_begin(s->at, length - 1);
	given = value ? (size_t)(value - s->at) : memchr("#;", *s->at, 2) ? 0 : length - 1;
	if (given + 2 > (size_t)room) {
		fail_line(s, "not of the form key = value");
		return NULL;
	}
	if (value && value_note(s, value, s->at + length) != 0)
		return NULL;
	memcpy(line, s->at, given);
	strcpy(line + given, "\n");
	s->at += length;
	return line;
}

static int take_value(void *source, const char *section, const char *key, const char *value)
{
	const struct kedge__setting *setting;
	struct source *s = source;

	(void)value;
	if (s->code)
		return 0;
	if (*section && strcmp(section, "kedge") != 0) {
		s->code =
		    kedge__error_set(s->err, KEDGE_E_CONFIG, 0,
				     "%s:%d: '%s' is in section [%s], which is unknown; the only section is [kedge]",
				     s->path, s->line, key, section);
		return 0;
	}
	s->code = set_value(s->target, key, s->value ? s->value : "", KEDGE__FORM_FILE, &setting, s->err);
	if (s->code)
		kedge__error_prefix(s->err, "%s:%d", s->path, s->line);
	else
		s->code = origin_note(s->target, setting, kedge__asprintf("%s:%d", s->path, s->line), s->err);
	return s->code == 0;
}

static int parse_source(struct source *s)
{
	int first = ini_parse_stream(read_line, s, take_value, s);

	/* Only if the process lets inih use the heap. */
	if (first < 0)
		return kedge__error_nomem(s->err);
	/* inih continues after a line that it cannot read, and returns the number of the first one. */
	if (first > 0 && (!s->code || first < s->line)) {
		s->line = first;
		fail_line(s, "not of the form key = value");
	}
	return s->code;
}

/* Read all of FD and append a newline, which *BYTES includes. */
static int read_all(int fd, const char *path, char **text, size_t *bytes, struct kedge__error *err)
{
	char *buffer = kedge__malloc(FILE_BYTES_MAX + 1);
	size_t length = 0;
	ssize_t n;

	if (!buffer)
		return kedge__error_nomem(err);
	do {
		n = read(fd, buffer + length, FILE_BYTES_MAX - length);
		if (n > 0)
			length += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0 || length == FILE_BYTES_MAX || memchr(buffer, '\0', length)) {
		kedge__free(buffer);
		return kedge__error_set(
		    err, KEDGE_E_CONFIG, n < 0 ? errno : 0, "%s: %s", path,
		    n < 0 ? "cannot be read"
			  : "not a configuration file: it contains NUL bytes or is larger than 1 MiB");
	}
	buffer[length++] = '\n';
	*text = buffer;
	*bytes = length;
	return 0;
}

int kedge__settings_load_file(const struct kedge__settings *in, const char *path, struct kedge__error *err)
{
	struct source s = {.target = in, .path = path, .err = err};
	char *text = NULL;
	size_t bytes = 0;
	int fd, rc;

	if (kedge__fs_open_read(path, &fd, err) != 0) {
		if (err && err->code != KEDGE_E_NOMEM)
			err->code = KEDGE_E_CONFIG;
		return err ? err->code : KEDGE_E_CONFIG;
	}
	rc = read_all(fd, path, &text, &bytes, err);
	kedge__fs_close(fd);
	if (rc)
		return rc;
	s.at = text;
	s.end = text + bytes;
	rc = parse_source(&s);
	kedge__free(s.value);
	kedge__free(text);
	return rc;
}

static bool is_one_of(const char *name, size_t length, const char *const *list)
{
	for (; list && *list; list++) {
		if (strlen(*list) == length && memcmp(name, *list, length) == 0)
			return true;
	}
	return false;
}

/* Variables that are never settings, whatever ours will be called: one for tests, and those that CMake, Spack and
 * environment modules set for every package. */
static bool is_ignored(const char *name, size_t length, const char *const *ignored)
{
	static const char *const never[] = {"KEDGE_FAULT", "KEDGE_ROOT",   "KEDGE_DIR",
					    "KEDGE_HOME",  "KEDGE_PREFIX", NULL};

	return is_one_of(name, length, never) || is_one_of(name, length, ignored);
}

/* NAME is the variable without its prefix. A name that looks like a misspelt setting is refused; any other probably
 * belongs to another program. */
static int judge_unknown(const struct kedge__settings *t, const char *name, struct kedge__error *err)
{
	const char *nearest;
	char *meant;

	if (find_nearest(t, name, &nearest) != 0)
		return kedge__error_nomem(err);
	if (!nearest) {
		kedge__log(KEDGE_LOG_INFO, "ignoring " ENV_PREFIX "%s in the environment: it is not a setting", name);
		return 0;
	}
	meant = kedge__strdup(nearest);
	if (!meant)
		return kedge__error_nomem(err);
	for (char *c = meant; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	kedge__error_set(err, KEDGE_E_CONFIG, 0, ENV_PREFIX "%s: unknown variable; did you mean " ENV_PREFIX "%s?",
			 name, meant);
	kedge__free(meant);
	return KEDGE_E_CONFIG;
}

/* NAME=VALUE, both without the prefix. */
static int take_variable(const struct kedge__settings *t, const char *entry, size_t name_length,
			 struct kedge__error *err)
{
	char *name = kedge__asprintf("%.*s", (int)name_length, entry);
	const struct kedge__setting *setting;
	int rc;

	if (!name)
		return kedge__error_nomem(err);
	if (!find(t, name)) {
		rc = judge_unknown(t, name, err);
	} else {
		rc = set_value(t, name, entry + name_length + 1, KEDGE__FORM_PLAIN, &setting, err);
		if (rc)
			kedge__error_prefix(err, ENV_PREFIX "%s", name);
		else
			rc = origin_note(t, setting, kedge__asprintf(ENV_PREFIX "%s", name), err);
	}
	kedge__free(name);
	return rc;
}

int kedge__settings_load_env(const struct kedge__settings *in, const char *const *ignored, struct kedge__error *err)
{
	const size_t prefix = strlen(ENV_PREFIX);
	int rc = 0;

	for (char **e = environ; e && *e && rc == 0; e++) {
		const char *equals = strchr(*e, '=');
		size_t length = equals ? (size_t)(equals - *e) : 0;

		if (length < prefix || memcmp(*e, ENV_PREFIX, prefix) != 0 || is_ignored(*e, length, ignored))
			continue;
		rc = take_variable(in, *e + prefix, length - prefix, err);
	}
	return rc;
}
