/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writers of a staging server: a file has one, which does to it what there is to do, in order. Whether a piece came
 * as it was sent is found out by other threads before, so that storage does not wait for it.
 */
#include "stage/server.h"

#include <unistd.h>

/* Every buffer may be with one writer, and every file with it at its beginning and its end: a submit never waits. */
static size_t queue_limit(const struct kedge__server *s)
{
	return s->slot_count + (size_t)KEDGE__SERVER_SESSIONS * KEDGE__STAGE_FILES * 3;
}

/* Sums are faster than storage. */
static unsigned checkers_of(const struct kedge__server *s)
{
	return (s->o.writers + 3) / 4;
}

int kedge__writing_open(struct kedge__server *s, struct kedge__error *err)
{
	int rc = 0;

	s->writers = kedge__calloc(s->o.writers, sizeof(struct kedge__worker *));
	s->checkers = kedge__calloc(checkers_of(s), sizeof(struct kedge__worker *));
	s->load = kedge__calloc(s->o.writers, sizeof(*s->load));
	if (!s->writers || !s->checkers || !s->load)
		return kedge__error_nomem(err);
	for (unsigned i = 0; i < s->o.writers && !rc; i++)
		rc = kedge__worker_new(queue_limit(s), &s->writers[i], err);
	for (unsigned i = 0; i < checkers_of(s) && !rc; i++)
		rc = kedge__worker_new(queue_limit(s), &s->checkers[i], err);
	return rc;
}

void kedge__writing_close(struct kedge__server *s)
{
	for (unsigned i = 0; s->writers && i < s->o.writers; i++)
		kedge__worker_free(s->writers[i]);
	for (unsigned i = 0; s->checkers && i < checkers_of(s); i++)
		kedge__worker_free(s->checkers[i]);
	kedge__free(s->writers);
	kedge__free(s->checkers);
	kedge__free(s->load);
	s->writers = NULL;
	s->checkers = NULL;
	s->load = NULL;
}

void kedge__writing_assign(struct kedge__inflow *f)
{
	struct kedge__server *s = f->session->server;
	size_t least = 0;

	for (unsigned i = 1; i < s->o.writers; i++)
		if (s->load[i] < s->load[least])
			least = i;
	f->writer = least;
	s->load[least]++;
}

/* ------------------------------------------------------------------ items */

struct kedge__item *kedge__item_new(struct kedge__inflow *f, enum kedge__item_kind kind)
{
	struct kedge__item *it = kedge__calloc(1, sizeof(*it));

	if (!it)
		return NULL;
	it->kind = kind;
	it->state = KEDGE__ITEM_READY;
	it->file = f;
	if (f->last)
		f->last->next = it;
	else
		f->first = it;
	f->last = it;
	return it;
}

void kedge__item_free(struct kedge__item *it)
{
	kedge__error_done(&it->err);
	kedge__free(it);
}

/* ------------------------------------------------------------------ what a writer does */

/* The job has made its directory: a client makes none of another name. */
static int catalog_open(struct kedge__session *c, struct kedge__error *err)
{
	const char *store = c->server->store;
	char *dir = kedge__asprintf("%s/%s", store, c->seen.name);
	int rc = dir ? 0 : kedge__error_nomem(err);

	if (!rc && !kedge__fs_exists(dir))
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "there is no job %s in %s", c->seen.name, store);
	if (!rc)
		rc = kedge__catalog_open(store, c->seen.name, KEDGE__CATALOG_CREATE, &c->cat, err);
	kedge__free(dir);
	return rc;
}

static int do_begin(struct kedge__inflow *f, struct kedge__error *err)
{
	const struct kedge__stage_begin *b = &f->begin;
	struct kedge__session *c = f->session;
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = c->cat ? 0 : catalog_open(c, err);
	if (!rc)
		rc = kedge__inbound_open(c->cat, b->version, b->rank, b->generation, b->sync, &f->in, err);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

static int do_piece(struct kedge__inflow *f, struct kedge__item *it)
{
	const struct kedge__stage_piece *p = &it->piece;

	if (!it->right)
		return kedge__error_set(
		    &it->err, KEDGE_E_IO, 0, "version %llu, rank %u: %u bytes at %llu did not come as they were sent",
		    (unsigned long long)f->begin.version, f->begin.rank, p->bytes, (unsigned long long)p->offset);
	f->written += p->bytes;
	return kedge__inbound_append(f->in, it->slot->data, p->bytes, &it->err);
}

static int do_commit(struct kedge__inflow *f, struct kedge__item *it)
{
	if (it->bytes != f->written)
		return kedge__error_set(&it->err, KEDGE_E_IO, 0,
					"version %llu, rank %u: %llu bytes came, and %llu were to be committed",
					(unsigned long long)f->begin.version, f->begin.rank,
					(unsigned long long)f->written, (unsigned long long)it->bytes);
	return kedge__inbound_commit(f->in, &it->err);
}

static int do_item(struct kedge__inflow *f, struct kedge__item *it)
{
	switch (it->kind) {
	case KEDGE__ITEM_BEGIN:
		return do_begin(f, &it->err);
	case KEDGE__ITEM_PIECE:
		return do_piece(f, it);
	case KEDGE__ITEM_COMMIT:
		return do_commit(f, it);
	case KEDGE__ITEM_DROP:
	case KEDGE__ITEM_NOTHING:
		break;
	}
	return 0;
}

static void give_back(struct kedge__server *s, struct kedge__item *it)
{
	uint64_t one = 1;

	pthread_mutex_lock(&s->back_lock);
	it->next = NULL;
	if (s->back_last)
		s->back_last->next = it;
	else
		s->back_first = it;
	s->back_last = it;
	pthread_mutex_unlock(&s->back_lock);
	(void)!write(s->wake, &one, sizeof(one));
}

static void check_run(void *ctx)
{
	struct kedge__item *it = ctx;
	struct kedge__server *s = it->file->session->server;
	bool right = kedge__checksum(it->slot->data, it->piece.bytes) == it->piece.checksum;

	pthread_mutex_lock(&s->check_lock);
	it->right = right;
	it->checked = true;
	pthread_cond_broadcast(&s->checked);
	pthread_mutex_unlock(&s->check_lock);
}

/* Mostly it has been by now. */
static void check_wait(struct kedge__server *s, const struct kedge__item *it)
{
	pthread_mutex_lock(&s->check_lock);
	while (!it->checked)
		pthread_cond_wait(&s->checked, &s->check_lock);
	pthread_mutex_unlock(&s->check_lock);
}

/* After a failure nothing more is done but to remove what is there. */
static void item_run(void *ctx)
{
	struct kedge__item *it = ctx;
	struct kedge__inflow *f = it->file;
	bool ends = it->kind == KEDGE__ITEM_COMMIT || it->kind == KEDGE__ITEM_DROP;

	if (it->kind == KEDGE__ITEM_PIECE)
		check_wait(f->session->server, it);
	it->rc = f->rc;
	if (!f->rc) {
		it->rc = f->rc = do_item(f, it);
		it->first_failure = it->rc;
	}
	if (ends) {
		kedge__inbound_close(f->in);
		f->in = NULL;
	}
	give_back(f->session->server, it);
}

void kedge__writing_hand(struct kedge__inflow *f)
{
	struct kedge__server *s = f->session->server;

	while (f->first && f->first->state == KEDGE__ITEM_READY) {
		struct kedge__item *it = f->first;

		f->first = it->next;
		if (!f->first)
			f->last = NULL;
		f->out++;
		f->session->seen.writing += it->kind == KEDGE__ITEM_PIECE;
		if (it->kind == KEDGE__ITEM_PIECE)
			(void)kedge__worker_submit(s->checkers[s->checker++ % checkers_of(s)], check_run, it, NULL);
		(void)kedge__worker_submit(s->writers[f->writer], item_run, it, NULL);
	}
}

struct kedge__item *kedge__writing_back(struct kedge__server *s)
{
	struct kedge__item *it;

	pthread_mutex_lock(&s->back_lock);
	it = s->back_first;
	if (it) {
		s->back_first = it->next;
		if (!s->back_first)
			s->back_last = NULL;
	}
	pthread_mutex_unlock(&s->back_lock);
	return it;
}
