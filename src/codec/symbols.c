/*
 * Asymmetric numeral systems (Duda 2013) in the range form: a 32-bit state per lane, renewed 16 bits at a time; the
 * probabilities are multiples of 2^-10. Which table a symbol is coded by depends on the mean of two symbols before it.
 * The stream is cut into four lanes, each with a state of its own and blind to the others, so that a processor can work
 * on four at once.
 *
 * A lane is written from its end to its start, and read forwards. It has been read right if its state is then what
 * writing began with, which is checked, as is that nothing is left over.
 */
#include "codec/symbols.h"

#define INLINE       static inline __attribute__((always_inline))
#define SYMBOLS      (KEDGE__SYMBOL_MAX + 1)
#define MEANS        (KEDGE__SYMBOL_MAX + 1) /* means */
#define SCALE_BITS   10
#define SCALE        (1u << SCALE_BITS)
#define LANES        4
#define CONTEXTS_MAX 8
#define STATE_LEAST  (UINT32_C(1) << 16)
#define TOGETHER     64 /* symbols of each lane between looks at what is left */
#define PAD          (2 * TOGETHER + 2)
#define PER_CONTEXT  2048 /* symbols for which one more table pays */

struct table {
	uint16_t frequency[SYMBOLS], start[SYMBOLS];
};

struct lane {
	size_t begin, end;
};

static struct lane lane_at(size_t n, size_t i)
{
	size_t each = (n + LANES - 1) / LANES;

	return (struct lane){KEDGE__MIN(i * each, n), KEDGE__MIN((i + 1) * each, n)};
}

/* What the symbol at I of the lane that begins at BEGIN follows: the mean of two. */
INLINE unsigned mean_before(const uint8_t *s, size_t begin, size_t i, size_t row)
{
	unsigned before = i > begin ? s[i - 1] : 0;

	return (before + (row && i - begin >= row ? s[i - row] : before)) / 2;
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

static void table_start(struct table *t)
{
	unsigned at = 0;

	for (unsigned i = 0; i < SYMBOLS; i++) {
		t->start[i] = (uint16_t)at;
		at += t->frequency[i];
	}
}

/* Neighbouring means share a context, so that each has about as many symbols. */
static void model_make(struct model *m, uint32_t (*counts)[SYMBOLS], size_t n)
{
	uint64_t wanted = KEDGE__MIN(KEDGE__MAX(n / PER_CONTEXT, (size_t)1), (size_t)CONTEXTS_MAX), mass = 0;
	uint32_t merged[CONTEXTS_MAX][SYMBOLS] = {{0}};

	m->contexts = 1;
	for (unsigned mean = 0; mean < MEANS; mean++) {
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
	for (unsigned c = 0; c < m->contexts; c++) {
		table_scale(&m->tables[c], merged[c]);
		table_start(&m->tables[c]);
	}
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

static bool table_get(struct table *t, const uint8_t **in, const uint8_t *end)
{
	unsigned low, high, sum = 0;

	memset(t, 0, sizeof(*t));
	if (end - *in < 2)
		return false;
	low = *(*in)++;
	high = *(*in)++;
	if (high >= SYMBOLS || low > high)
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
	table_start(t);
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

static bool model_get(struct model *m, const uint8_t **in, const uint8_t *end)
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
		if (!table_get(&m->tables[c], in, end))
			return false;
	return true;
}

/* ------------------------------------------------------------------ encode */

size_t kedge__symbols_bound(size_t n)
{
	return MODEL_ROOM + LANES * 8 + 2 * n;
}

struct writer {
	uint8_t *to; /* backwards from here; at most two bytes a symbol and four */
	uint32_t state;
};

/* A symbol in a context, as it is written. */
struct entry {
	uint64_t inverse; /* 2^64 - 1 over the frequency */
	uint32_t frequency, start;
};

static void entries_make(const struct model *m, struct entry *e)
{
	for (unsigned c = 0; c < m->contexts; c++)
		for (unsigned i = 0; i < SYMBOLS; i++, e++) {
			uint32_t f = m->tables[c].frequency[i];

			*e = (struct entry){f ? UINT64_MAX / f : 0, f, m->tables[c].start[i]};
		}
}

/*
 * Without branches: whether 16 bits go out is as good as random. The quotient q of state / f is the upper half of
 * (state + 1) * inverse: inverse falls short of 2^64 / f by at most 1, which takes less than 2^-31 off (state + 1) / f;
 * and that is at least q + 1 / f, and at most q + 1.
 */
INLINE void write_one(struct writer *w, struct entry e)
{
	unsigned full = w->state >= (uint64_t)e.frequency << (32 - SCALE_BITS);
	uint32_t q;

	kedge__put16(w->to - 2, (uint16_t)w->state);
	w->to -= full * 2;
	w->state = full ? w->state >> 16 : w->state;
	q = (uint32_t)((unsigned __int128)(w->state + UINT64_C(1)) * e.inverse >> 64);
	w->state += q * (SCALE - e.frequency) + e.start;
}

/* All lanes in step, so that one need not wait for another. MEANS are those before each symbol. */
static void write_lanes(const struct model *m, const uint8_t *s, const uint8_t *means, size_t n, struct writer w[LANES])
{
	size_t each = (n + LANES - 1) / LANES, shortest = n - lane_at(n, LANES - 1).begin;
	struct entry entries[CONTEXTS_MAX * SYMBOLS];
	const struct entry *of_mean[MEANS];

	entries_make(m, entries);
	for (unsigned i = 0; i < MEANS; i++)
		of_mean[i] = entries + m->context[i] * SYMBOLS;
	for (size_t l = 0; l < LANES - 1; l++) {
		struct lane lane = lane_at(n, l);

		for (size_t i = lane.end; i-- > lane.begin + shortest;)
			write_one(&w[l], of_mean[means[i]][s[i]]);
	}
	for (size_t i = shortest; i-- > 0;)
		for (size_t l = 0; l < LANES; l++)
			write_one(&w[l], of_mean[means[l * each + i]][s[l * each + i]]);
}

static int put_all(const struct model *m, const uint8_t *s, const uint8_t *means, size_t n, uint8_t *scratch,
		   uint8_t *out, size_t room, size_t *used, struct kedge__error *err)
{
	size_t lane_room = 2 * (n / LANES + 1) + 8, at, sizes;
	struct writer w[LANES];
	uint8_t head[MODEL_ROOM];

	for (size_t i = 0; i < LANES; i++)
		w[i] = (struct writer){scratch + (i + 1) * lane_room, STATE_LEAST};
	write_lanes(m, s, means, n, w);
	sizes = model_put(m, head);
	at = sizes + (LANES - 1) * 4;
	if (at <= room)
		memcpy(out, head, sizes);
	for (size_t i = 0; i < LANES; i++) {
		size_t bytes = (size_t)(scratch + (i + 1) * lane_room - w[i].to) + 4;

		if (at > room || bytes > room - at)
			return kedge__error_set(err, KEDGE_E_LIMIT, 0, "%zu symbols do not fit into %zu bytes", n,
						room);
		kedge__put32(w[i].to - 4, w[i].state);
		memcpy(out + at, w[i].to - 4, bytes);
		at += bytes;
		if (i + 1 < LANES)
			kedge__put32(out + sizes + i * 4, (uint32_t)bytes);
	}
	*used = at;
	return 0;
}

/* What comes before each symbol, and how often each comes after it. */
static void count_symbols(const uint8_t *s, size_t n, size_t row, uint8_t *means, uint32_t (*counts)[SYMBOLS])
{
	for (size_t l = 0; l < LANES; l++) {
		struct lane lane = lane_at(n, l);
		size_t up = row ? row : 1, whole = KEDGE__MIN(lane.begin + up, lane.end);

		for (size_t i = lane.begin; i < whole; i++)
			means[i] = (uint8_t)mean_before(s, lane.begin, i, row);
		for (size_t i = whole; i < lane.end; i++)
			means[i] = (uint8_t)((s[i - 1] + s[i - up]) / 2);
	}
	for (size_t i = 0; i < n; i++)
		counts[means[i]][s[i]]++;
}

int kedge__symbols_encode(const uint8_t *s, size_t n, size_t row, uint8_t *out, size_t room, size_t *used,
			  struct kedge__error *err)
{
	uint32_t(*counts)[SYMBOLS] = kedge__calloc(MEANS, sizeof(*counts));
	uint8_t *scratch = kedge__malloc(n + LANES * (2 * (n / LANES + 1) + 8)), *means = scratch;
	struct model m;
	int rc = KEDGE_E_NOMEM;

	if (!counts || !scratch) {
		(void)kedge__error_nomem(err);
		goto free;
	}
	count_symbols(s, n, row, means, counts);
	model_make(&m, counts, n);
	rc = put_all(&m, s, means, n, scratch + n, out, room, used, err);
free:
	kedge__free(counts);
	kedge__free(scratch);
	return rc;
}

/* ------------------------------------------------------------------ decode */

/* For each place within SCALE: the symbol, 8 bits; its frequency, 12; how far the place is from the symbol's first. */
static void model_spread(const struct model *m, uint32_t *places)
{
	for (unsigned c = 0; c < m->contexts; c++, places += SCALE)
		for (unsigned i = 0; i < SYMBOLS; i++)
			for (uint32_t k = 0; k < m->tables[c].frequency[i]; k++)
				places[m->tables[c].start[i] + k] =
				    i | (uint32_t)m->tables[c].frequency[i] << 8 | k << 20;
}

struct reader {
	const uint8_t *at, *end;
	uint32_t state;
	size_t begin;
};

/* Without branches, and without looking whether there is something to read: there are PAD bytes behind it. */
INLINE void read_one(struct reader *r, const uint32_t *places, uint8_t *symbol)
{
	uint32_t place = places[r->state % SCALE], state, more = kedge__get16(r->at);
	unsigned empty;

	*symbol = (uint8_t)place;
	state = (place >> 8 & 0xfff) * (r->state >> SCALE_BITS) + (place >> 20);
	empty = state < STATE_LEAST;
	r->state = empty ? state << 16 | more : state;
	r->at += empty * 2;
}

/* The same for one lane and the symbols that the others do not have, or whose row before is not there. */
static bool read_alone(struct reader *r, const struct model *m, const uint32_t *places, uint8_t *s, size_t from,
		       size_t to, size_t row)
{
	for (size_t i = r->begin + from; i < r->begin + to && r->at <= r->end; i++)
		read_one(r, places + m->context[mean_before(s, r->begin, i, row)] * SCALE, s + i);
	return r->at <= r->end;
}

/* COUNT symbols of every lane from FROM on. */
static void read_together(struct reader lanes[LANES], const struct model *m, const uint32_t *places, uint8_t *s,
			  size_t from, size_t count, size_t row)
{
	struct reader a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3];
	uint8_t *sa = s + a.begin + from, *sb = s + b.begin + from, *sc = s + c.begin + from, *sd = s + d.begin + from;
	ptrdiff_t up = row ? (ptrdiff_t)row : 1;

	for (ptrdiff_t k = 0; k < (ptrdiff_t)count; k++) {
		read_one(&a, places + m->context[(sa[k - 1] + sa[k - up]) / 2] * SCALE, sa + k);
		read_one(&b, places + m->context[(sb[k - 1] + sb[k - up]) / 2] * SCALE, sb + k);
		read_one(&c, places + m->context[(sc[k - 1] + sc[k - up]) / 2] * SCALE, sc + k);
		read_one(&d, places + m->context[(sd[k - 1] + sd[k - up]) / 2] * SCALE, sd + k);
	}
	lanes[0] = a;
	lanes[1] = b;
	lanes[2] = c;
	lanes[3] = d;
}

static bool read_lanes(const struct model *m, const uint32_t *places, struct reader lanes[LANES], uint8_t *s, size_t n,
		       size_t row)
{
	size_t shortest = n - lanes[LANES - 1].begin, at = KEDGE__MIN(KEDGE__MAX(row, (size_t)1), shortest);
	bool ok = true;

	for (size_t i = 0; i < LANES && ok; i++)
		ok = read_alone(&lanes[i], m, places, s, 0, at, row);
	for (; ok && shortest - at >= TOGETHER; at += TOGETHER) {
		read_together(lanes, m, places, s, at, TOGETHER, row);
		ok = lanes[0].at <= lanes[0].end && lanes[1].at <= lanes[1].end && lanes[2].at <= lanes[2].end &&
		     lanes[3].at <= lanes[3].end;
	}
	for (size_t i = 0; i < LANES && ok; i++) {
		struct lane lane = lane_at(n, i);

		ok = read_alone(&lanes[i], m, places, s, at, lane.end - lane.begin, row) &&
		     lanes[i].state == STATE_LEAST && lanes[i].at == lanes[i].end;
	}
	return ok;
}

/* The lanes, each copied to where PAD bytes may be read behind it; each has at least its state. */
static bool lanes_get(const uint8_t *in, const uint8_t *end, size_t n, uint8_t *copy, struct reader lanes[LANES])
{
	const uint8_t *at = in + (LANES - 1) * 4;

	if (end - in < (LANES - 1) * 4)
		return false;
	for (size_t i = 0; i < LANES; i++) {
		size_t bytes = i + 1 < LANES ? kedge__get32(in + i * 4) : (size_t)(end - at);

		if (bytes > (size_t)(end - at) || bytes < 4)
			return false;
		memcpy(copy, at + 4, bytes - 4);
		memset(copy + bytes - 4, 0, PAD);
		lanes[i] = (struct reader){copy, copy + bytes - 4, kedge__get32(at), lane_at(n, i).begin};
		copy += bytes - 4 + PAD;
		at += bytes;
	}
	return true;
}

int kedge__symbols_decode(const uint8_t *in, size_t in_bytes, size_t row, uint8_t *s, size_t n,
			  struct kedge__error *err)
{
	const uint8_t *end = in + in_bytes;
	struct reader lanes[LANES];
	uint32_t *places;
	struct model m;
	bool ok;

	if (!model_get(&m, &in, end))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "a table of symbols is not possible");
	places = kedge__malloc(sizeof(*places) * SCALE * m.contexts + (size_t)(end - in) + LANES * PAD);
	if (!places)
		return kedge__error_nomem(err);
	model_spread(&m, places);
	ok = lanes_get(in, end, n, (uint8_t *)(places + SCALE * m.contexts), lanes) &&
	     read_lanes(&m, places, lanes, s, n, row);
	kedge__free(places);
	return ok ? 0 : kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%zu bytes do not give %zu symbols", in_bytes, n);
}
