/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a staging server; private to stage. One thread, that of kedge__server_run(), has the links, the fabric and
 * all that is below but for what says otherwise. Writers get items, one after the other per file, and give them back.
 *
 *   link -> session.c: messages -> intake.c: reads into buffers, in turn -> writing.c: files -> back: answers
 */
#ifndef KEDGE_STAGE_SERVER_H
#define KEDGE_STAGE_SERVER_H

#include "stage/secret.h"

#define KEDGE__SERVER_SESSIONS 512

struct kedge__slot { /* a buffer of the pool */
	uint8_t *data;
	struct kedge__slot *next; /* of those that are free */
};

enum kedge__item_kind { KEDGE__ITEM_BEGIN, KEDGE__ITEM_PIECE, KEDGE__ITEM_COMMIT, KEDGE__ITEM_DROP, KEDGE__ITEM_NOTHING };
enum kedge__item_state { KEDGE__ITEM_WAITING, KEDGE__ITEM_READING, KEDGE__ITEM_READY };

struct kedge__item { /* something to be done to a file */
	enum kedge__item_kind kind;
	enum kedge__item_state state;
	struct kedge__inflow *file;
	struct kedge__stage_piece piece;
	struct kedge__slot *slot;
	double since;            /* when its read began */
	uint64_t bytes;          /* of the entire file, for COMMIT */
	int rc;                  /* the writer's answer, */
	struct kedge__error err;
	bool first_failure;      /* and no earlier one has failed */
	bool checked, right;     /* of a piece: its bytes are what was sent; under check_lock */
	struct kedge__item *next;      /* in the file, or of those that come back */
	struct kedge__item *next_wait; /* in the session, of those that wait to be read */
};

struct kedge__inflow { /* a file that a client sends */
	struct kedge__session *session;
	bool used;
	struct kedge__stage_begin begin;
	uint64_t asked; /* bytes that were offered so far */
	bool ended;     /* COMMIT or ABORT came */
	bool failed;    /* and was said so */
	double since;
	struct kedge__item *first, *last; /* in order; not with the writer yet */
	size_t out;                       /* that are */
	size_t writer;

	struct kedge__inbound *in; /* the writer's, as what follows */
	uint64_t written;
	int rc;
};

struct kedge__session { /* a client */
	struct kedge__server *server;
	struct kedge__talk talk;
	bool greeted, proved, dead;
	double heard; /* when it said something last */
	uint8_t port_name[KEDGE__STAGE_PORT]; /* of the client's port */
	size_t port_bytes;
	struct kedge__port *port; /* NULL: nothing was read of it yet */
	bool stuck; /* the fabric could not take a read */
	struct kedge__bucket bucket;
	double not_before; /* it has had its share until then */
	struct kedge__inflow files[KEDGE__STAGE_FILES];
	struct kedge__item *wait_first, *wait_last;
	struct kedge__server_client seen; /* its counters */

	pthread_mutex_t lock; /* over what follows, for the writers */
	struct kedge__catalog *cat; /* NULL: not open yet */
};

struct kedge__server {
	struct kedge__server_options o;
	char *store;
	struct kedge__auth auth;
	struct kedge__address bound;
	int listening, wake;
	atomic_bool stop;
	struct kedge__fabric *fabric;
	bool cut; /* a connection ended in the middle of a read */
	uint8_t *pool;
	size_t pool_bytes;
	struct kedge__fabric_memory memory;
	struct kedge__slot *slots, *free;
	size_t slot_count, slots_used;
	struct kedge__bucket bucket;
	double not_before;
	struct kedge__worker **writers;
	struct kedge__worker **checkers; /* who look at pieces before the writers come to them */
	size_t checker; /* whose turn it is */
	pthread_mutex_t check_lock;
	pthread_cond_t checked;
	size_t *load; /* files that each has */
	KEDGE__ARRAY(struct kedge__session *) sessions;
	size_t turn; /* whose it is */
	double since;
	struct kedge__server_status seen; /* its counters */
	KEDGE__ARRAY(struct kedge__server_version) tally; /* tally.c; their times are clock readings */

	pthread_mutex_t lock; /* the thread of run() has it but while it waits: whoever else looks takes it */
	pthread_mutex_t gate; /* both take it first: so the one that has just given up the lock lets the other pass */
	pthread_mutex_t back_lock;
	struct kedge__item *back_first, *back_last; /* items that writers give back */
};

/* session.c */
int kedge__session_new(struct kedge__server *s, struct kedge__session **out, struct kedge__error *err); /* its link is set by the caller */
void kedge__session_free(struct kedge__session *c);
void kedge__session_hear(struct kedge__session *c); /* its link can be read */
void kedge__session_say(struct kedge__session *c, struct kedge__stage_message *m);
void kedge__session_end(struct kedge__session *c, const char *why); /* nothing half done of it will count */
bool kedge__session_gone(const struct kedge__session *c); /* it is dead, and no writer has anything of it */
void kedge__session_back(struct kedge__item *it); /* a writer is done with IT */

/* intake.c */
int kedge__intake_open(struct kedge__server *s, struct kedge__error *err);
int kedge__intake_renew(struct kedge__server *s, struct kedge__error *err); /* another fabric, if this one may be stuck and nobody uses it */
void kedge__intake_close(struct kedge__server *s);
void kedge__intake_wait(struct kedge__session *c, struct kedge__item *it); /* until it is its turn to be read */
void kedge__intake_forget(struct kedge__session *c, const struct kedge__inflow *f); /* those of F, or all, are not read any more */
bool kedge__intake_step(struct kedge__server *s, double now, double *next); /* *NEXT: when to try again; true: something was done */
/* The next client in turn that has something to be read, and may have it read now; NULL: none, or not before *NEXT. */
struct kedge__session *kedge__intake_turn(struct kedge__server *s, double now, double *next);
void kedge__intake_release(struct kedge__server *s, struct kedge__item *it); /* its buffer is free */

/* tally.c */
void kedge__tally_begin(struct kedge__server *s, const struct kedge__inflow *f);
void kedge__tally_end(struct kedge__server *s, const struct kedge__inflow *f, bool stored);
void kedge__tally_tell(struct kedge__server *s, double now); /* versions that are through, and forget them; NOW infinite: all */

/* writing.c */
int kedge__writing_open(struct kedge__server *s, struct kedge__error *err);
void kedge__writing_close(struct kedge__server *s);
void kedge__writing_assign(struct kedge__inflow *f); /* a writer for F */
/* A new item of F, at its end; NULL: no memory. */
struct kedge__item *kedge__item_new(struct kedge__inflow *f, enum kedge__item_kind kind);
void kedge__item_free(struct kedge__item *it);
void kedge__writing_hand(struct kedge__inflow *f); /* what is ready, in order */
struct kedge__item *kedge__writing_back(struct kedge__server *s); /* one that has come back, or NULL */

#endif
