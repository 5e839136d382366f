/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live bytes of a version, from all versions that it needs, as one map with new literals. Bytes of an older literal
 * that appear in several places are stored once, and the other places copy from there.
 */
#include "store/internal.h"

#define CACHE_BYTES (UINT32_C(16) << 20) /* a worker */

struct kedge__merge {
	uint64_t self;
	struct kedge__span_list spans, outer;
	struct kedge__span_list owners;    /* the address at which the new segment has a piece of an older literal */
	struct kedge__merge_pieces pieces; /* ascending position, gapless */
	struct kedge__reduction red;
	KEDGE__ARRAY(struct kedge__source_record) sources;
	struct kedge__lineage *lineage, *parent;   /* PARENT: what was subtracted, or NULL */
	struct kedge__source_record parent_source; /* the same; KEDGE__NO_VERSION: nothing */
	struct kedge__block_cache **caches;        /* one per worker */
	size_t workers;
};

/* ------------------------------------------------------------------ the map */

static int append(struct kedge__merge *m, struct kedge__extent e, struct kedge__error *err)
{
	return kedge__extent_tape_append(&m->red.map, e, true, err);
}

static int append_literal(struct kedge__merge *m, uint64_t addr, uint64_t version, uint64_t src, uint64_t len,
			  struct kedge__error *err)
{
	uint64_t position = m->red.literal_bytes;

	if (!kedge__array_push(&m->pieces, ((struct kedge__merge_piece){position, version, src, len})))
		return kedge__error_nomem(err);
	m->red.literal_bytes += len;
	return append(
	    m, (struct kedge__extent){.addr = addr, .len = len, .src = position, .kind = KEDGE__EXTENT_LITERAL}, err);
}

/* A fill starts at a multiple of eight; bytes before that become a literal. */
static int append_fill(struct kedge__merge *m, const struct kedge__span *s, struct kedge__error *err)
{
	uint64_t head = KEDGE__MIN((8 - (s->addr & 7)) & 7, s->len);
	int rc = 0;

	if (head)
		rc = append_literal(m, s->addr, KEDGE__NO_VERSION, s->src >> (8 * (s->addr & 7)), head, err);
	if (rc || head == s->len)
		return rc;
	return append(m,
		      (struct kedge__extent){
			  .addr = s->addr + head, .len = s->len - head, .src = s->src, .kind = KEDGE__EXTENT_FILL},
		      err);
}

static int append_span(struct kedge__merge *m, const struct kedge__span *s, struct kedge__error *err)
{
	uint64_t done = 0;
	int rc = 0;

	if (s->fill)
		return append_fill(m, s, err);
	for (size_t i = kedge__span_owner_index(&m->owners, s->version, s->src); done < s->len && !rc; i++) {
		const struct kedge__span *o = &m->owners.at[i];
		uint64_t src = s->src + done, addr = s->addr + done;
		uint64_t len = KEDGE__MIN(o->src + o->len - src, s->len - done);
		uint64_t home = o->addr + (src - o->src);

		if (home == addr)
			rc = append_literal(m, addr, s->version, src, len, err);
		else
			rc = append(m, (struct kedge__extent){addr, len, home, m->self, KEDGE__EXTENT_COPY}, err);
		done += len;
	}
	return rc;
}

static int append_outer(struct kedge__merge *m, const struct kedge__span *s, struct kedge__error *err)
{
	if (s->version == m->red.parent && s->src == s->addr)
		return append(m, (struct kedge__extent){.addr = s->addr, .len = s->len, .kind = KEDGE__EXTENT_PARENT},
			      err);
	return append(m, (struct kedge__extent){s->addr, s->len, s->src, s->version, KEDGE__EXTENT_COPY}, err);
}

/* The newest version to which a place with the same address refers can be the parent. */
static uint64_t choose_parent(const struct kedge__span_list *outer)
{
	uint64_t parent = KEDGE__NO_VERSION;

	for (size_t i = 0; i < outer->count; i++)
		if (outer->at[i].src == outer->at[i].addr &&
		    (parent == KEDGE__NO_VERSION || outer->at[i].version > parent))
			parent = outer->at[i].version;
	return parent;
}

/* Spans and outer references, both ascending, together cover the image. */
static int build_map(struct kedge__merge *m, struct kedge__error *err)
{
	size_t i = 0, k = 0;
	int rc;

	m->red.parent = choose_parent(&m->outer);
	rc = kedge__span_owners(&m->spans, &m->owners, err);
	while (!rc && (i < m->spans.count || k < m->outer.count)) {
		if (k == m->outer.count || (i < m->spans.count && m->spans.at[i].addr < m->outer.at[k].addr))
			rc = append_span(m, &m->spans.at[i++], err);
		else
			rc = append_outer(m, &m->outer.at[k++], err);
	}
	return rc;
}

/* ------------------------------------------------------------------ literals and sources */

static size_t region_index(const struct kedge__segment *seg, uint64_t addr)
{
	size_t i;

	KEDGE__LAST_BEFORE(i, seg->region_count, seg->regions[i].slot <= addr >> KEDGE__SLOT_SHIFT);
	return i;
}

/* One literal per region, without data: kedge__merge_fill() provides the bytes. */
static int list_literals(struct kedge__merge *m, const struct kedge__segment *top, struct kedge__error *err)
{
	struct kedge__literal_list *list = &m->red.literals;
	struct kedge__extent_reader r = kedge__extents_of_tape(&m->red.map);
	struct kedge__extent e;

	while (kedge__extent_next(&r, &e)) {
		uint32_t region;

		if (e.kind != KEDGE__EXTENT_LITERAL)
			continue;
		region = (uint32_t)region_index(top, e.addr);
		if (list->count && list->at[list->count - 1].region == region)
			list->at[list->count - 1].bytes += e.len;
		else if (!kedge__array_push(list, ((struct kedge__literal){NULL, e.len, region, 0})))
			return kedge__error_nomem(err);
	}
	return 0;
}

static const struct kedge__source_record *find_source(const struct kedge__lineage *l, uint64_t version)
{
	for (size_t i = 0; i < kedge__lineage_count(l); i++) {
		const struct kedge__segment *seg = kedge__lineage_at(l, i);

		for (size_t k = 0; k < seg->source_count; k++)
			if (seg->sources[k].version == version)
				return &seg->sources[k];
	}
	return NULL;
}

static int add_source(struct kedge__merge *m, const struct kedge__lineage *l, uint64_t version,
		      struct kedge__error *err)
{
	const struct kedge__source_record *source;
	size_t at = 0;

	while (at < m->sources.count && m->sources.at[at].version < version)
		at++;
	if (at < m->sources.count && m->sources.at[at].version == version)
		return 0;
	source = version == m->parent_source.version ? &m->parent_source : find_source(l, version);
	if (!source)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"%s refers to version %" PRIu64 ", which is not in its lineage section",
					kedge__lineage_top(l)->path, version);
	if (!kedge__array_reserve(&m->sources, m->sources.count + 1))
		return kedge__error_nomem(err);
	memmove(m->sources.at + at + 1, m->sources.at + at, (m->sources.count - at) * sizeof(*m->sources.at));
	m->sources.at[at] = *source;
	m->sources.count++;
	return 0;
}

/* ------------------------------------------------------------------ the bytes */

static size_t piece_index(const struct kedge__merge *m, uint64_t position)
{
	size_t i;

	KEDGE__LAST_BEFORE(i, m->pieces.count, m->pieces.at[i].position <= position);
	return i;
}

static int piece_read(const struct kedge__merge *m, int worker, const struct kedge__merge_piece *p, uint64_t skip,
		      void *buf, size_t len, struct kedge__error *err)
{
	if (p->version == KEDGE__NO_VERSION) {
		kedge__fill_pattern(p->src, skip, buf, len);
		return 0;
	}
	return kedge__block_cache_read(m->caches[worker], kedge__lineage_segment(m->lineage, p->version), p->src + skip,
				       buf, len, err);
}

int kedge__merge_fill(void *ctx, int worker, uint64_t position, void *buf, size_t len, struct kedge__error *err)
{
	const struct kedge__merge *m = ctx;
	uint8_t *to = buf;
	int rc;

	for (size_t i = piece_index(m, position); len; i++) {
		const struct kedge__merge_piece *p = &m->pieces.at[i];
		uint64_t skip = position - p->position;
		size_t n = (size_t)KEDGE__MIN(p->len - skip, len);

		rc = piece_read(m, worker, p, skip, to, n, err);
		if (rc)
			return rc;
		to += n;
		position += n;
		len -= n;
	}
	return 0;
}

/* ------------------------------------------------------------------ new and free */

static int merge_build(struct kedge__merge *m, struct kedge__lineage *l, uint64_t stop_below,
		       struct kedge__lineage *parent, struct kedge__error *err)
{
	int rc;

	rc = kedge__lineage_resolve_from(l, stop_below, &m->spans, &m->outer, err);
	if (!rc && parent)
		rc = kedge__spans_subtract(l, parent, &m->spans, &m->outer, err);
	if (!rc)
		rc = build_map(m, err);
	if (!rc)
		rc = list_literals(m, kedge__lineage_top(l), err);
	if (!rc)
		rc = kedge__merge_classes(l, &m->pieces, &m->red, err);
	for (size_t i = 0; i < m->outer.count && !rc; i++)
		rc = add_source(m, l, m->outer.at[i].version, err);
	for (size_t i = 0; i < m->workers && !rc; i++)
		rc = kedge__block_cache_new(CACHE_BYTES, l, 0, &m->caches[i], err);
	return rc;
}

int kedge__merge_new(struct kedge__lineage *l, uint64_t stop_below, struct kedge__lineage *parent, size_t workers,
		     struct kedge__merge **out, struct kedge__error *err)
{
	struct kedge__merge *m = kedge__calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return kedge__error_nomem(err);
	m->self = m->red.version = kedge__lineage_top(l)->header.version;
	m->red.reducer = KEDGE__REDUCER_MERGED;
	m->lineage = l;
	m->parent = parent;
	m->parent_source.version = KEDGE__NO_VERSION;
	if (parent)
		m->parent_source = (struct kedge__source_record){kedge__lineage_top(parent)->header.version,
								 kedge__lineage_top(parent)->summary.image_id};
	m->workers = workers;
	m->caches = kedge__calloc(workers, sizeof(*m->caches));
	rc = m->caches ? merge_build(m, l, stop_below, parent, err) : kedge__error_nomem(err);
	if (rc) {
		kedge__merge_free(m);
		return rc;
	}
	*out = m;
	return 0;
}

void kedge__merge_free(struct kedge__merge *m)
{
	if (!m)
		return;
	for (size_t i = 0; m->caches && i < m->workers; i++)
		kedge__block_cache_free(m->caches[i]);
	kedge__free(m->caches);
	kedge__span_list_done(&m->spans);
	kedge__span_list_done(&m->outer);
	kedge__array_done(&m->owners);
	kedge__array_done(&m->pieces);
	kedge__array_done(&m->sources);
	kedge__reduction_done(&m->red);
	kedge__free(m);
}

const struct kedge__segment *kedge__merge_top(const struct kedge__merge *m)
{
	return kedge__lineage_top(m->lineage);
}

const struct kedge__reduction *kedge__merge_reduction(const struct kedge__merge *m)
{
	return &m->red;
}

const struct kedge__source_record *kedge__merge_sources(const struct kedge__merge *m, size_t *count)
{
	*count = m->sources.count;
	return m->sources.at;
}

int kedge__merge_write(struct kedge__merge *m, const struct kedge__merge_target *target, struct kedge__set_part *part,
		       struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(m->lineage);
	const struct kedge__literal_source source = {.fill = kedge__merge_fill, .ctx = m};
	struct kedge__catalog *there = target->aside ? target->aside : target->to;
	struct kedge__segment_spec spec = {.name = target->to->name,
					   .version = top->header.version,
					   .rank = top->header.rank,
					   .ranks = top->header.ranks,
					   .next_slot = top->summary.next_slot,
					   .regions = top->regions,
					   .region_count = top->region_count,
					   .reduction = &m->red,
					   .source = &source,
					   .created_ns = top->header.created_ns,
					   .sources = m->sources.at,
					   .source_count = m->sources.count,
					   .codec = target->codec,
					   .block_bytes = target->block_bytes,
					   .sync = target->sync,
					   .io = target->io,
					   .bucket = target->bucket,
					   .progress = target->progress,
					   .progress_ctx = target->progress_ctx,
					   .home = target->to};
	const struct kedge__proof proof = {m, target->lineage ? target->lineage : m->lineage, m->parent, target->pool};
	int rc;

	if (target->berth) {
		spec.generation = target->berth->generation;
		spec.bundle = target->berth->bundle;
		spec.start = target->berth->start;
	}
	rc = kedge__prove_merge(&proof, err);
	if (!rc && !target->berth)
		rc = kedge__catalog_next_generation(there, spec.version, spec.rank, &spec.generation, err);
	if (!rc)
		rc = kedge__segment_write(there, target->pool, &spec, part, NULL, err);
	return rc;
}
