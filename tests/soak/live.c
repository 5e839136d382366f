/* One rank of one life, in a process of its own. */
#include "base/base.h"
#include "round.h"

#include <kedge/kedge.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const area_names[HISTORY_AREAS] = {"field", "heap", "cells", "wide"};
static const enum kedge_type area_types[HISTORY_AREAS] = {KEDGE_F64, KEDGE_BYTES, KEDGE_U32, KEDGE_F32};

struct job {
	struct round *round;
	struct life life;
	struct history *now;
	kedge_t *k;
	int rank;
	uint64_t common; /* for draws that must be the same on all ranks */
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

/* The same of what happens in the background: damage that no restart met may show when L1 is copied. */
static void failed_behind(struct job *j, const char *call)
{
	if (!j->round->shared->first_flipped)
		failed(j, call);
}

static void promise(struct job *j, int level, uint64_t version)
{
	struct promise *p = &j->round->shared->level[level];

	if (j->rank != 0) /* all ranks are told the same */
		return;
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
	want = history_replay(j->now->seed, &j->now->log);
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

	if (rc == KEDGE_E_NOTFOUND || rc == KEDGE_E_DAMAGED || rc == KEDGE_E_MISSING || rc == KEDGE_E_FORMAT ||
	    (rc == KEDGE_E_GROUP && !j->life.errs)) {
		judge(j, 0); /* a fresh start, where nothing was promised */
		j->round->shared->found[j->rank] = 0;
		if (protect_all(j) == 0)
			return true;
	} else if (rc == 0 && take_sizes(j, version) == 0 && protect_all(j) == 0 &&
		   kedge_restart(j->k, version, &restored) == 0) {
		compare(j, version);
		judge(j, version);
		j->round->shared->found[j->rank] = version;
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

/* What VERSION was, into memory of its own; it may fail where files were damaged. */
static void look_back(struct job *j, uint64_t version)
{
	struct history *then = history_new(j->now->seed), *want;
	struct kedge_target targets[HISTORY_AREAS + 1] = {{"log", &then->log, sizeof(then->log)}};
	const char *difference;
	size_t n = 1;
	int rc = 0;

	for (size_t i = 0; i < HISTORY_AREAS && rc == 0; i++) {
		struct kedge_region_info info = {0};

		rc = kedge_region_stat(j->k, version, area_names[i], &info);
		if (rc == 0)
			targets[n++] = (struct kedge_target){area_names[i], then->areas[i].at, HISTORY_ROOM};
		then->areas[i].bytes = rc == 0 ? info.bytes : 0;
		rc = rc == KEDGE_E_NOTFOUND ? 0 : rc;
	}
	if (rc == 0)
		rc = kedge_read(j->k, version, targets, n);
	if (rc == 0) {
		want = history_replay(j->now->seed, &then->log);
		difference = then->log.version == version ? history_difference(then, want) : "another version";
		if (difference)
			wrong(j, "read wrongly", difference);
		history_free(want);
	} else if (!j->round->shared->damaged) {
		failed(j, "read");
	}
	history_free(then);
}

/* All is on its levels: remember which version is the newest on L2. */
static void settle(struct job *j)
{
	struct kedge_version_info *list;
	size_t count;

	if (kedge_wait(j->k) != 0) {
		failed_behind(j, "wait");
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
	if (count)
		look_back(j, list[draw_below(&j->life.state, count)].version);
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
	if (j->life.patient || draw_below(&j->common, 4) == 0)
		settle(j);
	return true;
}

static void note_log(void *user, enum kedge_log_level level, const char *text)
{
	static const char *const names[] = {"error", "warning", "notice", "info", "debug"};

	dprintf(*(int *)user, "%s: %s\n", names[level], text);
}

static void open_log(const struct round *r, const struct life *life, int rank)
{
	static int fd;
	char path[96];

	snprintf(path, sizeof(path), "%s/log-%d", r->dir, rank);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
	dprintf(fd, "-- %s\n", life_text(life));
	kedge_set_log(note_log, &fd);
}

static int open_job(struct job *j)
{
	static struct seat front, back;
	struct round *r = j->round;
	char level[80], l1[96], l2[96];
	size_t n = 0;

	front = (struct seat){&r->shared->front, j->rank, r->ranks};
	back = (struct seat){&r->shared->back, j->rank, r->ranks};
	while (j->life.settings[n]) {
		j->life.settings[n] = j->life.text[n];
		n++;
	}
	first_level_path(r, j->rank, level, sizeof(level));
	snprintf(l1, sizeof(l1), "l1=%s", level);
	snprintf(l2, sizeof(l2), "l2=%s/l2", r->dir);
	j->life.settings[n++] = l1;
	if (r->second_level)
		j->life.settings[n++] = l2;
	if (r->ranks == 1)
		return kedge_open("job", NULL, j->life.settings, &j->k);
	return kedge_open_group(
	    "job", NULL, j->life.settings,
	    &(struct kedge_group){.rank = j->rank,
				  .size = r->ranks,
				  .any_thread = j->life.any_thread,
				  .allgather = meet,
				  .ctx = &front,
				  .background = j->life.any_thread && j->life.background ? &back : NULL},
	    &j->k);
}

void live(struct round *r, const struct life *life, int rank)
{
	struct job j = {.round = r, .life = *life, .rank = rank, .common = life->state};
	bool goes_on = true;

	open_log(r, life, rank);
	alarm(LIFE_HANGS);
	j.now = history_new(r->seed * ROUND_RANKS + (uint64_t)rank);
	if (rank == life->struck % r->ranks)
		(void)kedge__fault_set(life->fault, NULL);
	if (open_job(&j) != 0) {
		failed(&j, "open");
		_exit(CUT_SHORT);
	}
	if (!restart(&j))
		_exit(CUT_SHORT);
	for (uint64_t i = 0; i < life->versions && goes_on && j.now->log.version < HISTORY_VERSIONS; i++)
		goes_on = take_version(&j);
	if (!goes_on)
		_exit(CUT_SHORT);
	if (life->closes && kedge_close(j.k) != 0)
		failed_behind(&j, "close");
	_exit(LIVED);
}
