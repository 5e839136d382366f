/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "REGN: regions". */
#include "format/wire.h"

#define RECORD_LEAST 22    /* bytes of the smallest record: no shape, a name of one byte */
#define BY_PAGES     0x20u /* beside the element type: the digest is of a sum by KEDGE__SUM_PAGES */

static bool shape_fits(const struct kedge__region_record *r)
{
	uint64_t bytes = kedge_type_size((enum kedge_type)r->type);
	bool empty = false;

	if (r->ndims == 0)
		return true;
	for (uint32_t i = 0; i < r->ndims; i++) {
		empty |= r->dims[i] == 0;
		if (!empty && r->dims[i] > UINT64_MAX / bytes)
			return false;
		bytes *= empty ? 1 : r->dims[i];
	}
	return r->bytes == (empty ? 0 : bytes);
}

/* What is wrong with a record that follows one in slot AFTER - 1; NULL if nothing is. */
static const char *region_problem(const struct kedge__region_record *r, uint64_t after)
{
	if (r->slot < after || r->slot >= KEDGE__SLOT_LIMIT)
		return "slots are out of order or out of range";
	if (r->ndims > KEDGE_MAX_DIMS)
		return "too many dimensions";
	if (r->bytes > KEDGE__REGION_BYTES_MAX)
		return "too large";
	if (r->bytes % kedge_type_size((enum kedge_type)r->type) != 0 || !shape_fits(r))
		return "size, shape and element type contradict each other";
	return NULL;
}

static void put_region(struct kedge__wire_out *w, const struct kedge__region_record *r, uint64_t after)
{
	size_t name_bytes = strlen(r->name);

	kedge__wire_put_varint(w, name_bytes);
	kedge__wire_put(w, r->name, name_bytes);
	kedge__wire_put_varint(w, r->slot - after);
	kedge__wire_put_varint(w, r->type | (r->rule == KEDGE__SUM_PAGES ? BY_PAGES : 0));
	kedge__wire_put_varint(w, r->ndims);
	for (uint32_t i = 0; i < r->ndims; i++)
		kedge__wire_put_varint(w, r->dims[i]);
	kedge__wire_put_varint(w, r->bytes);
	kedge__wire_put_digest(w, r->digest);
}

static bool has_name(const void *regions, size_t item, const void *name)
{
	return strcmp(((const struct kedge__region_record *)regions)[item].name, name) == 0;
}

size_t kedge__regions_find(const struct kedge__region_record *r, const struct kedge__hash *names, const char *name)
{
	return kedge__hash_find(names, kedge__checksum(name, strlen(name)), has_name, r, name);
}

/* An index of the names, which differ. */
static int index_names(const struct kedge__region_record *r, size_t n, int code, struct kedge__hash *names,
		       struct kedge__error *err)
{
	if (!kedge__hash_reserve(names, n))
		return kedge__error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		if (kedge__regions_find(r, names, r[i].name) != KEDGE__HASH_NONE)
			return kedge__error_set(err, code, 0, "section REGN: two regions have the name '%s'",
						r[i].name);
		(void)kedge__hash_put(names, kedge__checksum(r[i].name, strlen(r[i].name)), i); /* there is room */
	}
	return 0;
}

int kedge__regions_encode(const struct kedge__region_record *r, size_t n, struct kedge__bytes *out,
			  struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	uint64_t after = 0, total = 0;
	struct kedge__hash names = {0};
	int rc = index_names(r, n, KEDGE_E_ARG, &names, err);

	kedge__hash_done(&names);
	if (rc != 0)
		return rc;
	kedge__wire_put_varint(&w, n);
	for (size_t i = 0; i < n; i++) {
		size_t name_bytes = strlen(r[i].name);
		const char *problem = "name is empty or too long";

		if (name_bytes > 0 && name_bytes <= KEDGE_REGION_NAME_MAX)
			problem = r[i].type < KEDGE_TYPE_COUNT ? region_problem(&r[i], after) : "unknown type";
		if (!problem && r[i].bytes > KEDGE__IMAGE_BYTES_MAX - total)
			problem = "the image is too large";
		if (problem) {
			kedge__wire_out_undo(&w);
			return kedge__error_set(err, KEDGE_E_ARG, 0, "region '%s': %s", r[i].name, problem);
		}
		put_region(&w, &r[i], after);
		after = (uint64_t)r[i].slot + 1;
		total += r[i].bytes;
	}
	return kedge__wire_out_finish(&w, err);
}

static int get_region(struct kedge__wire_in *in, size_t index, uint64_t after, struct kedge__region_record *r,
		      struct kedge__error *err)
{
	uint64_t name_bytes = kedge__wire_get_varint_max(in, KEDGE_REGION_NAME_MAX);
	const char *problem;
	uint32_t type;
	int rc;

	if (in->failed || name_bytes == 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section REGN: record %zu has no valid name", index);
	rc = kedge__wire_get_string(in, name_bytes, "section REGN: a region name", &r->name, err);
	if (rc != 0)
		return rc;
	r->slot = (uint32_t)(after + kedge__wire_get_varint_max(in, KEDGE__SLOT_LIMIT));
	type = (uint32_t)kedge__wire_get_varint_max(in, UINT32_MAX);
	r->type = type & ~BY_PAGES;
	r->rule = type & BY_PAGES ? KEDGE__SUM_PAGES : KEDGE__SUM_ROWS;
	r->ndims = (uint32_t)kedge__wire_get_varint_max(in, KEDGE_MAX_DIMS);
	for (uint32_t i = 0; i < r->ndims; i++)
		r->dims[i] = kedge__wire_get_varint(in);
	r->bytes = kedge__wire_get_varint(in);
	r->digest = kedge__wire_get_digest(in);
	if (in->failed)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section REGN: region '%s': the record is malformed",
					r->name);
	if (r->type >= KEDGE_TYPE_COUNT)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0,
					"section REGN: region '%s': element type %u is unknown to this build", r->name,
					r->type);
	r->file = strncmp(r->name, KEDGE_FILE_PREFIX, strlen(KEDGE_FILE_PREFIX)) == 0;
	problem = region_problem(r, after);
	if (problem)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section REGN: region '%s': %s", r->name, problem);
	return 0;
}

static int get_regions(struct kedge__wire_in *in, struct kedge__region_record *r, size_t n, struct kedge__hash *names,
		       struct kedge__error *err)
{
	uint64_t after = 0, total = 0;
	int rc;

	for (size_t i = 0; i < n; i++) {
		rc = get_region(in, i, after, &r[i], err);
		if (rc != 0)
			return rc;
		if (r[i].bytes > KEDGE__IMAGE_BYTES_MAX - total)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section REGN: the image is too large");
		after = (uint64_t)r[i].slot + 1;
		total += r[i].bytes;
	}
	if (in->left != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section REGN: extra bytes after the last record");
	return index_names(r, n, KEDGE_E_DAMAGED, names, err);
}

int kedge__regions_decode(const void *data, size_t bytes, struct kedge__region_record **r, size_t *n,
			  struct kedge__hash *names, struct kedge__error *err)
{
	struct kedge__wire_in in = kedge__wire_in_init(data, bytes);
	uint64_t count = kedge__wire_get_varint(&in);
	struct kedge__region_record *got = NULL;
	struct kedge__hash index = {0};
	int rc;

	if (in.failed || count > in.left / RECORD_LEAST)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"section REGN: more records than fit into the section");
	if (count > 0) {
		got = kedge__calloc((size_t)count, sizeof(*got));
		if (!got)
			return kedge__error_nomem(err);
	}
	rc = get_regions(&in, got, (size_t)count, &index, err);
	if (rc != 0 || !names)
		kedge__hash_done(&index);
	if (rc != 0) {
		kedge__regions_free(got, (size_t)count);
		return rc;
	}
	if (names)
		*names = index;
	*r = got;
	*n = (size_t)count;
	return 0;
}

void kedge__regions_free(struct kedge__region_record *r, size_t n)
{
	for (size_t i = 0; r && i < n; i++)
		kedge__free(r[i].name);
	kedge__free(r);
}
