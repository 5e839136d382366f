/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge cat: files of a pack, or datasets of HDF5 files in it, on standard output. */
#include "cat.h"
#include "restore.h"
#include "tool_bench.h"
#include "tool_files.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct cat {
	struct kedge__usage usage;
	struct kedge__text_list sets;
	bool quiet;
	char *pack;
};

/* FILES, to DIR, "-" for standard output. */
static int restore(const struct cat *c, const char *dir, char *const *files, size_t n)
{
	struct kedge__restore r = KEDGE__RESTORE_INIT;
	char *pack[] = {c->pack};
	int status;

	r.usage = c->usage;
	r.dir = dir;
	r.to_stdout = strcmp(dir, "-") == 0;
	r.copy = !r.to_stdout;
	r.place.quiet = c->quiet || !r.to_stdout;
	for (size_t i = 0; i < c->sets.count; i++)
		if (!kedge__array_push(&r.place.sets, c->sets.at[i]))
			kedge__tool_no_memory();
	status = kedge__place_pack(&r.place, &r.usage, 1, pack, 0);
	kedge__wanted_init(&r.wanted, files, n);
	if (status == 0)
		status = kedge__restore_run(&r);
	kedge__restore_done(&r);
	return status;
}

/* ------------------------------------------------------------------ a dataset, out of a copy of its file */

/* There is no moment at which a signal leaves a copy behind. While the copy is made, the signal is kept, and
 * kedge__restore_run() ends in order; while it is read, the handler removes it; from one to the other, and until all is
 * removed, signals are held. */
static char *volatile copies; /* the directory that has the copy, until it is removed */
static char *volatile copied; /* the copy, while it is read */

/* Only what a signal handler may do: the copy, and the directories that it is in. */
static void interrupt(int sig)
{
	char *path = copied, *slash;

	if (path)
		unlink(path);
	while (path && (slash = strrchr(path, '/')) && slash >= path + strlen(copies)) {
		*slash = '\0';
		rmdir(path);
	}
	raise(sig);
}

static void catch_signals(void)
{
	kedge__tool_on_ending(interrupt, (int)(SA_RESETHAND | SA_NODEFER));
}

/* As long as what the handler sees is not what there is. */
static void hold_signals(sigset_t *before)
{
	sigset_t set;

	kedge__tool_ending(&set);
	sigprocmask(SIG_BLOCK, &set, before);
}

/* However the process ends, by a lack of memory, too. */
static void remove_copies(void)
{
	sigset_t before;

	hold_signals(&before);
	copied = NULL;
	if (copies)
		kedge__bench_dir_remove(copies);
	kedge__free(copies);
	copies = NULL;
	catch_signals();
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static int make_copies(struct kedge__error *err)
{
	static bool registered;
	char *made;
	int rc;

	if (!registered && atexit(remove_copies) != 0)
		return kedge__error_nomem(err);
	registered = true;
	kedge__restore_catch_signals();
	rc = kedge__dir_make(kedge__temporary_directory(), "kedge-cat", &made, err);
	if (!rc)
		copies = made;
	return rc;
}

/* PATH, the copy of FILE, which the handler removes from now on. */
static int print_copy(const struct cat *c, char *path, const char *file, const char *dataset)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	sigset_t before;

	if (!kedge__fs_is_file(path))
		return kedge__usage_error(&c->usage, "'%s' is not the name of one file", file);
	hold_signals(&before);
	copied = path;
	catch_signals();
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (kedge__restore_interrupted()) { /* when the copy was whole, and the handler was still the other one */
		kedge__tool_say(c->usage.command, "interrupted");
		return KEDGE__EXIT_FAILURE;
	}
	if (kedge__cat_dataset(path, file, dataset, &err) != 0)
		return kedge__tool_fail(c->usage.command, &err, "cannot print %s", dataset);
	return 0;
}

static int print_dataset(const struct cat *c, const char *word, const char *colon)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *file = kedge__asprintf("%.*s", (int)(colon - word), word), *name, *path = NULL;
	int status;

	if (!file)
		kedge__tool_no_memory();
	name = kedge__save_region_name(file);
	if (make_copies(&err) != 0)
		status = kedge__tool_fail(c->usage.command, &err, "cannot print %s", word);
	else
		status = restore(c, copies, &file, 1);
	if (status == 0) {
		path = kedge__asprintf("%s/%s", copies, name);
		if (!path)
			kedge__tool_no_memory();
		status = print_copy(c, path, file, colon + 1);
	}
	remove_copies();
	kedge__free(path);
	kedge__free(name);
	kedge__free(file);
	return status;
}

/* ------------------------------------------------------------------ all of them */

/* A dataset is of one file, which has a name; to say so before anything is printed. */
static int check_words(const struct cat *c, char *const *words, int n)
{
	int status = 0;

	for (int i = 0; !status && i < n; i++) {
		const char *colon = strstr(words[i], ":/");
		char *file = colon ? kedge__asprintf("%.*s", (int)(colon - words[i]), words[i]) : NULL;
		char *name = file ? kedge__save_region_name(file) : NULL;

		if (colon && !file)
			kedge__tool_no_memory();
		if (colon && !name)
			status = kedge__usage_error(&c->usage, "'%s' names no file before the dataset: write FILE%s",
						    words[i], colon);
		kedge__free(name);
		kedge__free(file);
	}
	return status;
}

/* Files together, so that they come in one pass; datasets one by one, in their place. */
static int print(const struct cat *c, char **words, int n)
{
	int status = 0, first = 0;

	for (int i = 0; status == 0 && i <= n; i++) {
		const char *colon = i < n ? strstr(words[i], ":/") : NULL;

		if (i < n && !colon)
			continue;
		if (i > first)
			status = restore(c, "-", words + first, (size_t)(i - first));
		if (status == 0 && colon)
			status = print_dataset(c, words[i], colon);
		first = i + 1;
	}
	return status;
}

int kedge__tool_cat(int argc, char **argv)
{
	struct cat c = {.pack = NULL};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_SET(&c.sets),
	    KEDGE__OPTION_QUIET(&c.quiet),
	};
	int first, status;

	c.usage = (struct kedge__usage){
	    .command = "kedge cat",
	    .operands = "PACK FILE|DIR|PATTERN|FILE:/DATASET...",
	    .about = "Writes files of a pack to standard output, one after the other, each when it was verified. "
		     "FILE:/DATASET is\n"
		     "a dataset of an HDF5 file: its values, in the type and the order that the file has them.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge cat run12.kpk work/notes.txt | less\n"
		       "kedge cat run12.kpk step12/rank0.h5:/Grid00000001/Density | od -t f8 | less",
	};
	if (kedge__options_parse(&c.usage, argc, argv, &first, &status)) {
		if (first == argc)
			status = kedge__usage_error(&c.usage, "which pack?");
		else if (first + 1 == argc)
			status = kedge__usage_error(&c.usage, "which file? 'kedge ls %s' lists them", argv[first]);
		else {
			c.pack = argv[first];
			status = check_words(&c, argv + first + 1, argc - first - 1);
			if (status == 0)
				status = print(&c, argv + first + 1, argc - first - 1);
		}
	}
	kedge__array_done(&c.sets);
	return status;
}
