/* SPDX-License-Identifier: BSD-3-Clause */
/* quantity: numbers with units, as people write them. */
#include "plan/plan.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct unit {
	const char *name;
	double factor;
};

static const struct unit times[] = {
    {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},  {"s", 1},           {"sec", 1},      {"min", 60},
    {"h", 3600},  {"d", 86400}, {"w", 604800}, {"month", 2592000}, {"y", 31557600}, {NULL, 0},
};

static const struct unit sizes[] = {
    {"B", 1},        {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"PB", 1e15},    {"EB", 1e18},
    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"PiB", 0x1p50}, {"EiB", 0x1p60}, {NULL, 0},
};

static const struct unit shares[] = {{"%", 0.01}, {NULL, 0}};

static const char *const examples[] = {
    [KEDGE__QUANTITY_NUMBER] = "a number such as 0.5, 1/8 or 16%",
    [KEDGE__QUANTITY_SECONDS] = "a time such as 90, 90s, 15min, 13h, 30d, 2y",
    [KEDGE__QUANTITY_BYTES] = "a size such as 29GB (1000s) or 32GiB (1024s)",
    [KEDGE__QUANTITY_RATE] = "a rate such as 2e-6 (1/s), 3/d or 1/13h",
    [KEDGE__QUANTITY_BANDWIDTH] = "a bandwidth such as 6.4GB/s",
};

static int wrong(enum kedge__quantity kind, const char *text, const char *why, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_ARG, 0, "'%s' %s: expected %s", text, why, examples[kind]);
}

/* A number in decimal; strtod() would also take hexadecimal, inf and nan. */
static bool parse_number(const char **at, double *out)
{
	const char *digits = *at + (**at == '+' || **at == '-');
	char *end;

	if (strspn(digits, "0123456789.") == 0 || (digits[0] == '0' && (digits[1] | 32) == 'x'))
		return false;
	*out = strtod(*at, &end);
	if (end == *at)
		return false;
	*at = end;
	return true;
}

static const char *skip_blanks(const char *s)
{
	return s + strspn(s, " \t");
}

/* One of UNITS at *AT, up to a '/' or the end; none at all is allowed. */
static bool parse_unit(const struct unit *units, const char **at, double *factor)
{
	size_t len;

	*at = skip_blanks(*at);
	len = strcspn(*at, " \t/");
	*factor = 1;
	if (len == 0)
		return true;
	for (const struct unit *u = units; u->name != NULL; u++) {
		if (strlen(u->name) != len || memcmp(u->name, *at, len) != 0)
			continue;
		*factor = u->factor;
		*at = skip_blanks(*at + len);
		return true;
	}
	return false;
}

/* "/ 13 h", "/s": seconds that a rate is per. */
static bool parse_per(const char **at, double *seconds)
{
	double factor;

	*at = skip_blanks(*at + 1);
	*seconds = 1;
	parse_number(at, seconds);
	if (!parse_unit(times, at, &factor))
		return false;
	*seconds *= factor;
	return *seconds > 0;
}

/* "/ 8": a fraction. */
static bool parse_over(const char **at, double *value)
{
	*at = skip_blanks(*at + 1);
	return parse_number(at, value) && *value > 0;
}

int kedge__quantity_parse(enum kedge__quantity kind, const char *text, double *out, struct kedge__error *err)
{
	static const struct unit none[] = {{NULL, 0}};
	const struct unit *const units[] = {
	    [KEDGE__QUANTITY_NUMBER] = shares, [KEDGE__QUANTITY_SECONDS] = times,   [KEDGE__QUANTITY_BYTES] = sizes,
	    [KEDGE__QUANTITY_RATE] = none,     [KEDGE__QUANTITY_BANDWIDTH] = sizes,
	};
	const char *at = skip_blanks(text);
	double value, factor, per = 1;

	if (!parse_number(&at, &value))
		return wrong(kind, text, "is not a number", err);
	if (!parse_unit(units[kind], &at, &factor))
		return wrong(kind, text, "has an unknown unit", err);
	if (*at == '/') {
		bool fits = kind == KEDGE__QUANTITY_NUMBER                                      ? parse_over(&at, &per)
			    : kind == KEDGE__QUANTITY_RATE || kind == KEDGE__QUANTITY_BANDWIDTH ? parse_per(&at, &per)
												: false;

		if (!fits)
			return wrong(kind, text, "has an unknown unit", err);
	}
	if (*skip_blanks(at) != '\0')
		return wrong(kind, text, "has something after its unit", err);
	value = value * factor / per;
	if (!isfinite(value))
		return wrong(kind, text, "is too large", err);
	if (value < 0)
		return wrong(kind, text, "is negative", err);
	*out = value;
	return 0;
}

int kedge__quantity_parse_list(enum kedge__quantity kind, const char *text, double *out, size_t room, size_t *count,
			       struct kedge__error *err)
{
	char word[64];
	size_t n = 0;

	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");
		int rc;

		if (n == room)
			return kedge__error_set(err, KEDGE_E_ARG, 0, "'%s' has more than %zu values", text, room);
		if (len == 0 || len >= sizeof(word))
			return wrong(kind, text, "has an empty or overlong value", err);
		memcpy(word, at, len);
		word[len] = '\0';
		rc = kedge__quantity_parse(kind, word, &out[n++], err);
		if (rc != 0)
			return rc;
		at += len;
		if (*at == '\0')
			break;
	}
	*count = n;
	return 0;
}
