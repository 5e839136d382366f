/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FORMAT.md, "Columns": the fields of the entries of a map, each field in a string of its own, so that what is alike
 * stands together when it is packed. Numbers whose lowest bits follow no pattern, gaps and distances, leave these to a
 * string of bits and keep a class.
 */
#include "format/map_wire.h"

enum column { HEADS, GAPS, LENGTHS, SOURCES, NUMBERS, DIFFERENCES, REST, BITS, COLUMN_COUNT };

#define ALLOWANCE (UINT64_C(1) << 20) /* bytes that any column may have */

#define HEAD_BITS    3u /* kind and long */
#define SOURCE_BITS  2u /* other and bytes */
#define CLASS_LEAST  8u /* numbers below have no bits and are their own class */
#define CLASS_LAST   247u
#define CLASS_ESCAPE 255u /* 64 bits follow */
#define ESCAPE_LEAST (UINT64_C(1) << 33)

/* ------------------------------------------------------------------ writing */

struct kedge__columns_out {
	struct kedge__bytes text[COLUMN_COUNT];
	struct kedge__wire_out w[COLUMN_COUNT];
	uint64_t entries, copies;
	uint8_t heads, sources; /* of the byte that is not full yet */
	uint64_t bits;          /* lowest first, */
	unsigned bit_count;     /* fewer than 8 between calls */
	size_t as_runs;
};

size_t kedge__columns_as_runs(const struct kedge__columns_out *c)
{
	return c->as_runs;
}

struct kedge__columns_out *kedge__columns_out_new(void)
{
	struct kedge__columns_out *c = kedge__calloc(1, sizeof(*c));

	for (size_t i = 0; c && i < COLUMN_COUNT; i++)
		c->w[i] = kedge__wire_out_init(&c->text[i]);
	return c;
}

void kedge__columns_out_free(struct kedge__columns_out *c)
{
	for (size_t i = 0; c && i < COLUMN_COUNT; i++)
		kedge__bytes_done(&c->text[i]);
	kedge__free(c);
}

static void put_byte(struct kedge__columns_out *c, enum column column, uint8_t v)
{
	struct kedge__bytes *b = &c->text[column];

	if (b->count < b->room)
		b->at[b->count++] = v;
	else
		kedge__wire_put(&c->w[column], &v, 1);
}

/* N is at most 32. */
static void put_bits(struct kedge__columns_out *c, uint64_t v, unsigned n)
{
	c->bits |= v << c->bit_count;
	for (c->bit_count += n; c->bit_count >= 8; c->bit_count -= 8) {
		put_byte(c, BITS, (uint8_t)c->bits);
		c->bits >>= 8;
	}
}

static unsigned log2_of(uint64_t v)
{
	return 63u - (unsigned)__builtin_clzll(v);
}

static void put_number(struct kedge__columns_out *c, enum column column, uint64_t v)
{
	unsigned shift;

	if (v < CLASS_LEAST) {
		put_byte(c, column, (uint8_t)v);
	} else if (v < ESCAPE_LEAST) {
		shift = log2_of(v) - 3;
		put_byte(c, column, (uint8_t)(8 * shift + (v >> shift)));
		put_bits(c, v & ((UINT64_C(1) << shift) - 1), shift);
	} else {
		put_byte(c, column, CLASS_ESCAPE);
		put_bits(c, v & UINT32_MAX, 32);
		put_bits(c, v >> 32, 32);
	}
}

static size_t varint_bytes(uint64_t v)
{
	return log2_of(v | 1) / 7 + 1;
}

static size_t run_bytes(const struct kedge__map_entry *e)
{
	size_t bytes = varint_bytes(e->gap << KEDGE__MAP_GAP_SHIFT) + (e->long_form ? varint_bytes(e->length) : 0);

	if (e->kind == KEDGE__EXTENT_COPY)
		bytes += (e->other ? varint_bytes(e->number) : 0) +
			 (e->in_bytes ? 1 + varint_bytes(e->difference)
				      : varint_bytes(e->difference << KEDGE__MAP_SOURCE_SHIFT));
	else if (e->kind == KEDGE__EXTENT_FILL)
		bytes += e->pattern == (e->pattern & 0xff) * UINT64_C(0x0101010101010101) ? 2 : 9;
	return bytes;
}

static void put_source(struct kedge__columns_out *c, const struct kedge__map_entry *e)
{
	unsigned flags = (e->other ? KEDGE__MAP_SOURCE_OTHER : 0) | (e->in_bytes ? KEDGE__MAP_SOURCE_BYTES : 0);

	c->sources |= (uint8_t)(flags << c->copies % 4 * SOURCE_BITS);
	if (++c->copies % 4 == 0) {
		put_byte(c, SOURCES, c->sources);
		c->sources = 0;
	}
	if (e->other)
		kedge__wire_put_varint(&c->w[NUMBERS], e->number);
	if (e->in_bytes)
		kedge__wire_put_varint(&c->w[REST], e->difference);
	else
		put_number(c, DIFFERENCES, e->difference);
}

void kedge__columns_put(struct kedge__columns_out *c, const struct kedge__map_entry *e)
{
	unsigned head = (unsigned)e->kind | (e->long_form ? KEDGE__MAP_LONG : 0);

	c->as_runs += run_bytes(e);
	c->heads |= (uint8_t)(head << c->entries % 2 * HEAD_BITS);
	if (++c->entries % 2 == 0) {
		put_byte(c, HEADS, c->heads);
		c->heads = 0;
	}
	put_number(c, GAPS, e->gap);
	if (e->long_form)
		kedge__wire_put_varint(&c->w[LENGTHS], e->length);
	if (e->kind == KEDGE__EXTENT_COPY)
		put_source(c, e);
	else if (e->kind == KEDGE__EXTENT_FILL)
		kedge__map_put_fill(&c->w[REST], e->pattern);
}

void kedge__columns_finish(struct kedge__columns_out *c, struct kedge__wire_out *out)
{
	if (c->entries % 2)
		put_byte(c, HEADS, c->heads);
	if (c->copies % 4)
		put_byte(c, SOURCES, c->sources);
	if (c->bit_count)
		put_byte(c, BITS, (uint8_t)c->bits);
	kedge__wire_put_varint(out, c->entries);
	for (size_t i = 0; i < COLUMN_COUNT; i++) {
		kedge__packed_put(out, c->text[i].at, c->text[i].count, ALLOWANCE);
		out->failed |= c->w[i].failed;
	}
}

/* ------------------------------------------------------------------ reading */

/* The string of bits, of which COUNT were taken out of IN. */
struct low_bits {
	struct kedge__wire_in in;
	uint64_t bits;
	unsigned count;
};

struct kedge__columns_in {
	uint8_t *text[COLUMN_COUNT];
	struct kedge__wire_in in[BITS]; /* the others */
	struct low_bits low;
	uint64_t left;   /* entries */
	uint64_t copies; /* so far */
	unsigned heads, sources;
	unsigned head_count; /* in HEADS */
	bool failed;
};

void kedge__columns_in_free(struct kedge__columns_in *c)
{
	for (size_t i = 0; c && i < COLUMN_COUNT; i++)
		kedge__free(c->text[i]);
	kedge__free(c);
}

int kedge__columns_in_new(struct kedge__wire_in *in, struct kedge__columns_in **out, struct kedge__error *err)
{
	struct kedge__columns_in *c = kedge__calloc(1, sizeof(*c));
	size_t n;
	int rc = c ? 0 : kedge__error_nomem(err);

	if (rc == 0)
		c->left = kedge__wire_get_varint(in);
	for (size_t i = 0; i < COLUMN_COUNT && rc == 0; i++) {
		rc = kedge__packed_get(in, ALLOWANCE, &c->text[i], &n, err);
		if (rc == 0)
			*(i == BITS ? &c->low.in : &c->in[i]) = kedge__wire_in_init(c->text[i], n);
	}
	/* An entry has a class of its gap. */
	if (rc == 0 && (in->failed || in->left != 0 || c->left != c->in[GAPS].left))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the columns have the wrong size");
	if (rc != 0) {
		kedge__columns_in_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

static unsigned byte_of(struct kedge__wire_in *in, bool *failed)
{
	if (in->left == 0) {
		*failed = true;
		return 0;
	}
	in->left--;
	return *in->at++;
}

static unsigned get_byte(struct kedge__columns_in *c, enum column column)
{
	return byte_of(&c->in[column], &c->failed);
}

/* More bits, as many as fit. False: there are not that many. */
static inline bool refill(struct low_bits *b)
{
	unsigned bytes = (63 - b->count) / 8;

	if (b->in.left < 8)
		return false;
	b->bits |= (kedge__get64(b->in.at) & ((UINT64_C(1) << 8 * bytes) - 1)) << b->count;
	b->count += 8 * bytes;
	b->in.at += bytes;
	b->in.left -= bytes;
	return true;
}

/* N, at most 32, of those that are there. */
static inline uint64_t take_bits(struct low_bits *b, unsigned n)
{
	uint64_t v = b->bits & ((UINT64_C(1) << n) - 1);

	b->bits >>= n;
	b->count -= n;
	return v;
}

static uint64_t get_bits(struct kedge__columns_in *c, unsigned n)
{
	struct low_bits *b = &c->low;

	if (b->count < n)
		(void)refill(b);
	while (b->count < n) {
		b->bits |= (uint64_t)byte_of(&b->in, &c->failed) << b->count;
		b->count += 8;
		if (c->failed)
			return 0;
	}
	return take_bits(b, n);
}

/* How many bits a number of the class leaves to their string; it is not an escape. */
static inline unsigned class_bits(unsigned class)
{
	return class < 2 * CLASS_LEAST ? 0 : class / 8 - 1;
}

static inline uint64_t class_number(unsigned class, uint64_t low)
{
	return class < CLASS_LEAST ? class : (uint64_t)(8 + class % 8) << class_bits(class) | low;
}

static uint64_t get_number(struct kedge__columns_in *c, enum column column)
{
	unsigned class = get_byte(c, column);
	uint64_t v;

	if (class <= CLASS_LAST)
		return class_number(class, get_bits(c, class_bits(class)));
	v = get_bits(c, 32);
	v |= get_bits(c, 32) << 32;
	c->failed |= class != CLASS_ESCAPE || v < ESCAPE_LEAST;
	return v;
}

static void get_source(struct kedge__columns_in *c, struct kedge__map_entry *e)
{
	if (c->copies++ % 4 == 0)
		c->sources = get_byte(c, SOURCES);
	e->other = c->sources & KEDGE__MAP_SOURCE_OTHER;
	e->in_bytes = c->sources & KEDGE__MAP_SOURCE_BYTES;
	c->sources >>= SOURCE_BITS;
	if (e->other)
		e->number = kedge__wire_get_varint(&c->in[NUMBERS]);
	e->difference = e->in_bytes ? kedge__wire_get_varint(&c->in[REST]) : get_number(c, DIFFERENCES);
	c->failed |= c->in[NUMBERS].failed | c->in[REST].failed;
}

uint64_t kedge__columns_left(const struct kedge__columns_in *c)
{
	return c->left;
}

/* The head of the next entry, which stays. */
static unsigned peek_head(struct kedge__columns_in *c)
{
	if (!c->head_count) {
		c->failed |= c->heads != 0;
		c->heads = get_byte(c, HEADS);
		c->head_count = 2;
	}
	return c->heads & ((1u << HEAD_BITS) - 1);
}

static void drop_head(struct kedge__columns_in *c)
{
	c->heads >>= HEAD_BITS;
	c->head_count--;
	c->left--;
}

/* How many entries, at most MOST, are chunks of literals by the heads that follow those which were read: two by a byte
 * that is zero. */
static size_t chunks_ahead(const struct kedge__columns_in *c, size_t most)
{
	const struct kedge__wire_in *in = &c->in[HEADS];
	size_t n = 0, bytes = KEDGE__MIN(in->left, KEDGE__MIN(most, c->left) / 2);

	if (c->head_count || c->heads)
		return 0;
	while (n + 8 <= bytes && !kedge__get64(in->at + n))
		n += 8;
	while (n < bytes && !in->at[n])
		n++;
	return 2 * n;
}

/* The numbers of N of them, as long as each has its bits in eight bytes that are there: how many. */
static size_t numbers_take(struct kedge__columns_in *c, uint64_t *gaps, size_t n)
{
	const uint8_t *class = c->in[GAPS].at;
	struct low_bits low = c->low; /* in registers */
	size_t i;

	for (i = 0; i < n && class[i] <= CLASS_LAST; i++) {
		unsigned bits = class_bits(class[i]);

		if (low.count < bits && !refill(&low))
			break;
		gaps[i] = class_number(class[i], take_bits(&low, bits));
	}
	c->low = low;
	return i;
}

/* Chunks of literals that can be taken in one go. */
static size_t chunks_take(struct kedge__columns_in *c, uint64_t *gaps, size_t most)
{
	size_t n = numbers_take(c, gaps, KEDGE__MIN(chunks_ahead(c, most), c->in[GAPS].left));

	c->in[GAPS].at += n;
	c->in[GAPS].left -= n;
	c->in[HEADS].at += n / 2;
	c->in[HEADS].left -= n / 2;
	c->left -= n;
	if (n % 2) { /* the second half of a byte is left */
		c->in[HEADS].at++;
		c->in[HEADS].left--;
		c->head_count = 1;
	}
	return n;
}

size_t kedge__columns_get_chunks(struct kedge__columns_in *c, uint64_t *gaps, size_t most)
{
	size_t n = 0;

	while (!c->failed) {
		n += chunks_take(c, gaps + n, most - n);
		if (n == most || !c->left || peek_head(c) != (unsigned)KEDGE__EXTENT_LITERAL)
			break;
		drop_head(c);
		gaps[n++] = get_number(c, GAPS);
	}
	return c->failed ? 0 : n;
}

bool kedge__columns_get(struct kedge__columns_in *c, struct kedge__map_entry *e)
{
	unsigned head = peek_head(c);

	drop_head(c);
	e->kind = (enum kedge__extent_kind)(head & ((1u << KEDGE__MAP_KIND_BITS) - 1));
	e->long_form = head & KEDGE__MAP_LONG;
	e->gap = get_number(c, GAPS);
	if (e->long_form) {
		e->length = kedge__wire_get_varint(&c->in[LENGTHS]);
		c->failed |= c->in[LENGTHS].failed;
	}
	if (e->kind == KEDGE__EXTENT_COPY)
		get_source(c, e);
	else if (e->kind == KEDGE__EXTENT_FILL)
		c->failed |= !kedge__map_get_fill(&c->in[REST], &e->pattern);
	return !c->failed;
}

bool kedge__columns_ended(const struct kedge__columns_in *c)
{
	for (size_t i = 0; i < BITS; i++)
		if (c->in[i].left != 0)
			return false;
	return !c->failed && c->heads == 0 && c->sources == 0 && c->low.in.left == 0 && c->low.bits == 0 &&
	       c->low.count < 8;
}
