/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench process: how long a process stands still while it is captured, and how long until its version is
 * complete, beside a copy of the same pages, gcore and CRIU; and how long a restart takes, beside a cold start of the
 * same program.
 */
#include "bench_process.h"

#include <stdlib.h>
#include <unistd.h>

static int run(struct kedge__bench_process *b)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	ssize_t n = readlink("/proc/self/exe", b->self, sizeof(b->self) - 1);
	int rc;

	if (n < 0)
		return kedge__tool_fail(b->usage.command, &err, "cannot find this program");
	b->self[n] = '\0';
	rc = kedge__bench_dir_use(b->parent, kedge__bench_process_measure, b, &err);
	if (!rc)
		(b->json ? kedge__bench_process_json : kedge__bench_process_text)(b);
	for (size_t i = 0; i < KEDGE__PEERS; i++)
		kedge__free(b->peers[i].missing);
	for (size_t i = 0; i < KEDGE__STARTS; i++)
		kedge__free(b->starts[i].missing);
	kedge__array_done(&b->rows);
	return rc ? kedge__tool_fail(b->usage.command, &err, "cannot measure") : KEDGE__EXIT_OK;
}

static int check(const struct kedge__bench_process *b)
{
	if (kedge__process_unsupported())
		return kedge__usage_error(&b->usage, "%s", kedge__process_unsupported());
	if (!b->repeat || b->repeat > KEDGE__BENCH_TURNS)
		return kedge__usage_error(&b->usage, "--repeat takes 1 to %d", KEDGE__BENCH_TURNS);
	if (b->size < KEDGE__PAGE_BYTES || b->size % KEDGE__PAGE_BYTES)
		return kedge__usage_error(&b->usage, "--size takes a multiple of 4 KiB");
	for (size_t i = 0; i < b->dirty.count; i++) {
		char *end;
		double percent = strtod(b->dirty.at[i], &end);

		if (*end || !(percent > 0 && percent <= 100))
			return kedge__usage_error(&b->usage, "--dirty takes a percentage above 0, up to 100");
	}
	return KEDGE__EXIT_OK;
}

int kedge__bench_process(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct kedge__bench_process b = {
	    .size = UINT64_C(1) << 30,
	    .repeat = 5,
	    .parent = tmp && *tmp ? tmp : "/tmp",
	    .peers = {{.name = "gcore"}, {.name = "criu"}},
	    .starts = {{.name = "small"}, {.name = "python3 with numpy"}, {.name = "large"}}};
	const struct kedge__option options[] = {
	    {"size", 0, KEDGE__OPTION_SIZE, &b.size, "BYTES", "memory of the program (default: 1GiB)"},
	    {"dirty", 0, KEDGE__OPTION_LIST, &b.dirty, "PERCENT",
	     "how many of its pages it changes between captures; may be given again\n(default: 0.1, 1, 10 and 100)"},
	    {"writes", 0, KEDGE__OPTION_FLAG, &b.writes, NULL,
	     "the program goes on changing these pages while it is captured (default: it does so before)"},
	    {"repeat", 0, KEDGE__OPTION_UINT, &b.repeat, "N", "turns, 1 to 64 (default: 5)"},
	    {"dir", 0, KEDGE__OPTION_TEXT, &b.parent, "DIR", "where to write (default: $TMPDIR, or /tmp)"},
	    KEDGE__OPTION_SET(&b.sets),
	    KEDGE__OPTION_JSON(&b.json),
	};
	int first, status;

	/* What is captured is this program, too. */
	if (argc == 3 && strcmp(argv[1], "program") == 0)
		return kedge__bench_process_program(strtoull(argv[2], NULL, 10));
	b.usage = (struct kedge__usage){
	    .command = "kedge bench process",
	    .about =
		"Captures and restarts programs as 'kedge run --transparent' does: how long they stand still, beside "
		"a copy of the\n"
		"same pages, gcore and CRIU, and how long a restart takes, beside a cold start. Needs four times "
		"the size in\n"
		"memory, and as much in the directory. What it writes is removed.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge bench process --json\nkedge bench process --size 256MiB --dirty 1 --set reducer=rex",
	};
	if (kedge__options_parse(&b.usage, argc, argv, &first, &status)) {
		status = check(&b);
		if (!status)
			status = run(&b);
	}
	kedge__array_done(&b.dirty);
	kedge__array_done(&b.sets);
	return status;
}
