/* SPDX-License-Identifier: BSD-3-Clause */
/* json: jansson with the checks in one place: a value is built entirely, or the process ends. */
#include "tool.h"
#include <math.h>

json_t *kedge__json_object(void)
{
	json_t *v = json_object();

	if (!v)
		kedge__tool_no_memory();
	return v;
}

json_t *kedge__json_array(void)
{
	json_t *v = json_array();

	if (!v)
		kedge__tool_no_memory();
	return v;
}

void kedge__json_set(json_t *object, const char *key, json_t *value)
{
	if (!value || json_object_set_new(object, key, value) != 0)
		kedge__tool_no_memory();
}

void kedge__json_add(json_t *array, json_t *value)
{
	if (!value || json_array_append_new(array, value) != 0)
		kedge__tool_no_memory();
}

void kedge__json_uint(json_t *object, const char *key, uint64_t value)
{
	kedge__json_set(object, key, json_integer((json_int_t)KEDGE__MIN(value, (uint64_t)INT64_MAX)));
}

void kedge__json_real(json_t *object, const char *key, double value)
{
	kedge__json_set(object, key, isfinite(value) ? json_real(value) : json_null());
}

void kedge__json_bool(json_t *object, const char *key, bool value)
{
	kedge__json_set(object, key, json_boolean(value));
}

/* TEXT with U+FFFD in place of every byte that is not part of a UTF-8 character. */
static json_t *repaired_string(const char *text)
{
	char *out = kedge__malloc(3 * strlen(text) + 1), *p = out;
	json_t *v;

	if (!out)
		kedge__tool_no_memory();
	while (*text) {
		size_t n = 1, rest = strlen(text);
		json_t *c = NULL;

		for (; !c && n <= KEDGE__MIN(rest, 4); n++)
			c = json_stringn(text, n);
		n--;
		memcpy(p, c ? text : "\xef\xbf\xbd", c ? n : 3);
		p += c ? n : 3;
		text += c ? n : 1;
		json_decref(c);
	}
	*p = '\0';
	v = json_string(out);
	kedge__free(out);
	return v;
}

json_t *kedge__json_string(const char *text)
{
	json_t *v = json_string(text);

	return v ? v : repaired_string(text);
}

void kedge__json_text(json_t *object, const char *key, const char *value)
{
	kedge__json_set(object, key, value ? kedge__json_string(value) : json_null());
}

void kedge__json_version(json_t *object, const char *key, uint64_t version)
{
	if (version == KEDGE__NO_VERSION)
		kedge__json_set(object, key, json_null());
	else
		kedge__json_uint(object, key, version);
}

void kedge__json_print(json_t *value)
{
	/* A failed write is left in the stream's error flag, where kedge__tool_finish() sees it. */
	if (json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) != 0 &&
	    !ferror(stdout))
		kedge__tool_no_memory();
	putchar('\n');
	json_decref(value);
}
