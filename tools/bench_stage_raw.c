/* SPDX-License-Identifier: BSD-3-Clause */
/* What the network and the storage give without Kedge's staging around them. */
#include "bench_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH 4 /* reads in flight */

int kedge__bench_raw_write(struct kedge__bench_stage *b, double *rate, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/plain", b->dir);
	double start = kedge__clock_seconds();
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	bool done = fd >= 0;

	for (uint64_t at = 0; done && at < b->size; at += b->piece)
		done = write(fd, b->data, b->piece) == (ssize_t)b->piece;
	done = done && fsync(fd) == 0;
	*rate = (double)b->size / (kedge__clock_seconds() - start);
	if (!done)
		(void)kedge__error_set(err, KEDGE_E_IO, errno, "cannot write %s", path ? path : "a file");
	if (fd >= 0)
		close(fd);
	if (path)
		unlink(path);
	kedge__free(path);
	return done ? 0 : KEDGE_E_IO;
}

struct target { /* what the reader has to know */
	uint64_t address, key;
	uint8_t name[KEDGE__PORT_NAME_MAX];
	size_t name_bytes;
};

static int port_make(struct kedge__bench_stage *b, bool target, struct kedge__fabric **f, struct kedge__port **p,
		     struct kedge__fabric_memory *m, struct kedge__error *err)
{
	void *at = kedge__map_alloc(DEPTH * b->piece);
	int rc = at ? kedge__fabric_open(b->provider, "127.0.0.1", f, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__port_open(*f, DEPTH, p, err);
	if (!rc)
		rc = kedge__fabric_register(*f, target ? *p : NULL, at, DEPTH * b->piece, m, err);
	return rc;
}

/* Waits on both, as a client does. */
static void port_wait(struct kedge__port *p, int fd, bool *woken)
{
	struct pollfd fds[] = {{fd, POLLIN, 0}, {kedge__port_fd(p), POLLIN, 0}};
	int ms = !kedge__port_may_wait(p) ? 0 : fds[1].fd < 0 ? (fd < 0 ? 0 : 1) : 1000;

	(void)poll(fds, 2, ms);
	*woken = fds[0].revents;
}

/* Its memory is read until its input ends; then it says what that cost its processor. */
static void target_main(struct kedge__bench_stage *b, int in, int out)
{
	struct target t = {0};
	struct kedge__fabric_memory m;
	struct kedge__port_done done;
	struct kedge__fabric *f;
	struct kedge__port *p;
	bool woken = false;
	double cpu;

	if (port_make(b, true, &f, &p, &m, NULL) || kedge__port_name(p, t.name, &t.name_bytes, NULL))
		_exit(1);
	memset(m.at, 1, m.bytes);
	t.address = m.address;
	t.key = m.key;
	if (!kedge__bench_write_all(out, &t, sizeof(t)))
		_exit(1);
	cpu = kedge__bench_cpu();
	while (!woken) {
		(void)kedge__port_poll(p, &done, 1);
		port_wait(p, in, &woken);
	}
	cpu = kedge__bench_cpu() - cpu;
	_exit(!kedge__bench_write_all(out, &cpu, sizeof(cpu)));
}

static int read_loop(struct kedge__bench_stage *b, struct kedge__port *p, const struct kedge__fabric_memory *m,
		     const struct target *t, double *rate, struct kedge__error *err)
{
	uint64_t all = b->size / b->piece, begun = 0, ended = 0;
	struct kedge__port_done done[DEPTH];
	double start = 0;
	bool woken;

	while (ended < all) {
		size_t slot = begun % DEPTH * b->piece, n;
		int rc =
		    begun < all && begun - ended < DEPTH
			? kedge__port_read(p, m, (uint8_t *)m->at + slot, b->piece, t->address + slot, t->key, p, err)
			: 1;

		if (rc < 0)
			return rc;
		if (!rc && !begun++)
			start = kedge__clock_seconds();
		n = kedge__port_poll(p, done, DEPTH);
		for (size_t i = 0; i < n; i++)
			if (done[i].failed)
				return kedge__error_set(err, KEDGE_E_IO, done[i].failed, "a read failed");
		ended += n;
		if (!n && begun - ended == DEPTH)
			port_wait(p, -1, &woken);
	}
	*rate = (double)b->size / (kedge__clock_seconds() - start);
	return 0;
}

int kedge__bench_raw_read(struct kedge__bench_stage *b, double *rate, double *cpu, struct kedge__error *err)
{
	struct kedge__fabric_memory m = {0};
	struct kedge__fabric *f = NULL;
	struct kedge__port *p = NULL;
	int to[2], from[2], rc = 0;
	struct target t;
	pid_t pid;

	if (pipe(to) || pipe(from))
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot make a pipe");
	pid = fork();
	if (pid == 0) {
		close(to[1]);
		target_main(b, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	if (pid < 0 || !kedge__bench_read_all(from[0], &t, sizeof(t)))
		rc = kedge__error_set(err, KEDGE_E_IO, 0, "the process that is read from cannot begin");
	if (!rc)
		rc = port_make(b, false, &f, &p, &m, err);
	if (!rc)
		rc = kedge__port_peer(p, t.name, t.name_bytes, err);
	if (!rc)
		rc = read_loop(b, p, &m, &t, rate, err);
	kedge__port_close(p);
	kedge__fabric_unregister(&m);
	kedge__fabric_close(f);
	close(to[1]);
	if (!rc && !kedge__bench_read_all(from[0], cpu, sizeof(*cpu)))
		rc = kedge__error_set(err, KEDGE_E_IO, 0, "the process that is read from has failed");
	*cpu /= (double)b->size / 1e9;
	close(from[0]);
	(void)waitpid(pid, NULL, 0);
	return rc;
}
