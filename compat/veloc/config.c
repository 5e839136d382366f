/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VELOC's configuration: flat `key = value` lines, each overridden by $VELOC_<KEY>, unless that is empty. The file may
 * also contain settings of Kedge; $KEDGE_<KEY> overrides that setting, whether the file uses VELOC's name for it or
 * ours.
 */
#include "client.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* VELOC's keys. WHY: the reason why a key has no effect here; NULL: it has one. */
static const struct {
	const char *key, *why;
} known[] = {
    {"scratch", NULL},
    {"persistent", NULL},
    {"mode", NULL},
    {"max_versions", NULL},
    {"scratch_versions", NULL},
    {"persistent_interval", NULL},
    {"log_level", NULL},
    {"originals", NULL},
    {"meta", "metadata is stored with the data"},
    {"chksum", "checksums are always on"},
    {"aggregated", "a version is one set in any case"},
    {"threaded", "there is no daemon"},
    {"ec_interval", "Kedge has no erasure coding between nodes"},
    {"watchdog_interval", "there is no daemon"},
    {"axl_type", "the library copies files itself"},
    {"max_parallelism", "use the setting threads instead"},
    {"daos_pool", "levels are directories"},
    {"daos_cont", "levels are directories"},
    {"log_prefix", "there is no daemon; messages go to stderr"},
    {"failure_domain", "VELOC ignores it, too"},
};

#define KNOWN_COUNT (sizeof(known) / sizeof(known[0]))

static int pair_add(struct veloc__pair **list, const char *key, const char *value)
{
	struct veloc__pair *p = *list;

	while (p && strcmp(p->key, key) != 0)
		p = p->next;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return VELOC_FAILURE;
		p->next = *list;
		*list = p;
		p->key = strdup(key);
	}
	free(p->value);
	p->value = strdup(value);
	return p->key && p->value ? VELOC_SUCCESS : VELOC_FAILURE;
}

/* NULL: it is not set. An empty value sets nothing. */
static const char *pair_get(const struct veloc__pair *list, const char *key)
{
	while (list && strcmp(list->key, key) != 0)
		list = list->next;
	return list && list->value[0] ? list->value : NULL;
}

static void pairs_free(struct veloc__pair *list)
{
	while (list) {
		struct veloc__pair *next = list->next;

		free(list->key);
		free(list->value);
		free(list);
		list = next;
	}
}

static int on_line(void *user, const char *section, const char *key, const char *value)
{
	(void)section;
	return pair_add(user, key, value ? value : "") == VELOC_SUCCESS;
}

static const char *env_of(const char *prefix, const char *key)
{
	char name[80];
	size_t used = (size_t)snprintf(name, sizeof(name), "%s", prefix);

	for (; *key && used + 1 < sizeof(name); key++)
		name[used++] = (char)toupper((unsigned char)*key);
	name[used] = '\0';
	return getenv(name);
}

static int pairs_load(const char *path, struct veloc__pair **list)
{
	int rc = path && path[0] ? ini_parse(path, on_line, list) : 0;

	if (rc < 0)
		veloc__log(KEDGE_LOG_ERROR, "cannot read %s: %s", path, strerror(errno));
	else if (rc > 0)
		veloc__log(KEDGE_LOG_ERROR, "%s:%d: expected key = value", path, rc);
	for (size_t i = 0; i < KNOWN_COUNT && rc == 0; i++) {
		const char *value = env_of("VELOC_", known[i].key);

		if (value && value[0])
			rc = pair_add(list, known[i].key, value);
	}
	return rc ? VELOC_FAILURE : VELOC_SUCCESS;
}

/* ------------------------------------------------------------------ values */

/* As long as the program may change its directory before a job is opened, relative paths must be made absolute. */
char *veloc__path_absolute(const char *path)
{
	char cwd[4096], *out;
	size_t bytes = strlen(path) + sizeof(cwd) + 2;

	if (path[0] == '/')
		return strdup(path);
	out = getcwd(cwd, sizeof(cwd)) ? malloc(bytes) : NULL;
	if (out)
		snprintf(out, bytes, "%s/%s", cwd, path);
	return out;
}

static int number_get(const struct veloc__pair *list, const char *key, long low, long *out)
{
	const char *text = pair_get(list, key);
	char *end;
	long value;

	if (!text)
		return VELOC_SUCCESS;
	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || value < low || value > 1000000000) {
		veloc__log(KEDGE_LOG_ERROR, "%s = %s: must be a number, at least %ld", key, text, low);
		return VELOC_FAILURE;
	}
	*out = value;
	return VELOC_SUCCESS;
}

static int path_get(const struct veloc__pair *list, const char *key, bool needed, char **out)
{
	const char *text = pair_get(list, key);

	if (!text) {
		if (needed)
			veloc__log(KEDGE_LOG_ERROR, "%s is not set: give a directory", key);
		return needed ? VELOC_FAILURE : VELOC_SUCCESS;
	}
	*out = veloc__path_absolute(text);
	return *out ? VELOC_SUCCESS : VELOC_FAILURE;
}

static int mode_get(const struct veloc__pair *list, bool *async)
{
	const char *mode = pair_get(list, "mode");

	if (mode && (strcmp(mode, "sync") == 0 || strcmp(mode, "async") == 0)) {
		*async = mode[0] == 'a';
		return VELOC_SUCCESS;
	}
	veloc__log(KEDGE_LOG_ERROR, "mode = %s: must be sync or async", mode ? mode : "(not set)");
	return VELOC_FAILURE;
}

static bool is_true(const char *text)
{
	return strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0 || strcasecmp(text, "yes") == 0 ||
	       strcasecmp(text, "on") == 0;
}

static bool kedge_knows(const char *key)
{
	const char *name;

	for (size_t i = 0; (name = kedge_setting_name(i)); i++) {
		if (strcmp(name, key) == 0)
			return true;
	}
	return false;
}

static int sort_pair(struct veloc__config *c, const struct veloc__pair *p)
{
	for (size_t i = 0; i < KNOWN_COUNT; i++) {
		if (strcmp(known[i].key, p->key) == 0)
			return known[i].why && p->value[0] ? pair_add(&c->idle, p->key, known[i].why) : VELOC_SUCCESS;
	}
	if (kedge_knows(p->key))
		return pair_add(&c->kedge, p->key, p->value);
	return pair_add(&c->unknown, p->key, "");
}

static int values_take(struct veloc__config *c, const struct veloc__pair *list)
{
	const char *originals = pair_get(list, "originals"), *level = pair_get(list, "log_level");
	int rc = mode_get(list, &c->async);

	if (!rc)
		rc = path_get(list, "scratch", true, &c->scratch);
	if (!rc)
		rc = path_get(list, "persistent", false, &c->persistent);
	if (!rc)
		rc = number_get(list, "max_versions", 0, &c->max_versions);
	if (!rc)
		rc = number_get(list, "scratch_versions", 0, &c->scratch_versions);
	if (!rc)
		rc = number_get(list, "persistent_interval", -1, &c->persistent_interval);
	c->originals = !originals || is_true(originals);
	c->log_level = level ? strdup(level) : NULL;
	for (; list && !rc; list = list->next)
		rc = sort_pair(c, list);
	if (!rc && c->persistent && strcmp(c->scratch, c->persistent) == 0) {
		free(c->persistent); /* the same bytes twice in one place are useless */
		c->persistent = NULL;
	}
	return rc;
}

int veloc__config_load(const char *path, struct veloc__config *c)
{
	struct veloc__pair *list = NULL;
	int rc;

	memset(c, 0, sizeof(*c));
	rc = pairs_load(path, &list);
	if (!rc)
		rc = values_take(c, list);
	pairs_free(list);
	if (rc)
		veloc__config_done(c);
	return rc;
}

void veloc__config_done(struct veloc__config *c)
{
	pairs_free(c->kedge);
	pairs_free(c->idle);
	pairs_free(c->unknown);
	free(c->scratch);
	free(c->persistent);
	free(c->log_level);
	memset(c, 0, sizeof(*c));
}

void veloc__config_report(const struct veloc__config *c)
{
	for (const struct veloc__pair *p = c->idle; p; p = p->next)
		veloc__log(KEDGE_LOG_WARNING, "%s has no effect: %s", p->key, p->value);
	for (const struct veloc__pair *p = c->unknown; p; p = p->next)
		veloc__log(KEDGE_LOG_WARNING, "%s is a setting neither of VELOC nor of Kedge; it is ignored", p->key);
}

/* ------------------------------------------------------------------ in Kedge's words */

struct settings {
	char **at;
	size_t count, room;
	bool failed;
};

/* The environment overrides the file. */
static void settings_add(struct settings *s, const char *key, const char *value)
{
	size_t bytes = strlen(key) + strlen(value) + 2;

	if (env_of("KEDGE_", key))
		return;
	if (s->count + 1 >= s->room) {
		char **at = realloc(s->at, (s->room + 16) * sizeof(*at));

		s->failed = s->failed || !at;
		if (!at)
			return;
		s->at = at;
		s->room += 16;
	}
	s->at[s->count] = malloc(bytes);
	s->failed = s->failed || !s->at[s->count];
	if (s->at[s->count])
		snprintf(s->at[s->count++], bytes, "%s=%s", key, value);
	s->at[s->count] = NULL;
}

static void settings_number(struct settings *s, const char *key, long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", value);
	settings_add(s, key, text);
}

/* In mode async a version is copied and finished in the background. Never cow: programs free memory right after a
 * checkpoint. */
char **veloc__settings_make(const struct veloc__config *c)
{
	struct settings s = {0};

	settings_add(&s, "l1", c->scratch);
	settings_add(&s, "init", "yes"); /* VELOC's directories may contain any files */
	settings_add(&s, "l2", c->persistent ? c->persistent : "");
	settings_number(&s, "keep", c->scratch_versions);
	settings_number(&s, "l2_keep", c->max_versions);
	settings_number(&s, "l2_interval", c->persistent_interval);
	settings_add(&s, "capture", c->async ? "copy" : "sync");
	settings_add(&s, "reducer", "basic"); /* the cheapest choice if nothing is known about the data */
	for (const struct veloc__pair *p = c->kedge; p; p = p->next)
		settings_add(&s, p->key, p->value);
	if (!s.at)
		s.at = calloc(1, sizeof(*s.at));
	if (!s.failed)
		return s.at;
	veloc__settings_free(s.at);
	return NULL;
}

void veloc__settings_free(char **settings)
{
	for (size_t i = 0; settings && settings[i]; i++)
		free(settings[i]);
	free(settings);
}
