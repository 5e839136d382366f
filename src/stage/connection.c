/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's connection to one of its servers: made when it is needed, listened to by a thread of its own. */
#include "stage/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define PAUSE      0.1 /* seconds between attempts */
#define POLL_PAUSE 1   /* milliseconds, where the fabric has no descriptor to wait for */

/* ------------------------------------------------------------------ its end */

static int copy_error(struct kedge__error *to, const struct kedge__error *from)
{
	return kedge__error_set(to, from->code, 0, "%s", kedge__error_text(from));
}

void kedge__connection_lost(struct kedge__stage_client *c, const struct kedge__error *err)
{
	if (!c->connected)
		return;
	c->connected = false;
	if (c->ends) /* it was told so, and has left */
		return;
	c->may_again = true;
	c->seen.lost++;
	c->server = (c->server + 1) % c->server_count;
	kedge__link_cut(&c->talk.link);
	(void)kedge__error_set(&c->lost, KEDGE_E_IO, 0, "the staging server is lost: %s", kedge__error_text(err));
	kedge__log(KEDGE_LOG_NOTICE, "%s: %s", c->name, kedge__error_text(&c->lost));
	for (size_t i = 0; i < KEDGE__STAGE_FILES; i++) {
		struct kedge__outflow *f = &c->files[i];

		if (!f->used)
			continue;
		if (f->dropped)
			f->used = false;
		else if (!f->answered && !f->rc)
			f->rc = copy_error(&f->err, &c->lost);
		f->answered = true;
	}
	memset(c->busy, 0, c->buffers * sizeof(*c->busy));
	pthread_cond_broadcast(&c->news);
}

/* What a connection has, and an attempt at one. */
static void shed(struct kedge__stage_client *c)
{
	kedge__fabric_unregister(&c->memory);
	kedge__port_close(c->port);
	kedge__fabric_close(c->fabric);
	c->port = NULL;
	c->fabric = NULL;
	kedge__talk_done(&c->talk);
	kedge__talk_init(&c->talk);
}

/* The listener ends first: nobody else uses the fabric then. */
void kedge__connection_close(struct kedge__stage_client *c)
{
	struct kedge__worker *listener = c->listener;
	uint64_t one = 1;

	c->listener = NULL;
	c->ends = true;
	if (listener) {
		(void)!write(c->wake, &one, sizeof(one));
		pthread_mutex_unlock(&c->lock);
		kedge__worker_free(listener);
		pthread_mutex_lock(&c->lock);
	}
	c->connected = false;
	shed(c);
}

int kedge__connection_say(struct kedge__stage_client *c, struct kedge__stage_message *m, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	uint64_t one = 1;
	int rc = kedge__talk_send(&c->talk, m, &problem);

	if (rc) {
		kedge__connection_lost(c, &problem);
		rc = copy_error(err, &c->lost);
	} else if (kedge__link_wants_out(&c->talk.link)) {
		(void)!write(c->wake, &one, sizeof(one));
	}
	kedge__error_done(&problem);
	return rc;
}

/* ------------------------------------------------------------------ what the server says */

static void hear_taken(struct kedge__stage_client *c, const struct kedge__stage_taken *m)
{
	if (m->slot < c->buffers)
		c->busy[m->slot] = false;
}

static void hear_answer(struct kedge__stage_client *c, const struct kedge__stage_answer *m)
{
	struct kedge__outflow *f = &c->files[m->file];
	bool ends = m->to == KEDGE__STAGE_COMMIT || m->to == KEDGE__STAGE_ABORT;

	if (!f->used)
		return;
	if (m->code && !f->rc)
		f->rc = kedge__error_set(&f->err, m->code, 0, "the staging server says: %s", m->text);
	f->answered = f->answered || ends;
	if (f->dropped && ends)
		f->used = false;
}

static int hear_one(struct kedge__stage_client *c, const struct kedge__stage_message *m, struct kedge__error *err)
{
	switch (m->type) {
	case KEDGE__STAGE_TAKEN:
		hear_taken(c, &m->u.taken);
		return 0;
	case KEDGE__STAGE_ANSWER:
		hear_answer(c, &m->u.answer);
		return 0;
	case KEDGE__STAGE_PONG:
		return 0;
	default:
		return kedge__error_set(err, KEDGE_E_IO, 0, "it says what only a client says");
	}
}

static int hear(struct kedge__stage_client *c, struct kedge__error *err)
{
	struct kedge__stage_message *m = NULL;
	int rc = kedge__link_pull(&c->talk.link, err);

	c->heard = kedge__clock_seconds();
	while (!rc) {
		rc = kedge__talk_take(&c->talk, &m, err);
		if (rc || !m)
			break;
		rc = hear_one(c, m, err);
	}
	pthread_cond_broadcast(&c->news);
	return rc;
}

/* A server that is alive answers, however slow its storage is. */
static int keep_alive(struct kedge__stage_client *c, double now, struct kedge__error *err)
{
	struct kedge__stage_message ping = {.type = KEDGE__STAGE_PING};

	if (now - c->heard > c->timeout)
		return kedge__error_set(err, KEDGE_E_IO, 0, "nothing was heard of it for %.0f s", c->timeout);
	if (now - c->pinged < c->timeout / 4)
		return 0;
	c->pinged = now;
	return kedge__talk_send(&c->talk, &ping, err);
}

/* ------------------------------------------------------------------ the listener */

static bool any_busy(const struct kedge__stage_client *c)
{
	bool busy = false;

	for (size_t i = 0; i < c->buffers; i++)
		busy = busy || c->busy[i];
	return busy;
}

/* Without the lock. Reads of this memory need this process's provider to work, unless the network's hardware does it
 * all. */
static short wait_for_news(struct kedge__stage_client *c, bool out, bool busy)
{
	struct pollfd fds[] = {{.fd = c->talk.link.fd, .events = (short)(POLLIN | (out ? POLLOUT : 0))},
			       {.fd = c->wake, .events = POLLIN},
			       {.fd = kedge__port_fd(c->port), .events = POLLIN}};
	int ms = (int)(c->timeout / 8 * 1000) + 1;
	struct kedge__port_done done;
	uint64_t n;

	(void)kedge__port_poll(c->port, &done, 1);
	if (fds[2].fd < 0 && busy)
		ms = POLL_PAUSE;
	else if (!kedge__port_may_wait(c->port))
		ms = 0;
	if (poll(fds, KEDGE__COUNT(fds), ms) < 0)
		return 0;
	if (fds[1].revents)
		(void)!read(c->wake, &n, sizeof(n));
	return fds[0].revents;
}

static void listen_main(void *ctx)
{
	struct kedge__stage_client *c = ctx;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->ends && c->connected) {
		bool out = kedge__link_wants_out(&c->talk.link), busy = any_busy(c);
		short got;

		pthread_mutex_unlock(&c->lock);
		got = wait_for_news(c, out, busy);
		pthread_mutex_lock(&c->lock);
		if (!c->connected)
			break;
		if (got & POLLOUT)
			rc = kedge__link_push(&c->talk.link, &err);
		if (!rc && got & (POLLIN | POLLHUP | POLLERR))
			rc = hear(c, &err);
		if (!rc)
			rc = keep_alive(c, kedge__clock_seconds(), &err);
		if (rc)
			kedge__connection_lost(c, &err);
	}
	pthread_mutex_unlock(&c->lock);
	kedge__error_done(&err);
}

/* ------------------------------------------------------------------ its begin */

static int port_make(struct kedge__stage_client *c, const struct kedge__address *a, struct kedge__stage_hello *h,
		     struct kedge__error *err)
{
	char host[KEDGE__HOST_MAX + 1];
	int rc = kedge__link_host(&c->talk.link, host, err);

	if (!rc)
		rc = kedge__fabric_open(a->provider, host, &c->fabric, err);
	if (!rc)
		rc = kedge__port_open(c->fabric, 1, &c->port, err);
	if (!rc)
		rc = kedge__fabric_register(c->fabric, c->port, c->pool, c->buffer * c->buffers, &c->memory, err);
	return rc ? rc : kedge__port_name(c->port, h->port, &h->port_bytes, err);
}

static int refused(const struct kedge__stage_answer *m, struct kedge__error *err)
{
	return kedge__error_set(err, m->code ? m->code : KEDGE_E_ACCESS, 0, "refused: %s", m->text);
}

/* WELCOME says what the keys are made of, and is then the first message that they prove. */
static int be_welcomed(struct kedge__stage_client *c, const uint8_t secret[KEDGE__SECRET_BYTES],
		       struct kedge__error *err)
{
	struct kedge__stage_message *m;
	const uint8_t *frame;
	size_t bytes;
	int rc = kedge__link_wait(&c->talk.link, c->timeout, &frame, &bytes, err);

	if (!rc)
		rc = kedge__talk_peek(&c->talk, &m, err);
	if (rc)
		return rc;
	if (m->type == KEDGE__STAGE_REFUSED)
		return refused(&m->u.answer, err);
	if (m->type != KEDGE__STAGE_WELCOME)
		return kedge__error_set(err, KEDGE_E_IO, 0, "it does not answer as a staging server does");
	kedge__talk_key(&c->talk, false, secret, m->u.welcome.nonce);
	rc = kedge__talk_take(&c->talk, &m, err);
	if (!rc)
		c->piece = KEDGE__MIN(c->buffer, m->u.welcome.piece);
	return rc;
}

static int greet(struct kedge__stage_client *c, const struct kedge__address *a, struct kedge__error *err)
{
	struct kedge__stage_message ping = {.type = KEDGE__STAGE_PING}, *m = kedge__calloc(1, sizeof(*m));
	uint8_t secret[KEDGE__SECRET_BYTES];
	struct kedge__stage_hello *h;
	int rc;

	if (!m)
		return kedge__error_nomem(err);
	h = &m->u.hello;
	m->type = KEDGE__STAGE_HELLO;
	h->store = c->store;
	snprintf(h->name, sizeof(h->name), "%s", c->name);
	rc = port_make(c, a, h, err);
	if (!rc)
		snprintf(h->provider, sizeof(h->provider), "%s", kedge__fabric_provider(c->fabric));
	if (!rc)
		rc = kedge__auth_offer(&c->auth, h, secret, err);
	if (!rc)
		rc = kedge__talk_send(&c->talk, m, err);
	if (!rc)
		rc = be_welcomed(c, secret, err);
	if (!rc)
		rc = kedge__talk_send(&c->talk, &ping, err); /* the proof that this is who it says */
	kedge__secret_wipe(secret, sizeof(secret));
	kedge__free(m);
	return rc;
}

static int try_server(struct kedge__stage_client *c, const struct kedge__address *a, struct kedge__error *err)
{
	char text[KEDGE__ADDRESS_TEXT];
	int rc;

	rc = kedge__link_connect(&c->talk.link, a, c->timeout, err);
	if (rc)
		return rc;
	rc = greet(c, a, err);
	kedge__address_text(a, text);
	if (rc)
		(void)kedge__error_prefix(err, "staging server %s", text);
	else
		kedge__log(KEDGE_LOG_INFO, "%s: staging by %s", c->name, text);
	return rc;
}

/* Once around; the errors of all of them are one. Without the lock: nobody else is in the connection. */
static int try_servers(struct kedge__stage_client *c, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < c->server_count; i++) {
		rc = try_server(c, &c->servers[c->server], err);
		if (!rc)
			return 0;
		shed(c);
		c->server = (c->server + 1) % c->server_count;
	}
	return rc;
}

static void pause_a_moment(void)
{
	const struct timespec t = {0, (long)(PAUSE * 1e9)};

	(void)nanosleep(&t, NULL);
}

/* What another attempt may change: nobody is there, or the store is not there yet. */
static bool may_pass(int rc)
{
	return rc == KEDGE_E_IO || rc == KEDGE_E_NOTFOUND;
}

int kedge__connection_open(struct kedge__stage_client *c, struct kedge__error *err)
{
	double end = kedge__clock_seconds() + c->retry;
	int rc;

	kedge__connection_close(c);
	pthread_mutex_unlock(&c->lock);
	for (;;) {
		rc = try_servers(c, err);
		if (!rc || !may_pass(rc) || kedge__clock_seconds() >= end)
			break;
		pause_a_moment();
	}
	if (!rc)
		rc = kedge__worker_new(1, &c->listener, err);
	pthread_mutex_lock(&c->lock);
	if (rc)
		return rc;
	c->ends = false;
	c->connected = true;
	c->seen.connections++;
	c->heard = c->pinged = kedge__clock_seconds();
	return kedge__worker_submit(c->listener, listen_main, c, err);
}
