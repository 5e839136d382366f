/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program as users of VELOC write it, which `kedge-bench veloc-like` runs under mpiexec. It uses VELOC's interface
 * and nothing else, so that it can be built with any library that offers it. Arguments are KEY=VALUE; rank 0 prints a
 * line for each figure, with a number for each version: of times the longest of all ranks, of processor time the sum,
 * of memory the largest.
 *
 * Two versions are taken in each turn: one that the program waits for, without doing anything else, and one beside
 * which it changes its state and computes, as programs do. A plain write of the same bytes to scratch, and from there
 * to persistent storage, stands beside them.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <veloc.h>

#define PAGE         4096
#define VERSIONS_MAX 64
#define COPY_BYTES   ((size_t)4 << 20)
#define FETCH_BYTES  ((size_t)1 << 20)

enum figure {
	ALONE,
	PLAIN_SCRATCH,
	PLAIN_DISK,
	PLAIN_CPU,
	BLOCKED,
	DISK,
	CPU,
	COST,
	PLAIN_READ,
	TEST,
	RESTART,
	FIGURES
};

static const char *const names[FIGURES] = {"alone", "plain_scratch", "plain_disk", "plain_cpu",    "blocked", "disk",
					   "cpu",   "cost",          "plain_read", "restart_test", "restart"};

static int rank, ranks;
static uint64_t *data, bytes = (uint64_t)256 << 20, seed;
static unsigned percent = 100;
static int versions = 3, with_fsync = 1;
static double compute_seconds = 0.5;
static uint64_t compute_turns;
static char plain[2][4200];
static char copy_buffer[COPY_BYTES];
static double figures[FIGURES][VERSIONS_MAX];
/* Memory before VELOC_Init(), and the most since then: where the program only waits, and beside which it works. */
static double memory_before, memory_waited, memory_beside;

static void fail(const char *what)
{
	fprintf(stderr, "veloc_program: rank %d: %s: %s\n", rank, what, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double wall(void)
{
	return now(CLOCK_MONOTONIC);
}

/* All ranks begin together. */
static double start(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	return wall();
}

/* ---- the state */

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* All words; or all words of one page in each hundred-percent'th of them. */
static void change(void)
{
	uint64_t words = bytes / 8, step = PAGE / 8 * (100 / percent);

	for (uint64_t at = 0; at < words; at += step) {
		uint64_t first = at + (percent < 100 ? next_random() % (100 / percent) * (PAGE / 8) : 0);

		for (uint64_t i = first; i < words && i < first + PAGE / 8; i++)
			data[i] += next_random() | 1;
	}
}

static uint64_t state_sum(void)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < bytes / 8; i++)
		sum = sum * UINT64_C(1099511628211) + data[i];
	return sum;
}

/* Work that needs a core, and no memory. */
static void compute(uint64_t turns)
{
	volatile uint64_t x = 1;

	for (uint64_t i = 0; i < turns; i++)
		x = x * UINT64_C(6364136223846793005) + 1;
}

static void compute_calibrate(void)
{
	double began = start();
	unsigned long long turns;

	compute(10000000);
	turns = (unsigned long long)(compute_seconds / (wall() - began) * 1e7);
	MPI_Allreduce(MPI_IN_PLACE, &turns, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, MPI_COMM_WORLD);
	compute_turns = turns;
}

/* ---- plain writes and reads */

static void write_all(int fd, const void *from, size_t count)
{
	for (size_t done = 0; done < count;) {
		ssize_t n = write(fd, (const char *)from + done, count - done);

		if (n <= 0)
			fail("write");
		done += (size_t)n;
	}
}

static int file_make(const char *path)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		fail(path);
	return fd;
}

static void file_finish(int fd, bool sync)
{
	if ((sync && fsync(fd) != 0) || close(fd) != 0)
		fail("fsync or close");
}

static void plain_copy(void)
{
	int from = open(plain[0], O_RDONLY | O_CLOEXEC), to = file_make(plain[1]);
	ssize_t n;

	if (from < 0)
		fail(plain[0]);
	while ((n = read(from, copy_buffer, sizeof(copy_buffer))) > 0)
		write_all(to, copy_buffer, (size_t)n);
	close(from);
	file_finish(to, with_fsync);
}

static double cpu_seconds(void)
{
	return now(CLOCK_PROCESS_CPUTIME_ID);
}

/* A virtual machine may have given free memory back to its host, and waits when it touches it again: what versions need
 * is touched now, lest it be part of what is measured next. By files like theirs, since the kernel takes memory for
 * large writes, for single pages and for programs from different places. */
static void file_fetch(const char *beside)
{
	char path[4300];
	int fd;

	snprintf(path, sizeof(path), "%s.fetched", beside);
	fd = file_make(path);
	for (uint64_t at = 0; at < bytes + bytes / 4 && write(fd, copy_buffer, FETCH_BYTES) > 0; at += FETCH_BYTES)
		continue; /* as far as there is room */
	unlink(path);
	close(fd);
}

static void memory_fetch(void)
{
	file_fetch(plain[0]);
	file_fetch(plain[1]);
}

static void plain_measure(int v)
{
	double cpu, began;
	int fd;

	unlink(plain[0]);
	unlink(plain[1]);
	memory_fetch();
	cpu = cpu_seconds();
	began = start();
	fd = file_make(plain[0]);
	write_all(fd, data, bytes);
	file_finish(fd, with_fsync);
	figures[PLAIN_SCRATCH][v] = wall() - began;
	plain_copy();
	figures[PLAIN_DISK][v] = wall() - began;
	figures[PLAIN_CPU][v] = cpu_seconds() - cpu;
	unlink(plain[1]); /* what was written for nothing need not be kept, nor written back */
}

static void plain_read_measure(int v)
{
	double began = start();
	int fd = open(plain[0], O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail(plain[0]);
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n = read(fd, (char *)data + done, bytes - done);

		if (n <= 0)
			fail("read");
		done += (uint64_t)n;
	}
	close(fd);
	figures[PLAIN_READ][v] = wall() - began;
}

/* ---- memory */

/* KEY of /proc/self/status, in bytes. */
static double status_bytes(const char *key)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[200];
	unsigned long long kib = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) == 0)
			sscanf(line + strlen(key), ": %llu", &kib);
	}
	if (f)
		fclose(f);
	return (double)kib * 1024;
}

static void peak_begin(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	/* Without it the peak is that of all versions so far. */
	if (fd >= 0) {
		(void)!write(fd, "5", 1);
		close(fd);
	}
}

static void peak_end(double *most)
{
	double peak = status_bytes("VmHWM") - memory_before;

	*most = peak > *most ? peak : *most;
}

/* ---- checkpoints */

static void take(int version)
{
	if (VELOC_Checkpoint("bench", version) != VELOC_SUCCESS)
		fail("VELOC_Checkpoint");
}

static void wait_all(void)
{
	if (VELOC_Checkpoint_wait() != VELOC_SUCCESS)
		fail("VELOC_Checkpoint_wait");
}

static void waited_measure(int v, int version)
{
	double cpu, began;

	memory_fetch();
	peak_begin();
	cpu = cpu_seconds();
	began = start();
	take(version);
	figures[BLOCKED][v] = wall() - began;
	wait_all();
	figures[DISK][v] = wall() - began;
	figures[CPU][v] = cpu_seconds() - cpu;
	peak_end(&memory_waited);
}

/* What a version costs the program: how much later it comes to the end of its step. */
static void beside_measure(int v, int version, double alone)
{
	double began;

	memory_fetch();
	peak_begin();
	began = start();
	take(version);
	change();
	compute(compute_turns);
	figures[COST][v] = wall() - began - alone;
	MPI_Barrier(MPI_COMM_WORLD);
	wait_all();
	peak_end(&memory_beside);
}

static double alone_measure(void)
{
	double longest = 0;

	for (int v = 0; v < versions; v++) {
		double began = start();

		change();
		compute(compute_turns);
		figures[ALONE][v] = wall() - began;
		longest += figures[ALONE][v] / versions;
	}
	return longest;
}

static void versions_measure(void)
{
	double alone = alone_measure();
	int version = 0;

	peak_begin();
	take(version++);
	wait_all();
	peak_end(&memory_waited);
	change();
	for (int v = 0; v < versions; v++) {
		plain_measure(v);
		waited_measure(v, version++);
		change();
		beside_measure(v, version++, alone);
	}
	take(version); /* for the restart */
	wait_all();
}

static void restart_measure(const char *sum_path)
{
	uint64_t want = 0;
	FILE *f = fopen(sum_path, "rb");
	double began;
	int found;

	plain_read_measure(0);
	began = start();
	found = VELOC_Restart_test("bench", 0);
	figures[TEST][0] = wall() - began;
	if (found <= 0 || VELOC_Restart("bench", found) != VELOC_SUCCESS)
		fail("VELOC_Restart");
	figures[RESTART][0] = wall() - began;
	if (!f || fread(&want, sizeof(want), 1, f) != 1 || want != state_sum())
		fail("the state is not the one that was saved");
	fclose(f);
}

static void sum_keep(const char *path)
{
	uint64_t sum = state_sum();
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(&sum, sizeof(sum), 1, f) != 1 || fclose(f) != 0)
		fail(path);
}

/* ---- results */

static void print(const char *name, double *values, int n, MPI_Op op)
{
	MPI_Reduce(rank ? values : MPI_IN_PLACE, values, n, MPI_DOUBLE, op, 0, MPI_COMM_WORLD);
	if (rank)
		return;
	printf("%s", name);
	for (int i = 0; i < n; i++)
		printf(" %.9g", values[i]);
	printf("\n");
}

static void print_all(bool restart)
{
	int first = restart ? PLAIN_READ : 0, last = restart ? FIGURES : PLAIN_READ;

	for (int f = first; f < last; f++)
		print(names[f], figures[f], restart ? 1 : versions, f == CPU || f == PLAIN_CPU ? MPI_SUM : MPI_MAX);
}

/* ---- arguments */

static const char *argument(int argc, char **argv, const char *key, const char *preset)
{
	size_t n = strlen(key);

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], key, n) == 0 && argv[i][n] == '=')
			return argv[i] + n + 1;
	}
	return preset;
}

static void arguments_read(int argc, char **argv)
{
	bytes = strtoull(argument(argc, argv, "size", "268435456"), NULL, 10);
	percent = (unsigned)atoi(argument(argc, argv, "percent", "100"));
	versions = atoi(argument(argc, argv, "versions", "3"));
	with_fsync = atoi(argument(argc, argv, "fsync", "1"));
	compute_seconds = atof(argument(argc, argv, "compute", "0.5"));
	snprintf(plain[0], sizeof(plain[0]), "%s/plain-%d", argument(argc, argv, "scratch", "."), rank);
	snprintf(plain[1], sizeof(plain[1]), "%s/plain-%d", argument(argc, argv, "persistent", "."), rank);
	if (!percent || percent > 100 || versions < 1 || versions > VERSIONS_MAX || bytes < PAGE || bytes % 8)
		fail("an argument is out of range");
}

static void state_make(void)
{
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED)
		fail("memory");
	seed = UINT64_C(0x9E3779B97F4A7C15) * (unsigned)(rank + 1);
	for (uint64_t i = 0; i < bytes / 8; i++)
		data[i] = next_random();
}

int main(int argc, char **argv)
{
	bool single = strcmp(argument(argc, argv, "threads", "multiple"), "single") == 0;
	bool restart = strcmp(argument(argc, argv, "phase", "write"), "restart") == 0;
	char sum_path[4300];
	int provided;

	MPI_Init_thread(&argc, &argv, single ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	arguments_read(argc, argv);
	snprintf(sum_path, sizeof(sum_path), "%s.sum", plain[0]);
	state_make();
	compute_calibrate();
	memset(copy_buffer, 1, sizeof(copy_buffer));
	memory_before = status_bytes("VmRSS");
	if (VELOC_Init(MPI_COMM_WORLD, argument(argc, argv, "config", "veloc.cfg")) != VELOC_SUCCESS ||
	    VELOC_Mem_protect(0, data, bytes / 8, 8) != VELOC_SUCCESS)
		fail("VELOC_Init");
	if (restart) {
		restart_measure(sum_path);
	} else {
		versions_measure();
		sum_keep(sum_path);
	}
	if (VELOC_Finalize(1) != VELOC_SUCCESS)
		fail("VELOC_Finalize");
	print_all(restart);
	print("memory_waited", &memory_waited, 1, MPI_MAX);
	print("memory_beside", &memory_beside, 1, MPI_MAX);
	MPI_Finalize();
	return 0;
}
