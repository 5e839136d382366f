/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * secret: keyed sums by which one side knows that a message comes from the other one, and how the two come to share a
 * key. Private to stage. The keyed digests of base/ tell bytes apart and are no proof of who sent them (docs/digests.md).
 */
#ifndef KEDGE_STAGE_SECRET_H
#define KEDGE_STAGE_SECRET_H

#include "format/format.h"
#include "stage/stage.h"

/* ------------------------------------------------------------------ optional/secret.c: libsodium */

#define KEDGE__SECRET_BYTES 32 /* of keys and sums (BLAKE2b) */

bool kedge__secret_built(void);
int kedge__secret_draw(uint8_t *to, size_t bytes, struct kedge__error *err);
void kedge__secret_sum(const uint8_t key[KEDGE__SECRET_BYTES], const void *data, size_t bytes, uint8_t sum[KEDGE__SECRET_BYTES]);
bool kedge__secret_equal(const uint8_t a[KEDGE__SECRET_BYTES], const uint8_t b[KEDGE__SECRET_BYTES]); /* in constant time */
void kedge__secret_wipe(void *at, size_t bytes);

/* ------------------------------------------------------------------ optional/munge.c */

bool kedge__munge_built(void);
/* A credential with a secret that only FOR may have. SOCKET NULL: the system's daemon. */
int kedge__munge_seal(const char *socket, uid_t whom, const uint8_t secret[KEDGE__SECRET_BYTES], uint8_t *credential, size_t room, size_t *bytes,
		      struct kedge__error *err);
/* Who made it, and the secret. The daemon refuses one that it has seen before. */
int kedge__munge_open(const char *socket, const uint8_t *credential, size_t bytes, uid_t *who, uint8_t secret[KEDGE__SECRET_BYTES],
		      struct kedge__error *err);

/* ------------------------------------------------------------------ auth.c: who is at the other end */

struct kedge__auth {
	enum kedge__stage_auth kind;
	char *socket; /* of MUNGE's daemon; NULL: the usual one */
	uint8_t key[KEDGE__SECRET_BYTES]; /* of the file */
};

/* "munge", "munge:SOCKET" or "key:FILE"; NULL or "": munge. A key file that others may read is refused. */
int kedge__auth_open(const char *text, struct kedge__auth *a, struct kedge__error *err);
void kedge__auth_close(struct kedge__auth *a);
/* The client: what HELLO needs, and the secret that the two share then. */
int kedge__auth_offer(const struct kedge__auth *a, struct kedge__stage_hello *h, uint8_t secret[KEDGE__SECRET_BYTES], struct kedge__error *err);
/* The server: the same, and whose client it is. */
int kedge__auth_accept(const struct kedge__auth *a, const struct kedge__stage_hello *h, uid_t *who, uint8_t secret[KEDGE__SECRET_BYTES],
		       struct kedge__error *err);

/* ------------------------------------------------------------------ talk.c: messages over a link, each with its sum */

struct kedge__talk {
	struct kedge__link link;
	bool keyed;
	uint8_t opening[KEDGE__SECRET_BYTES]; /* a sum of HELLO */
	uint8_t out_key[KEDGE__SECRET_BYTES], in_key[KEDGE__SECRET_BYTES];
	uint64_t out_number, in_number; /* of the next message */
	struct kedge__bytes out;
	struct kedge__stage_message in;
};

void kedge__talk_init(struct kedge__talk *t); /* its link is set by the caller */
void kedge__talk_done(struct kedge__talk *t);
/* Keys of both directions, of the secret and of all that was said so far. */
void kedge__talk_key(struct kedge__talk *t, bool server, const uint8_t secret[KEDGE__SECRET_BYTES], const uint8_t nonce[KEDGE__STAGE_NONCE]);
/* Numbers M. Never waits: kedge__link_send(). */
int kedge__talk_send(struct kedge__talk *t, struct kedge__stage_message *m, struct kedge__error *err);
/* The next message, whoever it is from, which stays the next: to find in it what the keys are made of. */
int kedge__talk_peek(struct kedge__talk *t, struct kedge__stage_message **m, struct kedge__error *err);
/* *M: t->in, the next message that has come, or NULL. KEDGE_E_ACCESS: it is not from the other side, or not the next one. */
int kedge__talk_take(struct kedge__talk *t, struct kedge__stage_message **m, struct kedge__error *err);

#endif
