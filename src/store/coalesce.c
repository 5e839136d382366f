/*
 * Coalescing is resolution written back: a version gets a segment of the next generation that holds what was alive in
 * the versions it needed, and the manifest that names it is published. The image stays what it was, byte for byte and
 * by its id, so versions that refer to it need not know.
 */
#include "store/internal.h"

#include <stdlib.h>

#define CACHE_BYTES (UINT32_C(16) << 20) /* a worker */

/* ------------------------------------------------------------------ the merged map
 * Bytes that one older literal gave to several places are stored once: at the lowest of the addresses; the other places
 * copy from there. */

struct owner { /* a piece of an older literal, and the address at which the new segment has it as a literal */
	uint64_t version, src, len, addr;
};

struct piece { /* of the new literal space; without a version it is the first LEN bytes of the pattern SRC */
	uint64_t position, version, src, len;
};

struct merge {
	uint64_t self;
	struct kedge__span_list spans, outer;
	KEDGE__ARRAY(struct owner) owners; /* ascending (version, src), disjoint */
	KEDGE__ARRAY(struct piece) pieces; /* ascending position, gapless */
	struct kedge__reduction red;
	KEDGE__ARRAY(struct kedge__source_record) sources;
};

static void merge_done(struct merge *m)
{
	kedge__span_list_done(&m->spans);
	kedge__span_list_done(&m->outer);
	kedge__array_done(&m->owners);
	kedge__array_done(&m->pieces);
	kedge__array_done(&m->sources);
	kedge__reduction_done(&m->red);
}

static int compare_spans(const void *a, const void *b)
{
	const struct kedge__span *x = *(struct kedge__span *const *)a, *y = *(struct kedge__span *const *)b;

	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	if (x->src != y->src)
		return x->src < y->src ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Walk the spans by source: what no span before has covered becomes the span's own. */
static int find_owners(struct merge *m, struct kedge__error *err)
{
	const struct kedge__span **order = kedge__calloc(m->spans.count + 1, sizeof(*order));
	uint64_t version = 0, covered = 0;
	size_t n = 0;
	int rc = 0;

	if (!order)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < m->spans.count; i++)
		if (!m->spans.at[i].fill)
			order[n++] = &m->spans.at[i];
	qsort(order, n, sizeof(*order), compare_spans);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__span *s = order[i];
		uint64_t skip = 0;

		if (i && s->version == version && covered > s->src)
			skip = KEDGE__MIN(covered - s->src, s->len);
		if (skip == s->len)
			continue;
		version = s->version;
		covered = s->src + s->len;
		if (!kedge__array_push(&m->owners,
				       ((struct owner){s->version, s->src + skip, s->len - skip, s->addr + skip})))
			rc = kedge__error_nomem(err);
	}
	kedge__free(order);
	return rc;
}

/* Index of the owner that has byte SRC of VERSION; there always is one. */
static size_t owner_index(const struct merge *m, uint64_t version, uint64_t src)
{
	size_t low = 0, high = m->owners.count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		const struct owner *o = &m->owners.at[middle];

		if (o->version < version || (o->version == version && o->src <= src))
			low = middle;
		else
			high = middle;
	}
	return low;
}

static int append(struct merge *m, struct kedge__extent e, struct kedge__error *err)
{
	return kedge__extent_map_append(&m->red.map, e, true, err);
}

static int append_literal(struct merge *m, uint64_t addr, uint64_t version, uint64_t src, uint64_t len,
			  struct kedge__error *err)
{
	uint64_t position = m->red.literal_bytes;

	if (!kedge__array_push(&m->pieces, ((struct piece){position, version, src, len})))
		return kedge__error_nomem(err);
	m->red.literal_bytes += len;
	return append(
	    m, (struct kedge__extent){.addr = addr, .len = len, .src = position, .kind = KEDGE__EXTENT_LITERAL}, err);
}

/* A fill starts at a multiple of eight; what stands before that is a literal. */
static int append_fill(struct merge *m, const struct kedge__span *s, struct kedge__error *err)
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

static int append_span(struct merge *m, const struct kedge__span *s, struct kedge__error *err)
{
	uint64_t done = 0;
	int rc = 0;

	if (s->fill)
		return append_fill(m, s, err);
	for (size_t i = owner_index(m, s->version, s->src); done < s->len && !rc; i++) {
		const struct owner *o = &m->owners.at[i];
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

static int append_outer(struct merge *m, const struct kedge__span *s, struct kedge__error *err)
{
	if (s->version == m->red.parent && s->src == s->addr)
		return append(m, (struct kedge__extent){.addr = s->addr, .len = s->len, .kind = KEDGE__EXTENT_PARENT},
			      err);
	return append(m, (struct kedge__extent){s->addr, s->len, s->src, s->version, KEDGE__EXTENT_COPY}, err);
}

/* The newest version that is referred to by a place of the same address can be the parent. */
static uint64_t choose_parent(const struct kedge__span_list *outer)
{
	uint64_t parent = KEDGE__NO_VERSION;

	for (size_t i = 0; i < outer->count; i++)
		if (outer->at[i].src == outer->at[i].addr &&
		    (parent == KEDGE__NO_VERSION || outer->at[i].version > parent))
			parent = outer->at[i].version;
	return parent;
}

/* Spans and outer references, both ascending, are the whole image between them. */
static int build_map(struct merge *m, struct kedge__error *err)
{
	size_t i = 0, k = 0;
	int rc;

	m->red.parent = choose_parent(&m->outer);
	rc = find_owners(m, err);
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
	size_t low = 0, high = seg->region_count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (seg->regions[middle].slot <= addr >> KEDGE__SLOT_SHIFT)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* One literal a region, without data: the bytes come by merge_fill(). */
static int list_literals(struct merge *m, const struct kedge__segment *top, struct kedge__error *err)
{
	struct kedge__literal_list *list = &m->red.literals;

	for (size_t i = 0; i < m->red.map.count; i++) {
		const struct kedge__extent *e = &m->red.map.at[i];
		uint32_t region;

		if (e->kind != KEDGE__EXTENT_LITERAL)
			continue;
		region = (uint32_t)region_index(top, e->addr);
		if (list->count && list->at[list->count - 1].region == region)
			list->at[list->count - 1].bytes += e->len;
		else if (!kedge__array_push(list, ((struct kedge__literal){NULL, e->len, region})))
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

static int add_source(struct merge *m, const struct kedge__lineage *l, uint64_t version, struct kedge__error *err)
{
	const struct kedge__source_record *source;
	size_t at = 0;

	while (at < m->sources.count && m->sources.at[at].version < version)
		at++;
	if (at < m->sources.count && m->sources.at[at].version == version)
		return 0;
	source = find_source(l, version);
	if (!source)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"%s refers to version %" PRIu64 ", but does not name it",
					kedge__lineage_top(l)->path, version);
	if (!kedge__array_reserve(&m->sources, m->sources.count + 1))
		return kedge__error_nomem(err);
	memmove(m->sources.at + at + 1, m->sources.at + at, (m->sources.count - at) * sizeof(*m->sources.at));
	m->sources.at[at] = *source;
	m->sources.count++;
	return 0;
}

static int merge_init(struct merge *m, struct kedge__lineage *l, uint64_t stop_below, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	int rc;

	*m = (struct merge){.self = top->header.version};
	m->red.reducer = KEDGE__REDUCER_MERGED;
	m->red.version = m->self;
	rc = kedge__lineage_resolve_from(l, stop_below, &m->spans, &m->outer, err);
	if (!rc)
		rc = build_map(m, err);
	if (!rc)
		rc = list_literals(m, top, err);
	for (size_t i = 0; i < m->outer.count && !rc; i++)
		rc = add_source(m, l, m->outer.at[i].version, err);
	if (rc)
		merge_done(m);
	return rc;
}

/* ------------------------------------------------------------------ one rank */

struct filler {
	const struct merge *merge;
	const struct kedge__lineage *lineage;
	struct kedge__block_cache **caches; /* one a worker */
	size_t count;
};

static size_t piece_index(const struct merge *m, uint64_t position)
{
	size_t low = 0, high = m->pieces.count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (m->pieces.at[middle].position <= position)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static int piece_read(const struct filler *f, int worker, const struct piece *p, uint64_t skip, void *buf, size_t len,
		      struct kedge__error *err)
{
	if (p->version == KEDGE__NO_VERSION) {
		kedge__fill_pattern(p->src, skip, buf, len);
		return 0;
	}
	return kedge__block_cache_read(f->caches[worker], kedge__lineage_segment(f->lineage, p->version), p->src + skip,
				       buf, len, err);
}

static int merge_fill(void *ctx, int worker, uint64_t position, void *buf, size_t len, struct kedge__error *err)
{
	const struct filler *f = ctx;
	uint8_t *to = buf;
	int rc;

	for (size_t i = piece_index(f->merge, position); len; i++) {
		const struct piece *p = &f->merge->pieces.at[i];
		uint64_t skip = position - p->position;
		size_t n = (size_t)KEDGE__MIN(p->len - skip, len);

		rc = piece_read(f, worker, p, skip, to, n, err);
		if (rc)
			return rc;
		to += n;
		position += n;
		len -= n;
	}
	return 0;
}

static void filler_done(struct filler *f)
{
	for (size_t i = 0; i < f->count; i++)
		kedge__block_cache_free(f->caches[i]);
	kedge__free(f->caches);
}

static int filler_init(struct filler *f, const struct merge *m, const struct kedge__lineage *l,
		       struct kedge__pool *pool, struct kedge__error *err)
{
	int rc = 0;

	*f = (struct filler){.merge = m, .lineage = l, .count = pool ? (size_t)kedge__pool_threads(pool) : 1};
	f->caches = kedge__calloc(f->count, sizeof(*f->caches));
	if (!f->caches) {
		f->count = 0;
		return kedge__error_nomem(err);
	}
	for (size_t i = 0; i < f->count && !rc; i++)
		rc = kedge__block_cache_new(CACHE_BYTES, &f->caches[i], err);
	if (rc)
		filler_done(f);
	return rc;
}

struct coalesce {
	struct kedge__catalog *cat;
	struct kedge__pool *pool;
	const struct kedge__coalesce_options *options;
	struct kedge__set set; /* the new one */
	uint32_t written;      /* ranks whose new segments are there */
	uint64_t done, total;  /* literal bytes; TOTAL is an estimate from above */
	uint64_t done_before_rank;
};

static void rank_progress(void *ctx, uint64_t bytes)
{
	struct coalesce *c = ctx;

	c->done = c->done_before_rank + bytes;
	if (c->options->progress)
		c->options->progress(c->options->progress_ctx, KEDGE__MIN(c->done, c->total), c->total);
}

static int write_rank(struct coalesce *c, uint32_t rank, const struct kedge__lineage *l, const struct merge *m,
		      struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	struct filler filler;
	struct kedge__literal_source source = {merge_fill, &filler};
	struct kedge__segment_spec spec = {.name = c->cat->name,
					   .version = c->set.version,
					   .rank = rank,
					   .ranks = c->set.ranks,
					   .next_slot = top->summary.next_slot,
					   .regions = top->regions,
					   .region_count = top->region_count,
					   .reduction = &m->red,
					   .source = &source,
					   .created_ns = top->header.created_ns,
					   .sources = m->sources.at,
					   .source_count = m->sources.count,
					   .codec = c->options->codec,
					   .block_bytes = c->options->block_bytes,
					   .sync = c->options->sync,
					   .progress = rank_progress,
					   .progress_ctx = c};
	int rc;

	rc = kedge__catalog_next_generation(c->cat, spec.version, rank, &spec.generation, err);
	if (!rc)
		rc = filler_init(&filler, m, l, c->pool, err);
	if (rc)
		return rc;
	rc = kedge__segment_write(c->cat, c->pool, &spec, &c->set.parts[rank], NULL, err);
	filler_done(&filler);
	return rc;
}

static int add_set_sources(struct coalesce *c, const struct merge *m, struct kedge__error *err)
{
	for (size_t i = 0; i < m->sources.count; i++) {
		uint64_t version = m->sources.at[i].version;
		uint64_t *grown;
		size_t at = 0;

		while (at < c->set.source_count && c->set.sources[at] < version)
			at++;
		if (at < c->set.source_count && c->set.sources[at] == version)
			continue;
		grown = kedge__reallocarray(c->set.sources, c->set.source_count + 1, sizeof(*grown));
		if (!grown)
			return kedge__error_nomem(err);
		memmove(grown + at + 1, grown + at, (c->set.source_count - at) * sizeof(*grown));
		grown[at] = version;
		c->set.sources = grown;
		c->set.source_count++;
	}
	return 0;
}

static int coalesce_rank(struct coalesce *c, uint32_t rank, struct kedge__error *err)
{
	struct kedge__lineage *l;
	struct merge m;
	int rc;

	rc = kedge__lineage_open_from(&c->cat, 1, c->set.version, rank, c->options->from, &l, err);
	if (rc)
		return rc;
	rc = merge_init(&m, l, c->options->from, err);
	if (rc)
		goto close;
	rc = write_rank(c, rank, l, &m, err);
	if (!rc) {
		c->written = rank + 1;
		c->done_before_rank += m.red.literal_bytes;
		if (m.red.parent != KEDGE__NO_VERSION &&
		    (c->set.parent == KEDGE__NO_VERSION || m.red.parent > c->set.parent))
			c->set.parent = m.red.parent;
		rc = add_set_sources(c, &m, err);
	}
	merge_done(&m);
close:
	kedge__lineage_close(l);
	return rc;
}

/* ------------------------------------------------------------------ the set */

static int copy_set(const struct kedge__set *from, struct kedge__set *to, struct kedge__error *err)
{
	*to = *from;
	to->sources = NULL;
	to->source_count = 0;
	to->parent = KEDGE__NO_VERSION;
	to->reducer = KEDGE__REDUCER_MERGED;
	to->name = kedge__strdup(from->name);
	to->parts = kedge__calloc(from->ranks, sizeof(*to->parts));
	if (to->name && to->parts)
		return 0;
	kedge__set_done(to);
	return kedge__error_nomem(err);
}

static void discard_written(struct coalesce *c)
{
	for (uint32_t rank = 0; rank < c->written; rank++)
		(void)kedge__segment_discard(c->cat, c->set.version, rank, c->set.parts[rank].generation, NULL);
}

static int rewrite_set(struct coalesce *c, const struct kedge__set *old, struct kedge__error *err)
{
	int rc;

	rc = copy_set(old, &c->set, err);
	if (rc)
		return rc;
	for (uint32_t rank = 0; rank < old->ranks; rank++)
		c->total += old->parts[rank].raw_bytes;
	for (uint32_t rank = 0; rank < c->set.ranks && !rc; rank++)
		rc = coalesce_rank(c, rank, err);
	if (!rc)
		rc = kedge__set_publish(c->cat, &c->set, err);
	if (rc)
		discard_written(c);
	kedge__set_done(&c->set);
	return rc;
}

static bool in_batch(const struct coalesce *c, uint64_t version)
{
	return version >= c->options->from && version < c->options->version;
}

/* Newest first, so that a crash leaves no version without what it refers to. */
static int remove_batch(struct coalesce *c, const uint8_t *needed, struct kedge__coalesce_report *report,
			struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = c->cat->entries.count; i-- > 0 && !rc;) {
		uint64_t version = c->cat->entries.at[i]->version;

		if (!in_batch(c, version))
			continue;
		if (needed[i]) {
			report->versions_kept_for_lineage++;
			continue;
		}
		rc = kedge__set_remove(c->cat, version, err);
		if (!rc)
			report->versions_removed++;
	}
	return rc;
}

/* What any version outside of the batch depends on stays; so does all if one of them cannot be asked. */
static int remove_old(struct coalesce *c, struct kedge__coalesce_report *report, struct kedge__error *err)
{
	uint8_t *needed = kedge__calloc(c->cat->entries.count + 1, 1);
	int rc = needed ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < c->cat->entries.count && !rc; i++) {
		const struct kedge__catalog_entry *entry = c->cat->entries.at[i];

		if (in_batch(c, entry->version) && !entry->problem.code)
			continue;
		if (entry->problem.code && entry->version >= c->options->from) {
			kedge__log(KEDGE_LOG_WARNING, "older versions stay, because one cannot be read: %s",
				   kedge__error_text(&entry->problem));
			memset(needed, 1, c->cat->entries.count);
			break;
		}
		rc = kedge__catalog_mark(c->cat, entry->version, true, needed, err);
	}
	if (!rc)
		rc = remove_batch(c, needed, report, err);
	kedge__free(needed);
	return rc;
}

static uint64_t store_bytes(const struct kedge__catalog *cat)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < cat->entries.count; i++)
		bytes += kedge__set_disk_bytes(cat, cat->entries.at[i]->version);
	return bytes;
}

static int find_set(const struct kedge__catalog *cat, const struct kedge__coalesce_options *options,
		    const struct kedge__set **set, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(cat, options->version);

	if (options->from > options->version)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "versions %" PRIu64 " to %" PRIu64 " are no batch",
					options->from, options->version);
	if (!entry)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "%s has no version %" PRIu64 " to coalesce", cat->dir,
					options->version);
	if (entry->problem.code)
		return kedge__error_set(err, entry->problem.code, 0, "%s", kedge__error_text(&entry->problem));
	*set = &entry->set;
	return 0;
}

static int coalesce_seized(struct coalesce *c, struct kedge__coalesce_report *report, struct kedge__error *err)
{
	const struct kedge__set *old = NULL;
	int rc;

	rc = kedge__catalog_scan(c->cat, err);
	if (!rc)
		rc = find_set(c->cat, c->options, &old, err);
	if (rc)
		return rc;
	report->bytes_before = store_bytes(c->cat);
	rc = rewrite_set(c, old, err);
	if (!rc && !c->options->keep_old)
		rc = remove_old(c, report, err);
	report->bytes_after = store_bytes(c->cat);
	return rc;
}

int kedge__coalesce(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__coalesce_options *options,
		    struct kedge__coalesce_report *report, struct kedge__error *err)
{
	struct coalesce c = {.cat = cat, .pool = pool, .options = options};
	struct kedge__coalesce_report done = {0};
	int rc;

	rc = kedge__catalog_seize(cat, true, err);
	if (rc)
		return rc;
	rc = coalesce_seized(&c, &done, err);
	kedge__catalog_release(cat);
	if (!rc && report)
		*report = done;
	return rc;
}
