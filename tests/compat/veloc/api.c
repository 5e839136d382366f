/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call of VELOC's C interface, as a program sees it (arguments: program.h). Nothing of Kedge is included; only
 * damage knows what its files look like.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/damage.h"
#include "../../lib/draw.h"
#include "program.h"

#define N 5000

static double a[N], b[N];
static int step;

static void state_make(int version)
{
	step = version * 10 + rank;
	for (int i = 0; i < N; i++) {
		a[i] = version * 1000.0 + i * 0.5 + rank;
		b[i] = i % 7 == version % 7 ? version : i * 0.25;
	}
}

static void state_lose(void)
{
	step = -1;
	memset(a, 0xff, sizeof(a));
	memset(b, 0xff, sizeof(b));
}

static void state_is(int version)
{
	static double want_a[N], want_b[N];
	int had = step;

	memcpy(want_a, a, sizeof(a));
	memcpy(want_b, b, sizeof(b));
	state_make(version);
	CHECK(had == step);
	CHECK(memcmp(a, want_a, sizeof(a)) == 0);
	CHECK(memcmp(b, want_b, sizeof(b)) == 0);
}

static void protect(void)
{
	CHECK(VELOC_Mem_protect(0, &step, 1, sizeof(step)) == VELOC_SUCCESS);
	CHECK(VELOC_Mem_protect(1, a, N, sizeof(double)) == VELOC_SUCCESS);
	CHECK(VELOC_Mem_protect(2, b, N, sizeof(double)) == VELOC_SUCCESS);
}

static void take(const char *name, int version)
{
	state_make(version);
	CHECK(VELOC_Checkpoint(name, version) == VELOC_SUCCESS);
	state_lose();
}

static void wait_all(void)
{
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_finished() == VELOC_SUCCESS);
}

static void lose(const char *where, const char *level)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s/%s", dir, where, level);
	remove_together(path);
}

/* Change a byte in the middle of the last rank's segment of VERSION, on both levels. */
static void damage(const char *where, const char *name, int version)
{
	char pattern[600];
	glob_t found;
	int byte;

	barrier();
	snprintf(pattern, sizeof(pattern), "%s/%s/*/%s/v%020d/r%07d-*.seg", dir, where, name, version, size - 1);
	if (rank == 0) {
		clock_tick();
		CHECK(glob(pattern, 0, NULL, &found) == 0);
		for (size_t i = 0; i < found.gl_pathc; i++) {
			FILE *f = fopen(found.gl_pathv[i], "r+b");

			CHECK(f && fseek(f, 100, SEEK_SET) == 0);
			byte = fgetc(f);
			CHECK(fseek(f, 100, SEEK_SET) == 0 && fputc(byte ^ 0x10, f) != EOF);
			fclose(f);
		}
		globfree(&found);
	}
	barrier();
}

/* The same as if storage had done it: the manifests are no older. */
static void damage_unseen(const char *where, const char *name, int version)
{
	char pattern[600];
	glob_t found;

	damage(where, name, version);
	snprintf(pattern, sizeof(pattern), "%s/%s/*/%s/set-%020d", dir, where, name, version);
	if (rank == 0) {
		CHECK(glob(pattern, 0, NULL, &found) == 0);
		for (size_t i = 0; i < found.gl_pathc; i++)
			CHECK(utimensat(AT_FDCWD, found.gl_pathv[i], NULL, 0) == 0);
		globfree(&found);
		clock_tick();
	}
	barrier();
}

static size_t count(const char *where, const char *pattern)
{
	char path[600];
	glob_t found;
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/%s/%s", dir, where, pattern);
	if (glob(path, 0, NULL, &found) == 0)
		n = found.gl_pathc;
	globfree(&found);
	return n;
}

/* ------------------------------------------------------------------ init and finalize */

static void test_before_init(void)
{
	char routed[VELOC_MAX_NAME];

	CHECK(VELOC_Mem_protect(0, &step, 1, sizeof(step)) == VELOC_FAILURE);
	CHECK(VELOC_Mem_unprotect(0) == VELOC_FAILURE);
	CHECK(VELOC_Mem_clear() == VELOC_FAILURE);
	CHECK(VELOC_Region_protect(0, &step, 1, 4, "g") == VELOC_FAILURE);
	CHECK(VELOC_Region_unprotect(0, "g") == VELOC_FAILURE);
	CHECK(VELOC_Region_clear("g") == VELOC_FAILURE);
	CHECK(VELOC_Route_file("x", routed) == VELOC_FAILURE);
	CHECK(VELOC_Cleanup("x") == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint("x", 1) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_begin("x", 1) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_mem() == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_selective(VELOC_CKPT_ALL, NULL, 0) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_end(1) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_wait() == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_finished() == VELOC_FAILURE);
	CHECK(VELOC_Restart_test("x", 0) == VELOC_FAILURE);
	CHECK(VELOC_Restart("x", 1) == VELOC_FAILURE);
	CHECK(VELOC_Restart_begin("x", 1) == VELOC_FAILURE);
	CHECK(VELOC_Recover_size(0) == VELOC_FAILURE);
	CHECK(VELOC_Recover_mem() == VELOC_FAILURE);
	CHECK(VELOC_Recover_selective(VELOC_RECOVER_ALL, NULL, 0) == VELOC_FAILURE);
	CHECK(VELOC_Restart_end(1) == VELOC_FAILURE);
	CHECK(VELOC_Finalize(1) == VELOC_FAILURE);
}

/* A bad configuration is a return value, never an exit. */
static void test_init(void)
{
	char path[512], env[512];
	int spoken = dup(2);

	CHECK(dup2(open("/dev/null", O_WRONLY), 2) == 2); /* the causes are told there */
	CHECK(VELOC_Init(MPI_COMM_WORLD, "/no/such/file.cfg") == VELOC_FAILURE);
	CHECK(VELOC_Init(MPI_COMM_WORLD, config("bad", "mode = sometimes\n")) == VELOC_FAILURE);
	CHECK(VELOC_Init(MPI_COMM_WORLD, config("bad", "max_versions = many\n")) == VELOC_FAILURE);
	CHECK(VELOC_Init(MPI_COMM_WORLD, "") == VELOC_FAILURE);
	CHECK(VELOC_Init(MPI_COMM_WORLD, NULL) == VELOC_FAILURE);
	CHECK(dup2(spoken, 2) == 2);
	CHECK(VELOC_Checkpoint_wait() == VELOC_FAILURE);
	snprintf(path, sizeof(path), "%s", config("over", "mode = sometimes\n"));
	setenv("VELOC_MODE", mode, 1); /* over the file */
	CHECK(VELOC_Init(MPI_COMM_WORLD, path) == VELOC_SUCCESS);
	CHECK(VELOC_Init(MPI_COMM_WORLD, "/no/such/file.cfg") == VELOC_SUCCESS); /* nothing happens */
	finalize();
	CHECK(VELOC_Finalize(0) == VELOC_FAILURE);
	snprintf(env, sizeof(env), "%s/env/scratch", dir);
	setenv("VELOC_SCRATCH", env, 1);
	CHECK(VELOC_Init(MPI_COMM_WORLD, "") == VELOC_SUCCESS); /* no persistent level */
	protect();
	take("only", 1);
	wait_all();
	CHECK(VELOC_Finalize(0) == VELOC_SUCCESS);
	CHECK(count("env", "scratch/only/set-*") == 1);
	unsetenv("VELOC_SCRATCH");
	unsetenv("VELOC_MODE");
}

/* ------------------------------------------------------------------ regions */

static void test_protect(void)
{
	static double other[N];

	init("protect", "");
	protect();
	state_make(1);
	memcpy(other, a, sizeof(a));
	CHECK(VELOC_Mem_protect(1, other, N, sizeof(double)) == VELOC_FAILURE); /* as VELOC: replaced, not new */
	take("p", 1);
	CHECK(VELOC_Mem_unprotect(1) == VELOC_SUCCESS);
	CHECK(VELOC_Mem_unprotect(1) == VELOC_FAILURE);
	CHECK(VELOC_Mem_unprotect(77) == VELOC_FAILURE);
	CHECK(VELOC_Mem_protect(1, a, N, sizeof(double)) == VELOC_SUCCESS);
	CHECK(VELOC_Restart("p", 1) == VELOC_SUCCESS);
	state_is(1);
	CHECK(VELOC_Mem_clear() == VELOC_SUCCESS);
	CHECK(VELOC_Mem_unprotect(0) == VELOC_FAILURE);
	CHECK(VELOC_Mem_protect(3, NULL, 0, 8) == VELOC_SUCCESS);
	CHECK(VELOC_Mem_protect(4, NULL, 1, 8) == VELOC_FAILURE);
	CHECK(VELOC_Mem_protect(5, a, SIZE_MAX / 2, 8) == VELOC_FAILURE);
	finalize();
}

/* A checkpoint takes the group of its name, or the default one where that is empty. */
static void test_groups(void)
{
	double inner[3] = {1, 2, 3};

	init("groups", "");
	protect();
	CHECK(VELOC_Region_protect(9, inner, 3, sizeof(double), "inner") == VELOC_SUCCESS);
	take("outer", 4);
	take("inner", 7);
	memset(inner, 0, sizeof(inner));
	CHECK(VELOC_Restart("outer", 4) == VELOC_SUCCESS);
	state_is(4);
	CHECK(inner[0] == 0);
	CHECK(VELOC_Restart_begin("inner", 7) == VELOC_SUCCESS);
	CHECK(VELOC_Recover_size(9) == (int)sizeof(inner));
	CHECK(VELOC_Recover_size(0) == 0);
	CHECK(VELOC_Recover_mem() == VELOC_SUCCESS);
	CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
	CHECK(inner[0] == 1 && inner[2] == 3);
	CHECK(VELOC_Region_unprotect(9, "inner") == VELOC_SUCCESS);
	CHECK(VELOC_Region_unprotect(9, "inner") == VELOC_FAILURE);
	CHECK(VELOC_Region_clear("inner") == VELOC_SUCCESS);
	take("inner", 8);
	CHECK(VELOC_Restart("inner", 8) == VELOC_SUCCESS);
	state_is(8);
	finalize();
}

/* ------------------------------------------------------------------ checkpoints */

static void test_phases(void)
{
	char name[200];

	init("phases", "");
	protect();
	CHECK(VELOC_Checkpoint_begin("a-b", 1) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_begin("", 1) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_begin("a/b", 1) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_begin("ok", -1) == VELOC_FAILURE);
	memset(name, 'n', sizeof(name));
	name[199] = '\0';
	CHECK(VELOC_Checkpoint_begin(name, 1) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_mem() == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_end(1) == VELOC_FAILURE);
	CHECK(VELOC_Recover_mem() == VELOC_FAILURE);
	CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
	state_make(1);
	CHECK(VELOC_Checkpoint_begin("ok", 0) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_begin("ok", 1) == VELOC_FAILURE);
	CHECK(VELOC_Restart_begin("ok", 0) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_wait() == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_mem() == VELOC_SUCCESS);
	state_lose(); /* what Checkpoint_mem saw is what counts */
	CHECK(VELOC_Checkpoint_end(0) == VELOC_SUCCESS);
	wait_all();
	CHECK(VELOC_Restart("ok", 0) == VELOC_SUCCESS);
	state_is(1);
	CHECK(VELOC_Checkpoint_begin("ok", 2) == VELOC_SUCCESS); /* neither memory nor a file */
	CHECK(VELOC_Checkpoint_end(1) == VELOC_FAILURE);
	CHECK(VELOC_Restart_test("ok", 0) == 0);
	memset(name, 'n', 127);
	name[127] = '\0';
	take(name, 5);
	take(".dotted", 6);
	CHECK(VELOC_Restart(".dotted", 6) == VELOC_SUCCESS);
	state_is(6);
	finalize();
}

static void test_selective(void)
{
	int some[2] = {0, 2}, none[1] = {55};

	init("selective", "");
	protect();
	state_make(3);
	CHECK(VELOC_Checkpoint_begin("s", 3) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, some, 2) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_end(1) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_begin("s", 4) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_selective(VELOC_CKPT_REST, some, 2) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_end(1) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_begin("s", 5) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, none, 1) == VELOC_FAILURE);
	CHECK(VELOC_Checkpoint_end(1) == VELOC_FAILURE);
	CHECK(VELOC_Restart_test("s", 0) == 4);
	state_lose();
	CHECK(VELOC_Restart_begin("s", 3) == VELOC_SUCCESS);
	CHECK(VELOC_Recover_size(0) == (int)sizeof(step));
	CHECK(VELOC_Recover_size(1) == 0);
	CHECK(VELOC_Recover_size(2) == (int)sizeof(b));
	CHECK(VELOC_Recover_selective(VELOC_RECOVER_SOME, some, 1) == VELOC_SUCCESS);
	CHECK(step == 30 + rank && b[0] != b[0]);
	CHECK(VELOC_Recover_selective(VELOC_RECOVER_REST, some, 1) == VELOC_SUCCESS);
	CHECK(b[0] == b[0] && a[0] != a[0]);
	CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
	CHECK(VELOC_Restart("s", 4) == VELOC_SUCCESS);
	state_is(3);
	finalize();
}

/* Buffers may be larger than what was saved, not smaller; and all that is selected must be protected. */
static void test_recover_sizes(void)
{
	static double large[N + 100];
	int one[1] = {1};

	init("sizes", "");
	protect();
	take("r", 1);
	large[N] = 17;
	CHECK(VELOC_Mem_protect(1, large, N + 100, sizeof(double)) == VELOC_FAILURE);
	CHECK(VELOC_Restart("r", 1) == VELOC_SUCCESS);
	state_make(1);
	CHECK(memcmp(large, a, sizeof(a)) == 0 && large[N] == 17);
	CHECK(VELOC_Mem_protect(1, large, N - 1, sizeof(double)) == VELOC_FAILURE);
	CHECK(VELOC_Restart("r", 1) == VELOC_FAILURE);
	CHECK(VELOC_Mem_unprotect(1) == VELOC_SUCCESS);
	CHECK(VELOC_Restart_begin("r", 1) == VELOC_SUCCESS);
	CHECK(VELOC_Recover_mem() == VELOC_FAILURE);
	CHECK(VELOC_Recover_selective(VELOC_RECOVER_REST, one, 1) == VELOC_SUCCESS);
	CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
	finalize();
}

static void test_finished(void)
{
	init("finished", "");
	protect();
	CHECK(VELOC_Checkpoint_finished() == VELOC_SUCCESS);
	take("f", 1);
	while (VELOC_Checkpoint_finished() != VELOC_SUCCESS)
		usleep(100);
	CHECK(count("finished", "persistent/f/set-*") == 1); /* nobody has waited for it */
	finalize();
}

/* Memory that a version is still saved from may be freed when it was taken back, in either way. */
static void test_freed(void)
{
	size_t n = 1 << 20;
	int *first = malloc(n * sizeof(int)), *second = malloc(n * sizeof(int));

	if (capture[0])
		return;
	init("freed", "capture = cow-user\n");
	for (size_t i = 0; i < n; i++)
		first[i] = second[i] = (int)(i * 7 + (size_t)rank);
	CHECK(VELOC_Mem_protect(1, first, n, sizeof(int)) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint("fr", 1) == VELOC_SUCCESS);
	CHECK(VELOC_Mem_protect(1, second, n, sizeof(int)) == VELOC_FAILURE);
	free(first);
	CHECK(VELOC_Checkpoint("fr", 2) == VELOC_SUCCESS);
	CHECK(VELOC_Mem_unprotect(1) == VELOC_SUCCESS);
	free(second);
	wait_all();
	first = calloc(n, sizeof(int));
	CHECK(VELOC_Mem_protect(1, first, n, sizeof(int)) == VELOC_SUCCESS);
	for (int v = 1; v <= 2; v++) {
		CHECK(VELOC_Restart("fr", v) == VELOC_SUCCESS);
		CHECK(first[n - 1] == (int)((n - 1) * 7 + (size_t)rank));
		memset(first, 0, n * sizeof(int));
	}
	CHECK(VELOC_Mem_clear() == VELOC_SUCCESS);
	free(first);
	finalize();
}

/*
 * In mode async a version is written after the call, whatever thread support MPI has: a file that cannot be written is
 * found out later. Such a version does not exist, and the next one does.
 */
static void test_background(void)
{
	struct rlimit small = {64 << 10, RLIM_INFINITY}, before;
	size_t n = 1 << 17;
	uint64_t *large = malloc(n * sizeof(*large));

	init("background", "");
	fill_random(large, n * sizeof(*large), (uint64_t)rank);
	CHECK(VELOC_Mem_protect(1, large, n, sizeof(*large)) == VELOC_SUCCESS);
	CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
	small.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
	CHECK(VELOC_Checkpoint("b", 1) == (strcmp(mode, "async") == 0 ? VELOC_SUCCESS : VELOC_FAILURE));
	CHECK(VELOC_Checkpoint_wait() == (strcmp(mode, "async") == 0 ? VELOC_FAILURE : VELOC_SUCCESS));
	CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
	signal(SIGXFSZ, SIG_DFL);
	CHECK(VELOC_Restart_test("b", 0) == VELOC_IGNORED);
	CHECK(VELOC_Checkpoint("b", 2) == VELOC_SUCCESS);
	wait_all();
	CHECK(VELOC_Restart_test("b", 0) == 2);
	CHECK(VELOC_Mem_clear() == VELOC_SUCCESS);
	finalize();
	free(large);
}

/* ------------------------------------------------------------------ which version */

static void test_restart_test(void)
{
	init("test", "");
	protect();
	CHECK(VELOC_Restart_test("t", 0) == VELOC_IGNORED);
	CHECK(VELOC_Restart_test("t-t", 0) == VELOC_FAILURE);
	for (int v = 2; v <= 8; v += 2)
		take("t", v);
	CHECK(VELOC_Restart_test("t", 0) == 8);
	CHECK(VELOC_Restart_test("t", 8) == 8);
	CHECK(VELOC_Restart_test("t", 7) == 6);
	CHECK(VELOC_Restart_test("t", 1) == VELOC_IGNORED);
	CHECK(VELOC_Restart_test("other", 0) == VELOC_IGNORED);
	CHECK(VELOC_Restart_begin("t", 7) == VELOC_FAILURE);
	CHECK(VELOC_Restart_begin("t", -7) == VELOC_FAILURE);
	CHECK(VELOC_Restart("t", 4) == VELOC_SUCCESS);
	state_is(4);
	finalize();
	/* Init after Finalize; a damaged newest version; then no scratch at all. */
	damage("test", "t", 8);
	init("test", "");
	protect();
	CHECK(VELOC_Restart_test("t", 0) == 6);
	CHECK(VELOC_Restart("t", 6) == VELOC_SUCCESS);
	state_is(6);
	finalize();
	lose("test", "scratch");
	init("test", "");
	protect();
	CHECK(VELOC_Restart_test("t", 0) == 6);
	CHECK(VELOC_Restart("t", 6) == VELOC_SUCCESS);
	state_is(6);
	take("t", 7);
	CHECK(VELOC_Restart_test("t", 0) == 7); /* 8 belonged to another future */
	finalize();
}

/* What a restart finds damaged although nobody has touched it: it fails on all ranks, and then that version is not
 * offered any more, to this process or another. */
static void test_restart_fails(void)
{
	for (int again = 0; again < 2; again++) {
		init("fails", "reducer = full\n");
		protect();
		for (int v = 1 + 3 * again; v <= 3 + 3 * again; v++)
			take("f", v);
		finalize();
		damage_unseen("fails", "f", 3 + 3 * again);
		init("fails", "reducer = full\n");
		protect();
		CHECK(VELOC_Restart_test("f", 0) == 3 + 3 * again);
		CHECK(VELOC_Restart("f", 3 + 3 * again) == VELOC_FAILURE);
		if (again) { /* as a program that gives up, and is started again */
			finalize();
			init("fails", "reducer = full\n");
			protect();
		}
		CHECK(VELOC_Restart_test("f", 0) == 2 + 3 * again);
		CHECK(VELOC_Restart("f", 2 + 3 * again) == VELOC_SUCCESS);
		state_is(2 + 3 * again);
		take("f", 3 + 3 * again);
		finalize();
	}
}

static void test_versions(void)
{
	init("versions", "max_versions = 2\nscratch_versions = 1\nreducer = full\nchksum = true\nmeta = /nowhere\n"
			 "failure_domain = node\nno_such_key = 1\n");
	protect();
	for (int v = 1; v <= 5; v++)
		take("v", v);
	finalize();
	CHECK(count("versions", "persistent/v/set-*") == 2);
	CHECK(count("versions", "scratch/v/set-*") == 1);
	init("interval", "persistent_interval = -1\n");
	protect();
	take("v", 1);
	finalize();
	CHECK(count("interval", "persistent/v/set-*") == 0);
	CHECK(count("interval", "scratch/v/set-*") == 1);
}

/* The ranks need not ask together; what is on its way gets there first, and other names stay. */
static void test_cleanup(void)
{
	init("cleanup", "");
	protect();
	take("x", 1);
	take("xx", 1);
	CHECK(VELOC_Cleanup("x") == VELOC_SUCCESS);
	CHECK(VELOC_Cleanup("x-x") == VELOC_FAILURE);
	CHECK(VELOC_Restart_test("x", 0) == 1); /* on persistent storage */
	CHECK(count("cleanup", "scratch/x/set-*") == 0);
	take("x", 2);
	CHECK(VELOC_Restart("x", 2) == VELOC_SUCCESS);
	state_is(2);
	finalize();
	init("cleanup", "");
	if (rank == size - 1)
		CHECK(VELOC_Cleanup("x") == VELOC_SUCCESS); /* a name that this process has not used */
	finalize();
	CHECK(count("cleanup", "scratch/x/set-*") == 0);
	CHECK(count("cleanup", "scratch/xx/set-*") == 1);
	CHECK(count("cleanup", "persistent/x/set-*") == 2);
}

/* ------------------------------------------------------------------ files */

static void file_put(const char *original, int version)
{
	char routed[VELOC_MAX_NAME];
	FILE *f;

	state_make(version);
	CHECK(VELOC_Checkpoint_begin("file", version) == VELOC_SUCCESS);
	CHECK(VELOC_Route_file(original, routed) == VELOC_SUCCESS);
	f = fopen(routed, "wb");
	CHECK(f);
	CHECK(fwrite(&step, sizeof(step), 1, f) == 1);
	CHECK(fwrite(a, sizeof(a), 1, f) == 1);
	CHECK(fwrite(b, sizeof(b), 1, f) == 1);
	CHECK(fclose(f) == 0);
	CHECK(VELOC_Checkpoint_end(1) == VELOC_SUCCESS);
	state_lose();
}

static void file_comes_back(const char *path, int version)
{
	FILE *f = fopen(path, "rb");

	CHECK(f);
	state_lose();
	CHECK(fread(&step, sizeof(step), 1, f) == 1);
	CHECK(fread(a, sizeof(a), 1, f) == 1);
	CHECK(fread(b, sizeof(b), 1, f) == 1);
	CHECK(fgetc(f) == EOF);
	fclose(f);
	state_is(version);
}

static void file_get(int version)
{
	char routed[VELOC_MAX_NAME];

	CHECK(VELOC_Restart_begin("file", version) == VELOC_SUCCESS);
	CHECK(VELOC_Route_file("another name", routed) == VELOC_SUCCESS);
	file_comes_back(routed, version);
	CHECK(VELOC_Recover_mem() == VELOC_FAILURE); /* there is none */
	CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
}

static void test_files(void)
{
	char original[512], routed[VELOC_MAX_NAME];

	init("files", "");
	CHECK(VELOC_Route_file("x", routed) == VELOC_FAILURE); /* no checkpoint so far */
	for (int v = 1; v <= 3; v++) {
		snprintf(original, sizeof(original), "%s/out_%d_%d", dir, rank, v);
		file_put(original, v);
		CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
		file_comes_back(original, v); /* where the program wanted it, too */
	}
	CHECK(VELOC_Checkpoint_begin("file", 4) == VELOC_SUCCESS);
	CHECK(VELOC_Route_file("x", routed) == VELOC_SUCCESS);
	CHECK(VELOC_Checkpoint_end(1) == VELOC_FAILURE); /* never written */
	CHECK(VELOC_Restart_test("file", 0) == 3);
	file_get(2);
	finalize();
	lose("files", "scratch");
	init("files", "originals = no\n");
	CHECK(VELOC_Restart_test("file", 0) == 3);
	file_get(3);
	snprintf(original, sizeof(original), "%s/none_%d", dir, rank);
	file_put(original, 4);
	finalize();
	CHECK(access(original, F_OK) != 0);
	init("files", "");
	file_get(4);
	finalize();
}

/* A key without a value is not set: what the file has stays, or the default. */
static void test_empty(void)
{
	static const char *const keys[] = {"VELOC_SCRATCH",      "VELOC_PERSISTENT", "VELOC_MODE",
					   "VELOC_MAX_VERSIONS", "VELOC_ORIGINALS",  "VELOC_LOG_LEVEL"};
	char original[512];

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		setenv(keys[i], "", 1);
	init("empty", "max_versions =\noriginals =\nchksum =\nscratch_versions =\n");
	snprintf(original, sizeof(original), "%s/empty_%d", dir, rank);
	file_put(original, 1);
	wait_all();
	file_comes_back(original, 1);
	finalize();
	CHECK(count("empty", "persistent/file/set-*") == 1);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		unsetenv(keys[i]);
}

/* ------------------------------------------------------------------ a process for itself */

static void test_single(void)
{
	const char *path = config("single", "");

	CHECK(VELOC_Init_single((unsigned)rank, path) == VELOC_SUCCESS);
	protect();
	CHECK(VELOC_Restart_test("one", 0) == VELOC_IGNORED);
	for (int v = 1; v <= 3 + rank; v++) /* nobody waits for the others */
		take("one", v);
	CHECK(VELOC_Restart_test("one", 0) == 3 + rank);
	finalize();
	CHECK(VELOC_Init_single((unsigned)rank, path) == VELOC_SUCCESS);
	protect();
	CHECK(VELOC_Restart("one", 2) == VELOC_SUCCESS);
	state_is(2);
	CHECK(VELOC_Cleanup("one") == VELOC_SUCCESS);
	finalize();
	barrier();
	CHECK(count("single", "scratch/one-*/set-*") == 0);
}

int main(int argc, char **argv)
{
	program_begin(argc, argv);
	test_before_init();
	test_init();
	test_protect();
	test_groups();
	test_phases();
	test_selective();
	test_recover_sizes();
	test_finished();
	test_freed();
	test_background();
	test_restart_test();
	test_restart_fails();
	test_versions();
	test_cleanup();
	test_files();
	test_empty();
	test_single();
	program_end();
	return 0;
}
