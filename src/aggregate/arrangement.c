/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which literals go where. Those of files are cut where runs of variables begin and end; pieces of similar variables
 * are a class. What a file has beside them, and what is too small, is the rest, a class of its own, and so are small
 * files that are not understood: the metadata of many files written by one program is nearly the same.
 */
#include "aggregate/arrangement.h"

#include <stdio.h>

#define CLASS_LEAST 4096                 /* bytes of one, to be packed by itself */
#define SHAPE_LEAST (UINT64_C(64) << 10) /* the same of variables of one shape */
#define FILE_SMALL  (UINT64_C(64) << 10) /* bytes of a file that goes with others */
#define SEAM_BYTES  (UINT64_C(64) << 20)

/* ------------------------------------------------------------------ similar variables */

static bool has_name(const void *ctx, size_t item, const void *key)
{
	const struct kedge__arrangement *a = ctx;

	return strcmp(a->similar.at[item].name, key) == 0;
}

static uint64_t hash_of(const char *name)
{
	return kedge__checksum(name, strlen(name));
}

/* The one called NAME, which is consumed; KEDGE__HASH_NONE: no memory. */
static size_t similar_get(struct kedge__arrangement *a, char *name, const struct kedge__variable *v, bool shaped)
{
	struct kedge__similar s = {.name = name, .type = v->type, .scalar = v->scalar};
	size_t i = name ? kedge__hash_find(&a->names, hash_of(name), has_name, a, name) : KEDGE__HASH_NONE;

	if (i != KEDGE__HASH_NONE || !name) {
		kedge__free(name);
		return i;
	}
	i = a->similar.count;
	s.whole = i;
	if (shaped) {
		s.ndims = v->ndims;
		memcpy(s.dims, v->dims, sizeof(s.dims));
	}
	if (!kedge__array_reserve(&a->similar, i + 1) || !kedge__hash_put(&a->names, hash_of(name), i)) {
		kedge__free(name);
		return KEDGE__HASH_NONE;
	}
	a->similar.at[a->similar.count++] = s;
	return i;
}

/* Its name with its shape; the slowest dimension of what is one after the other does not matter. */
static char *shaped_name(const char *name, const struct kedge__variable *v)
{
	char text[KEDGE_MAX_DIMS * 21 + 1] = "";
	size_t used = 0;

	for (int i = 1; i < v->ndims; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "x%llu", (unsigned long long)v->dims[i]);
	return kedge__asprintf("%s %s", name, text);
}

static int similar_add(struct kedge__arrangement *a, const struct kedge__variable *v, struct kedge__error *err)
{
	size_t whole = similar_get(a, kedge__class_name(a->options->rules, v), v, v->ndims < 2), shaped = whole;

	if (whole != KEDGE__HASH_NONE && v->ndims > 1)
		shaped = similar_get(a, shaped_name(a->similar.at[whole].name, v), v, true);
	if (whole == KEDGE__HASH_NONE || shaped == KEDGE__HASH_NONE || !kedge__array_push(&a->of, shaped))
		return kedge__error_nomem(err);
	a->similar.at[shaped].whole = whole;
	a->similar.at[shaped].bytes += v->bytes;
	return 0;
}

int kedge__arrangement_init(struct kedge__arrangement *a, struct kedge__error *err)
{
	int rc = 0;

	a->least = a->options->least;
	a->first = kedge__calloc(a->file_count + 1, sizeof(*a->first));
	if (!a->first)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < a->file_count && !rc; i++) {
		a->first[i] = a->of.count;
		for (size_t k = 0; k < a->files[i].layout.variables.count && !rc; k++)
			rc = similar_add(a, &a->files[i].layout.variables.at[k], err);
	}
	/* Shapes that there is little of go together. */
	for (size_t i = 0; i < a->similar.count && !rc; i++) {
		struct kedge__similar *s = &a->similar.at[i];

		if (s->whole != i && s->bytes < SHAPE_LEAST)
			a->similar.at[s->whole].bytes += s->bytes;
		else
			s->whole = i;
	}
	return rc;
}

void kedge__arrangement_done(struct kedge__arrangement *a)
{
	for (size_t i = 0; i < a->similar.count; i++)
		kedge__free(a->similar.at[i].name);
	kedge__array_done(&a->similar);
	kedge__hash_done(&a->names);
	kedge__array_done(&a->of);
	kedge__free(a->first);
}

/* ------------------------------------------------------------------ pieces */

struct maker {
	struct kedge__arrangement *a;
	struct kedge__arranged *out;
	enum kedge__aggregate_scheme scheme;
	uint32_t *classes;  /* of similar variables, + 1 */
	uint32_t rest, all; /* + 1; 0: there is none yet */
	uint64_t seams;     /* bytes */
	size_t literal;     /* that is taken apart now */
	uint64_t begun;     /* bytes of the number at the end of the last piece, the rest of which comes next */
};

void kedge__arranged_done(struct kedge__arranged *out)
{
	for (size_t i = 0; i < out->classes.count; i++)
		kedge__free(out->classes.at[i].name);
	kedge__array_done(&out->classes);
	kedge__array_done(&out->pieces);
}

/* A class of S, or of bytes called NAME; its number + 1. 0: no memory. */
static uint32_t class_new(struct maker *m, const char *name, const struct kedge__similar *s)
{
	struct kedge__literal_class c = {.name = kedge__strdup(name), .type = s ? s->type : KEDGE_BYTES};

	if (s) {
		c.ndims = s->ndims;
		memcpy(c.dims, s->dims, sizeof(c.dims));
	}
	if (!c.name || !kedge__array_push(&m->out->classes, c)) {
		kedge__free(c.name);
		return 0;
	}
	return (uint32_t)m->out->classes.count;
}

static int piece_add(struct maker *m, struct kedge__arrange_piece p, uint64_t offset, struct kedge__error *err)
{
	uint32_t unit = m->a->options->unit;

	if (p.class)
		m->out->classes.at[p.class - 1].pieces++;
	if (unit && offset % unit)
		m->seams += unit;
	return kedge__array_push(&m->out->pieces, p) ? 0 : kedge__error_nomem(err);
}

/* BYTES bytes at OFFSET of a file, the first of which is byte AT of what is taken in turn; by blocks, or as one. */
static int pieces_add(struct maker *m, struct kedge__arrange_piece p, uint64_t offset, uint64_t at,
		      struct kedge__error *err)
{
	bool blocks = m->scheme == KEDGE__AGGREGATE_AGNOSTIC_BLOCK || m->scheme == KEDGE__AGGREGATE_AWARE_BLOCK;
	uint64_t left = p.bytes, block = m->a->options->block;
	int rc = 0;

	while (left && !rc) {
		p.bytes = blocks ? KEDGE__MIN(left, block - at % block) : left;
		p.minor = blocks ? at / block : 0;
		rc = piece_add(m, p, offset, err);
		p.position += p.bytes;
		p.data = (const uint8_t *)p.data + p.bytes;
		offset += p.bytes;
		at += p.bytes;
		left -= p.bytes;
	}
	return rc;
}

/* The class of variable V of file F + 1; *SHAPE: what it is ordered by there. 0: the rest; -1: no memory. */
static int64_t class_of(struct maker *m, size_t f, uint32_t v, uint64_t *shape)
{
	const struct kedge__arrangement *a = m->a;
	size_t i = a->of.at[a->first[f] + v], whole = a->similar.at[i].whole;
	const struct kedge__similar *s = &a->similar.at[whole];

	*shape = i;
	if (a->files[f].layout.variables.at[v].bytes < a->least || s->bytes < CLASS_LEAST)
		return 0;
	if (!m->classes[whole])
		m->classes[whole] = class_new(m, s->name, s);
	return m->classes[whole] ? (int64_t)m->classes[whole] : -1;
}

static int rest_add(struct maker *m, struct kedge__arrange_piece p, uint64_t offset, struct kedge__error *err)
{
	if (!m->rest)
		m->rest = class_new(m, "(rest)", NULL);
	p.class = m->rest;
	return m->rest ? piece_add(m, p, offset, err) : kedge__error_nomem(err);
}

/* Part of a literal: what is left of it from OFFSET on, as far as it is in one run or between two. */
static uint64_t part_at(const struct kedge__layout *l, uint64_t offset, const struct kedge__layout_run **run)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, l->runs.count, l->runs.at[i].offset + l->runs.at[i].bytes <= offset);
	*run = i < l->runs.count && l->runs.at[i].offset <= offset ? &l->runs.at[i] : NULL;
	if (*run)
		return (*run)->offset + (*run)->bytes - offset;
	return i < l->runs.count ? l->runs.at[i].offset - offset : UINT64_MAX;
}

/* The next literal goes on with what is AT bytes into the variable of RUN in the same run and block, and in the middle
 * of a number, as it ends here: what lies between them is numbers as a whole. */
static bool continues(const struct maker *m, const struct kedge__aggregate_file *file,
		      const struct kedge__layout_run *run, uint64_t at, uint64_t width)
{
	const struct kedge__literal_list *all = &m->a->red->literals;
	const struct kedge__literal *next = m->literal + 1 < all->count ? &all->at[m->literal + 1] : NULL;
	uint64_t offset = next && next->region == file->region
			      ? (uint64_t)((const uint8_t *)next->data - (const uint8_t *)file->data)
			      : UINT64_MAX;
	uint64_t block = m->scheme == KEDGE__AGGREGATE_AWARE_BLOCK ? m->a->options->block : UINT64_MAX, there;

	if (offset < run->offset || offset - run->offset >= run->bytes)
		return false;
	there = run->at + (offset - run->offset);
	return there % width == at % width && there / block == at / block;
}

static void advance(struct kedge__arrange_piece *p, uint64_t *offset)
{
	p->position += p->bytes;
	p->data = (const uint8_t *)p->data + p->bytes;
	*offset += p->bytes;
}

/* A part of a run. Numbers that are not all there go with the rest: so those of a class begin at multiples of their
 * width. */
static int run_add(struct maker *m, size_t f, const struct kedge__layout_run *run, struct kedge__arrange_piece p,
		   uint64_t offset, struct kedge__error *err)
{
	const struct kedge__aggregate_file *file = &m->a->files[f];
	uint64_t width = KEDGE__MAX(kedge_type_size(file->layout.variables.at[run->variable].type), (size_t)1);
	uint64_t at = run->at + (offset - run->offset), all = p.bytes, head = 0, tail = (at + all) % width;
	bool open = tail && continues(m, file, run, at + all, width);
	int rc = 0;

	if (at % width != m->begun)
		head = KEDGE__MIN(width - at % width, all);
	tail = open || head == all ? 0 : KEDGE__MIN(tail, all - head);
	m->begun = open && head < all ? (at + all) % width : 0;
	p.bytes = head;
	if (head)
		rc = rest_add(m, p, offset, err);
	advance(&p, &offset);
	p.bytes = all - head - tail;
	if (!rc && p.bytes)
		rc = pieces_add(m, p, offset, at + head, err);
	advance(&p, &offset);
	p.bytes = tail;
	return !rc && tail ? rest_add(m, p, offset, err) : rc;
}

static int aware(struct maker *m, size_t f, struct kedge__arrange_piece p, uint64_t offset, struct kedge__error *err)
{
	const struct kedge__layout *l = &m->a->files[f].layout;
	uint64_t left = p.bytes;
	int rc = 0;

	while (left && !rc) {
		const struct kedge__layout_run *run;
		int64_t class = 0;

		p.bytes = KEDGE__MIN(left, part_at(l, offset, &run));
		if (run)
			class = class_of(m, f, run->variable, &p.major);
		p.class = (uint32_t) class;
		if (class < 0)
			rc = kedge__error_nomem(err);
		else if (class)
			rc = run_add(m, f, run, p, offset, err);
		else
			rc = rest_add(m, p, offset, err);
		left -= p.bytes;
		advance(&p, &offset);
	}
	return rc;
}

static int agnostic(struct maker *m, struct kedge__arrange_piece p, uint64_t offset, struct kedge__error *err)
{
	if (!m->all)
		m->all = class_new(m, "(all)", NULL);
	p.class = m->all;
	return m->all ? pieces_add(m, p, offset, offset, err) : kedge__error_nomem(err);
}

size_t kedge__arrangement_file(const struct kedge__arrangement *a, uint32_t region)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, a->file_count, a->files[i].region < region);
	return i < a->file_count && a->files[i].region == region ? i : a->file_count;
}

static int literal_add(struct maker *m, const struct kedge__literal *l, uint64_t position, struct kedge__error *err)
{
	struct kedge__arrange_piece p = {.position = position, .bytes = l->bytes, .data = l->data, .region = l->region};
	size_t f = kedge__arrangement_file(m->a, l->region);
	const struct kedge__aggregate_file *file = f < m->a->file_count ? &m->a->files[f] : NULL;
	uint64_t offset = file ? (uint64_t)((const uint8_t *)l->data - (const uint8_t *)file->data) : 0;

	if (file && (m->scheme == KEDGE__AGGREGATE_AGNOSTIC || m->scheme == KEDGE__AGGREGATE_AGNOSTIC_BLOCK))
		return agnostic(m, p, offset, err);
	if (file && file->layout.runs.count)
		return aware(m, f, p, offset, err);
	if (file && file->bytes <= FILE_SMALL)
		return agnostic(m, p, offset, err);
	return piece_add(m, p, 0, err);
}

static int make(struct kedge__arrangement *a, enum kedge__aggregate_scheme scheme, struct kedge__arranged *out,
		uint64_t *seams, struct kedge__error *err)
{
	struct maker m = {.a = a, .out = out, .scheme = scheme};
	uint64_t position = 0;
	int rc;

	m.classes = kedge__calloc(a->similar.count + 1, sizeof(*m.classes));
	rc = m.classes ? 0 : kedge__error_nomem(err);
	for (size_t i = 0; i < a->red->literals.count && !rc; i++) {
		m.literal = i;
		rc = literal_add(&m, &a->red->literals.at[i], position, err);
		position += a->red->literals.at[i].bytes;
	}
	*seams = m.seams;
	kedge__free(m.classes);
	return rc;
}

/* The fewer variables are taken apart, the less memory it takes to check chunks that they share. */
int kedge__arrangement_make(struct kedge__arrangement *a, enum kedge__aggregate_scheme scheme,
			    struct kedge__arranged *out, struct kedge__error *err)
{
	uint64_t most = a->options->seam_bytes ? a->options->seam_bytes : SEAM_BYTES, seams = 0;
	int rc;

	a->least = a->options->least;
	do {
		kedge__arranged_done(out);
		rc = make(a, scheme, out, &seams, err);
		a->least = KEDGE__MAX(a->least, 512) * 4;
	} while (!rc && seams > most && a->least < UINT64_MAX / 8);
	return rc;
}
