/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deflate_codes: the prefix codes of a Deflate block (RFC 1951), for processors and for GPUs, whose threads compile the same
 * lines: what both make of the same counts cannot differ. Nothing here allocates or fails.
 */
#ifndef KEDGE_BASE_DEFLATE_CODES_H
#define KEDGE_BASE_DEFLATE_CODES_H

#ifdef __cplusplus
#define KEDGE__ON_BOTH static __device__ inline
#else
#define KEDGE__ON_BOTH static inline
#endif

#define KEDGE__DEFLATE_LITERALS  286 /* and lengths */
#define KEDGE__DEFLATE_END       256
#define KEDGE__DEFLATE_DISTANCES 30
#define KEDGE__DEFLATE_ALL       (KEDGE__DEFLATE_LITERALS + KEDGE__DEFLATE_DISTANCES) /* distances come behind */
#define KEDGE__DEFLATE_BITS      15                                                   /* of a code */
#define KEDGE__DEFLATE_LONGEST   258
#define KEDGE__DEFLATE_HEADER    96 /* words that the head of a block has at most */

/* A symbol, with the bits that follow its code. */
struct kedge__deflate_symbol {
	unsigned symbol, bits, extra;
};

/* Of V, which is not 0. */
KEDGE__ON_BOTH unsigned kedge__deflate_log2(unsigned v)
{
#ifdef __CUDA_ARCH__
	return 31u - (unsigned)__clz((int)v);
#else
	return 31u - (unsigned)__builtin_clz(v);
#endif
}

/* Of a length of 3 to 258. */
KEDGE__ON_BOTH struct kedge__deflate_symbol kedge__deflate_length(unsigned length)
{
	struct kedge__deflate_symbol s = {257 + length - 3, 0, 0};
	unsigned l = length - 3;

	if (length == KEDGE__DEFLATE_LONGEST) {
		s.symbol = 285;
	} else if (l >= 8) {
		s.bits = kedge__deflate_log2(l) - 2;
		s.symbol = 257 + 4 * (s.bits + 1) + (l >> s.bits & 3);
		s.extra = l & ((1u << s.bits) - 1);
	}
	return s;
}

/* Of a distance of 1 to 32768; 0 is the first symbol. */
KEDGE__ON_BOTH struct kedge__deflate_symbol kedge__deflate_distance(unsigned distance)
{
	struct kedge__deflate_symbol s = {distance - 1, 0, 0};
	unsigned d = distance - 1;

	if (d >= 4) {
		s.bits = kedge__deflate_log2(d) - 1;
		s.symbol = 2 * (s.bits + 1) + (d >> s.bits & 1);
		s.extra = d & ((1u << s.bits) - 1);
	}
	return s;
}

/* The first match of a run of LENGTH, which one cannot have; what is left is 0, or long enough for another. */
KEDGE__ON_BOTH unsigned kedge__deflate_piece(unsigned length)
{
	if (length <= KEDGE__DEFLATE_LONGEST)
		return length;
	return length - KEDGE__DEFLATE_LONGEST < 3 ? length - 3 : KEDGE__DEFLATE_LONGEST;
}

/* ------------------------------------------------------------------ lengths of codes */

struct kedge__deflate_tree { /* the leaves, in ascending order of their counts, and what joins them */
	unsigned weights[2 * KEDGE__DEFLATE_LITERALS];
	unsigned short parents[2 * KEDGE__DEFLATE_LITERALS];
	unsigned per[KEDGE__DEFLATE_BITS + 1]; /* codes of each length */
};

/* Parents of N leaves, two or more: the two lightest are joined, leaves first, until there is one. */
KEDGE__ON_BOTH void kedge__deflate_tree_make(struct kedge__deflate_tree *t, unsigned n)
{
	unsigned leaf = 0, inner = n;

	for (unsigned made = n; made < 2 * n - 1; made++) {
		unsigned weight = 0;

		for (int k = 0; k < 2; k++) {
			unsigned x = leaf < n && (inner >= made || t->weights[leaf] <= t->weights[inner]) ? leaf++ : inner++;

			weight += t->weights[x];
			t->parents[x] = (unsigned short)made;
		}
		t->weights[made] = weight;
	}
}

/* How many codes have each length, none of them more than MOST bits. */
KEDGE__ON_BOTH void kedge__deflate_tree_count(struct kedge__deflate_tree *t, unsigned n, unsigned most)
{
	unsigned used = 0;

	for (unsigned i = 0; i <= KEDGE__DEFLATE_BITS; i++)
		t->per[i] = 0;
	t->weights[2 * n - 2] = 0; /* from here on, depths */
	for (unsigned i = 2 * n - 2; i-- > 0;) {
		t->weights[i] = t->weights[t->parents[i]] + 1;
		if (i < n)
			t->per[t->weights[i] < most ? t->weights[i] : most]++;
	}
	for (unsigned i = 1; i <= most; i++)
		used += t->per[i] << (most - i);
	/* Those that were too long have more than there is: a shorter one becomes two, and one of them goes there. */
	for (; used > 1u << most; used--) {
		unsigned i = most - 1;

		while (!t->per[i])
			i--;
		t->per[i]--;
		t->per[i + 1] += 2;
		t->per[most]--;
	}
}

/* Lengths of the codes of N symbols, two or more, with these COUNTS; ORDER: ascending by count, then by symbol. Others have
 * a length of 0 already. */
KEDGE__ON_BOTH void kedge__deflate_lengths(struct kedge__deflate_tree *t, const unsigned *counts,
					   const unsigned short *order, unsigned n, unsigned most, unsigned char *lengths)
{
	unsigned k = 0;

	for (unsigned i = 0; i < n; i++)
		t->weights[i] = counts[order[i]];
	kedge__deflate_tree_make(t, n);
	kedge__deflate_tree_count(t, n, most);
	for (unsigned length = most; length; length--)
		for (unsigned i = 0; i < t->per[length]; i++)
			lengths[order[k++]] = (unsigned char)length;
}

/* At least two symbols have a count, so that there is a code: not all decoders accept less. */
KEDGE__ON_BOTH void kedge__deflate_two(unsigned *counts, unsigned symbols)
{
	unsigned used = 0;

	for (unsigned i = 0; i < symbols; i++)
		used += counts[i] != 0;
	for (unsigned i = 0; used < 2; i++) {
		used += !counts[i];
		counts[i] += !counts[i];
	}
}

/* The bits of V, which has 16, the other way round. */
KEDGE__ON_BOTH unsigned kedge__deflate_turned(unsigned v)
{
	v = (v >> 1 & 0x5555) | (v & 0x5555) << 1;
	v = (v >> 2 & 0x3333) | (v & 0x3333) << 2;
	v = (v >> 4 & 0x0f0f) | (v & 0x0f0f) << 4;
	return v >> 8 | (v & 0xff) << 8;
}

/* Codes of these LENGTHS, the first bit of each in bit 0, as it is written. */
KEDGE__ON_BOTH void kedge__deflate_codes(const unsigned char *lengths, unsigned symbols, unsigned short *codes)
{
	unsigned next[KEDGE__DEFLATE_BITS + 2], per[KEDGE__DEFLATE_BITS + 1];

	for (unsigned i = 0; i <= KEDGE__DEFLATE_BITS; i++)
		per[i] = 0;
	for (unsigned i = 0; i < symbols; i++)
		per[lengths[i]]++;
	next[1] = 0;
	for (unsigned i = 1; i <= KEDGE__DEFLATE_BITS; i++)
		next[i + 1] = (next[i] + per[i]) << 1;
	for (unsigned i = 0; i < symbols; i++) {
		codes[i] = 0;
		if (lengths[i])
			codes[i] = (unsigned short)(kedge__deflate_turned(next[lengths[i]]++) >> (16 - lengths[i]));
	}
}

/* ------------------------------------------------------------------ the head of a block */

struct kedge__deflate_bits {
	unsigned words[KEDGE__DEFLATE_HEADER];
	unsigned count; /* bits */
};

KEDGE__ON_BOTH void kedge__deflate_put(struct kedge__deflate_bits *b, unsigned value, unsigned bits)
{
	unsigned at = b->count / 32, shift = b->count % 32;

	b->words[at] |= value << shift;
	if (shift + bits > 32)
		b->words[at + 1] |= value >> (32 - shift);
	b->count += bits;
}

#define KEDGE__DEFLATE_RUNS 19 /* symbols of the code in which lengths of codes are written */

struct kedge__deflate_head {
	struct kedge__deflate_bits bits;
	unsigned counts[KEDGE__DEFLATE_RUNS];
	unsigned short order[KEDGE__DEFLATE_RUNS], codes[KEDGE__DEFLATE_RUNS];
	unsigned char lengths[KEDGE__DEFLATE_RUNS];
	unsigned char symbols[KEDGE__DEFLATE_ALL], extras[KEDGE__DEFLATE_ALL]; /* runs */
	unsigned runs;
	struct kedge__deflate_tree tree;
};

KEDGE__ON_BOTH void kedge__deflate_run(struct kedge__deflate_head *h, unsigned symbol, unsigned extra)
{
	h->symbols[h->runs] = (unsigned char)symbol;
	h->extras[h->runs++] = (unsigned char)extra;
	h->counts[symbol]++;
}

/* COUNT lengths of codes that are LENGTH, as runs. */
KEDGE__ON_BOTH void kedge__deflate_same(struct kedge__deflate_head *h, unsigned length, unsigned count)
{
	if (length && count) {
		kedge__deflate_run(h, length, 0);
		count--;
	}
	while (count) {
		unsigned most = length ? 6 : 138, n = count < most ? count : most;

		if (n < 3) {
			kedge__deflate_run(h, length, 0);
			count--;
			continue;
		}
		if (length)
			kedge__deflate_run(h, 16, n - 3);
		else
			kedge__deflate_run(h, n < 11 ? 17 : 18, n < 11 ? n - 3 : n - 11);
		count -= n;
	}
}

/* The code of the runs: few symbols, put in order as they come. */
KEDGE__ON_BOTH void kedge__deflate_runs_code(struct kedge__deflate_head *h)
{
	unsigned n = 0;

	kedge__deflate_two(h->counts, KEDGE__DEFLATE_RUNS);
	for (unsigned i = 0; i < KEDGE__DEFLATE_RUNS; i++) {
		unsigned k = n;

		h->lengths[i] = 0;
		if (!h->counts[i])
			continue;
		for (; k && h->counts[h->order[k - 1]] > h->counts[i]; k--)
			h->order[k] = h->order[k - 1];
		h->order[k] = (unsigned short)i;
		n++;
	}
	kedge__deflate_lengths(&h->tree, h->counts, h->order, n, 7, h->lengths);
	kedge__deflate_codes(h->lengths, KEDGE__DEFLATE_RUNS, h->codes);
}

/* The head of a block whose codes have these LENGTHS, KEDGE__DEFLATE_ALL of them; LAST: of the stream. */
KEDGE__ON_BOTH void kedge__deflate_head_make(struct kedge__deflate_head *h, const unsigned char *lengths, int last)
{
	static const unsigned char places[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
	unsigned literals = KEDGE__DEFLATE_LITERALS, distances = KEDGE__DEFLATE_DISTANCES, n = KEDGE__DEFLATE_RUNS, same = 0;

	for (unsigned i = 0; i < KEDGE__DEFLATE_HEADER; i++)
		h->bits.words[i] = 0;
	for (unsigned i = 0; i < KEDGE__DEFLATE_RUNS; i++)
		h->counts[i] = 0;
	h->bits.count = h->runs = 0;
	while (!lengths[literals - 1]) /* that of the end is never 0 */
		literals--;
	while (distances > 1 && !lengths[KEDGE__DEFLATE_LITERALS + distances - 1])
		distances--;
	for (unsigned i = 0; i < literals + distances; i += same) {
		const unsigned char *at = lengths + (i < literals ? 0 : KEDGE__DEFLATE_LITERALS - literals);
		unsigned end = i < literals ? literals : literals + distances;

		for (same = 1; i + same < end && at[i + same] == at[i];)
			same++;
		kedge__deflate_same(h, at[i], same);
	}
	kedge__deflate_runs_code(h);
	while (n > 4 && !h->lengths[places[n - 1]])
		n--;
	kedge__deflate_put(&h->bits, (last ? 1 : 0) | 2 << 1, 3);
	kedge__deflate_put(&h->bits, (literals - 257) | (distances - 1) << 5 | (n - 4) << 10, 14);
	for (unsigned i = 0; i < n; i++)
		kedge__deflate_put(&h->bits, h->lengths[places[i]], 3);
	for (unsigned i = 0; i < h->runs; i++) {
		unsigned s = h->symbols[i];

		kedge__deflate_put(&h->bits, h->codes[s], h->lengths[s]);
		if (s >= 16)
			kedge__deflate_put(&h->bits, h->extras[i], s == 16 ? 2 : s == 17 ? 3 : 7);
	}
}

#endif
