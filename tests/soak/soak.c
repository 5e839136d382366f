/*
 * soak: jobs with settings drawn at random live, die of faults drawn at random, lose a level or a byte of a file, and
 * live again, each time with other settings on the same store. Whatever a restart gives must be the memory of that
 * version, bit for bit, and no version may be lost that the library called complete on a level that is still whole.
 *
 *     soak [--seed N] [--rounds N] [--moments] [--keep] [--verbose]
 */
#include "round.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIVES 6

static void trouble(struct round *r, const char *what, int detail)
{
	if (!*r->shared->trouble)
		snprintf(r->shared->trouble, sizeof(r->shared->trouble), "%s %d", what, detail);
}

/* How a rank ended: LIVED, WRONG, or CUT_SHORT where it may. */
static enum ending ending(struct round *r, const struct life *life, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) != WRONG)
		return (enum ending)WEXITSTATUS(status);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && (*life->fault || r->moments))
		return CUT_SHORT;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		trouble(r, "hung; seconds:", LIFE_HANGS);
	else
		trouble(r, "died; status", status);
	return WRONG;
}

/* Wait for all; as soon as one does not live on, the others have to go, as a launcher would have it. */
static enum ending wait_for(struct round *r, const struct life *life, const pid_t *pids)
{
	enum ending result = LIVED;
	int status;

	for (int left = r->ranks; left > 0; left--) {
		enum ending this;

		waitpid(-1, &status, 0);
		if (result != LIVED)
			continue;
		this = ending(r, life, status);
		if (this == LIVED)
			continue;
		result = this;
		for (int i = 0; i < r->ranks; i++)
			kill(pids[i], SIGKILL); /* those that are gone are not waited for yet, or were: no other has the
						   number so soon */
	}
	return result;
}

static bool ranks_agree(struct round *r)
{
	uint64_t all = UINT64_MAX;

	for (int i = 0; i < r->ranks; i++) {
		if (r->shared->found[i] == UINT64_MAX)
			continue;
		if (all != UINT64_MAX && all != r->shared->found[i])
			return false;
		all = r->shared->found[i];
	}
	return true;
}

/* Run LIFE; true if it ended as it may. */
static bool run_life(struct round *r, const struct life *life)
{
	pid_t pids[ROUND_RANKS];
	enum ending end;

	if (meeting_init(&r->shared->front, r->ranks) || meeting_init(&r->shared->back, r->ranks))
		abort();
	memset(r->shared->found, 0xff, sizeof(r->shared->found));
	for (int i = 0; i < r->ranks; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			live(r, life, i);
	}
	if (r->moments) {
		usleep((useconds_t)draw_below(&r->state, (uint64_t)1000 << draw_below(&r->state, 10)));
		kill(pids[draw_below(&r->state, (uint64_t)r->ranks)], SIGKILL);
	}
	end = wait_for(r, life, pids);
	if (end != WRONG && !ranks_agree(r)) {
		trouble(r, "the ranks went on from different versions; ranks:", r->ranks);
		return false;
	}
	return end != WRONG;
}

static bool run_round(struct round *r)
{
	*r->shared = (struct shared){0};
	r->state = r->seed;
	r->second_level = draw_below(&r->state, 3) != 0;
	r->ranks = draw_below(&r->state, 3) ? 1 : 2 + (int)draw_below(&r->state, ROUND_RANKS - 1);
	r->own_first = r->ranks > 1 && draw_below(&r->state, 2);
	for (uint64_t branch = 1; branch <= LIVES; branch++) {
		const char *before = branch > 1 ? damage(r) : "nothing", *also = branch > 1 ? tend(r) : "";
		struct life life;

		life_draw(&life, r->seed, branch, r->moments);
		if (r->verbose)
			printf("  after %s%s, %s\n", before, also, life_text(&life));
		if (run_life(r, &life))
			continue;
		printf("seed %llu, ranks: %d%s: %s\n  after %s%s, %s\n", (unsigned long long)r->seed, r->ranks,
		       r->own_first ? " with an L1 each" : "", r->shared->trouble, before, also, life_text(&life));
		return false;
	}
	return true;
}

static int usage(void)
{
	fprintf(stderr, "usage: soak [--seed N] [--rounds N] [--moments] [--keep] [--verbose]\n"
			"  --moments  kill at moments that the clock gives, instead of at counted calls\n"
			"  --keep     keep the directory of a round that went wrong, with its log\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"seed", required_argument, NULL, 's'}, {"rounds", required_argument, NULL, 'r'},
	    {"moments", no_argument, NULL, 'm'},    {"keep", no_argument, NULL, 'k'},
	    {"verbose", no_argument, NULL, 'v'},    {0}};
	unsigned long long seed = 1, rounds = 10, wrong_rounds = 0;
	struct round r = {0};
	bool keep = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			rounds = strtoull(optarg, NULL, 10);
		else if (c == 'm')
			r.moments = true;
		else if (c == 'k')
			keep = true;
		else if (c == 'v')
			r.verbose = true;
		else
			return usage();
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	r.shared = mmap(NULL, sizeof(*r.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.shared == MAP_FAILED)
		return 1;
	for (unsigned long long i = 0; i < rounds; i++) {
		bool fine;

		snprintf(r.dir, sizeof(r.dir), "%s/kedge-soak-XXXXXX",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
		if (!mkdtemp(r.dir))
			return 1;
		r.seed = seed + i;
		fine = run_round(&r);
		wrong_rounds += !fine;
		if (fine || !keep)
			remove_tree(r.dir);
		else
			printf("  kept: %s\n", r.dir);
	}
	printf("%llu rounds of %d lives, %llu went wrong\n", rounds, LIVES, wrong_rounds);
	return wrong_rounds != 0;
}
