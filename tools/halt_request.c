/* SPDX-License-Identifier: BSD-3-Clause */
/* A request is a file beside the versions, which the job looks for about once a second, whatever node it runs on. */
#include "halt.h"

#include <math.h>
#include <pwd.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS 100000000

static void pause_briefly(void)
{
	const struct timespec t = {.tv_nsec = PAUSE_NS};

	(void)nanosleep(&t, NULL);
}

static void name_asker(const struct kedge__halt *h, char why[KEDGE__REQUEST_WHY])
{
	const struct passwd *user = getpwuid(geteuid());
	char host[64] = "localhost";

	(void)gethostname(host, sizeof(host) - 1);
	snprintf(why, KEDGE__REQUEST_WHY, "%s by %s on %s", h->usage.command, user ? user->pw_name : "somebody", host);
}

/* Who asks for a version when the end was asked for gets one anyway. */
static int ask(const struct kedge__halt *h, const char *path, struct kedge__request *r, struct kedge__error *err)
{
	struct kedge__request there;

	if (kedge__request_read(path, &there) && there.kind > h->kind) {
		*r = there;
		return 0;
	}
	r->kind = h->kind;
	r->ns = kedge__clock_wall_ns();
	if (h->reason)
		snprintf(r->why, sizeof(r->why), "%s", h->reason);
	else
		name_asker(h, r->why);
	return kedge__request_write(path, r, err);
}

/* The job removes the file when the version is sealed; one that is to end then gives its name back. */
static bool is_answered(const struct kedge__halt *h, const char *path, uint64_t ns, bool *gone)
{
	struct kedge__request there;
	char owner[KEDGE__HOLDER_TEXT];
	bool used = true;

	*gone = kedge__catalog_in_use(h->place.levels[0], &used, owner, NULL) == 0 && !used;
	if (kedge__request_read(path, &there) && there.ns == ns)
		return false;
	return h->kind == KEDGE__REQUEST_CHECKPOINT || *gone;
}

static void print(const struct kedge__halt *h, bool asked_only, const char *owner)
{
	struct kedge__catalog *cat = h->place.levels[0];
	uint64_t version = KEDGE__NO_VERSION;
	json_t *o;

	if (!asked_only && kedge__catalog_scan(cat, NULL) == 0 && kedge__catalog_count(cat))
		version = kedge__catalog_at(cat, kedge__catalog_count(cat) - 1)->version;
	if (h->place.json) {
		o = kedge__json_object();
		kedge__json_text(o, "name", h->place.name);
		kedge__json_text(o, "request", kedge__request_kind(h->kind));
		kedge__json_bool(o, "answered", !asked_only);
		kedge__json_version(o, "version", version);
		kedge__json_print(o);
	} else if (!h->place.quiet && asked_only) {
		kedge__print(stdout, "asked %s %s\n", owner,
			     h->kind == KEDGE__REQUEST_EXIT ? "to save its state and to end" : "for a version");
	} else if (!h->place.quiet) {
		kedge__print(stdout, "version %llu of %s\n", (unsigned long long)version, h->place.name);
	}
}

static int await(const struct kedge__halt *h, const char *path, uint64_t ns, const char *owner)
{
	double deadline = kedge__clock_seconds() + h->wait;
	bool gone = false;

	while (!is_answered(h, path, ns, &gone)) {
		if (gone) {
			kedge__request_remove(path, ns);
			kedge__tool_say(h->usage.command, "%s has ended without an answer", owner);
			return KEDGE__EXIT_NO;
		}
		if (kedge__clock_seconds() >= deadline) {
			kedge__tool_say(h->usage.command, "no answer yet; the request stands");
			return KEDGE__EXIT_NO;
		}
		pause_briefly();
	}
	print(h, false, owner);
	return KEDGE__EXIT_OK;
}

static int request(const struct kedge__halt *h)
{
	struct kedge__catalog *cat = h->place.levels[0];
	char *path = kedge__request_path(kedge__catalog_store(cat), h->place.name);
	struct kedge__error err = KEDGE__ERROR_INIT;
	char owner[KEDGE__HOLDER_TEXT];
	struct kedge__request r;
	bool used = false;
	int status;

	if (!path)
		kedge__tool_no_memory();
	if (kedge__catalog_in_use(cat, &used, owner, &err)) {
		status = kedge__tool_fail(h->usage.command, &err, "cannot look at %s", h->place.name);
	} else if (!used) {
		kedge__tool_say(h->usage.command, "no job is running as %s of %s: there is nobody to ask",
				h->place.name, kedge__catalog_store(cat));
		status = KEDGE__EXIT_NOTFOUND;
	} else if (ask(h, path, &r, &err)) {
		status = kedge__tool_fail(h->usage.command, &err, "cannot ask %s", owner);
	} else if (h->wait > 0) {
		status = await(h, path, r.ns, owner);
	} else {
		print(h, true, owner);
		status = KEDGE__EXIT_OK;
	}
	kedge__free(path);
	return status;
}

int kedge__halt(struct kedge__halt *h, int argc, char **argv)
{
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&h->place.store),
	    KEDGE__OPTION_NAME(&h->place.name),
	    {"reason", 'm', KEDGE__OPTION_TEXT, &h->reason, "TEXT",
	     "why; it is kept with the version (default: who asks)"},
	    {"wait", 'w', KEDGE__OPTION_REAL, &h->wait, "S", "wait for the answer, S seconds at most"},
	    KEDGE__OPTION_SET(&h->place.sets),
	    KEDGE__OPTION_JSON(&h->place.json),
	    KEDGE__OPTION_QUIET(&h->place.quiet),
	};
	int first, status;

	h->usage.options = options;
	h->usage.option_count = KEDGE__COUNT(options);
	if (kedge__options_parse(&h->usage, argc, argv, &first, &status)) {
		if (!(h->wait >= 0) || isinf(h->wait))
			status = kedge__usage_error(&h->usage, "--wait must be a number of seconds, not below 0");
		else
			status = kedge__place_open(&h->place, &h->usage, KEDGE__PLACE_FIRST);
		if (!status)
			status = request(h);
	}
	kedge__place_done(&h->place);
	return status;
}
