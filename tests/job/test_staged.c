/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job whose segments go to L2 by a staging server. Whatever happens to the server costs L2 alone: the job goes on, L1
 * has all, and what was not confirmed does not count.
 */
#include "../lib/fabric.h"
#include "support.h"

#include "stage/stage.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define BYTES 400000

static uint8_t m[BYTES], want[BYTES];

struct post { /* a server */
	struct kedge__server *server;
	pthread_t thread;
	char address[KEDGE__ADDRESS_TEXT];
	uint16_t port;
};

static void *post_main(void *ctx)
{
	(void)kedge__server_run(ctx, NULL);
	return NULL;
}

static void key_write(const struct place *p, char *auth, size_t room)
{
	text_make(auth, room, "key:%s/key", p->dir);
	file_write(auth + 4, "a key of thirty-two bytes, or of more", 37);
	assert_int_equal(chmod(auth + 4, 0600), 0);
}

static void post_options(const struct place *p, const char *auth, uint16_t port, struct kedge__server_options *o)
{
	kedge__server_options_init(o);
	o->store = p->l2;
	o->auth = auth;
	o->piece = 65536;
	o->memory = 8 * 65536;
	o->listen.port = port;
}

static void post_open(struct post *s, const struct place *p, const char *auth)
{
	struct kedge__server_options o;

	post_options(p, auth, s->port, &o);
	assert_int_equal(kedge__server_open(&o, &s->server, NULL), 0);
	kedge__address_text(kedge__server_address(s->server), s->address);
	s->port = kedge__server_address(s->server)->port;
	assert_int_equal(pthread_create(&s->thread, NULL, post_main, s->server), 0);
}

static uint64_t post_close(struct post *s)
{
	struct kedge__server_status st;
	uint64_t segments;

	assert_int_equal(kedge__server_look(s->server, &st, NULL), 0);
	segments = st.segments;
	kedge__server_status_done(&st);
	kedge__server_stop(s->server);
	pthread_join(s->thread, NULL);
	kedge__server_close(s->server);
	s->server = NULL;
	return segments;
}

static void state_make(uint8_t *to, uint64_t version)
{
	fill_random(to, BYTES, 1);
	for (uint64_t v = 1; v <= version; v++)
		fill_random(to + v % 10 * (BYTES / 10), BYTES / 10, v + 50);
}

static kedge_t *staged_open(struct place *p, const char *servers, const char *auth, const char *more)
{
	char stage[600], how[400];
	kedge_t *k;

	text_make(stage, sizeof(stage), "stage=%s", servers);
	text_make(how, sizeof(how), "stage_auth=%s", auth);
	place_forget(p);
	kedge_set_log(place_log, p);
	k = job_open(p, true, MORE(stage, how, "stage_buffer=64k", "stage_retry=0", more));
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static void take(kedge_t *k, uint64_t version, bool l2)
{
	state_make(m, version);
	assert_ok(k, kedge_checkpoint(k, version));
	if (l2)
		assert_ok(k, kedge_wait(k));
	else
		assert_true(kedge_wait(k) < 0);
	assert_int_equal(levels_of(k, version), l2 ? 3 : 1);
}

/* L2 alone gives back what was taken. */
static void comes_back_from_l2(struct place *p, uint64_t version)
{
	uint64_t got = 0;
	kedge_t *k;

	tree_remove(p->l1);
	k = job_open(p, true, NULL);
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	memset(m, 0, BYTES);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &got));
	assert_int_equal(got, version);
	state_make(want, version);
	assert_memory_equal(m, want, BYTES);
	assert_ok(k, kedge_close(k));
}

static void staged(struct place *p, const char *coalesce, uint64_t least)
{
	struct post s = {.port = 0};
	char auth[400];
	kedge_t *k;

	key_write(p, auth, sizeof(auth));
	post_open(&s, p, auth);
	k = staged_open(p, s.address, auth, coalesce);
	for (uint64_t v = 1; v <= 4; v++)
		take(k, v, true);
	assert_ok(k, kedge_close(k));
	assert_true(post_close(&s) >= least);
	comes_back_from_l2(p, 4);
}

/* It writes a file per rank, and says so. */
static void no_bundles(void **state)
{
	struct place *p = *state;
	char path[600];

	staged(p, "group_size=4", 4);
	assert_non_null(strstr(place_said(p), "group_size = 4 has no effect"));
	segment_path(p->l2, 4, 0, path, sizeof(path));
}

static void versions_as_they_are(void **state)
{
	staged(*state, "coalesce=never", 4);
}

static void versions_in_batches(void **state)
{
	staged(*state, "coalesce=batch", 4);
}

/* Without a server the version stays on L1; with one again, the next one gets to L2. */
static void without_a_server(void **state)
{
	struct post s = {.port = 0};
	struct place *p = *state;
	char auth[400];
	kedge_t *k;

	key_write(p, auth, sizeof(auth));
	post_open(&s, p, auth);
	k = staged_open(p, s.address, auth, "coalesce=auto");
	take(k, 1, true);
	post_close(&s);
	take(k, 2, false);
	assert_non_null(strstr(place_said(p), "version 2 did not reach L2"));
	post_open(&s, p, auth);
	take(k, 3, true);
	assert_ok(k, kedge_close(k));
	post_close(&s);
	comes_back_from_l2(p, 3);
}

static void by_the_second_server(void **state)
{
	struct post a = {.port = 0}, b = {.port = 0};
	struct place *p = *state;
	char auth[400], both[400];
	kedge_t *k;

	key_write(p, auth, sizeof(auth));
	post_open(&a, p, auth);
	post_open(&b, p, auth);
	text_make(both, sizeof(both), "%s,%s", a.address, b.address);
	k = staged_open(p, both, auth, "coalesce=auto");
	take(k, 1, true);
	assert_int_equal(post_close(&a), 1);
	take(k, 2, true);
	assert_ok(k, kedge_close(k));
	assert_int_equal(post_close(&b), 1);
	comes_back_from_l2(p, 2);
}

/* A server that another user's key, or another store, belongs to: L2 is not reached, and the reason is given. */
static void refused(void **state)
{
	struct post s = {.port = 0};
	struct place *p = *state;
	char auth[400], other[400];
	kedge_t *k;

	key_write(p, auth, sizeof(auth));
	post_open(&s, p, auth);
	text_make(other, sizeof(other), "key:%s/other", p->dir);
	file_write(other + 4, "not the same key, but as long as that", 37);
	assert_int_equal(chmod(other + 4, 0600), 0);
	k = staged_open(p, s.address, other, "coalesce=auto");
	take(k, 1, false);
	assert_non_null(strstr(place_said(p), "do not have the same key"));
	assert_ok(k, kedge_close(k));
	post_close(&s);
}

/* What is wrong with the settings is said when the job opens. */
static void settings(void **state)
{
	static const struct {
		const char *stage, *says;
	} cases[] = {{"stage=somewhere", "it has no port"},
		     {"stage=tcp://a:1,b", "it has no port"},
		     {"stage=host:99999", "below 65536"},
		     {"stage=UPPER://host:1", "provider"}};
	struct place *p = *state;
	struct options o;
	kedge_t *k;

	for (size_t i = 0; i < KEDGE__COUNT(cases); i++) {
		assert_int_equal(kedge_open("job", NULL, options_make(&o, p, true, MORE(cases[i].stage)), &k),
				 KEDGE_E_CONFIG);
		assert_non_null(strstr(kedge_last_error(NULL), cases[i].says));
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
	    JOB(versions_as_they_are),
	    JOB(no_bundles),
	    JOB(versions_in_batches),
	    JOB(without_a_server),
	    JOB(by_the_second_server),
	    JOB(refused),
	    JOB(settings),
	};

	return cases_run_where(argc, argv, tests, NULL, NULL, kedge__stage_built);
}
