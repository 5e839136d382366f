/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage: segments on their way to L2 by a staging server (docs/STAGING.md). The client puts bytes into registered buffers
 * and asks; the server reads them remotely, writes them to the store, and confirms what is there and synced. Both see
 * one store: only bytes of segments travel, manifests and locks are the job's own.
 */
#ifndef KEDGE_STAGE_STAGE_H
#define KEDGE_STAGE_STAGE_H

#include "store/store.h"
#include "transport/transport.h"

#include <sys/types.h>

bool kedge__stage_built(void);   /* with libfabric and libsodium */
const char *kedge__stage_text(void); /* what of it is there, for `kedge info` */

/* ------------------------------------------------------------------ client.c */

struct kedge__stage_options {
	const char *servers; /* ADDRESS[,ADDRESS...]: the first one that answers */
	const char *auth;    /* kedge__auth_open() */
	uint64_t buffer;     /* bytes of each buffer, */
	size_t buffers;      /* and how many */
	double timeout;      /* seconds without a sign of life until a server counts as lost, */
	double retry;        /* and for which one is looked for until a segment fails */
};

struct kedge__stage_client;

/* For the segments of job NAME in the store with this id. Connects when there is something to carry. */
int kedge__stage_client_new(const struct kedge__stage_options *o, const char *name, const struct kedge__store_id *store, struct kedge__stage_client **out,
			    struct kedge__error *err);
void kedge__stage_client_free(struct kedge__stage_client *c); /* no segment is on its way; takes NULL */
const struct kedge__carrier *kedge__stage_carrier(const struct kedge__stage_client *c);
/* The last segment failed because its server was lost: it may be carried again, by the same or another one, which the next
 * begin() finds out. False after a few times in a row. Takes NULL. */
bool kedge__stage_again(struct kedge__stage_client *c);

struct kedge__stage_client_counters {
	uint64_t bytes, segments; /* confirmed */
	uint64_t connections, lost;
};
struct kedge__stage_client_counters kedge__stage_client_counters(struct kedge__stage_client *c);

/* ------------------------------------------------------------------ server.c */

struct kedge__server_options {
	const char *store;  /* a directory; the store need not be there yet */
	struct kedge__address listen; /* with port 0: any */
	const char *auth;
	uint64_t memory;    /* bytes of all buffers together, at most */
	uint64_t piece;     /* bytes of each */
	unsigned writers;   /* threads that write */
	double rate, client_rate; /* bytes per second in all, and of each client; 0: no limit */
	double timeout;     /* seconds without a word until a client counts as lost */
};

void kedge__server_options_init(struct kedge__server_options *o); /* presets */

struct kedge__server;
int kedge__server_open(const struct kedge__server_options *o, struct kedge__server **out, struct kedge__error *err);
const struct kedge__address *kedge__server_address(const struct kedge__server *s); /* with the port that was taken */
int kedge__server_run(struct kedge__server *s, struct kedge__error *err); /* until it is stopped */
void kedge__server_stop(struct kedge__server *s); /* any thread, and signal handlers */
void kedge__server_close(struct kedge__server *s); /* takes NULL */

/* ------------------------------------------------------------------ what is going on; any thread */

struct kedge__server_client { /* one client */
	char name[KEDGE_NAME_MAX + 1], peer[KEDGE__ADDRESS_TEXT];
	uid_t uid;
	double since;           /* seconds */
	uint64_t bytes_read, bytes_written, segments, failures;
	uint32_t waiting;       /* pieces that were offered and not read yet, */
	uint32_t reading;       /* that are being read, */
	uint32_t writing;       /* and that are being written */
	uint32_t files;         /* open */
	uint64_t version;       /* that it sent last; KEDGE__NO_VERSION: none */
	uint32_t rank;
};

struct kedge__server_version { /* one of which segments have come a moment ago, or are coming */
	char name[KEDGE_NAME_MAX + 1];
	uint64_t version, bytes;
	uint32_t open, segments, failed; /* of its segments, those on their way, stored, and not stored */
	double since, last;     /* seconds that the first has taken so far; since the last one ended */
	uint64_t wall_ns;       /* when the first began */
};

struct kedge__server_status {
	double since; /* seconds that the server has run */
	uint64_t memory, memory_used, memory_most; /* bytes of buffers: the limit, now, and the most so far */
	uint64_t bytes_read, bytes_written, segments, failures, clients_total, refused;
	unsigned writers;
	struct kedge__server_client *clients; /* owned: kedge__server_status_done() */
	size_t client_count;
	struct kedge__server_version *versions; /* owned */
	size_t version_count;
};

int kedge__server_look(struct kedge__server *s, struct kedge__server_status *out, struct kedge__error *err);
void kedge__server_status_done(struct kedge__server_status *st);

/* ------------------------------------------------------------------ drain.c: what a dead job had sealed */

#define KEDGE__DRAIN_OWNER "kedge drain" /* what the lock says meanwhile: a job that opens waits for it */

struct kedge__drain_options {
	bool newest; /* only the newest version, and what it needs */
	struct kedge__io io;
	struct kedge__bucket *bucket;       /* NULL: no pacing */
	struct kedge__stage_client *client; /* NULL: this process writes to L2 */
};

struct kedge__drain_report {
	size_t versions, segments;  /* that are on L2 now */
	uint64_t bytes;
	size_t incomplete;          /* versions whose segments are not all there: other nodes have them */
	size_t failed;
};

/* Bring to TO what FROM has of its newest history and TO lacks. KEDGE_E_LOCKED: the job lives, or may. After another failure what could
 * be done was done. */
int kedge__drain(struct kedge__catalog *from, struct kedge__catalog *to, const struct kedge__drain_options *o, struct kedge__drain_report *report,
		 struct kedge__error *err);

#endif
