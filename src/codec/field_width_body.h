/* SPDX-License-Identifier: BSD-3-Clause */
/* Predictions and residuals of numbers of BITS bits; included by field_loops_body.h for each width. */

#define NUMBER  KEDGE__JOIN3(uint, BITS, _t)
#define SIGNED  KEDGE__JOIN3(int, BITS, _t)
#define NAME(x) KEDGE__JOIN3(x, _, BITS)

/* The prediction of the number at P, from kedge__field_start() on; W is the number a step before it, which a decoder
 * has at hand before it can be read back from memory. */
KEDGE__INLINE NUMBER NAME(predict)(enum kedge__field_kind kind, const NUMBER *p, NUMBER w, struct kedge__field_reach r)
{
	ptrdiff_t s = r.step, n = r.row, u = r.plane;

	switch (kind) {
	case KEDGE__FIELD_ZERO:
		return 0;
	case KEDGE__FIELD_LAST:
		return w;
	case KEDGE__FIELD_LINE:
		return (NUMBER)(2 * w - p[-2 * s]);
	case KEDGE__FIELD_PARABOLA:
		return (NUMBER)(3 * (NUMBER)(w - p[-2 * s]) + p[-3 * s]);
	case KEDGE__FIELD_PLANE:
		return (NUMBER)(p[-n] - p[-n - s] + w);
	case KEDGE__FIELD_RAMP:
		return (NUMBER)(p[-n] - 2 * p[-n - s] + p[-n - 2 * s] - p[-2 * s] + 2 * w);
	case KEDGE__FIELD_SPACE:
		return (NUMBER)(p[-n] - p[-n - s] + p[-u] - p[-u - s] - p[-u - n] + p[-u - n - s] + w);
	default: {
		/* As a sum of differences to w, which do not overflow where neighbours are near each other. */
		NUMBER d = (NUMBER)(2 * (NUMBER)(p[-n] + p[-u]) - p[-n - s] - p[-u - s] - p[-u - n] - w);

		return (NUMBER)(w + (NUMBER)((SIGNED)d / 3));
	}
	}
}

KEDGE__INLINE NUMBER NAME(zigzag)(NUMBER d)
{
	return (NUMBER)((NUMBER)(d << 1) ^ (NUMBER)((SIGNED)d >> (BITS - 1)));
}

KEDGE__INLINE NUMBER NAME(unzigzag)(NUMBER z)
{
	return (NUMBER)(z >> 1 ^ (NUMBER)(0 - (z & 1)));
}

KEDGE__INLINE uint8_t NAME(length)(NUMBER z)
{
#if BITS == 64
	return (uint8_t)(z ? 64 - __builtin_clzll(z) : 0);
#else
	return (uint8_t)(z ? 32 - __builtin_clz(z) : 0);
#endif
}

KEDGE__INLINE uint8_t NAME(zeros)(NUMBER v)
{
	return (uint8_t)(v ? __builtin_ctzll(v) : BITS);
}

/* ------------------------------------------------------------------ order */

KEDGE__INLINE NUMBER NAME(turn)(NUMBER v)
{
	return v ^ (NUMBER)((NUMBER)((SIGNED)v >> (BITS - 1)) >> 1);
}

static void NAME(take)(const struct kedge__field *f, const uint8_t *restrict raw, void *numbers)
{
	NUMBER *restrict to = numbers;

	for (size_t i = 0; i < f->n; i++) {
		NUMBER v;

		memcpy(&v, raw + i * sizeof(v), sizeof(v));
		to[i] = NAME(turn)(v);
	}
}

static void NAME(give)(const struct kedge__field *f, const void *numbers, uint8_t *restrict raw)
{
	const NUMBER *restrict from = numbers;

	for (size_t i = 0; i < f->n; i++) {
		NUMBER v = NAME(turn)(from[i]);

		memcpy(raw + i * sizeof(v), &v, sizeof(v));
	}
}

/* ------------------------------------------------------------------ residuals */

/* A number without its trailing zeros and the one before them. */
KEDGE__INLINE NUMBER NAME(without_zeros)(NUMBER v, unsigned zeros)
{
	return (NUMBER)((SIGNED)v >> KEDGE__MIN(zeros + 1, BITS - 1u));
}

KEDGE__INLINE NUMBER NAME(with_zeros)(NUMBER v, unsigned zeros)
{
	return zeros >= BITS ? 0 : (NUMBER)((uint64_t)v << zeros << 1 | UINT64_C(1) << zeros);
}

KEDGE__INLINE NUMBER NAME(residual)(NUMBER v, NUMBER guess, uint8_t *zeros)
{
	if (!zeros)
		return NAME(zigzag)((NUMBER)(v - guess));
	*zeros = NAME(zeros)(v);
	if (*zeros == BITS)
		return 0;
	return NAME(zigzag)((NUMBER)(NAME(without_zeros)(v, *zeros) - NAME(without_zeros)(guess, *zeros)));
}

/* Before a kind can predict: the number before it, 0 for the first. */
KEDGE__INLINE void NAME(replace)(const struct kedge__field *f, enum kedge__field_kind kind, const NUMBER *restrict p,
				 NUMBER *restrict to, uint8_t *restrict lengths, uint8_t *restrict zeros, size_t from,
				 size_t end)
{
	size_t start = KEDGE__MIN(KEDGE__MAX(kedge__field_start(kind, f->reach), from), end);
	const struct kedge__field_reach reach = f->reach;

	for (size_t i = from; i < start; i++)
		to[i] = NAME(residual)(p[i], i ? p[i - 1] : 0, zeros ? zeros + i : NULL);
	for (size_t i = start; i < end; i++)
		to[i] = NAME(residual)(p[i], NAME(predict)(kind, p + i, kind ? p[(ptrdiff_t)i - reach.step] : 0, reach),
				       zeros ? zeros + i : NULL);
	for (size_t i = from; i < end; i++)
		lengths[i] = NAME(length)(to[i]);
}

static void NAME(replace_any)(const struct kedge__field *f, const void *p, void *to, uint8_t *lengths, uint8_t *zeros,
			      size_t from, size_t end)
{
#define CALL(kind)                                                                                                     \
	do {                                                                                                           \
		if (f->zeros)                                                                                          \
			NAME(replace)(f, kind, p, to, lengths, zeros, from, end);                                      \
		else                                                                                                   \
			NAME(replace)(f, kind, p, to, lengths, NULL, from, end);                                       \
	} while (0)
	BY_KIND(f->kind, CALL)
#undef CALL
}

KEDGE__INLINE NUMBER NAME(rebuild_one)(NUMBER z, NUMBER guess, const uint8_t *zeros)
{
	if (!zeros)
		return (NUMBER)(guess + NAME(unzigzag)(z));
	return NAME(with_zeros)((NUMBER)(NAME(unzigzag)(z) + NAME(without_zeros)(guess, *zeros)), *zeros);
}

KEDGE__INLINE void NAME(rebuild)(const struct kedge__field *f, enum kedge__field_kind kind, NUMBER *p,
				 const uint8_t *zeros, size_t from, size_t to)
{
	size_t start = KEDGE__MIN(KEDGE__MAX(kedge__field_start(kind, f->reach), from), to);
	const struct kedge__field_reach reach = f->reach;
	NUMBER v = from ? p[from - 1] : 0;

	for (size_t i = from; i < start; i++)
		p[i] = v = NAME(rebuild_one)(p[i], v, zeros ? zeros + i : NULL);
	if (reach.step == 1)
		for (size_t i = start; i < to; i++)
			p[i] = v =
			    NAME(rebuild_one)(p[i], NAME(predict)(kind, p + i, v, reach), zeros ? zeros + i : NULL);
	else
		for (size_t i = start; i < to; i++)
			p[i] = NAME(rebuild_one)(
			    p[i], NAME(predict)(kind, p + i, kind ? p[(ptrdiff_t)i - reach.step] : 0, reach),
			    zeros ? zeros + i : NULL);
}

static void NAME(rebuild_any)(const struct kedge__field *f, void *p, const uint8_t *zeros, size_t from, size_t to)
{
#define CALL(kind)                                                                                                     \
	do {                                                                                                           \
		if (f->zeros)                                                                                          \
			NAME(rebuild)(f, kind, p, zeros, from, to);                                                    \
		else                                                                                                   \
			NAME(rebuild)(f, kind, p, NULL, from, to);                                                     \
	} while (0)
	BY_KIND(f->kind, CALL)
#undef CALL
}

/* ------------------------------------------------------------------ echoes */

/* What number K of an echo is the echo of: P has the numbers of the part. */
KEDGE__INLINE NUMBER NAME(source)(const struct kedge__echo_part *part, const struct kedge__echo *e, const NUMBER *p,
				  bool here, bool backwards, bool negated, size_t k)
{
	size_t at = backwards ? e->from - k : e->from + k;
	NUMBER v;

	if (here) {
		v = p[at - part->start];
	} else {
		memcpy(&v, part->block + at * sizeof(v), sizeof(v));
		v = NAME(turn)(v);
	}
	return negated ? (NUMBER)~v : v;
}

/* Each way around in a loop of its own. */
#define BY_WAY(e, CALL)                                                                                                \
	do {                                                                                                           \
		if ((e)->backwards && (e)->negated)                                                                    \
			CALL(true, true);                                                                              \
		else if ((e)->backwards)                                                                               \
			CALL(true, false);                                                                             \
		else if ((e)->negated)                                                                                 \
			CALL(false, true);                                                                             \
		else                                                                                                   \
			CALL(false, false);                                                                            \
	} while (0)

KEDGE__INLINE void NAME(echo)(const struct kedge__echo_part *part, const struct kedge__echo *e,
			      const NUMBER *restrict p, NUMBER *restrict to, uint8_t *restrict lengths,
			      uint8_t *restrict zeros, bool here, bool backwards, bool negated)
{
	size_t first = e->to - part->start;

	for (size_t k = 0; k < e->n; k++)
		to[first + k] = NAME(residual)(p[first + k], NAME(source)(part, e, p, here, backwards, negated, k),
					       zeros ? zeros + first + k : NULL);
	for (size_t k = 0; k < e->n; k++)
		lengths[first + k] = NAME(length)(to[first + k]);
}

static void NAME(echo_any)(const struct kedge__field *f, const struct kedge__echo_part *part,
			   const struct kedge__echo *e, const void *p, void *to, uint8_t *lengths, uint8_t *zeros)
{
	bool here = e->from >= part->start;

#define CALL(backwards, negated)                                                                                       \
	do {                                                                                                           \
		if (f->zeros)                                                                                          \
			NAME(echo)(part, e, p, to, lengths, zeros, here, backwards, negated);                          \
		else if (here)                                                                                         \
			NAME(echo)(part, e, p, to, lengths, NULL, true, backwards, negated);                           \
		else                                                                                                   \
			NAME(echo)(part, e, p, to, lengths, NULL, false, backwards, negated);                          \
	} while (0)
	BY_WAY(e, CALL);
#undef CALL
}

/* Of what is in the part itself, a number may be the echo of one right before it. */
KEDGE__INLINE void NAME(rebuild_run)(const struct kedge__field *f, const struct kedge__echo_part *part,
				     const struct kedge__echo *e, NUMBER *p, const uint8_t *zeros, bool backwards,
				     bool negated)
{
	size_t first = e->to - part->start;
	bool here = e->from >= part->start;

	for (size_t i = first; i < first + e->n; i++)
		p[i] = NAME(rebuild_one)(p[i], NAME(source)(part, e, p, here, backwards, negated, i - first),
					 f->zeros ? zeros + i : NULL);
}

static void NAME(rebuild_echo)(const struct kedge__field *f, const struct kedge__echo_part *part,
			       const struct kedge__echo *e, void *p, const uint8_t *zeros)
{
#define CALL(backwards, negated) NAME(rebuild_run)(f, part, e, p, zeros, backwards, negated)
	BY_WAY(e, CALL);
#undef CALL
}

/* ------------------------------------------------------------------ choose */

/* Bits of the residuals of the numbers from FROM to below TO. */
KEDGE__INLINE uint64_t NAME(run_cost)(enum kedge__field_kind kind, const NUMBER *p, size_t from, size_t to,
				      struct kedge__field_reach r)
{
	uint64_t bits = 0;

	for (size_t i = from; i < to; i++) {
		NUMBER w = kind ? p[(ptrdiff_t)i - r.step] : 0;

		bits += NAME(length)(NAME(zigzag)((NUMBER)(p[i] - NAME(predict)(kind, p + i, w, r))));
	}
	return bits;
}

KEDGE__INLINE uint64_t NAME(cost)(const struct kedge__field *f, enum kedge__field_kind kind, const NUMBER *p)
{
	struct kedge__field_reach r = f->reach;
	/* From where all kinds can start, so that all are judged by the same numbers. */
	size_t first = KEDGE__MIN((size_t)r.plane + r.row + 3 * (size_t)r.step, f->n / 2);
	uint64_t bits = 0;

	first = KEDGE__MAX(first, kedge__field_start(kind, r));
	for (size_t at = first; at < f->n; at += SAMPLE_EVERY)
		bits += NAME(run_cost)(kind, p, at, KEDGE__MIN(at + SAMPLE_RUN, f->n), r);
	return bits;
}

static uint64_t NAME(cost_any)(const struct kedge__field *f, enum kedge__field_kind kind, const void *p)
{
	uint64_t bits = 0;

#define CALL(kind) bits = NAME(cost)(f, kind, p)
	BY_KIND(kind, CALL)
#undef CALL
	return bits;
}

#undef BY_WAY
#undef NUMBER
#undef SIGNED
#undef NAME
#undef BITS
