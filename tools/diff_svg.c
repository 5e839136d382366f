/* SPDX-License-Identifier: BSD-3-Clause */
/* diff_svg: the heat map. One hue from white to dark, so that it reads the same in grey; numbers beside every strip. */
#include "diff.h"
#include <math.h>
#include <stdlib.h>

enum {
	WIDTH = 960,
	MARGIN = 40,
	STRIP = WIDTH - 2 * MARGIN,
	CELL = 2,
	CELLS = STRIP / CELL,
	HEIGHT = 26,
	ROW = 84,
	HEAD = 92,
	LABEL = 70
};

struct heat {
	double share[CELLS]; /* 0..1: how much of a cell's bytes changed */
	size_t cells;
};

/* TEXT for XML and for a terminal's eyes; what would run into its neighbour ends in an ellipsis. */
static void print_escaped(FILE *out, const char *text)
{
	char *safe = kedge__text_name(text);
	int shown = 0;

	for (const char *p = safe; *p; p++) {
		shown += ((unsigned char)*p & 0xc0) != 0x80;
		if (shown > LABEL) {
			fputs("\xe2\x80\xa6", out);
			break;
		}
		kedge__print_xml(out, *p);
	}
	kedge__free(safe);
}

static void print_color(FILE *out, double share)
{
	/* A single changed byte must be seen: what is not zero starts well off white. */
	double s = share <= 0 ? 0 : 0.18 + 0.82 * share;

	fprintf(out, "#%02x%02x%02x", (int)lround(255 - s * (255 - 127)), (int)lround(255 - s * (255 - 9)),
		(int)lround(255 - s * (255 - 20)));
}

static void heat_add(struct heat *h, double per_cell, double offset, double len)
{
	for (size_t c = (size_t)(offset / per_cell); c < h->cells && (double)c * per_cell < offset + len; c++) {
		double from = fmax(offset, (double)c * per_cell), to = fmin(offset + len, (double)(c + 1) * per_cell);

		h->share[c] = fmin(1, h->share[c] + fmax(0, to - from) / per_cell);
	}
}

static void heat_init(struct heat *h, const struct kedge__diff_region *r, uint64_t bytes)
{
	double per_cell;

	memset(h, 0, sizeof(*h));
	if (bytes == 0)
		return;
	h->cells = (size_t)KEDGE__MIN(bytes, (uint64_t)CELLS);
	per_cell = (double)bytes / (double)h->cells;
	if (r->status == KEDGE__DIFF_ADDED || r->status == KEDGE__DIFF_REMOVED)
		heat_add(h, per_cell, 0, (double)bytes);
	for (size_t i = 0; i < r->range_count && r->status == KEDGE__DIFF_CHANGED; i++)
		heat_add(h, per_cell, (double)r->ranges[i].start, (double)r->ranges[i].len);
}

/* Neighbouring cells of one colour are one rectangle. */
static void print_cells(FILE *out, const struct heat *h, double y)
{
	double width = h->cells ? (double)STRIP / (double)h->cells : 0;

	for (size_t i = 0, j; i < h->cells; i = j) {
		for (j = i + 1; j < h->cells && h->share[j] == h->share[i]; j++)
			;
		if (h->share[i] <= 0)
			continue;
		fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"",
			MARGIN + (double)i * width, y, (double)(j - i) * width, HEIGHT);
		print_color(out, h->share[i]);
		fputs("\"/>\n", out);
	}
}

static void print_axis(FILE *out, uint64_t bytes, double y)
{
	char text[KEDGE__TEXT_ROOM];

	for (int i = 0; i <= 4; i++) {
		double x = MARGIN + STRIP * i / 4.0;
		const char *anchor = i == 0 ? "start" : i == 4 ? "end" : "middle";

		fprintf(out, "<line class=\"line\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x, y, x, y + 4);
		fprintf(out, "<text class=\"small\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y + 15,
			anchor, kedge__text_bytes((uint64_t)((double)bytes * i / 4), text));
	}
}

static void print_label(FILE *out, const struct kedge__diff_tool *d, uint32_t rank, const struct kedge__diff_region *r,
			uint64_t bytes, double y)
{
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM];

	fprintf(out, "<text class=\"label\" x=\"%d\" y=\"%.1f\">", MARGIN, y);
	if (d->ranks.count > 1)
		fprintf(out, "rank %u: ", rank);
	print_escaped(out, r->name);
	fprintf(out, "</text>\n<text class=\"small\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s", WIDTH - MARGIN, y,
		kedge__diff_status(r));
	if (r->status != KEDGE__DIFF_SAME)
		fprintf(out, ": %s of %s, %.2f %%", kedge__text_bytes(r->changed_bytes, a), kedge__text_bytes(bytes, b),
			bytes ? 100.0 * (double)r->changed_bytes / (double)bytes : 0.0);
	if (r->status == KEDGE__DIFF_CHANGED && r->bytes_a != r->bytes_b)
		fprintf(out, "; was %s", kedge__text_bytes(r->bytes_a, a));
	fputs("</text>\n", out);
}

static void print_strip(FILE *out, const struct kedge__diff_tool *d, uint32_t rank, const struct kedge__diff_region *r,
			double y)
{
	uint64_t bytes = KEDGE__MAX(r->bytes_a, r->bytes_b), both = KEDGE__MIN(r->bytes_a, r->bytes_b);
	struct heat h;

	heat_init(&h, r, bytes);
	fputs("<g>\n", out);
	print_label(out, d, rank, r, bytes, y + 12);
	print_cells(out, &h, y + 18);
	fprintf(out, "<rect class=\"frame\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>\n", MARGIN, y + 18, STRIP,
		HEIGHT);
	if (r->status == KEDGE__DIFF_CHANGED && both != bytes) {
		double x = MARGIN + STRIP * ((double)both / (double)bytes);

		fprintf(out, "<line class=\"end\" x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\"/>\n", x, y + 15, x,
			y + 21 + HEIGHT);
	}
	print_axis(out, bytes, y + 18 + HEIGHT);
	fputs("</g>\n", out);
}

static void print_legend(FILE *out)
{
	double x = WIDTH - MARGIN - 200;

	fprintf(out, "<text class=\"small\" x=\"%.1f\" y=\"38\" text-anchor=\"end\">share of bytes changed</text>\n",
		x - 8);
	for (int i = 0; i <= 20; i++) {
		fprintf(out, "<rect x=\"%.2f\" y=\"28\" width=\"9.6\" height=\"12\" fill=\"", x + i * 9.5);
		print_color(out, i / 20.0);
		fputs("\"/>\n", out);
	}
	fprintf(out, "<rect class=\"frame\" x=\"%.1f\" y=\"28\" width=\"199.6\" height=\"12\"/>\n", x);
	fprintf(out, "<text class=\"small\" x=\"%.1f\" y=\"54\">none</text>", x);
	fprintf(out, "<text class=\"small\" x=\"%d\" y=\"54\" text-anchor=\"end\">all</text>\n", WIDTH - MARGIN);
}

static void print_head(FILE *out, const struct kedge__diff_tool *d, size_t strips)
{
	size_t height = HEAD + ROW * KEDGE__MAX(strips, 1) + 10;
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM];

	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		"height=\"%zu\" viewBox=\"0 0 %d %zu\">\n",
		WIDTH, height, WIDTH, height);
	fputs("<style>text{font-family:\"DejaVu "
	      "Sans\",Helvetica,Arial,sans-serif;fill:#111}.title{font-size:17px;font-weight:bold}"
	      ".label{font-size:13px}.small{font-size:11px}.frame{fill:none;stroke:#333;stroke-width:1}.line{stroke:#"
	      "333;stroke-width:1}"
	      "rect{shape-rendering:crispEdges}.end{stroke:#111;stroke-width:2;stroke-dasharray:3 2}</style>\n",
	      out);
	fprintf(out, "<rect width=\"%d\" height=\"%zu\" fill=\"#fff\"/>\n<text class=\"title\" x=\"%d\" y=\"38\">",
		WIDTH, height, MARGIN);
	print_escaped(out, d->place.name);
	fprintf(out, ": version %llu to %llu</text>\n<text class=\"label\" x=\"%d\" y=\"60\">%s in %s changed</text>\n",
		(unsigned long long)d->a, (unsigned long long)d->b, MARGIN, kedge__text_bytes(d->changed_bytes, a),
		kedge__text_count(d->changed_regions, "region", "regions", b));
	print_legend(out);
	if (strips == 0)
		fprintf(out, "<text class=\"label\" x=\"%d\" y=\"%d\">Neither version has a region.</text>\n", MARGIN,
			HEAD + 12);
}

static void print_svg(FILE *out, const void *diff)
{
	const struct kedge__diff_tool *d = diff;
	size_t strips = 0;

	for (size_t i = 0; i < d->ranks.count; i++)
		strips += d->ranks.at[i].count;
	print_head(out, d, strips);
	strips = 0;
	for (size_t i = 0; i < d->ranks.count; i++)
		for (size_t j = 0; j < d->ranks.at[i].count; j++)
			print_strip(out, d, d->ranks.at[i].rank, &d->ranks.at[i].regions[j],
				    HEAD + (double)ROW * (double)strips++);
	fputs("</svg>\n", out);
}

int kedge__diff_svg(const struct kedge__diff_tool *d, const char *path, struct kedge__error *err)
{
	return kedge__tool_picture(path, print_svg, d, err);
}
