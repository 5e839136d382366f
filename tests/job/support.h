/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of job share: a directory of their own, settings, memory with known bytes, damage. */
#ifndef KEDGE_TESTS_JOB_SUPPORT_H
#define KEDGE_TESTS_JOB_SUPPORT_H

#include "../lib/cases.h"
#include "../lib/damage.h"
#include "../lib/draw.h"
#include "../lib/files.h"
#include "../lib/scratch.h"
#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where every step is ten times as slow, tests take fewer of them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

struct place {
	char dir[256], l1[300], l2[300];
	char log[1 << 16]; /* every message, one after the other; under place_lock */
};

/*
 * Several threads may log at once, also just after a test has ended: the only place of a program is never freed, and
 * whoever reads its log reads a copy.
 */
static pthread_mutex_t place_lock = PTHREAD_MUTEX_INITIALIZER;

static inline void place_log(void *user, enum kedge_log_level level, const char *text)
{
	struct place *p = user;
	size_t used;

	pthread_mutex_lock(&place_lock);
	used = strlen(p->log);
	snprintf(p->log + used, sizeof(p->log) - used, "%d %s\n", (int)level, text);
	pthread_mutex_unlock(&place_lock);
}

/* All that was logged until now. */
static inline const char *place_said(const struct place *p)
{
	static char said[sizeof(p->log)];

	pthread_mutex_lock(&place_lock);
	memcpy(said, p->log, sizeof(said));
	pthread_mutex_unlock(&place_lock);
	return said;
}

static inline void place_forget(struct place *p)
{
	pthread_mutex_lock(&place_lock);
	p->log[0] = '\0';
	pthread_mutex_unlock(&place_lock);
}

static inline int place_setup(void **state)
{
	static struct place only;
	struct place *p = &only;

	place_forget(p);
	scratch_make(p->dir, sizeof(p->dir), "job");
	text_make(p->l1, sizeof(p->l1), "%s/l1", p->dir);
	text_make(p->l2, sizeof(p->l2), "%s/l2", p->dir);
	*state = p;
	return 0;
}

static inline int place_teardown(void **state)
{
	struct place *p = *state;

	kedge_set_log(NULL, NULL);
	kedge__fault_set(NULL, NULL);
	scratch_remove(p->dir);
	return 0;
}

#define JOB(fn) cmocka_unit_test_setup_teardown(fn, place_setup, place_teardown)

/* Up to 12 "key=value" strings behind l1 (and l2 if asked for). */
struct options {
	char text[16][400];
	const char *at[17];
	int count;
};

static inline const char *const *options_make(struct options *o, const struct place *p, bool l2,
					      const char *const *more)
{
	o->count = 0;
	text_make(o->text[o->count++], sizeof(o->text[0]), "l1=%s", p->l1);
	if (l2)
		text_make(o->text[o->count++], sizeof(o->text[0]), "l2=%s", p->l2);
	text_make(o->text[o->count++], sizeof(o->text[0]), "sync=no");
	text_make(o->text[o->count++], sizeof(o->text[0]), "threads=2");
	for (; more && *more; more++)
		text_make(o->text[o->count++], sizeof(o->text[0]), "%s", *more);
	for (int i = 0; i < o->count; i++)
		o->at[i] = o->text[i];
	o->at[o->count] = NULL;
	return o->at;
}

#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

static inline kedge_t *job_open(const struct place *p, bool l2, const char *const *more)
{
	struct options o;
	kedge_t *k = NULL;
	int rc = kedge_open("job", NULL, options_make(&o, p, l2, more), &k);

	if (rc)
		fprintf(stderr, "kedge_open: %s\n", kedge_last_error(NULL));
	assert_int_equal(rc, 0);
	return k;
}

#define assert_ok(k, call)                                                                                             \
	do {                                                                                                           \
		int rc_ = (call);                                                                                      \
		if (rc_)                                                                                               \
			fprintf(stderr, "%s: %d %s\n", #call, rc_, kedge_last_error(k));                               \
		assert_int_equal(rc_, 0);                                                                              \
	} while (0)

static inline void segment_path(const char *store, uint64_t version, int rank, char *out, size_t room)
{
	char dir[400], prefix[32];

	text_make(dir, sizeof(dir), "%s/job/v%020llu", store, (unsigned long long)version);
	text_make(prefix, sizeof(prefix), "r%07d-", rank);
	assert_true(file_find(dir, prefix, ".seg", out, room));
}

static inline void manifest_path(const char *store, uint64_t version, char *out, size_t room)
{
	text_make(out, room, "%s/job/set-%020llu", store, (unsigned long long)version);
}

/* A byte in the first block of a segment: behind the header of 64 bytes. */
static inline void segment_damage(const char *store, uint64_t version, int rank)
{
	char path[600];

	segment_path(store, version, rank, path, sizeof(path));
	file_flip(path, 64 + 10, 0x40);
}

static inline void file_fill(const char *path, size_t bytes, uint64_t seed)
{
	uint8_t *data = malloc(bytes + 1);

	assert_non_null(data);
	fill_random(data, bytes, seed);
	file_write(path, data, bytes);
	free(data);
}

/* What file_fill() made of it. */
static inline void file_is(const char *path, size_t bytes, uint64_t seed)
{
	uint8_t *is, *wanted = malloc(bytes + 1);
	size_t n;

	assert_non_null(wanted);
	fill_random(wanted, bytes, seed);
	is = file_read(path, &n);
	assert_non_null(is);
	assert_int_equal(n, bytes);
	assert_memory_equal(is, wanted, bytes);
	free(is);
	free(wanted);
}

static inline size_t entries_of(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline size_t fds_open(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* 0: nobody knows, without /proc. */
static inline size_t threads_alive(void)
{
	return access("/proc/self/task", F_OK) == 0 ? entries_of("/proc/self/task") : 0;
}

/* A thread that was joined may be listed for a moment more, until the kernel has taken it off: let it go, but wait for
 * no other. */
static inline size_t threads_left(size_t expected)
{
	size_t n = threads_alive();

	for (int i = 0; i < 100000 && n > expected; i++) {
		sched_yield();
		n = threads_alive();
	}
	return n;
}

static inline size_t versions_count(kedge_t *k)
{
	struct kedge_version_info *list;
	size_t n;

	assert_ok(k, kedge_versions(k, &list, &n));
	kedge_free(list);
	return n;
}

static inline uint32_t levels_of(kedge_t *k, uint64_t version)
{
	struct kedge_version_info *list;
	uint32_t levels = 0;
	size_t n;

	assert_ok(k, kedge_versions(k, &list, &n));
	for (size_t i = 0; i < n; i++) {
		if (list[i].version == version)
			levels = list[i].levels;
	}
	kedge_free(list);
	return levels;
}

#endif
