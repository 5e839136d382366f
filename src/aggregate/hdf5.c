/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hdf5: from the superblock through all groups to the datasets. A file is hostile input: every address and every size
 * is checked against the file, objects are visited once, nothing is recursive, and looks are counted (look.c). What is
 * not understood is left out, and so stays opaque.
 */
#include "aggregate/hdf5.h"

#define OBJECTS       ((size_t)1 << 20)
#define CONTINUATIONS 4096 /* of one object */

/* ------------------------------------------------------------------ addresses */

bool kedge__h5_at(struct kedge__h5 *h, uint64_t address, void *to, size_t bytes)
{
	return address <= UINT64_MAX - h->base && kedge__look_at(h->look, h->base + address, to, bytes);
}

uint64_t kedge__h5_address(struct kedge__h5 *h, struct kedge__fields *f)
{
	return kedge__fields_get(f, h->offset);
}

uint64_t kedge__h5_length(struct kedge__h5 *h, struct kedge__fields *f)
{
	return kedge__fields_get(f, h->length);
}

bool kedge__h5_defined(const struct kedge__h5 *h, uint64_t address)
{
	return address != (h->offset == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * h->offset) - 1);
}

unsigned kedge__h5_bytes_for(uint64_t limit)
{
	return limit ? (unsigned)(63 - __builtin_clzll(limit)) / 8 + 1 : 1;
}

/* ------------------------------------------------------------------ objects to visit */

static bool is_address(const void *ctx, size_t item, const void *key)
{
	const struct kedge__h5 *h = ctx;

	return h->addresses.at[item] == *(const uint64_t *)key;
}

static bool seen_before(struct kedge__h5 *h, uint64_t address)
{
	uint64_t hash = kedge__checksum(&address, sizeof(address));

	if (kedge__hash_find(&h->seen, hash, is_address, h, &address) != KEDGE__HASH_NONE)
		return true;
	if (!kedge__array_reserve(&h->addresses, h->addresses.count + 1) ||
	    !kedge__hash_put(&h->seen, hash, h->addresses.count)) {
		h->nomem = true;
		return true;
	}
	h->addresses.at[h->addresses.count++] = address;
	return false;
}

void kedge__h5_link(struct kedge__h5 *h, const char *group, const uint8_t *name, size_t length, uint64_t address)
{
	struct kedge__h5_object o = {.address = address};
	size_t before = strlen(group);

	if (!length || memchr(name, 0, length) || before + length + 2 > KEDGE__LAYOUT_NAME || h->nomem ||
	    h->addresses.count >= OBJECTS || !kedge__h5_defined(h, address) || seen_before(h, address))
		return;
	o.name = kedge__asprintf("%s%s%.*s", group, before ? "/" : "", (int)length, (const char *)name);
	if (!o.name || !kedge__array_push(&h->objects, o)) {
		kedge__free(o.name);
		h->nomem = true;
	}
}

/* ------------------------------------------------------------------ messages of an object */

struct span {
	uint64_t address, bytes;
	uint64_t sum_from; /* of version 2: what the checksum behind it begins with */
};

struct visit {
	struct kedge__h5 *h;
	const char *name;
	uint8_t *text;                   /* of a message */
	bool second;                     /* version 2 of the header */
	bool ordered;                    /* messages have an order of creation */
	KEDGE__ARRAY(struct span) spans; /* of messages */
	struct span span;                /* where this message is, */
	uint64_t at;                     /* and its address */
	struct kedge__h5_dataset data;
	bool shared_type;
	uint64_t type_at;
};

static void continuation(struct visit *v, struct kedge__fields f)
{
	uint64_t address = kedge__h5_address(v->h, &f), bytes = kedge__h5_length(v->h, &f);

	if (f.bad || v->spans.count >= CONTINUATIONS || (v->second && bytes < 8))
		return;
	/* Its signature, and its checksum. */
	if (v->second) {
		address += 4;
		bytes -= 8;
	}
	if (!kedge__array_push(&v->spans, ((struct span){address, bytes, address - 4})))
		v->h->nomem = true;
}

static void link_info(struct visit *v, struct kedge__fields f)
{
	uint64_t heap, tree;
	uint8_t flags;

	kedge__fields_get(&f, 1);
	flags = (uint8_t)kedge__fields_get(&f, 1);
	if (flags & 1)
		kedge__fields_get(&f, 8);
	heap = kedge__h5_address(v->h, &f);
	tree = kedge__h5_address(v->h, &f);
	if (!f.bad && kedge__h5_defined(v->h, heap) && kedge__h5_defined(v->h, tree))
		kedge__h5_dense_links(v->h, v->name, heap, tree);
}

/* A type that has an object of its own (IV.A.2.b, shared messages). */
static void shared_type(struct visit *v, struct kedge__fields f)
{
	uint64_t version = kedge__fields_get(&f, 1), kind = kedge__fields_get(&f, 1);

	if (version == 1)
		kedge__fields_skip(&f, 6);
	if (version == 3 && kind != 2)
		return;
	v->type_at = kedge__h5_address(v->h, &f);
	v->shared_type = !f.bad;
}

/* A single chunk has its entry in the message. */
static void single_entry(struct visit *v)
{
	const struct kedge__h5_storage_message *m = &v->data.storage;
	const struct span *s = &v->span;

	v->data.single = (struct kedge__part_entry){0};
	if (!m->filtered_single)
		return;
	v->data.single = (struct kedge__part_entry){.size_at = v->h->base + v->at + m->single_size_at,
						    .address_at = v->h->base + v->at + m->single_address_at,
						    .size_width = (uint8_t)v->h->length};
	if (v->second) {
		v->data.single.sum_from = v->h->base + s->sum_from;
		v->data.single.sum_bytes = (uint32_t)(s->address + s->bytes - s->sum_from);
	}
}

static void message(struct visit *v, uint64_t type, bool shared, struct kedge__fields f)
{
	struct kedge__h5_dataset *d = &v->data;

	if (shared) {
		if (type == 0x03)
			shared_type(v, f);
		return;
	}
	switch (type) {
	case 0x01:
		d->has_space = kedge__h5_space_message(v->h, f, &d->space);
		break;
	case 0x02:
		link_info(v, f);
		break;
	case 0x03:
		d->has_type = kedge__h5_type_message(f, &d->type, &d->element);
		break;
	case 0x06:
		kedge__h5_link_message(v->h, v->name, f);
		break;
	case 0x07:
		d->external = true;
		break;
	case 0x08:
		d->has_storage = kedge__h5_storage_message(v->h, f, &d->storage);
		single_entry(v);
		break;
	case 0x0b:
		d->filters = (struct kedge__h5_filters){0};
		if (!kedge__h5_filter_message(f, &d->filtered, &d->filters))
			d->filtered = true;
		break;
	case 0x10:
		continuation(v, f);
		break;
	case 0x11: {
		uint64_t tree = kedge__h5_address(v->h, &f), heap = kedge__h5_address(v->h, &f);

		if (!f.bad)
			kedge__h5_symbol_table(v->h, v->name, tree, heap);
		break;
	}
	default:
		break;
	}
}

/* IV.A.1.a and b: the head of a message; its size, or -1 at the end. */
static int64_t message_head(struct visit *v, uint64_t address, uint64_t left, uint64_t *type, bool *shared,
			    unsigned *head)
{
	uint8_t text[8];
	struct kedge__fields f;
	uint64_t size;

	*head = v->second ? (v->ordered ? 6 : 4) : 8;
	if (left < *head || !kedge__h5_at(v->h, address, text, *head))
		return -1;
	f = kedge__fields_of(text, *head);
	*type = kedge__fields_get(&f, v->second ? 1 : 2);
	size = kedge__fields_get(&f, 2);
	*shared = kedge__fields_get(&f, 1) & 2;
	return size <= left - *head ? (int64_t)size : -1;
}

static void messages(struct visit *v, struct span s)
{
	v->span = s;
	while (!v->h->nomem) {
		uint64_t type;
		unsigned head;
		bool shared;
		int64_t size = message_head(v, s.address, s.bytes, &type, &shared, &head);

		if (size < 0 || !kedge__h5_at(v->h, s.address + head, v->text, (size_t)size))
			return;
		v->at = s.address + head;
		message(v, type, shared, kedge__fields_of(v->text, (size_t)size));
		s.address += head + (uint64_t)size;
		s.bytes -= head + (uint64_t)size;
	}
}

/* IV.A.1: where the first messages are. */
static bool header(struct visit *v, uint64_t address, struct span *out)
{
	uint8_t text[32];
	struct kedge__fields f;
	uint8_t flags;
	unsigned width, skip;

	if (!kedge__h5_at(v->h, address, text, 16))
		return false;
	if (text[0] == 1) {
		f = kedge__fields_of(text + 8, 4);
		*out = (struct span){address + 16, kedge__fields_get(&f, 4), 0};
		return true;
	}
	if (memcmp(text, "OHDR", 4) != 0 || text[4] != 2)
		return false;
	flags = text[5];
	skip = 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0);
	width = 1u << (flags & 3);
	if (!kedge__h5_at(v->h, address + skip, text, width))
		return false;
	f = kedge__fields_of(text, width);
	*out = (struct span){address + skip + width, kedge__fields_get(&f, width), address};
	v->second = true;
	v->ordered = flags & 4;
	return true;
}

static void read_object(struct visit *v, uint64_t address)
{
	struct span first;

	if (!header(v, address, &first))
		return;
	if (!kedge__array_push(&v->spans, first))
		v->h->nomem = true;
	for (size_t i = 0; i < v->spans.count && !v->h->nomem; i++)
		messages(v, v->spans.at[i]);
	kedge__array_done(&v->spans);
}

/* ------------------------------------------------------------------ datasets */

/* The message of a committed type. */
static void follow_type(struct visit *v)
{
	struct visit other = {.h = v->h, .name = "", .text = v->text};

	read_object(&other, v->type_at);
	v->data.has_type = other.data.has_type;
	v->data.type = other.data.type;
	v->data.element = other.data.element;
}

/* As it is when no filter is applied. */
static void shape_of(const struct kedge__h5_dataset *d, struct kedge__variable *v)
{
	bool chunked = d->storage.class == KEDGE__H5_CHUNKED;
	int n = chunked ? d->storage.ndims : d->space.ndims;
	const uint64_t *dims = chunked ? d->storage.chunk : d->space.dims;

	v->type = d->type;
	for (int i = n > KEDGE_MAX_DIMS ? n - KEDGE_MAX_DIMS : 0; i < n; i++)
		v->dims[v->ndims++] = dims[i];
}

/* The variable of the dataset, or if the file is seen through its plain form two: one for chunks that are unpacked, and
 * one for those that are not. The number of the first; negative: there is none. */
static int64_t variables(struct visit *v)
{
	const struct kedge__h5_dataset *d = &v->data;
	struct kedge__variable plain = {.name = (char *)v->name, .scalar = d->space.ndims == 0}, packed = plain;
	int64_t number = 0, last = 0;

	shape_of(d, &plain);
	packed.filtered = true;
	packed.type = KEDGE_BYTES;
	if (!d->filtered || v->h->plain)
		number = last = kedge__layout_variable(v->h->out, &plain);
	if (d->filtered && last >= 0)
		last = kedge__layout_variable(v->h->out, &packed);
	if (last == -1)
		v->h->nomem = true;
	return last < 0 || (d->filtered && !v->h->plain) ? last : number;
}

static void dataset(struct visit *v)
{
	const struct kedge__h5_dataset *d = &v->data;
	const struct kedge__h5_stored whole = {.address = d->storage.address, .bytes = d->storage.bytes};
	int64_t number;

	if (!d->has_storage || !d->has_type || !d->has_space || d->external || !v->name[0] ||
	    d->storage.class == KEDGE__H5_ELSEWHERE || !kedge__h5_defined(v->h, d->storage.address))
		return;
	number = variables(v);
	if (number < 0)
		return;
	v->h->data = d;
	if (d->storage.class == KEDGE__H5_CONTIGUOUS)
		kedge__h5_chunk(v->h, (uint32_t)number, &whole);
	else
		kedge__h5_chunks(v->h, d, (uint32_t)number);
}

static void visit_object(struct kedge__h5 *h, const struct kedge__h5_object *o, uint8_t *text)
{
	struct visit v = {.h = h, .name = o->name, .text = text};

	read_object(&v, o->address);
	if (v.shared_type && !v.data.has_type && v.data.has_storage)
		follow_type(&v);
	if (!h->nomem)
		dataset(&v);
}

static void visit_all(struct kedge__h5 *h)
{
	uint8_t *text = kedge__malloc(KEDGE__H5_MESSAGE);

	h->nomem = h->nomem || !text;
	while (h->objects.count && !h->nomem) {
		struct kedge__h5_object o = h->objects.at[--h->objects.count];

		visit_object(h, &o, text);
		kedge__free(o.name);
	}
	kedge__free(text);
}

/* ------------------------------------------------------------------ the superblock */

/* II.A: the address of the root group's object header. */
static bool superblock(struct kedge__h5 *h, uint64_t super, uint64_t *root)
{
	uint8_t text[128];
	struct kedge__fields f;
	size_t bytes = (size_t)KEDGE__MIN(sizeof(text), h->look->file->bytes - super);
	uint64_t version;

	if (!kedge__look_at(h->look, super, text, bytes))
		return false;
	f = kedge__fields_of(text, bytes);
	kedge__fields_skip(&f, 8);
	version = kedge__fields_get(&f, 1);
	if (version < 2)
		kedge__fields_skip(&f, 4);
	h->offset = (unsigned)kedge__fields_get(&f, 1);
	h->length = (unsigned)kedge__fields_get(&f, 1);
	if (version > 3 || h->offset < 2 || h->offset > 8 || h->length < 2 || h->length > 8)
		return false;
	kedge__fields_skip(&f, version >= 2 ? 1 : version == 1 ? 13 : 9);
	h->base = kedge__h5_address(h, &f);
	kedge__h5_address(h, &f); /* free space, or the extension */
	if (h->parts) {
		h->parts->end_at = super + (uint64_t)(f.at - text);
		h->parts->super_from = super;
		h->parts->super_bytes = version >= 2 ? 12 + 4 * h->offset : 0;
	}
	kedge__h5_address(h, &f); /* the end of the file */
	if (version < 2) {
		kedge__h5_address(h, &f); /* the driver, */
		kedge__h5_address(h, &f); /* and the name of the root */
	}
	*root = kedge__h5_address(h, &f);
	return !f.bad && h->base <= h->look->file->bytes;
}

int kedge__hdf5_read(struct kedge__look *look, uint64_t super, const struct kedge__plain *plain,
		     struct kedge__layout *out, struct kedge__parts *parts)
{
	struct kedge__h5 h = {.look = look, .out = out, .plain = plain, .parts = parts};
	struct kedge__h5_object root = {0};

	if (superblock(&h, super, &root.address)) {
		out->format = KEDGE__FILE_HDF5;
		if (parts) {
			parts->hdf5 = true;
			parts->base = h.base;
			parts->width = (uint8_t)h.offset;
		}
		root.name = kedge__strdup("");
		h.nomem = !root.name || seen_before(&h, root.address) || !kedge__array_push(&h.objects, root);
		if (h.nomem)
			kedge__free(root.name);
		visit_all(&h);
	}
	for (size_t i = 0; i < h.objects.count; i++)
		kedge__free(h.objects.at[i].name);
	kedge__array_done(&h.objects);
	kedge__array_done(&h.addresses);
	kedge__hash_done(&h.seen);
	return h.nomem ? KEDGE_E_NOMEM : 0;
}
