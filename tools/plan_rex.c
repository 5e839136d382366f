/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_rex: how many L1 checkpoints to take before an L2 one; Table 1 of the paper beside ours. */
#include "plan.h"
#include <math.h>
#include <stdlib.h>

#define MOST_CHI 24

int kedge__rex_input_read(const struct kedge__rex_input *in, struct kedge__rex *out, struct kedge__error *err)
{
	int rc = kedge__rex_preset(in->preset != NULL ? in->preset : "fit-a", out, err);
	const struct {
		const char *option, *text;
		enum kedge__quantity kind;
		double *to;
	} all[] = {
	    {"ic", in->ic, KEDGE__QUANTITY_NUMBER, &out->ic},
	    {"ratio", in->ratio, KEDGE__QUANTITY_NUMBER, &out->ratio},
	    {"cores", in->cores, KEDGE__QUANTITY_NUMBER, &out->cores},
	    {"bandwidth", in->bandwidth, KEDGE__QUANTITY_NUMBER, &out->bandwidth},
	    {"mtbf", in->mtbf, KEDGE__QUANTITY_SECONDS, &out->mtbf},
	    {"permanent", in->permanent, KEDGE__QUANTITY_NUMBER, &out->permanent},
	    {"work", in->work, KEDGE__QUANTITY_SECONDS, &out->work},
	    {"l1-interval", in->interval, KEDGE__QUANTITY_SECONDS, &out->interval},
	};

	for (size_t i = 0; rc == 0 && i < KEDGE__COUNT(all); i++)
		if (all[i].text != NULL)
			rc = kedge__plan_quantity(all[i].kind, all[i].option, all[i].text, all[i].to, err);
	return rc != 0 ? rc : kedge__rex_check(out, err);
}

struct tool {
	struct kedge__rex_input in;
	struct kedge__text_list sweeps;
	const char *svg;
	bool table, json;
};

static void print_best(const struct kedge__rex *rex)
{
	uint64_t chi = kedge__rex_best(rex);
	struct kedge__rex_costs c;

	kedge__rex_derive(rex, chi, &c);
	printf("an L2 checkpoint after every %llu L1 checkpoints: run time %.6f times the computation\n",
	       (unsigned long long)chi, kedge__rex_ratio(rex, chi));
	printf("L1 every %.4g s, halting %.3g s; L2 every %.4g s; a delta takes %.4g s to write, adds %.4g s to a "
	       "restart; a full one %.4g s\n",
	       c.interval, c.snapshot, c.period, c.delta, c.delta_restore, c.full);
	if (c.deltas == UINT64_MAX)
		printf("no full L2 checkpoint except the first\n");
	else
		printf("a full L2 checkpoint after %llu deltas\n", (unsigned long long)c.deltas);
	printf("Table 1 of the paper says %d\n", kedge__rex_table_lookup(rex->ic, rex->ratio));
}

static json_t *best_json(const struct kedge__rex *rex)
{
	uint64_t chi = kedge__rex_best(rex);
	struct kedge__rex_costs c;
	json_t *o = kedge__json_object(), *ratios = kedge__json_array();

	kedge__rex_derive(rex, chi, &c);
	kedge__json_uint(o, "chi", chi);
	kedge__json_real(o, "ratio", kedge__rex_ratio(rex, chi));
	kedge__json_real(o, "l1_interval", c.interval);
	kedge__json_real(o, "snapshot", c.snapshot);
	kedge__json_real(o, "delta", c.delta);
	kedge__json_real(o, "delta_restore", c.delta_restore);
	kedge__json_real(o, "full", c.full);
	kedge__json_set(o, "deltas", c.deltas == UINT64_MAX ? json_null() : json_integer((json_int_t)c.deltas));
	kedge__json_uint(o, "table_1", (uint64_t)kedge__rex_table_lookup(rex->ic, rex->ratio));
	for (uint64_t i = 1; i <= MOST_CHI; i++)
		kedge__json_add(ratios, json_real(kedge__rex_ratio(rex, i)));
	kedge__json_set(o, "ratios", ratios); /* of chi = 1, 2, ... */
	return o;
}

/* Ours, and the paper's in brackets where it differs. */
static void print_table(const struct kedge__rex *rex, bool json)
{
	json_t *rows = kedge__json_array();
	struct kedge__table table;
	int exact = 0, near = 0;

	kedge__table_init(&table, "lrrrrrr");
	kedge__table_add(&table, "IC \\ CR");
	for (int c = 0; c < KEDGE__REX_COLUMNS; c++)
		kedge__table_add(&table, "%g", kedge__rex_table_cr[c]);
	for (int r = 0; r < KEDGE__REX_ROWS; r++) {
		json_t *row = kedge__json_array();

		kedge__table_add(&table, "1/%g", 1 / kedge__rex_table_ic[r]);
		for (int c = 0; c < KEDGE__REX_COLUMNS; c++) {
			struct kedge__rex cell = *rex;
			int paper = kedge__rex_table[r][c], ours;

			cell.ic = kedge__rex_table_ic[r];
			cell.ratio = kedge__rex_table_cr[c];
			ours = (int)kedge__rex_best(&cell);
			exact += ours == paper;
			near += abs(ours - paper) <= 1;
			if (ours == paper)
				kedge__table_add(&table, "%d", ours);
			else
				kedge__table_add(&table, "%d (%d)", ours, paper);
			kedge__json_add(row, json_integer(ours));
		}
		kedge__json_add(rows, row);
	}
	if (json) {
		json_t *o = kedge__json_object();

		kedge__json_set(o, "table", rows);
		kedge__json_uint(o, "exact", (uint64_t)exact);
		kedge__json_uint(o, "within_one", (uint64_t)near);
		kedge__json_print(o);
		kedge__table_drop(&table);
		return;
	}
	json_decref(rows);
	kedge__table_print(&table, stdout);
	printf("\nin brackets: Table 1 of the paper, where it differs; %d of 36 equal, %d within 1\n", exact, near);
}

static double *parameter(struct kedge__rex *rex, const char *name)
{
	if (strcmp(name, "ic") == 0)
		return &rex->ic;
	if (strcmp(name, "ratio") == 0)
		return &rex->ratio;
	if (strcmp(name, "cores") == 0)
		return &rex->cores;
	return strcmp(name, "bandwidth") == 0 ? &rex->bandwidth : NULL;
}

/* One curve for each value, over chi: figure 9 of the paper. */
static int curves(const struct kedge__rex *rex, const struct kedge__sweep *s, const struct tool *t,
		  struct kedge__error *err)
{
	double x[MOST_CHI], y[KEDGE__CHART_SERIES][MOST_CHI];
	struct kedge__chart c = {.title = "REX: run time and the distance between L2 checkpoints",
				 .x_label = "L1 checkpoints between two L2 checkpoints",
				 .y_label = "run time / computation",
				 .x = x,
				 .points = MOST_CHI,
				 .y_low = NAN,
				 .y_high = NAN,
				 .mark_x = NAN};
	json_t *rows = kedge__json_array();

	for (size_t i = 0; i < s->count && i < KEDGE__CHART_SERIES; i++) {
		struct kedge__rex at = *rex;
		json_t *row;
		int rc;

		*parameter(&at, s->name) = s->at[i];
		rc = kedge__rex_check(&at, err);
		if (rc != 0) {
			json_decref(rows);
			return rc;
		}
		for (int k = 0; k < MOST_CHI; k++) {
			x[k] = k + 1;
			y[i][k] =
			    k >= 1 ? kedge__rex_ratio(&at, (uint64_t)k + 1) : NAN; /* 1 would flatten all the rest */
		}
		snprintf(c.series[i].label, sizeof(c.series[i].label), "%s = %.4g (best %llu)", s->name, s->at[i],
			 (unsigned long long)kedge__rex_best(&at));
		c.series[i].y = y[i];
		c.series_count = i + 1;
		row = best_json(&at);
		kedge__json_real(row, s->name, s->at[i]);
		kedge__json_add(rows, row);
		if (!t->json)
			printf("%s = %-8.4g best %llu, ratio %.6f\n", s->name, s->at[i],
			       (unsigned long long)kedge__rex_best(&at), kedge__rex_ratio(&at, kedge__rex_best(&at)));
	}
	if (t->json)
		kedge__json_print(rows);
	else
		json_decref(rows);
	return t->svg != NULL ? kedge__chart_write(&c, t->svg, err) : 0;
}

static int run(struct tool *t, struct kedge__error *err)
{
	static const char *const other[] = {"ic", "ratio", "cores", "bandwidth", NULL};
	struct kedge__rex rex;
	struct kedge__sweep s = {.count = 1};
	int rc = kedge__rex_input_read(&t->in, &rex, err);

	if (rc == 0 && t->sweeps.count > 1)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "only one --sweep is allowed here");
	if (rc == 0 && t->sweeps.count == 1)
		rc = kedge__sweep_parse(t->sweeps.at[0], other, &s, err);
	if (rc == 0 && t->sweeps.count == 1 && parameter(&rex, s.name) == NULL)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "--sweep %s: must be ic, ratio, cores or bandwidth here",
				      s.name);
	if (rc != 0)
		return rc;
	if (t->sweeps.count == 0 && t->svg != NULL) {
		snprintf(s.name, sizeof(s.name), "ic");
		s.at[0] = rex.ic;
	}
	if (t->sweeps.count == 1 || t->svg != NULL)
		return curves(&rex, &s, t, err);
	if (t->table)
		print_table(&rex, t->json);
	else if (t->json)
		kedge__json_print(best_json(&rex));
	else
		print_best(&rex);
	return 0;
}

int kedge__plan_rex(int argc, char **argv)
{
	struct tool t = {0};
	const struct kedge__option options[] = {
	    KEDGE__REX_OPTIONS(&t.in),
	    {"table", 0, KEDGE__OPTION_FLAG, &t.table, NULL, "compare with Table 1 of the paper"},
	    {"sweep", 0, KEDGE__OPTION_LIST, &t.sweeps, "KEY=VALUES",
	     "curves for values of ic, ratio, cores or bandwidth"},
	    {"svg", 0, KEDGE__OPTION_TEXT, &t.svg, "FILE", "draw the curves"},
	    KEDGE__OPTION_JSON(&t.json),
	};
	const struct kedge__usage usage = {
	    .command = "kedge plan rex",
	    .about =
		"Finds how many incremental L1 checkpoints to take before they are coalesced into an L2 checkpoint.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge plan rex --sweep cores=1,2,4,8 --svg cores.svg"};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	if (kedge__options_parse(&usage, argc, argv, &first, &status))
		status = run(&t, &err) != 0 ? kedge__tool_fail(usage.command, &err, "cannot evaluate") : KEDGE__EXIT_OK;
	kedge__array_done(&t.sweeps);
	return status;
}
