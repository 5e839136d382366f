/* table: columns for people, as wide as they need to be. */
#include "tool.h"

void kedge__table_init(struct kedge__table *t, const char *layout)
{
	memset(t, 0, sizeof(*t));
	t->layout = layout;
	t->columns = strlen(layout);
}

void kedge__table_add(struct kedge__table *t, const char *fmt, ...)
{
	char *text, *cell;
	va_list ap;

	va_start(ap, fmt);
	text = kedge__vasprintf(fmt, ap);
	va_end(ap);
	cell = text ? kedge__text_cell(text) : NULL;
	if (!cell || !kedge__array_push(&t->cells, cell))
		kedge__tool_no_memory();
	kedge__free(text);
}

/* Characters, not bytes: continuation bytes of UTF-8 take no room. */
static int width(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static int column_width(const struct kedge__table *t, size_t column)
{
	int max = 0;

	for (size_t i = column; i < t->cells.count; i += t->columns)
		max = KEDGE__MAX(max, width(t->cells.at[i]));
	return max;
}

static void print_cell(const struct kedge__table *t, size_t i, int room, FILE *out)
{
	size_t column = i % t->columns;
	const char *cell = t->cells.at[i];
	int pad = room - width(cell);

	if (column)
		fputs("  ", out);
	if (t->layout[column] == 'r')
		fprintf(out, "%*s%s", pad, "", cell);
	else if (column + 1 == t->columns)
		fputs(cell, out);
	else
		fprintf(out, "%s%*s", cell, pad, "");
}

void kedge__table_print(struct kedge__table *t, FILE *out)
{
	int *widths = kedge__calloc(t->columns + 1, sizeof(*widths));

	if (!widths)
		kedge__tool_no_memory();
	for (size_t c = 0; c < t->columns; c++)
		widths[c] = column_width(t, c);
	for (size_t i = 0; i < t->cells.count; i++) {
		print_cell(t, i, widths[i % t->columns], out);
		if ((i + 1) % t->columns == 0)
			fputc('\n', out);
	}
	kedge__free(widths);
	for (size_t i = 0; i < t->cells.count; i++)
		kedge__free(t->cells.at[i]);
	kedge__array_done(&t->cells);
}
