/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage/server.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICK     1.0  /* seconds between looks at clients that say nothing */
#define STRANGER 10.0 /* seconds in which a client has to prove itself */

void kedge__server_options_init(struct kedge__server_options *o)
{
	*o = (struct kedge__server_options){.listen = {.provider = "tcp", .host = "127.0.0.1"},
					    .memory = UINT64_C(256) << 20,
					    .piece = UINT64_C(1) << 20,
					    .writers = 4,
					    .timeout = 60};
}

/* ------------------------------------------------------------------ open and close */

static int check_options(const struct kedge__server_options *o, struct kedge__error *err)
{
	if (o->piece < KEDGE__STAGE_PIECE_MIN || o->piece > KEDGE__STAGE_PIECE_MAX)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "buffers have from %u to %u bytes",
					KEDGE__STAGE_PIECE_MIN, KEDGE__STAGE_PIECE_MAX);
	if (o->memory < o->piece)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"the memory for all buffers is less than one of them needs");
	if (!o->writers || o->writers > 256)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "from 1 to 256 threads can write");
	return 0;
}

static int open_all(struct kedge__server *s, struct kedge__error *err)
{
	int rc = kedge__auth_open(s->o.auth, &s->auth, err);

	if (!rc)
		rc = kedge__fs_absolute(s->o.store, &s->store, err);
	if (!rc)
		rc = kedge__link_listen(&s->o.listen, &s->listening, &s->bound, err);
	if (!rc)
		rc = kedge__intake_open(s, err);
	if (!rc)
		rc = kedge__writing_open(s, err);
	if (!rc) {
		s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (s->wake < 0)
			rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot make an event descriptor");
	}
	return rc;
}

int kedge__server_open(const struct kedge__server_options *o, struct kedge__server **out, struct kedge__error *err)
{
	struct kedge__server *s;
	int rc = check_options(o, err);

	if (rc)
		return rc;
	s = kedge__calloc(1, sizeof(*s));
	if (!s)
		return kedge__error_nomem(err);
	s->o = *o;
	s->listening = s->wake = -1;
	s->since = kedge__clock_seconds();
	s->seen.writers = o->writers;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->gate, NULL);
	pthread_mutex_init(&s->back_lock, NULL);
	pthread_mutex_init(&s->check_lock, NULL);
	pthread_cond_init(&s->checked, NULL);
	rc = open_all(s, err);
	if (rc)
		kedge__server_close(s);
	else
		*out = s;
	return rc;
}

const struct kedge__address *kedge__server_address(const struct kedge__server *s)
{
	return &s->bound;
}

static void items_back(struct kedge__server *s)
{
	struct kedge__item *it;

	while ((it = kedge__writing_back(s)) != NULL)
		kedge__session_back(it);
}

static void sessions_bury(struct kedge__server *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->sessions.count; i++) {
		struct kedge__session *c = s->sessions.at[i];

		if (kedge__session_gone(c))
			kedge__session_free(c);
		else
			s->sessions.at[kept++] = c;
	}
	s->sessions.count = kept;
}

/* What clients had begun is removed; what the writers have is finished first. */
static void sessions_end(struct kedge__server *s)
{
	for (size_t i = 0; i < s->sessions.count; i++)
		kedge__session_end(s->sessions.at[i], "the server ends");
	while (s->sessions.count) {
		for (unsigned i = 0; i < s->o.writers; i++)
			kedge__worker_drain(s->writers[i]);
		items_back(s);
		sessions_bury(s);
	}
}

void kedge__server_close(struct kedge__server *s)
{
	if (!s)
		return;
	sessions_end(s);
	kedge__tally_tell(s, INFINITY);
	kedge__array_done(&s->tally);
	kedge__array_done(&s->sessions);
	kedge__writing_close(s);
	kedge__intake_close(s);
	if (s->listening >= 0)
		close(s->listening);
	if (s->wake >= 0)
		close(s->wake);
	kedge__auth_close(&s->auth);
	kedge__free(s->store);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->gate);
	pthread_mutex_destroy(&s->back_lock);
	pthread_mutex_destroy(&s->check_lock);
	pthread_cond_destroy(&s->checked);
	kedge__free(s);
}

void kedge__server_stop(struct kedge__server *s)
{
	uint64_t one = 1;

	atomic_store(&s->stop, true);
	(void)!write(s->wake, &one, sizeof(one));
}

/* ------------------------------------------------------------------ the loop */

static void accept_one(struct kedge__server *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__session *c = NULL;
	bool made = false;
	int rc = kedge__session_new(s, &c, &err);

	if (!rc)
		rc = kedge__link_accept(s->listening, &c->talk.link, c->seen.peer, &made, &err);
	if (!rc && made && s->sessions.count >= KEDGE__SERVER_SESSIONS)
		rc = kedge__error_set(&err, KEDGE_E_LIMIT, 0, "there are %d clients already", KEDGE__SERVER_SESSIONS);
	if (!rc && made && !kedge__array_push(&s->sessions, c))
		rc = kedge__error_nomem(&err);
	if (rc)
		kedge__log(KEDGE_LOG_WARNING, "a client was turned away: %s", kedge__error_text(&err));
	if (c && (rc || !made))
		kedge__session_free(c);
	kedge__error_done(&err);
}

/* Clients that have not said a word for too long, or whose memory cannot be read, are cut off, or their hosts are. */
static void silent_end(struct kedge__server *s, double now)
{
	for (size_t i = 0; i < s->sessions.count; i++) {
		struct kedge__session *c = s->sessions.at[i];

		double patience = c->proved ? s->o.timeout : KEDGE__MIN(s->o.timeout, STRANGER);

		if (!c->dead && now - c->heard > patience)
			kedge__session_end(c, "nothing was heard of it for too long");
		for (size_t f = 0; f < KEDGE__STAGE_FILES && !c->dead; f++) {
			const struct kedge__item *it = c->files[f].first;

			if (it && it->state == KEDGE__ITEM_READING && now - it->since > s->o.timeout)
				kedge__session_end(c, "its memory could not be read for too long");
		}
	}
}

struct waiting { /* what poll() waits for: two each for the server and for every client */
	KEDGE__ARRAY(struct pollfd) fds;
	double until;
};

static void wait_for(struct waiting *w, int fd, short events)
{
	w->fds.at[w->fds.count++] = (struct pollfd){.fd = fd, .events = events};
}

static bool wait_prepare(struct kedge__server *s, struct waiting *w, double now)
{
	w->fds.count = 0;
	if (!kedge__array_reserve(&w->fds, 2 + 2 * s->sessions.count))
		return false;
	wait_for(w, s->listening, POLLIN);
	wait_for(w, s->wake, POLLIN);
	for (size_t i = 0; i < s->sessions.count; i++) {
		struct kedge__session *c = s->sessions.at[i];
		bool reads = !c->dead && c->port && c->seen.reading;
		int fd = reads ? kedge__port_fd(c->port) : -1;

		wait_for(w, c->dead ? -1 : c->talk.link.fd,
			 (short)(POLLIN | (kedge__link_wants_out(&c->talk.link) ? POLLOUT : 0)));
		wait_for(w, fd, POLLIN);
		if (reads && (fd < 0 || !kedge__port_may_wait(c->port)))
			w->until = now; /* look again at once */
	}
	return true;
}

static void links_serve(struct kedge__server *s, const struct waiting *w)
{
	size_t count = (w->fds.count - 2) / 2;

	for (size_t i = 0; i < count; i++) {
		struct kedge__session *c = s->sessions.at[i];
		short got = w->fds.at[2 + 2 * i].revents;
		struct kedge__error err = KEDGE__ERROR_INIT;

		if (c->dead || !got)
			continue;
		if (got & POLLOUT && kedge__link_push(&c->talk.link, &err))
			kedge__session_end(c, kedge__error_text(&err));
		else if (got & (POLLIN | POLLHUP | POLLERR))
			kedge__session_hear(c);
		kedge__error_done(&err);
	}
	if (w->fds.at[0].revents)
		accept_one(s);
}

static void wake_drain(struct kedge__server *s)
{
	uint64_t n;

	(void)!read(s->wake, &n, sizeof(n));
}

static void server_lock(struct kedge__server *s)
{
	pthread_mutex_lock(&s->gate);
	pthread_mutex_lock(&s->lock);
	pthread_mutex_unlock(&s->gate);
}

static int loop_once(struct kedge__server *s, struct waiting *w, struct kedge__error *err)
{
	double now = kedge__clock_seconds();
	bool did;

	items_back(s);
	sessions_bury(s);
	silent_end(s, now);
	kedge__tally_tell(s, now);
	w->until = now + TICK;
	did = kedge__intake_step(s, now, &w->until);
	if (!wait_prepare(s, w, now))
		return kedge__error_nomem(err);
	if (did)
		w->until = now;
	pthread_mutex_unlock(&s->lock);
	if (poll(w->fds.at, w->fds.count, (int)((w->until - now) * 1000 + 0.999)) < 0 && errno != EINTR)
		w->fds.count = 2;
	server_lock(s);
	if (w->fds.at[1].revents)
		wake_drain(s);
	links_serve(s, w);
	return 0;
}

int kedge__server_run(struct kedge__server *s, struct kedge__error *err)
{
	struct waiting w = {{0}, 0};
	int rc = 0;

	server_lock(s);
	while (!rc && !atomic_load(&s->stop))
		rc = loop_once(s, &w, err);
	pthread_mutex_unlock(&s->lock);
	kedge__array_done(&w.fds);
	return rc;
}

/* ------------------------------------------------------------------ what is going on */

int kedge__server_look(struct kedge__server *s, struct kedge__server_status *out, struct kedge__error *err)
{
	double now = kedge__clock_seconds();
	int rc = 0;

	server_lock(s);
	*out = s->seen;
	out->since = now - s->since;
	out->memory_used = s->slots_used * s->o.piece;
	out->client_count = 0;
	out->clients = kedge__calloc(s->sessions.count + 1, sizeof(*out->clients));
	out->version_count = s->tally.count;
	out->versions = kedge__calloc(s->tally.count + 1, sizeof(*out->versions));
	if (!out->clients || !out->versions)
		rc = kedge__error_nomem(err);
	for (size_t i = 0; !rc && i < s->sessions.count; i++) {
		const struct kedge__session *c = s->sessions.at[i];

		if (!c->greeted || c->dead)
			continue;
		out->clients[out->client_count] = c->seen;
		out->clients[out->client_count++].since = now - c->seen.since;
	}
	for (size_t i = 0; !rc && i < s->tally.count; i++) {
		out->versions[i] = s->tally.at[i];
		out->versions[i].since = now - s->tally.at[i].since;
		out->versions[i].last = s->tally.at[i].last ? now - s->tally.at[i].last : 0;
	}
	pthread_mutex_unlock(&s->lock);
	if (rc)
		kedge__server_status_done(out);
	return rc;
}

void kedge__server_status_done(struct kedge__server_status *st)
{
	kedge__free(st->clients);
	kedge__free(st->versions);
	*st = (struct kedge__server_status){0};
}

/* ------------------------------------------------------------------ what this build can do */

bool kedge__stage_built(void)
{
	return kedge__fabric_built() && kedge__secret_built();
}

const char *kedge__stage_text(void)
{
	if (!kedge__stage_built())
		return "no";
	return kedge__munge_built() ? "libfabric, MUNGE" : "libfabric";
}
