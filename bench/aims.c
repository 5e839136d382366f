/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge-bench aims: what other benchmarks measure, against what Kedge aims at, a line each. Every benchmark runs in a
 * process of its own and prints JSON, from which the figures are picked: there is one way to measure each.
 */
#include "bench.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 20, WORD = 256 };

/* Words of a command line. @SIZE, @HALF and @QUARTER (of --size), @REPEAT, @MEMORY, @DISK and @RANKS stand for what was
 * asked for. */
struct run {
	const char *name;
	int (*measure)(int argc, char **argv);
	const char *words;
};

static const struct run runs[] = {
    {"memory", kedge__bench_limits, "limits --json --size @SIZE --repeat @REPEAT --dir @MEMORY"},
    {"disk", kedge__bench_limits, "limits --json --size @HALF --repeat @REPEAT --dir @DISK --sync"},
    {"two-threads", kedge__bench_limits, "limits --json --size @SIZE --repeat @REPEAT --dir @MEMORY --threads 2"},
    {"one-thread", kedge__bench_limits, "limits --json --size @SIZE --repeat @REPEAT --dir @MEMORY --threads 1"},
    {"two-packed", kedge__bench_limits,
     "limits --json --size @HALF --repeat @REPEAT --dir @MEMORY --threads 2 --packs --set codec=zstd:3"},
    {"one-packed", kedge__bench_limits,
     "limits --json --size @HALF --repeat @REPEAT --dir @MEMORY --threads 1 --packs --set codec=zstd:3"},
    {"scattered", kedge__bench_restore,
     "restore --json --size @HALF --repeat @REPEAT --dir @MEMORY --threads 2 --scattered"},
    {"in-runs", kedge__bench_restore, "restore --json --size @HALF --repeat @REPEAT --dir @MEMORY --threads 2"},
    {"tree-64", kedge__bench_reduce,
     "reduce --json --size @SIZE --repeat @REPEAT --threads 2 --reducer tree --chunk 64"},
    {"tree-128", kedge__bench_reduce, "reduce --json --size @SIZE --repeat @REPEAT --reducer tree --chunk 128"},
    {"tree-256", kedge__bench_reduce,
     "reduce --json --size @SIZE --repeat @REPEAT --threads 2 --reducer tree --chunk 256"},
    {"ranks", kedge__bench_ranks, "ranks --json --size @QUARTER --repeat @REPEAT --dir @MEMORY --ranks @RANKS"},
    {"regions", kedge__bench_regions, "regions --json --dir @MEMORY --changed 0 --repeat 2"},
};

enum sense { AT_MOST, AT_LEAST };

/* AT: where a figure is: a key of an object, or, in an array, the members that the element has; '/' between steps. */
struct aim {
	const char *run, *what, *at, *figure;
	enum sense sense;
	double wanted;
	const char *over; /* the run whose figure in the same place is the divisor; NULL: none */
};

#define ROW(what)              "results/what=" what
#define TREE(percent, pattern) "results/what=tree&changed_percent=" percent "&pattern=" pattern
#define HELD(changed)          "memory/what=tree&changed=" changed
#define TAKEN(capture, what)   "results/capture=" capture "/" what

static const struct aim aims[] = {
    {"memory", "first version / plain write", ROW("first version"), "ratio", AT_MOST, 1.25, NULL},
    {"memory", "all pages new / plain write", ROW("all pages new"), "ratio", AT_MOST, 1.25, NULL},
    {"memory", "all pages again / plain write", ROW("all pages again"), "ratio", AT_MOST, 1.25, NULL},
    {"memory", "10 % of pages / hash and write of these", ROW("10 % of pages"), "hashed_ratio", AT_MOST, 2, NULL},
    {"memory", "10 %, the next / hash and write", ROW("10 %, the next"), "hashed_ratio", AT_MOST, 2, NULL},
    {"memory", "restart / plain read", ROW("restart"), "ratio", AT_MOST, 1.3, NULL},
    {"disk", "synced: first version / plain write", ROW("first version"), "ratio", AT_MOST, 1.25, NULL},
    {"disk", "synced: all pages new / plain write", ROW("all pages new"), "ratio", AT_MOST, 1.25, NULL},
    {"disk", "restart / plain read", ROW("restart"), "ratio", AT_MOST, 1.3, NULL},
    {"one-thread", "all pages new: one thread / two", ROW("all pages new"), "seconds", AT_LEAST, 1.7, "two-threads"},
    {"one-packed", "the same with zstd:3: one thread / two", ROW("all pages new"), "seconds", AT_LEAST, 1.7,
     "two-packed"},
    {"scattered", "version 20 / read of a copy", "", "ratio", AT_MOST, 1.5, NULL},
    {"in-runs", "version 20 / read of a copy", "", "ratio", AT_MOST, 1.2, NULL},
    {"tree-64", "1 % scattered / hash", TREE("1", "scattered"), "ratio_to_hash", AT_LEAST, 0.8, NULL},
    {"tree-64", "1 % in runs / hash", TREE("1", "runs"), "ratio_to_hash", AT_LEAST, 0.8, NULL},
    {"tree-64", "10 % scattered / hash", TREE("10", "scattered"), "ratio_to_hash", AT_LEAST, 0.4, NULL},
    {"tree-64", "100 % / hash", TREE("100", "all"), "ratio_to_hash", AT_LEAST, 0.2, NULL},
    {"tree-64", "memory / state, 1 % scattered", HELD("1 % scattered"), "peak_share", AT_MOST, 0.35, NULL},
    {"tree-64", "memory / state, 10 % scattered", HELD("10 % scattered"), "peak_share", AT_MOST, 0.35, NULL},
    {"tree-64", "memory / state, 100 %", HELD("100 %"), "peak_share", AT_MOST, 0.35, NULL},
    {"tree-128", "all processors, 0 % / hash", TREE("0", "all"), "ratio_to_hash", AT_LEAST, 0.9, NULL},
    {"tree-128", "1 % scattered / hash", TREE("1", "scattered"), "ratio_to_hash", AT_LEAST, 0.7, NULL},
    {"tree-128", "1 % in runs / hash", TREE("1", "runs"), "ratio_to_hash", AT_LEAST, 0.7, NULL},
    {"tree-128", "10 % scattered / hash", TREE("10", "scattered"), "ratio_to_hash", AT_LEAST, 0.4, NULL},
    {"tree-128", "100 % / hash", TREE("100", "all"), "ratio_to_hash", AT_LEAST, 0.2, NULL},
    {"tree-256", "memory / state, 1 % scattered", HELD("1 % scattered"), "peak_share", AT_MOST, 0.1, NULL},
    {"tree-256", "memory / state, 10 % scattered", HELD("10 % scattered"), "peak_share", AT_MOST, 0.1, NULL},
    {"tree-256", "memory / state, 100 %", HELD("100 %"), "peak_share", AT_MOST, 0.1, NULL},
    {"ranks", "copy: blocked / plain write", TAKEN("copy", "blocked"), "ratio", AT_MOST, 0.3, NULL},
    {"ranks", "copy: stored / plain write", TAKEN("copy", "stored"), "ratio", AT_MOST, 1.5, NULL},
    {"ranks", "copy: processor time / plain write", TAKEN("copy", "cpu"), "ratio", AT_MOST, 1.2, NULL},
    {"ranks", "cow: blocked / plain write", TAKEN("cow", "blocked"), "ratio", AT_MOST, 0.02, NULL},
    {"ranks", "cow: stored / plain write", TAKEN("cow", "stored"), "ratio", AT_MOST, 1.5, NULL},
    {"ranks", "cow: processor time / plain write", TAKEN("cow", "cpu"), "ratio", AT_MOST, 1.2, NULL},
    {"regions", "100,000 unchanged: metadata, bytes", "", "metadata_bytes", AT_MOST, 4096, NULL},
};

struct bench {
	struct kedge__usage usage;
	const char *memory, *disk;
	uint64_t size, repeat, ranks;
	struct kedge__text_list only;
	bool json;
	json_t *said[KEDGE__COUNT(runs)]; /* NULL: not run */
};

/* ------------------------------------------------------------------ one benchmark */

static void word_fill(const struct bench *b, const char *word, char *out, size_t room)
{
	const struct {
		const char *name, *text;
		uint64_t number;
	} names[] = {{"@SIZE", NULL, b->size},     {"@HALF", NULL, b->size / 2}, {"@QUARTER", NULL, b->size / 4},
		     {"@REPEAT", NULL, b->repeat}, {"@RANKS", NULL, b->ranks},   {"@MEMORY", b->memory, 0},
		     {"@DISK", b->disk, 0}};

	for (size_t i = 0; i < KEDGE__COUNT(names); i++)
		if (strcmp(word, names[i].name) == 0) {
			if (names[i].text)
				(void)snprintf(out, room, "%s", names[i].text);
			else
				(void)snprintf(out, room, "%llu", (unsigned long long)names[i].number);
			return;
		}
	(void)snprintf(out, room, "%s", word);
}

static int run_here(const struct bench *b, const struct run *r)
{
	char room[WORDS][WORD], *argv[WORDS + 1], *words = kedge__strdup(r->words), *rest = words;
	int argc = 0, status;

	if (!words)
		kedge__tool_no_memory();
	for (char *w = strtok_r(words, " ", &rest); w && argc < WORDS; w = strtok_r(NULL, " ", &rest)) {
		word_fill(b, w, room[argc], WORD);
		argv[argc] = room[argc];
		argc++;
	}
	argv[argc] = NULL;
	status = r->measure(argc, argv);
	kedge__free(words);
	return kedge__tool_finish("kedge-bench", status);
}

static int run_apart(const struct bench *b, const struct run *r, json_t **out, struct kedge__error *err)
{
	int ends[2], status = 0;
	pid_t pid;

	(void)fflush(stdout);
	if (pipe(ends) != 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot make a pipe");
	pid = fork();
	if (pid == 0) {
		(void)dup2(ends[1], STDOUT_FILENO);
		(void)close(ends[0]);
		(void)close(ends[1]);
		_exit(run_here(b, r));
	}
	(void)close(ends[1]);
	*out = pid > 0 ? json_loadfd(ends[0], 0, NULL) : NULL;
	(void)close(ends[0]);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	if (*out && status == 0)
		return 0;
	json_decref(*out);
	*out = NULL;
	return kedge__error_set(err, KEDGE_E_IO, 0, "the benchmark '%s' failed (its command line: kedge-bench %s)",
				r->name, r->words);
}

/* ------------------------------------------------------------------ figures */

static bool member_is(const json_t *element, const char *member, size_t length)
{
	const char *equals = memchr(member, '=', length);
	size_t key = equals ? (size_t)(equals - member) : length, room = equals ? length - key - 1 : 0;
	char number[32];
	const json_t *v = json_object_getn(element, member, key);

	if (!v || !equals)
		return false;
	if (json_is_string(v))
		return json_string_length(v) == room && memcmp(json_string_value(v), equals + 1, room) == 0;
	(void)snprintf(number, sizeof(number), "%g", json_number_value(v));
	return strlen(number) == room && memcmp(number, equals + 1, room) == 0;
}

static bool element_is(const json_t *element, const char *members, size_t length)
{
	for (size_t at = 0; at < length;) {
		const char *end = memchr(members + at, '&', length - at);
		size_t one = end ? (size_t)(end - members) - at : length - at;

		if (!member_is(element, members + at, one))
			return false;
		at += one + 1;
	}
	return true;
}

static const json_t *find(const json_t *from, const char *at)
{
	while (from && *at) {
		size_t length = strcspn(at, "/");
		const json_t *next = NULL;

		if (json_is_object(from))
			next = json_object_getn(from, at, length);
		for (size_t i = 0; !next && i < json_array_size(from); i++)
			if (element_is(json_array_get(from, i), at, length))
				next = json_array_get(from, i);
		from = next;
		at += length + (at[length] == '/');
	}
	return from;
}

static const json_t *said_by(const struct bench *b, const char *run)
{
	for (size_t i = 0; i < KEDGE__COUNT(runs); i++)
		if (strcmp(runs[i].name, run) == 0)
			return b->said[i];
	return NULL;
}

struct figure {
	double value, lowest, highest; /* without a spread: the last two are 0 */
	bool met;
};

/* False: the run was left out. What is not where it should be is a mistake of this file, and is not met. */
static bool figure_of(const struct bench *b, const struct aim *a, struct figure *f)
{
	const json_t *said = said_by(b, a->run), *o = find(said, a->at), *v = json_object_get(o, a->figure);
	char key[64];

	*f = (struct figure){.value = json_is_number(v) ? json_number_value(v) : (double)NAN};
	if (!said || (a->over && !said_by(b, a->over)))
		return false;
	if (a->over)
		f->value /= json_number_value(json_object_get(find(said_by(b, a->over), a->at), a->figure));
	(void)snprintf(key, sizeof(key), "%s_lowest", a->figure);
	v = json_object_get(o, key);
	f->lowest = json_number_value(v ? v : json_object_get(o, "ratio_lowest"));
	(void)snprintf(key, sizeof(key), "%s_highest", a->figure);
	v = json_object_get(o, key);
	f->highest = json_number_value(v ? v : json_object_get(o, "ratio_highest"));
	if (a->over || strstr(a->figure, "ratio") == NULL)
		f->lowest = f->highest = 0;
	f->met = a->sense == AT_MOST ? f->value <= a->wanted : f->value >= a->wanted;
	return true;
}

/* ------------------------------------------------------------------ results */

static void print_json(const struct bench *b)
{
	json_t *o = kedge__json_object(), *rows = kedge__json_array(), *all = kedge__json_object();
	struct figure f;

	for (size_t i = 0; i < KEDGE__COUNT(aims); i++) {
		json_t *row = kedge__json_object();

		if (!figure_of(b, &aims[i], &f)) {
			json_decref(row);
			continue;
		}
		kedge__json_text(row, "run", aims[i].run);
		kedge__json_text(row, "what", aims[i].what);
		kedge__json_real(row, "value", f.value);
		if (f.lowest > 0) {
			kedge__json_real(row, "lowest", f.lowest);
			kedge__json_real(row, "highest", f.highest);
		}
		kedge__json_text(row, "sense", aims[i].sense == AT_MOST ? "at most" : "at least");
		kedge__json_real(row, "wanted", aims[i].wanted);
		kedge__json_bool(row, "met", f.met);
		kedge__json_add(rows, row);
	}
	for (size_t i = 0; i < KEDGE__COUNT(runs); i++)
		if (b->said[i])
			kedge__json_set(all, runs[i].name, json_incref(b->said[i]));
	kedge__json_uint(o, "size", b->size);
	kedge__json_uint(o, "repeat", b->repeat);
	kedge__json_set(o, "aims", rows);
	kedge__json_set(o, "runs", all);
	kedge__json_print(o);
}

static void print_text(const struct bench *b)
{
	struct kedge__table table;
	struct figure f;

	kedge__table_init(&table, "llrlrl");
	for (size_t i = 0; i < 6; i++)
		kedge__table_text(&table, ((const char *const[]){"RUN", "WHAT", "FIGURE", "", "AIM", ""})[i]);
	for (size_t i = 0; i < KEDGE__COUNT(aims); i++) {
		if (!figure_of(b, &aims[i], &f))
			continue;
		kedge__table_text(&table, aims[i].run);
		kedge__table_text(&table, aims[i].what);
		kedge__table_add(&table, "%.3g", f.value);
		if (f.lowest > 0)
			kedge__table_add(&table, "(%.3g..%.3g)", f.lowest, f.highest);
		else
			kedge__table_text(&table, "");
		kedge__table_add(&table, "%s %g", aims[i].sense == AT_MOST ? "<=" : ">=", aims[i].wanted);
		kedge__table_text(&table, f.met ? "met" : "MISSED");
	}
	kedge__table_print(&table, stdout);
}

/* ------------------------------------------------------------------ the run */

static bool is_listed(const struct bench *b, const char *name)
{
	for (size_t i = 0; i < b->only.count; i++)
		if (strcmp(b->only.at[i], name) == 0)
			return true;
	return !b->only.count;
}

/* It is listed, or what a listed one is divided by. */
static bool is_wanted(const struct bench *b, const char *name)
{
	for (size_t i = 0; i < KEDGE__COUNT(aims); i++)
		if (aims[i].over && strcmp(aims[i].over, name) == 0 && is_listed(b, aims[i].run))
			return true;
	return is_listed(b, name);
}

static int run_all(struct bench *b)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = 0;

	for (size_t i = 0; i < KEDGE__COUNT(runs) && !rc; i++)
		if (is_wanted(b, runs[i].name)) {
			if (isatty(STDERR_FILENO))
				kedge__tool_say(b->usage.command, "%s (%zu of %zu)", runs[i].name, i + 1,
						KEDGE__COUNT(runs));
			rc = run_apart(b, &runs[i], &b->said[i], &err);
		}
	if (!rc)
		(b->json ? print_json : print_text)(b);
	for (size_t i = 0; i < KEDGE__COUNT(runs); i++)
		json_decref(b->said[i]);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

static const char *unknown_run(const struct bench *b)
{
	for (size_t i = 0; i < b->only.count; i++) {
		size_t k = 0;

		while (k < KEDGE__COUNT(runs) && strcmp(b->only.at[i], runs[k].name) != 0)
			k++;
		if (k == KEDGE__COUNT(runs))
			return b->only.at[i];
	}
	return NULL;
}

int kedge__bench_aims(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct bench b = {.size = UINT64_C(1) << 30,
			  .repeat = 5,
			  .ranks = (uint64_t)kedge__tool_threads(&(struct kedge__job_settings){.threads = 0}),
			  .memory = "/dev/shm",
			  .disk = tmp && *tmp ? tmp : "/tmp"};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES",
	     "size of the state (default: 1GiB); on disk and for restores half of it, of a rank a quarter"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns of each benchmark (default: 5)"},
	    {"ranks", 0, KEDGE__OPTION_UINT, &b.ranks, "N", "ranks (default: one for each processor)"},
	    {"memory", 0, KEDGE__OPTION_TEXT, &b.memory, "DIR", "a directory in memory (default: /dev/shm)"},
	    {"disk", 0, KEDGE__OPTION_TEXT, &b.disk, "DIR", "a directory on disk (default: $TMPDIR or /tmp)"},
	    {"only", 0, KEDGE__OPTION_LIST, &b.only, "RUN", "only this run, as in the first column; may be repeated"},
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	b.usage = (struct kedge__usage){
	    .command = "kedge-bench aims",
	    .about = "Runs the benchmarks limits, restore, reduce, ranks and regions, one after the other, and prints\n"
		     "what Kedge aims at beside what was measured, with the lowest and the highest of all turns.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge-bench aims\nkedge-bench aims --only scattered --only in-runs --repeat 9",
	};
	if (!kedge__options_parse(&b.usage, argc, argv, &first, &status))
		return status;
	if (b.size < UINT64_C(4) << 20 || !b.repeat || b.repeat > 16 || !b.ranks)
		status = kedge__usage_error(&b.usage, "a state of 4 MiB or more, 1 to 16 turns, 1 rank or more");
	else if (unknown_run(&b))
		status = kedge__usage_error(&b.usage, "there is no run '%s'", unknown_run(&b));
	else
		status = run_all(&b);
	kedge__array_done(&b.only);
	return status;
}
