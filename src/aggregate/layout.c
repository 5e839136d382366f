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

/* In order, without overlaps: of two, what comes first counts. Runs that continue each other are one. */
static void finish(struct kedge__layout *l)
{
	size_t kept = 0;
	uint64_t end = 0;

	if (l->runs.count)
		qsort(l->runs.at, l->runs.count, sizeof(*l->runs.at), run_order);
	for (size_t i = 0; i < l->runs.count; i++) {
		struct kedge__layout_run run = l->runs.at[i], *last = kept ? &l->runs.at[kept - 1] : NULL;
		struct kedge__variable *v = &l->variables.at[run.variable];

		if (run.offset < end)
			continue;
		end = run.offset + run.bytes;
		run.at = v->bytes;
		v->bytes += run.bytes;
		if (last && last->variable == run.variable && last->offset + last->bytes == run.offset)
			last->bytes += run.bytes;
		else
			l->runs.at[kept++] = run;
	}
	l->runs.count = kept;
}

/* At the beginning, or at 512, 1024, 2048, ... */
static bool find_super(struct kedge__look *look, uint64_t *at)
{
	uint8_t first[8];

	for (*at = 0; *at <= SUPER_MOST && kedge__look_at(look, *at, first, 8); *at = *at ? *at * 2 : 512)
		if (memcmp(first, hdf5_signature, 8) == 0)
			return true;
	return false;
}

static int read_as(struct kedge__look *look, struct kedge__layout *l)
{
	uint8_t first[4];
	uint64_t super;

	if (kedge__look_at(look, 0, first, 4) && memcmp(first, "CDF", 3) == 0)
		return kedge__netcdf_read(look, l);
	return find_super(look, &super) ? kedge__hdf5_read(look, super, l) : kedge__raw_read(look, l);
}

int kedge__layout_read(const struct kedge__contents *file, struct kedge__layout *out, struct kedge__error *err)
{
	struct kedge__layout l = {0};
	struct kedge__look look;
	int rc = kedge__look_init(&look, file, err);

	if (!rc && read_as(&look, &l) != 0)
		rc = kedge__error_nomem(err);
	kedge__look_done(&look);
	if (rc) {
		kedge__layout_done(&l);
		return rc;
	}
	finish(&l);
	*out = l;
	return 0;
}
