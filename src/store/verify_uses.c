/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which bytes of which blocks are summed for which member. References are turned around: a version does not look for
 * its blocks; a block, when it is read, is passed to all its users, so that it is read once, whatever the number of
 * versions.
 *
 * All versions are resolved in jobs of a few megabytes of the image, first to count the uses of every block, then, for
 * as many blocks at a time as memory allows, to place the uses. A word whose bytes are not all from one block is
 * gathered first, and summed at the end.
 */
#include "store/verify.h"

#define JOB_BYTES (UINT64_C(2) << 20) /* as in restore, so that the same maps are refused as too large */
#define MEMORY    (UINT64_C(64) << 20)
#define NO_BLOCK  SIZE_MAX
#define WORD      UINT64_C(8)

struct shared_word {
	uint64_t pos;
	uint32_t sum;
	uint8_t bytes[WORD];
};

struct job {
	size_t owner, at; /* the member it is summed for; the version that resolves it: OWNER, or its parent if MINUS */
	bool minus;
	size_t first, count; /* of its ranges */
	size_t low, high;    /* it uses blocks from LOW to below HIGH */
	KEDGE__ARRAY(struct shared_word) shared;
};

struct kedge__uses {
	struct kedge__family *family;
	struct kedge__range_list ranges;
	KEDGE__ARRAY(struct job) jobs;
	atomic_size_t *counts; /* one per block: its uses; while they are placed, the position of the next one */
	size_t *places;        /* one per block of the window, plus one: the position of its first use */
	struct kedge__use *uses;
	size_t first, end; /* the window */
	size_t limit;      /* uses in memory */
	bool bad_only;
	_Atomic bool again; /* a member must be set apart */
};

enum pass { COUNT, PLACE, MARK };

struct walk { /* over the spans of a job */
	struct kedge__uses *u;
	struct job *job;
	enum pass pass;
	uint64_t slot;
	bool wanted;    /* the owner has a region there, */
	uint64_t bytes; /* the version that resolves it has this many bytes of it, */
	uint32_t sum;   /* and this is its sum */
	size_t shared;  /* words found so far */
	bool memory;
};

/* A piece of a span: part of one block, or a fill. */
struct piece {
	size_t block;
	uint64_t from; /* in the block; or the pattern */
	uint64_t pos, len;
};

/* ------------------------------------------------------------------ one piece */

static void place_use(struct kedge__uses *u, size_t block, struct kedge__use use)
{
	size_t at = atomic_fetch_add_explicit(&u->counts[block], 1, memory_order_relaxed);

	u->uses[at] = use;
}

static void literal_take(struct walk *w, const struct piece *p, struct kedge__use use)
{
	struct kedge__uses *u = w->u;

	if (w->pass == MARK) {
		kedge__region_sum_unread(
		    &u->family->sums[w->sum], w->job->minus,
		    kedge__family_bad_bytes(u->family, p->block, (uint32_t)p->from, (uint32_t)p->len));
	} else if (w->pass == PLACE) {
		if (p->block >= u->first && p->block < u->end)
			place_use(u, p->block, use);
	} else {
		atomic_fetch_add_explicit(&u->counts[p->block], 1, memory_order_relaxed);
		w->job->low = KEDGE__MIN(w->job->low, p->block);
		w->job->high = KEDGE__MAX(w->job->high, p->block + 1);
	}
}

/* Entire words, or the end of the region. */
static void take_words(struct walk *w, struct piece p)
{
	struct kedge__use use = {p.pos, (uint32_t)p.from, (uint32_t)p.len, w->sum, w->job->minus, false};

	if (p.block != NO_BLOCK)
		literal_take(w, &p, use);
	else if (w->pass == COUNT)
		kedge__region_sum_fill(&w->u->family->sums[w->sum], w->job->minus, p.from, p.len, p.pos);
}

static struct shared_word *shared_find(struct walk *w, uint64_t pos)
{
	struct job *job = w->job;
	struct shared_word fresh = {.pos = pos, .sum = w->sum};

	if (!w->shared || job->shared.at[w->shared - 1].pos != pos || job->shared.at[w->shared - 1].sum != w->sum) {
		if (w->pass == COUNT && !kedge__array_push(&job->shared, fresh)) {
			w->memory = false;
			return NULL;
		}
		w->shared++;
	}
	return &job->shared.at[w->shared - 1];
}

/* A part of a word that is shared with other blocks. */
static void take_part(struct walk *w, struct piece p)
{
	struct shared_word *word = w->pass == MARK ? NULL : shared_find(w, p.pos & ~(WORD - 1));
	struct kedge__use use = {0, (uint32_t)p.from, (uint32_t)p.len, w->sum, w->job->minus, true};
	uint8_t *to = word ? word->bytes + (p.pos & (WORD - 1)) : NULL;

	use.at = (uintptr_t)to;
	if (p.block != NO_BLOCK)
		literal_take(w, &p, use);
	else if (w->pass == COUNT && to)
		kedge__fill_pattern(p.from, p.pos, to, (size_t)p.len);
}

static struct piece piece_cut(const struct piece *p, uint64_t from, uint64_t to)
{
	uint64_t skip = p->block == NO_BLOCK ? 0 : from - p->pos;

	return (struct piece){p->block, p->from + skip, from, to - from};
}

static void take_piece(struct walk *w, const struct piece *p)
{
	uint64_t end = p->pos + p->len, body = (p->pos + WORD - 1) & ~(WORD - 1);
	uint64_t tail = end == w->bytes ? end : end & ~(WORD - 1);

	if (body != p->pos)
		take_part(w, piece_cut(p, p->pos, KEDGE__MIN(body, end)));
	if (body < tail)
		take_words(w, piece_cut(p, body, tail));
	if (tail >= body && tail < end)
		take_part(w, piece_cut(p, tail, end));
}

/* ------------------------------------------------------------------ one job */

static void slot_enter(struct walk *w, uint64_t slot)
{
	const struct kedge__family *f = w->u->family;
	const struct kedge__member *owner = &f->members[w->job->owner];
	const struct kedge__segment *at = f->members[w->job->at].seg;
	size_t region = kedge__segment_slot_region(owner->seg, slot);
	size_t there = kedge__segment_slot_region(at, slot);

	w->slot = slot;
	w->wanted = region != SIZE_MAX && there != SIZE_MAX;
	w->bytes = w->wanted ? at->regions[there].bytes : 0;
	w->sum = (uint32_t)(owner->first_sum + region);
}

static int take_literals(struct walk *w, const struct kedge__span *s, struct kedge__error *err)
{
	const struct kedge__family *f = w->u->family;
	const struct kedge__member *m = &f->members[kedge__family_find(f, s->version)];
	const struct kedge__segment *seg = m->seg;
	uint64_t src = s->src, end = s->src + s->len, pos = s->addr & (KEDGE__SLOT_BYTES - 1);

	for (size_t b = kedge__segment_find_block(seg, src); src < end && b < seg->block_count; b++) {
		const struct kedge__block_record *block = &seg->blocks[b];
		uint64_t to = KEDGE__MIN(end, block->position + block->raw_bytes);
		struct piece piece = {m->first_block + b, src - block->position, pos, to - src};

		take_piece(w, &piece);
		pos += to - src;
		src = to;
	}
	if (src < end)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: refers to literals that no block holds",
					seg->path);
	return 0;
}

static int walk_spans(struct walk *w, const struct kedge__span_list *spans, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < spans->count && !rc; i++) {
		const struct kedge__span *s = &spans->at[i];
		struct piece fill = {NO_BLOCK, s->src, s->addr & (KEDGE__SLOT_BYTES - 1), s->len};

		if (!i || s->addr >> KEDGE__SLOT_SHIFT != w->slot)
			slot_enter(w, s->addr >> KEDGE__SLOT_SHIFT);
		if (!w->wanted)
			continue;
		if (s->fill)
			take_piece(w, &fill);
		else
			rc = take_literals(w, s, err);
	}
	return rc ? rc : w->memory ? 0 : kedge__error_nomem(err);
}

/* If a parent does not resolve, a version that does not use those bytes is set apart. */
static void job_fail(struct kedge__uses *u, const struct job *job, struct kedge__error *err)
{
	if (!job->minus) {
		kedge__member_fail(u->family, job->owner, err);
		return;
	}
	atomic_store(&u->again, true);
	pthread_mutex_lock(&u->family->mutex);
	u->family->members[job->owner].apart = true;
	pthread_mutex_unlock(&u->family->mutex);
}

static int job_run(struct kedge__uses *u, size_t i, enum pass pass)
{
	struct job *job = &u->jobs.at[i];
	const struct kedge__family *f = u->family;
	struct walk w = {.u = u, .job = job, .pass = pass, .memory = true};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__span_list spans = {0};
	int rc;

	rc = kedge__lineage_resolve_at(f->lineage, f->members[job->at].seg->header.version, &u->ranges.at[job->first],
				       job->count, &spans, &err);
	if (!rc)
		rc = walk_spans(&w, &spans, &err);
	kedge__span_list_done(&spans);
	if (rc && rc != KEDGE_E_NOMEM) {
		job_fail(u, job, &err);
		rc = 0;
	}
	kedge__error_done(&err);
	return rc;
}

static int job_count(void *ctx, size_t i, int worker)
{
	struct kedge__uses *u = ctx;

	(void)worker;
	return job_run(u, i, u->bad_only ? MARK : COUNT);
}

static int job_place(void *ctx, size_t i, int worker)
{
	struct kedge__uses *u = ctx;
	const struct job *job = &u->jobs.at[i];

	(void)worker;
	if (u->family->members[job->owner].failed || job->low >= u->end || job->high <= u->first)
		return 0;
	return job_run(u, i, PLACE);
}

/* ------------------------------------------------------------------ all jobs */

static bool jobs_add(struct kedge__uses *u, size_t owner, size_t at, const struct kedge__range_list *list)
{
	uint64_t room = 0;

	for (size_t i = 0; i < list->count; i++) {
		for (uint64_t done = 0; done < list->at[i].len;) {
			uint64_t len = KEDGE__MIN(JOB_BYTES, list->at[i].len - done);
			struct job fresh = {
			    .owner = owner, .at = at, .minus = owner != at, .first = u->ranges.count, .low = SIZE_MAX};

			if (room < len) {
				if (!kedge__array_push(&u->jobs, fresh))
					return false;
				room = JOB_BYTES;
			}
			if (!kedge__array_push(&u->ranges, ((struct kedge__range){list->at[i].start + done, len})))
				return false;
			u->jobs.at[u->jobs.count - 1].count++;
			room -= len;
			done += len;
		}
	}
	return true;
}

static void jobs_clear(struct kedge__uses *u)
{
	for (size_t i = 0; i < u->jobs.count; i++)
		kedge__array_done(&u->jobs.at[i].shared);
	u->jobs.count = u->ranges.count = 0;
	for (size_t i = 0; u->counts && i < u->family->block_count; i++)
		atomic_init(&u->counts[i], 0);
	kedge__family_sums_clear(u->family);
}

static int jobs_list(struct kedge__uses *u, struct kedge__error *err)
{
	struct kedge__family *f = u->family;
	struct kedge__range_list fresh = {0}, stale = {0};
	int rc = 0;

	jobs_clear(u);
	for (size_t i = 0; i < f->count && !rc; i++) {
		if (f->members[i].failed)
			continue;
		rc = kedge__changes_list(f, i, &fresh, &stale, err);
		if (!rc && (!jobs_add(u, i, i, &fresh) || !jobs_add(u, i, f->members[i].parent, &stale)))
			rc = kedge__error_nomem(err);
	}
	kedge__array_done(&fresh);
	kedge__array_done(&stale);
	return rc;
}

/* A sum carried from a failed member is worthless: members that would carry it are summed entirely. */
static void set_apart(struct kedge__uses *u)
{
	struct kedge__family *f = u->family;

	for (size_t i = 0; i < f->count; i++) {
		const struct kedge__member *parent =
		    f->members[i].parent == KEDGE__NO_MEMBER ? NULL : &f->members[f->members[i].parent];
		bool broken = parent && (parent->failed || (parent->apart && atomic_load(&u->again)));

		if (f->members[i].failed || f->members[i].apart || !broken)
			continue;
		f->members[i].apart = true;
		atomic_store(&u->again, true);
	}
}

/* Until all carried sums are valid: once, unless some maps do not resolve. */
static int jobs_count(struct kedge__uses *u, struct kedge__error *err)
{
	int rc;

	do {
		atomic_store(&u->again, false);
		rc = jobs_list(u, err);
		if (!rc && kedge__pool_for(u->family->verifier->pool, u->jobs.count, job_count, u))
			rc = kedge__error_nomem(err);
		if (!rc)
			set_apart(u);
	} while (!rc && atomic_load(&u->again));
	return rc;
}

int kedge__uses_new(struct kedge__family *f, struct kedge__uses **out, struct kedge__error *err)
{
	struct kedge__uses *u = kedge__calloc(1, sizeof(*u));
	uint64_t memory = f->verifier->options->memory ? f->verifier->options->memory : MEMORY;
	int rc;

	if (!u)
		return kedge__error_nomem(err);
	u->family = f;
	u->limit = (size_t)(memory / sizeof(struct kedge__use));
	u->counts = kedge__calloc(f->block_count + 1, sizeof(*u->counts));
	rc = u->counts ? jobs_count(u, err) : kedge__error_nomem(err);
	if (rc) {
		kedge__uses_free(u);
		return rc;
	}
	*out = u;
	return 0;
}

void kedge__uses_free(struct kedge__uses *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->jobs.count; i++)
		kedge__array_done(&u->jobs.at[i].shared);
	kedge__array_done(&u->jobs);
	kedge__array_done(&u->ranges);
	kedge__free(u->counts);
	kedge__free(u->places);
	kedge__free(u->uses);
	kedge__free(u);
}

/* ------------------------------------------------------------------ windows */

int kedge__uses_window(struct kedge__uses *u, size_t first, size_t *end, struct kedge__error *err)
{
	size_t total = 0, last = first;

	while (last < u->family->block_count && (last == first || total + u->counts[last] <= u->limit))
		total += u->counts[last++];
	kedge__free(u->places);
	kedge__free(u->uses);
	u->places = kedge__calloc(last - first + 1, sizeof(*u->places));
	u->uses = kedge__reallocarray(NULL, total + 1, sizeof(*u->uses));
	if (!u->places || !u->uses)
		return kedge__error_nomem(err);
	u->first = first;
	u->end = last;
	for (size_t i = first; i < last; i++) {
		size_t place = u->places[i - first];

		u->places[i - first + 1] = place + u->counts[i];
		atomic_store(&u->counts[i], place);
	}
	if (total && kedge__pool_for(u->family->verifier->pool, u->jobs.count, job_place, u))
		return kedge__error_nomem(err);
	*end = last;
	return 0;
}

/* Some uses of failed members were counted and not placed. */
const struct kedge__use *kedge__uses_of(const struct kedge__uses *u, size_t block, size_t *count)
{
	*count = u->counts[block] - u->places[block - u->first];
	return &u->uses[u->places[block - u->first]];
}

void kedge__uses_finish(struct kedge__uses *u)
{
	for (size_t i = 0; i < u->jobs.count; i++) {
		const struct job *job = &u->jobs.at[i];

		for (size_t k = 0; k < job->shared.count; k++)
			kedge__region_sum_part(&u->family->sums[job->shared.at[k].sum], job->minus,
					       job->shared.at[k].bytes, WORD, job->shared.at[k].pos);
	}
}

int kedge__uses_of_bad(struct kedge__family *f, struct kedge__error *err)
{
	struct kedge__uses u = {.family = f, .bad_only = true};
	int rc = jobs_count(&u, err);

	kedge__array_done(&u.jobs);
	kedge__array_done(&u.ranges);
	return rc;
}
