/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stub: a new process on its way to become the target. It opens what the target had open, each under its own number,
 * and executes the target's program, at whose beginning it is stopped. It was forked from a process with threads: it
 * allocates nothing.
 */
#include "process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define ONLY_AT_OPEN (O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_CLOEXEC)
/* TFD_IOC_SET_TICKS of linux/timerfd.h, which cannot be included beside sys/timerfd.h. */
#define SET_TICKS _IOW('T', 0, uint64_t)
#define SPARE     16 /* numbers between those of mapped files and the temporary ones */

enum step {
	STEP_LIMIT,
	STEP_DIRECTORY,
	STEP_MAPPED,
	STEP_OPEN,
	STEP_CUT,
	STEP_PIPE,
	STEP_NUMBER,
	STEP_EPOLL,
	STEP_EXEC,
	STEP_TIMER
};

const char *kedge__stub_step(int step)
{
	static const char *const words[] = {
	    "cannot prepare descriptors",
	    "cannot go to its directory",
	    "cannot open a file that it had mapped",
	    "cannot open a file",
	    "cannot cut a file to its size",
	    "cannot make a pipe, an event counter or a signalfd",
	    "cannot number descriptors",
	    "cannot make its set of epoll(7)",
	    "cannot execute its program",
	    "cannot set a timer",
	};

	return step >= 0 && (size_t)step < KEDGE__COUNT(words) ? words[step] : "cannot start it";
}

struct stub {
	const struct kedge__stub *s;
	const struct kedge__process_image *image;
	int temporary; /* numbers from here on are free for what is moved later */
	int report;
	int standard[3];
};

_Noreturn static void fail(const struct stub *b, enum step step, size_t which)
{
	int text[3] = {(int)step, errno, (int)which};

	while (write(b->report, text, sizeof(text)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* FD under a temporary number; it is closed by exec. */
static int lift(const struct stub *b, int fd, enum step step, size_t which)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, b->temporary);

	if (high < 0)
		fail(b, step, which);
	return high;
}

static int lifted(const struct stub *b, int fd, enum step step, size_t which)
{
	int high;

	if (fd < 0)
		fail(b, step, which);
	high = lift(b, fd, step, which);
	close(fd);
	return high;
}

/* Standard output that is a file goes back to where it was, unless messages of ours are in it, too. */
static void rewind_output(int fd, const struct kedge__process_descriptor *d)
{
	struct stat out, messages;

	if (d->object != STDOUT_FILENO || fstat(fd, &out) != 0 || !S_ISREG(out.st_mode) ||
	    (uint64_t)out.st_size < d->bytes ||
	    (fstat(STDERR_FILENO, &messages) == 0 && messages.st_ino == out.st_ino && messages.st_dev == out.st_dev))
		return;
	if (ftruncate(fd, (off_t)d->bytes) == 0)
		lseek(fd, (off_t)d->offset, SEEK_SET);
}

static int open_path(const struct stub *b, const struct kedge__process_descriptor *d, size_t i)
{
	int fd = open(d->path, ((int)d->flags & ~ONLY_AT_OPEN) | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		fail(b, STEP_OPEN, i);
	if (d->kind == KEDGE__DESCRIPTOR_FILE && (d->flags & O_ACCMODE) != O_RDONLY &&
	    ftruncate(fd, (off_t)d->bytes) != 0)
		fail(b, STEP_CUT, i);
	if (d->kind != KEDGE__DESCRIPTOR_DEVICE && lseek(fd, (off_t)d->offset, SEEK_SET) < 0)
		fail(b, STEP_CUT, i);
	return lifted(b, fd, STEP_OPEN, i);
}

static void make_pipe(const struct stub *b, int *temporary, size_t i)
{
	const struct kedge__process_descriptor *all = b->image->descriptors.at, *d = &all[i];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		fail(b, STEP_PIPE, i);
	for (size_t j = i; j < b->image->descriptors.count; j++) {
		bool reader = (all[j].flags & O_ACCMODE) == O_RDONLY;

		if (all[j].kind != KEDGE__DESCRIPTOR_PIPE || all[j].object != d->object || all[j].same != all[j].number)
			continue;
		if (reader && all[j].data.bytes &&
		    write(ends[1], all[j].data.data, (size_t)all[j].data.bytes) != (ssize_t)all[j].data.bytes)
			fail(b, STEP_PIPE, i);
		temporary[j] = lift(b, ends[!reader], STEP_PIPE, j);
		fcntl(temporary[j], F_SETFL, all[j].flags & O_NONBLOCK);
	}
	close(ends[0]);
	close(ends[1]);
}

/* It goes on with the time that was left, whatever it was set to; one that was about to expire does so at once. */
static int make_timer(const struct stub *b, const struct kedge__process_descriptor *d, size_t i)
{
	int fd = lifted(b, timerfd_create((int)d->object, d->flags & O_NONBLOCK), STEP_TIMER, i);
	const uint8_t *at = d->data.data;
	struct itimerspec when = {
	    .it_value = {(time_t)kedge__get64(at), (long)kedge__get64(at + 8)},
	    .it_interval = {(time_t)kedge__get64(at + 16), (long)kedge__get64(at + 24)},
	};

	if (!when.it_value.tv_sec && !when.it_value.tv_nsec && (when.it_interval.tv_sec || when.it_interval.tv_nsec))
		when.it_value.tv_nsec = 1;
	if (timerfd_settime(fd, 0, &when, NULL) != 0 || (d->offset && ioctl(fd, SET_TICKS, &d->offset) != 0))
		fail(b, STEP_TIMER, i);
	return fd;
}

static void open_one(const struct stub *b, int *temporary, size_t i)
{
	const struct kedge__process_descriptor *d = &b->image->descriptors.at[i];

	switch ((enum kedge__process_descriptor_kind)d->kind) {
	case KEDGE__DESCRIPTOR_INHERITED:
		temporary[i] = lift(b, b->standard[d->object], STEP_OPEN, i);
		rewind_output(temporary[i], d);
		break;
	case KEDGE__DESCRIPTOR_PIPE:
		if (temporary[i] < 0)
			make_pipe(b, temporary, i);
		break;
	case KEDGE__DESCRIPTOR_EVENT:
		temporary[i] =
		    lifted(b, eventfd(0, (d->flags & O_NONBLOCK) | (d->bytes ? EFD_SEMAPHORE : 0)), STEP_PIPE, i);
		if (d->object && write(temporary[i], &d->object, 8) != 8)
			fail(b, STEP_PIPE, i);
		break;
	case KEDGE__DESCRIPTOR_EPOLL:
		temporary[i] = lifted(b, epoll_create1(0), STEP_EPOLL, i);
		break;
	case KEDGE__DESCRIPTOR_SIGNALS:
		temporary[i] =
		    lifted(b, (int)syscall(SYS_signalfd4, -1, &d->object, sizeof(d->object), d->flags & O_NONBLOCK),
			   STEP_PIPE, i);
		break;
	case KEDGE__DESCRIPTOR_TIMER:
		temporary[i] = make_timer(b, d, i);
		break;
	default:
		temporary[i] = open_path(b, d, i);
		break;
	}
}

/* Of descriptors that share an open file, one is opened. */
static void number_all(const struct stub *b, const int *temporary)
{
	const struct kedge__process_descriptor *all = b->image->descriptors.at;
	size_t n = b->image->descriptors.count;

	for (size_t i = 0; i < n; i++) {
		size_t from = i;

		while (all[from].number != all[i].same)
			from--;
		if (dup2(temporary[from], (int)all[i].number) < 0)
			fail(b, STEP_NUMBER, i);
	}
	/* What else this process had below these numbers is not the target's. */
	for (int fd = 0, next = 0; fd < b->s->first; fd++) {
		while ((size_t)next < n && (int)all[next].number < fd)
			next++;
		if ((size_t)next == n || (int)all[next].number != fd)
			close(fd);
	}
}

static void fill_epolls(const struct stub *b)
{
	for (size_t i = 0; i < b->image->descriptors.count; i++) {
		const struct kedge__process_descriptor *d = &b->image->descriptors.at[i];

		if (d->kind != KEDGE__DESCRIPTOR_EPOLL || d->same != d->number)
			continue;
		for (uint64_t at = 0; at < d->data.bytes; at += 24) {
			struct epoll_event event = {.events = (uint32_t)kedge__get64(d->data.data + at + 8)};

			event.data.u64 = kedge__get64(d->data.data + at + 16);
			if (epoll_ctl((int)d->number, EPOLL_CTL_ADD, (int)kedge__get64(d->data.data + at), &event) != 0)
				fail(b, STEP_EPOLL, i);
		}
	}
}

static void open_mapped(const struct stub *b)
{
	const struct kedge__process_image *image = b->image;

	for (size_t i = 0; i < image->files.count; i++) {
		bool writes = false;
		int fd;

		for (size_t j = 0; j < image->mappings.count; j++)
			writes |= image->mappings.at[j].kind == KEDGE__MAPPING_SHARED_FILE &&
				  image->mappings.at[j].file == i &&
				  (image->mappings.at[j].bits & KEDGE__MAPPING_WRITE);
		fd = lifted(b, open(image->files.at[i].path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC), STEP_MAPPED, i);
		if (dup2(fd, b->s->first + (int)i) < 0)
			fail(b, STEP_MAPPED, i);
		close(fd);
	}
}

static void reset_signals(void)
{
	const struct sigaction preset = {.sa_handler = SIG_DFL};

	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &preset, NULL);
}

_Noreturn void kedge__stub_become(const struct kedge__stub *s)
{
	struct stub b = {.s = s, .image = s->restart->image, .report = s->report};
	struct rlimit limit;
	char *none[] = {NULL};
	char go;

	setpgid(0, s->restart->group);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	b.temporary = s->first + (int)b.image->files.count + SPARE;
	b.report = lift(&b, s->report, STEP_LIMIT, 0);
	while (read(s->go, &go, 1) < 0 && errno == EINTR)
		;
	for (int i = 0; i <= 2; i++)
		b.standard[i] = fcntl(i, F_DUPFD_CLOEXEC, b.temporary);
	if (chdir(b.image->cwd) != 0)
		fail(&b, STEP_DIRECTORY, 0);
	umask((mode_t)b.image->umask);
	open_mapped(&b);
	for (size_t i = 0; i < b.image->descriptors.count; i++)
		s->temporary[i] = -1;
	for (size_t i = 0; i < b.image->descriptors.count; i++)
		if (b.image->descriptors.at[i].same == b.image->descriptors.at[i].number)
			open_one(&b, s->temporary, i);
	number_all(&b, s->temporary);
	fill_epolls(&b);
	reset_signals();
	personality((unsigned long)b.image->personality);
	execve(b.image->files.at[0].path, s->words, none);
	fail(&b, STEP_EXEC, 0);
}
