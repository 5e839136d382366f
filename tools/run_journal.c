/* SPDX-License-Identifier: BSD-3-Clause */
/* run_journal: the file in which a job records what it did (kedge-journal(5)). */
#include "run.h"
#include <stdlib.h>
#include <unistd.h>

/* The command may change its directory, so the path that it gets is absolute. NULL: no memory, or no current directory.
 */
static char *absolute(const char *path)
{
	char *here, *whole;

	if (path[0] == '/')
		return kedge__strdup(path);
	here = getcwd(NULL, 0);
	whole = here ? kedge__asprintf("%s/%s", here, path) : NULL;
	free(here);
	return whole;
}

char *kedge__run_temporary(const char *id, const char *kind)
{
	const char *dir = getenv("TMPDIR");
	char *name = kedge__asprintf("%s/kedge-run-%s.%s", dir && *dir ? dir : "/tmp", id, kind);
	char *path = name ? absolute(name) : NULL;

	kedge__free(name);
	return path;
}

/* Where the journal of an earlier life ends, and this one goes on. */
static int continue_at_end(struct kedge__run_journal *j, struct kedge__error *err)
{
	int fd, rc = kedge__fs_open_read(j->path, &fd, err);

	if (rc)
		return rc;
	rc = kedge__journal_end(&j->reader, fd, j->path, err);
	kedge__fs_close(fd);
	return rc;
}

int kedge__run_journal_open(struct kedge__run_journal *j, const char *path, bool more, const char *id,
			    struct kedge__error *err)
{
	int fd, rc = 0;

	j->keep = path != NULL;
	j->path = path ? absolute(path) : kedge__run_temporary(id, "journal");
	if (!j->path)
		return kedge__error_nomem(err);
	if (more && kedge__fs_exists(j->path)) {
		rc = continue_at_end(j, err);
		goto done;
	}
	if (j->keep)
		rc = kedge__fs_unlink(j->path, err);
	if (rc == 0)
		rc = kedge__fs_create(j->path, &fd, err);
	if (rc == 0)
		kedge__fs_close(fd);
done:
	if (rc) {
		kedge__free(j->path);
		j->path = NULL;
	}
	return rc;
}

void kedge__run_journal_close(struct kedge__run_journal *j)
{
	if (j->path && !j->keep)
		kedge__fs_unlink(j->path, NULL);
	kedge__free(j->path);
	for (size_t i = 0; i < j->jobs.count; i++)
		kedge__free(j->jobs.at[i].name), kedge__free(j->jobs.at[i].store);
	kedge__array_done(&j->jobs);
	kedge__array_done(&j->checkpoints);
}

bool kedge__run_journal_knows(const struct kedge__run_journal *j)
{
	return j->jobs.count && j->jobs.at[j->jobs.count - 1].store;
}

void kedge__run_journal_visit(const struct kedge__run_journal *j, kedge__run_visit *visit, void *ctx)
{
	for (size_t i = 0; i < j->jobs.count; i++) {
		if (j->jobs.at[i].store)
			visit(ctx, j->jobs.at[i].store, j->jobs.at[i].name);
	}
}

/* NULL: no memory. */
static struct kedge__run_job *find_job(struct kedge__run_journal *j, const char *name)
{
	struct kedge__run_job job = {.newest = KEDGE__NO_VERSION};

	for (size_t i = 0; i < j->jobs.count; i++) {
		if (strcmp(j->jobs.at[i].name, name) == 0)
			return &j->jobs.at[i];
	}
	job.name = kedge__strdup(name);
	if (!job.name)
		return NULL;
	if (!kedge__array_push(&j->jobs, job)) {
		kedge__free(job.name);
		return NULL;
	}
	return &j->jobs.at[j->jobs.count - 1];
}

static bool raise_newest(struct kedge__run_job *job, uint64_t version)
{
	if (job->newest != KEDGE__NO_VERSION && version <= job->newest)
		return false;
	job->newest = version;
	return true;
}

static uint64_t time_ns(const json_t *o)
{
	return (uint64_t)(KEDGE__MAX(kedge__event_real(o, "time"), 0) * 1e9);
}

/* A name may be opened in another store later. */
static int note_open(struct kedge__run_job *job, const json_t *o, struct kedge__error *err)
{
	const char *store = kedge__event_text(o, "store");

	if (!store || (job->store && strcmp(job->store, store) == 0))
		return 0;
	if (job->store)
		job->newest = KEDGE__NO_VERSION;
	kedge__free(job->store);
	job->store = kedge__strdup(store);
	return job->store ? 0 : kedge__error_nomem(err);
}

static void note_restart(struct kedge__run_job *job, const json_t *o, struct kedge__run_launch *launch)
{
	uint64_t version = kedge__event_version(o, "version");

	if (version == KEDGE__NO_VERSION)
		return;
	raise_newest(job, version);
	launch->restarted = true;
	launch->restarted_from = version;
	launch->restarted_ns = time_ns(o);
}

static int note_sealed(struct kedge__run_journal *j, struct kedge__run_job *job, const json_t *o,
		       struct kedge__run_launch *launch, struct kedge__error *err)
{
	struct kedge__run_checkpoint c = {
	    .version = kedge__event_version(o, "version"),
	    .raw_bytes = kedge__event_uint(o, "raw_bytes"),
	    .stored_bytes = kedge__event_uint(o, "stored_bytes"),
	    .blocked_seconds = kedge__event_real(o, "blocked_seconds"),
	    .published_ns = time_ns(o),
	    .launch = launch->number,
	};

	if (c.version == KEDGE__NO_VERSION)
		return 0;
	if (!kedge__array_push(&j->checkpoints, c))
		return kedge__error_nomem(err);
	launch->versions++;
	launch->last_version = c.version;
	launch->saved_ns = c.published_ns;
	if (raise_newest(job, c.version))
		launch->progress = true;
	return 0;
}

static void note_request(const json_t *o, struct kedge__run_launch *launch)
{
	const char *kind = kedge__event_text(o, "kind"), *why = kedge__event_text(o, "why");

	if (!kind || strcmp(kind, "exit") != 0)
		return;
	launch->answer = kedge__event_version(o, "version");
	launch->polite = json_is_true(json_object_get(o, "asks"));
	snprintf(launch->answer_why, sizeof(launch->answer_why), "%s", why ? why : "");
}

/* What is said of no version. */
static void note_word(struct kedge__run_journal *j, const json_t *o, struct kedge__run_launch *launch)
{
	if (kedge__event_is(o, "close") && j->open)
		j->closed = --j->open == 0;
	else if (kedge__event_is(o, "exiting"))
		launch->exiting = true;
	else if (kedge__event_is(o, "asks"))
		launch->asks = true;
}

struct reading {
	struct kedge__run_journal *j;
	struct kedge__run_launch *launch;
};

static int note(void *ctx, const json_t *o, struct kedge__error *err)
{
	struct reading *r = ctx;
	struct kedge__run_job *job = find_job(r->j, kedge__event_text(o, "name"));

	if (!job)
		return kedge__error_nomem(err);
	if (kedge__event_is(o, "open")) {
		r->j->open++;
		return note_open(job, o, err);
	}
	if (kedge__event_is(o, "sealed"))
		return note_sealed(r->j, job, o, r->launch, err);
	if (kedge__event_is(o, "restart"))
		note_restart(job, o, r->launch);
	else if (kedge__event_is(o, "request"))
		note_request(o, r->launch);
	else
		note_word(r->j, o, r->launch);
	return 0;
}

int kedge__run_journal_read(struct kedge__run_journal *j, struct kedge__run_launch *launch, struct kedge__error *err)
{
	struct reading r = {j, launch};
	bool old = j->reader.old;
	int rc = kedge__journal_read(&j->reader, j->path, note, &r, err);

	if (j->reader.old && !old)
		kedge__tool_say(
		    KEDGE__RUN_COMMAND,
		    "the program has an older libkedge, whose journal is not understood: its versions are not seen, "
		    "so that it may count as making no progress; link it again, or use --patience 0");
	return rc;
}
