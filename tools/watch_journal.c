/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch_journal: which sets were taken, one line each time something happened to one: fingerprint, version, what, key.
 * A line that a crash cut short is skipped: what it said is found in the notes of the versions.
 */
#include "watch.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TRIES 40
#define LOCK_PAUSE 50000 /* microseconds */
#define LINE_ROOM  64
#define LINES_MORE 100

static const char *const words[] = {"new", "taken", "removing", "removed"};

/* ------------------------------------------------------------------ notes */

void kedge__watch_note_format(const struct kedge__watch_set *set, char note[KEDGE__WATCH_NOTE_ROOM])
{
	snprintf(note, KEDGE__WATCH_NOTE_ROOM, "set%s%.200s #%016llx", *set->key ? " " : "", set->key,
		 (unsigned long long)set->fingerprint);
	for (char *p = note; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
}

bool kedge__watch_note_parse(const char *note, uint64_t *fingerprint)
{
	const char *at = note ? strrchr(note, '#') : NULL;
	char *end;

	if (!at || strncmp(note, "set", 3) != 0 || strlen(at + 1) != 16)
		return false;
	*fingerprint = strtoull(at + 1, &end, 16);
	return !*end;
}

/* ------------------------------------------------------------------ what is known */

static struct kedge__watch_known *known_of(struct kedge__watch_journal *j, uint64_t fingerprint)
{
	for (size_t i = 0; i < j->list.count; i++)
		if (j->list.at[i].fingerprint == fingerprint)
			return &j->list.at[i];
	return NULL;
}

const struct kedge__watch_known *kedge__watch_journal_find(const struct kedge__watch_journal *j, uint64_t fingerprint)
{
	return known_of((struct kedge__watch_journal *)j, fingerprint);
}

static void know(struct kedge__watch_journal *j, const struct kedge__watch_known *k)
{
	struct kedge__watch_known *old = known_of(j, k->fingerprint);

	if (old)
		*old = *k;
	else if (!kedge__array_push(&j->list, *k))
		kedge__tool_no_memory();
}

void kedge__watch_journal_learn(struct kedge__watch_journal *j, uint64_t fingerprint, uint64_t version)
{
	const struct kedge__watch_known k = {fingerprint, version, KEDGE__WATCH_TAKEN};

	if (!known_of(j, fingerprint))
		know(j, &k);
}

static void read_line(struct kedge__watch_journal *j, const char *line)
{
	struct kedge__watch_known k;
	unsigned long long fingerprint, version;
	char word[16];

	j->lines++;
	if (sscanf(line, "%16llx %llu %15s", &fingerprint, &version, word) != 3)
		return;
	k = (struct kedge__watch_known){.fingerprint = fingerprint, .version = version};
	for (size_t i = 1; i < KEDGE__COUNT(words); i++)
		if (strcmp(word, words[i]) == 0)
			k.state = (enum kedge__watch_state)i;
	if (k.state != KEDGE__WATCH_NEW)
		know(j, &k);
}

/* ------------------------------------------------------------------ the file */

/* What follows a line that was cut short begins a new one. */
static int end_line(const struct kedge__watch_journal *j, uint64_t bytes, struct kedge__error *err)
{
	char last = '\n';
	int rc = bytes ? kedge__fs_pread(j->lock, &last, 1, bytes - 1, j->path, err) : 0;

	return rc || last == '\n' ? rc : kedge__fs_append_line(j->path, "", err);
}

static int read_all(struct kedge__watch_journal *j, struct kedge__error *err)
{
	uint64_t bytes;
	int rc = kedge__fs_size(j->lock, &bytes, j->path, err);
	char *text = rc ? NULL : kedge__malloc(bytes + 1), *next;

	if (!rc && !text)
		kedge__tool_no_memory();
	if (!rc)
		rc = bytes ? kedge__fs_pread(j->lock, text, bytes, 0, j->path, err) : 0;
	if (!rc) {
		text[bytes] = '\0';
		for (char *line = text; line && (next = strchr(line, '\n')); line = next + 1) {
			*next = '\0';
			read_line(j, line);
		}
		rc = end_line(j, bytes, err);
	}
	kedge__free(text);
	return rc;
}

/* FD is what is at PATH now, and not what a prune() has replaced. */
static bool is_current(int fd, const char *path)
{
	struct stat held, there;

	return fstat(fd, &held) == 0 && stat(path, &there) == 0 && held.st_dev == there.st_dev &&
	       held.st_ino == there.st_ino;
}

/* One that was killed a moment ago may take a moment to end. */
static int lock(struct kedge__watch_journal *j, const char *name, struct kedge__error *err)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		int rc = kedge__fs_open_lock(j->path, &j->lock, err);

		if (rc)
			return rc;
		if (flock(j->lock, LOCK_EX | LOCK_NB) == 0 && is_current(j->lock, j->path))
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR && is_current(j->lock, j->path))
			return kedge__error_set(err, KEDGE_E_IO, errno, "cannot lock %s", j->path);
		kedge__fs_close(j->lock);
		j->lock = -1;
		usleep(LOCK_PAUSE);
	}
	return kedge__error_set(err, KEDGE_E_LOCKED, 0, "another kedge watch takes sets for %s already", name);
}

int kedge__watch_journal_open(struct kedge__watch_journal *j, const char *store, const char *name,
			      struct kedge__error *err)
{
	int rc;

	j->lock = -1;
	j->path = kedge__asprintf("%s/%s/" KEDGE__WATCH_NAME, store, name);
	if (!j->path)
		kedge__tool_no_memory();
	rc = lock(j, name, err);
	return rc ? rc : read_all(j, err);
}

void kedge__watch_journal_close(struct kedge__watch_journal *j)
{
	if (j->path)
		kedge__fs_close(j->lock);
	kedge__free(j->path);
	kedge__array_done(&j->list);
	*j = (struct kedge__watch_journal){.lock = -1};
}

static int append(struct kedge__watch_journal *j, const struct kedge__watch_known *k, const char *key,
		  struct kedge__error *err)
{
	char *name = kedge__text_name(key);
	char *line = kedge__asprintf("%016llx %llu %s %s", (unsigned long long)k->fingerprint,
				     (unsigned long long)k->version, words[k->state], name);
	int rc;

	if (!line)
		kedge__tool_no_memory();
	rc = kedge__fs_append_line(j->path, line, err);
	j->lines += !rc;
	if (!rc)
		know(j, k);
	kedge__free(line);
	kedge__free(name);
	return rc;
}

int kedge__watch_journal_note(struct kedge__watch_journal *j, const struct kedge__watch_set *set, uint64_t version,
			      enum kedge__watch_state state, struct kedge__error *err)
{
	const struct kedge__watch_known k = {set->fingerprint, version, state};

	return append(j, &k, set->key, err);
}

int kedge__watch_journal_end(struct kedge__watch_journal *j, const struct kedge__watch_known *known,
			     struct kedge__error *err)
{
	const struct kedge__watch_known k = {known->fingerprint, known->version, KEDGE__WATCH_REMOVED};

	return append(j, &k, "", err);
}

/* ------------------------------------------------------------------ what is forgotten */

bool kedge__watch_journal_full(const struct kedge__watch_journal *j)
{
	return j->lines >= j->most;
}

static char *all_lines(const struct kedge__watch_journal *j)
{
	char *text = kedge__malloc(j->list.count * LINE_ROOM + 1);
	size_t used = 0;

	if (!text)
		kedge__tool_no_memory();
	text[0] = '\0';
	for (size_t i = 0; i < j->list.count; i++)
		used += (size_t)snprintf(text + used, LINE_ROOM, "%016llx %llu %s\n",
					 (unsigned long long)j->list.at[i].fingerprint,
					 (unsigned long long)j->list.at[i].version, words[j->list.at[i].state]);
	return text;
}

/* The new file is locked before it has its name: nobody gets in between. */
static int replace(struct kedge__watch_journal *j, struct kedge__error *err)
{
	char *text = all_lines(j), *temporary = kedge__asprintf("%s.tmp", j->path);
	int fd = -1, rc;

	if (!temporary)
		kedge__tool_no_memory();
	rc = kedge__fs_unlink(temporary, err);
	if (!rc)
		rc = kedge__fs_open_lock(temporary, &fd, err);
	if (!rc && flock(fd, LOCK_EX | LOCK_NB) != 0)
		rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot lock %s", temporary);
	if (!rc)
		rc = kedge__fs_pwrite(fd, text, strlen(text), 0, temporary, err);
	if (!rc)
		rc = kedge__fs_sync(fd, temporary, err);
	if (!rc)
		rc = kedge__fs_rename(temporary, j->path, err);
	if (rc) {
		kedge__fs_close(fd);
		(void)kedge__fs_unlink(temporary, NULL);
	} else {
		kedge__fs_close(j->lock);
		j->lock = fd;
		j->lines = j->list.count;
	}
	kedge__free(temporary);
	kedge__free(text);
	return rc;
}

int kedge__watch_journal_prune(struct kedge__watch_journal *j,
			       bool (*needed)(void *ctx, const struct kedge__watch_known *k), void *ctx,
			       struct kedge__error *err)
{
	size_t kept = 0;
	int rc = 0;

	for (size_t i = 0; i < j->list.count; i++)
		if (needed(ctx, &j->list.at[i]))
			j->list.at[kept++] = j->list.at[i];
	j->list.count = kept;
	if (j->lines > kept)
		rc = replace(j, err);
	j->most = 2 * j->lines + LINES_MORE;
	return rc;
}
