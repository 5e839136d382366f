/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge drain: what a job that is dead had sealed on L1 goes to L2. */
#include "stage/stage.h"
#include "tool.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct drain {
	struct kedge__usage usage;
	const char *store, *name, *to;
	struct kedge__text_list sets;
	uint64_t after;
	bool newest, json, quiet;
	struct kedge__job_settings settings;
	struct kedge__bucket bucket;
	struct kedge__drain_report total;
	size_t names;
};

/* ------------------------------------------------------------------ one name */

/* The L2 that the name's L1 remembers, or the one that is given, which has to be the same. */
static int find_l2(const struct drain *d, const struct kedge__catalog *from, char **out, struct kedge__error *err)
{
	struct kedge__tie tie = {.path = NULL};
	struct kedge__store_id id;
	const char *path = d->to;
	int rc = kedge__tie_read(from, &tie, err);

	if (rc == KEDGE_E_NOTFOUND && path)
		rc = 0;
	else if (rc == KEDGE_E_NOTFOUND)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0,
				      "this L1 never had an L2: name one with --to, if it is to have one");
	if (!rc && !path)
		path = tie.path;
	if (!rc && kedge__store_look(path, &id, NULL) != KEDGE__SIGHT_STORE)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s%s is not a store: is it mounted?", path,
				      path == tie.path ? ", the L2 of this L1," : "");
	if (!rc && tie.path && !kedge__store_id_equal(&id, &tie.id))
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0,
				      "%s is not the L2 that this L1 belongs to, which was at %s", path, tie.path);
	if (!rc) {
		*out = kedge__strdup(path);
		rc = *out ? 0 : kedge__error_nomem(err);
	}
	kedge__tie_done(&tie);
	return rc;
}

static int client_open(const struct drain *d, const char *name, const struct kedge__catalog *to,
		       struct kedge__stage_client **out, struct kedge__error *err)
{
	const struct kedge__job_settings *s = &d->settings;
	const struct kedge__stage_options o = {.servers = s->stage,
					       .auth = s->stage_auth,
					       .buffer = s->stage_buffer,
					       .buffers = (size_t)s->stage_buffers,
					       .timeout = (double)s->stage_timeout,
					       .retry = (double)s->stage_retry};
	const struct kedge__store_id id = kedge__catalog_store_id(to);

	return s->stage[0] ? kedge__stage_client_new(&o, name, &id, out, err) : 0;
}

static int drain_to(struct drain *d, const char *name, struct kedge__catalog *from, const char *l2,
		    struct kedge__error *err)
{
	struct kedge__drain_options o = {
	    .newest = d->newest, .io = kedge__job_settings_io(&d->settings), .bucket = &d->bucket};
	struct kedge__drain_report report = {0};
	struct kedge__catalog *to;
	int rc = kedge__catalog_open(l2, name, KEDGE__CATALOG_CREATE, &to, err);

	if (rc)
		return rc;
	kedge__catalog_set_take_over(from, d->settings.take_over);
	kedge__catalog_set_take_over(to, d->settings.take_over);
	rc = client_open(d, name, to, &o.client, err);
	if (!rc)
		rc = kedge__drain(from, to, &o, &report, err);
	kedge__catalog_close(to);
	kedge__stage_client_free(o.client);
	d->total.versions += report.versions;
	d->total.segments += report.segments;
	d->total.bytes += report.bytes;
	d->total.incomplete += report.incomplete;
	d->total.failed += report.failed;
	return rc;
}

static int drain_name(struct drain *d, const char *name)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__catalog *from = NULL;
	char *l2 = NULL;
	int rc = kedge__catalog_open(d->settings.l1, name, KEDGE__CATALOG_CREATE, &from, &err);

	if (!rc)
		rc = find_l2(d, from, &l2, &err);
	if (!rc)
		rc = drain_to(d, name, from, l2, &err);
	kedge__catalog_close(from);
	kedge__free(l2);
	d->names++;
	return rc ? kedge__tool_fail(d->usage.command, &err, "cannot drain %s of %s", name, d->settings.l1) : 0;
}

/* ------------------------------------------------------------------ all of them */

/* Not a child of ours: its number is all that is known. */
static int wait_for_end(const struct drain *d)
{
	struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, (pid_t)d->after, 0), .events = POLLIN};

	if (p.fd < 0 && errno == ESRCH)
		return 0;
	if (p.fd < 0) {
		kedge__tool_say(d->usage.command, "cannot wait for process %llu: %s", (unsigned long long)d->after,
				strerror(errno));
		return KEDGE__EXIT_FAILURE;
	}
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	close(p.fd);
	return 0;
}

static void print(const struct drain *d)
{
	const struct kedge__drain_report *r = &d->total;
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM], c[KEDGE__TEXT_ROOM];
	json_t *o;

	if (d->json) {
		o = kedge__json_object();
		kedge__json_uint(o, "names", d->names);
		kedge__json_uint(o, "versions", r->versions);
		kedge__json_uint(o, "segments", r->segments);
		kedge__json_uint(o, "bytes", r->bytes);
		kedge__json_uint(o, "incomplete", r->incomplete);
		kedge__json_uint(o, "failed", r->failed);
		kedge__json_print(o);
	} else if (!d->quiet) {
		printf("%s brought to L2 (%s, %s)", kedge__text_count(r->versions, "version", "versions", a),
		       kedge__text_count(r->segments, "segment", "segments", b), kedge__text_bytes(r->bytes, c));
		if (r->incomplete)
			printf("; %s for segments of other nodes",
			       kedge__text_count(r->incomplete, "version waits", "versions wait", a));
		printf("\n");
	}
}

static int drain_all(struct drain *d)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char **names = NULL;
	size_t count = 0;
	int status = 0;

	if (!d->name && kedge__store_names(d->settings.l1, &names, &count, &err))
		return kedge__tool_fail(d->usage.command, &err, "cannot drain %s", d->settings.l1);
	if (d->name)
		status = drain_name(d, d->name);
	for (size_t i = 0; i < count; i++) {
		int one = drain_name(d, names[i]);

		status = status ? status : one;
	}
	kedge__fs_list_free(names, count);
	return status;
}

/* The L1 that the settings name. */
static int drain_store(struct drain *d)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__store_id id;
	enum kedge__sight sight;

	kedge__job_bucket_init(&d->bucket, d->settings.l2_rate);
	sight = kedge__store_look(d->settings.l1, &id, &err);
	if (sight == KEDGE__SIGHT_STORE)
		return drain_all(d);
	kedge__error_set(&err, KEDGE_E_NOTFOUND, 0, "it is %s", kedge__sight_text(sight));
	return kedge__tool_fail(d->usage.command, &err, "cannot drain %s", d->settings.l1);
}

/* ------------------------------------------------------------------ a directory for each rank */

static int load(struct drain *d, int rank)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__tool_settings_of(d->store, true, rank, &d->sets, &d->settings, &err) == 0)
		return 0;
	return kedge__tool_fail(d->usage.command, &err, "cannot read the settings");
}

struct by_rank { /* the first part of L1 in which ranks differ: DIR/BEFOREnAFTER */
	char *dir;
	size_t before; /* bytes of the name that come before the rank */
	char *at0;     /* the name for rank 0 */
};

/* L1 as ranks 0 and 1 see it; false: they see one directory. */
static bool by_rank_find(const char *l1_0, const char *l1_1, struct by_rank *b)
{
	size_t same = 0, slash, end;

	while (l1_0[same] && l1_0[same] == l1_1[same])
		same++;
	if (!l1_0[same] && !l1_1[same])
		return false;
	for (slash = same; slash && l1_0[slash - 1] != '/';)
		slash--;
	end = same + strcspn(l1_0 + same, "/");
	b->dir = slash ? kedge__asprintf("%.*s", (int)slash, l1_0) : kedge__strdup(".");
	b->at0 = kedge__asprintf("%.*s", (int)(end - slash), l1_0 + slash);
	b->before = same - slash;
	if (!b->dir || !b->at0)
		kedge__tool_no_memory();
	return true;
}

/* The rank whose directory has this name; -1: none. */
static int rank_of(const struct by_rank *b, const char *name)
{
	char digits[16];
	size_t n;
	long rank;

	if (strncmp(name, b->at0, b->before) != 0)
		return -1;
	n = strspn(name + b->before, "0123456789");
	if (n == 0 || n > 9)
		return -1;
	memcpy(digits, name + b->before, n);
	digits[n] = '\0';
	rank = strtol(digits, NULL, 10);
	return snprintf(digits, sizeof(digits), "%ld", rank) == (int)n ? (int)rank : -1;
}

/* Every rank that has a store on this node. */
static int drain_ranks(struct drain *d, const struct by_rank *b)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__store_id id;
	char **names = NULL;
	size_t count = 0, stores = 0;
	int status = 0;

	if (kedge__fs_exists(b->dir) && kedge__fs_list(b->dir, &names, &count, &err) != 0)
		return kedge__tool_fail(d->usage.command, &err, "cannot find the L1 of any rank");
	for (size_t i = 0; i < count; i++) {
		int rank = rank_of(b, names[i]), one;

		if (rank < 0)
			continue;
		kedge__job_settings_done(&d->settings);
		one = load(d, rank);
		if (!one && kedge__store_look(d->settings.l1, &id, NULL) != KEDGE__SIGHT_STORE)
			continue;
		stores++;
		d->total.incomplete = 0; /* with the last directory, what it has is whole, or needs other nodes */
		one = one ? one : drain_store(d);
		status = status ? status : one;
	}
	kedge__fs_list_free(names, count);
	if (stores)
		return status;
	kedge__tool_say(d->usage.command, "no rank has a store here: l1 has %%r, and nothing in %s fits", b->dir);
	return KEDGE__EXIT_NOTFOUND;
}

static int drain(struct drain *d)
{
	struct by_rank b = {NULL, 0, NULL};
	char *l1_0 = NULL;
	int status;

	kedge__tool_listen(d->usage.command, d->quiet);
	status = load(d, 0);
	if (!status) {
		l1_0 = kedge__strdup(d->settings.l1);
		if (!l1_0)
			kedge__tool_no_memory();
		kedge__job_settings_done(&d->settings);
		status = load(d, 1);
	}
	if (!status && d->after)
		status = wait_for_end(d);
	if (!status)
		status = by_rank_find(l1_0, d->settings.l1, &b) ? drain_ranks(d, &b) : drain_store(d);
	if (d->names)
		print(d);
	kedge__job_settings_done(&d->settings);
	kedge__free(l1_0);
	kedge__free(b.dir);
	kedge__free(b.at0);
	return status ? status : d->total.incomplete ? KEDGE__EXIT_NO : KEDGE__EXIT_OK;
}

int kedge__tool_drain(int argc, char **argv)
{
	struct drain d = {.after = 0};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&d.store),
	    {"name", 'n', KEDGE__OPTION_TEXT, &d.name, "NAME",
	     "the name of the job in the store (default: all of them)"},
	    {"to", 't', KEDGE__OPTION_TEXT, &d.to, "L2", "where L2 is now (default: where L1 remembers it)"},
	    {"after", 0, KEDGE__OPTION_UINT, &d.after, "PID", "wait until this process has ended"},
	    {"newest", 0, KEDGE__OPTION_FLAG, &d.newest, NULL, "only the newest version, and what it needs"},
	    KEDGE__OPTION_SET(&d.sets),
	    KEDGE__OPTION_JSON(&d.json),
	    KEDGE__OPTION_QUIET(&d.quiet),
	};
	int first, status;

	d.usage = (struct kedge__usage){
	    .command = "kedge drain",
	    .about = "Brings to L2 what a job that is dead had sealed on L1: the versions that are newer than those "
		     "there. Goes\n"
		     "through a staging server if the settings name one. A job that is alive is left alone. With an L1 "
		     "on every\n"
		     "node, run it on each: a version is published when the segments of all ranks are on L2.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge drain -s /local/scratch/ckpt\n./solver & kedge drain -s /local/scratch/ckpt --after $!",
	};
	if (kedge__options_parse(&d.usage, argc, argv, &first, &status))
		status = drain(&d);
	kedge__free(d.sets.at);
	return status;
}
