/* SPDX-License-Identifier: BSD-3-Clause */
/* One client of a staging server: what it says, and what it is told. Nothing that it says is believed unchecked. */
#include "stage/server.h"

#include <stdio.h>
#include <unistd.h>

int kedge__session_new(struct kedge__server *s, struct kedge__session **out, struct kedge__error *err)
{
	struct kedge__session *c = kedge__calloc(1, sizeof(*c));

	if (!c)
		return kedge__error_nomem(err);
	c->server = s;
	c->heard = c->seen.since = kedge__clock_seconds();
	c->seen.version = KEDGE__NO_VERSION;
	kedge__talk_init(&c->talk);
	pthread_mutex_init(&c->lock, NULL);
	kedge__bucket_init(&c->bucket, s->o.client_rate, (double)s->o.piece);
	for (size_t i = 0; i < KEDGE__STAGE_FILES; i++)
		c->files[i].session = c;
	*out = c;
	return 0;
}

void kedge__session_free(struct kedge__session *c)
{
	kedge__port_close(c->port);
	kedge__talk_done(&c->talk);
	kedge__catalog_close(c->cat);
	pthread_mutex_destroy(&c->lock);
	kedge__free(c);
}

bool kedge__session_gone(const struct kedge__session *c)
{
	bool used = false;

	for (size_t i = 0; i < KEDGE__STAGE_FILES; i++)
		used = used || c->files[i].used;
	return c->dead && !used;
}

/* ------------------------------------------------------------------ how it ends */

static void file_done(struct kedge__inflow *f)
{
	struct kedge__session *c = f->session;

	c->server->load[f->writer]--;
	c->seen.files--;
	*f = (struct kedge__inflow){.session = c};
}

/* What is not with the writer yet is forgotten. True: its end was among it, or has not come at all. */
static bool file_forget(struct kedge__inflow *f)
{
	bool open = !f->ended;

	while (f->first) {
		struct kedge__item *it = f->first;

		f->first = it->next;
		open = open || it->kind == KEDGE__ITEM_COMMIT || it->kind == KEDGE__ITEM_DROP;
		kedge__intake_release(f->session->server, it);
		kedge__item_free(it);
	}
	f->last = NULL;
	return open;
}

/* Without memory for it, the writer is asked when it has given back what it has: kedge__session_back(). */
static void file_drop(struct kedge__inflow *f)
{
	f->ended = kedge__item_new(f, KEDGE__ITEM_DROP);
	kedge__writing_hand(f);
}

void kedge__session_end(struct kedge__session *c, const char *why)
{
	if (c->dead)
		return;
	c->dead = true;
	if (why)
		kedge__log(KEDGE_LOG_NOTICE, "client %s (%s) is gone: %s", c->greeted ? c->seen.name : "?",
			   c->seen.peer, why);
	c->server->cut = c->server->cut || c->seen.reading;
	kedge__port_close(c->port); /* from here on no read touches a buffer */
	c->port = NULL;
	kedge__link_close(&c->talk.link);
	kedge__intake_forget(c, NULL);
	c->seen.reading = 0;
	c->stuck = false;
	for (size_t i = 0; i < KEDGE__STAGE_FILES; i++)
		if (c->files[i].used && file_forget(&c->files[i]))
			file_drop(&c->files[i]);
}

/* ------------------------------------------------------------------ what it is told */

void kedge__session_say(struct kedge__session *c, struct kedge__stage_message *m)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (!c->dead && kedge__talk_send(&c->talk, m, &err))
		kedge__session_end(c, kedge__error_text(&err));
	kedge__error_done(&err);
}

static void answer(struct kedge__session *c, enum kedge__stage_type type, uint32_t file, enum kedge__stage_type to,
		   int rc, const struct kedge__error *err)
{
	struct kedge__stage_message m = {
	    .type = type, .u.answer = {.file = file, .to = (uint16_t)to, .code = rc, .sys_errno = err->sys_errno}};
	char *text = m.u.answer.text;

	if (rc)
		snprintf(text, sizeof(m.u.answer.text), "%s", kedge__error_text(err));
	for (size_t i = 0; text[i]; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = ' ';
	kedge__session_say(c, &m);
}

static void file_log(const struct kedge__inflow *f)
{
	const struct kedge__session *c = f->session;
	double seconds = kedge__clock_seconds() - f->since;

	kedge__log(KEDGE_LOG_INFO, "%s: version %llu, rank %u, generation %u: %llu bytes from %s in %.3f s (%.0f MB/s)",
		   c->seen.name, (unsigned long long)f->begin.version, f->begin.rank, f->begin.generation,
		   (unsigned long long)f->asked, c->seen.peer, seconds, (double)f->asked / 1e6 / (seconds + 1e-9));
}

static void count_back(struct kedge__inflow *f, const struct kedge__item *it)
{
	struct kedge__session *c = f->session;

	if (it->kind == KEDGE__ITEM_PIECE) {
		c->seen.writing--;
		c->seen.bytes_written += it->rc ? 0 : it->piece.bytes;
		c->server->seen.bytes_written += it->rc ? 0 : it->piece.bytes;
	}
	if (it->first_failure) {
		c->seen.failures++;
		c->server->seen.failures++;
		kedge__log(KEDGE_LOG_ERROR, "%s: version %llu, rank %u was not stored: %s", c->seen.name,
			   (unsigned long long)f->begin.version, f->begin.rank, kedge__error_text(&it->err));
	}
	if (it->kind == KEDGE__ITEM_COMMIT && !it->rc) {
		c->seen.segments++;
		c->server->seen.segments++;
		file_log(f);
	}
}

void kedge__session_back(struct kedge__item *it)
{
	static const enum kedge__stage_type types[] = {KEDGE__STAGE_BEGIN, KEDGE__STAGE_PIECE, KEDGE__STAGE_COMMIT,
						       KEDGE__STAGE_ABORT, KEDGE__STAGE_PIECE};
	struct kedge__inflow *f = it->file;
	struct kedge__session *c = f->session;
	bool ends = it->kind == KEDGE__ITEM_COMMIT || it->kind == KEDGE__ITEM_DROP;
	uint32_t number = f->begin.file;

	f->out--;
	kedge__intake_release(c->server, it);
	count_back(f, it);
	if (ends) {
		kedge__tally_end(c->server, f, it->kind == KEDGE__ITEM_COMMIT && !it->rc);
		file_done(f);
	} else if (c->dead && !f->ended)
		file_drop(f);
	if (ends || it->first_failure) {
		int rc = it->kind == KEDGE__ITEM_DROP ? 0 : it->rc;

		if (rc && !it->err.text) /* it was said when it failed */
			kedge__error_set(&it->err, rc, 0, "the segment had failed before");
		answer(c, KEDGE__STAGE_ANSWER, number, types[it->kind], rc, &it->err);
	}
	kedge__item_free(it);
}

/* ------------------------------------------------------------------ HELLO */

static int check_store(const struct kedge__server *s, const struct kedge__stage_hello *h, struct kedge__error *err)
{
	struct kedge__store_id id;
	enum kedge__sight sight = kedge__store_look(s->store, &id, err);

	if (sight == KEDGE__SIGHT_ERROR)
		return err->code;
	if (sight != KEDGE__SIGHT_STORE)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s, which the staging server writes to, is %s",
					s->store, kedge__sight_text(sight));
	if (!kedge__store_id_equal(&id, &h->store))
		return kedge__error_set(
		    err, KEDGE_E_CONFIG, 0,
		    "the staging server writes to another store than the job's L2: to %s on its host", s->store);
	return 0;
}

static int check_hello(struct kedge__session *c, const struct kedge__stage_hello *h,
		       uint8_t secret[KEDGE__SECRET_BYTES], struct kedge__error *err)
{
	const struct kedge__server *s = c->server;
	int rc = kedge__auth_accept(&s->auth, h, &c->seen.uid, secret, err);

	if (!rc && c->seen.uid != geteuid())
		rc = kedge__error_set(err, KEDGE_E_ACCESS, 0,
				      "this staging server writes files of user %u, and not those of user %u",
				      (unsigned)geteuid(), (unsigned)c->seen.uid);
	if (!rc && strcmp(h->provider, kedge__fabric_provider(s->fabric)) != 0)
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0,
				      "the staging server uses libfabric's provider %s, the client %s",
				      kedge__fabric_provider(s->fabric), h->provider);
	return rc;
}

/* It has proved itself once a message of it has the right sum: until then it gets nothing but an answer. */
static int welcome(struct kedge__session *c, const struct kedge__stage_hello *h, struct kedge__error *err)
{
	struct kedge__stage_message m = {
	    .type = KEDGE__STAGE_WELCOME,
	    .u.welcome = {.piece = (uint32_t)c->server->o.piece, .slots = KEDGE__STAGE_SLOTS}};
	uint8_t secret[KEDGE__SECRET_BYTES];
	int rc = check_hello(c, h, secret, err);

	if (!rc)
		rc = kedge__secret_draw(m.u.welcome.nonce, sizeof(m.u.welcome.nonce), err);
	if (!rc)
		rc = check_store(c->server, h, err);
	if (!rc) {
		memcpy(c->port_name, h->port, h->port_bytes);
		c->port_bytes = h->port_bytes;
		snprintf(c->seen.name, sizeof(c->seen.name), "%s", h->name);
		kedge__talk_key(&c->talk, true, secret, m.u.welcome.nonce);
		c->greeted = true;
		c->server->seen.clients_total++;
		kedge__session_say(c, &m);
	}
	kedge__secret_wipe(secret, sizeof(secret));
	return rc;
}

static void hello(struct kedge__session *c, const struct kedge__stage_hello *h)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = welcome(c, h, &err);

	if (rc) {
		c->server->seen.refused++;
		answer(c, KEDGE__STAGE_REFUSED, 0, KEDGE__STAGE_HELLO, rc, &err);
		kedge__session_end(c, kedge__error_text(&err));
	}
	kedge__error_done(&err);
}

/* ------------------------------------------------------------------ the rest */

static struct kedge__inflow *open_file(struct kedge__session *c, uint32_t number)
{
	struct kedge__inflow *f = &c->files[number];

	if (f->used && !f->ended)
		return f;
	kedge__session_end(c, "it speaks of a segment that it has not begun");
	return NULL;
}

static struct kedge__item *item_add(struct kedge__inflow *f, enum kedge__item_kind kind)
{
	struct kedge__item *it = kedge__item_new(f, kind);

	if (!it)
		kedge__session_end(f->session, "out of memory");
	return it;
}

static bool has_port(struct kedge__session *c)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = 0;

	if (!c->port) {
		rc = kedge__intake_renew(c->server, &err);
		if (!rc)
			rc = kedge__port_open(c->server->fabric, KEDGE__STAGE_SLOTS, &c->port, &err);
		if (!rc)
			rc = kedge__port_peer(c->port, c->port_name, c->port_bytes, &err);
	}
	if (rc)
		kedge__session_end(c, kedge__error_text(&err));
	kedge__error_done(&err);
	return !rc;
}

static void begin(struct kedge__session *c, const struct kedge__stage_begin *b)
{
	struct kedge__inflow *f = &c->files[b->file];

	if (f->used) {
		kedge__session_end(c, "it begins a segment under a number that it uses already");
		return;
	}
	if (!has_port(c))
		return;
	f->used = true;
	f->begin = *b;
	f->since = kedge__clock_seconds();
	c->seen.files++;
	c->seen.version = b->version;
	c->seen.rank = b->rank;
	kedge__tally_begin(c->server, f);
	kedge__writing_assign(f);
	if (item_add(f, KEDGE__ITEM_BEGIN))
		kedge__writing_hand(f);
}

static void piece(struct kedge__session *c, const struct kedge__stage_piece *p)
{
	struct kedge__inflow *f = open_file(c, p->file);
	struct kedge__item *it;

	if (!f)
		return;
	if (p->bytes > c->server->o.piece || c->seen.waiting + c->seen.reading >= KEDGE__STAGE_SLOTS ||
	    p->offset != f->asked) {
		kedge__session_end(c, p->offset != f->asked ? "it offers bytes at a place that does not come next"
							    : "it offers more than it was allowed to");
		return;
	}
	f->asked += p->bytes;
	it = item_add(f, KEDGE__ITEM_PIECE);
	if (!it)
		return;
	it->piece = *p;
	kedge__intake_wait(c, it);
}

static void commit(struct kedge__session *c, const struct kedge__stage_commit *m)
{
	struct kedge__inflow *f = open_file(c, m->file);
	struct kedge__item *it = f ? item_add(f, KEDGE__ITEM_COMMIT) : NULL;

	if (!it)
		return;
	it->bytes = m->bytes;
	f->ended = true;
	kedge__writing_hand(f);
}

/* Pieces that were not read are given back; those that are being read are waited for. */
static void abandon(struct kedge__session *c, const struct kedge__stage_abort *m)
{
	struct kedge__inflow *f = open_file(c, m->file);

	if (!f)
		return;
	kedge__intake_forget(c, f);
	for (struct kedge__item *it = f->first; it; it = it->next) {
		struct kedge__stage_message taken = {.type = KEDGE__STAGE_TAKEN,
						     .u.taken = {.file = m->file, .slot = it->piece.slot}};

		if (it->kind != KEDGE__ITEM_PIECE || it->state != KEDGE__ITEM_WAITING)
			continue;
		it->kind = KEDGE__ITEM_NOTHING;
		it->state = KEDGE__ITEM_READY;
		kedge__session_say(c, &taken);
		if (c->dead)
			return;
	}
	if (!item_add(f, KEDGE__ITEM_DROP))
		return;
	f->ended = true;
	kedge__writing_hand(f);
}

static void pong(struct kedge__session *c)
{
	struct kedge__stage_message m = {.type = KEDGE__STAGE_PONG};

	kedge__session_say(c, &m);
}

static void message(struct kedge__session *c, const struct kedge__stage_message *m)
{
	if (c->greeted == (m->type == KEDGE__STAGE_HELLO)) {
		kedge__session_end(c, "it does not begin as it should");
		return;
	}
	switch (m->type) {
	case KEDGE__STAGE_HELLO:
		hello(c, &m->u.hello);
		break;
	case KEDGE__STAGE_BEGIN:
		begin(c, &m->u.begin);
		break;
	case KEDGE__STAGE_PIECE:
		piece(c, &m->u.piece);
		break;
	case KEDGE__STAGE_COMMIT:
		commit(c, &m->u.commit);
		break;
	case KEDGE__STAGE_ABORT:
		abandon(c, &m->u.abort);
		break;
	case KEDGE__STAGE_PING:
		pong(c);
		break;
	case KEDGE__STAGE_BYE:
		kedge__session_end(c, NULL);
		break;
	default:
		kedge__session_end(c, "it says what only a server says");
	}
}

void kedge__session_hear(struct kedge__session *c)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__stage_message *m = NULL;
	int rc = kedge__link_pull(&c->talk.link, &err);

	c->heard = kedge__clock_seconds();
	while (!rc && !c->dead) {
		rc = kedge__talk_take(&c->talk, &m, &err);
		if (rc || !m)
			break;
		c->proved = c->talk.keyed && m->type != KEDGE__STAGE_HELLO;
		message(c, m);
	}
	if (rc)
		kedge__session_end(c, kedge__error_text(&err));
	kedge__error_done(&err);
}
