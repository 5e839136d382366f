/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * save_job: segments are written by ranks, which agree as those of any parallel job do: a version has all of them, or
 * is not there. As many work at a time as there are threads, and share these.
 */
#include "save_job.h"
#include <malloc.h>

/* ------------------------------------------------------------------ opening */

typedef KEDGE__ARRAY(char *) texts;

struct opening {
	struct kedge__save_job *job;
	const char *const *settings; /* up to NULL */
};

static void text_add(texts *list, char *text)
{
	if (!text || !kedge__array_push(list, text))
		kedge__tool_no_memory();
}

/* What is one job's is shared by the ranks: they have the same directories, and none that could fail without the
 * others. */
static void share(const struct kedge__job_settings *s, int ranks, int threads, texts *own)
{
	char *l1 = kedge__tool_literal(s->l1);

	text_add(own, kedge__asprintf("l1=%s", l1));
	text_add(own, kedge__asprintf("threads=%d", threads));
	text_add(own, kedge__strdup("group_size=1"));
	text_add(own, kedge__strdup("protect=single"));
	text_add(own,
		 kedge__strdup("track=none")); /* files have no pages: each rank would try out trackers for nothing */
	if (s->l2_rate)
		text_add(own, kedge__asprintf("l2_rate=%llu",
					      (unsigned long long)KEDGE__MAX(s->l2_rate / (uint64_t)ranks, 1)));
	kedge__free(l1);
}

static int rank_open(void *ctx, int rank, struct kedge__error *err)
{
	const struct opening *o = ctx;
	struct kedge__save_job *j = o->job;
	const struct kedge_group group = kedge__crew_group(&j->crew, rank);
	int rc = j->crew.size == 1 ? kedge_open(j->name, NULL, o->settings, &j->k[rank])
				   : kedge_open_group(j->name, NULL, o->settings, &group, &j->k[rank]);

	return kedge__crew_said(NULL, rc, err);
}

static int open_all(struct kedge__save_job *j, const struct kedge__text_list *settings, const texts *own,
		    struct kedge__error *err)
{
	struct kedge__text_list all = {0};
	struct opening o = {.job = j};
	int rc;

	for (size_t i = 0; i < settings->count + own->count + 1; i++) {
		const char *text = i < settings->count                ? settings->at[i]
				   : i < settings->count + own->count ? own->at[i - settings->count]
								      : NULL;

		if (!kedge__array_push(&all, text))
			kedge__tool_no_memory();
	}
	o.settings = all.at;
	rc = kedge__crew_run(&j->crew, rank_open, &o, err);
	kedge__array_done(&all);
	return rc;
}

int kedge__save_job_open(struct kedge__save_job *j, const char *name, const struct kedge__text_list *settings,
			 int ranks, struct kedge__error *err)
{
	struct kedge__job_settings s;
	texts own = {0};
	int threads, at_once, rc = kedge__tool_settings(NULL, true, settings, &s, err);

	if (rc)
		return rc;
	threads = kedge__tool_threads(&s);
	at_once = KEDGE__MIN(ranks, threads);
	if (ranks > 1) {
		/* What one rank is done with must not stay with its thread: the next one takes it. */
		(void)mallopt(M_ARENA_MAX, at_once);
		share(&s, ranks, threads / at_once, &own);
		kedge__tool_listen_once();
	}
	kedge__job_settings_done(&s);
	j->name = name;
	kedge__crew_init(&j->crew, ranks, at_once);
	j->k = kedge__calloc((size_t)ranks, sizeof(*j->k));
	if (!j->k)
		kedge__tool_no_memory();
	rc = open_all(j, settings, &own, err);
	for (size_t i = 0; i < own.count; i++)
		kedge__free(own.at[i]);
	kedge__array_done(&own);
	if (rc) /* on all ranks */
		(void)kedge__save_job_close(j, NULL);
	return rc;
}

static int rank_close(void *ctx, int rank, struct kedge__error *err)
{
	struct kedge__save_job *j = ctx;
	int rc = kedge_close(j->k[rank]);

	j->k[rank] = NULL;
	return kedge__crew_said(NULL, rc, err);
}

int kedge__save_job_close(struct kedge__save_job *j, struct kedge__error *err)
{
	int rc = j->k && j->k[0] ? kedge__crew_run(&j->crew, rank_close, j, err) : 0;

	kedge__free(j->k);
	j->k = NULL;
	kedge__crew_done(&j->crew);
	return rc;
}

/* ------------------------------------------------------------------ a version */

struct far { /* how far a rank is */
	struct taking *taking;
	uint64_t done, total;
};

struct taking {
	struct kedge__save_job *job;
	uint64_t version;
	const char *note;
	void (*progress)(void *user, const struct kedge_progress *p);
	void *user;
	pthread_mutex_t lock; /* over what follows */
	const char *phase;    /* the furthest that any rank is in */
	struct far *ranks;
	uint64_t done, total;
	int sealed;
};

/* Ranks are not in the same phase at the same time: what is shown is that of the first that went on, and of those who
 * followed. */
static void progress_sum(void *user, const struct kedge_progress *p)
{
	struct far *f = user;
	struct taking *t = f->taking;
	struct kedge_progress sum = *p;

	pthread_mutex_lock(&t->lock);
	if (!t->phase || strcmp(t->phase, p->phase) != 0) {
		for (int r = 0; r < t->job->crew.size; r++)
			t->ranks[r].done = t->ranks[r].total = 0;
		t->done = t->total = 0;
		t->phase = p->phase;
	}
	t->done += p->done_bytes - f->done;
	t->total += p->total_bytes - f->total;
	f->done = p->done_bytes;
	f->total = p->total_bytes;
	sum.done_bytes = t->done;
	sum.total_bytes = t->total;
	t->progress(t->user, &sum);
	pthread_mutex_unlock(&t->lock);
}

static int rank_take(void *ctx, int rank, struct kedge__error *err)
{
	struct taking *t = ctx;
	kedge_t *k = t->job->k[rank];
	int rc;

	kedge_set_progress(k, progress_sum, &t->ranks[rank]);
	rc = kedge_version_note(k, t->note);
	if (rc == 0)
		rc = kedge_checkpoint(k, t->version);
	pthread_mutex_lock(&t->lock);
	t->sealed += rc == 0;
	pthread_mutex_unlock(&t->lock);
	if (rc == 0)
		rc = kedge_wait(k);
	kedge__crew_said(k, rc, err);
	kedge_set_progress(k, NULL, NULL);
	return rc;
}

int kedge__save_job_take(struct kedge__save_job *j, uint64_t version, const char *note,
			 void (*progress)(void *user, const struct kedge_progress *p), void *user, bool *sealed,
			 struct kedge__error *err)
{
	struct taking t = {.job = j, .version = version, .note = note, .progress = progress, .user = user};
	int rc;

	t.ranks = kedge__calloc((size_t)j->crew.size, sizeof(*t.ranks));
	if (!t.ranks)
		kedge__tool_no_memory();
	for (int r = 0; r < j->crew.size; r++)
		t.ranks[r].taking = &t;
	pthread_mutex_init(&t.lock, NULL);
	rc = kedge__crew_run(&j->crew, rank_take, &t, err);
	pthread_mutex_destroy(&t.lock);
	kedge__free(t.ranks);
	*sealed = t.sealed == j->crew.size;
	return rc;
}

int kedge__save_job_stats(struct kedge__save_job *j, struct kedge_stats *sum, struct kedge__error *err)
{
	int rc = 0;

	*sum = (struct kedge_stats){.version = 0};
	for (int r = 0; r < j->crew.size && !rc; r++) {
		struct kedge_stats one;

		rc = kedge__crew_said(j->k[r], kedge_stats_get(j->k[r], &one), err);
		if (rc)
			break;
		one.raw_bytes += sum->raw_bytes;
		one.stored_bytes += sum->stored_bytes;
		one.literal_bytes += sum->literal_bytes;
		one.metadata_bytes += sum->metadata_bytes;
		one.hash_seconds += sum->hash_seconds;
		one.encode_seconds += sum->encode_seconds;
		one.write_seconds += sum->write_seconds;
		*sum = one;
	}
	return rc;
}

/* ------------------------------------------------------------------ versions that are there */

struct discarding {
	struct kedge__save_job *job;
	uint64_t from;
};

static int rank_discard(void *ctx, int rank, struct kedge__error *err)
{
	const struct discarding *d = ctx;
	kedge_t *k = d->job->k[rank];

	return kedge__crew_said(k, kedge_discard(k, d->from, KEDGE_LEVEL_1 | KEDGE_LEVEL_2), err);
}

int kedge__save_job_discard(struct kedge__save_job *j, uint64_t from, struct kedge__error *err)
{
	struct discarding d = {j, from};

	return kedge__crew_run(&j->crew, rank_discard, &d, err);
}
