/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate_rex: the simulators of REX, of PCCR and of a single flush. */
#include "plan.h"
#include <math.h>

struct common {
	uint64_t runs, seed, threads;
	bool json;
};

#define COMMON_OPTIONS(c)                                                                                              \
	{"runs", 0, KEDGE__OPTION_UINT, &(c)->runs, "N", "runs (default: 10000; pccr and flush: 100)"},                \
	    {"seed",     0,   KEDGE__OPTION_UINT,                                                                      \
	     &(c)->seed, "N", "the same seed gives the same result everywhere (default: 1)"},                          \
	    {"threads",     0,   KEDGE__OPTION_UINT,                                                                   \
	     &(c)->threads, "N", "threads (default: one per core); the result does not depend on it"},                 \
	    KEDGE__OPTION_JSON(&(c)->json)

static int make_pool(const struct common *c, struct kedge__pool **pool, struct kedge__error *err)
{
	struct kedge__job_settings any = {.threads = (int64_t)KEDGE__MIN(c->threads, 1024)};

	return kedge__pool_new(kedge__tool_threads(&any), pool, err);
}

struct rex {
	struct kedge__rex_input in;
	struct common common;
	const char *chi, *failures, *shape;
};

static void print_rex(const struct rex *t, const struct kedge__rex *rex, uint64_t chi,
		      const struct kedge__rex_sim_result *r)
{
	double analytic = kedge__rex_ratio(rex, chi);
	json_t *o;

	if (!t->common.json) {
		printf("%llu runs of %.6g s of work, an L2 checkpoint after every %llu L1 checkpoints\n",
		       (unsigned long long)r->runs, rex->work, (unsigned long long)chi);
		printf("run time / work  %.6f, 99 %% confidence %.6f .. %.6f\n", r->ratio, r->low, r->high);
		printf("first-order model %.6f\n", analytic);
		printf(
		    "per run: %.4g transient and %.4g permanent failures, %.4g L1, %.4g L2 checkpoints (%.4g of them "
		    "full)\n",
		    r->transient, r->permanent, r->l1, r->l2, r->full);
		return;
	}
	o = kedge__json_object();
	kedge__json_uint(o, "runs", r->runs);
	kedge__json_uint(o, "seed", t->common.seed);
	kedge__json_uint(o, "chi", chi);
	kedge__json_real(o, "work_seconds", rex->work);
	kedge__json_real(o, "ratio", r->ratio);
	kedge__json_real(o, "standard_error", r->error);
	kedge__json_real(o, "low_99", r->low);
	kedge__json_real(o, "high_99", r->high);
	kedge__json_real(o, "analytic_ratio", analytic);
	kedge__json_real(o, "transient", r->transient);
	kedge__json_real(o, "permanent", r->permanent);
	kedge__json_real(o, "l1", r->l1);
	kedge__json_real(o, "l2", r->l2);
	kedge__json_real(o, "full", r->full);
	kedge__json_print(o);
}

static int run_rex(const struct rex *t, struct kedge__error *err)
{
	struct kedge__rex rex;
	struct kedge__rex_sim_result r;
	struct kedge__failure_model model = {.levels = 2};
	struct kedge__failure *trace = NULL;
	struct kedge__pool *pool = NULL;
	uint64_t chi = 0;
	int rc = kedge__rex_input_read(&t->in, &rex, err);

	if (rc != 0)
		return rc;
	model.rate[0] = (1 - rex.permanent) / rex.mtbf;
	model.rate[1] = rex.permanent / rex.mtbf;
	chi = kedge__rex_best(&rex);
	if (t->chi != NULL)
		rc = kedge__plan_count("chi", t->chi, &chi, err);
	if (rc == 0)
		rc = kedge__failures_read(t->failures, t->shape, 0, &model, &trace, err);
	if (rc == 0)
		rc = make_pool(&t->common, &pool, err);
	if (rc == 0)
		rc = kedge__rex_simulate(&rex, chi, &model, t->common.runs, t->common.seed, pool, &r, err);
	kedge__pool_free(pool);
	kedge__free(trace);
	if (rc == 0)
		print_rex(t, &rex, chi, &r);
	return rc;
}

int kedge__simulate_rex(int argc, char **argv)
{
	struct rex t = {.common = {.runs = 10000, .seed = 1}};
	const struct kedge__option options[] = {
	    KEDGE__REX_OPTIONS(&t.in),
	    {"chi", 0, KEDGE__OPTION_TEXT, &t.chi, "N",
	     "L1 checkpoints before an L2 one (default: the best according to the model)"},
	    {"failures", 0, KEDGE__OPTION_TEXT, &t.failures, "KIND",
	     "exponential, weibull, or a file of failure times; level 2 is permanent"},
	    {"shape", 0, KEDGE__OPTION_TEXT, &t.shape, "X", "shape of the Weibull distribution (default: 0.7)"},
	    COMMON_OPTIONS(&t.common),
	};
	const struct kedge__usage usage = {
	    .command = "kedge simulate rex",
	    .about = "Simulates a job whose increments a thread coalesces into L2 checkpoints.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge simulate rex --ic 1/2 --ratio 2 --chi 6"};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	if (!kedge__options_parse(&usage, argc, argv, &first, &status))
		return status;
	if (run_rex(&t, &err) != 0)
		return kedge__tool_fail(usage.command, &err, "cannot simulate");
	return KEDGE__EXIT_OK;
}

struct pccr {
	struct kedge__pccr_input in;
	struct common common;
	const char *variation;
};

static void print_pccr(const struct pccr *t, const struct kedge__pccr_sim_result *r, const struct kedge__pccr_times *a)
{
	const struct {
		const char *name;
		const double *sim;
		double analytic;
	} all[] = {{"uncompressed", r->uncompressed, a->uncompressed},
		   {"serial", r->serial, a->serial},
		   {"pipelined", r->pipelined, a->pipelined}};
	json_t *o = kedge__json_object();

	for (size_t i = 0; i < KEDGE__COUNT(all); i++) {
		json_t *one = kedge__json_object();

		kedge__json_real(one, "seconds", all[i].sim[0]);
		kedge__json_real(one, "low_99", all[i].sim[1]);
		kedge__json_real(one, "high_99", all[i].sim[2]);
		kedge__json_real(one, "analytic_seconds", all[i].analytic);
		kedge__json_set(o, all[i].name, one);
		if (!t->common.json)
			printf("%-13s %.6g s, 99 %% confidence %.6g .. %.6g s; model %.6g s\n", all[i].name,
			       all[i].sim[0], all[i].sim[1], all[i].sim[2], all[i].analytic);
	}
	if (t->common.json)
		kedge__json_print(o);
	else
		json_decref(o);
}

static int run_pccr(const struct pccr *t, struct kedge__error *err)
{
	struct kedge__pccr in;
	struct kedge__pccr_times analytic;
	struct kedge__pccr_sim_result r;
	struct kedge__pool *pool = NULL;
	double variation = 0;
	int rc = kedge__pccr_input_read(&t->in, &in, err);

	if (rc == 0 && t->variation != NULL)
		rc = kedge__plan_quantity(KEDGE__QUANTITY_NUMBER, "variation", t->variation, &variation, err);
	if (rc == 0)
		rc = kedge__pccr_evaluate(&in, &analytic, err);
	if (rc == 0)
		rc = make_pool(&t->common, &pool, err);
	if (rc == 0)
		rc = kedge__pccr_simulate(&in, variation, t->common.runs, t->common.seed, pool, &r, err);
	kedge__pool_free(pool);
	if (rc == 0)
		print_pccr(t, &r, &analytic);
	return rc;
}

int kedge__simulate_pccr(int argc, char **argv)
{
	struct pccr t = {.common = {.runs = 100, .seed = 1}};
	const struct kedge__option options[] = {
	    KEDGE__PCCR_OPTIONS(&t.in),
	    {"variation", 0, KEDGE__OPTION_TEXT, &t.variation, "X",
	     "variation of collection and compression times: standard deviation / mean"},
	    COMMON_OPTIONS(&t.common),
	};
	const struct kedge__usage usage = {
	    .command = "kedge simulate pccr",
	    .about =
		"Simulates processes that collect, compress and write to a shared file system, each at its own pace.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example =
		"kedge simulate pccr --size 500MB --collect 0.5 --compress 10 --compress-pipelined 2 "
		"--fs-bandwidth 6.4GB/s --process-bandwidth 50MB/s --ratio 0.65 --processes 1024 --variation 0.1"};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	if (!kedge__options_parse(&usage, argc, argv, &first, &status))
		return status;
	if (run_pccr(&t, &err) != 0)
		return kedge__tool_fail(usage.command, &err, "cannot simulate");
	return KEDGE__EXIT_OK;
}

struct flush {
	struct common common;
	const char *nodes, *size, *variation, *servers, *node_rate, *server_rate, *pfs;
};

static int read_flush(const struct flush *t, struct kedge__flush *f, struct kedge__error *err)
{
	const struct {
		const char *option, *text;
		enum kedge__quantity kind;
		double *to;
		bool needed;
	} all[] = {
	    {"nodes", t->nodes, KEDGE__QUANTITY_NUMBER, &f->nodes, true},
	    {"size", t->size, KEDGE__QUANTITY_BYTES, &f->size, true},
	    {"pfs", t->pfs, KEDGE__QUANTITY_BANDWIDTH, &f->pfs_rate, true},
	    {"size-variation", t->variation, KEDGE__QUANTITY_NUMBER, &f->variation, false},
	    {"staging", t->servers, KEDGE__QUANTITY_NUMBER, &f->servers, false},
	    {"staging-rate", t->server_rate, KEDGE__QUANTITY_BANDWIDTH, &f->server_rate, false},
	    {"node-rate", t->node_rate, KEDGE__QUANTITY_BANDWIDTH, &f->node_rate, false},
	};

	memset(f, 0, sizeof(*f));
	for (size_t i = 0; i < KEDGE__COUNT(all); i++) {
		int rc = 0;

		if (all[i].text != NULL || all[i].needed)
			rc = kedge__plan_quantity(all[i].kind, all[i].option, all[i].text, all[i].to, err);
		if (rc != 0)
			return rc;
	}
	return kedge__flush_check(f, err);
}

static int run_flush(const struct flush *t, struct kedge__error *err)
{
	struct kedge__flush f;
	struct kedge__flush_times sum = {0}, one;
	double *room, n = (double)t->common.runs;
	json_t *o;
	int rc = read_flush(t, &f, err);

	if (rc != 0)
		return rc;
	if (t->common.runs < 1)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "0 runs");
	room = kedge__reallocarray(NULL, kedge__flush_room(&f), sizeof(*room));
	if (room == NULL)
		return kedge__error_nomem(err);
	for (uint64_t i = 0; i < t->common.runs; i++) {
		struct kedge__random r;

		kedge__random_init(&r, t->common.seed, i);
		kedge__flush_simulate(&f, &r, room, &one);
		sum.first += one.first / n;
		sum.mean += one.mean / n;
		sum.last += one.last / n;
		sum.floor += one.floor / n;
	}
	kedge__free(room);
	if (!t->common.json) {
		printf("first server done after %.6g s, on average %.6g s, the last one %.6g s; the file system alone "
		       "would need %.6g s\n",
		       sum.first, sum.mean, sum.last, sum.floor);
		return 0;
	}
	o = kedge__json_object();
	kedge__json_real(o, "first_seconds", sum.first);
	kedge__json_real(o, "mean_seconds", sum.mean);
	kedge__json_real(o, "last_seconds", sum.last);
	kedge__json_real(o, "floor_seconds", sum.floor);
	kedge__json_print(o);
	return 0;
}

int kedge__simulate_flush(int argc, char **argv)
{
	struct flush t = {.common = {.runs = 100, .seed = 1}};
	const struct kedge__option options[] = {
	    {"nodes", 0, KEDGE__OPTION_TEXT, &t.nodes, "N", "nodes"},
	    {"size", 0, KEDGE__OPTION_TEXT, &t.size, "SIZE", "bytes per node"},
	    {"size-variation", 0, KEDGE__OPTION_TEXT, &t.variation, "X",
	     "variation of node sizes: standard deviation / mean"},
	    {"staging", 0, KEDGE__OPTION_TEXT, &t.servers, "N",
	     "staging servers (default: none, the nodes write directly)"},
	    {"staging-rate", 0, KEDGE__OPTION_TEXT, &t.server_rate, "RATE",
	     "bandwidth of one server (default: no limit)"},
	    {"node-rate", 0, KEDGE__OPTION_TEXT, &t.node_rate, "RATE",
	     "bandwidth of one node's link (default: no limit)"},
	    {"pfs", 0, KEDGE__OPTION_TEXT, &t.pfs, "RATE", "bandwidth of the file system"},
	    COMMON_OPTIONS(&t.common),
	};
	const struct kedge__usage usage = {
	    .command = "kedge simulate flush",
	    .about = "Simulates one copy of all nodes: each staging server serves its nodes one by one; all servers "
		     "share the "
		     "file system.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge simulate flush --nodes 100000 --size 29GB --size-variation 0.2 --staging 2048 "
		       "--staging-rate 1.6GB/s --pfs 1TB/s"};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	if (!kedge__options_parse(&usage, argc, argv, &first, &status))
		return status;
	if (run_flush(&t, &err) != 0)
		return kedge__tool_fail(usage.command, &err, "cannot simulate");
	return KEDGE__EXIT_OK;
}
