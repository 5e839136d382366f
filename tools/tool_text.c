/* SPDX-License-Identifier: BSD-3-Clause */
/* text: numbers and names for people. */
#include "tool.h"
#include <math.h>
#include <time.h>

const char *kedge__text_bytes(uint64_t bytes, char buf[KEDGE__TEXT_ROOM])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double v = (double)bytes;
	size_t u = 0;

	while (v >= 999.5 && u + 1 < KEDGE__COUNT(units)) {
		v /= 1024;
		u++;
	}
	if (u == 0)
		snprintf(buf, KEDGE__TEXT_ROOM, "%.0f B", v);
	else
		snprintf(buf, KEDGE__TEXT_ROOM, "%.*f %s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, units[u]);
	return buf;
}

const char *kedge__text_seconds(double seconds, char buf[KEDGE__TEXT_ROOM])
{
	if (!isfinite(seconds))
		snprintf(buf, KEDGE__TEXT_ROOM, "never");
	else if (seconds < 0.9995e-3) /* what would be rounded to 1000 has the next unit */
		snprintf(buf, KEDGE__TEXT_ROOM, "%.3g us", seconds * 1e6);
	else if (seconds < 0.9995)
		snprintf(buf, KEDGE__TEXT_ROOM, "%.3g ms", seconds * 1e3);
	else if (seconds < 120)
		snprintf(buf, KEDGE__TEXT_ROOM, "%.3g s", seconds);
	else if (seconds < 7200)
		snprintf(buf, KEDGE__TEXT_ROOM, "%d min %02d s", (int)(seconds / 60), (int)fmod(seconds, 60));
	else
		snprintf(buf, KEDGE__TEXT_ROOM, "%.0f h %02d min", floor(seconds / 3600),
			 (int)(fmod(seconds, 3600) / 60));
	return buf;
}

static const char *format_time(const char *fmt, bool utc, uint64_t ns, char buf[KEDGE__TEXT_ROOM])
{
	time_t t = (time_t)(ns / 1000000000);
	struct tm tm;

	if (!(utc ? gmtime_r(&t, &tm) : localtime_r(&t, &tm)) || strftime(buf, KEDGE__TEXT_ROOM, fmt, &tm) == 0)
		snprintf(buf, KEDGE__TEXT_ROOM, "?");
	return buf;
}

const char *kedge__text_time(uint64_t ns, char buf[KEDGE__TEXT_ROOM])
{
	return format_time("%Y-%m-%d %H:%M:%S", false, ns, buf);
}

const char *kedge__text_time_iso(uint64_t ns, char buf[KEDGE__TEXT_ROOM])
{
	return format_time("%Y-%m-%dT%H:%M:%SZ", true, ns, buf);
}

const char *kedge__text_ratio(uint64_t raw, uint64_t stored, char buf[KEDGE__TEXT_ROOM])
{
	double ratio = stored ? (double)raw / (double)stored : 0;

	snprintf(buf, KEDGE__TEXT_ROOM, "%.*fx", ratio < 10 ? 2 : ratio < 100 ? 1 : 0, ratio);
	return buf;
}

const char *kedge__text_count(uint64_t n, const char *one, const char *many, char buf[KEDGE__TEXT_ROOM])
{
	snprintf(buf, KEDGE__TEXT_ROOM, "%llu %s", (unsigned long long)n, n == 1 ? one : many);
	return buf;
}

/* Length of the well-formed UTF-8 character at S, 0 if it is none. Control characters of C1 count as none. */
static size_t utf8_length(const unsigned char *s)
{
	size_t n = s[0] < 0x80                   ? 1
		   : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		   : (s[0] & 0xf0) == 0xe0       ? 3
		   : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
						 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return n;
}

/* Control characters and bytes that are not UTF-8 as \n, \t, \xNN, but for those in STAY. */
static char *escape(const char *text, const char *stay)
{
	const unsigned char *s = (const unsigned char *)text;
	char *out = kedge__malloc(4 * strlen(text) + 1), *p = out;

	if (!out)
		kedge__tool_no_memory();
	while (*s) {
		size_t n = strchr(stay, *s) ? 1 : utf8_length(s);

		if (n && (strchr(stay, *s) || (*s >= 0x20 && *s != 0x7f && *s != '\\'))) {
			memcpy(p, s, n);
			p += n;
			s += n;
			continue;
		}
		if (*s == '\n' || *s == '\t' || *s == '\\')
			p += sprintf(p, "\\%c", *s == '\n' ? 'n' : *s == '\t' ? 't' : '\\');
		else
			p += sprintf(p, "\\x%02x", *s);
		s++;
	}
	*p = '\0';
	return out;
}

char *kedge__text_name(const char *name)
{
	return escape(name, "");
}

char *kedge__text_cell(const char *text)
{
	return escape(text, "\\");
}

void kedge__vprint(FILE *out, const char *fmt, va_list ap)
{
	char *text = kedge__vasprintf(fmt, ap);
	char *safe = text ? escape(text, "\n\\") : NULL;

	if (!safe)
		kedge__tool_no_memory();
	fputs(safe, out);
	kedge__free(safe);
	kedge__free(text);
}

void kedge__print(FILE *out, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	kedge__vprint(out, fmt, ap);
	va_end(ap);
}

void kedge__print_xml(FILE *out, char c)
{
	switch (c) {
	case '&':
		fputs("&amp;", out);
		break;
	case '<':
		fputs("&lt;", out);
		break;
	case '>':
		fputs("&gt;", out);
		break;
	case '"':
		fputs("&quot;", out);
		break;
	default:
		fputc(c, out);
	}
}
