/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan_chart: line and bar charts for print. Series differ in colour (a palette that colour-blind readers can tell
 * apart), in dashes and in markers, so that a grey copy loses nothing.
 */
#include "plan.h"
#include <math.h>
#include <stdlib.h>

enum { WIDTH = 960, HEIGHT = 520, LEFT = 92, RIGHT = 300, TOP = 56, BOTTOM = 76, TICKS = 24 };

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
				      "#000000", "#56b4e9", "#e69f00", "#7f7f7f"};
static const char *const dashes[] = {"", "8 4", "2 3", "10 4 2 4", "14 4", "5 3 1 3 1 3"};

struct axis {
	double low, high;
	bool log;
	double from, to; /* pixels */
	double tick[TICKS];
	size_t ticks;
};

static double place(const struct axis *a, double v)
{
	double part = a->log ? log(v / a->low) / log(a->high / a->low) : (v - a->low) / (a->high - a->low);

	return a->from + part * (a->to - a->from);
}

static void escape(FILE *out, const char *text)
{
	for (; *text != '\0'; text++)
		kedge__print_xml(out, *text);
}

static void add_tick(struct axis *a, double v)
{
	double slack = 1e-9 * (a->high - a->low);

	if (a->ticks < TICKS && v >= a->low - slack && v <= a->high + slack)
		a->tick[a->ticks++] = v;
}

/* Steps of 1, 2 or 5 times a power of ten. */
static void linear_ticks(struct axis *a)
{
	double raw = (a->high - a->low) / 6, unit = pow(10, floor(log10(raw)));
	double step = raw <= unit ? unit : raw <= 2 * unit ? 2 * unit : raw <= 5 * unit ? 5 * unit : 10 * unit;

	for (double i = ceil(a->low / step - 1e-9); i * step <= a->high * (1 + 1e-9); i++)
		add_tick(a, i * step);
}

static void log_ticks(struct axis *a)
{
	static const double within[] = {1, 2, 5};
	double decades = log10(a->high / a->low);
	double skip = ceil(decades / 10);

	for (double e = floor(log10(a->low)); e <= ceil(log10(a->high)); e += skip)
		for (size_t i = 0; i < (decades <= 4 ? KEDGE__COUNT(within) : 1); i++)
			add_tick(a, within[i] * pow(10, e));
}

/* A few points are named themselves; many get round numbers. */
static void choose_x_ticks(const struct kedge__chart *c, struct axis *a)
{
	a->ticks = 0;
	if (c->points <= 10)
		for (size_t i = 0; i < c->points; i++)
			add_tick(a, c->x[i]);
	else if (a->log)
		log_ticks(a);
	else
		linear_ticks(a);
}

static void y_range(const struct kedge__chart *c, struct axis *a)
{
	double low = INFINITY, high = -INFINITY;

	for (size_t s = 0; s < c->series_count; s++)
		for (size_t i = 0; i < c->points; i++) {
			double v = c->series[s].y[i];

			if (!isfinite(v) || (c->log_y && v <= 0))
				continue;
			low = KEDGE__MIN(low, v);
			high = KEDGE__MAX(high, v);
		}
	if (low > high)
		low = high = 1;
	a->log = c->log_y;
	a->low = isnan(c->y_low) ? (c->log_y ? low / 1.3 : low - 0.05 * (high - low)) : c->y_low;
	a->high = isnan(c->y_high) ? (c->log_y ? high * 1.3 : high + 0.05 * (high - low)) : c->y_high;
	if (!(a->high > a->low))
		a->high = a->low + KEDGE__MAX(1e-9, fabs(a->low));
}

static void x_range(const struct kedge__chart *c, struct axis *a)
{
	double low = c->x[0], high = c->x[0];

	for (size_t i = 1; i < c->points; i++) {
		low = KEDGE__MIN(low, c->x[i]);
		high = KEDGE__MAX(high, c->x[i]);
	}
	a->log = c->log_x && low > 0;
	a->low = low;
	a->high = high > low ? high : low + KEDGE__MAX(1e-9, fabs(low));
}

static const char *number(double v, char buf[32])
{
	static const struct {
		double factor;
		const char *unit;
	} units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}};

	snprintf(buf, 32, "%.5g", fabs(v) < 1e-12 ? 0 : v);
	for (size_t i = 0; i < KEDGE__COUNT(units); i++)
		if (fabs(v) >= units[i].factor && fabs(v) < 1000 * units[i].factor) {
			snprintf(buf, 32, "%.4g %s", v / units[i].factor, units[i].unit);
			break;
		}
	return buf;
}

static void draw_frame(FILE *out, const struct kedge__chart *c)
{
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		"height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"15\">\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n<text x=\"%d\" y=\"30\" font-size=\"18\">",
		WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
	escape(out, c->title);
	fprintf(out, "</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDTH - RIGHT) / 2,
		HEIGHT - 22);
	escape(out, c->x_label);
	fprintf(out, "</text>\n<text transform=\"translate(26 %d) rotate(-90)\" text-anchor=\"middle\">",
		(TOP + HEIGHT - BOTTOM) / 2);
	escape(out, c->y_label);
	fputs("</text>\n", out);
}

static void draw_y_axis(FILE *out, const struct axis *y)
{
	char buf[32];

	for (size_t i = 0; i < y->ticks; i++) {
		double at = place(y, y->tick[i]);

		fprintf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#d9d9d9\"/>\n", LEFT, at,
			WIDTH - RIGHT, at);
		fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, at + 5,
			number(y->tick[i], buf));
	}
}

static void draw_x_tick(FILE *out, double at, const char *text)
{
	fprintf(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"black\"/>\n", at, HEIGHT - BOTTOM, at,
		HEIGHT - BOTTOM + 5);
	fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at, HEIGHT - BOTTOM + 22, text);
}

static void draw_border(FILE *out)
{
	fprintf(out, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"black\" stroke-width=\"1.2\"/>\n", LEFT, TOP,
		HEIGHT - BOTTOM, WIDTH - RIGHT);
}

static void draw_marker(FILE *out, size_t kind, double x, double y, const char *colour)
{
	switch (kind % 6) {
	case 0:
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, colour);
		break;
	case 1:
		fprintf(out,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" fill=\"white\" stroke=\"%s\" "
			"stroke-width=\"1.8\"/>\n",
			x - 4, y - 4, colour);
		break;
	case 2:
		fprintf(out, "<path d=\"M%.1f %.1fl5 9h-10z\" fill=\"%s\"/>\n", x, y - 5, colour);
		break;
	case 3:
		fprintf(out,
			"<path d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\" fill=\"white\" stroke=\"%s\" stroke-width=\"1.8\"/>\n",
			x, y - 5, colour);
		break;
	case 4:
		fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" fill=\"%s\"/>\n", x - 4, y - 4,
			colour);
		break;
	default:
		fprintf(out, "<path d=\"M%.1f %.1fl4.5 -8h-9z\" fill=\"white\" stroke=\"%s\" stroke-width=\"1.8\"/>\n",
			x, y + 5, colour);
	}
}

static bool drawable(const struct kedge__chart *c, const struct axis *y, double v)
{
	return isfinite(v) && !(c->log_y && v <= 0) && v <= y->high * (1 + 1e-9);
}

static void draw_line(FILE *out, const struct kedge__chart *c, size_t s, const struct axis *x, const struct axis *y)
{
	const char *colour = colours[s % KEDGE__COUNT(colours)], *pen = "M";

	fprintf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" d=\"", colour,
		dashes[s % KEDGE__COUNT(dashes)]);
	for (size_t i = 0; i < c->points; i++) {
		double v = c->series[s].y[i];

		if (!drawable(c, y, v)) {
			pen = "M";
			continue;
		}
		fprintf(out, "%s%.1f %.1f", pen, place(x, c->x[i]), place(y, KEDGE__MAX(v, y->low)));
		pen = "L";
	}
	fputs("\"/>\n", out);
	for (size_t i = 0; c->points <= 24 && i < c->points; i++)
		if (drawable(c, y, c->series[s].y[i]))
			draw_marker(out, s, place(x, c->x[i]), place(y, KEDGE__MAX(c->series[s].y[i], y->low)), colour);
}

static void draw_legend(FILE *out, const struct kedge__chart *c)
{
	for (size_t s = 0; s < c->series_count; s++) {
		int x = WIDTH - RIGHT + 20, y = TOP + 12 + (int)s * 26;
		const char *colour = colours[s % KEDGE__COUNT(colours)];

		if (c->bars) {
			fprintf(
			    out,
			    "<rect x=\"%d\" y=\"%d\" width=\"34\" height=\"14\" fill=\"url(#f%zu)\" stroke=\"%s\"/>\n",
			    x, y - 7, s, colour);
		} else {
			fprintf(out,
				"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"2\" "
				"stroke-dasharray=\"%s\"/>\n",
				x, y, x + 34, y, colour, dashes[s % KEDGE__COUNT(dashes)]);
			if (c->points <= 24)
				draw_marker(out, s, x + 17, y, colour);
		}
		fprintf(out, "<text x=\"%d\" y=\"%d\">", x + 42, y + 5);
		escape(out, c->series[s].label);
		fputs("</text>\n", out);
	}
}

static void draw_mark(FILE *out, const struct kedge__chart *c, const struct axis *x)
{
	double at;

	if (isnan(c->mark_x) || c->mark_x < x->low || c->mark_x > x->high)
		return;
	at = place(x, c->mark_x);
	fprintf(out,
		"<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#7f7f7f\" stroke-dasharray=\"3 3\"/>\n", at,
		TOP, at, HEIGHT - BOTTOM);
	fprintf(out, "<text x=\"%.1f\" y=\"%d\" fill=\"#4d4d4d\" font-size=\"13\">", at + 5, TOP + 12);
	escape(out, c->mark_label);
	fputs("</text>\n", out);
}

static void draw_lines(FILE *out, const struct kedge__chart *c, const struct axis *y)
{
	struct axis x = {.from = LEFT + 12, .to = WIDTH - RIGHT - 12};
	char buf[32];

	x_range(c, &x);
	choose_x_ticks(c, &x);
	for (size_t i = 0; i < x.ticks; i++)
		draw_x_tick(out, place(&x, x.tick[i]), number(x.tick[i], buf));
	draw_mark(out, c, &x);
	for (size_t s = 0; s < c->series_count; s++)
		draw_line(out, c, s, &x, y);
}

/* Every second series is hatched, each in another direction: neighbours differ in grey too. */
static void define_fills(FILE *out, const struct kedge__chart *c)
{
	static const int angles[] = {45, -45, 90, 0};

	fputs("<defs>\n", out);
	for (size_t s = 0; s < c->series_count; s++) {
		const char *colour = colours[s % KEDGE__COUNT(colours)];

		fprintf(out,
			"<pattern id=\"f%zu\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
			"patternTransform=\"rotate(%d)\">"
			"<rect width=\"6\" height=\"6\" fill=\"%s\"/>",
			s, angles[s / 2 % KEDGE__COUNT(angles)], s % 2 ? "white" : colour);
		if (s % 2)
			fprintf(out, "<rect width=\"3\" height=\"6\" fill=\"%s\"/>", colour);
		fputs("</pattern>\n", out);
	}
	fputs("</defs>\n", out);
}

static void draw_bars(FILE *out, const struct kedge__chart *c, const struct axis *y)
{
	double group = (double)(WIDTH - LEFT - RIGHT) / (double)c->points, bar = 0.8 * group / (double)c->series_count;
	char buf[32];

	define_fills(out, c);
	for (size_t i = 0; i < c->points; i++) {
		double left = LEFT + group * (double)i;

		draw_x_tick(out, left + group / 2, number(c->x[i], buf));
		for (size_t s = 0; s < c->series_count; s++) {
			double v = c->series[s].y[i], top;

			if (!drawable(c, y, v))
				continue;
			top = place(y, KEDGE__MAX(v, y->low));
			fprintf(out,
				"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"url(#f%zu)\" "
				"stroke=\"%s\"/>\n",
				left + 0.1 * group + bar * (double)s, top, bar, HEIGHT - BOTTOM - top, s,
				colours[s % KEDGE__COUNT(colours)]);
		}
	}
}

static void draw(FILE *out, const void *chart)
{
	const struct kedge__chart *c = chart;
	struct axis y = {.from = HEIGHT - BOTTOM, .to = TOP};

	y_range(c, &y);
	if (y.log)
		log_ticks(&y);
	else
		linear_ticks(&y);
	draw_frame(out, c);
	draw_y_axis(out, &y);
	if (c->bars)
		draw_bars(out, c, &y);
	else
		draw_lines(out, c, &y);
	draw_border(out);
	draw_legend(out, c);
	fputs("</svg>\n", out);
}

int kedge__chart_write(const struct kedge__chart *c, const char *path, struct kedge__error *err)
{
	return kedge__tool_picture(path, draw, c, err);
}
