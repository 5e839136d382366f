/* SPDX-License-Identifier: BSD-3-Clause */
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

struct heard {
	int calls;
	enum kedge_log_level level;
	char *text;
};

static void listen(void *user, enum kedge_log_level level, const char *text)
{
	struct heard *h = user;

	h->calls++;
	h->level = level;
	errno = 1;
	free(h->text);
	h->text = strdup(text);
}

static void message_reaches_callback(void **state)
{
	struct heard h = {0};

	(void)state;
	kedge__log(KEDGE_LOG_ERROR, "nobody listens");
	kedge_set_log(listen, &h);
	errno = 77;
	kedge__log(KEDGE_LOG_NOTICE, "version %d", 5);
	assert_int_equal(errno, 77);
	assert_int_equal(h.calls, 1);
	assert_int_equal(h.level, KEDGE_LOG_NOTICE);
	assert_string_equal(h.text, "version 5");
	kedge_set_log(NULL, NULL);
	kedge__log(KEDGE_LOG_ERROR, "nobody listens");
	assert_int_equal(h.calls, 1);
	free(h.text);
}

static void long_message_is_whole(void **state)
{
	struct heard h = {0};

	(void)state;
	kedge_set_log(listen, &h);
	kedge__log(KEDGE_LOG_INFO, "%*d|", 4000, 1);
	assert_int_equal(strlen(h.text), 4001);
	assert_string_equal(h.text + 3999, "1|");
	kedge__fault_set("alloc@1", NULL);
	kedge__log(KEDGE_LOG_INFO, "a%*d|", 4000, 1);
	kedge__fault_set(NULL, NULL);
	assert_int_equal(h.calls, 2);
	assert_int_equal(h.text[0], 'a');
	assert_int_equal(strlen(h.text), 511);
	kedge_set_log(NULL, NULL);
	free(h.text);
}

static atomic_int heard_of_a, heard_of_b;

static void count_in(void *user, enum kedge_log_level level, const char *text)
{
	(void)level, (void)text;
	atomic_fetch_add((atomic_int *)user, 1);
}

/* Which pair a callback belongs to must not be torn: each function checks that it got its own user pointer. */
static void expect_b(void *user, enum kedge_log_level level, const char *text)
{
	if (user == &heard_of_b)
		count_in(user, level, text);
}

static void expect_a(void *user, enum kedge_log_level level, const char *text)
{
	if (user == &heard_of_a)
		count_in(user, level, text);
}

static void *speak(void *ctx)
{
	(void)ctx;
	for (int i = 0; i < 5000; i++)
		kedge__log(KEDGE_LOG_DEBUG, "message %d", i);
	return NULL;
}

static void pair_changes_while_threads_speak(void **state)
{
	pthread_t threads[3];

	(void)state;
	kedge_set_log(expect_a, &heard_of_a);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, speak, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		kedge_set_log(expect_b, &heard_of_b);
		kedge_set_log(expect_a, &heard_of_a);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	kedge_set_log(NULL, NULL);
	assert_int_equal(atomic_load(&heard_of_a) + atomic_load(&heard_of_b), 15000);
}

static void clocks_go_forward(void **state)
{
	double t = kedge__clock_seconds();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		double next = kedge__clock_seconds();

		assert_true(next >= t);
		t = next;
	}
	assert_true(kedge__clock_wall_ns() > 1600000000ull * 1000000000ull);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(message_reaches_callback),
	    cmocka_unit_test(long_message_is_whole),
	    cmocka_unit_test(pair_changes_while_threads_speak),
	    cmocka_unit_test(clocks_go_forward),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
