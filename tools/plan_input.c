/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_input: a machine, from a file and from options. */
#include "plan.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

static void add(struct kedge__plan_input *in, struct kedge__option option)
{
	in->options[in->option_count++] = option;
}

static void add_machine_key(struct kedge__plan_input *in, int key)
{
	const struct kedge__setting *s = &kedge__machine_table[key];
	char *name = in->names[key];

	if (key == KEDGE__MACHINE_NAME || key == KEDGE__MACHINE_SOURCE)
		return;
	snprintf(name, sizeof(in->names[key]), "%s", s->key);
	for (char *p = name; *p != '\0'; p++)
		*p = *p == '_' ? '-' : *p;
	add(in, (struct kedge__option){name, 0, KEDGE__OPTION_TEXT, &in->flags[key], "VALUE", s->doc});
}

void kedge__plan_input_init(struct kedge__plan_input *in, const struct kedge__option *more, size_t count)
{
	memset(in, 0, sizeof(*in));
	add(in, (struct kedge__option){"machine", 'm', KEDGE__OPTION_TEXT, &in->machine, "FILE",
				       "machine file, or the name of one that is installed"});
	add(in, (struct kedge__option){"from", 0, KEDGE__OPTION_TEXT, &in->from, "STORE",
				       "costs measured by earlier runs in this store"});
	add(in, (struct kedge__option){"from-l2", 0, KEDGE__OPTION_TEXT, &in->from_l2, "STORE",
				       "the L2 store that their versions were copied to"});
	add(in, (struct kedge__option){"name", 'n', KEDGE__OPTION_TEXT, &in->from_name, "NAME",
				       "job in STORE (default: the only one)"});
	add(in, (struct kedge__option){"log", 0, KEDGE__OPTION_TEXT, &in->log, "FILE",
				       "failure rates from a log: one line per failure, with its time and level"});
	for (int k = 0; k < KEDGE__MACHINE_KEY_COUNT; k++)
		add_machine_key(in, k);
	for (size_t i = 0; i < count; i++)
		add(in, more[i]);
}

/* The path of this command, in SELF; "" if it cannot be determined. A chroot may have no /proc. */
static void find_self(char self[PATH_MAX])
{
	const char *started = (const char *)getauxval(AT_EXECFN);
	ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);

	self[n > 0 ? n : 0] = '\0';
	if (n <= 0 && started != NULL && realpath(started, self) == NULL)
		self[0] = '\0';
}

/* Installed files lie in share/kedge/machines beside the bin that holds this command; not yet installed, it is
 * somewhere below the tree whose share/machines has them. */
static char *find_installed(const char *name)
{
	static const char *const places[] = {"share/kedge/machines", "share/machines"};
	char self[PATH_MAX], *slash;

	find_self(self);
	for (int up = 0; up < 5 && (slash = strrchr(self, '/')) != NULL; up++) {
		*slash = '\0';
		for (size_t i = 0; up > 0 && i < KEDGE__COUNT(places); i++) {
			char *path = kedge__asprintf("%s/%s/%s.ini", self, places[i], name);

			if (path == NULL || kedge__fs_exists(path))
				return path;
			kedge__free(path);
		}
	}
	return NULL;
}

static int load_machine(const char *machine, struct kedge__machine_text *text, struct kedge__error *err)
{
	char *path = NULL;
	int rc;

	if (strchr(machine, '/') == NULL && !kedge__fs_exists(machine)) {
		path = find_installed(machine);
		if (path == NULL)
			return kedge__error_set(err, KEDGE_E_NOTFOUND, 0,
						"no machine file '%s', and none of that name is installed", machine);
	}
	rc = kedge__machine_text_load(text, path != NULL ? path : machine, err);
	kedge__free(path);
	return rc;
}

/* With L2 measured the costs are known; without, level 2 follows from the bytes and pfs, if that is given. */
static int apply_measured(struct kedge__plan_input *in, struct kedge__machine_text *text, struct kedge__error *err)
{
	const char *values[KEDGE__MACHINE_KEY_COUNT] = {NULL};
	char costs[64], nodes[32], size[32], rate[32], origin[96];
	struct kedge__measured m;
	bool has_pfs = in->flags[KEDGE__MACHINE_PFS] != NULL || text->value[KEDGE__MACHINE_PFS][0] != '\0';
	int rc = kedge__plan_measure(in->from, in->from_l2, in->from_name, &m, err);

	if (rc != 0)
		return rc;
	snprintf(nodes, sizeof(nodes), "%.17g", m.nodes);
	snprintf(size, sizeof(size), "%.17g", m.size);
	snprintf(rate, sizeof(rate), "%.17g", m.size / m.cost);
	snprintf(origin, sizeof(origin), "costs as measured by %zu checkpoints of %.0f ranks, %zu copies to L2", m.sets,
		 m.nodes, m.copies);
	values[KEDGE__MACHINE_NAME] = origin;
	values[KEDGE__MACHINE_NODES] = nodes;
	values[KEDGE__MACHINE_SIZE] = size;
	if (isnan(m.latency) && has_pfs) {
		values[KEDGE__MACHINE_L1_RATE] = rate;
	} else {
		snprintf(costs, sizeof(costs), "%.17g", m.cost);
		if (!isnan(m.latency))
			snprintf(costs, sizeof(costs), "%.17g,%.17g", m.cost, m.latency);
		values[KEDGE__MACHINE_COSTS] = costs;
	}
	return kedge__machine_text_override(text, values, err);
}

/* Failures of each level over the span of the log. */
static int apply_log(struct kedge__plan_input *in, struct kedge__machine_text *text, struct kedge__error *err)
{
	static const enum kedge__machine_key rivals[] = {KEDGE__MACHINE_RATES, KEDGE__MACHINE_MTBF,
							 KEDGE__MACHINE_NODE_MTBF, KEDGE__MACHINE_SHARES};
	const char *values[KEDGE__MACHINE_KEY_COUNT] = {NULL};
	double count[KEDGE__PLAN_LEVELS] = {0}, span;
	struct kedge__failure *trace;
	char rates[32 * KEDGE__PLAN_LEVELS];
	size_t n, at = 0;
	int levels = 0, rc;

	for (size_t i = 0; i < KEDGE__COUNT(rivals); i++)
		if (in->flags[rivals[i]] != NULL)
			return kedge__error_set(err, KEDGE_E_ARG, 0,
						"--log and --%s both set the failure rates; give only one of them",
						in->names[rivals[i]]);
	rc = kedge__failure_trace_load(in->log, KEDGE__PLAN_LEVELS, &trace, &n, &span, err);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < n; i++) {
		count[trace[i].level - 1]++;
		levels = KEDGE__MAX(levels, trace[i].level);
	}
	kedge__free(trace);
	if (levels == 0)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%s: contains no failure", in->log);
	for (int i = 0; i < levels; i++)
		at += (size_t)snprintf(rates + at, sizeof(rates) - at, "%s%.17g", i > 0 ? "," : "", count[i] / span);
	values[KEDGE__MACHINE_RATES] = rates;
	return kedge__machine_text_override(text, values, err);
}

int kedge__plan_input_read(struct kedge__plan_input *in, struct kedge__machine_text *text, struct kedge__error *err)
{
	int rc = kedge__machine_text_init(text, err);

	if (rc != 0)
		return rc;
	if (in->machine != NULL)
		rc = load_machine(in->machine, text, err);
	if (rc == 0 && in->from != NULL)
		rc = apply_measured(in, text, err);
	if (rc == 0 && in->log != NULL)
		rc = apply_log(in, text, err);
	if (rc == 0 && in->from == NULL && (in->from_name != NULL || in->from_l2 != NULL))
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "--name and --from-l2 need --from");
	if (rc == 0)
		rc = kedge__machine_text_override(text, in->flags, err);
	if (rc != 0)
		kedge__machine_text_done(text);
	return rc;
}

int kedge__plan_input_resolve(struct kedge__plan_input *in, bool background, struct kedge__machine *out,
			      struct kedge__error *err)
{
	struct kedge__machine_text text;
	int rc = kedge__plan_input_read(in, &text, err);

	if (rc != 0)
		return rc;
	rc = kedge__machine_resolve(&text, background, out, err);
	kedge__machine_text_done(&text);
	return rc;
}

int kedge__plan_quantity(enum kedge__quantity kind, const char *option, const char *text, double *out,
			 struct kedge__error *err)
{
	int rc;

	if (text == NULL)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--%s is missing", option);
	rc = kedge__quantity_parse(kind, text, out, err);
	if (rc != 0)
		kedge__error_prefix(err, "--%s", option);
	return rc;
}

int kedge__plan_count(const char *option, const char *text, uint64_t *out, struct kedge__error *err)
{
	double value;
	int rc = kedge__plan_quantity(KEDGE__QUANTITY_NUMBER, option, text, &value, err);

	if (rc != 0)
		return rc;
	if (value != floor(value) || value > 1e15)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--%s: '%s' is not a whole number up to 1e15", option,
					text);
	*out = (uint64_t)value;
	return 0;
}

int kedge__plan_counts(const char *text, int n, uint64_t *out, struct kedge__error *err)
{
	double values[KEDGE__PLAN_LEVELS];
	size_t count;
	int rc;

	if (text == NULL)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--counts is missing");
	rc = kedge__quantity_parse_list(KEDGE__QUANTITY_NUMBER, text, values, KEDGE__PLAN_LEVELS, &count, err);
	if (rc != 0) {
		kedge__error_prefix(err, "--counts");
		return rc;
	}
	if ((int)count != n && (int)count != n - 1)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--counts has %zu values, but there are %d levels", count,
					n);
	if ((int)count == n - 1)
		values[count] = 1;
	for (int i = 0; i < n; i++) {
		if (values[i] != floor(values[i]) || values[i] > 1e15)
			return kedge__error_set(err, KEDGE_E_ARG, 0, "--counts: %g is not a whole number up to 1e15",
						values[i]);
		out[i] = (uint64_t)values[i];
	}
	return 0;
}

int kedge__plan_mode(const char *text, bool *background, struct kedge__error *err)
{
	if (text == NULL)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--mode is missing: give sync or async");
	if (strcmp(text, "sync") != 0 && strcmp(text, "async") != 0)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--mode must be sync or async, not '%s'", text);
	*background = text[0] == 'a';
	return 0;
}

int kedge__plan_need_latency(const struct kedge__plan_input *in, const struct kedge__machine *m,
			     struct kedge__error *err)
{
	if (m->async.latency > 0 || in->flags[KEDGE__MACHINE_LATENCY] != NULL || m->async.levels.count < 2)
		return 0;
	return kedge__error_set(
	    err, KEDGE_E_ARG, 0,
	    "--latency is missing: give the time of a copy to the top level, or its cost with --costs");
}
