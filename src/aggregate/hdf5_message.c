/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages of a dataset say: type, shape, filters, and where its data is. */
#include "aggregate/hdf5.h"

#define FILTER_CHECKSUM 3 /* Fletcher32: bytes are as they were, and four follow */

/* IV.A.2.d. An array is what its elements are; an enumeration, what its base type is. */
bool kedge__h5_type_message(struct kedge__fields f, enum kedge_type *type, uint64_t *bytes)
{
	uint64_t size = 0;

	*type = KEDGE_BYTES;
	for (int depth = 0; depth < 4; depth++) {
		uint64_t head = kedge__fields_get(&f, 1), bits = kedge__fields_get(&f, 3), n = kedge__fields_get(&f, 4);
		unsigned class = head & 15, version = (unsigned)head >> 4;

		if (f.bad || !n)
			return false;
		if (!depth)
			size = n;
		if (class == 0 || class == 1 || class == 4)
			*type = n > 8 ? KEDGE_BYTES
				      : kedge__number_type((unsigned)n, class == 1, class == 0 && bits & 8, bits & 1);
		if (class == 10) { /* its shape comes first */
			uint64_t ndims = kedge__fields_get(&f, 1);

			kedge__fields_skip(&f, (version < 3 ? 3 : 0) + (size_t)ndims * (version < 3 ? 8 : 4));
		}
		if (class != 8 && class != 10)
			break;
	}
	*bytes = size;
	return !f.bad;
}

/* IV.A.2.b */
bool kedge__h5_space_message(struct kedge__h5 *h, struct kedge__fields f, struct kedge__h5_space *out)
{
	uint64_t version = kedge__fields_get(&f, 1), ndims = kedge__fields_get(&f, 1);

	kedge__fields_skip(&f, version == 1 ? 6 : 2);
	if (version < 1 || version > 2 || ndims > KEDGE__H5_DIMS)
		return false;
	out->ndims = (int)ndims;
	for (uint64_t i = 0; i < ndims; i++)
		out->dims[i] = kedge__h5_length(h, &f);
	return !f.bad;
}

/* One filter, and its values. */
static void filter_get(struct kedge__fields *f, uint64_t version, struct kedge__plain_filter *out)
{
	uint64_t id = kedge__fields_get(f, 2);
	uint64_t name = version == 1 || id >= 256 ? kedge__fields_get(f, 2) : 0, values;

	kedge__fields_get(f, 2);
	values = kedge__fields_get(f, 2);
	kedge__fields_skip(f, version == 1 ? (size_t)(name + 7) / 8 * 8 : (size_t)name);
	*out = (struct kedge__plain_filter){.id = (uint16_t)id, .count = (uint16_t)values};
	for (uint64_t i = 0; i < values && !f->bad; i++) {
		uint32_t v = (uint32_t)kedge__fields_get(f, 4);

		if (i < KEDGE__PLAIN_VALUES)
			out->values[i] = v;
	}
	if (values > KEDGE__PLAIN_VALUES)
		out->count = UINT16_MAX;
	kedge__fields_skip(f, version == 1 && values % 2 ? 4 : 0);
}

/* IV.A.2.l */
bool kedge__h5_filter_message(struct kedge__fields f, bool *filtered, struct kedge__h5_filters *out)
{
	uint64_t version = kedge__fields_get(&f, 1), n = kedge__fields_get(&f, 1);

	if (version == 1)
		kedge__fields_skip(&f, 6);
	out->unknown = n > KEDGE__H5_FILTERS;
	for (uint64_t i = 0; i < n && !f.bad; i++) {
		struct kedge__plain_filter filter;

		filter_get(&f, version, &filter);
		if (i < KEDGE__H5_FILTERS)
			out->at[out->count++] = filter;
		*filtered = *filtered || filter.id != FILTER_CHECKSUM;
	}
	out->unknown = out->unknown || f.bad;
	return !f.bad;
}

/* ------------------------------------------------------------------ IV.A.2.i: data layout */

/* The last dimension of a chunk is an element. */
static bool chunk_shape(struct kedge__fields *f, uint64_t ndims, unsigned width, struct kedge__h5_storage_message *out)
{
	if (ndims < 2 || ndims > KEDGE__H5_DIMS || !width || width > 8)
		return false;
	out->ndims = (int)ndims - 1;
	for (uint64_t i = 0; i < ndims; i++)
		out->chunk[i] = kedge__fields_get(f, width);
	out->element = out->chunk[ndims - 1];
	return !f->bad;
}

/* Versions 1 and 2. */
static bool storage_old(struct kedge__h5 *h, struct kedge__fields *f, struct kedge__h5_storage_message *out)
{
	uint64_t ndims = kedge__fields_get(f, 1), class = kedge__fields_get(f, 1);

	kedge__fields_skip(f, 5);
	if (class == 0)
		return !f->bad;
	out->address = kedge__h5_address(h, f);
	if (class == 2) {
		out->class = KEDGE__H5_CHUNKED;
		return chunk_shape(f, ndims, 4, out);
	}
	out->class = KEDGE__H5_CONTIGUOUS;
	out->bytes = ndims <= KEDGE__H5_DIMS;
	for (uint64_t i = 0; i < ndims && out->bytes; i++) {
		uint64_t n = kedge__fields_get(f, 4);

		out->bytes = n && out->bytes > h->look->file->bytes / n ? 0 : out->bytes * n;
	}
	return !f->bad;
}

static bool index_of(struct kedge__h5 *h, struct kedge__fields *f, const uint8_t *message, uint64_t flags,
		     struct kedge__h5_storage_message *out)
{
	static const uint8_t parameters[] = {0, 0, 0, 1, 5, 6}; /* bytes, by the type of the index */

	out->index = (uint8_t)kedge__fields_get(f, 1);
	if (out->index < 1 || out->index >= KEDGE__COUNT(parameters))
		return false;
	if (out->index == 1 && flags & 2) {
		out->filtered_single = true;
		out->single_size_at = (size_t)(f->at - message);
		out->bytes = kedge__h5_length(h, f);
		out->single_mask = (uint32_t)kedge__fields_get(f, 4);
		out->single_address_at = (size_t)(f->at - message);
	}
	kedge__fields_skip(f, parameters[out->index]);
	out->address = kedge__h5_address(h, f);
	return !f->bad;
}

/* Versions 3 and 4. */
static bool storage_new(struct kedge__h5 *h, struct kedge__fields *f, const uint8_t *message,
			struct kedge__h5_storage_message *out)
{
	uint64_t class = kedge__fields_get(f, 1), flags, ndims;

	if (class == 1) {
		out->class = KEDGE__H5_CONTIGUOUS;
		out->address = kedge__h5_address(h, f);
		out->bytes = kedge__h5_length(h, f);
		return !f->bad;
	}
	if (class != 2)
		return !f->bad; /* in the message, or virtual */
	out->class = KEDGE__H5_CHUNKED;
	if (out->version == 3) {
		ndims = kedge__fields_get(f, 1);
		out->address = kedge__h5_address(h, f);
		return chunk_shape(f, ndims, 4, out);
	}
	flags = kedge__fields_get(f, 1);
	ndims = kedge__fields_get(f, 1);
	return chunk_shape(f, ndims, (unsigned)kedge__fields_get(f, 1), out) && index_of(h, f, message, flags, out);
}

bool kedge__h5_storage_message(struct kedge__h5 *h, struct kedge__fields f, struct kedge__h5_storage_message *out)
{
	const uint8_t *message = f.at;

	*out = (struct kedge__h5_storage_message){.version = (int)kedge__fields_get(&f, 1)};
	if (out->version < 1 || out->version > 4)
		return false;
	return out->version < 3 ? storage_old(h, &f, out) : storage_new(h, &f, message, out);
}
