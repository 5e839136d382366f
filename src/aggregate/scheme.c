/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which scheme: the one that is set, or, of a sample, the one that packs it to the least (mcrEngine, section VII,
 * "could be made adaptive"). What was settled on is remembered over versions, and looked at again every now and then.
 */
#include "aggregate/arrangement.h"

#include <stdlib.h>

#define SAMPLE_BLOCK  ((size_t)16 << 10)
#define SAMPLE_ALIGN  64
#define SAMPLE_PLACES 16                  /* at most, */
#define SAMPLE_FEWEST 8                   /* and at least */
#define SAMPLE_LEAST  (UINT64_C(1) << 20) /* bytes of literals, for a sample to be worth it */
#define SAMPLE_PART   24                  /* of all, at most */
#define LITERALS_MAX  ((size_t)1 << 22)   /* that are arranged: each takes memory */
#define EVERY         16                  /* versions from one look to the next */
#define BETTER        0.97                /* of the usual scheme's size, for another to be chosen */
#define WINDOW        ((size_t)8 << 10)   /* bytes that are looked at for echoes, of */
#define WINDOW_EVERY  ((size_t)32 << 10)  /* so many of a class, */
#define WINDOWS       192                 /* this often */

static const char *const names[] = {"off", "agnostic", "agnostic-block", "aware", "aware-block", "auto"};
static const char *const reasons[] = {"set explicitly",
				      "the smallest of a sample",
				      "as in the version before",
				      "too little data to try others",
				      "as usual, because no other makes a sample 3 % smaller",
				      "numbers repeat themselves within a class"};

const char *kedge__aggregate_scheme_name(uint32_t scheme)
{
	return scheme < KEDGE__COUNT(names) ? names[scheme] : NULL;
}

const char *kedge__aggregate_reason(uint32_t reason)
{
	return reason < KEDGE__COUNT(reasons) ? reasons[reason] : NULL;
}

/* ------------------------------------------------------------------ samples */

struct sampler {
	const struct kedge__arrangement *a;
	const struct kedge__aggregate_sample *sample;
	const struct kedge__arranged *by;
	struct kedge__arrange_piece **order;
	uint8_t *block;
	uint64_t raw, packed;
};

/* Places in the literals of files that are understood: the same ones for all schemes. */
struct places {
	uint64_t at[SAMPLE_PLACES];
	size_t count;
};

static bool is_understood(const struct kedge__arrangement *a, uint32_t region)
{
	size_t f = kedge__arrangement_file(a, region);

	return f < a->file_count && a->files[f].layout.runs.count;
}

static uint64_t understood_bytes(const struct kedge__arrangement *a)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < a->red->literals.count; i++)
		bytes += is_understood(a, a->red->literals.at[i].region) ? a->red->literals.at[i].bytes : 0;
	return bytes;
}

static void places_find(const struct kedge__arrangement *a, uint64_t total, struct places *out)
{
	uint64_t want = KEDGE__MIN(KEDGE__MAX(total / SAMPLE_PART / SAMPLE_BLOCK, SAMPLE_FEWEST), SAMPLE_PLACES);
	uint64_t step = total / want, next = step / 2, position = 0, seen = 0;

	for (size_t i = 0; i < a->red->literals.count && out->count < want; i++) {
		const struct kedge__literal *l = &a->red->literals.at[i];

		if (is_understood(a, l->region)) {
			for (; out->count < want && next < seen + l->bytes; next += step)
				out->at[out->count++] = position + (next - seen);
			seen += l->bytes;
		}
		position += l->bytes;
	}
}

static int sample_read(const struct sampler *s, const struct kedge__arrange_piece *p, uint64_t skip, uint8_t *to,
		       size_t bytes, struct kedge__error *err)
{
	const struct kedge__aggregate_file *f = &s->a->files[kedge__arrangement_file(s->a, p->region)];

	return s->sample->read(s->sample->ctx, p->region,
			       (uint64_t)((const uint8_t *)p->data - (const uint8_t *)f->data) + skip, to, bytes, err);
}

/* A block with byte PLACE of piece AT of those in order, in the middle of it as far as its class reaches. */
static int sample_block(struct sampler *s, size_t at, uint64_t place, struct kedge__error *err)
{
	const struct kedge__literal_class *class = &s->by->classes.at[s->order[at]->class - 1];
	uint32_t number = s->order[at]->class;
	uint64_t skip = place > SAMPLE_BLOCK / 2 ? (place - SAMPLE_BLOCK / 2) / SAMPLE_ALIGN * SAMPLE_ALIGN : 0;
	size_t used = 0;
	int rc = 0;

	while (!skip && at && s->order[at - 1]->class == number && place < SAMPLE_BLOCK / 2)
		place += s->order[--at]->bytes;
	for (; at < s->by->pieces.count && s->order[at]->class == number && used < SAMPLE_BLOCK && !rc; at++) {
		size_t bytes = (size_t)KEDGE__MIN(s->order[at]->bytes - skip, SAMPLE_BLOCK - used);

		rc = sample_read(s, s->order[at], skip, s->block + used, bytes, err);
		used += bytes;
		skip = 0;
	}
	if (rc || !used)
		return rc;
	s->raw += used;
	s->packed += s->sample->pack(s->sample->ctx, class->type, class->ndims, class->dims, s->block, used);
	return 0;
}

static void put_in_order(struct sampler *s)
{
	struct kedge__arrange_piece *pieces = s->by->pieces.at;
	size_t n = s->by->pieces.count;

	for (size_t i = 0; i < n; i++)
		s->order[i] = &pieces[i];
	qsort(s->order, n, sizeof(*s->order), kedge__arrange_order);
	for (size_t i = 0; i < n; i++)
		s->order[i]->to = i;
}

static int sample_all(struct sampler *s, const struct places *places, struct kedge__error *err)
{
	const struct kedge__arrange_piece *pieces = s->by->pieces.at;
	int rc = 0;

	for (size_t i = 0; i < places->count && !rc; i++) {
		size_t k;

		KEDGE__LAST_BEFORE(k, s->by->pieces.count, pieces[k].position <= places->at[i]);
		if (pieces[k].class)
			rc = sample_block(s, (size_t)pieces[k].to, places->at[i] - pieces[k].position, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ echoes */

static bool is_float(const struct sampler *s, uint32_t class)
{
	enum kedge_type type = s->by->classes.at[class - 1].type;

	return type == KEDGE_F64 || type == KEDGE_F32;
}

/* The class of floating-point numbers with the most bytes, whose pieces are those FROM .. *END - 1 in order; 0: there
 * is none. */
static uint32_t largest_class(const struct sampler *s, size_t *from, size_t *end)
{
	size_t n = s->by->pieces.count;
	uint64_t most = 0;
	uint32_t found = 0;

	for (size_t i = 0, next; i < n; i = next) {
		uint32_t class = s->order[i]->class;
		uint64_t bytes = 0;

		for (next = i; next < n && s->order[next]->class == class; next++)
			bytes += s->order[next]->bytes;
		if (class && bytes > most && is_float(s, class)) {
			most = bytes;
			found = class;
			*from = i;
			*end = next;
		}
	}
	return found;
}

/* Where the window number N of a class begins: nobody can foresee it, so that no distance of echoes is missed. */
static uint64_t window_at(uint64_t n)
{
	uint8_t text[8];

	kedge__put64(text, n);
	return n * WINDOW_EVERY +
	       kedge__checksum(text, sizeof(text)) % (WINDOW_EVERY - WINDOW) / SAMPLE_ALIGN * SAMPLE_ALIGN;
}

/* Windows of the pieces FROM .. END - 1 in order, one after the other; *BYTES: of all. */
static int take_windows(const struct sampler *s, size_t from, size_t end, uint8_t *to, size_t *bytes,
			struct kedge__error *err)
{
	uint64_t seen = 0, n = 0;
	int rc = 0;

	*bytes = 0;
	for (size_t i = from; i < end && n < WINDOWS && !rc; i++) {
		const struct kedge__arrange_piece *p = s->order[i];

		for (; n < WINDOWS && window_at(n) < seen + p->bytes && !rc; n++) {
			uint64_t skip = window_at(n) > seen ? window_at(n) - seen : 0;
			size_t most = (size_t)KEDGE__MIN(p->bytes - skip, WINDOW) / 8 * 8;

			rc = sample_read(s, p, skip, to + *bytes, most, err);
			*bytes += most;
		}
		seen += p->bytes;
	}
	return rc;
}

/* Whether numbers of the largest class repeat themselves. */
static int look_for_echoes(const struct sampler *s, bool *found, struct kedge__error *err)
{
	size_t from = 0, end = 0, bytes;
	uint32_t class = s->sample->echoes ? largest_class(s, &from, &end) : 0;
	uint8_t *windows;
	int rc;

	*found = false;
	if (!class)
		return 0;
	windows = kedge__malloc(WINDOWS * WINDOW);
	rc = windows ? take_windows(s, from, end, windows, &bytes, err) : kedge__error_nomem(err);
	*found = !rc && s->sample->echoes(s->sample->ctx, s->by->classes.at[class - 1].type, windows, bytes);
	kedge__free(windows);
	return rc;
}

/* The share of its size to which a sample shrinks by BY; 0: nothing was arranged, or it has echoes, if it is asked for
 * them: these decide. */
static int try_one(const struct kedge__arrangement *a, const struct kedge__aggregate_sample *sample,
		   const struct kedge__arranged *by, const struct places *places, double *size, bool *echoes,
		   struct kedge__error *err)
{
	struct sampler s = {.a = a, .sample = sample, .by = by};
	int rc = 0;

	s.order = kedge__calloc(by->pieces.count + 1, sizeof(*s.order));
	s.block = kedge__malloc(SAMPLE_BLOCK);
	if (!s.order || !s.block) {
		rc = kedge__error_nomem(err);
	} else {
		put_in_order(&s);
		rc = echoes ? look_for_echoes(&s, echoes, err) : 0;
	}
	if (!rc && !(echoes && *echoes))
		rc = sample_all(&s, places, err);
	kedge__free(s.order);
	kedge__free(s.block);
	*size = s.raw ? (double)s.packed / (double)s.raw : 0;
	return rc;
}

/* ------------------------------------------------------------------ the choice */

/* Where all that is known of files are guesses, these have to be worth it. */
static enum kedge__aggregate_scheme usual_scheme(const struct kedge__arrangement *a)
{
	for (size_t i = 0; i < a->file_count; i++)
		if (a->files[i].layout.runs.count && a->files[i].layout.format != KEDGE__FILE_RAW)
			return KEDGE__AGGREGATE_AWARE;
	return KEDGE__AGGREGATE_AGNOSTIC;
}

static int try_scheme(struct kedge__arrangement *a, const struct kedge__aggregate_sample *sample,
		      enum kedge__aggregate_scheme scheme, const struct places *places,
		      struct kedge__aggregate_memory *m, bool *echoes, struct kedge__error *err)
{
	struct kedge__arranged by = {0};
	int rc = kedge__arrangement_make(a, scheme, &by, err);

	if (!rc)
		rc = try_one(a, sample, &by, places, &m->sizes[scheme - KEDGE__AGGREGATE_AGNOSTIC], echoes, err);
	kedge__arranged_done(&by);
	return rc;
}

/* What has echoes stays together, and nothing else is tried. */
static int try_all(struct kedge__arrangement *a, const struct kedge__aggregate_sample *sample,
		   struct kedge__aggregate_memory *m, bool *echoes, struct kedge__error *err)
{
	struct places places = {.count = 0};
	double least;
	int rc;

	m->age = 0;
	m->scheme = KEDGE__AGGREGATE_AWARE;
	places_find(a, understood_bytes(a), &places);
	rc = try_scheme(a, sample, KEDGE__AGGREGATE_AWARE, &places, m, echoes, err);
	if (rc || *echoes)
		return rc;
	for (uint32_t i = KEDGE__AGGREGATE_AGNOSTIC; i <= KEDGE__AGGREGATE_AWARE_BLOCK && !rc; i++)
		if (i != KEDGE__AGGREGATE_AWARE)
			rc = try_scheme(a, sample, i, &places, m, NULL, err);
	m->scheme = usual_scheme(a);
	least = m->sizes[m->scheme - KEDGE__AGGREGATE_AGNOSTIC] * BETTER;
	for (uint32_t i = 0; i < KEDGE__AGGREGATE_SCHEMES; i++) {
		if (m->sizes[i] > 0 && m->sizes[i] < least) {
			least = m->sizes[i];
			m->scheme = (enum kedge__aggregate_scheme)(KEDGE__AGGREGATE_AGNOSTIC + i);
		}
	}
	return rc;
}

/* Whether another scheme than the chosen one made the sample smaller, if not by enough. */
static bool is_usual(const struct kedge__aggregate_memory *m)
{
	for (uint32_t i = 0; i < KEDGE__AGGREGATE_SCHEMES; i++)
		if (m->sizes[i] > 0 && m->sizes[i] < m->sizes[m->scheme - KEDGE__AGGREGATE_AGNOSTIC])
			return true;
	return false;
}

static bool any_understood(const struct kedge__aggregate_file *files, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (files[i].layout.runs.count)
			return true;
	return false;
}

/* What will be used, and why. */
static int choose(struct kedge__arrangement *a, const struct kedge__aggregate_memory *memory,
		  const struct kedge__aggregate_sample *sample, struct kedge__aggregate_memory *out, uint32_t *reason,
		  struct kedge__error *err)
{
	*out = (struct kedge__aggregate_memory){.scheme = a->options->scheme};
	*reason = KEDGE__AGGREGATE_SET;
	if (a->options->scheme != KEDGE__AGGREGATE_AUTO)
		return 0;
	out->scheme = KEDGE__AGGREGATE_OFF;
	if (!any_understood(a->files, a->file_count))
		return 0;
	if (memory && memory->scheme != KEDGE__AGGREGATE_OFF && memory->age + 1 < EVERY) {
		*out = *memory;
		out->age++;
		*reason = KEDGE__AGGREGATE_REMEMBERED;
		return 0;
	}
	if (sample && understood_bytes(a) >= (a->options->sample_least ? a->options->sample_least : SAMPLE_LEAST)) {
		bool echoes = false;
		int rc = try_all(a, sample, out, &echoes, err);

		*reason = echoes          ? KEDGE__AGGREGATE_ECHOES
			  : is_usual(out) ? KEDGE__AGGREGATE_USUAL
					  : KEDGE__AGGREGATE_SMALLEST;
		return rc;
	}
	out->scheme = KEDGE__AGGREGATE_AWARE;
	*reason = KEDGE__AGGREGATE_LITTLE;
	return 0;
}

static int apply(struct kedge__arrangement *a, struct kedge__reduction *red,
		 const struct kedge__aggregate_memory *chosen, uint32_t reason, struct kedge__error *err)
{
	struct kedge__arranged by = {0};
	bool blocks =
	    chosen->scheme == KEDGE__AGGREGATE_AGNOSTIC_BLOCK || chosen->scheme == KEDGE__AGGREGATE_AWARE_BLOCK;
	int rc = kedge__arrangement_make(a, chosen->scheme, &by, err);

	if (!rc && by.classes.count)
		rc = kedge__reduction_arrange(red, by.pieces.at, by.pieces.count, err);
	if (!rc && by.classes.count) {
		red->classes = by.classes;
		by.classes = (struct kedge__literal_classes){0};
		red->classes.scheme = chosen->scheme;
		red->classes.block = blocks ? a->options->block : 0;
		red->classes.reason = reason;
		red->classes.age = chosen->age;
		memcpy(red->classes.sizes, chosen->sizes, sizeof(red->classes.sizes));
	}
	kedge__arranged_done(&by);
	return rc;
}

int kedge__aggregate(struct kedge__reduction *red, const struct kedge__aggregate_file *files, size_t count,
		     const struct kedge__aggregate_options *options, const struct kedge__aggregate_memory *memory,
		     const struct kedge__aggregate_sample *sample, struct kedge__error *err)
{
	struct kedge__arrangement a = {.red = red, .files = files, .file_count = count, .options = options};
	struct kedge__aggregate_memory chosen;
	uint32_t reason;
	int rc;

	if (!count || options->scheme == KEDGE__AGGREGATE_OFF || !red->literals.count ||
	    red->literals.count > LITERALS_MAX)
		return 0;
	rc = kedge__arrangement_init(&a, err);
	if (!rc)
		rc = choose(&a, memory, sample, &chosen, &reason, err);
	if (!rc && chosen.scheme != KEDGE__AGGREGATE_OFF)
		rc = apply(&a, red, &chosen, reason, err);
	kedge__arrangement_done(&a);
	return rc;
}
