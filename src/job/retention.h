/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * retention: what a version may refer to, how it goes to L2, and what may be removed. Private to job.
 *
 * Pure functions over the holdings of the levels, the settings and the measured costs: no clock, no lock, no catalogue, no I/O;
 * equal inputs give equal answers on all ranks. Each question is asked once per version: what it may refer to, when it is taken;
 * how it goes to L2, by rank 0 when it is sealed; which versions to rewrite so that old ones can be removed, afterwards. The
 * answers travel with the version.
 */
#ifndef KEDGE_JOB_RETENTION_H
#define KEDGE_JOB_RETENTION_H

#include "job/job.h"
#include "job/messages.h"

struct kedge__retention_rules {
	size_t keep, l2_keep; /* of the newest versions, whatever their times are; 0: all */
	bool l1_coalesces;    /* one rank can rewrite the versions of all on L1 */
	enum kedge__coalesce_mode coalesce;
	uint64_t l2_every;    /* 0: the policy decides, and the first version goes at once */
	int64_t l2_interval;  /* seconds; negative: none goes to L2 */
};

/* ------------------------------------------------------------------ what a new version may refer to */

struct kedge__reach { /* the anchor, and all usable versions from FROM on; NO_VERSION, both: none, and it is self-contained */
	uint64_t from, anchor;
	bool renewed; /* it refers to none, so that old versions can be removed */
};

/* VERSION is above all versions that count; others are skipped. */
struct kedge__reach kedge__retention_reach(const struct kedge__holdings *l1, const struct kedge__retention_rules *rules, uint64_t version);
static inline bool kedge__reach_has(const struct kedge__reach *r, uint64_t version)
{
	return version == r->anchor || version >= r->from;
}

/* ------------------------------------------------------------------ whether and how it goes to L2 */

enum kedge__l2_form {
	KEDGE__L2_COPY,           /* unchanged; with coalesce = never, together with those that it needs */
	KEDGE__L2_DELTA,          /* the changes since PARENT, as one segment */
	KEDGE__L2_SELF_CONTAINED, /* as one segment that needs no other version */
};

/* The state that decides when the next version goes to L2; kept by rank 0. */
struct kedge__l2_turn {
	uint64_t since;   /* versions since the last one that went */
	uint64_t last_ns; /* when that one was taken; 0: there was none */
	bool bare;        /* L2 has no version, and none is on its way */
};

/* Whether a version that was taken at CREATED_NS goes, when every EVERY-th does. */
bool kedge__retention_due(const struct kedge__l2_turn *turn, const struct kedge__retention_rules *rules, uint64_t every, uint64_t created_ns);

struct kedge__l2_answer {
	enum kedge__l2_form form;
	uint64_t parent;       /* on both levels; KEDGE__NO_VERSION: it refers to none */
	size_t batch;          /* versions since the parent that it needs, itself included */
	struct kedge__l2_chain chain;
	char why[KEDGE__POLICY_TEXT + 200];
};

/* VERSION, taken with REACH, is held by L1; L2 has what is there and what is on its way. It may have VERSION, and
 * be able to give it back: then nothing is to be done (COPY). */
int kedge__retention_l2(const struct kedge__holdings *l1, const struct kedge__holdings *l2, const struct kedge__retention_rules *rules,
			const struct kedge__reach *reach, const struct kedge__l2_costs *costs, uint64_t version, struct kedge__l2_answer *out,
			struct kedge__error *err);
/* Before it is written, as far as can be told: VERSION, which needs NEEDS of L1, may go to L2 unchanged (COPY). */
bool kedge__retention_as_it_is(const struct kedge__holdings *l1, const struct kedge__holdings *l2, uint64_t version, const uint64_t *needs,
			       size_t need_count);
/* L2 holds the very version that L1 holds. */
bool kedge__retention_on_l2(const struct kedge__holdings *l1, const struct kedge__holdings *l2, uint64_t version);

/* ------------------------------------------------------------------ what is rewritten so that old versions can go */

/* How many versions above KEEP are tolerated before coalescing is worth its reading and writing. */
size_t kedge__retention_slack(size_t keep);

struct kedge__fold { /* KEDGE__NO_VERSION: not to be done */
	uint64_t bottom;  /* becomes self-contained */
	uint64_t version; /* becomes a delta to ONTO, after that */
	uint64_t onto;
};

/* LEVEL holds what is left after old versions went, SPARE of them only because others refer to them; L2, or NULL, is where deltas
 * go from it. NOW: there is no room for them, however few they are. */
struct kedge__fold kedge__retention_fold(const struct kedge__holdings *level, const struct kedge__holdings *l2, size_t keep, size_t spare,
					 bool now);

#endif
