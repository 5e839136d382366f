/* SPDX-License-Identifier: BSD-3-Clause */
#include "cases.h"

#include "require.h"

#include <fnmatch.h>
#include <string.h>

struct choice {
	bool list;
	char *chosen; /* one a case: to be run */
};

static int refuse(const char *program, const char *what, const char *which)
{
	fprintf(stderr, "%s: %s%s\nusage: %s [--list] [--case NAME]...\n", program, what, which, program);
	return 2;
}

static size_t choose(const struct cases *cases, const char *pattern, char *chosen)
{
	size_t found = 0;

	for (size_t i = 0; i < cases->count; i++) {
		if (fnmatch(pattern, cases->at[i].name, 0) == 0) {
			chosen[i] = 1;
			found++;
		}
	}
	return found;
}

static int parse(int argc, char **argv, const struct cases *cases, struct choice *choice)
{
	bool some = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--list") == 0) {
			choice->list = true;
			continue;
		}
		if (strcmp(argv[i], "--case") != 0)
			return refuse(argv[0], "there is no argument ", argv[i]);
		if (++i == argc)
			return refuse(argv[0], "--case needs the name of a case", "");
		if (!choose(cases, argv[i], choice->chosen))
			return refuse(argv[0], "--list shows no case ", argv[i]);
		some = true;
	}
	if (!some)
		memset(choice->chosen, 1, cases->count);
	return 0;
}

static int list(const struct cases *cases, const char *chosen)
{
	for (size_t i = 0; i < cases->count; i++)
		if (chosen[i])
			puts(cases->at[i].name);
	return 0;
}

static int run(const struct cases *cases, const char *chosen)
{
	struct CMUnitTest *tests = malloc((cases->count + 1) * sizeof(*tests));
	size_t n = 0;
	int status;

	if (cases->here && !cases->here()) {
		free(tests);
		return 77;
	}
	REQUIRE(tests);
	for (size_t i = 0; i < cases->count; i++)
		if (chosen[i])
			tests[n++] = cases->at[i];
	status = _cmocka_run_group_tests("tests", tests, n, cases->setup, cases->teardown);
	free(tests);
	return status;
}

int cases_main(int argc, char **argv, const struct cases *cases)
{
	struct choice choice = {.chosen = calloc(1, cases->count + 1)};
	int status;

	REQUIRE(choice.chosen && setenv("XDG_CONFIG_HOME", "/nonexistent", 1) == 0); /* settings of who runs the tests */
	status = parse(argc, argv, cases, &choice);
	if (!status)
		status = choice.list ? list(cases, choice.chosen) : run(cases, choice.chosen);
	free(choice.chosen);
	return status;
}
