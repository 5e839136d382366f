/*
 * Asymmetric numeral systems (Duda 2013) in the form with tables; the probabilities are multiples of 2^-10. Which table
 * a symbol is coded by depends on the mean of two symbols before it. The bits of a value stand with those that its
 * length takes. The stream is cut into lanes, each with a state of its own and blind to the others.
 *
 * A lane is written from its end to its start, and read forwards. It has been read right if its state is then what
 * writing began with, which is checked, as is that nothing is left over.
 */
#include "codec/symbols.h"

#include "codec/field_loops.h"

#define SYMBOLS      (KEDGE__SYMBOL_MAX + 1)
#define MEANS        (KEDGE__SYMBOL_MAX + 1) /* means */
#define SCALE        KEDGE__SYMBOL_SCALE
#define SPREAD       643 /* from one place of a symbol to the next */
#define CONTEXTS_MAX KEDGE__SYMBOL_CONTEXTS
#define LANES        KEDGE__SYMBOL_LANES
#define LANES_FROM   1024 /* symbols; less are one lane */
#define LANE_HEAD    2
#define PER_CONTEXT  2048 /* symbols for which one more table pays */

struct table {
	uint16_t frequency[SYMBOLS];
};

static unsigned lane_count(size_t n)
{
	return n < LANES_FROM ? 1 : LANES;
}

static void lanes_cut(size_t n, struct kedge__symbol_lane *lanes)
{
	unsigned count = lane_count(n);
	size_t each = (n + count - 1) / count;

	for (size_t i = 0; i < count; i++)
		lanes[i] =
		    (struct kedge__symbol_lane){.begin = KEDGE__MIN(i * each, n), .end = KEDGE__MIN((i + 1) * each, n)};
}

/* ------------------------------------------------------------------ tables */

struct model {
	unsigned contexts;
	uint8_t bounds[CONTEXTS_MAX]; /* context c is for means from bounds[c - 1] on */
	uint8_t context[MEANS];
	struct table tables[CONTEXTS_MAX];
};

static void spread_bounds(struct model *m)
{
	for (unsigned mean = 0, c = 0; mean < MEANS; mean++) {
		while (c + 1 < m->contexts && mean >= m->bounds[c])
			c++;
		m->context[mean] = (uint8_t)c;
	}
}

/* Counts to multiples of 1 / SCALE, none that occurs being 0; what rounding left over goes to the most frequent. */
static void table_scale(struct table *t, const uint32_t counts[SYMBOLS])
{
	uint64_t total = 0;
	unsigned most = 0, given = 0;

	for (unsigned i = 0; i < SYMBOLS; i++) {
		total += counts[i];
		most = counts[i] > counts[most] ? i : most;
	}
	for (unsigned i = 0; i < SYMBOLS; i++) {
		uint64_t f = total ? (counts[i] * (uint64_t)SCALE + total / 2) / total : 0;

		t->frequency[i] = (uint16_t)(counts[i] && !f ? 1 : f);
		given += t->frequency[i];
	}
	/* At most 64 more than the whole, and the most frequent has at least a 65th of it. */
	while (given > SCALE) {
		unsigned high = 0;

		for (unsigned i = 1; i < SYMBOLS; i++)
			high = t->frequency[i] > t->frequency[high] ? i : high;
		t->frequency[high]--;
		given--;
	}
	t->frequency[most] = (uint16_t)(t->frequency[most] + SCALE - given);
}

/* Neighbouring means share a context, so that each has about as many symbols. */
static void model_make(struct model *m, uint32_t (*counts)[SYMBOLS], unsigned highest, size_t n)
{
	uint64_t wanted = KEDGE__MIN(KEDGE__MAX(n / PER_CONTEXT, (size_t)1), (size_t)CONTEXTS_MAX), mass = 0;
	uint32_t merged[CONTEXTS_MAX][SYMBOLS] = {{0}};

	m->contexts = 1;
	for (unsigned mean = 0; mean <= highest; mean++) {
		if (mass * wanted >= n && m->contexts < wanted) {
			m->bounds[m->contexts++ - 1] = (uint8_t)mean;
			mass = 0;
		}
		for (unsigned i = 0; i <= highest; i++) {
			merged[m->contexts - 1][i] += counts[mean][i];
			mass += counts[mean][i];
		}
	}
	spread_bounds(m);
	for (unsigned c = 0; c < m->contexts; c++)
		table_scale(&m->tables[c], merged[c]);
}

/* The first and the last symbol that occur, and the frequencies from one to the other, seven bits a byte. */
static size_t table_put(const struct table *t, uint8_t *out)
{
	unsigned low = 0, high = SYMBOLS - 1;
	size_t at = 2;

	while (low < high && !t->frequency[low])
		low++;
	while (high > low && !t->frequency[high])
		high--;
	out[0] = (uint8_t)low;
	out[1] = (uint8_t)high;
	for (unsigned i = low; i <= high; i++) {
		if (t->frequency[i] >= 128)
			out[at++] = (uint8_t)(t->frequency[i] % 128 + 128);
		out[at++] = (uint8_t)(t->frequency[i] >= 128 ? t->frequency[i] / 128 : t->frequency[i]);
	}
	return at;
}

static bool table_get(struct table *t, unsigned highest, const uint8_t **in, const uint8_t *end)
{
	unsigned low, high, sum = 0;

	memset(t, 0, sizeof(*t));
	if (end - *in < 2)
		return false;
	low = *(*in)++;
	high = *(*in)++;
	if (high > highest || low > high)
		return false;
	for (unsigned i = low; i <= high; i++) {
		unsigned v;

		if (*in == end)
			return false;
		v = *(*in)++;
		if (v >= 128) {
			if (*in == end)
				return false;
			v = v - 128 + 128 * (unsigned)*(*in)++;
		}
		if (v > SCALE)
			return false;
		t->frequency[i] = (uint16_t)v;
		sum += v;
	}
	return sum == SCALE;
}

#define MODEL_ROOM (1 + CONTEXTS_MAX - 1 + CONTEXTS_MAX * (2 + 2 * SYMBOLS))

static size_t model_put(const struct model *m, uint8_t *out)
{
	size_t at = 0;

	out[at++] = (uint8_t)m->contexts;
	for (unsigned c = 0; c + 1 < m->contexts; c++)
		out[at++] = m->bounds[c];
	for (unsigned c = 0; c < m->contexts; c++)
		at += table_put(&m->tables[c], out + at);
	return at;
}

static bool model_get(struct model *m, unsigned highest, const uint8_t **in, const uint8_t *end)
{
	if (*in == end)
		return false;
	m->contexts = *(*in)++;
	if (!m->contexts || m->contexts > CONTEXTS_MAX || (size_t)(end - *in) < m->contexts - 1)
		return false;
	for (unsigned c = 0; c + 1 < m->contexts; c++) {
		m->bounds[c] = *(*in)++;
		if (m->bounds[c] >= MEANS || (c && m->bounds[c] <= m->bounds[c - 1]))
			return false;
	}
	spread_bounds(m);
	for (unsigned c = 0; c < m->contexts; c++)
		if (!table_get(&m->tables[c], highest, in, end))
			return false;
	return true;
}

/* Which symbol each place of a table is of: those of a symbol are SPREAD from each other, all over the table. */
static void table_spread(const struct table *t, uint8_t symbols[SCALE])
{
	unsigned place = 0;

	for (unsigned i = 0; i < SYMBOLS; i++)
		for (unsigned k = 0; k < t->frequency[i]; k++) {
			symbols[place] = (uint8_t)i;
			place = (place + SPREAD) % SCALE;
		}
}

static unsigned log2_of(unsigned v)
{
	return 31 - (unsigned)__builtin_clz(v);
}

/* ------------------------------------------------------------------ encode */

size_t kedge__symbols_bound(size_t n, unsigned width)
{
	return MODEL_ROOM + LANES * (4 + LANE_HEAD + 8) + n * (width + 2);
}

static void codes_make(const struct model *m, struct kedge__symbol_codes *codes)
{
	uint8_t symbols[SCALE];

	for (unsigned c = 0; c < m->contexts; c++) {
		uint16_t *states = codes->states + c * SCALE;
		unsigned next[SYMBOLS], at = 0;

		for (unsigned i = 0; i < SYMBOLS; i++) {
			unsigned f = m->tables[c].frequency[i], bits = f > 1 ? 10 - log2_of(f - 1) : 10;

			codes->codes[c][i] = (struct kedge__symbol_code){(bits << 16) - (f << bits),
									 (int16_t)((int)(c * SCALE + at) - (int)f),
									 (uint8_t)(i - (i != 0))};
			next[i] = at;
			at += f;
		}
		table_spread(&m->tables[c], symbols);
		for (unsigned i = 0; i < SCALE; i++)
			states[next[symbols[i]]++] = (uint16_t)(SCALE + i);
	}
	for (unsigned i = 0; i < MEANS; i++)
		codes->of_mean[i] = codes->codes[m->context[i]];
}

/* The most that a lane takes: a bit more than ten bits and its value for each symbol. */
static size_t lane_room(const struct kedge__symbols *s)
{
	return (s->n / lane_count(s->n) + 1) * (s->width + 2) + 16;
}

static int put_lanes(const struct kedge__symbol_lane *lanes, unsigned count, const uint8_t *scratch, size_t each,
		     uint8_t *out, size_t room, size_t *used)
{
	size_t at = (count - 1) * 4;

	for (unsigned i = 0; i < count; i++) {
		const struct kedge__symbol_lane *l = &lanes[i];
		const uint8_t *from = l->to - (l->count > 0);
		size_t bytes = (size_t)(scratch + (i + 1) * each - from);

		if (at > room || LANE_HEAD + bytes > room - at)
			return KEDGE_E_LIMIT;
		kedge__put16(out + at, (uint16_t)((l->state - SCALE) | (8 - l->count) % 8 << 13));
		memcpy(out + at + LANE_HEAD, from, bytes);
		at += LANE_HEAD + bytes;
		if (i + 1 < count)
			kedge__put32(out + (size_t)i * 4, (uint32_t)(LANE_HEAD + bytes));
	}
	*used = at;
	return 0;
}

static int put_all(const struct model *m, const struct kedge__symbols *s, const uint8_t *means, uint8_t *scratch,
		   uint8_t *out, size_t room, size_t *used)
{
	size_t each = lane_room(s), head, n;
	unsigned count = lane_count(s->n);
	struct kedge__symbol_lane lanes[LANES];
	struct kedge__symbol_codes codes;
	uint8_t model[MODEL_ROOM];

	head = model_put(m, model);
	if (head > room)
		return KEDGE_E_LIMIT;
	memcpy(out, model, head);
	codes_make(m, &codes);
	lanes_cut(s->n, lanes);
	for (size_t i = 0; i < count; i++) {
		lanes[i].to = scratch + (i + 1) * each;
		lanes[i].state = SCALE;
	}
	kedge__field_loops()->write(s, &codes, means, lanes, count);
	if (put_lanes(lanes, count, scratch, each, out + head, room - head, &n) != 0)
		return KEDGE_E_LIMIT;
	*used = head + n;
	return 0;
}

/* What comes before each symbol, and how often each comes after it. In two tables, so that one need not wait until what
 * was written to the other can be read back; the first has the sum in the end. */
static void count_symbols(const struct kedge__symbols *s, uint8_t *means, uint32_t counts[2][MEANS][SYMBOLS])
{
	struct kedge__symbol_lane lanes[LANES];
	const uint8_t *at = s->at;

	lanes_cut(s->n, lanes);
	for (unsigned l = 0; l < lane_count(s->n); l++) {
		size_t up = s->row ? s->row : 1, begin = lanes[l].begin, end = lanes[l].end;
		size_t whole = KEDGE__MIN(begin + up, end);

		for (size_t i = begin; i < whole; i++)
			means[i] = i > begin ? at[i - 1] : 0;
		for (size_t i = whole; i < end; i++)
			means[i] = (uint8_t)((at[i - 1] + at[i - up]) / 2);
	}
	for (size_t i = 0; i + 2 <= s->n; i += 2) {
		counts[0][means[i]][at[i]]++;
		counts[1][means[i + 1]][at[i + 1]]++;
	}
	if (s->n % 2)
		counts[0][means[s->n - 1]][at[s->n - 1]]++;
	for (unsigned i = 0; i <= s->highest; i++)
		for (unsigned k = 0; k <= s->highest; k++)
			counts[0][i][k] += counts[1][i][k];
}

size_t kedge__symbols_space(size_t n, unsigned width)
{
	const struct kedge__symbols s = {.n = n, .width = width};

	return n + LANES * lane_room(&s);
}

int kedge__symbols_encode(const struct kedge__symbols *s, uint8_t *space, uint8_t *out, size_t room, size_t *used,
			  struct kedge__error *err)
{
	uint32_t counts[2][MEANS][SYMBOLS];
	struct model m;

	for (unsigned i = 0; i <= s->highest; i++) {
		memset(counts[0][i], 0, sizeof(counts[0][i]));
		memset(counts[1][i], 0, sizeof(counts[1][i]));
	}
	count_symbols(s, space, counts);
	model_make(&m, counts[0], s->highest, s->n);
	if (put_all(&m, s, space, space + s->n, out, room, used) != 0)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "%zu symbols do not fit into %zu bytes", s->n, room);
	return 0;
}

/* ------------------------------------------------------------------ decode */

static void places_make(const struct model *m, bool values, uint32_t *places)
{
	uint8_t symbols[SCALE];

	for (unsigned c = 0; c < m->contexts; c++, places += SCALE) {
		uint16_t next[SYMBOLS];

		memcpy(next, m->tables[c].frequency, sizeof(next));
		table_spread(&m->tables[c], symbols);
		for (unsigned i = 0; i < SCALE; i++) {
			unsigned symbol = symbols[i], x = next[symbol]++, few = 10 - log2_of(x);
			unsigned all = few + (values && symbol ? symbol - 1 : 0);

			places[i] = KEDGE__SYMBOL_PLACE((x << few) - SCALE, few, symbol, all);
		}
	}
}

/* Where the lanes are, which begin at AT. */
static bool lanes_get(const uint8_t *in, size_t at, size_t in_bytes, size_t n, struct kedge__symbol_lane *lanes)
{
	unsigned count = lane_count(n);
	const uint8_t *sizes = in + at;

	lanes_cut(n, lanes);
	if (in_bytes - at < (count - 1) * 4)
		return false;
	at += (count - 1) * 4;
	for (unsigned i = 0; i < count; i++) {
		size_t bytes = i + 1 < count ? kedge__get32(sizes + (size_t)i * 4) : in_bytes - at;
		unsigned head;

		if (bytes > in_bytes - at || bytes < LANE_HEAD)
			return false;
		head = kedge__get16(in + at);
		lanes[i].state = head % SCALE;
		lanes[i].bit = (at + LANE_HEAD) * UINT64_C(8) + (head >> 13);
		lanes[i].bit_end = (at + bytes) * UINT64_C(8);
		at += bytes;
		if (head & 7 << 10)
			return false;
	}
	return true;
}

int kedge__symbols_decode(const struct kedge__symbols *s, const uint8_t *in, size_t in_bytes, struct kedge__error *err)
{
	const uint8_t *at = in;
	const uint32_t *of_mean[MEANS];
	struct kedge__symbol_lane lanes[LANES];
	struct model m;
	uint32_t *places;
	bool ok = true;

	if (!model_get(&m, s->highest, &at, in + in_bytes) || !lanes_get(in, (size_t)(at - in), in_bytes, s->n, lanes))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec field: a table of symbols is damaged");
	places = kedge__malloc(m.contexts * SCALE * sizeof(*places));
	if (!places)
		return kedge__error_nomem(err);
	places_make(&m, s->width != 0, places);
	for (unsigned i = 0; i < MEANS; i++)
		of_mean[i] = places + (size_t)m.context[i] * SCALE;
	kedge__field_loops()->read(s, of_mean, in, lanes, lane_count(s->n));
	for (unsigned i = 0; ok && i < lane_count(s->n); i++)
		ok = lanes[i].bit == lanes[i].bit_end && lanes[i].state == 0;
	kedge__free(places);
	return ok ? 0 : kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec field: a stream of symbols is damaged");
}
