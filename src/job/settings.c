/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/job.h"
#include "job/requests.h"
#include "stage/stage.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const reducers[] = {"full", "basic", "list", "tree", "auto", "rex", NULL};
static const char *const captures[] = {"sync", "copy", "cow", "cow-user", NULL}; /* enum kedge__capture_mode */
static const char *const coalescing[] = {"auto", "batch", "never", NULL};        /* enum kedge__coalesce_mode */
static const char *const tracks[] = {"none",     "auto",      "uffd",
				     "mprotect", "softdirty", NULL}; /* enum kedge__track_mode */
static const char *const schemes[] = {"off",  "agnostic", "agnostic-block", "aware", "aware-block",
				      "auto", NULL};                    /* enum kedge__aggregate_scheme */
static const char *const writers[] = {"auto", "pwrite", "uring", NULL}; /* enum kedge__writer */

#define TYPE_TEXT                .type = KEDGE__SETTING_STRING
#define TYPE_PLACE               .type = KEDGE__SETTING_PLACE
#define TYPE_BOOL                .type = KEDGE__SETTING_BOOL
#define TYPE_NUMBER(least, most) .type = KEDGE__SETTING_INT, .min = least, .max = most
#define TYPE_SIZE(least, most)   .type = KEDGE__SETTING_SIZE, .min = least, .max = most
#define TYPE_CHOICE(words)       .type = KEDGE__SETTING_CHOICE, .choices = words
#define GROUP_COMMON             .tuning = false
#define GROUP_TUNING             .tuning = true
#define SETTING(key_, kind_, preset_, group_, doc_)                                                                    \
	{.key = #key_,                                                                                                 \
	 .offset = offsetof(struct kedge__job_settings, key_),                                                         \
	 TYPE_##kind_,                                                                                                 \
	 .preset = preset_,                                                                                            \
	 GROUP_##group_,                                                                                               \
	 .doc = doc_},

const struct kedge__setting kedge__job_settings_table[] = {
#include "job/settings.def"
};

const size_t kedge__job_settings_count = KEDGE__COUNT(kedge__job_settings_table);

const char *const kedge__job_env_ignored[] = {
    "KEDGE_CONFIG",      "KEDGE_FAULT",
    "KEDGE_RUN_JOURNAL", "KEDGE_RUN_LAUNCH",
    "KEDGE_RUN_ID",      "KEDGE_RUN_RETRIES",
    "KEDGE_RUN_REQUEST", "KEDGE_RUN_WATCHDOG",
    "KEDGE_NO_COLOR",    "KEDGE_BIN",
    "KEDGE_SOURCE",      "KEDGE_STORE",
    "KEDGE_NAME",        NULL,
};

static int chunk_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	if ((s->chunk & (s->chunk - 1)) != 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "chunk = %llu: must be a power of two from 32 to 65536",
					(unsigned long long)s->chunk);
	return 0;
}

static int pattern_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	if ((s->pattern & (s->pattern - 1)) != 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "pattern = %llu: must be a power of two from 16 to 256",
					(unsigned long long)s->pattern);
	return 0;
}

/* What is wrong with an address is said before a job has run for hours. */
static int stage_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	struct kedge__address *list;
	size_t count;
	int rc;

	if (!s->stage[0])
		return 0;
	if (!kedge__stage_built())
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"stage = %s: this build has no staging (kedge info shows what it has)",
					s->stage);
	rc = kedge__address_list(s->stage, &list, &count, err);
	if (rc)
		return kedge__error_prefix(err, "stage");
	kedge__free(list);
	return 0;
}

enum kedge__reducer_id kedge__job_settings_reducer(const struct kedge__job_settings *s)
{
	enum kedge__reducer_id id = KEDGE__REDUCER_AUTO;

	(void)kedge__reducer_parse(reducers[s->reducer], &id);
	return id;
}

static int seconds_parse(const char *key, const char *text, double *out, struct kedge__error *err)
{
	if (kedge__quantity_parse(KEDGE__QUANTITY_SECONDS, text, out, err) == 0)
		return 0;
	kedge__error_prefix(err, "%s", key);
	if (err)
		err->code = KEDGE_E_CONFIG;
	return KEDGE_E_CONFIG;
}

int kedge__job_settings_policy(const struct kedge__job_settings *s, struct kedge__policy_config *out,
			       struct kedge__error *err)
{
	struct kedge__policy_config c = {
	    .adaptive = s->adaptive,
	    .l2 = s->l2[0] != '\0',
	    .l2_every = (uint64_t)s->l2_every,
	    .l2_interval = (double)KEDGE__MAX(s->l2_interval, 0),
	};
	int rc = seconds_parse("interval", s->interval, &c.interval, err);

	if (!rc)
		rc = seconds_parse("mtbf", s->mtbf, &c.mtbf, err);
	if (!rc)
		rc = seconds_parse("l2_mtbf", s->l2_mtbf, &c.l2_mtbf, err);
	if (!rc && c.l2_mtbf > 0 && c.l2_mtbf < c.mtbf)
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0,
				      "l2_mtbf = %s is less than mtbf = %s: failures that lose L1 cannot be more "
				      "frequent than all failures",
				      s->l2_mtbf, s->mtbf);
	if (!rc && c.l2_mtbf > 0 && !(c.mtbf > 0))
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0, "l2_mtbf is set, but mtbf is not: set both or neither");
	if (!rc)
		*out = c;
	return rc;
}

/* "25%" of MEMORY bytes, or a number of bytes. */
static int gpu_memory_parse(const char *text, uint64_t memory, uint64_t *bytes, struct kedge__error *err)
{
	char *end = NULL;
	double percent = strtod(text, &end);

	if (kedge__size_parse(text, bytes) == 0)
		return 0;
	if (end == text || strcmp(end, "%") != 0 || !(percent >= 0 && percent <= 100))
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"gpu_memory = %s: must be a size in bytes, as in 2G, or a percentage of the "
					"GPU's memory, as in 10%%",
					text);
	*bytes = (uint64_t)((double)memory / 100 * percent);
	if (percent > 0 && !*bytes)
		*bytes = 1;
	return 0;
}

/* NULL: no turns. */
static int gpu_turns_parse(const char *text, const char **queues, struct kedge__error *err)
{
	if (strcmp(text, "yes") == 0)
		*queues = "";
	else if (strcmp(text, "no") == 0)
		*queues = NULL;
	else if (text[0] == '/')
		*queues = text;
	else
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"gpu_turns = %s: must be yes, no, or the path of a directory from / on", text);
	return 0;
}

int kedge__job_settings_gpu(const struct kedge__job_settings *s, struct kedge__gpu *g, struct kedge__error *err)
{
	int rc = gpu_memory_parse(s->gpu_memory, g->memory, &g->limit, err);

	return rc ? rc : gpu_turns_parse(s->gpu_turns, &g->queues, err);
}

static int keep_text_check(const char *key, const char *text, struct kedge__error *err)
{
	struct kedge__keep keep;
	int rc = kedge__keep_parse(text, &keep, err);

	return rc ? kedge__error_prefix(err, "%s", key) : 0;
}

static int keep_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	return keep_text_check("keep", s->keep, err);
}

static int l2_keep_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	return keep_text_check("l2_keep", s->l2_keep, err);
}

struct kedge__keep kedge__job_settings_keep(const struct kedge__job_settings *s, int level)
{
	struct kedge__keep keep = {0};

	(void)kedge__keep_parse(level == 0 ? s->keep : s->l2_keep, &keep, NULL); /* it was checked */
	return keep;
}

static int journal_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	if (s->journal[0] != '/' && strcmp(s->journal, "yes") != 0 && strcmp(s->journal, "no") != 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"journal = %s: must be yes, no, or the path of a file or directory from / on",
					s->journal);
	return 0;
}

static int metrics_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	if (s->metrics[0] && s->metrics[0] != '/')
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"metrics = %s: must be the path of a file or directory from / on, or empty",
					s->metrics);
	return 0;
}

char *kedge__job_file(const char *place, const char *name, const char *suffix)
{
	size_t length = strlen(place);
	struct stat st;

	if (length && place[length - 1] == '/')
		return kedge__asprintf("%s%s%s", place, name, suffix);
	if (stat(place, &st) == 0 && S_ISDIR(st.st_mode))
		return kedge__asprintf("%s/%s%s", place, name, suffix);
	return kedge__strdup(place);
}

static int l1_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	return s->l1[0] ? 0 : kedge__error_set(err, KEDGE_E_CONFIG, 0, "l1 is empty: it must name a directory");
}

/* The next name of a path from *AT on, and its length; false: there is none. Names that say nothing are passed over. */
static bool name_next(const char **at, const char **name, size_t *length)
{
	do {
		*at += strspn(*at, "/");
		*name = *at;
		*length = strcspn(*at, "/");
		*at += *length;
	} while (*length == 1 && **name == '.');
	return *length > 0;
}

/* Two paths of one directory, also if it is not there yet. */
static bool same_directory(const char *a, const char *b)
{
	const char *x, *y;
	size_t n, m;
	struct stat s, t;
	bool more;

	if (stat(a, &s) == 0 && stat(b, &t) == 0)
		return s.st_dev == t.st_dev && s.st_ino == t.st_ino;
	if ((*a == '/') != (*b == '/'))
		return false;
	do {
		more = name_next(&a, &x, &n);
		if (name_next(&b, &y, &m) != more || n != m || strncmp(x, y, n) != 0)
			return false;
	} while (more);
	return true;
}

static int l2_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	if (s->l2[0] && same_directory(s->l1, s->l2))
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "l1 and l2 are the same directory: %s", s->l1);
	return 0;
}

static int on_signal_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	return kedge__signals_check(s->on_signal, err);
}

static int protect_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	struct kedge__protection protection;

	return kedge__protection_parse(s->protect, &protection, err);
}

static int interval_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	double seconds;

	return seconds_parse("interval", s->interval, &seconds, err);
}

static int mtbf_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	double seconds;

	return seconds_parse("mtbf", s->mtbf, &seconds, err);
}

/* And whether it fits to the others. */
static int l2_mtbf_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	struct kedge__policy_config policy;

	return kedge__job_settings_policy(s, &policy, err);
}

static int gpu_memory_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	uint64_t bytes;

	return gpu_memory_parse(s->gpu_memory, 0, &bytes, err);
}

static int gpu_turns_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	const char *queues;

	return gpu_turns_parse(s->gpu_turns, &queues, err);
}

static int codec_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	struct kedge__codec_choice choice;

	if (kedge__codec_choice_parse(s->codec, &choice, err) == 0)
		return 0;
	kedge__error_prefix(err, "codec = %s", s->codec);
	if (err)
		err->code = KEDGE_E_CONFIG;
	return KEDGE_E_CONFIG;
}

/* What the type of a setting does not say about its values. */
static const struct {
	const char *key;
	int (*check)(const struct kedge__job_settings *s, struct kedge__error *err);
} checks[] = {
    {"keep", keep_check},
    {"l2_keep", l2_keep_check},
    {"chunk", chunk_check},
    {"pattern", pattern_check},
    {"l1", l1_check},
    {"l2", l2_check},
    {"stage", stage_check},
    {"on_signal", on_signal_check},
    {"journal", journal_check},
    {"metrics", metrics_check},
    {"protect", protect_check},
    {"interval", interval_check},
    {"mtbf", mtbf_check},
    {"l2_mtbf", l2_mtbf_check},
    {"gpu_memory", gpu_memory_check},
    {"gpu_turns", gpu_turns_check},
    {"codec", codec_check},
};

/* What is wrong with the value of KEY is said with the place where it was written. */
static void origin_add(const struct kedge__settings *in, const char *key, struct kedge__error *err)
{
	for (size_t i = 0; i < in->n; i++)
		if (strcmp(in->table[i].key, key) == 0 && in->origins[i])
			(void)kedge__error_prefix(err, "%s", in->origins[i]);
}

static int values_check(const struct kedge__settings *in, const struct kedge__job_settings *s, struct kedge__error *err)
{
	for (size_t i = 0; i < KEDGE__COUNT(checks); i++) {
		int rc = checks[i].check(s, err);

		if (rc) {
			origin_add(in, checks[i].key, err);
			return rc;
		}
	}
	return 0;
}

static int override_set(const struct kedge__settings *in, const char *pair, const char *call, struct kedge__error *err)
{
	const char *equals = strchr(pair, '=');
	char *key;
	int rc;

	if (!equals)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "\"%s\" is not of the form key=value", pair);
	key = kedge__strdup(pair);
	if (!key)
		return kedge__error_nomem(err);
	key[equals - pair] = '\0';
	rc = kedge__settings_set(in, key, equals + 1, KEDGE__FORM_PLAIN, call, err);
	kedge__free(key);
	return rc;
}

/* The user's own file, if there is one: $XDG_CONFIG_HOME/kedge.conf, or ~/.config/kedge.conf. */
static int user_file_load(const struct kedge__settings *in, struct kedge__error *err)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int rc = 0;

	if (xdg && xdg[0] == '/')
		path = kedge__asprintf("%s/kedge.conf", xdg);
	else if (home && home[0] == '/')
		path = kedge__asprintf("%s/.config/kedge.conf", home);
	else
		return 0;
	if (!path)
		return kedge__error_nomem(err);
	if (access(path, F_OK) == 0)
		rc = kedge__settings_load_file(in, path, err);
	kedge__free(path);
	return rc;
}

static int file_load(const struct kedge__settings *in, const char *config, struct kedge__error *err)
{
	if (!config)
		config = getenv("KEDGE_CONFIG");
	if (!config)
		return user_file_load(in, err);
	return config[0] ? kedge__settings_load_file(in, config, err) : 0;
}

static int sources_load(const struct kedge__job_sources *from, char **origins, struct kedge__job_settings *s,
			struct kedge__error *err)
{
	const struct kedge__settings in = {kedge__job_settings_table, kedge__job_settings_count, s, origins};
	int rc = file_load(&in, from->config, err);

	if (!rc)
		rc = kedge__settings_load_env(&in, kedge__job_env_ignored, err);
	for (size_t i = 0; !rc && from->overrides && from->overrides[i]; i++)
		rc = override_set(&in, from->overrides[i], from->call, err);
	if (!rc)
		rc = kedge__settings_places(&in, from->rank, err);
	return rc ? rc : values_check(&in, s, err);
}

void kedge__job_bucket_init(struct kedge__bucket *b, uint64_t rate)
{
	kedge__bucket_init(b, (double)rate, KEDGE__MAX((double)rate / 4, 1048576.0));
}

struct kedge__io kedge__job_settings_io(const struct kedge__job_settings *s)
{
	return (struct kedge__io){(enum kedge__writer)s->writer, s->direct, s->buffer, (size_t)s->queue};
}

int kedge__job_settings_load(const struct kedge__job_sources *from, struct kedge__job_settings *s,
			     struct kedge__error *err)
{
	char *own[KEDGE__COUNT(kedge__job_settings_table)] = {0};
	int rc = kedge__settings_init(kedge__job_settings_table, kedge__job_settings_count, s, err);

	if (rc)
		return rc;
	rc = sources_load(from, from->origins ? from->origins : own, s, err);
	for (size_t i = 0; i < KEDGE__COUNT(own); i++)
		kedge__free(own[i]);
	if (rc)
		kedge__job_settings_done(s);
	return rc;
}

static int path_root(char **path, struct kedge__error *err)
{
	char *absolute;
	int rc = (*path)[0] ? kedge__fs_absolute(*path, &absolute, err) : 0;

	if (rc || !(*path)[0])
		return rc;
	kedge__free(*path);
	*path = absolute;
	return 0;
}

int kedge__job_settings_root(struct kedge__job_settings *s, struct kedge__error *err)
{
	int rc = path_root(&s->l1, err);

	return rc ? rc : path_root(&s->l2, err);
}

void kedge__job_settings_done(struct kedge__job_settings *s)
{
	kedge__settings_done(kedge__job_settings_table, kedge__job_settings_count, s);
}

const char *kedge_setting_name(size_t i)
{
	return i < kedge__job_settings_count ? kedge__job_settings_table[i].key : NULL;
}
