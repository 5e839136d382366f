/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/draw.h"
#include "support.h"

#include <locale.h>
#include <math.h>

struct sample {
	char *store;
	bool paranoid;
	int64_t threads;
	uint64_t chunk;
	uint64_t rate;
	double factor;
	double share;
	int reducer;
};

static const char *const reducers[] = {"full", "basic", "list", "tree", "auto", NULL};

#define AT(field) offsetof(struct sample, field)
static const struct kedge__setting table[] = {
    {"store", KEDGE__SETTING_STRING, AT(store), "kedge-store", 0, 0, NULL, false, "Where to."},
    {"paranoid", KEDGE__SETTING_BOOL, AT(paranoid), "no", 0, 0, NULL, false, "Compare bytes."},
    {"threads", KEDGE__SETTING_INT, AT(threads), "0", 0, 1024, NULL, false, "How many."},
    {"chunk", KEDGE__SETTING_SIZE, AT(chunk), "256", 32, 65536, NULL, false, "Bytes of a chunk."},
    {"rate", KEDGE__SETTING_SIZE, AT(rate), "0", 0, 0, NULL, false, "Bytes a second."},
    {"share", KEDGE__SETTING_REAL, AT(share), "0.5", 0, 1, NULL, false, "Share of time."},
    {"factor", KEDGE__SETTING_REAL, AT(factor), "1", 0, 0, NULL, false, "Any number."},
    {"reducer", KEDGE__SETTING_CHOICE, AT(reducer), "auto", 0, 0, reducers, false, "Which one."},
};
#define N     KEDGE__COUNT(table)
#define IN(v) (&(struct kedge__settings){table, N, (v), NULL})

static const struct kedge__setting *entry(const char *key)
{
	for (size_t i = 0; i < N; i++) {
		if (strcmp(table[i].key, key) == 0)
			return &table[i];
	}
	fail_msg("no key %s", key);
	return NULL;
}

/* With the scratch's path out of the way, messages can be compared whole. */
static int load_text(struct scratch *s, struct sample *v, const char *text, size_t bytes)
{
	file_write(s->file, text, bytes);
	return kedge__settings_load_file(IN(v), s->file, &s->err);
}

static void assert_text_error(struct scratch *s, struct sample *v, const char *text, const char *message)
{
	char *expected = kedge__asprintf("%s%s", s->file, message);

	assert_int_equal(load_text(s, v, text, strlen(text)), KEDGE_E_CONFIG);
	assert_int_equal(s->err.code, KEDGE_E_CONFIG);
	assert_string_equal(s->err.text, expected);
	kedge__free(expected);
}

static void presets(void **state)
{
	struct scratch *s = *state;
	struct sample v;

	assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
	assert_string_equal(v.store, "kedge-store");
	assert_false(v.paranoid);
	assert_int_equal(v.threads, 0);
	assert_int_equal(v.chunk, 256);
	assert_true(v.share == 0.5);
	assert_int_equal(v.reducer, 4);
	kedge__settings_done(table, N, &v);
	assert_null(v.store);
	kedge__settings_done(table, N, &v);
}

static void file_fills_struct(void **state)
{
	static const char text[] = "\xef\xbb\xbf# comment\n"
				   "store = /scratch/a b ; where it is fast\r\n"
				   "\n"
				   "[kedge]\n"
				   "  paranoid=YES\n"
				   "\tthreads : 12\n"
				   "; chunk = 7\n"
				   "Chunk = 64k\n"
				   "rate = 100 MB/s\n"
				   "share = 2.5e-1\n"
				   "reducer = Tree";
	struct scratch *s = *state;
	struct sample v;

	assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
	assert_int_equal(load_text(s, &v, text, strlen(text)), 0);
	assert_string_equal(v.store, "/scratch/a b");
	assert_true(v.paranoid);
	assert_int_equal(v.threads, 12);
	assert_int_equal(v.chunk, 65536);
	assert_int_equal(v.rate, 100 << 20);
	assert_true(v.share == 0.25);
	assert_int_equal(v.reducer, 3);
	assert_int_equal(load_text(s, &v, "store =\n", 8), 0);
	assert_string_equal(v.store, "");
	assert_int_equal(load_text(s, &v, "", 0), 0);
	kedge__settings_done(table, N, &v);
}

static void file_errors(void **state)
{
	struct scratch *s = *state;
	struct sample v;

	assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
	assert_text_error(s, &v, "\n\nredcer = tree\n", ":3: unknown key \"redcer\"; did you mean \"reducer\"?");
	assert_text_error(s, &v, "hcunk = 64", ":1: unknown key \"hcunk\"; did you mean \"chunk\"?");
	assert_text_error(s, &v, "elephant = 64", ":1: unknown key \"elephant\"");
	assert_text_error(s, &v, "chunk = 64\nchunk 32\nreducer = x\n", ":2: not of the form key = value");
	assert_text_error(s, &v, "chunk = 64\nchunk = x\nreducer\n",
			  ":2: chunk: \"x\" is not a size (bytes, or with k, M, G, T) from 32 to 64k");
	assert_text_error(s, &v, "[kedge\n", ":1: not of the form key = value");
	assert_text_error(s, &v, "[job]\nchunk = 64\n", ":2: 'chunk' is in section [job], which is unknown; the only section is [kedge]");
	assert_text_error(s, &v, "chunk =\n",
			  ":1: chunk: \"\" is not a size (bytes, or with k, M, G, T) from 32 to 64k");
	assert_text_error(s, &v, "rate = 5x\n", ":1: rate: \"5x\" is not a size (bytes, or with k, M, G, T)");
	assert_text_error(s, &v, "threads = 1025", ":1: threads: \"1025\" is not a whole number from 0 to 1024");
	assert_text_error(s, &v, "share = 1.5", ":1: share: \"1.5\" is not a number from 0 to 1");
	assert_text_error(s, &v, "paranoid = maybe", ":1: paranoid: \"maybe\" is not yes or no");
	assert_text_error(s, &v, "reducer = tre",
			  ":1: reducer: \"tre\" is not one of full, basic, list, tree, auto; did you mean \"tree\"?");
	assert_text_error(s, &v, "reducer =", ":1: reducer: \"\" is not one of full, basic, list, tree, auto");
	kedge__settings_done(table, N, &v);
}

static void file_that_is_none(void **state)
{
	struct scratch *s = *state;
	char *missing = kedge__asprintf("%s/none.conf", s->dir);
	char *expected = kedge__asprintf("cannot open %s: No such file or directory", missing);
	char *large = calloc(1, 2 << 20);
	struct sample v;

	assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
	assert_int_equal(kedge__settings_load_file(IN(&v), missing, &s->err), KEDGE_E_CONFIG);
	assert_string_equal(s->err.text, expected);
	assert_int_equal(kedge__settings_load_file(IN(&v), missing, NULL), KEDGE_E_CONFIG);
	assert_int_equal(kedge__settings_load_file(IN(&v), s->dir, &s->err), KEDGE_E_CONFIG);
	assert_non_null(strstr(s->err.text, "Is a directory"));
	assert_int_equal(load_text(s, &v, "chunk = 64\0\n", 12), KEDGE_E_CONFIG);
	assert_non_null(strstr(s->err.text, "not a configuration file"));
	memset(large, '#', 2 << 20);
	assert_int_equal(load_text(s, &v, large, 2 << 20), KEDGE_E_CONFIG);
	assert_non_null(strstr(s->err.text, "not a configuration file"));
	kedge__settings_done(table, N, &v);
	kedge__free(missing);
	kedge__free(expected);
	free(large);
}

/* inih would take the end of a line that is too long for it for a line of its own. Values may have any length. */
static void long_lines(void **state)
{
	struct scratch *s = *state;
	char text[1000];
	struct sample v;

	assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
	for (int n = 150; n < 400; n++) {
		int head = snprintf(text, sizeof(text), "chunk = 64\nstore = ");

		memset(text + head, 'x', (size_t)n);
		snprintf(text + head + n, sizeof(text) - (size_t)(head + n), "\nchunk = 32\n");
		assert_int_equal(load_text(s, &v, text, strlen(text)), 0);
		assert_int_equal(strlen(v.store), n);
		assert_int_equal(v.chunk, 32);
		memset(text + head - 8, 'k', 8);
		assert_int_equal(load_text(s, &v, text, strlen(text)), KEDGE_E_CONFIG);
		assert_non_null(strstr(s->err.text, ":2: not of the form key = value"));
	}
	kedge__settings_done(table, N, &v);
}

static char logged[400];

static void log_take(void *user, enum kedge_log_level level, const char *text)
{
	(void)user;
	snprintf(logged, sizeof(logged), "%d %s", (int)level, text);
}

/* What package managers set for any package stops nobody, not even where a setting has nearly that name; other
 * variables that are no setting are spoken of. */
static void environment_of_others(void **state)
{
	static const char *const others[] = {"KEDGE_ROOT", "KEDGE_DIR", "KEDGE_HOME", "KEDGE_PREFIX"};
	static const struct kedge__setting alike[] = {{.key = "rooot", .type = KEDGE__SETTING_BOOL, .preset = "no"}};
	struct scratch *s = *state;
	struct sample v;
	bool flag;

	for (size_t i = 0; i < KEDGE__COUNT(others); i++)
		setenv(others[i], "/opt/kedge", 1);
	logged[0] = '\0';
	kedge_set_log(log_take, NULL);
	assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
	assert_int_equal(kedge__settings_load_env(IN(&v), NULL, &s->err), 0);
	assert_int_equal(kedge__settings_load_env(&(struct kedge__settings){alike, 1, &flag, NULL}, NULL, &s->err), 0);
	assert_string_equal(logged, "");
	setenv("KEDGE_ELEPHANT", "grey", 1);
	assert_int_equal(kedge__settings_load_env(IN(&v), NULL, &s->err), 0);
	assert_string_equal(logged, "3 ignoring KEDGE_ELEPHANT in the environment: it is not a setting");
	setenv("KEDGE_HCUNK", "64", 1);
	assert_int_equal(kedge__settings_load_env(IN(&v), NULL, &s->err), KEDGE_E_CONFIG);
	assert_string_equal(s->err.text, "KEDGE_HCUNK: unknown variable; did you mean KEDGE_CHUNK?");
	kedge_set_log(NULL, NULL);
	for (size_t i = 0; i < KEDGE__COUNT(others); i++)
		unsetenv(others[i]);
	unsetenv("KEDGE_ELEPHANT");
	unsetenv("KEDGE_HCUNK");
	kedge__settings_done(table, N, &v);
}

static const char *const ignored[] = {"KEDGE_CONFIG", "KEDGE_RUN_JOURNAL", NULL};

static void environment(void **state)
{
	struct scratch *s = *state;
	struct sample v;

	assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
	setenv("KEDGE_CONFIG", "x", 1);
	setenv("KEDGE_FAULT", "", 1);
	setenv("KEDGEX", "x", 1);
	setenv("KEDGE_CHUNK", "128", 1);
	setenv("KEDGE_STORE", "/a=b", 1);
	assert_int_equal(kedge__settings_load_env(IN(&v), ignored, &s->err), 0);
	assert_int_equal(v.chunk, 128);
	assert_string_equal(v.store, "/a=b");
	setenv("KEDGE_CHUNK", "1", 1);
	assert_int_equal(kedge__settings_load_env(IN(&v), ignored, &s->err), KEDGE_E_CONFIG);
	assert_string_equal(s->err.text,
			    "KEDGE_CHUNK: chunk: \"1\" is not a size (bytes, or with k, M, G, T) from 32 to 64k");
	unsetenv("KEDGE_CHUNK");
	setenv("KEDGE_REDUCR", "tree", 1);
	assert_int_equal(kedge__settings_load_env(IN(&v), ignored, &s->err), KEDGE_E_CONFIG);
	assert_string_equal(s->err.text, "KEDGE_REDUCR: unknown variable; did you mean KEDGE_REDUCER?");
	unsetenv("KEDGE_REDUCR");
	unsetenv("KEDGE_CONFIG");
	unsetenv("KEDGE_STORE");
	kedge__settings_done(table, N, &v);
}

static void single_values(void **state)
{
	struct scratch *s = *state;
	struct sample v;

	assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
	assert_int_equal(kedge__settings_set(IN(&v), "threads", "+7", KEDGE__FORM_PLAIN, "--set", &s->err), 0);
	assert_int_equal(v.threads, 7);
	assert_int_equal(kedge__settings_set(IN(&v), "treads", "7", KEDGE__FORM_PLAIN, "--set", &s->err),
			 KEDGE_E_CONFIG);
	assert_string_equal(s->err.text, "--set: unknown key \"treads\"; did you mean \"threads\"?");
	assert_int_equal(kedge__settings_set(IN(&v), "threads", "7", KEDGE__FORM_PLAIN, "--set", NULL), 0);
	assert_int_equal(kedge__settings_set(IN(&v), "threads", "x", KEDGE__FORM_PLAIN, "--set", NULL), KEDGE_E_CONFIG);
	assert_int_equal(v.threads, 7);
	kedge__settings_done(table, N, &v);
}

static void bad_numbers(void **state)
{
	static const char *const ints[] = {"", " 1", "1 ", "1.0", "0x10", "-1", "99999999999999999999", "1k", "1025"};
	static const char *const reals[] = {"",     " 0",   "0 ",  "nan", "inf", "0x1p-1",
					    "1.01", "-0.1", "0,5", "1e",  ".",   "+-1"};
	struct scratch *s = *state;
	struct sample v;

	assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
	for (size_t i = 0; i < KEDGE__COUNT(ints); i++)
		assert_int_equal(kedge__settings_set(IN(&v), "threads", ints[i], KEDGE__FORM_PLAIN, "t", &s->err),
				 KEDGE_E_CONFIG);
	for (size_t i = 0; i < KEDGE__COUNT(reals); i++)
		assert_int_equal(kedge__settings_set(IN(&v), "share", reals[i], KEDGE__FORM_PLAIN, "t", &s->err),
				 KEDGE_E_CONFIG);
	assert_int_equal(kedge__settings_set(IN(&v), "factor", "1e400", KEDGE__FORM_PLAIN, "t", &s->err),
			 KEDGE_E_CONFIG);
	assert_string_equal(s->err.text, "t: factor: \"1e400\" is not a number");
	assert_int_equal(v.threads, 0);
	assert_true(v.share == 0.5);
	assert_true(v.factor == 1);
	kedge__settings_done(table, N, &v);
}

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
	    {"0", 0},
	    {"512", 512},
	    {"512B", 512},
	    {"1k", 1024},
	    {"1K", 1024},
	    {"1KiB", 1024},
	    {"1kB", 1024},
	    {"64 k", 65536},
	    {"1MiB", 1 << 20},
	    {"2GB", 2ull << 30},
	    {"3T", 3ull << 40},
	    {"10/s", 10},
	    {"10MB/s", 10 << 20},
	    {"1KiB/s", 1024},
	    {"18446744073709551615", UINT64_MAX},
	    {"16777215T", 16777215ull << 40},
	};
	static const char *const bad[] = {
	    "",    "k",    "-1",   "+1",  " 1",  "1 ",   "1x",        "1kk",
	    "1iB", "1.5k", "0x10", "1k/", "1/m", "1k s", "16777216T", "18446744073709551616",
	    "1P"};
	uint64_t bytes = 5;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(good); i++) {
		assert_int_equal(kedge__size_parse(good[i].text, &bytes), 0);
		assert_int_equal(bytes, good[i].bytes);
	}
	bytes = 5;
	for (size_t i = 0; i < KEDGE__COUNT(bad); i++) {
		if (kedge__size_parse(bad[i], &bytes) != KEDGE_E_ARG)
			fail_msg("\"%s\" is taken for a size", bad[i]);
		assert_int_equal(bytes, 5);
	}
}

static void assert_format(const char *key, const char *value, const char *expected)
{
	struct sample v;
	char *text;

	assert_int_equal(kedge__settings_init(table, N, &v, NULL), 0);
	assert_int_equal(kedge__settings_set(IN(&v), key, value, KEDGE__FORM_PLAIN, "t", NULL), 0);
	text = kedge__settings_format(entry(key), &v);
	assert_string_equal(text, expected);
	assert_int_equal(kedge__settings_set(IN(&v), key, text, KEDGE__FORM_PLAIN, "t", NULL), 0);
	kedge__free(text);
	kedge__settings_done(table, N, &v);
}

static void values_are_written_as_read(void **state)
{
	struct sample v = {0};
	char *text = kedge__settings_format(entry("store"), &v);

	(void)state;
	assert_string_equal(text, "");
	kedge__free(text);
	assert_format("store", "/a b", "/a b");
	assert_format("paranoid", "1", "yes");
	assert_format("paranoid", "off", "no");
	assert_format("threads", "17", "17");
	assert_format("chunk", "65536", "64k");
	assert_format("chunk", "1000", "1000");
	assert_format("rate", "0", "0");
	assert_format("rate", "3072M", "3G");
	assert_format("rate", "2048T", "2048T");
	assert_format("share", "0.1", "0.1");
	assert_format("share", "0.30000000000000004", "0.30000000000000004");
	assert_format("reducer", "BASIC", "basic");
}

/* Runs where such a locale is installed. */
static void locale_does_not_matter(void **state)
{
	(void)state;
	if (!setlocale(LC_ALL, "de_DE.UTF-8"))
		skip();
	assert_format("share", "0.25", "0.25");
	setlocale(LC_ALL, "C");
}

static void bad_preset_is_an_error(void **state)
{
	struct kedge__setting wrong[2] = {table[0], table[3]};
	struct scratch *s = *state;
	struct sample v;

	wrong[1].preset = "7x";
	assert_int_equal(kedge__settings_init(wrong, 2, &v, &s->err), KEDGE_E_CONFIG);
	assert_null(v.store);
}

static int load_once(struct scratch *s, const char *text)
{
	struct sample v;
	int rc = kedge__settings_init(table, N, &v, &s->err);

	if (rc)
		return rc;
	file_write(s->file, text, strlen(text));
	rc = kedge__settings_load_file(IN(&v), s->file, &s->err);
	if (rc == 0)
		rc = kedge__settings_load_env(IN(&v), NULL, &s->err);
	kedge__settings_done(table, N, &v);
	return rc;
}

/* What goes wrong on the way to a message may cost the message, never the code. */
static void allocations_fail_in_turn(void **state)
{
	static const char *const texts[] = {"store = \"${KEDGE_STORE}\" # x\nchunk = 64\n", "redcer = 1\n",
					    "reducer = tre\n", "chunk = 1\n"};
	struct scratch *s = *state;
	char spec[32];

	setenv("KEDGE_STORE", "/y", 1);
	for (size_t t = 0; t < KEDGE__COUNT(texts); t++) {
		int wanted = t == 0 ? 0 : KEDGE_E_CONFIG;
		uint64_t total;

		kedge__fault_set(NULL, NULL);
		assert_int_equal(load_once(s, texts[t]), wanted);
		total = kedge__fault_alloc_count();
		assert_true(total >= 3);
		for (uint64_t i = 1; i <= total; i++) {
			int rc;

			snprintf(spec, sizeof(spec), "alloc@%d", (int)i);
			kedge__fault_set(spec, NULL);
			rc = load_once(s, texts[t]);
			assert_true(rc == KEDGE_E_NOMEM || (wanted && rc == wanted));
			assert_int_equal(s->err.code, rc);
			kedge__error_done(&s->err);
		}
	}
	unsetenv("KEDGE_STORE");
}

/* Whatever stands in a file, it is taken or refused with a message that names the file, and never both. */
static void random_files(void **state)
{
	static const char *const pieces[] = {
	    "chunk", "store", "share",        "reducer", "kedge", "=",  " = ", ":",  "\n",  "\n\n",
	    "\r\n",  " ",     "\t",           "[",       "]",     ";",  " ;",  "#",  "64k", "-1",
	    "1e400", "tree",  "\xef\xbb\xbf", "\xff",    "%s%n",  "no", "\\",  "\"", "",    "/a/b"};
	struct scratch *s = *state;
	uint64_t seed = 20;
	int taken = 0, refused = 0;

	for (int round = 0; round < 1500; round++) {
		char text[512] = "";
		uint64_t n = draw_below(&seed, 25);
		struct sample v;
		int rc;

		for (uint64_t i = 0; i < n; i++)
			strcat(text, pieces[draw_below(&seed, KEDGE__COUNT(pieces))]);
		assert_int_equal(kedge__settings_init(table, N, &v, &s->err), 0);
		kedge__error_done(&s->err);
		rc = load_text(s, &v, text, strlen(text));
		assert_true(rc == 0 || rc == KEDGE_E_CONFIG);
		assert_int_equal(rc, s->err.code);
		if (rc)
			assert_memory_equal(s->err.text, s->file, strlen(s->file));
		taken += rc == 0;
		refused += rc != 0;
		assert_in_range(v.chunk, 32, 65536);
		assert_in_range(v.reducer, 0, 4);
		kedge__settings_done(table, N, &v);
	}
	assert_true(taken > 50);
	assert_true(refused > 500);
}

static void nearest(void **state)
{
	static const char *const words[] = {"l1", "l2", "l2_rate", "reducer", "record_memory", "copy_memory", "codec"};
	char long_word[200];

	(void)state;
	assert_string_equal(kedge__nearest_word("reducer", words, 7), "reducer");
	assert_string_equal(kedge__nearest_word("rdeucer", words, 7), "reducer");
	assert_string_equal(kedge__nearest_word("codecs", words, 7), "codec");
	assert_string_equal(kedge__nearest_word("recordmemory", words, 7), "record_memory");
	assert_string_equal(kedge__nearest_word("l3", words, 7), "l1");
	assert_string_equal(kedge__nearest_word("l2rate", words, 7), "l2_rate");
	assert_null(kedge__nearest_word("x", words, 7));
	assert_null(kedge__nearest_word("", words, 7));
	assert_null(kedge__nearest_word("compression", words, 7));
	assert_null(kedge__nearest_word("codec", words, 0));
	memset(long_word, 'c', sizeof(long_word));
	long_word[sizeof(long_word) - 1] = '\0';
	assert_null(kedge__nearest_word(long_word, words, 7));
}

/* Settings of whoever runs the tests would be taken for the tests' own. */
static int clear_environment(void **state)
{
	(void)state;
	for (char **e = environ; *e;) {
		char *name = strndup(*e, strcspn(*e, "="));

		if (strncmp(name, "KEDGE_", 6) == 0)
			unsetenv(name);
		else
			e++;
		free(name);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    scratch_test(presets),
	    scratch_test(file_fills_struct),
	    scratch_test(file_errors),
	    scratch_test(file_that_is_none),
	    scratch_test(long_lines),
	    scratch_test(environment),
	    scratch_test(environment_of_others),
	    scratch_test(single_values),
	    scratch_test(bad_numbers),
	    scratch_test(sizes),
	    scratch_test(values_are_written_as_read),
	    scratch_test(locale_does_not_matter),
	    scratch_test(bad_preset_is_an_error),
	    scratch_test(allocations_fail_in_turn),
	    scratch_test(random_files),
	    scratch_test(nearest),
	};

	return cases_run(argc, argv, tests, clear_environment, NULL);
}
