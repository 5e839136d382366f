/* SPDX-License-Identifier: BSD-3-Clause */
/* plan: what `kedge plan` and `kedge simulate` share: the description of a machine on the command line, and charts. */
#ifndef KEDGE_TOOLS_PLAN_H
#define KEDGE_TOOLS_PLAN_H

#include "simulate/simulate.h"
#include "tool.h"
#include "tool_pccr.h"

/* ------------------------------------------------------------------ plan_input.c */

#define KEDGE__PLAN_OPTIONS (KEDGE__MACHINE_KEY_COUNT + 32)

struct kedge__plan_input {
	const char *machine; /* a file, or the name of one that is installed */
	const char *from, *from_l2, *from_name;
	const char *log; /* of failures, from which their rates follow */
	const char *flags[KEDGE__MACHINE_KEY_COUNT];
	char names[KEDGE__MACHINE_KEY_COUNT][16]; /* of the options */
	struct kedge__option options[KEDGE__PLAN_OPTIONS];
	size_t option_count;
};

/* The options of a machine, then those of MORE. IN must stay where it is. */
void kedge__plan_input_init(struct kedge__plan_input *in, const struct kedge__option *more, size_t count);
/* The machine file, the measurements of --from, and the options over them. *TEXT: kedge__machine_text_done(), if 0. */
int kedge__plan_input_read(struct kedge__plan_input *in, struct kedge__machine_text *text, struct kedge__error *err);
/* Read and resolve at once. */
int kedge__plan_input_resolve(struct kedge__plan_input *in, bool background, struct kedge__machine *out,
			      struct kedge__error *err);
/* A background copy that takes no time must be intended, not an omission. */
int kedge__plan_need_latency(const struct kedge__plan_input *in, const struct kedge__machine *m, struct kedge__error *err);
/* The value of an option that does not belong to a machine: errors begin with its name. */
int kedge__plan_quantity(enum kedge__quantity kind, const char *option, const char *text, double *out,
			 struct kedge__error *err);
int kedge__plan_count(const char *option, const char *text, uint64_t *out, struct kedge__error *err);
/* N counts "20,1"; the top level's may be left out. */
int kedge__plan_counts(const char *text, int n, uint64_t *out, struct kedge__error *err);
/* sync or async. */
int kedge__plan_mode(const char *text, bool *background, struct kedge__error *err);

/* ------------------------------------------------------------------ plan_measured.c: costs of earlier runs */

struct kedge__measured {
	double nodes;        /* ranks of the newest set */
	double size;         /* stored bytes of a rank, the largest of each set, on average */
	double cost;         /* seconds that a checkpoint blocked the job, on average */
	double latency;      /* seconds until a set was on L2; NAN: not known */
	size_t sets, copies; /* measured */
};

/* From the newest sets of NAME in STORE; L2 (may be NULL) is the store that they were copied to. */
int kedge__plan_measure(const char *store, const char *l2, const char *name, struct kedge__measured *out,
			struct kedge__error *err);

/* ------------------------------------------------------------------ plan_chart.c: line and bar charts as SVG */

#define KEDGE__CHART_SERIES 16

struct kedge__chart_series {
	char label[64];
	const double *y; /* as many as the chart has x; NAN: no point */
};

struct kedge__chart {
	const char *title, *x_label, *y_label;
	const double *x;
	size_t points;
	bool log_x, log_y, bars; /* bars: x are categories */
	double y_low, y_high;    /* NAN: from the data */
	struct kedge__chart_series series[KEDGE__CHART_SERIES];
	size_t series_count;
	double mark_x;           /* a vertical line, or NAN */
	const char *mark_label;
};

int kedge__chart_write(const struct kedge__chart *c, const char *path, struct kedge__error *err);

/* ------------------------------------------------------------------ plan_sweep.c */

#define KEDGE__SWEEP_POINTS 256

struct kedge__sweep {
	enum kedge__machine_key key; /* KEDGE__MACHINE_KEY_COUNT: another thing, by its name */
	char name[32];
	double at[KEDGE__SWEEP_POINTS];
	size_t count;
};

/* "KEY=A..B" doubles from A to B, "KEY=A..B:N" has N points, "KEY=A,B,C" is a list. OTHER: names beside machine keys. */
int kedge__sweep_parse(const char *text, const char *const *other, struct kedge__sweep *out, struct kedge__error *err);
/* All points on a ratio scale: wide enough that a logarithmic axis shows them better. */
bool kedge__sweep_is_wide(const struct kedge__sweep *s);

struct kedge__plan_report {
	struct kedge__sync_plan sync;
	struct kedge__async_plan async;
	bool has_async;
};

int kedge__plan_evaluate(const struct kedge__machine *m, struct kedge__plan_report *out, struct kedge__error *err);
/* The least bandwidth of the file system with which the best plan has EFFICIENCY; INFINITY: none. */
int kedge__plan_required(const struct kedge__machine_text *text, double efficiency, bool background, double *out,
			 double *limit, struct kedge__error *err);

struct kedge__plan_sweep {
	const struct kedge__usage *usage;
	struct kedge__machine_text *text;
	struct kedge__sweep sweeps[2];
	size_t sweep_count;
	double targets[8]; /* of --required-bandwidth */
	size_t target_count;
	const char *svg, *title;
	bool bars, json;
};

int kedge__plan_sweep_run(struct kedge__plan_sweep *s);
/* TEXT with one value replaced. kedge__machine_text_done(). */
int kedge__plan_with(const struct kedge__machine_text *text, enum kedge__machine_key key, double value,
		     struct kedge__machine_text *out, struct kedge__error *err);

/* ------------------------------------------------------------------ plan_eval.c, plan_rex.c: the pieces one by one */

int kedge__plan_eval(int argc, char **argv);
int kedge__plan_best(int argc, char **argv);
int kedge__plan_coalesce(int argc, char **argv);
int kedge__plan_pccr(int argc, char **argv);
int kedge__plan_rex(int argc, char **argv);

/* Options of REX's model, for plan and simulate. */
struct kedge__rex_input {
	const char *preset, *ic, *ratio, *cores, *bandwidth, *mtbf, *permanent, *work, *interval;
};

#define KEDGE__REX_OPTIONS(in)                                                                                         \
	{"preset", 0, KEDGE__OPTION_TEXT, &(in)->preset, "NAME",                                                       \
	 "parameters that the paper leaves open: fit-a (default), fit-b, natural, v1, v3, v5, v8"},                    \
	{"ic", 0, KEDGE__OPTION_TEXT, &(in)->ic, "X", "size of an L1 checkpoint / size of a full one (default: 1/2)"},\
	{"ratio", 0, KEDGE__OPTION_TEXT, &(in)->ratio, "X", "raw / compressed size (default: 2)"},                     \
	{"cores", 0, KEDGE__OPTION_TEXT, &(in)->cores, "N", "cores per node (default: 4)"},                            \
	{"bandwidth", 0, KEDGE__OPTION_TEXT, &(in)->bandwidth, "X", "network bandwidth / that of a link (default: 1)"},\
	{"mtbf", 0, KEDGE__OPTION_TEXT, &(in)->mtbf, "TIME", "mean time between failures (default: 10000s)"},          \
	{"permanent", 0, KEDGE__OPTION_TEXT, &(in)->permanent, "X", "share of failures that need L2 (default: 16%)"},\
	{"work", 0, KEDGE__OPTION_TEXT, &(in)->work, "TIME", "computation of the job (default: the preset's)"},        \
	{"l1-interval", 0, KEDGE__OPTION_TEXT, &(in)->interval, "TIME",                                                \
	 "L1 interval of a full checkpoint (default: the preset's)"}

int kedge__rex_input_read(const struct kedge__rex_input *in, struct kedge__rex *out, struct kedge__error *err);

struct kedge__pccr_input {
	const char *text[8];
};

extern const char *const kedge__pccr_option_names[8];
#define KEDGE__PCCR_OPTIONS(in)                                                                                        \
	{"size", 0, KEDGE__OPTION_TEXT, &(in)->text[0], "SIZE", "checkpoint of one process"},                          \
	{"collect", 0, KEDGE__OPTION_TEXT, &(in)->text[1], "TIME", "time to collect it"},                              \
	{"compress", 0, KEDGE__OPTION_TEXT, &(in)->text[2], "TIME", "time to compress it"},                            \
	{"compress-pipelined", 0, KEDGE__OPTION_TEXT, &(in)->text[3], "TIME", "time of the compressing stage in a pipeline"},\
	{"fs-bandwidth", 0, KEDGE__OPTION_TEXT, &(in)->text[4], "RATE", "bandwidth of the file system"},               \
	{"process-bandwidth", 0, KEDGE__OPTION_TEXT, &(in)->text[5], "RATE", "bandwidth of one process"},              \
	{"ratio", 0, KEDGE__OPTION_TEXT, &(in)->text[6], "X", "compressed / raw size"},                                \
	{"processes", 0, KEDGE__OPTION_TEXT, &(in)->text[7], "N", "processes that checkpoint together"}

int kedge__pccr_input_read(const struct kedge__pccr_input *in, struct kedge__pccr *out, struct kedge__error *err);

/* ------------------------------------------------------------------ simulate.c, simulate_rex.c */

/* KIND: exponential (or NULL), weibull, or a file. MODEL has levels and rates. *TRACE is to be freed, or stays NULL. */
int kedge__failures_read(const char *kind, const char *shape, uint64_t nodes, struct kedge__failure_model *model,
			 struct kedge__failure **trace, struct kedge__error *err);
int kedge__simulate_rex(int argc, char **argv);
int kedge__simulate_pccr(int argc, char **argv);
int kedge__simulate_flush(int argc, char **argv);

#endif
