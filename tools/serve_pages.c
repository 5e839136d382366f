/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve_pages: a staging server's status as metrics, as JSON, and as a page for people, which gets the JSON again and
 * again. Lack of memory costs an answer, and never the server.
 */
#include "base/metrics.h"
#include "serve.h"

#include <stdlib.h>

static const unsigned char page[] = {
#include "serve_html.inc"
};

/* ------------------------------------------------------------------ metrics */

#define COUNTER KEDGE__METRIC_COUNTER
#define GAUGE   KEDGE__METRIC_GAUGE

static void server_metrics(struct kedge__metrics *m, const struct kedge__server_status *st)
{
	const struct {
		const char *name;
		enum kedge__metric_type type;
		const char *help;
		uint64_t value;
	} all[] = {
	    {"kedge_stage_clients", GAUGE, "Clients that are connected.", st->client_count},
	    {"kedge_stage_connections_total", COUNTER, "Clients that were let in.", st->clients_total},
	    {"kedge_stage_refused_total", COUNTER, "Clients that were refused.", st->refused},
	    {"kedge_stage_read_bytes_total", COUNTER, "Bytes read from clients' memory.", st->bytes_read},
	    {"kedge_stage_written_bytes_total", COUNTER, "Bytes written to the store.", st->bytes_written},
	    {"kedge_stage_segments_total", COUNTER, "Segments that are in the store and synced.", st->segments},
	    {"kedge_stage_failures_total", COUNTER, "Segments that were not stored.", st->failures},
	    {"kedge_stage_buffer_limit_bytes", GAUGE, "Memory that all buffers may take.", st->memory},
	    {"kedge_stage_buffer_bytes", GAUGE, "Memory of the buffers in use.", st->memory_used},
	    {"kedge_stage_buffer_peak_bytes", GAUGE, "The most memory of buffers so far.", st->memory_most},
	    {"kedge_stage_writers", GAUGE, "Threads that write.", st->writers},
	};

	for (size_t i = 0; i < KEDGE__COUNT(all); i++)
		kedge__metrics_one(m, all[i].name, all[i].type, all[i].help, all[i].value);
	kedge__metrics_family(m, "kedge_stage_uptime_seconds", GAUGE, "Time since the server began.");
	kedge__metrics_real(m, NULL, st->since);
}

struct job_sum { /* the clients of one job */
	const char *name;
	uint64_t clients, waiting, reading, writing, files;
};

/* What a client has counted goes when it leaves: of each job only what is there now is told. */
static size_t sum_jobs(const struct kedge__server_status *st, struct job_sum *sums)
{
	size_t count = 0;

	for (size_t i = 0; i < st->client_count; i++) {
		const struct kedge__server_client *c = &st->clients[i];
		size_t j = 0;

		while (j < count && strcmp(sums[j].name, c->name) != 0)
			j++;
		if (j == count)
			sums[count++] = (struct job_sum){.name = c->name};
		sums[j].clients++;
		sums[j].waiting += c->waiting;
		sums[j].reading += c->reading;
		sums[j].writing += c->writing;
		sums[j].files += c->files;
	}
	return count;
}

static void job_metrics(struct kedge__metrics *m, const struct job_sum *sums, size_t count)
{
	static const struct {
		const char *name, *help;
		size_t at;
	} all[] = {
	    {"kedge_stage_job_clients", "Clients of a job.", offsetof(struct job_sum, clients)},
	    {"kedge_stage_job_pieces_waiting", "Pieces that were offered and not read yet.",
	     offsetof(struct job_sum, waiting)},
	    {"kedge_stage_job_pieces_reading", "Pieces that are being read.", offsetof(struct job_sum, reading)},
	    {"kedge_stage_job_pieces_writing", "Pieces that are being written.", offsetof(struct job_sum, writing)},
	    {"kedge_stage_job_segments_open", "Segments on their way.", offsetof(struct job_sum, files)},
	};

	for (size_t i = 0; count && i < KEDGE__COUNT(all); i++) {
		kedge__metrics_family(m, all[i].name, GAUGE, all[i].help);
		for (size_t j = 0; j < count; j++) {
			const struct kedge__metric_label labels[] = {{"job", sums[j].name}, {NULL, NULL}};

			kedge__metrics_uint(m, labels,
					    *(const uint64_t *)(const void *)((const char *)&sums[j] + all[i].at));
		}
	}
}

static int metrics_page(void *ctx, char **text, size_t *bytes, struct kedge__error *err)
{
	const struct kedge__metric_label build[] = {{"version", kedge_version_string()}, {NULL, NULL}};
	const struct kedge__serve_watch *w = ctx;
	struct kedge__metrics m = {.failed = false};
	struct kedge__server_status st;
	struct job_sum *sums;
	int rc = kedge__server_look(w->server, &st, err);

	if (rc)
		return rc;
	kedge__metrics_family(&m, "kedge_build_info", GAUGE, "The version of Kedge; the value is 1.");
	kedge__metrics_uint(&m, build, 1);
	server_metrics(&m, &st);
	sums = kedge__calloc(st.client_count + 1, sizeof(*sums));
	if (sums)
		job_metrics(&m, sums, sum_jobs(&st, sums));
	m.failed = m.failed || !sums;
	kedge__free(sums);
	kedge__server_status_done(&st);
	return kedge__metrics_end(&m, text, bytes, err);
}

/* ------------------------------------------------------------------ JSON; each is NULL without memory */

static json_t *number_json(uint64_t n)
{
	return json_integer((json_int_t)KEDGE__MIN(n, (uint64_t)INT64_MAX));
}

static json_t *client_json(const struct kedge__server_client *c)
{
	json_t *version = c->version == KEDGE__NO_VERSION ? json_null() : number_json(c->version);

	return json_pack("{s:s, s:s, s:I, s:f, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:I}", "job", c->name,
			 "peer", c->peer, "uid", (json_int_t)c->uid, "seconds", c->since, "bytes_read",
			 number_json(c->bytes_read), "bytes_written", number_json(c->bytes_written), "segments",
			 number_json(c->segments), "failures", number_json(c->failures), "waiting",
			 (json_int_t)c->waiting, "reading", (json_int_t)c->reading, "writing", (json_int_t)c->writing,
			 "files", (json_int_t)c->files, "version", version, "rank", (json_int_t)c->rank);
}

static json_t *version_json(const struct kedge__server_version *v)
{
	return json_pack("{s:s, s:o, s:o, s:I, s:I, s:I, s:f}", "job", v->name, "version", number_json(v->version),
			 "bytes", number_json(v->bytes), "open", (json_int_t)v->open, "segments",
			 (json_int_t)v->segments, "failed", (json_int_t)v->failed, "seconds",
			 v->since - (v->open ? 0 : v->last));
}

static json_t *status_json(const struct kedge__serve_watch *w, const struct kedge__server_status *st)
{
	json_t *clients = json_array(), *versions = json_array();
	bool ok = clients && versions;

	for (size_t i = 0; ok && i < st->client_count; i++)
		ok = json_array_append_new(clients, client_json(&st->clients[i])) == 0;
	for (size_t i = 0; ok && i < st->version_count; i++)
		ok = json_array_append_new(versions, version_json(&st->versions[i])) == 0;
	if (!ok) {
		json_decref(clients);
		json_decref(versions);
		return NULL;
	}
	return json_pack("{s:s, s:s, s:O, s:O, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}",
			 "kind", "staging server", "kedge", kedge_version_string(), "address", w->address, "store",
			 w->store, "seconds", st->since, "memory", number_json(st->memory), "memory_used",
			 number_json(st->memory_used), "memory_most", number_json(st->memory_most), "bytes_read",
			 number_json(st->bytes_read), "bytes_written", number_json(st->bytes_written), "segments",
			 number_json(st->segments), "failures", number_json(st->failures), "clients_total",
			 number_json(st->clients_total), "refused", number_json(st->refused), "writers",
			 (json_int_t)st->writers, "clients", clients, "versions", versions);
}

static int status_page(void *ctx, char **text, size_t *bytes, struct kedge__error *err)
{
	const struct kedge__serve_watch *w = ctx;
	struct kedge__server_status st;
	char *dumped, *copy;
	json_t *o;
	int rc = kedge__server_look(w->server, &st, err);

	if (rc)
		return rc;
	o = status_json(w, &st);
	kedge__server_status_done(&st);
	dumped = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
	json_decref(o);
	copy = dumped ? kedge__asprintf("%s\n", dumped) : NULL;
	free(dumped);
	if (!copy)
		return kedge__error_nomem(err);
	*text = copy;
	*bytes = strlen(copy);
	return 0;
}

static int people_page(void *ctx, char **text, size_t *bytes, struct kedge__error *err)
{
	(void)ctx;
	*text = kedge__malloc(sizeof(page));
	if (!*text)
		return kedge__error_nomem(err);
	memcpy(*text, page, sizeof(page));
	*bytes = sizeof(page);
	return 0;
}

/* ------------------------------------------------------------------ open and close */

int kedge__serve_watch_open(struct kedge__serve_watch *w, struct kedge__server *server, const char *store,
			    const struct kedge__address *a, struct kedge__error *err)
{
	static const struct kedge__http_page pages[] = {
	    {"/", "text/html; charset=utf-8", people_page},
	    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", metrics_page},
	    {"/status.json", "application/json", status_page},
	};
	char address[KEDGE__ADDRESS_TEXT];

	kedge__address_text(kedge__server_address(server), address);
	w->server = server;
	w->store = kedge__json_string(store);
	w->address = kedge__json_string(address);
	return kedge__http_open(a, pages, KEDGE__COUNT(pages), w, &w->http, err);
}

void kedge__serve_watch_close(struct kedge__serve_watch *w)
{
	kedge__http_close(w->http);
	json_decref(w->store);
	json_decref(w->address);
	*w = (struct kedge__serve_watch){.server = NULL};
}
