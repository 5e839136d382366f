/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/line.h"

#include <math.h>
#include <stdio.h>

#define ROOM 1000 /* that is enough most times */

static void put(struct kedge__line *l, const char *bytes, size_t n)
{
	if (l->failed || !kedge__array_reserve(&l->text, l->text.count + n + 1)) {
		l->failed = true;
		return;
	}
	memcpy(l->text.at + l->text.count, bytes, n);
	l->text.count += n;
	l->text.at[l->text.count] = '\0';
}

static void put_text(struct kedge__line *l, const char *text)
{
	put(l, text, strlen(text));
}

static void put_string(struct kedge__line *l, const char *text)
{
	char code[8];

	put_text(l, "\"");
	while (*text) {
		size_t n = kedge__utf8_bytes(text);

		if (*text == '\\' || *text == '"') {
			put(l, (const char[]){'\\', *text}, 2);
		} else if ((unsigned char)*text < 0x20) {
			snprintf(code, sizeof(code), "\\u%04x", (unsigned)*text);
			put_text(l, code);
		} else if (n) {
			put(l, text, n);
		} else {
			put_text(l, "\xef\xbf\xbd");
		}
		text += n ? n : 1;
	}
	put_text(l, "\"");
}

static void put_key(struct kedge__line *l, const char *key)
{
	put_text(l, l->filled ? "," : "");
	l->filled = true;
	if (!key)
		return;
	put_string(l, key);
	put_text(l, ":");
}

static void open_with(struct kedge__line *l, char begin, char end)
{
	if (l->depth == KEDGE__LINE_DEPTH) {
		l->failed = true;
		return;
	}
	put(l, &begin, 1);
	l->ends[l->depth++] = end;
	l->filled = false;
}

void kedge__line_begin(struct kedge__line *l)
{
	memset(l, 0, sizeof(*l));
	l->failed = !kedge__array_reserve(&l->text, ROOM);
	open_with(l, '{', '}');
}

void kedge__line_uint(struct kedge__line *l, const char *key, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	put_key(l, key);
	put_text(l, text);
}

void kedge__line_seconds(struct kedge__line *l, const char *key, double value)
{
	char text[400];

	snprintf(text, sizeof(text), "%.6f", value);
	put_key(l, key);
	put_text(l, isfinite(value) ? text : "null");
}

void kedge__line_bool(struct kedge__line *l, const char *key, bool value)
{
	put_key(l, key);
	put_text(l, value ? "true" : "false");
}

void kedge__line_text(struct kedge__line *l, const char *key, const char *value)
{
	put_key(l, key);
	if (value)
		put_string(l, value);
	else
		put_text(l, "null");
}

void kedge__line_object(struct kedge__line *l, const char *key)
{
	put_key(l, key);
	open_with(l, '{', '}');
}

void kedge__line_list(struct kedge__line *l, const char *key)
{
	put_key(l, key);
	open_with(l, '[', ']');
}

void kedge__line_item(struct kedge__line *l)
{
	put_key(l, NULL);
	open_with(l, '{', '}');
}

void kedge__line_close(struct kedge__line *l)
{
	if (!l->depth)
		return;
	put(l, &l->ends[--l->depth], 1);
	l->filled = true;
}

int kedge__line_end(struct kedge__line *l, char **text, struct kedge__error *err)
{
	int rc = 0;

	while (l->depth)
		kedge__line_close(l);
	put_text(l, "\n");
	if (l->failed) {
		rc = kedge__error_nomem(err);
		kedge__array_done(&l->text);
	} else {
		*text = l->text.at;
	}
	memset(l, 0, sizeof(*l));
	return rc;
}
