#include "codec/field.h"

#define SAMPLE_RUN   32 /* numbers */
#define SAMPLE_EVERY 768

void kedge__field_order(uint8_t *p, size_t n, unsigned width)
{
	if (width == 8)
		for (size_t i = 0; i < n; i++) {
			int64_t v = (int64_t)kedge__get64(p + i * 8);

			kedge__put64(p + i * 8, (uint64_t)(v ^ ((v >> 63) & INT64_MAX)));
		}
	else if (width == 4)
		for (size_t i = 0; i < n; i++) {
			int32_t v = (int32_t)kedge__get32(p + i * 4);

			kedge__put32(p + i * 4, (uint32_t)(v ^ ((v >> 31) & INT32_MAX)));
		}
	else
		for (size_t i = 0; i < n; i++) {
			int16_t v = (int16_t)kedge__get16(p + i * 2);

			kedge__put16(p + i * 2, (uint16_t)(v ^ ((v >> 15) & INT16_MAX)));
		}
}

KEDGE__INLINE uint64_t run_cost(enum kedge__field_kind kind, const uint8_t *p, size_t from, size_t to, unsigned width,
				struct kedge__field_reach r)
{
	uint64_t bits = 0;

	for (size_t i = from; i < to; i++) {
		uint64_t before = kind ? (uint64_t)kedge__field_load(p, i - r.step, width) : 0;
		uint64_t guess = (uint64_t)kedge__field_predict(kind, p, i, before, width, r);
		int64_t d = kedge__field_wrap((uint64_t)kedge__field_load(p, i, width) - guess, width);

		bits += kedge__field_bits(kedge__field_zigzag(d));
	}
	return bits;
}

KEDGE__INLINE uint64_t cost(enum kedge__field_kind kind, const uint8_t *p, size_t n, unsigned width,
			    struct kedge__field_reach r)
{
	/* From where all kinds can start, so that all are judged by the same numbers. */
	size_t first = KEDGE__MIN((size_t)r.plane + r.row + 3 * (size_t)r.step, n / 2);
	uint64_t bits = 0;

	first = KEDGE__MAX(first, kedge__field_start(kind, r));
	for (size_t at = first; at < n; at += SAMPLE_EVERY)
		bits += run_cost(kind, p, at, KEDGE__MIN(at + SAMPLE_RUN, n), width, r);
	return bits;
}

KEDGE__INLINE uint64_t cost_of_kind(enum kedge__field_kind kind, const uint8_t *p, size_t n, unsigned width,
				    struct kedge__field_reach r)
{
	switch (kind) {
#define CASE(which)                                                                                                    \
	case KEDGE__FIELD_##which:                                                                                     \
		return cost(KEDGE__FIELD_##which, p, n, width, r);
		CASE(ZERO)
		CASE(LAST)
		CASE(LINE)
		CASE(PARABOLA)
		CASE(PLANE)
		CASE(RAMP)
		CASE(SPACE)
	default:
		return cost(KEDGE__FIELD_PLANES, p, n, width, r);
#undef CASE
	}
}

uint64_t kedge__field_cost(enum kedge__field_kind kind, const uint8_t *p, size_t n, unsigned width,
			   struct kedge__field_reach r)
{
	return width == 8   ? cost_of_kind(kind, p, n, 8, r)
	       : width == 4 ? cost_of_kind(kind, p, n, 4, r)
			    : cost_of_kind(kind, p, n, 2, r);
}

bool kedge__field_reach_valid(enum kedge__field_kind kind, struct kedge__field_reach r)
{
	if (!r.step || kind >= KEDGE__FIELD_KINDS)
		return false;
	if (kind >= KEDGE__FIELD_PLANE && r.row <= r.step)
		return false;
	return kind < KEDGE__FIELD_SPACE || r.plane > r.row;
}

enum kedge__field_kind kedge__field_choose(const uint8_t *p, size_t n, unsigned width, struct kedge__field_reach r)
{
	enum kedge__field_kind best = KEDGE__FIELD_ZERO;
	uint64_t best_bits = UINT64_MAX;

	for (int k = 0; k < KEDGE__FIELD_KINDS; k++) {
		enum kedge__field_kind kind = (enum kedge__field_kind)k;
		uint64_t bits;

		if (!kedge__field_reach_valid(kind, r) || kedge__field_start(kind, r) > n / 2)
			continue;
		bits = kedge__field_cost(kind, p, n, width, r);
		if (bits < best_bits) {
			best_bits = bits;
			best = kind;
		}
	}
	return best;
}
