/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

#include "base/setting_value.h"

bool kedge__shields_wanted(const kedge_t *k)
{
	return k->group.size > 1 && strcmp(k->set.protect, "single") != 0;
}

bool kedge__shields_background(const kedge_t *k)
{
	return kedge__shields_wanted(k) && k->set.protect_in_background && k->channels.flusher_speaks;
}

/* ------------------------------------------------------------------ where the ranks are */

/* The setting, with the host's name and the rank in it. */
static int node_name(const kedge_t *k, char out[KEDGE__NODE_MAX + 1], struct kedge__error *err)
{
	char *name = NULL;
	int rc = kedge__place_expand(k->set.node, k->group.rank, &name, err);

	if (rc && rc != KEDGE_E_NOMEM)
		kedge__error_prefix(err, "node = %s", k->set.node);
	if (!rc && (!name[0] || strlen(name) > KEDGE__NODE_MAX))
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0, "node = %s: the name of a node has from 1 to %d bytes",
				      name, KEDGE__NODE_MAX);
	if (!rc)
		memcpy(out, name, strlen(name) + 1);
	kedge__free(name);
	return rc;
}

static int too_few(const kedge_t *k, uint32_t nodes, struct kedge__error *err)
{
	return kedge__error_set(
	    err, KEDGE_E_CONFIG, 0,
	    "protect = %s: the %d ranks are on %u node%s (rank 0 on %s), and cannot be divided into teams "
	    "of at least %u ranks on different nodes: start the job on more nodes, or with as many ranks "
	    "on each; if these are more nodes than that, give each its own l1, and check the setting "
	    "node; or set protect = single",
	    k->set.protect, k->group.size, nodes, nodes == 1 ? "" : "s", k->shields.seats[0].node,
	    k->shields.wanted.parity + 1);
}

/* TEAM is of all ranks. */
static void team_take(struct kedge__shields *s, uint32_t rank, uint32_t ranks)
{
	s->members = 0;
	for (uint32_t r = 0; r < ranks; r++) {
		if (s->team[r] != s->team[rank])
			continue;
		if (r == rank)
			s->self = s->members;
		s->ranks[s->members++] = r;
	}
}

static int teams_form(kedge_t *k, struct kedge__error *err)
{
	uint32_t ranks = (uint32_t)k->group.size, *node = kedge__calloc(ranks, sizeof(*node)), nodes = 0, teams = 0;
	int rc = node ? kedge__nodes_number(k->shields.seats, ranks, node, &nodes, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__teams_form(&k->shields.wanted, node, ranks, k->shields.team, &teams, err);
	if (!rc && !teams)
		rc = too_few(k, nodes, err);
	if (!rc)
		team_take(&k->shields, (uint32_t)k->group.rank, ranks);
	kedge__free(node);
	return rc;
}

/* Everything that is needed, before the others know that this rank has it. */
static int seat_take(kedge_t *k, struct kedge__seat *own, struct kedge__error *err)
{
	size_t ranks = (size_t)k->group.size;
	int rc = kedge__protection_parse(k->set.protect, &k->shields.wanted, err);

	*own = (struct kedge__seat){.leader = (uint32_t)k->levels.at[KEDGE__L1].leader};
	k->shields.seats = kedge__calloc(ranks, sizeof(*k->shields.seats));
	k->shields.team = kedge__calloc(ranks, sizeof(*k->shields.team));
	if (!rc && (!k->shields.seats || !k->shields.team))
		rc = kedge__error_nomem(err);
	return rc ? rc : node_name(k, own->node, err);
}

int kedge__shields_meet(kedge_t *k, struct kedge__error *err)
{
	struct kedge__channel *ch = &k->channels.front;
	struct kedge__seat own;
	int rc;

	if (!kedge__shields_wanted(k))
		return 0;
	if (k->levels.at[KEDGE__L1].one_for_all) {
		if (k->group.rank == 0)
			kedge__log(KEDGE_LOG_NOTICE,
				   "%s: protect = %s has no effect, because all ranks share one L1 (%s): what loses it "
				   "loses all; give each node an L1 of its own",
				   k->name, k->set.protect, k->set.l1);
		return 0;
	}
	rc = kedge__agree(ch, KEDGE__STEP_TEAMS, 0, seat_take(k, &own, err), NULL, err);
	if (!rc)
		rc = kedge__gather(ch, -1, &own, sizeof(own), k->shields.seats, err);
	if (rc)
		return rc;
	rc = kedge__agree(ch, KEDGE__STEP_TEAMS, 1, teams_form(k, err), NULL, err);
	k->shields.on = !rc;
	return rc;
}

void kedge__shields_done(kedge_t *k)
{
	kedge__free(k->shields.seats);
	kedge__free(k->shields.team);
	k->shields = (struct kedge__shields){.on = false};
}

/* ------------------------------------------------------------------ a shield */

void kedge__shields_shape(const kedge_t *k, const struct kedge__set *set, struct kedge__shield *out)
{
	const struct kedge__shields *s = &k->shields;

	*out = (struct kedge__shield){.version = set->version,
				      .scheme = s->wanted.scheme,
				      .members = s->members,
				      .parity = s->wanted.parity,
				      .self = s->self};
	for (uint32_t i = 0; i < s->members; i++) {
		const struct kedge__set_part *part = &set->parts[s->ranks[i]];
		struct kedge__shield_member *m = &out->at[i];

		*m = (struct kedge__shield_member){s->ranks[i], part->generation, part->file_bytes, part->seal, ""};
		memcpy(m->node, s->seats[s->ranks[i]].node, sizeof(m->node));
	}
	kedge__shield_measure(out);
}

struct making {
	struct kedge__shield shape;
	struct kedge__shield_writer writer;
	struct kedge__team_room room;
	struct kedge__courier courier;
	char *path; /* of the segment */
	int fd;
	bool begun;
};

static const uint8_t *segment_get(void *ctx, uint64_t at, size_t bytes, uint8_t *to)
{
	const struct making *m = ctx;

	return kedge__fs_pread(m->fd, to, bytes, at, m->path, NULL) ? NULL : to;
}

static int shield_put(void *ctx, uint64_t row, const uint8_t *units, struct kedge__error *err)
{
	struct making *m = ctx;

	(void)row;
	return kedge__shield_append(&m->writer, units, err);
}

static int making_begin(struct making *m, const kedge_t *k, struct kedge__catalog *cat, struct kedge__error *err)
{
	const struct kedge__shield_member *self = &m->shape.at[m->shape.self];
	int rc = kedge__team_room_init(&m->room, m->shape.members, 1, m->shape.unit, err);

	m->path = rc ? NULL : kedge__segment_path(cat, m->shape.version, self->rank, self->generation);
	if (!rc)
		rc = m->path ? kedge__fs_open_read(m->path, &m->fd, err) : kedge__error_nomem(err);
	if (!rc)
		rc = kedge__shield_create(&m->writer, cat, &m->shape, k->set.sync, err);
	m->begun = !rc;
	return rc;
}

static void making_done(struct making *m)
{
	kedge__courier_done(&m->courier);
	kedge__team_room_done(&m->room);
	if (m->begun)
		kedge__shield_writer_done(&m->writer);
	kedge__fs_close(m->fd);
	kedge__free(m->path);
}

static int making_run(struct making *m, uint64_t steps, bool wants, struct kedge__error *err)
{
	const struct kedge__encoding e = {
	    .shape = wants ? &m->shape : NULL,
	    .source = {segment_get, m, m->shape.at[m->shape.self].file_bytes},
	    .put = shield_put,
	    .put_ctx = m,
	    .mover = {kedge__courier_move, &m->courier},
	    .room = &m->room,
	};
	int rc = kedge__encode_run(&e, steps, err);

	if (wants && !rc)
		rc = kedge__shield_commit(&m->writer, err);
	if (wants && rc)
		kedge__shield_abort(&m->writer);
	return rc;
}

int kedge__shields_make(kedge_t *k, struct kedge__channel *ch, struct kedge__catalog *cat, const struct kedge__set *set,
			int rc, bool wants, struct kedge__error *err)
{
	struct making m = {.fd = -1};
	union kedge__msg msg = {.protect = {.most = 0}};

	if (!rc)
		rc = kedge__courier_init(&m.courier, ch, err);
	if (!rc && wants) {
		kedge__shields_shape(k, set, &m.shape);
		rc = making_begin(&m, k, cat, err);
		msg.protect.most = m.shape.rows + 1;
	}
	rc = kedge__exchange(ch, KEDGE__STEP_PROTECT, set->version, rc, &msg, err);
	if (!rc)
		rc = making_run(&m, msg.protect.most, wants, err);
	else if (m.begun)
		kedge__shield_abort(&m.writer);
	making_done(&m);
	return rc;
}

/* ------------------------------------------------------------------ of a version in flight */

void kedge__shields_protect(struct kedge__version *v, bool background)
{
	kedge_t *k = v->k;
	struct kedge__job_level *l1 = &k->levels.at[KEDGE__L1];
	struct kedge__channel *ch = background ? &k->channels.back : &k->channels.front;
	struct kedge__catalog *cat = background ? l1->flush : l1->write;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int pinned, rc;

	if (!k->shields.on || background != kedge__shields_background(k))
		return;
	pinned = kedge__catalog_pin(cat, &err); /* so that nobody takes the shield for a leftover */
	rc = kedge__shields_make(k, ch, cat, &v->set, pinned, true, &err);
	if (!pinned)
		kedge__catalog_unpin(cat);
	rc = kedge__agree(ch, KEDGE__STEP_SHIELDED, v->version, rc, NULL, &err);
	if (rc) {
		kedge__error_prefix(&err, "version %llu is on L1, but not protected", (unsigned long long)v->version);
		kedge__log(KEDGE_LOG_ERROR, "%s", kedge__error_text(&err));
		kedge__state_note(k, rc, &err);
		kedge__levels_doubt(k);
	}
	kedge__error_done(&err);
}
