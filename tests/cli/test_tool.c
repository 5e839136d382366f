/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the command that need no store: options, numbers, names, tables. */
#include <stddef.h>
#include <stdint.h>

#include "../lib/cases.h"
#include "save_files.h"
#include "tool.h"
#include "tool_files.h"
#include "tool_walk.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The table of subcommands is main.c's. */
const struct kedge__tool kedge__tools[] = {{"help", "", NULL}};
const size_t kedge__tools_count = 1;

static void region_names(void **state)
{
	static const char *const pairs[][2] = {
	    {"a", "a"},
	    {"./a", "a"},
	    {"a//b/./c", "a/b/c"},
	    {"/etc/fstab", "etc/fstab"},
	    {"../x/y", "x/y"},
	    {"a/../b", "b"},
	    {"../../a", "a"},
	    {"a/b/../../c", "c"},
	    {"a/..", NULL},
	    {"/", NULL},
	    {".", NULL},
	    {"..", NULL},
	    {"...", "..."},
	    {"a/b/..", "a"},
	    {"..a/b..", "..a/b.."},
	    {"a/", "a"},
	    {"a b\n", "a b\n"},
	    {"", NULL},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(pairs); i++) {
		char *name = kedge__save_region_name(pairs[i][0]);

		if (pairs[i][1])
			assert_string_equal(name, pairs[i][1]);
		else
			assert_null(name);
		kedge__free(name);
	}
}

static void patterns(void **state)
{
	static const struct {
		const char *pattern, *name;
		bool directory, fits;
	} cases[] = {
	    {"*.o", "a/b.o", false, true},
	    {"*.o", "a/b.c", false, false},
	    {"*.o", "x.o/y", false, true},
	    {"b", "a/b/c", false, true},
	    {"b", "a/bb", false, false},
	    {"a/b", "x/a/b/c", false, true},
	    {"/a/b", "x/a/b", false, false},
	    {"/a/b", "a/b", false, true},
	    {"/a", "a/b/c", false, true},
	    {"a/*/c", "a/b/c", false, true},
	    {"a/*/c", "a/b/b/c", false, false},
	    {"a/**/c", "a/b/b/c", false, true},
	    {"cache/", "a/cache", false, false},
	    {"cache/", "a/cache", true, true},
	    {"cache/", "a/cache/x", false, true},
	    {"/cache/", "cache", false, false},
	    {"[ab]?", "x/a1", false, true},
	    {"", "a", false, false},
	    {"/", "a", false, false},
	    {"\\*", "a*", false, false},
	    {"\\*", "*", false, true},
	    {".*", "a/.git/config", false, true},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(cases); i++)
		if (kedge__pattern_fits(cases[i].pattern, cases[i].name, cases[i].directory) != cases[i].fits)
			fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].name);
}

static void numbers(void **state)
{
	char buf[KEDGE__TEXT_ROOM];

	(void)state;
	assert_string_equal(kedge__text_bytes(0, buf), "0 B");
	assert_string_equal(kedge__text_bytes(999, buf), "999 B");
	assert_string_equal(kedge__text_bytes(1000, buf), "0.98 KiB");
	assert_string_equal(kedge__text_bytes(1536, buf), "1.50 KiB");
	assert_string_equal(kedge__text_bytes(UINT64_C(100) << 20, buf), "100 MiB");
	assert_string_equal(kedge__text_bytes(UINT64_MAX, buf), "16.0 EiB");
	assert_string_equal(kedge__text_seconds(0, buf), "0 us");
	assert_string_equal(kedge__text_seconds(0.0123, buf), "12.3 ms");
	assert_string_equal(kedge__text_seconds(4.5, buf), "4.5 s");
	assert_string_equal(kedge__text_seconds(125, buf), "2 min 05 s");
	assert_string_equal(kedge__text_seconds(7384, buf), "2 h 03 min");
	assert_string_equal(kedge__text_ratio(100, 10, buf), "10.0x");
	assert_string_equal(kedge__text_ratio(0, 0, buf), "0.00x");
	assert_string_equal(kedge__text_count(1, "file", "files", buf), "1 file");
	assert_string_equal(kedge__text_count(0, "file", "files", buf), "0 files");
	assert_string_equal(kedge__text_time_iso(UINT64_C(86400) * 1000000000, buf), "1970-01-02T00:00:00Z");
}

static void types(void **state)
{
	enum kedge_type type;

	(void)state;
	for (int i = 0; i < KEDGE_TYPE_COUNT; i++) {
		assert_true(kedge__type_parse(kedge__type_name((uint32_t)i), &type));
		assert_int_equal(type, i);
	}
	assert_false(kedge__type_parse("f65", &type));
	assert_string_equal(kedge__type_name(KEDGE_TYPE_COUNT), "?");
}

static void safe_names(void **state)
{
	static const char *const pairs[][2] = {
	    {"plain", "plain"},
	    {"a\nb", "a\\nb"},
	    {"a\\b", "a\\\\b"},
	    {"\033[31m", "\\x1b[31m"},
	    {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
	    {"\xff", "\\xff"},
	    {"\xc2\x9b", "\\xc2\\x9b"},
	    {"\xc3", "\\xc3"},
	    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(pairs); i++) {
		char *name = kedge__text_name(pairs[i][0]);

		assert_string_equal(name, pairs[i][1]);
		kedge__free(name);
	}
}

static void safe_messages(void **state)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	kedge__print(out, "%s: %d\n%s\n", "a\033]0;title\007\tb\\n", 7, "\xc2\x9bm\r\xc3\xbc\xff");
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "a\\x1b]0;title\\x07\\tb\\n: 7\n\\xc2\\x9bm\\x0d\xc3\xbc\\xff\n");
	free(text);
}

static void json_of_bad_text(void **state)
{
	json_t *v = kedge__json_string("a\xff"
				       "b\xc3\xbc\xc3");

	(void)state;
	assert_non_null(v);
	assert_string_equal(json_string_value(v), "a\xef\xbf\xbd"
						  "b\xc3\xbc\xef\xbf\xbd");
	json_decref(v);
}

static void tables(void **state)
{
	struct kedge__table t;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	kedge__table_init(&t, "lrl");
	for (int i = 0; i < 3; i++)
		kedge__table_add(&t, "%s", i == 0 ? "NAME" : i == 1 ? "N" : "REST");
	kedge__table_add(&t, "\xc3\xbc");
	kedge__table_add(&t, "%d", 100);
	kedge__table_add(&t, "x");
	kedge__table_add(&t, "\033");
	kedge__table_add(&t, "a\nb");
	kedge__table_add(&t, "a\\b");
	kedge__table_print(&t, out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "NAME     N  REST\n\xc3\xbc      100  x\n\\x1b  a\\nb  a\\b\n");
	free(text);
}

struct parsed {
	bool flag;
	const char *text;
	uint64_t number, size, version;
	double real;
	struct kedge__text_list list;
	int first, status;
};

static bool parse(struct parsed *p, bool stop_early, char **argv)
{
	const struct kedge__option options[] = {
	    {"flag", 'f', KEDGE__OPTION_FLAG, &p->flag, NULL, "a flag"},
	    {"text", 't', KEDGE__OPTION_TEXT, &p->text, "TEXT", "a text"},
	    {"number", 0, KEDGE__OPTION_UINT, &p->number, "N", "a number"},
	    {"size", 0, KEDGE__OPTION_SIZE, &p->size, "BYTES", "a size"},
	    {"version", 'v', KEDGE__OPTION_VERSION, &p->version, "N", "a version"},
	    {"real", 0, KEDGE__OPTION_REAL, &p->real, "X", "a real"},
	    {"set", 0, KEDGE__OPTION_LIST, &p->list, "K=V", "a list"},
	};
	const struct kedge__usage usage = {"kedge test",          "ARG...", "Tests.",  options,
					   KEDGE__COUNT(options), "x",      stop_early};
	int argc = 0;

	while (argv[argc])
		argc++;
	return kedge__options_parse(&usage, argc, argv, &p->first, &p->status);
}

static void options_good(void **state)
{
	struct parsed p = {0}, q = {0};

	(void)state;
	assert_true(parse(&p, false,
			  (char *[]){"test", "op", "-f", "--text=a b", "--number", "7", "--size", "64k", "-v", "3",
				     "--real", "-1e3", "--set", "a=1", "--set", "b=2", NULL}));
	assert_true(p.flag);
	assert_string_equal(p.text, "a b");
	assert_int_equal(p.number, 7);
	assert_int_equal(p.size, 65536);
	assert_int_equal(p.version, 3);
	assert_true(p.real == -1e3);
	assert_int_equal(p.list.count, 2);
	assert_string_equal(p.list.at[1], "b=2");
	assert_int_equal(p.first, 15);
	kedge__array_done(&p.list);

	assert_true(parse(&q, true, (char *[]){"test", "command", "-f", NULL}));
	assert_false(q.flag);
	assert_int_equal(q.first, 1);
}

static void options_bad(void **state)
{
	char *const lines[][4] = {
	    {"test", "--flagg", NULL},
	    {"test", "-x", NULL},
	    {"test", "--text", NULL},
	    {"test", "-t", NULL},
	    {"test", "--number", "-1", NULL},
	    {"test", "--number", "1x", NULL},
	    {"test", "--size", "1q", NULL},
	    {"test", "--real", "abc", NULL},
	    {"test", "--flag=yes", NULL},
	    {"test", "--real", "inf", NULL},
	    {"test", "--number", "99999999999999999999", NULL},
	    {"test", "-v", "18446744073709551615", NULL},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(lines); i++) {
		struct parsed p = {0};
		char *argv[4];

		memcpy(argv, lines[i], sizeof(argv));
		assert_false(parse(&p, false, argv));
		assert_int_equal(p.status, KEDGE__EXIT_USAGE);
	}
}

static void time_left(void **state)
{
	static const struct {
		double seconds;
		const char *text;
	} cases[] = {{0, ""},
		     {-1, ""},
		     {0.3, ""},
		     {9.2, ", 9 s left"},
		     {125, ", 2 min 05 s left"},
		     {11400, ", 3 h 10 min left"},
		     {1e300, ""}};
	char a[KEDGE__TEXT_ROOM];

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(cases); i++)
		assert_string_equal(kedge__bar_left(cases[i].seconds, a), cases[i].text);
}

/* Ctrl-C: what became of the work, on a line of its own, and the process ends by the signal. */
static void interrupted(void **state)
{
	char text[200] = "";
	int ends[2], status;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		kedge__tool_interruptible("kedge save", "nothing was saved");
		raise(SIGINT);
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "kedge save: interrupted: nothing was saved\n");
	close(ends[0]);
}

static void exit_codes(void **state)
{
	(void)state;
	assert_int_equal(kedge__exit_from_error(0), 0);
#define KEDGE__X(name, code, text) assert_in_range(kedge__exit_from_error(code), 2, 7);
	KEDGE_ERRORS(KEDGE__X)
#undef KEDGE__X
	assert_int_equal(kedge__exit_from_error(KEDGE_E_LOCKED), KEDGE__EXIT_LOCKED);
	assert_int_equal(kedge__exit_from_error(KEDGE_E_MISSING), KEDGE__EXIT_DAMAGED);
	assert_int_equal(kedge__exit_from_error(KEDGE_E_NOSPACE), KEDGE__EXIT_IO);
}

/* More files than a version has room for are refused before the first of them is read. */
static void room_for_files(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_int_equal(kedge__save_room(1048573, &err), 0);
	assert_int_equal(kedge__save_room(1200000, &err), KEDGE_E_LIMIT);
	assert_non_null(strstr(kedge__error_text(&err), "1200000 files"));
	assert_non_null(strstr(kedge__error_text(&err), "--exclude"));
	kedge__error_done(&err);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(region_names), cmocka_unit_test(patterns),         cmocka_unit_test(numbers),
	    cmocka_unit_test(types),        cmocka_unit_test(safe_names),       cmocka_unit_test(safe_messages),
	    cmocka_unit_test(tables),       cmocka_unit_test(json_of_bad_text), cmocka_unit_test(options_good),
	    cmocka_unit_test(options_bad),  cmocka_unit_test(exit_codes),       cmocka_unit_test(time_left),
	    cmocka_unit_test(interrupted),  cmocka_unit_test(room_for_files),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
