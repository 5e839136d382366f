/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * protect: redundancy on L1, so that the loss of nodes does not cost the versions that were there.
 *
 * A *node* is what fails as one: the ranks on it, and their L1. A *team* is ranks on different nodes that protect each other. A
 * *shield* is the file that each of them keeps for the others, one per version (format.h has its layout). Nothing here knows
 * versions or manifests: whoever calls has files, and a way to move bytes between ranks.
 */
#ifndef KEDGE_PROTECT_PROTECT_H
#define KEDGE_PROTECT_PROTECT_H

#include "base/base.h"
#include "format/format.h"
#include "store/store.h"

/* ------------------------------------------------------------------ scheme.c */

#define KEDGE__SCHEME_TEAM_MAX 32 /* members that a user may ask for; teams may be half as large again */

struct kedge__protection {
	enum kedge__scheme scheme;
	uint32_t members; /* wanted in a team */
	uint32_t parity;  /* that may be lost of it */
};

/* "single", "partner", "xor:8", "rs:4+2"; KEDGE_E_CONFIG says what is allowed. */
int kedge__protection_parse(const char *text, struct kedge__protection *out, struct kedge__error *err);
#define KEDGE__PROTECTION_TEXT 32
/* "xor:8": a team of N members that may lose M. */
const char *kedge__protection_text(enum kedge__scheme scheme, uint32_t members, uint32_t parity, char text[KEDGE__PROTECTION_TEXT]);

/* ------------------------------------------------------------------ teams.c */

struct kedge__seat { /* where a rank is */
	char node[KEDGE__NODE_MAX + 1];
	uint32_t leader; /* of its L1 directory: the same for ranks that share it */
};

/* Ranks fail together if they are on one node, or share an L1. NODE[r] becomes the number of what rank r fails with, from 0 on in the
 * order of first ranks; *COUNT: how many there are. */
int kedge__nodes_number(const struct kedge__seat *seats, uint32_t ranks, uint32_t *node, uint32_t *count, struct kedge__error *err);

/*
 * TEAM[r] becomes the team of rank r, from 0 on: no two ranks of a team have the same NODE, teams differ by at most one member, and
 * have about as many as P asks for. The same input gives the same teams on all ranks. *TEAMS: their number; 0: there are too few
 * nodes, or one has so many ranks that some would be alone. KEDGE_E_NOMEM.
 */
int kedge__teams_form(const struct kedge__protection *p, const uint32_t *node, uint32_t ranks, uint32_t *team, uint32_t *teams,
		      struct kedge__error *err);

/* ------------------------------------------------------------------ code.c, optional/isal.c: the arithmetic */

/* DATA (K units of BYTES) to OUT: unit i is the sum over d of ROWS[i * K + d] times unit d, in GF(2^8) with the polynomial 0x11d.
 * BYTES is a multiple of 64, as the addresses are. TABLES has room for 32 * K * COUNT bytes. */
void kedge__code_apply(uint32_t k, uint32_t count, const uint8_t *rows, uint8_t *tables, size_t bytes, uint8_t *const *data,
		       uint8_t *const *out);
const char *kedge__code_engine(void); /* "ISA-L 2.30", "plain C": bit-identical */
/* Coefficients of the M units of redundancy of a stripe with K units of data: M * K. */
void kedge__code_rows(uint32_t k, uint32_t m, uint8_t *rows);
/*
 * Of the K + M units of a stripe (data first), those with HAVE set are there; of these, *USE becomes the K that are used, ascending.
 * ROWS: for each data unit that is not there, ascending, its coefficients over those. Returns their number; needs no memory. At least
 * K units are there.
 */
uint32_t kedge__code_repair(uint32_t k, uint32_t m, const bool *have, uint32_t *use, uint8_t *rows);

/* ------------------------------------------------------------------ encode.c, rebuild.c: over the ranks of a team
 *
 * Both work row by row. In every step each rank that takes part moves its units by MOVE; all ranks of the group make as many
 * steps, those that have nothing to move with no units. A rank that fails goes on, with whatever is in its buffers, so that
 * nobody waits for it, and says so in the end: nothing here needs memory once it has begun.
 */

typedef int kedge__move_fn(void *ctx, const struct kedge_transfer *send, size_t sends, const struct kedge_transfer *recv, size_t recvs);

/* Ranks that share memory need not copy: a mover may answer where the bytes of RECV are, in OUT, until the next call of this rank. What is
 * sent does not change before the call after the next. */
typedef int kedge__lend_fn(void *ctx, const struct kedge_transfer *send, size_t sends, const struct kedge_transfer *recv, size_t recvs,
			   const uint8_t **out);

struct kedge__mover {
	kedge__move_fn *move;
	void *ctx;
	kedge__lend_fn *lend; /* NULL: it cannot; used to encode, instead of MOVE */
};

struct kedge__team_room { /* buffers for teams of up to MEMBERS, with units of up to UNIT */
	uint32_t members, unit;
	uint8_t *data;   /* what the rank sends: rows of segments and shields; two of a segment, in turn */
	uint8_t *column; /* what it gets: a unit of every member */
	uint8_t *parity; /* made by it, of the last row; two, in turn */
	uint8_t *kept;   /* a row of its shield, or of a segment that is rebuilt */
	uint8_t *tables;
	struct kedge_transfer *send, *recv;
	size_t bytes;
};

/* FILES: of how many members of one team this rank has files, at most. */
int kedge__team_room_init(struct kedge__team_room *room, uint32_t members, uint32_t files, uint32_t unit, struct kedge__error *err);
void kedge__team_room_done(struct kedge__team_room *room);

/* Where the bytes of a segment come from: BYTES of them at AT, at TO or, if the result says so, elsewhere; NULL: it failed. */
struct kedge__unit_source {
	const uint8_t *(*get)(void *ctx, uint64_t at, size_t bytes, uint8_t *to);
	void *ctx;
	uint64_t bytes; /* all that there are; zeroes follow */
};

struct kedge__encoding {
	const struct kedge__shield *shape; /* with the team, and which member this rank is */
	struct kedge__unit_source source;
	int (*put)(void *ctx, uint64_t row, const uint8_t *units, struct kedge__error *err); /* a row of the shield */
	uint8_t *(*place)(void *ctx, uint64_t row); /* NULL, or where it is made, before it is put */
	void *put_ctx;
	struct kedge__mover mover;
	struct kedge__team_room *room;
};

/* SHAPE NULL: this rank is in no team. STEPS: the most rows of any team, and one. Returns KEDGE_E_GROUP if the transport failed,
 * otherwise what PUT or GET failed with. */
int kedge__encode_run(const struct kedge__encoding *e, uint64_t steps, struct kedge__error *err);

#define KEDGE__NO_RANK UINT32_MAX

struct kedge__rebuilding {
	const struct kedge__shield *shape; /* the team; the ranks that were its members share the work, and get what is lost */
	const uint32_t *segment_host;      /* by member: the rank that has its segment; KEDGE__NO_RANK: it is lost */
	const uint32_t *shield_host;       /* the same for its shield */
	uint32_t rank;                     /* this one */
	const struct kedge__unit_source *segment; /* by member: its segment, where this rank is the host */
	const struct kedge__unit_source *shield;  /* by member: the rows of its shield, where this rank is the host */
	int (*put)(void *ctx, uint64_t row, const uint8_t *units, struct kedge__error *err); /* a row of this rank's segment, which is lost */
	void *put_ctx;
	struct kedge__mover mover;
	struct kedge__team_room *room;
};

/* There are enough segments and shields for those that are lost. */
bool kedge__rebuild_possible(const struct kedge__shield *shape, const uint32_t *segment_host, const uint32_t *shield_host);
/* How many members' files RANK has, of those that are used. */
uint32_t kedge__rebuild_files(const struct kedge__rebuilding *r);
/* All ranks of the group make rows + 1 steps. Results as those of kedge__encode_run(). */
int kedge__rebuild_run(const struct kedge__rebuilding *r, struct kedge__error *err);

/* ------------------------------------------------------------------ recovery.c: how the segments of a version come to their ranks
 *
 * Ranks may be placed differently than when the version was taken. A *place* is an L1 directory, known by the rank that leads it;
 * HOME[r] is the place of rank r now. */

struct kedge__item { /* a file of the version that is somewhere */
	uint32_t rank;  /* whose segment it is, or who kept the shield */
	uint32_t place;
	bool bad;       /* it is damaged: as good as lost */
	bool checked;   /* it is not */
	const struct kedge__shield *shield; /* NULL: it is a segment */
};

struct kedge__item_list {
	struct kedge__item *at;
	size_t count, room;
};

enum kedge__way {
	KEDGE__WAY_NONE,    /* it is lost */
	KEDGE__WAY_HERE,    /* it is where it belongs */
	KEDGE__WAY_MOVE,    /* it is at another place */
	KEDGE__WAY_REBUILD, /* it is lost, and the rest of a team has what makes up for it */
};

struct kedge__path { /* of one rank's segment */
	enum kedge__way way;
	size_t item;                       /* HERE, MOVE */
	const struct kedge__shield *shape; /* REBUILD: of the team; NONE: of one that has lost too much, or NULL */
};

/* The rank that reads the item: the one that it belongs to, if that is at the same place, else the place's leader. */
uint32_t kedge__item_host(const struct kedge__item *item, const uint32_t *home);
/* A good one of RANK: of SHAPE, or, if that is NULL, its segment; at HOME if there is one. SIZE_MAX: there is none. */
size_t kedge__item_find(const struct kedge__item_list *items, uint32_t rank, const struct kedge__shield *shape, uint32_t home);
bool kedge__shape_equal(const struct kedge__shield *a, const struct kedge__shield *b); /* of one team, whoever keeps them */
/* Who has the files of SHAPE's members: two lists for kedge__rebuilding. ITEM: which they are (may be NULL), segments, then shields. */
void kedge__team_hosts(const struct kedge__item_list *items, const struct kedge__shield *shape, const uint32_t *home, uint32_t *segment_host,
		       uint32_t *shield_host, size_t *item);
/* OUT[r], for RANKS ranks. */
void kedge__recovery_plan(const struct kedge__item_list *items, const uint32_t *home, uint32_t ranks, struct kedge__path *out);

#endif
