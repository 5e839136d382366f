/* SPDX-License-Identifier: BSD-3-Clause */
#include "support.h"

#include <errno.h>

static void text_names_cause_and_errno(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	errno = 77;
	assert_int_equal(kedge__error_set(&err, KEDGE_E_IO, ENOSPC, "cannot write %s", "/x"), KEDGE_E_IO);
	assert_int_equal(errno, 77);
	assert_int_equal(err.code, KEDGE_E_IO);
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_string_equal(kedge__error_text(&err), "cannot write /x: No space left on device");
	assert_int_equal(kedge__error_set(&err, KEDGE_E_ARG, 0, "<%s>", kedge__error_text(&err)), KEDGE_E_ARG);
	assert_string_equal(err.text, "<cannot write /x: No space left on device>");
	assert_int_equal(err.sys_errno, 0);
	kedge__error_done(&err);
	assert_null(err.text);
	assert_int_equal(err.code, 0);
}

static void prefix_keeps_code(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_int_equal(kedge__error_prefix(&err, "nothing"), KEDGE_E_INTERNAL);
	assert_int_equal(kedge__error_prefix(NULL, "nothing"), KEDGE_E_INTERNAL);
	kedge__error_set(&err, KEDGE_E_DAMAGED, 0, "block %d", 3);
	assert_int_equal(kedge__error_prefix(&err, "version %d", 9), KEDGE_E_DAMAGED);
	assert_string_equal(err.text, "version 9: block 3");
	kedge__error_nomem(&err);
	assert_int_equal(kedge__error_prefix(&err, "open"), KEDGE_E_NOMEM);
	assert_string_equal(err.text, "open: out of memory");
	kedge__error_done(&err);
}

static void null_is_allowed(void **state)
{
	(void)state;
	assert_int_equal(kedge__error_set(NULL, KEDGE_E_ARG, 0, "x"), KEDGE_E_ARG);
	assert_int_equal(kedge__error_nomem(NULL), KEDGE_E_NOMEM);
	assert_string_equal(kedge__error_text(NULL), "no error");
	kedge__error_done(NULL);
}

static void move_empties_source(void **state)
{
	struct kedge__error a = KEDGE__ERROR_INIT, b = KEDGE__ERROR_INIT;

	(void)state;
	kedge__error_set(&a, KEDGE_E_ARG, 0, "a");
	kedge__error_set(&b, KEDGE_E_IO, 0, "b");
	kedge__error_move(&a, &b);
	assert_int_equal(a.code, KEDGE_E_IO);
	assert_string_equal(a.text, "b");
	assert_null(b.text);
	assert_int_equal(b.code, 0);
	kedge__error_move(NULL, &a);
	assert_null(a.text);
}

static void errno_maps(void **state)
{
	static const int pairs[][2] = {
	    {ENOSPC, KEDGE_E_NOSPACE}, {EDQUOT, KEDGE_E_NOSPACE}, {EACCES, KEDGE_E_ACCESS},
	    {EROFS, KEDGE_E_ACCESS},   {EPERM, KEDGE_E_ACCESS},   {ENOENT, KEDGE_E_MISSING},
	    {ENOMEM, KEDGE_E_NOMEM},   {EIO, KEDGE_E_IO},         {EBADF, KEDGE_E_IO},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(pairs); i++)
		assert_int_equal(kedge__error_from_errno(pairs[i][0]), pairs[i][1]);
}

static void every_code_has_text(void **state)
{
	(void)state;
	assert_string_equal(kedge_strerror(0), "no error");
	assert_string_equal(kedge_strerror(1), "unknown error code");
	assert_string_equal(kedge_strerror(-10000), "unknown error code");
#define KEDGE_X(name, code, text) assert_string_equal(kedge_strerror(KEDGE_E_##name), text);
	KEDGE_ERRORS(KEDGE_X)
#undef KEDGE_X
}

/* Whichever allocation fails, code and errno are right and there is a text. */
static void allocations_fail_in_turn(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char spec[32];

	(void)state;
	for (int i = 1; i <= 5; i++) {
		snprintf(spec, sizeof(spec), "alloc@%d", i);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		kedge__error_set(&err, KEDGE_E_IO, EIO, "cannot write %s", "/x");
		kedge__error_prefix(&err, "version %d", 4);
		assert_int_equal(kedge__fault_set(NULL, NULL), 0);
		assert_int_equal(err.code, KEDGE_E_IO);
		assert_int_equal(err.sys_errno, EIO);
		assert_true(strlen(kedge__error_text(&err)) > 0);
		if (i == 5)
			assert_string_equal(err.text, "version 4: cannot write /x: Input/output error");
		else
			assert_string_not_equal(kedge__error_text(&err),
						"version 4: cannot write /x: Input/output error");
		kedge__error_done(&err);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(text_names_cause_and_errno),
	    cmocka_unit_test(prefix_keeps_code),
	    cmocka_unit_test(null_is_allowed),
	    cmocka_unit_test(move_empties_source),
	    cmocka_unit_test(errno_maps),
	    cmocka_unit_test(every_code_has_text),
	    cmocka_unit_test(allocations_fail_in_turn),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
