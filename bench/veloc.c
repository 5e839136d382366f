/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench veloc-like: what checkpoints cost a program that uses VELOC's interface. The program is veloc_program.c,
 * under mpiexec, with the configuration that such programs have; another one, built with the real library, can be
 * named. Each row is one run of it, and then some restarts, each in new processes.
 */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX  64
#define VALUES_MAX 64
#define LINE_ROOM  4096

/* In the order of the columns. What is plain stands before what it is the limit of. */
#define FIGURES(X)                                                                                                     \
	X(plain_scratch, "plain scratch")                                                                              \
	X(blocked, "blocked")                                                                                          \
	X(plain_disk, "plain disk")                                                                                    \
	X(disk, "on disk")                                                                                             \
	X(cost, "cost")                                                                                                \
	X(plain_cpu, "plain CPU/GB")                                                                                   \
	X(cpu, "CPU/GB")                                                                                               \
	X(plain_read, "plain read")                                                                                    \
	X(restart_test, "test")                                                                                        \
	X(restart, "restart")                                                                                          \
	X(memory_waited, "memory")                                                                                     \
	X(memory_beside, "memory beside")

enum figure {
#define ID(name, head) F_##name,
	FIGURES(ID)
#undef ID
	    FIGURE_COUNT
};

static const char *const names[FIGURE_COUNT] = {
#define NAME(name, head) #name,
    FIGURES(NAME)
#undef NAME
};

static const char *const heads[FIGURE_COUNT] = {
#define HEAD(name, head) head,
    FIGURES(HEAD)
#undef HEAD
};

/* A figure, and what is plain: the quotients of each version, or restart, are a second table. */
#define RATIOS(X)                                                                                                      \
	X(blocked, plain_scratch)                                                                                      \
	X(disk, plain_disk)                                                                                            \
	X(cost, plain_disk)                                                                                            \
	X(cpu, plain_cpu)                                                                                              \
	X(restart, plain_read)

static const struct ratio {
	enum figure of, to;
} ratios[] = {
#define RATIO(of, to) {F_##of, F_##to},
    RATIOS(RATIO)
#undef RATIO
};

#define RATIO_COUNT (sizeof(ratios) / sizeof(ratios[0]))

static const unsigned percents[] = {100, 10, 1};
static const char *const captures[] = {"copy", "cow"};

struct values {
	double at[VALUES_MAX];
	size_t count;
};

struct bench {
	struct kedge__usage usage;
	uint64_t size, versions, restarts;
	double compute;
	struct kedge__text_list rank_texts, sets, mpi_args;
	const char *scratch, *persistent, *program, *mpiexec, *threads;
	const char *capture_text; /* NULL: copy, then cow */
	bool no_sync, json;
	char *dirs[2];     /* of our own, in scratch and persistent */
	char *own_program; /* where the program is, unless it is named */
	json_t *rows;
	struct kedge__table table, to_plain;

	int ranks; /* of what is being measured */
	unsigned percent;
	const char *capture;
	struct values values[FIGURE_COUNT], quotients[RATIO_COUNT];
};

/* ---- the program */

/* VELOC's keys, with Kedge's own behind them: the real library passes over those. */
static int config_write(const struct bench *b, char *path, size_t room, struct kedge__error *err)
{
	FILE *f;

	snprintf(path, room, "%s/veloc.cfg", b->dirs[1]);
	f = fopen(path, "w");
	if (!f)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot write %s", path);
	fprintf(f, "scratch = %s/level\npersistent = %s/level\nmode = async\n", b->dirs[0], b->dirs[1]);
	if (strcmp(b->capture, captures[0]) != 0) /* which is what such programs get */
		fprintf(f, "capture = %s\n", b->capture);
	fprintf(f, "sync = %s\n", b->no_sync ? "no" : "yes");
	for (size_t i = 0; i < b->sets.count; i++)
		fprintf(f, "%s\n", b->sets.at[i]);
	if (fclose(f) != 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot write %s", path);
	return 0;
}

/* Ranks share the cores that there are, and do not spin while they wait for others. */
static void environment_set(void)
{
	static const char *const settings[][2] = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
						  {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
						  {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
						  {"OMPI_MCA_mpi_yield_when_idle", "1"},
						  {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
						  {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"}};

	for (size_t i = 0; i < KEDGE__COUNT(settings); i++)
		setenv(settings[i][0], settings[i][1], 0);
}

static void program_exec(const struct bench *b, const char *phase, const char *config)
{
	char text[10][4300];
	const char **argv = kedge__calloc(b->mpi_args.count + 16, sizeof(*argv));
	size_t n = 0;

	snprintf(text[0], sizeof(text[0]), "%d", b->ranks);
	snprintf(text[1], sizeof(text[1]), "config=%s", config);
	snprintf(text[2], sizeof(text[2]), "size=%llu", (unsigned long long)b->size);
	snprintf(text[3], sizeof(text[3]), "percent=%u", b->percent);
	snprintf(text[4], sizeof(text[4]), "versions=%llu", (unsigned long long)b->versions);
	snprintf(text[5], sizeof(text[5]), "compute=%g", b->compute);
	snprintf(text[6], sizeof(text[6]), "fsync=%d", !b->no_sync);
	snprintf(text[7], sizeof(text[7]), "scratch=%s", b->dirs[0]);
	snprintf(text[8], sizeof(text[8]), "persistent=%s", b->dirs[1]);
	snprintf(text[9], sizeof(text[9]), "threads=%s", b->threads);
	if (!argv)
		_exit(KEDGE__EXIT_FAILURE);
	argv[n++] = b->mpiexec;
	for (size_t i = 0; i < b->mpi_args.count; i++)
		argv[n++] = b->mpi_args.at[i];
	argv[n++] = "-n";
	argv[n++] = text[0];
	argv[n++] = b->program ? b->program : b->own_program;
	for (int i = 1; i < 10; i++)
		argv[n++] = text[i];
	argv[n++] = phase;
	environment_set();
	execvp(argv[0], (char *const *)argv);
	fprintf(stderr, "%s: cannot run %s: %s\n", b->usage.command, argv[0], strerror(errno));
	_exit(KEDGE__EXIT_FAILURE);
}

static void line_take(struct bench *b, char *line)
{
	char *save = NULL, *word = strtok_r(line, " \n", &save);

	for (int f = 0; word && f < FIGURE_COUNT; f++) {
		struct values *v = &b->values[f];

		if (strcmp(word, names[f]) != 0)
			continue;
		while ((word = strtok_r(NULL, " \n", &save)) && v->count < VALUES_MAX)
			v->at[v->count++] = atof(word);
		return;
	}
}

static int output_take(struct bench *b, int fd, pid_t child)
{
	char line[LINE_ROOM];
	FILE *f = fdopen(fd, "r");
	int status = 0;

	while (f && fgets(line, sizeof(line), f))
		line_take(b, line);
	if (f)
		fclose(f);
	else
		close(fd);
	if (waitpid(child, &status, 0) != child || !f || status != 0)
		return KEDGE_E_IO;
	return 0;
}

static int program_run(struct bench *b, const char *phase, const char *config, struct kedge__error *err)
{
	int ends[2], rc;
	pid_t child;

	fflush(NULL);
	if (pipe(ends) != 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot make a pipe");
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		program_exec(b, phase, config);
	}
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot start a process");
	}
	rc = output_take(b, ends[0], child);
	return rc ? kedge__error_set(err, rc, 0, "the program failed under %s", b->mpiexec) : 0;
}

/* ---- results */

/* Processor seconds are per gigabyte of state, and memory is in units of it. */
static void values_scale(struct bench *b)
{
	double gigabytes = (double)b->size * b->ranks * 1e-9;

	for (size_t i = 0; i < b->values[F_cpu].count; i++)
		b->values[F_cpu].at[i] /= gigabytes;
	for (size_t i = 0; i < b->values[F_plain_cpu].count; i++)
		b->values[F_plain_cpu].at[i] /= gigabytes;
	b->values[F_memory_waited].at[0] /= (double)b->size;
	b->values[F_memory_beside].at[0] /= (double)b->size;
	b->values[F_memory_waited].count = b->values[F_memory_beside].count = 1;
}

/* Before a median is taken, which puts values in order. */
static void values_divide(struct bench *b)
{
	for (size_t r = 0; r < RATIO_COUNT; r++) {
		const struct values *of = &b->values[ratios[r].of], *to = &b->values[ratios[r].to];
		struct values *q = &b->quotients[r];

		q->count = KEDGE__MIN(of->count, to->count);
		for (size_t i = 0; i < q->count; i++)
			q->at[i] = of->at[i] / to->at[i];
	}
}

static json_t *spread_json(struct values *v)
{
	json_t *figure = kedge__json_object();

	kedge__json_real(figure, "median", kedge__bench_median(v->at, v->count));
	kedge__json_real(figure, "lowest", v->at[0]);
	kedge__json_real(figure, "highest", v->at[v->count - 1]);
	return figure;
}

static void spread_text(struct kedge__table *t, struct values *v, const char *one, const char *many)
{
	double median = kedge__bench_median(v->at, v->count);

	if (v->count > 1)
		kedge__table_add(t, many, median, v->at[0], v->at[v->count - 1]);
	else
		kedge__table_add(t, one, median);
}

static void add_json(struct bench *b)
{
	json_t *o = kedge__json_object(), *to_plain = kedge__json_object();

	kedge__json_uint(o, "ranks", (uint64_t)b->ranks);
	kedge__json_uint(o, "changed_percent", b->percent);
	kedge__json_text(o, "capture", b->capture);
	for (int f = 0; f < FIGURE_COUNT; f++)
		kedge__json_set(o, names[f], spread_json(&b->values[f]));
	for (size_t r = 0; r < RATIO_COUNT; r++)
		kedge__json_set(to_plain, names[ratios[r].of], spread_json(&b->quotients[r]));
	kedge__json_set(o, "to_plain", to_plain);
	kedge__json_add(b->rows, o);
}

static void row_begin(const struct bench *b, struct kedge__table *t)
{
	kedge__table_add(t, "%d", b->ranks);
	kedge__table_add(t, "%u %%", b->percent);
	kedge__table_add(t, "%s", b->capture);
}

static void add_text(struct bench *b)
{
	row_begin(b, &b->table);
	for (int f = 0; f < FIGURE_COUNT; f++)
		spread_text(&b->table, &b->values[f], "%.3f", "%.3f (%.3f-%.3f)");
	row_begin(b, &b->to_plain);
	for (size_t r = 0; r < RATIO_COUNT; r++)
		spread_text(&b->to_plain, &b->quotients[r], "%.2f", "%.2f (%.2f-%.2f)");
	kedge__table_add(&b->to_plain, "%.2f", b->values[F_memory_waited].at[0]);
	kedge__table_add(&b->to_plain, "%.2f", b->values[F_memory_beside].at[0]);
}

static void print_results(struct bench *b)
{
	char size[KEDGE__TEXT_ROOM];

	if (b->json) {
		json_t *o = kedge__json_object();

		kedge__json_uint(o, "size_per_rank", b->size);
		kedge__json_uint(o, "versions", b->versions);
		kedge__json_bool(o, "fsync", !b->no_sync);
		kedge__json_text(o, "threads", b->threads);
		kedge__json_set(o, "results", b->rows);
		kedge__json_print(o);
		return;
	}
	printf(
	    "%s a rank, MPI_THREAD_%s, %s fsync, median (lowest-highest) of %llu versions; seconds; memory beyond the "
	    "state, of the state\n\n",
	    kedge__text_bytes(b->size, size), strcmp(b->threads, "single") == 0 ? "SINGLE" : "MULTIPLE",
	    b->no_sync ? "without" : "with", (unsigned long long)b->versions);
	kedge__table_print(&b->table, stdout);
	printf("\nThe same relative to plain: blocked to scratch, on disk and cost to disk, restart to read\n\n");
	kedge__table_print(&b->to_plain, stdout);
}

/* ---- the run */

/* The memory of the write comes first and is reported, not that of the restarts. */
static int row_run(struct bench *b, struct kedge__error *err)
{
	char config[4300];
	int rc = config_write(b, config, sizeof(config), err);

	memset(b->values, 0, sizeof(b->values));
	if (!rc)
		rc = program_run(b, "phase=write", config, err);
	for (uint64_t i = 0; i < b->restarts && !rc; i++)
		rc = program_run(b, "phase=restart", config, err);
	for (int f = 0; f < FIGURE_COUNT && !rc; f++) {
		if (!b->values[f].count)
			rc = kedge__error_set(err, KEDGE_E_STATE, 0, "the program did not print \"%s\"", names[f]);
	}
	return rc;
}

static int row_measure(struct bench *b, const char *capture, struct kedge__error *err)
{
	int rc;

	b->capture = capture;
	rc = row_run(b, err);
	if (!rc) {
		values_scale(b);
		values_divide(b);
		if (b->json)
			add_json(b);
		else
			add_text(b);
	}
	for (int l = 0; l < 2; l++)
		kedge__bench_dir_clear(b->dirs[l]);
	return rc;
}

static int ranks_measure(struct bench *b, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < KEDGE__COUNT(percents) && !rc; i++) {
		b->percent = percents[i];
		for (size_t c = 0; c < KEDGE__COUNT(captures) && !rc; c++) {
			if (!b->capture_text || strcmp(b->capture_text, captures[c]) == 0)
				rc = row_measure(b, captures[c], err);
		}
	}
	return rc;
}

/* Beside this one. */
static char *program_find(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return kedge__asprintf("%s-veloc", path);
}

static void tables_begin(struct bench *b)
{
	static const char *const first[] = {"ranks", "changed", "capture"};

	kedge__table_init(&b->table, "rrlrrrrrrrrrrrr");
	kedge__table_init(&b->to_plain, "rrlrrrrrrr");
	for (size_t i = 0; i < KEDGE__COUNT(first); i++) {
		kedge__table_add(&b->table, "%s", first[i]);
		kedge__table_add(&b->to_plain, "%s", first[i]);
	}
	for (int f = 0; f < FIGURE_COUNT; f++)
		kedge__table_add(&b->table, "%s", heads[f]);
	for (size_t r = 0; r < RATIO_COUNT; r++)
		kedge__table_add(&b->to_plain, "%s", ratios[r].of == F_cpu ? "CPU" : heads[ratios[r].of]);
	kedge__table_add(&b->to_plain, "%s", heads[F_memory_waited]);
	kedge__table_add(&b->to_plain, "%s", heads[F_memory_beside]);
}

static int prepare(struct bench *b, struct kedge__error *err)
{
	const char *places[2] = {b->scratch, b->persistent};

	b->own_program = program_find();
	if (!b->own_program)
		return kedge__error_nomem(err);
	if (!b->program && access(b->own_program, X_OK) != 0)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, errno, "%s is not there: Kedge was built without MPI",
					b->own_program);
	for (int l = 0; l < 2; l++) {
		int rc = kedge__bench_dir_make(places[l], &b->dirs[l], err);

		if (rc)
			return rc;
	}
	if (b->json)
		b->rows = kedge__json_array();
	tables_begin(b);
	return 0;
}

static int run(struct bench *b)
{
	static const char *const presets[] = {"2"};
	const char *const *texts = b->rank_texts.count ? b->rank_texts.at : presets;
	size_t n = b->rank_texts.count ? b->rank_texts.count : KEDGE__COUNT(presets);
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = prepare(b, &err);

	for (size_t i = 0; !rc && i < n; i++) {
		b->ranks = atoi(texts[i]);
		rc = ranks_measure(b, &err);
	}
	for (int l = 0; l < 2 && b->dirs[l]; l++) {
		kedge__bench_dir_remove(b->dirs[l]);
		kedge__free(b->dirs[l]);
	}
	kedge__free(b->own_program);
	if (!rc)
		print_results(b);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

static bool arguments_valid(const struct bench *b)
{
	for (size_t i = 0; i < b->rank_texts.count; i++) {
		int ranks = atoi(b->rank_texts.at[i]);

		if (ranks < 1 || ranks > RANKS_MAX)
			return false;
	}
	return b->versions >= 1 && b->versions <= VALUES_MAX && b->restarts >= 1 && b->restarts <= VALUES_MAX &&
	       b->size >= 4096 && b->size % 8 == 0;
}

int kedge__bench_veloc(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct bench b = {.size = UINT64_C(256) << 20,
			  .versions = 5,
			  .restarts = 3,
			  .compute = 0.5,
			  .mpiexec = "mpiexec",
			  .threads = "multiple",
			  .scratch = "/dev/shm",
			  .persistent = tmp && tmp[0] ? tmp : "/tmp"};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "size of the state of a rank (default: 256MiB)"},
	    {"ranks", 0, KEDGE__OPTION_LIST, &b.rank_texts, "N", "processes; may be given again (default: 2)"},
	    {"versions", 0, KEDGE__OPTION_UINT, &b.versions, "N", "versions of each kind (default: 5)"},
	    {"restarts", 0, KEDGE__OPTION_UINT, &b.restarts, "N", "restarts after them (default: 3)"},
	    {"compute", 0, KEDGE__OPTION_REAL, &b.compute, "SECONDS", "what a step computes (default: 0.5)"},
	    {"scratch", 0, KEDGE__OPTION_TEXT, &b.scratch, "DIR", "where scratch is made (default: /dev/shm)"},
	    {"persistent", 0, KEDGE__OPTION_TEXT, &b.persistent, "DIR",
	     "persistent storage (default: $TMPDIR, or /tmp)"},
	    {"capture", 0, KEDGE__OPTION_TEXT, &b.capture_text, "HOW", "copy or cow alone (default: both)"},
	    {"threads", 0, KEDGE__OPTION_TEXT, &b.threads, "LEVEL", "of MPI: multiple (default) or single"},
	    {"no-sync", 0, KEDGE__OPTION_FLAG, &b.no_sync, NULL, "without fsync, on both sides"},
	    {"mpiexec", 0, KEDGE__OPTION_TEXT, &b.mpiexec, "PATH", "what starts the ranks (default: mpiexec)"},
	    {"mpi-arg", 0, KEDGE__OPTION_LIST, &b.mpi_args, "ARG",
	     "argument of mpiexec, before -n; may be given again"},
	    {"program", 0, KEDGE__OPTION_TEXT, &b.program, "PATH",
	     "what the ranks run: bench/veloc_program.c, built with another library, or a script that runs it"},
	    KEDGE__OPTION_SET(&b.sets),
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench veloc-like",
	    .about =
		"Checkpoints of a program that uses VELOC's interface, under mpiexec, with scratch in memory and\n"
		"persistent storage on disk, and 100, 10 and 1 % of the pages changed between two: how long the\n"
		"program is blocked, how long until the version is on disk, how much later the program comes to "
		"the\n"
		"end of its step, processor time, how long VELOC_Restart_test() and the restart with it take, and\n"
		"memory; beside a plain write of the same bytes to scratch, and from there to disk.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench veloc-like\nkedge-bench veloc-like --ranks 2 --size 64MiB --threads single --json",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (!arguments_valid(&b))
		return kedge__usage_error(&b.usage, "1 to %d versions, restarts and ranks, of at least 4 KiB",
					  VALUES_MAX);
	return run(&b);
}
