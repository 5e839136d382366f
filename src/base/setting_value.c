/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/setting_value.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const char units[] = "kmgt";

/* The power of 1024 that TEXT names: "", "B", "k", "KiB", "kB" and so on, then "/s" or nothing; -1 if it names none. */
static int unit_shift(const char *text)
{
	const char *unit = *text ? strchr(units, tolower((unsigned char)*text)) : NULL;
	int shift = unit ? 10 * (int)(unit - units + 1) : 0;

	text += unit ? 1 : 0;
	if (unit && strncasecmp(text, "ib", 2) == 0)
		text += 2;
	else if (*text == 'b' || *text == 'B')
		text++;
	if (strcmp(text, "/s") == 0)
		text += 2;
	return *text ? -1 : shift;
}

int kedge__size_parse(const char *text, uint64_t *bytes)
{
	unsigned long long value;
	char *end;
	int shift;

	/* strtoull() would accept a sign, and turn a negative number into a large one. */
	if (!isdigit((unsigned char)*text))
		return KEDGE_E_ARG;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return KEDGE_E_ARG;
	if (*end == ' ' && end[1])
		end++;
	shift = unit_shift(end);
	if (shift < 0 || value > UINT64_MAX >> shift)
		return KEDGE_E_ARG;
	*bytes = (uint64_t)value << shift;
	return 0;
}

static void size_format(uint64_t bytes, char *text, size_t room)
{
	int unit = 0;

	while (bytes && bytes % 1024 == 0 && unit < 4) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, room, "%llu%.*s", (unsigned long long)bytes, unit ? 1 : 0, unit ? &"kMGT"[unit - 1] : "");
}

/* Numbers in files have a decimal point, whatever the locale of the application. */
static double real_read(const char *text, char **end)
{
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	double value;

	if (!plain)
		return strtod(text, end);
	value = strtod_l(text, end, plain);
	freelocale(plain);
	return value;
}

static void real_format(double value, char *text, size_t room)
{
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	locale_t old = plain ? uselocale(plain) : (locale_t)0;

	snprintf(text, room, "%.15g", value);
	if (real_read(text, NULL) != value)
		snprintf(text, room, "%.17g", value);
	if (plain) {
		uselocale(old);
		freelocale(plain);
	}
}

static bool in_bounds(const struct kedge__setting *s, double value)
{
	return s->min >= s->max || (value >= s->min && value <= s->max);
}

static void bound_format(const struct kedge__setting *s, double bound, char *text, size_t room)
{
	if (s->type == KEDGE__SETTING_SIZE)
		size_format(bound < 0x1p64 ? (uint64_t)bound : UINT64_MAX, text, room);
	else
		real_format(bound, text, room);
}

static int fail_number(const struct kedge__setting *s, const char *text, const char *kind, struct kedge__error *err)
{
	char least[40], most[40];

	if (s->min >= s->max)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "%s: \"%s\" is not %s", s->key, text, kind);
	bound_format(s, s->min, least, sizeof(least));
	bound_format(s, s->max, most, sizeof(most));
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "%s: \"%s\" is not %s from %s to %s", s->key, text, kind, least,
				most);
}

static int parse_string(const struct kedge__setting *s, void *field, const char *text, struct kedge__error *err)
{
	char *copy = kedge__strdup(text);

	(void)s;
	if (!copy)
		return kedge__error_nomem(err);
	kedge__free(*(char **)field);
	*(char **)field = copy;
	return 0;
}

static int parse_bool(const struct kedge__setting *s, void *field, const char *text, struct kedge__error *err)
{
	static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};

	for (size_t i = 0; i < KEDGE__COUNT(words); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*(bool *)field = i % 2 == 1;
			return 0;
		}
	}
	return kedge__error_set(err, KEDGE_E_CONFIG, 0, "%s: \"%s\" is not yes or no", s->key, text);
}

static int parse_int(const struct kedge__setting *s, void *field, const char *text, struct kedge__error *err)
{
	long long value;
	char *end;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || end == text || *end || isspace((unsigned char)*text) || !in_bounds(s, (double)value))
		return fail_number(s, text, "a whole number", err);
	*(int64_t *)field = value;
	return 0;
}

static int parse_size(const struct kedge__setting *s, void *field, const char *text, struct kedge__error *err)
{
	uint64_t bytes;

	if (kedge__size_parse(text, &bytes) != 0 || !in_bounds(s, (double)bytes))
		return fail_number(s, text, "a size (bytes, or with k, M, G, T)", err);
	*(uint64_t *)field = bytes;
	return 0;
}

static int parse_real(const struct kedge__setting *s, void *field, const char *text, struct kedge__error *err)
{
	double value = 0;
	char *end = NULL;

	/* These characters exclude other things that strtod() accepts: hexadecimal, infinity, nan, leading space. */
	if (*text && !text[strspn(text, "0123456789.eE+-")])
		value = real_read(text, &end);
	if (!end || end == text || *end || !isfinite(value) || !in_bounds(s, value))
		return fail_number(s, text, "a number", err);
	*(double *)field = value;
	return 0;
}

static int fail_choice(const struct kedge__setting *s, const char *text, size_t n, struct kedge__error *err)
{
	const char *nearest = kedge__nearest_word(text, s->choices, n);
	char *list = NULL;

	for (size_t i = 0; i < n; i++) {
		char *longer = list ? kedge__asprintf("%s, %s", list, s->choices[i]) : kedge__strdup(s->choices[i]);

		kedge__free(list);
		list = longer;
		if (!list)
			return kedge__error_nomem(err);
	}
	kedge__error_set(err, KEDGE_E_CONFIG, 0, "%s: \"%s\" is not one of %s%s%s%s", s->key, text, list ? list : "",
			 nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
	kedge__free(list);
	return KEDGE_E_CONFIG;
}

static int parse_choice(const struct kedge__setting *s, void *field, const char *text, struct kedge__error *err)
{
	int i;

	for (i = 0; s->choices[i]; i++) {
		if (strcasecmp(text, s->choices[i]) == 0) {
			*(int *)field = i;
			return 0;
		}
	}
	return fail_choice(s, text, (size_t)i, err);
}

static char *format_string(const struct kedge__setting *s, const void *field)
{
	const char *text = *(char *const *)field;

	(void)s;
	return kedge__strdup(text ? text : "");
}

static char *format_bool(const struct kedge__setting *s, const void *field)
{
	(void)s;
	return kedge__strdup(*(const bool *)field ? "yes" : "no");
}

static char *format_int(const struct kedge__setting *s, const void *field)
{
	(void)s;
	return kedge__asprintf("%lld", (long long)*(const int64_t *)field);
}

static char *format_size(const struct kedge__setting *s, const void *field)
{
	char text[40];

	(void)s;
	size_format(*(const uint64_t *)field, text, sizeof(text));
	return kedge__strdup(text);
}

static char *format_real(const struct kedge__setting *s, const void *field)
{
	char text[40];

	(void)s;
	real_format(*(const double *)field, text, sizeof(text));
	return kedge__strdup(text);
}

static char *format_choice(const struct kedge__setting *s, const void *field)
{
	return kedge__strdup(s->choices[*(const int *)field]);
}

static const struct {
	int (*parse)(const struct kedge__setting *s, void *field, const char *text, struct kedge__error *err);
	char *(*format)(const struct kedge__setting *s, const void *field);
} types[] = {
    [KEDGE__SETTING_STRING] = {parse_string, format_string}, [KEDGE__SETTING_PLACE] = {parse_string, format_string},
    [KEDGE__SETTING_BOOL] = {parse_bool, format_bool},       [KEDGE__SETTING_INT] = {parse_int, format_int},
    [KEDGE__SETTING_SIZE] = {parse_size, format_size},       [KEDGE__SETTING_REAL] = {parse_real, format_real},
    [KEDGE__SETTING_CHOICE] = {parse_choice, format_choice},
};

int kedge__setting_parse(const struct kedge__setting *setting, void *settings, const char *text,
			 struct kedge__error *err)
{
	return types[setting->type].parse(setting, (char *)settings + setting->offset, text, err);
}

char *kedge__settings_format(const struct kedge__setting *setting, const void *settings)
{
	return types[setting->type].format(setting, (const char *)settings + setting->offset);
}
