/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After a failure the job is started again, on the nodes that are left and perhaps on others, and ranks need not be
 * where they were. What they need is on L1 somewhere, or can be rebuilt:
 *
 *  1. RECOVER 0: every rank has its segments and shields, and all have the same versions? Then there is nothing to do.
 *  2. Leaders tell what their directories have; manifests reach all ranks. From here on all ranks know the same, and
 * each plan is a function of that (protect/recovery.c).
 *  3. What will be read is checked; what is damaged is lost. Then segments move, or are rebuilt, until nothing changes
 * any more.
 *  4. Where all segments of a version are in place, leaders publish its manifest if their directory lacks it. Nothing
 * before that makes a version visible: a crash leaves files without a manifest, from which the next attempt goes on.
 *  5. Teams whose shields are not complete make them again; then files of ranks that are elsewhere now are removed, and
 *     whatever a crash left.
 *
 * Versions that cannot be completed are left to L2, and the log says why. Older versions than `keep` asks for are not
 * recovered.
 */
#include "job/recovery.h"

#include <inttypes.h>
#include <stdio.h>

/* ------------------------------------------------------------------ 1: is there anything to do? */

static bool shield_is_right(const kedge_t *k, struct kedge__catalog *cat, const struct kedge__set *set)
{
	uint32_t rank = (uint32_t)k->group.rank;
	char *path = kedge__shield_path(cat, set->version, rank, set->parts[rank].generation);
	struct kedge__shield_file f = {.fd = -1};
	struct kedge__shield shape;
	bool right = false;

	kedge__shields_shape(k, set, &shape);
	if (path && kedge__shield_open(path, &f, NULL) == 0)
		right = kedge__shield_fits(&f.shield, set, rank) && kedge__shape_equal(&f.shield, &shape);
	kedge__shield_close(&f);
	kedge__free(path);
	return right;
}

static bool set_is_whole(const kedge_t *k, struct kedge__catalog *cat, const struct kedge__set *set)
{
	const struct kedge__set_part *part = &set->parts[k->group.rank];
	char *path = kedge__segment_path(cat, set->version, (uint32_t)k->group.rank, part->generation);
	struct kedge__digest seal;
	uint64_t bytes;
	bool there = path && kedge__segment_glance(path, &bytes, &seal) && bytes == part->file_bytes &&
		     kedge__digest_equal(seal, part->seal);

	kedge__free(path);
	return there && shield_is_right(k, cat, set);
}

/* LACKS: a version that counts is not whole here, or a manifest cannot be read. */
static int look(kedge_t *k, bool *lacks, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	const struct kedge__set *head, **sets;
	size_t n;
	bool *mark;
	int rc = kedge__catalog_rescan(cat, err);

	*lacks = kedge__catalog_problems(cat) > 0;
	head = rc ? NULL : kedge__history_head(&cat, 1);
	if (rc || !head)
		return rc;
	n = kedge__catalog_count(cat);
	sets = kedge__calloc(n, sizeof(*sets));
	mark = kedge__calloc(n, sizeof(*mark));
	if (!sets || !mark)
		rc = kedge__error_nomem(err);
	for (size_t i = 0; i < n && !rc; i++)
		sets[i] = kedge__catalog_at(cat, i)->problem.code ? NULL : &kedge__catalog_at(cat, i)->set;
	if (!rc)
		kedge__recovery_scope(sets, n, &head->run, (uint32_t)k->group.size, kedge__recovery_keep(k), mark);
	for (size_t i = 0; i < n && !rc; i++)
		*lacks = *lacks || (mark[i] && !set_is_whole(k, cat, sets[i]));
	kedge__free(sets);
	kedge__free(mark);
	return rc;
}

static int needed(kedge_t *k, bool *needed, struct kedge__error *err)
{
	union kedge__msg msg = {.protect = {.most = 0}};
	bool lacks = false;
	int between[2], rc = look(k, &lacks, err);

	msg.head.flags = lacks;
	kedge__msg_same_set(&msg.protect.same, k->group.rank, kedge__catalog_digest(k->levels.at[KEDGE__L1].write));
	rc = kedge__exchange(&k->channels.front, KEDGE__STEP_RECOVER, 0, rc, &msg, err);
	*needed = !rc && (msg.head.flags || !kedge__msg_same_is(&msg.protect.same, between));
	return rc;
}

/* ------------------------------------------------------------------ 3: until nothing changes any more */

/* *WORK: some segment has to be moved or rebuilt. */
static void plan(struct kedge__recovery *r, bool *work)
{
	*work = false;
	for (size_t i = 0; i < r->list.count; i++) {
		struct kedge__recovered *v = &r->list.at[i];

		if (!v->wanted)
			continue;
		v->possible = v->barred < 0;
		v->complete = true;
		kedge__recovery_plan(&v->items, r->home, r->ranks, v->paths);
		for (uint32_t q = 0; q < r->ranks; q++) {
			v->possible = v->possible && v->paths[q].way != KEDGE__WAY_NONE;
			v->complete = v->complete && v->paths[q].way == KEDGE__WAY_HERE;
		}
		for (uint32_t q = 0; q < r->ranks && !v->possible;
		     q++) /* nothing is moved for a version that is lost */
			if (v->paths[q].way != KEDGE__WAY_HERE)
				v->paths[q].way = KEDGE__WAY_NONE;
		*work = *work || (v->possible && !v->complete);
	}
}

static void note_apply(struct kedge__recovery *r, const struct kedge__recovery_note *note)
{
	struct kedge__recovered *v = kedge__recovery_find(r, note->version);
	bool shield = note->kind == KEDGE__NOTE_SHIELD_CHECKED || note->kind == KEDGE__NOTE_SHIELD_DAMAGED;
	bool damaged = note->kind == KEDGE__NOTE_DAMAGED || note->kind == KEDGE__NOTE_SHIELD_DAMAGED;

	if (!v || note->rank >= r->ranks)
		return;
	if (note->kind == KEDGE__NOTE_BARRED && v->barred < 0) {
		v->barred = (int32_t)note->rank;
		snprintf(v->why, sizeof(v->why), "%s", note->text);
	}
	if (note->kind == KEDGE__NOTE_ARRIVED) { /* there is room: see rooms_make() */
		r->moved += v->paths[note->rank].way == KEDGE__WAY_MOVE;
		r->rebuilt += v->paths[note->rank].way == KEDGE__WAY_REBUILD;
		v->items.at[v->items.count++] =
		    (struct kedge__item){.rank = note->rank, .place = note->place, .checked = true};
	}
	for (size_t i = 0; i < v->items.count; i++) {
		struct kedge__item *item = &v->items.at[i];

		if (note->kind >= KEDGE__NOTE_ARRIVED || item->rank != note->rank || item->place != note->place ||
		    !item->shield == shield)
			continue;
		item->bad = item->bad || damaged;
		item->checked = !damaged;
	}
}

/* All ranks learn what each has to report, and empty their own. */
static int report(struct kedge__recovery *r, size_t *notes, struct kedge__error *err)
{
	struct kedge__texts texts = {0};
	int rc = r->rc;

	if (rc)
		kedge__error_move(err, &r->err);
	rc = kedge__spread(&r->k->channels.front, rc, r->report.at, r->report.count, &texts, err);
	r->report.count = 0;
	*notes = 0;
	for (uint32_t rank = 0; rank < r->ranks && !rc; rank++) {
		size_t left;
		const char *at = kedge__texts_at(&texts, (int)rank, &left);
		struct kedge__recovery_note note;

		for (; left >= sizeof(note); at += sizeof(note), left -= sizeof(note)) {
			memcpy(&note, at, sizeof(note));
			note.text[sizeof(note.text) - 1] = '\0';
			note_apply(r, &note);
			++*notes;
		}
	}
	kedge__texts_done(&texts);
	return rc;
}

/* For what comes in the steps that follow, in which no rank may fail for want of memory. */
static int rooms_make(struct kedge__recovery *r, struct kedge__error *err)
{
	uint32_t members, files, unit;
	size_t notes = 0;
	int rc;

	for (size_t i = 0; i < r->list.count; i++) {
		struct kedge__recovered *v = &r->list.at[i];

		notes += v->items.count + 2;
		if (!kedge__array_reserve(&v->items, v->items.count + r->ranks))
			return kedge__error_nomem(err);
	}
	if (!kedge__array_reserve(&r->report, notes * sizeof(struct kedge__recovery_note)))
		return kedge__error_nomem(err);
	kedge__team_room_done(&r->room);
	kedge__recovery_measure(r, &members, &files, &unit);
	rc = kedge__team_room_init(&r->room, members, files, unit, err);
	return rc;
}

/* Every round ends with more that is in place, or with less that is taken for good. */
static int fetch(struct kedge__recovery *r, struct kedge__error *err)
{
	struct kedge__channel *ch = &r->k->channels.front;
	size_t notes;
	bool work;
	int rc = 0;

	for (plan(r, &work); work && !rc; plan(r, &work)) {
		rc = kedge__agree(ch, KEDGE__STEP_RECOVER, 6, rooms_make(r, err), NULL, err);
		if (rc)
			return rc;
		kedge__recovery_check(r);
		rc = report(r, &notes, err);
		if (rc ||
		    notes) /* what was found to be damaged may change the plan; what was checked is not checked again */
			continue;
		rc = kedge__recovery_fetch(r, err);
		if (!rc)
			rc = report(r, &notes, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ 4: the versions exist */

static int manifests_publish(struct kedge__recovery *r, struct kedge__error *err)
{
	struct kedge__job_level *l1 = &r->k->levels.at[KEDGE__L1];
	int rc = 0;

	for (size_t i = 0; i < r->list.count && !rc && l1->leads; i++) {
		const struct kedge__recovered *v = &r->list.at[i];

		if (v->wanted && v->complete && v->has[r->k->group.rank] != 1)
			rc = kedge__set_publish(l1->write, &v->set, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ 5: protected again */

/* Does TEAM of the present ones have all of its shields of V? */
static bool team_is_shielded(const struct kedge__recovery *r, const struct kedge__recovered *v, uint32_t team)
{
	const struct kedge__shields *s = &r->k->shields;
	struct kedge__shield shape = {.parity = s->wanted.parity};

	for (uint32_t q = 0; q < r->ranks; q++)
		if (s->team[q] == team)
			shape.at[shape.members++] =
			    (struct kedge__shield_member){.rank = q, .file_bytes = v->set.parts[q].file_bytes};
	kedge__shield_measure(&shape);
	for (uint32_t i = 0; i < shape.members; i++) {
		uint32_t rank = shape.at[i].rank;
		size_t at = kedge__item_find(&v->items, rank, &shape, r->home[rank]);

		if (at == SIZE_MAX || v->items.at[at].place != r->home[rank])
			return false;
	}
	return true;
}

static int protect_again(struct kedge__recovery *r, struct kedge__error *err)
{
	kedge_t *k = r->k;
	struct kedge__channel *ch = &k->channels.front;
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	uint32_t own = k->shields.team[k->group.rank], teams = 0;
	int rc = 0;

	for (uint32_t q = 0; q < r->ranks; q++)
		teams = KEDGE__MAX(teams, k->shields.team[q] + 1);
	for (size_t i = 0; i < r->list.count && !rc; i++) {
		const struct kedge__recovered *v = &r->list.at[i];
		bool all = true, mine = true;

		for (uint32_t t = 0; t < teams && v->wanted && v->complete; t++) {
			bool shielded = team_is_shielded(r, v, t);

			all = all && shielded;
			mine = mine && (t != own || shielded);
		}
		if (all)
			continue;
		rc = kedge__shields_make(k, ch, cat, &v->set, 0, !mine, err);
		rc = kedge__agree(ch, KEDGE__STEP_SHIELDED, v->set.version, rc, NULL, err);
		if (rc)
			kedge__error_prefix(err, "version %" PRIu64 " is on L1, but not protected", v->set.version);
	}
	return rc;
}

/* What other ranks had here, which have it where they are now. */
static void strangers_remove(struct kedge__recovery *r)
{
	struct kedge__job_level *l1 = &r->k->levels.at[KEDGE__L1];
	uint32_t self = (uint32_t)r->k->group.rank;

	for (size_t i = 0; i < r->list.count && l1->leads; i++) {
		const struct kedge__recovered *v = &r->list.at[i];

		for (size_t j = 0; v->wanted && v->complete && j < v->items.count; j++) {
			const struct kedge__item *item = &v->items.at[j];

			if (item->place == self && r->home[item->rank] != self)
				(void)kedge__rank_files_remove(l1->write, v->set.version, item->rank,
							       v->set.parts[item->rank].generation, NULL);
		}
	}
}

/* ------------------------------------------------------------------ what is said */

static void ranks_text(const struct kedge__recovered *v, uint32_t ranks, char *out, size_t room)
{
	size_t used = 0;
	uint32_t said = 0;

	for (uint32_t q = 0; q < ranks && used < room; q++) {
		if (v->paths[q].way != KEDGE__WAY_NONE || v->paths[q].item != SIZE_MAX)
			continue;
		if (said++ == 8) {
			used += (size_t)snprintf(out + used, room - used, ", ...");
			break;
		}
		used += (size_t)snprintf(out + used, room - used, "%s%u", said > 1 ? ", " : "", q);
	}
}

static const struct kedge__shield *broken_team(const struct kedge__recovered *v, uint32_t ranks)
{
	for (uint32_t q = 0; q < ranks; q++)
		if (v->paths[q].way == KEDGE__WAY_NONE && v->paths[q].item == SIZE_MAX && v->paths[q].shape)
			return v->paths[q].shape;
	return NULL;
}

/* V, the newest that is lost, and how many OLDER ones are. */
static void lost_say(const struct kedge__recovery *r, const struct kedge__recovered *v, size_t older)
{
	const struct kedge__shield *shape = broken_team(v, r->ranks);
	const char *then = r->k->levels.at[KEDGE__L2].api ? "a restart takes what L2 has" : "and there is no L2";
	char others[48] = "", lost[120] = "", scheme[KEDGE__PROTECTION_TEXT],
	     limit[120] = "no shield of their teams is left";

	if (older)
		snprintf(others, sizeof(others), ", and %zu older one%s,", older, older == 1 ? "" : "s");
	if (v->barred >= 0) {
		kedge__log(KEDGE_LOG_WARNING, "%s: version %" PRIu64 "%s cannot be rebuilt on L1: rank %d: %s; %s",
			   r->k->name, v->set.version, others, v->barred, v->why, then);
		return;
	}
	ranks_text(v, r->ranks, lost, sizeof(lost));
	if (shape)
		snprintf(limit, sizeof(limit), "%s makes up for %u of a team",
			 kedge__protection_text(shape->scheme, shape->members, shape->parity, scheme), shape->parity);
	kedge__log(KEDGE_LOG_WARNING,
		   "%s: version %" PRIu64
		   "%s cannot be rebuilt on L1: the segments of ranks %s are lost or damaged, and %s; %s",
		   r->k->name, v->set.version, others, lost, limit, then);
}

static void say(const struct kedge__recovery *r)
{
	const struct kedge__recovered *newest = NULL;
	size_t lost = 0;

	if (r->k->group.rank != 0)
		return;
	for (size_t i = 0; i < r->list.count; i++) {
		if (!r->list.at[i].wanted || r->list.at[i].complete)
			continue;
		newest = &r->list.at[i];
		lost++;
	}
	if (newest)
		lost_say(r, newest, lost - 1);
	if (r->moved || r->rebuilt)
		kedge__log(KEDGE_LOG_NOTICE,
			   "%s: %zu segments were rebuilt on L1, and %zu were brought from other nodes", r->k->name,
			   r->rebuilt, r->moved);
}

/* ------------------------------------------------------------------ all of it */

static int recovery_init(struct kedge__recovery *r, kedge_t *k, struct kedge__error *err)
{
	*r = (struct kedge__recovery){.k = k, .ranks = (uint32_t)k->group.size};
	r->home = kedge__calloc(r->ranks, sizeof(*r->home));
	if (!r->home)
		return kedge__error_nomem(err);
	for (uint32_t q = 0; q < r->ranks; q++)
		r->home[q] = k->shields.seats[q].leader;
	return kedge__courier_init(&r->courier, &k->channels.front, err);
}

static void recovery_done(struct kedge__recovery *r)
{
	for (size_t i = 0; i < r->list.count; i++) {
		kedge__set_done(&r->list.at[i].set);
		kedge__free(r->list.at[i].has);
		kedge__free(r->list.at[i].paths);
		kedge__array_done(&r->list.at[i].items);
	}
	for (size_t i = 0; i < r->shields.count; i++)
		kedge__free(r->shields.at[i]);
	kedge__array_done(&r->list);
	kedge__array_done(&r->shields);
	kedge__courier_done(&r->courier);
	kedge__team_room_done(&r->room);
	kedge__bytes_done(&r->report);
	kedge__error_done(&r->err);
	kedge__free(r->home);
}

/* Everything that becomes visible, or is removed. The caller has pinned L1: nobody takes what comes for a leftover. */
static int restore(struct kedge__recovery *r, struct kedge__error *err)
{
	kedge_t *k = r->k;
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc = fetch(r, err);

	if (!rc)
		rc = kedge__agree(&k->channels.front, KEDGE__STEP_RECOVER, 9, manifests_publish(r, err), NULL, err);
	if (rc)
		return rc;
	say(r);
	if (protect_again(r, &problem)) /* the versions are there all the same, and the next open tries again */
		kedge__log(KEDGE_LOG_ERROR, "%s: %s", k->name, kedge__error_text(&problem));
	else
		strangers_remove(r);
	kedge__error_done(&problem);
	return 0;
}

static int run(kedge_t *k, struct kedge__error *err)
{
	struct kedge__channel *ch = &k->channels.front;
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	struct kedge__recovery r;
	int pinned, rc = kedge__agree(ch, KEDGE__STEP_RECOVER, 7, recovery_init(&r, k, err), NULL, err);

	if (!rc)
		rc = kedge__recovery_inventory(&r, err);
	if (!rc) {
		pinned = kedge__catalog_pin(cat, err);
		rc = kedge__agree(ch, KEDGE__STEP_RECOVER, 11, pinned, NULL, err);
		if (!rc)
			rc = restore(&r, err);
		if (!pinned)
			kedge__catalog_unpin(cat);
	}
	recovery_done(&r);
	return kedge__agree(ch, KEDGE__STEP_RECOVER, 12, rc, NULL, err); /* nobody has a pin */
}

int kedge__recover(kedge_t *k, struct kedge__error *err)
{
	bool work;
	int rc;

	if (!kedge__shields_wanted(k))
		return 0;
	if (k->shields.on) {
		rc = needed(k, &work, err);
		if (!rc && work)
			rc = run(k, err);
		if (rc)
			return rc;
	}
	kedge__level_clean(k, &k->levels.at[KEDGE__L1]);
	return kedge__agree(&k->channels.front, KEDGE__STEP_RECOVER, 10, 0, NULL, err);
}
