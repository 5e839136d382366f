/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a staging server reads from its clients: pieces wait in their sessions until there is a free buffer, and clients
 * take turns, one piece each. So memory is bounded by the pool, a file system that is slower than the network slows
 * down the reads, and no client waits for another one that has more to say.
 */
#include "stage/server.h"

#include <stdio.h>

#define STUCK_PAUSE 0.002 /* seconds until the fabric is asked again for what it did not take */

static int slots_make(struct kedge__server *s, struct kedge__error *err)
{
	s->slot_count = (size_t)KEDGE__MAX(s->o.memory / s->o.piece, 1);
	s->pool_bytes = s->slot_count * (size_t)s->o.piece;
	s->slots = kedge__calloc(s->slot_count, sizeof(*s->slots));
	s->pool = s->slots ? kedge__map_alloc(s->pool_bytes) : NULL;
	if (!s->pool)
		return kedge__error_nomem(err);
	for (size_t i = s->slot_count; i-- > 0;) {
		s->slots[i] = (struct kedge__slot){.data = s->pool + i * s->o.piece, .next = s->free};
		s->free = &s->slots[i];
	}
	return 0;
}

static int fabric_open(const struct kedge__server *s, struct kedge__fabric **fabric,
		       struct kedge__fabric_memory *memory, struct kedge__error *err)
{
	bool any = strcmp(s->bound.host, "0.0.0.0") == 0 || strcmp(s->bound.host, "::") == 0;
	int rc = kedge__fabric_open(s->bound.provider, any ? NULL : s->bound.host, fabric, err);

	return rc ? rc : kedge__fabric_register(*fabric, NULL, s->pool, s->pool_bytes, memory, err);
}

/* After a connection was cut in the middle of a read, libfabric's tcp (1.17) sometimes completes no read of any later
 * one. Another fabric does, and there can be one as soon as nobody uses this one. */
int kedge__intake_renew(struct kedge__server *s, struct kedge__error *err)
{
	struct kedge__fabric *fabric = NULL;
	struct kedge__fabric_memory memory = {0};
	int rc;

	for (size_t i = 0; i < s->sessions.count; i++)
		if (s->sessions.at[i]->port)
			return 0;
	if (!s->cut)
		return 0;
	rc = fabric_open(s, &fabric, &memory, err);
	if (rc) {
		kedge__fabric_close(fabric);
		return rc;
	}
	kedge__fabric_unregister(&s->memory);
	kedge__fabric_close(s->fabric);
	s->fabric = fabric;
	s->memory = memory;
	s->cut = false;
	return 0;
}

int kedge__intake_open(struct kedge__server *s, struct kedge__error *err)
{
	int rc = slots_make(s, err);

	if (!rc)
		rc = fabric_open(s, &s->fabric, &s->memory, err);
	kedge__bucket_init(&s->bucket, s->o.rate, (double)s->o.piece);
	s->seen.memory = s->pool_bytes;
	return rc;
}

void kedge__intake_close(struct kedge__server *s)
{
	kedge__fabric_unregister(&s->memory);
	kedge__fabric_close(s->fabric);
	if (s->pool)
		kedge__map_free(s->pool, s->pool_bytes);
	kedge__free(s->slots);
}

void kedge__intake_release(struct kedge__server *s, struct kedge__item *it)
{
	if (!it->slot)
		return;
	it->slot->next = s->free;
	s->free = it->slot;
	it->slot = NULL;
	s->slots_used--;
}

void kedge__intake_wait(struct kedge__session *c, struct kedge__item *it)
{
	it->state = KEDGE__ITEM_WAITING;
	if (c->wait_last)
		c->wait_last->next_wait = it;
	else
		c->wait_first = it;
	c->wait_last = it;
	c->seen.waiting++;
}

static struct kedge__item *wait_pop(struct kedge__session *c)
{
	struct kedge__item *it = c->wait_first;

	c->wait_first = it->next_wait;
	if (!c->wait_first)
		c->wait_last = NULL;
	it->next_wait = NULL;
	c->seen.waiting--;
	return it;
}

/* They stay in their file's list, which the caller deals with. */
void kedge__intake_forget(struct kedge__session *c, const struct kedge__inflow *f)
{
	struct kedge__item *it = c->wait_first;

	c->wait_first = c->wait_last = NULL;
	c->seen.waiting = 0;
	while (it) {
		struct kedge__item *next = it->next_wait;

		it->next_wait = NULL;
		if (f && it->file != f)
			kedge__intake_wait(c, it);
		it = next;
	}
}

/* ------------------------------------------------------------------ reads */

/* False: not now. */
static bool read_begin(struct kedge__session *c, double now)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__server *s = c->server;
	struct kedge__item *it = c->wait_first;
	const struct kedge__stage_piece *p = &it->piece;
	int rc = kedge__port_read(c->port, &s->memory, s->free->data, p->bytes, p->address, p->key, it, &err);

	c->stuck = rc > 0;
	if (rc < 0)
		kedge__session_end(c, kedge__error_text(&err));
	kedge__error_done(&err);
	if (rc)
		return rc < 0;
	(void)wait_pop(c);
	it->slot = s->free;
	s->free = it->slot->next;
	it->state = KEDGE__ITEM_READING;
	it->since = now;
	c->seen.reading++;
	s->slots_used++;
	s->seen.memory_most = KEDGE__MAX(s->seen.memory_most, s->slots_used * s->o.piece);
	c->not_before = now + kedge__bucket_charge(&c->bucket, p->bytes);
	s->not_before = now + kedge__bucket_charge(&s->bucket, p->bytes);
	return true;
}

struct kedge__session *kedge__intake_turn(struct kedge__server *s, double now, double *next)
{
	for (size_t i = 0; i < s->sessions.count; i++) {
		size_t at = (s->turn + i) % s->sessions.count;
		struct kedge__session *c = s->sessions.at[at];

		if (c->dead || !c->wait_first || c->stuck)
			continue;
		if (c->not_before > now) {
			*next = KEDGE__MIN(*next, c->not_before);
			continue;
		}
		s->turn = at + 1;
		return c;
	}
	return NULL;
}

static void read_ended(struct kedge__session *c, struct kedge__item *it, int failed)
{
	struct kedge__stage_message m = {.type = KEDGE__STAGE_TAKEN,
					 .u.taken = {.file = it->piece.file, .slot = it->piece.slot}};
	char why[160];

	c->seen.reading--;
	if (failed) {
		snprintf(why, sizeof(why), "its memory cannot be read: %s", strerror(failed));
		kedge__session_end(c, why);
		return;
	}
	c->seen.bytes_read += it->piece.bytes;
	c->server->seen.bytes_read += it->piece.bytes;
	it->state = KEDGE__ITEM_READY;
	kedge__session_say(c, &m);
	if (!c->dead) /* else it is gone, too */
		kedge__writing_hand(it->file);
}

static bool reads_poll(struct kedge__session *c)
{
	struct kedge__port_done done[KEDGE__STAGE_SLOTS];
	size_t n = c->port && !c->dead ? kedge__port_poll(c->port, done, KEDGE__COUNT(done)) : 0;

	for (size_t i = 0; i < n && !c->dead; i++)
		read_ended(c, done[i].context, done[i].failed);
	return n;
}

bool kedge__intake_step(struct kedge__server *s, double now, double *next)
{
	struct kedge__session *c;
	bool did = false;

	for (size_t i = 0; i < s->sessions.count; i++) {
		c = s->sessions.at[i];
		if (c->seen.reading || c->stuck)
			did = reads_poll(c) || did;
		c->stuck = false;
	}
	while (s->free && s->not_before <= now && (c = kedge__intake_turn(s, now, next)) != NULL)
		did = read_begin(c, now) || did;
	if (s->free && s->not_before > now)
		*next = KEDGE__MIN(*next, s->not_before);
	for (size_t i = 0; i < s->sessions.count; i++)
		if (s->sessions.at[i]->stuck)
			*next = KEDGE__MIN(*next, now + STUCK_PAUSE);
	return did;
}
