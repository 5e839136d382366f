/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the staging protocol (docs/STAGING.md): HELLO and REFUSED are bare, all others end with a sum. */
#include "stage/secret.h"

_Static_assert(KEDGE__STAGE_MESSAGE + KEDGE__SECRET_BYTES <= KEDGE__FRAME_MAX, "every message fits into a frame");

void kedge__talk_init(struct kedge__talk *t)
{
	memset(t, 0, sizeof(*t));
	t->link.fd = -1;
}

void kedge__talk_done(struct kedge__talk *t)
{
	kedge__link_close(&t->link);
	kedge__bytes_done(&t->out);
	kedge__secret_wipe(t->out_key, sizeof(t->out_key));
	kedge__secret_wipe(t->in_key, sizeof(t->in_key));
	t->keyed = false;
}

/* What both sides have said goes into the keys: neither can be made to use those of another conversation. */
void kedge__talk_key(struct kedge__talk *t, bool server, const uint8_t secret[KEDGE__SECRET_BYTES],
		     const uint8_t nonce[KEDGE__STAGE_NONCE])
{
	uint8_t *to_server = server ? t->in_key : t->out_key, *to_client = server ? t->out_key : t->in_key;
	uint8_t base[KEDGE__SECRET_BYTES], both[KEDGE__SECRET_BYTES + KEDGE__STAGE_NONCE];

	memcpy(both, t->opening, KEDGE__SECRET_BYTES);
	memcpy(both + KEDGE__SECRET_BYTES, nonce, KEDGE__STAGE_NONCE);
	kedge__secret_sum(secret, both, sizeof(both), base);
	kedge__secret_sum(base, "to the server", 13, to_server);
	kedge__secret_sum(base, "to the client", 13, to_client);
	kedge__secret_wipe(base, sizeof(base));
	t->keyed = true;
}

static void note_opening(struct kedge__talk *t, const uint8_t *hello, size_t bytes)
{
	static const uint8_t label[KEDGE__SECRET_BYTES] = "kedge staging: the first message";

	kedge__secret_sum(label, hello, bytes, t->opening);
}

static bool is_bare(uint16_t type)
{
	return type == KEDGE__STAGE_HELLO || type == KEDGE__STAGE_REFUSED;
}

int kedge__talk_send(struct kedge__talk *t, struct kedge__stage_message *m, struct kedge__error *err)
{
	int rc;

	t->out.count = 0;
	m->number = t->out_number;
	rc = kedge__stage_encode(m, &t->out, err);
	if (!rc && !kedge__array_reserve(&t->out, t->out.count + KEDGE__SECRET_BYTES))
		rc = kedge__error_nomem(err);
	if (rc)
		return rc;
	if (m->type == KEDGE__STAGE_HELLO)
		note_opening(t, t->out.at, t->out.count);
	if (!is_bare((uint16_t)m->type)) {
		kedge__secret_sum(t->out_key, t->out.at, t->out.count, t->out.at + t->out.count);
		t->out.count += KEDGE__SECRET_BYTES;
	}
	t->out_number++;
	return kedge__link_send(&t->link, t->out.at, t->out.count, err);
}

static int check_sum(const struct kedge__talk *t, const uint8_t *frame, size_t bytes, struct kedge__error *err)
{
	uint8_t sum[KEDGE__SECRET_BYTES];

	kedge__secret_sum(t->in_key, frame, bytes, sum);
	if (t->keyed && kedge__secret_equal(sum, frame + bytes))
		return 0;
	return kedge__error_set(err, KEDGE_E_ACCESS, 0,
				"a message does not come from whom it should: the two sides do not have the same key");
}

/* *BARE: it has no sum, which only the first messages of a conversation may lack. */
static int frame_look(struct kedge__talk *t, const uint8_t **frame, size_t *bytes, bool *bare, struct kedge__error *err)
{
	int rc = kedge__link_frame(&t->link, frame, bytes, err);

	if (rc || !*frame)
		return rc;
	*bare = *bytes >= 2 && !t->keyed && is_bare(kedge__get16(*frame));
	if (!*bare && *bytes <= KEDGE__SECRET_BYTES)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "a message of the staging protocol is too short");
	*bytes -= *bare ? 0 : KEDGE__SECRET_BYTES;
	return 0;
}

int kedge__talk_peek(struct kedge__talk *t, struct kedge__stage_message **m, struct kedge__error *err)
{
	const uint8_t *frame;
	size_t bytes;
	bool bare;
	int rc = frame_look(t, &frame, &bytes, &bare, err);

	*m = NULL;
	if (rc || !frame)
		return rc;
	rc = kedge__stage_decode(frame, bytes, &t->in, err);
	if (!rc)
		*m = &t->in;
	return rc;
}

int kedge__talk_take(struct kedge__talk *t, struct kedge__stage_message **m, struct kedge__error *err)
{
	const uint8_t *frame;
	size_t bytes;
	bool bare;
	int rc = frame_look(t, &frame, &bytes, &bare, err);

	*m = NULL;
	if (rc || !frame)
		return rc;
	if (!bare)
		rc = check_sum(t, frame, bytes, err);
	if (!rc)
		rc = kedge__stage_decode(frame, bytes, &t->in, err);
	if (!rc && t->in.number != t->in_number)
		rc = kedge__error_set(err, KEDGE_E_ACCESS, 0, "message %llu comes instead of message %llu",
				      (unsigned long long)t->in.number, (unsigned long long)t->in_number);
	if (rc)
		return rc;
	if (t->in.type == KEDGE__STAGE_HELLO)
		note_opening(t, frame, bytes);
	t->in_number++;
	kedge__link_drop(&t->link);
	*m = &t->in;
	return 0;
}
