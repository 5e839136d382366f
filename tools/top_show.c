/* SPDX-License-Identifier: BSD-3-Clause */
#include "top.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ for people */

static void show_head(const struct kedge__top_source *s, FILE *out)
{
	const struct kedge__server_status *st = &s->now.status;
	const char *address = json_string_value(json_object_get(s->now.json, "address"));
	const char *store = json_string_value(json_object_get(s->now.json, "store"));
	char up[KEDGE__TEXT_ROOM], used[KEDGE__TEXT_ROOM], all[KEDGE__TEXT_ROOM], most[KEDGE__TEXT_ROOM];
	char rate[KEDGE__TEXT_ROOM], written[KEDGE__TEXT_ROOM], clients[KEDGE__TEXT_ROOM], segments[KEDGE__TEXT_ROOM];

	kedge__print(out, "%s   %s to %s   up %s\n", s->text, address ? address : "?", store ? store : "?",
		     kedge__text_seconds(st->since, up));
	kedge__print(out, "  %s (%llu so far, %llu refused)   buffers %s of %s, at most %s   %u writers\n",
		     kedge__text_count(st->client_count, "client", "clients", clients),
		     (unsigned long long)st->clients_total, (unsigned long long)st->refused,
		     kedge__text_bytes(st->memory_used, used), kedge__text_bytes(st->memory, all),
		     kedge__text_bytes(st->memory_most, most), st->writers);
	kedge__print(
	    out, "  %s/s   %s written in %s, %llu not stored\n", kedge__text_bytes((uint64_t)kedge__top_rate(s), rate),
	    kedge__text_bytes(st->bytes_written, written),
	    kedge__text_count(st->segments, "segment", "segments", segments), (unsigned long long)st->failures);
}

static void show_versions(const struct kedge__server_status *st, FILE *out)
{
	char bytes[KEDGE__TEXT_ROOM], seconds[KEDGE__TEXT_ROOM];
	struct kedge__table t;

	if (!st->version_count)
		return;
	kedge__table_init(&t, "lrrrrrr");
	for (const char *const *h =
		 (const char *const[]){"  VERSIONS OF", "VERSION", "OPEN", "STORED", "FAILED", "BYTES", "TIME", NULL};
	     *h; h++)
		kedge__table_text(&t, *h);
	for (size_t i = 0; i < st->version_count; i++) {
		const struct kedge__server_version *v = &st->versions[i];

		kedge__table_add(&t, "  %s", v->name);
		kedge__table_number(&t, v->version);
		kedge__table_number(&t, v->open);
		kedge__table_number(&t, v->segments);
		kedge__table_number(&t, v->failed);
		kedge__table_text(&t, kedge__text_bytes(v->bytes, bytes));
		kedge__table_text(&t, kedge__text_seconds(v->since, seconds));
	}
	kedge__table_print(&t, out);
}

struct order { /* clients, the fastest first */
	size_t at;
	double rate;
};

static int faster(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	return x->rate != y->rate ? (x->rate < y->rate ? 1 : -1) : x->at < y->at ? -1 : x->at > y->at;
}

static void client_row(struct kedge__table *t, const struct kedge__server_client *c, double rate)
{
	char text[KEDGE__TEXT_ROOM];

	kedge__table_add(t, "  %s", c->name);
	kedge__table_text(t, c->peer);
	if (c->version == KEDGE__NO_VERSION)
		kedge__table_text(t, "-");
	else
		kedge__table_add(t, "%llu.%u", (unsigned long long)c->version, c->rank);
	kedge__table_add(t, "%u/%u/%u", c->waiting, c->reading, c->writing);
	kedge__table_add(t, "%s/s", kedge__text_bytes((uint64_t)rate, text));
	kedge__table_text(t, kedge__text_bytes(c->bytes_written, text));
	kedge__table_number(t, c->segments);
	kedge__table_number(t, c->failures);
	kedge__table_text(t, kedge__text_seconds(c->since, text));
}

static void show_clients(const struct kedge__top_source *s, FILE *out)
{
	const struct kedge__server_status *st = &s->now.status;
	struct order *order = kedge__calloc(st->client_count + 1, sizeof(*order));
	struct kedge__table t;

	if (!order)
		kedge__tool_no_memory();
	for (size_t i = 0; i < st->client_count; i++)
		order[i] = (struct order){.at = i, .rate = kedge__top_client_rate(s, i)};
	qsort(order, st->client_count, sizeof(*order), faster);
	kedge__table_init(&t, "llrrrrrrr");
	for (const char *const *h = (const char *const[]){"  JOB", "CLIENT", "LAST", "WAIT/READ/WRITE", "RATE",
							  "WRITTEN", "SEGMENTS", "FAILED", "CONNECTED", NULL};
	     *h; h++)
		kedge__table_text(&t, *h);
	for (size_t i = 0; i < st->client_count; i++)
		client_row(&t, &st->clients[order[i].at], order[i].rate);
	if (st->client_count)
		kedge__table_print(&t, out);
	else
		kedge__table_drop(&t);
	kedge__free(order);
}

void kedge__top_text(const struct kedge__top_source *sources, size_t count, FILE *out)
{
	for (size_t i = 0; i < count; i++) {
		const struct kedge__top_source *s = &sources[i];

		if (i)
			fputc('\n', out);
		if (!s->now.json) {
			kedge__print(out, "%s   no answer: %s\n", s->text, kedge__error_text(&s->problem));
			continue;
		}
		show_head(s, out);
		show_versions(&s->now.status, out);
		show_clients(s, out);
	}
}

/* ------------------------------------------------------------------ for programs */

/* What the source said, with its address and rates. */
static json_t *source_json(const struct kedge__top_source *s)
{
	json_t *o = kedge__json_object(), *clients = json_object_get(s->now.json, "clients");

	kedge__json_text(o, "http", s->text);
	kedge__json_text(o, "error", s->now.json ? NULL : kedge__error_text(&s->problem));
	if (!s->now.json)
		return o;
	kedge__json_real(o, "bytes_per_second", kedge__top_rate(s));
	for (size_t i = 0; i < json_array_size(clients); i++)
		if (json_is_object(json_array_get(clients, i)))
			kedge__json_real(json_array_get(clients, i), "bytes_per_second", kedge__top_client_rate(s, i));
	if (json_object_update_missing(o, s->now.json) != 0)
		kedge__tool_no_memory();
	return o;
}

void kedge__top_json(const struct kedge__top_source *sources, size_t count, json_t *all)
{
	for (size_t i = 0; i < count; i++)
		kedge__json_add(all, source_json(&sources[i]));
}
