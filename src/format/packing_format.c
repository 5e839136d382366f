/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "PACK: how blocks were packed, and why". */
#include "format/wire.h"

#define RECORD_LEAST 37 /* four varints, a letter and four numbers */

void kedge__wire_put_packing(struct kedge__wire_out *w, const struct kedge__packing_record *p)
{
	size_t length = strlen(p->name);

	kedge__wire_put_varint(w, p->reason);
	kedge__wire_put_varint(w, p->age);
	kedge__wire_put_varint(w, length);
	kedge__wire_put(w, p->name, length);
	kedge__wire_put_double(w, p->size);
	kedge__wire_put_double(w, p->encode);
	kedge__wire_put_double(w, p->storage);
	kedge__wire_put_double(w, p->target);
}

int kedge__packing_encode(const struct kedge__packing_record *p, size_t n, struct kedge__bytes *out,
			  struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	uint64_t after = 0;

	kedge__wire_put_varint(&w, n);
	for (size_t i = 0; i < n; i++) {
		if (p[i].region < after || !p[i].name[0]) {
			kedge__wire_out_undo(&w);
			return kedge__error_set(err, KEDGE_E_ARG, 0,
						"packing: regions are out of order or have no name");
		}
		kedge__wire_put_varint(&w, p[i].region - after);
		kedge__wire_put_packing(&w, &p[i]);
		after = (uint64_t)p[i].region + 1;
	}
	return kedge__wire_out_finish(&w, err);
}

static bool is_text(const uint8_t *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (text[i] <= 0x20 || text[i] >= 0x7f)
			return false;
	return true;
}

bool kedge__wire_get_packing(struct kedge__wire_in *in, struct kedge__packing_record *p)
{
	const uint8_t *name;
	size_t length;

	p->reason = (uint32_t)kedge__wire_get_varint_max(in, UINT32_MAX);
	p->age = (uint32_t)kedge__wire_get_varint_max(in, UINT32_MAX);
	length = (size_t)kedge__wire_get_varint_max(in, KEDGE__PACKING_NAME_MAX);
	name = kedge__wire_get(in, length);
	p->size = kedge__wire_get_double(in);
	p->encode = kedge__wire_get_double(in);
	p->storage = kedge__wire_get_double(in);
	p->target = kedge__wire_get_double(in);
	if (in->failed || !is_text(name, length))
		return false;
	memcpy(p->name, name, length);
	return kedge__wire_seconds_valid(p->size) && kedge__wire_seconds_valid(p->encode) &&
	       kedge__wire_seconds_valid(p->storage) && kedge__wire_seconds_valid(p->target);
}

static bool get_record(struct kedge__wire_in *in, uint64_t after, struct kedge__packing_record *p)
{
	uint64_t region = after + kedge__wire_get_varint_max(in, KEDGE__SLOT_LIMIT);

	if (!kedge__wire_get_packing(in, p) || region >= KEDGE__SLOT_LIMIT || !p->name[0])
		return false;
	p->region = (uint32_t)region;
	return true;
}

int kedge__packing_decode(const void *data, size_t bytes, struct kedge__packing_record **p, size_t *n,
			  struct kedge__error *err)
{
	struct kedge__wire_in in = kedge__wire_in_init(data, bytes);
	uint64_t count = kedge__wire_get_varint(&in), after = 0;
	struct kedge__packing_record *got = NULL;
	bool good = !in.failed && count <= in.left / RECORD_LEAST;

	if (!good)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"section PACK: more records than fit into the section");
	if (count > 0) {
		got = kedge__calloc((size_t)count, sizeof(*got));
		if (!got)
			return kedge__error_nomem(err);
	}
	for (uint64_t i = 0; i < count && good; i++) {
		good = get_record(&in, after, &got[i]);
		after = (uint64_t)got[i].region + 1;
	}
	if (!good || in.left != 0) {
		kedge__free(got);
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section PACK: a record is malformed");
	}
	*p = got;
	*n = (size_t)count;
	return 0;
}
