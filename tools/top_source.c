/* SPDX-License-Identifier: BSD-3-Clause */
#include "top.h"

#include <math.h>

#define CLIENTS_MAX 65536 /* more are not believed */

/* ------------------------------------------------------------------ JSON of anybody to numbers */

static uint64_t get_uint(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? (uint64_t)n : 0;
}

static uint32_t get_count(const json_t *o, const char *key)
{
	return (uint32_t)KEDGE__MIN(get_uint(o, key), (uint64_t)UINT32_MAX);
}

static double get_real(const json_t *o, const char *key)
{
	double x = json_number_value(json_object_get(o, key));

	return isfinite(x) && x > 0 ? x : 0;
}

static void get_text(const json_t *o, const char *key, char *to, size_t room)
{
	const char *text = json_string_value(json_object_get(o, key));

	snprintf(to, room, "%s", text ? text : "?");
}

static void get_client(const json_t *o, struct kedge__server_client *c)
{
	const json_t *version = json_object_get(o, "version");

	get_text(o, "job", c->name, sizeof(c->name));
	get_text(o, "peer", c->peer, sizeof(c->peer));
	c->uid = (uid_t)get_count(o, "uid");
	c->since = get_real(o, "seconds");
	c->bytes_read = get_uint(o, "bytes_read");
	c->bytes_written = get_uint(o, "bytes_written");
	c->segments = get_uint(o, "segments");
	c->failures = get_uint(o, "failures");
	c->waiting = get_count(o, "waiting");
	c->reading = get_count(o, "reading");
	c->writing = get_count(o, "writing");
	c->files = get_count(o, "files");
	c->version = json_is_integer(version) ? get_uint(o, "version") : KEDGE__NO_VERSION;
	c->rank = get_count(o, "rank");
}

static void get_version(const json_t *o, struct kedge__server_version *v)
{
	get_text(o, "job", v->name, sizeof(v->name));
	v->version = get_uint(o, "version");
	v->bytes = get_uint(o, "bytes");
	v->open = get_count(o, "open");
	v->segments = get_count(o, "segments");
	v->failed = get_count(o, "failed");
	v->since = get_real(o, "seconds");
}

static int get_status(const json_t *o, struct kedge__server_status *st, struct kedge__error *err)
{
	const json_t *clients = json_object_get(o, "clients"), *versions = json_object_get(o, "versions");
	const char *kind = json_string_value(json_object_get(o, "kind"));

	if (!kind || strcmp(kind, "staging server") != 0 || json_array_size(clients) > CLIENTS_MAX ||
	    json_array_size(versions) > CLIENTS_MAX)
		return kedge__error_set(err, KEDGE_E_IO, 0, "the answer is not that of a staging server");
	*st = (struct kedge__server_status){.since = get_real(o, "seconds"),
					    .memory = get_uint(o, "memory"),
					    .memory_used = get_uint(o, "memory_used"),
					    .memory_most = get_uint(o, "memory_most"),
					    .bytes_read = get_uint(o, "bytes_read"),
					    .bytes_written = get_uint(o, "bytes_written"),
					    .segments = get_uint(o, "segments"),
					    .failures = get_uint(o, "failures"),
					    .clients_total = get_uint(o, "clients_total"),
					    .refused = get_uint(o, "refused"),
					    .writers = get_count(o, "writers"),
					    .client_count = json_array_size(clients),
					    .version_count = json_array_size(versions)};
	st->clients = kedge__calloc(st->client_count + 1, sizeof(*st->clients));
	st->versions = kedge__calloc(st->version_count + 1, sizeof(*st->versions));
	if (!st->clients || !st->versions) {
		kedge__server_status_done(st);
		return kedge__error_nomem(err);
	}
	for (size_t i = 0; i < st->client_count; i++)
		get_client(json_array_get(clients, i), &st->clients[i]);
	for (size_t i = 0; i < st->version_count; i++)
		get_version(json_array_get(versions, i), &st->versions[i]);
	return 0;
}

/* ------------------------------------------------------------------ looks */

static void look_done(struct kedge__top_look *l)
{
	json_decref(l->json);
	kedge__server_status_done(&l->status);
	*l = (struct kedge__top_look){.json = NULL};
}

static int look(struct kedge__top_source *s, double seconds, struct kedge__top_look *out, struct kedge__error *err)
{
	json_error_t where;
	char *body;
	size_t bytes;
	int rc = kedge__http_get(&s->address, "/status.json", seconds, &body, &bytes, err);

	if (rc)
		return rc;
	out->at = kedge__clock_seconds();
	out->json = json_loadb(body, bytes, JSON_REJECT_DUPLICATES, &where);
	kedge__free(body);
	if (!out->json)
		return kedge__error_set(err, KEDGE_E_IO, 0, "the answer is not that of a staging server");
	rc = get_status(out->json, &out->status, err);
	if (rc)
		look_done(out);
	return rc;
}

void kedge__top_ask(struct kedge__top_source *s, double seconds)
{
	struct kedge__top_look fresh = {.json = NULL};

	kedge__error_done(&s->problem);
	s->problem = (struct kedge__error)KEDGE__ERROR_INIT;
	look_done(&s->before);
	s->before = s->now;
	s->now = (struct kedge__top_look){.json = NULL};
	if (look(s, seconds, &fresh, &s->problem) == 0)
		s->now = fresh;
}

void kedge__top_source_done(struct kedge__top_source *s)
{
	look_done(&s->now);
	look_done(&s->before);
	kedge__error_done(&s->problem);
}

/* ------------------------------------------------------------------ rates */

static double rate(double before, double now, double seconds)
{
	return seconds > 0 && now > before ? (now - before) / seconds : 0;
}

/* A server that was started again has counted less than before. */
double kedge__top_rate(const struct kedge__top_source *s)
{
	const struct kedge__server_status *now = &s->now.status, *before = &s->before.status;

	if (!s->before.json || before->bytes_written > now->bytes_written)
		return rate(0, (double)now->bytes_written, now->since);
	return rate((double)before->bytes_written, (double)now->bytes_written, s->now.at - s->before.at);
}

double kedge__top_client_rate(const struct kedge__top_source *s, size_t i)
{
	const struct kedge__server_client *c = &s->now.status.clients[i];
	const struct kedge__server_status *before = &s->before.status;

	for (size_t j = 0; j < before->client_count; j++) {
		const struct kedge__server_client *b = &before->clients[j];

		if (strcmp(b->peer, c->peer) == 0 && strcmp(b->name, c->name) == 0 && b->bytes_read <= c->bytes_read)
			return rate((double)b->bytes_read, (double)c->bytes_read, s->now.at - s->before.at);
	}
	return rate(0, (double)c->bytes_read, c->since);
}
