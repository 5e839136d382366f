/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptors: what a process has open. */
#include "process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EPOLL_WORDS 3

struct look {
	struct kedge__target *t;
	struct kedge__process_image *image;
	KEDGE__ARRAY(struct stat) stats; /* one for each descriptor of the image */
};

static bool same_open_file(pid_t a, int x, pid_t b, int y)
{
	return syscall(SYS_kcmp, a, b, KCMP_FILE, (unsigned long)x, (unsigned long)y) == 0;
}

static int refuse(const struct kedge__process_descriptor *d, const char *what, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_STATE, 0, "descriptor %u is %s: %s", d->number, what, d->path);
}

/* ------------------------------------------------------------------ kinds */

static bool is_inherited(const struct look *l, const struct stat *st, struct kedge__process_descriptor *d)
{
	for (int i = 0; i <= 2; i++) {
		struct stat ours;

		if (fstat(i, &ours) == 0 && ours.st_dev == st->st_dev && ours.st_ino == st->st_ino &&
		    same_open_file(getpid(), i, l->t->pid, (int)d->number)) {
			d->kind = KEDGE__DESCRIPTOR_INHERITED;
			d->object = (uint64_t)i;
			return true;
		}
	}
	return false;
}

static int look_at_file(const struct stat *st, struct kedge__process_descriptor *d, struct kedge__error *err)
{
	struct stat named;

	if (stat(d->path, &named) != 0 || named.st_ino != st->st_ino || named.st_dev != st->st_dev)
		return refuse(d, "a file that was removed or replaced", err);
	d->kind = S_ISDIR(st->st_mode) ? KEDGE__DESCRIPTOR_DIRECTORY : KEDGE__DESCRIPTOR_FILE;
	return 0;
}

static int look_at_device(const struct stat *st, struct kedge__process_descriptor *d, struct kedge__error *err)
{
	unsigned m = minor(st->st_rdev);

	if (major(st->st_rdev) != 1 || (m != 3 && m != 5 && m != 7 && m != 8 && m != 9))
		return refuse(d, "a device", err);
	d->kind = KEDGE__DESCRIPTOR_DEVICE;
	return 0;
}

static int look_at_epoll(const char *info, struct kedge__process_descriptor *d, struct kedge__error *err)
{
	KEDGE__ARRAY(uint64_t) all = {0};

	for (const char *p = strstr(info, "tfd:"); p; p = strstr(p + 4, "tfd:")) {
		unsigned events;
		unsigned long long data;
		int number;

		if (sscanf(p, "tfd: %d events: %x data: %llx", &number, &events, &data) != 3)
			continue;
		if (!kedge__array_push(&all, (uint64_t)number) || !kedge__array_push(&all, events) ||
		    !kedge__array_push(&all, data)) {
			kedge__array_done(&all);
			return kedge__error_nomem(err);
		}
	}
	d->kind = KEDGE__DESCRIPTOR_EPOLL;
	d->data = (struct kedge__process_blob){(uint8_t *)all.at, all.count * sizeof(uint64_t)};
	return 0;
}

static int look_at_timer(const char *info, struct kedge__process_descriptor *d, struct kedge__error *err)
{
	const char *clock = kedge__proc_field(info, "clockid"), *ticks = kedge__proc_field(info, "ticks");
	const char *left = strstr(info, "it_value: ("), *interval = strstr(info, "it_interval: (");
	unsigned long long words[4];
	uint8_t bytes[sizeof(words)];

	if (!clock || !ticks || !left || !interval || sscanf(left, "it_value: (%llu, %llu)", words, words + 1) != 2 ||
	    sscanf(interval, "it_interval: (%llu, %llu)", words + 2, words + 3) != 2)
		return refuse(d, "a timer that cannot be read", err);
	d->kind = KEDGE__DESCRIPTOR_TIMER;
	d->object = strtoull(clock, NULL, 10);
	d->offset = strtoull(ticks, NULL, 10);
	for (size_t i = 0; i < KEDGE__COUNT(words); i++)
		kedge__put64(bytes + i * 8, words[i]);
	return kedge__blob_set(&d->data, bytes, sizeof(bytes)) ? 0 : kedge__error_nomem(err);
}

static int look_at_anonymous(const char *info, struct kedge__process_descriptor *d, struct kedge__error *err)
{
	const char *count = kedge__proc_field(info, "eventfd-count"),
		   *semaphore = kedge__proc_field(info, "eventfd-semaphore"),
		   *signals = kedge__proc_field(info, "sigmask");

	if (strcmp(d->path, "anon_inode:[eventpoll]") == 0)
		return look_at_epoll(info, d, err);
	if (strcmp(d->path, "anon_inode:[eventfd]") == 0 && count) {
		d->kind = KEDGE__DESCRIPTOR_EVENT;
		d->object = strtoull(count, NULL, 16);
		d->bytes = semaphore && atoi(semaphore);
		return 0;
	}
	if (strcmp(d->path, "anon_inode:[timerfd]") == 0)
		return look_at_timer(info, d, err);
	if (strcmp(d->path, "anon_inode:[signalfd]") == 0 && signals) {
		d->kind = KEDGE__DESCRIPTOR_SIGNALS;
		d->object = strtoull(signals, NULL, 16);
		return 0;
	}
	if (strstr(d->path, "io_uring"))
		return refuse(d, "io_uring, which writes to memory by itself", err);
	return refuse(d, "of a kind that cannot be saved", err);
}

static int look_at_kind(const struct look *l, const struct stat *st, const char *info,
			struct kedge__process_descriptor *d, struct kedge__error *err)
{
	if (is_inherited(l, st, d))
		return 0;
	if (strstr(info, "\nlock:"))
		return refuse(d, "a file that it has locked", err);
	if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
		return look_at_file(st, d, err);
	if (S_ISCHR(st->st_mode))
		return look_at_device(st, d, err);
	if (S_ISFIFO(st->st_mode) && strncmp(d->path, "pipe:", 5) == 0) {
		d->kind = KEDGE__DESCRIPTOR_PIPE;
		d->object = st->st_ino;
		return d->flags & O_DIRECT ? refuse(d, "a pipe of packets", err) : 0;
	}
	if (S_ISSOCK(st->st_mode))
		return refuse(d, "a connection", err);
	if (strncmp(d->path, "anon_inode:", 11) == 0)
		return look_at_anonymous(info, d, err);
	return refuse(d, "of a kind that cannot be saved", err);
}

/* ------------------------------------------------------------------ all of them */

static int look_at(struct look *l, struct kedge__process_descriptor *d, struct kedge__error *err)
{
	char path[KEDGE__PATH_ROOM], *info;
	const char *flags, *at;
	struct stat st;
	int rc;

	snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)l->t->pid, d->number);
	if (stat(path, &st) != 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot look at %s", path);
	snprintf(path, sizeof(path), "fd/%u", d->number);
	rc = kedge__proc_link(l->t->pid, path, &d->path, err);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "fdinfo/%u", d->number);
	rc = kedge__proc_read(l->t->pid, path, &info, NULL, err);
	if (rc)
		return rc;
	flags = kedge__proc_field(info, "flags");
	at = kedge__proc_field(info, "pos");
	d->flags = flags ? (uint32_t)strtoul(flags, NULL, 8) : 0;
	d->offset = at ? strtoull(at, NULL, 10) : 0;
	if (S_ISREG(st.st_mode)) {
		d->bytes = (uint64_t)st.st_size;
		d->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
	}
	rc = look_at_kind(l, &st, info, d, err);
	kedge__free(info);
	if (!rc && !kedge__array_push(&l->stats, st))
		rc = kedge__error_nomem(err);
	return rc;
}

static int add(void *ctx, unsigned long number, struct kedge__error *err)
{
	struct look *l = ctx;
	struct kedge__process_descriptor fresh = {.number = (uint32_t)number, .same = (uint32_t)number}, *d;
	size_t n = l->image->descriptors.count;
	int rc;

	if (!kedge__array_push(&l->image->descriptors, fresh))
		return kedge__error_nomem(err);
	d = &l->image->descriptors.at[n];
	rc = look_at(l, d, err);
	for (size_t i = 0; !rc && i < n; i++) {
		const struct kedge__process_descriptor *e = &l->image->descriptors.at[i];

		if (e->same == e->number && l->stats.at[i].st_ino == l->stats.at[n].st_ino &&
		    l->stats.at[i].st_dev == l->stats.at[n].st_dev &&
		    same_open_file(l->t->pid, (int)e->number, l->t->pid, (int)number)) {
			d->same = e->number;
			break;
		}
	}
	return rc;
}

/* ------------------------------------------------------------------ pipes */

/* A copy of what is in a pipe, which stays there. */
static int copy_pipe(int from, struct kedge__process_descriptor *d, struct kedge__error *err)
{
	int ends[2], left = 0, room = fcntl(from, F_GETPIPE_SZ);
	ssize_t got = 0;
	uint8_t *data;

	if (ioctl(from, FIONREAD, &left) != 0 || left <= 0)
		return 0;
	data = kedge__malloc((size_t)left);
	if (!data)
		return kedge__error_nomem(err);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
		kedge__free(data);
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot create a pipe");
	}
	if (room > 0)
		fcntl(ends[1], F_SETPIPE_SZ, room);
	if (tee(from, ends[1], (size_t)left, SPLICE_F_NONBLOCK) == left)
		for (ssize_t n; got < left && (n = read(ends[0], data + got, (size_t)(left - got))) > 0;)
			got += n;
	close(ends[0]);
	close(ends[1]);
	d->data = (struct kedge__process_blob){data, (uint64_t)got};
	return got == left ? 0 : refuse(d, "a pipe that cannot be read", err);
}

static int keep_pipe(struct look *l, struct kedge__process_descriptor *d, struct kedge__error *err)
{
	bool reader = (d->flags & O_ACCMODE) == O_RDONLY, other = false;
	int pidfd, fd, rc;

	for (size_t i = 0; i < l->image->descriptors.count; i++) {
		const struct kedge__process_descriptor *e = &l->image->descriptors.at[i];

		other |= e->kind == KEDGE__DESCRIPTOR_PIPE && e->object == d->object &&
			 ((e->flags & O_ACCMODE) == O_RDONLY) != reader;
	}
	if (!other)
		return refuse(d, "a pipe to another process", err);
	if (!reader || d->same != d->number)
		return 0;
	pidfd = (int)syscall(SYS_pidfd_open, l->t->pid, 0);
	fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, d->number, 0);
	if (fd < 0)
		rc = kedge__error_set(err, KEDGE_E_STATE, errno, "cannot look into the pipe of descriptor %u",
				      d->number);
	else
		rc = copy_pipe(fd, d, err);
	if (fd >= 0)
		close(fd);
	if (pidfd >= 0)
		close(pidfd);
	return rc;
}

int kedge__target_descriptors(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err)
{
	struct look l = {.t = t, .image = image};
	int rc = kedge__proc_numbers(t->pid, "fd", add, &l, err);

	for (size_t i = 0; !rc && i < image->descriptors.count; i++)
		if (image->descriptors.at[i].kind == KEDGE__DESCRIPTOR_PIPE)
			rc = keep_pipe(&l, &image->descriptors.at[i], err);
	kedge__array_done(&l.stats);
	return rc;
}

/* ------------------------------------------------------------------ contents */

static int read_contents(const char *path, struct kedge__process_contents *out, struct kedge__error *err)
{
	struct kedge__process_content c = {0};
	uint64_t bytes;
	int fd, rc;

	for (size_t i = 0; i < out->count; i++)
		if (strcmp(out->at[i].path, path) == 0)
			return 0;
	rc = kedge__fs_open_read(path, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &bytes, path, err);
	c.bytes = (size_t)bytes;
	c.data = rc ? NULL : kedge__map_alloc(c.bytes + 1);
	c.path = kedge__strdup(path);
	if (!rc && (!c.data || !c.path))
		rc = kedge__error_nomem(err);
	if (!rc)
		rc = kedge__fs_pread(fd, c.data, c.bytes, 0, path, err);
	kedge__fs_close(fd);
	if (!rc && !kedge__array_push(out, c))
		rc = kedge__error_nomem(err);
	if (rc) {
		if (c.data)
			kedge__map_free(c.data, c.bytes + 1);
		kedge__free(c.path);
	}
	return rc;
}

/* Whether what is in the file now may be changed later, other than by writing at its end. */
static bool changes_in_place(const struct kedge__process_descriptor *d, enum kedge__process_files which)
{
	bool writes = (d->flags & O_ACCMODE) != O_RDONLY;

	if (d->kind != KEDGE__DESCRIPTOR_FILE || !writes || which == KEDGE__FILES_NONE)
		return false;
	return which == KEDGE__FILES_ALL ||
	       (!(d->flags & O_APPEND) && (d->offset != d->bytes || (d->flags & O_ACCMODE) == O_RDWR));
}

int kedge__target_contents(struct kedge__process_image *image, enum kedge__process_files which,
			   struct kedge__process_contents *out, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < image->descriptors.count; i++) {
		struct kedge__process_descriptor *d = &image->descriptors.at[i];

		if (changes_in_place(d, which)) {
			d->contents = 1;
			rc = read_contents(d->path, out, err);
		}
	}
	for (size_t i = 0; !rc && which != KEDGE__FILES_NONE && i < image->mappings.count; i++) {
		const struct kedge__process_mapping *m = &image->mappings.at[i];

		if (m->kind == KEDGE__MAPPING_SHARED_FILE && (m->bits & KEDGE__MAPPING_WRITE))
			rc = read_contents(m->name, out, err);
	}
	return rc;
}

void kedge__process_contents_done(struct kedge__process_contents *list)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->at[i].data)
			kedge__map_free(list->at[i].data, list->at[i].bytes + 1);
		kedge__free(list->at[i].path);
	}
	kedge__array_done(list);
}
