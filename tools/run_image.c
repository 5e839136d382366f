/* SPDX-License-Identifier: BSD-3-Clause */
/* run_image: the versions of a process that knows nothing of them. */
#include "capture/capture.h"
#include "run_transparent.h"
#include <stdlib.h>
#include <unistd.h>

static int job_error(struct kedge__run_transparent *t, int rc, const char *what, struct kedge__error *err)
{
	return kedge__error_set(err, rc, 0, "%s: %s", what, kedge_last_error(t->k));
}

/* ------------------------------------------------------------------ the job */

/* From what the program is called, the signs that a name may have. */
static char *name_of(const char *command)
{
	const char *base = strrchr(command, '/');
	char *name = kedge__asprintf("%.*s", KEDGE_NAME_MAX, base ? base + 1 : command);

	for (char *p = name; p && *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *p))
			*p = '_';
	if (name && (name[0] == '.' || name[0] == '\0'))
		name[0] = name[0] ? '_' : name[0];
	return name;
}

static void push(struct kedge__text_list *list, const char *text)
{
	if (!kedge__array_push(list, text))
		kedge__tool_no_memory();
}

static int open_handle(struct kedge__run_transparent *t, bool init, struct kedge__error *err)
{
	char *l1 = t->store ? kedge__tool_literal(t->store) : NULL;
	char *store = l1 ? kedge__asprintf("l1=%s", l1) : NULL;
	char *interval =
	    t->interval ? kedge__asprintf("interval=%s", strcmp(t->interval, "auto") == 0 ? "0" : t->interval) : NULL;
	struct kedge__text_list list = {0};
	int rc;

	if ((t->store && !store) || (t->interval && !interval))
		kedge__tool_no_memory();
	if (store)
		push(&list, store);
	if (interval)
		push(&list, interval);
	if (init)
		push(&list, "init=yes");
	for (size_t i = 0; i < t->sets.count; i++)
		push(&list, t->sets.at[i]);
	/* The mirror changes only while the program stands still, and nobody but us reads it. */
	push(&list, "capture=sync");
	/* What a capture does not touch there is not looked at. The kernel writes to it, which only this kind allows.
	 */
	push(&list, kedge__tracker_probe("uffd", NULL) == 0 ? "track=uffd" : "track=none");
	push(&list, NULL);
	rc = kedge_open(t->name, NULL, list.at, &t->k);
	if (rc)
		kedge__error_set(err, rc, 0, "cannot open %s: %s", t->name, kedge_last_error(NULL));
	kedge__array_done(&list);
	kedge__free(interval);
	kedge__free(store);
	kedge__free(l1);
	return rc;
}

static int find_marker(struct kedge__run_transparent *t, struct kedge__error *err)
{
	struct kedge__job_settings settings;
	int rc = kedge__tool_settings(t->store, true, &t->sets, &settings, err);

	if (rc)
		return rc;
	t->marker = kedge__asprintf("%s/%s/running", settings.l1, t->name);
	kedge__job_settings_done(&settings);
	if (!t->marker)
		return kedge__error_nomem(err);
	return 0;
}

/* A program outlives a `kedge run` that is killed: two of them would write to the same files. */
static int refuse_double(struct kedge__run_transparent *t, struct kedge__error *err)
{
	char boot[64] = "", *now = kedge__process_boot();
	unsigned long long started = 0;
	FILE *f = fopen(t->marker, "re");
	int pid = 0, rc = 0;

	if (f && now && fscanf(f, "%63s %d %llu", boot, &pid, &started) == 3 && strcmp(boot, now) == 0 && pid > 0 &&
	    kedge__process_started(pid) == started)
		rc = kedge__error_set(
		    err, KEDGE_E_LOCKED, 0,
		    "the program still runs as process %d, though the 'kedge run' that started it was killed: "
		    "wait for its end, or end it",
		    pid);
	if (f)
		fclose(f);
	kedge__free(now);
	return rc;
}

void kedge__run_mark(struct kedge__run_transparent *t)
{
	char *boot = kedge__process_boot();
	char *text =
	    boot ? kedge__asprintf("%s %d %llu", boot, (int)t->pid, (unsigned long long)kedge__process_started(t->pid))
		 : NULL;

	if (kedge__fs_unlink(t->marker, NULL) == 0 && text)
		kedge__fs_append_line(t->marker, text, NULL);
	kedge__free(text);
	kedge__free(boot);
}

int kedge__run_image_open(struct kedge__run_transparent *t, const char *command, bool init, struct kedge__error *err)
{
	int rc;

	t->own_name = t->name ? NULL : name_of(command);
	if (t->own_name)
		t->name = t->own_name;
	if (!t->name)
		return kedge__error_nomem(err);
	rc = find_marker(t, err);
	if (!rc)
		rc = refuse_double(t, err);
	return rc ? rc : open_handle(t, init, err);
}

static void forget_files(struct kedge__run_transparent *t)
{
	for (size_t i = 0; i < t->contents.count; i++) {
		char *region = kedge__asprintf("files%s", t->contents.at[i].path);

		if (region && t->k)
			kedge_unprotect(t->k, region);
		kedge__free(region);
	}
	kedge__process_contents_done(&t->contents);
}

int kedge__run_image_close(struct kedge__run_transparent *t, bool finished, struct kedge__error *err)
{
	int rc = 0;

	if (t->k && finished && !t->keep)
		rc = kedge_discard(t->k, 0, KEDGE_LEVEL_1 | KEDGE_LEVEL_2);
	if (rc)
		rc = job_error(t, rc, "cannot remove versions", err);
	forget_files(t);
	if (t->k && kedge_close(t->k) && !rc)
		rc = kedge__error_set(err, KEDGE_E_IO, 0, "cannot close %s: %s", t->name, kedge_last_error(NULL));
	if (t->marker && finished)
		kedge__fs_unlink(t->marker, NULL);
	kedge__process_tracker_free(t->tracker);
	t->tracker = NULL;
	kedge__process_mirror_done(&t->mirror);
	kedge__process_image_done(&t->image);
	kedge__free(t->record);
	kedge__free(t->marker);
	kedge__free(t->own_name);
	t->record = NULL;
	t->marker = t->own_name = NULL;
	t->k = NULL;
	return rc;
}

/* ------------------------------------------------------------------ a version */

static int protect_files(struct kedge__run_transparent *t)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < t->contents.count; i++) {
		const struct kedge__process_content *c = &t->contents.at[i];
		char *region = kedge__asprintf("files%s", c->path);

		rc = region ? kedge_protect(t->k, region, c->data, c->bytes, KEDGE_BYTES) : KEDGE_E_NOMEM;
		kedge__free(region);
	}
	return rc;
}

static int protect_all(struct kedge__run_transparent *t)
{
	int rc = kedge_protect(t->k, KEDGE__PROCESS_REGION, t->record, t->record_bytes, KEDGE_BYTES);

	if (!rc)
		rc = kedge_protect(t->k, KEDGE__PAGES_REGION, t->mirror.pages, t->mirror.places * KEDGE__PAGE_BYTES,
				   KEDGE_BYTES);
	if (!rc)
		rc = kedge_protect(t->k, KEDGE__PAGES_INDEX, t->mirror.index, KEDGE__PAGES_HEAD + t->mirror.places,
				   KEDGE_U64);
	return rc ? rc : protect_files(t);
}

/* The words of the command, each with a NUL. kedge__free(). */
static uint8_t *command_words(char *const *command, uint64_t *bytes)
{
	uint8_t *data, *at;

	*bytes = 0;
	for (char *const *word = command; *word; word++)
		*bytes += strlen(*word) + 1;
	data = at = kedge__malloc((size_t)*bytes);
	for (char *const *word = command; data && *word; at += strlen(*word) + 1, word++)
		memcpy(at, *word, strlen(*word) + 1);
	return data;
}

/* What was typed says which versions belong to it: the program may have been started by env, nice and the like. */
static int set_command(struct kedge__process_image *image, char *const *command, struct kedge__error *err)
{
	uint64_t bytes;
	uint8_t *words = command_words(command, &bytes);

	if (!words)
		return kedge__error_nomem(err);
	kedge__free(image->command.data);
	image->command = (struct kedge__process_blob){words, bytes};
	return 0;
}

void kedge__run_image_how(const struct kedge__process_capture *c, char *out, size_t room)
{
	static const char *const ways[] = {[KEDGE__WAY_AUTO] = "",
					   [KEDGE__WAY_FULL] = "full",
					   [KEDGE__WAY_INCREMENT] = "increment",
					   [KEDGE__WAY_STILL] = "clone"};

	snprintf(out, room, "stop %.2f ms, %s: %zu pages in the stop, %zu before it", c->stop_seconds * 1e3,
		 ways[c->way], c->pages_stopped, c->pages_before);
}

static int capture(struct kedge__run_transparent *t, char *const *command, struct kedge__error *err)
{
	struct kedge__process_capture c = {.pid = t->pid, .init = t->init, .files = t->files, .mirror = &t->mirror};
	uint8_t *record = NULL;
	size_t bytes = 0;
	int rc;

	if (!t->tracker)
		t->tracker = kedge__process_tracker_new();
	c.tracker = t->tracker;
	rc = kedge__process_capture(&c, err);
	if (c.ended) {
		t->ended = true;
		t->status = c.status;
	}
	if (rc)
		return rc;
	kedge__run_image_how(&c, t->how, sizeof(t->how));
	forget_files(t);
	t->contents = c.contents;
	rc = set_command(&c.image, command, err);
	if (!rc)
		rc = kedge__process_image_encode(&c.image, &record, &bytes, err);
	kedge__process_image_done(&c.image);
	if (rc)
		return rc;
	kedge__free(t->record);
	t->record = record;
	t->record_bytes = bytes;
	t->stopped = c.stop_seconds;
	return 0;
}

int kedge__run_image_take(struct kedge__run_transparent *t, char *const *command, struct kedge__error *err)
{
	int rc = capture(t, command, err);

	if (rc)
		return rc;
	rc = protect_all(t);
	if (!rc)
		rc = kedge_version_note(t->k, t->how);
	if (!rc)
		rc = kedge_checkpoint(t->k, KEDGE_NEXT);
	if (rc)
		rc = job_error(t, rc, "cannot save a version", err);
	forget_files(t);
	return rc;
}

/* ------------------------------------------------------------------ restart */

static int make_room(struct kedge__run_transparent *t, const struct kedge_region_entry *e, size_t n,
		     struct kedge__error *err)
{
	uint64_t index = 0, pages = 0, record = 0;

	for (size_t i = 0; i < n; i++) {
		struct kedge__process_content c = {0};

		if (strcmp(e[i].name, KEDGE__PAGES_INDEX) == 0)
			index = e[i].info.bytes;
		else if (strcmp(e[i].name, KEDGE__PAGES_REGION) == 0)
			pages = e[i].info.bytes;
		else if (strcmp(e[i].name, KEDGE__PROCESS_REGION) == 0)
			record = e[i].info.bytes;
		else if (strncmp(e[i].name, "files/", 6) == 0) {
			c.path = kedge__strdup(e[i].name + 5);
			c.bytes = (size_t)e[i].info.bytes;
			c.data = kedge__map_alloc(c.bytes + 1);
			if (!c.path || !c.data || !kedge__array_push(&t->contents, c))
				return kedge__error_nomem(err);
		}
	}
	if (!record || !index)
		return kedge__error_set(err, KEDGE_E_MISMATCH, 0,
					"versions of %s are not of a process: give another name with -n", t->name);
	kedge__free(t->record);
	t->record = kedge__malloc((size_t)record);
	t->record_bytes = (size_t)record;
	if (!t->record)
		return kedge__error_nomem(err);
	return kedge__process_mirror_prepare(&t->mirror, index, pages, err);
}

static int read_version(struct kedge__run_transparent *t, uint64_t version, struct kedge__error *err)
{
	struct kedge_region_entry *list;
	size_t n;
	int rc = kedge_regions(t->k, version, &list, &n);

	if (rc)
		return job_error(t, rc, "cannot list regions", err);
	forget_files(t);
	rc = make_room(t, list, n, err);
	kedge_free(list);
	if (rc)
		return rc;
	rc = protect_all(t);
	if (!rc)
		rc = kedge_restart(t->k, version, NULL);
	if (rc)
		return job_error(t, rc, "cannot read the version", err);
	rc = kedge__process_mirror_adopt(&t->mirror, err);
	kedge__process_image_done(&t->image);
	return rc ? rc : kedge__process_image_decode(t->record, t->record_bytes, &t->image, err);
}

static bool same_command(const struct kedge__process_image *image, char *const *command)
{
	uint64_t bytes;
	uint8_t *words = command_words(command, &bytes);
	bool same = words && bytes == image->command.bytes && memcmp(words, image->command.data, (size_t)bytes) == 0;

	kedge__free(words);
	return same;
}

static int restart_version(struct kedge__run_transparent *t, char *const *command, struct kedge__error *err)
{
	struct kedge__process_restart r = {
	    .image = &t->image, .mirror = &t->mirror, .contents = &t->contents, .new_ids = t->new_ids, .init_link = -1};
	int rc;

	if (!same_command(&t->image, command))
		return kedge__error_set(
		    err, KEDGE_E_MISMATCH, 0,
		    "the versions of %s are of another command; give another name with -n, or remove them with "
		    "'kedge rm'",
		    t->name);
	rc = kedge__process_check(&t->image, err);
	if (!rc)
		rc = kedge__process_restart(&r, err);
	if (rc)
		return rc;
	t->pid = r.pid;
	t->init = r.init;
	t->init_link = r.init_link;
	return 0;
}

int kedge__run_image_restart(struct kedge__run_transparent *t, char *const *command, uint64_t *version,
			     struct kedge__error *err)
{
	uint64_t at_most = KEDGE_NEWEST;
	int rc;

	*version = KEDGE__NO_VERSION;
	for (;;) {
		rc = kedge_find_usable(t->k, at_most, version);
		if (rc == KEDGE_E_NOTFOUND && at_most == KEDGE_NEWEST) {
			*version = KEDGE__NO_VERSION;
			return 0;
		}
		if (rc)
			return job_error(t, rc, "cannot find a version to restart from", err);
		rc = read_version(t, *version, err);
		if (rc != KEDGE_E_DAMAGED && rc != KEDGE_E_MISSING && rc != KEDGE_E_IO)
			break;
		kedge__tool_say(KEDGE__RUN_COMMAND, "version %llu of %s cannot be used: %s",
				(unsigned long long)*version, t->name, kedge__error_text(err));
		if (*version == 0)
			return rc;
		at_most = *version - 1;
	}
	if (!rc)
		rc = restart_version(t, command, err);
	forget_files(t);
	return rc ? kedge__error_prefix(err, "version %llu of %s", (unsigned long long)*version, t->name) : 0;
}
