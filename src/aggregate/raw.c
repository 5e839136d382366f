/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw: arrays of numbers in files that say nothing about themselves: restart files with a header of any length, dumps
 * of Fortran programs, memory. Windows from all over the file are taken for each kind of numbers that there is, and for
 * bytes; the cheapest way to cut the file into stretches of one kind each, with a price for every cut, is what it is.
 * Cuts are then looked for between the windows. As with any layout, a wrong guess costs space, never a byte.
 */
#include "aggregate/raw.h"

#define FILE_LEAST (UINT64_C(16) << 10) /* bytes of a file */
#define RUN_LEAST  (UINT64_C(8) << 10)  /* and of a stretch */
#define STEP_LEAST (UINT64_C(16) << 10) /* from a window to the next */
#define WINDOWS    48
#define CUT_NEAR   ((uint64_t)1 << 10) /* bytes by which a cut may be wrong */
#define CUT        0.12f               /* windows: what the next stretch has to save */
#define FLOAT      0.05f               /* windows: what it counts that numbers look like floating point */

struct raw {
	struct kedge__look *look;
	struct kedge__layout *out;
	uint64_t bytes;
	size_t count;
	uint64_t at[WINDOWS];
	struct kedge__raw_window windows[WINDOWS];
	uint8_t kind[WINDOWS];                   /* what each window is */
	uint8_t from[WINDOWS][KEDGE__RAW_KINDS]; /* what the window before is, if it is this */
	struct kedge__raw_logs logs;
};

static bool judge_at(const struct raw *r, uint64_t at, struct kedge__raw_window *out)
{
	uint8_t bytes[KEDGE__RAW_WINDOW];

	if (!kedge__look_at(r->look, at, bytes, sizeof(bytes)))
		return false;
	kedge__raw_window_judge(&r->logs, bytes, at, out);
	return true;
}

/* ------------------------------------------------------------------ which kinds */

static bool judge_all(struct raw *r)
{
	uint64_t last = r->bytes - KEDGE__RAW_WINDOW, step = KEDGE__MAX(last / (WINDOWS - 1) + 1, STEP_LEAST);

	for (uint64_t at = 0; r->count < WINDOWS; at += step) {
		r->at[r->count] = KEDGE__MIN(at, last);
		if (!judge_at(r, r->at[r->count], &r->windows[r->count]))
			return false;
		r->count++;
		if (at >= last)
			return true;
	}
	return true;
}

static unsigned cheapest(const float *sums)
{
	unsigned best = 0;

	for (unsigned k = 1; k < KEDGE__RAW_KINDS; k++)
		if (sums[k] < sums[best])
			best = k;
	return best;
}

/* The cheapest way through all windows; from the end backwards, each window knows where it came from. */
static void find_kinds(struct raw *r)
{
	float sums[KEDGE__RAW_KINDS] = {0};

	for (size_t i = 0; i < r->count; i++) {
		unsigned best = cheapest(sums);
		float cut = sums[best] + CUT;

		for (unsigned k = 0; k < KEDGE__RAW_KINDS; k++) {
			r->from[i][k] = (uint8_t)(sums[k] <= cut ? k : best);
			sums[k] = KEDGE__MIN(sums[k], cut) + r->windows[i].cost[k];
		}
	}
	r->kind[r->count - 1] = (uint8_t)cheapest(sums);
	for (size_t i = r->count - 1; i > 0; i--)
		r->kind[i - 1] = r->from[i][r->kind[i]];
}

/* ------------------------------------------------------------------ stretches */

/* What is at AT is rather the kind FIRST than SECOND, or cannot be read. */
static bool is_rather(const struct raw *r, uint64_t at, unsigned first, unsigned second)
{
	struct kedge__raw_window w;

	return !judge_at(r, at, &w) || w.cost[first] <= w.cost[second];
}

/* Where the kind of window I ends and that of the next begins. */
static uint64_t find_cut(const struct raw *r, size_t i)
{
	uint64_t steps = (r->at[i + 1] - r->at[i]) / CUT_NEAR, k;

	KEDGE__PARTITION_POINT(k, steps, is_rather(r, r->at[i] + k * CUT_NEAR, r->kind[i], r->kind[i + 1]));
	/* From there on, most of a window is of the second kind. */
	return KEDGE__MIN(r->at[i] + k * CUT_NEAR + (KEDGE__RAW_WINDOW - CUT_NEAR) / 2, r->bytes);
}

/* The smooth kind of WIDTH that suits windows FROM to TO best: numbers begin somewhere, however rough they are. It is
 * more likely to be one as which they are floating point: hardly anything looks like it that is not. */
static unsigned find_smooth(const struct raw *r, size_t from, size_t to, unsigned width)
{
	unsigned first = kedge__raw_smooth_first(width), best = first;
	float least = 0;

	for (unsigned k = first; k < first + 2 * width; k++) {
		float sum = 0;

		for (size_t i = from; i < to; i++)
			sum += r->windows[i].cost[k] - (r->windows[i].floats >> (k - 1) & 1 ? FLOAT : 0);
		if (k == first || sum < least) {
			least = sum;
			best = k;
		}
	}
	return best;
}

static bool are_floats(const struct raw *r, size_t from, size_t to, unsigned smooth)
{
	size_t n = 0;

	for (size_t i = from; i < to; i++)
		n += r->windows[i].floats >> (smooth - 1) & 1;
	return 2 * n >= to - from;
}

/* Windows FROM to TO, bytes BEGIN to END. */
static int add_stretch(const struct raw *r, size_t from, size_t to, uint64_t begin, uint64_t end)
{
	const struct kedge__raw_kind found = kedge__raw_kind_at(r->kind[from]);
	unsigned smooth = found.smooth ? r->kind[from] : found.width ? find_smooth(r, from, to, found.width) : 0;
	const struct kedge__raw_kind k = kedge__raw_kind_at(smooth);
	struct kedge__variable v = {.name = found.smooth ? "(smooth)" : "(rough)", .ndims = 1};
	int64_t number;

	if (!found.width)
		return 0;
	begin += (k.phase + k.width - begin % k.width) % k.width;
	if (begin >= end || end - begin < RUN_LEAST)
		return 0;
	v.dims[0] = (end - begin) / k.width;
	v.type = kedge__number_type(k.width, are_floats(r, from, to, smooth), true, k.big_endian);
	number = kedge__layout_variable(r->out, &v);
	if (number < 0)
		return number == -1 ? KEDGE_E_NOMEM : 0;
	return kedge__layout_add(r->out, r->bytes, (uint32_t)number, begin, v.dims[0] * k.width) ? 0 : KEDGE_E_NOMEM;
}

static int add_stretches(const struct raw *r)
{
	uint64_t begin = 0;
	size_t from = 0;
	int rc = 0;

	for (size_t i = 0; i < r->count && !rc; i++) {
		bool last = i + 1 == r->count;
		uint64_t end;

		if (!last && r->kind[i + 1] == r->kind[i])
			continue;
		end = last ? r->bytes : find_cut(r, i);
		rc = add_stretch(r, from, i + 1, begin, end);
		begin = end;
		from = i + 1;
	}
	return rc;
}

int kedge__raw_read(struct kedge__look *look, struct kedge__layout *out)
{
	struct raw *r;
	int rc = 0;

	if (look->file->bytes < FILE_LEAST)
		return 0;
	r = kedge__calloc(1, sizeof(*r));
	if (!r)
		return KEDGE_E_NOMEM;
	r->look = look;
	r->out = out;
	r->bytes = look->file->bytes;
	kedge__raw_logs_init(&r->logs);
	if (judge_all(r)) {
		find_kinds(r);
		rc = add_stretches(r);
	}
	if (out->runs.count)
		out->format = KEDGE__FILE_RAW;
	kedge__free(r);
	return rc;
}
