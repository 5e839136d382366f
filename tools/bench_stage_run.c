/* SPDX-License-Identifier: BSD-3-Clause */
/* A staging server and its clients, each a process, as on a cluster. */
#include "bench_stage.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "bench"

double kedge__bench_cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

bool kedge__bench_write_all(int fd, const void *data, size_t bytes)
{
	return write(fd, data, bytes) == (ssize_t)bytes; /* less than a pipe takes at once */
}

bool kedge__bench_read_all(int fd, void *data, size_t bytes)
{
	uint8_t *at = data;

	while (bytes) {
		ssize_t n = read(fd, at, bytes);

		if (n <= 0)
			return false;
		at += n;
		bytes -= (size_t)n;
	}
	return true;
}

/* ------------------------------------------------------------------ the server */

static void server_main(struct kedge__bench_stage *b, unsigned writers, int out)
{
	struct kedge__server_options o;
	char text[KEDGE__ADDRESS_TEXT] = "";
	struct kedge__server *s;

	kedge__server_options_init(&o);
	o.store = b->store;
	o.auth = b->auth;
	o.writers = writers;
	snprintf(o.listen.provider, sizeof(o.listen.provider), "%s", b->provider);
	if (kedge__server_open(&o, &s, NULL))
		_exit(1);
	kedge__address_text(kedge__server_address(s), text);
	if (!kedge__bench_write_all(out, text, sizeof(text)))
		_exit(1);
	(void)kedge__server_run(s, NULL);
	_exit(0);
}

int kedge__bench_server_start(struct kedge__bench_stage *b, unsigned writers, struct kedge__bench_server *s,
			      struct kedge__error *err)
{
	int ends[2], rc = 0;

	if (pipe(ends))
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot make a pipe");
	s->pid = fork();
	if (s->pid == 0)
		server_main(b, writers, ends[1]);
	close(ends[1]);
	if (s->pid < 0 || !kedge__bench_read_all(ends[0], s->address, sizeof(s->address)))
		rc = kedge__error_set(err, KEDGE_E_IO, 0, "the server cannot begin");
	close(ends[0]);
	return rc;
}

void kedge__bench_server_end(struct kedge__bench_server *s)
{
	if (s->pid <= 0)
		return;
	(void)kill(s->pid, SIGKILL);
	(void)waitpid(s->pid, NULL, 0);
	s->pid = 0;
}

/* ------------------------------------------------------------------ clients */

int kedge__bench_client(struct kedge__bench_stage *b, const struct kedge__bench_server *s,
			struct kedge__stage_client **out, struct kedge__error *err)
{
	const struct kedge__stage_options o = {
	    .servers = s->address, .auth = b->auth, .buffer = b->piece, .buffers = 4, .timeout = 60, .retry = 0};

	return kedge__stage_client_new(&o, NAME, &b->id, out, err);
}

static int send_segment(struct kedge__bench_stage *b, struct kedge__stage_client *client, uint64_t version,
			uint32_t rank, uint64_t bytes)
{
	const struct kedge__carrier *c = kedge__stage_carrier(client);
	void *file;
	int rc = c->begin(c->ctx, version, rank, 0, true, &file, NULL);

	if (rc)
		return rc;
	for (uint64_t at = 0; at < bytes && !rc; at += b->piece)
		rc = c->append(file, b->data, (size_t)KEDGE__MIN(bytes - at, b->piece), NULL);
	if (!rc)
		rc = c->commit(file, NULL);
	if (rc)
		c->drop(file);
	return rc;
}

struct told { /* by a client */
	double end, cpu;
};

/* Connects and sends a little, says so, waits for the start, sends, and says what it took. */
static void client_main(struct kedge__bench_stage *b, const struct kedge__bench_server *s, uint32_t rank,
			uint64_t bytes, int in, int out)
{
	struct kedge__stage_client *c;
	struct told t;
	char go = 'x';
	double cpu;

	if (kedge__bench_client(b, s, &c, NULL) || send_segment(b, c, 1, rank, b->piece) ||
	    !kedge__bench_write_all(out, &go, 1) || !kedge__bench_read_all(in, &go, 1))
		_exit(1);
	cpu = kedge__bench_cpu();
	if (send_segment(b, c, 2, rank, bytes))
		_exit(1);
	t.end = kedge__clock_seconds();
	t.cpu = kedge__bench_cpu() - cpu;
	_exit(!kedge__bench_write_all(out, &t, sizeof(t)));
}

struct crowd {
	unsigned count;
	pid_t pids[64];
	int go[2], back[2];
};

static int crowd_start(struct kedge__bench_stage *b, const struct kedge__bench_server *s, struct crowd *c,
		       struct kedge__error *err)
{
	uint64_t bytes = b->size / c->count;
	char ready;
	int rc = 0;

	for (unsigned i = 0; i < c->count; i++) {
		c->pids[i] = fork();
		if (c->pids[i] == 0)
			client_main(b, s, i, bytes, c->go[0], c->back[1]);
	}
	close(c->back[1]);
	c->back[1] = -1;
	for (unsigned i = 0; i < c->count && !rc; i++)
		if (!kedge__bench_read_all(c->back[0], &ready, 1))
			rc = kedge__error_set(err, KEDGE_E_IO, 0, "a client cannot begin");
	return rc;
}

static int crowd_run(struct kedge__bench_stage *b, struct crowd *c, double *rate, double *cpu, struct kedge__error *err)
{
	double start = kedge__clock_seconds(), end = start, busy = 0;
	char go[64] = {0};

	if (!kedge__bench_write_all(c->go[1], go, c->count))
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot start the clients");
	for (unsigned i = 0; i < c->count; i++) {
		struct told t;

		if (!kedge__bench_read_all(c->back[0], &t, sizeof(t)))
			return kedge__error_set(err, KEDGE_E_IO, 0, "a client failed");
		end = KEDGE__MAX(end, t.end);
		busy += t.cpu;
	}
	*rate = (double)(b->size / c->count * c->count) / (end - start);
	*cpu = busy / ((double)b->size / 1e9);
	return 0;
}

/* Those that wait for the start end when nobody can give it any more. */
static void crowd_end(struct crowd *c)
{
	for (int i = 0; i < 2; i++) {
		if (c->go[i] >= 0)
			close(c->go[i]);
		if (c->back[i] >= 0)
			close(c->back[i]);
	}
	for (unsigned i = 0; i < c->count; i++)
		if (c->pids[i] > 0) {
			(void)kill(c->pids[i], SIGKILL);
			(void)waitpid(c->pids[i], NULL, 0);
		}
}

/* The store's segments of the last run are removed: storage is as empty for each. */
static int store_make(struct kedge__bench_stage *b, struct kedge__error *err)
{
	struct kedge__catalog *cat;
	int rc;

	kedge__bench_dir_clear(b->store);
	rc = kedge__catalog_open(b->store, NAME, KEDGE__CATALOG_CREATE, &cat, err);
	if (rc)
		return rc;
	b->id = kedge__catalog_store_id(cat);
	kedge__catalog_close(cat);
	return 0;
}

int kedge__bench_stage_run(struct kedge__bench_stage *b, unsigned clients, unsigned writers, double *rate, double *cpu,
			   struct kedge__error *err)
{
	struct crowd c = {.count = clients, .go = {-1, -1}, .back = {-1, -1}};
	struct kedge__bench_server s = {.pid = 0};
	int rc = store_make(b, err);

	if (!rc)
		rc = kedge__bench_server_start(b, writers, &s, err);
	if (!rc && (pipe(c.go) || pipe(c.back)))
		rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot make a pipe");
	if (!rc)
		rc = crowd_start(b, &s, &c, err);
	if (!rc)
		rc = crowd_run(b, &c, rate, cpu, err);
	crowd_end(&c);
	kedge__bench_server_end(&s);
	return rc;
}
