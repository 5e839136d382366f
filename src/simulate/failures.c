/* SPDX-License-Identifier: BSD-3-Clause */
/* failures: streams of failures in the order of time. */
#include "base/exact.h"
#include "simulate/simulate.h"
#include <math.h>
#include <stdio.h>

#define TRACE_BYTES (UINT64_C(64) << 20)

struct kedge__failure_source {
	struct kedge__failure_model model;
	double rate, scale; /* of all levels; scale of a Weibull distance */
	struct kedge__random random;
	double now;
	bool begun;    /* the first distance was drawn: it is from the start, not from a failure */
	double *node;  /* a heap of the next failures of the nodes, if they have processes of their own */
	size_t next;   /* into the trace */
	double offset; /* what is added to the times of the trace */
};

static int check(const struct kedge__failure_model *m, struct kedge__error *err)
{
	if (m->kind == KEDGE__FAILURES_TRACE) {
		if (m->trace_count > 0 && !(m->trace_span > m->trace[m->trace_count - 1].time))
			return kedge__error_set(err, KEDGE_E_ARG, 0,
						"the trace spans %g s, but its last failure is at %g s", m->trace_span,
						m->trace[m->trace_count - 1].time);
		return 0;
	}
	if (m->kind == KEDGE__FAILURES_WEIBULL && !(m->shape >= 0.1 && m->shape <= 100))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the shape is %g: it must be 0.1 to 100", m->shape);
	if (m->nodes > 1000000)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%llu nodes with failures of their own: at most 1000000",
					(unsigned long long)m->nodes);
	return 0;
}

int kedge__failure_source_new(const struct kedge__failure_model *m, struct kedge__failure_source **out,
			      struct kedge__error *err)
{
	struct kedge__failure_source *s;
	int rc = check(m, err);

	if (rc != 0)
		return rc;
	s = kedge__calloc(1, sizeof(*s));
	if (s == NULL)
		return kedge__error_nomem(err);
	s->model = *m;
	for (int i = 0; i < m->levels; i++)
		s->rate += m->rate[i];
	if (m->kind == KEDGE__FAILURES_WEIBULL) {
		double sources = m->nodes > 0 ? (double)m->nodes : 1;

		s->scale = sources / (s->rate * kedge__portable_gamma(1 + 1 / m->shape));
		if (m->nodes > 0) {
			s->node = kedge__reallocarray(NULL, m->nodes, sizeof(double));
			if (s->node == NULL) {
				kedge__free(s);
				return kedge__error_nomem(err);
			}
		}
	}
	*out = s;
	return 0;
}

void kedge__failure_source_free(struct kedge__failure_source *s)
{
	if (s == NULL)
		return;
	kedge__free(s->node);
	kedge__free(s);
}

/* Let the value at I sink to its place; the least is at 0. */
static void sift(double *heap, size_t n, size_t i)
{
	double value = heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= n)
			break;
		if (child + 1 < n && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= value)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = value;
}

static void start_trace(struct kedge__failure_source *s, uint64_t stream)
{
	double from = stream == 0 ? 0 : s->model.trace_span * kedge__random_uniform(&s->random);

	s->next = 0;
	while (s->next < s->model.trace_count && s->model.trace[s->next].time < from)
		s->next++;
	s->offset = -from;
}

void kedge__failure_source_start(struct kedge__failure_source *s, uint64_t seed, uint64_t stream)
{
	kedge__random_init(&s->random, seed, stream);
	s->now = 0;
	s->begun = false;
	if (s->model.kind == KEDGE__FAILURES_TRACE)
		start_trace(s, stream);
	if (s->node == NULL)
		return;
	for (uint64_t i = 0; i < s->model.nodes; i++)
		s->node[i] = s->scale * kedge__random_weibull_residual(&s->random, s->model.shape);
	for (size_t i = s->model.nodes / 2; i-- > 0;)
		sift(s->node, s->model.nodes, i);
}

static int draw_level(struct kedge__failure_source *s)
{
	double u = kedge__random_uniform(&s->random) * s->rate;

	for (int i = 0; i < s->model.levels - 1; i++) {
		if (u <= s->model.rate[i])
			return i + 1;
		u -= s->model.rate[i];
	}
	return s->model.levels;
}

static struct kedge__failure next_of_trace(struct kedge__failure_source *s)
{
	struct kedge__failure f = {INFINITY, 1};

	if (s->model.trace_count == 0)
		return f;
	if (s->next == s->model.trace_count) {
		s->next = 0;
		s->offset += s->model.trace_span;
	}
	f = s->model.trace[s->next++];
	f.time += s->offset;
	return f;
}

struct kedge__failure kedge__failure_source_next(struct kedge__failure_source *s)
{
	struct kedge__failure f = {INFINITY, 1};

	if (s->model.kind == KEDGE__FAILURES_TRACE)
		return next_of_trace(s);
	if (!(s->rate > 0))
		return f;
	if (s->node != NULL) {
		s->now = s->node[0];
		s->node[0] += s->scale * kedge__random_weibull(&s->random, s->model.shape);
		sift(s->node, s->model.nodes, 0);
	} else if (s->model.kind == KEDGE__FAILURES_WEIBULL) {
		s->now += s->scale * (s->begun ? kedge__random_weibull(&s->random, s->model.shape)
					       : kedge__random_weibull_residual(&s->random, s->model.shape));
		s->begun = true;
	} else {
		s->now += kedge__random_exponential(&s->random) / s->rate;
	}
	f.time = s->now;
	f.level = draw_level(s);
	return f;
}

struct trace {
	KEDGE__ARRAY(struct kedge__failure) list;
	double span;
	int levels;
};

static int parse_failure(struct trace *t, char *line, struct kedge__error *err)
{
	char *level = line + strcspn(line, " \t");
	struct kedge__failure f = {0, 1};
	double number = 1;
	int rc;

	if (*level != '\0')
		*level++ = '\0';
	level += strspn(level, " \t");
	rc = kedge__quantity_parse(KEDGE__QUANTITY_SECONDS, line, &f.time, err);
	if (rc == 0 && *level != '\0')
		rc = kedge__quantity_parse(KEDGE__QUANTITY_NUMBER, level, &number, err);
	if (rc != 0)
		return rc;
	if (number != floor(number) || number < 1 || number > t->levels)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "level %s: the machine has levels 1 to %d", level,
					t->levels);
	f.level = (int)number;
	if (t->list.count > 0 && f.time < t->list.at[t->list.count - 1].time)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%s is earlier than the line before", line);
	return kedge__array_push(&t->list, f) ? 0 : kedge__error_nomem(err);
}

static int parse_line(struct trace *t, char *line, struct kedge__error *err)
{
	size_t len;

	line[strcspn(line, "#\r")] = '\0';
	line += strspn(line, " \t");
	for (len = strlen(line); len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t'); len--)
		line[len - 1] = '\0';
	if (*line == '\0')
		return 0;
	if (strncmp(line, "span", 4) == 0) {
		line += 4 + strspn(line + 4, " \t=");
		return kedge__quantity_parse(KEDGE__QUANTITY_SECONDS, line, &t->span, err);
	}
	return parse_failure(t, line, err);
}

static int parse_trace(struct trace *t, char *text, const char *path, struct kedge__error *err)
{
	size_t number = 0;

	for (char *line = text, *end; line != NULL; line = end) {
		int rc;

		end = strchr(line, '\n');
		if (end != NULL)
			*end++ = '\0';
		number++;
		rc = parse_line(t, line, err);
		if (rc != 0) {
			kedge__error_prefix(err, "%s, line %zu", path, number);
			return rc;
		}
	}
	if (t->span == 0 && t->list.count > 0) {
		double last = t->list.at[t->list.count - 1].time;

		t->span = last + KEDGE__MAX(last / (double)t->list.count, 1);
	}
	if (t->list.count > 0 && t->span <= t->list.at[t->list.count - 1].time)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%s: the span of %g s ends before the last failure", path,
					t->span);
	return 0;
}

static int read_text(const char *path, char **text, struct kedge__error *err)
{
	uint64_t bytes;
	int fd, rc = kedge__fs_open_read(path, &fd, err);

	if (rc != 0)
		return rc;
	rc = kedge__fs_size(fd, &bytes, path, err);
	if (rc == 0 && bytes > TRACE_BYTES)
		rc = kedge__error_set(err, KEDGE_E_LIMIT, 0, "%s: longer than 64 MiB", path);
	if (rc != 0)
		goto out;
	*text = kedge__malloc((size_t)bytes + 1);
	rc = *text == NULL ? kedge__error_nomem(err) : kedge__fs_pread(fd, *text, (size_t)bytes, 0, path, err);
	if (rc == 0)
		(*text)[bytes] = '\0';
	else
		kedge__free(*text);
out:
	kedge__fs_close(fd);
	return rc;
}

int kedge__failure_trace_load(const char *path, int levels, struct kedge__failure **trace, size_t *count, double *span,
			      struct kedge__error *err)
{
	struct trace t = {.levels = levels};
	char *text;
	int rc = read_text(path, &text, err);

	if (rc != 0)
		return rc;
	rc = parse_trace(&t, text, path, err);
	kedge__free(text);
	if (rc != 0) {
		kedge__array_done(&t.list);
		return rc;
	}
	*trace = t.list.at;
	*count = t.list.count;
	*span = t.span;
	return 0;
}
