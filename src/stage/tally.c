/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions on their way through a staging server, over all clients. Nobody says how many segments a version has: it is
 * through when none of it is open and none has come for a while, or when the server ends. Then it gets a line of the
 * log.
 */
#include "stage/server.h"

#include <stdio.h>
#include <time.h>

#define LINGER 2.0 /* seconds */

static struct kedge__server_version *find(struct kedge__server *s, const char *name, uint64_t version)
{
	for (size_t i = 0; i < s->tally.count; i++) {
		struct kedge__server_version *v = &s->tally.at[i];

		if (v->version == version && strcmp(v->name, name) == 0)
			return v;
	}
	return NULL;
}

/* Without memory for it, the version is not told of. */
void kedge__tally_begin(struct kedge__server *s, const struct kedge__inflow *f)
{
	const char *name = f->session->seen.name;
	struct kedge__server_version *v = find(s, name, f->begin.version), fresh = {.version = f->begin.version};

	if (!v) {
		snprintf(fresh.name, sizeof(fresh.name), "%s", name);
		fresh.since = f->since;
		fresh.wall_ns = kedge__clock_wall_ns();
		if (!kedge__array_push(&s->tally, fresh))
			return;
		v = &s->tally.at[s->tally.count - 1];
	}
	v->open++;
}

void kedge__tally_end(struct kedge__server *s, const struct kedge__inflow *f, bool stored)
{
	struct kedge__server_version *v = find(s, f->session->seen.name, f->begin.version);

	if (!v || !v->open)
		return;
	v->open--;
	v->last = kedge__clock_seconds();
	v->segments += stored;
	v->failed += !stored;
	v->bytes += stored ? f->asked : 0;
}

static void told(const struct kedge__server_version *v)
{
	double seconds = v->last - v->since;
	time_t began = (time_t)(v->wall_ns / 1000000000);
	char when[32], failed[48] = "";
	struct tm tm;

	gmtime_r(&began, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	if (v->failed)
		snprintf(failed, sizeof(failed), ", %u not stored", v->failed);
	kedge__log(KEDGE_LOG_INFO,
		   "version %llu of %s: %u %s%s, %llu bytes, begun %s.%03uZ, %s %.3f s later (%.0f MB/s)",
		   (unsigned long long)v->version, v->name, v->segments, v->segments == 1 ? "segment" : "segments",
		   failed, (unsigned long long)v->bytes, when, (unsigned)(v->wall_ns / 1000000 % 1000),
		   v->segments ? "on L2" : "given up", seconds, (double)v->bytes / 1e6 / (seconds + 1e-9));
}

void kedge__tally_tell(struct kedge__server *s, double now)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->tally.count; i++) {
		struct kedge__server_version v = s->tally.at[i];

		if (v.open || now - v.last < LINGER)
			s->tally.at[kept++] = v;
		else
			told(&v);
	}
	s->tally.count = kept;
}
