/* SPDX-License-Identifier: BSD-3-Clause */
/* versions_rank: what the ranks do, each in a process that begins and ends with a phase. */
#include "versions.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 256 /* bytes: the default of the setting */

struct rank {
	struct kedge__versions_bench *b;
	int rank;
	uint64_t *data, seed;
	kedge_t *k;
	bool filling;
	struct kedge__bench_channel front, back;
};

static struct kedge__versions_time now(void)
{
	struct timespec cpu;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	return (struct kedge__versions_time){kedge__clock_seconds(), (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec};
}

static void note(const struct kedge__versions_bench *b, int rank, enum kedge__versions_figure f, uint64_t turn,
		 struct kedge__versions_time start)
{
	struct kedge__versions_time end = now();

	b->shared->times[f][turn][rank] = (struct kedge__versions_time){end.wall - start.wall, end.cpu - start.cpu};
}

/* All ranks begin at once: what is timed is the work, not the wait for a rank that comes late. */
static struct kedge__versions_time together(struct rank *r)
{
	kedge__bench_meet(&r->b->shared->bench);
	return now();
}

/* ---- the state */

/* The state of VERSION: its first word is the number, and the chunks that change move on from version to version. */
static void change(struct rank *r, uint64_t version)
{
	uint64_t words = r->b->size / 8, per_chunk = KEDGE__MIN(words, CHUNK / 8), chunks = words / per_chunk;
	uint64_t changed = KEDGE__MAX(1, chunks * r->b->changed_percent / 100);

	for (uint64_t i = 0; i < changed; i++) {
		uint64_t *chunk = r->data + (version * changed + i) % chunks * per_chunk;

		for (uint64_t w = 0; w < per_chunk; w++)
			chunk[w] = kedge__bench_random(&r->seed);
	}
	r->data[0] = version;
}

/* ---- the job */

static int job_open(struct rank *r)
{
	const struct kedge__versions_bench *b = r->b;
	struct kedge_group group = {
	    .rank = r->rank,
	    .size = b->ranks,
	    .any_thread = 1,
	    .allgather = kedge__bench_allgather,
	    .ctx = &r->front,
	    .background = &r->back,
	};
	char l1[4200], l2[4200];
	const char *settings[64] = {l1, l2, "keep=0", "l2_keep=0", "l2_every=1"};
	size_t n = 5;
	int rc;

	snprintf(l1, sizeof(l1), "l1=%s", b->stores[0]);
	snprintf(l2, sizeof(l2), "l2=%s", b->l2 ? b->stores[1] : "");
	for (size_t i = 0; i < b->sets.count && n + 2 < KEDGE__COUNT(settings); i++)
		settings[n++] = b->sets.at[i];
	if (r->filling || b->no_sync)
		settings[n++] = "sync=no";
	settings[n] = NULL;
	rc = b->ranks == 1 ? kedge_open(KEDGE__VERSIONS_NAME, NULL, settings, &r->k)
			   : kedge_open_group(KEDGE__VERSIONS_NAME, NULL, settings, &group, &r->k);
	return rc;
}

static int job_close(struct rank *r)
{
	int rc = kedge_close(r->k);

	r->k = NULL;
	return rc;
}

static int protect(struct rank *r)
{
	return kedge_protect(r->k, "state", r->data, r->b->size / 8, KEDGE_U64);
}

/* The state must be that of WANTED. */
static int restart(struct rank *r, uint64_t version, uint64_t wanted)
{
	uint64_t restored = 0;
	int rc = kedge_restart(r->k, version, &restored);

	if (!rc && (restored != wanted || r->data[0] != wanted)) {
		kedge__tool_say(r->b->usage.command, "a restart gave version %llu instead of %llu",
				(unsigned long long)r->data[0], (unsigned long long)wanted);
		return KEDGE_E_DAMAGED;
	}
	return rc;
}

/* As a program does that goes on: from the newest version, if there is one. */
static int job_continue(struct rank *r)
{
	int rc = job_open(r);

	if (!rc)
		rc = protect(r);
	if (!rc && r->b->stored)
		rc = restart(r, KEDGE_NEWEST, r->b->stored);
	return rc;
}

/* ---- phases */

static int fill(struct rank *r)
{
	const struct kedge__versions_bench *b = r->b;
	int rc;

	r->filling = true;
	rc = job_continue(r);
	for (uint64_t v = b->stored + 1; v <= b->target && !rc; v++) {
		change(r, v);
		rc = kedge_checkpoint(r->k, v);
		/* Each version by itself: of those that are due at once only the newest would go to L2. */
		if (!rc && b->l2)
			rc = kedge_wait(r->k);
		if (r->rank == 0)
			kedge__bar_update(&r->b->bar, v - b->stored, b->target - b->stored);
	}
	return rc ? rc : job_close(r);
}

static int reopen(struct rank *r)
{
	const struct kedge__versions_bench *b = r->b;
	int rc = 0;

	for (uint64_t turn = 0; turn < b->repeat && !rc; turn++) {
		struct kedge_version_info *list = NULL;
		size_t n = 0;
		struct kedge__versions_time start = together(r);

		rc = job_open(r);
		note(r->b, r->rank, KEDGE__VERSIONS_OPEN, turn, start);
		start = now();
		if (!rc)
			rc = kedge_versions(r->k, &list, &n);
		note(r->b, r->rank, KEDGE__VERSIONS_LIST, turn, start);
		kedge_free(list);
		if (!rc)
			rc = protect(r);
		start = together(r);
		if (!rc)
			rc = restart(r, KEDGE_NEWEST, b->stored);
		note(r->b, r->rank, KEDGE__VERSIONS_NEWEST, turn, start);
		start = together(r);
		if (!rc)
			rc = job_close(r);
		note(r->b, r->rank, KEDGE__VERSIONS_CLOSE, turn, start);
		if (!rc)
			rc = job_open(r);
		if (!rc)
			rc = protect(r);
		start = together(r);
		if (!rc)
			rc = restart(r, 1, 1);
		note(r->b, r->rank, KEDGE__VERSIONS_OLDEST, turn, start);
		if (!rc)
			rc = job_close(r);
	}
	return rc;
}

static int write_all(int fd, const void *data, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n = write(fd, (const char *)data + done, bytes - done);

		if (n <= 0)
			return -1;
		done += (uint64_t)n;
	}
	return 0;
}

/* The least that makes the same bytes durable under a name. DIR is open. */
static int bare_write(const struct rank *r, int dir)
{
	char temporary[32], name[32];
	bool sync = !r->b->no_sync;
	int fd, failed;

	snprintf(temporary, sizeof(temporary), "bare-%d.tmp", r->rank);
	snprintf(name, sizeof(name), "bare-%d", r->rank);
	fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	failed = fd < 0 || write_all(fd, r->data, r->b->size) != 0 || (sync && fsync(fd) != 0);
	if (fd >= 0 && close(fd) != 0)
		failed = 1;
	return failed || renameat(dir, temporary, dir, name) != 0 || (sync && fsync(dir) != 0) ? KEDGE_E_IO : 0;
}

static int checkpoint(struct rank *r, uint64_t version, uint64_t turn)
{
	struct kedge__versions_time start = together(r);
	int rc = kedge_checkpoint(r->k, version);

	note(r->b, r->rank, KEDGE__VERSIONS_BLOCKED, turn, start);
	if (!rc)
		rc = kedge_wait(r->k);
	note(r->b, r->rank, KEDGE__VERSIONS_COMPLETE, turn, start);
	return rc;
}

/* The first version after a restart is not counted: it begins a run. Its figures are overwritten. */
static int extend(struct rank *r)
{
	struct kedge__versions_bench *b = r->b;
	int dir = open(b->places[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = dir < 0 ? KEDGE_E_IO : job_continue(r);

	for (uint64_t i = 0; i <= b->checkpoints && !rc; i++) {
		uint64_t turn = i ? i - 1 : 0;
		struct kedge__versions_time start;

		change(r, b->stored + 1 + i);
		start = together(r);
		rc = bare_write(r, dir);
		note(r->b, r->rank, KEDGE__VERSIONS_BARE, turn, start);
		if (!rc)
			rc = checkpoint(r, b->stored + 1 + i, turn);
	}
	kedge__fs_close(dir);
	return rc ? rc : job_close(r);
}

/* ---- the processes */

static int rank_run(struct kedge__versions_bench *b, int rank, int (*phase)(struct rank *r))
{
	struct rank r = {.b = b, .rank = rank, .seed = (b->stored + 1) * 1000 + (uint64_t)rank};
	int rc = KEDGE_E_NOMEM;

	r.front = (struct kedge__bench_channel){&b->shared->front, rank, b->ranks};
	r.back = (struct kedge__bench_channel){&b->shared->back, rank, b->ranks};
	r.data = kedge__map_alloc(b->size);
	for (uint64_t i = 0; r.data && i < b->size / 8; i++)
		r.data[i] = kedge__bench_random(&r.seed);
	if (r.data)
		rc = phase(&r);
	if (rc)
		(void)kedge__tool_fail_job(b->usage.command, r.k, rc, "rank %d cannot go on", rank);
	return rc;
}

int kedge__versions_fill(void *bench, int rank)
{
	return rank_run(bench, rank, fill);
}

int kedge__versions_reopen(void *bench, int rank)
{
	return rank_run(bench, rank, reopen);
}

int kedge__versions_extend(void *bench, int rank)
{
	return rank_run(bench, rank, extend);
}

/* The commands as they are, less the start of a process; what they print goes nowhere. */
int kedge__versions_command(void *bench, int rank)
{
	struct kedge__versions_bench *b = bench;
	char *ls[] = {"ls", "-s", b->stores[0], "-n", KEDGE__VERSIONS_NAME, b->l2 ? "--l2" : NULL, b->stores[1], NULL};
	char *gc[] = {"gc", "-s", b->stores[0], "-n", KEDGE__VERSIONS_NAME, "--keep", "1000000000", "--quiet", NULL};
	int status = freopen("/dev/null", "w", stdout) ? 0 : KEDGE__EXIT_IO;

	for (uint64_t turn = 0; turn < b->repeat && !status; turn++) {
		struct kedge__versions_time start = now();

		status = kedge__tool_ls(b->l2 ? 7 : 5, ls);
		note(b, rank, KEDGE__VERSIONS_LS, turn, start);
		start = now();
		if (!status)
			status = kedge__tool_gc(8, gc);
		note(b, rank, KEDGE__VERSIONS_GC, turn, start);
	}
	return status;
}
