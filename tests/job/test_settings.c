/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/job.h"
#include "support.h"

static struct kedge__error err;

static int load(const char *config, const char *const *overrides, struct kedge__job_settings *s)
{
	const struct kedge__job_sources from = {.config = config, .overrides = overrides, .call = "kedge_open"};

	return kedge__job_settings_load(&from, s, &err);
}

static void config_write(const struct place *p, char *path, size_t room, const char *text)
{
	text_make(path, room, "%s/kedge.ini", p->dir);
	file_write(path, text, strlen(text));
}

static int clean(void **state)
{
	kedge__error_done(&err);
	unsetenv("KEDGE_CHUNK");
	unsetenv("KEDGE_CHUNKS");
	unsetenv("KEDGE_CONFIG");
	return place_teardown(state);
}

static void test_presets(void **state)
{
	struct kedge__job_settings s;

	(void)state;
	assert_int_equal(load(NULL, NULL, &s), 0);
	assert_string_equal(s.l1, "kedge-store");
	assert_string_equal(s.l2, "");
	assert_int_equal(s.reducer, KEDGE__REDUCER_AUTO);
	assert_int_equal(s.chunk, 256);
	assert_int_equal(s.block, 128 << 10);
	assert_int_equal(s.capture, KEDGE__CAPTURE_SYNC);
	assert_int_equal(s.copy_memory, UINT64_C(4) << 30);
	assert_true(s.sync && !s.paranoid);
	kedge__job_settings_done(&s);
}

/* File, then environment over it, then what the program says over both. */
static void test_precedence(void **state)
{
	struct kedge__job_settings s;
	char path[400];

	config_write(*state, path, sizeof(path), "[kedge]\nchunk = 64\nthreads = 3\ncapture = copy\n");
	assert_int_equal(load(path, NULL, &s), 0);
	assert_int_equal(s.chunk, 64);
	assert_int_equal(s.capture, KEDGE__CAPTURE_COPY);
	kedge__job_settings_done(&s);
	setenv("KEDGE_CONFIG", path, 1);
	setenv("KEDGE_CHUNK", "128", 1);
	assert_int_equal(load(NULL, NULL, &s), 0);
	assert_int_equal(s.chunk, 128);
	assert_int_equal(s.threads, 3);
	kedge__job_settings_done(&s);
	assert_int_equal(load(NULL, MORE("chunk=32", "reducer=tree"), &s), 0);
	assert_int_equal(s.chunk, 32);
	assert_int_equal(s.reducer, KEDGE__REDUCER_TREE);
	kedge__job_settings_done(&s);
}

/* A place per rank: every rank of a group has its own. */
static void test_rank(void **state)
{
	static const char *const l1[] = {"l1=/local/%r/x", NULL};
	const struct kedge__job_sources from = {.overrides = l1, .call = "kedge_open", .rank = 17};
	struct kedge__job_settings s;

	(void)state;
	assert_int_equal(kedge__job_settings_load(&from, &s, &err), 0);
	assert_string_equal(s.l1, "/local/17/x");
	kedge__job_settings_done(&s);
}

static void refused(const char *const *overrides, const char *word)
{
	struct kedge__job_settings s;

	assert_int_equal(load(NULL, overrides, &s), KEDGE_E_CONFIG);
	if (!strstr(kedge__error_text(&err), word))
		fail_msg("\"%s\" is not in \"%s\"", word, kedge__error_text(&err));
}

static void test_errors_name_the_cause(void **state)
{
	struct kedge__job_settings s;
	char path[400];

	refused(MORE("chunk=100"), "power of two");
	refused(MORE("pattern=48"), "power of two");
	refused(MORE("pattern=512"), "pattern");
	refused(MORE("chunk=16"), "chunk");
	refused(MORE("chunk=128k"), "chunk");
	refused(MORE("chunck=64"), "chunk");
	refused(MORE("reducer=trees"), "tree");
	refused(MORE("codec=zip"), "codec");
	refused(MORE("threads=-1"), "threads");
	refused(MORE("nonsense"), "key=value");
	refused(MORE("gpu_memory=half"), "gpu_memory");
	refused(MORE("gpu_memory=101%"), "percentage");
	refused(MORE("gpu_memory=-1%"), "percentage");
	refused(MORE("gpu_memory=10%%"), "percentage");
	refused(MORE("gpu_turns=maybe"), "gpu_turns");
	refused(MORE("l1="), "l1");
	refused(MORE("l1=/x", "l2=/x"), "same directory");
	refused(MORE("l1=/no/such", "l2=/no//./such/"), "same directory");
	refused(MORE("l1=/tmp", "l2=/tmp/../tmp/."), "same directory");
	config_write(*state, path, sizeof(path), "chunk = 64\nkeeep = 3\n");
	assert_int_equal(load(path, NULL, &s), KEDGE_E_CONFIG);
	assert_non_null(strstr(kedge__error_text(&err), "keep"));
	assert_non_null(strstr(kedge__error_text(&err), "2"));
	assert_int_not_equal(load("/nonexistent/kedge.ini", NULL, &s), 0);
	setenv("KEDGE_CHUNKS", "64", 1);
	assert_int_equal(load(NULL, NULL, &s), KEDGE_E_CONFIG);
	assert_non_null(strstr(kedge__error_text(&err), "KEDGE_CHUNKS"));
}

static void gpu_gets(const char *memory, uint64_t limit, const char *turns, const char *queues)
{
	struct kedge__gpu g = {.memory = 1000};
	struct kedge__job_settings s;

	assert_int_equal(load(NULL, MORE(memory, turns), &s), 0);
	assert_int_equal(kedge__job_settings_gpu(&s, &g, &err), 0);
	assert_int_equal(g.limit, limit);
	if (queues)
		assert_string_equal(g.queues, queues);
	else
		assert_null(g.queues);
	kedge__job_settings_done(&s);
}

static void test_gpu(void **state)
{
	(void)state;
	gpu_gets("threads=1", 250, "threads=1", "");
	gpu_gets("gpu_memory=2k", 2048, "gpu_turns=no", NULL);
	gpu_gets("gpu_memory=0", 0, "gpu_turns=yes", "");
	gpu_gets("gpu_memory=12.5%", 125, "gpu_turns=/run/queues", "/run/queues");
	gpu_gets("gpu_memory=0.001%", 1, "gpu_turns=no", NULL); /* 0 would be no limit */
	gpu_gets("gpu_memory=100%", 1000, "gpu_turns=no", NULL);
}

static void test_every_key_is_documented(void **state)
{
	(void)state;
	for (size_t i = 0; i < kedge__job_settings_count; i++) {
		assert_non_null(kedge__job_settings_table[i].doc);
		assert_true(strlen(kedge__job_settings_table[i].doc) > 10);
		assert_non_null(kedge__job_settings_table[i].preset);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_presets, place_setup, clean),
	    cmocka_unit_test_setup_teardown(test_precedence, place_setup, clean),
	    cmocka_unit_test_setup_teardown(test_rank, place_setup, clean),
	    cmocka_unit_test_setup_teardown(test_errors_name_the_cause, place_setup, clean),
	    cmocka_unit_test_setup_teardown(test_gpu, place_setup, clean),
	    cmocka_unit_test_setup_teardown(test_every_key_is_documented, place_setup, clean),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
