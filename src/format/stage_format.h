/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client and a staging server say to each other (docs/STAGING.md). Part of format.h. A message is decoded from
 * bytes that nobody vouches for: every field is checked here as far as it can be without knowing the conversation.
 */
#ifndef KEDGE_FORMAT_STAGE_FORMAT_H
#define KEDGE_FORMAT_STAGE_FORMAT_H

#include "format/format.h"

#define KEDGE__STAGE_MAJOR      1
#define KEDGE__STAGE_NONCE      32
#define KEDGE__STAGE_MESSAGE    8192 /* bytes of a message, at most */
#define KEDGE__STAGE_CREDENTIAL 4096
#define KEDGE__STAGE_PORT       256
#define KEDGE__STAGE_PROVIDER   32
#define KEDGE__STAGE_TEXT       512
#define KEDGE__STAGE_PIECE_MIN  4096u
#define KEDGE__STAGE_PIECE_MAX  (64u << 20)
#define KEDGE__STAGE_SLOTS      16 /* pieces of one client that the server has not read yet */
#define KEDGE__STAGE_FILES      4  /* that one client has open */
#define KEDGE__STAGE_FILE_MAX   (UINT64_C(1) << 62)

/* name, number, what it says */
#define KEDGE__STAGE_TYPES(X) \
	X(HELLO, 1)           \
	X(WELCOME, 2)         \
	X(REFUSED, 3)         \
	X(BEGIN, 4)           \
	X(PIECE, 5)           \
	X(COMMIT, 6)          \
	X(ABORT, 7)           \
	X(PING, 8)            \
	X(PONG, 9)            \
	X(TAKEN, 10)          \
	X(ANSWER, 11)         \
	X(BYE, 12)

enum kedge__stage_type {
#define KEDGE__X(name, number) KEDGE__STAGE_##name = (number),
	KEDGE__STAGE_TYPES(KEDGE__X)
#undef KEDGE__X
};

enum kedge__stage_auth { KEDGE__STAGE_AUTH_KEY = 1, KEDGE__STAGE_AUTH_MUNGE = 2 };

struct kedge__stage_hello {
	uint16_t auth; /* enum kedge__stage_auth */
	uint8_t nonce[KEDGE__STAGE_NONCE];
	struct kedge__store_id store; /* that the client's L2 is */
	char name[KEDGE_NAME_MAX + 1]; /* of the job */
	char provider[KEDGE__STAGE_PROVIDER];
	uint8_t port[KEDGE__STAGE_PORT]; /* under which its memory is reached */
	size_t port_bytes;
	uint8_t credential[KEDGE__STAGE_CREDENTIAL];
	size_t credential_bytes;
};

struct kedge__stage_welcome {
	uint8_t nonce[KEDGE__STAGE_NONCE];
	uint32_t piece; /* bytes of a piece, at most */
	uint32_t slots; /* pieces that may wait, at most */
};

struct kedge__stage_begin { /* a segment begins */
	uint32_t file; /* the client's number of it: below KEDGE__STAGE_FILES, and free */
	uint64_t version;
	uint32_t rank, generation;
	bool sync;
};

struct kedge__stage_piece { /* the next bytes of it are in the client's memory */
	uint32_t file, slot, bytes;
	uint64_t offset, address, key;
	uint64_t checksum;
};

struct kedge__stage_commit {
	uint32_t file;
	uint64_t bytes; /* that it has */
};

struct kedge__stage_abort {
	uint32_t file;
};

struct kedge__stage_taken { /* the piece was read: its memory is free */
	uint32_t file, slot;
};

struct kedge__stage_answer { /* to BEGIN, COMMIT and ABORT; or, with a failure, to a piece that could not be stored */
	uint32_t file;
	uint16_t to; /* the type */
	int32_t code, sys_errno;
	char text[KEDGE__STAGE_TEXT];
};

struct kedge__stage_message {
	enum kedge__stage_type type;
	uint64_t number; /* of the message in its direction, from 0 */
	union {
		struct kedge__stage_hello hello;
		struct kedge__stage_welcome welcome;
		struct kedge__stage_begin begin;
		struct kedge__stage_piece piece;
		struct kedge__stage_commit commit;
		struct kedge__stage_abort abort;
		struct kedge__stage_taken taken;
		struct kedge__stage_answer answer; /* REFUSED, too */
	} u;
};

int kedge__stage_encode(const struct kedge__stage_message *m, struct kedge__bytes *out, struct kedge__error *err);
int kedge__stage_decode(const void *data, size_t bytes, struct kedge__stage_message *m, struct kedge__error *err);
const char *kedge__stage_type_name(uint16_t type); /* "?" */

#endif
