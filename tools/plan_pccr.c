/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_pccr: from how many processes on compressing pays. */
#include "plan.h"
#include <math.h>

const char *const kedge__pccr_option_names[8] = {"size",         "collect",           "compress", "compress-pipelined",
						 "fs-bandwidth", "process-bandwidth", "ratio",    "processes"};

int kedge__pccr_input_read(const struct kedge__pccr_input *in, struct kedge__pccr *out, struct kedge__error *err)
{
	static const enum kedge__quantity kinds[8] = {
	    KEDGE__QUANTITY_BYTES,     KEDGE__QUANTITY_SECONDS,   KEDGE__QUANTITY_SECONDS, KEDGE__QUANTITY_SECONDS,
	    KEDGE__QUANTITY_BANDWIDTH, KEDGE__QUANTITY_BANDWIDTH, KEDGE__QUANTITY_NUMBER,  KEDGE__QUANTITY_NUMBER};
	double *const to[8] = {&out->size,         &out->collect,           &out->compress, &out->compress_pipelined,
			       &out->fs_bandwidth, &out->process_bandwidth, &out->ratio,    &out->processes};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < KEDGE__COUNT(kinds); i++)
		rc = kedge__plan_quantity(kinds[i], kedge__pccr_option_names[i], in->text[i], to[i], err);
	return rc;
}

static void print_times(const struct kedge__pccr *in, const struct kedge__pccr_times *t)
{
	struct kedge__table table;

	kedge__table_init(&table, "lrrr");
	kedge__table_add(&table, "checkpointing");
	kedge__table_add(&table, "seconds");
	kedge__table_add(&table, "file system full from");
	kedge__table_add(&table, "pays from");
	kedge__table_add(&table, "without compression");
	kedge__table_add(&table, "%.6g", t->uncompressed);
	kedge__table_add(&table, "%.6g processes", t->saturation);
	kedge__table_add(&table, "-");
	kedge__table_add(&table, "compressed, then written");
	kedge__table_add(&table, "%.6g", t->serial);
	kedge__table_add(&table, "%.6g processes", t->saturation_compressed);
	if (isinf(t->beneficial_serial))
		kedge__table_add(&table, "never");
	else
		kedge__table_add(&table, "%.6g processes", t->beneficial_serial);
	kedge__table_add(&table, "in a pipeline");
	kedge__table_add(&table, "%.6g", t->pipelined);
	kedge__table_add(&table, "%.6g processes", t->saturation_pipelined);
	kedge__table_add(&table, "%.6g processes", t->beneficial_pipelined);
	printf("%.6g processes\n\n", in->processes);
	kedge__table_print(&table, stdout);
}

static const char *const curves[] = {"without compression", "compressed, then written", "in a pipeline"};

/* Y[k][i]: seconds of curve k at point i. */
static int fill(struct kedge__pccr in, const struct kedge__sweep *s, double (*y)[KEDGE__SWEEP_POINTS], json_t *rows,
		double *pays, struct kedge__error *err)
{
	for (size_t i = 0; i < s->count; i++) {
		struct kedge__pccr_times t;
		json_t *row;
		int rc;

		in.processes = s->at[i];
		rc = kedge__pccr_evaluate(&in, &t, err);
		if (rc != 0)
			return rc;
		y[0][i] = t.uncompressed;
		y[1][i] = t.serial;
		y[2][i] = t.pipelined;
		*pays = t.beneficial_serial;
		row = kedge__pccr_json(&t);
		kedge__json_real(row, "processes", s->at[i]);
		kedge__json_add(rows, row);
	}
	return 0;
}

static void print_rows(const struct kedge__sweep *s, double (*y)[KEDGE__SWEEP_POINTS])
{
	struct kedge__table table;

	kedge__table_init(&table, "rrrr");
	kedge__table_add(&table, "processes");
	for (int k = 0; k < 3; k++)
		kedge__table_add(&table, "%s", curves[k]);
	for (size_t i = 0; i < s->count; i++) {
		kedge__table_add(&table, "%.6g", s->at[i]);
		for (int k = 0; k < 3; k++)
			kedge__table_add(&table, "%.6g", y[k][i]);
	}
	kedge__table_print(&table, stdout);
}

static int draw(const struct kedge__sweep *s, double (*y)[KEDGE__SWEEP_POINTS], double pays, const char *svg,
		struct kedge__error *err)
{
	struct kedge__chart c = {.title = "Time of a checkpoint with and without compression",
				 .x_label = "processes",
				 .y_label = "time of a checkpoint (s)",
				 .x = s->at,
				 .points = s->count,
				 .log_x = kedge__sweep_is_wide(s),
				 .log_y = true,
				 .y_low = NAN,
				 .y_high = NAN,
				 .series_count = 3,
				 .mark_x = pays,
				 .mark_label = "serial compression pays"};

	for (int k = 0; k < 3; k++) {
		snprintf(c.series[k].label, sizeof(c.series[k].label), "%s", curves[k]);
		c.series[k].y = y[k];
	}
	return kedge__chart_write(&c, svg, err);
}

static int sweep(struct kedge__pccr in, const struct kedge__sweep *s, const char *svg, bool json,
		 struct kedge__error *err)
{
	double y[3][KEDGE__SWEEP_POINTS], pays = NAN;
	json_t *rows = kedge__json_array();
	int rc = fill(in, s, y, rows, &pays, err);

	if (rc == 0 && svg != NULL)
		rc = draw(s, y, pays, svg, err);
	if (rc == 0 && json) {
		kedge__json_print(rows);
		return 0;
	}
	json_decref(rows);
	if (rc == 0)
		print_rows(s, y);
	return rc;
}

struct tool {
	struct kedge__pccr_input in;
	struct kedge__text_list sweeps;
	const char *svg;
	bool json;
};

static int run(struct tool *t, struct kedge__error *err)
{
	static const char *const other[] = {"processes", NULL};
	struct kedge__pccr in;
	struct kedge__pccr_times times;
	struct kedge__sweep s;
	int rc;

	if (t->sweeps.count > 0 && t->in.text[7] == NULL)
		t->in.text[7] = "1";
	rc = kedge__pccr_input_read(&t->in, &in, err);
	if (rc == 0 && t->sweeps.count > 0) {
		rc = kedge__sweep_parse(t->sweeps.at[0], other, &s, err);
		if (rc == 0 && (t->sweeps.count > 1 || strcmp(s.name, "processes") != 0))
			rc = kedge__error_set(err, KEDGE_E_ARG, 0, "only one --sweep, of processes, is allowed here");
		return rc != 0 ? rc : sweep(in, &s, t->svg, t->json, err);
	}
	if (rc == 0 && t->svg != NULL)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "--svg needs --sweep processes=A..B");
	if (rc == 0)
		rc = kedge__pccr_evaluate(&in, &times, err);
	if (rc == 0 && t->json)
		kedge__json_print(kedge__pccr_json(&times));
	else if (rc == 0)
		print_times(&in, &times);
	return rc;
}

int kedge__plan_pccr(int argc, char **argv)
{
	struct tool t = {0};
	const struct kedge__option options[] = {
	    KEDGE__PCCR_OPTIONS(&t.in),
	    {"sweep", 0, KEDGE__OPTION_LIST, &t.sweeps, "processes=A..B", "a table over numbers of processes"},
	    {"svg", 0, KEDGE__OPTION_TEXT, &t.svg, "FILE", "draw the table"},
	    KEDGE__OPTION_JSON(&t.json),
	};
	const struct kedge__usage usage = {
	    .command = "kedge plan pccr",
	    .about =
		"Prints the time of a checkpoint with and without compression if many processes share a file system.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge plan pccr --size 500MB --collect 0.5 --compress 10 --compress-pipelined 2 --fs-bandwidth "
		       "6.4GB/s "
		       "--process-bandwidth 50MB/s --ratio 0.65 --processes 1024"};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	if (kedge__options_parse(&usage, argc, argv, &first, &status))
		status = run(&t, &err) != 0 ? kedge__tool_fail(usage.command, &err, "cannot evaluate") : KEDGE__EXIT_OK;
	kedge__array_done(&t.sweeps);
	return status;
}
