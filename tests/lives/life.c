/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of one life, in a process of its own. All ranks draw the same moves. */
#include "job.h"

#include <errno.h>
#include <pthread.h>

static const enum kedge_type area_types[MEMORY_AREAS] = {KEDGE_F64, KEDGE_BYTES, KEDGE_U32, KEDGE_F32};

struct model *job_model(struct job *j)
{
	return &j->walk->shared->model;
}

void wrong(struct job *j, const char *what, const char *detail)
{
	walk_trouble(j->walk, "rank %d: %s: %s", j->rank, what, detail);
	_exit(WRONG);
}

void failed(struct job *j, const char *call)
{
	if (!j->life.errs)
		wrong(j, call, kedge_last_error(j->k));
}

/* Damage that no restart met may show when L1 is copied, and L2 that is away cannot be written. */
static void failed_behind(struct job *j, const char *call)
{
	if (!j->second_went && !j->away && !j->damaged && !j->torn)
		failed(j, call);
}

/* ------------------------------------------------------------------ regions */

static int protect_area(struct job *j, size_t i)
{
	const struct memory_area *a = &j->now->areas[i];
	size_t size = kedge_type_size(area_types[i]);
	bool whole = a->bytes % size == 0;

	return kedge_protect(j->k, memory_names[i], a->at, whole ? a->bytes / size : a->bytes,
			     whole ? area_types[i] : KEDGE_BYTES);
}

int protect_all(struct job *j)
{
	int rc = kedge_protect(j->k, "tag", &j->now->tag, sizeof(j->now->tag) / 8, KEDGE_U64);

	for (size_t i = 0; i < MEMORY_AREAS && rc == 0; i++) {
		if (j->now->areas[i].bytes)
			rc = protect_area(j, i);
		else
			(void)kedge_unprotect(j->k, memory_names[i]);
	}
	return rc;
}

/* The areas take the sizes of the next version; memory that a version in progress may need is given up last. */
static int resize(struct job *j, uint64_t node)
{
	for (size_t i = 0; i < MEMORY_AREAS; i++) {
		size_t bytes = memory_next_size(j->now, node, i);
		uint8_t *old;
		int rc;

		if (bytes == j->now->areas[i].bytes)
			continue;
		old = memory_resize(j->now, i, bytes, draw_below(&j->life.state, 2));
		rc = bytes ? protect_area(j, i) : kedge_unprotect(j->k, memory_names[i]);
		if (rc != 0)
			return rc;
		memory_unmap(old);
	}
	return 0;
}

struct change {
	struct job *j;
	uint64_t node;
};

static void *change_last(void *arg)
{
	const struct change *c = arg;

	memory_change(c->j->now, c->node, MEMORY_AREAS - 1, MEMORY_AREAS);
	return NULL;
}

static void change(struct job *j, uint64_t node)
{
	struct change c = {j, node};
	pthread_t thread;

	if (pthread_create(&thread, NULL, change_last, &c) != 0)
		wrong(j, "pthread_create", strerror(errno));
	memory_change(j->now, node, 0, MEMORY_AREAS - 1);
	pthread_join(thread, NULL);
}

/* ------------------------------------------------------------------ checkpoints */

/* The program asks for VERSION now: whatever becomes of it, it has been in memory. */
static int node_new(struct job *j, uint64_t version, bool racing)
{
	struct model *m = job_model(j);
	int id = j->next++;
	struct node *n = &m->nodes[id];
	bool begins = j->run == MODEL_NONE || version == j->last;

	if (j->rank == 0) {
		n->version = version;
		n->parent = model_below(m, j->tip, version);
		n->run = begins ? id : j->run;
		n->epoch = j->epoch + begins;
		n->racing = racing;
		n->gone = n->sure[0] = n->sure[1] = false;
		for (int l = 0; l < 2; l++) {
			n->trim[l] = 0;
			model_keep(m, l, id, j->life.keep[l]);
		}
		if (begins && j->walk->own_first && (*j->life.fault || j->walk->moments))
			m->half = id;
	}
	j->now->tag = (struct memory_tag){(uint64_t)id, version, (uint64_t)j->rank, j->now->seed};
	change(j, (uint64_t)id);
	for (size_t i = 0; i < MEMORY_AREAS; i++)
		n->digest[j->rank][i] = racing && i == MEMORY_AREAS - 1 ? 0 : memory_digest(j->now, i);
	if (m->count < j->next)
		m->count = j->next;
	return id;
}

static void node_taken(struct job *j, int id, uint64_t version)
{
	if (j->run == MODEL_NONE || version == j->last) {
		j->run = id;
		j->epoch++;
	}
	j->purged = false;
	j->tip = id;
	j->last = j->floor = version;
	j->again = true;
	j->fresh = false;
}

static void sure(struct job *j, int level, int node)
{
	struct model *m = job_model(j);
	bool first = !m->nodes[node].sure[0] && !m->nodes[node].sure[1];

	if (j->rank != 0)
		return;
	m->nodes[node].sure[level] = true;
	if (first)
		model_published(m, j->tip);
}

static void *scribble(void *arg)
{
	struct job *j = arg;
	struct memory_area *a = &j->now->areas[MEMORY_AREAS - 1];

	for (uint64_t state = 1; !atomic_load(&j->still); sched_yield())
		a->at[draw_below(&state, a->bytes)] ^= 1;
	return NULL;
}

/* Another thread writes to the last area while it is saved. */
static int checkpoint_racing(struct job *j, uint64_t version)
{
	pthread_t thread;
	int rc;

	atomic_store(&j->still, false);
	if (pthread_create(&thread, NULL, scribble, j) != 0)
		wrong(j, "pthread_create", strerror(errno));
	rc = kedge_checkpoint(j->k, version);
	atomic_store(&j->still, true);
	pthread_join(thread, NULL);
	return rc;
}

bool take(struct job *j, uint64_t version, bool racing)
{
	int rc = resize(j, (uint64_t)j->next), id;

	if (j->next >= MODEL_NODES - 1)
		return false;
	if (rc) {
		failed(j, "protect");
		return false;
	}
	id = node_new(j, version, racing);
	rc = racing ? checkpoint_racing(j, version) : kedge_checkpoint(j->k, version);
	if (racing && rc == KEDGE_E_STATE)
		return true;
	if (rc && racing && j->walk->ranks > 1 && rc == KEDGE_E_GROUP)
		return true;
	if (rc) {
		failed(j, "checkpoint");
		return !j->life.errs;
	}
	node_taken(j, id, version);
	if (j->life.sync)
		sure(j, 0, id);
	if (j->rank == 0 && j->life.sync)
		job_model(j)->half = MODEL_NONE;
	return true;
}

/* ------------------------------------------------------------------ what is there */

static void same(struct job *j, const struct memory *got, int node, const char *what)
{
	struct node *n = &job_model(j)->nodes[node];
	char text[160];

	snprintf(text, sizeof(text), "node %llu instead of node %d (version %llu)", (unsigned long long)got->tag.node,
		 node, (unsigned long long)n->version);
	if (got->tag.node != (uint64_t)node || got->tag.version != n->version || got->tag.rank != (uint64_t)j->rank)
		wrong(j, what, text);
	for (size_t i = 0; i < MEMORY_AREAS; i++) {
		uint64_t digest = memory_digest(got, i);

		if (n->racing && i == MEMORY_AREAS - 1 && !n->digest[j->rank][i])
			n->digest[j->rank][i] = digest;
		if (n->digest[j->rank][i] != digest)
			wrong(j, what, memory_names[i]);
	}
}

/* What VERSION was, into memory of its own; it may fail where files were damaged. */
static void look_back(struct job *j, int node)
{
	uint64_t version = job_model(j)->nodes[node].version;
	struct memory *then = memory_new(j->now->seed, 1);
	struct kedge_target targets[MEMORY_AREAS + 1] = {{"tag", &then->tag, sizeof(then->tag)}};
	size_t n = 1;
	int rc = 0;

	for (size_t i = 0; i < MEMORY_AREAS && rc == 0; i++) {
		struct kedge_region_info info = {0};

		rc = kedge_region_stat(j->k, version, memory_names[i], &info);
		if (rc == 0)
			targets[n++] = (struct kedge_target){memory_names[i], then->areas[i].at, MEMORY_ROOM};
		then->areas[i].bytes = rc == 0 ? info.bytes : 0;
		rc = rc == KEDGE_E_NOTFOUND || rc == KEDGE_E_VERSION ? 0 : rc;
	}
	if (rc == 0)
		rc = kedge_read(j->k, version, targets, n);
	if (rc == 0)
		same(j, then, node, "read wrongly");
	else if (!j->damaged && !j->second_went && (node >= j->first || job_model(j)->nodes[node].sure[0]))
		failed(j, "read");
	memory_free(then);
}

/* The versions that are listed are those of this past; all of this life that are, must be found from now on. */
static void listed(struct job *j, const struct kedge_version_info *list, size_t count)
{
	struct model *m = job_model(j);

	for (size_t i = 0; i < count; i++) {
		int node = model_below(m, j->tip, list[i].version + 1);
		char text[80];

		snprintf(text, sizeof(text), "version %llu", (unsigned long long)list[i].version);
		if (j->run == MODEL_NONE)
			continue; /* nothing is abandoned yet */
		if ((node == MODEL_NONE || m->nodes[node].version != list[i].version) && !j->damaged && !j->shadow)
			wrong(j, "a version is listed that was never taken in this past", text);
		if (node < j->first || node < j->first_heard || m->nodes[node].version != list[i].version)
			continue;
		for (int l = 0; l < 2; l++)
			if (list[i].levels & 1u << l && (l || node >= j->first_left))
				sure(j, l, node);
	}
	if (count && j->run != MODEL_NONE && !j->damaged && !j->shadow && !j->purged)
		look_back(j, model_below(m, j->tip, list[draw_below(&j->life.state, count)].version + 1));
}

bool settle(struct job *j)
{
	struct kedge_version_info *list;
	int rc = kedge_wait(j->k);
	size_t count;

	if (rc != 0) {
		failed_behind(j, "wait");
		j->first_heard = j->next;
	} else if (j->rank == 0) {
		job_model(j)->half = MODEL_NONE;
	}
	if (kedge_versions(j->k, &list, &count) != 0) {
		if (!j->purged)
			failed(j, "versions");
		return false;
	}
	if ((rc == 0 || !j->life.errs) && !j->purged)
		listed(j, list, count);
	kedge_free(list);
	return rc == 0;
}

/* ------------------------------------------------------------------ restarts */

static void *room(void *user, const char *name, const struct kedge_region_info *info)
{
	struct job *j = user;

	for (size_t i = 0; i < MEMORY_AREAS; i++) {
		if (strcmp(name, memory_names[i]) == 0 && info->bytes <= MEMORY_ROOM)
			return j->now->areas[i].at;
	}
	return NULL;
}

/* The sizes of all areas as they are stored in VERSION. */
static int take_sizes(struct job *j, uint64_t version)
{
	for (size_t i = 0; i < MEMORY_AREAS; i++) {
		struct kedge_region_info info;
		int rc = kedge_region_stat(j->k, version, memory_names[i], &info);

		if (rc == KEDGE_E_NOTFOUND || rc == KEDGE_E_VERSION)
			info.bytes = 0;
		else if (rc != 0)
			return rc;
		if (info.bytes > MEMORY_ROOM)
			wrong(j, "a stored region is too large", memory_names[i]);
		(void)memory_resize(j->now, i, info.bytes, false);
	}
	return 0;
}

/* The two ways that are documented: a version is found and its sizes are asked for, or the restart asks for room. */
static int restart_any(struct job *j, uint64_t version, uint64_t *got)
{
	bool asks = draw_below(&j->common, 2);
	int rc;

	if (asks) {
		for (size_t i = 0; i < MEMORY_AREAS; i++)
			(void)kedge_unprotect(j->k, memory_names[i]);
		kedge_set_room(j->k, room, j);
		rc = kedge_protect(j->k, "tag", &j->now->tag, sizeof(j->now->tag) / 8, KEDGE_U64);
		if (rc == 0)
			rc = kedge_restart(j->k, version, got);
		kedge_set_room(j->k, NULL, NULL);
		if (rc == 0)
			rc = take_sizes(j, *got);
		return rc ? rc : protect_all(j);
	}
	rc = kedge_find(j->k, version, got);
	if (rc == 0 && version != KEDGE_NEWEST && *got != version)
		return KEDGE_E_DAMAGED;
	if (rc == 0)
		rc = take_sizes(j, *got);
	if (rc == 0)
		rc = protect_all(j);
	return rc ? rc : kedge_restart(j->k, *got, got);
}

/* From NODE, or, with MODEL_NONE, when nothing is there. False: this life ends. */
bool restart(struct job *j, uint64_t version, int node)
{
	uint64_t got = 0;
	int rc = restart_any(j, version, &got);

	if (rc == 0 && node == MODEL_NONE)
		wrong(j, "restart", "a version comes back that is not there");
	if (rc == 0) {
		same(j, j->now, node, "restored wrongly");
		j->tip = node;
		j->last = j->floor = got;
		j->again = true;
		j->fresh = false;
		j->run = MODEL_NONE;
		return true;
	}
	if (node != MODEL_NONE || rc == KEDGE_E_NOMEM) {
		failed(j, "restart");
		return false;
	}
	if (protect_all(j) == 0 && (rc == KEDGE_E_NOTFOUND || rc == KEDGE_E_VERSION || kedge_begin(j->k) == 0))
		return true;
	failed(j, "begin");
	return false;
}

/* ------------------------------------------------------------------ life */

static void note_log(void *user, enum kedge_log_level level, const char *text)
{
	static const char *const names[] = {"error", "warning", "notice", "info", "debug"};

	dprintf(*(int *)user, "%s: %s\n", names[level], text);
}

static void open_log(const struct walk *w, const struct life *life, int rank)
{
	static int fd;
	char path[FILES_PATH];

	path_make(path, "%s/log-%d", w->dir, rank);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
	dprintf(fd, "-- %s\n", life_text(life));
	kedge_set_log(note_log, &fd);
}

/* Paths from the directory of the walk on, and then the program goes elsewhere. */
static void go(struct job *j, const char *where)
{
	char path[FILES_PATH];

	path_make(path, "%s/%s", j->walk->dir, where);
	if (j->life.relative && chdir(path) != 0)
		wrong(j, "chdir", path);
}

static int open_job(struct job *j)
{
	static struct seat front, back;
	struct kedge_group group;
	struct walk *w = j->walk;
	char level[FILES_PATH], l1[FILES_PATH + 8], l2[FILES_PATH + 8];
	size_t n = 0, skip = j->life.relative ? strlen(w->dir) + 1 : 0;

	front = (struct seat){&w->shared->front, j->rank, w->ranks};
	back = (struct seat){&w->shared->back, j->rank, w->ranks};
	for (; j->life.settings[n]; n++)
		j->life.settings[n] = j->life.text[n];
	first_level_path(w, j->rank, level);
	snprintf(l1, sizeof(l1), "l1=%s", level + skip);
	second_level_path(w, level);
	snprintf(l2, sizeof(l2), "l2=%s", level + skip);
	j->life.settings[n++] = l1;
	if (w->second_level)
		j->life.settings[n++] = l2;
	if (w->ranks == 1)
		return kedge_open("job", NULL, j->life.settings, &j->k);
	group = (struct kedge_group){.rank = j->rank,
				     .size = w->ranks,
				     .any_thread = j->life.any_thread,
				     .allgather = meet,
				     .ctx = &front,
				     .background = j->life.any_thread && j->life.background ? &back : NULL};
	if (j->life.number % 2) {
		group.reduce = meet_reduce;
		group.gather = meet_gather;
	}
	return kedge_open_group("job", NULL, j->life.settings, &group, &j->k);
}

void live(struct walk *w, const struct life *life, int rank)
{
	static struct job j;
	struct model *m = &w->shared->model;

	j = (struct job){.walk = w,
			 .life = *life,
			 .rank = rank,
			 .common = life->state,
			 .next = m->count,
			 .first = m->count,
			 .run = MODEL_NONE,
			 .epoch = m->epoch,
			 .tip = m->base,
			 .last = m->top_number,
			 .floor = m->top_number == NO_VERSION ? 0 : m->top_number + 1,
			 .away = m->second_away,
			 .damaged = m->mark_count,
			 .torn = m->torn,
			 .shadow = m->shadow,
			 .fresh = true};
	open_log(w, life, rank);
	alarm(LIFE_HANGS);
	j.now = memory_new(w->seed * WALK_RANKS + (uint64_t)rank, w->scale);
	if (rank == life->struck % w->ranks)
		(void)kedge__fault_set(life->fault, NULL);
	go(&j, ".");
	if (open_job(&j) != 0) {
		failed(&j, "open");
		_exit(CUT_SHORT);
	}
	go(&j, "elsewhere");
	if (!moves(&j))
		_exit(CUT_SHORT);
	if (life->closes && kedge_close(j.k) != 0)
		failed_behind(&j, "close");
	_exit(LIVED);
}
