/* SPDX-License-Identifier: BSD-3-Clause */
/* run_journal: the file in which a job records what it did (src/job/job.h describes the lines). */
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
	rc = kedge__fs_size(fd, &j->offset, j->path, err);
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
		kedge__free(j->jobs.at[i].key);
	kedge__array_done(&j->jobs);
	kedge__array_done(&j->checkpoints);
}

bool kedge__run_journal_knows(const struct kedge__run_journal *j)
{
	return j->jobs.count && j->jobs.at[j->jobs.count - 1].key[0];
}

void kedge__run_journal_visit(const struct kedge__run_journal *j, kedge__run_visit *visit, void *ctx)
{
	for (size_t i = 0; i < j->jobs.count; i++) {
		char *name = kedge__strdup(j->jobs.at[i].key), *store = name ? strchr(name, ' ') : NULL;

		if (store) {
			*store++ = '\0';
			visit(ctx, store, name);
		}
		kedge__free(name);
	}
}

/* The job that an `open` line names; lines before the first belong to a job without a name. NULL: no memory. */
static struct kedge__run_job *find_job(struct kedge__run_journal *j, const char *key)
{
	struct kedge__run_job job = {NULL, KEDGE__NO_VERSION};

	for (size_t i = 0; i < j->jobs.count; i++) {
		if (strcmp(j->jobs.at[i].key, key) == 0)
			return &j->jobs.at[i];
	}
	job.key = kedge__strdup(key);
	if (!job.key)
		return NULL;
	if (!kedge__array_push(&j->jobs, job)) {
		kedge__free(job.key);
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

static void note_restart(struct kedge__run_job *job, const char *args, struct kedge__run_launch *launch)
{
	unsigned long long version, ns = 0;

	if (sscanf(args, "%llu %llu", &version, &ns) < 1)
		return;
	raise_newest(job, version);
	launch->restarted = true;
	launch->restarted_from = version;
	launch->restarted_ns = ns;
}

static int note_checkpoint(struct kedge__run_journal *j, struct kedge__run_job *job, const char *args,
			   struct kedge__run_launch *launch, struct kedge__error *err)
{
	struct kedge__run_checkpoint c = {.launch = launch->number};
	unsigned long long version, raw, stored, ns;

	if (sscanf(args, "%llu %llu %llu %lf %llu", &version, &raw, &stored, &c.blocked_seconds, &ns) != 5)
		return 0;
	c.version = version;
	c.raw_bytes = raw;
	c.stored_bytes = stored;
	c.published_ns = ns;
	if (!kedge__array_push(&j->checkpoints, c))
		return kedge__error_nomem(err);
	launch->versions++;
	launch->last_version = version;
	launch->saved_ns = ns;
	if (raise_newest(job, version))
		launch->progress = true;
	return 0;
}

/* request KIND VERSION asks|silent WHY */
static void note_request(const char *args, struct kedge__run_launch *launch)
{
	unsigned long long version;
	char kind[16], how[16];
	int used = 0;

	if (sscanf(args, "%15s %llu %15s %n", kind, &version, how, &used) < 3 || !used || strcmp(kind, "exit") != 0)
		return;
	launch->answer = version;
	launch->polite = strcmp(how, "asks") == 0;
	snprintf(launch->answer_why, sizeof(launch->answer_why), "%s", args + used);
}

static void note_word(struct kedge__run_journal *j, const char *line, struct kedge__run_launch *launch)
{
	if (strcmp(line, "close") == 0 && j->open)
		j->closed = --j->open == 0;
	else if (strcmp(line, "exiting") == 0)
		launch->exiting = true;
	else if (strcmp(line, "asks") == 0)
		launch->asks = true;
}

static int parse_line(struct kedge__run_journal *j, char *line, struct kedge__run_job **job,
		      struct kedge__run_launch *launch, struct kedge__error *err)
{
	char *args = strchr(line, ' ');

	if (!args) {
		note_word(j, line, launch);
		return 0;
	}
	*args++ = '\0';
	if (strcmp(line, "open") == 0) {
		*job = find_job(j, args);
		j->open++;
		return *job ? 0 : kedge__error_nomem(err);
	}
	if (strcmp(line, "request") == 0)
		note_request(args, launch);
	if (strcmp(line, "restart") == 0)
		note_restart(*job, args, launch);
	else if (strcmp(line, "checkpoint") == 0)
		return note_checkpoint(j, *job, args, launch, err);
	return 0;
}

static int parse(struct kedge__run_journal *j, char *text, struct kedge__run_launch *launch, struct kedge__error *err)
{
	struct kedge__run_job *job = j->current < j->jobs.count ? &j->jobs.at[j->current] : find_job(j, "");
	char *line = text, *end;
	int rc = job ? 0 : kedge__error_nomem(err);

	/* A last line without an end is still being written, or was cut by the death of its writer. */
	for (; rc == 0 && (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		rc = parse_line(j, line, &job, launch, err);
	}
	if (rc == 0) {
		j->offset += (uint64_t)(line - text);
		j->current = (size_t)(job - j->jobs.at);
	}
	return rc;
}

int kedge__run_journal_read(struct kedge__run_journal *j, struct kedge__run_launch *launch, struct kedge__error *err)
{
	char *text = NULL;
	uint64_t size;
	int fd, rc;

	rc = kedge__fs_open_read(j->path, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &size, j->path, err);
	if (rc || size <= j->offset)
		goto close_file;
	text = kedge__malloc((size_t)(size - j->offset) + 1);
	if (!text) {
		rc = kedge__error_nomem(err);
		goto close_file;
	}
	rc = kedge__fs_pread(fd, text, (size_t)(size - j->offset), j->offset, j->path, err);
	if (rc == 0) {
		text[size - j->offset] = '\0';
		rc = parse(j, text, launch, err);
	}
	kedge__free(text);
close_file:
	kedge__fs_close(fd);
	return rc;
}
