/* SPDX-License-Identifier: BSD-3-Clause */
/* Other processes beside a job's: one that wants the same name, one with another name, one with another size. */
#include "walk.h"

#include <kedge/kedge.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define GUEST_BYTES 20000
#define GUEST_MOST  200 /* versions; the number is told by the exit status */
#define GUEST_WRONG 255

static uint8_t guest_memory[GUEST_BYTES];

static int guest_open(const char *name, const char *l1, const char *l2, kedge_t **k)
{
	char first[FILES_PATH + 8], second[FILES_PATH + 8];
	const char *settings[] = {first, "sync=no", *l2 ? second : NULL, NULL};
	int rc;

	snprintf(first, sizeof(first), "l1=%s", l1);
	snprintf(second, sizeof(second), "l2=%s", l2);
	rc = kedge_open(name, NULL, settings, k);
	if (rc == 0)
		rc = kedge_protect(*k, "m", guest_memory, GUEST_BYTES, KEDGE_U8);
	return rc;
}

static int guest_says(const kedge_t *k, const char *what, int rc)
{
	fprintf(stderr, "guest: %s: %d (%s)\n", what, rc, kedge_last_error(k));
	return GUEST_WRONG;
}

int guest_rival(const char *l1, const char *l2)
{
	kedge_t *k = NULL;
	int rc = guest_open("job", l1, l2, &k);

	return rc == KEDGE_E_LOCKED && !k ? 0 : guest_says(NULL, "a name that is in use was opened", rc);
}

int guest_crowd(const char *l1, const char *l2, uint64_t above)
{
	kedge_t *k = NULL;
	int rc = guest_open("job", l1, l2, &k);

	if (rc)
		return guest_says(NULL, "open", rc);
	rc = kedge_restart(k, KEDGE_NEWEST, NULL);
	if (rc != KEDGE_E_GROUP)
		return guest_says(k, "a restart with another number of ranks", rc);
	rc = kedge_checkpoint(k, above);
	if (rc != KEDGE_E_STATE)
		return guest_says(k, "a checkpoint after it", rc);
	rc = kedge_close(k);
	return rc ? guest_says(NULL, "close", rc) : 0;
}

static void guest_fill(uint64_t version)
{
	uint64_t state = version / 3;

	for (size_t i = 0; i < GUEST_BYTES; i++)
		guest_memory[i] = (uint8_t)draw(&state);
	memcpy(guest_memory + version % 100 * 100, &version, sizeof(version));
}

static bool guest_same(uint64_t version)
{
	static uint8_t copy[GUEST_BYTES];

	memcpy(copy, guest_memory, GUEST_BYTES);
	guest_fill(version);
	return memcmp(copy, guest_memory, GUEST_BYTES) == 0;
}

/* Its newest version, or a later one than LAST, is there; two more, and it ends with the number of the last. */
int guest_other(const char *l1, const char *l2, uint64_t last)
{
	kedge_t *k = NULL;
	uint64_t version = 0;
	int rc = guest_open("other", l1, l2, &k);

	if (rc)
		return guest_says(NULL, "open", rc);
	rc = kedge_restart(k, KEDGE_NEWEST, &version);
	if (rc == 0 ? version < last || !guest_same(version) : last > 0)
		return guest_says(k, "the other job's version is not there", rc);
	if (rc && kedge_begin(k) != 0)
		return guest_says(k, "begin", rc);
	for (int i = 0; i < 2; i++) {
		guest_fill(++version);
		rc = kedge_checkpoint(k, version);
		if (rc == KEDGE_E_STATE && last == 0) /* versions are there that cannot be read */
			version += 20;
		else if (rc)
			return guest_says(k, "checkpoint", rc);
	}
	rc = kedge_close(k);
	if (rc && last)
		return guest_says(NULL, "close", rc);
	return version < GUEST_MOST ? (int)version : GUEST_MOST;
}

int guest_run(const struct walk *w, const char *role)
{
	bool other = strcmp(role, "other") == 0;
	const struct model *m = &w->shared->model;
	char l1[FILES_PATH], l2[FILES_PATH] = "", number[32];
	int status = 0;
	pid_t pid;

	if (other && w->shared->other >= GUEST_MOST)
		return 0;
	first_level_path(w, 0, l1);
	if (w->second_level)
		second_level_path(w, l2);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)(other ? w->shared->other : m->top_number + 1));
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(w->program, w->program, "--guest", role, l1, l2, number, (char *)NULL);
		_exit(GUEST_WRONG);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return GUEST_WRONG;
	status = WEXITSTATUS(status);
	if (other && status && status != GUEST_WRONG) {
		w->shared->other = (uint64_t)status;
		status = 0;
	}
	return status;
}
