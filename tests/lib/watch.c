/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/*
 * Whether a thread that sleeps waits for another one: in a lock, a pipe, or for the end of a process, and without a
 * limit of time. In any other call it goes on by itself, when a clock or a disk says so: waits for I/O look the same
 * (io_uring_enter).
 */
static bool waits_for_others(const char *task)
{
	unsigned long long a[4] = {0};
	char path[200];
	long call = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/syscall", task);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (fscanf(f, "%ld %llx %llx %llx %llx", &call, &a[0], &a[1], &a[2], &a[3]) != 5)
		call = -1;
	fclose(f);
	switch (call) {
	case SYS_futex:
		return a[3] == 0; /* no timeout */
	case SYS_ppoll:
		return a[2] == 0;
#ifdef SYS_poll
	case SYS_poll:
		return (int)a[2] < 0;
#endif
	case SYS_read:
	case SYS_write:
	case SYS_fcntl:
	case SYS_flock:
	case SYS_wait4:
	case SYS_waitid:
		return true;
	default:
		return false;
	}
}

/* Whether a thread sleeps; *RUNS: how often it was given a core, and lost it. */
static bool task_sleeps(const char *task, uint64_t *runs)
{
	char path[200], line[200], state = '?';
	unsigned long long n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/status", task);
	f = fopen(path, "r");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %llu", &n) == 1)
			*runs += n;
		else
			(void)sscanf(line, "State: %c", &state);
	}
	fclose(f);
	if (state == 'Z' || state == 'X')
		return true;
	return state == 'S' && waits_for_others(task);
}

static bool process_sleeps(pid_t pid, uint64_t *digest)
{
	char dir[64], task[160];
	bool sleeps = true;
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%ld/task", (long)pid);
	d = opendir(dir);
	if (!d)
		return false;
	while (sleeps && (e = readdir(d))) {
		uint64_t runs = 0;

		if (e->d_name[0] == '.')
			continue;
		snprintf(task, sizeof(task), "%s/%.32s", dir, e->d_name);
		sleeps = task_sleeps(task, &runs);
		*digest = (*digest ^ (runs + 1)) * UINT64_C(0x100000001b3) + strtoull(e->d_name, NULL, 10);
	}
	closedir(d);
	return sleeps;
}

bool watch_stuck(struct watch *w, const pid_t *pids, size_t n)
{
	uint64_t digest = UINT64_C(0xcbf29ce484222325), before = w->seen;

	w->seen = 0;
	for (size_t i = 0; i < n; i++) {
		if (pids[i] && !process_sleeps(pids[i], &digest))
			return false;
	}
	w->seen = digest ? digest : 1;
	return w->seen == before;
}
