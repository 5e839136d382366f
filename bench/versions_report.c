/* SPDX-License-Identifier: BSD-3-Clause */
/* versions_report: medians, ratios to the first count, and how they are printed. */
#include "versions.h"

static const struct {
	const char *name, *text;
	bool each; /* also given per version */
} figures[] = {
#define KEDGE__X(id, name, text, each) {name, text, each},
    KEDGE__VERSIONS_FIGURES(KEDGE__X)
#undef KEDGE__X
};

static uint64_t turns_of(const struct kedge__versions_bench *b, size_t figure)
{
	return figure == KEDGE__VERSIONS_BARE || figure == KEDGE__VERSIONS_BLOCKED || figure == KEDGE__VERSIONS_COMPLETE
		   ? b->checkpoints
		   : b->repeat;
}

static int ranks_of(const struct kedge__versions_bench *b, size_t figure)
{
	return figure == KEDGE__VERSIONS_LS || figure == KEDGE__VERSIONS_GC ? 1 : b->ranks;
}

/* Of the ranks' times the longest; of the processor time the sum. */
static struct kedge__versions_time of_ranks(const struct kedge__versions_bench *b, size_t figure, uint64_t turn)
{
	struct kedge__versions_time all = {0, 0};

	for (int r = 0; r < ranks_of(b, figure); r++) {
		all.wall = KEDGE__MAX(all.wall, b->shared->times[figure][turn][r].wall);
		all.cpu += b->shared->times[figure][turn][r].cpu;
	}
	return all;
}

static void collect_figure(const struct kedge__versions_bench *b, size_t f, struct kedge__versions_value *out)
{
	double wall[KEDGE__VERSIONS_TURNS], cpu[KEDGE__VERSIONS_TURNS];
	uint64_t n = turns_of(b, f);

	for (uint64_t t = 0; t < n; t++) {
		struct kedge__versions_time all = of_ranks(b, f, t);

		wall[t] = all.wall;
		cpu[t] = all.cpu;
	}
	out->median = kedge__bench_median(wall, n);
	out->lowest = wall[0];
	out->highest = wall[n - 1];
	out->cpu = kedge__bench_median(cpu, n);
}

void kedge__versions_collect(const struct kedge__versions_bench *b, struct kedge__versions_row *row)
{
	double ratios[KEDGE__VERSIONS_TURNS];

	for (size_t f = 0; f < KEDGE__VERSIONS_FIGURE_COUNT; f++)
		collect_figure(b, f, &row->value[f]);
	for (uint64_t t = 0; t < b->checkpoints; t++)
		ratios[t] = of_ranks(b, KEDGE__VERSIONS_BLOCKED, t).wall / of_ranks(b, KEDGE__VERSIONS_BARE, t).wall;
	row->to_bare = kedge__bench_median(ratios, b->checkpoints);
}

/* ---- JSON */

static json_t *row_json(const struct kedge__versions_bench *b, const struct kedge__versions_row *row,
			const struct kedge__versions_row *first)
{
	json_t *o = kedge__json_object();

	kedge__json_uint(o, "ranks", (uint64_t)b->ranks);
	kedge__json_bool(o, "l2", b->l2);
	kedge__json_uint(o, "versions", row->count);
	kedge__json_real(o, "fill_seconds", row->fill);
	kedge__json_real(o, "checkpoint_to_bare", row->to_bare);
	for (size_t f = 0; f < KEDGE__COUNT(figures); f++) {
		const struct kedge__versions_value *v = &row->value[f];
		json_t *figure = kedge__json_object();

		kedge__json_real(figure, "seconds", v->median);
		kedge__json_real(figure, "lowest", v->lowest);
		kedge__json_real(figure, "highest", v->highest);
		kedge__json_real(figure, "ratio_to_first", v->median / first->value[f].median);
		kedge__json_real(figure, "cpu_seconds", v->cpu);
		kedge__json_real(figure, "cpu_ratio_to_first", v->cpu / first->value[f].cpu);
		if (figures[f].each)
			kedge__json_real(figure, "microseconds_per_version", v->median * 1e6 / (double)row->count);
		kedge__json_set(o, figures[f].name, figure);
	}
	return o;
}

/* ---- text */

static void figure_text(struct kedge__table *t, size_t f, const struct kedge__versions_row *rows, size_t n)
{
	kedge__table_add(t, "%s", figures[f].text);
	for (size_t i = 0; i < n; i++) {
		const struct kedge__versions_value *v = &rows[i].value[f];

		kedge__table_add(t, "%.3f", v->median * 1e3);
		kedge__table_add(t, "%.3f..%.3f", v->lowest * 1e3, v->highest * 1e3);
		kedge__table_add(t, "%.2f", v->median / rows[0].value[f].median);
		kedge__table_add(t, "%.2f", v->cpu / rows[0].value[f].cpu);
	}
}

/* A row that has neither a spread nor ratios. */
static void skip_cells(struct kedge__table *t)
{
	kedge__table_add(t, "%s", "");
	kedge__table_add(t, "%s", "");
	kedge__table_add(t, "%s", "");
}

static void each_text(struct kedge__table *t, size_t f, const struct kedge__versions_row *rows, size_t n)
{
	kedge__table_add(t, "%s, us per version", figures[f].text);
	for (size_t i = 0; i < n; i++) {
		kedge__table_add(t, "%.2f", rows[i].value[f].median * 1e6 / (double)rows[i].count);
		skip_cells(t);
	}
}

static void print_table(const struct kedge__versions_bench *b, const struct kedge__versions_row *rows, size_t n)
{
	char layout[2 + 4 * KEDGE__VERSIONS_COUNTS] = "l";
	struct kedge__table t;

	for (size_t i = 0; i < n; i++)
		memcpy(layout + 1 + 4 * i, "rrrr", 5);
	kedge__table_init(&t, layout);
	kedge__table_add(&t, "stored versions");
	for (size_t i = 0; i < n; i++) {
		kedge__table_add(&t, "%llu", (unsigned long long)rows[i].count);
		kedge__table_add(&t, "lowest..highest");
		kedge__table_add(&t, "ratio");
		kedge__table_add(&t, "cpu");
	}
	for (size_t f = 0; f < KEDGE__COUNT(figures); f++)
		figure_text(&t, f, rows, n);
	for (size_t f = 0; f < KEDGE__COUNT(figures); f++)
		if (figures[f].each)
			each_text(&t, f, rows, n);
	kedge__table_add(&t, "checkpoint / bare write");
	for (size_t i = 0; i < n; i++) {
		kedge__table_add(&t, "%.2f", rows[i].to_bare);
		skip_cells(&t);
	}
	printf("%d rank%s, %s\n", b->ranks, b->ranks == 1 ? "" : "s", b->l2 ? "L1 and L2" : "L1 alone");
	kedge__table_print(&t, stdout);
	putchar('\n');
}

void kedge__versions_report(struct kedge__versions_bench *b, const struct kedge__versions_row *rows, size_t n)
{
	if (!b->json) {
		print_table(b, rows, n);
		fflush(stdout);
		return;
	}
	for (size_t i = 0; i < n; i++)
		kedge__json_add(b->results, row_json(b, &rows[i], &rows[0]));
}
