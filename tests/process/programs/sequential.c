/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sequential: heap that grows and shrinks, static and thread-local memory, stdio files that are written, appended to,
 * updated in place and read, a shared mapping, a timer with a handler on a stack of its own, a pending signal, vectors.
 */
#include "steps.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#define BLOCKS 64

static uint64_t statics[8192];
static _Thread_local uint64_t own = 7;
static volatile sig_atomic_t ticks;

static void tick(int sig)
{
	(void)sig;
	ticks++;
}

static void set_timer(void)
{
	static char stack[1 << 16];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval timer = {{0, 5000}, {0, 5000}};
	sigset_t blocked;

	sigaltstack(&alternate, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	raise(SIGUSR2);
}

static uint64_t heap_round(char **blocks, unsigned long i)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < BLOCKS; k++) {
		size_t bytes = 1000 + steps_mix(i * BLOCKS + k) % 20000;

		if (steps_mix(i + k) % 3 == 0) {
			free(blocks[k]);
			blocks[k] = malloc(bytes);
			memset(blocks[k], (int)(i + k), bytes);
		}
		sum = steps_mix(sum ^ (blocks[k] ? (unsigned char)blocks[k][500] : 0));
	}
	return sum;
}

static uint64_t file_round(FILE *log, FILE *table, FILE *input, unsigned long i)
{
	uint64_t cell = 0;
	int c;

	fprintf(log, "round %lu\n", i);
	/* A cell of the table is updated in place. */
	fseek(table, (long)(i % 16) * 8, SEEK_SET);
	if (fread(&cell, 8, 1, table) != 1)
		cell = 0;
	cell = steps_mix(cell + i);
	fseek(table, (long)(i % 16) * 8, SEEK_SET);
	fwrite(&cell, 8, 1, table);
	fflush(table);
	c = fgetc(input);
	if (c == EOF)
		rewind(input);
	return cell + (uint64_t)(c == EOF ? 1000 : c);
}

int main(int argc, char **argv)
{
	unsigned long rounds = steps_open(argc, argv);
	uint64_t *shared = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *blocks[BLOCKS] = {0};
	FILE *log = fopen("log", "w"), *more = fopen("more", "a"), *table = fopen("table", "w+"),
	     *input = fopen(argv[0], "r");
	volatile double vector[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	uint64_t sum = 0;
	sigset_t pending;

	if (!log || !more || !table || !input || shared == MAP_FAILED)
		return 5;
	set_timer();
	for (unsigned long i = 0; i < rounds; i++) {
		sum = steps_mix(sum ^ heap_round(blocks, i) ^ file_round(log, table, input, i));
		own = steps_mix(own + sum);
		statics[sum % 8192] += own;
		shared[sum % 8192] ^= own;
		for (int k = 0; k < 8; k++)
			vector[k] = vector[k] * 1.0000001 + (double)(sum % 10);
		fprintf(more, "%016llx\n", (unsigned long long)sum);
		printf("%lu %016llx\n", i, (unsigned long long)own);
		steps_done();
	}
	for (size_t i = 0; i < 8192; i++)
		sum = steps_mix(sum + statics[i] + shared[i]);
	for (int k = 0; k < 8; k++)
		sum = steps_mix(sum + (uint64_t)(vector[k] * 1000));
	sigpending(&pending);
	fprintf(log, "signal %d, timer %s\n", sigismember(&pending, SIGUSR2), ticks ? "ran" : "did not run");
	fclose(log);
	fclose(more);
	fclose(table);
	steps_answer(sum ^ own);
	return 0;
}
