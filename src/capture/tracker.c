/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all kinds of tracker have in common: ranges of bytes that callers register, areas of whole pages that they
 * cover, and the list of dirty pages that the last collect() found.
 *
 * Ranges may share pages, so what is armed is not a range but an area: a stretch of pages that the same ranges cover.
 * Each area is collected once, and every range reads its part of the result.
 */
#include "capture/tracker.h"

#include <signal.h>
#include <sys/mman.h>

#define LENT_PIECE ((uintptr_t)2 << 20) /* what is lent comes back in such pieces */

struct range {
	uintptr_t begin, end;           /* bytes; 0 and 0: the slot is free */
	uintptr_t area_begin, area_end; /* pages armed for it */
	bool sole;
	bool yields; /* another tracker has pages of it */
	unsigned char
	    fresh; /* collects until less than all of it may be reported: 2, 1 (its first collect was the last), 0 */
};

struct kedge__tracker {
	const struct kedge__tracker_ops *ops;
	void *state;
	/* Zero in the child after a fork. It has a mapping of its own, which the kernel wipes then. */
	volatile uint64_t *here;

	pthread_mutex_t lock; /* guards what follows, and the state */
	KEDGE__ARRAY(struct range) ranges;
	KEDGE__ARRAY(struct kedge__area) areas; /* ascending, disjoint */
	struct kedge__pages_list dirty;         /* of the last collect() */
	struct kedge__pages_list marks;         /* dirty at the next one, whatever the kind finds */
	struct kedge__pages_list lent;          /* another userfaultfd has them: left alone, and dirty */
	bool tainted;                           /* everything is dirty at the next collect */
	bool yielded;                           /* somebody was told that it has yielded */
};

/*
 * All that this process has. A page has one mark for whoever watches it: who asks for it takes it away from the others,
 * who would then call a page clean that was written to. So a page belongs to the tracker that came first; to any other
 * it is always dirty.
 */
static struct {
	pthread_mutex_t lock; /* taken before that of a tracker */
	KEDGE__ARRAY(struct kedge__tracker *) list;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- open, close, fork */

static uint64_t *here_new(void)
{
	uint64_t *here = mmap(NULL, sizeof(*here), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (here == MAP_FAILED)
		return NULL;
	if (madvise(here, kedge__page_size(), MADV_WIPEONFORK) != 0) {
		munmap(here, sizeof(*here));
		return NULL;
	}
	*here = 1;
	return here;
}

static bool forked(const struct kedge__tracker *t)
{
	return *t->here == 0;
}

/*
 * Signals wait while the lock is held: a handler of the application's that wrote to tracked memory here would wait for
 * us for ever. Those that a thread brings upon itself stay open; our own is among them.
 */
static void tracker_lock(struct kedge__tracker *t, sigset_t *before)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	sigset_t blocked;

	sigfillset(&blocked);
	for (size_t i = 0; i < KEDGE__COUNT(own); i++)
		sigdelset(&blocked, own[i]);
	pthread_sigmask(SIG_BLOCK, &blocked, before);
	pthread_mutex_lock(&t->lock);
}

static void tracker_unlock(struct kedge__tracker *t, const sigset_t *before)
{
	pthread_mutex_unlock(&t->lock);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void all_lock(void)
{
	pthread_mutex_lock(&all.lock);
}

static void all_unlock(void)
{
	pthread_mutex_unlock(&all.lock);
}

/* No child has a lock that another thread of its parent held. */
static void all_survive_fork(void)
{
	(void)pthread_atfork(all_lock, all_unlock, all_unlock);
}

static int all_join(struct kedge__tracker *t, struct kedge__error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int rc;

	pthread_once(&once, all_survive_fork);
	all_lock();
	rc = kedge__array_push(&all.list, t) ? 0 : kedge__error_nomem(err);
	all_unlock();
	return rc;
}

static void all_leave(const struct kedge__tracker *t)
{
	size_t kept = 0;

	all_lock();
	for (size_t i = 0; i < all.list.count; i++)
		if (all.list.at[i] != t)
			all.list.at[kept++] = all.list.at[i];
	all.list.count = kept;
	if (!kept)
		kedge__array_done(&all.list);
	all_unlock();
}

static int tracker_new(const struct kedge__tracker_ops *ops, struct kedge__tracker **out, struct kedge__error *err)
{
	struct kedge__tracker *t = kedge__calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return kedge__error_nomem(err);
	t->ops = ops;
	t->here = here_new();
	if (!t->here) {
		kedge__free(t);
		return kedge__error_nomem(err);
	}
	rc = ops->open(&t->state, err);
	if (!rc) {
		rc = all_join(t, err);
		if (rc)
			ops->close(t->state);
	}
	if (rc) {
		munmap((void *)t->here, sizeof(*t->here));
		kedge__free(t);
		return rc;
	}
	pthread_mutex_init(&t->lock, NULL);
	*out = t;
	return 0;
}

int kedge__tracker_open(const char *name, struct kedge__tracker **out, struct kedge__error *err)
{
	const struct kedge__tracker_ops *ops;
	int rc;

	if (!name || strcmp(name, "auto") == 0) {
		ops = kedge__tracker_kind_choose();
	} else {
		rc = kedge__tracker_probe(name, err);
		if (rc)
			return rc;
		ops = kedge__tracker_kind_find(name);
	}
	rc = tracker_new(ops, out, err);
	return rc ? kedge__error_prefix(err, "page tracker %s", ops->name) : 0;
}

/* Descriptors that a child inherited speak for its parent's memory; what it inherited read-only must be opened. */
static void area_drop(struct kedge__tracker *t, struct kedge__area *area)
{
	if (area->armed && !(forked(t) && t->ops->exclusive))
		t->ops->drop(t->state, area);
	area->armed = false;
}

void kedge__tracker_close(struct kedge__tracker *t)
{
	if (!t)
		return;
	all_leave(t);
	for (size_t i = 0; i < t->areas.count; i++)
		area_drop(t, &t->areas.at[i]);
	t->ops->close(t->state);
	pthread_mutex_destroy(&t->lock);
	munmap((void *)t->here, sizeof(*t->here));
	kedge__array_done(&t->ranges);
	kedge__array_done(&t->areas);
	kedge__array_done(&t->dirty);
	kedge__array_done(&t->marks);
	kedge__array_done(&t->lent);
	kedge__free(t);
}

const char *kedge__tracker_name(const struct kedge__tracker *t)
{
	return t->ops->name;
}

bool kedge__tracker_live(const struct kedge__tracker *t)
{
	return t->ops->live;
}

/* ---- ranges and areas */

/* The first area that ends after ADDRESS. */
static size_t area_find(const struct kedge__tracker *t, uintptr_t address)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, t->areas.count, t->areas.at[i].end <= address);
	return i;
}

/* Room was reserved. */
static void area_insert(struct kedge__tracker *t, size_t i, struct kedge__area area)
{
	memmove(t->areas.at + i + 1, t->areas.at + i, (t->areas.count - i) * sizeof(*t->areas.at));
	t->areas.at[i] = area;
	t->areas.count++;
}

static void area_split(struct kedge__tracker *t, uintptr_t address)
{
	size_t i = area_find(t, address);
	struct kedge__area rest;

	if (i == t->areas.count || t->areas.at[i].begin >= address)
		return;
	rest = t->areas.at[i];
	rest.begin = address;
	t->areas.at[i].end = address;
	area_insert(t, i + 1, rest);
}

/* Areas that RANGE shares with others get a reference, gaps between them become new areas. */
static bool areas_cover(struct kedge__tracker *t, const struct range *range)
{
	uintptr_t at = range->area_begin;

	/* Two splits, and at most one gap more than there are areas. */
	if (!kedge__array_reserve(&t->areas, 2 * t->areas.count + 4))
		return false;
	area_split(t, range->area_begin);
	area_split(t, range->area_end);
	for (size_t i = area_find(t, at); at < range->area_end; i++) {
		if (i == t->areas.count || t->areas.at[i].begin > at) {
			uintptr_t end = range->area_end;

			if (i < t->areas.count)
				end = KEDGE__MIN(end, t->areas.at[i].begin);
			area_insert(t, i, (struct kedge__area){.begin = at, .end = end});
		}
		t->areas.at[i].refs++;
		t->areas.at[i].sole_refs += range->sole;
		t->areas.at[i].yield_refs += range->yields;
		at = t->areas.at[i].end;
	}
	return true;
}

static void areas_uncover(struct kedge__tracker *t, const struct range *range)
{
	size_t from = area_find(t, range->area_begin), kept = from, i;

	for (i = from; i < t->areas.count && t->areas.at[i].begin < range->area_end; i++) {
		struct kedge__area *area = &t->areas.at[i];

		area->refs--;
		area->sole_refs -= range->sole;
		area->yield_refs -= range->yields;
		if (area->refs)
			t->areas.at[kept++] = *area;
		else
			area_drop(t, area);
	}
	memmove(t->areas.at + kept, t->areas.at + i, (t->areas.count - i) * sizeof(*t->areas.at));
	t->areas.count -= i - kept;
}

static uintptr_t round_down(uintptr_t address, size_t to)
{
	return address / to * to;
}

static void range_place(const struct kedge__tracker *t, struct range *r)
{
	size_t page = kedge__mapping_page_size(r->begin);

	if (t->ops->whole_pages) {
		r->area_begin = round_down(r->begin + page - 1, page);
		r->area_end = KEDGE__MAX(r->area_begin, round_down(r->end, page));
	} else {
		r->area_begin = round_down(r->begin, page);
		r->area_end = round_down(r->end + page - 1, page);
	}
}

static int range_put(struct kedge__tracker *t, const struct range *range, size_t *id, struct kedge__error *err)
{
	size_t i = 0;

	while (i < t->ranges.count && t->ranges.at[i].end)
		i++;
	if (!kedge__array_reserve(&t->ranges, t->ranges.count + 1) || !areas_cover(t, range))
		return kedge__error_nomem(err);
	t->ranges.at[i] = *range;
	t->ranges.count = KEDGE__MAX(t->ranges.count, i + 1);
	*id = i;
	return 0;
}

/* Whether T has pages between BEGIN and END. */
static bool has_pages(struct kedge__tracker *t, uintptr_t begin, uintptr_t end)
{
	bool has = false;
	sigset_t signals;

	tracker_lock(t, &signals);
	for (size_t i = area_find(t, begin); !has && i < t->areas.count && t->areas.at[i].begin < end; i++)
		has = t->areas.at[i].refs > t->areas.at[i].yield_refs;
	tracker_unlock(t, &signals);
	return has;
}

static bool others_have(const struct kedge__tracker *t, const struct range *range)
{
	for (size_t i = 0; i < all.list.count; i++) {
		struct kedge__tracker *other = all.list.at[i];

		if (other != t && !other->ops->blind && !forked(other) &&
		    has_pages(other, range->area_begin, range->area_end))
			return true;
	}
	return false;
}

static void say_yielded(struct kedge__tracker *t, const struct range *range)
{
	if (!t->yielded)
		kedge__log(
		    KEDGE_LOG_INFO,
		    "memory at 0x%zx is watched for another job of this process: all of it is searched for changes",
		    (size_t)range->begin);
	t->yielded = true;
}

int kedge__tracker_add(struct kedge__tracker *t, const void *data, uint64_t bytes, unsigned flags, size_t *id,
		       struct kedge__error *err)
{
	struct range range = {
	    .begin = (uintptr_t)data, .end = (uintptr_t)data + bytes, .sole = flags & KEDGE__TRACK_SOLE, .fresh = 2};
	sigset_t signals;
	int rc;

	if (!data || !bytes || range.end <= range.begin)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "a tracked range must not be empty");
	range_place(t, &range);
	all_lock();
	range.yields = !t->ops->blind && others_have(t, &range);
	tracker_lock(t, &signals);
	rc = range_put(t, &range, id, err);
	tracker_unlock(t, &signals);
	all_unlock();
	if (range.yields)
		say_yielded(t, &range);
	return rc;
}

void kedge__tracker_remove(struct kedge__tracker *t, size_t id)
{
	sigset_t signals;

	tracker_lock(t, &signals);
	if (id < t->ranges.count && t->ranges.at[id].end) {
		areas_uncover(t, &t->ranges.at[id]);
		t->ranges.at[id] = (struct range){0};
	}
	tracker_unlock(t, &signals);
}

/* ---- collect */

/* Another tracker's, or shared memory, and not all who gave it to us say that nobody else writes to it. */
static bool is_exposed(const struct kedge__area *area)
{
	return area->yield_refs || (area->backing == KEDGE__BACKING_SHARED && area->sole_refs < area->refs);
}

/* Start to vouch for AREA, if it can be had; if not, it stays dirty until it can. */
static void area_arm(struct kedge__tracker *t, struct kedge__area *area, const struct kedge__mapping_list *mappings)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	area->backing = kedge__mappings_backing(mappings, area->begin, area->end);
	if (area->backing == KEDGE__BACKING_NONE)
		return;
	if (is_exposed(area))
		return;
	area->armed = t->ops->arm(t->state, area, &err) == 0;
	if (!area->armed)
		kedge__log(KEDGE_LOG_DEBUG, "memory is not tracked: %s", kedge__error_text(&err));
	kedge__error_done(&err);
}

static bool is_lent(const struct kedge__tracker *t, const struct kedge__area *area)
{
	for (size_t i = 0; i < t->lent.count; i++) {
		if (t->lent.at[i].begin < area->end && area->begin < t->lent.at[i].end)
			return true;
	}
	return false;
}

/* What AREA has of dirty pages. Whatever goes wrong, it ends up dirty as a whole or in an error. */
static int area_collect(struct kedge__tracker *t, struct kedge__area *area, struct kedge__error *err)
{
	size_t count = t->dirty.count;
	uintptr_t last = count ? t->dirty.at[count - 1].end : 0;
	bool lent = is_lent(t, area);
	int rc = KEDGE__AREA_LOST;

	if (area->armed && !t->tainted && !lent && !is_exposed(area))
		rc = t->ops->collect(t->state, area, &t->dirty, err);
	if (rc <= 0)
		return rc;
	t->dirty.count = count;
	if (count)
		t->dirty.at[count - 1].end = last;
	if (!lent)
		area_drop(t, area);
	return kedge__pages_list_add(&t->dirty, area->begin, area->end) ? 0 : kedge__error_nomem(err);
}

static int arm_rest(struct kedge__tracker *t, struct kedge__error *err)
{
	struct kedge__mapping_list mappings = {0};
	bool any = false;
	int rc = 0;

	for (size_t i = 0; i < t->areas.count && !t->ops->blind; i++)
		any |= !t->areas.at[i].armed && !is_lent(t, &t->areas.at[i]);
	if (any)
		rc = kedge__mappings_load(&mappings, err);
	for (size_t i = 0; rc == 0 && any && i < t->areas.count; i++) {
		if (!t->areas.at[i].armed && !is_lent(t, &t->areas.at[i]))
			area_arm(t, &t->areas.at[i], &mappings);
	}
	kedge__array_done(&mappings);
	return rc;
}

static int everything(struct kedge__tracker *t, struct kedge__error *err)
{
	t->dirty.count = 0;
	for (size_t i = 0; i < t->areas.count; i++) {
		if (!kedge__pages_list_add(&t->dirty, t->areas.at[i].begin, t->areas.at[i].end))
			return kedge__error_nomem(err);
	}
	return 0;
}

static int collect_all(struct kedge__tracker *t, bool arm, struct kedge__error *err)
{
	int rc = t->ops->start(t->state, err);

	for (size_t i = 0; rc == 0 && i < t->areas.count; i++)
		rc = area_collect(t, &t->areas.at[i], err);
	if (rc == 0 && arm)
		rc = arm_rest(t, err);
	if (rc == 0)
		rc = t->ops->finish(t->state, err);
	for (size_t i = 0; rc == 0 && i < t->marks.count; i++) {
		if (!kedge__array_push(&t->dirty, t->marks.at[i]))
			rc = kedge__error_nomem(err);
	}
	if (rc == 0 && t->marks.count)
		kedge__pages_list_sort(&t->dirty);
	return rc;
}

static int collect(struct kedge__tracker *t, bool arm, struct kedge__error *err)
{
	sigset_t signals;
	int rc;

	if (forked(t))
		return everything(t, err);
	tracker_lock(t, &signals);
	t->dirty.count = 0;
	rc = collect_all(t, arm, err);
	/* What was found and is not reported must come again. */
	t->tainted = rc != 0;
	if (rc == 0)
		t->marks.count = 0;
	for (size_t i = 0; rc == 0 && i < t->ranges.count; i++)
		t->ranges.at[i].fresh -= t->ranges.at[i].fresh > 0;
	tracker_unlock(t, &signals);
	return rc;
}

int kedge__tracker_collect(struct kedge__tracker *t, struct kedge__error *err)
{
	return collect(t, true, err);
}

int kedge__tracker_collect_first(struct kedge__tracker *t, struct kedge__error *err)
{
	/* Kinds that begin anew in finish() must have been told of everything before. */
	return collect(t, !t->ops->exclusive, err);
}

/* What cannot be armed stays dirty until it can. */
void kedge__tracker_arm(struct kedge__tracker *t)
{
	sigset_t signals;

	if (forked(t))
		return;
	tracker_lock(t, &signals);
	(void)arm_rest(t, NULL);
	tracker_unlock(t, &signals);
}

/* ---- results */

static bool dirty_add(struct kedge__range_list *out, const struct range *r, uintptr_t begin, uintptr_t end)
{
	struct kedge__range d;

	begin = KEDGE__MAX(begin, r->begin);
	end = KEDGE__MIN(end, r->end);
	if (begin >= end)
		return true;
	d = (struct kedge__range){begin - r->begin, end - begin};
	if (out->count && out->at[out->count - 1].start + out->at[out->count - 1].len == d.start) {
		out->at[out->count - 1].len += d.len;
		return true;
	}
	return kedge__array_push(out, d);
}

/* What lies outside the range's areas is never vouched for. */
static bool dirty_clip(const struct kedge__tracker *t, const struct range *r, struct kedge__range_list *out)
{
	const struct kedge__pages_list *dirty = &t->dirty;

	/* Others may have had its pages collected before it came. */
	if (r->fresh)
		return dirty_add(out, r, r->begin, r->end);
	if (!dirty_add(out, r, r->begin, KEDGE__MIN(r->area_begin, r->end)))
		return false;
	for (size_t i = kedge__pages_list_find(dirty, r->area_begin);
	     i < dirty->count && dirty->at[i].begin < r->area_end; i++) {
		if (!dirty_add(out, r, KEDGE__MAX(dirty->at[i].begin, r->area_begin),
			       KEDGE__MIN(dirty->at[i].end, r->area_end)))
			return false;
	}
	return dirty_add(out, r, KEDGE__MAX(r->area_end, r->begin), r->end);
}

int kedge__tracker_dirty(struct kedge__tracker *t, size_t id, struct kedge__range_list *out, struct kedge__error *err)
{
	sigset_t signals;
	int rc = 0;

	tracker_lock(t, &signals);
	out->count = 0;
	if (id >= t->ranges.count || !t->ranges.at[id].end)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "no such tracked range");
	else if (!dirty_clip(t, &t->ranges.at[id], out))
		rc = kedge__error_nomem(err);
	tracker_unlock(t, &signals);
	return rc;
}

static int area_count(struct kedge__tracker *t, const struct kedge__area *area, uint64_t *bytes,
		      struct kedge__error *err)
{
	int rc = KEDGE__AREA_LOST;

	if (area->armed && !t->tainted && !forked(t) && !is_lent(t, area) && !is_exposed(area))
		rc = t->ops->count(t->state, area, bytes, err);
	if (rc == KEDGE__AREA_LOST)
		*bytes += area->end - area->begin;
	return KEDGE__MIN(rc, 0);
}

int kedge__tracker_count(struct kedge__tracker *t, uint64_t *bytes, struct kedge__error *err)
{
	uint64_t sum = 0;
	sigset_t signals;
	int rc;

	tracker_lock(t, &signals);
	rc = t->ops->start(t->state, err);
	for (size_t i = 0; rc == 0 && i < t->areas.count; i++)
		rc = area_count(t, &t->areas.at[i], &sum, err);
	tracker_unlock(t, &signals);
	if (rc == 0)
		*bytes = sum;
	return rc;
}

/* ---- what others know */

void kedge__tracker_taint(struct kedge__tracker *t)
{
	sigset_t signals;

	tracker_lock(t, &signals);
	t->tainted = true;
	tracker_unlock(t, &signals);
}

void kedge__tracker_mark(struct kedge__tracker *t, const void *data, uint64_t bytes)
{
	size_t page = kedge__page_size();
	uintptr_t begin = round_down((uintptr_t)data, page), end = round_down((uintptr_t)data + bytes + page - 1, page);
	sigset_t signals;

	tracker_lock(t, &signals);
	if (!kedge__pages_list_add(&t->marks, begin, end))
		t->tainted = true;
	tracker_unlock(t, &signals);
}

void kedge__tracker_touch(struct kedge__tracker *t, const void *data, uint64_t bytes)
{
	size_t page = kedge__page_size();
	sigset_t signals;

	tracker_lock(t, &signals);
	t->ops->touch(t->state, round_down((uintptr_t)data, page), (uintptr_t)data + bytes);
	tracker_unlock(t, &signals);
}

/* ---- lending to cow.c */

/* Call fn for the armed parts of [begin, end). */
static int each_armed(struct kedge__tracker *t, uintptr_t begin, uintptr_t end,
		      int (*fn)(struct kedge__tracker *t, const struct kedge__area *part, struct kedge__error *err),
		      struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = area_find(t, begin); rc == 0 && i < t->areas.count && t->areas.at[i].begin < end; i++) {
		struct kedge__area part = t->areas.at[i];

		part.begin = KEDGE__MAX(part.begin, begin);
		part.end = KEDGE__MIN(part.end, end);
		if (part.armed)
			rc = fn(t, &part, err);
	}
	return rc;
}

static int part_drop(struct kedge__tracker *t, const struct kedge__area *part, struct kedge__error *err)
{
	(void)err;
	t->ops->drop(t->state, part);
	return 0;
}

static int part_arm(struct kedge__tracker *t, const struct kedge__area *part, struct kedge__error *err)
{
	return t->ops->arm(t->state, part, err);
}

/* What lies around [begin, end) of an area that nobody watches yet is armed; the rest is when it comes back. */
static void area_arm_around(struct kedge__tracker *t, struct kedge__area *area, uintptr_t begin, uintptr_t end,
			    const struct kedge__mapping_list *mappings)
{
	struct kedge__area before = *area, after = *area;
	bool armed = true;

	before.end = KEDGE__MAX(KEDGE__MIN(area->end, begin), area->begin);
	after.begin = KEDGE__MIN(KEDGE__MAX(area->begin, end), area->end);
	if (area->yield_refs || kedge__mappings_backing(mappings, area->begin, area->end) != KEDGE__BACKING_ANONYMOUS)
		return;
	before.backing = after.backing = area->backing = KEDGE__BACKING_ANONYMOUS;
	if (before.begin < before.end)
		armed = t->ops->arm(t->state, &before, NULL) == 0;
	if (armed && after.begin < after.end)
		armed = t->ops->arm(t->state, &after, NULL) == 0;
	area->armed = armed;
}

static void arm_around(struct kedge__tracker *t, uintptr_t begin, uintptr_t end)
{
	struct kedge__mapping_list mappings = {0};
	bool known = true;

	for (size_t i = area_find(t, begin); known && i < t->areas.count && t->areas.at[i].begin < end; i++) {
		struct kedge__area *area = &t->areas.at[i];

		if (area->armed || is_lent(t, area))
			continue;
		known = mappings.count || kedge__mappings_load(&mappings, NULL) == 0;
		if (known)
			area_arm_around(t, area, begin, end, &mappings);
	}
	kedge__array_done(&mappings);
}

bool kedge__tracker_exclusive(const struct kedge__tracker *t)
{
	return t->ops->exclusive;
}

int kedge__tracker_lend(struct kedge__tracker *t, uintptr_t begin, uintptr_t end, struct kedge__error *err)
{
	sigset_t signals;
	int rc = 0;

	if (!t->ops->exclusive)
		return 0;
	tracker_lock(t, &signals);
	/* Every second piece may be back before those between are. */
	if (kedge__array_reserve(&t->lent, t->lent.count + (end - begin) / LENT_PIECE / 2 + 3)) {
		each_armed(t, begin, end, part_drop, NULL);
		arm_around(t, begin, end);
		t->lent.at[t->lent.count++] = (struct kedge__pages){begin, end};
	} else {
		rc = kedge__error_nomem(err);
	}
	tracker_unlock(t, &signals);
	return rc;
}

/* [begin, end) lies within one span that was lent. */
static void lent_cut(struct kedge__tracker *t, uintptr_t begin, uintptr_t end)
{
	for (size_t i = 0; i < t->lent.count; i++) {
		struct kedge__pages *span = &t->lent.at[i];

		if (begin < span->begin || end > span->end)
			continue;
		if (begin > span->begin && end < span->end)
			t->lent.at[t->lent.count++] = (struct kedge__pages){end, span->end};
		if (begin == span->begin)
			span->begin = end;
		else
			span->end = begin;
		if (span->begin >= span->end)
			t->lent.at[i] = t->lent.at[--t->lent.count];
		return;
	}
}

void kedge__tracker_take_back(struct kedge__tracker *t, uintptr_t begin, uintptr_t end)
{
	sigset_t signals;

	if (!t->ops->exclusive)
		return;
	tracker_lock(t, &signals);
	lent_cut(t, begin, end);
	/* A part that cannot be armed is found to be lost by the next collect. */
	each_armed(t, begin, end, part_arm, NULL);
	tracker_unlock(t, &signals);
}
