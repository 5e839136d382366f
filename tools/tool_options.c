/* SPDX-License-Identifier: BSD-3-Clause */
/* options: getopt_long driven by a table, so that --help, parsing and messages cannot disagree. */
#include "tool.h"
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>

enum { HELP = 256, FIRST = 257, HELP_COLUMN = 28 };

static bool is_flag(const struct kedge__option *o)
{
	return o->kind == KEDGE__OPTION_FLAG;
}

static void print_indented(const char *text, int column)
{
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (line != text)
			printf("%*s", column, "");
		printf("%.*s\n", (int)strcspn(line, "\n"), line);
	}
}

static void print_option(const struct kedge__option *o)
{
	char left[128];
	int n;

	n = o->letter ? snprintf(left, sizeof(left), "  -%c, --%s", o->letter, o->name)
		      : snprintf(left, sizeof(left), "      --%s", o->name);
	if (!is_flag(o))
		n += snprintf(left + n, sizeof(left) - (size_t)n, " %s", o->arg);
	if (n > HELP_COLUMN - 2)
		printf("%s\n%*s", left, HELP_COLUMN, "");
	else
		printf("%-*s", HELP_COLUMN, left);
	print_indented(o->help, HELP_COLUMN);
}

static void print_help(const struct kedge__usage *u)
{
	printf("usage: %s [OPTION]...%s%s\n\n%s\n\noptions:\n", u->command, u->operands ? " " : "",
	       u->operands ? u->operands : "", u->about);
	for (size_t i = 0; i < u->option_count; i++)
		print_option(&u->options[i]);
	print_option(&(struct kedge__option){"help", 'h', KEDGE__OPTION_FLAG, NULL, NULL, "print this help and exit"});
	if (u->example) {
		printf("\nexample:\n  ");
		print_indented(u->example, 2);
	}
}

static int usage_error(const struct kedge__usage *u, const char *fmt, va_list ap)
{
	fflush(stdout);
	fprintf(stderr, "%s: ", u->command);
	kedge__vprint(stderr, fmt, ap);
	fprintf(stderr, "\nTry '%s --help'.\n", u->command);
	return KEDGE__EXIT_USAGE;
}

int kedge__usage_error(const struct kedge__usage *u, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	usage_error(u, fmt, ap);
	va_end(ap);
	return KEDGE__EXIT_USAGE;
}

static bool parse_uint(const char *text, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (errno || *end)
		return false;
	*value = v;
	return true;
}

_Static_assert(KEDGE__RANK_LIMIT == 10000000, "take() says so");
_Static_assert(KEDGE_VERSION_LIMIT - 1 == 9223372036854775806, "take() says so");

static bool is_rank_count(const uint64_t *value)
{
	return *value >= 1 && *value <= KEDGE__RANK_LIMIT;
}

static bool parse_version(const char *text, uint64_t *value)
{
	uint64_t v;

	if (!parse_uint(text, &v) || v >= KEDGE_VERSION_LIMIT)
		return false;
	*value = v;
	return true;
}

static bool parse_real(const char *text, double *value)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !isfinite(v))
		return false;
	*value = v;
	return true;
}

/* NULL, or a description of a valid VALUE. */
static const char *take(const struct kedge__option *o, const char *value)
{
	switch (o->kind) {
	case KEDGE__OPTION_FLAG:
		*(bool *)o->to = true;
		return NULL;
	case KEDGE__OPTION_TEXT:
	case KEDGE__OPTION_ONCE:
		*(const char **)o->to = value;
		return NULL;
	case KEDGE__OPTION_UINT:
		return parse_uint(value, o->to) ? NULL : "a number of 0 or more";
	case KEDGE__OPTION_RANKS_IN:
		return parse_uint(value, o->to) && is_rank_count(o->to) ? NULL : "from 1 to 10000000";
	case KEDGE__OPTION_VERSION:
		return parse_version(value, o->to) ? NULL : "a version number, from 0 to 9223372036854775806";
	case KEDGE__OPTION_WHICH:
		*(const char **)o->to = value;
		return kedge__version_valid(value)
			   ? NULL
			   : "a version: its number, newest, newest~2 (two before it), or a label";
	case KEDGE__OPTION_SIZE:
		return kedge__size_parse(value, o->to) == 0 ? NULL : "a size such as 4096, 64k or 1MiB";
	case KEDGE__OPTION_REAL:
		return parse_real(value, o->to) ? NULL : "a number";
	case KEDGE__OPTION_LIST:
		if (!kedge__array_push((struct kedge__text_list *)o->to, value))
			kedge__tool_no_memory();
		return NULL;
	}
	return "something else";
}

/* What getopt_long() is given: all of the table, and --help. */
struct spec {
	struct option *longs;
	const char **names;
	char *shorts;
};

static void spec_done(struct spec *s)
{
	kedge__free(s->longs);
	kedge__free(s->names);
	kedge__free(s->shorts);
}

static void spec_init(struct spec *s, const struct kedge__usage *u)
{
	size_t n = u->option_count, at = 0;

	s->longs = kedge__calloc(n + 2, sizeof(*s->longs));
	s->names = kedge__calloc(n + 1, sizeof(*s->names));
	s->shorts = kedge__malloc(2 * n + 5);
	if (!s->longs || !s->names || !s->shorts)
		kedge__tool_no_memory();
	if (u->stop_early)
		s->shorts[at++] = '+';
	s->shorts[at++] = ':';
	s->shorts[at++] = 'h';
	for (size_t i = 0; i < n; i++) {
		const struct kedge__option *o = &u->options[i];

		s->names[i] = o->name;
		s->longs[i] =
		    (struct option){o->name, is_flag(o) ? no_argument : required_argument, NULL, FIRST + (int)i};
		if (!o->letter)
			continue;
		s->shorts[at++] = o->letter;
		if (!is_flag(o))
			s->shorts[at++] = ':';
	}
	s->names[n] = "help";
	s->longs[n] = (struct option){"help", no_argument, NULL, HELP};
	s->shorts[at] = '\0';
}

static const struct kedge__option *find(const struct kedge__usage *u, int c)
{
	if (c >= FIRST)
		return &u->options[c - FIRST];
	for (size_t i = 0; i < u->option_count; i++)
		if (u->options[i].letter == c)
			return &u->options[i];
	return NULL;
}

static bool starts_several(const struct kedge__usage *u, const char *word, size_t length)
{
	size_t n = 0;

	for (size_t i = 0; i < u->option_count; i++)
		n += strncmp(u->options[i].name, word, length) == 0;
	return n > 1;
}

static int refuse_unknown(const struct kedge__usage *u, const struct spec *s, char *const *argv, int letter)
{
	const char *arg = argv[optind - 1], *nearest;
	char word[64];

	if (letter && letter < HELP)
		return kedge__usage_error(u, "unknown option '-%c'", letter);
	if (letter) /* a flag written as --flag=value */
		return kedge__usage_error(u, "option '%.*s' takes no value", (int)strcspn(arg, "="), arg);
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	if (starts_several(u, word, strlen(word)))
		return kedge__usage_error(u, "option '--%s' is ambiguous", word);
	nearest = kedge__nearest_word(word, s->names, u->option_count + 1);
	if (nearest)
		return kedge__usage_error(u, "unknown option '--%s'; did you mean '--%s'?", word, nearest);
	return kedge__usage_error(u, "unknown option '--%s'", word);
}

static int take_option(const struct kedge__usage *u, const struct spec *s, int c, char **argv)
{
	const struct kedge__option *o;
	const char *wanted;

	if (c == '?')
		return refuse_unknown(u, s, argv, optopt);
	o = find(u, c == ':' ? optopt : c);
	if (c == ':')
		return kedge__usage_error(u, "option '%s' needs a value: %s", argv[optind - 1], o ? o->arg : "");
	if (o->kind == KEDGE__OPTION_ONCE && *(const char **)o->to)
		return kedge__usage_error(u, "--%s is given twice, as '%s' and as '%s': one is possible", o->name,
					  *(const char **)o->to, optarg);
	wanted = take(o, optarg);
	if (wanted)
		return kedge__usage_error(u, "--%s must be %s, not '%s'", o->name, wanted, optarg);
	return 0;
}

static int parse(const struct kedge__usage *u, const struct spec *s, int argc, char **argv, bool *help)
{
	int c, status;

	optind = 0; /* GNU: start afresh, even in a process that has parsed before */
	opterr = 0;
	while ((c = getopt_long(argc, argv, s->shorts, s->longs, NULL)) != -1) {
		if (c == 'h' || c == HELP) {
			*help = true;
			return 0;
		}
		status = take_option(u, s, c, argv);
		if (status)
			return status;
	}
	return 0;
}

bool kedge__options_parse(const struct kedge__usage *u, int argc, char **argv, int *first, int *status)
{
	struct spec s;
	bool help = false;

	spec_init(&s, u);
	*status = parse(u, &s, argc, argv, &help);
	spec_done(&s);
	if (*status)
		return false;
	if (help) {
		print_help(u);
		return false;
	}
	if (!u->operands && optind < argc) {
		*status = kedge__usage_error(u, "unexpected argument '%s'", argv[optind]);
		return false;
	}
	*first = optind;
	return true;
}
