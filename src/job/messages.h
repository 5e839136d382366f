/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * messages: what the ranks of a job send to each other. Private to job; docs/PROTOCOL.md has their order.
 *
 * All messages have the same size, whatever the step, so that ranks at different steps notice it instead of mixing their data.
 * All ranks get the fold of all messages: a minimum, a maximum, a union, the first error, and rank 0's decisions. A fold is
 * associative and needs no memory: it may run along a tree, so that no rank receives a message from every other.
 */
#ifndef KEDGE_JOB_MESSAGES_H
#define KEDGE_JOB_MESSAGES_H

#include "base/base.h"
#include "format/format.h"

#define KEDGE__MSG_BYTES   1024
#define KEDGE__MSG_KEYS    32   /* versions that one message can name */
#define KEDGE__MSG_SOURCES 4096 /* versions that a new one may refer to: one bit each */

/* A version as a set: the same number may stand for different sets on two levels after a restart. */
struct kedge__set_key {
	uint64_t version;
	uint64_t id; /* over the image ids of all ranks: survives coalescing and copying */
};

/*
 * Every step: its name, the call of the application that it belongs to (for the message when ranks are out of step), and
 * what the exchange decides.
 */
#define KEDGE__STEPS(STEP)                                                                                              \
	STEP(OPEN, "kedge_open", "every rank has its settings and an L1")                                               \
	STEP(MEET, "kedge_open", "who leads which L1 directory; whether settings agree")                                \
	STEP(OWN, "kedge_open", "every leader owns its directory")                                                      \
	STEP(LEVEL, "kedge_open", "whether all ranks see one L2, and which")                                            \
	STEP(TEAMS, "kedge_open", "every rank knows who protects whom")                                                 \
	STEP(RECOVER, "kedge_open", "whether files on L1 are missing, or are where they do not belong, and how they come back") \
	STEP(PAST, "kedge_open", "every rank has read what is stored")                                                  \
	STEP(COMMON, "kedge_open", "which stored versions every rank has")                                              \
	STEP(SHARE, "kedge_open", "bytes of one rank reach all")                                                        \
	STEP(CLOSE, "kedge_close", "nobody writes any more")                                                            \
	STEP(SHOULD, "kedge_should_checkpoint", "now or later: rank 0's answer")                                        \
	STEP(BEGIN, "kedge_checkpoint", "the version may be taken; its run; whether all ranks hold the same on L1")     \
	STEP(CAPTURE, "kedge_checkpoint", "every rank's image is held: the rest is done in the background, or at once") \
	STEP(SEAL, "kedge_checkpoint", "every segment is sealed; what the set refers to")                                \
	STEP(PUBLISH, "kedge_checkpoint", "every leader has published the set; whether it goes to L2, and how")         \
	STEP(SEEN, "kedge_checkpoint", "every rank sees the set in its directory")                                      \
	STEP(WITHDRAW, "kedge_checkpoint", "a set that some directory lacks is gone everywhere")                        \
	STEP(PROTECT, "kedge_checkpoint", "every rank can make its shield; how many steps that takes")                   \
	STEP(SHIELDED, "kedge_checkpoint", "every rank has its shield")                                                 \
	STEP(FLUSH, "kedge_wait", "every rank's segment is on L2")                                                      \
	STEP(FLUSH_FILL, "kedge_wait", "every rank's segment is in its place in a bundle on L2")                        \
	STEP(FLUSH_NAME, "kedge_wait", "every bundle on L2 has its name")                                               \
	STEP(FLUSH_PUBLISH, "kedge_wait", "rank 0 has published the set on L2")                                         \
	STEP(FLUSH_READY, "kedge_wait", "whether every rank has finished its part of the next step in the background")  \
	STEP(TRIM, "kedge_wait", "whether old versions are left that pins kept from being removed")                     \
	STEP(RESTART, "kedge_restart", "which run is the present one; which versions every rank has")                   \
	STEP(RESTART_CHECK, "kedge_restart", "every rank can open the version")                                         \
	STEP(RESTART_FILL, "kedge_restart", "every rank has its bytes back")                                            \
	STEP(DISCARD, "kedge_discard", "the versions are gone everywhere")

enum kedge__step {
	KEDGE__STEP_NONE,
#define KEDGE__STEP_MEMBER(name, call, decides) KEDGE__STEP_##name,
	KEDGE__STEPS(KEDGE__STEP_MEMBER)
#undef KEDGE__STEP_MEMBER
	KEDGE__STEP_COUNT
};

const char *kedge__step_name(enum kedge__step step);
const char *kedge__step_call(enum kedge__step step);

/* What every message begins with. In a fold: of all ranks so far. */
struct kedge__msg_head {
	uint32_t step;
	int32_t rank;   /* the lowest that is in it */
	uint64_t version;
	uint64_t flags; /* a union */
	int32_t failed; /* the lowest rank that failed; -1: none */
	int32_t code;   /* its error */
	int32_t odd;    /* the lowest rank at another step or version than the others; -1: none */
	uint32_t odd_step;
	uint64_t odd_version;
	char text[176]; /* what FAILED says */
};

/* Steps on which nothing more is said than whether all succeeded. */
struct kedge__plain_msg {
	struct kedge__msg_head head;
};

/* The run of which a rank sees the latest version; in a fold the latest of all. */
struct kedge__run_head {
	uint64_t epoch, created_ns, id, links;
	int32_t rank;    /* that has it */
	uint32_t differ; /* some rank has another one */
};

struct kedge__run_draw { /* what a new run is made of */
	uint64_t id, ns; /* since 1970, UTC */
};

/* A number that has to be the same on all ranks. */
struct kedge__msg_same {
	uint64_t value;
	int32_t rank, other; /* of the lowest rank, and of the lowest that has another value; -1: none has */
};

#define KEDGE__MEET_SETTINGS 11 /* that have to be the same on all ranks; meet.c */

struct kedge__meet_msg {
	struct kedge__msg_head head;
	struct kedge__msg_same settings[KEDGE__MEET_SETTINGS];
	struct kedge__msg_same leader; /* of the rank's directory */
	uint64_t followers;            /* some rank does not lead its directory: a union */
	uint64_t nonce;                /* rank 0's, of the probes of this meeting */
	int32_t watcher;               /* the lowest rank that sees the file of requests of `kedge run`; -1: none does */
	uint32_t unused;
	struct kedge__store_id id;     /* rank 0's: of its L1 */
};

struct kedge__begin_msg {
	struct kedge__msg_head head;
	struct kedge__msg_same held; /* a digest of what the rank holds on L1 */
	struct kedge__run_head run;
	struct kedge__run_draw drawn; /* rank 0's, for a run that begins */
	uint64_t after;               /* above all stored versions that count: a maximum */
	uint64_t skip;                /* rank 0's: questions to the policy that need no answer */
	char why[400];                /* of the lowest rank that has one: why the version is taken now; empty: the application asked for it */
	char note[KEDGE_NOTE_MAX + 1]; /* rank 0's: what the application says of it; empty: nothing */
};

struct kedge__common_msg {
	struct kedge__msg_head head;
	struct kedge__msg_same list;     /* a digest of the rank's list */
	uint64_t count;                  /* rank 0's: versions in its list */
	uint64_t mask;                   /* bit i: all ranks have version i of the message before */
	struct kedge__set_key keys[KEDGE__MSG_KEYS]; /* rank 0's: the next versions in its list */
};

struct kedge__share_msg {
	struct kedge__msg_head head;
	int32_t from; /* the rank whose bytes these are; -1: none of those in the fold */
	uint32_t bytes;
	char data[640];
};

struct kedge__seal_msg {
	struct kedge__msg_head head;
	uint64_t created_ns; /* rank 0's */
	uint64_t parent;     /* plus 1, the newest that any rank has; 0: none */
	double seconds;      /* the longest that a rank was blocked */
	uint32_t reducer;    /* rank 0's */
	uint32_t unused;
	uint64_t sources[KEDGE__MSG_SOURCES / 64]; /* bit i: some rank refers to referable version i */
};

/* Rank 0's answer for L2; retention.h. */
struct kedge__l2_msg {
	uint32_t due, form;
	uint64_t parent;
};

struct kedge__publish_msg {
	struct kedge__msg_head head;
	struct kedge__l2_msg l2;
};

struct kedge__flush_msg {
	struct kedge__msg_head head;
	struct kedge__msg_same written; /* a digest of which versions the rank wrote, and in which form */
	uint64_t refers;                /* some rank's segment needs the parent */
};

/* A rank and what it sees at the path of L2. */
struct kedge__level_witness {
	int32_t rank;   /* -1: there is none */
	uint32_t sight; /* enum kedge__sight */
	struct kedge__store_id id;
	char host[64];
};

struct kedge__level_msg {
	struct kedge__msg_head head;
	uint64_t nonce;                      /* rank 0's, of its probe on L2 */
	uint32_t refuse;                     /* some rank does not accept another L2 than that of its L1: a union */
	int32_t bad;                         /* the lowest rank that cannot use what is there; -1: none */
	int32_t code;                        /* its error, and what it says */
	char text[412];
	struct kedge__level_witness with;    /* the lowest rank that sees a store, */
	struct kedge__level_witness without; /* and that sees none */
	struct kedge__level_witness known;   /* the lowest rank that knows the store's id, */
	struct kedge__level_witness other;   /* and that knows another id */
};

struct kedge__restart_msg {
	struct kedge__msg_head head;
	struct kedge__run_head run;
	uint64_t after;               /* a maximum */
	struct kedge__msg_same held;  /* a digest of what the rank holds on both levels */
};

struct kedge__protect_msg { /* of TEAMS, RECOVER, PROTECT */
	struct kedge__msg_head head;
	uint64_t most;               /* a maximum: of steps, of bytes */
	struct kedge__msg_same same; /* a digest of what every rank holds on L1 */
};

union kedge__msg {
	struct kedge__msg_head head;
	struct kedge__plain_msg plain;
	struct kedge__meet_msg meet;
	struct kedge__level_msg level;
	struct kedge__begin_msg begin;
	struct kedge__common_msg common;
	struct kedge__share_msg share;
	struct kedge__seal_msg seal;
	struct kedge__publish_msg publish;
	struct kedge__flush_msg flush;
	struct kedge__restart_msg restart;
	struct kedge__protect_msg protect;
	char room[KEDGE__MSG_BYTES];
};

_Static_assert(sizeof(union kedge__msg) == KEDGE__MSG_BYTES, "a message has grown");

/* Fold OTHER into ACC. Any order of folds of the same messages gives the same. Signature as kedge_group's. */
void kedge__msg_fold(void *acc, const void *other);

void kedge__msg_same_set(struct kedge__msg_same *same, int rank, uint64_t value);
/* Whether the value is the same on all ranks; if not, BETWEEN is two ranks that differ. */
bool kedge__msg_same_is(const struct kedge__msg_same *same, int between[2]);

#endif
