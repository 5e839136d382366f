/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/cases.h"
#include "base/line.h"

#include <stdio.h>

static void test_nested(void **state)
{
	struct kedge__line l;
	char *text;

	(void)state;
	kedge__line_begin(&l);
	kedge__line_uint(&l, "n", UINT64_MAX);
	kedge__line_list(&l, "list");
	kedge__line_item(&l);
	kedge__line_bool(&l, "yes", true);
	kedge__line_close(&l);
	kedge__line_item(&l);
	kedge__line_close(&l);
	kedge__line_close(&l);
	kedge__line_object(&l, "o");
	kedge__line_seconds(&l, "s", 1.5);
	kedge__line_seconds(&l, "never", 1 / 0.0);
	assert_int_equal(kedge__line_end(&l, &text, NULL), 0);
	assert_string_equal(text, "{\"n\":18446744073709551615,\"list\":[{\"yes\":true},{}],\"o\":{\"s\":1.500000,"
				  "\"never\":null}}\n");
	kedge__free(text);
}

/* One event stays one line, whatever names and paths hold. */
static void test_any_text(void **state)
{
	struct kedge__line l;
	char *text;

	(void)state;
	kedge__line_begin(&l);
	kedge__line_text(&l, "t", "a\"\\\n\x01 \xc3\xa4 \xff \xc3");
	kedge__line_text(&l, "none", NULL);
	assert_int_equal(kedge__line_end(&l, &text, NULL), 0);
	assert_string_equal(text,
			    "{\"t\":\"a\\\"\\\\\\u000a\\u0001 \xc3\xa4 \xef\xbf\xbd \xef\xbf\xbd\",\"none\":null}\n");
	kedge__free(text);
}

static void test_without_memory(void **state)
{
	(void)state;
	for (int n = 1; n < 100; n++) {
		struct kedge__line l;
		char spec[32], *text;
		int rc;

		snprintf(spec, sizeof(spec), "alloc@%d", n);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		kedge__line_begin(&l);
		for (int i = 0; i < 20; i++)
			kedge__line_text(&l, "key", "a text that needs some room");
		rc = kedge__line_end(&l, &text, NULL);
		kedge__fault_set(NULL, NULL);
		if (!rc) {
			assert_true(n > 1);
			assert_int_equal(text[strlen(text) - 1], '\n');
			kedge__free(text);
			return;
		}
		assert_int_equal(rc, KEDGE_E_NOMEM);
	}
	fail();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nested),
	    cmocka_unit_test(test_any_text),
	    cmocka_unit_test(test_without_memory),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
