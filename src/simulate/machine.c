/* SPDX-License-Identifier: BSD-3-Clause */
/* machine: from what people know of a machine to what the models need. */
#include "simulate/simulate.h"
#include <math.h>
#include <stdio.h>

#define TEXT (-1)

struct key {
	const char *name;
	int kind; /* enum kedge__quantity, or TEXT */
	bool list;
};

#define NUMBER    KEDGE__QUANTITY_NUMBER
#define SECONDS   KEDGE__QUANTITY_SECONDS
#define BYTES     KEDGE__QUANTITY_BYTES
#define RATE      KEDGE__QUANTITY_RATE
#define BANDWIDTH KEDGE__QUANTITY_BANDWIDTH

static const struct key keys[] = {
#define KEDGE__X(id, key, kind, list, doc) {key, kind, list},
    KEDGE__MACHINE_KEYS(KEDGE__X)
#undef KEDGE__X
};

const struct kedge__setting kedge__machine_table[KEDGE__MACHINE_KEY_COUNT] = {
#define KEDGE__X(id, key, kind, list, doc)                                                                             \
	{key, KEDGE__SETTING_STRING, KEDGE__MACHINE_##id * sizeof(char *), "", 0, 0, NULL, false, doc},
    KEDGE__MACHINE_KEYS(KEDGE__X)
#undef KEDGE__X
};

int kedge__machine_text_init(struct kedge__machine_text *t, struct kedge__error *err)
{
	return kedge__settings_init(kedge__machine_table, KEDGE__MACHINE_KEY_COUNT, t, err);
}

void kedge__machine_text_done(struct kedge__machine_text *t)
{
	kedge__settings_done(kedge__machine_table, KEDGE__MACHINE_KEY_COUNT, t);
}

int kedge__machine_text_load(struct kedge__machine_text *t, const char *path, struct kedge__error *err)
{
	const struct kedge__settings in = {kedge__machine_table, KEDGE__MACHINE_KEY_COUNT, t, NULL};

	return kedge__settings_load_file(&in, path, err);
}

enum kedge__machine_key kedge__machine_key_find(const char *name)
{
	for (int k = 0; k < KEDGE__MACHINE_KEY_COUNT; k++) {
		size_t i = 0;

		while (name[i] != '\0' && (name[i] == '-' ? '_' : name[i]) == keys[k].name[i])
			i++;
		if (name[i] == '\0' && keys[k].name[i] == '\0')
			return (enum kedge__machine_key)k;
	}
	return KEDGE__MACHINE_KEY_COUNT;
}

/* Two ways to say the same; only one of them may be used. */
static const struct {
	enum kedge__machine_key a, b;
	const char *why;
} rivals[] = {
    {KEDGE__MACHINE_RATES, KEDGE__MACHINE_MTBF, "failure rates"},
    {KEDGE__MACHINE_RATES, KEDGE__MACHINE_NODE_MTBF, "failure rates"},
    {KEDGE__MACHINE_RATES, KEDGE__MACHINE_SHARES, "failure rates"},
    {KEDGE__MACHINE_MTBF, KEDGE__MACHINE_NODE_MTBF, "mean time between failures"},
    {KEDGE__MACHINE_COSTS, KEDGE__MACHINE_L1_RATE, "costs of checkpoints"},
    {KEDGE__MACHINE_COSTS, KEDGE__MACHINE_PFS, "costs of checkpoints"},
    {KEDGE__MACHINE_ALPHA, KEDGE__MACHINE_ALPHA_SLOPE, "slow-down"},
    {KEDGE__MACHINE_RESTARTS, KEDGE__MACHINE_PFS_READ, "time of a restart"},
};

static bool given(const struct kedge__machine_text *t, enum kedge__machine_key key)
{
	return t->value[key] != NULL && t->value[key][0] != '\0';
}

static int contradiction(size_t i, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_ARG, 0, "%s and %s are both given, but each sets the %s; give only one",
				keys[rivals[i].a].name, keys[rivals[i].b].name, rivals[i].why);
}

static int set_text(struct kedge__machine_text *t, enum kedge__machine_key key, const char *value,
		    struct kedge__error *err)
{
	char *copy = kedge__strdup(value);

	if (copy == NULL)
		return kedge__error_nomem(err);
	kedge__free(t->value[key]);
	t->value[key] = copy;
	return 0;
}

static int drop_rivals(struct kedge__machine_text *t, const char *const *values, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < KEDGE__COUNT(rivals); i++) {
		bool a = values[rivals[i].a] != NULL, b = values[rivals[i].b] != NULL;

		if (a && b)
			return contradiction(i, err);
		if (a || b)
			rc = set_text(t, a ? rivals[i].b : rivals[i].a, "", err);
	}
	return rc;
}

int kedge__machine_text_override(struct kedge__machine_text *t, const char *const values[KEDGE__MACHINE_KEY_COUNT],
				 struct kedge__error *err)
{
	int rc = drop_rivals(t, values, err);

	for (int k = 0; rc == 0 && k < KEDGE__MACHINE_KEY_COUNT; k++)
		if (values[k] != NULL)
			rc = set_text(t, (enum kedge__machine_key)k, values[k], err);
	return rc;
}

int kedge__machine_quantity(enum kedge__machine_key key, const char *text, double *out, struct kedge__error *err)
{
	if (keys[key].kind == TEXT || keys[key].list)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%s is not a single number", keys[key].name);
	return kedge__quantity_parse((enum kedge__quantity)keys[key].kind, text, out, err);
}

struct resolver {
	const struct kedge__machine_text *text;
	bool background;
	struct kedge__machine *out;
	struct kedge__error *err;
	double value[KEDGE__MACHINE_KEY_COUNT]; /* of single numbers that are given */
};

static bool has(const struct resolver *r, enum kedge__machine_key key)
{
	return given(r->text, key);
}

static int parse_singles(struct resolver *r)
{
	static const struct {
		enum kedge__machine_key key;
		double value;
	} presets[] = {{KEDGE__MACHINE_WORK, 30 * 86400.0}, {KEDGE__MACHINE_FAILURE, 1}, {KEDGE__MACHINE_COST, 1}};

	for (size_t i = 0; i < KEDGE__COUNT(presets); i++)
		r->value[presets[i].key] = presets[i].value;
	for (int k = 0; k < KEDGE__MACHINE_KEY_COUNT; k++) {
		int rc;

		if (!has(r, (enum kedge__machine_key)k) || keys[k].kind == TEXT || keys[k].list)
			continue;
		rc = kedge__quantity_parse((enum kedge__quantity)keys[k].kind, r->text->value[k], &r->value[k], r->err);
		if (rc != 0) {
			kedge__error_prefix(r->err, "%s", keys[k].name);
			return rc;
		}
	}
	return 0;
}

static int parse_list(struct resolver *r, enum kedge__machine_key key, double *out, size_t *n)
{
	int rc = kedge__quantity_parse_list((enum kedge__quantity)keys[key].kind, r->text->value[key], out,
					    KEDGE__PLAN_LEVELS, n, r->err);

	if (rc != 0)
		kedge__error_prefix(r->err, "%s", keys[key].name);
	return rc;
}

/* How many levels there are follows from the failures; the other lists must agree. */
static int check_count(struct resolver *r, enum kedge__machine_key key, size_t n, int least)
{
	int levels = r->out->async.levels.count;

	if ((int)n == levels || (int)n == least)
		return 0;
	if (!has(r, KEDGE__MACHINE_RATES) && !has(r, KEDGE__MACHINE_SHARES))
		return kedge__error_set(r->err, KEDGE_E_ARG, 0,
					"shares is missing: %s has %zu values, so give the share of failures that need "
					"each level",
					keys[key].name, n);
	return kedge__error_set(r->err, KEDGE_E_ARG, 0, "%s has %zu values, but failures have %d levels",
				keys[key].name, n, levels);
}

static int shares_to_rates(struct resolver *r, double total)
{
	struct kedge__levels *lv = &r->out->async.levels;
	double sum = 0;
	size_t n = 1;
	int rc = 0;

	lv->rate[0] = 1;
	if (has(r, KEDGE__MACHINE_SHARES))
		rc = parse_list(r, KEDGE__MACHINE_SHARES, lv->rate, &n);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		sum += lv->rate[i];
	if (fabs(sum - 1) > 1e-6)
		return kedge__error_set(r->err, KEDGE_E_ARG, 0, "shares add up to %g, not to 1", sum);
	for (size_t i = 0; i < n; i++)
		lv->rate[i] *= total;
	lv->count = (int)n;
	return 0;
}

static int resolve_failures(struct resolver *r)
{
	struct kedge__levels *lv = &r->out->async.levels;
	double mtbf = r->value[KEDGE__MACHINE_MTBF];
	size_t n;
	int rc;

	if (has(r, KEDGE__MACHINE_NODE_MTBF)) {
		if (!has(r, KEDGE__MACHINE_NODES))
			return kedge__error_set(r->err, KEDGE_E_ARG, 0, "node_mtbf needs nodes");
		mtbf = r->value[KEDGE__MACHINE_NODE_MTBF] / r->value[KEDGE__MACHINE_NODES];
	}
	if (has(r, KEDGE__MACHINE_RATES)) {
		rc = parse_list(r, KEDGE__MACHINE_RATES, lv->rate, &n);
		lv->count = rc == 0 ? (int)n : 0;
	} else if (has(r, KEDGE__MACHINE_MTBF) || has(r, KEDGE__MACHINE_NODE_MTBF)) {
		if (!(mtbf > 0))
			return kedge__error_set(r->err, KEDGE_E_ARG, 0,
						"the mean time between failures must be greater than 0");
		rc = shares_to_rates(r, 1 / mtbf);
	} else {
		return kedge__error_set(r->err, KEDGE_E_ARG, 0,
					"failure rates are missing: give rates, or mtbf (or node_mtbf) and shares");
	}
	for (int i = 0; rc == 0 && i < lv->count; i++)
		lv->rate[i] *= r->value[KEDGE__MACHINE_FAILURE];
	return rc;
}

/* Bandwidth into the file system, through staging nodes if there are any. */
static double effective_pfs(const struct resolver *r)
{
	double pfs = r->value[KEDGE__MACHINE_PFS], staged;

	if (!has(r, KEDGE__MACHINE_STAGING) || !has(r, KEDGE__MACHINE_STAGING_RATE))
		return pfs;
	staged = r->value[KEDGE__MACHINE_STAGING] * r->value[KEDGE__MACHINE_STAGING_RATE];
	return KEDGE__MIN(pfs, staged);
}

static int costs_from_sizes(struct resolver *r)
{
	static const enum kedge__machine_key needed[] = {KEDGE__MACHINE_NODES, KEDGE__MACHINE_SIZE, KEDGE__MACHINE_PFS};
	struct kedge__levels *lv = &r->out->async.levels;
	double bytes = r->value[KEDGE__MACHINE_NODES] * r->value[KEDGE__MACHINE_SIZE];
	double read = has(r, KEDGE__MACHINE_PFS_READ) ? r->value[KEDGE__MACHINE_PFS_READ] : effective_pfs(r);

	for (size_t i = 0; i < KEDGE__COUNT(needed); i++) {
		if (!has(r, needed[i]))
			return kedge__error_set(r->err, KEDGE_E_ARG, 0,
						"%s is missing: give costs, or nodes, size, l1_rate and pfs",
						keys[needed[i]].name);
		if (!(r->value[needed[i]] > 0))
			return kedge__error_set(r->err, KEDGE_E_ARG, 0, "%s must be greater than 0",
						keys[needed[i]].name);
	}
	if (!(effective_pfs(r) > 0) || !(read > 0))
		return kedge__error_set(r->err, KEDGE_E_ARG, 0,
					"no data reaches the file system: staging, staging_rate or pfs_read is 0");
	if (lv->count == 1 && has(r, KEDGE__MACHINE_L1_RATE))
		return kedge__error_set(
		    r->err, KEDGE_E_ARG, 0,
		    "l1_rate and pfs describe two levels, but failures have only one: give shares, or "
		    "two rates");
	if (lv->count > 2)
		return kedge__error_set(r->err, KEDGE_E_ARG, 0, "failures have %d levels: with more than 2, give costs",
					lv->count);
	if (lv->count == 2 && !(r->value[KEDGE__MACHINE_L1_RATE] > 0))
		return kedge__error_set(r->err, KEDGE_E_ARG, 0,
					"l1_rate is missing: give costs, or nodes, size, l1_rate and pfs");
	if (lv->count == 2)
		lv->cost[0] = lv->restart[0] = r->value[KEDGE__MACHINE_SIZE] / r->value[KEDGE__MACHINE_L1_RATE];
	lv->cost[lv->count - 1] = bytes / effective_pfs(r);
	lv->restart[lv->count - 1] = bytes / read;
	return 0;
}

static int resolve_costs(struct resolver *r)
{
	struct kedge__levels *lv = &r->out->async.levels;
	int least = r->background ? lv->count - 1 : lv->count, rc;
	size_t n;

	r->out->costs_given = has(r, KEDGE__MACHINE_COSTS);
	if (!r->out->costs_given) {
		rc = costs_from_sizes(r);
	} else {
		rc = parse_list(r, KEDGE__MACHINE_COSTS, lv->cost, &n);
		if (rc == 0)
			rc = check_count(r, KEDGE__MACHINE_COSTS, n, least);
		if (rc == 0 && (int)n < lv->count)
			lv->cost[n] = r->value[KEDGE__MACHINE_LATENCY];
		memcpy(lv->restart, lv->cost, sizeof(lv->restart));
	}
	if (rc != 0 || !has(r, KEDGE__MACHINE_RESTARTS))
		return rc;
	rc = parse_list(r, KEDGE__MACHINE_RESTARTS, lv->restart, &n);
	return rc != 0 ? rc : check_count(r, KEDGE__MACHINE_RESTARTS, n, lv->count);
}

static int resolve_background(struct resolver *r)
{
	struct kedge__async *as = &r->out->async;
	double factor = r->value[KEDGE__MACHINE_COST];
	int top = as->levels.count - 1;

	as->latency = has(r, KEDGE__MACHINE_LATENCY) ? r->value[KEDGE__MACHINE_LATENCY] : as->levels.cost[top];
	as->latency *= factor;
	as->levels.cost[top] *= factor;
	as->levels.restart[top] *= factor;
	as->init_cost = r->value[KEDGE__MACHINE_INIT_COST];
	as->alpha = r->value[KEDGE__MACHINE_ALPHA];
	if (!has(r, KEDGE__MACHINE_ALPHA_SLOPE))
		return 0;
	if (!(r->value[KEDGE__MACHINE_STAGING] > 0) || !(effective_pfs(r) > 0))
		return kedge__error_set(r->err, KEDGE_E_ARG, 0, "alpha_slope needs staging and pfs");
	as->alpha = r->value[KEDGE__MACHINE_ALPHA_SLOPE] * effective_pfs(r) / r->value[KEDGE__MACHINE_STAGING] / 1e9;
	return 0;
}

int kedge__machine_resolve(const struct kedge__machine_text *t, bool background, struct kedge__machine *out,
			   struct kedge__error *err)
{
	struct kedge__machine machine = {0};
	struct resolver r = {.text = t, .background = background, .out = &machine, .err = err};
	int rc;

	for (size_t i = 0; i < KEDGE__COUNT(rivals); i++)
		if (given(t, rivals[i].a) && given(t, rivals[i].b))
			return contradiction(i, err);
	rc = parse_singles(&r);
	if (rc == 0)
		rc = resolve_failures(&r);
	if (rc == 0)
		rc = resolve_costs(&r);
	if (rc == 0)
		rc = resolve_background(&r);
	if (rc == 0 && !(r.value[KEDGE__MACHINE_WORK] > 0))
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "work must be greater than 0");
	if (rc == 0 && has(&r, KEDGE__MACHINE_NODES) && !(r.value[KEDGE__MACHINE_NODES] > 0))
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "nodes must be greater than 0");
	if (rc == 0)
		rc = kedge__levels_check(&machine.async.levels, err);
	if (rc != 0)
		return rc;
	machine.work = r.value[KEDGE__MACHINE_WORK];
	machine.flush = (struct kedge__flush){.nodes = r.value[KEDGE__MACHINE_NODES],
					      .size = r.value[KEDGE__MACHINE_SIZE] * r.value[KEDGE__MACHINE_COST],
					      .servers = r.value[KEDGE__MACHINE_STAGING],
					      .server_rate = r.value[KEDGE__MACHINE_STAGING_RATE],
					      .pfs_rate = r.value[KEDGE__MACHINE_PFS]};
	*out = machine;
	return 0;
}
