/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may talk to a staging server, and what becomes of clients that lie: nothing of theirs is stored. */
#include "stage/secret.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

/* ------------------------------------------------------------------ a client that says what it likes */

struct liar {
	struct kedge__talk talk;
	struct kedge__fabric *fabric;
	struct kedge__port *port;
	struct kedge__fabric_memory memory;
	uint8_t *data;
};

#define PIECE 65536

static void liar_prepare(struct liar *l, const struct place *p, struct kedge__stage_message *hello)
{
	struct kedge__stage_hello *h = &hello->u.hello;
	struct kedge__address a;

	*l = (struct liar){.data = kedge__map_alloc(PIECE)};
	kedge__talk_init(&l->talk);
	assert_ok(kedge__address_parse(p->address, &a, err));
	assert_ok(kedge__link_connect(&l->talk.link, &a, 10, err));
	assert_ok(kedge__fabric_open("tcp", "127.0.0.1", &l->fabric, err));
	assert_ok(kedge__port_open(l->fabric, 1, &l->port, err));
	assert_ok(kedge__fabric_register(l->fabric, l->port, l->data, PIECE, &l->memory, err));
	memset(hello, 0, sizeof(*hello));
	hello->type = KEDGE__STAGE_HELLO;
	h->auth = KEDGE__STAGE_AUTH_KEY;
	h->store = p->id;
	snprintf(h->name, sizeof(h->name), "%s", NAME);
	snprintf(h->provider, sizeof(h->provider), "%s", kedge__fabric_provider(l->fabric));
	assert_ok(kedge__port_name(l->port, h->port, &h->port_bytes, err));
}

static struct kedge__stage_message *liar_answer(struct liar *l)
{
	struct kedge__stage_message *m;
	const uint8_t *frame;
	size_t bytes;

	assert_ok(kedge__link_wait(&l->talk.link, 30, &frame, &bytes, err));
	assert_ok(kedge__talk_peek(&l->talk, &m, err));
	return m;
}

static void liar_open(struct liar *l, const struct place *p)
{
	struct kedge__stage_message hello, *m;
	uint8_t secret[KEDGE__SECRET_BYTES];
	struct kedge__auth auth;

	liar_prepare(l, p, &hello);
	assert_ok(kedge__auth_open(p->key, &auth, err));
	assert_ok(kedge__auth_offer(&auth, &hello.u.hello, secret, err));
	assert_ok(kedge__talk_send(&l->talk, &hello, err));
	m = liar_answer(l);
	assert_int_equal(m->type, KEDGE__STAGE_WELCOME);
	kedge__talk_key(&l->talk, false, secret, m->u.welcome.nonce);
	assert_ok(kedge__talk_take(&l->talk, &m, err));
	kedge__auth_close(&auth);
}

static void liar_close(struct liar *l)
{
	kedge__fabric_unregister(&l->memory);
	kedge__port_close(l->port);
	kedge__fabric_close(l->fabric);
	kedge__talk_done(&l->talk);
	kedge__map_free(l->data, PIECE);
}

static void say(struct liar *l, struct kedge__stage_message m)
{
	(void)kedge__talk_send(&l->talk, &m, NULL); /* the server may have hung up */
}

/* The server hangs up. The fabric is let work meanwhile: the server may be reading. */
static void hung_up(struct liar *l)
{
	struct pollfd p = {.fd = l->talk.link.fd, .events = POLLIN};
	struct kedge__stage_message *m;
	struct kedge__port_done done;

	for (;;) {
		(void)kedge__port_poll(l->port, &done, 1);
		if (poll(&p, 1, 1) <= 0)
			continue;
		if (kedge__link_pull(&l->talk.link, NULL))
			return;
		do
			if (kedge__talk_take(&l->talk, &m, NULL))
				return;
		while (m);
	}
}

static struct kedge__stage_message begin(uint32_t file, uint64_t version)
{
	return (struct kedge__stage_message){.type = KEDGE__STAGE_BEGIN,
					     .u.begin = {.file = file, .version = version, .sync = true}};
}

static struct kedge__stage_message piece(const struct liar *l, uint32_t file, uint64_t offset, uint32_t bytes)
{
	return (struct kedge__stage_message){.type = KEDGE__STAGE_PIECE,
					     .u.piece = {.file = file,
							 .offset = offset,
							 .bytes = bytes,
							 .address = l->memory.address,
							 .key = l->memory.key,
							 .checksum = kedge__checksum(l->data, bytes)}};
}

static struct kedge__stage_message commit(uint32_t file, uint64_t bytes)
{
	return (struct kedge__stage_message){.type = KEDGE__STAGE_COMMIT, .u.commit = {file, bytes}};
}

/* ------------------------------------------------------------------ lies */

enum lie {
	NOT_BEGUN,
	BEGUN_TWICE,
	WRONG_PLACE,
	TOO_LARGE,
	TOO_MANY,
	NO_SUCH_MEMORY,
	AFTER_THE_END,
	A_SERVERS_WORD,
	HELLO_AGAIN,
	FALSE_SUM,
	REPLAYED,
	LIES
};

static void lie_tell(struct liar *l, enum lie what)
{
	struct kedge__stage_message m;

	if (what != NOT_BEGUN)
		say(l, begin(0, 7));
	switch (what) {
	case NOT_BEGUN:
		say(l, piece(l, 0, 0, 100));
		break;
	case BEGUN_TWICE:
		say(l, begin(0, 8));
		break;
	case WRONG_PLACE:
		say(l, piece(l, 0, 4096, 100));
		break;
	case TOO_LARGE:
		say(l, piece(l, 0, 0, PIECE));
		m = piece(l, 0, PIECE, 100);
		m.u.piece.bytes = 1 << 20;
		say(l, m);
		break;
	case TOO_MANY:
		for (uint64_t i = 0; i < 40; i++) {
			m = piece(l, 0, i * 100, 100);
			m.u.piece.key = ~l->memory.key;
			say(l, m);
		}
		break;
	case NO_SUCH_MEMORY:
		m = piece(l, 0, 0, 100);
		m.u.piece.key = ~l->memory.key;
		say(l, m);
		break;
	case AFTER_THE_END:
		say(l, commit(0, 999));
		say(l, piece(l, 0, 0, 100));
		break;
	case A_SERVERS_WORD:
		say(l, (struct kedge__stage_message){.type = KEDGE__STAGE_TAKEN});
		break;
	case HELLO_AGAIN:
		m = (struct kedge__stage_message){.type = KEDGE__STAGE_HELLO};
		m.u.hello = (struct kedge__stage_hello){.auth = 1, .name = "job", .provider = "tcp", .port_bytes = 1};
		say(l, m);
		break;
	case FALSE_SUM:
		l->talk.out_key[3] ^= 1;
		say(l, commit(0, 0));
		break;
	case REPLAYED:
		l->talk.out_number--;
		say(l, (struct kedge__stage_message){.type = KEDGE__STAGE_PING});
		break;
	case LIES:
		break;
	}
}

/* The server hangs up, nothing of it is stored, and the next client is served as ever. */
static void lies(void **state)
{
	struct place p;

	(void)state;
	place_open(&p);
	server_start(&p);
	for (int what = 0; what < LIES; what++) {
		struct liar l;

		liar_open(&l, &p);
		lie_tell(&l, (enum lie)what);
		hung_up(&l);
		liar_close(&l);
	}
	server_end(&p);
	assert_nothing(&p, 7);
	place_close(&p);
}

/* The bytes are not what the client says that they are, or are not as many: it is told so, and they are not stored. */
static void false_bytes(void **state)
{
	struct kedge__stage_message m, *got;
	struct place p;
	struct liar l;

	(void)state;
	place_open(&p);
	server_start(&p);
	liar_open(&l, &p);
	for (int what = 0; what < 2; what++) {
		say(&l, begin(0, 7));
		m = piece(&l, 0, 0, 100);
		m.u.piece.checksum ^= what == 0;
		say(&l, m);
		say(&l, commit(0, 100 + (what == 1)));
		do {
			struct kedge__port_done done;

			(void)kedge__port_poll(l.port, &done, 1);
			assert_int_equal(kedge__link_pull(&l.talk.link, NULL), 0);
			assert_ok(kedge__talk_take(&l.talk, &got, err));
		} while (!got || got->type != KEDGE__STAGE_ANSWER || got->u.answer.to != KEDGE__STAGE_COMMIT);
		assert_int_equal(got->u.answer.code, KEDGE_E_IO);
	}
	liar_close(&l);
	server_end(&p);
	assert_nothing(&p, 7);
	place_close(&p);
}

/* ------------------------------------------------------------------ who */

static void refused(const struct place *p, struct kedge__stage_hello change, int code, const char *says)
{
	struct kedge__stage_message hello, *m;
	struct liar l;

	liar_prepare(&l, p, &hello);
	if (change.name[0])
		memcpy(hello.u.hello.name, change.name, sizeof(change.name));
	if (change.provider[0])
		memcpy(hello.u.hello.provider, change.provider, sizeof(change.provider));
	if (change.auth)
		hello.u.hello.auth = change.auth;
	if (change.store.at[0])
		hello.u.hello.store = change.store;
	assert_ok(kedge__talk_send(&l.talk, &hello, err));
	if (says) {
		m = liar_answer(&l);
		assert_int_equal(m->type, KEDGE__STAGE_REFUSED);
		assert_int_equal(m->u.answer.code, code);
		assert_non_null(strstr(m->u.answer.text, says));
		assert_ok(kedge__talk_take(&l.talk, &m, err));
	}
	hung_up(&l);
	liar_close(&l);
}

static void strangers(void **state)
{
	struct place p;

	(void)state;
	place_open(&p);
	server_start(&p);
	refused(&p, (struct kedge__stage_hello){.provider = "pigeon"}, KEDGE_E_CONFIG, "pigeon");
	refused(&p, (struct kedge__stage_hello){.auth = KEDGE__STAGE_AUTH_MUNGE}, KEDGE_E_ACCESS, "its key file");
	refused(&p, (struct kedge__stage_hello){.store = {"another store"}}, KEDGE_E_CONFIG, "another store");
	/* A name is a word, not a path: such a message is none. */
	refused(&p, (struct kedge__stage_hello){.name = "../other"}, 0, NULL);
	refused(&p, (struct kedge__stage_hello){.name = "/etc"}, 0, NULL);
	refused(&p, (struct kedge__stage_hello){.name = ".."}, 0, NULL);
	place_close(&p);
}

/* A job that the store does not have: a client makes no directories. */
static void no_such_job(void **state)
{
	struct kedge__stage_client *c;
	struct kedge__stage_options o;
	struct place p;
	void *file;

	(void)state;
	place_open(&p);
	server_start(&p);
	o = (struct kedge__stage_options){
	    .servers = p.address, .auth = p.key, .buffer = PIECE, .buffers = 2, .timeout = 20, .retry = 0};
	assert_ok(kedge__stage_client_new(&o, "nobody", &p.id, &c, err));
	assert_ok(kedge__stage_carrier(c)->begin(c, 1, 0, 0, true, &file, err));
	assert_fails(KEDGE_E_NOTFOUND, "no job nobody", kedge__stage_carrier(c)->commit(file, err));
	kedge__stage_carrier(c)->drop(file);
	kedge__stage_client_free(c);
	place_close(&p);
}

static void key_files(void **state)
{
	struct kedge__auth auth;
	struct place p;

	(void)state;
	place_open(&p);
	assert_int_equal(chmod(p.key + 4, 0640), 0);
	assert_fails(KEDGE_E_ACCESS, "chmod 600", kedge__auth_open(p.key, &auth, err));
	assert_int_equal(chmod(p.key + 4, 0604), 0);
	assert_fails(KEDGE_E_ACCESS, "chmod 600", kedge__auth_open(p.key, &auth, err));
	assert_int_equal(chmod(p.key + 4, 0600), 0);
	file_write(p.key + 4, "short", 5);
	assert_int_equal(chmod(p.key + 4, 0600), 0);
	assert_fails(KEDGE_E_CONFIG, "5 bytes", kedge__auth_open(p.key, &auth, err));
	assert_fails(KEDGE_E_CONFIG, "is not munge", kedge__auth_open("password", &auth, err));
	assert_ok(kedge__auth_open(NULL, &auth, err));
	assert_int_equal(auth.kind, KEDGE__STAGE_AUTH_MUNGE);
	place_close(&p);
}

/* ------------------------------------------------------------------ a network that is cut */

struct wire { /* between a client and a server; once cut, nothing passes, and nobody is told */
	int listening, ends[2];
	struct kedge__address to;
	char address[KEDGE__ADDRESS_TEXT];
	atomic_bool cut, stop;
	pthread_t thread;
};

static bool wire_pass(struct wire *w, int from, int to)
{
	uint8_t data[4096];
	ssize_t n = read(from, data, sizeof(data));

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	return atomic_load(&w->cut) || write(to, data, (size_t)n) == n;
}

static void wire_close(struct wire *w)
{
	for (int i = 0; i < 2; i++)
		if (w->ends[i] >= 0)
			close(w->ends[i]);
	w->ends[0] = w->ends[1] = -1;
}

static void *wire_main(void *ctx)
{
	struct wire *w = ctx;

	while (!atomic_load(&w->stop)) {
		struct pollfd p[] = {{w->listening, POLLIN, 0}, {w->ends[0], POLLIN, 0}, {w->ends[1], POLLIN, 0}};

		(void)poll(p, 3, 10);
		if (p[0].revents) {
			struct kedge__link link;

			wire_close(w);
			atomic_store(&w->cut, false); /* mended */
			w->ends[0] = accept(w->listening, NULL, NULL);
			if (kedge__link_connect(&link, &w->to, 10, NULL))
				wire_close(w);
			else
				w->ends[1] = link.fd;
			continue;
		}
		if ((p[1].revents && !wire_pass(w, w->ends[0], w->ends[1])) ||
		    (p[2].revents && !wire_pass(w, w->ends[1], w->ends[0])))
			wire_close(w);
	}
	return NULL;
}

static void wire_open(struct wire *w, const struct place *p)
{
	struct kedge__address any = {.provider = "tcp", .host = "127.0.0.1"}, bound;

	*w = (struct wire){.ends = {-1, -1}};
	assert_ok(kedge__address_parse(p->address, &w->to, err));
	assert_ok(kedge__link_listen(&any, &w->listening, &bound, err));
	kedge__address_text(&bound, w->address);
	assert_int_equal(pthread_create(&w->thread, NULL, wire_main, w), 0);
}

static void wire_done(struct wire *w)
{
	atomic_store(&w->stop, true);
	pthread_join(w->thread, NULL);
	wire_close(w);
	close(w->listening);
}

/* A segment, the ATTEMPT-th time. */
static int carry(struct kedge__stage_client *c, const uint8_t *data, size_t bytes, uint32_t attempt)
{
	const struct kedge__carrier *carrier = kedge__stage_carrier(c);
	void *file;
	int rc = carrier->begin(c, 1, 0, attempt, true, &file, NULL);

	if (rc)
		return rc;
	rc = carrier->append(file, data, bytes, NULL);
	if (!rc)
		rc = carrier->commit(file, NULL);
	if (rc)
		carrier->drop(file);
	return rc;
}

static int carry_cut(const struct kedge__carrier *carrier, void *file, const uint8_t *data, struct wire *w,
		     struct kedge__error *err)
{
	int rc = carrier->append(file, data, 300000, err);

	atomic_store(&w->cut, true);
	return rc ? rc : carrier->commit(file, err);
}

/* Neither side learns of it but by hearing nothing; then the segment is sent again, whole. A machine that is busy for
 * more than a second looks the same, and so it is sent until it arrives. */
static void cut_and_mended(void **state)
{
	static uint8_t data[600000];
	const struct kedge__carrier *carrier;
	struct kedge__stage_options o;
	struct kedge__stage_client *c;
	uint32_t attempt = 0;
	struct wire w;
	struct place p;
	void *file;

	(void)state;
	place_open(&p);
	p.options.timeout = 1;
	server_start(&p);
	wire_open(&w, &p);
	o = (struct kedge__stage_options){
	    .servers = w.address, .auth = p.key, .buffer = PIECE, .buffers = 3, .timeout = 1, .retry = 0};
	assert_ok(kedge__stage_client_new(&o, NAME, &p.id, &c, err));
	carrier = kedge__stage_carrier(c);
	pattern(data, sizeof(data), 3);
	while (carrier->begin(c, 1, 0, attempt, true, &file, NULL) != 0)
		assert_true(++attempt < 50);
	/* Or it lost us first. */
	assert_fails(KEDGE_E_IO, "the staging server is lost", carry_cut(carrier, file, data, &w, err));
	carrier->drop(file);
	assert_true(kedge__stage_again(c));
	while (carry(c, data, sizeof(data), ++attempt) != 0) { /* the server may still have the first attempt */
		assert_true(attempt < 100);
		(void)kedge__stage_again(c);
	}
	kedge__stage_client_free(c);
	wire_done(&w);
	server_end(&p);
	place_close(&p);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lies),        cmocka_unit_test(false_bytes), cmocka_unit_test(strangers),
	    cmocka_unit_test(no_such_job), cmocka_unit_test(key_files),   cmocka_unit_test(cut_and_mended),
	};

	return cases_run_where(argc, argv, tests, NULL, NULL, stage_here);
}
