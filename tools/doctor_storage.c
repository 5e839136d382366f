/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The levels: can they be written to, how fast, does a sync wait for a device, is there room for versions. A file is
 * written for a moment; it has no name any more when its bytes are, so that nothing is left behind whatever happens.
 */
#include "doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BYTES      ((size_t)16 << 20)
#define PIECE      ((size_t)1 << 20)
#define SMALL      8     /* syncs of a few bytes */
#define IMPOSSIBLE 20e-6 /* seconds: no device that survives a loss of power syncs in less */

struct level {
	const char *subject, *path;
	char *dir;     /* that exists: PATH, or where it would be made */
	char type[64]; /* of the file system, as /proc/self/mountinfo has it; "": nobody knows */
	char options[512];
};

/* ------------------------------------------------------------------ what it is on */

static char *existing(const char *path)
{
	char *dir = kedge__strdup(path), *slash;
	struct stat st;

	if (!dir)
		kedge__tool_no_memory();
	while (stat(dir, &st) != 0 && errno == ENOENT) {
		slash = strrchr(dir, '/');
		if (!slash) {
			strcpy(dir, ".");
			break;
		}
		slash[slash == dir] = '\0';
		if (slash == dir)
			break;
	}
	return dir;
}

/* "36 35 98:0 /root /mount/point options - type source options", with blanks in paths as \040. */
static void mount_note(struct level *l, const char *line, const char *real, size_t *longest)
{
	char point[PATH_MAX], options[512], type[64], super[512] = "";
	const char *dash = strstr(line, " - ");
	size_t n;

	if (sscanf(line, "%*s %*s %*s %*s %4095s %511s", point, options) != 2 || !dash ||
	    sscanf(dash + 3, "%63s %*s %511s", type, super) < 1)
		return;
	n = strlen(point);
	if (strncmp(real, point, n) != 0 || (n > 1 && real[n] && real[n] != '/') || n < *longest)
		return;
	*longest = n;
	snprintf(l->type, sizeof(l->type), "%s", type);
	snprintf(l->options, sizeof(l->options), ",%.250s,%.250s,", options, super);
}

static void mount_find(struct level *l)
{
	char *real = realpath(l->dir, NULL), *line = NULL;
	FILE *f = real ? fopen("/proc/self/mountinfo", "r") : NULL;
	size_t room = 0, longest = 0;

	while (f && getline(&line, &room, f) > 0)
		mount_note(l, line, real, &longest);
	if (f)
		fclose(f);
	free(line);
	free(real);
}

static bool is_one_of(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(word, *list) == 0)
			return true;
	return false;
}

static bool in_memory(const struct level *l)
{
	return is_one_of(l->type, (const char *const[]){"tmpfs", "ramfs", "devtmpfs", "hugetlbfs", NULL});
}

static bool on_network(const struct level *l)
{
	return strncmp(l->type, "fuse", 4) == 0 ||
	       is_one_of(l->type, (const char *const[]){"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs",
							"ceph", "9p", "afs", "pvfs2", "panfs", "virtiofs", NULL});
}

static void look_type(struct kedge__doctor *d, const struct level *l, bool first)
{
	if (!l->type[0])
		return;
	if (in_memory(l))
		kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, l->subject,
				  first ? "fine for a first level, if l2 or protect saves what a node loses"
					: "name a directory on a disk",
				  "%s is in memory (%s): a reboot clears it", l->dir, l->type);
	else if (strcmp(l->type, "overlay") == 0)
		kedge__doctor_add(
		    d, KEDGE__SYMPTOM_NOTE, l->subject,
		    "name a directory that is mounted into the container: it goes when the container does",
		    "%s is a layer of a container (overlay)", l->dir);
	else
		kedge__doctor_add(d, KEDGE__SYMPTOM_OK, l->subject, NULL, "%s is on %s%s", l->dir, l->type,
				  on_network(l) ? ", over a network" : "");
}

/* ------------------------------------------------------------------ writing */

struct speed {
	double write, sync, small; /* seconds: BYTES; their sync; the quickest sync of a few bytes */
};

static int write_bytes(int fd, const char *path, struct speed *s, struct kedge__error *err)
{
	char *data = kedge__malloc(PIECE);
	double began = kedge__clock_seconds();
	int rc = 0;

	if (!data)
		kedge__tool_no_memory();
	for (size_t i = 0; i < PIECE; i++) /* nothing that a file system could store in less */
		data[i] = (char)(i * 2654435761u >> 13);
	for (size_t at = 0; at < BYTES && !rc; at += PIECE) {
		data[0] = (char)(at / PIECE);
		rc = kedge__fs_write(fd, data, PIECE, path, err);
	}
	s->write = kedge__clock_seconds() - began;
	if (!rc)
		rc = kedge__fs_sync(fd, path, err);
	s->sync = kedge__clock_seconds() - began - s->write;
	s->small = 1e9;
	for (int i = 0; i < SMALL && !rc; i++) {
		rc = kedge__fs_write(fd, data, 512, path, err);
		began = kedge__clock_seconds();
		if (!rc)
			rc = kedge__fs_sync(fd, path, err);
		s->small = KEDGE__MIN(s->small, kedge__clock_seconds() - began);
	}
	kedge__free(data);
	return rc;
}

static int try_write(const struct level *l, struct speed *s, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/kedge-doctor-%ld.tmp", l->dir, (long)getpid());
	int fd, rc;

	if (!path)
		kedge__tool_no_memory();
	rc = kedge__fs_create(path, &fd, err);
	if (!rc) {
		rc = kedge__fs_unlink(path, err);
		if (!rc)
			rc = write_bytes(fd, path, s, err);
		kedge__fs_close(fd);
	}
	kedge__free(path);
	return rc;
}

/* A sync that nothing waits for, as far as it can be known. */
static const char *sync_doubt(const struct kedge__doctor *d, const struct level *l, const struct speed *s)
{
	const char *preload = getenv("LD_PRELOAD");

	if (!d->settings.sync)
		return "sync = no: files are not made durable";
	if (preload && strstr(preload, "eatmydata"))
		return "libeatmydata is loaded: syncs do nothing";
	if (strstr(l->options, ",volatile,"))
		return "the overlay is mounted with volatile: syncs do nothing";
	if (strstr(l->options, ",nobarrier,") || strstr(l->options, ",barrier=0,"))
		return "it is mounted without barriers: a device may keep what was synced in memory";
	if (s->small < IMPOSSIBLE && !in_memory(l))
		return "a sync returns faster than any device writes: something answers before the bytes are safe";
	return NULL;
}

static void look_speed(struct kedge__doctor *d, const struct level *l)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char rate[KEDGE__TEXT_ROOM], sync[KEDGE__TEXT_ROOM];
	struct speed s = {.write = 0};
	const char *doubt;
	int rc = try_write(l, &s, &err);

	if (rc == KEDGE_E_NOSPACE) {
		kedge__doctor_add(d, KEDGE__SYMPTOM_BAD, l->subject,
				  "remove versions (kedge gc, kedge rm), set keep, or name another directory", "%s",
				  kedge__error_text(&err));
	} else if (rc) {
		kedge__doctor_add(d, KEDGE__SYMPTOM_BAD, l->subject,
				  "give this user the right to write there, or name another directory", "%s",
				  kedge__error_text(&err));
	} else {
		kedge__doctor_add(
		    d, KEDGE__SYMPTOM_OK, l->subject, NULL,
		    "writes and syncs 16 MiB at %s/s, and a few bytes in %s (one try, not a measurement)",
		    kedge__text_bytes((uint64_t)((double)BYTES / KEDGE__MAX(s.write + s.sync, 1e-9)), rate),
		    kedge__text_seconds(s.small, sync));
		doubt = sync_doubt(d, l, &s);
		if (doubt)
			kedge__doctor_add(
			    d, KEDGE__SYMPTOM_NOTE, l->subject,
			    "versions may be lost if the power fails; name another directory if that matters", "%s",
			    doubt);
	}
	kedge__error_done(&err);
}

/* ------------------------------------------------------------------ room */

struct need {
	const char *store;
	uint64_t bytes; /* the state of the largest newest version */
	char name[KEDGE_NAME_MAX + 1];
};

static void need_note(struct need *need, const char *name)
{
	struct kedge__catalog *cat;
	uint64_t bytes = 0;

	if (kedge__catalog_open(need->store, name, KEDGE__CATALOG_READ, &cat, NULL))
		return;
	for (size_t n = kedge__catalog_count(cat); n && !bytes; n--) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, n - 1);

		for (uint32_t r = 0; !e->problem.code && r < e->set.ranks; r++)
			bytes += e->set.parts[r].raw_bytes;
	}
	if (bytes > need->bytes) {
		need->bytes = bytes;
		snprintf(need->name, sizeof(need->name), "%s", name);
	}
	kedge__catalog_close(cat);
}

static void look_room(struct kedge__doctor *d, const struct level *l)
{
	struct need need = {.store = l->path};
	char left[KEDGE__TEXT_ROOM], wanted[KEDGE__TEXT_ROOM], **names;
	struct statvfs st;
	uint64_t bytes;
	size_t n;

	if (statvfs(l->dir, &st) != 0)
		return;
	if (kedge__store_names(l->path, &names, &n, NULL) == 0) {
		for (size_t i = 0; i < n; i++)
			need_note(&need, names[i]);
		kedge__fs_list_free(names, n);
	}
	bytes = (uint64_t)st.f_bavail * st.f_frsize;
	if (!need.bytes)
		kedge__doctor_add(d, KEDGE__SYMPTOM_OK, l->subject, NULL, "%s free", kedge__text_bytes(bytes, left));
	else
		kedge__doctor_add(
		    d, bytes < need.bytes ? KEDGE__SYMPTOM_NOTE : KEDGE__SYMPTOM_OK, l->subject,
		    bytes < need.bytes ? "a version that is stored whole may not fit: make room, or set keep" : NULL,
		    "%s free; a whole version of %s takes up to %s", kedge__text_bytes(bytes, left), need.name,
		    kedge__text_bytes(need.bytes, wanted));
	if (st.f_files && st.f_favail < 1000)
		kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, l->subject,
				  "remove files: a version needs one for every rank, and more",
				  "%llu files may be made", (unsigned long long)st.f_favail);
}

/* ------------------------------------------------------------------ levels */

/* Whether jobs could use it as it is. */
static bool look_store(struct kedge__doctor *d, const struct level *l)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__store_id id;
	enum kedge__sight sight = kedge__store_look(l->path, &id, &err);
	bool good = true;

	if (sight == KEDGE__SIGHT_OTHER)
		kedge__doctor_add(
		    d, d->settings.init ? KEDGE__SYMPTOM_NOTE : KEDGE__SYMPTOM_BAD, l->subject,
		    "name an empty directory, or one that is not there yet; or set init = yes, if it is meant",
		    "%s is no store, but %s", l->path, kedge__sight_text(sight));
	else if (sight == KEDGE__SIGHT_DAMAGED)
		kedge__doctor_add(d, KEDGE__SYMPTOM_BAD, l->subject,
				  "run 'kedge verify', and see FORMAT.md for the marker",
				  "%s: the marker of the store cannot be read", l->path);
	else if (sight == KEDGE__SIGHT_ERROR)
		kedge__doctor_add(d, KEDGE__SYMPTOM_BAD, l->subject, "name another directory, or mend this one", "%s",
				  kedge__error_text(&err));
	good = sight != KEDGE__SIGHT_ERROR;
	kedge__error_done(&err);
	return good;
}

static void look_level(struct kedge__doctor *d, const char *subject, const char *path, bool first)
{
	struct level l = {.subject = subject, .path = path, .dir = existing(path)};

	if (look_store(d, &l)) {
		mount_find(&l);
		look_type(d, &l, first);
		look_speed(d, &l);
		look_room(d, &l);
	}
	kedge__free(l.dir);
}

static bool same_device(const char *a, const char *b)
{
	char *x = existing(a), *y = existing(b);
	struct stat s, t;
	bool same = stat(x, &s) == 0 && stat(y, &t) == 0 && s.st_dev == t.st_dev;

	kedge__free(x);
	kedge__free(y);
	return same;
}

static void look_file(struct kedge__doctor *d, const char *subject, const char *place)
{
	char *path, *slash;

	if (place[0] != '/')
		return;
	path = kedge__job_file(place, "x", "");
	if (!path)
		kedge__tool_no_memory();
	slash = strrchr(path, '/');
	slash[slash == path] = '\0';
	if (access(path, W_OK | X_OK) != 0)
		kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, subject,
				  "make the directory, or name another one: events are lost until then",
				  "%s cannot be written to: %s", path, strerror(errno));
	else
		kedge__doctor_add(d, KEDGE__SYMPTOM_OK, subject, NULL, "%s can be written to", path);
	kedge__free(path);
}

void kedge__doctor_storage(struct kedge__doctor *d)
{
	const struct kedge__job_settings *s = &d->settings;

	look_level(d, "L1", s->l1, true);
	if (s->l2[0])
		look_level(d, "L2", s->l2, false);
	else
		kedge__doctor_add(d, KEDGE__SYMPTOM_NO, "L2",
				  "set l2 to a directory that all nodes see, so that versions survive L1",
				  "not configured");
	if (s->l2[0] && same_device(s->l1, s->l2))
		kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, "L2", "name a directory on another one",
				  "it is on the file system of L1, and lost with it");
	look_file(d, "journal", s->journal);
	look_file(d, "metrics", s->metrics);
}
