/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lives: a model of the lives of a job, and random walks over it. Programs with settings drawn at random take versions,
 * go back, start over, are killed or run out of space, lose a level or get an old one back, and live again on the same
 * store. A small model (model.h) knows what must be there; after each life every version is read back and compared.
 *
 *     lives [--seed N] [--rounds N] [--moments] [--keep] [--verbose]
 */
#include "walk.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define LIVES 6

void walk_say(struct walk *w, const char *fmt, ...)
{
	char *moves = w->shared->moves;
	size_t used = strlen(moves), room = sizeof(w->shared->moves) - used;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(moves + used, room, fmt, ap);
	va_end(ap);
	used = strlen(moves);
	if (used + 2 < sizeof(w->shared->moves))
		strcpy(moves + used, ";");
}

/* What was found first is the cause. */
void walk_trouble(struct walk *w, const char *fmt, ...)
{
	va_list ap;

	if (*w->shared->trouble)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(w->shared->trouble, sizeof(w->shared->trouble), fmt, ap);
	va_end(ap);
}

/* How a rank ended: LIVED, WRONG, or CUT_SHORT where it may. */
static enum ending ending(struct walk *w, const struct life *life, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) <= CUT_SHORT && WEXITSTATUS(status) != WRONG)
		return (enum ending)WEXITSTATUS(status);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && (*life->fault || w->moments))
		return CUT_SHORT;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		walk_trouble(w, "hung for %d seconds", LIFE_HANGS);
	else
		walk_trouble(w, "died; status %#x", (unsigned)status);
	return WRONG;
}

/* Wait for all; as soon as one does not live on, the others have to go, as a launcher would have it. */
static enum ending wait_for(struct walk *w, const struct life *life, const pid_t *pids)
{
	enum ending result = LIVED;
	int status;

	for (int left = w->ranks; left > 0; left--) {
		enum ending this;

		waitpid(-1, &status, 0);
		if (result != LIVED)
			continue;
		this = ending(w, life, status);
		if (this == LIVED)
			continue;
		result = this;
		for (int i = 0; i < w->ranks; i++)
			kill(pids[i], SIGKILL); /* those that are gone are not waited for yet, or were: no other has the
						   number so soon */
	}
	return result;
}

/* Run LIFE; true if it ended as it may. */
static bool run_life(struct walk *w, const struct life *life)
{
	pid_t pids[WALK_RANKS];

	if (meeting_init(&w->shared->front, w->ranks) || meeting_init(&w->shared->back, w->ranks) ||
	    meeting_init(&w->shared->side, w->ranks))
		abort();
	fflush(NULL);
	for (int i = 0; i < w->ranks; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			live(w, life, i);
	}
	if (w->moments) {
		usleep((useconds_t)draw_below(&w->state, (uint64_t)1000 << draw_below(&w->state, 10)));
		kill(pids[draw_below(&w->state, (uint64_t)w->ranks)], SIGKILL);
	}
	return wait_for(w, life, pids) != WRONG;
}

/* In a process of its own, as all that reads what may be damaged. */
static bool run_judge(struct walk *w)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(LIFE_HANGS);
		_exit(!judge(w));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	if (status)
		walk_trouble(w, "the judge ended with status %#x", (unsigned)status);
	return status == 0 && !*w->shared->trouble;
}

/* A program that went elsewhere leaves nothing there. */
static bool elsewhere_empty(struct walk *w)
{
	char path[FILES_PATH];

	path_make(path, "%.400s/elsewhere", w->dir);
	if (rmdir(path) != 0)
		walk_trouble(w, "something was made in the directory that the program went to");
	(void)mkdir(path, 0700);
	return !*w->shared->trouble;
}

static bool one_life(struct walk *w, uint64_t number)
{
	struct life life;

	life_draw(&life, w->seed, number, w->moments);
	w->shared->model.first = w->shared->model.count;
	walk_say(w, "\n    %s:", life_text(&life));
	if (!run_life(w, &life) || !elsewhere_empty(w) || !run_judge(w))
		return false;
	walk_say(w, "\n  then ");
	between(w);
	return run_judge(w);
}

static bool run_walk(struct walk *w)
{
	memset(w->shared, 0, sizeof(*w->shared));
	w->state = w->seed;
	w->copied = w->shared->model.half = MODEL_NONE;
	w->second_level = draw_below(&w->state, 3) != 0;
	w->ranks = draw_below(&w->state, 3) ? 1 : 2 + (int)draw_below(&w->state, WALK_RANKS - 1);
	w->own_first = w->ranks > 1 && draw_below(&w->state, 2);
	w->scale = draw_below(&w->state, 8) ? 1 : MEMORY_SCALE;
	if (!elsewhere_empty(w)) /* it is not there yet */
		*w->shared->trouble = '\0';
	if (!run_judge(w))
		return false;
	for (uint64_t number = 1; number <= LIVES; number++) {
		if (!one_life(w, number))
			return false;
	}
	return true;
}

static void report(const struct walk *w, bool fine)
{
	if (!fine)
		printf("seed %llu: %s\n", (unsigned long long)w->seed, w->shared->trouble);
	if (!fine || w->verbose)
		printf("  ranks: %d%s%s%s\n", w->ranks, w->own_first ? " with an L1 each" : "",
		       w->second_level ? ", L2" : "", w->shared->moves);
}

static int usage(void)
{
	fprintf(stderr, "usage: lives [--seed N] [--rounds N] [--moments] [--keep] [--verbose]\n"
			"  --seed     of the first walk; 0: by the clock\n"
			"  --moments  kill at moments that the clock gives, instead of at counted calls\n"
			"  --keep     keep the directory of a walk that went wrong, with its log\n");
	return 2;
}

static int guest(char **args)
{
	unsigned long long number = strtoull(args[3], NULL, 10);

	alarm(LIFE_HANGS);
	if (strcmp(args[0], "rival") == 0)
		return guest_rival(args[1], args[2]);
	if (strcmp(args[0], "crowd") == 0)
		return guest_crowd(args[1], args[2], number);
	return guest_other(args[1], args[2], number);
}

static void kept(const char *dir)
{
	scratch_keep(dir);
	printf("  kept: %s\n", dir);
}

static unsigned long long walks(struct walk *w, unsigned long long seed, unsigned long long rounds, bool keep)
{
	unsigned long long went_wrong = 0;

	for (unsigned long long i = 0; i < rounds; i++) {
		bool fine;

		scratch_make(w->dir, sizeof(w->dir), "lives");
		w->seed = seed + i;
		fine = run_walk(w);
		went_wrong += !fine;
		report(w, fine);
		if (fine || !keep)
			scratch_remove(w->dir);
		else
			kept(w->dir);
	}
	return went_wrong;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"seed", required_argument, NULL, 's'}, {"rounds", required_argument, NULL, 'r'},
	    {"moments", no_argument, NULL, 'm'},    {"keep", no_argument, NULL, 'k'},
	    {"verbose", no_argument, NULL, 'v'},    {0}};
	unsigned long long seed = 1, rounds = 10, went_wrong;
	static struct walk w;
	char program[PATH_MAX] = "";
	bool keep = false;
	int c;

	if (argc == 6 && strcmp(argv[1], "--guest") == 0)
		return guest(argv + 2);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			rounds = strtoull(optarg, NULL, 10);
		else if (c == 'm')
			w.moments = true;
		else if (c == 'k')
			keep = true;
		else if (c == 'v')
			w.verbose = true;
		else
			return usage();
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	w.program = realpath(argv[0], program) ? program : "";
	w.shared = mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w.shared == MAP_FAILED)
		return 1;
	if (!seed)
		seed = (unsigned long long)time(NULL) * 100000;
	went_wrong = walks(&w, seed, rounds, keep);
	printf("%llu walks of %d lives from seed %llu on, %llu went wrong\n", rounds, LIVES, seed, went_wrong);
	return went_wrong != 0;
}
