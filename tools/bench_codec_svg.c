/* SPDX-License-Identifier: BSD-3-Clause */
/* The plot of kedge bench codec: a point a codec, ratio upwards, speed of packing to the right on a scale of powers. */
#include "bench_codec.h"

#include <math.h>

enum { WIDTH = 900, HEIGHT = 560, LEFT = 70, RIGHT = 150, TOP = 60, BOTTOM = 60 };

struct scale {
	double low, high; /* logarithms of speed; ratios */
	double least, most;
};

static double x_of(const struct scale *s, double speed)
{
	return LEFT + (log10(speed) - s->low) / (s->high - s->low) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct scale *s, double ratio)
{
	return HEIGHT - BOTTOM - (ratio - s->least) / (s->most - s->least) * (HEIGHT - TOP - BOTTOM);
}

static struct scale scale_of(const struct kedge__codec_result *r, size_t n)
{
	struct scale s = {.low = 99, .high = -99, .least = 1, .most = 1.1};

	for (size_t i = 0; i < n; i++) {
		s.low = fmin(s.low, floor(log10(r[i].encode)));
		s.high = fmax(s.high, ceil(log10(r[i].encode)));
		s.most = fmax(s.most, kedge__codec_result_ratio(&r[i]) * 1.05);
	}
	if (s.high <= s.low)
		s.high = s.low + 1;
	return s;
}

static void print_axes(FILE *out, const struct scale *s)
{
	for (double e = s->low; e <= s->high; e++) {
		double x = x_of(s, pow(10, e));

		fprintf(out, "<path d=\"M%.1f %d V%d\" stroke=\"#ddd\"/>\n", x, TOP, HEIGHT - BOTTOM);
		fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x, HEIGHT - BOTTOM + 18,
			pow(10, e - 6));
	}
	for (int i = 0; i <= 5; i++) {
		double ratio = s->least + (s->most - s->least) * i / 5, y = y_of(s, ratio);

		fprintf(out, "<path d=\"M%d %.1f H%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH - RIGHT);
		fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", LEFT - 8, y + 4, ratio);
	}
	fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">packing, MB/s</text>\n",
		(LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16);
	fprintf(out, "<text transform=\"translate(20 %d) rotate(-90)\" text-anchor=\"middle\">ratio</text>\n",
		HEIGHT / 2);
}

/* From the fastest of the best to the smallest. */
static void print_front(FILE *out, const struct scale *s, const struct kedge__codec_result *r, size_t n)
{
	double below = INFINITY;
	char letter = 'M';

	fputs("<path fill=\"none\" stroke=\"#7f0914\" stroke-width=\"1.5\" d=\"", out);
	for (;;) {
		const struct kedge__codec_result *next = NULL;

		for (size_t i = 0; i < n; i++)
			if (r[i].best && r[i].encode < below && (!next || r[i].encode > next->encode))
				next = &r[i];
		if (!next)
			break;
		fprintf(out, "%c%.1f %.1f ", letter, x_of(s, next->encode), y_of(s, kedge__codec_result_ratio(next)));
		letter = 'L';
		below = next->encode;
	}
	fputs("\"/>\n", out);
}

static void print_point(FILE *out, const struct scale *s, const struct kedge__codec_result *r)
{
	double x = x_of(s, r->encode), y = y_of(s, fmax(kedge__codec_result_ratio(r), 1));

	fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"><title>%s: %.3f, %.0f MB/s, back %.0f MB/s",
		x, y, r->best ? "5" : "3.5", r->best ? "#7f0914" : "#888", r->name, kedge__codec_result_ratio(r),
		r->encode * 1e-6, r->decode * 1e-6);
	fprintf(out, "</title></circle>\n<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>\n", x + 8, y - 5,
		r->best ? " font-weight=\"bold\"" : " fill=\"#666\"", r->name);
}

void kedge__bench_codec_svg(FILE *out, const void *plot)
{
	const struct kedge__codec_plot *p = plot;
	struct scale s = scale_of(p->results, p->count);

	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		"height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT);
	fprintf(out, "<text x=\"%d\" y=\"30\" font-size=\"16\">Codecs on %s, one thread</text>\n", LEFT, p->title);
	fprintf(out, "<text x=\"%d\" y=\"48\" fill=\"#7f0914\">joined: none is both smaller and faster</text>\n", LEFT);
	print_axes(out, &s);
	print_front(out, &s, p->results, p->count);
	for (size_t i = 0; i < p->count; i++)
		print_point(out, &s, &p->results[i]);
	fputs("</svg>\n", out);
}
