/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge info: what this build can do on this machine, and every setting. */
#include "capture/capture.h"
#include "equal/equal.h"
#include "gpu/gpu.h"
#include "stage/stage.h"
#include "tool.h"
#include "tool_http.h"

struct info {
	struct kedge__usage usage;
	bool config, json, quiet;
	struct kedge__text_list sets;
	struct kedge__job_settings settings;
	char **origins; /* where each setting is from; NULL: the default */
};

static const char *setting_type(const struct kedge__setting *s)
{
	switch (s->type) {
	case KEDGE__SETTING_STRING:
		return "text";
	case KEDGE__SETTING_PLACE:
		return "a path";
	case KEDGE__SETTING_BOOL:
		return "yes or no";
	case KEDGE__SETTING_INT:
		return "number";
	case KEDGE__SETTING_SIZE:
		return "bytes; k, M, G, T are powers of 1024";
	case KEDGE__SETTING_REAL:
		return "number";
	case KEDGE__SETTING_CHOICE:
		return "one of";
	}
	return "?";
}

/* TEXT as comment lines of at most about 100 characters. */
static void print_comment(const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t n = strcspn(text, " \n");

		if (n && column + n > 96) {
			putchar('\n');
			column = 0;
		}
		if (n)
			column += (size_t)printf("%s%.*s", column ? " " : "# ", (int)n, text);
		text += n + (text[n] != '\0');
	}
	putchar('\n');
}

static const char *setting_origin(const struct info *in, size_t i)
{
	return in->origins[i] ? in->origins[i] : "default";
}

static void print_setting(const struct info *in, size_t i)
{
	const struct kedge__setting *s = &kedge__job_settings_table[i];
	char *value = kedge__settings_written(s, &in->settings);

	if (!value)
		kedge__tool_no_memory();
	print_comment(s->doc);
	printf("# (%s", setting_type(s));
	if (s->type == KEDGE__SETTING_CHOICE)
		for (const char *const *c = s->choices; *c; c++)
			printf("%s %s", c == s->choices ? "" : ",", *c);
	printf("; environment: KEDGE_");
	for (const char *p = s->key; *p; p++)
		putchar(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
	kedge__print(stdout, ")\n%s =%s%s   # %s\n\n", s->key, *value ? " " : "", value, setting_origin(in, i));
	kedge__free(value);
}

static void print_group(const struct info *in, bool tuning)
{
	for (size_t i = 0; i < kedge__job_settings_count; i++)
		if (kedge__job_settings_table[i].tuning == tuning)
			print_setting(in, i);
}

/* scripts/make-man.sh makes the settings of kedge.conf(5) from this. */
static void print_config(const struct info *in)
{
	puts("# Every setting of Kedge, its value here and now, and where that comes from: a file and its line, a "
	     "variable "
	     "of\n# the environment, --set, or the default. This is a file of settings itself: keep the lines that you "
	     "change in\n# ~/.config/kedge.conf, or in a file that $KEDGE_CONFIG names. See "
	     "kedge.conf(5).\n\n[kedge]\n");
	print_group(in, false);
	puts("# ---- Tuning: nobody needs to set anything below this line.\n");
	print_group(in, true);
}

static json_t *settings_json(const struct info *in)
{
	json_t *list = kedge__json_array();

	for (size_t i = 0; i < kedge__job_settings_count; i++) {
		const struct kedge__setting *s = &kedge__job_settings_table[i];
		char *value = kedge__settings_format(s, &in->settings);
		json_t *o = kedge__json_object();

		kedge__json_text(o, "key", s->key);
		kedge__json_text(o, "group", s->tuning ? "tuning" : "common");
		kedge__json_text(o, "value", value);
		kedge__json_text(o, "default", s->preset);
		kedge__json_text(o, "from", setting_origin(in, i));
		kedge__json_text(o, "type", setting_type(s));
		kedge__json_text(o, "doc", s->doc);
		kedge__json_add(list, o);
		kedge__free(value);
	}
	return list;
}

/* Of HDF5 files, that --equal undoes. */
static const struct kedge__filter *const filters[] = {&kedge__filter_deflate, &kedge__filter_szip};

static json_t *filters_json(void)
{
	json_t *list = kedge__json_array();

	for (size_t i = 0; i < KEDGE__COUNT(filters); i++)
		if (filters[i]->built)
			kedge__json_add(list, kedge__json_string(filters[i]->name));
	return list;
}

static json_t *codecs_json(void)
{
	json_t *list = kedge__json_array();

	for (size_t i = 0; i < kedge__codec_count(); i++)
		kedge__json_add(list, kedge__json_string(kedge__codec_at(i)->name));
	return list;
}

static json_t *gpu_json(void)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	struct kedge__gpu_about about;
	int rc = kedge__gpu_about(&about, &why);
	json_t *o = kedge__json_object();

	kedge__json_bool(o, "usable", rc == 0);
	kedge__json_text(o, "problem", rc ? kedge__error_text(&why) : NULL);
	kedge__json_text(o, "kernels", kedge__gpu_kernels ? kedge__gpu_kernels_for : NULL);
	kedge__json_text(o, "driver", about.driver[0] ? about.driver : NULL);
	kedge__json_uint(o, "devices", (uint64_t)about.devices);
	kedge__json_text(o, "name", about.name[0] ? about.name : NULL);
	kedge__json_uint(o, "memory", about.memory);
	kedge__error_done(&why);
	return o;
}

static void print_gpu(void)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	struct kedge__gpu_about about;
	char memory[KEDGE__TEXT_ROOM];

	if (kedge__gpu_about(&about, &why) != 0)
		printf("GPU            none: %s\n", kedge__error_text(&why));
	else
		printf("GPU            %s, %s, compute capability %d.%d, driver for CUDA %s%s\n", about.name,
		       kedge__text_bytes(about.memory, memory), about.major, about.minor, about.driver,
		       about.devices > 1 ? ", and others" : "");
	printf("GPU kernels    %s\n", kedge__gpu_kernels ? kedge__gpu_kernels_for : "not in this build (no nvcc)");
	kedge__error_done(&why);
}

/* The kinds of setting `track`, each tried out on this machine. */
static json_t *trackers_json(void)
{
	json_t *list = kedge__json_array();
	const char *kind;

	for (size_t i = 0; (kind = kedge__tracker_kind(i)) != NULL; i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		int rc = kedge__tracker_probe(kind, &err);
		json_t *o = kedge__json_object();

		kedge__json_text(o, "name", kind);
		kedge__json_bool(o, "works", rc == 0);
		kedge__json_text(o, "problem", rc ? kedge__error_text(&err) : NULL);
		kedge__json_add(list, o);
		kedge__error_done(&err);
	}
	return list;
}

static void print_trackers(void)
{
	char device[300];
	const char *kind;

	printf("trackers      ");
	for (size_t i = 0; (kind = kedge__tracker_kind(i)) != NULL; i++) {
		if (kedge__tracker_probe(kind, NULL) == 0)
			printf(" %s", kind);
	}
	putchar('\n');
	for (size_t i = 0; (kind = kedge__tracker_kind(i)) != NULL; i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;

		if (kedge__tracker_probe(kind, &err) != 0)
			printf("               not %s: %s\n", kind, kedge__error_text(&err));
		kedge__error_done(&err);
	}
	if (kedge__device_find("", device, sizeof(device)))
		printf("               auto is none, because %s could write to memory unseen\n", device);
}

/* Why `writer = uring` does not work on this machine; NULL if it does. */
static const char *uring_problem(void)
{
	int refused = kedge__fs_queue_probe();

	if (!kedge__fs_queue_built())
		return "not compiled in (liburing)";
	return refused ? strerror(refused) : NULL;
}

static json_t *writers_json(void)
{
	static const char *const names[] = {"pwrite", "uring"};
	json_t *list = kedge__json_array();

	for (size_t i = 0; i < KEDGE__COUNT(names); i++) {
		const char *problem = i == 1 ? uring_problem() : NULL;
		json_t *o = kedge__json_object();

		kedge__json_text(o, "name", names[i]);
		kedge__json_bool(o, "works", !problem);
		kedge__json_text(o, "problem", problem);
		kedge__json_add(list, o);
	}
	return list;
}

static void print_writers(void)
{
	const char *problem = uring_problem();

	printf("writers        pwrite%s\n", problem ? "" : " uring");
	if (problem)
		printf("               not uring: %s\n", problem);
}

/* Whether `capture = cow` works on this machine. */
static json_t *cow_json(void)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	bool kernel_writes = false;
	int rc = kedge__cow_probe(&kernel_writes, &err);
	json_t *o = kedge__json_object();

	kedge__json_bool(o, "works", rc == 0);
	kedge__json_bool(o, "system_calls", rc == 0 && kernel_writes);
	kedge__json_text(o, "problem", rc ? kedge__error_text(&err) : NULL);
	kedge__error_done(&err);
	return o;
}

static void print_cow(void)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	bool kernel_writes;

	if (kedge__cow_probe(&kernel_writes, &err) != 0)
		printf("copy-on-write  no: %s\n", kedge__error_text(&err));
	else if (kernel_writes)
		printf("copy-on-write  yes (capture = cow)\n");
	else
		printf("copy-on-write  only for programs without system calls that write to regions (capture = "
		       "cow-user)\n");
	kedge__error_done(&err);
}

static json_t *words_json(const char *words)
{
	json_t *list = kedge__json_array();

	for (; *words; words += strspn(words, " ")) {
		size_t n = strcspn(words, " ");

		kedge__json_add(list, json_stringn(words, n));
		words += n;
	}
	return list;
}

static void print_json(const struct info *in)
{
	json_t *o = kedge__json_object();
	char format[KEDGE__TEXT_ROOM];

	snprintf(format, sizeof(format), "%d.%d", KEDGE__FORMAT_MAJOR, KEDGE__FORMAT_NEWEST);
	kedge__json_text(o, "version", kedge_version_string());
	kedge__json_text(o, "format", format);
	kedge__json_set(o, "codecs", codecs_json());
	kedge__json_set(o, "filters", filters_json());
	kedge__json_text(o, "digest_kernel", kedge__digest_kernel());
	kedge__json_text(o, "redundancy", kedge__code_engine());
	kedge__json_set(o, "trackers", trackers_json());
	kedge__json_set(o, "writers", writers_json());
	kedge__json_set(o, "copy_on_write", cow_json());
	kedge__json_set(o, "gpu", gpu_json());
	kedge__json_uint(o, "threads", (uint64_t)kedge__tool_threads(&in->settings));
	kedge__json_set(o, "stages", words_json(KEDGE_BUILD_STAGES));
	kedge__json_bool(o, "mpi", KEDGE_BUILD_MPI);
	kedge__json_text(o, "staging", kedge__stage_text());
	kedge__json_text(o, "http", kedge__http_built() ? "libmicrohttpd" : "no");
	kedge__json_text(o, "compiler", KEDGE_BUILD_COMPILER);
	kedge__json_text(o, "build_type", KEDGE_BUILD_TYPE);
	kedge__json_set(o, "settings", settings_json(in));
	kedge__json_print(o);
}

static void print_settings(const struct info *in, bool tuning)
{
	struct kedge__table t;

	kedge__table_init(&t, "llll");
	kedge__table_add(&t, tuning ? "TUNING" : "SETTING");
	kedge__table_add(&t, "VALUE");
	kedge__table_add(&t, "DEFAULT");
	kedge__table_add(&t, "FROM");
	for (size_t i = 0; i < kedge__job_settings_count; i++) {
		const struct kedge__setting *s = &kedge__job_settings_table[i];
		char *value;

		if (s->tuning != tuning)
			continue;
		value = kedge__settings_format(s, &in->settings);
		kedge__table_add(&t, "%s", s->key);
		kedge__table_add(&t, "%s", !value ? "?" : *value ? value : "-");
		kedge__table_add(&t, "%s", *s->preset ? s->preset : "-");
		kedge__table_add(&t, "%s", setting_origin(in, i));
		kedge__free(value);
	}
	puts(tuning ? "\nNobody needs to set these:" : "");
	kedge__table_print(&t, stdout);
}

static void print_text(const struct info *in)
{
	printf("kedge          %s\n", kedge_version_string());
	printf("format         %d.%d\n", KEDGE__FORMAT_MAJOR, KEDGE__FORMAT_NEWEST);
	printf("codecs        ");
	for (size_t i = 0; i < kedge__codec_count(); i++)
		printf(" %s", kedge__codec_at(i)->name);
	printf("\nfilters       ");
	for (size_t i = 0; i < KEDGE__COUNT(filters); i++)
		printf("%s%s", filters[i]->built ? " " : "", filters[i]->built ? filters[i]->name : "");
	printf("%s\ndigest kernel  %s\n", kedge__filters_built() ? " (--equal)" : " none", kedge__digest_kernel());
	printf("redundancy     %s\n", kedge__code_engine());
	print_trackers();
	print_writers();
	print_cow();
	print_gpu();
	printf("threads        %d\n", kedge__tool_threads(&in->settings));
	printf("stages         %s\n", KEDGE_BUILD_STAGES);
	printf("MPI            %s\n", KEDGE_BUILD_MPI ? "yes" : "no");
	printf("staging        %s\n", kedge__stage_text());
	printf("HTTP           %s\n", kedge__http_built() ? "libmicrohttpd" : "no");
	printf("compiler       %s, %s\n", KEDGE_BUILD_COMPILER, KEDGE_BUILD_TYPE);
	print_settings(in, false);
	print_settings(in, true);
}

static int settings_learn(struct info *in, struct kedge__error *err)
{
	struct kedge__job_sources from = {.call = "--set", .rank = KEDGE__RANK_ANY};

	in->origins = from.origins = kedge__calloc(kedge__job_settings_count, sizeof(*in->origins));
	if (!in->origins || !kedge__array_push(&in->sets, NULL))
		kedge__tool_no_memory();
	from.overrides = in->sets.at;
	return kedge__job_settings_load(&from, &in->settings, err);
}

static void settings_forget(struct info *in)
{
	for (size_t i = 0; in->origins && i < kedge__job_settings_count; i++)
		kedge__free(in->origins[i]);
	kedge__free(in->origins);
	kedge__array_done(&in->sets);
}

static int info(struct info *in)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (settings_learn(in, &err) != 0)
		return kedge__tool_fail(in->usage.command, &err, "cannot read the settings");
	if (in->json)
		print_json(in);
	else if (in->config)
		print_config(in);
	else if (!in->quiet)
		print_text(in);
	kedge__job_settings_done(&in->settings);
	return KEDGE__EXIT_OK;
}

int kedge__tool_info(int argc, char **argv)
{
	struct info in = {0};
	const struct kedge__option options[] = {
	    {"config", 0, KEDGE__OPTION_FLAG, &in.config, NULL,
	     "print every setting as a file of settings: value, where that comes from, description"},
	    KEDGE__OPTION_SET(&in.sets),
	    KEDGE__OPTION_JSON(&in.json),
	    {"quiet", 'q', KEDGE__OPTION_FLAG, &in.quiet, NULL, "print nothing; exit code 2 if a setting is wrong"},
	};
	int first, status;

	in.usage = (struct kedge__usage){
	    .command = "kedge info",
	    .about =
		"Prints what this build can do: version, format, codecs, digest kernel, page trackers and writers "
		"that\n"
		"work on this machine, its GPU, stages, MPI, and every setting: its value, and where that comes from.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge info --config > kedge.conf",
	};
	if (kedge__options_parse(&in.usage, argc, argv, &first, &status))
		status = info(&in);
	settings_forget(&in);
	return status;
}
