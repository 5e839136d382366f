/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_sweep: plans over ranges of one or two values, as a table, as JSON, as a chart. */
#include "plan.h"
#include <math.h>
#include <stdlib.h>

#define MOST_BANDWIDTH  1e18 /* bytes per second: more does not change any plan */
#define LEAST_BANDWIDTH 1e3

static int unknown_key(const char *name, const char *const *other, struct kedge__error *err)
{
	const char *words[KEDGE__MACHINE_KEY_COUNT + 8], *near;
	size_t n = 0;

	for (int k = 0; k < KEDGE__MACHINE_KEY_COUNT; k++)
		words[n++] = kedge__machine_table[k].key;
	for (; other != NULL && *other != NULL && n < KEDGE__COUNT(words); other++)
		words[n++] = *other;
	near = kedge__nearest_word(name, words, n);
	return kedge__error_set(err, KEDGE_E_ARG, 0, "--sweep %s: no such option%s%s%s", name,
				near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int find_key(const char *name, const char *const *other, struct kedge__sweep *out, struct kedge__error *err)
{
	snprintf(out->name, sizeof(out->name), "%s", name);
	out->key = KEDGE__MACHINE_KEY_COUNT;
	for (const char *const *o = other; o != NULL && *o != NULL; o++)
		if (strcmp(*o, name) == 0)
			return 0;
	out->key = kedge__machine_key_find(name);
	return out->key < KEDGE__MACHINE_KEY_COUNT ? 0 : unknown_key(name, other, err);
}

static int parse_value(const struct kedge__sweep *s, const char *text, double *out, struct kedge__error *err)
{
	int rc = s->key < KEDGE__MACHINE_KEY_COUNT ? kedge__machine_quantity(s->key, text, out, err)
						   : kedge__quantity_parse(KEDGE__QUANTITY_NUMBER, text, out, err);

	if (rc != 0)
		kedge__error_prefix(err, "--sweep %s", s->name);
	return rc;
}

static int push(struct kedge__sweep *s, double v, struct kedge__error *err)
{
	if (s->count == KEDGE__SWEEP_POINTS)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--sweep %s has more than %d points", s->name,
					KEDGE__SWEEP_POINTS);
	s->at[s->count++] = v;
	return 0;
}

static int fill_range(struct kedge__sweep *s, double a, double b, double n, struct kedge__error *err)
{
	int rc = 0;

	if (!(b > a))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--sweep %s ends at %g, before it begins at %g", s->name,
					b, a);
	if (n == 0 && !(a > 0))
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "--sweep %s begins at 0, which cannot be doubled: give the number of points, as in 0..%g:11",
		    s->name, b);
	if (n == 0) {
		for (double v = a; rc == 0 && v < b * (1 - 1e-9); v *= 2)
			rc = push(s, v, err);
		return rc != 0 ? rc : push(s, b, err);
	}
	if (n < 2 || n != floor(n))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--sweep %s has %g points; a range needs at least 2",
					s->name, n);
	for (double i = 0; rc == 0 && i < n; i++)
		rc = push(s, i + 1 == n ? b : a > 0 ? a * pow(b / a, i / (n - 1)) : b * i / (n - 1), err);
	return rc;
}

static int parse_range(struct kedge__sweep *s, char *from, char *to, struct kedge__error *err)
{
	char *points = strchr(to, ':');
	double a, b, n = 0;
	int rc;

	if (points != NULL)
		*points++ = '\0';
	rc = parse_value(s, from, &a, err);
	if (rc == 0)
		rc = parse_value(s, to, &b, err);
	if (rc == 0 && points != NULL)
		rc = kedge__quantity_parse(KEDGE__QUANTITY_NUMBER, points, &n, err);
	return rc != 0 ? rc : fill_range(s, a, b, n, err);
}

static int parse_list(struct kedge__sweep *s, char *text, struct kedge__error *err)
{
	char *save = NULL;
	int rc = 0;

	for (char *word = strtok_r(text, ",", &save); rc == 0 && word != NULL; word = strtok_r(NULL, ",", &save)) {
		double v;

		rc = parse_value(s, word, &v, err);
		if (rc == 0)
			rc = push(s, v, err);
	}
	if (rc == 0 && s->count == 0)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "--sweep %s has no values", s->name);
	return rc;
}

int kedge__sweep_parse(const char *text, const char *const *other, struct kedge__sweep *out, struct kedge__error *err)
{
	char *copy = kedge__strdup(text), *values, *dots;
	struct kedge__sweep s = {.count = 0};
	int rc;

	if (copy == NULL)
		return kedge__error_nomem(err);
	values = strchr(copy, '=');
	if (values == NULL) {
		kedge__free(copy);
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--sweep '%s': expected KEY=A..B, KEY=A..B:N or KEY=A,B,C",
					text);
	}
	*values++ = '\0';
	rc = find_key(copy, other, &s, err);
	if (rc == 0) {
		dots = strstr(values, "..");
		if (dots != NULL) {
			*dots = '\0';
			rc = parse_range(&s, values, dots + 2, err);
		} else {
			rc = parse_list(&s, values, err);
		}
	}
	kedge__free(copy);
	if (rc == 0)
		*out = s;
	return rc;
}

bool kedge__sweep_is_wide(const struct kedge__sweep *s)
{
	double low = INFINITY, high = 0;

	for (size_t i = 0; i < s->count; i++) {
		low = KEDGE__MIN(low, s->at[i]);
		high = KEDGE__MAX(high, s->at[i]);
	}
	return low > 0 && high / low >= 8;
}

int kedge__plan_evaluate(const struct kedge__machine *m, struct kedge__plan_report *out, struct kedge__error *err)
{
	int rc = kedge__sync_best(&m->async.levels, &out->sync, err);

	out->has_async = m->async.levels.count > 1;
	if (rc == 0 && out->has_async)
		rc = kedge__async_best(&m->async, &out->async, err);
	return rc;
}

int kedge__plan_with(const struct kedge__machine_text *text, enum kedge__machine_key key, double value,
		     struct kedge__machine_text *out, struct kedge__error *err)
{
	const char *values[KEDGE__MACHINE_KEY_COUNT] = {NULL};
	char number[32];
	int rc = kedge__machine_text_init(out, err);

	if (rc != 0)
		return rc;
	for (int k = 0; k < KEDGE__MACHINE_KEY_COUNT; k++)
		values[k] = text->value[k][0] != '\0' ? text->value[k] : NULL;
	rc = kedge__machine_text_override(out, values, err);
	memset(values, 0, sizeof(values));
	snprintf(number, sizeof(number), "%.17g", value);
	values[key] = number;
	if (rc == 0)
		rc = kedge__machine_text_override(out, values, err);
	if (rc != 0)
		kedge__machine_text_done(out);
	return rc;
}

static int best_efficiency(const struct kedge__machine_text *text, double pfs, bool background, double *out,
			   struct kedge__error *err)
{
	struct kedge__machine_text with;
	struct kedge__machine m;
	struct kedge__sync_plan sync;
	struct kedge__async_plan async;
	int rc = kedge__plan_with(text, KEDGE__MACHINE_PFS, pfs, &with, err);

	if (rc != 0)
		return rc;
	rc = kedge__machine_resolve(&with, false, &m, err);
	kedge__machine_text_done(&with);
	if (rc != 0)
		return rc;
	rc = background ? kedge__async_best(&m.async, &async, err) : kedge__sync_best(&m.async.levels, &sync, err);
	if (rc == 0)
		*out = background ? async.expect.efficiency : sync.expect.efficiency;
	return rc;
}

/* More bandwidth never hurts, but for ripples of the saw-tooth that are far smaller than the steps of the search. */
int kedge__plan_required(const struct kedge__machine_text *text, double efficiency, bool background, double *out,
			 double *limit, struct kedge__error *err)
{
	double low = LEAST_BANDWIDTH, high = MOST_BANDWIDTH, at;
	int rc = best_efficiency(text, high, background, limit, err);

	*out = INFINITY;
	if (rc != 0 || *limit < efficiency)
		return rc;
	while (rc == 0 && high / low > 1 + 1e-6) {
		double middle = sqrt(low * high);

		rc = best_efficiency(text, middle, background, &at, err);
		*(at >= efficiency ? &high : &low) = middle;
	}
	*out = high;
	return rc;
}

struct results { /* series by points */
	double *y[KEDGE__CHART_SERIES];
	char label[KEDGE__CHART_SERIES][64];
	size_t count;
};

static void results_done(struct results *r)
{
	for (size_t i = 0; i < r->count; i++)
		kedge__free(r->y[i]);
}

static int results_add(struct results *r, size_t points, struct kedge__error *err, const char *label)
{
	if (r->count == KEDGE__CHART_SERIES)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "at most %d curves can be drawn", KEDGE__CHART_SERIES);
	r->y[r->count] = kedge__calloc(points, sizeof(double));
	if (r->y[r->count] == NULL)
		return kedge__error_nomem(err);
	snprintf(r->label[r->count++], sizeof(r->label[0]), "%s", label);
	return 0;
}

static const char *axis_label(const struct kedge__sweep *s, char buf[128])
{
	static const struct {
		enum kedge__machine_key key;
		const char *label;
	} all[] = {
	    {KEDGE__MACHINE_FAILURE, "failure rate, as a multiple of today's"},
	    {KEDGE__MACHINE_COST, "cost of the top level, as a multiple of today's"},
	    {KEDGE__MACHINE_PFS, "bandwidth of the file system (bytes/s)"},
	    {KEDGE__MACHINE_ALPHA, "slow-down of computation by a copy, alpha"},
	    {KEDGE__MACHINE_NODES, "nodes"},
	    {KEDGE__MACHINE_MTBF, "mean time between failures (s)"},
	    {KEDGE__MACHINE_SIZE, "checkpoint of a node (bytes)"},
	    {KEDGE__MACHINE_STAGING, "staging nodes"},
	    {KEDGE__MACHINE_LATENCY, "time of a background copy (s)"},
	};

	snprintf(buf, 128, "%s", s->name);
	for (size_t i = 0; i < KEDGE__COUNT(all); i++)
		if (all[i].key == s->key)
			snprintf(buf, 128, "%s", all[i].label);
	return buf;
}

static int draw(const struct kedge__plan_sweep *s, const struct results *r, bool bandwidth, struct kedge__error *err)
{
	char label[128];
	struct kedge__chart c = {.title = s->title,
				 .x_label = axis_label(&s->sweeps[0], label),
				 .y_label =
				     bandwidth ? "required bandwidth of the file system (bytes/s)" : "efficiency",
				 .x = s->sweeps[0].at,
				 .points = s->sweeps[0].count,
				 .log_x = kedge__sweep_is_wide(&s->sweeps[0]),
				 .log_y = bandwidth,
				 .bars = s->bars,
				 .y_low = bandwidth ? NAN : 0,
				 .y_high = bandwidth ? NAN : 1,
				 .series_count = r->count,
				 .mark_x = NAN};

	for (size_t i = 0; i < r->count; i++) {
		memcpy(c.series[i].label, r->label[i], sizeof(c.series[i].label));
		c.series[i].y = r->y[i];
	}
	return kedge__chart_write(&c, s->svg, err);
}

/* The machine at point I of the first sweep, J of the second. */
static int machine_at(const struct kedge__plan_sweep *s, size_t i, size_t j, struct kedge__machine_text *out,
		      struct kedge__error *err)
{
	struct kedge__machine_text first;
	int rc =
	    kedge__plan_with(s->text, s->sweeps[0].key, s->sweeps[0].at[i], s->sweep_count > 1 ? &first : out, err);

	if (rc != 0 || s->sweep_count < 2)
		return rc;
	rc = kedge__plan_with(&first, s->sweeps[1].key, s->sweeps[1].at[j], out, err);
	kedge__machine_text_done(&first);
	return rc;
}

static json_t *row_json(const struct kedge__plan_sweep *s, size_t i, size_t j)
{
	json_t *row = kedge__json_object();

	kedge__json_real(row, s->sweeps[0].name, s->sweeps[0].at[i]);
	if (s->sweep_count > 1)
		kedge__json_real(row, s->sweeps[1].name, s->sweeps[1].at[j]);
	return row;
}

/* A value of S as people write it: bandwidths and sizes are unreadable in bytes. */
static const char *value_text(const struct kedge__sweep *s, double v, char buf[24])
{
	static const char prefixes[] = " kMGTPE";
	bool bandwidth = s->key == KEDGE__MACHINE_PFS || s->key == KEDGE__MACHINE_PFS_READ ||
			 s->key == KEDGE__MACHINE_L1_RATE || s->key == KEDGE__MACHINE_STAGING_RATE;
	int i = 0;

	if (!bandwidth && s->key != KEDGE__MACHINE_SIZE) {
		snprintf(buf, 24, "%.6g", v);
		return buf;
	}
	for (; v >= 1000 && prefixes[i + 1] != '\0'; i++)
		v /= 1000;
	snprintf(buf, 24, "%.4g %.*sB%s", v, i > 0, &prefixes[i], bandwidth ? "/s" : "");
	return buf;
}

static void row_cells(const struct kedge__plan_sweep *s, size_t i, size_t j, struct kedge__table *t)
{
	char buf[24];

	kedge__table_add(t, "%s", value_text(&s->sweeps[0], s->sweeps[0].at[i], buf));
	if (s->sweep_count > 1)
		kedge__table_add(t, "%s", value_text(&s->sweeps[1], s->sweeps[1].at[j], buf));
}

static void add_heads(const struct kedge__plan_sweep *s, struct kedge__table *t, const char *const *heads, size_t n)
{
	for (size_t k = 0; k < s->sweep_count; k++)
		kedge__table_add(t, "%s", s->sweeps[k].name);
	for (size_t i = 0; i < n; i++)
		kedge__table_add(t, "%s", heads[i]);
}

static void report_row(const struct kedge__plan_report *r, json_t *row, struct kedge__table *t)
{
	kedge__json_real(row, "sync_interval", r->sync.interval);
	kedge__json_uint(row, "sync_count", r->sync.counts[0]);
	kedge__json_real(row, "sync_efficiency", r->sync.expect.efficiency);
	kedge__table_add(t, "%.5g", r->sync.interval);
	kedge__table_add(t, "%llu", (unsigned long long)r->sync.counts[0]);
	kedge__table_add(t, "%.4f", r->sync.expect.efficiency);
	if (!r->has_async) {
		for (int i = 0; i < 5; i++)
			kedge__table_add(t, "-");
		return;
	}
	kedge__json_real(row, "async_interval", r->async.interval);
	kedge__json_uint(row, "async_segments", r->async.segments);
	kedge__json_uint(row, "async_incomplete", r->async.incomplete);
	kedge__json_real(row, "async_efficiency", r->async.expect.efficiency);
	kedge__table_add(t, "%.5g", r->async.interval);
	kedge__table_add(t, "%llu", (unsigned long long)r->async.segments);
	kedge__table_add(t, "%llu", (unsigned long long)r->async.incomplete);
	kedge__table_add(t, "%.4f", r->async.expect.efficiency);
	if (r->sync.expect.efficiency > 0)
		kedge__table_add(t, "%.3f", r->async.expect.efficiency / r->sync.expect.efficiency);
	else
		kedge__table_add(t, "-");
}

static int add_efficiency_series(const struct kedge__plan_sweep *s, size_t series, struct results *r,
				 struct kedge__error *err)
{
	static const char *const modes[] = {"synchronous", "asynchronous"};
	int rc = 0;

	for (size_t j = 0; j < series; j++)
		for (int k = 0; rc == 0 && k < 2; k++) {
			char label[64], value[24];

			if (s->sweep_count > 1)
				snprintf(label, sizeof(label), "%s, %.20s %s", k ? "async" : "sync", s->sweeps[1].name,
					 value_text(&s->sweeps[1], s->sweeps[1].at[j], value));
			else
				snprintf(label, sizeof(label), "%s", modes[k]);
			rc = results_add(r, s->sweeps[0].count, err, label);
		}
	return rc;
}

static int efficiencies(const struct kedge__plan_sweep *s, struct results *r, json_t *rows, struct kedge__table *t,
			struct kedge__error *err)
{
	static const char *const heads[] = {"sync interval", "L1 per L2",  "efficiency", "async interval",
					    "segments",      "incomplete", "efficiency", "async/sync"};
	size_t series = s->sweep_count > 1 ? s->sweeps[1].count : 1;
	int rc = s->svg != NULL ? add_efficiency_series(s, series, r, err) : 0;

	add_heads(s, t, heads, KEDGE__COUNT(heads));
	for (size_t j = 0; j < series; j++)
		for (size_t i = 0; rc == 0 && i < s->sweeps[0].count; i++) {
			struct kedge__machine_text text;
			struct kedge__machine m;
			struct kedge__plan_report report;
			json_t *row;

			rc = machine_at(s, i, j, &text, err);
			if (rc != 0)
				break;
			rc = kedge__machine_resolve(&text, false, &m, err);
			kedge__machine_text_done(&text);
			if (rc == 0)
				rc = kedge__plan_evaluate(&m, &report, err);
			if (rc != 0)
				break;
			row = row_json(s, i, j);
			row_cells(s, i, j, t);
			report_row(&report, row, t);
			kedge__json_add(rows, row);
			if (s->svg == NULL)
				continue;
			r->y[2 * j][i] = report.sync.expect.efficiency;
			r->y[2 * j + 1][i] = report.has_async ? report.async.expect.efficiency : NAN;
		}
	return rc;
}

static int required_row(const struct kedge__plan_sweep *s, size_t i, struct results *r, json_t *row,
			struct kedge__table *t, struct kedge__error *err)
{
	for (size_t k = 0; k < 2 * s->target_count; k++) {
		struct kedge__machine_text text;
		char key[64];
		double bandwidth, limit;
		int rc;

		if (s->sweep_count > 0)
			rc = kedge__plan_with(s->text, s->sweeps[0].key, s->sweeps[0].at[i], &text, err);
		else
			rc = kedge__plan_with(s->text, KEDGE__MACHINE_PFS, 1, &text, err);
		if (rc != 0)
			return rc;
		rc = kedge__plan_required(&text, s->targets[k / 2], k % 2, &bandwidth, &limit, err);
		kedge__machine_text_done(&text);
		if (rc != 0)
			return rc;
		snprintf(key, sizeof(key), "%s_%g", k % 2 ? "async" : "sync", s->targets[k / 2]);
		kedge__json_real(row, key, bandwidth);
		if (isinf(bandwidth))
			kedge__table_add(t, "never (%.3f)", limit);
		else
			kedge__table_add(t, "%.4g GB/s", bandwidth / 1e9);
		if (s->svg != NULL)
			r->y[k][i] = isinf(bandwidth) ? NAN : bandwidth;
	}
	return 0;
}

/* The columns: for each target, synchronous and asynchronous. */
static int required(const struct kedge__plan_sweep *s, struct results *r, json_t *rows, struct kedge__table *t,
		    struct kedge__error *err)
{
	size_t points = s->sweep_count > 0 ? s->sweeps[0].count : 1;
	int rc = 0;

	add_heads(s, t, NULL, 0);
	for (size_t k = 0; k < 2 * s->target_count; k++) {
		char label[64];

		snprintf(label, sizeof(label), "%.4g %% %s", 100 * s->targets[k / 2], k % 2 ? "async" : "sync");
		kedge__table_add(t, "%s", label);
		if (s->svg != NULL && rc == 0)
			rc = results_add(r, points, err, label);
	}
	for (size_t i = 0; rc == 0 && i < points; i++) {
		json_t *row = s->sweep_count > 0 ? row_json(s, i, 0) : kedge__json_object();

		if (s->sweep_count > 0)
			row_cells(s, i, 0, t);
		rc = required_row(s, i, r, row, t, err);
		kedge__json_add(rows, row);
	}
	return rc;
}

static int check(const struct kedge__plan_sweep *s, struct kedge__error *err)
{
	if (s->svg != NULL && s->sweep_count == 0)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--svg needs --sweep");
	if (s->target_count > 0 && s->sweep_count > 1)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--required-bandwidth allows only one --sweep");
	for (size_t k = 0; k < s->sweep_count; k++)
		if (s->target_count > 0 && s->sweeps[k].key == KEDGE__MACHINE_PFS)
			return kedge__error_set(err, KEDGE_E_ARG, 0,
						"--required-bandwidth varies pfs itself: --sweep another option");
	for (size_t k = 0; k < s->target_count; k++)
		if (!(s->targets[k] > 0 && s->targets[k] < 1))
			return kedge__error_set(err, KEDGE_E_ARG, 0, "--required-bandwidth %g: must be between 0 and 1",
						s->targets[k]);
	return 0;
}

int kedge__plan_sweep_run(struct kedge__plan_sweep *s)
{
	static const char layout[] = "rrrrrrrrrrrrrrrrrr";
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct results r = {.count = 0};
	size_t columns = s->sweep_count + (s->target_count > 0 ? 2 * s->target_count : 8);
	json_t *rows = kedge__json_array();
	struct kedge__table t;
	int rc = check(s, &err);

	kedge__table_init(&t, layout + sizeof(layout) - 1 - columns);
	if (rc == 0)
		rc = s->target_count > 0 ? required(s, &r, rows, &t, &err) : efficiencies(s, &r, rows, &t, &err);
	if (rc == 0 && s->svg != NULL)
		rc = draw(s, &r, s->target_count > 0, &err);
	results_done(&r);
	if (rc == 0 && s->json)
		kedge__json_print(rows);
	else
		json_decref(rows);
	if (rc == 0 && !s->json)
		kedge__table_print(&t, stdout);
	else
		kedge__table_drop(&t);
	return rc != 0 ? kedge__tool_fail(s->usage->command, &err, "cannot plan") : KEDGE__EXIT_OK;
}
