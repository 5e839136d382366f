/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tool: what the subcommands of `kedge` share. A subcommand is a file tools/NAME.c (and tools/NAME_*.c) that defines
 * kedge__tool_NAME(), and a line in tools/CMakeLists.txt. It returns one of the exit codes below and leaves flushing
 * and checking of standard output to kedge__tool_dispatch().
 */
#ifndef KEDGE_TOOLS_TOOL_H
#define KEDGE_TOOLS_TOOL_H

#include "base/base.h"
#include "job/job.h"
#include "pipeline/pipeline.h"
#include "store/store.h"
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

/* One line per exit code: name, code, text. The enum and `kedge help` are generated from it; kedge(1) repeats it. */
#define KEDGE__EXITS(X)                                                                         \
	X(OK, 0, "done")                                                                        \
	X(NO, 1, "done, but files were left out, damage was found, or the versions differ")     \
	X(USAGE, 2, "invalid command line or configuration; nothing was done")                  \
	X(NOTFOUND, 3, "no such store, name, version, rank or region")                          \
	X(LOCKED, 4, "the store is in use by another job")                                      \
	X(IO, 5, "input or output failed: missing file, no space, no permission, device error") \
	X(DAMAGED, 6, "stored data is damaged, missing, or not readable by this build")         \
	X(FAILURE, 7, "any other failure")

enum kedge__exit {
#define KEDGE__X(name, code, text) KEDGE__EXIT_##name = (code),
	KEDGE__EXITS(KEDGE__X)
#undef KEDGE__X
};

int kedge__exit_from_error(int code); /* a KEDGE_E_ code (or 0) to an exit code */

/* ------------------------------------------------------------------ main.c: the table of subcommands */

struct kedge__tool {
	const char *name, *summary;
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand */
};

extern const struct kedge__tool kedge__tools[];
extern const size_t kedge__tools_count;

#define KEDGE__TOOL(id, name, summary) int kedge__tool_##id(int argc, char **argv);
#include "tool_table.inc"
#undef KEDGE__TOOL

/* ------------------------------------------------------------------ tool_dispatch.c */

/*
 * First of all in main(): a standard stream that was closed before we began would be the number of the next file we
 * open, and what we print would go into a segment. Opened the wrong way round, the stream stays unusable, and a write to
 * it fails as it should.
 */
void kedge__tool_hold_streams(void);
/* Run the tool that argv[0] names, then flush standard output: a write error there is exit code 5. For a family of
 * subcommands, PREFIX is e.g. "kedge plan" and argv its arguments. An unknown name is usage, with the nearest one. */
int kedge__tool_dispatch(const char *prefix, const struct kedge__tool *tools, size_t n, int argc, char **argv);
/* Flush standard output; STATUS, or KEDGE__EXIT_IO if something printed was lost. */
int kedge__tool_finish(const char *prefix, int status);

/* ------------------------------------------------------------------ tool_options.c: getopt_long from a table */

enum kedge__option_kind {
	KEDGE__OPTION_FLAG,  /* bool */
	KEDGE__OPTION_TEXT,  /* const char * */
	KEDGE__OPTION_ONCE,  /* const char *: not to be given twice, since one that is ignored would be missed */
	KEDGE__OPTION_UINT,  /* uint64_t */
	KEDGE__OPTION_RANKS_IN, /* uint64_t: how many ranks are in something, at least 1 */
	KEDGE__OPTION_VERSION, /* uint64_t below KEDGE_VERSION_LIMIT: a new version */
	KEDGE__OPTION_WHICH, /* const char *: a version that there is; see tool_version.c */
	KEDGE__OPTION_SIZE,  /* uint64_t, bytes: 64k, 1MiB */
	KEDGE__OPTION_REAL,  /* double */
	KEDGE__OPTION_LIST,  /* struct kedge__text_list: may be repeated */
};

struct kedge__option {
	const char *name;  /* long name, without dashes */
	char letter;       /* short one, or 0 */
	enum kedge__option_kind kind;
	void *to;          /* what it sets, of the type of its kind */
	const char *arg;   /* "N", "DIR"; NULL for flags */
	const char *help;  /* one or more lines */
};

struct kedge__text_list {
	const char **at; /* the strings are argv's */
	size_t count, room;
};

struct kedge__usage {
	const char *command;  /* "kedge save", "kedge plan eval": prefix of all messages */
	const char *operands; /* "FILE..."; NULL: operands are refused */
	const char *about;    /* what it does, in sentences */
	const struct kedge__option *options;
	size_t option_count;
	const char *example;  /* lines as typed, without prompt */
	bool stop_early;      /* options end at the first operand (`kedge run COMMAND -x`) */
};

/*
 * Parse; --help is in every usage and prints to standard output. True: go on, operands are argv[*first..argc-1].
 * False: return *STATUS (0 after --help, KEDGE__EXIT_USAGE after a message on standard error).
 */
bool kedge__options_parse(const struct kedge__usage *u, int argc, char **argv, int *first, int *status);
/* "kedge save: text" and a hint at --help, on standard error; KEDGE__EXIT_USAGE. */
int kedge__usage_error(const struct kedge__usage *u, const char *fmt, ...) KEDGE__PRINTF(2, 3);

/* Options that several subcommands share. */
#define KEDGE__OPTION_STORE(to) \
	{"store", 's', KEDGE__OPTION_TEXT, (to), "STORE", "the store, a directory (default: the setting l1, which is kedge-store unless you set it)"}
#define KEDGE__OPTION_NAME(to) {"name", 'n', KEDGE__OPTION_TEXT, (to), "NAME", "the name of the job in the store"}
#define KEDGE__OPTION_JSON(to) {"json", 0, KEDGE__OPTION_FLAG, (to), NULL, "print one JSON value on standard output"}
#define KEDGE__OPTION_QUIET(to) {"quiet", 'q', KEDGE__OPTION_FLAG, (to), NULL, "print errors only"}
#define KEDGE__OPTION_L2(to) {"l2", 0, KEDGE__OPTION_TEXT, (to), "STORE", "the second level, used for whatever STORE lacks"}
#define KEDGE__OPTION_SET(to) {"set", 0, KEDGE__OPTION_LIST, (to), "KEY=VALUE", "override a setting of kedge.conf(5); may be repeated"}

/* ------------------------------------------------------------------ tool_report.c: messages and exit codes */

/* "COMMAND: text" on standard error; flushes standard output before, so that a terminal shows both in order. */
void kedge__tool_say(const char *command, const char *fmt, ...) KEDGE__PRINTF(2, 3);
/* "COMMAND: cannot ...: cause"; returns the exit code for ERR and empties it. */
int kedge__tool_fail(const char *command, struct kedge__error *err, const char *fmt, ...) KEDGE__PRINTF(3, 4);
/* The same for a public call that failed with CODE on K (may be NULL). */
int kedge__tool_fail_job(const char *command, const kedge_t *k, int code, const char *fmt, ...) KEDGE__PRINTF(4, 5);
/* Ends the process with a message: for allocations so small that continuing makes no sense. */
_Noreturn void kedge__tool_no_memory(void);

/* ------------------------------------------------------------------ tool_picture.c */

/* DRAW prints WHAT; the file at PATH is replaced when that is complete. */
int kedge__tool_picture(const char *path, void (*draw)(FILE *out, const void *what), const void *what,
			struct kedge__error *err);

/* ------------------------------------------------------------------ tool_signal.c */

/* SIGINT, SIGTERM and SIGHUP, those of them that this process does not ignore. */
void kedge__tool_ending(sigset_t *set);
void kedge__tool_on_ending(void (*handler)(int sig), int flags); /* of sigaction(2) */
/* From now on a signal that ends the process leaves a clean line, and says "COMMAND: interrupted: OUTCOME". Both must stay valid. */
void kedge__tool_interruptible(const char *command, const char *outcome);
void kedge__tool_outcome(const char *outcome); /* another one from now on */

/* Print warnings of the library on standard error as "COMMAND: note: ...". QUIET: errors only. COMMAND must stay valid. */
void kedge__tool_listen(const char *command, bool quiet);
/* From now on, what was printed so is not printed again: many ranks of this process say the same. */
void kedge__tool_listen_once(void);
/* From now on, what was printed so is left off where it is the cause of something else: for a command that ends soon. */
void kedge__tool_causes_once(void);
/* How much of TEXT, "what: cause: cause", is to be printed then. */
size_t kedge__tool_unsaid(const char *text);

/* ------------------------------------------------------------------ tool_settings.c */

/*
 * kedge.conf and KEDGE_* for tools: STORE (may be NULL) overrides l1, SETS are --set arguments (may be NULL). Unless L2,
 * the second level that is configured is that of the configured l1 and not of STORE, which may be the second itself. With L2 the
 * command is a job itself, with rank 0.
 */
int kedge__tool_settings(const char *store, bool l2, const struct kedge__text_list *sets,
			 struct kedge__job_settings *s, struct kedge__error *err);
/* As rank RANK of a job, or KEDGE__RANK_ANY, sees them. */
int kedge__tool_settings_of(const char *store, bool l2, int rank, const struct kedge__text_list *sets,
			    struct kedge__job_settings *s, struct kedge__error *err);
/* PATH as a setting that stands for itself, whatever signs it has; kedge__free(). */
char *kedge__tool_literal(const char *path);
/* A pool of s->threads threads, or as many as the process may run on. */
int kedge__tool_pool(const struct kedge__job_settings *s, struct kedge__pool **pool, struct kedge__error *err);
int kedge__tool_threads(const struct kedge__job_settings *s);
/* Allow as many open files as the system permits: a lineage may be long, and many files may be saved at once. */
void kedge__tool_raise_limits(void);

/* ------------------------------------------------------------------ tool_place.c: a name on one or two levels */

#define KEDGE__PLACE_LEVELS 2

struct kedge__place {
	const char *store, *l2, *name; /* as given; NULL: from the settings, none, the only name there is */
	struct kedge__text_list sets;  /* --set */
	bool json, quiet;
	bool pack;                     /* STORE is one: kedge__place_pack() */
	struct kedge__job_settings settings;
	struct kedge__catalog *levels[KEDGE__PLACE_LEVELS]; /* fastest first; those that exist */
	size_t level_count;
	unsigned level_bits[KEDGE__PLACE_LEVELS];           /* bit 0: levels[i] is L1; bit 1: it is L2 */
	char *only_name;
};

enum kedge__place_mode {
	KEDGE__PLACE_READ, /* all levels, pinned: gc and coalescing wait until kedge__place_done() */
	KEDGE__PLACE_FIRST, /* the first level only, not pinned: for work that takes the guard itself */
	KEDGE__PLACE_ALL,   /* the same for all levels */
};

/* 0; or, if STORE is no store, KEDGE__EXIT_NOTFOUND after a message. */
int kedge__store_check(const struct kedge__usage *u, const char *store);

/* The pack that is named by the operands ARGV[FIRST] to ARGV[ARGC - 1], if any, instead of a store. 0, or an exit code after a message. */
int kedge__place_pack(struct kedge__place *p, const struct kedge__usage *u, int argc, char **argv, int first);
/* The jobs of one level. */
struct kedge__place_names {
	const char *store; /* where it is; NULL: there is no such level */
	char **at;
	size_t count;
	struct kedge__error problem; /* why it cannot be read; code 0: it can */
};
#define KEDGE__PLACE_NAMES_INIT {{.problem = KEDGE__ERROR_INIT}, {.problem = KEDGE__ERROR_INIT}}

/* The names on L1 and L2, as far as MODE uses them; the settings have been read. 0 if L1 can be read or L2 has a name, else an
 * exit code after a message; kedge__place_names_done() in any case. */
int kedge__place_names(const struct kedge__place *p, const struct kedge__usage *u, enum kedge__place_mode mode,
		       struct kedge__place_names names[KEDGE__PLACE_LEVELS]);
void kedge__place_names_done(struct kedge__place_names names[KEDGE__PLACE_LEVELS]);
/* Say, unless it is to be quiet, that level L1 or L2 is left out, and why. */
void kedge__place_ignore(const struct kedge__place *p, const struct kedge__usage *u, unsigned level, const struct kedge__error *err);
/* Read the settings and open the catalogues. 0, or an exit code after a message. */
int kedge__place_open(struct kedge__place *p, const struct kedge__usage *u, enum kedge__place_mode mode);
void kedge__place_done(struct kedge__place *p); /* takes a place that is all zero */
/* The first level's entry of VERSION that can be read, else any, else NULL. */
const struct kedge__catalog_entry *kedge__place_find(const struct kedge__place *p, uint64_t version);
unsigned kedge__place_levels(const struct kedge__place *p, uint64_t version); /* bits as above */
enum { KEDGE__WITH_ABANDONED = 1, KEDGE__WITH_SPARE = 2 };

/* The versions on any level, ascending; kedge__free(). Those that belong to the current run and that `keep` asks for, and those
 * that cannot be read; and others, by the bits of WHICH: abandoned ones, and those that are there only because others refer to them. */
uint64_t *kedge__place_versions(const struct kedge__place *p, unsigned which, size_t *count);
/* The run that they belong to; NULL: there are no versions. */
const struct kedge__run *kedge__place_run(const struct kedge__place *p);

/* ------------------------------------------------------------------ tool_version.c: 7, newest, newest~2, a label */

/* The version that TEXT, or if it is NULL "newest", stands for. 0, or an exit code after a message. */
int kedge__place_version(const struct kedge__place *p, const struct kedge__usage *u, const char *text, uint64_t *version);
/* The same, with its entry, which can be read. */
int kedge__place_choose(const struct kedge__place *p, const struct kedge__usage *u, const char *text, uint64_t *version,
			const struct kedge__catalog_entry **entry);
bool kedge__version_valid(const char *text); /* it could stand for a version */
#define KEDGE__OPTION_CHOOSE(to, help) {"version", 'v', KEDGE__OPTION_WHICH, (to), "V", help " (a number, newest, newest~2 or a label)"}

/* ------------------------------------------------------------------ tool_text.c: numbers and names for people */

#define KEDGE__TEXT_ROOM 48
const char *kedge__text_bytes(uint64_t bytes, char buf[KEDGE__TEXT_ROOM]);    /* "1.50 MiB" */
const char *kedge__text_seconds(double seconds, char buf[KEDGE__TEXT_ROOM]);  /* "12.3 ms", "4.56 s", "2 h 03 min" */
const char *kedge__text_time(uint64_t ns, char buf[KEDGE__TEXT_ROOM]);        /* "2024-05-06 07:08:09", local */
const char *kedge__text_time_iso(uint64_t ns, char buf[KEDGE__TEXT_ROOM]);    /* "2024-05-06T07:08:09Z" */
const char *kedge__text_ratio(uint64_t raw, uint64_t stored, char buf[KEDGE__TEXT_ROOM]); /* "12.3x" */
const char *kedge__text_count(uint64_t n, const char *one, const char *many, char buf[KEDGE__TEXT_ROOM]); /* "1 block", "2 blocks" */
/* A name that may hold anything, made safe for a terminal: control and invalid bytes as \n, \t, \\, \xNN. kedge__free(). */
char *kedge__text_name(const char *name);
char *kedge__text_cell(const char *text); /* the same, but backslashes stay: for text that may contain such names */
/* fprintf() for everything that contains names, paths or causes: bytes that a terminal could take for a command are printed as
 * \xNN; newlines stay. */
void kedge__print(FILE *out, const char *fmt, ...) KEDGE__PRINTF(2, 3);
void kedge__vprint(FILE *out, const char *fmt, va_list ap);
/* One byte of text for XML. */
void kedge__print_xml(FILE *out, char c);

/* ------------------------------------------------------------------ tool_table.c: columns for people */

struct kedge__cell {
	size_t at, bytes; /* of the text */
	size_t width;     /* in characters */
};

struct kedge__table {
	KEDGE__ARRAY(struct kedge__cell) cells;
	struct kedge__bytes text; /* of all of them */
	size_t columns;
	const char *layout; /* one letter per column: 'l' left, 'r' right */
};

void kedge__table_init(struct kedge__table *t, const char *layout); /* LAYOUT must stay valid */
/* One cell, made safe for a terminal; rows follow from the number of columns. The first row is the heading. */
void kedge__table_add(struct kedge__table *t, const char *fmt, ...) KEDGE__PRINTF(2, 3);
void kedge__table_text(struct kedge__table *t, const char *text);       /* the same for "%s", */
void kedge__table_number(struct kedge__table *t, uint64_t number);      /* and for a number, where there are many */
void kedge__table_print(struct kedge__table *t, FILE *out);             /* and empties it */
void kedge__table_drop(struct kedge__table *t);                         /* empties one that is not printed */

/* ------------------------------------------------------------------ tool_json.c: objects that cannot be half built */

/* Each ends the process if memory runs out. In texts that are not UTF-8, every invalid byte becomes U+FFFD. */
json_t *kedge__json_object(void);
json_t *kedge__json_array(void);
void kedge__json_set(json_t *object, const char *key, json_t *value); /* takes VALUE */
void kedge__json_add(json_t *array, json_t *value);                  /* takes VALUE */
void kedge__json_uint(json_t *object, const char *key, uint64_t value);
void kedge__json_real(json_t *object, const char *key, double value); /* infinite or not a number: null */
void kedge__json_bool(json_t *object, const char *key, bool value);
void kedge__json_text(json_t *object, const char *key, const char *value); /* NULL: null */
void kedge__json_version(json_t *object, const char *key, uint64_t version); /* KEDGE__NO_VERSION: null */
json_t *kedge__json_string(const char *text);
void kedge__json_print(json_t *value); /* takes VALUE; to standard output */

/* ------------------------------------------------------------------ tool_bar.c: progress on a terminal */

struct kedge__bar {
	bool on;
	const char *label;
	double began, shown;
	pthread_mutex_t mutex;
};

/* On only if ENABLED and standard error is a terminal. */
void kedge__bar_init(struct kedge__bar *bar, const char *label, bool enabled);
/* CTX is the bar: the form of the progress callbacks of store and restore. Any thread. */
void kedge__bar_update(void *ctx, uint64_t done, uint64_t total);
/* ", 9 s left", ", 2 min 05 s left", ", 3 h 10 min left"; "": it is not worth saying. */
const char *kedge__bar_left(double seconds, char buf[KEDGE__TEXT_ROOM]);
void kedge__bar_label(struct kedge__bar *bar, const char *label); /* LABEL must stay valid */
void kedge__bar_wipe(struct kedge__bar *bar);                     /* off the terminal, until the next update */
void kedge__bar_done(struct kedge__bar *bar);                     /* for good */

#endif
