/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "CLAS: classes of literals". */
#include "format/wire.h"

#define RECORD_LEAST 42 /* bytes of the smallest record */

void kedge__classes_done(struct kedge__classes_record *c)
{
	for (size_t i = 0; i < c->count; i++)
		kedge__free(c->at[i].name);
	kedge__free(c->at);
	*c = (struct kedge__classes_record){0};
}

static void put_class(struct kedge__wire_out *w, const struct kedge__class_record *r)
{
	size_t bytes = strlen(r->name);

	kedge__wire_put_varint(w, bytes);
	kedge__wire_put(w, r->name, bytes);
	kedge__wire_put_varint(w, r->type);
	kedge__wire_put_varint(w, r->ndims);
	for (uint32_t i = 0; i < r->ndims; i++)
		kedge__wire_put_varint(w, r->dims[i]);
	kedge__wire_put_varint(w, r->pieces);
	kedge__wire_put_varint(w, r->blocks);
	kedge__wire_put_packing(w, &r->packing);
}

int kedge__classes_encode(const struct kedge__classes_record *c, struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);

	kedge__wire_put_varint(&w, c->scheme);
	kedge__wire_put_varint(&w, c->block);
	kedge__wire_put_varint(&w, c->reason);
	kedge__wire_put_varint(&w, c->age);
	for (size_t i = 0; i < KEDGE__COUNT(c->sizes); i++)
		kedge__wire_put_double(&w, c->sizes[i]);
	kedge__wire_put_varint(&w, c->count);
	for (size_t i = 0; i < c->count; i++)
		put_class(&w, &c->at[i]);
	return kedge__wire_out_finish(&w, err);
}

static int get_class(struct kedge__wire_in *in, struct kedge__class_record *r, struct kedge__error *err)
{
	uint64_t bytes = kedge__wire_get_varint_max(in, KEDGE__CLASS_NAME_MAX);
	int rc = in->failed || !bytes ? kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section CLAS: a class has no name")
				      : kedge__wire_get_string(in, bytes, "section CLAS: a name", &r->name, err);

	if (rc)
		return rc;
	r->type = (uint32_t)kedge__wire_get_varint_max(in, KEDGE_TYPE_COUNT - 1);
	r->ndims = (uint32_t)kedge__wire_get_varint_max(in, KEDGE_MAX_DIMS);
	for (uint32_t i = 0; i < r->ndims; i++)
		r->dims[i] = kedge__wire_get_varint(in);
	r->pieces = kedge__wire_get_varint(in);
	r->blocks = kedge__wire_get_varint_max(in, SIZE_MAX / 2);
	if (!kedge__wire_get_packing(in, &r->packing) || in->failed)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section CLAS: a record is malformed");
	return 0;
}

static bool get_head(struct kedge__wire_in *in, struct kedge__classes_record *c, uint64_t *count)
{
	bool good = true;

	c->scheme = (uint32_t)kedge__wire_get_varint_max(in, UINT32_MAX);
	c->block = kedge__wire_get_varint(in);
	c->reason = (uint32_t)kedge__wire_get_varint_max(in, UINT32_MAX);
	c->age = (uint32_t)kedge__wire_get_varint_max(in, UINT32_MAX);
	for (size_t i = 0; i < KEDGE__COUNT(c->sizes); i++) {
		c->sizes[i] = kedge__wire_get_double(in);
		good = good && kedge__wire_seconds_valid(c->sizes[i]);
	}
	*count = kedge__wire_get_varint(in);
	return good && !in->failed && *count <= in->left / RECORD_LEAST;
}

int kedge__classes_decode(const void *data, size_t bytes, struct kedge__classes_record *out, struct kedge__error *err)
{
	struct kedge__wire_in in = kedge__wire_in_init(data, bytes);
	struct kedge__classes_record c = {0};
	uint64_t count;
	int rc = 0;

	if (!get_head(&in, &c, &count))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section CLAS: its head is malformed");
	c.at = kedge__calloc((size_t)count + 1, sizeof(*c.at));
	if (!c.at)
		return kedge__error_nomem(err);
	for (uint64_t i = 0; i < count && !rc; i++) {
		c.count++;
		rc = get_class(&in, &c.at[i], err);
	}
	if (!rc && in.left)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section CLAS: bytes after the last record");
	if (rc)
		kedge__classes_done(&c);
	else
		*out = c;
	return rc;
}
