/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of each stripe k units are enough. The ranks that are the team's members share the work: member s gets k units of
 * stripe s from the ranks that have the files, makes those that are lost, and in the next step sends each to the member
 * whose segment it belongs to.
 */
#include "protect/protect.h"

struct stripe {
	uint32_t made;                   /* data units that are lost; if there are any: */
	uint8_t makes[KEDGE__TEAM_MOST]; /* which, ascending, */
	uint8_t use[KEDGE__TEAM_MOST];   /* and the k units, data first, of which they are made */
};

struct work {
	const struct kedge__rebuilding *r;
	uint32_t n, m, k, unit;
	uint32_t self; /* the member that this rank is; N: none */
	struct stripe stripes[KEDGE__TEAM_MOST];
	uint8_t rows[KEDGE__TEAM_MOST * KEDGE__TEAM_MOST]; /* coefficients for the own stripe */
	struct kedge_transfer *send, *recv;
	size_t sends, recvs;
	size_t used; /* units of the buffer for what is sent */
	struct kedge__error problem;
	int rc;
};

/* Unit U of stripe S: whose, which of its row, and of which of its files. */
struct unit_place {
	uint32_t member, index;
	bool shield;
};

static struct unit_place unit_find(const struct work *w, uint32_t s, uint32_t u)
{
	if (u < w->k)
		return (struct unit_place){(s + w->m + u) % w->n, u, false};
	return (struct unit_place){(s + u - w->k) % w->n, u - w->k, true};
}

static uint32_t host_of(const struct work *w, struct unit_place p)
{
	return p.shield ? w->r->shield_host[p.member] : w->r->segment_host[p.member];
}

static uint32_t rank_of(const struct work *w, uint32_t member)
{
	return w->r->shape->at[member].rank;
}

static void shape_set(struct work *w, const struct kedge__shield *shape)
{
	w->n = shape->members;
	w->m = shape->parity;
	w->k = w->n - w->m;
	w->unit = shape->unit;
}

/* False: too little is there. */
static bool stripe_plan(const struct work *w, uint32_t s, struct stripe *out, bool *have)
{
	uint32_t used = 0;

	*out = (struct stripe){0};
	for (uint32_t u = 0; u < w->n; u++) {
		have[u] = host_of(w, unit_find(w, s, u)) != KEDGE__NO_RANK;
		if (have[u] && used < w->k)
			out->use[used++] = (uint8_t)u;
		else if (!have[u] && u < w->k)
			out->makes[out->made++] = (uint8_t)u;
	}
	return !out->made || used == w->k;
}

bool kedge__rebuild_possible(const struct kedge__shield *shape, const uint32_t *segment_host,
			     const uint32_t *shield_host)
{
	const struct kedge__rebuilding r = {.shape = shape, .segment_host = segment_host, .shield_host = shield_host};
	struct work w = {.r = &r};
	bool have[KEDGE__TEAM_MOST], possible = true;
	struct stripe s;

	shape_set(&w, shape);
	for (uint32_t i = 0; i < w.n; i++)
		possible = possible && stripe_plan(&w, i, &s, have);
	return possible;
}

uint32_t kedge__rebuild_files(const struct kedge__rebuilding *r)
{
	uint32_t files = 0;

	for (uint32_t i = 0; i < r->shape->members; i++)
		files += r->segment_host[i] == r->rank || r->shield_host[i] == r->rank;
	return files;
}

/* ------------------------------------------------------------------ steps */

/* The unit at AT, with zeroes behind the end: at TO, or where the source has it. */
static const uint8_t *unit_get(struct work *w, const struct kedge__unit_source *source, uint64_t at, uint8_t *to)
{
	size_t there = at >= source->bytes ? 0 : (size_t)KEDGE__MIN(w->unit, source->bytes - at);
	const uint8_t *got = to;

	if (there && !w->rc) {
		got = source->get(source->ctx, at, there, to);
		if (!got)
			w->rc = kedge__error_set(&w->problem, KEDGE_E_IO, 0, "a file of the team cannot be read");
	}
	if (got && there == w->unit)
		return got;
	if (got && got != to)
		memcpy(to, got, there);
	memset(to + there, 0, w->unit - there);
	return to;
}

static void add(struct kedge_transfer *list, size_t *count, uint32_t rank, void *data, size_t bytes)
{
	list[(*count)++] = (struct kedge_transfer){(int)rank, data, bytes};
}

/* What this rank has of stripe S, for the rank that works on it. */
static void stripe_send(struct work *w, uint32_t s, uint64_t row)
{
	const struct kedge__rebuilding *r = w->r;
	const struct stripe *plan = &w->stripes[s];

	for (uint32_t i = 0; plan->made && i < w->k; i++) {
		struct unit_place p = unit_find(w, s, plan->use[i]);
		uint8_t *to = r->room->data + w->used * w->unit;

		if (host_of(w, p) != r->rank)
			continue;
		add(w->send, &w->sends, rank_of(w, s),
		    (void *)unit_get(w, p.shield ? &r->shield[p.member] : &r->segment[p.member],
				     (row * (p.shield ? w->m : w->k) + p.index) * w->unit, to),
		    w->unit);
		w->used++;
	}
}

/* As the rank that works on its stripe: what it uses, in the order in which each host sends it. */
static void stripe_recv(struct work *w)
{
	const struct stripe *plan = &w->stripes[w->self];

	for (uint32_t i = 0; plan->made && i < w->k; i++)
		add(w->recv, &w->recvs, host_of(w, unit_find(w, w->self, plan->use[i])),
		    w->r->room->column + (size_t)i * w->unit, w->unit);
}

/* Of the row before: what was made here goes to whom it belongs, and from the others comes a row of what is lost here.
 */
static void made_pass(struct work *w)
{
	const struct kedge__team_room *room = w->r->room;

	for (uint32_t i = 0; i < w->stripes[w->self].made; i++)
		add(w->send, &w->sends, rank_of(w, unit_find(w, w->self, w->stripes[w->self].makes[i]).member),
		    room->parity + (size_t)i * w->unit, w->unit);
	for (uint32_t s = 0; s < w->n; s++) {
		for (uint32_t i = 0; i < w->stripes[s].made; i++) {
			struct unit_place p = unit_find(w, s, w->stripes[s].makes[i]);

			if (p.member == w->self)
				add(w->recv, &w->recvs, rank_of(w, s), room->kept + (size_t)p.index * w->unit, w->unit);
		}
	}
}

static void row_make(struct work *w)
{
	const struct kedge__team_room *room = w->r->room;
	uint8_t *data[KEDGE__TEAM_MOST], *out[KEDGE__TEAM_MOST];
	uint32_t made = w->stripes[w->self].made;

	for (uint32_t d = 0; d < w->k; d++)
		data[d] = room->column + (size_t)d * w->unit;
	for (uint32_t i = 0; i < made; i++)
		out[i] = room->parity + (size_t)i * w->unit;
	kedge__code_apply(w->k, made, w->rows, room->tables, w->unit, data, out);
}

/* Nobody sends to himself: the first such unit that is sent is the first that is received, and so on. */
static void own_pass(struct work *w)
{
	size_t sends = 0, recvs = 0, next = 0;

	for (size_t i = 0; i < w->recvs; i++) {
		if ((uint32_t)w->recv[i].rank != w->r->rank) {
			w->recv[recvs++] = w->recv[i];
			continue;
		}
		while ((uint32_t)w->send[next].rank != w->r->rank)
			next++;
		memcpy(w->recv[i].data, w->send[next++].data, w->unit);
	}
	for (size_t i = 0; i < w->sends; i++)
		if ((uint32_t)w->send[i].rank != w->r->rank)
			w->send[sends++] = w->send[i];
	w->sends = sends;
	w->recvs = recvs;
}

static int one_step(struct work *w, uint64_t t)
{
	const struct kedge__rebuilding *r = w->r;
	const uint64_t rows = r->shape->rows;
	const bool member = w->self < w->n;

	w->sends = w->recvs = w->used = 0;
	if (t >= 1 && member)
		made_pass(w);
	for (uint32_t s = 0; s < w->n && t < rows; s++)
		stripe_send(w, s, t);
	if (t < rows && member)
		stripe_recv(w);
	own_pass(w);
	if (r->mover.move(r->mover.ctx, w->send, w->sends, w->recv, w->recvs))
		return kedge__error_set(&w->problem, KEDGE_E_GROUP, 0, "the group's transport failed");
	if (t >= 1 && member && r->segment_host[w->self] == KEDGE__NO_RANK && !w->rc)
		w->rc = r->put(r->put_ctx, t - 1, r->room->kept, &w->problem);
	if (t < rows && member && w->stripes[w->self].made)
		row_make(w);
	return 0;
}

int kedge__rebuild_run(const struct kedge__rebuilding *r, struct kedge__error *err)
{
	struct work w = {.r = r, .send = r->room->send, .recv = r->room->recv};
	bool have[KEDGE__TEAM_MOST];
	uint32_t use[KEDGE__TEAM_MOST];
	int met = 0;

	shape_set(&w, r->shape);
	while (w.self < w.n && rank_of(&w, w.self) != r->rank)
		w.self++;
	for (uint32_t s = 0; s < w.n; s++) {
		(void)stripe_plan(&w, s, &w.stripes[s], have);
		if (s == w.self && w.stripes[s].made)
			(void)kedge__code_repair(w.k, w.m, have, use, w.rows);
	}
	for (uint64_t t = 0; t <= r->shape->rows && !met; t++)
		met = one_step(&w, t);
	kedge__error_move(err, &w.problem);
	kedge__error_done(&w.problem);
	return met ? met : w.rc;
}
