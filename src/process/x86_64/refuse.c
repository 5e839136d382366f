/* SPDX-License-Identifier: BSD-3-Clause */
/* refuse: what a process may have that cannot be captured. Each is named, and the process runs on. */
#include "process/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse_children(void *ctx, unsigned long tid, struct kedge__error *err)
{
	const pid_t *pid = ctx;
	char name[KEDGE__PATH_ROOM], *text;
	int child;

	snprintf(name, sizeof(name), "task/%lu/children", tid);
	if (kedge__proc_read(*pid, name, &text, NULL, NULL) != 0)
		return 0; /* the thread has ended */
	child = atoi(text);
	kedge__free(text);
	return child ? kedge__error_set(err, KEDGE_E_STATE, 0, "it has a child, process %d", child) : 0;
}

/* The namespaces are ours, or those that we made. */
static int refuse_spaces(pid_t pid, pid_t init, struct kedge__error *err)
{
	static const char *const kinds[] = {"mnt", "net", "ipc", "uts", "cgroup", "user", "pid"};

	for (size_t i = 0; i < KEDGE__COUNT(kinds); i++) {
		char path[3][KEDGE__PATH_ROOM];
		struct stat its, ours, made;

		snprintf(path[0], sizeof(path[0]), "/proc/%d/ns/%s", (int)pid, kinds[i]);
		snprintf(path[1], sizeof(path[1]), "/proc/self/ns/%s", kinds[i]);
		snprintf(path[2], sizeof(path[2]), "/proc/%d/ns/%s", (int)(init ? init : getpid()), kinds[i]);
		if (stat(path[0], &its) != 0 || stat(path[1], &ours) != 0)
			continue;
		if (its.st_ino != ours.st_ino && (stat(path[2], &made) != 0 || its.st_ino != made.st_ino))
			return kedge__error_set(err, KEDGE_E_STATE, 0, "it lives in another namespace (%s)", kinds[i]);
	}
	return 0;
}

static int refuse_status(pid_t pid, struct kedge__error *err)
{
	static const char *const equal[] = {"Uid", "Gid", "CapPrm", "CapEff", "Seccomp", "Seccomp_filters"};
	const char *locked, *features;
	char *its, *ours = NULL;
	int rc = kedge__proc_read(pid, "status", &its, NULL, err);

	if (rc)
		return rc;
	rc = kedge__proc_read(getpid(), "status", &ours, NULL, err);
	for (size_t i = 0; !rc && i < KEDGE__COUNT(equal); i++) {
		const char *a = kedge__proc_field(its, equal[i]), *b = kedge__proc_field(ours, equal[i]);
		size_t n = a ? strcspn(a, "\n") : 0;

		if (a && b && (n != strcspn(b, "\n") || strncmp(a, b, n) != 0))
			rc = kedge__error_set(err, KEDGE_E_STATE, 0,
					      "it has another user, other rights or filters (%s in /proc/%d/status)",
					      equal[i], (int)pid);
	}
	locked = kedge__proc_field(its, "VmLck");
	if (!rc && locked && atol(locked))
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "it has locked memory (mlock)");
	features = kedge__proc_field(its, "x86_Thread_features");
	if (!rc && features && strncmp(features, "shstk", 5) == 0)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0,
				      "it uses shadow stacks; run it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
	kedge__free(its);
	kedge__free(ours);
	return rc;
}

/* A script may load it, and other libraries may be linked with it. */
static int refuse_mpi(pid_t pid, struct kedge__error *err)
{
	static const char *const names[] = {"/libmpi.so", "/libmpich", "/libmpi_"};
	char *maps;
	int rc = 0;

	if (kedge__proc_read(pid, "maps", &maps, NULL, NULL) != 0)
		return 0;
	for (size_t i = 0; !rc && i < KEDGE__COUNT(names); i++) {
		const char *at = strstr(maps, names[i]);

		if (at)
			rc = kedge__error_set(
			    err, KEDGE_E_STATE, 0,
			    "it is an MPI program (%.*s): use the library, and run it without --transparent",
			    (int)strcspn(at + 1, "\n"), at + 1);
	}
	kedge__free(maps);
	return rc;
}

int kedge__target_refuse(pid_t pid, pid_t init, struct kedge__error *err)
{
	int rc = kedge__proc_numbers(pid, "task", refuse_children, &pid, err);
	char *timers;

	if (!rc)
		rc = refuse_mpi(pid, err);
	if (!rc)
		rc = refuse_spaces(pid, init, err);
	if (!rc && !init)
		rc = refuse_status(pid, err);
	if (!rc && kedge__proc_read(pid, "timers", &timers, NULL, NULL) == 0) {
		if (*timers)
			rc = kedge__error_set(err, KEDGE_E_STATE, 0, "it has timers of timer_create(2)");
		kedge__free(timers);
	}
	return rc;
}
