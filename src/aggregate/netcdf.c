/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * netcdf: classic netCDF files, CDF-1, CDF-2 and CDF-5, after "NetCDF Classic Format Specification" of the NetCDF
 * User's Guide. All of their numbers are big-endian. netCDF-4 files are HDF5.
 */
#include "aggregate/layout.h"

#define DIMENSIONS 1024 /* at most, of a file and of a variable */

struct reader {
	struct kedge__look *look;
	struct kedge__layout *out;
	uint64_t at;
	unsigned count; /* bytes of counts and sizes */
	unsigned place; /* bytes of offsets */
	bool bad;
	uint64_t records;
	uint64_t dims[DIMENSIONS];
	size_t ndims;
	uint64_t record_bytes;
	size_t record_variables;
};

struct record_variable {
	uint32_t number;
	uint64_t begin, bytes;
};

struct record_list {
	struct record_variable *at;
	size_t count, room;
};

static uint64_t get(struct reader *r, unsigned width)
{
	uint8_t text[8];
	struct kedge__fields f = kedge__fields_of(text, width);

	r->bad = r->bad || !kedge__look_at(r->look, r->at, text, width);
	if (r->bad)
		return 0;
	r->at += width;
	return kedge__fields_get_big(&f, width);
}

static uint64_t get_count(struct reader *r)
{
	return get(r, r->count);
}

static void skip(struct reader *r, uint64_t bytes)
{
	r->bad = r->bad || bytes > r->look->file->bytes - r->at;
	if (!r->bad)
		r->at += bytes;
}

static uint64_t padded(uint64_t bytes)
{
	return bytes > UINT64_MAX - 3 ? bytes : (bytes + 3) / 4 * 4;
}

/* The head of a list: TAG and how many there are, or zeros. */
static uint64_t get_list(struct reader *r, uint64_t tag)
{
	uint64_t found = get(r, 4), n = get_count(r);

	r->bad = r->bad || (found != tag && (found || n));
	return r->bad || !found ? 0 : n;
}

static void get_name(struct reader *r, char name[KEDGE__LAYOUT_NAME])
{
	uint64_t bytes = get_count(r);
	size_t n = (size_t)KEDGE__MIN(bytes, KEDGE__LAYOUT_NAME - 1);

	r->bad = r->bad || !kedge__look_at(r->look, r->at, name, n);
	name[r->bad ? 0 : n] = 0;
	skip(r, padded(bytes));
}

static unsigned width_of(uint64_t type)
{
	static const uint8_t widths[] = {0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8};

	return type < KEDGE__COUNT(widths) ? widths[type] : 0;
}

static enum kedge_type type_of(uint64_t type)
{
	if (type == 2)
		return KEDGE_BYTES;
	return kedge__number_type(width_of(type), type == 5 || type == 6,
				  type != 7 && type != 8 && type != 9 && type != 11, width_of(type) > 1);
}

static void get_dimensions(struct reader *r)
{
	char name[KEDGE__LAYOUT_NAME];
	uint64_t n = get_list(r, 10);

	r->bad = r->bad || n > DIMENSIONS;
	for (uint64_t i = 0; i < n && !r->bad; i++) {
		get_name(r, name);
		r->dims[r->ndims++] = get_count(r);
	}
}

static void skip_attributes(struct reader *r)
{
	char name[KEDGE__LAYOUT_NAME];
	uint64_t n = get_list(r, 12);

	for (uint64_t i = 0; i < n && !r->bad; i++) {
		uint64_t type, count, width;

		get_name(r, name);
		type = get(r, 4);
		count = get_count(r);
		width = width_of(type);
		r->bad = r->bad || !width || count > r->look->file->bytes;
		skip(r, padded(count * width));
	}
}

/* The shape; *RECORDS: it has a slice in each record. What a record has of it is BYTES. */
static void get_shape(struct reader *r, struct kedge__variable *v, uint64_t *elements, bool *records)
{
	uint64_t n = get_count(r), total = 1;

	r->bad = r->bad || n > DIMENSIONS;
	*records = false;
	v->scalar = n == 0;
	for (uint64_t i = 0; i < n && !r->bad; i++) {
		uint64_t id = get_count(r), length = id < r->ndims ? r->dims[id] : 0;

		r->bad = r->bad || id >= r->ndims;
		if (i == 0 && !length) {
			*records = true;
			continue;
		}
		r->bad = r->bad || !length || total > r->look->file->bytes / length;
		total *= length;
		if (v->ndims < KEDGE_MAX_DIMS)
			v->dims[v->ndims++] = length;
	}
	*elements = r->bad ? 0 : total;
}

/* 0, or KEDGE_E_NOMEM. */
static int get_variable(struct reader *r, struct record_list *list)
{
	char name[KEDGE__LAYOUT_NAME];
	struct kedge__variable v = {.name = name};
	uint64_t elements, type, begin, bytes;
	bool records;
	int64_t number;

	get_name(r, name);
	get_shape(r, &v, &elements, &records);
	skip_attributes(r);
	type = get(r, 4);
	(void)get_count(r); /* its size, which may be wrong by design for large ones */
	begin = get(r, r->place);
	r->bad = r->bad || !width_of(type) || elements > r->look->file->bytes;
	if (r->bad)
		return 0;
	v.type = type_of(type);
	bytes = elements * width_of(type);
	number = kedge__layout_variable(r->out, &v);
	if (number < 0)
		return number == -1 ? KEDGE_E_NOMEM : 0;
	if (!records)
		return kedge__layout_add(r->out, r->look->file->bytes, (uint32_t)number, begin, bytes) ? 0
												       : KEDGE_E_NOMEM;
	r->record_bytes += padded(bytes);
	r->record_variables++;
	return kedge__array_push(list, ((struct record_variable){(uint32_t)number, begin, bytes})) ? 0 : KEDGE_E_NOMEM;
}

static int add_records(struct reader *r, const struct record_list *list)
{
	uint64_t total = r->look->file->bytes;

	if (r->record_variables == 1) /* without padding then */
		r->record_bytes = list->at[0].bytes;
	for (size_t i = 0; i < list->count && r->record_bytes; i++) {
		uint64_t at = list->at[i].begin;

		for (uint64_t k = 0; k < r->records && at < total; k++, at += r->record_bytes) {
			if (r->out->runs.count >= KEDGE__LAYOUT_RUNS)
				return 0;
			if (!kedge__layout_add(r->out, total, list->at[i].number, at, list->at[i].bytes))
				return KEDGE_E_NOMEM;
			if (r->record_bytes > total - at)
				break;
		}
	}
	return 0;
}

int kedge__netcdf_read(struct kedge__look *look, struct kedge__layout *out)
{
	struct reader r = {.look = look, .out = out, .at = 4};
	struct record_list list = {0};
	uint8_t first[4];
	uint64_t n;
	int rc = 0;

	if (!kedge__look_at(look, 0, first, 4) || (first[3] != 1 && first[3] != 2 && first[3] != 5))
		return 0;
	r.count = first[3] == 5 ? 8 : 4;
	r.place = first[3] == 1 ? 4 : 8;
	r.records = get_count(&r); /* all ones: as many as there are */
	get_dimensions(&r);
	skip_attributes(&r);
	n = get_list(&r, 11);
	for (uint64_t i = 0; i < n && !r.bad && !rc; i++)
		rc = get_variable(&r, &list);
	if (!rc && !r.bad)
		out->format = KEDGE__FILE_NETCDF;
	if (!rc && !r.bad)
		rc = add_records(&r, &list);
	kedge__array_done(&list);
	return rc;
}
