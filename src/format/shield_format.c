/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The shield". */
#include "format/wire.h"

#define HEAD_BYTES   48
#define MEMBER_BYTES 36 /* and the name of its node */
#define UNIT_ALIGN   UINT32_C(64)
#define UNIT_MOST    (UINT32_C(256) << 10) /* of those that are written, */
#define ROW_MOST                                                                                                       \
	(UINT32_C(512) << 10) /* and of a row: what was moved is still in a processor's cache when it is coded */
#define ROWS_MAX (UINT64_C(1) << 36)

static const char magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'S', 'H', 'D'};

static uint64_t largest(const struct kedge__shield *s)
{
	uint64_t bytes = 1;

	for (uint32_t i = 0; i < s->members; i++)
		bytes = KEDGE__MAX(bytes, s->at[i].file_bytes);
	return bytes;
}

void kedge__shield_measure(struct kedge__shield *s)
{
	uint64_t bytes = largest(s), k = s->members - s->parity;
	uint64_t most = KEDGE__MIN(UNIT_MOST, ROW_MOST / k / UNIT_ALIGN * UNIT_ALIGN);
	uint64_t share = (bytes + k - 1) / k, rows = (share + most - 1) / most;

	s->unit = (uint32_t)(((share + rows - 1) / rows + UNIT_ALIGN - 1) / UNIT_ALIGN * UNIT_ALIGN);
	s->rows = (bytes + k * s->unit - 1) / (k * s->unit);
}

uint64_t kedge__shield_file_bytes(const struct kedge__shield *s, size_t header)
{
	return header + s->rows * ((uint64_t)s->parity * s->unit + 8) + 8;
}

static void put_member(struct kedge__wire_out *w, const struct kedge__shield_member *m)
{
	size_t length = strnlen(m->node, KEDGE__NODE_MAX);

	kedge__wire_put32(w, m->rank);
	kedge__wire_put32(w, m->generation);
	kedge__wire_put64(w, m->file_bytes);
	kedge__wire_put_digest(w, m->seal);
	kedge__wire_put32(w, (uint32_t)length);
	kedge__wire_put(w, m->node, length);
}

int kedge__shield_encode(const struct kedge__shield *s, struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	size_t start = out->count, bytes = HEAD_BYTES + 8;

	for (uint32_t i = 0; i < s->members; i++)
		bytes += MEMBER_BYTES + strnlen(s->at[i].node, KEDGE__NODE_MAX);
	kedge__wire_put(&w, magic, sizeof(magic));
	kedge__wire_put16(&w, KEDGE__FORMAT_MAJOR);
	kedge__wire_put16(&w, KEDGE__FORMAT_MINOR);
	kedge__wire_put32(&w, (uint32_t)bytes);
	kedge__wire_put64(&w, s->version);
	kedge__wire_put16(&w, (uint16_t)s->scheme);
	kedge__wire_put16(&w, (uint16_t)s->members);
	kedge__wire_put16(&w, (uint16_t)s->parity);
	kedge__wire_put16(&w, (uint16_t)s->self);
	kedge__wire_put32(&w, s->unit);
	kedge__wire_put32(&w, 0);
	kedge__wire_put64(&w, s->rows);
	for (uint32_t i = 0; i < s->members; i++)
		put_member(&w, &s->at[i]);
	if (!w.failed)
		kedge__wire_put64(&w, kedge__checksum(out->at + start, out->count - start));
	return kedge__wire_out_finish(&w, err);
}

static int damaged(struct kedge__error *err, const char *what)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "shield: %s", what);
}

/* Members are in ascending order of ranks: so no rank is one twice. */
static int get_members(struct kedge__wire_in *r, struct kedge__shield *s, struct kedge__error *err)
{
	for (uint32_t i = 0; i < s->members; i++) {
		struct kedge__shield_member *m = &s->at[i];
		const uint8_t *node;
		uint32_t length;

		m->rank = kedge__wire_get32(r);
		m->generation = kedge__wire_get32(r);
		m->file_bytes = kedge__wire_get64(r);
		m->seal = kedge__wire_get_digest(r);
		length = kedge__wire_get32(r);
		node = length <= KEDGE__NODE_MAX ? kedge__wire_get(r, length) : NULL;
		if (!node || r->failed)
			return damaged(err, "a member is cut short, or the name of its node is too long");
		memcpy(m->node, node, length);
		m->node[length] = '\0';
		if (m->rank >= KEDGE__RANK_LIMIT || (i && m->rank <= s->at[i - 1].rank))
			return damaged(err, "the ranks of its members are not in order");
		if (memchr(node, '\0', length))
			return damaged(err, "the name of a node is not text");
	}
	return r->left ? damaged(err, "there are bytes behind the last member") : 0;
}

static int check_shape(const struct kedge__shield *s, struct kedge__error *err)
{
	uint64_t row = (uint64_t)(s->members - s->parity) * s->unit;

	if (s->version >= KEDGE_VERSION_LIMIT || s->scheme == KEDGE__SCHEME_SINGLE || s->scheme >= KEDGE__SCHEMES)
		return damaged(err, "its version or scheme is invalid");
	if (!s->unit || s->unit > KEDGE__SHIELD_UNIT_MAX || s->unit % UNIT_ALIGN)
		return damaged(err, "the size of its units is invalid");
	if (!s->rows || s->rows > ROWS_MAX || largest(s) > s->rows * row || largest(s) <= (s->rows - 1) * row)
		return damaged(err, "its rows do not fit the segments");
	return 0;
}

/* What has to be known before the rest can be looked for. */
static int get_head(const uint8_t *raw, size_t bytes, size_t *header, struct kedge__error *err)
{
	if (bytes < sizeof(magic) || memcmp(raw, magic, sizeof(magic)) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "not a shield");
	if (bytes < HEAD_BYTES + 8 || kedge__get32(raw + 12) < HEAD_BYTES + 8 ||
	    kedge__get32(raw + 12) > KEDGE__SHIELD_HEADER_MAX || kedge__get32(raw + 12) > bytes)
		return damaged(err, "the header is cut short");
	*header = kedge__get32(raw + 12);
	if (kedge__get64(raw + *header - 8) != kedge__checksum(raw, *header - 8))
		return damaged(err, "the checksum of the header does not match");
	if (kedge__get16(raw + 8) != KEDGE__FORMAT_MAJOR)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0, "shield has format %u.%u, but this build reads %u.x",
					kedge__get16(raw + 8), kedge__get16(raw + 10), KEDGE__FORMAT_MAJOR);
	return kedge__get32(raw + 36) ? damaged(err, "reserved bytes are in use") : 0;
}

int kedge__shield_decode(const void *data, size_t bytes, struct kedge__shield *s, size_t *header,
			 struct kedge__error *err)
{
	const uint8_t *raw = data;
	struct kedge__shield got = {0};
	struct kedge__wire_in r;
	size_t size;
	int rc = get_head(raw, bytes, &size, err);

	if (rc)
		return rc;
	got.version = kedge__get64(raw + 16);
	got.scheme = (enum kedge__scheme)kedge__get16(raw + 24);
	got.members = kedge__get16(raw + 26);
	got.parity = kedge__get16(raw + 28);
	got.self = kedge__get16(raw + 30);
	got.unit = kedge__get32(raw + 32);
	got.rows = kedge__get64(raw + 40);
	if (got.members < KEDGE__TEAM_LEAST || got.members > KEDGE__TEAM_MOST || !got.parity ||
	    got.parity >= got.members || got.self >= got.members)
		return damaged(err, "the numbers of its members are invalid");
	r = kedge__wire_in_init(raw + HEAD_BYTES, size - HEAD_BYTES - 8);
	rc = get_members(&r, &got, err);
	if (!rc)
		rc = check_shape(&got, err);
	if (rc)
		return rc;
	*s = got;
	*header = size;
	return 0;
}
