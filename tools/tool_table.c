/* SPDX-License-Identifier: BSD-3-Clause */
/* table: columns for people, as wide as they need to be. */
#include "tool.h"

#define LINE_BYTES 65536 /* gathered before they are written */

void kedge__table_init(struct kedge__table *t, const char *layout)
{
	memset(t, 0, sizeof(*t));
	t->layout = layout;
	t->columns = strlen(layout);
}

/* Characters, not bytes: continuation bytes of UTF-8 take no room. */
static size_t width(const char *s, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

static bool is_plain(const char *s, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (s[i] < 0x20 || s[i] > 0x7e)
			return false;
	return true;
}

static void append(struct kedge__bytes *b, const char *s, size_t bytes)
{
	if (!kedge__array_reserve(b, b->count + bytes + 1))
		kedge__tool_no_memory();
	memcpy(b->at + b->count, s, bytes);
	b->count += bytes;
}

static void add_cell(struct kedge__table *t, const char *s, size_t bytes)
{
	const struct kedge__cell cell = {t->text.count, bytes, width(s, bytes)};

	append(&t->text, s, bytes);
	if (!kedge__array_push(&t->cells, cell))
		kedge__tool_no_memory();
}

void kedge__table_text(struct kedge__table *t, const char *text)
{
	size_t bytes = strlen(text);
	char *cell;

	if (is_plain(text, bytes)) {
		add_cell(t, text, bytes);
		return;
	}
	cell = kedge__text_cell(text);
	if (!cell)
		kedge__tool_no_memory();
	add_cell(t, cell, strlen(cell));
	kedge__free(cell);
}

void kedge__table_number(struct kedge__table *t, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	add_cell(t, digits + at, sizeof(digits) - at);
}

void kedge__table_add(struct kedge__table *t, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	text = kedge__vasprintf(fmt, ap);
	va_end(ap);
	if (!text)
		kedge__tool_no_memory();
	kedge__table_text(t, text);
	kedge__free(text);
}

static void pad(struct kedge__bytes *b, size_t n)
{
	if (!kedge__array_reserve(b, b->count + n + 1))
		kedge__tool_no_memory();
	memset(b->at + b->count, ' ', n);
	b->count += n;
}

static void put_cell(const struct kedge__table *t, size_t i, size_t room, struct kedge__bytes *line)
{
	size_t column = i % t->columns;
	const struct kedge__cell *cell = &t->cells.at[i];
	bool right = t->layout[column] == 'r', last = column + 1 == t->columns;

	if (column)
		pad(line, 2);
	if (right)
		pad(line, room - cell->width);
	append(line, (const char *)t->text.at + cell->at, cell->bytes);
	if (last)
		append(line, "\n", 1);
	else if (!right)
		pad(line, room - cell->width);
}

static void flush(struct kedge__bytes *line, FILE *out)
{
	/* A failed write is left in the stream's error flag, where kedge__tool_finish() sees it. */
	(void)(line->count && fwrite(line->at, 1, line->count, out));
	line->count = 0;
}

void kedge__table_print(struct kedge__table *t, FILE *out)
{
	size_t *widths = kedge__calloc(t->columns + 1, sizeof(*widths));
	struct kedge__bytes line = {0};

	if (!widths)
		kedge__tool_no_memory();
	for (size_t i = 0; i < t->cells.count; i++)
		widths[i % t->columns] = KEDGE__MAX(widths[i % t->columns], t->cells.at[i].width);
	for (size_t i = 0; i < t->cells.count; i++) {
		put_cell(t, i, widths[i % t->columns], &line);
		if (line.count > LINE_BYTES)
			flush(&line, out);
	}
	flush(&line, out);
	kedge__bytes_done(&line);
	kedge__free(widths);
	kedge__table_drop(t);
}

void kedge__table_drop(struct kedge__table *t)
{
	kedge__array_done(&t->cells);
	kedge__bytes_done(&t->text);
}
