/* SPDX-License-Identifier: BSD-3-Clause */
/* A layout: what readers add to it, and what becomes of that. */
#include "aggregate/layout.h"

#include <stdlib.h>

#define SUPER_MOST 4096 /* how far into the file the signature of HDF5 is looked for */

static const uint8_t hdf5_signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

void kedge__layout_done(struct kedge__layout *l)
{
	for (size_t i = 0; i < l->variables.count; i++)
		kedge__free(l->variables.at[i].name);
	kedge__array_done(&l->variables);
	kedge__array_done(&l->runs);
	l->format = KEDGE__FILE_UNKNOWN;
}

int64_t kedge__layout_variable(struct kedge__layout *l, const struct kedge__variable *v)
{
	struct kedge__variable fresh = *v;

	if (l->variables.count >= KEDGE__LAYOUT_NAMES)
		return -2;
	fresh.bytes = 0;
	fresh.name = kedge__strdup(v->name);
	if (!fresh.name || !kedge__array_push(&l->variables, fresh)) {
		kedge__free(fresh.name);
		return -1;
	}
	return (int64_t)l->variables.count - 1;
}

bool kedge__layout_add(struct kedge__layout *l, uint64_t file_bytes, uint32_t variable, uint64_t offset, uint64_t bytes)
{
	struct kedge__layout_run run = {.offset = offset, .bytes = bytes, .variable = variable};

	if (!bytes || offset > file_bytes || bytes > file_bytes - offset || l->runs.count >= KEDGE__LAYOUT_RUNS)
		return true;
	return kedge__array_push(&l->runs, run);
}

enum kedge_type kedge__number_type(unsigned width, bool is_float, bool is_signed, bool big_endian)
{
	static const enum kedge_type floats[] = {KEDGE_F16, KEDGE_F32, KEDGE_F64};
	static const enum kedge_type whole[][2] = {
	    {KEDGE_U8, KEDGE_I8}, {KEDGE_U16, KEDGE_I16}, {KEDGE_U32, KEDGE_I32}, {KEDGE_U64, KEDGE_I64}};
	unsigned log = width == 8 ? 3 : width == 4 ? 2 : width == 2 ? 1 : 0;

	if (width != 1u << log)
		return KEDGE_BYTES;
	if (is_float && log && !big_endian)
		return floats[log - 1];
	return whole[log][is_signed && !is_float && !big_endian];
}

/* ------------------------------------------------------------------ the result */

static int run_order(const void *a, const void *b)
{
	const struct kedge__layout_run *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->variable > y->variable) - (x->variable < y->variable);
}

/* In order, without overlaps: of two, what comes first counts. */
static void put_in_order(struct kedge__layout *l)
{
	size_t kept = 0;
	uint64_t end = 0;

	if (l->runs.count)
		qsort(l->runs.at, l->runs.count, sizeof(*l->runs.at), run_order);
	for (size_t i = 0; i < l->runs.count; i++) {
		struct kedge__layout_run run = l->runs.at[i];

		if (run.offset < end)
			continue;
		end = run.offset + run.bytes;
		l->runs.at[kept++] = run;
	}
	l->runs.count = kept;
}

/* Places in the file become places in its plain form. False: that has no such run in one piece; it is damaged, or
 * hostile. */
static bool translate(const struct kedge__plain_view *view, struct kedge__layout_run *run)
{
	const struct kedge__plain_chunk *c = kedge__plain_find(&view->plain, run->offset);
	uint64_t first = kedge__plain_view_place(view, run->offset);
	uint64_t last = kedge__plain_view_place(view, run->offset + run->bytes - 1);

	run->offset -= c ? c->offset : 0;
	if (c && run->offset == 0 && c->bytes == run->bytes)
		run->bytes = c->plain;
	else if ((c && run->offset < c->bytes) || last - first != run->bytes - 1)
		return false;
	run->offset = first;
	return true;
}

static void translate_all(const struct kedge__plain_view *view, struct kedge__layout *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->runs.count; i++)
		if (translate(view, &l->runs.at[i]))
			l->runs.at[kept++] = l->runs.at[i];
	l->runs.count = kept;
}

/* Runs that continue each other are one. */
static void join(struct kedge__layout *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->runs.count; i++) {
		struct kedge__layout_run run = l->runs.at[i], *last = kept ? &l->runs.at[kept - 1] : NULL;
		struct kedge__variable *v = &l->variables.at[run.variable];

		run.at = v->bytes;
		v->bytes += run.bytes;
		if (last && last->variable == run.variable && last->offset + last->bytes == run.offset)
			last->bytes += run.bytes;
		else
			l->runs.at[kept++] = run;
	}
	l->runs.count = kept;
}

bool kedge__hdf5_find(struct kedge__look *look, uint64_t *at)
{
	uint8_t first[8];

	for (*at = 0; *at <= SUPER_MOST && kedge__look_at(look, *at, first, 8); *at = *at ? *at * 2 : 512)
		if (memcmp(first, hdf5_signature, 8) == 0)
			return true;
	return false;
}

static int read_as(struct kedge__look *look, const struct kedge__plain *plain, struct kedge__layout *l)
{
	uint8_t first[4];
	uint64_t super;

	if (kedge__look_at(look, 0, first, 4) && memcmp(first, "CDF", 3) == 0)
		return kedge__netcdf_read(look, l);
	return kedge__hdf5_find(look, &super) ? kedge__hdf5_read(look, super, plain, l, NULL)
					      : kedge__raw_read(look, l);
}

/* VIEW: NULL if FILE is no plain form. */
static int read_file(const struct kedge__contents *file, const struct kedge__plain_view *view,
		     struct kedge__layout *out, struct kedge__error *err)
{
	struct kedge__layout l = {0};
	struct kedge__look look;
	int rc = kedge__look_init(&look, view ? &view->file : file, err);

	if (!rc && read_as(&look, view ? &view->plain : NULL, &l) != 0)
		rc = kedge__error_nomem(err);
	kedge__look_done(&look);
	if (rc) {
		kedge__layout_done(&l);
		return rc;
	}
	put_in_order(&l);
	if (view)
		translate_all(view, &l);
	join(&l);
	*out = l;
	return 0;
}

int kedge__layout_read(const struct kedge__contents *file, struct kedge__layout *out, struct kedge__error *err)
{
	struct kedge__plain_view view;
	bool found;
	int rc = kedge__plain_view_init(&view, file, &found, err);

	if (!rc)
		rc = read_file(file, found ? &view : NULL, out, err);
	kedge__plain_view_done(&view);
	return rc;
}
