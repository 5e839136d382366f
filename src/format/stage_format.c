/* SPDX-License-Identifier: BSD-3-Clause */
/* docs/STAGING.md, "Messages". */
#include "format/wire.h"

#include <stdio.h>

static const char magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'S', 'T', 'G'};

#define FLAG_SYNC 1u

const char *kedge__stage_type_name(uint16_t type)
{
	switch (type) {
#define KEDGE__X(name, number)                                                                                         \
	case number:                                                                                                   \
		return #name;
		KEDGE__STAGE_TYPES(KEDGE__X)
#undef KEDGE__X
	default:
		return "?";
	}
}

/* ------------------------------------------------------------------ encode */

static void put_text(struct kedge__wire_out *w, const void *text, size_t bytes)
{
	kedge__wire_put16(w, (uint16_t)bytes);
	kedge__wire_put(w, text, bytes);
}

static void put_hello(struct kedge__wire_out *w, const struct kedge__stage_hello *h)
{
	kedge__wire_put(w, magic, sizeof(magic));
	kedge__wire_put16(w, KEDGE__STAGE_MAJOR);
	kedge__wire_put16(w, h->auth);
	kedge__wire_put(w, h->nonce, sizeof(h->nonce));
	kedge__wire_put(w, h->store.at, sizeof(h->store.at));
	put_text(w, h->name, strlen(h->name));
	put_text(w, h->provider, strlen(h->provider));
	put_text(w, h->port, h->port_bytes);
	put_text(w, h->credential, h->credential_bytes);
}

static void put_welcome(struct kedge__wire_out *w, const struct kedge__stage_welcome *m)
{
	kedge__wire_put(w, magic, sizeof(magic));
	kedge__wire_put16(w, KEDGE__STAGE_MAJOR);
	kedge__wire_put16(w, 0);
	kedge__wire_put(w, m->nonce, sizeof(m->nonce));
	kedge__wire_put32(w, m->piece);
	kedge__wire_put32(w, m->slots);
}

static void put_begin(struct kedge__wire_out *w, const struct kedge__stage_begin *m)
{
	kedge__wire_put32(w, m->file);
	kedge__wire_put32(w, m->sync ? FLAG_SYNC : 0);
	kedge__wire_put64(w, m->version);
	kedge__wire_put32(w, m->rank);
	kedge__wire_put32(w, m->generation);
}

static void put_piece(struct kedge__wire_out *w, const struct kedge__stage_piece *m)
{
	kedge__wire_put32(w, m->file);
	kedge__wire_put32(w, m->slot);
	kedge__wire_put64(w, m->offset);
	kedge__wire_put64(w, m->address);
	kedge__wire_put64(w, m->key);
	kedge__wire_put64(w, m->checksum);
	kedge__wire_put32(w, m->bytes);
}

static void put_answer(struct kedge__wire_out *w, const struct kedge__stage_answer *m)
{
	kedge__wire_put32(w, m->file);
	kedge__wire_put16(w, m->to);
	kedge__wire_put32(w, (uint32_t)m->code);
	kedge__wire_put32(w, (uint32_t)m->sys_errno);
	put_text(w, m->text, strlen(m->text));
}

static void put_body(struct kedge__wire_out *w, const struct kedge__stage_message *m)
{
	switch (m->type) {
	case KEDGE__STAGE_HELLO:
		put_hello(w, &m->u.hello);
		break;
	case KEDGE__STAGE_WELCOME:
		put_welcome(w, &m->u.welcome);
		break;
	case KEDGE__STAGE_BEGIN:
		put_begin(w, &m->u.begin);
		break;
	case KEDGE__STAGE_PIECE:
		put_piece(w, &m->u.piece);
		break;
	case KEDGE__STAGE_COMMIT:
		kedge__wire_put32(w, m->u.commit.file);
		kedge__wire_put64(w, m->u.commit.bytes);
		break;
	case KEDGE__STAGE_ABORT:
		kedge__wire_put32(w, m->u.abort.file);
		break;
	case KEDGE__STAGE_TAKEN:
		kedge__wire_put32(w, m->u.taken.file);
		kedge__wire_put32(w, m->u.taken.slot);
		break;
	case KEDGE__STAGE_REFUSED:
	case KEDGE__STAGE_ANSWER:
		put_answer(w, &m->u.answer);
		break;
	case KEDGE__STAGE_PING:
	case KEDGE__STAGE_PONG:
	case KEDGE__STAGE_BYE:
		break;
	}
}

int kedge__stage_encode(const struct kedge__stage_message *m, struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);

	kedge__wire_put16(&w, (uint16_t)m->type);
	kedge__wire_put16(&w, 0);
	kedge__wire_put32(&w, 0);
	kedge__wire_put64(&w, m->number);
	put_body(&w, m);
	return kedge__wire_out_finish(&w, err);
}

/* ------------------------------------------------------------------ decode */

static void get_bytes(struct kedge__wire_in *r, uint8_t *to, size_t bytes)
{
	const uint8_t *at = kedge__wire_get(r, bytes);

	if (at)
		memcpy(to, at, bytes);
}

/* A string of less than ROOM bytes, without NUL, control characters or the end of a line. */
static void get_text(struct kedge__wire_in *r, char *to, size_t room)
{
	size_t n = kedge__wire_get16(r);
	const uint8_t *at = n < room ? kedge__wire_get(r, n) : NULL;

	if (!at) {
		r->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		r->failed = r->failed || at[i] < ' ' || at[i] == 0x7f;
	memcpy(to, at, n);
	to[n] = '\0';
}

static void get_opaque(struct kedge__wire_in *r, uint8_t *to, size_t room, size_t *bytes)
{
	size_t n = kedge__wire_get16(r);
	const uint8_t *at = n <= room ? kedge__wire_get(r, n) : NULL;

	if (!at) {
		r->failed = true;
		return;
	}
	memcpy(to, at, n);
	*bytes = n;
}

static int get_magic(struct kedge__wire_in *r, struct kedge__error *err)
{
	const uint8_t *at = kedge__wire_get(r, sizeof(magic));
	uint16_t major = kedge__wire_get16(r);

	if (!at || memcmp(at, magic, sizeof(magic)) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"the other side does not speak the protocol of Kedge's staging");
	if (major != KEDGE__STAGE_MAJOR)
		return kedge__error_set(
		    err, KEDGE_E_FORMAT, 0,
		    "the other side speaks version %u of the staging protocol, this build version %u", major,
		    KEDGE__STAGE_MAJOR);
	return 0;
}

static int get_hello(struct kedge__wire_in *r, struct kedge__stage_hello *h, struct kedge__error *err)
{
	int rc = get_magic(r, err);

	if (rc)
		return rc;
	h->auth = kedge__wire_get16(r);
	get_bytes(r, h->nonce, sizeof(h->nonce));
	get_bytes(r, h->store.at, sizeof(h->store.at));
	get_text(r, h->name, sizeof(h->name));
	get_text(r, h->provider, sizeof(h->provider));
	get_opaque(r, h->port, sizeof(h->port), &h->port_bytes);
	get_opaque(r, h->credential, sizeof(h->credential), &h->credential_bytes);
	r->failed = r->failed || (h->auth != KEDGE__STAGE_AUTH_KEY && h->auth != KEDGE__STAGE_AUTH_MUNGE) ||
		    !h->port_bytes || !h->provider[0] || kedge__job_name_check(h->name, NULL) != 0;
	return 0;
}

static int get_welcome(struct kedge__wire_in *r, struct kedge__stage_welcome *m, struct kedge__error *err)
{
	int rc = get_magic(r, err);

	if (rc)
		return rc;
	r->failed = r->failed || kedge__wire_get16(r) != 0;
	get_bytes(r, m->nonce, sizeof(m->nonce));
	m->piece = kedge__wire_get32(r);
	m->slots = kedge__wire_get32(r);
	r->failed = r->failed || m->piece < KEDGE__STAGE_PIECE_MIN || m->piece > KEDGE__STAGE_PIECE_MAX || !m->slots ||
		    m->slots > KEDGE__STAGE_SLOTS;
	return 0;
}

static uint32_t get_file(struct kedge__wire_in *r)
{
	uint32_t file = kedge__wire_get32(r);

	r->failed = r->failed || file >= KEDGE__STAGE_FILES;
	return file;
}

static void get_begin(struct kedge__wire_in *r, struct kedge__stage_begin *m)
{
	uint32_t flags;

	m->file = get_file(r);
	flags = kedge__wire_get32(r);
	m->sync = flags & FLAG_SYNC;
	m->version = kedge__wire_get64(r);
	m->rank = kedge__wire_get32(r);
	m->generation = kedge__wire_get32(r);
	r->failed =
	    r->failed || flags & ~FLAG_SYNC || m->version >= KEDGE_VERSION_LIMIT || m->rank >= KEDGE__RANK_LIMIT;
}

static void get_piece(struct kedge__wire_in *r, struct kedge__stage_piece *m)
{
	m->file = get_file(r);
	m->slot = kedge__wire_get32(r);
	m->offset = kedge__wire_get64(r);
	m->address = kedge__wire_get64(r);
	m->key = kedge__wire_get64(r);
	m->checksum = kedge__wire_get64(r);
	m->bytes = kedge__wire_get32(r);
	r->failed = r->failed || m->slot >= KEDGE__STAGE_SLOTS || !m->bytes || m->bytes > KEDGE__STAGE_PIECE_MAX ||
		    m->offset > KEDGE__STAGE_FILE_MAX;
}

static void get_answer(struct kedge__wire_in *r, struct kedge__stage_answer *m)
{
	m->file = get_file(r);
	m->to = kedge__wire_get16(r);
	m->code = (int32_t)kedge__wire_get32(r);
	m->sys_errno = (int32_t)kedge__wire_get32(r);
	get_text(r, m->text, sizeof(m->text));
	r->failed = r->failed || m->code > 0 || m->code < -1000 || m->sys_errno < 0 || m->sys_errno > 4095;
}

static int get_body(struct kedge__wire_in *r, struct kedge__stage_message *m, struct kedge__error *err)
{
	switch (m->type) {
	case KEDGE__STAGE_HELLO:
		return get_hello(r, &m->u.hello, err);
	case KEDGE__STAGE_WELCOME:
		return get_welcome(r, &m->u.welcome, err);
	case KEDGE__STAGE_BEGIN:
		get_begin(r, &m->u.begin);
		return 0;
	case KEDGE__STAGE_PIECE:
		get_piece(r, &m->u.piece);
		return 0;
	case KEDGE__STAGE_COMMIT:
		m->u.commit.file = get_file(r);
		m->u.commit.bytes = kedge__wire_get64(r);
		r->failed = r->failed || m->u.commit.bytes > KEDGE__STAGE_FILE_MAX;
		return 0;
	case KEDGE__STAGE_ABORT:
		m->u.abort.file = get_file(r);
		return 0;
	case KEDGE__STAGE_TAKEN:
		m->u.taken.file = get_file(r);
		m->u.taken.slot = kedge__wire_get32(r);
		r->failed = r->failed || m->u.taken.slot >= KEDGE__STAGE_SLOTS;
		return 0;
	case KEDGE__STAGE_REFUSED:
	case KEDGE__STAGE_ANSWER:
		get_answer(r, &m->u.answer);
		return 0;
	case KEDGE__STAGE_PING:
	case KEDGE__STAGE_PONG:
	case KEDGE__STAGE_BYE:
		return 0;
	}
	r->failed = true;
	return 0;
}

int kedge__stage_decode(const void *data, size_t bytes, struct kedge__stage_message *m, struct kedge__error *err)
{
	struct kedge__wire_in r = kedge__wire_in_init(data, bytes);
	uint16_t type = kedge__wire_get16(&r);
	int rc;

	memset(m, 0, sizeof(*m));
	r.failed = r.failed || bytes > KEDGE__STAGE_MESSAGE || kedge__wire_get16(&r) || kedge__wire_get32(&r);
	m->type = (enum kedge__stage_type)type;
	m->number = kedge__wire_get64(&r);
	rc = r.failed ? 0 : get_body(&r, m, err);
	if (!rc && (r.failed || r.left))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "a message (%s) of the staging protocol is malformed",
				      kedge__stage_type_name(type));
	return rc;
}
