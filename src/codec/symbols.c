/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric numeral systems (Duda 2013) in the form with tables; the probabilities are multiples of 2^-10. Which table
 * a symbol is coded by depends on the mean of two symbols before it. The bits of a value stand with those that its
 * length takes. Groups of zeros are left out; the others are dealt to lanes, each with a state of its own and blind to
 * the others.
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
#define GROUP        KEDGE__SYMBOL_GROUP
#define LANES_FROM   16 /* groups; less are one lane */
#define LANE_HEAD    2
#define PER_CONTEXT  1024 /* symbols, for each of 2 or 3, for which one more table pays */

struct table {
	uint16_t frequency[SYMBOLS];
};

/* ------------------------------------------------------------------ groups */

static size_t group_count(size_t n)
{
	return (n + GROUP - 1) / GROUP;
}

static unsigned lane_count(size_t groups)
{
	return groups < LANES_FROM ? 1 : LANES;
}

static void lanes_cut(const uint32_t *groups, size_t count, struct kedge__symbol_lane *lanes)
{
	unsigned n = lane_count(count);
	size_t each = (count + n - 1) / n;

	for (size_t i = 0; i < n; i++)
		lanes[i] = (struct kedge__symbol_lane){.groups = groups + i * each,
						       .count = KEDGE__MIN(each, count - i * each)};
}

static bool is_quiet(const uint8_t *at, size_t n)
{
	uint64_t any = 0;

	if (n == GROUP)
		for (size_t i = 0; i < GROUP; i += 8)
			any |= kedge__get64(at + i);
	else
		for (size_t i = 0; i < n; i++)
			any |= at[i];
	return !any;
}

/* The groups that are coded; how many. */
static size_t find_groups(const struct kedge__symbols *s, uint32_t *groups)
{
	size_t count = 0;

	for (size_t i = 0; i < s->n; i += GROUP)
		if (!is_quiet(s->at + i, KEDGE__MIN(s->n - i, (size_t)GROUP)))
			groups[count++] = (uint32_t)i;
	return count;
}

/* A byte: 0, all groups are coded; 1, those are whose bits are set in what follows. */
static size_t put_groups(const uint32_t *groups, size_t count, size_t n, uint8_t *out)
{
	size_t bytes = (group_count(n) + 7) / 8;

	out[0] = count < group_count(n);
	if (!out[0])
		return 1;
	memset(out + 1, 0, bytes);
	for (size_t i = 0; i < count; i++)
		out[1 + groups[i] / GROUP / 8] |= (uint8_t)(1 << groups[i] / GROUP % 8);
	return 1 + bytes;
}

static bool get_groups(const struct kedge__symbols *s, const uint8_t **in, const uint8_t *end, uint32_t *groups,
		       size_t *count)
{
	size_t all = group_count(s->n), bytes = (all + 7) / 8;
	const uint8_t *bits = *in + 1;

	if (*in == end || **in > 1 || (**in && (size_t)(end - bits) < bytes))
		return false;
	*count = 0;
	for (size_t i = 0; i < all; i++)
		if (!**in || bits[i / 8] >> i % 8 & 1)
			groups[(*count)++] = (uint32_t)(i * GROUP);
	if (**in && all % 8 && bits[bytes - 1] >> all % 8)
		return false;
	*in = **in ? bits + bytes : bits;
	return true;
}

/* What is not coded is 0. */
static void clear_groups(const struct kedge__symbols *s, const uint32_t *groups, size_t count)
{
	for (size_t i = 0, g = 0; i < s->n; i += GROUP) {
		size_t n = KEDGE__MIN(s->n - i, (size_t)GROUP);

		if (g < count && groups[g] == i) {
			g++;
			continue;
		}
		memset(s->at + i, 0, n);
		if (s->width)
			memset((uint8_t *)s->values + i * s->width, 0, n * s->width);
	}
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
	uint64_t total = 0, share;
	unsigned most = 0, given = 0;

	for (unsigned i = 0; i < SYMBOLS; i++) {
		total += counts[i];
		most = counts[i] > counts[most] ? i : most;
	}
	share = total ? ((uint64_t)SCALE << 32) / total : 0;
	for (unsigned i = 0; i < SYMBOLS; i++) {
		uint64_t f = (counts[i] * share + (UINT64_C(1) << 31)) >> 32;

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
static void model_make(struct model *m, uint32_t (*counts)[SYMBOLS], unsigned highest, size_t n, size_t per_context)
{
	uint64_t wanted = KEDGE__MIN(KEDGE__MAX(n / per_context, (size_t)1), (size_t)CONTEXTS_MAX), mass = 0;
	uint32_t merged[CONTEXTS_MAX][SYMBOLS] = {{0}};

	m->contexts = 1;
	for (unsigned mean = 0; mean <= highest; mean++) {
		if (mass * wanted >= n && m->contexts < wanted) {
			m->bounds[m->contexts++ - 1] = (uint8_t)mean;
			mass = 0;
		}
		for (unsigned i = 0; i < SYMBOLS; i++) {
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
		for (unsigned k = 0; k < t->frequency[i]; k++)
			symbols[place++ * SPREAD % SCALE] = (uint8_t)i;
}

static unsigned log2_of(unsigned v)
{
	return 31 - (unsigned)__builtin_clz(v);
}

/* ------------------------------------------------------------------ encode */

size_t kedge__symbols_bound(size_t n, unsigned width)
{
	return 2 + group_count(n) / 8 + MODEL_ROOM + LANES * (4 + LANE_HEAD + 8) + n * (width + 2);
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

/* The most that a lane of that many groups takes: ten bits and its value for each symbol. */
static size_t lane_room(size_t groups, unsigned width)
{
	return groups * GROUP * (width + 2) + 16;
}

static int put_lanes(const struct kedge__symbol_lane *lanes, unsigned count, const uint8_t *scratch, size_t each,
		     uint8_t *out, size_t room, size_t *used)
{
	size_t at = (count - 1) * 4;

	for (unsigned i = 0; i < count; i++) {
		const struct kedge__symbol_lane *l = &lanes[i];
		const uint8_t *from = l->to - (l->held_bits > 0);
		size_t bytes = (size_t)(scratch + (i + 1) * each - from);

		if (at > room || LANE_HEAD + bytes > room - at)
			return KEDGE_E_LIMIT;
		kedge__put16(out + at, (uint16_t)((l->state - SCALE) | (8 - l->held_bits) % 8 << 13));
		memcpy(out + at + LANE_HEAD, from, bytes);
		at += LANE_HEAD + bytes;
		if (i + 1 < count)
			kedge__put32(out + (size_t)i * 4, (uint32_t)(LANE_HEAD + bytes));
	}
	*used = at;
	return 0;
}

static int put_all(const struct model *m, const struct kedge__symbols *s, const uint8_t *means,
		   struct kedge__symbol_lane *lanes, unsigned count, uint8_t *scratch, uint8_t *out, size_t room,
		   size_t *used)
{
	size_t each = lane_room(lanes[0].count, s->width), head, n;
	struct kedge__symbol_codes codes;
	uint8_t model[MODEL_ROOM];

	head = model_put(m, model);
	if (head > room)
		return KEDGE_E_LIMIT;
	memcpy(out, model, head);
	codes_make(m, &codes);
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

/* Means of two before each symbol of a group of a lane that begins at BEGIN. */
static void find_means(const struct kedge__symbols *s, size_t begin, size_t from, size_t to, uint8_t *means)
{
	const uint8_t *at = s->at;
	size_t up = s->row ? s->row : 1;
	size_t early = KEDGE__MIN(KEDGE__MAX(from, begin + up), to);

	for (size_t i = from; i < early; i++)
		means[i] = i > begin ? at[i - 1] : 0;
	for (size_t i = early; i < to; i++)
		means[i] = (uint8_t)((at[i - 1] + at[i - up]) / 2);
}

/* What comes before each symbol, and how often each comes after it. In two tables, so that one need not wait until what
 * was written to the other can be read back; the first has the sum in the end. */
static size_t count_symbols(const struct kedge__symbols *s, const struct kedge__symbol_lane *lanes, unsigned lane_n,
			    uint8_t *means, uint32_t counts[2][MEANS][SYMBOLS])
{
	size_t n = 0;

	for (unsigned l = 0; l < lane_n; l++)
		for (size_t g = 0; g < lanes[l].count; g++) {
			size_t from = lanes[l].groups[g], to = KEDGE__MIN(from + GROUP, s->n);

			find_means(s, lanes[l].groups[0], from, to, means);
			for (size_t i = from; i + 2 <= to; i += 2) {
				counts[0][means[i]][s->at[i]]++;
				counts[1][means[i + 1]][s->at[i + 1]]++;
			}
			if ((to - from) % 2)
				counts[0][means[to - 1]][s->at[to - 1]]++;
			n += to - from;
		}
	for (unsigned i = 0; i <= s->highest; i++)
		for (unsigned k = 0; k < SYMBOLS; k++)
			counts[0][i][k] += counts[1][i][k];
	return n;
}

/* Means, groups, lanes. */
static size_t means_room(size_t n)
{
	return (n + 7) / 8 * 8;
}

size_t kedge__symbols_space(size_t n, unsigned width)
{
	return means_room(n) + group_count(n) * sizeof(uint32_t) + LANES * lane_room(group_count(n) / LANES + 1, width);
}

static int put_coded(const struct kedge__symbols *s, const uint32_t *groups, size_t count, uint8_t *means,
		     uint8_t *scratch, uint8_t *out, size_t room, size_t *used)
{
	uint32_t counts[2][MEANS][SYMBOLS];
	struct kedge__symbol_lane lanes[LANES];
	struct model m;
	size_t n;

	memset(counts[0], 0, (s->highest + 1) * sizeof(counts[0][0]));
	memset(counts[1], 0, (s->highest + 1) * sizeof(counts[1][0]));
	lanes_cut(groups, count, lanes);
	n = count_symbols(s, lanes, lane_count(count), means, counts);
	model_make(&m, counts[0], s->highest, n, (s->highest > 32 ? 3 : 2) * PER_CONTEXT);
	return put_all(&m, s, means, lanes, lane_count(count), scratch, out, room, used);
}

int kedge__symbols_encode(const struct kedge__symbols *s, uint8_t *space, uint8_t *out, size_t room, size_t *used,
			  struct kedge__error *err)
{
	uint32_t *groups = (uint32_t *)(void *)(space + means_room(s->n));
	size_t count = find_groups(s, groups), head, n = 0;
	int rc = KEDGE_E_LIMIT;

	if (room >= 1 + (group_count(s->n) + 7) / 8) {
		head = put_groups(groups, count, s->n, out);
		rc = count ? put_coded(s, groups, count, space, (uint8_t *)(groups + group_count(s->n)), out + head,
				       room - head, &n)
			   : 0;
		*used = head + n;
	}
	if (rc)
		return kedge__error_set(err, rc, 0, "%zu symbols do not fit into %zu bytes", s->n, room);
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

/* Where the COUNT lanes are, which begin at AT. */
static bool lanes_get(const uint8_t *in, size_t at, size_t in_bytes, struct kedge__symbol_lane *lanes, unsigned count)
{
	const uint8_t *sizes = in + at;

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

/* The groups that are coded, from AT on, with PLACES to build tables in. */
static bool get_coded(const struct kedge__symbols *s, const uint8_t *in, const uint8_t *at, size_t in_bytes,
		      const uint32_t *groups, size_t count, uint32_t *places)
{
	const uint32_t *of_mean[MEANS];
	struct kedge__symbol_lane lanes[LANES];
	unsigned lane_n = lane_count(count);
	struct model m;

	if (!count)
		return at == in + in_bytes;
	if (!model_get(&m, s->highest, &at, in + in_bytes))
		return false;
	lanes_cut(groups, count, lanes);
	if (!lanes_get(in, (size_t)(at - in), in_bytes, lanes, lane_n))
		return false;
	places_make(&m, s->width != 0, places);
	for (unsigned i = 0; i < MEANS; i++)
		of_mean[i] = places + (size_t)m.context[i] * SCALE;
	kedge__field_loops()->read(s, of_mean, in, lanes, lane_n);
	for (unsigned i = 0; i < lane_n; i++)
		if (lanes[i].bit != lanes[i].bit_end || lanes[i].state != 0)
			return false;
	return true;
}

int kedge__symbols_decode(const struct kedge__symbols *s, const uint8_t *in, size_t in_bytes, struct kedge__error *err)
{
	uint32_t *places = kedge__malloc((CONTEXTS_MAX * (size_t)SCALE + group_count(s->n)) * sizeof(*places));
	uint32_t *groups = places + CONTEXTS_MAX * (size_t)SCALE;
	const uint8_t *at = in;
	size_t count;
	bool ok;

	if (!places)
		return kedge__error_nomem(err);
	ok = get_groups(s, &at, in + in_bytes, groups, &count);
	if (ok) {
		clear_groups(s, groups, count);
		ok = get_coded(s, in, at, in_bytes, groups, count, places);
	}
	kedge__free(places);
	return ok ? 0 : kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec field: a stream of symbols is damaged");
}
