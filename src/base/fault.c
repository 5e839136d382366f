/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fault.h"
#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum action { NOTHING, KILL, CUT, FAIL_EIO, FAIL_ENOSPC, SHORT, READ, ALLOC, ROOM, COUNT };

static const struct {
	const char *name;
	enum action action;
	bool may_last; /* a trailing '+' is allowed */
} actions[] = {
    {"kill", KILL, false},   {"cut", CUT, false},  {"eio", FAIL_EIO, true}, {"enospc", FAIL_ENOSPC, true},
    {"short", SHORT, false}, {"read", READ, true}, {"alloc", ALLOC, true},  {"room", ROOM, false},
};

struct plan {
	enum action action;
	uint64_t at;
	bool lasts;
	const char *count_path;
};

atomic_int kedge__fault_state = KEDGE__FAULT_UNREAD;

/*
 * The plan in force. Its fields are atomics because threads meet fault points while a test sets the next plan; the
 * state is stored last (release) and loaded first (acquire).
 */
static atomic_int plan_action;
static atomic_bool plan_lasts;
static atomic_ullong plan_at;
static atomic_ullong fs_met, reads_met, allocs_met;
static atomic_llong bytes_taken, bytes_most; /* what was freed of older memory counts, too */
static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;
static char *count_path; /* under plan_lock */

static int parse_number(const char *text, struct plan *plan)
{
	char *end;

	if (*text < '0' || *text > '9')
		return KEDGE_E_ARG;
	errno = 0;
	plan->at = strtoull(text, &end, 10);
	if (errno || !plan->at)
		return KEDGE_E_ARG;
	plan->lasts = *end == '+';
	return end[plan->lasts] ? KEDGE_E_ARG : 0;
}

static int parse(const char *spec, struct plan *plan)
{
	const char *at = strchr(spec, '@');
	size_t length = at ? (size_t)(at - spec) : strlen(spec);

	*plan = (struct plan){.action = NOTHING};
	if (length == 5 && memcmp(spec, "count", 5) == 0) {
		plan->action = COUNT;
		plan->count_path = at && at[1] ? at + 1 : NULL;
		return 0;
	}
	for (size_t i = 0; at && i < KEDGE__COUNT(actions); i++) {
		if (strlen(actions[i].name) != length || memcmp(spec, actions[i].name, length) != 0)
			continue;
		plan->action = actions[i].action;
		if (parse_number(at + 1, plan) != 0)
			return KEDGE_E_ARG;
		return plan->lasts && !actions[i].may_last ? KEDGE_E_ARG : 0;
	}
	return KEDGE_E_ARG;
}

/* With plan_lock held. Faults are off meanwhile: the copy of the path is an allocation too. */
static int install(const struct plan *plan)
{
	char *path = NULL;

	atomic_store(&kedge__fault_state, KEDGE__FAULT_OFF);
	if (plan->count_path) {
		path = kedge__strdup(plan->count_path);
		if (!path)
			return KEDGE_E_NOMEM;
	}
	kedge__free(count_path);
	count_path = path;
	atomic_store(&plan_action, (int)plan->action);
	atomic_store(&plan_at, plan->at);
	atomic_store(&plan_lasts, plan->lasts);
	atomic_store(&fs_met, 0);
	atomic_store(&reads_met, 0);
	atomic_store(&allocs_met, 0);
	atomic_store(&bytes_taken, 0);
	atomic_store(&bytes_most, 0);
	atomic_store_explicit(&kedge__fault_state, KEDGE__FAULT_ON, memory_order_release);
	return 0;
}

int kedge__fault_set(const char *spec, struct kedge__error *err)
{
	struct plan plan = {.action = NOTHING};
	int rc;

	if (spec && *spec && parse(spec, &plan) != 0)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"fault \"%s\" is neither ACTION@N, where ACTION is kill, cut, eio, enospc, "
					"short, read, alloc or room, nor count@PATH",
					spec);
	pthread_mutex_lock(&plan_lock);
	rc = install(&plan);
	pthread_mutex_unlock(&plan_lock);
	return rc == 0 ? 0 : kedge__error_nomem(err);
}

/* The first fault point of the process. A mistake in the variable must not pass for a run without faults. */
static void read_environment(void)
{
	const char *spec = getenv("KEDGE_FAULT");
	struct plan plan;
	bool wrong = false;

	pthread_mutex_lock(&plan_lock);
	if (atomic_load(&kedge__fault_state) == KEDGE__FAULT_UNREAD) {
		atomic_store(&kedge__fault_state, KEDGE__FAULT_OFF);
		wrong = spec && *spec && parse(spec, &plan) != 0;
		if (spec && *spec && !wrong)
			(void)install(&plan);
	}
	pthread_mutex_unlock(&plan_lock);
	if (wrong)
		kedge__log(KEDGE_LOG_ERROR, "ignoring KEDGE_FAULT=\"%s\": not a valid fault", spec);
}

static bool is_armed(void)
{
	if (atomic_load_explicit(&kedge__fault_state, memory_order_acquire) == KEDGE__FAULT_UNREAD)
		read_environment();
	return atomic_load_explicit(&kedge__fault_state, memory_order_acquire) == KEDGE__FAULT_ON;
}

static bool is_due(uint64_t number)
{
	uint64_t at = atomic_load(&plan_at);

	return number == at || (number > at && atomic_load(&plan_lasts));
}

void kedge__fault_die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

enum kedge__fault kedge__fault_meet(void)
{
	if (!is_armed() || !is_due(atomic_fetch_add(&fs_met, 1) + 1))
		return KEDGE__FAULT_NONE;
	switch ((enum action)atomic_load(&plan_action)) {
	case KILL:
		kedge__fault_die();
		break;
	case CUT:
		return KEDGE__FAULT_CUT;
	case FAIL_EIO:
		return KEDGE__FAULT_EIO;
	case FAIL_ENOSPC:
		return KEDGE__FAULT_ENOSPC;
	case SHORT:
		return KEDGE__FAULT_SHORT;
	case NOTHING:
	case READ:
	case ALLOC:
	case ROOM:
	case COUNT:
		break;
	}
	return KEDGE__FAULT_NONE;
}

bool kedge__fault_meet_read(void)
{
	bool due = is_armed() && is_due(atomic_fetch_add(&reads_met, 1) + 1);

	return due && atomic_load(&plan_action) == READ;
}

bool kedge__fault_meet_alloc(size_t bytes)
{
	uint64_t number;

	if (!is_armed())
		return false;
	number = atomic_fetch_add(&allocs_met, 1) + 1;
	if (atomic_load(&plan_action) == ROOM)
		return atomic_load(&bytes_taken) + (long long)bytes > (long long)atomic_load(&plan_at);
	return atomic_load(&plan_action) == ALLOC && is_due(number);
}

void kedge__fault_count_bytes(int64_t bytes)
{
	long long now = atomic_fetch_add(&bytes_taken, bytes) + bytes, most = atomic_load(&bytes_most);

	while (now > most && !atomic_compare_exchange_weak(&bytes_most, &most, now))
		;
}

int64_t kedge__fault_bytes(void)
{
	return atomic_load(&bytes_taken);
}

int64_t kedge__fault_bytes_most(void)
{
	return atomic_load(&bytes_most);
}

uint64_t kedge__fault_count(void)
{
	return atomic_load(&fs_met);
}

uint64_t kedge__fault_read_count(void)
{
	return atomic_load(&reads_met);
}

uint64_t kedge__fault_alloc_count(void)
{
	return atomic_load(&allocs_met);
}

__attribute__((destructor)) static void write_count(void)
{
	char line[24];
	char *path;

	if (atomic_load(&kedge__fault_state) != KEDGE__FAULT_ON)
		return;
	pthread_mutex_lock(&plan_lock);
	atomic_store(&kedge__fault_state, KEDGE__FAULT_OFF);
	path = count_path;
	count_path = NULL;
	pthread_mutex_unlock(&plan_lock);
	if (!path)
		return;
	snprintf(line, sizeof(line), "%llu\n", (unsigned long long)atomic_load(&fs_met));
	(void)kedge__fs_append_line(path, line, NULL);
	kedge__free(path);
}
