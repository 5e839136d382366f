/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tracking: which pages of the protected regions were written since the last checkpoint. collect() covers the time
 * since the previous collect(); its result narrows a reduction only if that one belongs to the version that the reducer
 * has as its last, and was committed. In every other case the reducer examines everything.
 */
#include "job/handle.h"

#define TRACK_MIN   (UINT64_C(64) << 10)
#define AUDIT_SHARE 128 /* one page in so many of those called clean, */
#define AUDIT_LEAST 512 /* or in so many, rather than to look at more than: */
#define AUDIT_BYTES (UINT64_C(4) << 20)
#define DENSE_LIMIT 2         /* collects that found most of a region written, after which it is not watched */
#define SPARSE      (3.0 / 8) /* watched again if no more than this has changed */
#define REST        8         /* checkpoints before it is, if that was in vain; and twice as many each time: */
#define REST_TWICE  2         /* so often */

bool kedge__track_wanted(const kedge_t *k)
{
	return k->set.track != KEDGE__TRACK_NONE && !k->set.paranoid &&
	       kedge__job_settings_reducer(&k->set) != KEDGE__REDUCER_FULL;
}

/* `auto`, and something here could write behind a tracker's back. */
static bool is_unsafe(const kedge_t *k)
{
	char path[300];

	if (k->set.track != KEDGE__TRACK_AUTO || !kedge__device_find("", path, sizeof(path)))
		return false;
	kedge__log(KEDGE_LOG_INFO, "%s: page tracking is off: device %s could write to memory without being seen",
		   k->name, path);
	return true;
}

/* Asked for by name, it must be there; `auto` takes what there is, and says what. */
int kedge__track_init(kedge_t *k, struct kedge__error *err)
{
	static const char *const kinds[] = {
	    [KEDGE__TRACK_NONE] = "none",         [KEDGE__TRACK_AUTO] = "auto",           [KEDGE__TRACK_UFFD] = "uffd",
	    [KEDGE__TRACK_MPROTECT] = "mprotect", [KEDGE__TRACK_SOFTDIRTY] = "softdirty",
	};
	int rc;

	k->track.at = KEDGE__NO_VERSION;
	if (k->set.track != KEDGE__TRACK_NONE && !kedge__track_wanted(k))
		kedge__log(KEDGE_LOG_INFO, "%s: page tracking is off: with %s every byte is compared", k->name,
			   k->set.paranoid ? "paranoid" : "the full reducer");
	if (!kedge__track_wanted(k) || is_unsafe(k))
		return 0;
	rc = kedge__tracker_open(kinds[k->set.track], &k->track.tracker, err);
	if (rc) {
		kedge__error_prefix(err, "track = %s", kinds[k->set.track]);
		return rc;
	}
	kedge__log(KEDGE_LOG_INFO, "%s: pages are tracked by %s", k->name, kedge__tracker_name(k->track.tracker));
	return 0;
}

void kedge__track_free(kedge_t *k)
{
	kedge__tracker_close(k->track.tracker);
	k->track.tracker = NULL;
	kedge__array_done(&k->track.ranges);
	kedge__hash_done(&k->track.places);
}

static uint64_t place_hash(const void *data, uint64_t bytes)
{
	const uint64_t mix[2] = {(uint64_t)(uintptr_t)data, bytes};

	return kedge__checksum(mix, sizeof(mix));
}

static void range_remove(kedge_t *k, size_t i)
{
	struct kedge__job_tracked *t = &k->track.ranges.at[i], *last;

	if (t->watched)
		kedge__tracker_remove(k->track.tracker, t->id);
	kedge__hash_remove(&k->track.places, place_hash(t->data, t->bytes), i);
	last = &k->track.ranges.at[--k->track.ranges.count];
	if (last == t)
		return;
	kedge__hash_move(&k->track.places, place_hash(last->data, last->bytes), k->track.ranges.count, i);
	*t = *last;
}

static bool is_there(const void *ctx, size_t item, const void *wanted)
{
	const struct kedge__job_tracked *t = &((const kedge_t *)ctx)->track.ranges.at[item], *w = wanted;

	return t->data == w->data && t->bytes == w->bytes;
}

void kedge__track_forget(kedge_t *k, const void *data, uint64_t bytes)
{
	const struct kedge__job_tracked wanted = {.data = (void *)data, .bytes = bytes};
	uint64_t hash = place_hash(data, bytes);
	size_t i;

	while ((i = kedge__hash_find(&k->track.places, hash, is_there, k, &wanted)) != KEDGE__HASH_NONE)
		range_remove(k, i);
}

void kedge__track_reset(kedge_t *k)
{
	k->track.at = KEDGE__NO_VERSION;
	while (k->track.ranges.count)
		range_remove(k, k->track.ranges.count - 1);
}

void kedge__track_touch(kedge_t *k, const void *data, uint64_t bytes)
{
	if (k->track.tracker && data && bytes)
		kedge__tracker_touch(k->track.tracker, data, bytes);
}

static bool is_range_of(const void *ctx, size_t item, const void *region)
{
	const struct kedge__job_tracked *t = &((const kedge_t *)ctx)->track.ranges.at[item];
	const struct kedge__region *r = region;

	return t->tenancy == r->tenancy && t->data == r->data && t->bytes == r->bytes;
}

static struct kedge__job_tracked *range_find(kedge_t *k, const struct kedge__region *r)
{
	size_t i = kedge__hash_find(&k->track.places, place_hash(r->data, r->bytes), is_range_of, k, r);

	return i == KEDGE__HASH_NONE ? NULL : &k->track.ranges.at[i];
}

static int range_watch(kedge_t *k, struct kedge__job_tracked *t, struct kedge__error *err)
{
	int rc = kedge__tracker_add(k->track.tracker, t->data, t->bytes, 0, &t->id, err);

	t->watched = t->fresh = !rc;
	return rc;
}

static int range_add(kedge_t *k, const struct kedge__region *r, struct kedge__error *err)
{
	struct kedge__job_tracked fresh = {.tenancy = r->tenancy, .data = r->data, .bytes = r->bytes, .seen = true};
	size_t n = k->track.ranges.count;
	int rc;

	if (!kedge__array_reserve(&k->track.ranges, n + 1) || !kedge__hash_reserve(&k->track.places, n + 1))
		return kedge__error_nomem(err);
	rc = range_watch(k, &fresh, err);
	if (rc)
		return rc;
	(void)kedge__hash_put(&k->track.places, place_hash(r->data, r->bytes), n); /* there is room */
	k->track.ranges.at[k->track.ranges.count++] = fresh;
	return 0;
}

/* Routed files are mapped for the time of a checkpoint only, and to look at little memory costs less than to watch it.
 */
static bool is_trackable(const struct kedge__region *r)
{
	return r->bytes >= TRACK_MIN && !kedge__region_is_shared(r) && !r->file;
}

/*
 * The first write to a watched page takes extra time, which is wasted if most pages are written. So such a region is
 * not watched, and all of it is compared, until a sample of its pages shows that most have not changed. A program that
 * writes the same bytes again makes the sample look better than it is: then the region is watched in vain, and not
 * asked again for a while.
 */
static void range_judge(kedge_t *k, struct kedge__job_tracked *t, uint64_t dirty)
{
	t->dense = dirty > t->bytes / 2 ? t->dense + 1 : 0;
	if (!t->dense) {
		t->woken = false;
		t->rests = 0;
	}
	if (t->dense < (t->woken ? 1 : DENSE_LIMIT))
		return;
	kedge__tracker_remove(k->track.tracker, t->id);
	t->watched = false;
	t->dense = 0;
	if (t->woken) {
		t->rest = REST << t->rests;
		t->rests += t->rests < REST_TWICE;
	}
}

/* A known range that is not watched: is it time to do so again? */
static int range_wake(kedge_t *k, struct kedge__job_tracked *t, const struct kedge__region *r, struct kedge__error *err)
{
	double changed;

	t->seen = true;
	if (t->watched)
		return 0;
	if (t->rest) {
		t->rest--;
		return 0;
	}
	changed = kedge__reducer_changed(k->baseline.reducer, (uint64_t)r->slot * KEDGE__SLOT_BYTES, r->data, r->bytes,
					 k->track.turn);
	if (changed < 0 || changed > SPARSE)
		return 0;
	t->woken = true;
	return range_watch(k, t, err);
}

/* The tracker watches what is protected now, and nothing else. */
static int ranges_update(kedge_t *k, struct kedge__error *err)
{
	size_t n = kedge__region_table_count(k->regions.table);

	for (size_t i = 0; i < k->track.ranges.count; i++)
		k->track.ranges.at[i].seen = false;
	for (size_t i = 0; i < n; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);
		struct kedge__job_tracked *known;
		int rc;

		if (!is_trackable(r))
			continue;
		known = range_find(k, r);
		rc = known ? range_wake(k, known, r, err) : range_add(k, r, err);
		if (rc)
			return rc;
	}
	for (size_t i = k->track.ranges.count; i; i--) {
		if (!k->track.ranges.at[i - 1].seen)
			range_remove(k, i - 1);
	}
	return 0;
}

void kedge__dirty_free(struct kedge__job_dirty *d)
{
	for (size_t i = 0; d->lists && i < d->count; i++)
		kedge__free((void *)d->lists[i].at);
	kedge__free(d->lists);
	*d = (struct kedge__job_dirty){0};
}

static int list_make(kedge_t *k, size_t id, struct kedge__region_dirty *out, uint64_t *bytes, struct kedge__error *err)
{
	struct kedge__range_list found = {0};
	int rc = kedge__tracker_dirty(k->track.tracker, id, &found, err);

	if (rc) {
		kedge__array_done(&found);
		return rc;
	}
	for (size_t i = 0; i < found.count; i++)
		*bytes += found.at[i].len;
	*out = (struct kedge__region_dirty){.known = true, .at = found.at, .count = found.count};
	return 0;
}

/* FOLLOWS: it is about the time since the last version; before that, everything is dirty. */
static int lists_make(kedge_t *k, bool follows, struct kedge__job_dirty *d, struct kedge__error *err)
{
	size_t n = kedge__region_table_count(k->regions.table);
	int rc = 0;

	d->lists = kedge__calloc(n + 1, sizeof(*d->lists));
	d->count = n;
	if (!d->lists)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);
		struct kedge__job_tracked *t = is_trackable(r) ? range_find(k, r) : NULL;
		uint64_t dirty = 0;

		if (t && t->watched) {
			rc = list_make(k, t->id, &d->lists[i], &dirty, err);
			if (!rc && follows && !t->fresh)
				range_judge(k, t, dirty);
			t->fresh = false;
		} else if (t) {
			dirty = t->bytes;
		}
		d->bytes += dirty;
	}
	return rc;
}

void kedge__track_collect(kedge_t *k, struct kedge__job_dirty *d)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	bool follows = k->track.at != KEDGE__NO_VERSION && k->track.at == kedge__reducer_parent(k->baseline.reducer);
	int rc;

	*d = (struct kedge__job_dirty){0};
	if (!k->track.tracker)
		return;
	k->track.at = KEDGE__NO_VERSION; /* until the version that it is collected for is committed */
	rc = ranges_update(k, &err);
	/* What is to be protected is not watched first: that would have to be undone. */
	if (!rc)
		rc = k->image.cow ? kedge__tracker_collect_first(k->track.tracker, &err)
				  : kedge__tracker_collect(k->track.tracker, &err);
	d->collected = !rc;
	if (!rc)
		rc = lists_make(k, follows, d, &err);
	if (rc)
		kedge__log(KEDGE_LOG_WARNING, "%s: page tracking failed, comparing every byte of this version: %s",
			   k->name, kedge__error_text(&err));
	d->usable = !rc && follows;
	kedge__error_done(&err);
}

void kedge__track_committed(kedge_t *k, uint64_t version)
{
	k->track.at = version;
}

void kedge__track_arm(kedge_t *k)
{
	if (k->track.tracker)
		kedge__tracker_arm(k->track.tracker);
}

static uint64_t audit_share(const struct kedge__image *image)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < image->count; i++)
		bytes += image->regions[i].bytes;
	return KEDGE__MIN(KEDGE__MAX(bytes / AUDIT_BYTES, AUDIT_SHARE), AUDIT_LEAST);
}

/*
 * No tracker sees a device, and nobody can know all devices. What they write comes in long runs, mostly: then it is
 * found here in the first version that would miss it, and that version looks at everything.
 */
void kedge__track_audit(kedge_t *k, uint64_t version, const struct kedge__image *image, struct kedge__job_dirty *d)
{
	uint64_t turn = k->track.turn++, offset;
	size_t region;

	if (!d->usable || kedge__reducer_audit(k->baseline.reducer, k->pool, version, image, d->lists,
					       audit_share(image), turn, &region, &offset))
		return;
	kedge__log(
	    KEDGE_LOG_ERROR,
	    "%s: the page at %llu of region \"%s\" changed, but page tracker %s did not see it: a device or another "
	    "mapping writes to it. Tracking is off from now on; mark such regions with kedge_region_flags()",
	    k->name, (unsigned long long)offset, kedge__region_table_at(k->regions.table, region)->name,
	    kedge__tracker_name(k->track.tracker));
	kedge__track_free(k);
	d->usable = d->collected = false;
}

double kedge__track_count(kedge_t *k)
{
	uint64_t bytes;

	if (!k->track.tracker || kedge__tracker_count(k->track.tracker, &bytes, NULL))
		return -1;
	return (double)bytes;
}
