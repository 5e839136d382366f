/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tracker: which pages of a process were written.
 *
 * A userfaultfd that the target opens for us, and closes again, protects its pages from here: the kernel itself lets a
 * write to such a page go on, after lifting the protection, and nobody waits. It lasts as long as our copy of the
 * descriptor: when this process ends, nothing is left in the target.
 *
 * A page that is protected has been copied. Memory that was unmapped, moved or discarded has lost its protection, and
 * new memory has none: both count as written. No list of what is protected is needed.
 *
 * Mappings that are protected do not grow together with new ones beside them. So only large ones are: how many a
 * program may have got by that is bounded by its size.
 */
#include "base/search.h"
#include "process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Since Linux 6.7: the header may be older. */
#define WP_UNPOPULATED (UINT64_C(1) << 13)
#define WP_ASYNC       (UINT64_C(1) << 15)

#define LEAST        (UINT64_C(1) << 20)  /* bytes of a mapping that is tracked, */
#define LEAST_SHARE  1024                 /* or this part of what the process has in memory, if that is more */
#define FRESH_LEAST  (UINT64_C(16) << 20) /* bytes of new mappings that are worth a stop of their own */
#define STAGED_LEAST ((size_t)4 << 20)

struct kedge__process_tracker *kedge__process_tracker_new(void)
{
	struct kedge__process_tracker *k = kedge__calloc(1, sizeof(*k));

	if (k)
		k->userfault = -1;
	return k;
}

void kedge__tracker_end(struct kedge__process_tracker *k)
{
	if (k->userfault >= 0)
		close(k->userfault);
	k->userfault = -1;
	k->all = true;
	k->missed.count = k->watched.count = 0;
}

void kedge__process_tracker_free(struct kedge__process_tracker *k)
{
	if (!k)
		return;
	kedge__tracker_end(k);
	kedge__process_image_done(&k->known);
	kedge__array_done(&k->missed);
	kedge__array_done(&k->watched);
	if (k->staged)
		kedge__map_free(k->staged, k->staged_room);
	kedge__free(k->why_not);
	kedge__free(k);
}

const char *kedge__process_tracker_why_not(const struct kedge__process_tracker *k)
{
	return k->why_not;
}

void kedge__tracker_follow(struct kedge__process_tracker *k, pid_t pid)
{
	uint64_t started = kedge__process_started(pid);

	if (k->pid == pid && k->started == started)
		return;
	kedge__tracker_end(k);
	kedge__process_image_done(&k->known);
	k->pid = pid;
	k->started = started;
	k->in_vain = k->rest = 0;
}

/* ------------------------------------------------------------------ a userfaultfd */

static void say_why_not(struct kedge__process_tracker *k, const char *what, int64_t code)
{
	kedge__free(k->why_not);
	k->why_not = kedge__asprintf("%s: %s", what, strerror((int)-code));
}

/* Our copy of NUMBER, which the target has. A negative errno: none. */
static int copy_descriptor(pid_t pid, int number)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), fd;

	if (process < 0)
		return -errno;
	fd = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	if (fd < 0)
		fd = -errno;
	close(process);
	return fd;
}

bool kedge__tracker_set_up(struct kedge__process_tracker *k, int fd)
{
	struct uffdio_api api = {.api = UFFD_API, .features = WP_ASYNC | WP_UNPOPULATED};

	if (ioctl(fd, UFFDIO_API, &api) != 0) {
		close(fd);
		return false;
	}
	k->userfault = fd;
	k->all = true;
	return true;
}

/* The scratch is there. */
static int ask_userfault(struct kedge__process_tracker *k, struct kedge__target *t, struct kedge__error *err)
{
	struct kedge__tracee *leader = &t->threads.at[0];
	int64_t number, closed;
	int fd,
	    rc = KEDGE__CALL(t, leader, &number, err, SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | KEDGE__USER_MODE_ONLY);

	if (rc || number < 0) {
		if (!rc)
			say_why_not(k, "the kernel does not let it use userfaultfd", number);
		return rc;
	}
	fd = copy_descriptor(t->pid, (int)number);
	rc = KEDGE__CALL(t, leader, &closed, err, SYS_close, (uint64_t)number);
	if (fd < 0)
		say_why_not(k, "its userfaultfd cannot be taken over", fd);
	else if (rc)
		close(fd);
	else if (!kedge__tracker_set_up(k, fd))
		say_why_not(k, "its userfaultfd cannot be used", -errno);
	return rc;
}

/* Whether tracking M is of use. */
static bool is_large(const struct kedge__process_tracker *k, const struct kedge__process_mapping *m)
{
	return m->kind == KEDGE__MAPPING_ANONYMOUS && m->end - m->start >= k->least && !kedge__mapping_is_apart(m);
}

bool kedge__tracker_watches(const struct kedge__process_tracker *k, const struct kedge__process_mapping *m)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, k->watched.count, k->watched.at[i].start < m->start);
	return i < k->watched.count && k->watched.at[i].start == m->start &&
	       k->watched.at[i].len == m->end - m->start && is_large(k, m);
}

static int watch_mapping(struct kedge__process_tracker *k, const struct kedge__process_mapping *m,
			 struct kedge__error *err)
{
	struct kedge__range range = {m->start, m->end - m->start};
	struct uffdio_register r = {.range = {range.start, range.len}, .mode = UFFDIO_REGISTER_MODE_WP};

	if (ioctl(k->userfault, UFFDIO_REGISTER, &r) == 0)
		return kedge__array_push(&k->watched, range) ? 0 : kedge__error_nomem(err);
	if (errno == EBUSY)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "it uses userfaultfd itself: 0x%llx %s",
					(unsigned long long)m->start, m->name);
	/* It executed another program: its memory is not the one of our descriptor. */
	if (errno == ESRCH || errno == ENOMEM)
		kedge__tracker_end(k);
	return 0;
}

int kedge__tracker_watch(struct kedge__process_tracker *k, const struct kedge__process_image *image,
			 struct kedge__error *err)
{
	int rc = 0;

	k->watched.count = 0;
	for (size_t i = 0; !rc && k->userfault >= 0 && i < image->mappings.count; i++)
		if (is_large(k, &image->mappings.at[i]))
			rc = watch_mapping(k, &image->mappings.at[i], err);
	return rc;
}

static int ask(struct kedge__process_tracker *k, struct kedge__target *t, struct kedge__error *err)
{
	struct kedge__process_image image = {0};
	int rc = kedge__target_find_vdso(t, err);

	if (!rc)
		rc = kedge__target_threads(t, &image, err);
	if (!rc)
		rc = kedge__scratch_map(t, image.threads.at, err);
	if (!rc)
		rc = ask_userfault(k, t, err);
	if (!rc)
		rc = kedge__scratch_unmap(t, err);
	kedge__process_image_done(&image);
	return rc;
}

static int stop_and_ask(struct kedge__process_tracker *k, struct kedge__target *t, struct kedge__error *err)
{
	struct kedge__process_image image = {0};
	int rc = kedge__target_stop(t, err);

	if (!rc && k->userfault < 0)
		rc = ask(k, t, err);
	if (!rc)
		rc = kedge__target_mappings(t, &k->known, true, &image, err);
	if (!rc)
		rc = kedge__tracker_watch(k, &image, err);
	kedge__target_release(t);
	kedge__process_image_done(&image);
	return rc;
}

static uint64_t resident_bytes(pid_t pid)
{
	unsigned long pages = 0;
	char *text;

	if (kedge__proc_read(pid, "statm", &text, NULL, NULL) != 0)
		return 0;
	if (sscanf(text, "%*s %lu", &pages) != 1)
		pages = 0;
	kedge__free(text);
	return pages * KEDGE__PAGE_BYTES;
}

/* Bytes that are not tracked yet, as far as is known while it runs. */
static uint64_t new_bytes(struct kedge__process_tracker *k)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < k->known.mappings.count; i++) {
		const struct kedge__process_mapping *m = &k->known.mappings.at[i];

		if (is_large(k, m) && !kedge__tracker_watches(k, m))
			bytes += m->end - m->start;
	}
	return bytes;
}

int kedge__tracker_begin(struct kedge__process_tracker *k, struct kedge__target *t, struct kedge__error *err)
{
	uint64_t fresh;

	k->least = KEDGE__MAX(LEAST, resident_bytes(t->pid) / LEAST_SHARE);
	fresh = new_bytes(k);
	if (k->why_not || !fresh || (k->userfault >= 0 && fresh < FRESH_LEAST))
		return 0;
	if (k->userfault < 0) {
		const char *why = kedge__tracker_probe_kernel();

		k->why_not = why ? kedge__strdup(why) : NULL;
	}
	return k->why_not ? 0 : stop_and_ask(k, t, err);
}

int kedge__tracker_room(struct kedge__process_tracker *k, uint64_t bytes, struct kedge__error *err)
{
	size_t room = KEDGE__MAX((size_t)bytes, STAGED_LEAST);
	uint8_t *staged;

	if (room <= k->staged_room)
		return 0;
	staged = kedge__map_alloc(room);
	if (!staged)
		return kedge__error_nomem(err);
	if (k->staged)
		kedge__map_free(k->staged, k->staged_room);
	for (size_t at = 0; at < room; at += KEDGE__PAGE_BYTES)
		((volatile uint8_t *)staged)[at] = 0;
	k->staged = staged;
	k->staged_room = room;
	return 0;
}
