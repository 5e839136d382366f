/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process holds a lock, according to the lock file, and what can be found out about it from here. A process is
 * identified by its host, the boot of its kernel, its PID namespace, its number and its start; if one of these is
 * unknown or differs, nothing can be proved, and the process is assumed to be alive.
 */
#include "store/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define LOCK_BYTES_LIMIT 4096

/* ------------------------------------------------------------------ this process, and others of this kernel */

struct process {
	char state;
	unsigned long long start; /* in clock ticks since boot */
	long threads;
};

/* Fields 3, 20 and 22 of /proc/PID/stat, after a command name that may contain anything. */
static bool process_read(long pid, struct process *p)
{
	char path[64], text[1024];
	const char *at;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %c", &p->state) != 1)
		return false;
	for (int field = 2; field < 20 && at; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, " %ld %*s %llu", &p->threads, &p->start) == 2;
}

/* "" if it cannot be read. */
void kedge__boot_read(char boot[KEDGE__HOLDER_BOOT])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	boot[0] = '\0';
	if (!f)
		return;
	if (fscanf(f, "%39[0-9a-fA-F-]", boot) != 1)
		boot[0] = '\0';
	fclose(f);
}

/* /proc may belong to another namespace: then a number there means another process. */
static bool proc_is_ours(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return strtol(text, NULL, 10) == (long)getpid();
}

static void one_line(char *text)
{
	for (; *text; text++)
		if (*text == '\n')
			*text = ' ';
}

void kedge__holder_self(const char *name, struct kedge__holder *h)
{
	struct process p;
	struct stat st;

	memset(h, 0, sizeof(*h));
	snprintf(h->name, sizeof(h->name), "%s", name);
	one_line(h->name);
	if (gethostname(h->host, sizeof(h->host) - 1) != 0 || !h->host[0])
		snprintf(h->host, sizeof(h->host), "unknown");
	kedge__boot_read(h->boot);
	if (stat("/proc/self/ns/pid", &st) == 0)
		h->space = (unsigned long long)st.st_ino;
	h->pid = (long)getpid();
	if (proc_is_ours() && process_read(h->pid, &p))
		h->start = p.start;
	h->since = (long long)(kedge__clock_wall_ns() / 1000000000u);
}

/* ------------------------------------------------------------------ the text in the file */

int kedge__holder_write(int fd, const struct kedge__holder *h, const char *path, struct kedge__error *err)
{
	char *text = kedge__asprintf("%s\n%s\n%ld %llu %lld\nboot %s pidns %llu\n", h->name, h->host, h->pid, h->start,
				     h->since, h->boot[0] ? h->boot : "unknown", h->space);
	int rc;

	if (!text)
		return kedge__error_nomem(err);
	rc = kedge__fs_truncate(fd, 0, path, err);
	if (!rc)
		rc = kedge__fs_pwrite(fd, text, strlen(text), 0, path, err);
	kedge__free(text);
	return rc;
}

/* Kedge 0.1 wrote no last line: such a holder's boot and namespace are unknown. */
bool kedge__holder_read(int fd, struct kedge__holder *h)
{
	char text[LOCK_BYTES_LIMIT];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	int got;

	memset(h, 0, sizeof(*h));
	if (n <= 0)
		return false;
	text[n] = '\0';
	got = sscanf(text, "%127[^\n]\n%255[^\n]\n%ld %llu %lld\nboot %39s pidns %llu\n", h->name, h->host, &h->pid,
		     &h->start, &h->since, h->boot, &h->space);
	return got >= 5 && h->pid > 0;
}

/* ------------------------------------------------------------------ is it alive? */

/* A line of the kernel about a lock: a flock on the file of ST, taken by TAKER. In the line of a waiting process an
 * arrow takes the place of the kind. */
static bool line_is_flock(const char *line, const struct stat *st, long *taker)
{
	unsigned int high, low;
	unsigned long long inode;
	char kind[16];

	return sscanf(line, "%*[^:]: %15s %*s %*s %ld %x:%x:%llu ", kind, taker, &high, &low, &inode) == 5 &&
	       strcmp(kind, "FLOCK") == 0 && high == major(st->st_dev) && low == minor(st->st_dev) &&
	       inode == (unsigned long long)st->st_ino;
}

/* All locks of this kernel. Those of a process that is gone are listed in the first PID namespace only. */
static bool lock_is_listed(const struct stat *st, long pid)
{
	FILE *f = fopen("/proc/locks", "re");
	char line[256];
	bool found = false;
	long taker;

	while (f && !found && fgets(line, sizeof(line), f))
		found = line_is_flock(line, st, &taker) && taker == pid;
	if (f)
		fclose(f);
	return found;
}

/* Descriptor FD of process PID, both as names in /proc, holds the flock on the file of ST, which no existing process
 * took itself. */
static bool descriptor_has_lock(const char *pid, const char *fd, const struct stat *st)
{
	char path[600], line[256];
	struct stat other;
	bool found = false;
	long taker;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/fd/%s", pid, fd);
	if (stat(path, &other) != 0 || other.st_dev != st->st_dev || other.st_ino != st->st_ino)
		return false;
	snprintf(path, sizeof(path), "/proc/%s/fdinfo/%s", pid, fd);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, "lock:", 5) == 0 && line_is_flock(line + 5, st, &taker) && taker == 0;
	if (f)
		fclose(f);
	return found;
}

static bool process_has_lock(const char *pid, const struct stat *st)
{
	char path[300], **names;
	size_t count;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	if (strspn(pid, "0123456789") != strlen(pid) || kedge__fs_list(path, &names, &count, NULL) != 0)
		return false;
	for (size_t i = 0; i < count && !found; i++)
		found = descriptor_has_lock(pid, names[i], st);
	kedge__fs_list_free(names, count);
	return found;
}

/* Some process that can be examined has inherited it: the process that took it is gone. */
static bool lock_is_inherited(const struct stat *st)
{
	char **names;
	size_t count;
	bool found = false;

	if (kedge__fs_list("/proc", &names, &count, NULL) != 0)
		return false;
	for (size_t i = 0; i < count && !found; i++)
		found = process_has_lock(names[i], st);
	kedge__fs_list_free(names, count);
	return found;
}

/* The flock on the file FD belongs to this kernel and to PID, not to another machine, about which nothing is known
 * here. */
static bool lock_is_local(int fd, long pid)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (lock_is_listed(&st, pid) || lock_is_inherited(&st));
}

/* A process whose first thread has ended has the state of a zombie, but lives as long as it has other threads. */
static enum kedge__holder_state process_state(const struct kedge__holder *h)
{
	struct process p;

	if (kill((pid_t)h->pid, 0) != 0 && errno == ESRCH)
		return KEDGE__HOLDER_DEAD;
	if (!h->start || !process_read(h->pid, &p))
		return KEDGE__HOLDER_UNKNOWN;
	if (h->start != p.start || ((p.state == 'Z' || p.state == 'X') && p.threads <= 1))
		return KEDGE__HOLDER_DEAD;
	return KEDGE__HOLDER_ALIVE;
}

enum kedge__holder_state kedge__holder_look(const struct kedge__holder *h, int fd)
{
	enum kedge__holder_state state;
	struct kedge__holder self;

	kedge__holder_self("", &self);
	if (!self.boot[0] || !self.space || strcmp(h->host, self.host) != 0 || strcmp(h->boot, self.boot) != 0 ||
	    h->space != self.space || !proc_is_ours())
		return KEDGE__HOLDER_UNKNOWN;
	state = process_state(h);
	/* Clones of a machine have the same boot id: only the fact that the lock belongs to this kernel distinguishes
	 * them. */
	return state == KEDGE__HOLDER_DEAD && !lock_is_local(fd, h->pid) ? KEDGE__HOLDER_UNKNOWN : state;
}

void kedge__holder_text(const struct kedge__holder *h, char text[KEDGE__HOLDER_TEXT])
{
	time_t since = (time_t)h->since;
	char when[64] = "";
	struct tm utc;

	if (gmtime_r(&since, &utc))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc);
	snprintf(text, KEDGE__HOLDER_TEXT, "%s (pid %ld on %s, since %s)", h->name, h->pid, h->host, when);
}
