/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A checkpoint, from the call until the application continues:
 *
 *  1. Finish the version before: at most one is pending.
 *  2. Do everything that can fail without the other ranks: the number, L1 itself, memory, files.
 *  3. Find out what L1 holds, and so what the version may refer to (retention.h).
 *  4. Hold the image, according to this rank's holdings: copied, write-protected, in place (image.c), or reduced on the
 * GPU that has it (device.c).
 *  5. BEGIN, one exchange: the version may be taken, belongs to this run, and all ranks hold the same on L1.
 *  6. If they do not, find what all of them hold, and hold the images again (CAPTURE). This is rare.
 *  7. Hand the rest to the writer, or do it now with capture = sync or if the image could not be held (seal.c).
 *
 * No step waits for a rank that failed: it takes part in the next exchange, reports it, and all ranks fail together.
 */
#include "job/handle.h"

#include <stdio.h>

enum {
	FLAG_TOO_LARGE = 1, /* an image cannot be held within copy_memory: all write at once */
	FLAG_RENEWED = 2,   /* an L1 was made again: who shares it has to look whether it is still one */
	FLAG_REQUEST = 4,   /* somebody outside wants this version, */
	FLAG_EXIT = 8,      /* and the end of the job */
};

/* ------------------------------------------------------------------ 2: alone */

/* Scratch directories are cleared by others. What is gone is made again, and nothing that was there is referred to. */
static int l1_renew(kedge_t *k, uint64_t *flags, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	bool gone = false;
	int rc = kedge__catalog_present(cat, &gone, err);

	if (rc || !gone)
		return rc;
	kedge__log(KEDGE_LOG_WARNING,
		   "%s: L1, or a part of it, was removed while the job was running: making %s again; the next version "
		   "will be self-contained",
		   k->name, kedge__catalog_store(cat));
	*flags |= FLAG_RENEWED;
	kedge__levels_doubt(k);
	rc = kedge__catalog_renew(cat, err);
	return rc ? rc : kedge__files_renew(k, err);
}

static int prepare(struct kedge__version *v, uint64_t version, kedge_t *k, uint64_t *flags, struct kedge__error *err)
{
	int rc = v ? 0 : kedge__error_nomem(err);

	if (!rc && version >= KEDGE_VERSION_LIMIT)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "version %llu is above the limit, %llu",
				      (unsigned long long)version, (unsigned long long)KEDGE_VERSION_LIMIT - 1);
	if (!rc)
		rc = l1_renew(k, flags, err);
	if (!rc)
		rc = kedge__run_check(k, version, err);
	if (!rc)
		rc = kedge__files_take(k, err);
	if (!rc)
		rc = kedge__regions_assign(k, err);
	if (!rc)
		v->next_slot = k->regions.next_slot;
	return rc;
}

/* ------------------------------------------------------------------ 3: what it may refer to */

static int referable_find(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	const struct kedge__retention_rules rules = kedge__levels_rules(k);

	kedge__free(v->referable);
	v->referable = NULL;
	v->referable_count = 0;
	v->reach = kedge__retention_reach(&k->levels.l1, &rules, v->version);
	if (v->reach.renewed)
		kedge__log(
		    KEDGE_LOG_INFO,
		    "%s: writing version %llu as a self-contained checkpoint so that older versions can be removed",
		    k->name, (unsigned long long)v->version);
	return kedge__levels_referable(k, &v->reach, v->version, &v->referable, &v->referable_count, err);
}

static int stand(struct kedge__version *v, struct kedge__begin_msg *msg, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int rc = kedge__catalog_pin(k->levels.at[KEDGE__L1].write, err);

	v->pinned = !rc;
	if (!rc)
		rc = kedge__run_prepare(k, v->version, msg, err);
	if (!rc)
		rc = kedge__levels_refresh(k, v->version, err);
	if (!rc)
		rc = referable_find(v, err);
	return rc;
}

/* ------------------------------------------------------------------ 4: its image */

/* Without addresses. */
static int image_make(kedge_t *k, struct kedge__image_region **regions, size_t *count, struct kedge__error *err)
{
	size_t n = kedge__region_table_count(k->regions.table);
	struct kedge__image_region *image = kedge__calloc(n + 1, sizeof(*image));

	if (!image)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		image[i] = (struct kedge__image_region){(uint64_t)r->slot * KEDGE__SLOT_BYTES, NULL, r->bytes};
	}
	*regions = image;
	*count = n;
	return 0;
}

/* Names are copied: the application may protect other things while the writer is at work. Digests are the reduction's.
 */
static int records_make(struct kedge__version *v, struct kedge__error *err)
{
	size_t n = v->region_count;

	v->records = kedge__calloc(n + 1, sizeof(*v->records));
	if (!v->records)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct kedge__region *r = kedge__region_table_at(v->k->regions.table, i);
		struct kedge__region_record *record = &v->records[i];

		record->name = kedge__strdup(r->name);
		if (!record->name)
			return kedge__error_nomem(err);
		record->slot = r->slot;
		record->type = (uint32_t)r->type;
		record->ndims = (uint32_t)r->ndims;
		memcpy(record->dims, r->dims, sizeof(record->dims));
		record->bytes = r->bytes;
	}
	return 0;
}

static int image_describe(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int rc = kedge__baseline_make(k, err);

	if (!rc)
		rc = image_make(k, &v->regions, &v->region_count, err);
	if (!rc)
		rc = records_make(v, err);
	if (!rc)
		rc = kedge__same_note(v, err);
	if (!rc)
		rc = kedge__device_lay(v, err);
	if (rc)
		return rc;
	v->image = (struct kedge__image){v->regions, v->region_count};
	kedge__baseline_follow(v);
	kedge__track_collect(k, &v->pages);
	if (!v->device)
		kedge__track_audit(k, v->version, &v->image, &v->pages);
	v->dirty = v->pages.usable && !v->device ? (double)v->pages.bytes : -1;
	return 0;
}

/* Literals that are copied need nothing else of the image. */
static int literals_copy(struct kedge__version *v, uint64_t *flags, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int rc = kedge__snapshot_take(&k->image.reserve, k->pool, &v->reduction.literals, v->source, k->set.copy_memory,
				      err);

	if (!rc)
		return kedge__image_release(v, err);
	if (rc != KEDGE_E_LIMIT && rc != KEDGE_E_NOMEM)
		return rc;
	kedge__error_done(err);
	*flags |= FLAG_TOO_LARGE;
	return 0;
}

/* The image is held, or reduced at once and its literals copied, or neither: with capture = sync, or beyond the limit.
 */
static int capture(struct kedge__version *v, uint64_t *flags, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int rc = kedge__device_capture(v, err);

	if (rc || v->device) {
		kedge__track_arm(k);
		return rc;
	}
	rc = kedge__image_hold(v, err);
	kedge__track_arm(k);
	if (rc || v->hold || k->set.capture == KEDGE__CAPTURE_SYNC)
		return rc;
	rc = kedge__image_reduce(v, err);
	return rc ? rc : literals_copy(v, flags, err);
}

/* ------------------------------------------------------------------ 6: where ranks hold different versions */

static int capture_again(struct kedge__version *v, uint64_t *flags, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int rc = kedge__image_release(v, err);

	kedge__image_forget(v);
	if (!rc)
		rc = referable_find(v, err);
	if (rc)
		return rc;
	kedge__baseline_follow(v);
	/* What was written since a version that does not count says nothing. */
	v->pages.usable = v->pages.usable && kedge__reducer_parent(k->baseline.reducer) != KEDGE__NO_VERSION;
	return capture(v, flags, err);
}

static int reconcile(struct kedge__version *v, const struct kedge__begin_msg *msg, uint64_t *flags,
		     struct kedge__error *err)
{
	kedge_t *k = v->k;
	bool changed = false;
	int between[2], rc = kedge__run_agreed(k, v->version, msg, &changed, err);

	if (rc || (!changed && kedge__msg_same_is(&msg->held, between)))
		return rc;
	if (changed) {
		kedge__levels_forget(k);
		rc = kedge__levels_refresh(k, v->version, err);
		rc = kedge__agree(&k->channels.front, KEDGE__STEP_CAPTURE, v->version, rc, NULL, err);
	}
	if (!rc)
		rc = kedge__levels_common(k, v->version, err);
	if (!rc) {
		rc = capture_again(v, flags, err);
		rc = kedge__agree(&k->channels.front, KEDGE__STEP_CAPTURE, v->version, rc, flags, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ 5 and 7 */

/* What this rank knows of that others want; V may be NULL, and then nothing comes of it. */
static uint64_t request_flags(kedge_t *k, struct kedge__version *v, char why[KEDGE__POLICY_TEXT])
{
	const char *text = "";
	enum kedge__request_kind kind = kedge__requests_look(k, true, &text);

	if (v)
		kedge__requests_note(k, &v->asked);
	snprintf(why, KEDGE__POLICY_TEXT, "%s", text);
	return (kind != KEDGE__REQUEST_NONE ? FLAG_REQUEST : 0) | (kind == KEDGE__REQUEST_EXIT ? FLAG_EXIT : 0);
}

static int begin(kedge_t *k, struct kedge__version *v, uint64_t version, int rc, uint64_t *flags,
		 struct kedge__begin_msg *body, struct kedge__error *err)
{
	union kedge__msg msg = {.begin = *body};

	msg.head.flags = *flags | (k->levels.doubted_here ? FLAG_RENEWED : 0) | request_flags(k, v, msg.begin.why);
	if (k->group.rank == 0) {
		msg.begin.skip = kedge__adapt_skip_ahead(k);
		if (!msg.begin.why[0])
			memcpy(msg.begin.why, k->advice.policy.why, sizeof(msg.begin.why));
		memcpy(msg.begin.note, k->note, sizeof(msg.begin.note));
	}
	kedge__msg_same_set(&msg.begin.held, k->group.rank, k->levels.l1.digest);
	rc = kedge__exchange(&k->channels.front, KEDGE__STEP_BEGIN, version, rc, &msg, err);
	*flags = msg.head.flags;
	if (!rc)
		rc = reconcile(v, &msg.begin, flags, err);
	if (rc)
		return rc;
	if (*flags & FLAG_RENEWED)
		kedge__levels_renewed(k);
	if (k->set.capture != KEDGE__CAPTURE_SYNC)
		kedge__adapt_skip(k, msg.begin.skip);
	v->asked.all = *flags & FLAG_EXIT      ? KEDGE__REQUEST_EXIT
		       : *flags & FLAG_REQUEST ? KEDGE__REQUEST_CHECKPOINT
					       : KEDGE__REQUEST_NONE;
	memcpy(v->why, msg.begin.why, sizeof(v->why));
	memcpy(v->note, msg.begin.note, sizeof(v->note));
	return 0;
}

static int take(kedge_t *k, uint64_t version, struct kedge__version *v, bool *background, struct kedge__error *err)
{
	struct kedge__begin_msg msg = {.after = 0};
	uint64_t flags = 0;
	bool stands;
	int rc = prepare(v, version, k, &flags, err);

	if (!rc)
		rc = stand(v, &msg, err);
	stands = !rc;
	if (!rc)
		rc = image_describe(v, err);
	if (!rc)
		rc = capture(v, &flags, err);
	rc = begin(k, v, version, rc, &flags, &msg, err);
	if (stands) /* a number that was refused says nothing of versions that have it */
		kedge__state_begin(k, version);
	if (stands && rc)
		kedge__state_end(k, version, rc, err);
	if (rc)
		return rc;
	*background = k->set.capture != KEDGE__CAPTURE_SYNC && !(flags & FLAG_TOO_LARGE);
	if (flags & FLAG_TOO_LARGE)
		kedge__log(KEDGE_LOG_NOTICE,
			   "version %llu has more new bytes than copy_memory allows: it is written before "
			   "kedge_checkpoint() returns",
			   (unsigned long long)version);
	return 0;
}

int kedge__checkpoint_take(kedge_t *k, uint64_t version, struct kedge__error *err)
{
	struct kedge__version *v;
	double began = k->advice.clock(), dirty;
	struct kedge__asked asked;
	bool background = false;
	int rc;

	kedge__versions_drop(k);
	kedge__seal_finish(k);
	kedge__followups_progress(k);
	kedge__l2_look_again(k);
	if (version == KEDGE_NEXT) {
		rc = kedge__run_next(k, &version, err);
		if (rc)
			return rc;
	}
	/* What is replaced may be on its way to L2; and where bytes are limited, what is to go makes room first. */
	if (kedge__run_due(k, version) || k->levels.keep[KEDGE__L1].bytes)
		kedge__followups_settle(k);
	kedge__adapt_skip(k, 0);
	v = kedge__version_new(k, version);
	if (v)
		kedge__journal_begin(v);
	rc = take(k, version, v, &background, err);
	dirty = v ? v->dirty : -1;
	if (v)
		asked = v->asked;
	if (rc) {
		kedge__journal_failed(k, version, "capture", rc, err);
		kedge__version_free(v);
	} else if (background)
		kedge__seal_submit(v);
	else
		rc = kedge__seal_now(v, err);
	kedge__files_drop(k); /* what is pending has copies */
	if (!rc) {
		k->note[0] = '\0';
		kedge__adapt_taken(k, k->advice.clock() - began, dirty);
		kedge__requests_taken(k, &asked);
		if (asked.all == KEDGE__REQUEST_EXIT)
			kedge__adapt_save(k, true); /* if the process is ended now, that is no failure */
	}
	return rc;
}

int kedge_version_note(kedge_t *k, const char *note)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (!rc && note && *note && !kedge__note_valid(note))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0,
				      "a note is one line of text, without control characters, of at most %d bytes",
				      KEDGE_NOTE_MAX);
	if (rc)
		return kedge__state_stick(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	snprintf(k->note, sizeof(k->note), "%s", note ? note : "");
	pthread_mutex_unlock(&k->lock);
	return 0;
}

int kedge_checkpoint(kedge_t *k, uint64_t version)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = kedge__checkpoint_take(k, version, &err);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}
