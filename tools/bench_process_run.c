/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_process_run: programs are started, captured, written to files by others, and restarted. */
#include "bench_process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MOST 128
#define NEVER       "1000000000" /* seconds between captures: they are taken when it suits us */
#define SMALL_BYTES "1048576"

extern char **environ;

/* A program, and its versions. */
struct session {
	struct kedge__bench_process *b;
	struct kedge__run_transparent t;
	char *const *argv;
	char *store;
	int in[2], out[2]; /* pipes: its standard input and output */
};

/* ------------------------------------------------------------------ talking to it */

/* What our standard input and output were. Programs inherit them from us, also those that are restarted: so they are
 * pipes to the program, as long as it is started. */
struct streams {
	int saved[2];
};

static int streams_save(struct streams *o, struct kedge__error *err)
{
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		o->saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
		if (o->saved[i] < 0)
			return kedge__error_set(err, KEDGE_E_IO, errno, "cannot keep the standard streams");
	}
	return 0;
}

static void streams_restore(const struct streams *o)
{
	for (int i = 0; i < 2; i++) {
		dup2(o->saved[i], i);
		close(o->saved[i]);
	}
}

static int pipes_open(struct session *s, struct kedge__error *err)
{
	if (pipe2(s->in, O_CLOEXEC) != 0 || pipe2(s->out, O_CLOEXEC) != 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot create pipes");
	return 0;
}

/* From now on it is this program that our standard streams lead to. */
static void pipes_use(const struct session *s)
{
	dup2(s->in[0], STDIN_FILENO);
	dup2(s->out[1], STDOUT_FILENO);
}

static bool has_died(const struct session *s)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)s->t.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == s->t.pid;
}

/* The number in the next line that it prints. */
static int answer(struct session *s, double *seconds, struct kedge__error *err)
{
	char line[ANSWER_MOST];
	size_t n = 0;

	while (n + 1 < sizeof(line) && (!n || line[n - 1] != '\n')) {
		struct pollfd out = {.fd = s->out[0], .events = POLLIN};

		if (poll(&out, 1, 100) > 0 && read(s->out[0], line + n, 1) == 1)
			n++;
		else if (has_died(s))
			return kedge__error_set(err, KEDGE_E_STATE, 0, "%s has ended", s->argv[0]);
	}
	line[n] = '\0';
	*seconds = strtod(line, NULL);
	return 0;
}

static void tell(struct session *s, const char *what, uint64_t pages)
{
	dprintf(s->in[1], "%s %llu\n", what, (unsigned long long)pages);
}

static int ask(struct session *s, const char *what, uint64_t pages, double *seconds, struct kedge__error *err)
{
	tell(s, what, pages);
	return answer(s, seconds, err);
}

/* ------------------------------------------------------------------ its life */

/* Started, and ready: SECONDS later. */
static int start(struct session *s, double *seconds, struct kedge__error *err)
{
	double began = kedge__clock_seconds(), unused;
	posix_spawnattr_t attributes;
	int failed, rc;

	kedge__run_drop_strangers();
	pipes_use(s);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	failed = posix_spawnp(&s->t.pid, s->argv[0], NULL, &attributes, s->argv, environ);
	posix_spawnattr_destroy(&attributes);
	if (failed) {
		s->t.pid = 0;
		return kedge__error_set(err, KEDGE_E_IO, failed, "cannot start %s", s->argv[0]);
	}
	rc = answer(s, &unused, err);
	*seconds = kedge__clock_seconds() - began;
	return rc;
}

static void end(struct session *s)
{
	if (s->t.pid > 0) {
		kill(s->t.pid, SIGKILL);
		waitpid(s->t.pid, NULL, 0);
	}
	s->t.pid = 0;
	kedge__run_spaces_end(&s->t);
}

static int session_open(struct session *s, struct kedge__error *err)
{
	return kedge__run_image_open(&s->t, s->argv[0], false, err);
}

static void session_close(struct session *s, bool finished)
{
	if (s->t.k)
		(void)kedge__run_image_close(&s->t, finished, NULL);
	s->t.name = "process";
}

static int session_init(struct session *s, struct kedge__bench_process *b, char *const *argv, struct kedge__error *err)
{
	*s = (struct session){
	    .b = b,
	    .argv = argv,
	    .t = {.on = true, .name = "process", .interval = NEVER, .files = KEDGE__FILES_WRITTEN, .sets = b->sets},
	    .store = kedge__asprintf("%s/store", b->dir),
	    .in = {-1, -1},
	    .out = {-1, -1},
	};
	if (!s->store)
		kedge__tool_no_memory();
	s->t.store = s->store;
	return pipes_open(s, err);
}

static void session_done(struct session *s)
{
	end(s);
	session_close(s, true);
	kedge__bench_dir_remove(s->store);
	kedge__free(s->store);
	for (int i = 0; i < 2; i++) {
		if (s->in[i] >= 0)
			close(s->in[i]);
		if (s->out[i] >= 0)
			close(s->out[i]);
	}
}

/* ------------------------------------------------------------------ captures */

/* TOTAL: until the version is complete. STORED: what it takes. */
static int take(struct session *s, double *total, uint64_t *stored, struct kedge__error *err)
{
	double began = kedge__clock_seconds();
	struct kedge_stats stats = {0};
	int rc = kedge__run_image_take(&s->t, s->argv, err);

	if (!rc)
		rc = kedge__bench_said(s->t.k, kedge_wait(s->t.k), err);
	*total = kedge__clock_seconds() - began;
	if (!rc)
		rc = kedge__bench_said(s->t.k, kedge_stats_get(s->t.k, &stats), err);
	*stored = stats.stored_bytes;
	return rc;
}

/* BESIDE copies as many pages of its own: what it does with them is nothing that is captured. */
static int turn(struct session *s, struct session *beside, struct kedge__bench_process_row *row,
		struct kedge__error *err)
{
	size_t i = row->turns;
	double unused;
	int rc = row->percent < 0 ? 0 : ask(s, "change", row->pages, &unused, err);

	if (rc)
		return rc;
	rc = ask(s, "watch", s->b->writes ? row->pages : 0, &unused, err);
	if (rc)
		return rc;
	rc = take(s, &row->seconds[KEDGE__PROCESS_TOTAL][i], &row->stored, err);
	row->seconds[KEDGE__PROCESS_STOP][i] = s->t.stopped;
	memcpy(row->how, s->t.how, sizeof(row->how));
	tell(s, "stop", 0);
	if (!rc)
		rc = answer(s, &row->seconds[KEDGE__PROCESS_STALL][i], err);
	if (!rc)
		rc = answer(s, &unused, err); /* to `stop` */
	if (!rc)
		rc = ask(beside, "copy", row->pages, &row->seconds[KEDGE__PROCESS_MEMCPY][i], err);
	row->turns += !rc;
	return rc;
}

/* With versions of its own: what came before has no part in what is stored. */
static int row_measure(struct session *s, struct session *beside, double percent, struct kedge__error *err)
{
	uint64_t pages = s->b->size / KEDGE__PAGE_BYTES;
	struct kedge__bench_process_row row = {.percent = percent}, *r;
	int rc = session_open(s, err);

	row.pages = percent < 0 ? pages : KEDGE__MAX((uint64_t)((double)pages * percent / 100), 1);
	if (!kedge__array_push(&s->b->rows, row))
		kedge__tool_no_memory();
	r = &s->b->rows.at[s->b->rows.count - 1];
	if (!rc && percent >= 0)
		rc = take(s, &(double){0}, &(uint64_t){0}, err);
	for (uint64_t i = 0; i < (percent < 0 ? 1 : s->b->repeat) && !rc; i++)
		rc = turn(s, beside, r, err);
	session_close(s, true);
	return rc;
}

/* ------------------------------------------------------------------ others */

static uint64_t tree_sum;

static int tree_add(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)path, (void)at;
	tree_sum += kind == FTW_F ? (uint64_t)st->st_blocks * 512 : 0;
	return 0;
}

static int run_peer(char *const *argv, const char *said)
{
	posix_spawn_file_actions_t files;
	int status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_adddup2(&files, 1, 2);
	if (posix_spawnp(&pid, argv[0], &files, NULL, argv, environ) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&files);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	return pid < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 127) ? -1 : status;
}

/* The first line of what it said that is an error, or the last one. */
static char *complaint(const char *said)
{
	char line[512], kept[512] = "it failed without a word";
	FILE *f = fopen(said, "re");

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line && !strstr(line, "exited, status"))
			memcpy(kept, line, sizeof(kept));
		if (strncmp(kept, "Error", 5) == 0)
			break;
	}
	if (f)
		fclose(f);
	return kedge__strdup(kept);
}

static int peer_measure(struct session *s, struct kedge__bench_process_peer *peer, char *const *argv, const char *dir,
			struct kedge__error *err)
{
	char *said = kedge__asprintf("%s/said", s->b->dir);
	double began, unused;
	int status, rc;

	if (!said)
		kedge__tool_no_memory();
	rc = ask(s, "watch", 0, &unused, err);
	if (rc) {
		kedge__free(said);
		return rc;
	}
	began = kedge__clock_seconds();
	status = run_peer(argv, said);
	peer->total = kedge__clock_seconds() - began;
	tell(s, "stop", 0);
	rc = answer(s, &peer->stall, err);
	if (!rc)
		rc = answer(s, &unused, err);
	tree_sum = 0;
	(void)nftw(dir, tree_add, 16, FTW_PHYS);
	peer->stored = tree_sum;
	if (status)
		peer->missing = status == -1 ? kedge__strdup("it is not installed") : complaint(said);
	kedge__free(said);
	kedge__bench_dir_remove(dir);
	return rc;
}

static int peers_measure(struct session *s, struct kedge__error *err)
{
	char pid[16], *dir = kedge__asprintf("%s/peer", s->b->dir),
		      *prefix = kedge__asprintf("%s/peer/core", s->b->dir);
	char *gcore[] = {"gcore", "-o", prefix, pid, NULL};
	char *criu[] = {"criu", "dump", "-t", pid, "-D", dir, "--leave-running", "--shell-job", "-v1", NULL};
	int rc;

	if (!dir || !prefix)
		kedge__tool_no_memory();
	snprintf(pid, sizeof(pid), "%d", (int)s->t.pid);
	mkdir(dir, 0700);
	rc = peer_measure(s, &s->b->peers[KEDGE__PEER_GCORE], gcore, dir, err);
	mkdir(dir, 0700);
	if (!rc)
		rc = peer_measure(s, &s->b->peers[KEDGE__PEER_CRIU], criu, dir, err);
	kedge__free(dir);
	kedge__free(prefix);
	return rc;
}

/* ------------------------------------------------------------------ restarts */

/* All that `kedge run` does, from the open of the store to the first answer of the program. */
static int restart(struct session *s, double *seconds, struct kedge__error *err)
{
	double began = kedge__clock_seconds(), unused;
	uint64_t version;
	int rc = session_open(s, err);

	if (!rc)
		rc = kedge__run_image_restart(&s->t, s->argv, &version, err);
	if (!rc && version == KEDGE__NO_VERSION)
		rc = kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "there is no version to restart from");
	if (!rc)
		rc = ask(s, "answer", 0, &unused, err);
	*seconds = kedge__clock_seconds() - began;
	return rc;
}

static int start_turn(struct session *s, struct kedge__bench_process_start *r, struct kedge__error *err)
{
	double unused;
	int rc = session_open(s, err);

	if (!rc)
		rc = start(s, &r->cold[r->turns], err);
	/* The last capture has a version before it, as in the middle of a run. */
	for (int i = 0; i < 2 && !rc; i++)
		rc = take(s, &unused, &r->stored, err);
	r->stop[r->turns] = s->t.stopped;
	end(s);
	session_close(s, false);
	if (!rc)
		rc = restart(s, &r->restart[r->turns], err);
	end(s);
	session_close(s, true);
	r->turns += !rc;
	return rc;
}

static int start_measure(struct kedge__bench_process *b, size_t which, char *const *argv, uint64_t turns,
			 struct kedge__error *err)
{
	struct session s;
	int rc = session_init(&s, b, argv, err);

	for (uint64_t i = 0; i < turns && !rc; i++)
		rc = start_turn(&s, &b->starts[which], err);
	session_done(&s);
	return rc;
}

/* A python3 that has numpy, or NULL. */
static char *find_python(const struct kedge__bench_process *b)
{
	static char *const names[] = {"python3", "/usr/bin/python3"};
	char *said = kedge__asprintf("%s/said", b->dir), *found = NULL;

	for (size_t i = 0; said && !found && i < KEDGE__COUNT(names); i++) {
		char *argv[] = {names[i], "-c", "import numpy", NULL};

		found = run_peer(argv, said) == 0 ? names[i] : NULL;
	}
	kedge__free(said);
	return found;
}

static int starts_measure(struct kedge__bench_process *b, struct kedge__error *err)
{
	char size[32], *python = find_python(b);
	char *small[] = {b->self, "bench", "process", "program", SMALL_BYTES, NULL};
	char *large[] = {b->self, "bench", "process", "program", size, NULL};
	char *numpy[] = {python, "-u", "-c",
			 "import sys, numpy\n"
			 "a = numpy.random.default_rng(7).random((200, 200))\n"
			 "a = a @ a\n"
			 "print(0)\n"
			 "while sys.stdin.readline(): print(float(a[0][0]) * 0)\n",
			 NULL};
	int rc = start_measure(b, KEDGE__START_SMALL, small, b->repeat, err);

	snprintf(size, sizeof(size), "%llu", (unsigned long long)b->size);
	if (!rc && python)
		rc = start_measure(b, KEDGE__START_PYTHON, numpy, b->repeat, err);
	else if (!rc)
		b->starts[KEDGE__START_PYTHON].missing = kedge__strdup("there is no python3 with numpy");
	return rc ? rc : start_measure(b, KEDGE__START_LARGE, large, 1, err);
}

/* ------------------------------------------------------------------ all */

static int rows_measure(struct session *s, struct session *beside, struct kedge__error *err)
{
	static const char *const usual[] = {"0.1", "1", "10", "100"};
	const char *const *list = s->b->dirty.count ? s->b->dirty.at : usual;
	size_t n = s->b->dirty.count ? s->b->dirty.count : KEDGE__COUNT(usual);
	double unused;
	int rc = start(beside, &unused, err);

	if (!rc)
		rc = start(s, &unused, err);
	if (!rc)
		rc = row_measure(s, beside, -1, err);
	for (size_t i = 0; i < n && !rc; i++)
		rc = row_measure(s, beside, strtod(list[i], NULL), err);
	return rc ? rc : peers_measure(s, err);
}

int kedge__bench_process_measure(void *bench, const char *dir, struct kedge__error *err)
{
	struct kedge__bench_process *b = bench;
	char size[32], *large[] = {b->self, "bench", "process", "program", size, NULL};
	struct session s, beside;
	struct streams streams;
	int rc;

	b->dir = dir;
	snprintf(size, sizeof(size), "%llu", (unsigned long long)b->size);
	rc = streams_save(&streams, err);
	if (rc)
		return rc;
	rc = session_init(&s, b, large, err);
	if (!rc) {
		rc = session_init(&beside, b, large, err);
		if (!rc)
			rc = rows_measure(&s, &beside, err);
		session_done(&beside);
	}
	session_done(&s);
	if (!rc)
		rc = starts_measure(b, err);
	streams_restore(&streams);
	return rc;
}
