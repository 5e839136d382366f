/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

#include <stdlib.h>

#define RUN_SIGNALS  "USR1,TERM" /* under `kedge run`: a resource manager may send them to ranks directly */
#define LOOK_SECONDS 1.0         /* between two looks at files, which may be on a parallel file system */

void kedge__requests_init(struct kedge__requests *r)
{
	r->looked = -1;
	r->answered.signals = kedge__signals_count();
}

void kedge__requests_done(kedge_t *k)
{
	if (k->requests.signals)
		kedge__signals_close(k->requests.signals);
	for (size_t i = 0; i < KEDGE__REQUEST_PLACES; i++)
		kedge__free(k->requests.paths[i]);
}

/* ------------------------------------------------------------------ where */

static const char *run_path(void)
{
	const char *path = getenv("KEDGE_RUN_REQUEST");

	return path && path[0] ? path : NULL;
}

bool kedge__requests_sees_run(void)
{
	return run_path() && kedge__fs_exists(run_path());
}

void kedge__requests_watch(kedge_t *k, bool watches)
{
	k->requests.watches = watches;
}

/* A request that nobody answered before this process came. */
static void drop_old(const kedge_t *k, const char *path, uint64_t since_ns)
{
	struct kedge__request old;

	if (!kedge__request_read(path, &old) || old.ns >= since_ns || kedge__relaunched())
		return;
	kedge__log(KEDGE_LOG_NOTICE, "%s: a request from before this process started is dropped: %s", k->name, old.why);
	kedge__request_remove(path, old.ns);
}

int kedge__requests_open(kedge_t *k, uint64_t since_ns, struct kedge__error *err)
{
	struct kedge__requests *r = &k->requests;
	bool l1 = k->levels.at[KEDGE__L1].leads, l2 = k->group.rank == 0 && k->set.l2[0];

	if (l1)
		r->paths[KEDGE__L1] = kedge__request_path(k->set.l1, k->name);
	if (l2)
		r->paths[KEDGE__L2] = kedge__request_path(k->set.l2, k->name);
	if (r->watches)
		r->paths[KEDGE__REQUEST_RUN] = kedge__strdup(run_path());
	if ((l1 && !r->paths[KEDGE__L1]) || (l2 && !r->paths[KEDGE__L2]) ||
	    (r->watches && !r->paths[KEDGE__REQUEST_RUN]))
		return kedge__error_nomem(err);
	r->signals = !k->set.on_signal[0] && run_path() ? RUN_SIGNALS : k->set.on_signal;
	kedge__signals_open(r->signals, k->name);
	r->pulse = r->watches && getenv("KEDGE_RUN_WATCHDOG");
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		if (r->paths[l])
			drop_old(k, r->paths[l], since_ns);
	}
	return 0;
}

/* ------------------------------------------------------------------ what */

bool kedge__requests_signalled(const kedge_t *k)
{
	return k->requests.answered.signals != kedge__signals_count();
}

static void look(kedge_t *k)
{
	struct kedge__requests *r = &k->requests;

	for (int i = 0; i < KEDGE__REQUEST_PLACES; i++) {
		if (!r->paths[i] || !kedge__request_read(r->paths[i], &r->seen[i]))
			r->seen[i].kind = KEDGE__REQUEST_NONE;
	}
	if (r->pulse)
		(void)kedge__fs_touch(r->paths[KEDGE__REQUEST_RUN], NULL);
	r->looked = k->advice.clock();
}

enum kedge__request_kind kedge__requests_look(kedge_t *k, bool now, const char **why)
{
	struct kedge__requests *r = &k->requests;
	enum kedge__request_kind kind = KEDGE__REQUEST_NONE;
	const char *text = kedge__signals_since(r->answered.signals, &kind);

	if (now || r->looked < 0 || k->advice.clock() - r->looked >= LOOK_SECONDS)
		look(k);
	for (int i = 0; i < KEDGE__REQUEST_PLACES; i++) {
		if (r->seen[i].kind <= kind || r->seen[i].ns == r->answered.ns[i])
			continue;
		kind = r->seen[i].kind;
		text = r->seen[i].why;
	}
	if (why && kind != KEDGE__REQUEST_NONE)
		*why = text;
	return kind;
}

void kedge__requests_note(const kedge_t *k, struct kedge__asked *asked)
{
	for (int i = 0; i < KEDGE__REQUEST_PLACES; i++)
		asked->ns[i] = k->requests.seen[i].kind == KEDGE__REQUEST_NONE ? 0 : k->requests.seen[i].ns;
	asked->signals = kedge__signals_count();
}

/* ------------------------------------------------------------------ answered */

void kedge__requests_taken(kedge_t *k, const struct kedge__asked *asked)
{
	k->requests.signals_before = k->requests.answered.signals;
	k->requests.answered = *asked;
	if (asked->all == KEDGE__REQUEST_EXIT)
		k->requests.exit = true;
}

void kedge__requests_failed(kedge_t *k)
{
	struct kedge__requests *r = &k->requests;

	if (r->answered.all == KEDGE__REQUEST_NONE)
		return;
	memset(r->answered.ns, 0, sizeof(r->answered.ns));
	r->answered.signals = r->signals_before;
	r->answered.all = KEDGE__REQUEST_NONE;
	r->exit = false;
}

void kedge__requests_answered(kedge_t *k, const struct kedge__asked *asked, uint64_t version, const char *why)
{
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		if (asked->ns[l])
			kedge__request_remove(k->requests.paths[l], asked->ns[l]);
	}
	if (asked->all != KEDGE__REQUEST_NONE)
		kedge__journal_request(k, kedge__request_kind(asked->all), version, why);
}

int kedge_should_exit(kedge_t *k, int *now)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__requests *r;
	int rc = kedge__handle_check(k, &err);

	if (!rc && !now)
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "now must not be NULL");
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	r = &k->requests;
	if (!r->asked)
		kedge__signals_polite();
	r->asked = true;
	*now = r->exit;
	if (r->exit && !r->said)
		kedge__journal_word(k, "exiting");
	r->said = r->exit;
	pthread_mutex_unlock(&k->lock);
	return 0;
}
