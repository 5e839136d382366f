/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments that go through a staging server arrive whole, or not at all. */
#include "stage/server.h"
#include "support.h"

#define LARGE 1000003

static int send_all(struct kedge__stage_client *client, uint64_t version, uint32_t rank, const uint8_t *data,
		    size_t bytes, struct kedge__error *err)
{
	const struct kedge__carrier *c = kedge__stage_carrier(client);
	void *file;
	int rc = c->begin(c->ctx, version, rank, 0, true, &file, err);

	if (rc)
		return rc;
	for (size_t at = 0, n; at < bytes && !rc; at += n) {
		n = KEDGE__MIN(bytes - at, (size_t)300000);
		rc = c->append(file, data + at, n, err);
	}
	if (!rc)
		rc = c->commit(file, err);
	if (rc)
		c->drop(file);
	return rc;
}

static void goes_through(const char *provider)
{
	uint8_t *data = malloc(LARGE);
	struct kedge__stage_client *c;
	struct place p;

	place_open(&p);
	snprintf(p.options.listen.provider, sizeof(p.options.listen.provider), "%s", provider);
	server_start(&p);
	c = client_of(&p, p.address);
	for (uint64_t v = 1; v <= 3; v++) {
		pattern(data, LARGE, v);
		assert_ok(send_all(c, v, 0, data, LARGE, err));
		assert_segment(&p, v, 0, data, LARGE);
	}
	assert_int_equal(kedge__stage_client_counters(c).segments, 3);
	assert_int_equal(kedge__stage_client_counters(c).connections, 1);
	kedge__stage_client_free(c);
	place_close(&p);
	free(data);
}

static void by_tcp(void **state)
{
	(void)state;
	goes_through("tcp");
}

static void by_shared_memory(void **state)
{
	(void)state;
	goes_through("shm");
}

/* ------------------------------------------------------------------ faults */

static int part_sent(struct kedge__stage_client *client, uint64_t version, const uint8_t *data, size_t bytes,
		     void **file)
{
	const struct kedge__carrier *c = kedge__stage_carrier(client);

	assert_ok(c->begin(c->ctx, version, 0, 0, true, file, err));
	return c->append(*file, data, bytes, NULL);
}

/* Until the loss shows: buffers that nobody reads run out. */
static void send_until_lost(struct kedge__stage_client *client, void *file, const uint8_t *data)
{
	const struct kedge__carrier *c = kedge__stage_carrier(client);
	int rc = 0;

	while (!rc)
		rc = c->append(file, data, 65536, NULL);
	assert_int_equal(rc, KEDGE_E_IO);
	c->drop(file);
	assert_true(kedge__stage_again(client));
}

static void server_killed(void **state)
{
	uint8_t *data = malloc(LARGE);
	struct kedge__stage_client *c;
	struct place p;
	void *file;

	(void)state;
	place_open(&p);
	pattern(data, LARGE, 1);
	server_fork(&p);
	c = client_of(&p, p.address);
	assert_int_equal(part_sent(c, 1, data, LARGE / 2, &file), 0);
	server_kill(&p);
	send_until_lost(c, file, data);
	assert_fails(KEDGE_E_IO, "cannot reach", send_all(c, 1, 0, data, LARGE, err));
	server_fork(&p);
	assert_ok(send_all(c, 1, 0, data, LARGE, err));
	assert_segment(&p, 1, 0, data, LARGE);
	assert_int_equal(kedge__stage_client_counters(c).connections, 2);
	kedge__stage_client_free(c);
	place_close(&p);
	free(data);
}

/* Two servers: the segment that the first one was at is begun again at the second. */
static void second_server(void **state)
{
	uint8_t *data = malloc(LARGE);
	struct kedge__stage_client *c;
	struct place p, q;
	char both[600];
	void *file;

	(void)state;
	place_open(&p);
	pattern(data, LARGE, 1);
	server_fork(&p);
	q = p;
	q.options.listen.port = 0;
	server_fork(&q);
	text_make(both, sizeof(both), "%s,%s", p.address, q.address);
	c = client_of(&p, both);
	assert_int_equal(part_sent(c, 1, data, LARGE / 2, &file), 0);
	server_kill(&p);
	send_until_lost(c, file, data);
	assert_ok(send_all(c, 1, 0, data, LARGE, err));
	assert_segment(&p, 1, 0, data, LARGE);
	kedge__stage_client_free(c);
	server_kill(&q);
	place_close(&p);
	free(data);
}

static size_t clients_of(const struct place *p)
{
	struct kedge__server_status st;
	size_t n;

	assert_ok(kedge__server_look(p->server, &st, err));
	n = st.client_count;
	kedge__server_status_done(&st);
	return n;
}

/* Told where the server is, sends half of a segment, says so, and waits to be killed. */
static void victim_main(const struct place *p, int in, int out)
{
	static uint8_t data[LARGE];
	struct place there = *p;
	struct kedge__stage_client *client;
	void *file;

	if (read(in, there.address, sizeof(there.address)) != sizeof(there.address))
		_exit(1);
	client = client_of(&there, there.address);
	if (part_sent(client, 1, data, LARGE / 2, &file) || write(out, "x", 1) != 1)
		_exit(1);
	pause();
	_exit(1);
}

/* What a client that is killed had begun is removed. It is forked before this process has threads. */
static void client_killed(void **state)
{
	int to[2], from[2];
	struct place p;
	pid_t child;
	char c;

	(void)state;
	place_open(&p);
	assert_int_equal(pipe(to) || pipe(from), 0);
	child = fork();
	if (child == 0)
		victim_main(&p, to[0], from[1]);
	server_start(&p);
	assert_int_equal(write(to[1], p.address, sizeof(p.address)), sizeof(p.address));
	assert_int_equal(read(from[0], &c, 1), 1);
	assert_int_equal(clients_of(&p), 1);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	while (clients_of(&p))
		sched_yield();
	server_end(&p);
	assert_nothing(&p, 1);
	for (int i = 0; i < 2; i++) {
		close(to[i]);
		close(from[i]);
	}
	place_close(&p);
}

/* The client is told what the server's storage says, and the server goes on. */
static void disk_full(void **state)
{
	uint8_t *data = malloc(LARGE);
	struct kedge__stage_client *c;
	struct place p;

	(void)state;
	place_open(&p);
	pattern(data, LARGE, 1);
	server_start(&p);
	c = client_of(&p, p.address);
	assert_ok(send_all(c, 1, 0, data, LARGE, err));
	for (int n = 1; n <= 6; n++) {
		char fault[32];

		text_make(fault, sizeof(fault), "enospc@%d", n);
		assert_ok(kedge__fault_set(fault, err));
		assert_fails(KEDGE_E_NOSPACE, "the staging server says", send_all(c, 2, 0, data, LARGE, err));
		assert_false(kedge__stage_again(c));
		assert_ok(kedge__fault_set(NULL, err));
		assert_ok(send_all(c, (uint64_t)n + 2, 0, data, LARGE, err));
	}
	assert_int_equal(kedge__stage_client_counters(c).connections, 1);
	kedge__stage_client_free(c);
	server_end(&p);
	assert_nothing(&p, 2);
	assert_segment(&p, 3, 0, data, LARGE);
	place_close(&p);
	free(data);
}

/* ------------------------------------------------------------------ many clients */

#define CROWD 64

struct member {
	const struct place *p;
	pthread_t thread;
	uint32_t rank;
	int rc;
};

static void *member_main(void *ctx)
{
	struct member *m = ctx;
	struct kedge__stage_client *c = client_of(m->p, m->p->address);
	uint8_t *data = malloc(LARGE / 2);

	pattern(data, LARGE / 2, m->rank);
	m->rc = send_all(c, 1, m->rank, data, LARGE / 2, NULL);
	kedge__stage_client_free(c);
	free(data);
	return NULL;
}

/* Memory stays within its limit, however many push, and everything arrives. */
static void bounded(void **state)
{
	static struct member crowd[CROWD];
	uint8_t *data = malloc(LARGE / 2);
	struct kedge__server_status st;
	struct place p;

	(void)state;
	place_open(&p);
	p.options.memory = 5 * 65536;
	server_start(&p);
	for (uint32_t i = 0; i < CROWD; i++) {
		crowd[i] = (struct member){.p = &p, .rank = i};
		assert_int_equal(pthread_create(&crowd[i].thread, NULL, member_main, &crowd[i]), 0);
	}
	for (uint32_t i = 0; i < CROWD; i++) {
		pthread_join(crowd[i].thread, NULL);
		assert_int_equal(crowd[i].rc, 0);
		pattern(data, LARGE / 2, i);
		assert_segment(&p, 1, i, data, LARGE / 2);
	}
	assert_ok(kedge__server_look(p.server, &st, err));
	assert_int_equal(st.memory, 5 * 65536);
	assert_true(st.memory_most <= st.memory && st.memory_most > 0);
	assert_int_equal(st.bytes_written, CROWD * (LARGE / 2));
	assert_int_equal(st.segments, CROWD);
	kedge__server_status_done(&st);
	place_close(&p);
	free(data);
}

/* Clients take turns, whatever each has; one that has had its share waits until it is due. */
static void turns(void **state)
{
	struct kedge__session a = {.not_before = 0}, b = {.not_before = 0}, c = {.not_before = 5};
	struct kedge__session *all[] = {&a, &b, &c};
	struct kedge__server s = {.sessions = {all, 3, 3}};
	struct kedge__item item = {.kind = KEDGE__ITEM_PIECE};
	double next = 100;

	(void)state;
	a.wait_first = b.wait_first = c.wait_first = &item;
	assert_ptr_equal(kedge__intake_turn(&s, 1, &next), &a);
	assert_ptr_equal(kedge__intake_turn(&s, 1, &next), &b);
	assert_ptr_equal(kedge__intake_turn(&s, 1, &next), &a);
	assert_true(next == 5);
	assert_ptr_equal(kedge__intake_turn(&s, 6, &next), &b);
	assert_ptr_equal(kedge__intake_turn(&s, 6, &next), &c);
	b.wait_first = NULL;
	a.dead = true;
	assert_ptr_equal(kedge__intake_turn(&s, 6, &next), &c);
	c.stuck = true;
	assert_null(kedge__intake_turn(&s, 6, &next));
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(server_killed),    cmocka_unit_test(second_server),
	    cmocka_unit_test(client_killed),    cmocka_unit_test(by_tcp),
	    cmocka_unit_test(by_shared_memory), cmocka_unit_test(disk_full),
	    cmocka_unit_test(bounded),          cmocka_unit_test(turns),
	};

	return cases_run_where(argc, argv, tests, NULL, NULL, stage_here);
}
