/* SPDX-License-Identifier: BSD-3-Clause */
/* The staging client: a carrier of segments. */
#include "stage/client.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AGAIN_MAX 5 /* times in a row that a lost server is no reason to give up */

static int carry_begin(void *ctx, uint64_t version, uint32_t rank, uint32_t generation, bool sync, void **file,
		       struct kedge__error *err);
static int carry_append(void *file, const void *data, size_t bytes, struct kedge__error *err);
static int carry_commit(void *file, struct kedge__error *err);
static void carry_drop(void *file);

/* ------------------------------------------------------------------ open and close */

static int client_make(struct kedge__stage_client *c, const struct kedge__stage_options *o, const char *name,
		       struct kedge__error *err)
{
	int rc = kedge__address_list(o->servers, &c->servers, &c->server_count, err);

	if (!rc)
		rc = kedge__auth_open(o->auth, &c->auth, err);
	if (rc)
		return rc;
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->wake < 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot make an event descriptor");
	c->name = kedge__strdup(name);
	c->busy = kedge__calloc(c->buffers, sizeof(*c->busy));
	c->pool = kedge__map_alloc(c->buffer * c->buffers);
	return c->name && c->busy && c->pool ? 0 : kedge__error_nomem(err);
}

int kedge__stage_client_new(const struct kedge__stage_options *o, const char *name, const struct kedge__store_id *store,
			    struct kedge__stage_client **out, struct kedge__error *err)
{
	struct kedge__stage_client *c = kedge__calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return kedge__error_nomem(err);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->news, NULL);
	kedge__talk_init(&c->talk);
	c->wake = -1;
	c->store = *store;
	c->timeout = o->timeout;
	c->retry = o->retry;
	c->buffers = KEDGE__MIN(KEDGE__MAX(o->buffers, (size_t)1), (size_t)KEDGE__STAGE_SLOTS);
	c->buffer = (size_t)KEDGE__MIN(KEDGE__MAX(o->buffer, KEDGE__STAGE_PIECE_MIN), KEDGE__STAGE_PIECE_MAX);
	c->carrier = (struct kedge__carrier){carry_begin, carry_append, carry_commit, carry_drop, c};
	rc = client_make(c, o, name, err);
	if (rc)
		kedge__stage_client_free(c);
	else
		*out = c;
	return rc;
}

static void say_bye(struct kedge__stage_client *c)
{
	struct kedge__stage_message bye = {.type = KEDGE__STAGE_BYE};

	if (c->connected)
		(void)kedge__connection_say(c, &bye, NULL);
}

void kedge__stage_client_free(struct kedge__stage_client *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	say_bye(c);
	kedge__connection_close(c);
	pthread_mutex_unlock(&c->lock);
	for (size_t i = 0; i < KEDGE__STAGE_FILES; i++)
		kedge__error_done(&c->files[i].err);
	if (c->pool)
		kedge__map_free(c->pool, c->buffer * c->buffers);
	if (c->wake >= 0)
		close(c->wake);
	kedge__auth_close(&c->auth);
	kedge__error_done(&c->lost);
	kedge__free(c->busy);
	kedge__free(c->name);
	kedge__free(c->servers);
	pthread_cond_destroy(&c->news);
	pthread_mutex_destroy(&c->lock);
	kedge__free(c);
}

const struct kedge__carrier *kedge__stage_carrier(const struct kedge__stage_client *c)
{
	return &c->carrier;
}

bool kedge__stage_again(struct kedge__stage_client *c)
{
	bool again;

	if (!c)
		return false;
	pthread_mutex_lock(&c->lock);
	again = c->may_again && c->again < AGAIN_MAX;
	c->may_again = false;
	c->again = again ? c->again + 1 : 0;
	pthread_mutex_unlock(&c->lock);
	return again;
}

struct kedge__stage_client_counters kedge__stage_client_counters(struct kedge__stage_client *c)
{
	struct kedge__stage_client_counters seen;

	pthread_mutex_lock(&c->lock);
	seen = c->seen;
	pthread_mutex_unlock(&c->lock);
	return seen;
}

/* ------------------------------------------------------------------ a segment; the lock is held */

static struct kedge__outflow *file_find(struct kedge__stage_client *c)
{
	for (uint32_t i = 0; i < KEDGE__STAGE_FILES; i++) {
		struct kedge__outflow *f = &c->files[i];

		if (f->used)
			continue;
		kedge__error_done(&f->err);
		*f = (struct kedge__outflow){.client = c, .number = i, .used = true, .connection = c->seen.connections};
		return f;
	}
	return NULL;
}

static bool is_open(const struct kedge__outflow *f)
{
	return f->client->connected && f->connection == f->client->seen.connections;
}

static int failure_of(struct kedge__outflow *f, struct kedge__error *err)
{
	if (!f->rc && !is_open(f))
		f->rc = kedge__error_set(&f->err, KEDGE_E_IO, 0, "%s", kedge__error_text(&f->client->lost));
	return f->rc ? kedge__error_set(err, f->rc, 0, "%s", kedge__error_text(&f->err)) : 0;
}

static int begin_locked(struct kedge__stage_client *c, struct kedge__stage_message *m, struct kedge__outflow **out,
			struct kedge__error *err)
{
	struct kedge__outflow *f;
	int rc = c->connected ? 0 : kedge__connection_open(c, err);

	if (rc)
		return rc;
	while ((f = file_find(c)) == NULL && c->connected) /* those that were dropped are about to end */
		pthread_cond_wait(&c->news, &c->lock);
	if (!f)
		return kedge__error_set(err, KEDGE_E_IO, 0, "%s", kedge__error_text(&c->lost));
	m->u.begin.file = f->number;
	rc = kedge__connection_say(c, m, err);
	if (rc)
		f->used = false;
	else
		*out = f;
	return rc;
}

static int carry_begin(void *ctx, uint64_t version, uint32_t rank, uint32_t generation, bool sync, void **file,
		       struct kedge__error *err)
{
	struct kedge__stage_message m = {
	    .type = KEDGE__STAGE_BEGIN,
	    .u.begin = {.version = version, .rank = rank, .generation = generation, .sync = sync}};
	struct kedge__stage_client *c = ctx;
	struct kedge__outflow *f;
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = begin_locked(c, &m, &f, err);
	pthread_mutex_unlock(&c->lock);
	if (!rc)
		*file = f;
	return rc;
}

/* A buffer that the server has read, or never saw. */
static int buffer_wait(struct kedge__outflow *f, size_t *slot, struct kedge__error *err)
{
	struct kedge__stage_client *c = f->client;

	for (;;) {
		int rc = failure_of(f, err);

		if (rc)
			return rc;
		for (*slot = 0; *slot < c->buffers; ++*slot)
			if (!c->busy[*slot]) {
				c->busy[*slot] = true;
				return 0;
			}
		pthread_cond_wait(&c->news, &c->lock);
	}
}

static int piece_offer(struct kedge__outflow *f, size_t slot, size_t bytes, uint64_t checksum, struct kedge__error *err)
{
	struct kedge__stage_client *c = f->client;
	struct kedge__stage_message m = {.type = KEDGE__STAGE_PIECE,
					 .u.piece = {.file = f->number,
						     .slot = (uint32_t)slot,
						     .bytes = (uint32_t)bytes,
						     .offset = f->bytes,
						     .address = c->memory.address + slot * c->buffer,
						     .key = c->memory.key,
						     .checksum = checksum}};
	int rc = failure_of(f, err);

	if (!rc)
		rc = kedge__connection_say(c, &m, err);
	if (rc && is_open(f))
		c->busy[slot] = false;
	if (!rc)
		f->bytes += bytes;
	return rc;
}

static int carry_append(void *file, const void *data, size_t bytes, struct kedge__error *err)
{
	struct kedge__outflow *f = file;
	struct kedge__stage_client *c = f->client;
	const uint8_t *at = data;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (bytes && !rc) {
		size_t slot, n = KEDGE__MIN(bytes, c->piece);
		uint64_t checksum;

		rc = buffer_wait(f, &slot, err);
		if (rc)
			break;
		pthread_mutex_unlock(&c->lock);
		memcpy(c->pool + slot * c->buffer, at, n);
		checksum = kedge__checksum(c->pool + slot * c->buffer, n);
		pthread_mutex_lock(&c->lock);
		rc = piece_offer(f, slot, n, checksum, err);
		at += n;
		bytes -= n;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

static int commit_locked(struct kedge__outflow *f, struct kedge__error *err)
{
	struct kedge__stage_client *c = f->client;
	struct kedge__stage_message m = {.type = KEDGE__STAGE_COMMIT, .u.commit = {f->number, f->bytes}};
	int rc = failure_of(f, err);

	if (!rc)
		rc = kedge__connection_say(c, &m, err);
	if (rc)
		return rc;
	while (!f->answered && is_open(f))
		pthread_cond_wait(&c->news, &c->lock);
	rc = failure_of(f, err);
	if (rc)
		return rc;
	c->seen.bytes += f->bytes;
	c->seen.segments++;
	c->again = 0;
	f->used = false;
	return 0;
}

static int carry_commit(void *file, struct kedge__error *err)
{
	struct kedge__outflow *f = file;
	struct kedge__stage_client *c = f->client;
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = commit_locked(f, err);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* The server ends it, too, unless it has: its number is free when the answer comes. */
static void carry_drop(void *file)
{
	struct kedge__outflow *f = file;
	struct kedge__stage_client *c = f->client;
	struct kedge__stage_message m = {.type = KEDGE__STAGE_ABORT, .u.abort = {f->number}};

	pthread_mutex_lock(&c->lock);
	f->dropped = true;
	if (f->answered || !is_open(f))
		f->used = false;
	else
		(void)kedge__connection_say(c, &m, NULL);
	pthread_mutex_unlock(&c->lock);
}
