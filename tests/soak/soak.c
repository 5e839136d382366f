/*
 * soak: jobs with settings drawn at random live, die of faults drawn at random, lose a level or a byte of a file, and
 * live again, each time with other settings on the same store. Whatever a restart gives must be the memory of that
 * version, bit for bit, and no version may be lost that the library called complete on a level that is still whole.
 *
 *     soak [--seed N] [--rounds N] [--moments] [--keep] [--verbose]
 */
#include "base/base.h"
#include "draw.h"
#include "store/store.h"

#include <kedge/kedge.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIVES 6
#define HUNG  120 /* seconds after which a life is taken as hung */

enum ending { LIVED, WRONG };

/* What the library called complete, shared between the lives of a job and the judge. */
struct promise {
	bool held;
	struct history_log log;
};

struct shared {
	struct promise level[2];
	struct history_log newest; /* what was restored last, or taken since */
	bool first_needs_second;   /* L1 was damaged: what is there now may refer to versions on L2 */
	bool second_damaged;       /* and nobody read it again: no version there can be relied on */
	char trouble[400];
};

struct round {
	uint64_t seed, state;
	bool moments, verbose, second_level;
	char dir[64];
	struct shared *shared;
};

static const char *const area_names[HISTORY_AREAS] = {"field", "heap", "cells", "wide"};
static const enum kedge_type area_types[HISTORY_AREAS] = {KEDGE_F64, KEDGE_BYTES, KEDGE_U32, KEDGE_F32};

/* ---- one life, in a process of its own */

struct job {
	struct round *round;
	struct life life;
	struct history *now;
	kedge_t *k;
};

static void wrong(struct job *j, const char *what, const char *detail)
{
	snprintf(j->round->shared->trouble, sizeof(j->round->shared->trouble), "%s: %s", what, detail);
	_exit(WRONG);
}

/* A call failed: the end of this life where a fault explains it, a finding where not. */
static void failed(struct job *j, const char *call)
{
	if (!j->life.errs)
		wrong(j, call, kedge_last_error(j->k));
}

static void promise(struct job *j, int level, uint64_t version)
{
	struct promise *p = &j->round->shared->level[level];

	p->held = true;
	memset(&p->log, 0, sizeof(p->log));
	p->log.version = version;
	memcpy(p->log.branch, j->now->log.branch, (version + 1) * sizeof(*p->log.branch));
}

static int protect_area(struct job *j, size_t i)
{
	const struct history_area *a = &j->now->areas[i];
	size_t size = kedge_type_size(area_types[i]);
	bool whole = a->bytes % size == 0;

	return kedge_protect(j->k, area_names[i], a->at, whole ? a->bytes / size : a->bytes,
			     whole ? area_types[i] : KEDGE_BYTES);
}

static int protect_all(struct job *j)
{
	int rc = kedge_protect(j->k, "log", &j->now->log, sizeof(j->now->log) / 8, KEDGE_U64);

	for (size_t i = 0; i < HISTORY_AREAS && rc == 0; i++)
		if (j->now->areas[i].bytes)
			rc = protect_area(j, i);
	return rc;
}

/* The sizes of all areas as they are stored in VERSION. */
static int take_sizes(struct job *j, uint64_t version)
{
	for (size_t i = 0; i < HISTORY_AREAS; i++) {
		struct kedge_region_info info;
		int rc = kedge_region_stat(j->k, version, area_names[i], &info);

		if (rc == KEDGE_E_NOTFOUND)
			info.bytes = 0;
		else if (rc != 0)
			return rc;
		if (info.bytes > HISTORY_ROOM)
			wrong(j, "a stored region is too large", area_names[i]);
		(void)history_resize(j->now, i, info.bytes, false);
	}
	return 0;
}

/* No version less than what was promised on a level that is whole, and the same past. */
static void judge(struct job *j, uint64_t version)
{
	char text[128];

	for (int level = 0; level < 2; level++) {
		const struct promise *p = &j->round->shared->level[level];

		if (!p->held)
			continue;
		snprintf(text, sizeof(text), "version %llu of L%d was complete, %llu is what is found",
			 (unsigned long long)p->log.version, level + 1, (unsigned long long)version);
		if (version < p->log.version)
			wrong(j, "lost", text);
		if (memcmp(p->log.branch, j->now->log.branch, (p->log.version + 1) * sizeof(*p->log.branch)) != 0)
			wrong(j, "another past", text);
	}
}

static void compare(struct job *j, uint64_t version)
{
	struct history *want;
	const char *difference;

	if (j->now->log.version != version || version > HISTORY_VERSIONS)
		wrong(j, "restored", "the log is of another version");
	want = history_replay(j->round->seed, &j->now->log);
	difference = history_difference(j->now, want);
	if (difference)
		wrong(j, "restored wrongly", difference);
	history_free(want);
}

/* Go on from the newest version that there is. False: a fault ended it. */
static bool restart(struct job *j)
{
	uint64_t version = 0, restored;
	int rc = kedge_find(j->k, KEDGE_NEWEST, &version);

	if (rc == KEDGE_E_NOTFOUND || rc == KEDGE_E_DAMAGED || rc == KEDGE_E_MISSING || rc == KEDGE_E_FORMAT) {
		judge(j, 0); /* a fresh start, where nothing was promised */
		if (protect_all(j) == 0)
			return true;
	} else if (rc == 0 && take_sizes(j, version) == 0 && protect_all(j) == 0 &&
		   kedge_restart(j->k, version, &restored) == 0) {
		compare(j, version);
		judge(j, version);
		return true;
	}
	failed(j, "restart");
	return false;
}

/* The areas take the sizes of the next version; memory that a version in progress may need is given up last. */
static bool resize(struct job *j)
{
	for (size_t i = 0; i < HISTORY_AREAS; i++) {
		size_t bytes = history_next_size(j->now, j->life.branch, i);
		uint8_t *old;
		int rc;

		if (bytes == j->now->areas[i].bytes)
			continue;
		old = history_resize(j->now, i, bytes, draw_below(&j->life.state, 2));
		rc = bytes ? protect_area(j, i) : kedge_unprotect(j->k, area_names[i]);
		if (rc != 0) {
			failed(j, "protect");
			return false;
		}
		history_unmap(old);
	}
	return true;
}

static void *change_last(void *arg)
{
	struct job *j = arg;

	history_change(j->now, j->life.branch, HISTORY_AREAS - 1, HISTORY_AREAS);
	return NULL;
}

static void change(struct job *j)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, change_last, j) != 0)
		wrong(j, "pthread_create", strerror(errno));
	history_change(j->now, j->life.branch, 0, HISTORY_AREAS - 1);
	pthread_join(thread, NULL);
}

/* All is on its levels: remember which version is the newest on L2. */
static void settle(struct job *j)
{
	struct kedge_version_info *list;
	size_t count;

	if (kedge_wait(j->k) != 0) {
		failed(j, "wait");
		return;
	}
	if (kedge_versions(j->k, &list, &count) != 0) {
		failed(j, "versions");
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (list[i].version > j->now->log.version)
			wrong(j, "versions", "one is listed from an abandoned future");
		if (list[i].levels & 1 && list[i].version == j->now->log.version)
			promise(j, 0, list[i].version);
		if (list[i].levels & 2 && !j->round->shared->second_damaged)
			promise(j, 1, list[i].version);
	}
	kedge_free(list);
}

static bool take_version(struct job *j)
{
	if (!resize(j))
		return false;
	change(j);
	history_advance(j->now, j->life.branch);
	if (kedge_checkpoint(j->k, j->now->log.version) != 0) {
		failed(j, "checkpoint");
		return true;
	}
	if (j->life.sync)
		promise(j, 0, j->now->log.version);
	if (j->life.patient || draw_below(&j->life.state, 4) == 0)
		settle(j);
	return true;
}

static void note_log(void *user, enum kedge_log_level level, const char *text)
{
	static const char *const names[] = {"error", "warning", "notice", "info", "debug"};

	dprintf(*(int *)user, "%s: %s\n", names[level], text);
}

static void live(struct round *round, const struct life *life)
{
	static int fd;
	struct job j = {.round = round, .life = *life};
	size_t n = 0;
	char l1[96], l2[96], path[96];

	snprintf(path, sizeof(path), "%s/log", round->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
	dprintf(fd, "-- %s\n", life_text(life));
	kedge_set_log(note_log, &fd);
	while (life->settings[n])
		n++;
	snprintf(l1, sizeof(l1), "l1=%s/l1", round->dir);
	snprintf(l2, sizeof(l2), "l2=%s/l2", round->dir);
	for (size_t i = 0; i < n; i++)
		j.life.settings[i] = j.life.text[i];
	j.life.settings[n++] = l1;
	if (round->second_level)
		j.life.settings[n++] = l2;
	alarm(HUNG);
	j.now = history_new(round->seed);
	(void)kedge__fault_set(life->fault, NULL);
	if (kedge_open("job", NULL, j.life.settings, &j.k) != 0) {
		failed(&j, "open");
		_exit(LIVED);
	}
	if (!restart(&j))
		_exit(LIVED);
	for (uint64_t i = 0; i < life->versions && j.now->log.version < HISTORY_VERSIONS; i++)
		if (!take_version(&j))
			break;
	if (life->closes && kedge_close(j.k) != 0)
		failed(&j, "close");
	_exit(LIVED);
}

/* ---- what happens between lives */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void remove_tree(const char *path)
{
	(void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static struct {
	char paths[1024][256];
	size_t count;
} found;

static int note_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type == FTW_F && st->st_size > 0 && found.count < 1024)
		snprintf(found.paths[found.count++], sizeof(found.paths[0]), "%s", path);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Alter a byte of some file of a level. */
static void flip(struct round *r, const char *level)
{
	struct stat st;
	uint8_t byte;
	off_t at;
	int fd;

	found.count = 0;
	(void)nftw(level, note_file, 16, FTW_PHYS);
	if (!found.count)
		return;
	qsort(found.paths, found.count, sizeof(found.paths[0]), by_name);
	fd = open(found.paths[draw_below(&r->state, found.count)], O_RDWR);
	if (fd < 0 || fstat(fd, &st) != 0)
		return;
	at = (off_t)draw_below(&r->state, (uint64_t)st.st_size);
	if (pread(fd, &byte, 1, at) == 1) {
		byte ^= (uint8_t)(1u << draw_below(&r->state, 8));
		(void)!pwrite(fd, &byte, 1, at);
	}
	close(fd);
}

static const char *damage(struct round *r)
{
	struct shared *s = r->shared;
	uint64_t kind = draw_below(&r->state, 10);
	bool second = r->second_level && kind == 9;
	char level[80];

	if (kind < 6)
		return "nothing";
	snprintf(level, sizeof(level), "%s/%s", r->dir, second ? "l2" : "l1");
	s->level[second].held = false;
	s->second_damaged = s->second_damaged || second;
	if (second && s->first_needs_second)
		s->level[0].held = false;
	if (!second)
		s->first_needs_second = true;
	if (kind == 6) {
		remove_tree(level);
		return "loss of L1";
	}
	flip(r, level);
	return second ? "a bit of L2" : "a bit of L1";
}

/* What somebody at the command line may do to a store: nothing that was promised may be lost by it. */
static const char *tend(struct round *r)
{
	struct kedge__coalesce_options options = {.block_bytes = 4096};
	struct kedge__coalesce_report merged;
	struct kedge__gc_report report = {0};
	struct kedge__catalog *cat;
	uint64_t kind = draw_below(&r->state, 8);
	char level[80];
	size_t count;

	if (kind > 2)
		return "";
	snprintf(level, sizeof(level), "%s/%s", r->dir, r->second_level && draw_below(&r->state, 2) ? "l2" : "l1");
	if (kedge__catalog_open(level, "job", KEDGE__CATALOG_READ, &cat, NULL) != 0)
		return "";
	count = kedge__catalog_count(cat);
	if (kind == 0) {
		(void)kedge__gc(cat, 1 + draw_below(&r->state, 3), false, &report, NULL);
		kedge__gc_report_done(&report);
	} else if (count) {
		size_t i = draw_below(&r->state, count);

		options.version = kedge__catalog_at(cat, i)->version;
		options.keep_old = draw_below(&r->state, 2);
		options.onto = i && kind == 2;
		if (options.onto)
			options.parent = kedge__catalog_at(cat, draw_below(&r->state, i))->version;
		(void)kedge__coalesce(cat, NULL, &options, &merged, NULL);
	}
	kedge__catalog_close(cat);
	return kind == 0 ? " and gc" : " and coalescing";
}

/* Run LIFE; true if it ended as it may. */
static bool run_life(struct round *r, const struct life *life)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		live(r, life);
	if (r->moments) {
		usleep((useconds_t)draw_below(&r->state, (uint64_t)1000 << draw_below(&r->state, 10)));
		kill(pid, SIGKILL);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == LIVED)
		return true;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && (*life->fault || r->moments))
		return true;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(r->shared->trouble, sizeof(r->shared->trouble), "hung for %d seconds", HUNG);
	else if (!*r->shared->trouble)
		snprintf(r->shared->trouble, sizeof(r->shared->trouble), "died with status %d", status);
	return false;
}

static bool run_round(struct round *r)
{
	*r->shared = (struct shared){0};
	r->state = r->seed;
	r->second_level = draw_below(&r->state, 3) != 0;
	for (uint64_t branch = 1; branch <= LIVES; branch++) {
		struct life life;
		const char *before = branch > 1 ? damage(r) : "nothing", *also = branch > 1 ? tend(r) : "";

		life_draw(&life, r->seed, branch, r->moments);
		if (r->verbose)
			printf("  after %s%s, %s\n", before, also, life_text(&life));
		if (run_life(r, &life))
			continue;
		printf("seed %llu: %s\n  after %s%s, %s\n", (unsigned long long)r->seed, r->shared->trouble, before,
		       also, life_text(&life));
		return false;
	}
	return true;
}

static int usage(void)
{
	fprintf(stderr, "usage: soak [--seed N] [--rounds N] [--moments] [--keep] [--verbose]\n"
			"  --moments  kill at moments that the clock gives, instead of at counted calls\n"
			"  --keep     keep the directory of a round that went wrong, with its log\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"seed", required_argument, NULL, 's'}, {"rounds", required_argument, NULL, 'r'},
	    {"moments", no_argument, NULL, 'm'},    {"keep", no_argument, NULL, 'k'},
	    {"verbose", no_argument, NULL, 'v'},    {0}};
	unsigned long long seed = 1, rounds = 10, wrong_rounds = 0;
	struct round r = {0};
	bool keep = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			rounds = strtoull(optarg, NULL, 10);
		else if (c == 'm')
			r.moments = true;
		else if (c == 'k')
			keep = true;
		else if (c == 'v')
			r.verbose = true;
		else
			return usage();
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	r.shared = mmap(NULL, sizeof(*r.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.shared == MAP_FAILED)
		return 1;
	for (unsigned long long i = 0; i < rounds; i++) {
		bool fine;

		snprintf(r.dir, sizeof(r.dir), "%s/kedge-soak-XXXXXX",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
		if (!mkdtemp(r.dir))
			return 1;
		r.seed = seed + i;
		fine = run_round(&r);
		wrong_rounds += !fine;
		if (fine || !keep)
			remove_tree(r.dir);
		else
			printf("  kept: %s\n", r.dir);
	}
	printf("%llu rounds of %d lives, %llu went wrong\n", rounds, LIVES, wrong_rounds);
	return wrong_rounds != 0;
}
