/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Member s of a team works on stripe s: in each step it gets a unit of data from each of the k members that have one in
 * this stripe, makes the m units of redundancy, keeps the first, and in the next step sends the others to those who
 * keep them. So all members work at once, each on its share, and what is in memory does not grow with the segments.
 */
#include "protect/protect.h"

#define ALIGN 64

/* ------------------------------------------------------------------ room */

static size_t round_up(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* A rank sends a unit of each file that it has for each stripe, and what it has made; it gets k units, and a row. */
int kedge__team_room_init(struct kedge__team_room *room, uint32_t members, uint32_t files, uint32_t unit,
			  struct kedge__error *err)
{
	size_t units = (size_t)members * round_up(unit), tables = round_up((size_t)32 * members * members);
	size_t sends = (size_t)members * (2 * KEDGE__MAX(files, 1) + 1), data = units * 2 * KEDGE__MAX(files, 1);
	uint8_t *at;

	*room = (struct kedge__team_room){.members = members, .unit = unit, .bytes = data + 4 * units + tables};
	at = kedge__map_alloc(room->bytes);
	room->send = kedge__calloc(sends, sizeof(*room->send));
	room->recv = kedge__calloc((size_t)members * 3, sizeof(*room->recv));
	room->data = at;
	if (!at || !room->send || !room->recv) {
		kedge__team_room_done(room);
		return kedge__error_nomem(err);
	}
	room->column = at + data;
	room->parity = room->column + units;
	room->kept = room->parity + 2 * units;
	room->tables = room->kept + units;
	return 0;
}

void kedge__team_room_done(struct kedge__team_room *room)
{
	if (room->data)
		kedge__map_free(room->data, room->bytes);
	kedge__free(room->send);
	kedge__free(room->recv);
	*room = (struct kedge__team_room){0};
}

/* ------------------------------------------------------------------ encode */

struct step {
	const struct kedge__encoding *e;
	uint32_t n, m, k, unit, self;
	uint8_t rows[KEDGE__TEAM_MOST * KEDGE__TEAM_MOST];
	struct kedge_transfer *send, *recv;
	size_t sends, recvs;
	const uint8_t *got[3 * KEDGE__TEAM_MOST]; /* where what was received is */
	uint8_t *data, *parity;                   /* of this step */
	uint8_t *kept;                            /* the row of the shield that is made */
	struct kedge__error problem;
	int rc;
};

static int rank_of(const struct step *s, uint32_t member)
{
	return (int)s->e->shape->at[member % s->n].rank;
}

static void add(struct kedge_transfer *list, size_t *count, int rank, void *data, size_t bytes)
{
	list[(*count)++] = (struct kedge_transfer){rank, data, bytes};
}

/* This rank's row of its segment, with zeroes behind its end. */
static const uint8_t *row_get(struct step *s, uint64_t row)
{
	const struct kedge__unit_source *source = &s->e->source;
	size_t bytes = (size_t)s->k * s->unit, there;
	uint64_t at = row * bytes;
	uint8_t *to = s->data;
	const uint8_t *got = to;

	there = at >= source->bytes ? 0 : (size_t)KEDGE__MIN(bytes, source->bytes - at);
	if (there && !s->rc) {
		got = source->get(source->ctx, at, there, to);
		if (!got)
			s->rc = kedge__error_set(&s->problem, KEDGE_E_IO, 0, "the segment cannot be read");
	}
	if (!got || s->rc)
		return to;
	if (there == bytes)
		return got;
	if (got != to)
		memcpy(to, got, there);
	memset(to + there, 0, bytes - there);
	return to;
}

/* Unit d goes to the member that works on its stripe; from the others come those of the own stripe. */
static void data_add(struct step *s, uint64_t row)
{
	const uint8_t *own = row_get(s, row);

	for (uint32_t d = 0; d < s->k; d++) {
		add(s->send, &s->sends, rank_of(s, s->self + 2 * s->n - s->m - d), (void *)(own + (size_t)d * s->unit),
		    s->unit);
		add(s->recv, &s->recvs, rank_of(s, s->self + s->m + d), s->e->room->column + (size_t)d * s->unit,
		    s->unit);
	}
}

/* Of the row before: number j of stripe s is kept by member s + j. */
static void parity_add(struct step *s)
{
	for (uint32_t j = 1; j < s->m; j++) {
		add(s->send, &s->sends, rank_of(s, s->self + j), s->parity + (size_t)j * s->unit, s->unit);
		add(s->recv, &s->recvs, rank_of(s, s->self + s->n - j), s->kept + (size_t)j * s->unit, s->unit);
	}
}

/* FIRST: of the units that came, where the data begins. */
static void row_code(struct step *s, uint64_t row, size_t first)
{
	const struct kedge__encoding *e = s->e;
	const struct kedge__team_room *room = e->room;
	uint8_t *data[KEDGE__TEAM_MOST], *out[KEDGE__TEAM_MOST];

	for (uint32_t d = 0; d < s->k; d++)
		data[d] = (uint8_t *)s->got[first + d];
	s->kept = e->place ? e->place(e->put_ctx, row) : room->kept; /* what was there before is put */
	out[0] = s->kept;
	for (uint32_t j = 1; j < s->m; j++)
		out[j] = s->parity + (size_t)j * s->unit;
	kedge__code_apply(s->k, s->m, s->rows, room->tables, s->unit, data, out);
}

static int move(struct step *s)
{
	const struct kedge__mover *mover = &s->e->mover;

	for (size_t i = 0; i < s->recvs; i++)
		s->got[i] = s->recv[i].data;
	return mover->lend ? mover->lend(mover->ctx, s->send, s->sends, s->recv, s->recvs, s->got)
			   : mover->move(mover->ctx, s->send, s->sends, s->recv, s->recvs);
}

static int row_put(struct step *s, uint64_t row)
{
	const struct kedge__encoding *e = s->e;

	for (uint32_t j = 1; j < s->m; j++)
		if (s->got[j - 1] != s->recv[j - 1].data)
			memcpy(s->recv[j - 1].data, s->got[j - 1], s->unit);
	return s->rc ? s->rc : e->put(e->put_ctx, row, s->kept, &s->problem);
}

static int one_step(struct step *s, uint64_t t)
{
	const struct kedge__team_room *room = s->e->room;
	const uint64_t rows = s->e->shape ? s->e->shape->rows : 0;
	const bool before = t >= 1 && t <= rows;
	size_t first;

	s->sends = s->recvs = 0;
	if (before)
		parity_add(s);
	first = s->recvs;
	s->data = room->data + (t % 2) * s->k * s->unit;
	if (t < rows)
		data_add(s, t);
	if (move(s))
		return kedge__error_set(&s->problem, KEDGE_E_GROUP, 0, "the group's transport failed");
	if (before)
		s->rc = row_put(s, t - 1);
	s->parity = room->parity + (t % 2) * s->m * s->unit;
	if (t < rows)
		row_code(s, t, first);
	return 0;
}

int kedge__encode_run(const struct kedge__encoding *e, uint64_t steps, struct kedge__error *err)
{
	const struct kedge__shield *shape = e->shape;
	struct step s = {.e = e, .send = e->room->send, .recv = e->room->recv};
	int met = 0;

	if (shape) {
		s.n = shape->members;
		s.m = shape->parity;
		s.k = s.n - s.m;
		s.unit = shape->unit;
		s.self = shape->self;
		kedge__code_rows(s.k, s.m, s.rows);
	}
	for (uint64_t t = 0; t < steps && !met; t++)
		met = one_step(&s, t);
	kedge__error_move(err, &s.problem);
	kedge__error_done(&s.problem);
	return met ? met : s.rc;
}
