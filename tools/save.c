/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge save: files, or an image of memory pages, become the regions of a new version. */
#include "save_files.h"
#include "save_job.h"
#include "save_pages.h"
#include "tool_keyed.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define FILES_ALONE 32 /* so few are read by one thread */

struct save {
	struct kedge__usage usage;
	const struct kedge__save_as *as;
	const char *store, *name, *reduce, *codec, *codec_rate, *type, *chunk, *block;
	const char *page_index, *page_data;
	const char *note, *ranks;
	uint64_t version, group_size;
	const char *stdin_name;
	bool paranoid, replace, init, json, quiet, force, nul;
	bool sealed;    /* on L1, as far as the checkpoint says */
	char *own_name; /* NAME, if it is that of the operand */
	struct kedge__text_list sets, excludes, exclude_files, lists;
	enum kedge_type element;
	struct kedge__save_set set;
	struct kedge__save_pages pages;
	struct kedge__bar bar;
	struct kedge__save_job job;
	struct kedge_stats stats; /* of all segments together */
	double seconds;
};

/* A mapped file that is cut short turns into SIGBUS at the next touch. Nothing was published yet; the next open of
 * the store removes what was written. */
static void cut_short(int sig)
{
	static const char text[] = "kedge save: nothing was saved: a file was truncated while it was being read\n";

	(void)sig;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(KEDGE__EXIT_IO);
	_exit(KEDGE__EXIT_IO);
}

static void progress(void *user, const struct kedge_progress *p)
{
	struct save *s = user;

	kedge__bar_label(&s->bar, p->phase);
	kedge__bar_update(&s->bar, p->done_bytes, p->total_bytes);
	if (strcmp(p->phase, "flush") == 0 || (strcmp(p->phase, "write") == 0 && p->done_bytes >= p->total_bytes))
		kedge__tool_outcome("the version was nearly complete; 'kedge ls' says whether it is there");
}

static void push_setting(struct kedge__text_list *list, const char *key, const char *value)
{
	char *text = value ? kedge__asprintf("%s=%s", key, value) : NULL;

	if (value && (!text || !kedge__array_push(list, text)))
		kedge__tool_no_memory();
}

/* The options as settings; --set comes last and wins. */
static int open_job(struct save *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__text_list list = {0};
	char *l1 = s->store ? kedge__tool_literal(s->store) : NULL;
	size_t own;
	int rc;

	push_setting(&list, "l1", l1);
	kedge__free(l1);
	push_setting(&list, "reducer", s->reduce);
	push_setting(&list, "chunk", s->chunk);
	push_setting(&list, "codec", s->codec);
	push_setting(&list, "codec_rate", s->codec_rate);
	push_setting(&list, "block", s->block);
	push_setting(&list, "paranoid", s->paranoid ? "yes" : NULL);
	push_setting(&list, "init", s->init ? "yes" : NULL);
	push_setting(&list, "capture", "sync");
	own = list.count;
	for (size_t i = 0; i < s->sets.count; i++)
		if (!kedge__array_push(&list, s->sets.at[i]))
			kedge__tool_no_memory();
	rc = kedge__save_job_open(&s->job, s->name, &list, (int)s->set.part_count, &err);
	for (size_t i = 0; i < own; i++)
		kedge__free((char *)list.at[i]);
	kedge__array_done(&list);
	return rc ? kedge__tool_fail(s->usage.command, &err, "nothing was saved") : 0;
}

/* The number of the new version. Older versions are discarded only if the user asked for it: --replace discards all
 * above. */
static int choose_version(struct save *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint64_t after;
	int rc = kedge__job_taken(s->job.k[0], &after, &err);

	if (rc)
		return kedge__tool_fail(s->usage.command, &err, "cannot list the versions of %s", s->name);
	if (s->version == KEDGE__NO_VERSION) {
		s->version = KEDGE__MAX(after, 1);
		return 0;
	}
	if (s->version >= after)
		return 0;
	if (s->replace) {
		rc = kedge__save_job_discard(&s->job, s->version, &err);
		return rc ? kedge__tool_fail(s->usage.command, &err, "cannot discard versions of %s", s->name) : 0;
	}
	return kedge__usage_error(
	    &s->usage,
	    "%s already has versions up to %llu; use a higher number, or --replace to discard those from %llu on",
	    s->name, (unsigned long long)after - 1, (unsigned long long)s->version);
}

static int protect_pages(struct save *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__save_pages_protect(&s->pages, s->job.k[0], s->version, s->element, &err);

	if (err.code)
		return kedge__tool_fail(s->usage.command, &err, "cannot save %s", s->page_index);
	return rc ? kedge__tool_fail_job(s->usage.command, s->job.k[0], rc, "cannot save %s", s->page_index) : 0;
}

static int take(struct save *s, struct kedge__error *err)
{
	int rc;

	kedge__tool_interruptible(s->usage.command, "nothing was saved");
	rc = kedge__save_job_take(&s->job, s->version, s->note, progress, s, &s->sealed, err);
	kedge__bar_wipe(&s->bar);
	return rc;
}

static int lend_part(void *ctx, int rank, struct kedge__error *err)
{
	struct save *s = ctx;

	kedge__files_unlend(s->job.k[rank]);
	return kedge__save_set_lend(&s->set, (uint32_t)rank, s->job.k[rank], s->element, err);
}

/* Again, as long as files change or vanish before they were read: each of them is copied, or left out. */
static int take_settled(struct save *s, struct kedge__error *err)
{
	bool again = true;
	int rc = take(s, err);

	while (rc == KEDGE_E_STATE && s->set.walk.found.count && !s->as->strict) {
		struct kedge__error problem = KEDGE__ERROR_INIT;
		int settled = kedge__save_set_settle(&s->set, &again, &problem);

		if (!settled && !again)
			break;
		kedge__error_done(err);
		*err = (struct kedge__error)KEDGE__ERROR_INIT;
		if (!settled)
			settled = kedge__crew_run(&s->job.crew, lend_part, s, &problem);
		if (settled) {
			kedge__error_move(err, &problem);
			return settled;
		}
		rc = take(s, err);
	}
	return rc;
}

/* After a failure: the version is sealed, and only its way to L2 failed. */
static bool is_on_l1(struct save *s)
{
	struct kedge_version_info *list;
	bool on = false;
	size_t n;

	if (kedge_versions(s->job.k[0], &list, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		on = on || (list[i].version == s->version && (list[i].levels & KEDGE_LEVEL_1));
	kedge_free(list);
	return on;
}

/* Whatever the cause, it is an output that failed: one status, so that scripts can tell. */
static int fail_half(struct save *s, struct kedge__error *err)
{
	char *text = kedge__asprintf("version %llu of %s is on L1, but not on L2: %s", (unsigned long long)s->version,
				     s->name, kedge__error_text(err));

	if (!text)
		kedge__tool_no_memory();
	kedge__tool_say(s->usage.command, "%.*s", (int)kedge__tool_unsaid(text), text);
	kedge__tool_say(
	    s->usage.command,
	    "once L2 is there again, 'kedge drain%s%s -n %s' brings it to L2, but not after a later version "
	    "has reached L2",
	    s->store ? " -s " : "", s->store ? s->store : "", s->name);
	kedge__free(text);
	kedge__error_done(err);
	return KEDGE__EXIT_IO;
}

static int checkpoint(struct save *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	double began = kedge__clock_seconds();
	int rc;

	kedge__bar_init(&s->bar, "save", !s->json && !s->quiet);
	rc = take_settled(s, &err);
	kedge__bar_done(&s->bar);
	s->seconds = kedge__clock_seconds() - began;
	if (rc == 0)
		rc = kedge__save_job_stats(&s->job, &s->stats, &err);
	if (rc && s->sealed && is_on_l1(s))
		return fail_half(s, &err);
	if (rc)
		return kedge__tool_fail(s->usage.command, &err, "cannot save version %llu of %s",
					(unsigned long long)s->version, s->name);
	return 0;
}

void kedge__save_take_back(const char *command, const char *store, const char *name, uint64_t version)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__catalog *cat = NULL;

	if (kedge__catalog_open(store, name, KEDGE__CATALOG_READ, &cat, &err) == 0 &&
	    kedge__catalog_own(cat, command, &err) == 0)
		kedge__set_remove(cat, version, &err);
	if (err.code && err.code != KEDGE_E_NOTFOUND)
		kedge__tool_say(command, "cannot remove version %llu from %s; do not use that version: %s",
				(unsigned long long)version, store, kedge__error_text(&err));
	kedge__catalog_close(cat);
	kedge__error_done(&err);
}

/* The page image changed while it was read: what was stored is a state that it never had. */
static void take_back(struct save *s)
{
	struct kedge__job_settings settings;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)kedge__save_job_close(&s->job, NULL);
	if (kedge__tool_settings(s->store, true, &s->sets, &settings, &err) != 0) {
		kedge__tool_fail(s->usage.command, &err, "cannot read the settings");
		return;
	}
	kedge__save_take_back(s->usage.command, settings.l1, s->name, s->version);
	if (settings.l2 && *settings.l2)
		kedge__save_take_back(s->usage.command, settings.l2, s->name, s->version);
	kedge__job_settings_done(&settings);
}

/* Of files as they are, whatever was saved of them. */
static uint64_t file_bytes(const struct save *s, const struct kedge__save_part *all)
{
	return s->stats.raw_bytes - all->tree.count - all->lent + all->bytes;
}

static void print_json(const struct save *s)
{
	const struct kedge__save_part all = kedge__save_set_sum(&s->set);
	json_t *o = kedge__json_object();

	kedge__json_text(o, "name", s->name);
	kedge__json_uint(o, "version", s->version);
	kedge__json_text(o, "reducer", s->stats.reducer);
	kedge__json_uint(o, "regions", all.files + (s->page_index ? 2 : 0));
	kedge__json_uint(o, "files", all.files);
	if (s->set.grouping) {
		kedge__json_uint(o, "segments", s->set.part_count);
		kedge__json_uint(o, "group_size", s->set.grouping->size);
	}
	kedge__json_uint(o, "unchanged", all.same);
	kedge__json_uint(o, "changed_while_read", s->set.changed);
	kedge__json_uint(o, "left_out", s->set.walk.left_out);
	if (s->set.equal)
		kedge__json_uint(o, "equal", all.equals);
	if (s->page_index)
		kedge__json_uint(o, "pages", s->pages.image.count);
	kedge__json_uint(o, "raw_bytes", file_bytes(s, &all));
	kedge__json_uint(o, "stored_bytes", s->stats.stored_bytes);
	kedge__json_uint(o, "literal_bytes", s->stats.literal_bytes);
	kedge__json_uint(o, "metadata_bytes", s->stats.metadata_bytes);
	kedge__json_real(o, "seconds", s->seconds);
	kedge__json_real(o, "hash_seconds", s->stats.hash_seconds);
	kedge__json_real(o, "encode_seconds", s->stats.encode_seconds);
	kedge__json_real(o, "write_seconds", s->stats.write_seconds);
	kedge__json_print(o);
}

/* What of the files is the same, or equal, and in how many segments they are: " (3 unchanged, 2 equal) in 8 segments".
 */
static void text_kinds(const struct save *s, const struct kedge__save_part *all, char text[2 * KEDGE__TEXT_ROOM])
{
	char segments[KEDGE__TEXT_ROOM] = "", same[KEDGE__TEXT_ROOM] = "";

	if (all->same && s->set.equal)
		snprintf(same, sizeof(same), " (%zu unchanged, %zu equal)", all->same, all->equals);
	else if (all->same)
		snprintf(same, sizeof(same), " (%zu unchanged)", all->same);
	else if (s->set.equal)
		snprintf(same, sizeof(same), " (%zu equal)", all->equals);
	if (s->set.grouping)
		kedge__text_count(s->set.part_count, "segment", "segments", segments);
	snprintf(text, 2 * KEDGE__TEXT_ROOM, "%s%s%s", same, *segments ? " in " : "", segments);
}

static void print_text(const struct save *s)
{
	const struct kedge__save_part all = kedge__save_set_sum(&s->set);
	char raw[KEDGE__TEXT_ROOM], stored[KEDGE__TEXT_ROOM], literal[KEDGE__TEXT_ROOM], time[KEDGE__TEXT_ROOM];
	char files[KEDGE__TEXT_ROOM] = "", pages[KEDGE__TEXT_ROOM] = "", kinds[2 * KEDGE__TEXT_ROOM];

	if (s->page_index)
		kedge__text_count(s->pages.image.count, "page", "pages", pages);
	if (s->set.walk.found.count)
		kedge__text_count(all.files, "file", "files", files);
	text_kinds(s, &all, kinds);
	printf("version %llu of %s: %s%s%s%s, %s; %s new, %s stored (%s), %s\n", (unsigned long long)s->version,
	       s->name, pages, *pages && *files ? ", " : "", files, kinds, kedge__text_bytes(file_bytes(s, &all), raw),
	       kedge__text_bytes(s->stats.literal_bytes, literal), kedge__text_bytes(s->stats.stored_bytes, stored),
	       s->stats.reducer, kedge__text_seconds(s->seconds, time));
}

/* A list that was split would leave the newest version with the last part of it. */
static int check_caller(struct save *s)
{
	const struct kedge__save_part *first = &s->set.parts[0];

	if (!first->before_caller || first->before_caller != kedge__caller())
		return 0;
	kedge__tool_say(
	    s->usage.command,
	    "nothing was saved: version %llu of %s is of the same xargs, or find -exec: it has one part of the "
	    "files, and this would be a version with the next part. Give all names at once: "
	    "find ... -print0 | kedge save --null --files-from - -n %s",
	    (unsigned long long)first->before_version, s->name, s->name);
	return KEDGE__EXIT_USAGE;
}

/* Read them, with as many threads as the job has. */
static int read_files(struct save *s, struct kedge__error *err)
{
	struct kedge__job_settings settings;
	struct kedge__pool *pool = NULL;
	int rc = kedge__tool_settings(s->store, true, &s->sets, &settings, err);

	if (rc)
		return rc;
	if (s->set.equal || s->set.walk.found.count > FILES_ALONE)
		rc = kedge__tool_pool(&settings, &pool, err);
	if (!rc)
		rc = kedge__save_set_read(&s->set, pool, err);
	if (!rc && s->set.equal)
		rc = kedge__save_set_unpack(&s->set, pool, err);
	kedge__pool_free(pool);
	kedge__job_settings_done(&settings);
	return rc;
}

static int compare_part(void *ctx, int rank, struct kedge__error *err)
{
	struct save *s = ctx;

	return kedge__save_set_compare(&s->set, (uint32_t)rank, s->job.k[rank], s->force, err);
}

static int save_files(struct save *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status, rc = kedge__crew_run(&s->job.crew, compare_part, s, &err);

	status = rc ? 0 : check_caller(s);
	if (status)
		return status;
	if (!rc)
		rc = read_files(s, &err);
	if (!rc && s->as->strict && (s->set.walk.left_out || s->set.changed))
		rc = kedge__error_set(&err, KEDGE_E_STATE, 0, "files changed, or could not be read");
	if (!rc)
		rc = kedge__crew_run(&s->job.crew, lend_part, s, &err);
	return rc ? kedge__tool_fail(s->usage.command, &err, "nothing was saved") : 0;
}

static int save_open(struct save *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = choose_version(s);

	if (status == 0 && s->page_index)
		status = protect_pages(s);
	if (status == 0 && s->set.walk.found.count)
		status = save_files(s);
	if (status == 0)
		status = checkpoint(s);
	if (status == 0 && s->page_index && kedge__save_pages_check(&s->pages, &err) != 0) {
		take_back(s);
		return kedge__tool_fail(s->usage.command, &err, "nothing was saved");
	}
	if (status == 0)
		kedge__save_set_check(&s->set);
	return status;
}

static int list_line(void *ctx, char *line, struct kedge__error *err)
{
	struct save *s = ctx;

	return kedge__walk_add(&s->set.walk, line, false, false, err);
}

static int find_files(struct save *s, char *const *paths, size_t n, struct kedge__error *err)
{
	struct kedge__walk *w = &s->set.walk;
	int rc = 0;

	for (size_t i = 0; i < s->excludes.count; i++)
		kedge__excludes_add(&w->excludes, s->excludes.at[i]);
	for (size_t i = 0; !rc && i < s->exclude_files.count; i++)
		rc = kedge__excludes_read(&w->excludes, s->exclude_files.at[i], err);
	for (size_t i = 0; !rc && i < n; i++)
		rc = strcmp(paths[i], "-") == 0 ? kedge__save_set_stdin(&s->set, s->stdin_name, err)
						: kedge__walk_add(w, paths[i], true, true, err);
	for (size_t i = 0; !rc && i < s->lists.count; i++)
		rc = kedge__lines_read(s->lists.at[i], s->nul, list_line, s, err);
	if (!rc)
		rc = kedge__walk_end(w, err);
	if (!rc && !w->found.count && !s->page_index)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "there are no files to save");
	if (!rc)
		rc = kedge__save_set_group(&s->set, s->ranks, s->group_size, err);
	return rc ? rc : kedge__save_set_room(&s->set, err);
}

static int open_inputs(struct save *s, char *const *paths, size_t n, struct kedge__error *err)
{
	const char *clash;
	int rc = find_files(s, paths, n, err);

	if (rc || !s->page_index)
		return rc;
	if (kedge__save_pages_clash(&s->set.walk, &clash))
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"'%s' would take the name of a region that the page image needs", clash);
	return kedge__save_pages_open(&s->pages, s->page_index, s->page_data, err);
}

/* The store is not saved into itself, and has a say in how large groups are. What is wrong with the settings is said
 * when the job is opened. */
static void begin(struct save *s)
{
	struct kedge__job_settings settings;

	kedge__save_set_begin(&s->set, s->usage.command, s->quiet);
	s->set.explain = s->as->explain || !s->quiet;
	if (kedge__tool_settings(s->store, true, &s->sets, &settings, NULL) != 0)
		return;
	kedge__walk_begin(&s->set.walk, settings.l1);
	if (s->group_size == KEDGE__GROUP_PRESET)
		s->group_size = (uint64_t)settings.group_size;
	kedge__job_settings_done(&settings);
}

static int finish(struct save *s, int status)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__save_job_close(&s->job, &err);

	if (rc && status == 0)
		return kedge__tool_fail(s->usage.command, &err, "cannot finish version %llu of %s",
					(unsigned long long)s->version, s->name);
	kedge__error_done(&err);
	if (status == 0 && s->json)
		print_json(s);
	else if (status == 0 && !s->quiet)
		print_text(s);
	return status == 0 && (s->set.changed || s->set.walk.left_out) ? KEDGE__EXIT_NO : status;
}

static int save(struct save *s, char *const *paths, size_t n)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct sigaction on_bus = {.sa_handler = cut_short};
	int status;

	begin(s);
	kedge__tool_listen(s->usage.command, s->quiet);
	kedge__tool_causes_once();
	kedge__tool_raise_limits();
	if (open_inputs(s, paths, n, &err) != 0)
		return kedge__tool_fail(s->usage.command, &err, "nothing was saved");
	sigaction(SIGBUS, &on_bus, NULL);
	status = open_job(s);
	return status ? status : finish(s, save_open(s));
}

/* What a directory or a file is called is a name for it, if it is all that is saved; NULL: there is none. */
static char *name_of(const char *path)
{
	char *whole = realpath(path, NULL), *name;
	size_t end = strlen(path), begin;

	while (end && path[end - 1] == '/')
		end--;
	begin = end;
	while (begin && path[begin - 1] != '/')
		begin--;
	name = kedge__asprintf("%.*s", (int)(end - begin), path + begin);
	if (!name)
		kedge__tool_no_memory();
	if (whole && (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)) {
		kedge__free(name);
		name = kedge__strdup(strrchr(whole, '/') + 1);
		if (!name)
			kedge__tool_no_memory();
	}
	free(whole);
	if (kedge__job_name_check(name, NULL) == 0)
		return name;
	kedge__free(name);
	return NULL;
}

static int check_name(struct save *s, char *const *paths, size_t n)
{
	if (s->name)
		return 0;
	if (n == 1 && strcmp(paths[0], "-") != 0 && !s->lists.count && !s->page_index)
		s->name = s->own_name = name_of(paths[0]);
	if (!s->name)
		return kedge__usage_error(&s->usage,
					  "-n NAME is missing: what to call this; versions are counted for each name");
	return 0;
}

int kedge__ranks_check(const struct kedge__usage *u, const char *ranks, uint64_t group_size, bool pages)
{
	const char *wrong = ranks ? kedge__rank_check(ranks) : NULL;

	if (wrong)
		return kedge__usage_error(u, "--ranks '%s': %s", ranks, wrong);
	if (group_size != KEDGE__GROUP_PRESET && !ranks)
		return kedge__usage_error(u, "--group-size needs --ranks PATTERN: which part of a name is the rank?");
	if (ranks && pages)
		return kedge__usage_error(u, "--ranks is for files, and cannot be combined with --pages");
	return 0;
}

static int refuse_type(const struct save *s)
{
	char names[256] = "";

	for (uint32_t i = 0; i < KEDGE_TYPE_COUNT; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? ", " : "",
			 kedge__type_name(i));
	return kedge__usage_error(&s->usage, "--type %s: not one of %s", s->type, names);
}

/* What TEXT says after BEGIN; NULL: it begins otherwise. */
static const char *after(const char *text, const char *begin)
{
	size_t n = strlen(begin);

	return strncmp(text, begin, n) == 0 ? text + n : NULL;
}

/* An option stands for the setting KEY. If its value is wrong, it is named as it was written; what else is wrong with
 * settings is said when the job is opened. */
static int check_setting(const struct save *s, const char *option, const char *key, const char *value)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__job_settings settings;
	struct kedge__text_list list = {0};
	char *call = kedge__asprintf("--set: %s: ", key), *own = kedge__asprintf("--set: %s = %s: ", key, value);
	const char *cause = NULL;
	int status = 0;

	if (!call || !own)
		kedge__tool_no_memory();
	push_setting(&list, key, value);
	if (kedge__tool_settings(NULL, true, &list, &settings, &err) == 0)
		kedge__job_settings_done(&settings);
	else if (!(cause = after(kedge__error_text(&err), call)))
		cause = after(kedge__error_text(&err), own);
	if (cause)
		status = kedge__usage_error(&s->usage, "--%s %s: %s", option, value, cause);
	kedge__free((char *)list.at[0]);
	kedge__array_done(&list);
	kedge__error_done(&err);
	kedge__free(call);
	kedge__free(own);
	return status;
}

static int check_settings(const struct save *s)
{
	const struct {
		const char *option, *key, *value;
	} list[] = {
	    {"reduce", "reducer", s->reduce}, {"chunk", "chunk", s->chunk},
	    {"codec", "codec", s->codec},     {"codec-rate", "codec_rate", s->codec_rate},
	    {"block", "block", s->block},
	};
	int status = 0;

	for (size_t i = 0; !status && i < KEDGE__COUNT(list); i++)
		if (list[i].value)
			status = check_setting(s, list[i].option, list[i].key, list[i].value);
	return status;
}

static int check_usage(struct save *s, bool operands)
{
	int status;

	if (!operands && !s->page_index && !s->lists.count)
		return kedge__usage_error(&s->usage, "no files given");
	if (s->page_data && !s->page_index)
		return kedge__usage_error(&s->usage, "--page-data needs --pages");
	if (s->nul && !s->lists.count)
		return kedge__usage_error(&s->usage, "--null needs --files-from");
	if (s->type && !kedge__type_parse(s->type, &s->element))
		return refuse_type(s);
	status = check_settings(s);
	if (status)
		return status;
	return kedge__ranks_check(&s->usage, s->ranks, s->group_size, s->page_index);
}

int kedge__save_as(const struct kedge__save_as *as, int argc, char **argv)
{
	struct save s = {
	    .as = as, .version = KEDGE__NO_VERSION, .group_size = KEDGE__GROUP_PRESET, .stdin_name = "stdin"};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&s.store),
	    {"name", 'n', KEDGE__OPTION_TEXT, &s.name, "NAME",
	     "what to call it in the store (default: the name of the file or directory, if only one is given)"},
	    {"version", 'v', KEDGE__OPTION_VERSION, &s.version, "N",
	     "number of the new version (default: the newest plus 1, or 1)"},
	    {"message", 'm', KEDGE__OPTION_TEXT, &s.note, "TEXT", "a note on the version, shown by 'kedge log'"},
	    {"reduce", 0, KEDGE__OPTION_TEXT, &s.reduce, "HOW", "full, basic, list, tree, rex or auto"},
	    {"chunk", 0, KEDGE__OPTION_TEXT, &s.chunk, "BYTES", "size of a chunk: 32 to 64k, a power of two"},
	    {"codec", 0, KEDGE__OPTION_TEXT, &s.codec, "CODEC",
	     "none, lz4, zstd:9, shuffle+zstd, ... (see kedge info), auto or max"},
	    {"codec-rate", 0, KEDGE__OPTION_TEXT, &s.codec_rate, "BYTES",
	     "auto: the best-compressing codec that sustains this many bytes per second"},
	    {"block", 0, KEDGE__OPTION_TEXT, &s.block, "BYTES", "bytes that are compressed and checksummed as a unit"},
	    {"type", 0, KEDGE__OPTION_TEXT, &s.type, "TYPE",
	     "type of the data: bytes, i8..i64, u8..u64, f16, bf16, f32, f64, c64, c128"},
	    {"exclude", 'e', KEDGE__OPTION_LIST, &s.excludes, "PATTERN",
	     "leave out what fits PATTERN: '*.o', 'cache/', '/home/*/tmp'; may be repeated"},
	    {"exclude-from", 0, KEDGE__OPTION_LIST, &s.exclude_files, "FILE", "a pattern on each line of FILE"},
	    {"files-from", 0, KEDGE__OPTION_LIST, &s.lists, "FILE",
	     "save what FILE names, one on each line; '-' for standard input;\ndirectories without what is in them"},
	    {"null", '0', KEDGE__OPTION_FLAG, &s.nul, NULL, "with --files-from: names end in NUL, as of find -print0"},
	    {"one-file-system", 'x', KEDGE__OPTION_FLAG, &s.set.walk.one_file_system, NULL,
	     "do not go into directories where another file system is mounted"},
	    {"force", 'f', KEDGE__OPTION_FLAG, &s.force, NULL,
	     "read all files, those with the same size, times and inode as before, too"},
	    {"equal", 0, KEDGE__OPTION_FLAG, &s.set.equal, NULL,
	     "unpack what HDF5 files keep packed, and pack it again when they are restored: they\n"
	     "are equal then to whoever reads them, but maybe not the same bytes"},
	    KEDGE__OPTION_RANKS(&s.ranks),
	    KEDGE__OPTION_GROUP_SIZE(&s.group_size),
	    {"stdin-name", 0, KEDGE__OPTION_TEXT, &s.stdin_name, "NAME", "what '-' is called (default: stdin)"},
	    {"pages", 0, KEDGE__OPTION_TEXT, &s.page_index, "INDEX",
	     "save an image of memory pages: their addresses are in NAME.idx, the data in NAME.pages;\n"
	     "or CRIU's images: pagemap-PID.img"},
	    {"page-data", 0, KEDGE__OPTION_TEXT, &s.page_data, "FILE",
	     "with --pages: the file that holds the data of the pages"},
	    {"paranoid", 0, KEDGE__OPTION_FLAG, &s.paranoid, NULL, "compare bytes wherever digests are equal"},
	    {"replace", 0, KEDGE__OPTION_FLAG, &s.replace, NULL, "with -v: discard the versions from N on first"},
	    {"init", 0, KEDGE__OPTION_FLAG, &s.init, NULL,
	     "create a store in STORE even if the directory contains other files"},
	    KEDGE__OPTION_SET(&s.sets),
	    KEDGE__OPTION_JSON(&s.json),
	    KEDGE__OPTION_QUIET(&s.quiet),
	};
	int first, status;

	s.usage = (struct kedge__usage){
	    .command = as->command,
	    .operands = "[FILE|DIR|-]...",
	    .about = "Commits files, and directories with all that is in them, as a new version of NAME.\n"
		     "Creates the store if it does not exist. '-' is standard input. Names are made relative:\n"
		     "'/a/b' and '../a/b' are both 'a/b'. Files that were not touched since the version before\n"
		     "are not read again. --pages commits an image of memory pages, with or without files.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge save -s store -n home --exclude cache/ ~/work\n"
		       "find . -name '*.c' -print0 | kedge save -s store -n source --null --files-from -\n"
		       "kedge save -s store -n enzo --ranks 'data*.cpu{}' --group-size 16 DD0042\n"
		       "kedge save -s store -n process --pages snap_01.idx",
	};
	if (kedge__options_parse(&s.usage, argc, argv, &first, &status)) {
		status = check_usage(&s, first < argc);
		if (status == 0)
			status = check_name(&s, argv + first, (size_t)(argc - first));
		if (status == 0)
			status = save(&s, argv + first, (size_t)(argc - first));
	}
	kedge__free(s.own_name);
	kedge__save_pages_close(&s.pages);
	kedge__save_set_done(&s.set);
	kedge__array_done(&s.sets);
	kedge__array_done(&s.excludes);
	kedge__array_done(&s.exclude_files);
	kedge__array_done(&s.lists);
	return status;
}

int kedge__tool_save(int argc, char **argv)
{
	static const struct kedge__save_as save = {.command = "kedge save"};

	return kedge__save_as(&save, argc, argv);
}
