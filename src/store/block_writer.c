/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From literals to blocks to bytes. Blocks end at the ends of regions, or of classes, whose literals are packed as one
 * whichever regions they belong to: both are the *subjects* of plans; groups of them go through a pipeline: chosen,
 * then gathered, encoded and summed on all cores, then appended in order. Literals that can still change are copied
 * once, and only that copy is checked, compressed, summed and written. Blocks that were packed where their literals
 * were, on a GPU, are summed and written. Of literals that cannot change, a contiguous block that no codec touches is
 * never copied. Such a block is checked, summed and written while it is in the cache: a step at a time, and, by a
 * thread that is alone, a small group at a time. The result depends only on how the literals are cut into blocks, not
 * on groups or threads.
 */
#include "store/internal.h"

#include <stdatomic.h>

#define LEAST_GROUP  (UINT64_C(64) << 10)
#define CACHED_GROUP (UINT64_C(512) << 10) /* stays in the cache of a core, with the pages that it is written to */
#define RUN_BYTES    (UINT64_C(8) << 20)   /* is written at once where other threads hash meanwhile */
#define STEP_BYTES   (UINT64_C(8) << 10)   /* stays in the innermost one */
#define TELL_BYTES   (UINT64_C(1) << 20)   /* whoever follows the writer is told no more often */

struct start { /* of a block, in the list of literals */
	size_t literal;
	uint64_t skip;
	const struct kedge__ready_block *ready; /* NULL: it is made of literals */
	size_t subject;                         /* a region, or, from region_count on, a class */
};

struct writer {
	const struct kedge__segment_spec *spec;
	const struct kedge__literal_list *literals;
	struct kedge__block_record *blocks;
	struct start *starts;
	size_t count, room;
	uint32_t block_bytes; /* raw, of a block, at most */
	struct kedge__pool *pool;
	struct kedge__codec_planner planner;
	struct kedge__codec_plan *plans; /* one per subject */
	size_t subject_count;
	struct kedge__lineage *base; /* the version that blocks may be packed against, once it was needed */
	bool base_tried;
	atomic_bool base_failed; /* some of its bytes could not be read, and this was logged */
	struct kedge__literal_places places;
	uint64_t group_bytes;   /* raw; the maximum, unless a single block is larger */
	size_t next;            /* the next block to collect */
	const uint8_t **stored; /* where the bytes of each block are until they are written */
	uint8_t *sums;          /* of the pages of all blocks that may have some, from their first_sum on */
	size_t sum_count;
	struct kedge__segment_file *file;
	struct iovec runs[KEDGE__SEGMENT_PIECES]; /* to be written next */
	size_t run_count, run_bytes;
	bool holds;    /* a group may wait in its buffer for the next one, */
	bool held;     /* and one does */
	bool alone;    /* one thread does all */
	uint64_t told; /* bytes of literals that those who follow know to be written */
};

/* ------------------------------------------------------------------ cut */

static size_t subject_of(const struct writer *w, const struct kedge__literal *literal)
{
	return literal->class ? w->spec->region_count + literal->class - 1 : literal->region;
}

static int add_block(struct writer *w, size_t literal, uint64_t skip, uint64_t position, struct kedge__error *err)
{
	const struct kedge__literal *first = &w->literals->at[literal];
	size_t room = w->room;

	if (!kedge__array_grow((void **)&w->blocks, &room, w->count + 1, sizeof(*w->blocks)))
		return kedge__error_nomem(err);
	room = w->room;
	if (!kedge__array_grow((void **)&w->starts, &room, w->count + 1, sizeof(*w->starts)))
		return kedge__error_nomem(err);
	w->room = room;
	w->blocks[w->count] = (struct kedge__block_record){.region = first->region, .position = position};
	w->starts[w->count++] = (struct start){literal, skip, NULL, subject_of(w, first)};
	return 0;
}

/* The wanted block size, rounded to units of the source. */
static uint32_t block_bytes(const struct kedge__segment_spec *spec)
{
	uint32_t unit = spec->source ? spec->source->unit : 0;

	return unit ? KEDGE__MAX(spec->block_bytes / unit, 1) * unit : spec->block_bytes;
}

static int cut(struct writer *w, struct kedge__error *err)
{
	uint64_t position = 0;

	w->block_bytes = block_bytes(w->spec);
	w->subject_count = w->spec->region_count + w->spec->reduction->classes.count;
	for (size_t i = 0; i < w->literals->count; i++) {
		const struct kedge__literal *literal = &w->literals->at[i];
		uint64_t done = 0;

		if (literal->region >= w->spec->region_count || subject_of(w, literal) >= w->subject_count)
			return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "literal %zu belongs to no region", i);
		while (done < literal->bytes) {
			struct kedge__block_record *last = w->count ? &w->blocks[w->count - 1] : NULL;
			uint64_t room;

			if (!last || w->starts[w->count - 1].subject != subject_of(w, literal) ||
			    last->raw_bytes == w->block_bytes) {
				if (add_block(w, i, done, position, err) != 0)
					return KEDGE_E_NOMEM;
				last = &w->blocks[w->count - 1];
			}
			room = KEDGE__MIN(w->block_bytes - last->raw_bytes, literal->bytes - done);
			last->raw_bytes += (uint32_t)room;
			done += room;
			position += room;
		}
	}
	return 0;
}

/* Blocks that were packed where the literals were; they are those of all of a region. */
static int match_ready(struct writer *w, struct kedge__error *err)
{
	const struct kedge__ready_blocks *ready = &w->spec->reduction->ready;
	bool match = true;
	size_t at = 0;

	for (size_t i = 0; i < w->count && match && ready->count; i++) {
		const struct kedge__ready_block *r = at < ready->count ? &ready->at[at] : NULL;
		bool mine = r && r->region == w->starts[i].subject;
		bool first = !i || w->starts[i - 1].subject != w->starts[i].subject;

		match =
		    (!mine || r->raw == w->blocks[i].raw_bytes) && (first || mine == (w->starts[i - 1].ready != NULL));
		w->starts[i].ready = mine ? r : NULL;
		at += mine;
	}
	if (!match || at != ready->count)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "packed blocks are not those of the literals");
	return 0;
}

/* ------------------------------------------------------------------ gather */

/* The bytes of a block in place, or NULL if they have to be gathered. */
static const uint8_t *block_in_place(const struct writer *w, size_t i)
{
	const struct kedge__literal *literal = &w->literals->at[w->starts[i].literal];

	if ((w->spec->source && w->spec->source->fill) || literal->bytes - w->starts[i].skip < w->blocks[i].raw_bytes)
		return NULL;
	return (const uint8_t *)literal->data + w->starts[i].skip;
}

/* BYTES bytes of block I, from byte FIRST on. */
static int gather(const struct writer *w, size_t i, size_t first, uint8_t *to, size_t bytes, int worker,
		  struct kedge__error *err)
{
	size_t at = w->starts[i].literal;
	uint64_t skip = w->starts[i].skip + first;

	if (w->spec->source && w->spec->source->fill)
		return w->spec->source->fill(w->spec->source->ctx, worker, w->blocks[i].position + first, to, bytes,
					     err);
	for (; skip && skip >= w->literals->at[at].bytes; at++)
		skip -= w->literals->at[at].bytes;
	while (bytes) {
		const struct kedge__literal *literal = &w->literals->at[at++];
		size_t n = (size_t)KEDGE__MIN(literal->bytes - skip, bytes);

		if (n)
			memcpy(to, (const uint8_t *)literal->data + skip, n);
		to += n;
		bytes -= n;
		skip = 0;
	}
	return 0;
}

/* ------------------------------------------------------------------ the base */

/* The first thread that needs it opens it. If the version cannot be read, there is no base; the write does not fail. */
static bool base_open(struct writer *w)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc;

	if (w->base_tried)
		return w->base;
	w->base_tried = true;
	rc = kedge__literal_places_make(kedge__extents_of_tape(&w->spec->reduction->map), &w->places, &problem);
	if (!rc)
		rc = w->spec->base.open(w->spec->base.ctx, &w->base, &problem);
	if (rc) {
		w->base = NULL;
		kedge__log(KEDGE_LOG_NOTICE, "version %" PRIu64 " is compressed without a base: %s", w->spec->version,
			   kedge__error_text(&problem));
	}
	kedge__error_done(&problem);
	return w->base;
}

/* The base's bytes for the first BYTES bytes of block I, in *OUT; NULL if they cannot be read, or need more than LIMIT
 * other blocks. */
static void base_read(struct writer *w, size_t i, size_t bytes, unsigned limit, struct kedge__base_reader **out)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	uint64_t version = kedge__lineage_top(w->base)->header.version, bad;
	unsigned depth;

	*out = NULL;
	if (kedge__base_read(w->base, version, &w->places, w->blocks[i].position, bytes, 1, out, &depth, &bad,
			     &problem) != 0) {
		*out = NULL;
		if (!atomic_exchange(&w->base_failed, true))
			kedge__log(KEDGE_LOG_WARNING,
				   "some blocks of version %" PRIu64
				   " are compressed without their base, version %" PRIu64 ": %s",
				   w->spec->version, version, kedge__error_text(&problem));
	} else if (depth > limit || kedge__base_reader_is_empty(*out)) {
		kedge__base_reader_give_back(w->base, *out);
		*out = NULL;
	}
	kedge__error_done(&problem);
}

/* ------------------------------------------------------------------ choosing codecs */

struct sampled { /* blocks of one subject */
	struct writer *w;
	size_t first;
};

/* It is packed already, or did not shrink. */
static void take_ready(struct writer *w, size_t i)
{
	const struct kedge__ready_block *ready = w->starts[i].ready;
	struct kedge__block_record *block = &w->blocks[i];
	const struct kedge__codec_plan *plan = &w->plans[w->starts[i].subject];
	struct kedge__gpu_how how;

	block->codec = KEDGE__CODEC_NONE;
	if (ready->stored < ready->raw && kedge__codec_there(&plan->choice, plan->subject.type, &how, &block->param))
		block->codec = plan->choice.codec->id;
	block->stored_bytes = ready->stored;
	w->stored[i] = ready->at;
}

/* BYTES of it from byte SKIP on, as they were. */
static int sample_ready(struct writer *w, size_t i, size_t skip, uint8_t *to, size_t bytes, struct kedge__error *err)
{
	const struct kedge__block_record *block = &w->blocks[i];
	uint8_t *raw = kedge__malloc(block->raw_bytes);
	int rc = raw ? 0 : kedge__error_nomem(err);

	take_ready(w, i);
	if (!rc)
		rc = kedge__block_unpack(block->codec, block->param, w->stored[i], block->stored_bytes, NULL, raw,
					 block->raw_bytes, err);
	if (!rc)
		memcpy(to, raw + skip, bytes);
	kedge__free(raw);
	return rc;
}

static int sample_raw(void *ctx, size_t i, size_t skip, uint8_t *to, const void **raw, size_t *bytes,
		      struct kedge__error *err)
{
	const struct sampled *s = ctx;
	struct writer *w = s->w;
	const uint8_t *there;

	skip = KEDGE__MIN(w->blocks[s->first + i].raw_bytes, skip);
	*bytes = KEDGE__MIN(w->blocks[s->first + i].raw_bytes - skip, *bytes);
	*raw = to;
	if (w->starts[s->first + i].ready)
		return sample_ready(w, s->first + i, skip, to, *bytes, err);
	there = block_in_place(w, s->first + i);
	*raw = there ? there + skip : to;
	return there || !*bytes ? 0 : gather(w, s->first + i, skip, to, *bytes, 0, err);
}

static bool sample_base_open(void *ctx)
{
	return base_open(((struct sampled *)ctx)->w);
}

/* Even if blocks of this version cannot be packed against these bytes: those of the next version may. */
static bool sample_base(void *ctx, size_t i, uint8_t *to, size_t bytes)
{
	const struct sampled *s = ctx;
	struct kedge__base_reader *reader;

	base_read(s->w, s->first + i, bytes, KEDGE__BASE_DEPTH, &reader);
	if (!reader)
		return false;
	memcpy(to, kedge__base_reader_bytes(reader), bytes);
	kedge__base_reader_give_back(s->w->base, reader);
	return true;
}

/* A class is one region to whoever chooses codecs; its number is beyond those of slots. */
static struct kedge__codec_region region_of(const struct writer *w, size_t subject, uint64_t bytes)
{
	const struct kedge__literal_class *c;
	struct kedge__codec_region region;

	if (subject < w->spec->region_count)
		return kedge__codec_region_of(&w->spec->regions[subject]);
	c = &w->spec->reduction->classes.at[subject - w->spec->region_count];
	region = (struct kedge__codec_region){
	    .name = c->name, .type = c->type, .bytes = bytes, .ndims = c->ndims, .dims = c->dims};
	region.id = KEDGE__SLOT_LIMIT +
		    (uint32_t)(kedge__checksum(c->name, strlen(c->name)) % (UINT32_MAX - KEDGE__SLOT_LIMIT));
	return region;
}

/* How COUNT blocks of a subject from FIRST on are packed; with ONLY, that they will be. */
static int plan_subject(struct writer *w, size_t first, size_t count, bool only, struct kedge__error *err)
{
	size_t index = w->starts[first].subject;
	struct kedge__codec_region region;
	struct sampled sampled = {w, first};
	struct kedge__codec_blocks blocks = {.ctx = &sampled,
					     .count = count,
					     .depends = w->spec->source_count,
					     .raw = sample_raw,
					     .base_open = w->spec->base.open ? sample_base_open : NULL,
					     .base = sample_base};

	for (size_t i = first; i < first + count; i++)
		blocks.bytes += w->blocks[i].raw_bytes;
	region = region_of(w, index, blocks.bytes);
	if (only) {
		kedge__codec_planner_expect(&w->planner, &region, &blocks);
		return 0;
	}
	blocks.joins = index >= w->spec->region_count && !w->starts[first].ready;
	if (w->starts[first].ready) {
		w->plans[index] = w->spec->plans[index];
		return kedge__codec_plan_follow(&w->planner, &region, &blocks, &w->plans[index], err);
	}
	return kedge__codec_plan_make(&w->planner, &region, &blocks, &w->plans[index], err);
}

static int each_subject(struct writer *w, bool only, struct kedge__error *err)
{
	int rc = 0;

	for (size_t first = 0, next; first < w->count && !rc; first = next) {
		for (next = first + 1; next < w->count && w->starts[next].subject == w->starts[first].subject;)
			next++;
		rc = plan_subject(w, first, next - first, only, err);
	}
	return rc;
}

static int plan_subjects(struct writer *w, struct kedge__error *err)
{
	int rc;

	if (!w->count)
		return 0;
	w->plans = kedge__calloc(w->subject_count, sizeof(*w->plans));
	if (!w->plans)
		return kedge__error_nomem(err);
	rc = kedge__codec_planner_init(&w->planner, &w->spec->codec, w->spec->memory, err);
	w->planner.pool = w->pool;
	if (!rc && w->planner.memory)
		rc = each_subject(w, true, err);
	if (!rc)
		rc = each_subject(w, false, err);
	kedge__codec_planner_done(&w->planner);
	return rc;
}

/* Blocks of a subject become larger ones, as its plan says. */
static void join_blocks(struct writer *w)
{
	size_t kept = 0, subject = SIZE_MAX, in = 0;

	for (size_t i = 0; i < w->count; i++) {
		in = w->starts[i].subject == subject ? in + 1 : 0;
		subject = w->starts[i].subject;
		if (w->plans[subject].joint && in % w->plans[subject].joint) {
			w->blocks[kept - 1].raw_bytes += w->blocks[i].raw_bytes;
			continue;
		}
		w->blocks[kept] = w->blocks[i];
		w->starts[kept++] = w->starts[i];
	}
	w->count = kept;
	for (size_t i = 0; i < w->count; i++)
		w->block_bytes = KEDGE__MAX(w->block_bytes, w->blocks[i].raw_bytes);
}

/* ------------------------------------------------------------------ collect */

/* The end of the group that begins with FIRST. */
static size_t group_end(const struct writer *w, size_t first, uint64_t *bytes)
{
	size_t i = first;

	*bytes = 0;
	while (i < w->count && (i == first || *bytes + w->blocks[i].raw_bytes <= w->group_bytes))
		*bytes += w->blocks[i++].raw_bytes;
	return i;
}

/* The bytes stay in place: the encoding thread gathers them, so that they are in its cache. */
static int collect_group(void *ctx, struct kedge__buffer *out, struct kedge__error *err)
{
	struct writer *w = ctx;
	uint64_t bytes;

	(void)err;
	if (w->next == w->count)
		return KEDGE__PIPELINE_END;
	out->tag = w->next;
	w->next = group_end(w, w->next, &bytes);
	out->bytes = (size_t)bytes;
	return 0;
}

/* ------------------------------------------------------------------ encode */

/* Block I, RAW, into PACKED. */
static int pack_block(struct writer *w, size_t i, const uint8_t *raw, uint8_t *packed, size_t *used,
		      struct kedge__error *err)
{
	struct kedge__block_record *block = &w->blocks[i];
	const struct kedge__codec_plan *plan = &w->plans[w->starts[i].subject];
	struct kedge__codec_input in = {.raw = raw, .bytes = block->raw_bytes, .type = plan->subject.type};
	struct kedge__base_reader *reader = NULL;
	int rc;

	if (kedge__codec_plan_wants_base(plan))
		base_read(w, i, block->raw_bytes, KEDGE__BASE_DEPTH - 1, &reader);
	if (reader)
		in.base = kedge__base_reader_bytes(reader);
	rc = kedge__block_pack(&plan->choice, &in, packed, used, &block->codec, &block->param, err);
	if (reader)
		kedge__base_reader_give_back(w->base, reader);
	return rc;
}

/* All of block I, where nobody can change it: in place, or copied to TO. It is not checked. */
static int get_block(const struct writer *w, size_t i, uint8_t *to, int worker, const uint8_t **raw,
		     struct kedge__error *err)
{
	*raw = block_in_place(w, i);
	if (*raw)
		return 0;
	*raw = to;
	return gather(w, i, 0, to, w->blocks[i].raw_bytes, worker, err);
}

static int check_part(const struct writer *w, size_t i, size_t at, const uint8_t *raw, size_t bytes,
		      struct kedge__error *err)
{
	const struct kedge__literal_source *source = w->spec->source;

	return source && source->check ? source->check(source->ctx, w->blocks[i].position + at, raw, bytes, err) : 0;
}

static uint8_t *sums_of(const struct writer *w, size_t i)
{
	return kedge__block_has_pages(&w->blocks[i]) ? w->sums + w->blocks[i].first_sum * KEDGE__SUM_BYTES : NULL;
}

static void sum_block(struct writer *w, size_t i)
{
	w->blocks[i].checksum = kedge__block_checksum(&w->blocks[i], w->stored[i], sums_of(w, i));
}

/* Block I, RAW, is stored as it is: checked and summed in one pass. Steps are of whole pages, and units of the source.
 */
static int check_and_sum(struct writer *w, size_t i, const uint8_t *raw, struct kedge__error *err)
{
	struct kedge__block_record *block = &w->blocks[i];
	size_t unit = w->spec->source ? w->spec->source->unit : 0;
	size_t step = unit > STEP_BYTES || STEP_BYTES % KEDGE__MAX(unit, 1) ? block->raw_bytes : STEP_BYTES;
	uint8_t *sums = sums_of(w, i);
	int rc = 0;

	for (size_t at = 0, n; at < block->raw_bytes && !rc; at += n) {
		n = KEDGE__MIN(step, block->raw_bytes - at);
		rc = check_part(w, i, at, raw + at, n, err);
		if (sums)
			(void)kedge__sums_make(raw + at, n, sums + at / KEDGE__BLOCK_PAGE * KEDGE__SUM_BYTES);
	}
	block->checksum = sums ? kedge__checksum(sums, kedge__pages_of(block->raw_bytes) * KEDGE__SUM_BYTES)
			       : kedge__checksum(raw, block->raw_bytes);
	return rc;
}

/* Encode block I into PACKED, through GATHERED if it is in pieces; or leave it in place, unchanged. */
static int encode_block(struct writer *w, size_t i, uint8_t *gathered, uint8_t *packed, int worker,
			struct kedge__error *err)
{
	struct kedge__block_record *block = &w->blocks[i];
	bool encodes = kedge__codec_plan_packs(&w->plans[w->starts[i].subject]);
	const uint8_t *raw;
	size_t used = block->raw_bytes;
	int rc;

	if (w->starts[i].ready) {
		take_ready(w, i);
		sum_block(w, i);
		return 0;
	}
	rc = get_block(w, i, encodes ? gathered : packed, worker, &raw, err);
	block->codec = KEDGE__CODEC_NONE;
	block->stored_bytes = block->raw_bytes;
	w->stored[i] = encodes ? packed : raw;
	if (!rc && !encodes)
		return check_and_sum(w, i, raw, err);
	if (!rc)
		rc = check_part(w, i, 0, raw, block->raw_bytes, err);
	if (!rc)
		rc = pack_block(w, i, raw, packed, &used, err);
	if (rc)
		return rc;
	block->stored_bytes = (uint32_t)used;
	sum_block(w, i);
	return 0;
}

/* Encoded blocks are contiguous, so that a group is one write. */
static int encode_group(void *ctx, int worker, struct kedge__buffer *in, struct kedge__buffer *out,
			struct kedge__error *err)
{
	struct writer *w = ctx;
	uint64_t bytes;
	size_t first = (size_t)in->tag, last = group_end(w, first, &bytes);
	size_t filled = 0;
	int rc;

	for (size_t i = first; i < last; i++) {
		rc = encode_block(w, i, in->data, out->data + filled, worker, err);
		if (rc)
			return rc;
		out->bytes += w->blocks[i].stored_bytes;
		if (w->stored[i] == out->data + filled)
			filled += w->blocks[i].stored_bytes;
	}
	return 0;
}

/* ------------------------------------------------------------------ append */

static int runs_end(struct writer *w, struct kedge__error *err)
{
	size_t count = w->run_count;

	w->run_count = w->run_bytes = 0;
	return count ? kedge__segment_file_append_pieces(w->file, w->runs, count, err) : 0;
}

static int run_add(struct writer *w, const uint8_t *at, size_t bytes, struct kedge__error *err)
{
	struct iovec *last = w->run_count ? &w->runs[w->run_count - 1] : NULL;
	bool goes_on = last && (const uint8_t *)last->iov_base + last->iov_len == at;
	int rc = 0;

	if (w->run_bytes >= (goes_on ? RUN_BYTES : w->file->at_once) ||
	    (!goes_on && w->run_count == KEDGE__SEGMENT_PIECES)) {
		rc = runs_end(w, err);
		goes_on = false;
	}
	if (goes_on)
		last->iov_len += bytes;
	else
		w->runs[w->run_count++] = (struct iovec){(void *)(uintptr_t)at, bytes};
	w->run_bytes += bytes;
	return rc;
}

static bool runs_need(const struct writer *w, const struct kedge__buffer *in)
{
	for (size_t i = 0; i < w->run_count; i++) {
		const uint8_t *at = w->runs[i].iov_base;

		if (at >= in->data && at < in->data + in->room)
			return true;
	}
	return false;
}

/* After the last block before LAST. */
static void tell(struct writer *w, size_t last)
{
	uint64_t written = w->blocks[last - 1].position + w->blocks[last - 1].raw_bytes;

	if (last < w->count && written - w->told < TELL_BYTES)
		return;
	w->told = written;
	kedge__companion_announce(w->spec->companion, w->file, w->blocks, last);
	if (w->spec->progress)
		w->spec->progress(w->spec->progress_ctx, written);
}

/* What a thread that is alone made last is in its cache. Otherwise a run in the application's memory may continue in
 * the next group. One in the buffer may not, because the buffer is reused; but two groups are written at once, so that
 * the page cache has the largest pieces for them, and the buffer of the first is held for that. */
static int append_group(void *ctx, const struct kedge__buffer *in, struct kedge__error *err)
{
	struct writer *w = ctx;
	uint64_t bytes;
	size_t first = (size_t)in->tag, last = group_end(w, first, &bytes);
	bool may_hold = w->holds && !w->held && last < w->count;
	int rc = 0;

	for (size_t i = first; i < last && !rc; i++)
		rc = run_add(w, w->stored[i], w->blocks[i].stored_bytes, err);
	if (rc)
		return rc;
	w->held = may_hold && runs_need(w, in) && w->run_bytes < w->file->at_once;
	if (w->held)
		return KEDGE__PIPELINE_HOLD;
	if (!may_hold || runs_need(w, in))
		rc = runs_end(w, err);
	if (!rc)
		tell(w, last);
	return rc;
}

/* ------------------------------------------------------------------ all of it */

/* Room for the checksums of all pages, as if no codec were used. */
static int number_pages(struct writer *w, struct kedge__error *err)
{
	for (size_t i = 0; i < w->count; i++) {
		size_t pages = kedge__pages_of(w->blocks[i].raw_bytes);

		w->blocks[i].first_sum = KEDGE__NO_SUMS;
		if (pages < 2)
			continue;
		if (w->sum_count >= KEDGE__NO_SUMS - pages)
			return kedge__error_set(err, KEDGE_E_LIMIT, 0, "too many pages for one segment");
		w->blocks[i].first_sum = (uint32_t)w->sum_count;
		w->sum_count += pages;
	}
	w->sums = w->sum_count ? kedge__malloc(w->sum_count * KEDGE__SUM_BYTES) : NULL;
	return w->sum_count && !w->sums ? kedge__error_nomem(err) : 0;
}

static int prepare(struct writer *w, struct kedge__error *err)
{
	int rc;

	rc = cut(w, err);
	if (!rc)
		rc = match_ready(w, err);
	if (rc || !w->count)
		return rc;
	w->stored = kedge__calloc(w->count, sizeof(*w->stored));
	rc = w->stored ? plan_subjects(w, err) : kedge__error_nomem(err);
	if (rc)
		return rc;
	join_blocks(w);
	return number_pages(w, err);
}

static uint64_t literal_bytes(const struct writer *w)
{
	return w->count ? w->blocks[w->count - 1].position + w->blocks[w->count - 1].raw_bytes : 0;
}

/* The most that is worked on at once. */
static uint64_t group_most(const struct writer *w)
{
	uint64_t most = kedge__io_buffer(&w->spec->io);

	for (size_t i = 0; i < w->subject_count; i++)
		if (kedge__codec_plan_packs(&w->plans[i]))
			return most;
	return w->alone ? KEDGE__MIN(most, CACHED_GROUP) : most;
}

/* Small data is spread over the threads, too; a single group needs no other thread. */
static int run_pipeline(struct writer *w, struct kedge__pipeline_stats *stats, struct kedge__error *err)
{
	struct kedge__pool *pool = w->pool;
	size_t threads = (size_t)kedge__pool_threads(pool);
	uint64_t share = literal_bytes(w) / (4 * threads);
	struct kedge__pipeline_spec spec = {.collect = collect_group,
					    .transform = encode_group,
					    .store = append_group,
					    .ctx = w,
					    .queue = w->spec->io.queue};
	uint64_t bytes;
	const struct kedge__literal_source *source = w->spec->source;
	int rc;

	w->alone = threads == 1;
	w->group_bytes = KEDGE__MIN(KEDGE__MAX(share, LEAST_GROUP), group_most(w));
	spec.buffer_bytes = (size_t)KEDGE__MAX(w->group_bytes, w->block_bytes);
	if (group_end(w, 0, &bytes) == w->count)
		pool = NULL;
	spec.store_apart = pool && threads > 1;
	w->holds = spec.store_apart && spec.queue != 1;
	rc = kedge__pipeline_run(pool, &spec, stats, err);
	return !rc && source && source->end ? source->end(source->ctx, err) : rc;
}

/* ------------------------------------------------------------------ the result */

static void remember(const struct writer *w)
{
	for (size_t i = 0; i < w->count; i++)
		kedge__codec_plan_count(&w->plans[w->starts[i].subject], w->blocks[i].codec, w->blocks[i].param,
					w->blocks[i].raw_bytes, w->blocks[i].stored_bytes);
	for (size_t i = 0; w->count && i < w->subject_count; i++)
		kedge__codec_plan_learn(&w->planner, &w->plans[i]);
}

static void tell_plan(const struct kedge__codec_plan *p, struct kedge__packing_record *r)
{
	*r = (struct kedge__packing_record){.reason = (uint32_t)p->why.reason,
					    .age = p->why.age,
					    .size = p->why.size,
					    .encode = p->why.encode,
					    .storage = p->why.storage,
					    .target = p->why.target};
	kedge__codec_choice_describe(&p->choice, r->name);
}

static int tell_packing(const struct writer *w, struct kedge__written_blocks *out, struct kedge__error *err)
{
	if (!w->count || !kedge__codec_choice_packs(&w->spec->codec))
		return 0;
	out->packing = kedge__calloc(w->spec->region_count, sizeof(*out->packing));
	if (!out->packing)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < w->spec->region_count; i++) {
		struct kedge__packing_record *r = &out->packing[out->packing_count];

		if (!w->plans[i].made)
			continue;
		out->packing_count++;
		tell_plan(&w->plans[i], r);
		r->region = (uint32_t)i;
	}
	return 0;
}

static int tell_class(const struct kedge__literal_class *c, const struct kedge__codec_plan *plan,
		      struct kedge__class_record *r, struct kedge__error *err)
{
	r->name = kedge__strdup(c->name);
	if (!r->name)
		return kedge__error_nomem(err);
	r->type = (uint32_t)c->type;
	r->ndims = (uint32_t)c->ndims;
	memcpy(r->dims, c->dims, sizeof(r->dims));
	r->pieces = c->pieces;
	if (plan->made) /* else nothing of the class is new, and there was nothing to choose for */
		tell_plan(plan, &r->packing);
	return 0;
}

static int tell_classes(const struct writer *w, struct kedge__written_blocks *out, struct kedge__error *err)
{
	const struct kedge__literal_classes *from = &w->spec->reduction->classes;
	struct kedge__classes_record *to = &out->classes;
	size_t first = w->spec->region_count;
	int rc = 0;

	if (!from->count || !w->count)
		return 0;
	*to = (struct kedge__classes_record){
	    .scheme = from->scheme, .block = from->block, .reason = from->reason, .age = from->age};
	memcpy(to->sizes, from->sizes, sizeof(to->sizes));
	to->at = kedge__calloc(from->count, sizeof(*to->at));
	if (!to->at)
		return kedge__error_nomem(err);
	for (; to->count < from->count && !rc; to->count++)
		rc = tell_class(&from->at[to->count], &w->plans[first + to->count], &to->at[to->count], err);
	for (size_t i = 0; i < w->count && !rc; i++)
		if (w->starts[i].subject >= first)
			to->at[w->starts[i].subject - first].blocks++;
	return rc;
}

/* Of those blocks that no codec touched. */
static void tell_sums(struct writer *w, struct kedge__written_blocks *out)
{
	size_t kept = 0;

	for (size_t i = 0; w->sums && i < w->count; i++) {
		size_t bytes = kedge__pages_of(w->blocks[i].raw_bytes) * KEDGE__SUM_BYTES;

		if (w->blocks[i].codec != KEDGE__CODEC_NONE || !kedge__block_has_pages(&w->blocks[i]))
			continue;
		memmove(w->sums + kept, w->sums + w->blocks[i].first_sum * KEDGE__SUM_BYTES, bytes);
		kept += bytes;
	}
	out->sums = (struct kedge__bytes){w->sums, kept, w->sum_count * KEDGE__SUM_BYTES};
	w->sums = NULL;
}

static void tell_base(const struct writer *w, struct kedge__written_blocks *out)
{
	out->base.version = KEDGE__NO_VERSION;
	for (size_t i = 0; w->base && i < w->count; i++) {
		if (!kedge__codec_needs_base(w->blocks[i].codec, w->blocks[i].param))
			continue;
		out->base = (struct kedge__source_record){kedge__lineage_top(w->base)->header.version,
							  kedge__lineage_top(w->base)->summary.image_id};
		return;
	}
}

void kedge__written_blocks_done(struct kedge__written_blocks *out)
{
	kedge__free(out->blocks);
	kedge__free(out->packing);
	kedge__classes_done(&out->classes);
	kedge__bytes_done(&out->sums);
	*out = (struct kedge__written_blocks){0};
}

int kedge__block_writer_run(struct kedge__segment_file *file, struct kedge__pool *pool,
			    const struct kedge__segment_spec *spec, struct kedge__written_blocks *out,
			    struct kedge__pipeline_stats *stats, struct kedge__error *err)
{
	struct writer w = {.spec = spec, .literals = &spec->reduction->literals, .pool = pool, .file = file};
	struct kedge__written_blocks got = {0};
	int rc;

	if (!spec->block_bytes || spec->block_bytes > KEDGE__BLOCK_RAW_MAX)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "blocks of %" PRIu32 " bytes: must be 1 to %" PRIu32,
					spec->block_bytes, KEDGE__BLOCK_RAW_MAX);
	rc = prepare(&w, err);
	if (!rc && w.count)
		rc = run_pipeline(&w, stats, err);
	if (!rc)
		rc = tell_packing(&w, &got, err);
	if (!rc)
		rc = tell_classes(&w, &got, err);
	got.blocks = w.blocks;
	got.count = w.count;
	tell_sums(&w, &got);
	tell_base(&w, &got);
	if (!rc)
		remember(&w);
	kedge__free(w.stored);
	kedge__free(w.plans);
	kedge__free(w.starts);
	kedge__literal_places_done(&w.places);
	kedge__lineage_close(w.base);
	if (rc) {
		kedge__companion_end(spec->companion, &got.blocks, 0, 0);
		kedge__written_blocks_done(&got);
	} else {
		*out = got;
	}
	return rc;
}
