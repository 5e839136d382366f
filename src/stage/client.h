/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a staging client; private to stage. The threads that carry segments fill buffers and say so; a thread of
 * the client's own listens to the server and lets the fabric work, from a connection's begin to its end.
 */
#ifndef KEDGE_STAGE_CLIENT_H
#define KEDGE_STAGE_CLIENT_H

#include "stage/secret.h"

struct kedge__outflow { /* a segment on its way */
	struct kedge__stage_client *client;
	uint32_t number;
	uint64_t connection; /* by which it goes: kedge__stage_client_counters.connections then */
	bool used;
	bool dropped;  /* nobody waits for it any more but the server's answer */
	bool answered; /* the end of it */
	int rc;        /* of it, or why there will be none */
	struct kedge__error err;
	uint64_t bytes;
};

struct kedge__stage_client {
	struct kedge__address *servers;
	size_t server_count, server; /* the one that is tried first */
	struct kedge__auth auth;
	char *name;
	struct kedge__store_id store;
	size_t buffer, buffers;
	double timeout, retry;
	struct kedge__carrier carrier;

	pthread_mutex_t lock; /* over what follows */
	pthread_cond_t news;
	bool connected, ends;    /* ENDS: the listening thread is to end */
	struct kedge__error lost; /* why it is not connected any more */
	unsigned again;          /* times in a row */
	bool may_again;
	struct kedge__talk talk;
	double heard, pinged;
	struct kedge__fabric *fabric; /* the listening thread's, while it is connected */
	struct kedge__port *port;
	struct kedge__fabric_memory memory;
	uint8_t *pool;
	size_t piece;            /* bytes that one may have on this connection */
	bool *busy;              /* buffers that the server has not read yet */
	struct kedge__outflow files[KEDGE__STAGE_FILES];
	struct kedge__worker *listener;
	int wake;
	struct kedge__stage_client_counters seen;
};

/* connection.c. The lock is held. */
int kedge__connection_open(struct kedge__stage_client *c, struct kedge__error *err); /* to the first server that answers; lets go of the lock meanwhile */
void kedge__connection_close(struct kedge__stage_client *c);
void kedge__connection_lost(struct kedge__stage_client *c, const struct kedge__error *err);
int kedge__connection_say(struct kedge__stage_client *c, struct kedge__stage_message *m, struct kedge__error *err);

#endif
