/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group: how the ranks of a job agree. Private to job.
 *
 * All ranks take the same steps in the same order on a channel (messages.h). Nothing here allocates once a channel exists: a
 * rank that is out of memory takes part in every step, reports it, and keeps nobody waiting. For a job of one rank an
 * exchange costs nothing.
 */
#ifndef KEDGE_JOB_GROUP_H
#define KEDGE_JOB_GROUP_H

#include "job/messages.h"

struct kedge__channel {
	const struct kedge_group *group;
	void *ctx;  /* the group's, or its background one */
	char *room; /* for one message per rank; NULL: the group has reduce() and gather() */
	uint64_t exchanges, gathers; /* so far */
};

struct kedge__channels {
	struct kedge__channel front; /* for the calls of the application, and the writer */
	struct kedge__channel back;  /* for the flusher */
	bool writer_speaks, flusher_speaks; /* the writer / the flusher may exchange messages itself */
};

/* GROUP outlives them. */
int kedge__channels_init(struct kedge__channels *c, const struct kedge_group *group);
void kedge__channels_done(struct kedge__channels *c);

/* GROUP outlives it. KEDGE_E_NOMEM: the other ranks do not know. */
int kedge__channel_init(struct kedge__channel *ch, const struct kedge_group *group, void *ctx, struct kedge__error *err);
void kedge__channel_done(struct kedge__channel *ch);

/*
 * Every rank says how it fared, RC with ERR, and what MSG has; MSG, whose head is filled in here, becomes the fold of all.
 * Returns RC if this rank failed, and leaves ERR as it is; else 0, or KEDGE_E_GROUP with "rank 3: ..." or that ranks are out
 * of step or cannot reach each other.
 */
int kedge__exchange(struct kedge__channel *ch, enum kedge__step step, uint64_t version, int rc, union kedge__msg *msg,
		    struct kedge__error *err);
/* The same without a body. *FLAGS (may be NULL) become the union of all ranks'. */
int kedge__agree(struct kedge__channel *ch, enum kedge__step step, uint64_t version, int rc, uint64_t *flags, struct kedge__error *err);
/* BYTES of every rank, at most KEDGE__MSG_BYTES, in the order of ranks: ALL of rank ROOT, or, if ROOT is -1, of every rank. */
int kedge__gather(struct kedge__channel *ch, int root, const void *own, size_t bytes, void *all, struct kedge__error *err);
/* Send DATA of rank ROOT to all ranks; NULL: this rank has no room for it, but takes part. */
int kedge__share(struct kedge__channel *ch, int root, void *data, size_t bytes, struct kedge__error *err);
/*
 * Bytes from rank to rank, by the group's transfer(), or, if it has none, in letters that all ranks get. Signature of
 * kedge__courier_move() as kedge_group's transfer(), with a courier as the context; as there, all ranks make the same calls.
 * KEDGE_E_NOMEM: the other ranks do not know.
 */
struct kedge__courier {
	struct kedge__channel *ch;
	char *own, *all;     /* letters; NULL: the group has transfer() */
	size_t *next, *done; /* by rank: which of what comes from it is next, and how much of that is there */
};

int kedge__courier_init(struct kedge__courier *c, struct kedge__channel *ch, struct kedge__error *err);
void kedge__courier_done(struct kedge__courier *c);
int kedge__courier_move(void *courier, const struct kedge_transfer *send, size_t sends, const struct kedge_transfer *recv, size_t recvs);

/* A text of every rank, for all. */
struct kedge__texts {
	char *rooms;
	size_t room;
};

/* OWN, of any number of bytes. A rank that has failed (RC) takes part, and all fail. One kedge__texts_done(). */
int kedge__spread(struct kedge__channel *ch, int rc, const void *own, size_t bytes, struct kedge__texts *out, struct kedge__error *err);
const char *kedge__texts_at(const struct kedge__texts *t, int rank, size_t *bytes);
void kedge__texts_done(struct kedge__texts *t);

/* Reduce LIST to what every rank has, in the order of rank 0's list. */
int kedge__common(struct kedge__channel *ch, struct kedge__set_key *list, size_t *count, struct kedge__error *err);

#endif
