/* SPDX-License-Identifier: BSD-3-Clause */
/* A store, a key, a staging server in a thread or in a process of its own, and clients of it. */
#ifndef KEDGE_TESTS_STAGE_SUPPORT_H
#define KEDGE_TESTS_STAGE_SUPPORT_H

#include "../lib/fabric.h"
#include "../store/fixture.h"
#include "stage/stage.h"

#include <signal.h>

struct place {
	char *dir, *store, *key;
	struct kedge__store_id id;
	struct kedge__server_options options;
	struct kedge__server *server;
	pthread_t thread;
	char address[KEDGE__ADDRESS_TEXT];
	pid_t process; /* 0: it is a thread */
};

static inline void place_open(struct place *p)
{
	struct kedge__catalog *cat;
	uint8_t key[48];

	*p = (struct place){.dir = make_dir()};
	p->store = kedge__asprintf("%s/store", p->dir);
	p->key = kedge__asprintf("key:%s/key", p->dir);
	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)(i * 7 + 1);
	file_write(p->key + 4, key, sizeof(key));
	assert_int_equal(chmod(p->key + 4, 0600), 0);
	assert_ok(kedge__catalog_open(p->store, NAME, KEDGE__CATALOG_CREATE, &cat, err));
	p->id = kedge__catalog_store_id(cat);
	kedge__catalog_close(cat);
	kedge__server_options_init(&p->options);
	p->options.store = p->store;
	p->options.auth = p->key;
	p->options.piece = 65536;
	p->options.memory = 16 * 65536;
	p->options.writers = 2;
}

static inline void *server_main(void *ctx)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__server_run(ctx, &err))
		abort();
	return NULL;
}

static inline void server_start(struct place *p)
{
	assert_ok(kedge__server_open(&p->options, &p->server, err));
	kedge__address_text(kedge__server_address(p->server), p->address);
	assert_int_equal(pthread_create(&p->thread, NULL, server_main, p->server), 0);
}

static inline void server_end(struct place *p)
{
	if (!p->server)
		return;
	kedge__server_stop(p->server);
	pthread_join(p->thread, NULL);
	kedge__server_close(p->server);
	p->server = NULL;
}

/* The same in a process that can be killed: its parent has no server. It listens where the last one did. */
static inline void server_fork(struct place *p)
{
	int ends[2];
	char go;

	assert_int_equal(pipe(ends), 0);
	p->process = fork();
	assert_true(p->process >= 0);
	if (p->process == 0) {
		struct kedge__server *s;
		uint16_t port;

		if (kedge__server_open(&p->options, &s, NULL))
			_exit(1);
		port = kedge__server_address(s)->port;
		if (write(ends[1], &port, sizeof(port)) != sizeof(port))
			_exit(1);
		close(ends[0]);
		close(ends[1]);
		(void)kedge__server_run(s, NULL);
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &p->options.listen.port, 2), 2);
	assert_int_equal(read(ends[0], &go, 1), 0);
	close(ends[0]);
	kedge__address_text(&p->options.listen, p->address);
}

static inline void server_kill(struct place *p)
{
	assert_int_equal(kill(p->process, SIGKILL), 0);
	assert_int_equal(waitpid(p->process, NULL, 0), p->process);
	p->process = 0;
}

static inline void place_close(struct place *p)
{
	server_end(p);
	if (p->process)
		server_kill(p);
	remove_dir(p->dir);
	kedge__free(p->store);
	kedge__free(p->key);
}

static inline struct kedge__stage_client *client_of(const struct place *p, const char *servers)
{
	const struct kedge__stage_options o = {.servers = servers,
					       .auth = p->key,
					       .buffer = 65536,
					       .buffers = 4,
					       .timeout = 20,
					       .retry = 0};
	struct kedge__stage_client *c;

	assert_ok(kedge__stage_client_new(&o, NAME, &p->id, &c, err));
	return c;
}

static inline void pattern(uint8_t *data, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)((i * 2654435761u + seed * 97) >> 8);
}

/* The path of a segment, whether it is there or not. */
static inline void segment_at(const struct place *p, uint64_t version, uint32_t rank, char path[FILES_PATH])
{
	char dir[KEDGE__VERSION_DIR_ROOM], file[KEDGE__SEGMENT_FILE_ROOM];

	kedge__version_dir_format(version, dir);
	kedge__segment_file_format(rank, 0, file);
	path_make(path, "%s/%s/%s/%s", p->store, NAME, dir, file);
}

static inline void assert_segment(const struct place *p, uint64_t version, uint32_t rank, const void *data, size_t bytes)
{
	char path[FILES_PATH];
	uint8_t *got;
	size_t n = 0;

	segment_at(p, version, rank, path);
	got = file_read(path, &n);
	assert_non_null(got);
	assert_int_equal(n, bytes);
	assert_memory_equal(got, data, bytes);
	free(got);
}

static inline void assert_nothing(const struct place *p, uint64_t version)
{
	char path[FILES_PATH];

	segment_at(p, version, 0, path);
	*strrchr(path, '/') = '\0';
	assert_false(kedge__fs_exists(path));
}

static inline bool stage_here(void)
{
	return kedge__stage_built();
}

#endif
