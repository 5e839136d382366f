/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge cat: files of a pack, or datasets of HDF5 files in it, on standard output. */
#include "cat.h"
#include "restore.h"
#include "tool_bench.h"
#include "tool_files.h"

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

/* The file of WORD, "FILE:/DATASET", is put into DIR; it has its name there, which has no pattern in it. */
static int print_from(const struct cat *c, const char *dir, char *file, const char *dataset)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int status = restore(c, dir, &file, 1);
	char *name = status ? NULL : kedge__save_region_name(file), *path;

	if (status)
		return status;
	path = name ? kedge__asprintf("%s/%s", dir, name) : NULL;
	if (!path)
		kedge__tool_no_memory();
	if (!kedge__fs_is_file(path))
		status = kedge__usage_error(&c->usage, "'%s' is not the name of one file", file);
	else if (kedge__cat_dataset(path, file, dataset, &err) != 0)
		status = kedge__tool_fail(c->usage.command, &err, "cannot print %s", dataset);
	kedge__free(path);
	kedge__free(name);
	return status;
}

static int print_dataset(const struct cat *c, const char *word, const char *colon)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *file = kedge__asprintf("%.*s", (int)(colon - word), word), *dir;
	int status;

	if (!file)
		kedge__tool_no_memory();
	if (kedge__dir_make(kedge__temporary_directory(), "kedge-cat", &dir, &err) != 0) {
		kedge__free(file);
		return kedge__tool_fail(c->usage.command, &err, "cannot print %s", word);
	}
	status = print_from(c, dir, file, colon + 1);
	kedge__bench_dir_remove(dir);
	kedge__free(dir);
	kedge__free(file);
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
			status = print(&c, argv + first + 1, argc - first - 1);
		}
	}
	kedge__array_done(&c.sets);
	return status;
}
