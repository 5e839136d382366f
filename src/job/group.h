/*
 * group: how the ranks of a job agree. Private to job.
 *
 * All ranks take the same steps in the same order on a channel; every message names its step and version, so that ranks
 * that call different things find out instead of mixing their data. A job of one rank agrees with itself at no cost.
 * A rank without memory never keeps the others waiting: a channel has room for small messages, and more only when all
 * ranks have it.
 */
#ifndef KEDGE_JOB_GROUP_H
#define KEDGE_JOB_GROUP_H

#include "base/base.h"

struct kedge__channel {
	const struct kedge_group *group;
	void *ctx;  /* the group's, or its background one */
	char *room; /* for a message of every rank, and one more of this rank */
	size_t bytes;
};

/* GROUP outlives it. KEDGE_E_NOMEM: the others are left alone with it. */
int kedge__channel_init(struct kedge__channel *ch, const struct kedge_group *group, void *ctx, struct kedge__error *err);
void kedge__channel_done(struct kedge__channel *ch);

enum kedge__step {
	KEDGE__STEP_OPEN = 1,
	KEDGE__STEP_CLOSE,
	KEDGE__STEP_CHECKPOINT,
	KEDGE__STEP_DISCARD,
	KEDGE__STEP_VERSIONS,
	KEDGE__STEP_CAPTURE,
	KEDGE__STEP_WRITE,
	KEDGE__STEP_PUBLISH,
	KEDGE__STEP_WITHDRAW,
	KEDGE__STEP_FLUSH,
	KEDGE__STEP_FLUSH_PUBLISH,
	KEDGE__STEP_WAIT,
	KEDGE__STEP_RESTART,
	KEDGE__STEP_RESTART_CHECK,
	KEDGE__STEP_RESTART_FILL,
	KEDGE__STEP_RESTART_LEVEL,
	KEDGE__STEP_SHOULD,
	KEDGE__STEP_ROOM,
	KEDGE__STEP_RUN,
	KEDGE__STEP_LEVEL,
	KEDGE__STEP_SEEN,
};

/* What every rank says at a step; larger messages begin with it. */
struct kedge__say {
	uint32_t step;
	int32_t code;
	uint64_t version;
	uint64_t flags;
	char text[232];
};

/* Begin a message of BYTES, the same on all ranks: *SLOT, all zero, is this rank's, to be filled in. On failure, all fail. */
int kedge__channel_begin(struct kedge__channel *ch, size_t bytes, void **slot, struct kedge__error *err);
/* What was filled in goes to all: rank r's is at *ALL + r * BYTES until the next message. KEDGE_E_GROUP: the transport failed. */
int kedge__channel_gather(struct kedge__channel *ch, size_t bytes, void **all, struct kedge__error *err);
void kedge__say_set(struct kedge__say *say, enum kedge__step step, uint64_t version, int rc, const struct kedge__error *err);
/*
 * Judge what was gathered (rank r's at ALL + r * STRIDE): 0 if all succeeded; a rank that failed gets its own code and
 * keeps its own error, the others KEDGE_E_GROUP with "rank 3: ...".
 */
int kedge__say_judge(const struct kedge__channel *ch, const void *all, size_t stride, struct kedge__error *err);
/* Tell all how this rank fared, RC with ERR, and learn how all did. *FLAGS (may be NULL) become the union of all ranks'. */
int kedge__channel_agree(struct kedge__channel *ch, enum kedge__step step, uint64_t version, int rc,
			 uint64_t *flags, struct kedge__error *err);

/* A version as a set: the same number may stand for different sets on two levels after a restart. */
struct kedge__set_key {
	uint64_t version;
	uint64_t id; /* over the image ids of all ranks: survives coalescing and copying */
};
/* Keep of LIST (ascending) what every rank has. */
int kedge__channel_common(struct kedge__channel *ch, struct kedge__set_key *list, size_t *count,
			  struct kedge__error *err);

#endif
